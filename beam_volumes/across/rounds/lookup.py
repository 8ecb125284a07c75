"""Look up new values of labels in a mapping of any size, or decide which labels to keep.

Labels of slabs, and values for them, are combined in *buckets* by hash; the results go back to the
slabs that have the label. The number of buckets depends on the possible number of labels. If there
may be very many, slabs report their counts first.
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

#: Approximate labels of a mapping in one bucket.
BUCKET = 1 << 19
#: Assumed voxels of a label if labels are not counted; with fewer, buckets are larger.
VOXELS = 64
#: With more buckets, labels are counted first: each slab sends a message to most of them.
BUCKETS = 64
#: Slabs in a group for adding counts.
GROUP = 1024
#: Bytes of a step for a label of a bucket that slabs and the mapping have, and of its messages.
LABEL_BYTES = 128


@dataclass(frozen=True, eq=False)
class Tally:
    """The non-zero labels of blocks: uint64, increasing; their voxels; if they touch the border.

    The tally of a slab has the digests of its windows, which are returned with the answer.
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

    dtype: np.dtype  #: Dtype of the values.
    rows: int

    @property
    def extents(self) -> tuple[Any, ...]:
        """The location (`beam_volumes.storage.places.extent`), if it is stored."""
        return ()

    @property
    def operand(self) -> str:
        """Its name in messages: its place, if it has one."""
        return "mapping"

    def parts(self) -> Iterable[Key]:
        """The parts that can be read separately."""
        raise NotImplementedError

    def read(self, part: Key) -> tuple[np.ndarray, np.ndarray]:
        """Labels (uint64) and their values, in any order."""
        raise NotImplementedError

    def token(self) -> str:
        """A digest of its content, the same in every process."""
        raise NotImplementedError

    def token_now(self) -> str:
        """The digest of the current content of its place."""
        return self.token()


def fitting(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Convert values of a mapping to a dtype; refuse those that do not fit."""
    if dtype.kind in "ui" and len(values):
        info = np.iinfo(dtype)
        for value in (values.min(), values.max()):
            if not info.min <= value <= info.max:
                raise ValueError(
                    f"the mapping's value {value} does not fit {dtype}: give a wider dtype="
                )
        if values.dtype.kind == "f" and (fractional := values[values != np.floor(values)]).size:
            raise ValueError(
                f"the mapping's value {fractional[0]} is not an integer, but the result is "
                f"{dtype}: give a float dtype=, or round the values"
            )
    return values.astype(dtype)


def sorted_mapping(labels: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sort by label. A label may occur several times, but with the same value.

    >>> sorted_mapping(np.array([4, 2, 4]), np.array([1, 7, 1]))
    (array([2, 4]), array([7, 1]))
    """
    order = np.argsort(labels, kind="stable")
    labels, values = labels[order], values[order]
    again = labels[1:] == labels[:-1]
    a, b = values[1:][again], values[:-1][again]
    differ = (a != b) & ~((a != a) & (b != b))  # NaN equals NaN
    if differ.any():
        k = int(differ.argmax())
        raise ValueError(
            f"the mapping has label {int(labels[1:][again][k])} with two values, {b[k]} and "
            f"{a[k]}; give each label one value"
        )
    first = np.concatenate([[True], ~again])[: len(labels)]
    return labels[first], values[first]


class _Ask(NamedTuple):
    """A slab's labels in a bucket, with their properties."""

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
    """Sends a slab's labels to buckets when the number of buckets is known."""

    mapping: Mapping | None

    def begun(self, buckets: int) -> Iterator[Message]:
        """Request the mapping, and the count of labels even if there are none; sent once."""
        if self.mapping is None:
            yield "count", (), (-1, 0)
        else:
            for part in self.mapping.parts():
                yield "read", part, buckets

    def cut(self, slab: int, tally: Tally, buckets: int) -> Iterator[Message]:
        yield "answer", (slab,), (-1, tally.digests)
        if self.mapping is not None:  # background may have a value, too
            one = [np.zeros(1, c.dtype) for c in (tally.labels, tally.counts, tally.touches)]
            tally = add([Tally(one[0], one[1], one[2]), tally])
        for bucket, at in by_bucket(tally.labels, buckets):
            yield "bucket", (bucket,), _Ask(slab, tally[at])


@dataclass(frozen=True, eq=False)
class _Slab(_Cutting):
    """For a slab: send its labels to their buckets."""

    buckets: int

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        (slab,) = key
        yield from self.cut(slab, values[0], self.buckets)
        if slab == 0:
            yield from self.begun(self.buckets)


@dataclass(frozen=True, eq=False)
class _Counted(Round):
    """For a slab: send the number of its labels to its group; the labels wait."""

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        (slab,), tally = key, values[0]
        yield "cut", key, tally
        yield "group", (slab // GROUP,), (slab, len(tally))


@dataclass(frozen=True, eq=False)
class _Group(Round):
    """For a group of slabs: the number of labels."""

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        counts = dict(values)
        yield "total", (), (key, sum(counts.values()))
        yield "announce", key, list(counts)


@dataclass(frozen=True, eq=False)
class _Total(_Cutting):
    """Send the number of buckets to the groups."""

    bucket: int

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        counts = dict(values)
        rows = 0 if self.mapping is None else self.mapping.rows
        buckets = max(1, -(-max(rows, sum(counts.values())) // self.bucket))
        for group in counts:
            yield "announce", group, buckets
        yield from self.begun(buckets)


@dataclass(frozen=True, eq=False)
class _Announce(Round):
    """For a group: send the number of buckets to its slabs."""

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        buckets = only(values, int)
        for slab in only(values, list):
            yield "cut", (slab,), buckets


@dataclass(frozen=True, eq=False)
class _Cut(_Cutting):
    """For a slab: send its labels to their buckets, when the number of buckets is known."""

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        buckets = only(values, int)
        return self.cut(key[0], only(values, Tally), buckets)


@dataclass(frozen=True, eq=False)
class _Read(Round):
    """For a part of the mapping: send its values to the buckets."""

    mapping: Mapping

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        labels, new = self.mapping.read(key)
        for bucket, at in by_bucket(labels, values[0]):
            yield "bucket", (bucket,), Part(labels[at], new[at])


def bucket_size(limit_bytes: int | None) -> int:
    """Labels that fit the memory of a step."""
    return BUCKET if limit_bytes is None else max(1, min(BUCKET, limit_bytes // LABEL_BYTES))


def _asking(
    mapping: Mapping | None, buckets: int | None, voxels: int, limit_bytes: int | None
) -> tuple[Round, ...]:
    """The rounds that send slabs' labels, and the mapping, to buckets."""
    begun = "count" if mapping is None else "read"
    to = ("bucket", "answer")
    if buckets is None:
        size = bucket_size(limit_bytes)
        rows = 0 if mapping is None else mapping.rows
        buckets = max(1, -(-max(rows, voxels // VOXELS) // size))
        if buckets > BUCKETS:
            return (
                _Counted("slabs", ("cut", "group")),
                _Group("group", ("total", "announce")),
                _Total("total", ("announce", begun), mapping, size),
                _Announce("announce", ("cut",)),
                _Cut("cut", to, mapping),
            )
    return (_Slab("slabs", (*to, begun), mapping, buckets),)


@dataclass(frozen=True, eq=False)
class _Given(Round):
    """For a slab its labels, for any key a part of the mapping: send them to buckets."""

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
    """For a bucket: the values of each slab's labels."""

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
    """For a bucket: its labels in the whole volume, and the largest of them."""

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
    """Send the last of the k largest to each bucket."""

    k_largest: int

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        buckets = dict(values)
        cutoff = cutoff_of(largest(buckets.values(), self.k_largest), self.k_largest)
        for bucket in buckets:
            yield "decide", bucket, cutoff


@dataclass(frozen=True, eq=False)
class _Decide(Round):
    """For a bucket: which of each slab's labels are kept, and how many."""

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
    """The number of labels that are kept."""

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        yield "numbers", (), {"count": sum(dict(values).values())}


@dataclass(frozen=True, eq=False)
class _Answer(Round):
    """For a slab: its labels, increasing, their results, and the slab's digests."""

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
    """New values for labels; the input under ``(slab,)`` is a `Tally` of the slab.

    The port ``"answers"`` has the slab's labels, increasing from 0, the value of each, and its digests.
    """
    # ``missing`` applies to non-zero labels; 0 becomes 0 if the mapping has no value for it. ``buckets`` are
    # by default one for about half a million labels, or as many as fit the memory. ``voxels`` of the volume
    # limit the number of labels.
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
    """As `lookup_flow`, with a mapping that is given together with the slabs: `Part`s under any key.

    A `Tally` has no background. ``"answers"`` have the slab's labels, increasing, their values, and digests.
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
    """Decide by their voxels in the whole volume which labels to keep; the input is a `Tally` of each slab.

    ``"answers"`` has the slab's labels, increasing, whether each is kept, and its digests.
    """
    # ``"numbers"`` has the ``"count"`` of kept labels. The lowest label wins ties for ``k_largest``.
    if keep.marked is not None or keep.cutoff is not None:
        raise ValueError("labels can only be kept by size and by touching the border")
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
    """For a slab: send its labels to their buckets."""

    buckets: int

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        return self.cut(key[0], values[0], self.buckets)


@dataclass(frozen=True, eq=False)
class _Mapped(Round):
    """For a shard of a table of labels and new values: send them to the buckets."""

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

    The port ``"answers"`` is the same as of `lookup_flow`.
    """

    takes_any_order = True

    columns: tuple[str, str]  #: Columns of labels and of new values.
    values: np.dtype  #: Dtype of the table's values.
    dtype: np.dtype  #: Dtype of the result.
    missing: Any  #: {"error", "keep"} or number
    buckets: int  #: Number of buckets for labels.

    entries = ("labels", "mapping")

    def flow(self, limit_bytes: int | None = None, ordered: bool = True) -> Flow:
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
