"""Intensity transforms: ranges, curves, histograms, slices."""
