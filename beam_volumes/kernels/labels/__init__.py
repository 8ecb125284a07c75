"""Kernels of components, regions and lookups."""
