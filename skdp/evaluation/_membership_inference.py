"""Membership inference from a synthetic table."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.metrics import pairwise_distances_argmin_min

from skdp.base import (
    TableLike,
    check_choice,
    check_confidence_level,
    draw_seed,
)
from skdp.evaluation._attacker import area, code_column, read_columns
from skdp.evaluation._common import result_facts
from skdp.evaluation.audits import clopper_pearson
from skdp.markup import html_facts
from skdp.privacy import PrivacyGuarantee
from skdp.synthesis import DPMarginalSynthesizer

Method = Literal["nearest", "likelihood"]
_METHODS: tuple[str, ...] = get_args(Method)
Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class MembershipResult:
    """How well members of a table are distinguished from non-members."""

    method: str
    auc: float
    auc_lower: float
    auc_upper: float
    advantage: float
    advantage_lower: float
    advantage_upper: float
    advantage_bound: float
    n_members: int
    n_non_members: int

    def _repr_html_(self) -> str:
        note = "In brackets: the intervals. Computed from true rows: not private."
        return html_facts("Membership inference", result_facts(self), note)


def membership_inference(
    synthetic: TableLike | None,
    members: TableLike,
    non_members: TableLike,
    *,
    method: Method = "nearest",
    synthesizer: DPMarginalSynthesizer | None = None,
    guarantee: PrivacyGuarantee | None = None,
    confidence_level: float = 0.95,
    random_state: int | None = None,
) -> MembershipResult:
    """Attack a synthetic table: distinguish rows of the real table from other rows of the population.

    Parameters
    ----------
    synthetic : dataframe or array-like of shape (n_synthetic, n_columns)
        The synthetic rows; may be None for the likelihood test.
    members : dataframe or array-like of shape (n_members, n_columns)
        Rows that the synthesizer was fitted on; at least two.
    non_members : dataframe or array-like of shape (n_non_members, n_columns)
        Rows of the same population that it was not fitted on; at least two.
    method : {"nearest", "likelihood"}, default="nearest"
        ``"nearest"`` scores a row by its distance to the nearest synthetic one: the sum over columns of 1 for different
        values, and of the difference in units of the range for numbers ([1]_). ``"likelihood"`` scores a row by its
        log-likelihood under the fitted model, `score_samples` of `synthesizer`.
    synthesizer : fitted DPMarginalSynthesizer, optional
        Needed for the likelihood test. Its `guarantee_` gives the bound, unless `guarantee` is given.
    guarantee : PrivacyGuarantee, optional
        The guarantee of the rows of the real table, for the bound.
    confidence_level : float, default=0.95
        Coverage of each interval, between 0 and 1.
    random_state : int, optional
        For the split into two halves.

    Returns
    -------
    MembershipResult
        The outcome, with the attributes

        - ``auc``, ``auc_lower``, ``auc_upper``: the probability that a member has a higher score than a non-member,
          ties counted half, and its interval, Wilson's for the rows that DeLong's standard error implies; 0.5 is a
          blind guess;
        - ``advantage``, ``advantage_lower``, ``advantage_upper``: the true positive rate less the false positive rate,
          at the best threshold for one half of the rows, measured on the other half, and its interval, from those of
          both rates by Clopper and Pearson;
        - ``advantage_bound``: the largest expected advantage under the guarantee; nan without one;
        - ``n_members``, ``n_non_members``, ``method``.

    Raises
    ------
    TypeError, ValueError
        If the tables have different columns or too few rows, or a parameter is not as described.

    Notes
    -----
    **Privacy.** The result depends on true rows and is not protected: it is for data that is not sensitive.

    **The bound** is ``(e^epsilon - 1 + 2 delta) / (e^epsilon + 1)`` ([2]_), with the epsilon for the replacement of a
    record. It holds for every test, on average over the rows and the noise, if members and non-members are independent
    rows of one population. A single release can be above it by chance, and a test that fails proves nothing. The
    intervals are over the draw of members and non-members, for this one release.

    References
    ----------
    .. [1] J. Gower (1971). A general coefficient of similarity and some of its properties. Biometrics 27(4).
    .. [2] T. Humphries et al. (2023). Investigating membership inference attacks under data dependencies. IEEE CSF.

    Examples
    --------
    A table that is its own synthetic one:

    >>> rng = np.random.default_rng(0)
    >>> rows = pd.DataFrame({"age": rng.normal(40, 10, 400), "job": rng.choice(["a", "b"], 400)})
    >>> result = membership_inference(rows[:200], rows[:200], rows[200:], random_state=0)
    >>> round(result.auc, 2), round(result.advantage, 2)
    (1.0, 1.0)
    """
    level = check_confidence_level(confidence_level)
    random_state = draw_seed(random_state)
    check_choice("method", method, _METHODS)
    bound = _advantage_bound(guarantee, synthesizer)
    if method == "nearest":
        inside, outside = _by_distance(synthetic, members, non_members)
    else:
        inside, outside = _by_likelihood(synthesizer, members, non_members)
    if min(len(inside), len(outside)) < 2:
        raise ValueError("members and non_members must have at least two rows each")
    auc, auc_lower, auc_upper = area(inside, outside, level)
    difference, lower, upper = advantage(
        inside, outside, level=level, seed=random_state
    )
    return MembershipResult(
        method=method,
        auc=auc,
        auc_lower=auc_lower,
        auc_upper=auc_upper,
        advantage=difference,
        advantage_lower=lower,
        advantage_upper=upper,
        advantage_bound=bound,
        n_members=len(inside),
        n_non_members=len(outside),
    )


def advantage(
    inside: Numbers, outside: Numbers, *, level: float, seed: int | None
) -> tuple[float, float, float]:
    """Choose a threshold on one half of the rows; measure the difference of the rates on the other."""
    # A threshold that was chosen on the tested rows would look better than it is.
    rng = np.random.default_rng(seed)
    members_chosen, members_tested = np.array_split(rng.permutation(inside), 2)
    others_chosen, others_tested = np.array_split(rng.permutation(outside), 2)
    candidates = np.unique(np.concatenate([members_chosen, others_chosen]))
    gains = _rates(members_chosen, candidates) - _rates(others_chosen, candidates)
    threshold = candidates[np.argmax(gains)]
    n_members = int((members_tested >= threshold).sum())
    n_others = int((others_tested >= threshold).sum())
    # Two rates, two sides: a quarter of the error probability each.
    tail = (1 - level) / 4
    low_true, high_true = clopper_pearson(n_members, members_tested.size, tail)
    low_false, high_false = clopper_pearson(n_others, others_tested.size, tail)
    difference = n_members / members_tested.size - n_others / others_tested.size
    return difference, low_true - high_false, high_true - low_false


def _rates(scores: Numbers, thresholds: Numbers) -> Numbers:
    """Return the share of the scores that reach each threshold."""
    return 1 - np.searchsorted(np.sort(scores), thresholds) / scores.size


def _advantage_bound(guarantee: Any, synthesizer: Any) -> float:
    """Return the largest expected advantage; nan without a guarantee."""
    if guarantee is None:
        guarantee = getattr(synthesizer, "guarantee_", None)
    if guarantee is None:
        return math.nan
    if not isinstance(guarantee, PrivacyGuarantee):
        raise TypeError(
            f"guarantee must be a PrivacyGuarantee, got {type(guarantee).__name__}"
        )
    promise = guarantee.to("replace")
    # (e^epsilon - 1 + 2 delta) / (e^epsilon + 1), divided by e^epsilon, which may be
    # infinite.
    inverse = math.exp(-promise.epsilon)
    return min(1.0, (1 - inverse + 2 * promise.delta * inverse) / (1 + inverse))


def _by_distance(
    synthetic: Any, members: Any, non_members: Any
) -> tuple[Numbers, Numbers]:
    """Score rows by the negative distance to the nearest synthetic one."""
    tables = {"synthetic": synthetic, "members": members, "non_members": non_members}
    frames = []
    for label, table in tables.items():
        frame = read_columns(table, label)
        frames.append(frame)
        names = list(frames[0].columns)
        if set(frame.columns) != set(names):
            raise ValueError(
                f"{label} must have the columns of synthetic, {names}, got "
                f"{list(frame.columns)}"
            )
    rows = pd.concat([frame[names] for frame in frames], ignore_index=True)
    coordinates = [_coordinates(column) for _, column in rows.items()]
    # (n_synthetic + n_members + n_non_members, n_coordinates)
    points = np.column_stack(coordinates)
    n_synthetic, n_members = len(frames[0]), len(frames[1])
    _, distances = pairwise_distances_argmin_min(
        points[n_synthetic:], points[:n_synthetic], metric="manhattan"
    )
    return -distances[:n_members], -distances[n_members:]


def _coordinates(column: pd.Series) -> Numbers:
    """Return coordinates in which different values have distance 1, and numbers that in units of their range."""
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


def _by_likelihood(
    synthesizer: Any, members: Any, non_members: Any
) -> tuple[Numbers, Numbers]:
    """Score rows by their likelihood under the model."""
    if not hasattr(synthesizer, "score_samples"):
        raise TypeError(
            "method='likelihood' needs a synthesizer with score_samples, such as a "
            f"fitted DPMarginalSynthesizer, got {type(synthesizer).__name__}"
        )
    inside = np.asarray(synthesizer.score_samples(members), float)
    return inside, np.asarray(synthesizer.score_samples(non_members), float)
