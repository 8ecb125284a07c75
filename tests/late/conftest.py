"""Late disks: what several machines see of each other's files on a network disk, without a network."""

import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.late.client import Clock
from tests.peers import in_ci
from tests.tiers import few

#: Seconds after which a client sees what others have done.
LATE = 60


class Refused(Exception):
    """The error of a step, as text."""


class Client:
    """A machine that sees what others do only later."""

    def __init__(self, library: Path, root: Path, clock: Path, names: bool) -> None:
        late: dict[str, Any] = {
            "LD_PRELOAD": library,
            "LATE_ROOT": root,
            "LATE_CLOCK": clock,
            "LATE_SECONDS": LATE,
        }
        late |= {"LATE_NAMES": 1} if names else {}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.late.client"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {name: str(value) for name, value in late.items()},
        )

    def begin(self, step: str, *arguments: Any) -> None:
        """Begin a step of `tests.late.steps`."""
        pickle.dump((step, arguments), self._process.stdin)
        self._process.stdin.flush()

    def answer(self) -> Any:
        """The result of the step."""
        is_done, answer = pickle.load(self._process.stdout)
        if not is_done:
            raise Refused(answer)
        return answer

    def do(self, step: str, *arguments: Any) -> Any:
        self.begin(step, *arguments)
        return self.answer()

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


class Disk:
    """A late disk, with a folder for everything and two clients."""

    def __init__(self, library: Path, folder: Path, names: bool) -> None:
        self.root = folder / "disk"
        self.root.mkdir()
        self._clock = folder / "clock"
        self._clock.write_bytes(bytes(8))
        self._library, self.names = library, names
        self.clients: list[Client] = []
        self.clock = Clock(str(self._clock))

    def client(self) -> Client:
        self.clients.append(Client(self._library, self.root, self._clock, self.names))
        return self.clients[-1]

    def later(self) -> None:
        """Let all clients see what the others have done."""
        self.clock.wait(LATE)


@pytest.fixture(scope="session")
def library(tmp_path_factory) -> Path:
    """The library that makes a process such a client."""
    compiler = shutil.which("cc")
    if sys.platform != "linux" or (compiler is None and not in_ci()):
        pytest.skip("needs Linux and a C compiler")
    made = tmp_path_factory.mktemp("late") / "late_files.so"
    source = Path(__file__).with_name("late_files.c")
    command = [compiler or "cc", "-shared", "-fPIC", "-O1", "-o", made, source, "-ldl", "-lpthread"]
    subprocess.run(command, check=True)
    return made


@pytest.fixture(params=few(["names", "folders"], ["folders"]))
def disk(request, library, tmp_path) -> Iterator[Disk]:
    """A disk that shows names late that were looked for, as NFS, or whole folders."""
    made = Disk(library, tmp_path.resolve(), request.param == "names")
    yield made
    for client in made.clients:
        client.kill()
