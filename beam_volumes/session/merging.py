"""The end of a pass: merged states of slabs, numbers, and the tables of surveys."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import Any

from beam_volumes.across.rounds.flow import Flow, single_round
from beam_volumes.graph.nodes import evaluate, number_token
from beam_volumes.plan.explain import describe_merge
from beam_volumes.plan.fit.planned_pass import Pass
from beam_volumes.plan.plan import Plan
from beam_volumes.plan.points import PointsPass
from beam_volumes.runs.failure import revived
from beam_volumes.session.numbers import InJournal, numbers_of, resolve_numbers
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
