"""Predicted I/O against TensorStore's own counters: exact, chunk by chunk and unit by unit."""

import numpy as np
import pytest
import tensorstore as ts
from scipy import ndimage as ndi

import beam_volumes as bv


def counted(prefix: str) -> dict[str, int]:
    metrics = ts.experimental_collect_matching_metrics(prefix)
    return {m["name"]: sum(v.get("value", v.get("count", 0)) for v in m["values"]) for m in metrics}


def file_counts(work) -> dict[str, int]:
    prefix = "/tensorstore/kvstore/file/"
    before = counted(prefix)
    work()
    after = counted(prefix)
    return {k.removeprefix(prefix): after[k] - before.get(k, 0) for k in after}


def stored(path, shape, chunks, dtype="u1", **how):
    """An uncompressed zarr of noise without zeros, so that every chunk exists."""
    a = np.random.default_rng(0).integers(1, 255, shape).astype(dtype)
    return a, bv.compute(
        bv.open(a).to(path, chunks=chunks, codec=None, **how), runner=None, journal=f"{path}.j"
    )


def chain(v):
    """Halo 25 = 12 + 8 + 4 + 1 along every axis."""
    v = bv.gaussian_filter(v, 3, radius=12)
    v = bv.gaussian_filter(v, 2, radius=8)
    return bv.maximum_filter(bv.uniform_filter(v, 9), 3)


CASES = {
    "whole": dict(shape=(64, 96, 80), source=(16, 32, 40), slab=(64, 96, 80), chunks=(16, 48, 40)),
    "slabs": dict(shape=(64, 96, 80), source=(16, 32, 40), slab=(16, 96, 80), chunks=(16, 48, 40)),
    "deep chunks, misaligned slabs, tiles": dict(
        shape=(200, 128, 128), source=(64, 32, 32), slab=(96, 64, 64), chunks=(96, 64, 64)
    ),
    "shards out": dict(
        shape=(200, 128, 128),
        source=(64, 32, 32),
        slab=(96, 64, 64),
        chunks=(32, 32, 32),
        shards=(96, 64, 64),
    ),
    "odd": dict(shape=(61, 77, 83), source=(7, 20, 30), slab=(13, 26, 83), chunks=(13, 13, 40)),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_counts_and_bytes_are_those_of_the_plan(tmp_path, case):
    case = dict(case)
    source, slab = case.pop("source"), case.pop("slab")
    _, volume = stored(tmp_path / "in.zarr", case.pop("shape"), source)
    target = chain(volume).to(tmp_path / "out.zarr", codec=None, **case)
    plan = bv.plan(target, slab=slab, memory="4GiB")
    (p,) = plan.passes
    assert p.read_amplification > 1 or len(p.grid) == 1
    options = dict(
        runner=None,
        slab=slab,
        progress=False,
        journal="memory://journal-of-counts/",
        overwrite=True,
    )
    counts = file_counts(lambda: bv.compute(target, **options))
    metadata = 20_000  # a few small JSON documents are read and written at the beginning
    assert p.bytes_read <= counts["bytes_read"] <= p.bytes_read * 1.02 + metadata
    units = p.units_written
    assert units <= counts["write"] <= units + 4
    written = plan.passes[0].units_written * np.prod(target.sink.unit) * target.sink.dtype.itemsize
    assert counts["bytes_written"] <= written * 1.02 + metadata
    # nothing of the output was read: all reads are the input's chunks and metadata documents
    assert counts["batch_read"] <= p.chunks_read + 12


def test_a_unit_is_written_once_even_by_a_narrow_window(tmp_path):
    _, volume = stored(tmp_path / "in.zarr", (64, 64, 64), (8, 64, 64))
    target = bv.median_filter(volume, 3).to(
        tmp_path / "out.zarr", chunks=(8, 16, 16), shards=(64, 64, 64)
    )
    options = dict(runner=None, window=3, progress=False, journal="memory://journal-of-narrow/")
    counts = file_counts(lambda: bv.compute(target, **options))
    assert 1 <= counts["write"] <= 1 + 4


def test_a_label_reads_twice_and_writes_each_unit_once(tmp_path):
    """Each sweep reads the chunks of its slabs, and the first one also of the planes beyond their ends."""
    a, volume = stored(tmp_path / "in.zarr", (48, 96, 80), (8, 32, 40))
    target = bv.label(volume > 150).to(tmp_path / "out.zarr", chunks=(8, 48, 40), codec=None)
    table = bv.regionprops_table(bv.label(volume > 150), volume, ["num_pixels"])
    tables = [table.to(tmp_path / f"table.{e}") for e in ("parquet", "csv")]
    how = {
        "runner": None,
        "progress": False,
        "journal": "memory://journal-of-labels/",
        "workers": 1,
    }
    for slab, planes in (((48, 96, 80), 0), ((16, 96, 80), 2), ((8, 48, 80), None)):
        counts = file_counts(
            lambda slab=slab: bv.compute(target, *tables, slab=slab, overwrite=True, **how)
        )
        plan = bv.plan(target, *tables, slab=slab, workers=1)
        first, second = (p.chunks_read for p in plan.passes)
        if planes is not None:  # whole planes: a layer of 3 x 2 chunks more for each inner end
            assert (first, second) == (6 * 3 * 2 + planes * 3 * 2, 6 * 3 * 2)
        else:  # five inner ends, and two tiles: one of them reads a row of chunks of the other
            assert first > second > 6 * 3 * 2
        assert counts["batch_read"] <= first + second + 40
        read = sum(p.bytes_read for p in plan.passes)
        assert read <= counts["bytes_read"] <= 1.02 * read + 20_000
        units = 6 * 2 * 2
        assert plan.passes[1].units_written == units and plan.passes[0].units_written == 0
        assert units <= counts["write"] <= units + 20  # metadata, and a shard of each table
        assert counts["bytes_written"] >= a.size * 4
    np.testing.assert_array_equal(np.asarray(bv.open(tmp_path / "out.zarr")), ndi.label(a > 150)[0])


def test_a_filter_and_its_levels_read_the_volume_once(tmp_path):
    """Five levels in addition to the volume: the input's bytes, and the coarsest, for its window."""
    a, v = stored(tmp_path / "in.zarr", (64, 128, 128), (16, 64, 64))
    target = bv.gaussian_filter(v, 2).to(
        tmp_path / "out.ome.zarr", levels=6, factors=2, chunks=64, codec=None
    )
    plan = bv.plan(target)
    assert len(plan.passes) == 1 and plan.bytes_read == a.nbytes
    how = {"runner": None, "progress": False, "journal": "memory://journal-of-levels/"}
    counts = file_counts(lambda: bv.compute(target, **how))
    documents = 80 << 10  # with the times of the input's files, for each pass
    assert a.nbytes <= counts["bytes_read"] < a.nbytes + documents
