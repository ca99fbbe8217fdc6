"""How well scores tell one value from the others: what accuracy does not show of rare values."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.evaluation.attacks._attacker import Outcome
from skdp.oracles import FrequencyOracle
from skdp.randomness import SecureSource, SeededSource

MEASURES = ("auc", "lift", "tpr_at_1pct", "tpr_at_01pct")
_TOP, _FALSE_POSITIVES = 0.01, (0.01, 0.001)
_MOST_ENTRIES, _MOST_DRAWS = 1 << 16, 10_000

Numbers = NDArray[np.float64]


def rank_measures(scores: Numbers, positive: Numbers, negative: Numbers) -> tuple[float, ...]:
    """Return the `MEASURES` of scores, given the masses with the value and with others; nan if there is none."""
    share = positive.sum() / (positive.sum() + negative.sum())
    if not 0 < share < 1:
        return (np.nan,) * len(MEASURES)
    # Within equal scores the order is random: a line between the ends.
    _, place = np.unique(-np.round(scores, 12), return_inverse=True)
    found, wrong = (np.concatenate([[0.0], np.cumsum(np.bincount(place, mass))]) for mass in (positive, negative))
    found, wrong = found / found[-1], wrong / wrong[-1]
    top = np.interp(_TOP, share * found + (1 - share) * wrong, found)
    # With no false positive yet, the largest number of true ones counts.
    rates = (max(np.interp(rate, wrong, found), found[wrong <= 0].max()) for rate in _FALSE_POSITIVES)
    return float(np.trapezoid(found, wrong)), float(top / _TOP), *map(float, rates)


def value_table(truth: NDArray[np.intp], found: Outcome) -> pd.DataFrame:
    """Measure the guesses and the scores of an attack, value by value."""
    rows = []
    for code in range(truth.max() + 1):
        is_value, guessed = truth == code, found.guesses == code
        right = (is_value & guessed).sum()
        precision = right / guessed.sum() if guessed.any() else np.nan
        ranked = (np.nan,) * len(MEASURES)
        if found.scores is not None:
            ranked = rank_measures(found.scores[:, code], is_value.astype(float), (~is_value).astype(float))
        rows.append((is_value.mean(), precision, right / is_value.sum(), *ranked))
    return pd.DataFrame(rows, columns=["share", "precision", "recall", *MEASURES])


def best_of_report(oracle: FrequencyOracle, prior: Numbers, rate: float, seed: int | None) -> tuple[float, Numbers]:
    """Return the accuracy of the best guess from a report, which is made at a rate, and each value's `auc`."""
    if oracle.shows_hash or oracle.k * oracle.n_reports > _MOST_ENTRIES:
        likelihoods, weights = _drawn_likelihoods(oracle, prior, seed)
        joint = likelihoods * prior
        joint *= (weights / joint.sum(axis=1))[:, np.newaxis]
    else:
        joint = np.array([[float(share) for share in row] for row in oracle.channel()]).T * prior
    joint = np.concatenate([rate * joint, (1 - rate) * prior[np.newaxis]])
    total = joint.sum(axis=1)
    posterior = joint / np.where(total > 0, total, 1)[:, np.newaxis]
    areas = [rank_measures(scores, mass, total - mass)[0] for scores, mass in zip(posterior.T, joint.T, strict=True)]
    exact = oracle.guess_accuracy(prior)
    accuracy = float(joint.max(axis=1).sum()) if exact is None else rate * exact + (1 - rate) * prior.max()
    return float(accuracy), np.array(areas)


def _drawn_likelihoods(oracle: FrequencyOracle, prior: Numbers, seed: int | None) -> tuple[Numbers, Numbers]:
    """Draw reports of values that are as frequent as the prior says, and return their likelihoods up to factors."""
    n_draws = max(100, min(_MOST_DRAWS, (1 << 24) // oracle.k))
    ends = np.rint(np.cumsum(prior) * n_draws).astype(int)
    codes = np.repeat(np.arange(oracle.k), np.diff(ends, prepend=0)).astype(np.uint32)
    reports = oracle.report(codes, SecureSource() if seed is None else SeededSource(seed))
    likelihoods = np.where(oracle.supports(reports), float(oracle.support_ratio), 1.0)
    return likelihoods, np.full(len(codes), 1 / len(codes))
