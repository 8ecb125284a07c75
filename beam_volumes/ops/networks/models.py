"""Networks as the sweep knows them: what tells one from another, and how a process loads it once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from beam_volumes.base.nesting import calling
from beam_volumes.storage.places.extent import Extent
from beam_volumes.sweep.resources import hold
from beam_volumes.sweep.stage import digest

#: A loaded network: takes and gives arrays with the axes batch, c, (z,) y, x.
Network = Callable[[np.ndarray], np.ndarray]

_lock = threading.Lock()
_loaded: dict[tuple[str, int], Network] = {}


@dataclass(frozen=True, eq=False)
class Model:
    """A network that a process can load."""

    name: str  #: What messages call it.
    #: What tells it from all others: the digest of its file, or the name and version of a function.
    identity: str

    #: Of the axes after the channels, if it is known: 3, or 2 for a network of slices.
    ndim: int | None = field(default=None, kw_only=True)
    #: Channels that it takes, if that is known.
    channels: int | None = field(default=None, kw_only=True)
    #: Voxels along its axes that it takes, where that is fixed.
    fixed: tuple[int | None, ...] = field(default=(), kw_only=True)
    #: What its file says of it, by the names of `beam_volumes.predict`'s parameters.
    declared: dict[str, Any] = field(default_factory=dict, kw_only=True)

    @property
    def extents(self) -> tuple[Extent, ...]:
        """Where it is stored, if it is."""
        return ()

    @property
    def accelerated(self) -> bool:
        """Whether it may compute on an accelerator."""
        return True

    @property
    def holds(self) -> str:
        """What it is called among what a process holds."""
        return self.token()

    def token(self) -> str:
        return digest(type(self).__name__, self.identity)

    def loaded(self, threads: int) -> Network:
        """The network, which a process loads once for the sweeps that use it."""
        with _lock:
            key = self.token(), threads
            if key not in _loaded:
                _loaded[key] = self._load(threads)
                hold(self.holds, self._drop)
            return _loaded[key]

    def _drop(self) -> None:
        with _lock:
            for key in [k for k in _loaded if k[0] == self.token()]:
                del _loaded[key]

    def on_trial(self) -> Network:
        """The network with one thread, for a trial: what it allocates is held no longer than it is."""
        return self.loaded(1)

    def _load(self, threads: int) -> Network:
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class Function(Model):
    """A function of the user's."""

    function: Network

    def _load(self, threads: int) -> Network:
        def call(batch: np.ndarray) -> np.ndarray:
            with calling(self.name):
                return self.function(batch)

        return call


@dataclass(frozen=True, eq=False)
class Handler(Model):
    """A `ModelHandler` of Apache Beam: it loads its model itself, and is given one example a patch."""

    handler: Any

    def _load(self, threads: int) -> Network:
        model = self.handler.load_model()

        def call(batch: np.ndarray) -> np.ndarray:
            found = self.handler.run_inference(list(batch), model)
            return np.stack([_as_array(getattr(r, "inference", r)) for r in found])

        return call


def _as_array(found: Any) -> np.ndarray:
    """What a handler gives for one example: an array, a tensor, or one of these by a name or position."""
    if isinstance(found, dict):
        found = next(iter(found.values()))
    elif isinstance(found, list | tuple) and len(found) == 1:
        found = found[0]
    if hasattr(found, "detach"):
        found = found.detach().cpu()
    return np.asarray(found)
