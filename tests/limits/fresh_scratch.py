"""Measure what stages, reductions and surveys allocate, in a fresh process; print it as JSON lines."""

from numba.core.runtime import _nrt_python

_nrt_python.memsys_use_cpython_allocator()  # arrays of kernels are traced, as those of numpy

import dataclasses  # noqa: E402
import json  # noqa: E402
import sys  # noqa: E402
import tracemalloc  # noqa: E402
from typing import Any  # noqa: E402

import numpy as np  # noqa: E402
import scipy.ndimage as ndi  # noqa: E402

import beam_volumes as bv  # noqa: E402
from beam_volumes.cli.verbs import warm_up  # noqa: E402
from beam_volumes.ops.intensity.bias_fields import FitField  # noqa: E402
from beam_volumes.ops.labels.surveys.table_surveys import Folds, Rows, labels_in  # noqa: E402
from beam_volumes.recipes.catalogue import operations  # noqa: E402
from beam_volumes.sweep import executor  # noqa: E402
from beam_volumes.sweep.executor import _Sweep  # noqa: E402
from beam_volumes.sweep.survey import VOXELS_PER_LABEL, Completion, Surveyor  # noqa: E402
from tests.limits import planted  # noqa: E402

SHAPE = (16, 48, 320)
#: A slab for labels: plans reserve more than a minimum for them.
LARGE = (16, 512, 512)
#: Neighbourhoods for which operations have kernels of their own.
SIZES = ({"size": 3}, {"size": 15}, {"footprint": bv.ball(2)}, {"footprint": bv.ball(7)})
HOW = dict(runner=None, progress=False, slab=SHAPE, threads=1, workers=1, memory="16GiB")
#: Families of operations with kernels for bytes that differ from those for floats.
FAMILIES_OF_BYTES = ("filters", "morphology")
#: By kind, class and name: declared and allocated bytes, of the call with the largest difference.
found: dict[tuple[str, str, str], tuple[int, int]] = {}
#: By kind, class, name and planted declaration: the same, as if the declaration were too small.
errors: dict[tuple[str, str, str, str], tuple[int, int, int]] = {}


class Memory:
    """Traced memory. Calls may be nested: the peak of the outer call includes those of inner ones."""

    peak = 0

    @classmethod
    def now(cls):
        now, peak = tracemalloc.get_traced_memory()
        cls.peak = max(cls.peak, peak)
        tracemalloc.reset_peak()
        return now


class Traced:
    """An object of a sweep, with the bytes that it keeps between its calls."""

    def __init__(self, what):
        self.of, self.kept = (type(what).__name__, what.name), 0

    def call(self, function, *args):
        """Call a function; return its result, and the bytes that it needs in addition to those it keeps."""
        if not noted:
            return function(*args), 0
        before, outer = Memory.now(), Memory.peak
        Memory.peak = before
        result = function(*args)
        after = Memory.now()
        working = Memory.peak - max(before, after)
        Memory.peak = max(Memory.peak, outer)
        self.kept += after - before
        return result, working

    def compare(self, kind, declared, allocated):
        """Note allocated bytes, those that ``declared`` returns, and those with an error in it."""
        if not noted:
            return
        key, counted = (kind, *self.of), declared()
        _note(found, key, counted, allocated)
        for name, less in planted.each(declared):
            if less < counted:
                _note(errors, (*key, name), less, allocated, counted - less)


def _note(notes, key, counted, allocated, *more):
    old = notes.get(key)
    if old is None or allocated - counted > old[1] - old[0]:
        notes[key] = counted, allocated, *more


class TracedWork:
    def __init__(self, stage, begin, box):
        self.stage, self.traced = stage, Traced(stage)
        self.rows, self.cols = box.shape[1:]
        self.work, _ = self.traced.call(begin, box)

    def run(self, inputs, out, values, threads):
        shape = out.depth, out.rows, out.cols
        _, working = self.traced.call(self.work.run, inputs, out, values, threads)
        compare, stage, kept = self.traced.compare, self.stage, self.traced.kept
        compare("stage", lambda: stage.working_bytes(shape, threads), working)
        own = lambda: stage.kept_bytes(self.rows, self.cols)  # noqa: E731
        if own() and stage.holds:  # the process keeps more, but these are its own arrays
            kept_here = {k: v for k, v in vars(self.work).items() if k != "stage"}
            compare("stage, arrays", own, nbytes_of(kept_here))
        if own() and not stage.holds:
            compare("stage, kept", own, kept)
        else:  # what it caches is a part of what it needs
            compare("stage, kept", lambda: self.declared(shape, threads), working + max(0, kept))

    def declared(self, shape, threads):
        kept = self.stage.kept_bytes(self.rows, self.cols)
        return kept + self.stage.working_bytes(shape, threads)


def traced_begin(begin):
    """The method of a completion that begins a slab, with its answer and its completer traced."""

    def traced(completion, grid, index, answer):
        kept = Traced(completion)
        completer, _ = kept.call(begin, completion, grid, index, answer)
        if reserves or not completion.grows:
            shape, windows = grid.box(index).shape, sweeps[-1]
            state = lambda: completion.state_bytes(shape, windows)  # noqa: E731
            kept.compare("answer", state, nbytes_of(answer) + kept.kept)
        return TracedCompleter(completion, completer)

    return traced


def traced_finish(finish):
    """The method of a reduction that makes a number of its state, traced."""

    def traced(reduction, state, *values):
        own = Traced(reduction)
        found, working = own.call(finish, reduction, state, *values)
        needed = nbytes_of(state) + working + max(0, own.kept)
        own.compare("reduction", lambda: reduction.peak_bytes(HOW["threads"]), needed)
        return found

    return traced


def each_class(kind):
    """A class and all that inherit from it."""
    yield kind
    for own in kind.__subclasses__():
        yield from each_class(own)


class TracedCompleter:
    def __init__(self, completion, completer):
        self.completion, self.completer, self.traced = completion, completer, Traced(completion)

    def run(self, arrays, out, z, threads):
        shape, dtypes = (out.depth, out.rows, out.cols), tuple(a.dtype for a in arrays)
        _, working = self.traced.call(self.completer.run, arrays, out, z, threads)
        declared = lambda: self.completion.working_bytes(shape, dtypes)  # noqa: E731
        self.traced.compare("completion", declared, working + max(0, self.traced.kept))


class TracedSurveyor:
    """Memory for rows and components is counted as it grows; a survey of planes declares its state."""

    def __init__(self, survey, surveyor, shape, windows):
        self.survey, self.surveyor = survey, surveyor
        self.slab, self.traced, self.shapes = (shape, windows), Traced(survey), None
        self.counts = type(surveyor).held_bytes is not Surveyor.held_bytes

    def state(self):
        return self.survey.state_bytes(*self.slab)

    def working(self):
        return self.survey.working_bytes(*self.shapes)

    def measured(self, function, *args):
        held.clear()
        before = self.traced.kept
        result, working = self.traced.call(function, *args)
        if self.counts:
            most = max(self.surveyor.held_bytes, sum(held.values()))
            needed = max(before, self.traced.kept) + working
            self.traced.compare("survey", lambda: self.working() + most, needed)
            if reserves:
                self.traced.compare("reserve", self.state, most)
            below = nbytes_of(getattr(self.surveyor, "below", None))
            if below:
                part = self.shapes[0]
                self.traced.compare("slice", lambda: self.survey.slice_bytes(part), below)
        elif function == self.surveyor.feed:
            self.traced.compare("survey", self.working, working)
            self.traced.compare("survey, kept", self.state, self.traced.kept)
        else:
            needed = max(before, self.traced.kept) + working
            self.traced.compare("survey, kept", self.state, needed)
        return result

    def feed(self, arrays, z, threads):
        self.shapes = arrays[0].shape, tuple(a.dtype for a in arrays)
        fed.append(self)
        self.measured(self.surveyor.feed, arrays, z, threads)

    def finish(self):
        return self.measured(self.surveyor.finish)


#: The number of windows of each sweep, with one for the plane beyond its core.
sweeps: list[int] = []
#: The traced survey that is fed, the last one.
fed: list[Any] = []


def traced_parts(folds, *args, parts=Folds.of):
    """The parts of a window, with what each needs while it is folded."""
    survey, left = fed[-1], parts(folds, *args)
    done = object()
    while True:
        own = Traced(survey.survey)
        part, working = own.call(next, left, done)
        if reserves:  # more labels are folded in memory that is reserved for their rows
            own.compare("fold", survey.working, working)
        if part is done:
            return
        yield part


#: By id of rows: the largest number of bytes that they counted during a call.
held: dict[int, int] = {}


def counted_rows(rows, count=Rows._count):
    nbytes = count(rows)
    held[id(rows)] = max(held.get(id(rows), 0), rows.bytes)
    return nbytes


def nbytes_of(answer):
    """Bytes of the arrays and packed planes of an answer."""
    if isinstance(answer, np.ndarray):
        return answer.nbytes
    if isinstance(answer, bytes):
        return len(answer)
    if dataclasses.is_dataclass(answer):
        return nbytes_of(vars(answer))
    some = answer.values() if isinstance(answer, dict) else answer
    return sum(map(nbytes_of, some)) if isinstance(answer, dict | list | tuple) else 0


class TracedSweep(_Sweep):
    """A sweep of a slab whose calls are traced."""

    def _work(self, step, box):
        return TracedWork(step.stage, lambda box: super(TracedSweep, self)._work(step, box), box)

    def _feed(self, k, *args):
        fold = self.program.folds[k]
        reduction, traced = fold.reduction, Traced(fold.reduction)
        state = nbytes_of(self.result.states[fold.token])
        _, working = traced.call(super()._feed, k, *args)
        needed = state + working + max(0, traced.kept)
        traced.compare("reduction", lambda: reduction.peak_bytes(self.threads), needed)

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        sweeps.append(len(self.plan.windows) + 1)

    def run(self):
        for k, surveyor in enumerate(self.surveyors):
            survey, shape = self.program.surveys[k].survey, self.box.shape
            self.surveyors[k] = TracedSurveyor(survey, surveyor, shape, sweeps[-1])
        return super().run()


def calls_of(operation):
    """The calls that compile all kernels, and those with small and large neighbourhoods."""
    calls = warm_up.calls_of(operation, SHAPE[0])
    names = {"size", "footprint"} & operation.parameters.keys()
    if names and calls:
        other = {k: v for k, v in calls[0].items() if k not in ("size", "footprint")}
        calls += tuple(other | size for size in SIZES if size.keys() <= names)
    if "structure" in operation.parameters and operation.name.startswith("binary_"):
        calls += ({"structure": bv.ball(7)},)
    if operation.name.startswith("grey_"):
        calls += ({"structure": bv.ball(3).astype(float)},)
    if operation.name == "correlate":
        calls += ({"weights": np.ones((11, 11, 11)) + np.eye(11)},)
    return calls


def results_of(operation, volume):
    """The results of each call of an operation that accepts the volume."""
    original = warm_up.calls_of
    for call in calls_of(operation):
        warm_up.calls_of = lambda *_, call=call: (call,)
        try:
            yield from warm_up.applied(operation, volume)
        except (TypeError, ValueError) as error:
            refused.append(f"{operation.name}: {error}")
        finally:
            warm_up.calls_of = original


#: Not empty while calls are noted. Tracing never stops: other threads may be allocating.
noted: list[bool] = []
#: Not empty while there are as many labels as plans reserve memory for.
reserves: list[bool] = []
#: Messages of calls that refuse the volume.
refused: list[str] = []
#: Results that are computed together, since plans take longer than voxels.
TOGETHER = 10


def volume_of(dtype):
    """Blobs, which most operations accept."""
    smooth = ndi.gaussian_filter(np.random.default_rng(0).normal(size=SHAPE), 4, mode="wrap")
    return bv.open(np.clip(np.round(smooth / smooth.std() + 2), 0, 4).astype(dtype))


def measure(results, **how):
    """Compute named results; print what was noted."""
    try:
        wanted = [result for _, result in results]
        bv.compute(*wanted, **HOW | how)  # loads kernels
        noted.append(True)
        bv.compute(*wanted, **HOW | how)
    except ValueError as error:
        if len(results) > 1:
            for result in results:
                measure([result], **how)
        else:
            refused.append(f"{results[0][0]}: {error}")
    noted.clear()
    for notes in (found, errors):
        for key, sizes in notes.items():
            print(json.dumps([key, sizes]), flush=True)
        notes.clear()


def of_noise():
    """Results for voxels that need as much memory as is possible."""
    random = np.random.default_rng(0)
    real = bv.open(random.random(SHAPE).astype("f4"))
    mask, image = real < 0.5, bv.open(random.integers(0, 1 << 16, SHAPE).astype("u2"))
    damaged = random.integers(1, 9, SHAPE).astype("f4")
    damaged[5:7] = 0
    yield bv.label(mask)
    yield bv.remove_small_objects(mask, 2)
    yield bv.watershed(real)
    yield bv.watershed(real, bv.label(real > 0.99))
    yield bv.fill_missing(bv.open(damaged), [5, 6], method="linear")
    yield from (bv.percentile(v, 50, axis=0) for v in (image, real))
    yield bv.match_histograms(real, bv.open(random.random(SHAPE).astype("f4")))
    yield bv.outlines(bv.open(random.integers(0, 3, SHAPE[1:]).astype("u1")))


def of_few_regions():
    """Results with few rows, whose memory hides no other."""
    slope = np.indices((16, 256, 256)).sum(0)
    yield bv.h_maxima(bv.open(slope.astype("f4")), 2)
    yield bv.outlines(bv.open((np.indices((1024, 1024)).sum(0) > 900).astype("u1")))


def labels_and_components():
    """Results with as many labels, components and rows in a slab as plans reserve memory for."""
    depth, height, width = LARGE
    voxels = depth * height * width
    k, j, i = np.indices(LARGE, np.int32, sparse=True)
    z = k // 8
    y = (j + 6 * (z % 2)) // 12  # bricks: each touches those around it
    x = (i + 7 * (y % 2)) // 14
    names = 1 + x + (width // 14 + 2) * (y + (height // 12 + 2) * z)
    names = np.unique(names, return_inverse=True)[1].reshape(LARGE) + 1
    array = np.where(names <= labels_in(voxels, VOXELS_PER_LABEL), names, 0).astype("u4")
    image = np.random.default_rng(0).integers(0, 256, LARGE).astype("u1")
    points = np.zeros(LARGE, bool)
    points[4::8, 4::8, 4::8] = True  # 512 voxels each
    labels, em, mask = bv.open(array), bv.open(image), bv.open(points)
    real = em.astype("f4")
    yield bv.label(mask)
    yield bv.remove_small_objects(mask, 1)
    yield bv.regionprops_table(labels)
    yield bv.regionprops_table(labels, em, properties=["intensity_median"])
    yield bv.regionprops_table(labels, real, properties=["intensity_std", "intensity_max"])
    yield bv.regionprops_table(labels, em, properties=["minimum_position"])
    yield bv.regionprops_table(labels, real, properties=["moments_weighted"])
    yield bv.region_adjacency(labels)
    yield bv.region_adjacency(labels, real, bins=64, range=(0, 256))
    yield bv.contingency(labels, labels)
    yield bv.remove_small_objects(labels, 2)
    yield bv.relabel_sequential(labels)
    yield bv.clear_border(labels)


def others(volume):
    """Results with stages that no call of the catalogue needs."""
    yield bv.cumsum(volume, axis=1)
    yield bv.map_overlap(np.abs, volume, depth=2)
    yield bv.generic_filter(volume, np.max, size=3)
    yield bv.remove_small_holes(volume > 1, 9)
    yield from bv.hessian_matrix_eigvals(bv.hessian_matrix(volume.astype("f8")))
    yield bv.max(volume, axis=1)
    yield bv.median(volume, axis=0)
    yield bv.distance_transform_edt(volume > 1, max_distance=6)


def named_results(dtype, names):
    """Results of the catalogue that accept the dtype, or of some names, with their operations."""
    volume = volume_of(dtype)
    for operation in operations().values():
        if operation.name in warm_up.OTHERS or operation.is_of_tables:
            continue
        if names and operation.name not in names:
            continue
        if dtype == "u1" and operation.family not in FAMILIES_OF_BYTES:
            continue
        if (operation.positional[0] == "labels") == (dtype in warm_up.LABELS):
            for result in results_of(operation, volume):
                yield operation.name, result
    if dtype == "f4" and (not names or "others" in names):
        yield from (("others", result) for result in others(volume))


def main(dtype, *names):
    planted.install()
    executor._Sweep, Rows._count, Folds.of = TracedSweep, counted_rows, traced_parts
    for kind in each_class(Completion):
        if "begin" in vars(kind):
            kind.begin = traced_begin(kind.begin)
    # Others make their number when the slabs have ended, with the memory of these.
    FitField.finish = traced_finish(FitField.finish)
    tracemalloc.start()
    if dtype == "labels":
        for result in of_noise():
            measure([("noise", result)], window=8)
        for result in of_few_regions():
            measure([("few", result)], slab=None)
        reserves.append(True)
        for result in labels_and_components():
            measure([("labels", result)], slab=LARGE)
        if refused:
            raise ValueError(refused)
        return
    left = [*named_results(dtype, names)]
    while left:
        measure(left[:TOGETHER])
        del left[:TOGETHER]
    print(*refused, sep="\n", file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
