"""Serve Neuroglancer's client of its Python package, and handle its requests.

It is served below ``v/NAME/``. It receives its state (``s``) and the configuration of its panels
(``c``) as events, and sends the state back whenever the user changes it.
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

#: The name of the client's session in its address.
NAME = "view"
#: Seconds between keep-alive messages to a client.
_ALIVE = 10.0


class Client:
    """A view that is shared by all browsers that open it."""

    def __init__(self, server: Server, state: dict[str, Any]) -> None:
        self.state, self._generation = state, "0"
        self._changed = threading.Condition()
        self._closed = False
        server.folder("v", client_folder(), f"{NAME}/")
        server.event_streams["events"] = self._events
        server.post_handlers["state"] = self._take_state
        server.post_handlers["action"] = lambda _: as_json({})
        server.post_handlers["volume_response"] = lambda _: as_json({})
        self.url = f"{server.url}v/{NAME}/index.html"

    def close(self) -> None:
        """End the event streams of all clients."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _events(self) -> Iterator[bytes]:
        yield json.dumps({"k": "c", "s": {}, "g": "0"}).encode()
        sent_generation = None
        while not self._closed:
            with self._changed:
                if self._generation == sent_generation:
                    self._changed.wait(_ALIVE)
                state, generation = self.state, self._generation
            if generation == sent_generation:
                yield b""
            else:
                sent_generation = generation
                yield json.dumps({"k": "s", "s": state, "g": generation}).encode()

    def _take_state(self, body: bytes) -> tuple[bytes, str]:
        """Keep the state that a user has changed, for other browsers."""
        sent = parsed_json(body)
        if not isinstance(sent, dict) or not {"s", "c", "g"} <= set(sent):
            raise ValueError("the request has no state of a view; send the keys s, c and g")
        with self._changed:
            self.state, self._generation = sent["s"], f"{sent['c']}/{sent['g']}"
            return as_json({"g": self._generation})


def client_folder() -> str:
    """Return the folder of Neuroglancer's client; an error if it is not installed."""
    spec = find_spec("neuroglancer")
    for root in [] if spec is None else list(spec.submodule_search_locations or ()):
        folder = os.path.join(root, "static", "client")
        if os.path.isfile(os.path.join(folder, "index.html")):
            return folder
    raise ValueError("viewing needs Neuroglancer's client: pip install 'beam-volumes[view]'")


def reads_ome_zarr_05() -> bool:
    """Whether the client reads metadata of OME-Zarr 0.5; version 2.40 only reads 0.4."""
    try:
        major, minor, *_ = version("neuroglancer").split(".")
        return (int(major), int(minor)) >= (2, 41)
    except (PackageNotFoundError, ValueError):
        return False
