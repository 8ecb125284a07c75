"""Classification of voxels by a forest that is trained on examples."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from beam_volumes.graph.nodes import StageNode
from beam_volumes.graph.stages import interleaved_dtype, separated
from beam_volumes.graph.volume import Volume, as_volume, one_channel
from beam_volumes.kernels.filters.classification.forest import SCRATCH
from beam_volumes.kernels.scratch import nbytes
from beam_volumes.ops.filters.classification.forests import (
    PixelClassifier,
    is_trainable,
    of_trained,
    read_classifier,
    shares,
)
from beam_volumes.ops.parameters import checks as par
from beam_volumes.ops.parameters.building import first_channel
from beam_volumes.ops.parameters.docs import documented
from beam_volumes.storage.places.errors import needed
from beam_volumes.sweep.stage import Block, Stage

#: Values that are read at a time to find examples.
_AT_A_TIME = 1 << 25
#: The largest forest, as it is part of plans and pipelines.
_MAX_BYTES = 32 << 20
#: The largest sample of a tree of the default forest. With 100,000 examples, the forest can be too large.
_EXAMPLES = 30_000
#: The share of a sample that rare classes may fill, each with the same number of examples.
_RARE = 0.1
#: The classifiers of scikit-learn that can be trained.
_OFFERED = "RandomForestClassifier, ExtraTreesClassifier and HistGradientBoostingClassifier"
#: Bytes of features that are collected for a call of the kernel, if a row is not larger.
_COLLECTED = 1 << 20


@dataclass(frozen=True, eq=False)
class Classify(Stage):
    """The class of each voxel from its features, or the shares of all classes as fields."""

    classifier: PixelClassifier

    compiled = True

    @property
    def cost(self) -> float:
        leaves = len(self.classifier.values) / len(self.classifier.roots)
        return 3.0 * len(self.classifier.roots) * math.log2(leaves + 1)

    def _rows(self, rows: int, cols: int) -> int:
        """Return the number of rows that are classified at a time."""
        return max(1, min(rows, _COLLECTED // (4 * cols * int(self.classifier.features))))

    def scratch_bytes(self, rows: int, cols: int, depth: int) -> int:
        features, classes = int(self.classifier.features), len(self.classifier.classes)
        # Features, sums and shares, their order, and whether they are NaN.
        voxel = (4 + 1) * features + 3 * 8 * classes + 24
        return self._rows(rows, cols) * cols * voxel + nbytes(SCRATCH)

    def run(
        self, inputs: tuple[Block, ...], out: Block, y0: int, y1: int, values: tuple[Any, ...]
    ) -> None:
        step = self._rows(y1 - y0, out.cols)
        for k in range(out.depth):
            for y in range(y0, y1, step):
                end = min(y + step, y1)
                features = np.empty((end - y, out.cols, len(inputs)), np.float32)
                for f, block in enumerate(inputs):
                    features[..., f] = block.slice(k, y, end)
                self._classify(features, out.slice(k, y, end))

    def _classify(self, features: np.ndarray, out: np.ndarray) -> None:
        samples = features.reshape(-1, features.shape[-1])
        found = shares(self.classifier, samples)
        unknown = np.isnan(samples).any(axis=1)
        if self.dtype.names is None:
            classes = self.classifier.classes[found.argmax(axis=1)]
            classes[unknown] = 0
            out[...] = classes.reshape(out.shape)
            return
        found[unknown] = np.nan
        for c, field in enumerate(self.dtype.names):
            out[field] = found[:, c].reshape(out.shape)


@documented
def pixel_classifier(
    volume: Volume, examples: Any, forest: Any = None, *, random_state: int = 0
) -> PixelClassifier:
    """Train a random forest or boosted trees on voxels with known classes.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        Features as channels, as from `features`.
    examples : Volume, numpy.ndarray or tuple
        The known classes: labels of the same shape without channels, where 0 is unknown, such as
        scribbles painted in a viewer. Alternatively, a pair of positions (rows z, y, x, in voxels)
        and their classes. Classes are integers from 1 to 65535.
    forest : classifier, optional
        A scikit-learn classifier to train, with parameters of your choice: RandomForestClassifier,
        ExtraTreesClassifier or HistGradientBoostingClassifier (boosted trees). By default a random
        forest of 100 trees. Each tree has up to 20 levels and learns from up to 30,000 examples,
        which it draws at random.
    random_state : int, default: 0
        The seed of the default forest.

    Returns
    -------
    PixelClassifier
        The trained trees. `PixelClassifier.save` writes them to a file.

    Raises
    ------
    ValueError
        If scikit-learn is not installed, shapes do not match, or there are fewer than two classes.
        If a position is outside of the volume, or a feature of an example is not finite.
    TypeError
        If the examples are not integers, or ``forest`` is not one of these classifiers.

    See Also
    --------
    features : computes features.
    classify : applies the forest.

    Notes
    -----
    Training takes place immediately, in the current process. Labels are read piece by piece, and
    features are only computed around examples. With the same versions of scikit-learn and numpy,
    the same examples give the same default forest, in any order. Train once, and use the saved file
    for all volumes.

    The sample of each tree bounds the time of training and the size of the default forest. Trees draw
    examples of rare classes more often: about as many as there are, up to a tenth of the sample divided
    by the number of classes. Such a class is therefore more probable than its share of the examples.

    References
    ----------
    `sklearn.ensemble.RandomForestClassifier` and `HistGradientBoostingClassifier`; L. Breiman, "Random
    forests", Machine Learning 45 (2001);
    S. Berg et al., "ilastik: interactive machine learning for (bio)image analysis", Nature Methods 16
    (2019).

    Examples
    --------
    >>> image = np.zeros((40, 40))
    >>> image[10:30, 10:30] = 1
    >>> found = bv.features(image + np.random.default_rng(0).normal(0, 0.1, image.shape), [1, 2])
    >>> trained = bv.pixel_classifier(found, ([(2, 3), (35, 20), (16, 16), (20, 25)], [1, 1, 2, 2]))
    >>> trained.classes, len(trained.roots)
    (array([1, 2]), 100)
    >>> trained.save("cells.npz")
    >>> np.asarray(bv.classify(found, "cells.npz"))[20, [4, 16, 20, 24, 36]]
    array([1, 2, 2, 2, 1], dtype=uint8)
    """
    name = "pixel_classifier"
    volume = as_volume(volume)
    _check_points(volume, name)
    needed("sklearn", "classify", "forests are trained by scikit-learn")
    from sklearn.ensemble import RandomForestClassifier

    seed = par.whole_number(random_state, "random_state", name, 0)
    if forest is not None and not is_trainable(forest):
        raise TypeError(f"{name}: forest={forest!r} is not one of {_OFFERED}")
    given = isinstance(examples, tuple | list) and len(examples) == 2
    positions, classes = (
        _of_points(volume, examples, name) if given else _of_labels(volume, examples, name)
    )
    if len({*classes.tolist()}) < 2:
        raise ValueError(
            f"{name}: examples have {len({*classes.tolist()})} classes; give voxels of at least "
            "two classes"
        )
    samples = _sampled(volume, positions)
    bad = np.flatnonzero(~np.isfinite(samples).all(axis=1))
    if len(bad):
        at = tuple(positions[bad[0]].tolist())
        raise ValueError(f"{name}: the features of the example at {at} are not finite")
    if forest is None:
        order = np.lexsort((classes, *positions.T[::-1]))
        if (np.diff(order) < 0).any():
            samples, classes = samples[order], classes[order]
        drawn = _EXAMPLES if len(samples) > _EXAMPLES else None
        forest = RandomForestClassifier(
            100, max_depth=20, max_samples=drawn, random_state=seed, n_jobs=-1
        )
        times = _times(classes)
        if drawn is not None and times.max() > 1:
            samples, classes = samples.repeat(times, axis=0), classes.repeat(times)
    return of_trained(forest.fit(samples, classes), volume.channels, name)


def _times(classes: np.ndarray) -> np.ndarray:
    """Return how often each example is repeated, so that trees draw examples of rare classes."""
    _, which, counts = np.unique(classes, return_inverse=True, return_counts=True)
    wanted = np.minimum(counts, int(_RARE * _EXAMPLES) // len(counts))
    times = np.round(wanted / counts * (len(classes) / _EXAMPLES)).astype(int)
    return np.asarray(np.maximum(times, 1)[which])


def _check_points(volume: Volume, name: str) -> None:
    if volume.space.times:
        raise ValueError(f"{name}: volume has several time points; select one with sel(t=0)")


def _of_labels(volume: Volume, examples: Any, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions of labels other than 0 in the order of voxels, and the labels."""
    labels = one_channel(examples)
    _check_points(labels, name)
    like = first_channel(volume)
    if labels.dtype.kind not in "ui":
        raise TypeError(f"{name}: examples have dtype {labels.dtype}; give labels of integers")
    if labels.shape != like.shape:
        raise ValueError(
            f"{name}: examples have shape {labels.shape}, but the volume has shape {like.shape}"
        )
    found, classes = [], []
    for box in _boxes(labels.shape, _AT_A_TIME):
        part = np.asarray(labels[box])
        at = np.argwhere(part)
        found.append(at + [s.start for s in box])
        classes.append(part[tuple(at.T)])
    positions, values = np.concatenate(found), np.concatenate(classes)
    order = np.lexsort(positions.T[::-1])
    return positions[order], _checked(values[order], name)


def _of_points(volume: Volume, examples: Any, name: str) -> tuple[np.ndarray, np.ndarray]:
    positions, classes = (np.asarray(e) for e in examples)
    shape = first_channel(volume).shape
    if (
        positions.ndim != 2
        or positions.shape[1] != len(shape)
        or classes.shape != positions.shape[:1]
    ):
        raise ValueError(
            f"{name}: examples have shapes {positions.shape} and {classes.shape}; give positions "
            f"with {len(shape)} columns, and one class for each position"
        )
    if positions.dtype.kind not in "ui" or classes.dtype.kind not in "ui":
        raise TypeError(
            f"{name}: examples have dtypes {positions.dtype} and {classes.dtype}; give integers"
        )
    outside = np.flatnonzero(((positions < 0) | (positions >= shape)).any(axis=1))
    if len(outside):
        at = tuple(positions[outside[0]].tolist())
        raise ValueError(f"{name}: examples: {at} is outside of the volume of shape {shape}")
    return positions.astype(np.int64), _checked(classes, name)


def _checked(classes: np.ndarray, name: str) -> np.ndarray:
    for c in (classes.min(initial=1), classes.max(initial=1)):
        if not 1 <= c <= 65535:
            raise ValueError(f"{name}: examples have the class {c}; give classes from 1 to 65535")
    return classes.astype(np.int64)


def _boxes(shape: tuple[int, ...], voxels: int) -> Iterator[tuple[slice, ...]]:
    """Boxes of up to a number of voxels that cover a shape."""
    side = max(1, int(voxels ** (1 / len(shape))))
    ranges = [[slice(a, min(a + side, n)) for a in range(0, n, side)] for n in shape]
    yield from itertools.product(*ranges)


def _sampled(volume: Volume, positions: np.ndarray) -> np.ndarray:
    """Compute the features at some positions, float32, in boxes that contain positions."""
    features = len(volume.nodes)
    shape = first_channel(volume).shape
    samples = np.empty((len(positions), features), np.float32)
    side = max(1, int((_AT_A_TIME // features) ** (1 / len(shape))))
    _, cells = np.unique(positions // side, axis=0, return_inverse=True)
    for members in np.split(np.argsort(cells, kind="stable"), np.cumsum(np.bincount(cells))[:-1]):
        at = positions[members]
        low, high = at.min(axis=0), at.max(axis=0) + 1
        box: Any = tuple(slice(int(a), int(b)) for a, b in zip(low, high, strict=True))
        if volume.space.has_channels:
            box = (slice(None), *box)
        values = np.asarray(volume[box]).reshape(features, *(high - low))
        inside: Any = (slice(None), *(at - low).T)
        samples[members] = values[inside].T
    return samples


@documented
def classify(volume: Volume, classifier: Any, *, probabilities: bool = False) -> Volume:
    """Apply a trained forest to the features of each voxel.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        Features as channels, in the same order as for the training.
    classifier : PixelClassifier, path or forest
        The result of `pixel_classifier`, the path or URL of its file, or a trained scikit-learn
        classifier of a type that `pixel_classifier` supports.
    probabilities : bool, default: False
        Whether to return the probability of each class instead of the most probable class.

    Returns
    -------
    Volume
        The class of each voxel, as uint8, or uint16 for classes above 255. If several classes are
        equally probable, the smallest is selected. With ``probabilities``, a float32 volume with a
        channel for each class, such as ``"class 2"``. Voxels with a NaN among their features are 0,
        or NaN for probabilities.

    Raises
    ------
    ValueError
        If the number or names of the channels differ from the classifier's, or the classifier is
        larger than 32 MiB.
    TypeError
        If ``volume`` is neither a volume nor an array, or ``classifier`` is not supported.
    FileNotFoundError, VolumeError
        If there is no classifier file at the path.

    See Also
    --------
    pixel_classifier : trains a forest.
    features : computes features.
    predict : runs a neural network.

    Notes
    -----
    Pointwise: no halo. Features are computed in the same sweep and not stored. The time grows with
    the number of trees. The result of a forest equals scikit-learn's ``predict`` and
    ``predict_proba`` in one thread, bit for bit (probabilities as float32). Scores of boosted trees
    are added in scikit-learn's order, and probabilities agree within 1e-15. The trees become part
    of the plan. Reading a classifier file executes no code from it.

    References
    ----------
    `sklearn.ensemble.RandomForestClassifier`.

    Examples
    --------
    See `pixel_classifier`.

    >>> image = np.array([[0, 1, 0, 9, 8, 9]], "f4")
    >>> found = bv.features(image, [0.5], edges=False, texture=False)
    >>> trained = bv.pixel_classifier(found, np.array([[1, 1, 0, 0, 2, 2]]))
    >>> bv.classify(found, trained, probabilities=True).channels
    ('class 1', 'class 2')
    """
    name = "classify"
    volume = as_volume(volume)
    forest = _classifier_of(classifier, name)
    if forest.nbytes > _MAX_BYTES:
        raise ValueError(
            f"{name}: classifier={forest!r} has {forest.nbytes >> 20} MiB, but the limit is "
            f"{_MAX_BYTES >> 20}; train fewer trees, or smaller ones with max_depth= or "
            "min_samples_leaf="
        )
    _check_channels(volume, forest, name)
    nodes = volume.astype(np.float32).nodes
    space = volume.space.with_leading(volume.space.times, False, ())
    if probabilities:
        dtype = interleaved_dtype(np.dtype(np.float32), len(forest.classes))
        mixed = StageNode.of(Classify(name, dtype, forest), nodes)
        names = tuple(f"class {c}" for c in forest.classes)
        return Volume(separated(mixed, name), space.with_leading(space.times, True, names))
    dtype = np.min_scalar_type(int(forest.classes.max()))
    return Volume(StageNode.of(Classify(name, dtype, forest), nodes), space)


def _classifier_of(given: Any, name: str) -> PixelClassifier:
    if isinstance(given, PixelClassifier):
        return given
    if isinstance(given, str | os.PathLike):
        return read_classifier(os.fspath(given), name)
    if is_trainable(given) and hasattr(given, "classes_"):
        return of_trained(given, (), name)
    raise TypeError(
        f"{name}: classifier={given!r} is not a PixelClassifier, a path of its file, or a trained forest"
    )


def _check_channels(volume: Volume, forest: PixelClassifier, name: str) -> None:
    channels, wanted = len(volume.nodes), int(forest.features)
    if channels != wanted:
        raise ValueError(
            f"{name}: volume has {channels} channels, but the classifier was trained with {wanted}"
        )
    own, other = _names(volume.channels), _names(forest.channels.tolist())
    if own and other and own != other:
        a, b = next(pair for pair in zip(own, other, strict=True) if pair[0] != pair[1])
        raise ValueError(
            f"{name}: volume has the channel {a!r}, but the classifier was trained with {b!r}"
        )


def _names(channels: Sequence[str]) -> Sequence[str]:
    """Return the names of channels, without numbers of channels that have no names."""
    return () if all(c == str(k) for k, c in enumerate(channels)) else tuple(channels)
