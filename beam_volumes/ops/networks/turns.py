"""Results averaged over turned patches, in one order always."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import numpy as np

from beam_volumes.ops.networks.models import Network

#: Sets of turns that can be asked for: all flips along z, y and x, or quarter turns in the plane.
TURNS = ("flips", "rot90")

_Turn = Callable[[np.ndarray], np.ndarray]


def turned(network: Network, turns: str) -> Network:
    """A network whose results are the mean over turns of what it is given."""
    if not turns:
        return network

    def call(batch: np.ndarray) -> np.ndarray:
        total, count = None, 0
        for there, back in _turns(turns, batch.shape[2] > 1):
            made = back(network(np.ascontiguousarray(there(batch))))
            total = made.astype(np.float64) if total is None else total + made
            count += 1
        assert total is not None
        return (total / count).astype(made.dtype)

    return call


def _turns(turns: str, deep: bool) -> Iterator[tuple[_Turn, _Turn]]:
    if turns == "rot90":
        for k in range(4):
            yield _quarter(k), _quarter(-k)
        return
    for chosen in itertools.product((False, True), repeat=3):
        if deep or not chosen[0]:
            flip = _flipped(tuple(a for a, f in zip((2, 3, 4), chosen, strict=True) if f))
            yield flip, flip


def _quarter(k: int) -> _Turn:
    return lambda batch: np.rot90(batch, k, axes=(3, 4))


def _flipped(axes: tuple[int, ...]) -> _Turn:
    return lambda batch: np.flip(batch, axes)
