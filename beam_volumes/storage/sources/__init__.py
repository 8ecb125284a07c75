"""The model of a stored volume: axes, chunks, levels, and how voxels are read."""
