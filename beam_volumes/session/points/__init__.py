"""Points in time: each is computed as a run by itself, in the process that has its slab."""
