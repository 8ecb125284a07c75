"""A device in host memory, of which the host cannot read the arrays, driven by our own code for CUDA.

It executes host kernels as twins. Kernels and copies wait in queues until something waits for their end, or
a random number of them is executed. The streams take turns at random, as far as their events allow. So
a wait that is missing gives other bits.
"""

import sys
import threading
import weakref
from collections import Counter, deque
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest

from beam_volumes.graph.elementwise import Elementwise, Fused
from beam_volumes.kernels.cuda import TWINS, launching, run_bytes
from beam_volumes.kernels.cuda.parts import reason_against
from beam_volumes.sweep import cuda as own_cuda
from beam_volumes.sweep import device, devices
from beam_volumes.sweep.resources import gate
from beam_volumes.sweep.stage import Block, with_blocks
from tests.kernels import twins_on_host
from tests.kernels.rings import with_scratch

STREAMS = "incoming", "computing", "outgoing"


class Hidden:
    """An array of the device; ``memory`` is its allocation."""

    def __init__(self, array, driver, memory):
        self.own, self.driver, self.memory = array, driver, memory
        self.shape, self.dtype, self.size = array.shape, array.dtype, array.size

    def _of(self, array):
        return Hidden(array, self.driver, self.memory)

    def __len__(self):
        return self.shape[0]

    def __getitem__(self, at):
        return self._of(self.own[at])

    def reshape(self, *shape):
        return self._of(self.own.reshape(*shape))

    def view(self, dtype):
        return self._of(self.own.view(dtype))

    def __array__(self, *_, **__):
        raise AssertionError("the host reads device memory")

    def copy_to_device(self, array, stream=0):
        # The driver copies memory that is not pinned before it returns.
        array = array if isinstance(array, Pinned) else array.copy()
        self.driver.start(stream, partial(np.copyto, self.own, array))

    def copy_to_host(self, array=None, stream=0):
        array = noise(self.shape, self.dtype) if array is None else array
        assert stream or not isinstance(array, Pinned)
        self.driver.start(stream, partial(np.copyto, array, self.own))
        return array


class Pinned(np.ndarray):
    """Memory of the host that copies use later."""


def noise(shape, dtype):
    """Uninitialized memory: any bits, except that a bool is 0 or 1."""
    highest = 1 if dtype.kind == "b" else 255
    size = int(np.prod(shape)) * dtype.itemsize
    found = np.random.default_rng(0).integers(0, highest + 1, size, np.uint8)
    return found.view(dtype).reshape(shape)


class Stream:
    name = ""

    def __init__(self, driver):
        self.driver, self.queue = driver, deque()
        driver.streams.add(self)

    def synchronize(self):
        if self.driver.cuda.missing != ("end of", self.name):
            self.driver.execute(lambda: not self.queue)


class Event:
    """Counts its records; a command in a stream waits for one of them."""

    def __init__(self, driver):
        self.driver, self.recorded, self.reached, self.name = driver, 0, 0, ""

    def record(self, stream):
        self.recorded, self.name = self.recorded + 1, stream.name
        self.driver.start(stream, partial(setattr, self, "reached", self.recorded))

    def wait(self, stream):
        if self.driver.cuda.missing != ("in", stream.name):
            self.driver.start(stream, None, self.is_reached(self.recorded))

    def synchronize(self):
        if self.driver.cuda.missing != ("on the host for", self.name):
            self.driver.execute(self.is_reached(self.recorded))

    def is_reached(self, count):
        return lambda: self.reached >= count


class FakeDriver:
    """Takes the place of `numba.cuda`."""

    def __init__(self, cuda, seed):
        self.cuda, self.lock, self.streams = cuda, threading.RLock(), weakref.WeakSet()
        self.random = np.random.default_rng(seed)
        #: The stream that does nothing while others can, and the share of commands executed early.
        self.slow = ("", *STREAMS)[seed % 4]
        self.early = self.random.choice([0, 0.3, 1])
        self.here = threading.local()
        self.gpus = [Gpu(self, index) for index in range(cuda.count)]

    def current_context(self):
        return SimpleNamespace(deallocations=set())

    def stream(self):
        return Stream(self)

    def event(self):
        return Event(self)

    def pinned_array(self, size, dtype):
        return noise((size,), np.dtype(dtype)).view(Pinned)

    def to_device(self, array, stream=0):
        made = Hidden(np.empty_like(array), self, None)
        made.copy_to_device(array, stream)
        return made

    def device_array(self, shape, dtype, stream=0):
        dtype = np.dtype(dtype)
        shape = shape if isinstance(shape, tuple) else (shape,)
        memory = self.cuda.allocated(self.here.index, int(np.prod(shape)) * dtype.itemsize)
        self.here.used.allocations.add(memory)
        return Hidden(noise(shape, dtype), self, memory)

    def start(self, stream, command, is_ready=lambda: True):
        with self.lock:
            if not stream:  # the default stream waits for all others, and the host for it
                self.execute(lambda: not any(s.queue for s in self.streams))
                command()
                return
            stream.queue.append((command, is_ready))
            for _ in range(int(self.random.integers(8) * self.early)):
                self.step()

    def execute(self, until):
        is_done = False
        while not is_done:
            with self.lock:
                is_done = until() or not self.step()
        assert until(), "streams wait for each other"

    def step(self):
        """Execute a command of any stream; return whether there was one."""
        with self.lock:
            ready = [s for s in self.streams if s.queue and s.queue[0][1]()]
            if ready:
                ready = [s for s in ready if s.name != self.slow] or ready
                ready.sort(key=id)
                command, _ = ready[self.random.integers(len(ready))].queue.popleft()
                if command is not None:
                    command()
            return bool(ready)


class Gpu:
    """A device as a context: the current one of a thread."""

    def __init__(self, driver, index):
        self.here, self.index = driver.here, index

    def __enter__(self):
        self.here.index = self.index

    def __exit__(self, *_):
        self.here.index = None


class Allocated:
    """Bytes of a device, until nothing uses them or the device is closed."""

    def __init__(self, cuda, index, size):
        self.free = weakref.finalize(self, cuda.freed, index, size)


class FakeCuda:
    """Takes the place of `beam_volumes.sweep.cuda`; counts what sweeps allocate and copy.

    ``missing``: waits that are left out, by their kind and the name of a stream.
    """

    def __init__(self, memory=1 << 40, count=1, fails=None, opens=True, seed=0, missing=None):
        self.missing = missing
        self.memory, self.count, self.fails, self.opens = memory, count, fails, opens
        self.to = self.back = 0
        #: By index of a device.
        self.held, self.peaks, self.opened = Counter(), Counter(), Counter()
        self.launched = []
        self.allocated_arrays = 0
        #: For each copy to the host, the commands for kernels that were not executed at its end.
        self.unfinished = []
        self.lock = threading.RLock()
        self.driver = FakeDriver(self, seed)

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
        self.opened[index] += 1
        return Fake(self, index)

    def allocated(self, index, size):
        with self.lock:
            if self.held[index] + size > self.memory:
                raise device.OutOfDeviceMemory(f"{size} bytes are not free")
            self.held[index] += size
            self.allocated_arrays += 1
            self.peaks[index] = max(self.peaks[index], self.held[index])
            return Allocated(self, index, size)

    def freed(self, index, size):
        with self.lock:
            self.held[index] -= size


@contextmanager
def pretended(cuda=None):
    """Let this process have a fake device."""
    cuda = cuda or FakeCuda()
    gate.release()
    with (
        mock.patch.object(devices, "_cuda", lambda: cuda),
        mock.patch.multiple(own_cuda, cuda=cuda.driver, twin=lambda kernel: partial(run, kernel)),
        mock.patch.object(launching, "cuda", cuda.driver),
    ):
        yield cuda
        gate.release()
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


class Fake(own_cuda.Cuda):
    def __init__(self, cuda, index):
        self.cuda, self.allocations = cuda, weakref.WeakSet()
        super().__init__(index)
        for name in STREAMS:
            getattr(self, name).name = name

    def used(self, program=None, threads=1):
        self.cuda.driver.here.used = self
        return super().used(program, threads)

    def close(self):
        super().close()
        for allocation in self.allocations:  # an error that a test holds keeps its sweep
            allocation.free()

    def _rows(self, block):
        return block

    def launch(self, kernel, *arguments):
        assert kernel in {*TWINS, "pointwise.apply"}
        if self.cuda.fails is not None:
            raise self.cuda.fails
        self.cuda.launched.append(kernel)
        super().launch(kernel, *arguments)

    def runs(self, mask, links, is_joined):
        self.computing.synchronize()
        size = run_bytes(mask.depth, mask.rows, mask.cols, is_joined)
        assert self._scratch._memory.size >= size
        self.cuda.launched += ["labels.components.count_runs", "labels.components.find_runs"]
        rows = opened(mask).as_rows
        return twins_on_host.runs_of(rows, mask.rows, mask.cols, links, is_joined)

    def to_device(self, voxels, out):
        assert isinstance(voxels.ring, np.ndarray) and isinstance(out.ring, Hidden)
        self.cuda.to += out.depth * out.rows * out.cols * out.ring.dtype.itemsize
        super().to_device(voxels, out)

    def to_host(self, voxels, out):
        assert isinstance(voxels.ring, Hidden) and isinstance(out.ring, np.ndarray)
        self.cuda.back += out.depth * out.rows * out.cols * out.ring.dtype.itemsize
        super().to_host(voxels, out)
        self.cuda.unfinished.append(len(self.computing.queue))


def run(kernel, *arguments, stream):
    """Start a host kernel as its twin."""
    if kernel == "pointwise.apply":
        stream.driver.start(stream, partial(compute, *arguments))
        return
    module, _, name = kernel.rpartition(".")
    host = getattr(twins_on_host, name, None)
    if host is None or module.split(".")[0] not in ("measure", "morphology"):
        host = getattr(import_module(f"beam_volumes.kernels.{module}"), name)
    arguments = [a.own if isinstance(a, Hidden) else a for a in arguments]
    arguments = with_blocks(arguments, lambda block: opened(block).as_rows)
    stream.driver.start(stream, partial(host, *with_scratch(host, arguments)))


def compute(parts, inputs, out, y0, y1, nx, values):
    dtypes = [block.ring.dtype for block in inputs]
    assert reason_against(parts, dtypes, values) is None  # as it was planned
    stages = tuple(Elementwise("part", *of) for of in ((d, f, a) for f, d, a in parts))
    blocks = tuple(map(opened, inputs))
    Fused("chain", stages[-1].dtype, stages).run(blocks, opened(out), y0, y1, values)


def opened(block):
    """A block of the device as one of the host."""
    return Block(block.ring.own, *(getattr(block, f) for f in ("slots", "y", "x", "rows", "cols")))
