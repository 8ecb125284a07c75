"""Written by ``make docs``: the public names, as editors and type checkers read them."""

from .graph.options import options as options
from .graph.scalar import Scalar as Scalar
from .graph.table import Table as Table
from .graph.table import TableTarget as TableTarget
from .graph.volume import Target as Target
from .graph.volume import Volume as Volume
from .ops.filters.classification.forests import PixelClassifier as PixelClassifier
from .plan.estimating import Estimate as Estimate
from .plan.plan import Plan as Plan
from .session.masks import MaskWarning as MaskWarning
from .storage.formats.unfinished import UnfinishedWarning as UnfinishedWarning
from .transforms import ApplyStages as ApplyStages
from .transforms import Compute as _Compute
class Compute(_Compute):
    """Compute volumes, tables and numbers as a step of a pipeline.

    Use it if a pipeline has steps before or after the computation; otherwise use
    `beam_volumes.compute`. Applied to a pipeline, it starts immediately. Applied to a PCollection,
    it waits until the PCollection is complete. The result is a dict with one PCollection for each
    target. For ``volume.to(path)`` and ``table.to(path)``, the PCollection contains the output's
    full name (``target.sink.name``) once all outputs are complete. For a lazy number, it contains
    the number. For a table without a path, it contains the rows in no particular order, as
    `apache_beam.Row` with a schema. Fields are named after the columns, with ``_`` for ``-``.

    Parameters
    ----------
    *targets : Target, TableTarget, Table or Scalar
        ``volume.to(path)``, ``table.to(path)``, tables and lazy numbers. Volumes without a path are
        an error, because voxels do not pass through pipelines. In the dict, the keys of outputs are
        their full names; numbers and tables have short names (``"mean"``, then ``"mean-2"``).
    memory : int or str, optional
        Memory that one worker process may use, in bytes or as ``"8GiB"``; a quarter of its
        machine's RAM by default.
    workers : int, optional
        Number of slabs in flight. By default one slab for every four cores, and more if much of the
        work on a slab is single-threaded and the memory suffices.
    machines : int, optional
        Number of machines that share the slabs, for runners with several machines. Slabs are made small
        enough for each machine to get many. By default, Beam's option ``max_num_workers``,
        ``num_workers`` or ``parallelism``, otherwise 1.
    threads : int, optional
        Number of threads that compute one slab; by default the cores divided by the processes.
    slab : sequence of int, optional
        Shape of slabs along the volume's axes, in voxels; by default as large as the memory allows.
        Each slab must consist of whole write units (chunks or shards) of the outputs.
    window : int, optional
        Number of slices that are computed at a time; by default as many as the memory allows.
    journal : str, os.PathLike or dict, optional
        Folder of the journal and of intermediate results; by default ``.run`` next to the first output.
    resume : bool, default: False
        Whether to continue a stopped run from its complete slabs.
    overwrite : bool, default: False
        Whether to replace existing outputs; otherwise they raise an error.
    accelerator : str, optional
        The accelerator for passes that run a network or use a device. The value is a Beam resource hint
        such as ``"type:nvidia-tesla-t4;count:1;install-nvidia-driver"``, which is the default with
        ``device="cuda"``. Dataflow provisions machines accordingly; other runners ignore it.
    device : {"cpu", "cuda", "auto"}, optional
        Where stages run, by default on the CPU. "cuda" runs each stage with device code on the GPU of
        its worker. "auto" does so only if there is a GPU and the estimated gain outweighs the copies.
        With "auto", slabs that fail on the GPU are computed on the CPU. Results are bit-identical in
        all cases.
    device_memory : int or str, optional
        Memory that the run may use on each GPU of a machine, in bytes or as ``"8GiB"``; by default
        0.8 of the GPU's free memory.
    max_retries : int, default: 1
        How often to retry a step that raises the same error again, unless a machine or the storage
        caused the error. After these retries, the run ends, even if its runner would continue to
        retry.
    run_id : str, optional
        A name for the run instead of a random one. Pipelines with the same run name continue the
        same run. Steps may be repeated, but slabs that have a record are not computed again.
    resource_hints : bool, optional
        Whether to request the predicted memory of each pass with the resource hint ``min_ram``. By
        default, memory is only requested on Dataflow, which provisions machines accordingly. Other
        runners may start more worker processes without any benefit.
    **named : Target, TableTarget, Table or Scalar
        Additional targets; these names are their keys in the dict.

    Raises
    ------
    ValueError
        If memory is too small; the message contains the minimum. If ``slab`` does not consist of whole
        write units, or an output is also an input. In this case, nothing is started.
    FileExistsError
        If an output exists and neither ``resume`` nor ``overwrite`` is set.
    TypeError
        If a target has an unsupported type, or the transform is not applied to a pipeline or
        PCollection.

    See Also
    --------
    ComputeAll : an element of a PCollection is a volume.
    beam_volumes.compute : makes and runs such a pipeline.

    Notes
    -----
    The plan is made when the transform is constructed, so impossible requests fail at that time.
    Voxels are read from and written to storage directly; only ranges of slabs and summaries are
    shuffled.

    Examples
    --------
    >>> import apache_beam as beam
    >>> em = bv.open(np.arange(24, dtype="u1").reshape(2, 3, 4))
    >>> bright = (em > bv.mean(em)).to("bright.zarr")
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     done = p | bv.Compute(bright=bright, average=bv.mean(em))
    ...     _ = done["average"] | beam.Map(print)
    11.5
    >>> int(np.asarray(bv.open("bright.zarr")).sum())
    12
    """
    def __init__(
    self,
    *targets: Target | TableTarget | Table | Scalar,
    memory: int | float | str | None = None,
    workers: int | None = None,
    machines: int | None = None,
    threads: int | None = None,
    slab: Sequence[int] | None = None,
    window: int | None = None,
    journal: Any = None,
    resume: bool = False,
    overwrite: bool = False,
    accelerator: str | None = None,
    device: str | None = None,
    device_memory: int | float | str | None = None,
    max_retries: int = 1,
    run_id: str | None = None,
    resource_hints: bool | None = None,
    **named: Any,
) -> None: ...
from .transforms import ComputeAll as _ComputeAll
class ComputeAll(_ComputeAll):
    """Compute every element of a PCollection, such as the path of a volume.

    Use it for many volumes that can each be computed on one machine. A worker computes a whole
    element, slab by slab, within its memory. The result is a PCollection of ``(element, results)``,
    where the results are a dict with the names of the targets as keys. The values are the full
    names of outputs (``volume.to(path)`` and ``table.to(path)``), the numbers of lazy numbers, and
    a `pyarrow.Table` for each table without a path.

    Parameters
    ----------
    function : callable
        A function that maps an element to a dict of named targets: ``volume.to(path)``,
        ``table.to(path)``, tables and lazy numbers. The worker calls this function.
    memory : int or str, optional
        Memory that one worker process may use, in bytes or as ``"8GiB"``; a quarter of its
        machine's RAM by default.
    workers : int, default: 1
        Number of elements that one process computes at a time. The elements share the memory.
    threads : int, optional
        Number of threads that compute one element; by default the machine's cores.
    run : str, optional
        A name for the run instead of a random one. A pipeline with the same run name as an earlier
        one continues the unfinished elements of that run, and skips finished elements.
    resume : bool, default: False
        Whether to continue elements if an earlier run with the same targets has started to write
        their outputs.
    journal : bool or None, default: True
        Whether to keep a journal, about ten small objects, next to the first output of each
        element. Use None for many small volumes; without a journal, a failed element is computed
        again from the start.
    overwrite : bool, default: False
        Whether to replace existing outputs; otherwise they raise an error.
    resource_hints : bool, optional
        Whether to request ``memory``, if set, from the runner with the resource hint ``min_ram``.
        By default, memory is only requested on Dataflow, which provisions machines accordingly.
    accelerator : str, optional
        The accelerator that machines need, as a Beam resource hint such as
        ``"type:nvidia-tesla-t4;count:1;install-nvidia-driver"``.
    max_retries : int, default: 1
        How often to retry a step that raises the same error again, unless a machine or the storage
        caused the error. After these retries, the run ends, even if its runner would continue to
        retry.

    Raises
    ------
    ValueError
        If a parameter is out of range.
    TypeError
        If ``function`` is not callable, or ``run`` is not a string.
    RuntimeError
        In a worker, if an element fails; the message contains the element.

    See Also
    --------
    Compute : computes one plan with all workers.

    Notes
    -----
    With `with_exception_handling`, failed elements are returned separately and not retried.

    An element is retried if a worker dies or a different part of the pipeline fails. Slabs that
    have a record in the journal next to the element's first output are not computed again. Without
    a journal, an element is skipped if all its results are complete outputs.

    Examples
    --------
    >>> import apache_beam as beam
    >>> def measures(line):
    ...     volume = bv.open(np.array([line], "u1"))  # usually opened from a path
    ...     return {"mean": bv.mean(volume), "cells": bv.label(volume).num_labels}
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     _ = p | beam.Create([[3, 0, 1]]) | bv.ComputeAll(measures) | beam.MapTuple(print)
    [3, 0, 1] {'mean': np.float64(1.3333333333333333), 'cells': 2}
    """
    def __init__(
    self,
    function: Callable[[Any], Targets],
    *,
    memory: int | float | str | None = None,
    workers: int = 1,
    threads: int | None = None,
    run: str | None = None,
    resume: bool = False,
    journal: bool | None = True,
    overwrite: bool = False,
    resource_hints: bool | None = None,
    accelerator: str | None = None,
    max_retries: int = 1,
) -> None: ...
from .transforms import Failed as Failed
from .transforms import LabelComponents as _LabelComponents
class LabelComponents(_LabelComponents):
    """Find the components of each slab: ``(SlabKey, Slab)`` to ``(SlabKey, summary)``.

    Together with `MergeEquivalences` and `RelabelSlabs`, this transform labels components like
    `label`, but as steps of a pipeline. Use `LabelSlabs` unless you need a step in between.

    Parameters
    ----------
    slabs : ReadSlabs, SlabGrid or Grid
        The division of the volume. Slabs need the halo ``(0, 1)`` along each axis: one more plane
        on the upper side.
    connectivity : {1, 2, 3}, default: 1
        Which voxels are neighbours: 1 for voxels that share a face, 2 to include shared edges, 3 to
        include shared corners.
    structure : array_like, optional
        The neighbours of a voxel, instead of ``connectivity``: an array with 3 entries along each axis,
        symmetric about the centre.
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
) -> None: ...
from .transforms import LabelSlabs as _LabelSlabs
class LabelSlabs(_LabelSlabs):
    """Label the components of slabs across their borders: ``(SlabKey, Slab)`` to slabs of labels.

    The labels are the same as from `label` of the whole volume: 1, 2, ... in the raster order of
    first voxels. Slabs may come from any steps, in any order and in any windows, but all slabs of
    the grid are needed.

    Parameters
    ----------
    slabs : ReadSlabs, SlabGrid or Grid
        The division of the volume. Slabs need the halo ``(0, 1)`` along each axis, or more: one
        more plane on the upper side.
    connectivity : {1, 2, 3}, default: 1
        Which voxels are neighbours: 1 for voxels that share a face, 2 to include shared edges, 3 to
        include shared corners.
    structure : array_like, optional
        The neighbours of a voxel, instead of ``connectivity``: an array with 3 entries along each axis,
        symmetric about the centre.
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
    dtype: Any = ...,
    mask: Volume | None = None,
    memory: int | float | str | None = None,
) -> None: ...
from .transforms import MeasureSlabs as MeasureSlabs
from .transforms import MergeEquivalences as MergeEquivalences
from .transforms import Predict as Predict
from .transforms import ReadAll as ReadAll
from .transforms import ReadSlabs as ReadSlabs
from .transforms import RegionTable as _RegionTable
class RegionTable(_RegionTable):
    """Measure the regions of slabs of labels: ``(SlabKey, Slab)`` to a row for each region.

    Rows are `apache_beam.Row` with a schema. Fields have the names of the columns of `regionprops_table`,
    with ``_`` for ``-``: ``label``, ``area``, ``centroid_0``. Rows are in no particular order.

    Parameters
    ----------
    slabs : ReadSlabs, SlabGrid, LabelComponents or Grid
        The division of the volume. Labels may have any integer dtype. Some properties need a halo:
        ``surface_area_faces`` (computed by default), ``euler_number`` and ``perimeter_crofton``
        need ``(0, 1)`` along each axis, and ``perimeter`` needs 3.
    intensity : Volume, optional
        A lazy volume of the same shape. Its voxels are read slab by slab, together with the labels.
    properties : sequence of str, optional
        Names of the properties, as in `regionprops_table`, with the same default. ``area_filled``
        needs `ReadSlabs` of stored labels, applied directly before: it also reads the box of each
        region.
    spacing : float, sequence of float or "voxel_size", optional
        Extent of a voxel, for areas, centroids and lengths: one value for all axes or one per axis; 1
        by default. ``"voxel_size"`` uses the voxel size of the volume.
    nan : {"raise", "omit"}, default: "raise"
        Whether NaN and infinite intensities are an error or are ignored.

    Raises
    ------
    ValueError
        If a property is unknown or needs ``intensity``, or `ReadSlabs` has a smaller halo than the
        properties need. If ``area_filled`` is requested and the labels are computed, or a different
        step makes the slabs. In a worker, if slabs have a smaller halo, are masks, are missing or arrive
        twice. If an intensity is NaN or infinite and ``nan="raise"``.

    See Also
    --------
    beam_volumes.regionprops_table : Measure a whole volume. MeasureSlabs : Compute any tables and
    numbers.

    Notes
    -----
    Only the sums for each label and slab are shuffled. A slab cannot contribute to ``area_filled``,
    because holes may extend over any number of slabs. The boxes are known after the last slab, and are
    then read from storage.

    Examples
    --------
    >>> import apache_beam as beam
    >>> labels = bv.open(np.array([[[7, 7, 0]], [[7, 0, 4]], [[0, 0, 4]]], "u4"))
    >>> read = bv.ReadSlabs(labels, depth=2, halo=((0, 1), (0, 1), (0, 1)))
    >>> table = bv.RegionTable(read, labels * 2, ["area", "intensity_mean"])
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     _ = p | read | table | beam.Map(print)
    Row(label=4, area=2.0, intensity_mean=8.0)
    Row(label=7, area=3.0, intensity_mean=14.0)
    """
    def __init__(
    self,
    slabs: ReadSlabs | SlabGrid | LabelComponents | Grid,
    intensity: Volume | None = None,
    properties: Sequence[str] | None = None,
    *,
    spacing: float | Sequence[float] | str | None = None,
    nan: str = 'raise',
) -> None: ...
from .transforms import RegisterSlices as RegisterSlices
from .transforms import RegisterTiles as RegisterTiles
from .transforms import RelabelSlabs as RelabelSlabs
from .transforms import Slab as Slab
from .transforms import SlabGrid as SlabGrid
from .transforms import SlabKey as SlabKey
from .transforms import SlabScan as SlabScan
from .transforms import WatchSlices as WatchSlices
from .transforms import WriteSlabs as WriteSlabs
from .version import __version__ as __version__

from beam_volumes.base.geometry import Grid
from beam_volumes.graph.table import ComputedTable
from beam_volumes.ops.extrema.blobs import Sigma
from beam_volumes.ops.filters.derivatives import Derivative
from beam_volumes.ops.labels.boundaries import Colour
from beam_volumes.ops.labels.objects import Region
from beam_volumes.ops.measure.reductions import Axis
from beam_volumes.ops.networks.probe import Probed
from beam_volumes.plan.planner import Wanted
from beam_volumes.show.preview import Preview
from beam_volumes.show.viewer.view import Viewer
from beam_volumes.studio.serve import Studio
from beam_volumes.transforms.compute_all import Targets
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from numpy.typing import ArrayLike
from numpy.typing import DTypeLike
from typing import Any
from typing import Literal
from typing import overload
import numpy as np
import os

def abs(
    volume: Volume | Scalar,
) -> Any:
    """Compute absolute values.

    Parameters
    ----------
    volume : Volume or Scalar
        A volume or a lazy number.

    Returns
    -------
    Volume or Scalar
        A result of the same kind, with numpy's dtype.

    Raises
    ------
    TypeError
        If the input is not a volume, lazy number, array or number.

    Notes
    -----
    Pointwise: no halo, and no sweeps beyond those for the inputs.

    References
    ----------
    `numpy.absolute`.

    Examples
    --------
    >>> np.asarray(bv.abs(bv.open(np.array([[-1.5, 2.0]]))))
    array([[1.5, 2. ]])
    """

def adapted_rand_error(
    truth: Volume,
    test: Volume,
    *,
    ignore_labels: Iterable[int] = (0,),
    alpha: float = 0.5,
) -> tuple[Scalar, Scalar, Scalar]:
    """Compare two segmentations by the pairs of voxels that share a segment.

    Parameters
    ----------
    truth, test : Volume or numpy.ndarray
        Labels of the same shape, bool or integers from 0.
    ignore_labels : iterable of int, default: (0,)
        Labels of ``truth`` to ignore, together with their voxels.
    alpha : float, default: 0.5
        The weight of precision, from 0 to 1.

    Returns
    -------
    error, precision, recall : Scalar
        Lazy numbers: the error is 1 minus the F-score of precision and recall. NaN if no pair of
        voxels is included.

    Raises
    ------
    ValueError
        If shapes differ or ``alpha`` is out of range. On computation, if a label is negative, or
        the pairs of labels need more memory than is available.
    TypeError
        If ``truth`` or ``test`` is neither a volume nor an array, or has an unsupported dtype.

    See Also
    --------
    variation_of_information : another score.
    contingency : the underlying table.

    Notes
    -----
    One sweep. Counts of pairs of voxels are exact integers of any size. Precision and recall are
    defined as in scikit-image, which divides by the pairs of ``truth`` for precision.

    References
    ----------
    `skimage.metrics.adapted_rand_error`.

    Examples
    --------
    >>> truth, test = np.array([[1, 1, 2, 2]]), np.array([[1, 1, 1, 1]])
    >>> [round(float(x), 3) for x in bv.adapted_rand_error(truth, test)]
    [0.5, 1.0, 0.333]
    """

def add_levels(
    path: str | os.PathLike[str],
    levels: int | str = 'auto',
    *,
    method: str | None = None,
    factors: int | Sequence[int] | Sequence[Sequence[int]] | None = None,
    memory: int | float | str | None = None,
    workers: int | None = None,
    runner: Any = 'auto',
    options: Any = None,
    resume: bool = False,
    overwrite: bool = False,
    progress: bool | Callable[..., None] | None = None,
) -> tuple[Volume, ...]:
    """Add coarser levels to an OME-Zarr or precomputed volume that has only one level.

    Use it for volumes from other programs, or for volumes that were written without levels. The
    voxels do not change. Levels are written into the volume's folder, with the same chunks, shards
    and codec. Once all levels exist, they are added to the metadata in a single change.

    Parameters
    ----------
    path : str or os.PathLike
        The volume: a path, or a ``s3://`` or ``gs://`` URL.
    levels : int or str, default: "auto"
        The number of levels, including the volume itself. ``"auto"`` halves the axes with the
        smallest voxels until voxels are nearly isotropic. Then it halves all axes until a level has
        at most 256 voxels along each axis.
    method : {"mean", "mode", "nearest", "max", "min", "median"}, optional
        How each level is computed from the previous one. The default is the mode for labels and masks,
        otherwise the mean.
    factors : int, sequence of int, or a sequence of these, optional
        Number of voxels to combine into one: a number for all axes, or one per axis. A sequence of
        these has an entry for each level after the first.
    memory : int or str, optional
        Memory that this machine may use for the run, in bytes or as ``"2GiB"``; a quarter of its
        RAM by default.
    workers : int, optional
        Number of slabs in flight. By default one slab for every four cores, and more if much of the
        work on a slab is single-threaded and the memory suffices.
    runner : str, apache_beam.runners.PipelineRunner or None, default: "auto"
        ``"FnApiRunner"`` runs a Beam pipeline on this machine. None runs in the current process
        without Beam. Beam looks up any other runner by its name. ``"auto"`` chooses None, except for
        runs with ``options`` and runs that may use more than half of the free memory. Such runs use
        ``"FnApiRunner"``, so that the caller survives if memory runs out. `plan` shows the choice.
    options : PipelineOptions, list of str or dict, optional
        Beam's options, such as ``["--direct_running_mode=multi_processing"]``; not with
        ``runner=None``.
    resume : bool, default: False
        Whether to continue a stopped run from its complete slabs.
        In this case, levels that are already listed in the metadata are accepted.
    overwrite : bool, default: False
        Whether to replace existing files of levels that are not listed in the metadata.
    progress : bool or callable, optional
        Whether to show progress on standard error, or a function to call with the progress.

    Returns
    -------
    tuple of Volume
        The coarser levels, the finest first.

    Raises
    ------
    ValueError
        If the volume does not exist, already has levels, or has axes in a different order than t,
        c, z, y, x. If an option is out of range. In this case, nothing is started.
    FileExistsError
        If files of a level exist, and neither ``resume`` nor ``overwrite`` is requested.

    See Also
    --------
    downsample : computes the same voxels.
    Volume.to : writes a volume with levels from the start.

    Notes
    -----
    The volume is read once. Levels are computed from slabs in memory as far as possible. The journal of the
    run is the folder ``.levels.run`` next to the volume. Each level of a precomputed volume is a
    separate volume in a subfolder, and the ``info`` lists its scale.

    References
    ----------
    `tensorstore.downsample`.

    Examples
    --------
    >>> stored = bv.compute(bv.open(np.zeros((8, 64, 64), "u1")).to("em.ome.zarr"), runner=None)
    >>> [level.shape for level in bv.add_levels("em.ome.zarr", 3)]
    [(4, 32, 32), (2, 16, 16)]
    >>> bv.open("em.ome.zarr", level=2).shape
    (2, 16, 16)
    """

def adjust_gamma(
    volume: Volume,
    gamma: float = 1.0,
    gain: float = 1.0,
) -> Volume:
    """Correct the gamma: ``gain * x ** gamma`` for intensities x from 0 to 1.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes. Intensities range from 0 to 1, or to the maximum of
        an integer dtype. Negative intensities become NaN, or 0 for integers.
    gamma : float, default: 1.0
        The exponent, at least 0: below 1 the result is brighter, above 1 darker.
    gain : float, default: 1.0
        The factor.

    Returns
    -------
    Volume
        A volume of the input's dtype; integers are rounded half to even and clipped to the dtype's
        range. (scikit-image truncates.)

    Raises
    ------
    ValueError
        If a parameter is not finite or out of range.
    TypeError
        If ``volume`` is neither a volume nor an array, or is bool, or a parameter is not a number.

    Notes
    -----
    Pointwise: no halo, and no sweeps beyond those for the inputs.

    Integers of up to 16 bits are looked up in a table of all their values.

    References
    ----------
    `skimage.exposure.adjust_gamma`.

    Examples
    --------
    >>> np.asarray(bv.adjust_gamma(bv.open(np.array([[0, 51, 255]], "u1")), 0.5))
    array([[  0, 114, 255]], dtype=uint8)
    """

def adjust_log(
    volume: Volume,
    gain: float = 1.0,
    inv: bool = False,
) -> Volume:
    """Apply a logarithmic correction: ``gain * log2(1 + x)`` for intensities x from 0 to 1.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes. Intensities range from 0 to 1, or to the maximum of
        an integer dtype. Negative intensities become NaN, or 0 for integers.
    gain : float, default: 1.0
        The factor.
    inv : bool, default: False
        Whether to apply the inverse, ``gain * (2 ** x - 1)``.

    Returns
    -------
    Volume
        A volume of the input's dtype; integers are rounded half to even and clipped to the dtype's
        range. (scikit-image truncates.)

    Raises
    ------
    ValueError
        If a parameter is not finite or out of range.
    TypeError
        If ``volume`` is neither a volume nor an array, or is bool, or a parameter is not a number.

    Notes
    -----
    Pointwise: no halo, and no sweeps beyond those for the inputs.

    Integers of up to 16 bits are looked up in a table of all their values.

    References
    ----------
    `skimage.exposure.adjust_log`.

    Examples
    --------
    >>> np.asarray(bv.adjust_log(bv.open(np.array([[0, 51, 255]], "u1"))))
    array([[  0,  67, 255]], dtype=uint8)
    """

def adjust_sigmoid(
    volume: Volume,
    cutoff: float = 0.5,
    gain: float = 10.0,
    inv: bool = False,
) -> Volume:
    """Apply a sigmoid correction: ``1 / (1 + exp(gain * (cutoff - x)))`` for x from 0 to 1.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes. Intensities range from 0 to 1, or to the maximum of
        an integer dtype. Negative intensities become NaN, or 0 for integers.
    cutoff : float, default: 0.5
        The intensity that becomes 0.5.
    gain : float, default: 10.0
        The steepness of the curve.
    inv : bool, default: False
        Whether to subtract the result from 1.

    Returns
    -------
    Volume
        A volume of the input's dtype; integers are rounded half to even and clipped to the dtype's
        range. (scikit-image truncates.)

    Raises
    ------
    ValueError
        If a parameter is not finite or out of range.
    TypeError
        If ``volume`` is neither a volume nor an array, or is bool, or a parameter is not a number.

    Notes
    -----
    Pointwise: no halo, and no sweeps beyond those for the inputs.

    Integers of up to 16 bits are looked up in a table of all their values.

    References
    ----------
    `skimage.exposure.adjust_sigmoid`.

    Examples
    --------
    >>> np.asarray(bv.adjust_sigmoid(bv.open(np.array([[0, 102, 255]], "u1"))))
    array([[  2,  69, 253]], dtype=uint8)
    """

def affine_transform(
    volume: Volume,
    matrix: ArrayLike,
    offset: float | Sequence[float] = 0.0,
    output_shape: Sequence[int] | None = None,
    *,
    order: int = 1,
    mode: str = 'constant',
    cval: float = 0.0,
    prefilter: bool = True,
) -> Volume:
    """Apply an affine map to the grid of a volume.

    Position ``o`` in the result corresponds to position ``matrix @ o + offset`` in the volume.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    matrix : array_like of float
        A square matrix, its diagonal, or a homogeneous matrix with the offset in its last
        column.
    offset : float or sequence of float, default: 0.0
        The offset in voxels; one number for all axes or one per axis. A homogeneous matrix includes
        the offset.
    output_shape : sequence of int, optional
        Shape of the result; the shape of the volume by default.
    order : int, default: 1
        Order of interpolation, from 0 to 5: 0 is the nearest voxel, 1 is linear, 3 is cubic (scipy's
        default). Orders from 2 on compute splines through all voxels, in float64 as in scipy. Integers
        are clipped to the dtype's range.
    mode : str, default: "constant"
        How to extend the volume beyond its edges. ``"constant"`` and ``"grid-constant"`` use ``cval``,
        and ``"nearest"`` the outer voxels. ``"reflect"`` and ``"grid-mirror"`` repeat the outer voxel
        (c b a | a b c d), and ``"mirror"`` does not (d c b | a b c d). ``"grid-wrap"`` repeats the
        volume (b c d | a b c d), like `pad` with ``"wrap"``. With ``"constant"``, values beyond the
        centres of the outer voxels are not interpolated.
    cval : float, default: 0.0
        The value outside of the volume in the constant modes, a number of the volume's dtype.
    prefilter : bool, default: True
        Whether to compute the coefficients of the spline first, for orders from 2 on. Set it to False
        if ``volume`` is a result of `spline_filter`.

    Returns
    -------
    Volume
        A volume of the input's dtype, voxel size, unit and origin; integers are rounded half away
        from zero.

    Raises
    ------
    ValueError
        If a parameter is out of range, or the order of slices would be reversed; the message
        describes the remedy.
    TypeError
        If ``volume`` is neither a volume nor an array, or is bool with an order above 0.

    See Also
    --------
    rotate : rotates in a plane.
    flip, transpose : reverse and permute axes.

    Notes
    -----
    Each slice of the result keeps all slices of the volume that it needs in memory. Steep tilts are
    therefore computed in tiles, and the edges of tiles are read several times.

    The result is computed in the same sweep as the volume, and each window reads the slices that it
    needs.

    References
    ----------
    `scipy.ndimage.affine_transform`.

    Examples
    --------
    >>> v = bv.open(np.array([[1, 2], [3, 4]], "u1"))
    >>> np.asarray(bv.affine_transform(v, [[0, 1], [-1, 0]], offset=(0, 1)))
    array([[2, 4],
           [1, 3]], dtype=uint8)
    """

def agglomerate(
    edges: Table | Any,
    linkage: str = 'mean',
    *,
    threshold: float,
    quantile: float = 0.5,
    sizes: Table | Any = None,
    max_size: int | None = None,
) -> Table:
    """Merge regions in descending order of the affinities between them.

    Parameters
    ----------
    edges : Table, table, dict or path
        A row for each pair of touching regions, as from `region_adjacency` with ``affinities``. The
        table can be a lazy table, a pyarrow or pandas table, a dict of columns, or the path of
        Parquet files. ``label_a`` and ``label_b`` are the labels, integers from 0. Multiple rows
        for a pair are combined. Rows with an ``affinity_count`` of 0 are ignored.
    linkage : {"mean", "max", "min", "quantile"}, default: "mean"
        The score of two regions, computed from all faces between them. ``"mean"`` needs the columns
        ``affinity_sum`` (integers) and ``affinity_count``, ``"max"`` needs ``affinity_max``, and
        ``"min"`` needs ``affinity_min``. ``"quantile"`` needs ``affinity_histogram-0`` to ``-255``,
        as from ``bins=256`` for uint8 affinities.
    threshold : float
        Minimum score for merging two regions.
    quantile : float, default: 0.5
        The quantile, from 0 to 1: the smallest affinity that at least this fraction of the faces
        does not exceed (numpy's ``"inverted_cdf"``).
    sizes : Table, table, dict or path, optional
        Sizes of all regions: columns ``label`` and ``num_pixels``, as from `regionprops_table`,
        with one row for each label. By default each region has size 1.
    max_size : int, optional
        The maximum size of a region: larger merges are skipped.

    Returns
    -------
    Table
        A lazy table of merges, sorted by ``label_a``. In each merge, region ``label_a`` becomes a
        part of region ``label_b``. The merged region keeps ``label_b``, which is the larger label.
        ``score`` is the score of the merge, and ``size`` is the size of the merged region. Each
        label occurs at most once in ``label_a``.

    Raises
    ------
    ValueError
        If a parameter is out of range or the table lacks a column. On computation, if a region has
        no size, or a step of the merge needs more memory than is available.
    TypeError
        If ``edges`` or ``sizes`` is not a table, or a column does not contain numbers.

    See Also
    --------
    region_adjacency : computes edges.
    cut : computes segments from merges, for `relabel`.

    Notes
    -----
    No sweeps are needed except for ``edges``. The result is the same as for greedy merging: the
    best pair is merged, the boundaries of the two regions are combined, and so on. Scores are
    compared as fractions of integers. Pairs with equal scores are ordered by their larger label,
    then by their smaller label.

    Ranges of labels are merged in a tree. A worker holds the pairs that cross the borders of a
    range, about 100 to 230 bytes each (4,200 to 6,500 for quantiles). There are few such pairs if
    nearby regions have similar labels, as with `label` and `watershed`. In the worst case, one
    worker must hold the whole table; if memory is too small, an error is raised. Sums and counts in
    a worker must be below 2**62.

    References
    ----------
    Lu, Zlateski and Seung, "Large-scale image segmentation based on distributed clustering
    algorithms", arXiv:2106.10795; `higra.binary_partition_tree`.

    Examples
    --------
    >>> edges = {"label_a": [1, 2, 1], "label_b": [2, 3, 3], "affinity_sum": [9, 8, 2],
    ...          "affinity_count": [1, 1, 1]}
    >>> merges = bv.agglomerate(edges, threshold=4)
    >>> merges.to_pyarrow().to_pydict()
    {'label_a': [1, 2], 'label_b': [2, 3], 'score': [9.0, 5.0], 'size': [2, 3]}
    """

def all(
    volume: Volume,
    axis: Axis = None,
    *,
    mask: Volume | None = None,
    across: str | None = None,
) -> Scalar:
    """Compute whether all voxels are nonzero.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    axis : int, str or sequence of them, optional
        The axes to reduce: numbers as in numpy, or names. For example, ``"z"`` is a projection along z,
        and ``("y", "x")`` returns one number per slice. By default, all axes except time. ``"c"`` alone
        reduces the channels of each voxel, and ``"t"`` alone the time points; in these cases, the
        result is a volume of any size.
    mask : Volume, optional
        Only voxels with a nonzero mask are included; all voxels by default.
    across : {"t"}, optional
        Compute one number for all time points, as in ``v > bv.mean(v, across="t")``. By default, each
        time point has its own number. A volume without a time axis has one number in both cases.

    Returns
    -------
    Scalar
        The lazy bool. With ``axis``, a lazy array with the remaining axes.

    Raises
    ------
    ValueError
        If the axis does not exist, or ``mask`` has different axes.
    TypeError
        If ``volume`` is neither a volume nor an array.

    See Also
    --------
    any : returns whether any voxel is nonzero.

    Notes
    -----
    One sweep. NaN and infinite voxels count as nonzero.

    With ``axis``, the lazy array is limited to 256 MiB.

    References
    ----------
    `numpy.all`.

    Examples
    --------
    >>> np.asarray(bv.all(bv.open(np.array([[3, 1], [0, 2]])), axis="x"))
    array([ True, False])
    """

def any(
    volume: Volume,
    axis: Axis = None,
    *,
    mask: Volume | None = None,
    across: str | None = None,
) -> Scalar:
    """Compute whether any voxel is nonzero.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    axis : int, str or sequence of them, optional
        The axes to reduce: numbers as in numpy, or names. For example, ``"z"`` is a projection along z,
        and ``("y", "x")`` returns one number per slice. By default, all axes except time. ``"c"`` alone
        reduces the channels of each voxel, and ``"t"`` alone the time points; in these cases, the
        result is a volume of any size.
    mask : Volume, optional
        Only voxels with a nonzero mask are included; all voxels by default.
    across : {"t"}, optional
        Compute one number for all time points, as in ``v > bv.mean(v, across="t")``. By default, each
        time point has its own number. A volume without a time axis has one number in both cases.

    Returns
    -------
    Scalar
        The lazy bool. With ``axis``, a lazy array with the remaining axes.

    Raises
    ------
    ValueError
        If the axis does not exist, or ``mask`` has different axes.
    TypeError
        If ``volume`` is neither a volume nor an array.

    See Also
    --------
    all : returns whether all voxels are nonzero.

    Notes
    -----
    One sweep. NaN and infinite voxels count as nonzero.

    With ``axis``, the lazy array is limited to 256 MiB.

    References
    ----------
    `numpy.any`.

    Examples
    --------
    >>> np.asarray(bv.any(bv.open(np.array([[3, 0], [0, 0]])), axis="x"))
    array([ True, False])
    """

def apply_hysteresis_threshold(
    image: Volume,
    low: Any,
    high: Any,
) -> Volume:
    """Select voxels above ``low`` that are connected to voxels above ``high``.

    Parameters
    ----------
    image : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    low : number or Scalar
        The lower threshold, a number or a lazy number such as from `threshold_otsu`.
    high : number or Scalar
        The higher threshold.

    Returns
    -------
    Volume
        A bool volume.

    Raises
    ------
    ValueError
        If a parameter is out of range. On computation, before anything is written, if the components
        need more memory than is available. The message suggests slabs that would work.
    TypeError
        If the input is neither a volume nor an array, or has an unsupported dtype.

    See Also
    --------
    binary_propagation : uses any seeds and mask.

    Notes
    -----
    The result is identical to scikit-image's. Voxels that share a face are connected.

    Two sweeps: the first finds the components of every slab, and the second writes the result. Memory
    grows with the components of one slab, about 50 bytes each, and with the components on the faces of
    blocks of slabs. Memory does not grow with the total number of components.

    References
    ----------
    `skimage.filters.apply_hysteresis_threshold`.

    Examples
    --------
    >>> image = bv.open(np.array([[1, 2, 3, 2, 1, 2, 1]]))
    >>> np.asarray(bv.apply_hysteresis_threshold(image, 1, 2)).astype(int)
    array([[0, 1, 1, 1, 0, 0, 0]])
    """

def apply_transforms(
    volume: Volume,
    transforms: Any,
    *,
    bounding_box: bool = False,
    order: int = 1,
    mode: str = 'constant',
    cval: float = 0.0,
    displacements: Any = None,
) -> Volume:
    """Apply one transform to each slice, or to each frame of a movie.

    Use it to align serial sections or a drifting movie, with transforms from `register_slices`,
    `register_frames` or a different program.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    transforms : array_like, table, path or None
        For each slice, the position (y, x) of its first voxel in the aligned volume, in voxels.
        Alternatively, a matrix that maps indices to positions. A matrix is 2 x 2, or homogeneous
        with the position in its last column. A table can be the result of `register_slices`, a
        DataFrame or the path of a CSV file. The table has columns ``y`` and ``x``, and optionally
        the matrix in ``m_yy``, ``m_yx``, ``m_xy`` and ``m_xx``. If the volume has a time axis, pass
        one transform per frame instead, for all spatial axes. None applies only ``displacements``.
    bounding_box : bool, default: False
        Whether to enlarge the result to contain all transformed slices or frames, instead of
        keeping the shape.
    order : {0, 1}, default: 1
        The order of interpolation: 0 is the nearest voxel, 1 is linear. Positions within 1e-6 of an
        integer are rounded; voxels are then copied, not interpolated.
    mode : {"constant", "nearest"}, default: "constant"
        The value outside of a slice: ``cval``, or the nearest voxel of its edge.
    cval : float, default: 0.0
        The value outside of the volume in the constant modes, a number of the volume's dtype.
    displacements : table or path, optional
        The result of `register_elastic`, or the path of its CSV file. The voxel at position ``p`` of
        the aligned volume is taken from ``p + displacement`` of the slice that ``transforms`` alone
        would align. A row has the slice ``z``, the position ``y`` and ``x`` of a node, and its
        displacement ``d_y`` and ``d_x``, in voxels.

    Returns
    -------
    Volume
        A volume of the input's dtype; integers are rounded half away from zero. With
        ``bounding_box=True``, its origin is the position of its first voxel.

    Raises
    ------
    ValueError
        If a parameter is out of range, a matrix has no inverse, or the number of transforms does
        not match the slices or frames. If the volume has no voxels or no axes y and x. If
        ``displacements`` are not a complete grid for each slice, or the volume has a time axis.
    TypeError
        If ``volume`` is neither a volume nor an array, or is bool with ``order=1``.

    See Also
    --------
    register_slices : finds the transforms.
    register_elastic : finds the displacements.
    affine_transform : applies one transform to the whole volume.
    fuse : places tiles.

    Notes
    -----
    The result is computed in the same sweep as the volume, and each window reads the slices that it
    needs.
    Slices are transformed separately, so each is read once. Slabs of a frame read the voxels that
    any frame needs, so their overlap grows with the drift.

    Displacements between nodes are cubic B-splines with natural ends, and constant outside of the
    nodes. Voxels are interpolated once, for transforms and displacements together. The nodes are in
    memory: 16 bytes for each node and slice.

    References
    ----------
    `scipy.ndimage.affine_transform`, slice by slice or frame by frame, with the inverse of each
    matrix.

    Examples
    --------
    >>> v = bv.open(np.array([[[1, 2, 3]], [[2, 3, 0]]], "u1"))
    >>> np.asarray(bv.apply_transforms(v, [(0, 0), (0, 1)])).tolist()
    [[[1, 2, 3]], [[0, 2, 3]]]
    >>> bv.apply_transforms(v, [(0, 0), (0, 1)], bounding_box=True).shape
    (2, 1, 4)
    """

def arccos(
    volume: Volume | Scalar,
) -> Any:
    """Compute inverse cosines, from 0 to pi.

    Parameters
    ----------
    volume : Volume or Scalar
        A volume or a lazy number.

    Returns
    -------
    Volume or Scalar
        A result of the same kind, with numpy's dtype; NaN outside of -1 to 1.

    Raises
    ------
    TypeError
        If an input is not a volume, lazy number, array or number.

    Notes
    -----
    Pointwise: no halo, and no sweeps beyond those for the inputs.

    Results are the same on every processor; numpy's results depend on the processor. The error is below
    2 units in the last place of float64, or of the narrower dtype to which results are rounded.

    References
    ----------
    `numpy.arccos`; fdlibm, Sun Microsystems (1993).

    Examples
    --------
    >>> np.asarray(bv.arccos(bv.open(np.array([[0.0, 1.0]])))).round(4)
    array([[1.5708, 0.    ]])
    """

def arcsin(
    volume: Volume | Scalar,
) -> Any:
    """Compute inverse sines, from -pi/2 to pi/2.

    Parameters
    ----------
    volume : Volume or Scalar
        A volume or a lazy number.

    Returns
    -------
    Volume or Scalar
        A result of the same kind, with numpy's dtype; NaN outside of -1 to 1.

    Raises
    ------
    TypeError
        If an input is not a volume, lazy number, array or number.

    Notes
    -----
    Pointwise: no halo, and no sweeps beyond those for the inputs.

    Results are the same on every processor; numpy's results depend on the processor. The error is below
    2 units in the last place of float64, or of the narrower dtype to which results are rounded.

    References
    ----------
    `numpy.arcsin`; fdlibm, Sun Microsystems (1993).

    Examples
    --------
    >>> np.asarray(bv.arcsin(bv.open(np.array([[0.0, 1.0]])))).round(4)
    array([[0.    , 1.5708]])
    """

def arctan(
    volume: Volume | Scalar,
) -> Any:
    """Compute inverse tangents, from -pi/2 to pi/2.

    Parameters
    ----------
    volume : Volume or Scalar
        A volume or a lazy number.

    Returns
    -------
    Volume or Scalar
        A result of the same kind, with numpy's dtype.

    Raises
    ------
    TypeError
        If an input is not a volume, lazy number, array or number.

    Notes
    -----
    Pointwise: no halo, and no sweeps beyond those for the inputs.

    Results are the same on every processor; numpy's results depend on the processor. The error is below
    2 units in the last place of float64, or of the narrower dtype to which results are rounded.

    References
    ----------
    `numpy.arctan`; fdlibm, Sun Microsystems (1993).

    Examples
    --------
    >>> np.asarray(bv.arctan(bv.open(np.array([[0.0, 1.0]])))).round(4)
    array([[0.    , 0.7854]])
    """

def arctan2(
    y: Any,
    x: Any,
) -> Any:
    """Compute the angle of a point in the plane, from -pi to pi, in the correct quadrant.

    Parameters
    ----------
    y : Volume, Scalar, numpy.ndarray or number
        The vertical coordinate. At least one of the two is a volume or a lazy number.
    x : Volume, Scalar, numpy.ndarray or number
        The horizontal coordinate, with the same shape, or a number.

    Returns
    -------
    Volume or Scalar
        The angle in radians, with numpy's dtype.

    Raises
    ------
    ValueError
        If shapes or axes differ.
    TypeError
        If an input is not a volume, lazy number, array or number.

    Notes
    -----
    Pointwise: no halo, and no sweeps beyond those for the inputs.

    Results are the same on every processor; numpy's results depend on the processor. The error is below
    2 units in the last place of float64, or of the narrower dtype to which results are rounded.

    References
    ----------
    `numpy.arctan2`; fdlibm, Sun Microsystems (1993).

    Examples
    --------
    >>> y = bv.open(np.array([[0.0, 1.0, -1.0]]))
    >>> np.asarray(bv.arctan2(y, -1.0)).round(4)
    array([[ 3.1416,  2.3562, -2.3562]])
    """

def area_closing(
    image: Volume,
    area_threshold: int | str = 64,
    connectivity: int = 1,
) -> Volume:
    """Fill dark components with fewer voxels than a threshold, at each grey level.

    Parameters
    ----------
    image : Volume or numpy.ndarray
        A volume of bool or numbers; NaN counts as the largest.
    area_threshold : int or str, default: 64
        The smallest size to keep: a number of voxels, or a physical volume such as ``"0.001
        um^3"``.
    connectivity : {1, 2, 3}, default: 1
        Which voxels are neighbours: 1 for voxels that share a face, 2 to include shared edges, 3 to
        include shared corners.

    Returns
    -------
    Volume
        A volume of the input's dtype. Each voxel gets the lowest level at which it is in a dark
        component of this size. If there is no such level, it gets the highest level of the volume.

    Raises
    ------
    ValueError
        If a parameter is out of range. On computation, before anything is written, if the components
        need more memory than is available. The message suggests slabs that would work.
    TypeError
        If the input is neither a volume nor an array, or has an unsupported dtype.

    See Also
    --------
    remove_small_holes : does the same for masks, also with a structure.
    area_opening : removes small bright components.

    References
    ----------
    `skimage.morphology.area_closing`.

    Examples
    --------
    >>> np.asarray(bv.area_closing(np.array([[7, 2, 5, 1, 1]]), 2))
    array([[7, 5, 5, 1, 1]])
    """

def area_opening(
    image: Volume,
    area_threshold: int | str = 64,
    connectivity: int = 1,
) -> Volume:
    """Remove bright components with fewer voxels than a threshold, at each grey level.

    Parameters
    ----------
    image : Volume or numpy.ndarray
        A volume of bool or numbers; NaN counts as the largest.
    area_threshold : int or str, default: 64
        The smallest size to keep: a number of voxels, or a physical volume such as ``"0.001
        um^3"``.
    connectivity : {1, 2, 3}, default: 1
        Which voxels are neighbours: 1 for voxels that share a face, 2 to include shared edges, 3 to
        include shared corners.

    Returns
    -------
    Volume
        A volume of the input's dtype. Each voxel gets the highest level at which it is in a
        component of this size. If there is no such level, it gets the lowest level of the volume.

    Raises
    ------
    ValueError
        If a parameter is out of range. On computation, before anything is written, if the components
        need more memory than is available. The message suggests slabs that would work.
    TypeError
        If the input is neither a volume nor an array, or has an unsupported dtype.

    See Also
    --------
    remove_small_objects : does the same for masks, and also selects labels.
    diameter_opening : removes components by their extent.
    area_closing : fills small dark components.

    Notes
    -----
    The result is identical to scikit-image's. Masks need two sweeps, for any threshold. Grey values
    need one sweep, with a halo of the threshold minus 1, because smaller components extend over
    fewer voxels along each axis. Because of the halo, memory and time grow with the cube of the
    threshold. For large thresholds, use a mask, or `h_maxima`.

    References
    ----------
    `skimage.morphology.area_opening`; A. Meijster, M. Wilkinson, "A comparison of algorithms for
    connected set openings and closings", IEEE Transactions on Pattern Analysis and Machine
    Intelligence 24 (2002).

    Examples
    --------
    >>> np.asarray(bv.area_opening(np.array([[7, 2, 5, 5, 2]]), 2))
    array([[2, 2, 5, 5, 2]])
    """

def argmax(
    volume: Volume,
    axis: int | str | None = None,
    *,
    mask: Volume | None = None,
    nan: str = 'raise',
) -> Scalar:
    """Find the index of the largest voxel along an axis, such as the height of a surface.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    axis : int or str, optional
        The axis, a number as in numpy or a name such as ``"z"``. By default, the result is an index
        into the flattened volume, as in numpy.
    mask : Volume, optional
        Only voxels with a nonzero mask are included; all voxels by default.
    nan : {"raise", "omit"}, default: "raise"
        Whether NaN and infinite voxels raise an error on computation or are ignored.

    Returns
    -------
    Scalar
        A lazy int64 array with the remaining axes, or a lazy number: the index of the largest
        voxel. If several voxels are equal, the first is selected. (For a line with NaN, numpy
        returns the first NaN.)

    Raises
    ------
    ValueError
        If a parameter is out of range. On computation, if an included voxel is NaN or infinite and
        ``nan="raise"``, or no voxel is included.
    TypeError
        If ``volume`` is neither a volume nor an array.

    See Also
    --------
    maximum_position : returns an index for each axis.
    max : computes the largest voxel, also along an axis.

    Notes
    -----
    One sweep, shared with `max`.

    With ``axis``, the lazy array is limited to 256 MiB.

    Partial results of slabs are merged exactly, so the result is the same, bit for bit, for any
    division into slabs.

    References
    ----------
    `numpy.argmax`.

    Examples
    --------
    >>> v = bv.open(np.array([[3, 1], [1, 4]]))
    >>> np.asarray(bv.argmax(v, axis="y")), int(bv.argmax(v))
    (array([0, 1]), 3)
    """

def argmin(
    volume: Volume,
    axis: int | str | None = None,
    *,
    mask: Volume | None = None,
    nan: str = 'raise',
) -> Scalar:
    """Find the index of the smallest voxel along an axis.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    axis : int or str, optional
        The axis, a number as in numpy or a name such as ``"z"``. By default, the result is an index
        into the flattened volume, as in numpy.
    mask : Volume, optional
        Only voxels with a nonzero mask are included; all voxels by default.
    nan : {"raise", "omit"}, default: "raise"
        Whether NaN and infinite voxels raise an error on computation or are ignored.

    Returns
    -------
    Scalar
        A lazy int64 array with the remaining axes, or a lazy number: the index of the smallest
        voxel. If several voxels are equal, the first is selected. (For a line with NaN, numpy
        returns the first NaN.)

    Raises
    ------
    ValueError
        If a parameter is out of range. On computation, if an included voxel is NaN or infinite and
        ``nan="raise"``, or no voxel is included.
    TypeError
        If ``volume`` is neither a volume nor an array.

    See Also
    --------
    minimum_position : returns an index for each axis.
    min : computes the smallest voxel, also along an axis.

    Notes
    -----
    One sweep, shared with `min`.

    With ``axis``, the lazy array is limited to 256 MiB.

    Partial results of slabs are merged exactly, so the result is the same, bit for bit, for any
    division into slabs.

    References
    ----------
    `numpy.argmin`.

    Examples
    --------
    >>> v = bv.open(np.array([[3, 1], [1, 4]]))
    >>> np.asarray(bv.argmin(v, axis="y")), int(bv.argmin(v))
    (array([1, 0]), 1)
    """

def autolevel(
    volume: Volume,
    size: int | Sequence[int] | None = None,
    footprint: ArrayLike | None = None,
    *,
    axes: int | Sequence[int] | None = None,
) -> Volume:
    """Stretch the contrast locally: the minimum around a voxel becomes 0, the maximum full scale.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes: unsigned integers of up to 32 bits, or floats.
    size : int or sequence of int, optional
        Extent of the box in voxels; one value for all axes or one per axis. Pass either ``size`` or
        ``footprint``.
    footprint : array_like of bool, optional
        The footprint, with one dimension per axis, such as from `ball`.
    axes : int or sequence of int, optional
        Axes to work along, counted from 0, or backwards from -1; all axes by default.

    Returns
    -------
    Volume
        A volume of the input's dtype; 0 where all voxels of the neighbourhood are equal. Floats
        range from 0 to 1.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis. If not exactly one of
        ``size`` and ``footprint`` is given.
    TypeError
        If ``volume`` is neither a volume nor an array, or has an unsupported dtype.

    See Also
    --------
    enhance_contrast : selects the minimum or the maximum.
    equalize_adapthist : equalizes local histograms.

    Notes
    -----
    Voxels beyond the edges are ignored. For uint8, the result equals scikit-image's; it scales
    uint16 to the maximum of the image instead.

    One sweep. The halo is the reach of the footprint: along each axis, a slab reads ``size - 1`` more
    voxels than it writes. A window contains the same number of additional slices.

    References
    ----------
    `skimage.filters.rank.autolevel`.

    Examples
    --------
    >>> v = bv.open(np.array([[5, 5, 5, 1, 2, 3]], "u1"))
    >>> np.asarray(bv.autolevel(v, (1, 3)))
    array([[  0,   0, 255,   0, 127, 255]], dtype=uint8)
    """

def ball(
    radius: float | Sequence[float],
    ndim: int = 3,
) -> np.ndarray:
    """Make a footprint in the shape of a ball or ellipsoid.

    Parameters
    ----------
    radius : float or sequence of float
        Radius in voxels; one number for a ball, or one for each axis of an ellipsoid.
    ndim : int, default: 3
        Number of axes for a single ``radius``: 2 makes a disk.

    Returns
    -------
    numpy.ndarray
        A bool array with ``2 * int(radius) + 1`` voxels along each axis.

    Raises
    ------
    ValueError
        If a radius is negative or not a number, there are not 1 to 3 axes, or the footprint would
        have more than 2**24 voxels.

    See Also
    --------
    cube : makes a cube.
    cross : makes arms along the axes.

    References
    ----------
    `skimage.morphology.ball`, `skimage.morphology.disk`.

    Examples
    --------
    >>> bv.ball(1, ndim=2).astype(int)
    array([[0, 1, 0],
           [1, 1, 1],
           [0, 1, 0]])
    """

def binary_closing(
    volume: Volume,
    structure: ArrayLike | None = None,
    iterations: int = 1,
    mask: Volume | None = None,
    border_value: int | str = 0,
    origin: int | Sequence[int] = 0,
    *,
    axes: int | Sequence[int] | None = None,
) -> Volume:
    """Close a mask: dilate it, then erode it.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes. Nonzero voxels are foreground.
    structure : array_like of bool, optional
        Structuring element, with one dimension per axis. By default a cross of radius 1: the voxel and
        its neighbours that share a face.
    iterations : int, default: 1
        Number of repetitions, from 1 to 1000. Scipy's 0, which repeats until nothing changes, is not
        available; use `binary_propagation`.
    mask : Volume, optional
        Only voxels with a nonzero mask change.
    border_value : {0, 1, "ignore"}, default: 0
        How to extend the volume beyond its edges: by background, by foreground, or without effect,
        as in scikit-image.
    origin : int or sequence of int, default: 0
        Shift of the footprint in voxels, as in `scipy.ndimage`: a positive number moves it towards
        lower indices. One value for all axes or one per axis.
    axes : int or sequence of int, optional
        Axes to work along, counted from 0, or backwards from -1; all axes by default.

    Returns
    -------
    Volume
        A bool volume.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis.
    TypeError
        If ``volume`` is neither a volume nor an array, or a parameter has a wrong type.

    See Also
    --------
    binary_opening : erodes, then dilates.
    binary_fill_holes : fills holes of any size.

    Notes
    -----
    The result is identical to scipy's. For balls and ellipsoids from `ball`, the time is
    proportional to the radius, not to the number of voxels.

    One sweep. The halo is twice the reach of the structuring element for each iteration: a window
    contains the slices for both steps.

    References
    ----------
    `scipy.ndimage.binary_closing`.

    Examples
    --------
    >>> row = bv.open(np.array([[0, 1, 0, 1, 0]]))
    >>> np.asarray(bv.binary_closing(row, np.ones((1, 3)))).astype(int)
    array([[0, 1, 1, 1, 0]])
    """

def binary_dilation(
    volume: Volume,
    structure: ArrayLike | None = None,
    iterations: int = 1,
    mask: Volume | None = None,
    border_value: int | str = 0,
    origin: int | Sequence[int] = 0,
    *,
    axes: int | Sequence[int] | None = None,
) -> Volume:
    """Dilate the foreground of a mask.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes. Nonzero voxels are foreground.
    structure : array_like of bool, optional
        Structuring element, with one dimension per axis. By default a cross of radius 1: the voxel and
        its neighbours that share a face.
    iterations : int, default: 1
        Number of repetitions, from 1 to 1000. Scipy's 0, which repeats until nothing changes, is not
        available; use `binary_propagation`.
    mask : Volume, optional
        Only voxels with a nonzero mask change.
    border_value : {0, 1, "ignore"}, default: 0
        How to extend the volume beyond its edges: by background, by foreground, or without effect,
        as in scikit-image.
    origin : int or sequence of int, default: 0
        Shift of the footprint in voxels, as in `scipy.ndimage`: a positive number moves it towards
        lower indices. One value for all axes or one per axis.
    axes : int or sequence of int, optional
        Axes to work along, counted from 0, or backwards from -1; all axes by default.

    Returns
    -------
    Volume
        A bool volume.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis.
    TypeError
        If ``volume`` is neither a volume nor an array, or a parameter has a wrong type.

    See Also
    --------
    grey_dilation : supports any volume.
    binary_propagation : dilates within a mask until nothing changes.

    Notes
    -----
    The result is identical to scipy's. For balls and ellipsoids from `ball`, the time is
    proportional to the radius, not to the number of voxels.

    One sweep. The halo is the reach of the structuring element for each iteration.

    References
    ----------
    `scipy.ndimage.binary_dilation`.

    Examples
    --------
    >>> seed = bv.open(np.array([[0, 0, 1, 0, 0]]))
    >>> np.asarray(bv.binary_dilation(seed, np.ones((1, 3)))).astype(int)
    array([[0, 1, 1, 1, 0]])
    """

def binary_erosion(
    volume: Volume,
    structure: ArrayLike | None = None,
    iterations: int = 1,
    mask: Volume | None = None,
    border_value: int | str = 0,
    origin: int | Sequence[int] = 0,
    *,
    axes: int | Sequence[int] | None = None,
) -> Volume:
    """Erode the foreground of a mask.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes. Nonzero voxels are foreground.
    structure : array_like of bool, optional
        Structuring element, with one dimension per axis. By default a cross of radius 1: the voxel and
        its neighbours that share a face.
    iterations : int, default: 1
        Number of repetitions, from 1 to 1000. Scipy's 0, which repeats until nothing changes, is not
        available; use `binary_propagation`.
    mask : Volume, optional
        Only voxels with a nonzero mask change.
    border_value : {0, 1, "ignore"}, default: 0
        How to extend the volume beyond its edges: by background, by foreground, or without effect,
        as in scikit-image.
    origin : int or sequence of int, default: 0
        Shift of the footprint in voxels, as in `scipy.ndimage`: a positive number moves it towards
        lower indices. One value for all axes or one per axis.
    axes : int or sequence of int, optional
        Axes to work along, counted from 0, or backwards from -1; all axes by default.

    Returns
    -------
    Volume
        A bool volume.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis.
    TypeError
        If ``volume`` is neither a volume nor an array, or a parameter has a wrong type.

    See Also
    --------
    grey_erosion : supports any volume.
    distance_transform_edt : its threshold is an erosion by a large ball.

    Notes
    -----
    The result is identical to scipy's. For balls and ellipsoids from `ball`, the time is
    proportional to the radius, not to the number of voxels.

    One sweep. The halo is the reach of the structuring element for each iteration.

    References
    ----------
    `scipy.ndimage.binary_erosion`.

    Examples
    --------
    >>> np.asarray(bv.binary_erosion(bv.open(np.ones((1, 5), bool)), np.ones((1, 3)))).astype(int)
    array([[0, 1, 1, 1, 0]])
    """

def binary_fill_holes(
    mask: Volume,
    structure: Any = None,
) -> Volume:
    """Fill the background that is not connected to the outside.

    Parameters
    ----------
    mask : Volume or numpy.ndarray
        A volume or an array with up to three axes. Nonzero voxels are foreground.
    structure : array_like, optional
        The neighbours of a background voxel: an array with 3 entries along each axis, symmetric
        about the centre; by default all neighbours that share a face.

    Returns
    -------
    Volume
        A bool volume.

    Raises
    ------
    ValueError
        If a parameter is out of range. On computation, before anything is written, if the components
        need more memory than is available. The message suggests slabs that would work.
    TypeError
        If the input is neither a volume nor an array, or has an unsupported dtype.

    See Also
    --------
    remove_small_holes : fills holes up to a size.

    Notes
    -----
    The result is identical to scipy's.

    Two sweeps: the first finds the components of every slab, and the second writes the result. Memory
    grows with the components of one slab, about 50 bytes each, and with the components on the faces of
    blocks of slabs. Memory does not grow with the total number of components.

    References
    ----------
    `scipy.ndimage.binary_fill_holes`.

    Examples
    --------
    >>> ring = bv.open(np.array([[1, 1, 1], [1, 0, 1], [1, 1, 1]]))
    >>> bool(np.asarray(bv.binary_fill_holes(ring)).all())
    True
    """

def binary_hit_or_miss(
    volume: Volume,
    structure1: ArrayLike | None = None,
    structure2: ArrayLike | None = None,
    origin1: int | Sequence[int] = 0,
    origin2: int | Sequence[int] | None = None,
    *,
    axes: int | Sequence[int] | None = None,
) -> Volume:
    """Find positions where one pattern matches the foreground and a second one matches the background.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes. Nonzero voxels are foreground.
    structure1 : array_like of bool, optional
        The pattern of the foreground, with one dimension per axis; by default the cross of radius
        1.
    structure2 : array_like of bool, optional
        The pattern of the background; by default the complement of ``structure1``.
    origin1 : int or sequence of int, default: 0
        Shift of ``structure1`` in voxels.
    origin2 : int or sequence of int, optional
        Shift of ``structure2``; ``origin1`` by default.
    axes : int or sequence of int, optional
        Axes to work along, counted from 0, or backwards from -1; all axes by default.

    Returns
    -------
    Volume
        A bool volume.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis.
    TypeError
        If ``volume`` is neither a volume nor an array, or a parameter has a wrong type.

    Notes
    -----
    The result is identical to scipy's.

    One sweep. The halo is the reach of the patterns.

    References
    ----------
    `scipy.ndimage.binary_hit_or_miss`.

    Examples
    --------
    >>> row = bv.open(np.array([[1, 0, 1, 1, 0]]))
    >>> np.asarray(bv.binary_hit_or_miss(row, [[0, 1, 1]])).astype(int)
    array([[0, 0, 1, 0, 0]])
    """

def binary_opening(
    volume: Volume,
    structure: ArrayLike | None = None,
    iterations: int = 1,
    mask: Volume | None = None,
    border_value: int | str = 0,
    origin: int | Sequence[int] = 0,
    *,
    axes: int | Sequence[int] | None = None,
) -> Volume:
    """Open a mask: erode it, then dilate it.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes. Nonzero voxels are foreground.
    structure : array_like of bool, optional
        Structuring element, with one dimension per axis. By default a cross of radius 1: the voxel and
        its neighbours that share a face.
    iterations : int, default: 1
        Number of repetitions, from 1 to 1000. Scipy's 0, which repeats until nothing changes, is not
        available; use `binary_propagation`.
    mask : Volume, optional
        Only voxels with a nonzero mask change.
    border_value : {0, 1, "ignore"}, default: 0
        How to extend the volume beyond its edges: by background, by foreground, or without effect,
        as in scikit-image.
    origin : int or sequence of int, default: 0
        Shift of the footprint in voxels, as in `scipy.ndimage`: a positive number moves it towards
        lower indices. One value for all axes or one per axis.
    axes : int or sequence of int, optional
        Axes to work along, counted from 0, or backwards from -1; all axes by default.

    Returns
    -------
    Volume
        A bool volume.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis.
    TypeError
        If ``volume`` is neither a volume nor an array, or a parameter has a wrong type.

    See Also
    --------
    binary_closing : dilates, then erodes.
    remove_small_objects : removes small objects, and keeps the shape of others.

    Notes
    -----
    The result is identical to scipy's. For balls and ellipsoids from `ball`, the time is
    proportional to the radius, not to the number of voxels.

    One sweep. The halo is twice the reach of the structuring element for each iteration: a window
    contains the slices for both steps.

    References
    ----------
    `scipy.ndimage.binary_opening`.

    Examples
    --------
    >>> row = bv.open(np.array([[1, 0, 1, 1, 1]]))
    >>> np.asarray(bv.binary_opening(row, np.ones((1, 3)))).astype(int)
    array([[0, 0, 1, 1, 1]])
    """

def binary_propagation(
    seed: Volume,
    structure: Any = None,
    mask: Volume | None = None,
) -> Volume:
    """Grow seeds within a mask.

    Parameters
    ----------
    seed : Volume or numpy.ndarray
        Nonzero voxels are seeds, which are kept even outside of the mask.
    structure : array_like, optional
        The neighbours of a voxel: an array with 3 entries along each axis, symmetric about the
        centre; by default all neighbours that share a face.
    mask : Volume or numpy.ndarray, optional
        Seeds grow where the mask is nonzero; everywhere by default.

    Returns
    -------
    Volume
        A bool volume.

    Raises
    ------
    ValueError
        If a parameter is out of range. On computation, before anything is written, if the components
        need more memory than is available. The message suggests slabs that would work.
    TypeError
        If the input is neither a volume nor an array, or has an unsupported dtype.

    See Also
    --------
    apply_hysteresis_threshold : uses seeds and mask from two thresholds.
    binary_dilation : grows by a number of steps.

    Notes
    -----
    The result is identical to scipy's.

    Two sweeps: the first finds the components of every slab, and the second writes the result. Memory
    grows with the components of one slab, about 50 bytes each, and with the components on the faces of
    blocks of slabs. Memory does not grow with the total number of components.

    References
    ----------
    `scipy.ndimage.binary_propagation`.

    Examples
    --------
    >>> seed, mask = np.array([[1, 0, 0, 0, 0]]), np.array([[1, 1, 0, 1, 1]])
    >>> np.asarray(bv.binary_propagation(bv.open(seed), mask=bv.open(mask))).astype(int)
    array([[1, 1, 0, 0, 0]])
    """

def black_tophat(
    volume: Volume,
    size: int | Sequence[int] | None = None,
    footprint: ArrayLike | None = None,
    structure: ArrayLike | None = None,
    *,
    mode: str | Sequence[str] = 'reflect',
    cval: float = 0.0,
    origin: int | Sequence[int] = 0,
    axes: int | Sequence[int] | None = None,
) -> Volume:
    """Extract dark structures smaller than the structuring element: the closing minus the volume.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    size : int or sequence of int, optional
        Extent of a box in voxels, which is used as a flat structuring element; one value for all axes
        or one per axis. Pass ``size``, ``footprint`` or ``structure``.
    footprint : array_like of bool, optional
        The footprint, with one dimension per axis, such as from `ball`.
    structure : array_like of float, optional
        Heights of a structuring element that is not flat, with one dimension per axis. Heights outside
        of ``footprint`` are ignored.
    mode : str or sequence of str, default: "reflect"
        How to extend the volume beyond its edges, as in `scipy.ndimage`; one mode for all axes or one
        per axis. ``"reflect"`` and ``"grid-mirror"`` repeat the outer voxel (c b a | a b c d | d c b), and
        ``"mirror"`` does not (d c b | a b c d | c b a). ``"nearest"`` extends it (a a a | a b c d | d d
        d), ``"constant"`` and ``"grid-constant"`` use ``cval``, and ``"wrap"`` and ``"grid-wrap"``
        repeat the volume (b c d | a b c d | a b c).
    cval : float, default: 0.0
        The value beyond the edges if ``mode`` is ``"constant"`` or ``"grid-constant"``.
    origin : int or sequence of int, default: 0
        Shift of the footprint in voxels, as in `scipy.ndimage`: a positive number moves it towards
        lower indices. One value for all axes or one per axis.
    axes : int or sequence of int, optional
        Axes to work along, counted from 0, or backwards from -1; all axes by default.

    Returns
    -------
    Volume
        A volume of the input's dtype. The result is NaN exactly where the footprint contains a NaN.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis. If ``size``,
        ``footprint`` and ``structure`` are all missing, or the volume's dtype cannot hold ``cval``. If
        ``structure`` is combined with several modes, or with a footprint of a different shape.
    TypeError
        If ``volume`` is neither a volume nor an array, or a parameter has a wrong type.

    See Also
    --------
    white_tophat : extracts bright structures.
    grey_closing : is the minuend.

    Notes
    -----
    The result is identical to scipy's. For a box the time is independent of its size.

    One sweep. The halo is twice the reach of the structuring element: a window contains the slices for
    both erosion and dilation.

    References
    ----------
    `scipy.ndimage.black_tophat`.

    Examples
    --------
    >>> np.asarray(bv.black_tophat(bv.open(np.array([[9, 1, 9, 5, 5, 5]])), (1, 3)))
    array([[0, 8, 0, 0, 0, 0]])
    """

def blob_dog(
    image: Volume,
    min_sigma: Sigma = 1,
    max_sigma: Sigma = 50,
    sigma_ratio: float = 1.6,
    threshold: float | None = None,
    overlap: float = 0.5,
    *,
    threshold_rel: float | None = None,
    exclude_border: bool | int | Sequence[int] = False,
) -> Table:
    """Find bright blobs and their sizes by differences of Gaussians, faster than `blob_log`.

    Parameters
    ----------
    image : Volume or numpy.ndarray
        A volume or an array with one channel and up to three axes. Intensities keep their scale.
    min_sigma : float, str or sequence of them, default: 1
        Smallest standard deviation of a blob, in voxels or as a length such as ``"150 nm"``.
        Lengths need a volume with a voxel size. One value for all axes or one per axis. The radius
        of a blob is about ``sqrt(axes) * sigma``.
    max_sigma : float, str or sequence of them, default: 50
        Largest standard deviation of a blob.
    sigma_ratio : float, default: 1.6
        The ratio of the standard deviations of successive scales, above 1.
    threshold : float, optional
        Minimum response of a blob. By default 0.5 for floats, and 0.5 times the dtype's maximum for
        integers; with ``threshold_rel``, there is no minimum by default.
    overlap : float, default: 0.5
        If two blobs overlap by more than this fraction of the smaller one, remove the smaller one.
    threshold_rel : float, optional
        An additional minimum, as a fraction of the largest response.
    exclude_border : bool, int or sequence of int, default: False
        Minimum distance of blobs from the border, in voxels; False is 0.

    Returns
    -------
    Table
        A lazy table with a row for each blob. The columns are ``rank`` (1, 2, ... from the
        strongest blob), the position (``z``, ``y``, ``x``), ``sigma`` in voxels, and ``intensity``,
        which is the response. If a sigma is given for each axis or as a length, there are columns
        ``sigma_z``, ... instead of ``sigma``.

    Raises
    ------
    ValueError
        If a parameter is out of range. On computation, if the peaks need more memory than is
        available.
    TypeError
        If ``image`` is neither a volume nor an array, or a parameter has a wrong type.

    See Also
    --------
    blob_log : finer scales.
    difference_of_gaussians : the response of one scale.

    Notes
    -----
    Blobs and their order are identical to scikit-image's, except for rounding and chains of
    overlapping blobs. In such chains, pairs are compared in the order of ranks. Pruning considers
    all blobs of the volume, so it does not depend on slabs.

    One sweep, or two with ``threshold_rel`` or without ``threshold``. The halo is four times the
    largest scale, up to ``sigma_ratio * max_sigma``. Peaks are compared in a tree, and a step needs
    about 300 bytes for each of its peaks.

    References
    ----------
    `skimage.feature.blob_dog`; D. G. Lowe, "Distinctive image features from scale-invariant
    keypoints", International Journal of Computer Vision 60 (2004).

    Examples
    --------
    >>> image = np.zeros((20, 24))
    >>> image[8:11, 5:8], image[9:16, 14:21] = 1, 1
    >>> table = bv.blob_dog(image, 1, 4, threshold=0.2)
    >>> np.stack([table["y"], table["x"]], axis=1)
    array([[ 9,  6],
           [12, 17]])
    """

def blob_doh(
    image: Volume,
    min_sigma: float | str = 1,
    max_sigma: float | str = 30,
    num_sigma: int = 10,
    threshold: float | None = 0.01,
    overlap: float = 0.5,
    log_scale: bool = False,
    *,
    threshold_rel: float | None = None,
    exclude_border: bool | int | Sequence[int] = False,
) -> Table:
    """Find bright and dark blobs of a plane, and their sizes, by the determinant of the Hessian matrix.

    Parameters
    ----------
    image : Volume or numpy.ndarray
        A volume or an array with one channel and two axes. Intensities keep their scale.
    min_sigma : float or str, default: 1
        Smallest standard deviation of a blob, at least 1, in voxels or as a length such as ``"150
        nm"``. Lengths need a volume with a voxel size. The radius of a blob is about ``sigma``.
    max_sigma : float or str, default: 30
        Largest standard deviation of a blob.
    num_sigma : int, default: 10
        The number of scales from ``min_sigma`` to ``max_sigma``, up to 100.
    threshold : float or None, default: 0.01
        Minimum response of a blob, times the square of the dtype's maximum for integers. None is
        the smallest response.
    overlap : float, default: 0.5
        If two blobs overlap by more than this fraction of the smaller one, remove the smaller one.
    log_scale : bool, default: False
        Whether scales have equal ratios instead of equal differences.
    threshold_rel : float, optional
        An additional minimum, as a fraction of the largest response.
    exclude_border : bool, int or sequence of int, default: False
        Minimum distance of blobs from the border, in voxels; False is 0.

    Returns
    -------
    Table
        A lazy table with a row for each blob. The columns are ``rank`` (1, 2, ... from the
        strongest blob), the position (``y``, ``x``), ``sigma`` in voxels, and ``intensity``, which
        is the response.

    Raises
    ------
    ValueError
        If a parameter is out of range. On computation, if the peaks need more memory than is
        available.
    TypeError
        If ``image`` is neither a volume nor an array, or a parameter has a wrong type.

    See Also
    --------
    blob_log : volumes, small blobs, and sigmas for each axis.

    Notes
    -----
    Blobs and their order are identical to scikit-image's, except for rounding and chains of
    overlapping blobs. In such chains, pairs are compared in the order of ranks. As in scikit-image,
    derivatives are differences of sums over boxes. At the edges, the image is reflected;
    scikit-image moves or clips the boxes, and replaces negative sums with 0.

    One sweep, or two with ``threshold_rel`` or without ``threshold``. The halo is about 1.5 times
    ``max_sigma``. Peaks are compared in a tree, and a step needs about 300 bytes for each of its
    peaks.

    References
    ----------
    `skimage.feature.blob_doh`; H. Bay et al., "SURF: Speeded up robust features", ECCV 2006.

    Examples
    --------
    >>> image = np.zeros((40, 48))
    >>> image[8:17, 5:14], image[20:35, 24:39] = 1, -1
    >>> table = bv.blob_doh(image, 3, 9, num_sigma=7)
    >>> np.stack([table[name] for name in ("y", "x", "sigma")], axis=1)
    array([[12.,  8.,  6.],
           [27., 30.,  9.]])
    """

def blob_log(
    image: Volume,
    min_sigma: Sigma = 1,
    max_sigma: Sigma = 50,
    num_sigma: int = 10,
    threshold: float | None = None,
    overlap: float = 0.5,
    log_scale: bool = False,
    *,
    threshold_rel: float | None = None,
    exclude_border: bool | int | Sequence[int] = False,
) -> Table:
    """Find bright blobs and their sizes by the Laplacian of Gaussians.

    Use it to count and measure round objects, such as nuclei or spots, without a segmentation.

    Parameters
    ----------
    image : Volume or numpy.ndarray
        A volume or an array with one channel and up to three axes. Intensities keep their scale.
    min_sigma : float, str or sequence of them, default: 1
        Smallest standard deviation of a blob, in voxels or as a length such as ``"150 nm"``.
        Lengths need a volume with a voxel size. One value for all axes or one per axis. The radius
        of a blob is about ``sqrt(axes) * sigma``.
    max_sigma : float, str or sequence of them, default: 50
        Largest standard deviation of a blob.
    num_sigma : int, default: 10
        The number of scales from ``min_sigma`` to ``max_sigma``, up to 100.
    threshold : float, optional
        Minimum response of a blob. By default 0.2 for floats, and 0.2 times the dtype's maximum for
        integers; with ``threshold_rel``, there is no minimum by default.
    overlap : float, default: 0.5
        If two blobs overlap by more than this fraction of the smaller one, remove the smaller one.
    log_scale : bool, default: False
        Whether scales have equal ratios instead of equal differences.
    threshold_rel : float, optional
        An additional minimum, as a fraction of the largest response.
    exclude_border : bool, int or sequence of int, default: False
        Minimum distance of blobs from the border, in voxels; False is 0.

    Returns
    -------
    Table
        A lazy table with a row for each blob. The columns are ``rank`` (1, 2, ... from the
        strongest blob), the position (``z``, ``y``, ``x``), ``sigma`` in voxels, and ``intensity``,
        which is the response. If a sigma is given for each axis or as a length, there are columns
        ``sigma_z``, ... instead of ``sigma``.

    Raises
    ------
    ValueError
        If a parameter is out of range. On computation, if the peaks need more memory than is
        available.
    TypeError
        If ``image`` is neither a volume nor an array, or a parameter has a wrong type.

    See Also
    --------
    peak_local_max : peaks of one scale.
    label : components of a mask.

    Notes
    -----
    Blobs and their order are identical to scikit-image's, except for rounding and chains of
    overlapping blobs. In such chains, pairs are compared in the order of ranks. Pruning considers
    all blobs of the volume, so it does not depend on slabs.

    One sweep, or two with ``threshold_rel`` or without ``threshold``. All scales are computed in
    the same sweep. The halo is four times ``max_sigma``, so downsample volumes with large blobs.
    Peaks are compared in a tree, and a step needs about 300 bytes for each of its peaks.

    References
    ----------
    `skimage.feature.blob_log`; T. Lindeberg, "Feature detection with automatic scale selection",
    International Journal of Computer Vision 30 (1998).

    Examples
    --------
    >>> image = np.zeros((20, 24))
    >>> image[8:11, 5:8], image[9:16, 14:21] = 1, 1
    >>> table = bv.blob_log(image, 1, 4, num_sigma=4)
    >>> np.stack([table[name] for name in ("y", "x", "sigma")], axis=1)
    array([[12., 17.,  3.],
           [ 9.,  6.,  1.]])
    """

def boundary_scores(
    truth: Volume,
    test: Volume,
    *,
    tolerance: float = 0,
    ignore_labels: Iterable[int] = (),
) -> tuple[Scalar, Scalar]:
    """Compare two segmentations by the voxels at the boundaries of segments.

    Parameters
    ----------
    truth, test : Volume or numpy.ndarray
        Labels of the same shape, bool or integers from 0. 0 is an ordinary label.
    tolerance : float, default: 0
        The largest distance, in voxels, at which boundaries match.
    ignore_labels : iterable of int, default: ()
        Labels of ``truth`` to ignore, together with their voxels.

    Returns
    -------
    precision, recall : Scalar
        Lazy numbers. Precision is the fraction of boundary voxels of ``test`` near a boundary of
        ``truth``. Recall is the fraction of boundary voxels of ``truth`` near a boundary of
        ``test``. NaN if there are no boundary voxels.

    Raises
    ------
    ValueError
        If shapes differ, or ``tolerance`` is negative or not a number.
    TypeError
        If ``truth`` or ``test`` is neither a volume nor an array, or has an unsupported dtype.

    See Also
    --------
    variation_of_information, adapted_rand_error : compare segments.

    Notes
    -----
    A boundary voxel shares a face with a voxel of a different label, as in scikit-image with
    ``connectivity=1`` and ``mode="thick"``. One sweep, or two with a ``tolerance`` above 16. Counts
    of voxels are exact, and each score is rounded once.

    References
    ----------
    `skimage.segmentation.find_boundaries`; D. Martin, C. Fowlkes and J. Malik, "Learning to detect
    natural image boundaries using local brightness, color, and texture cues", IEEE TPAMI 26 (2004).

    Examples
    --------
    >>> truth, test = np.array([[1, 1, 1, 2, 2, 2]]), np.array([[1, 1, 2, 2, 2, 2]])
    >>> [float(x) for x in bv.boundary_scores(truth, test)]
    [0.5, 0.5]
    >>> [float(x) for x in bv.boundary_scores(truth, test, tolerance=1)]
    [1.0, 1.0]
    """

def butterworth(
    volume: Volume,
    cutoff_frequency_ratio: float = 0.005,
    high_pass: bool = True,
    order: float = 2.0,
    *,
    squared_butterworth: bool = True,
    npad: int = 0,
    axes: int | Sequence[int] | None = None,
) -> Volume:
    """Keep high or low frequencies of a volume with a Butterworth filter.

    Use it to subtract a slowly varying background, or to remove noise, without ringing at edges.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
        Each channel is filtered separately.
    cutoff_frequency_ratio : float, default: 0.005
        The frequency at which the factor is 0.5, in cycles per voxel: above 0 and up to 0.5.
    high_pass : bool, default: True
        Whether to keep frequencies above the cutoff, instead of frequencies below it.
    order : float, default: 2.0
        The slope at the cutoff, above 0: a larger order separates frequencies more sharply.
    squared_butterworth : bool, default: True
        Whether factors are squares of the original filter. Otherwise the factor at the cutoff is
        ``1 / sqrt(2)``.
    npad : int, default: 0
        Number of voxels by which the volume is extended on each side of ``axes``, with its outer
        voxels. Use it against artifacts at the edges.
    axes : int or sequence of int, optional
        Axes to transform, counted from 0, or backwards from -1; all axes by default. ``axes=(1,
        2)`` filters slice by slice.

    Returns
    -------
    Volume
        A float32 volume for bool, integers of up to 16 bits, float16 and float32; a float64 volume
        for other dtypes.

    Raises
    ------
    ValueError
        If a parameter is out of range or the axis does not exist. On computation, if a voxel is NaN
        or infinite.
    TypeError
        If ``volume`` is neither a volume nor an array, or a parameter has a wrong type.

    See Also
    --------
    fourier_filter : multiplies frequencies by any function.
    difference_of_gaussians : keeps a band of sizes without a transform.

    Notes
    -----
    Without ``npad``, the volume is treated as periodic. Sweeps and memory are the same as for
    `fourier_filter`: one sweep without z, and three with z. Factors are computed in float64.

    References
    ----------
    `skimage.filters.butterworth`; S. Butterworth, "On the theory of filter amplifiers", Wireless
    Engineer 7 (1930).

    Examples
    --------
    >>> v = bv.open(np.array([[2, 4, 2, 4], [12, 14, 12, 14]], "u1"))  # alternating columns
    >>> np.asarray(bv.butterworth(v, 0.1, False, 9, axes=1)).round(2)
    array([[ 3.,  3.,  3.,  3.],
           [13., 13., 13., 13.]], dtype=float32)
    """

def canny(
    image: Volume,
    sigma: float | str | Sequence[float | str] = 1.0,
    low_threshold: float | None = None,
    high_threshold: float | None = None,
    use_quantiles: bool = False,
    *,
    axes: int | Sequence[int] | None = None,
    mode: str | Sequence[str] = 'constant',
    cval: float = 0.0,
) -> Volume:
    """Find edges as thin lines or surfaces that are connected to strong edges.

    Parameters
    ----------
    image : Volume or numpy.ndarray
        A volume or an array with two or three axes. Intensities keep their scale.
    sigma : float, str or sequence of them, default: 1.0
        Standard deviation in voxels, or as a length such as ``"150 nm"``. Lengths need a volume
        with a voxel size. One value for all axes or one per axis.
    low_threshold : float, optional
        Minimum gradient of an edge, computed with the Sobel filter; by default a tenth of the
        dtype's maximum, or 0.1 for floats.
    high_threshold : float, optional
        Minimum gradient of at least one voxel of a connected edge; by default twice the default of
        ``low_threshold``.
    use_quantiles : bool, default: False
        Whether thresholds are quantiles of the gradient, from 0 to 1.
    axes : int or sequence of int, optional
        Axes to work along, counted from 0, or backwards from -1; all axes by default.
        ``axes=(1, 2)`` finds edges slice by slice.
    mode : str or sequence of str, default: "constant"
        How to extend the volume beyond its edges, as in `scipy.ndimage`; one mode for all axes or one
        per axis. ``"reflect"`` and ``"grid-mirror"`` repeat the outer voxel (c b a | a b c d | d c b), and
        ``"mirror"`` does not (d c b | a b c d | c b a). ``"nearest"`` extends it (a a a | a b c d | d d
        d), ``"constant"`` and ``"grid-constant"`` use ``cval``, and ``"wrap"`` and ``"grid-wrap"``
        repeat the volume (b c d | a b c d | a b c).
    cval : float, default: 0.0
        The value beyond the edges if ``mode`` is ``"constant"`` or ``"grid-constant"``.

    Returns
    -------
    Volume
        A bool volume.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis.
    TypeError
        If ``volume`` is neither a volume nor an array, or a parameter has a wrong type.

    See Also
    --------
    sobel : the gradient.
    apply_hysteresis_threshold : selects connected voxels by two thresholds.

    Notes
    -----
    A voxel is an edge if its gradient is a maximum along the gradient's direction; values between
    voxels are interpolated linearly. The outer voxels of the volume are never edges. Edges are
    connected across faces, edges and corners of voxels, in the whole volume.

    Two sweeps, plus the sweeps of `percentile` with ``use_quantiles``. The halo is four sigma and
    two voxels. In two dimensions, the result equals scikit-image's except for rounding.

    References
    ----------
    `skimage.feature.canny`; J. Canny, "A computational approach to edge detection", IEEE Trans.
    Pattern Analysis and Machine Intelligence 8 (1986).

    Examples
    --------
    >>> square = np.zeros((7, 8))
    >>> square[:, 4:] = 1
    >>> np.asarray(bv.canny(square, 0.5, mode="nearest"))[3].astype(int)
    array([0, 0, 0, 1, 1, 0, 0, 0])
    """

def center_of_mass(
    volume: Volume,
    labels: Volume | None = None,
    index: ArrayLike | None = None,
    *,
    mask: Volume | None = None,
    nan: str = 'raise',
) -> Scalar:
    """Compute the centre of mass of the voxels' values.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    labels : Volume or numpy.ndarray, optional
        Labels with the same shape, bool or integers from 0, to measure each label separately, as in
        `scipy.ndimage`.
    index : int or array_like of int, optional
        The labels to measure, in any order; 0 is the background. The result is an array of this shape.
        Missing labels are NaN, or 0 for integers. By default, all labels are measured together.
    mask : Volume, optional
        Only voxels with a nonzero mask are included; all voxels by default.
    nan : {"raise", "omit"}, default: "raise"
        Whether NaN and infinite voxels raise an error on computation or are ignored.

    Returns
    -------
    Scalar
        A lazy float64 array with an index in voxels for each axis, rounded once; NaN if the values
        sum to 0.

    Raises
    ------
    ValueError
        If a parameter is out of range. On computation, if an included voxel is NaN or infinite and
        ``nan="raise"``, or no voxel is included.
    TypeError
        If ``volume`` is neither a volume nor an array.

    See Also
    --------
    regionprops_table : computes it for each region.

    Notes
    -----
    One sweep.

    Partial results of slabs are merged exactly, so the result is the same, bit for bit, for any
    division into slabs.

    References
    ----------
    `scipy.ndimage.center_of_mass`.

    Examples
    --------
    >>> np.asarray(bv.center_of_mass(bv.open(np.array([[0, 1, 3], [0, 0, 0]]))))
    array([0.  , 1.75])
    """

def channels(
    volume: Volume,
) -> tuple[Volume, ...]:
    """Split a volume into its channels.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array, with or without a channel axis.

    Returns
    -------
    tuple of Volume
        One volume for each channel; the volume itself if it has no channel axis.

    Raises
    ------
    TypeError
        If ``volume`` is neither a volume nor an array.

    See Also
    --------
    stack : the inverse.

    References
    ----------
    `numpy.unstack`.

    Examples
    --------
    >>> red, green, blue = bv.channels(bv.open(np.zeros((3, 4, 5, 6), "u1")))
    >>> green.shape
    (4, 5, 6)
    """

def classify(
    volume: Volume,
    classifier: Any,
    *,
    probabilities: bool = False,
) -> Volume:
    """Apply a trained forest to the features of each voxel.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        Features as channels, in the same order as for the training.
    classifier : PixelClassifier, path or forest
        The result of `pixel_classifier`, the path or URL of its file, or a trained scikit-learn
        classifier of a type that `pixel_classifier` supports.
    probabilities : bool, default: False
        Whether to return the probability of each class instead of the most probable class.

    Returns
    -------
    Volume
        The class of each voxel, as uint8, or uint16 for classes above 255. If several classes are
        equally probable, the smallest is selected. With ``probabilities``, a float32 volume with a
        channel for each class, such as ``"class 2"``. Voxels with a NaN among their features are 0,
        or NaN for probabilities.

    Raises
    ------
    ValueError
        If the number or names of the channels differ from the classifier's, or the classifier is
        larger than 32 MiB.
    TypeError
        If ``volume`` is neither a volume nor an array, or ``classifier`` is not supported.
    FileNotFoundError, VolumeError
        If there is no classifier file at the path.

    See Also
    --------
    pixel_classifier : trains a forest.
    features : computes features.
    predict : runs a neural network.

    Notes
    -----
    Pointwise: no halo. Features are computed in the same sweep and not stored. The time grows with
    the number of trees. The result of a forest equals scikit-learn's ``predict`` and
    ``predict_proba`` in one thread, bit for bit (probabilities as float32). Scores of boosted trees
    are added in scikit-learn's order, and probabilities agree within 1e-15. The trees become part
    of the plan. Reading a classifier file executes no code from it.

    References
    ----------
    `sklearn.ensemble.RandomForestClassifier`.

    Examples
    --------
    See `pixel_classifier`.

    >>> image = np.array([[0, 1, 0, 9, 8, 9]], "f4")
    >>> found = bv.features(image, [0.5], edges=False, texture=False)
    >>> trained = bv.pixel_classifier(found, np.array([[1, 1, 0, 0, 2, 2]]))
    >>> bv.classify(found, trained, probabilities=True).channels
    ('class 1', 'class 2')
    """

def clear_border(
    volume: Volume,
    buffer_size: int = 0,
) -> Volume:
    """Remove objects that touch the border of the volume.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A mask or labels. Connected voxels with the same value form one object.
    buffer_size : int, default: 0
        Number of voxels to add to the border, which is one voxel wide.

    Returns
    -------
    Volume
        A volume of the input's dtype in which removed objects are 0.

    Raises
    ------
    ValueError
        If a parameter is out of range. On computation, before anything is written, if the components
        need more memory than is available. The message suggests slabs that would work.
    TypeError
        If the input is neither a volume nor an array, or has an unsupported dtype.

    Notes
    -----
    The result is identical to scikit-image's.

    Two sweeps: the first finds the components of every slab, and the second writes the result. Memory
    grows with the components of one slab, about 50 bytes each, and with the components on the faces of
    blocks of slabs. Memory does not grow with the total number of components.

    References
    ----------
    `skimage.segmentation.clear_border`.

    Examples
    --------
    >>> labels = np.array([[1, 0, 0, 0], [0, 0, 2, 0], [0, 0, 0, 0]])
    >>> np.asarray(bv.clear_border(bv.open(labels)))
    array([[0, 0, 0, 0],
           [0, 0, 2, 0],
           [0, 0, 0, 0]])
    """

def clip(
    volume: Volume,
    min: Any = None,
    max: Any = None,
) -> Volume:
    """Limit the values of voxels to a range.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    min : number, Scalar, Volume or numpy.ndarray, optional
        The lower limit; lower voxels are set to this value.
    max : number, Scalar, Volume or numpy.ndarray, optional
        The upper limit; higher voxels are set to this value.

    Returns
    -------
    Volume
        A volume of the dtype to which numpy promotes the volume and the limits.

    Raises
    ------
    ValueError
        If the shape or axes of a limit do not match the volume.
    TypeError
        If ``volume`` is neither a volume nor an array.

    See Also
    --------
    rescale_intensity : clips to a range and stretches it.

    Notes
    -----
    Pointwise: no halo, and no sweeps beyond those for the inputs.

    References
    ----------
    `numpy.clip`.

    Examples
    --------
    >>> np.asarray(bv.clip(bv.open(np.array([[1, 5, 3]])), 2, 4))
    array([[2, 4, 3]])
    """

def combine_stains(
    volume: Volume,
    matrix: ArrayLike,
    *,
    dtype: Any = None,
) -> Volume:
    """Compute colours from stains with a matrix.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        One channel for each of three stains, as from `separate_stains`.
    matrix : array_like of 3 x 3
        A matrix with a row for each stain: the red, green and blue that it absorbs, like
        ``skimage.color.rgb_from_hdx``.
    dtype : dtype, optional
        float32 or float64; by default float32 for integers, float16 and float32, otherwise float64.

    Returns
    -------
    Volume
        The channels red, green and blue, from 0 to 1.

    Raises
    ------
    ValueError
        If the volume does not have three channels, the matrix is not 3 x 3 finite numbers, or
        ``dtype`` is not float32 or float64.
    TypeError
        If ``volume`` is neither a volume nor an array, or has signed integers or integers of more
        than 16 bits.

    See Also
    --------
    separate_stains : the inverse.

    Notes
    -----
    Pointwise: no halo, and no sweeps beyond those for the inputs.

    References
    ----------
    `skimage.color.combine_stains`.

    Examples
    --------
    >>> none = bv.open(np.zeros((3, 1, 4, 5), "f4"))
    >>> float(np.asarray(bv.combine_stains(none, np.eye(3))).min())
    1.0
    """

def compute(
    *targets: Wanted,
    memory: int | float | str | None = None,
    workers: int | None = None,
    machines: int | None = None,
    threads: int | None = None,
    slab: Sequence[int] | None = None,
    window: int | None = None,
    journal: Any = None,
    keep_journal: bool = True,
    resume: bool = False,
    overwrite: bool = False,
    runner: Any = 'auto',
    options: Any = None,
    progress: bool | Callable[..., None] | None = None,
    accelerator: str | None = None,
    device: str | None = None,
    device_memory: int | float | str | None = None,
    max_retries: int = 1,
) -> Any:
    """Compute volumes, tables and numbers, and write those that have a path.

    Parameters
    ----------
    *targets : Target, TableTarget, Volume, Table or Scalar
        Objects to compute. ``volume.to(path)`` and ``table.to(path)`` are written; all other
        objects are returned in memory. Lists are accepted as well.
    memory : int or str, optional
        Memory that this machine may use for the run, in bytes or as ``"2GiB"``; a quarter of its
        RAM by default.
    workers : int, optional
        Number of slabs in flight. By default one slab for every four cores, and more if much of the
        work on a slab is single-threaded and the memory suffices.
    machines : int, optional
        Number of machines that share the slabs, for runners with several machines. Slabs are made small
        enough for each machine to get many. By default, Beam's option ``max_num_workers``,
        ``num_workers`` or ``parallelism``, otherwise 1.
    threads : int, optional
        Number of threads that compute one slab; by default the cores divided by the processes.
    slab : sequence of int, optional
        Shape of slabs along the volume's axes, in voxels; by default as large as the memory allows.
        Each slab must consist of whole write units (chunks or shards) of the outputs.
    window : int, optional
        Number of slices that are computed at a time; by default as many as the memory allows.
    journal : str, os.PathLike or dict, optional
        Folder of the journal and of intermediate results; by default ``.run`` next to the first output.
    keep_journal : bool, default: True
        Whether to keep the journal after a successful run. `verify` needs it.
    resume : bool, default: False
        Whether to continue a stopped run from its complete slabs.
    overwrite : bool, default: False
        Whether to replace existing outputs; otherwise they raise an error.
    runner : str, apache_beam.runners.PipelineRunner or None, default: "auto"
        ``"FnApiRunner"`` runs a Beam pipeline on this machine. None runs in the current process
        without Beam. Beam looks up any other runner by its name. ``"auto"`` chooses None, except for
        runs with ``options`` and runs that may use more than half of the free memory. Such runs use
        ``"FnApiRunner"``, so that the caller survives if memory runs out. `plan` shows the choice.
    options : PipelineOptions, list of str or dict, optional
        Beam's options, such as ``["--direct_running_mode=multi_processing"]``; not with
        ``runner=None``.
    progress : bool or callable, optional
        Whether to show progress on standard error, or a function to call with the progress. By default,
        terminals and notebooks show a progress bar for runs of more than one second. Elsewhere, runs of
        more than five seconds print a line for each pass.
    accelerator : str, optional
        The accelerator for passes that run a network or use a device. The value is a Beam resource hint
        such as ``"type:nvidia-tesla-t4;count:1;install-nvidia-driver"``, which is the default with
        ``device="cuda"``. Dataflow provisions machines accordingly; other runners ignore it.
    device : {"cpu", "cuda", "auto"}, optional
        Where stages run, by default on the CPU. "cuda" runs each stage with device code on the GPU of
        its worker. "auto" does so only if there is a GPU and the estimated gain outweighs the copies.
        With "auto", slabs that fail on the GPU are computed on the CPU. Results are bit-identical in
        all cases.
    device_memory : int or str, optional
        Memory that the run may use on each GPU of a machine, in bytes or as ``"8GiB"``; by default
        0.8 of the GPU's free memory.
    max_retries : int, default: 1
        How often to retry a step that raises the same error again, unless a machine or the storage
        caused the error. After these retries, the run ends, even if its runner would continue to
        retry.

    Returns
    -------
    object or tuple
        For each target, the written `Volume`, a numpy array or number, or the path of a written
        table. A table without a path is returned as a dict of columns, for pandas, polars and
        ``dict()``, with the methods of `pyarrow.Table`. The results of several targets are returned
        as a tuple. The result is None if ``options`` make Dataflow's runner only describe the job
        (``dry_run``, ``template_location``).

    Raises
    ------
    ValueError
        If memory is too small; the message contains the minimum. If ``slab`` does not consist of whole
        write units, or an output is also an input. In this case, nothing is started.
    FileExistsError
        If an output exists and neither ``resume`` nor ``overwrite`` is set.
    WorkerDied
        If a worker process was killed. The message lists the slabs that were started last.

    See Also
    --------
    plan : predicts the memory, I/O and time of a run, without running it.
    Compute : the same as a step of a Beam pipeline.

    Notes
    -----
    All targets are computed together and share passes over the inputs. Memory stays below
    ``memory``, excluding returned arrays, which are limited by `options.max_inmemory`.

    Examples
    --------
    >>> v = bv.open(np.array([[1, 2, 3]], "u1"))
    >>> bv.compute(v + 1, bv.mean(v), runner=None)
    (array([[2, 3, 4]], dtype=uint8), np.float64(2.0))
    """

def concatenate(
    volumes: Sequence[Volume],
    axis: int = 0,
) -> Volume:
    """Concatenate volumes along an axis.

    Parameters
    ----------
    volumes : sequence of Volume or numpy.ndarray
        One or more volumes with the same axes, and with the same shape except along ``axis``.
    axis : int, default: 0
        The axis, counted from 0, or backwards from -1; it cannot be the time axis.

    Returns
    -------
    Volume
        A volume of the dtype to which numpy promotes the inputs, with the origin of the first
        input.

    Raises
    ------
    ValueError
        If no volume is given, shapes or voxel sizes differ, or there is no such axis.
    TypeError
        If an input is neither a volume nor an array.

    See Also
    --------
    open : opens a list of files as one volume along z.
    stack : stacks volumes as channels.

    Notes
    -----
    In one sweep, each volume is padded to the whole extent; each voxel is then taken from the
    volume that contains it. To join files along z, ``bv.open([first, second])`` is faster.

    References
    ----------
    `numpy.concatenate`.

    Examples
    --------
    >>> left, right = np.array([[1, 2]], "u1"), np.array([[3]], "u1")
    >>> np.asarray(bv.concatenate([left, right], axis=1))
    array([[1, 2, 3]], dtype=uint8)
    """

def contingency(
    a: Volume,
    b: Volume,
    *,
    ignore_labels: Iterable[int] = (),
) -> Table:
    """Count the voxels shared by each pair of labels of two volumes.

    Parameters
    ----------
    a, b : Volume or numpy.ndarray
        Labels of the same shape, bool or integers from 0. 0 is an ordinary label.
    ignore_labels : iterable of int, default: ()
        Labels of ``a`` to ignore, together with their voxels.

    Returns
    -------
    Table
        A lazy table with columns ``label_a``, ``label_b`` (uint64) and ``count`` (int64), and a row
        for each pair that shares voxels, sorted by label.

    Raises
    ------
    ValueError
        If shapes differ. On computation, if a label is negative, or the pairs need more memory than
        is available.
    TypeError
        If ``a`` or ``b`` is neither a volume nor an array, or has an unsupported dtype.

    See Also
    --------
    variation_of_information : a score from this table.
    adapted_rand_error : another score.
    segment_iou : finds the best overlap for each label.

    Notes
    -----
    One sweep. Memory grows with the pairs of one slab, about 24 bytes each. While they are merged,
    memory is several times as large. No worker holds the whole table.

    References
    ----------
    `skimage.metrics.contingency_table`.

    Examples
    --------
    >>> truth = np.array([[1, 1, 2, 2]], "u1")
    >>> bv.contingency(truth, np.array([[7, 7, 7, 9]], "u2")).to_pyarrow().to_pydict()
    {'label_a': [1, 2, 2], 'label_b': [7, 7, 9], 'count': [2, 1, 1]}
    """

def convolve(
    volume: Volume,
    weights: ArrayLike,
    *,
    mode: str | Sequence[str] = 'reflect',
    cval: float = 0.0,
    origin: int | Sequence[int] = 0,
    axes: int | Sequence[int] | None = None,
    dtype: DTypeLike | None = None,
) -> Volume:
    """Convolve with an array of weights.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    weights : array_like of float
        The weights, with one dimension per axis. Zeros are not part of the footprint.
    mode : str or sequence of str, default: "reflect"
        How to extend the volume beyond its edges, as in `scipy.ndimage`; one mode for all axes or one
        per axis. ``"reflect"`` and ``"grid-mirror"`` repeat the outer voxel (c b a | a b c d | d c b), and
        ``"mirror"`` does not (d c b | a b c d | c b a). ``"nearest"`` extends it (a a a | a b c d | d d
        d), ``"constant"`` and ``"grid-constant"`` use ``cval``, and ``"wrap"`` and ``"grid-wrap"``
        repeat the volume (b c d | a b c d | a b c).
    cval : float, default: 0.0
        The value beyond the edges if ``mode`` is ``"constant"`` or ``"grid-constant"``.
    origin : int or sequence of int, default: 0
        Shift of the footprint in voxels, as in `scipy.ndimage`: a positive number moves it towards
        lower indices. One value for all axes or one per axis.
    axes : int or sequence of int, optional
        Axes to work along, counted from 0, or backwards from -1; all axes by default.
    dtype : dtype, optional
        Dtype of the result. Integers are rounded half to even and clipped to the dtype's range.

    Returns
    -------
    Volume
        A float32 volume for bool, integers of up to 16 bits, float16 and float32; a float64 volume for
        other dtypes. ``dtype`` overrides this.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis. If a length has a unit
        but the volume has no voxel size.
    TypeError
        If ``volume`` is neither a volume nor an array, or ``dtype`` is not supported.

    See Also
    --------
    correlate : applies the mirrored weights.
    convolve1d : filters along one axis.

    Notes
    -----
    One sweep. The halo is the reach of the weights. The time grows with the number of nonzero
    weights.

    References
    ----------
    `scipy.ndimage.convolve`.

    Examples
    --------
    >>> np.asarray(bv.convolve(bv.open(np.array([[1, 0, 0]], "u1")), [[1, 2, 4]], mode="constant"))
    array([[2., 4., 0.]], dtype=float32)
    """

def convolve1d(
    volume: Volume,
    weights: ArrayLike,
    axis: int = -1,
    *,
    mode: str = 'reflect',
    cval: float = 0.0,
    origin: int = 0,
    dtype: DTypeLike | None = None,
) -> Volume:
    """Convolve with a 1-D array of weights along one axis.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    weights : array_like of float
        The weights, a 1-D sequence.
    axis : int, default: -1
        The axis to work along, counted from 0, or backwards from -1.
    mode : str, default: "reflect"
        How to extend the volume beyond its edges, as in `scipy.ndimage`.
        ``"reflect"`` and ``"grid-mirror"`` repeat the outer voxel (c b a | a b c d | d c b), and
        ``"mirror"`` does not (d c b | a b c d | c b a). ``"nearest"`` extends it (a a a | a b c d | d d
        d), ``"constant"`` and ``"grid-constant"`` use ``cval``, and ``"wrap"`` and ``"grid-wrap"``
        repeat the volume (b c d | a b c d | a b c).
    cval : float, default: 0.0
        The value beyond the edges if ``mode`` is ``"constant"`` or ``"grid-constant"``.
    origin : int, default: 0
        Shift of the footprint in voxels, as in `scipy.ndimage`: a positive number moves it towards
        lower indices.
    dtype : dtype, optional
        Dtype of the result. Integers are rounded half to even and clipped to the dtype's range.

    Returns
    -------
    Volume
        A float32 volume for bool, integers of up to 16 bits, float16 and float32; a float64 volume for
        other dtypes. ``dtype`` overrides this.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis. If a length has a unit
        but the volume has no voxel size.
    TypeError
        If ``volume`` is neither a volume nor an array, or ``dtype`` is not supported.

    See Also
    --------
    correlate1d : applies the mirrored weights.

    Notes
    -----
    One sweep. The halo along the axis is ``len(weights) - 1`` voxels in total.

    References
    ----------
    `scipy.ndimage.convolve1d`.

    Examples
    --------
    >>> np.asarray(bv.convolve1d(bv.open(np.array([[1, 0, 0]], "u1")), [1, 2, 4], mode="constant"))
    array([[2., 4., 0.]], dtype=float32)
    """

def coordinates(
    volume: Volume,
    axis: int,
    *,
    physical: bool = False,
) -> Volume:
    """Make a volume of voxel coordinates along an axis.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        The volume that defines the shape, voxel size and origin. Its voxels are not read.
    axis : int
        The axis, counted from 0, or backwards from -1.
    physical : bool, default: False
        Whether to return positions in the volume's unit, from its origin and voxel size, instead of
        indices.

    Returns
    -------
    Volume
        A volume of the same shape: int64 indices, or float64 positions.

    Raises
    ------
    ValueError
        If the axis does not exist, or ``physical=True`` and the volume has no voxel size.
    TypeError
        If ``volume`` is neither a volume nor an array, or ``axis`` is not an int.

    Notes
    -----
    Pointwise: no halo, and no sweeps beyond those for the inputs.

    References
    ----------
    `numpy.indices`.

    Examples
    --------
    >>> v = bv.open(np.zeros((2, 3), "u1"), voxel_size=8, unit="nm")
    >>> np.asarray(bv.coordinates(v, 1))
    array([[0, 1, 2],
           [0, 1, 2]])
    >>> np.asarray(bv.coordinates(v, 1, physical=True)[0])
    array([ 0.,  8., 16.])
    """

def correlate(
    volume: Volume,
    weights: ArrayLike,
    *,
    mode: str | Sequence[str] = 'reflect',
    cval: float = 0.0,
    origin: int | Sequence[int] = 0,
    axes: int | Sequence[int] | None = None,
    dtype: DTypeLike | None = None,
) -> Volume:
    """Correlate with an array of weights.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    weights : array_like of float
        The weights, with one dimension per axis. Zeros are not part of the footprint.
    mode : str or sequence of str, default: "reflect"
        How to extend the volume beyond its edges, as in `scipy.ndimage`; one mode for all axes or one
        per axis. ``"reflect"`` and ``"grid-mirror"`` repeat the outer voxel (c b a | a b c d | d c b), and
        ``"mirror"`` does not (d c b | a b c d | c b a). ``"nearest"`` extends it (a a a | a b c d | d d
        d), ``"constant"`` and ``"grid-constant"`` use ``cval``, and ``"wrap"`` and ``"grid-wrap"``
        repeat the volume (b c d | a b c d | a b c).
    cval : float, default: 0.0
        The value beyond the edges if ``mode`` is ``"constant"`` or ``"grid-constant"``.
    origin : int or sequence of int, default: 0
        Shift of the footprint in voxels, as in `scipy.ndimage`: a positive number moves it towards
        lower indices. One value for all axes or one per axis.
    axes : int or sequence of int, optional
        Axes to work along, counted from 0, or backwards from -1; all axes by default.
    dtype : dtype, optional
        Dtype of the result. Integers are rounded half to even and clipped to the dtype's range.

    Returns
    -------
    Volume
        A float32 volume for bool, integers of up to 16 bits, float16 and float32; a float64 volume for
        other dtypes. ``dtype`` overrides this.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis. If a length has a unit
        but the volume has no voxel size.
    TypeError
        If ``volume`` is neither a volume nor an array, or ``dtype`` is not supported.

    See Also
    --------
    convolve : applies the mirrored weights.
    correlate1d : filters along one axis.

    Notes
    -----
    One sweep. The halo is the reach of the weights. The time grows with the number of nonzero
    weights.

    References
    ----------
    `scipy.ndimage.correlate`.

    Examples
    --------
    >>> np.asarray(bv.correlate(bv.open(np.array([[1, 0, 0]], "u1")), [[1, 2, 4]], mode="constant"))
    array([[2., 1., 0.]], dtype=float32)
    """

def correlate1d(
    volume: Volume,
    weights: ArrayLike,
    axis: int = -1,
    *,
    mode: str = 'reflect',
    cval: float = 0.0,
    origin: int = 0,
    dtype: DTypeLike | None = None,
) -> Volume:
    """Correlate with a 1-D array of weights along one axis.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    weights : array_like of float
        The weights, a 1-D sequence.
    axis : int, default: -1
        The axis to work along, counted from 0, or backwards from -1.
    mode : str, default: "reflect"
        How to extend the volume beyond its edges, as in `scipy.ndimage`.
        ``"reflect"`` and ``"grid-mirror"`` repeat the outer voxel (c b a | a b c d | d c b), and
        ``"mirror"`` does not (d c b | a b c d | c b a). ``"nearest"`` extends it (a a a | a b c d | d d
        d), ``"constant"`` and ``"grid-constant"`` use ``cval``, and ``"wrap"`` and ``"grid-wrap"``
        repeat the volume (b c d | a b c d | a b c).
    cval : float, default: 0.0
        The value beyond the edges if ``mode`` is ``"constant"`` or ``"grid-constant"``.
    origin : int, default: 0
        Shift of the footprint in voxels, as in `scipy.ndimage`: a positive number moves it towards
        lower indices.
    dtype : dtype, optional
        Dtype of the result. Integers are rounded half to even and clipped to the dtype's range.

    Returns
    -------
    Volume
        A float32 volume for bool, integers of up to 16 bits, float16 and float32; a float64 volume for
        other dtypes. ``dtype`` overrides this.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis. If a length has a unit
        but the volume has no voxel size.
    TypeError
        If ``volume`` is neither a volume nor an array, or ``dtype`` is not supported.

    See Also
    --------
    convolve1d : applies the mirrored weights.

    Notes
    -----
    One sweep. The halo along the axis is ``len(weights) - 1`` voxels in total.

    References
    ----------
    `scipy.ndimage.correlate1d`.

    Examples
    --------
    >>> np.asarray(bv.correlate1d(bv.open(np.array([[1, 0, 0]], "u1")), [1, 2, 4], mode="constant"))
    array([[2., 1., 0.]], dtype=float32)
    """

def correlation(
    a: Volume,
    b: Volume,
    *,
    mask: Volume | None = None,
    nan: str = 'raise',
    across: str | None = None,
) -> Scalar:
    """Compute the exact Pearson correlation of two volumes.

    Parameters
    ----------
    a : Volume or numpy.ndarray
        The first volume.
    b : Volume or numpy.ndarray
        The second volume, with the same shape and axes. Different dtypes are promoted as in numpy.
    mask : Volume, optional
        Only voxels with a nonzero mask are included; all voxels by default.
    nan : {"raise", "omit"}, default: "raise"
        Whether voxels that are NaN or infinite in ``a`` or ``b`` raise an error on computation or are
        ignored in both.
    across : {"t"}, optional
        Compute one number for all time points, as in ``v > bv.mean(v, across="t")``. By default, each
        time point has its own number. A volume without a time axis has one number in both cases.

    Returns
    -------
    Scalar
        The lazy float64 number from -1 to 1, rounded once; NaN if a volume is constant.

    Raises
    ------
    ValueError
        If the shapes or axes of the volumes differ, or a parameter is out of range. On computation, if
        an included voxel is NaN or infinite and ``nan="raise"``, or no voxel is included.
    TypeError
        If ``a`` or ``b`` is neither a volume nor an array.

    See Also
    --------
    covariance : computes it without scaling.

    Notes
    -----
    One sweep, which reads both volumes.

    Partial results of slabs are merged exactly, so the result is the same, bit for bit, for any
    division into slabs.

    References
    ----------
    `numpy.corrcoef`.

    Examples
    --------
    >>> a = bv.open(np.array([[1, 2, 3]]))
    >>> float(bv.correlation(a, 5.5 - a))
    -1.0
    """

def cos(
    volume: Volume | Scalar,
) -> Any:
    """Compute cosines of angles in radians.

    Parameters
    ----------
    volume : Volume or Scalar
        A volume or a lazy number.

    Returns
    -------
    Volume or Scalar
        A result of the same kind, with numpy's dtype; NaN for infinity.

    Raises
    ------
    TypeError
        If an input is not a volume, lazy number, array or number.

    Notes
    -----
    Pointwise: no halo, and no sweeps beyond those for the inputs.

    Results are the same on every processor; numpy's results depend on the processor. The error is below
    2 units in the last place of float64, or of the narrower dtype to which results are rounded.

    References
    ----------
    `numpy.cos`; fdlibm, Sun Microsystems (1993).

    Examples
    --------
    >>> np.asarray(bv.cos(bv.open(np.array([[0.0, 1.0]])))).round(4)
    array([[1.    , 0.5403]])
    """

def cosh(
    volume: Volume | Scalar,
) -> Any:
    """Compute hyperbolic cosines.

    Parameters
    ----------
    volume : Volume or Scalar
        A volume or a lazy number.

    Returns
    -------
    Volume or Scalar
        A result of the same kind, with numpy's dtype.

    Raises
    ------
    TypeError
        If an input is not a volume, lazy number, array or number.

    Notes
    -----
    Pointwise: no halo, and no sweeps beyond those for the inputs.

    Results are the same on every processor; numpy's results depend on the processor. The error is below
    2 units in the last place of float64, or of the narrower dtype to which results are rounded.

    References
    ----------
    `numpy.cosh`; fdlibm, Sun Microsystems (1993).

    Examples
    --------
    >>> np.asarray(bv.cosh(bv.open(np.array([[0.0, 1.0]])))).round(4)
    array([[1.    , 1.5431]])
    """

def count_nonzero(
    volume: Volume,
    axis: Axis = None,
    *,
    mask: Volume | None = None,
    across: str | None = None,
) -> Scalar:
    """Count nonzero voxels.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    axis : int, str or sequence of them, optional
        The axes to reduce: numbers as in numpy, or names. For example, ``"z"`` is a projection along z,
        and ``("y", "x")`` returns one number per slice. By default, all axes except time. ``"c"`` alone
        reduces the channels of each voxel, and ``"t"`` alone the time points; in these cases, the
        result is a volume of any size.
    mask : Volume, optional
        Only voxels with a nonzero mask are included; all voxels by default.
    across : {"t"}, optional
        Compute one number for all time points, as in ``v > bv.mean(v, across="t")``. By default, each
        time point has its own number. A volume without a time axis has one number in both cases.

    Returns
    -------
    Scalar
        The lazy number. With ``axis``, a lazy array with the remaining axes.

    Raises
    ------
    ValueError
        If the axis does not exist, or ``mask`` has different axes.
    TypeError
        If ``volume`` is neither a volume nor an array.

    See Also
    --------
    any : returns whether there is one.

    Notes
    -----
    One sweep. NaN and infinite voxels count as nonzero.

    With ``axis``, the lazy array is limited to 256 MiB.

    References
    ----------
    `numpy.count_nonzero`.

    Examples
    --------
    >>> v = bv.open(np.array([[3, 0], [1, 4]]))
    >>> int(bv.count_nonzero(v)), np.asarray(bv.count_nonzero(v, axis="x"))
    (3, array([1, 2]))
    """

def covariance(
    a: Volume,
    b: Volume,
    *,
    ddof: int = 1,
    mask: Volume | None = None,
    nan: str = 'raise',
    across: str | None = None,
) -> Scalar:
    """Compute the exact covariance matrix of two volumes.

    Parameters
    ----------
    a : Volume or numpy.ndarray
        The first volume.
    b : Volume or numpy.ndarray
        The second volume, with the same shape and axes. Different dtypes are promoted as in numpy.
    ddof : int, default: 1
        Number to subtract from the number of voxels in the divisor.
    mask : Volume, optional
        Only voxels with a nonzero mask are included; all voxels by default.
    nan : {"raise", "omit"}, default: "raise"
        Whether voxels that are NaN or infinite in ``a`` or ``b`` raise an error on computation or are
        ignored in both.
    across : {"t"}, optional
        Compute one number for all time points, as in ``v > bv.mean(v, across="t")``. By default, each
        time point has its own number. A volume without a time axis has one number in both cases.

    Returns
    -------
    Scalar
        A lazy array of 2 x 2 float64 numbers, each rounded once, with the variances of ``a`` and
        ``b`` on the diagonal.

    Raises
    ------
    ValueError
        If the shapes or axes of the volumes differ, or a parameter is out of range. On computation, if
        an included voxel is NaN or infinite and ``nan="raise"``, or no voxel is included.
    TypeError
        If ``a`` or ``b`` is neither a volume nor an array.

    See Also
    --------
    correlation : scales it to -1 to 1.

    Notes
    -----
    One sweep, which reads both volumes.

    Partial results of slabs are merged exactly, so the result is the same, bit for bit, for any
    division into slabs.

    References
    ----------
    `numpy.cov`.

    Examples
    --------
    >>> a, b = bv.open(np.array([[1, 2, 3]])), bv.open(np.array([[2.0, 0.0, 7.0]]))
    >>> np.asarray(bv.covariance(a, b))
    array([[ 1. ,  2.5],
           [ 2.5, 13. ]])
    """

def cross(
    radius: int | Sequence[int],
    ndim: int = 3,
) -> np.ndarray:
    """Make a footprint in the shape of a cross, with arms along each axis.

    Parameters
    ----------
    radius : int or sequence of int
        Length of the arms in voxels; one value for all axes or one per axis.
    ndim : int, default: 3
        Number of axes for a single ``radius``.

    Returns
    -------
    numpy.ndarray
        A bool array with ``2 * radius + 1`` voxels along each axis.

    Raises
    ------
    ValueError
        If a radius is negative or not a number, there are not 1 to 3 axes, or the footprint would
        have more than 2**24 voxels.

    See Also
    --------
    ball : makes a ball or ellipsoid.

    References
    ----------
    `scipy.ndimage.generate_binary_structure` with connectivity 1, for arms of any length.

    Examples
    --------
    >>> int(bv.cross(1).sum())
    7
    """

def cube(
    size: int,
    ndim: int = 3,
) -> np.ndarray:
    """Make a footprint in the shape of a cube.

    Parameters
    ----------
    size : int
        Extent in voxels along each axis.
    ndim : int, default: 3
        Number of axes: 2 makes a square.

    Returns
    -------
    numpy.ndarray
        A bool array, all True, with ``size`` voxels along each axis.

    Raises
    ------
    ValueError
        If ``size`` is not an integer of at least 1, or there are not 1 to 3 axes. If the footprint
        would have more than 2**24 voxels.

    See Also
    --------
    ball : makes a ball or ellipsoid.

    References
    ----------
    `skimage.morphology.footprint_rectangle`.

    Examples
    --------
    >>> bv.cube(3).shape
    (3, 3, 3)
    """

def cumsum(
    volume: Volume,
    axis: int = 0,
) -> Volume:
    """Compute running sums along an axis.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    axis : int, default: 0
        The axis, counted from 0, or backwards from -1. numpy's running sum of the flattened array
        is not available.

    Returns
    -------
    Volume
        An int64 volume for bool and signed integers, uint64 for unsigned integers, or float64 for
        floats. Integers wrap around, as in numpy.

    Raises
    ------
    ValueError
        If the axis does not exist.
    TypeError
        If ``volume`` is neither a volume nor an array, or ``axis`` is not an int.

    Notes
    -----
    One sweep along y and x. Along z, integers need two sweeps: one for the sums of slabs, and one
    for the voxels. Floats along z need one sweep, but slabs as deep as the volume. Floats are added
    in order from the first voxel, like float64 in numpy.

    References
    ----------
    `numpy.cumsum`.

    Examples
    --------
    >>> np.asarray(bv.cumsum(bv.open(np.array([[1, 5], [2, 6]]))))
    array([[ 1,  5],
           [ 3, 11]])
    """

def curvature_anisotropic_diffusion(
    volume: Volume,
    time_step: float | None = None,
    conductance_parameter: float = 3.0,
    conductance_scaling_update_interval: int = 1,
    number_of_iterations: int = 5,
    *,
    spacing: float | Sequence[float] | str | None = None,
) -> Volume:
    """Denoise by a curvature flow that is weak across edges.

    Surfaces of equal intensity move by their curvature: small spots vanish, and straight edges
    remain, even if their contrast is low.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes. Intensities keep their scale, whereas scikit-image
        scales integers to the range from 0 to 1.
    time_step : float, optional
        How far each iteration diffuses, at most ``1 / (2 * sum(1 / spacing))``. By default
        ``min(spacing) / 2 ** (axes + 1)`` for the number of axes z, y and x: 0.0625 for three.
    conductance_parameter : float, default: 3.0
        The gradient up to which voxels are smoothed, as a multiple of the root mean square of the
        gradient. Larger numbers smooth edges more; 0 returns the volume.
    conductance_scaling_update_interval : int, default: 1
        The number of iterations after which the mean square of the gradient is computed again.
    number_of_iterations : int, default: 5
        The number of iterations, up to 1000; 0 returns the volume.
    spacing : float, sequence of float or "voxel_size", optional
        Extent of a voxel: one value for all axes or one per axis; 1 by default. ``"voxel_size"``
        uses the voxel size of the volume, like ITK.

    Returns
    -------
    Volume
        A float32 volume for bool, integers of up to 16 bits, float16 and float32; a float64 volume
        for other dtypes.

    Raises
    ------
    ValueError
        If a parameter is out of range. On computation, if a voxel is NaN or infinite, or the square
        of a gradient is infinite in float64.
    TypeError
        If the input is neither a volume nor an array, or a parameter is not a number.

    See Also
    --------
    gradient_anisotropic_diffusion : keeps corners and spots with a high contrast.
    denoise_tv_chambolle : minimizes the total variation.

    Notes
    -----
    One sweep for each mean of the squared gradient, and one for the result. Each iteration adds a
    voxel to the halo.

    The scheme is ITK's, computed in float64. Results differ from SimpleITK's by up to 2e-6 of the
    largest intensity for float32, and 1e-12 for float64. Each channel and time point is diffused
    separately, with its own mean.

    References
    ----------
    ITK's ``CurvatureAnisotropicDiffusionImageFilter``; R. T. Whitaker, X. Xue,
    "Variable-conductance, level-set curvature for image denoising", ICIP 2001.

    Examples
    --------
    >>> spot = np.zeros((5, 7), "u1")
    >>> spot[:, 4:] = 90
    >>> spot[2, 1] = 30
    >>> smooth = bv.curvature_anisotropic_diffusion(spot, conductance_parameter=1)
    >>> np.asarray(smooth)[2].round(1)
    array([ 1. ,  1.3,  1.5,  6. , 90. , 90. , 90. ], dtype=float32)
    """

def cut(
    merges: Table | Any,
    threshold: float | None = None,
) -> Table:
    """Compute segments from the merges with a minimum score.

    Parameters
    ----------
    merges : Table, table, dict or path
        The merges from `agglomerate`: a lazy table, a pyarrow or pandas table, a dict of columns,
        or the path of Parquet files.
    threshold : float, optional
        The minimum score of merges to apply; all by default.

    Returns
    -------
    Table
        A lazy table with columns ``label`` and ``segment``, the largest label of the segment. It
        has a row for each label that was merged into a larger label. All other labels do not
        change; to apply the table, use ``bv.relabel(labels, table, missing="keep")``.

    Raises
    ------
    ValueError
        If a column is missing. On computation, if ``merges`` is not a table of merges or needs more
        memory than is available.
    TypeError
        If ``merges`` is not a table.

    See Also
    --------
    agglomerate : computes merges.
    relabel : accepts the result.

    Notes
    -----
    No sweeps are needed except for ``merges``. Segments are the same as from `agglomerate` with
    this threshold, if it is at least the original threshold. Ranges of labels are processed in a
    tree, as in `agglomerate`. A worker holds the merges that cross the borders of ranges, about 100
    bytes each; if memory is too small, an error is raised.

    References
    ----------
    `higra.labelisation_horizontal_cut_from_threshold`, for trees in memory.

    Examples
    --------
    >>> merges = {"label_a": [1, 2, 4], "label_b": [2, 3, 5], "score": [9.0, 5.0, 8.0]}
    >>> bv.cut(merges, 6).to_pyarrow().to_pydict()
    {'label': [1, 4], 'segment': [2, 5]}
    """

def denoise_bilateral(
    volume: Volume,
    win_size: int | Sequence[int] | None = None,
    sigma_color: float | Scalar | None = None,
    sigma_spatial: float | str | Sequence[float | str] = 1,
    *,
    mode: str | Sequence[str] = 'constant',
    cval: float = 0.0,
) -> Volume:
    """Denoise with a mean of nearby voxels with similar intensities, which keeps edges.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes. Intensities keep their scale, whereas scikit-image
        scales integers to the range from 0 to 1.
    win_size : int or sequence of int, optional
        Extent of the window in voxels, odd; one value for all axes or one per axis. By default it
        extends three ``sigma_spatial`` to each side, and has at least 5 voxels.
    sigma_color : float or Scalar, optional
        Standard deviation of the Gaussian of intensity differences. By default the standard
        deviation of the volume, which needs an additional sweep. Larger numbers smooth edges more.
    sigma_spatial : float, str or sequence of them, default: 1
        Standard deviation of the Gaussian of distances, in voxels or as a length such as
        ``"15 nm"``. One value for all axes or one per axis; 0 along z filters slice by slice.
    mode : str or sequence of str, default: "constant"
        How to extend the volume beyond its edges, as in `scipy.ndimage`; one mode for all axes or one
        per axis. ``"reflect"`` and ``"grid-mirror"`` repeat the outer voxel (c b a | a b c d | d c b), and
        ``"mirror"`` does not (d c b | a b c d | c b a). ``"nearest"`` extends it (a a a | a b c d | d d
        d), ``"constant"`` and ``"grid-constant"`` use ``cval``, and ``"wrap"`` and ``"grid-wrap"``
        repeat the volume (b c d | a b c d | a b c).
    cval : float, default: 0.0
        The value beyond the edges if ``mode`` is ``"constant"`` or ``"grid-constant"``.

    Returns
    -------
    Volume
        A float32 volume for bool, integers of up to 16 bits, float16 and float32; a float64 volume
        for other dtypes.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis.
    TypeError
        If ``volume`` is neither a volume nor an array, or a parameter has a wrong type.

    See Also
    --------
    denoise_nl_means : compares patches instead of voxels.
    median_filter : removes single outliers.

    Notes
    -----
    One sweep, or two without ``sigma_color``. The halo is half of the window. The time grows with
    the number of voxels in the window.

    Weights are computed with an error of 1e-7, for up to three axes. Instead, scikit-image uses a
    table of ``bins``, and its spatial weights are shifted in odd windows. Each channel is filtered
    separately.

    References
    ----------
    `skimage.restoration.denoise_bilateral`; C. Tomasi, R. Manduchi, "Bilateral filtering for gray and
    color images", ICCV 1998.

    Examples
    --------
    >>> step = np.array([[10, 12, 10, 12, 90, 92, 90, 92]], "u1")
    >>> np.asarray(bv.denoise_bilateral(step, sigma_color=5, mode="nearest")).round(1)
    array([[10.5, 10.9, 11. , 11.3, 90.7, 91. , 91.1, 91.5]], dtype=float32)
    """

def denoise_nl_means(
    volume: Volume,
    patch_size: int | Sequence[int] = 7,
    patch_distance: int | Sequence[int] = 11,
    h: float | Scalar = 0.1,
    sigma: float | Scalar = 0.0,
    *,
    mode: str | Sequence[str] = 'mirror',
    cval: float = 0.0,
) -> Volume:
    """Denoise with a mean of nearby voxels with similar surroundings, which keeps textures.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes. Intensities keep their scale, whereas scikit-image
        scales integers to the range from 0 to 1.
    patch_size : int or sequence of int, default: 7
        Extent of the patches to compare, in voxels. Even numbers are increased by 1. One value for
        all axes or one per axis; 1 along z compares slices.
    patch_distance : int or sequence of int, default: 11
        The maximum distance of voxels to include, along each axis. 0 along z filters slice by
        slice.
    h : float or Scalar, default: 0.1
        The difference up to which intensities are similar. Start with ``0.8 *
        bv.estimate_sigma(volume)``.
    sigma : float or Scalar, default: 0.0
        Standard deviation of the noise, which is subtracted from differences. Use a smaller ``h``
        in this case.
    mode : str or sequence of str, default: "mirror"
        How to extend the volume beyond its edges, as in `scipy.ndimage`; one mode for all axes or
        one per axis.
    cval : float, default: 0.0
        The value beyond the edges if ``mode`` is ``"constant"`` or ``"grid-constant"``.

    Returns
    -------
    Volume
        A float32 volume for bool, integers of up to 16 bits, float16 and float32; a float64 volume
        for other dtypes.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis.
    TypeError
        If ``volume`` is neither a volume nor an array, or a parameter has a wrong type.

    See Also
    --------
    denoise_bilateral : faster; compares voxels.
    estimate_sigma : estimates the noise.

    Notes
    -----
    One sweep. The halo is ``patch_distance + patch_size // 2`` voxels. The time grows with the
    number of voxels within ``patch_distance``, but hardly depends on ``patch_size``.

    The method is scikit-image's with ``fast_mode=True`` and ``preserve_range=True``. Weights have
    an error of 1e-7 (3 percent in scikit-image). Patches are centred, whereas scikit-image's lack
    their first row, column and slice. Each channel is filtered separately.

    References
    ----------
    `skimage.restoration.denoise_nl_means`; J. Darbon et al., "Fast nonlocal filtering applied to
    electron cryomicroscopy", ISBI 2008.

    Examples
    --------
    >>> stripes = np.array([[10, 90, 12, 92, 10, 90, 12, 92]], "u1")
    >>> np.asarray(bv.denoise_nl_means(stripes, (1, 3), (0, 4), h=5)).round(1)[0, :4]
    array([10.8, 90.8, 11.2, 90.8], dtype=float32)
    """

def denoise_tv_chambolle(
    volume: Volume,
    weight: float | Scalar = 0.1,
    *,
    max_num_iter: int = 50,
) -> Volume:
    """Denoise by minimizing the total variation, which keeps edges with flat areas between them.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes. Intensities keep their scale, whereas scikit-image
        scales integers to the range from 0 to 1.
    weight : float or Scalar, default: 0.1
        How much to denoise, in units of intensity. Start with ``bv.estimate_sigma(volume)``.
    max_num_iter : int, default: 50
        The number of iterations, at least 1; 1 returns the volume. Larger weights need more
        iterations.

    Returns
    -------
    Volume
        A float32 volume for bool, integers of up to 16 bits, float16 and float32; a float64 volume
        for other dtypes.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis.
    TypeError
        If ``volume`` is neither a volume nor an array, or a parameter has a wrong type.

    See Also
    --------
    denoise_nl_means : keeps textures.
    denoise_bilateral : faster; a mean of near voxels.
    estimate_sigma : estimates the noise.

    Notes
    -----
    One sweep. The halo is ``max_num_iter - 1`` voxels. Memory holds four floats per iteration for
    each voxel of a slice of the slab.

    All iterations are computed, as in scikit-image with ``eps=0``; otherwise, scikit-image stops
    when the energy of the whole volume changes by less than ``eps``. Intensities keep their scale,
    so for integers ``weight`` is a multiple of scikit-image's. Each channel is denoised separately.

    References
    ----------
    `skimage.restoration.denoise_tv_chambolle`; A. Chambolle, "An algorithm for total variation
    minimization and applications", Journal of Mathematical Imaging and Vision 20 (2004).

    Examples
    --------
    >>> step = np.array([[10, 12, 10, 12, 90, 92, 90, 92]], "u1")
    >>> np.asarray(bv.denoise_tv_chambolle(step, weight=5)).round(1)
    array([[12.1, 12.2, 12.2, 12.5, 89.5, 89.8, 89.8, 89.9]], dtype=float32)
    """

def denoise_wiener(
    volume: Volume,
    mysize: int | Sequence[int] = 3,
    noise: float | None = None,
    *,
    dtype: DTypeLike | None = None,
) -> Volume:
    """Denoise where the local variance is close to the noise, which keeps edges.

    The result is ``mean + (1 - noise / variance) * (volume - mean)``, with the mean and variance of
    each voxel's window. Where the variance does not exceed the noise, the result is the mean.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    mysize : int or sequence of int, default: 3
        Extent of the window in voxels, an odd number; one value for all axes or one per axis.
    noise : float, optional
        The variance of the noise; by default the mean of the local variances of all channels,
        without NaN, which needs an additional sweep.
    dtype : dtype, optional
        Dtype of the result. Integers are rounded half to even and clipped to the dtype's range.

    Returns
    -------
    Volume
        A float32 volume for bool, integers of up to 16 bits, float16 and float32; a float64 volume for
        other dtypes. ``dtype`` overrides this.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis. If a length has a unit
        but the volume has no voxel size.
    TypeError
        If ``volume`` is neither a volume nor an array, or ``dtype`` is not supported.

    See Also
    --------
    median_filter : removes single outliers.
    unsharp_mask : sharpens.

    Notes
    -----
    One sweep, or two without ``noise``. The halo is ``mysize // 2`` voxels on each side.
    Computation is in float64, including for integers, which overflow in scipy. The volume is 0
    beyond its edges, as in scipy.

    References
    ----------
    `scipy.signal.wiener`; J. S. Lim, "Two-dimensional signal and image processing", Prentice Hall
    (1990).

    Examples
    --------
    >>> v = bv.open(np.array([[50, 52, 50, 90, 92, 90]], "u1"))
    >>> np.asarray(bv.denoise_wiener(v, (1, 3), noise=10)).round(1)[0, 1:-1]
    array([50.7, 50.4, 89.7, 90.7], dtype=float32)
    """

def diameter_closing(
    image: Volume,
    diameter_threshold: int = 8,
    connectivity: int = 1,
) -> Volume:
    """Fill dark components with an extent below a threshold, at each grey level.

    Parameters
    ----------
    image : Volume or numpy.ndarray
        A volume of bool or numbers; NaN counts as the largest.
    diameter_threshold : int, default: 8
        The smallest extent to keep, in voxels. The extent is the longest side of a component's
        bounding box.
    connectivity : {1, 2, 3}, default: 1
        Which voxels are neighbours: 1 for voxels that share a face, 2 to include shared edges, 3 to
        include shared corners.

    Returns
    -------
    Volume
        A volume of the input's dtype. Each voxel gets the lowest level at which it is in a dark
        component of this extent. If there is no such level, it gets the highest level of the
        volume.

    Raises
    ------
    ValueError
        If a parameter is out of range. On computation, before anything is written, if the components
        need more memory than is available. The message suggests slabs that would work.
    TypeError
        If the input is neither a volume nor an array, or has an unsupported dtype.

    See Also
    --------
    area_closing : fills components by their number of voxels.
    grey_closing : fills what a footprint does not fit into.
    diameter_opening : removes bright components.

    Notes
    -----
    The result is identical to scikit-image's, except for volumes that are smaller than the
    threshold along all axes. Such volumes are set to their highest level. One sweep, with a halo of
    ``diameter_threshold - 1`` voxels.

    References
    ----------
    `skimage.morphology.diameter_closing`.

    Examples
    --------
    >>> np.asarray(bv.diameter_closing(np.array([[7, 2, 5, 1, 1]]), 2))
    array([[7, 5, 5, 1, 1]])
    """

def diameter_opening(
    image: Volume,
    diameter_threshold: int = 8,
    connectivity: int = 1,
) -> Volume:
    """Remove bright components with an extent below a threshold, at each grey level.

    Parameters
    ----------
    image : Volume or numpy.ndarray
        A volume of bool or numbers; NaN counts as the largest.
    diameter_threshold : int, default: 8
        The smallest extent to keep, in voxels. The extent is the longest side of a component's
        bounding box.
    connectivity : {1, 2, 3}, default: 1
        Which voxels are neighbours: 1 for voxels that share a face, 2 to include shared edges, 3 to
        include shared corners.

    Returns
    -------
    Volume
        A volume of the input's dtype. Each voxel gets the highest level at which it is in a
        component of this extent. If there is no such level, it gets the lowest level of the volume.

    Raises
    ------
    ValueError
        If a parameter is out of range. On computation, before anything is written, if the components
        need more memory than is available. The message suggests slabs that would work.
    TypeError
        If the input is neither a volume nor an array, or has an unsupported dtype.

    See Also
    --------
    area_opening : removes components by their number of voxels.
    grey_opening : removes what a footprint does not fit into.
    diameter_closing : fills dark components.

    Notes
    -----
    The result is identical to scikit-image's, except for volumes that are smaller than the
    threshold along all axes. Such volumes are set to their lowest level, whereas scikit-image sets
    them to 0. One sweep, with a halo of ``diameter_threshold - 1`` voxels.

    References
    ----------
    `skimage.morphology.diameter_opening`; T. Walter, J.-C. Klein, "Automatic detection of
    microaneurysms in color fundus images of the human retina by means of the bounding box closing",
    ISMDA 2002.

    Examples
    --------
    >>> np.asarray(bv.diameter_opening(np.array([[7, 2, 5, 5, 2]]), 2))
    array([[2, 2, 5, 5, 2]])
    """

def difference_of_gaussians(
    volume: Volume,
    low_sigma: float | str | Sequence[float | str],
    high_sigma: float | str | Sequence[float | str] | None = None,
    *,
    mode: str | Sequence[str] = 'nearest',
    cval: float = 0.0,
    truncate: float = 4.0,
    dtype: DTypeLike | None = None,
) -> Volume:
    """Keep structures between two sizes, as the difference of two Gaussians.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes. Intensities keep their scale, whereas scikit-image
        scales integers to the range from 0 to 1.
    low_sigma : float, str or sequence of them
        Standard deviation of the narrower Gaussian, in voxels or as a length such as ``"15
        nm"``. Lengths need a volume with a voxel size. One value for all axes or one per axis.
    high_sigma : float, str or sequence of them, optional
        Standard deviation of the wider Gaussian; 1.6 times ``low_sigma`` by default.
    mode : str or sequence of str, default: "nearest"
        How to extend the volume beyond its edges, as in `scipy.ndimage`; one mode for all axes or one
        per axis. ``"reflect"`` and ``"grid-mirror"`` repeat the outer voxel (c b a | a b c d | d c b), and
        ``"mirror"`` does not (d c b | a b c d | c b a). ``"nearest"`` extends it (a a a | a b c d | d d
        d), ``"constant"`` and ``"grid-constant"`` use ``cval``, and ``"wrap"`` and ``"grid-wrap"``
        repeat the volume (b c d | a b c d | a b c).
    cval : float, default: 0.0
        The value beyond the edges if ``mode`` is ``"constant"`` or ``"grid-constant"``.
    truncate : float, default: 4.0
        Where the Gaussian is cut off, in standard deviations.
    dtype : dtype, optional
        Dtype of the result. Integers are rounded half to even and clipped to the dtype's range.

    Returns
    -------
    Volume
        A float32 volume for bool, integers of up to 16 bits, float16 and float32; a float64 volume for
        other dtypes. ``dtype`` overrides this.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis. If a length has a unit
        but the volume has no voxel size.
    TypeError
        If ``volume`` is neither a volume nor an array, or ``dtype`` is not supported.

    Notes
    -----
    One sweep, with a halo of ``truncate`` times ``high_sigma``.

    References
    ----------
    `skimage.filters.difference_of_gaussians`.

    Examples
    --------
    >>> v = bv.open(np.array([[0, 0, 8, 0, 0]], "u1"))
    >>> np.asarray(bv.difference_of_gaussians(v, (0, 0.5), (0, 1))).round(1)
    array([[-0.4, -1.1,  3.1, -1.1, -0.4]], dtype=float32)
    """

def distance_transform_cdt(
    mask: Volume,
    metric: Any = 'chessboard',
    *,
    return_indices: bool = False,
) -> Volume:
    """Compute the chessboard or taxicab distance of each foreground voxel to the background.

    Parameters
    ----------
    mask : Volume or numpy.ndarray
        A volume or an array with up to three axes. Nonzero voxels are foreground; all other voxels
        have distance 0.
    metric : {"chessboard", "taxicab", "cityblock", "manhattan"} or array_like, default: "chessboard"
        The metric. A diagonal step has length 1 in ``"chessboard"``; in the other metrics, its
        length is the number of axes. Alternatively, an equivalent structure: all neighbours, or
        only those that share a face.
    return_indices : bool, default: False
        Not available; True raises an error.

    Returns
    -------
    Volume
        An int32 volume of steps; -1 everywhere if the whole volume has no background.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis.
    TypeError
        If ``volume`` is neither a volume nor an array, or a parameter has a wrong type.

    See Also
    --------
    distance_transform_edt : computes Euclidean distances.

    Notes
    -----
    Two sweeps: the first finds the distance to the background along z in each slab, and the second
    computes the distances in whole planes. A slab keeps one small number for each column of voxels
    and each window between the two sweeps.

    References
    ----------
    `scipy.ndimage.distance_transform_cdt`; A. Meijster, J. Roerdink, W. Hesselink, "A general
    algorithm for computing distance transforms in linear time" (2000).

    Examples
    --------
    >>> v = bv.open(np.array([[1, 1, 1], [1, 1, 1], [1, 1, 0]]))
    >>> np.asarray(bv.distance_transform_cdt(v))
    array([[2, 2, 2],
           [2, 1, 1],
           [2, 1, 0]], dtype=int32)
    >>> np.asarray(bv.distance_transform_cdt(v, "taxicab"))
    array([[4, 3, 2],
           [3, 2, 1],
           [2, 1, 0]], dtype=int32)
    """

@overload
def distance_transform_edt(
    mask: Volume,
    sampling: float | Sequence[float] | str | None = None,
    *,
    squared: bool = False,
    max_distance: float | str | None = None,
    return_indices: Literal[False] = False,
) -> Volume:
    """Compute the exact Euclidean distance of each foreground voxel to the background.

    Parameters
    ----------
    mask : Volume or numpy.ndarray
        A volume or an array with up to three axes. Nonzero voxels are foreground; all other voxels
        have distance 0.
    sampling : float, sequence of float or "voxel_size", optional
        Extent of a voxel: one value for all axes or one per axis; 1 by default. ``"voxel_size"`` uses
        the voxel size of the volume, so distances are in its unit.
    squared : bool, default: False
        Whether to return squared distances, as float64. With a sampling of 1, they are exact
        integers.
    max_distance : float or str, optional
        The maximum distance, in the unit of ``sampling``, or a length such as ``"200 nm"`` with
        ``sampling="voxel_size"``. With a maximum distance, the transform is a filter with a halo of
        this length, in one sweep. An error is raised if it is too large for the memory. By default,
        there is no limit.
    return_indices : bool, default: False
        Whether to also return the position of the nearest background voxel.

    Returns
    -------
    distances : Volume
        A float32 volume: the distance in float64, rounded once. The distance is +inf if the whole
        volume has no background; in this case, scipy's result is undefined.
    indices : Volume
        With ``return_indices=True``, an int32 volume with a channel for each axis: the index of the
        nearest background voxel. If several are equally near, it is the first in raster order
        (undefined in scipy). The index is -1 beyond ``max_distance`` and if there is no background.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis.
    TypeError
        If ``volume`` is neither a volume nor an array, or a parameter has a wrong type.

    See Also
    --------
    signed_distance : computes distances on both sides.

    Notes
    -----
    Two sweeps: the first finds the distance to the background along z in each slab, and the second
    computes the distances in whole planes. A slab keeps one small number for each column of voxels
    and each window between the two sweeps. With ``max_distance``, one sweep.

    References
    ----------
    `scipy.ndimage.distance_transform_edt`; A. Meijster, J. Roerdink, W. Hesselink, "A general
    algorithm for computing distance transforms in linear time" (2000); P. F. Felzenszwalb, D. P.
    Huttenlocher, "Distance transforms of sampled functions", Theory of Computing 8 (2012).

    Examples
    --------
    >>> row = bv.open(np.array([[1, 1, 1, 0, 1]]))
    >>> np.asarray(bv.distance_transform_edt(row))
    array([[3., 2., 1., 0., 1.]], dtype=float32)
    >>> np.asarray(bv.distance_transform_edt(row, squared=True, max_distance=2))
    array([[4., 4., 1., 0., 1.]])
    >>> distances, at = bv.distance_transform_edt(row, return_indices=True)
    >>> np.asarray(at.sel(c="x"))
    array([[3, 3, 3, 3, 3]], dtype=int32)
    """

@overload
def distance_transform_edt(
    mask: Volume,
    sampling: float | Sequence[float] | str | None = None,
    *,
    squared: bool = False,
    max_distance: float | str | None = None,
    return_indices: Literal[True],
) -> tuple[Volume, Volume]:
    """Compute the exact Euclidean distance of each foreground voxel to the background.

    Parameters
    ----------
    mask : Volume or numpy.ndarray
        A volume or an array with up to three axes. Nonzero voxels are foreground; all other voxels
        have distance 0.
    sampling : float, sequence of float or "voxel_size", optional
        Extent of a voxel: one value for all axes or one per axis; 1 by default. ``"voxel_size"`` uses
        the voxel size of the volume, so distances are in its unit.
    squared : bool, default: False
        Whether to return squared distances, as float64. With a sampling of 1, they are exact
        integers.
    max_distance : float or str, optional
        The maximum distance, in the unit of ``sampling``, or a length such as ``"200 nm"`` with
        ``sampling="voxel_size"``. With a maximum distance, the transform is a filter with a halo of
        this length, in one sweep. An error is raised if it is too large for the memory. By default,
        there is no limit.
    return_indices : bool, default: False
        Whether to also return the position of the nearest background voxel.

    Returns
    -------
    distances : Volume
        A float32 volume: the distance in float64, rounded once. The distance is +inf if the whole
        volume has no background; in this case, scipy's result is undefined.
    indices : Volume
        With ``return_indices=True``, an int32 volume with a channel for each axis: the index of the
        nearest background voxel. If several are equally near, it is the first in raster order
        (undefined in scipy). The index is -1 beyond ``max_distance`` and if there is no background.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis.
    TypeError
        If ``volume`` is neither a volume nor an array, or a parameter has a wrong type.

    See Also
    --------
    signed_distance : computes distances on both sides.

    Notes
    -----
    Two sweeps: the first finds the distance to the background along z in each slab, and the second
    computes the distances in whole planes. A slab keeps one small number for each column of voxels
    and each window between the two sweeps. With ``max_distance``, one sweep.

    References
    ----------
    `scipy.ndimage.distance_transform_edt`; A. Meijster, J. Roerdink, W. Hesselink, "A general
    algorithm for computing distance transforms in linear time" (2000); P. F. Felzenszwalb, D. P.
    Huttenlocher, "Distance transforms of sampled functions", Theory of Computing 8 (2012).

    Examples
    --------
    >>> row = bv.open(np.array([[1, 1, 1, 0, 1]]))
    >>> np.asarray(bv.distance_transform_edt(row))
    array([[3., 2., 1., 0., 1.]], dtype=float32)
    >>> np.asarray(bv.distance_transform_edt(row, squared=True, max_distance=2))
    array([[4., 4., 1., 0., 1.]])
    >>> distances, at = bv.distance_transform_edt(row, return_indices=True)
    >>> np.asarray(at.sel(c="x"))
    array([[3, 3, 3, 3, 3]], dtype=int32)
    """

def downsample(
    volume: Volume,
    factors: int | Sequence[int],
    method: str = 'mean',
) -> Volume:
    """Combine each window of ``factors`` voxels into one voxel.

    Windows start at the first voxel and are clipped at the far edges.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    factors : int or sequence of int
        Extent of windows in voxels; one number for all axes or one per axis.
    method : {"mean", "min", "max", "median", "mode", "stride"}, default: "mean"
        How to combine the voxels of a window. Means of integers are rounded half to even. The
        median of an even number of voxels is the lower of the middle two. ``"mode"`` is the most
        frequent value; if there are several, the smallest is used. ``"stride"`` is the first voxel.

    Returns
    -------
    Volume
        A volume of the input's dtype. The voxels of the result are larger by ``factors``, and its
        origin is in the centre of the first window (unchanged for ``"stride"``). A voxel is NaN if
        its window contains a NaN.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis.
    TypeError
        If ``volume`` is neither a volume nor an array, or a parameter has a wrong type.

    See Also
    --------
    upsample : the inverse.
    zoom : resamples by any factors.

    Notes
    -----
    A slice of the result needs ``factors`` slices of the volume, and is computed in the same sweep.
    Each level of a pyramid is computed from the previous one.

    References
    ----------
    `tensorstore.downsample`.

    Examples
    --------
    >>> v = bv.open(np.array([[1, 2, 3], [4, 6, 8]], "u1"), voxel_size=10, unit="nm")
    >>> small = bv.downsample(v, 2)
    >>> np.asarray(small), small.voxel_size, small.origin
    (array([[3, 6]], dtype=uint8), (20.0, 20.0), (5.0, 5.0))
    """

def enhance_contrast(
    volume: Volume,
    size: int | Sequence[int] | None = None,
    footprint: ArrayLike | None = None,
    *,
    axes: int | Sequence[int] | None = None,
) -> Volume:
    """Replace each voxel with the minimum or maximum of its neighbourhood, whichever is closer.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes: unsigned integers or floats.
    size : int or sequence of int, optional
        Extent of the box in voxels; one value for all axes or one per axis. Pass either ``size`` or
        ``footprint``.
    footprint : array_like of bool, optional
        The footprint, with one dimension per axis, such as from `ball`.
    axes : int or sequence of int, optional
        Axes to work along, counted from 0, or backwards from -1; all axes by default.

    Returns
    -------
    Volume
        A volume of the input's dtype: the minimum if both are equally close.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis. If not exactly one of
        ``size`` and ``footprint`` is given.
    TypeError
        If ``volume`` is neither a volume nor an array, or has an unsupported dtype.

    See Also
    --------
    autolevel : stretches the contrast.
    unsharp_mask : sharpens edges.

    Notes
    -----
    Voxels beyond the edges are ignored. The result equals scikit-image's.

    One sweep. The halo is the reach of the footprint: along each axis, a slab reads ``size - 1`` more
    voxels than it writes. A window contains the same number of additional slices.

    References
    ----------
    `skimage.filters.rank.enhance_contrast`.

    Examples
    --------
    >>> v = bv.open(np.array([[1, 2, 3, 7, 8, 9]], "u1"))
    >>> np.asarray(bv.enhance_contrast(v, (1, 3)))
    array([[1, 1, 2, 8, 7, 9]], dtype=uint8)
    """

def entropy(
    volume: Volume,
    size: int | Sequence[int] | None = None,
    footprint: ArrayLike | None = None,
    *,
    axes: int | Sequence[int] | None = None,
) -> Volume:
    """Compute the entropy of the values around each voxel, a measure of texture.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes: bool, uint8 or uint16.
    size : int or sequence of int, optional
        Extent of the box in voxels; one value for all axes or one per axis. Pass either ``size`` or
        ``footprint``.
    footprint : array_like of bool, optional
        The footprint, with one dimension per axis, such as from `ball`.
    axes : int or sequence of int, optional
        Axes to work along, counted from 0, or backwards from -1; all axes by default.

    Returns
    -------
    Volume
        A float32 volume: the number of bits needed to encode the value of a voxel under the
        footprint, 0 where all are equal.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis. If not exactly one of
        ``size`` and ``footprint`` is given.
    TypeError
        If ``volume`` is neither a volume nor an array, or has an unsupported dtype.

    See Also
    --------
    autolevel : stretches the contrast around each voxel.
    features : other measures of texture.

    Notes
    -----
    Voxels beyond the edges are ignored. The result equals scikit-image's, which is float64. The
    time grows with the number of rows of the footprint, not columns.

    One sweep. The halo is the reach of the footprint: along each axis, a slab reads ``size - 1`` more
    voxels than it writes. A window contains the same number of additional slices.

    References
    ----------
    `skimage.filters.rank.entropy`.

    Examples
    --------
    >>> v = bv.open(np.array([[5, 5, 5, 1, 2, 3]], "u1"))
    >>> np.asarray(bv.entropy(v, (1, 3))).round(2)
    array([[0.  , 0.  , 0.92, 1.58, 1.58, 1.  ]], dtype=float32)
    """

def equalize_adapthist(
    volume: Volume,
    kernel_size: int | Sequence[int] | None = None,
    clip_limit: float = 0.01,
    nbins: int = 256,
) -> Volume:
    """Equalize the histogram locally, with limited contrast (CLAHE).

    Use it if structures are visible in some parts of a volume, but too dark or bright in other
    parts. Each tile has a curve that equalizes its histogram. A voxel is mapped by interpolating
    between the curves of the nearest tiles.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
        Each channel is equalized separately.
    kernel_size : int or sequence of int, optional
        Extent of a tile in voxels; one value for all axes or one per axis. By default, an eighth of
        the volume along each axis. 1 along z equalizes slice by slice.
    clip_limit : float, default: 0.01
        The largest fraction of a tile's voxels in one bin: larger numbers give more contrast. 0
        sets no limit.
    nbins : int, default: 256
        Number of bins of a tile's histogram, up to 16384.

    Returns
    -------
    Volume
        A volume from 0 to 1: float32 for integers of up to 16 bits, float16 and float32; float64
        for other dtypes.

    Raises
    ------
    ValueError
        If a parameter is out of range, or the histograms of all tiles need more than 256 MiB. On
        computation, if a voxel is NaN or infinite.
    TypeError
        If ``volume`` is neither a volume nor an array, or is bool.

    See Also
    --------
    equalize_hist : uses one curve for the whole volume.
    normalize_slices : adjusts each slice.

    Notes
    -----
    Four sweeps: the range of the voxels, the histograms of tiles, the range of the result, and the
    result. Tiles belong to the grid of the volume, so the result does not depend on slabs. Every
    worker holds the curves of all tiles, ``2 * nbins`` bytes each. There is no halo.

    The result equals scikit-image's for unsigned integers of up to 16 bits. Other voxels are divided
    into 16384 levels directly, while scikit-image first scales them to 16 bits and clips negative
    voxels. scikit-image also converts colours to HSV; to do the same, equalize the value channel of
    `rgb2hsv`.

    References
    ----------
    `skimage.exposure.equalize_adapthist`; K. Zuiderveld, "Contrast limited adaptive histogram
    equalization", Graphics Gems IV (1994).

    Examples
    --------
    >>> uneven = np.array([[0, 2, 0, 2, 200, 220, 200, 220]], "u1")
    >>> np.asarray(bv.equalize_adapthist(uneven, (1, 4), 0)).round(1)[0]
    array([0. , 1. , 0. , 0.5, 0.5, 1. , 0. , 1. ], dtype=float32)
    """

def equalize_hist(
    volume: Volume,
    nbins: int = 256,
    *,
    mask: Volume | None = None,
    nan: str = 'raise',
) -> Volume:
    """Equalize the histogram by mapping each intensity to the fraction of voxels up to it.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    nbins : int, default: 256
        Number of equal bins between the smallest and the largest voxel. For bool and integers of up to
        16 bits, each value is counted instead.
    mask : Volume, optional
        Only voxels with a nonzero mask are included; all voxels by default.
        All voxels are changed, including voxels outside of the mask.
    nan : {"raise", "omit"}, default: "raise"
        Whether NaN and infinite voxels raise an error on computation or are ignored.

    Returns
    -------
    Volume
        A volume from 0 to 1: float32 for bool, integers of up to 16 bits, float16 and float32;
        float64 for other dtypes.

    Raises
    ------
    ValueError
        If a parameter is out of range. On computation, if an included voxel is NaN or infinite and
        ``nan="raise"``, or no voxel is included.
    TypeError
        If ``volume`` is neither a volume nor an array.
    ValueError
        On computation, if integers exceed 2**53.

    Notes
    -----
    Two sweeps for bool and integers of up to 16 bits, with exact counts of values. Other dtypes
    need three, for the range, the histogram and the result.

    References
    ----------
    `skimage.exposure.equalize_hist`.

    Examples
    --------
    >>> np.asarray(bv.equalize_hist(bv.open(np.array([[3, 5, 5, 200]], "u1"))))
    array([[0.25, 0.75, 0.75, 1.  ]], dtype=float32)
    """

def estimate(
    plan: Plan,
    machine_type: Any,
    machines: int | None = None,
    *,
    store: Any = None,
) -> Estimate:
    """Estimate the hours, requests and memory of a plan on given machines, without reading data.

    Use it to choose machines and chunks before you pay for them.

    Parameters
    ----------
    plan : Plan
        The result of `plan`. Plan with ``threads=`` set to a machine's number of vCPUs, and with
        ``memory=`` set to its memory minus 1 GiB for the system.
    machine_type : str or tuple
        The name of a general-purpose machine type, such as ``"n2-standard-16"`` or
        ``"m6i.4xlarge"``, or vCPUs and memory, as ``"16x64GiB"`` or ``(16, "64GiB")``. The
        bandwidth in bytes per second can be appended, as in ``"16x64GiBx2GiB"``; by default, it is
        1 Gbit/s for each vCPU, up to 32 Gbit/s.
    machines : int, optional
        Number of machines; by default the number in the plan.
    store : str or dict, optional
        ``"s3"``, ``"gcs"`` or ``"disk"``; by default the store of the plan's paths. Local paths
        count as a disk for one machine, and as a bucket for several. To change the numbers of a
        store, write ``"s3,prefixes=10"`` or ``{"name": "s3", "prefixes": 10}``. The numbers are
        ``prefixes``, ``reads`` and ``writes`` (requests per second for each prefix), ``latency``
        (seconds), and ``doubling`` (seconds in which the rates double). The prices are
        ``read_price``, ``write_price`` and ``gib_month``.

    Returns
    -------
    Estimate
        The hours, the limiting factor, and the requests with their prices.

    Raises
    ------
    ValueError
        If the machine or store is invalid, or ``machines`` is not a positive integer.

    See Also
    --------
    plan : makes the plan.

    Notes
    -----
    The time of a pass is the maximum of three times. Computation time follows from rough costs of
    operations, or from this machine's speeds after ``beam-volumes bench --calibrate``. Transfer
    time is bytes divided by the machines' bandwidth, unless the store is a disk. Request time is
    limited by the store's rate, and by its latency for concurrent requests. Bytes and requests are
    taken from the plan, before compression. The start of machines, merges across slabs, and the
    journal's five requests for each slab are not included.

    Request rates, latencies and prices are published by the providers. Amazon S3 accepts at least
    3,500 writes and 5,500 reads per second for each prefix. A bucket of Google Cloud Storage starts
    with 1,000 writes and 5,000 reads per second; these rates may double every 20 minutes.

    Examples
    --------
    >>> v = bv.open(np.zeros((256, 512, 512), "u1"))
    >>> plan = bv.plan(bv.median_filter(v, 3).to("out.zarr"), memory="8GiB", threads=4, slab=(64, 512, 512))
    >>> found = bv.estimate(plan, "4x16GiB", machines=2)
    >>> found.machine.gib, found.memory_needed >> 30, found.bytes_read >> 20, found.store.name
    (16.0, 2, 65, 's3')
    >>> round(found.cost(vcpu_hour=0.06, gib_hour=0.004), 2)
    0.0
    """

def estimate_flat_field(
    tiles: Sequence[Volume],
    *,
    darkfield: bool = False,
    size: int = 128,
    mask: Volume | Sequence[Volume | None] | None = None,
    nodata: float | None = None,
    progress: bool | Callable[..., None] | None = None,
) -> tuple[Volume, Volume]:
    """Estimate the uneven illumination that all tiles share.

    Use it for tiles with dark borders, before `fuse`: ``(tile - dark) / flat`` is even.

    Parameters
    ----------
    tiles : sequence of Volume or numpy.ndarray
        Tiles with one channel and the same extent along y and x, lazy or opened. Slices along z are
        separate images. At least 5 images are needed; 20 or more are better.
    darkfield : bool, default: False
        Whether to estimate the signal without light as well. The tiles must differ in brightness.
    size : int, default: 128
        The maximum extent of the downsampled images along y and x, from 8 to 512.
    mask : Volume, numpy.ndarray or sequence of these, optional
        Only voxels with a nonzero mask are used: one mask for all tiles, or a list with a mask or
        None for each tile. A mask has the shape of its tile, and bool or integer voxels.
    nodata : float, optional
        The value of voxels without data, such as 0 for black borders. They are not used.
    progress : bool or callable, optional
        Whether to show progress on standard error, or a function to call with the progress, as in
        `compute`.

    Returns
    -------
    flat : Volume
        The flat field, lazy, with the axes y and x of a tile, float32 and mean 1. It is at least
        0.02 of its maximum, so a division by it is finite.
    dark : Volume
        The dark field, likewise, in the unit of the voxels. It is 0 without ``darkfield``.

    Raises
    ------
    ValueError
        If a parameter is out of range, or there are too few images with positive brightness. If tiles
        differ in axes or in their extent along y and x, or have several channels or time points. If
        ``darkfield`` is true and the brightnesses of tiles differ by less than a tenth.
    TypeError
        If a tile is neither a volume nor an array, or has bool or complex voxels, or if a mask has
        floats.

    See Also
    --------
    match_tiles : evens out the brightness of tiles.
    n4_bias_field_correction : estimates the shading of a single volume.

    Notes
    -----
    Each tile is read once and downsampled in a sweep. At most 512 images are kept, which are evenly
    spaced among all images. Memory is 12 bytes for each of their voxels, at most 100 MiB by default,
    in addition to the downsampled images and the sweep of one tile. The fields are lazy, and
    interpolate linearly.

    An image is the flat field times the brightness of the image, plus the dark field and sparse
    objects, as in BaSiC. The flat field is a polynomial of degree 6. With at least 24 images, cosines
    that are significant in groups of images are added; small marks of dust remain in part. Robust
    weights leave objects out, at a scale that decreases from half the brightness to the noise.
    Weights depend on relative differences only. Crowded fields need no background: it is enough that
    objects are equally bright everywhere on average. Objects must not prefer a position in the
    images, such as the centre.

    The dark field is a polynomial of degree 2. Multiples of the flat field cannot be distinguished
    from brightness; the dark field is the one that is not correlated with the flat field.

    Voxels outside of ``mask``, voxels with the value ``nodata``, and NaN and infinite voxels are not
    used. Saturated voxels are used: exclude them with ``mask``. A dead column of the camera is left
    out like an object, so the flat field does not show it.

    References
    ----------
    T. Peng et al., "A BaSiC tool for background and shading correction of optical microscopy images",
    Nature Communications 8, 2017.

    Examples
    --------
    >>> y, x = np.mgrid[-1:1:64j, -1:1:64j]
    >>> vignette = 1 - 0.3 * (y**2 + x**2)
    >>> tiles = [vignette * brightness for brightness in (90.0, 100.0, 110.0, 95.0, 120.0)]
    >>> flat, dark = bv.estimate_flat_field(tiles)
    >>> even = tiles[0] / np.asarray(flat)
    >>> bool(np.ptp(even) < 0.01 * even.mean())
    True
    """

def estimate_sigma(
    volume: Volume,
) -> Scalar:
    """Estimate the standard deviation of Gaussian noise from the finest details.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.

    Returns
    -------
    Scalar
        The lazy number, for the noise of all channels together. The estimate is the median of the
        absolute details of a wavelet transform (db2) in all directions, divided by 0.6745.

    Raises
    ------
    ValueError
        If a parameter is out of range. On computation, if an included voxel is NaN or infinite and
        ``nan="raise"``, or no voxel is included.
    TypeError
        If ``volume`` is neither a volume nor an array.

    See Also
    --------
    denoise_nl_means : takes this number.

    Notes
    -----
    Two sweeps, or four for float64 and integers of 32 and 64 bits. Details that are 0 are ignored.
    The result equals scikit-image's to the precision of the dtype.

    References
    ----------
    `skimage.restoration.estimate_sigma`; D. L. Donoho, I. M. Johnstone, "Ideal spatial adaptation by
    wavelet shrinkage", Biometrika 81 (1994).

    Examples
    --------
    >>> noise = np.random.default_rng(0).normal(100, 5, (60, 60))
    >>> f"{bv.estimate_sigma(noise):.1f}"
    '4.9'
    """

def exp(
    volume: Volume | Scalar,
) -> Any:
    """Compute exponentials, with the same bits on every processor.

    Parameters
    ----------
    volume : Volume or Scalar
        A volume or a lazy number.

    Returns
    -------
    Volume or Scalar
        A result of the same kind, with numpy's dtype.

    Raises
    ------
    TypeError
        If the input is not a volume, lazy number, array or number.

    Notes
    -----
    Pointwise: no halo, and no sweeps beyond those for the inputs.

    numpy's results may differ in the last bit, because they depend on the processor.

    References
    ----------
    `numpy.exp`.

    Examples
    --------
    >>> np.asarray(bv.exp(bv.open(np.array([[0.0, 1.0]])))).round(4)
    array([[1.    , 2.7183]])
    """

def expand_labels(
    labels: Volume,
    distance: float | str = 1,
    spacing: float | Sequence[float] | str | None = None,
) -> Volume:
    """Expand labels into the background up to a distance, without overlap.

    Use it to grow cells from nuclei, or to add a margin around each object.

    Parameters
    ----------
    labels : Volume or numpy.ndarray
        Bool or integer labels. 0 is background; all other voxels keep their label.
    distance : float or str, default: 1
        The maximum distance from a label, in the unit of ``spacing``, or a length such as ``"200
        nm"`` with ``spacing="voxel_size"``. 0 returns the labels. An error is raised if it is too
        large for the memory.
    spacing : float, sequence of float or "voxel_size", optional
        Extent of a voxel: one value for all axes or one per axis; 1 by default. ``"voxel_size"``
        uses the voxel size of the volume.

    Returns
    -------
    Volume
        A volume of the input's dtype. A background voxel gets the label of the nearest labelled
        voxel, or the smallest label if several are equally near. (In scikit-image, this depends on
        the direction.)

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis.
    TypeError
        If ``volume`` is neither a volume nor an array, or a parameter has a wrong type.

    See Also
    --------
    distance_transform_edt : computes the distances, with ``return_indices=True`` also positions.
    watershed : expands labels along intensities.

    Notes
    -----
    One sweep, with a halo of ``distance`` along each axis. Time grows with the distance in voxels.

    References
    ----------
    `skimage.segmentation.expand_labels`.

    Examples
    --------
    >>> row = bv.open(np.array([[0, 0, 1, 0, 0, 0, 2]]))
    >>> np.asarray(bv.expand_labels(row, 2))
    array([[1, 1, 1, 1, 1, 2, 2]])
    >>> np.asarray(bv.expand_labels(row, 30, spacing=[40, 20]))
    array([[0, 1, 1, 1, 0, 2, 2]])
    """

def expm1(
    volume: Volume | Scalar,
) -> Any:
    """Compute exponentials minus one, precisely for small values.

    Parameters
    ----------
    volume : Volume or Scalar
        A volume or a lazy number.

    Returns
    -------
    Volume or Scalar
        A result of the same kind, with numpy's dtype.

    Raises
    ------
    TypeError
        If an input is not a volume, lazy number, array or number.

    Notes
    -----
    Pointwise: no halo, and no sweeps beyond those for the inputs.

    Results are the same on every processor; numpy's results depend on the processor. The error is below
    2 units in the last place of float64, or of the narrower dtype to which results are rounded.

    References
    ----------
    `numpy.expm1`; fdlibm, Sun Microsystems (1993).

    Examples
    --------
    >>> np.asarray(bv.expm1(bv.open(np.array([[0.0, 1.0]])))).round(4)
    array([[0.    , 1.7183]])
    """

def extrema(
    volume: Volume,
    labels: Volume | None = None,
    index: ArrayLike | None = None,
    *,
    mask: Volume | None = None,
    nan: str = 'raise',
) -> tuple[Scalar, Scalar, Scalar, Scalar]:
    """Find the smallest and the largest voxel, and their first positions.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    labels : Volume or numpy.ndarray, optional
        Labels with the same shape, bool or integers from 0, to measure each label separately, as in
        `scipy.ndimage`.
    index : int or array_like of int, optional
        The labels to measure, in any order; 0 is the background. The result is an array of this shape.
        Missing labels are NaN, or 0 for integers. By default, all labels are measured together.
    mask : Volume, optional
        Only voxels with a nonzero mask are included; all voxels by default.
    nan : {"raise", "omit"}, default: "raise"
        Whether NaN and infinite voxels raise an error on computation or are ignored.

    Returns
    -------
    smallest : Scalar
        The smallest voxel, a lazy number in the volume's dtype.
    largest : Scalar
        The largest voxel.
    smallest_at : Scalar
        A lazy int64 array: the index along each axis of the smallest voxel, the first in raster
        order.
    largest_at : Scalar
        A lazy int64 array: the index along each axis of the largest voxel, the first in raster
        order.

    Raises
    ------
    ValueError
        If a parameter is out of range. On computation, if an included voxel is NaN or infinite and
        ``nan="raise"``, or no voxel is included.
    TypeError
        If ``volume`` is neither a volume nor an array.

    Notes
    -----
    One sweep for all four results.

    Partial results of slabs are merged exactly, so the result is the same, bit for bit, for any
    division into slabs.

    References
    ----------
    `scipy.ndimage.extrema`.

    Examples
    --------
    >>> low, high, low_at, high_at = bv.extrema(bv.open(np.array([[3, 1], [1, 4]])))
    >>> int(low), int(high), np.asarray(low_at), np.asarray(high_at)
    (1, 4, array([0, 1]), array([1, 1]))
    """

def farid(
    volume: Volume,
    axis: int | Sequence[int] | None = None,
    *,
    mode: str | Sequence[str] = 'reflect',
    cval: float = 0.0,
    dtype: DTypeLike | None = None,
) -> Volume:
    """Find edges with Farid and Simoncelli's derivative along an axis, or the magnitude of several.

    With five weights along each axis, the result is nearly independent of the direction of an edge.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes. Intensities keep their scale, whereas scikit-image
        scales integers to the range from 0 to 1.
    axis : int or sequence of int, optional
        The axis of the derivative, counted from 0, or backwards from -1. For several axes, or all
        by default, the squared derivatives are summed, and divided by the volume's number of axes.
        The result is the square root.
    mode : str or sequence of str, default: "reflect"
        How to extend the volume beyond its edges, as in `scipy.ndimage`; one mode for all axes or one
        per axis. ``"reflect"`` and ``"grid-mirror"`` repeat the outer voxel (c b a | a b c d | d c b), and
        ``"mirror"`` does not (d c b | a b c d | c b a). ``"nearest"`` extends it (a a a | a b c d | d d
        d), ``"constant"`` and ``"grid-constant"`` use ``cval``, and ``"wrap"`` and ``"grid-wrap"``
        repeat the volume (b c d | a b c d | a b c).
    cval : float, default: 0.0
        The value beyond the edges if ``mode`` is ``"constant"`` or ``"grid-constant"``.
    dtype : dtype, optional
        Dtype of the result. Integers are rounded half to even and clipped to the dtype's range.

    Returns
    -------
    Volume
        A float32 volume for bool, integers of up to 16 bits, float16 and float32; a float64 volume for
        other dtypes. ``dtype`` overrides this.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis. If a length has a unit
        but the volume has no voxel size.
    TypeError
        If ``volume`` is neither a volume nor an array, or ``dtype`` is not supported.

    See Also
    --------
    scharr : uses three voxels along each axis.
    gaussian_gradient_magnitude : smooths by a chosen extent.

    Notes
    -----
    One sweep, with a halo of two voxels along each axis.

    References
    ----------
    `skimage.filters.farid`; H. Farid, E. P. Simoncelli, "Differentiation of discrete
    multidimensional signals", IEEE Transactions on Image Processing 13 (2004).

    Examples
    --------
    >>> step = bv.open(np.array([[0, 0, 0, 8, 8, 8]], "u1"))
    >>> np.asarray(bv.farid(step, axis=1)).round(2)
    array([[0.  , 0.88, 3.09, 3.09, 0.88, 0.  ]], dtype=float32)
    """

def features(
    volume: Volume,
    sigmas: float | str | Sequence[Any] = (0.5, 1, 2, 4, 8),
    *,
    intensity: bool = True,
    edges: bool = True,
    texture: bool = True,
    structure: bool = False,
) -> Volume:
    """Compute features of each voxel at several scales, as channels for a classifier.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes. Intensities keep their scale, whereas scikit-image
        scales integers to the range from 0 to 1.
    sigmas : sequence, default: (0.5, 1, 2, 4, 8)
        Standard deviations of the Gaussians that smooth the volume, one for each scale. Each is a
        number of voxels, a length such as ``"15 nm"``, or a sequence of these with one entry per
        axis.
    intensity : bool, default: True
        Whether to include the smoothed volume.
    edges : bool, default: True
        Whether to include the magnitude of the Sobel gradient.
    texture : bool, default: True
        Whether to include the eigenvalues of the Hessian matrix, in descending order.
    structure : bool, default: False
        Whether to include the eigenvalues of the structure tensor, which is smoothed by half of the
        scale. scikit-image does not have this feature.

    Returns
    -------
    Volume
        A volume with the axis c first, scale after scale: float32 for bool, integers of up to 16 bits,
        float16 and float32, otherwise float64. Channels have names such as ``"edges 2"``. If the
        input has several channels, their features follow one another, and the names begin with the
        channel's name or number.

    Raises
    ------
    ValueError
        If a parameter is out of range, a scale occurs twice, or no feature is selected.
    TypeError
        If ``volume`` is neither a volume nor an array, or a scale is not a length.

    See Also
    --------
    pixel_classifier : learns classes from features.

    Notes
    -----
    One sweep. The halo is four times the largest of ``sigmas`` (six times with ``structure``) plus
    two voxels. Windows of all features are in memory at the same time. Compute large scales on a
    downsampled volume (`downsample`).

    Eigenvalues of float32 have an error of 2e-7 of the largest one.

    References
    ----------
    `skimage.feature.multiscale_basic_features`.

    Examples
    --------
    >>> step = bv.open(np.array([[0, 0, 0, 8, 8, 8]], "u1"))
    >>> found = bv.features(step, [1], texture=False)
    >>> found.channels
    ('intensity 1', 'edges 1')
    >>> np.asarray(found)[1, 0].round(1)
    array([0.3, 1.7, 3.6, 3.6, 1.7, 0.3], dtype=float32)
    """

def fftconvolve(
    volume: Volume,
    weights: ArrayLike,
    *,
    mode: str | Sequence[str] = 'reflect',
    cval: float = 0.0,
    patch: int | Sequence[int] | None = None,
    dtype: DTypeLike | None = None,
) -> Volume:
    """Convolve with a large array of weights, using Fourier transforms of blocks.

    Use it for more than about a hundred weights: the time hardly depends on their number.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    weights : array_like of float
        The weights, with one dimension per axis.
    mode : str or sequence of str, default: "reflect"
        How to extend the volume beyond its edges, as in `scipy.ndimage`; one mode for all axes or one
        per axis. ``"reflect"`` and ``"grid-mirror"`` repeat the outer voxel (c b a | a b c d | d c b),
        and ``"mirror"`` does not (d c b | a b c d | c b a). ``"nearest"`` extends it (a a a | a b c d |
        d d d), and ``"constant"`` and ``"grid-constant"`` use ``cval``.
    cval : float, default: 0.0
        The value beyond the edges if ``mode`` is ``"constant"`` or ``"grid-constant"``.
    patch : int or sequence of int, optional
        Extent of a block, including the voxels to discard. By default, blocks have up to two million
        voxels of float64, or four million of float32. Blocks discard at most half of their extent along
        each axis.
    dtype : dtype, optional
        Dtype of the result. Integers are rounded half to even and clipped to the dtype's range.

    Returns
    -------
    Volume
        A float32 volume for bool, integers of up to 16 bits, float16 and float32; a float64 volume for
        other dtypes. ``dtype`` overrides this.

    Raises
    ------
    ValueError
        If a parameter is out of range, or does not have one entry for each axis. On computation, if
        a voxel is NaN or infinite.
    TypeError
        If ``volume`` is neither a volume nor an array, or ``dtype`` is not supported.

    See Also
    --------
    convolve : adds up the products one by one, for small arrays of weights.

    Notes
    -----
    The result equals `convolve` within 16 units in the last place of the result's dtype. This error
    is relative to the sum of the weights' magnitudes times the largest voxel. Computation is in
    float64. Blocks start at the first voxel of the volume, and overlap by the extent of the
    weights, so the result does not depend on slabs. `scipy.signal.fftconvolve` with ``mode="same"``
    gives the same result for odd extents and ``mode="constant"``.

    One sweep. A slab needs whole blocks, and memory for six arrays of float64 of a block's shape.

    References
    ----------
    `scipy.signal.fftconvolve`, `scipy.signal.oaconvolve`.

    Examples
    --------
    >>> v = bv.open(np.array([[0, 0, 1, 0, 0]], "u1"))
    >>> np.asarray(bv.fftconvolve(v, [[1, 2, 4]])).round(3) + 0.0
    array([[0., 1., 2., 4., 0.]], dtype=float32)
    """

def fftn(
    volume: Volume,
    axes: int | Sequence[int] | None = None,
    norm: str = 'backward',
) -> Volume:
    """Compute the Fourier transform of a whole volume.

    Use it to look at spectra, or before `fourier_gaussian` and related functions. To filter
    frequencies, `fourier_filter` is simpler and faster.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes. Complex numbers are the channels ``real`` and
        ``imag``; real numbers have no channels.
    axes : int or sequence of int, optional
        Axes to work along, counted from 0, or backwards from -1; all axes by default.
    norm : {"backward", "ortho", "forward"}, default: "backward"
        The normalization, as in `numpy.fft.fftn`.

    Returns
    -------
    Volume
        A volume with the channels ``real`` and ``imag``, in numpy's order of frequencies. The dtype
        is float32 for bool, integers of up to 16 bits, float16 and float32; float64 for other
        dtypes. The result keeps the voxel size and origin of the volume for `ifftn`.

    Raises
    ------
    ValueError
        If the axis does not exist, the volume has other channels, or ``norm`` is not supported. On
        computation, if a voxel is NaN or infinite.
    TypeError
        If ``volume`` is neither a volume nor an array.

    See Also
    --------
    ifftn : the inverse.
    fftshift : moves frequency 0 to the centre.
    fourier_filter : multiplies frequencies by a function.

    Notes
    -----
    Three sweeps. The first transforms lines along x and y, and the second lines along z; their
    results are stored for the run. The third restores the order of the volume. Without z, there is
    one sweep. If whole slices do not fit in memory, more results are stored. `scipy.fft` transforms
    whole lines, so the result does not depend on slabs.

    References
    ----------
    `numpy.fft.fftn`, `scipy.fft.fftn`.

    Examples
    --------
    >>> v = bv.open(np.array([[1, 0, 0, 0], [1, 0, 0, 0]], "u1"))
    >>> spectrum = bv.fftn(v)
    >>> np.asarray(spectrum.sel(c="real"))
    array([[2., 2., 2., 2.],
           [0., 0., 0., 0.]], dtype=float32)
    """

def fftshift(
    volume: Volume,
    axes: int | Sequence[int] | None = None,
) -> Volume:
    """Move frequency 0 to the centre of a spectrum.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    axes : int or sequence of int, optional
        Axes to work along, counted from 0, or backwards from -1; all axes by default.

    Returns
    -------
    Volume
        A volume of the input's dtype, with its channels.

    Raises
    ------
    ValueError
        If the axis does not exist.
    TypeError
        If ``volume`` is neither a volume nor an array.

    See Also
    --------
    ifftshift : the inverse.

    Notes
    -----
    Parts of the volume are exchanged, which needs no additional sweep for an opened volume.

    References
    ----------
    `numpy.fft.fftshift`.

    Examples
    --------
    >>> np.asarray(bv.fftshift(bv.open(np.array([[0, 1, 2, -2, -1]], "i1"))))
    array([[-2, -1,  0,  1,  2]], dtype=int8)
    """

def fill_missing(
    volume: Volume,
    missing: int | Sequence[int] | Sequence[bool] | None = None,
    method: str = 'nearest',
    axis: int | str = 'z',
    *,
    nodata: float | None = None,
    max_gap: int = 8,
) -> Volume:
    """Fill missing slices from the nearest valid slices.

    Use it for lost or damaged sections of a stack. Other slices do not change.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    missing : int, sequence of int or sequence of bool, optional
        The positions of missing slices along the axis, or a bool for each slice. Negative positions
        count from the end.
    method : {"nearest", "linear"}, default: "nearest"
        ``"nearest"`` copies the nearest valid slice, and of two equally near slices the earlier
        one. ``"linear"`` interpolates between the valid slices before and after a gap. Gaps at an
        end of the axis always get the nearest valid slice. Use ``"nearest"`` for labels.
    axis : int or str, default: "z"
        The axis across slices, a number or name.
    nodata : number, optional
        Detects missing slices instead of ``missing``: all their voxels have this value, which may
        be NaN. Slices are detected in each channel and time point.
    max_gap : int, default: 8
        With ``nodata``, the largest number of consecutive missing slices.

    Returns
    -------
    Volume
        A volume of the same dtype. Interpolated integers are rounded half to even.

    Raises
    ------
    ValueError
        If a position or the axis does not exist, the volume has only one axis, all slices are
        missing, or a parameter is out of range. With ``nodata``, on computation, if all slices or
        more than ``max_gap`` consecutive slices are missing.
    TypeError
        If ``volume`` is neither a volume nor an array, or not exactly one of ``missing`` and
        ``nodata`` is given.

    See Also
    --------
    normalize_slices : gives all slices the same contrast.
    register_slices : aligns the slices of a stack.

    Notes
    -----
    One sweep, or two with ``nodata``. The halo is the distance to the valid slices, which is at
    most the longest gap, or ``max_gap`` with ``nodata``. Means of two slices are computed in
    float64 and rounded once.

    References
    ----------
    The weights of ``"linear"`` are those of `numpy.interp`.

    Examples
    --------
    >>> stack = bv.open(np.array([[[10, 20]], [[0, 0]], [[0, 0]], [[40, 20]]], "u1"))
    >>> np.asarray(bv.fill_missing(stack, [1, 2], "linear"))[:, 0]
    array([[10, 20],
           [20, 20],
           [30, 20],
           [40, 20]], dtype=uint8)
    >>> np.asarray(bv.fill_missing(stack, nodata=0))[:, 0, 0]
    array([10, 10, 40, 40], dtype=uint8)
    """

def find_boundaries(
    label_img: Volume,
    connectivity: int = 1,
    mode: str = 'thick',
    background: int = 0,
) -> Volume:
    """Find the voxels at boundaries between labels.

    Parameters
    ----------
    label_img : Volume or numpy.ndarray
        Bool or integer labels.
    connectivity : {1, 2, 3}, default: 1
        Which voxels are neighbours: 1 for voxels that share a face, 2 to include shared edges, 3 to
        include shared corners.
    mode : {"thick", "inner", "outer"}, default: "thick"
        ``"thick"``: every voxel with a neighbour of a different label. ``"inner"``: labelled voxels
        with such a neighbour. ``"outer"``: background voxels with such a neighbour, and both sides
        of a boundary between two labels. ``"subpixel"`` is not available, because its result has a
        different shape.
    background : int, default: 0
        The label of the background.

    Returns
    -------
    Volume
        A bool volume.

    Raises
    ------
    ValueError
        If a parameter is out of range.
    TypeError
        If ``label_img`` is neither a volume nor an array, or has an unsupported dtype.

    See Also
    --------
    mark_boundaries : draws them on an image.
    boundary_scores : compares the boundaries of two segmentations.

    Notes
    -----
    One sweep, with a halo of one voxel.

    References
    ----------
    `skimage.segmentation.find_boundaries`.

    Examples
    --------
    >>> labels = bv.open(np.array([[0, 0, 5, 5, 5, 7, 7]]))
    >>> np.asarray(bv.find_boundaries(labels)).astype(int)
    array([[0, 1, 1, 0, 1, 1, 0]])
    >>> np.asarray(bv.find_boundaries(labels, mode="inner")).astype(int)
    array([[0, 0, 1, 0, 1, 1, 0]])
    """

def find_objects(
    labels: Volume,
    max_label: int = 0,
) -> list[tuple[slice, ...] | None]:
    """Compute the bounding box of each label as slices.

    Parameters
    ----------
    labels : Volume or numpy.ndarray
        Bool or integer labels; 0 is background.
    max_label : int, default: 0
        The largest label to search; all by default.

    Returns
    -------
    list of tuple of slice
        The bounding boxes of labels 1, 2, ..., or None for missing labels. The boxes are computed
        immediately, in the current process.

    Raises
    ------
    ValueError
        If ``max_label`` is negative, or the list would exceed ``options.max_inmemory`` because
        labels are many or large.
    TypeError
        If ``labels`` is neither a volume nor an array, or has an unsupported dtype, or
        ``max_label`` is not an int.

    See Also
    --------
    regionprops_table : returns boxes as rows of a lazy table, for any number of labels.
    for_each_label : applies a function to each box.

    Notes
    -----
    One sweep; labels from `label` share its second sweep.

    References
    ----------
    `scipy.ndimage.find_objects`.

    Examples
    --------
    >>> bv.find_objects(np.array([[1, 1, 0], [0, 3, 3]], "u1"))
    [(slice(0, 1, None), slice(0, 2, None)), None, (slice(1, 2, None), slice(1, 3, None))]
    """

def fit_bias(
    volume: Volume,
    order: int = 2,
    *,
    mask: Volume | None = None,
) -> Volume:
    """Fit a polynomial to each slice, such as the uneven illumination of a microscope.

    Use it to divide each slice by its illumination or to subtract its background.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    order : int, default: 2
        The degree of the polynomial in y and x, from 0 to 4. 0 is the mean of each slice.
    mask : Volume, optional
        Only voxels with a nonzero mask are included; all voxels by default.
        Select background voxels, or tissue without holes.

    Returns
    -------
    Volume
        The polynomials as a float32 volume of the same shape (float64 for float64). Terms that a
        slice does not determine, such as all terms of a slice without included voxels, are 0.

    Raises
    ------
    ValueError
        If ``order`` is out of range, the shape of ``mask`` differs, or the volume has no voxels or no
        axes y and x. On computation, if an included voxel is NaN or infinite.
    TypeError
        If an input is neither a volume nor an array.

    See Also
    --------
    normalize_slices : gives slices one mean and standard deviation.
    rolling_ball : finds a background that is no polynomial.

    Notes
    -----
    Two sweeps: the first computes exact sums of all slices, and the second the polynomials. The
    second sweep reads the volume only if another part of the expression does.

    References
    ----------
    Least squares of monomials, slice by slice: `numpy.linalg.lstsq`.

    Examples
    --------
    >>> v = bv.open(np.array([[[1, 2, 3], [2, 3, 4]], [[5, 5, 5], [5, 5, 5]]], "u1"))
    >>> bias = bv.fit_bias(v, order=1)
    >>> np.asarray(bias).round(3).tolist()
    [[[1.0, 2.0, 3.0], [2.0, 3.0, 4.0]], [[5.0, 5.0, 5.0], [5.0, 5.0, 5.0]]]
    >>> even = v / bias
    """

def fit_transform(
    source: ArrayLike,
    target: ArrayLike,
    *,
    model: str = 'affine',
    max_residual: float | None = None,
) -> np.ndarray:
    """Find the transform that maps points to corresponding points.

    Use it for landmarks, or for objects that were matched by their centroids.

    Parameters
    ----------
    source, target : array_like
        Corresponding points, arrays of shape (points, axes).
    model : {"translation", "rigid", "affine"}, default: "affine"
        The transformation model: translation, rigid or affine.
    max_residual : float, optional
        The distance up to which a pair agrees with a transform. If set, some pairs may be wrong:
        the transform with which most pairs agree is selected, and fitted to these pairs (RANSAC).

    Returns
    -------
    numpy.ndarray
        A homogeneous matrix that maps ``source`` to ``target``.

    Raises
    ------
    ValueError
        If a parameter is out of range, or the numbers of points differ. If the points do not
        determine the model, because they are too few or lie on a line. With ``max_residual``, also
        if too few pairs agree with any transform.

    See Also
    --------
    register : finds a transform from voxels.
    affine_transform : applies the inverse of the result.

    Notes
    -----
    Computation is in memory. Random samples are the same in each call.

    References
    ----------
    S. Umeyama, "Least-squares estimation of transformation parameters between two point patterns",
    IEEE Transactions on Pattern Analysis and Machine Intelligence 13, 1991; M. A. Fischler and R. C.
    Bolles, "Random sample consensus", Communications of the ACM 24, 1981.

    Examples
    --------
    >>> source = [(0, 0), (0, 10), (10, 0), (5, 5)]
    >>> target = [(1, 2), (1, 12), (11, 2), (90, 90)]
    >>> bv.fit_transform(source, target, model="translation", max_residual=1)
    array([[1., 0., 1.],
           [0., 1., 2.],
           [0., 0., 1.]])
    """

def flip(
    volume: Volume,
    axis: int | Sequence[int] | None = None,
) -> Volume:
    """Reverse the order of voxels along axes.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    axis : int or sequence of int, optional
        Axes to reverse, counted from 0, or backwards from -1; all axes by default.

    Returns
    -------
    Volume
        A volume of the input's dtype with the same origin: voxels are mirrored within the volume's
        extent.

    Raises
    ------
    ValueError
        If the axis does not exist.
    TypeError
        If ``volume`` is neither a volume nor an array.

    See Also
    --------
    transpose : permutes axes.

    Notes
    -----
    An opened volume is read in reverse. A computed volume that is reversed along z is stored for
    the run and read again in one additional sweep.

    References
    ----------
    `numpy.flip`.

    Examples
    --------
    >>> v = bv.open(np.array([[1, 2, 3], [4, 5, 6]], "u1"))
    >>> np.asarray(bv.flip(v, axis=1))
    array([[3, 2, 1],
           [6, 5, 4]], dtype=uint8)
    """

def flood(
    image: Volume,
    seed_point: int | Sequence[int],
    *,
    footprint: ArrayLike | None = None,
    connectivity: int | None = None,
    tolerance: float | None = None,
) -> Volume:
    """Select the voxels that are connected to a seed voxel and have the same value.

    Parameters
    ----------
    image : Volume or numpy.ndarray
        A volume or an array with one channel and up to three axes.
    seed_point : sequence of int
        The position of the seed, one number for each axis except t.
    footprint : array_like, optional
        The neighbours of a voxel: an array with 3 entries along each axis, symmetric about the
        centre.
    connectivity : int, optional
        The largest number of steps along axes between neighbours; by default, voxels that share a
        corner are also neighbours.
    tolerance : float, optional
        The largest difference of a voxel from the seed; 0 by default.

    Returns
    -------
    Volume
        A bool volume.

    Raises
    ------
    ValueError
        If the seed is outside of the volume, or a parameter is out of range.
    TypeError
        If ``image`` is neither a volume nor an array, or a tolerance is given for integers of 64
        bits.

    See Also
    --------
    flood_fill : replaces the selected voxels.
    binary_propagation : grows any seeds in any mask.

    Notes
    -----
    The result is identical to scikit-image's, except that a seed of NaN selects nothing. Three
    sweeps; the first reads only the seed's chunk.

    References
    ----------
    `skimage.segmentation.flood`.

    Examples
    --------
    >>> image = bv.open(np.array([[7, 7, 0, 7], [6, 0, 0, 7]], "u1"))
    >>> np.asarray(bv.flood(image, (0, 0))).astype(int)
    array([[1, 1, 0, 0],
           [0, 0, 0, 0]])
    >>> np.asarray(bv.flood(image, (0, 0), tolerance=1)).astype(int)
    array([[1, 1, 0, 0],
           [1, 0, 0, 0]])
    """

def flood_fill(
    image: Volume,
    seed_point: int | Sequence[int],
    new_value: float,
    *,
    footprint: ArrayLike | None = None,
    connectivity: int | None = None,
    tolerance: float | None = None,
) -> Volume:
    """Replace the voxels that are connected to a seed voxel and have the same value.

    Parameters
    ----------
    image : Volume or numpy.ndarray
        A volume or an array with one channel and up to three axes.
    seed_point : sequence of int
        The position of the seed, one number for each axis except t.
    new_value : number
        The value of the replaced voxels, of the dtype of ``image``.
    footprint : array_like, optional
        The neighbours of a voxel: an array with 3 entries along each axis, symmetric about the
        centre.
    connectivity : int, optional
        The largest number of steps along axes between neighbours; by default, voxels that share a
        corner are also neighbours.
    tolerance : float, optional
        The largest difference of a voxel from the seed; 0 by default.

    Returns
    -------
    Volume
        A volume of the input's dtype.

    Raises
    ------
    ValueError
        If the seed is outside of the volume, or a parameter is out of range.
    TypeError
        If ``image`` is neither a volume nor an array, or a tolerance is given for integers of 64
        bits.

    See Also
    --------
    flood : the replaced voxels.

    References
    ----------
    `skimage.segmentation.flood_fill`.

    Examples
    --------
    >>> image = bv.open(np.array([[7, 7, 0, 7], [6, 0, 0, 7]], "u1"))
    >>> np.asarray(bv.flood_fill(image, (0, 3), 5))
    array([[7, 7, 0, 5],
           [6, 0, 0, 5]], dtype=uint8)
    """

def for_each_label(
    labels: Volume,
    function: Callable[[Region], Mapping[str, Any] | None],
    columns: Mapping[str, Any],
    *,
    volumes: Sequence[Volume] = (),
    pad: int | Sequence[int] = 0,
    name: str | None = None,
    version: Any = None,
) -> Table:
    """Apply your own function to each object of a label volume.

    Use it for results that no table of measurements includes, such as skeletons, meshes, shapes or
    files.

    Parameters
    ----------
    labels : Volume or numpy.ndarray
        Stored labels, integers from 0; 0 is background.
    function : callable
        A function of a ``Region`` with ``label``, ``mask``, ``labels``, ``images``, ``start``,
        ``voxel_size`` and ``unit``. The function returns a dict with a number for each column, or
        None to skip the object. It may write files, and may be called again for an object if a
        worker fails.
    columns : mapping
        Names of the returned numbers, and their dtypes: ``{"length": "f8"}``.
    volumes : sequence of Volume, default: ()
        Stored volumes of the same shape, which are cropped to the same box.
    pad : int or sequence of int, default: 0
        Voxels to add to the box on each side, within the volume.
    name : str, optional
        With ``version``, identifies the function, so that a different process can resume a run.
    version : object, optional
        Change the version when the function changes.

    Returns
    -------
    Table
        A lazy table with ``label`` and the columns, and a row for each object, sorted by label.

    Raises
    ------
    ValueError
        If labels or volumes are computed instead of stored, shapes differ, or a column does not have
        a numeric dtype. On computation, if the function returns different columns, or an object's
        box needs more memory than is available.
    TypeError
        If ``labels`` is neither a volume nor an array, or has an unsupported dtype.

    See Also
    --------
    regionprops_table : measures without a box in memory.

    Notes
    -----
    One sweep finds the boxes; then the boxes are read, in parallel on any runner. A worker holds
    the box of one object at a time: its labels, mask and volumes, and the function's arrays.
    Objects are distributed by the start of their boxes along z.

    References
    ----------
    `scipy.ndimage.labeled_comprehension`, and ``extra_properties`` of
    `skimage.measure.regionprops_table`.

    Examples
    --------
    >>> labels = np.array([[1, 1, 0], [0, 2, 2], [0, 0, 2]], "u1")
    >>> table = bv.for_each_label(labels, lambda r: {"fill": r.mask.mean()}, {"fill": "f8"})
    >>> table.to_pyarrow().to_pydict()
    {'label': [1, 2], 'fill': [1.0, 0.75]}
    """

def fourier_ellipsoid(
    volume: Volume,
    size: float | Sequence[float],
) -> Volume:
    """Multiply a spectrum by the Fourier transform of an ellipsoid.

    Parameters
    ----------
    volume : Volume
        A spectrum, as from `fftn`, with the channels ``real`` and ``imag``.
    size : float or sequence of float
        Diameters of the ellipsoid in voxels; one value for all axes or one per axis.

    Returns
    -------
    Volume
        A spectrum of the input's dtype.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis. If the volume does not
        have the channels ``real`` and ``imag``.
    TypeError
        If ``volume`` is neither a volume nor an array.

    See Also
    --------
    fftn, ifftn : transform and inverse.
    fourier_uniform : the transform of a box.

    Notes
    -----
    Pointwise: no halo, and no sweeps beyond those for the inputs.

    The volume is treated as periodic. scipy's ``n`` is not needed, because spectra are complete.

    References
    ----------
    `scipy.ndimage.fourier_ellipsoid`.

    Examples
    --------
    >>> v = bv.open(np.array([[0, 0, 0, 0], [0, 0, 9, 0], [0, 0, 0, 0]], "u1"))
    >>> smooth = bv.ifftn(bv.fourier_ellipsoid(bv.fftn(v), 2))
    >>> np.asarray(smooth.sel(c="real")).round(1)
    array([[-0.1,  0.2,  1. ,  0.2],
           [-0.4,  1.4,  3.9,  1.4],
           [-0.1,  0.2,  1. ,  0.2]], dtype=float32)
    """

def fourier_filter(
    volume: Volume,
    func: Callable[..., np.ndarray],
    *,
    axes: int | Sequence[int] | None = None,
    name: str | None = None,
    version: str | int | None = None,
) -> Volume:
    """Multiply the spectrum of a volume by a function of frequency.

    Use it to remove stripes, or to keep structures in a range of sizes.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
        Each channel is filtered separately.
    func : callable
        A function of one array of frequencies for each axis, in the order of ``axes``, in cycles
        per voxel from -0.5 to 0.5. The arrays broadcast against each other. The function returns
        factors: real or complex numbers that broadcast with the arrays. For real results, opposite
        frequencies need conjugate factors; imaginary parts of the result are dropped. Several
        threads call the function.
    axes : int or sequence of int, optional
        Axes to transform, counted from 0, or backwards from -1; all axes by default. ``axes=(1,
        2)`` filters slice by slice.
    name : str, optional
        Together with ``version``, it identifies the function when a run is resumed. Without a name, a
        run with this function cannot be resumed.
    version : str or int, optional
        Change the version when you change the function.

    Returns
    -------
    Volume
        A float32 volume for bool, integers of up to 16 bits, float16 and float32; a float64 volume
        for other dtypes.

    Raises
    ------
    ValueError
        If the axis does not exist. On computation, if a voxel is NaN or infinite, or the shape of
        the factors is wrong.
    TypeError
        If ``volume`` is neither a volume nor an array, or ``func`` is not callable.

    See Also
    --------
    fftn : computes the spectrum.
    difference_of_gaussians : keeps a band of sizes without a transform.

    Notes
    -----
    The volume is treated as periodic. Without z, there is one sweep if whole slices fit in memory,
    otherwise one more for each change between rows and columns. With z, there are three: spectra of
    slices are stored, filtered along z, and stored again. Each complex number needs 8 bytes for
    results in float32, and 16 bytes in float64. `scipy.fft` transforms whole lines, so the result
    does not depend on slabs.

    References
    ----------
    B. Münch et al., "Stripe and ring artifact removal with combined wavelet-Fourier filtering", Optics
    Express 17 (2009).

    Examples
    --------
    >>> rows = np.array([[5, 1], [5, 1], [6, 2], [6, 2]], "u1")  # the columns differ
    >>> def no_stripes(fy, fx):  # keep the mean
    ...     return (fy != 0) | (fx == 0)
    >>> np.asarray(bv.fourier_filter(rows, no_stripes, name="no stripes", version=1))
    array([[3., 3.],
           [3., 3.],
           [4., 4.],
           [4., 4.]], dtype=float32)
    """

def fourier_gaussian(
    volume: Volume,
    sigma: float | str | Sequence[float | str],
) -> Volume:
    """Multiply a spectrum by the Fourier transform of a Gaussian.

    Parameters
    ----------
    volume : Volume
        A spectrum, as from `fftn`, with the channels ``real`` and ``imag``.
    sigma : float, str or sequence of them
        Standard deviation of the Gaussian, in voxels or as a length such as ``"15 nm"``. Lengths need a
        volume with a voxel size. One value for all axes or one per axis.

    Returns
    -------
    Volume
        A spectrum of the input's dtype.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis. If the volume does not
        have the channels ``real`` and ``imag``.
    TypeError
        If ``volume`` is neither a volume nor an array.

    See Also
    --------
    fftn, ifftn : transform and inverse.
    gaussian_filter : smooths without a transform, with any extension beyond the edges.

    Notes
    -----
    Pointwise: no halo, and no sweeps beyond those for the inputs.

    The volume is treated as periodic. scipy's ``n`` is not needed, because spectra are complete.

    References
    ----------
    `scipy.ndimage.fourier_gaussian`.

    Examples
    --------
    >>> v = bv.open(np.array([[0, 0, 8, 0, 0, 0]], "u1"))
    >>> smooth = bv.ifftn(bv.fourier_gaussian(bv.fftn(v), (0, 0.8)))
    >>> np.asarray(smooth.sel(c="real")).round(1)
    array([[0.1, 1.9, 3.9, 1.9, 0.1, 0.1]], dtype=float32)
    """

def fourier_shift(
    volume: Volume,
    shift: float | Sequence[float],
) -> Volume:
    """Shift a volume in Fourier space, including by fractions of a voxel.

    Parameters
    ----------
    volume : Volume
        A spectrum, as from `fftn`, with the channels ``real`` and ``imag``.
    shift : float or sequence of float
        The distance in voxels; one value for all axes or one per axis.

    Returns
    -------
    Volume
        A spectrum of the input's dtype.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis. If the volume does not
        have the channels ``real`` and ``imag``.
    TypeError
        If ``volume`` is neither a volume nor an array.

    See Also
    --------
    fftn, ifftn : transform and inverse.
    shift : interpolates between voxels.

    Notes
    -----
    Pointwise: no halo, and no sweeps beyond those for the inputs.

    Voxels that leave the volume on one side enter it on the opposite side. scipy's ``n`` is not
    needed, because spectra are complete.

    References
    ----------
    `scipy.ndimage.fourier_shift`.

    Examples
    --------
    >>> v = bv.open(np.array([[0, 0, 9, 0, 0]], "u1"))
    >>> moved = bv.ifftn(bv.fourier_shift(bv.fftn(v), (0, 2)))
    >>> np.asarray(moved.sel(c="real")).round(1) + 0.0
    array([[0., 0., 0., 0., 9.]], dtype=float32)
    """

def fourier_uniform(
    volume: Volume,
    size: float | Sequence[float],
) -> Volume:
    """Multiply a spectrum by the Fourier transform of a box.

    Parameters
    ----------
    volume : Volume
        A spectrum, as from `fftn`, with the channels ``real`` and ``imag``.
    size : float or sequence of float
        Extent of the box in voxels; one value for all axes or one per axis.

    Returns
    -------
    Volume
        A spectrum of the input's dtype.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis. If the volume does not
        have the channels ``real`` and ``imag``.
    TypeError
        If ``volume`` is neither a volume nor an array.

    See Also
    --------
    fftn, ifftn : transform and inverse.
    uniform_filter : computes means without a transform, with any extension beyond the edges.

    Notes
    -----
    Pointwise: no halo, and no sweeps beyond those for the inputs.

    The volume is treated as periodic. scipy's ``n`` is not needed, because spectra are complete. A
    size of 0 changes nothing, as in `fourier_ellipsoid`; in scipy, it removes all frequencies
    except 0.

    References
    ----------
    `scipy.ndimage.fourier_uniform`.

    Examples
    --------
    >>> v = bv.open(np.array([[0, 0, 9, 0, 0, 0]], "u1"))
    >>> smooth = bv.ifftn(bv.fourier_uniform(bv.fftn(v), (1, 3)))
    >>> np.asarray(smooth.sel(c="real")).round(1)
    array([[ 0.2,  2.8,  3.1,  2.8,  0.2, -0.1]], dtype=float32)
    """

def frangi(
    volume: Volume,
    sigmas: float | Sequence[float] = (1, 3, 5, 7, 9),
    alpha: float = 0.5,
    beta: float = 0.5,
    gamma: float | None = None,
    black_ridges: bool = True,
    *,
    mode: str | Sequence[str] = 'reflect',
    cval: float = 0.0,
) -> Volume:
    """Measure how similar the neighbourhood of each voxel is to a vessel.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with two or three axes. Scale floats to the range from 0 to 1 first;
        integers keep their scale.
    sigmas : float or sequence of float, default: (1, 3, 5, 7, 9)
        Standard deviations in voxels, one for each scale. The result is the maximum over scales.
    alpha : float, default: 0.5
        Larger values suppress plates more.
    beta : float, default: 0.5
        Smaller values suppress blobs more.
    gamma : float, optional
        The required amount of structure; by default half of the maximum at the first scale,
        ignoring NaN. The default needs an additional sweep.
    black_ridges : bool, default: True
        Whether to find dark ridges on a bright background, instead of bright ridges.
    mode : str or sequence of str, default: "reflect"
        How to extend the volume beyond its edges, as in `scipy.ndimage`; one mode for all axes or one
        per axis. ``"reflect"`` and ``"grid-mirror"`` repeat the outer voxel (c b a | a b c d | d c b), and
        ``"mirror"`` does not (d c b | a b c d | c b a). ``"nearest"`` extends it (a a a | a b c d | d d
        d), ``"constant"`` and ``"grid-constant"`` use ``cval``, and ``"wrap"`` and ``"grid-wrap"``
        repeat the volume (b c d | a b c d | a b c).
    cval : float, default: 0.0
        The value beyond the edges if ``mode`` is ``"constant"`` or ``"grid-constant"``.

    Returns
    -------
    Volume
        A volume from 0 to 1: float32 for bool, integers of up to 16 bits, float16 and float32;
        float64 for other dtypes.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis.
    TypeError
        If ``volume`` is neither a volume nor an array, or a parameter has a wrong type.

    See Also
    --------
    sato : another measure, without parameters to tune.

    Notes
    -----
    One sweep, or two without ``gamma``. The halo is about 12 times the largest of ``sigmas`` on
    each side: compute large scales on a downsampled volume (`downsample`).

    References
    ----------
    `skimage.filters.frangi`; A. F. Frangi et al., "Multiscale vessel enhancement filtering", MICCAI
    1998.

    Examples
    --------
    >>> line = np.full((9, 9), 200, "u1")
    >>> line[4] = 20
    >>> np.asarray(bv.frangi(bv.open(line), [1]))[3:6, 4].round(2)
    array([0.02, 0.86, 0.02], dtype=float32)
    """

def from_dask(
    array: Any,
    *,
    voxel_size: float | Sequence[float] | None = None,
    unit: str | None = None,
    origin: float | Sequence[float] | None = None,
    index: dict[str, int | str] | None = None,
) -> Volume:
    """Open a dask array lazily; dask computes its blocks when they are read.

    Parameters
    ----------
    array : dask.array.Array
        An array with 2 to 5 dimensions, which are the last of t, c, z, y, x.
    voxel_size : float or sequence of float, optional
        Extent of a voxel in ``unit``, one value for all axes or one per axis.
    unit : str, optional
        Unit of length, such as ``"nm"`` or ``"micrometer"``.
    origin : float or sequence of float, optional
        Position of the first voxel's centre in ``unit``, one number for all axes or one per axis.
    index : dict, optional
        The time point to open, and optionally a single channel, such as ``{"t": 0, "c": 1}``.

    Returns
    -------
    Volume
        The lazy volume.

    Raises
    ------
    ValueError
        If the array has a different number of dimensions, unknown extents or an unsupported dtype.
    TypeError
        If ``array`` is not an array.

    See Also
    --------
    open : opens arrays of all libraries, files and URLs.

    Notes
    -----
    The array exists only in this process, so everything that depends on it is computed here. Blocks
    that are split between slabs are computed more than once.

    References
    ----------
    `dask.array.Array`.

    Examples
    --------
    >>> import dask.array as da
    >>> v = bv.from_dask(da.ones((4, 6, 8), chunks=2), voxel_size=8, unit="nm")
    >>> float(bv.sum(v)), v.chunks
    (192.0, (2, 2, 2))
    """

def fuse(
    tiles: Sequence[Volume],
    transforms: Any,
    *,
    physical: bool = False,
    shape: Sequence[int] | None = None,
    voxel_size: float | Sequence[float] | None = None,
    blending: str = 'linear',
    blend_width: float | str | Sequence[float | str] | None = None,
    weights: str | None = None,
    content_sigma: float | str | Sequence[float | str] | None = None,
    per_frame: bool = False,
    order: int = 1,
    fill: float = 0,
    dtype: DTypeLike | None = None,
    gain: float | Sequence[float] = 1.0,
    offset: float | Sequence[float] = 0.0,
    mask: Volume | Sequence[Volume | None] | None = None,
    nodata: float | None = None,
) -> Volume:
    """Fuse overlapping tiles into one volume.

    Use it for the tiles of a microscope with a moving stage, once their positions are known. The
    volume is lazy, so filters, labels and pyramids are computed in the same sweep.

    Parameters
    ----------
    tiles : sequence of Volume or numpy.ndarray
        Tiles with the same dtype, axes, channels and time points. They are opened, or computed from
        opened volumes, such as ``(tile - dark) / flat``. A tile extends half a voxel beyond the
        centres of its outer voxels. Channels and time points are fused one by one. Tiles with a
        different voxel size from the first need matrices that scale them, or ``physical=True``.
    transforms : array_like, table, path or None
        For each tile, the position of its first voxel, or a matrix that maps its indices to
        positions. A matrix is square, or homogeneous with the position in its last column.
        Positions have an entry for each spatial axis. A table can be a DataFrame or the path of a
        CSV file. The table has columns named z, y and x, and a row for each tile, in order. With
        columns named tile and slice, it has a row for each slice of each tile, as found by
        `register_tiles` with ``model="slices"``. With None, tiles are placed by their own origins.
    physical : bool, default: False
        Whether ``transforms`` uses the unit of the tiles instead of voxels. In this unit, matrices
        map indices times the voxel size.
    shape : sequence of int, optional
        Shape of the result, which then begins at position 0. By default, the result covers all
        tiles.
    voxel_size : float or sequence of float, optional
        Voxel size of the result, in the unit of the tiles; the first tile's by default.
        Larger voxels are sampled, not averaged.
    blending : {"linear", "cosine", "max", "mean", "first"}, default: "linear"
        How to combine overlapping tiles. ``"linear"`` is a weighted mean. Weights are proportional
        to the distance from the tile's border along each axis, so they change linearly from one
        tile to the next. ``"cosine"`` changes more smoothly. ``"first"`` is the first tile in the
        given order.
    blend_width : float, str or sequence of these, optional
        The distance from a tile's border at which weights of ``"linear"`` and ``"cosine"`` stop
        increasing: a number of voxels of the tile, or a length such as ``"2 um"``; one for all axes
        or one per axis. By default, weights increase to the tile's centre. Distances begin one
        voxel outside of the tile, so a width of 1 voxel is the mean.
    weights : {"content"}, optional
        Whether weights also depend on voxels. With ``"content"``, they are multiplied by the local
        variance, so a sharp tile outweighs a blurred one, and details of slightly misaligned tiles
        appear once. For all blending but ``"max"`` and ``"first"``.
    content_sigma : float, str or sequence of these, optional
        For ``weights="content"``: the standard deviation of the Gaussian that computes the local
        mean, in voxels or as a length; 4 voxels by default. The largest must be from 0.2 to 64
        voxels. Squared deviations are smoothed with twice this. Use about the size of the smallest
        details.
    per_frame : bool, default: False
        Whether the tiles move in time: ``transforms`` is then a list of transforms of all tiles, one
        for each time point. Otherwise, all time points have the same transforms.
    order : {0, 1}, default: 1
        The order of interpolation: 0 is the nearest voxel of a tile, 1 is linear. Positions within
        1e-6 of an integer are rounded; voxels are then copied, not interpolated.
    fill : float, default: 0
        The value outside of all tiles.
    dtype : dtype, optional
        Dtype of the result; the tiles' dtype by default. Integers are rounded half to even and
        clipped to the dtype's range.
    gain : float or sequence of float, default: 1.0
        Factor for the voxels; one value for all tiles or one per tile.
    offset : float or sequence of float, default: 0.0
        Number to add after applying ``gain``; one value for all tiles or one per tile.
    mask : Volume, numpy.ndarray or sequence of these, optional
        Only voxels with a nonzero mask are used: one mask for all tiles, or a list with a mask or
        None for each tile. A mask has the shape of its tile, one channel, and bool or integer
        voxels. Masks may be computed, like tiles.
    nodata : float, optional
        The value of voxels without data in the tiles, such as 0 for black borders. They are not
        used.

    Returns
    -------
    Volume
        A volume; its origin is the position of its first voxel.

    Raises
    ------
    ValueError
        If a parameter is out of range, or the tiles differ in axes, channels, time points or voxel
        size. If a computed tile needs all of its voxels at once, such as ``tile - tile.mean()``,
        labels, or a network. If a mask differs from its tile in shape, axes or voxel size, or the
        number of masks is wrong.
    TypeError
        If a tile is neither a volume nor an array, or has integers of 64 bits. If tiles have
        different dtypes, or are bool and would be interpolated or averaged. If a mask has floats.

    See Also
    --------
    concatenate : joins volumes that do not overlap.
    affine_transform : transforms one volume.

    Notes
    -----
    One sweep. The result is computed in blocks of about 16 MiB, which read only the parts of tiles
    that they need. Chunks of tiles that span several blocks are read several times; `Plan.explain`
    with ``verbose=True`` shows how often on average. The bytes that a plan reads are counted in
    blocks of the result. If several runs need the result, write it once. Values are computed as
    float64, from positions in the whole volume, and summed in the order of the tiles.

    With ``weights="content"``, variances are computed in each tile, from all its valid voxels in
    about nine ``content_sigma`` around a voxel. Blocks are then about 4 MiB, read this margin, and
    need seven floating-point numbers for each voxel that is read, which the plan includes.

    All time points have one shape, which covers the tiles of all of them. A mask is used for all
    channels and time points of its tile. Each time point reads, or computes, its own parts of tiles.

    Each block computes the parts of computed tiles that it needs, with their halos, in one thread.
    The voxels are the same as of tiles that were written first. Filters with large halos are
    computed repeatedly near the borders of blocks, so it is faster to write such tiles first.

    With ``mask`` or ``nodata``, a tile covers a position if its nearest voxel is valid. Values are
    interpolated between valid voxels only. Weights of ``"linear"`` and ``"cosine"`` also decrease
    within 8 voxels of voxels that are not valid. Distances are sums of steps along the axes, also
    between slices. Blocks read a margin of 8 voxels for this. Voxels that no tile covers are
    ``fill``.

    NaN and infinite voxels are values unless they are excluded, as in weighted means of numpy: each
    position that depends on an infinite voxel is infinite, or NaN if two have different signs.
    ``mask=np.isfinite(tile)`` excludes all of them.

    If the table has a row for each slice, slices are moved and interpolated by `apply_transforms`,
    and then fused along z as float32, or float64 for wide dtypes. NaN voxels are then not used.

    References
    ----------
    S. Preibisch, S. Saalfeld and P. Tomancak, "Globally optimal stitching of tiled 3D microscopic
    image acquisitions", Bioinformatics 25, 2009.

    S. Preibisch, T. Rohlfing, M. P. Hasak and P. Tomancak, "Mosaicing of single plane illumination
    microscopy images using groupwise registration and fast content-based image fusion", Proc. SPIE
    6914, 2008.

    Examples
    --------
    >>> left, right = np.full((2, 5), 10, "u1"), np.full((2, 5), 40, "u1")
    >>> fused = bv.fuse([left, right], [(0, 0), (0, 3)])
    >>> np.asarray(fused)[0]
    array([10, 10, 10, 20, 30, 40, 40, 40], dtype=uint8)

    Tiles are corrected as they are fused:

    >>> flat = np.array([1, 1, 1, 2, 2], "f4")
    >>> np.asarray(bv.fuse([bv.open(t) / flat for t in (left, right)], [(0, 0), (0, 5)]))[0]
    array([10., 10., 10.,  5.,  5., 40., 40., 40., 20., 20.], dtype=float32)
    """

def gabor(
    volume: Volume,
    frequency: float,
    theta: float = 0.0,
    bandwidth: float = 1.0,
    sigma_x: float | None = None,
    sigma_y: float | None = None,
    n_stds: float = 3.0,
    offset: float = 0.0,
    *,
    mode: str | Sequence[str] = 'reflect',
    cval: float = 0.0,
    dtype: DTypeLike | None = None,
) -> tuple[Volume, Volume]:
    """Find stripes with one frequency and direction, by convolution with a wave under a Gaussian.

    Slices along z are filtered separately.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes. Intensities keep their scale, whereas scikit-image
        scales integers to the range from 0 to 1.
    frequency : float
        Waves per voxel, above 0.
    theta : float, default: 0.0
        The direction across the stripes, in radians: 0 is along x.
    bandwidth : float, default: 1.0
        Bandwidth in octaves, which determines the Gaussian if ``sigma_x`` and ``sigma_y`` are not
        set.
    sigma_x, sigma_y : float, optional
        Standard deviations of the Gaussian across and along the stripes, in voxels.
    n_stds : float, default: 3.0
        Where the Gaussian is cut off, in standard deviations.
    offset : float, default: 0.0
        The phase of the wave, in radians.
    mode : str or sequence of str, default: "reflect"
        How to extend the volume beyond its edges, as in `scipy.ndimage`; one mode for all axes or one
        per axis. ``"reflect"`` and ``"grid-mirror"`` repeat the outer voxel (c b a | a b c d | d c b), and
        ``"mirror"`` does not (d c b | a b c d | c b a). ``"nearest"`` extends it (a a a | a b c d | d d
        d), ``"constant"`` and ``"grid-constant"`` use ``cval``, and ``"wrap"`` and ``"grid-wrap"``
        repeat the volume (b c d | a b c d | a b c).
    cval : float, default: 0.0
        The value beyond the edges if ``mode`` is ``"constant"`` or ``"grid-constant"``.
    dtype : dtype, optional
        Dtype of the result. Integers are rounded half to even and clipped to the dtype's range.

    Returns
    -------
    tuple of Volume
        The real and the imaginary part. The dtype is float32 for bool, integers of up to 16 bits,
        float16 and float32, otherwise float64. ``dtype`` overrides this.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis. If a length has a unit
        but the volume has no voxel size.
    TypeError
        If ``volume`` is neither a volume nor an array, or ``dtype`` is not supported.

    See Also
    --------
    farid : finds edges.
    structure_tensor : finds directions.

    Notes
    -----
    One sweep. The halo is ``n_stds`` times the larger standard deviation along y and x; the time grows
    with its square. The magnitude is ``bv.sqrt(real**2 + imaginary**2)``.

    References
    ----------
    `skimage.filters.gabor`.

    Examples
    --------
    >>> stripes = bv.open(np.tile(np.array([9, 0, 0, 0], "u1"), (5, 4)))
    >>> real, imaginary = bv.gabor(stripes, 0.25)
    >>> np.asarray(bv.sqrt(real**2 + imaginary**2))[2, 4:8].round(1)
    array([2.3, 2.2, 2.2, 2.2], dtype=float32)
    """

def gaussian_filter(
    volume: Volume,
    sigma: float | str | Sequence[float | str],
    order: int | Sequence[int] = 0,
    *,
    mode: str | Sequence[str] = 'reflect',
    cval: float = 0.0,
    truncate: float = 4.0,
    radius: int | Sequence[int] | None = None,
    axes: int | Sequence[int] | None = None,
    dtype: DTypeLike | None = None,
) -> Volume:
    """Smooth with a Gaussian, or compute Gaussian derivatives.

    Use it to reduce noise. It is also known as Gaussian blur.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    sigma : float, str or sequence of them
        Standard deviation of the Gaussian, in voxels or as a length such as ``"15 nm"``. Lengths need a
        volume with a voxel size. One value for all axes or one per axis.
    order : int or sequence of int, default: 0
        The order of the derivative: 0 smooths, and 1 to 3 compute derivatives of the Gaussian. One
        value for all axes or one per axis.
    mode : str or sequence of str, default: "reflect"
        How to extend the volume beyond its edges, as in `scipy.ndimage`; one mode for all axes or one
        per axis. ``"reflect"`` and ``"grid-mirror"`` repeat the outer voxel (c b a | a b c d | d c b), and
        ``"mirror"`` does not (d c b | a b c d | c b a). ``"nearest"`` extends it (a a a | a b c d | d d
        d), ``"constant"`` and ``"grid-constant"`` use ``cval``, and ``"wrap"`` and ``"grid-wrap"``
        repeat the volume (b c d | a b c d | a b c).
    cval : float, default: 0.0
        The value beyond the edges if ``mode`` is ``"constant"`` or ``"grid-constant"``.
    truncate : float, default: 4.0
        Where the Gaussian is cut off, in standard deviations.
    radius : int or sequence of int, optional
        Where the Gaussian is cut off, in voxels; by default determined by ``truncate``.
    axes : int or sequence of int, optional
        Axes to work along, counted from 0, or backwards from -1; all axes by default.
    dtype : dtype, optional
        Dtype of the result. Integers are rounded half to even and clipped to the dtype's range.

    Returns
    -------
    Volume
        A float32 volume for bool, integers of up to 16 bits, float16 and float32; a float64 volume for
        other dtypes. ``dtype`` overrides this.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis. If a length has a unit
        but the volume has no voxel size.
    TypeError
        If ``volume`` is neither a volume nor an array, or ``dtype`` is not supported.

    See Also
    --------
    gaussian_filter1d : filters along one axis.

    Notes
    -----
    The result equals `scipy.ndimage.gaussian_filter` of the float64 volume within 16 units in the
    last place of the result's dtype, relative to the largest voxel. For integers, scipy returns the
    input's dtype and truncates after each axis.

    One sweep. The halo is the radius: a window contains ``2 * radius + 1`` slices of the input.

    References
    ----------
    `scipy.ndimage.gaussian_filter`.

    Examples
    --------
    >>> v = bv.open(np.eye(3, dtype="u1")[None])
    >>> np.asarray(bv.gaussian_filter(v, 1, axes=(1, 2))).round(2)[0, 0]
    array([0.5 , 0.33, 0.17], dtype=float32)
    """

def gaussian_filter1d(
    volume: Volume,
    sigma: float | str,
    axis: int = -1,
    order: int = 0,
    *,
    mode: str = 'reflect',
    cval: float = 0.0,
    truncate: float = 4.0,
    radius: int | None = None,
    dtype: DTypeLike | None = None,
) -> Volume:
    """Smooth with a Gaussian along one axis, or compute Gaussian derivatives.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    sigma : float or str
        Standard deviation of the Gaussian, in voxels or as a length such as ``"15 nm"``. Lengths
        need a volume with a voxel size.
    axis : int, default: -1
        The axis to work along, counted from 0, or backwards from -1.
    order : int, default: 0
        The order of the derivative: 0 smooths, and 1 to 3 compute derivatives of the Gaussian.
    mode : str, default: "reflect"
        How to extend the volume beyond its edges, as in `scipy.ndimage`.
        ``"reflect"`` and ``"grid-mirror"`` repeat the outer voxel (c b a | a b c d | d c b), and
        ``"mirror"`` does not (d c b | a b c d | c b a). ``"nearest"`` extends it (a a a | a b c d | d d
        d), ``"constant"`` and ``"grid-constant"`` use ``cval``, and ``"wrap"`` and ``"grid-wrap"``
        repeat the volume (b c d | a b c d | a b c).
    cval : float, default: 0.0
        The value beyond the edges if ``mode`` is ``"constant"`` or ``"grid-constant"``.
    truncate : float, default: 4.0
        Where the Gaussian is cut off, in standard deviations.
    radius : int, optional
        Where the Gaussian is cut off, in voxels; by default determined by ``truncate``.
    dtype : dtype, optional
        Dtype of the result. Integers are rounded half to even and clipped to the dtype's range.

    Returns
    -------
    Volume
        A float32 volume for bool, integers of up to 16 bits, float16 and float32; a float64 volume for
        other dtypes. ``dtype`` overrides this.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis. If a length has a unit
        but the volume has no voxel size.
    TypeError
        If ``volume`` is neither a volume nor an array, or ``dtype`` is not supported.

    See Also
    --------
    gaussian_filter : filters along several axes, faster than one after the other.

    Notes
    -----
    One sweep. The halo is the radius along this axis, and 0 along all other axes.

    References
    ----------
    `scipy.ndimage.gaussian_filter1d`.

    Examples
    --------
    >>> v = bv.open(np.array([[0, 0, 1, 0, 0]], "u1"))
    >>> np.asarray(bv.gaussian_filter1d(v, 0.5)).round(2)
    array([[0.  , 0.11, 0.79, 0.11, 0.  ]], dtype=float32)
    """

def gaussian_gradient_magnitude(
    volume: Volume,
    sigma: float | str | Sequence[float | str],
    *,
    mode: str | Sequence[str] = 'reflect',
    cval: float = 0.0,
    truncate: float = 4.0,
    axes: int | Sequence[int] | None = None,
    dtype: DTypeLike | None = None,
) -> Volume:
    """Compute the magnitude of the gradient from Gaussian derivatives.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    sigma : float, str or sequence of them
        Standard deviation of the Gaussian, in voxels or as a length such as ``"15 nm"``. Lengths need a
        volume with a voxel size. One value for all axes or one per axis.
    mode : str or sequence of str, default: "reflect"
        How to extend the volume beyond its edges, as in `scipy.ndimage`; one mode for all axes or one
        per axis. ``"reflect"`` and ``"grid-mirror"`` repeat the outer voxel (c b a | a b c d | d c b), and
        ``"mirror"`` does not (d c b | a b c d | c b a). ``"nearest"`` extends it (a a a | a b c d | d d
        d), ``"constant"`` and ``"grid-constant"`` use ``cval``, and ``"wrap"`` and ``"grid-wrap"``
        repeat the volume (b c d | a b c d | a b c).
    cval : float, default: 0.0
        The value beyond the edges if ``mode`` is ``"constant"`` or ``"grid-constant"``.
    truncate : float, default: 4.0
        Where the Gaussian is cut off, in standard deviations.
    axes : int or sequence of int, optional
        Axes to work along, counted from 0, or backwards from -1; all axes by default.
    dtype : dtype, optional
        Dtype of the result. Integers are rounded half to even and clipped to the dtype's range.

    Returns
    -------
    Volume
        A float32 volume for bool, integers of up to 16 bits, float16 and float32; a float64 volume for
        other dtypes. ``dtype`` overrides this.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis. If a length has a unit
        but the volume has no voxel size.
    TypeError
        If ``volume`` is neither a volume nor an array, or ``dtype`` is not supported.

    Notes
    -----
    As in scipy, the mode of an axis applies to the whole derivative along this axis, including
    smoothing in other directions. With ``axes``, the remaining axes are not smoothed: ``axes=(1, 2)``
    filters slice by slice. (scipy 1.17 smooths along all axes.)

    One sweep. The halo is ``truncate`` times the largest sigma: a window contains
    ``2 * truncate * sigma + 1`` slices of the input. The tolerance is the same as for
    `gaussian_filter`.

    References
    ----------
    `scipy.ndimage.gaussian_gradient_magnitude`.

    Examples
    --------
    >>> ramp = bv.open(np.arange(27, dtype="f4").reshape(3, 3, 3))
    >>> bv.gaussian_gradient_magnitude(ramp, 1).dtype
    dtype('float32')
    """

def gaussian_laplace(
    volume: Volume,
    sigma: float | str | Sequence[float | str],
    *,
    mode: str | Sequence[str] = 'reflect',
    cval: float = 0.0,
    truncate: float = 4.0,
    axes: int | Sequence[int] | None = None,
    dtype: DTypeLike | None = None,
) -> Volume:
    """Compute the sum of the second Gaussian derivatives along the axes.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    sigma : float, str or sequence of them
        Standard deviation of the Gaussian, in voxels or as a length such as ``"15 nm"``. Lengths need a
        volume with a voxel size. One value for all axes or one per axis.
    mode : str or sequence of str, default: "reflect"
        How to extend the volume beyond its edges, as in `scipy.ndimage`; one mode for all axes or one
        per axis. ``"reflect"`` and ``"grid-mirror"`` repeat the outer voxel (c b a | a b c d | d c b), and
        ``"mirror"`` does not (d c b | a b c d | c b a). ``"nearest"`` extends it (a a a | a b c d | d d
        d), ``"constant"`` and ``"grid-constant"`` use ``cval``, and ``"wrap"`` and ``"grid-wrap"``
        repeat the volume (b c d | a b c d | a b c).
    cval : float, default: 0.0
        The value beyond the edges if ``mode`` is ``"constant"`` or ``"grid-constant"``.
    truncate : float, default: 4.0
        Where the Gaussian is cut off, in standard deviations.
    axes : int or sequence of int, optional
        Axes to work along, counted from 0, or backwards from -1; all axes by default.
    dtype : dtype, optional
        Dtype of the result. Integers are rounded half to even and clipped to the dtype's range.

    Returns
    -------
    Volume
        A float32 volume for bool, integers of up to 16 bits, float16 and float32; a float64 volume for
        other dtypes. ``dtype`` overrides this.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis. If a length has a unit
        but the volume has no voxel size.
    TypeError
        If ``volume`` is neither a volume nor an array, or ``dtype`` is not supported.

    Notes
    -----
    As in scipy, the mode of an axis applies to the whole derivative along this axis, including
    smoothing in other directions. With ``axes``, the remaining axes are not smoothed: ``axes=(1, 2)``
    filters slice by slice. (scipy 1.17 smooths along all axes.)

    One sweep. The halo is ``truncate`` times the largest sigma: a window contains
    ``2 * truncate * sigma + 1`` slices of the input. The tolerance is the same as for
    `gaussian_filter`.

    References
    ----------
    `scipy.ndimage.gaussian_laplace`.

    Examples
    --------
    >>> spot = bv.open(np.eye(1, 5, 2, dtype="f4"))
    >>> np.asarray(bv.gaussian_laplace(spot, 1, axes=1)).round(2)
    array([[ 0.2,  0. , -0.4,  0. ,  0.2]], dtype=float32)
    """

def gaussian_psf(
    sigma: float | Sequence[float],
    ndim: int = 3,
    *,
    truncate: float = 4.0,
) -> np.ndarray:
    """Make a Gaussian point spread function for `richardson_lucy` and `wiener`.

    Parameters
    ----------
    sigma : float or sequence of float
        Standard deviation in voxels; one number for all axes or one per axis.
    ndim : int, default: 3
        Number of axes for a single ``sigma``.
    truncate : float, default: 4.0
        Where the Gaussian is cut off, in standard deviations.

    Returns
    -------
    numpy.ndarray
        A float64 array with sum 1 and an odd number of voxels along each axis.

    Raises
    ------
    ValueError
        If a number is negative or not finite, there are not 1 to 3 axes, or the result would have more
        than 2**24 voxels.

    See Also
    --------
    richardson_lucy : deconvolves.

    Notes
    -----
    For a widefield fluorescence microscope with refractive index n and numerical aperture NA, sigma
    is about ``0.225 * wavelength / NA`` in the plane and ``0.78 * n * wavelength / NA**2`` along z.

    References
    ----------
    B. Zhang, J. Zerubia and J.-C. Olivo-Marin, "Gaussian approximations of fluorescence microscope
    point-spread function models", Applied Optics 46 (2007).

    Examples
    --------
    >>> bv.gaussian_psf((0, 0.5)).round(3)
    array([[0.   , 0.106, 0.787, 0.106, 0.   ]])
    """

def generic_filter(
    volume: Volume,
    function: Callable[..., Any],
    size: int | Sequence[int] | None = None,
    footprint: ArrayLike | None = None,
    *,
    mode: str | Sequence[str] = 'reflect',
    cval: float = 0.0,
    origin: int | Sequence[int] = 0,
    axes: int | Sequence[int] | None = None,
    extra_arguments: Sequence[Any] = (),
    dtype: DTypeLike | None = None,
    name: str | None = None,
    version: str | int | None = None,
) -> Volume:
    """Apply your own function to the voxels around each voxel.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    function : callable
        A function that returns a number for the voxels under the footprint. The function receives
        these voxels as a 1-D float64 array in raster order. Numba compiles the function, so it can
        be called millions of times per second. The function can be plain Python with the numpy
        functions that numba supports, a function decorated with ``numba.njit`` (its options are
        ignored), or a function such as ``np.median``. The function must return the same number for
        the same voxels, and may modify the array.
    size : int or sequence of int, optional
        Extent of the box in voxels; one value for all axes or one per axis. Pass either ``size`` or
        ``footprint``.
    footprint : array_like of bool, optional
        The footprint, with one dimension per axis, such as from `ball`.
    mode : str or sequence of str, default: "reflect"
        How to extend the volume beyond its edges, as in `scipy.ndimage`; one mode for all axes or one
        per axis. ``"reflect"`` and ``"grid-mirror"`` repeat the outer voxel (c b a | a b c d | d c b), and
        ``"mirror"`` does not (d c b | a b c d | c b a). ``"nearest"`` extends it (a a a | a b c d | d d
        d), ``"constant"`` and ``"grid-constant"`` use ``cval``, and ``"wrap"`` and ``"grid-wrap"``
        repeat the volume (b c d | a b c d | a b c).
    cval : float, default: 0.0
        The value beyond the edges if ``mode`` is ``"constant"`` or ``"grid-constant"``.
    origin : int or sequence of int, default: 0
        Shift of the footprint in voxels, as in `scipy.ndimage`: a positive number moves it towards
        lower indices. One value for all axes or one per axis.
    axes : int or sequence of int, optional
        Axes to work along, counted from 0, or backwards from -1; all axes by default.
    extra_arguments : sequence of numbers or arrays, default: ()
        Additional arguments for the function.
    dtype : dtype, optional
        Dtype of the result. Integers are rounded half to even and clipped to the dtype's range.
    name : str, optional
        Together with ``version``, it identifies the function when a run is resumed. Without a name, a
        run with this function cannot be resumed.
    version : str or int, optional
        Change the version when you change the function.

    Returns
    -------
    Volume
        A float32 volume for bool, integers of up to 16 bits, float16 and float32; a float64 volume for
        other dtypes. ``dtype`` overrides this.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis.
    TypeError
        If ``volume`` is neither a volume nor an array, or a parameter has a wrong type.
        If numba cannot compile the function; the message contains the reason.

    See Also
    --------
    map_overlap : applies any function to blocks, without compilation.

    Notes
    -----
    Computation is in float64. The function determines the result for NaN. The bits of the result do
    not depend on slabs, but math functions such as ``sin`` depend on the platform. scipy's
    ``generic_filter1d``, which passes whole lines to its function, is not available.

    One sweep. The halo is the reach of the footprint: along each axis, a slab reads ``size - 1`` more
    voxels than it writes. A window contains the same number of additional slices.

    References
    ----------
    `scipy.ndimage.generic_filter`.

    Examples
    --------
    >>> def span(values):
    ...     return values.max() - values.min()
    >>> v = bv.open(np.array([[5, 1, 4, 9, 8]], "u1"))
    >>> np.asarray(bv.generic_filter(v, span, (1, 3), name="span", version=1))
    array([[4., 4., 8., 5., 1.]], dtype=float32)
    """

def generic_gradient_magnitude(
    volume: Volume,
    derivative: str | Derivative,
    *,
    mode: str | Sequence[str] = 'reflect',
    cval: float = 0.0,
    extra_keywords: Mapping[str, Any] | None = None,
    axes: int | Sequence[int] | None = None,
    dtype: DTypeLike | None = None,
) -> Volume:
    """Compute the magnitude of the gradient from a derivative of your choice.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    derivative : {"sobel", "prewitt"} or callable
        ``derivative(volume, axis, mode=..., cval=..., dtype=..., **extra_keywords)`` returns the
        derivative along an axis as a lazy volume, like `sobel`.
    mode : str or sequence of str, default: "reflect"
        How to extend the volume beyond its edges, as in `scipy.ndimage`; one mode for all axes or one
        per axis. ``"reflect"`` and ``"grid-mirror"`` repeat the outer voxel (c b a | a b c d | d c b), and
        ``"mirror"`` does not (d c b | a b c d | c b a). ``"nearest"`` extends it (a a a | a b c d | d d
        d), ``"constant"`` and ``"grid-constant"`` use ``cval``, and ``"wrap"`` and ``"grid-wrap"``
        repeat the volume (b c d | a b c d | a b c).
    cval : float, default: 0.0
        The value beyond the edges if ``mode`` is ``"constant"`` or ``"grid-constant"``.
    extra_keywords : mapping, optional
        Additional arguments for the derivative.
    axes : int or sequence of int, optional
        Axes to work along, counted from 0, or backwards from -1; all axes by default.
    dtype : dtype, optional
        Dtype of the result. Integers are rounded half to even and clipped to the dtype's range.

    Returns
    -------
    Volume
        A float32 volume for bool, integers of up to 16 bits, float16 and float32; a float64 volume for
        other dtypes. ``dtype`` overrides this.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis. If a length has a unit
        but the volume has no voxel size.
    TypeError
        If ``volume`` is neither a volume nor an array, or ``dtype`` is not supported.

    Notes
    -----
    As in scipy, the mode of an axis applies to the whole derivative along this axis, including
    steps in other directions. The derivatives determine sweeps and halo.

    References
    ----------
    `scipy.ndimage.generic_gradient_magnitude`.

    Examples
    --------
    >>> corner = bv.open(np.array([[0, 0, 3], [0, 0, 3], [4, 4, 5]], "u1"))
    >>> np.asarray(bv.generic_gradient_magnitude(corner, bv.sobel))[1, 1].round(3)
    np.float32(17.205)
    """

def generic_laplace(
    volume: Volume,
    derivative2: Callable[..., Volume],
    *,
    mode: str | Sequence[str] = 'reflect',
    cval: float = 0.0,
    extra_keywords: Mapping[str, Any] | None = None,
    axes: int | Sequence[int] | None = None,
    dtype: DTypeLike | None = None,
) -> Volume:
    """Compute the sum of second derivatives of your choice along the axes.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    derivative2 : callable
        ``derivative2(volume, axis, mode=..., cval=..., dtype=..., **extra_keywords)`` returns the
        second derivative along an axis as a lazy volume.
    mode : str or sequence of str, default: "reflect"
        How to extend the volume beyond its edges, as in `scipy.ndimage`; one mode for all axes or one
        per axis. ``"reflect"`` and ``"grid-mirror"`` repeat the outer voxel (c b a | a b c d | d c b), and
        ``"mirror"`` does not (d c b | a b c d | c b a). ``"nearest"`` extends it (a a a | a b c d | d d
        d), ``"constant"`` and ``"grid-constant"`` use ``cval``, and ``"wrap"`` and ``"grid-wrap"``
        repeat the volume (b c d | a b c d | a b c).
    cval : float, default: 0.0
        The value beyond the edges if ``mode`` is ``"constant"`` or ``"grid-constant"``.
    extra_keywords : mapping, optional
        Additional arguments for the derivative.
    axes : int or sequence of int, optional
        Axes to work along, counted from 0, or backwards from -1; all axes by default.
    dtype : dtype, optional
        Dtype of the result. Integers are rounded half to even and clipped to the dtype's range.

    Returns
    -------
    Volume
        A float32 volume for bool, integers of up to 16 bits, float16 and float32; a float64 volume for
        other dtypes. ``dtype`` overrides this.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis. If a length has a unit
        but the volume has no voxel size.
    TypeError
        If ``volume`` is neither a volume nor an array, or ``dtype`` is not supported.

    Notes
    -----
    As in scipy, the mode of an axis applies to the whole derivative along this axis, including
    steps in other directions. The derivatives determine sweeps and halo.

    References
    ----------
    `scipy.ndimage.generic_laplace`.

    Examples
    --------
    >>> def second(volume, axis, **options):
    ...     return bv.correlate1d(volume, [1, -2, 1], axis, **options)
    >>> row = bv.open(np.array([[10, 20, 30, 200, 10]], "u1"))
    >>> np.asarray(bv.generic_laplace(row, second))
    array([[  10.,    0.,  160., -360.,  190.]], dtype=float32)
    """

def gradient_anisotropic_diffusion(
    volume: Volume,
    time_step: float | None = None,
    conductance_parameter: float = 3.0,
    conductance_scaling_update_interval: int = 1,
    number_of_iterations: int = 5,
    *,
    spacing: float | Sequence[float] | str | None = None,
) -> Volume:
    """Denoise by diffusion that is weak across edges, after Perona and Malik.

    Use it before a threshold or a watershed: areas become flat, and edges with a high contrast
    remain.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes. Intensities keep their scale, whereas scikit-image
        scales integers to the range from 0 to 1.
    time_step : float, optional
        How far each iteration diffuses, at most ``1 / (2 * sum(1 / spacing))``. By default
        ``min(spacing) / 2 ** (axes + 1)`` for the number of axes z, y and x: 0.0625 for three.
    conductance_parameter : float, default: 3.0
        The gradient up to which voxels are smoothed, as a multiple of the root mean square of the
        gradient. Larger numbers smooth edges more; 0 returns the volume.
    conductance_scaling_update_interval : int, default: 1
        The number of iterations after which the mean square of the gradient is computed again.
    number_of_iterations : int, default: 5
        The number of iterations, up to 1000; 0 returns the volume.
    spacing : float, sequence of float or "voxel_size", optional
        Extent of a voxel: one value for all axes or one per axis; 1 by default. ``"voxel_size"``
        uses the voxel size of the volume, like ITK.

    Returns
    -------
    Volume
        A float32 volume for bool, integers of up to 16 bits, float16 and float32; a float64 volume
        for other dtypes.

    Raises
    ------
    ValueError
        If a parameter is out of range. On computation, if a voxel is NaN or infinite, or the square
        of a gradient is infinite in float64.
    TypeError
        If the input is neither a volume nor an array, or a parameter is not a number.

    See Also
    --------
    curvature_anisotropic_diffusion : removes small spots sooner and keeps edges longer.
    denoise_tv_chambolle : minimizes the total variation.

    Notes
    -----
    One sweep for each mean of the squared gradient, and one for the result. For one mean, set
    ``conductance_scaling_update_interval`` to the number of iterations. Each iteration adds a voxel
    to the halo. Results may be stored between sweeps; the plan shows this.

    The scheme is ITK's, computed in float64. Results differ from SimpleITK's by up to 2e-6 of the
    largest intensity for float32, and 1e-12 for float64. Each channel and time point is diffused
    separately, with its own mean.

    References
    ----------
    ITK's ``GradientAnisotropicDiffusionImageFilter``; P. Perona, J. Malik, "Scale-space and edge
    detection using anisotropic diffusion", IEEE Transactions on Pattern Analysis and Machine
    Intelligence 12 (1990).

    Examples
    --------
    >>> step = np.array([[10, 14, 10, 14, 90, 94, 90, 94]], "u1")
    >>> flat = bv.gradient_anisotropic_diffusion(step, number_of_iterations=20, conductance_parameter=1)
    >>> np.asarray(flat).round(1)
    array([[11.8, 11.9, 12.1, 12.3, 91.7, 91.9, 92.1, 92.2]], dtype=float32)
    """

def grey_closing(
    volume: Volume,
    size: int | Sequence[int] | None = None,
    footprint: ArrayLike | None = None,
    structure: ArrayLike | None = None,
    *,
    mode: str | Sequence[str] = 'reflect',
    cval: float = 0.0,
    origin: int | Sequence[int] = 0,
    axes: int | Sequence[int] | None = None,
) -> Volume:
    """Close a volume: dilate it, then erode it.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    size : int or sequence of int, optional
        Extent of a box in voxels, which is used as a flat structuring element; one value for all axes
        or one per axis. Pass ``size``, ``footprint`` or ``structure``.
    footprint : array_like of bool, optional
        The footprint, with one dimension per axis, such as from `ball`.
    structure : array_like of float, optional
        Heights of a structuring element that is not flat, with one dimension per axis. Heights outside
        of ``footprint`` are ignored.
    mode : str or sequence of str, default: "reflect"
        How to extend the volume beyond its edges, as in `scipy.ndimage`; one mode for all axes or one
        per axis. ``"reflect"`` and ``"grid-mirror"`` repeat the outer voxel (c b a | a b c d | d c b), and
        ``"mirror"`` does not (d c b | a b c d | c b a). ``"nearest"`` extends it (a a a | a b c d | d d
        d), ``"constant"`` and ``"grid-constant"`` use ``cval``, and ``"wrap"`` and ``"grid-wrap"``
        repeat the volume (b c d | a b c d | a b c).
    cval : float, default: 0.0
        The value beyond the edges if ``mode`` is ``"constant"`` or ``"grid-constant"``.
    origin : int or sequence of int, default: 0
        Shift of the footprint in voxels, as in `scipy.ndimage`: a positive number moves it towards
        lower indices. One value for all axes or one per axis.
    axes : int or sequence of int, optional
        Axes to work along, counted from 0, or backwards from -1; all axes by default.

    Returns
    -------
    Volume
        A volume of the input's dtype. The result is NaN exactly where the footprint contains a NaN.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis. If ``size``,
        ``footprint`` and ``structure`` are all missing, or the volume's dtype cannot hold ``cval``. If
        ``structure`` is combined with several modes, or with a footprint of a different shape.
    TypeError
        If ``volume`` is neither a volume nor an array, or a parameter has a wrong type.

    See Also
    --------
    black_tophat : is the difference to the volume.

    Notes
    -----
    The result is identical to scipy's. For a box the time is independent of its size.

    One sweep. The halo is twice the reach of the structuring element: a window contains the slices for
    both erosion and dilation.

    References
    ----------
    `scipy.ndimage.grey_closing`.

    Examples
    --------
    >>> np.asarray(bv.grey_closing(bv.open(np.array([[9, 1, 9, 5, 5]])), (1, 2)))
    array([[9, 9, 9, 5, 5]])
    """

def grey_dilation(
    volume: Volume,
    size: int | Sequence[int] | None = None,
    footprint: ArrayLike | None = None,
    structure: ArrayLike | None = None,
    *,
    mode: str | Sequence[str] = 'reflect',
    cval: float = 0.0,
    origin: int | Sequence[int] = 0,
    axes: int | Sequence[int] | None = None,
) -> Volume:
    """Compute the maximum over a structuring element.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    size : int or sequence of int, optional
        Extent of a box in voxels, which is used as a flat structuring element; one value for all axes
        or one per axis. Pass ``size``, ``footprint`` or ``structure``.
    footprint : array_like of bool, optional
        The footprint, with one dimension per axis, such as from `ball`.
    structure : array_like of float, optional
        Heights of a structuring element that is not flat, with one dimension per axis. Heights outside
        of ``footprint`` are ignored.
    mode : str or sequence of str, default: "reflect"
        How to extend the volume beyond its edges, as in `scipy.ndimage`; one mode for all axes or one
        per axis. ``"reflect"`` and ``"grid-mirror"`` repeat the outer voxel (c b a | a b c d | d c b), and
        ``"mirror"`` does not (d c b | a b c d | c b a). ``"nearest"`` extends it (a a a | a b c d | d d
        d), ``"constant"`` and ``"grid-constant"`` use ``cval``, and ``"wrap"`` and ``"grid-wrap"``
        repeat the volume (b c d | a b c d | a b c).
    cval : float, default: 0.0
        The value beyond the edges if ``mode`` is ``"constant"`` or ``"grid-constant"``.
    origin : int or sequence of int, default: 0
        Shift of the footprint in voxels, as in `scipy.ndimage`: a positive number moves it towards
        lower indices. One value for all axes or one per axis.
    axes : int or sequence of int, optional
        Axes to work along, counted from 0, or backwards from -1; all axes by default.

    Returns
    -------
    Volume
        A volume of the input's dtype. The result is NaN exactly where the footprint contains a NaN.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis. If ``size``,
        ``footprint`` and ``structure`` are all missing, or the volume's dtype cannot hold ``cval``. If
        ``structure`` is combined with several modes, or with a footprint of a different shape.
    TypeError
        If ``volume`` is neither a volume nor an array, or a parameter has a wrong type.

    See Also
    --------
    maximum_filter : is equal for flat structuring elements.
    binary_dilation : dilates masks.

    Notes
    -----
    The result is identical to scipy's. For a box the time is independent of its size.

    One sweep. The halo is the reach of the footprint: along each axis, a slab reads ``size - 1`` more
    voxels than it writes. A window contains the same number of additional slices.

    References
    ----------
    `scipy.ndimage.grey_dilation`.

    Examples
    --------
    >>> np.asarray(bv.grey_dilation(bv.open(np.array([[5, 1, 4, 9, 8]])), (1, 3)))
    array([[5, 5, 9, 9, 9]])
    """

def grey_erosion(
    volume: Volume,
    size: int | Sequence[int] | None = None,
    footprint: ArrayLike | None = None,
    structure: ArrayLike | None = None,
    *,
    mode: str | Sequence[str] = 'reflect',
    cval: float = 0.0,
    origin: int | Sequence[int] = 0,
    axes: int | Sequence[int] | None = None,
) -> Volume:
    """Compute the minimum over a structuring element.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    size : int or sequence of int, optional
        Extent of a box in voxels, which is used as a flat structuring element; one value for all axes
        or one per axis. Pass ``size``, ``footprint`` or ``structure``.
    footprint : array_like of bool, optional
        The footprint, with one dimension per axis, such as from `ball`.
    structure : array_like of float, optional
        Heights of a structuring element that is not flat, with one dimension per axis. Heights outside
        of ``footprint`` are ignored.
    mode : str or sequence of str, default: "reflect"
        How to extend the volume beyond its edges, as in `scipy.ndimage`; one mode for all axes or one
        per axis. ``"reflect"`` and ``"grid-mirror"`` repeat the outer voxel (c b a | a b c d | d c b), and
        ``"mirror"`` does not (d c b | a b c d | c b a). ``"nearest"`` extends it (a a a | a b c d | d d
        d), ``"constant"`` and ``"grid-constant"`` use ``cval``, and ``"wrap"`` and ``"grid-wrap"``
        repeat the volume (b c d | a b c d | a b c).
    cval : float, default: 0.0
        The value beyond the edges if ``mode`` is ``"constant"`` or ``"grid-constant"``.
    origin : int or sequence of int, default: 0
        Shift of the footprint in voxels, as in `scipy.ndimage`: a positive number moves it towards
        lower indices. One value for all axes or one per axis.
    axes : int or sequence of int, optional
        Axes to work along, counted from 0, or backwards from -1; all axes by default.

    Returns
    -------
    Volume
        A volume of the input's dtype. The result is NaN exactly where the footprint contains a NaN.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis. If ``size``,
        ``footprint`` and ``structure`` are all missing, or the volume's dtype cannot hold ``cval``. If
        ``structure`` is combined with several modes, or with a footprint of a different shape.
    TypeError
        If ``volume`` is neither a volume nor an array, or a parameter has a wrong type.

    See Also
    --------
    minimum_filter : is equal for flat structuring elements.
    binary_erosion : erodes masks.

    Notes
    -----
    The result is identical to scipy's. For a box the time is independent of its size.

    One sweep. The halo is the reach of the footprint: along each axis, a slab reads ``size - 1`` more
    voxels than it writes. A window contains the same number of additional slices.

    References
    ----------
    `scipy.ndimage.grey_erosion`.

    Examples
    --------
    >>> np.asarray(bv.grey_erosion(bv.open(np.array([[5, 1, 4, 9, 8]])), (1, 3)))
    array([[1, 1, 1, 4, 8]])
    """

def grey_opening(
    volume: Volume,
    size: int | Sequence[int] | None = None,
    footprint: ArrayLike | None = None,
    structure: ArrayLike | None = None,
    *,
    mode: str | Sequence[str] = 'reflect',
    cval: float = 0.0,
    origin: int | Sequence[int] = 0,
    axes: int | Sequence[int] | None = None,
) -> Volume:
    """Open a volume: erode it, then dilate it.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    size : int or sequence of int, optional
        Extent of a box in voxels, which is used as a flat structuring element; one value for all axes
        or one per axis. Pass ``size``, ``footprint`` or ``structure``.
    footprint : array_like of bool, optional
        The footprint, with one dimension per axis, such as from `ball`.
    structure : array_like of float, optional
        Heights of a structuring element that is not flat, with one dimension per axis. Heights outside
        of ``footprint`` are ignored.
    mode : str or sequence of str, default: "reflect"
        How to extend the volume beyond its edges, as in `scipy.ndimage`; one mode for all axes or one
        per axis. ``"reflect"`` and ``"grid-mirror"`` repeat the outer voxel (c b a | a b c d | d c b), and
        ``"mirror"`` does not (d c b | a b c d | c b a). ``"nearest"`` extends it (a a a | a b c d | d d
        d), ``"constant"`` and ``"grid-constant"`` use ``cval``, and ``"wrap"`` and ``"grid-wrap"``
        repeat the volume (b c d | a b c d | a b c).
    cval : float, default: 0.0
        The value beyond the edges if ``mode`` is ``"constant"`` or ``"grid-constant"``.
    origin : int or sequence of int, default: 0
        Shift of the footprint in voxels, as in `scipy.ndimage`: a positive number moves it towards
        lower indices. One value for all axes or one per axis.
    axes : int or sequence of int, optional
        Axes to work along, counted from 0, or backwards from -1; all axes by default.

    Returns
    -------
    Volume
        A volume of the input's dtype. The result is NaN exactly where the footprint contains a NaN.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis. If ``size``,
        ``footprint`` and ``structure`` are all missing, or the volume's dtype cannot hold ``cval``. If
        ``structure`` is combined with several modes, or with a footprint of a different shape.
    TypeError
        If ``volume`` is neither a volume nor an array, or a parameter has a wrong type.

    See Also
    --------
    white_tophat : is the difference to the volume.

    Notes
    -----
    The result is identical to scipy's. For a box the time is independent of its size.

    One sweep. The halo is twice the reach of the structuring element: a window contains the slices for
    both erosion and dilation.

    References
    ----------
    `scipy.ndimage.grey_opening`.

    Examples
    --------
    >>> np.asarray(bv.grey_opening(bv.open(np.array([[1, 9, 1, 5, 5]])), (1, 2)))
    array([[1, 1, 1, 5, 5]])
    """

def h_maxima(
    image: Volume,
    h: float,
    footprint: Any = None,
) -> Volume:
    """Find maxima that rise at least ``h`` above all paths to higher maxima.

    Parameters
    ----------
    image : Volume or numpy.ndarray
        A volume or an array with up to three axes. The volume must not contain NaN or infinity.
    h : float
        The height of maxima or the depth of minima, above 0. If the height is not an integer,
        integer volumes are converted to floats.
    footprint : array_like, optional
        The neighbours of a voxel: an array with 3 entries along each axis, symmetric about the
        centre, including all neighbours that share a face. By default, all entries are true.

    Returns
    -------
    Volume
        A uint8 volume: 1 in the extrema, 0 elsewhere.

    Raises
    ------
    ValueError
        If ``h`` is not above 0 or too large for the dtype, or ``footprint`` is invalid. On
        computation, if a voxel is NaN or infinite, or the basins need more memory than is
        available.
    TypeError
        If ``image`` is neither a volume nor an array, or has integers of 64 bits.

    See Also
    --------
    local_maxima : maxima of any height.
    reconstruction : the underlying operation, with its memory.

    Notes
    -----
    Three sweeps, like `reconstruction`.

    References
    ----------
    `skimage.morphology.h_maxima`; P. Soille, "Morphological Image Analysis" (2003), chapter 6.

    Examples
    --------
    >>> image = np.array([[0, 3, 2, 9, 1, 2, 0]], "u1")
    >>> np.asarray(bv.h_maxima(image, 2))
    array([[0, 0, 0, 1, 0, 0, 0]], dtype=uint8)
    """

def h_minima(
    image: Volume,
    h: float,
    footprint: Any = None,
) -> Volume:
    """Find minima that are at least ``h`` below all paths to lower minima.

    Parameters
    ----------
    image : Volume or numpy.ndarray
        A volume or an array with up to three axes. The volume must not contain NaN or infinity.
    h : float
        The height of maxima or the depth of minima, above 0. If the height is not an integer,
        integer volumes are converted to floats.
    footprint : array_like, optional
        The neighbours of a voxel: an array with 3 entries along each axis, symmetric about the
        centre, including all neighbours that share a face. By default, all entries are true.

    Returns
    -------
    Volume
        A uint8 volume: 1 in the extrema, 0 elsewhere.

    Raises
    ------
    ValueError
        If ``h`` is not above 0 or too large for the dtype, or ``footprint`` is invalid. On
        computation, if a voxel is NaN or infinite, or the basins need more memory than is
        available.
    TypeError
        If ``image`` is neither a volume nor an array, or has integers of 64 bits.

    See Also
    --------
    local_minima : minima of any depth.
    reconstruction : the underlying operation, with its memory.

    Notes
    -----
    Three sweeps, like `reconstruction`.

    References
    ----------
    `skimage.morphology.h_minima`; P. Soille, "Morphological Image Analysis" (2003), chapter 6.

    Examples
    --------
    >>> image = np.array([[9, 6, 7, 0, 8, 7, 9]], "u1")
    >>> np.asarray(bv.h_minima(image, 2))
    array([[0, 0, 0, 1, 0, 0, 0]], dtype=uint8)
    """

def hausdorff_distance(
    a: Volume,
    b: Volume,
    *,
    method: str = 'standard',
    sampling: float | Sequence[float] | str | None = None,
) -> Scalar:
    """Compute the Hausdorff distance of two masks: how far a voxel of one is from the other at most.

    Parameters
    ----------
    a, b : Volume or numpy.ndarray
        Masks of the same shape and voxel size. Nonzero voxels are foreground, also NaN.
    method : {"standard", "modified"}, default: "standard"
        The largest distance of a voxel of one mask to the other mask, or the larger one of the two mean
        distances, which depends less on outliers.
    sampling : float, sequence of float or "voxel_size", optional
        Extent of a voxel: one value for all axes or one per axis; 1 by default. ``"voxel_size"`` uses
        the voxel size of the volume, so distances are in its unit.

    Returns
    -------
    Scalar
        The lazy float64 distance, with ``sampling="voxel_size"`` in the unit of ``a``, or of ``b`` if
        ``a`` has no voxel size. It is 0 if both masks are empty, and infinite if one is.

    Raises
    ------
    ValueError
        If shapes, axes or voxel sizes differ, the volumes have no voxels or several channels, or a
        parameter is out of range.
    TypeError
        If ``a`` or ``b`` is neither a volume nor an array.

    See Also
    --------
    distance_transform_edt : the distances.
    boundary_scores : agreement of boundaries within a tolerance.

    Notes
    -----
    The sweeps of two distance transforms, with float64 distances.

    References
    ----------
    `skimage.metrics.hausdorff_distance`. Dubuisson, M.-P., & Jain, A. K. (1994). A modified Hausdorff
    distance for object matching. ICPR, 566-568.

    Examples
    --------
    >>> a = np.array([[1, 0, 0, 0, 0]], "u1")
    >>> float(bv.hausdorff_distance(a, a[:, ::-1]))
    4.0
    """

def hed2rgb(
    volume: Volume,
    *,
    dtype: Any = None,
) -> Volume:
    """Compute colours from haematoxylin, eosin and DAB.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        Three channels as from `rgb2hed`. Set two of them to 0 to see a single stain.
    dtype : dtype, optional
        float32 or float64; by default float32 for integers, float16 and float32, otherwise float64.

    Returns
    -------
    Volume
        The channels red, green and blue, from 0 to 1.

    Raises
    ------
    ValueError
        If the volume does not have three channels, or ``dtype`` is not float32 or float64.
    TypeError
        If ``volume`` is neither a volume nor an array, or has signed integers or integers of more
        than 16 bits.

    See Also
    --------
    combine_stains : supports other stains.

    Notes
    -----
    Pointwise: no halo, and no sweeps beyond those for the inputs.

    References
    ----------
    `skimage.color.hed2rgb`.

    Examples
    --------
    >>> hed = bv.rgb2hed(bv.open(np.array([150, 60, 160], "u1").reshape(3, 1, 1, 1)))
    >>> (np.asarray(bv.hed2rgb(hed)).ravel() * 255).round()
    array([150.,  60., 160.], dtype=float32)
    """

def hessian_matrix(
    volume: Volume,
    sigma: Sigma = 1.0,
    *,
    mode: str | Sequence[str] = 'constant',
    cval: float = 0.0,
    dtype: DTypeLike | None = None,
) -> tuple[Volume, ...]:
    """Compute the Hessian matrix of a smoothed volume from Gaussian derivatives.

    Each element is computed by two successive first derivatives with ``sigma / sqrt(2)``.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes. Intensities keep their scale, whereas scikit-image
        scales integers to the range from 0 to 1.
    sigma : float, str or sequence of them, default: 1.0
        Standard deviation of the Gaussian, in voxels or as a length such as ``"15 nm"``. Lengths
        need a volume with a voxel size. One value for all axes or one per axis.
    mode : str or sequence of str, default: "constant"
        How to extend the volume beyond its edges, as in `scipy.ndimage`; one mode for all axes or one
        per axis. ``"reflect"`` and ``"grid-mirror"`` repeat the outer voxel (c b a | a b c d | d c b), and
        ``"mirror"`` does not (d c b | a b c d | c b a). ``"nearest"`` extends it (a a a | a b c d | d d
        d), ``"constant"`` and ``"grid-constant"`` use ``cval``, and ``"wrap"`` and ``"grid-wrap"``
        repeat the volume (b c d | a b c d | a b c).
    cval : float, default: 0.0
        The value beyond the edges if ``mode`` is ``"constant"`` or ``"grid-constant"``.
    dtype : dtype, optional
        Dtype of the result. Integers are rounded half to even and clipped to the dtype's range.

    Returns
    -------
    tuple of Volume
        The upper triangle, row by row: zz, zy, zx, yy, yx, xx, or yy, yx, xx for a volume with two
        axes. The elements are float32 for bool, integers of up to 16 bits, float16 and float32;
        float64 for other dtypes. ``dtype`` overrides this.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis. If a length has a unit
        but the volume has no voxel size.
    TypeError
        If ``volume`` is neither a volume nor an array, or ``dtype`` is not supported.

    See Also
    --------
    hessian_matrix_eigvals : computes the eigenvalues from this result.

    Notes
    -----
    Nine Gaussian filters with a radius of 5.7 sigma each, in one sweep. A window contains 22 slices
    for each unit of sigma, plus two for the derivatives.

    References
    ----------
    `skimage.feature.hessian_matrix` with ``use_gaussian_derivatives=True``.

    Examples
    --------
    >>> spot = bv.open(np.pad(np.full((1, 1), 100, "u1"), 3))
    >>> np.asarray(bv.hessian_matrix(spot, 1)[0]).round(1)[:, 3]
    array([  1.4,   7. ,  -1.4, -14.1,  -1.4,   7. ,   1.4], dtype=float32)
    """

def hessian_matrix_eigvals(
    hessian: Sequence[Volume],
) -> tuple[Volume, ...]:
    """Compute the eigenvalues of a symmetric matrix at every voxel, in descending order.

    Parameters
    ----------
    hessian : sequence of Volume
        The six elements from `hessian_matrix`, or three for two axes; all float32, or all float64.

    Returns
    -------
    tuple of Volume
        One volume for each axis, with the dtype of the elements.

    Raises
    ------
    ValueError
        If there are not three or six elements.
    TypeError
        If the elements are not all float32, or all float64.

    Notes
    -----
    float32 uses a closed form, with an error of 2e-7 of the largest eigenvalue, and float64 uses
    Jacobi rotations. For three axes and float32, a common intermediate result is computed once and
    needs 8 bytes for each voxel of a window.

    References
    ----------
    `skimage.feature.hessian_matrix_eigvals`.

    Examples
    --------
    >>> spot = bv.open(np.pad(np.full((1, 1), 100, "u1"), 3))
    >>> first, second = bv.hessian_matrix_eigvals(bv.hessian_matrix(spot, 1))
    >>> np.asarray(second)[3, 3].round(1)
    np.float32(-14.1)
    """

def histogram(
    volume: Volume,
    bins: int = 256,
    range: tuple[float | Scalar, float | Scalar] | None = None,
    *,
    labels: Volume | None = None,
    index: ArrayLike | None = None,
    mask: Volume | None = None,
    nan: str = 'raise',
    across: str | None = None,
) -> tuple[Scalar, Scalar]:
    """Count voxels in equal bins.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    bins : int, default: 256
        Number of bins.
    range : pair of numbers or Scalar, optional
        The range of the bins, as numbers or lazy numbers; by default from the smallest to the
        largest voxel. Voxels outside are not counted.
    labels : Volume or numpy.ndarray, optional
        Labels with the same shape, bool or integers from 0, to measure each label separately, as in
        `scipy.ndimage`.
    index : int or array_like of int, optional
        The labels to measure, in any order; 0 is the background. The result is an array of this shape.
        Missing labels are NaN, or 0 for integers. By default, all labels are measured together.
    mask : Volume, optional
        Only voxels with a nonzero mask are included; all voxels by default.
    nan : {"raise", "omit"}, default: "raise"
        Whether NaN and infinite voxels raise an error on computation or are ignored.
    across : {"t"}, optional
        Compute one number for all time points, as in ``v > bv.mean(v, across="t")``. By default, each
        time point has its own number. A volume without a time axis has one number in both cases.

    Returns
    -------
    counts : Scalar
        A lazy array of ``bins`` int64 numbers.
    edges : Scalar
        A lazy array of ``bins + 1`` floats.

    Raises
    ------
    ValueError
        If a parameter is out of range. On computation, if an included voxel is NaN or infinite and
        ``nan="raise"``, or no voxel is included.
    TypeError
        If ``volume`` is neither a volume nor an array.

    See Also
    --------
    joint_histogram : counts pairs of voxels of two volumes.
    equalize_hist : flattens the histogram of a volume.

    Notes
    -----
    One sweep if ``range`` consists of numbers, otherwise two. Counts and edges are identical to
    numpy's.

    References
    ----------
    `numpy.histogram`.

    Examples
    --------
    >>> counts, edges = bv.histogram(bv.open(np.array([[0, 1, 1, 4]])), bins=2)
    >>> np.asarray(counts), np.asarray(edges)
    (array([3, 1]), array([0., 2., 4.]))
    """

def hsv2rgb(
    volume: Volume,
    *,
    dtype: Any = None,
) -> Volume:
    """Compute colours from hue, saturation and value.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        Three channels as from `rgb2hsv`. Integers range from 0 to the largest value of their dtype,
        floats from 0 to 1. Hues outside of this range wrap around.
    dtype : dtype, optional
        float32 or float64; by default float32 for integers, float16 and float32, otherwise float64.

    Returns
    -------
    Volume
        The channels red, green and blue, from 0 to 1; all NaN if a channel is NaN or the hue is
        infinite.

    Raises
    ------
    ValueError
        If the volume does not have three channels, or ``dtype`` is not float32 or float64.
    TypeError
        If ``volume`` is neither a volume nor an array, or has signed integers or integers of more
        than 16 bits.

    See Also
    --------
    rgb2hsv : the inverse.

    Notes
    -----
    Pointwise: no halo, and no sweeps beyond those for the inputs. Values are computed in float64
    and rounded once, with the same bits on every machine. They agree with scikit-image's in float64
    to about 1e-15.

    References
    ----------
    `skimage.color.hsv2rgb`.

    Examples
    --------
    >>> orange = np.array([1 / 12, 1, 1]).reshape(3, 1, 1, 1)
    >>> np.asarray(bv.hsv2rgb(bv.open(orange))).ravel()
    array([1. , 0.5, 0. ])
    """

def ifftn(
    volume: Volume,
    axes: int | Sequence[int] | None = None,
    norm: str = 'backward',
) -> Volume:
    """Compute the inverse Fourier transform of a whole volume.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes. Complex numbers are the channels ``real`` and
        ``imag``; real numbers have no channels.
    axes : int or sequence of int, optional
        Axes to work along, counted from 0, or backwards from -1; all axes by default.
    norm : {"backward", "ortho", "forward"}, default: "backward"
        The normalization, as in `numpy.fft.fftn`.

    Returns
    -------
    Volume
        A volume with the channels ``real`` and ``imag``, in numpy's order of frequencies. The dtype
        is float32 for bool, integers of up to 16 bits, float16 and float32; float64 for other
        dtypes. The result keeps the voxel size and origin of the volume for `ifftn`.

    Raises
    ------
    ValueError
        If the axis does not exist, the volume has other channels, or ``norm`` is not supported. On
        computation, if a voxel is NaN or infinite.
    TypeError
        If ``volume`` is neither a volume nor an array.

    See Also
    --------
    fftn : the transform.

    Notes
    -----
    It needs as many sweeps as `fftn`, and two more if its input is a computed spectrum of all axes.
    If the original volume is real, so is the result: use its channel ``real``.

    References
    ----------
    `numpy.fft.ifftn`, `scipy.fft.ifftn`.

    Examples
    --------
    >>> v = bv.open(np.array([[1, 2, 3], [4, 5, 6]], "u1"))
    >>> np.asarray(bv.ifftn(bv.fftn(v)).sel(c="real")).round(3)
    array([[1., 2., 3.],
           [4., 5., 6.]], dtype=float32)
    """

def ifftshift(
    volume: Volume,
    axes: int | Sequence[int] | None = None,
) -> Volume:
    """Move frequency 0 from the centre of a spectrum to its first voxel.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    axes : int or sequence of int, optional
        Axes to work along, counted from 0, or backwards from -1; all axes by default.

    Returns
    -------
    Volume
        A volume of the input's dtype, with its channels.

    Raises
    ------
    ValueError
        If the axis does not exist.
    TypeError
        If ``volume`` is neither a volume nor an array.

    See Also
    --------
    fftshift : the inverse.

    Notes
    -----
    Parts of the volume are exchanged, which needs no additional sweep for an opened volume.

    References
    ----------
    `numpy.fft.ifftshift`.

    Examples
    --------
    >>> np.asarray(bv.ifftshift(bv.open(np.array([[-2, -1, 0, 1, 2]], "i1"))))
    array([[ 0,  1,  2, -2, -1]], dtype=int8)
    """

def irfftn(
    volume: Volume,
    shape: Sequence[int] | None = None,
    axes: int | Sequence[int] | None = None,
    norm: str = 'backward',
) -> Volume:
    """Compute a real volume from half of its Fourier transform.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A spectrum, as from `rfftn`, with the channels ``real`` and ``imag``.
    shape : sequence of int, optional
        Shape of the result along ``axes``. By default, the last extent is even: twice the number of
        frequencies, minus 2.
    axes : int or sequence of int, optional
        Axes to work along, counted from 0, or backwards from -1; all axes by default.
        The last of these axes is halved.
    norm : {"backward", "ortho", "forward"}, default: "backward"
        The normalization, as in `numpy.fft.irfftn`.

    Returns
    -------
    Volume
        A volume without channels, of the input's dtype.

    Raises
    ------
    ValueError
        If the axis does not exist, the volume does not have the channels ``real`` and ``imag``, or
        ``shape`` does not fit. On computation, if a voxel is NaN or infinite.
    TypeError
        If ``volume`` is neither a volume nor an array.

    See Also
    --------
    rfftn : the transform.

    Notes
    -----
    Two sweeps for a stored spectrum (one without z), and one more for a computed spectrum.

    References
    ----------
    `numpy.fft.irfftn`, with ``s`` for ``shape``; `scipy.fft.irfftn`.

    Examples
    --------
    >>> v = bv.open(np.array([[1, 2, 3], [4, 5, 6]], "u1"))
    >>> np.asarray(bv.irfftn(bv.rfftn(v), v.shape)).round(3)
    array([[1., 2., 3.],
           [4., 5., 6.]], dtype=float32)
    """

def join_segmentations(
    s1: Volume,
    s2: Volume,
    *,
    dtype: DTypeLike | None = None,
) -> Volume:
    """Intersect the segments of two label volumes.

    Two voxels have the same label in the result if they have the same label in both volumes.

    Parameters
    ----------
    s1, s2 : Volume or numpy.ndarray
        Labels of the same shape, bool or integers from 0.
    dtype : dtype, optional
        The dtype of the result: uint32 by default, uint64 for volumes of 2**32 or more voxels.

    Returns
    -------
    Volume
        Labels 1, 2, ..., in the order of the labels of ``s1``, then of ``s2``. Voxels that are 0 in
        both volumes are 0.

    Raises
    ------
    ValueError
        If shapes differ. On computation, if a label is negative, a new label does not fit
        ``dtype``, or the labels need more memory than is available.
    TypeError
        If ``s1`` or ``s2`` is neither a volume nor an array, or has an unsupported dtype.

    See Also
    --------
    contingency : ``contingency(joined, s1)`` lists the label in ``s1`` of each joined label.

    Notes
    -----
    Two sweeps, or four for labels of 64 bits, which are renumbered first.

    References
    ----------
    `skimage.segmentation.join_segmentations`.

    Examples
    --------
    >>> a, b = np.array([[0, 0, 1, 1]], "u1"), np.array([[0, 5, 5, 8]], "u1")
    >>> np.asarray(bv.join_segmentations(a, b))
    array([[0, 1, 2, 3]], dtype=uint32)
    """

def joint_histogram(
    a: Volume,
    b: Volume,
    bins: int | Sequence[int] = 256,
    range: Sequence[tuple[Any, Any]] | None = None,
    *,
    mask: Volume | None = None,
    nan: str = 'raise',
    across: str | None = None,
) -> tuple[Scalar, Scalar, Scalar]:
    """Count pairs of values of two volumes in bins.

    Parameters
    ----------
    a : Volume or numpy.ndarray
        The first volume.
    b : Volume or numpy.ndarray
        The second volume, with the same shape and axes. Different dtypes are promoted as in numpy.
    bins : int or pair of int, default: 256
        Number of equal bins for the values of ``a`` and of ``b``.
    range : pair of pairs of numbers or Scalar, optional
        The ranges of the bins for ``a`` and ``b``, ``((low, high), (low, high))``, as numbers or
        lazy numbers. By default, from the smallest to the largest voxel.
    mask : Volume, optional
        Only voxels with a nonzero mask are included; all voxels by default.
    nan : {"raise", "omit"}, default: "raise"
        Whether voxels that are NaN or infinite in ``a`` or ``b`` raise an error on computation or are
        ignored in both.
    across : {"t"}, optional
        Compute one number for all time points, as in ``v > bv.mean(v, across="t")``. By default, each
        time point has its own number. A volume without a time axis has one number in both cases.

    Returns
    -------
    counts : Scalar
        A lazy int64 array with a row for each bin of ``a`` and a column for each bin of ``b``.
    a_edges : Scalar
        A lazy array of the bin edges of ``a``.
    b_edges : Scalar
        A lazy array of the bin edges of ``b``.

    Raises
    ------
    ValueError
        If the shapes or axes of the volumes differ, or a parameter is out of range. On computation, if
        an included voxel is NaN or infinite and ``nan="raise"``, or no voxel is included.
    TypeError
        If ``a`` or ``b`` is neither a volume nor an array.

    See Also
    --------
    histogram : counts the values of one volume.

    Notes
    -----
    One sweep if ``range`` consists of numbers, otherwise two. Counts and edges are identical to
    numpy's.

    References
    ----------
    `numpy.histogram2d`.

    Examples
    --------
    >>> a, b = bv.open(np.array([[0, 1, 4]])), bv.open(np.array([[5, 6, 6]]))
    >>> counts, a_edges, b_edges = bv.joint_histogram(a, b, bins=2)
    >>> np.asarray(counts), np.asarray(a_edges)
    (array([[1, 1],
           [0, 1]]), array([0., 2., 4.]))
    """

def keep_labels(
    labels: Volume,
    table: Table | Any,
    column: str,
    *,
    low: float | None = None,
    high: float | None = None,
) -> Volume:
    """Keep the labels with a measurement in a range, and set all other voxels to 0.

    Use it to select objects by any column of a table, such as their area, intensity or shape.

    Parameters
    ----------
    labels : Volume or numpy.ndarray
        Labels, bool or integers from 0.
    table : Table, table or path
        Measurements with a column ``label``, such as the result of `regionprops_table`. Pass a lazy
        table, a pyarrow or pandas table, a Parquet file, or a folder of Parquet files.
    column : str
        The name of a numeric column.
    low, high : float, optional
        The range, including both ends; if one end is missing, the range is unlimited on that side.
        NaN is not in any range.

    Returns
    -------
    Volume
        A volume of the labels' dtype. Labels without a row are set to 0.

    Raises
    ------
    ValueError
        If neither end is given, ``low`` is above ``high``, or the table lacks the columns.
    TypeError
        If ``labels`` is neither a volume nor an array, or has an unsupported dtype, or the table
        has an unsupported type.

    See Also
    --------
    remove_small_objects, keep_largest : select by size without a table.
    relabel : replaces labels by the values of a column.

    Notes
    -----
    The function needs the same sweeps as `relabel` with this table. The column is looked up as
    float64.

    References
    ----------
    `skimage.util.map_array` and ``numpy.where``.

    Examples
    --------
    >>> labels = np.array([[1, 1, 0, 2, 3, 3, 3]])
    >>> sizes = bv.regionprops_table(labels, properties=["area"])
    >>> np.asarray(bv.keep_labels(labels, sizes, "area", low=2, high=2))
    array([[1, 1, 0, 0, 0, 0, 0]])
    """

def keep_largest(
    mask: Volume,
    k: int = 1,
    connectivity: int = 1,
    *,
    structure: Any = None,
) -> Volume:
    """Keep the components or labels with the most voxels.

    Parameters
    ----------
    mask : Volume or numpy.ndarray
        A bool volume, which is divided into connected components, or integer labels. The voxels of a
        label are counted together even if they are not connected. 0 is background.
    k : int, default: 1
        The number to keep. If sizes are equal, the lowest ids are kept.
    connectivity : {1, 2, 3}, default: 1
        Which voxels are neighbours: 1 for voxels that share a face, 2 to include shared edges, 3 to
        include shared corners.
    structure : array_like, optional
        The neighbours of a voxel, instead of ``connectivity``: an array with 3 entries along each axis,
        symmetric about the centre.

    Returns
    -------
    Volume
        A volume of the input's dtype in which removed objects are 0.

    Raises
    ------
    ValueError
        If a parameter is out of range. On computation, before anything is written, if the components
        need more memory than is available. The message suggests slabs that would work.
    TypeError
        If the input is neither a volume nor an array, or has an unsupported dtype.

    See Also
    --------
    remove_small_objects : keeps all from a size.

    Notes
    -----
    Two sweeps: the first finds the components of every slab, and the second writes the result. Memory
    grows with the components of one slab, about 50 bytes each, and with the components on the faces of
    blocks of slabs. Memory does not grow with the total number of components.

    Examples
    --------
    >>> mask = bv.open(np.array([[1, 0, 1, 1, 0, 1, 1]], bool))
    >>> np.asarray(bv.keep_largest(mask)).astype(int)
    array([[0, 0, 1, 1, 0, 0, 0]])
    """

def lab2rgb(
    volume: Volume,
    illuminant: str = 'D65',
    observer: str = '2',
    *,
    dtype: Any = None,
) -> Volume:
    """Compute sRGB colours from CIE Lab.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        The channels lightness, a and b, as from `rgb2lab`. Integers are first divided by the
        largest value of their dtype, as in scikit-image.
    illuminant : {"A", "B", "C", "D50", "D55", "D65", "D75", "E"}, default: "D65"
        The light that appears white, in capital or small letters.
    observer : {"2", "10", "R"}, default: "2"
        The angle of view in degrees. ``"R"`` has the values of R's ``convertColor``.
    dtype : dtype, optional
        float32 or float64; by default float32 for integers, float16 and float32, otherwise float64.

    Returns
    -------
    Volume
        The channels red, green and blue, from 0 to 1. Colours outside of sRGB are clipped.
        All are NaN if a channel is NaN.

    Raises
    ------
    ValueError
        If the volume does not have three channels, ``illuminant`` or ``observer`` is unknown, or
        ``dtype`` is not float32 or float64.
    TypeError
        If ``volume`` is neither a volume nor an array, or has signed integers or integers of more
        than 16 bits.

    See Also
    --------
    rgb2lab : the inverse.

    Notes
    -----
    Pointwise: no halo, and no sweeps beyond those for the inputs. Values are computed in float64
    and rounded once, with the same bits on every machine. They agree with scikit-image's in float64
    to about 1e-13.

    References
    ----------
    `skimage.color.lab2rgb`.

    Examples
    --------
    >>> lab = bv.rgb2lab(bv.open(np.array([150, 60, 160], "u1").reshape(3, 1, 1, 1)))
    >>> (np.asarray(bv.lab2rgb(lab)).ravel() * 255).round()
    array([150.,  60., 160.], dtype=float32)
    """

def label(
    mask: Volume,
    connectivity: int | ArrayLike = 1,
    structure: ArrayLike | None = None,
    *,
    by_value: bool = False,
    background: float | bool | None = 0,
    dtype: DTypeLike | None = None,
) -> Volume:
    """Label the connected components of a mask.

    The volume may be larger than memory, and a connected component may span all of it.

    Ids are 1, 2, ... in the raster order of the components' first voxels, independent of slabs and
    tiles.

    Parameters
    ----------
    mask : Volume or numpy.ndarray
        A volume or an array with up to three axes. Nonzero voxels of any dtype are foreground.
    connectivity : {1, 2, 3} or array_like, default: 1
        Which voxels are neighbours: 1 for voxels that share a face, 2 to include shared edges, 3 to
        include shared corners. An array is used as ``structure``, which is scipy's second
        parameter.
    structure : array_like, optional
        The neighbours of a voxel, instead of ``connectivity``: an array with 3 entries along each axis,
        symmetric about the centre.
    by_value : bool, default: False
        Whether neighbours are connected only if they are equal, as in `skimage.measure.label`.
    background : number or None, default: 0
        The value to leave unlabelled with ``by_value``; None labels all values.
    dtype : dtype, optional
        Dtype of the labels: uint32 by default, uint64 for volumes of 2**32 or more voxels.

    Returns
    -------
    Volume
        A volume of labels. Its `Volume.num_labels` is the lazy number of components.

    Raises
    ------
    ValueError
        If a parameter is out of range. On computation, before anything is written, if ``dtype``
        cannot hold the number of components, or they need more memory than is available. The
        message suggests slabs that would work.
    TypeError
        If ``mask`` is neither a volume nor an array.

    See Also
    --------
    regionprops_table : measures each component.
    remove_small_objects, keep_largest : select components.

    Notes
    -----
    The result is identical to `scipy.ndimage.label`.

    Two sweeps: the first finds the components of every slab, and the second writes the result. Memory
    grows with the components of one slab, about 50 bytes each, and with the components on the faces of
    blocks of slabs. Memory does not grow with the total number of components.

    References
    ----------
    L. He, Y. Chao, K. Suzuki, "A run-based two-scan labeling algorithm", IEEE Trans. Image
    Processing 17 (2008), for the runs of a slab. Slabs exchange the components of shared planes in a
    tree.

    Examples
    --------
    >>> cells = bv.label(bv.open(np.array([[1, 0, 1], [1, 0, 1], [0, 0, 0], [1, 1, 1]])))
    >>> np.asarray(cells)
    array([[1, 0, 2],
           [1, 0, 2],
           [0, 0, 0],
           [3, 3, 3]], dtype=uint32)
    >>> int(cells.num_labels)
    3
    """

def label2rgb(
    label: Volume,
    image: Volume | None = None,
    colors: Sequence[Colour] | None = None,
    alpha: float = 0.3,
    bg_label: int = 0,
    bg_color: Colour | None = (0, 0, 0),
    image_alpha: float = 1,
    kind: str = 'overlay',
    *,
    saturation: float = 0,
    nan: str = 'raise',
) -> Volume:
    """Colour labels, optionally on top of an image, or with the mean of an image.

    Parameters
    ----------
    label : Volume or numpy.ndarray
        Bool or integer labels.
    image : Volume or numpy.ndarray, optional
        An image of the same shape, without channels or with red, green and blue. Bool and unsigned
        integers of up to 16 bits are scaled to the range from 0 to 1; floats keep their scale. With
        ``kind="avg"``, an image is needed, and all dtypes keep their scale.
    colors : sequence of colours, optional
        Names, or red, green and blue from 0 to 1; by default scikit-image's ten colours. They
        repeat. The smallest possible label has the first colour, so a label has the same colour in
        every volume. (In scikit-image, missing labels are not counted.)
    alpha : float, default: 0.3
        Opacity of the colours, from 0 to 1; without an image, it is 1.
    bg_label : int, default: 0
        The label of the background, 0 or more.
    bg_color : sequence of float or str, default: (0, 0, 0)
        The colour of the background; with None, the image is unchanged in the background. With
        ``kind="avg"``, three numbers in the range of the image.
    image_alpha : float, default: 1
        Opacity of the image, from 0 to 1, on a white background.
    kind : {"overlay", "avg"}, default: "overlay"
        ``"overlay"`` draws ``colors`` on the image. ``"avg"`` gives each label its mean colour in
        the image, and ignores ``colors``, ``alpha``, ``image_alpha`` and ``saturation``.
    saturation : float, default: 0
        Saturation of an image with three channels, from 0 for grey to 1 for its own colours.
    nan : {"raise", "omit"}, default: "raise"
        With ``kind="avg"``, whether NaN and infinite voxels of the image raise an error on
        computation or are left out of means.

    Returns
    -------
    Volume
        The channels red, green and blue, as float32, or float64 for float64 images. With
        ``kind="avg"``, they have the image's dtype; fractions of integers are cut off.

    Raises
    ------
    ValueError
        If shapes differ, the image does not have one or three channels, or a parameter is out of
        range. With ``kind="avg"``, on computation, if a label is negative, or a voxel is NaN or
        infinite and ``nan="raise"``.
    TypeError
        If an input is neither a volume nor an array, or has an unsupported dtype.

    See Also
    --------
    mark_boundaries : draws the boundaries only.
    view : shows labels in a browser.
    regionprops_table : returns the means as a table.

    Notes
    -----
    Pointwise: no halo. ``kind="overlay"`` needs no sweeps beyond those for the inputs.
    ``kind="avg"`` needs two sweeps: one for the means of all labels, and one to write them. Means
    are exact and rounded once, to float64. No worker holds all means.

    References
    ----------
    `skimage.color.label2rgb`.

    Examples
    --------
    >>> labels = bv.open(np.array([[0, 1, 2]]))
    >>> np.asarray(bv.label2rgb(labels, colors=["red", (0, 0, 0.5)]))[:, 0]
    array([[0. , 1. , 0. ],
           [0. , 0. , 0. ],
           [0. , 0. , 0.5]], dtype=float32)
    >>> image = np.array([[9, 10, 30]], "u1")
    >>> np.asarray(bv.label2rgb(np.array([[0, 5, 5]]), image, kind="avg"))[0]
    array([[ 0, 20, 20]], dtype=uint8)
    """

def labeled_comprehension(
    volume: Volume,
    labels: Volume,
    index: Any,
    func: Callable[..., Any],
    out_dtype: DTypeLike,
    default: Any,
    pass_positions: bool = False,
) -> Any:
    """Apply a function to the voxels of selected labels.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A stored volume with the values for the function.
    labels : Volume or numpy.ndarray
        Stored labels of the same shape, bool or integers from 0.
    index : int or array_like of int
        The labels, above 0.
    func : callable
        A function of the voxels of a label in raster order that returns a number. With
        ``pass_positions``, the second argument is the linear indices of the voxels in the volume.
    out_dtype : dtype
        The dtype of the result.
    default : number
        The result for missing labels.
    pass_positions : bool, default: False
        Whether to pass positions to the function.

    Returns
    -------
    numpy.ndarray or number
        A number for each entry of ``index``, computed immediately, in this process.

    Raises
    ------
    ValueError
        If a volume is computed instead of stored, shapes differ, or ``index`` is None or has labels
        below 1. If a label's bounding box needs more memory than is available.
    TypeError
        If an input is neither a volume nor an array, or has an unsupported dtype.

    See Also
    --------
    for_each_label : returns a lazy table, on any runner.
    regionprops_table : computes sums, means etc., without a box in memory.

    Notes
    -----
    One sweep finds the bounding boxes; then the boxes of the labels in ``index`` are read.

    References
    ----------
    `scipy.ndimage.labeled_comprehension`.

    Examples
    --------
    >>> labels = np.array([[1, 1, 0], [0, 2, 2]], "u1")
    >>> image = np.array([[1, 5, 9], [9, 2, 4]], "u1")
    >>> bv.labeled_comprehension(image, labels, [1, 2, 3], np.ptp, int, -1)
    array([ 4,  2, -1])
    """

def laplace(
    volume: Volume,
    *,
    mode: str | Sequence[str] = 'reflect',
    cval: float = 0.0,
    axes: int | Sequence[int] | None = None,
    dtype: DTypeLike | None = None,
) -> Volume:
    """Compute the sum of the second differences, ``[1, -2, 1]``, along the axes.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    mode : str or sequence of str, default: "reflect"
        How to extend the volume beyond its edges, as in `scipy.ndimage`; one mode for all axes or one
        per axis. ``"reflect"`` and ``"grid-mirror"`` repeat the outer voxel (c b a | a b c d | d c b), and
        ``"mirror"`` does not (d c b | a b c d | c b a). ``"nearest"`` extends it (a a a | a b c d | d d
        d), ``"constant"`` and ``"grid-constant"`` use ``cval``, and ``"wrap"`` and ``"grid-wrap"``
        repeat the volume (b c d | a b c d | a b c).
    cval : float, default: 0.0
        The value beyond the edges if ``mode`` is ``"constant"`` or ``"grid-constant"``.
    axes : int or sequence of int, optional
        Axes to work along, counted from 0, or backwards from -1; all axes by default.
    dtype : dtype, optional
        Dtype of the result. Integers are rounded half to even and clipped to the dtype's range.

    Returns
    -------
    Volume
        A float32 volume for bool, integers of up to 16 bits, float16 and float32; a float64 volume for
        other dtypes. ``dtype`` overrides this.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis. If a length has a unit
        but the volume has no voxel size.
    TypeError
        If ``volume`` is neither a volume nor an array, or ``dtype`` is not supported.

    Notes
    -----
    One sweep, with a halo of one voxel along each axis. A single stage sums all
    ``1 + 2 * len(axes)`` weighted voxels, without intermediate results.

    References
    ----------
    `scipy.ndimage.laplace`.

    Examples
    --------
    >>> np.asarray(bv.laplace(bv.open(np.array([[10, 20, 30, 200, 10]], "u1"))))
    array([[  10.,    0.,  160., -360.,  190.]], dtype=float32)
    """

def local_binary_pattern(
    volume: Volume,
    P: int,
    R: float,
    method: str = 'default',
) -> Volume:
    """Compare each voxel with points on a circle in its slice, a measure of texture.

    Use histograms of the result, or the result itself, as features of a texture. They do not depend
    on brightness.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes. Integers are recommended: rounding of floats
        changes comparisons of equal values.
    P : int
        Number of points on the circle, from 1 to 31. Points between pixels are interpolated
        linearly.
    R : float
        Radius of the circle in pixels, rounded to float32.
    method : {"default", "ror", "uniform", "nri_uniform", "var"}, default: "default"
        How the comparisons become a number. A bit is 1 if the point is not below the voxel.

        - ``"default"``: the number with these bits.
        - ``"ror"``: the smallest number among all rotations of the bits.
        - ``"uniform"``: the number of ones if the bits change up to twice, otherwise ``P + 1``.
        - ``"nri_uniform"``: each pattern with up to two changes has its own number. All others are
          ``P * (P - 1) + 2``.
        - ``"var"``: the variance of the points, a measure of contrast instead of a pattern.

    Returns
    -------
    Volume
        A volume of the smallest of uint8, uint16 and uint32 that holds all patterns. For ``"var"``,
        a float64 volume, which is NaN where all points are equal.

    Raises
    ------
    ValueError
        If a parameter is out of range.
    TypeError
        If ``volume`` is neither a volume nor an array, or a parameter has a wrong type.

    See Also
    --------
    entropy : a measure of texture that ignores the order of voxels.
    features : features of several scales for a classifier.

    Notes
    -----
    One sweep, slice by slice, with a halo of ``R`` pixels, rounded up. Points beyond the edges are 0.
    The numbers equal scikit-image's, which are float64.

    References
    ----------
    `skimage.feature.local_binary_pattern`; T. Ojala et al., "Multiresolution gray-scale and rotation
    invariant texture classification with local binary patterns", IEEE Transactions on Pattern
    Analysis and Machine Intelligence 24 (2002).

    Examples
    --------
    >>> step = bv.open(np.array([[1, 1, 9, 9]] * 3, "u1"))
    >>> np.asarray(bv.local_binary_pattern(step, 8, 1, "uniform"))[1]
    array([5, 8, 5, 5], dtype=uint8)
    """

def local_maxima(
    image: Volume,
    footprint: ArrayLike | None = None,
    connectivity: int | None = None,
    allow_borders: bool = True,
) -> Volume:
    """Find plateaus of one or more voxels that are higher than all their neighbours.

    Parameters
    ----------
    image : Volume or numpy.ndarray
        A volume or an array with up to three axes. NaN is never an extremum, but its neighbours can
        be.
    footprint : array_like, optional
        The neighbours of a voxel: an array with 3 entries along each axis, symmetric about the
        centre, including all neighbours that share a face.
    connectivity : {1, 2, 3}, optional
        The largest number of steps along axes between neighbours, instead of ``footprint``; by
        default the number of axes.
    allow_borders : bool, default: True
        Whether to include plateaus that touch the border of the volume.

    Returns
    -------
    Volume
        A bool volume, True in the extrema. A constant volume has no extrema.

    Raises
    ------
    ValueError
        If a parameter is out of range. On computation, before anything is written, if the components
        need more memory than is available. The message suggests slabs that would work.
    TypeError
        If the input is neither a volume nor an array, or has an unsupported dtype.

    See Also
    --------
    h_maxima : maxima with a minimum height.
    peak_local_max : positions of peaks with a minimum distance.

    Notes
    -----
    The result is identical to scikit-image's.

    Two sweeps: the first finds the components of every slab, and the second writes the result. Memory
    grows with the components of one slab, about 50 bytes each, and with the components on the faces of
    blocks of slabs. Memory does not grow with the total number of components.

    References
    ----------
    `skimage.morphology.local_maxima`.

    Examples
    --------
    >>> np.asarray(bv.local_maxima(np.array([[0, 2, 2, 1, 1, 3]]))).astype(int)
    array([[0, 1, 1, 0, 0, 1]])
    """

def local_minima(
    image: Volume,
    footprint: ArrayLike | None = None,
    connectivity: int | None = None,
    allow_borders: bool = True,
) -> Volume:
    """Find plateaus of one or more voxels that are lower than all their neighbours.

    Parameters
    ----------
    image : Volume or numpy.ndarray
        A volume or an array with up to three axes. NaN is never an extremum, but its neighbours can
        be.
    footprint : array_like, optional
        The neighbours of a voxel: an array with 3 entries along each axis, symmetric about the
        centre, including all neighbours that share a face.
    connectivity : {1, 2, 3}, optional
        The largest number of steps along axes between neighbours, instead of ``footprint``; by
        default the number of axes.
    allow_borders : bool, default: True
        Whether to include plateaus that touch the border of the volume.

    Returns
    -------
    Volume
        A bool volume, True in the extrema. A constant volume has no extrema.

    Raises
    ------
    ValueError
        If a parameter is out of range. On computation, before anything is written, if the components
        need more memory than is available. The message suggests slabs that would work.
    TypeError
        If the input is neither a volume nor an array, or has an unsupported dtype.

    See Also
    --------
    h_minima : minima with a minimum depth.

    Notes
    -----
    The result is identical to scikit-image's.

    Two sweeps: the first finds the components of every slab, and the second writes the result. Memory
    grows with the components of one slab, about 50 bytes each, and with the components on the faces of
    blocks of slabs. Memory does not grow with the total number of components.

    References
    ----------
    `skimage.morphology.local_minima`.

    Examples
    --------
    >>> np.asarray(bv.local_minima(np.array([[5, 2, 2, 3, 3, 1]]))).astype(int)
    array([[0, 1, 1, 0, 0, 1]])
    """

def local_rank(
    volume: Volume,
    statistic: str,
    size: int | Sequence[int] | None = None,
    footprint: ArrayLike | None = None,
    *,
    axes: int | Sequence[int] | None = None,
) -> Volume:
    """Compute a statistic of the values around each voxel from their histogram.

    Use it for local thresholds, majorities and means that ignore everything beyond the edges.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes: uint8 or uint16.
    statistic : str
        What to compute of the values under the footprint. The names are from
        `skimage.filters.rank`:

        - ``"mean"``, ``"median"``, ``"minimum"``, ``"maximum"`` and ``"sum"``; means are rounded
          down.
        - ``"geometric_mean"``: of the values plus 1, minus 1, rounded to the nearest integer.
        - ``"modal"``: the most frequent value, and of several the lowest.
        - ``"gradient"``: the maximum minus the minimum.
        - ``"pop"``: the number of voxels under the footprint.
        - ``"threshold"``: 1 where the voxel is above the mean, otherwise 0.
        - ``"otsu"``: the threshold by Otsu's method.
        - ``"subtract_mean"``: half of the voxel minus the mean, plus 127 (32767 for uint16).
        - ``"equalize"``: the fraction of values up to the voxel's, times the largest number
          of the dtype.
        - ``"noise_filter"``: the distance to the nearest value of a neighbour. It is 0 where a
          neighbour has the same value. The values 0 and 255 (65535 for uint16) count as neighbours.
    size : int or sequence of int, optional
        Extent of the box in voxels; one value for all axes or one per axis. Pass either ``size`` or
        ``footprint``.
    footprint : array_like of bool, optional
        The footprint, with one dimension per axis, such as from `ball`.
    axes : int or sequence of int, optional
        Axes to work along, counted from 0, or backwards from -1; all axes by default.

    Returns
    -------
    Volume
        A volume of the input's dtype. Sums and numbers of voxels wrap around in this dtype: convert
        the volume to uint16 for larger ones. If no voxel of the volume is under the footprint, the
        result is 0.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis. If not exactly one of
        ``size`` and ``footprint`` is given.
    TypeError
        If ``volume`` is neither a volume nor an array, or has an unsupported dtype.

    See Also
    --------
    entropy : the number of bits of the values.
    autolevel : stretches the contrast around each voxel.
    median_filter : a median that extends the volume beyond its edges.
    rank_filter : selects a value by its rank.

    Notes
    -----
    Voxels beyond the edges are ignored. The result equals scikit-image's. For uint16,
    ``"equalize"``, ``"noise_filter"`` and ``"subtract_mean"`` of scikit-image use the maximum of
    the image instead of 65535. The time grows with the number of rows of the footprint, not
    columns.

    One sweep. The halo is the reach of the footprint: along each axis, a slab reads ``size - 1`` more
    voxels than it writes. A window contains the same number of additional slices.

    References
    ----------
    `skimage.filters.rank`.

    Examples
    --------
    Replace each voxel with the most frequent class around it:

    >>> classes = bv.open(np.array([[5, 5, 1, 5, 2, 2]], "u1"))
    >>> np.asarray(bv.local_rank(classes, "modal", (1, 3)))
    array([[5, 5, 5, 1, 2, 2]], dtype=uint8)
    """

def log(
    volume: Volume | Scalar,
) -> Any:
    """Compute natural logarithms, with the same bits on every processor.

    Parameters
    ----------
    volume : Volume or Scalar
        A volume or a lazy number.

    Returns
    -------
    Volume or Scalar
        A result of the same kind, with numpy's dtype; NaN for negative numbers, -inf for 0.

    Raises
    ------
    TypeError
        If the input is not a volume, lazy number, array or number.

    Notes
    -----
    Pointwise: no halo, and no sweeps beyond those for the inputs.

    numpy's results may differ in the last bit, because they depend on the processor.

    References
    ----------
    `numpy.log`.

    Examples
    --------
    >>> np.asarray(bv.log(bv.open(np.array([[1.0, 10.0]])))).round(4)
    array([[0.    , 2.3026]])
    """

def log10(
    volume: Volume | Scalar,
) -> Any:
    """Compute logarithms to base 10.

    Parameters
    ----------
    volume : Volume or Scalar
        A volume or a lazy number.

    Returns
    -------
    Volume or Scalar
        A result of the same kind, with numpy's dtype; NaN for negative numbers, -inf for 0.

    Raises
    ------
    TypeError
        If an input is not a volume, lazy number, array or number.

    Notes
    -----
    Pointwise: no halo, and no sweeps beyond those for the inputs.

    Results are the same on every processor; numpy's results depend on the processor. The error is below
    2 units in the last place of float64, or of the narrower dtype to which results are rounded.

    References
    ----------
    `numpy.log10`; fdlibm, Sun Microsystems (1993).

    Examples
    --------
    >>> np.asarray(bv.log10(bv.open(np.array([[1.0, 1000.0]])))).round(4)
    array([[0., 3.]])
    """

def log1p(
    volume: Volume | Scalar,
) -> Any:
    """Compute natural logarithms of one plus each voxel, precisely for small values.

    Parameters
    ----------
    volume : Volume or Scalar
        A volume or a lazy number.

    Returns
    -------
    Volume or Scalar
        A result of the same kind, with numpy's dtype; NaN below -1, -inf for -1.

    Raises
    ------
    TypeError
        If an input is not a volume, lazy number, array or number.

    Notes
    -----
    Pointwise: no halo, and no sweeps beyond those for the inputs.

    Results are the same on every processor; numpy's results depend on the processor. The error is below
    2 units in the last place of float64, or of the narrower dtype to which results are rounded.

    References
    ----------
    `numpy.log1p`; fdlibm, Sun Microsystems (1993).

    Examples
    --------
    >>> np.asarray(bv.log1p(bv.open(np.array([[0.0, 1.0]])))).round(4)
    array([[0.    , 0.6931]])
    """

def log2(
    volume: Volume | Scalar,
) -> Any:
    """Compute logarithms to base 2.

    Parameters
    ----------
    volume : Volume or Scalar
        A volume or a lazy number.

    Returns
    -------
    Volume or Scalar
        A result of the same kind, with numpy's dtype; NaN for negative numbers, -inf for 0.

    Raises
    ------
    TypeError
        If an input is not a volume, lazy number, array or number.

    Notes
    -----
    Pointwise: no halo, and no sweeps beyond those for the inputs.

    Results are the same on every processor; numpy's results depend on the processor. The error is below
    2 units in the last place of float64, or of the narrower dtype to which results are rounded.

    References
    ----------
    `numpy.log2`; fdlibm, Sun Microsystems (1993).

    Examples
    --------
    >>> np.asarray(bv.log2(bv.open(np.array([[1.0, 8.0]])))).round(4)
    array([[0., 3.]])
    """

def map_coordinates(
    volume: Volume,
    coordinates: Volume,
    *,
    max_displacement: float | str | Sequence[float | str],
    order: int = 1,
    mode: str = 'constant',
    cval: float = 0.0,
    prefilter: bool = True,
) -> Volume:
    """Interpolate a volume at positions from a stored field.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    coordinates : Volume or numpy.ndarray
        For each voxel of the result, its position in the volume, in voxels. The field has the shape
        of the volume, with a channel for each axis in the order z, y, x.
    max_displacement : float, str or sequence of them
        The maximum distance between a voxel and its position along each axis, in voxels or as a
        length such as ``"200 nm"``. One value for all axes or one per axis. If a voxel is further
        away, the run raises an error that specifies the voxel.
    order : int, default: 1
        Order of interpolation, from 0 to 5: 0 is the nearest voxel, 1 is linear, 3 is cubic (scipy's
        default). Orders from 2 on compute splines through all voxels, in float64 as in scipy. Integers
        are clipped to the dtype's range.
    mode : str, default: "constant"
        How to extend the volume beyond its edges. ``"constant"`` and ``"grid-constant"`` use ``cval``,
        and ``"nearest"`` the outer voxels. ``"reflect"`` and ``"grid-mirror"`` repeat the outer voxel
        (c b a | a b c d), and ``"mirror"`` does not (d c b | a b c d). ``"grid-wrap"`` repeats the
        volume (b c d | a b c d), like `pad` with ``"wrap"``. With ``"constant"``, values beyond the
        centres of the outer voxels are not interpolated.
    cval : float, default: 0.0
        The value outside of the volume in the constant modes, a number of the volume's dtype.
    prefilter : bool, default: True
        Whether to compute the coefficients of the spline first, for orders from 2 on. Set it to False
        if ``volume`` is a result of `spline_filter`.

    Returns
    -------
    Volume
        A volume of the input's dtype; integers are rounded half away from zero.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis. If the field does not
        match the volume, or the volume has no voxels. On computation, if a position is NaN or too
        far away.
    TypeError
        If an input is neither a volume nor an array, or the volume is bool with an order above 0.

    See Also
    --------
    warp : takes displacements.
    affine_transform : computes positions from a matrix, without a limit.

    Notes
    -----
    One sweep. The halo is ``max_displacement`` plus ``order + 1`` voxels along each axis. The
    result has the shape and origin of the volume. For single positions, index the volume.

    References
    ----------
    `scipy.ndimage.map_coordinates`.

    Examples
    --------
    >>> v = np.array([[10, 20, 40]], "u1")
    >>> at = np.array([[[0, 0, 0]], [[0.5, 0, 2]]])  # y, then x
    >>> np.asarray(bv.map_coordinates(v, at, max_displacement=1))
    array([[15, 10, 40]], dtype=uint8)
    """

def map_instances(
    volume: Volume,
    function: Callable[[np.ndarray], np.ndarray],
    tile: int | Sequence[int],
    overlap: int | Sequence[int],
    stitch: str = 'iou',
    threshold: float = 0.5,
    *,
    dtype: DTypeLike | None = None,
    voxel_bytes: int = 24,
    name: str | None = None,
    version: str | int | None = None,
) -> Volume:
    """Segment objects tile by tile with your own function, and stitch the results.

    Use it for functions that return labels, such as Cellpose, StarDist, micro-SAM or a watershed.
    Overlapping tiles form a grid over the volume that is independent of slabs.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    function : callable
        A function of the voxels of a tile, an array with the volume's axes (c first if there are
        channels). The function returns labels: integers of the tile's shape without c, 0 for
        background. It must return the same labels for the same voxels. Several threads call the
        function, and it must not compute with this package.
    tile : int or sequence of int
        Extent of a tile in voxels. The last tiles are clipped at the end of the volume.
    overlap : int or sequence of int
        Number of voxels shared by adjacent tiles, up to half a tile. If the overlap is at least the
        size of the largest object, each object is complete in some tile.
    stitch : {"iou", "touch", "largest"}, default: "iou"
        When labels of two adjacent tiles belong to one object. Only voxels that the tiles share are
        considered. ``"iou"``: the intersection over union is at least ``threshold``. ``"touch"``: they
        share a voxel. ``"largest"``: each is the label that overlaps the other most; of equal overlaps,
        the smaller label is selected.
    threshold : float, default: 0.5
        Minimum intersection over union for ``"iou"``, above 0 and up to 1. Above 0.5, a label joins at
        most one label of a neighbouring tile.
    dtype : dtype, optional
        Dtype of the result: uint32 by default, uint64 for volumes of 2**32 or more voxels.
    voxel_bytes : int, default: 24
        Memory in bytes that the function needs for each voxel of a tile, in addition to its input.
        The plan includes this memory.
    name : str, optional
        Together with ``version``, it identifies the function when a run is resumed. Without a name, a
        run with this function cannot be resumed.
    version : str or int, optional
        Change the version when you change the function.

    Returns
    -------
    Volume
        Labels 1, 2, ... in the raster order of the objects' first voxels. Its `Volume.num_labels` is
        the lazy number of objects.

    Raises
    ------
    ValueError
        If a parameter is out of range. On computation, if the function does not return labels, or
        the objects need more memory than is available.
    TypeError
        If ``volume`` is neither a volume nor an array, or ``function`` is not callable.

    See Also
    --------
    stitch : stitches existing segmentations in blocks.
    predict : runs networks that return voxels instead of labels.
    map_overlap : runs functions of voxels and their neighbourhoods.

    Notes
    -----
    The first half of an overlap belongs to the lower tile, the rest to the upper one; each voxel
    gets its label from the tile that it belongs to. An object that lies only in voxels of other
    tiles can join objects, but has no voxels in the result. Labels are joined across faces of
    tiles; across edges and corners, they are joined through the tiles in between.

    Two sweeps. A slab runs the function on all tiles that intersect it. The labels of tiles are
    stored for the second sweep, so the function runs once for each tile and slab. Slabs need the
    fewest calls if their extents are multiples of ``tile - overlap``. Tiles are merged in a tree,
    like the slabs of `label`.

    References
    ----------
    Matching by intersection over union in overlaps: `Stringer et al., Cellpose, Nature Methods 2021
    <https://doi.org/10.1038/s41592-020-01018-x>`_, and cellpose's ``stitch3D`` for slices.

    Examples
    --------
    >>> from scipy import ndimage
    >>> def bright(tile):
    ...     return ndimage.label(tile > 5)[0]
    >>> v = bv.open(np.array([[9, 0, 7, 8, 8, 9, 0, 6, 0, 0, 9]], "u1"))
    >>> np.asarray(bv.map_instances(v, bright, tile=(1, 4), overlap=(0, 2), name="bright", version=1))
    array([[1, 0, 2, 2, 2, 2, 0, 3, 0, 0, 4]], dtype=uint32)
    """

def map_labels(
    labels: Volume,
    function: Callable[[Region], Any],
    *,
    dtype: DTypeLike | None = None,
    volumes: Sequence[Volume] = (),
    pad: int | Sequence[int] = 0,
    name: str | None = None,
    version: Any = None,
) -> Volume:
    """Apply your own function to each object, and combine the results in one volume.

    Use it for operations that need a whole object, such as skeletons, filled holes, smoothed
    outlines or convex hulls.

    Parameters
    ----------
    labels : Volume or numpy.ndarray
        Stored labels, integers from 0; 0 is background.
    function : callable
        A function of a ``Region`` with ``label``, ``mask``, ``labels``, ``images``, ``start``,
        ``voxel_size`` and ``unit``, as in `for_each_label`. The function returns an array with the
        shape of ``mask``, or None to remove the object. It may be called several times for an
        object, and must return the same result.
    dtype : dtype, optional
        By default, the function returns the object's new voxels as a bool array, and the result is
        a volume of labels. Where several objects overlap, the largest label wins. With a dtype, the
        function returns numbers, which are used within the object's original voxels; the result is
        0 elsewhere.
    volumes : sequence of Volume, default: ()
        Stored volumes of the same shape, which are cropped to the same box.
    pad : int or sequence of int, default: 0
        Voxels to add to the box on each side, within the volume.
    name : str, optional
        With ``version``, identifies the function, so that a different process can resume a run.
    version : object, optional
        Change the version when the function changes.

    Returns
    -------
    Volume
        Labels of the input's dtype, or numbers of ``dtype``.

    Raises
    ------
    ValueError
        If labels or volumes are computed instead of stored, or shapes differ. On computation, if
        the function returns a different shape or dtype, or a box has more voxels than a slab.
    TypeError
        If ``labels`` is neither a volume nor an array, or has an unsupported dtype, or ``function``
        is not callable.

    See Also
    --------
    for_each_label : returns a table of numbers.
    map_overlap : applies a function to blocks.

    Notes
    -----
    Two sweeps: the first finds the bounding boxes, and the second calls the function. An object is
    processed in each slab that its box intersects. A worker holds the result of a slab, and boxes
    with at most as many voxels as the slab. For larger boxes, an error suggests more memory or
    deeper slabs.

    References
    ----------
    `skimage.measure.regionprops`, with ``image`` and ``slice``.

    Examples
    --------
    >>> from scipy import ndimage
    >>> labels = np.array([[3, 3, 3, 0], [3, 0, 3, 8], [3, 3, 3, 8]], "u1")
    >>> np.asarray(bv.map_labels(labels, lambda region: ndimage.binary_fill_holes(region.mask)))
    array([[3, 3, 3, 0],
           [3, 3, 3, 8],
           [3, 3, 3, 8]], dtype=uint8)
    >>> depth = lambda region: ndimage.distance_transform_edt(np.pad(region.mask, 1))[1:-1, 1:-1]
    >>> np.asarray(bv.map_labels(labels, depth, dtype="f4"))[2]
    array([1., 1., 1., 1.], dtype=float32)
    """

def map_overlap(
    func: Callable[..., np.ndarray],
    *volumes: Volume,
    depth: int | Sequence[int | tuple[int, int]] = 0,
    dtype: DTypeLike | None = None,
    mode: str | Sequence[str] = 'reflect',
    cval: float = 0.0,
    name: str | None = None,
    version: str | int | None = None,
    deterministic: bool = True,
    mixes: str | None = None,
    channels: int | Sequence[str] | None = None,
) -> Volume:
    """Apply your own function to blocks with an overlap.

    Parameters
    ----------
    func : callable
        A function of one array (z, y, x) for each volume, with ``depth`` additional voxels on each
        side. The function returns an array of the same shape, or of the shape without the overlap.
        Each voxel of the result may depend only on voxels within ``depth``, not on the position of
        blocks. Several threads call the function, and it must not compute with this package.
    *volumes : Volume or numpy.ndarray
        One or more volumes of the same shape. The function is called separately for each channel; a
        volume without channels is passed to every call.
    depth : int or sequence, default: 0
        The overlap in voxels: one number for all axes, or for each axis a number or a pair
        ``(before, after)``.
    dtype : dtype, optional
        The dtype of the result. By default, the dtype that the function returns for a small block
        of ones, or the dtype of the first volume if this call fails.
    mode : str or sequence of str, default: "reflect"
        How to extend the volume beyond its edges, as in `scipy.ndimage`; one mode for all axes or one
        per axis. ``"reflect"`` and ``"grid-mirror"`` repeat the outer voxel (c b a | a b c d | d c b), and
        ``"mirror"`` does not (d c b | a b c d | c b a). ``"nearest"`` extends it (a a a | a b c d | d d
        d), ``"constant"`` and ``"grid-constant"`` use ``cval``, and ``"wrap"`` and ``"grid-wrap"``
        repeat the volume (b c d | a b c d | a b c).
    cval : float, default: 0.0
        The value beyond the edges if ``mode`` is ``"constant"`` or ``"grid-constant"``.
    name : str, optional
        Together with ``version``, it identifies the function when a run is resumed. Without a name, a
        run with this function cannot be resumed.
    version : str or int, optional
        Change the version when you change the function.
    deterministic : bool, default: True
        Set it to False if a second call may return different bits. In this case, the result is
        stored, and never computed twice.
    mixes : {"channels"}, optional
        ``"channels"`` if the function processes all channels at once. All arrays and the result
        then have the axes c, z, y, x, even for volumes without channels.
    channels : int or sequence of str, optional
        Number or names of the result's channels with ``mixes``; by default the first volume's.

    Returns
    -------
    Volume
        A volume of ``dtype``, on the grid of the first volume.

    Raises
    ------
    ValueError
        If no volume is given, shapes differ, or a parameter is out of range. On computation, if the
        function returns a different kind of number from ``dtype``, or integers that ``dtype``
        cannot hold.
    TypeError
        If ``func`` is not callable, or a volume is neither a volume nor an array.

    See Also
    --------
    generic_filter : applies a compiled function to the voxels around each voxel.

    Notes
    -----
    One sweep, with ``depth`` as halo. The planner assumes that the function needs memory for its
    inputs and two float64 arrays per block; additional memory is not planned.

    References
    ----------
    `dask.array.map_overlap`.

    Examples
    --------
    >>> v = bv.open(np.arange(5.0)[None])
    >>> np.asarray(bv.map_overlap(lambda a: a - np.roll(a, 1, axis=2), v, depth=(0, 1)))
    array([[0., 1., 1., 1., 1.]])
    """

def mark_boundaries(
    image: Volume,
    label_img: Volume,
    color: Colour = (1, 1, 0),
    outline_color: Colour | None = None,
    mode: str = 'outer',
    background_label: int = 0,
) -> Volume:
    """Draw the boundaries of labels on an image.

    Parameters
    ----------
    image : Volume or numpy.ndarray
        A volume without channels, or with the three channels red, green and blue. Bool and unsigned
        integers of up to 16 bits are scaled to the range from 0 to 1; floats keep their scale.
    label_img : Volume or numpy.ndarray
        Bool or integer labels of the same shape.
    color : sequence of float or str, default: (1, 1, 0)
        Red, green and blue from 0 to 1, or a name.
    outline_color : sequence of float or str, optional
        The colour of voxels next to boundaries; by default, these are not coloured.
    mode : {"outer", "inner", "thick"}, default: "outer"
        Which boundaries to draw, as in `find_boundaries`.
    background_label : int, default: 0
        The label of the background.

    Returns
    -------
    Volume
        The channels red, green and blue, as float32, or float64 for float64 images.

    Raises
    ------
    ValueError
        If shapes differ, the image does not have one or three channels, or a parameter is out of
        range.
    TypeError
        If an input is neither a volume nor an array, or has an unsupported dtype.

    See Also
    --------
    label2rgb : colours whole labels.
    preview : makes a picture of a section.

    Notes
    -----
    One sweep. The halo is one voxel, or two voxels with ``outline_color``.

    References
    ----------
    `skimage.segmentation.mark_boundaries`.

    Examples
    --------
    >>> image, labels = np.full((1, 4), 51, "u1"), np.array([[1, 1, 2, 2]])
    >>> np.asarray(bv.mark_boundaries(image, labels))[2]
    array([[0.2, 0. , 0. , 0.2]], dtype=float32)
    """

def match_histograms(
    volume: Volume,
    reference: Volume,
    *,
    nbins: int = 65536,
) -> Volume:
    """Change intensities so that their histogram matches the histogram of a reference.

    Use it to compare volumes that were recorded with different exposures. Each voxel gets the
    reference intensity that has the same fraction of voxels below it.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    reference : Volume or numpy.ndarray
        A volume of any shape and dtype. If it has channels, they must be the same as the volume's,
        and each channel is matched separately.
    nbins : int, default: 65536
        Maximum number of distinct values of floats, and of integers of more than 16 bits. If there
        are more, they are counted in this number of equal bins. For other dtypes, every value is
        counted.

    Returns
    -------
    Volume
        A volume with intensities of the reference: float32 if both are bool, integers of up to 16
        bits, float16 or float32; otherwise float64.

    Raises
    ------
    ValueError
        If a parameter is out of range. On computation, if an included voxel is NaN or infinite and
        ``nan="raise"``, or no voxel is included.
    TypeError
        If ``volume`` is neither a volume nor an array.
    ValueError
        On computation, if integers exceed 2**53.

    See Also
    --------
    equalize_hist : matches a uniform histogram.
    normalize_slices : adjusts slices to each other.

    Notes
    -----
    Two sweeps for integers of up to 16 bits, three for other dtypes. The result equals
    scikit-image's if both volumes have up to ``nbins`` distinct values; values are compared as
    float64. With more values, all voxels in a bin get the same intensity. The largest voxel of a
    bin differs from scikit-image's by a limited amount: at most half a bin plus the distance
    between the centres of two occupied bins of the reference.

    References
    ----------
    `skimage.exposure.match_histograms`.

    Examples
    --------
    >>> dark, bright = np.array([[1, 2, 2, 3]], "u1"), np.array([[50, 90, 90, 200]], "u1")
    >>> np.asarray(bv.match_histograms(dark, bright))
    array([[ 50.,  90.,  90., 200.]], dtype=float32)
    """

def match_template(
    volume: Volume,
    template: Any,
    pad_input: bool = False,
    mode: str = 'constant',
    constant_values: float = 0.0,
) -> Volume:
    """Compute how similar each position in a volume is to a template.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with two or three axes and no channels.
    template : array_like
        A small volume with the same axes and up to half a million voxels, such as 64 x 64 x 64.
    pad_input : bool, default: False
        If True, the result has the shape of the volume, and each voxel is the similarity with the
        template centred there. If False, the result is smaller, and each voxel is the similarity
        with the template beginning there.
    mode : {"constant", "edge", "reflect", "symmetric"}, default: "constant"
        How to extend the volume beyond its edges with ``pad_input``: by ``constant_values``, or by
        the outer voxels (``"edge"``). ``"reflect"`` mirrors the volume without its outer voxels,
        and ``"symmetric"`` with them.
    constant_values : float, default: 0.0
        The value beyond the edges for ``"constant"``.

    Returns
    -------
    Volume
        A float32 volume: Pearson's correlation of the template and the surrounding voxels, from -1
        to 1. The result is 0 where the surrounding voxels are constant, and NaN where any of them
        is NaN or infinite.

    Raises
    ------
    ValueError
        If the template is larger than the volume or constant, has different axes or too many
        voxels, or a parameter is out of range.
    TypeError
        If an input is neither a volume nor an array, or the volume has several channels.

    See Also
    --------
    peak_local_max : finds the best places of the result.
    correlate : does not divide by the variance.

    Notes
    -----
    One sweep. Blocks at fixed positions are Fourier transformed, so the result does not depend on
    slabs. The last bits may depend on scipy's version. Blocks have 128 voxels along each axis in
    three dimensions, or more for templates of more than 32. Voxels are first rounded to float32.
    The error is about 1e-6.

    References
    ----------
    `skimage.feature.match_template`; J. P. Lewis, "Fast normalized cross-correlation", Industrial Light
    and Magic (1995).

    Examples
    --------
    >>> image = np.zeros((6, 7))
    >>> image[2:4, 3:5] = [[1, 2], [3, 4]]
    >>> found = bv.match_template(image, [[1, 2], [3, 4]])
    >>> found.shape, np.unravel_index(np.asarray(found).argmax(), found.shape)
    ((5, 6), (np.int64(2), np.int64(3)))
    """

def match_tiles(
    tiles: Sequence[Volume],
    transforms: Any,
    *,
    offset: bool = False,
    saturation: float | None = None,
    mask: Volume | Sequence[Volume | None] | None = None,
    nodata: float | None = None,
    progress: bool | Callable[..., None] | None = None,
) -> ComputedTable:
    """Find a gain for each tile, so that overlapping tiles are equally bright.

    Use it if seams remain after `estimate_flat_field`, for example because the exposure changes or the
    sample bleaches. Pass the columns to `fuse` as lists, or multiply each tile by its gain.

    Parameters
    ----------
    tiles : sequence of Volume or numpy.ndarray
        Tiles with one channel and the same axes, opened or computed. With rotations, scales or shears,
        the operations of computed tiles must be accepted by `fuse`.
    transforms : array_like, table or path
        For each tile, the position of its first voxel, in voxels, or a matrix, as in `fuse`. The
        table of `register_tiles` is accepted as well.
    offset : bool, default: False
        Whether to find an offset for each tile as well. Overlaps need dark and bright parts.
    saturation : float, optional
        Voxels of at least this value are not used; by default, the largest value of an integer dtype.
    mask : Volume, numpy.ndarray or sequence of these, optional
        Only voxels with a nonzero mask are used: one mask for all tiles, or a list with a mask or
        None for each tile. A mask has the shape of its tile, and bool or integer voxels.
    nodata : float, optional
        The value of voxels without data, such as 0 for black borders. They are not used.
    progress : bool or callable, optional
        Whether to show progress on standard error, or a function to call with the progress, as in
        `compute`.

    Returns
    -------
    ComputedTable
        A row for each tile, in order. ``tile * gain + offset`` is the corrected tile. ``links`` is the
        number of overlaps that are used, and ``residual`` the median relative difference of blocks
        in these overlaps after correction. In each group of linked tiles, the median of 1 / gain is
        1, and the median of offsets is 0. A nearly black tile therefore does not darken the others.
        Tiles without links have the gain 1.

    Raises
    ------
    ValueError
        If a parameter is out of range, or there is not one position for each tile. If tiles differ
        in axes, or have several channels, time points or no voxels. If a mask differs from its tile.
    TypeError
        If a tile is neither a volume nor an array, or has bool or complex voxels, or if a mask has
        floats.

    See Also
    --------
    register_tiles : finds the positions.
    estimate_flat_field : estimates the illumination that all tiles share.
    fuse : accepts the gains and offsets.

    Notes
    -----
    Only overlaps are read, each once for each of its two tiles. An overlap is divided into at most 512
    blocks, or fewer for more than 2,000 overlaps. Memory is about 200 bytes for each block, at most
    200 MiB for up to 16,000 overlaps, in addition to a sweep of one overlap. Overlaps that are black in
    one tile are not used.

    Positions are rounded to whole voxels; tiles with matrices are sampled at the nearest voxel.

    The mean of a block is computed in both tiles, from voxels that are valid in both. The gains of all
    tiles are solved together by least squares of relative differences. Weights are robust: the scale
    of differences decreases to their noise, so blocks with objects that moved count little. A weak
    preference for the gain 1 and the offset 0 decides what overlaps leave open.

    References
    ----------
    S. Uyttendaele, A. Eden and R. Szeliski, "Eliminating ghosting and exposure artifacts in image
    mosaics", Conference on Computer Vision and Pattern Recognition, 2001.

    M. J. Black and A. Rangarajan, "On the unification of line processes, outlier rejection, and
    robust statistics with applications in early vision", International Journal of Computer Vision
    19, 1996.

    Examples
    --------
    >>> film = np.random.default_rng(0).uniform(100, 200, (60, 100))
    >>> left, right = film[:, :60] * 0.8, film[:, 40:] * 1.2
    >>> table = bv.match_tiles([left, right], [(0, 0), (0, 40)])
    >>> gains = table["gain"].to_pylist()
    >>> [round(gain, 3) for gain in gains]
    [1.25, 0.833]
    >>> even = bv.fuse([left, right], [(0, 0), (0, 40)], gain=gains)
    """

def max(
    volume: Volume,
    axis: Axis = None,
    *,
    labels: Volume | None = None,
    index: ArrayLike | None = None,
    mask: Volume | None = None,
    nan: str = 'raise',
    across: str | None = None,
) -> Scalar:
    """Find the largest voxel, or the largest of each line along some axes.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    axis : int, str or sequence of them, optional
        The axes to reduce: numbers as in numpy, or names. For example, ``"z"`` is a projection along z,
        and ``("y", "x")`` returns one number per slice. By default, all axes except time. ``"c"`` alone
        reduces the channels of each voxel, and ``"t"`` alone the time points; in these cases, the
        result is a volume of any size.
    labels : Volume or numpy.ndarray, optional
        Labels with the same shape, bool or integers from 0, to measure each label separately, as in
        `scipy.ndimage`.
    index : int or array_like of int, optional
        The labels to measure, in any order; 0 is the background. The result is an array of this shape.
        Missing labels are NaN, or 0 for integers. By default, all labels are measured together.
    mask : Volume, optional
        Only voxels with a nonzero mask are included; all voxels by default.
    nan : {"raise", "omit"}, default: "raise"
        Whether NaN and infinite voxels raise an error on computation or are ignored.
    across : {"t"}, optional
        Compute one number for all time points, as in ``v > bv.mean(v, across="t")``. By default, each
        time point has its own number. A volume without a time axis has one number in both cases.

    Returns
    -------
    Scalar
        The lazy number in the volume's dtype. With ``axis``, a lazy array with the remaining axes; lines
        without included voxels are NaN, or an error for integers.

    Raises
    ------
    ValueError
        If a parameter is out of range. On computation, if an included voxel is NaN or infinite and
        ``nan="raise"``, or no voxel is included.
    TypeError
        If ``volume`` is neither a volume nor an array.

    See Also
    --------
    maximum_position : finds its position.
    maximum_filter : computes the largest voxel around each voxel.

    Notes
    -----
    One sweep.

    With ``axis``, the lazy array is limited to 256 MiB.

    Partial results of slabs are merged exactly, so the result is the same, bit for bit, for any
    division into slabs.

    References
    ----------
    `numpy.max`.

    Examples
    --------
    >>> int(bv.max(bv.open(np.array([[3, 1, 2]]))))
    3
    """

def maximum_filter(
    volume: Volume,
    size: int | Sequence[int] | None = None,
    footprint: ArrayLike | None = None,
    *,
    mode: str | Sequence[str] = 'reflect',
    cval: float = 0.0,
    origin: int | Sequence[int] = 0,
    axes: int | Sequence[int] | None = None,
) -> Volume:
    """Compute the maximum over a box or footprint around each voxel.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    size : int or sequence of int, optional
        Extent of the box in voxels; one value for all axes or one per axis. Pass either ``size`` or
        ``footprint``.
    footprint : array_like of bool, optional
        The footprint, with one dimension per axis, such as from `ball`.
    mode : str or sequence of str, default: "reflect"
        How to extend the volume beyond its edges, as in `scipy.ndimage`; one mode for all axes or one
        per axis. ``"reflect"`` and ``"grid-mirror"`` repeat the outer voxel (c b a | a b c d | d c b), and
        ``"mirror"`` does not (d c b | a b c d | c b a). ``"nearest"`` extends it (a a a | a b c d | d d
        d), ``"constant"`` and ``"grid-constant"`` use ``cval``, and ``"wrap"`` and ``"grid-wrap"``
        repeat the volume (b c d | a b c d | a b c).
    cval : float, default: 0.0
        The value beyond the edges if ``mode`` is ``"constant"`` or ``"grid-constant"``.
    origin : int or sequence of int, default: 0
        Shift of the footprint in voxels, as in `scipy.ndimage`: a positive number moves it towards
        lower indices. One value for all axes or one per axis.
    axes : int or sequence of int, optional
        Axes to work along, counted from 0, or backwards from -1; all axes by default.

    Returns
    -------
    Volume
        A volume of the input's dtype. The result is NaN exactly where the footprint contains a NaN.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis. If not exactly one of
        ``size`` and ``footprint`` is given, or the volume's dtype cannot hold ``cval``.
    TypeError
        If ``volume`` is neither a volume nor an array, or a parameter has a wrong type.

    See Also
    --------
    maximum_filter1d : filters along one axis.
    grey_dilation : supports structuring elements that are not flat.

    Notes
    -----
    The result is identical to scipy's. For a box the time is independent of its size.

    One sweep. The halo is the reach of the footprint: along each axis, a slab reads ``size - 1`` more
    voxels than it writes. A window contains the same number of additional slices.

    References
    ----------
    `scipy.ndimage.maximum_filter`.

    Examples
    --------
    >>> np.asarray(bv.maximum_filter(bv.open(np.array([[5, 1, 4, 9, 8]])), (1, 3)))
    array([[5, 5, 9, 9, 9]])
    """

def maximum_filter1d(
    volume: Volume,
    size: int,
    axis: int = -1,
    *,
    mode: str = 'reflect',
    cval: float = 0.0,
    origin: int = 0,
) -> Volume:
    """Compute the maximum along one axis around each voxel.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    size : int
        Number of voxels.
    axis : int, default: -1
        The axis to work along, counted from 0, or backwards from -1.
    mode : str, default: "reflect"
        How to extend the volume beyond its edges, as in `scipy.ndimage`.
        ``"reflect"`` and ``"grid-mirror"`` repeat the outer voxel (c b a | a b c d | d c b), and
        ``"mirror"`` does not (d c b | a b c d | c b a). ``"nearest"`` extends it (a a a | a b c d | d d
        d), ``"constant"`` and ``"grid-constant"`` use ``cval``, and ``"wrap"`` and ``"grid-wrap"``
        repeat the volume (b c d | a b c d | a b c).
    cval : float, default: 0.0
        The value beyond the edges if ``mode`` is ``"constant"`` or ``"grid-constant"``.
    origin : int, default: 0
        Shift of the footprint in voxels, as in `scipy.ndimage`: a positive number moves it towards
        lower indices.

    Returns
    -------
    Volume
        A volume of the input's dtype. The result is NaN exactly where the footprint contains a NaN.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis. If not exactly one of
        ``size`` and ``footprint`` is given, or the volume's dtype cannot hold ``cval``.
    TypeError
        If ``volume`` is neither a volume nor an array, or a parameter has a wrong type.

    See Also
    --------
    maximum_filter : filters over a box or footprint.

    Notes
    -----
    The result is identical to scipy's; the time is independent of ``size``.

    One sweep. The halo along the axis is ``size - 1`` voxels in total.

    References
    ----------
    `scipy.ndimage.maximum_filter1d`.

    Examples
    --------
    >>> np.asarray(bv.maximum_filter1d(bv.open(np.array([[5, 1, 4, 9, 8]])), 3))
    array([[5, 5, 9, 9, 9]])
    """

def maximum_position(
    volume: Volume,
    labels: Volume | None = None,
    index: ArrayLike | None = None,
    *,
    mask: Volume | None = None,
    nan: str = 'raise',
) -> Scalar:
    """Find the position of the largest voxel, the first in raster order.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    labels : Volume or numpy.ndarray, optional
        Labels with the same shape, bool or integers from 0, to measure each label separately, as in
        `scipy.ndimage`.
    index : int or array_like of int, optional
        The labels to measure, in any order; 0 is the background. The result is an array of this shape.
        Missing labels are NaN, or 0 for integers. By default, all labels are measured together.
    mask : Volume, optional
        Only voxels with a nonzero mask are included; all voxels by default.
    nan : {"raise", "omit"}, default: "raise"
        Whether NaN and infinite voxels raise an error on computation or are ignored.

    Returns
    -------
    Scalar
        A lazy int64 array, an index for each axis.

    Raises
    ------
    ValueError
        If a parameter is out of range. On computation, if an included voxel is NaN or infinite and
        ``nan="raise"``, or no voxel is included.
    TypeError
        If ``volume`` is neither a volume nor an array.

    See Also
    --------
    max : computes the largest voxel.

    Notes
    -----
    One sweep.

    Partial results of slabs are merged exactly, so the result is the same, bit for bit, for any
    division into slabs.

    References
    ----------
    `scipy.ndimage.maximum_position`.

    Examples
    --------
    >>> np.asarray(bv.maximum_position(bv.open(np.array([[3, 1], [1, 4]]))))
    array([1, 1])
    """

def mean(
    volume: Volume,
    axis: Axis = None,
    *,
    labels: Volume | None = None,
    index: ArrayLike | None = None,
    mask: Volume | None = None,
    nan: str = 'raise',
    across: str | None = None,
) -> Scalar:
    """Compute the mean of all voxels, or of each line along some axes, exactly.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    axis : int, str or sequence of them, optional
        The axes to reduce: numbers as in numpy, or names. For example, ``"z"`` is a projection along z,
        and ``("y", "x")`` returns one number per slice. By default, all axes except time. ``"c"`` alone
        reduces the channels of each voxel, and ``"t"`` alone the time points; in these cases, the
        result is a volume of any size.
    labels : Volume or numpy.ndarray, optional
        Labels with the same shape, bool or integers from 0, to measure each label separately, as in
        `scipy.ndimage`.
    index : int or array_like of int, optional
        The labels to measure, in any order; 0 is the background. The result is an array of this shape.
        Missing labels are NaN, or 0 for integers. By default, all labels are measured together.
    mask : Volume, optional
        Only voxels with a nonzero mask are included; all voxels by default.
    nan : {"raise", "omit"}, default: "raise"
        Whether NaN and infinite voxels raise an error on computation or are ignored.
    across : {"t"}, optional
        Compute one number for all time points, as in ``v > bv.mean(v, across="t")``. By default, each
        time point has its own number. A volume without a time axis has one number in both cases.

    Returns
    -------
    Scalar
        The lazy mean, rounded once, with the dtype of `numpy.mean`. With ``axis``, a lazy array with the
        remaining axes; lines without included voxels are NaN.

    Raises
    ------
    ValueError
        If a parameter is out of range. On computation, if an included voxel is NaN or infinite and
        ``nan="raise"``, or no voxel is included.
    TypeError
        If ``volume`` is neither a volume nor an array.

    See Also
    --------
    uniform_filter : computes the mean around each voxel.

    Notes
    -----
    One sweep.

    With ``axis``, the lazy array is limited to 256 MiB.

    Partial results of slabs are merged exactly, so the result is the same, bit for bit, for any
    division into slabs.

    References
    ----------
    `numpy.mean`.

    Examples
    --------
    >>> float(bv.mean(bv.open(np.array([[3, 1, 2]]))))
    2.0
    """

def mean_squared_error(
    a: Volume,
    b: Volume,
    *,
    mask: Volume | None = None,
    nan: str = 'raise',
    across: str | None = None,
) -> Scalar:
    """Compute the mean of the squared differences of two volumes.

    Parameters
    ----------
    a : Volume or numpy.ndarray
        The first volume.
    b : Volume or numpy.ndarray
        The second volume, with the same shape and axes. Different dtypes are promoted as in numpy.
    mask : Volume, optional
        Only voxels with a nonzero mask are included; all voxels by default.
    nan : {"raise", "omit"}, default: "raise"
        Whether voxels that are NaN or infinite in ``a`` or ``b`` raise an error on computation or are
        ignored in both.
    across : {"t"}, optional
        Compute one number for all time points, as in ``v > bv.mean(v, across="t")``. By default, each
        time point has its own number. A volume without a time axis has one number in both cases.

    Returns
    -------
    Scalar
        The lazy float64 number. Differences are float32 if both volumes are float16 or float32, and
        float64 otherwise.

    Raises
    ------
    ValueError
        If the shapes or axes of the volumes differ, or a parameter is out of range. On computation, if
        an included voxel is NaN or infinite and ``nan="raise"``, or no voxel is included.
    TypeError
        If ``a`` or ``b`` is neither a volume nor an array.

    See Also
    --------
    normalized_root_mse : its root, relative to the first volume.
    peak_signal_noise_ratio : compares it with the range of the voxels.

    Notes
    -----
    One sweep, which reads both volumes.

    Partial results of slabs are merged exactly, so the result is the same, bit for bit, for any
    division into slabs.

    References
    ----------
    `skimage.metrics.mean_squared_error`.

    Examples
    --------
    >>> image = np.array([[10, 20, 30]], "u1")
    >>> float(bv.mean_squared_error(image, image + 2))
    4.0
    """

def median(
    volume: Volume,
    axis: Axis = None,
    *,
    labels: Volume | None = None,
    index: ArrayLike | None = None,
    mask: Volume | None = None,
    nan: str = 'raise',
    across: str | None = None,
) -> Scalar:
    """Compute the exact median of all voxels, or of each line along some axes.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    axis : int, str or sequence of them, optional
        The axes to reduce: numbers as in numpy, or names. For example, ``"z"`` is a projection along z,
        and ``("y", "x")`` returns one number per slice. By default, all axes except time. ``"c"`` alone
        reduces the channels of each voxel, and ``"t"`` alone the time points; in these cases, the
        result is a volume of any size.
    labels : Volume or numpy.ndarray, optional
        Labels with the same shape, bool or integers from 0, to measure each label separately, as in
        `scipy.ndimage`.
    index : int or array_like of int, optional
        The labels to measure, in any order; 0 is the background. The result is an array of this shape.
        Missing labels are NaN, or 0 for integers. By default, all labels are measured together.
    mask : Volume, optional
        Only voxels with a nonzero mask are included; all voxels by default.
    nan : {"raise", "omit"}, default: "raise"
        Whether NaN and infinite voxels raise an error on computation or are ignored.
    across : {"t"}, optional
        Compute one number for all time points, as in ``v > bv.mean(v, across="t")``. By default, each
        time point has its own number. A volume without a time axis has one number in both cases.

    Returns
    -------
    Scalar
        The lazy number. With ``axis``, a lazy array with the remaining axes; lines without included
        voxels are NaN.

    Raises
    ------
    ValueError
        If a parameter is out of range. On computation, if an included voxel is NaN or infinite and
        ``nan="raise"``, or no voxel is included.
    TypeError
        If ``volume`` is neither a volume nor an array.

    See Also
    --------
    percentile : computes other percentiles, with the same sweeps.
    median_filter : computes medians around each voxel.

    Notes
    -----
    The median of an even number of voxels is the mean of the middle two, as in numpy. One sweep for
    dtypes of up to 16 bits, two for 32 bits and four for 64. Medians of labels need one sweep and
    integers of up to 16 bits, because the values of each label are counted.

    References
    ----------
    `numpy.median`, `scipy.ndimage.median`.

    Examples
    --------
    >>> v = bv.open(np.array([[1, 2, 4], [3, 9, 9]]))
    >>> float(bv.median(v)), np.asarray(bv.median(v, axis="x")).tolist()
    (3.5, [2.0, 9.0])
    """

def median_filter(
    volume: Volume,
    size: int | Sequence[int] | None = None,
    footprint: ArrayLike | None = None,
    *,
    mode: str | Sequence[str] = 'reflect',
    cval: float = 0.0,
    origin: int | Sequence[int] = 0,
    axes: int | Sequence[int] | None = None,
) -> Volume:
    """Compute the median over a box or footprint around each voxel.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    size : int or sequence of int, optional
        Extent of the box in voxels; one value for all axes or one per axis. Pass either ``size`` or
        ``footprint``.
    footprint : array_like of bool, optional
        The footprint, with one dimension per axis, such as from `ball`.
    mode : str or sequence of str, default: "reflect"
        How to extend the volume beyond its edges, as in `scipy.ndimage`; one mode for all axes or one
        per axis. ``"reflect"`` and ``"grid-mirror"`` repeat the outer voxel (c b a | a b c d | d c b), and
        ``"mirror"`` does not (d c b | a b c d | c b a). ``"nearest"`` extends it (a a a | a b c d | d d
        d), ``"constant"`` and ``"grid-constant"`` use ``cval``, and ``"wrap"`` and ``"grid-wrap"``
        repeat the volume (b c d | a b c d | a b c).
    cval : float, default: 0.0
        The value beyond the edges if ``mode`` is ``"constant"`` or ``"grid-constant"``.
    origin : int or sequence of int, default: 0
        Shift of the footprint in voxels, as in `scipy.ndimage`: a positive number moves it towards
        lower indices. One value for all axes or one per axis.
    axes : int or sequence of int, optional
        Axes to work along, counted from 0, or backwards from -1; all axes by default.

    Returns
    -------
    Volume
        A volume of the input's dtype. The result is NaN exactly where the footprint contains a NaN.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis. If not exactly one of
        ``size`` and ``footprint`` is given, or the volume's dtype cannot hold ``cval``.
    TypeError
        If ``volume`` is neither a volume nor an array, or a parameter has a wrong type.

    See Also
    --------
    percentile_filter : computes another percentile.

    Notes
    -----
    The result is identical to scipy's. A box of 3 x 3 x 3 uses a pruned sorting network. For larger
    boxes, the time is almost independent of the size; for other footprints, it is proportional to
    the number of voxels.

    One sweep. The halo is the reach of the footprint: along each axis, a slab reads ``size - 1`` more
    voxels than it writes. A window contains the same number of additional slices.

    References
    ----------
    `scipy.ndimage.median_filter`.

    Examples
    --------
    >>> np.asarray(bv.median_filter(bv.open(np.array([[5, 1, 4, 9, 8]])), (1, 3)))
    array([[5, 4, 4, 8, 8]])
    """

def meijering(
    volume: Volume,
    sigmas: float | Sequence[float] = (1, 3, 5, 7, 9),
    alpha: float | None = None,
    black_ridges: bool = True,
    *,
    mode: str | Sequence[str] = 'reflect',
    cval: float = 0.0,
) -> Volume:
    """Measure how similar the neighbourhood of each voxel is to a neurite.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes. Intensities keep their scale, whereas scikit-image
        scales integers to the range from 0 to 1.
    sigmas : float or sequence of float, default: (1, 3, 5, 7, 9)
        Standard deviations in voxels, one for each scale. The result is the maximum over scales.
    alpha : float, optional
        The weight of the other eigenvalues, from -1000 to 1000, which selects long and flat
        structures. By default ``1 / (axes + 1)``, where ``axes`` is the number of axes.
    black_ridges : bool, default: True
        Whether to find dark ridges on a bright background, instead of bright ridges.
    mode : str or sequence of str, default: "reflect"
        How to extend the volume beyond its edges, as in `scipy.ndimage`; one mode for all axes or one
        per axis. ``"reflect"`` and ``"grid-mirror"`` repeat the outer voxel (c b a | a b c d | d c b), and
        ``"mirror"`` does not (d c b | a b c d | c b a). ``"nearest"`` extends it (a a a | a b c d | d d
        d), ``"constant"`` and ``"grid-constant"`` use ``cval``, and ``"wrap"`` and ``"grid-wrap"``
        repeat the volume (b c d | a b c d | a b c).
    cval : float, default: 0.0
        The value beyond the edges if ``mode`` is ``"constant"`` or ``"grid-constant"``.

    Returns
    -------
    Volume
        A volume from 0 to 1: float32 for bool, integers of up to 16 bits, float16 and float32;
        float64 for other dtypes.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis.
    TypeError
        If ``volume`` is neither a volume nor an array, or a parameter has a wrong type.

    See Also
    --------
    frangi : a measure that distinguishes tubes from plates and blobs.
    sato : a measure on the scale of the intensities, in one sweep.

    Notes
    -----
    Two sweeps: each scale is divided by its maximum, without NaN. The halo is about 12 times the
    largest of ``sigmas`` on each side. The measure jumps to 0 where a negative eigenvalue outweighs
    a positive one; in float32, voxels near this limit may differ from scikit-image's.

    References
    ----------
    `skimage.filters.meijering`; E. Meijering et al., "Design and validation of a tool for neurite
    tracing and analysis in fluorescence microscopy images", Cytometry Part A 58 (2004).

    Examples
    --------
    >>> line = np.full((9, 9), 200, "u1")
    >>> line[4] = 20
    >>> np.asarray(bv.meijering(bv.open(line), [1]))[2:7, 4].round(1)
    array([0. , 0.1, 1. , 0.1, 0. ], dtype=float32)
    """

def meshes(
    labels: Volume,
    folder: str | os.PathLike[str],
    *,
    format: str = 'ply',
    step: int = 1,
    simplify: float = 0.0,
) -> Table:
    """Write the surface of each object as a triangle mesh.

    Parameters
    ----------
    labels : Volume or numpy.ndarray
        Stored labels of three axes, bool or integers from 0; 0 is background.
    folder : path
        A folder or bucket for one file per label, such as ``7.ply``. Existing files are replaced on
        computation.
    format : {"ply", "obj", "precomputed"}, default: "ply"
        ``"precomputed"`` is Neuroglancer's legacy format, with coordinates in nanometers if the
        volume has a unit.
    step : int, default: 1
        Number of voxels between vertices: 2 gives a quarter of the triangles. Objects that are too
        small for this use every voxel.
    simplify : float, default: 0.0
        The fraction of triangles to remove where the surface is flattest, below 1: 0.9 keeps about a
        tenth. It needs fast-simplification.

    Returns
    -------
    Table
        A lazy table with ``label``, the numbers of ``vertices`` and ``faces``, and the
        ``surface_area``, computed with the voxel size. Computing the table writes the files.

    Raises
    ------
    ValueError
        If scikit-image (or, with ``simplify``, fast-simplification) is not installed, or a
        parameter is invalid. If the labels are computed instead of stored, or do not have three
        axes. On computation, if an object's box needs more memory than is available.
    TypeError
        If ``labels`` is neither a volume nor an array, or has an unsupported dtype.

    See Also
    --------
    for_each_label : applies other functions to each object.

    Notes
    -----
    One sweep finds the objects' boxes; then each box is read. Vertices are x, y, z positions in the
    unit of the voxel size, including the volume's origin. Surfaces are closed, including at the
    edges of the volume. A worker holds one object's box at a time, and about 50 bytes for each of
    its voxels. Simplified surfaces are also closed, but thin parts may touch. Simplified surfaces
    depend on the version of fast-simplification.

    References
    ----------
    `skimage.measure.marching_cubes`: T. Lewiner, H. Lopes, A. W. Vieira and G. Tavares, "Efficient
    implementation of Marching Cubes' cases with topological guarantees", Journal of Graphics
    Tools 8, 2003; M. Garland and P. S. Heckbert, "Surface simplification using quadric error
    metrics", SIGGRAPH 1997, by fast-simplification.

    Examples
    --------
    >>> labels = np.zeros((4, 5, 6), "u1")
    >>> labels[1:3, 1:4, 2:4] = 7
    >>> bv.meshes(labels, "surfaces").to_pyarrow().to_pydict()["label"]
    [7]
    >>> open("surfaces/7.ply", "rb").readline()
    b'ply\\n'
    """

def min(
    volume: Volume,
    axis: Axis = None,
    *,
    labels: Volume | None = None,
    index: ArrayLike | None = None,
    mask: Volume | None = None,
    nan: str = 'raise',
    across: str | None = None,
) -> Scalar:
    """Find the smallest voxel, or the smallest of each line along some axes.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    axis : int, str or sequence of them, optional
        The axes to reduce: numbers as in numpy, or names. For example, ``"z"`` is a projection along z,
        and ``("y", "x")`` returns one number per slice. By default, all axes except time. ``"c"`` alone
        reduces the channels of each voxel, and ``"t"`` alone the time points; in these cases, the
        result is a volume of any size.
    labels : Volume or numpy.ndarray, optional
        Labels with the same shape, bool or integers from 0, to measure each label separately, as in
        `scipy.ndimage`.
    index : int or array_like of int, optional
        The labels to measure, in any order; 0 is the background. The result is an array of this shape.
        Missing labels are NaN, or 0 for integers. By default, all labels are measured together.
    mask : Volume, optional
        Only voxels with a nonzero mask are included; all voxels by default.
    nan : {"raise", "omit"}, default: "raise"
        Whether NaN and infinite voxels raise an error on computation or are ignored.
    across : {"t"}, optional
        Compute one number for all time points, as in ``v > bv.mean(v, across="t")``. By default, each
        time point has its own number. A volume without a time axis has one number in both cases.

    Returns
    -------
    Scalar
        The lazy number in the volume's dtype. With ``axis``, a lazy array with the remaining axes; lines
        without included voxels are NaN, or an error for integers.

    Raises
    ------
    ValueError
        If a parameter is out of range. On computation, if an included voxel is NaN or infinite and
        ``nan="raise"``, or no voxel is included.
    TypeError
        If ``volume`` is neither a volume nor an array.

    See Also
    --------
    minimum_position : finds its position.
    minimum_filter : computes the smallest voxel around each voxel.

    Notes
    -----
    One sweep.

    With ``axis``, the lazy array is limited to 256 MiB.

    Partial results of slabs are merged exactly, so the result is the same, bit for bit, for any
    division into slabs.

    References
    ----------
    `numpy.min`.

    Examples
    --------
    >>> v = bv.open(np.array([[3, 1, 2], [7, 8, 9]]))
    >>> int(bv.min(v)), np.asarray(bv.min(v, axis="y")), np.asarray(bv.min(v, axis=1))
    (1, array([3, 1, 2]), array([1, 7]))
    """

def minimum_filter(
    volume: Volume,
    size: int | Sequence[int] | None = None,
    footprint: ArrayLike | None = None,
    *,
    mode: str | Sequence[str] = 'reflect',
    cval: float = 0.0,
    origin: int | Sequence[int] = 0,
    axes: int | Sequence[int] | None = None,
) -> Volume:
    """Compute the minimum over a box or footprint around each voxel.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    size : int or sequence of int, optional
        Extent of the box in voxels; one value for all axes or one per axis. Pass either ``size`` or
        ``footprint``.
    footprint : array_like of bool, optional
        The footprint, with one dimension per axis, such as from `ball`.
    mode : str or sequence of str, default: "reflect"
        How to extend the volume beyond its edges, as in `scipy.ndimage`; one mode for all axes or one
        per axis. ``"reflect"`` and ``"grid-mirror"`` repeat the outer voxel (c b a | a b c d | d c b), and
        ``"mirror"`` does not (d c b | a b c d | c b a). ``"nearest"`` extends it (a a a | a b c d | d d
        d), ``"constant"`` and ``"grid-constant"`` use ``cval``, and ``"wrap"`` and ``"grid-wrap"``
        repeat the volume (b c d | a b c d | a b c).
    cval : float, default: 0.0
        The value beyond the edges if ``mode`` is ``"constant"`` or ``"grid-constant"``.
    origin : int or sequence of int, default: 0
        Shift of the footprint in voxels, as in `scipy.ndimage`: a positive number moves it towards
        lower indices. One value for all axes or one per axis.
    axes : int or sequence of int, optional
        Axes to work along, counted from 0, or backwards from -1; all axes by default.

    Returns
    -------
    Volume
        A volume of the input's dtype. The result is NaN exactly where the footprint contains a NaN.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis. If not exactly one of
        ``size`` and ``footprint`` is given, or the volume's dtype cannot hold ``cval``.
    TypeError
        If ``volume`` is neither a volume nor an array, or a parameter has a wrong type.

    See Also
    --------
    minimum_filter1d : filters along one axis.
    grey_erosion : supports structuring elements that are not flat.

    Notes
    -----
    The result is identical to scipy's. For a box the time is independent of its size.

    One sweep. The halo is the reach of the footprint: along each axis, a slab reads ``size - 1`` more
    voxels than it writes. A window contains the same number of additional slices.

    References
    ----------
    `scipy.ndimage.minimum_filter`.

    Examples
    --------
    >>> np.asarray(bv.minimum_filter(bv.open(np.array([[5, 1, 4, 9, 8]])), (1, 3)))
    array([[1, 1, 1, 4, 8]])
    """

def minimum_filter1d(
    volume: Volume,
    size: int,
    axis: int = -1,
    *,
    mode: str = 'reflect',
    cval: float = 0.0,
    origin: int = 0,
) -> Volume:
    """Compute the minimum along one axis around each voxel.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    size : int
        Number of voxels.
    axis : int, default: -1
        The axis to work along, counted from 0, or backwards from -1.
    mode : str, default: "reflect"
        How to extend the volume beyond its edges, as in `scipy.ndimage`.
        ``"reflect"`` and ``"grid-mirror"`` repeat the outer voxel (c b a | a b c d | d c b), and
        ``"mirror"`` does not (d c b | a b c d | c b a). ``"nearest"`` extends it (a a a | a b c d | d d
        d), ``"constant"`` and ``"grid-constant"`` use ``cval``, and ``"wrap"`` and ``"grid-wrap"``
        repeat the volume (b c d | a b c d | a b c).
    cval : float, default: 0.0
        The value beyond the edges if ``mode`` is ``"constant"`` or ``"grid-constant"``.
    origin : int, default: 0
        Shift of the footprint in voxels, as in `scipy.ndimage`: a positive number moves it towards
        lower indices.

    Returns
    -------
    Volume
        A volume of the input's dtype. The result is NaN exactly where the footprint contains a NaN.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis. If not exactly one of
        ``size`` and ``footprint`` is given, or the volume's dtype cannot hold ``cval``.
    TypeError
        If ``volume`` is neither a volume nor an array, or a parameter has a wrong type.

    See Also
    --------
    minimum_filter : filters over a box or footprint.

    Notes
    -----
    The result is identical to scipy's; the time is independent of ``size``.

    One sweep. The halo along the axis is ``size - 1`` voxels in total.

    References
    ----------
    `scipy.ndimage.minimum_filter1d`.

    Examples
    --------
    >>> np.asarray(bv.minimum_filter1d(bv.open(np.array([[5, 1, 4, 9, 8]])), 3))
    array([[1, 1, 1, 4, 8]])
    """

def minimum_position(
    volume: Volume,
    labels: Volume | None = None,
    index: ArrayLike | None = None,
    *,
    mask: Volume | None = None,
    nan: str = 'raise',
) -> Scalar:
    """Find the position of the smallest voxel, the first in raster order.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    labels : Volume or numpy.ndarray, optional
        Labels with the same shape, bool or integers from 0, to measure each label separately, as in
        `scipy.ndimage`.
    index : int or array_like of int, optional
        The labels to measure, in any order; 0 is the background. The result is an array of this shape.
        Missing labels are NaN, or 0 for integers. By default, all labels are measured together.
    mask : Volume, optional
        Only voxels with a nonzero mask are included; all voxels by default.
    nan : {"raise", "omit"}, default: "raise"
        Whether NaN and infinite voxels raise an error on computation or are ignored.

    Returns
    -------
    Scalar
        A lazy int64 array, an index for each axis.

    Raises
    ------
    ValueError
        If a parameter is out of range. On computation, if an included voxel is NaN or infinite and
        ``nan="raise"``, or no voxel is included.
    TypeError
        If ``volume`` is neither a volume nor an array.

    See Also
    --------
    min : computes the smallest voxel.

    Notes
    -----
    One sweep.

    Partial results of slabs are merged exactly, so the result is the same, bit for bit, for any
    division into slabs.

    References
    ----------
    `scipy.ndimage.minimum_position`.

    Examples
    --------
    >>> np.asarray(bv.minimum_position(bv.open(np.array([[3, 1], [1, 2]]))))
    array([0, 1])
    """

def morphological_gradient(
    volume: Volume,
    size: int | Sequence[int] | None = None,
    footprint: ArrayLike | None = None,
    structure: ArrayLike | None = None,
    *,
    mode: str | Sequence[str] = 'reflect',
    cval: float = 0.0,
    origin: int | Sequence[int] = 0,
    axes: int | Sequence[int] | None = None,
) -> Volume:
    """Subtract the erosion from the dilation.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    size : int or sequence of int, optional
        Extent of a box in voxels, which is used as a flat structuring element; one value for all axes
        or one per axis. Pass ``size``, ``footprint`` or ``structure``.
    footprint : array_like of bool, optional
        The footprint, with one dimension per axis, such as from `ball`.
    structure : array_like of float, optional
        Heights of a structuring element that is not flat, with one dimension per axis. Heights outside
        of ``footprint`` are ignored.
    mode : str or sequence of str, default: "reflect"
        How to extend the volume beyond its edges, as in `scipy.ndimage`; one mode for all axes or one
        per axis. ``"reflect"`` and ``"grid-mirror"`` repeat the outer voxel (c b a | a b c d | d c b), and
        ``"mirror"`` does not (d c b | a b c d | c b a). ``"nearest"`` extends it (a a a | a b c d | d d
        d), ``"constant"`` and ``"grid-constant"`` use ``cval``, and ``"wrap"`` and ``"grid-wrap"``
        repeat the volume (b c d | a b c d | a b c).
    cval : float, default: 0.0
        The value beyond the edges if ``mode`` is ``"constant"`` or ``"grid-constant"``.
    origin : int or sequence of int, default: 0
        Shift of the footprint in voxels, as in `scipy.ndimage`: a positive number moves it towards
        lower indices. One value for all axes or one per axis.
    axes : int or sequence of int, optional
        Axes to work along, counted from 0, or backwards from -1; all axes by default.

    Returns
    -------
    Volume
        A volume of the input's dtype. The result is NaN exactly where the footprint contains a NaN.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis. If ``size``,
        ``footprint`` and ``structure`` are all missing, or the volume's dtype cannot hold ``cval``. If
        ``structure`` is combined with several modes, or with a footprint of a different shape.
    TypeError
        If ``volume`` is neither a volume nor an array, or a parameter has a wrong type.

    See Also
    --------
    gaussian_gradient_magnitude : computes a smooth gradient.

    Notes
    -----
    The result is identical to scipy's. For a box the time is independent of its size. As in numpy,
    differences that do not fit an integer dtype wrap around; to avoid this, cast the volume to a
    wider dtype first.

    One sweep. The halo is the reach of the footprint: along each axis, a slab reads ``size - 1`` more
    voxels than it writes. A window contains the same number of additional slices.

    References
    ----------
    `scipy.ndimage.morphological_gradient`.

    Examples
    --------
    >>> np.asarray(bv.morphological_gradient(bv.open(np.array([[1, 1, 5, 5, 5]])), (1, 3)))
    array([[0, 4, 4, 0, 0]])
    """

def morphological_laplace(
    volume: Volume,
    size: int | Sequence[int] | None = None,
    footprint: ArrayLike | None = None,
    structure: ArrayLike | None = None,
    *,
    mode: str | Sequence[str] = 'reflect',
    cval: float = 0.0,
    origin: int | Sequence[int] = 0,
    axes: int | Sequence[int] | None = None,
) -> Volume:
    """Add the dilation and the erosion, and subtract the volume twice.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    size : int or sequence of int, optional
        Extent of a box in voxels, which is used as a flat structuring element; one value for all axes
        or one per axis. Pass ``size``, ``footprint`` or ``structure``.
    footprint : array_like of bool, optional
        The footprint, with one dimension per axis, such as from `ball`.
    structure : array_like of float, optional
        Heights of a structuring element that is not flat, with one dimension per axis. Heights outside
        of ``footprint`` are ignored.
    mode : str or sequence of str, default: "reflect"
        How to extend the volume beyond its edges, as in `scipy.ndimage`; one mode for all axes or one
        per axis. ``"reflect"`` and ``"grid-mirror"`` repeat the outer voxel (c b a | a b c d | d c b), and
        ``"mirror"`` does not (d c b | a b c d | c b a). ``"nearest"`` extends it (a a a | a b c d | d d
        d), ``"constant"`` and ``"grid-constant"`` use ``cval``, and ``"wrap"`` and ``"grid-wrap"``
        repeat the volume (b c d | a b c d | a b c).
    cval : float, default: 0.0
        The value beyond the edges if ``mode`` is ``"constant"`` or ``"grid-constant"``.
    origin : int or sequence of int, default: 0
        Shift of the footprint in voxels, as in `scipy.ndimage`: a positive number moves it towards
        lower indices. One value for all axes or one per axis.
    axes : int or sequence of int, optional
        Axes to work along, counted from 0, or backwards from -1; all axes by default.

    Returns
    -------
    Volume
        A volume of the input's dtype. The result is NaN exactly where the footprint contains a NaN.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis. If ``size``,
        ``footprint`` and ``structure`` are all missing, or the volume's dtype cannot hold ``cval``. If
        ``structure`` is combined with several modes, or with a footprint of a different shape.
    TypeError
        If ``volume`` is neither a volume nor an array, or a parameter has a wrong type.

    See Also
    --------
    laplace : sums second differences.

    Notes
    -----
    The result is identical to scipy's. For a box the time is independent of its size. As in numpy,
    differences that do not fit an integer dtype wrap around; to avoid this, cast the volume to a
    wider dtype first.

    One sweep. The halo is the reach of the footprint: along each axis, a slab reads ``size - 1`` more
    voxels than it writes. A window contains the same number of additional slices.

    References
    ----------
    `scipy.ndimage.morphological_laplace`.

    Examples
    --------
    >>> np.asarray(bv.morphological_laplace(bv.open(np.array([[1, 1, 5, 5, 5]])), (1, 3)))
    array([[ 0,  4, -4,  0,  0]])
    """

def n4_bias_field_correction(
    volume: Volume,
    shrink_factor: int | Sequence[int] = 4,
    *,
    mask: Volume | None = None,
    maximum_number_of_iterations: Sequence[int] = (50, 50, 50, 50),
    convergence_threshold: float = 0.001,
    bias_field_full_width_at_half_maximum: float = 0.15,
    wiener_filter_noise: float = 0.01,
    number_of_histogram_bins: int = 200,
    number_of_control_points: int | Sequence[int] = 4,
    return_bias_field: bool = False,
) -> Volume:
    """Correct uneven brightness with the N4 algorithm.

    Use it for smooth shading of a whole volume, such as the bias of an MRI coil or of a light sheet.
    The bias is a smooth factor. N4 selects the one that makes the histogram of intensities sharp.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    shrink_factor : int or sequence of int, default: 4
        The field is fitted to one voxel of each window of this size; one value for all axes or one
        per axis.
    mask : Volume, optional
        Only voxels with a nonzero mask are included; all voxels by default.
        Select the tissue without background. All other voxels are corrected as well.
    maximum_number_of_iterations : sequence of int, default: (50, 50, 50, 50)
        The maximum number of iterations at each level. Each level has half the distance of control
        points of the level before.
    convergence_threshold : float, default: 0.001
        A level ends when the factors of an iteration have a smaller coefficient of variation.
    bias_field_full_width_at_half_maximum : float, default: 0.15
        The width of the histogram of the bias, as a natural logarithm of the intensity.
    wiener_filter_noise : float, default: 0.01
        The noise of the Wiener filter that deconvolves the histogram.
    number_of_histogram_bins : int, default: 200
        The number of bins of the histogram, at least 2.
    number_of_control_points : int or sequence of int, default: 4
        The number of control points of the first level, at least 4; one value for all axes or one
        per axis.
    return_bias_field : bool, default: False
        Return the bias field instead of the corrected volume.

    Returns
    -------
    Volume
        The volume divided by its bias field. The field is float32, and float64 for a float64 volume.
        The result has the dtype of numpy's division.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis. If the volume has no
        voxels, the shape of ``mask`` differs, or the downsampled volume has more than four million
        voxels.
    TypeError
        If an input is neither a volume nor an array, or a parameter has a wrong type.

    See Also
    --------
    fit_bias : fits a polynomial to each slice.
    rolling_ball : finds a background to subtract.

    Notes
    -----
    Two sweeps: the first reads the downsampled volume, and the second computes the result. The
    field is fitted between them, in one thread, with about 120 bytes per downsampled voxel. The
    second sweep evaluates the field at each voxel.

    Voxels that are 0, negative, NaN or infinite are not included in the fit. Without included
    voxels, the field is 1. Fields are scaled, so that their geometric mean over included voxels is
    1. Each channel and each time point has its own field.

    References
    ----------
    ``N4BiasFieldCorrection`` of SimpleITK; N. J. Tustison et al., "N4ITK: improved N3 bias
    correction", IEEE Trans. Medical Imaging 29 (2010); S. Lee, G. Wolberg, S. Y. Shin, "Scattered
    data interpolation with multilevel B-splines", IEEE Trans. Visualization and Computer Graphics 3
    (1997).

    Examples
    --------
    >>> tissue = np.where(np.indices((8, 32, 32)).sum(0) // 8 % 2, 100.0, 200.0)
    >>> shading = np.linspace(0.8, 1.2, 32)
    >>> v = bv.open(tissue * shading)
    >>> even = np.asarray(bv.n4_bias_field_correction(v, shrink_factor=2))
    >>> bright = tissue == 200
    >>> float((even[bright].std() / even[bright].mean()).round(2))
    0.0
    """

def normalize_slices(
    volume: Volume,
    axis: int | str = 'z',
    *,
    mean: Any = None,
    std: Any = None,
    percentiles: Sequence[float] | None = None,
    out_range: Any = 'dtype',
    mask: Volume | None = None,
    nan: str = 'raise',
    dtype: DTypeLike | None = None,
) -> Volume:
    """Normalize all slices to the same mean and standard deviation, or to the same range of percentiles.

    Use it for stacks with brightness and contrast that vary from slice to slice.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    axis : int or str, default: "z"
        The axis across slices, a number or name.
    mean : float or Scalar, optional
        The desired mean, a number or a lazy number such as ``bv.mean(volume[0])``; the mean of the
        volume by default.
    std : float or Scalar, optional
        The desired standard deviation; the standard deviation of the volume by default.
    percentiles : pair of float, optional
        Percentiles to normalize, such as ``(1, 99)``, instead of the mean and standard deviation.
        Each slice is clipped to its percentiles, which are mapped to the ends of ``out_range``.
    out_range : {"dtype", "image"}, dtype or pair, default: "dtype"
        The range of the result with ``percentiles``. ``"dtype"`` is the range of an integer dtype,
        without negative numbers if no slice has a percentile below 0. For floats, the range is 0 to
        1 under the same condition, otherwise -1 to 1. ``"image"`` is from the smallest to the
        largest voxel of the volume.
    mask : Volume, optional
        Only voxels with a nonzero mask are included; all voxels by default.
        All voxels are changed, including voxels outside of the mask.
    nan : {"raise", "omit"}, default: "raise"
        Whether NaN and infinite voxels raise an error on computation or are ignored.
    dtype : dtype, optional
        Dtype of the result. Integers are rounded half to even and clipped to the dtype's range.

    Returns
    -------
    Volume
        Without ``percentiles``, ``(x - m) * (std / s) + mean`` for a slice with mean m and standard
        deviation s. The dtype is float32 (float64 for wide dtypes); computation is in float64. A
        constant slice (s = 0) is only shifted. With ``percentiles``, a volume of the same dtype as
        from `rescale_intensity`; a slice with equal percentiles is only clipped. A slice without
        included voxels does not change, except for rounding.

    Raises
    ------
    ValueError
        If the axis does not exist, the volume has only one axis, or a parameter is out of range. On
        computation, if an included voxel is NaN or infinite and ``nan="raise"``, or no voxel is
        included.
    TypeError
        If ``volume`` is neither a volume nor an array, ``percentiles`` are combined with ``mean`` or
        ``std``, or ``out_range`` is given without them.

    See Also
    --------
    rescale_intensity : does the same for the whole volume.

    Notes
    -----
    Two sweeps: the first computes exact statistics of all slices, and the second writes the result.
    For percentiles of large slices, there is one sweep for each 8 bits of the dtype instead of the
    first sweep.

    References
    ----------
    The formula is the z-score of each slice; percentiles as in
    `skimage.exposure.rescale_intensity`.

    Examples
    --------
    >>> v = bv.open(np.array([[[1, 3]], [[10, 30]]], "u1"))
    >>> np.asarray(bv.normalize_slices(v, mean=100, std=20))
    array([[[ 80., 120.]],
    <BLANKLINE>
           [[ 80., 120.]]], dtype=float32)
    >>> np.asarray(bv.normalize_slices(v, percentiles=(0, 100)))
    array([[[  0, 255]],
    <BLANKLINE>
           [[  0, 255]]], dtype=uint8)
    """

def normalized_mutual_information(
    a: Volume,
    b: Volume,
    *,
    bins: int | Sequence[int] = 100,
    mask: Volume | None = None,
    nan: str = 'raise',
    across: str | None = None,
) -> Scalar:
    """Compute the normalized mutual information of two images from their joint histogram.

    It is ``(H(a) + H(b)) / H(a, b)`` with the entropies H: from 1 for independent images to 2 for
    images that determine each other. It compares images of different modalities.

    Parameters
    ----------
    a : Volume or numpy.ndarray
        The first volume.
    b : Volume or numpy.ndarray
        The second volume, with the same shape and axes. Different dtypes are promoted as in numpy.
    bins : int or pair of int, default: 100
        Number of equal bins for the values of ``a`` and of ``b``.
    mask : Volume, optional
        Only voxels with a nonzero mask are included; all voxels by default.
    nan : {"raise", "omit"}, default: "raise"
        Whether voxels that are NaN or infinite in ``a`` or ``b`` raise an error on computation or are
        ignored in both.
    across : {"t"}, optional
        Compute one number for all time points, as in ``v > bv.mean(v, across="t")``. By default, each
        time point has its own number. A volume without a time axis has one number in both cases.

    Returns
    -------
    Scalar
        The lazy float64 number; NaN if both images are constant.

    Raises
    ------
    ValueError
        If the shapes or axes of the volumes differ, or a parameter is out of range. On computation, if
        an included voxel is NaN or infinite and ``nan="raise"``, or no voxel is included.
    TypeError
        If ``a`` or ``b`` is neither a volume nor an array.

    See Also
    --------
    joint_histogram : the counts of pairs of values.
    correlation : compares images of one modality.

    Notes
    -----
    Two sweeps, which read both volumes: the ranges and the histogram. Values are compared with the
    edges of bins as float64. Subtract ``bv.min(v)`` from a volume of integers beyond 2**53.

    Partial results of slabs are merged exactly, so the result is the same, bit for bit, for any
    division into slabs.

    References
    ----------
    `skimage.metrics.normalized_mutual_information`. Studholme, C., Hill, D. L. G., & Hawkes, D. J.
    (1999). An overlap invariant entropy measure of 3D medical image alignment. Pattern Recognition,
    32, 71-86.

    Examples
    --------
    >>> image = np.array([[1, 2, 3, 4]], "u1")
    >>> round(float(bv.normalized_mutual_information(image, 255 - image)), 6)
    2.0
    """

def normalized_root_mse(
    image_true: Volume,
    image_test: Volume,
    *,
    normalization: str = 'euclidean',
    mask: Volume | None = None,
    nan: str = 'raise',
    across: str | None = None,
) -> Scalar:
    """Compute the root of the mean squared error, divided by a measure of the true image.

    Parameters
    ----------
    image_true : Volume or numpy.ndarray
        The true image.
    image_test : Volume or numpy.ndarray
        The image to compare, with the same shape and axes.
    normalization : {"euclidean", "min-max", "mean"}, default: "euclidean"
        The divisor: the root of the mean square of the true image, its range, or its mean.
    mask : Volume, optional
        Only voxels with a nonzero mask are included; all voxels by default.
    nan : {"raise", "omit"}, default: "raise"
        Whether voxels that are NaN or infinite in ``a`` or ``b`` raise an error on computation or are
        ignored in both.
    across : {"t"}, optional
        Compute one number for all time points, as in ``v > bv.mean(v, across="t")``. By default, each
        time point has its own number. A volume without a time axis has one number in both cases.

    Returns
    -------
    Scalar
        The lazy float64 number; NaN or infinite if the divisor is 0.

    Raises
    ------
    ValueError
        If the shapes or axes of the volumes differ, or a parameter is out of range. On computation, if
        an included voxel is NaN or infinite and ``nan="raise"``, or no voxel is included.
    TypeError
        If ``a`` or ``b`` is neither a volume nor an array.

    See Also
    --------
    mean_squared_error : without root and divisor.

    Notes
    -----
    One sweep, which reads both volumes.

    Partial results of slabs are merged exactly, so the result is the same, bit for bit, for any
    division into slabs.

    References
    ----------
    `skimage.metrics.normalized_root_mse`.

    Examples
    --------
    >>> image = np.array([[3, 4]], "u1")
    >>> float(bv.normalized_root_mse(image, image + 1, normalization="min-max"))
    1.0
    """

def open(
    path: Any,
    *,
    voxel_size: float | Sequence[float] | None = None,
    unit: str | None = None,
    origin: float | Sequence[float] | None = None,
    axes: str | Sequence[str] | None = None,
    index: dict[str, int | str] | None = None,
    dataset: str | None = None,
    level: int | None = None,
    mpp: float | None = None,
    **options: Any,
) -> Volume:
    """Open a volume lazily: only metadata is read.

    Parameters
    ----------
    path : str, os.PathLike, dict, array_like, Scalar or list
        A local path, a ``s3://``, ``gs://`` or ``https://`` URL, or a TensorStore spec.
        Alternatively, an array with 2 to 5 dimensions, which are the last of t, c, z, y, x. Arrays
        of numpy, h5py, zarr, dask, xarray and other libraries with slicing are accepted. Lazy
        arrays such as the projection ``bv.max(v, axis="z")`` are accepted as well; their axes are
        the last of c, z, y, x, unless ``axes`` specifies them. A list or glob is opened as one
        volume, concatenated along z. A path may begin with the name of its format, as in
        ``"precomputed://gs://bucket/em"``. Supported formats are
        files of bioio's plugins; OME-Zarr; zarr in a zip file; zarr (v2, v3); N5; neuroglancer
        precomputed; DICOM; a TIFF file; ND2; CZI; a directory or glob of PNG, JPEG or TIFF
        slices; HDF5; a .npy file; NIfTI; NRRD; MetaImage; MRC; or raw binary.
    voxel_size : float or sequence of float, optional
        Extent of a voxel in ``unit``, one value for all axes or one per axis; taken from the
        metadata by default.
    unit : str, optional
        Unit of length, such as ``"nm"`` or ``"micrometer"``; taken from the metadata by default.
    origin : float or sequence of float, optional
        Position of the first voxel's centre in ``unit``, one number for all axes or one per axis;
        taken from the metadata by default.
    axes : str or sequence of str, optional
        The axes, if a file does not specify them or specifies them incorrectly. Pass a letter from
        t, c, z, y, x for each axis, in stored order. ``"tyx"`` opens a stack of frames as a movie,
        and ``"xyz"`` an array with x as its first axis. Axes of extent 1 remain if they are listed,
        even if a file does not store them. By default, arrays keep axes t and c of extent 1, and
        most files drop them.
    index : dict, optional
        The time point to open, and optionally a single channel, such as ``{"t": 0, "c": "DAPI"}``.
    dataset : str, optional
        Path of the array or image inside a group, or number or UID of a DICOM series.
    level : int, optional
        Level of a pyramid; by default 0, the finest.
    mpp : float, optional
        Micrometers per pixel, instead of ``level``. The coarsest level with pixels of at most this
        size is opened, with a tolerance of 5 %.
    **options : options
        Options that only some formats support.
        ``reader`` : ``"bioio"``. Open a file with bioio and its plugins, such as
        bioio-bioformats, one plane at a time. Only for files of bioio's plugins.
        ``missing`` (OME-Zarr, zarr in a zip file, zarr (v2, v3), N5, neuroglancer precomputed) :
        ``"fill"`` (the default) or ``"error"``. Whether missing chunks are read as the fill
        value, or are an error.
        ``missing`` (a TIFF file, a directory or glob of PNG, JPEG or TIFF slices) : ``"error"``
        (the default), ``"repeat"`` or ``"fill"``. Whether missing slices are an error, or are
        replaced with the nearest slice (of two, the previous one) or with zeros.
        ``missing`` (HDF5) : ``"error"`` (the default) or ``"fill"``. Whether missing source files
        of a virtual dataset are an error, or are read as fill values.
        ``affine`` : str. How to open a file with rotated or reversed axes. ``"drop"`` keeps
        voxels as they are stored, with their size but without an origin. ``"reorient"`` orders
        and reverses axes so that positions increase along z, y and x. By default, such a file is
        an error. Only for OME-Zarr, zarr in a zip file, zarr (v2, v3), N5, DICOM, HDF5, NIfTI,
        NRRD, MetaImage.
        ``well`` : str. The well of a plate, e.g. ``"B/3"``. Only for OME-Zarr, zarr in a zip
        file.
        ``field`` : int or str. The image of a well, a number from 0 or a name. Only for OME-Zarr,
        zarr in a zip file.
        ``rescale`` : bool. Whether to scale numbers by slope and intercept (the default), or read
        them as stored. Only for DICOM.
        ``shape`` : sequence of int. The shape of the array: 2 (y, x) to 5 (t, c, z, y, x)
        numbers. Only for raw binary.
        ``dtype`` : str or numpy.dtype. The dtype of its voxels, e.g. ``">u2"`` for big-endian.
        Only for raw binary.
        ``offset`` : int. The position of the first voxel, in bytes; by default, the file contains
        only voxels. Only for raw binary.
        ``order`` : str. The order of voxels: ``"C"`` (the default; the last axis varies fastest)
        or ``"F"`` (the first axis varies fastest). Only for raw binary.

    Returns
    -------
    Volume
        The lazy volume with axes z, y, x or y, x, and with c first if there are several channels.

    Raises
    ------
    FileNotFoundError
        If the path does not exist.
    ValueError
        If the data cannot be read, slices are missing, an axis needs ``index``, ``axes`` do not
        match, or the dtype is not supported.
    TypeError
        If ``path`` has an unsupported type, or no format has a given option.

    Notes
    -----
    Voxels are bool, integers or floats of up to 64 bits.

    Examples
    --------
    >>> bv.open(np.zeros((4, 5, 6), "u1"), voxel_size=(4, 1, 1), unit="nm").shape
    (4, 5, 6)
    >>> bv.open(np.zeros((20, 5, 6), "u1"), axes="tyx").axes
    ('t', 'y', 'x')
    """

def open_tiles(
    source: Any,
    *,
    index: dict[str, int | str] | None = None,
    transform_key: str | None = None,
) -> tuple[list[Volume], np.ndarray]:
    """Open overlapping tiles and read their positions from files of other programs.

    Use it to start from a project of BigStitcher, TeraStitcher or multiview-stitcher, or from the
    tiles of a microscope. Pass the result to `register_tiles` and `fuse`.

    Parameters
    ----------
    source : path, list of paths or table
        An XML file of BigStitcher (SpimData with images in HDF5, N5, OME-Zarr or TIFF) or of
        TeraStitcher. Alternatively, a pattern such as ``"tiles/*.ome.tif"``, a list of paths, an
        OME-TIFF with several images, or an OME-Zarr plate, well or series. In this case, OME-TIFF
        files contain the positions as stage positions, and multiview-stitcher's own zarr files as
        transforms. For all other images, positions are the origins, such as the translations of
        OME-Zarr. Alternatively, a CSV file or a table with a column ``path`` and a column for each
        axis, in voxels.
    index : dict, optional
        The time point and the channel to open, such as ``{"t": 0, "c": "DAPI"}``; needed if there
        are several. For BigStitcher, use the numbers or names of the project.
    transform_key : str, optional
        The name of a multiview-stitcher transform; needed if its files contain several.

    Returns
    -------
    tiles : list of Volume
        The opened tiles.
    transforms : numpy.ndarray
        An array of shape (tiles, axes, axes + 1). The matrix of each tile maps its indices to
        positions in voxels; the last column is the position of the tile. BigStitcher's
        registrations are divided by the calibration, so the fused volume has the voxel size of the
        first tile.

    Raises
    ------
    FileNotFoundError
        If a file does not exist.
    ValueError
        If a file is invalid, refers to files outside of its folder, needs ``index``, or has no
        positions.
    TypeError
        If ``source`` is neither a path, a list of paths nor a table.

    See Also
    --------
    save_transforms : writes transforms for other programs.
    register_tiles : improves the positions.
    fuse : makes one volume of the tiles.

    Notes
    -----
    Only metadata is read. BigStitcher's registrations do not specify their unit of length. The unit
    is determined from the transform called calibration, or from the voxel sizes and their extents
    after registration. Tiles with different voxel sizes are aligned at the corners of their first
    voxels. A TeraStitcher stack with gaps in its ``Z_RANGES`` becomes one tile for each range, and
    a stack with an ``IMG_REGEX`` contains only the matching images. Positions in TIFF files without
    a unit are in micrometers. If a stage axis points in the opposite direction, multiply its column
    of ``transforms[:, :, -1]`` by -1.

    References
    ----------
    D. Hörl et al., "BigStitcher: reconstructing high-resolution image datasets of cleared and
    expanded samples", Nature Methods 16, 2019; A. Bria and G. Iannello, "TeraStitcher", BMC
    Bioinformatics 13, 2012.

    Examples
    --------
    >>> for k, part in enumerate([np.zeros((8, 12), "u1"), np.ones((8, 12), "u1")]):
    ...     tile = bv.open(part, voxel_size=0.5, unit="um", origin=(0, 5 * k))
    ...     _ = bv.compute(tile.to(f"tile-{k}.ome.zarr"))
    >>> tiles, transforms = bv.open_tiles("tile-*.ome.zarr")
    >>> transforms[:, :, -1]
    array([[ 0.,  0.],
           [ 0., 10.]])
    >>> bv.fuse(tiles, transforms).shape
    (8, 22)
    """

def open_transform(
    path: str | os.PathLike[str],
    fixed: Volume,
    moving: Volume,
    *,
    model: str | None = None,
    unit: str | None = None,
    direction: Any = None,
) -> tuple[np.ndarray, Volume | None]:
    """Open a transform of elastix, ITK, SimpleITK, ANTs or BigWarp.

    Use it to apply a registration from a different program to a volume of any size.

    Parameters
    ----------
    path : path
        A parameter file of elastix, an ITK file (``.tfm`` or ``.h5``) or landmarks of BigWarp
        (``.csv``). The content of the file determines its format.
    fixed : Volume or numpy.ndarray
        The volume that was not moved. It can have a different voxel size or be cropped since,
        because transforms map positions. Its voxels are not read.
    moving : Volume or numpy.ndarray
        The volume to align, with the same spatial axes. Its voxels are not read.
    model : {"translation", "rigid", "affine", "thin_plate_spline"}, optional
        How to fit landmarks; ``"affine"`` by default. All models except the spline are least
        squares of all active landmarks.
    unit : str, optional
        The unit of lengths in the file, such as ``"mm"``; the unit of ``fixed`` by default.
    direction : array_like, optional
        The direction of ITK: a matrix with a column for each axis x, y, z, for both volumes or for
        each. By default, the ``Direction`` in a file of elastix for both volumes. Without it, axes
        are not rotated.

    Returns
    -------
    matrix : numpy.ndarray
        A homogeneous matrix for `affine_transform`: it maps indices of ``fixed`` to indices of
        ``moving``, in the order z, y, x.
    displacement : Volume or None
        A lazy float64 volume with the shape of ``fixed`` and a channel for each axis, for `warp`.
        None if the transform is a matrix.

    Raises
    ------
    FileNotFoundError
        If the file does not exist.
    ValueError
        If the file is damaged, has a different number of axes, or contains a transform that is not
        supported. If ``direction`` contradicts the file. If landmarks do not determine the model,
        or a parameter is out of range. If the volumes have different axes or no voxels, or only
        one has a unit.
    TypeError
        If ``fixed`` or ``moving`` is neither a volume nor an array.

    See Also
    --------
    affine_transform, warp : apply the result.
    save_transforms : writes matrices for other programs.
    fit_transform : finds a transform from pairs of points.

    Notes
    -----
    Translations, rotations (Euler angles and versors), similarities, scales, affine maps, B-splines
    and their combinations are supported. ``ScaleVersor3D``, ``ScaleSkewVersor3D`` and
    ``ComposeScaleSkewVersor3D`` of ITK and displacement fields are not supported. This is also true
    of binary files, such as ``0GenericAffine.mat`` of ANTs. Read such a file with SimpleITK, and
    write it as ``.tfm``.

    A file of elastix may refer to an initial transform in the same folder. It contains the
    direction of the fixed image only. If the moving image has a different direction, give
    ``direction`` for each. Either both volumes have a voxel size with a unit, or neither.

    elastix and ITK map positions of ``fixed`` to positions of ``moving``, as does the
    result. The origin of a volume is the centre of its first voxel, as in ITK. For NIfTI, negate
    the origin along y and x first and use ``direction=np.diag([-1, -1, 1])``, because ITK reverses
    these axes.

    A transform with a displacement is applied in two steps: first the matrix, then `warp`. Both
    interpolate, except that a matrix of integers only copies voxels. Voxels of ``moving`` that the
    matrix moves outside of ``fixed`` are not available to `warp`. Pass a padded ``fixed`` to keep
    them.

    Beyond a grid of B-splines, displacements decrease to zero within the support of a spline. ITK
    stops at the edge of the grid instead. Thin-plate splines are evaluated at each voxel and
    landmark: ten landmarks take about as long as a Gaussian filter. Splines are computed in float64
    in the same sweep as `warp`.

    References
    ----------
    S. Klein et al., "elastix: a toolbox for intensity-based medical image registration", IEEE
    Transactions on Medical Imaging 29, 2010; J. A. Bogovic et al., "Robust registration of calcium
    images by learned contrast synthesis", ISBI 2016 (BigWarp); F. L. Bookstein, "Principal warps",
    IEEE Transactions on Pattern Analysis and Machine Intelligence 11, 1989.

    Examples
    --------
    >>> v = bv.open(np.arange(60.0).reshape(3, 4, 5), voxel_size=(2, 1, 1), unit="um")
    >>> moved = np.eye(4)
    >>> moved[:3, 3] = 1, 0, 2
    >>> bv.save_transforms([v, v], moved, "shift.tfm")
    >>> matrix, displacement = bv.open_transform("shift.tfm", v, v)
    >>> matrix[:3, 3], displacement
    (array([1., 0., 2.]), None)
    >>> aligned = bv.affine_transform(v, matrix, output_shape=v.shape).with_space(v)
    """

def outlines(
    labels: Volume,
    *,
    like: Volume | None = None,
) -> Table:
    """Compute the outlines of the regions of a label image.

    Written as GeoJSON, they are polygons that QuPath, GeoPandas and shapely can read.

    Parameters
    ----------
    labels : Volume or numpy.ndarray
        Labels with two axes, y and x, bool or integers from 0; 0 is background.
    like : Volume, optional
        A volume that defines the pixels for the coordinates, such as the finest level of the slide.
        By default, coordinates are in pixels of the labels.

    Returns
    -------
    Table
        A lazy table of the corners of all outlines, sorted by ``label``, then ``y``, then ``x``.
        Coordinates refer to the corners of pixels: the first pixel extends from 0 to 1. ``corner``
        describes the turn as a sum. The sum includes 4 if the outline continues to the right
        instead of the left, and 2 if it continues down instead of up. The sum includes 1 if the
        pixel in between belongs to the label. ``table.to("regions.geojson")`` writes polygons with
        holes: one for each label, or several if its pixels are not connected by sides.

    Raises
    ------
    ValueError
        If the labels have different axes, or ``like`` lacks one of them. On computation, if a label
        is negative, or the corners need more memory than is available.
    TypeError
        If ``labels`` is neither a volume nor an array, or has an unsupported dtype.

    See Also
    --------
    regionprops_table : measures the same regions.
    meshes : computes surfaces of objects in 3-D.

    Notes
    -----
    One sweep; labels from `label` share its second sweep. Corners are independent of slabs. Memory
    grows with the corners of a slab and, while GeoJSON is written, with the corners of the largest
    label, about 200 bytes each.

    Polygons are valid according to GeoJSON and OGC: they neither cross themselves nor touch
    themselves along lines. Pixels of a label that share only a corner are separate polygons.

    References
    ----------
    H. Butler et al., "The GeoJSON Format", RFC 7946, 2016.

    Examples
    --------
    >>> labels = np.array([[5, 5, 5], [5, 0, 5], [5, 5, 5]], "u1")
    >>> _ = bv.compute(bv.outlines(labels).to("regions.geojson"), runner=None)
    >>> print(open("regions.geojson").read())  # doctest: +ELLIPSIS
    {"type": "FeatureCollection", "features": [
    {"type": "Feature", "geometry": {"type": "Polygon", "coordinates": [[[0, 0], [3, 0], [3, 3], ...
    """

def pad(
    volume: Volume,
    pad_width: Any,
    mode: str = 'constant',
    constant_values: float = 0,
) -> Volume:
    """Pad a volume along its axes.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    pad_width : int, pair of int or sequence of pairs of int
        Number of voxels before and after: one number for all sides, a pair for all axes, or a pair
        for each axis.
    mode : {"constant", "edge", "reflect", "symmetric", "wrap"}, default: "constant"
        The values outside. ``"constant"`` uses ``constant_values``, and ``"edge"`` the outer
        voxels. ``"reflect"`` mirrors the volume without its outer voxels, and ``"symmetric"`` with
        them. ``"wrap"`` repeats the volume.
    constant_values : float, default: 0
        The value outside for ``"constant"``, a number of the volume's dtype.

    Returns
    -------
    Volume
        A volume of the input's dtype. Its origin is the position of the first padded voxel.

    Raises
    ------
    ValueError
        If ``pad_width`` is invalid, ``mode`` is not supported, the volume's dtype cannot hold
        ``constant_values``, or the volume has no voxels.
    TypeError
        If ``volume`` is neither a volume nor an array.

    See Also
    --------
    shift : moves voxels within the same shape.

    Notes
    -----
    The result is computed in the same sweep as the volume, and each window reads the slices that it
    needs.

    With ``"wrap"``, an opened volume is first read at its opposite end. A computed volume is stored
    for the run, unless it is a chain of wrapped filters.

    References
    ----------
    `numpy.pad`.

    Examples
    --------
    >>> v = bv.open(np.array([[1, 2, 3]], "u1"))
    >>> np.asarray(bv.pad(v, [(0, 1), (2, 0)], "reflect"))
    array([[3, 2, 1, 2, 3],
           [3, 2, 1, 2, 3]], dtype=uint8)
    """

def peak_local_max(
    image: Volume,
    min_distance: int | Sequence[int] = 1,
    threshold_abs: float | None = None,
    threshold_rel: float | None = None,
    exclude_border: bool | int | Sequence[int] = True,
    num_peaks: float | None = None,
    footprint: ArrayLike | None = None,
    labels: Volume | None = None,
    num_peaks_per_label: float | None = None,
    p_norm: float | None = None,
) -> Table:
    """Find the positions of peaks with a minimum distance between them.

    Parameters
    ----------
    image : Volume or numpy.ndarray
        A volume or an array with up to three axes. Voxels near NaN are not peaks; infinite voxels
        are compared like other voxels.
    min_distance : int or sequence of int, default: 1
        The smallest distance between two peaks, in steps along each axis. A peak is the maximum of
        all voxels within this distance. One number for all axes or one per axis.
    threshold_abs : float, optional
        Peaks must be higher than this; by default, higher than the smallest voxel.
    threshold_rel : float, optional
        Peaks must also be higher than this fraction of the largest voxel.
    exclude_border : bool, int or sequence of int, default: True
        Minimum distance of peaks from the border, in voxels. True is ``min_distance``, False is 0.
    num_peaks : float, optional
        The maximum number of peaks, highest first; all by default, or with inf.
    footprint : array_like, optional
        The neighbourhood in which a peak is the maximum, instead of a box of ``min_distance``.
    labels : Volume or numpy.ndarray, optional
        Labels; 0 is background. Peaks of each label are found independently of voxels outside of
        the label.
    num_peaks_per_label : float, optional
        The maximum number of peaks of each label; all by default, or with inf.
    p_norm : float, optional
        The norm of distances between peaks, at least 1: inf, the default, is the largest difference
        along an axis, and 2 is the Euclidean distance.

    Returns
    -------
    Table
        A lazy table with a row for each peak. The columns are ``rank`` (1, 2, ... from the highest
        peak), the position (``z``, ``y``, ``x``), and the ``intensity``. Equal peaks are in raster
        order. With ``labels``, there is a column ``label``, and peaks are ordered by label unless
        ``num_peaks`` excludes some.

    Raises
    ------
    ValueError
        If a parameter is out of range. On computation, if the peaks need more memory than is
        available.
    TypeError
        If ``image`` is neither a volume nor an array, or a parameter has a wrong type.

    See Also
    --------
    local_maxima : plateaus, as a mask.
    h_maxima : maxima with a minimum height.

    Notes
    -----
    Peaks and their order are identical to scikit-image's, which returns the positions as an array.
    Two sweeps: the first finds the smallest and largest voxel and detects constant volumes, and the
    second finds the peaks. With ``labels``, there are two more sweeps, because in a label with a
    single intensity, only single voxels are peaks. Peaks are compared in a tree. The largest step
    holds the peaks near the ends of some ranges of slices, about 300 bytes each. If memory is too
    small for them, an error is raised.

    References
    ----------
    `skimage.feature.peak_local_max`.

    Examples
    --------
    >>> image = np.zeros((7, 7))
    >>> image[3, 4], image[3, 2] = 1, 1.5
    >>> table = bv.peak_local_max(image)
    >>> np.stack([table["y"], table["x"]], axis=1)
    array([[3, 2],
           [3, 4]])
    >>> bv.peak_local_max(image, min_distance=2)["x"]
    array([2])
    """

def peak_signal_noise_ratio(
    image_true: Volume,
    image_test: Volume,
    *,
    data_range: float | Scalar | None = None,
    mask: Volume | None = None,
    nan: str = 'raise',
    across: str | None = None,
) -> Scalar:
    """Compute the ratio of the squared range of an image to the mean squared error, in decibels.

    Parameters
    ----------
    image_true : Volume or numpy.ndarray
        The true image.
    image_test : Volume or numpy.ndarray
        The image to compare, with the same shape and axes.
    data_range : float or Scalar, optional
        The difference of the largest and the smallest possible voxel, for example
        ``bv.max(v) - bv.min(v)``. By default, the range of the dtype for bool and unsigned integers.
        Other dtypes need it.
    mask : Volume, optional
        Only voxels with a nonzero mask are included; all voxels by default.
    nan : {"raise", "omit"}, default: "raise"
        Whether voxels that are NaN or infinite in ``a`` or ``b`` raise an error on computation or are
        ignored in both.
    across : {"t"}, optional
        Compute one number for all time points, as in ``v > bv.mean(v, across="t")``. By default, each
        time point has its own number. A volume without a time axis has one number in both cases.

    Returns
    -------
    Scalar
        The lazy float64 number in decibels; infinite for equal images.

    Raises
    ------
    ValueError
        If the shapes or axes of the volumes differ, or a parameter is out of range. On computation, if
        an included voxel is NaN or infinite and ``nan="raise"``, or no voxel is included.
    TypeError
        If ``a`` or ``b`` is neither a volume nor an array.

    See Also
    --------
    mean_squared_error : without the range.
    structural_similarity : compares neighbourhoods.

    Notes
    -----
    One sweep, which reads both volumes.

    Partial results of slabs are merged exactly, so the result is the same, bit for bit, for any
    division into slabs.

    References
    ----------
    `skimage.metrics.peak_signal_noise_ratio`, which derives the range of signed integers and floats
    from their smallest voxel.

    Examples
    --------
    >>> image = np.array([[10, 20, 30]], "u1")
    >>> round(float(bv.peak_signal_noise_ratio(image, image + 1)), 2)
    48.13
    """

def percentile(
    volume: Volume,
    q: float | Sequence[float],
    axis: Axis = None,
    *,
    mask: Volume | None = None,
    nan: str = 'raise',
    across: str | None = None,
) -> Scalar:
    """Compute exact percentiles of all voxels, or of each line along some axes.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    q : float or sequence of float
        Percentiles, from 0 to 100.
    axis : int, str or sequence of them, optional
        The axes to reduce: numbers as in numpy, or names. For example, ``("y", "x")`` returns the
        percentile of each slice. All by default. ``"c"`` alone reduces the channels of each voxel:
        the result is a volume, and several percentiles are its channels.
    mask : Volume, optional
        Only voxels with a nonzero mask are included; all voxels by default.
    nan : {"raise", "omit"}, default: "raise"
        Whether NaN and infinite voxels raise an error on computation or are ignored.
    across : {"t"}, optional
        Compute one number for all time points, as in ``v > bv.mean(v, across="t")``. By default, each
        time point has its own number. A volume without a time axis has one number in both cases.

    Returns
    -------
    Scalar
        The lazy number, with numpy's linear interpolation. If ``q`` is a sequence or ``axis`` is
        given, a lazy array: percentiles first, then the remaining axes. Lines without included
        voxels are NaN.

    Raises
    ------
    ValueError
        If a parameter is out of range. On computation, if an included voxel is NaN or infinite and
        ``nan="raise"``, or no voxel is included.
    TypeError
        If ``volume`` is neither a volume nor an array.

    See Also
    --------
    percentile_filter : computes percentiles around each voxel.

    Notes
    -----
    One sweep for dtypes of up to 16 bits, two for 32 bits and four for 64. Each sweep finds the
    next digits of the order statistics from a histogram of order-preserving keys.

    Along axes, one sweep collects lines of at most 4096 bytes for each percentile, if all voxels
    need at most 256 MiB. Otherwise, there is one sweep for each 8 bits of the dtype. In this case,
    the result has at most 65536 elements for one percentile, and 32768 for two.

    References
    ----------
    `numpy.percentile` with its default method.

    Examples
    --------
    >>> v = bv.open(np.array([[1, 2, 3, 4], [5, 5, 5, 9]]))
    >>> float(bv.percentile(v[:1], 50)), np.asarray(bv.percentile(v, [50, 100], axis="x")).tolist()
    (2.5, [[2.5, 5.0], [4.0, 9.0]])
    """

def percentile_filter(
    volume: Volume,
    percentile: float,
    size: int | Sequence[int] | None = None,
    footprint: ArrayLike | None = None,
    *,
    mode: str | Sequence[str] = 'reflect',
    cval: float = 0.0,
    origin: int | Sequence[int] = 0,
    axes: int | Sequence[int] | None = None,
) -> Volume:
    """Compute a percentile over a box or footprint around each voxel.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    percentile : float
        The percentile, from 0 to 100, or from -100 to 0: -20 is 80. The result is a value from the
        footprint, without interpolation.
    size : int or sequence of int, optional
        Extent of the box in voxels; one value for all axes or one per axis. Pass either ``size`` or
        ``footprint``.
    footprint : array_like of bool, optional
        The footprint, with one dimension per axis, such as from `ball`.
    mode : str or sequence of str, default: "reflect"
        How to extend the volume beyond its edges, as in `scipy.ndimage`; one mode for all axes or one
        per axis. ``"reflect"`` and ``"grid-mirror"`` repeat the outer voxel (c b a | a b c d | d c b), and
        ``"mirror"`` does not (d c b | a b c d | c b a). ``"nearest"`` extends it (a a a | a b c d | d d
        d), ``"constant"`` and ``"grid-constant"`` use ``cval``, and ``"wrap"`` and ``"grid-wrap"``
        repeat the volume (b c d | a b c d | a b c).
    cval : float, default: 0.0
        The value beyond the edges if ``mode`` is ``"constant"`` or ``"grid-constant"``.
    origin : int or sequence of int, default: 0
        Shift of the footprint in voxels, as in `scipy.ndimage`: a positive number moves it towards
        lower indices. One value for all axes or one per axis.
    axes : int or sequence of int, optional
        Axes to work along, counted from 0, or backwards from -1; all axes by default.

    Returns
    -------
    Volume
        A volume of the input's dtype. The result is NaN exactly where the footprint contains a NaN.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis. If not exactly one of
        ``size`` and ``footprint`` is given, or the volume's dtype cannot hold ``cval``.
    TypeError
        If ``volume`` is neither a volume nor an array, or a parameter has a wrong type.

    See Also
    --------
    percentile : computes a lazy number for the whole volume.

    Notes
    -----
    The result is identical to scipy's.

    One sweep. The halo is the reach of the footprint: along each axis, a slab reads ``size - 1`` more
    voxels than it writes. A window contains the same number of additional slices.

    References
    ----------
    `scipy.ndimage.percentile_filter`.

    Examples
    --------
    >>> np.asarray(bv.percentile_filter(bv.open(np.array([[5, 1, 4, 9, 8]])), 20, (1, 3)))
    array([[1, 1, 1, 4, 8]])
    """

def pixel_classifier(
    volume: Volume,
    examples: Any,
    forest: Any = None,
    *,
    random_state: int = 0,
) -> PixelClassifier:
    """Train a random forest or boosted trees on voxels with known classes.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        Features as channels, as from `features`.
    examples : Volume, numpy.ndarray or tuple
        The known classes: labels of the same shape without channels, where 0 is unknown, such as
        scribbles painted in a viewer. Alternatively, a pair of positions (rows z, y, x, in voxels)
        and their classes. Classes are integers from 1 to 65535.
    forest : classifier, optional
        A scikit-learn classifier to train, with parameters of your choice: RandomForestClassifier,
        ExtraTreesClassifier or HistGradientBoostingClassifier (boosted trees). By default a random
        forest of 100 trees. Each tree has up to 20 levels and learns from up to 30,000 examples,
        which it draws at random.
    random_state : int, default: 0
        The seed of the default forest.

    Returns
    -------
    PixelClassifier
        The trained trees. `PixelClassifier.save` writes them to a file.

    Raises
    ------
    ValueError
        If scikit-learn is not installed, shapes do not match, or there are fewer than two classes.
        If a position is outside of the volume, or a feature of an example is not finite.
    TypeError
        If the examples are not integers, or ``forest`` is not one of these classifiers.

    See Also
    --------
    features : computes features.
    classify : applies the forest.

    Notes
    -----
    Training takes place immediately, in the current process. Labels are read piece by piece, and
    features are only computed around examples. With the same versions of scikit-learn and numpy,
    the same examples give the same default forest, in any order. Train once, and use the saved file
    for all volumes.

    The sample of each tree bounds the time of training and the size of the default forest. Trees draw
    examples of rare classes more often: about as many as there are, up to a tenth of the sample divided
    by the number of classes. Such a class is therefore more probable than its share of the examples.

    References
    ----------
    `sklearn.ensemble.RandomForestClassifier` and `HistGradientBoostingClassifier`; L. Breiman, "Random
    forests", Machine Learning 45 (2001);
    S. Berg et al., "ilastik: interactive machine learning for (bio)image analysis", Nature Methods 16
    (2019).

    Examples
    --------
    >>> image = np.zeros((40, 40))
    >>> image[10:30, 10:30] = 1
    >>> found = bv.features(image + np.random.default_rng(0).normal(0, 0.1, image.shape), [1, 2])
    >>> trained = bv.pixel_classifier(found, ([(2, 3), (35, 20), (16, 16), (20, 25)], [1, 1, 2, 2]))
    >>> trained.classes, len(trained.roots)
    (array([1, 2]), 100)
    >>> trained.save("cells.npz")
    >>> np.asarray(bv.classify(found, "cells.npz"))[20, [4, 16, 20, 24, 36]]
    array([1, 2, 2, 2, 1], dtype=uint8)
    """

def plan(
    *targets: Wanted,
    memory: int | float | str | None = None,
    workers: int | None = None,
    machines: int | None = None,
    threads: int | None = None,
    slab: Sequence[int] | None = None,
    window: int | None = None,
    journal: Any = None,
    keep_journal: bool = True,
    resume: bool = False,
    overwrite: bool = False,
    runner: Any = 'auto',
    options: Any = None,
    progress: bool | Callable[..., None] | None = None,
    accelerator: str | None = None,
    device: str | None = None,
    device_memory: int | float | str | None = None,
    max_retries: int = 1,
) -> Plan:
    """Plan a computation without reading or writing any voxels.

    Use it to check memory, I/O and the number of passes before a long run. `plan` accepts the
    parameters of `compute`, so the calls differ only in the name. Parameters that only matter while
    writing, such as ``overwrite`` and ``progress``, do not change the plan.

    Parameters
    ----------
    *targets : Target, TableTarget, Volume, Table or Scalar
        Targets that `compute` would accept.
    memory : int or str, optional
        Memory that this machine may use for the run, in bytes or as ``"2GiB"``; a quarter of its
        RAM by default.
    workers : int, optional
        Number of slabs in flight. By default one slab for every four cores, and more if much of the
        work on a slab is single-threaded and the memory suffices.
    machines : int, optional
        Number of machines that share the slabs, for runners with several machines. Slabs are made small
        enough for each machine to get many. By default, Beam's option ``max_num_workers``,
        ``num_workers`` or ``parallelism``, otherwise 1.
    threads : int, optional
        Number of threads that compute one slab; by default the cores divided by the processes.
    slab : sequence of int, optional
        Shape of slabs along the volume's axes, in voxels; by default as large as the memory allows.
        Each slab must consist of whole write units (chunks or shards) of the outputs.
    window : int, optional
        Number of slices that are computed at a time; by default as many as the memory allows.
    journal : str, os.PathLike or dict, optional
        Folder of the journal and of intermediate results; by default ``.run`` next to the first output.
    keep_journal : bool, default: True
        Whether to keep the journal after a successful run. `verify` needs it.
    resume : bool, default: False
        Whether to continue a stopped run from its complete slabs.
    overwrite : bool, default: False
        Whether to replace existing outputs; otherwise they raise an error.
    runner : str, apache_beam.runners.PipelineRunner or None, default: "auto"
        ``"FnApiRunner"`` runs a Beam pipeline on this machine. None runs in the current process
        without Beam. Beam looks up any other runner by its name. ``"auto"`` chooses None, except for
        runs with ``options`` and runs that may use more than half of the free memory. Such runs use
        ``"FnApiRunner"``, so that the caller survives if memory runs out. `plan` shows the choice.
    options : PipelineOptions, list of str or dict, optional
        Beam's options, such as ``["--direct_running_mode=multi_processing"]``; not with
        ``runner=None``.
    progress : bool or callable, optional
        Whether to show progress on standard error, or a function to call with the progress. By default,
        terminals and notebooks show a progress bar for runs of more than one second. Elsewhere, runs of
        more than five seconds print a line for each pass.
    accelerator : str, optional
        The accelerator for passes that run a network or use a device. The value is a Beam resource hint
        such as ``"type:nvidia-tesla-t4;count:1;install-nvidia-driver"``, which is the default with
        ``device="cuda"``. Dataflow provisions machines accordingly; other runners ignore it.
    device : {"cpu", "cuda", "auto"}, optional
        Where stages run, by default on the CPU. "cuda" runs each stage with device code on the GPU of
        its worker. "auto" does so only if there is a GPU and the estimated gain outweighs the copies.
        With "auto", slabs that fail on the GPU are computed on the CPU. Results are bit-identical in
        all cases.
    device_memory : int or str, optional
        Memory that the run may use on each GPU of a machine, in bytes or as ``"8GiB"``; by default
        0.8 of the GPU's free memory.
    max_retries : int, default: 1
        How often to retry a step that raises the same error again, unless a machine or the storage
        caused the error. After these retries, the run ends, even if its runner would continue to
        retry.

    Returns
    -------
    Plan
        Passes, slabs, windows, memory, and bytes read and written. ``print(plan.explain())`` shows
        them.

    Raises
    ------
    ValueError
        If memory is too small; the message contains the stage and the minimum. If ``slab`` does not
        consist of whole write units, or an output is also an input.
    TypeError
        If a target has an unsupported type.

    See Also
    --------
    compute : plans and runs.
    estimate : predicts the time and the cost on machines of a type.

    Notes
    -----
    Planning reads metadata only. Memory that depends on the voxels, such as for components, is
    planned for the worst case that fits. Returned arrays are not included.

    Examples
    --------
    >>> v = bv.open(np.zeros((8, 64, 64), "u1"))
    >>> p = bv.plan((v > bv.threshold_otsu(bv.gaussian_filter(v, 1))).to("mask.zarr"), memory="1GiB")
    >>> len(p.passes), p.sweeps["threshold_otsu"], p.read_amplification
    (3, 2, 1.0)
    """

def power(
    base: Any,
    exponent: Any,
) -> Any:
    """Raise voxels to a power.

    Parameters
    ----------
    base : Volume, Scalar, numpy.ndarray or number
        The base. At least one of the two is a volume or a lazy number.
    exponent : Volume, Scalar, numpy.ndarray or number
        The exponent, of the same shape, or a number.

    Returns
    -------
    Volume or Scalar
        A result with numpy's dtype. As in numpy, integers wrap around, and a negative base with a
        fractional exponent gives NaN.

    Raises
    ------
    ValueError
        If shapes or axes differ, or integers are raised to a negative integer.
    TypeError
        If an input is not a volume, lazy number, array or number.

    Notes
    -----
    Pointwise: no halo, and no sweeps beyond those for the inputs.

    Integer exponents up to 16 are computed by multiplication, and 0.5 as a square root; each step
    is rounded to the dtype of the result. Other powers are computed in float64 and rounded once,
    with an error below 1 unit in the last place.

    References
    ----------
    `numpy.power`; fdlibm, Sun Microsystems (1993).

    Examples
    --------
    >>> v = bv.open(np.array([[1.0, 8.0]]))
    >>> np.asarray(bv.power(v, 1 / 3)).round(4)
    array([[1., 2.]])
    >>> np.asarray(2.0 ** v)
    array([[  2., 256.]])
    """

def predict(
    volume: Volume,
    model: Any,
    *,
    mode: str = 'auto',
    patch: int | Sequence[int] | None = None,
    context: int | Sequence[int | Sequence[int]] | None = None,
    stride: int | Sequence[int] | None = None,
    overlap: int | Sequence[int] | None = None,
    blend: str = 'bump',
    slices: int | None = None,
    channels_out: int | Sequence[str] | None = None,
    dtype: DTypeLike | None = None,
    batch: int | None = None,
    normalize: str | Sequence[Any] | None = None,
    mask: Volume | None = None,
    fill: float = 0.0,
    augment: str | None = None,
    offsets: Sequence[Sequence[int] | None] | None = None,
    edges: str | Sequence[str] = 'reflect',
    cval: float = 0.0,
    device: str = 'auto',
    name: str | None = None,
    version: str | int | None = None,
) -> Volume:
    """Apply a neural network to a volume in patches, with a result that does not depend on slabs.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    model : path, callable or ModelHandler
        The path or URL of an ``.onnx`` file, or of a TorchScript (``.pt``) or `torch.export`
        (``.pt2``) file. Alternatively, a function of float32 arrays with the axes batch, c, z, y,
        x, which returns arrays with the same number of patches. An Apache Beam `ModelHandler` for
        numpy arrays c, z, y, x is accepted as well. Input channels are the volume's channels. A
        network for ``(batch, c, y, x)`` runs slice by slice.
    mode : {"auto", "valid", "blend"}, default: "auto"
        ``"valid"``: equal to one pass over the whole volume; patches overlap by ``context``, which
        is discarded. ``"blend"``: patches overlap and are averaged with weights. ``"auto"`` is
        ``"valid"`` if the context is known from ``context=``, the file's metadata or the smaller
        output of the network; otherwise it is ``"blend"``.
    patch : int or sequence of int, optional
        Input extent of the network along z, y, x (y, x for a network of slices). Larger patches
        discard less and need more memory. By default, up to two million voxels. If the size does
        not change the result, the plan selects the size that fits in memory and discards least.
    context : int or sequence, optional
        The reach of the network: how far away voxels can affect the result of a voxel. One number
        for all axes, or for each axis a number or a pair (before, after). For ``mode="valid"``.
    stride : int or sequence of int, optional
        The product of the network's pooling factors. If the input is shifted by multiples of the
        stride, the result is shifted equally. Patches start at multiples of the stride.
    overlap : int or sequence of int, optional
        Number of voxels shared by adjacent patches, for ``mode="blend"``; half a patch by default.
    blend : {"bump", "gaussian", "linear", "none"}, default: "bump"
        The weights for ``mode="blend"``: chunkflow's bump function, nnU-Net's Gaussian, linear
        towards the middle, or constant. The sigma of the Gaussian is an eighth of a patch.
    slices : int, optional
        For a network of slices: the odd number of neighbouring slices that are its input channels.
    channels_out : int or sequence of str, optional
        The expected number of channels of the result, or their names.
    dtype : dtype, optional
        Dtype of the result, cast like `Volume.astype`; the network's dtype by default.
    batch : int, optional
        Number of patches per call of the network; by default, small patches are combined within the
        memory limit.
    normalize : {"patch"} or sequence of two, optional
        A pair ``(low, high)`` to map to 0 and 1: numbers, lazy numbers, or percentiles of all
        voxels such as ``("1%", "99%")``. ``"patch"`` normalizes each patch to mean 0 and standard
        deviation 1; the result then depends on the grid of patches.
    mask : Volume or numpy.ndarray, optional
        A mask. The network is not run on patches that contribute to no nonzero voxel of the mask.
    fill : float, default: 0.0
        The result where the network is not run.
    augment : {"flips", "rot90", "d4", "cube"}, optional
        The transformed copies of each patch to average over. ``"flips"`` are flips along all axes
        (8 runs of the network), and ``"rot90"`` quarter turns in the plane (4). ``"d4"`` adds the
        mirror images of the turns (8), and ``"cube"`` includes all rotations and reflections of a
        cube (48).
    offsets : sequence, optional
        Required for ``augment`` if channels describe pairs of voxels, such as affinities. For each
        channel, pass None or the offset from a voxel to the other voxel of the pair. Offsets are
        along z, y, x, or y, x for a network of slices. ``[(-1, 0, 0), (0, -1, 0), (0, 0, -1)]`` are
        affinities between each voxel and the previous one. The context grows by the longest offset.
    edges : str or sequence of str, default: "reflect"
        How to extend the volume beyond its edges, like ``mode`` of `gaussian_filter`.
    cval : float, default: 0.0
        The value beyond the edges for ``"constant"``, before ``normalize``.
    device : {"auto", "cpu", "cuda"}, default: "auto"
        The device for ONNX Runtime and PyTorch; ``"auto"`` uses CUDA if available. On CUDA,
        deterministic algorithms without TF32 are requested; bits may differ from the CPU's.
    name : str, optional
        Together with ``version``, it identifies the function when a run is resumed. Without a name, a
        run with this function cannot be resumed.
    version : str or int, optional
        Change the version when you change the function.

    Returns
    -------
    Volume
        A volume with the axis c first; on a coarser grid if the network's output is coarser.

    Raises
    ------
    ValueError
        If a parameter is out of range, or the network fails on a patch of noise. If it returns
        numbers that are not finite, or an unexpected number of channels. If ``model`` is a PyTorch
        file and ``options.trust_models`` is False, because such files can execute code.
    TypeError
        If ``volume`` is neither a volume nor an array, or ``model`` cannot be run.
    FileNotFoundError, ImportError
        If the file does not exist, or ONNX Runtime or PyTorch is not installed.

    See Also
    --------
    probe_model : measures context and stride.
    map_overlap : applies any function to blocks.

    Notes
    -----
    One sweep; percentiles need additional sweeps. `predict` runs the network twice on noise, to
    determine its shapes and memory, and whether it returns the same bits. If the bits differ, a
    warning is issued, and the result is stored and never computed twice. NaN voxels are passed to
    the network. If the network returns NaN or infinity for a patch without such voxels, the run
    stops with an error. The digest of the file is a part of the run's identity; workers read the
    file from its original location.

    References
    ----------
    `Lee et al., chunkflow, Nature Methods 2021 <https://doi.org/10.1038/s41592-021-01088-5>`_;
    `Isensee et al., nnU-Net, Nature Methods 2021 <https://doi.org/10.1038/s41592-020-01008-z>`_.

    Examples
    --------
    >>> def brightest(batch):  # the maximum of a voxel and the next one along x
    ...     return np.maximum(batch[..., :-1], batch[..., 1:])
    >>> v = bv.open(np.array([[3, 1, 4, 1, 5, 9, 2, 6]], "f4"))
    >>> np.asarray(bv.predict(v, brightest, patch=(1, 5), edges="nearest", name="max", version=1))
    array([[[3., 4., 4., 5., 9., 9., 6., 6.]]], dtype=float32)
    """

def preview(
    volume: Volume | np.ndarray,
    *,
    at: Sequence[int] | None = None,
    t: int = 0,
    size: int = 512,
    percentiles: tuple[float, float] = (0.5, 99.5),
    labels: bool | Volume | np.ndarray | None = None,
    most_bytes: int = 536870912,
) -> Preview:
    """Show three sections of a volume, at low resolution and without a run.

    Use it to look at a large volume in seconds. Stored volumes are subsampled: a coarse level of
    the pyramid or every n-th voxel is read. Expressions are computed at full resolution: whole
    planes if little data must be read, otherwise only their centre. A note reports which of the two
    was computed.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        The volume to show, with up to 6 channels, each in its own colour.
    at : sequence of int, optional
        The voxel where the sections intersect, along z, y and x; the centre by default.
    t : int, default: 0
        The time point.
    size : int, default: 512
        Number of pixels of the longest section.
    percentiles : tuple of float, default: (0.5, 99.5)
        Percentiles of the intensities to show as black and white.
    labels : bool, Volume or numpy.ndarray, optional
        Whether voxels are labels, each with its own colour. By default, results of `label` and
        integers of 32 and 64 bits are. Alternatively, labels of the same shape, bool or integers,
        with boundaries to draw on the picture.
    most_bytes : int, default: 536870912
        Maximum bytes of chunks to read: for each section of a stored volume, or for all sections of
        an expression.

    Returns
    -------
    Preview
        The picture; notebooks show it, and ``.save("preview.png")`` writes it to a file.

    Raises
    ------
    ValueError
        If ``at`` is outside of the volume, a parameter is out of range, or labels have a different
        shape. If every section would read more than ``most_bytes``.

    See Also
    --------
    mark_boundaries : draws boundaries of labels, as a volume.

    Notes
    -----
    For a large volume, whole-volume numbers and labels are only computed for its centre. A note
    next to the picture reports this.

    Examples
    --------
    >>> v = bv.open(np.arange(120, dtype="u1").reshape(4, 5, 6), voxel_size=(2, 1, 1))
    >>> p = bv.preview(v, at=(0, 2, 3), size=60)
    >>> p.image.shape, p.note
    ((102, 109, 3), '3 sections at z=0, y=2, x=3; every voxel')
    >>> p.save("preview.png")
    """

def prewitt(
    volume: Volume,
    axis: int = -1,
    *,
    mode: str | Sequence[str] = 'reflect',
    cval: float = 0.0,
    dtype: DTypeLike | None = None,
) -> Volume:
    """Compute the Prewitt derivative along an axis.

    The weights are ``[-1, 0, 1]`` along this axis, and ``[1, 1, 1]`` along all other axes.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    axis : int, default: -1
        The axis of the derivative, counted from 0, or backwards from -1.
    mode : str or sequence of str, default: "reflect"
        How to extend the volume beyond its edges, as in `scipy.ndimage`; one mode for all axes or one
        per axis. ``"reflect"`` and ``"grid-mirror"`` repeat the outer voxel (c b a | a b c d | d c b), and
        ``"mirror"`` does not (d c b | a b c d | c b a). ``"nearest"`` extends it (a a a | a b c d | d d
        d), ``"constant"`` and ``"grid-constant"`` use ``cval``, and ``"wrap"`` and ``"grid-wrap"``
        repeat the volume (b c d | a b c d | a b c).
    cval : float, default: 0.0
        The value beyond the edges if ``mode`` is ``"constant"`` or ``"grid-constant"``.
    dtype : dtype, optional
        Dtype of the result. Integers are rounded half to even and clipped to the dtype's range.

    Returns
    -------
    Volume
        A float32 volume for bool, integers of up to 16 bits, float16 and float32; a float64 volume for
        other dtypes. ``dtype`` overrides this.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis. If a length has a unit
        but the volume has no voxel size.
    TypeError
        If ``volume`` is neither a volume nor an array, or ``dtype`` is not supported.

    Notes
    -----
    One sweep, with a halo of one voxel along each axis. For integers, scipy returns the input's
    dtype, which wraps around. Use ``generic_gradient_magnitude`` to combine the derivatives along
    several axes, as scikit-image does if ``axis`` is None or a tuple.

    References
    ----------
    `scipy.ndimage.prewitt`.

    Examples
    --------
    >>> row = bv.open(np.array([[10, 20, 30, 200, 10]], "u1"))
    >>> np.asarray(bv.prewitt(row))
    array([[  30.,   60.,  540.,  -60., -570.]], dtype=float32)
    """

def probe_model(
    model: Any,
    patch: int | Sequence[int] = 64,
    *,
    channels: int | None = None,
    device: str = 'auto',
) -> Probed:
    """Measure the reach of a network and the stride at which shifts of its input shift its result.

    Parameters
    ----------
    model : path, callable or ModelHandler
        An ``.onnx``, ``.pt`` or ``.pt2`` file, or a function of float32 arrays with the axes batch,
        c, z, y, x. An Apache Beam `ModelHandler` for numpy arrays c, z, y, x is accepted as well.
    patch : int or sequence of int, default: 64
        Input extent along z, y, x, or y, x for a network of slices. The extent must be more than
        twice the reach on each side.
    channels : int, optional
        Number of input channels; by default from the file, or 1.
    device : {"auto", "cpu", "cuda"}, default: "auto"
        The device for ONNX Runtime.

    Returns
    -------
    Probed
        ``stride``, ``context``, ``scale`` and ``channels``, and the measured ``reach``.

    Raises
    ------
    ValueError
        If the patch is too small, or no shift of the input shifts the result equally.
    TypeError
        If ``model`` cannot be run.
    FileNotFoundError, ImportError
        If the file does not exist, or ONNX Runtime is not installed.

    See Also
    --------
    predict : uses the results as ``context=`` and ``stride=``.

    Notes
    -----
    The stride is determined by shifting noise. Then single planes near the centre are changed, one
    for each position relative to the stride. Each plane is changed up and down, and changes in the
    result are located. Dependencies that none of these changes reveal are not detected. The network
    runs twice for each such plane, and once for each shift.

    References
    ----------
    `Luo et al., Understanding the effective receptive field, NIPS 2016 <https://arxiv.org/abs/1701.04128>`_.

    Examples
    --------
    >>> def before(batch):  # the sum of a voxel and the two before it along x
    ...     return batch + np.roll(batch, 1, axis=-1) + np.roll(batch, 2, axis=-1)
    >>> found = bv.probe_model(before, (1, 16, 16))
    >>> found.stride, found.context
    ((1, 1, 1), ((0, 0), (0, 0), (2, 0)))
    """

def profile_line(
    image: Volume,
    src: Sequence[float],
    dst: Sequence[float],
    linewidth: int = 1,
    order: int | None = None,
    mode: str = 'reflect',
    cval: float = 0.0,
    *,
    reduce_func: Callable[..., Any] | None = ...,
) -> np.ndarray:
    """Measure the intensities along a line between two points.

    Use it to look at an edge or a membrane of a stored volume: only voxels along the line are read.

    Parameters
    ----------
    image : Volume or numpy.ndarray
        A volume or an array with one channel and one time point.
    src, dst : sequence of float
        The ends of the line, in voxels, one number for each axis. Both ends are part of the
        profile.
    linewidth : int, default: 1
        The number of samples across the line, for two axes.
    order : int, optional
        Order of interpolation: 0 is the nearest voxel, 1 is linear, and 2 to 5 are splines, which
        read the whole image. By default, the order is 0 for bool and 1 for other dtypes.
    mode : str or sequence of str, default: "reflect"
        How to extend the volume beyond its edges, as in `scipy.ndimage`; one mode for all axes or one
        per axis. ``"reflect"`` and ``"grid-mirror"`` repeat the outer voxel (c b a | a b c d | d c b), and
        ``"mirror"`` does not (d c b | a b c d | c b a). ``"nearest"`` extends it (a a a | a b c d | d d
        d), ``"constant"`` and ``"grid-constant"`` use ``cval``, and ``"wrap"`` and ``"grid-wrap"``
        repeat the volume (b c d | a b c d | a b c).
    cval : float, default: 0.0
        The value beyond the edges if ``mode`` is ``"constant"`` or ``"grid-constant"``.
    reduce_func : callable or None, default: numpy.mean
        A function that combines the samples across the line; None returns all samples, (length,
        linewidth).

    Returns
    -------
    numpy.ndarray
        The profile, with a sample for each voxel of length, computed immediately, in this process.

    Raises
    ------
    ValueError
        If a point does not have a finite number for each axis, or ``order`` is above 5 (above 0 for
        bool). If the profile has more than 4,194,304 samples, or ``linewidth`` is above 1 for three
        axes.
    TypeError
        If ``image`` is neither a volume nor an array, or a parameter has a wrong type.

    See Also
    --------
    map_coordinates : interpolates at the positions of a volume.

    Notes
    -----
    Boxes of up to 262,144 voxels along the line are computed one after another. With splines, each
    box needs coefficients from `spline_filter`, which read lines along all axes.

    References
    ----------
    `skimage.measure.profile_line`.

    Examples
    --------
    >>> image = np.array([[0, 0, 0, 0], [1, 1, 2, 2], [0, 0, 0, 0]], "f4")
    >>> bv.profile_line(image, (1, 0), (1, 3))
    array([1., 1., 2., 2.], dtype=float32)
    >>> bv.profile_line(np.stack([image, image + 2]), (0, 1, 0), (1, 1, 3))
    array([1. , 1.5, 2.5, 3.5, 4. ], dtype=float32)
    """

def random_noise(
    volume: Volume,
    mode: str = 'gaussian',
    seed: int = 0,
    clip: bool = True,
    *,
    mean: float | None = None,
    var: float | None = None,
    local_vars: Volume | None = None,
    amount: float | None = None,
    salt_vs_pepper: float | None = None,
    peak: float | None = None,
    low: float | None = None,
    high: float | None = None,
) -> Volume:
    """Add random noise to a volume, independently of slabs.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes. Integers are scaled to the range from 0 or -1 to
        1, as in scikit-image.
    mode : str, default: "gaussian"
        ``"gaussian"`` adds normal noise, and ``"localvar"`` normal noise with a variance for each
        voxel. ``"speckle"`` adds the voxel times normal noise. ``"uniform"`` adds numbers from
        ``low`` to ``high``. ``"poisson"`` counts photons. ``"salt"`` and ``"pepper"`` set voxels to
        1 or to the lowest value, and ``"s&p"`` to either.
    seed : int, default: 0
        The seed of the noise, from 0 to 2**64 - 1.
    clip : bool, default: True
        Whether to clip the result to the range from 0 to 1, or from -1 to 1 if there are negative
        voxels.
    mean : float, optional
        Mean of normal noise; 0 by default.
    var : float, optional
        Variance of normal noise; 0.01 by default.
    local_vars : Volume or numpy.ndarray, optional
        The variance of each voxel, at least 0; 0.01 by default.
    amount : float, optional
        Fraction of voxels to set, 0 to 1; 0.05 by default.
    salt_vs_pepper : float, optional
        Fraction of salt among the set voxels, 0 to 1; 0.5 by default.
    peak : float, optional
        Number of photons for a voxel of 1; 256 by default for integers of 8 bits, 65536 for 16
        bits. The parameter is required for all other dtypes.
    low : float, optional
        Minimum of uniform noise; -0.1 by default.
    high : float, optional
        Maximum of uniform noise; 0.1 by default.

    Returns
    -------
    Volume
        A float64 volume; float32 for float32 and half precision.

    Raises
    ------
    ValueError
        If there is no such mode, a parameter is out of range or belongs to a different mode, or the
        volume has time points.
    TypeError
        If ``volume`` is neither a volume nor an array, or ``seed`` is not an int.

    See Also
    --------
    map_overlap : applies any function to blocks.

    Notes
    -----
    The noise of a voxel depends on the seed, its channel, and its index in the volume. Cropping a
    noisy volume keeps its noise, but adding noise to a crop gives different noise. Distributions
    are the same as in scikit-image, but numbers are not.

    No additional sweep, except one for the smallest voxel when clipping signed integers or floats,
    or adding pepper.

    References
    ----------
    `skimage.util.random_noise`; J. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC11
    (2011): Philox.

    Examples
    --------
    >>> v = bv.open(np.full((1, 4), 128, "u1"))
    >>> noisy = bv.random_noise(v, "s&p", seed=3, amount=0.5)
    >>> np.asarray(noisy).round(2)
    array([[0. , 0.5, 0.5, 1. ]])
    """

def rank_filter(
    volume: Volume,
    rank: int,
    size: int | Sequence[int] | None = None,
    footprint: ArrayLike | None = None,
    *,
    mode: str | Sequence[str] = 'reflect',
    cval: float = 0.0,
    origin: int | Sequence[int] = 0,
    axes: int | Sequence[int] | None = None,
) -> Volume:
    """Select the value of a rank over a box or footprint around each voxel.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    rank : int
        The rank: 0 is the smallest value, 1 the second smallest, -1 the largest, and -2 the second
        largest.
    size : int or sequence of int, optional
        Extent of the box in voxels; one value for all axes or one per axis. Pass either ``size`` or
        ``footprint``.
    footprint : array_like of bool, optional
        The footprint, with one dimension per axis, such as from `ball`.
    mode : str or sequence of str, default: "reflect"
        How to extend the volume beyond its edges, as in `scipy.ndimage`; one mode for all axes or one
        per axis. ``"reflect"`` and ``"grid-mirror"`` repeat the outer voxel (c b a | a b c d | d c b), and
        ``"mirror"`` does not (d c b | a b c d | c b a). ``"nearest"`` extends it (a a a | a b c d | d d
        d), ``"constant"`` and ``"grid-constant"`` use ``cval``, and ``"wrap"`` and ``"grid-wrap"``
        repeat the volume (b c d | a b c d | a b c).
    cval : float, default: 0.0
        The value beyond the edges if ``mode`` is ``"constant"`` or ``"grid-constant"``.
    origin : int or sequence of int, default: 0
        Shift of the footprint in voxels, as in `scipy.ndimage`: a positive number moves it towards
        lower indices. One value for all axes or one per axis.
    axes : int or sequence of int, optional
        Axes to work along, counted from 0, or backwards from -1; all axes by default.

    Returns
    -------
    Volume
        A volume of the input's dtype. The result is NaN exactly where the footprint contains a NaN.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis. If not exactly one of
        ``size`` and ``footprint`` is given, or the volume's dtype cannot hold ``cval``.
    TypeError
        If ``volume`` is neither a volume nor an array, or a parameter has a wrong type.

    See Also
    --------
    percentile_filter : specifies the rank in percent.

    Notes
    -----
    The result is identical to scipy's.

    One sweep. The halo is the reach of the footprint: along each axis, a slab reads ``size - 1`` more
    voxels than it writes. A window contains the same number of additional slices.

    References
    ----------
    `scipy.ndimage.rank_filter`.

    Examples
    --------
    >>> np.asarray(bv.rank_filter(bv.open(np.array([[5, 1, 4, 9, 8]])), -2, (1, 3)))
    array([[5, 4, 4, 8, 8]])
    """

def reconstruction(
    seed: Volume,
    mask: Volume,
    method: str = 'dilation',
    footprint: Any = None,
) -> Volume:
    """Grow a seed image under a mask image, or shrink it above the mask, until nothing changes.

    Parameters
    ----------
    seed : Volume or numpy.ndarray
        The initial volume: nowhere above the mask for dilation, nowhere below the mask for erosion.
    mask : Volume or numpy.ndarray
        The limit, with the same shape. The mask must not contain NaN; both volumes may contain
        infinity.
    method : {"dilation", "erosion"}, default: "dilation"
        ``"dilation"`` grows the seed, ``"erosion"`` shrinks it.
    footprint : array_like, optional
        The neighbours of a voxel: an array with 3 entries along each axis, symmetric about the
        centre, including all neighbours that share a face. By default, all entries are true.

    Returns
    -------
    Volume
        A volume of the dtype to which numpy promotes both volumes. scikit-image returns the same
        values as floats. A zero that does not come from the mask is 0.0, never -0.0.

    Raises
    ------
    ValueError
        If shapes differ, or ``method`` or ``footprint`` is invalid. On computation, if the seed
        exceeds the mask, a voxel is NaN, or the basins need more memory than is available.
    TypeError
        If an input is neither a volume nor an array, or has integers of 64 bits.

    See Also
    --------
    h_maxima, h_minima : extrema with a minimum height.
    binary_propagation : reconstruction of masks.

    Notes
    -----
    Three sweeps, regardless of how far the seed grows. Each voxel of a basin of the mask has a
    monotonic path to the basin's end. The result is therefore the mask, clipped to one level per
    basin. Two sweeps find the basins, as in `watershed`. A table of the passes between basins
    determines the levels. One worker holds this table, about 150 bytes for each basin and 100 for
    each pair of touching basins; if memory is too small, an error is raised. A noisy volume has a
    basin for every few voxels: smooth it first, or allow more memory.

    References
    ----------
    `skimage.morphology.reconstruction`; L. Vincent, "Morphological grayscale reconstruction in image
    analysis", IEEE Trans. Image Processing 2 (1993).

    Examples
    --------
    >>> mask = np.array([[1, 5, 2, 4, 1]])
    >>> seed = np.array([[1, 5, 1, 1, 1]])
    >>> np.asarray(bv.reconstruction(seed.astype("u1"), mask.astype("u1")))
    array([[1, 5, 2, 2, 1]], dtype=uint8)
    """

def region_adjacency(
    labels: Volume,
    intensity: Volume | None = None,
    *,
    affinities: Volume | None = None,
    value: str = 'max',
    bins: int = 0,
    range: tuple[float, float] | None = None,
    nan: str = 'raise',
) -> Table:
    """Find pairs of touching regions, the number of shared faces, and the values between them.

    Parameters
    ----------
    labels : Volume or numpy.ndarray
        Integer labels; 0 is background. Label the objects of a mask with `label` first.
    intensity : Volume or numpy.ndarray, optional
        A boundary volume with the shape of the labels, such as membrane probabilities.
    affinities : Volume or numpy.ndarray, optional
        Instead of ``intensity``, a volume with three channels (axes c, z, y, x), of at most 32
        bits. The channels are the affinity of each voxel with the previous voxel along z, y and x.
    value : {"max", "mean"}, default: "max"
        The value of a face with ``intensity``: the maximum or mean of its two voxels.
    bins : int, default: 0
        Number of bins for a histogram of the values of each pair; 0 for none.
    range : pair of float, optional
        The range of the histogram, which is required; by default (0, 256) for affinities of uint8.
    nan : {"raise", "omit"}, default: "raise"
        Whether NaN and infinite intensities and affinities raise an error on computation or are
        ignored.

    Returns
    -------
    Table
        A lazy table with a row for each pair of labels that share a face, sorted by label;
        ``label_a`` is smaller than ``label_b``. Columns ``faces-0``, ... count the faces across
        each axis of the labels, in order. With ``intensity`` there are ``boundary_mean``,
        ``boundary_min``, ``boundary_max``, and with ``bins`` ``boundary_histogram-0``, ... With
        ``affinities`` there are ``affinity_count``, ``affinity_sum`` (exact, only for integers),
        ``affinity_mean``, ``affinity_min``, ``affinity_max``, and ``affinity_histogram-0``, ...

    Raises
    ------
    ValueError
        If shapes differ or a parameter is out of range. On computation, if an intensity is NaN or
        infinite and ``nan="raise"``, or the pairs need more memory than is available.
    TypeError
        If ``labels`` is neither a volume nor an array, or has an unsupported dtype.

    See Also
    --------
    regionprops_table : measures each region.
    agglomerate : merges regions with this table.

    Notes
    -----
    One sweep; labels from `label` share its second sweep. Memory grows with the pairs of one slab.

    References
    ----------
    `skimage.graph.RAG` and `skimage.graph.rag_boundary` are such graphs for arrays in memory.

    Examples
    --------
    >>> labels = bv.open(np.array([[1, 1, 3], [2, 2, 3]], "u1"))
    >>> pairs = bv.region_adjacency(labels).to_pyarrow()
    >>> [row[:2] for row in zip(*pairs.to_pydict().values())]
    [(1, 2), (1, 3), (2, 3)]
    """

def regionprops_table(
    labels: Volume,
    intensity: Volume | None = None,
    properties: str | Sequence[str] | None = None,
    *,
    spacing: float | Sequence[float] | str | None = None,
    nan: str = 'raise',
    intensity_quantiles: Sequence[float] = (),
    extra_properties: Sequence[Any] | Mapping[Any, Any] = (),
) -> Table:
    """Measure every region of a label volume.

    Parameters
    ----------
    labels : Volume or numpy.ndarray
        Integer labels; 0 is background. Label the objects of a mask with `label` first.
    intensity : Volume or numpy.ndarray, optional
        Intensities for the properties that need them, with the shape of the labels; scikit-image's
        name ``intensity_image`` is also accepted. Each of several channels has its own columns,
        which end with its name or number, as in ``intensity_mean-DAPI``.
    properties : str or sequence of str, optional
        Names of the properties, or one name, as in scikit-image. These are computed by default:
        ``num_pixels``, ``area``, ``bbox``, ``centroid``, ``extent``, ``equivalent_diameter_area``,
        ``axis_major_length``, ``axis_minor_length``, ``inertia_tensor_eigvals``, and
        ``orientation`` for two axes. With ``intensity``, so are ``intensity_min``,
        ``intensity_max``, ``intensity_mean``, ``intensity_std`` and ``centroid_weighted``. The
        defaults also include properties that scikit-image lacks: ``principal_axes``,
        ``surface_area_faces``, ``touches_border`` and ``intensity_sum``. These are computed on
        request: ``area_bbox``, ``area_convex``, ``centroid_local``, ``solidity``,
        ``feret_diameter_max``, ``euler_number``, ``inertia_tensor``, ``moments``,
        ``moments_central`` and ``moments_normalized``. Exponents of moments are up to 3 in total.
        Two axes add ``eccentricity``, and for voxels with equal sides ``perimeter``,
        ``perimeter_crofton`` and ``moments_hu``. With ``intensity``, you can request
        ``centroid_weighted_local``, ``moments_weighted``, ``moments_weighted_central``,
        ``moments_weighted_normalized``, and ``moments_weighted_hu`` for two axes.
        ``minimum_position`` and ``maximum_position`` are in voxels, the first of several; their
        names are scipy's. ``intensity_median`` needs integers of up to 16 bits. ``area_filled``
        includes the holes of a region, and is the last column; it needs stored labels, and reads
        the bounding box of each region.
    spacing : float, sequence of float or "voxel_size", optional
        Extent of a voxel, for areas, centroids and lengths: one value for all axes or one per axis; 1
        by default. ``"voxel_size"`` uses the voxel size of the volume.
    nan : {"raise", "omit"}, default: "raise"
        Whether NaN and infinite intensities raise an error on computation or are ignored.
    intensity_quantiles : sequence of float, default: ()
        Quantiles to compute, from 0 to 1, as in `numpy.quantile`. Intensities must be integers of
        up to 16 bits. The columns have names such as ``intensity_quantile-0.25``.
    extra_properties : sequence or mapping of callable, default: ()
        Functions of a region's mask in its bounding box, or of its mask and intensities, as in
        scikit-image. Each returns a number for a column with the function's name, as float64 or
        with the dtype from a mapping. Labels and intensities must be stored.

    Returns
    -------
    Table
        A lazy table, sorted by its column ``label``. Properties with several numbers have several
        columns, such as ``bbox-0`` and ``bbox-1``.

    Raises
    ------
    ValueError
        If a property is unknown or needs ``intensity``, or shapes differ. On computation, if an
        intensity is NaN or infinite and ``nan="raise"``, or the regions need more memory than is
        available.
    TypeError
        If ``labels`` is neither a volume nor an array, or has an unsupported dtype.

    See Also
    --------
    region_adjacency : finds touching regions.
    Table.at : looks up labels, like ``index`` of the measurements in `scipy.ndimage`.

    Notes
    -----
    One sweep; labels from `label` share its second sweep. Sums are exact, so the table is the same,
    bit for bit, for any slabs. Lengths of axes are computed with LAPACK, and their last bits may
    differ between machines.

    Memory grows with the labels of one slab, about 300 to 550 bytes each. No worker holds the whole
    table. Sums of floats from 1e-150 to 1e150 need up to 3 kB for each label. Medians and quantiles
    also keep the distinct values of each label (16 bytes each), and convex hulls their vertices (12
    bytes each). Convex hulls and Feret diameters (between centres of faces) are also computed for
    flat regions of a volume, where scikit-image returns 0.

    References
    ----------
    `skimage.measure.regionprops_table`.

    Examples
    --------
    >>> labels = bv.open(np.array([[1, 1, 0], [0, 2, 2]], "u1"))
    >>> table = bv.regionprops_table(labels, properties=["area", "centroid"])
    >>> table.to_pyarrow().to_pydict()
    {'label': [1, 2], 'area': [2.0, 2.0], 'centroid-0': [0.0, 1.0], 'centroid-1': [0.5, 1.5]}
    """

def register(
    fixed: Volume,
    moving: Volume,
    *,
    model: str = 'translation',
    max_shift: float | None = None,
    min_quality: float = 0.3,
    max_voxels: int = 2097152,
    mask: Volume | Sequence[Volume | None] | None = None,
    nodata: float | None = None,
    progress: bool | Callable[..., None] | None = None,
) -> np.ndarray:
    """Find the transform that aligns one volume with another.

    Use it for two channels, two time points or two scans of the same object.

    Parameters
    ----------
    fixed : Volume or numpy.ndarray
        The volume that is not moved, with one channel.
    moving : Volume or numpy.ndarray
        The volume to align, with the same axes and the same voxel size.
    model : {"translation", "rigid", "affine"}, default: "translation"
        The transformation model: translation, rigid or affine. Rotations are found up to 30 degrees
        for planes, and up to about 10 for volumes.
    max_shift : float, optional
        Maximum shift of the centre along each axis, in voxels; half of the volume by default.
        Shifts are rounded to whole voxels for this comparison.
    min_quality : float, default: 0.3
        The minimum correlation of the aligned voxels. The correlation must also be significant:
        unrelated volumes would correlate as much in less than one in a million cases.
    max_voxels : int, default: 2097152
        Both volumes are downsampled until they have fewer voxels than this. The error of shifts is
        about 0.05 downsampled voxels.
    mask : Volume, numpy.ndarray or sequence of these, optional
        Only voxels with a nonzero mask are compared: one mask for both volumes, or a list with a
        mask or None for each, ``fixed`` first. A mask has the shape of its volume, and bool or
        integer voxels.
    nodata : float, optional
        The value of voxels without data in both volumes, such as 0 for black borders. They are not
        compared.
    progress : bool or callable, optional
        Whether to show progress on standard error, or a function to call with the progress, as in
        `compute`.

    Returns
    -------
    numpy.ndarray
        A homogeneous matrix for `affine_transform`: it maps indices of ``fixed`` to indices of
        ``moving``.

    Raises
    ------
    ValueError
        If a parameter is out of range, or no transform reaches ``min_quality``. If the volumes
        differ in axes or voxel size, or have several channels, time points or no voxels. If a mask
        differs from its volume in shape, axes or voxel size, or leaves no valid voxel.
    TypeError
        If an input or a mask is neither a volume nor an array, or a mask has floats.

    See Also
    --------
    affine_transform : applies the result.
    fit_transform : finds a transform from pairs of points.
    register_slices : aligns the slices of one volume.

    Notes
    -----
    One sweep over each volume downsamples it. The downsampled volumes are aligned in memory: first
    by phase correlation, and then by least squares of intensities, over levels of half the extent
    each. Intensities may differ by a gain and an offset, but not in kind.

    Voxels outside of ``mask``, voxels with the value ``nodata``, and NaN and infinite voxels are
    missing. Correlations, shifts and the test for chance use only voxels that both volumes have. All
    other values are ordinary voxels: without ``nodata``, a border of zeros is aligned as well. A
    downsampled voxel is the mean of its valid voxels, if these are at least half. Without ``mask``
    and ``nodata``, it is missing if any voxel is.

    References
    ----------
    S. Baker and I. Matthews, "Lucas-Kanade 20 years on", International Journal of Computer Vision
    56, 2004.

    D. Padfield, "Masked object registration in the Fourier domain", IEEE Transactions on Image
    Processing 21, 2012.

    Examples
    --------
    >>> from scipy import ndimage
    >>> tissue = ndimage.gaussian_filter(np.random.default_rng(0).normal(size=(12, 60, 60)), 2)
    >>> fixed, moving = bv.open(tissue[:, :50, :50]), bv.open(tissue[:, 4:54, 1:51])
    >>> matrix = bv.register(fixed, moving)
    >>> np.round(matrix[:3, 3]) + 0.0
    array([ 0., -4., -1.])
    >>> aligned = bv.affine_transform(moving, matrix, output_shape=fixed.shape)
    """

def register_elastic(
    stack: Volume,
    transforms: Any = None,
    *,
    spacing: float | None = None,
    neighbours: int = 3,
    skip: Iterable[int] = (),
    max_displacement: float | None = None,
    min_quality: float = 0.3,
    max_side: int = 1024,
    trend: str | float = 20,
    mask: Volume | None = None,
    nodata: float | None = None,
    progress: bool | Callable[..., None] | None = None,
) -> ComputedTable:
    """Find displacements within slices that align each slice with its neighbours.

    Use it after `register_slices` for sections that were stretched or compressed locally.
    `apply_transforms` applies both results in one interpolation.

    Parameters
    ----------
    stack : Volume or numpy.ndarray
        A volume or an array with one channel.
    transforms : array_like, table or path, optional
        Transforms that align the slices approximately, as accepted by `apply_transforms`. By default
        the stack is aligned already.
    spacing : float, optional
        Maximum distance of nodes along y and x, in voxels. Blocks of twice this side are compared
        around each node. Larger numbers give smoother displacements. By default, a sixteenth of the
        longer side of a plane, and at least 32 downsampled voxels.
    neighbours : int, default: 3
        Number of subsequent slices to compare each slice with. More than 1 bridges bad slices.
    skip : iterable of int, default: ()
        Slices to exclude from the comparison, which are not deformed. Empty slices are detected
        automatically.
    max_displacement : float, optional
        Maximum difference of the displacements of two compared slices along y and x, in voxels; half
        of ``spacing`` by default. It cannot exceed ``spacing``.
    min_quality : float, default: 0.3
        Minimum correlation of the aligned voxels of two blocks.
    max_side : int, default: 1024
        Maximum extent of the compared planes: larger ones are downsampled by an integer factor.
    trend : {"keep", "remove"} or float, default: 20
        What to do with slow movements of the tissue, which alignment straightens. A number removes
        them from the displacements: movements over more than about this many slices remain in the
        aligned volume. The number is the standard deviation of a Gaussian. ``"remove"`` only
        removes straight movements, and ``"keep"`` none. Two slices have no trend.
    mask : Volume or numpy.ndarray, optional
        Only voxels with a nonzero mask are compared. A mask has the shape of the stack, and bool or
        integer voxels.
    nodata : float, optional
        The value of voxels without data, such as 0 for tears. They are not compared.
    progress : bool or callable, optional
        Whether to show progress on standard error, or a function to call with the progress, as in
        `compute`.

    Returns
    -------
    ComputedTable
        A row for each slice ``z`` and node. ``y`` and ``x`` are the position of the node in the
        aligned volume, and ``d_y`` and ``d_x`` its displacement, in voxels: the voxel at this
        position is taken from the position plus the displacement. ``links`` is the number of blocks
        at this node that were used, and ``quality`` their mean correlation. Nodes without links are
        interpolated. Slices without links have no displacement.

    Raises
    ------
    ValueError
        If a parameter is out of range, or the volume has several channels, time points, no voxels,
        or no axes z, y and x. If the mask differs in shape, axes or voxel size, or the number of
        transforms does not match the slices.
    TypeError
        If ``stack`` or ``mask`` is neither a volume nor an array, or ``mask`` has floats.

    See Also
    --------
    register_slices : finds one transform for each slice.
    apply_transforms : applies the result.
    warp : applies stored displacements of all voxels.

    Notes
    -----
    One sweep aligns and downsamples the stack. The downsampled planes are kept in memory, up to
    ``options.max_inmemory``, with about 500 bytes for each node of a slice and 6 KiB for each node of
    one plane.

    Blocks are aligned as in `register_slices`: by phase correlation, and then by an affine map that
    minimizes squares of intensities, with the same limits for links that may be due to chance. Blocks
    that disagree with the median of their neighbours are not used. The other ones move the nodes of a
    grid that resists bending. At each node, the displacements of all slices are then solved together,
    and pairs that disagree with others lose weight. Slices are deformed and compared a second time,
    which finds the remaining errors. This is repeated, up to five comparisons, while more than a
    tenth more blocks match.

    Displacements are relative to the transforms: with ``trend="keep"``, their mean at each node is
    0. Only differences of slices are known, so slow movements of the tissue cannot be distinguished
    from errors that accumulate. A number for ``trend`` therefore removes both.

    Missing voxels are treated as in `register_slices`. Folds and tears without ``mask`` or
    ``nodata`` are ordinary voxels, but most of their blocks disagree with others.

    References
    ----------
    S. Saalfeld et al., "Elastic volume reconstruction from series of ultra-thin microscopy
    sections", Nature Methods 9, 2012; J. Westerweel and F. Scarano, "Universal outlier detection for
    PIV data", Experiments in Fluids 39, 2005; P. H. C. Eilers and B. D. Marx, "Flexible smoothing
    with B-splines and penalties", Statistical Science 11, 1996.

    Examples
    --------
    >>> from scipy import ndimage
    >>> rng = np.random.default_rng(0)
    >>> plane = ndimage.gaussian_filter(rng.normal(size=(96, 96)), 2).astype("f4")
    >>> y, x = np.mgrid[:96, :96]
    >>> bent = ndimage.map_coordinates(plane, [y, x + 2 * np.sin(y / 30)], mode="nearest")
    >>> stack = np.stack([plane, bent])
    >>> table = bv.register_elastic(stack, trend="keep")
    >>> aligned = bv.compute(bv.apply_transforms(stack, None, displacements=table))
    >>> before, after = (np.corrcoef(s[:, 8:-8, 8:-8].reshape(2, -1))[0, 1] for s in (stack, aligned))
    >>> bool(before < 0.9), bool(after > 0.98)
    (True, True)
    """

def register_frames(
    movie: Volume,
    *,
    model: str = 'translation',
    method: str = 'intensity',
    neighbours: int = 3,
    reference: int | None = None,
    skip: Iterable[int] = (),
    max_shift: float | None = None,
    min_quality: float = 0.3,
    max_side: int = 256,
    mask: Volume | None = None,
    nodata: float | None = None,
    progress: bool | Callable[..., None] | None = None,
) -> ComputedTable:
    """Find the transform that aligns each frame with the frames around it.

    Use it for movies that drift.

    Parameters
    ----------
    movie : Volume
        A volume with one channel and a time axis.
    model : {"translation", "rigid", "affine"}, default: "translation"
        The transformation model: translation, rigid or affine.
    method : {"intensity", "keypoints"}, default: "intensity"
        How to find the first approximation for two frames, as in `register_slices`; ``"keypoints"``
        only for two-dimensional frames.
    neighbours : int, default: 3
        Number of subsequent frames to compare each frame with.
    reference : int, optional
        The frame that is not moved; by default one near the middle that matches many others.
    skip : iterable of int, default: ()
        Frames to exclude from the comparison.
    max_shift : float, optional
        Maximum shift between two compared frames along each axis, in voxels; half of the frame by
        default.
    min_quality : float, default: 0.3
        Minimum correlation of the aligned voxels for linking two frames.
    max_side : int, default: 256
        Maximum extent of the compared frames: longer axes are downsampled by an integer factor. The
        error of shifts is about 0.05 downsampled voxels.
    mask : Volume or numpy.ndarray, optional
        Only voxels with a nonzero mask are compared: a mask of the shape of the movie, or of one
        frame for all frames.
    nodata : float, optional
        The value of voxels without data. They are not compared.
    progress : bool or callable, optional
        Whether to show progress on standard error, or a function to call with the progress, as in
        `compute`.

    Returns
    -------
    ComputedTable
        A row for each frame ``t``. ``z``, ``y`` and ``x`` are the position of its first voxel in
        the aligned movie, and ``m_zz`` to ``m_xx`` are the entries of the matrix. ``links``,
        ``confirmed``, ``quality`` and ``residual`` are as in `register_slices`. Two-dimensional
        frames have no columns for z.

    Raises
    ------
    ValueError
        If a parameter is out of range, or the volume has several channels, no time axis, or no
        voxels. If the mask differs in shape, axes or voxel size. With ``method="keypoints"``, also
        for the reasons listed in `register_slices`.
    TypeError
        If ``movie`` or ``mask`` is neither a volume nor an array, or ``mask`` has floats.

    See Also
    --------
    register_slices : aligns the slices of a stack.
    affine_transform : applies the inverse of a transform to a frame.

    Notes
    -----
    Rotations are in physical units, so the voxel size is needed if voxels are anisotropic.

    One sweep for each frame downsamples it. Only as many downsampled frames as there are neighbours
    are held in memory at a time. Missing voxels and slow movements are treated as in
    `register_slices`.

    References
    ----------
    See `register_slices`.

    Examples
    --------
    >>> from scipy import ndimage
    >>> rng = np.random.default_rng(0)
    >>> film = ndimage.gaussian_filter(rng.normal(size=(80, 90)), 2).astype("f4")
    >>> frames = [film[8:72, 8 + x : 72 + x] for x in (0, 3, 1)]
    >>> movie = bv.open(np.stack(frames), axes="tyx")
    >>> table = bv.register_frames(movie, reference=0)
    >>> [round(x, 1) + 0.0 for x in table["x"].to_pylist()]
    [0.0, 3.0, 1.0]
    """

def register_slices(
    stack: Volume,
    *,
    model: str = 'translation',
    method: str = 'intensity',
    neighbours: int = 3,
    reference: int | None = None,
    skip: Iterable[int] = (),
    max_shift: float | None = None,
    min_quality: float = 0.3,
    max_side: int = 1024,
    trend: str | float = 'keep',
    prior: Any = None,
    mask: Volume | None = None,
    nodata: float | None = None,
    progress: bool | Callable[..., None] | None = None,
) -> ComputedTable:
    """Find the transform that aligns each slice with its neighbours.

    Use it for serial sections and for movies that drift. `apply_transforms` applies the result to
    the whole volume.

    Parameters
    ----------
    stack : Volume or numpy.ndarray
        A volume or an array with one channel.
    model : {"translation", "rigid", "affine"}, default: "translation"
        The transformation model: translation, rigid or affine.
    method : {"intensity", "keypoints"}, default: "intensity"
        How to find the first approximation for two slices. ``"intensity"`` compares their voxels,
        and finds rotations of up to 30 degrees. ``"keypoints"`` matches SIFT keypoints from
        scikit-image, and finds any rotation if slices have distinct structures. Keypoints are not
        available for ``model="translation"``.
    neighbours : int, default: 3
        Number of subsequent slices to compare each slice with. More than 1 bridges bad slices and
        prevents errors from adding up.
    reference : int, optional
        The slice that is not moved; by default one near the middle that matches many others.
    skip : iterable of int, default: ()
        Slices to exclude from the comparison, such as missing ones. Empty slices are detected
        automatically.
    max_shift : float, optional
        Maximum shift between the centres of two compared slices along y and x, in voxels; half of
        the plane by default. Shifts are rounded to whole voxels for this comparison.
    min_quality : float, default: 0.3
        Minimum correlation of the aligned voxels for linking two slices.
    max_side : int, default: 1024
        Maximum extent of the compared planes: larger ones are downsampled by an integer factor. The
        error of shifts is about 0.05 downsampled voxels.
    trend : {"keep", "remove"} or float, default: "keep"
        What to do with slow movements of the tissue, which alignment straightens. A number removes
        them from the transforms, so only the jitter between slices is corrected: movements over
        more than about this many slices remain in the aligned volume. The number is the standard
        deviation of a Gaussian. ``"remove"`` only removes straight movements, which slanted
        structures cause.
    prior : array_like, table or path, optional
        Transforms with the true slow movement, such as positions of the stage or an earlier
        alignment, as accepted by `apply_transforms`. They replace the movement that ``trend``
        removes, smoothed in the same way.
    mask : Volume or numpy.ndarray, optional
        Only voxels with a nonzero mask are compared. A mask has the shape of the stack, and bool or
        integer voxels.
    nodata : float, optional
        The value of voxels without data, such as 0 for black parts. They are not compared.
    progress : bool or callable, optional
        Whether to show progress on standard error, or a function to call with the progress, as in
        `compute`.

    Returns
    -------
    ComputedTable
        A row for each slice ``z``. ``y`` and ``x`` are the position of its first voxel in the
        aligned volume, and ``m_yy``, ``m_yx``, ``m_xy`` and ``m_xx`` are the matrix that maps its
        indices. ``links`` is the number of links to other slices, and ``quality`` their mean
        quality. ``confirmed`` is true if links agree with each other on this slice. ``residual`` is
        the largest distance in voxels by which a link disagrees. A slice without links is placed
        between its neighbours, with the matrix of the nearest linked slice.

    Raises
    ------
    ValueError
        If a parameter is out of range, or the volume has several channels, time points, no voxels,
        or no axes z, y and x. If the mask differs in shape, axes or voxel size. With
        ``method="keypoints"``, also if scikit-image is not installed or no two slices share
        keypoints.
    TypeError
        If ``stack`` or ``mask`` is neither a volume nor an array, or ``mask`` has floats.

    See Also
    --------
    apply_transforms : applies the result.
    register_frames : aligns the frames of a movie.
    register_tiles : finds the positions of tiles.

    Notes
    -----
    Rotations are in physical units, so the voxel size is needed if pixels are not square.

    One sweep downsamples the stack. The downsampled planes are held in memory, up to
    ``options.max_inmemory``. Pairs are aligned first by phase correlation or keypoints, and then by
    least squares of intensities. Keypoints are detected in planes that are downsampled to at most
    256 voxels a side. The model is fitted to them by RANSAC with a fixed seed. All transforms are
    solved together, without links that contradict other links. Links that may be due to chance are
    also excluded. A link is used only if unrelated slices would reach its correlation in less than
    one in a thousand cases. If no other links confirm it, the limit is one in a million.
    Links of slices that deform disagree by several voxels. Such links are only used if they agree
    better than unrelated ones would. Otherwise, these slices have no links, and are not moved.
    Groups of slices without links between them are placed so that the mean transforms on both sides
    of a gap agree. The number of slices of these means follows from the movements within groups: it
    is large if slices jitter, and small if they drift.

    Errors of links add up from slice to slice if structures change. The differences between parts
    of the planes, and their increase with the distance of slices, show how large these errors are.
    If such errors explain slow movements, they are removed, so only jitter is corrected. If this is
    uncertain, they are only removed in part; the share is the probability that errors explain them.
    Only an explicit ``reference`` is then not moved. Slow real movements that are as small are
    removed as well.

    The slow movement is a straight line with Gaussian weights around each slice, fitted to the
    centres and matrices of slices with links. Larger numbers of ``trend`` keep less jitter, and
    follow the tissue less closely. After the trend is removed, an explicit ``reference`` is not
    moved, except with ``prior``.

    Voxels outside of ``mask``, voxels with the value ``nodata``, and NaN and infinite voxels are
    missing. Correlations, shifts and the test for chance use only voxels that both slices have. All
    other values are ordinary voxels: without ``nodata``, a border of zeros is aligned as well.
    Missing voxels between valid ones are interpolated, such as scattered voxels or every third row.
    Two slices are not linked if too few common voxels remain to find fractions of voxels. A
    downsampled voxel is the mean of its valid voxels, if these are at least half. Without ``mask``
    and ``nodata``, it is missing if any voxel is. A slice without valid voxels has no link.

    References
    ----------
    C. D. Kuglin and D. C. Hines, "The phase correlation image alignment method", 1975; S. Baker and
    I. Matthews, "Lucas-Kanade 20 years on", International Journal of Computer Vision 56, 2004;
    D. G. Lowe, "Distinctive image features from scale-invariant keypoints", ibid. 60, 2004;
    D. Padfield, "Masked object registration in the Fourier domain", IEEE Transactions on Image
    Processing 21, 2012; W. S. Cleveland, "Robust locally weighted regression and smoothing
    scatterplots", Journal of the American Statistical Association 74, 1979.

    Examples
    --------
    >>> from scipy import ndimage
    >>> rng = np.random.default_rng(0)
    >>> film = ndimage.gaussian_filter(rng.normal(size=(80, 90)), 2)
    >>> stack = np.stack([film[8:72, 8 + k : 72 + k] for k in (0, 3, 1)]).astype("f4")
    >>> table = bv.register_slices(stack, reference=0)
    >>> [round(x, 1) + 0.0 for x in table["x"].to_pylist()]
    [0.0, 3.0, 1.0]
    >>> aligned = bv.apply_transforms(stack, table)
    """

def register_tiles(
    tiles: Sequence[Volume],
    positions: Any,
    *,
    model: str = 'translation',
    max_shift: float | Sequence[float] = 20.0,
    min_quality: float = 0.5,
    reference: int | None = None,
    subvoxel: bool = True,
    channel: int | str | None = None,
    mask: Volume | Sequence[Volume | None] | None = None,
    nodata: float | None = None,
    progress: bool | Callable[..., None] | None = None,
) -> tuple[ComputedTable, ComputedTable]:
    """Find the positions of overlapping tiles from their voxels.

    Use it if the stage positions of a microscope are not exact. Pass the result to `fuse`.

    Parameters
    ----------
    tiles : sequence of Volume or numpy.ndarray
        Tiles with the same axes. If they have several channels, ``channel`` selects one.
    positions : array_like, table or path
        For each tile, the approximate position of its first voxel in voxels, with a number for each
        spatial axis. If tiles are rotated, sheared or scaled, give a matrix for each, as for
        `fuse`: it maps indices of the tile to positions. A table, such as a DataFrame or the path of
        a CSV file, has the columns of the first result.
    model : {"translation", "rigid", "affine", "slices"}, default: "translation"
        The transformation model: translation, rigid or affine. Rotations of a few degrees are
        found. Given matrices are corrected by such a transformation. ``"slices"`` finds a
        translation of each tile, and then of each of its slices along y and x, for stages that
        wobble while a stack is acquired.
    max_shift : float or sequence of float, default: 20.0
        The maximum error of the distance between two tiles, in voxels, along the axes of the
        positions; one number for all axes or one per axis. If a position is wrong by at most n
        voxels, a distance is wrong by at most 2 n.
    min_quality : float, default: 0.5
        Minimum correlation of the voxels in the overlap for linking two tiles.
    reference : int, optional
        The index of a tile that keeps its given position; all tiles are shifted accordingly. By
        default, the mean of all positions is kept.
    subvoxel : bool, default: True
        Whether to find fractions of voxels. If False, positions of linked tiles are rounded to whole
        voxels, and `fuse` copies their voxels instead of interpolating them. Tiles without links are
        not rounded. Only for ``model="translation"`` without given matrices.
    channel : int or str, optional
        The number or the name of the channel that is compared, such as ``"DAPI"``. `fuse` applies
        the result to all channels.
    mask : Volume, numpy.ndarray or sequence of these, optional
        Only voxels with a nonzero mask are compared: one mask for all tiles, or a list with a mask
        or None for each tile. A mask has the shape of its tile, and bool or integer voxels.
    nodata : float, optional
        The value of voxels without data, such as 0 for black borders. They are not compared.
    progress : bool or callable, optional
        Whether to show progress on standard error, or a function to call with the progress, as in
        `compute`.

    Returns
    -------
    positions : ComputedTable
        A row for each tile, in order. ``z``, ``y`` and ``x`` are its position, with a column for
        each axis. Unless all transformations are translations, there are columns for the entries
        of its matrix, such as ``m_zz``. ``links`` is the number of links to other tiles, and ``residual``
        is the largest distance in voxels by which a link disagrees in its overlap. ``confirmed`` is
        true if links of the tile are in a loop that agrees. Tiles without links keep their given
        position, and linked tiles keep the mean of their given positions. With ``reference``, all
        tiles are then shifted together, including tiles without links. For ``model="slices"``,
        there is a row for each slice of each tile, with its numbers in ``tile`` and ``slice``, and
        its position in ``z``, ``y`` and ``x``. ``links`` is the number of slices of other tiles to
        which it is linked by links that are used.
    pairs : ComputedTable
        A row for each pair of tiles, ``a`` and ``b``, that should overlap. ``shift_z``, ``shift_y``
        and ``shift_x`` are their measured distance along each axis at the centre of the overlap.
        ``quality`` is the correlation, and ``residual`` is as for tiles. ``used`` is true if the
        pair determines the positions, and ``confirmed`` if it is in a loop of used pairs that
        agree.

    Raises
    ------
    ValueError
        If a parameter is out of range, or there is not one position for each tile. If tiles differ
        in axes or voxel size, or have time points or no voxels. If a tile has several channels and
        none is selected, or lacks the selected one. If a mask differs from its tile in shape, axes
        or voxel size, or the number of masks is wrong.
    TypeError
        If a tile or a mask is neither a volume nor an array, or a mask has floats.

    See Also
    --------
    fuse : makes one volume of the tiles.
    register_slices : aligns the slices of a stack.

    Notes
    -----
    Only overlaps are read, each once for each of its two tiles. Overlaps of more than two million
    voxels are downsampled. Pairs are compared in threads, by phase correlation and then by least
    squares of intensities. The positions of all tiles are solved together. Pairs that contradict
    most other pairs are left out. Robust weights determine them, so a fifth of all pairs may be
    wrong. Pairs that may match by chance, because they overlap little, are empty or have repeating
    structures, are also excluded. A pair is used only if unrelated tiles would match as well in
    less than one in a thousand cases. If no loop of other pairs confirms the pair, the limit is one
    in a million. Such a pair is not used if it is in a loop that contradicts itself. If structures
    repeat, several shifts match. A pair is then used if one shift leaves significantly smaller
    residuals than all others, with the same limits. If the voxels that are read do not contain the
    other shifts, a loop of pairs must confirm it. Overlaps that only vary along some directions, such
    as layers, do not determine a shift and link no tiles. Without matrices, other translations that may
    be chance are used as well if loops of up to four of them close within half a voxel, or less if
    ``max_shift`` is small. Different structures must determine them, at a distance of a quarter of
    the longest side of a tile. These translations need fractions of voxels, and images without
    periods. Without ``reference``, the mean position of all tiles that pairs link does not change.
    The mean of affine matrices is the identity. Rotations are then projected from affine maps, for
    turns of a few degrees.

    Two tiles with the same given matrix are compared in their own voxels, without interpolation. If
    their matrices differ, the second tile is resampled to the voxels of the first. The found
    transformations are composed with the given matrices. The mean of affine corrections is the
    identity.

    For ``model="slices"``, overlaps are read a second time. Each slice is compared with the nearest
    slice of the other tile, within ``max_shift``. A link of two slices needs ``min_quality`` and a
    probability of chance of less than one in a million. The movements of all slices are solved
    together. How much successive slices move alike follows from the links. Slices without links
    follow their neighbours to this degree, and otherwise their tile. Loops of links, such as between
    four tiles, show which links are wrong. These are not used; up to about 30 % of all links may be
    wrong. A link without a loop, as in a row of tiles, is only used if it is probable from the other
    links of its two tiles. A single slice that moves much farther than all others is therefore not
    used there, because its link does not differ from a wrong one. Three such slices in succession
    confirm each other. Two tiles of fewer than about six slices cannot show which links are wrong.
    A link without a loop is not used either if a link that is as probable contradicts it. If more
    than a tenth of all links are wrong, two links that only agree with each other do not move a
    slice far.
    If no loop confirms the links of up to eight slices of two linked tiles, their mean, or the
    mean of all links of both tiles, must agree with the distance of the tiles. Otherwise, none of these
    links is used.
    A tile without links is placed by the links of its slices, which may match although the whole
    tile does not. If more than two fifths of the links of a tile contradict the others, its slices
    have the translation of the tile, with a warning. Movements that all tiles share are not
    detected: each is divided among the tiles of an overlap. The tile ``reference`` does not wobble.

    Voxels outside of ``mask``, voxels with the value ``nodata``, and NaN and infinite voxels are
    missing. Correlations, shifts and the test for chance use only voxels that both tiles have. All
    other values are ordinary voxels: without ``nodata``, a border of zeros is aligned as well.
    Missing voxels between valid ones are interpolated, such as scattered voxels or every third row.
    A pair is not used if too few common voxels remain to find fractions of voxels. A downsampled
    voxel is the mean of its valid voxels, if these are at least half. Without ``mask`` and
    ``nodata``, it is missing if any voxel is. A tile without valid voxels has no link.

    References
    ----------
    S. Preibisch, S. Saalfeld and P. Tomancak, "Globally optimal stitching of tiled 3D microscopic
    image acquisitions", Bioinformatics 25, 2009.

    M. J. Black and A. Rangarajan, "On the unification of line processes, outlier rejection, and
    robust statistics with applications in early vision", International Journal of Computer Vision
    19, 1996.

    D. Padfield, "Masked object registration in the Fourier domain", IEEE Transactions on Image
    Processing 21, 2012.

    Q. H. Vuong, "Likelihood ratio tests for model selection and non-nested hypotheses",
    Econometrica 57, 1989.

    Examples
    --------
    >>> from scipy import ndimage
    >>> film = ndimage.gaussian_filter(np.random.default_rng(0).normal(size=(60, 100)), 2)
    >>> left, right = film[:, :60], film[2:, 43:]
    >>> table, pairs = bv.register_tiles([left, right], [(0, 0), (0, 40)])
    >>> [round(b - a, 1) for a, b in (table["y"].to_pylist(), table["x"].to_pylist())]
    [2.0, 43.0]
    >>> volume = bv.fuse([left.astype("f4"), right.astype("f4")], table)
    """

def relabel(
    labels: Volume,
    mapping: Table | Any,
    *,
    missing: Any = 'error',
    dtype: DTypeLike | None = None,
    columns: Sequence[str] | None = None,
) -> Volume:
    """Replace labels by the values of a mapping.

    Parameters
    ----------
    labels : Volume or numpy.ndarray
        Labels, bool or integers from 0.
    mapping : dict, pair of array_like, table, Table or path
        New values by label: a dict, two arrays (labels and values), or a table. A table can be a
        pyarrow or pandas table, a lazy table such as from `cut`, a Parquet file, or a folder of
        Parquet files. Integers are kept exactly, up to uint64; fractional values need a float
        ``dtype``.
    missing : {"error", "keep"} or number, default: "error"
        How to treat labels that the mapping lacks: raise an error on computation, keep the labels,
        or replace them with this number. 0 stays 0 unless it is mapped.
    dtype : dtype, optional
        Dtype of the result; the dtype of the mapping's values by default.
    columns : sequence of str, optional
        For a table, the columns of labels and of new values; the first two by default. Three names,
        such as ``("t", "label", "track")``, are columns of time points, labels and new values. Each
        time point then has its own mapping, as in the result of `track`.

    Returns
    -------
    Volume
        A volume of ``dtype``.

    Raises
    ------
    ValueError
        If ``dtype`` cannot hold the values, or the table lacks the columns. On computation, if a
        label is missing. The message contains the label.
    TypeError
        If ``labels`` is neither a volume nor an array, or has an unsupported dtype, or the mapping
        has an unsupported type.

    See Also
    --------
    regionprops_table : measures regions, to select values.
    cut : returns lazy tables of labels and segments.
    track : returns tables of labels and tracks for each time point.

    Notes
    -----
    One sweep. Every worker keeps mappings of time points in memory. All other lazy tables, and
    files with more than a million rows, are looked up by key in one additional sweep. In this case,
    no worker holds the whole mapping. If a lazy table depends on volumes, they must have the
    labels' shape, and are processed in the first of the two sweeps.

    References
    ----------
    `skimage.util.map_array`.

    Examples
    --------
    >>> labels = bv.open(np.array([[0, 7, 9], [7, 7, 0]], "u4"))
    >>> np.asarray(bv.relabel(labels, {7: 1, 9: 200}, dtype="u1"))
    array([[  0,   1, 200],
           [  1,   1,   0]], dtype=uint8)
    """

def relabel_sequential(
    labels: Volume,
    offset: int = 1,
    *,
    by: str = 'label',
    min_size: int | str = 0,
    dtype: DTypeLike | None = None,
) -> tuple[Volume, Table, Table]:
    """Renumber labels without gaps, in order: 1, 2, 3, ...

    Use it after labels have been removed or merged, or to sort labels by their size.

    Parameters
    ----------
    labels : Volume or numpy.ndarray
        Bool or integer labels; 0 is background.
    offset : int, default: 1
        The smallest new label, above 0.
    by : {"label", "size"}, default: "label"
        The order of new labels. ``"label"`` keeps the order, and ``"size"`` begins with the label
        that has the most voxels. Labels of the same size keep their order.
    min_size : int or str, default: 0
        Labels with fewer voxels become 0. A number of voxels, or a volume such as
        ``"0.001 um^3"``, which needs a voxel size.
    dtype : dtype, optional
        The dtype of the result. By default the dtype of ``labels``, or a wider one if ``offset`` and
        the largest possible number of labels need it; uint8 for bool.

    Returns
    -------
    relabeled : Volume
        The new labels; 0 stays 0.
    forward : Table
        A lazy table with columns ``label``, ``new_label``, sorted by the first. It has no row for
        labels that became 0.
    inverse : Table
        The same rows with columns ``new_label``, ``label``, so ``inverse.at(new, "label")`` looks up
        old labels.

    Raises
    ------
    ValueError
        If ``offset`` is below 1, or ``by`` or ``min_size`` is invalid. On computation, if a label
        is negative, a new label does not fit ``dtype``, or the labels need more memory than is
        available.
    TypeError
        If ``labels`` is neither a volume nor an array, or has an unsupported dtype.

    See Also
    --------
    relabel : replaces labels by given values.
    remove_small_objects, keep_largest : select labels by size without new numbers.
    join_segmentations : combines the labels of two volumes.

    Notes
    -----
    Two sweeps: the first collects the labels, and the second writes the result. Memory grows with
    the labels of one slab, about 24 bytes each. While they are merged, memory is several times as
    large.

    References
    ----------
    `skimage.segmentation.relabel_sequential`, which returns maps as arrays. ``by="size"`` is
    SimpleITK's ``RelabelComponent``.

    Examples
    --------
    >>> labels = bv.open(np.array([[0, 7, 7, 2, 9]], "u1"))
    >>> relabeled, forward, inverse = bv.relabel_sequential(labels)
    >>> np.asarray(relabeled)
    array([[0, 2, 2, 1, 3]], dtype=uint8)
    >>> forward.at([7, 9], "new_label"), inverse.at([1], "label")
    (array([2, 3], dtype=uint64), array([2], dtype=uint64))

    Begin with the largest label, and drop the labels of fewer than two voxels:

    >>> np.asarray(bv.relabel_sequential(np.array([[3, 5, 5, 5, 8, 8]]), by="size", min_size=2)[0])
    array([[0, 1, 1, 1, 2, 2]])
    """

def remove_small_holes(
    mask: Volume,
    max_size: int | str = 64,
    connectivity: int = 1,
    *,
    structure: ArrayLike | None = None,
) -> Volume:
    """Fill small components of the background.

    Parameters
    ----------
    mask : Volume or numpy.ndarray
        A volume or an array with up to three axes. Nonzero voxels are foreground.
    max_size : int or str, default: 64
        The largest size to fill: a number of voxels, or a physical volume such as ``"0.001 um^3"``.
    connectivity : {1, 2, 3}, default: 1
        Which voxels are neighbours: 1 for voxels that share a face, 2 to include shared edges, 3 to
        include shared corners.
    structure : array_like, optional
        The neighbours of a voxel, instead of ``connectivity``: an array with 3 entries along each axis,
        symmetric about the centre.

    Returns
    -------
    Volume
        A bool volume.

    Raises
    ------
    ValueError
        If a parameter is out of range. On computation, before anything is written, if the components
        need more memory than is available. The message suggests slabs that would work.
    TypeError
        If the input is neither a volume nor an array, or has an unsupported dtype.

    See Also
    --------
    binary_fill_holes : fills holes of any size.
    remove_small_objects : does the same for the foreground.

    Notes
    -----
    The result is identical to scikit-image's. Components that touch the border of the volume are
    also filled.

    Two sweeps: the first finds the components of every slab, and the second writes the result. Memory
    grows with the components of one slab, about 50 bytes each, and with the components on the faces of
    blocks of slabs. Memory does not grow with the total number of components.

    References
    ----------
    `skimage.morphology.remove_small_holes`.

    Examples
    --------
    >>> mask = bv.open(np.array([[1, 0, 1, 0, 0]], bool))
    >>> np.asarray(bv.remove_small_holes(mask, 1)).astype(int)
    array([[1, 1, 1, 0, 0]])
    """

def remove_small_objects(
    mask: Volume,
    max_size: int | str = 64,
    connectivity: int = 1,
    *,
    min_size: int | str | None = None,
    structure: ArrayLike | None = None,
) -> Volume:
    """Remove small components or labels.

    Parameters
    ----------
    mask : Volume or numpy.ndarray
        A bool volume, which is divided into connected components, or integer labels. The voxels of a
        label are counted together even if they are not connected. 0 is background.
    max_size : int or str, default: 64
        The largest size to remove: a number of voxels, or a physical volume such as ``"0.001
        um^3"``.
    connectivity : {1, 2, 3}, default: 1
        Which voxels are neighbours: 1 for voxels that share a face, 2 to include shared edges, 3 to
        include shared corners.
    min_size : int or str, optional
        The smallest size to keep, instead of ``max_size``.
    structure : array_like, optional
        The neighbours of a voxel, instead of ``connectivity``: an array with 3 entries along each axis,
        symmetric about the centre.

    Returns
    -------
    Volume
        A volume of the input's dtype in which removed objects are 0.

    Raises
    ------
    ValueError
        If a parameter is out of range. On computation, before anything is written, if the components
        need more memory than is available. The message suggests slabs that would work.
    TypeError
        If the input is neither a volume nor an array, or has an unsupported dtype.

    See Also
    --------
    remove_small_holes : does the same for the background.
    keep_largest : keeps a number of components.

    Notes
    -----
    The result is identical to scikit-image's.

    Two sweeps: the first finds the components of every slab, and the second writes the result. Memory
    grows with the components of one slab, about 50 bytes each, and with the components on the faces of
    blocks of slabs. Memory does not grow with the total number of components.

    References
    ----------
    `skimage.morphology.remove_small_objects`.

    Examples
    --------
    >>> mask = bv.open(np.array([[1, 0, 1, 1]], bool))
    >>> np.asarray(bv.remove_small_objects(mask, 1)).astype(int)
    array([[0, 0, 1, 1]])
    """

def resample(
    volume: Volume,
    voxel_size: float | str | Sequence[float | str],
    order: int | None = None,
    mode: str = 'edge',
    cval: float = 0.0,
    clip: bool = True,
    *,
    anti_aliasing: bool | None = None,
    anti_aliasing_sigma: float | str | Sequence[float | str] | None = None,
) -> Volume:
    """Resample a volume to a given voxel size.

    Use it to make voxels isotropic, or to bring volumes of several microscopes to one scale.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    voxel_size : float, str or sequence of them
        The new voxel size, as a number in the volume's unit or a length such as ``"10 nm"``; one
        value for isotropic voxels or one per axis.
    order : int, optional
        Order of interpolation, from 0 to 5: 0 is the nearest voxel, 1 is linear, 3 is cubic. By default
        0 for bool volumes, which accept no other order, and 1 for other dtypes. Orders from 2 on compute
        splines in float64.
    mode : {"constant", "edge", "reflect", "symmetric", "wrap"}, default: "edge"
        How to extend the volume beyond its edges, as in `resize`.
    cval : float, default: 0.0
        The value outside of the volume in the constant modes, a number of the volume's dtype.
    clip : bool, default: True
        Whether to clip splines, which overshoot, to the range of the volume's finite voxels. With
        ``mode="constant"``, the range includes ``cval``. Orders 0 and 1 do not overshoot.
    anti_aliasing : bool, optional
        Whether to smooth the volume with a Gaussian before it shrinks. By default, it is smoothed if an
        axis shrinks; bool volumes, and integers with ``order=0``, are not.
    anti_aliasing_sigma : float, str or sequence of them, optional
        Standard deviation of this Gaussian, in voxels of the volume or as a length such as ``"15 nm"``;
        one value for all axes or one per axis. By default ``(f - 1) / 2`` for an axis that shrinks by a
        factor ``f``.

    Returns
    -------
    Volume
        A volume of the input's dtype and unit with this voxel size. Integers keep their scale, and
        are rounded half away from zero.

    Raises
    ------
    ValueError
        If the volume has no voxel size, or no unit for a length. If a voxel would be at least
        twice as large as the volume. If a parameter is out of range, or does not have one entry for each
        axis. If the volume has no voxels, or is bool with ``anti_aliasing``. On computation, if a
        volume to clip has only NaN and infinite voxels.
    TypeError
        If ``volume`` is neither a volume nor an array, or is bool with an order above 0.

    See Also
    --------
    resize : resizes to a shape, and has further notes.
    rescale : resizes by factors.
    affine_transform : transforms to any grid.

    Notes
    -----
    The outer corner of the first voxel stays where it is, not the centre. The origin, which is this
    voxel's centre, therefore moves by half the difference of the voxel sizes. The new number of
    voxels is the extent divided by the new voxel size, rounded half to even. The opposite corner
    moves by up to half a new voxel if this division has a remainder.

    One sweep with orders 0 and 1, or with ``clip=False``. Otherwise, an earlier sweep finds the range,
    and a large result may be stored before it is clipped. Windows contain the slices for smoothing:
    ``4 * sigma`` on each side, about twice the factor by which an axis shrinks.

    References
    ----------
    The ``Resample`` filter of SimpleITK, with this size, spacing and origin. It does not smooth.

    Examples
    --------
    >>> stack = bv.open(np.array([[0, 8]], "u1").T, voxel_size=(40, 10), unit="nm")
    >>> isotropic = bv.resample(stack, "10 nm")
    >>> isotropic.shape, isotropic.voxel_size, isotropic.origin
    ((8, 1), (10.0, 10.0), (-15.0, 0.0))
    >>> np.asarray(isotropic)[:, 0]
    array([0, 0, 1, 3, 5, 7, 8, 8], dtype=uint8)
    """

def rescale(
    volume: Volume,
    scale: float | Sequence[float],
    order: int | None = None,
    mode: str = 'reflect',
    cval: float = 0.0,
    clip: bool = True,
    *,
    anti_aliasing: bool | None = None,
    anti_aliasing_sigma: float | str | Sequence[float | str] | None = None,
) -> Volume:
    """Resize a volume by factors.

    The volume is smoothed along axes that shrink.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    scale : float or sequence of float
        Factors for the number of voxels, which is rounded and at least 1; one value for all axes or
        one per axis.
    order : int, optional
        Order of interpolation, from 0 to 5: 0 is the nearest voxel, 1 is linear, 3 is cubic. By default
        0 for bool volumes, which accept no other order, and 1 for other dtypes. Orders from 2 on compute
        splines in float64.
    mode : {"constant", "edge", "reflect", "symmetric", "wrap"}, default: "reflect"
        How to extend the volume beyond its edges, as in `numpy.pad`. ``"constant"`` uses ``cval``, and
        ``"edge"`` the outer voxels. ``"reflect"`` mirrors the volume without its outer voxels, and
        ``"symmetric"`` with them. ``"wrap"`` repeats the volume.
    cval : float, default: 0.0
        The value outside of the volume in the constant modes, a number of the volume's dtype.
    clip : bool, default: True
        Whether to clip splines, which overshoot, to the range of the volume's finite voxels. With
        ``mode="constant"``, the range includes ``cval``. Orders 0 and 1 do not overshoot.
    anti_aliasing : bool, optional
        Whether to smooth the volume with a Gaussian before it shrinks. By default, it is smoothed if an
        axis shrinks; bool volumes, and integers with ``order=0``, are not.
    anti_aliasing_sigma : float, str or sequence of them, optional
        Standard deviation of this Gaussian, in voxels of the volume or as a length such as ``"15 nm"``;
        one value for all axes or one per axis. By default ``(f - 1) / 2`` for an axis that shrinks by a
        factor ``f``.

    Returns
    -------
    Volume
        A volume of the input's dtype and extent, with a new voxel size and origin. Integers keep
        their scale, and are rounded half away from zero.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis. If the volume has
        no voxels, or is bool with ``anti_aliasing``. On computation, if a volume to clip has only
        NaN and infinite voxels.
    TypeError
        If ``volume`` is neither a volume nor an array, or is bool with an order above 0.

    See Also
    --------
    resize : resizes to a shape, and has further notes.
    resample : resizes to a voxel size.
    zoom : does not smooth.
    rescale_intensity : changes the values of voxels.

    Notes
    -----
    The result keeps the extent of the volume: its voxel size follows from the rounded number of
    voxels.

    One sweep with orders 0 and 1, or with ``clip=False``. Otherwise, an earlier sweep finds the range,
    and a large result may be stored before it is clipped. Windows contain the slices for smoothing:
    ``4 * sigma`` on each side, about twice the factor by which an axis shrinks.

    References
    ----------
    `skimage.transform.rescale` with ``preserve_range=True``, which returns floats.

    Examples
    --------
    >>> v = bv.open(np.array([[10, 20, 30, 40]], "u1"), voxel_size=2)
    >>> half = bv.rescale(v, (1, 0.5))
    >>> np.asarray(half), half.voxel_size
    (array([[16, 34]], dtype=uint8), (2.0, 4.0))
    """

def rescale_intensity(
    volume: Volume,
    in_range: Any = 'image',
    out_range: Any = 'dtype',
    *,
    mask: Volume | None = None,
    nan: str = 'raise',
    dtype: DTypeLike | None = None,
) -> Volume:
    """Map intensities linearly from one range to another.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    in_range : {"image", "dtype"}, dtype or pair, default: "image"
        The range to map to ``out_range``; other voxels are clipped to it. ``"image"`` is from the
        smallest to the largest voxel, and ``"dtype"`` the range of the dtype. A pair may contain
        lazy numbers: ``tuple(bv.percentile(v, [2, 98]))`` clips to percentiles.
    out_range : {"dtype", "image"}, dtype or pair, default: "dtype"
        The range of the result. ``"dtype"`` is the range of an integer dtype, without negative
        numbers if ``in_range`` has none. For floats, the range is 0 to 1 under the same condition,
        otherwise -1 to 1.
    mask : Volume, optional
        Only voxels with a nonzero mask are included; all voxels by default.
        Voxels outside of the mask do not count for ``"image"``, but are also changed.
    nan : {"raise", "omit"}, default: "raise"
        Whether NaN and infinite voxels raise an error on computation or are ignored.
    dtype : dtype, optional
        Dtype of the result. By default the volume's dtype, or ``out_range`` if it is a dtype; for a
        pair, float32 (float64 for wide dtypes). Integers are rounded half to even and clipped to
        the dtype's range.

    Returns
    -------
    Volume
        A volume of ``dtype``.

    Raises
    ------
    ValueError
        If a range is invalid or not ascending. On computation with ``"image"``, if an included
        voxel is NaN or infinite and ``nan="raise"``, or no voxel is included.
    TypeError
        If ``volume`` is neither a volume nor an array, or is bool.

    See Also
    --------
    normalize_slices : adjusts each slice.

    Notes
    -----
    One sweep, or two with ``"image"``. scikit-image truncates integers.

    References
    ----------
    `skimage.exposure.rescale_intensity`.

    Examples
    --------
    >>> np.asarray(bv.rescale_intensity(bv.open(np.array([[51, 102, 153]], "u1"))))
    array([[  0, 128, 255]], dtype=uint8)
    """

def resize(
    volume: Volume,
    output_shape: int | Sequence[int],
    order: int | None = None,
    mode: str = 'reflect',
    cval: float = 0.0,
    clip: bool = True,
    *,
    anti_aliasing: bool | None = None,
    anti_aliasing_sigma: float | str | Sequence[float | str] | None = None,
) -> Volume:
    """Resize a volume to a given shape.

    Use it for data of the shape that a network or a second volume has. The volume is smoothed along
    axes that shrink.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    output_shape : int or sequence of int
        Number of voxels of the result along each axis of space; one number for all axes or one per
        axis.
    order : int, optional
        Order of interpolation, from 0 to 5: 0 is the nearest voxel, 1 is linear, 3 is cubic. By default
        0 for bool volumes, which accept no other order, and 1 for other dtypes. Orders from 2 on compute
        splines in float64.
    mode : {"constant", "edge", "reflect", "symmetric", "wrap"}, default: "reflect"
        How to extend the volume beyond its edges, as in `numpy.pad`. ``"constant"`` uses ``cval``, and
        ``"edge"`` the outer voxels. ``"reflect"`` mirrors the volume without its outer voxels, and
        ``"symmetric"`` with them. ``"wrap"`` repeats the volume.
    cval : float, default: 0.0
        The value outside of the volume in the constant modes, a number of the volume's dtype.
    clip : bool, default: True
        Whether to clip splines, which overshoot, to the range of the volume's finite voxels. With
        ``mode="constant"``, the range includes ``cval``. Orders 0 and 1 do not overshoot.
    anti_aliasing : bool, optional
        Whether to smooth the volume with a Gaussian before it shrinks. By default, it is smoothed if an
        axis shrinks; bool volumes, and integers with ``order=0``, are not.
    anti_aliasing_sigma : float, str or sequence of them, optional
        Standard deviation of this Gaussian, in voxels of the volume or as a length such as ``"15 nm"``;
        one value for all axes or one per axis. By default ``(f - 1) / 2`` for an axis that shrinks by a
        factor ``f``.

    Returns
    -------
    Volume
        A volume of the input's dtype and extent, with a new voxel size and origin. Integers keep
        their scale, and are rounded half away from zero.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis. If the volume has
        no voxels, or is bool with ``anti_aliasing``. On computation, if a volume to clip has only
        NaN and infinite voxels.
    TypeError
        If ``volume`` is neither a volume nor an array, or is bool with an order above 0.

    See Also
    --------
    rescale : resizes by factors.
    resample : resizes to a voxel size.
    downsample : combines the voxels of windows, for integer factors.

    Notes
    -----
    The result keeps the extent of the volume. Its voxel ``i`` is at position ``(i + 0.5) * f - 0.5``
    in the volume, and ``f`` is the ratio of the two numbers of voxels.

    Except with ``order=0``, 64-bit integers above 2**53 are rounded, and voxels next to NaN or
    infinities become NaN; with orders from 2 on, this may be the whole volume. Smoothing adds voxels:
    floats near the maximum of their dtype become NaN.

    One sweep with orders 0 and 1, or with ``clip=False``. Otherwise, an earlier sweep finds the range,
    and a large result may be stored before it is clipped. Windows contain the slices for smoothing:
    ``4 * sigma`` on each side, about twice the factor by which an axis shrinks.

    References
    ----------
    `skimage.transform.resize` with ``preserve_range=True``, which returns floats.

    Examples
    --------
    >>> v = bv.open(np.array([[10, 20, 30, 40]], "u1"), voxel_size=2)
    >>> small = bv.resize(v, (1, 2))
    >>> np.asarray(small), small.voxel_size, small.origin
    (array([[16, 34]], dtype=uint8), (2.0, 4.0), (0.0, 1.0))

    Keep the values of labels with ``order=0``, which does not smooth integers:

    >>> np.asarray(bv.resize(v, (1, 8), order=0))
    array([[10, 10, 20, 20, 30, 30, 40, 40]], dtype=uint8)
    """

def rfftn(
    volume: Volume,
    axes: int | Sequence[int] | None = None,
    norm: str = 'backward',
) -> Volume:
    """Compute half of the Fourier transform of a whole real volume.

    Use it instead of `fftn` to store half as much: the other half contains the conjugate numbers.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes: real numbers without channels.
    axes : int or sequence of int, optional
        Axes to work along, counted from 0, or backwards from -1; all axes by default.
        The last of these is halved, from n to ``n // 2 + 1`` frequencies.
    norm : {"backward", "ortho", "forward"}, default: "backward"
        The normalization, as in `numpy.fft.rfftn`.

    Returns
    -------
    Volume
        A volume with the channels ``real`` and ``imag``, in numpy's order of frequencies. The dtype
        is float32 for bool, integers of up to 16 bits, float16 and float32; float64 for other
        dtypes. The result keeps the voxel size and origin of the volume for `ifftn`.

    Raises
    ------
    ValueError
        If the axis does not exist, the volume has other channels, or ``norm`` is not supported. On
        computation, if a voxel is NaN or infinite.
    TypeError
        If ``volume`` is neither a volume nor an array.

    See Also
    --------
    irfftn : the inverse.
    fftn : the whole spectrum, which `fftshift` and `fourier_gaussian` need.

    Notes
    -----
    It needs as many sweeps as `fftn`. `scipy.fft` transforms whole lines, so the result does not
    depend on slabs.

    References
    ----------
    `numpy.fft.rfftn`, `scipy.fft.rfftn`.

    Examples
    --------
    >>> v = bv.open(np.array([[1, 0, 0, 0], [1, 0, 0, 0]], "u1"))
    >>> np.asarray(bv.rfftn(v).sel(c="real"))
    array([[2., 2., 2.],
           [0., 0., 0.]], dtype=float32)
    """

def rgb2gray(
    volume: Volume,
    *,
    dtype: Any = None,
) -> Volume:
    """Compute the brightness of colours as 0.2125 red + 0.7154 green + 0.0721 blue.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        Three channels: red, green and blue. Integers range from 0 to the largest value of their
        dtype, floats from 0 to 1.
    dtype : dtype, optional
        float32 or float64; by default float32 for integers, float16 and float32, otherwise float64.

    Returns
    -------
    Volume
        A volume without channels, from 0 to 1.

    Raises
    ------
    ValueError
        If the volume does not have three channels, or ``dtype`` is not float32 or float64.
    TypeError
        If ``volume`` is neither a volume nor an array, or has signed integers or integers of more
        than 16 bits.

    Notes
    -----
    Pointwise: no halo, and no sweeps beyond those for the inputs.

    References
    ----------
    `skimage.color.rgb2gray`.

    Examples
    --------
    >>> np.asarray(bv.rgb2gray(bv.open(np.full((3, 1, 1, 2), 51, "u1"))))
    array([[[0.2, 0.2]]], dtype=float32)
    """

def rgb2hed(
    volume: Volume,
    *,
    dtype: Any = None,
) -> Volume:
    """Separate haematoxylin, eosin and DAB.

    Use it for brightfield slides, to measure the amount of each stain from the absorbed light.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        Three channels: red, green and blue. Integers range from 0 to the largest value of their
        dtype, floats from 0 to 1.
    dtype : dtype, optional
        float32 or float64; by default float32 for integers, float16 and float32, otherwise float64.

    Returns
    -------
    Volume
        The channels haematoxylin, eosin and dab, 0 or more.

    Raises
    ------
    ValueError
        If the volume does not have three channels, or ``dtype`` is not float32 or float64.
    TypeError
        If ``volume`` is neither a volume nor an array, or has signed integers or integers of more
        than 16 bits.

    See Also
    --------
    separate_stains : supports other stains.
    hed2rgb : the inverse.

    Notes
    -----
    Pointwise: no halo, and no sweeps beyond those for the inputs. A chunk that contains all
    channels is decoded once. Logarithms of integers are looked up in a table. The result has the
    same bits on every machine.

    References
    ----------
    `skimage.color.rgb2hed`. A. C. Ruifrok and D. A. Johnston, "Quantification of histochemical
    staining by color deconvolution", Analytical and Quantitative Cytology and Histology 23, 2001.

    Examples
    --------
    >>> pixel = np.array([150, 60, 160], "u1").reshape(3, 1, 1, 1)
    >>> np.asarray(bv.rgb2hed(bv.open(pixel))).ravel().round(3)
    array([0.045, 0.064, 0.018], dtype=float32)
    """

def rgb2hsv(
    volume: Volume,
    *,
    dtype: Any = None,
) -> Volume:
    """Compute the hue, saturation and value of colours.

    Use the saturation to find tissue on glass: ``s > bv.threshold_otsu(s)`` with ``s =
    bv.rgb2hsv(slide)[1]``.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        Three channels: red, green and blue. Integers range from 0 to the largest value of their
        dtype, floats from 0 to 1.
    dtype : dtype, optional
        float32 or float64; by default float32 for integers, float16 and float32, otherwise float64.

    Returns
    -------
    Volume
        The channels hue, saturation and value, from 0 to 1; all 0 if a channel is NaN.

    Raises
    ------
    ValueError
        If the volume does not have three channels, or ``dtype`` is not float32 or float64.
    TypeError
        If ``volume`` is neither a volume nor an array, or has signed integers or integers of more
        than 16 bits.

    Notes
    -----
    Pointwise: no halo, and no sweeps beyond those for the inputs. Channels that are not used are
    not computed.

    References
    ----------
    `skimage.color.rgb2hsv`.

    Examples
    --------
    >>> pixel = np.array([0.2, 0.4, 0.1], "f4").reshape(3, 1, 1, 1)
    >>> np.asarray(bv.rgb2hsv(bv.open(pixel))).ravel().round(3)
    array([0.278, 0.75 , 0.4  ], dtype=float32)
    """

def rgb2lab(
    volume: Volume,
    illuminant: str = 'D65',
    observer: str = '2',
    *,
    dtype: Any = None,
) -> Volume:
    """Compute the lightness and colour of sRGB colours in CIE Lab.

    Use it to compare colours: equal distances in Lab look about equally different.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        Three channels: red, green and blue. Integers range from 0 to the largest value of their
        dtype, floats from 0 to 1.
    illuminant : {"A", "B", "C", "D50", "D55", "D65", "D75", "E"}, default: "D65"
        The light that appears white, in capital or small letters.
    observer : {"2", "10", "R"}, default: "2"
        The angle of view in degrees. ``"R"`` has the values of R's ``convertColor``.
    dtype : dtype, optional
        float32 or float64; by default float32 for integers, float16 and float32, otherwise float64.

    Returns
    -------
    Volume
        The channels lightness, a and b. Lightness is from 0 to 100. a is from green to red and b
        from blue to yellow, about -128 to 127. All are NaN if a channel is NaN.

    Raises
    ------
    ValueError
        If the volume does not have three channels, ``illuminant`` or ``observer`` is unknown, or
        ``dtype`` is not float32 or float64.
    TypeError
        If ``volume`` is neither a volume nor an array, or has signed integers or integers of more
        than 16 bits.

    See Also
    --------
    lab2rgb : the inverse.
    rgb2hsv : hue, saturation and value.

    Notes
    -----
    Pointwise: no halo, and no sweeps beyond those for the inputs. Powers of integers are looked up
    in a table. Values are computed in float64 and rounded once, with the same bits on every
    machine. They agree with scikit-image's in float64 to about 1e-13.

    References
    ----------
    `skimage.color.rgb2lab`. IEC 61966-2-1 defines sRGB, and CIE 015 the space Lab.

    Examples
    --------
    >>> pixel = np.array([255, 0, 0], "u1").reshape(3, 1, 1, 1)
    >>> np.asarray(bv.rgb2lab(bv.open(pixel))).ravel().round(2)
    array([53.24, 80.09, 67.2 ], dtype=float32)
    """

def richardson_lucy(
    volume: Volume,
    psf: ArrayLike | str,
    iterations: int = 50,
    *,
    tv: float = 0.0,
    mode: str | Sequence[str] = 'reflect',
    cval: float = 0.0,
    context: int | Sequence[int] | None = None,
    patch: int | Sequence[int] | None = None,
    dtype: DTypeLike | None = None,
) -> Volume:
    """Remove an instrument's blur by Richardson-Lucy deconvolution of overlapping blocks.

    Use it for images with photon noise, such as from light microscopy, and a known point spread
    function.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes. Intensities keep their scale, whereas scikit-image
        scales integers to the range from 0 to 1.
        Negative voxels count as 0.
    psf : array_like of float, or path
        The point spread function, or the path of a file that contains it. The array has one dimension
        for each axis, the volume's voxel size, and its centre at voxel ``n // 2`` of ``n``. The
        function is divided by its sum. An extent of 1 along z deconvolves slice by slice.
        No number may be negative.
    iterations : int, default: 50
        Number of iterations. More iterations restore finer detail but amplify noise.
    tv : float, default: 0.0
        Weight of the total variation, which limits noise, up to 0.1; 0.002 is common. 0 is the
        plain method.
    mode : str or sequence of str, default: "reflect"
        How to extend the volume beyond its edges, as in `scipy.ndimage`; one mode for all axes or one
        per axis. ``"reflect"`` and ``"grid-mirror"`` repeat the outer voxel (c b a | a b c d | d c b),
        and ``"mirror"`` does not (d c b | a b c d | c b a). ``"nearest"`` extends it (a a a | a b c d |
        d d d), and ``"constant"`` and ``"grid-constant"`` use ``cval``.
    cval : float, default: 0.0
        The value beyond the edges if ``mode`` is ``"constant"`` or ``"grid-constant"``.
    context : int or sequence of int, optional
        Number of voxels that each block discards at each face; one number for all axes or one per
        axis. By default four times the distance that contains all but 1e-4 of ``psf``.
    patch : int or sequence of int, optional
        Extent of a block, including the voxels to discard. By default, blocks have up to two million
        voxels of float64, or four million of float32. Blocks discard at most half of their extent along
        each axis.
    dtype : dtype, optional
        Dtype of the result. Integers are rounded half to even and clipped to the dtype's range.

    Returns
    -------
    Volume
        A volume without negative voxels: float32 for bool, integers of up to 16 bits, float16 and
        float32; float64 for other dtypes. ``dtype`` overrides this.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis. On computation, if
        a voxel is NaN or infinite.
    TypeError
        If ``volume`` is neither a volume nor an array, or ``dtype`` is not supported.

    See Also
    --------
    wiener : deconvolves in one step.
    gaussian_psf : makes a point spread function.

    Notes
    -----
    Blocks start at the first voxel of the volume, so the result does not depend on slabs. The
    result depends on ``patch`` and ``context``. In tests with Gaussians and the default context,
    two grids of blocks differed by less than 1e-4 of the largest voxel after 30 iterations. The
    volume is extended by ``mode`` beyond its edges, and the extended voxels are deconvolved as if
    they were data. scikit-image uses zeros beyond the edges, which makes the estimate brighter at
    the edges; in the interior, the results agree. Computation is in the result's default dtype. The
    first estimate is constant.

    One sweep. A slab needs whole blocks, and memory for nine arrays (thirteen with ``tv``) with
    this dtype and a block's shape. Each iteration needs four Fourier transforms of each block.

    References
    ----------
    `skimage.restoration.richardson_lucy`; W. H. Richardson, "Bayesian-based iterative method of image
    restoration", J. Opt. Soc. Am. 62 (1972); N. Dey et al., "Richardson-Lucy algorithm with total
    variation regularization for 3D confocal microscope deconvolution", Microsc. Res. Tech. 69 (2006).

    Examples
    --------
    >>> blurred = bv.open(np.array([[0, 0, 1, 2, 1, 0, 0]], "f4"))
    >>> np.asarray(bv.richardson_lucy(blurred, [[1, 2, 1]], 100)).round(1)
    array([[0., 0., 0., 4., 0., 0., 0.]], dtype=float32)
    """

def richardson_lucy_residuals(
    volume: Volume,
    psf: ArrayLike | str,
    iterations: int = 50,
    *,
    tv: float = 0.0,
    mode: str | Sequence[str] = 'reflect',
    cval: float = 0.0,
    context: int | Sequence[int] | None = None,
    patch: int | Sequence[int] | None = None,
) -> Scalar:
    """Compute how far the blurred result of `richardson_lucy` is from the volume after each iteration.

    Use it on a part of the volume to choose the number of iterations. Once residuals are below the
    noise, more iterations only amplify it.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes. Intensities keep their scale, whereas scikit-image
        scales integers to the range from 0 to 1.
        Negative voxels count as 0.
    psf : array_like of float, or path
        The point spread function, or the path of a file that contains it. The array has one dimension
        for each axis, the volume's voxel size, and its centre at voxel ``n // 2`` of ``n``. The
        function is divided by its sum. An extent of 1 along z deconvolves slice by slice.
        No number may be negative.
    iterations : int, default: 50
        The number of iterations and of results.
    tv : float, default: 0.0
        Weight of the total variation, as in `richardson_lucy`.
    mode : str or sequence of str, default: "reflect"
        How to extend the volume beyond its edges, as in `scipy.ndimage`; one mode for all axes or one
        per axis. ``"reflect"`` and ``"grid-mirror"`` repeat the outer voxel (c b a | a b c d | d c b),
        and ``"mirror"`` does not (d c b | a b c d | c b a). ``"nearest"`` extends it (a a a | a b c d |
        d d d), and ``"constant"`` and ``"grid-constant"`` use ``cval``.
    cval : float, default: 0.0
        The value beyond the edges if ``mode`` is ``"constant"`` or ``"grid-constant"``.
    context : int or sequence of int, optional
        Number of voxels that each block discards at each face, as in `richardson_lucy`.
    patch : int or sequence of int, optional
        Extent of a block, including the voxels to discard. By default, blocks have up to two million
        voxels of float64, or four million of float32. Blocks discard at most half of their extent along
        each axis.

    Returns
    -------
    Scalar
        A lazy array with a number for each iteration: the root of the mean squared difference.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis, or the volume has
        several channels or no voxels. On computation, if a voxel is NaN or infinite.
    TypeError
        If ``volume`` is neither a volume nor an array.

    See Also
    --------
    richardson_lucy : deconvolves.

    Notes
    -----
    One sweep, which takes as long as `richardson_lucy`. Blocks along x are computed one after
    another in a thread.

    References
    ----------
    See `richardson_lucy`.

    Examples
    --------
    >>> blurred = bv.open(np.array([[0, 0, 1, 2, 1, 0, 0]], "f4"))
    >>> np.asarray(bv.richardson_lucy_residuals(blurred, [[1, 2, 1]], 4)).round(2)
    array([0.35, 0.25, 0.19, 0.15])
    """

def roberts(
    volume: Volume,
    *,
    dtype: DTypeLike | None = None,
) -> Volume:
    """Find edges by Roberts' cross: the magnitude of the two diagonal differences of four voxels.

    Slices along z are filtered separately.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes. Intensities keep their scale, whereas scikit-image
        scales integers to the range from 0 to 1.
    dtype : dtype, optional
        Dtype of the result. Integers are rounded half to even and clipped to the dtype's range.

    Returns
    -------
    Volume
        A float32 volume for bool, integers of up to 16 bits, float16 and float32; a float64 volume for
        other dtypes. ``dtype`` overrides this.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis. If a length has a unit
        but the volume has no voxel size.
    TypeError
        If ``volume`` is neither a volume nor an array, or ``dtype`` is not supported.

    See Also
    --------
    scharr : filters along all axes.

    Notes
    -----
    One sweep, with a halo of one voxel along y and x. The volume is reflected at its edges, as in
    scikit-image.

    References
    ----------
    `skimage.filters.roberts`.

    Examples
    --------
    >>> step = bv.open(np.array([[0, 0, 8, 8], [0, 0, 8, 8]], "u1"))
    >>> np.asarray(bv.roberts(step))[1]
    array([0., 8., 0., 0.], dtype=float32)
    """

def rolling_ball(
    volume: Volume,
    *,
    radius: float | str | Sequence[float | str] = 100,
    kernel: ArrayLike | None = None,
) -> Volume:
    """Estimate the background by rolling a ball under the intensities.

    Use it to even out the background: ``volume - bv.rolling_ball(volume)``. The ball must be larger
    than the objects to keep.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    radius : float, str or sequence of them, default: 100
        Radius of the ball, in voxels or as a length such as ``"15 um"``. Lengths need a volume with
        a voxel size. One value for all axes or, for an ellipsoid, one per axis; 0 along z filters
        slice by slice. The largest radius, in voxels, is also the height in units of intensity.
    kernel : array_like of float, optional
        The heights of a custom ball, with one dimension per axis, infinite outside of it.
        scikit-image's ``ellipsoid_kernel(shape, intensity)`` returns one with a given height.

    Returns
    -------
    Volume
        A volume of the input's dtype. The result is NaN exactly where the footprint contains a NaN.

    Raises
    ------
    ValueError
        If a parameter is out of range, or the ball has more than 4 million voxels.
    TypeError
        If ``volume`` is neither a volume nor an array, or is bool.

    See Also
    --------
    white_tophat : subtracts a background in time that does not grow with the footprint.

    Notes
    -----
    The result is identical to scikit-image's with ``nansafe=True``. Integers are rounded towards 0.
    Bright noise is ignored; smooth the volume first if there is dark noise.

    One sweep. The halo is the radius. The time grows with the number of voxels of the ball: for
    large balls, filter a downsampled volume and `zoom` the background.

    References
    ----------
    `skimage.restoration.rolling_ball`; S. R. Sternberg, "Biomedical image processing", Computer 16
    (1983).

    Examples
    --------
    >>> slope = np.array([[10, 11, 12, 40, 14, 15]], "u1")
    >>> np.asarray(slope - bv.rolling_ball(slope, radius=3))
    array([[ 0,  1,  2, 29,  2,  1]], dtype=uint8)
    """

def rotate(
    volume: Volume,
    angle: float,
    axes: Sequence[int] | None = None,
    *,
    reshape: bool = True,
    order: int = 1,
    mode: str = 'constant',
    cval: float = 0.0,
    prefilter: bool = True,
) -> Volume:
    """Rotate a volume in a plane.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    angle : float
        The angle in degrees.
    axes : sequence of int, optional
        The two axes of the plane, counted from 0, or backwards from -1, in any order; the last two
        by default. (scipy's default is the first two.)
    reshape : bool, default: True
        Whether to enlarge the result to contain the whole rotated plane, instead of keeping the
        shape.
    order : int, default: 1
        Order of interpolation, from 0 to 5: 0 is the nearest voxel, 1 is linear, 3 is cubic (scipy's
        default). Orders from 2 on compute splines through all voxels, in float64 as in scipy. Integers
        are clipped to the dtype's range.
    mode : str, default: "constant"
        How to extend the volume beyond its edges. ``"constant"`` and ``"grid-constant"`` use ``cval``,
        and ``"nearest"`` the outer voxels. ``"reflect"`` and ``"grid-mirror"`` repeat the outer voxel
        (c b a | a b c d), and ``"mirror"`` does not (d c b | a b c d). ``"grid-wrap"`` repeats the
        volume (b c d | a b c d), like `pad` with ``"wrap"``. With ``"constant"``, values beyond the
        centres of the outer voxels are not interpolated.
    cval : float, default: 0.0
        The value outside of the volume in the constant modes, a number of the volume's dtype.
    prefilter : bool, default: True
        Whether to compute the coefficients of the spline first, for orders from 2 on. Set it to False
        if ``volume`` is a result of `spline_filter`.

    Returns
    -------
    Volume
        A volume of the input's dtype; integers are rounded half away from zero.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis. If the volume has no
        voxels.
    TypeError
        If ``volume`` is neither a volume nor an array, or is bool with an order above 0.

    See Also
    --------
    affine_transform : applies any linear map.
    transpose : exchanges axes.

    Notes
    -----
    Voxels are assumed to be square in this plane. Right angles are exact.

    The result is computed in the same sweep as the volume, and each window reads the slices that it
    needs.

    In a plane that contains z, each slice of the result needs many slices of the volume, so it is
    computed in tiles. Beyond 90 degrees, the plane is flipped first: see `flip`.

    References
    ----------
    `scipy.ndimage.rotate`.

    Examples
    --------
    >>> np.asarray(bv.rotate(bv.open(np.array([[1, 2], [3, 4]], "u1")), 90))
    array([[2, 4],
           [1, 3]], dtype=uint8)
    """

def sato(
    volume: Volume,
    sigmas: float | Sequence[float] = (1, 3, 5, 7, 9),
    black_ridges: bool = True,
    *,
    mode: str | Sequence[str] = 'reflect',
    cval: float = 0.0,
) -> Volume:
    """Measure how similar the neighbourhood of each voxel is to a tube.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes. Intensities keep their scale, whereas scikit-image
        scales integers to the range from 0 to 1.
    sigmas : float or sequence of float, default: (1, 3, 5, 7, 9)
        Standard deviations in voxels, one for each scale. The result is the maximum over scales.
    black_ridges : bool, default: True
        Whether to find dark ridges on a bright background, instead of bright ridges.
    mode : str or sequence of str, default: "reflect"
        How to extend the volume beyond its edges, as in `scipy.ndimage`; one mode for all axes or one
        per axis. ``"reflect"`` and ``"grid-mirror"`` repeat the outer voxel (c b a | a b c d | d c b), and
        ``"mirror"`` does not (d c b | a b c d | c b a). ``"nearest"`` extends it (a a a | a b c d | d d
        d), ``"constant"`` and ``"grid-constant"`` use ``cval``, and ``"wrap"`` and ``"grid-wrap"``
        repeat the volume (b c d | a b c d | a b c).
    cval : float, default: 0.0
        The value beyond the edges if ``mode`` is ``"constant"`` or ``"grid-constant"``.

    Returns
    -------
    Volume
        A volume on the scale of the intensities: float32 for bool, integers of up to 16 bits,
        float16 and float32; float64 for other dtypes.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis.
    TypeError
        If ``volume`` is neither a volume nor an array, or a parameter has a wrong type.

    See Also
    --------
    frangi : a measure that distinguishes tubes from plates and blobs.

    Notes
    -----
    One sweep. The halo is about 12 times the largest of ``sigmas`` on each side: compute large
    scales on a downsampled volume (`downsample`).

    References
    ----------
    `skimage.filters.sato`; Y. Sato et al., "Three-dimensional multi-scale line filter for
    segmentation and visualization of curvilinear structures in medical images", Medical Image
    Analysis 2 (1998).

    Examples
    --------
    >>> line = np.full((9, 9), 200, "u1")
    >>> line[4] = 20
    >>> np.asarray(bv.sato(bv.open(line), [1]))[2:7, 4].round(1)
    array([ 0. ,  6.2, 62.6,  6.2,  0. ], dtype=float32)
    """

def save_transforms(
    source: Any,
    transforms: Any,
    target: str | os.PathLike[str] | None = None,
    *,
    index: dict[str, int | str] | None = None,
    overwrite: bool = False,
    unit: str | None = None,
    direction: Any = None,
) -> None:
    """Write transforms for other programs, such as BigDataViewer, Neuroglancer, ITK and elastix.

    Parameters
    ----------
    source : path, list of paths or pair of volumes
        The tiles: an XML file of BigStitcher or OME-Zarr images, as accepted by `open_tiles`. For
        ITK and elastix, the fixed and the moving volume, or their paths.
    transforms : array_like, table or path
        For each tile, its position or a matrix, in voxels, such as the table from `register_tiles`.
        For ITK and elastix, one matrix from `register` or `open_transform`, which maps indices of
        the fixed volume to indices of the moving one.
    target : path, optional
        The XML file to write for BigStitcher, or a file of ITK (``.tfm`` or ``.h5``) or elastix
        (``.txt``). OME-Zarr images need no ``target``, because their own metadata is changed in
        place.
    index : dict, optional
        The time point and the channel of the tiles. In BigStitcher, other views keep their
        registrations.
    overwrite : bool, default: False
        Whether to replace an existing ``target``, which may be ``source``.
    unit : str, optional
        The unit of lengths in a file of ITK or elastix; by default the unit of the fixed volume.
    direction : array_like, optional
        The direction of the volumes for ITK and elastix, as in `open_transform`.

    Raises
    ------
    ValueError
        If transforms do not match the tiles, or OME-Zarr images would need a matrix; their metadata
        only has positions. If a matrix for ITK or elastix has no inverse, or only one of the two
        volumes has a unit. If ``target`` is needed, or is a folder.
    TypeError
        If matrices are not made of real numbers.
    FileExistsError
        If ``target`` exists.

    See Also
    --------
    open_tiles : reads the transforms of tiles again.
    open_transform : reads a file of ITK or elastix again.

    Notes
    -----
    No voxels are read. BigStitcher's file keeps everything except the registrations of these tiles,
    which are replaced with one transform and the existing calibration.

    References
    ----------
    The file format of BigDataViewer, and "Next-generation file formats (NGFF)", version 0.5.

    Examples
    --------
    >>> for k in range(2):
    ...     tile = bv.open(np.zeros((8, 12), "u1"), voxel_size=0.5, unit="um")
    ...     _ = bv.compute(tile.to(f"moved-{k}.ome.zarr"))
    >>> bv.save_transforms("moved-*.ome.zarr", [(0, 0), (1, 9.5)])
    >>> bv.open("moved-1.ome.zarr").origin
    (0.5, 4.75)
    """

def scharr(
    volume: Volume,
    axis: int | Sequence[int] | None = None,
    *,
    mode: str | Sequence[str] = 'reflect',
    cval: float = 0.0,
    dtype: DTypeLike | None = None,
) -> Volume:
    """Find edges by the Scharr derivative along an axis, or the magnitude of several.

    The result depends less on the direction of an edge than for `sobel`. The weights are ``[-1, 0,
    1]`` along the axis, and ``[3, 10, 3] / 16`` along all other axes.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes. Intensities keep their scale, whereas scikit-image
        scales integers to the range from 0 to 1.
    axis : int or sequence of int, optional
        The axis of the derivative, counted from 0, or backwards from -1. For several axes, or all
        by default, the squared derivatives are summed, and divided by the volume's number of axes.
        The result is the square root.
    mode : str or sequence of str, default: "reflect"
        How to extend the volume beyond its edges, as in `scipy.ndimage`; one mode for all axes or one
        per axis. ``"reflect"`` and ``"grid-mirror"`` repeat the outer voxel (c b a | a b c d | d c b), and
        ``"mirror"`` does not (d c b | a b c d | c b a). ``"nearest"`` extends it (a a a | a b c d | d d
        d), ``"constant"`` and ``"grid-constant"`` use ``cval``, and ``"wrap"`` and ``"grid-wrap"``
        repeat the volume (b c d | a b c d | a b c).
    cval : float, default: 0.0
        The value beyond the edges if ``mode`` is ``"constant"`` or ``"grid-constant"``.
    dtype : dtype, optional
        Dtype of the result. Integers are rounded half to even and clipped to the dtype's range.

    Returns
    -------
    Volume
        A float32 volume for bool, integers of up to 16 bits, float16 and float32; a float64 volume for
        other dtypes. ``dtype`` overrides this.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis. If a length has a unit
        but the volume has no voxel size.
    TypeError
        If ``volume`` is neither a volume nor an array, or ``dtype`` is not supported.

    See Also
    --------
    farid : uses five voxels along each axis.
    gaussian_gradient_magnitude : smooths by a chosen extent.

    Notes
    -----
    One sweep, with a halo of one voxel along each axis.

    References
    ----------
    `skimage.filters.scharr`; D. Kroon, "Numerical optimization of kernel based image derivatives"
    (2009).

    Examples
    --------
    >>> corner = bv.open(np.array([[0, 0, 8], [0, 0, 8], [0, 0, 8]], "u1"))
    >>> np.asarray(bv.scharr(corner))[1].round(2)
    array([0.  , 5.66, 5.66], dtype=float32)
    >>> np.asarray(bv.scharr(corner, axis=1))[1]
    array([0., 8., 8.], dtype=float32)
    """

def segment_iou(
    truth: Volume,
    test: Volume,
    *,
    ignore_labels: Iterable[int] = (0,),
) -> Table:
    """Find the best overlapping segment of a second volume for each segment.

    Parameters
    ----------
    truth, test : Volume or numpy.ndarray
        Labels of the same shape, bool or integers from 0.
    ignore_labels : iterable of int, default: (0,)
        Labels of ``truth`` to ignore, together with their voxels. The background of ``test``, 0, is
        never the best.

    Returns
    -------
    Table
        A lazy table with a row for each label of ``truth``. ``label`` and ``num_pixels`` describe
        this label, and ``best_label`` and ``best_num_pixels`` the best label of ``test``.
        ``intersection`` is the number of voxels that both share, ``iou`` is the intersection over
        union, and ``dice`` is twice the intersection over the sum of both sizes. The smallest of
        equally good labels is selected; without overlap, all columns of the best label are 0.

    Raises
    ------
    ValueError
        If shapes differ. On computation, if a label is negative, or the pairs of labels need more
        memory than is available.
    TypeError
        If ``truth`` or ``test`` is neither a volume nor an array, or has an unsupported dtype.

    See Also
    --------
    contingency : the underlying table.

    Notes
    -----
    One sweep. Ratios are compared as fractions of integers.

    References
    ----------
    `skimage.metrics.contingency_table`, from which it selects rows.

    Examples
    --------
    >>> truth, test = np.array([[1, 1, 2, 2]]), np.array([[7, 7, 7, 9]])
    >>> table = bv.segment_iou(truth, test).to_pyarrow()
    >>> table["best_label"].to_pylist(), table["iou"].to_pylist()
    ([7, 9], [0.6666666666666666, 0.5])
    """

def separate_stains(
    volume: Volume,
    matrix: ArrayLike,
    *,
    names: Sequence[str] | None = None,
    dtype: DTypeLike | None = None,
) -> Volume:
    """Separate the stains of a slide with a matrix.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        Three channels: red, green and blue. Integers range from 0 to the largest value of their
        dtype, floats from 0 to 1.
    matrix : array_like of 3 x 3
        A matrix that converts logarithms of red, green and blue to stains, like
        ``skimage.color.hdx_from_rgb``. This matrix is the inverse of the matrix with the stains'
        colours as rows.
    names : sequence of str, optional
        Names of the three stains.
    dtype : dtype, optional
        float32 or float64; by default float32 for integers, float16 and float32, otherwise float64.

    Returns
    -------
    Volume
        A channel for each stain, 0 or more.

    Raises
    ------
    ValueError
        If the volume does not have three channels, there are not three different names, or the
        matrix is not 3 x 3 finite numbers. If ``dtype`` is not float32 or float64.
    TypeError
        If ``volume`` is neither a volume nor an array, or has signed integers or integers of more
        than 16 bits.

    See Also
    --------
    rgb2hed : separates haematoxylin, eosin and DAB.
    combine_stains : the inverse.

    Notes
    -----
    Pointwise: no halo, and no sweeps beyond those for the inputs.

    References
    ----------
    `skimage.color.separate_stains`.

    Examples
    --------
    >>> matrix = np.linalg.inv([[0.65, 0.70, 0.29], [0.07, 0.99, 0.11], [0.27, 0.57, 0.78]])
    >>> slide = bv.open(np.full((3, 1, 4, 5), 255, "u1"))
    >>> float(np.asarray(bv.separate_stains(slide, matrix)).max())
    0.0
    """

def shape_index(
    volume: Volume,
    sigma: float | str | Sequence[float | str] = 1.0,
    *,
    mode: str | Sequence[str] = 'constant',
    cval: float = 0.0,
    axes: Sequence[int] = (-2, -1),
) -> Volume:
    """Classify the curvature around each voxel of a plane, from cups to caps.

    The intensities of a plane are the heights of a surface. Use the index to find ridges, saddles and
    blobs regardless of their contrast.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes. Intensities keep their scale, whereas scikit-image
        scales integers to the range from 0 to 1.
    sigma : float, str or sequence of them, default: 1.0
        Standard deviation of the smoothing Gaussian, in voxels or as a length such as
        ``"15 nm"``. Lengths need a volume with a voxel size. One value for both axes or one per
        axis.
    mode : str or sequence of str, default: "constant"
        How to extend the volume beyond its edges, as in `scipy.ndimage`; one mode for all axes or one
        per axis. ``"reflect"`` and ``"grid-mirror"`` repeat the outer voxel (c b a | a b c d | d c b), and
        ``"mirror"`` does not (d c b | a b c d | c b a). ``"nearest"`` extends it (a a a | a b c d | d d
        d), ``"constant"`` and ``"grid-constant"`` use ``cval``, and ``"wrap"`` and ``"grid-wrap"``
        repeat the volume (b c d | a b c d | a b c).
    cval : float, default: 0.0
        The value beyond the edges if ``mode`` is ``"constant"`` or ``"grid-constant"``.
    axes : sequence of int, default: (-2, -1)
        The two axes of the planes, counted from 0, or backwards from -1. By default, each slice is
        a plane.

    Returns
    -------
    Volume
        A volume from -1 to 1, and NaN where the plane is flat: float32 for bool, integers of up to
        16 bits, float16 and float32; float64 for other dtypes. -1 is a cup, -0.5 a rut, 0 a saddle,
        0.5 a ridge and 1 a cap.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis. If ``axes`` are not
        two axes. If a length has a unit but the volume has no voxel size.
    TypeError
        If ``volume`` is neither a volume nor an array, or a parameter has a wrong type.

    See Also
    --------
    hessian_matrix_eigvals : computes the two curvatures.
    sato : finds ridges in three dimensions.

    Notes
    -----
    One sweep. The halo is ``4 * sigma`` plus two voxels along the two axes. The second derivatives are
    differences of the smoothed volume. Where the curvatures almost vanish, the result depends on
    rounding.

    References
    ----------
    `skimage.feature.shape_index`; J. J. Koenderink, A. J. van Doorn, "Surface shape and curvature
    scales", Image and Vision Computing 10 (1992).

    Examples
    --------
    >>> spot = bv.open(np.pad(np.full((1, 1), 4, "f8"), 2))
    >>> np.asarray(bv.shape_index(spot, 0.1))[2]
    array([-0.5,  nan, -1. ,  nan, -0.5])
    """

def shift(
    volume: Volume,
    shift: float | str | Sequence[float | str],
    *,
    order: int = 1,
    mode: str = 'constant',
    cval: float = 0.0,
    prefilter: bool = True,
) -> Volume:
    """Shift the voxels of a volume.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    shift : float, str or sequence of them
        Distance in voxels, or as a length such as ``"-15 nm"``. Lengths need a volume with a voxel
        size. One value for all axes or one per axis.
    order : int, default: 1
        Order of interpolation, from 0 to 5: 0 is the nearest voxel, 1 is linear, 3 is cubic (scipy's
        default). Orders from 2 on compute splines through all voxels, in float64 as in scipy. Integers
        are clipped to the dtype's range.
    mode : str, default: "constant"
        How to extend the volume beyond its edges. ``"constant"`` and ``"grid-constant"`` use ``cval``,
        and ``"nearest"`` the outer voxels. ``"reflect"`` and ``"grid-mirror"`` repeat the outer voxel
        (c b a | a b c d), and ``"mirror"`` does not (d c b | a b c d). ``"grid-wrap"`` repeats the
        volume (b c d | a b c d), like `pad` with ``"wrap"``. With ``"constant"``, values beyond the
        centres of the outer voxels are not interpolated.
    cval : float, default: 0.0
        The value outside of the volume in the constant modes, a number of the volume's dtype.
    prefilter : bool, default: True
        Whether to compute the coefficients of the spline first, for orders from 2 on. Set it to False
        if ``volume`` is a result of `spline_filter`.

    Returns
    -------
    Volume
        A volume of the input's dtype; integers are rounded half away from zero.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis. If the volume has no
        voxels.
    TypeError
        If ``volume`` is neither a volume nor an array, or is bool with an order above 0.

    See Also
    --------
    affine_transform : also rotates and scales.
    pad : adds voxels around a volume.

    Notes
    -----
    The result has the shape and the origin of the input.

    The result is computed in the same sweep as the volume, and each window reads the slices that it
    needs.

    References
    ----------
    `scipy.ndimage.shift`.

    Examples
    --------
    >>> v = bv.open(np.array([[10, 20, 40]], "u1"))
    >>> np.asarray(bv.shift(v, (0, 0.5)))
    array([[ 0, 15, 30]], dtype=uint8)
    """

def signed_distance(
    mask: Volume,
    sampling: float | Sequence[float] | str | None = None,
    *,
    max_distance: float | str | None = None,
) -> Volume:
    """Compute the distance to the boundary of a mask: positive inside, negative outside.

    Inside, it is the distance to the nearest background voxel; outside, minus the distance to the
    nearest foreground voxel. Voxels count as points, so the boundary is half way between 1 and -1,
    and no voxel is 0.

    Parameters
    ----------
    mask : Volume or numpy.ndarray
        A volume or an array with up to three axes. Nonzero voxels are foreground.
    sampling : float, sequence of float or "voxel_size", optional
        Extent of a voxel: one value for all axes or one per axis; 1 by default. ``"voxel_size"`` uses
        the voxel size of the volume, so distances are in its unit.
    max_distance : float or str, optional
        The maximum distance, in the unit of ``sampling``, or a length such as ``"200 nm"`` with
        ``sampling="voxel_size"``. With a maximum distance, the transform is a filter with a halo of
        this length, in one sweep.

    Returns
    -------
    Volume
        A float32 volume; +inf everywhere without background, -inf without foreground.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis.
    TypeError
        If ``volume`` is neither a volume nor an array, or a parameter has a wrong type.

    See Also
    --------
    distance_transform_edt : computes distances inside only.

    Notes
    -----
    Two sweeps for both sides together, as in `distance_transform_edt`. With ``max_distance``, one
    sweep.

    References
    ----------
    `scipy.ndimage.distance_transform_edt` of the mask and of its complement.

    Examples
    --------
    >>> np.asarray(bv.signed_distance(bv.open(np.array([[1, 1, 1, 0, 0]]))))
    array([[ 3.,  2.,  1., -1., -2.]], dtype=float32)
    """

def sin(
    volume: Volume | Scalar,
) -> Any:
    """Compute sines of angles in radians.

    Parameters
    ----------
    volume : Volume or Scalar
        A volume or a lazy number.

    Returns
    -------
    Volume or Scalar
        A result of the same kind, with numpy's dtype; NaN for infinity.

    Raises
    ------
    TypeError
        If an input is not a volume, lazy number, array or number.

    Notes
    -----
    Pointwise: no halo, and no sweeps beyond those for the inputs.

    Results are the same on every processor; numpy's results depend on the processor. The error is below
    2 units in the last place of float64, or of the narrower dtype to which results are rounded.

    References
    ----------
    `numpy.sin`; fdlibm, Sun Microsystems (1993).

    Examples
    --------
    >>> np.asarray(bv.sin(bv.open(np.array([[0.0, 1.0]])))).round(4)
    array([[0.    , 0.8415]])
    """

def sinh(
    volume: Volume | Scalar,
) -> Any:
    """Compute hyperbolic sines.

    Parameters
    ----------
    volume : Volume or Scalar
        A volume or a lazy number.

    Returns
    -------
    Volume or Scalar
        A result of the same kind, with numpy's dtype.

    Raises
    ------
    TypeError
        If an input is not a volume, lazy number, array or number.

    Notes
    -----
    Pointwise: no halo, and no sweeps beyond those for the inputs.

    Results are the same on every processor; numpy's results depend on the processor. The error is below
    2 units in the last place of float64, or of the narrower dtype to which results are rounded.

    References
    ----------
    `numpy.sinh`; fdlibm, Sun Microsystems (1993).

    Examples
    --------
    >>> np.asarray(bv.sinh(bv.open(np.array([[0.0, 1.0]])))).round(4)
    array([[0.    , 1.1752]])
    """

def skeleton_table(
    skeleton: Volume,
    distances: Volume | None = None,
    *,
    spacing: float | Sequence[float] | str | None = None,
    nan: str = 'raise',
) -> Table:
    """Measure every branch of a skeleton: its length, its ends, and the junctions that it joins.

    Use it to count and measure the segments of vessels, neurites and fibres, or as a graph with
    junctions as nodes and branches as edges.

    Parameters
    ----------
    skeleton : Volume or numpy.ndarray
        Lines that are one voxel wide, such as the result of `skeletonize`: a mask, or integer
        labels with a different label for each object. 0 is background.
    distances : Volume or numpy.ndarray, optional
        A volume of the same shape, for the column ``radius_mean``. `distance_transform_edt` of the
        mask before thinning contains the radius at each voxel.
    spacing : float, sequence of float or "voxel_size", optional
        Extent of a voxel, for areas, centroids and lengths: one value for all axes or one per axis; 1
        by default. ``"voxel_size"`` uses the voxel size of the volume.
    nan : {"raise", "omit"}, default: "raise"
        Whether NaN and infinite distances raise an error on computation or are ignored.

    Returns
    -------
    Table
        A lazy table with a row for each branch, in the raster order of their first voxels:

        - ``label``: the number of the branch: 1, 2, ...
        - ``skeleton``: the label of its object. The components of a mask are numbered as by
          `label`.
        - ``branch_type``: 0 between two free ends, 1 between a free end and a junction, 2 between
          two junctions, and 3 for a closed loop without junctions. The numbers are skan's.
        - ``num_pixels``: its voxels, without junction voxels.
        - ``length``: the sum of the Euclidean steps from end to end.
        - ``distance``: the Euclidean distance between both ends.
        - ``tortuosity``: the length divided by the distance; inf for loops, NaN for single voxels.
        - ``start-0``, ... and ``end-0``, ...: both ends, in voxels. The start precedes the end in
          raster order. For closed loops, both are the first voxel.
        - ``junction_start`` and ``junction_end``: the junction at each end, 1, 2, ...; 0 for a free
          end.
        - ``radius_mean``: the mean of ``distances`` at its voxels, without junction voxels.

    Raises
    ------
    ValueError
        If shapes differ or a parameter is out of range. On computation, if the label of a branch
        is negative, a distance is NaN or infinite and ``nan="raise"``, or the branches need more
        memory than is available.
    TypeError
        If an input is neither a volume nor an array, or has an unsupported dtype.

    See Also
    --------
    skeletonize : thins objects to lines.
    regionprops_table : measures whole objects.

    Notes
    -----
    Neighbours are voxels of one label that share a face, an edge or a corner. A voxel with more
    than two neighbours belongs to a junction, and neighbouring voxels of junctions are one
    junction. Branches are the components of the remaining voxels.

    A branch ends at the junction voxel that it touches, or at its own last voxel. Its length
    includes the step to that junction voxel, but no steps between voxels of a junction. Two
    junctions that touch are therefore one junction, without a branch. Where lines are wider than
    one voxel, most voxels belong to junctions.

    Two sweeps, with a halo of two voxels: the first numbers branches and junctions, and the second
    measures them. Memory grows with the branches of one slab, about 1 kB each. Branches of all slabs
    are then combined in groups of up to a million, about 700 bytes each. With less memory there are
    more groups.

    References
    ----------
    `skan.summarize`, which divides junctions of several voxels into branches of one step; J. Nunez-
    Iglesias et al., "A new Python library to analyse skeleton images confirms malaria parasite
    remodelling of the red blood cell membrane skeleton", PeerJ 6 (2018).

    Examples
    --------
    >>> lines = np.zeros((5, 7), bool)
    >>> lines[2, :4] = lines[1, 4] = lines[0, 5] = lines[3, 4] = lines[4, 5] = True
    >>> table = bv.skeleton_table(lines)
    >>> np.stack([table["start-0"], table["start-1"], table["end-0"], table["end-1"]], axis=1)
    array([[0, 5, 2, 3],
           [2, 0, 2, 3],
           [2, 3, 4, 5]])
    >>> table["length"].round(2), table["junction_end"]
    (array([2.83, 3.  , 2.83]), array([1, 1, 0], dtype=uint64))
    """

def skeletonize(
    volume: Volume,
    *,
    max_num_iter: int = 32,
    axes: int | Sequence[int] | None = None,
) -> Volume:
    """Thin objects to lines along their centres, one voxel wide.

    Use it to trace vessels, neurites and other branching objects.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes. Nonzero voxels are foreground.
    max_num_iter : int, default: 32
        The number of iterations, from 1 to 1024. Each iteration removes one layer of voxels. Tubes
        need about as many iterations as their radius in voxels, and sheets half of their width.
    axes : int or sequence of int, optional
        Axes to work along, counted from 0, or backwards from -1; all axes by default.

    Returns
    -------
    Volume
        A bool volume. A voxel is set if the object would lose its topology without it, or if it is
        the end of a line.

    Raises
    ------
    ValueError
        If a parameter is out of range. On computation, if objects still become thinner after
        ``max_num_iter`` iterations.
    TypeError
        If ``volume`` is neither a volume nor an array.

    See Also
    --------
    skeleton_table : measures the branches of the result.
    map_labels : calls a different algorithm for each whole object.
    distance_transform_edt : contains the radius of an object at the voxels of its skeleton.

    Notes
    -----
    The result has the same components, tunnels and cavities as the volume, for neighbours that
    share a face, an edge or a corner. A hollow object becomes a closed surface, so fill cavities
    first with `binary_fill_holes`. ``axes=(1, 2)`` thins slice by slice. Beyond the edges is
    background.

    In each iteration, voxels are candidates if they are simple and are not ends of lines at its
    start. A voxel is simple if its removal does not change the topology. The voxels are divided
    into eight classes by the parities of their positions, and two voxels of a class are never
    neighbours. The classes are processed one after the other, and candidates that are still simple
    are removed. The result depends on the position of an object in the volume, but not on slabs.
    scikit-image removes voxels in a different order, so its skeletons differ by single voxels and
    short branches.

    One sweep. The halo is 2, 3 and 5 voxels along z, y and x for each iteration. Memory holds the
    slices of the halo of a slab, with one byte for each voxel.

    References
    ----------
    `skimage.morphology.skeletonize`; G. Németh, P. Kardos, K. Palágyi, "Topology preserving 3D
    thinning algorithms using four and eight subfields", ICIAR 2010; G. Bertrand, G. Malandain, "A
    new characterization of three-dimensional simple points", Pattern Recognition Letters 15 (1994).

    Examples
    --------
    >>> bar = np.zeros((5, 9), "u1")
    >>> bar[1:4, 1:8] = 1
    >>> np.asarray(bv.skeletonize(bar, max_num_iter=3)).astype(int)
    array([[0, 0, 0, 0, 0, 0, 0, 0, 0],
           [0, 0, 0, 0, 0, 0, 0, 0, 0],
           [0, 0, 1, 1, 1, 1, 1, 0, 0],
           [0, 0, 0, 0, 0, 0, 0, 0, 0],
           [0, 0, 0, 0, 0, 0, 0, 0, 0]])
    """

def sobel(
    volume: Volume,
    axis: int = -1,
    *,
    mode: str | Sequence[str] = 'reflect',
    cval: float = 0.0,
    dtype: DTypeLike | None = None,
) -> Volume:
    """Compute the Sobel derivative along an axis.

    The weights are ``[-1, 0, 1]`` along this axis, and ``[1, 2, 1]`` along all other axes.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    axis : int, default: -1
        The axis of the derivative, counted from 0, or backwards from -1.
    mode : str or sequence of str, default: "reflect"
        How to extend the volume beyond its edges, as in `scipy.ndimage`; one mode for all axes or one
        per axis. ``"reflect"`` and ``"grid-mirror"`` repeat the outer voxel (c b a | a b c d | d c b), and
        ``"mirror"`` does not (d c b | a b c d | c b a). ``"nearest"`` extends it (a a a | a b c d | d d
        d), ``"constant"`` and ``"grid-constant"`` use ``cval``, and ``"wrap"`` and ``"grid-wrap"``
        repeat the volume (b c d | a b c d | a b c).
    cval : float, default: 0.0
        The value beyond the edges if ``mode`` is ``"constant"`` or ``"grid-constant"``.
    dtype : dtype, optional
        Dtype of the result. Integers are rounded half to even and clipped to the dtype's range.

    Returns
    -------
    Volume
        A float32 volume for bool, integers of up to 16 bits, float16 and float32; a float64 volume for
        other dtypes. ``dtype`` overrides this.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis. If a length has a unit
        but the volume has no voxel size.
    TypeError
        If ``volume`` is neither a volume nor an array, or ``dtype`` is not supported.

    Notes
    -----
    One sweep, with a halo of one voxel along each axis. For integers, scipy returns the input's
    dtype, which wraps around. Use ``generic_gradient_magnitude`` to combine the derivatives along
    several axes, as scikit-image does if ``axis`` is None or a tuple.

    References
    ----------
    `scipy.ndimage.sobel`.

    Examples
    --------
    >>> row = bv.open(np.array([[10, 20, 30, 200, 10]], "u1"))
    >>> np.asarray(bv.sobel(row))
    array([[  40.,   80.,  720.,  -80., -760.]], dtype=float32)
    """

def spline_filter(
    volume: Volume,
    order: int = 3,
    *,
    mode: str = 'mirror',
    dtype: DTypeLike | None = None,
) -> Volume:
    """Compute the coefficients of the B-spline through all voxels.

    Use it to inspect the coefficients, or to compute several transforms with ``prefilter=False``.
    `zoom`, `shift`, `rotate`, `affine_transform` and `map_coordinates` otherwise compute them.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    order : int, default: 3
        The order of the spline, from 2 to 5; with 0 and 1, voxels are their own coefficients.
    mode : str, default: "mirror"
        How to extend the volume beyond its edges. ``"reflect"``, ``"grid-mirror"`` and
        ``"nearest"`` repeat the outer voxel (c b a | a b c d | d c b), and ``"grid-wrap"`` repeats
        the volume. All other modes mirror it at the centre of the outer voxel (d c b | a b c d | c
        b a).
    dtype : dtype, optional
        Dtype of the result. Integers are rounded half to even and clipped to the dtype's range.

    Returns
    -------
    Volume
        A float32 volume for bool, integers of up to 16 bits, float16 and float32; a float64 volume for
        other dtypes. ``dtype`` overrides this.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis. If a length has a unit
        but the volume has no voxel size.
    TypeError
        If ``volume`` is neither a volume nor an array, or ``dtype`` is not supported.

    See Also
    --------
    spline_filter1d : filters along one axis.
    zoom, affine_transform : interpolate.

    Notes
    -----
    scipy filters recursively from one end of the volume to the other. Here, each coefficient is a
    sum over as many voxels as its precision needs, always in the same order. Cubic splines need 16
    voxels on each side for float32, and 29 for float64. The result equals scipy's in float64 within
    8 units in the last place of the result's dtype, relative to the largest coefficient. scipy
    returns float64 by default. A NaN affects the coefficients within this distance; in scipy, it
    affects whole rows.

    One sweep. The halo in voxels, for float32 and float64, is 12 and 21 for order 2, 16 and 29 for
    order 3, 21 and 38 for order 4, and 26 and 46 for order 5.

    References
    ----------
    `scipy.ndimage.spline_filter`. M. Unser, Splines: a perfect fit for signal and image processing,
    IEEE Signal Processing Magazine 16 (1999).

    Examples
    --------
    >>> v = bv.open(np.array([[0, 0, 6, 0, 0]], "u1"))
    >>> np.asarray(bv.spline_filter(v)).round(1)
    array([[ 1.5, -3. , 10.5, -3. ,  1.5]], dtype=float32)
    """

def spline_filter1d(
    volume: Volume,
    order: int = 3,
    axis: int = -1,
    *,
    mode: str = 'mirror',
    dtype: DTypeLike | None = None,
) -> Volume:
    """Compute the coefficients of B-splines along one axis.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    order : int, default: 3
        The order of the spline, from 2 to 5; with 0 and 1, voxels are their own coefficients.
    axis : int, default: -1
        The axis to work along, counted from 0, or backwards from -1.
    mode : str, default: "mirror"
        How to extend the volume beyond its edges. ``"reflect"``, ``"grid-mirror"`` and
        ``"nearest"`` repeat the outer voxel (c b a | a b c d | d c b), and ``"grid-wrap"`` repeats
        the volume. All other modes mirror it at the centre of the outer voxel (d c b | a b c d | c
        b a).
    dtype : dtype, optional
        Dtype of the result. Integers are rounded half to even and clipped to the dtype's range.

    Returns
    -------
    Volume
        A float32 volume for bool, integers of up to 16 bits, float16 and float32; a float64 volume for
        other dtypes. ``dtype`` overrides this.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis. If a length has a unit
        but the volume has no voxel size.
    TypeError
        If ``volume`` is neither a volume nor an array, or ``dtype`` is not supported.

    See Also
    --------
    spline_filter : filters along all axes.

    Notes
    -----
    Weights and precision are documented in `spline_filter`. One sweep.

    References
    ----------
    `scipy.ndimage.spline_filter1d`.

    Examples
    --------
    >>> v = bv.open(np.array([[0, 0, 6, 0, 0]], "u1"))
    >>> np.asarray(bv.spline_filter1d(v, 2)).round(1)
    array([[ 0.5, -1.5,  8.5, -1.5,  0.5]], dtype=float32)
    """

def sqrt(
    volume: Volume | Scalar,
) -> Any:
    """Compute square roots, correctly rounded.

    Parameters
    ----------
    volume : Volume or Scalar
        A volume or a lazy number.

    Returns
    -------
    Volume or Scalar
        A result of the same kind, with numpy's dtype; NaN for negative numbers.

    Raises
    ------
    TypeError
        If the input is not a volume, lazy number, array or number.

    Notes
    -----
    Pointwise: no halo, and no sweeps beyond those for the inputs.

    References
    ----------
    `numpy.sqrt`.

    Examples
    --------
    >>> np.asarray(bv.sqrt(bv.open(np.array([[4.0, 9.0]]))))
    array([[2., 3.]])
    """

def stack(
    volumes: Sequence[Volume],
    names: Sequence[str] | None = None,
) -> Volume:
    """Stack volumes as the channels of one volume.

    Parameters
    ----------
    volumes : sequence of Volume or numpy.ndarray
        One or more volumes of the same shape. All channels of a volume are used.
    names : sequence of str, optional
        A different name for each channel. By default, the names of the volumes' channels, if all
        channels have names.

    Returns
    -------
    Volume
        A volume with the axis c before the others, of the dtype to which numpy promotes the inputs.

    Raises
    ------
    ValueError
        If no volume is given, shapes differ, or there is not one name for each channel.
    TypeError
        If an input is neither a volume nor an array.

    See Also
    --------
    channels : the inverse.
    Volume.sel : selects channels by name.

    Notes
    -----
    Voxels are not copied. Channels are computed separately in the same sweep. Stored chunks that
    contain all channels are decoded once.

    References
    ----------
    `numpy.stack`.

    Examples
    --------
    >>> v = bv.stack([np.zeros((2, 3), "u1"), np.ones((2, 3), "u1")], names=["DAPI", "GFP"])
    >>> v.shape, v.axes, v.channels
    ((2, 2, 3), ('c', 'y', 'x'), ('DAPI', 'GFP'))
    >>> int(bv.sum(v)), np.asarray(bv.sum(v, axis=("y", "x"))).tolist()
    (6, [0, 6])
    """

def std(
    volume: Volume,
    axis: Axis = None,
    *,
    ddof: int = 0,
    labels: Volume | None = None,
    index: ArrayLike | None = None,
    mask: Volume | None = None,
    nan: str = 'raise',
    across: str | None = None,
) -> Scalar:
    """Compute the standard deviation of all voxels, or of each line along some axes, exactly.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    axis : int, str or sequence of them, optional
        The axes to reduce: numbers as in numpy, or names. For example, ``"z"`` is a projection along z,
        and ``("y", "x")`` returns one number per slice. By default, all axes except time. ``"c"`` alone
        reduces the channels of each voxel, and ``"t"`` alone the time points; in these cases, the
        result is a volume of any size.
    ddof : int, default: 0
        Number to subtract from the number of voxels in the divisor, as in `numpy.var`.
    labels : Volume or numpy.ndarray, optional
        Labels with the same shape, bool or integers from 0, to measure each label separately, as in
        `scipy.ndimage`.
    index : int or array_like of int, optional
        The labels to measure, in any order; 0 is the background. The result is an array of this shape.
        Missing labels are NaN, or 0 for integers. By default, all labels are measured together.
    mask : Volume, optional
        Only voxels with a nonzero mask are included; all voxels by default.
    nan : {"raise", "omit"}, default: "raise"
        Whether NaN and infinite voxels raise an error on computation or are ignored.
    across : {"t"}, optional
        Compute one number for all time points, as in ``v > bv.mean(v, across="t")``. By default, each
        time point has its own number. A volume without a time axis has one number in both cases.

    Returns
    -------
    Scalar
        The lazy standard deviation, rounded once, with the dtype of `numpy.std`. With ``axis``, a lazy
        array with the remaining axes; lines without included voxels are NaN.

    Raises
    ------
    ValueError
        If a parameter is out of range. On computation, if an included voxel is NaN or infinite and
        ``nan="raise"``, or no voxel is included.
    TypeError
        If ``volume`` is neither a volume nor an array.

    See Also
    --------
    variance : computes its square.

    Notes
    -----
    One sweep.

    With ``axis``, the lazy array is limited to 256 MiB.

    Partial results of slabs are merged exactly, so the result is the same, bit for bit, for any
    division into slabs.

    References
    ----------
    `numpy.std`.

    Examples
    --------
    >>> v = bv.open(np.array([[1, 3], [5, 5]]))
    >>> float(bv.std(v[:1])), np.asarray(bv.std(v, axis="x"))
    (1.0, array([1., 0.]))
    """

def stitch(
    blocks: Any,
    overlap: int | Sequence[int],
    stitch: str = 'iou',
    threshold: float = 0.5,
    *,
    dtype: DTypeLike | None = None,
) -> Volume:
    """Stitch a segmentation from overlapping blocks with independent labels.

    Parameters
    ----------
    blocks : nested sequence of Volume or numpy.ndarray
        Labels of the blocks, in lists that are nested like the volume's axes. The outer list is
        along the first axis, its lists along the second, and so on. All blocks have the same shape,
        except that the last along each axis may be smaller. The same label in two blocks means
        different objects.
    overlap : int or sequence of int
        Number of voxels shared by adjacent blocks, up to half a block.
    stitch : {"iou", "touch", "largest"}, default: "iou"
        When labels of two adjacent tiles belong to one object. Only voxels that the tiles share are
        considered. ``"iou"``: the intersection over union is at least ``threshold``. ``"touch"``: they
        share a voxel. ``"largest"``: each is the label that overlaps the other most; of equal overlaps,
        the smaller label is selected.
    threshold : float, default: 0.5
        Minimum intersection over union for ``"iou"``, above 0 and up to 1. Above 0.5, a label joins at
        most one label of a neighbouring tile.
    dtype : dtype, optional
        Dtype of the result: uint32 by default, uint64 for volumes of 2**32 or more voxels.

    Returns
    -------
    Volume
        Labels 1, 2, ... in the raster order of the objects' first voxels, with the origin of the
        first block.

    Raises
    ------
    ValueError
        If a parameter is out of range, or the blocks do not fit together.
    TypeError
        If a block is not a volume of integers.

    See Also
    --------
    map_instances : runs a function block by block, and stitches the results.

    Notes
    -----
    Two sweeps; the stitching rule and memory are as in `map_instances`. `concatenate` joins the
    blocks first, so use it for up to a few hundred blocks.

    References
    ----------
    Matching by intersection over union in overlaps: `Stringer et al., Cellpose, Nature Methods 2021
    <https://doi.org/10.1038/s41592-020-01018-x>`_.

    Examples
    --------
    >>> left, right = np.array([[5, 0, 7, 7]], "u8"), np.array([[3, 3, 3, 0, 5]], "u8")
    >>> np.asarray(bv.stitch([[left, right[:, :4]]], overlap=(0, 2)))
    array([[1, 0, 2, 2, 2, 0]], dtype=uint32)
    """

@overload
def structural_similarity(
    a: Volume,
    b: Volume,
    *,
    win_size: int | Sequence[int] | None = None,
    data_range: float | Scalar | None = None,
    gaussian_weights: bool = False,
    sigma: float | Sequence[float] = 1.5,
    use_sample_covariance: bool = True,
    K1: float = 0.01,
    K2: float = 0.03,
    full: Literal[False] = False,
) -> Scalar:
    """Compute the mean structural similarity (SSIM) of two images, and optionally its map.

    Parameters
    ----------
    a : Volume or numpy.ndarray
        The first volume.
    b : Volume or numpy.ndarray
        The second volume, with the same shape and axes. Different dtypes are promoted as in numpy.
    win_size : int or sequence of int, optional
        Extent of the window in voxels, an odd number; one value for all axes or one per axis.
        7 by default. With ``gaussian_weights`` it follows from ``sigma``.
    data_range : float or Scalar, optional
        The difference of the largest and the smallest possible voxel, for example
        ``bv.max(v) - bv.min(v)``. By default, the range of the dtype for bool and unsigned integers.
        Other dtypes need it.
    gaussian_weights : bool, default: False
        Whether to weigh the window by a Gaussian of standard deviation ``sigma``. Together with
        ``use_sample_covariance=False`` this is the method of Wang et al.
    sigma : float or sequence of float, default: 1.5
        Standard deviation of the Gaussian in voxels; one value for all axes or one per axis.
    use_sample_covariance : bool, default: True
        Whether to divide covariances by N - 1 instead of N, the number of voxels of the window.
    K1 : float, default: 0.01
        Keeps the quotient stable where means are small: its product with ``data_range`` is squared
        and added.
    K2 : float, default: 0.03
        The same for small variances.
    full : bool, default: False
        Whether to also return the map of similarities.

    Returns
    -------
    similarity : Scalar
        The lazy float64 mean over all voxels with a window inside the volume.
    map : Volume
        With ``full=True``: the similarity of each voxel, float32 if both volumes are float16 or
        float32, and float64 otherwise.

    Raises
    ------
    ValueError
        If the shapes or axes of the volumes differ, the window is larger than the volume, or a
        parameter is out of range. On computation, if a voxel is NaN or infinite.
    TypeError
        If ``a`` or ``b`` is neither a volume nor an array.

    See Also
    --------
    peak_signal_noise_ratio : compares voxels by themselves.

    Notes
    -----
    One sweep, which reads both volumes. The halo is half the window.

    Partial results of slabs are merged exactly, so the result is the same, bit for bit, for any
    division into slabs.

    References
    ----------
    `skimage.metrics.structural_similarity`. Wang, Z., Bovik, A. C., Sheikh, H. R., & Simoncelli,
    E. P. (2004). Image quality assessment: from error visibility to structural similarity. IEEE
    Transactions on Image Processing, 13, 600-612.

    Examples
    --------
    >>> image = np.arange(64.0).reshape(8, 8)
    >>> float(bv.structural_similarity(image, image, data_range=63))
    1.0
    """

@overload
def structural_similarity(
    a: Volume,
    b: Volume,
    *,
    win_size: int | Sequence[int] | None = None,
    data_range: float | Scalar | None = None,
    gaussian_weights: bool = False,
    sigma: float | Sequence[float] = 1.5,
    use_sample_covariance: bool = True,
    K1: float = 0.01,
    K2: float = 0.03,
    full: Literal[True],
) -> tuple[Scalar, Volume]:
    """Compute the mean structural similarity (SSIM) of two images, and optionally its map.

    Parameters
    ----------
    a : Volume or numpy.ndarray
        The first volume.
    b : Volume or numpy.ndarray
        The second volume, with the same shape and axes. Different dtypes are promoted as in numpy.
    win_size : int or sequence of int, optional
        Extent of the window in voxels, an odd number; one value for all axes or one per axis.
        7 by default. With ``gaussian_weights`` it follows from ``sigma``.
    data_range : float or Scalar, optional
        The difference of the largest and the smallest possible voxel, for example
        ``bv.max(v) - bv.min(v)``. By default, the range of the dtype for bool and unsigned integers.
        Other dtypes need it.
    gaussian_weights : bool, default: False
        Whether to weigh the window by a Gaussian of standard deviation ``sigma``. Together with
        ``use_sample_covariance=False`` this is the method of Wang et al.
    sigma : float or sequence of float, default: 1.5
        Standard deviation of the Gaussian in voxels; one value for all axes or one per axis.
    use_sample_covariance : bool, default: True
        Whether to divide covariances by N - 1 instead of N, the number of voxels of the window.
    K1 : float, default: 0.01
        Keeps the quotient stable where means are small: its product with ``data_range`` is squared
        and added.
    K2 : float, default: 0.03
        The same for small variances.
    full : bool, default: False
        Whether to also return the map of similarities.

    Returns
    -------
    similarity : Scalar
        The lazy float64 mean over all voxels with a window inside the volume.
    map : Volume
        With ``full=True``: the similarity of each voxel, float32 if both volumes are float16 or
        float32, and float64 otherwise.

    Raises
    ------
    ValueError
        If the shapes or axes of the volumes differ, the window is larger than the volume, or a
        parameter is out of range. On computation, if a voxel is NaN or infinite.
    TypeError
        If ``a`` or ``b`` is neither a volume nor an array.

    See Also
    --------
    peak_signal_noise_ratio : compares voxels by themselves.

    Notes
    -----
    One sweep, which reads both volumes. The halo is half the window.

    Partial results of slabs are merged exactly, so the result is the same, bit for bit, for any
    division into slabs.

    References
    ----------
    `skimage.metrics.structural_similarity`. Wang, Z., Bovik, A. C., Sheikh, H. R., & Simoncelli,
    E. P. (2004). Image quality assessment: from error visibility to structural similarity. IEEE
    Transactions on Image Processing, 13, 600-612.

    Examples
    --------
    >>> image = np.arange(64.0).reshape(8, 8)
    >>> float(bv.structural_similarity(image, image, data_range=63))
    1.0
    """

def structure_tensor(
    volume: Volume,
    sigma: Sigma = 1.0,
    *,
    mode: str | Sequence[str] = 'constant',
    cval: float = 0.0,
    dtype: DTypeLike | None = None,
) -> tuple[Volume, ...]:
    """Compute the structure tensor: smoothed products of Sobel derivatives.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes. Intensities keep their scale, whereas scikit-image
        scales integers to the range from 0 to 1.
    sigma : float, str or sequence of them, default: 1.0
        Standard deviation of the smoothing Gaussian, in voxels or as a length such as
        ``"15 nm"``. Lengths need a volume with a voxel size. One value for all axes or one per
        axis.
    mode : str or sequence of str, default: "constant"
        How to extend the volume beyond its edges, as in `scipy.ndimage`; one mode for all axes or one
        per axis. ``"reflect"`` and ``"grid-mirror"`` repeat the outer voxel (c b a | a b c d | d c b), and
        ``"mirror"`` does not (d c b | a b c d | c b a). ``"nearest"`` extends it (a a a | a b c d | d d
        d), ``"constant"`` and ``"grid-constant"`` use ``cval``, and ``"wrap"`` and ``"grid-wrap"``
        repeat the volume (b c d | a b c d | a b c).
    cval : float, default: 0.0
        The value beyond the edges if ``mode`` is ``"constant"`` or ``"grid-constant"``.
    dtype : dtype, optional
        Dtype of the result. Integers are rounded half to even and clipped to the dtype's range.

    Returns
    -------
    tuple of Volume
        The upper triangle, row by row: zz, zy, zx, yy, yx, xx, or yy, yx, xx for a volume with two
        axes. The elements are float32 for bool, integers of up to 16 bits, float16 and float32;
        float64 for other dtypes. ``dtype`` overrides this.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis. If a length has a unit
        but the volume has no voxel size.
    TypeError
        If ``volume`` is neither a volume nor an array, or ``dtype`` is not supported.

    See Also
    --------
    structure_tensor_eigenvalues : computes the eigenvalues from this result.

    Notes
    -----
    One sweep, with a halo of ``4 * sigma + 1`` voxels. Windows of all elements are in memory at the
    same time.

    References
    ----------
    `skimage.feature.structure_tensor`.

    Examples
    --------
    >>> square = bv.open(np.pad(np.ones((3, 3), "u1"), 2))
    >>> np.asarray(bv.structure_tensor(square, 0.1)[1]).astype(int)[1]
    array([ 0,  1,  3,  0, -3, -1,  0])
    """

def structure_tensor_eigenvalues(
    tensor: Sequence[Volume],
) -> tuple[Volume, ...]:
    """Compute the eigenvalues of a structure tensor, in descending order.

    Parameters
    ----------
    tensor : sequence of Volume
        The six elements from `structure_tensor`, or three for two axes; all float32, or all
        float64.

    Returns
    -------
    tuple of Volume
        One volume for each axis, with the dtype of the elements.

    Raises
    ------
    ValueError
        If there are not three or six elements.
    TypeError
        If the elements are not all float32, or all float64.

    See Also
    --------
    hessian_matrix_eigvals : does the same for a Hessian matrix.

    Notes
    -----
    float32 uses a closed form, with an error of 2e-7 of the largest eigenvalue, and float64 uses
    Jacobi rotations. For three axes and float32, a common intermediate result is computed once and
    needs 8 bytes for each voxel of a window.

    References
    ----------
    `skimage.feature.structure_tensor_eigenvalues`.

    Examples
    --------
    >>> square = bv.open(np.pad(np.ones((3, 3), "u1"), 2))
    >>> first, second = bv.structure_tensor_eigenvalues(bv.structure_tensor(square, 0.1))
    >>> np.asarray(first).astype(int)[3]
    array([ 0, 16, 16,  0, 16, 16,  0])
    """

def studio(
    *items: Any,
    recipe: str | os.PathLike[str] | None = None,
    port: int = 0,
    memory: int | str | None = None,
    folders: Sequence[str] = (),
) -> Studio:
    """Edit a recipe in the browser, with live sections of a region and the estimated cost of the run.

    Use it to see the effect of parameters before processing the whole volume. Sections of every
    step are computed on demand, and equal the result of a run unless they are marked as
    provisional. Steps, parameters and outputs are edited as cards, and comments of the recipe are
    kept. The page needs NiceGUI (``pip install 'beam-volumes[studio]'``) and no network access.

    Parameters
    ----------
    *items : Volume, numpy.ndarray or str
        Inputs of a new recipe: paths, volumes or arrays. If there is a recipe, they replace its
        inputs, in order. A path that ends in ``.yaml`` is used as ``recipe``.
    recipe : str, optional
        Path of a recipe, or its multi-line text. If the path does not exist, a new recipe is saved
        there.
    port : int, default: 0
        Port of this machine; 0 chooses a free one.
    memory : int or str, optional
        Memory that a view or a run may use, such as ``"2GiB"``; a quarter of this machine's by
        default.
    folders : sequence of str, default: ()
        Additional folders that the recipe may read and write. By default, these are only the
        current folder and the folders of the inputs and the recipe.

    Returns
    -------
    Studio
        Open its ``url`` in a browser on this machine. ``recipe`` is the current text, and
        ``close()`` stops the server.

    Raises
    ------
    ValueError
        If NiceGUI is not installed, or there is neither an input nor a recipe. If an item cannot be
        opened, or the memory is too small for sections of an input. If the recipe is not valid YAML
        or has no inputs. Other errors of a recipe are shown on its cards.

    Notes
    -----
    A view computes only the planes that it shows, in less than a second for light filters.
    Whole-volume numbers of a large volume are first estimated from eight parts of it, and then
    computed exactly, which reads the volume once. Before the run, labels of a large volume are only
    computed in the region.

    Examples
    --------
    >>> em = np.random.default_rng(0).integers(0, 255, (16, 32, 32)).astype("u1")
    >>> page = bv.studio(em)
    >>> page.url.startswith("http://127.0.0.1:"), page.recipe.splitlines()[0]
    (True, 'input: in-memory')
    >>> page.close()
    """

def sum(
    volume: Volume,
    axis: Axis = None,
    *,
    labels: Volume | None = None,
    index: ArrayLike | None = None,
    mask: Volume | None = None,
    nan: str = 'raise',
    across: str | None = None,
) -> Scalar:
    """Sum all voxels, or each line along some axes, exactly.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    axis : int, str or sequence of them, optional
        The axes to reduce: numbers as in numpy, or names. For example, ``"z"`` is a projection along z,
        and ``("y", "x")`` returns one number per slice. By default, all axes except time. ``"c"`` alone
        reduces the channels of each voxel, and ``"t"`` alone the time points; in these cases, the
        result is a volume of any size.
    labels : Volume or numpy.ndarray, optional
        Labels with the same shape, bool or integers from 0, to measure each label separately, as in
        `scipy.ndimage`.
    index : int or array_like of int, optional
        The labels to measure, in any order; 0 is the background. The result is an array of this shape.
        Missing labels are NaN, or 0 for integers. By default, all labels are measured together.
    mask : Volume, optional
        Only voxels with a nonzero mask are included; all voxels by default.
    nan : {"raise", "omit"}, default: "raise"
        Whether NaN and infinite voxels raise an error on computation or are ignored.
    across : {"t"}, optional
        Compute one number for all time points, as in ``v > bv.mean(v, across="t")``. By default, each
        time point has its own number. A volume without a time axis has one number in both cases.

    Returns
    -------
    Scalar
        The lazy sum, rounded once, with the dtype of `numpy.sum`. With ``axis``, a lazy array with the
        remaining axes; lines without included voxels are 0.

    Raises
    ------
    ValueError
        If a parameter is out of range. On computation, if an included voxel is NaN or infinite and
        ``nan="raise"``, or a sum of integers exceeds 64 bits.
    TypeError
        If ``volume`` is neither a volume nor an array.

    See Also
    --------
    cumsum : computes running sums.

    Notes
    -----
    One sweep.

    With ``axis``, the lazy array is limited to 256 MiB.

    Partial results of slabs are merged exactly, so the result is the same, bit for bit, for any
    division into slabs.

    References
    ----------
    `numpy.sum`.

    Examples
    --------
    >>> float(bv.sum(bv.open(np.array([[1e16, 1.0, -1e16]]))))
    1.0
    """

def tan(
    volume: Volume | Scalar,
) -> Any:
    """Compute tangents of angles in radians.

    Parameters
    ----------
    volume : Volume or Scalar
        A volume or a lazy number.

    Returns
    -------
    Volume or Scalar
        A result of the same kind, with numpy's dtype; NaN for infinity.

    Raises
    ------
    TypeError
        If an input is not a volume, lazy number, array or number.

    Notes
    -----
    Pointwise: no halo, and no sweeps beyond those for the inputs.

    Results are the same on every processor; numpy's results depend on the processor. The error is below
    2 units in the last place of float64, or of the narrower dtype to which results are rounded.

    References
    ----------
    `numpy.tan`; fdlibm, Sun Microsystems (1993).

    Examples
    --------
    >>> np.asarray(bv.tan(bv.open(np.array([[0.0, 1.0]])))).round(4)
    array([[0.    , 1.5574]])
    """

def tanh(
    volume: Volume | Scalar,
) -> Any:
    """Compute hyperbolic tangents.

    Parameters
    ----------
    volume : Volume or Scalar
        A volume or a lazy number.

    Returns
    -------
    Volume or Scalar
        A result of the same kind, with numpy's dtype.

    Raises
    ------
    TypeError
        If an input is not a volume, lazy number, array or number.

    Notes
    -----
    Pointwise: no halo, and no sweeps beyond those for the inputs.

    Results are the same on every processor; numpy's results depend on the processor. The error is below
    2 units in the last place of float64, or of the narrower dtype to which results are rounded.

    References
    ----------
    `numpy.tanh`; fdlibm, Sun Microsystems (1993).

    Examples
    --------
    >>> np.asarray(bv.tanh(bv.open(np.array([[0.0, 1.0]])))).round(4)
    array([[0.    , 0.7616]])
    """

def threshold_isodata(
    volume: Volume,
    *,
    nbins: int = 256,
    mask: Volume | None = None,
    nan: str = 'raise',
    across: str | None = None,
) -> Scalar:
    """Compute the Ridler-Calvard threshold, which is half way between the means of both classes.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    nbins : int, default: 256
        Number of equal bins between the smallest and the largest voxel. For bool and integers of up to
        16 bits, each value is counted instead.
    mask : Volume, optional
        Only voxels with a nonzero mask are included; all voxels by default.
    nan : {"raise", "omit"}, default: "raise"
        Whether NaN and infinite voxels raise an error on computation or are ignored.
    across : {"t"}, optional
        Compute one number for all time points, as in ``v > bv.mean(v, across="t")``. By default, each
        time point has its own number. A volume without a time axis has one number in both cases.

    Returns
    -------
    Scalar
        The lazy threshold. Voxels above it are foreground.

    Raises
    ------
    ValueError
        On computation, if no value is half way between the means.
    ValueError
        If a parameter is out of range. On computation, if an included voxel is NaN or infinite and
        ``nan="raise"``, or no voxel is included.
    TypeError
        If ``volume`` is neither a volume nor an array.

    See Also
    --------
    threshold_otsu : maximizes the variance between classes.

    Notes
    -----
    One sweep for bool and integers of up to 16 bits, with exact counts of values. Other dtypes need
    two, for the range and the histogram.

    If there are several such values, the smallest is selected.

    References
    ----------
    `skimage.filters.threshold_isodata`; T. W. Ridler, S. Calvard, "Picture thresholding using an
    iterative selection method", IEEE Trans. SMC 8 (1978).

    Examples
    --------
    >>> v = bv.open(np.repeat(np.arange(12, dtype="u1"), [1, 8, 20, 9, 3, 1, 1, 2, 5, 9, 4, 1])[None])
    >>> int(bv.threshold_isodata(v))
    5
    """

def threshold_li(
    volume: Volume,
    *,
    nbins: int = 256,
    mask: Volume | None = None,
    nan: str = 'raise',
    across: str | None = None,
) -> Scalar:
    """Compute Li's threshold, which minimizes the cross entropy.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    nbins : int, default: 256
        Number of equal bins between the smallest and the largest voxel. For bool and integers of up to
        16 bits, each value is counted instead.
    mask : Volume, optional
        Only voxels with a nonzero mask are included; all voxels by default.
    nan : {"raise", "omit"}, default: "raise"
        Whether NaN and infinite voxels raise an error on computation or are ignored.
    across : {"t"}, optional
        Compute one number for all time points, as in ``v > bv.mean(v, across="t")``. By default, each
        time point has its own number. A volume without a time axis has one number in both cases.

    Returns
    -------
    Scalar
        The lazy threshold. Voxels above it are foreground.

    Raises
    ------
    ValueError
        If a parameter is out of range. On computation, if an included voxel is NaN or infinite and
        ``nan="raise"``, or no voxel is included.
    TypeError
        If ``volume`` is neither a volume nor an array.

    See Also
    --------
    threshold_otsu : maximizes the variance between classes.

    Notes
    -----
    One sweep for bool and integers of up to 16 bits, with exact counts of values. Other dtypes need
    two, for the range and the histogram.

    The threshold is computed from counts, for floats from ``nbins`` bins, whereas scikit-image iterates
    over all voxels.

    References
    ----------
    `skimage.filters.threshold_li`; C. H. Li, P. K. S. Tam, "An iterative algorithm for minimum
    cross entropy thresholding", Pattern Recognition Letters 19 (1998).

    Examples
    --------
    >>> v = bv.open(np.repeat(np.arange(12, dtype="u1"), [1, 8, 20, 9, 3, 1, 1, 2, 5, 9, 4, 1])[None])
    >>> round(float(bv.threshold_li(v)), 2)
    4.62
    """

def threshold_local(
    volume: Volume,
    block_size: int | Sequence[int] = 3,
    method: str = 'gaussian',
    offset: float = 0.0,
    *,
    mode: str | Sequence[str] = 'reflect',
    cval: float = 0.0,
    param: float | str | Sequence[float | str] | None = None,
) -> Volume:
    """Compute a threshold for each voxel, the mean of its neighbourhood minus an offset.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    block_size : int or sequence of int, default: 3
        Extent of the neighbourhood in voxels, an odd number; one value for all axes or one per
        axis.
    method : {"gaussian", "mean", "median"}, default: "gaussian"
        A mean with Gaussian weights of ``sigma = (block_size - 1) / 6``, a plain mean, or the
        median.
    offset : float, default: 0.0
        Number to subtract from the mean.
    mode : str or sequence of str, default: "reflect"
        How to extend the volume beyond its edges, as in `scipy.ndimage`; one mode for all axes or one
        per axis. ``"reflect"`` and ``"grid-mirror"`` repeat the outer voxel (c b a | a b c d | d c b), and
        ``"mirror"`` does not (d c b | a b c d | c b a). ``"nearest"`` extends it (a a a | a b c d | d d
        d), ``"constant"`` and ``"grid-constant"`` use ``cval``, and ``"wrap"`` and ``"grid-wrap"``
        repeat the volume (b c d | a b c d | a b c).
    cval : float, default: 0.0
        The value beyond the edges if ``mode`` is ``"constant"`` or ``"grid-constant"``.
    param : float, str or sequence of them, optional
        A custom sigma for ``"gaussian"``, in voxels or as a length such as ``"15 nm"``.

    Returns
    -------
    Volume
        A float32 volume for bool, integers of up to 16 bits, float16 and float32; a float64 volume
        for other dtypes. ``volume > threshold`` is foreground.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis. If a length has a unit
        but the volume has no voxel size.
    TypeError
        If ``volume`` is neither a volume nor an array, or ``dtype`` is not supported.

    See Also
    --------
    threshold_otsu : computes one threshold for the whole volume.

    Notes
    -----
    One sweep. The halo is ``block_size // 2`` voxels on each side, or four sigma for
    ``"gaussian"``.

    References
    ----------
    `skimage.filters.threshold_local`.

    Examples
    --------
    >>> v = bv.open(np.array([[1, 2, 9, 2, 1]], "u1"))
    >>> np.asarray(v > bv.threshold_local(v, (1, 3), "mean")).astype(int)
    array([[0, 0, 1, 0, 0]])
    """

def threshold_minimum(
    volume: Volume,
    *,
    nbins: int = 256,
    mask: Volume | None = None,
    nan: str = 'raise',
    across: str | None = None,
) -> Scalar:
    """Find the minimum between the two peaks of a smoothed histogram.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    nbins : int, default: 256
        Number of equal bins between the smallest and the largest voxel. For bool and integers of up to
        16 bits, each value is counted instead.
    mask : Volume, optional
        Only voxels with a nonzero mask are included; all voxels by default.
    nan : {"raise", "omit"}, default: "raise"
        Whether NaN and infinite voxels raise an error on computation or are ignored.
    across : {"t"}, optional
        Compute one number for all time points, as in ``v > bv.mean(v, across="t")``. By default, each
        time point has its own number. A volume without a time axis has one number in both cases.

    Returns
    -------
    Scalar
        The lazy threshold. Voxels above it are foreground.

    Raises
    ------
    ValueError
        On computation, if there are not two peaks.
    ValueError
        If a parameter is out of range. On computation, if an included voxel is NaN or infinite and
        ``nan="raise"``, or no voxel is included.
    TypeError
        If ``volume`` is neither a volume nor an array.

    See Also
    --------
    threshold_otsu : maximizes the variance between classes.

    Notes
    -----
    One sweep for bool and integers of up to 16 bits, with exact counts of values. Other dtypes need
    two, for the range and the histogram.

    References
    ----------
    `skimage.filters.threshold_minimum`; J. M. S. Prewitt, M. L. Mendelsohn, "The analysis of cell
    images", Annals of the New York Academy of Sciences 128 (1966).

    Examples
    --------
    >>> v = bv.open(np.repeat(np.arange(12, dtype="u1"), [1, 8, 20, 9, 3, 1, 1, 2, 5, 9, 4, 1])[None])
    >>> int(bv.threshold_minimum(v))
    6
    """

def threshold_moments(
    volume: Volume,
    *,
    nbins: int = 256,
    mask: Volume | None = None,
    nan: str = 'raise',
    across: str | None = None,
) -> Scalar:
    """Compute the threshold that preserves the moments of the histogram.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    nbins : int, default: 256
        Number of equal bins between the smallest and the largest voxel. For bool and integers of up to
        16 bits, each value is counted instead.
    mask : Volume, optional
        Only voxels with a nonzero mask are included; all voxels by default.
    nan : {"raise", "omit"}, default: "raise"
        Whether NaN and infinite voxels raise an error on computation or are ignored.
    across : {"t"}, optional
        Compute one number for all time points, as in ``v > bv.mean(v, across="t")``. By default, each
        time point has its own number. A volume without a time axis has one number in both cases.

    Returns
    -------
    Scalar
        The lazy threshold. Voxels above it are foreground.

    Raises
    ------
    ValueError
        If a parameter is out of range. On computation, if an included voxel is NaN or infinite and
        ``nan="raise"``, or no voxel is included.
    TypeError
        If ``volume`` is neither a volume nor an array.

    See Also
    --------
    threshold_otsu : maximizes the variance between classes.

    Notes
    -----
    One sweep for bool and integers of up to 16 bits, with exact counts of values. Other dtypes need
    two, for the range and the histogram.

    The volume is assumed to be a blurred volume with two values and the same first three moments. The
    number of voxels below the threshold equals the number of voxels with the lower value.

    References
    ----------
    ``MomentsThreshold`` of SimpleITK and "Moments" of Fiji; W.-H. Tsai, "Moment-preserving
    thresholding: a new approach", Computer Vision, Graphics, and Image Processing 29 (1985).

    Examples
    --------
    >>> v = bv.open(np.repeat(np.arange(12, dtype="u1"), [1, 8, 20, 9, 3, 1, 1, 2, 5, 9, 4, 1])[None])
    >>> int(bv.threshold_moments(v))
    5
    """

def threshold_multiotsu(
    volume: Volume,
    classes: int = 3,
    *,
    nbins: int = 256,
    mask: Volume | None = None,
    nan: str = 'raise',
    across: str | None = None,
) -> Scalar:
    """Compute the thresholds that separate several classes best.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    classes : int, default: 3
        Number of classes, at least 2.
    nbins : int, default: 256
        Number of equal bins between the smallest and the largest voxel. For bool and integers of up to
        16 bits, each value is counted instead.
    mask : Volume, optional
        Only voxels with a nonzero mask are included; all voxels by default.
    nan : {"raise", "omit"}, default: "raise"
        Whether NaN and infinite voxels raise an error on computation or are ignored.
    across : {"t"}, optional
        Compute one number for all time points, as in ``v > bv.mean(v, across="t")``. By default, each
        time point has its own number. A volume without a time axis has one number in both cases.

    Returns
    -------
    Scalar
        A lazy array of ``classes - 1`` thresholds, ascending; ``t[0]`` is a lazy number.

    Raises
    ------
    ValueError
        On computation, if there are fewer distinct values than classes.
    ValueError
        If a parameter is out of range. On computation, if an included voxel is NaN or infinite and
        ``nan="raise"``, or no voxel is included.
    TypeError
        If ``volume`` is neither a volume nor an array.

    See Also
    --------
    threshold_otsu : separates two classes.

    Notes
    -----
    One sweep for bool and integers of up to 16 bits, with exact counts of values. Other dtypes need
    two, for the range and the histogram.

    Integers of 16 bits are as fast as 8 bits, unlike in scikit-image, which tries all combinations.

    References
    ----------
    `skimage.filters.threshold_multiotsu`; P.-S. Liao, T.-S. Chen, P.-C. Chung, "A fast algorithm
    for multilevel thresholding", J. Information Science and Engineering 17 (2001); X. Wu, "Optimal
    quantization by matrix searching", J. Algorithms 12 (1991).

    Examples
    --------
    >>> np.asarray(bv.threshold_multiotsu(bv.open(np.array([[1, 2, 9, 9, 30]], "u1"))))
    array([2, 9])
    """

def threshold_niblack(
    volume: Volume,
    window_size: int | Sequence[int] = 15,
    k: float = 0.2,
) -> Volume:
    """Compute Niblack's threshold for each voxel: its window's mean minus ``k`` standard deviations.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    window_size : int or sequence of int, default: 15
        Extent of the window in voxels, an odd number; one value for all axes or one per axis.
    k : float, default: 0.2
        Number of standard deviations to subtract.

    Returns
    -------
    Volume
        A float32 volume for bool, integers of up to 16 bits, float16 and float32; a float64 volume
        for other dtypes. Computation is in float64. ``volume > threshold`` is foreground.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis.
    TypeError
        If ``volume`` is neither a volume nor an array, or a parameter has a wrong type.

    Notes
    -----
    One sweep, with a halo of ``window_size // 2`` voxels on each side. The volume is mirrored at
    its edges, as in scikit-image.

    References
    ----------
    `skimage.filters.threshold_niblack`; W. Niblack, "An introduction to digital image processing",
    Prentice-Hall (1986).

    Examples
    --------
    >>> v = bv.open(np.array([[1, 1, 7, 1, 1]], "u1"))
    >>> np.asarray(bv.threshold_niblack(v, (1, 3))).round(2)[0, 2]
    np.float32(2.43)
    """

def threshold_otsu(
    volume: Volume,
    *,
    nbins: int = 256,
    mask: Volume | None = None,
    nan: str = 'raise',
    across: str | None = None,
) -> Scalar:
    """Compute Otsu's threshold, which separates two classes best.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    nbins : int, default: 256
        Number of equal bins between the smallest and the largest voxel. For bool and integers of up to
        16 bits, each value is counted instead.
    mask : Volume, optional
        Only voxels with a nonzero mask are included; all voxels by default.
    nan : {"raise", "omit"}, default: "raise"
        Whether NaN and infinite voxels raise an error on computation or are ignored.
    across : {"t"}, optional
        Compute one number for all time points, as in ``v > bv.mean(v, across="t")``. By default, each
        time point has its own number. A volume without a time axis has one number in both cases.

    Returns
    -------
    Scalar
        The lazy threshold. Voxels above it are foreground.

    Raises
    ------
    ValueError
        If a parameter is out of range. On computation, if an included voxel is NaN or infinite and
        ``nan="raise"``, or no voxel is included.
    TypeError
        If ``volume`` is neither a volume nor an array.

    See Also
    --------
    threshold_multiotsu : supports more than two classes.
    threshold_local : computes a threshold for each voxel.

    Notes
    -----
    One sweep for bool and integers of up to 16 bits, with exact counts of values. Other dtypes need
    two, for the range and the histogram.

    References
    ----------
    `skimage.filters.threshold_otsu`; N. Otsu, "A threshold selection method from gray-level
    histograms", IEEE Trans. SMC 9 (1979).

    Examples
    --------
    >>> int(bv.threshold_otsu(bv.open(np.array([[1, 2, 9, 9]], "u1"))))
    2
    """

def threshold_sauvola(
    volume: Volume,
    window_size: int | Sequence[int] = 15,
    k: float = 0.2,
    r: float | None = None,
) -> Volume:
    """Compute Sauvola's threshold for each voxel from its window's mean and standard deviation.

    The threshold is ``mean * (1 + k * (deviation / r - 1))``.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    window_size : int or sequence of int, default: 15
        Extent of the window in voxels, an odd number; one value for all axes or one per axis.
    k : float, default: 0.2
        How much a small standard deviation reduces the threshold.
    r : float, optional
        The maximum possible standard deviation; by default half of the range of an integer dtype,
        and 1 for bool and floats.

    Returns
    -------
    Volume
        A float32 volume for bool, integers of up to 16 bits, float16 and float32; a float64 volume
        for other dtypes. Computation is in float64. ``volume > threshold`` is foreground.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis.
    TypeError
        If ``volume`` is neither a volume nor an array, or a parameter has a wrong type.

    Notes
    -----
    One sweep, with a halo of ``window_size // 2`` voxels on each side. The volume is mirrored at
    its edges, as in scikit-image.

    References
    ----------
    `skimage.filters.threshold_sauvola`; J. Sauvola, M. Pietikainen, "Adaptive document image
    binarization", Pattern Recognition 33 (2000).

    Examples
    --------
    >>> v = bv.open(np.array([[1, 1, 7, 1, 1]], "u1"))
    >>> np.asarray(bv.threshold_sauvola(v, (1, 3))).round(2)[0, 2]
    np.float32(2.41)
    """

def threshold_triangle(
    volume: Volume,
    *,
    nbins: int = 256,
    mask: Volume | None = None,
    nan: str = 'raise',
    across: str | None = None,
) -> Scalar:
    """Compute the triangle threshold, for histograms with one peak and a long tail.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    nbins : int, default: 256
        Number of equal bins between the smallest and the largest voxel. For bool and integers of up to
        16 bits, each value is counted instead.
    mask : Volume, optional
        Only voxels with a nonzero mask are included; all voxels by default.
    nan : {"raise", "omit"}, default: "raise"
        Whether NaN and infinite voxels raise an error on computation or are ignored.
    across : {"t"}, optional
        Compute one number for all time points, as in ``v > bv.mean(v, across="t")``. By default, each
        time point has its own number. A volume without a time axis has one number in both cases.

    Returns
    -------
    Scalar
        The lazy threshold. Voxels above it are foreground.

    Raises
    ------
    ValueError
        If a parameter is out of range. On computation, if an included voxel is NaN or infinite and
        ``nan="raise"``, or no voxel is included.
    TypeError
        If ``volume`` is neither a volume nor an array.

    See Also
    --------
    threshold_otsu : is for two peaks.

    Notes
    -----
    One sweep for bool and integers of up to 16 bits, with exact counts of values. Other dtypes need
    two, for the range and the histogram.

    References
    ----------
    `skimage.filters.threshold_triangle`; G. W. Zack, W. E. Rogers, S. A. Latt, "Automatic
    measurement of sister chromatid exchange frequency", J. Histochemistry and Cytochemistry 25
    (1977).

    Examples
    --------
    >>> v = bv.open(np.repeat(np.arange(12, dtype="u1"), [1, 8, 20, 9, 3, 1, 1, 2, 5, 9, 4, 1])[None])
    >>> int(bv.threshold_triangle(v))
    4
    """

def threshold_yen(
    volume: Volume,
    *,
    nbins: int = 256,
    mask: Volume | None = None,
    nan: str = 'raise',
    across: str | None = None,
) -> Scalar:
    """Compute Yen's threshold, which maximizes the correlation.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    nbins : int, default: 256
        Number of equal bins between the smallest and the largest voxel. For bool and integers of up to
        16 bits, each value is counted instead.
    mask : Volume, optional
        Only voxels with a nonzero mask are included; all voxels by default.
    nan : {"raise", "omit"}, default: "raise"
        Whether NaN and infinite voxels raise an error on computation or are ignored.
    across : {"t"}, optional
        Compute one number for all time points, as in ``v > bv.mean(v, across="t")``. By default, each
        time point has its own number. A volume without a time axis has one number in both cases.

    Returns
    -------
    Scalar
        The lazy threshold. Voxels above it are foreground.

    Raises
    ------
    ValueError
        If a parameter is out of range. On computation, if an included voxel is NaN or infinite and
        ``nan="raise"``, or no voxel is included.
    TypeError
        If ``volume`` is neither a volume nor an array.

    See Also
    --------
    threshold_otsu : maximizes the variance between classes.

    Notes
    -----
    One sweep for bool and integers of up to 16 bits, with exact counts of values. Other dtypes need
    two, for the range and the histogram.

    References
    ----------
    `skimage.filters.threshold_yen`; J. C. Yen, F. J. Chang, S. Chang, "A new criterion for
    automatic multilevel thresholding", IEEE Trans. Image Processing 4 (1995).

    Examples
    --------
    >>> v = bv.open(np.repeat(np.arange(12, dtype="u1"), [1, 8, 20, 9, 3, 1, 1, 2, 5, 9, 4, 1])[None])
    >>> int(bv.threshold_yen(v))
    3
    """

def tiles_report(
    path: str | os.PathLike[str],
    tiles: Sequence[Volume],
    positions: ComputedTable,
    pairs: ComputedTable,
    *,
    overwrite: bool = False,
) -> None:
    """Write an HTML report about the registration of tiles.

    Use it to see which pairs of tiles do not match and why.

    Parameters
    ----------
    path : path
        The file to write, which must end in ``.html``. It is self-contained.
    tiles : sequence of Volume or numpy.ndarray
        The tiles that were registered.
    positions, pairs : ComputedTable
        The two results of `register_tiles`.
    overwrite : bool, default: False
        Whether to replace a page that exists.

    Raises
    ------
    TypeError
        If ``positions`` or ``pairs`` is not a table.
    ValueError
        If the path does not end in ``.html``, or there is not one position for each tile.
    FileExistsError
        If the page exists.

    See Also
    --------
    register_tiles : finds the positions.

    Notes
    -----
    The page shows the graph of tiles and pairs, and histograms of residuals and correlations. It
    lists the worst pairs in a table, with a picture of each bad overlap. Only one plane of each bad
    overlap is read.

    Examples
    --------
    >>> from scipy import ndimage
    >>> film = ndimage.gaussian_filter(np.random.default_rng(0).normal(size=(60, 100)), 2)
    >>> tiles = [film[:, :60], film[2:, 43:]]
    >>> positions, pairs = bv.register_tiles(tiles, [(0, 0), (0, 40)])
    >>> bv.tiles_report("tiles.html", tiles, positions, pairs)
    """

def track(
    labels: Volume,
    *,
    max_distance: float | str | None = None,
    min_iou: float | None = None,
    max_gap: int = 0,
    divisions: bool = False,
    spacing: float | Sequence[float] | str | None = None,
    **options: Any,
) -> ComputedTable:
    """Track the objects of a movie over time.

    Use it for segmented cells or particles. `relabel` with the result gives each object the same
    label at all time points.

    Parameters
    ----------
    labels : Volume
        Integer labels with a time axis; 0 is background.
    max_distance : float or str, optional
        Maximum distance between centroids for linking objects of two time points, in the unit of
        ``spacing``. With ``spacing="voxel_size"``, it can be a length such as ``"5 um"``. By
        default, objects are linked by their overlap.
    min_iou : float, optional
        Minimum intersection over union for linking two objects by their overlap; 0.1 by default.
        Linking by overlap is suitable if objects move less than their size.
    max_gap : int, default: 0
        The number of time points for which an object may be missing.
    divisions : bool, default: False
        Whether to detect divisions. If a new object appears next to an existing track, that track
        ends and two daughter tracks start. Objects that enter the image or were missed before can
        look like daughters, so use it only for cells that divide.
    spacing : float, sequence of float or "voxel_size", optional
        Extent of a voxel, for areas, centroids and lengths: one value for all axes or one per axis; 1
        by default. ``"voxel_size"`` uses the voxel size of the volume.
    **options : options
        Options of `beam_volumes.compute`, such as ``runner`` and ``workers``.

    Returns
    -------
    ComputedTable
        A row for each object at each time point. The columns are ``t``, ``label``, ``track`` (from
        1), ``parent`` (the track that divided, or 0), and ``centroid-0``, ... in the unit of
        ``spacing``.

    Raises
    ------
    ValueError
        If a parameter is out of range, ``max_distance`` and ``min_iou`` are both set, or the labels
        have no time axis.
    TypeError
        If ``labels`` is neither a volume nor an array, or has an unsupported dtype.

    See Also
    --------
    relabel : writes tracks as labels.
    regionprops_table : measures the objects.
    register_frames : aligns the frames of a movie that drifts.

    Notes
    -----
    One sweep measures the objects. Overlaps need one more sweep for each time difference between
    linked objects. The tables of all time points and the pairs of nearby objects are held in
    memory, about 100 bytes for each object and each pair.

    Links between consecutive time points minimize the sum of costs: squared distances, or 1 minus
    the intersection over union. A second assignment then closes gaps and finds divisions. It links
    each new object with the end of a track, or with an object of the previous time point that
    already has a successor. An object has at most two daughters.

    References
    ----------
    K. Jaqaman et al., "Robust single-particle tracking in live-cell time-lapse sequences", Nature
    Methods 5 (2008); `scipy.sparse.csgraph.min_weight_full_bipartite_matching`.

    Examples
    --------
    >>> frames = [[[1, 1, 0, 0, 0, 3]], [[0, 5, 5, 0, 0, 3]], [[0, 0, 7, 0, 2, 2]]]
    >>> labels = bv.open(np.array(frames), axes="tyx")
    >>> tracks = bv.track(labels, max_distance=1.5)
    >>> tracks["track"].to_pylist()
    [1, 2, 2, 1, 2, 1]
    >>> columns = ("t", "label", "track")
    >>> np.asarray(bv.relabel(labels, tracks, columns=columns))[:, 0].tolist()
    [[1, 1, 0, 0, 0, 2], [0, 1, 1, 0, 0, 2], [0, 0, 1, 0, 2, 2]]
    """

def transpose(
    volume: Volume,
    axes: Sequence[int] | None = None,
) -> Volume:
    """Permute the axes of a volume.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    axes : sequence of int, optional
        For each axis of the result, the corresponding axis of the volume; by default, the order is
        reversed.

    Returns
    -------
    Volume
        A volume of the input's dtype. Names of axes do not change; voxel sizes and origin are
        permuted with the voxels.

    Raises
    ------
    ValueError
        If ``axes`` is not a permutation.
    TypeError
        If ``volume`` is neither a volume nor an array.

    See Also
    --------
    flip : reverses the order along axes.

    Notes
    -----
    An opened volume is read in the new order. A computed volume is stored for the run and read
    again in one additional sweep.

    References
    ----------
    `numpy.transpose`.

    Examples
    --------
    >>> v = bv.open(np.zeros((4, 5, 6), "u1"), voxel_size=(40, 8, 8), unit="nm")
    >>> bv.transpose(v, (2, 1, 0)).shape, bv.transpose(v, (2, 1, 0)).voxel_size
    ((6, 5, 4), (8.0, 8.0, 40.0))
    """

def uniform_filter(
    volume: Volume,
    size: int | Sequence[int] = 3,
    *,
    mode: str | Sequence[str] = 'reflect',
    cval: float = 0.0,
    origin: int | Sequence[int] = 0,
    axes: int | Sequence[int] | None = None,
    dtype: DTypeLike | None = None,
) -> Volume:
    """Compute the mean over a box around each voxel.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    size : int or sequence of int, default: 3
        Extent of the box in voxels; one value for all axes or one per axis.
    mode : str or sequence of str, default: "reflect"
        How to extend the volume beyond its edges, as in `scipy.ndimage`; one mode for all axes or one
        per axis. ``"reflect"`` and ``"grid-mirror"`` repeat the outer voxel (c b a | a b c d | d c b), and
        ``"mirror"`` does not (d c b | a b c d | c b a). ``"nearest"`` extends it (a a a | a b c d | d d
        d), ``"constant"`` and ``"grid-constant"`` use ``cval``, and ``"wrap"`` and ``"grid-wrap"``
        repeat the volume (b c d | a b c d | a b c).
    cval : float, default: 0.0
        The value beyond the edges if ``mode`` is ``"constant"`` or ``"grid-constant"``.
    origin : int or sequence of int, default: 0
        Shift of the footprint in voxels, as in `scipy.ndimage`: a positive number moves it towards
        lower indices. One value for all axes or one per axis.
    axes : int or sequence of int, optional
        Axes to work along, counted from 0, or backwards from -1; all axes by default.
    dtype : dtype, optional
        Dtype of the result. Integers are rounded half to even and clipped to the dtype's range.

    Returns
    -------
    Volume
        A float32 volume for bool, integers of up to 16 bits, float16 and float32; a float64 volume for
        other dtypes. ``dtype`` overrides this.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis. If a length has a unit
        but the volume has no voxel size.
    TypeError
        If ``volume`` is neither a volume nor an array, or ``dtype`` is not supported.

    See Also
    --------
    uniform_filter1d : filters along one axis.

    Notes
    -----
    Sums of integers of up to 16 bits are exact if they fit into 32 bits; the time is then
    independent of ``size``.

    One sweep. The halo is the reach of the footprint: along each axis, a slab reads ``size - 1`` more
    voxels than it writes. A window contains the same number of additional slices.

    References
    ----------
    `scipy.ndimage.uniform_filter`.

    Examples
    --------
    >>> np.asarray(bv.uniform_filter(bv.open(np.array([[0, 3, 0, 0]], "u1")), (1, 3)))
    array([[1., 1., 1., 0.]], dtype=float32)
    """

def uniform_filter1d(
    volume: Volume,
    size: int,
    axis: int = -1,
    *,
    mode: str = 'reflect',
    cval: float = 0.0,
    origin: int = 0,
    dtype: DTypeLike | None = None,
) -> Volume:
    """Compute the mean along one axis around each voxel.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    size : int
        Number of voxels.
    axis : int, default: -1
        The axis to work along, counted from 0, or backwards from -1.
    mode : str, default: "reflect"
        How to extend the volume beyond its edges, as in `scipy.ndimage`.
        ``"reflect"`` and ``"grid-mirror"`` repeat the outer voxel (c b a | a b c d | d c b), and
        ``"mirror"`` does not (d c b | a b c d | c b a). ``"nearest"`` extends it (a a a | a b c d | d d
        d), ``"constant"`` and ``"grid-constant"`` use ``cval``, and ``"wrap"`` and ``"grid-wrap"``
        repeat the volume (b c d | a b c d | a b c).
    cval : float, default: 0.0
        The value beyond the edges if ``mode`` is ``"constant"`` or ``"grid-constant"``.
    origin : int, default: 0
        Shift of the footprint in voxels, as in `scipy.ndimage`: a positive number moves it towards
        lower indices.
    dtype : dtype, optional
        Dtype of the result. Integers are rounded half to even and clipped to the dtype's range.

    Returns
    -------
    Volume
        A float32 volume for bool, integers of up to 16 bits, float16 and float32; a float64 volume for
        other dtypes. ``dtype`` overrides this.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis. If a length has a unit
        but the volume has no voxel size.
    TypeError
        If ``volume`` is neither a volume nor an array, or ``dtype`` is not supported.

    See Also
    --------
    uniform_filter : filters over a box.

    Notes
    -----
    One sweep. The halo along the axis is ``size - 1`` voxels in total.

    References
    ----------
    `scipy.ndimage.uniform_filter1d`.

    Examples
    --------
    >>> np.asarray(bv.uniform_filter1d(bv.open(np.array([[0, 3, 0, 0]], "u1")), 3))
    array([[1., 1., 1., 0.]], dtype=float32)
    """

def unsharp_mask(
    volume: Volume,
    radius: float | str | Sequence[float | str] = 1.0,
    amount: float = 1.0,
    *,
    mode: str | Sequence[str] = 'reflect',
    cval: float = 0.0,
    dtype: DTypeLike | None = None,
) -> Volume:
    """Sharpen a volume by adding the difference from its Gaussian.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes. Intensities keep their scale
        (``preserve_range=True`` in scikit-image) and are not clipped.
    radius : float, str or sequence of them, default: 1.0
        Standard deviation of the Gaussian, in voxels or as a length such as ``"15 nm"``. Lengths
        need a volume with a voxel size. One value for all axes or one per axis.
    amount : float, default: 1.0
        Factor of the difference.
    mode : str or sequence of str, default: "reflect"
        How to extend the volume beyond its edges, as in `scipy.ndimage`; one mode for all axes or one
        per axis. ``"reflect"`` and ``"grid-mirror"`` repeat the outer voxel (c b a | a b c d | d c b), and
        ``"mirror"`` does not (d c b | a b c d | c b a). ``"nearest"`` extends it (a a a | a b c d | d d
        d), ``"constant"`` and ``"grid-constant"`` use ``cval``, and ``"wrap"`` and ``"grid-wrap"``
        repeat the volume (b c d | a b c d | a b c).
    cval : float, default: 0.0
        The value beyond the edges if ``mode`` is ``"constant"`` or ``"grid-constant"``.
    dtype : dtype, optional
        Dtype of the result. Integers are rounded half to even and clipped to the dtype's range.

    Returns
    -------
    Volume
        A float32 volume for bool, integers of up to 16 bits, float16 and float32; a float64 volume for
        other dtypes. ``dtype`` overrides this.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis. If a length has a unit
        but the volume has no voxel size.
    TypeError
        If ``volume`` is neither a volume nor an array, or ``dtype`` is not supported.

    Notes
    -----
    One sweep, with a halo of four times ``radius``.

    References
    ----------
    `skimage.filters.unsharp_mask`.

    Examples
    --------
    >>> v = bv.open(np.array([[10, 10, 50, 50]], "u1"))
    >>> np.asarray(bv.unsharp_mask(v, (0, 1), dtype="u1"))
    array([[ 7,  0, 62, 53]], dtype=uint8)
    """

def upsample(
    volume: Volume,
    factors: int | Sequence[int],
    *,
    order: int = 0,
    like: Volume | None = None,
) -> Volume:
    """Divide each voxel into ``factors`` voxels along the axes.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    factors : int or sequence of int
        Number of new voxels per voxel; one value for all axes or one per axis.
    order : {0, 1}, default: 0
        0 repeats voxels, like `numpy.repeat`; 1 interpolates linearly between their centres, and is
        constant outside.
    like : Volume, optional
        The original input of `downsample`, which determines the shape of the result. The extents of
        this volume need not be multiples of ``factors``.

    Returns
    -------
    Volume
        A volume of the input's dtype with smaller voxels and the same physical extent; integers are
        rounded half away from zero.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis. If the volume has no
        voxels.
    TypeError
        If ``volume`` is neither a volume nor an array, or is bool with an order above 0.

    See Also
    --------
    downsample : the inverse.
    zoom : resamples by any factors.

    Notes
    -----
    The result is computed in the same sweep as the volume, and each window reads the slices that it
    needs.

    References
    ----------
    `scipy.ndimage.zoom` with ``grid_mode=True, mode="nearest"``.

    Examples
    --------
    >>> v = bv.open(np.array([[0, 8]], "u1"))
    >>> np.asarray(bv.upsample(v, (1, 4))), np.asarray(bv.upsample(v, (1, 4), order=1))
    (array([[0, 0, 0, 0, 8, 8, 8, 8]], dtype=uint8), array([[0, 0, 1, 3, 5, 7, 8, 8]], dtype=uint8))
    """

def variance(
    volume: Volume,
    axis: Axis = None,
    *,
    ddof: int = 0,
    labels: Volume | None = None,
    index: ArrayLike | None = None,
    mask: Volume | None = None,
    nan: str = 'raise',
    across: str | None = None,
) -> Scalar:
    """Compute the variance of all voxels, or of each line along some axes, exactly.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    axis : int, str or sequence of them, optional
        The axes to reduce: numbers as in numpy, or names. For example, ``"z"`` is a projection along z,
        and ``("y", "x")`` returns one number per slice. By default, all axes except time. ``"c"`` alone
        reduces the channels of each voxel, and ``"t"`` alone the time points; in these cases, the
        result is a volume of any size.
    ddof : int, default: 0
        Number to subtract from the number of voxels in the divisor, as in `numpy.var`.
    labels : Volume or numpy.ndarray, optional
        Labels with the same shape, bool or integers from 0, to measure each label separately, as in
        `scipy.ndimage`.
    index : int or array_like of int, optional
        The labels to measure, in any order; 0 is the background. The result is an array of this shape.
        Missing labels are NaN, or 0 for integers. By default, all labels are measured together.
    mask : Volume, optional
        Only voxels with a nonzero mask are included; all voxels by default.
    nan : {"raise", "omit"}, default: "raise"
        Whether NaN and infinite voxels raise an error on computation or are ignored.
    across : {"t"}, optional
        Compute one number for all time points, as in ``v > bv.mean(v, across="t")``. By default, each
        time point has its own number. A volume without a time axis has one number in both cases.

    Returns
    -------
    Scalar
        The lazy variance, rounded once, with the dtype of `numpy.var`. With ``axis``, a lazy array with the
        remaining axes; lines without included voxels are NaN.

    Raises
    ------
    ValueError
        If a parameter is out of range. On computation, if an included voxel is NaN or infinite and
        ``nan="raise"``, or no voxel is included.
    TypeError
        If ``volume`` is neither a volume nor an array.

    See Also
    --------
    std : computes its square root.
    covariance : computes it for two volumes.

    Notes
    -----
    One sweep.

    With ``axis``, the lazy array is limited to 256 MiB.

    Partial results of slabs are merged exactly, so the result is the same, bit for bit, for any
    division into slabs.

    References
    ----------
    `numpy.var`.

    Examples
    --------
    >>> float(bv.variance(bv.open(np.array([[1, 5]]))))
    4.0
    """

def variation_of_information(
    truth: Volume,
    test: Volume,
    *,
    ignore_labels: Iterable[int] = (),
) -> tuple[Scalar, Scalar]:
    """Compare two segmentations by their conditional entropies.

    Parameters
    ----------
    truth, test : Volume or numpy.ndarray
        Labels of the same shape, bool or integers from 0. 0 is an ordinary label.
    ignore_labels : iterable of int, default: ()
        Labels of ``truth`` to ignore, together with their voxels, such as ``[0]``.

    Returns
    -------
    split, merge : Scalar
        Lazy numbers in bits. The first is the entropy of ``test`` given ``truth``, which grows with
        false splits. The second is the entropy of ``truth`` given ``test``, which grows with false
        merges. NaN if no voxel counts.

    Raises
    ------
    ValueError
        If shapes differ. On computation, if a label is negative, or the pairs of labels need more
        memory than is available.
    TypeError
        If ``truth`` or ``test`` is neither a volume nor an array, or has an unsupported dtype.

    See Also
    --------
    adapted_rand_error : another score, from the same sweep.
    contingency : the underlying table.

    Notes
    -----
    One sweep, which all scores that are computed together share. Counts of voxels are exact, and
    each score is rounded once, so its bits are independent of slabs.

    References
    ----------
    `skimage.metrics.variation_of_information`, which returns both as an array.

    Examples
    --------
    >>> truth, test = np.array([[1, 1, 2, 2]]), np.array([[1, 1, 1, 1]])
    >>> split, merge = bv.variation_of_information(truth, test)
    >>> float(split), float(merge)
    (0.0, 1.0)
    """

def verify(
    run: str | os.PathLike[str] | dict[str, Any],
    *,
    checksums: bool = False,
    max_problems: int = 1000,
    runner: Any = None,
    options: Any = None,
    workers: int | None = None,
    journal: Any = None,
    resume: bool = False,
    progress: bool | Callable[..., None] | None = None,
) -> list[str]:
    """Check that a run is complete and that its outputs can be read.

    Use it after a run, or after copying its outputs. Every slab of every pass must have a record.
    Every write unit in a record must exist and be decodable, and units recorded as empty must not
    exist. Tables must have all their shards.

    Parameters
    ----------
    run : str, os.PathLike or dict
        The first output of the run, its folder ``.run``, or the location of the journal, on a disk
        or in a bucket.
    checksums : bool, default: False
        Whether to compare voxels with the checksums that were recorded on writing.
    max_problems : int, default: 1000
        Stop after this many problems.
    runner : str or apache_beam.runners.PipelineRunner, optional
        None checks in threads of this process. ``"FnApiRunner"`` uses a Beam pipeline on this
        machine, and any other Beam runner uses its workers.
    options : PipelineOptions or list of str, optional
        Beam's options, such as ``["--direct_running_mode=multi_processing"]``.
    workers : int, optional
        Number of slabs to check at a time on this machine; by default one for each core.
    journal : str, os.PathLike or dict, optional
        Folder for the findings so far, from which a stopped verification can continue. The folder
        is removed at the end. Defaults to ``verify`` in the run's folder if a runner is given,
        otherwise no journal.
    resume : bool, default: False
        Whether to continue a stopped verification, which must have the same options.
    progress : bool or callable, optional
        Whether to show progress on standard error, or a function to call with the progress, as in
        `compute`.

    Returns
    -------
    list of str
        One line for each problem; empty if there are none.

    Raises
    ------
    FileNotFoundError
        If there is no run at that location.
    ValueError
        If the verification to continue has different options, or a runner cannot reach a location.

    Notes
    -----
    All voxels are read. Nothing from the run is unpickled, so untrusted runs can be verified. Slabs
    are checked separately, with 64 MiB of decoded voxels in memory at a time, or a single larger
    unit.

    Examples
    --------
    >>> import os
    >>> _ = bv.compute(bv.open(np.ones((4, 5, 6), "u1")).to("out.zarr"), runner=None)
    >>> bv.verify("out.zarr")
    []
    >>> os.remove("out.zarr/c/0/0/0")
    >>> print(*bv.verify("out.zarr"))  # doctest: +ELLIPSIS
    pass 1, slab 0 [0:4, 0:5, 0:6]: unit 0 [0:4, 0:5, 0:6] of ...out.zarr is missing
    """

def view(
    *items: Any,
    names: Sequence[str] | None = None,
    port: int = 0,
) -> Viewer:
    """Show volumes and tables of regions in Neuroglancer, served from this process.

    Use it to look at any part of a volume in a browser, even before it is computed. Neuroglancer's
    client is part of the package ``neuroglancer`` (``pip install 'beam-volumes[view]'``), so no
    network access is needed. The browser reads local OME-Zarr and precomputed volumes directly.
    Other volumes are read or computed chunk by chunk when they are shown.

    Parameters
    ----------
    *items : Volume, numpy.ndarray or str
        Volumes, and paths of tables with the columns ``label`` and ``bbox-0`` to ``bbox-5`` or
        ``centroid-0`` to ``centroid-2`` (``.parquet``, ``.csv``, ``.jsonl``). Integers of 32 and 64 bits and
        results of `label` are shown as segments.
    names : sequence of str, optional
        The names of the layers; by default the names of the files or operations.
    port : int, default: 0
        Port of this machine; 0 chooses a free one.

    Returns
    -------
    Viewer
        Open its ``url`` in a browser on this machine; ``close()`` stops the server.

    Raises
    ------
    ValueError
        If the client is not installed, a volume is empty, or a table has no positions of regions.
        If labels that must be computed first are too large for memory.
    TypeError
        If an item is neither a volume nor a table.

    Notes
    -----
    Numbers and labels of an expression are computed before the first picture.

    Examples
    --------
    >>> em = bv.open(np.random.default_rng(0).integers(0, 255, (16, 32, 32)).astype("u1"))
    >>> viewer = bv.view(em, bv.gaussian_filter(em, 1), names=["em", "smooth"])
    >>> viewer.url.startswith("http://127.0.0.1:"), [x["name"] for x in viewer.state["layers"]]
    (True, ['em', 'smooth'])
    >>> viewer.close()
    """

def warp(
    volume: Volume,
    displacement: Volume,
    *,
    max_displacement: float | str | Sequence[float | str],
    order: int = 1,
    mode: str = 'constant',
    cval: float = 0.0,
    prefilter: bool = True,
) -> Volume:
    """Deform a volume by a stored displacement field.

    Position ``p`` in the result corresponds to position ``p + displacement`` in the volume.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    displacement : Volume or numpy.ndarray
        For each voxel of the result, its displacement in voxels. The field has the shape of the
        volume, with a channel for each axis in the order z, y, x.
    max_displacement : float, str or sequence of them
        The maximum absolute displacement along each axis, in voxels or as a length such as ``"200
        nm"``. One value for all axes or one per axis. If a displacement is larger, the run raises
        an error that specifies the voxel.
    order : int, default: 1
        Order of interpolation, from 0 to 5: 0 is the nearest voxel, 1 is linear, 3 is cubic (scipy's
        default). Orders from 2 on compute splines through all voxels, in float64 as in scipy. Integers
        are clipped to the dtype's range.
    mode : str, default: "constant"
        How to extend the volume beyond its edges. ``"constant"`` and ``"grid-constant"`` use ``cval``,
        and ``"nearest"`` the outer voxels. ``"reflect"`` and ``"grid-mirror"`` repeat the outer voxel
        (c b a | a b c d), and ``"mirror"`` does not (d c b | a b c d). ``"grid-wrap"`` repeats the
        volume (b c d | a b c d), like `pad` with ``"wrap"``. With ``"constant"``, values beyond the
        centres of the outer voxels are not interpolated.
    cval : float, default: 0.0
        The value outside of the volume in the constant modes, a number of the volume's dtype.
    prefilter : bool, default: True
        Whether to compute the coefficients of the spline first, for orders from 2 on. Set it to False
        if ``volume`` is a result of `spline_filter`.

    Returns
    -------
    Volume
        A volume of the input's dtype; integers are rounded half away from zero.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis. If the field does not
        match the volume, or the volume has no voxels. On computation, if a position is NaN or too
        far away.
    TypeError
        If an input is neither a volume nor an array, or the volume is bool with an order above 0.

    See Also
    --------
    map_coordinates : takes positions, as does scikit-image's function for arrays.
    apply_transforms : applies a transform to each slice.

    Notes
    -----
    One sweep. The halo is ``max_displacement`` plus ``order + 1`` voxels along each axis. The
    result has the shape and origin of the volume.

    Many registration programs store such fields. Divide fields in physical units by the voxel size,
    and reverse the order of channels if they are x, y, z.

    References
    ----------
    `skimage.transform.warp`, with ``inverse_map`` as the sum of the displacements and the positions of
    voxels.

    Examples
    --------
    >>> v = np.array([[10, 20, 40]], "u1")
    >>> by = np.array([[[0, 0, 0]], [[0.5, -1, 0]]])  # y, then x
    >>> np.asarray(bv.warp(v, by, max_displacement=1))
    array([[15, 10, 40]], dtype=uint8)
    """

def watershed(
    height: Volume,
    markers: Volume | None = None,
    mask: Volume | None = None,
    *,
    connectivity: int = 1,
    watershed_line: bool = False,
) -> Volume:
    """Divide a volume into watershed basins.

    Parameters
    ----------
    height : Volume or numpy.ndarray
        Heights, such as membrane probabilities, which may be infinite. NaN is only allowed outside
        of ``mask``.
    markers : Volume or numpy.ndarray, optional
        Labels from which basins grow, and 0 elsewhere. Labels may be negative. Without markers,
        there is a basin for each minimum.
    mask : Volume or numpy.ndarray, optional
        Only voxels with a nonzero mask are divided; the result is 0 elsewhere.
    connectivity : {1}, default: 1
        Must be 1: voxels that share a face are neighbours.
    watershed_line : bool, default: False
        Whether to separate basins with voxels of value 0. A voxel becomes 0 if it shares a face
        with a basin with a smaller label.

    Returns
    -------
    Volume
        Without markers, labels 1, 2, ... in the raster order of the basins' first voxels, as uint32
        (uint64 for volumes of 2**32 or more voxels). With markers, their labels in their dtype, and
        0 where no marker is connected.

    Raises
    ------
    ValueError
        If shapes differ or ``connectivity`` is not 1. On computation, if a height is NaN, or the
        basins need more memory than is available.
    TypeError
        If an input is neither a volume nor an array, or has an unsupported dtype; with markers, if
        heights are integers of 64 bits.

    See Also
    --------
    watershed_affinities : uses affinities between voxels.
    agglomerate : merges basins.

    Notes
    -----
    Each voxel follows its lowest neighbour, unless this is higher than the voxel. Among equal
    neighbours, the previous ones along z, y, x have priority, then the next ones along x, y, z. All
    voxels with the same end form a basin. This choice orders edges by height, then by linear index.
    Flat regions are divided by this order, not by distance: smooth such heights, or use markers.

    With markers, voxels of a marker do not follow a neighbour. Basins without a marker join the
    basin across their lowest pass, until all have a marker. The height of a pass is the higher of
    two neighbours; equal passes are ordered by labels as in `agglomerate`.

    The result is unique and independent of slabs. The result differs from
    `skimage.segmentation.watershed`, which floods from a queue. If no heights are equal, the
    results can only differ where floods meet.

    Two sweeps for the basins, or three with markers. Basins are merged like components in `label`.
    With markers, they are then merged as in `agglomerate`, and marked as in `cut`.

    References
    ----------
    `skimage.segmentation.watershed`; Cousty, Bertrand, Najman and Couprie, "Watershed cuts: minimum
    spanning forests and the drop of water principle", IEEE TPAMI 31 (2009).

    Examples
    --------
    >>> height = np.array([[1, 2, 5, 3, 0, 4, 7, 6]], "u1")
    >>> np.asarray(bv.watershed(height))
    array([[1, 1, 1, 2, 2, 2, 2, 3]], dtype=uint32)
    >>> markers = np.array([[4, 0, 0, 0, 0, 0, 0, 9]], "u2")
    >>> np.asarray(bv.watershed(height, markers))
    array([[4, 4, 4, 4, 4, 4, 4, 9]], dtype=uint16)
    >>> np.asarray(bv.watershed(height, watershed_line=True))
    array([[1, 1, 1, 0, 2, 2, 2, 0]], dtype=uint32)
    """

def watershed_affinities(
    affinities: Volume,
    low: float,
    high: float | None = None,
    *,
    min_size: int | None = None,
) -> Volume:
    """Divide a volume into basins according to the affinities between its voxels.

    Parameters
    ----------
    affinities : Volume or numpy.ndarray
        A volume with three channels (axes c, z, y, x), of at most 32 bits. The channels are the
        affinity of each voxel with the previous voxel along z, y and x. NaN means no affinity.
    low : float
        Voxels with a lower affinity are not joined. Voxels with only lower affinities become 0.
    high : float, optional
        Voxels with at least this affinity are always joined.
    min_size : int, optional
        Minimum number of voxels of a basin. Neighbouring basins are merged in descending order of
        their affinities, as long as one of the two is smaller than ``min_size``.

    Returns
    -------
    Volume
        Labels 1, 2, ... in the raster order of the basins' first voxels, as uint32 (uint64 for
        volumes of 2**32 or more voxels). With ``min_size``, a merged basin keeps the largest of its
        labels, so some numbers are not used.

    Raises
    ------
    ValueError
        If a parameter is out of range, or there are not three channels. On computation, if the
        basins need more memory than is available.
    TypeError
        If ``affinities`` is neither a volume nor an array, or has an unsupported dtype.

    See Also
    --------
    watershed : uses heights.
    region_adjacency, agglomerate : merge basins by all affinities between them.

    Notes
    -----
    Each voxel follows its edge with the largest affinity. Equal edges are ordered by their upper
    voxel in raster order, then by axis. All voxels with the same end form a basin. The result is
    unique and independent of slabs, because the edges have a total order.

    Two sweeps for the basins, or three with ``min_size``. Basins are merged like components in
    `label`. With ``min_size``, they are then merged as in `agglomerate`.

    References
    ----------
    Zlateski and Seung, "Image segmentation by size-dependent single linkage clustering of a
    watershed basin graph", arXiv:1505.00249.

    Examples
    --------
    >>> across_x = np.array([[[0, 9, 8, 2, 7]]], "u1")
    >>> affinities = np.stack([np.zeros_like(across_x), np.zeros_like(across_x), across_x])
    >>> np.asarray(bv.watershed_affinities(affinities, low=3))[0, 0]
    array([1, 1, 1, 2, 2], dtype=uint32)
    """

def where(
    condition: Volume,
    x: Any,
    y: Any,
) -> Volume:
    """Select voxels from ``x`` where a condition is true, and from ``y`` elsewhere.

    Parameters
    ----------
    condition : Volume or numpy.ndarray
        The condition; nonzero voxels are true.
    x : Volume, numpy.ndarray, Scalar or number
        Values where the condition is true. Shapes are broadcast as in numpy.
    y : Volume, numpy.ndarray, Scalar or number
        Values where the condition is false.

    Returns
    -------
    Volume
        A volume of the dtype to which numpy promotes ``x`` and ``y``.

    Raises
    ------
    ValueError
        If shapes or axes differ, or a number is out of bounds for the dtype of the result.
    TypeError
        If ``condition`` is neither a volume nor an array, or ``x`` or ``y`` has an unsupported
        type.

    Notes
    -----
    Pointwise: no halo, and no sweeps beyond those for the inputs.

    References
    ----------
    `numpy.where`.

    Examples
    --------
    >>> v = bv.open(np.array([[1, 5, 3]]))
    >>> np.asarray(bv.where(v > 2, v, 0))
    array([[0, 5, 3]])
    """

def white_tophat(
    volume: Volume,
    size: int | Sequence[int] | None = None,
    footprint: ArrayLike | None = None,
    structure: ArrayLike | None = None,
    *,
    mode: str | Sequence[str] = 'reflect',
    cval: float = 0.0,
    origin: int | Sequence[int] = 0,
    axes: int | Sequence[int] | None = None,
) -> Volume:
    """Extract bright structures smaller than the structuring element: the volume minus its opening.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    size : int or sequence of int, optional
        Extent of a box in voxels, which is used as a flat structuring element; one value for all axes
        or one per axis. Pass ``size``, ``footprint`` or ``structure``.
    footprint : array_like of bool, optional
        The footprint, with one dimension per axis, such as from `ball`.
    structure : array_like of float, optional
        Heights of a structuring element that is not flat, with one dimension per axis. Heights outside
        of ``footprint`` are ignored.
    mode : str or sequence of str, default: "reflect"
        How to extend the volume beyond its edges, as in `scipy.ndimage`; one mode for all axes or one
        per axis. ``"reflect"`` and ``"grid-mirror"`` repeat the outer voxel (c b a | a b c d | d c b), and
        ``"mirror"`` does not (d c b | a b c d | c b a). ``"nearest"`` extends it (a a a | a b c d | d d
        d), ``"constant"`` and ``"grid-constant"`` use ``cval``, and ``"wrap"`` and ``"grid-wrap"``
        repeat the volume (b c d | a b c d | a b c).
    cval : float, default: 0.0
        The value beyond the edges if ``mode`` is ``"constant"`` or ``"grid-constant"``.
    origin : int or sequence of int, default: 0
        Shift of the footprint in voxels, as in `scipy.ndimage`: a positive number moves it towards
        lower indices. One value for all axes or one per axis.
    axes : int or sequence of int, optional
        Axes to work along, counted from 0, or backwards from -1; all axes by default.

    Returns
    -------
    Volume
        A volume of the input's dtype. The result is NaN exactly where the footprint contains a NaN.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis. If ``size``,
        ``footprint`` and ``structure`` are all missing, or the volume's dtype cannot hold ``cval``. If
        ``structure`` is combined with several modes, or with a footprint of a different shape.
    TypeError
        If ``volume`` is neither a volume nor an array, or a parameter has a wrong type.

    See Also
    --------
    black_tophat : extracts dark structures.
    grey_opening : is subtracted.

    Notes
    -----
    The result is identical to scipy's. For a box the time is independent of its size.

    One sweep. The halo is twice the reach of the structuring element: a window contains the slices for
    both erosion and dilation.

    References
    ----------
    `scipy.ndimage.white_tophat`.

    Examples
    --------
    >>> np.asarray(bv.white_tophat(bv.open(np.array([[1, 9, 1, 5, 5, 5]])), (1, 3)))
    array([[0, 8, 0, 0, 0, 0]])
    """

def wiener(
    volume: Volume,
    psf: ArrayLike | str,
    balance: float,
    *,
    mode: str | Sequence[str] = 'reflect',
    cval: float = 0.0,
    context: int | Sequence[int] | None = None,
    patch: int | Sequence[int] | None = None,
    dtype: DTypeLike | None = None,
) -> Volume:
    """Remove an instrument's blur with a Wiener filter on overlapping blocks.

    Use it if `richardson_lucy` is too slow. The result has negative voxels where it overshoots.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes. Intensities keep their scale, whereas scikit-image
        scales integers to the range from 0 to 1.
    psf : array_like of float, or path
        The point spread function, or the path of a file that contains it. The array has one dimension
        for each axis, the volume's voxel size, and its centre at voxel ``n // 2`` of ``n``. The
        function is divided by its sum. An extent of 1 along z deconvolves slice by slice.
    balance : float
        Weight of the Laplacian, above 0: larger numbers give smoother results with less noise.
    mode : str or sequence of str, default: "reflect"
        How to extend the volume beyond its edges, as in `scipy.ndimage`; one mode for all axes or one
        per axis. ``"reflect"`` and ``"grid-mirror"`` repeat the outer voxel (c b a | a b c d | d c b),
        and ``"mirror"`` does not (d c b | a b c d | c b a). ``"nearest"`` extends it (a a a | a b c d |
        d d d), and ``"constant"`` and ``"grid-constant"`` use ``cval``.
    cval : float, default: 0.0
        The value beyond the edges if ``mode`` is ``"constant"`` or ``"grid-constant"``.
    context : int or sequence of int, optional
        Number of voxels that each block discards at each face; one number for all axes or one per
        axis. By default the distance that contains all but 1e-4 of the filter's weights.
    patch : int or sequence of int, optional
        Extent of a block, including the voxels to discard. By default, blocks have up to two million
        voxels of float64, or four million of float32. Blocks discard at most half of their extent along
        each axis.
    dtype : dtype, optional
        Dtype of the result. Integers are rounded half to even and clipped to the dtype's range.

    Returns
    -------
    Volume
        A float32 volume for bool, integers of up to 16 bits, float16 and float32; a float64 volume for
        other dtypes. ``dtype`` overrides this.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis. On computation, if
        a voxel is NaN or infinite.
    TypeError
        If ``volume`` is neither a volume nor an array, or ``dtype`` is not supported.

    See Also
    --------
    richardson_lucy : deconvolves by iterations, with results that are not negative.
    denoise_wiener : the filter of `scipy.signal.wiener`, which only denoises.
    gaussian_psf : makes a point spread function.

    Notes
    -----
    Blocks start at the first voxel of the volume, so the result does not depend on slabs. The
    result depends on ``patch`` and ``context``. scikit-image's result is the same in the interior;
    it treats the volume as periodic, and clips from -1 to 1. Computation is in float64.

    One sweep. A slab needs whole blocks, and memory for six arrays of float64 of a block's shape.

    References
    ----------
    `skimage.restoration.wiener`; B. R. Hunt, "A matrix theory proof of the discrete convolution
    theorem", IEEE Trans. Audio and Electroacoustics 19 (1971).

    Examples
    --------
    >>> blurred = bv.open(np.array([[0, 0, 1, 2, 1, 0, 0]], "f4"))
    >>> np.asarray(bv.wiener(blurred, [[1, 2, 1]], 1e-6)).round(1) + 0.0
    array([[0., 0., 0., 4., 0., 0., 0.]], dtype=float32)
    """

def zoom(
    volume: Volume,
    zoom: float | Sequence[float],
    *,
    order: int = 1,
    mode: str = 'constant',
    cval: float = 0.0,
    prefilter: bool = True,
    grid_mode: bool = False,
) -> Volume:
    """Resize a volume by arbitrary factors.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    zoom : float or sequence of float
        Factors for the number of voxels, which is rounded; one value for all axes or one per axis.
    order : int, default: 1
        Order of interpolation, from 0 to 5: 0 is the nearest voxel, 1 is linear, 3 is cubic (scipy's
        default). Orders from 2 on compute splines through all voxels, in float64 as in scipy. Integers
        are clipped to the dtype's range.
    mode : str, default: "constant"
        How to extend the volume beyond its edges. ``"constant"`` and ``"grid-constant"`` use ``cval``,
        and ``"nearest"`` the outer voxels. ``"reflect"`` and ``"grid-mirror"`` repeat the outer voxel
        (c b a | a b c d), and ``"mirror"`` does not (d c b | a b c d). ``"grid-wrap"`` repeats the
        volume (b c d | a b c d), like `pad` with ``"wrap"``. With ``"constant"``, values beyond the
        centres of the outer voxels are not interpolated.
    cval : float, default: 0.0
        The value outside of the volume in the constant modes, a number of the volume's dtype.
    prefilter : bool, default: True
        Whether to compute the coefficients of the spline first, for orders from 2 on. Set it to False
        if ``volume`` is a result of `spline_filter`.
    grid_mode : bool, default: False
        Whether to keep the extent of the volume instead of the centres of its outer voxels.

    Returns
    -------
    Volume
        A volume of the input's dtype with a new voxel size and origin; integers are rounded half
        away from zero.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis. If the volume has no
        voxels.
    TypeError
        If ``volume`` is neither a volume nor an array, or is bool with an order above 0.

    See Also
    --------
    rescale : smooths the volume before it shrinks.
    downsample : uses all voxels of windows, for integer factors.
    upsample : uses integer factors.

    Notes
    -----
    The result is computed in the same sweep as the volume, and each window reads the slices that it
    needs.

    When shrinking, each voxel of the result uses only two voxels along each axis: use `rescale`,
    which smooths the volume first, or `downsample`.

    References
    ----------
    `scipy.ndimage.zoom`.

    Examples
    --------
    >>> v = bv.open(np.array([[10, 20, 40]], "u1"), voxel_size=2)
    >>> np.asarray(bv.zoom(v, (1, 5 / 3))), bv.zoom(v, (1, 5 / 3)).voxel_size
    (array([[10, 15, 20, 30, 40]], dtype=uint8), (2.0, 1.0))
    """
