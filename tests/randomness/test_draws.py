import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from skdp.randomness import (
    SeededSource,
    exponential_mechanism,
    permute_and_flip,
    piecewise_choices,
    uniform_integers,
)

FALSE_ALARM = 1e-6
SOURCE = SeededSource(7)


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


GAPS = [[5, 0, 2], [10**30, 10**30 + 1, 7 * 10**30], [4]]


@pytest.mark.parametrize("rate", [Fraction(1, 2), Fraction(1, 10**30), Fraction(3)], ids=str)
def test_piecewise_choices_accept_candidates_by_their_exact_weights(monkeypatch, rate):
    """The probability of a proposal times the probability of its acceptance is proportional to the weight."""
    sizes = [[3, 10**28, 1], [1, 2, 2**90], [1, 0, 0]]
    bounds = np.zeros((3, 3))
    for choice, gaps in enumerate(GAPS):
        for piece, gap in enumerate(gaps):
            bounds[choice, piece] = sizes[choice][piece] * math.exp(-min(rate * (gap - min(gaps)), 700))
    products, words, n_pieces = {}, [], []

    def below(source, totals):
        words.append(totals)
        return np.array([int(rng.integers(int(total))) for total in totals])

    def accept(source, rounded, bounds_of, errors):
        for index, (choice, piece) in enumerate(n_pieces[-1]):
            low, high = (Fraction(x, 1 << 200) for x in bounds_of(index)(200))
            assert low <= high <= 1 + Fraction(1, 1 << 190)
            assert math.exp(-rounded[index]) == pytest.approx(float(low), rel=1e-9, abs=1e-300)
            products.setdefault(choice, {})[piece] = low, high
        return np.ones(len(rounded), bool)

    def draw(choices, pieces):
        n_pieces.append([*zip(choices.tolist(), pieces.tolist(), strict=True)])
        least = [GAPS[choice][piece] - min(GAPS[choice]) for choice, piece in n_pieces[-1]]
        return pieces.tolist(), least, [sizes[choice][piece] for choice, piece in n_pieces[-1]]

    rng = np.random.default_rng(0)
    module = piecewise_choices.__module__
    monkeypatch.setattr(f"{module}.uniform_below", below)
    monkeypatch.setattr(f"{module}.bernoulli_of_exponents", accept)
    for _ in range(60):
        piecewise_choices(None, bounds, draw, [rate] * 3)
    monkeypatch.undo()
    units = bounds.sum(axis=1) * 2.0**-50
    for choice, found in products.items():
        for piece, (low, high) in found.items():
            weight = math.floor(bounds[choice, piece] / units[choice] * (1 + 2.0**-40)) + 1
            scaled = [float(x * weight * Fraction(units[choice])) for x in (low, high)]
            exact = sizes[choice][piece] * math.exp(-rate * (GAPS[choice][piece] - min(GAPS[choice])))
            assert scaled == pytest.approx([exact, exact], rel=1e-12)


def test_piecewise_choices_follow_their_distribution(fits):
    """Pieces with bounds that are far above some weights."""
    gaps = [[0, 3, 1, 9], [2, 2, 0, 1]]
    rate, n = Fraction(2, 3), 4_000
    bounds = np.array([[2.0, 2 * math.exp(-2 / 3)], [2.0, 2.0]] * (n // 2))

    def draw(choices, pieces):
        candidates = 2 * pieces + uniform_integers(SOURCE, 2, len(pieces))
        found = [gaps[choice % 2][x] for choice, x in zip(choices, candidates.tolist(), strict=True)]
        return candidates.tolist(), found, [2] * len(pieces)

    chosen = np.array(piecewise_choices(SOURCE, bounds, draw, [rate] * n))
    for choice, of_choice in enumerate(gaps):
        weights = np.exp([-float(rate) * gap for gap in of_choice])
        counts = np.bincount(chosen[choice::2], minlength=4)
        assert fits(counts, weights / weights.sum(), n // 2) > FALSE_ALARM
