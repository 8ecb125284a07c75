"""A proxy before an object store that has bad days: errors, latency, connections that drop."""

from __future__ import annotations

import http.client
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

#: Headers of one connection, which do not travel on.
HOPS = ("connection", "keep-alive", "transfer-encoding", "content-length")


@dataclass
class Weather:
    """How the store behaves, by the same seed in the same way (as far as threads allow).

    Attributes
    ----------
    fails : float
        The share of requests answered with 500 or 503, without being carried out or, every second
        time, after they were.
    drops : float
        The share whose connection is closed in the middle of the answer.
    latency : tuple of float
        Seconds before the answer, from and to.
    silent : bool
        Accepts requests and never answers.
    refuses : (int, bytes)
        The one answer to everything: status and body.
    when : str
        It refuses from the first request on that has this in its path.
    """

    fails: float = 0.0
    drops: float = 0.0
    latency: tuple[float, float] = (0.0, 0.0)
    silent: bool = False
    refuses: tuple[int, bytes] | None = None
    when: str = ""
    seed: int = 0
    #: What was done to requests: "answered", "failed", "failed late", "dropped", ...
    done: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._lock = threading.Lock()
        self.closed = threading.Event()

    def next(self, path: str) -> tuple[str, float]:
        """What happens to a request, and after how many seconds."""
        with self._lock:
            lot, delay = self._random.random(), self._random.uniform(*self.latency)
            what = "answered"
            if self.silent:
                what = "silence"
            elif self.refuses and (self.when in path or self.done["refused"]):
                what = "refused"
            elif lot < self.fails:
                what = "failed" if lot < self.fails / 2 else "failed late"
            elif lot < self.fails + self.drops:
                what = "dropped"
            self.done[what] += 1
            return what, delay


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    upstream = ""
    weather = Weather()

    def _any(self) -> None:
        body = self._body()
        what, delay = self.weather.next(unquote(self.path))
        time.sleep(delay)
        if what == "silence":
            self.weather.closed.wait()
            self.close_connection = True
            return
        if what == "refused" and self.weather.refuses:
            status, content = self.weather.refuses
            return self._answer(status, {"Content-Type": "application/xml"}, content)
        if what == "failed":
            return self._answer(503, {}, b"<Error><Code>SlowDown</Code></Error>")
        status, headers, content = self._forward(body)
        if what == "failed late":
            return self._answer(500, {}, b"<Error><Code>InternalError</Code></Error>")
        self._answer(status, headers, content, drop=what == "dropped")

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = do_PATCH = _any

    def _body(self) -> bytes:
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _forward(self, body: bytes) -> tuple[int, Any, bytes]:
        address = urlsplit(self.upstream).netloc
        there = http.client.HTTPConnection(address, timeout=60)
        headers = {k: v for k, v in self.headers.items() if k.lower() not in (*HOPS, "host")}
        there.request(self.command, self.path, body, {**headers, "Host": address})
        answer = there.getresponse()
        content = answer.read()
        there.close()
        return answer.status, answer.headers, content

    def _answer(self, status: int, headers: Any, content: bytes, drop: bool = False) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            if name.lower() not in HOPS:
                self.send_header(name, value)
        length = len(content)
        if self.command == "HEAD" or status in (204, 304):
            length = int(headers.get("Content-Length") or 0) if headers else 0
            content = b""
        self.send_header("Content-Length", str(length))
        self.end_headers()
        if drop:
            self.close_connection = True
            content = content[: len(content) // 2]
            self.wfile.write(content)
            self.wfile.flush()
            return
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, *_: Any) -> None:
        pass  # clients that have gone


@contextmanager
def proxy(upstream: str, weather: Weather) -> Iterator[str]:
    """The URL of a proxy before ``upstream``, in this weather."""
    handler = type("Handler", (Handler,), {"upstream": upstream, "weather": weather})
    server = Server(("localhost", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://localhost:{server.server_address[1]}"
    finally:
        weather.closed.set()
        with suppress(OSError):
            server.shutdown()
            server.server_close()
        thread.join()
