"""A wheel holds all that the package needs, and works where nothing else of this repository is."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from beam_volumes.version import __version__

ROOT = Path(__file__).parents[1]


def run(*command, cwd):
    """Run a command that finds nothing of this repository by accident."""
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=cwd, env=clean, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A copy of the repository, which building may litter."""
    copy = tmp_path_factory.mktemp("source") / "copy"
    litter = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "dist", "demo")
    return shutil.copytree(ROOT, copy, symlinks=True, ignore=litter)


@pytest.fixture(scope="module")
def wheel(source):
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet"]
    run(*pip, "--no-deps", "--no-build-isolation", "--wheel-dir", "dist", ".", cwd=source)
    (path,) = (source / "dist").glob("*.whl")
    return path


@pytest.fixture(scope="module")
def python(wheel, tmp_path_factory):
    """The Python of an environment with the wheel, and its requirements as installed here."""
    home = tmp_path_factory.mktemp("environment")
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


def test_the_citation_names_the_version():
    assert f"version: {__version__}" in (ROOT / "CITATION.cff").read_text().splitlines()


def test_the_link_to_the_transforms_leads_there():
    assert (ROOT / "transforms").resolve() == (ROOT / "beam_volumes/transforms").resolve()
