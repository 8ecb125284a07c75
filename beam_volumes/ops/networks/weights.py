"""How patches that overlap are weighed: along each axis by itself, so that sums over patches are 1."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from beam_volumes.kernels.elementary.exp_log import exp_value, few

#: Ways to weigh the voxels of a patch.
BLENDS = ("bump", "gaussian", "linear", "none")


def profile(blend: str, n: int) -> np.ndarray:
    """The weights of ``n`` voxels along an axis, before they are normalised.

    ``"bump"`` is chunkflow's ``exp(-1 / (t (1 - t)))``, ``"gaussian"`` nnU-Net's with a standard deviation
    of an eighth of the patch, ``"linear"`` rises from each end to the middle, ``"none"`` is even.

    >>> profile("linear", 5).tolist()
    [1.0, 2.0, 3.0, 2.0, 1.0]
    """
    i = np.arange(n, dtype=np.float64)
    if blend == "bump":
        t = (i + 1) / (n + 1)
        return np.array(few(exp_value, [4 - 1 / (a * (1 - a)) for a in t.tolist()]))
    if blend == "gaussian":
        u = (i - (n - 1) / 2) / (n / 8)
        return np.array(few(exp_value, [-0.5 * a * a for a in u.tolist()]))
    if blend == "linear":
        return np.minimum(i + 1, n - i)
    return np.ones(n)


@lru_cache(1024)
def weights(blend: str, n: int, step: int, k: int, count: int) -> np.ndarray:
    """The weights of patch ``k`` of ``count``: those of all patches that make a voxel add up to 1.

    >>> weights("linear", 4, 2, 0, 2).tolist(), weights("linear", 4, 2, 1, 2).tolist()
    ([1.0, 1.0, 0.6666666666666666, 0.3333333333333333], [0.3333333333333333, 0.6666666666666666, 1.0, 1.0])
    """
    own = profile(blend, n)
    total = np.zeros(n)
    reach = (n - 1) // step
    for other in range(max(0, k - reach), min(count, k + reach + 1)):
        shift = (other - k) * step
        a, b = max(0, shift), min(n, n + shift)
        total[a:b] += own[a - shift : b - shift]
    result = own / total
    result.flags.writeable = False
    return result
