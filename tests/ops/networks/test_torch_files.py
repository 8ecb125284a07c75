"""Networks in files of PyTorch. Most tests need PyTorch, which is too large for the common tests."""

import io
import os
import pickle
import sys
import zipfile
from types import ModuleType

import numpy as np
import onnx
import pytest
from onnx import external_data_helper

import beam_volumes as bv
from tests.ops.networks.conftest import unet

try:
    import torch
except ImportError:
    torch = None
EM = np.random.default_rng(3).integers(0, 256, (11, 14, 17), "u1")
#: Parts of the archives that PyTorch 2.4 to 2.15 writes; it unpickles some of them.
PARTS = {
    ".pt": ["data.pkl", "constants.pkl", "traced_inputs.pkl", "attributes.pkl", "extra/a", "code/a.py"],
    ".pt2": [
        "serialized_exported_program.json", "serialized_state_dict.pt", "serialized_constants.pt",
        "serialized_example_inputs.pt", "models/model.json", "data/weights/model.pt",
        "data/weights/weight_0", "data/constants/model.pt", "data/constants/opaque_obj_0",
        "data/sample_inputs/model.pt", "data/aotinductor/model/model.so",
    ],
}  # fmt: skip


class Plant:
    """Its pickle makes a folder when it is loaded."""

    def __reduce__(self):
        return os.mkdir, ("planted",)


@pytest.fixture
def trusting():
    bv.options.trust_models = True
    yield
    bv.options.trust_models = False


@pytest.fixture
def unpickling_torch(monkeypatch):
    """PyTorch as far as it matters here: it unpickles every part of a file."""

    def load(file, **_):
        if not zipfile.is_zipfile(file):
            pickle.loads(file.getvalue())
        with zipfile.ZipFile(file) as archive:
            for name in archive.namelist():
                pickle.loads(archive.read(name))

    fake = ModuleType("torch")
    fake.export, fake.jit, fake.cuda = ModuleType("export"), ModuleType("jit"), ModuleType("cuda")
    fake.export.load, fake.jit.load, fake.cuda.is_available = load, load, lambda: False
    monkeypatch.setitem(sys.modules, "torch", fake)


def archive_of(part):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(f"archive/{part}", pickle.dumps(Plant()))
    return file.getvalue()


@pytest.mark.parametrize(
    ("ending", "part"), [(e, p) for e, parts in PARTS.items() for p in (None, *parts)]
)
def test_a_pickle_in_a_file_of_torch_is_not_run_unless_the_file_is_trusted(
    ending, part, tmp_path, monkeypatch, command, unpickling_torch
):
    monkeypatch.chdir(tmp_path)
    file = f"net{ending}"
    with open(file, "wb") as f:
        f.write(pickle.dumps(Plant()) if part is None else archive_of(part))
    np.save("em.npy", EM)
    with open("r.yaml", "w") as f:
        f.write(f"input: em.npy\nsteps:\n  p: {{op: predict, model: {file}}}\noutput: o.zarr\n")
    with pytest.raises(
        ValueError, match=r"if you trust it, set beam_volumes.options.trust_models = True"
    ):
        bv.predict(EM, file)
    for words in (["check", "r.yaml"], ["run", "r.yaml"], ["probe", file]):
        code, _, error = command(*words)
        assert code == 2 and "if you trust it, set --trust-models, or export" in error
    assert not os.path.exists("planted")
    # The fake runs it as PyTorch would, so the files above are dangerous.
    command("check", "r.yaml", "--trust-models")
    assert os.path.isdir("planted") and bv.options.trust_models is False


@pytest.mark.parametrize("part", ["model", "initializer", "metadata", "weights"])
def test_a_pickle_in_an_onnx_file_is_not_run(part, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    planted = pickle.dumps(Plant())
    model = onnx.load(unet("net.onnx"))
    if part == "metadata":
        model.metadata_props.add(
            key="beam_volumes.context", value=pickle.dumps(Plant(), 0).decode()
        )
    elif part == "initializer":
        model.graph.initializer[0].raw_data = planted
    elif part == "weights":
        external_data_helper.convert_model_to_external_data(
            model, location="net.weights", size_threshold=0
        )
    onnx.save(model, "net.onnx")
    if part in ("model", "weights"):
        with open(f"net.{'onnx' if part == 'model' else part}", "wb") as f:
            f.write(planted)
    with pytest.raises(ValueError, match=r"net\.onnx"):
        bv.predict(EM, "net.onnx")
    assert not os.path.exists("planted")


def test_workers_open_models_that_their_caller_trusts(
    tmp_path, monkeypatch, trusting, unpickling_torch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.pt2").write_bytes(archive_of("models/model.json"))
    each = bv.ComputeAll(lambda path: {"sum": bv.sum(bv.predict(EM, path))}).computing
    bv.options.trust_models = False  # as in a worker
    with pytest.raises(ValueError, match=r"not a network written by torch\.export\.save"):
        each("net.pt2")
    with pytest.raises(ValueError, match="if you trust it"):
        bv.predict(EM, "net.pt2")


@pytest.fixture(scope="module")
def network():
    """Two channels, a context of 2."""
    if torch is None:
        pytest.skip("needs PyTorch")
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Conv3d(1, 4, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv3d(4, 2, 3, padding=1)
    ).eval()


def saved(network, path, dynamic=True):
    example = torch.zeros(1, 1, 12, 12, 12)
    if path.suffix == ".pt":
        torch.jit.save(torch.jit.trace(network, example), str(path))
    else:
        sizes = {a: torch.export.Dim.DYNAMIC for a in (0, 2, 3, 4)} if dynamic else None
        with torch.inference_mode(False):
            program = torch.export.export(
                network,
                (torch.zeros(2, 1, 12, 12, 12),),
                dynamic_shapes=(sizes,) if sizes else None,
            )
        torch.export.save(program, str(path))
    return str(path)


@pytest.mark.parametrize("name", ["net.pt", "net.pt2"])
def test_files_of_torch_are_networks(network, name, tmp_path, trusting):
    file = saved(network, tmp_path / name)
    found = bv.predict(EM, file, patch=(9, 10, 11), context=2, batch=2, normalize=(0, 255))
    padded = np.pad(EM.astype("f4") / np.float32(255), 2, "symmetric")
    with torch.inference_mode():
        whole = network(torch.from_numpy(padded)[None, None])[0, :, 2:-2, 2:-2, 2:-2].numpy()
    np.testing.assert_allclose(np.asarray(found), whole, rtol=1e-4, atol=1e-5)
    # However it is cut, the same bits.
    made = bv.compute(
        found.to(tmp_path / "cut.zarr", chunks=(2, 4, 7, 9)), slab=(4, 7, 9), runner=None
    )
    np.testing.assert_array_equal(np.asarray(made), np.asarray(found))
    with pytest.raises(FileNotFoundError):
        bv.predict(EM, str(tmp_path / f"none-{name}"))


def test_what_is_no_network_is_refused(network, tmp_path, trusting):
    for name in ("weights.pt", "weights.pt2"):
        torch.save(network.state_dict(), tmp_path / name)
        with pytest.raises(ValueError, match=rf"{name} is not a network .* load weights"):
            bv.predict(EM, str(tmp_path / name))
    fixed = saved(network, tmp_path / "fixed.pt2", dynamic=False)
    with pytest.raises(ValueError, match="accepts 1 channels, but the volume has 2"):
        bv.predict(bv.stack([EM, EM]), fixed)
    assert bv.predict(EM, fixed, context=2, batch=2).shape == (2, *EM.shape)
