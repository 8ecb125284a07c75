"""The stage of a network, which runs patch by patch, with all channels of a voxel as result."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from beam_volumes.base.geometry import Box, Range, Ranges, Triple
from beam_volumes.ops.networks.models import Model, Network
from beam_volumes.ops.networks.patches import Patches, weights
from beam_volumes.ops.networks.trial import stands_in
from beam_volumes.ops.networks.turns import Turns
from beam_volumes.storage.places.extent import Extent
from beam_volumes.sweep.resources import in_strips
from beam_volumes.sweep.stage import Block, Regrid, Stage, Work, digest

#: Bytes that the trial of a larger patch may take: machines that plan may be smaller than workers.
_TRIAL_BYTES = 4 << 30


@dataclass(frozen=True, eq=False)
class Predict(Regrid):
    """The result of a network on patches: single patches for each voxel, or sums of overlapping ones."""

    model: Model
    patches: Patches
    channels: int  #: Number of inputs that are channels of the network; one more is the mask.
    batch: int  #: Patches per call; missing ones are zeros.
    blend: str  #: The weights of overlapping patches; empty without overlap.
    turns: Turns  #: The turns of a patch over which results are averaged.
    #: Whether to normalize each channel of a patch to mean 0 and standard deviation 1.
    standardized: bool
    fill: float  #: The result of patches outside of the mask.
    repeatable: bool  #: Whether a second run returns the same bits.
    network_bytes: int  #: Bytes that the network allocates for a batch.
    #: Alternative patches, and their number per batch, with the same expected voxels.
    others: tuple[tuple[Patches, int], ...] = ()
    #: For an alternative, the original stage, which must have the same voxels.
    instead_of: Predict | None = None
    nanoseconds: float = 500.0

    def needs(self, axis: int, wanted: Ranges) -> Range:
        return self.patches.needs(axis, wanted[axis])

    @property
    def grain(self) -> Triple:
        return self.patches.step

    @property
    def accelerated(self) -> bool:  # type: ignore[override]
        return self.model.accelerated

    @property
    def compiled(self) -> bool:  # type: ignore[override]
        return self.model.compiled

    @property
    def remark(self) -> str:  # type: ignore[override]
        on_gpu = "runs on CUDA: its bits may differ from the CPU's, but not between runs and slabs"
        return on_gpu if self.model.on_gpu else ""

    @property
    def holds(self) -> str:  # type: ignore[override]
        return self.model.holds

    @property
    def piece(self) -> str:  # type: ignore[override]
        size = " x ".join(map(str, self.patches.patch))
        return f"patches of {size}, {self.batch} at a time"

    @property
    def piece_voxels(self) -> int:  # type: ignore[override]
        return math.prod(self.patches.patch)

    def pieces(self, axis: int, wanted: Range) -> int:
        return len(self.patches.over(axis, wanted))

    def seconds(self, threads: int) -> float:
        shape = (self.batch, self.channels, *self.patches.patch)
        noise = np.random.default_rng(0).random(shape, dtype=np.float32)
        network = self.turns.over(self.model.loaded(threads))
        network(noise)  # the first call takes longer
        begun = time.perf_counter()
        network(noise)
        return (time.perf_counter() - begun) / self.batch

    @property
    def alternatives(self) -> tuple[Stage, ...]:
        own = math.prod(self.patches.patch) * self.batch
        found = (
            replace(
                self, patches=patches, batch=batch, others=(), instead_of=self,
                network_bytes=self.network_bytes * math.prod(patches.patch) * batch // own,
            )
            for patches, batch in self.others
        )  # fmt: skip
        return tuple(s for s in found if s.network_bytes <= max(_TRIAL_BYTES, self.network_bytes))

    def confirmed(self) -> Stage | None:
        if self.instead_of is None:
            return self
        first = self.instead_of
        measured = stands_in(
            self.model, self.channels, (first.patches, first.batch), (self.patches, self.batch)
        )
        return None if measured is None else replace(self, network_bytes=measured)

    @property
    def cost(self) -> float:
        return self.nanoseconds

    @property
    def deterministic(self) -> bool:
        return self.repeatable

    @property
    def extents(self) -> tuple[Extent, ...]:
        return self.model.extents

    def token(self) -> str:
        # Without the number of patches per batch, which does not change voxels of a repeatable network,
        # and without the size of patches if plans select it.
        how = self.blend, repr(self.turns), self.standardized, repr(self.fill)
        first = self if self.instead_of is None else self.instead_of
        patches = first.patches
        if any(other.patch != patches.patch for other, _ in first.others):
            patches = replace(patches, patch=(0, 0, 0), made=(1, 1, 1), step=(1, 1, 1))
        return digest("Predict", self.model, patches, self.channels, str(self.dtype), self.of, *how)

    @property
    def made(self) -> int:
        return len(self.dtype.names or "1")

    def begin(self, box: Box) -> Work:
        return _Blended(self, box) if self.blend else _Tiled(self)

    def kept_bytes(self, rows: int, cols: int) -> int:
        blended = 8 * self.made * self.patches.made[0] * rows * cols if self.blend else 0
        return blended + self.batches * self._batch_bytes

    @property
    def batches(self) -> int:
        """Batches in memory: while a GPU runs one, the next one is prepared."""
        return 1 + self.model.on_gpu

    @property
    def _batch(self) -> tuple[int, ...]:
        """The shape of a batch."""
        return (self.batch, self.channels, *self.patches.patch)

    @property
    def _batch_bytes(self) -> int:
        return math.prod(self._batch) * self.model.takes.itemsize

    def working_bytes(self, shape: Triple, threads: int) -> int:
        voxels = self.batch
        for n in self.patches.patch:
            voxels *= n
        out = self.made
        for n in self.patches.made:
            out *= n
        # Copies of the batch, its result, the mean over turns, and a patch in float64 with its weights.
        given = self._batch_bytes * (bool(self.turns) + 2 * self.standardized)
        mean = 12 * self.made * voxels * bool(self.turns)
        flight = 4 * self.made * voxels * self.model.on_gpu
        return self.network_bytes + given + flight + mean + (24 if self.blend else 0) * out


class _Runs:
    """Runs batches of patches of constant shape through a network."""

    def __init__(self, stage: Predict):
        self.stage = stage
        shape, takes = stage._batch, stage.model.takes
        self._given = [np.zeros(shape, takes) for _ in range(stage.batches)]

    def results(
        self, inputs: Sequence[Block], cells: Iterator[Triple], threads: int
    ) -> Iterator[tuple[Triple, np.ndarray | None]]:
        """The result of each patch, with the axes c, z, y, x; None if the mask has no voxel there."""
        stage = self.stage
        network = stage.turns.over(stage.model.loaded(threads))
        buffers = itertools.cycle(self._given)

        def batches() -> Iterator[tuple[list[Triple], list[Triple], np.ndarray]]:
            while group := list(itertools.islice(cells, stage.batch)):
                wanted = [cell for cell in group if self._is_wanted(inputs, cell)]
                yield group, wanted, self._gathered(inputs, wanted, next(buffers))

        run = partial(self._run, network)
        for group, wanted, made in _mapped(run, batches(), stage.model.on_gpu):
            found = dict(zip(wanted, made, strict=False))
            for cell in group:
                yield cell, found.get(cell)

    def _gathered(
        self, inputs: Sequence[Block], cells: list[Triple], given: np.ndarray
    ) -> np.ndarray:
        """Fill a batch; missing patches are zeros."""
        stage = self.stage
        for k, cell in enumerate(cells):
            for c in range(stage.channels):
                stage.patches.gather(inputs[c], cell, given[k, c])
                if stage.standardized:
                    standardize(given[k, c])
        given[len(cells) :] = 0
        return given

    def _run(self, network: Network, cells: list[Triple], given: np.ndarray) -> np.ndarray:
        stage = self.stage
        if not cells:
            return given[:0]
        made = network(given)
        z, y, x = (
            slice(a, a + m) for a, m in zip(stage.patches.skipped, stage.patches.made, strict=True)
        )
        used = made[:, :, z, y, x]
        if used.shape != (stage.batch, stage.made, *stage.patches.made):
            raise ValueError(
                f"{stage.model.name} returned shape {made.shape} for {given.shape}, but a different one in "
                "the trial"
            )
        for cell, own, patch in zip(cells, used, given, strict=False):
            self._check(cell, own, patch)
        return used

    def _check(self, cell: Triple, made: np.ndarray, given: np.ndarray) -> None:
        """Refuse NaN or infinity in the result of a finite patch."""
        if made.dtype.kind != "f" or is_finite(made) or not is_finite(given):
            return
        bad = int((~np.isfinite(made)).sum())
        start = tuple(self.stage.patches.makes(a, cell[a])[0] for a in range(3))
        raise ValueError(
            f"{self.stage.model.name} returns {bad:,} of {made.size:,} numbers as NaN or infinite for the "
            f"patch at {start}, with voxels from {given.min():g} to {given.max():g}: use normalize= to scale "
            "them to the range that the network was trained for"
        )

    def _is_wanted(self, inputs: Sequence[Block], cell: Triple) -> bool:
        """Whether the mask has a nonzero voxel in the results of a patch."""
        if len(inputs) == self.stage.channels:
            return True
        mask, patches = inputs[-1], self.stage.patches

        def inside(axis: int) -> slice:
            scale, first = patches.scale[axis], mask.start[axis]
            start, stop = patches.makes(axis, cell[axis])
            return slice(start * scale - first, min(stop * scale, patches.of[axis]) - first)

        z, y, x = map(inside, range(3))
        return any(mask.slice(k)[y, x].any() for k in range(z.start, z.stop))


def _mapped(
    run: Callable[[list[Triple], np.ndarray], np.ndarray],
    batches: Iterator[tuple[list[Triple], list[Triple], np.ndarray]],
    is_ahead: bool,
) -> Iterator[tuple[list[Triple], list[Triple], np.ndarray]]:
    """Run each batch, with the next one prepared at the same time if ``is_ahead``."""
    if not is_ahead:
        for group, wanted, given in batches:
            yield group, wanted, run(wanted, given)
        return
    flight: list[tuple[list[Triple], list[Triple], Future[np.ndarray]]] = []
    with ThreadPoolExecutor(1, "bv-network") as pool:
        for group, wanted, given in batches:
            flight.append((group, wanted, pool.submit(run, wanted, given)))
            if len(flight) > 1:
                first, some, future = flight.pop(0)
                yield first, some, future.result()
        for last, some, future in flight:
            yield last, some, future.result()


def is_finite(voxels: np.ndarray) -> bool:
    return bool(np.isfinite(voxels.min()) and np.isfinite(voxels.max()))


def standardize(channel: np.ndarray) -> None:
    """Normalize a channel to mean 0 and standard deviation 1, in place; a constant one to 0."""
    voxels = channel.astype(np.float64)
    spread = voxels.std()
    channel[...] = (voxels - voxels.mean()) / (spread if spread > 0 else 1.0)


class _Tiled(_Runs):
    """Each voxel comes from one patch."""

    def run(
        self, inputs: tuple[Block, ...], out: Block, values: tuple[Any, ...], threads: int
    ) -> None:
        patches = self.stage.patches
        start = out.start
        stop = (start[0] + out.depth, start[1] + out.rows, start[2] + out.cols)
        for cell, made in self.results(inputs, patches.within(start, stop), threads):
            own = [patches.makes(a, cell[a]) for a in range(3)]
            box = [
                (max(lo, a), min(hi, b)) for (lo, hi), a, b in zip(own, start, stop, strict=True)
            ]
            inside = [slice(a - lo, b - lo) for (a, b), (lo, _) in zip(box, own, strict=True)]
            z, y, x = (slice(a - s, b - s) for (a, b), s in zip(box, start, strict=True))
            for k in range(z.start, z.stop):
                to = out.slice(k)[y, x]
                part = None if made is None else made[:, inside[0].start + k - z.start]
                for c, field in enumerate(fields(to)):
                    field[...] = self.stage.fill if part is None else part[c][inside[1], inside[2]]


class _Blended(_Runs):
    """Sums of overlapping patches: layer by layer along z, in raster order of patches for each voxel."""

    def __init__(self, stage: Predict, box: Box):
        super().__init__(stage)
        self.box, self.depth = box, stage.patches.made[0]
        rows, cols = box.shape[1:]
        self.sums = np.zeros((stage.made, self.depth, rows, cols))
        self.layers = iter(stage.patches.over(0, (box.start[0], box.stop[0])))
        self.next = next(self.layers, None)

    def run(
        self, inputs: tuple[Block, ...], out: Block, values: tuple[Any, ...], threads: int
    ) -> None:
        patches = self.stage.patches
        at, stop = out.start[0], out.start[0] + out.depth
        while at < stop:
            if self.next is not None and self.next * patches.step[0] <= at:
                self._add_layer(self.next, inputs, threads)
                self.next = next(self.layers, None)
                continue
            self._give(at, out)
            at += 1

    def _add_layer(self, layer: int, inputs: tuple[Block, ...], threads: int) -> None:
        patches, (_, y, x) = self.stage.patches, self.box.start
        _, y1, x1 = self.box.stop
        cells = ((layer, j, k) for j in patches.over(1, (y, y1)) for k in patches.over(2, (x, x1)))
        for cell, made in self.results(inputs, cells, threads):
            self._add(cell, made, threads)

    def _add(self, cell: Triple, made: np.ndarray | None, threads: int) -> None:
        patches = self.stage.patches
        along, where, first = [], [], []
        for a in range(3):
            lo, hi = patches.makes(a, cell[a])
            begin, end = max(lo, self.box.start[a]), min(hi, self.box.stop[a])
            own = weights(
                self.stage.blend, patches.made[a], patches.step[a], cell[a], patches.counts[a]
            )
            along.append(own[begin - lo : end - lo])
            where.append(slice(begin - self.box.start[a], end - self.box.start[a]))
            first.append(slice(begin - lo, end - lo))
        begin = where[0].start + self.box.start[0]
        plane = along[1][:, None] * along[2]

        def add(a: int, b: int) -> None:
            for k in range(a, b):
                weighed = along[0][k] * plane
                for c, sums in enumerate(self.sums[:, (begin + k) % self.depth]):
                    voxels = (
                        self.stage.fill
                        if made is None
                        else made[c, first[0].start + k][first[1], first[2]]
                    )
                    sums[where[1], where[2]] += weighed * voxels

        in_strips(len(along[0]), plane.size * len(along[0]) * len(self.sums), threads, add)

    def _give(self, at: int, out: Block) -> None:
        """Return a slice without further patches, and free its memory for a later one."""
        sums = self.sums[:, at % self.depth]
        for field, total in zip(fields(out.slice(at - out.start[0])), sums, strict=True):
            field[...] = total
        sums[...] = 0


def fields(voxels: np.ndarray) -> list[np.ndarray]:
    names = voxels.dtype.names
    return [voxels] if names is None else [voxels[name] for name in names]
