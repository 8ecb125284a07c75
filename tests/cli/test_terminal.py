"""On a terminal: the bar, Ctrl-C, SIGTERM, and the command that they name."""

import os
import pty
import re
import select
import signal
import sys
import time

import numpy as np

import beam_volumes as bv
from beam_volumes.cli.main import main
from tests.limits.slow_run import HOLD, mask
from tests.tiers import thorough
from tests.waiting import PATIENCE

PROGRAM = """
import sys
import beam_volumes as bv
from tests.limits.slow_run import mask
bv.compute(*mask(*sys.argv[1:]), runner=None, workers=1, threads=1, slab=(4, 32, 64))
"""


class Terminal:
    """A program on a terminal of its own, as a shell starts it: Ctrl-C typed there reaches it."""

    def __init__(self, *command, hold):
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            # A shell that runs the tests in the background may ignore Ctrl-C, and so would its children.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.environ[HOLD] = hold
            os.execv(sys.executable, [sys.executable, *command])
        self.screen = ""

    def read_until(self, pattern):
        """Read until the output matches, or without a pattern until the program ends."""
        limit = time.monotonic() + PATIENCE
        while pattern is None or not re.search(pattern, self.screen):
            ready, _, _ = select.select([self._fd], [], [], limit - time.monotonic())
            assert ready, f"waited in vain for {pattern}: {self.screen}"
            try:
                data = os.read(self._fd, 65536)
            except OSError:  # whoever wrote is gone
                data = b""
            if not data:
                assert pattern is None, self.screen
                return
            self.screen += data.decode()

    def type(self, key):
        os.write(self._fd, key)

    def end(self):
        """The last line that it printed, and how it ended."""
        self.read_until(None)
        os.close(self._fd)
        return self.screen.rstrip().splitlines()[-1], os.waitstatus_to_exitcode(
            os.waitpid(self.pid, 0)[1]
        )


@thorough
def test_the_bar_and_who_stops_a_run_is_told_how_it_goes_on(tmp_path):
    noise = np.random.default_rng(0).integers(0, 255, (20, 64, 64), np.uint8)
    bv.compute(bv.open(noise).to(tmp_path / "in.zarr"), runner=None, progress=False)
    out = tmp_path / "out.zarr"

    def held(*command, done):
        return Terminal(*command, hold=f"{out}.run/runs/*/records/0-*/* {done}")

    # A program: a bar without being asked for, and Ctrl-C.
    program = held("-c", PROGRAM, str(tmp_path / "in.zarr"), str(out), done=3)
    program.read_until(r"pass 1/3 [^|]+ \d+%\|.*\| [3-9]/10 slabs")
    program.type(b"\x03")
    line, _ = program.end()
    said = re.fullmatch(r"KeyboardInterrupt: to continue, run: beam-volumes (resume \S+)", line)
    assert said, program.screen
    command = ["-m", "beam_volumes.cli.main", *said[1].split()]

    # The command that it names, and SIGTERM: the second one, as the slab never ends.
    program = held(*command, done=5)
    program.read_until(r"[5-9]/10 slabs")
    os.kill(program.pid, signal.SIGTERM)
    program.read_until("terminated: the slabs in flight are finished first")
    os.kill(program.pid, signal.SIGTERM)
    line, code = program.end()
    assert code == -signal.SIGTERM
    assert re.fullmatch(
        rf"beam-volumes: terminated: to continue, run: beam-volumes {said[1]}", line
    )

    # And Ctrl-C, which is no error.
    program = held(*command, done=7)
    program.read_until(r"[7-9]/10 slabs")
    program.type(b"\x03")
    line, code = program.end()
    assert code == 130 and "Traceback" not in program.screen
    assert line == f"beam-volumes: interrupted: to continue, run: beam-volumes {said[1]}"

    assert main([*command[2:], "--quiet"]) == 0
    want = mask(str(tmp_path / "in.zarr"), str(tmp_path / "want.zarr"))
    bv.compute(*want, runner=None, progress=False)
    assert np.array_equal(bv.open(str(out)), bv.open(tmp_path / "want.zarr"))
