"""The keys of recipes, and the operations, derived from signatures and docstrings.

There is no list to maintain. Every function exported by `beam_volumes` is an operation if its first parameter
is a volume or a table and it requires no function; so is every ufunc that volumes support. Recipes, the JSON
schema, the command line and its help all take the parameters of operations from here.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np

import beam_volumes as bv
from beam_volumes.base.public_names import EXPORTS
from beam_volumes.graph.arithmetic import apply_ufunc
from beam_volumes.graph.elementwise import SUPPORTED
from beam_volumes.graph.kinds import split
from beam_volumes.graph.opening import open as open_volume
from beam_volumes.graph.scalar import Scalar
from beam_volumes.graph.volume import Volume, as_volume
from beam_volumes.plan.run_options import RECIPE_OPTIONS
from beam_volumes.storage.formats import registry

#: The keys of a recipe. Checks, ``--set`` and the JSON schema share these constants.
TOP = (
    "description",
    "variables",
    "input",
    "inputs",
    "register",
    "steps",
    "output",
    "outputs",
    *RECIPE_OPTIONS,
)
#: The keys of an input, except its path.
OPEN_OPTIONS = (
    *(name for name in inspect.signature(open_volume).parameters if name != "options"),
    *registry.open_options(),
)
OUTPUT_KEYS = ("step", "dtype", "path", "format", *registry.options())

_PARAMETER = re.compile(r"^(\w+(?:, \w+)*) : (.+)$")
#: The default in the type of an entry; the signature has it, too.
_DEFAULT = re.compile(r",? (?:optional|default: .*)$")
#: One range of a box.
_RANGE = re.compile(r"\s*(-?\d+)?\s*:\s*(-?\d+)?\s*|\s*")
_CHOICES = re.compile(r"^\{([^}]*)\}")
#: The module of the functions that make structuring elements.
_FOOTPRINTS = "beam_volumes.ops.morphology.footprints"
#: `Operation.gives` by the annotation of a lazy result; functions with "Any" also accept numbers.
_GIVES = {"Volume": "volume", "Any": "volume", "Scalar": "number", "Table": "table"}
#: Titles of families of operations, by folder in `ops`.
FAMILIES = {
    "filters": "filters",
    "fourier": "deconvolution and Fourier transforms",
    "morphology": "morphology and distances",
    "extrema": "extrema, peaks and reconstruction",
    "intensity": "intensity",
    "labels": "labels and tables",
    "measure": "numbers of a volume",
    "geometry": "grids and channels",
    "interpolation": "interpolation",
    "arithmetic": "voxel by voxel",
}

#: What the ufuncs do; numpy's texts speak of elements, x1 and x2.
_UFUNCS = {
    "absolute": "Take the absolute value.",
    "add": "Add two inputs.",
    "arctan2": "Take the angle with the sine in input 1 and the cosine in input 2, in radians.",
    "bitwise_and": "Set the bits that are set in both inputs; for masks, the voxels in both.",
    "bitwise_or": "Set the bits that are set in an input; for masks, the voxels in at least one.",
    "bitwise_xor": "Set the bits that differ; for masks, the voxels in exactly one.",
    "ceil": "Round up to whole numbers.",
    "divide": "Divide input 1 by input 2.",
    "equal": "Mark the voxels where both inputs are equal.",
    "fabs": "Take the absolute value as a float.",
    "floor": "Round down to whole numbers.",
    "floor_divide": "Divide input 1 by input 2, and round down.",
    "fmax": "Take the larger of two inputs, ignoring NaN.",
    "fmin": "Take the smaller of two inputs, ignoring NaN.",
    "greater": "Mark the voxels where input 1 is greater than input 2.",
    "greater_equal": "Mark the voxels where input 1 is greater than or equal to input 2.",
    "invert": "Invert a mask, or all bits of integers.",
    "isfinite": "Mark the voxels that are neither infinite nor NaN.",
    "isinf": "Mark the voxels that are infinite.",
    "isnan": "Mark the voxels that are NaN.",
    "left_shift": "Shift the bits of input 1 to the left by input 2.",
    "less": "Mark the voxels where input 1 is less than input 2.",
    "less_equal": "Mark the voxels where input 1 is less than or equal to input 2.",
    "logical_and": "Mark the voxels that are not zero in both inputs.",
    "logical_not": "Mark the voxels that are zero.",
    "logical_or": "Mark the voxels that are not zero in at least one input.",
    "logical_xor": "Mark the voxels that are not zero in exactly one input.",
    "maximum": "Take the larger of two inputs.",
    "minimum": "Take the smaller of two inputs.",
    "multiply": "Multiply two inputs.",
    "negative": "Change the sign.",
    "not_equal": "Mark the voxels where both inputs differ.",
    "positive": "Return the input as it is.",
    "power": "Raise input 1 to the power of input 2.",
    "remainder": "Take the remainder of a division of input 1 by input 2.",
    "right_shift": "Shift the bits of input 1 to the right by input 2.",
    "rint": "Round to whole numbers, halves to even ones.",
    "sign": "Take the sign: -1, 0 or 1.",
    "signbit": "Mark the voxels with a negative sign, including -0.0.",
    "square": "Take the square.",
    "subtract": "Subtract input 2 from input 1.",
    "trunc": "Round to whole numbers, towards zero.",
}


@dataclass(frozen=True)
class Parameter:
    """A parameter of an operation."""

    name: str
    #: The annotation of the function.
    annotation: str
    #: Allowed values, for users.
    kind: str
    #: The default; ``inspect.Parameter.empty`` if the parameter is required.
    default: object = inspect.Parameter.empty
    #: The description.
    text: str = ""

    @property
    def types(self) -> list[str]:
        """The alternatives of the annotation."""
        return split(self.annotation, "|")

    @property
    def volume(self) -> str:
        """Kind of steps it accepts: ``"volume"``, ``"volume or number"``, ``"volumes"``, or ``""``.

        Examples
        --------
        >>> Parameter("mask", "Volume | None", "").volume, Parameter("size", "int", "").volume
        ('volume', '')
        """
        if self.annotation == "Sequence[Volume]":
            return "volumes"
        if "Volume" not in self.types:
            return ""
        return "volume or number" if "Scalar" in self.types else "volume"

    @property
    def has_volumes(self) -> bool:
        """Whether it accepts several volumes or one, such as a mask for each tile.

        Examples
        --------
        >>> Parameter("mask", "Volume | Sequence[Volume | None] | None", "").has_volumes
        True
        """
        return bool(self.volume) and any(t.startswith("Sequence[Volume") for t in self.types)

    @property
    def is_table(self) -> bool:
        """Whether it accepts a table: the result of a step, or the path of files."""
        return "Table" in self.types

    @property
    def is_path(self) -> bool:
        """Whether a text is the path of files: its description declares this.

        Examples
        --------
        >>> Parameter("psf", "ArrayLike | str", "array_like of float, or path").is_path
        True
        """
        return "path" in re.findall(r"\w+", self.kind)

    @property
    def is_required(self) -> bool:
        return self.default is inspect.Parameter.empty

    @property
    def is_text(self) -> bool:
        """Whether only text is accepted."""
        return set(self.types) <= {"str", "None"}

    @property
    def is_number(self) -> bool:
        """Whether numbers are accepted, but no volumes.

        Examples
        --------
        >>> Parameter("sigma", "float | Sequence[float] | str", "").is_number
        True
        """
        return not self.volume and not {"int", "float"}.isdisjoint(self.types)

    @property
    def is_flag(self) -> bool:
        return self.annotation == "bool"

    @property
    def is_sequence(self) -> bool:
        """Whether a single value must be put into a list."""
        kinds = [t for t in self.types if t != "None"]
        return bool(kinds) and all(k.startswith(("Sequence", "Iterable", "tuple")) for k in kinds)

    def listed(self, value: Any) -> Any:
        """Return a value, as a list if only lists are accepted."""
        return [value] if self.is_sequence and not isinstance(value, list) else value

    @property
    def choices(self) -> tuple[str, ...]:
        """The allowed words, if the description begins with a list of them.

        Examples
        --------
        >>> Parameter("nan", "str", '{"raise", "omit"}').choices
        ('raise', 'omit')
        """
        found = _CHOICES.match(self.kind)
        return tuple(part.strip(" \"'") for part in found[1].split(",")) if found else ()


@dataclass(frozen=True)
class Operation:
    """An operation and its parameters."""

    name: str
    #: Accepts inputs by position and parameters by name.
    call: Callable[..., Any]
    #: Names of the positional inputs, in order.
    positional: tuple[str, ...]
    #: Names of required parameters.
    required: tuple[str, ...]
    #: By name, including inputs, in the order of the call; empty for arithmetic.
    parameters: dict[str, Parameter]
    summary: str
    #: One of `FAMILIES`.
    family: str = "arithmetic"
    #: ``"volume"``, ``"volumes"``, ``"number"`` or ``"table"``; "" if the result is not lazy.
    gives: str = "volume"

    @property
    def is_of_tables(self) -> bool:
        """Whether its first input is a table."""
        return bool(self.parameters) and self.parameters[self.positional[0]].is_table

    @property
    def is_of_many(self) -> bool:
        """Whether its inputs are the volumes of one parameter."""
        return self.volume(self.positional[0]) == "volumes"

    @property
    def keywords(self) -> dict[str, Parameter]:
        """The parameters that are not inputs."""
        return {n: p for n, p in self.parameters.items() if n not in self.positional}

    def volume(self, name: str) -> str:
        """Return `Parameter.volume`, or an empty string for inputs of arithmetic."""
        return self.parameters[name].volume if name in self.parameters else ""

    def gives_along(self, axis: Any) -> str:
        """Return `gives` for an ``axis``: reductions along t and c return a volume.

        Examples
        --------
        >>> operations()["max"].gives_along("t"), operations()["max"].gives_along(["t", "z"])
        ('volume', 'number')
        """
        names = axis if isinstance(axis, list) else [axis]
        is_reduction = self.gives == "number" and "axis" in self.parameters
        is_by_voxel = bool(names) and all(name in ("t", "c") for name in names)
        return "volume" if is_reduction and is_by_voxel else self.gives

    def filled(self, inputs: int) -> tuple[str, ...]:
        """Return the parameters that are set by a number of inputs."""
        return self.positional[: 1 if self.is_of_many else inputs]


def is_of_tiles(what: Any) -> bool:
    """Whether an input is tiles with positions: a project, or a table of paths."""
    return isinstance(what, str) and what.lower().endswith((".xml", ".csv"))


def crop(volume: Volume, box: str) -> Volume:
    """Crop a volume to a box.

    Parameters
    ----------
    volume : Volume
        The volume to crop.
    box : str
        A range per axis, with negative numbers as in Python. Empty ranges, and omitted axes at the
        end, keep the whole axis.

    Examples
    --------
    >>> crop(bv.open(np.zeros((8, 9, 10))), "2:4,,-3:").shape
    (2, 9, 3)
    """
    ranges, axes = ranges_of(box), ", ".join(volume.axes)
    if len(ranges) > volume.ndim:
        raise ValueError(f"the box {box!r} has {len(ranges)} ranges for the axes {axes}")
    kept = [range(n)[part] for part, n in zip(ranges, volume.shape, strict=False)]
    if not all(kept) and 0 not in volume.shape:
        shape = " x ".join(map(str, volume.shape))
        raise ValueError(f"the box {box!r} contains no voxel of a volume of {shape} ({axes})")
    return volume[tuple(ranges)]


def ranges_of(box: str) -> list[slice]:
    """Return the ranges of a box of `crop`.

    Examples
    --------
    >>> ranges_of("2:4,,-3:")
    [slice(2, 4, None), slice(None, None, None), slice(-3, None, None)]
    """
    matches = [_RANGE.fullmatch(part) for part in str(box).split(",")]
    if not all(matches):
        raise ValueError(f"the box {box!r} is not of the form z0:z1,y0:y1,x0:x1")
    return [slice(*(int(n) if n else None for n in m.groups())) for m in matches if m]


def astype(volume: Volume, dtype: str) -> Volume:
    """Cast as numpy does; floats outside the range of an integer saturate.

    Parameters
    ----------
    volume : Volume
        The volume to cast.
    dtype : str
        A dtype's name in numpy, e.g. ``uint8``.
    """
    return as_volume(volume).astype(dtype)


def with_space(
    volume: Volume,
    other: Volume | None = None,
    voxel_size: float | Sequence[float] | None = None,
    unit: str | None = None,
    origin: float | Sequence[float] | None = None,
) -> Volume:
    """Set the voxel size, unit and origin, from a second volume or from numbers.

    Parameters
    ----------
    volume : Volume
        The volume; its voxels do not change.
    other : Volume, optional
        A volume with the voxel size, unit and origin to use.
    voxel_size : float or sequence of float, optional
        Size of a voxel: one number for all axes or one per axis.
    unit : str, optional
        Unit of the voxel size, e.g. ``nm``.
    origin : float or sequence of float, optional
        Position of the first voxel, in the same unit.
    """
    return as_volume(volume).with_space(other, voxel_size=voxel_size, unit=unit, origin=origin)


def sel(volume: Volume, c: str | int | Sequence[str | int]) -> Volume:
    """Select channels by name or number.

    Parameters
    ----------
    volume : Volume
        A volume with channels.
    c : str, int or sequence of these
        One channel, or several in the order of the result.
    """
    return as_volume(volume).sel(c=c)


def num_labels(labels: Volume) -> Scalar:
    """Count the labels of a result of `label`.

    Parameters
    ----------
    labels : Volume
        A result of `label`.
    """
    try:
        return as_volume(labels).num_labels
    except AttributeError as error:
        raise ValueError(str(error)) from None


@cache
def operations() -> dict[str, Operation]:
    """Return all operations by name."""
    functions = [
        f for f in (*_public(), astype, crop, sel, with_space, num_labels) if _is_operation(f)
    ]
    named = {f.__name__: operation_of(f) for f in functions}
    return {**{name: _ufunc(name) for name in sorted(SUPPORTED - named.keys())}, **named}


@cache
def registrations() -> dict[str, Operation]:
    """Return the functions that find transforms for tables, by name."""
    functions = (bv.register_slices, bv.register_frames, bv.register_tiles)
    # A run and a command have their own option of progress.
    return {
        o.name: replace(o, parameters={n: p for n, p in o.parameters.items() if n != "progress"})
        for o in (operation_of(f) for f in functions)
    }


def registration_files(operation: Operation) -> tuple[str, ...]:
    """Return the names of files that a registration can write."""
    return ("table", "report", *(("pairs", "xml") if operation.is_of_many else ()))


@cache
def footprints() -> dict[str, Callable[..., np.ndarray]]:
    """Return the functions that make structuring elements, by name."""
    return {
        f.__name__: f
        for f in _public()
        if inspect.isfunction(f) and inspect.unwrap(f).__module__ == _FOOTPRINTS
    }


#: Functions that compute when they are called, although they return volumes.
_EAGER = {"estimate_flat_field"}


def _public() -> list[Any]:
    """Return the exported functions of `ops`."""
    return [getattr(bv, name) for name, module in EXPORTS.items() if module.startswith(".ops.")]


def _is_operation(function: Any) -> bool:
    """Whether a function is lazy, takes a volume or a table first, and requires no function."""
    if not inspect.isfunction(function) or function.__name__ in _EAGER:
        return False
    signature = inspect.signature(function)
    needed = [_text(p.annotation) for p in signature.parameters.values() if p.default is p.empty]
    first = next(iter(signature.parameters.values()), None)
    if not _gives(signature.return_annotation) or any(n.startswith("Callable") for n in needed):
        return False
    if first is None or first.kind is first.VAR_POSITIONAL:
        return False
    taken = Parameter(first.name, _text(first.annotation), "")
    return bool(taken.volume) or taken.is_table


def _text(annotation: Any) -> str:
    return getattr(annotation, "__name__", str(annotation))


def _ufunc(name: str) -> Operation:
    names = tuple(f"input {k + 1}" for k in range(getattr(np, name).nin))
    return Operation(name, partial(apply_ufunc, name), names, names, {}, _UFUNCS[name])


def operation_of(function: Callable[..., Any]) -> Operation:
    """Describe a function by its signature and docstring."""
    name, signature = function.__name__, inspect.signature(function)
    text = inspect.getdoc(function) or name
    entries = _entries(text)
    by_name = [
        p
        for p in signature.parameters.values()
        if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
    ]
    parameters = {}
    for p in by_name:
        kind, meaning = entries.get(p.name, ("", ""))
        annotation = _text(p.annotation)
        parameters[p.name] = Parameter(
            p.name, annotation, _kind(kind, annotation), p.default, meaning
        )
    return Operation(
        name,
        function,
        tuple(p.name for p in by_name if p.kind == p.POSITIONAL_OR_KEYWORD),
        tuple(p.name for p in by_name if p.default is p.empty),
        parameters,
        " ".join(text.partition("\n\n")[0].split()),
        _family(name),
        _gives(signature.return_annotation),
    )


def _kind(text: str, annotation: str) -> str:
    found = (
        _DEFAULT.sub("", text).replace(" or numpy.ndarray", "").replace("numpy.ndarray", "array")
    )
    return found.replace("Volume", "volume").replace("Scalar", "number") or annotation


def _gives(annotation: Any) -> str:
    """Return `Operation.gives` for the annotation of a result; "" if it is not lazy."""
    kind = split(_text(annotation), "|")[0]
    if kind.startswith("tuple["):
        first = split(kind[6:-1], ",")[0]
        return "volumes" if first == "Volume" else _GIVES.get(first, "")
    return _GIVES.get(kind, "")


def _family(name: str) -> str:
    """Return the folder of `ops` that has a function."""
    parts = EXPORTS.get(name, "").split(".")
    found = parts[2] if len(parts) > 2 and parts[1] == "ops" else ""
    other = {"crop": "geometry", "with_space": "geometry", "num_labels": "labels"}
    return found if found in FAMILIES else other.get(name, "arithmetic")


def _entries(text: str) -> dict[str, tuple[str, str]]:
    """Parse the parameters of a numpydoc docstring to kinds and descriptions."""
    found: dict[str, tuple[str, str]] = {}
    _, _, section = text.partition("\nParameters\n----------\n")
    names: list[str] = []
    for line in section.splitlines():
        if re.fullmatch(r"-{3,}", line):  # the previous line was the title of the next section
            break
        parameter = _PARAMETER.match(line)
        if parameter:
            names = parameter[1].split(", ")
            found |= dict.fromkeys(names, (parameter[2], ""))
        elif line.startswith(" "):
            for name in names:
                kind, meaning = found[name]
                found[name] = (kind, f"{meaning} {line.strip()}".strip())
        elif line:
            names = []
    return found
