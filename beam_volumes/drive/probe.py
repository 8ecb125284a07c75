"""Check that remote workers can take part in a run, before its steps reach them.

A worker without this package cannot unpickle its objects, and one with another Python version
cannot unpickle functions by value. So the `Probe` is pickled as the text of this module, to be run
by `eval`. This module may therefore only import modules that every worker of Beam has, until the
versions agree.
"""

from __future__ import annotations

import base64
import importlib
import inspect
import json
import os
import pickle
import socket
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import apache_beam as beam

#: Number of elements for workers: a runner distributes them to all available workers.
_COPIES = 64

Versions = dict[str, str]


class Probe(beam.DoFn):
    """Checks its worker at the first element, and emits ``copies`` elements for each.

    ``versions`` are the driver's. ``needs`` is a pickled object with a method ``check``, which is
    unpickled if the versions agree. ``secret`` marks errors of the run: see `error_transport`.
    """

    def __init__(self, versions: Versions, needs: bytes, secret: str, copies: int = 1):
        self.versions, self.needs, self.secret, self.copies = versions, needs, secret, copies
        self.fit = False

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        arguments = (self.versions, self.needs, self.secret, self.copies)
        # Workers pickle the unpickled object again: there the text is a variable.
        text = globals().get("text") or inspect.getsource(sys.modules[__name__])
        space = {"__name__": __name__, "text": text}
        return eval, (
            f"(lambda v: (exec(v['text'], v), v['Probe'](*{arguments!r}))[1])({space!r})",
        )

    def process(self, element: Any) -> Iterator[int]:
        """Raise errors in a form that can be parsed from a runner's text."""
        try:
            if not self.fit:
                check(self.versions, self.needs)
                self.fit = True
        except Exception as error:
            trace = traceback.format_exc()
            data = {"kind": type(error).__name__, "arguments": [str(error)], "trace": trace}
            word = base64.b64encode(json.dumps(data).encode()).decode()
            raise RuntimeError(f"{error} [[beam-volumes:{self.secret}:{word}]]") from None
        yield from range(self.copies)


def check(ours: Versions, needs: bytes) -> None:
    """Raise OSError if this process cannot work for one with these versions and needs."""
    who = (
        f"the worker on {socket.gethostname()} ({sys.executable}, process {os.getpid()}, "
        f"Python {sys.version.split()[0]})"
    )
    remedy = "install the packages of the machine that started the run there"
    try:
        theirs = versions()
        for name, version in ours.items():
            if theirs[name] != version:
                raise OSError(
                    f"{who} has {name} {theirs[name]}, and this run was started with {version}; {remedy}"
                )
        needed = pickle.loads(needs)
    except ImportError as error:
        raise OSError(f"{who} cannot work for this run: {error}; {remedy}") from None
    needed.check()


def versions() -> Versions:
    """Return the parts of versions that must agree between processes."""
    found = {"Python": "{}.{}".format(*sys.version_info)}
    for name, digits in (("beam_volumes", None), ("apache_beam", 2), ("numpy", 1)):
        version: str = importlib.import_module(f"{name}.version").__version__
        found[name] = ".".join(version.split(".")[:digits])
    return found


def probed(pipeline: beam.Pipeline, needs: Any, secret: str) -> beam.PCollection:
    """Check workers: steps that wait for all elements only run if all workers passed.

    The step after the shuffle runs on all available workers. The step before it keeps the functions
    of the shuffle, which are pickled by value, from workers that cannot unpickle them.
    """
    ours, pickled = versions(), pickle.dumps(needs)
    return (
        pipeline
        | "Ask" >> beam.Impulse()
        | "Probe one" >> beam.ParDo(Probe(ours, pickled, secret, _COPIES)).with_output_types(int)
        | "Spread" >> beam.Reshuffle()
        | "Probe all" >> beam.ParDo(Probe(ours, pickled, secret)).with_output_types(int)
    )
