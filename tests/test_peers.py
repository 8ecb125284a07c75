"""Packages that only few tests need are left out on a developer's machine, and never in CI."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import peers
from tests.tiers import thorough

TESTS = Path(__file__).parent


def test_without_a_package_a_test_is_skipped_and_in_ci_it_fails(monkeypatch):
    monkeypatch.setattr(peers, "PEERS", ("no_such_package.part",))
    assert peers.missing_peers() == ["no_such_package"]
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception):
        peers.peer("no_such_package.part")
    monkeypatch.setenv("CI", "true")
    with pytest.raises(ModuleNotFoundError):
        peers.peer("no_such_package.part")


def test_no_test_is_skipped_without_them_by_itself():
    names = "|".join(name.partition(".")[0] for name in peers.PEERS)
    skips = re.compile(rf"importorskip\(\s*[\"'](?:{names})\b")
    assert [p.name for p in TESTS.rglob("*.py") if skips.search(p.read_text())] == []


@thorough
def test_modules_without_tests_are_imported_without_them():
    """pytest imports all of them for their examples. One that fails would end ``make test``."""
    root = TESTS.parent
    modules = [
        ".".join(path.relative_to(root).with_suffix("").parts)
        for folder in ("beam_volumes", "tests")
        for path in sorted((root / folder).rglob("*.py"))
        if not path.name.startswith(("test_", "__main__"))
    ]
    missing = [name.partition(".")[0] for name in peers.PEERS]
    program = f"""
import importlib, sys
sys.modules.update(dict.fromkeys({missing}))
for name in {modules}:
    importlib.import_module(name)
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
