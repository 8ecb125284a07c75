"""Refuse runs with overlapping inputs, outputs and run folders."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from beam_volumes.graph.nodes import SourceNode, StageNode
from beam_volumes.plan.cut.passes import Levels
from beam_volumes.storage.places.extent import Bytes, Extent
from beam_volumes.storage.places.place import Spec, kvstore_spec, sibling, url

#: The name of stored data in messages, and its location.
Named = tuple[str, tuple[Extent, ...]]


def inputs_below(levels: Levels) -> tuple[Named, ...]:
    """Everything that is read from storage: volumes, and tables that labels are looked up in."""
    found: dict[tuple[str, str], Named] = {}
    for name, extents in _read(levels):
        found.setdefault((name, repr(extents)), (name, extents))
    return tuple(found.values())


def _read(levels: Levels) -> Iterator[Named]:
    for node in levels.nodes.values():
        if isinstance(node, SourceNode):
            yield node.source.name, node.source.reader.extents
    tables = [n.stage.extents for n in levels.nodes.values() if isinstance(n, StageNode)]
    tables += [b.survey.extents for b in levels.barriers.values()]
    for extents in tables:
        for extent in extents:
            yield url(kvstore_spec(extent.store)), (extent,)


def check_in_place(
    inputs: Sequence[Named], sinks: Sequence[Any], run_folders: Sequence[Spec] = ()
) -> None:
    """Refuse outputs and run folders that overlap an input or another output, under any name.

    ``run_folders``: folders of the journal and the intermediates.
    """
    read = [(name, Bytes(extents)) for name, extents in inputs if extents]
    written = [(sink.name, Bytes(sink.extents)) for sink in sinks]
    for i, (name, place) in enumerate(written):
        if other := _met(place, written[:i]):
            both = f"{name}" if other == name else f"{other} and {name}, which share bytes"
            raise ValueError(f"two targets write {both}; give each its own path")
        if other := _met(place, read):
            if other == name:
                raise ValueError(f"{name} is also an input; write to another path, never in place")
            raise ValueError(
                f"the output {name} shares bytes with the input {other}: one is or contains the "
                "other; write to another path, never in place"
            )
    for folder in run_folders:
        place = Bytes([Extent(folder)])
        for kind, found in (("input", read), ("output", written)):
            if other := _met(place, found):
                raise ValueError(
                    f"the folder of the run, {url(folder)}, shares bytes with the {kind} {other}: one is "
                    "or contains the other; choose other paths, or another journal="
                )


def check_hidden_inputs(inputs: Sequence[Named], sinks: Sequence[Any]) -> None:
    """Refuse to overwrite outputs if an input's locations are unknown: it may read an output."""
    found = ((name, e.hidden_by) for name, extents in inputs for e in extents)
    hidden = next(((name, by) for name, by in found if by is not None), None)
    there = next((sink.name for sink in sinks if sink.exists()), None)
    if hidden is not None and there is not None:
        raise ValueError(
            f"the output {there} exists, and {hidden[0]} may read it: which files {hidden[1]} reads "
            "cannot be known, and overwrite=True would delete the output first; write to another "
            f"path, or move {there} away yourself if it is not an input"
        )


def run_folders(sinks: Sequence[Any]) -> list[Spec]:
    """The folder of the run, next to its first output."""
    return [sibling(sink.kvstore, ".run") for sink in sinks[:1]]


def _met(place: Bytes, others: Iterable[tuple[str, Bytes]]) -> str | None:
    return next((name for name, other in others if place.meet(other)), None)
