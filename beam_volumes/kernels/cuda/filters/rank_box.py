"""Device code of ranks over a box of 8-bit integers."""

from beam_volumes.kernels.cuda.filters.rank import rank_of_box as rank_box

__all__ = ["rank_box"]
