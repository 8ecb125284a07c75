"""Kernels of curves and contrast."""
