"""A client of a late disk: a process that runs the steps of a test, sent to its standard input.

Steps are functions of `tests.late.steps`. Their results and errors are returned as pickles. Waiting takes no
time: it only moves the clock of the disk.
"""

import mmap
import os
import pickle
import struct
import sys
from types import SimpleNamespace


class Clock:
    """The clock of a late disk, in a file that all clients map."""

    def __init__(self, path: str) -> None:
        with open(path, "r+b") as file:
            self._map = mmap.mmap(file.fileno(), 8)

    def now(self) -> float:
        return struct.unpack("q", self._map)[0]

    def wait(self, seconds: float) -> None:
        """Move the clock by whole seconds."""
        self._map[:] = struct.pack("q", int(self.now() + max(1, seconds)))


def main() -> None:
    from beam_volumes.storage.places import claims
    from tests.late import steps

    clock = Clock(os.environ["LATE_CLOCK"])
    claims.time = SimpleNamespace(monotonic=clock.now, sleep=clock.wait)
    out, sys.stdout = os.fdopen(os.dup(1), "wb"), sys.stderr
    while True:
        try:
            name, arguments = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            answer = True, getattr(steps, name)(*arguments)
        except Exception as error:
            answer = False, f"{type(error).__name__}: {error}"
        out.write(pickle.dumps(answer))
        out.flush()


if __name__ == "__main__":
    main()
