"""Networks on a GPU, with a provider of ONNX Runtime and a PyTorch that pretend to have one."""

import threading
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import onnxruntime
import pytest

import beam_volumes as bv
from beam_volumes.ops.networks.patches import Patches
from beam_volumes.ops.networks.stages import Predict
from beam_volumes.ops.networks.torch_files import _same_bits

EM = np.random.default_rng(5).integers(0, 256, (23, 30, 37), "u1")
HOW = {"patch": (24, 24, 24), "context": 7, "stride": 2, "batch": 2, "normalize": (0, 255)}
CUDA = "CUDAExecutionProvider"


class Pretended:
    """A session on the CPU that has CUDA by its own account."""

    asked, own = [], onnxruntime.InferenceSession
    on_run = staticmethod(lambda: None)

    def __init__(self, data, options, providers):
        self.asked.append((providers, options.use_deterministic_compute))
        self.names = [p if isinstance(p, str) else p[0] for p in providers]
        self.session = self.own(data, options, providers=[providers[-1]])

    def get_providers(self):
        return self.names

    def run(self, names, given):
        self.on_run()
        return self.session.run(names, given)

    def __getattr__(self, name):
        return getattr(self.session, name)


@pytest.fixture
def pretended(monkeypatch):
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: [CUDA])
    monkeypatch.setattr(onnxruntime, "InferenceSession", Pretended)
    monkeypatch.setattr(Pretended, "asked", [])
    return Pretended


def test_cuda_is_asked_for_the_same_bits_in_every_run(unet_file, pretended):
    volume = bv.predict(EM, unet_file, device="cuda", **HOW)
    for providers, deterministic in pretended.asked:
        (name, options), cpu = providers
        assert (name, cpu, deterministic) == (CUDA, "CPUExecutionProvider", True)
        assert options == {"cudnn_conv_algo_search": "DEFAULT", "use_tf32": "0"}
    shown = bv.plan(volume).explain()
    assert "predict unet.onnx runs on CUDA: its bits may differ from the CPU's, but not" in shown
    on_cpu = bv.predict(EM, unet_file, device="cpu", **HOW)
    assert "CUDA" not in bv.plan(on_cpu).explain()
    assert pretended.asked[-1] == (["CPUExecutionProvider"], False)


@pytest.mark.parametrize("how", [{}, {"mode": "blend", "context": None, "augment": "flips"}])
def test_the_next_batch_is_prepared_while_the_gpu_computes(unet_file, pretended, monkeypatch, how):
    mask = np.zeros(EM.shape, "u1")
    mask[:, :, 20:] = mask[:9, 20:] = 1
    how = {**HOW, **how, "mask": mask}
    on_cpu, volume = (bv.predict(EM, unet_file, device=d, **how) for d in ("cpu", "cuda"))
    expected = np.asarray(on_cpu)
    gathered, ahead = threading.Event(), []
    gather = Patches.gather

    def noted(*arguments):
        gathered.set()
        return gather(*arguments)

    def run():
        gathered.clear()
        ahead.append(gathered.wait(0.05))

    monkeypatch.setattr(Patches, "gather", noted)
    monkeypatch.setattr(pretended, "on_run", staticmethod(run))
    found = bv.compute(volume, runner=None, slab=(23, 30, 37), window=23, workers=1)
    assert np.asarray(found).tobytes() == expected.tobytes()
    assert any(ahead) and not ahead[-1]
    stages = (step.stage for step in bv.plan(volume).passes[0].program.steps)
    stage = next(stage for stage in stages if isinstance(stage, Predict))
    alone = replace(stage, model=replace(stage.model, on_gpu=False))
    more = stage.working_bytes((1, 1, 1), 1) - alone.working_bytes((1, 1, 1), 1)
    kept = stage.kept_bytes(1, 1) - alone.kept_bytes(1, 1)
    assert (more, kept) == (4 * 3 * 2 * 24**3, 4 * 2 * 24**3)  # a result and a batch


def test_an_error_of_a_batch_in_flight_is_raised(unet_file, pretended, monkeypatch):
    volume = bv.predict(EM, unet_file, device="cuda", **HOW)

    def run():
        raise RuntimeError("CUDA failure 700")

    monkeypatch.setattr(pretended, "on_run", staticmethod(run))
    with pytest.raises(RuntimeError, match=r"predict unet\.onnx, slices .*CUDA failure 700"):
        bv.compute(volume, runner=None)


def test_torch_is_asked_for_the_same_bits_and_set_back():
    settings = {"deterministic": False, "warn_only": False}
    seen = []

    @contextmanager
    def flags(**given):
        seen.append(given)
        yield

    def use(mode, *, warn_only):
        settings.update(deterministic=mode, warn_only=warn_only)

    torch = SimpleNamespace(
        backends=SimpleNamespace(cudnn=SimpleNamespace(flags=flags)),
        are_deterministic_algorithms_enabled=lambda: settings["deterministic"],
        is_deterministic_algorithms_warn_only_enabled=lambda: settings["warn_only"],
        use_deterministic_algorithms=use,
    )
    with pytest.raises(ZeroDivisionError), _same_bits(torch):
        assert settings == {"deterministic": True, "warn_only": True}
        raise ZeroDivisionError
    assert settings == {"deterministic": False, "warn_only": False}
    assert seen == [
        {"enabled": True, "benchmark": False, "deterministic": True, "allow_tf32": False}
    ]
