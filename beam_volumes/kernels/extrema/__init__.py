"""Kernels of maxima, peaks and edges."""
