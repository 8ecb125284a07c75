"""A recipe as a program in Python."""

from __future__ import annotations

import keyword
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from beam_volumes.recipes.catalogue import footprints, is_of_tiles, ranges_of
from beam_volumes.recipes.document import Entry
from beam_volumes.recipes.recipe import Recipe, RecipeStep, split_name

#: Operations that are methods of volumes in Python.
_METHODS = ("astype", "sel", "with_space")
#: Names that the program uses for other things.
_TAKEN = ("bv", "np", "csv", "float", "input")


def as_python(recipe: Recipe) -> str:
    r"""Return a program that computes and writes what a recipe does.

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
    names = _variables([*recipe.inputs, *recipe.order])
    lines = ["import numpy as np", "import beam_volumes as bv", ""]
    lines[2:2] = ["from pyarrow import csv"] if recipe.registrations else []
    for item in recipe.inputs.values():
        call = f"({_arguments([_literal(item.what)], item.options)})"
        opened = f"bv.open_tiles{call}[0]" if is_of_tiles(item.what) else f"bv.open{call}"
        lines.append(f"{names[item.name]} = {opened}")
    for r in recipe.registrations:
        item, first, part = recipe.inputs[r.input], names[r.input], ""
        if r.operation.is_of_many:
            given = _arguments([_literal(item.what)], item.options)
            first, part = f"*bv.open_tiles({given})", "[0]"
        volumes = [n for n, v in r.parameters.items() if r.operation.volume(n) and v is not None]
        others = {n: v for n, v in r.parameters.items() if n not in volumes}
        masks = "".join(f", {n}={names[r.parameters[n]]}" for n in volumes)
        call = f"bv.{r.operation.name}({_arguments([first], others)}{masks}){part}"
        lines.append(f"csv.write_csv({call}.to_pyarrow(), {_literal(r.files['table'])})")
    lines += [f"{names[n]} = {_call(recipe.steps[n], names)}" for n in recipe.order]
    targets = []
    for o in recipe.outputs:
        step = _name(o.step, names)
        given = _arguments([_literal(o.path)], o.options)
        targets.append(step if o.path is None else f"{step}.to({given})")
    lines.append(f"bv.compute({_arguments(targets, recipe.options)})")
    return "\n".join([*lines, ""])


def _variables(names: Iterable[str]) -> dict[str, str]:
    """Return a variable for each input and step.

    >>> _variables(["a-b", "a_b", "for", "np", "input"])
    {'a-b': 'a_b', 'a_b': 'a_b_', 'for': 'for_', 'np': 'np_', 'input': 'input_'}
    """
    found: dict[str, str] = {}
    for name in names:
        variable = re.sub(r"[^A-Za-z0-9_]", "_", name)
        while keyword.iskeyword(variable) or variable in (*_TAKEN, *found.values()):
            variable += "_"
        found[name] = variable
    return found


def _name(text: str, names: Mapping[str, str]) -> str:
    """Return the variable of an input or a step, or an item of one."""
    name, number = split_name(text)
    return names[name] if number is None else f"{names[name]}[{number:d}]"


def _literal(value: Any) -> str:
    """Return plain data of a recipe as Python; ValueError for everything else.

    >>> print(_literal({"a": [1, "x", True, None]}), _literal(float("inf")))
    {'a': [1, 'x', True, None]} float('inf')
    """
    if isinstance(value, dict):
        pairs = (f"{_literal(str(k))}: {_literal(v)}" for k, v in value.items())
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_literal, value))}]"
    if isinstance(value, float) and not math.isfinite(value):
        return f"float({str(value)!r})"
    if value is None or type(value) in (bool, int, float, str):
        return repr(value)
    raise ValueError(f"{value!r} cannot be written as a program")


def _arguments(positional: Iterable[str], named: Mapping[str, Any]) -> str:
    """Return arguments: Python for the positional ones, and plain data by keyword."""
    return ", ".join([*positional, *(_keyword(k, _literal(v)) for k, v in named.items())])


def _keyword(name: str, written: str) -> str:
    is_name = name.isidentifier() and not keyword.iskeyword(name)
    return f"{name}={written}" if is_name else f"**{{{name!r}: {written}}}"


def _range(part: slice) -> str:
    return ":".join("" if n is None else str(n) for n in (part.start, part.stop))


def _call(step: RecipeStep, names: Mapping[str, str]) -> str:
    op = step.operation
    inputs = [
        _name(e.value, names) if isinstance(e.value, str) else _literal(e.plain())
        for e in step.inputs
    ]
    first = inputs[0]
    axes = step.parameters["axes"].plain() if "axes" in step.parameters else None
    ndim = f"{first}.ndim" if axes is None else str(len(axes) if isinstance(axes, list) else 1)
    if op.name == "crop":
        box = step.parameters["box"].plain()
        try:
            return f"{first}[{', '.join(map(_range, ranges_of(box)))}]"
        except ValueError:  # the recipe has this error, too
            return f"{first}[{_literal(box)}]"
    if op.name == "num_labels":
        return f"{first}.num_labels"
    named = [
        _keyword(name, _value(entry, bool(op.volume(name)), ndim, names))
        for name, entry in step.parameters.items()
    ]
    if op.name in _METHODS:
        return f"{first}.{op.name}({', '.join([*inputs[1:], *named])})"
    if op.is_of_many and len(inputs) > 1:
        inputs = [f"[{', '.join(inputs)}]"]
    home = "bv" if op.parameters else "np"
    return f"{home}.{op.name}({', '.join([*inputs, *named])})"


def _value(entry: Entry, is_volume: bool, ndim: str, names: Mapping[str, str]) -> str:
    value = entry.value
    if isinstance(value, str) and is_volume and split_name(value)[0] in names:
        return _name(value, names)
    if isinstance(value, list):
        return f"[{', '.join(_value(e, False, ndim, names) for e in value)}]"
    if not isinstance(value, dict) or len(value) != 1:
        return _literal(entry.plain())
    ((key, inner),) = value.items()
    if key == "step":
        return _name(inner.value, names)
    if key not in footprints():
        return _literal(entry.plain())
    size = inner.plain()
    if isinstance(size, dict) and "ndim" in size:
        return f"bv.{key}({_arguments([], size)})"
    given = _arguments([], size) if isinstance(size, dict) else _literal(size)
    return f"bv.{key}({given}, ndim={ndim})"
