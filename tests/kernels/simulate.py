"""Compare kernels with their twins in numba's simulator, which a process chooses when it starts.

Run with NUMBA_ENABLE_CUDASIM=1: python -m tests.kernels.simulate FAMILIES DTYPES MODES SEEDS
"""

import copy
import itertools
import sys
import warnings
from importlib import import_module

import numpy as np
from numba import cuda

from beam_volumes.kernels.cuda import twin
from beam_volumes.kernels.rows import Rows
from tests.kernels.device_cases import Call, cases
from tests.kernels.rings import apply, centre, scratch_of_call


def host(name):
    module, _, function = name.rpartition(".")
    return getattr(import_module(module), function)


def replaced(value, convert):
    """The same value with all arrays in it converted."""
    if isinstance(value, Rows):
        return Rows(convert(value.lines), convert(value.firsts), value.left)
    if isinstance(value, tuple):
        return tuple(replaced(v, convert) for v in value)
    return convert(value) if hasattr(value, "shape") and value.shape else value


def simulated(name):
    """The twin as a function of arrays of the host."""

    def kernel(*arguments):
        given, moved = [], []

        def move(array):
            given.append(array)
            moved.append(cuda.to_device(array))
            return moved[-1]

        twin(name)(*replaced(arguments, move))
        for array, result in zip(given, moved, strict=True):
            if array.flags.writeable:
                array[...] = result.copy_to_host()

    def with_parameters(src, out, y0, y1, nx, *parameters):
        # Parameters are in host memory, where twins need their values.
        rows = [replaced(r, cuda.to_device) for r in (src, out)]
        twin(name)(*rows, y0, y1, nx, *parameters)
        src.lines[...], out.lines[...] = (r.lines.copy_to_host() for r in rows)

    return kernel, with_parameters


def differs(case):
    """Where a twin differs, as a text."""
    call, filtered = simulated(case.name)
    if isinstance(case, Call):
        expected, found = copy.deepcopy(case.arguments), copy.deepcopy(case.arguments)
        kernel = host(case.host or f"beam_volumes.kernels.{case.name}")
        scratch = scratch_of_call(kernel, expected) if hasattr(kernel, "scratch") else []
        kernel(*expected, *scratch)
        call(*found)
        pairs = list(zip(arrays(expected), arrays(found), strict=True))
    else:
        given = case.volume, centre(case.taps), case.taps, *case.parameters
        kernel = host(f"beam_volumes.kernels.{case.name}")
        pairs = [(apply(kernel, *given, **case.options), apply(filtered, *given, **case.options))]
    for a, b in pairs:
        if a.tobytes() != b.tobytes():
            bits = np.dtype(f"u{a.itemsize}")
            at = tuple(np.argwhere(a.view(bits) != b.view(bits))[0].tolist())
            return f"{case}: {b[at]} instead of {a[at]} at {at}"
    return ""


def arrays(value):
    found = []
    replaced(value, found.append)
    return found


def main(families, dtypes, modes, seeds):
    warnings.simplefilter("ignore")  # numpy's, about overflow
    lists = families.split(","), dtypes.split(","), modes.split(","), range(int(seeds))
    for some in itertools.product(*lists):
        for case in cases(*some):
            if text := differs(case):
                print(text, flush=True)
                yield text


if __name__ == "__main__":
    sys.exit(bool(list(main(*sys.argv[1:]))))
