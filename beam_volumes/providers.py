"""The modules that provide the functions which lower layers declare in `base.higher`.

The package imports this module first. It stands above all layers and imports theirs on first use.
"""

from __future__ import annotations

from beam_volumes.base import higher


def _operations() -> higher.Operations:
    from beam_volumes.ops.array_api import methods

    return methods


def _arithmetic() -> higher.Arithmetic:
    from beam_volumes.ops.array_api import ufuncs

    return ufuncs


def _driver() -> higher.Driver:
    from beam_volumes.drive import compute

    return compute


def _profile() -> higher.Profile:
    from beam_volumes.profile import census

    return census


def _explanation() -> higher.Explanation:
    from beam_volumes.plan import explain

    return explain


def _notebook() -> higher.Notebook:
    from beam_volumes.show import notebook

    return notebook


higher.operations.provide(_operations)
higher.arithmetic.provide(_arithmetic)
higher.driver.provide(_driver)
higher.profile.provide(_profile)
higher.explanation.provide(_explanation)
higher.notebook.provide(_notebook)
