"""Transforms of Beam YAML for recipes and slabs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import apache_beam as beam

from beam_volumes import transforms
from beam_volumes.across.tables import default_properties
from beam_volumes.graph.table import Table
from beam_volumes.graph.volume import Volume
from beam_volumes.recipes.build import Steps, build, expressions, mapping_of
from beam_volumes.recipes.document import load, placed
from beam_volumes.recipes.recipe import checked_recipe, recipe_from
from beam_volumes.storage.places.credentials import refuse_variables
from beam_volumes.transforms.rows import row_of_kinds
from beam_volumes.yaml.parameters import (
    ErrorOutput,
    given_or,
    numbers_of,
    with_parameters_of,
)


@with_parameters_of(transforms.Compute)
class ComputeRecipe(beam.PTransform):
    """Run a recipe and return its results as rows of ``name``, ``path`` and ``value``.

    Apply it to the pipeline. An output with a path gives one row once it is complete, and a number
    gives one row. An array gives one row for each number, named ``name[0]``, ``name[1]``, and so
    on. The recipe's own ``memory`` and ``workers`` apply unless they are given here.

    Parameters
    ----------
    recipe : str or mapping
        The path of a recipe, or the recipe itself as a mapping or as multi-line text.
    settings : sequence of str, default: ()
        Changes such as ``steps.smooth.sigma=2``, as in ``beam-volumes run --set``.
    crop : str, optional
        A box ``z0:z1,y0:y1,x0:x1`` to which every input is cropped.
    %(options)s

    Raises
    ------
    ValueError
        If the recipe or an option is invalid, or an output is a table without a path.

    Examples
    --------
    >>> import apache_beam as beam
    >>> em = bv.open(np.arange(6, dtype="u1").reshape(1, 2, 3))
    >>> _ = bv.compute(em.to("em.zarr"), runner=None)
    >>> recipe = {"input": "em.zarr", "steps": {"mean": None}, "outputs": [{"step": "mean"}]}
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     _ = p | ComputeRecipe(recipe) | beam.Map(print)
    Row(name='mean', path=None, value=2.5)
    """

    _yaml_requires_inputs = False

    def __init__(
        self,
        recipe: str | Mapping[str, Any],
        settings: Sequence[str] = (),
        crop: str | None = None,
        **options: Any,
    ):
        super().__init__()
        refuse_variables(options, "config")
        checked = recipe_from(recipe, settings)
        built = build(checked, crop)
        for name, target in zip(built.names, built.targets, strict=True):
            if isinstance(target, Table):
                raise ValueError(
                    f"the output {name!r} is a table without path:, and its rows have no fixed schema; "
                    "give it a path, or use RegionTable"
                )
        self.names = built.names
        self.compute = transforms.Compute(*built.targets, **given_or(options, checked.options))  # type: ignore[arg-type]

    def expand(self, begin: Any) -> beam.PCollection:
        done = begin.pipeline | "Compute" >> self.compute
        results = self.compute.session.plan.results
        kinds = {"name": str, "path": str | None, "value": float | None}
        rows = []
        for k, (name, key, result) in enumerate(zip(self.names, done, results, strict=True), 1):
            row = _written if hasattr(result, "kvstore") else _numbers
            rows.append(
                done[key]
                | f"Row {k}" >> beam.FlatMap(row, name).with_output_types(row_of_kinds(kinds))
            )
        return tuple(rows) | beam.Flatten()


def _written(path: str, name: str) -> Iterator[beam.Row]:
    yield beam.Row(name=name, path=path, value=None)


def _numbers(value: Any, name: str) -> Iterator[beam.Row]:
    for each, number in numbers_of(name, value):
        yield beam.Row(name=each, path=None, value=number)


@with_parameters_of(transforms.ReadSlabs, but=("volume",))
class ReadSlabs(transforms.ReadSlabs):
    """Read a volume as slabs, immediately or once its input is complete.

    Parameters
    ----------
    input : str or mapping
        A path, or a mapping as in a recipe: ``path``, ``voxel_size``, ``index``, ...
    steps : mapping or str, optional
        Pointwise and neighbourhood functions, as in a recipe, as a mapping or as text; slabs contain the
        result of the last one.
    error_handling : mapping, optional
        ``output`` is the name of the output with one row per slab that could not be read, and the
        reason; the slabs are then the output ``good``.
    %(options)s

    Raises
    ------
    ValueError
        If the input or a step is invalid, or a slab would be larger than 8 MiB.

    Examples
    --------
    >>> import apache_beam as beam
    >>> em = bv.open(np.arange(24, dtype="u1").reshape(2, 3, 4))
    >>> _ = bv.compute(em.to("em.zarr"), runner=None)
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     slabs = p | ReadSlabs("em.zarr", {"maximum_filter": {"size": 3}})
    ...     _ = slabs | beam.MapTuple(lambda key, slab: print(slab.voxels[0, 0]))
    [17 18 19 19]
    """

    def __init__(
        self,
        input: str | Mapping[str, Any],
        steps: str | Mapping[str, Any] | None = None,
        error_handling: Mapping[str, str] | None = None,
        **options: Any,
    ):
        super().__init__(volume_of(input, steps), **options)
        self.errors = ErrorOutput(error_handling, "ReadSlabs")
        self.threshold = None if self.errors.name is None else 1.0

    def expand(self, begin: Any) -> Any:
        return self.errors.outputs(super().expand(begin))


def volume_of(
    input: str | Mapping[str, Any], steps: str | Mapping[str, Any] | None = None
) -> Volume:
    """Return the volume described by ``input`` and ``steps`` of a configuration."""
    if isinstance(input, str) and input.lstrip().startswith("{"):
        input = load(input, "config.input").plain()
    if steps is not None:
        steps = mapping_of(steps, "steps")
    last = list(steps)[-1] if steps else "input"
    document = {"input": input, "steps": steps, "outputs": [{"step": last}]}
    found = expressions(checked_recipe(placed(document, "config")))[last]
    if not isinstance(found, Volume):
        raise ValueError(f"config.steps.{last}: the last step is {found!r}, not a volume")
    return found


class ApplyStages(beam.PTransform):
    """Apply pointwise and neighbourhood functions to slabs.

    Parameters
    ----------
    steps : mapping or str
        Functions, as in a recipe with the slabs as input; the result of the last one is returned.
    error_handling : mapping, optional
        ``output`` is the name of the output with one row per failed slab, and the reason.

    Raises
    ------
    ValueError
        If a step is invalid. In a worker, if the halo of a slab is smaller than the functions need.

    Examples
    --------
    >>> import apache_beam as beam
    >>> em = bv.open(np.arange(24, dtype="u1").reshape(2, 3, 4))
    >>> _ = bv.compute(em.to("em.zarr"), runner=None)
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     slabs = p | ReadSlabs("em.zarr", halo=1) | ApplyStages({"maximum_filter": {"size": 3}})
    ...     _ = slabs | beam.MapTuple(lambda key, slab: print(slab.voxels[0, 0]))
    [17 18 19 19]
    """

    def __init__(
        self,
        steps: str | Mapping[str, Any],
        error_handling: Mapping[str, str] | None = None,
    ):
        super().__init__()
        self.errors = ErrorOutput(error_handling, "ApplyStages")
        self.apply = self.errors.asked(transforms.ApplyStages(Steps(steps)))

    def expand(self, slabs: beam.PCollection) -> Any:
        return self.errors.outputs(slabs | "Apply" >> self.apply)


def grid_from(grid: Mapping[str, Any], name: str, more: Sequence[str] = ()) -> transforms.SlabGrid:
    """Return the slab grid described by ``grid:``; ``more`` are further allowed keys."""
    if not isinstance(grid, Mapping) or "input" not in grid:
        raise ValueError(
            f"{name}: grid: {grid!r}; give a mapping with the input: of the slabs, and their depth: and "
            "tile: if ReadSlabs has them"
        )
    known = ("input", "depth", "tile", *more)
    if unknown := grid.keys() - {*known}:
        raise ValueError(
            f"{name}: grid has no {', '.join(sorted(unknown))}; it has {', '.join(known)}"
        )
    volume = volume_of(grid["input"])
    if "dtype" in grid:
        volume = volume.astype(grid["dtype"])
    cut = {key: grid[key] for key in ("depth", "tile", "halo") if grid.get(key) is not None}
    return transforms.SlabGrid(volume, **cut)


@with_parameters_of(transforms.LabelSlabs, but=("slabs", "structure", "mask"))
class LabelSlabs(beam.PTransform):
    """Label connected components across slabs, and return slabs of labels.

    Parameters
    ----------
    grid : mapping
        The grid of `ReadSlabs`: its ``input``, and its ``depth`` and ``tile`` if given. Only the
        shape and axes of the input matter.
    %(options)s

    Raises
    ------
    ValueError
        If a parameter is out of range. In a worker, if slabs have no halo of 1.

    See Also
    --------
    beam_volumes.label : Label a whole volume.

    Examples
    --------
    >>> import apache_beam as beam
    >>> mask = bv.open(np.array([[[1, 0, 1]], [[1, 0, 0]]], "u1"))
    >>> _ = bv.compute(mask.to("mask.zarr"), runner=None)
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     labels = p | ReadSlabs("mask.zarr", halo=1) | LabelSlabs({"input": "mask.zarr"})
    ...     _ = labels | beam.MapTuple(lambda key, slab: print(slab.voxels[:, 0].tolist()))
    [[1, 0, 2], [1, 0, 0]]
    """

    def __init__(
        self,
        grid: Mapping[str, Any],
        **options: Any,
    ):
        super().__init__()
        self.labels = transforms.LabelSlabs(grid_from(grid, "LabelSlabs"), **options)

    def expand(self, slabs: beam.PCollection) -> beam.PCollection:
        return slabs | "Label slabs" >> self.labels


@with_parameters_of(transforms.RegionTable, names=("spacing", "nan"))
class RegionTable(beam.PTransform):
    """Measure the regions of slabs of labels, and return one row for each region.

    Fields have the names of the columns of `beam_volumes.regionprops_table`, with ``_`` for ``-``, such as
    ``centroid_0``. The order of rows is arbitrary.

    Parameters
    ----------
    grid : mapping
        The grid of `ReadSlabs`: its ``input``, and its ``depth`` and ``tile`` if given. Only the
        shape and axes of the input matter.
    intensity : str or mapping, optional
        The volume of intensities to measure: a path, or a mapping as in a recipe.
    properties : sequence of str, optional
        Names of the properties, as in `beam_volumes.regionprops_table`; by default all except
        ``surface_area_faces``, which needs a halo that slabs of `LabelSlabs` do not have.
        ``area_filled`` needs stored labels, so use `ComputeRecipe` for it.
    %(options)s

    Raises
    ------
    ValueError
        If a property is unknown, or needs ``intensity``.

    Examples
    --------
    >>> import apache_beam as beam
    >>> mask, grid = bv.open(np.array([[[1, 0, 1]], [[1, 0, 0]]], "u1")), {"input": "mask.zarr"}
    >>> _ = bv.compute(mask.to("mask.zarr"), runner=None)
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     labels = p | ReadSlabs("mask.zarr", halo=1) | LabelSlabs(grid, min_size=2)
    ...     _ = labels | RegionTable(grid, properties=["area"]) | beam.Map(print)
    Row(label=1, area=2.0)
    """

    def __init__(
        self,
        grid: Mapping[str, Any],
        intensity: str | Mapping[str, Any] | None = None,
        properties: Sequence[str] | None = None,
        **options: Any,
    ):
        super().__init__()
        cut = grid_from(grid, "RegionTable")
        # The incoming labels may have any integer dtype.
        cut.volume = cut.volume.astype("uint64")
        measured = None if intensity is None else volume_of(intensity)
        if properties is None:
            known = default_properties(len(cut.volume.space.visible), measured is not None)
            properties = [name for name in known if name != "surface_area_faces"]
        self.table = transforms.RegionTable(cut, measured, properties, **options)

    def expand(self, slabs: beam.PCollection) -> beam.PCollection:
        return slabs | "Table" >> self.table


@with_parameters_of(transforms.WriteSlabs, but=("path", "like"))
class WriteSlabs(beam.PTransform):
    """Write slabs, and return a row with the ``path`` of each complete output.

    `ReadAll` accepts such rows.

    Parameters
    ----------
    path : str
        A path or URL that all workers can access. It ends in ``.zarr`` (zarr v3) or ``.ome.zarr``
        (OME-Zarr 0.5), or ``format`` is given. For slabs of several volumes it contains
        ``{volume}``, which is replaced by the name of each volume: the path given to `ReadAll`.
    error_handling : mapping, optional
        ``output`` is the name of the output with one row per slab that could not be written, and
        the reason.
    %(options)s

    Raises
    ------
    ValueError
        If the output exists, or slabs do not consist of whole chunks.

    Examples
    --------
    >>> import apache_beam as beam
    >>> em = bv.open(np.arange(24, dtype="u1").reshape(2, 3, 4))
    >>> _ = bv.compute(em.to("em.zarr"), runner=None)
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     slabs = p | ReadSlabs("em.zarr", depth=2)
    ...     written = slabs | WriteSlabs("copy.zarr", chunks=[2, 3, 4])
    ...     _ = written | beam.Map(lambda row: print(bv.open(row.path).shape))
    (2, 3, 4)
    """

    def __init__(
        self,
        path: str,
        error_handling: Mapping[str, str] | None = None,
        **options: Any,
    ):
        super().__init__()
        self.errors = ErrorOutput(error_handling, "WriteSlabs")
        place = _Place(path) if "{volume}" in path else path
        self.write = self.errors.asked(transforms.WriteSlabs(place, **options))

    def expand(self, slabs: beam.PCollection) -> Any:
        kind = row_of_kinds({"path": str})
        rows = beam.Map(lambda path: beam.Row(path=path)).with_output_types(kind)
        out = slabs | "Write" >> self.write
        return self.errors.outputs(out, "written", lambda paths: paths | "Rows" >> rows)


class _Place:
    """The path of an output as a function of its volume's name."""

    def __init__(self, path: str):
        self.path = path

    def __call__(self, volume: str) -> str:
        return self.path.replace("{volume}", volume)


@with_parameters_of(transforms.MeasureSlabs, names=("memory",))
class MeasureSlabs(beam.PTransform):
    """Compute numbers of the whole volume from slabs, as rows of ``name`` and ``value``.

    Parameters
    ----------
    grid : mapping
        The grid of `ReadSlabs`: its ``input``, and its ``depth``, ``tile`` and ``halo`` if given. Also
        ``dtype`` if a step in between has changed it.
    numbers : mapping or str
        For the name of each number, the steps that compute it from the volume, as in a recipe.
    %(options)s

    Raises
    ------
    ValueError
        If a step is invalid, or a number needs more than one sweep over the voxels, or a larger
        halo than slabs have. In a worker, if slabs are missing or duplicated.

    See Also
    --------
    RegionTable : the regions of labels.

    Examples
    --------
    >>> import apache_beam as beam
    >>> em, grid = bv.open(np.arange(24, dtype="u1").reshape(4, 2, 3)), {"input": "em.zarr", "depth": 2}
    >>> _ = bv.compute(em.to("em.zarr"), runner=None)
    >>> numbers = {"mean": {"mean": None}, "high": {"percentile": {"q": 50}}}
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     rows = p | ReadSlabs("em.zarr", depth=2) | MeasureSlabs(grid, numbers)
    ...     texts = rows | beam.Map(lambda row: f"{row.name}: {row.value}")
    ...     _ = texts | beam.combiners.ToList() | beam.Map(lambda all: print(*sorted(all)))
    high: 11.5 mean: 11.5
    """

    def __init__(
        self,
        grid: Mapping[str, Any],
        numbers: Mapping[str, Any] | str,
        **options: Any,
    ):
        super().__init__()
        given = mapping_of(numbers, "numbers")
        functions: dict[str, Any] = {name: Steps(steps) for name, steps in given.items()}
        if reserved := {"slabs", "partial", "memory", "self"} & {*functions}:
            raise ValueError(
                f"MeasureSlabs: numbers: {reserved.pop()!r} is reserved; choose another name"
            )
        cut = grid_from(grid, "MeasureSlabs", ("halo", "dtype"))
        self.measure = transforms.MeasureSlabs(cut, **options, **functions)
        if self.measure.tables:
            raise ValueError(
                f"MeasureSlabs: {', '.join(self.measure.tables)}: rows of tables have no fixed schema; use "
                "RegionTable, or ComputeRecipe with a path:"
            )

    def expand(self, slabs: beam.PCollection) -> beam.PCollection:
        found = slabs | "Measure" >> self.measure
        kind = row_of_kinds({"name": str, "value": float})
        rows = [
            number | f"Row {k}" >> beam.FlatMap(_named_numbers, name).with_output_types(kind)
            for k, (name, number) in enumerate(found.items(), 1)
        ]
        return tuple(rows) | beam.Flatten()


def _named_numbers(value: Any, name: str) -> Iterator[beam.Row]:
    for each, number in numbers_of(name, value):
        yield beam.Row(name=each, value=number)
