"""What the examples in docstrings assume: ``np`` and ``bv`` are imported, and they write where they run."""

import numpy as np
import pytest

import beam_volumes as bv


@pytest.fixture(autouse=True)
def examples(request, doctest_namespace, tmp_path_factory, monkeypatch):
    """Import numpy and the package for an example, and give it an empty directory to write to."""
    if isinstance(request.node, pytest.DoctestItem):
        doctest_namespace.update(np=np, bv=bv)
        monkeypatch.chdir(tmp_path_factory.mktemp("example"))
