"""Networks of known weights, in numpy and as ONNX files of a few kilobytes."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.cli.conftest import command as command


def written(path, nodes, weights, channels_out, ndim=3, channels=1, said=()):
    axes = ["z", "y", "x"][3 - ndim :]
    made = [f"out_{a}" for a in axes]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("raw", TensorProto.FLOAT, ["n", channels, *axes])],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, ["n", channels_out, *made])],
        [numpy_helper.from_array(w, name) for name, w in weights.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    if said:
        helper.set_model_props(model, dict(said))
    onnx.checker.check_model(model)
    onnx.save(model, str(path))
    return str(path)


def unet(path, seed=0, **kw):
    """A small U-Net with one pooling: three channels, a context of 7 voxels, a stride of 2."""
    rng = np.random.default_rng(seed)
    w = {
        "a": rng.normal(0, 0.3, (4, 1, 3, 3, 3)).astype("f4"),
        "b": rng.normal(0, 0.2, (6, 4, 3, 3, 3)).astype("f4"),
        "u": rng.normal(0, 0.3, (6, 4, 2, 2, 2)).astype("f4"),
        "c": rng.normal(0, 0.2, (3, 8, 3, 3, 3)).astype("f4"),
    }
    pads = [1] * 6
    nodes = [
        helper.make_node("Conv", ["raw", "a"], ["a1"], pads=pads),
        helper.make_node("Relu", ["a1"], ["a2"]),
        helper.make_node("MaxPool", ["a2"], ["p"], kernel_shape=[2] * 3, strides=[2] * 3),
        helper.make_node("Conv", ["p", "b"], ["b1"], pads=pads),
        helper.make_node("Relu", ["b1"], ["b2"]),
        helper.make_node("ConvTranspose", ["b2", "u"], ["u1"], strides=[2] * 3),
        helper.make_node("Concat", ["a2", "u1"], ["s"], axis=1),
        helper.make_node("Conv", ["s", "c"], ["c1"], pads=pads),
        helper.make_node("Sigmoid", ["c1"], ["out"]),
    ]
    return written(path, nodes, w, 3, **kw)


def strided(path, seed=1):
    """Two convolutions without padding, the second by steps of 2: it crops and is coarser."""
    rng = np.random.default_rng(seed)
    w = {
        "a": rng.normal(0, 0.3, (2, 1, 3, 3, 3)).astype("f4"),
        "b": rng.normal(0, 0.3, (1, 2, 2, 2, 2)).astype("f4"),
    }
    nodes = [
        helper.make_node("Conv", ["raw", "a"], ["a1"]),
        helper.make_node("Conv", ["a1", "b"], ["out"], strides=[2] * 3),
    ]
    return written(path, nodes, w, 1)


@pytest.fixture(scope="session")
def unet_file(tmp_path_factory):
    return unet(tmp_path_factory.mktemp("nets") / "unet.onnx")


@pytest.fixture(scope="session")
def strided_file(tmp_path_factory):
    return strided(tmp_path_factory.mktemp("nets") / "strided.onnx")
