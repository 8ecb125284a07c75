"""Transforms of Beam YAML whose elements are volumes: rows with a path."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.typehints.schemas import named_fields_from_element_type

from beam_volumes import transforms
from beam_volumes.graph.volume import Volume
from beam_volumes.plan.run_options import documented
from beam_volumes.recipes.each import Targets, input_of
from beam_volumes.recipes.recipe import recipe_from
from beam_volumes.recipes.steps import Steps, mapping_of, steps_of
from beam_volumes.storage.places.credentials import refuse_variables
from beam_volumes.yaml.slabs import output_of, row_of_kinds, volume_of


class _Paths(beam.PTransform):
    """Paths of rows: of the field that is named, or of the only one."""

    def __init__(self, field: str | None, name: str):
        super().__init__()
        self.field, self.name = field, name

    def expand(self, rows: beam.PCollection) -> beam.PCollection:
        if rows.element_type is str:
            return rows
        try:
            fields = dict(named_fields_from_element_type(rows.element_type))  # type: ignore[arg-type]
        except (TypeError, ValueError):
            raise TypeError(
                f"{self.name} takes paths, or rows with a field that holds one, and was given "
                f"{rows.element_type}"
            ) from None
        field = next(iter(fields)) if self.field is None and len(fields) == 1 else self.field
        if field is None or field not in fields:
            said = "" if self.field is None else f" has no {self.field!r}, and"
            raise ValueError(
                f"{self.name}: the row of a volume{said} has the fields {', '.join(fields)}: say by field: "
                "which of them is its path"
            )
        return rows | "Path" >> beam.Map(lambda row: str(getattr(row, field))).with_output_types(
            str
        )


class ReadAll(beam.PTransform):
    """Read all volumes of a PCollection as slabs: rows with a path to slabs of all.

    Parameters
    ----------
    field : str, optional
        The field of a row that holds the path; by default the only one.
    input : mapping or str, optional
        What else a recipe's input says of each volume, such as ``voxel_size`` and ``index``.
    steps : mapping or str, optional
        Pointwise and neighbourhood functions, as in a recipe, or that as a text; slabs are of the last
        one.
    depth : int, default: 32
        Number of slices of a slab's core.
    tile : pair of int, optional
        Rows and columns of a slab's core, where whole planes are too large.
    halo : int or sequence, default: 0
        Voxels around the core that each slab has too, as `ReadSlabs` has it.
    error_handling : mapping, optional
        ``output`` names the output of rows that say which volumes and slabs could not be read, and why;
        the slabs are the output ``good`` then.

    Raises
    ------
    ValueError
        If a step is wrong, or rows have several fields and ``field`` does not say which; in a worker, if a
        volume cannot be opened or its slabs would be larger than 8 MiB.

    Examples
    --------
    >>> import apache_beam as beam
    >>> from beam_volumes.yaml import WriteSlabs
    >>> for name in "ab":
    ...     _ = bv.compute(bv.open(np.ones((5, 8, 8), "u1")).to(f"{name}.zarr"), runner=None)
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     paths = p | beam.Create([beam.Row(path="a.zarr"), beam.Row(path="b.zarr")])
    ...     slabs = paths | ReadAll(steps={"add": {"inputs": ["input", 1]}})
    ...     _ = slabs | WriteSlabs("{volume}.two.zarr", chunks=[5, 8, 8])
    >>> int(bv.open("b.zarr.two.zarr").max())
    2
    """

    def __init__(
        self,
        field: str | None = None,
        input: Mapping[str, Any] | str | None = None,
        steps: Mapping[str, Any] | str | None = None,
        depth: int = 32,
        tile: Sequence[int] | None = None,
        halo: Any = 0,
        error_handling: Mapping[str, str] | None = None,
    ):
        super().__init__()
        self.field, self.handling = field, output_of(error_handling, "ReadAll")
        both = None if tile is None else tuple(tile)
        read = transforms.ReadAll(_Opening(input, steps), depth, both, halo)  # type: ignore[arg-type]
        self.read = read if self.handling is None else read.with_exception_handling()

    def expand(self, rows: beam.PCollection) -> Any:
        out = rows | "Paths" >> _Paths(self.field, "ReadAll") | "Read" >> self.read
        return out if self.handling is None else {"good": out[0], self.handling: out[1]}


class _Opening:
    """Opens the volume at a path, and applies steps."""

    __name__ = "open"

    def __init__(
        self, input: Mapping[str, Any] | str | None, steps: Mapping[str, Any] | str | None
    ):
        self.input = {} if input is None else mapping_of(input, "input")
        if {"path", "spec"} & {*self.input}:
            raise ValueError("config.input: has a path, and elements are the paths: leave it out")
        self.steps = None if steps is None else Steps(steps_of(steps)).steps

    def __call__(self, path: str) -> Volume:
        return volume_of({**self.input, "path": path}, self.steps)


@documented
class ComputeAll(beam.PTransform):
    """Carry out a recipe for every volume of a PCollection: rows with a path to rows of results.

    A worker computes a volume whole. Rows have ``volume``, the path, and ``name``, ``path`` and ``value`` as
    those of `ComputeRecipe`.

    Parameters
    ----------
    recipe : str or mapping
        The path of a recipe, or the recipe itself, also as a text of several lines.
    out : str
        The folder in which each volume gets one of its name, which is that of its file without what
        follows the first dot. Outputs of the recipe go there.
    input : str, optional
        Which input of the recipe the volumes are, where it has several.
    field : str, optional
        The field of a row that holds the path; by default the only one.
    settings : sequence of str, default: ()
        Changes such as ``steps.smooth.sigma=2``, as ``beam-volumes run --set`` takes them.
    crop : str, optional
        A box ``z0:z1,y0:y1,x0:x1`` that every input is cropped to.
    %(process_memory)s
    workers : int, optional
        Number of volumes that one process computes at a time, by default the recipe's, or 1. They share
        the memory.
    threads : int, optional
        Number of threads that compute one volume; by default the machine's cores.
    run : str, optional
        A name for the run: a pipeline of the same name does not compute again what another one has.
    error_handling : mapping, optional
        ``output`` names the output of rows that say which volumes failed, and why.
    **options : options
        Further options of `beam_volumes.ComputeAll`: ``resume``, ``overwrite``, ``resource_hints``,
        ``accelerator`` and ``max_retries``.

    Raises
    ------
    ValueError
        If the recipe or an option is wrong; in a worker, if two volumes have one name, or an output is a
        table without a path.

    Examples
    --------
    >>> import apache_beam as beam
    >>> _ = bv.compute(bv.open(np.ones((5, 8, 8), "u1")).to("a.zarr"), runner=None)
    >>> recipe = {"input": "any.zarr", "steps": {"mean": None}, "outputs": [{"step": "mean"}]}
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     paths = p | beam.Create([beam.Row(path="a.zarr")])
    ...     _ = paths | ComputeAll(recipe, "results") | beam.Map(print)
    Row(volume='a.zarr', name='mean', path=None, value=1.0)
    """

    def __init__(
        self,
        recipe: str | Mapping[str, Any],
        out: str,
        input: str | None = None,
        field: str | None = None,
        settings: Sequence[str] = (),
        crop: str | None = None,
        memory: int | str | None = None,
        workers: int | None = None,
        threads: int | None = None,
        run: str | None = None,
        error_handling: Mapping[str, str] | None = None,
        **options: Any,
    ):
        super().__init__()
        refuse_variables([run, options], "config")
        checked = recipe_from(recipe, settings)
        name, _ = input_of(checked, "" if input is None else f"{input}=")
        self.field, self.handling = field, output_of(error_handling, "ComputeAll")
        compute = transforms.ComputeAll(
            Targets(checked, name, out, None, crop),
            memory=checked.memory if memory is None else memory,
            workers=workers or checked.workers or 1,
            threads=threads,
            run=run,
            **options,
        )
        self.compute = compute if self.handling is None else compute.with_exception_handling()

    def expand(self, rows: beam.PCollection) -> Any:
        out = rows | "Paths" >> _Paths(self.field, "ComputeAll") | "Compute" >> self.compute
        kinds = {"volume": str, "name": str, "path": str | None, "value": float | None}
        told = beam.FlatMap(_results).with_output_types(row_of_kinds(kinds))
        if self.handling is None:
            return out | "Rows" >> told
        return {"good": out[0] | "Rows" >> told, self.handling: out[1]}


def _results(found: tuple[str, Mapping[str, Any]]) -> Iterator[beam.Row]:
    volume, results = found
    for name, result in results.items():
        if hasattr(result, "column_names"):
            raise ValueError(
                f"{volume}: the output {name!r} is a table without path:, whose rows are of no one schema"
            )
        if isinstance(result, str):
            yield beam.Row(volume=volume, name=name, path=result, value=None)
        elif np.ndim(result) == 0:
            yield beam.Row(volume=volume, name=name, path=None, value=float(result))
        else:
            for k, number in enumerate(np.ravel(result).tolist()):
                yield beam.Row(volume=volume, name=f"{name}[{k}]", path=None, value=float(number))
