"""Kernels of classifiers."""
