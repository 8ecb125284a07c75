"""HDF5, and the layouts of programs that write it."""
