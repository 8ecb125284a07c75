"""The launcher of the Flex Template: its parameters, as arguments of ``beam-volumes run``.

Dataflow starts this with ``--NAME=VALUE`` for each of the template's parameters and for its own
options (``--project``, ``--template_location``, ...). Where a parameter holds several values, ``|``
is between them.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from beam_volumes.cli.main import main

#: Parameters that are options of ``beam-volumes run``.
VALUES = ("memory", "workers", "threads", "slab", "crop", "accelerator", "max_retries")
FLAGS = ("resume", "overwrite")


def arguments(given: Sequence[str]) -> list[str]:
    """The arguments of ``beam-volumes`` for the launcher's.

    Examples
    --------
    >>> arguments(["--recipe=gs://b/r.yaml", "--inputs=em=gs://b/em.zarr", "--resume=true", "--project=p"])
    ['run', 'gs://b/r.yaml', '--set=inputs.em=gs://b/em.zarr', '--resume', '--runner=DataflowRunner', ...]
    >>> arguments(["--recipe=r.yaml", "--outputs=0=gs://b/a.zarr|1=gs://b/b.csv", "--labels=team=em|run=7"])
    [..., '--set=outputs.0.path=gs://b/a.zarr', '--set=outputs.1.path=gs://b/b.csv', '--labels=team=em', ...]
    """
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--recipe", required=True)
    parser.add_argument("--runner", default="DataflowRunner")
    parser.add_argument("--sdk_container_image", default=os.environ.get("BEAM_VOLUMES_IMAGE"))
    for name in ("inputs", "outputs", "set", "labels", *VALUES, *FLAGS):
        parser.add_argument(f"--{name}", default="")
    args, others = parser.parse_known_args(given)
    ours = ["run", args.recipe]
    ours += [f"--set={_place('input', item)}" for item in _several(args.inputs)]
    ours += [f"--set={_place('output', item)}" for item in _several(args.outputs)]
    ours += [f"--set={item}" for item in _several(args.set)]
    chosen = {name.replace("_", "-"): getattr(args, name) for name in VALUES}
    ours += [f"--{name}={value}" for name, value in chosen.items() if value]
    ours += [f"--{name}" for name in FLAGS if getattr(args, name).lower() == "true"]
    ours += [f"--labels={item}" for item in _several(args.labels)]
    if args.sdk_container_image:
        ours.append(f"--sdk_container_image={args.sdk_container_image}")
    return [*ours, f"--runner={args.runner}", *others]


def _several(text: str) -> list[str]:
    return [item for item in text.split("|") if item]


def _place(kind: str, item: str) -> str:
    """``NAME=URL`` or ``URL`` as ``--set`` has it."""
    name, equals, url = item.partition("=")
    if not equals or "/" in name:
        return f"{kind}={item}"
    return f"inputs.{name}={url}" if kind == "input" else f"outputs.{name}.path={url}"


if __name__ == "__main__":
    sys.exit(main(arguments(sys.argv[1:])))
