"""A device in host memory: it runs host kernels as twins, late, and the host cannot read its arrays."""

import sys
import threading
from collections import Counter
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest

from beam_volumes.graph.elementwise import Elementwise, Fused
from beam_volumes.kernels.cuda import TWINS, run_bytes
from beam_volumes.kernels.cuda.parts import reason_against
from beam_volumes.sweep import device
from beam_volumes.sweep.stage import Block, with_blocks
from tests.kernels import twins_on_host


class Hidden:
    """An array of the device."""

    def __init__(self, array):
        self.own = array
        self.shape, self.dtype, self.size = array.shape, array.dtype, array.size

    def reshape(self, *shape):
        return Hidden(self.own.reshape(*shape))

    def view(self, dtype):
        return Hidden(self.own.view(dtype))

    def __array__(self, *_, **__):
        raise AssertionError("the host reads device memory")


class FakeCuda:
    """Takes the place of `beam_volumes.sweep.cuda`; counts what sweeps allocate and copy."""

    def __init__(self, memory=1 << 40, count=1, fails=None, opens=True):
        self.memory, self.count, self.fails, self.opens = memory, count, fails, opens
        self.to = self.back = 0
        #: By index of a device.
        self.held, self.peaks = Counter(), Counter()
        self.launched = []
        self.lock = threading.Lock()

    def devices(self):
        return [device.DeviceInfo("fake", self.memory, self.memory, "13.0", "13.1")] * self.count

    def number(self):
        return self.count

    @property
    def peak(self):
        return max(self.peaks.values(), default=0)

    def open_device(self, index):
        if not self.opens:
            raise device.DeviceLost("the CUDA device has failed while opening the device")
        return Fake(self, index)


@contextmanager
def pretended(cuda=None):
    """Let this process have a fake device."""
    cuda = cuda or FakeCuda()
    with mock.patch.object(device, "_cuda", lambda: cuda):
        yield cuda
    assert not any(cuda.held.values())


class FakeKvikio:
    """Takes the place of the package kvikio: half of a file is read at once, the rest at the end."""

    def __init__(self, gds=True, fails=None):
        self.gds, self.fails, self.read, self.open = gds, fails, 0, 0

    @contextmanager
    def installed(self):
        driver = SimpleNamespace(get={"is_gds_available": self.gds}.__getitem__)
        module = SimpleNamespace(CuFile=partial(CuFile, self), cufile_driver=driver)
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(sys.modules, "kvikio", module)
            patch.setitem(sys.modules, "kvikio.cufile_driver", driver)
            yield self
        assert not self.open


class CuFile:
    def __init__(self, kvikio, file, flags="r"):
        self.kvikio, self.data = kvikio, np.fromfile(file, np.uint8)
        kvikio.open += 1

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kvikio.open -= 1

    def pread(self, buf, size=None, file_offset=0, task_size=None):
        array = buf.own if isinstance(buf, Hidden) else buf._ary  # of numba's simulator
        self.data = self.data[file_offset : file_offset + size]
        self.to = array.reshape(-1).view(np.uint8)[:size]
        assert self.to.size == size == self.data.size
        self.to[: size // 2] = self.data[: size // 2]
        return self

    def get(self):
        if self.kvikio.fails is not None:
            raise self.kvikio.fails
        self.to[...] = self.data
        self.kvikio.read += self.data.size
        return self.data.size


class Fake:
    name = "fake"

    def __init__(self, cuda, index):
        self.cuda, self.index, self.held, self.scratch, self.queue = cuda, index, 0, 0, []

    def empty(self, shape, dtype):
        size = int(np.prod(shape)) * dtype.itemsize
        with self.cuda.lock:
            held, peaks = self.cuda.held, self.cuda.peaks
            if held[self.index] + size > self.cuda.memory:
                raise device.OutOfDeviceMemory(f"{size} bytes are not free")
            held[self.index] += size
            self.held += size
            peaks[self.index] = max(peaks[self.index], held[self.index])
        # Uninitialized memory has any bits, except that a bool is 0 or 1.
        highest = 1 if dtype.kind == "b" else 255
        noise = np.random.default_rng(0).integers(0, highest + 1, size, np.uint8)
        return Hidden(noise.view(dtype).reshape(shape))

    def fill(self, ring, slot, value):
        ring.own[slot] = value

    def zeros(self, size):
        cells = self.empty((size,), np.dtype(np.int64))
        cells.own[...] = 0
        return cells

    def taken(self, cells):
        self.flush()
        found = cells.own.copy()
        cells.own[...] = 0
        return found

    def reserve(self, size):
        if size > self.scratch:
            self.empty((size - self.scratch,), np.dtype(np.uint8))
            self.scratch = size

    def launch(self, kernel, *arguments):
        assert kernel in {*TWINS, "pointwise.apply"}
        if self.cuda.fails is not None:
            raise self.cuda.fails
        self.cuda.launched.append(kernel)
        self.queue.append((kernel, arguments))

    def launched(self):
        return self.flush

    def runs(self, mask, links, is_joined):
        self.flush()
        size = run_bytes(mask.depth, mask.rows, mask.cols, is_joined)
        assert self.scratch >= size
        self.cuda.launched += ["labels.components.count_runs", "labels.components.find_runs"]
        rows = opened(mask).as_rows
        return twins_on_host.runs_of(rows, mask.rows, mask.cols, links, is_joined)

    def to_device(self, voxels, out):
        assert isinstance(voxels.ring, np.ndarray) and isinstance(out.ring, Hidden)
        self.cuda.to += out.depth * out.rows * out.cols * out.ring.dtype.itemsize
        self.queue.append((None, ([voxels.slice(k).copy() for k in range(voxels.depth)], out)))

    def to_host(self, voxels, out):
        assert isinstance(voxels.ring, Hidden) and isinstance(out.ring, np.ndarray)
        self.flush()
        self.cuda.back += out.depth * out.rows * out.cols * out.ring.dtype.itemsize
        for k in range(out.depth):
            out.slice(k)[...] = opened(voxels).slice(k)

    def flush(self):
        for kernel, arguments in self.queue:
            if kernel is None:
                slices, out = arguments
                for k, voxels in enumerate(slices):
                    opened(out).slice(k)[...] = voxels
            else:
                if kernel == "pointwise.apply":
                    self.compute(*arguments)
                    continue
                module, _, name = kernel.rpartition(".")
                host = getattr(twins_on_host, name, None)
                if host is None or module.split(".")[0] not in ("measure", "morphology"):
                    host = getattr(import_module(f"beam_volumes.kernels.{module}"), name)
                arguments = [a.own if isinstance(a, Hidden) else a for a in arguments]
                host(*with_blocks(arguments, lambda block: opened(block).as_rows))
        self.queue.clear()

    @staticmethod
    def compute(parts, inputs, out, y0, y1, nx, values):
        dtypes = [block.ring.dtype for block in inputs]
        assert reason_against(parts, dtypes, values) is None  # as it was planned
        stages = tuple(Elementwise("part", *of) for of in ((d, f, a) for f, d, a in parts))
        blocks = tuple(map(opened, inputs))
        Fused("chain", stages[-1].dtype, stages).run(blocks, opened(out), y0, y1, values)

    def close(self):
        with self.cuda.lock:
            self.cuda.held[self.index] -= self.held


def opened(block):
    """A block of the device as one of the host."""
    return Block(block.ring.own, *(getattr(block, f) for f in ("slots", "y", "x", "rows", "cols")))
