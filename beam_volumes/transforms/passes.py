"""The passes of a plan as Beam steps in one graph, all or some of them.

Elements are the indices of slabs, the small states of reductions, and numbers. Voxels go from
storage to storage inside the step that sweeps a slab. A pass waits for the one before because it
takes the known numbers as a side input.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from types import NoneType
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam import typehints
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.pvalue import AsIter, AsSingleton
from apache_beam.transforms.core import RestrictionProvider
from apache_beam.typehints import Dict, Tuple

from beam_volumes.across.rounds.flow import Key
from beam_volumes.plan.plan import Plan
from beam_volumes.runs.failure import errors_as_data
from beam_volumes.session import clearing, merging, slabs
from beam_volumes.session.local import run_local
from beam_volumes.session.session import Session
from beam_volumes.sweep.reduction import Reduction
from beam_volumes.sweep.writing import SlabResult
from beam_volumes.transforms import pipeline_metrics
from beam_volumes.transforms.machines import asking
from beam_volumes.transforms.rounds import Merges, Take, whole

#: The job's description has slab indices as at most so many ranges of at least so many slabs.
_RANGES, _RANGE = 1000, 1000
#: Runners keep about 1 kB of each element that they spread over workers. Slabs are spread one by one up to
#: this number, and in ranges beyond it, which runners split where workers are idle.
_SPREAD = 20_000
#: Bytes of rows in an element.
_BATCH = 4 << 20

States = dict[str, Any]
#: The numbers known so far, as an element.
_Known: Any = Dict[str, Any]
#: A piece of the state of a reduction, under its name: token, number and piece.
State: Any = Tuple[str, Tuple[str, int, Any]]
#: A shard of a table that is written, or a batch of its rows.
_Shard: Any = Tuple[Tuple[int, ...], Any]


def input_names(plan: Plan) -> list[str]:
    """Names of a plan's inputs."""
    return [name for name, _ in plan.inputs]


def end(_: Any, session: Session) -> None:
    """End a session if no driver waits for it."""
    session.end()


def row_batches(columns: dict[str, np.ndarray]) -> Iterator[dict[str, np.ndarray]]:
    """Split a shard's rows into elements."""
    count = len(next(iter(columns.values())))
    size = sum(c.itemsize for c in columns.values())
    step = max(1, _BATCH // size)
    for i in range(0, count, step):
        yield {name: column[i : i + step] for name, column in columns.items()}


@dataclass(frozen=True, eq=False)
class _Rows:
    """Writes a shard of a table in the step that makes it, because it is too large for an element.

    Yields, under the shard's key, batches of rows if they are ``wanted``, and then None.
    """

    session: Session
    token: str
    wanted: bool

    def __call__(self, key: Key, columns: dict[str, np.ndarray]) -> Iterator[Any]:
        merging.write_rows(self.session, self.token, key[0], columns)
        if self.wanted:
            for batch in row_batches(columns):
                yield key, batch
        yield key, None


def _is_whole(rows: tuple[Key, Any]) -> bool:
    return rows[1] is None


Collections = dict[str, beam.PCollection]


def build(
    pipeline: beam.Pipeline,
    session: Session,
    resource_hints: bool = False,
    ready: beam.PCollection | AsIter | None = None,
    rows: Iterable[str] = (),
    accelerator: str | None = None,
    some: range | None = None,
) -> tuple[list[beam.PCollection], Collections]:
    """Make all steps of a session, or of some passes after earlier ones have ended."""
    # Results of earlier passes are in the journal: numbers, and summaries of slabs, which are merged
    # again if their answers are needed. The first step, which creates the outputs, is also the first
    # that needs this package in a worker: all others wait for it.
    #
    # ``resource_hints``: whether steps request memory.
    # ``ready``: the first step waits until this is complete.
    # ``rows``: barriers of tables that are returned as rows.
    # ``accelerator``: requested for passes that run a network.
    # ``some``: the passes, all by default; others need a journal.
    # Returns ``known``: the numbers known before the first and after each pass, as one dict each; the
    # last appears when everything is done. And ``rows``: by barrier, (shard, batch) with some rows or
    # None.
    side = AsIter(ready) if isinstance(ready, beam.PCollection) else ready
    wait = {} if side is None else {"ready": side}
    passes = session.plan.passes
    some = range(len(passes)) if some is None else some
    prepare = beam.Map(_prepare, session, some.start, **wait).with_output_types(_Known)
    known = [pipeline | "Begin" >> beam.Impulse() | "Prepare" >> prepare]
    if session.clears and not some.start:
        delete = _Delete(session, clearing.count, clearing.delete, clearing.end)
        known[0] = known[0] | "Delete replaced outputs" >> delete
    answers: Collections = {}
    found: Collections = {}
    wanted = frozenset(rows)
    asked = frozenset(token for k in some for token in passes[k].program.barriers)
    for k in range(some.start):
        if seen_then := asked & merging.flows_of(session.plan, k).keys():
            answers |= known[0] | f"Pass {k + 1} again" >> _Again(session, k, seen_then)
    for k in some:
        step = asking(
            _Pass(session, k, answers, wanted), session.plan, k, resource_hints, accelerator
        )
        then, more, tables = known[-1] | f"Pass {k + 1}" >> step
        known.append(then)
        answers |= more
        found |= tables
    if some.stop == len(passes) and clearing.scratch_count(session):
        delete = _Delete(session, clearing.scratch_count, clearing.delete_scratch)
        known[-1] = known[-1] | "Delete intermediate results" >> delete
    return known, found


def _prepare(_: Any, session: Session, done: int, ready: Any = None) -> States:
    """Create missing outputs, and return the results of finished passes."""
    known: States = {}
    with errors_as_data(session.secret):
        session.prepare()
        for k in range(done):
            program = session.plan.passes[k].program
            if program.folds or program.surveys:
                known = merging.by_name(known, known | merging.numbers_of(session.journal, k), k)
    return known


class _Delete(beam.PTransform):
    """Deletes objects in parts; the numbers known are as before.

    ``count``, ``delete``, ``end``: functions of `session.clearing`.
    """

    def __init__(
        self,
        session: Session,
        count: Callable[[Session], int],
        delete: Callable[[Session, int], None],
        end: Callable[[Session], None] | None = None,
    ):
        super().__init__()
        self.session, self.count, self.delete, self.end = session, count, delete, end

    def expand(self, known: beam.PCollection) -> beam.PCollection:
        step = beam.FlatMap(_delete, self.session, self.delete).with_output_types(NoneType)
        deleted = spread(known, partial(self.count, self.session)) | "Delete" >> step
        end = beam.Map(_deleted, self.session, self.end, AsIter(deleted))
        return known | "End" >> end.with_output_types(_Known)


def _delete(
    part: tuple[tuple[int], Any], session: Session, delete: Callable[[Session, int], None]
) -> Iterable[None]:
    with errors_as_data(session.secret):
        delete(session, part[0][0])
    return ()


def _deleted(
    known: States, session: Session, end: Callable[[Session], None] | None, deleted: Any
) -> States:
    with errors_as_data(session.secret):
        if end is not None:
            end(session)
    return known


class _Again(beam.PTransform):
    """The answers of a pass with complete slabs, merged again for the barriers ``tokens``."""

    def __init__(self, session: Session, index: int, tokens: frozenset[str]):
        super().__init__()
        self.session, self.index, self.tokens = session, index, tokens

    def expand(self, known: beam.PCollection) -> Collections:
        session, index = self.session, self.index
        flows = merging.flows_of(session.plan, index)
        flows = {token: flow for token, flow in flows.items() if token in self.tokens}
        nothing = Take(_nothing, NoneType)
        takes = {token: {"rows": nothing, "numbers": nothing} for token in flows}
        merges = Merges(flows, takes, session.secret, session.messages)
        swept = spread(known, len(session.plan.passes[index].grid)) | _sweeping(
            session, index, (), merges, known
        )
        return {token: came["answers"] for token, came in merges.run(swept, known).items()}


def _nothing(key: Key, value: Any) -> Iterable[Any]:
    """Take nothing of values that are already written."""
    return ()


def _sweeping(
    session: Session, index: int, barriers: tuple[str, ...], merges: Merges, known: beam.PCollection
) -> beam.PTransform:
    """The step that sweeps slabs, or reads their records, and begins the merges of some surveys."""
    sweep = beam.ParDo(_Sweep(session, index, barriers, merges), known=AsSingleton(known))
    return "Sweep" >> sweep.with_outputs(*merges.tags, main="states")


class _Pass(beam.PTransform):
    """One pass: from the numbers known before it to those known after it.

    ``answers``: of earlier barriers, as PCollections of (slab, piece).
    ``wanted``: barriers of tables that are returned as rows.
    """

    def __init__(self, session: Session, index: int, answers: Collections, wanted: frozenset[str]):
        super().__init__()
        self.session, self.index, self.answers, self.wanted = session, index, answers, wanted

    def expand(self, known: beam.PCollection) -> tuple[beam.PCollection, Collections, Collections]:
        session, index = self.session, self.index
        p = session.plan.passes[index]
        flows = merging.flows_of(session.plan, index)
        takes = {t: {"rows": Take(_Rows(session, t, t in self.wanted), _Shard)} for t in flows}
        merges = Merges(flows, takes, session.secret, session.messages)
        swept = self._slabs(known) | _sweeping(session, index, p.program.barriers, merges, known)
        states = swept["states"]
        states.element_type = State
        if reductions := merging.reductions_of(session.plan, index):
            states = states | "Merge" >> beam.CombinePerKey(MergeStates(reductions))
        finish = beam.Map(_finish, session, index, states=AsIter(states))
        known = known | "Finish" >> finish.with_output_types(_Known)
        if not flows:
            return known, {}, {}
        answers: Collections = {}
        rows: Collections = {}
        numbers, written = [], []
        # Summaries are merged after the check of their size.
        for n, (token, came) in enumerate(merges.run(swept, known).items(), 1):
            if "answers" in came:
                answers[token] = came["answers"]
            if "numbers" in came:
                of = beam.Map(_of, token).with_output_types(Tuple[str, _Known])
                numbers.append(came["numbers"] | f"Numbers {n}" >> of)
            if "rows" in came:
                is_whole = beam.Filter(_is_whole).with_output_types(_Shard)
                written.append(came["rows"] | f"Written {n}" >> is_whole)
                rows[token] = came["rows"]
        found = {
            name: AsIter(
                some[0] if len(some) == 1 else tuple(some) | name.capitalize() >> beam.Flatten()
            )
            for name, some in (("numbers", numbers), ("written", written))
            if some
        }
        finish = beam.Map(_finish_merge, session, index, **found).with_output_types(_Known)
        return known | "Finish merge" >> finish, answers, rows

    def _slabs(self, known: beam.PCollection) -> beam.PCollection:
        """The slabs with the pieces of their answers: (slab, (number of the barrier, piece))."""
        p = self.session.plan.passes[self.index]
        count = len(p.grid)
        if not p.program.barriers:
            return spread(known, count)
        begun = known.pipeline | "Begin" >> beam.Impulse()
        wait = AsSingleton(known)  # or a worker would have functions of ours before it is asked
        asking = begun | "Slabs" >> beam.FlatMap(_asking, count, wait).with_output_types(_Answered)
        pieces = [
            self.answers[token] | f"Answers {n}" >> beam.Map(_from, n).with_output_types(_Answered)
            for n, token in enumerate(p.program.barriers)
        ]
        return (asking, *pieces) | "Meet" >> beam.Flatten() | "Answered" >> beam.GroupByKey()


def spread(known: beam.PCollection, count: int | Callable[[], int]) -> beam.PCollection:
    """Distribute slabs without answers over the workers, or other things that have numbers."""
    begun = known.pipeline | "Begin" >> beam.Impulse()
    wait = AsSingleton(known)  # or a worker would have functions of ours before it is asked
    parts = begun | "Parts" >> beam.FlatMap(_parts, count, wait).with_output_types(_Span)
    slabs = beam.ParDo(_Slabs()).with_output_types(_Slab)
    return parts | "Spread" >> beam.Reshuffle() | "Slabs" >> slabs


def slab_ranges(slabs: int) -> list[tuple[int, int]]:
    """Divide slabs into a few ranges, to keep the description of the job small.

    >>> slab_ranges(2500)
    [(0, 1000), (1000, 2000), (2000, 2500)]
    """
    width = max(_RANGE, -(-slabs // _RANGES))
    return [(a, min(a + width, slabs)) for a in range(0, slabs, width)]


_Span: Any = Tuple[int, int]
#: A slab with a piece of an answer, by number of the barrier; or the slab itself.
_Answered: Any = Tuple[Tuple[int], Tuple[int, bytes]]
_ITSELF = (-1, b"")
#: A slab with all pieces of its answers.
_Slab: Any = Tuple[Tuple[int], typehints.Iterable[Tuple[int, bytes]]]


def _parts(_: Any, slabs: int | Callable[[], int], known: States) -> Iterable[tuple[int, int]]:
    slabs = slabs if isinstance(slabs, int) else slabs()
    width = max(1, -(-slabs // _SPREAD))
    return ((a, min(a + width, slabs)) for a in range(0, slabs, width))


class _SlabRange(RestrictionProvider):
    """A range of slabs: a runner may give the rest of it to another worker."""

    def initial_restriction(self, element: tuple[int, int]) -> OffsetRange:
        return OffsetRange(*element)

    def create_tracker(self, restriction: OffsetRange) -> OffsetRestrictionTracker:
        return OffsetRestrictionTracker(restriction)

    def restriction_size(self, element: tuple[int, int], restriction: OffsetRange) -> int:
        return restriction.size()  # type: ignore[no-any-return]


class _Slabs(beam.DoFn):
    """The slabs of a range, one after the other."""

    def process(
        self,
        element: tuple[int, int],
        span: Any = beam.DoFn.RestrictionParam(_SlabRange()),  # noqa: B008  # that is how Beam has it
    ) -> Iterator[Any]:
        slab = span.current_restriction().start
        while span.try_claim(slab):
            yield (slab,), []
            slab += 1


def _asking(_: Any, slabs: int, known: States) -> Iterable[Any]:
    return (((slab,), _ITSELF) for slab in range(slabs))


def _from(answer: tuple[tuple[int], bytes], n: int) -> Any:
    return answer[0], (n, answer[1])


def _of(numbers: tuple[Any, States], token: str) -> tuple[str, States]:
    return token, numbers[1]


class _Sweep(beam.DoFn):
    """Sweeps a slab; emits its states, and messages of the first rounds of surveys."""

    def __init__(self, session: Session, index: int, barriers: tuple[str, ...], merges: Merges):
        self.session, self.index, self.barriers, self.merges = session, index, barriers, merges

    def process(
        self, slab: tuple[tuple[int], Iterable[tuple[int, bytes]]], known: States
    ) -> Iterator[Any]:
        with errors_as_data(self.session.secret):
            yield from self.swept(*slab, known)

    def count(self, slab: int, swept: list[SlabResult]) -> None:
        """Count the metrics of a swept slab; slabs with a record are not counted."""
        plan = self.session.plan
        p = plan.passes[self.index]
        if not swept:
            pipeline_metrics.SKIPPED.inc()
            return
        if self.session.journal is not None and self.session.journal.attempts:
            # Counts of failed attempts are lost, so attempts are read from the journal.
            again = self.session.journal.attempts_at(self.index, slab) - 1
            pipeline_metrics.RETRIES.inc(max(0, again))
        for result in swept:
            pipeline_metrics.swept(result)
        pipeline_metrics.VOXELS.inc(p.grid.box(slab).size)
        pipeline_metrics.reads(input_names(plan))
        pipeline_metrics.writes(
            o.sink.name for o in p.program.outputs if o.sink not in plan.intermediates
        )

    def swept(
        self, slab: tuple[int], came: Iterable[tuple[int, bytes]], known: States
    ) -> Iterator[Any]:
        session, index = self.session, self.index
        pieces: list[list[bytes]] = [[] for _ in self.barriers]
        for n, piece in came:
            if n >= 0:
                pieces[n].append(piece)
        answers = {
            token: answer
            for token, own in zip(self.barriers, pieces, strict=True)
            for answer in whole(own)
        }
        swept: list[SlabResult] = []
        emission = slabs.sweep_slab(
            session, index, slab[0], known, answers, swept.append, None, run_local
        )
        self.count(slab[0], swept)
        reductions = merging.reductions_of(session.plan, index) if emission.states else {}
        yield from state_pieces(emission.states, reductions)
        yield from self.merges.begin(slab, emission.summaries)


#: A token, the number of a piece of its state, and the piece; None initially.
_Piece = tuple[str, int, Any] | None


def state_pieces(
    states: States, reductions: Mapping[str, Reduction]
) -> Iterator[tuple[str, tuple[str, int, Any]]]:
    """The states of a slab as elements for `MergeStates`."""
    for token, state in states.items():
        for part, piece in reductions[token].pieces(state):
            yield f"{token} {part}", (token, part, piece)


class MergeStates(beam.CombineFn):
    """Merges the pieces of states with one token; exact, so the order does not matter."""

    def __init__(self, reductions: Mapping[str, Reduction]):
        self.reductions = reductions

    def create_accumulator(self) -> _Piece:
        return None

    def add_input(self, accumulator: _Piece, piece: _Piece) -> _Piece:
        return self.merge_accumulators([accumulator, piece])

    def merge_accumulators(self, accumulators: Iterable[_Piece]) -> _Piece:
        merged: _Piece = None
        for piece in accumulators:
            if merged is None or piece is None:
                merged = piece if merged is None else merged
            else:
                token, part, state = merged
                merged = token, part, self.reductions[token].merge(state, piece[2])
        return merged

    def extract_output(self, accumulator: _Piece) -> _Piece:
        return accumulator


def _finish(
    known: States, session: Session, index: int, states: Iterable[tuple[str, Any]]
) -> States:
    with errors_as_data(session.secret):
        reductions = merging.reductions_of(session.plan, index)
        merged = merging.put_together(reductions, (piece for _, piece in states))
        after = merging.finish_pass(session, index, merged, known)
    # Large values stay in the journal.
    return after if session.journal is None else merging.by_name(known, after, index)


def _finish_merge(
    known: States,
    session: Session,
    index: int,
    numbers: Iterable[tuple[str, States]] = (),
    written: Any = (),
) -> States:
    # The side inputs only make Beam wait until all rows are written.
    found: dict[str, States] = {}
    for token, some in numbers:
        found.setdefault(token, {}).update(some)
    with errors_as_data(session.secret):
        return merging.finish_merge(session, index, found, known)
