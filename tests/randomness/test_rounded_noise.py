from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest
from scipy.stats import laplace, t

from skdp.exact import exp_minus_bounds
from skdp.randomness import SeededSource, rounded_laplace, rounded_student_t
from skdp.randomness._real import Uniform
from skdp.randomness._rounded_noise import _is_inside, _rounded
from tests.conftest import each, often

FALSE_ALARM = 1e-6
CENTERS = [0, 5, Fraction(1, 3), Fraction(-7, 2), Fraction(-17, 20)]


def counted(draws, cells):
    drawn = np.array(draws, float)
    return [((drawn >= left) & (drawn < right)).sum() for left, right in pairwise(cells)]


@pytest.mark.parametrize("center", CENTERS)
@pytest.mark.parametrize("scale", [Fraction(1, 7), Fraction(5, 2), 10**6])
def test_rounded_laplace_has_the_real_law(fits, center, scale):
    n, source = 400, SeededSource("laplace", str(center), str(scale))
    drawn = [rounded_laplace(source, center, scale) for _ in range(n)]
    assert {type(value) for value in drawn} == {int}
    step = max(1, int(scale) // 3)
    cells = np.arange(math.floor(center) - 12 * step, math.floor(center) + 12 * step, step)
    law = np.diff(laplace.cdf(cells, float(center), float(scale)))
    assert fits(counted(drawn, cells), law, n) > FALSE_ALARM


@each("center", [Fraction(1, 3), Fraction(-17, 20)])
@each("scale", [Fraction(1, 7), Fraction(5, 2)])
def test_the_first_cell_is_left_with_the_exact_probability(scripted_source, center, scale):
    first = math.floor(center)
    for side, width in ((0, first + 1 - center), (255, center - first)):
        bits, rest = divmod(exp_minus_bounds(width / scale, 96)[0], 1 << 64)
        words = [(bits, rest - 1, True), (bits, rest + 2, False), (bits - 5, 0, True), (bits + 5, 0, False)]
        for word, more, left in words:
            script = [side, *word.to_bytes(4, "little"), *(more.to_bytes(8, "big") if word == bits else ())]
            drawn = rounded_laplace(scripted_source(script, filler=255), center, scale)
            assert drawn == (first if not left else first + 1 if side == 0 else first - 1)


@pytest.mark.parametrize("center", [0, 7, -3])
def test_a_whole_center_has_no_first_cell(scripted_source, center):
    """From there down is the cell below: a real number is never exactly the center."""
    assert rounded_laplace(scripted_source([0], filler=255), center, 1) == center
    assert rounded_laplace(scripted_source([255], filler=255), center, 1) == center - 1


@pytest.mark.parametrize("degrees", often([1, 2, 3, 5, 8], [1, 5]))
def test_rounded_student_t_has_the_real_law(fits, degrees):
    n = 1_000
    for center, scale in zip(CENTERS, [Fraction(5, 2), Fraction(1, 7), 1, 10**6, 30], strict=True):
        source = SeededSource("student", degrees, str(center))
        drawn = [rounded_student_t(source, center, scale, degrees) for _ in range(n)]
        assert {type(value) for value in drawn} == {int}
        step = max(1, int(scale) // 3)
        cells = np.arange(math.floor(center) - 24 * step, math.floor(center) + 24 * step, step)
        law = np.diff(t.cdf(cells, degrees, float(center), float(scale)))
        assert fits(counted(drawn, cells), law, n) > FALSE_ALARM


@pytest.mark.parametrize("degrees", [1, 3, 5, 7])
def test_a_square_is_inside_if_all_its_points_are(degrees):
    """For odd degrees u^2 <= f(v / u) is rational; the region is convex, so the corners speak for the square."""

    def within(u, v):
        if u == 0:
            return v == 0 if degrees > 1 else v <= 1  # the limit of the polynomial condition
        return u**2 * (1 + (v / u) ** 2 / degrees) ** ((degrees + 1) // 2) <= 1

    left_open = {}
    for bits in (3, 5):
        size, answers = 1 << bits, []
        for u, v in product(range(size), repeat=2):
            answers.append(_is_inside(Uniform(None, u, bits), Uniform(None, v, bits), degrees))
            corners = {within(Fraction(u + i, size), Fraction(v + j, size)) for i in (0, 1) for j in (0, 1)}
            assert answers[-1] is None or corners == {answers[-1]}
        assert bits == 3 or set(answers) == {True, False, None}
        left_open[bits] = answers.count(None) / len(answers)
    assert left_open[5] < left_open[3] / 2


@pytest.mark.parametrize("center", [0, Fraction(-17, 20)])
@pytest.mark.parametrize("scale", [Fraction(5, 2), Fraction(-5, 2), -40])
def test_an_integer_is_certain_if_all_points_of_a_square_give_it(center, scale):
    known = 0
    for u, v in product(range(1, 64), range(64)):
        rounded = _rounded(Uniform(None, u, 6), Uniform(None, v, 6), Fraction(center), Fraction(scale))
        corners = [math.floor(center + scale * Fraction(v + j, u + i)) for i in (0, 1) for j in (0, 1)]
        assert rounded == (corners[0] if min(corners) == max(corners) else None)
        known += rounded is not None
    assert known > 20
    assert _rounded(Uniform(None, 0, 6), Uniform(None, 5, 6), Fraction(center), Fraction(scale)) is None


@each("degrees", [1, 2, 3, 4, 5, 100])
def test_the_region_is_in_the_unit_square(degrees):
    x = np.linspace(0, 50, 100_001)
    density = (1 + x**2 / degrees) ** (-(degrees + 1) / 2)
    assert (x**2 * density).max() <= 1


def test_more_bits_are_drawn_until_the_condition_and_the_integer_are_certain(scripted_source):
    # u = v = 0: nothing is known of the ratio; the next bits are far inside.
    source = scripted_source([255], [0] * 8, [0] * 8, [0] * 7, [2], [0] * 7, [1], filler=1)
    drawn = rounded_student_t(source, 0, 10**6, 1)
    assert source.used > 1 + 32
    assert abs(drawn - 10**6 / 2) < 10**6
    assert drawn != 0


@pytest.mark.parametrize("draw", [rounded_laplace, lambda *args: rounded_student_t(*args, 3)])
def test_the_center_shifts_the_draw(draw):
    for seed in range(50):
        base = draw(SeededSource(seed), Fraction(1, 3), 100)
        assert draw(SeededSource(seed), Fraction(1, 3) + 10**40, 100) == base + 10**40


@pytest.mark.parametrize(
    ("draw", "law"), [(rounded_laplace, laplace), (lambda *args: rounded_student_t(*args, 5), t(5))]
)
@pytest.mark.parametrize("scale", [Fraction(1, 10**100), 10**100])
def test_scales_of_any_size(fits, draw, law, scale):
    n, source, center = 40, SeededSource("scales"), Fraction(1, 3)
    drawn = [draw(source, center, scale) for _ in range(n)]
    if scale < 1:
        assert set(drawn) == {0}
    else:
        cells = np.linspace(-5, 5, 11)
        observed = counted([float(Fraction(value, scale)) for value in drawn], cells)
        assert fits(observed, np.diff(law.cdf(cells)), n) > FALSE_ALARM


@each(
    "center, scale, error, name",
    [
        (0.5, 1, TypeError, "center"),
        (True, 1, TypeError, "center"),
        (0, 0, ValueError, "scale"),
        (0, Fraction(-1, 2), ValueError, "scale"),
        (0, 0.5, TypeError, "scale"),
        (0, math.nan, TypeError, "scale"),
    ],
)
def test_bad_parameters_are_refused_before_any_draw(scripted_source, center, scale, error, name):
    with pytest.raises(error, match=name):
        rounded_laplace(scripted_source(), center, scale)
    with pytest.raises(error, match=name):
        rounded_student_t(scripted_source(), center, scale, 3)


@each("degrees, error", [(0, ValueError), (-3, ValueError), (3.0, TypeError), (True, TypeError)])
def test_degrees_of_freedom_are_positive_integers(scripted_source, degrees, error):
    with pytest.raises(error, match="degrees_of_freedom"):
        rounded_student_t(scripted_source(), 0, 1, degrees)
