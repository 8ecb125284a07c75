"""The exports of the package, its import, and its stub."""

import ast
import inspect
import os
import pickle
import runpy
import subprocess
import sys
from pathlib import Path

import cloudpickle
import jedi
import pytest

import beam_volumes as bv
from beam_volumes.base.public_names import EXPORTS
from tests.tiers import thorough

PACKAGE = Path(bv.__file__).parent


def fresh(program, *options):
    """What a program prints in a process of its own."""
    command = [sys.executable, *options, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(sys.version_info < (3, 11), reason="overloads can be listed from 3.11 on")
def test_the_stub_is_current():
    """``make docs`` writes it."""
    program = runpy.run_path(str(PACKAGE.parent / "docs/stub.py"))
    assert program["STUB"].read_text() == program["stub"]()


def test_editors_show_the_parameters_of_every_function():
    """They read the stub and run nothing."""
    functions = [n for n in bv.__all__ if inspect.isfunction(getattr(bv, n))]
    code = "import beam_volumes as bv\n" + "".join(f"bv.{name}\n" for name in functions)
    script = jedi.Script(code, project=jedi.Project(PACKAGE.parent))
    for line, name in enumerate(functions, 2):
        (found,) = script.help(line, 3)
        text = found.docstring()
        assert text.startswith(f"{name}(") and "\nParameters\n----" in text, name
        assert inspect.getdoc(getattr(bv, name)) in text


def test_classes_have_no_placeholders_in_editors():
    stub = (PACKAGE / "__init__.pyi").read_text()
    for name in bv.__all__:
        made = getattr(bv, name)
        if isinstance(made, type) and "%(" in (ast.get_docstring(definition(made)) or ""):
            assert f"class {name}(_{name}):" in stub
    assert "%(" not in stub


def definition(made):
    tree = ast.parse(Path(inspect.getfile(made)).read_text())
    return next(c for c in ast.walk(tree) if getattr(c, "name", "") == made.__name__)


def test_all_and_dir_are_the_public_names():
    assert bv.__all__ == dir(bv) == sorted(EXPORTS)


def test_an_import_loads_neither_numba_nor_beam():
    heavy = "{'numba', 'numpy', 'scipy', 'tensorstore', 'apache_beam'} & set(sys.modules)"
    assert fresh(f"import sys, beam_volumes; print({heavy})").strip() == "set()"
    program = (
        "import sys, beam_volumes as bv; bv.open, bv.compute; print('apache_beam' in sys.modules)"
    )
    assert fresh(program).strip() == "False"


@thorough
def test_volumes_are_computed_without_packages_for_beam_and_for_other_formats(tmp_path):
    program = f"""
import sys
sys.modules.update(dict.fromkeys(["apache_beam", "pyarrow", "imagecodecs"]))
import beam_volumes as bv, numpy as np
voxels = np.indices((9, 20, 30)).sum(0).astype("u2")
for name in ("in.zarr", "in.tif"):
    v = bv.compute(bv.open(voxels).to("{tmp_path}/" + name, codec="none"), runner=None)
    assert (np.asarray(v) == voxels).all()
mask = v > bv.threshold_otsu(v)
made = bv.compute(
    bv.median_filter(v, 3).to("{tmp_path}/out.zarr"), bv.label(mask), bv.distance_transform_edt(mask),
    runner=None,
)
from beam_volumes.cli.main import main
main(["info", "--machine"])
try:
    bv.compute(v.to("{tmp_path}/out.tif", codec="zstd"), runner=None)
except OSError as error:
    print(error)
"""
    assert "pip install imagecodecs" in fresh(program).splitlines()[-1]


def test_a_local_pipeline_is_prepared_without_beam():
    program = (
        "import sys; from beam_volumes.drive.compute import RunOptions, _driver; "
        "_driver(RunOptions(runner='FnApiRunner')); print('apache_beam' in sys.modules)"
    )
    assert fresh(program).strip() == "False"


def test_a_run_imports_only_the_operations_that_it_has():
    program = """
import sys
import numpy as np
import beam_volumes as bv
np.asarray(bv.gaussian_filter(np.zeros((4, 5, 6), "f4"), 1))
names = [n.removeprefix("beam_volumes.").split(".") for n in sys.modules if n.startswith("beam_volumes.")]
print(*sorted({n[1] for n in names if n[0] == "ops" and len(n) > 1}))
print(*sorted({n[1] for n in names if n[0] == "across" and len(n) > 1}))
"""
    assert fresh(program) == "filters parameters\nrounds\n"


def test_numpy_computes_though_nobody_asked_for_compute():
    program = (
        "import numpy as np, beam_volumes as bv; print(np.asarray(bv.open(np.ones((1, 1))) + 1))"
    )
    assert fresh(program).strip() == "[[2.]]"


def test_the_package_plan_does_not_hide_the_function():
    program = "import beam_volumes.plan.planner, beam_volumes as bv; print(bv.plan.__module__)"
    assert fresh(program).strip() == "beam_volumes.drive.compute"
    program = "from beam_volumes import plan; print(plan.__module__)"
    assert fresh(program).strip() == "beam_volumes.drive.compute"


@thorough
def test_star_takes_every_name():
    program = "from beam_volumes import *; print(open.__module__, max.__module__, Compute.__name__)"
    assert fresh(program).split() == [bv.open.__module__, bv.max.__module__, "Compute"]


def test_a_name_is_one_object_and_travels():
    assert bv.open is bv.open and bv.sum is vars(bv)["sum"]
    assert pickle.loads(pickle.dumps(bv.gaussian_filter)) is bv.gaussian_filter
    assert cloudpickle.loads(cloudpickle.dumps(lambda: bv))() is bv


def test_what_is_not_there_is_named():
    with pytest.raises(AttributeError, match="'beam_volumes' has no attribute 'gausian_filter'"):
        _ = bv.gausian_filter
    with pytest.raises(ImportError, match="cannot import name 'gausian_filter'"):
        from beam_volumes import gausian_filter  # noqa: F401


#: As users write it. Names that are misspelt and values of a wrong type are found, each in its line.
CLIENT = """\
from __future__ import annotations

import numpy as np

import beam_volumes as bv


def cells(path: str, out: str) -> float:
    em: bv.Volume = bv.open(path, voxel_size=(30, 4, 4), unit="nm")
    smooth = bv.gaussian_filter(em, sigma=1.5)
    threshold: bv.Scalar = bv.threshold_otsu(smooth)
    mask = smooth < threshold
    labels: bv.Volume = bv.label(mask)
    table: bv.Table = bv.regionprops_table(labels, em, properties=["area"])
    target: bv.Target = labels.to(out, chunks=(16, 64, 64), codec="zstd", dtype=np.uint32)
    print(bv.plan(target, table.to("cells.csv"), memory="2GiB").explain(verbose=True))
    bv.compute(target, table.to("cells.csv"), memory="2GiB", workers=2)
    projection: bv.Scalar = em.max(axis=0)
    array: np.ndarray = em[::2].compute()
    bv.gausian_filter(em, 1)  # Module has no attribute
    labels.to(out, chunks="16")  # has incompatible type
    bv.mean(em, nan=3)  # has incompatible type
    return float(em.mean()) + float(np.asarray(projection).mean()) + float(array.mean())
"""


@pytest.mark.thorough
def test_strict_type_checkers_know_names_and_types(tmp_path):
    """mypy looks at the package as at an installed one: it reports nothing in its modules."""
    pytest.importorskip("mypy")
    (tmp_path / "client.py").write_text(CLIENT)
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "client.py"]
    kept = Path(os.environ.get("MYPY_CACHE_DIR", PACKAGE.parent / ".mypy_cache"), "client")
    command += ["--no-error-summary", f"--cache-dir={kept}"]
    environment = {**os.environ, "MYPYPATH": str(PACKAGE.parent)}
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment)
    wrong = {
        number: line.partition("  # ")[2]
        for number, line in enumerate(CLIENT.splitlines(), 1)
        if "  # " in line
    }
    said = [line.split(":", 3) for line in done.stdout.splitlines() if ": error: " in line]
    assert [int(line[1]) for line in said] == [*wrong], done.stdout
    for _, number, _, text in said:
        assert wrong[int(number)] in text


def test_the_package_is_a_program_and_has_types():
    done = subprocess.run(
        [sys.executable, "-m", "beam_volumes", "--version"], capture_output=True, text=True
    )
    assert done.stdout == f"beam-volumes {bv.__version__}\n"
    assert (PACKAGE / "py.typed").exists()
