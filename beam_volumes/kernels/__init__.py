"""Numba kernels for plain arrays, grouped like `ops`."""
