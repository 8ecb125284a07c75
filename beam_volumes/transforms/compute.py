"""A whole plan as Beam steps: its passes one after the other, in one graph.

What flows between the steps is the indices of slabs, the small states of reductions and the numbers
they give; voxels go from storage to storage inside the step that sweeps a slab. A pass waits for the
one before by taking the numbers known so far as a side input.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import apache_beam as beam
from apache_beam.metrics import Metrics
from apache_beam.pvalue import AsIter, AsSingleton

from beam_volumes.session.session import check_portable
from beam_volumes.session.session import Session
from beam_volumes.graph.nodes import Value, evaluate
from beam_volumes.graph.volume import Scalar, Target, Volume
from beam_volumes.plan.plan import plan
from beam_volumes.storage.kvstore import Spec
from beam_volumes.storage.remove import remove_tree
from beam_volumes.storage.sink import Sink
from beam_volumes.sweep.executor import SlabResult
from beam_volumes.sweep.reduction import Reduction

#: Slab indices travel in the job's description as so many ranges at most, of so many slabs at least.
_RANGES, _RANGE = 1000, 1000

States = dict[str, Any]


class Compute(beam.PTransform):
    """Compute volumes and numbers as a step of a pipeline.

    The plan is made when the transform is constructed, so that whatever cannot work fails there.
    Applied to a pipeline it yields a dict of PCollections of one element each: per target
    ``volume.to(path)``, under the output's full name (``target.sink.name``), that name once its last
    slab is written; per scalar, under its name (``"mean"``, the next one ``"mean-2"``), the number.

    Parameters
    ----------
    *targets : Target or Scalar
        Volumes with a place, ``volume.to(path)``, and lazy scalars.
    memory : int or str, optional
        What one worker process may use, e.g. ``"8GiB"``: by default a quarter of this machine's RAM.
    workers : int, optional
        Slabs in flight in one worker process.
    slab, window, threads
        As of `beam_volumes.plan`.
    journal : path, optional
        Where the journal is kept instead of beside the first output.
    resume : bool
        Continue a run that was killed, from the slabs that are complete.
    overwrite : bool
        Replace outputs that exist.
    run_id : str, optional
        A name for the run instead of a random one. Whatever runs under one name is the same run:
        its steps may be repeated, and slabs that have a record are not swept again.

    Examples
    --------
    >>> import tempfile
    >>> import apache_beam as beam
    >>> import numpy as np
    >>> import beam_volumes as bv
    >>> em = bv.open(np.arange(24, dtype="u1").reshape(2, 3, 4))
    >>> folder = tempfile.TemporaryDirectory()
    >>> bright = (em > bv.mean(em)).to(f"{folder.name}/bright.zarr")
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     done = p | bv.Compute(bright, bv.mean(em))
    ...     _ = done["mean"] | beam.Map(print)
    11.5
    >>> int(np.asarray(bv.open(bright.sink.name)).sum())
    12
    >>> folder.cleanup()
    """

    def __init__(
        self,
        *targets: Target | Scalar,
        memory: int | str | None = None,
        workers: int | None = None,
        slab: Sequence[int] | None = None,
        window: int | None = None,
        threads: int | None = None,
        journal: Any = None,
        resume: bool = False,
        overwrite: bool = False,
        run_id: str | None = None,
    ):
        super().__init__()
        for t in targets:
            if isinstance(t, Volume):
                raise TypeError(f"{t!r}: a pipeline returns no voxels; write them with .to(path)")
            if not isinstance(t, Target | Scalar):
                raise TypeError(f"{t!r} is neither a lazy scalar nor a volume.to(path)")
        planned = plan(
            *targets, memory=memory, workers=workers, threads=threads, slab=slab, window=window
        )
        check_portable(planned)
        session = Session.begin(planned, journal=journal, resume=resume, overwrite=overwrite)
        self.session = session if run_id is None else _named(session, run_id, resume)

    def expand(self, begin: Any) -> dict[str, beam.PCollection]:
        known = build(begin.pipeline, self.session)
        plan = self.session.plan
        results: dict[str, beam.PCollection] = {}
        for k, result in enumerate(plan.results, 1):
            if isinstance(result, Value):
                number = known[-1] | f"Target {k}" >> beam.Map(_number, result)
                results[_unused(result.name, results)] = number
            else:
                assert isinstance(result, Sink)
                after = 1 + max(
                    p.index for p in plan.passes if result in (o.sink for o in p.program.outputs)
                )
                done = known[after] | f"Target {k}" >> beam.Map(_instead, result.name)
                results[result.name] = done
        if plan.scratch_place is not None:
            _ = known[-1] | "Tidy" >> beam.Map(_tidy, plan.scratch_place)
        return results


def _named(session: Session, run_id: str, resume: bool) -> Session:
    if resume and session.run_id != run_id:
        raise ValueError(f"resume=True continues the run {session.run_id}, not run_id={run_id!r}")
    journal = session.journal
    return replace(
        session,
        run_id=run_id,
        journal=None if journal is None else replace(journal, run_id=run_id),
    )


def _unused(name: str, names: Iterable[str]) -> str:
    taken = set(names)
    k = 1
    while (unused := name if k == 1 else f"{name}-{k}") in taken:
        k += 1
    return unused


def _number(known: States, value: Value) -> Any:
    return evaluate(value, dict(known))


def _instead(_: Any, item: Any) -> Any:
    return item


def _tidy(_: Any, place: Spec) -> None:
    """Remove what was stored between passes."""
    remove_tree(place)


def build(pipeline: beam.Pipeline, session: Session) -> list[beam.PCollection]:
    """All steps of a session; per pass, and before the first, the numbers known then (one dict each).

    An element of the last entry appears when everything is done.
    """
    begun = pipeline | "Begin" >> beam.Create([None])
    known = [begun | "Prepare" >> beam.Map(_prepare, session)]
    for k in range(len(session.plan.passes)):
        known.append(known[-1] | f"Pass {k + 1}" >> _Pass(session, k))
    return known


def _prepare(_: Any, session: Session) -> States:
    session.prepare()
    return {}


class _Pass(beam.PTransform):
    """One pass: from the numbers known before it to those known after it."""

    def __init__(self, session: Session, index: int):
        super().__init__()
        self.session, self.index = session, index

    def expand(self, known: beam.PCollection) -> beam.PCollection:
        p = self.session.plan.passes[self.index]
        reductions = self.session.reductions(self.index)
        states = (
            known.pipeline
            | "Ranges" >> beam.Create(slab_ranges(len(p.grid)))
            | "Slabs" >> beam.FlatMap(_slabs).with_output_types(int)
            | "Spread" >> beam.Reshuffle()
            | "Sweep" >> beam.ParDo(_Sweep(self.session, self.index), known=AsSingleton(known))
            | "Merge" >> beam.CombinePerKey(MergeStates(reductions))
        )
        finish = beam.Map(_finish, self.session, self.index, states=AsIter(states))
        return known | "Finish" >> finish


def slab_ranges(slabs: int) -> list[tuple[int, int]]:
    """Few ranges that together are all slabs; what there may be millions of is not in the job.

    Examples
    --------
    >>> slab_ranges(2500)
    [(0, 1000), (1000, 2000), (2000, 2500)]
    """
    width = max(_RANGE, -(-slabs // _RANGES))
    return [(a, min(a + width, slabs)) for a in range(0, slabs, width)]


def _slabs(span: tuple[int, int]) -> range:
    return range(*span)


@beam.typehints.with_output_types(tuple[str, Any])
class _Sweep(beam.DoFn):
    """Sweeps a slab; emits the state of each fold under its token."""

    def __init__(self, session: Session, index: int):
        self.session, self.index = session, index

    def process(self, slab: int, known: States) -> Iterable[tuple[str, States]]:
        emission = self.session.slab(self.index, slab, known, count=_count)
        return [(token, {token: state}) for token, state in emission.states.items()]


_SWEPT = Metrics.counter("beam_volumes", "slabs")
_READ = Metrics.counter("beam_volumes", "bytes_read")
_WRITTEN = Metrics.counter("beam_volumes", "bytes_written")


def _count(result: SlabResult) -> None:
    _SWEPT.inc()
    _READ.inc(result.bytes_read)
    _WRITTEN.inc(result.bytes_written)


class MergeStates(beam.CombineFn):
    """Merges dicts of states, token by token; exact, so in any order."""

    def __init__(self, reductions: dict[str, Reduction]):
        self.reductions = reductions

    def create_accumulator(self) -> States:
        return {}

    def add_input(self, accumulator: States, states: States) -> States:
        return self.merge_accumulators([accumulator, states])

    def merge_accumulators(self, accumulators: Iterable[States]) -> States:
        merged: States = {}
        for states in accumulators:
            for token, state in states.items():
                known = token in merged
                merged[token] = (
                    self.reductions[token].merge(merged[token], state) if known else state
                )
        return merged

    def extract_output(self, accumulator: States) -> States:
        return accumulator


def _finish(
    known: States, session: Session, index: int, states: Iterable[tuple[str, States]]
) -> States:
    # With no slab at all nothing has been emitted: merging starts from the state of no voxels.
    merged = session.merge(index, (part for _, part in states))
    return session.finish_pass(index, merged, known)
