"""The options of a run: declared, documented and checked in one place, passed on as one object."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

from beam_volumes.base.text import filled
from beam_volumes.plan.cost import machine
from beam_volumes.plan.cost.concurrency import default_workers
from beam_volumes.plan.cost.memory import BASE_BEAM, Base
from beam_volumes.sweep.device import NoDevice
from beam_volumes.sweep.devices import listed

#: The runner of a resumed run by default.
AS_BEGUN = "as it was begun"

#: The values of ``device=``, and the share of a device's free memory that a run may use by default.
DEVICES = ("cpu", "cuda", "auto")
_FREE_SHARE = 0.8

#: The default runner: see `plan.planner.why_in_process`.
AUTO = "auto"

#: The commands that have an option: all that plan, all that run, or those that start a run. Options
#: of the first kind are also keys of recipes.
PLANNING, RUNNING, BEGINNING = "planning", "running", "beginning"


def runner_name(runner: Any) -> str:
    """Return the name of a runner given by name, class or instance."""
    if not isinstance(runner, str):
        runner = (runner if isinstance(runner, type) else type(runner)).__name__
    return runner.rpartition(".")[2]


def _option(default: Any, where: str, metavar: str, text: str) -> Any:
    """Declare a public option; ``text``: its entry in docstrings, also shown by ``--help``."""
    return field(default=default, metadata={"where": where, "metavar": metavar, "text": text})


def _driving(default: Any, text: str, **given: Any) -> Any:
    """Declare an option of functions that drive a run; a step of a pipeline does not have it.

    ``given``: ``public``, the default of the functions, if it is a different one.
    """
    return field(default=default, metadata={"driving": True, "text": text, **given})


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The options of a run; None leaves the choice to the machine that plans.

    The public options are keyword parameters of `compute`, `plan`, `Compute` and `ComputeAll`. The
    first three, the command line, recipes, Beam YAML and the expansion service derive them from these
    fields: see `takes_options`.

    Raises
    ------
    ValueError, TypeError
        If an option is invalid for any volume.

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
    Number of slabs in flight. By default one slab for every four cores, and more if much of the
    work on a slab is single-threaded and the memory suffices.""",
    )
    machines: int | None = _option(
        None,
        PLANNING,
        "N",
        """\
machines : int, optional
    Number of machines that share the slabs, for runners with several machines. Slabs are made small
    enough for each machine to get many. By default, Beam's option ``max_num_workers``,
    ``num_workers`` or ``parallelism``, otherwise 1.""",
    )
    #: Worker processes that share the slabs in flight; None is one for each slab.
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
    Shape of slabs along the volume's axes, in voxels; by default as large as the memory allows.
    Each slab must consist of whole write units (chunks or shards) of the outputs.""",
    )
    window: int | None = _option(
        None,
        "",
        "",
        """\
window : int, optional
    Number of slices that are computed at a time; by default as many as the memory allows.""",
    )
    #: Memory of a worker process without voxels and kernels, in bytes; None measures this process.
    base: Base = BASE_BEAM
    #: Whether returned arrays are assembled in this process's memory.
    in_memory_results: bool = False
    #: False for a run without a journal, which cannot be resumed.
    journal: Any = _option(  # noqa: RUF009
        None,
        BEGINNING,
        "PLACE",
        """\
journal : str, os.PathLike or dict, optional
    Folder of the journal and of intermediate results; by default ``.run`` next to the first output.""",
    )
    keep_journal: bool = _driving(
        True,
        """\
keep_journal : bool, default: True
    Whether to keep the journal after a successful run. `verify` needs it.""",
    )
    resume: bool = _option(
        False,
        BEGINNING,
        "",
        """\
resume : bool, default: False
    Whether to continue a stopped run from its complete slabs.""",
    )
    overwrite: bool = _option(
        False,
        BEGINNING,
        "",
        """\
overwrite : bool, default: False
    Whether to replace existing outputs; otherwise they raise an error.""",
    )
    #: The id of the run; random by default.
    run_id: str | None = None
    #: A name, a class or an instance; None runs in this process without Beam.
    runner: Any = _driving(  # noqa: RUF009
        "FnApiRunner",
        """\
runner : str, apache_beam.runners.PipelineRunner or None, default: "auto"
    ``"FnApiRunner"`` runs a Beam pipeline on this machine. None runs in the current process
    without Beam. Beam looks up any other runner by its name. ``"auto"`` chooses None, except for
    runs with ``options`` and runs that may use more than half of the free memory. Such runs use
    ``"FnApiRunner"``, so that the caller survives if memory runs out. `plan` shows the choice.""",
        public=AUTO,
    )
    #: Also a mapping.
    beam_options: Any = _driving(  # noqa: RUF009
        None,
        """\
options : PipelineOptions, list of str or dict, optional
    Beam's options, such as ``["--direct_running_mode=multi_processing"]``; not with
    ``runner=None``.""",
    )
    progress: bool | Callable[..., None] | None = _driving(  # noqa: RUF009
        None,
        """\
progress : bool or callable, optional
    Whether to show progress on standard error, or a function to call with the progress. By default,
    terminals and notebooks show a progress bar for runs of more than one second. Elsewhere, runs of
    more than five seconds print a line for each pass.""",
    )
    accelerator: str | None = _option(
        None,
        RUNNING,
        "HINT",
        """\
accelerator : str, optional
    The accelerator for passes that run a network or use a device. The value is a Beam resource hint
    such as ``"type:nvidia-tesla-t4;count:1;install-nvidia-driver"``, which is the default with
    ``device="cuda"``. Dataflow provisions machines accordingly; other runners ignore it.""",
    )
    device: str | None = _option(
        None,
        PLANNING,
        "NAME",
        """\
device : {"cpu", "cuda", "auto"}, optional
    Where stages run, by default on the CPU. "cuda" runs each stage with device code on the GPU of
    its worker. "auto" does so only if there is a GPU and the estimated gain outweighs the copies.
    With "auto", slabs that fail on the GPU are computed on the CPU. Results are bit-identical in
    all cases.""",
    )
    device_memory: int | float | str | None = _option(
        None,
        PLANNING,
        "SIZE",
        """\
device_memory : int or str, optional
    Memory that the run may use on each GPU of a machine, in bytes or as ``"8GiB"``; by default
    0.8 of the GPU's free memory.""",
    )
    max_retries: int = _option(
        1,
        RUNNING,
        "N",
        """\
max_retries : int, default: 1
    How often to retry a step that raises the same error again, unless a machine or the storage
    caused the error. After these retries, the run ends, even if its runner would continue to
    retry.""",
    )

    @classmethod
    def of(cls, arguments: Mapping[str, Any], **others: Any) -> RunOptions:
        """Make options from the function arguments that are options, and from ``others``.

        >>> RunOptions.of({"volume": None, "workers": 2}, processes=3).slabs_in_flight
        2
        """
        arguments = {_FIELDS.get(name, name): value for name, value in arguments.items()}
        journal = arguments.get("journal")
        if not isinstance(journal, str | os.PathLike | Mapping | None):
            raise TypeError(
                f"journal={journal!r} is not a place; give a path, a URL or the spec of a key-value "
                "store, or leave it out"
            )
        known = {f.name for f in fields(cls)}
        return cls(**{k: v for k, v in arguments.items() if k in known} | others)

    def __post_init__(self) -> None:
        if self.runner is None and self.beam_options:
            raise ValueError(
                "options= is for Beam, and runner=None runs without Beam; remove one of them"
            )
        if self.memory is not None:
            machine.parse_bytes(self.memory)
        if self.device_memory is not None:
            machine.parse_bytes(self.device_memory, "device_memory")
        if self.device not in (None, *DEVICES):
            raise ValueError(
                f"device={self.device!r} is not known; choose one of {', '.join(map(repr, DEVICES))}"
            )
        for name in ("workers", "machines", "processes", "threads", "window"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, machine.checked_count(name, getattr(self, name), 1))
        retries = machine.checked_count("max_retries", self.max_retries, 1, minimum=0)
        object.__setattr__(self, "max_retries", retries)
        if self.accelerator is not None and not str(self.accelerator).startswith("type:"):
            raise ValueError(
                f"accelerator={self.accelerator!r} is not a Beam resource hint; give one such as "
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
        """The memory limit of one machine: by default a quarter of its RAM."""
        return machine.default_memory() if self.memory is None else machine.parse_bytes(self.memory)

    @property
    def device_bytes(self) -> int:
        """The memory limit of each device of a machine; 0 for a run without a device.

        With a given `device_memory`, ``device="cuda"`` can be planned for other machines.
        """
        if self.device in (None, "cpu"):
            return 0
        given = None if self.device_memory is None else machine.parse_bytes(self.device_memory)
        if self.device == "cuda" and given is not None:
            return given
        try:
            free = min(found.free for found in listed())
        except NoDevice:
            if self.device == "cuda":
                raise
            return 0
        return int(_FREE_SHARE * free) if given is None else given

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


#: Public options by name; `metadata` has the arguments of `_option`.
USER_OPTIONS = {f.name: f for f in fields(RunOptions) if "where" in f.metadata}
#: Fields with another name than the parameter.
_FIELDS = {"options": "beam_options"}
_PARAMETERS = {field: parameter for parameter, field in _FIELDS.items()}

#: Options that are keys of recipes.
RECIPE_OPTIONS = tuple(name for name, f in USER_OPTIONS.items() if f.metadata["where"] == PLANNING)

_TEXTS = {
    **{
        _PARAMETERS.get(f.name, f.name): f.metadata["text"]
        for f in fields(RunOptions)
        if f.metadata
    },
    "process_memory": """\
memory : int or str, optional
    Memory that one worker process may use, in bytes or as ``"8GiB"``; a quarter of its
    machine's RAM by default.""",
    "run_errors": """\
ValueError
    If memory is too small; the message contains the minimum. If ``slab`` does not consist of whole
    write units, or an output is also an input. In this case, nothing is started.
FileExistsError
    If an output exists and neither ``resume`` nor ``overwrite`` is set.""",
}

#: Fills the entries of options into docstrings.
documented = filled(_TEXTS)

_Taking = TypeVar("_Taking", bound=Callable[..., Any])


def takes_options(*, driving: bool, memory: str = "memory") -> Callable[[_Taking], _Taking]:
    """Decorate a function or a class that passes ``**options`` to `RunOptions`.

    Its signature has the public options instead, and its docstring their entries at ``%(options)s``.
    ``driving``: whether to include the options of functions that drive a run. ``memory``: the name of
    the entry of this option. ``**named`` stays, for other keywords.

    >>> @takes_options(driving=True)
    ... def run(*targets, **options):
    ...     return RunOptions.of(options)
    >>> inspect.signature(run).parameters["workers"].default, run(workers=2).slabs_in_flight
    (None, 2)
    """
    taken = {
        _PARAMETERS.get(f.name, f.name): f
        for f in fields(RunOptions)
        if f.metadata and (driving or "driving" not in f.metadata)
    }

    def decorate(item: _Taking) -> _Taking:
        function: Any = item.__init__ if isinstance(item, type) else item  # type: ignore[misc]
        signature = inspect.signature(function)
        own = list(signature.parameters.values())
        first = [p for p in own if p.kind not in (p.KEYWORD_ONLY, p.VAR_KEYWORD)]
        last = [p for p in own if p not in first and p.name != "options"]
        derived = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=f.metadata.get("public", f.default),
                annotation=f.type,
            )
            for name, f in taken.items()
        ]
        function.__signature__ = signature.replace(parameters=[*first, *derived, *last])
        entries = [_TEXTS[memory if name == "memory" else name] for name in taken]
        return filled({**_TEXTS, "options": "\n".join(entries)})(item)

    return decorate
