"""The types that numba infers for kernels of labels: a float would round 64-bit integers above 2**53."""

import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest
from numba.core import compiler, ir, types
from numba.core.bytecode import ByteCode, FunctionIdentity
from numba.core.compiler_machinery import PassManager
from numba.core.registry import cpu_target
from numba.core.typed_passes import NopythonTypeInference

import beam_volumes as bv
from beam_volumes.kernels.jit import made_kernel
from tests.tiers import thorough


class _Typed(compiler.CompilerBase):
    """numba's pipeline up to the types of all variables."""

    def define_pipelines(self):
        usual = compiler.DefaultPassBuilder.define_nopython_pipeline(self.state).passes
        last = next(i for i, (step, _) in enumerate(usual) if step is NopythonTypeInference)
        found = PassManager("types")
        found.passes = usual[: last + 1]
        found.finalize()
        return [found]


def inferred(dispatcher, signature):
    """A kernel as numba sees it: its statements, and the types of variables and operations."""
    flags = compiler.Flags()
    flags.nrt, flags.error_model = True, "numpy"
    typing, target = cpu_target.typing_context, cpu_target.target_context
    typed = _Typed(typing, target, None, signature.args, None, flags, {})
    typed.state.func_id = FunctionIdentity.from_function(dispatcher.py_func)
    typed.state.bc = ByteCode(typed.state.func_id)
    typed.define_pipelines()[0].run(typed.state)
    return typed.state


def is_wide(given):
    return (
        isinstance(given, types.Integer)
        and not isinstance(given, types.Literal)
        and given.bitwidth == 64
    )


def rounded(dispatcher, signature):
    """The lines where a 64-bit integer becomes a float without a conversion, or a float an integer."""
    state, found = inferred(dispatcher, signature), set()
    for block in state.func_ir.blocks.values():
        for line in block.body:
            pairs = []
            if isinstance(line, ir.Assign):
                value, to = line.value, state.typemap[line.target.name]
                if isinstance(value, ir.Var):
                    pairs = [(state.typemap[value.name], to)]
                elif isinstance(value, ir.Expr) and value.op == "phi":
                    several = [v for v in value.incoming_values if isinstance(v, ir.Var)]
                    pairs = [(state.typemap[v.name], to) for v in several]
                elif isinstance(value, ir.Expr) and value.op in ("binop", "inplace_binop"):
                    own = [state.typemap[v.name] for v in (value.lhs, value.rhs)]
                    is_small = (
                        any(isinstance(t, types.Literal) for t in own) and to == types.boolean
                    )
                    if all(isinstance(t, types.Integer) for t in own) and not is_small:
                        pairs = list(zip(own, state.calltypes[value].args, strict=True))
                elif isinstance(value, ir.Expr) and value.op == "call":
                    called = getattr(state.typemap[value.func.name], "typing_key", None)
                    own = [state.typemap[v.name] for v in value.args]
                    pairs = [(t, to) for t in own] if called in (min, max) else []
            elif isinstance(line, ir.SetItem | ir.StaticSetItem):
                array, value = (state.typemap[v.name] for v in (line.target, line.value))
                if isinstance(array, types.Array) and isinstance(array.dtype, types.Integer):
                    pairs = [(value, array.dtype)]
            for given, to in pairs:
                to_float = is_wide(given) and isinstance(to, types.Float)
                if to_float or (isinstance(given, types.Float) and isinstance(to, types.Integer)):
                    found.add(
                        f"{dispatcher.py_func.__name__}, line {line.loc.line}: {given} to {to}"
                    )
    return found


def test_the_search_finds_what_rounds():
    def either(label, out, is_near):
        out[0] = label[0] if is_near else 0

    def limited(label, out, is_near):
        out[0] = max(label[0], 0)

    def compared(label, out, is_near):
        for k in range(-1, 0):
            out[0] = label[0] if label[0] > k else np.uint64(0)

    def right(label, out, is_near):
        out[0] = label[0] if is_near and label[0] != 0 else np.uint64(0)

    label = np.array([2**53 + 1], "u8")
    for function, lines in ((either, 2), (limited, 2), (compared, 2), (right, 0)):
        kernel, out = made_kernel(function), np.zeros(1, "u8")
        kernel(label, out, True)
        assert len(rounded(kernel, kernel.nopython_signatures[0])) == lines


@thorough
@pytest.mark.parametrize("dtype", ["u8", "i8"])
def test_no_kernel_of_labels_rounds_them(dtype):
    """In a fresh process: kernels that other tests have used with 64-bit counts may round them."""
    command = [sys.executable, "-c", f"from {__name__} import search; search({dtype!r})"]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]


def search(dtype):
    """Call each function with labels, and ask for the types of all kernels that this has needed."""
    labels = np.zeros((2, 4, 6), dtype)
    labels[:, 1:3, 1], labels[:, 1:3, 3] = 2**53, 2**53 + 1
    image = np.arange(48, dtype="u1").reshape(labels.shape)
    field = np.zeros((3, *labels.shape), "f4")
    results = (
        bv.expand_labels(labels, 1),
        bv.label(labels, by_value=True),
        bv.relabel(labels, {2**53: 2**53 + 1}, missing="keep", dtype=dtype),
        bv.watershed(image, labels),
        bv.regionprops_table(labels, image, ["bbox", "centroid", "intensity_max"]),
        bv.region_adjacency(labels, image),
        bv.contingency(labels, labels),
        bv.downsample(labels, 2, "mode"),
        bv.rotate(labels, 30, order=0, reshape=False),
        bv.warp(labels, bv.open(field, axes="czyx"), max_displacement=1, order=0),
    )
    bv.compute(results, runner=None, progress=False)
    kernels = {
        value
        for name, module in sys.modules.items()
        if name.startswith("beam_volumes.kernels.")
        for value in vars(module).values()
        if isinstance(value, numba.core.registry.CPUDispatcher) and value.nopython_signatures
    }
    wide = types.uint64 if dtype == "u8" else types.int64
    asked, found = 0, set()
    for kernel in kernels:
        for signature in kernel.nopython_signatures:
            if any(
                wide in (t, getattr(t, "dtype", None)) or f"{wide}" in f"{t}"
                for t in signature.args
            ):
                asked += 1
                found |= rounded(kernel, signature)
    assert asked > 20 and not found, "\n".join(sorted(found))
