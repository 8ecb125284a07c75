"""Names of runners, checked before planning."""

from __future__ import annotations

from typing import Any

from beam_volumes.base.text import nearest
from beam_volumes.plan.run_options import runner_name

#: Users' names of Beam's FnApiRunner on this machine, without "Runner".
LOCAL = {"fnapi", "direct", "bundlebaseddirect", "switchingdirect"}
#: Wrong names for runners on this machine.
_HERE = ("local", "here", "threads", "processes", "multiprocessing", "sync", "none", "in_process")


def is_local(runner: Any) -> bool:
    """Whether a runner, by name, class or instance, is FnApiRunner on this machine.

    Examples
    --------
    >>> is_local("DirectRunner"), is_local("FlinkRunner")
    (True, False)
    """
    return runner_name(runner).lower().removesuffix("runner") in LOCAL


def check_runner(runner: Any) -> None:
    """Refuse unknown names of runners with the nearest name; Beam checks classes, instances and full names.

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
                    f"runner={runner!r}: Beam has no such runner; give None for this process without Beam, "
                    "or 'DirectRunner' for a pipeline on this machine"
                )
            hint = nearest(f"{runner}Runner", known) or f"; known are {', '.join(known)}"
            raise ValueError(f"runner={runner!r}: Beam has no such runner{hint}")
    elif not isinstance(runner, PipelineRunner) and not (
        isinstance(runner, type) and issubclass(runner, PipelineRunner)
    ):
        raise TypeError(
            f"runner={runner!r} is not a runner; give the name of a runner, a runner of Beam, or None"
        )
