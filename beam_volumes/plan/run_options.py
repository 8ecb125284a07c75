"""The options of a run: declared, documented and checked once, and passed on as one object."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from beam_volumes.base.text import filled
from beam_volumes.plan.cost import machine
from beam_volumes.plan.cost.concurrency import default_workers
from beam_volumes.plan.cost.memory import BASE_BEAM, Base

#: The default runner of a run that is continued.
AS_BEGUN = "as it was begun"

#: The default runner: see `plan.in_process`.
AUTO = "auto"

#: Where the command line has an option: on every verb that plans, on those that run something, or only on
#: those that begin a run. The first are keys of recipes, too.
PLANNING, RUNNING, BEGINNING = "planning", "running", "beginning"


def runner_name(runner: Any) -> str:
    """Return the name of a runner given by name, class or instance."""
    if not isinstance(runner, str):
        runner = (runner if isinstance(runner, type) else type(runner)).__name__
    return runner.rpartition(".")[2]


def _option(default: Any, where: str, metavar: str, text: str) -> Any:
    """A field that users know: ``text`` is its entry in docstrings, and help on the command line."""
    return field(default=default, metadata={"where": where, "metavar": metavar, "text": text})


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The options of a run; None leaves the choice to the machine that plans.

    `compute`, `Compute` and `ComputeAll` have the options that users know as keywords. The command line,
    recipes, Beam YAML and the expansion service derive theirs from these fields and those signatures.

    Raises
    ------
    ValueError, TypeError
        If an option is wrong, whatever the volumes are.

    Examples
    --------
    >>> RunOptions(memory="2GiB", workers=2, slab=[64, 512, 512]).memory_bytes
    2147483648
    """

    memory: int | float | str | None = _option(
        None,
        PLANNING,
        "SIZE",
        """\
memory : int or str, optional
    Memory that this machine may use for the run, in bytes or as ``"2GiB"``; a quarter of its
    RAM by default.""",
    )
    workers: int | None = _option(
        None,
        PLANNING,
        "N",
        """\
workers : int, optional
    Number of slabs in flight; by default one for every four cores, and more where one thread does
    much of a slab's work alone and the memory has room.""",
    )
    machines: int | None = _option(
        None,
        PLANNING,
        "N",
        """\
machines : int, optional
    Number of machines that share the slabs, where a runner has several: slabs are small enough for
    each to get many. By default Beam's options decide, ``max_num_workers``, ``num_workers`` or
    ``parallelism``, or it is 1.""",
    )
    #: Worker processes that the workers are spread over; None is one for each.
    processes: int | None = 1
    threads: int | None = _option(
        None,
        BEGINNING,
        "N",
        """\
threads : int, optional
    Number of threads that compute one slab; by default the cores divided by the processes.""",
    )
    slab: Sequence[int] | None = _option(
        None,
        BEGINNING,
        "Z,Y,X",
        """\
slab : sequence of int, optional
    Shape of slabs along the volume's axes, in voxels, instead of one that the memory chooses.
    It consists of whole write units (chunks or shards) of the outputs.""",
    )
    window: int | None = _option(
        None,
        "",
        "",
        """\
window : int, optional
    Number of slices that are finished at a time, instead of one that the memory chooses.""",
    )
    #: Bytes that a worker process takes before any voxel and any kernel; LOCAL_PIPELINE, or None, which is
    #: measured of this process.
    base: Base = BASE_BEAM
    #: Whether arrays that come back are put together in this process's memory.
    in_memory_results: bool = False
    #: False for a run without a journal, which cannot be resumed.
    journal: Any = _option(  # noqa: RUF009
        None,
        BEGINNING,
        "PLACE",
        """\
journal : str, os.PathLike or dict, optional
    Where the journal is kept, instead of in the folder ``.run`` next to the first output.""",
    )
    #: Whether the journal stays when the run has ended well.
    keep_journal: bool = True
    resume: bool = _option(
        False,
        BEGINNING,
        "",
        """\
resume : bool, default: False
    Whether to continue a run that was stopped, from the slabs that are complete.""",
    )
    overwrite: bool = _option(
        False,
        BEGINNING,
        "",
        """\
overwrite : bool, default: False
    Whether to replace outputs that exist; otherwise they are an error.""",
    )
    #: The run's name instead of a random one.
    run_id: str | None = None
    #: A name, a class or an instance; None is this process without Beam.
    runner: Any = "FnApiRunner"
    #: Beam's options: PipelineOptions, a list of texts, or a mapping.
    beam_options: Any = None
    #: Whether to show progress, or a function that is called with it.
    progress: bool | Callable[..., None] | None = None
    accelerator: str | None = _option(
        None,
        RUNNING,
        "HINT",
        """\
accelerator : str, optional
    The accelerator that machines must have for passes that run a network, as Beam's resource hint has
    it, such as ``"type:nvidia-tesla-t4;count:1;install-nvidia-driver"``. Dataflow hires machines by it;
    other runners do not mind it.""",
    )
    max_retries: int = _option(
        1,
        RUNNING,
        "N",
        """\
max_retries : int, default: 1
    How often a step that raises the same error again is retried, where no machine and no storage
    is to blame. Then the run ends, however often its runner would try.""",
    )

    @classmethod
    def of(cls, arguments: Mapping[str, Any], **others: Any) -> RunOptions:
        """Make options of those arguments of a function that are options, and ``others``.

        Examples
        --------
        >>> RunOptions.of({"volume": None, "workers": 2}, processes=3).slabs_in_flight
        2
        """
        known = {f.name for f in fields(cls)}
        return cls(**{k: v for k, v in arguments.items() if k in known} | others)

    def __post_init__(self) -> None:
        if self.memory is not None:
            machine.parse_bytes(self.memory)
        for name in ("workers", "machines", "processes", "threads", "window"):
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
        """The same, with ``others`` in place of options that are None.

        >>> found = RunOptions(workers=2).or_else(workers=3, memory="1GiB")
        >>> found.workers, found.memory
        (2, '1GiB')
        """
        return replace(self, **{k: v for k, v in others.items() if getattr(self, k) is None})


def _checked_slab(slab: Sequence[int]) -> tuple[int, ...]:
    if not isinstance(slab, Iterable) or isinstance(slab, str | bytes):
        raise TypeError(f"slab={slab!r} is not a sequence: it needs one number per axis z, y, x")
    return tuple(machine.checked_count("slab", int(n), 1) for n in slab)


#: Options that users know, by name: their fields, in which `metadata` has what `_option` was given.
USER_OPTIONS = {f.name: f for f in fields(RunOptions) if f.metadata}

#: Options that recipes have as keys.
RECIPE_OPTIONS = tuple(name for name, f in USER_OPTIONS.items() if f.metadata["where"] == PLANNING)

#: Puts the entries of options into docstrings.
documented = filled(
    {
        **{name: f.metadata["text"] for name, f in USER_OPTIONS.items()},
        "runner": """\
runner : str, apache_beam.runners.PipelineRunner or None, default: "auto"
    ``"FnApiRunner"`` runs a Beam pipeline on this machine, None runs without Beam in the current
    process; Beam finds any other runner by its name. ``"auto"`` is None, except for runs that may take
    more than half of the free memory, and runs with ``options``: those use ``"FnApiRunner"``, so that
    the caller survives if memory runs out. `plan` shows which.
options : PipelineOptions or list of str, optional
    Beam's options, e.g. ``["--direct_running_mode=multi_processing"]``.""",
        "process_memory": """\
memory : int or str, optional
    Memory that one worker process may use, in bytes or as ``"8GiB"``; a quarter of its
    machine's RAM by default.""",
        "run_errors": """\
ValueError
    If the request cannot work: memory is too little (the message names the least that would
    do), ``slab`` does not consist of whole write units, or an output is also an input. Nothing
    was started then.
FileExistsError
    If an output exists, and neither ``resume`` nor ``overwrite`` is asked for.""",
    }
)
