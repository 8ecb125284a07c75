"""Kernels for Fourier transforms."""
