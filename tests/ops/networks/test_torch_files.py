"""Networks in files of PyTorch, where that is installed: it is too large for the common tests."""

import numpy as np
import pytest

import beam_volumes as bv

torch = pytest.importorskip("torch")
EM = np.random.default_rng(3).integers(0, 256, (11, 14, 17), "u1")


@pytest.fixture(scope="module")
def network():
    """Two channels, a context of 2."""
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
def test_files_of_torch_are_networks(network, name, tmp_path):
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


def test_what_is_no_network_is_refused(network, tmp_path):
    for name in ("weights.pt", "weights.pt2"):
        torch.save(network.state_dict(), tmp_path / name)
        with pytest.raises(ValueError, match=rf"{name} is not a network .* load weights"):
            bv.predict(EM, str(tmp_path / name))
    fixed = saved(network, tmp_path / "fixed.pt2", dynamic=False)
    with pytest.raises(ValueError, match="takes 1 channels, and the volume has 2"):
        bv.predict(bv.stack([EM, EM]), fixed)
    assert bv.predict(EM, fixed, context=2, batch=2).shape == (2, *EM.shape)
