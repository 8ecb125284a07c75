"""The page in a real browser, and the server behind it."""

import contextlib
import html
import http.client
import json
import os
import socket
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from unittest.mock import Mock
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import numpy as np
import pytest

import beam_volumes as bv
from beam_volumes.cli.main import main
from beam_volumes.cli.specimen import write_specimen
from beam_volumes.cli.verbs.view import browse
from beam_volumes.recipes.document import load
from beam_volumes.session.local import Stopped
from beam_volumes.show.picture import png_uri
from beam_volumes.studio.preview import Region, joined, overlaid, painted, side_by_side
from beam_volumes.studio.workspace import Workspace
from tests.show import browser
from tests.tiers import thorough
from tests.waiting import PATIENCE, wait_until

SHAPE = (32, 160, 200)
SIZE = 512
RNG = np.random.default_rng(0)


@pytest.fixture(scope="module")
def studio(tmp_path_factory):
    """The address of a studio of the demo's slices, in a process of its own, and its folder."""
    folder = tmp_path_factory.mktemp("studio")
    write_specimen(folder / "slices", SHAPE)
    words = [sys.executable, "-m", "beam_volumes", "studio", "slices", "r.yaml", "--print"]
    process = subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, text=True)
    try:
        yield process.stdout.readline().strip(), folder
    finally:
        process.terminate()
        process.wait(PATIENCE)


def status(url, **headers):
    try:
        with urlopen(Request(url, headers=headers)) as answer:
            return answer.status
    except HTTPError as error:
        return error.code


def test_only_this_machine_with_the_secret_is_served(studio):
    url, folder = studio
    place = urlsplit(url)
    assert place.hostname == "127.0.0.1" and len(place.path) > 20
    assert status(url) == 200
    top = f"http://{place.netloc}"
    assert status(top) == status(f"{top}/guess/") == status(f"{top}/openapi.json") == 404
    assert status(url, Host="evil.example") == status(url, Origin="http://evil.example") == 403
    assert status(url, Origin=f"http://127.0.0.1:1{place.port}") == 403
    # A page of another port must not open a socket either.
    headers = {
        "Host": place.netloc,
        "Origin": "http://127.0.0.1:1",
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "x" * 22 + "==",
    }
    for origin, word, want in (
        ("http://127.0.0.1:1", place.path, 403),
        (top, "/", 403),
        (top, "/guess/", 403),
        (top, place.path, 101),
    ):
        connection = http.client.HTTPConnection(place.netloc, timeout=PATIENCE)
        path = f"{word}_nicegui_ws/socket.io/?EIO=4&transport=websocket"
        connection.request("GET", path, headers={**headers, "Origin": origin})
        assert connection.getresponse().status == want
        connection.close()
    assert sorted(os.listdir(folder)) == ["slices"]


def test_requests_without_the_secret_keep_nothing_and_print_nothing(tmp_path, capfd):
    """Nor does a wrong address below the secret print it."""
    nicegui = pytest.importorskip("nicegui")
    with bv.studio(np.zeros((4, 5, 6), "u1")) as page:
        top, word = page.url[: -len(urlsplit(page.url).path)], urlsplit(page.url).path
        assert status(page.url) == status(page.url[:-1]) == 200
        before = len(nicegui.Client.instances)
        without = ("", "/", "/guess/", "//", f"/x{word}", "/_nicegui/x", f"/{word[1:-2]}/", "/%00/")
        static = f"/_nicegui/{nicegui.__version__}/static/nicegui.js"
        for path in (*without * 10, static, "/_nicegui_ws/socket.io/?EIO=4&transport=polling"):
            assert status(top + path) == 404, path
        for path in ("missing", "//", "_nicegui_/x", ".", "..", "%2e%2e/"):
            assert status(page.url + path) == 404, path
        assert len(nicegui.Client.instances) == before
        for path in ("_nicegui/missing", "_nicegui_ws/socket.io/?EIO=3&transport=polling"):
            assert status(page.url + path) in (400, 404)
        assert status(top + word[:-1] + static) == 200
    assert status(page.url) == 404
    assert "".join(capfd.readouterr()) == ""


def test_headers_without_an_end_are_refused(studio):
    """Else a request would fill the memory before its address is read."""
    place = urlsplit(studio[0])
    with socket.create_connection((place.hostname, place.port), PATIENCE) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\n")
        with contextlib.suppress(ConnectionError):
            for _ in range(1000):
                connection.sendall(b"a: " + b"b" * 1000 + b"\r\n")
            connection.settimeout(PATIENCE)
            assert connection.recv(100).startswith(b"HTTP/1.1 400")


@pytest.mark.parametrize("verb", ["studio", "view"])
def test_the_secret_is_in_no_argument_of_the_browser(verb, tmp_path, monkeypatch, capsys):
    """Other users see the arguments of a process; the browser opens a file that only its owner reads."""
    if verb == "view":
        pytest.importorskip("neuroglancer")
    monkeypatch.chdir(tmp_path)
    np.save("em.npy", np.zeros((4, 5, 6), "u1"))
    opened = []
    monkeypatch.setattr("webbrowser.open", lambda url: opened.append(url))
    ended = Mock(side_effect=KeyboardInterrupt)
    monkeypatch.setattr("beam_volumes.cli.verbs.view.threading", Mock(Event=ended))
    assert main([verb, "em.npy"]) == 0
    url = capsys.readouterr().out.strip()
    (given,) = opened
    file = Path(urlsplit(given).path)
    assert given.startswith("file:///") and urlsplit(url).path.strip("/") not in given
    assert f'content="0; url={html.escape(url)}"' in file.read_text()
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


@thorough
def test_the_file_of_the_browser_leads_to_the_page(studio, monkeypatch):
    browser.require()
    opened = []
    monkeypatch.setattr("webbrowser.open", lambda url: opened.append(url))
    browse(studio[0])
    with Tab((1280, 900)) as page:
        page.open(opened[0])
        page.shows("as the run writes it")
        assert page.value("location.href") == studio[0] and page.failures == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("nothere.npy", "nothere.npy does not exist"),
        ("empty", "it is empty"),
        ("*.tif", "no files match"),
        ("nothere.yaml", "nothere.yaml does not exist; give a volume"),
        ("em.npy em.npy {input: em.npy}", "2 inputs are given"),
        ("em.npy a.yaml b.yml", "a.yaml, b.yml: give one recipe"),
        ("em.npy --folder nothere", "nothere is not a folder"),
        ("em.npy --memory 1KiB", "The smallest memory that works is"),
        ("{input: [}", "r.yaml:1: not YAML"),
        ("[1, 2]", "r.yaml:1: a recipe must be a mapping"),
        ("{output: o.zarr}", "r.yaml:1: a recipe needs input"),
        ("{input: em.npy, steps: [label]}", "r.yaml:1: steps must be a mapping"),
        ("{input: em.npy, outputs: 3}", "r.yaml:1: outputs must be a list"),
    ],
)
def test_what_cannot_be_edited_is_refused_at_the_start(
    words, message, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    np.save("em.npy", np.zeros((4, 5, 6), "u1"))
    at = min(k for k in (words.find("{"), words.find("["), len(words)) if k >= 0)
    given = words[:at].split()
    if at < len(words):
        Path("r.yaml").write_text(words[at:])
        given.append("r.yaml")
    assert main(["studio", *given, "--print"]) == 2
    assert message in capsys.readouterr().err


class Tab(browser.Page):
    """A page with what a user does."""

    def value(self, expression):
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        return found["result"].get("value")

    def shows(self, text):
        self.until(f"document.body.innerText.includes({json.dumps(text)})")

    def click(self, text):
        """Click a button by its text or its name for screen readers."""
        wanted = json.dumps(text.lower())
        self.until(
            "(b = [...document.querySelectorAll('button')].find(b => !b.disabled && "
            f"[b.textContent.trim().toLowerCase(), b.ariaLabel?.toLowerCase()].includes({wanted}))) "
            "&& (b.click(), true)"
        )

    def type(self, label, text):
        field = f"document.querySelector('input[aria-label={json.dumps(label)}]')"
        self.until(f"{field} && ({field}.focus(), {field}.select(), true)")
        self.call("Input.insertText", text=text)

    def key(self, name, code):
        text = {"text": "\r"} if name == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent", type=kind, key=name, windowsVirtualKeyCode=code, **text
            )

    def remember(self):
        """Keep the picture of the first section, for `changes`."""
        self.value("window.before = document.querySelector('.studio-image img').src; 0")

    def changes(self):
        self.until("document.querySelector('.studio-image img').src != window.before")

    def tab_to(self, wanted):
        """Press Tab until an element has the focus, by its text or its name for screen readers."""
        at = (
            "(e = document.activeElement, [e.ariaLabel, e.textContent.trim().toLowerCase(), "
            "e.parentElement?.closest('[aria-label]')?.ariaLabel, e.closest('tbody') && 'row'])"
        )
        for _ in range(300):
            if wanted in self.value(at):
                return
            self.key("Tab", 9)
        raise AssertionError(f"{wanted} cannot be reached with Tab")

    def choose(self, label, text):
        """Choose an item of a select with the mouse, again if an update of the page closes its menu."""
        item = (
            "(i = [...document.querySelectorAll('.q-menu .q-item')].find(i => "
            f"i.innerText == {json.dumps(text)})) && (i.click(), true)"
        )
        for _ in range(int(PATIENCE / 10)):
            self.drag(f'input[aria-label="{label}"]', (0.5, 0.5), (0.5, 0.5))
            with contextlib.suppress(TimeoutError):
                return self.until(item, seconds=10)
        raise TimeoutError(f"{text} in {label}")

    def boxes(self, selectors):
        """Scroll to the first of some elements, and return x, y, width and height of each when they stay."""
        found = []

        def stay():
            found.append(
                self.value(
                    f"(all = {json.dumps(selectors)}.map(s => document.querySelector(s)), "
                    "all.every(e => e) && (all[0].scrollIntoView({block: 'center'}), "
                    "all.map(e => e.getBoundingClientRect()).map(r => [r.x, r.y, r.width, r.height])))"
                )
            )
            return found[-1] == found[-2:][0] and len(found) > 1 and found[-1]

        return wait_until(stay, f"{selectors} in one place", check=self.listen)

    def drag(self, selector, begin, end, onto=None):
        """Press the mouse in an element and release it there or in another; places are (x, y)."""
        boxes = self.boxes([selector, onto or selector])
        (x, y), (to_x, to_y) = (
            [box[k] + part[k] * box[k + 2] for k in range(2)]
            for box, part in zip(boxes, (begin, end), strict=True)
        )
        middle = ((x + to_x) / 2, (y + to_y) / 2)
        places = [("Pressed", (x, y)), ("Moved", middle), ("Moved", (to_x, to_y))]
        if onto:  # Chromium drops nothing where it has not been over the target before
            places += [("Moved", (to_x + 1, to_y))] * 2
        for kind, (x, y) in [*places, ("Released", (to_x, to_y))]:
            time.sleep(0.2 * bool(onto))
            self.call(
                "Input.dispatchMouseEvent",
                type=f"mouse{kind}",
                x=x,
                y=y,
                button="left",
                buttons=1,
                clickCount=1,
            )


@thorough
def test_the_page_fits_its_window_and_shows_what_it_writes(tmp_path, monkeypatch):
    """With scroll bars; a run that has ended is no failure, and Enter adds what was typed."""
    browser.require()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(browser, "_OPTIONS", browser._OPTIONS.replace("--hide-scrollbars ", ""))
    voxels = np.random.default_rng(0).integers(0, 3000, (12, 60, 80)).astype("u2")
    voxels[:, 20:40, 20:40] += 30000
    voxels[0, 0, 0] = 65535
    np.save("em.npy", voxels)
    outputs = "outputs:\n  - {path: o.ome.zarr}\n  - {path: t.parquet}\n"
    Path("r.yaml").write_text(f"input: em.npy\nsteps:\n{outputs}")
    clipped = """(d = document.documentElement, d.scrollWidth > d.clientWidth ? ['page'] :
        [...document.querySelectorAll('button, input')].filter(e => !e.closest('.q-table__container')
        && e.getBoundingClientRect().right > d.clientWidth).map(e => e.ariaLabel))"""
    with bv.studio("r.yaml") as opened, Tab((1440, 900)) as page:
        page.open(opened.url)
        page.shows("as the run writes it")
        histogram = page.value("document.querySelector('.studio-histogram').textContent")
        assert "intensity" in histogram and "65535" in histogram and "voxels" in histogram
        for words, shown in (("blur", "gaussian_filter: as"), ("otsu", "threshold_otsu =")):
            page.type("add a function", words)
            page.key("Enter", 13)
            page.shows(shown)
        page.shows("the last step: gaussian_filter")
        page.click("greater")  # it is offered after a number
        page.shows("greater: as the run writes it")
        page.type("add a function", "label")
        page.key("Enter", 13)
        page.shows("label: as the run writes it")
        page.shows("the last step: label")
        page.type("add a function", "regionprops")
        page.key("Enter", 13)
        page.shows("regionprops_table: a table")
        page.until("document.querySelector('input[aria-label=\"add a function\"]').value == ''")
        page.click("run")
        page.shows("done in")
        page.shows("replace existing outputs")
        red = (
            "[...document.querySelectorAll('*')].filter(e => e.children.length == 0 && e.innerText"
        )
        red += " && ['rgb(185, 28, 28)', 'rgb(124, 45, 18)'].includes(getComputedStyle(e).color))"
        assert page.value(f"{red}.map(e => e.innerText).join()") == ""
        for width, height in ((1440, 900), (1024, 800), (1920, 1080)):
            page.call(
                "Emulation.setDeviceMetricsOverride",
                width=width, height=height, deviceScaleFactor=1, mobile=False,
            )  # fmt: skip
            page.until(f"innerWidth == {width}")
            page.until(f"{clipped}.length == 0")
            wide = "[...document.querySelectorAll('.studio-image')].filter(e => e.offsetWidth)"
            wide += ".slice(0, 2).reduce((w, e) => w + e.offsetWidth, 0)"
            row = "document.querySelector('.studio-image').parentElement.offsetWidth"
            high = "document.querySelector('.studio-image').offsetHeight >= 0.74 * innerHeight"
            page.until(f"{wide} > 0.97 * {row} || {high}")
        assert page.failures == [] and page.messages == []
    smooth = bv.gaussian_filter(bv.open("em.npy"), 1)
    cells = np.asarray(bv.label(smooth > bv.threshold_otsu(smooth)))
    assert np.array_equal(np.asarray(bv.open("o.ome.zarr")), cells)


@thorough
def test_a_recipe_is_made_and_run_in_a_browser(studio, monkeypatch):
    browser.require()
    url, folder = studio
    monkeypatch.chdir(folder)
    with Tab((1600, 1000)) as page:
        page.open(url)
        page.shows("as the run writes it")
        for words, op in (("blur", "gaussian_filter"), ("greater", "greater"), ("label", "label")):
            page.type("add a function", words)
            page.click(op)
            page.shows(f"{op}: as the run writes it")
        page.click("gaussian_filter")
        page.shows("gaussian_filter: as the run writes it")
        # A slider is moved with the mouse, then with the keyboard, and the picture follows.
        page.remember()
        page.drag('[aria-label="gaussian_filter sigma"]', (0.1, 0.5), (0.15, 0.5))
        page.changes()
        page.until("document.querySelector('input[aria-label=sigma]').value == '1.5'")
        page.remember()
        page.until(
            "(document.querySelector('[aria-label=\"gaussian_filter sigma\"] [tabindex]').focus(), true)"
        )
        for _ in range(5):
            page.key("ArrowRight", 39)
        page.changes()
        page.until("document.querySelector('input[aria-label=sigma]').value == '2.0'")
        # The threshold is dragged on the histogram.
        page.click("greater")
        page.shows("drag the line")
        page.remember()
        level = page.value("document.querySelector('input[aria-label=\"input 2\"]').value")
        page.drag(".studio-histogram", (0.5, 0.5), (0.6, 0.5))
        page.changes()
        page.until(
            f"document.querySelector('input[aria-label=\"input 2\"]').value != {json.dumps(level)}"
        )
        page.click("label")
        page.shows("label: as the run writes it")
        page.type("add a function", "measure")
        page.click("regionprops_table")
        page.shows("regionprops_table: a table")
        page.click("run")
        page.shows("done in")
        # A row leads to its object, and an object to its row.
        position = "document.querySelector('[aria-label=\"position along {}\"]').ariaValueNow"
        page.value(f"window.x = {position.format('x')}; 0")
        page.until("(r = document.querySelectorAll('tbody tr')[1]) && (r.click(), true)")
        page.shows("label: as the run writes it")
        page.until(f"{position.format('x')} != window.x")
        plane = np.asarray(bv.open("studio.ome.zarr"))[int(page.value(position.format("z")))]
        number = int(np.bincount(plane[plane > 0]).argmax())
        y, x = (
            (k + 0.5) / n
            for k, n in zip(np.argwhere(plane == number)[0], plane.shape, strict=False)
        )
        page.drag(".studio-image img", (x, y), (x, y))
        page.until(f"document.querySelector('tr.selected td:nth-child(2)')?.innerText == {number}")
        # Ranges of two columns become steps.
        page.choose("up", "bbox-1")
        page.until("document.querySelectorAll('.studio-plot circle').length > 1")
        page.drag(".studio-plot", (0.01, 0.02), (0.7, 0.98))
        page.click("keep these objects")
        page.shows("keep_labels_2: as the run writes it")
        page.click("show a program in python")
        page.shows("bv.gaussian_filter(input_, sigma=2.0)")
        page.key("Escape", 27)
        page.click("save the recipe in the file")
        page.shows("saved as r.yaml")
        saved = Path("r.yaml").read_text()
        Path("r.yaml").write_text(f"# by an editor\n{saved}")
        page.click("save the recipe in the file")
        page.shows("has changed since it was loaded")
        assert Path("r.yaml").read_text() != saved
        page.click("replace it")
        wait_until(lambda: Path("r.yaml").read_text() == saved, "the recipe that is replaced")
        assert page.failures == [] and page.messages == []
        assert {urlsplit(u).hostname for u in page.requests.values() if u[:4] == "http"} == {
            "127.0.0.1"
        }
    text = Path("r.yaml").read_text()
    assert "keep_labels: {input: label, table: {step: regionprops_table}" in text
    assert "keep_labels_2: {op: keep_labels, input: keep_labels, table" in text
    assert "sigma: 2" in text and f"gaussian_filter, {level}" not in text
    # The run wrote the step that was the last one then.
    changes = ["outputs.0={step: label, path: again.ome.zarr}", "outputs.1.path=again.parquet"]
    words = [word for change in changes for word in ("--set", change)]
    assert main(["run", "r.yaml", *words, "--quiet"]) == 0
    written = [
        {p.relative_to(o): p.read_bytes() for p in Path(o).rglob("[0-9]*") if p.is_file()}
        for o in ("studio.ome.zarr", "again.ome.zarr")
    ]
    assert written[0] == written[1] and written[0]


@thorough
def test_a_recipe_is_made_with_the_keyboard(studio, tmp_path, monkeypatch):
    """Tab reaches everything: steps, numbers, sliders, the run, the rows of its table, and the file."""
    browser.require()
    _url, folder = studio
    monkeypatch.chdir(tmp_path)
    text = f"input: {folder / 'slices'}\nsteps:\noutput: keyboard.ome.zarr\n"
    Path("k.yaml").write_text(text)
    with bv.studio("k.yaml", folders=[str(folder)]) as opened, Tab((1280, 900)) as page:
        page.open(opened.url)
        page.shows("as the run writes it")

        def add(words, op):
            page.tab_to("add a function")
            page.call("Input.insertText", text=words)
            page.shows(op)
            page.tab_to(op)
            page.key("Enter", 13)
            page.shows(f"{op}: ")

        add("blur", "gaussian_filter")
        page.remember()
        page.tab_to("sigma")
        page.call("Input.insertText", text="2.5")
        page.key("Enter", 13)
        page.changes()
        add("greater", "greater")
        page.shows("greater: as the run writes it")
        page.remember()
        page.tab_to("greater input 2")
        page.key("ArrowRight", 39)
        page.changes()
        add("label", "label")
        add("measure", "regionprops_table")
        page.tab_to("run")
        page.key("Enter", 13)
        page.shows("done in")
        page.shows("label: as the run writes it")
        position = "document.querySelector('[aria-label=\"position along x\"]').ariaValueNow"
        page.tab_to("position along x")
        for _ in range(5):
            page.key("ArrowLeft", 37)
        page.shows("label: as the run writes it")
        page.value(f"window.x = {position}; 0")
        page.tab_to("row")
        page.key(" ", 32)
        page.until(f"{position} != window.x")
        page.tab_to("save the recipe in the file")
        page.key("Enter", 13)
        page.shows("saved as k.yaml")
        assert page.failures == [] and page.messages == []
    level = load(Path("k.yaml").read_text(), "k").plain()["steps"]["greater"]["inputs"][1]
    cells = bv.label(bv.gaussian_filter(bv.open(folder / "slices"), 2.5) > level)
    assert np.array_equal(np.asarray(bv.open("keyboard.ome.zarr")), np.asarray(cells))


@thorough
def test_steps_are_moved_compared_and_shown_in_neuroglancer(studio, monkeypatch):
    browser.require()
    pytest.importorskip("neuroglancer")
    _url, folder = studio
    monkeypatch.chdir(folder)
    steps = "{smooth: {op: gaussian_filter, sigma: 1}, dark: {op: less, inputs: [smooth, 90]}}"
    text = f"input: slices\nsteps: {steps}\noutput: moved.ome.zarr\n"
    with bv.studio(recipe=text) as opened, Tab((1280, 900)) as page:
        page.open(opened.url)
        page.shows("dark: as the run writes it")
        page.click("compare with a recipe")
        page.shows("Dice 1;")
        page.type("sigma", "3")
        page.key("Enter", 13)
        page.shows("Dice 0.")
        # What the modes show are the pictures of both.
        both = [
            painted(opened.workspace.view(n, Region()), SIZE)[0] for n in ("other: dark", "dark")
        ]
        mixes = {
            "overlay": overlaid(*both),
            "curtain": joined(*both, 0.5),
            "side by side": side_by_side(*both),
        }
        for mode, mixed in mixes.items():
            page.click(mode)
            page.until(f"document.querySelector('.studio-image img').src == '{png_uri(mixed)}'")
        # The input of a disabled step takes its place.
        page.click("help about smooth")
        page.shows("Smooth with a Gaussian")
        page.click("close")
        page.remember()
        page.click("disable smooth")
        page.changes()
        page.click("enable smooth")
        page.until("!!document.querySelector('[aria-label=\"disable smooth\"]')")
        page.value("document.querySelector('[role=switch][aria-label=Neuroglancer]').click()")
        page.until("document.querySelector('iframe')?.src.includes('/v/view/')")
        page.until("document.querySelector('iframe').clientHeight > 300")
        infos = {f"v{k}c0/info" for k in range(2)}
        wait_until(
            lambda: infos <= {url[-9:] for url in page.requests.values()},
            "requests for both volumes",
            check=page.listen,
        )
        # The handle of the second card is dropped on the first.
        page.value(
            "[...document.querySelectorAll('[draggable=true]')].map((e, k) => e.id = `h${k}`)"
        )
        page.drag("#h1", (0.5, 0.5), (0.5, 0.5), onto="#h0")
        page.until(
            "(c = document.body.innerText, c.indexOf('dark: less') < c.indexOf('smooth: gaussian'))"
        )
        page.shows("from smooth")
        assert page.failures == [] and page.messages == []
    names = [line.split(":")[0].strip() for line in opened.recipe.splitlines()]
    assert names[2:4] == ["dark", "smooth"]


@thorough
def test_tabs_share_a_recipe_and_stop_only_their_own_work(tmp_path, monkeypatch):
    browser.require()
    monkeypatch.chdir(tmp_path)
    np.save("em.npy", RNG.integers(0, 255, (20, 60, 80)).astype("u1"))
    texts = [
        f"input: em.npy\nsteps: {{smooth: {{op: gaussian_filter, sigma: {s}}}}}\noutput: o.zarr\n"
        for s in (1, 2)
    ]
    with bv.studio(recipe=texts[0]) as one, bv.studio(recipe=texts[1]) as two:
        with Tab((1280, 900)) as stays:
            with Tab((1280, 900)) as closed:
                for page in (stays, closed):
                    page.open(one.url)
                    page.shows("smooth: as the run writes it")
                closed.type("sigma", "3")
                closed.key("Enter", 13)
                stays.until("document.querySelector('input[aria-label=sigma]').value == '3'")
                stays.open(two.url)
                stays.until("document.querySelector('input[aria-label=sigma]')?.value == '2'")
                stays.shows("smooth: as the run writes it")
                waiting, go_on, view = {}, threading.Event(), Workspace.view

                def waits(self, name, region, stop):
                    waiting[self] = stop
                    while not go_on.wait(0.1):
                        if stop.is_set():
                            raise Stopped
                    return view(self, name, region, stop)

                monkeypatch.setattr(Workspace, "view", waits)
                stays.remember()
                for page in (stays, closed):
                    page.type("sigma", "4")
                    page.key("Enter", 13)
                wait_until(lambda: len(waiting) == 2, "the views of both tabs")
            assert waiting[one.workspace].wait(PATIENCE) and not waiting[two.workspace].is_set()
            go_on.set()
            stays.changes()
            go_on.clear()
            stays.type("sigma", "5")
            stays.key("Enter", 13)
            stays.click("stop computing")
            stays.shows("stopped; a change")
            assert stays.failures == [] and stays.messages == []
        assert "sigma: 4" in one.recipe and "sigma: 5" in two.recipe


@thorough
def test_points_in_time_and_channels_are_chosen(tmp_path, monkeypatch):
    browser.require()
    monkeypatch.chdir(tmp_path)
    movie = bv.open(RNG.integers(0, 255, (3, 2, 10, 40, 50)).astype("u1"), axes="tczyx")
    with bv.studio(movie) as opened, Tab((1280, 900)) as page:

        def shows(region):
            view = opened.workspace.view("input", region)
            want = png_uri(painted(view, SIZE)[0])
            page.until(f"document.querySelector('.studio-image img')?.src == {json.dumps(want)}")

        page.open(opened.url)
        shows(Region())
        page.drag('[aria-label="position along t"]', (0.02, 0.5), (0.98, 0.5))
        shows(Region(t=2))
        page.choose("channel", "1")
        shows(Region(t=2, c=1))
        # What cannot be applied, and what does not fit, has its reason.
        page.type("add a function", "cut")
        page.shows("accepts a table")
        page.type("memory limit", "100MiB")
        page.key("Enter", 13)
        page.shows("memory 100.0 MiB is too small")
        assert page.failures == [] and page.messages == []
