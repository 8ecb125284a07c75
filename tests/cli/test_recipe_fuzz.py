"""Recipes from strangers give a plan or one line that names the place, without side effects."""

import contextlib
import inspect
import io
import os
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest
import tifffile
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import beam_volumes as bv
from beam_volumes.cli.main import main
from beam_volumes.kernels import cache
from beam_volumes.plan.cost.machine import peak_memory
from beam_volumes.recipes.catalogue import operations
from beam_volumes.storage.places import context
from tests.tiers import examples

#: What no recipe may make happen, by the names of Python's audit events.
FORBIDDEN = (
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.fork",
    "os.mkdir",
    "os.remove",
    "os.rename",
    "os.rmdir",
    "shutil.rmtree",
    "socket.connect",
    "subprocess.Popen",
    "ctypes.dlopen",
)
#: Where Python and packages are, and files about this machine's memory.
ALLOWED = [
    *{os.path.realpath(p) for p in (sys.prefix, sys.base_prefix, *sysconfig.get_paths().values())},
    os.path.realpath(Path(bv.__file__).parent),
    os.path.realpath(cache.folder()),  # planning calls a few kernels
    "/proc",
    "/sys",
    os.devnull,
]
#: Of processors: what blows up takes for ever, what does not a second, and on any machine less than this.
MAX_SECONDS = 120.0
MAX_BYTES = 400 << 20


class Watch:
    """Notes what the process does while it is on."""

    def __init__(self) -> None:
        self.on = False
        self.named: list[str] = []
        self.seen: list[str] = []
        sys.addaudithook(self._hook)

    def _hook(self, event: str, args: tuple) -> None:
        if not self.on:
            return
        if event in FORBIDDEN:
            self.seen.append(f"{event} {args!r}"[:200])
        elif event == "open" and isinstance(args[0], str | bytes):
            path = os.path.realpath(os.fsdecode(args[0]))
            if not any(path == p or path.startswith(p + os.sep) for p in self.named + ALLOWED):
                self.seen.append(f"open {path!r}")


@pytest.fixture(scope="module")
def watch():
    return Watch()


@pytest.fixture(scope="module")
def world(tmp_path_factory, watch):
    """A folder with a stack of slices, next to one with a secret and a module as bait."""
    outer = tmp_path_factory.mktemp("world")
    (outer / "secret").mkdir()
    (outer / "secret" / "keys.txt").write_text("sesame")
    work = outer / "work"
    (work / "slices").mkdir(parents=True)
    for z in range(4):
        tifffile.imwrite(work / "slices" / f"z{z}.tif", np.full((6, 7), z, "u1"))
    (work / "trap_module.py").write_text("raise SystemExit('imported')\nfire = print\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(work)
        patch.syspath_prepend(str(work))
        patch.setattr("beam_volumes.cli.main.quiet", lambda: None)
        # Buckets are out of reach, which is reported at once.
        patch.setitem(context.RETRIES, "max_retries", 0)
        patch.setattr(context, "_context", None)
        for name in ("AWS_ENDPOINT_URL", "TENSORSTORE_GCS_HTTP_URL"):
            patch.setenv(name, "http://localhost:1")
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "GOOGLE_AUTH_TOKEN_FOR_TESTING"):
            patch.setenv(name, "x")
        tempfile.gettempdir()  # tries the folder when first asked
        run(work, BASE)  # modules that are loaded when needed
        # and kernels that planning calls: numba keeps compiled code
        run(work, BASE.replace("gaussian_filter, sigma: 1", "shift, shift: 0.5"))
        yield work


BASE = """\
input: {path: slices, voxel_size: [4, 1, 1], unit: nm}
steps:
  smooth: {op: gaussian_filter, sigma: 1}
  t: threshold_otsu
  mask: {op: less, inputs: [smooth, t]}
  clean: {op: binary_opening, structure: {cross: 1}}
output: out.zarr
"""


def run(work: Path, text: str) -> tuple[int, str]:
    """Exit code and standard error of a dry run."""
    (work / "r.yaml").write_text(text, encoding="utf-8", errors="surrogatepass")
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(["run", "r.yaml", "--dry-run", "--runner=none", "--memory=2GiB"])
    return code, err.getvalue()


def harmless(world: Path, watch: Watch, text: str) -> None:
    """A dry run of a recipe ends as it should and leaves nothing."""
    (world / "r.yaml").write_text("")
    before, memory = tree(world.parent), peak_memory()
    watch.named, watch.seen = [str(world)], []
    began = time.process_time()
    watch.on = True
    try:
        code, err = run(world, text)
    finally:
        watch.on = False
    assert time.process_time() - began < MAX_SECONDS
    assert peak_memory() - memory < MAX_BYTES
    assert code in (0, 2), err
    if code:
        assert err.startswith("beam-volumes: error: ") and err.count("\n") == 1, err
        assert len(err) < 3000, err
    assert not watch.seen
    assert "trap_module" not in sys.modules
    assert tree(world.parent) == before


def tree(folder: Path) -> list[str]:
    return sorted(str(p) for p in folder.rglob("*"))


WORDS = st.sampled_from(
    [
        "input", "s0", "s1", "s2", "slices", "", "x", "15 nm", "-3 nm", "1e400 nm", "9" * 5000 + " nm",
        "nm", "0.1 um^3", "voxel_size", "otsu", "reflect", "wrap", "nearest", "constant", "uint8", "f4",
        "object", "O", "U5", "m8[ns]", "f8,f8", "V9", "c16", "float16", "0:2,,", "5:1", "z", "t", "omit",
        "__class__", "__init__", "__globals__", "map_overlap", "os.system", "trap_module",
        "trap_module.fire", "${x}", "${", "{0.__class__}", "%s", "é\u202e\u0000", "\ud7ff", "a" * 3000,
        "../secret/keys.txt", "/nowhere/at/all", "~", "slices/*.tif", "s3://b/x", "gs://b/x.zarr", "s3://",
        "s3://A B/x", "file:///dev/null", "memory://x", "http://localhost:1/x", "a.parquet", "out.zarr",
        "../out.zarr", "area", "centroid", "error",
    ]
)  # fmt: skip
NUMBERS = st.one_of(
    st.integers(-3, 9),
    st.sampled_from(
        [10**9, -(10**9), 2**31, 2**63, 2**64, 10**30, 10**400, 1e9, 1e300, 1e-300, 0.5, -0.0]
    ),
    st.sampled_from([float("nan"), float("inf"), float("-inf")]),
    st.booleans(),
    st.none(),
)
SCALARS = st.one_of(NUMBERS, WORDS, st.text(max_size=8))
SIZES = st.one_of(NUMBERS, st.lists(NUMBERS, max_size=4))
FOOTPRINTS = st.one_of(
    st.builds(lambda k, v: {k: v}, st.sampled_from(["ball", "cross", "cube", "step"]), SIZES),
    st.builds(
        lambda k, r, n: {k: {"radius": r, "ndim": n}},
        st.sampled_from(["ball", "cross", "cube"]),
        SIZES,
        NUMBERS,
    ),
    st.builds(lambda k, w: {k: w}, st.sampled_from(["step", "ball", "__class__"]), WORDS),
)
ANYTHING = st.recursive(
    st.one_of(SCALARS, FOOTPRINTS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.one_of(WORDS, st.text(max_size=4)), inner, max_size=3)
    ),
    max_leaves=6,
)  # fmt: skip
PARAMETER = st.one_of(SIZES, WORDS, FOOTPRINTS, ANYTHING)


RARELY = st.sampled_from([False] * 11 + [True])


@st.composite
def steps(draw):
    """A step of a real operation, some parameters of any value; rarely anything."""
    if draw(RARELY):
        return draw(ANYTHING)
    operation = operations()[draw(st.sampled_from(sorted(operations())))]
    said = {"op": operation.name}
    volume = st.sampled_from(["input"] * 6 + ["s0", "s1", "inside"])
    if not operation.parameters:  # arithmetic
        first = [draw(volume)]
        said["inputs"] = first + [
            draw(st.one_of(volume, NUMBERS)) for _ in operation.positional[1:]
        ]
    else:
        said["input"] = draw(volume)
        others = [n for n in operation.parameters if n != operation.positional[0]]
        some = draw(st.lists(st.sampled_from(others), unique=True, max_size=2)) if others else []
        for name in {*some, *operation.required[1:]}:
            usual = volume if operation.volume(name) else PARAMETER
            said[name] = draw(PARAMETER if draw(RARELY) else usual)
    if draw(RARELY):
        said[draw(WORDS)] = draw(ANYTHING)
    return said


@st.composite
def recipes(draw):
    """A recipe that is nearly right."""
    whole = {
        "input": {"path": "slices", "voxel_size": [4, 1, 1], "unit": "nm"},
        "steps": {
            "s0": draw(steps()),
            "inside": {"op": "greater", "inputs": ["input", 1]},
            "s1": draw(steps()),
        },
    }
    outputs = []
    for name in ("s0", "s1"):
        step = whole["steps"][name]
        operation = operations().get(str(step.get("op"))) if isinstance(step, dict) else None
        path = {"path": f"{name}.zarr"}
        if operation is not None and inspect.isfunction(operation.call):
            given = str(operation.call.__annotations__.get("return"))
            path = (
                {"path": f"{name}.csv"} if given == "Table" else path if given == "Volume" else {}
            )
        outputs.append({"step": name, **path})
    whole["outputs"] = outputs
    if draw(st.integers(0, 3)):
        return whole
    others = ["steps", "memory", "workers", "variables", "register"]
    where = draw(st.sampled_from(["input", "outputs", *others]))
    if where == "input":
        known = ["path", "spec", "voxel_size", "unit", "index", "dataset", "level"]
        whole["input"][draw(st.sampled_from(known))] = draw(ANYTHING)
    elif where == "outputs":
        known = ["path", "step", "dtype", "chunks", "shards", "codec", "format", "zarr_version"]
        said = {"step": "inside", "path": "out.ome.zarr"}
        outputs.append({**said, draw(st.sampled_from([*known, "ome_version"])): draw(ANYTHING)})
    elif where == "register":
        known = ["register_slices", "register_tiles", "table", "input"]
        given = st.dictionaries(st.sampled_from(known), ANYTHING, max_size=2)
        whole[where] = draw(ANYTHING | st.dictionaries(st.sampled_from(known), given, max_size=2))
    else:
        whole[where] = draw(ANYTHING)
    if draw(RARELY):
        del whole[draw(st.sampled_from(sorted(whole)))]
    return whole


def written(data) -> str:
    return yaml.safe_dump(data, sort_keys=False, allow_unicode=False)


FUZZ = settings(
    max_examples=examples(300),
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)


@FUZZ
@given(recipe=recipes())
def test_recipes_that_are_nearly_right(recipe, world, watch):
    harmless(world, watch, written(recipe))


SNIPPETS = [
    "!!python/object/apply:trap_module.fire []", "!!python/module:trap_module", "!!binary YQ==", "!x 1",
    "!!python/name:os.system", "!!set {a}", "!!timestamp 2020-01-01", "&a [*a]", "*none", "<<: *x", "&a",
    "[" * 3000, "{a: " * 2000, "- " * 2000, "---", "...", "%YAML 9.9", "\t", "\x00", "\ufeff", "? ", ": ",
    "| ", "> ", "1" * 5000, "0x" + "f" * 5000, "0o" + "7" * 9999, "1e999999999", ".nan", "'", '"\\x', "#",
    "{ball: 1000000000}", "{cube: [99999, 99999, 99999]}", "[[[1]]]", "\n", "    ", "𝔘", "\u2028",
]  # fmt: skip


@st.composite
def texts(draw):
    """The text of a recipe, some of it replaced."""
    text = BASE
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(BASE)))
        gone = draw(st.integers(0, 12))
        new = draw(st.one_of(st.sampled_from(SNIPPETS), st.text(max_size=6)))
        text = text[:at] + new + text[at + gone :]
    return text


def bomb(levels: int) -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 10)}]" for k in range(1, levels)]
    return "\n".join(lines)


@FUZZ
@given(text=texts())
@example(text=bomb(12))
@example(text=BASE.replace("sigma: 1", "sigma: !!python/object/apply:trap_module.fire [1]"))
@example(text=BASE.replace("sigma: 1", "sigma: " + "1" * 5000))
@example(text=BASE + "variables: {a: '" + "a" * 10**5 + "'}\nmemory: '" + "${a}" * 10**4 + "'\n")
@example(text=BASE.replace("{cross: 1}", "{ball: 1000000000}"))
@example(text=BASE.replace("op: gaussian_filter, sigma: 1", "op: median_filter, size: 1000000000"))
def test_texts_that_are_nearly_recipes(text, world, watch):
    harmless(world, watch, text)


HUGE = [
    "gaussian_laplace, sigma: 1.0e+9", "gaussian_gradient_magnitude, sigma: 1.0e+9",
    "gaussian_filter1d, sigma: 1.0e+9", "gaussian_filter, sigma: 1, truncate: 1.0e+300",
    "uniform_filter1d, size: 1000000000000", "maximum_filter1d, size: 1000000000000",
    "rank_filter, rank: 1, size: 1000000000", "percentile_filter, percentile: 1, size: 4000",
    "white_tophat, size: 1000000000", "morphological_gradient, size: [1, 1, 1000000000000]",
    "binary_erosion, iterations: 1000000000000", "binary_hit_or_miss, structure1: {cube: 100000}",
    "unsharp_mask, radius: 1.0e+9", "difference_of_gaussians, low_sigma: 1.0e+9",
    "threshold_local, block_size: 1000000001", "threshold_niblack, window_size: 1000000001",
    "threshold_sauvola, window_size: 1000000000001", "frangi, sigmas: [1.0e+9]", "sato, sigmas: 1.0e+300",
    "hessian_matrix, sigma: 1.0e+9", "structure_tensor, sigma: 1.0e+9",
    "equalize_hist, nbins: 1000000000000", "threshold_multiotsu, classes: 1000000000",
    "adjust_gamma, gamma: 1.0e+300", "adjust_log, gain: 1.0e+308",
    "rescale_intensity, out_range: [-1.0e+308, 1.0e+308]", "adjust_sigmoid, gain: 1.0e+308",
    "normalize_slices, percentiles: [1, 99], out_range: [-1.0e+308, 1.0e+308]",
    "normalize_slices, percentiles: [1.0e-300, 1.0e+300]", "normalize_slices, mean: 1.0e+308, std: 1.0e+308",
    f"percentile, q: [{'1, ' * 20000}2]", f"percentile, axis: [y, x], q: [{'1, ' * 20000}2]",
    "pad, pad_width: 1000000000000", "pad, pad_width: 1000000000, mode: reflect",
    "upsample, factors: 1000000000", "upsample, factors: [1, 1, 1000000000]",
    "downsample, factors: 1000000000000", "downsample, factors: [1, 1, 1000000000], method: median",
    "zoom, zoom: 1.0e+9", "zoom, zoom: 1.0e-300", "shift, shift: 1.0e+300", "shift, shift: 1.0e+15",
    "rotate, angle: 1.0e+300", "affine_transform, matrix: [1.0e+300, 1, 1]",
    "affine_transform, matrix: [1, 1, 1], output_shape: [1000000000, 1000000000, 1000000000]",
    "affine_transform, matrix: [1, 1, 1], offset: 1.0e+300", "coordinates, axis: 1000000000000",
    "remove_small_objects, max_size: 1" + "0" * 400, "clear_border, buffer_size: 1000000000000",
    "distance_transform_edt, max_distance: 1.0e+300", "distance_transform_edt, max_distance: 100000",
]  # fmt: skip


@pytest.mark.parametrize("step", HUGE, ids=lambda step: step[:40])
def test_huge_parameters(step, world, watch):
    """Each operation alone, so that nothing before it is refused."""
    gives = str(operations()[step.split(",")[0]].call.__annotations__["return"])
    output = "{step: s.0, path: out.zarr}" if "[Volume" in gives else "{step: s, path: out.zarr}"
    output = "{step: s}" if "Scalar" in gives else output
    text = f"input: slices\nsteps:\n  s: {{op: {step}}}\noutputs: [{output}]\n"
    harmless(world, watch, text)
