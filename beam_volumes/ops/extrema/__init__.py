"""Local extrema, peaks and morphological reconstruction."""
