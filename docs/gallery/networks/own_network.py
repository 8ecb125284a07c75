"""Run a network over a large volume

A network processes patches that fit in its memory. `predict` divides the volume into patches and
assembles the results. With the right `context`, there is no seam between patches.
"""

import numpy as np
from scipy import ndimage

import beam_volumes as bv


# %%
# This function replaces a network: it accepts float32 arrays with the axes batch, c, z, y, x. For a
# real network, pass the path of an ONNX or TorchScript file. The function detects tissue that is
# darker than its surroundings of 9 x 9 x 9 voxels.
def network(batch):
    """Membranes: darker than the mean of their surroundings."""
    around = ndimage.uniform_filter(batch, (1, 1, 9, 9, 9), mode="constant")
    return 1 / (1 + np.exp((batch - around) * 20))


# %%
# The stack shows cells with dark membranes.
rng = np.random.default_rng(0)
texture = ndimage.gaussian_filter(rng.normal(size=(24, 112, 144)), 4)
tissue = np.where(np.abs(texture) < 0.2 * texture.std(), 80, 160) + rng.normal(0, 10, texture.shape)
stack = bv.open(tissue.clip(0, 255).astype("u1"))
bv.preview(stack)

# %%
# `normalize` maps intensities to the range that the network was trained with. Without a context,
# results are wrong near the edges of patches, which gives a grid of seams.
options = {"patch": (24, 48, 48), "normalize": (0, 255), "name": "membranes", "version": 1}
seams = bv.predict(stack, network, context=0, **options)
bv.preview(seams)

# %%
# `context` is the distance up to which voxels affect the result, here 4 voxels. Patches are
# enlarged by this much on all sides, and their results are cropped.
membranes = bv.predict(stack, network, context=4, **options)
bv.preview(membranes)

# %%
# `probe_model` measures the context of an undocumented network.
found = bv.probe_model(network, 24)
print("context", found.context)
assert found.context == ((4, 4),) * 3

# %%
# With the context, the result does not depend on the size of patches.
larger = bv.predict(stack, network, context=4, **{**options, "patch": (24, 72, 80)})
differences = [float(bv.max(bv.abs(membranes - other))) for other in (larger, seams)]
print("difference to larger patches {:.0e}, to patches without context {:.2f}".format(*differences))
assert differences[0] < 1e-6 and differences[1] > 0.1
