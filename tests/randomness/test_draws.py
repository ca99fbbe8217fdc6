import math
from collections import Counter
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from skdp.randomness import SecureSource, SeededSource, exponential_mechanism, permute_and_flip, unimodal_choice

FALSE_ALARM = 1e-6


def all_at_once(heads):
    """Return the distribution of a uniform choice among all heads, which equals the first heads in random order."""
    pmf = [0] * len(heads)
    for coins in product([0, 1], repeat=len(heads)):
        probability = math.prod(p if coin else 1 - p for p, coin in zip(heads, coins, strict=True))
        for candidate, coin in enumerate(coins):
            pmf[candidate] += coin * probability / max(1, sum(coins))
    return pmf


@pytest.mark.parametrize(
    "scores",
    [[0, 1, 3, 3], [5], [-4, -4], [2**70, 2**70 - 2, 0], np.array([-1, 2**63 - 1]), np.array([250, 255, 253], "u1")],
)
def test_choices_follow_their_distributions(fits, scores):
    n, rate = 300, Fraction(1, 2)
    gaps = [int(max(scores)) - int(score) for score in scores]
    heads = [math.exp(-min(gap, 1000) * rate) for gap in gaps]
    source = SeededSource("choices", len(scores), gaps[0])
    chosen = np.bincount([permute_and_flip(source, scores, rate) for _ in range(n)], minlength=len(gaps))
    assert fits(chosen, all_at_once(heads), n) > FALSE_ALARM
    chosen = np.bincount([exponential_mechanism(source, scores, rate) for _ in range(n // 4)], minlength=len(gaps))
    assert fits(chosen, [p / sum(heads) for p in heads], n // 4) > FALSE_ALARM


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
def test_invalid_parameters_raise_before_drawing(scripted_source, choose, scores, rate, error, name):
    with pytest.raises(error, match=name):
        choose(scripted_source(), scores, rate)


@pytest.mark.parametrize("rate", [Fraction(1, 2), Fraction(693, 1000), Fraction(1, 50)], ids=str)
def test_unimodal_choice_draws_candidates_by_their_scores(monkeypatch, rate):
    """Enumerate all drawn positions: a candidate has a power of 2 of them, which its coin reduces to its weight."""
    gaps, taken = [9, 4, 4, 1, 0, 0, 2, 7], []

    def within(fars):
        inside = [[index for index, gap in enumerate(gaps) if gap <= far] for far in fars]
        return [(indices[0], indices[-1] + 1) for indices in inside]

    class Coin:
        def __init__(self, source, value, bits):
            assert value == 0
            self.band = bits

        def extend(self):
            """Draw no bits, because `is_below` does not compare them."""

        def is_below(self, bounds):
            taken.append((self.band, bounds.args[0]))
            return True

    monkeypatch.setattr(f"{unimodal_choice.__module__}.Uniform", Coin)
    counts, place, size = Counter(), 0, 1
    while place < size:

        def below(source, bounds, place=place):
            nonlocal size
            size = int(bounds[0])
            return [place]

        monkeypatch.setattr(f"{unimodal_choice.__module__}.uniform_below", below)
        index = unimodal_choice(None, len(gaps), within, gaps.__getitem__, rate)
        band, exponent = taken[-1]
        assert exponent == gaps[index] * rate
        assert band * math.log(2) <= exponent < (band + 1) * math.log(2) + 0.01
        counts[index, band] += 1
        place += 1
    last = max(band for _, band in counts)
    assert sorted(index for index, _ in counts) == list(range(len(gaps)))
    assert all(count == 1 << last - band for (_, band), count in counts.items())


def test_unimodal_choice_supports_more_candidates_than_words():
    def within(fars):
        return [(max(10**30 - far, 0), 10**30 + far + 1) for far in fars]

    found = unimodal_choice(SecureSource(), 10**40, within, lambda index: abs(index - 10**30), Fraction(1, 10**9))
    assert abs(found - 10**30) < 10**11
    with pytest.raises(ValueError, match="rate"):
        unimodal_choice(None, 10**40, within, None, 0)
