"""Move the intermediates of a plan to the folder of a run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from beam_volumes.plan.fit.planned_pass import Pass
from beam_volumes.plan.plan import Plan
from beam_volumes.storage.places.place import Spec, url
from beam_volumes.storage.sources.source import Source


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
