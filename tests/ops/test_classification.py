"""Features, and forests that classify voxels by them, against scikit-image and scikit-learn."""

import dataclasses
import io
import pickle
import zipfile

import numpy as np
import pytest
import scipy.ndimage as ndi
from hypothesis import given, settings
from hypothesis import strategies as st
from skimage.feature import multiscale_basic_features
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)

import beam_volumes as bv
from beam_volumes.ops.filters.classification import pixels
from beam_volumes.ops.filters.classification.forests import shares
from beam_volumes.storage.places.errors import VolumeError
from tests.catalogue import assert_same, shapes, voxels
from tests.cli.conftest import command as command


@pytest.mark.parametrize("dtype", ["u1", "u2", "f4", "f8"])
@settings(max_examples=6)
@given(data=st.data())
def test_features(dtype, data):
    ndim = data.draw(st.sampled_from([2, 3]))
    shape = tuple(n + 1 for n in data.draw(shapes(ndim, most=20, voxels=1000), "shape"))
    x = voxels(shape, dtype, data.draw(st.integers(0, 99)))
    slab = tuple(data.draw(st.integers(1, n)) for n in shape)
    kinds = data.draw(st.sampled_from([(1, 1, 1), (1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 0, 1)]))
    which = dict(zip(("intensity", "edges", "texture"), map(bool, kinds), strict=True))
    ours = bv.compute(bv.features(x, [0.5, 1], **which), runner=None, slab=slab)
    largest = np.abs(x).max() or 1
    theirs = multiscale_basic_features(
        (x / largest).astype("f4"), sigma_min=0.5, sigma_max=1, workers=1, **which
    )
    assert ours.dtype == ("f8" if dtype == "f8" else "f4")
    np.testing.assert_allclose(ours / largest, np.moveaxis(theirs, -1, 0), atol=3e-6)


def test_features_of_scales_channels_and_structure():
    x = np.random.default_rng(3).random((5, 12, 14), "f4")
    v = bv.open(x, voxel_size=(40, 10, 10), unit="nm")
    found = bv.features(bv.stack([v, -v], ["DAPI", "GFP"]), ["20 nm", (0, 1, 1)], structure=True)
    assert found.shape == (2 * 2 * 8, *x.shape)
    assert found.channels[:3] == (
        "DAPI intensity 20 nm",
        "DAPI edges 20 nm",
        "DAPI texture 20 nm 0",
    )
    assert found.channels[-1] == "GFP structure 0x1x1 2"
    smooth = bv.gaussian_filter(v, (0.5, 2, 2), mode="nearest")
    assert_same(np.asarray(found[0]), np.asarray(smooth))
    tensor = bv.structure_tensor(smooth, (0.25, 1, 1), mode="nearest")
    last = bv.structure_tensor_eigenvalues(tensor)[2]
    assert_same(np.asarray(found.sel(c="DAPI structure 20 nm 2")), np.asarray(last))
    with pytest.raises(ValueError, match="20 nm twice"):
        bv.features(v, ["20 nm", "20 nm"])
    with pytest.raises(ValueError, match="no feature"):
        bv.features(v, 1, intensity=False, edges=False, texture=False)


def scribbled(shape=(12, 40, 44), seed=0):
    """Noise with three textures, and few labels in each."""
    rng = np.random.default_rng(seed)
    truth = np.digitize(ndi.gaussian_filter(rng.normal(size=shape), 4), (-0.02, 0.02)) + 1
    x = (rng.normal(size=shape) * truth + 3 * truth).astype("f4")
    labels = np.where(rng.random(shape) < 0.02, truth, 0).astype("u1")
    return bv.open(x), labels, truth


@pytest.mark.parametrize("kind", [RandomForestClassifier, ExtraTreesClassifier])
def test_classes_and_probabilities_equal_scikit_learn(kind, tmp_path, monkeypatch):
    v, labels, truth = scribbled()
    found = bv.features(v, [0.7, 1.5])
    monkeypatch.setattr(pixels, "_AT_A_TIME", 40_000)  # several pieces and boxes
    forest = kind(17, random_state=1)
    trained = bv.pixel_classifier(found, labels, forest)
    samples = np.moveaxis(np.asarray(found), 0, -1).reshape(-1, found.shape[0])
    at = np.flatnonzero(labels)
    again = kind(17, random_state=1).fit(samples[at], labels.ravel()[at])
    shape = v.shape
    trained.save(tmp_path / "trained.npz")
    for given_one in (trained, again, str(tmp_path / "trained.npz")):
        ours, shares = bv.compute(
            bv.classify(found, given_one),
            bv.classify(found, given_one, probabilities=True),
            runner=None,
            slab=(5, 17, 44),
        )
        assert_same(ours, again.predict(samples).reshape(shape).astype("u1"))
        theirs = np.moveaxis(again.predict_proba(samples).reshape(*shape, 3), -1, 0)
        assert_same(shares, theirs.astype("f4"))
    assert (ours == truth).mean() > 0.7
    points = np.argwhere(labels)
    same = bv.pixel_classifier(
        found, (points, labels[tuple(points.T)].astype(int)), kind(17, random_state=1)
    )
    assert same.token() == trained.token()


def test_each_tree_of_the_default_forest_has_a_bounded_sample(monkeypatch):
    v, labels, _ = scribbled()
    found = bv.features(v, [1], texture=False)
    whole = bv.pixel_classifier(found, labels)
    count = np.count_nonzero(labels)
    monkeypatch.setattr(pixels, "_EXAMPLES", count)
    assert bv.pixel_classifier(found, labels).token() == whole.token()
    monkeypatch.setattr(pixels, "_EXAMPLES", count // 4)
    trained = bv.pixel_classifier(found, labels)
    assert len(trained.roots) == 100 and len(trained.left) < len(whole.left)
    samples = np.moveaxis(np.asarray(found), 0, -1)[labels > 0]
    forest = RandomForestClassifier(100, max_depth=20, max_samples=count // 4, random_state=0)
    want = forest.fit(samples, labels[labels > 0]).predict_proba(samples)
    assert_same(shares(trained, samples), want)


def test_rare_classes_are_learnt_from_samples_of_trees(monkeypatch):
    """Of 20 of 40,000 examples, a tree would usually draw none or one."""
    labels = np.ones((200, 200), "u1")
    labels[:, 100:] = 2
    labels[100:105, 50:54] = 3
    noise = np.random.default_rng(0).normal(0, 0.4, (2, 200, 200))
    found = (noise + np.stack([labels == 2, 3 * (labels == 3)])).astype("f4")
    volume = bv.stack(list(found), ["a", "b"])
    monkeypatch.setattr(pixels, "_EXAMPLES", 1000)
    trained = bv.pixel_classifier(volume, labels)
    points = np.random.default_rng(1).permutation(np.argwhere(labels))
    again = bv.pixel_classifier(volume, (points, labels[tuple(points.T)].astype(int)))
    assert again.token() == trained.token()
    ours = np.asarray(bv.classify(volume, trained))
    assert (ours[labels == 3] == 3).mean() > 0.8 and (ours[labels < 3] == 3).mean() < 1e-3


@pytest.mark.parametrize("classes", [2, 3])
def test_boosted_trees_equal_scikit_learn(classes, tmp_path):
    v, labels, truth = scribbled()
    labels = np.minimum(labels, classes)
    found = bv.features(v, [0.7, 1.5])
    boosted = HistGradientBoostingClassifier(max_iter=12, learning_rate=0.3, random_state=0)
    trained = bv.pixel_classifier(found, labels, boosted)
    trained.save(tmp_path / "trained.npz")
    samples = np.moveaxis(np.asarray(found), 0, -1).reshape(-1, found.shape[0])
    how = {"runner": None, "slab": (5, 17, 44)}
    for given_one in (boosted, str(tmp_path / "trained.npz")):
        lazy = bv.classify(found, given_one), bv.classify(found, given_one, probabilities=True)
        ours, shares = bv.compute(*lazy, **how)
        assert_same(ours, boosted.predict(samples).reshape(v.shape).astype("u1"))
        theirs = np.moveaxis(boosted.predict_proba(samples).reshape(*v.shape, classes), -1, 0)
        np.testing.assert_array_max_ulp(shares, theirs.astype("f4"), 1)
    assert (ours == np.minimum(truth, classes)).mean() > 0.7
    categorical = HistGradientBoostingClassifier(max_iter=2, categorical_features=[0])
    whole = np.clip(np.asarray(found).astype("i8"), 0, 9)
    with pytest.raises(ValueError, match="without categorical_features="):
        bv.pixel_classifier(bv.open(whole, axes="czyx"), labels, categorical)


def test_a_recipe_classifies_by_a_file(tmp_path, command, monkeypatch):
    monkeypatch.chdir(tmp_path)
    v, labels, _ = scribbled()
    np.save("image.npy", np.asarray(v))
    found = bv.features(v, [1, 2])
    bv.pixel_classifier(found, labels).save("trained.npz")
    (tmp_path / "recipe.yaml").write_text(
        "input: image.npy\n"
        "steps:\n"
        "  features: {sigmas: [1, 2]}\n"
        "  classify: {classifier: trained.npz}\n"
        "output: out.zarr\n"
    )
    code, _, told = command("run", "recipe.yaml", "--runner=none")
    assert code == 0, told
    assert_same(np.asarray(bv.open("out.zarr")), np.asarray(bv.classify(found, "trained.npz")))


def test_classes_of_many_numbers_and_nan():
    v, labels, _ = scribbled()
    wide = np.where(labels == 3, 300, labels.astype("u2"))
    found = bv.features(v, [1], texture=False)
    trained = bv.pixel_classifier(found, wide)
    x = np.array(v)
    x[3, 20, 20] = np.nan
    broken = bv.features(x, [1], texture=False)
    ours = np.asarray(bv.classify(broken, trained))
    assert ours.dtype == "u2" and set(np.unique(ours)) == {0, 1, 2, 300}
    assert_same(ours == 0, np.isnan(np.asarray(broken)).any(axis=0))
    shares = bv.classify(broken, trained, probabilities=True)
    assert shares.channels == ("class 1", "class 2", "class 300")
    assert_same(np.isnan(np.asarray(shares)[1]), ours == 0)


def test_wrong_examples_are_refused():
    v, labels, _ = scribbled()
    found = bv.features(v, [1], texture=False)
    trained = bv.pixel_classifier(found, labels)
    for examples, message in (
        (labels * 0, "0 classes"),
        (labels > 0, "labels of integers"),
        (labels[1:], "have shape"),
        (([(0, 0, 99), (0, 0, 1)], [1, 2]), "outside"),
        (([(0, 0)], [1]), "3 columns"),
        (([(0, 0, 0.5)], [1]), "integers"),
        (np.where(labels, labels.astype("i4") - 2, 0), "from 1 to 65535"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            bv.pixel_classifier(found, examples)
    with pytest.raises(TypeError, match="ExtraTrees"):
        bv.pixel_classifier(found, labels, GradientBoostingClassifier())
    with pytest.raises(ValueError, match="not finite"):
        bv.pixel_classifier(found * np.inf, labels)
    with pytest.raises(ValueError, match="1 channels"):
        bv.classify(v, trained)
    with pytest.raises(ValueError, match="intensity 2"):
        bv.classify(bv.features(v, [2], texture=False), trained)
    with pytest.raises(FileNotFoundError, match="no such classifier"):
        bv.classify(found, "none.npz")


def test_damaged_files_are_refused(tmp_path):
    """No pickle is read, and no file makes a sample leave the trees."""
    v, labels, _ = scribbled((4, 20, 20))
    found = bv.features(v, [1], texture=False)
    trained = bv.pixel_classifier(found, labels, RandomForestClassifier(3, random_state=0))
    path = tmp_path / "a.npz"

    def refused(match):
        with pytest.raises(VolumeError, match=match):
            bv.classify(found, path)

    for name, change in (
        ("left", lambda a: a * 0 + 1),
        ("left", lambda a: a + len(a)),
        ("feature", lambda a: a + 2),
        ("threshold", lambda a: a * 0),
        ("roots", lambda a: a - 1),
        ("leaf", lambda a: a - 1),
        ("values", lambda a: a * np.nan),
        ("classes", lambda a: a - 5),
        ("start", lambda a: np.zeros(7)),
    ):
        array = change(getattr(trained, name)).astype(getattr(trained, name).dtype)
        dataclasses.replace(trained, **{name: array}).save(path)
        refused("not trees")
    dataclasses.replace(trained, leaf=trained.leaf.astype("f8")).save(path)
    refused("leaf has dtype float64")
    for name, array in dataclasses.asdict(trained).items():
        np.savez(path, **{**dataclasses.asdict(trained), name: np.full(array.shape or 1, {"a": 1})})
        refused(f"{name} has dtype object")
    np.savez_compressed(path, **dataclasses.asdict(trained))
    refused("compressed")
    path.write_bytes(pickle.dumps(trained))
    refused("not a file of PixelClassifier")
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(
            "classes.npy", b"\x93NUMPY\x01\x00\x46\x00{'descr': '<i8', 'fortran_order'"
        )
    path.write_bytes(file.getvalue())
    refused("not a file of PixelClassifier")
    with pytest.raises(ValueError, match="end with"):
        trained.save(tmp_path / "a.pkl")
