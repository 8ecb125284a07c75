"""Request machines for the steps of a pipeline by Beam's resource hints.

Only runners that provision machines benefit. Steps with different hints have different
environments, for which a runner may start separate worker processes; FnApiRunner with processes
does.
"""

from __future__ import annotations

from typing import Any

import apache_beam as beam
from apache_beam.pipeline import PipelineVisitor
from apache_beam.transforms.resources import parse_resource_hints

from beam_volumes.plan import accelerators
from beam_volumes.plan.plan import Plan
from beam_volumes.plan.run_options import runner_name

#: Runners that provision machines by the resource hints of steps.
HIRING = {"dataflow"}


def hires(runner: Any) -> bool:
    """Whether a runner provisions machines for a job, so its workers are never on this machine.

    >>> hires("DataflowRunner"), hires("FlinkRunner")
    (True, False)
    """
    return runner_name(runner).lower().removesuffix("runner") in HIRING


def asking(
    step: beam.PTransform, plan: Plan, index: int, memory: bool, accelerator: str | None
) -> beam.PTransform:
    """A pass with the resource hints of its machines."""
    # All steps of a pass have the same hints: the results of a sweep may be large, and must not leave
    # the worker before the first round of their merge has split them into pieces.
    #
    # ``memory``: whether to request the predicted memory.
    # ``accelerator``: requested if the pass can use it; with ``memory``, there is one for device="cuda".
    if accelerator is None and memory and plan.device == "cuda":
        accelerator = accelerators.DEFAULT
    is_used = accelerators.is_accelerated(plan, index)
    hints = machine_hints(
        accelerators.needed(plan, index) if memory else None, accelerator if is_used else None
    )
    return step.with_resource_hints(**hints) if hints else step


def machine_hints(gib: int | None, accelerator: str | None) -> dict[str, str]:
    """Resource hints by Beam's names.

    >>> machine_hints(4, None)
    {'min_ram': '4GiB'}
    """
    hints = {} if gib is None else {"min_ram": f"{gib}GiB"}
    return hints if accelerator is None else {**hints, "accelerator": accelerator}


def bound(pipeline: beam.Pipeline, bundles: int) -> None:
    """Limit the bundles of passes that a worker takes at a time, for runners that support it."""
    # More bundles would only wait at the gate, each with a thread and its side inputs. Beam adds the
    # limits of nested steps, so only the innermost ones get it. All of them do: steps with different
    # hints are not fused.
    hints = parse_resource_hints({"max_active_bundles_per_worker": str(bundles)})

    class Bound(PipelineVisitor):
        def visit_transform(self, step: Any) -> None:
            if step.full_label.startswith("Pass "):
                step.resource_hints = {**step.resource_hints, **hints}

    pipeline.visit(Bound())
