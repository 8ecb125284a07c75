"""The plan of a run: its passes, their cost, and a description of both."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from beam_volumes.base.exports import above, html_of
from beam_volumes.base.geometry import NO_HALO
from beam_volumes.base.text import counted, format_bytes, format_duration
from beam_volumes.graph.nodes import (
    Value,
    values_below,
)
from beam_volumes.graph.scalar import Scalar
from beam_volumes.graph.table import Table, TableTarget
from beam_volumes.graph.target import Target
from beam_volumes.graph.volume import Volume
from beam_volumes.plan.cost import memory
from beam_volumes.plan.cost.concurrency import Concurrency
from beam_volumes.plan.cost.memory import LOCAL_PIPELINE, Base, MemoryItem
from beam_volumes.plan.cost.speeds import PIPELINE, PROCESS, load
from beam_volumes.plan.cost.traffic import Read, chunks_needed
from beam_volumes.plan.fit.advice import badly_cut, many_objects
from beam_volumes.plan.fit.planned_pass import Pass, describe_patches, describe_places
from beam_volumes.plan.fit.seconds import run_seconds
from beam_volumes.plan.picture import plan_svg
from beam_volumes.plan.run_options import RunOptions
from beam_volumes.storage.inputs.arrays import ArraySink
from beam_volumes.storage.outputs.sink import Sink
from beam_volumes.storage.outputs.table_sink import TableSink
from beam_volumes.storage.places.extent import Extent
from beam_volumes.storage.places.single_file import write_file
from beam_volumes.storage.places.stored_size import sampled_bytes, stored_bytes
from beam_volumes.sweep.device import DEVICE, HOST, is_transfer, name_of
from beam_volumes.sweep.program import FoldEdge, Step, Surveyed
from beam_volumes.sweep.schedule import Overlap

_OVERLAPS = {
    Overlap(read_ahead=True, write_behind=True): "reading ahead and writing behind",
    Overlap(
        read_ahead=False, write_behind=True
    ): "writing behind, with no room set aside to read ahead",
    Overlap(
        read_ahead=False, write_behind=False
    ): "with no room set aside to read ahead or write behind",
}


@dataclass(frozen=True)
class Return:
    """The kind of result of a target; workers get this instead of the target, which is a graph."""

    #: "volume" or "table" if written, "array" or "rows" if returned in memory, "number".
    kind: str
    #: dtype and shape of an array.
    dtype: Any = None
    shape: tuple[int, ...] = ()
    results: int = 1  #: Number of results it is assembled from: one for each channel of an array.

    @classmethod
    def of(cls, target: Any) -> Return:
        if isinstance(target, Volume):
            # All time points are in one result.
            results = 1 if target.space.times else len(target.nodes)
            return cls("array", target.dtype, target.shape, results)
        kinds = {Scalar: "number", Target: "volume", Table: "rows", TableTarget: "table"}
        return cls(kinds[type(target)])


@dataclass(frozen=True, eq=False, repr=False)
class Plan:
    """The passes, slabs, memory and I/O of a computation, as returned by `plan`.

    Attributes
    ----------
    passes : tuple of Pass
        The passes over the volume, each with its stages, slabs, window, memory and I/O.
    targets : tuple of Target, TableTarget, Volume, Table or Scalar
        The targets of the computation.
    memory : int
        The memory limit for one machine, in bytes.
    workers : int
        Number of slabs in flight.
    processes : int
        Number of worker processes that share the slabs in flight.
    threads : int
        Number of threads that compute a slab.
    base : int
        Predicted memory of a process without voxels, in bytes.
    smallest_memory : int
        The smallest memory limit that works with these workers and processes, in bytes.
    reasons : tuple of str
        Reasons why the passes are separate, and why results are stored between them.
    results : tuple of Sink, TableSink or Value
        The location of each target's result, one for each channel of an array.
    intermediates : tuple of Sink
        Outputs that the run stores for itself and removes at its end.
    scratch_place : dict or None
        The folder of the intermediates, if there are any.
    sweeps : dict
        The number of sweeps for each lazy number that is a target or used by a pass.
    fingerprint : dict
        Hashes of everything that the run computes. A run is resumed only if they are equal.
    tables : dict
        The outputs of each table, by barrier.
    returns : tuple of Return
        The kind of result of each target.
    kernels : tuple of str
        The kernels to compile: operations with dtypes. ``base`` includes their memory.
    inputs : tuple of (str, tuple of Extent)
        The name and location of everything that is read from storage.
    slab : tuple of int or None
        The shape of slabs, if it was set by the user.
    window : int or None
        The number of slices of a window, if it was set by the user.
    planner : callable or None
        The function that made the plan; used for comparison with different slabs.
    workers_asked : int or None
        The number of slabs in flight, if it was set by the user.
    base_asked : int, LOCAL_PIPELINE or None
        The base of a process, if it was set by the user; None if it was measured.
    in_process : str or None
        Reason why the run needs no pipeline, if no runner was set.
    machines : int
        Number of machines that share the slabs.
    device : str
        Where stages may run: "cpu", "cuda" or "auto".
    device_memory : int
        The memory limit of a machine's device, in bytes; 0 if all stages run on the host.

    Examples
    --------
    >>> v = bv.open(np.zeros((8, 64, 64), "u1"))
    >>> p = bv.plan((v > bv.mean(v)).to("mask.zarr"), memory="1GiB", workers=1)
    >>> p
    <Plan: 2 passes, ... of memory, reads 64.0 KiB, writes 32.0 KiB; print(plan.explain()) shows details>
    >>> len(p.passes), p.sweeps, p.bytes_written
    (2, {'mean': 1}, 32768)
    >>> p.smallest_memory <= p.predicted_memory <= p.memory
    True
    """

    passes: tuple[Pass, ...]
    targets: tuple[Any, ...]
    memory: int
    workers: int
    processes: int
    threads: int
    base: int
    smallest_memory: int
    reasons: tuple[str, ...]
    results: tuple[Sink | TableSink | Value, ...]
    intermediates: tuple[Any, ...]
    scratch_place: dict[str, Any] | None
    sweeps: dict[str, int] = field(default_factory=dict)
    fingerprint: dict[str, str] = field(default_factory=dict)
    tables: dict[str, tuple[TableSink, ...]] = field(default_factory=dict)
    returns: tuple[Return, ...] = ()
    kernels: tuple[str, ...] = ()
    inputs: tuple[tuple[str, tuple[Extent, ...]], ...] = ()
    slab: tuple[int, ...] | None = None
    window: int | None = None
    planner: Callable[[tuple[Any, ...], RunOptions], Plan] | None = None
    workers_asked: int | None = None
    base_asked: Base = None
    in_process: str | None = None
    machines: int = 1
    device: str = "cpu"
    device_memory: int = 0

    def __getstate__(self) -> dict[str, Any]:
        # Workers need no graph; a long chain is nested too deeply to be pickled.
        return {**self.__dict__, "targets": ()}

    def __repr__(self) -> str:
        return (
            f"<Plan: {counted(len(self.passes), 'pass')}, {format_bytes(self.predicted_memory)} "
            f"of memory, reads {format_bytes(self.bytes_read)}, writes "
            f"{format_bytes(self.bytes_written)}; print(plan.explain()) shows details>"
        )

    @property
    def concurrency(self) -> Concurrency:
        """Slabs in flight, processes and threads."""
        return Concurrency(
            self.workers, self.processes, self.threads, self.machines, self.device_memory
        )

    def with_concurrency(self, concurrency: Concurrency) -> Plan:
        """Return the plan with the same slabs, but different workers, processes and threads.

        Parameters
        ----------
        concurrency : Concurrency
            Slabs in flight, processes and threads.

        Returns
        -------
        Plan
            The same passes and slabs with this concurrency.

        Examples
        --------
        >>> v = bv.open(np.zeros((8, 64, 64), "u1"))
        >>> one, two = (bv.plan(bv.mean(v), workers=n) for n in (1, 2))
        >>> one.with_concurrency(two.concurrency).workers
        2
        """
        return replace(
            self,
            workers=concurrency.workers,
            processes=concurrency.processes,
            threads=concurrency.threads,
        )

    @property
    def slab_memory(self) -> int:
        """Predicted peak memory of one slab in the largest pass, in bytes."""
        return max((p.slab_memory for p in self.passes), default=0)

    @property
    def uses_device(self) -> bool:
        """Whether any stage runs on a device."""
        return any(p.program.uses_device for p in self.swept)

    @property
    def predicted_device_memory(self) -> int:
        """Predicted peak memory on the device of a machine, in bytes.

        It is also the smallest limit that works with these slabs and windows.
        """
        slabs = (p.partition.device_memory for p in self.passes)
        return self.workers * max(slabs, default=0)

    @property
    def predicted_memory(self) -> int:
        """Predicted peak memory on one machine: processes x base + slabs in flight x slab peak."""
        return memory.of_machine(self.base, self.slab_memory, self.concurrency)

    @property
    def process_memory(self) -> int:
        """Predicted peak memory of one worker process, in bytes."""
        return memory.of_process(self.base, self.slab_memory, self.concurrency)

    @property
    def sweeps_per_process(self) -> int:
        """Slabs in flight in one worker process."""
        return self.concurrency.sweeps

    @property
    def predicted_seconds(self) -> float | None:
        """Predicted seconds of a run on this machine, from a fresh process, once kernels are compiled.

        None if ``beam-volumes bench --calibrate`` has not measured the machine, a runner uses other
        machines, or stages run on a device.
        """
        speeds = load()
        if speeds is None or self.uses_device or self.base_asked not in (None, LOCAL_PIPELINE):
            return None
        how = PROCESS if self.base_asked is None else PIPELINE
        return run_seconds(self.passes, self.concurrency, len(self.kernels), how, speeds)

    @property
    def bytes_read(self) -> int:
        """Bytes of all chunks that the passes read."""
        return sum(p.bytes_read for p in self.passes)

    @property
    def bytes_written(self) -> int:
        """Bytes that all passes write, before compression."""
        return sum(p.bytes_written for p in self.passes)

    @property
    def read_amplification(self) -> float:
        """Ratio of the bytes read to the bytes of the chunks that the passes need."""
        needed = sum(p.bytes_needed for p in self.passes)
        return self.bytes_read / needed if needed else 1.0

    @property
    def times_read(self) -> dict[str, float]:
        """How often the chunks of each input or intermediate are read, by name.

        The average over all chunks that the run needs, in all of its passes.
        """
        found: dict[str, list[Read]] = {}
        for read in (r for p in self.passes for r in p.reads):
            found.setdefault(read.of, []).append(read)
        bytes_read: dict[str, int] = {}
        needed: dict[str, int] = {}
        for some in found.values():
            name, size = some[0].name, some[0].unit_bytes
            bytes_read[name] = bytes_read.get(name, 0) + sum(r.bytes for r in some)
            needed[name] = needed.get(name, 0) + size * chunks_needed([r.cells for r in some])
        return {name: bytes_read[name] / needed[name] for name in needed if needed[name]}

    @property
    def swept(self) -> tuple[Pass, ...]:
        """The passes that sweep volumes; with a time axis, the passes for one time point."""
        return tuple(q for p in self.passes for q in ((p,) if p.point is None else p.point.passes))

    @property
    def sinks(self) -> tuple[Sink | TableSink, ...]:
        """Every output of the run, including intermediates."""
        volumes = tuple(o.sink for p in self.passes for o in p.program.outputs)
        return volumes + tuple(s for sinks in self.tables.values() for s in sinks)

    @property
    def outputs(self) -> list[Any]:
        """The outputs of the run, without intermediates."""
        return [sink for sink in self.sinks if sink not in self.intermediates]

    def to_dict(self) -> dict[str, Any]:
        """Return the plan's numbers as plain data.

        Returns
        -------
        dict
            Numbers, strings, lists and dicts that `json.dumps` accepts.

        Examples
        --------
        >>> p = bv.plan(bv.mean(bv.open(np.zeros((8, 64, 64), "u1"))), workers=1)
        >>> p.to_dict()["sweeps"], p.to_dict()["passes"][0]["shape"]
        ({'mean': 1}, [8, 64, 64])
        """
        return {
            "memory": self.memory,
            "smallest_memory": self.smallest_memory,
            "predicted_memory": self.predicted_memory,
            "base": self.base,
            "slab_memory": self.slab_memory,
            "workers": self.workers,
            "machines": self.machines,
            "processes": self.processes,
            "threads": self.threads,
            "device": self.device,
            "device_memory": self.device_memory,
            "predicted_device_memory": self.predicted_device_memory,
            "predicted_seconds": self.predicted_seconds,
            "bytes_read": self.bytes_read,
            "bytes_written": self.bytes_written,
            "read_amplification": self.read_amplification,
            "times_read": self.times_read,
            "sweeps": self.sweeps,
            "reasons": list(self.reasons),
            "passes": [p.to_dict() for p in self.passes],
        }

    def replanned(self, slab: Sequence[int] | None) -> Plan | None:
        """Plan the same targets with different slabs.

        Parameters
        ----------
        slab : sequence of int or None
            Shape of slabs along the volume's axes; None lets the planner choose.

        Returns
        -------
        Plan or None
            None if the slabs do not fit in memory, or the plan was sent to a different process.

        Raises
        ------
        TypeError
            If ``slab`` is not a sequence.

        Examples
        --------
        >>> p = bv.plan(bv.mean(bv.open(np.zeros((8, 64, 64), "u1"))), workers=1)
        >>> len(p.replanned((2, 64, 64)).passes[0].grid)
        4
        """
        return self._replanned(slab=slab)

    def _replanned(self, **changes: Any) -> Plan | None:
        """Plan the same targets with other options; None if that is refused or not possible here."""
        if self.planner is None or not self.targets:  # workers have none
            return None
        try:
            options = RunOptions(
                memory=self.memory,
                workers=self.workers,
                machines=self.machines,
                processes=self.processes,
                threads=self.threads,
                slab=self.slab,
                window=self.window,
                base=self.base_asked,
                in_memory_results=any(isinstance(sink, ArraySink) for sink in self.results),
                device=self.device if self.device_memory else "cpu",
                device_memory=self.device_memory or None,
            )
            return self.planner(self.targets, replace(options, **changes))
        except ValueError:
            return None

    def explain(self, timed: bool = False, *, verbose: bool = False, census: bool = False) -> str:
        """Describe the plan in words and numbers.

        There is a line for each pass, with its stages, slabs, memory and I/O. ``verbose`` adds
        halos, chunks, the memory of each part, and the reason for each choice. Some loads depend on
        the voxels: the number of components that a merge of labels holds at a time, and the rows of
        tables. The plan shows upper bounds, and with ``census`` also estimates.

        Parameters
        ----------
        timed : bool, default: False
            Whether to run each network on a batch of noise and estimate the time of all patches.
            Implies ``verbose``.
        verbose : bool, default: False
            Whether to include the details of each pass.
        census : bool, default: False
            Whether to estimate components and rows of tables from about four million voxels at the
            centre of the inputs. This part is computed, with its own thresholds, and the numbers
            are scaled by voxels. Not for volumes with time points.

        Returns
        -------
        str
            The description, in several lines.

        Examples
        --------
        >>> p = bv.plan(bv.mean(bv.open(np.zeros((8, 64, 64), "u1"))), workers=1)
        >>> print(p.explain())  # doctest: +ELLIPSIS
        1 pass, 1 slab in flight in 1 process, ... a slab
        runs in threads of this process: it takes at most ...
        memory: ...
        reads 32.0 KiB decoded, ...
        a numpy array of shape (8, 64, 64) is read 1.00 times, in pass 1...
        pass 1: mean; 1 slab of 8 x 64 x 64, windows of 8 slices; ...
        """
        found = above("census").census(self) if census else {}
        return _explained(self, timed, verbose or timed, found)

    def visualize(self, path: str | os.PathLike[str] | None = None) -> str:
        """Draw the plan: passes from top to bottom, each with its sources, stages and outputs.

        Parameters
        ----------
        path : str or os.PathLike, optional
            File for the picture; its name must end in ``.svg``.

        Returns
        -------
        str
            The picture as SVG.

        Raises
        ------
        ValueError
            If the name does not end in ``.svg``.

        Examples
        --------
        >>> v = bv.open(np.zeros((8, 64, 64), "u1"))
        >>> svg = bv.plan(bv.gaussian_filter(v, 1).to("smooth.zarr")).visualize("plan.svg")
        >>> svg[:4], "smooth.zarr" in open("plan.svg").read()
        ('<svg', True)
        """
        internal = {sink.name for sink in self.intermediates}
        svg = plan_svg(self.to_dict(), internal)
        if path is not None:
            if not os.fspath(path).lower().endswith(".svg"):
                raise ValueError(
                    f"{os.fspath(path)}: a plan is drawn as SVG; give a path that ends in .svg"
                )
            write_file(path, svg.encode())
        return svg

    def _repr_html_(self) -> str | None:
        return html_of(self)


#: The amount of data of a run that should be divided among machines.
_MANY_BYTES = 1 << 40
#: The part of a name that differs between channels.
_CHANNEL = re.compile(r"\[c=\d+\]|(?<=, )c=\d+(?=\])")


def _explained(plan: Plan, timed: bool, verbose: bool, census: Mapping[str, str]) -> str:
    """Describe each pass in one line; with ``verbose`` in detail. ``census``: texts by barrier."""
    lines = [
        f"{counted(len(plan.passes), 'pass')}, {counted(plan.workers, 'slab')} in flight in "
        f"{counted(plan.processes, 'process')}, {counted(plan.threads, 'thread')} a slab"
        + (f", on each of {plan.machines:,} machines" if plan.machines > 1 else ""),
        f"memory: {format_bytes(plan.predicted_memory)} predicted = {plan.processes} x "
        f"{format_bytes(plan.base)} base + {plan.workers} x {format_bytes(plan.slab_memory)} "
        f"slab; budget {format_bytes(plan.memory)}, smallest that works "
        f"{format_bytes(plan.smallest_memory)}",
        f"reads {format_bytes(plan.bytes_read)} decoded, {plan.read_amplification:.2f}x the "
        f"chunks that each pass needs; writes {format_bytes(plan.bytes_written)} before "
        f"compression{_tables(plan)}",
    ]
    if plan.device != "cpu":
        lines.append(_device(plan))
    if (seconds := plan.predicted_seconds) is not None:
        lines.append(
            f"takes about {format_duration(seconds, 1)} on this machine, once kernels are compiled"
            + _depends_on_voxels(plan)
        )
    if plan.in_process is not None:
        lines.insert(1, f"runs in threads of this process: {plan.in_process}. {_runner(plan)}")
    inside = {sink.name for sink in plan.intermediates}
    read = []
    for name, times in plan.times_read.items():
        if name in inside:
            continue
        passes = [p.index + 1 for p in plan.passes if any(r.name == name for r in p.reads)]
        line = f"{name} is read {times:.2f} times, in pass {', '.join(map(str, passes))}"
        read.append(line + _stored(plan, name))
    lines += list(dict.fromkeys(_CHANNEL.sub("", line) for line in read))
    for name, sweeps in plan.sweeps.items():
        lines.append(f"{name} takes {counted(sweeps, 'sweep')}")
    for p in plan.passes:
        if p.point is None:
            lines.append(_in_brief(plan, p))
            may_be_refused = (
                n for n, size in p.merges.items() if size.maximum > p.merge_limit_bytes
            )
            lines += [f"  {name}: {describe_merge(plan, p, name)}" for name in may_be_refused]
            counted_here = (b for b in p.program.surveys if b.token in census)
            lines += [f"  {b.survey.name}: {census[b.token]}" for b in counted_here]
            if plan.device_memory:
                lines += [f"  {line}" for line in describe_places(p)]
            stages = (step.stage for step in p.program.steps if step.stage is not None)
            lines += [f"  {stage.name} {stage.remark}" for stage in stages if stage.remark]
    for p in plan.passes:
        if p.point is not None:
            own = _explained(p.point, timed, verbose, census).splitlines()
            lines += ["", f"{_points(plan, p)}, each of them:", *(f"  {x}" for x in own)]
        elif verbose:
            lines += ["", *_pass(plan, p, timed)]
    if plan.reasons and verbose:
        lines += ["", "why:", *(f"  {r}" for r in plan.reasons)]
    slow = [*badly_cut(plan, plan.replanned), *many_objects(plan.passes)]
    if slow:
        lines += ["", "slow:", *(f"  {reason}" for reason in slow)]
    return "\n".join(lines)


def _runner(plan: Plan) -> str:
    if plan.bytes_read + plan.bytes_written < _MANY_BYTES:
        return "runner= selects a Beam runner."
    slabs = sum(len(p.grid) for p in plan.passes)
    return (
        f"For {slabs:,} slabs, select a Beam runner with many machines, e.g. runner='FlinkRunner'."
    )


def _depends_on_voxels(plan: Plan) -> str:
    """Name the operations that take longer with more objects; their number is unknown."""
    each = (q for p in plan.passes for q in ([p] if p.point is None else p.point.passes))
    names = dict.fromkeys(b.survey.name for p in each for b in p.program.surveys)
    if not names:
        return ""
    return (
        f", with as many objects as in the calibration for {', '.join(names)}; `beam-volumes bench "
        "RECIPE.yaml` measures a part of the real volume"
    )


def _device(plan: Plan) -> str:
    """Describe the memory of the device, or why there is none."""
    if not plan.device_memory:
        return "device: this machine has none, so all stages run on the host"
    if not plan.uses_device:
        return f"device: none used, device={plan.device!r}: all stages run on the host"
    return (
        f"device: {format_bytes(plan.predicted_device_memory)} of its memory predicted for "
        f"{counted(plan.workers, 'slab')}; budget {format_bytes(plan.device_memory)}"
    )


def _tables(plan: Plan) -> str:
    """Describe the number of tables and the bytes of a row; the number of rows is unknown."""
    rows = [
        _row_bytes(p, surveyed)
        for p in plan.passes
        for surveyed in p.program.surveys
        for sink in plan.tables.get(surveyed.token, ())
        if sink not in plan.intermediates
    ]
    if not rows:
        return ""
    sizes = " and ".join(map(str, rows))
    return f", and the rows of {counted(len(rows), 'table')}, {sizes} bytes each"


def _row_bytes(p: Pass, surveyed: Surveyed) -> int:
    """Bytes of one row as numbers."""
    columns = surveyed.survey.no_rows(p.program.shape).values()
    return sum(c.dtype.itemsize * math.prod(c.shape[1:]) for c in columns)


def _stored(plan: Plan, name: str) -> str:
    """Describe the size of an input's files, if it can be found quickly."""
    sources = {s.source for p in plan.passes for s in p.program.steps if s.source is not None}
    extents = [e for s in sources if s.name == name for e in s.reader.extents]
    if (stored := stored_bytes(extents)) is not None:
        return f"; its files take {format_bytes(stored)} as stored"
    if (stored := sampled_bytes(extents)) is not None:
        return f"; its files take about {format_bytes(stored)} as stored, by the sizes of a sample"
    return ""


def describe_work(plan: Plan, p: Pass) -> list[str]:
    """List what a pass computes, in the words of a program: steps, numbers, labels and tables."""
    steps = p.program.steps
    does = [
        step.name if step.completion is None else f"{step.name} (second sweep)"
        for step in steps
        if step.source is None and not is_transfer(step)
    ]
    does += describe_numbers(plan, p)
    does += [_survey(plan, surveyed) for surveyed in p.program.surveys]
    return _channels_together(does or [f"copy {step.name}" for step in steps])


def describe_numbers(plan: Plan, p: Pass) -> list[str]:
    """List the numbers of a pass, and what needs them, for example the extrema for a threshold."""
    purposes = [(fold.reduction.name, _purpose(plan, fold)) for fold in p.program.folds]
    joined = {
        purpose: " and ".join(dict.fromkeys(name for name, same in purposes if same == purpose))
        for _, purpose in purposes
    }
    return list(dict.fromkeys(joined[end] + end if end else name for name, end in purposes))


def _purpose(plan: Plan, fold: FoldEdge) -> str:
    for p in plan.passes:
        for user in p.program.folds:
            needs = values_below(v for v in p.values if v.token in user.values)
            if any(v.token == fold.token for v in needs):
                return f" for {user.reduction.name}"
    return ""


def _survey(plan: Plan, surveyed: Surveyed) -> str:
    """Name a survey; voxels that depend on it are computed in a second sweep."""
    steps = (step for p in plan.passes for step in p.program.steps)
    again = any(step.completion is not None and step.barrier == surveyed.token for step in steps)
    return f"{surveyed.survey.name} (first sweep)" if again else surveyed.survey.name


def _in_brief(plan: Plan, p: Pass) -> str:
    """Describe a pass in one line: its steps, slabs, and the largest parts of its memory."""
    slab = " x ".join(map(str, p.grid.step))
    line = (
        f"pass {p.index + 1}: {', '.join(describe_work(plan, p))}; "
        f"{counted(len(p.grid), 'slab')} of {slab}, windows of "
        f"{counted(p.partition.window, 'slice')}; reads {format_bytes(p.bytes_read)}, writes "
        f"{format_bytes(p.bytes_written)}; {format_bytes(p.slab_memory)} a slab"
    )
    parts = [item for item in p.partition.parts if item.place == HOST]
    parts.sort(key=lambda item: -item.bytes)
    shown = [item for k, item in enumerate(parts) if k == 0 or item.name.startswith("scratch of")]
    return f"{line}, {', '.join(f'{format_bytes(item.bytes)} {item.name}' for item in shown)}"


def _points(plan: Plan, p: Pass) -> str:
    """Describe a pass over time points: how many, and the numbers it computes of all of them."""
    describe_patches = f"{len(p.grid)} time points"
    if len(plan.passes) == 1:
        return describe_patches
    finds = f", which finds {', '.join(p.of_all_points)} of all points" if p.of_all_points else ""
    return f"pass {p.index + 1}{finds}: {describe_patches}"


def _pass(plan: Plan, p: Pass, timed: bool) -> list[str]:
    part = p.partition
    slab = " x ".join(map(str, p.grid.step))
    overlap = _OVERLAPS[part.overlap]
    shape = " x ".join(map(str, p.program.shape))
    lines = [
        f"pass {p.index + 1}: {shape} voxels in {counted(len(p.grid), 'slab')} of {slab}, "
        f"windows of {counted(part.window, 'slice')}, {overlap}",
    ]
    if plan.concurrency.slots > 1:
        lines.append(f"  {_tail(plan, p)}")
    answered = [_surveying(plan, token) for token in p.program.barriers]
    if answered:
        names = ", ".join(f"pass {k + 1}" for k in sorted({k for k, _ in answered}))
        lines.append(f"  takes the answers of {names}, in the same slabs and windows")
    steps = p.program.steps
    for i, step in enumerate(steps):
        lines.append("  " + _step(plan, p, step))
        if patches := describe_patches(p, i, timed, plan.threads):
            lines.append(f"    {patches}")
    for f in p.program.folds:
        name, many = steps[f.fed[0].voxels.step].name, len(f.fed)
        of = name if many == 1 else f"the {many} channels of {_CHANNEL.sub('', name)}"
        lines.append(f"  {f.reduction.name} of {of}{_purpose(plan, f)}")
    for surveyed in p.program.surveys:
        names = ", ".join(_channels_together([steps[e.step].name for e in surveyed.edges]))
        name, limit_bytes = surveyed.survey.name, format_bytes(p.limit_bytes)
        lines.append(
            f"  {_survey(plan, surveyed)} of {names}, up to {limit_bytes} a slab, then merge the slabs' "
            "summaries"
        )
        if p.merges[name].maximum:
            lines.append(f"    {describe_merge(plan, p, name)}")
    for o in p.program.outputs:
        unit = " x ".join(map(str, o.sink.unit))
        what = steps[o.edge.step].name
        if o.sink in plan.intermediates:
            lines.append(f"  store {what} for this run ({o.sink.dtype}, units of {unit})")
        else:
            lines.append(f"  write {what} to {o.sink.name} ({o.sink.dtype}, units of {unit})")
    for surveyed in p.program.surveys:
        for sink in plan.tables.get(surveyed.token, ()):
            rows = f"the rows of {surveyed.survey.name}"
            inside = sink in plan.intermediates
            end = "for this run" if inside else f"to {sink.name}"
            how = f"({sink.format}), {_row_bytes(p, surveyed)} bytes each before encoding"
            lines.append(f"  {'store' if inside else 'write'} {rows} {end} {how}")
    chunks = f"{counted(p.chunks_read, 'chunk')}, " if p.chunks_read else ""
    lines.append(
        f"  reads {chunks}{format_bytes(p.bytes_read)} "
        f"({p.read_amplification:.2f}x); writes {counted(p.units_written, 'unit')}, "
        f"{format_bytes(p.bytes_written)}"
    )
    lines.append(f"  memory of a slab {format_bytes(part.sweep_memory)}:")
    lines += _items(item for item in part.parts if item.place == HOST)
    if part.device_memory:
        lines.append(f"  memory of a slab on the device {format_bytes(part.device_memory)}:")
        lines += _items(item for item in part.parts if item.place == DEVICE)
    if part.merge_memory:
        lines.append(
            f"  memory of a step of the merge, when the sweep has ended, {format_bytes(part.merge_memory)}:"
        )
        lines += _items(part.merge)
    return _channels_together(lines)


def _with_larger_merges(plan: Plan) -> Plan | None:
    """Return a plan with room for merges of the expected size; None if none is found."""

    def needs(p: Pass) -> list[int]:
        return [p.partition.kept + size.expected for size in p.merges.values()]

    need = max(n for p in plan.swept for n in needs(p))
    # With one slab in flight, a merge has the whole memory.
    for workers in sorted({1, plan.workers}):
        processes = min(workers, plan.processes)
        how = replace(plan.concurrency, workers=workers, processes=processes)
        room = max(plan.memory, memory.of_machine(plan.base, need, how))
        other = plan._replanned(memory=room, workers=workers, processes=processes)
        if other is not None and all(
            max(needs(p), default=0) <= p.partition.kept + p.merge_limit_bytes for p in other.swept
        ):
            return other
    return None


def describe_merge(plan: Plan, p: Pass, name: str) -> str:
    """Describe the expected and the maximum size of a merge, and what happens beyond its limit."""
    size, limit = p.merges[name], p.merge_limit_bytes
    text = (
        f"the largest step of the merge is expected to need {format_bytes(size.expected)}, and at most "
        f"{format_bytes(size.maximum)}"
    )
    if size.maximum <= limit:
        return text
    text += f"; more than {format_bytes(limit)} is refused when pass {p.index + 1} has ended"
    if size.expected > limit:
        if (larger := _with_larger_merges(plan)) is not None:
            fewer = f"workers={larger.workers} and " if larger.workers < plan.workers else ""
            text += (
                f". The expected size fits {fewer}memory={larger.memory} "
                f"({format_bytes(larger.memory)})"
            )
        text += ". A census estimates the size from a part of the volume"
    return text


def _tail(plan: Plan, p: Pass) -> str:
    """How many slabs each slot gets, and for which share of the time the last ones run."""
    slabs, concurrency = len(p.grid), plan.concurrency
    if slabs <= concurrency.slots:
        return f"all slabs run at the same time, of {concurrency.slots:,} in flight"
    return (
        f"{slabs / concurrency.slots:,.1f} slabs for each of {concurrency.slots:,} in flight; "
        f"while the last ones run, about {concurrency.tail(slabs):.1%} of the time, others may "
        "wait"
    )


def _items(parts: Iterable[MemoryItem]) -> Iterator[str]:
    for item in sorted(parts, key=lambda item: -item.bytes):
        if item.bytes:
            yield f"    {format_bytes(item.bytes):>10}  {item.name}"


def _channels_together(lines: Sequence[str]) -> list[str]:
    """Merge lines that differ only in the channel, and append how often they occur."""
    counts: dict[str, int] = {}
    first: dict[str, str] = {}
    for line in lines:
        alike = _CHANNEL.sub("", line)
        counts[alike] = counts.get(alike, 0) + 1
        first.setdefault(alike, line)
    return [
        first[alike] if many == 1 else f"{alike}, {many} times" for alike, many in counts.items()
    ]


def _surveying(plan: Plan, token: str) -> tuple[int, str]:
    """Return the pass that surveys for a barrier, and the name of the survey."""
    return next(
        (p.index, b.survey.name) for p in plan.passes for b in p.program.surveys if b.token == token
    )


def _step(plan: Plan, p: Pass, step: Step) -> str:
    if step.source is not None:
        kept = {o.sink.name: q.index for q in plan.passes for o in q.program.outputs}
        name = step.source.name
        inside = name in {sink.name for sink in plan.intermediates}
        how = "stored" if inside else "written"
        where = f", {how} by pass {kept[name] + 1}" if name in kept else ""
        chunk = " x ".join(map(str, step.source.chunk))
        remark = f"; {step.source.remark}" if step.source.remark else ""
        return f"read {step.name} ({step.dtype}, chunks of {chunk}{where}{remark})"
    inputs = []
    for edge in step.edges:
        name = p.program.steps[edge.step].name
        if edge.halo != NO_HALO:
            name += (
                " halo " + " ".join(f"{b}+{a}" for b, a in edge.halo) + f" {edge.padding.modes[0]}"
            )
        inputs.append(name)
    if is_transfer(step):
        return name_of(step)
    where = " on the device" if step.place == DEVICE else ""
    text = f"{step.name}{where} ({step.dtype})"
    if inputs:
        text += f" of {', '.join(inputs)}"
    if step.completion is not None:
        index, name = _surveying(plan, step.barrier)
        text += f", with the answers of pass {index + 1} to {name}"
    return text
