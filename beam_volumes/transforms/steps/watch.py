"""Make slabs of a volume that is being written slice by slice, as soon as their slices exist."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
from apache_beam.coders import BytesCoder, FloatCoder, StrUtf8Coder, TupleCoder, VarIntCoder
from apache_beam.io.filesystem import FileMetadata
from apache_beam.io.filesystems import FileSystems
from apache_beam.pvalue import PBegin, TaggedOutput
from apache_beam.transforms.display import DisplayDataItem
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec, TimerSpec, on_timer
from apache_beam.transforms.window import GlobalWindows
from apache_beam.typehints import Optional, Tuple, Union, with_input_types
from apache_beam.utils.timestamp import Timestamp

from beam_volumes.base.geometry import Box, Grid, Halo
from beam_volumes.base.space import Space
from beam_volumes.storage.formats.slices.format import decoded_slice, slice_content
from beam_volumes.storage.places.errors import VolumeError
from beam_volumes.transforms import pipeline_metrics
from beam_volumes.transforms.failures import Failed
from beam_volumes.transforms.passes import slab_ranges
from beam_volumes.transforms.slab import KeyedSlab, Slab
from beam_volumes.transforms.steps.grids import HaloLike, SlabGrid, halo_of
from beam_volumes.transforms.steps.render import placeholder
from beam_volumes.transforms.waiting import windowed_as

_FAILURES, _NAMED = "failures", 20
#: Seconds of event time: missing slices are reported before the end of the window, which is at the
#: end of time.
_BEFORE = 3600


class Watched(NamedTuple):
    """The results of `WatchSlices`.

    ``slabs``, PCollection of (SlabKey, Slab): each once, when all its slices have arrived.
    ``failures``, PCollection of Failed: slices that are missing, damaged, unexpected, or changed
    after use.
    """

    slabs: Any
    failures: Any


@with_input_types(Union[str, os.PathLike, FileMetadata])
class WatchSlices(beam.PTransform):
    """Watch a folder of slices, and make each slab as soon as its slices exist.

    Use it to process a volume during its acquisition. Slices may arrive in any order, late and
    repeatedly. Applied to a pipeline, it looks for files periodically until all slices exist, or
    for ``timeout`` seconds. Alternatively, apply it to a PCollection of paths, such as from bucket
    notifications, or of Beam's file metadata.

    Parameters
    ----------
    pattern : str
        Path of the PNG, JPEG or TIFF files, with ``{z}`` for the number of the slice:
        ``"scan/slice_{z}.tif"``. Leading zeros of the number are ignored.
    shape : tuple of int
        Slices, rows and columns of the whole volume.
    dtype : dtype
        The dtype of the voxels.
    depth : int, default: 16
        Number of slices of a slab's core.
    halo : int or sequence, default: 0
        Number of additional voxels around the core of each slab, as in `ReadSlabs`. A slab waits
        for the slices of its halo.
    first : int, default: 0
        Number of the first slice.
    voxel_size : sequence of float, optional
        Size of a voxel along z, y, x.
    unit : str, optional
        The unit of the voxel size.
    interval : float, default: 1
        Seconds between two listings of the folder.
    timeout : float, optional
        Maximum time to wait for slices in seconds; unlimited by default.
    end_marker : str, optional
        Path of a file that marks the end: once it exists, the transform stops waiting for slices.
        Only for a transform applied to a pipeline.
    missing : {"drop", "fill"}, default: "drop"
        Whether to omit slabs that lack slices at the end, or to fill them with zeros, as `open`
        does with ``missing="fill"``. With ``"fill"``, all slabs exist, and labels, numbers and
        tables equal the results for the volume that `open` returns. Missing slices are reported in
        both cases.

    Returns
    -------
    Watched
        ``slabs`` and ``failures``. A `Failed` reports each slab that was incomplete at the end,
        with its missing or filled slices. It also reports each slice that could not be read or was
        changed after use in a slab, which is not updated.

    Raises
    ------
    ValueError
        If the pattern has no ``{z}``, a slab would be larger than 8 MiB, or ``missing`` is invalid.

    See Also
    --------
    ReadSlabs : reads a complete volume.
    LabelSlabs : labels; their merge ends after the last slice.
    MeasureSlabs : numbers and tables that are known after the last slice.

    Notes
    -----
    It needs a runner with state and timers. The list of slices is kept in the runner's state, with
    its checkpoints. Write each slice under a temporary name and rename it; an incomplete slice is
    reported as damaged, and used once it has changed.

    Examples
    --------
    >>> import apache_beam as beam
    >>> _ = bv.compute(bv.open(np.zeros((4, 6, 7), "u1")).to("scan", format="png"), runner=None)
    >>> watch = bv.WatchSlices("scan/{z}.png", (4, 6, 7), "u1", depth=2)
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     slabs, failures = p | beam.Create([f"scan/{z}.png" for z in (3, 1, 0)]) | watch
    ...     _ = slabs | beam.Keys() | "Slabs" >> beam.Map(print)
    ...     _ = failures | beam.Map(lambda bad: print(bad.box, bad.message))
    (0, 0, 0)
    [2:4, 0:6, 0:7] is missing slice 2
    """

    def __init__(
        self,
        pattern: str,
        shape: Sequence[int],
        dtype: Any,
        depth: int = 16,
        halo: HaloLike = 0,
        *,
        first: int = 0,
        voxel_size: Sequence[float] | None = None,
        unit: str | None = None,
        interval: float = 1,
        timeout: float | None = None,
        end_marker: str | os.PathLike | None = None,
        missing: str = "drop",
    ):
        super().__init__()
        self.pattern = Pattern(os.fspath(pattern), first)
        if len(shape) != 3 or not all(isinstance(n, int) and n > 0 for n in shape):
            raise ValueError(f"WatchSlices: shape={shape!r}: give slices, rows and columns")
        if not interval > 0 or (timeout is not None and not timeout > 0):
            raise ValueError(f"WatchSlices: interval={interval}, timeout={timeout}: give seconds")
        if missing not in ("drop", "fill"):
            raise ValueError(
                f"WatchSlices: missing={missing!r}: give 'drop' or 'fill' for slabs without all "
                "slices"
            )
        z, y, x = shape
        plain = placeholder((z, y, x), dtype, Space())
        #: Placeholder for the whole volume, with its metadata.
        self.volume = (
            plain if voxel_size is None else plain.with_space(voxel_size=voxel_size, unit=unit)
        )
        cut = SlabGrid(self.volume, depth, None, halo)
        self.grid, self.halo = cut.grid, cut.halo
        self.interval, self.timeout, self.missing = interval, timeout, missing
        self.end_marker = None if end_marker is None else os.fspath(end_marker)

    def type_check_inputs(self, given: Any) -> None:
        if isinstance(given, beam.PCollection):
            super().type_check_inputs(given)

    def expand(self, given: Any) -> Watched:
        if isinstance(given, PBegin | beam.Pipeline):
            pipeline = given if isinstance(given, beam.Pipeline) else given.pipeline
            arrivals = pipeline | "Look" >> self._looking()
        elif isinstance(given, beam.PCollection):
            pipeline = given.pipeline
            arrivals = (
                given
                | "In no window" >> beam.WindowInto(GlobalWindows())
                | "Notified" >> beam.FlatMap(_notified, self.pattern).with_output_types(_Arrived)
            )
        else:
            raise TypeError(
                "WatchSlices is applied to a pipeline, or to a PCollection of paths; not to a "
                f"{type(given).__name__}"
            )
        slabs = Needs(self.grid, self.halo)  # type: ignore[arg-type]
        # Wait for slabs without any slice, too.
        wanted = (
            pipeline
            | "Ranges" >> beam.Create(slab_ranges(len(self.grid)))
            | "Wanted" >> beam.FlatMap(_wanted).with_output_types(_Came)
        )
        to_slabs = arrivals | "To slabs" >> beam.FlatMap(_to_slabs, slabs).with_outputs(
            _FAILURES, main="main"
        )
        to_slabs["main"].element_type = _Came
        gather = beam.ParDo(
            _Gather(slabs, self.volume.space, self.volume.dtype, self.missing == "fill")
        )
        out = (
            (wanted, to_slabs["main"])
            | "All" >> beam.Flatten().with_output_types(_Came)
            | "Gather" >> gather.with_outputs(_FAILURES, main="slabs")
        )
        out["slabs"].element_type = KeyedSlab
        out[_FAILURES].element_type = to_slabs[_FAILURES].element_type = Failed
        watched = Watched(
            out["slabs"], (out[_FAILURES], to_slabs[_FAILURES]) | "Failures" >> beam.Flatten()
        )
        if not isinstance(given, beam.PCollection):
            return watched
        return Watched(
            *(windowed_as(given, some, name) for name, some in watched._asdict().items())
        )

    def _looking(self) -> beam.PTransform:
        from apache_beam.io.watch import Watch, after_total_of, never

        pattern, count = self.pattern, self.grid.shape[0]
        coder = TupleCoder([VarIntCoder(), StrUtf8Coder(), VarIntCoder(), FloatCoder()])
        watch = Watch(
            Poll(pattern, count, self.end_marker),
            self.interval,
            never() if self.timeout is None else after_total_of(self.timeout),
            output_coder=coder,
            output_key_coder=coder,
        )
        return _Looking(pattern.glob, watch)

    def display_data(self) -> dict[str, Any]:
        return {
            "pattern": DisplayDataItem(self.pattern.text, label="Slices"),
            "shape": DisplayDataItem(str(self.grid.shape), label="Shape of the volume"),
            "slabs": DisplayDataItem(len(self.grid), label="Number of slabs"),
            "halo": DisplayDataItem(str(self.halo), label="Halo"),
        }


class _Looking(beam.PTransform):
    def __init__(self, glob: str, watch: beam.PTransform):
        super().__init__()
        self.glob, self.watch = glob, watch

    def expand(self, begin: Any) -> beam.PCollection:
        files = begin | beam.Create([self.glob]) | "Watch" >> self.watch
        return files | "File" >> beam.Values()


#: A slice that has arrived: its index, path, size and time of the last change.
Arrival = tuple[int, str, int, float]
_Arrived: Any = Tuple[int, str, int, float]
#: A slab, and a slice of it that has come, or None before there is any.
_Came: Any = Tuple[int, Optional[_Arrived]]
#: The version of `Kept` in a runner's state.
_VERSION = b"\x01"


@dataclass(frozen=True)
class Pattern:
    """A path with ``{z}`` for the number of a slice.

    >>> pattern = Pattern("scan/s_{z}.tif", first=1)
    >>> pattern.glob, pattern.index("scan/s_0012.tif"), pattern.index("scan/notes.txt")
    ('scan/s_*.tif', 11, None)
    """

    text: str
    first: int = 0

    def __post_init__(self) -> None:
        if self.text.count("{z}") != 1:
            raise ValueError(
                f"WatchSlices: the pattern {self.text!r} needs one {{z}} for the number of the slice, "
                "such as 'scan/slice_{z}.tif'"
            )

    @property
    def glob(self) -> str:
        """A glob pattern for all slices."""
        return self.text.replace("{z}", "*")

    def index(self, path: str) -> int | None:
        """Return the index of a slice from its path; None for other files."""
        before, after = map(re.escape, self.text.split("{z}"))
        found = re.fullmatch(rf"{before}(\d+){after}", path)
        return None if found is None else int(found[1]) - self.first


class Poll:
    """Looks for slices; finished when all exist and have not changed since the last listing."""

    def __init__(self, pattern: Pattern, count: int, end_marker: str | None = None):
        self.pattern, self.count, self.end_marker = pattern, count, end_marker
        self.last: list[Arrival] | None = None

    def __call__(self, glob: str) -> Any:
        from apache_beam.io.watch import PollResult

        # Check the marker first: slices written before it must be listed.
        ended = self.end_marker is not None and FileSystems.exists(self.end_marker)
        found = sorted(
            arrival
            for file in FileSystems.match([glob])[0].metadata_list
            for arrival in _arrival(file, self.pattern)
        )
        whole = {z for z, *_ in found if 0 <= z < self.count}
        done = (ended or len(whole) == self.count) and found == self.last
        self.last = found
        now = Timestamp.now()
        return PollResult.complete(found, now) if done else PollResult.incomplete(found, now)


def _arrival(file: FileMetadata, pattern: Pattern) -> Iterator[Arrival]:
    z = pattern.index(file.path)
    if z is not None:
        yield z, file.path, int(file.size_in_bytes), float(file.last_updated_in_seconds or 0)


def _notified(file: Any, pattern: Pattern) -> Iterator[Arrival]:
    """Return the slice of a path or of Beam's file metadata; other files are ignored."""
    if isinstance(file, FileMetadata):
        yield from _arrival(file, pattern)
    elif isinstance(file, str | os.PathLike):
        path = os.fspath(file)
        if pattern.index(path) is not None:
            for match in FileSystems.match([path])[0].metadata_list:
                yield from _arrival(match, pattern)
    else:
        raise TypeError(f"WatchSlices accepts paths or Beam's FileMetadata, not {file!r}")


@dataclass(frozen=True)
class Needs:
    """The slices that slabs need, and the slabs that need a slice."""

    grid: Grid
    halo: Halo

    def box(self, index: int) -> Box:
        """Core and halo of a slab."""
        core = self.grid.box(index)
        return core.expand(self.halo).intersect(Box.of_shape(self.grid.shape))

    def slabs(self, z: int) -> range:
        """Return the slabs that need a slice."""
        (before, after), depth = self.halo[0], self.grid.step[0]
        return range(max(0, (z - after) // depth), min((z + before) // depth + 1, len(self.grid)))


def _wanted(slabs: tuple[int, int]) -> Iterator[tuple[int, None]]:
    for index in range(*slabs):
        yield index, None


def _to_slabs(arrival: Arrival, needs: Needs) -> Iterator[Any]:
    z, path, *_ = arrival
    if not 0 <= z < needs.grid.shape[0]:
        message = f"{path} would be slice {z} of {needs.grid.shape[0]}; check shape= and first="
        yield TaggedOutput(_FAILURES, Failed("WatchSlices", "", "", "come", "ValueError", message))
        return
    for index in needs.slabs(z):
        yield index, arrival


@dataclass
class Kept:
    r"""The state of a slab: its slices that have arrived, and digests of those that were used.

    The runner keeps it as bytes: a version, then JSON. A job that is updated reads the states of the job
    before it.

    >>> kept = Kept({3: (3, "scan/3.png", 90, 1.5)}, {3: b"\x01"})
    >>> kept.encoded()
    b'\x01{"came":[[3,"scan/3.png",90,1.5]],"made":{"3":"01"}}'
    >>> Kept.decoded(kept.encoded()) == kept
    True
    """

    came: dict[int, Arrival]
    made: dict[int, bytes] | None = None

    def encoded(self) -> bytes:
        made = None if self.made is None else {z: d.hex() for z, d in self.made.items()}
        content = {"came": [*self.came.values()], "made": made}
        return _VERSION + json.dumps(content, separators=(",", ":")).encode()

    @classmethod
    def decoded(cls, data: bytes | None) -> Kept:
        """Return what `encoded` made, by this version or one before; without data nothing has come.

        Raises ValueError: If a later version made it.
        """
        if not data:
            return cls({})
        if data[:1] != _VERSION:
            raise ValueError(
                f"WatchSlices: the job keeps its slices in version {data[0]}, and this program "
                f"reads version {_VERSION[0]}: update the job by the version of beam-volumes that "
                "it ran with, or a later one"
            )
        content = json.loads(data[1:])
        made = content["made"]
        return cls(
            {z: (z, path, size, time) for z, path, size, time in content["came"]},
            None if made is None else {int(z): bytes.fromhex(d) for z, d in made.items()},
        )


class _Gather(beam.DoFn):
    """Waits for the slices of each slab; then makes it, once."""

    # Names and coders stay as they are, or a job could not be updated.
    KEPT = ReadModifyWriteStateSpec("kept", BytesCoder())
    END = TimerSpec("end", TimeDomain.WATERMARK)

    def __init__(self, needs: Needs, space: Space, dtype: np.dtype, fill: bool = False):
        self.needs, self.space, self.dtype, self.fill = needs, space, dtype, fill

    def process(
        self,
        element: tuple[int, Arrival | None],
        window: Any = beam.DoFn.WindowParam,
        state: Any = beam.DoFn.StateParam(KEPT),  # noqa: B008  # that is how Beam has it
        end: Any = beam.DoFn.TimerParam(END),  # noqa: B008
    ) -> Iterator[Any]:
        index, arrival = element
        kept = Kept.decoded(state.read())
        if kept.made is None:
            end.set(window.max_timestamp() - _BEFORE)
        if arrival is not None and kept.came.get(arrival[0]) != arrival:
            if kept.made is None:
                kept.came[arrival[0]] = arrival
            else:
                yield from self.again(index, kept, arrival)
        box = self.needs.box(index)
        if kept.made is None and len(kept.came) == box.shape[0]:
            yield from self.made(index, kept)
        state.write(kept.encoded())

    def made(self, index: int, kept: Kept, fill: bool = False) -> Iterator[Any]:
        """Make a slab of its slices; a damaged slice is waited for again.

        With ``fill`` missing slices are zeros.
        """
        core, box = self.needs.grid.box(index), self.needs.box(index)
        data, digests = np.zeros(box.shape, self.dtype), {}
        with pipeline_metrics.timed(core.size):
            for k, z in enumerate(range(box.start[0], box.stop[0])):
                if fill and z not in kept.came:
                    continue
                try:
                    plane, digests[z] = self.read(kept.came[z])
                except VolumeError as error:
                    del kept.came[z]
                    yield self.failure(index, "read", error)
                    continue
                data[k] = plane
        if len(digests) < len(data) and not fill:
            return
        kept.made = digests
        pipeline_metrics.read(sum(kept.came[z][2] for z in digests))
        pipeline_metrics.reads(sorted({os.path.dirname(kept.came[z][1]) for z in digests}))
        slab = Slab(core, halo_of(core, box), data, self.needs.grid.shape, self.space)
        yield slab.key, slab

    def read(self, arrival: Arrival) -> tuple[np.ndarray, bytes]:
        """Return the voxels of a slice, and a digest of its file."""
        z, path, *_ = arrival
        content = slice_content(path)
        plane = decoded_slice(content, path)
        if plane.shape != self.needs.grid.shape[1:] or plane.dtype != self.dtype:
            raise VolumeError(
                f"slice {z}, {path}, is {plane.shape} {plane.dtype}, but the volume's slices are "
                f"{self.needs.grid.shape[1:]} {self.dtype}"
            )
        return plane, hashlib.blake2b(content, digest_size=16).digest()

    def again(self, index: int, kept: Kept, arrival: Arrival) -> Iterator[Any]:
        """Report a slice that has changed since its slab was made; ignore repeated arrivals."""
        z, path, *_ = arrival
        assert kept.made is not None
        kept.came[z] = arrival
        if hashlib.blake2b(slice_content(path), digest_size=16).digest() != kept.made.get(z):
            yield self.failure(
                index, "use", VolumeError(f"slice {z}, {path}, was written again after it was used")
            )

    @on_timer(END)
    def missing(
        self,
        key: Any = beam.DoFn.KeyParam,
        state: Any = beam.DoFn.StateParam(KEPT),  # noqa: B008
    ) -> Iterator[Any]:
        kept, box = Kept.decoded(state.read()), self.needs.box(key)
        if kept.made is not None:
            return
        if self.fill:
            yield from self.made(key, kept, fill=True)
            state.write(kept.encoded())
        lost = [z for z in range(box.start[0], box.stop[0]) if z not in kept.came]
        more = f" and {len(lost) - _NAMED} more" if len(lost) > _NAMED else ""
        which = f"slice{'s' if len(lost) > 1 else ''} {', '.join(map(str, lost[:_NAMED]))}{more}"
        instead = ", read as zeros" if self.fill else ""
        yield self.failure(key, "wait", VolumeError(f"is missing {which}{instead}"))

    def failure(self, index: int, stage: str, error: Exception) -> TaggedOutput:
        core = str(self.needs.grid.box(index))
        row = Failed("WatchSlices", "", core, stage, type(error).__name__, str(error))
        return TaggedOutput(_FAILURES, row)
