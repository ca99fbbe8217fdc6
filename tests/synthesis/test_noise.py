from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2, norm

from skdp.privacy import Share
from skdp.randomness import SeededSource
from skdp.synthesis.selection import _private_table as module
from skdp.synthesis.selection import open_budget
from skdp.synthesis.selection._private_table import GaussianBudget, LaplaceBudget
from tests.synthesis.budgets import make_budget

FALSE_ALARM = 1e-6
KINDS = ["gaussian", "laplace"]
SHARES = [Fraction(1), Fraction(1, 3), Fraction(7, 1000)]
ROWS = [1, 3]
COUNTS = np.array([5, 0, 7, 2**40])


@pytest.fixture
def calls(monkeypatch):
    """Replace the samplers by ones that note their parameters and give zeros."""
    found = []

    def note(name, answer):
        def draw(source, *parameters):
            found.append((name, *parameters))
            return answer(*parameters)

        monkeypatch.setattr(module, name, draw)

    note("rounded_gaussian", lambda variance, size: np.zeros(size, np.int64))
    note("discrete_laplace", lambda scale, size: np.zeros(size, np.int64))
    note("cube_noise", lambda scale, dimension: np.zeros((1, dimension), np.int64))
    note("exponential_mechanism", lambda scores, rate: 0)
    return found


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("amount", [Fraction(1, 7), Fraction(5)])
def test_counts_get_the_noise_that_their_share_buys(calls, share, amount, rows):
    GaussianBudget(amount, rows).counts(None, share, COUNTS)
    LaplaceBudget(amount, rows).counts(None, share, COUNTS)
    # mu**2 of one release is (its change / its standard deviation)**2; epsilon is its change / its scale.
    (gaussian, variance, size), (laplace, scale, also_size) = calls
    assert (gaussian, laplace, size, also_size) == ("rounded_gaussian", "discrete_laplace", 4, 4)
    assert Fraction(rows**2) / variance == amount * share
    assert Fraction(rows) / scale == amount * share


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("share", SHARES)
def test_scores_get_noise_for_all_of_them_together(calls, share, rows):
    amount = Fraction(5, 3)
    GaussianBudget(amount, rows).scores(None, share, COUNTS)
    LaplaceBudget(amount, rows).scores(None, share, COUNTS)
    (gaussian, variance, size), (laplace, scale, dimension) = calls
    assert (gaussian, laplace, size, dimension) == ("rounded_gaussian", "cube_noise", 4, 4)
    # Four scores that change by so many rows each change by 2 * rows in L2 norm, and by rows in maximum norm.
    assert Fraction((2 * rows) ** 2) / variance == amount * share
    assert Fraction(rows) / scale == amount * share


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("weight", [1, 13])
def test_a_choice_has_the_rate_of_its_epsilon(calls, share, rows, weight):
    amount = Fraction(5, 3)
    GaussianBudget(amount, rows, choices="rho").choose(None, share, COUNTS, weight)
    LaplaceBudget(amount, rows).choose(None, share, COUNTS, weight)
    gaussian, laplace = (rate * 2 * weight * rows for name, scores, rate in calls)
    assert {name for name, *_ in calls} == {"exponential_mechanism"}
    assert laplace == amount * share
    # epsilon**2 / 8 is at most the share of rho = mu**2 / 2, and hardly less.
    rho = amount * share / 2
    assert gaussian**2 / 8 <= rho
    assert gaussian**2 / 8 > rho * (1 - Fraction(1, 2**30))


def law_of_choice(scores, rate):
    """The exponential mechanism's probabilities."""
    powers = [math.exp(float(rate) * (score - max(scores))) for score in scores]
    return [power / sum(powers) for power in powers]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("amount", [Fraction(1, 10), Fraction(3)])
@pytest.mark.parametrize(("rows", "weights"), [(1, (1, 1, 1)), (2, (1, 2, 1))])
def test_choices_of_neighbours_are_alike(calls, kind, amount, rows, weights):
    """By enumeration: epsilon, its range of log-ratios, and the Rényi divergences of epsilon**2 / 8."""
    budget = make_budget(kind, amount, rows)
    budget.choose(None, Fraction(1, 2), COUNTS, max(weights))
    rate = calls[0][2]
    epsilon = rate * 2 * max(weights) * rows
    paid = amount / 2 if kind == "laplace" else amount / 4  # epsilon, or rho
    steps = [(-weight * rows, 0, weight * rows) for weight in weights]
    for scores in itertools.product([0, 1, 4], repeat=3):
        for change in itertools.product(*steps):
            before = law_of_choice(scores, rate)
            after = law_of_choice([score + step for score, step in zip(scores, change, strict=True)], rate)
            ratios = [math.log(p / q) for p, q in zip(before, after, strict=True)]
            assert max(ratios) - min(ratios) <= float(epsilon) + 1e-12
            if kind == "laplace":
                assert max(map(abs, ratios)) <= float(paid) + 1e-12
                continue
            for order in [1.01, 2, 8, 50]:
                moment = sum(p**order * q ** (1 - order) for p, q in zip(before, after, strict=True))
                assert math.log(moment) / (order - 1) <= float(paid) * order + 1e-12


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", ["counts", "scores", "choose"])
def test_overspending_is_refused_before_a_draw(scripted_source, kind, method):
    budget = make_budget(kind, 1)
    budget.counts(SeededSource(0), Fraction(2, 3), COUNTS)
    for share in [Fraction(1, 3) + Fraction(1, 10**30), Fraction(1), Fraction(0), Fraction(-1)]:
        source = scripted_source()
        with pytest.raises(RuntimeError, match="more than the whole budget"):
            getattr(budget, method)(source, share, COUNTS)
        assert source.used == 0
        assert budget.left == Fraction(1, 3)
    getattr(budget, method)(SeededSource(1), Fraction(1, 3), COUNTS % 10)
    assert budget.left == 0


@given(
    st.sampled_from(KINDS),
    st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=20),
    st.fractions(Fraction(1, 1000), 1, max_denominator=10**6),
)
def test_the_best_shares_add_up_exactly_and_none_are_better(kind, weights, total):
    budget = make_budget(kind, Fraction(1, 10**8))  # much noise: the twelfth of rounding is nothing
    shares = budget.best_shares(weights, total)
    assert sum(shares) == total
    assert min(shares) > 0

    def error(parts):
        return math.fsum(w * budget.std_error(part) for w, part in zip(weights, parts, strict=True))

    best = error(shares)
    exponent = 1 / (1 + float(budget.power))
    least = math.fsum(w**exponent for w in weights) ** (1 / exponent) * budget.std_error(total)
    assert best == pytest.approx(least, rel=1e-3)
    for giver, taker in itertools.permutations(range(len(shares)), 2):
        moved = list(shares)
        moved[giver] -= shares[giver] / 4
        moved[taker] += shares[giver] / 4
        assert error(moved) >= best * (1 - 1e-9)


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(2), Fraction(50)])
def test_laplace_errors_are_those_of_the_law(scale):
    a, reach = math.exp(-1 / scale), np.arange(-4000, 4001)
    law = a ** np.abs(reach) * (1 - a) / (1 + a)
    assert LaplaceBudget(1 / scale).std_error(Fraction(1)) == pytest.approx(math.sqrt((law * reach**2).sum()))


@pytest.mark.parametrize("deviation", [0.2, 0.6, 1, 30])
def test_gaussian_errors_are_those_of_the_law(deviation):
    budget = GaussianBudget(1 / Fraction(deviation) ** 2)
    reach = np.arange(-400, 401)
    law = norm.cdf((reach + 0.5) / deviation) - norm.cdf((reach - 0.5) / deviation)
    exact = math.sqrt((law * reach**2).sum())
    said = budget.std_error(Fraction(1))
    assert exact <= said * (1 + 1e-3)
    if deviation >= 0.6:
        assert said == pytest.approx(exact, rel=5e-3)
    assert budget.score_error(Fraction(1, 2), 5) == pytest.approx(math.sqrt(10 * deviation**2 + 1 / 12))


@pytest.mark.parametrize("scale", [Fraction(2), Fraction(20)])
@pytest.mark.parametrize("dimension", [1, 2, 7])
def test_errors_of_laplace_scores_are_those_of_the_cube(scale, dimension):
    radii = np.arange(2000.0)
    weights = (2 * radii + 1) ** dimension * np.exp(-radii / float(scale))
    exact = math.sqrt((weights * radii * (radii + 1)).sum() / weights.sum() / 3)
    said = LaplaceBudget(1 / scale).score_error(Fraction(1), dimension)
    assert said == pytest.approx(exact, rel=0.02)
    assert said == pytest.approx(math.sqrt(exact**2 + 1 / 12), rel=1e-2)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", ["counts", "scores"])
def test_drawn_noise_is_as_large_as_said(kind, method):
    """The sum of squares within its chi-square bounds (doubled degrees of freedom for the heavier tails)."""
    n, share = 4000, Fraction(1, 50)
    budget = make_budget(kind, 1, 2)
    size = n if method == "counts" else 4
    squares = []
    for seed in range(1 if method == "counts" else 1000):
        fresh = make_budget(kind, 1, 2)
        squares.append(getattr(fresh, method)(SeededSource("size", seed), share, np.full(size, 9)) - 9)
    found = float(np.mean(np.concatenate(squares) ** 2))
    said = budget.std_error(share) if method == "counts" else budget.score_error(share, 4)
    freedom = 4000 / (1 if kind == "gaussian" else 8)
    low, high = chi2.ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2], freedom) / freedom
    assert low < found / said**2 < high


@pytest.mark.parametrize("kind", KINDS)
def test_noise_is_added_to_every_cell_and_keeps_the_shape(calls, kind):
    counts = np.arange(12).reshape(3, 4)
    noisy = make_budget(kind, 1).counts(None, Fraction(1), counts)
    np.testing.assert_array_equal(noisy, counts)
    assert noisy.dtype == np.float64
    assert calls[0][-1] == 12


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", ["counts", "scores"])
def test_noise_beyond_what_floats_hold_is_cut(kind, method):
    noisy = getattr(make_budget(kind, Fraction(1, 10**80)), method)(SeededSource(0), Fraction(1), COUNTS)
    assert (np.abs(noisy) == 2**52).all()


def test_noise_that_is_nearly_always_0_has_a_finite_weight():
    assert LaplaceBudget(Fraction(10**6)).std_error(Fraction(1)) > 0
    assert GaussianBudget(Fraction(10**12)).std_error(Fraction(1)) > 0


def test_many_scores_are_drawn_in_blocks_that_split_epsilon(monkeypatch):
    """The noise of all pairs of wide tables would take the third power of their number."""
    calls = []

    def spy(source, scale, dimension, size=1):
        calls.append((scale, dimension))
        return np.zeros((size, dimension), np.int64)

    monkeypatch.setattr("skdp.synthesis.selection._private_table.cube_noise", spy)
    budget = LaplaceBudget(Fraction(2), 3)
    budget.scores(SeededSource(0), Fraction(1, 4), np.zeros(450, np.int64))
    assert [dimension for _, dimension in calls] == [150, 150, 150]
    assert sum(3 / scale for scale, _ in calls) == Fraction(2) * Fraction(1, 4)  # the epsilons of the blocks
    deviation = float(calls[0][0]) * (151 * 152 / 3) ** 0.5
    assert budget.score_error(Fraction(1, 4), 450) == pytest.approx(deviation)


def test_gaussian_privacy_has_no_choices():
    """Its account covers sums of noise only: with choices, epsilon and delta would be larger than promised."""
    budget, _ = open_budget(Share("epsilon", Fraction(1)), Fraction(1, 10**6), 1, choices=False)
    with pytest.raises(RuntimeError, match="does not cover choices"):
        budget.choose(None, Fraction(1, 2), COUNTS)
