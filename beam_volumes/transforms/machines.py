"""What steps tell a runner of the machines that they need, by Beam's resource hints.

Only a runner that hires machines gains by them. Steps with different hints are of different environments, for
each of which a runner may start worker processes of its own: FnApiRunner with processes does.
"""

from __future__ import annotations

from typing import Any

import apache_beam as beam
from apache_beam.pipeline import PipelineVisitor
from apache_beam.transforms.resources import parse_resource_hints

from beam_volumes.plan.estimate import accelerators as hiring
from beam_volumes.plan.plan import Plan
from beam_volumes.plan.run_options import runner_name

#: Runners that start machines for a job, by what its steps say they need.
HIRING = {"dataflow"}


def hires(runner: Any) -> bool:
    """Whether a runner hires machines for a job, so that its workers are never on this machine.

    >>> hires("DataflowRunner"), hires("FlinkRunner")
    (True, False)
    """
    return runner_name(runner).lower().removesuffix("runner") in HIRING


def asking(
    step: beam.PTransform, plan: Plan, index: int, memory: bool, accelerator: str | None
) -> beam.PTransform:
    """A pass with what its machines must have.

    It is one for all steps of a pass: what a sweep found is as large as it is, and must not leave the
    worker before the first round of its merge has made pieces of it.

    ``memory``: whether it tells the memory that the plan predicts.
    ``accelerator``: what machines must have if the pass runs a network.
    """
    runs_network = hiring.is_accelerated(plan, index)
    hints = machine_hints(
        hiring.needed(plan, index) if memory else None, accelerator if runs_network else None
    )
    return step.with_resource_hints(**hints) if hints else step


def machine_hints(gib: int | None, accelerator: str | None) -> dict[str, str]:
    """Hints of what machines must have, as Beam names them.

    >>> machine_hints(4, None)
    {'min_ram': '4GiB'}
    """
    hints = {} if gib is None else {"min_ram": f"{gib}GiB"}
    return hints if accelerator is None else {**hints, "accelerator": accelerator}


def bound(pipeline: beam.Pipeline, bundles: int) -> None:
    """Have a worker take so many bundles of the passes at a time, where a runner goes by that.

    More would only wait at the gate, each with a thread and its side inputs. Beam adds the numbers of
    steps that contain each other, so it is said of the innermost ones alone, and of all of them: steps
    that ask for different things are not fused.
    """
    hints = parse_resource_hints({"max_active_bundles_per_worker": str(bundles)})

    class Bound(PipelineVisitor):
        def visit_transform(self, step: Any) -> None:
            if step.full_label.startswith("Pass "):
                step.resource_hints = {**step.resource_hints, **hints}

    pipeline.visit(Bound())
