"""The identity of a run: its inputs, its plan, and the places of its own files.

The pickled plan in its folder suffices to continue a run: plain data, and the functions given to
`map_overlap`. Its size does not depend on the number of slabs.
"""

from __future__ import annotations

import pickle
import platform
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import cloudpickle

from beam_volumes.plan.fit.planned_pass import Pass
from beam_volumes.plan.plan import Plan
from beam_volumes.runs.journal import Journal, run_folder
from beam_volumes.runs.manifest import Manifest
from beam_volumes.storage.places.place import Spec, join, output_spec, url
from beam_volumes.storage.sources.source import Source
from beam_volumes.storage.sources.stamps import Stamp, stamps
from beam_volumes.version import __version__


def make_manifest(plan: Plan, run_id: str) -> Manifest:
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
    """The stamps of a plan's inputs by name, to detect replaced inputs."""
    found: dict[str, list[Stamp]] = {}
    for name, extents in plan.inputs:
        found.setdefault(name, []).extend(stamps(extents))
    return found


def python_version() -> str:
    """The version of Python as far as pickles depend on it: ``"3.11"``."""
    return ".".join(platform.python_version_tuple()[:2])


def journal_place(plan: Plan, journal: Any) -> Spec | None:
    """The place of a plan's journal: next to its first output, or where the user wants it; or None."""
    if journal is False:
        return None
    if journal is not None:
        return join(output_spec(journal), directory=True)
    outputs = [
        s
        for s in plan.results
        if s is not None and hasattr(s, "kvstore") and s not in plan.intermediates
    ]
    return run_folder(outputs[0].kvstore) if outputs else None  # type: ignore[union-attr]


def scratch_of(journal: Journal) -> Spec:
    """The place of a run's intermediate results."""
    return join(journal.own, "intermediate")


def with_scratch(plan: Plan, place: Spec) -> Plan:
    """The plan with its intermediates in another folder."""
    if plan.scratch_place is None or plan.scratch_place == place:
        return plan
    own = tuple(str(s.kvstore["path"]).rstrip("/") + "/" for s in plan.intermediates)
    move = _Move(plan.scratch_place, place, own)
    sinks = {
        id(s): replace(s, name=move.name(s.name), kvstore=move.spec(s.kvstore))
        for s in plan.intermediates
    }

    def moved(item: Any) -> Any:
        return sinks.get(id(item), item)

    def moved_pass(p: Pass) -> Pass:
        program = replace(
            p.program,
            steps=tuple(
                s if s.source is None else replace(s, source=move.source(s.source))
                for s in p.program.steps
            ),
            outputs=tuple(replace(o, sink=moved(o.sink)) for o in p.program.outputs),
        )
        return replace(p, program=program)

    return replace(
        plan,
        passes=tuple(map(moved_pass, plan.passes)),
        results=tuple(map(moved, plan.results)),
        intermediates=tuple(map(moved, plan.intermediates)),
        tables={token: tuple(map(moved, sinks)) for token, sinks in plan.tables.items()},
        scratch_place=place,
    )


class _Move:
    """Maps places from one folder to another."""

    def __init__(self, old: Spec, new: Spec, own: tuple[str, ...]) -> None:
        self.old, self.new, self.own = old, new, own

    def spec(self, spec: Spec) -> Spec:
        """The new place of something in the old folder; other places are unchanged."""
        below = self._below(spec)
        if below is None:
            return spec
        return {**self.new, "path": str(self.new["path"]).rstrip("/") + "/" + below}

    def _below(self, spec: Spec) -> str | None:
        if {k: v for k, v in spec.items() if k != "path"} != {
            k: v for k, v in self.old.items() if k != "path"
        }:
            return None
        root = str(self.old["path"]).rstrip("/") + "/"
        path = str(spec.get("path", ""))
        return path[len(root) :] if path.startswith(root) else None

    def name(self, name: str) -> str:
        """The new name of a place in messages."""
        root = url(self.old).rstrip("/") + "/"
        if not name.startswith(root):
            return name
        return url(self.new).rstrip("/") + "/" + name[len(root) :]

    def _is_own(self, store: Spec) -> bool:
        """Whether a place is one of the moved ones, or inside one."""
        path = str(store.get("path", "")).rstrip("/") + "/"
        return self._below(store) is not None and any(path.startswith(own) for own in self.own)

    def source(self, source: Source) -> Source:
        """A source, read from the new folder if it is in the old one."""
        below = any(
            isinstance(e.store, dict) and self._is_own(e.store) for e in source.reader.extents
        )
        return source.moved(self.name(source.name), self.spec) if below else source


@dataclass(frozen=True)
class Request:
    """Options of a run in addition to its plan."""

    #: Whether it runs as a pipeline.
    beam: bool
    #: The caller's note on reporting results, for a process that continues the run.
    note: Any = None


def save_plan(plan: Plan, request: Request | None) -> tuple[bytes | None, str]:
    """Pickle a run's plan and request; or return None and the reason."""
    if request is None:
        return None, "it is a step of a pipeline: run that again with resume=True"
    if not all(sink.portable for sink in plan.sinks):
        return None, "its outputs were in the memory of the process that began it"
    for p in plan.swept:
        for step in p.program.steps:
            if step.source is not None and not step.source.portable:
                return None, (
                    f"its input {step.source.name} was in the memory of the process that began it: "
                    "run the program again with resume=True"
                )
    try:
        return _pickled((plan, request)), ""
    except Exception as error:  # pickling a user's function may raise anything
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        return None, (
            f"its plan does not pickle ({reason}): run the program again with resume=True"
        )


def _pickled(item: Any) -> bytes:
    """Pickle, with functions of the user's program by value: another process does not have them."""
    if not cloudpickle.list_registry_pickle_by_value():
        with suppress(Exception):  # nested functions, for example
            data = pickle.dumps(item, protocol=5)
            if b"__main__" not in data:
                return data  # the same as cloudpickle's, in a quarter of the time
    return cloudpickle.dumps(item)  # type: ignore[no-any-return]
