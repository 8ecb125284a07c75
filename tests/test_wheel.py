"""A wheel holds all that the package needs, and works where nothing else of this repository is."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import numpy as np
import pytest

import beam_volumes.transforms
import transforms
from beam_volumes.kernels.cache import LEVEL
from beam_volumes.version import __version__

ROOT = Path(__file__).parents[1]


def run(*command, cwd, **environment):
    """Run a command that finds nothing of this repository by accident."""
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    clean |= environment
    done = subprocess.run(command, cwd=cwd, env=clean, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def copied(folder):
    """Copy the repository, because building may litter."""
    litter = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "dist", "demo")
    return shutil.copytree(ROOT, folder / "copy", symlinks=True, ignore=litter)


def built(source, **environment):
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet"]
    build = ["--no-deps", "--no-build-isolation", "--wheel-dir", "dist", "."]
    run(*pip, *build, cwd=source, **environment)
    (path,) = (source / "dist").glob("*.whl")
    return path


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return copied(tmp_path_factory.mktemp("source"))


@pytest.fixture(scope="module")
def wheel(source):
    return built(source)


@pytest.fixture(scope="module")
def python(wheel, tmp_path_factory):
    """The Python of an environment with the wheel."""
    return installed(wheel, tmp_path_factory.mktemp("environment"))


def installed(wheel, home):
    """Install a wheel in an environment with its requirements as installed here; return its Python."""
    venv.create(home)
    python = home / "bin/python"
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "--python",
        python,
        "install",
    ]
    run(*pip, "--quiet", "--no-index", "--no-deps", wheel, cwd=home)
    here = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    (site,) = home.glob("lib/python*/site-packages")
    # Links in there, as of an editable installation, are not followed.
    (site / "needed.pth").write_text("\n".join(here))
    return python


@pytest.mark.thorough
def test_a_wheel_has_the_package_and_nothing_else(wheel):
    assert wheel.name == f"beam_volumes-{__version__}-py3-none-any.whl"
    names = set(zipfile.ZipFile(wheel).namelist())
    modules = {str(path.relative_to(ROOT)) for path in (ROOT / "beam_volumes").rglob("*.py")}
    about = f"beam_volumes-{__version__}.dist-info"
    others = {f"beam_volumes/{name}" for name in ("py.typed", "__init__.pyi", "napari.yaml")}
    assert {n for n in names if not n.startswith(about)} == modules | others
    assert f"{about}/licenses/LICENSE" in names


@pytest.mark.thorough
def test_what_beam_stages_has_the_stub_too(source):
    """Beam sends workers what ``setup.py sdist`` makes."""
    run(sys.executable, "setup.py", "--quiet", "sdist", "--dist-dir", "staged", cwd=source)
    (path,) = (source / "staged").glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {
        "beam_volumes/__init__.pyi",
        "beam_volumes/py.typed",
        "beam_volumes/ops/pointwise.py",
    } <= names


@pytest.mark.thorough
def test_it_works_from_any_directory(python, tmp_path):
    show = "import beam_volumes as bv; print(bv.__file__, bv.gaussian_filter.__name__)"
    where, name = run(python, "-c", show, cwd=tmp_path).split()
    assert Path(where).is_relative_to(python.parents[1]) and name == "gaussian_filter"
    verbs = run(python.with_name("beam-volumes"), "--help", cwd=tmp_path)
    assert "resume" in verbs
    version = run(python.with_name("beam-volumes"), "--version", cwd=tmp_path)
    assert version.split() == ["beam-volumes", __version__]


@pytest.mark.thorough
def test_an_example_runs_with_it(python, tmp_path):
    shutil.copy(ROOT / "examples/exposure.py", tmp_path)
    (tmp_path / "trial").mkdir()
    run(python, "exposure.py", "trial", cwd=tmp_path)
    assert any((tmp_path / "trial").iterdir())


FIRST_CALL = """
import numpy as np
import beam_volumes as bv
from beam_volumes.kernels.cache import LEVEL, _processors
from beam_volumes.kernels.jit import compilations

with compilations() as found:
    bv.compute(bv.exp(bv.open(np.ones((5, 6, 7), "f4"))), runner=None, progress=False)
print(bv.__file__, [c.name for c in found], (LEVEL, "") in _processors()[1:])
"""


@pytest.mark.thorough
def test_nothing_is_compiled_with_a_wheel_that_has_kernels(tmp_path):
    np.save(tmp_path / "in.npy", np.ones((5, 6, 7), "f4"))
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text("input: in.npy\nsteps: {exp: {}}\noutput: out.zarr\n")
    level = {"NUMBA_CPU_NAME": LEVEL, "NUMBA_CPU_FEATURES": ""}
    warm_up = [sys.executable, "-m", "beam_volumes", "warm-up", str(recipe)]
    run(*warm_up, cwd=tmp_path, NUMBA_CACHE_DIR=str(tmp_path / "kernels"), **level)
    kernels = tmp_path / "kernels/beam_volumes"
    assert any(kernels.glob("*.kernel"))
    wheel = built(copied(tmp_path), BEAM_VOLUMES_KERNELS=str(kernels))
    assert "-py3-none-any" not in wheel.name
    python = installed(wheel, tmp_path / "environment")
    empty = {"NUMBA_CACHE_DIR": str(tmp_path / "empty")}
    where, compiled, is_supported = run(python, "-c", FIRST_CALL, cwd=tmp_path, **empty).split()
    assert Path(where).is_relative_to(tmp_path)
    if is_supported == "True":
        assert compiled == "[]" and not any((tmp_path / "empty").rglob("*.kernel"))
    # The kernels of another processor are not used.
    elsewhere = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}
    if LEVEL != "generic":
        assert run(python, "-c", FIRST_CALL, cwd=tmp_path, **empty, **elsewhere).split()[1] != "[]"


def test_the_citation_names_the_version():
    assert f"version: {__version__}" in (ROOT / "CITATION.cff").read_text().splitlines()


def test_the_folder_of_transforms_exports_and_lists_all_of_them():
    names = beam_volumes.transforms.__all__
    assert transforms.__all__ == names
    assert all(getattr(transforms, n) is getattr(beam_volumes.transforms, n) for n in names)
    rows = re.findall(
        r"^\| \[`(\w+)`\]\(\.\./(\S+)\.py\)", (ROOT / "transforms/README.md").read_text(), re.M
    )
    assert rows == [(n, getattr(transforms, n).__module__.replace(".", "/")) for n in names]
