"""Labels across slabs as separate steps of a pipeline.

`LabelComponents`, `MergeEquivalences` and `RelabelSlabs` together do the same as `bv.label`. Voxels
are read twice; only summaries of slabs and ids are shuffled.
"""

from __future__ import annotations

import functools
import math
import numbers
import pickle
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.typehints import Dict, Tuple, Union, with_input_types, with_output_types

from beam_volumes.across.components import Labelling, SlabSummary
from beam_volumes.across.merge import Keep
from beam_volumes.across.rounds.flow import Key
from beam_volumes.across.rounds.lookup import Part, Tally, given_flow
from beam_volumes.base.codecs import compress, decompress
from beam_volumes.base.geometry import Grid, Halo, connectivity_structure
from beam_volumes.base.text import format_bytes
from beam_volumes.graph.volume import Volume, as_volume
from beam_volumes.ops.labels.surveys.component_surveys import ComponentSurvey, Relabel
from beam_volumes.ops.labels.surveys.mappings import check_missing, mapping_arrays
from beam_volumes.ops.parameters.checks import whole_number
from beam_volumes.ops.parameters.docs import documented
from beam_volumes.plan.cost.machine import parse_bytes
from beam_volumes.session.merging import Loads
from beam_volumes.transforms.passes import MergeStates, State
from beam_volumes.transforms.rounds import FirstRound, RunFlow, whole
from beam_volumes.transforms.slab import MAX_BYTES, GivenSlab, KeyedSlab, Slab, SlabKey, slab_of
from beam_volumes.transforms.steps.grids import SlabGrid, slab_grid
from beam_volumes.transforms.steps.slabs import ReadSlabs, read_slab
from beam_volumes.transforms.steps.surveys import (
    NO_LIMIT,
    Answer,
    completed,
    index_of,
    load_pieces,
    merges_fit,
    run_keyed,
    summary_of,
    under_keys,
)
from beam_volumes.transforms.waiting import WaitOn, in_global_window, windowed_as

_UPPER: Halo = ((0, 1), (0, 1), (0, 1))


class SummaryCoder(beam.coders.Coder):
    """A compressed pickle; deterministic."""

    def encode(self, value: SlabSummary) -> bytes:
        return compress(pickle.dumps(value, protocol=5))

    def decode(self, encoded: bytes) -> SlabSummary:
        return pickle.loads(decompress(encoded))

    def is_deterministic(self) -> bool:
        return True

    def to_type_hint(self) -> type:
        return SlabSummary


beam.coders.registry.register_coder(SlabSummary, SummaryCoder)


#: A slab, and its components.
_Summary: Any = Tuple[SlabKey, SlabSummary]


@with_input_types(GivenSlab)
@with_output_types(_Summary)
@documented
class LabelComponents(beam.PTransform):
    """Find the components of each slab: ``(SlabKey, Slab)`` to ``(SlabKey, summary)``.

    Together with `MergeEquivalences` and `RelabelSlabs`, this transform labels components like
    `label`, but as steps of a pipeline. Use `LabelSlabs` unless you need a step in between.

    Parameters
    ----------
    slabs : ReadSlabs, SlabGrid or Grid
        The division of the volume. Slabs need the halo ``(0, 1)`` along each axis: one more plane
        on the upper side.
    %(connectivity)s
    %(neighbours)s
    by_value : bool, default: False
        Whether neighbours are only connected if they are equal, as in `skimage.measure.label`.
    background : number or None, default: 0
        The value to leave unlabelled with ``by_value``; None labels all values.
    measures : sequence of str, default: ()
        Properties of components that `MergeEquivalences` needs: ``"size"``, ``"box"``,
        ``"touches_border"``.

    Raises
    ------
    ValueError
        If a parameter is out of range. In a worker, if a slab lacks the plane above or is from a
        volume of a different shape, or a summary would be larger than 8 MiB. The message suggests a
        remedy.
    TypeError
        If ``background`` is not a number or None.

    See Also
    --------
    beam_volumes.label : Label a whole volume.

    Notes
    -----
    Voxels are read twice, and only summaries of slabs and ids are shuffled.

    Examples
    --------
    >>> import apache_beam as beam
    >>> mask = bv.open(np.array([[[1, 0, 1]], [[1, 0, 0]], [[1, 1, 1]]], "u1"))
    >>> read = bv.ReadSlabs(mask, depth=2, halo=((0, 1), (0, 1), (0, 1)))
    >>> label = bv.LabelComponents(read)
    >>> merge = bv.MergeEquivalences(label)
    >>> relabel = bv.RelabelSlabs(mask, label)
    >>> write = bv.WriteSlabs("cells.zarr", like=mask.astype("u4"), chunks=(2, 1, 3))
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     merged = p | read | label | merge
    ...     _ = merged["numbers"] | beam.Map(print)
    ...     _ = merged["answers"] | relabel | write
    ((), {'count': 2})
    >>> np.asarray(bv.open("cells.zarr"))[:, 0]
    array([[1, 0, 2],
           [1, 0, 0],
           [1, 1, 1]], dtype=uint32)
    """

    def __init__(
        self,
        slabs: ReadSlabs | SlabGrid | Grid,
        connectivity: int = 1,
        structure: Any = None,
        *,
        by_value: bool = False,
        background: Any = 0,
        measures: tuple[str, ...] = (),
    ):
        super().__init__()
        self.slabs, self.grid = slabs, grid_of(slabs)
        some = connectivity_structure(connectivity) if structure is None else structure
        structure = Labelling(some).structure
        if not isinstance(background, numbers.Real | np.bool_ | None):
            raise TypeError(
                f"background={background!r} is not a number or None: give the value to leave unlabelled"
            )
        known = ("size", "box", "touches_border")
        for name in measures:
            if name not in known:
                raise ValueError(f"measures={measures!r}: {name!r} is not one of {known}")
        how = by_value, background, tuple(measures)
        self.survey = ComponentSurvey("LabelComponents", structure, *how)

    def expand(self, slabs: beam.PCollection) -> beam.PCollection:
        label = beam.Map(_summarise, self.grid, self.survey)
        return slabs | "Summarise" >> label.with_output_types(_Summary)


def grid_of(slabs: ReadSlabs | SlabGrid | LabelComponents | Grid) -> Grid:
    """Return the grid of slabs of a step."""
    found = slabs if isinstance(slabs, Grid) else getattr(slabs, "grid", None)
    if not isinstance(found, Grid):
        raise TypeError(f"{slabs!r} has no grid of slabs: give a ReadSlabs or a SlabGrid")
    return found


def _summarise(pair: Any, grid: Grid, survey: ComponentSurvey) -> tuple[SlabKey, SlabSummary]:
    slab = slab_of(pair, survey.name)
    summary = summary_of(survey, grid, slab)
    # The size is only known after compression, which is skipped for small summaries.
    plain = len(pickle.dumps(summary, protocol=5))
    if plain > MAX_BYTES and (size := len(SummaryCoder().encode(summary))) > MAX_BYTES:
        depth, rows, cols = slab.core.shape
        shallower = depth * MAX_BYTES // size
        tile = (-(-rows // 2), -(-cols // 2))
        remedy = f"depth={shallower}" if shallower else f"depth={depth}, tile={tile}"
        raise ValueError(
            f"slab {slab.key}: the summary of {len(summary.ids)} components takes "
            f"{format_bytes(size)}; elements are at most {format_bytes(MAX_BYTES)}: use "
            f"ReadSlabs(..., {remedy})"
        )
    return slab.key, summary


@with_input_types(_Summary)
class MergeEquivalences(beam.PTransform):
    """Merge the components of all slabs: the results of `LabelComponents` to a dict.

    ``"answers"`` is for `RelabelSlabs`: for each slab, in pieces, the final ids of its components.
    These are 1, 2, ... in the raster order of first voxels, counting only components that are kept.
    ``"numbers"`` has one element, ``((), {"count": number of components})``.

    Parameters
    ----------
    slabs : LabelComponents or Grid
        The previous step, or the grid of its slabs.
    min_size : int, optional
        Minimum size of components to keep, in voxels. Needs the measure ``"size"`` of
        `LabelComponents`.
    max_size : int, optional
        Maximum size of components to keep, in voxels; needs ``"size"``.
    touches_border : bool, optional
        Whether to keep only components that touch the border of the volume (True), or only those
        that do not (False); needs ``"touches_border"``.
    k_largest : int, optional
        Number of components to keep: the largest that satisfy all other conditions; needs
        ``"size"``.
    as_mask : bool, default: False
        Whether answers only contain which components are kept.
    dtype : dtype, default: numpy.uint32
        Dtype of the ids; bool has the same effect as ``as_mask``.
    memory : int or str, optional
        Memory limit of one step of the merge, such as ``"1GiB"``. If it is too small, the pipeline
        fails before the merge begins, and the message suggests different slabs.

    Raises
    ------
    ValueError
        If a size is not a whole number or is negative, ``min_size`` is larger than ``max_size``,
        ``k_largest`` is less than 1, or components lack a measure. In a worker, if the merge would
        need more than ``memory``.

    See Also
    --------
    LabelComponents : the previous step, with an example of all steps.
    RelabelSlabs : the next step.

    Notes
    -----
    Components are merged by key, up a tree of slabs. One step needs memory for the
    components on the faces of a block of slabs.

    Examples
    --------
    >>> import apache_beam as beam
    >>> mask = bv.open(np.array([[[1, 0, 1]], [[1, 0, 0]], [[1, 1, 1]]], "u1"))
    >>> label = bv.LabelComponents(bv.ReadSlabs(mask, 2, halo=((0, 1),) * 3), measures=("size",))
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     merged = p | bv.ReadSlabs(mask, 2, halo=((0, 1),) * 3) | label
    ...     numbers = (merged | bv.MergeEquivalences(label, min_size=2))["numbers"]
    ...     _ = numbers | beam.Map(print)
    ((), {'count': 1})
    """

    def __init__(
        self,
        slabs: LabelComponents | Grid,
        *,
        min_size: int | None = None,
        max_size: int | None = None,
        touches_border: bool | None = None,
        k_largest: int | None = None,
        as_mask: bool = False,
        dtype: Any = np.uint32,
        memory: int | float | str | None = None,
    ):
        super().__init__()
        self.grid = grid_of(slabs)
        _check_sizes("MergeEquivalences", min_size, max_size, k_largest)
        if isinstance(slabs, LabelComponents):
            sized = (min_size, max_size, k_largest) != (None, None, None)
            needs = {"size": sized, "touches_border": touches_border is not None}
            missing = [n for n, need in needs.items() if need and n not in slabs.survey.measures]
            if missing:
                raise ValueError(
                    "components were not measured: use LabelComponents(..., "
                    f"measures={tuple(missing)})"
                )
        survey = ComponentSurvey(
            "MergeEquivalences",
            connectivity_structure(1),
            keep=Keep(min_size, max_size, touches_border),
            k_largest=k_largest,
            dtype=np.dtype(bool if as_mask else dtype),
        )
        self.flow = survey.flow(self.grid)
        self.loads: Loads = {}
        if memory is not None:
            limit = parse_bytes(memory)
            load = survey.load(self.grid, limit, None, NO_LIMIT)
            self.loads[survey.name] = replace(load, are_elements=True)

    def expand(self, summaries: beam.PCollection) -> dict[str, beam.PCollection]:
        # Components are merged over all windows.
        given = summaries | "In no window" >> in_global_window(summaries)
        ready = None
        if self.loads:
            load = beam.FlatMap(_loads_of, self.loads).with_output_types(State)
            merge = beam.CombinePerKey(MergeStates(self.loads))
            ready = merges_fit(given | "Load" >> load | "Merge loads" >> merge, self.loads)
        merged = run_keyed(given, self.flow, self.grid, ready)
        merged["numbers"].element_type = Tuple[Tuple[()], Dict[str, int]]
        return {port: windowed_as(summaries, some, port) for port, some in merged.items()}


def _check_sizes(
    name: str, min_size: int | None, max_size: int | None, k_largest: int | None
) -> None:
    for what, size, minimum in (
        ("min_size", min_size, 0),
        ("max_size", max_size, 0),
        ("k_largest", k_largest, 1),
    ):
        if size is not None:
            whole_number(size, what, name, minimum)
    if min_size is not None and max_size is not None and min_size > max_size:
        raise ValueError(
            f"{name}: min_size={min_size} is larger than max_size={max_size}, so no component would be "
            "kept; exchange them, or give one of them"
        )


def _loads_of(pair: tuple[SlabKey, SlabSummary], loads: Loads) -> Iterator[Any]:
    return load_pieces(loads, dict.fromkeys(loads, pair[1]))


@with_input_types(answers=Answer, slabs=GivenSlab, mapping=Tuple[Any, Any])
@with_output_types(KeyedSlab)
class RelabelSlabs(beam.PTransform):
    """Write the final ids into each slab: answers of `MergeEquivalences` to ``(SlabKey, Slab)``.

    Applied to ``merged["answers"]``, it reads the mask again. It also accepts a dict with
    ``"answers"`` and one or both of two more keys. ``"slabs"`` are the labelled slabs, instead of a
    mask. ``"mapping"`` has new values of ids, as a PCollection of ``(label, value)`` or of
    ``(labels, values)`` with two arrays, which is much faster for many labels. The mapping may have
    any size, because each slab only receives its own labels.

    Parameters
    ----------
    mask : Volume or None
        The volume that `LabelComponents` received as slabs; None with ``"slabs"``.
    label : LabelComponents
        The first step.
    dtype : dtype, default: numpy.uint32
        Dtype of the labels: the dtype of `MergeEquivalences`, bool for a mask, or the dtype of a
        mapping's values.
    missing : {"error", "keep"} or number, default: "error"
        How to treat labels that the mapping lacks: raise an error, keep them, or replace them with
        this number.

    Raises
    ------
    ValueError
        If slabs of labels would be larger than 8 MiB. In a worker, if voxels have changed since
        they were labelled, answers have a different dtype, or the mapping has no value or two
        values for a label.

    See Also
    --------
    LabelComponents : the first step, with an example of all steps.
    LabelSlabs : all steps as one.

    Notes
    -----
    A mask is read again, slab by slab, and not shuffled; ``"slabs"`` are joined to
    their answers by key. A digest verifies that the voxels are the same as in the first step.

    Examples
    --------
    >>> import apache_beam as beam
    >>> mask = bv.open(np.array([[[1, 0, 1]], [[1, 0, 0]], [[1, 1, 1]]], "u1"))
    >>> read = bv.ReadSlabs(mask, 2, halo=((0, 1),) * 3)
    >>> label = bv.LabelComponents(read)
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     answers = (p | read | label | bv.MergeEquivalences(label))["answers"]
    ...     values = p | beam.Create([(1, 70), (2, 90)])
    ...     slabs = {"answers": answers, "mapping": values} | bv.RelabelSlabs(mask, label)
    ...     _ = slabs | beam.MapTuple(lambda key, slab: print(key.z, slab.voxels[:, 0].tolist()))
    0 [[70, 0, 90], [70, 0, 0]]
    2 [[70, 70, 70]]
    """

    def __init__(
        self,
        mask: Volume | None,
        label: LabelComponents,
        *,
        dtype: Any = np.uint32,
        missing: Any = "error",
    ):
        super().__init__()
        if not isinstance(label, LabelComponents):
            raise TypeError(f"{label!r}: give the LabelComponents that found the components")
        self.mask = None if mask is None else as_volume(mask)
        self.found, self.dtype = label, np.dtype(dtype)
        check_missing(missing, self.dtype, np.dtype("u4"), "RelabelSlabs")
        self.missing = missing
        depth, *tile = label.grid.step
        if self.mask is not None:
            # refuses volumes that workers cannot read
            ReadSlabs(self.mask, depth, (tile[0], tile[1]))
            grid = slab_grid(self.mask.astype(self.dtype), depth, tile)
            if grid != label.grid:
                raise ValueError(
                    f"the mask's shape is {grid.shape}, but the labelled shape is "
                    f"{label.grid.shape}"
                )
        elif (size := math.prod(label.grid.step) * self.dtype.itemsize) > MAX_BYTES:
            raise ValueError(
                f"RelabelSlabs: slabs of {label.grid.step} labels of {self.dtype} are "
                f"{format_bytes(size)} each; elements are at most {format_bytes(MAX_BYTES)}: read "
                "smaller slabs"
            )

    def type_check_inputs(self, given: Any) -> None:
        super().type_check_inputs(given if isinstance(given, dict) else {"answers": given})

    def expand(self, given: beam.PCollection | dict[str, beam.PCollection]) -> beam.PCollection:
        given = given if isinstance(given, dict) else {"answers": given}
        if "answers" not in given or not given.keys() <= {"answers", "mapping", "slabs"}:
            raise ValueError(
                'RelabelSlabs accepts "answers", and optionally "mapping" and "slabs", not '
                f"{', '.join(given)}"
            )
        if ("slabs" in given) == (self.mask is not None):
            raise ValueError(
                'RelabelSlabs reads voxels from "slabs" or from a mask: give one of them'
            )
        meet = {
            name: some | f"All {name}" >> in_global_window(*given.values())
            for name, some in given.items()
        }
        if "mapping" in given:
            meet["found"] = self._looked_up(meet["answers"], meet.pop("mapping"))
        survey = self.found.survey
        how = Relabel(
            "RelabelSlabs", self.dtype, survey.structure, survey.by_value, survey.background
        )
        relabel = beam.Map(_relabel, self.mask, how, self.found.grid).with_output_types(KeyedSlab)
        values = Union[bytes, Slab] if "slabs" in given else bytes
        labels = meet | "Meet" >> WaitOn(SlabKey, values) | "Relabel" >> relabel
        return windowed_as(given.get("slabs", given["answers"]), labels)

    def _looked_up(self, answers: beam.PCollection, mapping: beam.PCollection) -> beam.PCollection:
        grid = self.found.grid
        flow = given_flow(self.dtype, self.missing, voxels=math.prod(grid.shape))
        take = {"answers": under_keys(grid)}
        of = functools.partial(_labels_of, grid=grid)
        labels = answers | beam.GroupByKey() | "Labels" >> FirstRound(flow, of, take)
        parts = mapping | "Mapping" >> FirstRound(flow, _part_of, take)
        both = {to: (labels[to], parts[to]) | f"All to {to}" >> beam.Flatten() for to in labels}
        found: beam.PCollection = (both | "Look up" >> RunFlow(flow, take=take))["answers"]
        return found


def _labels_of(group: tuple[SlabKey, Iterable[bytes]], grid: Grid) -> tuple[Key, Tally]:
    """Return the distinct labels of a slab."""
    labels = np.unique(_answer(group[1])[0]).astype(np.uint64)
    labels = labels[labels != 0]
    some = Tally(labels, np.zeros(len(labels), np.int64), np.zeros(len(labels), bool))
    return index_of(group[0], grid), some


def _part_of(pair: tuple[Any, Any]) -> tuple[Key, Part]:
    labels, values = (np.atleast_1d(item) for item in pair)
    return (-1,), Part(*mapping_arrays((labels, values), "RelabelSlabs"))


def _answer(some: Iterable[bytes]) -> tuple[np.ndarray, int]:
    """Return the final ids of a slab's components, and the digest of its voxels."""
    (((ids,), (digest,)),) = whole(some)  # one answer in one window
    return ids, digest


def _relabel(
    group: tuple[SlabKey, dict[str, Iterable[Any]]],
    mask: Volume | None,
    completion: Relabel,
    grid: Grid,
) -> tuple[SlabKey, Slab]:
    key, came = group
    some = list(came["answers"])
    if not some:
        raise ValueError(f"slab {key} was not labelled before: give RelabelSlabs the same")
    ids, digest = _answer(some)
    if "found" in came:
        ((labels, values, _),) = whole(came["found"])
        new = np.zeros(len(ids), completion.dtype)
        kept = ids != 0
        new[kept] = values[np.searchsorted(labels, ids[kept].astype(np.uint64))]
        ids = new
    elif ids.dtype != completion.dtype:
        raise ValueError(
            f"the answers are {ids.dtype}: give RelabelSlabs and MergeEquivalences the same dtype= "
            "(bool for as_mask=True)"
        )
    if mask is not None:
        slab = read_slab(index_of(key, grid)[0], mask, grid, _UPPER)
    else:
        slabs = list(came["slabs"])
        if not slabs:
            raise ValueError(
                f"slab {key} was labelled before, but is missing now: give RelabelSlabs the same"
            )
        slab = slabs[0]
    return key, completed(completion, grid, slab, ((ids,), (digest,)))


@with_input_types(GivenSlab)
@with_output_types(KeyedSlab)
@documented
class LabelSlabs(beam.PTransform):
    """Label the components of slabs across their borders: ``(SlabKey, Slab)`` to slabs of labels.

    The labels are the same as from `label` of the whole volume: 1, 2, ... in the raster order of
    first voxels. Slabs may come from any steps, in any order and in any windows, but all slabs of
    the grid are needed.

    Parameters
    ----------
    slabs : ReadSlabs, SlabGrid or Grid
        The division of the volume. Slabs need the halo ``(0, 1)`` along each axis, or more: one
        more plane on the upper side.
    %(connectivity)s
    %(neighbours)s
    by_value : bool, default: False
        Whether neighbours are only connected if they are equal.
    background : number or None, default: 0
        The value to leave unlabelled with ``by_value``; None labels all values.
    min_size : int, optional
        Minimum size of components to keep, in voxels.
    max_size : int, optional
        Maximum size of components to keep, in voxels.
    touches_border : bool, optional
        Whether to keep only components that touch the border of the volume (True), or only those
        that do not (False).
    k_largest : int, optional
        Number of components to keep: the largest that satisfy all other conditions.
    dtype : dtype, default: numpy.uint32
        Dtype of the labels; bool gives a mask of the kept components.
    mask : Volume, optional
        The volume from which the slabs were read, if workers can read it. Its voxels are then read
        a second time. By default, slabs are joined with their labels by key, which shuffles the
        slabs once.
    memory : int or str, optional
        Memory limit of one step of the merge, such as ``"1GiB"``.

    Raises
    ------
    ValueError
        If a parameter is out of range. In a worker, if a slab lacks the plane above, or a slab is
        missing or arrives twice.

    See Also
    --------
    LabelComponents, MergeEquivalences, RelabelSlabs : its steps.
    beam_volumes.label : Label a whole volume.

    Examples
    --------
    >>> import apache_beam as beam
    >>> mask = bv.open(np.array([[[1, 0, 1]], [[1, 0, 0]], [[1, 1, 1]]], "u1"))
    >>> read = bv.ReadSlabs(mask, depth=2, halo=1)
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     labels = p | read | bv.LabelSlabs(read)
    ...     _ = labels | beam.MapTuple(lambda key, slab: print(key.z, slab.voxels[:, 0].tolist()))
    0 [[1, 0, 2], [1, 0, 0]]
    2 [[1, 1, 1]]
    """

    def __init__(
        self,
        slabs: ReadSlabs | SlabGrid | Grid,
        connectivity: int = 1,
        structure: Any = None,
        *,
        by_value: bool = False,
        background: Any = 0,
        min_size: int | None = None,
        max_size: int | None = None,
        touches_border: bool | None = None,
        k_largest: int | None = None,
        dtype: Any = np.uint32,
        mask: Volume | None = None,
        memory: int | float | str | None = None,
    ):
        super().__init__()
        _check_sizes("LabelSlabs", min_size, max_size, k_largest)
        sized = (min_size, max_size, k_largest) != (None, None, None)
        measures = ("size",) * sized + ("touches_border",) * (touches_border is not None)
        self.components = LabelComponents(
            slabs,
            connectivity,
            structure,
            by_value=by_value,
            background=background,
            measures=measures,
        )
        self.merge = MergeEquivalences(
            self.components,
            min_size=min_size,
            max_size=max_size,
            touches_border=touches_border,
            k_largest=k_largest,
            dtype=dtype,
            memory=memory,
        )
        self.grid = self.components.grid
        self.relabel = RelabelSlabs(mask, self.components, dtype=dtype)

    def expand(self, slabs: beam.PCollection) -> beam.PCollection:
        answers = (slabs | "Label" >> self.components | "Merge" >> self.merge)["answers"]
        if self.relabel.mask is not None:
            return answers | "Relabel" >> self.relabel
        return {"answers": answers, "slabs": slabs} | "Relabel" >> self.relabel
