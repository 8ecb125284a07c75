"""Rounds of messages grouped by key, one module for each operation across slabs."""
