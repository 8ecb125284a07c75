"""Formats of a header and voxels: headers are not trusted."""

import gzip
import os
import pickle
import resource

import numpy as np
import pytest

import beam_volumes as bv
from beam_volumes.base.geometry import Box
from beam_volumes.base.space import Space
from beam_volumes.storage.inputs.opening import open_source
from beam_volumes.storage.outputs.sink import make_sink
from beam_volumes.storage.places.transfer import write_units
from tests.peers import peer

SHAPE = (5, 7, 9)
NAMES = ["a.mrc", "a.nii", "a.nii.gz", "a.nrrd", "a.mha"]
HEADERS = {"a.mrc": 1024, "a.nii": 352, "a.nrrd": 200, "a.mha": 260}


def voxels(shape=SHAPE):
    return np.random.default_rng(3).integers(-100, 100, shape).astype("i2")


def written(path, array=None, **space):
    array = voxels() if array is None else array
    volume = bv.open(array, **{"voxel_size": (4, 3, 2), "unit": "um", **space})
    bv.compute(volume.to(path), runner=None)
    return path


@pytest.mark.filterwarnings("ignore:.*right angles")
@pytest.mark.parametrize("name", [*HEADERS, "a.nii.gz", "a.img"])
def test_mutated_headers(tmp_path, name):
    """Any header gives a volume or one clear error, and takes no memory for missing voxels."""
    path = written(tmp_path / ("a.nii" if name in ("a.nii.gz", "a.img") else name))
    whole = bytearray(path.read_bytes())
    path = tmp_path / name
    if name == "a.img":
        (tmp_path / "a.nii").unlink()
        whole[344:348] = b"ni1\0"
        path.write_bytes(whole)
        path = tmp_path / "a.hdr"
    rng = np.random.default_rng(7)
    opened = refused = 0
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(250):
        data = bytearray(whole)
        for _ in range(int(rng.integers(1, 4))):
            at = int(rng.integers(0, HEADERS.get(name, 352)))
            size = int(rng.choice([1, 2, 4]))
            what = rng.choice(
                [bytes(size), b"\xff" * size, b"\x7f" * size, rng.bytes(size), b"9" * size]
            )
            data[at : at + size] = what
        path.write_bytes(gzip.compress(data, 1) if name == "a.nii.gz" else data)
        try:
            source = open_source(str(path))
            box = Box((0, 0, 0), tuple(min(2, n) for n in source.shape))
            source.read(box)
            opened += 1
        except (ValueError, OSError) as error:
            refused += 1
            assert "\n" not in str(error) and len(str(error)) < 2000
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - most
    assert opened and refused and most < 100 << 10  # KiB


@pytest.mark.parametrize("name", NAMES)
def test_cut_anywhere(tmp_path, name):
    path = written(tmp_path / name)
    whole = path.read_bytes()
    for size in [*range(0, len(whole) - 20, 37), len(whole) - 20]:
        path.write_bytes(whole[:size])
        with pytest.raises((OSError, ValueError), match=r"a\."):
            bv.open(path).node.source.read()


@pytest.mark.parametrize("name", NAMES)
def test_what_travels_is_small_and_the_same(tmp_path, name):
    source = open_source(str(written(tmp_path / name)))
    data = pickle.dumps(source)
    assert len(data) < 4000 and source.portable and not source.reader.remote
    other = pickle.loads(data)
    assert other.token() == source.token()
    assert np.array_equal(other.read(), voxels())
    moved = written(tmp_path / f"b{name}")
    assert open_source(str(moved)).token() != source.token()


@pytest.mark.parametrize("name", NAMES)
def test_an_output_may_not_be_its_input(tmp_path, name):
    path = written(tmp_path / name)
    with pytest.raises(ValueError, match=r"in place|is an input|lies in|is read"):
        bv.compute(bv.open(path).to(path), runner=None, overwrite=True)
    bv.compute(bv.open(path).to(tmp_path / f"b{name}"), runner=None)
    assert np.array_equal(np.asarray(bv.open(tmp_path / f"b{name}")), voxels())


@pytest.mark.parametrize("name", NAMES)
def test_options_for_groups_are_refused(tmp_path, name):
    path = written(tmp_path / name)
    for option in ({"dataset": "a"}, {"level": 1}):
        with pytest.raises(ValueError, match="and has none"):
            bv.open(path, **option)
    with pytest.raises(ValueError, match="has no axis 't'"):
        bv.open(path, index={"t": 1})


@pytest.mark.parametrize("name", [*NAMES, "a.nhdr", "a.mhd", "a.hdr", "a.img", "a.map.gz"])
def test_buckets_are_refused(name):
    with pytest.raises(ValueError, match="only read from a disk; copy it"):
        bv.open(f"memory://bucket/{name}")


@pytest.mark.parametrize("name", NAMES)
def test_what_is_no_file(tmp_path, name):
    (tmp_path / name).mkdir()
    with pytest.raises(ValueError, match="directory of an unknown format"):
        bv.open(tmp_path / name)
    os.mkfifo(tmp_path / f"b{name}")
    with pytest.raises(ValueError):
        bv.open(tmp_path / f"b{name}")
    with pytest.raises(FileNotFoundError):
        bv.open(tmp_path / f"c{name}")


def test_a_window_reads_what_it_needs(tmp_path):
    """Of a file of a gigabyte that holds nothing, rows of one plane are read at once."""
    path = written(tmp_path / "a.nii", np.zeros((1, 2, 2), "u1"))
    head = bytearray(path.read_bytes()[:352])
    head[42:48] = np.array([1000, 1000, 1000], "<i2").tobytes()
    head[40:42] = np.array([3], "<i2").tobytes()
    with open(path, "wb") as file:
        file.write(head)
        file.truncate(352 + 1000**3)
    source = open_source(str(path))
    assert source.chunk == (1, 1000, 1000) and source.nbytes == 1000**3
    assert not source.read(Box((500, 10, 10), (501, 20, 20))).any()


def test_from_one_to_another(tmp_path):
    """Voxels, their size and where they lie come through all formats."""
    path = written(tmp_path / "a.zarr", origin=(1, 2, 3))
    for name in (*NAMES, "b.zarr"):
        found = bv.open(path)
        path = tmp_path / f"next-{name}"
        bv.compute(found.to(path), runner=None)
    last = bv.open(path)
    assert np.array_equal(np.asarray(last), voxels())
    assert last.voxel_size == (4, 3, 2) and last.unit == "micrometer"


@pytest.mark.parametrize(
    "size, unit", [((40.5, 8, 3.3), "nm"), ((4.1, 3, 2), "um"), ((1, 0.5, 2), "mm")]
)
def test_lengths_survive(tmp_path, size, unit):
    told = bv.open(voxels(), voxel_size=size, unit=unit, origin=(7, 0.25, -3.3))
    for name in NAMES:
        bv.compute(told.to(tmp_path / name), runner=None)
        # Volumes that lie differently are not added.
        assert np.array_equal(np.asarray(bv.open(tmp_path / name) + told), 2 * voxels())


def stored(path, array, leading, names=(), **space):
    """Write an array of these leading axes without a plan, a part after another."""
    before, shape = array.shape[: len(leading)], array.shape[len(leading) :]
    times = before[0] if leading[0] == "t" else 0
    space = Space(leading=leading, channels=names, times=times, **space)
    sink = make_sink(path, shape=shape, dtype=array.dtype, space=space, leading=before)
    sink.create("run")
    count = before[0] if leading[0] == "t" else 1  # parts are those of the first time point
    for part in [p.at_time(k) if count > 1 else p for k in range(count) for p in sink.parts][::-1]:
        write_units(part.open(), Box((0, 0, 0), shape), array[part.at]).result()
    sink.finish("run")
    assert np.array_equal(sink.read_back().read(), array)
    return open_source(str(path))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("leading", ["t", "c", "tc"])
def test_points_in_time_and_channels(tmp_path, name, leading):
    array = voxels(((3,) if len(leading) == 1 else (3, 2)) + SHAPE)
    path = tmp_path / name
    if "c" in leading and name == "a.mrc":
        with pytest.raises(ValueError, match="stores time points, but no channels; select one"):
            stored(path, array, tuple(leading))
        return
    if "c" in leading and name == "a.mha":  # whose units have all channels
        volume = bv.open(array, axes=f"{leading}zyx", voxel_size=(4, 3, 2), unit="micrometer")
        bv.compute(volume.to(path), runner=None)
        source = open_source(str(path))
    else:
        source = stored(path, array, tuple(leading), voxel_size=(4, 3, 2), unit="micrometer")
    assert source.space.leading == tuple(leading) and source.leading == array.shape[:-3]
    assert np.array_equal(source.read(), array)
    assert source.space.in_unit("micrometer").voxel_size == (4, 3, 2)
    if name == "a.mrc":
        found = pytest.importorskip("mrcfile").open(path).data
    elif name == "a.nrrd":
        found = pytest.importorskip("nrrd").read(str(path))[0].T
    elif name == "a.mha":
        sitk = peer("SimpleITK")
        found = sitk.GetArrayFromImage(sitk.ReadImage(str(path)))
        if "c" in leading:
            found = np.moveaxis(found, -1, array.ndim - 4)
    else:
        found = np.asarray(pytest.importorskip("nibabel").load(path).dataobj).T
        if "c" in leading:  # the fifth dimension, behind time
            found = found[:, 0] if leading == "c" else found.swapaxes(0, 1)
    assert np.array_equal(found, array)


@pytest.mark.parametrize("name", ["a.nii", "a.nii.gz", "a.nrrd"])
def test_channels_come_through_a_filter(tmp_path, name):
    array = voxels((3, *SHAPE))
    volume = bv.open(array) + 1
    back = bv.compute(volume.to(tmp_path / name), runner=None)
    for found in (back, bv.open(tmp_path / name)):
        assert found.axes == ("c", "z", "y", "x")
        assert np.array_equal(np.asarray(found), array + 1)
        assert np.array_equal(np.asarray(found[1]), array[1] + 1)
    assert bv.verify(tmp_path / name, checksums=True) == []


@pytest.mark.parametrize("name", NAMES)
def test_points_in_time_come_through_a_filter(tmp_path, name):
    array = voxels((3, *SHAPE))
    stored(tmp_path / name, array, ("t",))
    series = bv.open(tmp_path / name)
    assert series.axes == ("t", "z", "y", "x")
    back = bv.compute((series + 1).to(tmp_path / f"b{name}"), runner=None)
    for found in (back, bv.open(tmp_path / f"b{name}")):
        assert found.axes == ("t", "z", "y", "x")
        assert np.array_equal(np.asarray(found), array + 1)
    assert bv.verify(tmp_path / f"b{name}", checksums=True) == []


def test_a_stream_says_what_it_costs(tmp_path):
    path = written(tmp_path / "a.nii.gz")
    assert "one gzip stream" in bv.plan(bv.open(path).to(tmp_path / "b.zarr")).explain(verbose=True)
    assert open_source(str(written(tmp_path / "a.nii"))).remark == ""
