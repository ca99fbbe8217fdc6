from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from skdp.privacy import check_delta, check_epsilon
from tests.conftest import each

NOT_NUMBERS = [True, np.True_, "1", None, 1j, [1], np.array([1.0])]


@each("value", [1, 1.0, np.float64(1), np.float32(1), np.int8(1), np.longdouble(1), Fraction(1)])
def test_any_real_number_is_taken_exactly(value):
    assert check_epsilon(value) == 1


@each("value", [0, 0.0, -1, float("nan"), float("inf"), -float("inf"), np.float64("nan"), 10**400, Fraction(10**400)])
def test_epsilon_out_of_range(value):
    with pytest.raises(ValueError, match=r"epsilon must be a finite number > 0, got"):
        check_epsilon(value)


@each("value", NOT_NUMBERS)
def test_what_is_no_number(value):
    with pytest.raises(TypeError, match="epsilon must be a finite number > 0, got "):
        check_epsilon(value)
    with pytest.raises(TypeError, match="delta must be a number"):
        check_delta(value)


def test_zero_where_it_is_allowed():
    assert check_epsilon(0, zero=True) == 0


@each("value", [-0.1, 1, 2.0, float("nan")])
def test_delta_out_of_range(value):
    with pytest.raises(ValueError, match=r"share must be a number in \[0, 1\)"):
        check_delta(value, name="share")
