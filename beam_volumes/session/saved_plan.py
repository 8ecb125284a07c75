"""What a run keeps of itself so that it can be continued from its folder alone; see `session.resume`.

That is its plan, pickled: a plan is plain data and the functions given to `map_overlap`. It is small
however many slabs there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cloudpickle

from beam_volumes.plan.plan import Plan


@dataclass(frozen=True)
class Request:
    """What a run was asked for beside its plan.

    Attributes
    ----------
    beam : bool
        Whether it runs as a pipeline.
    note : object
        The caller's, for whoever continues the run: how results are told of.
    """

    beam: bool
    note: Any = None


def save_plan(plan: Plan, request: Request | None) -> tuple[bytes | None, str]:
    """A run's plan and request as bytes; or None, and why it cannot be continued from its folder."""
    if request is None:
        return None, "it is a step of a pipeline: run that again with resume=True"
    if not all(sink.portable for sink in plan.sinks):
        return None, "its outputs were memory of the process that began it"
    for p in plan.swept:
        for step in p.program.steps:
            if step.source is not None and not step.source.portable:
                return None, (
                    f"its input {step.source.name} was memory of the process that began it: "
                    "run the program again with resume=True"
                )
    try:
        return cloudpickle.dumps((plan, request)), ""
    except Exception as error:  # what a user's function holds may raise anything
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        return None, (
            f"its plan does not pickle ({reason}): run the program again with resume=True"
        )
