"""What is asked of a run beside its targets: one thing, checked here, that is carried to whoever needs it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from beam_volumes.base.docstrings import filled
from beam_volumes.plan.cost import machine
from beam_volumes.plan.cost.concurrency import default_workers
from beam_volumes.plan.cost.memory import BASE_BEAM, Base

#: The runner of a run that is continued, where nobody names another.
AS_BEGUN = "as it was begun"

#: The runner of a run of which nobody says how it is to be run: see `plan.in_process`.
AUTO = "auto"

#: What these mean wherever a user says them, for docstrings.
documented = filled(
    {
        "memory": """\
memory : int or str, optional
    Memory that this machine may use for the run, in bytes or as ``"2GiB"``; a quarter of its
    RAM by default.""",
        "process_memory": """\
memory : int or str, optional
    Memory that one worker process may use, in bytes or as ``"8GiB"``; a quarter of its
    machine's RAM by default.""",
        "workers": """\
workers : int, optional
    Number of slabs in flight; by default one for every four cores, and more where one thread does
    much of a slab's work alone and the memory has room.""",
        "threads": """\
threads : int, optional
    Number of threads that compute one slab; by default the cores divided by the processes.""",
        "slab": """\
slab : sequence of int, optional
    Shape of slabs along the volume's axes, in voxels, instead of one that the memory chooses.
    It consists of whole write units (chunks or shards) of the outputs.""",
        "window": """\
window : int, optional
    Number of slices that are finished at a time, instead of one that the memory chooses.""",
        "journal": """\
journal : str, os.PathLike or dict, optional
    Where the journal is kept, instead of in the folder ``.run`` beside the first output.""",
        "resume": """\
resume : bool, default: False
    Whether to continue a run that was stopped, from the slabs that are complete.""",
        "overwrite": """\
overwrite : bool, default: False
    Whether to replace outputs that exist; otherwise they are an error.""",
        "accelerator": """\
accelerator : str, optional
    The accelerator that machines must have for passes that run a network, as Beam's resource hint has
    it, such as ``"type:nvidia-tesla-t4;count:1;install-nvidia-driver"``. Dataflow hires machines by it;
    other runners do not mind it.""",
        "max_retries": """\
max_retries : int, default: 1
    How often a step is tried again that has failed of the same error, where no machine and no storage
    is to blame. Then the run ends, however often its runner would try.""",
        "run_errors": """\
ValueError
    If the request cannot work: memory is too little (the message names the least that would
    do), ``slab`` does not consist of whole write units, or an output is also an input. Nothing
    was started then.
FileExistsError
    If an output exists, and neither ``resume`` nor ``overwrite`` is asked for.""",
    }
)


@documented
def runner_name(runner: Any) -> str:
    """Return the name of a runner given by name, class or instance."""
    if not isinstance(runner, str):
        runner = (runner if isinstance(runner, type) else type(runner)).__name__
    return runner.rpartition(".")[2]


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How a run is to be planned, kept, begun and shown; None leaves it to the machine that plans.

    Attributes
    ----------
    %(memory)s
    %(workers)s
    processes : int, optional
        Worker processes the workers are spread over; None is one for each.
    %(threads)s
    %(slab)s
    %(window)s
    base : int, LOCAL_PIPELINE or None
        Bytes a worker process takes before any voxel and any kernel; None is measured of this process.
    in_memory_results : bool
        Whether arrays that come back are put together in this process's memory.
    %(journal)s
    keep_journal : bool
        Whether it stays when the run has ended well.
    %(resume)s
    %(overwrite)s
    run_id : str, optional
        The run's name instead of a random one.
    runner : str, beam Runner or None
        None is this process without Beam.
    beam_options : PipelineOptions, list of str or mapping, optional
        Beam's options.
    progress : bool or callable, optional
        Show progress, or call a function with it.
    %(accelerator)s
    %(max_retries)s

    Raises
    ------
    ValueError, TypeError
        One of them is not what it may be, whatever the volumes are.

    Examples
    --------
    >>> RunOptions(memory="2GiB", workers=2, slab=[64, 512, 512]).memory_bytes
    2147483648
    """

    memory: int | float | str | None = None
    workers: int | None = None
    processes: int | None = 1
    threads: int | None = None
    slab: Sequence[int] | None = None
    window: int | None = None
    base: Base = BASE_BEAM
    in_memory_results: bool = False
    journal: Any = None
    keep_journal: bool = True
    resume: bool = False
    overwrite: bool = False
    run_id: str | None = None
    runner: Any = "FnApiRunner"
    beam_options: Any = None
    progress: bool | Callable[..., None] | None = None
    accelerator: str | None = None
    max_retries: int = 1

    def __post_init__(self) -> None:
        if self.memory is not None:
            machine.parse_bytes(self.memory)
        for name in ("workers", "processes", "threads", "window"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, machine.checked_count(name, getattr(self, name), 1))
        retries = machine.checked_count("max_retries", self.max_retries, 1, least=0)
        object.__setattr__(self, "max_retries", retries)
        if self.accelerator is not None and not str(self.accelerator).startswith("type:"):
            raise ValueError(
                f"accelerator={self.accelerator!r} is no resource hint of Beam's; give one such as "
                '"type:nvidia-tesla-t4;count:1;install-nvidia-driver"'
            )
        if self.slab is not None:
            object.__setattr__(self, "slab", _checked_slab(self.slab))
        if self.resume and self.overwrite:
            raise ValueError(
                "resume=True continues a run and overwrite=True replaces it; choose one"
            )

    @property
    def memory_bytes(self) -> int:
        """What one machine may use: by default a quarter of its RAM."""
        return machine.default_memory() if self.memory is None else machine.parse_bytes(self.memory)

    @property
    def slabs_in_flight(self) -> int:
        """``workers``: by default one for every four cores, at first; a plan may have more."""
        return self.workers or default_workers()

    def or_else(self, **others: Any) -> RunOptions:
        """The same, with what others say where these say nothing.

        >>> found = RunOptions(workers=2).or_else(workers=3, memory="1GiB")
        >>> found.workers, found.memory
        (2, '1GiB')
        """
        return replace(self, **{k: v for k, v in others.items() if getattr(self, k) is None})


def _checked_slab(slab: Sequence[int]) -> tuple[int, ...]:
    if not isinstance(slab, Iterable) or isinstance(slab, str | bytes):
        raise TypeError(f"slab={slab!r} is not a sequence: it needs one number per axis z, y, x")
    return tuple(machine.checked_count("slab", int(n), 1) for n in slab)
