"""A volume and the path to write it to: `Target`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from beam_volumes.base.exports import above
from beam_volumes.graph.traversal import holds_labels
from beam_volumes.storage.formats.format import DEFAULT
from beam_volumes.storage.outputs.sink import Sink, make_sink
from beam_volumes.storage.sources.pyramid import METHODS

if TYPE_CHECKING:
    from beam_volumes.graph.volume import Volume


@dataclass(frozen=True, eq=False)
class Target:
    """A volume and the path to write it to, as returned by `Volume.to`.

    Attributes
    ----------
    volume : Volume
        The volume.
    sink : Sink
        Path and format; ``sink.name`` is the path or URL.
    levels : tuple of Volume
        The coarser levels of a pyramid.
    request : tuple, optional
        The path, the format and the options of `Volume.to`.

    Examples
    --------
    >>> target = bv.open(np.zeros((4, 5, 6), "u1")).to("out.zarr")
    >>> target.volume.shape, target.sink.format
    ((4, 5, 6), 'zarr')
    """

    volume: Volume
    sink: Sink
    levels: tuple[Volume, ...] = ()
    #: The path, the format and the options of `Volume.to`; None if the sink was made in another way.
    request: tuple[Any, str | None, Mapping[str, Any]] | None = field(default=None, repr=False)

    def stored_as(self, **changes: Any) -> Target:
        """Return the target with different options.

        Parameters
        ----------
        **changes : Any
            Options of `Volume.to`.

        Returns
        -------
        Target

        Raises
        ------
        ValueError
            If the options are not possible, or the target was not made by `Volume.to`.

        Examples
        --------
        >>> target = bv.open(np.zeros((4, 5, 6), "u1")).to("out.zarr")
        >>> target.stored_as(chunks=(2, 5, 6)).sink.format
        'zarr'
        """
        if self.request is None:
            raise ValueError(f"{self.sink.name} has no options")
        path, format, storage = self.request
        return target_of(self.volume, path, format, {**storage, **changes})

    @property
    def has_automatic_shards(self) -> bool:
        """Whether the format chose the shape of shards."""
        asked = None if self.request is None else self.request[2].get("shards", DEFAULT)
        return self.sink.shard is not None and (asked is True or isinstance(asked, str))

    @property
    def written(self) -> list[tuple[Volume, Sink]]:
        """Pairs of volume and sink, one for each level of a pyramid."""
        return list(zip((self.volume, *self.levels), self.sink.every_level, strict=True))

    def __repr__(self) -> str:
        return f"<Target {self.sink.name} of {self.volume!r}>"


#: Options of runs, which outputs do not have.
_OF_RUNS = ("memory", "workers", "runner", "resume", "overwrite", "progress", "slab", "threads")


def target_of(volume: Volume, path: Any, format: str | None, storage: Mapping[str, Any]) -> Target:
    """Return a volume with its path, and coarser levels for pyramids."""
    for option in _OF_RUNS:
        if option in storage:
            raise TypeError(
                f"to: {option}={storage[option]!r} is for the run: bv.compute(volume.to(path), {option}=...)"
            )
    sink = make_sink(
        path,
        shape=volume.grid_shape,
        dtype=volume.dtype,
        space=volume.space,
        leading=volume.shape[: len(volume.space.leading)],
        labels=holds_labels(volume.nodes),
        format=format,
        **storage,
    )
    made = [volume]
    pyramid = sink.pyramid
    for factors in () if pyramid is None else pyramid.factors:
        by = [factors[a] for a in volume.space.visible]
        how = METHODS[pyramid.method]  # type: ignore[union-attr]
        made.append(above("array_api").downsample(made[-1], by, how))
    return Target(volume, sink, tuple(made[1:]), (path, format, dict(storage)))
