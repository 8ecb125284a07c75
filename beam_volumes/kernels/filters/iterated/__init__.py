"""Loops of filters by a number of iterations."""
