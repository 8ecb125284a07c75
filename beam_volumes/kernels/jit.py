"""How every kernel is compiled: one decorator, so that one place decides.

Never ``fastmath``: a result must be the same sequence of IEEE operations on every CPU (contract
N3). Signatures are left open, a kernel is compiled for the dtypes it meets and kept on disk.
"""

import numba

kernel = numba.njit(nogil=True, cache=True, boundscheck=False, error_model="numpy")
