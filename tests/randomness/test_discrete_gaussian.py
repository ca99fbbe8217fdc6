from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import norm

from skdp.randomness import SecureSource, SeededSource, discrete_gaussian
from skdp.randomness import _discrete_noise as module
from tests.conftest import each

FALSE_ALARM = 1e-6
VARIANCES = [Fraction(1, 25), Fraction(1, 2), 1, Fraction(49, 9), 100, Fraction(10**6 + 1, 3)]


@pytest.mark.parametrize("variance", VARIANCES)
def test_discrete_gaussian_has_its_law(fits, variance):
    n = 200_000
    drawn = discrete_gaussian(SeededSource("gaussian", str(variance)), variance, n)
    assert drawn.dtype == np.int64
    reach = math.ceil(12 * math.sqrt(variance)) + 2
    values = np.arange(-reach, reach + 1)
    law = np.exp(-(values**2) / (2 * float(variance)))
    width = max(1, reach // 60)  # several numbers a cell, where there are many
    cells = [slice(start, start + width) for start in range(0, values.size, width)]
    counts = np.bincount(drawn + reach, minlength=values.size)
    assert fits([counts[cell].sum() for cell in cells], [law[cell].sum() / law.sum() for cell in cells], n) > 1e-6


@pytest.mark.parametrize(
    "variance", [*VARIANCES, Fraction(1, 10**400), Fraction(1, 10**20), Fraction(10**35, 3), 10**700]
)
def test_acceptance_turns_laplace_into_gaussian_exactly(monkeypatch, variance):
    """With the exponents x(z) that are asked for, e^(-|z| / t) e^(-x(z)) is a constant times e^(-z^2 / 2 variance)."""
    drawn, rounded, exact, scales = [], [], [], []

    class Laplace:
        dtype = object

        def __init__(self, scale):
            scales.append(scale)

        def draw(self, source, size, signed):
            assert signed
            near = [0, 1, -1, 2, -7, int(scales[0]), -int(variance / scales[0]), int(scales[0] * 40)]
            drawn.append(np.array((near * size)[:size], object))
            return drawn[-1]

    def capture(source, approximate, exactly):
        rounded.extend(approximate.tolist())
        exact.extend(exactly(index) for index in range(approximate.size))
        return np.ones(approximate.size, bool)

    monkeypatch.setattr(module, "geometric_digits", Laplace)
    monkeypatch.setattr(module, "exp_coins", capture)
    numbers = discrete_gaussian(None, variance, 8).tolist()
    assert numbers == drawn[0][:8].tolist()
    rest = {x + abs(z) / scales[0] - Fraction(z) ** 2 / (2 * variance) for z, x in zip(drawn[0], exact, strict=True)}
    assert len(rest) == 1
    for approximate, x in zip(rounded, exact, strict=True):
        assert x >= 0
        if approximate < 2**10 or x < 2**10:
            assert abs(Fraction(approximate) - x) <= max(1, x) / 2**40
    # About the standard deviation, which makes tries few.
    assert scales[0] ** 2 > variance
    assert variance < 1 or scales[0] ** 2 <= variance * Fraction(102, 100)


def test_a_tiny_variance_gives_0():
    for variance in (Fraction(1, 400), Fraction(1, 10**30), Fraction(1, 10**400)):
        assert not discrete_gaussian(SecureSource(), variance, 500).any()


@pytest.mark.parametrize("variance", [2**90, 2**110, 10**600])
def test_enormous_variances(fits, variance):
    n = 1_000
    drawn = discrete_gaussian(SeededSource("enormous", variance), variance, n)
    assert drawn.dtype == (np.int64 if variance < 2**104 else object)
    cells = np.linspace(-5, 5, 21)
    observed, _ = np.histogram([float(Fraction(int(value), math.isqrt(variance))) for value in drawn], cells)
    assert fits(observed, np.diff(norm.cdf(cells)), n) > FALSE_ALARM


@each("size", [0, 1, 2, module._BLOCK, 3 * module._BLOCK + 1])
def test_as_many_as_asked_for(size):
    drawn = discrete_gaussian(SeededSource(size), 10**6, size)
    assert drawn.shape == (size,)
    assert size < 1000 or len(set(drawn[-100:].tolist())) > 50


@each("variance, error", [(0, ValueError), (-1, ValueError), (1.0, TypeError), (True, TypeError)])
def test_a_variance_that_is_none_is_refused_before_any_draw(scripted_source, variance, error):
    with pytest.raises(error, match="variance must be"):
        discrete_gaussian(scripted_source(), variance, 1)
