"""What pipelines in Beam YAML name: our transforms, configured by paths, numbers and texts.

``templates/yaml/provider.yaml`` lists them. A volume is configured as recipes do: ``input``, a path or a
mapping with ``path``, and ``steps`` whose last one it is. Where slabs come from, and of what volume they
are, is found in the pipeline: `LabelComponents`, `RegionTable` and `WriteSlabs` follow `ReadSlabs` or
one another directly.
"""

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
from beam_volumes.recipes.document import placed
from beam_volumes.recipes.recipe import checked_recipe, read_recipe
from beam_volumes.transforms import Slab


class ComputeRecipe(beam.PTransform):
    """Carry out a recipe: applied to the pipeline, rows of ``name``, ``path`` and ``value``.

    An output with a path gives one row once it is complete, a number one row, an array of numbers
    one row for each, named ``name[0]``, ``name[1]``, ...

    Parameters
    ----------
    recipe : str or mapping
        The path of a recipe, or the recipe itself.
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
        ``journal``, ``resume``, ``overwrite``, ``run_id`` and ``resource_hints``.

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
        if isinstance(recipe, str):
            checked = read_recipe(recipe, settings)
        else:
            checked = checked_recipe(placed(recipe, "recipe"), settings)
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
                done[key] | f"Row {k}" >> beam.FlatMap(row, name).with_output_types(_row(kinds))
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
    """Read a volume as slabs, applied to the pipeline.

    Parameters
    ----------
    input : str or mapping
        A path, or a mapping as a recipe's input: ``path``, ``voxel_size``, ``index``, ...
    steps : mapping, optional
        Pointwise and neighbourhood functions, as in a recipe; slabs are of the last one.
    depth : int, default: 32
        Number of slices of a slab's core.
    tile : pair of int, optional
        Rows and columns of a slab's core, where whole planes are too large.
    halo : int or sequence, default: 0
        Voxels around the core that each slab has too: one number for all axes, or for each axis
        a number or a pair ``(before, after)``. `LabelComponents` needs 1.

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
    ...     _ = slabs | beam.Map(lambda slab: print(slab.voxels[0, 0]))
    [17 18 19 19]
    """

    def __init__(
        self,
        input: str | Mapping[str, Any],
        steps: Mapping[str, Any] | None = None,
        depth: int = 32,
        tile: Sequence[int] | None = None,
        halo: Any = 0,
    ):
        both = None if tile is None else tuple(tile)
        super().__init__(volume_of(input, steps), depth, both, halo)  # type: ignore[arg-type]


def volume_of(input: str | Mapping[str, Any], steps: Mapping[str, Any] | None = None) -> Volume:
    """The volume that ``input`` and ``steps`` of a configuration mean."""
    last = list(steps)[-1] if steps else "input"
    document = {"input": input, "steps": steps, "outputs": [{"step": last}]}
    found = expressions(checked_recipe(placed(document, "config")))[last]
    if not isinstance(found, Volume):
        raise ValueError(f"config.steps.{last}: the last step is {found!r}, not a volume")
    return found


def source_of(slabs: beam.PCollection, name: str) -> Any:
    """The transform that yields some slabs: it knows their ``grid``, and the ``volume`` they are of."""
    at = slabs.producer
    while at is not None:
        if isinstance(at.transform, ReadSlabs | LabelComponents):
            return at.transform
        at = at.parent
    raise ValueError(
        f"{name} takes the slabs of ReadSlabs or LabelComponents, directly; list operations that come "
        "before it in the steps: of ReadSlabs"
    )


@documented
class LabelComponents(beam.PTransform):
    """Label the components of the slabs that `ReadSlabs` yields: slabs of labels.

    Parameters
    ----------
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
        If the slabs are not those of a `ReadSlabs` with a halo of 1.

    See Also
    --------
    beam_volumes.label : the same of a whole volume.

    Notes
    -----
    The volume is read again instead of being shuffled.

    Examples
    --------
    >>> import apache_beam as beam
    >>> mask = bv.open(np.array([[[1, 0, 1]], [[1, 0, 0]]], "u1"))
    >>> _ = bv.compute(mask.to("mask.zarr"), runner=None)
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     labels = p | ReadSlabs("mask.zarr", halo=1) | LabelComponents()
    ...     _ = labels | beam.Map(lambda slab: print(slab.voxels[:, 0].tolist()))
    [[1, 0, 2], [1, 0, 0]]
    """

    def __init__(
        self,
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
        self.how = {"connectivity": connectivity, "by_value": by_value, "background": background}
        self.keep: dict[str, Any] = {
            "min_size": min_size,
            "max_size": max_size,
            "touches_border": touches_border,
            "k_largest": k_largest,
            "memory": memory,
        }
        self.dtype = np.dtype(dtype)

    def expand(self, slabs: beam.PCollection[Slab]) -> beam.PCollection[Slab]:
        source = source_of(slabs, "LabelComponents")
        if isinstance(source, LabelComponents) or any(after < 1 for _, after in source.halo):
            raise ValueError("LabelComponents needs the slabs of a ReadSlabs with halo: 1")
        self.grid, self.volume = source.grid, source.volume.astype(self.dtype)
        label = transforms.LabelComponents(
            source.grid, **self.how, measures=("size", "touches_border")
        )
        merge = transforms.MergeEquivalences(label, **self.keep, dtype=self.dtype)
        merged = slabs | "Label" >> label | "Merge" >> merge
        relabel = transforms.RelabelSlabs(source.volume, label, dtype=self.dtype)
        return merged["answers"] | "Relabel" >> relabel


@documented
class RegionTable(beam.PTransform):
    """Measure the regions of slabs of labels: rows, one for each region.

    Fields are called as the columns of `beam_volumes.regionprops_table`, with ``_`` for ``-``:
    ``centroid_0``. Rows come in no order.

    Parameters
    ----------
    intensity : str or mapping, optional
        The input whose intensities are measured: a path, or a mapping as a recipe's input.
    properties : sequence of str, optional
        Names of the properties, as `beam_volumes.regionprops_table` has them; by default all
        but ``surface_area_faces``, which slabs of `LabelComponents` cannot tell.
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
    >>> mask = bv.open(np.array([[[1, 0, 1]], [[1, 0, 0]]], "u1"))
    >>> _ = bv.compute(mask.to("mask.zarr"), runner=None)
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     labels = p | ReadSlabs("mask.zarr", halo=1) | LabelComponents(min_size=2)
    ...     _ = labels | RegionTable(properties=["area"]) | beam.Map(print)
    Row(label=1, area=2.0)
    """

    def __init__(
        self,
        intensity: str | Mapping[str, Any] | None = None,
        properties: Sequence[str] | None = None,
        spacing: Any = None,
        nan: str = "raise",
    ):
        super().__init__()
        self.intensity = None if intensity is None else volume_of(intensity)
        self.properties, self.spacing, self.nan = properties, spacing, nan

    def expand(self, slabs: beam.PCollection[Slab]) -> beam.PCollection:
        source = source_of(slabs, "RegionTable")
        depth, *tile = source.grid.step
        labels = transforms.ReadSlabs(source.volume, depth, (tile[0], tile[1]))
        properties = self.properties
        if properties is None:
            ndim = 2 if source.volume.ndim == 2 else 3
            known = default_properties(ndim, self.intensity is not None)
            properties = [name for name in known if name != "surface_area_faces"]
        table = transforms.RegionTable(
            labels, self.intensity, properties, spacing=self.spacing, nan=self.nan
        )
        columns = table.survey.no_rows(source.grid.shape)
        kinds = {_field(name): _KINDS[column.dtype.kind] for name, column in columns.items()}
        rows = beam.FlatMap(_rows).with_output_types(_row(kinds))
        return slabs | "Table" >> table | "Rows" >> rows


#: The types of rows' fields, by the kind of numpy's dtype.
_KINDS = {"b": bool, "i": int, "u": int, "f": float}


def _field(column: str) -> str:
    return column.replace("-", "_")


def _rows(batch: dict[str, np.ndarray]) -> Iterator[beam.Row]:
    names = [_field(name) for name in batch]
    for values in zip(*(column.tolist() for column in batch.values()), strict=True):
        yield beam.Row(**dict(zip(names, values, strict=True)))


def _row(kinds: Mapping[str, Any]) -> RowTypeConstraint:
    return RowTypeConstraint.from_fields(list(kinds.items()))


class WriteSlabs(beam.PTransform):
    """Write slabs of `ReadSlabs` or `LabelComponents`.

    Parameters
    ----------
    path : str
        A path or URL that all workers reach. It ends in ``.zarr`` (zarr v3) or ``.ome.zarr``
        (OME-Zarr 0.5), or in anything with ``format``.
    overwrite : bool, default: False
        Whether to replace an output that exists; otherwise it is an error.
    partial : bool, default: False
        Whether slabs may be missing: voxels that no slab has written are read as 0.
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
    Row(z=0, y=0, x=0)
    """

    def __init__(self, path: str, overwrite: bool = False, partial: bool = False, **options: Any):
        super().__init__()
        self.path, self.how = path, {"overwrite": overwrite, "partial": partial, **options}

    def expand(self, slabs: beam.PCollection[Slab]) -> beam.PCollection:
        volume = source_of(slabs, "WriteSlabs").volume
        write = transforms.WriteSlabs(self.path, like=volume, **self.how)
        kinds = dict.fromkeys("zyx", int)
        rows = beam.Map(lambda key: beam.Row(**key._asdict())).with_output_types(_row(kinds))
        return slabs | "Write" >> write | "Rows" >> rows
