"""Whose a run is: what it is called, what it computes, and where it keeps what is its own."""

from __future__ import annotations

import platform
from typing import Any

from beam_volumes.plan.plan import Plan
from beam_volumes.runs.journal import Journal, run_folder
from beam_volumes.runs.manifest import Manifest
from beam_volumes.storage.places.place import Spec, join, output_spec
from beam_volumes.storage.sources.stamps import Stamp, stamps
from beam_volumes.version import __version__


def make_manifest(plan: Plan, run_id: str) -> Manifest:
    """The identity of a run of a plan."""
    d = plan.to_dict()
    return Manifest(
        run_id,
        plan.fingerprint,
        d.pop("passes"),
        [{**s.to_dict(), "internal": s in plan.intermediates} for s in plan.sinks],
        d,
        __version__,
        python_version(),
    )


def stamps_of(plan: Plan) -> dict[str, list[Stamp]]:
    """What tells whether the inputs of a plan have been replaced, by their names."""
    found: dict[str, list[Stamp]] = {}
    for name, extents in plan.inputs:
        found.setdefault(name, []).extend(stamps(extents))
    return found


def python_version() -> str:
    """The version of Python as far as pickles depend on it: ``"3.11"``."""
    return ".".join(platform.python_version_tuple()[:2])


def journal_place(plan: Plan, journal: Any) -> Spec | None:
    """Where a plan's journal is kept: beside its first output, or where the user says."""
    if journal is not None:
        return join(output_spec(journal), directory=True)
    outputs = [
        s
        for s in plan.results
        if s is not None and hasattr(s, "kvstore") and s not in plan.intermediates
    ]
    return run_folder(outputs[0].kvstore) if outputs else None  # type: ignore[union-attr]


def scratch_of(journal: Journal) -> Spec:
    """Where a run stores what lies between its passes."""
    return join(journal.own, "intermediate")
