"""Surveys of label volumes with tables as results: regions, and touching pairs."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from beam_volumes.across import adjacency as pairs
from beam_volumes.across import tables
from beam_volumes.across.adjacency import Adjacency
from beam_volumes.across.agglomeration import Needed
from beam_volumes.across.exact import joined_size, row_size
from beam_volumes.across.properties import MONOMIALS
from beam_volumes.across.rounds.agglomeration import PER_REGION, PER_REGION_OF_FOREST
from beam_volumes.across.rounds.flow import Flow
from beam_volumes.across.rounds.tables import (
    MEASURED_COPIES,
    MERGE_COPIES,
    ROWS,
    ChannelColumns,
    ChannelRows,
    PairRows,
    RegionRows,
    RowKind,
    merge_columns,
    table_flow,
)
from beam_volumes.across.tables import Regions, as_labels
from beam_volumes.base.geometry import Box, Grid, Triple
from beam_volumes.base.text import format_bytes
from beam_volumes.kernels.casting import kernel_array
from beam_volumes.kernels.labels.regions import labelled_values, magnitudes
from beam_volumes.kernels.scratch import nbytes
from beam_volumes.ops.labels.surveys.merge_estimate import times
from beam_volumes.sweep.resources import in_strips
from beam_volumes.sweep.survey import (
    VOXELS_PER_LABEL,
    Expected,
    MergeSize,
    NoRoom,
    Survey,
    Surveyor,
)

#: Maximum columns of a histogram. Each one takes more memory than its number.
MAX_BINS = 10_000
#: Bytes per region while a window is folded, in addition to its row.
FOLD_BYTES = 3_000
#: Voxels per unit of work of `in_strips`: a strip costs more than a round of threads.
SHARE = 8
#: Expected vertices of a convex hull.
HULL_POINTS = 100
#: Bytes of a row in shards of the usual number of rows; shards of larger rows have fewer. Reserves no memory.
MAX_ROW_BYTES = 600
#: Digits of a sum that `FOLD_BYTES` includes; copies of all digits of sums, and of weighted sums.
FOLD_DIGITS, SUM_COPIES, WEIGHTED_COPIES = 10, 4, 6
#: Copies of digits of pairs while their table grows by steps of four.
PAIR_COPIES = 6
#: Maximum bytes for folding a part of a window, and voxels of the first part.
FOLD_LIMIT, FIRST_PART = 64 << 20, 1 << 18


@dataclass
class Rows:
    """Rows of one slab, which are merged as soon as this halves them, or if there is no room for more."""

    merge: Callable[[list[Any]], Any]
    row_bytes: int
    limit_bytes: int
    parts: list[Any] = field(default_factory=list)
    merged_bytes: int = 0
    bytes: int = 0

    def add(self, part: Any) -> None:
        if self.parts and not len(part):
            return
        self.parts.append(part)
        kept = self._count()
        is_full = kept > 2 * self.merged_bytes or self.bytes > self.limit_bytes
        if len(self.parts) > 1 and is_full:
            self.parts = [self.merge(self.parts)]
            self.merged_bytes = self._count()
        if self.bytes > self.limit_bytes:
            rows = sum(map(len, self.parts))
            raise no_room(f"{rows:,} rows", self.limit_bytes)

    def all(self) -> Any:
        return self.merge(self.parts)

    def _count(self) -> int:
        """Update the memory for merging the parts; return the bytes of the parts."""
        kept = sum(p.nbytes for p in self.parts)
        rows = sum(map(len, self.parts))
        merged = joined_size(map(row_size, self.parts)).row_bytes
        self.bytes = MERGE_COPIES * max(kept, rows * self.row_bytes)
        self.bytes = max(self.bytes, MEASURED_COPIES * rows * merged)
        return kept


def no_room(what: str, limit_bytes: int) -> NoRoom:
    """The error of a slab with more rows than its memory allows."""
    limit = format_bytes(limit_bytes)
    return NoRoom(f"{what} of a slab take more than the {limit} that the budget leaves for them")


class RowSurveyor(Surveyor):
    """A surveyor that keeps rows."""

    rows: Rows

    @property
    def held_bytes(self) -> int:
        return self.rows.bytes

    def finish(self) -> Any:
        return self.rows.all()


@dataclass
class _Windows:
    """The positions of a slab's windows relative to its core."""

    core: Box

    def of(self, z: tuple[int, int]) -> tuple[Triple, Triple]:
        """The position in the volume and the core's shape of slices ``z`` of the region."""
        start, (depth, rows, cols) = self.core.start, self.core.shape
        return (start[0] + z[0], *start[1:]), (max(0, min(z[1], depth) - z[0]), rows, cols)


def _last(array: np.ndarray, core: Triple) -> np.ndarray:
    """A copy of the core's last slice."""
    return array[core[0] - 1, : core[1], : core[2]].copy()


def _sizes(values: Sequence[np.ndarray], rows: int, threads: int) -> tuple[float, float] | None:
    """The smallest and largest size of floats in the first rows of a window; None for integers."""
    floats = [v for v in values if v.dtype.kind == "f"]
    if not floats:
        return None

    def of_strip(a: int, b: int) -> list[tuple[float, float, int]]:
        return [magnitudes(kernel_array(v[:, a:b])) for v in floats]

    strips = in_strips(rows, floats[0][:, :rows].size // SHARE, threads, of_strip)
    smallest, largest, _ = zip(*(size for strip in strips for size in strip), strict=True)
    return min(smallest), max(largest)


@dataclass(frozen=True, eq=False)
class TableSurvey(Survey):
    """A survey with rows of a table as summaries."""

    expectations = ("voxels_per_label",)

    #: Expected voxels per label.
    voxels_per_label: int = field(default=VOXELS_PER_LABEL, kw_only=True)

    @property
    def row_bytes(self) -> int:
        """Bytes of a row while tables of slabs are merged."""
        raise NotImplementedError

    @property
    def shard_rows(self) -> int:
        """Approximate rows of a shard."""
        return ROWS

    @property
    def fold_bytes(self) -> int:
        """Bytes per row while a part of a window is folded, in addition to the row."""
        return 200

    def rows_in(self, voxels: int, voxels_per_label: int) -> int:
        """The expected number of rows for a number of voxels per label."""
        return labels_in(voxels, voxels_per_label)

    def slice_bytes(self, shape: Triple) -> int:
        """Bytes of a window's last slice, which is kept for the next window."""
        return 0

    def folded_bytes(self, shape: Triple) -> int:
        """Maximum bytes while a window is folded, which `Folds` ensures."""
        maximum = self.rows_in(math.prod(shape), self.voxels_per_label) * self.fold_bytes
        return min(maximum, FOLD_LIMIT)

    def folds(self) -> Folds:
        """How to divide a slab's windows for folding."""
        many = 1 << 30
        rows = self.rows_in(many, self.voxels_per_label)
        largest = many * FOLD_LIMIT // (self.fold_bytes * rows)
        return Folds(self.fold_bytes, largest, min(FIRST_PART, largest))

    def state_bytes(self, shape: Triple, windows: int) -> int:
        return self._kept_bytes(shape, windows, VOXELS_PER_LABEL)

    def likely_bytes(self, shape: Triple, windows: int) -> int:
        return self._kept_bytes(shape, windows, self.voxels_per_label)

    def merge_size(self, grid: Grid) -> MergeSize:
        # More rows than a shard has are divided among steps.
        few, likely, many = (
            self._step_bytes(self.rows_in(math.prod(grid.shape), each))
            for each in (VOXELS_PER_LABEL, self.voxels_per_label, 1)
        )
        return MergeSize(few, max(few, likely), max(few, many))

    def likely_rows(self, voxels: int) -> int:
        return self.rows_in(voxels, self.voxels_per_label)

    def expected(self, grid: Grid, part: Grid, whole: Any, summaries: Sequence[Any]) -> Expected:
        rows = times(grid, part) * len(whole)
        return Expected(rows, "rows", self._step_bytes(rows))

    def _step_bytes(self, rows: float) -> int:
        shard = self.shard_rows + self.shard_rows // 8  # shards differ slightly
        return MERGE_COPIES * round(min(rows, shard)) * self.row_bytes

    def _kept_bytes(self, shape: Triple, windows: int, voxels_per_label: int) -> int:
        rows = self.rows_in(math.prod(shape), voxels_per_label)
        # Rows of the last part exist twice until they are merged; a slice cuts through many labels.
        of_slice = round(shape[1] * shape[2] / voxels_per_label ** (2 / 3))
        part = self.rows_in(math.prod(shape) // windows, voxels_per_label) + of_slice
        rows += min(rows, part, FOLD_LIMIT // self.fold_bytes)
        return MERGE_COPIES * rows * self.row_bytes + self.slice_bytes(shape)

    def table(self, shape: Triple) -> RowKind:
        """The kind of table for a volume of a shape."""
        raise NotImplementedError

    def flow(self, grid: Grid, limit_bytes: int | None = None) -> Flow:
        how = self.shard_rows, self.row_bytes
        table = self.table(grid.shape)
        return table_flow(table, len(grid), how[0], limit_bytes=limit_bytes, row_bytes=how[1])

    def no_rows(self, shape: Triple) -> dict[str, np.ndarray]:
        table = self.table(shape)
        return table.columns(table.empty())

    def empty_numbers(self) -> dict[str, Any]:
        return {"shards": 1}


#: What to do for medians of values that cannot be counted.
_OTHERWISE = "give extra_properties= a function such as lambda mask, image: np.median(image[mask])"
#: Properties of scikit-image that are not sums, and what to use.
_OF_BOXES = {
    "slice": "is no number: bbox has its ends, and bv.find_objects(labels) the slices of all labels",
    **dict.fromkeys(
        (
            *("coords", "coords_scaled", "image", "image_convex", "image_filled"),
            "image_intensity",
        ),
        "is no number: bv.for_each_label(labels, function, columns) passes each region to a function",
    ),
}
#: Other libraries' names of properties that are not similar to ours.
_ELSEWHERE = {
    "volume": "area",
    "size": "num_pixels",
    "count": "num_pixels",
    "npixels": "num_pixels",
}


def _meant(wanted: str, known: Sequence[str]) -> str:
    """Suggest a property for an unknown one; scikit-image had names with the same words in another order."""
    words = set(str(wanted).split("_"))
    close = [k for k in known if set(k.split("_")) == words]
    close = close or [k for k in known if k == _ELSEWHERE.get(wanted)]
    close = close or [k for k in known if words <= set(k.split("_"))]
    close = close or difflib.get_close_matches(str(wanted), known, 1, 0.7)
    return f" (did you mean {close[0]!r}?)" if close else ""


@dataclass(frozen=True, eq=False)
class RegionSurvey(TableSurvey):
    """The region table of labels (the first input), with optional intensities (the second)."""

    properties: tuple[str, ...]  #: Names for `beam_volumes.across.tables.properties`.
    intensity: np.dtype | None  #: The dtype of the second input.
    spacing: tuple[float, float, float]  #: Extent of a voxel along z, y, x.
    axes: tuple[int, ...]  #: The visible axes of z, y, x.
    nan: str  #: {"raise", "omit"}
    #: Names of the intensities' channels, one for each input; empty if there are none.
    channels: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        labels: Any,
        intensity: Any = None,
        properties: Sequence[str] | None = None,
        spacing: Sequence[float] = (1.0, 1.0, 1.0),
        axes: tuple[int, ...] = (0, 1, 2),
        nan: str = "raise",
        name: str = "regionprops_table",
        channels: tuple[str, ...] = (),
        voxels_per_label: int = VOXELS_PER_LABEL,
    ) -> RegionSurvey:
        """Check dtypes of labels and intensities, and the properties.

        >>> RegionSurvey.of("uint32", properties=["area", "intensity_mean"])
        Traceback (most recent call last):
        ...
        ValueError: regionprops_table: intensity_mean needs intensity=
        """
        check_objects(labels, name)
        _check_nan(nan, name)
        ndim = len(axes)
        known = tables.known_properties(ndim, intensity is not None)
        names = tables.default_properties(ndim, intensity is not None)
        names = names if properties is None else tuple(properties)
        for wanted in names:
            base = str(wanted).partition("-")[0]
            if base in tables.WITH_INTENSITY and intensity is None:
                raise ValueError(f"{name}: {wanted} needs intensity=")
            if base in _OF_BOXES:
                raise ValueError(f"{name}: {base} {_OF_BOXES[base]}")
            if base == tables.QUANTILE:
                _check_quantile(wanted, name)
            elif wanted not in (*known, "label"):
                meant = _meant(wanted, known) or f"; there are {', '.join(known)}"
                raise ValueError(f"{name}: there is no property {wanted!r} in {ndim}-D{meant}")
        dtype = None if intensity is None else _numbers(intensity, "intensity", name)
        z, y, x = map(float, spacing)
        if not min(z, y, x) > 0:
            raise ValueError(f"{name}: spacing={tuple(spacing)!r} must be positive")
        sides = {(z, y, x)[a] for a in axes}
        if len(sides) > 1 and (
            flat := [
                n for n in names if n.startswith(("perimeter", "moments_hu", "moments_weighted_hu"))
            ]
        ):
            raise ValueError(
                f"{name}: {flat[0]} needs pixels with equal sides, but they are {sorted(sides)}: "
                "resample with zoom first, or leave out spacing="
            )
        if "values" in tables.arrays_for(names):
            check_counted(dtype, name)
        how = dtype, (z, y, x), axes, nan, channels
        return cls(name, names, *how, voxels_per_label=voxels_per_label)

    def table(self, shape: Triple) -> RowKind:
        rows = RegionRows(shape, self.properties, self.spacing, self.axes, self.intensity)
        return ChannelRows(rows, self.channels) if self.channels else rows

    @property
    def with_faces(self) -> bool:
        return "surface_area_faces" in self.properties

    @property
    def with_contour(self) -> bool:
        """Whether the classes of contours are the second input."""
        return "contour" in self.arrays

    @property
    def hidden(self) -> int | None:
        """The axis of z, y, x that a plane does not have."""
        return ({0, 1, 2} - set(self.axes)).pop() if len(self.axes) == 2 else None

    @property
    def upper(self) -> bool:
        return self.with_faces or "windows" in self.arrays

    @property
    def cost(self) -> float:
        arrays = self.arrays
        cost = 9.0 if self.with_faces else 3.0
        cost += 9.0 * ("windows" in arrays) + 4.0 * ("points" in arrays) + 1.0 * self.with_contour
        cost += 3.0 * ("cubes" in arrays)
        if self.intensity is not None:
            cost += 3.0 + 2.0 * tables.sums_for(arrays) if self.intensity.kind == "f" else 3.0
            cost += 9.0 * ("values" in arrays) + 30.0 * ("weighted" in arrays)
            cost += 2.0 * ("places" in arrays)
        return cost * max(1, len(self.channels))

    @property
    def row_bytes(self) -> int:
        # Measured: 213 of labels alone, 233 with integers of 16 bits, 323 with float32 and 357 with float64.
        arrays = self.arrays
        each = 24 + 48 * ("box" in arrays) + 24 * ("faces" in arrays) + 134 * ("sums" in arrays)
        each += 48 * ("windows" in arrays) + 24 * self.with_contour + 260 * ("cubes" in arrays)
        each += 12 * HULL_POINTS * ("points" in arrays)
        if self.intensity is None:
            return each
        is_narrow = self.intensity.kind != "f" and self.intensity.itemsize <= 2
        number = tables.sums_for(arrays)
        sums = min(10, 8 * number) if is_narrow else min(130, 44 * number)
        sums += 16 * self.values
        sums += 16 * ("places" in arrays)
        sums += (500 if is_narrow else 820) * ("weighted" in arrays)
        return (each + 8 + 2 * self.intensity.itemsize + sums) * max(1, len(self.channels))

    @property
    def values(self) -> int:
        """The expected values of a label to count."""
        if "values" not in self.arrays or self.intensity is None:
            return 0
        return min(1 << 8 * self.intensity.itemsize, self.voxels_per_label)

    @property
    def shard_rows(self) -> int:
        return min(ROWS, max(ROWS // 64, ROWS * MAX_ROW_BYTES // self.row_bytes))

    @property
    def arrays(self) -> frozenset[str]:
        """The arrays of rows; see `beam_volumes.across.tables.arrays_for`."""
        return tables.arrays_for(self.properties)

    @property
    def fold_bytes(self) -> int:
        arrays = self.arrays
        each = FOLD_BYTES + 80 * HULL_POINTS * ("points" in arrays) + 80 * self.values
        return each + 5_000 * ("weighted" in arrays)

    def fold_excess(self, sizes: tuple[float, float] | None) -> int:
        """Bytes per row in addition to `fold_bytes`, for floats with a large range of sizes."""
        if sizes is None or self.intensity is None:
            return 0
        arrays = self.arrays
        _, digits = tables.digits_between(*sizes, self.intensity)
        copies = SUM_COPIES * tables.sums_for(arrays)
        copies += WEIGHTED_COPIES * len(MONOMIALS) * ("weighted" in arrays)
        return 8 * copies * max(0, digits - FOLD_DIGITS)

    def working_bytes(self, shape: Triple, dtypes: tuple[np.dtype, ...]) -> int:
        converted = 4 * math.prod(shape) if self.intensity == np.float16 else 0
        counted = nbytes(labelled_values.scratch(math.prod(shape))) * ("values" in self.arrays)
        if "weighted" in self.arrays and self.intensity in (np.int64, np.uint64):
            converted = 32 * math.prod(shape)  # halves of 32 bits as float64
        return converted + counted + self.folded_bytes(shape) + self.slice_bytes(shape)

    def slice_bytes(self, shape: Triple) -> int:
        return shape[1] * shape[2] * 8

    def begin(
        self, grid: Grid, index: int, values: tuple[Any, ...], limit_bytes: int
    ) -> RegionSurveyor:
        return RegionSurveyor(self, grid, index, limit_bytes)


class RegionSurveyor(RowSurveyor):
    """The regions of one slab."""

    def __init__(self, survey: RegionSurvey, grid: Grid, index: int, limit_bytes: int) -> None:
        self.survey, self.shape = survey, grid.shape
        self.windows = _Windows(grid.box(index))
        self.below: np.ndarray | None = None
        merge: Any = merge_columns if survey.channels else tables.merge
        self.rows = Rows(merge, survey.row_bytes, limit_bytes)
        self.folds = survey.folds()

    def feed(self, arrays: tuple[np.ndarray, ...], z: tuple[int, int], threads: int = 1) -> None:
        labels, *intensities = arrays
        origin, core = self.windows.of(z)
        how = self.survey
        kept = how.arrays
        contour = intensities.pop(0) if how.with_contour else None

        def strip(a: int, b: int) -> Regions | ChannelColumns:
            if not intensities:
                return measured(a, b, None)
            own = (values[: core[0], a:b, : core[2]] for values in intensities)
            found = tuple(measured(a, b, values) for values in own)
            return ChannelColumns(found) if how.channels else found[0]

        def measured(a: int, b: int, values: np.ndarray | None) -> Regions:
            return tables.regions(
                labels[:, a : b + 1],
                (origin[0], origin[1] + a, origin[2]),
                self.shape,
                values,
                how.nan,
                (core[0], b - a, core[2]),
                None if self.below is None else self.below[a : b + 1],
                how.with_faces,
                kept,
                how.hidden,
                None if contour is None else contour[: core[0], a:b, : core[2]],
            )

        excess = how.fold_excess(_sizes(intensities, core[1], threads))
        for part in self.folds.of(labels, core[1], threads, strip, excess):
            self.rows.add(part)
        if core[0] and how.upper:
            self.below = labels[core[0] - 1].copy()


@dataclass(frozen=True, eq=False)
class AdjacencySurvey(TableSurvey):
    """The touching pairs of labels (the first input), with an optional boundary volume (the second).

    With three more inputs, these are affinities across z, y, x between each voxel and the previous one.
    """

    boundary: np.dtype | None  #: The dtype of the second input.
    #: {"max", "mean", "upper"}: how the value of a face follows from its two voxels; ``"upper"`` for
    #: affinities.
    value: str
    bins: int  #: Number of bins of the histogram; 0 for none.
    range: tuple[float, float] | None  #: The range of the histogram.
    nan: str  #: {"raise", "omit"}
    #: The visible axes of z, y, x.
    axes: tuple[int, ...] = field(default=(0, 1, 2), kw_only=True)
    #: The columns of the table, if a step needs only some.
    columns: tuple[str, ...] | None = field(default=None, kw_only=True)
    #: Leave out pairs that cannot change merges.
    needed: Needed | None = field(default=None, kw_only=True)

    @classmethod
    def of(
        cls,
        labels: Any,
        boundary: Any = None,
        value: str = "max",
        bins: int = 0,
        range: Sequence[float] | None = None,
        nan: str = "raise",
        name: str = "region_adjacency",
        voxels_per_label: int = VOXELS_PER_LABEL,
        axes: tuple[int, ...] = (0, 1, 2),
    ) -> AdjacencySurvey:
        """Check dtypes of labels and boundaries, and the parameters.

        >>> AdjacencySurvey.of("uint32", "float32", bins=16)
        Traceback (most recent call last):
        ...
        ValueError: region_adjacency: 16 bins need range=(low, high)
        """
        check_objects(labels, name)
        _check_nan(nan, name)
        if value not in ("max", "mean", "upper"):
            raise ValueError(f"{name}: value={value!r}; use max or mean")
        if not 0 <= bins <= MAX_BINS:
            raise ValueError(
                f"{name}: bins={bins} is not a number from 0 to {MAX_BINS:,}; each bin is a column"
            )
        if bins and boundary is None:
            raise ValueError(
                f"{name}: bins={bins} needs the boundary volume for its histogram; give it"
            )
        if bins and range is None:
            raise ValueError(f"{name}: {bins} bins need range=(low, high)")
        if range is not None:
            low, high = map(float, range)
            if not low < high:
                raise ValueError(f"{name}: range={tuple(range)!r} must be ascending")
            range = (low, high)
        dtype = None if boundary is None else _numbers(boundary, "boundary", name)
        how = dtype, value, bins, range, nan
        return cls(name, *how, voxels_per_label=voxels_per_label, axes=axes)

    @property
    def edges(self) -> np.ndarray | None:
        if not self.bins or self.range is None:
            return None
        return np.linspace(*self.range, self.bins + 1)

    def table(self, shape: Triple) -> PairRows:
        affinities = self.boundary if self.value == "upper" else None
        return PairRows(self.boundary is not None, self.bins, affinities, self.axes, self.columns)

    @property
    def arrays(self) -> frozenset[str]:
        """The arrays of rows; see `beam_volumes.across.adjacency.arrays_for`."""
        return pairs.arrays_for(self.columns)

    @property
    def cost(self) -> float:
        return 15.0 if self.boundary is None else 20.0

    @property
    def row_bytes(self) -> int:
        arrays = self.arrays
        each = 32 + 24 * ("faces" in arrays) + 16 * ("extremes" in arrays)
        # Sums of integers have one digit up to 2**31, sums of floats about three.
        is_whole = self.boundary is not None and self.boundary.kind != "f"
        return each + (8 if is_whole else 28) * ("sums" in arrays) + 8 * self.bins

    @property
    def fold_bytes(self) -> int:
        return 4 * self.row_bytes + 200

    def fold_excess(self, sizes: tuple[float, float] | None) -> int:
        """Bytes per row in addition to `fold_bytes`, for floats with a large range of sizes."""
        if sizes is None or "sums" not in self.arrays:
            return 0
        _, digits = pairs.digits_between(*sizes)
        return 8 * PAIR_COPIES * max(0, digits - FOLD_DIGITS)

    def rows_in(self, voxels: int, voxels_per_label: int) -> int:
        return PAIRS * labels_in(voxels, voxels_per_label)

    def working_bytes(self, shape: Triple, dtypes: tuple[np.dtype, ...]) -> int:
        converted = 4 * math.prod(shape) if self.boundary == np.float16 else 0
        return converted + self.folded_bytes(shape) + self.slice_bytes(shape)

    def slice_bytes(self, shape: Triple) -> int:
        return shape[1] * shape[2] * 16

    def most_rows(self, voxels: int) -> int:
        return 3 * voxels

    def likely_rows(self, voxels: int) -> int:
        is_forest = self.needed is not None and self.needed.by_forest and not self.needed.by_slab
        each = PER_REGION_OF_FOREST if is_forest else PER_REGION
        size = self.voxels_per_label
        if self.value == "upper":
            size = min(size, _FRAGMENT)
        return round(each * labels_in(voxels, size))

    def begin(
        self, grid: Grid, index: int, values: tuple[Any, ...], limit_bytes: int
    ) -> AdjacencySurveyor:
        return AdjacencySurveyor(self, grid, index, limit_bytes)

    def merged(self, parts: list[Adjacency]) -> Adjacency:
        """The pairs of some parts of a slab, as far as they are needed."""
        whole = pairs.merge(parts)
        return whole if self.needed is None else self.needed.of_part(whole)


#: Expected voxels of a label with affinities, at most: basins of neurons have 170 to 230.
_FRAGMENT = 200
#: Expected neighbours with a larger label per region, for reserved memory.
PAIRS = 6


class AdjacencySurveyor(RowSurveyor):
    """The touching pairs of one slab."""

    def __init__(self, survey: AdjacencySurvey, grid: Grid, index: int, limit_bytes: int) -> None:
        self.survey, self.shape = survey, grid.shape
        self.windows = _Windows(grid.box(index))
        self.below: tuple[np.ndarray, np.ndarray | None] | None = None
        # Not a method of this object: a cycle would stay in memory until the next garbage collection.
        self.rows = Rows(survey.merged, survey.row_bytes, limit_bytes)
        #: Labels at faces to other slabs, which may have more pairs there.
        self.open = np.empty(0, np.uint64)
        self.folds = survey.folds()

    @property
    def held_bytes(self) -> int:
        return super().held_bytes + self.open.nbytes

    def feed(self, arrays: tuple[np.ndarray, ...], z: tuple[int, int], threads: int = 1) -> None:
        labels, *others = arrays
        _, core = self.windows.of(z)
        how, below, kept = self.survey, self.below, self.survey.arrays

        def rows(a: int, b: int) -> Any:
            some = tuple(v[:, a : b + 1] for v in others)
            return some if how.value == "upper" else some[0] if some else None

        def strip(a: int, b: int) -> Adjacency:
            under = below and (below[0][a:b], None if below[1] is None else below[1][a:b])
            part = pairs.adjacency(
                labels[:, a : b + 1],
                rows(a, b),
                how.value,
                how.edges,
                how.nan,
                (core[0], b - a, core[2]),
                under,
                kept,
            )
            return part if how.needed is None else how.needed.of_part(part)

        excess = how.fold_excess(_sizes(others, labels.shape[1], threads))
        for part in self.folds.of(labels, core[1], threads, strip, excess):
            self.rows.add(part)
        if how.needed is not None and how.needed.by_slab:
            self.open = np.unique(np.concatenate([self.open, *self._at_faces(labels, z)]))
        if core[0]:
            plain = others and how.value != "upper"
            self.below = _last(labels, core), _last(others[0], core) if plain else None

    def _at_faces(self, labels: np.ndarray, z: tuple[int, int]) -> Iterator[np.ndarray]:
        """The labels of a window at each face to another slab, on both sides of upper ones."""
        box = self.windows.core
        for axis, (start, stop, n) in enumerate(zip(box.start, box.stop, self.shape, strict=True)):
            first = z[0] if axis == 0 else 0
            planes = np.moveaxis(labels, axis, 0)
            lower = planes[:1] if start > 0 and first == 0 else planes[:0]
            upper = planes[max(0, stop - start - 1 - first) :] if stop < n else planes[:0]
            for plane in (*lower, *upper):
                yield as_labels(np.unique(plane)).astype(np.uint64)

    def finish(self) -> Adjacency:
        part = super().finish()
        needed = self.survey.needed
        return part if needed is None else needed.of_slab(part, self.open)


def labels_in(voxels: int, voxels_per_label: int) -> int:
    """The expected number of labels.

    >>> labels_in(2**20, 16)
    66536
    """
    return 1_000 + voxels // voxels_per_label


@dataclass
class Folds:
    """Divides windows into parts that are folded one after the other."""

    # Folding needs more memory than its result. Labels may have any size, so the size of each part follows
    # from the previous one.

    row_bytes: int  #: Bytes per row while folding.
    largest: int  #: Maximum voxels of a part.
    voxels: int  #: Voxels of the next part.

    def of(
        self,
        labels: np.ndarray,
        rows: int,
        threads: int,
        strip: Callable[[int, int], Any],
        excess: int = 0,
    ) -> Iterator[Any]:
        """Yield the results of ``strip(y0, y1)`` for the rows of a window, part by part.

        Rows need ``excess`` bytes in addition to ``row_bytes``.
        """
        row = max(1, labels.shape[0] * labels.shape[2])
        start = 0
        while start < rows:
            voxels = self.voxels * self.row_bytes // (self.row_bytes + excess)
            count = min(max(1, voxels // row), rows - start)

            def part(a: int, b: int, start: int = start) -> Any:
                return strip(start + a, start + b)

            found = in_strips(count, row * count // SHARE, threads, part)
            maximum = FOLD_LIMIT * row * count // (self.row_bytes * max(1, sum(map(len, found))))
            self.voxels = min(maximum, self.largest)
            start += count
            yield from found


def check_counted(dtype: np.dtype | None, name: str, otherwise: str = _OTHERWISE) -> None:
    """Refuse intensities with values that cannot be counted, and name what to do ``otherwise``."""
    if dtype is not None and (dtype.kind not in "bui" or dtype.itemsize > 2):
        raise TypeError(
            f"{name}: medians and quantiles of {dtype} are not available, because values are "
            f"counted; convert to integers of up to 16 bits with astype, or {otherwise}"
        )


def _check_quantile(wanted: str, name: str) -> None:
    try:
        is_known = 0 <= float(wanted.partition("-")[2]) <= 1
    except ValueError:
        is_known = False
    if not is_known:
        raise ValueError(
            f"{name}: there is no property {wanted!r}; use {tables.QUANTILE}- and a number from 0 "
            f"to 1, as in {tables.QUANTILE}-0.25"
        )


def check_objects(dtype: Any, name: str) -> None:
    """Refuse labels that are no integers, and masks: all their voxels would be one object."""
    if np.dtype(dtype).kind == "b":
        raise TypeError(
            f"{name}: labels of bool are a mask without separate objects; use bv.label(mask), or "
            "mask.astype('u1') for one object"
        )
    if np.dtype(dtype).kind not in "ui":
        raise TypeError(f"{name}: labels have dtype {np.dtype(dtype)}; use integers")


def _check_nan(nan: str, name: str) -> None:
    if nan not in ("raise", "omit"):
        raise ValueError(f'{name}: nan={nan!r}; use "raise" or "omit"')


def _numbers(dtype: Any, what: str, name: str) -> np.dtype:
    dtype = np.dtype(dtype).newbyteorder("=")
    if dtype.kind not in "buif" or dtype.itemsize > 8:
        raise TypeError(
            f"{name}: {what} of {dtype} cannot be used; use bool, integers or floats of up to "
            "64 bits"
        )
    return dtype
