"""Device code of ranks over large boxes."""

from beam_volumes.kernels.cuda.filters.rank import rank_of_box as rank_walk

__all__ = ["rank_walk"]
