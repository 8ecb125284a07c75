"""Compare two images

How well does a filter restore an image? Metrics compare the result with the truth: the mean squared
error, the peak signal-to-noise ratio and the structural similarity.
"""

import numpy as np
from scipy import ndimage

import beam_volumes as bv

# %%
# Blobs with values from 0 to 1, and the same with noise.
rng = np.random.default_rng(1)
blobs = ndimage.gaussian_filter(rng.normal(size=(24, 112, 144)), 4)
truth = bv.open(((blobs - blobs.min()) / np.ptp(blobs)).astype("f4"))
noisy = bv.random_noise(truth, "gaussian", var=0.01, seed=1, clip=False)
bv.preview(noisy)

# %%
# A Gaussian that is too narrow leaves noise, and one that is too wide removes details. All metrics of
# all widths are computed in one run. The error is smallest at 1, and the structure most similar at 2.
sigmas = (0.5, 1, 2, 4)
smooth = [bv.gaussian_filter(noisy, sigma) for sigma in sigmas]
numbers = bv.compute(
    *(bv.mean_squared_error(truth, s) for s in smooth),
    *(bv.peak_signal_noise_ratio(truth, s, data_range=1) for s in smooth),
    *(bv.structural_similarity(truth, s, data_range=1) for s in smooth),
)
errors, ratios, similar = np.reshape(numbers, (3, 4))
for row in zip(sigmas, errors, ratios, similar, strict=True):
    print("sigma {}: error {:.5f}, {:.1f} dB, similarity {:.3f}".format(*row))
assert np.argmin(errors) == np.argmax(ratios) == 1 and np.argmax(similar) == 2

# %%
# The map shows where images differ: here, noise of the original hides most of the structure.
_, similarity = bv.structural_similarity(truth, noisy, data_range=1, full=True)
bv.preview(similarity)
