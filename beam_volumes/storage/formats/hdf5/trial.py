"""Read an HDF5 file's metadata in another process first.

HDF5's library crashes or hangs on some damaged files. So another process reads the metadata before
this one does. It is kept for further files, and exits when it is idle.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import threading
import time
from contextlib import suppress

import psutil

from beam_volumes.storage.places.errors import damaged
from beam_volumes.storage.places.positioned import Stamp, stamp_of

#: Seconds of computing after which a file is refused, and the number of files that are remembered
#: as valid.
PATIENCE, _KNOWN = 20.0, 10_000
#: Seconds after which a file is refused in any case, and between two checks.
LONGEST, _LOOK = 600.0, 1.0

#: The program of the other process. It only needs h5py, and gets this process's path.
_PROGRAM = """
import itertools, json, select, sys
given = json.loads(sys.argv[1])
sys.path[:] = given["path"]
try:
    import resource
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
except Exception:
    pass
import h5py

def tried(function, *args):
    try:
        return function(*args)
    except Exception:
        return None

def attributes(node):
    for name in given["attributes"]:
        if name in node.attrs:
            shape = node.attrs.get_id(name).shape
            if shape is not None and all(n < 4097 for n in shape):
                tried(lambda: node.attrs[name])

def dimensions(node):
    for d in range(len(node.shape)):
        list(node.dims[d].keys())

def filters(node):
    plist = node.id.get_create_plist()
    plist.get_layout()
    plist.get_external_count()
    for k in range(plist.get_nfilters()):
        plist.get_filter(k)

def chunks(node):
    if node.chunks:
        count = itertools.count()
        node.id.chunk_iter(lambda found: True if next(count) > 9999 else None)
    else:
        node.id.get_offset()

def values(node):
    if node.size is not None and node.size <= 4096:
        node[()]

def look(node):
    tried(attributes, node)
    if isinstance(node, h5py.Dataset):
        for what in ("shape", "dtype", "chunks", "fillvalue"):
            tried(getattr, node, what)
        tried(node.id.get_type)
        for function in (dimensions, filters, chunks, values):
            tried(function, node)

def trial(path, dataset):
    with h5py.File(path, "r") as file:
        tried(lambda: file.userblock_size)
        if dataset is not None:
            node = tried(file.get, dataset)
            if node is not None:
                look(node)
        groups, seen, count = [file], set(), 0
        while groups:
            group = groups.pop()
            for name in tried(list, itertools.islice(group, 20001)) or ():
                count += 1
                if count > 20000:
                    return
                link = tried(lambda: group.get(name, getlink=True))
                node = tried(group.get, name)
                if node is None or node.id in seen or not isinstance(link, h5py.HardLink):
                    continue
                seen.add(node.id)
                look(node)
                if isinstance(node, h5py.Group):
                    groups.append(node)

print("ready", flush=True)
while select.select([sys.stdin], [], [], 60)[0]:
    line = sys.stdin.readline()
    if not line:
        break
    tried(trial, *json.loads(line))
    print("done", flush=True)
"""

_lock = threading.Lock()
_known: set[tuple[str, Stamp, str | None]] = set()
_other: subprocess.Popen[bytes] | None = None
_owner = 0


def tried(path: str, dataset: str | None, attributes: tuple[str, ...]) -> None:
    """Read a file's metadata in another process; refuse the file if that crashes or hangs."""
    key = (path, stamp_of(path), dataset)
    with _lock:
        if key in _known:
            return
        other = _started(attributes)
        if other is None:  # not possible here
            return
        why = _answer(other, json.dumps([path, dataset]))
        if why is not None:
            _end()
            raise damaged(path, f"HDF5's library {why} its metadata")
        if len(_known) >= _KNOWN:
            _known.clear()
        _known.add(key)


def _started(attributes: tuple[str, ...]) -> subprocess.Popen[bytes] | None:
    global _other, _owner
    if _other is not None and _owner == os.getpid() and _other.poll() is None:
        return _other
    _other, _owner = None, os.getpid()
    if not sys.executable or os.name != "posix":
        return None
    given = json.dumps({"path": sys.path, "attributes": attributes})
    with suppress(OSError):
        _other = subprocess.Popen(
            [sys.executable, "-I", "-c", _PROGRAM, given],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        if _line(_other) != b"ready\n":
            _end()
    return _other


def _line(other: subprocess.Popen[bytes]) -> bytes | None:
    """Return the next line of the other process; None if it takes too long.

    Its CPU time counts: on a busy machine or disk it may wait for long.
    """
    assert other.stdout is not None
    begun, until = _seconds_of(other), time.monotonic() + LONGEST
    while not select.select([other.stdout], [], [], min(PATIENCE, _LOOK))[0]:
        if _seconds_of(other) - begun > PATIENCE or time.monotonic() > until:
            return None
    return other.stdout.readline()


def _seconds_of(other: subprocess.Popen[bytes]) -> float:
    """Return the CPU time of a process; 0 if it has ended."""
    try:
        times = psutil.Process(other.pid).cpu_times()
    except psutil.Error:
        return 0.0
    return float(times.user + times.system)


def _answer(other: subprocess.Popen[bytes], question: str) -> str | None:
    """Return None if the other process has read a file; else what happened."""
    assert other.stdin is not None
    try:
        other.stdin.write(question.encode() + b"\n")
        other.stdin.flush()
    except OSError:  # it has just exited because it was idle
        return None
    stated = _line(other)
    if stated is None:
        return f"has not ended in {PATIENCE:g} s of computing, or {LONGEST:g} s, while reading"
    return None if stated == b"done\n" else "crashes on"


def _end() -> None:
    global _other
    if _other is not None:
        _other.kill()
        _other.wait()
        for pipe in (_other.stdin, _other.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
    _other = None
