"""Best guesses, against every decision rule and against every protocol of an epsilon."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.optimize import linprog

from skdp.evaluation import bayes_accuracy
from skdp.evaluation._attacks import guessing_bound
from skdp.oracles import LocalHashing, RandomizedResponse, SubsetSelection, TwoRoundUnaryEncoding, UnaryEncoding
from tests.conftest import each, often

EPSILONS = [0.01, 0.5, math.log(3), 4.0]


def best_protocol(prior, epsilon):
    """Solve for the best protocol: extreme columns of a channel are e^epsilon on some values and 1 on the others.

    Any column of a channel is a positive combination of these, and the best guess is worth no more for the sum of
    columns than for each by itself.
    """
    k, ratio = len(prior), math.exp(epsilon)
    columns = np.array([[ratio if high else 1 for high in subset] for subset in product((0, 1), repeat=k)], float)
    worth = (columns * np.array(prior)).max(axis=1)
    return -linprog(-worth, A_eq=columns.T, b_eq=np.ones(k), bounds=(0, None)).fun


@example([9, 1, 1], math.log(3))
@example([1, 0], 0.01)
@example([6, 2, 2, 0], 4.0)
@given(st.lists(st.integers(0, 50), min_size=1, max_size=5).filter(any), st.floats(0, 6))
def test_the_bound_is_the_best_of_all_protocols_for_any_prior(weights, epsilon):
    prior = np.array(weights) / sum(weights)
    assert guessing_bound(prior, epsilon) == pytest.approx(best_protocol(prior, epsilon), rel=1e-7)


@each("k", [1, 2, 7, 100])
def test_ends_and_equal_shares(k):
    prior = np.full(k, 1 / k)
    assert guessing_bound(prior, 0) == pytest.approx(1 / k)
    assert guessing_bound(prior, math.inf) == pytest.approx(1)
    assert guessing_bound(prior, 1000.0) == pytest.approx(1)
    assert guessing_bound(prior, 1.5) == pytest.approx(math.exp(1.5) / (math.exp(1.5) + k - 1))


@pytest.mark.parametrize("k", often([4, 6, 8], [4, 6]))
@each("epsilon", EPSILONS)
def test_it_is_the_sum_over_the_channel(k, epsilon):
    rng = np.random.default_rng(k)
    oracles = [RandomizedResponse(k, epsilon)]
    oracles += [UnaryEncoding(k, epsilon, variant=variant) for variant in ("optimized", "symmetric")]
    oracles += [
        UnaryEncoding(k, p=Fraction(9, 10), q=Fraction(1, 3)),
        TwoRoundUnaryEncoding(UnaryEncoding(k, epsilon), Fraction(epsilon) / 3),
    ]
    oracles += [SubsetSelection(k, epsilon, subset_size=size) for size in range(1, k)]
    for oracle in oracles:
        prior = rng.dirichlet(np.full(k, 0.7))
        exact = (np.array(oracle.channel(), float) * prior[:, np.newaxis]).max(axis=0).sum()
        assert bayes_accuracy(oracle, prior) == pytest.approx(exact, rel=1e-12)
        assert max(prior) - 1e-12 <= exact <= guessing_bound(prior, oracle.epsilon) + 1e-12


def test_large_channels_and_hashing_have_no_sum():
    prior = np.full(1000, 1 / 1000)
    assert 1 / 1000 < bayes_accuracy(RandomizedResponse(1000, 1.0), prior) < guessing_bound(prior, 1.0) + 1e-12
    assert bayes_accuracy(UnaryEncoding(1000, 1.0), prior) is None
    assert bayes_accuracy(LocalHashing(5, 1.0), [0.2] * 5) is None


@each(
    "prior epsilon error message",
    [
        ([], 1.0, ValueError, "prior must be probabilities"),
        ([0.5, 0.4], 1.0, ValueError, "prior must be probabilities"),
        ([math.nan, 1.0], 1.0, ValueError, "prior must be probabilities"),
        ([1.0], -1.0, ValueError, "epsilon must be at least 0"),
        ([1.0], "1", TypeError, "epsilon must be a number, at least 0, got str"),
    ],
)
def test_mistakes_are_named(prior, epsilon, error, message):
    with pytest.raises(error, match=message):
        guessing_bound(prior, epsilon)
    with pytest.raises(ValueError, match="prior must have 3 entries, got 2"):
        bayes_accuracy(RandomizedResponse(3, 1.0), [0.5, 0.5])
