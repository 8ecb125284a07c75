"""Lost slices: an error, or the nearest slice or zeros in their place, with a report."""

import json
from pathlib import Path

import imagecodecs
import numpy as np
import pytest
import tifffile

import beam_volumes as bv
from beam_volumes.cli.main import main
from beam_volumes.storage.formats.format import PROVENANCE

N = 12
IMAGE = np.random.default_rng(5).integers(1, 255, (N, 10, 14)).astype("u1")


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def write(lost, suffix):
    """Slices s0 to s11 except the lost ones; the names of all."""
    names = [f"in/s{z:02}.{suffix}" for z in range(N)]
    Path("in").mkdir(exist_ok=True)
    for z in set(range(N)) - set(lost):
        if suffix == "png":
            Path(names[z]).write_bytes(imagecodecs.png_encode(IMAGE[z]))
        else:
            tifffile.imwrite(names[z], IMAGE[z], metadata=None)
    return names


def ome(lost):
    """A set of OME-TIFF files, one for each slice; the first that is there."""
    uuids = [f"urn:uuid:{k:032x}" for k in range(N)]
    data = "".join(
        f'<TiffData FirstZ="{z}" IFD="0"><UUID FileName="z{z}.ome.tif">{uuids[z]}</UUID></TiffData>'
        for z in range(N)
    )
    Path("ome").mkdir()
    there = [z for z in range(N) if z not in lost]
    for z in there:
        xml = (
            '<?xml version="1.0"?><OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06" '
            f'UUID="{uuids[z]}"><Image ID="Image:0"><Pixels ID="Pixels:0" DimensionOrder="XYZCT" '
            f'Type="uint8" SizeX="14" SizeY="10" SizeZ="{N}" SizeC="1" SizeT="1">'
            f'<Channel ID="Channel:0:0"/>{data}</Pixels></Image></OME>'
        )
        tifffile.imwrite(f"ome/z{z}.ome.tif", IMAGE[z], description=xml, metadata=None)
    return f"ome/z{there[0]}.ome.tif"


def wanted(lost, missing):
    """Slice by slice: the nearest that is there, the one before if two are as near."""
    out = IMAGE.copy()
    there = [z for z in range(N) if z not in lost]
    for z in lost:
        nearest = min(there, key=lambda k: (abs(k - z), k))
        out[z] = IMAGE[nearest] if missing == "repeat" else 0
    return out


#: One in the middle, several in a row, next to the ends.
INSIDE = ([5], [3, 4, 5, 6], [1, 2, 6, 10])
#: The ends themselves, which are only known from lists and metadata.
ENDS = ([0, 1, 2], [9, 10, 11], [0, 4, 5, 11])


@pytest.mark.parametrize("missing", ["repeat", "fill"])
@pytest.mark.parametrize("suffix", ["png", "tif"])
@pytest.mark.parametrize("lost", INSIDE, ids=str)
def test_numbers_that_are_left_out(lost, suffix, missing):
    names = write(lost, suffix)
    for place in ("in", f"in/*.{suffix}"):
        with pytest.raises(FileNotFoundError, match=rf"s{lost[0]:02}.*missing=\"repeat\""):
            bv.open(place)
        volume = bv.open(place, missing=missing)
        np.testing.assert_array_equal(volume, wanted(lost, missing))
    listed = bv.open(names, missing=missing)
    np.testing.assert_array_equal(listed, wanted(lost, missing))


@pytest.mark.parametrize("missing", ["repeat", "fill"])
@pytest.mark.parametrize("lost", ENDS, ids=str)
def test_a_list_and_a_set_of_files_tell_what_the_ends_lack(lost, missing):
    names = write(lost, "tif")
    with pytest.raises(FileNotFoundError, match="does not exist"):
        bv.open(names)
    np.testing.assert_array_equal(bv.open(names, missing=missing), wanted(lost, missing))
    first = ome(lost)
    with pytest.raises(OSError, match="pages are missing"):
        bv.open(first)
    np.testing.assert_array_equal(bv.open(first, missing=missing), wanted(lost, missing))


@pytest.mark.parametrize("missing", ["repeat", "fill"])
def test_every_partition_sees_the_same(missing):
    lost = [1, 4, 5, 6]
    names = write(lost, "png")
    first = ome(lost)
    whole = bv.compute(bv.gaussian_filter(wanted(lost, missing), 1))
    for k, place in enumerate(("in", names, first)):
        volume = bv.gaussian_filter(bv.open(place, missing=missing), 1)
        for depth in range(1 + k, N + 1, 3):
            found = bv.compute(volume, slab=(depth, 10, 14), runner=None)
            np.testing.assert_array_equal(found, whole)


def test_it_is_told_in_plans_and_beside_outputs(capsys):
    write([3, 4, 8], "png")
    recipe = "input: {path: in, missing: repeat}\noutput: out.zarr\nsteps: {invert: {}}\n"
    Path("recipe.yaml").write_text(recipe)
    assert main(["run", "recipe.yaml", "--dry-run"]) == 0
    says = "3 slices are missing: s03.png (s02.png instead), s04.png (s05.png instead), s08.png"
    assert says in capsys.readouterr().out
    assert main(["run", "recipe.yaml", "--runner", "none", "--quiet"]) == 0
    (told,) = json.loads(Path(f"out.zarr/{PROVENANCE}").read_text())["inputs"]
    assert told["lost"] == {"s03.png": "s02.png", "s04.png": "s05.png", "s08.png": "s07.png"}
    assert main(["info", "in", "--option", "missing=fill"]) == 0
    assert "s03.png (zeros instead)" in capsys.readouterr().out
    chain = ["chain", "in", "--missing", "repeat", "invert", "-o", "b.zarr", "--dry-run"]
    assert main(chain) == 0 and says in capsys.readouterr().out
    # Restored slices are another input.
    write([], "png")
    repeated = bv.open("in", missing="repeat")
    assert "lost" not in bv.plan(repeated.to("b.zarr")).explain(verbose=True)
    np.testing.assert_array_equal(repeated, IMAGE)


def test_what_cannot_be_meant():
    names = write([3], "png")
    with pytest.raises(ValueError, match=r"missing='skip'.*'error', 'repeat' or 'fill'"):
        bv.open("in", missing="skip")
    with pytest.raises(FileNotFoundError, match="does not exist"):
        bv.open([n.replace("in/", "out/") for n in names], missing="repeat")
    bv.compute(bv.open(IMAGE).to("a.zarr"), runner=None)
    with pytest.raises(ValueError, match=r"missing='repeat'.*use 'fill' or 'error'"):
        bv.open("a.zarr", missing="repeat")
    tifffile.imwrite("deep.tif", IMAGE)
    with pytest.raises(ValueError, match=r"gone\.tif does not exist.*only single slices"):
        bv.open(["deep.tif", "gone.tif"], missing="repeat")
