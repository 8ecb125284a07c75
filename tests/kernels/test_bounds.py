"""No kernel reads or writes beyond an array: compiled code would do so without a word.

What has passed is not repeated until a kernel or one of the tests differs.
"""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest

from beam_volumes.kernels import cache
from tests.tiers import thorough

ROOT = Path(__file__).parents[2]
#: Of the same folder: these run no kernel of ours, or start processes of their own.
WITHOUT_KERNELS = [
    f"--ignore=tests/kernels/test_{name}.py" for name in ("bounds", "cache", "devices")
]
#: The programs, and all that decides their result in addition to kernels.
RUNS = {
    "kernels": (["tests/kernels", "-m", "not thorough", *WITHOUT_KERNELS], ["tests/kernels"]),
    "operations": (
        ["tests/ops/test_long_rows.py"],
        ["tests/ops/test_long_rows.py", "tests/ops/test_filters.py", "tests/*.py"],
    ),
}
#: Whether an index is within an array does not depend on the optimizer, which takes most of compiling.
CHECKED = {
    "NUMBA_BOUNDSCHECK": "1",
    "NUMBA_OPT": "1",
    "NUMBA_LOOP_VECTORIZE": "0",
    "NUMBA_SLP_VECTORIZE": "0",
}


def state(command, places, root=ROOT):
    """A digest of the files that a run depends on, and of the versions of what compiles them."""
    digest = hashlib.blake2b(digest_size=16)
    versions = numba.__version__, np.__version__, sys.version
    digest.update(repr((command, sorted(CHECKED.items()), versions)).encode())
    files = [*(root / "beam_volumes/kernels").rglob("*.py")]
    for place in places:
        for found in root.glob(place):
            files += [found] if found.is_file() else found.rglob("*.py")
    for path in sorted(set(files)):
        digest.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes())
    return digest.hexdigest()


@thorough
@pytest.mark.parametrize("name", RUNS)
def test_no_index_leaves_its_array(name):
    """Tests once more with every index looked at, where that was not done with the same kernels."""
    command, places = RUNS[name]
    passed = cache.folder() / f"bounds-{state(command, places)}.passed"
    if passed.exists():
        pytest.skip("passed with the same kernels and tests")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *command],
        cwd=ROOT,
        env={**os.environ, **CHECKED},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    passed.parent.mkdir(parents=True, exist_ok=True)
    passed.touch()


def test_bounds_are_checked_again_when_a_kernel_or_a_test_differs(tmp_path):
    kernel, test = tmp_path / "beam_volumes/kernels/filters/a.py", tmp_path / "tests/kernels/b.py"
    for path in (kernel, test):
        path.parent.mkdir(parents=True)
        path.write_text("x = 1")
    before = state([], ["tests/kernels"], tmp_path)
    assert state([], ["tests/kernels"], tmp_path) == before
    for path in (kernel, test):
        path.write_text("x = 2")
        assert state([], ["tests/kernels"], tmp_path) != before
        path.write_text("x = 1")
    kernel.rename(kernel.with_name("c.py"))
    assert state([], ["tests/kernels"], tmp_path) != before


def test_an_index_beyond_an_array_is_an_error_where_bounds_are_checked():
    beyond = (
        "import numpy as np; from beam_volumes.kernels.jit import kernel",
        "kernel(lambda a: a[5])(np.ones(2))",
    )
    command = [sys.executable, "-c", "\n".join(beyond)]
    done = subprocess.run(command, env=os.environ | CHECKED, capture_output=True, text=True)
    assert "IndexError" in done.stderr
