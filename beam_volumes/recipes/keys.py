"""The keys of recipes, their inputs and outputs: checks, ``--set`` and the JSON schema know these."""

from __future__ import annotations

import inspect

from beam_volumes.graph.opening import open as open_volume
from beam_volumes.plan.run_options import RECIPE_OPTIONS
from beam_volumes.storage.formats import registry

TOP = (
    "description",
    "variables",
    "input",
    "inputs",
    "steps",
    "output",
    "outputs",
    *RECIPE_OPTIONS,
)
#: Next to an input's path.
OPEN_OPTIONS = (
    *(name for name in inspect.signature(open_volume).parameters if name != "options"),
    *registry.open_options(),
)
OUTPUT_KEYS = ("step", "dtype", "path", "format", *registry.options())
