"""Add levels to a volume that is stored in one size: a run, and a change of the metadata."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from beam_volumes.drive import compute
from beam_volumes.graph.keywords import checked_keywords
from beam_volumes.graph.opening import open as open_volume
from beam_volumes.graph.volume import Target, Volume, of_source
from beam_volumes.ops.geometry.resampling import downsample
from beam_volumes.plan.run_options import AUTO, RunOptions, documented
from beam_volumes.storage.added_levels import Added, HasLevels
from beam_volumes.storage.added_levels import added as added_to
from beam_volumes.storage.places.place import Spec, kvstore_spec, sibling
from beam_volumes.storage.sources.pyramid import METHODS


@dataclass(frozen=True)
class Adding:
    """The volume of a run that adds levels; stored as the run's note."""

    added: Added

    @property
    def names(self) -> list[str]:
        return [""] * len(self.added.sinks)

    def done(self) -> None:
        """List the levels in the volume's metadata, when all of them exist."""
        self.added.register()

    @property
    def targets(self) -> list[Target]:
        made = [of_source(self.added.source)]
        how = METHODS[self.added.pyramid.method]
        for factors in self.added.pyramid.factors:
            by = [factors[a] for a in made[0].space.visible]
            made.append(downsample(made[-1], by, how))
        return [Target(v, sink) for v, sink in zip(made[1:], self.added.sinks, strict=True)]

    @property
    def journal(self) -> Spec:
        """The place of the journal: next to the volume, separate from the volume's own run."""
        return journal_of(self.added.name)


def journal_of(path: str) -> Spec:
    """Return the place of the journal of a run that adds levels to a volume."""
    return sibling(kvstore_spec(path), ".levels.run")


@checked_keywords
@documented
def add_levels(
    path: str | os.PathLike[str],
    levels: int | str = "auto",
    *,
    method: str | None = None,
    factors: int | Sequence[int] | Sequence[Sequence[int]] | None = None,
    memory: int | float | str | None = None,
    workers: int | None = None,
    runner: Any = AUTO,
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
    %(memory)s
    %(workers)s
    %(runner)s
    %(options)s
    %(resume)s
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
    journal = journal_of(os.fspath(path))
    asked = RunOptions.of(locals(), beam_options=options, journal=journal)
    found = prepared(path, levels, method, factors, resume)
    if found is not None:
        outcome = compute.run(found.targets, asked, note=found)
        if outcome.ran:
            found.done()
    return levels_of(path)


def prepared(
    path: str | os.PathLike[str], levels: int | str, method: str | None, factors: Any, resume: bool
) -> Adding | None:
    """Return the run to do; None if all levels exist and ``resume`` is requested."""
    try:
        return Adding(added_to(path, levels, method, factors))
    except HasLevels:
        if resume:
            return None
        raise


def levels_of(path: str | os.PathLike[str]) -> tuple[Volume, ...]:
    """Open the existing coarser levels, the finest first."""
    from beam_volumes.storage.inputs.opening import asked_at

    place, formats = asked_at(os.fspath(path))
    names = next((n for n in (f.levels(place) for f in formats) if n), ())
    return tuple(open_volume(path, level=k) for k in range(1, len(names)))
