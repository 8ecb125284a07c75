"""Track cells over time

Each frame of a movie is segmented separately, so labels are not consistent between frames. Tracking
links the labels of each cell, even if it was missed in a frame, and marks divisions.
"""

import numpy as np

import beam_volumes as bv

# %%
# Three cells in eight frames. The first one moves to the right. The second one is missed in frame 4.
# The third one divides in frame 4.
z, y, x = np.mgrid[:6, :64, :96]
frames = []
for t in range(8):
    centres = [(3, 12, 12 + 8 * t), (3, 32, 60)]
    centres += [(3, 52, 40)] if t < 4 else [(3, 52, 40 - 4 * (t - 2)), (3, 52, 40 + 4 * (t - 2))]
    if t == 4:
        centres.remove((3, 32, 60))
    cells = [np.exp(-(4 * (z - a) ** 2 + (y - b) ** 2 + (x - c) ** 2) / 30) for a, b, c in centres]
    frames.append(200 * np.max(cells, axis=0))
movie = bv.open(np.stack(frames), axes="tzyx", voxel_size=(2, 0.5, 0.5), unit="um")
bv.preview(movie[3])

# %%
# In each frame, labels are in the order of their first voxels. Frame 3 is on the left, and frame 5
# on the right. By chance, one daughter has the same label, and therefore the same colour, as its
# mother.
labels = bv.label(movie > 80)
frames_3_and_5 = bv.open(np.concatenate([labels[3], labels[5]], axis=2))
bv.preview(bv.label2rgb(frames_3_and_5))

# %%
# Cells move up to 4 um from frame to frame. The table is small: a row for each cell in each frame.
tracks = bv.track(labels, max_distance="5 um", spacing="voxel_size", max_gap=1, divisions=True)
print(tracks.to_pandas()[["t", "label", "track", "parent"]].tail(4))

# %%
# Two tracks have a parent, which ended when they started.
rows = tracks.to_pandas()
daughters = rows[rows["parent"] > 0]
assert daughters["track"].nunique() == 2 and daughters["parent"].nunique() == 1
assert daughters["t"].min() == 4 and rows["track"].nunique() == 5

# %%
# With consistent labels, a cell keeps its label and therefore its colour. Daughters have new
# labels.
lasting = bv.relabel(labels, tracks, columns=("t", "label", "track"))
frames_3_and_5 = bv.open(np.concatenate([lasting[3], lasting[5]], axis=2))
bv.preview(bv.label2rgb(frames_3_and_5))

# %%
# Measurements of the new labels describe the tracks, such as their volume over time.
sizes = bv.regionprops_table(lasting, properties=["num_pixels"]).to_pandas()
print(sizes.pivot(index="t", columns="label", values="num_pixels"))
assert (sizes["label"].isin(rows["track"])).all()
