"""The verbs of the command: what each is for, and the module that carries it out.

Modules are imported when their verb is asked for, so that the command answers at once.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Verb:
    """What is known of a verb before its module is imported."""

    summary: str
    module: str = ""


VERBS = {
    "info": Verb("describe a volume, a group of volumes, a run, or this machine"),
    "preview": Verb("write a picture of three sections of a volume"),
    "convert": Verb("write a volume in another format, in other chunks, or as another dtype"),
    "downsample": Verb("add coarser levels to a volume that is stored in one size"),
    "chain": Verb("apply operations one after the other, without a recipe"),
    "run": Verb("carry out a recipe, for one volume or for each of many"),
    "resume": Verb("continue a run that was stopped"),
    "verify": Verb("check that a run is complete and its outputs can be read"),
    "report": Verb("write a page about a run, a volume or a table"),
    "view": Verb("show volumes and tables in Neuroglancer, from this machine"),
    "check": Verb("check a recipe: its words, its inputs, and what each step gives"),
    "ops": Verb("list the operations, or say what one of them takes"),
    "schema": Verb("print the JSON schema of recipes, for editors"),
    "completion": Verb("print what makes a shell complete this command's words"),
    "label": Verb("number the connected components of a mask"),
    "stats": Verb("measure every region of a label volume"),
    "probe": Verb("find out how far a network sees, for the op predict"),
    "demo": Verb("make a stack, run a recipe on it, and show the result"),
    "estimate": Verb("estimate what a recipe would take on machines of a kind"),
    "bench": Verb("time a recipe on a crop and say what to change"),
    "worker-pool": Verb("start workers for Flink and other runners that ask for them", "pool"),
    "expansion-service": Verb(
        "serve the transforms to pipelines in Java, Go and Beam YAML", "expansion"
    ),
    "warm-up": Verb("compile kernels before workers need them"),
}


def module_of(name: str) -> str:
    """The full name of a verb's module.

    Examples
    --------
    >>> module_of("warm-up")
    'beam_volumes.cli.warm_up'
    """
    return f"beam_volumes.cli.{VERBS[name].module or name.replace('-', '_')}"
