"""A network over slabs that are elements: the voxels of the whole volume's result."""

import ast
import re

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.testing.util import assert_that, equal_to

import beam_volumes as bv
from beam_volumes.transforms.steps.predict import _run
from beam_volumes.transforms.steps.slabs import read_slab
from tests.ops.networks.conftest import unet_file as unet_file

EM = np.random.default_rng(5).integers(0, 256, (14, 19, 21), "u1")
HOW = {"patch": (16, 16, 20), "context": 6, "stride": 2, "normalize": (0, 255)}


def bright(made):
    return made[1] > 0.5


@pytest.mark.parametrize("how", [HOW, {"mode": "blend", "patch": (6, 8, 10)}])
def test_slabs_have_the_voxels_of_the_whole(unet_file, how):
    whole = np.asarray(bv.predict(EM, unet_file, **how)[1])
    with pytest.raises(ValueError, match="needs the halo") as refused:
        bv.Predict(bv.SlabGrid(EM, depth=5, tile=(8, 21)), unet_file, lambda p: p[1], **how)
    halo = ast.literal_eval(str(refused.value).split("halo=")[1].split(", or")[0])
    cut = bv.SlabGrid(EM, depth=5, tile=(8, 21), halo=halo)
    step = bv.Predict(cut, unet_file, lambda p: p[1], **how)
    for k in range(len(cut.grid)):
        slab = read_slab(k, cut.volume, cut.grid, cut.halo)
        key, made = _run((slab.key, slab), step.node, step.space)
        assert key == made.key and made.halo == ((0, 0),) * 3
        np.testing.assert_array_equal(made.data, whole[made.core.slices])


def test_in_a_pipeline(unet_file, tmp_path):
    em = bv.open(EM)
    bv.compute(em.to(tmp_path / "em.zarr"), runner=None)
    em = bv.open(tmp_path / "em.zarr")
    expected = np.asarray(bright(bv.predict(em, unet_file, **HOW)))
    with beam.Pipeline("FnApiRunner") as p:
        read = bv.ReadSlabs(em, depth=4, halo=((6, 10), 0, 0))
        network = bv.Predict(read, unet_file, bright, **HOW)
        (p | read | network) | bv.WriteSlabs(str(tmp_path / "a.zarr"), chunks=(4, 19, 21))
        # A network in the source needs no halo.
        direct = p | "Direct" >> bv.ReadSlabs(bright(bv.predict(em, unet_file, **HOW)), depth=7)
        sums = direct | beam.MapTuple(lambda key, slab: int(slab.voxels.sum()))
        assert_that(sums, equal_to([int(expected[:7].sum()), int(expected[7:].sum())]))
    np.testing.assert_array_equal(np.asarray(bv.open(tmp_path / "a.zarr")), expected)


def test_what_slabs_cannot_be_given_is_refused(unet_file):
    cut = bv.SlabGrid(EM, depth=14)
    with pytest.raises(ValueError, match="returns 3 channels, but slabs have one"):
        bv.Predict(cut, unet_file, **HOW)
    with pytest.raises(TypeError, match="has no grid of slabs"):
        bv.Predict(EM, unet_file)
    with pytest.raises(TypeError, match="then=3 is not a function"):
        bv.Predict(cut, unet_file, 3)
    with pytest.raises(ValueError, match="of the whole volume, not of a slab"):
        bv.Predict(cut, unet_file, bright, **{**HOW, "normalize": ("1%", "99%")})
    with pytest.raises(ValueError, match=r"the result has the shape \(2, 3, 3\)"):
        bv.Predict(cut, lambda b: b[:, :, ::8, ::8, ::8], patch=64, mode="blend")


def test_machines_with_a_gpu_are_asked_for_by_passes_that_run_a_network(unet_file, tmp_path):
    em = bv.open(EM)
    bv.compute(em.to(tmp_path / "em.zarr"), runner=None)
    em = bv.open(tmp_path / "em.zarr")
    cells = bv.label(bright(bv.predict(em, unet_file, **HOW)))
    gpu = "type:nvidia-tesla-t4;count:1;install-nvidia-driver"
    step = bv.Compute(cells.to(tmp_path / "l.zarr"), accelerator=gpu, journal=str(tmp_path / "run"))
    pipeline = beam.Pipeline("FnApiRunner")
    _ = pipeline | step
    components = pipeline.to_runner_api().components
    asked = {"Pass 1": set(), "Pass 2": set()}
    for transform in components.transforms.values():
        hints = components.environments[transform.environment_id].resource_hints
        for name, found in asked.items():
            is_run = transform.spec.urn == "beam:transform:pardo:v1"
            if f"/{name}/" in transform.unique_name and is_run:
                found.add(hints.get("beam:resources:accelerator:v1", b"").decode())
    assert asked == {"Pass 1": {gpu}, "Pass 2": {""}}
    told = bv.plan(cells.to(tmp_path / "m.zarr")).explain(timed=True, verbose=True)
    said = r"60 patches of 16 x 16 x 20, 16 at a time, 2 % of their voxels are kept; about .* s, by one"
    assert re.search(said, told)
    on_cpu = bright(bv.predict(em, unet_file, device="cpu", **HOW))
    for other in (bv.mean(em), bv.mean(on_cpu)):
        with pytest.raises(ValueError, match="no pass of this run uses one"):
            bv.compute(other, accelerator=gpu)
