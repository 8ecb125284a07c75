"""Filters by a number of iterations."""
