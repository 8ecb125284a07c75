"""Device code of the modules of the same names in `beam_volumes.kernels.labels`."""
