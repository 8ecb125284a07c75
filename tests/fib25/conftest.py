"""Which stacks there are to test with."""

import pytest

from tests.fib25.stacks import FIB25, MISSING, fib25, specimen
from tests.tiers import thorough

#: The real one has fourteen times as many voxels, and goes along where there is time.
STACKS = [
    pytest.param(specimen, id="specimen"),
    pytest.param(
        fib25,
        id="fib25",
        marks=[thorough, pytest.mark.skipif(not FIB25.is_dir(), reason=MISSING)],
    ),
]


@pytest.fixture(scope="module", params=STACKS)
def stack(request, tmp_path_factory):
    """A stack of slices on disk, with its description."""
    return request.param(tmp_path_factory.mktemp("stack"))
