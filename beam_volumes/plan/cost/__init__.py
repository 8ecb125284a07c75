"""What a slab costs in memory and I/O on a given machine."""
