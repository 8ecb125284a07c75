"""Tiles with the transforms that other programs store, and transforms for other programs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from beam_volumes.graph.opening import open as open_volume
from beam_volumes.graph.volume import Volume, as_volume, of_source
from beam_volumes.ops.geometry.frames import frames, positions_of
from beam_volumes.ops.geometry.transforms import columns_of, existing, matrices_of, table_of
from beam_volumes.ops.parameters.docs import documented
from beam_volumes.storage.formats.chunked.ome import image_to_move
from beam_volumes.storage.formats.tiff.format import stage_positions
from beam_volumes.storage.inputs.opening import asked_at, members, open_many
from beam_volumes.storage.inputs.tile_projects import (
    is_of_stitcher,
    project_tiles,
    stitcher_tile,
    with_registrations,
)
from beam_volumes.storage.inputs.transform_files import WRITERS
from beam_volumes.storage.places.outside import named_file
from beam_volumes.storage.places.place import Place
from beam_volumes.storage.sources.stack import matching


@documented
def open_tiles(
    source: Any, *, index: dict[str, int | str] | None = None, transform_key: str | None = None
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
    if (table := columns_of(source, "open_tiles: source")) is not None:
        return _of_table(table, index)
    if isinstance(source, str | os.PathLike):
        text = os.fspath(source)
        if "://" not in text:
            text = os.path.expanduser(text)
        if text.lower().endswith(".xml"):
            return _of_project(existing(text, "open_tiles", "source"), index or {})
        if text.lower().endswith(".csv"):
            return _of_table(table_of(text, "open_tiles", "source"), index, text)
        paths = matching(os.path.abspath(text)) or members(text) or [text]
        return _of_paths(paths, index, transform_key)
    if isinstance(source, Sequence) and all(isinstance(p, str | os.PathLike) for p in source):
        return _of_paths([os.fspath(p) for p in source], index, transform_key)
    raise TypeError(f"open_tiles: source={source!r} is neither a path, a list of paths nor a table")


def _of_project(path: str, index: Mapping[str, Any]) -> tuple[list[Volume], np.ndarray]:
    tiles, matrices = [], []
    for entry in project_tiles(path, index):
        source = open_many(entry.path) if isinstance(entry.path, list) else None
        tile = of_source(source) if source else open_volume(entry.path, dataset=entry.dataset)
        if entry.depth is not None and tile.grid_shape[0] != entry.depth:
            raise ValueError(
                f"open_tiles: {tile.nodes[0].name} has {tile.grid_shape[0]} slices, but {path} declares "
                f"{entry.depth}; restore the images, or correct the file"
            )
        index_of = dict(entry.index)
        if unknown := [a for a, k in index_of.items() if k != 0 and a not in tile.axes]:
            raise ValueError(
                f"open_tiles: index={index_of}: {tile.nodes[0].name} has no axis {unknown[0]} to choose from"
            )
        if tile.space.times and "t" in index_of:
            tile = tile[index_of["t"]]
        if "c" in tile.axes and "c" in index_of:
            tile = tile.sel(c=index_of["c"])
        if entry.voxel_size is not None:
            size = [entry.voxel_size[a] for a in tile.space.visible]
            tile = tile.with_space(voxel_size=size, unit=entry.unit)
        tiles.append(tile)
        matrices.append(entry.matrix)
    if not tiles:
        raise ValueError(f"open_tiles: {path} has no tiles; use a different file")
    visible = [*tiles[0].space.visible]
    return tiles, np.stack(matrices)[:, visible][:, :, [*visible, 3]]


def _of_table(table: Any, index: Any, path: str | None = None) -> tuple[list[Volume], np.ndarray]:
    if "path" not in table:
        known = ", ".join(map(str, table)) or "none"
        raise ValueError(
            f"open_tiles: source has no column 'path' (columns: {known}); rename its columns"
        )
    places = [str(p) for p in table["path"]]
    if not places:
        raise ValueError("open_tiles: source has no rows; give one for each tile")
    blank = [row for row, place in enumerate(places) if place.strip() in ("", "None", "nan")]
    if blank:
        raise ValueError(
            f"open_tiles: source has no path in row {blank[0]}; give one for each tile"
        )
    if path is not None:
        places = [named_file(path, p) for p in places]
    tiles = [open_volume(place, index=index) for place in places]
    axes, count = tiles[0].space.axes, len(tiles)
    matrices, positions = matrices_of(table, axes, count, "open_tiles", "tiles", "source")
    return tiles, np.concatenate([matrices, positions[:, :, None]], axis=2)


def _of_paths(
    paths: Sequence[str], index: Any, transform_key: str | None
) -> tuple[list[Volume], np.ndarray]:
    """Open tiles with the positions in their own metadata."""
    if not paths:
        raise ValueError("open_tiles: source has no tiles; give at least one path")
    if not is_of_stitcher(paths[0]):
        return _of_metadata(paths, index)
    tiles, matrices = [], []
    for path in paths:
        entry = stitcher_tile(path, transform_key, int((index or {}).get("t", 0)))
        tile = open_volume(entry.path, index=index)
        visible = [*tile.space.visible]
        size = [(entry.voxel_size or (1.0,) * 3)[a] for a in visible]
        tiles.append(tile.with_space(voxel_size=size))
        matrices.append(entry.matrix[visible][:, [*visible, 3]])
    return tiles, np.stack(matrices)


def _of_metadata(paths: Sequence[str], index: Any) -> tuple[list[Volume], np.ndarray]:
    tiles, places, lost, has_stage, of_sets = [], [], [], False, set[str]()
    for path in paths:
        if path in of_sets:  # its images were opened with another file
            continue
        stages, files = stage_positions(Place.of(path)) or ([], [])
        is_several = len(stages) > 1 and (len(paths) == 1 or any(stages))
        if is_several:
            of_sets |= {os.path.join(os.path.dirname(path), file) for file in files}
        images = range(len(stages)) if is_several else (None,)
        for image in images:
            tile = open_volume(path, index=index, dataset=None if image is None else str(image))
            space = tile.space
            if space.voxel_size is None:
                raise ValueError(
                    f"open_tiles: {path} has no voxel size, so its position in voxels is unknown; give a "
                    "table with the positions in voxels"
                )
            stage = stages[image or 0] if stages else None
            origin = space.origin if stage is None else stage.in_unit(space.unit).origin
            has_stage |= stage is not None
            if stages and stage is None and not any(origin):
                lost.append(path)
            tiles.append(tile)
            places.append([origin[a] / space.voxel_size[a] for a in space.visible])
    if has_stage and lost:
        raise ValueError(
            f"open_tiles: {lost[0]} has no stage position, unlike other tiles; give a table with "
            "the columns path, z, y and x"
        )
    if len({len(p) for p in places}) > 1:
        raise ValueError("open_tiles: the tiles have different axes; open them one by one")
    found = np.array(places)
    if len(found) > 1 and not np.ptp(found, axis=0).any():
        raise ValueError(
            f"open_tiles: all {len(found)} tiles have the same position in their metadata; give a table "
            "with the columns path, z, y and x"
        )
    matrices = np.tile(np.eye(found.shape[1]), (len(found), 1, 1))
    return tiles, np.concatenate([matrices, found[:, :, None]], axis=2)


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
        only has positions. If a matrix for ITK or elastix has no inverse.
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
    name = "save_transforms"
    if target is not None and os.path.splitext(target)[1].lower() in WRITERS:
        _save_matrix(source, transforms, target, overwrite, unit, direction)
        return
    if unit is not None or direction is not None:
        raise ValueError(f"{name}: unit and direction are for ITK and elastix; leave them out")
    if target is not None:
        path = existing(project_of(source, name), name, "source")
        _save_project(path, transforms, target, index or {}, overwrite)
        return
    if isinstance(source, str | os.PathLike):
        if os.fspath(source).lower().endswith(".xml"):
            raise ValueError(f"{name}: give target=, the XML file to write")
        paths = matching(os.fspath(source)) or members(os.fspath(source)) or [os.fspath(source)]
    else:
        paths = [os.fspath(p) for p in source]
    tiles = [as_volume(open_volume(path)) for path in paths]
    axes = tiles[0].space.axes
    matrices, positions = matrices_of(transforms, axes, len(tiles), name, "tiles")
    if (matrices != np.eye(len(axes))).any():
        raise ValueError(
            f"{name}: transforms has matrices, and OME-Zarr images store positions only; fuse the tiles"
        )
    moves = []
    for path, tile, position in zip(paths, tiles, positions, strict=True):
        size = np.array([(tile.space.voxel_size or (1.0,) * 3)[a] for a in tile.space.visible])
        moves.append(image_to_move(asked_at(path)[0], axes, size, position * size))
    for move in moves:
        move()


def _save_matrix(
    source: Any, transforms: Any, target: Any, overwrite: bool, unit: Any, direction: Any
) -> None:
    """Write one matrix for ITK or elastix."""
    name = "save_transforms"
    if not isinstance(source, Sequence) or isinstance(source, str) or len(source) != 2:
        raise ValueError(
            f"{name}: source for {os.fspath(target)!r} must be the fixed and the moving volume, such as "
            "[fixed, moving]"
        )
    pair = [as_volume(open_volume(v) if isinstance(v, str | os.PathLike) else v) for v in source]
    here, there = frames(*pair, unit, direction, name)
    axes, given = pair[0].space.axes, transforms
    if isinstance(given, np.ndarray | list | tuple) and np.ndim(given) == 2:
        given = [given]
    (matrix,), (place,) = matrices_of(given, axes, 1, name, "pair of volumes")
    if os.path.exists(target) and not overwrite:
        raise FileExistsError(f"{name}: target={os.fspath(target)!r} exists; give overwrite=True")
    whole = np.eye(len(axes) + 1)
    whole[:-1, :-1], whole[:-1, -1] = matrix, place
    # elastix stores the direction column by column.
    image = {
        "Size": here.size,
        "Spacing": here.spacing,
        "Origin": here.origin,
        "Direction": here.direction.T,
    }
    write = WRITERS[os.path.splitext(target)[1].lower()]
    folder, file = os.path.split(os.path.abspath(target))
    Place.of(folder).write(file, write(positions_of(whole, here, there), image))


def project_of(source: Any, name: str) -> str | os.PathLike[str]:
    """Return a path that may be a file of BigStitcher."""
    if not isinstance(source, str | os.PathLike) or not str(source).lower().endswith(".xml"):
        raise ValueError(
            f"{name}: source={source!r} is not an XML file of BigStitcher, which is needed to write another; "
            "use the table of transforms"
        )
    return source


def _save_project(
    path: str, transforms: Any, target: Any, index: Mapping[str, Any], overwrite: bool
) -> None:
    name = "save_transforms"
    if not os.fspath(target).lower().endswith(".xml"):
        raise ValueError(f"{name}: target={os.fspath(target)!r} is not the name of an .xml file")
    if os.path.exists(target) and not overwrite:
        raise FileExistsError(f"{name}: target={os.fspath(target)!r} exists; give overwrite=True")
    folder = os.path.dirname(os.path.abspath(target))
    if folder != os.path.dirname(path):
        raise ValueError(
            f"{name}: target={os.fspath(target)!r} is in a different folder from {path}, and its paths are "
            "relative; write it next to it"
        )
    entries = project_tiles(path, index)
    matrices, positions = matrices_of(transforms, "zyx", len(entries), name, "tiles")
    every = np.concatenate([matrices, positions[:, :, None]], axis=2)
    data = with_registrations(path, every, entries)
    Place.of(folder).write(os.path.basename(target), data)
