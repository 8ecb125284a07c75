"""HDF5 and the layouts that programs write in it."""
