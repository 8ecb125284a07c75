"""Results averaged over turned patches, in one order always."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from beam_volumes.base.geometry import Triple
from beam_volumes.ops.networks.models import Network
from beam_volumes.ops.parameters.building import triple


@dataclass(frozen=True)
class Turn:
    """One way to turn and mirror a patch."""

    axes: Triple = (0, 1, 2)  #: Along which axis of the patch each axis of the turned one lies.
    back: tuple[bool, ...] = (False, False, False)  #: Which axes of the turned one run backwards.

    def turned(self, batch: np.ndarray) -> np.ndarray:
        """Patches, with the axes batch, c, z, y, x, as they look turned."""
        return np.flip(batch.transpose(0, 1, *(a + 2 for a in self.axes)), self._backwards)

    def undone(self, batch: np.ndarray) -> np.ndarray:
        """Turned patches as they were."""
        return np.flip(batch, self._backwards).transpose(
            0, 1, *(self.axes.index(a) + 2 for a in range(3))
        )

    @property
    def _backwards(self) -> tuple[int, ...]:
        return tuple(i + 2 for i in range(3) if self.back[i])

    def undone_offset(self, offset: Triple) -> Triple:
        """Where an offset within a turned patch leads in the patch itself."""
        there = [0, 0, 0]
        for i, n in enumerate(offset):
            there[self.axes[i]] = -n if self.back[i] else n
        return triple(there)


_BACK = tuple(itertools.product((False, True), repeat=3))
_ORDERS = tuple(map(triple, itertools.permutations(range(3))))

#: What can be asked for: sets of turns, in the order in which they are added up.
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
    """The turns over which results are averaged, and what directions the results have.

    A channel may tell of a voxel and of the one at an offset from it, as affinities do. In a turned patch
    this pair lies elsewhere: it is of the channel with the turned offset, or with its opposite. In the latter
    case the pair is named by its other voxel, so the result is moved by one offset. At the patch's faces some
    pairs are missing then, so a margin of all results is left out.
    """

    name: str = ""  #: Of the set of turns; empty for none.
    #: For each channel, along z, y, x; zeros for one without a direction, empty if none has any.
    offsets: tuple[Triple, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.name)

    @property
    def margin(self) -> Triple:
        """How many voxels of a result are left out at each face of a patch."""
        if not self.name or not self.offsets:
            return (0, 0, 0)
        return triple([max(abs(offset[a]) for offset in self.offsets) for a in range(3)])

    @property
    def swapped(self) -> tuple[int, ...]:
        """The axes that some turn puts in each other's place."""
        turns = TURNS.get(self.name, ())
        return tuple(a for a in range(3) if any(turn.axes[a] != a for turn in turns))

    def check(self, channels: int) -> None:
        """Refuse offsets that are not those of so many channels, or that a turn makes others of."""
        if not self.offsets:
            return
        if len(self.offsets) != channels:
            raise ValueError(
                f"predict: offsets= has {len(self.offsets)} entries, and the network makes "
                f"{channels} channels; give None for those without a direction"
            )
        pairs = [offset for offset in self.offsets if any(offset)]
        for offset in pairs:
            if pairs.count(offset) + pairs.count(_opposite(offset)) > 1:
                raise ValueError(
                    f"predict: offsets= has {offset} twice, or with its opposite: one channel for "
                    "each pair of voxels can be turned"
                )
        for turn in TURNS.get(self.name, ()):
            self._channels(turn)

    def over(self, network: Network) -> Network:
        """A network whose results are the mean over the turns of what it is given."""
        if not self.name:
            return network

        def call(batch: np.ndarray) -> np.ndarray:
            total = None
            # A network of slices is given patches one deep, and some slices as channels in their order.
            turns = [t for t in TURNS[self.name] if batch.shape[2] > 1 or not t.back[0]]
            for turn in turns:
                made = turn.undone(network(np.ascontiguousarray(turn.turned(batch))))
                if total is None:
                    size = [n - 2 * m for n, m in zip(made.shape[2:], self.margin, strict=True)]
                    total = np.zeros((*made.shape[:2], *size))
                self._add(total, made, turn)
            assert total is not None
            total /= len(turns)
            return total.astype(made.dtype)

        return call

    def _add(self, total: np.ndarray, made: np.ndarray, turn: Turn) -> None:
        """Add the results of a turn, each to its channel."""
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
        """For each channel of a turned patch whose it is, and from where its voxels are taken."""
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
                    f"{there}, and neither it nor its opposite is another channel's; choose other turns, or "
                    "give these channels to a predict without augment="
                )
        return found


def _opposite(offset: Triple) -> Triple:
    z, y, x = offset
    return (-z, -y, -x)
