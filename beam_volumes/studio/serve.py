"""`studio`: the editor of recipes as a page of this machine.

One server of the process, on the loopback interface, serves every editor under an address with a secret.
Requests without it are refused, and so are requests of other pages, by their ``Host`` and ``Origin``.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from importlib.util import find_spec
from typing import Any

from beam_volumes.graph.keywords import checked_keywords
from beam_volumes.graph.nodes import SourceNode
from beam_volumes.graph.volume import Volume, as_volume
from beam_volumes.recipes.recipe import NAME, read_text
from beam_volumes.show.viewer.serving import port_in_use
from beam_volumes.storage.inputs.opening import local_paths
from beam_volumes.studio.document import Document
from beam_volumes.studio.state import Folders
from beam_volumes.studio.workspace import Workspace, new_text

#: The output of a new recipe.
OUTPUT = "studio.ome.zarr"
#: The path of an input that is a volume of this process.
IN_MEMORY = "in-memory"
_SECONDS = 30.0


class Studio:
    """An editor at the address ``url`` that is served until `close` is called or the process ends."""

    def __init__(self, workspace: Workspace, path: str | None, port: int = 0) -> None:
        if find_spec("nicegui") is None:
            raise ValueError("the studio needs NiceGUI: pip install 'beam-volumes[studio]'")
        if port not in range(1 << 16):
            raise ValueError(
                f"studio: port={port} is out of range; give 0 to {(1 << 16) - 1}, 0 for a free one"
            )
        self.workspace = workspace
        #: The recipe's file.
        self.path = path
        self._word = secrets.token_urlsafe(18)
        self.url = f"http://127.0.0.1:{_server(port)}/{self._word}/"
        _studios[self._word] = self

    @property
    def recipe(self) -> str:
        """The text of the recipe as it is now."""
        return self.workspace.document.text

    def close(self) -> None:
        """Stop serving, and stop a run."""
        _studios.pop(self._word, None)
        self.workspace.close()

    def __enter__(self) -> Studio:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<studio at {self.url}>"

    def _repr_html_(self) -> str:
        return f'<a href="{self.url}" target="_blank">Studio</a>'


_studios: dict[str, Studio] = {}
_ports: list[int] = []
_lock = threading.Lock()


def _server(port: int) -> int:
    """Start the server of this process if it does not run yet; return its port."""
    with _lock:
        if not _ports:
            listening = socket.socket()
            with port_in_use(port):
                listening.bind(("127.0.0.1", port))
            _start(listening)
            _ports.append(listening.getsockname()[1])
        elif port not in (0, _ports[0]):
            raise ValueError(
                f"studio: port={port} is not possible: this process serves at {_ports[0]} already"
            )
        return _ports[0]


def _start(listening: socket.socket) -> None:
    import uvicorn
    from fastapi import FastAPI
    from nicegui import ui

    from beam_volumes.studio.page import StudioPage

    host = f"127.0.0.1:{listening.getsockname()[1]}"
    app = FastAPI(openapi_url=None)

    @ui.page("/", title="beam-volumes studio", response_timeout=_SECONDS)
    def page() -> None:
        studio = _studios.get(ui.context.client.request.scope["root_path"][1:])
        if studio is not None:  # not closed meanwhile
            StudioPage(studio.workspace, studio.path)

    ui.run_with(app, show_welcome_message=False, reconnect_timeout=10.0)
    # Warnings of missing files show their addresses, which contain the secret.
    logging.getLogger("nicegui").setLevel(logging.ERROR)
    logging.getLogger("engineio.server").setLevel(logging.CRITICAL)
    # h11 limits the size of headers; httptools does not.
    config = uvicorn.Config(
        guarded(app, host), log_level="error", http="h11", ws_max_size=1 << 20, lifespan="on"
    )
    server = uvicorn.Server(config)
    threading.Thread(
        target=server.run, args=([listening],), name="beam-volumes studio", daemon=True
    ).start()
    end = time.monotonic() + _SECONDS
    while not server.started:
        if time.monotonic() > end:
            raise RuntimeError("the server of the studio did not start")
        time.sleep(0.02)


App = Callable[[Any, Any, Any], Awaitable[None]]


def guarded(app: App, host: str) -> App:
    """Return an application that refuses requests without a secret, or from other pages."""
    # They are refused before the application, which keeps a client for each. The secret is the first part of
    # every address, also of scripts and sockets, and the application's ``root_path``.

    async def checked(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] in ("http", "websocket"):
            status = _refusal(scope, host)
            if status and scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
                return
            if status:
                await send({"type": "http.response.start", "status": status, "headers": []})
                await send({"type": "http.response.body", "body": b""})
                return
            scope = {**scope, "root_path": f"/{scope['path'].split('/')[1]}"}
        await app(scope, receive, send)

    return checked


def _refusal(scope: Any, host: str) -> int:
    """Return the status for a request to refuse; 0 for others."""
    headers = {k.decode("latin-1").lower(): v.decode("latin-1") for k, v in scope["headers"]}
    if headers.get("host") != host or headers.get("origin", f"http://{host}") != f"http://{host}":
        return 403
    word, _, rest = str(scope["path"]).removeprefix("/").partition("/")
    is_known = rest == "" or rest.startswith(("_nicegui/", "_nicegui_ws/"))
    return 0 if word in _studios and is_known else 404


@checked_keywords
def studio(
    *items: Any,
    recipe: str | os.PathLike[str] | None = None,
    port: int = 0,
    memory: int | str | None = None,
    folders: Sequence[str] = (),
) -> Studio:
    """Edit a recipe in the browser, with live sections of a region and the estimated cost of the run.

    Use it to see the effect of parameters before processing the whole volume. Sections of every
    step are computed on demand, and equal the result of a run unless they are marked as
    provisional. Steps, parameters and outputs are edited as cards, and comments of the recipe are
    kept. The page needs NiceGUI (``pip install 'beam-volumes[studio]'``) and no network access.

    Parameters
    ----------
    *items : Volume, numpy.ndarray or str
        Inputs of a new recipe: paths, volumes or arrays. If there is a recipe, they replace its
        inputs, in order. A path that ends in ``.yaml`` is used as ``recipe``.
    recipe : str, optional
        Path of a recipe, or its multi-line text. If the path does not exist, a new recipe is saved
        there.
    port : int, default: 0
        Port of this machine; 0 chooses a free one.
    memory : int or str, optional
        Memory that a view or a run may use, such as ``"2GiB"``; a quarter of this machine's by
        default.
    folders : sequence of str, default: ()
        Additional folders that the recipe may read and write. By default, these are only the
        current folder and the folders of the inputs and the recipe.

    Returns
    -------
    Studio
        Open its ``url`` in a browser on this machine. ``recipe`` is the current text, and
        ``close()`` stops the server.

    Raises
    ------
    ValueError
        If NiceGUI is not installed, or there is neither an input nor a recipe. If an item cannot be
        opened, or the memory is too small for sections of an input. If the recipe is not valid YAML
        or has no inputs. Other errors of a recipe are shown on its cards.

    Notes
    -----
    A view computes only the planes that it shows, in less than a second for light filters.
    Whole-volume numbers of a large volume are first estimated from eight parts of it, and then
    computed exactly, which reads the volume once. Before the run, labels of a large volume are only
    computed in the region.

    Examples
    --------
    >>> em = np.random.default_rng(0).integers(0, 255, (16, 32, 32)).astype("u1")
    >>> page = bv.studio(em)
    >>> page.url.startswith("http://127.0.0.1:"), page.recipe.splitlines()[0]
    (True, 'input: in-memory')
    >>> page.close()
    """
    for folder in folders:
        if not os.path.isdir(folder):
            raise ValueError(f"folders: {folder} is not a folder; give an existing one")
    recipes = [i for i in map(_plain, items) if _is_recipe(i)] + (
        [] if recipe is None else [recipe]
    )
    if len(recipes) > 1:
        raise ValueError(f"{', '.join(map(str, recipes))}: give one recipe")
    items = tuple(i for i in items if not _is_recipe(_plain(i)))
    recipe = recipes[0] if recipes else None
    if not items and recipe is None:
        raise ValueError("studio() got nothing to edit; give a volume, or recipe=")
    paths = [i if isinstance(i, str) else _path_of(i) for i in map(_plain, items)]
    text, file = _recipe(recipe)
    if text is None and not items:
        raise ValueError(f"{file} does not exist; give a volume for a new recipe")
    if text is None:
        names = ["input"] if len(items) == 1 else _names(paths)
        text = new_text(dict(zip(names, paths, strict=True)), OUTPUT)
        document = Document(text)
    else:
        document = Document(text, file or "recipe")
        names = document.inputs()
        if len(items) > len(names):
            raise ValueError(f"{len(items)} inputs are given, but the recipe has {len(names)}")
        for name, given_path in zip(names, paths, strict=False):
            document.set_input(name, given_path)
    given = {
        n: as_volume(i)
        for n, i in zip(names, items, strict=False)
        if not isinstance(_plain(i), str)
    }
    places = [*paths, *([file] if file else [])]
    urls = [p for p in places if "://" in p]
    files = {f for p in places if "://" not in p for f in (p, *local_paths(p))}
    near = {os.path.dirname(g) for f in files for g in (os.path.abspath(f), os.path.realpath(f))}
    allowed = Folders([os.getcwd(), *filter(os.path.isdir, sorted(near)), *folders], urls)
    loaded = {file: text} if file and os.path.exists(file) else {}
    workspace = Workspace(document, allowed, given, memory, loaded)
    errors, known = workspace.state().errors, workspace.state().known
    for name, _ in zip(names, items, strict=False):
        if name in errors:
            raise ValueError(errors[name].removeprefix(f"{name}: "))
    for item in (known.get(name) for name in names):
        if memory is not None and isinstance(item, Volume):
            workspace.previews.check_memory(item)
    return Studio(workspace, file, port)


def _is_recipe(item: Any) -> bool:
    """Whether an item is the path of a recipe."""
    return isinstance(item, str) and item.lower().endswith((".yaml", ".yml"))


def _plain(item: Any) -> Any:
    return os.fspath(item) if isinstance(item, os.PathLike) else item


def _path_of(item: Any) -> str:
    """Return the path of a stored volume, or a word in its place."""
    node = item.nodes[0] if isinstance(item, Volume) else None
    asked = node.source.asked if isinstance(node, SourceNode) else None
    path = (asked or {}).get("path_or_spec")
    return path if isinstance(path, str) else IN_MEMORY


def _names(paths: Sequence[str]) -> list[str]:
    """Return names for inputs.

    >>> _names(["a/em.zarr", "b/em.tif", "3.tif"])
    ['em', 'em_2', 'in_3']
    """
    found: list[str] = []
    for path in paths:
        name = re.sub(r"\W+", "_", os.path.basename(path.rstrip("/")).partition(".")[0]) or "em"
        name = name if NAME.fullmatch(name) else f"in_{name}"
        same = [n for n in found if n == name or re.fullmatch(rf"{name}_\d+", n)]
        found.append(f"{name}_{len(same) + 1}" if same else name)
    return found


def _recipe(given: str | os.PathLike[str] | None) -> tuple[str | None, str | None]:
    """Return the text and the file of a recipe; no text for a new one."""
    if given is None:
        return None, None
    text = os.fspath(given)
    if "\n" in text:
        return text, None
    if "://" not in text and not os.path.exists(text):
        return None, text
    return read_text(text), text
