"""Intensities on another scale: ranges, curves, histograms, slices."""
