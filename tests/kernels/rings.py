"""Runs a neighbourhood kernel as the sweep does: on shuffled rings, cut up at random."""

import itertools
import math

import numpy as np

from beam_volumes.kernels.rows import Rows, rows_of
from beam_volumes.kernels.scratch import arrays

#: Bytes around each array of a scratch: a kernel that writes beyond an array changes them.
MARGIN = 1 << 14
DTYPES = ["?", "u1", "u2", "i4", "i8", "f4", "f8"]
NUMPY_MODES = {
    "reflect": "symmetric",
    "mirror": "reflect",
    "nearest": "edge",
    "constant": "constant",
}


def random_volume(rng, shape, dtype):
    dtype = np.dtype(dtype)
    if dtype.kind == "f":
        return rng.normal(0, 100, shape).astype(dtype)
    if dtype.kind == "b":
        return rng.random(shape) < 0.3
    info = np.iinfo(dtype)
    values = rng.integers(info.min, info.max, 99, dtype, endpoint=True)  # few: there are ties
    if info.bits > 32:
        values >>= 12  # what float64 holds, since scipy computes in it
    return rng.choice(values, shape)


def with_nans(rng, volume, share=0.01):
    volume = volume.copy()
    volume[rng.random(volume.shape) < share] = np.nan
    return volume


def ball(radius):
    z, y, x = np.ogrid[(slice(-radius, radius + 1),) * 3]
    return z * z + y * y + x * x <= radius * radius


def centre(shape):
    """How many taps lie before the voxel, as scipy has it."""
    return tuple(n // 2 for n in shape)


def cuts(rng, n):
    """``range(n)`` in random pieces, in random order."""
    edges = [0, *sorted({int(e) for e in rng.integers(1, n + 1, 2)} - {n}), n]
    pieces = list(itertools.pairwise(edges))
    return [pieces[i] for i in rng.permutation(len(pieces))]


def into_ring(rng, array):
    """A ring with ``array`` somewhere in it among garbage: ring, slots, first row, first column."""
    before, after = rng.integers(0, 4, 3), rng.integers(0, 4, 3)
    ring = random_volume(rng, tuple(np.add(array.shape, before + after)), array.dtype)
    slots = rng.permutation(len(ring))[: len(array)]
    y, x = int(before[1]), int(before[2])
    ring[slots, y : y + array.shape[1], x : x + array.shape[2]] = array
    return ring, slots, y, x


def scratch_of(kernel, shape, dtype, parameters):
    """The last argument of a kernel, or nothing for a kernel without scratch."""
    needed = getattr(kernel, "scratch", None)
    return [arrays(needed(*shape, dtype, *parameters))] if needed else []


def guarded(rng, scratch):
    """Arrays of a scratch with random bytes in them, and the random bytes before and after each."""
    whole, margins = [], []
    for shape, dtype in scratch:
        size = math.prod(shape) * np.dtype(dtype).itemsize
        garbage = rng.integers(0, 256, size + 2 * MARGIN, np.uint8)
        whole.append(garbage[MARGIN : MARGIN + size].view(dtype).reshape(shape))
        margins += garbage[:MARGIN], garbage[MARGIN + size :]
    return tuple(whole), margins


def with_scratch(kernel, arguments):
    """Arguments of a kernel with any number of inputs and its parameters, and its scratch."""
    if not hasattr(kernel, "scratch"):
        return arguments
    last = max(i for i, a in enumerate(arguments) if isinstance(a, Rows))
    out, y0, y1, nx, *parameters = arguments[last:]
    shape = y1 - y0, nx, len(out.firsts)
    return *arguments, *scratch_of(kernel, shape, out.lines.dtype, parameters)


def apply(kernel, volume, before, taps, *parameters, mode="reflect", cval=0, dtype=None, seed=0):
    """The kernel's result for a whole volume; asserts that cutting it up changes no bit.

    Asserts as well that the kernel leaves its input, its output ring elsewhere, and the memory around
    its scratch as they were, and that no result depends on the first content of its scratch.
    """
    rng = np.random.default_rng(seed)
    # As stages have them: of other layouts a kernel would be compiled again.
    parameters = [np.ascontiguousarray(p) if isinstance(p, np.ndarray) else p for p in parameters]
    pad = [(b, n - 1 - b) for b, n in zip(before, taps, strict=True)]
    options = {"constant_values": cval} if mode == "constant" else {}
    padded = np.pad(volume, pad, NUMPY_MODES[mode], **options)
    nz, ny, nx = volume.shape
    results = []
    for whole in (True, False):
        src, iz, oy, ox = into_ring(rng, padded)
        guard, jz, qy, qx = into_ring(rng, np.zeros(volume.shape, dtype or volume.dtype))
        out, kept = guard.copy(), src.copy()
        for z0, z1 in [(0, nz)] if whole else cuts(rng, nz):
            for x0, x1 in [(0, nx)] if whole else cuts(rng, nx):
                for y0, y1 in [(0, ny)] if whole else cuts(rng, ny):
                    taken, made = iz[z0 : z1 + taps[0] - 1], jz[z0:z1]
                    rows = rows_of(src, taken, oy, ox + x0), rows_of(out, made, qy, qx + x0)
                    needed = getattr(kernel, "scratch", lambda *_: ())
                    shape = y1 - y0, x1 - x0, z1 - z0
                    scratch, margins = guarded(rng, needed(*shape, out.dtype, *parameters))
                    given = [margin.tobytes() for margin in margins]
                    kernel(*rows, y0, y1, x1 - x0, *parameters, *([scratch] if scratch else []))
                    assert [margin.tobytes() for margin in margins] == given, "beyond its scratch"
        box = (slice(qy, qy + ny), slice(qx, qx + nx))
        results.append(out[(jz, *box)])
        guard[(jz, *box)] = results[-1]
        assert guard.tobytes() == out.tobytes(), "written outside"
        assert src.tobytes() == kept.tobytes(), "input changed"
    assert results[0].tobytes() == results[1].tobytes(), "depends on how it is cut up"
    return results[0]
