"""Membership inference from a synthetic table."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import binomtest
from sklearn.metrics import pairwise_distances_argmin_min, roc_auc_score

from skdp.base import TableLike, draw_seed
from skdp.evaluation._attacks import code_column
from skdp.metrics import parse_columns
from skdp.privacy import PrivacyGuarantee

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class MembershipResult:
    """How well members of a table are distinguished from other rows."""

    auc: float
    advantage: float
    advantage_lower: float
    advantage_upper: float
    advantage_bound: float


def membership_inference(
    synthetic: TableLike,
    members: TableLike,
    non_members: TableLike,
    *,
    guarantee: PrivacyGuarantee | None = None,
    random_state: int | None = None,
) -> MembershipResult:
    """Distinguish the rows behind a synthetic table from other rows of the population.

    A row is more likely a member, the nearer the nearest synthetic row is.

    Parameters
    ----------
    synthetic : dataframe or array-like of shape (n_synthetic, n_columns)
        The synthetic rows.
    members : dataframe or array-like of shape (n_members, n_columns)
        Rows that the synthesizer was fitted on; at least two.
    non_members : dataframe or array-like of shape (n_non_members, n_columns)
        Rows of the same population that it was not fitted on; at least two.
    guarantee : PrivacyGuarantee, optional
        The guarantee of the rows, such as ``synthesizer.guarantee_``.
    random_state : int, optional
        Seed of the split into two halves.

    Returns
    -------
    MembershipResult
        The outcome, with the attributes

        - ``auc``: the probability that a member is nearer than a non-member, ties
          counted half; 0.5 if nothing is learned;
        - ``advantage``, ``advantage_lower``, ``advantage_upper``: the true positive
          rate minus the false positive rate, at the best threshold for one half of the
          rows, measured on the other half, with a 95 % interval from the
          Clopper-Pearson intervals of both rates;
        - ``advantage_bound``: the largest expected advantage under the guarantee; nan
          without one.

    Raises
    ------
    TypeError, ValueError
        If the tables have different columns or too few rows, or a parameter is not as
        described.

    Notes
    -----
    **Privacy.** The result depends on true rows and is not private. Use it for
    experiments on data that are not sensitive.

    The distance of Gower [1]_ is the sum over columns of 1 for different categories and
    of the difference of numbers divided by their range.

    **The bound** is ``(e^epsilon - 1 + 2 delta) / (e^epsilon + 1)`` [2]_, with the
    epsilon for the replacement of a record. It holds on average over rows and noise if
    members and non-members are independent rows of one population. An attack that fails
    proves nothing.

    References
    ----------
    .. [1] J. Gower (1971). A general coefficient of similarity and some of its
       properties. Biometrics 27(4).
    .. [2] T. Humphries et al. (2023). Investigating membership inference attacks under
       data dependencies. IEEE CSF.

    Examples
    --------
    A copy of the table reveals its members:

    >>> rng = np.random.default_rng(0)
    >>> rows = pd.DataFrame(
    ...     {"age": rng.normal(40, 10, 400), "job": rng.choice(["a", "b"], 400)}
    ... )
    >>> result = membership_inference(rows[:200], rows[:200], rows[200:])
    >>> round(result.auc, 2), round(result.advantage, 2)
    (1.0, 1.0)
    """
    bound = _advantage_bound(guarantee)
    inside, outside = _nearness(synthetic, members, non_members)
    if min(len(inside), len(outside)) < 2:
        raise ValueError("members and non_members must have at least two rows each")
    is_member = np.repeat([True, False], [len(inside), len(outside)])
    seed = draw_seed(random_state)
    advantage, lower, upper = _measure_advantage(inside, outside, seed)
    return MembershipResult(
        auc=float(roc_auc_score(is_member, np.concatenate([inside, outside]))),
        advantage=advantage,
        advantage_lower=lower,
        advantage_upper=upper,
        advantage_bound=bound,
    )


def _measure_advantage(
    inside: Numbers, outside: Numbers, seed: int | None
) -> tuple[float, float, float]:
    """Choose a threshold on half of the rows; measure the difference of the rates on the other half."""
    # A threshold that was chosen on the tested rows would look better than it is.
    rng = np.random.default_rng(seed)
    members_chosen, members_tested = np.array_split(rng.permutation(inside), 2)
    others_chosen, others_tested = np.array_split(rng.permutation(outside), 2)
    candidates = np.unique(np.concatenate([members_chosen, others_chosen]))
    gains = _rates(members_chosen, candidates) - _rates(others_chosen, candidates)
    threshold = candidates[np.argmax(gains)]
    rates, intervals = [], []
    for scores in (members_tested, others_tested):
        test = binomtest(int((scores >= threshold).sum()), scores.size)
        rates.append(test.statistic)
        # Each of the two rates gets half of the error probability of 5 %.
        intervals.append(test.proportion_ci(0.975))
    true, false = intervals
    return rates[0] - rates[1], true.low - false.high, true.high - false.low


def _rates(scores: Numbers, thresholds: Numbers) -> Numbers:
    """Return the proportion of scores at or above each threshold."""
    return 1 - np.searchsorted(np.sort(scores), thresholds) / scores.size


def _advantage_bound(guarantee: Any) -> float:
    """Return the largest expected advantage; nan without a guarantee."""
    if guarantee is None:
        return math.nan
    if not isinstance(guarantee, PrivacyGuarantee):
        raise TypeError(
            f"guarantee must be a PrivacyGuarantee, got {type(guarantee).__name__}"
        )
    replaced = guarantee.to("replace")
    # (e^epsilon - 1 + 2 delta) / (e^epsilon + 1), divided by e^epsilon, which may be
    # infinite.
    inverse = math.exp(-replaced.epsilon)
    return min(1.0, (1 - inverse + 2 * replaced.delta * inverse) / (1 + inverse))


def _nearness(
    synthetic: Any, members: Any, non_members: Any
) -> tuple[Numbers, Numbers]:
    """Score rows by the negative distance to the nearest synthetic row."""
    tables = {"synthetic": synthetic, "members": members, "non_members": non_members}
    read = {label: parse_columns(table, label) for label, table in tables.items()}
    names = list(read["synthetic"])
    for label, columns in read.items():
        if {*columns} != {*names}:
            raise ValueError(
                f"{label} must have the columns of synthetic, {names}, got "
                f"{list(columns)}"
            )
    coordinates = []
    for name in names:
        parts = [columns[name] for columns in read.values()]
        coordinates.append(_coordinates(pd.concat(parts, ignore_index=True)))
    # (n_synthetic + n_members + n_non_members, n_coordinates)
    points = np.column_stack(coordinates)
    n_synthetic, n_members, _ = (len(columns[names[0]]) for columns in read.values())
    _, distances = pairwise_distances_argmin_min(
        points[n_synthetic:], points[:n_synthetic], metric="manhattan"
    )
    return -distances[:n_members], -distances[n_members:]


def _coordinates(column: pd.Series) -> Numbers:
    """Return coordinates in which different categories have distance 1, and numbers are scaled by their range."""
    coded = code_column(column)
    if isinstance(coded.dtype, pd.CategoricalDtype):
        codes = coded.cat.codes.to_numpy() + 1
        return (codes[:, np.newaxis] == np.unique(codes)) / 2
    numbers = coded.to_numpy(float)
    finite = numbers[np.isfinite(numbers)]
    low, high = (finite.min(), finite.max()) if finite.size else (0.0, 0.0)
    scaled = (np.clip(numbers, low, high) - low) / (high - low or 1.0)
    is_missing = np.isnan(numbers)
    return np.column_stack([np.where(is_missing, 0, scaled), is_missing])
