"""Volumes at other positions: shifted, zoomed, rotated, warped; and splines."""
