"""SchemaTransforms: what an expansion service has, by URN; each is configured by a row of nullable fields.

They are those of `beam_volumes.yaml`, which say what the fields mean; what is a mapping there is a row here,
or a text that holds YAML. Slabs are `SlabRow` elements.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np

from beam_volumes import transforms, yaml
from beam_volumes.base.text import nearest
from beam_volumes.expansion.rows import FromRows, ToRows
from beam_volumes.transforms.failures import row_type


@row_type
class Grid(NamedTuple):
    """How `ReadSlabs` has cut the slabs."""

    input: str
    depth: int | None = None
    tile: Sequence[int] | None = None


@row_type
class Handling(NamedTuple):
    """Under which name a transform gives what has failed."""

    output: str


@row_type
class ReadConfig(NamedTuple):
    """Of `ReadSlabs`; ``halos`` are for z, y and x, or before and after each."""

    input: str
    steps: str | None = None
    depth: int | None = None
    tile: Sequence[int] | None = None
    halo: int | None = None
    halos: Sequence[int] | None = None
    error_handling: Handling | None = None


@row_type
class ApplyConfig(NamedTuple):
    """Of `ApplyStages`."""

    steps: str
    error_handling: Handling | None = None


@row_type
class LabelConfig(NamedTuple):
    """Of `LabelSlabs`."""

    grid: Grid
    connectivity: int | None = None
    by_value: bool | None = None
    background: float | None = None
    min_size: int | None = None
    max_size: int | None = None
    touches_border: bool | None = None
    k_largest: int | None = None
    dtype: str | None = None
    memory: str | None = None


@row_type
class TableConfig(NamedTuple):
    """Of `RegionTable`."""

    grid: Grid
    intensity: str | None = None
    properties: Sequence[str] | None = None
    spacing: Sequence[float] | None = None
    nan: str | None = None


@row_type
class WriteConfig(NamedTuple):
    """Of `WriteSlabs`."""

    path: str
    overwrite: bool | None = None
    partial: bool | None = None
    format: str | None = None
    chunks: Sequence[int] | None = None
    shards: Sequence[int] | None = None
    codec: str | None = None
    error_handling: Handling | None = None


@row_type
class RecipeConfig(NamedTuple):
    """Of `ComputeRecipe`."""

    recipe: str
    settings: Sequence[str] | None = None
    crop: str | None = None
    memory: str | None = None
    workers: int | None = None
    threads: int | None = None
    slab: Sequence[int] | None = None
    window: int | None = None
    journal: str | None = None
    run_id: str | None = None
    resume: bool | None = None
    overwrite: bool | None = None
    resource_hints: bool | None = None
    accelerator: str | None = None
    max_retries: int | None = None


@row_type
class ReadAllConfig(NamedTuple):
    """Of `ReadAll`; halos as `ReadConfig` has them."""

    field: str | None = None
    input: str | None = None
    steps: str | None = None
    depth: int | None = None
    tile: Sequence[int] | None = None
    halo: int | None = None
    halos: Sequence[int] | None = None
    error_handling: Handling | None = None


@row_type
class ComputeAllConfig(NamedTuple):
    """Of `ComputeAll`."""

    recipe: str
    out: str
    input: str | None = None
    field: str | None = None
    settings: Sequence[str] | None = None
    crop: str | None = None
    memory: str | None = None
    workers: int | None = None
    threads: int | None = None
    run: str | None = None
    resume: bool | None = None
    overwrite: bool | None = None
    resource_hints: bool | None = None
    accelerator: str | None = None
    max_retries: int | None = None
    error_handling: Handling | None = None


@row_type
class MeasuredGrid(NamedTuple):
    """How `ReadSlabs` has cut the slabs, and what they are of by now."""

    input: str
    depth: int | None = None
    tile: Sequence[int] | None = None
    halo: int | None = None
    dtype: str | None = None


@row_type
class MeasureConfig(NamedTuple):
    """Of `MeasureSlabs`."""

    grid: MeasuredGrid
    numbers: str
    memory: str | None = None


@row_type
class WatchConfig(NamedTuple):
    """Of `WatchSlices`."""

    pattern: str
    shape: Sequence[int]
    dtype: str
    depth: int | None = None
    halo: int | None = None
    first: int | None = None
    voxel_size: Sequence[float] | None = None
    unit: str | None = None
    interval: float | None = None
    timeout: float | None = None
    end_marker: str | None = None
    missing: str | None = None


class _Bordered(beam.PTransform):
    """A transform of slabs between rows: it takes those of slabs, and gives them."""

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
    """One transform of the service: ``make`` takes the fields of ``config`` that are given."""

    config: Any
    make: Callable[..., beam.PTransform]
    takes: str | None
    gives: tuple[str, ...]
    description: str

    def configured(self, name: str, given: Mapping[str, Any]) -> beam.PTransform:
        """Return the transform for a configuration; a field that is None is as if it were not there.

        Raises
        ------
        ValueError
            If a field is not known, or one is missing.
        """
        known = self.config._fields
        for field in given:
            if field not in known:
                raise ValueError(
                    f"{name} has no {field!r}; it has {', '.join(known)}{nearest(field, known)}"
                )
        said = {field: value for field, value in given.items() if value is not None}
        for field in known:
            if field not in self.config._field_defaults and field not in said:
                raise ValueError(f"{name}: the configuration lacks {field}:")
        return _Bordered(self.make(**said), self.takes == "slabs", self.gives)


def _read(**said: Any) -> beam.PTransform:
    return yaml.ReadSlabs(**_haloed("ReadSlabs", **said))


def _read_all(**said: Any) -> beam.PTransform:
    return yaml.ReadAll(**_haloed("ReadAll", **said))


def _haloed(
    name: str, halo: int = 0, halos: Sequence[int] | None = None, **said: Any
) -> dict[str, Any]:
    """Return a configuration with the halo of either field."""
    if halos is None:
        return {"halo": halo, **said}
    if halo or len(halos) not in (3, 6):
        raise ValueError(
            f"{name}: halo={halo}, halos={list(halos)}: give one number as halo, or three or six as "
            "halos: for z, y and x one each, or voxels before and after"
        )
    each = list(halos) if len(halos) == 3 else [*zip(halos[::2], halos[1::2], strict=True)]
    return {"halo": each, **said}


def _label(background: float | None = None, **said: Any) -> beam.PTransform:
    # A row says None of what is not there; in a volume of whole numbers the background is one.
    if background is not None:
        said["background"] = int(background) if background == int(background) else background
    return yaml.LabelSlabs(**said)


def _watch(shape: Sequence[int], **said: Any) -> beam.PTransform:
    return transforms.WatchSlices(shape=tuple(shape), **said)


#: What slabs are told as, and where.
_ROWS = "slabs are rows of volume, z, y, x, core, halo, shape, dtype, data and space"

#: By the name that Beam YAML has.
CATALOGUE = {
    "ComputeRecipe": SchemaTransform(
        RecipeConfig,
        yaml.ComputeRecipe,
        None,
        ("output",),
        "Carry out a recipe (its path, or its text): rows of name, path and value, one for each result.",
    ),
    "ReadSlabs": SchemaTransform(
        ReadConfig,
        _read,
        None,
        ("good",),
        f"Read a volume, or what steps make of it, as slabs; {_ROWS}.",
    ),
    "ApplyStages": SchemaTransform(
        ApplyConfig,
        yaml.ApplyStages,
        "slabs",
        ("good",),
        "Apply pointwise and neighbourhood functions to slabs, by steps as in a recipe.",
    ),
    "LabelSlabs": SchemaTransform(
        LabelConfig,
        _label,
        "slabs",
        ("output",),
        "Label the components of slabs across their borders.",
    ),
    "RegionTable": SchemaTransform(
        TableConfig,
        yaml.RegionTable,
        "slabs",
        ("output",),
        "Measure the regions of slabs of labels: a row for each.",
    ),
    "WriteSlabs": SchemaTransform(
        WriteConfig,
        yaml.WriteSlabs,
        "slabs",
        ("written",),
        "Write slabs; gives rows that say where each begins.",
    ),
    "ReadAll": SchemaTransform(
        ReadAllConfig,
        _read_all,
        "input",
        ("good",),
        f"Read all volumes whose paths are in rows, as slabs; {_ROWS}.",
    ),
    "ComputeAll": SchemaTransform(
        ComputeAllConfig,
        yaml.ComputeAll,
        "input",
        ("good",),
        "Carry out a recipe for each of the volumes whose paths are in rows: rows of volume, name, path and "
        "value.",
    ),
    "MeasureSlabs": SchemaTransform(
        MeasureConfig,
        yaml.MeasureSlabs,
        "slabs",
        ("output",),
        "Measure slabs: numbers of the whole volume, by steps as in a recipe; rows of name and value.",
    ),
    "WatchSlices": SchemaTransform(
        WatchConfig,
        _watch,
        None,
        ("slabs", "told"),
        f"Watch a folder to which slices are written, and give slabs; {_ROWS}.",
    ),
}


def urn_of(name: str) -> str:
    """The URN of a transform.

    Examples
    --------
    >>> urn_of("ReadSlabs")
    'beam:schematransform:beam_volumes:read_slabs:v1'
    """
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
    return f"beam:schematransform:beam_volumes:{words}:v1"


def plain(value: Any) -> Any:
    """Rows in a configuration as mappings, arrays as lists.

    Examples
    --------
    >>> plain(Grid("em.zarr", 16, (64, 64)))
    {'input': 'em.zarr', 'depth': 16, 'tile': [64, 64]}
    """
    if hasattr(value, "_asdict"):
        # What is not said of a nested row is not there.
        return {k: plain(v) for k, v in value._asdict().items() if v is not None}
    if isinstance(value, list | tuple | np.ndarray):
        return [plain(v) for v in value]
    return value


def listed() -> Iterator[str]:
    """The transforms, their URNs and their fields, for people.

    Examples
    --------
    >>> next(listed())
    'ComputeRecipe  beam:schematransform:beam_volumes:compute_recipe:v1'
    """
    for name, transform in CATALOGUE.items():
        yield f"{name}  {urn_of(name)}"
        yield f"    {transform.description}"
        needed = [f for f in transform.config._fields if f not in transform.config._field_defaults]
        yield f"    needs {', '.join(needed)}; may have {', '.join(transform.config._field_defaults)}"
