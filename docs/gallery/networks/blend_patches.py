"""Blend overlapping patches

A network that normalises each patch by its own mean leaves seams, even with a wide context.
Weighted averages of overlapping patches soften the seams.
"""

import numpy as np
from scipy import ndimage

import beam_volumes as bv


# %%
# This function replaces a network with instance normalisation. For a real network, pass the path of
# an ONNX file.
def network(batch):
    """Intensities relative to the mean and the deviation of their patch."""
    mean = batch.mean(axis=(1, 2, 3, 4), keepdims=True)
    return (batch - mean) / batch.std(axis=(1, 2, 3, 4), keepdims=True).clip(1e-6)


# %%
# The brightness of the stack varies from corner to corner, and so do the means of patches.
rng = np.random.default_rng(1)
z, y, x = np.mgrid[:16, :120, :152]
texture = ndimage.gaussian_filter(rng.normal(size=z.shape), 2)
stack = bv.open((100 + y / 2 + x / 2 + 20 * texture / texture.std()).astype("f4"))
bv.preview(stack)

# %%
# Patches that do not overlap show their edges.
options = {"mode": "blend", "patch": (16, 40, 40), "name": "normalised", "version": 1}
tiled = bv.predict(stack, network, overlap=0, **options)
bv.preview(tiled)

# %%
# `overlap` is the number of voxels that two patches share. The default is half a patch.
blended = bv.predict(stack, network, overlap=(0, 20, 20), **options)
bv.preview(blended)

# %%
# `blend` selects the weights. Uniform weights leave steps where a patch begins or ends.
even = bv.predict(stack, network, overlap=(0, 20, 20), blend="none", **options)
bv.preview(even)


# %%
# Compare the largest step between neighbouring columns of the mean along z and y.
def largest_step(volume):
    """How large the largest step of the profile along x is."""
    return float(np.abs(np.diff(np.asarray(bv.mean(volume[0], axis=("z", "y"))))).max())


steps = {"no overlap": tiled, "bump": blended, "even": even}
steps = {name: largest_step(volume) for name, volume in steps.items()}
print({name: round(value, 2) for name, value in steps.items()})
assert steps["bump"] < steps["even"] < steps["no overlap"]
