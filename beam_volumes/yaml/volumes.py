"""Transforms of Beam YAML for many volumes; their elements are rows with a path."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import apache_beam as beam
from apache_beam.typehints.schemas import named_fields_from_element_type

from beam_volumes import transforms
from beam_volumes.graph.volume import Volume
from beam_volumes.recipes.build import Steps, mapping_of
from beam_volumes.recipes.each import Targets, input_of
from beam_volumes.recipes.recipe import recipe_from
from beam_volumes.storage.places.credentials import refuse_variables
from beam_volumes.transforms.rows import row_of_kinds
from beam_volumes.yaml.parameters import (
    ErrorOutput,
    given_or,
    numbers_of,
    with_parameters_of,
)
from beam_volumes.yaml.slabs import volume_of


class _Paths(beam.PTransform):
    """Extract paths from rows: the named field, or the only one."""

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
                f"{self.name} accepts paths, or rows with a path as a field, but was given "
                f"{rows.element_type}"
            ) from None
        field = next(iter(fields)) if self.field is None and len(fields) == 1 else self.field
        if field is None or field not in fields:
            lacking = "" if self.field is None else f" has no {self.field!r}, and"
            raise ValueError(
                f"{self.name}: the row of a volume{lacking} has the fields {', '.join(fields)}; name "
                "the one with the path by field:"
            )
        return rows | "Path" >> beam.Map(lambda row: str(getattr(row, field))).with_output_types(
            str
        )


@with_parameters_of(transforms.ReadAll, but=("function",))
class ReadAll(beam.PTransform):
    """Read the volumes of a PCollection of rows with paths as slabs.

    Parameters
    ----------
    field : str, optional
        The field with the path; by default the only field.
    input : mapping or str, optional
        Additional keys of a recipe's input, such as ``voxel_size`` and ``index``, for every volume.
    steps : mapping or str, optional
        Pointwise and neighbourhood functions, as in a recipe, as a mapping or as text; slabs contain the
        result of the last one.
    error_handling : mapping, optional
        ``output`` is the name of the output with one row per volume or slab that could not be read, and
        the reason; the slabs are then the output ``good``.
    %(options)s

    Raises
    ------
    ValueError
        If a step is invalid, or rows have several fields and ``field`` is not given. In a worker,
        if a volume cannot be opened or its slabs would be larger than 8 MiB.

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
        error_handling: Mapping[str, str] | None = None,
        **options: Any,
    ):
        super().__init__()
        self.field, self.errors = field, ErrorOutput(error_handling, "ReadAll")
        self.read = self.errors.asked(transforms.ReadAll(_Opening(input, steps), **options))

    def expand(self, rows: beam.PCollection) -> Any:
        paths = rows | "Paths" >> _Paths(self.field, "ReadAll")
        return self.errors.outputs(paths | "Read" >> self.read)


class _Opening:
    """Opens the volume at a path, and applies steps."""

    __name__ = "open"

    def __init__(
        self, input: Mapping[str, Any] | str | None, steps: Mapping[str, Any] | str | None
    ):
        self.input = {} if input is None else mapping_of(input, "input")
        if {"path", "spec"} & {*self.input}:
            raise ValueError(
                "config.input has a path, but paths come from the elements; leave it out"
            )
        self.steps = None if steps is None else Steps(steps).steps

    def __call__(self, path: str) -> Volume:
        return volume_of({**self.input, "path": path}, self.steps)


@with_parameters_of(transforms.ComputeAll, but=("function",))
class ComputeAll(beam.PTransform):
    """Run a recipe for every volume of a PCollection of rows with paths.

    Each volume is computed by one worker. Results are rows of ``volume``, its path, and ``name``, ``path``
    and ``value`` as in `ComputeRecipe`. The recipe's own ``memory`` and ``workers`` apply unless they are
    given here.

    Parameters
    ----------
    recipe : str or mapping
        The path of a recipe, or the recipe itself as a mapping or as multi-line text.
    out : str
        The output folder. Outputs of the recipe are written to a subfolder for each volume, which
        is named after the file up to the first dot.
    input : str, optional
        The input of the recipe that the volumes replace, if it has several.
    field : str, optional
        The field with the path; by default the only field.
    settings : sequence of str, default: ()
        Changes such as ``steps.smooth.sigma=2``, as in ``beam-volumes run --set``.
    crop : str, optional
        A box ``z0:z1,y0:y1,x0:x1`` to which every input is cropped.
    error_handling : mapping, optional
        ``output`` is the name of the output with one row per failed volume, and the reason.
    %(options)s

    Raises
    ------
    ValueError
        If the recipe or an option is invalid. In a worker, if two volumes have the same name, or an
        output is a table without a path.

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
        error_handling: Mapping[str, str] | None = None,
        **options: Any,
    ):
        super().__init__()
        refuse_variables(options, "config")
        checked = recipe_from(recipe, settings)
        name, _ = input_of(checked, "" if input is None else f"{input}=")
        self.field, self.errors = field, ErrorOutput(error_handling, "ComputeAll")
        targets = Targets(checked, name, out, None, crop)
        self.compute = self.errors.asked(
            transforms.ComputeAll(targets, **given_or(options, checked.options))
        )

    def expand(self, rows: beam.PCollection) -> Any:
        out = rows | "Paths" >> _Paths(self.field, "ComputeAll") | "Compute" >> self.compute
        kinds = {"volume": str, "name": str, "path": str | None, "value": float | None}
        to_rows = beam.FlatMap(_results).with_output_types(row_of_kinds(kinds))
        return self.errors.outputs(out, then=lambda found: found | "Rows" >> to_rows)


def _results(found: tuple[str, Mapping[str, Any]]) -> Iterator[beam.Row]:
    volume, results = found
    for name, result in results.items():
        if hasattr(result, "column_names"):
            raise ValueError(
                f"{volume}: the output {name!r} is a table without path:, and its rows have no fixed schema; "
                "give it a path"
            )
        if isinstance(result, str):
            yield beam.Row(volume=volume, name=name, path=result, value=None)
            continue
        for each, number in numbers_of(name, result):
            yield beam.Row(volume=volume, name=each, path=None, value=number)
