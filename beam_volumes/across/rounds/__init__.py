"""Rounds of messages that meet by key, one module for each cross-slab operation."""
