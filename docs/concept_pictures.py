"""Draws the pictures of concepts.md: ``make docs`` writes them, after the pictures of `pictures`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from pictures import DONE, EMPTY, INK, KEPT, NEXT, NOW, SOFT, Drawing, main

ROSE, VIOLET = "#e8a0a8", "#b9a3d9"


def halo() -> Drawing:
    """A slab of a volume: its core and its halo, seen from the side."""
    d = Drawing(760, 330, "A slab has a core, which it yields, and a halo, which it reads, too")
    x, y, w, h = 70, 40, 300, 60
    for k in range(4):
        d.box(x, y + k * h, w, h, KEPT if k == 1 else EMPTY)
        d.text(x + w / 2, y + k * h + 35, f"slab {k}", 14, INK, "middle", k == 1)
    for top in (y + h - 16, y + 2 * h):
        d.box(x, top, w, 16, NEXT)
    d.arrow(x - 24, y, x - 24, y + 4 * h - 6)
    d.text(x - 29, y + 4 * h + 12, "z", 13, SOFT)
    d.text(430, y + h - 4, "halo before: slices of slab 0", 13, SOFT)
    d.text(430, y + h + 35, "core: the voxels that slab 1 yields", 13, INK, bold=True)
    d.text(430, y + 2 * h + 12, "halo after: slices of slab 2", 13, SOFT)
    d.text(430, y + 3 * h + 12, "A gaussian with sigma 1.5 has a halo of 6", 13, SOFT)
    d.text(430, y + 3 * h + 30, "slices on each side, a copy has none.", 13, SOFT)
    for top in (y + h - 8, y + h + 31, y + 2 * h + 8):
        d.arrow(424, top, x + w + 6, top)
    d.text(
        70,
        310,
        "Neighbours read what both need twice, and compute nothing for each other.",
        13,
        SOFT,
    )
    return d


def window() -> Drawing:
    """A window on its way along z, at four times: what stages hold, compute and forget."""
    d = Drawing(860, 400, "A window moves along z; each stage holds only what the next one needs")
    rows, h, w, gap = 18, 15, 44, 12
    for time in range(4):
        left = 40 + time * 206
        d.text(left + 76, 34, f"step {time + 1}", 14, INK, "middle", True)
        for i, name in enumerate(("read", "median", "write")):
            x = left + i * (w + gap)
            d.text(x + w / 2, 58, name, 12, SOFT, "middle")
            end = 4 * (time + 1) - i
            for k in range(rows):
                fill = EMPTY
                if end - 4 <= k < end:
                    fill = NOW
                elif k < end and i == 2:
                    fill = DONE
                elif end - 6 <= k < end and i == 0:
                    fill = KEPT
                elif end <= k < end + 4 and i == 0:
                    fill = NEXT
                d.box(x, 68 + k * h, w, h - 3, fill)
    for k, (fill, words) in enumerate(
        [
            (NEXT, "read ahead"),
            (NOW, "this window"),
            (KEPT, "kept for the next stage"),
            (DONE, "written"),
        ]
    ):
        left = 40 + (0, 120, 250, 450)[k]
        d.box(left, 356, 14, 11, fill)
        d.text(left + 22, 366, words, 13, SOFT)
    return d


def passes() -> Drawing:
    """A number parts a computation: one pass finds it, the next one uses it."""
    d = Drawing(
        860, 310, "What needs a number of the whole volume waits for the pass that finds it"
    )
    for k, (title, steps) in enumerate(
        [
            ("pass 1", ["read em", "gaussian_filter", "histogram of each slab"]),
            ("pass 2", ["read em", "gaussian_filter", "less", "write membranes"]),
        ]
    ):
        y = 50 + 140 * k
        d.text(30, y - 14, title, 15, INK, bold=True)
        for i, step in enumerate(steps):
            x = 30 + i * 205
            d.box(x, y, 170, 44, DONE if "write" in step else NOW if i else EMPTY)
            d.text(x + 85, y + 27, step, 13, INK, "middle")
            if i:
                d.arrow(x - 33, y + 22, x - 4, y + 22)
    d.arrow(612, 72, 640, 72)
    d.box(645, 50, 180, 44, KEPT)
    d.text(735, 77, "threshold_otsu: 121", 13, INK, "middle", True)
    d.parts.append(
        f'<path d="M735,94 C735,150 525,120 525,184" fill="none" stroke="{SOFT}" stroke-width="1.6" '
        'marker-end="url(#head)"/>'
    )
    d.text(30, 274, "The gaussian is computed again in pass 2, or stored by pass 1:", 13, SOFT)
    d.text(30, 293, "the plan chooses the cheaper way, and prints the reason.", 13, SOFT)
    return d


#: Components of two slabs of 4 rows: column, row, width, height, colour, provisional id, and label.
SHAPES: list[tuple[int, int, int, int, str, int, int]] = [
    (0, 0, 2, 2, KEPT, 0, 1),
    (3, 0, 2, 4, NOW, 3, 2),
    (6, 1, 2, 2, VIOLET, 14, 3),
    (3, 4, 5, 2, NEXT, 35, 2),
    (0, 5, 2, 2, ROSE, 40, 4),
]


def labels() -> Drawing:
    """Labels in two sweeps: found slab by slab, united where slabs meet, then written."""
    d = Drawing(900, 370, "Labels take two sweeps: one finds components, one writes their labels")
    cell = 28
    titles = [
        "sweep 1: each slab for itself",
        "between: 3 and 35 touch",
        "sweep 2: labels are written",
    ]
    for part, title in enumerate(titles):
        x, y = 40 + part * 290, 70
        d.text(x, 40, title, 15, INK, bold=True)
        d.box(x, y, 8 * cell, 8 * cell, EMPTY)
        for c, r, w, h, fill, found, label in SHAPES:
            d.box(
                x + c * cell, y + r * cell, w * cell, h * cell, NOW if part and label == 2 else fill
            )
            if part != 1 or label == 2:
                words = str(label if part == 2 else found)
                d.text(
                    x + (c + w / 2) * cell,
                    y + (r + h / 2) * cell + 5,
                    words,
                    14,
                    INK,
                    "middle",
                    True,
                )
        middle = y + 4 * cell
        d.parts.append(
            f'<line x1="{x - 12}" y1="{middle}" x2="{x + 8 * cell + 12}" y2="{middle}" stroke="{INK}" '
            'stroke-width="2" stroke-dasharray="6 4"/>'
        )
    d.text(
        40,
        326,
        "A component is called by the linear index of its first voxel, without asking anybody.",
        13,
        SOFT,
    )
    d.text(
        40,
        345,
        "The rank of the smallest such number is its label: the order of scipy.ndimage.label.",
        13,
        SOFT,
    )
    return d


def merge() -> Drawing:
    """The merge of eight slabs: a tree of blocks, up and down again."""
    d = Drawing(900, 400, "What slabs found is merged up a tree, and answers come down again")
    widths = [8, 4, 2, 1]
    words = ["slabs", "pairs", "fours", "the volume"]
    places: list[list[float]] = []
    for level, count in enumerate(widths):
        y = 320 - level * 88
        span = 640 / count
        places.append([150 + span * (k + 0.5) for k in range(count)])
        d.text(30, y + 21, words[level], 13, SOFT)
        for k, x in enumerate(places[level]):
            if level:
                for child in (2 * k, 2 * k + 1):
                    below = places[level - 1][child]
                    d.arrow(below - 5, y + 86, x - 5 + (below - x) / 8, y + 36)
                    d.arrow(x + 5 + (below - x) / 8, y + 36, below + 5, y + 86, "#d08a3e")
        for x in places[level]:
            d.box(x - 32, y, 64, 34, (EMPTY, KEPT, KEPT, DONE)[level])
    for k, x in enumerate(places[0]):
        d.text(x, 342, f"{k}", 13, INK, "middle")
    d.text(580, 70, "numbers all components", 13, SOFT)
    d.arrow(30, 380, 60, 380)
    d.text(68, 384, "components that touch an outer face", 13, SOFT)
    d.arrow(400, 380, 430, 380, "#d08a3e")
    d.text(438, 384, "which of them are one, and their labels", 13, SOFT)
    return d


CONCEPTS = {
    "halo.svg": halo,
    "window.svg": window,
    "passes.svg": passes,
    "labels.svg": labels,
    "merge.svg": merge,
}

if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv, CONCEPTS))
