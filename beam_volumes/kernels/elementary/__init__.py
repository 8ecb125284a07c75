"""Functions of single voxels with the same bits on every machine: exponentials, logarithms, angles."""
