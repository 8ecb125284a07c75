"""Plans: passes, windows, slabs, memory and I/O, before anything is read."""
