"""The functions that can be added to a recipe, and the parameters of a step as fields of a form."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from beam_volumes.base.hints import INSTEAD
from beam_volumes.graph.protocols import nothing_computed
from beam_volumes.graph.table import Table
from beam_volumes.graph.volume import Volume
from beam_volumes.recipes.build import expressions
from beam_volumes.recipes.catalogue import Operation, Parameter, operations
from beam_volumes.recipes.document import placed, plain_scalar
from beam_volumes.recipes.recipe import checked_recipe
from beam_volumes.storage.sources.axes import UNITS

#: Words that people use, and the functions that they mean.
WORDS = {
    "blur smooth": ("gaussian_filter", "uniform_filter", "median_filter"),
    "despeckle denoise salt noise": ("median_filter", "remove_small_objects", "denoise_bilateral"),
    "background shading illumination": (
        "white_tophat",
        "gaussian_filter",
        "rolling_ball",
        "n4_bias_field_correction",
    ),
    "threshold segment binarize mask": ("greater", "threshold_otsu", "threshold_local"),
    "count objects cells": ("label", "num_labels", "regionprops_table"),
    "holes fill": ("binary_fill_holes", "remove_small_holes"),
    "split touching": ("watershed", "distance_transform_edt"),
    "table measure size volume": ("regionprops_table",),
    "edges gradient": ("gaussian_gradient_magnitude", "sobel", "canny"),
    "rescale shrink resize resample": (
        "resize",
        "rescale",
        "resample",
        "downsample",
        "rescale_intensity",
    ),
}
#: Values that a new step begins with, for parameters that need one.
STARTS: dict[str, Any] = {
    "sigma": 1,
    "low_sigma": 1,
    "size": 3,
    "factors": 2,
    "zoom": 0.5,
    "scale": 0.5,
    "q": 50,
    "percentile": 50,
    "axis": 0,
    "dtype": "float32",
    "box": ":",
    "c": 0,
    "rank": 0,
    "pad_width": 1,
    "weights": [1, 2, 1],
}
#: Returns the range of a volume's intensities.
Levels = Callable[[], tuple[float, float]]

#: The operations that may have a threshold as their second input.
COMPARISONS = ("greater", "greater_equal", "less", "less_equal")
_LEVELS = ("low", "high", "threshold", "min", "max", "h", "level")
#: Parameters that take ``{ball: radius}``.
_SHAPES = ("footprint", "structure")
_LENGTH = re.compile(r"([-+]?[\d.]+(?:[eE][-+]?\d+)?)\s*([A-Za-zµμ]\S*)")


@dataclass(frozen=True)
class Offer:
    """A function of the palette."""

    name: str
    summary: str
    #: Why it cannot be applied to the selected step; empty if it can.
    reason: str = ""


@dataclass(frozen=True)
class Field:
    """A parameter or an input of a step, as an element of a form."""

    #: The name of the parameter, ``input``, or ``inputs.1`` for the second input.
    key: str
    #: ``number``, ``choice``, ``flag``, ``volume`` or ``text``.
    kind: str
    value: Any
    default: Any = None
    choices: tuple[Any, ...] = ()
    #: The range of a slider and the unit of its numbers; empty for voxels or intensities.
    low: float = 0.0
    high: float = 1.0
    step: float = 1.0
    unit: str = ""
    #: The key of a mapping that holds the number, such as ``ball``.
    key_of_number: str = ""
    #: Whether it may have a unit.
    is_length: bool = False
    #: The help text.
    text: str = ""

    @property
    def label(self) -> str:
        """The name for users, who count inputs from 1."""
        base, dot, number = self.key.partition(".")
        return f"input {int(number) + 1}" if dot else base


def search(words: str, item: Any, max_offers: int = 12) -> list[Offer]:
    """Return functions by name, description or everyday words; the best first.

    Functions that cannot be applied to the ``item``, a volume, number or table, come last, with the reason.

    >>> import beam_volumes as bv
    >>> [o.name for o in search("despeckle", bv.open(np.zeros((4, 5, 6))))][0]
    'median_filter'
    """
    asked = words.lower().split()
    scores = {name: _score(operation, asked) for name, operation in operations().items()}
    ranked = sorted((n for n, s in scores.items() if s), key=lambda n: (-scores[n], len(n), n))
    offers = [
        Offer(n, operations()[n].summary, why_not(operations()[n], item))
        for n in ranked[:max_offers]
    ]
    return sorted(offers, key=lambda offer: bool(offer.reason))


def _score(operation: Operation, asked: Sequence[str]) -> int:
    """Return how well an operation fits words; 0 if one of them does not fit."""
    total = 1 if not asked else 0
    for word in asked:
        meant = next(
            (f for w, f in WORDS.items() if any(x.startswith(word) for x in w.split())), ()
        )
        hint = INSTEAD.get(word, "")
        score = 0
        if operation.name == word:
            score = 100
        elif operation.name in meant:
            score = 90 - meant.index(operation.name)
        elif word in operation.name.split("_") or operation.name.startswith(word):
            score = 60
        elif word in operation.name or f"bv.{operation.name}" in hint:
            score = 30
        elif word in operation.summary.lower():
            score = 10
        if not score:
            return 0
        total += score
    return total


def why_not(operation: Operation, item: Any, name: str = "input") -> str:
    """Return why an operation cannot be applied to an item, or the first of several; empty if it can."""
    if isinstance(item, tuple) and not operation.is_of_many:
        item = item[0]
    if operation.is_of_tables != isinstance(item, Table):
        return "accepts a table" if operation.is_of_tables else "accepts a volume, not a table"
    if not isinstance(item, Volume | Table | tuple):
        return "accepts a volume, not a number"
    given = start(operation, name, 0.5, item if isinstance(item, Volume) else None)
    if "" in given.values():  # only the user knows it
        return ""
    step = {"op": operation.name, **given}
    document = {"input": "x", "steps": {"new": step}, "outputs": [{"step": "new"}]}
    try:
        with nothing_computed():
            known: Any = {"input": item}
            expressions(checked_recipe(placed(document, "x")), given=known)
    except (ValueError, TypeError, OSError) as error:
        text = re.sub(r"^x\S*: |; in \w+\(.*$", "", str(error).split("\n")[0])
        text = re.sub(r"<Volume [^>]*>", "it", text)
        return text.removeprefix(f"{operation.name}: ").removeprefix(f"{operation.name} ")
    return ""


def unit_of(volume: Volume | None) -> str:
    """Return the symbol of a volume's unit of length; empty if its voxel size is unknown."""
    if volume is None or not volume.voxel_size or not volume.unit:
        return ""
    return UNITS.get(volume.unit, (volume.unit,))[0]


def start(
    operation: Operation,
    previous: str,
    level: float,
    volume: Volume | None = None,
    number: str = "",
) -> dict[str, Any]:
    """Return parameters and inputs that a new step begins with; lengths have the unit of the volume.

    ``level`` is a number among the intensities, for thresholds; ``number`` is a step to use in its place.

    >>> start(operations()["gaussian_filter"], "em", 0), start(operations()["greater"], "em", 128)
    ({'sigma': 1}, {'inputs': ['em', 128]})
    """
    if not operation.parameters:
        many = len(operation.positional)
        return {"inputs": [previous, *[number or level] * (many - 1)]} if many > 1 else {}
    found: dict[str, Any] = {}
    for name, p in operation.parameters.items():
        if name == operation.positional[0]:
            continue
        needs_size = name == "size" and "footprint" in operation.parameters
        if p.is_required or needs_size:
            is_lazy = number and p.name in _LEVELS and p.annotation == "Any"
            found[name] = {"step": number} if is_lazy else _start(p, previous, level)
            if _is_length(p) and (unit := unit_of(volume)):
                assert volume is not None and volume.voxel_size
                length = found[name] * max(map(abs, volume.voxel_size))
                found[name] = f"{length:.6g} {unit}"
    return found


def _is_length(p: Parameter) -> bool:
    return (
        p.is_number
        and {"float", "str"} <= set(re.findall(r"\w+", p.annotation))
        and "_" not in p.kind
    )


def _start(p: Parameter, previous: str, level: float) -> Any:
    if p.volume == "volume" or (p.name in ("x", "y") and p.annotation == "Any"):
        return previous
    if p.name in _LEVELS:
        return level
    if p.name in STARTS:
        return STARTS[p.name]
    return _choices(p)[0] if _choices(p) else 1 if p.is_number else ""


def _choices(p: Parameter) -> tuple[Any, ...]:
    if p.kind.rstrip().endswith("}"):
        return tuple(plain_scalar(c) for c in p.choices)
    # Modes: the text of the parameter explains them.
    words = dict.fromkeys(re.findall(r'``"([\w-]+)"``', p.text))
    return tuple(words) if isinstance(p.default, str) and p.default in words else ()


def fields(
    op: str,
    given: Mapping[str, Any],
    names: Sequence[str],
    levels: Levels,
    volume: Volume | None = None,
) -> list[Field]:
    """Return the fields of a step with the parameters and inputs ``given`` in the recipe.

    ``names`` are volumes that it may use, ``levels`` returns the intensities of its input ``volume``.
    """
    operation = operations().get(op)
    if operation is None:
        return []
    inputs = given.get("inputs")
    many = len(inputs) if isinstance(inputs, list) else 1
    found = [
        Field("input", "volume", given.get("input"), choices=(None, *names), text="The input.")
    ]
    if isinstance(inputs, list):
        found = [_input_field(f"inputs.{k}", v, op, names, levels) for k, v in enumerate(inputs)]
    for name, p in operation.parameters.items():
        if name not in operation.filled(many):
            found.append(_field(p, given.get(name), names, levels, volume))
    return found


def _input_field(key: str, value: Any, op: str, names: Sequence[str], levels: Levels) -> Field:
    if isinstance(value, str):
        return Field(key, "volume", value, choices=tuple(names), text="An input, or a number.")
    low, high = levels() if op in COMPARISONS else (min(0.0, value), max(10.0, 4 * value))
    return Field(
        key, "number", value, low=low, high=high, step=(high - low) / 256, text="A number."
    )


def _field(
    p: Parameter,
    value: Any,
    names: Sequence[str],
    levels: Levels,
    volume: Volume | None,
) -> Field:
    default = None if p.is_required else p.default
    shown = default if value is None else value
    if p.volume:
        return Field(p.name, "volume", value, choices=(None, *names), text=p.text)
    choices = volume.channels if p.name == "c" and volume is not None else _choices(p)
    if choices and not isinstance(shown, list):
        return Field(p.name, "choice", shown, default, tuple(choices), text=p.text)
    if p.is_flag:
        return Field(p.name, "flag", bool(shown), default, text=p.text)
    if p.name in _SHAPES and "bool" in p.kind:
        shape, radius = next(iter(value.items())) if isinstance(value, dict) else ("ball", 0)
        if isinstance(radius, int | float):
            high = max(10.0, 2 * radius)
            return Field(p.name, "number", value, None, (), 0, high, 1, "", shape, False, p.text)
    length = _LENGTH.fullmatch(shown) if isinstance(shown, str) else None
    if length or (p.is_number and isinstance(shown, int | float)):
        number, unit = (float(length[1]), length[2]) if length else (float(str(shown)), "")
        low, high, step = _range(p, number, unit, levels, volume)
        return Field(
            p.name, "number", shown, default, (), low, high, step, unit, "", _is_length(p), p.text
        )
    return Field(p.name, "text", value, default, text=p.text)


def _range(
    p: Parameter, number: float, unit: str, levels: Levels, volume: Volume | None
) -> tuple[float, float, float]:
    is_whole = "float" not in p.annotation
    if p.name in _LEVELS and not is_whole:
        low, high = levels()
        return low, high, (high - low) / 256
    if unit:
        high = 4 * number
        same = () if volume is None else (volume.unit, *UNITS.get(volume.unit or "", ()))
        if volume is not None and volume.voxel_size and unit in same:
            high = 10 * max(map(abs, volume.voxel_size))
        return 0.0, max(high, 2 * number), high / 200
    if "sigma" in p.name:
        return 0.0, max(10.0, 2 * number), 0.1
    if "size" in p.name or "radius" in p.name:
        return 1.0, max(31.0, 2 * number), 1.0
    high = max(10.0 if is_whole else 1.0, 4 * number)
    return min(0.0, number), high, 1.0 if is_whole else high / 200
