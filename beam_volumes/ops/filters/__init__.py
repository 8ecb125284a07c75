"""Neighbourhood filters: linear, rank, derivatives, tensors, local thresholds, your own."""
