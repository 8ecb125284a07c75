"""Plan and run a recipe's registration in a fresh process; print predicted and measured bytes as JSON."""

import json
import sys

from beam_volumes.plan.cost.machine import peak_memory, resident_memory
from beam_volumes.recipes.recipe import read_recipe
from beam_volumes.recipes.registration import planned_registrations, register_inputs


def main(warm, path, memory):
    list(register_inputs(read_recipe(warm)))  # imports and compiles everything
    base = resident_memory()
    recipe = read_recipe(path)
    (planned,) = planned_registrations(recipe, int(memory))
    list(register_inputs(recipe, memory=int(memory)))
    print(
        json.dumps(
            {"predicted": planned.predicted_memory - planned.base, "measured": peak_memory() - base}
        )
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
