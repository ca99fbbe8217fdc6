"""Local sensitivity: exact divergences, brute-force sensitivities, and what the naive forms do."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import laplace, t

from skdp.central import laplace_divergence
from skdp.central.frameworks._propose_test_release import pass_threshold
from skdp.central.frameworks._smooth_sensitivity import DEGREES_OF_FREEDOM, SmoothNoise, laplace_factor
from skdp.central.statistics import GRID, ColumnSums, to_places
from skdp.exact import exp_bounds
from tests.conftest import each

WIDTH = 2 * GRID
TEST_SHARE = Fraction(1, 10)
EPSILONS = [0.01, 0.1, 1, 10, 20]
DELTA = 1e-6
SIZES = [0, 1, 2, 100, 150, 199, 200, 1000]


def neighbours(sizes):
    pairs = {(n, n + step) for n in sizes for step in (-1, 1) if n + step >= 0}
    return sorted(pairs | {(right, left) for left, right in pairs})


def shift_of_means(left, right):
    """How far the means of two neighbours can be apart, as a share of the width."""
    return 1 / max(left, right) if max(left, right) > 1 else 0.5


def equal_scales(log_ratio, shift):
    """The integral of (p - e**log_ratio q)+ for Laplace laws of scale 1, a shift apart: by hand, not by skdp."""
    log_ratio = np.asarray(log_ratio, float)
    far = -np.expm1((log_ratio - shift) / 2)
    return np.where(log_ratio >= shift, 0.0, np.where(log_ratio <= -shift, -np.expm1(log_ratio), far))


def upper_tail(distance, epsilon, threshold):
    """P(distance + discrete Laplace noise >= threshold)."""
    need = threshold - distance
    share = 1 / (1 + math.exp(-epsilon))
    return share * math.exp(-epsilon * need) if need > 0 else 1 - share * math.exp(-epsilon * (1 - need))


def proposed_divergence(left, right, epsilon, min_n, threshold, test, release):
    """The exact delta of propose-test-release of a mean, at epsilon, for two numbers of values."""
    passing = [upper_tail(max(0, n - min_n + 1), test, threshold) for n in (left, right)]
    refused = max(0.0, (1 - passing[0]) - math.exp(epsilon) * (1 - passing[1]))
    shift = shift_of_means(left, right) * min_n * release
    return refused + passing[0] * float(equal_scales(epsilon + math.log(passing[1] / passing[0]), shift))


def largest_beta(epsilon, delta):
    """The beta from which on there is no noise that is enough, by the form of 2007, or for Student's t."""
    return epsilon / Fraction(2 * math.log(2 / delta)) if delta else epsilon / DEGREES_OF_FREEDOM


def smooth_mean(n, beta):
    """The smooth sensitivity of the mean of n values, as a share of the width: at an end of its maximum."""
    return max(Fraction(1, max(n, 1)), 1 / exp_bounds(min(beta * max(n - 1, 0), Fraction(1000)))[0])


class TestProposeTestRelease:
    @each("epsilon", EPSILONS)
    @each("min_n", [1, 2, 100, 1000])
    def test_its_exact_delta_is_at_most_the_stated_one(self, epsilon, min_n):
        test, release = float(TEST_SHARE) * epsilon, float(1 - TEST_SHARE) * epsilon
        threshold = pass_threshold(TEST_SHARE * Fraction(epsilon), Fraction(DELTA))
        near = [max(0, min_n + sign * step) for sign in (-1, 1) for step in (0, 1, threshold - 1, threshold)]
        worst = max(
            proposed_divergence(left, right, epsilon, min_n, threshold, test, release)
            for left, right in neighbours({*SIZES, *near})
        )
        assert worst <= DELTA * (1 + 1e-9)
        if min_n > 2 and 0.1 <= epsilon <= 1:
            assert worst > 0.85 * DELTA  # the threshold is no larger than it has to be

    def test_the_textbook_form_breaks_its_promise(self):
        # Threshold ln(2 / delta) / (2 epsilon), and epsilon for the test and again for the release.
        for epsilon, worst_delta in [(1, 0.2), (0.1, 0.02)]:
            threshold = math.ceil(math.log(2 / DELTA) / (2 * epsilon))
            sizes = range(20_000 - 1, 20_000 + 3 * threshold, max(1, round(1 / epsilon)))
            worst = max(
                proposed_divergence(left, right, epsilon, 20_000, threshold, epsilon, epsilon)
                for left, right in neighbours(sizes)
            )
            assert worst > worst_delta
        # Even for twice the epsilon, the threshold alone is too low by hundreds of times.
        threshold = math.ceil(math.log(2 / DELTA) / 2)
        assert proposed_divergence(100, 101, 2, 20_000, threshold, 1, 1) > 100 * DELTA

    def test_the_threshold_is_the_smallest(self):
        for epsilon, delta in itertools.product([1e-3, 0.1, 1, 7, 300], [1e-12, 1e-6, 0.01, 0.4, 0.9]):
            threshold = pass_threshold(Fraction(epsilon), Fraction(delta))
            assert upper_tail(0, epsilon, threshold) <= delta * (1 + 1e-9)
            assert threshold == 1 or upper_tail(0, epsilon, threshold - 1) > delta * (1 - 1e-9)

    def test_the_threshold_of_a_tiny_epsilon_is_a_bound(self):
        threshold = pass_threshold(Fraction(1e-300), Fraction(1e-6))
        exact = (-math.log(1e-6) - math.log(2)) / Fraction(1e-300)
        assert exact <= threshold <= exact * (1 + Fraction(1, 10**8))


class TestSmoothSensitivity:
    @pytest.mark.parametrize("epsilon", EPSILONS)
    @pytest.mark.parametrize("share", [0.001, 0.1, 0.5])
    @pytest.mark.parametrize("delta", [1e-6, 1e-9])
    def test_laplace_noise_keeps_its_promise(self, epsilon, share, delta):
        exact = Fraction(epsilon), Fraction(delta)
        beta = Fraction(share) * largest_beta(*exact)
        factor = SmoothNoise.calibrated(*exact, beta).factor
        crossing = [n + step for n in [int(math.log(1 / beta) / beta)] for step in (-50, 0, 50)]
        worst = Decimal(0)
        for left, right in neighbours({*SIZES, *(n for n in crossing if n > 0)}):
            scales = [Decimal(float(factor * smooth_mean(n, beta))) for n in (left, right)]
            shift = Decimal(shift_of_means(left, right))
            worst = max(worst, laplace_divergence(Decimal(epsilon), scales[0], shift, scales[1]))
        assert 0 < worst <= Decimal(delta) * Decimal("1.000001")

    @pytest.mark.parametrize("epsilon", EPSILONS)
    @pytest.mark.parametrize("share", [0.001, 0.1, 0.5])
    def test_students_t_is_pure(self, epsilon, share):
        beta = Fraction(share) * largest_beta(Fraction(epsilon), 0)
        factor = SmoothNoise.calibrated(Fraction(epsilon), Fraction(0), beta).factor
        for left, right in neighbours(SIZES):
            scales = [float(factor * smooth_mean(n, beta)) for n in (left, right)]
            shift = shift_of_means(left, right)
            places = np.concatenate(
                [np.linspace(-50, 50, 5_001), np.geomspace(50, 1e9, 500), -np.geomspace(50, 1e9, 500)]
            )
            places = places * max(scales)
            losses = t.logpdf(places, DEGREES_OF_FREEDOM, 0, scales[0]) - t.logpdf(
                places, DEGREES_OF_FREEDOM, shift, scales[1]
            )
            assert np.abs(losses).max() <= epsilon * (1 + 1e-9)

    @pytest.mark.parametrize("epsilon", [0.01, 1, 20])
    @pytest.mark.parametrize("share", [0.01, 0.1, 0.5, 1])
    @pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-12])
    def test_the_factor_is_enough_for_every_pair_of_scales_and_no_larger_than_need_be(self, epsilon, share, delta):
        beta = share * epsilon / (2 * math.log(2 / delta))
        factor = Decimal(float(laplace_factor(Fraction(epsilon), Fraction(delta), Fraction(beta))))

        def worst(factor):
            one = Decimal(1)
            ratios = [Decimal(exponent).exp() for exponent in np.linspace(-beta, beta, 41)]
            return max(
                laplace_divergence(Decimal(epsilon), factor * ratio, share * min(ratio, one), factor)
                for ratio in ratios
                for share in (one, one / 2)
            )

        assert worst(factor) <= Decimal(delta) * Decimal("1.0000001")
        assert worst(factor * Decimal("0.999")) > Decimal(delta)

    @pytest.mark.parametrize("epsilon", [-0.5, 0.3])
    @pytest.mark.parametrize("scales", [(1, 1), (1, 1.5), (2, 0.7)])
    @pytest.mark.parametrize("shift", [0, 0.8])
    def test_the_divergence_is_the_integral(self, epsilon, scales, shift):
        def excess(x):
            return max(0.0, laplace.pdf(x, 0, scales[0]) - math.exp(epsilon) * laplace.pdf(x, shift, scales[1]))

        integral = sum(quad(excess, left, right, limit=400)[0] for left, right in [(-80, -5), (-5, 0), (0, 5), (5, 80)])
        exact = laplace_divergence(*(Decimal(number) for number in (epsilon, scales[0], shift, scales[1])))
        assert float(exact) == pytest.approx(integral, abs=1e-7)

    def test_what_was_asked_for_in_2007_is_twice_too_much_and_wrong_for_a_large_epsilon(self):
        def delta_at(epsilon):
            beta = Decimal(epsilon) / (2 * (2 / Decimal(DELTA)).ln())
            scale = Decimal(2) / Decimal(epsilon)
            return laplace_divergence(Decimal(epsilon), scale * beta.exp(), Decimal(1), scale)

        assert delta_at(1) < Decimal(DELTA) / 100
        assert delta_at(20) > 3 * Decimal(DELTA)

    def test_the_textbook_bound_is_not_smooth(self):
        # The maximum over k < 200 only, from the sensitivity of adding.
        beta = 0.1 / (2 * math.log(2 / DELTA))
        naive = [max(math.exp(-beta * k) / max(n - k + 1, 1) for k in range(200)) for n in (199, 200, 1000)]
        assert naive[1] < naive[0] * math.exp(-beta) * 0.6
        scales = [Decimal(sensitivity * 2 / 0.1) for sensitivity in naive]
        assert laplace_divergence(Decimal("0.1"), scales[0], Decimal(1) / 200, scales[1]) > Decimal("0.1")
        assert naive[2] < float(smooth_mean(1000, Fraction(beta))) / 30

    def test_it_bounds_the_smooth_sensitivity_of_all_small_tables(self):
        values = (0, 1, 2)
        tables = [table for size in range(6) for table in itertools.combinations_with_replacement(values, size)]
        means = {table: sum(table) / len(table) if table else 1.0 for table in tables}

        def moved(table):
            out = [means[(*table[:i], *table[i + 1 :])] for i in range(len(table))]
            more = [tuple(sorted((*table, value))) for value in values]
            changes = [*out, *(means.get(other, sum(other) / len(other)) for other in more)]
            return max(abs(change - means[table]) for change in changes)

        def distance(left, right):
            counts = [[table.count(value) for value in values] for table in (left, right)]
            return sum(abs(a - b) for a, b in zip(*counts, strict=True))

        local = {table: moved(table) / 2 for table in tables}
        for beta in (Fraction(1, 100), Fraction(1, 2), Fraction(3)):
            for table in tables:
                smooth = max(math.exp(-float(beta) * distance(table, other)) * local[other] for other in tables)
                assert smooth <= float(smooth_mean(len(table), beta)) + 1e-12

    @pytest.mark.parametrize("beta", [1e-6, 1e-3, 0.1, 2.0])
    def test_it_is_smooth(self, beta):
        sizes = [*range(300), *range(10**4, 10**4 + 5), 10**6, 10**6 + 1]
        bounds = {n: smooth_mean(n, Fraction(beta)) for n in sizes}
        for n in sizes:
            if n + 1 in bounds:
                ratio = bounds[n] / bounds[n + 1]
                assert math.exp(-beta) * (1 - 1e-12) <= ratio <= math.exp(beta) * (1 + 1e-12)
            assert bounds[n] >= Fraction(1, max(n, 1))


def mean_place(column):
    return Fraction(column.sums.places, max(column.sums.n, 1))


class TestSums:
    VALUES = (-1.0, 0.25, 3.0, 7.0, -9.0, math.inf, -math.inf, math.nan)

    def test_no_record_moves_the_sums_by_more_than_is_declared(self):
        def sums(table):
            return ColumnSums.of(np.array(table, float), -1.0, 3.0).sums

        for size in range(4):
            for table in itertools.combinations_with_replacement(self.VALUES, size):
                before = sums(table)
                for added in self.VALUES:
                    after = sums((*table, added))
                    n, places, squares = (b - a for a, b in zip(before, after, strict=True))
                    assert n == (not math.isnan(added))
                    assert abs(places) <= GRID * n
                    assert 0 <= squares <= GRID * n

    def test_a_replaced_record_moves_them_by_at_most_twice_as_much(self):
        values = (-1.0, 0.25, 3.0, math.nan)
        for size in range(3):
            for table in itertools.combinations_with_replacement(values, size):
                for old, new in itertools.product(values, repeat=2):
                    before, after = (ColumnSums.of(np.array((*table, one)), -1.0, 3.0).sums for one in (old, new))
                    n, places, squares = (b - a for a, b in zip(before, after, strict=True))
                    assert abs(n) <= 1
                    assert abs(places) <= 2 * GRID
                    assert abs(squares) <= GRID

    def test_the_mean_moves_by_at_most_the_width_over_the_larger_number(self):
        for size in range(4):
            for table in itertools.combinations_with_replacement((0.0, 0.5, 1.0, math.nan), size):
                before = ColumnSums.of(np.array(table, float), 0.0, 1.0)
                for added in (0.0, 0.5, 1.0, math.nan):
                    after = ColumnSums.of(np.array((*table, added), float), 0.0, 1.0)
                    bound = Fraction(WIDTH, max(after.sums.n, 1))
                    assert abs(mean_place(after) - mean_place(before)) <= bound

    def test_sums_do_not_depend_on_the_order_of_rows_or_on_blocks(self):
        rng = np.random.default_rng(0)
        values = rng.normal(size=200_001) * 1e5
        values[::7] = np.nan
        one = ColumnSums.of(values, -1e5, 3e5).sums
        assert ColumnSums.of(rng.permutation(values), -1e5, 3e5).sums == one
        halves = [ColumnSums.of(part, -1e5, 3e5).sums for part in np.split(values, [777])]
        assert tuple(a + b for a, b in zip(*halves, strict=True)) == one

    @each("low, high", [(0.1, 0.7), (1e9, 1e9 + 2), (-1e-300, 1e-300), (-8e307, 8e307)])
    def test_the_bounds_are_the_ends_of_the_grid(self, low, high):
        column = ColumnSums.of(np.array([low, high]), low, high)
        places = to_places(np.array([low, high, -np.inf, np.inf, np.nan]), low, high)
        np.testing.assert_array_equal(places, [-GRID, GRID, -GRID, GRID, np.nan])
        assert column.value(-GRID) == low
        assert column.value(GRID) == pytest.approx(high, rel=1e-15)
        assert column.value(Fraction(10**400)) <= high
