"""Files with a header and then voxels."""
