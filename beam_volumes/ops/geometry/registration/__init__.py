"""Transforms that align slices, frames, tiles and volumes."""
