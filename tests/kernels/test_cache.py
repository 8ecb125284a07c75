"""Compiled kernels are found by their content, and an entry that is found is right."""

import importlib.util
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from beam_volumes.kernels import cache
from tests.tiers import thorough

#: A package with a kernel, and a callee and a constant of other modules.
SOURCES = {
    "__init__.py": "",
    "constants.py": "ADDED = 1\n",
    "callees.py": """
from beam_volumes.kernels.jit import kernel
from kernelled import constants
@kernel
def increased(x):
    return x + constants.ADDED
""",
    "callers.py": """
from beam_volumes.kernels.jit import kernel
from kernelled.callees import increased
@kernel
def total(values):
    result = 0
    for x in values:
        result += increased(x)
    return result
""",
}
PROGRAM = """
import numpy as np
from beam_volumes.kernels.jit import compilations
from kernelled.callers import total
with compilations() as found:
    print(total(np.arange(4)), *[c.name for c in found])
"""


def place(folder, **changed):
    """Write the package into a folder, and return how it is run there."""
    (folder / "kernelled").mkdir(parents=True, exist_ok=True)
    for name, source in (SOURCES | changed).items():
        (folder / "kernelled" / name).write_text(source)
    return folder


def run(folder, kernels, program=PROGRAM, **environment):
    """Run a program on the copy in a folder; return its kernel's result and the compiled kernels."""
    path = os.pathsep.join([str(folder), os.getcwd(), *sys.path])
    done = subprocess.run(
        # -B: bytecode does not notice a source that is rewritten within a second at the same size.
        [sys.executable, "-B", "-c", program],
        env={**os.environ, "PYTHONPATH": path, "NUMBA_CACHE_DIR": str(kernels), **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@thorough
def test_copies_of_a_package_share_kernels_and_a_changed_callee_is_compiled_again(tmp_path):
    kernels = tmp_path / "kernels"
    assert run(place(tmp_path / "a"), kernels) == ["10", "total"]
    assert run(place(tmp_path / "b"), kernels) == ["10"]
    changed = SOURCES["callees.py"].replace("x +", "2 * x +")
    assert run(place(tmp_path / "b", **{"callees.py": changed}), kernels) == ["16", "total"]
    assert run(place(tmp_path / "b", **{"constants.py": "ADDED = 3\n"}), kernels) == ["18", "total"]
    assert run(tmp_path / "a", kernels) == ["10"]
    # Bounds checks are another option of compiling, and another entry of the same cache.
    assert run(tmp_path / "a", kernels, NUMBA_BOUNDSCHECK="1") == ["10", "total"]
    assert run(tmp_path / "b", kernels, NUMBA_BOUNDSCHECK="1") == ["18", "total"]
    assert run(tmp_path / "a", kernels, NUMBA_BOUNDSCHECK="1") == ["10"]


def test_code_of_a_callee_is_read_by_another_caller(tmp_path):
    program = """
import numpy as np
from beam_volumes.kernels.jit import made_kernel
from kernelled.callees import increased
print(made_kernel(lambda x: increased(x))(4), *increased._callee.stats.cache_hits.values())
"""
    place(tmp_path)
    assert run(tmp_path, tmp_path / "kernels", program) == ["5"]
    assert run(tmp_path, tmp_path / "kernels", program) == ["5", "1"]


def test_kernels_for_the_level_are_used_by_processors_that_have_it(tmp_path, monkeypatch):
    place(tmp_path)
    level = {"NUMBA_CPU_NAME": cache.LEVEL, "NUMBA_CPU_FEATURES": ""}
    assert run(tmp_path, tmp_path / "kernels", **level) == ["10", "total"]
    has = cache.binding.get_host_cpu_features()
    if all(has.get(feature) for feature in cache._NEEDED[cache.LEVEL]):
        assert run(tmp_path, tmp_path / "kernels") == ["10"]
    monkeypatch.setattr(cache.config, "CPU_NAME", None)
    for lacking in cache._NEEDED[cache.LEVEL]:
        older = type(has)({**has, lacking: False})
        monkeypatch.setattr(cache.binding, "get_host_cpu_features", lambda older=older: older)
        assert len(cache._processors.__wrapped__()) == 1


@thorough
def test_processes_racing_for_a_kernel_both_get_it(tmp_path):
    place(tmp_path)
    with ThreadPoolExecutor(2) as pool:
        raced = [*pool.map(lambda _: run(tmp_path, tmp_path / "kernels"), range(2))]
    assert [r[0] for r in raced] == ["10", "10"]
    assert run(tmp_path, tmp_path / "kernels") == ["10"]
    assert not list((tmp_path / "kernels").rglob("*.partial"))


@thorough
def test_a_folder_that_cannot_be_written_is_replaced_by_one_of_the_users_own(tmp_path):
    place(tmp_path)
    (tmp_path / "file").touch()
    own = {"TMPDIR": str(tmp_path)}
    assert run(tmp_path, tmp_path / "file", **own) == ["10", "total"]
    assert run(tmp_path, tmp_path / "file", **own) == ["10"]
    (found,) = tmp_path.glob("beam_volumes-kernels-*")
    assert found.stat().st_mode & 0o777 == 0o700
    found.chmod(0o777)  # another user may have put something there, and it would be executed
    assert run(tmp_path, tmp_path / "file", **own) == ["10", "total"]


@pytest.fixture
def kernels(tmp_path, monkeypatch):
    monkeypatch.setattr(cache.config, "CACHE_DIR", str(tmp_path))
    return tmp_path / "beam_volumes"


def twice(tmp_path):
    """Whether a new process would compile a kernel or load it; its result is right."""
    (tmp_path / "doubling.py").write_text(
        "from beam_volumes.kernels.jit import kernel\n@kernel\ndef twice(x): return 2 * x\n"
    )
    spec = importlib.util.spec_from_file_location("doubling", tmp_path / "doubling.py")
    sys.modules["doubling"] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.twice(np.int64(21)) == 42
    return "compiled" if module.twice.stats.cache_misses else "loaded"


@pytest.mark.parametrize(
    "damage",
    [lambda data: data[:-1], lambda data: b"", lambda data: data[:-1] + bytes([data[-1] ^ 1])],
)
def test_a_damaged_entry_is_compiled_again(kernels, tmp_path, damage):
    assert (twice(tmp_path), twice(tmp_path)) == ("compiled", "loaded")
    (entry,) = kernels.iterdir()
    whole = entry.read_bytes()
    entry.write_bytes(damage(whole))
    assert (twice(tmp_path), twice(tmp_path)) == ("compiled", "loaded")
    assert len(entry.read_bytes()) > len(whole) - 100  # it counts the kernels of its process


def test_a_source_edited_after_it_was_imported_does_not_count(kernels, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(place(tmp_path))
    monkeypatch.setattr(cache, "_sources", {})
    from kernelled import callees, callers

    before = cache._sources["kernelled.callees"]
    place(tmp_path, **{"callees.py": SOURCES["callees.py"].replace("x +", "3 * x +")})
    assert callers.total(np.arange(4)) == 10 and callees.increased(1) == 2
    assert cache._sources["kernelled.callees"] == before == SOURCES["callees.py"]


def test_the_least_recently_used_kernels_go_first(tmp_path):
    for age in range(8):
        (tmp_path / f"{age}.kernel").write_bytes(bytes(100))
        os.utime(tmp_path / f"{age}.kernel", (0, time.time() - 1000 * age))
    (tmp_path / "dead.partial").touch()
    os.utime(tmp_path / "dead.partial", (0, 0))
    (tmp_path / "young.partial").touch()
    cache.prune(tmp_path, 800)
    assert len(list(tmp_path.glob("*.kernel"))) == 8
    cache.prune(tmp_path, 799)
    assert {p.name for p in tmp_path.iterdir()} == {f"{n}.kernel" for n in range(5)} | {
        "young.partial"
    }
    cache.prune(tmp_path / "missing", 0)


def test_a_kernel_in_use_is_marked_as_used(kernels, tmp_path):
    twice(tmp_path)
    (entry,) = kernels.iterdir()
    os.utime(entry, (0, 0))
    assert twice(tmp_path) == "loaded"
    assert time.time() - entry.stat().st_mtime < 1000


def test_operations_that_have_run_are_known_until_kernels_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(cache.config, "CACHE_DIR", str(tmp_path))
    assert not cache.is_cached("Median u1")
    cache.note_cached(["Median u1"])
    assert cache.is_cached("Median u1") and not cache.is_cached("Median u2")
    with monkeypatch.context() as other:
        other.setattr(cache, "_all_sources", lambda: "other kernels")
        assert not cache.is_cached("Median u1")
    for k in range(2):
        (cache.folder() / f"{k}.kernel").write_bytes(bytes(100))
    cache.prune(cache.folder(), 200)
    assert cache.is_cached("Median u1")
    cache.prune(cache.folder(), 199)
    assert not cache.is_cached("Median u1")


def test_kernels_are_defined_while_other_threads_import(monkeypatch):
    """Sources are looked up among all modules; threads that begin at once import more of them meanwhile."""
    modules = {}

    class Name(str):
        """A name of a module; another module is imported while it is compared."""

        __slots__ = ()
        __hash__ = str.__hash__

        def startswith(self, *args):
            modules[f"late{len(modules)}"] = ModuleType("late")
            return super().startswith(*args)

    for name in ("beam_volumes.kernels.first", "beam_volumes.kernels.second"):
        modules[Name(name)] = ModuleType(name)
    monkeypatch.setattr(cache, "sys", SimpleNamespace(modules=modules))
    monkeypatch.setattr(cache, "_sources", {})
    cache._remember_sources("beam_volumes.kernels.first")
    assert len(modules) == 4
