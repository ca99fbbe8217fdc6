"""How well scores tell one value from the others: what accuracy does not show of rare values."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata

from skdp.evaluation.attacks._attacker import Outcome
from skdp.metrics.fairness import proportion
from skdp.oracles import FrequencyOracle
from skdp.randomness import SecureSource, SeededSource

MEASURES = ("auc", "lift", "tpr_at_1pct", "tpr_at_01pct")
_TOP = 0.01  # the share of the rows of `lift`
_FALSE_POSITIVES = (0.01, 0.001)
_LEVEL = 0.95

Numbers = NDArray[np.float64]


def rank_measures(
    scores: Numbers, positive: Numbers, negative: Numbers
) -> tuple[float, ...]:
    """Return the `MEASURES` of scores, given the masses with the value and with others; nan if there is none."""
    share = positive.sum() / (positive.sum() + negative.sum())
    if not 0 < share < 1:
        return (np.nan,) * len(MEASURES)
    # The ROC curve; within equal scores the order is random: a line between the ends.
    _, rank = np.unique(-np.round(scores, 12), return_inverse=True)
    tpr = np.cumsum(np.bincount(rank, positive), dtype=float)
    fpr = np.cumsum(np.bincount(rank, negative), dtype=float)
    tpr = np.concatenate([[0.0], tpr]) / tpr[-1]
    fpr = np.concatenate([[0.0], fpr]) / fpr[-1]
    top = np.interp(_TOP, share * tpr + (1 - share) * fpr, tpr)
    # With no false positive yet, the largest number of true ones counts.
    tpr_at_zero = tpr[fpr <= 0].max()
    rates = [max(np.interp(rate, fpr, tpr), tpr_at_zero) for rate in _FALSE_POSITIVES]
    return float(np.trapezoid(tpr, fpr)), float(top / _TOP), *map(float, rates)


def value_table(truth: NDArray[np.intp], outcome: Outcome) -> pd.DataFrame:
    """Measure the guesses and the scores of an attack, value by value, with intervals over the draw of the rows."""
    n = len(truth)
    n_values = truth.max() + 1
    n_rows = np.bincount(truth, minlength=n_values)
    n_guessed = np.bincount(outcome.guesses, minlength=n_values)
    is_right = truth == outcome.guesses
    n_hits = np.bincount(truth[is_right], minlength=n_values)
    names = ["share", "precision", "recall", *MEASURES, "auc_lower", "auc_upper"]
    table = pd.DataFrame(np.nan, index=range(n_values), columns=names)
    if outcome.scores is not None:
        for code, scores in enumerate(np.round(outcome.scores, 12).T):
            is_value = truth == code
            positive, negative = is_value.astype(float), (~is_value).astype(float)
            measures = rank_measures(scores, positive, negative)
            ends = area_interval(scores[is_value], scores[~is_value])
            table.loc[code, [*MEASURES, *names[-2:]]] = *measures, *ends
    table["share"] = n_rows / n
    precision = proportion(n_hits, n_guessed, _LEVEL)
    recall = proportion(n_hits, n_rows, _LEVEL)
    table["precision"], table["recall"] = precision.value, recall.value
    # Of the first rows, the share that has the value; lift is a multiple of that of all.
    n_first = table["lift"] * _TOP * n_rows
    lift = proportion(n_first, _TOP * n, _LEVEL)
    estimates = {"precision": precision, "recall": recall, "lift": lift}
    for name, estimate in estimates.items():
        scale = n / n_rows if name == "lift" else 1
        table[f"{name}_lower"] = estimate.lower * scale
        table[f"{name}_upper"] = estimate.upper * scale
    return table


def best_of_report(
    oracle: FrequencyOracle, prior: Numbers, rate: float, seed: int | None
) -> tuple[float, Numbers]:
    """Return the accuracy of the best guess from a report, which is made at a rate, and each value's `auc`."""
    # A larger channel takes more time than drawing reports.
    if oracle.shows_hash or oracle.k * oracle.n_reports > 1 << 16:
        joint = _drawn_joint(oracle, prior, seed)
    else:
        channel = [list(map(float, row)) for row in oracle.channel()]
        joint = np.array(channel).T * prior  # (n_reports, k)
    joint = np.concatenate([rate * joint, (1 - rate) * prior[np.newaxis]])
    total = joint.sum(axis=1)
    posterior = joint / np.where(total > 0, total, 1)[:, np.newaxis]
    areas = []
    for scores, mass in zip(posterior.T, joint.T, strict=True):
        areas.append(rank_measures(scores, mass, total - mass)[0])
    exact = oracle.guess_accuracy(prior)
    accuracy = float(joint.max(axis=1).sum())
    if exact is not None:
        accuracy = float(rate * exact + (1 - rate) * prior.max())
    return accuracy, np.array(areas)


def _drawn_joint(oracle: FrequencyOracle, prior: Numbers, seed: int | None) -> Numbers:
    """Draw reports of values that are as frequent as the prior says, and return their joint probabilities."""
    # Ten thousand, for an error of .005; fewer of so many values that memory is short.
    n_draws = max(100, min(10_000, (1 << 24) // oracle.k))
    ends = np.rint(np.cumsum(prior) * n_draws).astype(int)
    codes = np.repeat(np.arange(oracle.k), np.diff(ends, prepend=0)).astype(np.uint32)
    source = SecureSource() if seed is None else SeededSource(seed)
    reports = oracle.report(codes, source)
    ratio = float(oracle.support_ratio)
    likelihoods = np.where(oracle.supports(reports), ratio, 1.0)
    joint = likelihoods * prior
    # Each draw has the same weight, whatever its likelihoods are multiples of.
    weights = np.full(len(codes), 1 / len(codes))
    joint *= (weights / joint.sum(axis=1))[:, np.newaxis]
    return joint


def area(inside: ArrayLike, outside: ArrayLike) -> tuple[float, float]:
    """Return the area under the ROC curve and its standard error by DeLong."""
    # E. DeLong, D. DeLong, D. Clarke-Pearson (1988). Comparing the areas under two or
    # more correlated receiver operating characteristic curves: a nonparametric approach.
    # Biometrics 44(3).
    below, above = _shares_below(inside, outside)
    variance = below.var(ddof=1) / below.size + above.var(ddof=1) / above.size
    return float(below.mean()), math.sqrt(variance)


def area_interval(inside: ArrayLike, outside: ArrayLike) -> tuple[float, float]:
    """Return an interval for the area under the ROC curve: Wilson's, for the rows that DeLong's error implies."""
    # Of few rows DeLong's variance is too small, and 0 if they are ranked alike: three
    # more are added to each group, of the variance of one that is above all others, or
    # below. In 48 simulations with 5 to 200 rows inside, 500 or 800 outside, and areas
    # from .5 to .995, .90 to 1 of the intervals held the truth, .96 on average; of value
    # ± 1.96 standard errors, .43 to .98.
    parts = _shares_below(inside, outside)
    auc = parts[0].mean()
    n_few = min(part.size for part in parts)
    centre = (n_few * auc + 1) / (n_few + 2)
    largest = centre * (1 - centre)
    variance = 0.0
    delong = 0.0
    for part in parts:
        squares = ((part - part.mean()) ** 2).sum()
        variance += (squares + 3 * largest) / (part.size + 2) / part.size
        delong += squares / max(part.size - 1, 1) / part.size
    n = largest / variance
    if delong > 0:
        n = min(n, auc * (1 - auc) / delong)
    interval = proportion(auc * n, n, _LEVEL)
    return float(interval.lower), float(interval.upper)


def _shares_below(inside: ArrayLike, outside: ArrayLike) -> tuple[Numbers, Numbers]:
    """Return the share of the others below each score of the inside, and of the inside above each of the others."""
    members, outsiders = np.asarray(inside, float), np.asarray(outside, float)
    ranks = rankdata(np.concatenate([members, outsiders]))
    n_below = ranks[: members.size] - rankdata(members)
    n_not_above = ranks[members.size :] - rankdata(outsiders)
    return n_below / outsiders.size, 1 - n_not_above / members.size
