"""Thorough tests of kernels, once for each state of the kernels and of the tests.

They do not see the rest of the package: what has passed is not repeated until something that decides its
result differs. What has passed is kept next to the compiled kernels.
"""

import ast
import hashlib
import sys
from collections.abc import Iterator
from functools import cache as once
from pathlib import Path

import llvmlite
import numba
import numpy as np
import pytest

from beam_volumes.kernels import cache
from tests.tiers import explores

ROOT = Path(__file__).parents[2]


def state(files: list[Path], *other: object, root: Path = ROOT) -> str:
    """A digest of all kernels, of some files and what they import, and of what compiles and runs them.

    What the imported files import is not followed: of the rest of the package, tests of kernels use small
    functions.
    """
    processor = llvmlite.binding.get_host_cpu_name()
    versions = numba.__version__, llvmlite.__version__, np.__version__, sys.version, processor
    digest = hashlib.blake2b(repr((versions, other)).encode(), digest_size=16)
    found = {*files, *(root / "beam_volumes/kernels").rglob("*.py")}
    found.update(*(imported(file, root) for file in files))
    for path in sorted(found):
        digest.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def imported(file: Path, root: Path) -> Iterator[Path]:
    """Files of the repository that a file imports, anywhere in it."""
    for node in ast.walk(ast.parse(file.read_bytes())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        for name in names:
            yield from root.glob(name.replace(".", "/") + ".py")
            if name == "beam_volumes":
                yield from (root / name).rglob("*.py")


@once
def _passed(test: Path, *also_used: str) -> Path:
    """The folder of what has passed of a file of tests, which use other files of this folder and of tests."""
    beside = [*Path(__file__).parent.glob("*.py"), *(ROOT / "tests").glob("*.py")]
    helpers = [f for f in beside if not f.match("test_*") and not f.match("catalogue*")]
    also = [file.read_text() for place in also_used for file in sorted(ROOT.glob(place))]
    return cache.folder() / "passed" / state([test, *helpers], also)


def _kept(item: pytest.Item) -> Path | None:
    if explores() or item.get_closest_marker("thorough") is None:
        return None
    passed = _passed(item.path, *getattr(item.module, "ALSO_USED", []))
    return passed / hashlib.blake2b(item.nodeid.encode(), digest_size=16).hexdigest()


def pytest_runtest_setup(item):
    kept = _kept(item)
    if kept is not None and kept.exists():
        pytest.skip("passed with the same kernels and tests")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    kept = _kept(item)
    if report.when == "call" and report.passed and kept is not None:
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.touch()
