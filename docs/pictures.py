"""Draws the pictures of the documentation: ``make docs``.

Each is an SVG in ``docs/images``, a function below. With ``--check`` nothing is written, and the exit code
is 1 if a picture is not current.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from beam_volumes.base import drawing
from beam_volumes.base.drawing import DONE, EMPTY, INK, LINE, NEXT, NOW, PAPER, SOFT

IMAGES = Path(__file__).with_name("images")

KEPT = "#9cc4e4"
#: The head of arrows.
_HEAD = (
    '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
    f'orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="{SOFT}"/></marker></defs>'
)


class Drawing(drawing.Drawing):
    """Shapes and texts on paper, with arrows."""

    def __init__(self, width: float, height: float, title: str) -> None:
        super().__init__(width, height, title)
        self.parts.append(_HEAD)
        self.box(0, 0, width, height, PAPER, line="none")

    def polygon(self, points: list[tuple[float, float]], fill: str) -> None:
        corners = " ".join(f"{x:g},{y:g}" for x, y in points)
        self.parts.append(f'<polygon points="{corners}" fill="{fill}" stroke="{LINE}"/>')

    def arrow(self, x0: float, y0: float, x1: float, y1: float, line: str = SOFT) -> None:
        self.parts.append(
            f'<line x1="{x0:g}" y1="{y0:g}" x2="{x1:g}" y2="{y1:g}" stroke="{line}" stroke-width="1.6" '
            'marker-end="url(#head)"/>'
        )


def sweep() -> Drawing:
    """A volume in slabs; one slab, swept by windows; its chunks."""
    d = Drawing(960, 440, "A volume is cut into slabs; each is swept along z by windows")
    _volume(d, 30, 120)
    _slab(d, 300, 104)
    _chunks(d, 742, 104)
    d.text(
        480,
        424,
        "Voxels go from storage to storage. Between workers travel numbers and summaries of slabs.",
        13,
        SOFT,
        "middle",
    )
    return d


def _volume(d: Drawing, x: float, y: float) -> None:
    d.text(x, 30, "1  The volume is cut into slabs", 15, bold=True)
    d.text(x, 50, "Each worker takes one.", 13, SOFT)
    w, h, dx, dy = 130, 64, 42, -26
    d.polygon([(x, y), (x + dx, y + dy), (x + w + dx, y + dy), (x + w, y)], EMPTY)
    for k in range(4):
        top = y + k * h
        fill = (DONE, KEPT, EMPTY, EMPTY)[k]
        d.box(x, top, w, h, fill)
        right = [
            (x + w, top),
            (x + w + dx, top + dy),
            (x + w + dx, top + h + dy),
            (x + w, top + h),
        ]
        d.polygon(right, fill)
        d.text(x + w / 2, top + h / 2 + 5, f"slab {k}", 13, INK, "middle")
    for top in (y + h - 9, y + 2 * h):
        d.box(x, top, w, 9, NEXT)
        side = [
            (x + w, top),
            (x + w + dx, top + dy),
            (x + w + dx, top + 9 + dy),
            (x + w, top + 9),
        ]
        d.polygon(side, NEXT)
    d.text(x + w + dx + 6, y + h + dy + 1, "halo", 12, SOFT)
    d.text(x + w + dx + 6, y + 2 * h + dy + 8, "halo", 12, SOFT)
    d.arrow(x - 12, y, x - 12, y + 60)
    d.text(x - 16, y + 76, "z", 13, SOFT)


def _slab(d: Drawing, x: float, y: float) -> None:
    d.text(x, 30, "2  A window sweeps the slab, all stages at once", 15, bold=True)
    d.text(x, 50, "A stage keeps the slices that the next one needs.", 13, SOFT)
    rows, h, w, gap = 18, 15, 96, 28
    # By stage: the first slice held, that which the window adds from, and where it ends.
    stages = [("read", 5, 9, 12), ("median", 6, 8, 11), ("gaussian", 7, 7, 10)]
    for i, (name, first, now, end) in enumerate(stages):
        left = x + 18 + i * (w + gap)
        d.text(left + w / 2, y - 8, name, 13, INK, "middle")
        for k in range(rows):
            halo = k in (0, rows - 1)
            if i == 2 and halo:
                continue
            fill = NOW if now <= k < end else KEPT if first <= k < now else EMPTY
            if i == 0 and end <= k < end + 3:
                fill = NEXT
            d.box(left, y + k * h, w, h - 3, fill)
        if i:
            d.arrow(left - gap + 3, y + 9.5 * h, left - 4, y + 9 * h)
    d.arrow(x + 4, y + 10, x + 4, y + rows * h - 14)
    at = y + rows * h + 16
    for k, (fill, words) in enumerate(
        [(KEPT, "kept"), (NOW, "computed now"), (NEXT, "read meanwhile")]
    ):
        left = x + 18 + (0, 78, 210)[k]
        d.box(left, at - 10, 14, 11, fill)
        d.text(left + 20, at, words, 12, SOFT)


def _chunks(d: Drawing, x: float, y: float) -> None:
    d.text(x - 20, 30, "3  Chunks are written once", 15, bold=True)
    d.text(x - 20, 50, "The journal notes each slab.", 13, SOFT)
    columns, rows, w, h = 4, 8, 40, 32
    for r in range(rows):
        for c in range(columns):
            fill = DONE if r < 2 or (r == 2) else NOW if r == 3 and c < 2 else EMPTY
            d.box(x + c * w, y + r * h, w - 3, h - 3, fill)
    for k in range(4):
        top = y + 2 * k * h
        d.text(x - 8, top + h + 1, str(k), 12, SOFT, "end")
    d.arrow(x - 44, y + 5.2 * h, x - 14, y + 3.8 * h)
    at = y + rows * h + 20
    for k, (fill, words) in enumerate([(DONE, "written"), (NOW, "being written")]):
        left = x + (0, 76)[k]
        d.box(left, at - 10, 14, 11, fill)
        d.text(left + 20, at, words, 12, SOFT)


#: Layers of the package from the top down, their packages, and their purpose.
FLOORS = [
    ("cli  studio  profile  expansion  yaml  recipes", "texts become requests"),
    ("show", "pictures and pages; what viewers ask for"),
    ("drive", "compute(): plan, check, start a runner, hand back results"),
    ("transforms", "the Beam layer: Compute, ComputeAll, steps on slabs"),
    ("session", "one run of a plan, the same on every runner"),
    ("plan", "passes, slabs, windows; memory and I/O predicted"),
    ("ops", "the functions users call, by family"),
    ("across", "what reaches across slabs, as merges by key"),
    ("graph", "lazy expressions: Volume, Scalar, Table"),
    ("sweep", "stages, and the executor that streams a slab along z"),
    ("runs", "the journal: manifest, records, verification"),
    ("storage", "formats, reading, writing, ownership of outputs"),
    ("kernels  base", "loops on plain arrays; geometry, axes, texts"),
]
#: Below so many floors nothing imports Beam.
BEAM = 4


def house() -> Drawing:
    """The packages as floors: each imports only what lies below it."""
    d = Drawing(900, 544, "The packages of beam_volumes as floors of a house")
    left, top, h = 60, 64, 36
    d.polygon([(left - 24, top), (450, 14), (864, top)], KEPT)
    d.text(450, 50, "import beam_volumes as bv", 14, INK, "middle", True)
    for k, (rooms, words) in enumerate(FLOORS):
        y = top + k * h
        fill = NEXT if k < BEAM else EMPTY if k < len(FLOORS) - 1 else DONE
        d.box(left, y, 780, h, fill)
        d.text(left + 14, y + 23, rooms, 14, INK, bold=True)
        d.text(left + 350, y + 23, words, 13, SOFT)
    d.arrow(34, top + 10, 34, top + len(FLOORS) * h - 4)
    d.parts.append(
        f'<text x="24" y="{top + 150}" font-size="13" fill="{SOFT}" '
        f'transform="rotate(-90 24 {top + 150})" text-anchor="end">imports</text>'
    )
    d.text(left + 766, top + 23, "may import Beam", 12, SOFT, "end")
    return d


PICTURES = {"sweep.svg": sweep, "house.svg": house}


def main(check: bool, pictures: dict[str, Callable[[], Drawing]]) -> int:
    """Write pictures, or report which are not current."""
    stale = [
        name
        for name, draw in pictures.items()
        if not (IMAGES / name).exists() or (IMAGES / name).read_text() != draw().svg()
    ]
    if check:
        if stale:
            print(f"not current: {', '.join(stale)}: make docs", file=sys.stderr)
        return int(bool(stale))
    IMAGES.mkdir(exist_ok=True)
    for name in stale:
        (IMAGES / name).write_text(pictures[name]().svg())
    return 0


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv, PICTURES))
