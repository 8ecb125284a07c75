"""Neuroglancer's client as its Python package has it, and the little that it asks a server for.

It is served below ``v/NAME/``. It listens to events that tell what to show (``s``) and how its panels are
set up (``c``), and sends the state back whenever the user changes it.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any

from beam_volumes.base.text import parsed_json
from beam_volumes.show.viewer.serving import Server, as_json

#: What a session of the client is called in its address.
NAME = "view"
#: Seconds between signs of life to a client that listens.
_ALIVE = 10.0


class Client:
    """One view, which every browser that opens it shares in."""

    def __init__(self, server: Server, state: dict[str, Any]) -> None:
        self.state, self._generation = state, "0"
        self._changed = threading.Condition()
        self._closed = False
        server.folder("v", client_folder(), f"{NAME}/")
        server.tellers["events"] = self._events
        server.takers["state"] = self._take_state
        server.takers["action"] = lambda _: as_json({})
        server.takers["volume_response"] = lambda _: as_json({})
        self.url = f"{server.url}v/{NAME}/index.html"

    def close(self) -> None:
        """Let those go that listen."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _events(self) -> Iterator[bytes]:
        yield json.dumps({"k": "c", "s": {}, "g": "0"}).encode()
        seen = None
        while not self._closed:
            with self._changed:
                if self._generation == seen:
                    self._changed.wait(_ALIVE)
                state, generation = self.state, self._generation
            if generation == seen:
                yield b""
            else:
                seen = generation
                yield json.dumps({"k": "s", "s": state, "g": generation}).encode()

    def _take_state(self, body: bytes) -> tuple[bytes, str]:
        """Keep what a user has changed, for who opens the view next."""
        sent = parsed_json(body)
        if not isinstance(sent, dict) or not {"s", "c", "g"} <= set(sent):
            raise ValueError("this is no state of a view")
        with self._changed:
            self.state, self._generation = sent["s"], f"{sent['c']}/{sent['g']}"
            return as_json({"g": self._generation})


def client_folder() -> str:
    """The folder of Neuroglancer's client; an error if it is not installed."""
    spec = find_spec("neuroglancer")
    for root in [] if spec is None else list(spec.submodule_search_locations or ()):
        folder = os.path.join(root, "static", "client")
        if os.path.isfile(os.path.join(folder, "index.html")):
            return folder
    raise ValueError("viewing needs Neuroglancer's client: pip install 'beam-volumes[view]'")


def reads_ome_zarr_05() -> bool:
    """Whether the client finds the metadata of OME-Zarr 0.5: that of 2.40 looks for those of 0.4 alone."""
    try:
        major, minor, *_ = version("neuroglancer").split(".")
        return (int(major), int(minor)) >= (2, 41)
    except (PackageNotFoundError, ValueError):
        return False
