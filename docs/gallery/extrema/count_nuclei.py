"""Count nuclei by their peaks

`peak_local_max` finds the brightest voxel of each nucleus. Use it to count nuclei without
segmenting them, or to find starting points for a watershed or a tracker.
"""

import numpy as np

import beam_volumes as bv

# %%
# Forty nuclei are at least 14 voxels apart. Noise creates many small peaks.
rng = np.random.default_rng(3)
z, y, x = np.mgrid[:24, :128, :160].astype("f4")
centres = []
while len(centres) < 40:
    centre = rng.uniform((4, 8, 8), (20, 120, 152))
    if all(np.linalg.norm(centre - other) >= 14 for other in centres):
        centres.append(centre)
image = np.zeros(z.shape, "f4")
for a, b, c in centres:
    image += 500 * np.exp(-((z - a) ** 2 + (y - b) ** 2 + (x - c) ** 2) / 40)
stack = bv.open((image + rng.normal(100, 30, z.shape)).clip(0).astype("u2"))
bv.preview(stack)

# %%
# Smooth first, so each nucleus has one peak. `threshold_abs` excludes peaks in the background.
smooth = bv.gaussian_filter(stack, 2)
bv.preview(smooth)

# %%
# `min_distance` determines how close two peaks may be. If it exceeds the distance between nuclei,
# some of them are lost.
counts = {}
for distance in (6, 25):
    peaks = bv.peak_local_max(smooth, distance, threshold_abs=250, exclude_border=False)
    counts[distance] = len(peaks["rank"])
print(counts)
assert counts[6] == len(centres) > counts[25]

# %%
# Without smoothing and with a small distance, noise is counted as well.
noisy = bv.peak_local_max(stack, 1, threshold_abs=250, exclude_border=False)
print(len(noisy["rank"]))
assert len(noisy["rank"]) > 2 * len(centres)

# %%
# The table lists the positions of the peaks, highest first.
peaks = bv.peak_local_max(smooth, 6, threshold_abs=250, exclude_border=False)
positions = np.stack([peaks["z"], peaks["y"], peaks["x"]], axis=1)
distances = np.linalg.norm(positions[:, None] - np.array(centres), axis=2).min(axis=1)
print(f"peaks are at most {distances.max():.1f} voxels from the true centres")
assert distances.max() < 3
positions[:3]
