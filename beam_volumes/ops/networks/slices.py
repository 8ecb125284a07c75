"""Networks of slices as networks of volumes: slice by slice, or some slices as channels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from beam_volumes.ops.networks.models import Model, Network
from beam_volumes.storage.places.extent import Extent
from beam_volumes.sweep.stage import digest


@dataclass(frozen=True, eq=False)
class OfSlices(Model):
    """A network of ``(batch, c, y, x)``, given patches of a fixed number of slices: these are channels.

    Channel ``c`` of slice ``k`` is its channel ``c * slices + k``.
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
                raise ValueError(f"it made shape {made.shape}, and not (batch, c, y, x)")
            return made[:, :, None]

        return call


def of_slices(model: Model) -> OfSlices:
    """A network of slices as one of volumes."""
    return OfSlices(model.name, model.identity, model)
