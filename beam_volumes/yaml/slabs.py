"""Transforms of Beam YAML for recipes and slabs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.typehints.row_type import RowTypeConstraint

from beam_volumes import transforms
from beam_volumes.across.tables import default_properties
from beam_volumes.graph.table import Table
from beam_volumes.graph.volume import Volume
from beam_volumes.ops.parameters.docs import documented
from beam_volumes.recipes.build import build, expressions
from beam_volumes.recipes.document import load, placed
from beam_volumes.recipes.recipe import checked_recipe, recipe_from
from beam_volumes.recipes.steps import Steps, steps_of
from beam_volumes.storage.places.credentials import refuse_variables


class ComputeRecipe(beam.PTransform):
    """Carry out a recipe: applied to the pipeline, rows of ``name``, ``path`` and ``value``.

    An output with a path gives one row once it is complete, a number one row, an array of numbers
    one row for each, named ``name[0]``, ``name[1]``, ...

    Parameters
    ----------
    recipe : str or mapping
        The path of a recipe, or the recipe itself, also as a text of several lines.
    settings : sequence of str, default: ()
        Changes such as ``steps.smooth.sigma=2``, as ``beam-volumes run --set`` takes them.
    crop : str, optional
        A box ``z0:z1,y0:y1,x0:x1`` that every input is cropped to.
    memory : int or str, optional
        Memory that one worker process may use, in bytes or as ``"8GiB"``, instead of the
        recipe's own.
    workers : int, optional
        Number of slabs in flight in one worker process, instead of the recipe's own.
    **options : options
        Further options of `beam_volumes.Compute`: ``slab``, ``window``, ``threads``,
        ``journal``, ``resume``, ``overwrite``, ``run_id``, ``resource_hints``, ``accelerator`` and
        ``max_retries``.

    Raises
    ------
    ValueError
        If the recipe or an option is wrong, or an output is a table without a path.

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
        memory: int | str | None = None,
        workers: int | None = None,
        **options: Any,
    ):
        super().__init__()
        refuse_variables(options, "config")
        checked = recipe_from(recipe, settings)
        built = build(checked, crop)
        for name, target in zip(built.names, built.targets, strict=True):
            if isinstance(target, Table):
                raise ValueError(
                    f"the output {name!r} is a table without path:, whose rows are of no one schema; "
                    "give it a path, or use RegionTable"
                )
        self.names = built.names
        self.compute = transforms.Compute(
            *built.targets,  # type: ignore[arg-type]
            memory=checked.memory if memory is None else memory,
            workers=checked.workers if workers is None else workers,
            **options,
        )

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
    if np.ndim(value) == 0:
        yield beam.Row(name=name, path=None, value=float(value))
        return
    for k, number in enumerate(np.ravel(value).tolist()):
        yield beam.Row(name=f"{name}[{k}]", path=None, value=float(number))


class ReadSlabs(transforms.ReadSlabs):
    """Read a volume as slabs, at once or when its input is complete.

    Parameters
    ----------
    input : str or mapping
        A path, or a mapping as a recipe's input: ``path``, ``voxel_size``, ``index``, ...
    steps : mapping or str, optional
        Pointwise and neighbourhood functions, as in a recipe, or that as a text; slabs are of the last
        one.
    depth : int, default: 32
        Number of slices of a slab's core.
    tile : pair of int, optional
        Rows and columns of a slab's core, where whole planes are too large.
    halo : int or sequence, default: 0
        Voxels around the core that each slab has too: one number for all axes, or for each axis
        a number or a pair ``(before, after)``. `LabelSlabs` needs 1.
    error_handling : mapping, optional
        ``output`` names the output of rows that say which slabs could not be read, and why; the
        slabs are the output ``good`` then.

    Raises
    ------
    ValueError
        If the input or a step is wrong, or a slab would be larger than 8 MiB.

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
        depth: int = 32,
        tile: Sequence[int] | None = None,
        halo: Any = 0,
        error_handling: Mapping[str, str] | None = None,
    ):
        both = None if tile is None else tuple(tile)
        super().__init__(volume_of(input, steps), depth, both, halo)  # type: ignore[arg-type]
        self.handling = output_of(error_handling, "ReadSlabs")
        self.threshold = None if self.handling is None else 1.0

    def expand(self, begin: Any) -> Any:
        out = super().expand(begin)
        return out if self.handling is None else {"good": out[0], self.handling: out[1]}


def volume_of(
    input: str | Mapping[str, Any], steps: str | Mapping[str, Any] | None = None
) -> Volume:
    """The volume that ``input`` and ``steps`` of a configuration mean."""
    if isinstance(input, str) and input.lstrip().startswith("{"):
        input = load(input, "config.input").plain()
    if steps is not None:
        steps = steps_of(steps)
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
        Functions, as in a recipe whose input are the slabs; the last one is what slabs become.
    error_handling : mapping, optional
        ``output`` names the output of rows that say of which slabs it failed, and why.

    Raises
    ------
    ValueError
        If a step is wrong; in a worker, if the halo of a slab is smaller than the functions need.

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
        self.handling = output_of(error_handling, "ApplyStages")
        apply = transforms.ApplyStages(Steps(steps_of(steps)))
        self.apply = apply if self.handling is None else apply.with_exception_handling()

    def expand(self, slabs: beam.PCollection) -> Any:
        out = slabs | "Apply" >> self.apply
        return out if self.handling is None else {"good": out[0], self.handling: out[1]}


def grid_from(grid: Mapping[str, Any], name: str, more: Sequence[str] = ()) -> transforms.SlabGrid:
    """How slabs are cut, as ``grid:`` of a configuration says; it may have ``more``, halo and dtype."""
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
    tile, volume = grid.get("tile"), volume_of(grid["input"])
    if "dtype" in grid:
        volume = volume.astype(grid["dtype"])
    return transforms.SlabGrid(
        volume,
        grid.get("depth", 32),
        None if tile is None else tuple(tile),
        grid.get("halo", 0),
    )


@documented
class LabelSlabs(beam.PTransform):
    """Label the components of slabs across their borders: slabs of labels.

    Parameters
    ----------
    grid : mapping
        How `ReadSlabs` has cut the slabs: its ``input``, and its ``depth`` and ``tile`` if it has
        them. Only the input's shape and axes matter.
    %(connectivity)s
    by_value : bool, default: False
        Whether neighbours belong together only if they are equal.
    background : number or None, default: 0
        With ``by_value``, the value that is left out; None for none.
    min_size : int, optional
        Keep components of at least so many voxels.
    max_size : int, optional
        Keep components of at most so many voxels.
    touches_border : bool, optional
        Keep components that touch the border of the volume, or those that do not.
    k_largest : int, optional
        Keep so many of those, the largest.
    dtype : str, default: "uint32"
        Dtype of the labels.
    memory : int or str, optional
        Memory that one step of the merge may hold, e.g. ``"1GiB"``.

    Raises
    ------
    ValueError
        If a parameter is out of its range; in a worker, if slabs have no halo of 1.

    See Also
    --------
    beam_volumes.label : the same of a whole volume.

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
        connectivity: int = 1,
        by_value: bool = False,
        background: Any = 0,
        min_size: int | None = None,
        max_size: int | None = None,
        touches_border: bool | None = None,
        k_largest: int | None = None,
        dtype: str = "uint32",
        memory: int | str | None = None,
    ):
        super().__init__()
        self.labels = transforms.LabelSlabs(
            grid_from(grid, "LabelSlabs"),
            connectivity,
            by_value=by_value,
            background=background,
            min_size=min_size,
            max_size=max_size,
            touches_border=touches_border,
            k_largest=k_largest,
            dtype=dtype,
            memory=memory,
        )

    def expand(self, slabs: beam.PCollection) -> beam.PCollection:
        return slabs | "Label slabs" >> self.labels


@documented
class RegionTable(beam.PTransform):
    """Measure the regions of slabs of labels: rows, one for each region.

    Fields are called as the columns of `beam_volumes.regionprops_table`, with ``_`` for ``-``:
    ``centroid_0``. Rows come in no order.

    Parameters
    ----------
    grid : mapping
        How `ReadSlabs` has cut the slabs: its ``input``, and its ``depth`` and ``tile`` if it has
        them. Only the input's shape and axes matter.
    intensity : str or mapping, optional
        The input whose intensities are measured: a path, or a mapping as a recipe's input.
    properties : sequence of str, optional
        Names of the properties, as `beam_volumes.regionprops_table` has them; by default all
        but ``surface_area_faces``, which slabs of `LabelSlabs` cannot tell.
    %(spacing)s
    nan : {"raise", "omit"}, default: "raise"
        NaN and infinite intensities are an error, or they are left out.

    Raises
    ------
    ValueError
        If a property is not known, or needs ``intensity``.

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
        spacing: Any = None,
        nan: str = "raise",
    ):
        super().__init__()
        cut = grid_from(grid, "RegionTable")
        # Labels, of whatever type they are when they come.
        cut.volume = cut.volume.astype("uint64")
        measured = None if intensity is None else volume_of(intensity)
        if properties is None:
            known = default_properties(len(cut.volume.space.visible), measured is not None)
            properties = [name for name in known if name != "surface_area_faces"]
        self.table = transforms.RegionTable(cut, measured, properties, spacing=spacing, nan=nan)

    def expand(self, slabs: beam.PCollection) -> beam.PCollection:
        columns = self.table.survey.no_rows(self.table.grid.shape)
        kinds = {_field(name): _KINDS[column.dtype.kind] for name, column in columns.items()}
        rows = beam.FlatMap(_rows).with_output_types(row_of_kinds(kinds))
        return slabs | "Table" >> self.table | "Rows" >> rows


#: The types of rows' fields, by the kind of numpy's dtype.
_KINDS = {"b": bool, "i": int, "u": int, "f": float}


def _field(column: str) -> str:
    return column.replace("-", "_")


def _rows(batch: dict[str, np.ndarray]) -> Iterator[beam.Row]:
    names = [_field(name) for name in batch]
    for values in zip(*(column.tolist() for column in batch.values()), strict=True):
        yield beam.Row(**dict(zip(names, values, strict=True)))


def row_of_kinds(kinds: Mapping[str, Any]) -> RowTypeConstraint:
    """The type of rows whose fields are of these types."""
    return RowTypeConstraint.from_fields(list(kinds.items()))


class WriteSlabs(beam.PTransform):
    """Write slabs.

    Parameters
    ----------
    path : str
        A path or URL that all workers reach. It ends in ``.zarr`` (zarr v3) or ``.ome.zarr``
        (OME-Zarr 0.5), or in anything with ``format``. Where slabs are of several volumes, it holds
        ``{volume}``, in place of which comes the name of each: the path that `ReadAll` was given.
    overwrite : bool, default: False
        Whether to replace an output that exists; otherwise it is an error.
    partial : bool, default: False
        Whether slabs may be missing: voxels that no slab has written are read as 0.
    error_handling : mapping, optional
        ``output`` names the output of rows that say which slabs could not be written, and why.
    **options : options
        ``format``, ``chunks``, ``shards``, ``codec``, ``zarr_version`` and ``ome_version``, as
        `Volume.to` takes them. Slabs consist of whole chunks.

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
    ...     _ = slabs | WriteSlabs("copy.zarr", chunks=[2, 3, 4]) | beam.Map(print)
    Row(z=0, y=0, x=0, volume='')
    """

    def __init__(
        self,
        path: str,
        overwrite: bool = False,
        partial: bool = False,
        error_handling: Mapping[str, str] | None = None,
        **options: Any,
    ):
        super().__init__()
        self.handling = output_of(error_handling, "WriteSlabs")
        place = _Place(path) if "{volume}" in path else path
        write = transforms.WriteSlabs(place, overwrite=overwrite, partial=partial, **options)
        self.write = write if self.handling is None else write.with_exception_handling()

    def expand(self, slabs: beam.PCollection) -> Any:
        kinds = {"z": int, "y": int, "x": int, "volume": str}
        rows = beam.Map(lambda key: beam.Row(**key._asdict())).with_output_types(
            row_of_kinds(kinds)
        )
        out = slabs | "Write" >> self.write
        if self.handling is None:
            return out | "Rows" >> rows
        return {"written": out[0] | "Rows" >> rows, self.handling: out[1]}


class _Place:
    """The place of a volume's output, by its name."""

    def __init__(self, path: str):
        self.path = path

    def __call__(self, volume: str) -> str:
        return self.path.replace("{volume}", volume)


def output_of(error_handling: Mapping[str, str] | None, name: str) -> str | None:
    """The output that ``error_handling:`` names, if there is one."""
    if error_handling is None:
        return None
    if not isinstance(error_handling, Mapping) or error_handling.keys() != {"output"}:
        raise ValueError(
            f"{name}: error_handling: {error_handling!r}; give a mapping with output:, a name"
        )
    return error_handling["output"]
