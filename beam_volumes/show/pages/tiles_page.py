"""`tiles_report`: a page about the registration of tiles."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from beam_volumes.base.drawing import INK, SOFT, STORED, Drawing
from beam_volumes.graph.keywords import named_checked
from beam_volumes.graph.table import ComputedTable
from beam_volumes.graph.volume import Volume, as_volume
from beam_volumes.show.pages import charts
from beam_volumes.show.pages.page import Page, uri
from beam_volumes.storage.places.single_file import write_file

#: Maximum numbers of pairs in the table, and of overlaps with a picture; the worst come first.
MAX_ROWS, MAX_PICTURES = 40, 12
#: Maximum number of tiles, and of pairs, that the graph shows.
MAX_DRAWN = 4000
#: Maximum side of a picture of an overlap, and width and height of the graph.
_SIDE, _WIDTH, _HEIGHT = 320, 760, 560
_GOOD, _FAIR, _UNUSED = "#3f8f4f", "#f0a04b", "#b03030"


@named_checked
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
    text = os.fspath(path)
    if not text.lower().endswith((".html", ".htm")):
        raise ValueError(
            f"tiles_report: path={text!r} does not end in .html; give a path that does"
        )
    if os.path.exists(text) and not overwrite:
        raise FileExistsError(f"tiles_report: path={text!r} exists; give overwrite=True")
    for name, table in (("positions", positions), ("pairs", pairs)):
        if not hasattr(table, "to_pylist"):
            raise TypeError(
                f"tiles_report: {name}={table!r} is not a result of register_tiles; give one"
            )
    opened = [as_volume(tile) for tile in tiles]
    if len(opened) != len(positions):
        raise ValueError(
            f"tiles_report: positions has {len(positions)} rows for {len(opened)} tiles; give one for each"
        )
    html = _Registration(opened, positions, pairs).html()
    write_file(text, html.encode())


class _Registration:
    """Tiles with their positions, and pairs from the worst to the best."""

    def __init__(self, tiles: Sequence[Volume], positions: ComputedTable, pairs: ComputedTable):
        self.tiles = tiles
        self.axes = tiles[0].space.axes
        self.places = np.stack([np.asarray(positions[a], np.float64) for a in self.axes], axis=1)
        self.links = positions["links"].to_pylist()
        rows = pairs.to_pylist()
        self.pairs: list[dict[str, Any]] = sorted(
            rows, key=lambda r: (r["used"], -(r["residual"] or 0.0), r["quality"])
        )

    def html(self) -> str:
        page = Page("Registration of tiles")
        residuals = [r["residual"] for r in self.pairs if r["used"]]
        lonely = [k for k, n in enumerate(self.links) if not n]
        page.table(
            {
                "tiles": len(self.tiles),
                "tiles without links": ", ".join(map(str, lonely[:20])) or "none",
                "pairs": len(self.pairs),
                "pairs used": len(residuals),
                "residual of used pairs, in voxels": _range(residuals),
                "correlation of used pairs": _range(
                    [r["quality"] for r in self.pairs if r["used"]]
                ),
            }
        )
        if not self.pairs:
            page.words("No tiles overlap.")
            return page.html()
        page.heading("Tiles and pairs")
        page.words(
            "Green pairs are used, orange pairs have a residual of more than a voxel, and dashed red pairs "
            "are not used: their correlation is low or may be chance, or they contradict the others."
        )
        page.side_by_side([self._graph(a) for a in range(len(self.axes) - 1)][::-1])
        page.side_by_side(
            [
                _histogram([r[name] for r in self.pairs if r[name] is not None], title)
                for name, title in (("residual", "residuals, voxels"), ("quality", "correlations"))
            ]
        )
        page.heading("The worst pairs")
        shifts = [f"shift_{a}" for a in self.axes]
        names = ["a", "b", *shifts, "quality", "residual", "used", "confirmed"]
        page.rows(names, [[_text(r[n]) for n in names] for r in self.pairs[:MAX_ROWS]])
        bad = [r for r in self.pairs if not r["used"] or (r["residual"] or 0) > 1][:MAX_PICTURES]
        if bad:
            page.heading("Bad overlaps")
            page.words(
                "The middle plane of each overlap at the final positions: the first tile in green, the "
                "second in magenta. Where they match, the picture is grey."
            )
            page.side_by_side([self._picture(r) for r in bad])
        return page.html()

    def _graph(self, vertical: int) -> str:
        """Draw tiles as boxes, seen along one axis, and a line for each pair."""
        axes = [vertical, len(self.axes) - 1]
        sizes = np.array([tile.shape for tile in self.tiles], np.float64)[:, axes]
        places = self.places[:, axes]
        low, high = places.min(axis=0), (places + sizes).max(axis=0)
        scale = min(_WIDTH / (high[1] - low[1]), _HEIGHT / (high[0] - low[0]))
        height, width = (high - low) * scale + 8
        name = f"Tiles along {self.axes[vertical]} (down) and {self.axes[-1]}"
        d = Drawing(float(width), float(height) + 20, name)
        d.text(4, 14, name, 12, INK, bold=True)
        corners, sides = (places - low) * scale + (22, 4), sizes * scale
        for k, ((y, x), (h, w)) in enumerate(zip(corners[:MAX_DRAWN], sides, strict=False)):
            d.box(x, y, w, h, "none", STORED, f"tile {k}")
            if len(self.tiles) <= 200:
                d.text(x + w / 2, y + h / 2 + 4, str(k), 11, SOFT, "middle")
        centres = corners + sides / 2
        for row in reversed(self.pairs[:MAX_DRAWN]):
            near, far = centres[row["a"]], centres[row["b"]]
            # The ends stay away from the numbers of the tiles.
            ends = [near + f * (far - near) for f in (0.2, 0.8)]
            d.line([(float(x), float(y)) for y, x in ends], _colour(row), not row["used"])
        return d.svg()

    def _picture(self, row: dict[str, Any]) -> str:
        """Return the middle plane of an overlap as a figure."""
        a, b = row["a"], row["b"]
        shift = np.rint(self.places[b] - self.places[a]).astype(int)
        near: list[slice] = []
        far: list[slice] = []
        for n, m, s in zip(self.tiles[a].shape, self.tiles[b].shape, shift, strict=True):
            start, stop = max(0, int(s)), min(n, m + int(s))
            if stop <= start:
                return f"<figure><figcaption>{a} and {b} do not overlap</figcaption></figure>"
            step = 1 if len(near) < len(self.axes) - 2 else max(1, -(-(stop - start) // _SIDE))
            near.append(slice(start, stop, step))
            far.append(slice(start - int(s), stop - int(s), step))
        if len(near) == 3:
            for part in (near, far):
                middle = (part[0].start + part[0].stop) // 2
                part[0] = slice(middle, middle + 1)
        grey = [_plane(self.tiles[k], box) for k, box in ((a, near), (b, far))]
        both = np.stack([grey[1], grey[0], grey[1]], axis=-1)
        words = (
            f"{a} and {b}: correlation {_text(row['quality'])}, residual {_text(row['residual'])}"
        )
        return (
            f'<figure><img src="{uri(both)}" alt="overlap of tiles {a} and {b}"/>'
            f"<figcaption>{words}{'' if row['used'] else ', not used'}</figcaption></figure>"
        )


def _plane(tile: Volume, box: Sequence[slice]) -> np.ndarray:
    """Return a plane as bytes, from its dark to its bright voxels."""
    plane = np.nan_to_num(np.asarray(tile[tuple(box)], np.float32))
    plane = plane.reshape(plane.shape[-2:])
    low, high = np.percentile(plane, (1, 99))
    return ((plane - low) / max(high - low, 1e-30) * 255).clip(0, 255).astype(np.uint8)


def _colour(row: dict[str, Any]) -> str:
    if not row["used"]:
        return _UNUSED
    return _GOOD if row["residual"] <= 1 else _FAIR


def _histogram(values: Sequence[float], title: str) -> str:
    found = np.array(values or [0.0])
    counts, edges = np.histogram(found, 40)
    return charts.histogram(counts.tolist(), float(edges[0]), float(edges[-1]), title)


def _range(values: Sequence[float]) -> str:
    if not values:
        return "none"
    return f"median {np.median(values):.3g}, {min(values):.3g} to {max(values):.3g}"


def _text(value: Any) -> str:
    return "" if value is None else f"{value:.3f}" if isinstance(value, float) else str(value)
