"""Raw chunks are read straight to a device: a fake one, with a fake kvikio."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorstore as ts
import tifffile
from hypothesis import given, settings
from hypothesis import strategies as st

import beam_volumes as bv
from beam_volumes.plan.cut import segments
from beam_volumes.plan.planner import make_plan
from beam_volumes.plan.run_options import RunOptions
from beam_volumes.storage.sources.raw import raw_chunks
from beam_volumes.sweep.device import DRIVER_BYTES
from beam_volumes.sweep.direct import reason_against
from tests import catalogue as cat
from tests.sweep.fake_device import FakeCuda, FakeKvikio, pretended
from tests.tiers import examples, thorough

HOW = {"device": "cuda", "device_memory": "1GiB", "runner": None, "progress": False}


def stored(path, x, chunks, version=3, fill=None, separator="/"):
    """Write uncompressed chunks; those that equal the fill value are not stored."""
    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(path)}}
    spec["metadata"] = {"shape": x.shape, "fill_value": fill}
    if version == 2:
        spec["driver"] = "zarr"
        spec["metadata"] |= {"chunks": chunks, "dtype": x.dtype.str, "compressor": None}
        spec["metadata"]["dimension_separator"] = separator
    else:
        grid = {"name": "regular", "configuration": {"chunk_shape": chunks}}
        key = {"name": "default", "configuration": {"separator": separator}}
        spec["metadata"] |= {"chunk_grid": grid, "data_type": x.dtype.name, "codecs": ["bytes"]}
        spec["metadata"] |= {"chunk_key_encoding": key}
        spec["metadata"]["fill_value"] = fill or 0
    ts.open(spec, create=True, delete_existing=True).result().write(x).result()
    return str(path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("raw")


@thorough
@settings(max_examples=examples(25), deadline=None)
@given(data=st.data())
def test_raw_chunks_are_read_straight_to_the_device_with_the_same_bits(folder, data):
    draw = data.draw
    shape = tuple(draw(st.integers(3, 17)) for _ in range(3))
    dtype = draw(st.sampled_from(["u1", "f4", "f8"]))
    x, fill = cat.voxels(shape, dtype, draw(st.integers(0, 9))), draw(st.sampled_from([None, 7]))
    x[: draw(st.integers(0, shape[0])), : draw(st.integers(0, shape[1]))] = fill or 0
    chunks = [draw(st.integers(1, 8)) for _ in range(3)]
    version, separator = draw(st.sampled_from([2, 3])), draw(st.sampled_from("/."))
    v = bv.open(stored(folder / "x.zarr", x, chunks, version, fill, separator))
    z, y = draw(st.integers(0, 2)), draw(st.integers(0, 2))
    mode = draw(st.sampled_from(["reflect", "constant", "nearest"]))
    v = bv.maximum_filter(v[z:, y:], (3, 1, draw(st.integers(1, 4))), mode=mode, cval=3)
    slab = tuple(draw(st.integers(-(-n // 3), n)) for n in v.shape)
    how = {"slab": slab, "window": draw(st.integers(1, 6)), "workers": draw(st.integers(1, 2))}
    cuda = FakeCuda(seed=draw(st.integers(0, 99)))
    with pretended(cuda), FakeKvikio().installed() as kvikio:
        plan = make_plan([v], RunOptions(device="cuda", in_memory_results=True, **how))
        found = bv.compute(v, **HOW, **how)
    assert np.asarray(found).tobytes() == np.asarray(bv.compute(v, runner=None, **how)).tobytes()
    assert plan.uses_device and "is read straight to the device" in plan.explain()
    assert cuda.to == 0 and cuda.peak <= plan.predicted_device_memory
    assert kvikio.read <= sum(p.bytes_read for p in plan.passes)


def filtered(folder, **how):
    x = cat.voxels((9, 20, 30), "u2", 0)
    path = folder / "v.zarr"
    target = bv.open(x).to(path, **{"chunks": (4, 8, 16), "codec": "none", **how})
    bv.compute(target, runner=None, overwrite=True, progress=False)
    return bv.maximum_filter(bv.open(path), 3)


def test_plans_show_how_a_device_reads_and_why(folder):
    def shown(volume, gds=True):
        with FakeKvikio(gds=gds).installed():
            text = bv.plan(volume, device="cuda", device_memory="1GiB").explain()
        (line,) = (
            line for line in text.splitlines() if "v.zarr is read " in line and " times" not in line
        )
        return line.partition("v.zarr is read ")[2]

    raw = filtered(folder)
    assert shown(raw) == "straight to the device, by GPUDirect Storage"
    assert shown(raw, gds=False).startswith("straight to the device, by kvikio's POSIX reads")
    same = bv.open(folder / "v.zarr")
    assert shown(raw + bv.sin(same)) == "through the host: the host uses it, too"
    assert (
        shown(filtered(folder, codec="zstd")) == "through the host: its chunks are encoded by zstd"
    )
    assert shown(filtered(folder, codec="zstd", zarr_version=2)).endswith("are compressed")
    assert shown(filtered(folder, shards=(8, 16, 32))).endswith("its chunks are in shards")
    raw = filtered(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "kvikio", None)
        text = bv.plan(raw, device="cuda", device_memory="1GiB").explain()
        assert "the package kvikio is missing; install it with: pip install 'beam-vol" in text
        with pretended() as cuda:
            found = bv.compute(raw, **HOW)
    assert cuda.to > 0
    assert (np.asarray(found) == np.asarray(bv.compute(raw, runner=None))).all()


def test_chunks_are_read_through_the_host_if_the_device_has_no_room_for_them(folder):
    v = bv.maximum_filter(filtered(folder, chunks=(9, 20, 30)), 3)
    how = {"slab": (3, 20, 30), "window": 1, "workers": 1}
    with pretended(), FakeKvikio().installed() as kvikio:
        with pytest.raises(ValueError, match="device_memory") as refused:
            bv.plan(v, device="cuda", device_memory=5000, **how)
        memory = int(re.search(r"device_memory of (\d+) bytes", str(refused.value))[1])
        assert memory < DRIVER_BYTES + 4 * v.nbytes  # of the buffers for chunks
        reads = "v.zarr is read through the host: device_memory= is too small for its chunks"
        assert reads in bv.plan(v, device="cuda", device_memory=memory, **how).explain()
        found = bv.compute(v, **{**HOW, **how, "device_memory": memory})
        assert not kvikio.read
        more = bv.plan(v, device="cuda", device_memory=8 * memory, **how)
    assert "v.zarr is read straight to the device" in more.explain()
    assert np.asarray(found).tobytes() == np.asarray(bv.compute(v, runner=None, **how)).tobytes()


def test_channels_with_chunks_of_their_own_are_read_straight(tmp_path):
    x = cat.voxels((2, 5, 9, 8), "u1", 0)
    both = bv.stack([bv.open(x[0]), bv.open(x[1])])
    bv.compute(both.to(tmp_path / "c.ome.zarr", chunks=(4, 4, 4), codec="none"), runner=None)
    v = bv.maximum_filter(bv.open(tmp_path / "c.ome.zarr"), 3)
    with pretended() as cuda, FakeKvikio().installed() as kvikio:
        found = bv.compute(v, **HOW)
    assert kvikio.read and not cuda.to
    assert (np.asarray(found) == np.asarray(bv.compute(v, runner=None))).all()


def page_by_page(path, x, **how):
    with tifffile.TiffWriter(path) as file:
        for page in x:
            file.write(page, contiguous=False, metadata=None, **how)


def sparse(path, x, **how):
    """Tiles without voxels are not stored."""
    x[1:3, :, 16:32] = 0
    tiles = (
        tile if tile.any() else None
        for page in np.pad(x, ((0, 0), (0, 8), (0, 14)))
        for row in np.split(page, 3)
        for tile in np.split(row, 4, axis=1)
    )
    tifffile.imwrite(path, tiles, shape=x.shape, dtype=x.dtype, tile=(16, 16))


ZYX = {"metadata": {"axes": "ZYX"}}


@pytest.mark.parametrize(
    ("write", "how"),
    [
        (tifffile.imwrite, {"tile": (16, 32)}),
        (tifffile.imwrite, {"tile": (32, 16), "bigtiff": True, "ome": True, **ZYX}),
        (tifffile.imwrite, {"imagej": True, **ZYX}),
        (tifffile.imwrite, {"rowsperstrip": 7}),
        (page_by_page, {}),
        (page_by_page, {"tile": (16, 16)}),
        (sparse, {}),
    ],
)
def test_plain_tiles_and_pages_of_tiff_are_read_straight_to_the_device(tmp_path, write, how):
    x = cat.voxels((5, 40, 50), "u2", 0)
    write(tmp_path / "v.tif", x, **how)
    v = bv.maximum_filter(bv.open(tmp_path / "v.tif")[1:, 3:], 3)
    cut = {"slab": (2, 20, 50), "window": 2}
    with pretended() as cuda, FakeKvikio().installed() as kvikio:
        plan = bv.plan(v, device="cuda", **cut)
        found = bv.compute(v, **HOW, **cut)
    assert "v.tif is read straight to the device" in plan.explain()
    assert not cuda.to and 0 < kvikio.read <= sum(p.bytes_read for p in plan.passes)
    assert np.asarray(found).tobytes() == np.asarray(bv.compute(v, runner=None, **cut)).tobytes()
    x = tifffile.imread(tmp_path / "v.tif")[1:, 3:]
    assert (np.asarray(found) == np.asarray(bv.compute(bv.maximum_filter(x, 3)))).all()


def test_separate_channels_of_tiff_are_read_straight_to_the_device(tmp_path):
    x = cat.voxels((3, 40, 50), "u1", 0)
    planes = {"planarconfig": "separate", "photometric": "rgb", "tile": (16, 16)}
    tifffile.imwrite(tmp_path / "c.tif", x, **planes)
    v = bv.maximum_filter(bv.open(tmp_path / "c.tif"), 3)
    with pretended() as cuda, FakeKvikio().installed() as kvikio:
        found = bv.compute(v, **HOW)
    assert kvikio.read and not cuda.to
    assert (np.asarray(found) == np.asarray(bv.compute(v, runner=None))).all()


def test_other_pages_of_tiff_are_read_through_the_host(tmp_path):
    x = cat.voxels((5, 40, 50), "u2", 0)

    def reason(write=tifffile.imwrite, x=x, **how):
        write(tmp_path / "o.tif", x, **how)
        found = raw_chunks(bv.open(tmp_path / "o.tif").nodes[0].source)
        return found if isinstance(found, str) else ""

    assert reason() == ""
    assert reason(byteorder=">") == "its voxels are stored as >u2, not as uint16"
    assert reason(compression="zlib", tile=(16, 16)) == "its tiles are encoded"
    assert reason(page_by_page, rowsperstrip=7) == "its pages consist of several strips"
    assert reason(tile=(64, 64)) == "its tiles are larger than its pages"
    colours = {"x": np.stack([x[0].astype("u1")] * 3, axis=-1), "photometric": "rgb"}
    assert reason(**colours).startswith("its tiles contain several channels")
    tifffile.imwrite(tmp_path / "o.tif", x, tile=(16, 16))
    v = bv.maximum_filter(bv.open(tmp_path / "o.tif"), 3)
    cut = (tmp_path / "o.tif").read_bytes()
    (tmp_path / "o.tif").write_bytes(cut[:-100])
    with (
        pretended(),
        FakeKvikio().installed(),
        pytest.raises(OSError, match=r"o.tif .*damaged"),
    ):
        bv.compute(v, **HOW)


def test_errors_of_direct_reads_name_the_file(folder):
    v = filtered(folder)
    chunk = Path(folder / "v.zarr/c/1/0/1")
    broken = RuntimeError("cuFile failed")
    with (
        pretended(),
        FakeKvikio(fails=broken).installed(),
        pytest.raises(OSError, match=r"0/0/0 cannot be read to the device: cuFile failed"),
    ):
        bv.compute(v, **HOW)
    chunk.write_bytes(chunk.read_bytes()[:-1])
    with (
        pretended(),
        FakeKvikio().installed(),
        pytest.raises(OSError, match=r"v.zarr/c/1/0/1 has 1,023 bytes instead of 1,024"),
    ):
        bv.compute(v, **HOW)
    chunk.unlink()
    v = bv.maximum_filter(bv.open(folder / "v.zarr", missing="error"), 3)
    with (
        pretended(),
        FakeKvikio().installed(),
        pytest.raises(OSError, match=r"c/1/0/1, a chunk of the volume, is missing"),
    ):
        bv.compute(v, **HOW)


@thorough
def test_a_worker_without_kvikio_is_an_error_or_computes_on_the_host(folder, monkeypatch, caplog):
    filtered(folder)
    ranked = bv.median_filter(bv.open(folder / "v.zarr"), 9)
    monkeypatch.setitem(sys.modules, "kvikio", None)
    monkeypatch.setattr(segments, "reason_against", lambda source: "")  # where it was planned
    needed = "v.zarr straight to the device: the package kvikio is missing; install it with: pip"
    with pretended(), pytest.raises(OSError, match=needed):
        bv.compute(ranked, **HOW)
    with pretended():
        found = bv.compute(ranked, **{**HOW, "device": "auto"}, threads=2)
    assert "is computed on the host: " in caplog.text and needed in caplog.text
    assert (np.asarray(found) == np.asarray(bv.compute(ranked, runner=None))).all()


def test_other_arrays_are_read_through_the_host(folder):
    x = cat.voxels((4, 6, 8), "u2", 1)

    def reason(x=x, **metadata):
        path = stored(folder / "o.zarr", x, [2, 4, 4], **metadata)
        found = raw_chunks(bv.open(path).node.source)
        return found if isinstance(found, str) else ""

    assert reason() == reason(version=2) == ""
    spec = {"driver": "zarr", "kvstore": f"file://{folder}/o.zarr/"}
    swapped = x.astype(">u2")
    assert reason(x=swapped, version=2) == "its voxels are stored as >u2, not as uint16"
    partial = {"shape": x.shape, "chunks": [2, 4, 4], "dtype": ">u2"}
    known = raw_chunks(bv.open({**spec, "metadata": partial}).node.source)
    assert known == "its specification does not describe how chunks are stored"
    assert reason() == ""
    store = ts.open({**spec, "driver": "zarr3"}).result()
    for view in (store.T, store[:, ::2], store[[0, 2]], store[1:]):
        view = bv.open({k: v for k, v in view.spec().to_json().items() if k != "dtype"})
        assert "or are not along z, y and x" in raw_chunks(view.node.source)
    with FakeKvikio().installed():
        assert reason_against(bv.open(x).node.source) == "it is in memory"
