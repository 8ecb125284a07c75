"""Exact results across slabs: components, merges, scans; pure functions, no Beam and no I/O."""
