"""Steps of a recipe without inputs and outputs of their own: a function of a volume."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from beam_volumes.graph.volume import Volume
from beam_volumes.recipes.build import expressions
from beam_volumes.recipes.document import load, placed
from beam_volumes.recipes.recipe import Recipe, checked_recipe


class Steps:
    """What steps of a recipe make of a volume, which is their ``input``."""

    def __init__(self, steps: Mapping[str, Any]):
        self.steps = dict(steps)
        self.__name__ = self.last = list(self.steps)[-1]
        # A mistake is told where the pipeline is built.
        self.recipe()

    def recipe(self) -> Recipe:
        """The recipe, whose input is not opened."""
        document = {"input": "slabs", "steps": self.steps, "outputs": [{"step": self.last}]}
        return checked_recipe(placed(document, "config"))

    def __call__(self, volume: Volume) -> Volume:
        found: Volume = expressions(self.recipe(), given={"input": volume})[self.last]
        return found


def mapping_of(given: str | Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A mapping of a configuration, which may be a text."""
    found = load(given, f"config.{name}").plain() if isinstance(given, str) else given
    if not isinstance(found, Mapping) or not found:
        raise ValueError(f"config.{name}: {given!r}; give a mapping")
    return found


def steps_of(steps: str | Mapping[str, Any]) -> Mapping[str, Any]:
    """The steps of a configuration, which may be a text."""
    found = load(steps, "config.steps").plain() if isinstance(steps, str) else steps
    if not isinstance(found, Mapping) or not found:
        raise ValueError(f"config.steps: {steps!r}; give a mapping of names to operations")
    return found
