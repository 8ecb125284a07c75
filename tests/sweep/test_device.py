"""Stages on a device: a fake one drives everything except CUDA itself."""

import os
import re
import subprocess
import sys
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import beam_volumes as bv
from beam_volumes.cli.main import main
from beam_volumes.plan.fit.fitting import without_device
from beam_volumes.plan.planner import make_plan
from beam_volumes.plan.run_options import RunOptions
from beam_volumes.runs.failure import may_pass
from beam_volumes.session.resume import for_this_machine
from beam_volumes.sweep import device, devices
from tests import catalogue as cat
from tests.sweep.fake_device import FakeCuda, pretended
from tests.tiers import examples, thorough

ROOT = Path(__file__).parents[2]
MODES = st.sampled_from(["reflect", "constant", "nearest", "mirror"])


FOLDS = [
    bv.sum,
    bv.std,
    bv.min,
    bv.threshold_otsu,
    lambda v, **how: bv.percentile(v, [30, 60, 99], **how),
    lambda v, **how: bv.histogram(v, 9, (1, 40), **how)[0],
]


@st.composite
def chains(draw):
    """A function of a volume: filters with and without device code, crops, and other stages."""
    steps = []
    for _ in range(draw(st.integers(1, 4))):
        mode = {"mode": draw(MODES), "cval": draw(st.sampled_from([0, 3]))}
        size = tuple(draw(st.integers(1, 4)) for _ in range(3))
        steps.append(
            draw(
                st.sampled_from(
                    [
                        lambda v, m=mode: bv.median_filter(v, 3, **m),
                        lambda v, m=mode: bv.gaussian_filter(v, (0.8, 0, 1.2), **m),
                        lambda v, m=mode, s=size: bv.uniform_filter(v, s, **m),
                        lambda v, m=mode, s=size: bv.maximum_filter(v, s, **m),
                        lambda v, m=mode, s=size: bv.minimum_filter(v, s, **m) + v,
                        lambda v: v[1:, :, 2:],
                        lambda v: bv.gaussian_filter(v, 1) - bv.median_filter(v, 3),
                        lambda v, m=mode: bv.zoom(v, (1, 0.5, 2), order=1, **m),
                        lambda v: bv.downsample(bv.flip(v, 1), (1, 2, 3)),
                        lambda v: bv.downsample(v, (2, 1, 2), method="median"),
                        lambda v, m=mode: bv.rotate(v, 20, reshape=False, order=1, **m),
                        lambda v: bv.pad(v, 2, mode="reflect"),
                        lambda v: bv.frangi(v, [1]),
                        lambda v: bv.hessian_matrix_eigvals(bv.hessian_matrix(v, 0.5))[1],
                        lambda v: bv.where((v > 3) & (v * 2.5 < 90), bv.sqrt(v), -v),
                        lambda v: v.astype("f4") / bv.max(v, nan="omit"),
                        lambda v: bv.distance_transform_edt(v > 2),
                        lambda v: bv.distance_transform_edt(v > 2, (2, 1.5, 0.7)),
                        lambda v: bv.rescale_intensity(v, (1, 50), (0, 9)),
                        lambda v: bv.clip(v, bv.min(v, nan="omit"), bv.mean(v, nan="omit")),
                        lambda v: bv.rgb2gray(bv.stack([v.astype("u1")] * 3)),
                    ]
                )
            )
        )
    return steps


@thorough
@settings(max_examples=examples(40), deadline=None)
@given(data=st.data())
def test_chains_have_the_same_bits_on_a_device_and_keep_its_memory(data):
    draw = data.draw
    shape = tuple(draw(st.integers(5, 20)) for _ in range(3))
    x = cat.voxels(shape, draw(st.sampled_from(["u1", "f4"])), draw(st.integers(0, 9)))
    v = bv.open(x)
    for step in draw(chains()):
        if min(v.shape) > 3:
            v = step(v)
    targets = [v, bv.max(v, nan="omit")]
    for fold in draw(st.lists(st.sampled_from(FOLDS), max_size=2)):
        mask = bv.open(np.indices(v.shape).sum(axis=0) % 3 > 0)
        targets.append(fold(v, nan="omit", mask=draw(st.sampled_from([None, mask]))))
    if draw(st.booleans()):
        neighbours = draw(st.integers(1, 3))
        targets.append(bv.label(bv.median_filter(v, 3) > 9, connectivity=neighbours))
    slab = tuple(draw(st.integers(-(-n // 3), n)) for n in v.shape)
    how = {"slab": slab, "window": draw(st.integers(1, 6)), "workers": draw(st.integers(1, 2))}
    try:
        expected = bv.compute(*targets, runner=None, progress=False, **how)
    except ValueError as error:  # a maximum of distances without background
        assume("of no voxels" not in str(error))
        raise
    with pretended(FakeCuda(seed=draw(st.integers(0, 99)))) as cuda:
        plan = make_plan(targets, RunOptions(device="cuda", in_memory_results=True, **how))
        found = bv.compute(*targets, runner=None, progress=False, device="cuda", **how)
    for a, b in zip(expected, found, strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()
    assert bool(cuda.launched) == plan.uses_device
    reserved = how["workers"] * device.DRIVER_BYTES * plan.uses_device
    assert cuda.peak <= plan.predicted_device_memory - reserved
    copied = [p.to_dict()["copied"] for p in plan.passes]
    assert sum(c["to_device"] for c in copied) == cuda.to
    assert sum(c["from_device"] for c in copied) == cuda.back


#: The kinds of waits, and the streams that wait or are waited for.
WAITS = [
    ("in", "incoming"),
    ("in", "computing"),
    ("in", "outgoing"),
    ("on the host for", "incoming"),
    ("on the host for", "outgoing"),
    ("end of", "computing"),
]


@thorough
@pytest.mark.parametrize("missing", [None, *WAITS])
def test_bits_are_the_same_for_any_order_of_streams_and_depend_on_each_wait(missing):
    v = byte_volume((40, 12, 14))
    median = bv.median_filter(bv.maximum_filter(v, 3), 3)
    targets = median, bv.sin(median), bv.mean(bv.gaussian_filter(v, 1))
    how = {"slab": (20, 12, 14), "window": 3, "workers": 1, "runner": None, "progress": False}
    expected = [np.asarray(a).tobytes() for a in bv.compute(*targets, **how)]
    different = 0
    for seed in range(8):
        cuda = FakeCuda(seed=seed, missing=missing)
        with pretended(cuda), mock.patch.object(device, "_PIECE", 300):
            try:
                found = bv.compute(*targets, device="cuda", **how)
            except ValueError:  # voxels that are not there yet may be NaN
                found = ()
        different += [np.asarray(a).tobytes() for a in found] != expected
    assert bool(different) == (missing is not None)


def test_copies_to_the_host_do_not_wait_for_the_kernels_of_the_next_window():
    slow = FakeCuda(seed=2)
    slow.driver.early = 0
    assert slow.driver.slow == "computing"
    how = {"slab": (24, 40, 50), "window": 4, "workers": 1, "runner": None}
    with pretended(slow):
        bv.compute(chain(), device="cuda", **how)
    # The first copy waits for all kernels, and the last window has none after it.
    assert len(slow.unfinished) == 6 and all(slow.unfinished[1:-1])


def test_slabs_reuse_memory_and_streams_of_the_device(tmp_path):
    how = {"device": "cuda", "workers": 1, "runner": None, "window": 2, "overwrite": True}
    made = []
    for shape in ((6, 40, 50), (6, 20, 20)):
        target = chain().to(tmp_path / "o.zarr", chunks=shape)
        with pretended() as cuda:
            out = bv.compute(target, slab=shape, **how)
        assert (np.asarray(out) == np.asarray(chain())).all()
        made.append((cuda.opened[0], cuda.allocated_arrays))
    # A slab next to the border, or with both neighbours, may need a larger array than the one before.
    assert made[0][0] == made[1][0] == 1 and made[1][1] <= made[0][1] + 4


def byte_volume(shape=(24, 40, 50)):
    return bv.open(np.random.default_rng(0).integers(0, 255, shape).astype("u1"))


def chain(shape=(24, 40, 50)):
    return bv.median_filter(bv.maximum_filter(byte_volume(shape), 3), 3) > 100


def test_a_plan_shows_what_runs_where_and_what_is_copied():
    how = {"device": "cuda", "device_memory": "1GiB", "slab": (24, 40, 50), "workers": 1}
    assert (
        "on the device: maximum_filter, median_filter, (median_filter > 100);"
        in bv.plan(chain(), **how).explain()
    )
    plan = bv.plan(bv.sin(bv.median_filter(bv.maximum_filter(byte_volume(), 3), 3)), **how)
    shown = plan.explain()
    voxels = 24 * 40 * 50 / 1024
    assert (
        f"on the device: maximum_filter, median_filter; {voxels:.1f} KiB are copied to it, "
        in shown
    )
    assert "on the host, without device code: sin" in shown
    assert re.search(r"device: .* predicted for 1 slab; budget 1.0 GiB", shown)
    detailed = plan.explain(verbose=True)
    assert "median_filter on the device (uint8) of maximum_filter halo 1+1" in detailed
    assert "memory of a slab on the device" in detailed
    assert plan.to_dict()["passes"][0]["on_device"] == ["maximum_filter", "median_filter"]
    assert plan.predicted_seconds is None
    # The host has no rings of the segment, and the rings of copies need no halo.
    host = bv.plan(chain(), slab=(24, 40, 50), workers=1)
    assert not host.uses_device and "device" not in host.explain()


def test_numbers_of_voxels_on_the_device_copy_nothing_back():
    median = bv.median_filter(byte_volume(), 3)
    numbers = bv.threshold_otsu(median), bv.mean(median), bv.percentile(median, 30)
    with pretended() as cuda:
        plan = bv.plan(*numbers, median > numbers[0], device="cuda")
        found = bv.compute(*numbers, runner=None, device="cuda")
    assert cuda.back == 0 and cuda.to == median.nbytes
    assert [*map(float, found)] == [*map(float, bv.compute(*numbers, runner=None))]
    first, second = (p.to_dict()["on_device"] for p in plan.passes)
    assert {*first} == {"median_filter", "threshold_otsu", "mean", "percentile"}
    assert second == ["(median_filter > threshold_otsu)"]
    assert f"on the device: {', '.join(first)};" in plan.explain()
    holes = bv.median_filter(bv.open(np.full((9, 9, 9), np.nan, "f4")), 3)
    with pretended(), pytest.raises(ValueError, match="mean: 729 voxels are NaN or infinite"):
        bv.compute(bv.mean(holes), runner=None, device="cuda")


def test_components_are_found_on_the_device():
    median = bv.median_filter(byte_volume(), 3)
    how = {"slab": (9, 17, 23), "window": 4}
    targets = bv.label(median > 128), bv.remove_small_objects(median > 128, 9)
    with pretended() as cuda:
        plan = bv.plan(*targets, device="cuda", **how)
        found = bv.compute(*targets, runner=None, device="cuda", **how)
    assert "labels.components.find_runs" in cuda.launched
    assert {"label", "remove_small_objects"} <= {*plan.passes[0].to_dict()["on_device"]}
    for a, b in zip(found, bv.compute(*targets, runner=None, **how), strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


def test_distances_need_no_copies_of_voxels_before_the_result():
    far = bv.distance_transform_edt(byte_volume() > 128)
    how = {"slab": (9, 40, 50), "window": 4}
    with pretended() as cuda:
        plan = bv.plan(far, device="cuda", **how)
        found = bv.compute(far, runner=None, device="cuda", **how)
    assert np.asarray(found).tobytes() == np.asarray(bv.compute(far, runner=None, **how)).tobytes()
    along_z = {f"morphology.distance.{name}" for name in ("ends", "forward", "backward")}
    assert along_z | {"measure.digests.digest"} <= {*cuda.launched}
    first, second = (p.to_dict() for p in plan.passes)
    assert "distance_transform_edt" in first["on_device"]
    assert "distance_transform_edt along z" in second["on_device"]
    # Distances after each window of four slices, and from the last slice of each of three slabs.
    assert first["copied"]["from_device"] == 4 * 40 * 50 * (3 + 3 + 2 + 3)
    assert second["copied"]["from_device"] == far.nbytes


def test_bench_shows_copies_and_devices_are_listed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    bv.compute(byte_volume().to("in.zarr"), runner=None)
    step = "m: {op: median_filter, input: input, size: 3}"
    Path("r.yaml").write_text(f"input: in.zarr\nsteps:\n  {step}\noutput: out.zarr\n")
    with pretended(FakeCuda(memory=8 << 30)) as cuda:
        assert main(["bench", "r.yaml", "--device", "cuda"]) == 0
        assert main(["info", "--machine"]) == 0
    shown = capsys.readouterr().out
    assert cuda.launched and "copy m from the device" in shown
    assert "fake, 8.0 GiB of 8.0 GiB free, CUDA 13.0, driver for CUDA 13.1" in shown


def test_auto_moves_only_what_is_worth_the_copies():
    v = bv.open(np.zeros((24, 40, 50), "u1"))
    with pretended():
        how = {"device": "auto", "threads": 2}
        heavy = bv.plan(bv.median_filter(v, 9), **how)
        light = bv.plan(bv.uniform_filter(v, 3), **how)
    assert heavy.uses_device and not light.uses_device
    assert "all stages run on the host" in light.explain()
    assert "on the host, where they take less time than the copies: uniform" in light.explain()
    with pretended(FakeCuda(count=0)):
        none = bv.plan(bv.median_filter(v, 9), **how)
    assert not none.uses_device
    assert "this machine has none, so all stages run on the host" in none.explain()


def test_device_memory_is_kept_or_refused_with_one_that_works(tmp_path):
    target = chain((64, 128, 128)).to(tmp_path / "o.zarr", chunks=(16, 64, 64))
    how = {"device": "cuda", "workers": 1}
    with pytest.raises(ValueError, match=r"device_memory 4\.9 KiB is too small") as refused:
        bv.plan(target, device_memory=5000, **how)
    assert "the smallest slab, 16 x 64 x 64, takes" in str(refused.value)
    smallest = int(re.search(r"device_memory of (\d+) bytes", str(refused.value))[1])
    for memory in (smallest, 4 * smallest):
        with pretended(FakeCuda(memory=memory)) as cuda:
            out = bv.compute(
                target, device_memory=memory, runner=None, overwrite=True, progress=False, **how
            )
        assert 0 < cuda.peak <= memory
        assert (np.asarray(out) == np.asarray(chain((64, 128, 128)))).all()


def test_sweeps_of_a_process_are_shared_among_its_devices(tmp_path):
    with pretended(FakeCuda(count=2)) as cuda:
        with devices.opened() as first, devices.opened() as second, devices.opened() as third:
            assert {first.index, second.index} == {0, 1} and third.index == first.index
        with devices.opened() as again:
            assert again.index == first.index
            target = chain().to(tmp_path / "o.zarr", chunks=(6, 40, 50))
            how = {"slab": (6, 40, 50), "workers": 1, "runner": None}
            out = bv.compute(target, device="cuda", **how)
    assert (np.asarray(out) == np.asarray(chain())).all()
    assert set(cuda.peaks) == {second.index}


def test_by_default_a_run_takes_most_of_the_free_memory():
    with pretended(FakeCuda(memory=10 << 30)):
        assert RunOptions(device="cuda").device_bytes == 8 << 30
    assert RunOptions().device_bytes == 0


def test_errors_of_devices_name_the_remedy(monkeypatch):
    with (
        pretended(FakeCuda(count=0)),
        pytest.raises(ValueError, match="no CUDA device; device='cpu'"),
    ):
        bv.compute(chain(), device="cuda")
    incomplete = mock.Mock(side_effect=RuntimeError("no libcudart"))
    monkeypatch.setattr(devices, "import_module", incomplete)
    with pytest.raises(ValueError, match=r"needs CUDA's libraries \(no libcudart\); install"):
        bv.compute(chain(), device="cuda")
    monkeypatch.setattr(devices, "import_module", missing)
    for asked in ({}, {"device_memory": "1GiB"}):
        with pytest.raises(ValueError, match=r"pip install 'beam-volumes\[cuda\]'"):
            bv.compute(chain(), device="cuda", runner=None, **asked)
    assert bv.compute(chain(), device="auto", runner=None).dtype == bool


def missing(name):
    raise ModuleNotFoundError(f"No module named {name!r}", name="numba_cuda")


def test_device_memory_that_another_process_takes_is_an_error_with_the_slab():
    with (
        pretended(FakeCuda(memory=5000)),
        pytest.raises(MemoryError, match="a slab of 24 x 40 x 50 in windows of") as error,
    ):
        bv.compute(chain(), device="cuda", device_memory="1GiB", runner=None, slab=(24, 40, 50))
    assert "smaller device_memory=" in str(error.value)
    smallest = r"or fewer workers: a slab of .* in windows of 1 slice takes .* is the smallest"
    assert re.search(smallest, str(error.value))


LOST = device.DeviceLost("the CUDA device has failed while copying: lost")


def test_a_lost_device_is_a_failure_of_the_machine():
    with (
        pretended(FakeCuda(fails=LOST)),
        pytest.raises(
            OSError, match=r"slab 0 .*slices 0 to 23: the CUDA device has failed"
        ) as error,
    ):
        bv.compute(chain(), device="cuda", runner=None)
    assert may_pass(error.value)  # so a runner tries again, on any worker


@pytest.mark.parametrize("how", [{"fails": LOST}, {"memory": 5000}, {"opens": False}])
def test_auto_computes_on_the_host_what_a_device_cannot(how, tmp_path, caplog):
    ranked = bv.median_filter(byte_volume(), 9)
    mask = ranked > 128
    others = bv.mean(ranked), bv.label(mask), bv.distance_transform_edt(mask)
    target = ranked.to(tmp_path / "o.zarr", chunks=(6, 40, 50))
    cut = {"slab": (6, 40, 50), "threads": 2}
    with pretended(FakeCuda(**how)):
        found = bv.compute(target, *others, runner=None, device="auto", device_memory="1GiB", **cut)
    assert caplog.text.count("is computed on the host: ") >= 4
    expected = bv.compute(ranked, *others, runner=None, **cut)
    for a, b in zip(found, expected, strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


def test_a_pass_on_the_host_keeps_the_memory_or_there_is_none():
    with pretended():
        plan = bv.plan(bv.median_filter(byte_volume((64, 128, 128)), 9), device="auto", window=32)
    (p,) = plan.passes
    on_host = bv.plan(bv.median_filter(byte_volume((64, 128, 128)), 9), window=32).slab_memory
    made = without_device(p, on_host, plan.concurrency)
    assert made.partition.memory == on_host and not made.program.uses_device
    narrow = without_device(p, on_host - 1, plan.concurrency)
    assert narrow.partition.window < 32 and narrow.partition.memory < on_host
    assert without_device(p, on_host // 50, plan.concurrency) is None


def test_a_run_goes_on_when_the_device_works_again(tmp_path):
    target = chain().to(tmp_path / "o.zarr", chunks=(6, 40, 50))
    how = {"device": "cuda", "runner": None, "progress": False, "slab": (6, 40, 50)}
    with pretended(FakeCuda(fails=device.DeviceLost("lost"))), pytest.raises(OSError, match="lost"):
        bv.compute(target, **how)
    with pretended():
        out = bv.compute(target, resume=True, **how)
    assert (np.asarray(out) == np.asarray(chain())).all()


def test_a_continued_run_keeps_the_memory_of_the_device_too():
    plan = bv.plan(chain(), device="cuda", device_memory="1GiB", slab=(6, 40, 50), workers=1)
    each = plan.predicted_device_memory
    assert for_this_machine(plan, RunOptions(workers=2)).predicted_device_memory == 2 * each
    for more in ({"workers": 1 + (1 << 30) // each}, {"workers": 1, "device_memory": each - 1}):
        with pytest.raises(
            ValueError, match=f"takes .* device_memory of {more['workers'] * each} bytes"
        ):
            for_this_machine(plan, RunOptions(**more))


def simulated(*command):
    """What a program prints if numba simulates a device."""
    done = subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env={**os.environ, "NUMBA_ENABLE_CUDASIM": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@thorough
def test_the_code_for_cuda_runs_in_the_simulator_with_the_same_bits():
    simulated("-m", "tests.sweep.simulated_device")


#: TensorStore's counters, and rings of the host by their bytes: a device has its own reads and rings.
NOT_ON_DEVICES = [
    "test_sweep.py::test_the_store_is_read_chunk_by_chunk_once",
    "test_sweep.py::test_reductions_without_positions_get_slices_joined",
    "test_reading_ahead.py::test_with_less_memory_less_is_read_ahead_and_the_plan_says_so",
]


@thorough
def test_all_tests_of_sweeps_pass_on_a_fake_device():
    folder = ROOT / "tests" / "sweep"
    names = ("sweep", "failing")
    command = [*["-m", "pytest", "-q", "-p", "tests.sweep.with_fake_device", "-m"], "not thorough"]
    command += [f"--deselect=tests/sweep/{name}" for name in NOT_ON_DEVICES]
    command += [str(folder / f"test_{name}.py") for name in names]
    done = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


@thorough
def test_the_benchmark_runs_all_device_code_and_compares_its_bits():
    program = """
from benchmarks import gpu
from beam_volumes.kernels.cuda import TWINS
from tests.sweep.fake_device import pretended
with pretended() as cuda:
    wrong = gpu.main(0)
assert not wrong and TWINS <= set(cuda.launched), TWINS - set(cuda.launched)
"""
    shown = simulated("-c", program)
    assert "from disk to disk" in shown and shown.count("| equal |") > 30
