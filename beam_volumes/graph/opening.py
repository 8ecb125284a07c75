"""Volumes from storage and from arrays: `open` and `from_dask`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from beam_volumes.base.text import filled
from beam_volumes.graph.keywords import checked_keywords
from beam_volumes.graph.scalar import Scalar
from beam_volumes.graph.volume import Volume, of_source, volume_of
from beam_volumes.storage.formats import registry
from beam_volumes.storage.inputs.objects import is_array_object
from beam_volumes.storage.inputs.opening import open_source
from beam_volumes.storage.inputs.renaming import letters_of
from beam_volumes.storage.sources.axes import stated_space


@checked_keywords
@filled({"formats": registry.titles_text(), "options": registry.open_options_text()})
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
        %(formats)s
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
        %(options)s

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
    if isinstance(path, Volume):
        return path
    if isinstance(path, Scalar):
        asked = dict(index=index, dataset=dataset, level=level, mpp=mpp, **options)
        for name, value in asked.items():
            if value is not None:
                raise ValueError(
                    f"{name}={value!r} is only for files and arrays, but {path!r} is a lazy number"
                )
        volume = volume_of(path, None if axes is None else letters_of(axes))
        return Volume(
            volume.nodes, stated_space(volume.space, repr(path), voxel_size, unit, origin)
        )
    source = open_source(
        path,
        voxel_size=voxel_size,
        unit=unit,
        origin=origin,
        axes=axes,
        index=index,
        dataset=dataset,
        level=level,
        mpp=mpp,
        **options,
    )
    return of_source(source)


@checked_keywords
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
    if not is_array_object(array):
        raise TypeError(f"from_dask: expected a dask array, not {type(array).__name__} {array!r}")
    return open(array, voxel_size=voxel_size, unit=unit, origin=origin, index=index)
