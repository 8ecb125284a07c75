"""64-bit digests of voxels: sums over rows, so digests of parts of a block add up.

They show whether a second read or a repeated operation yields the same voxels. They are not cryptographic.
"""

from __future__ import annotations

import numpy as np

from beam_volumes.kernels.jit import kernel, row_kernel
from beam_volumes.kernels.rows import strided
from beam_volumes.kernels.scratch import Scratch, arrays


@row_kernel
def mixed(word):
    """Mix the bits of a 64-bit word, bijectively (D. Stafford's 13th variant)."""
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


def scratch(cols: int, dtype: np.dtype) -> Scratch:
    """The factors of a row's words, and of its remaining voxels."""
    per_word = 8 // np.dtype(dtype).itemsize
    return (((cols // per_word + per_word,), np.uint64),)


def digest(block: np.ndarray, y0: int, y1: int, first: int = 0) -> int:
    """The digest of rows ``y0:y1`` of a block (slices, rows, columns); strips add up modulo 2**64.

    The block's rows are numbered from ``first``.
    """
    bits = block.view(f"u{block.itemsize}")
    (factors,) = arrays(scratch(bits.shape[2], bits.dtype))
    return int(_digest(strided(bits), bits.shape, y0, y1, first, factors))


@kernel
def _digest(bits, shape, y0, y1, first, factors):
    flat, step_z, step_y = bits
    nz, ny, nx = shape
    per_word = 8 // flat.itemsize
    words = nx // per_word
    # Odd factors, so every change of a single word changes the digest.
    for i in range(factors.size):
        factors[i] = mixed(np.uint64(i)) | np.uint64(1)
    total = np.uint64(0)
    for z in range(nz):
        for y in range(y0, y1):
            at = z * step_z + y * step_y
            row = flat[at : at + words * per_word].view(np.uint64)
            found = np.uint64(0)
            for i in range(words):
                # Bijective. Floats differ in their high bits, which a product alone would shift out.
                found += factors[i] * (row[i] ^ (row[i] >> np.uint64(32)))
            for i in range(nx - words * per_word):
                found += factors[words + i] * np.uint64(flat[at + words * per_word + i])
            total += mixed(mixed(found) + np.uint64(first + z * ny + y))
    return total
