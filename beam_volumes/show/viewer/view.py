"""`view`: volumes and tables in Neuroglancer, served by this process."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from beam_volumes.base.space import Space
from beam_volumes.graph.indexing import at_points
from beam_volumes.graph.keywords import checked_keywords
from beam_volumes.graph.nodes import SourceNode
from beam_volumes.graph.volume import Volume, as_volume
from beam_volumes.show.colours import colours_of, is_labels, is_rgb
from beam_volumes.show.pages.table_page import is_table
from beam_volumes.show.picture import windows_of
from beam_volumes.show.sections import MAX_CHANNELS, sections
from beam_volumes.show.viewer.chunks import SIDE, Chunks
from beam_volumes.show.viewer.client import Client, client_folder, reads_ome_zarr_05
from beam_volumes.show.viewer.layers import image_layer, label_layer, region_layer, state
from beam_volumes.show.viewer.precomputed_values import with_precomputed_values
from beam_volumes.show.viewer.serving import Server, as_json
from beam_volumes.storage.inputs.opening import asked_at

#: Formats that Neuroglancer reads directly from a disk, and their schemes.
NATIVE = {"ome-zarr": "zarr", "precomputed": "precomputed"}
#: Dtypes that Neuroglancer supports.
TYPES = ("u1", "u2", "u4", "u8", "i1", "i2", "i4", "f4")


class Viewer:
    """Serves volumes and tables to Neuroglancer until `close` is called or the process ends."""

    def __init__(self, items: Mapping[str, Volume | str], port: int = 0, progress: bool = False):
        if port not in range(1 << 16):
            raise ValueError(
                f"view: port={port} is out of range; give 0 to {(1 << 16) - 1}, 0 for a free one"
            )
        client_folder()  # before anything is computed
        self._server = Server(port)
        self._progress = progress
        #: Restrictions of the layers, such as parts that are not shown.
        self.notes: list[str] = []
        layers: list[dict[str, Any]] = []
        volumes = [v for v in items.values() if isinstance(v, Volume)]
        space = volumes[0].space if volumes else Space()
        for k, (name, item) in enumerate(items.items()):
            if isinstance(item, Volume):
                layers += self._volume(f"v{k}", name, item)
            else:
                found = region_layer(name, item, space)
                layers.append(found.layer)
                if found.shown < found.rows:
                    self.notes.append(
                        f"{name}: the {found.shown:,} largest of {found.rows:,} regions"
                    )
        stored = all(isinstance(n, SourceNode) for v in volumes[:1] for n in v.nodes)
        shape = volumes[0].grid_shape if volumes else (1, 1, 1)
        view_state = state(layers, space, shape, fits=stored or max(shape) <= 2 * SIDE)
        self._client = Client(self._server, view_state)
        self._server.__enter__()

    @property
    def url(self) -> str:
        """The address for a browser on this machine."""
        return self._client.url

    @property
    def state(self) -> dict[str, Any]:
        """Neuroglancer's state, with the changes of users."""
        return self._client.state

    @property
    def failed(self) -> list[str]:
        """Failed requests with their errors."""
        return self._server.failed

    def close(self) -> None:
        """Stop serving."""
        self._client.close()
        self._server.close()

    def __enter__(self) -> Viewer:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<viewer at {self.url}>"

    def _repr_html_(self) -> str:
        return f'<a href="{self.url}" target="_blank">Neuroglancer: {len(self.state["layers"])} layers</a>'

    def _volume(self, key: str, name: str, volume: Volume) -> list[dict[str, Any]]:
        """Return the layers of a volume: one, or one for each channel."""
        if volume.space.times:
            self.notes.append(
                f"{name}: point 0 of {volume.space.times} in time; take another by v[3]"
            )
            volume = at_points(volume, 0)
        if 0 in volume.grid_shape:
            raise ValueError(f"{name}: {volume!r} has no voxels to view")
        labels = is_labels(volume)
        native = self._native(key, volume)
        if native is not None:
            if labels:
                return [label_layer(name, native, None)]
            return [image_layer(name, native, None, _window(volume))]
        if len(volume.nodes) > MAX_CHANNELS:
            self.notes.append(f"{name}: the first {MAX_CHANNELS} of {len(volume.nodes)} channels")
        nodes = with_precomputed_values(volume.nodes[:MAX_CHANNELS], self._progress)
        layers = []
        for c, node in enumerate(nodes):
            chunks = Chunks(node, volume.space, labels)
            own = f"{key}c{c}"
            self._server.answers(own, _answers(chunks))
            url = f"precomputed://{self._server.url}{own}"
            one = Volume(node, Space(axes=volume.space.axes))
            if labels:
                layers.append(label_layer(name, url, volume.space))
            elif len(nodes) == 1:
                layers.append(image_layer(name, url, volume.space, _window(one)))
            else:
                title, colours = f"{name} {volume.channels[c]}", colours_of(volume)
                window = _window(Volume(nodes, volume.space) if is_rgb(volume) else one)
                colour = colours[c % len(colours)]
                layers.append(image_layer(title, url, volume.space, window, colour))
        return layers

    def _native(self, key: str, volume: Volume) -> str | None:
        """Return the address of a local volume that Neuroglancer reads directly, or None."""
        node = volume.nodes[0]
        if len(volume.nodes) > 1 or not isinstance(node, SourceNode):
            return None
        source = node.source
        asked = dict(source.asked or {})
        path = asked.pop("path_or_spec", None)
        special = any(v not in (None, (), {}) for v in asked.values())
        # Sizes given by the user and files without metadata need this package's chunks.
        if (
            not isinstance(path, str)
            or special
            or any(source.offset)
            or source.dtype.str[1:] not in TYPES
        ):
            return None
        place, formats = asked_at(path)
        if place.local is None or not os.path.isdir(place.local):
            return None
        for format in formats:
            scheme = NATIVE.get(getattr(format, "name", ""))
            again = None if scheme is None else format.open_place(place)
            if again is not None:
                if again.shape != source.shape or again.space != source.space:
                    return None
                if again.space.leading or not again.space.knows_size:
                    return None
                if scheme == "zarr":  # so it does not try both versions
                    is_3 = os.path.exists(os.path.join(place.local, "zarr.json"))
                    scheme = "zarr3" if is_3 else "zarr2"
                    if is_3 and not reads_ome_zarr_05():
                        return None
                self._server.folder(key, place.local)
                return f"{scheme}://{self._server.url}{key}"
        return None


def _answers(chunks: Chunks) -> Any:
    info = as_json(chunks.info())

    def answer(path: str) -> tuple[bytes, str] | None:
        if path == "info":
            return info
        scale, _, name = path.partition("/")
        found = chunks.chunk(scale, name)
        return None if found is None else (found, "application/octet-stream")

    return answer


def _window(volume: Volume) -> tuple[float, float]:
    """Return the window of intensities, from a few sections."""
    try:
        found = sections(volume, max_size=128, max_bytes=64 << 20)
    except ValueError:
        info = np.iinfo(volume.dtype) if volume.dtype.kind in "iu" else None
        return (float(info.min), float(info.max)) if info else (0.0, 1.0)
    return (windows_of(found, (0.5, 99.5), labels=False)[0] or [(0.0, 1.0)])[0]


@checked_keywords
def view(*items: Any, names: Sequence[str] | None = None, port: int = 0) -> Viewer:
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
    if not items:
        raise TypeError("view() got no items; give at least one volume or the path of a table")
    if names is not None and len(names) != len(items):
        raise ValueError(
            f"names={list(names)} does not fit {len(items)} items; give one name for each"
        )
    found: dict[str, Volume | str] = {}
    for k, item in enumerate(items):
        is_path = isinstance(item, str | os.PathLike) and is_table(os.fspath(item))
        what = os.fspath(item) if is_path else as_volume(item)
        found[free_name(names[k] if names else _called(what), found)] = what
    return Viewer(found, port)


def _called(item: Volume | str) -> str:
    name = item if isinstance(item, str) else item.nodes[0].name.removesuffix("[c=0]")
    return name.rstrip("/").rpartition("/")[2][:40] or "volume"


def free_name(name: str, taken: Mapping[str, Any]) -> str:
    """Return a name that no other layer has."""
    found, k = name, 1
    while found in taken:
        k += 1
        found = f"{name} {k}"
    return found
