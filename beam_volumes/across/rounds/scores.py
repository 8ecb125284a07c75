"""The agreement of two segmentations, from a table of voxels that pairs of labels share.

All counts are exact. Sums of squares and entropies only need to know how often each size occurs,
which adds up in any order.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from beam_volumes.across.rounds.chains import TableStep
from beam_volumes.across.rounds.flow import Flow, Key, Message, Round
from beam_volumes.across.rounds.records import RecordRows
from beam_volumes.across.rounds.tables import Columns, by_bucket, table_flow

#: Columns of a contingency table.
CONTINGENCY = RecordRows(
    (("label_a", "<u8"), ("label_b", "<u8"), ("count", "<i8")), labels=2, added=("count",)
)
#: Columns of a table of overlaps.
OVERLAPS = RecordRows((
    ("label", "<u8"),
    ("num_pixels", "<i8"),
    ("best_label", "<u8"),
    ("best_num_pixels", "<i8"),
    ("intersection", "<i8"),
    ("iou", "<f8"),
    ("dice", "<f8"),
))  # fmt: skip


def sums_of(labels: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct labels, and the sums of their counts."""
    own, place = np.unique(labels, return_inverse=True)
    sums = np.zeros(len(own), np.int64)
    np.add.at(sums, place.reshape(-1), counts)
    return own, sums


def _sizes(counts: np.ndarray) -> Counter:
    """How often each size occurs."""
    return Counter(
        dict(zip(*(a.tolist() for a in np.unique(counts, return_counts=True)), strict=True))
    )


@dataclass(frozen=True, eq=False)
class Agreement(TableStep):
    """Variation of information and adapted Rand error, from a contingency table."""

    alpha: float  #: The weight of precision in the F-score.
    buckets: int  #: That labels meet in.

    entries = ("shards",)

    def flow(self, limit_bytes: int | None = None, ordered: bool = True) -> Flow:
        return Flow(
            (
                _Sides("shards", ("sum", "total"), self.buckets),
                _Side("sum", ("total",)),
                _Total("total", ("numbers",), self.alpha),
            ),
            ("numbers",),
        )

    def empty_numbers(self) -> dict[str, Any]:
        return scores({}, {}, {}, self.alpha)


@dataclass(frozen=True, eq=False)
class _Sides(Round):
    """For a shard of pairs: send the labels of either side to buckets, and the pairs' sizes on."""

    buckets: int

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        rows = values[0]
        for side, name in enumerate(("label_a", "label_b")):
            labels, counts = sums_of(rows[name], rows["count"])
            for bucket, at in by_bucket(labels, self.buckets):
                yield "sum", (side, bucket), (key, labels[at], counts[at])
        yield "total", (), ("pair", key, _sizes(rows["count"]))


@dataclass(frozen=True, eq=False)
class _Side(Round):
    """For a side and a bucket of its labels: their sizes."""

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        parts = {shard: part for shard, *part in values}.values()
        _, sums = sums_of(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
        yield "total", (), ("ab"[key[0]], key, _sizes(sums))


@dataclass(frozen=True, eq=False)
class _Total(Round):
    """How often each size occurs, and the scores."""

    alpha: float

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        sizes: dict[str, Counter] = {"pair": Counter(), "a": Counter(), "b": Counter()}
        for (what, _), counter in {(w, k): c for w, k, c in values}.items():
            sizes[what].update(counter)
        yield "numbers", (), scores(sizes["pair"], sizes["a"], sizes["b"], self.alpha)


def scores(
    pairs: dict[int, int], first: dict[int, int], second: dict[int, int], alpha: float = 0.5
) -> dict[str, np.float64]:
    """Scores from how often each size occurs, among pairs and the labels of either side.

    >>> same = {10: 1, 6: 1}
    >>> {name: float(score) for name, score in scores(same, same, same).items()}
    {'split': 0.0, 'merge': 0.0, 'error': 0.0, 'precision': 1.0, 'recall': 1.0}
    """
    voxels = sum(n * k for n, k in pairs.items())

    def bits(sizes: dict[int, int]) -> float:
        return math.fsum(k * (n * math.log2(n)) for n, k in sorted(sizes.items()))

    def others(sizes: dict[int, int]) -> int:
        """Ordered pairs of different voxels with the same label."""
        return sum(k * n * (n - 1) for n, k in sizes.items())

    def ratio(above: float, below: float) -> float:
        return above / below if below else math.nan

    both, a, b = others(pairs), others(first), others(second)
    found = {
        "split": max(0.0, ratio(bits(first) - bits(pairs), voxels)) if voxels else math.nan,
        "merge": max(0.0, ratio(bits(second) - bits(pairs), voxels)) if voxels else math.nan,
        "error": 1.0 - ratio(both, alpha * a + (1 - alpha) * b),
        "precision": ratio(both, a),
        "recall": ratio(both, b),
    }
    return {name: np.float64(score) for name, score in found.items()}


@dataclass(frozen=True, eq=False)
class BestOverlap(TableStep):
    """For each label of the first side, the label of the second that it overlaps best."""

    buckets: int  #: That labels meet in.
    ignored: tuple[int, ...] = (0,)  #: Labels of the second side that are ignored.

    entries = ("pairs",)
    rows = OVERLAPS

    def flow(self, limit_bytes: int | None = None, ordered: bool = True) -> Flow:
        table = table_flow(
            OVERLAPS, self.buckets, limit_bytes=limit_bytes, row_bytes=56, ordered=ordered
        )
        first, *rest = table.rounds
        return Flow(
            (
                _ToSecond("pairs", ("second", "best"), self.buckets),
                _Second("second", ("best",), self.buckets),
                _Best("best", first.to, first, self.ignored),
                *rest,
            ),
            table.ports,
        )


@dataclass(frozen=True, eq=False)
class _ToSecond(Round):
    """For a shard of pairs: send the pairs to the buckets of their second labels."""

    buckets: int

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        rows = CONTINGENCY.records(values[0])
        for bucket, at in by_bucket(rows.columns["label_b"], self.buckets):
            yield "second", (bucket,), (key, rows[at])
        if key == (0,):  # a table without rows has one shard
            for bucket in range(self.buckets):
                yield "best", (bucket,), ((-1,), CONTINGENCY.empty(), np.empty(0, np.int64))


@dataclass(frozen=True, eq=False)
class _Second(Round):
    """For a bucket of second labels: send pairs with the labels' sizes to buckets of the first."""

    buckets: int

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        rows = CONTINGENCY.merge(list(dict(values).values()))
        labels, sums = sums_of(rows.columns["label_b"], rows.columns["count"])
        sizes = sums[np.searchsorted(labels, rows.columns["label_b"])]
        for bucket, at in by_bucket(rows.columns["label_a"], self.buckets):
            yield "best", (bucket,), (key, rows[at], sizes[at])


@dataclass(frozen=True, eq=False)
class _Best(Round):
    """For a bucket of first labels: send the best pair of each to the table."""

    table: Round
    ignored: tuple[int, ...]

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        parts = {sender: (rows, sizes) for sender, rows, sizes in values}.values()
        rows = {
            name: np.concatenate([r.columns[name] for r, _ in parts])
            for name, _ in CONTINGENCY.names
        }
        sizes = np.concatenate([s for _, s in parts])
        yield from self.table.step(key, [best_of(rows, sizes, self.ignored)])


def best_of(rows: Columns, sizes: np.ndarray, ignored: tuple[int, ...] = (0,)) -> Any:
    """The best pair of each first label; the smaller second label wins ties.

    Ratios are compared as fractions of integers.
    """
    first, second, count = rows["label_a"], rows["label_b"], rows["count"]
    labels, own = sums_of(first, count)
    mine = own[np.searchsorted(labels, first)]
    best: dict[int, tuple[int, int, int, int]] = {}
    kept = ~np.isin(second, np.array(ignored, np.uint64))
    columns = (first[kept], second[kept], count[kept], sizes[kept], mine[kept])
    for a, b, both, size, of in zip(*(c.tolist() for c in columns), strict=True):
        union = size + of - both
        old = best.get(a)
        if old is not None:
            mine_, others = both * old[1], old[0] * union
            if mine_ < others or (mine_ == others and b > old[2]):
                continue
        best[a] = both, union, b, size
    found = [best.get(a, (0, 1, 0, 0)) for a in labels.tolist()]
    return OVERLAPS.of(
        label=labels,
        num_pixels=own,
        best_label=np.array([f[2] for f in found], np.uint64),
        best_num_pixels=[f[3] for f in found],
        intersection=[f[0] for f in found],
        iou=[f[0] / f[1] for f in found],
        dice=[2 * f[0] / (f[0] + f[1]) for f in found],
    )
