"""The page about a run is complete, in one file, and foreign text in it is harmless."""

import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest

import beam_volumes as bv
from beam_volumes.cli.main import main
from beam_volumes.show.pages.report import report
from beam_volumes.show.pages.volume_page import subsampled


class Closed(HTMLParser):
    """Checks that opened tags are closed, and collects links."""

    def __init__(self, html):
        super().__init__()
        self.open, self.links = [], []
        self.feed(html)
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        self.links += [v for k, v in attrs if k in ("src", "href")]
        if tag not in ("meta", "img", "input"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.links += [v for k, v in attrs if k in ("src", "href")]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def needs_nothing(html):
    page = Closed(html)
    assert all(link.startswith("data:") for link in page.links)
    assert not re.search(r"https?://(?!www\.w3\.org)", html)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run with a volume, a table and a name that is markup."""
    folder = tmp_path_factory.mktemp("report")
    rng = np.random.default_rng(0)
    em = bv.open(rng.integers(0, 255, (24, 40, 44)).astype("u1"), voxel_size=(4, 1, 1), unit="nm")
    cells = bv.label(bv.gaussian_filter(em, 1) > bv.threshold_otsu(em))
    table = bv.regionprops_table(cells, em)
    name = str(folder / "<b>cells.ome.zarr")
    bv.compute(
        cells.to(name, chunks=8), table.to(str(folder / "t.csv")), runner=None, slab=(8, 40, 44)
    )
    return name, folder


def test_a_run(run, tmp_path, monkeypatch, capsys):
    name, _ = run
    monkeypatch.chdir(tmp_path)
    assert main(["report", name, "r.html"]) == 0 and capsys.readouterr().out == "r.html\n"
    html = (tmp_path / "r.html").read_text()
    needs_nothing(html)
    assert "<b>" not in html and "&lt;b&gt;cells" in html
    for text in ("ended", "predicted", "4 x 1 x 1 nanometer", "threshold_otsu", "pass 2", "area"):
        assert text in html
    sliders = re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', html)
    assert [len(json.loads(s)["uris"]) for s in sliders] == [24, 25, 25]
    assert html.count("data:image/png") == 3 + 24 + 25 + 25
    volumes = len(np.unique(np.asarray(bv.open(name))))
    assert f"<tr><th>labels found</th><td>{volumes - 1:,}</td></tr>" in html
    assert f"<tr><th>rows</th><td>{volumes - 1}</td></tr>" in html
    assert main(["report", name, "r.html"]) == 2 and "--overwrite" in capsys.readouterr().err
    assert main(["report", name, "r.pdf"]) == 2 and "ends in .html" in capsys.readouterr().err
    assert main(["report", "nothing.zarr"]) == 2 and "does not exist" in capsys.readouterr().err


def test_volumes_and_tables_without_a_run(run, tmp_path):
    _, folder = run
    needs_nothing(html := report(str(folder / "t.csv")))
    assert "The first rows" in html and "The run" not in html
    voxels = np.array([[np.nan, 1, 2.5]] * 5, "f4")
    np.save(tmp_path / "em.npy", voxels)
    needs_nothing(html := report(str(tmp_path / "em.npy")))
    assert "mean 1.75" in html and "5 not finite" in html
    several = bv.open(np.ones((3, 6, 4, 5, 6), "u1"))
    bv.compute(several.to(str(tmp_path / "c.zarr")), runner=None)
    (tmp_path / "c.zarr.run" / "manifest.json").unlink()
    assert "; 4 channels" in report(str(tmp_path / "c.zarr"))
    needs_nothing(html := report(str(tmp_path / "none.npy"), bv.open(np.ones((0, 2, 2)))))
    assert "There is no picture" not in html


def test_a_run_that_stopped_has_a_page(tmp_path):
    def fails(block):
        raise OSError("the disk <is> full")

    v = bv.open(np.ones((8, 9, 10), "u1"))
    name = str(tmp_path / "out.zarr")
    broken = bv.map_overlap(fails, v, depth=0, dtype="u1", name="fails", version=1)
    with pytest.raises(OSError, match="full"):
        bv.compute(broken.to(name), runner=None)
    needs_nothing(html := report(name))
    assert "not finished" in html or "failed" in html
    assert "0 of 1" in html


def test_a_volume_is_read_subsampled(tmp_path):
    voxels = np.arange(40 * 50 * 60, dtype="u2").reshape(40, 50, 60)
    bv.compute(bv.open(voxels).to(str(tmp_path / "v.zarr"), chunks=10), runner=None)
    block = subsampled(bv.open(str(tmp_path / "v.zarr")), max_size=20)
    assert block.step == (2, 3, 3)
    assert np.array_equal(block.voxels[0], voxels[1::2, 1::3, 1::3])
    section = block.section(2, 4)
    assert np.array_equal(section.voxels[0], block.voxels[0][:, :, 4].T) and section.at == 13
    assert subsampled(bv.open(str(tmp_path / "v.zarr")), max_bytes=1000) is None
