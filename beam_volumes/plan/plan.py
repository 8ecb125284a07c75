"""The plan of a run: its passes and their cost."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

from beam_volumes.base.higher import explanation, html_of, profile
from beam_volumes.base.text import counted, format_bytes
from beam_volumes.graph.nodes import Value
from beam_volumes.graph.scalar import Scalar
from beam_volumes.graph.table import Table, TableTarget
from beam_volumes.graph.volume import Target, Volume
from beam_volumes.plan.cost import memory
from beam_volumes.plan.cost.concurrency import Concurrency
from beam_volumes.plan.cost.memory import LOCAL_PIPELINE, Base
from beam_volumes.plan.cost.speeds import PIPELINE, PROCESS, load
from beam_volumes.plan.cost.traffic import Read, chunks_needed
from beam_volumes.plan.cut.passes import Levels
from beam_volumes.plan.fit.planned_pass import Pass
from beam_volumes.plan.fit.seconds import run_seconds
from beam_volumes.plan.picture import plan_svg
from beam_volumes.plan.run_options import RunOptions
from beam_volumes.storage.inputs.arrays import ArraySink
from beam_volumes.storage.outputs.sink import Sink
from beam_volumes.storage.outputs.table_sink import TableSink
from beam_volumes.storage.places.extent import Extent
from beam_volumes.storage.places.single_file import write_file


def levels_of(targets: Sequence[Any]) -> Levels:
    """Sort everything below targets, including the inputs of lazy scalars."""
    return Levels(
        [n for t in targets if isinstance(t, Volume) for n in t.nodes]
        + [n for t in targets if isinstance(t, Target) for n in t.volume.nodes],
        [t.value for t in targets if isinstance(t, Scalar)],
        [t.barrier for t in targets if isinstance(t, Table)]
        + [t.table.barrier for t in targets if isinstance(t, TableTarget)],
    )


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
        return {f.name: getattr(self, f.name) for f in fields(self)} | {"targets": ()}

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

        Raises
        ------
        TypeError
            If ``concurrency`` is not the concurrency of a plan.

        Examples
        --------
        >>> v = bv.open(np.zeros((8, 64, 64), "u1"))
        >>> one, two = (bv.plan(bv.mean(v), workers=n) for n in (1, 2))
        >>> one.with_concurrency(two.concurrency).workers
        2
        """
        if not isinstance(concurrency, Concurrency):
            raise TypeError(
                f"concurrency={concurrency!r} is not the concurrency of a plan; use `Plan.concurrency`"
            )
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

    @cached_property
    def levels(self) -> Levels:
        """The expressions of its targets."""
        return levels_of(self.targets)

    @cached_property
    def sinks(self) -> tuple[Sink | TableSink, ...]:
        """Every output of the run, including intermediates."""
        volumes = tuple(o.sink for p in self.passes for o in p.program.outputs)
        return volumes + tuple(s for sinks in self.tables.values() for s in sinks)

    @cached_property
    def outputs(self) -> tuple[Any, ...]:
        """The outputs of the run, without intermediates."""
        return tuple(sink for sink in self.sinks if sink not in self.intermediates)

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
        found = profile().census(self) if census else {}
        return explanation().explained(self, timed, verbose or timed, found)

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
