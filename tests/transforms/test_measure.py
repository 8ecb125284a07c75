"""Numbers and tables of slabs equal the whole volume's, for any order and windows of slabs."""

from dataclasses import replace

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.window import FixedWindows, TimestampedValue

import beam_volumes as bv
from beam_volumes.transforms import rounds
from tests.transforms.trees import membranes, stored

SHAPE, DEPTH, TILE = (13, 10, 11), 4, (6, 11)
FUNCTIONS = {
    "mean": bv.mean,
    "ratio": lambda v: bv.std(v) / bv.max(v),
    "high": lambda v: bv.percentile(bv.median_filter(v, 3), 99.5),
    "inside": lambda v: bv.sum(v, mask=v > 130),
    "centre": bv.center_of_mass,
    "projection": lambda v: bv.max(v, axis="z"),
    "cells": lambda v: bv.label(v > 140).num_labels,
}


def bits(number):
    """What arrays are compared by, which `assert_that` cannot."""
    array = np.asarray(number if np.ndim(number) else np.asarray(number).item())
    return array.dtype.str, array.shape, array.tobytes()


def test_numbers_and_tables_are_those_of_the_volume(tmp_path):
    array = membranes(SHAPE)
    em = stored(tmp_path, array, chunks=(4, 6, 11))
    read = bv.ReadSlabs(em, DEPTH, TILE, halo=1)
    numbers = bv.compute([f(em) for f in FUNCTIONS.values()], runner=None)
    wanted = dict(zip(FUNCTIONS, numbers, strict=True))
    small = bv.SlabGrid((em // 50).astype("u4"), DEPTH, TILE)
    rows = bv.regionprops_table(em // 50, em, properties=["area", "intensity_mean"]).compute()
    with beam.Pipeline("FnApiRunner") as p:
        slabs = p | read
        theirs = (
            slabs
            | beam.MapTuple(lambda key, slab: TimestampedValue((key, slab), key.z))
            | beam.WindowInto(FixedWindows(5))
        )
        found = theirs | bv.MeasureSlabs(read, **FUNCTIONS)
        assert found.keys() == FUNCTIONS.keys()
        for name, want in wanted.items():
            assert_that(found[name] | name >> beam.Map(bits), equal_to([bits(want)]), f"as {name}")
        # Slabs of another dtype, and a stored volume.
        labels = slabs | bv.ApplyStages(lambda v: (v // 50).astype("u4"))
        table = labels | "Table" >> bv.MeasureSlabs(
            small,
            table=lambda v: bv.regionprops_table(v, em, properties=["area", "intensity_mean"]),
        )
        dicts = table["table"] | "Rows" >> beam.Map(beam.Row.as_dict)
        assert_that(dicts, equal_to(rows.to_pylist()), "rows")


def test_slabs_that_are_missing_or_there_twice(tmp_path):
    array = membranes(SHAPE)
    em = stored(tmp_path, array, chunks=(4, 10, 11))
    read = bv.ReadSlabs(em, DEPTH)
    with beam.Pipeline("FnApiRunner") as p:
        some = p | read | beam.Filter(lambda pair: pair[0].z != 4)
        found = some | bv.MeasureSlabs(read, partial=True, mean=bv.mean)
        there = np.delete(array, range(4, 8), axis=0)
        assert_that(found["mean"] | "Bits" >> beam.Map(float), equal_to([there.mean()]), "mean")
        assert_that(found["missing"], equal_to(["[4:8, 0:10, 0:11]"]), "missing")
        none = some | "None" >> beam.Filter(lambda pair: False)
        found = none | "Of none" >> bv.MeasureSlabs(read, partial=True, sum=bv.sum)
        assert_that(found["sum"] | "Sum" >> beam.Map(int), equal_to([0]), "sum")
        empty = stored(tmp_path, array[:0], "empty.zarr")
        nothing = p | "Empty" >> bv.ReadSlabs(empty, DEPTH)
        found = nothing | "Of no voxels" >> bv.MeasureSlabs(
            bv.SlabGrid(empty, DEPTH), sum=bv.sum, cells=FUNCTIONS["cells"]
        )
        assert_that(
            (found["sum"], found["cells"]) | beam.Flatten() | beam.Map(int), equal_to([0, 0])
        )
    for text, change in (
        (
            r"1 slab, \[4:8, 0:10, 0:11\], did not arrive",
            lambda s: s | beam.Filter(lambda x: x[0].z != 4),
        ),
        (r"4 slabs, .*, arrived more than once", lambda s: (s, s) | beam.Flatten()),
    ):
        read = bv.ReadSlabs(em, DEPTH)
        with pytest.raises(Exception, match=text), beam.Pipeline("FnApiRunner") as p:
            _ = change(p | read) | bv.MeasureSlabs(read, mean=bv.mean)


def test_merges_that_do_not_fit_are_refused_before_they_begin(tmp_path, monkeypatch):
    em = stored(tmp_path, membranes(SHAPE), chunks=(4, 10, 11))
    read = bv.ReadSlabs(em, DEPTH, halo=((0, 1), (0, 1), (0, 1)))
    measure = bv.MeasureSlabs(read, table=bv.regionprops_table, cells=FUNCTIONS["cells"])
    ((token, load),) = measure.measuring.loads.items()
    assert load.limit_bytes == measure.measuring.p.merge_limit_bytes
    small = {token: replace(load, limit_bytes=1)}
    measure.measuring = replace(measure.measuring, loads=small)
    began = []
    monkeypatch.setattr(rounds, "make_room", lambda: began.append(1))
    with (
        pytest.raises(Exception, match=r"label: merging the slabs combines \d+ components at once"),
        beam.Pipeline("FnApiRunner") as p,
    ):
        _ = p | read | measure
    assert not began
    again = bv.MeasureSlabs(read, table=bv.regionprops_table, cells=FUNCTIONS["cells"])
    with beam.Pipeline("FnApiRunner") as p:
        _ = p | bv.ReadSlabs(em, DEPTH, halo=read.halo) | again
    assert began


@pytest.mark.parametrize(
    ("functions", "message"),
    [
        ({}, "give a function for each result"),
        ({"mean": 3}, "mean=3: give a function"),
        ({"v": lambda v: v + 1}, "not a lazy number or table; ApplyStages makes slabs of voxels"),
        (
            {"m": lambda v: bv.mean(bv.median_filter(v, 3))},
            r"read them with halo=\(\(1, 1\), \(0, 0\)",
        ),
        ({"t": lambda v: bv.regionprops_table(bv.label(v > 9))}, "t needs 2 sweeps"),
        ({"m": lambda v: bv.mean(v > bv.mean(v))}, "m needs 2 sweeps"),
        ({"m": lambda v: bv.mean(v[2:])}, "slicing is not possible"),
    ],
)
def test_what_is_refused_before_a_pipeline_runs(tmp_path, functions, message):
    em = stored(tmp_path, membranes(SHAPE), chunks=(4, 10, 11))
    with pytest.raises((ValueError, TypeError), match=message):
        bv.MeasureSlabs(bv.ReadSlabs(em, DEPTH), **functions)
