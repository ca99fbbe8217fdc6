"""Weights of rows that make labels and groups independent, for groups that are known from privatised reports only."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.base import ColumnLike, ColumnName, Label, Privileged, TableLike, check_choice
from skdp.local import ReportTransformer
from skdp.metrics.fairness import Numbers, import_optional
from skdp.metrics.private_groups._joint import (
    indicate_positive,
    invert_counts,
    posterior_groups,
    project_rows,
    read_labels,
)
from skdp.metrics.private_groups._reports import (
    find_privileged,
    indicate_privileged_rows,
    read_groups,
)


def private_reweighing(
    y_true: ColumnLike,
    reports: TableLike,
    encoder: ReportTransformer,
    *,
    privileged: Privileged,
    positive_label: Label | None = None,
    columns: ColumnName | list[ColumnName] | None = None,
    method: str = "nonnegative",
) -> Numbers:
    """Weight rows by aif360's `Reweighing`, with groups that are known from reports only.

    Parameters
    ----------
    y_true : array-like or series of shape (n_samples,), or dataframe of one column
        True labels. Of several classes, all but the positive one count as negative.
    reports, encoder : dataframe or array-like, and fitted local transformer
        As for `joint_distribution`.
    privileged : value or list of values, or tuple or list of tuples
        As for `debiased_fairness`.
    positive_label : label, optional
        The favourable label. By default 1, if all labels are 0 and 1, or False and True.
    columns : column name or list of column names, optional
        The columns that form the group; by default all of the encoder.
    method : {"nonnegative", "unbiased"}, default="nonnegative"
        How the weight of a row follows from the weights of the groups. "unbiased": by the unbiased indicators of its
        group, so that the mean of a row's weight over the noise is that of its true group. At small epsilon some are
        negative, which most estimators refuse; they are right for sums of weights. "nonnegative": the same as long as
        none is negative. Otherwise weights are 0 below a threshold of the indicator and linear above, for each label,
        with the threshold at which the groups are estimated to be balanced, or nearest to it.

    Returns
    -------
    ndarray of shape (n_samples,)
        Weights for ``sample_weight``.

    Raises
    ------
    ImportError
        If aif360 is not installed.
    NotFittedError, TypeError, ValueError
        As for `joint_distribution`, or if no row of a group is estimated to have one of the labels.

    Warns
    -----
    UserWarning
        If unbiased weights are negative and "nonnegative" ones replace them, with the difference that is left.

    Notes
    -----
    **Privacy.** For the groups, this is post-processing of reports, without privacy cost. The labels are unprotected.

    The weights of label and group are the counts expected under their independence over the estimated ones. The sum
    over the rows of each label is their number, so the share of a label stays what it was.

    What weights of at least 0 cost is bias, where epsilon is small: some dependence of label and group stays. With two
    groups and randomised response, an unbiased weight is negative if the weights of the two groups for a label differ
    by more than a factor of e^epsilon. Then all the weight of this label is on the rows with one of the reports, and no
    weights of at least 0 that depend on label and report balance the groups better. For men and women in Adult
    (32,561 rows), and for two groups of 10,000 rows of which 5 and 40 % have the positive label, the difference in the
    share of positive labels, weighted, is on average over 10 draws

    ============  ========  =====  =====  =====  =====
    epsilon       0 (none)  0.25   0.5    1      2
    ============  ========  =====  =====  =====  =====
    Adult         -0.20     -0.13  -0.09  -0.01  0.00
    5 and 40 %    -0.34     -0.28  -0.23  -0.17  -0.01
    ============  ========  =====  =====  =====  =====

    by randomised response, and the same up to 0.01 by unary encoding. To replace negative weights by 0 only, and scale
    the others, would leave -0.06 of Adult by unary encoding at epsilon 1.5, instead of -0.01.

    Weighting by the probability of the group given report r and label y is not offered: its weights ``P(y) P(r) / P(y,
    r)`` are those of reports treated as true groups.

    References
    ----------
    .. [1] F. Kamiran, T. Calders (2012). Data preprocessing techniques for classification without discrimination.
       Knowledge and Information Systems 33.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp import RandomizedResponseEncoder
    >>> people = pd.DataFrame({"sex": ["Female"] * 4_000 + ["Male"] * 6_000})
    >>> hired = pd.Series([1] * 1_000 + [0] * 3_000 + [1] * 3_000 + [0] * 3_000)
    >>> encoder = RandomizedResponseEncoder(2.0, categories={"sex": ["Female", "Male"]}, random_state=0)
    >>> reports = encoder.fit_transform(people)
    >>> weights = private_reweighing(hired, reports, encoder, privileged="Male", positive_label=1)
    >>> rows = pd.DataFrame({"all": weights, "hired": weights * hired}).groupby(people["sex"]).sum()
    >>> (rows["hired"] / rows["all"]).round(2).to_dict()
    {'Female': 0.39, 'Male': 0.41}
    """
    if method == "posterior":
        raise ValueError(
            "method='posterior' was removed, as its weights are those of reports treated as true groups; use "
            "method='unbiased'"
        )
    check_choice("method", method, ("nonnegative", "unbiased"))
    groups = read_groups(reports, encoder, columns)
    cells = find_privileged(privileged, groups.domain)
    (labels,) = read_labels(groups, y_true=y_true)
    positive = indicate_positive(labels, positive_label)
    if positive.all() or not positive.any():
        raise ValueError(
            "y_true must hold labels that equal positive_label, and others"
        )
    codes = positive.astype(np.intp)
    counts = project_rows(invert_counts(groups, codes, 2)[0])
    table = np.stack(
        [counts[:, ~cells].sum(axis=1), counts[:, cells].sum(axis=1)], axis=1
    )
    if not (table > 0).all():
        raise ValueError(
            "no row of a group is estimated to have one of the labels: too few rows for this much noise"
        )
    factors = _reweigh(table)
    own = indicate_privileged_rows(groups, cells)
    weights: Numbers = factors[codes, 0] * (1 - own) + factors[codes, 1] * own
    if method == "unbiased" or (weights >= 0).all():
        return weights
    posterior = posterior_groups(
        y_true, None, reports, encoder, columns=columns
    ).to_numpy()
    privileged_share = posterior[:, cells].sum(axis=1)
    balanced = np.empty_like(weights)
    for code in (0, 1):
        rows = codes == code
        # The group whose rows of this label get more weight. Under independence, its share of the weight of the label
        # is its share of all rows.
        group = int(factors[code, 1] > factors[code, 0])
        indicators, probabilities = own[rows], privileged_share[rows]
        if group == 0:
            indicators, probabilities = 1 - indicators, 1 - probabilities
        raised = _raise_share(
            indicators, probabilities, table[:, group].sum() / table.sum()
        )
        balanced[rows] = raised * (rows.sum() / raised.sum())
    before = _difference(np.ones(len(codes)), privileged_share, codes)
    after = _difference(balanced, privileged_share, codes)
    warnings.warn(
        f"{np.mean(weights < 0):.0%} of the unbiased weights are negative, so weights of at least 0 are returned, "
        "which cannot always balance the groups. The difference between the groups in the share of the positive label "
        f"is estimated to be {before:+.3f} before weighting and {after:+.3f} with the returned weights. "
        "method='unbiased' returns the unbiased weights, negative ones included",
        UserWarning,
        stacklevel=2,
    )
    return balanced


def _raise_share(indicators: Numbers, probabilities: Numbers, goal: float) -> Numbers:
    """Return weights of at least 0 with which a group has the share `goal` of the weight, or nearly so."""
    # For each row: the unbiased indicator of the group, which follows from its report alone and may be any number, and
    # the probability of the group given report and label, between 0 and 1. The weight of a row is ``max(0, indicator -
    # threshold)``: like the unbiased weight it rises linearly with the indicator, but it is never negative.
    #
    # A higher threshold moves weight to the rows of higher indicators: of two rows, the one with the higher indicator
    # gets a larger multiple of the other's weight. Of two groups, a higher indicator goes with a higher probability, so
    # the share of the group rises with the threshold, and only one threshold gives the goal. Of more than two, the
    # probability need not rise everywhere: the lowest threshold that gives the goal is taken.
    width = np.ptp(indicators)
    if width == 0:
        return np.ones_like(indicators)
    # The weights are scaled by the caller. Nine decimals: indicators that differ by the rounding of floats are equal.
    scaled = np.round(indicators / width, 9)
    levels, level_of_row = np.unique(scaled, return_inverse=True)
    # The share is the goal if the sum of ``weight * (probability - goal)`` is 0, and larger if the sum is positive.
    excess = np.bincount(level_of_row, probabilities - goal)
    if (
        excess.sum() >= 0
    ):  # equal weights, as of a threshold that is far below all indicators, are enough
        return np.ones_like(indicators)
    # For a threshold between two levels, or at one of them, the sum is ``moment - threshold * excess``, both over the
    # levels from the upper one on. At the last level, all weights would be 0.
    excess_from = np.cumsum(excess[::-1])[::-1]
    moment_from = np.cumsum((levels * excess)[::-1])[::-1]
    # Where the sum rises from below 0 with the threshold, this excess is negative.
    is_enough = (moment_from >= levels * excess_from) & (excess_from < 0)
    enough = np.flatnonzero(is_enough[:-1])
    if (
        enough.size == 0
    ):  # all the weight is on the rows with the highest indicator, and more is impossible
        return (level_of_row == len(levels) - 1).astype(float)
    # The threshold is at the lowest level that is enough, or between it and the next lower one.
    threshold = moment_from[enough[0]] / excess_from[enough[0]]
    return np.maximum(scaled - threshold, 0)


def _difference(
    weights: Numbers, privileged_share: Numbers, codes: NDArray[np.intp]
) -> float:
    """Return the share of positive labels of other rows minus that of privileged ones, both weighted."""
    shares = [
        np.average(codes, weights=weights * share)
        for share in (1 - privileged_share, privileged_share)
    ]
    return float(shares[0] - shares[1])


def _reweigh(table: Numbers) -> Numbers:
    """Return the weight of each label and group from their counts, by aif360."""
    label, group = np.indices((2, 2)).reshape(2, 4)
    dataset = import_optional("aif360.datasets").BinaryLabelDataset(
        df=pd.DataFrame(
            {"group": group, "label": label, "count": table.ravel()}, dtype=float
        ),
        label_names=["label"],
        protected_attribute_names=["group"],
        instance_weights_name="count",
    )
    reweighing = import_optional(
        "aif360.algorithms.preprocessing.reweighing"
    ).Reweighing(
        unprivileged_groups=[{"group": 0.0}], privileged_groups=[{"group": 1.0}]
    )
    weights: Numbers = reweighing.fit_transform(dataset).instance_weights
    return weights.reshape(2, 2) / table
