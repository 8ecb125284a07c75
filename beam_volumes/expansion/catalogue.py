"""The SchemaTransforms of the expansion service, configured by rows of nullable fields.

They are the transforms of `beam_volumes.yaml`, which documents the fields. Mappings are given as rows or as
YAML text. Slabs are `SlabRow` elements.
"""

from __future__ import annotations

import re
from collections import namedtuple
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from inspect import Parameter, signature
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np

from beam_volumes import transforms, yaml
from beam_volumes.base.text import nearest
from beam_volumes.expansion.rows import FromRows, ToRows
from beam_volumes.graph.kinds import split
from beam_volumes.transforms.failures import row_type


@row_type
class Grid(NamedTuple):
    """The grid of slabs made by `ReadSlabs`."""

    input: str
    depth: int | None = None
    tile: Sequence[int] | None = None


@row_type
class MeasuredGrid(NamedTuple):
    """The grid of slabs made by `ReadSlabs`, and their current dtype."""

    input: str
    depth: int | None = None
    tile: Sequence[int] | None = None
    halo: int | None = None
    dtype: str | None = None


@row_type
class Handling(NamedTuple):
    """The name of the output for failed elements."""

    output: str


#: Field types by annotation, for types that all SDKs support; the first of a union is used.
_TYPES: dict[str, Any] = {
    "int": int,
    "float": float,
    "str": str,
    "bool": bool,
    "Sequence[int]": Sequence[int],
    "Sequence[float]": Sequence[float],
    "Sequence[str]": Sequence[str],
}
#: Field types by name, for parameters with types that rows do not support.
_FIELDS: dict[str, Any] = {
    "grid": Grid,
    "error_handling": Handling,
    "memory": str,
    "journal": str,
    "dtype": str,
    "tile": Sequence[int],
    "halo": int,
    "background": float,
    "spacing": Sequence[float],
}


def _config(transform: type, **more: Any) -> Any:
    """Make the configuration row of a transform from its signature: required, then nullable fields.

    ``more`` adds fields or replaces their types.
    """
    parameters = [
        p for p in signature(transform).parameters.values() if p.kind is not p.VAR_KEYWORD
    ]
    needed = [p.name for p in parameters if p.default is p.empty]
    optional = [p.name for p in parameters if p.name not in needed]
    kinds = {p.name: more.get(p.name) or _type_of(p) for p in parameters} | more
    names = [*needed, *dict.fromkeys([*optional, *(n for n in more if n not in needed)])]
    nothing = [None] * (len(names) - len(needed))
    row: Any = namedtuple(f"{transform.__name__}Config", names, defaults=nothing)  # type: ignore[misc]
    row.__annotations__ = {n: kinds[n] if n in needed else kinds[n] | None for n in names}
    return row_type(row)


def _type_of(parameter: Parameter) -> Any:
    words = split(str(parameter.annotation), "|")
    return _FIELDS.get(parameter.name) or next(_TYPES[word] for word in words if word in _TYPES)


class _Bordered(beam.PTransform):
    """A transform of slabs that reads and returns rows instead."""

    def __init__(self, inside: beam.PTransform, takes_slabs: bool, outputs: Sequence[str]):
        super().__init__()
        self.inside, self.takes_slabs, self.outputs = inside, takes_slabs, outputs

    def expand(self, given: Any) -> Any:
        if self.takes_slabs:
            given = given | "From rows" >> FromRows()
        out = given | type(self.inside).__name__ >> self.inside
        if isinstance(out, beam.PCollection):
            return {self.outputs[0]: out | "To rows" >> ToRows()}
        if isinstance(out, tuple):
            out = dict(zip(self.outputs, out, strict=True))
        return {name: some | f"{name} to rows" >> ToRows() for name, some in out.items()}


@dataclass(frozen=True)
class SchemaTransform:
    """A transform of the service; ``make`` is called with the given fields of ``config``."""

    config: Any
    make: Callable[..., beam.PTransform]
    takes: str | None
    gives: tuple[str, ...]
    description: str

    def configured(self, name: str, given: Mapping[str, Any]) -> beam.PTransform:
        """Return the transform for a configuration; fields that are None are ignored."""
        known = self.config._fields
        for field in given:
            if field not in known:
                raise ValueError(
                    f"{name} has no {field!r}; it has {', '.join(known)}{nearest(field, known)}"
                )
        fields = {field: value for field, value in given.items() if value is not None}
        for field in known:
            if field not in self.config._field_defaults and field not in fields:
                raise ValueError(f"{name}: the configuration has no {field}:, which is required")
        return _Bordered(self.make(**fields), self.takes == "slabs", self.gives)


def _haloed(
    transform: type, halo: int = 0, halos: Sequence[int] | None = None, **fields: Any
) -> beam.PTransform:
    """Make the transform with the halo of ``halo`` or ``halos``."""
    if halos is None:
        return transform(halo=halo, **fields)
    if halo or len(halos) not in (3, 6):
        raise ValueError(
            f"{transform.__name__}: halo={halo}, halos={list(halos)}; give one number as halo, or "
            "three (z, y, x) or six (before and after along each axis) as halos"
        )
    each = list(halos) if len(halos) == 3 else [*zip(halos[::2], halos[1::2], strict=True)]
    return transform(halo=each, **fields)


def _label(background: float | None = None, **fields: Any) -> beam.PTransform:
    # For volumes of integers, the background is an integer, too.
    if background is not None:
        fields["background"] = int(background) if background == int(background) else background
    return yaml.LabelSlabs(**fields)


def _watch(shape: Sequence[int], **fields: Any) -> beam.PTransform:
    return transforms.WatchSlices(shape=tuple(shape), **fields)


#: The description of slabs.
_ROWS = "slabs are rows of volume, z, y, x, core, halo, shape, dtype, data and space"

#: By name, as in Beam YAML.
CATALOGUE = {
    "ComputeRecipe": SchemaTransform(
        _config(yaml.ComputeRecipe),
        yaml.ComputeRecipe,
        None,
        ("output",),
        "Run a recipe (its path, or its text): rows of name, path and value, one for each result.",
    ),
    "ReadSlabs": SchemaTransform(
        _config(yaml.ReadSlabs, halos=Sequence[int]),
        partial(_haloed, yaml.ReadSlabs),
        None,
        ("good",),
        f"Read a volume, optionally processed by steps, as slabs; {_ROWS}.",
    ),
    "ApplyStages": SchemaTransform(
        _config(yaml.ApplyStages),
        yaml.ApplyStages,
        "slabs",
        ("good",),
        "Apply pointwise and neighbourhood functions to slabs, with steps as in a recipe.",
    ),
    "LabelSlabs": SchemaTransform(
        _config(yaml.LabelSlabs),
        _label,
        "slabs",
        ("output",),
        "Label the components of slabs across their borders.",
    ),
    "RegionTable": SchemaTransform(
        _config(yaml.RegionTable),
        yaml.RegionTable,
        "slabs",
        ("output",),
        "Measure the regions of slabs of labels: one row for each region.",
    ),
    "WriteSlabs": SchemaTransform(
        _config(yaml.WriteSlabs, format=str, chunks=Sequence[int], shards=Sequence[int], codec=str),
        yaml.WriteSlabs,
        "slabs",
        ("written",),
        "Write slabs: a row with the path of each output, once all its slabs are written.",
    ),
    "ReadAll": SchemaTransform(
        _config(yaml.ReadAll, halos=Sequence[int]),
        partial(_haloed, yaml.ReadAll),
        "input",
        ("good",),
        f"Read the volume at the path in each row, as slabs; {_ROWS}.",
    ),
    "ComputeAll": SchemaTransform(
        _config(yaml.ComputeAll, journal=bool),
        yaml.ComputeAll,
        "input",
        ("good",),
        "Run a recipe for the volume at the path in each row: rows of volume, name, path and value.",
    ),
    "MeasureSlabs": SchemaTransform(
        _config(yaml.MeasureSlabs, grid=MeasuredGrid),
        yaml.MeasureSlabs,
        "slabs",
        ("output",),
        "Compute numbers of the whole volume from slabs, with steps as in a recipe: rows of name and value.",
    ),
    "WatchSlices": SchemaTransform(
        _config(transforms.WatchSlices),
        _watch,
        None,
        ("slabs", "failures"),
        f"Watch a folder for new slices, and return slabs; {_ROWS}.",
    ),
}


def urn_of(name: str) -> str:
    """Return the URN of a transform.

    >>> urn_of("ReadSlabs")
    'beam:schematransform:beam_volumes:read_slabs:v1'
    """
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
    return f"beam:schematransform:beam_volumes:{words}:v1"


def plain(value: Any) -> Any:
    """Convert rows in a configuration to mappings, and arrays to lists.

    >>> plain(Grid("em.zarr", 16, (64, 64)))
    {'input': 'em.zarr', 'depth': 16, 'tile': [64, 64]}
    """
    if hasattr(value, "_asdict"):
        # Fields of nested rows that are None are ignored, too.
        return {k: plain(v) for k, v in value._asdict().items() if v is not None}
    if isinstance(value, list | tuple | np.ndarray):
        return [plain(v) for v in value]
    return value


def listed() -> Iterator[str]:
    """List the transforms, their URNs and their fields.

    >>> next(listed())
    'ComputeRecipe  beam:schematransform:beam_volumes:compute_recipe:v1'
    """
    for name, transform in CATALOGUE.items():
        yield f"{name}  {urn_of(name)}"
        yield f"    {transform.description}"
        needed = [f for f in transform.config._fields if f not in transform.config._field_defaults]
        yield f"    required: {', '.join(needed)}; optional: {', '.join(transform.config._field_defaults)}"
