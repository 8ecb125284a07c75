"""What becomes of labels, by key: new values from a mapping that no memory holds, or whether they stay.

Labels of slabs and what is known of them meet in *buckets* by their hash; what came of each goes back
to the slabs that have it. How many buckets there are depends on how many labels there may be; where that
are very many, slabs tell how many they have first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from beam_volumes.across.merge import Keep, Largest, cutoff_of, largest
from beam_volumes.across.rounds.chains import TableStep
from beam_volumes.across.rounds.flow import Flow, Key, Message, Round, only
from beam_volumes.across.rounds.tables import by_bucket, label_column

#: Labels of a mapping that meet at once, about.
BUCKET = 1 << 19
#: Voxels of a label, where labels are not counted: of fewer a bucket is larger.
VOXELS = 64
#: Beyond so many buckets labels are counted first: each slab sends a message to most of them.
BUCKETS = 64
#: Slabs whose counts are added up at once.
GROUP = 1024
#: Bytes that a step holds for a label of a slab or of the mapping, at most.
LABEL_BYTES = 200


@dataclass(frozen=True, eq=False)
class Tally:
    """The labels of some blocks but 0: uint64, increasing; their voxels; whether they touch the border.

    A slab's comes with the digests of its windows, which come back with the answer.
    """

    labels: np.ndarray
    counts: np.ndarray
    touches: np.ndarray
    digests: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, rows: np.ndarray) -> Tally:
        return Tally(self.labels[rows], self.counts[rows], self.touches[rows])

    @property
    def nbytes(self) -> int:
        return self.labels.nbytes + self.counts.nbytes + self.touches.nbytes


def add(tallies: Iterable[Tally]) -> Tally:
    """The tally of several blocks."""
    tallies = list(tallies)
    labels = np.concatenate([t.labels for t in tallies])
    counts = np.concatenate([t.counts for t in tallies])
    touches = np.concatenate([t.touches for t in tallies])
    if len(labels) == 0:
        return Tally(labels, counts, touches)
    order = np.argsort(labels, kind="stable")
    labels = labels[order]
    starts = np.flatnonzero(np.concatenate([[True], labels[1:] != labels[:-1]]))
    counts = np.add.reduceat(counts[order], starts)
    return Tally(labels[starts], counts, np.logical_or.reduceat(touches[order], starts))


@dataclass(frozen=True, eq=False)
class Mapping:
    """New values by label, in parts: a frozen dataclass of plain data with `parts` and `read`."""

    dtype: np.dtype  #: Of the values.
    rows: int

    @property
    def extents(self) -> tuple[Any, ...]:
        """Where it is stored (of `beam_volumes.storage.places.extent`), if it is."""
        return ()

    @property
    def operand(self) -> str:
        """What it is called: its place, if it has one."""
        return "mapping"

    def parts(self) -> Iterable[Key]:
        """The parts that it can be read in."""
        raise NotImplementedError

    def read(self, part: Key) -> tuple[np.ndarray, np.ndarray]:
        """Labels (uint64) and their values, in any order."""
        raise NotImplementedError

    def token(self) -> str:
        """A digest of what it maps, the same in every process."""
        raise NotImplementedError

    def token_now(self) -> str:
        """The same of what lies at its place now."""
        return self.token()


def fitting(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Values of a mapping as a dtype that holds them."""
    if dtype.kind in "ui" and len(values):
        info = np.iinfo(dtype)
        for value in (values.min(), values.max()):
            if not info.min <= value <= info.max:
                raise ValueError(
                    f"the mapping's value {value} does not fit {dtype}: give a wider dtype="
                )
        if values.dtype.kind == "f" and (fractional := values[values != np.floor(values)]).size:
            raise ValueError(
                f"the mapping's value {fractional[0]} is not whole, and the result is of {dtype}: give a "
                "dtype= of floats, or round the values"
            )
    return values.astype(dtype)


def sorted_mapping(labels: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """By label, increasing; a label may come again with the same value, but not with another.

    >>> sorted_mapping(np.array([4, 2, 4]), np.array([1, 7, 1]))
    (array([2, 4]), array([7, 1]))
    """
    order = np.argsort(labels, kind="stable")
    labels, values = labels[order], values[order]
    again = labels[1:] == labels[:-1]
    a, b = values[1:][again], values[:-1][again]
    differ = (a != b) & ~((a != a) & (b != b))  # NaN is NaN
    if differ.any():
        k = int(differ.argmax())
        raise ValueError(
            f"the mapping has label {int(labels[1:][again][k])} with two values, {b[k]} and {a[k]}: "
            "give each label one"
        )
    first = np.concatenate([[True], ~again])[: len(labels)]
    return labels[first], values[first]


class _Ask(NamedTuple):
    """A slab's labels in a bucket, with what it knows of them."""

    slab: int
    tally: Tally


class Part(NamedTuple):
    """Some of a mapping, in a bucket."""

    labels: np.ndarray
    values: np.ndarray


def _asks(values: list[Any]) -> dict[int, Tally]:
    return {v.slab: v.tally for v in values if isinstance(v, _Ask)}


@dataclass(frozen=True, eq=False)
class _Cutting(Round):
    """What is done to a slab's labels once it is known how many buckets there are."""

    mapping: Mapping | None

    def begun(self, buckets: int) -> Iterator[Message]:
        """Sent once: has the mapping read, and says that labels are counted though there be none."""
        if self.mapping is None:
            yield "count", (), (-1, 0)
        else:
            for part in self.mapping.parts():
                yield "read", part, buckets

    def cut(self, slab: int, tally: Tally, buckets: int) -> Iterator[Message]:
        yield "answer", (slab,), (-1, tally.digests)
        if self.mapping is not None:  # background may have a value too
            one = [np.zeros(1, c.dtype) for c in (tally.labels, tally.counts, tally.touches)]
            tally = add([Tally(one[0], one[1], one[2]), tally])
        for bucket, at in by_bucket(tally.labels, buckets):
            yield "bucket", (bucket,), _Ask(slab, tally[at])


@dataclass(frozen=True, eq=False)
class _Slab(_Cutting):
    """Under a slab: its labels to their buckets."""

    buckets: int

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        (slab,) = key
        yield from self.cut(slab, values[0], self.buckets)
        if slab == 0:
            yield from self.begun(self.buckets)


@dataclass(frozen=True, eq=False)
class _Counted(Round):
    """Under a slab: how many labels it has, to its group; they wait."""

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        (slab,), tally = key, values[0]
        yield "cut", key, tally
        yield "group", (slab // GROUP,), (slab, len(tally))


@dataclass(frozen=True, eq=False)
class _Group(Round):
    """Under a group of slabs: how many labels they have."""

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        counts = dict(values)
        yield "total", (), (key, sum(counts.values()))
        yield "tell", key, list(counts)


@dataclass(frozen=True, eq=False)
class _Total(_Cutting):
    """Under ``()``: how many buckets there are, to the groups."""

    bucket: int

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        counts = dict(values)
        rows = 0 if self.mapping is None else self.mapping.rows
        buckets = max(1, -(-max(rows, sum(counts.values())) // self.bucket))
        for group in counts:
            yield "tell", group, buckets
        yield from self.begun(buckets)


@dataclass(frozen=True, eq=False)
class _Tell(Round):
    """Under a group: how many buckets there are, to its slabs."""

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        buckets = only(values, int)
        for slab in only(values, list):
            yield "cut", (slab,), buckets


@dataclass(frozen=True, eq=False)
class _Cut(_Cutting):
    """Under a slab: its labels to their buckets, now that it knows how many those are."""

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        buckets = only(values, int)
        return self.cut(key[0], only(values, Tally), buckets)


@dataclass(frozen=True, eq=False)
class _Read(Round):
    """Under a part of the mapping: what it says, to the buckets."""

    mapping: Mapping

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        labels, new = self.mapping.read(key)
        for bucket, at in by_bucket(labels, values[0]):
            yield "bucket", (bucket,), Part(labels[at], new[at])


def bucket_size(limit_bytes: int | None) -> int:
    """Labels that a step has room for."""
    return BUCKET if limit_bytes is None else max(1, min(BUCKET, limit_bytes // LABEL_BYTES))


def _asking(
    mapping: Mapping | None, buckets: int | None, voxels: int, limit_bytes: int | None
) -> tuple[Round, ...]:
    """The rounds that send slabs' labels to buckets, and the mapping."""
    begun = "count" if mapping is None else "read"
    to = ("bucket", "answer")
    if buckets is None:
        size = bucket_size(limit_bytes)
        rows = 0 if mapping is None else mapping.rows
        buckets = max(1, -(-max(rows, voxels // VOXELS) // size))
        if buckets > BUCKETS:
            return (
                _Counted("slabs", ("cut", "group")),
                _Group("group", ("total", "tell")),
                _Total("total", ("tell", begun), mapping, size),
                _Tell("tell", ("cut",)),
                _Cut("cut", to, mapping),
            )
    return (_Slab("slabs", (*to, begun), mapping, buckets),)


@dataclass(frozen=True, eq=False)
class _Given(Round):
    """Under a slab its labels, under any key some of the mapping: to their buckets."""

    buckets: int

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        given = values[0]
        for bucket, at in by_bucket(given.labels, self.buckets):
            if isinstance(given, Part):
                yield "bucket", (bucket,), Part(given.labels[at], given.values[at])
            else:
                yield "bucket", (bucket,), _Ask(key[0], given[at])
        if not isinstance(given, Part):
            yield "answer", key, (-1, given.digests)


@dataclass(frozen=True, eq=False)
class _LookUp(Round):
    """Under a bucket: the values of each slab's labels."""

    mapping: Mapping
    missing: Any
    dtype: np.dtype

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        parts = [v for v in values if isinstance(v, Part)]
        known = np.concatenate([np.empty(0, np.uint64), *(p.labels for p in parts)])
        new = np.concatenate([np.empty(0, self.mapping.dtype), *(p.values for p in parts)])
        known, new = sorted_mapping(known, fitting(new, self.dtype))
        for slab, tally in sorted(_asks(values).items()):
            yield "answer", (slab,), (key[0], (tally.labels, self.of(tally.labels, known, new)))

    def of(self, labels: np.ndarray, known: np.ndarray, new: np.ndarray) -> np.ndarray:
        at = np.minimum(np.searchsorted(known, labels), max(0, len(known) - 1))
        there = known[at] == labels if len(known) else np.zeros(len(labels), bool)
        result = np.zeros(len(labels), self.dtype)
        result[there] = new[at[there]]
        others = ~there & (labels != 0)
        if isinstance(self.missing, str):
            if others.any() and self.missing == "error":
                raise ValueError(missing_message(int(labels[others][0])))
            result[others] = fitting(labels[others], self.dtype)
        else:
            result[others] = self.missing
        return result


def missing_message(label: int) -> str:
    return (
        f'the mapping has no value for label {label}: add it, or give missing="keep" to keep such '
        "labels or missing=0 to make them background"
    )


@dataclass(frozen=True, eq=False)
class _Sum(Round):
    """Under a bucket: its labels in the whole volume, and the largest of them."""

    k_largest: int | None

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        asks = _asks(values)
        whole = add(asks.values())
        for slab, tally in sorted(asks.items()):
            yield "decide", key, _Ask(slab, tally)
        yield "decide", key, whole
        if self.k_largest is not None:
            yield "top", (), (key, largest([Largest(whole.counts, whole.labels)], self.k_largest))


@dataclass(frozen=True, eq=False)
class _Top(Round):
    """Under ``()``: the last of the k largest, to each bucket."""

    k_largest: int

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        buckets = dict(values)
        cutoff = cutoff_of(largest(buckets.values(), self.k_largest), self.k_largest)
        for bucket in buckets:
            yield "decide", bucket, cutoff


@dataclass(frozen=True, eq=False)
class _Decide(Round):
    """Under a bucket: which of each slab's labels stay, and how many do."""

    keep: Keep
    k_largest: int | None

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        whole = only(values, Tally)
        keep = self.keep
        if self.k_largest is not None:
            cutoffs = (v for v in values if not isinstance(v, Tally | _Ask))
            keep = replace(keep, cutoff=next(cutoffs))
        kept = keep(whole.labels, {"size": whole.counts, "touches_border": whole.touches})
        for slab, tally in sorted(_asks(values).items()):
            answer = tally.labels, kept[np.searchsorted(whole.labels, tally.labels)]
            yield "answer", (slab,), (key[0], answer)
        yield "count", (), (key[0], int(kept.sum()))


class _Count(Round):
    """Under ``()``: how many labels stay."""

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        yield "numbers", (), {"count": sum(dict(values).values())}


@dataclass(frozen=True, eq=False)
class _Answer(Round):
    """Under a slab: its labels, increasing, what came of each, and the slab's digests."""

    dtype: np.dtype

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        found = dict(values)
        digests = found.pop(-1)
        parts = found.values()
        labels = np.concatenate([np.empty(0, np.uint64), *(a for a, _ in parts)])
        new = np.concatenate([np.empty(0, self.dtype), *(b for _, b in parts)])
        order = np.argsort(labels)
        yield "answers", key, (labels[order], new[order], digests)


def lookup_flow(
    mapping: Mapping,
    dtype: Any = None,
    missing: Any = "error",
    buckets: int | None = None,
    *,
    voxels: int = 0,
    limit_bytes: int | None = None,
) -> Flow:
    """New values for labels.

    Given under ``(slab,)`` a `Tally` of the slab, it sends to the port ``"answers"`` the slab's labels,
    increasing and 0 the first, the value of each, and the slab's digests; the value of 0 is 0 if the
    mapping has none.

    ``dtype``: of the values, by default the mapping's.
    ``missing``, {"error", "keep"} or number: what becomes of labels but 0 that are not in the mapping.
    ``buckets``: by default so many that about half a million labels meet, or as many as there is room
    for.
    ``voxels``: of the volume: what labels there may be.
    """
    to = np.dtype(mapping.dtype if dtype is None else dtype)
    return Flow(
        (
            *_asking(mapping, buckets, voxels, limit_bytes),
            _Read("read", ("bucket",), mapping),
            _LookUp("bucket", ("answer",), mapping, missing, to),
            _Answer("answer", ("answers",), to),
        ),
        ("answers",),
    )


def given_flow(dtype: Any, missing: Any = "error", *, voxels: int) -> Flow:
    """As `lookup_flow`, of a mapping that is given in parts beside the slabs of a volume of some voxels.

    Given under ``(slab,)`` a `Tally` of the slab without background, and under any key `Part`s of the
    mapping, it sends to the port ``"answers"`` the slab's labels, increasing, the value of each, and its
    digests.
    """
    to = np.dtype(dtype)
    buckets = max(1, voxels // VOXELS // BUCKET)
    return Flow(
        (
            _Given("given", ("bucket", "answer"), buckets),
            _LookUp("bucket", ("answer",), Mapping(to, 0), missing, to),
            _Answer("answer", ("answers",), to),
        ),
        ("answers",),
    )


def filter_flow(
    keep: Keep,
    k_largest: int | None = None,
    buckets: int | None = None,
    *,
    voxels: int = 0,
    limit_bytes: int | None = None,
) -> Flow:
    """Which labels stay, by their voxels in the whole volume.

    Given under ``(slab,)`` a `Tally` of the slab, it sends to the port ``"answers"`` the slab's labels,
    increasing, whether each stays, and its digests, and to ``"numbers"`` their ``"count"``.

    ``keep``: ``min_size``, ``max_size`` and ``touches_border``.
    ``k_largest``: only so many, the lowest label first among equals, of all labels.
    ``buckets``, ``voxels``, ``limit_bytes``: as of `lookup_flow`.
    """
    if keep.marked is not None or keep.cutoff is not None:
        raise ValueError("labels are kept by size and by touching the border")
    top = () if k_largest is None else (_Top("top", ("decide",), k_largest),)
    to = ("decide",) if k_largest is None else ("top", "decide")
    return Flow(
        (
            *_asking(None, buckets, voxels, limit_bytes),
            _Sum("bucket", to, k_largest),
            *top,
            _Decide("decide", ("answer", "count"), keep, k_largest),
            _Count("count", ("numbers",)),
            _Answer("answer", ("answers",), np.dtype(bool)),
        ),
        ("answers", "numbers"),
    )


@dataclass(frozen=True, eq=False)
class _Asked(_Cutting):
    """Under a slab: its labels to their buckets."""

    buckets: int

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        return self.cut(key[0], values[0], self.buckets)


@dataclass(frozen=True, eq=False)
class _Mapped(Round):
    """Under a shard of a table of labels and new values: these, to the buckets."""

    columns: tuple[str, str]
    buckets: int

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        labels = label_column(values[0], self.columns[0], "a mapping")
        new = np.asarray(values[0][self.columns[1]])
        for bucket, at in by_bucket(labels, self.buckets):
            yield "bucket", (bucket,), Part(labels[at], new[at])


@dataclass(frozen=True, eq=False)
class TableLookup(TableStep):
    """New values for labels, from a table: the first input is slabs' `Tally`, the second the table.

    What comes out at the port ``"answers"`` is that of `lookup_flow`.
    """

    columns: tuple[str, str]  #: Of labels and of new values.
    values: np.dtype  #: Of the table's values.
    dtype: np.dtype  #: Of the result.
    missing: Any  #: {"error", "keep"} or number
    buckets: int  #: That labels meet in.

    entries = ("labels", "mapping")

    def flow(self, limit_bytes: int | None = None) -> Flow:
        mapping = Mapping(self.values, 0)
        return Flow(
            (
                _Asked("labels", ("bucket", "answer"), mapping, self.buckets),
                _Mapped("mapping", ("bucket",), self.columns, self.buckets),
                _LookUp("bucket", ("answer",), mapping, self.missing, self.dtype),
                _Answer("answer", ("answers",), self.dtype),
            ),
            ("answers",),
        )

    def empty_numbers(self) -> dict[str, Any]:
        return {}
