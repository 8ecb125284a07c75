"""A volume that slabs do not fill is an error that names the missing parts, not zeros."""

import random
import warnings

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from hypothesis import given, settings
from hypothesis import strategies as st

import beam_volumes as bv
from beam_volumes.base.geometry import Box, Grid
from beam_volumes.transforms.complete import CountMissing, Uncovered, _check, _spans, rectangles
from tests.tiers import examples

X = np.arange(1, 1 + 20 * 6 * 8, dtype="u2").reshape(20, 6, 8)
HOW = {"chunks": (2, 3, 4)}


def write(folder, keep, tile=(3, 8), windows=False, **how):
    """Write the slabs that are kept, and return the stored voxels."""
    em = bv.open(X)
    with beam.Pipeline("FnApiRunner") as p:
        slabs = p | bv.ReadSlabs(em, depth=4, tile=tile)
        if windows:
            slabs |= beam.MapTuple(lambda key, s: TimestampedValue((key, s), key.z))
            slabs |= "Windows" >> beam.WindowInto(FixedWindows(3))
        some = slabs | bv.ApplyStages(lambda v: v + 1) | beam.Filter(lambda pair: keep(pair[1]))
        paths = some | bv.WriteSlabs(folder / "out.zarr", like=em, **HOW, **how)
        assert_that(paths, equal_to([str(folder / "out.zarr")]))
    return np.asarray(bv.open(folder / "out.zarr"))


def test_slabs_that_are_all_there_are_written(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error", bv.UnfinishedWarning)
        np.testing.assert_array_equal(write(tmp_path, lambda s: True), X + 1)
    np.testing.assert_array_equal(write(tmp_path, bool, windows=True, overwrite=True), X + 1)


@pytest.mark.parametrize(
    ("keep", "says"),
    [
        (
            lambda s: s.key[:3] != (8, 3, 0),
            r"out.zarr is not complete: a slab is missing, at \[8:12, 3:6, 0:8\] \(4 of 40 write units",
        ),
        (
            lambda s: s.key.z not in (4, 8, 16),
            r"6 slabs are missing, at \[4:8, 0:3, 0:8\], \[4:8, 3:6, 0:8\], .* and 1 more \(24 of 40",
        ),
        (lambda s: False, r"10 slabs are missing, .*partial=True"),
    ],
)
def test_slabs_that_are_missing_fail_the_pipeline_and_are_named(tmp_path, keep, says):
    with pytest.raises(Exception, match=says):
        write(tmp_path, keep)
    with pytest.warns(bv.UnfinishedWarning, match="run its pipeline again with overwrite=True"):
        bv.open(tmp_path / "out.zarr")


def test_slabs_that_are_missing_may_be_meant(tmp_path):
    found = write(tmp_path, lambda s: s.key.z == 0, partial=True)
    np.testing.assert_array_equal(found[:4], X[:4] + 1)
    assert not found[4:].any()


@settings(max_examples=examples(60))
@given(data=st.data())
def test_what_is_missing_is_found_in_any_order_and_grouping(data):
    """Slabs in any order, some twice, combined in any groups: units and slabs counted, and named."""
    draw = data.draw
    shape = tuple(draw(st.integers(1, 12)) for _ in range(3))
    unit = tuple(draw(st.integers(1, 4)) for _ in range(3))
    step = tuple(u * draw(st.integers(1, 3)) for u in unit)
    units, slabs = Grid(shape, unit), Grid(shape, step)
    lost = draw(st.sets(st.integers(0, len(slabs) - 1), max_size=4))
    rng = random.Random(draw(st.integers(0, 99)))
    given_ = [b for i, b in enumerate(slabs) if i not in lost]
    given_ += rng.sample(given_, min(2, len(given_)))
    rng.shuffle(given_)
    uncovered, count = Uncovered(*units.counts[1:]), CountMissing()
    layers: dict = {(z,): [uncovered.create_accumulator()] for z in range(units.counts[0])}
    for box in given_:
        for key, span in _spans(box, units):
            if rng.random() < 0.5:
                layers[key].append(uncovered.create_accumulator())
            layers[key][-1] = uncovered.add_input(layers[key][-1], span)
    parts = []
    for key, several in layers.items():
        found = uncovered.extract_output(uncovered.merge_accumulators(several))
        parts.append(count.add_input(count.create_accumulator(), (key, found)))
    rng.shuffle(parts)
    missing = count.extract_output(count.merge_accumulators(parts))
    here = np.zeros(shape, bool)
    for box in given_:
        here[box.slices] = True
    assert missing[0] == sum(not here[b.slices].any() for b in units)
    if not lost:
        assert _check(missing, "out", units, slabs) == len(units)
        return
    with pytest.raises(ValueError, match="out is not complete") as told:
        _check(missing, "out", units, slabs)
    assert all(str(slabs.box(i)) in str(told.value) for i in lost)
    with pytest.raises(ValueError, match="missing, at"):
        _check(missing, "out", units, None)


@given(seed=st.integers(0, 50), share=st.floats(0, 1))
def test_rectangles_are_what_they_are_of(seed, share):
    plane = np.random.default_rng(seed).random((5, 7)) < share
    painted = np.zeros_like(plane, int)
    for y0, y1, x0, x1 in rectangles(plane):
        painted[y0:y1, x0:x1] += 1
    np.testing.assert_array_equal(painted, plane)


def test_a_box_of_units_that_end_with_the_volume():
    assert list(_spans(Box((4, 0, 0), (7, 5, 3)), Grid((7, 5, 3), (2, 4, 4)))) == [
        ((2,), (0, 2, 0, 1)),
        ((3,), (0, 2, 0, 1)),
    ]
