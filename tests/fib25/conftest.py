"""Which stacks there are to test with."""

import pytest

from tests.fib25.stacks import FIB25, MISSING, fib25, specimen
from tests.tiers import thorough

#: The made-up one stands in for the real one, and goes along with it where there is time.
STACKS = [
    pytest.param(fib25, id="fib25", marks=pytest.mark.skipif(not FIB25.is_dir(), reason=MISSING)),
    pytest.param(specimen, id="specimen", marks=[thorough] if FIB25.is_dir() else []),
]


@pytest.fixture(scope="module", params=STACKS)
def stack(request, tmp_path_factory):
    """A stack of slices on disk, and what is known of it."""
    return request.param(tmp_path_factory.mktemp("stack"))
