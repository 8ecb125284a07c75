"""Classes of voxels, learned from examples."""
