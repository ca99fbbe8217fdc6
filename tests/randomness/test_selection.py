from __future__ import annotations

import math
from fractions import Fraction
from itertools import permutations, product

import numpy as np
import pytest

from skdp.randomness import SecureSource, SeededSource, exponential_mechanism, permute_and_flip

FALSE_ALARM = 1e-6


def one_by_one(heads):
    """The law of going through the candidates in random order until one shows heads."""
    law = [0] * len(heads)
    orders = list(permutations(range(len(heads))))
    for order in orders:
        reached = 1
        for candidate in order:
            law[candidate] += Fraction(reached * heads[candidate], len(orders))
            reached *= 1 - heads[candidate]
    return law


def all_at_once(heads):
    """The law of a uniform choice among all that show heads."""
    law = [0] * len(heads)
    for coins in product([0, 1], repeat=len(heads)):
        probability = math.prod(p if coin else 1 - p for p, coin in zip(heads, coins, strict=True))
        for candidate, coin in enumerate(coins):
            law[candidate] += coin * probability / max(1, sum(coins))
    return law


@pytest.mark.parametrize(
    "heads", [[1], [1, 1, 1], [Fraction(1, 3), 1], [Fraction(1, 3), 1, Fraction(2, 7), 0, Fraction(1, 2)]]
)
def test_tossing_all_coins_at_once_changes_nothing(heads):
    heads = [Fraction(p) for p in heads]
    assert one_by_one(heads) == all_at_once(heads)
    assert sum(all_at_once(heads)) == 1


@pytest.mark.chosen("scores0", "scores1", "scores2", "scores4")
@pytest.mark.parametrize(
    "scores", [[0, 1, 3, 3], [5], [-4, -4], [2**70, 2**70 - 2, 0], np.array([250, 255, 253], "u1")]
)
def test_choices_have_their_laws(fits, scores):
    n, rate = 300, Fraction(1, 2)
    gaps = [int(max(scores)) - int(score) for score in scores]
    heads = [math.exp(-min(gap, 1000) * rate) for gap in gaps]
    source = SeededSource("choices", len(scores), gaps[0])
    chosen = np.bincount([permute_and_flip(source, scores, rate) for _ in range(n)], minlength=len(gaps))
    assert fits(chosen, all_at_once(heads), n) > FALSE_ALARM
    chosen = np.bincount([exponential_mechanism(source, scores, rate) for _ in range(n // 4)], minlength=len(gaps))
    assert fits(chosen, [p / sum(heads) for p in heads], n // 4) > FALSE_ALARM


@pytest.mark.chosen("permute")
@pytest.mark.parametrize("choose", [permute_and_flip, exponential_mechanism])
def test_without_a_rate_all_are_equally_likely(fits, choose):
    source = SeededSource("uniform")
    chosen = np.bincount([choose(source, [0, 10**9, -5], 0) for _ in range(2_000)], minlength=3)
    assert fits(chosen, [1 / 3] * 3, 2_000) > FALSE_ALARM


@pytest.mark.parametrize("choose", [permute_and_flip, exponential_mechanism])
@pytest.mark.parametrize("dtype", [np.int64, np.uint64, object])
def test_the_only_good_candidate_is_found_among_many(choose, dtype):
    scores = np.zeros(20_000 if dtype == np.int64 else 500, dtype)
    scores[123] = 1_000
    assert choose(SecureSource(), scores, 1) == 123


@pytest.mark.parametrize("choose", [permute_and_flip, exponential_mechanism])
def test_scores_at_both_ends_of_int64(choose):
    ends = np.array([-(2**63), 2**63 - 1, 2**63 - 1 - 2**60])
    assert choose(SecureSource(), ends, Fraction(1, 2**40)) == 1
    # The smallest gap beyond int64 is 2**63: it must not turn negative.
    assert choose(SecureSource(), np.array([-1, 2**63 - 1]), Fraction(1, 2**50)) == 1


@pytest.mark.parametrize("choose", [permute_and_flip, exponential_mechanism])
@pytest.mark.parametrize(
    ("scores", "rate", "error", "name"),
    [
        ([], 1, ValueError, "scores"),
        ([[1, 2]], 1, ValueError, "scores"),
        ([1.0, 2.0], 1, TypeError, "scores"),
        ([True, False], 1, TypeError, "scores"),
        ([1, 2], -1, ValueError, "rate"),
        ([1, 2], 0.5, TypeError, "rate"),
    ],
)
def test_bad_parameters_are_refused_before_any_draw(scripted_source, choose, scores, rate, error, name):
    with pytest.raises(error, match=name):
        choose(scripted_source(), scores, rate)
