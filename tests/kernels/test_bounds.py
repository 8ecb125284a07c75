"""No kernel reads or writes beyond an array: compiled code would do so without a word."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kernels.conftest import state
from tests.tiers import thorough

ROOT = Path(__file__).parents[2]
#: Of the same folder: these run no kernel of ours, or start processes of their own.
WITHOUT_KERNELS = [
    f"--ignore=tests/kernels/test_{name}.py" for name in ("bounds", "cache", "devices")
]
RUNS = {
    "kernels": ["tests/kernels", "-m", "not thorough", *WITHOUT_KERNELS],
    "operations": [
        "tests/ops/test_long_rows.py",
        "tests/ops/test_elastic.py::test_far_displacements_and_single_nodes",
    ],
}
#: What these run, for `conftest.state`.
ALSO_USED = [
    "tests/kernels/test_*.py",
    "tests/ops/test_elastic.py",
    "tests/ops/test_long_rows.py",
    "tests/ops/test_filters.py",
]
#: Whether an index is within an array does not depend on the optimizer, which takes most of compiling.
CHECKED = {
    "NUMBA_BOUNDSCHECK": "1",
    "NUMBA_OPT": "1",
    "NUMBA_LOOP_VECTORIZE": "0",
    "NUMBA_SLP_VECTORIZE": "0",
}


@thorough
@pytest.mark.parametrize("name", RUNS)
def test_no_index_leaves_its_array(name):
    """Tests once more with every index looked at."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *RUNS[name]],
        cwd=ROOT,
        env={**os.environ, **CHECKED},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-4000:]


def test_an_index_beyond_an_array_is_an_error_where_bounds_are_checked():
    beyond = (
        "import numpy as np; from beam_volumes.kernels.jit import kernel",
        "kernel(lambda a: a[5])(np.ones(2))",
    )
    command = [sys.executable, "-c", "\n".join(beyond)]
    done = subprocess.run(command, env=os.environ | CHECKED, capture_output=True, text=True)
    assert "IndexError" in done.stderr


def test_what_has_passed_is_repeated_when_a_kernel_or_a_file_that_is_used_differs(tmp_path):
    kernel, test = tmp_path / "beam_volumes/kernels/filters/a.py", tmp_path / "tests/b.py"
    helper, other = tmp_path / "tests/helper.py", tmp_path / "beam_volumes/other.py"
    for path, text in {
        kernel: "x = 1",
        test: "def f():\n    from tests import helper\n    import beam_volumes.other",
        helper: "x = 1",
        other: "x = 1",
    }.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    before = state([test], root=tmp_path)
    assert state([test], root=tmp_path) == before != state([test], "also used", root=tmp_path)
    for path in (kernel, test, helper, other):
        text = path.read_text()
        path.write_text(text + "\n")
        assert state([test], root=tmp_path) != before
        path.write_text(text)
    kernel.rename(kernel.with_name("c.py"))
    assert state([test], root=tmp_path) != before
