"""Best guesses, against every decision rule and against every protocol of an epsilon."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from scipy.optimize import linprog
from sklearn.dummy import DummyClassifier

from skdp import LocalHashingEncoder
from skdp.evaluation import attribute_inference, bayes_accuracy
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


def attained_bound(weights, epsilon):
    """Return the bound of an attack on hashed reports of so many records of each value, and the guarantee's epsilon."""
    values = np.repeat(np.arange(len(weights)), weights)
    encoder = LocalHashingEncoder(epsilon, categories={"value": range(len(weights))}, random_state=0)
    reports = encoder.fit_transform(pd.DataFrame({"value": values}))
    attacked = attribute_inference(reports, values, encoder=encoder, estimator=DummyClassifier(), random_state=0)
    return attacked.bayes_bound, encoder.guarantee_.epsilon


@example([9, 1, 1], math.log(3))
@example([1, 4], 0.01)
@example([6, 2, 2, 0], 4.0)
@given(st.lists(st.integers(0, 50), min_size=2, max_size=5), st.floats(0.01, 6))
def test_the_bound_is_the_best_of_all_protocols_for_any_prior(weights, epsilon):
    assume(np.count_nonzero(weights) > 1 and sum(weights) >= 5)
    bound, epsilon = attained_bound(weights, epsilon)
    assert bound == pytest.approx(best_protocol(np.array(weights) / sum(weights), epsilon), rel=1e-7)


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
        assert max(prior) - 1e-12 <= exact <= best_protocol(prior, oracle.epsilon) + 1e-7


def test_large_channels_and_hashing_have_no_sum():
    prior = np.full(1000, 1 / 1000)
    assert bayes_accuracy(RandomizedResponse(1000, 1.0), prior) == pytest.approx(math.e / (math.e + 999))
    assert bayes_accuracy(UnaryEncoding(1000, 1.0), prior) is None
    assert bayes_accuracy(LocalHashing(5, 1.0), [0.2] * 5) is None


@each("prior", [[], [0.5, 0.4, 0], [math.nan, 1.0, 0]])
def test_mistakes_are_named(prior):
    with pytest.raises(ValueError, match=r"prior must (be probabilities|have 3 entries)"):
        bayes_accuracy(RandomizedResponse(3, 1.0), prior)
