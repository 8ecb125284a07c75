"""Passes over a volume: what a stage is, and how slabs stream along z."""
