"""Remove the blur of an instrument

`richardson_lucy` iteratively reverses the blur of a known point spread function, and keeps
intensities positive. `wiener` needs only one step.
"""

import numpy as np
from scipy import ndimage

import beam_volumes as bv

# %%
# Beads, blurred more along z than in the plane, with photon noise.
rng = np.random.default_rng(3)
beads = np.zeros((12, 64, 96))
beads[tuple(rng.integers(2, n - 2, 40) for n in beads.shape)] = 3000
blurred = ndimage.gaussian_filter(beads, (1.5, 2, 2))
stack = bv.open(rng.poisson(blurred + 5).astype("u2"))
bv.preview(stack)

# %%
# The point spread function is measured from a bead, or modelled.
psf = bv.gaussian_psf((1.5, 2, 2))
sharp = bv.richardson_lucy(stack, psf, 10)
bv.preview(sharp)

# %%
bv.preview(bv.wiener(stack, psf, balance=0.05))

# %%
# The result is closer to the beads. Compare the correlations before and after.
found = [float(np.corrcoef(np.asarray(v).ravel(), beads.ravel())[0, 1]) for v in (stack, sharp)]
print("correlation with the beads:", *(f"{c:.2f}" for c in found))
assert found[1] > 1.5 * found[0]
