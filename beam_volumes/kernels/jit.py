"""How every kernel is compiled: one decorator, so that one place decides.

Never ``fastmath``: a result must be the same sequence of IEEE operations on every CPU.
Signatures are left open, a kernel is compiled for the dtypes it meets and kept on disk.
"""

from typing import Any

import numba

kernel: Any = numba.njit(nogil=True, cache=True, boundscheck=False, error_model="numpy")
