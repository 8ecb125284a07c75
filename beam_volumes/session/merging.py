"""The end of a pass: merged states of slabs, numbers, and the tables of surveys."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from beam_volumes.across.rounds.flow import Flow, single_round
from beam_volumes.graph.nodes import Value, evaluate, number_token, values_below
from beam_volumes.plan.explain import describe_merge
from beam_volumes.plan.fit.planned_pass import Pass
from beam_volumes.plan.plan import Plan
from beam_volumes.plan.points import PointsPass
from beam_volumes.runs.failure import revived
from beam_volumes.runs.journal import Journal
from beam_volumes.session.points import finish_tables
from beam_volumes.session.session import Session
from beam_volumes.storage.formats.unfinished import outside
from beam_volumes.sweep.reduction import Reduction
from beam_volumes.sweep.survey import MergeLoad

#: Numbers by token.
Numbers = dict[str, Any]
#: By token, the reductions that predict the memory of merges.
Loads = dict[str, MergeLoad]
#: Ends the token of a load, which begins with the barrier's. Records of interrupted runs have it.
_LOAD = " load"
#: Maximum bytes of numbers in an element.
_MAX_NUMBERS = 1 << 20

# Reductions and merges of a pass.


def reductions_of(plan: Plan, pass_index: int) -> dict[str, Reduction]:
    """All reductions of a pass, by token."""
    p = plan.passes[pass_index]
    return {f.token: f.reduction for f in p.program.folds} | loads(p, plan.workers)


def flows_of(plan: Plan, pass_index: int) -> dict[str, Flow]:
    """The flows that merge the surveys of a pass, by barrier."""
    p = plan.passes[pass_index]
    flows = {b.token: b.survey.flow(p.grid, p.merge_limit_bytes) for b in p.program.surveys}
    # The results of slabs in flight fit one process.
    if len(p.grid) <= plan.sweeps_per_process:
        return {token: single_round(flow) for token, flow in flows.items()}
    return flows


def merge(plan: Plan, pass_index: int, parts: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Merge the states of many slabs."""
    reductions = reductions_of(plan, pass_index)
    merged = {token: reduction.zero() for token, reduction in reductions.items()}
    for part in parts:
        for token, state in part.items():
            merged[token] = reductions[token].merge(merged[token], state)
    return merged


def put_together(
    reductions: Mapping[str, Reduction], pieces: Iterable[tuple[str, int, Any]]
) -> dict[str, Any]:
    """Join the merged pieces of states: tokens, piece numbers and pieces. Others are empty states."""
    by_token: dict[str, dict[int, Any]] = {}
    for token, number, piece in pieces:
        by_token.setdefault(token, {})[number] = piece
    return {
        token: r.put_together(by_token[token]) if token in by_token else r.zero()
        for token, r in reductions.items()
    }


# Results of a pass.


def finish_pass(
    session: Session, pass_index: int, states: dict[str, Any], known: Numbers
) -> Numbers:
    """The numbers known after a pass, from earlier ones and its folds' merged states.

    Raises ValueError: merging surveys would not fit the memory, or an input has been replaced.
    """
    p = session.plan.passes[pass_index]
    journal = session.journal
    near = resolve_numbers(known, p.values, journal)
    if journal is not None and (failure := journal.failure(session.launch)) is not None:
        raise revived(failure)
    with session.noted(f"finish-{pass_index}"):
        session.check_inputs()
        values = {v.token: evaluate(v, near) for v in p.values}
        for token, load in loads(p, session.plan.workers).items():
            load.finish(states[token], ())
        found = {
            f.token: f.reduction.finish(states[f.token], tuple(values[t] for t in f.values))
            for f in p.program.folds
        }
    if isinstance(p, PointsPass):
        finish_tables(session.plan, p, found, session.run_id, session.durable)
    later = [
        o.sink.kvstore for q in session.plan.passes[pass_index + 1 :] for o in q.program.outputs
    ]
    for output in p.program.outputs:
        if output.sink.kvstore not in later:  # all of its units are written
            output.sink.finish(session.run_id, session.durable)
    if journal is not None and found:
        journal.check()
        journal.write_scalars(pass_index, found)
    return known | found


def write_rows(session: Session, token: str, shard: int, columns: Mapping[str, Any]) -> None:
    """Write a shard of a barrier's table to all its outputs; may be repeated."""
    session.check()
    for sink in session.plan.tables.get(token, ()):
        sink.write(shard, columns, session.run_id)


def finish_merge(
    session: Session,
    pass_index: int,
    numbers: Mapping[str, Mapping[str, Any]],
    known: Numbers,
) -> Numbers:
    """The numbers known after a pass and the merges of its surveys (by barrier and name).

    Called after all rows of its tables are written.
    """
    p = session.plan.passes[pass_index]
    session.check()
    for b in p.program.surveys:
        for sink in session.plan.tables.get(b.token, ()):
            if not len(p.grid):
                sink.write(0, b.survey.no_rows(p.program.shape), session.run_id)
            shards = {**b.survey.empty_numbers(), **numbers.get(b.token, {})}["shards"]
            sink.finish(shards, session.run_id, session.durable)
    found = {
        number_token(b.token, name): number
        for b in p.program.surveys
        for name, number in {**b.survey.empty_numbers(), **numbers.get(b.token, {})}.items()
    }
    if session.journal is not None and p.program.surveys:
        folds = {f.token: known[f.token] for f in p.program.folds}
        if any(isinstance(number, InJournal) for number in folds.values()):
            there = numbers_of(session.journal, pass_index)
            folds = {token: there[token] for token in folds}
        session.journal.write_scalars(pass_index, folds | found)
    return known | found


# Numbers too large for elements: they stay in the journal, and elements name their pass.


@dataclass(frozen=True)
class InJournal:
    """A placeholder for a number in the journal, with its pass."""

    pass_index: int


def by_name(before: dict[str, Any], known: dict[str, Any], pass_index: int) -> dict[str, Any]:
    """The numbers known after a pass; if they are too large, placeholders for the largest new ones.

    Numbers from ``before`` the pass are kept: they were checked then.
    """
    total = sum(map(_size, before.values()))
    light = dict(known)
    for token in sorted(known.keys() - before.keys(), key=lambda t: (_size(known[t]), t)):
        total += _size(known[token])
        if total > _MAX_NUMBERS:
            light[token] = InJournal(pass_index)
    return light


def _size(number: Any) -> int:
    return (
        number.nbytes if isinstance(number, np.ndarray) else len(pickle.dumps(number, protocol=5))
    )


def resolve_numbers(
    known: dict[str, Any], values: Iterable[Value], journal: Journal | None
) -> dict[str, Any]:
    """Copy known numbers, and read those that some values depend on from the journal."""
    near = dict(known)
    passes: dict[int, list[str]] = {}
    for v in values_below(values):
        if isinstance(number := near.get(v.token), InJournal):
            passes.setdefault(number.pass_index, []).append(v.token)
    for index, tokens in passes.items():
        near |= {token: numbers_of(journal, index)[token] for token in tokens}
    return near


def numbers_of(journal: Journal | None, pass_index: int) -> dict[str, Any]:
    """Read the numbers of a finished pass; Superseded if another run has taken over the journal."""
    assert journal is not None, "placeholders need a journal"
    found = journal.read_scalars(pass_index)
    if found is None:
        journal.check()  # a run that takes over deletes them
        raise OSError(
            f"the numbers of pass {pass_index + 1} are not in {journal.url}: remote workers need "
            "a place that they and this machine can access; give journal=, or temp_location in "
            "options"
        )
    return found


# Sums that decide whether the merge of a survey fits the memory.


def warn_of_merges(plan: Plan) -> None:
    """Warn of merges that are expected to need more memory than the plan has for them."""
    for p in plan.swept:
        for name, size in p.merges.items():
            if size.expected > p.merge_limit_bytes:
                text = f"{name}: {describe_merge(plan, p, name)}"
                warnings.warn(text, RuntimeWarning, stacklevel=outside())


def loads(p: Pass, workers: int | None) -> Loads:
    """The loads of the merges of a pass; ``workers``: see `Survey.load`."""
    limits = p.merge_limit_bytes, workers, p.limit_bytes
    found = {f"{b.token}{_LOAD}": b.survey.load(p.grid, *limits) for b in p.program.surveys}
    return {token: load for token, load in found.items() if load is not None}


def loads_of_slab(loads: Loads, summaries: Mapping[str, Any]) -> dict[str, Any]:
    """The states of a slab for the loads of merges, from its summaries by barrier."""
    return {t: load.of_slab(summaries[t.removesuffix(_LOAD)]) for t, load in loads.items()}
