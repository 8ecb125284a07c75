"""Inputs for pages of the documentation, written into the current folder.

Run it in the folder of the quickstart:

    python examples/inputs.py slide         slide.svs: nuclei in tissue, with coarser levels
    python examples/inputs.py affinities    affinities.zarr and truth.zarr, from slices
    python examples/inputs.py network       unet.onnx: affinities from the mean of 3 x 3 x 3 voxels
"""

import sys

import numpy as np
from scipy import ndimage

import beam_volumes as bv


def slide():
    """Write a slide as Aperio's scanners do: tiled levels with the size of a pixel."""
    import tifffile

    rng = np.random.default_rng(0)
    spots = ndimage.gaussian_filter(rng.random((1024, 1280)), 6)
    stains = np.zeros((3, 1024, 1280), np.float32)
    stains[0] = 0.3 * (spots > np.percentile(spots, 85))  # nuclei
    stains[1, 128:-128, 128:-128] = 0.1  # tissue
    stains[0] *= stains[1] > 0
    colours = bv.hed2rgb(bv.open(stains, axes="cyx"))
    pixels = np.moveaxis(np.asarray(colours * 255).round().astype("u1"), 0, -1)
    with tifffile.TiffWriter("slide.svs") as file:
        for step in (1, 4, 16):
            how = {"tile": (256, 256), "photometric": "rgb", "subfiletype": int(step > 1)}
            about = f"Aperio Image|MPP = {0.5 * step}"
            file.write(pixels[::step, ::step], description=about, **how)


def affinities():
    """Write how likely each voxel and its predecessor along z, y and x are in one cell."""
    em = bv.open("slices")
    bright = np.asarray(bv.gaussian_filter(em, 1.5, dtype="f4"))
    likely = np.clip((bright - 100) * 6, 0, 255).astype("u1")
    pairs = [np.minimum(likely, np.roll(likely, 1, axis)) for axis in range(3)]
    cells = bv.label(bv.remove_small_objects(bv.open(likely) > 150, max_size=500))
    bv.compute(bv.open(np.stack(pairs), axes="czyx").to("affinities.zarr"), cells.to("truth.zarr"))


def network():
    """Write a network of one layer; ``pip install onnx`` is needed."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    weights = {"w": np.full((3, 1, 3, 3, 3), 40 / 27, "f4"), "b": np.full(3, -18, "f4")}
    nodes = [
        helper.make_node("Conv", ["raw", "w", "b"], ["sums"], pads=[1] * 6),
        helper.make_node("Sigmoid", ["sums"], ["out"]),
    ]
    axes = ["z", "y", "x"]
    graph = helper.make_graph(
        nodes,
        "affinities",
        [helper.make_tensor_value_info("raw", TensorProto.FLOAT, ["n", 1, *axes])],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, ["n", 3, *axes])],
        [numpy_helper.from_array(w, name) for name, w in weights.items()],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
        "unet.onnx",
    )


if __name__ == "__main__":
    made = {"slide": slide, "affinities": affinities, "network": network}
    for name in sys.argv[1:]:
        made[name]()
