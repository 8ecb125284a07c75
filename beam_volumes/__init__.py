"""scipy.ndimage for volumes that do not fit in memory, on any Apache Beam runner.

Examples in docstrings assume ``import numpy as np`` and ``import beam_volumes as bv``. Those that write
something write it to the current directory.
"""

import sys

if sys.platform == "win32":
    raise ImportError(
        "beam_volumes does not run on Windows itself; install it in WSL, the Windows Subsystem for Linux"
    )

from beam_volumes import plan, providers, studio
from beam_volumes.base.public_names import lazy

# The packages are loaded now, so that their import cannot hide the functions of their names later.
del plan, providers, studio, sys

__getattr__, __dir__, __all__ = lazy(__name__, globals())
