"""A local server for viewers: files by ranges, computed chunks, and the viewer itself.

It listens on the loopback interface only. Addresses begin with a secret, and the host in a request
has to be this machine: other pages in the browser cannot read anything.
"""

from __future__ import annotations

import json
import mimetypes
import os
import re
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

#: Returns the bytes and type of a path, or None.
Answer = Callable[[str], "tuple[bytes, str] | None"]
#: Handles the body of a POST request, and returns the response.
Take = Callable[[bytes], "tuple[bytes, str]"]
#: Yields events for a browser; an empty one keeps the connection alive.
Events = Callable[[], Iterator[bytes]]

_RANGE = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})")
_LENGTH = re.compile(r"[0-9]{1,18}")
#: Failed requests that are kept, and the maximal length of an address in them.
_NOTED, _SHOWN = 1000, 200
_PIECE = 1 << 20
#: Maximal bytes of a POST request.
MAX_SENT = 16 << 20


class Server:
    """Serves folders and functions by name; port 0 chooses a free one.

    >>> from urllib.request import urlopen
    >>> server = Server()
    >>> server.answers("hello", lambda path: (f"you asked for {path}".encode(), "text/plain"))
    >>> with server:
    ...     urlopen(server.url + "hello/a/b").read()
    b'you asked for a/b'
    """

    def __init__(self, port: int = 0) -> None:
        self._folders: dict[str, tuple[str, str]] = {}
        self._answers: dict[str, Answer] = {}
        self.post_handlers: dict[str, Take] = {}
        self.event_streams: dict[str, Events] = {}
        self._http = _Http(("127.0.0.1", port), _Handler)
        self._http.of = self
        self.word = secrets.token_urlsafe(12)
        #: Failed requests with their errors.
        self.failed: list[str] = []
        #: The address of all, with a slash at its end.
        self.url = f"http://127.0.0.1:{self._http.server_port}/{self.word}/"

    def folder(self, name: str, path: str, below: str = "") -> None:
        """Serve the files of a folder, and no others, as ``name/below...``."""
        self._folders[name] = (os.path.realpath(path), below)

    def answers(self, name: str, answer: Answer) -> None:
        """Serve the results of a function."""
        self._answers[name] = answer

    def file(self, name: str, path: str) -> str | None:
        """Return the file of a folder for a path, or None."""
        root, below = self._folders.get(name, ("", ""))
        if not root or "\0" in path or not path.startswith(below):
            return None
        found = os.path.realpath(os.path.join(root, path.removeprefix(below)))
        if os.path.commonpath([root, found]) != root or not os.path.isfile(found):
            return None
        return found

    def answer(self, name: str, path: str) -> tuple[bytes, str] | None:
        function = self._answers.get(name)
        return None if function is None else function(path)

    def fail(self, what: str, error: Exception) -> None:
        self.failed.append(f"{what}: {type(error).__name__}: {error}")
        del self.failed[:-_NOTED]

    def serve(self) -> None:
        """Serve in this thread until `close` is called."""
        self._http.serve_forever(poll_interval=0.2)

    def __enter__(self) -> Server:
        threading.Thread(target=self.serve, name="beam-volumes server", daemon=True).start()
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()


@contextmanager
def port_in_use(port: int) -> Iterator[None]:
    """Name the port in the error of an address that another program uses, or that needs rights."""
    try:
        yield
    except OSError as error:
        raise OSError(
            f"port={port}: {error.strerror}; choose a different port, or 0 for any"
        ) from error


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    of: Server

    def server_bind(self) -> None:
        with port_in_use(self.server_address[1]):
            super().server_bind()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Do nothing: the base class prints a traceback for each broken connection of anyone."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    #: Seconds without data after which a connection, which has a thread, ends.
    timeout = 60
    server: _Http

    def do_GET(self) -> None:
        self._respond(lambda: self._answer(with_body=True))

    def do_HEAD(self) -> None:
        self._respond(lambda: self._answer(with_body=False))

    def do_POST(self) -> None:
        self._respond(self._take)

    def _take(self) -> None:
        name, _ = self._asked()
        take = self.server.of.post_handlers.get(name)
        length = self.headers.get("Content-Length", "")
        if take is None or not _LENGTH.fullmatch(length) or int(length) > MAX_SENT:
            self.close_connection = True  # the body stays unread
            self._send(403, b"", "text/plain", True)
            return
        self._send(200, *take(self.rfile.read(int(length))), True)

    def _asked(self) -> tuple[str, str]:
        """Return the requested name and the path below it; empty without the secret."""
        host = (self.headers.get("Host") or "").rpartition(":")[0]
        parts = unquote(urlsplit(self.path).path).split("/", 3)
        if (
            host not in ("127.0.0.1", "localhost")
            or len(parts) < 3
            or not secrets.compare_digest(parts[1].encode(), self.server.of.word.encode())
        ):
            return "", ""
        return parts[2], parts[3] if len(parts) > 3 else ""

    def log_message(self, *_: Any) -> None:
        """Log nothing."""

    def _respond(self, act: Callable[[], None]) -> None:
        """Respond to a request; an invalid one is refused without a traceback."""
        try:
            act()
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True  # the client has disconnected
        except Exception as error:
            self.close_connection = True
            before, secret, path = self.path.partition(f"/{self.server.of.word}/")
            if secret:  # what others ask for is not kept
                self.server.of.fail(f"{before}/{path}"[:_SHOWN], error)
            with suppress(OSError):
                self._send(400, b"invalid request", "text/plain", True)

    def _answer(self, with_body: bool) -> None:
        server = self.server.of
        name, rest = self._asked()
        if self.path == "/favicon.ico":  # browsers request it automatically
            self._send(204, b"", "image/x-icon", with_body)
            return
        if not name:
            self.close_connection = True
            self._send(403, b"", "text/plain", with_body)
            return
        if name in server.event_streams and with_body:
            self._send_events(server.event_streams[name]())
            return
        file = server.file(name, rest)
        if file is not None:
            self._send_file(file, with_body)
            return
        try:
            found = server.answer(name, rest)
        except Exception as error:
            server.fail(f"{name}/{rest}", error)
            self._send(500, " ".join(str(error).split()).encode(), "text/plain", with_body)
            return
        if found is None:
            self._send(404, b"", "text/plain", with_body)
        else:
            self._send(200, *found, with_body)

    def _send_events(self, events: Iterator[bytes]) -> None:
        self.close_connection = True
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Cache-Control", "no-cache")
        self.end_headers()
        for event in events:
            self.wfile.write(b"data: " + event + b"\n\n" if event else b":\n\n")
            self.wfile.flush()

    def _send(
        self,
        status: int,
        body: bytes,
        kind: str,
        with_body: bool,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-cache")
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        if with_body:
            self.wfile.write(body)

    def _send_file(self, path: str, with_body: bool) -> None:
        kind = mimetypes.guess_type(path)[0] or "application/octet-stream"
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            span = self._range(size)
            if span is None:
                self._send(416, b"", kind, with_body, {"Content-Range": f"bytes */{size}"})
                return
            first, stop, partial = span
            self.send_response(206 if partial else 200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(stop - first))
            self.send_header("Accept-Ranges", "bytes")
            self.send_header("Cache-Control", "no-cache")
            if partial:
                self.send_header("Content-Range", f"bytes {first}-{stop - 1}/{size}")
            self.end_headers()
            file.seek(first)
            while with_body and first < stop:
                piece = file.read(min(_PIECE, stop - first))
                if not piece:
                    self.close_connection = True
                    return
                self.wfile.write(piece)
                first += len(piece)

    def _range(self, size: int) -> tuple[int, int, bool] | None:
        """Return the requested range of bytes; None if it is outside the file."""
        asked = self.headers.get("Range")
        match = None if asked is None else _RANGE.fullmatch(asked.strip())
        if match is None or match.groups() == ("", ""):
            return 0, size, False
        a, b = match.groups()
        if a == "":
            return max(0, size - int(b)), size, True
        first, stop = int(a), size if b == "" else min(size, int(b) + 1)
        return (first, stop, True) if first < stop else None


def as_json(document: Any) -> tuple[bytes, str]:
    """A document as an answer."""
    return json.dumps(document).encode(), "application/json"
