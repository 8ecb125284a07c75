"""Find maxima that rise above the noise

Every bump in the noise is a local maximum. `h_maxima` keeps those that rise by `h`: each path from
there to a higher voxel descends by `h` or more. Use it for watershed markers if objects vary in
size, so that no single distance between peaks fits all of them.
"""

import numpy as np

import beam_volumes as bv

# %%
# Large and small cells are bright in their middle.
rng = np.random.default_rng(4)
z, y, x = np.mgrid[:16, :96, :144].astype("f4")
cells = [(8, 25, 30, 12), (8, 25, 62, 9), (8, 70, 40, 12), (8, 60, 90, 8), (8, 80, 100, 6)]
cells += [(8, 20, 100, 5), (8, 20, 116, 5), (8, 55, 120, 7)]
image = np.zeros(z.shape, "f4")
for a, b, c, radius in cells:
    away = ((z - a) ** 2 + (y - b) ** 2 + (x - c) ** 2) / radius**2
    image = np.maximum(image, 400 * np.exp(-away))
noisy = bv.open(image + rng.normal(0, 60, z.shape).astype("f4"))
smooth = bv.gaussian_filter(noisy, 1)
bv.preview(smooth)

# %%
# There are many local maxima. They are enlarged here to make them visible.
every = bv.local_maxima(smooth)
bv.preview(bv.binary_dilation(every > 0, bv.ball(2)))

# %%
# With `h` of 100, each cell has one maximum.
high = bv.h_maxima(smooth, 100)
bv.preview(bv.binary_dilation(high > 0, bv.ball(2)))

# %%
# If `h` exceeds the dip between two cells, only the higher maximum is kept.
counts = {"local": int(bv.label(every, 3).num_labels)}
for h in (20, 100, 300):
    counts[h] = int(bv.label(bv.h_maxima(smooth, h), 3).num_labels)
print(counts)
assert counts["local"] > counts[20] > counts[100] == len(cells) > counts[300]
