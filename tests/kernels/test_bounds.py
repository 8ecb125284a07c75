"""No kernel reads or writes beyond an array: compiled code would do so without a word."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tiers import thorough

RUNS = {
    "kernels": ["tests/kernels", "-m", "not thorough"],
    "long rows": ["tests/kernels/test_long_rows.py", "-m", "thorough"],
    "operations": ["tests/ops/test_long_rows.py"],
}


@thorough
@pytest.mark.parametrize("name", RUNS)
def test_no_index_leaves_its_array(name, tmp_path_factory):
    """Tests once more with every index looked at, for which all kernels are compiled anew, and once."""
    own = tmp_path_factory.getbasetemp()
    cache = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "bounds"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *RUNS[name]],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(cache)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-4000:]
