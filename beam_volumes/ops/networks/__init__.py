"""Neural networks on volumes: patches in a grid that is independent of slabs."""
