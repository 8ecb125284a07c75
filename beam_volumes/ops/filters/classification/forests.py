"""Random forests and boosted trees as plain arrays, and their files."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np

from beam_volumes.kernels.elementary.exp_log import exp
from beam_volumes.kernels.filters.classification.forest import SCRATCH, votes
from beam_volumes.kernels.scratch import arrays
from beam_volumes.storage.places.errors import damaged
from beam_volumes.storage.places.place import Place, kvstore_spec
from beam_volumes.sweep.stage import PlainData

#: Dtypes and numbers of axes of the arrays.
_ARRAYS = {
    "classes": ("<i8", 1), "channels": ("<U", 1), "features": ("<i8", 0), "feature": ("<u4", 1),
    "threshold": ("<f4", 1), "left": ("<u4", 1), "leaf": ("<u4", 1), "roots": ("<u4", 1),
    "values": ("<f8", 2), "start": ("<f8", 1),
}  # fmt: skip


@dataclass(frozen=True, eq=False, repr=False)
class PixelClassifier(PlainData):
    """A trained forest or boosted trees, as returned by `pixel_classifier`; `classify` applies it.

    Attributes
    ----------
    classes : numpy.ndarray
        The classes, in ascending order.
    channels : numpy.ndarray
        The names of the features, or empty.
    features : numpy.ndarray
        The number of features.
    feature, threshold, left, leaf : numpy.ndarray
        For each node, a feature, its threshold, and the node for voxels up to the threshold (the
        next node is for the other voxels). For a leaf, which is its own ``left``, the row of
        ``values``.
    roots : numpy.ndarray
        The first node of each tree.
    values : numpy.ndarray
        The fractions of the classes in the training data of each leaf, or the scores for boosted
        trees.
    start : numpy.ndarray
        The scores of the classes before the first boosted tree; empty for a forest.

    Examples
    --------
    >>> image = np.array([[0, 1, 0, 9, 8, 9]], "f4")
    >>> trained = bv.pixel_classifier(image, np.array([[1, 1, 0, 0, 2, 2]]))
    >>> trained.classes, int(trained.features)
    (array([1, 2]), 1)
    """

    classes: np.ndarray
    channels: np.ndarray
    features: np.ndarray
    feature: np.ndarray
    threshold: np.ndarray
    left: np.ndarray
    leaf: np.ndarray
    roots: np.ndarray
    values: np.ndarray
    start: np.ndarray

    def __repr__(self) -> str:
        trees, nodes, number = len(self.roots), len(self.left), int(self.features)
        classes = ", ".join(map(str, self.classes.tolist()))
        return f"<PixelClassifier of {number} features into classes {classes}: {trees} trees, {nodes} nodes>"

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(int(getattr(self, f.name).nbytes) for f in fields(self))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a file that `classify` can read.

        It is an ``.npz`` file of numbers and names. Unlike a scikit-learn pickle, it executes no
        code when read, and does not require scikit-learn.

        Parameters
        ----------
        path : str or os.PathLike
            A path or URL that ends with ``.npz``. An existing file is replaced.

        Raises
        ------
        ValueError
            If the path does not end with ``.npz``.

        Examples
        --------
        >>> image = np.array([[0, 1, 0, 9, 8, 9]], "f4")
        >>> trained = bv.pixel_classifier(image, np.array([[1, 1, 0, 0, 2, 2]]))
        >>> trained.save("two_classes.npz")
        >>> bv.classify(image, "two_classes.npz").dtype
        dtype('uint8')
        """
        text = os.fspath(path)
        if not text.endswith(".npz"):
            raise ValueError(f"PixelClassifier.save: path={text!r} must end with .npz")
        file = io.BytesIO()
        np.savez(file, **{f.name: getattr(self, f.name) for f in fields(self)})
        place, name = _place_of(text)
        place.write(name, file.getvalue())


def shares(classifier: PixelClassifier, samples: np.ndarray) -> np.ndarray:
    """Return the shares of the classes for samples, float32 (n, features), as float64 (n, classes)."""
    c, sums = classifier, np.zeros((len(samples), len(classifier.classes)))
    if len(c.start):
        sums[:] = c.start
    trees = c.feature, c.threshold, c.left, c.leaf, c.roots, c.values
    votes(samples, sums, *trees, arrays(SCRATCH))
    if not len(c.start):
        return sums / len(c.roots)
    sums -= sums.max(axis=1, keepdims=True)
    exp(sums, sums)
    return sums / _row_sums(sums)


def _row_sums(rows: np.ndarray) -> np.ndarray:
    """Return the sums of rows, from the first column on: numpy's order may depend on the processor."""
    total = np.zeros((len(rows), 1))
    for column in rows.T:
        total += column[:, None]
    return total


def is_trainable(given: Any) -> bool:
    """Whether it is a classifier of scikit-learn with trees that all vote, or with boosted histograms."""
    names = [c.__name__ for c in type(given).__mro__]
    return "ForestClassifier" in names or _BOOSTED in names


#: The class of scikit-learn's boosted trees.
_BOOSTED = "HistGradientBoostingClassifier"


def of_trained(trained: Any, channels: Sequence[str], name: str) -> PixelClassifier:
    """Return the arrays of a trained classifier of scikit-learn."""
    classes = np.asarray(trained.classes_)
    if (
        classes.ndim != 1
        or classes.dtype.kind not in "ui"
        or classes.min() < 0
        or classes.max() > 65535
    ):
        raise ValueError(
            f"{name}: classes {classes.tolist()} are not whole numbers from 0 to 65535"
        )
    boosted = hasattr(trained, "_predictors")
    trees, start = (_boosted if boosted else _forest)(trained, len(classes), name)
    parts: dict[str, list[np.ndarray]] = {k: [] for k in ("feature", "threshold", "left", "leaf")}
    values, roots, first, leaves = [], [], 0, 0
    for tree in trees:
        order = _in_levels(tree.left, tree.right)
        is_leaf = tree.left[order] < 0
        place = np.empty(len(order), np.int64)
        place[order] = number = np.arange(len(order))
        parts["feature"].append(np.where(is_leaf, 0, tree.feature[order]))
        parts["threshold"].append(np.where(is_leaf, np.inf, _floored(tree.threshold[order])))
        parts["left"].append(first + np.where(is_leaf, number, place[tree.left[order] * ~is_leaf]))
        parts["leaf"].append(np.where(is_leaf, leaves + np.cumsum(is_leaf) - 1, 0))
        values.append(tree.values[order][is_leaf])
        roots.append(first)
        first, leaves = first + len(order), leaves + int(is_leaf.sum())
    joined = {k: np.concatenate(v).astype(_ARRAYS[k][0]) for k, v in parts.items()}
    return PixelClassifier(
        classes.astype("<i8"), np.array(channels, dtype="<U"), np.array(trained.n_features_in_, "<i8"),
        roots=np.array(roots, "<u4"), values=np.concatenate(values).astype("<f8"), start=start, **joined,
    )  # fmt: skip


class _Tree(NamedTuple):
    """The nodes of a tree; ``left`` of a leaf is negative."""

    left: np.ndarray
    right: np.ndarray
    feature: np.ndarray
    threshold: np.ndarray
    values: np.ndarray


def _forest(trained: Any, classes: int, name: str) -> tuple[list[_Tree], np.ndarray]:
    trees = [e.tree_ for e in trained.estimators_]
    return [
        _Tree(t.children_left, t.children_right, t.feature, t.threshold, t.value[:, 0, :])
        for t in trees
    ], np.empty(0, "<f8")


def _boosted(trained: Any, classes: int, name: str) -> tuple[list[_Tree], np.ndarray]:
    """Return the trees of `HistGradientBoostingClassifier`, with a score of one class each."""
    if trained.is_categorical_ is not None and np.any(trained.is_categorical_):
        raise ValueError(f"{name}: features must be numbers; train without categorical_features=")
    start = np.zeros(classes)
    start[-trained.n_trees_per_iteration_ :] = np.ravel(trained._baseline_prediction)
    trees = []
    for iteration in trained._predictors:
        for k, predictor in enumerate(iteration, classes - len(iteration)):
            n = predictor.nodes
            is_leaf = n["is_leaf"].astype(bool)
            values = np.zeros((len(n), classes))
            values[:, k] = n["value"]
            left, right = (
                np.where(is_leaf, -1, n[side].astype(np.int64)) for side in ("left", "right")
            )
            trees.append(_Tree(left, right, n["feature_idx"], n["num_threshold"], values))
    return trees, start.astype("<f8")


def _in_levels(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Nodes in an order in which both children of a node are adjacent, and come after it."""
    order = [0]
    for node in order:
        if left[node] >= 0:
            order += [int(left[node]), int(right[node])]
    return np.array(order)


def _floored(thresholds: np.ndarray) -> np.ndarray:
    """Return the largest float32 numbers up to some float64 numbers: the same floats are above them."""
    rounded = thresholds.astype(np.float32)
    return np.where(rounded > thresholds, np.nextafter(rounded, np.float32(-np.inf)), rounded)


def read_classifier(path: str, name: str) -> PixelClassifier:
    """Read a file of `PixelClassifier.save`. Its arrays are checked, and nothing is unpickled."""
    if not path.endswith(".npz"):
        raise ValueError(f"{name}: classifier={path!r} is not the path of an .npz file")
    place, file = _place_of(path)
    data = place.read(file)
    if data is None:
        raise FileNotFoundError(f"{name}: {path}: there is no such classifier")
    try:
        found = PixelClassifier(**_arrays(data))
    except (zipfile.BadZipFile, ValueError, KeyError, EOFError) as error:
        raise damaged(path, f"it is not a file of PixelClassifier.save ({error})") from None
    if not _is_sound(found):
        raise damaged(path, "its nodes are not trees")
    return found


def _arrays(data: bytes) -> dict[str, np.ndarray]:
    """Return the arrays of a file, if they have the expected names and dtypes, and fit in the file."""
    arrays = {}
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for name, (dtype, ndim) in _ARRAYS.items():
            content = archive.getinfo(f"{name}.npy")
            if content.compress_type != zipfile.ZIP_STORED or content.file_size > len(data):
                raise ValueError(f"{name} is compressed")
            part = archive.read(content)
            header = io.BytesIO(part)
            if np.lib.format.read_magic(header) != (1, 0):
                raise ValueError(f"{name} has a different version")
            shape, _, own = np.lib.format.read_array_header_1_0(header)
            if not own.str.startswith(dtype) or len(shape) != ndim or own.hasobject:
                raise ValueError(f"{name} has dtype {own} and shape {shape}")
            arrays[name] = np.ndarray(shape, own, part, header.tell()).copy()
    return arrays


def _is_sound(c: PixelClassifier) -> bool:
    """Whether a sample that begins at any root ends at a leaf with values."""
    nodes, number = len(c.left), np.arange(len(c.left))
    if not nodes or any(len(a) != nodes for a in (c.feature, c.threshold, c.leaf)):
        return False
    inner = c.left != number
    return bool(
        len(c.roots)
        and len(c.classes)
        and c.values.shape[1] == len(c.classes)
        and ((c.classes >= 0) & (c.classes <= 65535)).all()
        and len(c.channels) in (0, int(c.features))
        and (c.roots < nodes).all()
        and (c.feature < c.features).all()
        and (c.left[inner] > number[inner]).all()
        and (c.left[inner] < nodes - 1).all()
        and (c.threshold[~inner] == np.inf).all()
        and (c.leaf < len(c.values)).all()
        and np.isfinite(c.values).all()
        and len(c.start) in (0, len(c.classes))
        and np.isfinite(c.start).all()
    )


def _place_of(path: str) -> tuple[Place, str]:
    """Return the folder and the name of a file."""
    spec = kvstore_spec(path)
    folder, _, name = str(spec["path"]).rpartition("/")
    return Place.of({**spec, "path": f"{folder}/"}), name
