"""Whether workers elsewhere can take part in a run, asked before any step of it reaches them.

A worker that lacks this package can unpickle nothing of ours, and one of another Python no function that
is pickled by value. So the `Probe` is pickled as the text of this module, to be run by `eval`. Hence this
module imports nothing but what every worker of Beam has, until it knows that they agree.
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

#: How many elements go to the workers: a runner gives them to as many workers as it has by then.
_COPIES = 64

Versions = dict[str, str]


class Probe(beam.DoFn):
    """Checks the worker that gets its first element, and emits for each as many as asked.

    Parameters
    ----------
    versions : dict
        `versions` of the machine that asks.
    needs : bytes
        A pickled object with a method ``check`` that raises what is wrong with the worker. It is unpickled
        once the versions agree.
    secret : str
        The run's, as `error_transport` has it in marks.
    copies : int
    """

    def __init__(self, versions: Versions, needs: bytes, secret: str, copies: int = 1):
        self.versions, self.needs, self.secret, self.copies = versions, needs, secret, copies
        self.fit = False

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        arguments = (self.versions, self.needs, self.secret, self.copies)
        # Workers pickle what they have unpickled: there the text is a variable.
        text = globals().get("text") or inspect.getsource(sys.modules[__name__])
        space = {"__name__": __name__, "text": text}
        return eval, (
            f"(lambda v: (exec(v['text'], v), v['Probe'](*{arguments!r}))[1])({space!r})",
        )

    def process(self, element: Any) -> Iterator[int]:
        """Raise what is wrong, in such a way that it can be read out of a runner's text."""
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
    remedy = "install there what is installed where the run was begun"
    try:
        theirs = versions()
        for name, version in ours.items():
            if theirs[name] != version:
                raise OSError(
                    f"{who} has {name} {theirs[name]}, and this run was begun with {version}; {remedy}"
                )
        needed = pickle.loads(needs)
    except ImportError as error:
        raise OSError(f"{who} cannot work for this run: {error}; {remedy}") from None
    needed.check()


def versions() -> Versions:
    """Of what must agree for one process to work for another, as far as it must."""
    found = {"Python": "{}.{}".format(*sys.version_info)}
    for name, digits in (("beam_volumes", None), ("apache_beam", 2), ("numpy", 1)):
        version: str = importlib.import_module(f"{name}.version").__version__
        found[name] = ".".join(version.split(".")[:digits])
    return found


def probed(pipeline: beam.Pipeline, needs: Any, secret: str) -> beam.PCollection:
    """Check workers: what waits for all elements of this runs only if all of them were found fit.

    The step after the shuffle runs on as many workers as the runner has. That before it keeps the
    functions of the shuffle, which are pickled by value, from workers that cannot take them.
    """
    ours, pickled = versions(), pickle.dumps(needs)
    return (
        pipeline
        | "Ask" >> beam.Impulse()
        | "Probe one" >> beam.ParDo(Probe(ours, pickled, secret, _COPIES)).with_output_types(int)
        | "Spread" >> beam.Reshuffle()
        | "Probe all" >> beam.ParDo(Probe(ours, pickled, secret)).with_output_types(int)
    )
