"""Numba kernels on plain arrays, in the families of `ops`."""
