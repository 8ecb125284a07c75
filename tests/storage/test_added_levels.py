"""`add_levels` and `beam-volumes downsample`: stored volumes get the levels of new ones."""

import json

import numpy as np
import pytest
import zarr

import beam_volumes as bv
from beam_volumes.cli.main import main
from beam_volumes.drive import add_levels as adding
from beam_volumes.session.session import Session
from tests.storage.test_pyramids import BLOBS, VOXELS, opened, rng
from tests.tiers import thorough

IMAGE = bv.open(VOXELS, voxel_size=(30, 10, 10), unit="nm", origin=(0, 20, 30))
MAX = ("--levels", "3", "--method", "max", "--factors", "2")
CELLS = bv.label(bv.open(BLOBS, voxel_size=(30, 10, 10), unit="nm"))


def without_run(metadata):
    """Metadata without names of a run, a level's folder, or this program."""
    text = json.dumps(metadata, sort_keys=True)
    found = json.loads(text)
    for own in (found, found.get("attributes", {})):
        own.get("beam_volumes", {}).pop("run", None)
    for scale in found.get("scales", ()):
        scale["key"] = scale["key"].rpartition("/")[2]
    return found


@pytest.mark.parametrize("name, how", [
    pytest.param("x.ome.zarr", {"chunks": (4, 8, 8)}, marks=thorough),
    ("x.ome.zarr", {"ome_version": "0.4", "chunks": 8, "codec": "blosc"}),
    ("x.ome.zarr", {"shards": (8, 16, 16), "chunks": (4, 8, 8), "codec": {"name": "gzip", "level": 3}}),
    pytest.param("x.precomputed", {"chunks": 8}, marks=thorough),
    ("x.precomputed", {"chunks": 8, "shards": True}),
])  # fmt: skip
def test_levels_are_those_of_a_pyramid(name, how, tmp_path):
    """The same voxels and the same metadata as if they had been written at once."""
    for which, v in (("image", IMAGE), ("cells", CELLS)):
        one, whole = tmp_path / f"{which}-{name}", tmp_path / f"whole-{which}-{name}"
        bv.compute(v.to(one, **how), v.to(whole, levels=3, **how), runner=None)
        found = bv.add_levels(one, 3)
        assert len(found) == 2
        for k in range(3):
            got, want = bv.open(one, level=k), bv.open(whole, level=k)
            assert np.array_equal(np.asarray(got), np.asarray(want)), k
            assert got.space == want.space and got.chunks == want.chunks
        document = next(n for n in ("info", "zarr.json", ".zattrs") if (one / n).exists())
        got, want = (json.loads((p / document).read_text()) for p in (one, whole))
        if document == "zarr.json":
            got["attributes"]["ome"]["multiscales"][0]["name"] = f"whole-{which}-x"
        elif document == ".zattrs":
            got["multiscales"][0]["name"] = f"whole-{which}-x"
        assert without_run(got) == without_run(want)
        assert (
            bv.verify(one, checksums=True) == bv.verify(f"{one}.levels.run", checksums=True) == []
        )


def test_the_command_refuses_resumes_and_tells(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    bv.compute(IMAGE.to("x.ome.zarr", chunks=8), runner=None)
    before = (tmp_path / "x.ome.zarr/zarr.json").read_text()
    # Levels are there, and not yet in the metadata.
    monkeypatch.setattr(adding.Adding, "done", lambda self: 1 / 0)
    assert main(["downsample", "x.ome.zarr", *MAX]) == 1
    assert (tmp_path / "x.ome.zarr/zarr.json").read_text() == before
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    capsys.readouterr()
    assert main(["downsample", "x.ome.zarr", *MAX]) == 2
    assert "--resume" in capsys.readouterr().err
    assert main(["downsample", "x.ome.zarr", *MAX, "--resume"]) == 0
    assert len(bv.add_levels("x.ome.zarr", 3, method="max", factors=2, resume=True)) == 2
    want = np.asarray(bv.downsample(bv.downsample(IMAGE, 2, "max"), 2, "max"))
    assert np.array_equal(np.asarray(bv.open("x.ome.zarr", level=2)), want)
    assert main(["downsample", "x.ome.zarr"]) == 2
    assert "x.ome.zarr already has 3 levels (0, 1, 2)" in capsys.readouterr().err
    assert main(["downsample", "x.ome.zarr", "--resume"]) == 0
    bv.compute(IMAGE.to("y.precomputed"), IMAGE.to("z.zarr"), runner=None)
    assert (
        main(["downsample", "y.precomputed", "--factors", "1,2,2;2", "--levels", "3", "--dry-run"])
        == 0
    )
    assert "1 pass, 1 slab" in capsys.readouterr().out
    assert main(["downsample", "y.precomputed", "--factors", "1,2,2;2", "--levels", "3"]) == 0
    assert bv.open("y.precomputed", level=2).shape == (10, 7, 9)
    assert main(["downsample", "z.zarr"]) == 2
    assert "neither OME-Zarr nor precomputed" in capsys.readouterr().err
    bv.compute(IMAGE.to("small.ome.zarr"), runner=None)
    assert main(["downsample", "small.ome.zarr"]) == 2
    assert "256 voxels or less" in capsys.readouterr().err


def test_a_run_that_was_stopped_is_continued_from_its_folder(tmp_path, monkeypatch, capsys):
    x = tmp_path / "x.precomputed"
    bv.compute(IMAGE.to(x, chunks=8), runner=None)
    for stops in ((Session, "end"), (adding.Adding, "done")):
        monkeypatch.setattr(*stops, lambda self: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            bv.add_levels(x, 2, factors=2, overwrite=True, runner=None)
        assert len(json.loads((x / "info").read_text())["scales"]) == 1
        monkeypatch.undo()
        assert main(["resume", f"{x}.levels.run"]) == 0
        assert bv.open(x, level=1).shape == (10, 14, 17)
        info = json.loads((x / "info").read_text())
        (x / "info").write_text(json.dumps({**info, "scales": info["scales"][:1]}))


def test_what_other_programs_wrote(tmp_path):
    """Five axes of which some have one point, a name of their own for levels, metadata put together."""
    array = rng.integers(0, 255, (1, 3, 5, 17, 19)).astype("u2")
    for version in (2, 3):
        group = zarr.open_group(tmp_path / f"v{version}.zarr", mode="w", zarr_format=version)
        made = group.create_array("s0", data=array[:, :version], chunks=(1, 1, 4, 8, 8))
        assert made.shape[1] == version
        scale = [2.0, 1.0, 4.0, 0.5, 0.5]
        image = {
            "axes": [
                {"name": n, "type": {"t": "time", "c": "channel"}.get(n, "space")} for n in "tczyx"
            ],
            "datasets": [
                {"path": "s0", "coordinateTransformations": [{"type": "scale", "scale": scale}]}
            ],
        }
        if version == 2:
            group.attrs["multiscales"] = [{"version": "0.4", **image}]
        else:
            group.attrs["ome"] = {"version": "0.5", "multiscales": [image]}
        zarr.consolidate_metadata(tmp_path / f"v{version}.zarr")
        where = tmp_path / f"v{version}.zarr"
        bv.add_levels(where, 3, method="nearest", factors=(1, 2, 2))
        again = zarr.open_consolidated(where)
        want = array[:, :version, :, ::4, ::4]
        assert np.array_equal(again["s2"][:], want) and again["s2"].chunks == (1, 1, 4, 5, 5)
        about = dict(again.attrs)
        (image,) = about.get("ome", about)["multiscales"]
        assert [d["path"] for d in image["datasets"]] == ["s0", "s1", "s2"]
        assert image["datasets"][2]["coordinateTransformations"] == [
            {"type": "scale", "scale": [2.0, 1.0, 4.0, 2.0, 2.0]}
        ]
    odd = tmp_path / "odd.zarr"
    group = zarr.open_group(odd, mode="w", zarr_format=3)
    group.create_array("0", data=array[0, 0], chunks=(4, 8, 8))
    image = {"axes": [{"name": n, "type": "space"} for n in "xyz"], "datasets": [{"path": "0"}]}
    group.attrs["ome"] = {"version": "0.5", "multiscales": [image]}
    with pytest.raises(ValueError, match="has the axes x, y, z, and levels are written as"):
        bv.add_levels(odd, 2)


def test_every_time_and_channel_has_levels(tmp_path):
    v = opened(rng.integers(0, 255, (2, 3, 4, 8, 9)).astype("u1"), "tczyx", tmp_path / "t.zarr")
    bv.compute(v.to(tmp_path / "a.ome.zarr", chunks=4), runner=None)
    bv.compute(v.to(tmp_path / "b.ome.zarr", chunks=4, levels=2), runner=None)
    bv.add_levels(tmp_path / "a.ome.zarr", 2)
    a, b = (zarr.open_array(tmp_path / f"{n}.ome.zarr/1", mode="r")[:] for n in "ab")
    assert a.shape == (2, 3, 4, 4, 5) and np.array_equal(a, b)


@pytest.mark.parametrize("ome_version", ["0.4", "0.5"])
@pytest.mark.parametrize(
    ("axes", "shape"), [("tczyx", (1, 1, 6, 9, 9)), ("tczyx", (2, 1, 6, 9, 9)), ("cyx", (1, 9, 9))]
)
def test_axes_with_one_index_have_levels(tmp_path, axes, shape, ome_version):
    """Levels that are written with the volume, and levels that are added, with windows of intensities."""
    voxels = rng.integers(0, 99, shape).astype("u2")
    volume = bv.open(voxels, axes=axes)
    for levels in (2, 1):
        path = tmp_path / f"{levels}" / "a.ome.zarr"
        bv.compute(volume.to(path, levels=levels, ome_version=ome_version), runner=None)
        if levels == 1:
            bv.add_levels(path, 2)
        np.testing.assert_array_equal(bv.open(path), voxels, strict=True)
        assert bv.open(path, level=1).axes == tuple(axes)
        attributes = dict(zarr.open_group(path).attrs)
        assert len(attributes.get("ome", attributes)["omero"]["channels"]) == 1
