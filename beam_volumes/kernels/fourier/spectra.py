"""Products of spectra. numpy's products of complex numbers depend on the processor."""

from __future__ import annotations

from beam_volumes.kernels.jit import kernel


@kernel
def multiply(spectrum, factor, sign):
    """Multiply complex numbers in place, for a ``sign`` of -1 by the conjugates of the factors.

    Both arrays are flat, with real and imaginary parts in turns.
    """
    for i in range(0, spectrum.size, 2):
        a, b = spectrum[i], spectrum[i + 1]
        c, d = factor[i], sign * factor[i + 1]
        spectrum[i] = a * c - b * d
        spectrum[i + 1] = a * d + b * c
