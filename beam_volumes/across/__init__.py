"""Exact results across slabs: components, merges, scans; pure functions without Beam and I/O."""
