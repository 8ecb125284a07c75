"""Products of spectra, and spectra of shapes, with the same bits on every processor."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from beam_volumes.kernels.elementary import functions
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


def ellipsoid_spectrum(diameters: Sequence[float], *frequencies: np.ndarray) -> np.ndarray:
    """Return the Fourier transform of an ellipsoid with 1 to 3 axes, which is 1 at frequency 0.

    >>> ellipsoid_spectrum((2, 2), np.zeros((1, 1)), np.array([[0, 0.25, 0.5]])).round(3)
    array([[1.   , 0.722, 0.181]])
    """
    angles = [np.pi * d * f for d, f in zip(diameters, frequencies, strict=True)]
    r = np.sqrt(sum(a * a for a in angles))
    if len(angles) == 2:
        # The same for all frequencies, so bits do not depend on the others.
        result = 2 * _bessel_1(r, np.pi / 2 * math.hypot(*diameters))
    else:
        result, cosines = np.empty_like(r), np.empty_like(r)
        functions.apply("sin", [r], result)
        if len(angles) == 3:
            functions.apply("cos", [r], cosines)
            result -= np.multiply(r, cosines, out=cosines)
            result *= 3 / np.maximum(r * r, np.finfo(float).tiny)
    return np.divide(result, r, out=np.ones_like(r), where=r > 0)


def _bessel_1(x: np.ndarray, limit: float) -> np.ndarray:
    """Return the Bessel function J1 of numbers from 0 to a limit, by Miller's backward recurrence.

    >>> _bessel_1(np.array([0, 0.5, 20]), 20).round(6)
    array([0.      , 0.242268, 0.066833])
    """
    double = np.divide(2.0, x, out=np.zeros_like(x), where=x > 0)
    above, own, total = np.zeros_like(x), np.full_like(x, 1e-300), np.zeros_like(x)
    # Orders above the limit decrease faster than exponentially.
    for order in range(2 * int(0.6 * limit + 20) + 1, 0, -1):
        above, own = own, order * double * own - above
        overflows = abs(own) > 1e200
        for each in (above, own, total):
            each[overflows] *= 1e-300
        if order % 2:
            total += own if order == 1 else 2 * own
    return above / np.where(total == 0, 1.0, total)
