"""Numbers of slabs, told by Beam YAML as steps of a recipe."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import apache_beam as beam

from beam_volumes import transforms
from beam_volumes.recipes.steps import Steps, mapping_of, steps_of
from beam_volumes.yaml.parameters import numbers_of, row_of_kinds, with_parameters_of
from beam_volumes.yaml.slabs import grid_from


@with_parameters_of(transforms.MeasureSlabs, names=("memory",))
class MeasureSlabs(beam.PTransform):
    """Measure slabs: numbers of the whole volume, as rows of ``name`` and ``value``.

    Parameters
    ----------
    grid : mapping
        How `ReadSlabs` has cut the slabs: its ``input``, and its ``depth``, ``tile`` and ``halo`` if it has
        them. Its ``dtype`` where a step in between has changed that.
    numbers : mapping or str
        Under the name of each number the steps, as in a recipe, that make it of the volume.
    %(options)s

    Raises
    ------
    ValueError
        If a step is wrong, or a number needs more than one sweep over the voxels, or a larger halo than
        slabs have; in a worker, if slabs are missing or there twice.

    See Also
    --------
    RegionTable : the regions of labels.

    Examples
    --------
    >>> import apache_beam as beam
    >>> from beam_volumes.yaml import ReadSlabs
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
        functions: dict[str, Any] = {name: Steps(steps_of(steps)) for name, steps in given.items()}
        if reserved := {"slabs", "partial", "memory", "self"} & {*functions}:
            raise ValueError(f"MeasureSlabs: numbers: {reserved.pop()!r} is no name for a number")
        cut = grid_from(grid, "MeasureSlabs", ("halo", "dtype"))
        self.measure = transforms.MeasureSlabs(cut, **options, **functions)
        if self.measure.tables:
            raise ValueError(
                f"MeasureSlabs: {', '.join(self.measure.tables)}: tables have rows of no one schema; take "
                "RegionTable, or ComputeRecipe with a path:"
            )

    def expand(self, slabs: beam.PCollection) -> beam.PCollection:
        found = slabs | "Measure" >> self.measure
        kind = row_of_kinds({"name": str, "value": float})
        rows = [
            number | f"Row {k}" >> beam.FlatMap(_numbers, name).with_output_types(kind)
            for k, (name, number) in enumerate(found.items(), 1)
        ]
        return tuple(rows) | beam.Flatten()


def _numbers(value: Any, name: str) -> Iterator[beam.Row]:
    for each, number in numbers_of(name, value):
        yield beam.Row(name=each, value=number)
