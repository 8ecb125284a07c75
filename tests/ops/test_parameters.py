"""Lengths with units."""

import numpy as np
import pytest

import beam_volumes as bv
from beam_volumes.ops.parameters.checks import lengths

VOLUME = bv.open(np.zeros((4, 4, 4), np.uint8), voxel_size=(10, 5, 2.5), unit="nm")


@pytest.mark.parametrize(
    "text", ["15 nm", "15nm", "0.015 µm", ".015 um", "1.5e-8 m", "150 Å", "15. nm"]
)
def test_a_length_is_divided_by_the_voxel_size_to_the_bit(text):
    assert lengths(VOLUME, text, [0, 1, 2], "sigma") == [1.5, 3.0, 6.0]


def test_numbers_are_voxels_and_may_be_mixed_with_lengths():
    assert lengths(VOLUME, [2, "5 nm", 0.5], [0, 1, 2], "sigma") == [2.0, 1.0, 0.5]


@pytest.mark.parametrize("text", ["15", "1-5 nm", "e nm", "15 parsnip", "-15 nm", ""])
def test_what_is_no_length_is_said(text):
    with pytest.raises(ValueError, match="is not a length"):
        bv.gaussian_filter(VOLUME, text)


def test_a_length_needs_a_voxel_size():
    with pytest.raises(ValueError, match="voxel size with a unit"):
        bv.gaussian_filter(bv.open(np.zeros((4, 4, 4))), "15 nm")
