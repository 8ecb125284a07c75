"""Waiting for what must come, for as long as a loaded machine may take."""

import time
from collections.abc import Callable
from typing import Any

#: Seconds after which what has not come never will.
PATIENCE = 600.0


def wait_until(condition: Callable[[], Any], what: str, check: Callable[[], Any] = bool) -> Any:
    """Wait for a condition to hold, and return its value.

    ``check`` is called meanwhile, to raise an error if it never will.
    """
    limit = time.monotonic() + PATIENCE
    while True:
        if found := condition():
            return found
        check()
        if time.monotonic() > limit:
            raise TimeoutError(f"waited {PATIENCE:.0f} s in vain for {what}")
        time.sleep(0.01)
