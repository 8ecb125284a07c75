"""Networks from users: a path, a function, or a model handler of Apache Beam."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from beam_volumes.ops.networks.models import Function, Handler, Model, Network
from beam_volumes.ops.networks.onnx_files import onnx_file
from beam_volumes.ops.networks.torch_files import torch_file
from beam_volumes.storage.places.extent import Extent
from beam_volumes.sweep.stage import digest, identity

#: Functions that open files, by file extension.
FILES = {".onnx": onnx_file, ".pt": torch_file, ".pt2": torch_file}


def model_of(
    given: Any, function: str, device: str, name: str | None, version: str | int | None
) -> Model:
    """The network for a user's model argument."""
    if isinstance(given, Model):
        return given
    if isinstance(given, str | os.PathLike):
        return _of_file(os.fspath(given), function, device)
    if hasattr(given, "load_model") and hasattr(given, "run_inference"):
        called = name or type(given).__name__
        return Handler(called, identity(name, version), given)
    if callable(given):
        called = name or str(getattr(given, "__name__", type(given).__name__))
        return Function(called, identity(name, version), given)
    raise TypeError(
        f"{function}: model={given!r} is not a path of a file, a ModelHandler, or a function of an array "
        "(batch, c, z, y, x)"
    )


def _of_file(path: str, function: str, device: str) -> Model:
    ending = os.path.splitext(path.lower())[1]
    if ending not in FILES:
        raise ValueError(
            f"{function}: model={path!r}: use a path of an .onnx, TorchScript (.pt) or torch.export (.pt2) "
            "file; export the network to one of them, or give a function that calls it"
        )
    return FILES[ending](path, function, device)


@dataclass(frozen=True, eq=False)
class OfSlices(Model):
    """A network of ``(batch, c, y, x)`` for patches with a fixed number of slices as channels.

    Channel ``c`` of slice ``k`` is the network's channel ``c * slices + k``.
    """

    network: Model

    @property
    def accelerated(self) -> bool:
        return self.network.accelerated

    @property
    def holds(self) -> str:
        return self.network.holds

    @property
    def extents(self) -> tuple[Extent, ...]:
        return self.network.extents

    def token(self) -> str:
        return digest("OfSlices", self.network)

    def loaded(self, threads: int) -> Network:
        return self._of_planes(self.network.loaded(threads))

    def on_trial(self) -> Network:
        return self._of_planes(self.network.on_trial())

    def _of_planes(self, plane: Network) -> Network:
        def call(batch: np.ndarray) -> np.ndarray:
            n, c, z, y, x = batch.shape
            made = np.asarray(plane(batch.reshape(n, c * z, y, x)))
            if made.ndim != 4:
                raise ValueError(f"it returned shape {made.shape} instead of (batch, c, y, x)")
            return made[:, :, None]

        return call


def of_slices(model: Model) -> OfSlices:
    """Wrap a network of slices as one of volumes."""
    return OfSlices(model.name, model.identity, model, on_gpu=model.on_gpu)
