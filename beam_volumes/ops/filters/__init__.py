"""Neighbourhood filters: linear, rank, derivatives, tensors, local thresholds, user functions."""
