"""Compile device code to PTX without a GPU, and look for operations that round differently from the host.

Run as: python -m tests.kernels.compile_for_devices FAMILIES DTYPES
"""

import re
import sys
from types import SimpleNamespace

import numpy as np
from numba import cuda, typeof
from numba.cuda import compiler, dispatcher

from beam_volumes.kernels.cuda import twin
from beam_volumes.kernels.rows import rows_of
from tests.kernels.device_cases import Call, cases

#: Turing, Ampere and Hopper.
CAPABILITIES = ((7, 5), (8, 0), (9, 0))
#: Contracted now or later, approximate, or with subnormal numbers as zero.
INEXACT = re.compile(
    r"\t((?:fma|mad)\.\w*\.?f\d\d|mul\.f\d\d|\w+\.approx[\w.]*|\w+[\w.]*\.ftz[\w.]*)"
)


def pretend_device():
    """Let numba compile for a device that is not there."""
    device = SimpleNamespace(id=0, compute_capability=CAPABILITIES[-1])
    dispatcher.get_current_device = cuda.get_current_device = lambda: device
    cuda.to_device = lambda array, stream=0: array.copy()
    cuda.device_array = lambda shape, dtype, stream=0: np.empty(shape, dtype)
    dispatcher.CUDADispatcher.__getitem__ = lambda kernel, _: lambda *args: compiled(kernel, args)
    dispatcher.wrap_arg = lambda array: SimpleNamespace(to_device=lambda *_: pretended(array))


def pretended(array):
    """An array as an argument of a launch."""
    layout = SimpleNamespace(strides_in_bytes=array.strides)
    return SimpleNamespace(
        size=array.size, dtype=array.dtype, ptr=0, shape=array.shape, _layout=layout
    )


done, wrong = set(), []


def compiled(kernel, arguments):
    types = tuple(map(typeof, arguments))
    launched = object.__new__(dispatcher._Kernel)
    launched.extensions = ()
    for of, argument in zip(types, arguments, strict=True):
        launched._prepare_args(of, argument, 0, [], [])  # raises an error for those that cannot be
    if (kernel, types) in done:
        return
    done.add((kernel, types))
    # As cuda.compile_ptx does, but the code is lowered only once.
    library, _ = compiler._compile_pyfunc_with_fixup(
        kernel.py_func, types, device=False, abi="numba", cc=CAPABILITIES[0]
    )
    for capability in CAPABILITIES:
        ptx = library.get_asm_str(cc=capability)
        assert f".target sm_{capability[0]}{capability[1]}" in ptx
        found = set(INEXACT.findall(ptx))
        if found:
            body = kernel.py_func.__closure__[0].cell_contents.py_func
            wrong.append(f"{body.__module__}.{body.__qualname__} {types[-1]}: {found}")


def arguments_of(case):
    """What a twin is called with."""
    if isinstance(case, Call):
        return case.arguments
    extent = tuple(n + t - 1 for n, t in zip(case.volume.shape, case.taps, strict=True))
    given = np.zeros(extent, case.volume.dtype)
    made = np.zeros(case.volume.shape, case.options.get("dtype", given.dtype))
    rows = [rows_of(a, np.arange(len(a)), 0, 0) for a in (given, made)]
    return (*rows, 0, made.shape[1], made.shape[2], *case.parameters)


def main(families, dtypes):
    pretend_device()
    for family in families.split(","):
        for dtype in dtypes.split(","):
            for case in cases(family, dtype):
                twin(case.name)(*arguments_of(case))
    print(len(done), "kernels compiled")
    print(*sorted(set(wrong)), sep="\n")
    return len(wrong)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
