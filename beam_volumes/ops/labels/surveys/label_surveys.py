"""Relabelling: by a mapping in memory, by a mapping by key, or by selecting labels."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from beam_volumes.across.merge import Keep
from beam_volumes.across.rounds.chains import through
from beam_volumes.across.rounds.flow import Flow
from beam_volumes.across.rounds.lookup import (
    Mapping,
    Tally,
    add,
    filter_flow,
    fitting,
    lookup_flow,
    missing_message,
    sorted_mapping,
)
from beam_volumes.across.rounds.tables import MERGE_COPIES
from beam_volumes.across.tables import as_labels
from beam_volumes.base.geometry import Grid, Triple
from beam_volumes.kernels.labels import lookup as kernels
from beam_volumes.kernels.labels.regions import table_of
from beam_volumes.ops.labels.surveys.mappings import check_labels, check_missing, mapping_arrays
from beam_volumes.ops.labels.surveys.table_surveys import SHARE, Rows, RowSurveyor, labels_in
from beam_volumes.storage.places.extent import Extent
from beam_volumes.sweep.stage import Block, Stage, digest
from beam_volumes.sweep.survey import (
    VOXELS_PER_LABEL,
    Completer,
    Completion,
    StoredOperand,
    Survey,
    Surveyor,
    check_same,
    digested,
)

#: Bytes of a label in a tally, and in the lookup table.
_TALLY_BYTES, _TABLE_BYTES = 17, 80


@dataclass(frozen=True, eq=False)
class UniqueSurvey(Survey):
    """The labels of a slab's core, with their voxel counts and whether they touch the volume's border."""

    expectations = ("voxels_per_label",)

    border_axes: tuple[int, ...]  #: The axes with a border.
    border: int  #: The width of the border in voxels.
    #: Expected voxels per label.
    voxels_per_label: int = field(default=VOXELS_PER_LABEL, kw_only=True)

    upper = False
    cost = 4.0

    def working_bytes(self, shape: Triple, dtypes: tuple[np.dtype, ...]) -> int:
        return 2 * labels_in(math.prod(shape), self.voxels_per_label) * _TABLE_BYTES

    def state_bytes(self, shape: Triple, windows: int) -> int:
        return MERGE_COPIES * labels_in(math.prod(shape), VOXELS_PER_LABEL) * _TALLY_BYTES

    def likely_bytes(self, shape: Triple, windows: int) -> int:
        return MERGE_COPIES * labels_in(math.prod(shape), self.voxels_per_label) * _TALLY_BYTES

    def likely_rows(self, voxels: int) -> int:
        return labels_in(voxels, self.voxels_per_label)

    def begin(self, grid: Grid, index: int, values: tuple[Any, ...], limit_bytes: int) -> Surveyor:
        return _Labels(self, grid, index, limit_bytes)


class _Labels(RowSurveyor):
    def __init__(self, survey: UniqueSurvey, grid: Grid, index: int, limit_bytes: int) -> None:
        self.start = grid.box(index).start
        self.rows = Rows(add, _TALLY_BYTES, limit_bytes)
        self.digests: list[int] = []
        within = [(survey.border, n - survey.border) for n in grid.shape]
        everything = (-1, 1 << 62)
        self.within = [within[a] if a in survey.border_axes else everything for a in range(3)]

    def feed(self, arrays: tuple[np.ndarray, ...], z: tuple[int, int], threads: int = 1) -> None:
        labels = as_labels(arrays[0])

        def strip(y0: int, y1: int) -> None:
            part = labels[:, y0:y1]
            origin = (self.start[0] + z[0], self.start[1] + y0, self.start[2])
            lower = tuple(max(-1, a - o) for (a, _), o in zip(self.within, origin, strict=True))
            upper = tuple(b - o for (_, b), o in zip(self.within, origin, strict=True))
            found, keys, place = table_of(part, np.empty((0, 0), labels.dtype))
            counts, touches = np.zeros(len(found), np.int64), np.zeros(len(found), bool)
            kernels.tally(part, lower, upper, keys, place, counts, touches)
            tallies.append(Tally(found, counts, touches))

        tallies: list[Tally] = []
        self.digests.append(digested(labels, threads, strip, SHARE))
        for part in tallies:
            self.rows.add(part)

    def finish(self) -> Tally:
        return replace(self.rows.all(), digests=tuple(self.digests))


@dataclass(frozen=True, eq=False)
class TallySurvey(UniqueSurvey):
    """The labels of slabs, for a table step."""

    def flow(self, grid: Grid, limit_bytes: int | None = None) -> Flow:
        return through()


@dataclass(frozen=True, eq=False)
class LookupSurvey(UniqueSurvey):
    """Labels to look up in a mapping; the answers are for `LookupCompletion`."""

    mapping: Mapping
    missing: Any  #: {"error", "keep"} or number
    dtype: np.dtype  #: The dtype of the new values.

    @classmethod
    def of(
        cls,
        labels: Any,
        mapping: Mapping,
        missing: Any = "error",
        dtype: Any = None,
        name: str = "relabel",
        voxels_per_label: int = VOXELS_PER_LABEL,
    ) -> LookupSurvey:
        """Check the dtype of labels; the dtype of the result is by default the mapping's."""
        check_labels(labels, name)
        to = np.dtype(mapping.dtype if dtype is None else dtype)
        check_missing(missing, to, np.dtype(labels), name)
        return cls(name, (), 1, mapping, missing, to, voxels_per_label=voxels_per_label)

    @property
    def extents(self) -> tuple[Extent, ...]:
        return self.mapping.extents

    @property
    def tables(self) -> tuple[StoredOperand, ...]:
        return (self.mapping,)

    def flow(self, grid: Grid, limit_bytes: int | None = None) -> Flow:
        voxels = math.prod(grid.shape)
        return lookup_flow(
            self.mapping, self.dtype, self.missing, voxels=voxels, limit_bytes=limit_bytes
        )


@dataclass(frozen=True, eq=False)
class FilterSurvey(UniqueSurvey):
    """Labels selected by size or by touching the border; the answers are for `LookupCompletion`."""

    counts_each_value = True

    keep: Keep
    k_largest: int | None

    @classmethod
    def of(
        cls,
        labels: Any,
        keep: Keep | None = None,
        k_largest: int | None = None,
        border_axes: Iterable[int] = (0, 1, 2),
        border: int = 1,
        name: str = "remove_small_objects",
        voxels_per_label: int = VOXELS_PER_LABEL,
    ) -> FilterSurvey:
        """Check the dtype of labels."""
        check_labels(labels, name)
        if k_largest is not None and k_largest < 1:
            raise ValueError(f"{name}: k={k_largest} must be at least 1")
        keep = Keep() if keep is None else keep
        how = tuple(border_axes), border, keep, k_largest
        return cls(name, *how, voxels_per_label=voxels_per_label)

    def flow(self, grid: Grid, limit_bytes: int | None = None) -> Flow:
        return filter_flow(
            self.keep, self.k_largest, voxels=math.prod(grid.shape), limit_bytes=limit_bytes
        )

    def empty_numbers(self) -> dict[str, Any]:
        return {"count": 0}


@dataclass(frozen=True, eq=False)
class LookupCompletion(Completion):
    """Writes the answer for each label: its new value, or itself if it is kept, else 0."""

    #: Expected voxels per label of the input.
    voxels_per_given: int = VOXELS_PER_LABEL

    expectations = ("voxels_per_given",)
    upper = False
    cost = 3.0

    def state_bytes(self, shape: Triple, windows: int) -> int:
        return labels_in(math.prod(shape), VOXELS_PER_LABEL) * (_TABLE_BYTES + 24)

    def likely_bytes(self, shape: Triple, windows: int) -> int:
        return labels_in(math.prod(shape), self.voxels_per_given) * (_TABLE_BYTES + 24)

    def begin(self, grid: Grid, index: int, answer: Any) -> Completer:
        return _Lookup(self, *answer)


class _Lookup(Completer):
    def __init__(
        self,
        how: LookupCompletion,
        labels: np.ndarray,
        answer: np.ndarray,
        digests: tuple[int, ...],
    ) -> None:
        self.digests = iter(digests)
        values = answer
        if answer.dtype == bool and how.dtype != bool:
            values = np.where(answer, labels, np.uint64(0))
        self.values = values.astype(how.dtype)
        background = len(labels) > 0 and labels[0] == 0
        self.zero = self.values[0] if background else how.dtype.type(0)
        self.table = kernels.indexed(labels)

    def run(
        self, arrays: tuple[np.ndarray, ...], out: Block, z: tuple[int, int], threads: int
    ) -> None:
        labels = as_labels(arrays[0])

        def strip(y0: int, y1: int) -> None:
            for k in range(out.depth):
                part, to = labels[k, y0:y1], out.slice(k, y0, y1)
                how = (*self.table, self.values, self.zero, kernels.REFUSE, self.zero)
                unknown = kernels.look_up(part, to, *how)
                if unknown:
                    raise ValueError(
                        f"label {unknown} did not exist in the first sweep: the input has "
                        "changed, or an earlier operation returns different voxels in a second "
                        "run; store its result (deterministic=False)"
                    )

        check_same(digested(labels, threads, strip), next(self.digests))


@dataclass(frozen=True, eq=False)
class Lookup(Stage):
    """New values for labels, from a mapping in memory."""

    labels: np.ndarray  #: uint64, increasing.
    values: np.ndarray  #: In the dtype of the result.
    #: {"error", "keep"} or number: how to treat labels that are missing; 0 then stays 0.
    missing: Any
    origin: tuple[Extent, ...] = ()  #: The storage of the mapping.

    cost = 3.0
    compiled = True

    @classmethod
    def of(
        cls,
        labels: Any,
        mapping: Any,
        missing: Any = "error",
        dtype: Any = None,
        name: str = "relabel",
        origin: tuple[Extent, ...] = (),
    ) -> Lookup:
        """Check the dtype of labels and a mapping: a dict, or two arrays of labels and values."""
        check_labels(labels, name)
        old, new = mapping_arrays(mapping, name)
        to = np.dtype(new.dtype if dtype is None else dtype)
        check_missing(missing, to, np.dtype(labels), name)
        return cls(name, to, *sorted_mapping(old, fitting(new, to)), missing, origin)

    def token(self) -> str:
        # The token does not depend on the storage of the mapping.
        return digest(
            type(self).__name__, self.name, self.dtype, self.labels, self.values, self.missing
        )

    @property
    def extents(self) -> tuple[Extent, ...]:
        return self.origin

    def scratch_bytes(self, rows: int, cols: int, depth: int) -> int:
        return _TABLE_BYTES * len(self.labels)

    @cached_property
    def _table(self) -> tuple[Any, ...]:
        zero = self.values[0] if len(self.labels) and self.labels[0] == 0 else 0
        other = 0 if isinstance(self.missing, str) else self.missing
        codes = {"error": kernels.REFUSE, "keep": kernels.KEEP}
        code = codes[self.missing] if isinstance(self.missing, str) else kernels.REPLACE
        of = self.dtype.type
        return *kernels.indexed(self.labels), self.values, of(zero), code, of(other)

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k != "_table"}

    def run(
        self, inputs: tuple[Block, ...], out: Block, y0: int, y1: int, values: tuple[Any, ...]
    ) -> None:
        for k in range(out.depth):
            labels = as_labels(inputs[0].slice(k, y0, y1))
            unknown = kernels.look_up(labels, out.slice(k, y0, y1), *self._table)
            if unknown:
                raise ValueError(f"{self.name}: {missing_message(int(unknown))}")


@dataclass(frozen=True, eq=False)
class LookupAtPoint(Stage):
    """New values for labels, from a mapping for each time point; the second input is its number."""

    points: tuple[Lookup, ...]

    cost = 3.0
    compiled = True

    def token(self) -> str:
        return digest(type(self).__name__, [p.token() for p in self.points])

    @property
    def extents(self) -> tuple[Extent, ...]:
        return self.points[0].extents

    def scratch_bytes(self, rows: int, cols: int, depth: int) -> int:
        return sum(p.scratch_bytes(rows, cols, depth) for p in self.points)

    def run(
        self, inputs: tuple[Block, ...], out: Block, y0: int, y1: int, values: tuple[Any, ...]
    ) -> None:
        labels, point = inputs
        t = int(point.slice(0, y0, y1)[0, 0]) if out.depth and out.cols and y1 > y0 else 0
        try:
            self.points[t].run((labels,), out, y0, y1, values)
        except ValueError as error:
            raise ValueError(f"{error} (at t={t})") from None
