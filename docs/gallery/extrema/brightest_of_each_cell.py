"""Find the brightest spots of each cell

With `labels=`, `peak_local_max` searches each label separately, and `num_peaks_per_label=` keeps
the highest peaks of each. Peaks in dim cells are then not displaced by peaks in bright ones.
"""

import numpy as np

import beam_volumes as bv

# %%
# Six cells of very different brightness, with four spots each.
rng = np.random.default_rng(6)
z, y, x = np.indices((14, 100, 150))
cells, image = np.zeros(z.shape, "u1"), np.full(z.shape, 20.0)
for k in range(6):
    row, column = 25 + 50 * (k // 3), 25 + 50 * (k % 3)
    cells[np.hypot(y - row, x - column) < 21] = k + 1
    for spot in range(4):
        angle = spot * np.pi / 2 + k
        away = (y - row - 12 * np.sin(angle)) ** 2 + (x - column - 12 * np.cos(angle)) ** 2
        image += (1 - 0.15 * spot) * 30 * 2**k * np.exp(-(away + 4 * (z - 7) ** 2) / 12)
stack = bv.open((image + rng.normal(0, 2, z.shape)).clip(0).astype("u2"))
bv.preview(stack, labels=cells)

# %%
# The twelve highest peaks of the volume are in the brightest cells.
smooth = bv.gaussian_filter(stack.astype("f4"), 1)
peaks = bv.peak_local_max(smooth, 4, num_peaks=12)
of_cell = cells[peaks["z"], peaks["y"], peaks["x"]]
print("peaks of each cell:", np.bincount(of_cell, minlength=7)[1:])

# %%
# The two highest peaks of each cell.
peaks = bv.peak_local_max(smooth, 4, labels=cells, num_peaks_per_label=2)
of_each = cells[peaks["z"], peaks["y"], peaks["x"]]
print("peaks of each cell:", np.bincount(of_each, minlength=7)[1:])
assert (np.bincount(of_each, minlength=7)[1:] == 2).all() and of_cell.min() > 1

# %%
# Mark them on the picture.
marks = np.zeros(z.shape, bool)
marks[peaks["z"], peaks["y"], peaks["x"]] = True
marks = bv.binary_dilation(marks, bv.ball(2))
bv.preview(stack, labels=marks, at=(7, 25, 125))
