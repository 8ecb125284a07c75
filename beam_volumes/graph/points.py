"""What is below expressions of many points in time: voxels, and numbers of all points."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from beam_volumes.graph.nodes import (
    Barrier,
    FoldValue,
    Node,
    Value,
    below,
    goes_across,
)

Item = Node | Value | Barrier


def numbers_across(roots: Iterable[Item]) -> list[FoldValue]:
    """The numbers of all points that items rest on, each after those that it rests on itself."""
    order: dict[str, FoldValue] = {}
    stack: list[tuple[FoldValue, bool]] = [(f, False) for f in _next_across(roots)]
    while stack:
        fold, done = stack.pop()
        if done:
            order.setdefault(fold.token, fold)
        elif fold.token not in order:
            stack.append((fold, True))
            stack += [(f, False) for f in _next_across(below(fold))]
    return list(order.values())


def _next_across(roots: Iterable[Item]) -> list[FoldValue]:
    """Those below items, and not below each other."""
    return [item for item in _below(roots) if goes_across(item)]  # type: ignore[misc]


def holds_voxels(roots: Iterable[Item]) -> bool:
    """Whether items rest on voxels otherwise than by numbers of all points."""
    return any(isinstance(item, Node) for item in _below(roots))


def _below(roots: Iterable[Item]) -> Iterator[Item]:
    """All that items rest on, themselves included, but not what is below numbers of all points."""
    seen: set[str] = set()
    stack = list(roots)
    while stack:
        item = stack.pop()
        if item.token not in seen:
            seen.add(item.token)
            if not goes_across(item):
                stack += below(item)
            yield item
