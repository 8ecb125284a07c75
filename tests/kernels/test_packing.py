"""Integers in few bytes."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from beam_volumes.kernels.packing import pack, unpack


@given(st.sampled_from(["i4", "i8", "u4", "u8"]), st.data())
def test_any_integers_are_unpacked_again(dtype, data):
    info = np.iinfo(dtype)
    some = st.integers(info.min, info.max) | st.integers(0, 200)
    values = np.array(data.draw(st.lists(some)), dtype)
    unpacked = unpack(pack(values), len(values), values.dtype)
    assert unpacked.dtype == values.dtype
    np.testing.assert_array_equal(unpacked, values)


def test_increasing_integers_take_a_byte_each():
    assert len(pack(np.arange(10**9, 10**9 + 1000))) == 1000 + 4
