"""Surveys, completions and stages of scans, driven slab by slab as the sweep does, without graphs."""

import tracemalloc
from dataclasses import replace
from itertools import pairwise

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from beam_volumes.across import scans
from beam_volumes.across.rounds import flow as rounds
from beam_volumes.base.geometry import Box, Grid
from beam_volumes.kernels.morphology import distance as edt
from beam_volumes.ops.morphology import stages as scan_stages
from beam_volumes.ops.morphology import surveys as scan_surveys
from beam_volumes.sweep.stage import Block
from tests.across.test_distance import SAMPLINGS, cases, expected
from tests.tiers import examples

pytestmark = pytest.mark.usefixtures("thin_strips")
DISTANCE = (
    scan_surveys.DistanceSurvey("edt"),
    scan_surveys.DistanceAlongZ("edt", np.dtype("i4")),
)


def windows_of(box, window):
    a, b = box.start[0], box.stop[0]
    return list(pairwise([*range(a, b, window), b]))


def ring_of(shape, dtype, random):
    """A block of a ring buffer that wraps around, among unrelated rows and columns."""
    slots = np.roll(np.arange(shape[0] + 1), random.integers(shape[0] + 1))[: shape[0]]
    y, x = random.integers(0, 2, 2)
    ring = random.integers(0, 100, (shape[0] + 1, shape[1] + 2 * y, shape[2] + 2 * x)).astype(dtype)
    return Block(ring, slots, int(y), int(x), shape[1], shape[2])


def block_of(array, random, halo=(0, 0, 0), cval=0):
    padded = np.pad(array, [(h, h) for h in halo], constant_values=cval)
    block = ring_of(padded.shape, array.dtype, random)
    for k in range(block.depth):
        block.slice(k)[...] = padded[k]
    return block


def across(volume, survey, completion, grid, window, random, again=None):
    """Both sweeps over all slabs and the flow between them; the second may see something else."""
    summaries = []
    for i, box in enumerate(grid):
        surveyor = survey.begin(grid, i, (), 1 << 30)
        for z in windows_of(box, window):
            view = volume[z[0] : z[1], box.slices[1], box.slices[2]].copy()
            surveyor.feed((view,), z, int(random.integers(1, 4)))
            view[...] = 0  # nothing of it may be kept
        summaries.append(((i,), surveyor.finish()))
    answers = dict(rounds.run(survey.flow(grid), summaries)["answers"])
    result = np.empty(volume.shape, completion.dtype)
    volume = volume if again is None else again
    for i, box in enumerate(grid):
        completer = completion.begin(grid, i, answers[i,])
        for a, b in windows_of(box, window):
            view = volume[a:b, box.slices[1], box.slices[2]]
            view.flags.writeable = False
            out = ring_of(view.shape, completion.dtype, random)
            completer.run((view,), out, (a, b), int(random.integers(1, 3)))
            for k in range(b - a):
                result[(a + k, *box.slices[1:])] = out.slice(k)
    return result


def staged(stage, volume, random, halo=(0, 0, 0), cval=0):
    """A stage on a whole volume, in strips of rows or columns."""
    shape = tuple(n for n in volume.shape)
    out = ring_of(shape, stage.dtype, random)
    block = block_of(volume, random, halo, cval)
    length = out.cols if 1 in stage.spans else out.rows
    cuts = sorted({0, length, *random.integers(0, length + 1, 2).tolist()})
    for a, b in pairwise(cuts):
        stage.run((block,), out, a, b, ())
    return np.stack([out.slice(k) for k in range(out.depth)])


def distances(mask, sampling, grid, window, random, root=True):
    how = edt.metric(mask.shape, sampling)
    along_z = across(mask, *DISTANCE, grid, window, random)
    squared = staged(scan_stages.DistanceAlongY("y", how.dtype, how), along_z, random)
    dtype = np.dtype(np.float32 if root else np.float64)
    return staged(scan_stages.DistanceAlongX("x", dtype, how, root), squared, random)


@st.composite
def cut(draw, mask):
    grid = Grid(mask.shape, tuple(draw(st.integers(1, n)) for n in mask.shape))
    return grid, draw(st.integers(1, 6)), np.random.default_rng(draw(st.integers(0, 99)))


@settings(max_examples=examples(40), deadline=None, derandomize=True)
@given(st.data())
def test_distance(data):
    mask, sampling, *_ = data.draw(cases())
    if data.draw(st.booleans()):
        mask = mask.astype(np.float32) * 0.25
    got = distances(mask, sampling, *data.draw(cut(mask)))
    reference = expected(mask != 0, sampling)
    np.testing.assert_array_max_ulp(got, reference, 0 if sampling == (1, 1, 1) else 1)


@pytest.mark.parametrize("depth", [254, 255, 256])
@pytest.mark.parametrize("window", [1, 1000])
def test_deep_slabs(depth, window):
    """Distances that need one byte, or two, or the value that stands for none."""
    random = np.random.default_rng(depth)
    mask = random.random((depth, 3, 5)) < 0.999
    mask[:, 0, 0] = True
    mask[1:, 0, 1] = mask[:-1, 0, 2] = True
    mask[0, 0, 1] = mask[-1, 0, 2] = False
    for step in (depth, depth - 1):
        got = distances(mask, (1, 1, 1), Grid(mask.shape, (step, 2, 5)), window, random)
        assert np.array_equal(got, expected(mask, (1, 1, 1)))


@pytest.mark.parametrize("far", [0, 253, 254, 255, 256, 65_534, 65_535, 70_000])
def test_planes_keep_their_values(far):
    plane = np.array([[0, far, edt.FAR]], np.int32)
    for depth in (far + 1, far + 2, 100_000):
        packed = scans.packed(plane, depth)
        assert np.array_equal(scans.unpacked(packed, depth, 1, 3), plane)


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("root", [True, False])
def test_bounded(sampling, root):
    random = np.random.default_rng(7)
    mask = random.random((9, 30, 40)) < 0.997
    for most in (0.5, 3, 6.7):
        dtype = np.dtype(np.float32 if root else np.float64)
        stage = scan_stages.BoundedDistance("edt", dtype, tuple(map(float, sampling)), most, root)
        halo = [a for a, _ in stage.halos[0]]
        got = staged(stage, mask, random, halo, stage.padding.cval)
        grid = Grid(mask.shape, (4, 30, 40))
        whole = distances(mask, sampling, grid, 2, random, root)
        reference = np.minimum(whole, dtype.type(most if root else most**2))
        np.testing.assert_array_max_ulp(got, reference, 0 if len(set(sampling)) == 1 else 1)


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint16, np.int64, np.uint64, np.float32])
@pytest.mark.parametrize("step", [(20, 6, 7), (3, 4, 3), (1, 6, 2)])
def test_cumsum(dtype, step):
    random = np.random.default_rng(5)
    volume = (random.random((20, 6, 7)) * 100).astype(dtype)
    if volume.dtype.itemsize == 8:
        volume *= np.array(2**57 + 1, dtype)  # wraps around, as numpy's sums do
    to = scans.cumsum_dtype(volume.dtype)
    survey = scan_surveys.CumsumSurvey("cumsum"), scan_surveys.CumsumAlongZ("cumsum", to)
    got = across(volume, *survey, Grid(volume.shape, step), 2, random)
    for axis in range(3):
        if axis:
            got = staged(scan_stages.CumsumAlong("cumsum", to, axis), volume, random)
        if to.kind == "f":
            np.testing.assert_allclose(got, np.cumsum(volume, axis, to), rtol=1e-12)
        else:
            assert np.array_equal(got, np.cumsum(volume, axis))


@settings(max_examples=examples(60))
@given(st.integers(0, 2**32))
def test_a_second_sweep_that_sees_another_voxel_stops(seed):
    random = np.random.default_rng(seed)
    shape = tuple(random.integers(1, 20, 3).tolist())
    grid = Grid(shape, tuple(int(random.integers(1, n + 1)) for n in shape))
    at = tuple(random.integers(0, n) for n in shape)
    mask = random.random(shape) < 0.9
    numbers = random.integers(0, 100, shape).astype(random.choice(["u1", "i2", "u4", "i8"]))
    sums = scans.cumsum_dtype(numbers.dtype)
    cumsum = scan_surveys.CumsumSurvey("cumsum"), scan_surveys.CumsumAlongZ("cumsum", sums)
    for volume, how in ((mask, DISTANCE), (numbers, cumsum)):
        other = volume.copy()
        other[at] = not other[at] if volume is mask else other[at] + 1
        window = int(random.integers(1, 5))
        with pytest.raises(ValueError, match="differ from the first sweep"):
            across(volume, *how, grid, window, random, other)


def test_state_stays_within_what_is_declared():
    """Nothing compresses: every voxel at random."""
    mask = np.random.default_rng(0).random((64, 200, 200)) < 0.9
    grid = Grid(mask.shape, mask.shape)
    surveyor = DISTANCE[0].begin(grid, 0, (), 1 << 30)
    for z in windows_of(Box.of_shape(mask.shape), 4):
        surveyor.feed((mask[z[0] : z[1]],), z)
    windows, below, above = surveyor.finish()
    held = sum(map(len, windows.planes)) + below.distance.nbytes + above.distance.nbytes
    assert held <= DISTANCE[0].state_bytes(mask.shape, 16)
    held -= below.distance.nbytes
    assert held <= DISTANCE[1].state_bytes(mask.shape, 16)


@pytest.mark.parametrize("depth", [4, 40])
@pytest.mark.parametrize("way", ["distance", "signed distance", "cumsum"])
def test_noise_takes_no_more_memory_than_is_declared(way, depth):
    """Objects of Python are not declared. Volumes that compress take less."""
    survey, completion = DISTANCE
    if way == "signed distance":
        completion = replace(completion, signed=True)
    elif way == "cumsum":
        survey = scan_surveys.CumsumSurvey("cumsum")
        completion = scan_surveys.CumsumAlongZ("cumsum", np.dtype("u8"))
    random, objects = np.random.default_rng(0), 12 << 10
    volume = (random.random((depth, 400, 300)) < 0.8).astype("u1" if way == "cumsum" else "?")
    grid, windows = Grid(volume.shape, volume.shape), windows_of(Box.of_shape(volume.shape), 4)
    out = Block(np.empty((4, 400, 300), completion.dtype), np.arange(4), 0, 0, 400, 300)

    def fed():
        surveyor = survey.begin(grid, 0, (), 1 << 30)
        for a, b in windows:
            surveyor.feed((volume[a:b],), (a, b))
        return surveyor.finish()

    ((_, answer),) = rounds.run(survey.flow(grid), [((0,), fed())])["answers"]

    def completed():
        completer = completion.begin(grid, 0, answer)
        for a, b in windows:
            completer.run((volume[a:b],), out, (a, b), 1)

    for step, of in ((fed, survey), (completed, completion)):
        step()  # loads kernels
        tracemalloc.start()
        step()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        declared = of.working_bytes(out.ring.shape, (volume.dtype,))
        assert peak <= declared + of.state_bytes(volume.shape, len(windows)) + objects


def test_each_thread_has_scratch_for_whole_columns():
    how = edt.metric((1, 64, 640), (1, 1, 1))
    stage = scan_stages.DistanceAlongY("edt", how.dtype, how)
    assert stage.working_bytes((1, 64, 640), 4) == 4 * stage.scratch_bytes(64, 160, 1)
    assert stage.working_bytes((1, 64, 1), 4) == stage.scratch_bytes(64, 1, 1)
