"""Averages of results over turned patches, always in the same order."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from beam_volumes.base.geometry import Triple
from beam_volumes.ops.networks.models import Network
from beam_volumes.ops.parameters.building import triple


@dataclass(frozen=True)
class Turn:
    """One way to rotate and mirror a patch."""

    axes: Triple = (0, 1, 2)  #: The axis of the patch for each axis of the turned one.
    back: tuple[bool, ...] = (False, False, False)  #: The reversed axes of the turned one.

    def turned(self, batch: np.ndarray) -> np.ndarray:
        return np.flip(batch.transpose(0, 1, *(a + 2 for a in self.axes)), self._backwards)

    def undone(self, batch: np.ndarray) -> np.ndarray:
        return np.flip(batch, self._backwards).transpose(
            0, 1, *(self.axes.index(a) + 2 for a in range(3))
        )

    @property
    def _backwards(self) -> tuple[int, ...]:
        return tuple(i + 2 for i in range(3) if self.back[i])

    def undone_offset(self, offset: Triple) -> Triple:
        """Convert an offset within a turned patch to the original patch."""
        there = [0, 0, 0]
        for i, n in enumerate(offset):
            there[self.axes[i]] = -n if self.back[i] else n
        return triple(there)


_BACK = tuple(itertools.product((False, True), repeat=3))
_ORDERS = tuple(map(triple, itertools.permutations(range(3))))

#: Sets of turns, in the order of addition.
TURNS: dict[str, tuple[Turn, ...]] = {
    "flips": tuple(Turn(back=back) for back in _BACK),
    "rot90": (
        Turn(),
        Turn((0, 2, 1), (False, True, False)),
        Turn(back=(False, True, True)),
        Turn((0, 2, 1), (False, False, True)),
    ),
    "d4": tuple(Turn(axes, back) for axes in ((0, 1, 2), (0, 2, 1)) for back in _BACK[:4]),
    "cube": tuple(Turn(axes, back) for axes in _ORDERS for back in _BACK),
}


@dataclass(frozen=True)
class Turns:
    """The turns over which results are averaged, and the directions of the results."""

    # A channel may describe a voxel and the one at an offset from it, such as affinities. In a turned patch,
    # this pair belongs to the channel with the turned offset, or with its opposite. In the latter case the
    # pair is stored at its other voxel, so the result moves by one offset. Some pairs are then missing at the
    # patch's faces, so all results lose a margin.

    name: str = ""  #: Name of the set of turns; empty for none.
    #: For each channel, along z, y, x; zeros for one without direction, empty if none has any.
    offsets: tuple[Triple, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.name)

    @property
    def margin(self) -> Triple:
        """The margin of a result that is discarded at each face of a patch."""
        if not self.name or not self.offsets:
            return (0, 0, 0)
        return triple([max(abs(offset[a]) for offset in self.offsets) for a in range(3)])

    @property
    def swapped(self) -> tuple[int, ...]:
        """The axes that some turn exchanges."""
        turns = TURNS.get(self.name, ())
        return tuple(a for a in range(3) if any(turn.axes[a] != a for turn in turns))

    def check(self, channels: int) -> None:
        """Refuse offsets for another number of channels, or offsets that a turn does not map to others."""
        if not self.offsets:
            return
        if len(self.offsets) != channels:
            raise ValueError(
                f"predict: offsets= has {len(self.offsets)} entries, but the network returns {channels} "
                "channels; give None for channels without a direction"
            )
        pairs = [offset for offset in self.offsets if any(offset)]
        for offset in pairs:
            if pairs.count(offset) + pairs.count(_opposite(offset)) > 1:
                raise ValueError(
                    f"predict: offsets= has {offset} twice, or with its opposite; augment= needs one "
                    "channel for each pair of voxels"
                )
        for turn in TURNS.get(self.name, ()):
            self._channels(turn)

    def over(self, network: Network) -> Network:
        """A network that averages its results over the turns of its input."""
        if not self.name:
            return network

        def call(batch: np.ndarray) -> np.ndarray:
            total = None
            # Networks of slices get patches of depth 1, or some slices as ordered channels.
            turns = [t for t in TURNS[self.name] if batch.shape[2] > 1 or not t.back[0]]
            for turn in turns:
                made = turn.undone(network(np.ascontiguousarray(turn.turned(batch))))
                if total is None:
                    size = [n - 2 * m for n, m in zip(made.shape[2:], self.margin, strict=True)]
                    total = np.zeros((*made.shape[:2], *size))
                self._add(total, made, turn)
            assert total is not None
            total /= len(turns)
            # Means of integers are no integers.
            return total.astype(made.dtype if made.dtype.kind == "f" else np.float32)

        return call

    def _add(self, total: np.ndarray, made: np.ndarray, turn: Turn) -> None:
        if not self.offsets:
            total += made
            return
        for k, (channel, shift) in enumerate(self._channels(turn)):
            z, y, x = (
                slice(m + s, m + s + n)
                for m, s, n in zip(self.margin, shift, total.shape[2:], strict=True)
            )
            total[:, channel] += made[:, k, z, y, x]

    def _channels(self, turn: Turn) -> list[tuple[int, Triple]]:
        """For each channel of a turned patch, the original channel and the offset of its voxels."""
        found = []
        for k, offset in enumerate(self.offsets):
            there = turn.undone_offset(offset)
            if not any(there):
                found.append((k, there))
            elif there in self.offsets:
                found.append((self.offsets.index(there), (0, 0, 0)))
            elif _opposite(there) in self.offsets:
                own = _opposite(there)
                found.append((self.offsets.index(own), own))
            else:
                raise ValueError(
                    f"predict: augment={self.name!r} turns the offset {offset} of channel {k} into "
                    f"{there}, and no channel has this offset or its opposite; use other turns, or a "
                    "separate predict without augment= for these channels"
                )
        return found


def _opposite(offset: Triple) -> Triple:
    z, y, x = offset
    return (-z, -y, -x)
