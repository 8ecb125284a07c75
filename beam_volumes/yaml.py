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
from beam_volumes.recipes.build import build, expressions
from beam_volumes.recipes.document import placed
from beam_volumes.recipes.recipe import checked_recipe, read_recipe
from beam_volumes.transforms import Slab


class ComputeRecipe(beam.PTransform):
    """Carry out a recipe: applied to the pipeline, rows of ``name``, ``path`` and ``value``.

    An output with a path gives one row once it is complete, a number one row, an array of numbers one row
    for each, named ``name[0]``, ``name[1]``, ...

    Parameters
    ----------
    recipe : str or mapping
        The path of a recipe, or the recipe itself.
    settings : list of str, optional
        Changes such as ``steps.smooth.sigma=2``, as ``beam-volumes run --set`` takes them.
    crop : str, optional
        A box that every input is cropped to.
    memory, workers : optional
        Instead of the recipe's own.
    **options
        What else `beam_volumes.Compute` takes: ``slab``, ``threads``, ``overwrite``, ``resume``,
        ``journal``, ``run_id``, ...

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
        Of pointwise and neighbourhood functions, as in a recipe; slabs are of the last one.
    depth, tile, halo
        As of `beam_volumes.ReadSlabs`; for `LabelComponents` the halo is 1.
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


class LabelComponents(beam.PTransform):
    """Label the components of the slabs that `ReadSlabs` yields: slabs of labels, as of `beam_volumes.label`.

    The volume is read again for that: it is not shuffled.

    Parameters
    ----------
    connectivity, by_value, background
        As of `beam_volumes.label`.
    min_size, max_size, touches_border, k_largest, memory
        As of `beam_volumes.MergeEquivalences`.
    dtype : str
        Of the labels.
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


class RegionTable(beam.PTransform):
    """Measure the regions of slabs of labels: rows, one for each region.

    Fields are called as the columns of `beam_volumes.regionprops_table`, with ``_`` for ``-``:
    ``centroid_0``. Rows come in no order.

    Parameters
    ----------
    intensity : str or mapping, optional
        The input, as of `ReadSlabs`, that intensities are measured of.
    properties : list of str, optional
        scikit-image's names. By default all but ``surface_area_faces``, which slabs of
        `LabelComponents` cannot tell.
    spacing, nan
        As of `beam_volumes.regionprops_table`.
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
    overwrite : bool
        Replace an output that exists.
    partial : bool
        Write the slabs there are, though some are missing.
    **options
        ``chunks``, ``shards``, ``codec``, ...: as of `Volume.to`. Slabs are made of whole chunks.
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
