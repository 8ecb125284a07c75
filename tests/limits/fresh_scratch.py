"""Measure what stages, reductions and surveys allocate, in a fresh process; print it as JSON lines."""

from numba.core.runtime import _nrt_python

_nrt_python.memsys_use_cpython_allocator()  # arrays of kernels are traced, as those of numpy

import json  # noqa: E402
import sys  # noqa: E402
import tracemalloc  # noqa: E402

import numpy as np  # noqa: E402
import scipy.ndimage as ndi  # noqa: E402

import beam_volumes as bv  # noqa: E402
from beam_volumes.cli.verbs import warm_up  # noqa: E402
from beam_volumes.recipes.catalogue import operations  # noqa: E402
from beam_volumes.sweep import executor  # noqa: E402
from beam_volumes.sweep.executor import _Sweep  # noqa: E402

SHAPE = (16, 48, 320)
#: Neighbourhoods for which operations have kernels of their own.
SIZES = ({"size": 3}, {"size": 15}, {"footprint": bv.ball(2)}, {"footprint": bv.ball(7)})
HOW = dict(runner=None, progress=False, slab=SHAPE, threads=1, workers=1, memory="16GiB")
#: Families of operations with kernels for bytes that differ from those for floats.
FAMILIES_OF_BYTES = ("filters", "morphology")
#: By kind, class and name: declared and allocated bytes, of the call with the largest difference.
found: dict[tuple[str, str, str], tuple[int, int]] = {}


class Traced:
    """Objects of a sweep, with the bytes that each keeps between its calls."""

    def __init__(self, kind, what):
        self.key, self.kept = (kind, type(what).__name__, what.name), 0

    def call(self, declared, function, *args):
        """Call a function; note the bytes that it allocates, and those that ``declared`` returns."""
        if not noted:
            return function(*args)
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        result = function(*args)
        after, peak = tracemalloc.get_traced_memory()
        allocated, self.kept = self.kept + peak - before, self.kept + after - before
        if declared is None:  # only what is kept counts
            return result
        counted = declared()
        old = found.setdefault(self.key, (counted, allocated))
        if allocated - counted > old[1] - old[0]:
            found[self.key] = counted, allocated
        return result


class TracedWork:
    def __init__(self, stage, begin, box):
        self.stage, self.traced = stage, Traced("stage", stage)
        self.rows, self.cols = box.shape[1:]
        self.work = self.traced.call(None, begin, box)

    def declared(self, shape, threads):
        kept = self.stage.kept_bytes(self.rows, self.cols)
        return kept + self.stage.working_bytes(shape, threads)

    def run(self, inputs, out, values, threads):
        shape = out.depth, out.rows, out.cols
        args = inputs, out, values, threads
        self.traced.call(lambda: self.declared(shape, threads), self.work.run, *args)


class TracedCompleter:
    def __init__(self, completion, completer):
        self.completion, self.completer = completion, completer
        self.traced = Traced("completion", completion)

    def run(self, arrays, out, z, threads):
        shape, dtypes = (out.depth, out.rows, out.cols), tuple(a.dtype for a in arrays)
        args = arrays, out, z, threads
        declared = self.completion.working_bytes(shape, dtypes)
        self.traced.call(lambda: declared, self.completer.run, *args)


class TracedSurveyor:
    def __init__(self, survey, surveyor, windows):
        self.survey, self.surveyor, self.windows = survey, surveyor, windows
        self.traced, self.working = Traced("survey", survey), 0

    def declared(self):
        state = self.survey.state_bytes(SHAPE, self.windows)
        return self.working + max(state, self.surveyor.held_bytes)

    def feed(self, arrays, z, threads):
        dtypes = tuple(a.dtype for a in arrays)
        self.working = self.survey.working_bytes(arrays[0].shape, dtypes)
        self.traced.call(self.declared, self.surveyor.feed, arrays, z, threads)

    def finish(self):
        return self.traced.call(self.declared, self.surveyor.finish)


class TracedSweep(_Sweep):
    """A sweep of a slab whose calls are traced."""

    def _work(self, step, box):
        return TracedWork(step.stage, lambda box: super(TracedSweep, self)._work(step, box), box)

    def _feed(self, k, *args):
        reduction = self.program.folds[k].reduction
        declared = reduction.peak_bytes(self.threads)
        Traced("reduction", reduction).call(lambda: declared, super()._feed, k, *args)

    def run(self):
        for i, completer in self.completers.items():
            self.completers[i] = TracedCompleter(self.program.steps[i].completion, completer)
        for k, surveyor in enumerate(self.surveyors):
            survey = self.program.surveys[k].survey
            self.surveyors[k] = TracedSurveyor(survey, surveyor, len(self.plan.windows) + 1)
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
#: Messages of calls that refuse the volume.
refused: list[str] = []
#: Results that are computed together, since plans take longer than voxels.
TOGETHER = 10


def volume_of(dtype):
    """Blobs, which most operations accept."""
    smooth = ndi.gaussian_filter(np.random.default_rng(0).normal(size=SHAPE), 4, mode="wrap")
    return bv.open(np.clip(np.round(smooth / smooth.std() + 2), 0, 4).astype(dtype))


def measure(results):
    """Compute named results; print what was noted."""
    try:
        wanted = [result for _, result in results]
        bv.compute(*wanted, **HOW)  # loads kernels
        noted.append(True)
        bv.compute(*wanted, **HOW)
    except ValueError as error:
        if len(results) > 1:
            for result in results:
                measure([result])
        else:
            refused.append(f"{results[0][0]}: {error}")
    noted.clear()
    for key, sizes in found.items():
        print(json.dumps([*key, *sizes]), flush=True)
    found.clear()


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
    executor._Sweep = TracedSweep
    tracemalloc.start()
    left = [*named_results(dtype, names)]
    while left:
        measure(left[:TOGETHER])
        del left[:TOGETHER]
    print(*refused, sep="\n", file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
