"""Networks over volumes: what one pass gives, however the volume is cut."""

import itertools
import re
import weakref
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import tensorstore as ts
from apache_beam.ml.inference.base import ModelHandler, PredictionResult

import beam_volumes as bv
from beam_volumes.ops.networks import models
from beam_volumes.ops.networks.onnx_files import weights_of
from tests.ops.networks.conftest import unet
from tests.tiers import thorough

PROJECT = Path(__file__).parents[3]
RNG = np.random.default_rng(5)
EM = RNG.integers(0, 256, (23, 30, 37), "u1")
NUMPY_PADS = {
    "reflect": "symmetric",
    "mirror": "reflect",
    "nearest": "edge",
    "constant": "constant",
}


def identity(batch):
    return batch


def one_pass(path, array):
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return session.run(None, {"raw": array[None, None].astype("f4")})[0][0]


def stored(volume, folder, name, **options):
    target = volume.to(f"{folder}/{name}.zarr", chunks=(1, *options.pop("chunks", (23, 30, 37))))
    bv.compute(target, **options)
    store = ts.open(
        {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{folder}/{name}.zarr/"}}
    ).result()
    return store.read().result()


PARTITIONS = [
    {"slab": (5, 30, 37), "chunks": (5, 30, 37), "workers": 2},
    {"slab": (7, 11, 37), "chunks": (7, 11, 37), "window": 2},
    {"slab": (23, 8, 10), "chunks": (23, 8, 10), "window": 9, "workers": 2},
    {"slab": (1, 30, 20), "chunks": (1, 30, 20)},
]


def everywhere(volume, folder, whole):
    for k, cut in enumerate(PARTITIONS):
        np.testing.assert_array_equal(stored(volume, folder, f"cut{k}", **cut), whole)


@thorough
@pytest.mark.parametrize("edges", ["reflect", "mirror", "nearest", "constant"])
def test_valid_is_one_pass_over_the_padded_volume(unet_file, tmp_path, edges):
    found = bv.predict(EM, unet_file, patch=(20, 22, 24), context=6, stride=2, edges=edges,
                       cval=3, normalize=(0, 255))  # fmt: skip
    assert found.axes == ("c", "z", "y", "x") and found.shape == (3, 23, 30, 37)
    mode = NUMPY_PADS[edges]
    pad = [(6, 6 + n % 2) for n in EM.shape]
    padded = np.pad(EM.astype("f4") / np.float32(255), pad, mode,
                    **({"constant_values": 3} if edges == "constant" else {}))  # fmt: skip
    whole = one_pass(unet_file, padded)[:, 6:-6, 6:-6, 6:-6][:, :23, :30, :37]
    np.testing.assert_array_equal(np.asarray(found), whole)
    if edges == "reflect":
        everywhere(found, tmp_path, whole)
        fewer = bv.predict(
            EM, unet_file, patch=20, context=6, stride=2, batch=3, normalize=(0, 255)
        )
        np.testing.assert_array_equal(np.asarray(fewer), whole)


def test_networks_that_crop_and_are_coarser(strided_file, tmp_path):
    volume = bv.open(EM).with_space(voxel_size=(3, 2, 2), unit="nm")
    found = bv.predict(volume, strided_file, patch=(11, 13, 15))
    # 3 + 1 voxels of context for 2: one before, two after; the step makes one of them its own.
    padded = np.pad(EM.astype("f4"), [(1, 2 + n % 2) for n in EM.shape], "symmetric")
    whole = one_pass(strided_file, padded)
    assert found.shape == (1, 12, 15, 19) == whole.shape
    assert found.voxel_size == (6, 4, 4)
    np.testing.assert_array_equal(np.asarray(found), whole)
    cut = stored(found, tmp_path, "cut", slab=(2, 5, 19), chunks=(2, 5, 19), workers=2)
    np.testing.assert_array_equal(cut, whole)


def reference_blend(array, patch, overlap, net, blend, edges="symmetric"):
    """Patches that overlap, added in raster order, by plain numpy."""
    step = [p - o for p, o in zip(patch, overlap, strict=True)]
    counts = [
        max(1, -(-(n - p) // s) + 1) for n, p, s in zip(array.shape, patch, step, strict=True)
    ]
    full = [(c - 1) * s + p for c, s, p in zip(counts, step, patch, strict=True)]
    padded = np.pad(array, [(0, f - n) for f, n in zip(full, array.shape, strict=True)], edges)
    profiles = []
    for p in patch:
        t = (np.arange(p) + 1) / (p + 1)
        profiles.append(np.exp(4 - 1 / (t * (1 - t))) if blend == "bump" else np.ones(p))
    along = []
    for w, c, s, f in zip(profiles, counts, step, full, strict=True):
        total = np.zeros(f)
        for k in range(c):
            total[k * s : k * s + len(w)] += w
        along.append([w / total[k * s : k * s + len(w)] for k in range(c)])
    result = None
    for cell in np.ndindex(*counts):
        box = tuple(slice(k * s, k * s + p) for k, s, p in zip(cell, step, patch, strict=True))
        made = net(padded[box][None, None].astype("f4"))[0]
        z, y, x = (along[a][cell[a]] for a in range(3))
        result = np.zeros((len(made), *full)) if result is None else result
        result[(slice(None), *box)] += z[:, None, None] * (y[:, None] * x) * made
    return result[:, : array.shape[0], : array.shape[1], : array.shape[2]].astype("f4")


@pytest.mark.parametrize("blend", ["bump", "none"])
def test_blend(unet_file, tmp_path, blend):
    patch, overlap = (8, 12, 16), (4, 2, 10)
    found = bv.predict(EM, unet_file, mode="blend", patch=patch, overlap=overlap, blend=blend)
    whole = np.asarray(found)
    net = onnxruntime.InferenceSession(unet_file, providers=["CPUExecutionProvider"])
    reference = reference_blend(EM, patch, overlap, lambda b: net.run(None, {"raw": b})[0], blend)
    np.testing.assert_array_max_ulp(whole, reference, 1)
    if blend == "bump":
        everywhere(found, tmp_path, whole)


@pytest.mark.parametrize("shape", [(1, 1, 1), (2, 1, 9), (9, 4, 7)])
def test_identity_networks_give_what_they_are_given(shape):
    array = RNG.normal(0, 1e3, shape).astype("f4")
    array.flat[0] = np.nan
    for patch in (1, 4, (3, 2, 5)):
        np.testing.assert_array_equal(
            np.asarray(bv.predict(array, identity, patch=patch, context=0))[0], array
        )
    for blend in ("bump", "gaussian", "linear", "none"):
        found = np.asarray(bv.predict(array, identity, patch=(3, 4, 5), overlap=2, blend=blend))[0]
        np.testing.assert_array_max_ulp(np.nan_to_num(found), np.nan_to_num(array), 1)
        assert np.array_equal(np.isnan(found), np.isnan(array))


def test_networks_of_slices(tmp_path):
    def middle(batch):  # channels of slices, and what is around
        assert batch.shape[1] == 6 and batch.ndim == 4
        return batch[:, 1:2] + 10 * batch[:, 3:4] + 100 * batch[:, 2:3]

    pair = bv.stack([EM[:9], EM[9:18]])
    found = bv.predict(pair, middle, slices=3, patch=(16, 16), context=0)
    a, b = (
        np.pad(e.astype("f4"), [(1, 1), (0, 0), (0, 0)], "symmetric") for e in (EM[:9], EM[9:18])
    )
    expected = a[1:-1] + 10 * b[:-2] + 100 * a[2:]
    np.testing.assert_array_equal(np.asarray(found)[0], expected)
    blended = bv.predict(pair, middle, slices=3, patch=(16, 16))
    np.testing.assert_allclose(np.asarray(blended)[0], expected, rtol=1e-6)


def test_the_plan_chooses_patches_that_fit_and_keep_most(tmp_path):
    calls = []

    def steps(batch):  # a voxel, and the next one along x: some memory for each voxel
        calls.append(batch.shape)
        return (np.stack([batch[:, 0]] * 32).sum(0) + np.roll(batch[:, 0], -1, -1))[:, None]

    em = RNG.integers(0, 256, (70, 80, 110), "u1")
    found = bv.predict(em, steps, context=1, name="steps", version=1)
    how = {"slab": (70, 80, 110), "workers": 1}
    ample = bv.plan(found, memory="4GiB", **how)
    assert "1 patches of 72 x 82 x 112, 1 at a time" in ample.explain(verbose=True)
    tight = ample.base + ample.slab_memory * 2 // 3
    less = bv.plan(found, memory=tight, **how)
    assert less.predicted_memory <= tight and "1 patches" not in less.explain(verbose=True)
    target = found.to(tmp_path / "steps.zarr")
    one, other = (bv.plan(target, memory=m, slab=how["slab"]) for m in ("4GiB", "400MiB"))
    assert one.fingerprint == other.fingerprint
    after = np.pad(em, ((0, 0), (0, 0), (0, 1)), "edge")[..., 1:]
    expected = (32 * em.astype("f4") + after)[None]
    for memory in ("4GiB", tight):
        calls.clear()
        made = bv.compute(found, memory=memory, runner=None, **how)
        np.testing.assert_array_equal(np.asarray(made), expected)
        assert ((1, 1, 72, 82, 112) in calls) == (memory != tight)

    # Few slices leave room for wide patches.
    flat = bv.predict(np.zeros((8, 400, 500), "u1"), steps, context=8, name="steps", version=1)
    assert "1 patches of 24 x 416 x 516" in bv.plan(flat, memory="8GiB").explain(verbose=True)

    def sized(batch):  # a network whose results depend on the size of patches
        return np.stack([batch] * 32).sum(0) + batch.shape[-1]

    other = bv.predict(em, sized, context=0, name="sized", version=1)
    with pytest.raises(ValueError, match="smallest memory that works"):
        bv.plan(other, memory=tight, **how)


class Brighter(ModelHandler):
    """A model handler of Apache Beam."""

    def load_model(self):
        return 3.0

    def run_inference(self, batch, model, inference_args=None):
        return [PredictionResult(example, example + model) for example in batch]


def test_model_handlers_of_beam():
    found = bv.predict(EM, Brighter(), patch=16, batch=2, context=0)
    np.testing.assert_array_equal(np.asarray(found)[0], EM.astype("f4") + 3)


def test_masks_save_patches_and_change_nothing_else(unet_file):
    ran = []

    def counted(batch):
        ran.append(len(batch))
        return batch + 1

    mask = np.zeros(EM.shape, bool)
    mask[3, 4, 5] = mask[22, 29, 36] = True
    whole = np.asarray(bv.predict(EM, counted, patch=8, context=0, batch=1))
    ran.clear()
    found = np.asarray(bv.predict(EM, counted, patch=8, context=0, batch=1, mask=mask, fill=-2))
    cells = np.zeros(EM.shape, bool)
    cells[:8, :8, :8] = cells[16:, 24:, 32:] = True
    assert len(ran) <= 4  # two patches, and the trial
    np.testing.assert_array_equal(found[0], np.where(cells, whole[0], -2))


def test_normalisation_and_turns(unet_file):
    low, high = np.percentile(EM, [1, 99])
    by_lazy = bv.predict(EM, identity, patch=8, context=0, normalize=("1%", "99%"))
    expected = ((EM.astype("f4") - low) / (high - low)).astype("f4")
    np.testing.assert_array_equal(np.asarray(by_lazy)[0], expected)

    def slanted(batch):  # the voxel, and the one before along x
        return batch + np.roll(batch, 1, axis=-1)

    flat = EM[:8, :8, :8].astype("f4")
    flips = bv.predict(flat, slanted, patch=8, context=0, augment="flips")
    mean = flat + (np.roll(flat, 1, -1) + np.roll(flat, -1, -1)) / 2
    np.testing.assert_array_equal(np.asarray(flips)[0], mean)
    turns = np.asarray(bv.predict(flat, slanted, patch=8, context=0, augment="rot90"))[0]
    mean = flat + sum(np.roll(flat, s, a) for s in (-1, 1) for a in (1, 2)) / 4
    np.testing.assert_array_equal(turns, mean)
    patchwise = np.asarray(bv.predict(flat, identity, patch=8, context=0, normalize="patch"))[0]
    np.testing.assert_allclose(patchwise, (flat - flat.mean()) / flat.std(), rtol=1e-5)


PAIRS = [(-1, 0, 0), (0, -1, 0), (0, 0, -1)]


def affinities(offsets, slope):
    """A network with channels that add a voxel and the one at an offset; None is the voxel."""

    def network(batch):
        first = batch[:, 0]
        others = [0 if o is None else np.roll(first, [-n for n in o], (1, 2, 3)) for o in offsets]
        return np.stack([first + slope * other for other in others], axis=1)

    return network


def pairs_of(array, network, offsets, turn):
    """The result of a network for a whole rotated array, by the pairs of voxels that it describes."""
    places = np.arange(array.size).reshape(array.shape)
    given, names = turn(array.astype("f4")), turn(places)
    made = network(given[None, None])[0]
    found = {}
    for channel, offset in zip(made, offsets, strict=True):
        for at in np.ndindex(*names.shape):
            to = tuple(a + n for a, n in zip(at, offset or (0, 0, 0), strict=True))
            if all(0 <= a < n for a, n in zip(to, names.shape, strict=True)):
                found[frozenset((names[at], names[to]))] = float(channel[at])
    return found


def all_turns(name):
    backs = list(itertools.product((False, True), repeat=3))
    if name == "flips":
        chosen = [((0, 1, 2), back) for back in backs]
    elif name == "cube":
        chosen = [(axes, back) for axes in itertools.permutations(range(3)) for back in backs]
    else:
        return [
            lambda a, k=k, m=m: np.flip(np.rot90(a, k, (1, 2)), (2,) if m else ())
            for m in ((False,) if name == "rot90" else (False, True))
            for k in range(4)
        ]
    return [
        lambda a, axes=axes, back=back: np.flip(a.transpose(axes), np.flatnonzero(back))
        for axes, back in chosen
    ]


@thorough
@pytest.mark.parametrize(
    ("augment", "offsets", "mode"),
    [
        ("flips", [*PAIRS, (0, 0, -3), (2, 0, 0)], "valid"),
        ("rot90", [(0, 1, 0), None, (0, 0, -1), (-2, 0, 0)], "valid"),
        ("d4", [(0, -1, -1), (0, 1, -1), (0, 0, 2), (0, -2, 0)], "valid"),
        ("cube", PAIRS, "valid"),
        ("cube", PAIRS, "blend"),
    ],
)
def test_turned_pairs_of_voxels_are_those_of_the_turned_volume(augment, offsets, mode, tmp_path):
    array = RNG.integers(0, 100, (5, 7, 9), "u1")
    network = affinities(offsets, 3)
    found = bv.predict(array, network, patch=16, augment=augment, offsets=offsets, mode=mode,
                       context=3 if mode == "valid" else None, edges="nearest",
                       name=f"pairs {offsets}", version=1)  # fmt: skip
    turned = [pairs_of(np.pad(array, 4, "edge"), network, offsets, t) for t in all_turns(augment)]
    places = np.arange(np.prod([n + 8 for n in array.shape])).reshape([n + 8 for n in array.shape])
    expected, differ = np.zeros((len(offsets), *array.shape)), 0
    for k, offset in enumerate(offsets):
        for at in np.ndindex(*array.shape):
            here = tuple(n + 4 for n in at)
            to = tuple(a + n for a, n in zip(here, offset or (0, 0, 0), strict=True))
            pair = frozenset((places[here], places[to]))
            found_by = [t[pair] for t in turned]
            expected[(k, *at)] = np.mean(found_by)
            differ += len({*found_by}) > 1
    assert differ > array.size / 2  # the turns do not agree
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-6)
    cut = stored(found, tmp_path, "cut", slab=(2, 3, 9), chunks=(2, 3, 9), workers=2)
    np.testing.assert_array_equal(cut, np.asarray(found))


def test_pairs_that_cannot_be_turned_are_refused():
    def refused(match, offsets, augment="flips", kind=ValueError, **kw):
        network = affinities(PAIRS, 1)
        with pytest.raises(kind, match=match):
            bv.predict(
                EM, network, **{"patch": 12, "context": 3, **kw}, offsets=offsets, augment=augment
            )

    refused(
        r"'rot90' turns the offset \(0, -2, 0\) of channel 1 into \(0, 0, ",
        [None, (0, -2, 0), None],
        "rot90",
    )
    refused("'cube' turns the offset", [(-1, 0, 0), (0, -1, 0), (0, 0, -2)], "cube")
    refused("2 entries, but the network returns 3", PAIRS[:2])
    refused("twice, or with its opposite", [(1, 0, 0), (-1, 0, 0), None])
    refused("whole numbers along z, y, x", [(1, 0), None, None])
    refused(r"offsets=\[1, 2, 3\]: 1 is neither an offset nor None", [1, 2, 3], kind=TypeError)
    refused("must be a sequence of offsets", "zyx", kind=TypeError)
    refused("use a larger patch", [(-9, 0, 0), None, None], context=None)
    refused("equal extents along z and y and x", PAIRS, "cube", patch=(12, 12, 14))
    with pytest.raises(ValueError, match='use augment="d4"'):
        bv.predict(EM, lambda b: b, patch=1, slices=1, context=0, augment="cube")


def test_what_cannot_be_run_is_refused_before_anything_is_read(unet_file, tmp_path):
    def refused(match, model=identity, kind=ValueError, volume=EM, **kw):
        with pytest.raises(kind, match=match):
            bv.predict(volume, model, **{"patch": 8, "context": 0, **kw})

    refused("there is no such model", str(tmp_path / "none.onnx"), FileNotFoundError)
    (tmp_path / "bad.onnx").write_bytes(b"nothing")
    refused("not a model that ONNX Runtime can run", str(tmp_path / "bad.onnx"))
    refused("use a path of an .onnx", "net.h5")
    refused("is not a path of a file", 7, TypeError)
    refused("accepts 1 channels, but the volume has 2", unet_file, volume=bv.stack([EM, EM]))
    refused("returns 3 channels", unet_file, channels_out=2)
    refused("shape .* it must return", lambda b: b[0])
    refused("more voxels than the input", lambda b: np.repeat(b, 2, axis=2))
    refused("512 of 512 numbers as NaN", lambda b: b * np.nan, batch=1)
    refused("fails on a batch .*: division", lambda b: 1 / 0)
    refused("is too small for a context", context=4)
    refused("needs the context of", mode="valid", context=None)
    refused("patches at multiples of 4", mode="blend", context=None, stride=4, overlap=3)
    refused("mode='both'", mode="both")
    refused("predict: edges='foo' is not known", edges="foo")
    refused("predict: stride=0", stride=0)
    refused("predict: overlap=-1", mode="blend", overlap=-1)
    refused("predict: patch=.* has 2 entries", patch=(4, 4))
    refused("must be an odd number", slices=2)
    refused("low must be less", normalize=(3, 3))
    refused("not a percentile", normalize=("1", "99%"))
    with pytest.warns(UserWarning, match="does not return the same bits twice"):
        noisy = bv.predict(EM, lambda b: b + np.random.random(), patch=8, context=0)
    assert "stored" in bv.plan(bv.max(noisy - bv.mean(noisy))).explain(verbose=True)


def test_numbers_that_are_not_finite_are_an_error_unless_voxels_are_not(tmp_path, command):
    def logarithm(batch):
        with np.errstate(divide="ignore"):
            return np.log(batch)

    em = np.ones((4, 4, 9), "f4")
    em[2, 3, 6] = np.nan
    how = {"patch": (4, 4, 3), "name": "log", "version": 1}
    for more in ({"context": 0}, {"mode": "blend", "overlap": 0}):
        expected = np.log(em)[None]
        np.testing.assert_array_equal(bv.predict(em, logarithm, **how, **more), expected)
        with pytest.raises(
            ValueError, match=r"log returns 2 of 48 numbers as NaN.* at \(0, 0, 3\).* 0 to 1"
        ):
            zeros = em.copy()
            zeros[1:3, 1, 4] = 0
            np.asarray(bv.predict(zeros, logarithm, **how, **more))
    np.save(tmp_path / "em.npy", em)
    words = f"{tmp_path}/em.npy predict --model none.onnx -o {tmp_path}/out.zarr"
    code, _, told = command("chain", *words.split())
    assert code == 2 and told.count("predict:") == 1 and "there is no such model" in told


def test_probing(unet_file, strided_file, tmp_path, command):
    found = bv.probe_model(unet_file, 24)
    assert found.stride == (2, 2, 2) and found.channels == 3
    # Two convolutions on the fine grid, one on the coarse: 1 + 2 + 1 and what a pooling takes together.
    assert found.reach == ((5, 5),) * 3 and found.context == ((6, 6),) * 3
    cropping = bv.probe_model(strided_file, (16, 17, 18))
    assert cropping.stride == cropping.scale == (2, 2, 2)
    assert cropping.context == ((1, 1),) * 3
    with pytest.raises(ValueError, match="use a larger patch"):
        bv.probe_model(unet_file, 8)
    with pytest.raises(ValueError, match="can only be blended"):
        bv.probe_model(lambda b: b / b.sum(), 8)
    code, told, _ = command("probe", unet_file, "--patch", "24")
    assert code == 0 and told.splitlines()[:2] == [
        "context: [[6, 6], [6, 6], [6, 6]]",
        "stride: [2, 2, 2]",
    ]


def test_recipes_and_resumed_runs_know_the_file(tmp_path, command, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = unet(
        tmp_path / "unet.onnx", said={"beam_volumes.context": "6", "beam_volumes.stride": "2"}
    )
    np.save("em.npy", EM)
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(
        "input: em.npy\n"
        "steps:\n"
        "  affinities: {op: predict, input: input, model: unet.onnx, patch: 20, normalize: [0, 255]}\n"
        "  inside: {op: greater, inputs: [affinities, 0.5]}\n"
        "output: {step: inside, path: out.zarr}\n"
    )
    code, _, told = command("run", str(recipe), "--runner=none")
    assert code == 0, told
    expected = np.asarray(bv.predict(EM, file, patch=20, normalize=(0, 255)) > 0.5)
    np.testing.assert_array_equal(np.asarray(bv.open("out.zarr")), expected)
    code, told, _ = command("bench", str(recipe), "--crop=:8")
    assert code == 0 and re.search(r"patches of 20 x 20 x 20, .*: [\d.,]+ a second", told)
    planned = bv.predict(EM, file, patch=20)
    unet(tmp_path / "unet.onnx", seed=9)
    models._loaded.clear()
    with pytest.raises(ValueError, match=r"unet\.onnx has changed since this was planned"):
        np.asarray(planned)
    with pytest.raises(ValueError, match=r"step predict unet\.onnx 1"):
        again = (
            bv.predict(bv.open("em.npy"), file, patch=20, context=6, stride=2, normalize=(0, 255))
            > 0.5
        )
        bv.compute(again.to("out.zarr"), resume=True)


def test_weights_in_files_of_their_own_lie_next_to_the_model_and_are_part_of_it(
    tmp_path, monkeypatch
):
    def parted(folder, seed, location="net.weights"):
        folder.mkdir(exist_ok=True)
        path = Path(unet(folder / "net.onnx", seed))
        (folder / location).unlink(missing_ok=True)
        with monkeypatch.context() as there:
            there.chdir(folder)
            onnx.save(
                onnx.load(path),
                "net.onnx",
                save_as_external_data=True,
                location=location,
                size_threshold=0,
            )
        return str(path)

    elsewhere = tmp_path / "elsewhere"
    parted(elsewhere, 9)
    monkeypatch.chdir(elsewhere)  # which has weights of that name, too
    file, whole = parted(tmp_path / "own", 3), unet(tmp_path / "whole.onnx", 3)
    how = dict(patch=20, context=6, stride=2)
    expected = np.asarray(bv.predict(EM, whole, **how))
    planned = bv.predict(EM, file, **how)
    np.testing.assert_array_equal(np.asarray(planned), expected)
    by_url = bv.predict(EM, f"file://{file}", **how)
    np.testing.assert_array_equal(np.asarray(by_url), expected)
    with pytest.raises(ValueError, match=r"net\.weights.*input"):
        bv.plan((planned[0] > 1).to(tmp_path / "own" / "net.weights", format="zarr"))
    before = planned.nodes[0].token
    parted(tmp_path / "own", 4)
    models._loaded.clear()
    with pytest.raises(ValueError, match=r"net\.onnx has changed since this was planned"):
        np.asarray(planned)
    assert bv.predict(EM, file, **how).nodes[0].token != before
    (tmp_path / "own" / "net.weights").unlink()
    with pytest.raises(FileNotFoundError, match=r"net\.weights: there is no such file of weights"):
        bv.predict(EM, file, **how)
    data = Path(parted(tmp_path / "own", 4)).read_bytes()
    for bad in (b"../.weights", b"/et.weights"):
        Path(file).write_bytes(data.replace(b"net.weights", bad))
        with pytest.raises(ValueError, match="outside its folder"):
            bv.predict(EM, file, **how)


def part(number, data):
    """A field of a protobuf message."""
    return bytes([number << 3 & 127 | 130, number >> 4, len(data)]) + data


@pytest.mark.parametrize(
    "prefix",
    [
        b"",
        b"\xa3\x06\xa4\x06",  # a group, which protobuf skips
        b"\xaa\x80\x80\x80\x10",  # the field's number with a bit that protobuf drops in C++
    ],
)
def test_weights_elsewhere_are_found_in_every_message_that_onnx_accepts(prefix):
    def model(location, *fields):
        tensor = onnx.TensorProto(data_type=1, data_location=onnx.TensorProto.EXTERNAL)
        tensor.external_data.add(key="location", value=location)
        data = part(5, tensor.SerializeToString())
        data = prefix + (data[2:] if prefix[:1] == data[:1] else data)
        for field in fields:
            data = part(field, data)
        return data

    for fields in ((5, 1, 7), (11, 25), (5, 7, 25)):  # in a node, a default of a function, its node
        assert weights_of(model("w", *fields), "/m/net.onnx") == ("/m/w",)
        for elsewhere in ("../w", "/w", "a/../../w", "*/_ORT_MEM_ADDR_/*"):
            with pytest.raises(ValueError, match="outside its folder"):
                weights_of(model(elsewhere, *fields), "/m/net.onnx")


def test_a_network_is_held_until_a_sweep_has_no_use_for_it(tmp_path):
    file = unet(tmp_path / "unet.onnx")
    made = bv.predict(EM, file, patch=20)
    np.asarray(made)
    np.asarray(made)
    (network,) = models._loaded.values()
    alive = weakref.ref(network)
    del network
    np.asarray(bv.open(EM) + 1)
    assert not models._loaded and alive() is None


def test_from_slices_to_a_table_in_one_command(tmp_path, command, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = unet("unet.onnx", said={"beam_volumes.context": "6", "beam_volumes.stride": "2"})
    bv.compute(bv.open(EM).to("slices", format="png"), runner=None)
    how = {"patch": 30, "normalize": (0, 255)}
    made = bv.predict(EM, file, **how)
    labels = bv.label(np.minimum(made[0], np.minimum(made[1], made[2])) > 0.4)
    whole = np.asarray(labels)
    recipe = PROJECT / "templates/recipes/affinities.yaml"
    settings = ("out=a", "threshold=0.4", "steps.affinities.patch=30")
    code, _, told = command("run", str(recipe), *(f"--set={s}" for s in settings), "--runner=none")
    assert code == 0, told
    np.testing.assert_array_equal(np.asarray(bv.open("a/pieces.ome.zarr")), whole)
    found = np.asarray(bv.open("a/affinities.ome.zarr"))
    np.testing.assert_array_equal(found, np.asarray(made).astype("f2"))
    words = (
        "slices predict --model unet.onnx --patch 30 --normalize 0,255 --as net sel --c 1 --as along_y "
        "sel net --c 2 minimum along_y --as in_plane sel net --c 0 minimum in_plane greater 0.4 "
        "label -o b.zarr regionprops_table --properties area -o b.csv"
    )
    code, _, told = command("chain", *words.split(), "--runner=none")
    assert code == 0, told
    np.testing.assert_array_equal(np.asarray(bv.open("b.zarr")), whole)
    areas = np.loadtxt("b.csv", delimiter=",", skiprows=1)
    np.testing.assert_array_equal(areas[:, 1], np.bincount(whole.ravel())[1:])


def test_a_run_that_broke_off_goes_on_where_it_was(tmp_path):
    calls = []

    def broken(batch):
        calls.append(len(batch))
        if len(calls) == 20:  # two of the trial, and 12 of the first slab
            raise OSError("the power went")
        return batch + 1

    def to(name):
        made = bv.predict(bv.open(EM), broken, patch=16, context=2, batch=1, name="n", version=1)
        return made.to(tmp_path / name, chunks=(1, 8, 30, 37))

    how = {"slab": (8, 30, 37), "workers": 1, "threads": 1, "runner": None}
    with pytest.raises(OSError, match=r"slab 1.*the power went"):
        bv.compute(to("a.zarr"), **how)
    before = len(calls)
    bv.compute(to("a.zarr"), resume=True, **how)
    resumed = len(calls) - before
    bv.compute(to("b.zarr"), **how)
    assert resumed < len(calls) - before - resumed  # the first slab was kept
    stored_a, stored_b = (np.asarray(bv.open(tmp_path / n)) for n in ("a.zarr", "b.zarr"))
    np.testing.assert_array_equal(stored_a, stored_b)
    np.testing.assert_array_equal(stored_a, [EM.astype("f4") + 1])  # with its channel
