"""Budgets: fractions and their noise, sensitivities by brute force, rows of a person."""

import itertools
import math
from collections import Counter
from fractions import Fraction
from functools import partial

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from skdp import DPMarginalSynthesizer
from skdp.central.statistics import rows_within
from skdp.privacy import Mu, PrivacyBudget, gaussian_delta
from skdp.randomness import SeededSource, watch_draws
from skdp.synthesis.measure import plan_release
from skdp.testing import replay_release
from tests.conftest import diagonal
from tests.synthesis.budgets import make_budget, make_noise, private_counts
from tests.testing.central_releases import fit_model

PROMISES = [(epsilon, delta) for epsilon in (1e-3, 0.1, 1, 10, 1000) for delta in (1e-12, 1e-9, 1e-2)]


@pytest.mark.parametrize(("epsilon", "delta"), PROMISES)
def test_gaussian_privacy_is_used_up_exactly(epsilon, delta):
    budget = PrivacyBudget("epsilon", Fraction(epsilon))
    release = plan_release(budget, Fraction(delta), {}, ["x"], max_values=2)
    mu = math.sqrt(release.noise_budget.mu_squared)
    assert gaussian_delta(mu, epsilon) <= delta * (1 + 1e-6)
    assert gaussian_delta(mu * 1.001, epsilon) > delta


KINDS = ["gaussian", "laplace"]
COUNTS = np.array([5, 0, 7, 2**40])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", ["add_to_counts", "add_to_scores"])
def test_budget_exceeded_is_raised_before_drawing(scripted_source, kind, method):
    noise = make_noise(kind, 1)
    noise.add_to_counts(COUNTS, Fraction(2, 3))
    noise._source, random = scripted_source(), noise._source
    for share in [Fraction(1, 3) + Fraction(1, 10**30), Fraction(1), Fraction(0), Fraction(-1)]:
        with pytest.raises(RuntimeError, match="The fractions of the budget"):
            getattr(noise, method)(COUNTS, share)
        with pytest.raises(RuntimeError, match="The fractions of the budget"):
            noise.split(share)
        assert noise._source.used == 0
        assert noise.remaining == Fraction(1, 3)
    noise._source = random
    getattr(noise, method)(COUNTS % 10, Fraction(1, 6))
    assert noise.split(Fraction(1, 6)).remaining == 1
    assert noise.remaining == 0


@pytest.mark.parametrize("kind", KINDS)
def test_errors_are_proportional_to_the_rows_of_a_person(kind):
    one, three = make_noise(kind, Fraction(1, 10**6)), make_noise(kind, Fraction(1, 10**6), 3)
    for error in ("std_error", "choice_error", "score_std_error"):
        options = [Fraction(1, 2)] if error == "std_error" else [Fraction(1, 2), 10]
        assert getattr(three, error)(*options) == pytest.approx(3 * getattr(one, error)(*options), rel=1e-6)


@given(
    st.sampled_from(KINDS),
    st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=20),
    st.fractions(Fraction(1, 1000), 1, max_denominator=10**6),
)
def test_best_fractions_add_up_and_none_are_better(kind, weights, total):
    budget = make_noise(kind, Fraction(1, 10**8))  # much noise, so that rounding to twelfths is negligible
    shares = budget.allocate(weights, total)
    assert sum(shares) == total
    assert min(shares) > 0

    def error(parts):
        return math.fsum(w * budget.std_error(part) for w, part in zip(weights, parts, strict=True))

    best = error(shares)
    exponent = budget.cost_power
    smallest = math.fsum(w**exponent for w in weights) ** (1 / exponent) * budget.std_error(total)
    assert best == pytest.approx(smallest, rel=1e-3)
    for giver, taker in itertools.permutations(range(len(shares)), 2):
        moved = list(shares)
        moved[giver] -= shares[giver] / 4
        moved[taker] += shares[giver] / 4
        assert error(moved) >= best * (1 - 1e-9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [0.1, 0.2, 0.4, 1, 3, 30])
def test_errors_of_integers_with_little_noise_are_exact(kind, scale):
    """Rounding added a twelfth to the variance, which is wrong for noise that is nearly always 0."""
    amount = scale**-2 if kind == "gaussian" else 1 / scale
    budget = make_noise(kind, Fraction(amount).limit_denominator(10**6))
    values = np.arange(1, 400 + 20 * scale)
    if kind == "gaussian":
        beyond = 2 * norm.sf((values - 0.5) / scale)  # P(|noise| >= value)
    else:
        beyond = 2 * np.exp(-values / scale) / (1 + math.exp(-1 / scale))
    std = math.sqrt(((2 * values - 1) * beyond).sum())
    assert budget.std_error(Fraction(1)) == pytest.approx(max(1e-3, std), rel=1e-4)
    before = scale if kind == "gaussian" else math.sqrt(2) * scale
    assert budget.noise_scale(Fraction(1)) == pytest.approx(before, rel=1e-6)
    assert budget.noise_scale(Fraction(1, 4)) == pytest.approx(before * 4**budget.error_power, rel=1e-6)
    mean = math.sqrt(2 / math.pi) * scale if kind == "gaussian" else scale
    # For more noise, rounding changes the mean by less than a hundredth of it.
    relative = beyond.sum() / mean if scale < 3 else 1
    assert budget.relative_error(before) == pytest.approx(relative, rel=0.02, abs=1e-12)


SIZES = {"a": 2, "b": 2}
DOMAIN = {name: range(size) for name, size in SIZES.items()}
CELLS = list(itertools.product(*DOMAIN.values()))
METHODS = {
    "auto": {},
    "target": {"target": "b"},
    "full": {"marginals": "full"},
    "independent": {"marginals": "independent"},
    "two rows a person": {"max_rows_per_person": 2},
    "three rows a person": {"max_rows_per_person": 3, "marginals": "independent"},
}


@pytest.mark.filterwarnings("ignore::skdp.WeakGuaranteeWarning")
@pytest.mark.parametrize(("name", "epsilon"), diagonal(METHODS, [20.0, Mu(20.0, delta=1e-6)]))
def test_row_or_person_costs_exactly_the_stated_epsilon(name, epsilon):
    """Rows of all values, every second one beside other rows; with hardly any noise, all pairs are measured."""
    synthesizer = DPMarginalSynthesizer(epsilon, domain=DOMAIN, **METHODS[name])
    n_rows = synthesizer.max_rows_per_person
    used = []
    neighbors = itertools.combinations_with_replacement(CELLS, n_rows)
    for index, rows in enumerate(itertools.islice(neighbors, 0, None, [1, 4, 9][n_rows - 1])):
        others = [CELLS[0]] * 3 * (index % 2)
        table = pd.DataFrame([*others, *rows], columns=list(SIZES))
        if n_rows > 1:
            table["person"] = [*range(len(others)), *[9] * n_rows]
        replay = replay_release(partial(fit_model, synthesizer), table, table[: len(others)])
        assert replay.passed, replay.findings
        used.append(replay.epsilon / replay.guarantee.epsilon)
    assert max(used) == pytest.approx(1)


@pytest.mark.parametrize("epsilon", [0.5, 5.0])
def test_row_costs_the_stated_epsilon_with_values_counted_together(epsilon):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.geometric(0.4, (300, 4)).clip(1, 12), columns=list("abcd"))
    table["b"] = table["a"].where(rng.random(300) < 0.5, table["b"])
    synthesizer = DPMarginalSynthesizer(epsilon, domain=dict.fromkeys("abcd", range(1, 13)))
    replay = replay_release(synthesizer, table, table[:-1])
    assert replay.passed, replay.findings
    # The row changes the scores of a choice by less than the largest possible change.
    assert replay.epsilon == pytest.approx(epsilon, rel=0.03)


def test_many_scores_have_one_joint_noise_and_cost_their_fraction():
    rates = []
    with watch_draws(lambda sampler, drawn, values: rates.append(1 / Fraction(values["scale"])) or drawn):
        make_noise("laplace", 5).add_to_scores(np.zeros(450, np.int64), Fraction(1, 3))
    assert rates == [Fraction(5, 3)]


def test_choices_and_levels_of_cells_cost_their_fraction():
    """Replays do not reach the loss of every draw, so they do not find one that spends more."""
    spent = []

    def watch(sampler, drawn, values):
        # A record changes the difference of two scores by at most 2.
        spent.append(2 * values["rate"] if sampler == "permute_and_flip" else 1 / Fraction(values["scale"]))
        return drawn

    with watch_draws(watch):
        make_noise("laplace", 5).choose(np.arange(3), Fraction(1, 3))
        private_counts(np.arange(200), (200,), make_budget("laplace", 5)).measure_levels([0], Fraction(1, 2))
    assert spent == [Fraction(5, 3), *3 * [Fraction(5, 6)]]


@pytest.mark.parametrize("guess", [2.0**36, 2.0**62, 1e300, -1e300])
def test_absurd_guesses_do_not_wrap_around(guess):
    """A sum or product beyond 64 bits would change by much more than 1 with a row."""
    found = []
    for rows in ([[0]], [[0], [1]]):
        table = private_counts(rows, (4,), make_budget("laplace", 1))
        with watch_draws(lambda sampler, drawn, values: 0 * drawn):
            found.append(table.score([(0,)], {(0,): np.full(4, guess)}, (None,), Fraction(1)).item())
    assert abs(found[0] - found[1]) == 1
    assert found[0] >= 0


PERSONS = np.array([0, 1, 0, 2, 0, 1])


class Ordered:
    """Returns a given permutation."""

    def __init__(self, order):
        self.order = order

    def permutation(self, n):
        assert n == len(self.order)
        return np.array(self.order)


@pytest.mark.parametrize("max_rows", [1, 2, 3])
def test_selected_rows_of_each_person_are_uniform_and_independent(max_rows):
    # So a person's rows do not change the distribution of the other rows: enumerated, not sampled.
    orders = itertools.permutations(range(len(PERSONS)))
    law = Counter(tuple(np.flatnonzero(rows_within(PERSONS, max_rows, Ordered(order)))) for order in orders)
    rows = [np.flatnonzero(person == PERSONS) for person in range(3)]
    choices = [list(itertools.combinations(own, min(max_rows, len(own)))) for own in rows]
    assert set(law) == {tuple(sorted(itertools.chain(*parts))) for parts in itertools.product(*choices)}
    assert len(set(law.values())) == 1


@pytest.mark.parametrize("kind", ["epsilon", "gaussian"])
def test_choices_do_not_depend_on_the_unit(kind):
    scores, unit = np.array([0, 3, 5]), 1 << 20
    for seed in range(30):
        one, many = (make_noise(kind, 1, source=SeededSource(seed)).split(Fraction(1, 2), u) for u in (1, unit))
        assert many.choose(scores * unit, Fraction(1)) == one.choose(scores, Fraction(1))
