"""Kernels of morphology and distances."""
