"""Volumes on other grids: resampled, padded, flipped, transposed."""
