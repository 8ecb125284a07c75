"""Kernels that other kernels call: their code is a part of their callers'. Python can call them, too."""

import cloudpickle
import numpy as np
import pytest
from numba import types

from beam_volumes.kernels.jit import compilations, kernel, made_kernel, row_kernel


@row_kernel
def checked(x):
    if x < 0:
        raise ValueError("negative")
    return x + 1


@kernel
def ones(n):
    return np.ones(n)


@kernel
def factorial(n):
    return n * factorial(n - 1) if n > 1 else 1


@kernel
def limited(x):
    if x > 99:
        raise ValueError("too large", x)
    return x


@kernel
def total(values):
    result = ones(3).sum() - 3
    for value in values:
        result += checked(value) * factorial(limited(value))
    return result


@kernel
def applied(function, value):
    return function(value)


def test_kernels_call_each_other_and_python_calls_each():
    values = np.array([1, 2, 3])
    assert total(values) == 2 * 1 + 3 * 2 + 4 * 6
    # Before and after, and for other types.
    assert checked(1) == 2 and checked(1.5) == 2.5 and factorial(4) == 24
    assert total(values.astype("u1")) == total(values)
    assert ones(2).tolist() == [1, 1]


def test_errors_of_kernels_that_are_called_by_others_are_raised():
    for _ in range(2):
        with pytest.raises(ValueError, match="negative"):
            total(np.array([1, -1]))
        with pytest.raises(ValueError, match="negative"):
            checked(-1)
        with pytest.raises(ValueError, match="too large") as error:
            total(np.array([1, 100]))
        assert error.value.args == ("too large", 100)


def test_kernels_are_arguments_of_others_and_called_by_functions_of_users():
    def twice(x):
        return 2 * checked(x)

    assert applied(checked, 2) == 3
    assert made_kernel(twice)(2) == 6


def test_a_kernel_is_copied_with_its_code():
    copy = cloudpickle.loads(cloudpickle.dumps(checked))
    assert copy(2) == 3


def test_code_for_callers_is_no_machine_code():
    with compilations() as found:
        total(np.array([1], "i2"))
    assert [c.name for c in found] == ["total"]
    called = [k for k in (checked, factorial) if (types.int16,) in k._callee.overloads]
    assert called == [checked, factorial]
    assert not any((types.int16,) in k.overloads for k in called)
    assert not total._callee.overloads
