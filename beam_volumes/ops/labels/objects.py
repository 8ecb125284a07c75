"""User functions of each object: its voxels are read from storage, and the results are rows of a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any

import numpy as np

from beam_volumes.across.rounds.chains import TableStep
from beam_volumes.across.rounds.flow import Flow, Key, Message, Round
from beam_volumes.across.rounds.records import RecordRows
from beam_volumes.across.rounds.tables import Columns, table_flow
from beam_volumes.base.geometry import Box, Triple
from beam_volumes.base.space import Space
from beam_volumes.base.text import format_bytes
from beam_volumes.graph.arithmetic import check_alike
from beam_volumes.graph.nodes import SourceNode
from beam_volumes.graph.table import Table
from beam_volumes.graph.volume import Volume, as_volume, one_channel
from beam_volumes.ops.labels.regions import boxes_of
from beam_volumes.ops.labels.surveys.chain_survey import then
from beam_volumes.ops.labels.surveys.table_surveys import check_objects
from beam_volumes.ops.parameters import checks as par
from beam_volumes.ops.parameters.building import first_channel, representable
from beam_volumes.ops.parameters.docs import documented
from beam_volumes.storage.sources.source import Source
from beam_volumes.sweep.stage import PlainData, digest, identity

#: Ranges of z for distributing objects; objects of a range are processed one after the other.
_RANGES = 256
#: Assumed memory for each byte that is read, for arrays of the function.
_COPIES = 4


@dataclass(frozen=True, eq=False)
class Region:
    """An object, cut out of its volume."""

    label: int
    #: bool. The voxels of the object in its box; of two axes if the volume has two.
    mask: np.ndarray
    #: All labels in the box.
    labels: np.ndarray
    #: The volumes in the box; with channels they have the axis c first.
    images: tuple[np.ndarray, ...]
    #: Position of the box in the volume.
    start: tuple[int, ...]
    #: Per axis of the mask; 1 if the volume has none.
    voxel_size: tuple[float, ...]
    unit: str | None


@documented
def for_each_label(
    labels: Volume,
    function: Callable[[Region], Mapping[str, Any] | None],
    columns: Mapping[str, Any],
    *,
    volumes: Sequence[Volume] = (),
    pad: int | Sequence[int] = 0,
    name: str | None = None,
    version: Any = None,
) -> Table:
    """Apply your own function to each object of a label volume.

    Use it for results that no table of measurements includes, such as skeletons, meshes, shapes or
    files.

    Parameters
    ----------
    labels : Volume or numpy.ndarray
        Stored labels, integers from 0; 0 is background.
    function : callable
        A function of a ``Region`` with ``label``, ``mask``, ``labels``, ``images``, ``start``,
        ``voxel_size`` and ``unit``. The function returns a dict with a number for each column, or
        None to skip the object. It may write files, and may be called again for an object if a
        worker fails.
    columns : mapping
        Names of the returned numbers, and their dtypes: ``{"length": "f8"}``.
    volumes : sequence of Volume, default: ()
        Stored volumes of the same shape, which are cropped to the same box.
    pad : int or sequence of int, default: 0
        Voxels to add to the box on each side, within the volume.
    name : str, optional
        With ``version``, identifies the function, so that a different process can resume a run.
    version : object, optional
        Change the version when the function changes.

    Returns
    -------
    Table
        A lazy table with ``label`` and the columns, and a row for each object, sorted by label.

    Raises
    ------
    ValueError
        If labels or volumes are computed instead of stored, shapes differ, or a column does not have
        a numeric dtype. On computation, if the function returns different columns, or an object's
        box needs more memory than is available.
    TypeError
        If ``labels`` is neither a volume nor an array, or has an unsupported dtype.

    See Also
    --------
    regionprops_table : measures without a box in memory.

    Notes
    -----
    One sweep finds the boxes; then the boxes are read, in parallel on any runner. A worker holds
    the box of one object at a time: its labels, mask and volumes, and the function's arrays.
    Objects are distributed by the start of their boxes along z.

    References
    ----------
    `scipy.ndimage.labeled_comprehension`, and ``extra_properties`` of
    `skimage.measure.regionprops_table`.

    Examples
    --------
    >>> labels = np.array([[1, 1, 0], [0, 2, 2], [0, 0, 2]], "u1")
    >>> table = bv.for_each_label(labels, lambda r: {"fill": r.mask.mean()}, {"fill": "f8"})
    >>> table.to_pyarrow().to_pydict()
    {'label': [1, 2], 'fill': [1.0, 0.75]}
    """
    what = "for_each_label"
    check_objects(one_channel(labels).dtype, what)
    objects = StoredObjects.of(labels, volumes, pad, what)
    if not callable(function):
        raise TypeError(f"{what}: function={function!r} is not callable")
    step = EachLabel(
        name or str(getattr(function, "__name__", what)),
        function,
        _dtypes(columns, what),
        objects,
        identity(name, version),
    )
    boxes = boxes_of(one_channel(labels))
    return Table(then(step, [boxes], what))


@dataclass(frozen=True, eq=False)
class StoredObjects(PlainData):
    """Stored labels and volumes of one shape, from which objects are cut out."""

    labels: Source
    images: tuple[tuple[Source, ...], ...]  #: The channels of each volume.
    channels: tuple[bool, ...]  #: Whether each volume has a channel axis.
    pad: Triple
    space: Space  #: The space of the labels.

    @classmethod
    def of(cls, labels: Any, volumes: Sequence[Any], pad: Any, what: str) -> StoredObjects:
        """Check that everything is stored and of one shape."""
        labels = one_channel(labels)
        opened = [as_volume(v) for v in volumes]
        for v in opened:
            check_alike(what, labels, first_channel(v))
        for v in (labels, *opened):
            if not all(isinstance(n, SourceNode) for n in v.nodes):
                raise ValueError(
                    f"{what}: boxes are read from storage, but {v!r} is computed; write it with "
                    ".to(path) first, and open the result"
                )
            if v.space.times:
                raise ValueError(f"{what}: {v!r} has several time points; select one: v[0]")
        margins = par.whole_numbers(pad, labels.space.visible, 0, "pad", 0, what)
        z, y, x = map(min, margins, labels.node.shape)
        return cls(
            _source(labels.node),
            tuple(tuple(_source(n) for n in v.nodes) for v in opened),
            tuple(v.space.has_channels for v in opened),
            (z, y, x),
            labels.space,
        )

    def token(self) -> str:
        images = [s.token() for group in self.images for s in group]
        return digest("StoredObjects", self.labels.token(), images, self.channels, self.pad)

    @property
    def voxel_bytes(self) -> int:
        """Bytes of a voxel of all volumes."""
        return sum(s.dtype.itemsize for s in (self.labels, *chain.from_iterable(self.images)))

    @property
    def copied_bytes(self) -> int:
        """Bytes of a voxel of the volumes with a channel axis, which are copied for each object."""
        groups = zip(self.images, self.channels, strict=True)
        return sum(s.dtype.itemsize for group, many in groups if many for s in group)

    def boxes(self, rows: Columns) -> np.ndarray:
        """Return the boxes of the objects of some rows: n x 2 x 3."""
        ends = np.stack([rows[c] for c in rows if c.startswith("bbox-")], axis=1).astype(np.int64)
        found = np.zeros((len(ends), 2, 3), np.int64)
        found[:, 1] = 1
        visible = self.space.visible
        found[:, :, visible] = ends.reshape(len(ends), 2, len(visible))
        return found

    def padded(self, boxes: np.ndarray) -> np.ndarray:
        """Return boxes with the voxels that are added to them."""
        pad, shape = np.array(self.pad), np.array(self.labels.shape)
        start, stop = boxes[..., 0, :] - pad, boxes[..., 1, :] + pad
        return np.stack([np.maximum(start, 0), np.minimum(stop, shape)], axis=-2)

    def read(self, box: Box) -> tuple[np.ndarray, ...]:
        """Read the labels and the channels of all volumes in a box."""
        return tuple(s.read(box) for s in (self.labels, *chain.from_iterable(self.images)))

    def region(self, label: int, box: Box, arrays: Sequence[np.ndarray]) -> Region:
        """Return an object, given everything that is read in its box."""
        visible = self.space.visible
        drop = tuple(i for i in range(3) if i not in visible)
        found, *others = (a.squeeze(drop) for a in arrays)
        images = []
        for group, many in zip(self.images, self.channels, strict=True):
            own, others = others[: len(group)], others[len(group) :]
            images.append(np.stack(own) if many else own[0])
        size = self.space.voxel_size or (1.0, 1.0, 1.0)
        return Region(
            label,
            found == label,
            found,
            tuple(images),
            tuple(box.start[i] for i in visible),
            tuple(size[i] for i in visible),
            self.space.unit,
        )


def _source(node: Any) -> Source:
    return node.source


def box_of(ends: np.ndarray) -> Box:
    """Return a box from an array of its start and stop."""
    (z0, y0, x0), (z1, y1, x1) = ends.tolist()
    return Box((z0, y0, x0), (z1, y1, x1))


def _dtypes(columns: Mapping[str, Any], what: str) -> tuple[tuple[str, str], ...]:
    if not isinstance(columns, Mapping) or not columns:
        raise ValueError(
            f'{what}: columns={columns!r}; give names and dtypes, e.g. {{"length": "f8"}}'
        )
    found = []
    for column, given in columns.items():
        try:
            dtype = np.dtype(given)
        except TypeError:
            dtype = np.dtype(object)
        if dtype.kind not in "biuf" or column == "label":
            raise ValueError(
                f"{what}: columns[{column!r}]={given!r}; give a numeric dtype, and a name other than label"
            )
        found.append((str(column), dtype.str))
    return tuple(found)


@dataclass(frozen=True, eq=False)
class EachLabel(TableStep):
    """The rows that a function returns for each object, from the table of boxes."""

    function: Callable[[Region], Mapping[str, Any] | None]
    names: tuple[tuple[str, str], ...]  #: The columns of the function and their dtypes.
    objects: StoredObjects
    identity: str  #: Identifies the function.
    #: Columns of the input to copy to the result, and their dtypes.
    carried: tuple[tuple[str, str], ...] = ()
    only: tuple[int, ...] | None = None  #: The labels to process; all by default.

    entries = ("shards",)

    @property
    def rows(self) -> RecordRows:
        return RecordRows((("label", "<u8"), *self.carried, *self.names))

    @property
    def ranges(self) -> int:
        return max(1, min(_RANGES, self.objects.labels.shape[0]))

    def flow(self, limit_bytes: int | None = None, ordered: bool = True) -> Flow:
        each = sum(np.dtype(dtype).itemsize for _, dtype in self.rows.names)
        table = table_flow(
            self.rows, self.ranges, limit_bytes=limit_bytes, row_bytes=each, ordered=ordered
        )
        first, *rest = table.rounds
        return Flow(
            (
                _Share("shards", ("each",), self),
                _Each("each", first.to, self, first, limit_bytes),
                *rest,
            ),
            table.ports,
        )

    def token(self) -> str:
        how = self.names, self.carried, self.only
        return digest("EachLabel", self.identity, self.objects.token(), *how)

    def of(self, label: int, box: Box, limit_bytes: int | None) -> tuple[Any, ...] | None:
        """Call the function for an object; return its row, in the order of the columns."""
        nbytes = _COPIES * box.size * (1 + self.objects.voxel_bytes)
        if limit_bytes is not None and nbytes > limit_bytes:
            raise ValueError(
                f"{self.name}: the box of label {label} from {box.start} to {box.stop} takes "
                f"about {format_bytes(nbytes)}, but only {format_bytes(limit_bytes)} are left; "
                "give more memory, or remove large objects with remove_small_objects and relabel"
            )
        region = self.objects.region(label, box, self.objects.read(box))
        try:
            given = self.function(region)
        except Exception as error:
            error.args = (f"{self.name}: label {label}: {error}", *error.args[1:])
            raise
        if given is None:
            return None
        wanted = [column for column, _ in self.names]
        if not isinstance(given, Mapping) or set(given) != set(wanted):
            returned = sorted(given) if isinstance(given, Mapping) else type(given).__name__
            raise ValueError(
                f"{self.name}: the function returned {returned} for label {label}; it must return a dict of "
                f"{', '.join(wanted)}, or None"
            )
        for column, dtype in self.names:
            value = np.asarray(given[column])
            if value.ndim or value.dtype.kind not in "buif":
                raise ValueError(
                    f"{self.name}: the function returned {column}={given[column]!r} for label {label}; it "
                    "must return a number"
                )
            if not representable(value.item(), np.dtype(dtype)):
                raise ValueError(
                    f"{self.name}: the function returned {column}={value} for label {label}, which is not a "
                    f"{np.dtype(dtype)} number; use a different dtype for this column"
                )
        return (label, *(given[column] for column in wanted))


@dataclass(frozen=True, eq=False)
class _Share(Round):
    """For a shard of boxes: distributes objects by the start of their boxes along z."""

    of: EachLabel

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        rows, ranges = values[0], self.of.ranges
        if self.of.only is not None:
            wanted = np.array(self.of.only, np.uint64)
            chosen = np.isin(np.asarray(rows["label"]), wanted)
            rows = {name: np.asarray(column)[chosen] for name, column in rows.items()}
        boxes = self.of.objects.boxes(rows)
        carried = [np.asarray(rows[name]) for name, _ in self.of.carried]
        at = boxes[:, 0, 0] * ranges // max(1, self.of.objects.labels.shape[0])
        order = np.argsort(at, kind="stable")
        kinds, starts = np.unique(at[order], return_index=True)
        for number, (a, b) in zip(
            kinds.tolist(), pairwise([*starts.tolist(), len(order)]), strict=True
        ):
            some = order[a:b]
            own = np.asarray(rows["label"])[some], boxes[some], [c[some] for c in carried]
            yield "each", (number,), (key, *own)
        if key == (0,):  # a table has at least one shard, and every range has to send a message
            for number in range(ranges):
                nothing = np.empty(0, np.uint64), np.empty((0, 2, 3), int), [c[:0] for c in carried]
                yield "each", (number,), ((-1,), *nothing)


@dataclass(frozen=True, eq=False)
class _Each(Round):
    """For a range of z: the row of each object that starts there, sent to the table like a slab's rows."""

    of: EachLabel
    table: Round
    limit_bytes: int | None

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        rows = []
        for labels, boxes, carried in {sender: some for sender, *some in values}.values():
            padded = self.of.objects.padded(boxes)
            for k, (label, ends) in enumerate(zip(labels.tolist(), padded, strict=True)):
                row = self.of.of(label, box_of(ends), self.limit_bytes)
                if row is not None:
                    rows.append((label, *(column[k] for column in carried), *row[1:]))
        kind = self.of.rows
        columns = zip(*rows, strict=True) if rows else ((),) * len(kind.names)
        named = {name: list(column) for (name, _), column in zip(kind.names, columns, strict=True)}
        yield from self.table.step(key, [kind.records(named)])
