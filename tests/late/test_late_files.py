"""The late disk itself."""

import pytest

from tests.late.conftest import Refused


def test_a_client_sees_what_others_do_later_and_what_it_does_at_once(disk):
    one, other = disk.client(), disk.client()
    at = str(disk.root)
    one.do("make", f"{at}/a")
    assert other.do("names", f"{at}/a") == [] and other.do("read", f"{at}/a/x") is None
    one.do("write", f"{at}/a/x", b"1")
    other.do("write", f"{at}/a/y", b"2")
    assert one.do("names", f"{at}/a") == ["x"] and other.do("names", f"{at}/a") == ["y"]
    assert other.do("read", f"{at}/a/x") is None and one.do("read", f"{at}/a/x") == b"1"
    one.do("write", f"{at}/a/unknown", b"3")
    found = other.do("read", f"{at}/a/unknown")
    assert found == (b"3" if disk.names else None)  # nobody has looked for it
    disk.later()
    assert one.do("names", f"{at}/a") == other.do("names", f"{at}/a") == ["unknown", "x", "y"]
    one.do("rename", f"{at}/a/x", f"{at}/a/z")
    assert other.do("names", f"{at}/a") == ["unknown", "x", "y"]
    with pytest.raises(Refused, match="FileNotFoundError"):
        other.do("read", f"{at}/a/x")
    one.do("write", f"{at}/a/y", b"3")
    assert other.do("read", f"{at}/a/y") == b"3"  # a file that is opened is that of the server
    one.do("remove", f"{at}/a/y")
    disk.later()
    assert other.do("names", f"{at}/a") == ["unknown", "z"]
