"""Attack on a synthetic table: distinguish its training rows from other rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import binomtest
from sklearn.metrics import pairwise_distances_argmin_min, roc_auc_score, roc_curve

from skdp._arrays import Floats
from skdp.base import TableLike, draw_seed, on_one_thread
from skdp.evaluation._attribute_inference import code_column
from skdp.metrics import parse_columns
from skdp.privacy import PrivacyGuarantee


@dataclass(frozen=True)
class MembershipResult:
    """Advantage of an attack that distinguishes members of a table from other rows."""

    auc: float
    advantage: float
    advantage_lower: float
    advantage_upper: float
    advantage_bound: float


@on_one_thread
def membership_inference(
    synthetic: TableLike,
    members: TableLike,
    non_members: TableLike,
    *,
    guarantee: PrivacyGuarantee | None = None,
    random_state: int | None = None,
) -> MembershipResult:
    """Measure how well the training rows of a synthesizer are distinguished from other rows.

    Rows that are close to a synthetic row are classified as members.

    Parameters
    ----------
    synthetic : dataframe or array-like of shape (n_synthetic, n_columns)
        Synthetic rows.
    members : dataframe or array-like of shape (n_members, n_columns)
        Rows that the synthesizer was fitted on; at least two.
    non_members : dataframe or array-like of shape (n_non_members, n_columns)
        Rows of the same population that the synthesizer was not fitted on; at least two.
    guarantee : PrivacyGuarantee, default=None
        Guarantee of the synthetic rows, such as ``synthesizer.guarantee_``.
    random_state : int, default=None
        Seed of the split of the rows into two halves.

    Returns
    -------
    MembershipResult
        Result with the attributes

        - ``auc``: probability that a member is closer to a synthetic row than a
          non-member, with ties counted as 1/2; 0.5 for an attack without success;
        - ``advantage``, ``advantage_lower``, ``advantage_upper``: true positive rate
          minus false positive rate, with a 95 % interval from the Clopper-Pearson
          intervals of both rates. The threshold is chosen on one half of the rows, and
          the rates are measured on the other half;
        - ``advantage_bound``: largest expected advantage under the guarantee; nan if
          `guarantee` is None.

    Raises
    ------
    TypeError, ValueError
        If the tables have different columns or too few rows, or a parameter is invalid.

    Notes
    -----
    **Privacy.** The result depends on true rows and is not private. Use it for
    experiments on data that are not sensitive.

    Rows are compared by Gower's distance [1]_: the sum over columns of 1 for different
    categories, and of the difference of two numbers divided by the range.

    **The bound** is ``(e^epsilon - 1 + 2 delta) / (e^epsilon + 1)`` [2]_, with the
    epsilon for the replacement of a record. It holds on average over rows and noise if
    members and non-members are independent rows of the same population. A small
    advantage does not prove privacy, because other attacks may succeed.

    References
    ----------
    .. [1] J. Gower (1971). A general coefficient of similarity and some of its
       properties. Biometrics 27(4).
    .. [2] T. Humphries et al. (2023). Investigating membership inference attacks under
       data dependencies. IEEE CSF.

    Examples
    --------
    A copy of the table reveals its members:

    >>> import numpy as np
    >>> import pandas as pd
    >>> from skdp.evaluation import membership_inference
    >>> rng = np.random.default_rng(0)
    >>> rows = pd.DataFrame(
    ...     {"age": rng.normal(40, 10, 400), "job": rng.choice(["a", "b"], 400)}
    ... )
    >>> result = membership_inference(rows[:200], rows[:200], rows[200:])
    >>> round(result.auc, 2), round(result.advantage, 2)
    (1.0, 1.0)
    """
    bound = _bound_advantage(guarantee)
    member_scores, other_scores = _score_proximity(synthetic, members, non_members)
    n_members, n_others = len(member_scores), len(other_scores)
    if min(n_members, n_others) < 2:
        raise ValueError(
            "`members` and `non_members` must have at least two rows each, got "
            f"{n_members} and {n_others}."
        )
    is_member = np.repeat([True, False], [n_members, n_others])
    scores = np.concatenate([member_scores, other_scores])
    seed = draw_seed(random_state)
    advantage, lower, upper = _measure_advantage(member_scores, other_scores, seed)
    return MembershipResult(
        auc=float(roc_auc_score(is_member, scores)),
        advantage=advantage,
        advantage_lower=lower,
        advantage_upper=upper,
        advantage_bound=bound,
    )


def _measure_advantage(
    member_scores: Floats, other_scores: Floats, seed: int | None
) -> tuple[float, float, float]:
    """Return the true minus the false positive rate of an attack, and its 95 % interval.

    `member_scores` are the scores of rows of the training table, and `other_scores` of other rows. Rows with scores at
    or above a threshold are classified as members.
    """
    # The threshold is chosen on one half of the rows and evaluated on the other half,
    # because its advantage on the first half is biased upward.
    rng = np.random.default_rng(seed)
    chosen_members, tested_members = np.array_split(rng.permutation(member_scores), 2)
    chosen_others, tested_others = np.array_split(rng.permutation(other_scores), 2)
    scores = np.concatenate([chosen_members, chosen_others])
    is_member = np.arange(len(scores)) < len(chosen_members)
    false_positives, true_positives, thresholds = roc_curve(
        is_member, scores, drop_intermediate=False
    )
    threshold = thresholds[np.argmax(true_positives - false_positives)]
    rates, intervals = [], []
    for scores in (tested_members, tested_others):
        test = binomtest(int((scores >= threshold).sum()), scores.size)
        rates.append(float(test.statistic))
        # Each of the two rates gets half of the error probability of 5 %.
        intervals.append(test.proportion_ci(0.975))
    true, false = intervals
    return rates[0] - rates[1], true.low - false.high, true.high - false.low


def _bound_advantage(guarantee: Any) -> float:
    """Return the largest expected advantage of any membership attack; nan without a guarantee."""
    if guarantee is None:
        return math.nan
    if not isinstance(guarantee, PrivacyGuarantee):
        raise TypeError(
            f"`guarantee` must be a PrivacyGuarantee, got {type(guarantee).__name__}."
        )
    # The bound of an attack on one row is for the replacement of the row.
    replaced = guarantee.to("replace")
    # Humphries et al. (2023): (e^epsilon - 1 + 2 delta) / (e^epsilon + 1). Numerator and
    # denominator are divided by e^epsilon, which may be infinite.
    inverse = math.exp(-replaced.epsilon)
    return min(1.0, (1 - inverse + 2 * replaced.delta * inverse) / (1 + inverse))


def _score_proximity(
    synthetic: Any, members: Any, non_members: Any
) -> tuple[Floats, Floats]:
    """Score members and non-members by the negative distance to the nearest synthetic row; each of shape (n_rows,).

    The distance is Gower's distance over all columns.
    """
    tables = {"synthetic": synthetic, "members": members, "non_members": non_members}
    parsed = {label: parse_columns(table, label) for label, table in tables.items()}
    names = list(parsed["synthetic"])
    for label, columns in parsed.items():
        if {*columns} != {*names}:
            raise ValueError(
                f"`{label}` must have the columns of synthetic, {names}, got "
                f"{list(columns)}."
            )
    # Coordinates of a column are computed for all tables together, so that codes and
    # ranges are the same; shape (n_synthetic + n_members + n_non_members, n_coordinates).
    coordinates = []
    for name in names:
        parts = [columns[name] for columns in parsed.values()]
        coordinates.append(_embed_column(pd.concat(parts, ignore_index=True)))
    points = np.column_stack(coordinates)
    n_synthetic = len(parsed["synthetic"][names[0]])
    n_members = len(parsed["members"][names[0]])
    _, distances = pairwise_distances_argmin_min(
        points[n_synthetic:], points[:n_synthetic], metric="manhattan"
    )
    return -distances[:n_members], -distances[n_members:]


def _embed_column(column: pd.Series) -> Floats:
    """Return coordinates whose Manhattan distance is Gower's distance; shape (n_rows, n_coordinates).

    Different categories have distance 1, and numbers their difference divided by the range.
    """
    coded = code_column(column)
    if isinstance(coded.dtype, pd.CategoricalDtype):
        # Two rows with different categories differ by 1/2 in two indicators.
        codes = coded.cat.codes.to_numpy() + 1
        return (codes[:, np.newaxis] == np.unique(codes)) / 2
    # Infinite numbers are clipped to the range of the finite numbers.
    numbers = coded.to_numpy(float)
    finite = numbers[np.isfinite(numbers)]
    low, high = (finite.min(), finite.max()) if finite.size else (0.0, 0.0)
    scaled = (np.clip(numbers, low, high) - low) / (high - low or 1.0)
    is_missing = np.isnan(numbers)
    return np.column_stack([np.where(is_missing, 0, scaled), is_missing])
