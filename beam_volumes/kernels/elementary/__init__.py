"""Functions of one voxel with the same bits on every machine: exponentials, logarithms, angles."""
