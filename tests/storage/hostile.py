"""Opens damaged files one after the other, in a process that may die of them: see `test_hostile_files`.

The parent sends a list of jobs, each a path and the options of `open`. For each of them a line says that it
begins, and a line how it ended. A job that takes too long is ended by an alarm, and the process with it.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import resource
import signal
import sys
import warnings

#: Seconds of a job; the machine may be busy.
PATIENCE = 30
#: Bytes that jobs may take in addition to the memory of the process at its start.
ROOM = 2 << 30
#: What is decoded in one piece may be so large; a plan refuses more than its memory.
UNIT = 64 << 20
#: A volume's part that is read.
PART = 4 << 20

_LARGE = (
    0,
    1,
    0x7F,
    0xFF,
    0x7FFF,
    0xFFFF,
    0x7FFFFFFF,
    0xFFFFFFFF,
    1 << 40,
    (1 << 63) - 1,
    (1 << 64) - 1,
)


def mutated(data: bytes, seed: str) -> bytes:
    """A file with some of its header's bytes changed, always in the same way for a seed."""
    rng = random.Random(seed)
    new = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        _mutate(new, rng)
    return bytes(new)


def _mutate(data: bytearray, rng: random.Random) -> None:
    if not data:
        return
    at = _place(data, rng)
    kind = rng.choice(("flip", "number", "number", "block", "zeros", "cut", "digits", "grow"))
    if kind == "flip":
        data[at] ^= 1 << rng.randrange(8)
    elif kind == "number":
        size, order = rng.choice((1, 2, 4, 8)), rng.choice(("little", "big"))
        number = rng.choice((*_LARGE, rng.randrange(1 << 32))) & ((1 << 8 * size) - 1)
        data[at : at + size] = number.to_bytes(size, order)[: len(data) - at]
    elif kind == "block":
        size, of = rng.randrange(1, 64), _place(data, rng)
        data[at : at + size] = data[of : of + size]
    elif kind == "zeros":
        size = rng.randrange(1, 64)
        data[at : at + size] = bytes(len(data[at : at + size]))
    elif kind == "cut":
        del data[rng.choice((at, len(data) - rng.randrange(len(data)))) :]
    elif kind == "digits":  # where headers are texts
        digits = [k for k in range(min(len(data), 4096)) if 48 <= data[k] < 58]
        if digits:
            text = rng.choice(
                (b"9" * rng.randrange(1, 30), b"-1", b"0", b"1e400", b"nan", b'"', b"[]")
            )
            k = rng.choice(digits)
            data[k : k + 1] = text
    else:
        data[at:at] = bytes(data[at : at + 32]) * rng.randrange(1, 8)


def _place(data: bytearray, rng: random.Random) -> int:
    """Mostly in the first bytes, or in the last ones, where some formats have their tables."""
    where = rng.random()
    near = rng.randrange(min(len(data), rng.choice((64, 512, 4096))))
    if where < 0.6:
        return near
    return len(data) - 1 - near if where < 0.85 else rng.randrange(len(data))


def look(path: str, options: dict) -> str:
    """Open, and read some parts; how it went."""
    if path == "die":  # so that tests see that it is noticed
        os.abort()
    from beam_volumes.base.geometry import Box
    from beam_volumes.storage.inputs.opening import open_source

    try:
        if path == "take":
            bytearray(2 * ROOM)
        source = open_source(path, **options)
        for axis in source.space.leading:
            source = source.point(axis, source.leading[source.space.leading.index(axis)] - 1)
        if max(source.chunk_bytes, source.decode_bytes) > UNIT:
            return "large"
        if not source.nbytes:
            return "empty"
        part = [min(n, c) for n, c in zip(source.shape, source.chunk, strict=True)]
        while part[0] * part[1] * part[2] * source.dtype.itemsize > PART:
            k = part.index(max(part))
            part[k] = -(-part[k] // 2)
        for corner in (0, 1):
            start = [corner * (n - p) for n, p in zip(source.shape, part, strict=True)]
            stop = [a + p for a, p in zip(start, part, strict=True)]
            source.read(Box(tuple(start), tuple(stop)))
    except (ValueError, OSError) as error:
        if not str(error).replace("\n", "").isprintable() or not str(error):
            return f"BAD: {type(error).__name__} says {str(error)!r}"
        return "refused"
    except BaseException as error:
        return f"BAD: {type(error).__name__}: {str(error)[:500]}"
    return "read"


def main() -> None:
    """Do jobs of a list in a file, from the one on that is named."""
    with open(sys.argv[1]) as file:
        jobs = json.load(file)
    out = os.fdopen(os.dup(1), "w")
    with contextlib.ExitStack() as stack:
        # What libraries print of damaged files is not for us.
        nothing = stack.enter_context(open(os.devnull, "w"))
        if "--loud" not in sys.argv:
            os.dup2(nothing.fileno(), 1)
            os.dup2(nothing.fileno(), 2)
        warnings.simplefilter("ignore")
        limited = False
        for number in range(int(sys.argv[2]), len(jobs)):
            job = jobs[number]
            path = job["path"]
            if job["seed"] is not None:
                with open(job["of"], "rb") as file:
                    data = mutated(file.read(), job["seed"])
                with open(job["to"], "wb") as file:
                    file.write(data)
            print(f"begin {number}", file=out, flush=True)
            signal.alarm(PATIENCE)
            result = look(path, job["options"])
            signal.alarm(0)
            print(f"end {number} {result}", file=out, flush=True)
            if not limited:  # after the first one, which brings libraries and threads
                with open("/proc/self/statm") as file:
                    held = int(file.read().split()[0]) * resource.getpagesize()
                resource.setrlimit(resource.RLIMIT_AS, (held + ROOM, held + ROOM))
                limited = True


if __name__ == "__main__":
    main()
