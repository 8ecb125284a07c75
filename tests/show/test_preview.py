"""Pictures of volumes: the right voxels, few of them read, and a note about them."""

import json

import numpy as np
import pytest
import tensorstore as ts

import beam_volumes as bv
from beam_volumes.cli.main import main
from beam_volumes.show import colours, napari_reader, sampling
from beam_volumes.show.picture import picture
from beam_volumes.show.sections import sections


def image_of(voxels, **how):
    return bv.preview(voxels, **how).image


def test_sections_lie_as_the_volume_does():
    """z in the corner, z against y to its right, z against x below; voxels as large as they are."""
    voxels = np.random.default_rng(0).integers(0, 255, (3, 8, 16)).astype("u1")
    p = bv.preview(
        bv.open(voxels, voxel_size=(4, 2, 1)), at=(1, 2, 3), size=160, percentiles=(0, 100)
    )
    z, y, x = voxels[1], voxels[:, 2], voxels[:, :, 3]
    (low, high), gap = p.window[0], 4
    assert low == min(s.min() for s in (z, y, x)) and high == max(s.max() for s in (z, y, x))

    def grown(section, rows, columns):
        grey = np.round((section.astype(float) - low) / (high - low) * 255).astype("u1")
        return grey.repeat(rows, 0).repeat(columns, 1)

    assert p.image.shape == (160 + gap + 120, 160 + gap + 120, 3)
    assert np.array_equal(p.image[:160, :160, 0], grown(z, 20, 10))
    assert np.array_equal(p.image[:160, 164:, 1], grown(x.T, 20, 40))
    assert np.array_equal(p.image[164:, :160, 2], grown(y, 40, 10))


def test_boundaries_of_labels_are_drawn(tmp_path):
    """At the same voxels, whether labels are stored, computed or at another resolution."""
    random = np.random.default_rng(1)
    em = random.integers(0, 200, (24, 48, 48)).astype("u1")
    cells = (
        np.arange(24)[:, None, None] // 8 + 3 * (np.arange(48)[:, None] // 16) + np.zeros(48, int)
    )
    plain, marked = image_of(em, size=96), bv.preview(em, labels=cells, size=96)
    is_yellow = (marked.image == (255, 255, 0)).all(axis=-1)
    assert np.array_equal(marked.image[~is_yellow], plain[~is_yellow])
    expected = np.zeros((96, 96), bool)
    expected[[32, 64]] = True  # the first pixel of each label along y
    assert np.array_equal(is_yellow[:96, :96], expected)
    bv.compute(bv.open(cells).to(tmp_path / "cells.zarr", chunks=8), runner=None, progress=False)
    for other in (bv.open(cells) + 0, tmp_path / "cells.zarr"):
        other = other if isinstance(other, bv.Volume) else bv.open(other)
        assert np.array_equal(image_of(em, labels=other, size=96), marked.image)
    small = image_of(em, labels=cells, size=24)
    assert (small[[8, 16], :24] == (255, 255, 0)).all() and not (small[4] == (255, 255, 0)).all()
    for wrong, error in ((cells[1:], ValueError), (em / 2, TypeError)):
        with pytest.raises(error, match=r"preview: labels (of|have)"):
            bv.preview(em, labels=wrong)


@pytest.mark.parametrize(
    ("voxels", "shape"),
    [
        (np.zeros((1, 1, 1)), (36, 36, 3)),
        (np.zeros((0, 4, 5), "u1"), (12, 12, 3)),
        (np.full((5, 7), np.nan, "f4"), (11 * 2, 16, 3)),
        (np.arange(60).reshape(3, 4, 5) > 7, (31, 31, 3)),
        (np.arange(60, dtype="u8").reshape(3, 4, 5) << 60, (31, 31, 3)),
        (np.ones((2, 4, 3, 4, 5), "i2"), (31, 31, 3)),
        (np.ones((9, 4, 5), "f2")[:, :1, :1], (36, 24, 3)),
    ],
    ids=["one voxel", "none", "NaNs", "mask", "labels", "time and channels", "a column"],
)
def test_every_volume_has_a_picture(voxels, shape):
    p = bv.preview(voxels, size=16)
    assert p.image.dtype == np.uint8 and p.image.ndim == 3
    assert p._repr_png_()[:4] == b"\x89PNG" and "<img" in p._repr_html_() and p.caption in repr(p)
    assert bv.open(voxels)._repr_html_().count("<table>") == 1


def test_colours():
    """A label has one colour in every dtype, NaNs are seen, channels add up, bytes in threes are RGB."""
    ids = np.array([[0, 1, 7], [7, 1, 2**40]])
    colour = colours.coloured(ids)
    assert np.array_equal(colour[:, :2], colours.coloured(ids.astype("u1"))[:, :2])
    assert not colour[0, 0].any() and len({tuple(c) for c in colour.reshape(-1, 3)}) == 4
    assert tuple(image_of(np.array([[np.nan, 1.0]]), size=16)[0, 0]) == colours.NOT_FINITE
    two = bv.stack([np.eye(4), 1 - np.eye(4)])
    assert {tuple(c) for c in image_of(two, size=16).reshape(-1, 3)} == {(0, 255, 0), (255, 0, 255)}
    rgb = np.random.default_rng(1).integers(0, 255, (3, 16, 16)).astype("u1")
    assert np.array_equal(image_of(rgb[:, None], size=16)[:16, :16], np.moveaxis(rgb, 0, -1))


@pytest.mark.parametrize("dtype", ["f4", "f8", "u1", "u2", "i2"])
def test_grey_of_an_rgb_image_stays_grey_and_yellow_stays_yellow(dtype):
    """Red, green and blue have one window, although they differ in their percentiles."""
    grey = np.linspace(10, 60, 32).astype(dtype)
    image = np.stack([np.broadcast_to(grey, (32, 32))] * 3)
    image[:2, 5], image[2, 5] = 90, 0  # a yellow line
    image[2, 20:] = image[2, 20:] // 2  # and a part without much blue
    v = bv.stack(list(image.astype(dtype)[:, None]), ("red", "green", "blue"))
    found = bv.preview(v, size=32)
    low, high = found.window[0]
    assert found.window == [(low, high)] * 3
    want = np.clip((image.astype("f8") - low) / (high - low), 0, 1) * 255
    assert np.array_equal(found.image[:32, :32], np.moveaxis(want.round().astype("u1"), 0, -1))
    assert np.ptp(found.image[6:20, :32], axis=-1).max() == 0 and found.image[5, 0, 2] == 0
    ends = (0, 255) if dtype == "u1" else np.percentile(image, (0.5, 99.5))
    assert (low, high) == tuple(ends)
    alpha = np.full((1, 32, 32), 3, dtype)
    four = bv.stack([*image.astype(dtype)[:, None], alpha], ("red", "green", "blue", "alpha"))
    assert np.array_equal(bv.preview(four, size=32).image, found.image)
    # Other channels have their own windows and colours.
    three = bv.stack(list(image.astype(dtype)[:, None]), ("DAPI", "GFP", "actin"))
    assert len(set(bv.preview(three, size=32).window)) == 2
    layers = [about for _, about, _ in napari_reader.layers(v, "v")]
    assert [about["colormap"][1] for about in layers] == np.eye(3).tolist()
    assert [about["contrast_limits"] for about in layers] == found.window


def pyramid(folder, shape=(64, 640, 640)):
    """An OME-Zarr of which level k is k everywhere, and which levels are read."""
    levels = []
    for k in range(3):
        size = (shape[0], *(n >> k for n in shape[1:]))
        bv.compute(
            bv.open(np.full(size, k + 1, "u1")).to(f"{folder}/{k}.zarr", chunks=64), runner=None
        )
        scale = [1.0, 2.0**k, 2.0**k]
        levels.append(
            {"path": f"{k}.zarr", "coordinateTransformations": [{"type": "scale", "scale": scale}]}
        )
    axes = [{"name": a, "type": "space"} for a in "zyx"]
    ome = {"version": "0.5", "multiscales": [{"axes": axes, "datasets": levels}]}
    group = {"zarr_format": 3, "node_type": "group", "attributes": {"ome": ome}}
    (folder / "zarr.json").write_text(json.dumps(group))
    return str(folder)


def test_a_level_that_is_fine_enough_is_read(tmp_path):
    v = bv.open(pyramid(tmp_path))
    for size, level in ((512, 1), (200, 2), (150, 3)):
        for part in (v, v[:, 160:, :]):
            found = sections(part, max_size=size)
            assert {np.unique(s.voxels).item() for s in found.sections} == {level}
            assert ("pyramid" in found.how) == (level > 1)
            assert found.sections[0].spans == ((0, part.shape[1]), (0, 640))


def test_few_chunks_are_read(tmp_path, monkeypatch):
    """For any size of the volume and any chunks; more expensive sections are left out."""
    metadata = {
        "shape": [4096, 4096, 4096],
        "chunk_grid": {"name": "regular"},
        "data_type": "uint8",
    }
    metadata["chunk_grid"]["configuration"] = {"chunk_shape": [64, 64, 64]}
    spec = {"driver": "zarr3", "kvstore": f"file://{tmp_path}/large.zarr/", "metadata": metadata}
    ts.open(spec, create=True).result()
    v = bv.open(str(tmp_path / "large.zarr"))
    source = v.nodes[0].source
    for axis in range(3):
        a, b = sampling.steps_of(source, sampling.along(axis), 512, 512 << 20)
        assert (
            min(64, 4096 // a) * min(64, 4096 // b) * 64**3 <= 512 << 20 and 4096 // max(a, b) >= 24
        )
    assert "one voxel in" in bv.preview(v, size=64).note
    planes = np.zeros((64, 2048, 2048), "u1")
    bv.compute(bv.open(planes).to(str(tmp_path / "p.zarr"), chunks=(1, 2048, 2048)), runner=None)
    slices = bv.open(str(tmp_path / "p.zarr"))
    note = bv.preview(slices, most_bytes=8 << 20).note
    assert note.startswith("1 section at z=32") and "left out: a section along z and x" in note
    with pytest.raises(ValueError, match=r"more than 1\.0 MiB; show a part"):
        bv.preview(slices, most_bytes=1 << 20)


def test_what_is_computed_is_exact_or_says_so():
    voxels = np.random.default_rng(0).integers(0, 255, (40, 300, 290)).astype("u1")
    v = bv.open(voxels)
    mask = bv.gaussian_filter(v, 1) > 127
    whole = np.asarray(mask)
    for most_bytes, told in ((256 << 20, "whole planes"), (500_000, "128 voxels a side")):
        found = sections(mask, (0.5, 0.1, 0.9), max_bytes=most_bytes)
        assert told in found.how, found.how
        for s in found.sections:
            rows, columns = (slice(*span) for span in s.spans)
            plane = np.take(whole, s.at, s.axis)
            plane = plane.T if s.axis == 2 else plane
            assert np.array_equal(s.voxels[0], plane[rows, columns])
    labels = sections(bv.label(mask), max_bytes=12 << 20)
    assert "computed from the middle 128 voxels" in labels.how
    part = np.asarray(bv.label(bv.gaussian_filter(v[:, 86:214, 81:209], 1) > 127))
    assert np.array_equal(labels.sections[0].voxels[0], part[20])
    with pytest.raises(ValueError, match="compute it to a file"):
        bv.preview(bv.label(mask), most_bytes=1 << 16)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"size": 9}, "size=9 is out of range; give 16"),
        ({"at": (1, 2)}, r"at=\(1, 2\) .*one voxel index for each of the axes z, y, x"),
        ({"at": (1, 2, 6)}, "6 is outside of axis x, of extent 6"),
        ({"percentiles": (9, 1)}, "the lower first"),
    ],
)
def test_mistakes(how, message):
    with pytest.raises(ValueError, match=message):
        bv.preview(np.zeros((4, 5, 6)), **how)


def test_notebooks_neither_compute_nor_fail(monkeypatch, tmp_path):
    v = bv.open(np.arange(60, dtype="u1").reshape(3, 4, 5), voxel_size=8, unit="nm")
    html = v._repr_html_()
    assert "data:image/png;base64," in html and "8 x 8 x 8 nanometer" in html
    expression = bv.label(v > bv.mean(v))
    monkeypatch.setattr("beam_volumes.show.sections.run", None)
    assert "label" in expression._repr_html_() and "<img" not in expression._repr_html_()
    table = bv.regionprops_table(expression)
    assert "centroid-0" in table._repr_html_()
    plan = bv.plan(expression.to(str(tmp_path / "l.zarr")), bv.max(v))
    assert (
        "<svg" in plan._repr_html_()
        and plan.explain(verbose=True).splitlines()[0] in plan._repr_html_()
    )
    monkeypatch.setattr("beam_volumes.show.notebook.facts", None)
    assert v._repr_html_() is None


def test_a_plan_is_drawn(tmp_path):
    """Every step of it, and of long chains some; temporary results are not called written."""
    v = bv.open(np.zeros((8, 9, 10), "u1"))
    cells = bv.label(bv.gaussian_filter(v, 1) > bv.mean(v))
    plan = bv.plan(cells.to(str(tmp_path / "cells.zarr")), bv.regionprops_table(cells))
    svg = plan.visualize(tmp_path / "plan.svg")
    assert (tmp_path / "plan.svg").read_text() == svg
    for word in ("pass 1", "mean", "gaussian_filter", "label", "regionprops_table", "cells.zarr"):
        assert word in svg
    long = v
    for _ in range(100):
        long = bv.gaussian_filter(long, 1)
    assert "more steps" in bv.plan(long[:1]).visualize()
    with pytest.raises(ValueError, match=r"ends in \.svg"):
        plan.visualize(tmp_path / "plan.png")


def test_commands(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    np.save("em.npy", np.arange(60, dtype="u1").reshape(3, 4, 5))
    assert main(["preview", "em.npy", "--at", "1,2,3", "--size", "64"]) == 0
    told = capsys.readouterr()
    assert told.out == "preview-em.png\n" and told.err.startswith("3 sections at z=1, y=2, x=3")
    recipe = "input: em.npy\nsteps:\n  smooth: {op: gaussian_filter, sigma: 1}\n  mean: mean\n"
    recipe += "outputs:\n  - {step: smooth, path: out.zarr}\n  - {step: mean}\n"
    (tmp_path / "r.yaml").write_text(recipe)
    assert main(["run", "r.yaml", "--preview"]) == 0
    told = capsys.readouterr()
    assert told.out == "preview-smooth.png\n" and "mean: numbers and tables need" in told.err
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "em.npy",
        "preview-em.png",
        "preview-smooth.png",
        "r.yaml",
    ]
    assert main(["preview", "em.npy", "em.jpg"]) == 2
    assert "ends in .png" in capsys.readouterr().err


def test_no_section_is_a_picture_too():
    found = sections(bv.open(np.zeros((0, 2, 2))))
    assert picture(found, 32, [], False).shape == (12, 12, 3)
