"""What tests of operations share."""

import pytest

from beam_volumes.sweep import resources


@pytest.fixture(scope="module")
def thin_strips():
    """Work is shared out however little it is."""
    with resources.thin_strips():
        yield
