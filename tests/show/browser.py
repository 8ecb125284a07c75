"""Chromium without a window: opens a page, waits, and gives its picture and what went wrong.

It is spoken to through pipes (the DevTools protocol), so that no library is needed.
"""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

import pytest

from tests.peers import in_ci
from tests.waiting import PATIENCE

CHROMIUM = next(
    (p for n in ("chromium", "chromium-browser", "google-chrome") if (p := shutil.which(n))), None
)
_OPTIONS = (
    "--headless=new --no-sandbox --use-angle=swiftshader --enable-unsafe-swiftshader --hide-scrollbars "
    "--no-first-run --disable-extensions --disable-background-networking --remote-debugging-pipe"
)


def require():
    """Skip a test without chromium; where CI is set it fails."""
    if CHROMIUM is None and in_ci():
        pytest.fail("chromium is missing, and CI is set: install it (apt-get install chromium)")
    if CHROMIUM is None:
        pytest.skip("needs chromium")


class Page:
    """A page, its requests and its failures."""

    def __init__(self, size=(1200, 900)):
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()
        script = f'exec "$0" "$@" 3<&{to_read} 4>&{to_write}'
        options = [*_OPTIONS.split(), f"--window-size={size[0]},{size[1]}"]
        options += [f"--user-data-dir={self._folder.name}", "about:blank"]
        self._process = subprocess.Popen(
            ["bash", "-c", script, CHROMIUM, *options],
            pass_fds=(to_read, to_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(to_write)
        self._left, self._id, self._session = b"", 0, None
        self.requests, self.failures, self.messages = {}, [], []
        targets = self.call("Target.getTargets")["targetInfos"]
        target = next(t["targetId"] for t in targets if t["type"] == "page")
        found = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = found["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        self.call(
            "Target.setAutoAttach", autoAttach=True, waitForDebuggerOnStart=False, flatten=True
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.terminate()
        self._process.wait(PATIENCE)
        os.close(self._write)
        os.close(self._read)
        self._folder.cleanup()

    def call(self, method, **params):
        """Ask for something, and wait for the answer."""
        self._id += 1
        message = {"id": self._id, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        asked = self._id  # what is noted meanwhile may ask for more
        for found in self._messages(PATIENCE):
            if found.get("id") == asked:
                if "error" in found:
                    raise RuntimeError(f"{method}: {found['error']}")
                return found["result"]
        raise TimeoutError(method)

    def _messages(self, seconds):
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            while b"\0" in self._left:
                data, _, self._left = self._left.partition(b"\0")
                found = json.loads(data)
                self._note(found)
                yield found
            if select.select([self._read], [], [], left)[0]:
                data = os.read(self._read, 1 << 20)
                if not data:
                    raise RuntimeError("chromium has ended")
                self._left += data

    def _note(self, found):
        method, params = found.get("method"), found.get("params", {})
        if method == "Network.requestWillBeSent":
            self.requests[params["requestId"]] = params["request"]["url"]
        elif method == "Network.responseReceived" and params["response"]["status"] >= 400:
            self.failures.append(f"{params['response']['status']} {params['response']['url']}")
        elif method == "Network.loadingFailed" and not params.get("canceled"):
            self.failures.append(f"{params['errorText']} {self.requests.get(params['requestId'])}")
        elif method == "Runtime.exceptionThrown":
            self.messages.append(json.dumps(params["exceptionDetails"])[:500])
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.messages.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
        elif method == "Target.attachedToTarget" and params["targetInfo"]["type"] == "worker":
            own, self._session = self._session, params["sessionId"]
            self._send("Network.enable")
            self._session = own

    def _send(self, method):
        self._id += 1
        message = {"id": self._id, "method": method, "params": {}, "sessionId": self._session}
        os.write(self._write, json.dumps(message).encode() + b"\0")

    def open(self, url):
        self.call("Page.navigate", url=url)

    def until(self, expression, seconds=PATIENCE):
        """Wait until a JavaScript expression is true."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
            if found["result"].get("value"):
                return
            self.listen()
        raise TimeoutError(f"{expression}; {self.messages}; {self.failures}")

    def listen(self, seconds=0.3):
        """Note the requests and errors of a while."""
        for _ in self._messages(seconds):
            pass

    def picture(self):
        """A screenshot as PNG."""
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])
