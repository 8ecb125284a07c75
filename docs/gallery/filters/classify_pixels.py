"""Classify pixels from scribbles

`features` describes the surroundings of each voxel at several scales. `pixel_classifier` learns
from a few painted voxels which features belong to which class, and `classify` predicts the class of
all others. Use it if no threshold separates the textures.
"""

import numpy as np

import beam_volumes as bv

# %%
# Smooth blobs between grains of the same mean intensity.
rng = np.random.default_rng(4)
shape = (16, 128, 160)
waves = np.asarray(bv.gaussian_filter(rng.normal(size=shape), 9))
inside = waves > 0
image = 128 + np.where(inside, rng.normal(0, 6, shape), rng.normal(0, 30, shape))
stack = bv.open(image.clip(0, 255).astype("u1"))
bv.preview(stack)

# %%
# Four strokes on one slice: 2 is blobs, 1 is grains, and 0 is unknown. You can paint such labels in
# napari.
scribbles = np.zeros(shape, "u1")
stroke = np.zeros(shape, bool)
stroke[8, 10:118, ::40] = True
scribbles[stroke] = np.where(inside, 2, 1)[stroke]
print(f"{(scribbles > 0).mean():.2%} of the voxels are labelled")

# %%
# Train a forest on the features of these voxels, and apply it to all.
found = bv.features(stack, [1, 2, 4], structure=True)
trained = bv.pixel_classifier(found, scribbles)
classes = bv.classify(found, trained)
bv.preview(classes)

# %%
# How many voxels have the right class?
right = (np.asarray(classes) == np.where(inside, 2, 1)).mean()
print(f"{right:.0%}")
assert right > 0.9

# %%
# The share of trees that vote for the second class shows where more strokes would help.
bv.preview(bv.classify(found, trained, probabilities=True).sel(c="class 2"))
