"""Packaging is declared in pyproject.toml; this file lets Beam stage the package with ``--setup_file``.

It also makes the links of the README absolute, for PyPI, and puts the compiled kernels of a folder into a
wheel: see ``make wheel``.
"""

import os
import platform
import re
import shutil
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

KERNELS = os.environ.get("BEAM_VOLUMES_KERNELS")


ROOT = Path(__file__).parent


def description():
    """The README, with links that lead to this version in the repository."""
    project, version = (
        (ROOT / name).read_text() for name in ("pyproject.toml", "beam_volumes/version.py")
    )
    repository = re.search(r'^Repository = "(.*)"$', project, re.M)[1]
    tag = "v" + re.search(r'^__version__ = "(.*)"$', version, re.M)[1]

    def absolute(link):
        kind = "raw" if link[1] else "blob"
        return f"{link[1]}[{link[2]}]({repository}/{kind}/{tag}/{link[3]})"

    text = (ROOT / "README.md").read_text()
    return re.sub(r"(!?)\[([^\]]*)\]\((?![a-z]+:|#)([^)\s]+)\)", absolute, text)


class WithKernels(Distribution):
    def has_ext_modules(self):
        return True


class CopyKernels(build_py):
    def run(self):
        super().run()
        target = Path(self.build_lib) / "beam_volumes/kernels/compiled"
        shutil.copytree(KERNELS, target, dirs_exist_ok=True)


readme = {"long_description": description(), "long_description_content_type": "text/markdown"}
if KERNELS:
    # Kernels are linked when they are loaded, so they need no version of a C library.
    wheel = {"plat_name": f"manylinux_2_17_{platform.machine()}"}
    kernels = {"cmdclass": {"build_py": CopyKernels}, "options": {"bdist_wheel": wheel}}
    setup(distclass=WithKernels, **kernels, **readme)
else:
    setup(**readme)
