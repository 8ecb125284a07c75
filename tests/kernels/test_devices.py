"""Device code without a device: its bits in numba's simulator, and its compilation."""

import ast
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from beam_volumes.kernels.cuda import TWINS
from beam_volumes.kernels.cuda.translation import _Products, translated
from tests.kernels.device_cases import FAMILIES, cases
from tests.peers import peer
from tests.tiers import thorough

ROOT = Path(__file__).parents[2]
COMMON, OTHERS, WIDE = "u1,f4", "i4,f8", "i8,u8"


def run(module, *arguments, **variables):
    command = [sys.executable, "-m", f"tests.kernels.{module}", *arguments]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **variables}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


def test_every_twin_has_cases():
    tested = {c.name for family in FAMILIES for dtype in ("u1", "f4") for c in cases(family, dtype)}
    assert tested >= TWINS


#: Kernels find their margins filled; only resampling has modes of its own.
WITHOUT_MODES = ",".join(family for family in FAMILIES if family != "resampled")


# All families in one process: to start one takes longer than most of them.
@thorough
@pytest.mark.parametrize(
    ("families", "dtypes", "modes"),
    [
        (",".join(FAMILIES), COMMON, "mirror"),
        (WITHOUT_MODES, OTHERS, "reflect"),
        ("resampled", OTHERS, "reflect,nearest,constant"),
        ("resampled,folded,fused", WIDE, "mirror"),
    ],
    ids=["common", "others", "resampled", "wide"],
)
def test_twins_have_the_bits_of_their_kernels(families, dtypes, modes):
    run("simulate", families, dtypes, modes, "1", NUMBA_ENABLE_CUDASIM="1")


@thorough
def test_twins_compile_without_contracted_products():
    peer("numba_cuda")
    run("compile_for_devices", "linear,ordered,tensors,folded", "f4")


@thorough
def test_twins_of_other_dtypes_compile():
    peer("numba_cuda")
    run(
        "compile_for_devices",
        "shaped,plain,resampled,coloured,curved,distances,fused,connected",
        "f4",
    )
    run("compile_for_devices", "tensors,coloured,folded", "f8")


def body_of(expression, folder):
    """A function of a module of its own: what is translated has its source in a file."""
    path = folder / "device_body.py"
    path.write_text(
        f"import math\nimport numpy as np\n\ndef body(a, b, c):\n    return {expression}\n"
    )
    spec = importlib.util.spec_from_file_location("device_body", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.body


REFUSED = [
    "a ** 2",
    "a % b",
    "a // b",
    "a @ b",
    "a - -a",
    "-a + a",
    "~a",
    "[a]",
    "f'{a}'",
    "np.sin(a)",
]
REFUSED += ["np.float32(a)", "math.fma(a, b, c)", "a.mean", "round(a)", "sum(b)", "(lambda: a)()"]


@pytest.mark.parametrize("expression", REFUSED)
def test_what_has_perhaps_other_bits_on_a_device_is_refused(expression, tmp_path):
    with pytest.raises(ValueError, match="is not known to have equal bits on a device"):
        translated(body_of(expression, tmp_path))


def test_products_of_the_compiler_are_products_of_ours():
    tree = ast.parse("a = b / 4 + c * c\na -= (b + b) / 0.5\na += b / 3 / -2")
    assert ast.unparse(ast.fix_missing_locations(_Products().visit(tree))).splitlines() == [
        "a = _times(b, 0.25) + _times(c, c)",
        "a = a - _times(_times(b, 2.0), 2.0)",
        "a = a + _times(b / 3, -0.5)",
    ]
