"""Networks as seen by sweeps: their identity, and loading once per process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from beam_volumes.base.nesting import calling
from beam_volumes.storage.places.extent import Extent
from beam_volumes.sweep.resources import hold
from beam_volumes.sweep.stage import digest

#: A loaded network: maps arrays with the axes batch, c, (z,) y, x to such arrays.
Network = Callable[[np.ndarray], np.ndarray]

_lock = threading.Lock()
_loaded: dict[tuple[str, int], Network] = {}


@dataclass(frozen=True, eq=False)
class Model:
    """A network that a process can load."""

    name: str  #: The name in messages.
    #: Identifies the network: the digest of its file, or the name and version of a function.
    identity: str

    #: Number of axes after the channels, if known: 3, or 2 for a network of slices.
    ndim: int | None = field(default=None, kw_only=True)
    #: Number of input channels, if known.
    channels: int | None = field(default=None, kw_only=True)
    #: Fixed input extents along its axes.
    fixed: tuple[int | None, ...] = field(default=(), kw_only=True)
    #: Whether it runs on CUDA, as far as the machine that opens it shows.
    on_gpu: bool = field(default=False, kw_only=True)
    #: Metadata of its file, by the names of `beam_volumes.predict`'s parameters.
    declared: dict[str, Any] = field(default_factory=dict, kw_only=True)

    #: Dtype of its inputs.
    takes: ClassVar[np.dtype] = np.dtype(np.float32)
    #: Whether it runs a kernel that is compiled for its dtype.
    compiled: ClassVar[bool] = False

    @property
    def extents(self) -> tuple[Extent, ...]:
        """The storage that it is read from."""
        return ()

    @property
    def accelerated(self) -> bool:
        """Whether it may use an accelerator."""
        return True

    @property
    def holds(self) -> str:
        """The key of the object that a process keeps."""
        return self.token()

    def token(self) -> str:
        return digest(type(self).__name__, self.identity)

    def loaded(self, threads: int) -> Network:
        """The network, loaded once per process for the sweeps that use it."""
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
        """The network with one thread for a trial; its memory is released with it."""
        return self.loaded(1)

    def _load(self, threads: int) -> Network:
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class Function(Model):
    """A user's function."""

    function: Network

    def _load(self, threads: int) -> Network:
        def call(batch: np.ndarray) -> np.ndarray:
            with calling(self.name):
                return self.function(batch)

        return call


@dataclass(frozen=True, eq=False)
class Handler(Model):
    """A `ModelHandler` of Apache Beam, which loads its model and gets one example per patch."""

    handler: Any

    def _load(self, threads: int) -> Network:
        model = self.handler.load_model()

        def call(batch: np.ndarray) -> np.ndarray:
            found = self.handler.run_inference(list(batch), model)
            return np.stack([_as_array(getattr(r, "inference", r)) for r in found])

        return call


def _as_array(found: Any) -> np.ndarray:
    """The array in a handler's result for one example: an array, a tensor, or a container of these."""
    if isinstance(found, dict):
        found = next(iter(found.values()))
    elif isinstance(found, list | tuple) and len(found) == 1:
        found = found[0]
    if hasattr(found, "detach"):
        found = found.detach().cpu()
    return np.asarray(found)
