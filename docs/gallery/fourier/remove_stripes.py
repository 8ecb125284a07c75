"""Remove stripes

Stripes along x are narrow in the spectrum of a slice. `fourier_filter` multiplies the spectrum by a
function of the frequencies.
"""

import numpy as np
from scipy import ndimage

import beam_volumes as bv

# %%
# A texture, and stripes along x with a different brightness in each row.
rng = np.random.default_rng(4)
shape = (8, 96, 128)
clean = 120 + 300 * ndimage.gaussian_filter(rng.normal(size=shape), (1, 1.5, 1.5))
striped = bv.open((clean + rng.normal(0, 25, (8, 96, 1))).astype("f4"))
bv.preview(striped)


# %%
# The function receives frequencies in cycles per voxel. It removes structures that vary along y,
# but not along x.
def without_stripes(fy, fx):
    return 1 - np.exp(-((fx / 0.01) ** 2)) * (np.abs(fy) > 0.02)


filtered = bv.fourier_filter(striped, without_stripes, axes=(1, 2), name="stripes", version=1)
bv.preview(filtered)

# %%
# The remaining stripes: how much the means of rows differ from the means in the clean slices.
errors = [np.asarray(v).mean(axis=2) - clean.mean(axis=2) for v in (striped, filtered)]
print("stripes before and after:", *(f"{e.std():.1f}" for e in errors))
assert errors[1].std() < errors[0].std() / 2
