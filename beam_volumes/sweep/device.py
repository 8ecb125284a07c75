"""Devices such as GPUs: their memory, the copies to and from it, and the stages that run there.

Each step of a program has a place, the host or the device, where its ring is. Steps with the stages
`ToDevice` and `ToHost` copy new slices between the two. They are ordinary steps without a halo, so
schedules, rings and predictions of memory need no special case.

Devices of this machine are opened by `beam_volumes.sweep.devices`. Only `beam_volumes.sweep.cuda` imports
the packages for CUDA, and `beam_volumes.sweep.direct` kvikio.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from beam_volumes.kernels.cuda import run_bytes
from beam_volumes.sweep.reduction import Reduction
from beam_volumes.sweep.stage import Block, Stage

#: The places of rings.
HOST, DEVICE = "host", "device"

#: Voxels that are folded before their state is collected, so that no cell of 64 bits overflows.
_FOLDED_VOXELS = 1 << 28

#: Slices are copied in pieces of at most these bytes, or one at a time.
_PIECE = 8 << 20

#: Larger arrays take a multiple of these bytes of a device; smaller ones share them.
_PAGE = 2 << 20

#: Bytes that a slab takes of a device in addition to its arrays: code and stacks of kernels, and
#: memory that the driver frees late. At most 51 MiB a slab were measured on an H200.
DRIVER_BYTES = 64 << 20


def allocated(size: int) -> int:
    """Bytes of a device that an array takes.

    >>> allocated(3 << 20) >> 20, allocated(1000)
    (4, 1000)
    """
    return -(-size // _PAGE) * _PAGE if size > _PAGE // 2 else size


def slices_of_piece(plane: int) -> int:
    """Slices of ``plane`` bytes that are copied to or from a device in one piece."""
    return max(1, _PIECE // max(1, plane))


class DeviceInfo(NamedTuple):
    """A device of this machine."""

    name: str
    memory: int  #: Bytes in total.
    free: int  #: Free bytes.
    cuda: str  #: Version of CUDA's runtime.
    driver: str  #: The latest version of CUDA that its driver supports.


class NoDevice(ValueError):
    """Raised if this process cannot use a device; the message is the reason."""


class OutOfDeviceMemory(MemoryError):
    """The memory of a device does not suffice."""


class DeviceLost(OSError):
    """A device does not work any more; another worker may succeed."""


class Device(Protocol):
    """The use of a device by the sweeps of one arena, one after the other.

    Calls have the effect of their order, while copies and kernels run at the same time where they can.
    """

    index: int
    name: str

    def used(self, program: Any, threads: int) -> AbstractContextManager[None]:
        """Begin a sweep of a program in this thread, and wait for its end.

        Arrays of the sweep before are invalid. Their memory is used again for the same program.
        """

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> Any:
        """Allocate an array, uninitialized. Raises OutOfDeviceMemory."""

    def fill(self, ring: Any, slot: int, value: Any) -> None:
        """Set all voxels of a slot of a ring."""

    def zeros(self, size: int) -> Any:
        """Allocate int64 cells. Raises OutOfDeviceMemory."""

    def taken(self, cells: Any) -> np.ndarray:
        """Wait for the end of all kernels, return the cells, and set them to zero."""

    def reserve(self, size: int) -> None:
        """Have scratch memory for the next launch. Raises OutOfDeviceMemory."""

    def launch(self, kernel: str, *arguments: Any) -> None:
        """Start a kernel in `beam_volumes.kernels.cuda.TWINS`, or ``pointwise.apply``.

        Blocks, also in tuples, are passed as their rows. Returns before the kernel has ended.
        """

    def launched(self) -> Callable[[], None]:
        """Return a function that waits for the end of all kernels so far."""

    def runs(self, mask: Block, links: np.ndarray, is_joined: bool) -> tuple[np.ndarray, ...]:
        """Offsets, starts and stops of a mask's runs, and the first run of each one's component.

        Arguments as for `beam_volumes.kernels.labels.components.find_runs`; waits for the end.
        """

    def to_device(self, voxels: Block, out: Block) -> None:
        """Copy a block of a host ring to a device ring; the host ring may change afterwards."""

    def to_host(self, voxels: Block, out: Block) -> None:
        """Copy a block of a device ring to a host ring, and wait for the end of the copy.

        Kernels that do not use the block may still run.
        """

    def close(self) -> None:
        """Wait for all work and free the memory. Raises nothing."""


@dataclass(frozen=True, eq=False)
class ToDevice(Stage):
    """Copies new slices to the device."""

    @property
    def cost(self) -> float:
        return 0.1 * self.dtype.itemsize

    def launch(
        self, device: Device, inputs: tuple[Block, ...], out: Block, values: tuple[Any, ...]
    ) -> None:
        device.to_device(inputs[0], out)


@dataclass(frozen=True, eq=False)
class ToHost(Stage):
    """Copies new slices from the device."""

    @property
    def cost(self) -> float:
        return 0.1 * self.dtype.itemsize

    def launch(
        self, device: Device, inputs: tuple[Block, ...], out: Block, values: tuple[Any, ...]
    ) -> None:
        device.to_host(inputs[0], out)


def is_transfer(step: Any) -> bool:
    """Whether a step copies an array between host and device."""
    return isinstance(step.stage, ToDevice | ToHost)


def name_of(step: Any) -> str:
    """The name of a step in plans; copies have the name of the copied array."""
    if not is_transfer(step):
        return str(step.name)
    return f"copy {step.name} {'to' if step.place == DEVICE else 'from'} the device"


class Launched:
    """The work of a stage on a device, in whole blocks instead of strips of threads."""

    def __init__(self, stage: Stage, device: Device):
        self.stage, self.device = stage, device

    def run(
        self, inputs: tuple[Block, ...], out: Block, values: tuple[Any, ...], threads: int
    ) -> None:
        self.device.reserve(self.stage.device_scratch(out.rows, out.cols, out.depth))
        self.stage.launch(self.device, inputs, out, values)


class FoldedThere:
    """The state of a reduction on a device, window by window."""

    def __init__(self, reduction: Reduction, device: Device, values: tuple[Any, ...]):
        self.reduction, self.device, self.values = reduction, device, values
        self.state, self._voxels = reduction.zero(), 0
        self._cells = device.zeros(reduction.cells)

    def feed(self, voxels: Block, mask: Block | None) -> None:
        plane = voxels.rows * voxels.cols
        for k in range(0, voxels.depth, step := max(1, _FOLDED_VOXELS // plane)):
            if self._voxels > _FOLDED_VOXELS:
                self.collect()
            part = slice(k, k + step)
            blocks = [b and replace(b, slots=b.slots[part]) for b in (voxels, mask)]
            more = self.reduction.device_parameters(self.values)
            size = voxels.rows, voxels.cols
            self.device.launch(self.reduction.kernel_name, *blocks, *size, self._cells, *more)
            self._voxels += plane * len(voxels.slots[part])

    def collect(self) -> Any:
        """The state of all voxels so far."""
        found = self.reduction.of_cells(self.device.taken(self._cells), self.values)
        self.state, self._voxels = self.reduction.merge(self.state, found), 0
        return self.state


class MaskThere:
    """A block of a device as the mask of a survey or completion, without a copy on the host."""

    def __init__(self, block: Block, device: Device):
        self.block, self.device = block, device
        self.shape = block.depth, block.rows, block.cols

    def runs(self, links: np.ndarray, is_joined: bool) -> tuple[np.ndarray, ...]:
        """See `Device.runs`."""
        self.device.reserve(run_bytes(*self.shape, is_joined))
        return self.device.runs(self.block, links, is_joined)
