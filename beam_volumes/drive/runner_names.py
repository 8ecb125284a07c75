"""Names of runners, checked before anything is planned for one."""

from __future__ import annotations

from typing import Any

from beam_volumes.base.text import nearest
from beam_volumes.plan.run_options import runner_name

#: The names, without "Runner", under which users know Beam's FnApiRunner on this machine.
LOCAL = {"fnapi", "direct", "bundlebaseddirect", "switchingdirect"}
#: What those are called by people who mean this machine.
_HERE = ("local", "here", "threads", "processes", "multiprocessing", "sync", "none", "in_process")


def is_local(runner: Any) -> bool:
    """Whether a runner, by name, class or instance, stands for FnApiRunner on this machine.

    Examples
    --------
    >>> is_local("DirectRunner"), is_local("FlinkRunner")
    (True, False)
    """
    return runner_name(runner).lower().removesuffix("runner") in LOCAL


def check_runner(runner: Any) -> None:
    """Refuse the name of a runner that Beam has not; classes, instances and full names are left to Beam.

    Raises
    ------
    ValueError
        The message has the nearest name.
    TypeError
        It is neither a name nor a runner.

    Examples
    --------
    >>> check_runner("Dirct")
    Traceback (most recent call last):
    ValueError: runner='Dirct': Beam has no such runner; did you mean 'DirectRunner'?
    """
    from apache_beam.options.pipeline_options import StandardOptions
    from apache_beam.runners.runner import PipelineRunner

    if isinstance(runner, str):
        if "." in runner:
            return
        known = [path.rpartition(".")[2] for path in StandardOptions.ALL_KNOWN_RUNNERS]
        if f"{runner.lower().removesuffix('runner')}runner" not in [k.lower() for k in known]:
            if runner.lower() in _HERE:
                raise ValueError(
                    f"runner={runner!r}: Beam has no such runner; None is this process without Beam, and "
                    "'DirectRunner' a pipeline on this machine"
                )
            hint = nearest(f"{runner}Runner", known) or f"; known are {', '.join(known)}"
            raise ValueError(f"runner={runner!r}: Beam has no such runner{hint}")
    elif not isinstance(runner, PipelineRunner) and not (
        isinstance(runner, type) and issubclass(runner, PipelineRunner)
    ):
        raise TypeError(
            f"runner={runner!r} is neither the name of a runner, a runner of Beam's, nor None"
        )
