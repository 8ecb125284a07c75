"""What users say, read once: checks, the voxels around each one, and the texts that docstrings share."""
