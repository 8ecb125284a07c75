"""scipy.ndimage for volumes that do not fit in memory, on any Apache Beam runner.

Examples in docstrings assume ``import numpy as np`` and ``import beam_volumes as bv``. Those that write
something write it to the current directory.
"""

from beam_volumes import plan
from beam_volumes.base.exports import lazy

# The package `plan` is loaded now, so that its import cannot hide the function of its name later.
del plan

__getattr__, __dir__, __all__ = lazy(__name__, globals())
