"""What stages, reductions and surveys allocate against what they declare, for all operations."""

import json
import subprocess
import sys

import pytest

from tests.tiers import thorough

#: Bytes of Python objects, such as views of rings, that are not declared.
OBJECTS = 12 << 10
#: Bytes of the buffers in which numpy casts operands of a ufunc.
CASTING = 192 << 10
#: Objects of a reduction: integers of any size, and numpy's buffers.
STATES = 64 << 10


def allowance(kind, name):
    """Bytes that are not declared, whatever the shape of a slab."""
    if name in ("Elementwise", "Fused", "Within"):
        return CASTING
    return STATES if kind == "reduction" else OBJECTS


def joining(kind, declared):
    """Bytes of rows that a survey copies while it joins them: what it holds is counted, copies are not."""
    return declared // 4 if kind == "survey" else 0


@thorough
@pytest.mark.parametrize("dtype", ["u1", "f4", "u4"])
def test_operations_allocate_no_more_than_they_declare(dtype):
    command = [sys.executable, "-m", "tests.limits.fresh_scratch", dtype]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    excess = [
        f"{kind} {name} ({of}): {allocated:,} bytes allocated, {declared:,} declared"
        for kind, name, of, declared, allocated in found
        if allocated - declared > allowance(kind, name) + joining(kind, declared)
    ]
    assert not excess, "\n".join(excess)
