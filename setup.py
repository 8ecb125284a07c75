"""Packaging is declared in pyproject.toml; this file lets Beam stage the package with ``--setup_file``.

It also puts the compiled kernels of a folder into a wheel: see ``make wheel``.
"""

import os
import platform
import shutil
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

KERNELS = os.environ.get("BEAM_VOLUMES_KERNELS")


class WithKernels(Distribution):
    def has_ext_modules(self):
        return True


class CopyKernels(build_py):
    def run(self):
        super().run()
        target = Path(self.build_lib) / "beam_volumes/kernels/compiled"
        shutil.copytree(KERNELS, target, dirs_exist_ok=True)


if KERNELS:
    # Kernels are linked when they are loaded, so they need no version of a C library.
    wheel = {"plat_name": f"manylinux_2_17_{platform.machine()}"}
    setup(distclass=WithKernels, cmdclass={"build_py": CopyKernels}, options={"bdist_wheel": wheel})
else:
    setup()
