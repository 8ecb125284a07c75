"""Points in time: each is computed as a separate run in the process of its slab."""
