"""A recipe as a program in Python."""

from __future__ import annotations

import keyword
from typing import Any

from beam_volumes.recipes.catalogue import is_of_tiles
from beam_volumes.recipes.document import Entry
from beam_volumes.recipes.recipe import Recipe, RecipeStep, split_name

#: Operations that are methods of volumes in Python.
_METHODS = ("astype", "sel", "with_space")


def as_python(recipe: Recipe) -> str:
    r"""Return a program that computes and writes what a recipe does.

    Examples
    --------
    >>> from beam_volumes.recipes.recipe import parse_recipe
    >>> steps = "{smooth: {op: gaussian_filter, sigma: 2}, mask: {op: greater, inputs: [smooth, 9]}}"
    >>> print(as_python(parse_recipe(f"input: em.zarr\nsteps: {steps}\noutput: mask.zarr")))
    import numpy as np
    import beam_volumes as bv
    <BLANKLINE>
    input_ = bv.open('em.zarr')
    smooth = bv.gaussian_filter(input_, sigma=2)
    mask = np.greater(smooth, 9)
    bv.compute(mask.to('mask.zarr'))
    <BLANKLINE>
    """
    lines = ["import numpy as np", "import beam_volumes as bv", ""]
    lines[2:2] = ["from pyarrow import csv"] if recipe.registrations else []
    for item in recipe.inputs.values():
        call = f"({_arguments([repr(item.what)], item.options)})"
        opened = f"bv.open_tiles{call}[0]" if is_of_tiles(item.what) else f"bv.open{call}"
        lines.append(f"{_name(item.name)} = {opened}")
    for r in recipe.registrations:
        item, first, part = recipe.inputs[r.input], _name(r.input), ""
        if r.operation.is_of_many:
            first, part = f"*bv.open_tiles({_arguments([repr(item.what)], item.options)})", "[0]"
        call = f"bv.{r.operation.name}({_arguments([first], r.parameters)}){part}"
        lines.append(f"csv.write_csv({call}.to_pyarrow(), {r.files['table']!r})")
    lines += [f"{_name(n)} = {_call(recipe.steps[n])}" for n in recipe.order]
    targets = []
    for o in recipe.outputs:
        given = _arguments([repr(o.path)], o.options)
        targets.append(_name(o.step) if o.path is None else f"{_name(o.step)}.to({given})")
    lines.append(f"bv.compute({_arguments(targets, recipe.options)})")
    return "\n".join([*lines, ""])


def _name(text: str) -> str:
    """Return a variable for an input or a step, or an item of one."""
    name, number = split_name(text)
    found = name.replace("-", "_")
    if keyword.iskeyword(found) or found in ("bv", "np", "input"):
        found += "_"
    return found if number is None else f"{found}[{number}]"


def _arguments(positional: list[str], named: Any) -> str:
    return ", ".join([*positional, *(f"{k}={v!r}" for k, v in named.items())])


def _call(step: RecipeStep) -> str:
    op = step.operation
    inputs = [_name(e.value) if isinstance(e.value, str) else repr(e.value) for e in step.inputs]
    first = inputs[0]
    axes = step.parameters["axes"].plain() if "axes" in step.parameters else None
    ndim = f"{first}.ndim" if axes is None else str(len(axes) if isinstance(axes, list) else 1)
    if op.name == "crop":
        ranges = [part.strip() or ":" for part in str(step.parameters["box"].plain()).split(",")]
        return f"{first}[{', '.join(ranges)}]"
    if op.name == "num_labels":
        return f"{first}.num_labels"
    named = [
        f"{name}={_value(entry, bool(op.volume(name)), ndim)}"
        for name, entry in step.parameters.items()
    ]
    if op.name in _METHODS:
        return f"{first}.{op.name}({', '.join([*inputs[1:], *named])})"
    if op.is_of_many and len(inputs) > 1:
        inputs = [f"[{', '.join(inputs)}]"]
    home = "bv" if op.parameters else "np"
    return f"{home}.{op.name}({', '.join([*inputs, *named])})"


def _value(entry: Entry, is_volume: bool, ndim: str) -> str:
    value = entry.value
    if isinstance(value, str) and is_volume:
        return _name(value)
    if isinstance(value, list):
        return f"[{', '.join(_value(e, False, ndim) for e in value)}]"
    if not isinstance(value, dict):
        return repr(value)
    (key, inner), *_ = value.items()
    if key == "step":
        return _name(inner.value)
    size = inner.plain()
    given = _arguments([], size) if isinstance(size, dict) else repr(size)
    return f"bv.{key}({given}, ndim={ndim})"
