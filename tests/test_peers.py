"""Packages that only few tests need are left out on a developer's machine, and never in CI."""

import re
from pathlib import Path

import pytest

from tests import peers

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
