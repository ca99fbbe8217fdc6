"""Mitigation for groups that are known from privatised reports only.

Fairlearn's optimisers, and the weights of rows that aif360's `Reweighing` gives.
"""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

from skdp.base import ColumnLike, ColumnName, Label, Privileged, TableLike, check_choice
from skdp.local import ReportTransformer
from skdp.metrics._aif360 import import_optional
from skdp.metrics._intervals import Numbers
from skdp.metrics._private_groups import (
    GroupReports,
    check_encoder,
    find_privileged,
    group_posteriors,
    indicate_positive,
    indicate_privileged_rows,
    invert_counts,
    joint_distribution,
    project_rows,
    read_groups,
    read_labels,
)
from skdp.pages import warn

Constraints = Literal[
    "equalized_odds", "true_positive_rate_parity", "demographic_parity"
]


class _Scores(ClassifierMixin, BaseEstimator):
    """Return the single column of X, which are predictions made elsewhere."""

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def fit(self, X: Any, y: Any = None) -> _Scores:
        return self

    def predict(self, X: Any) -> NDArray[np.float64]:
        return np.asarray(X, float).reshape(len(X), -1)[:, 0]


def private_threshold_optimizer(
    y_true: ColumnLike,
    y_pred: ColumnLike,
    reports: TableLike,
    encoder: ReportTransformer,
    *,
    positive_label: Label | None = None,
    columns: ColumnName | list[ColumnName] | None = None,
    constraints: str = "equalized_odds",
    n_rows: int = 100_000,
    **options: Any,
) -> Any:
    """Fit fairlearn's `ThresholdOptimizer` on the estimated distribution of labels, scores and groups.

    Parameters
    ----------
    y_true : array-like or series of shape (n_samples,), or dataframe of one column
        True labels. Of several classes, all but the positive one count as negative.
    y_pred : array-like or series of shape (n_samples,), or dataframe of one column
        Numbers: predictions of 0 and 1, or scores rounded to a few levels, as each level costs precision.
    reports, encoder : dataframe or array-like, and fitted local transformer
        As for `joint_distribution`.
    positive_label : label, optional
        The favourable label. By default 1, if all labels are 0 and 1, or False and True.
    columns : column name or list of column names, optional
        The columns whose combinations are the groups; by default all of the encoder.
    constraints : str, default="equalized_odds"
        As for `ThresholdOptimizer`.
    n_rows : int, default=100_000
        The number of rows of the table that represents the distribution, as the optimiser counts rows.
    **options : object
        Further parameters of `ThresholdOptimizer`.

    Returns
    -------
    fairlearn.postprocessing.ThresholdOptimizer
        Fitted. Its `predict` takes scores as X, of shape (n, 1), and as ``sensitive_features`` the *true* groups (a
        frame of the columns, if there are several), which the person states for the decision and which are not stored.
        With reports instead of true groups the decisions are not fair, as they would depend on the noise.

    Raises
    ------
    ImportError
        If fairlearn is not installed.
    NotFittedError, TypeError, ValueError
        As for `joint_distribution`, or if y_pred holds no numbers, there are too many levels of scores for n_rows, or a
        group is estimated to have rows of one label only.

    Notes
    -----
    **Privacy.** For the groups, this is post-processing of reports, without privacy cost. Labels and scores are
    unprotected.

    The table has one row per 1 / n_rows of the estimated distribution, made consistent by ``postprocess="simplex"``.

    References
    ----------
    .. [1] M. Hardt, E. Price, N. Srebro (2016). Equality of opportunity in supervised learning. NeurIPS.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp import RandomizedResponseEncoder
    >>> people = pd.DataFrame({"sex": ["Female"] * 4_000 + ["Male"] * 6_000})
    >>> qualified = ([1] * 2_000 + [0] * 2_000) + ([1] * 3_000 + [0] * 3_000)
    >>> hired = ([1] * 1_200 + [0] * 2_600 + [1] * 200) + ([1] * 2_400 + [0] * 600 + [1] * 900 + [0] * 2_100)
    >>> encoder = RandomizedResponseEncoder(1.0, categories={"sex": ["Female", "Male"]}, random_state=0)
    >>> reports = encoder.fit_transform(people)
    >>> optimizer = private_threshold_optimizer(qualified, hired, reports, encoder, positive_label=1)
    >>> scores = pd.DataFrame({"score": hired})
    >>> fair = optimizer.predict(scores, sensitive_features=people["sex"], random_state=0)
    >>> pd.Series(fair).groupby([people["sex"], qualified]).mean().round(2).to_dict()
    {('Female', 0): 0.23, ('Female', 1): 0.66, ('Male', 0): 0.25, ('Male', 1): 0.67}
    """
    postprocessing = import_optional("fairlearn.postprocessing")
    groups = read_groups(reports, encoder, columns)
    labels, scores = read_labels(groups, reports, y_true=y_true, y_pred=y_pred)
    if scores.categories.dtype.kind not in "biuf":
        raise ValueError("y_pred must hold numbers: predictions of 0 and 1, or scores")
    _check_n_rows(n_rows)
    positive = indicate_positive(labels, positive_label).astype(np.int8)
    joint = joint_distribution(
        positive, scores, reports, encoder, columns=columns, postprocess="simplex"
    )
    rows = _rows_of(joint, n_rows)
    names = list(groups.domain.columns)
    # fairlearn's own message would not tell what to do.
    n_labels = rows.groupby(names, observed=True)["y_true"].nunique()
    if n_labels.min() < 2:
        raise ValueError(
            "a group is estimated to have rows of one label only: too few rows for "
            "this much noise"
        )
    optimizer = postprocessing.ThresholdOptimizer(
        estimator=_Scores(),
        prefit=True,
        predict_method="predict",
        constraints=constraints,
        **options,
    )
    sensitive_features = rows[names[0]] if len(names) == 1 else rows[names]
    return optimizer.fit(
        rows[["y_pred"]].astype(float),
        rows["y_true"],
        sensitive_features=sensitive_features,
    )


def _check_n_rows(n_rows: Any) -> None:
    is_integer = isinstance(n_rows, Integral) and not isinstance(n_rows, bool)
    if not is_integer or int(n_rows) < 1000:
        raise ValueError(f"n_rows must be an integer of at least 1000, got {n_rows!r}")


def _rows_of(joint: pd.DataFrame, n_rows: int) -> pd.DataFrame:
    """Return rows with a joint distribution, about `n_rows` of them."""
    # The optimiser takes no weights, so a share is a number of rows.
    repeats = np.rint(joint["share"].to_numpy() * n_rows).astype(np.intp)
    if abs(int(repeats.sum()) - n_rows) > 0.1 * n_rows:
        n_levels = joint.index.get_level_values("y_pred").nunique()
        raise ValueError(
            f"y_pred has {n_levels} levels, too many for n_rows={n_rows}: rounded to "
            "rows, their shares add up to another number; round the scores to fewer "
            "levels, or raise n_rows"
        )
    cells = joint.index.to_frame(index=False)
    return cells.loc[cells.index.repeat(repeats)].reset_index(drop=True)


def private_parity(
    encoder: ReportTransformer,
    *,
    constraints: Constraints = "equalized_odds",
    columns: ColumnName | list[ColumnName] | None = None,
    difference_bound: float = 0.01,
) -> Any:
    """Build a constraint for fairlearn's reductions with reports as sensitive features.

    Parameters
    ----------
    encoder : fitted local transformer
        As for `joint_distribution`.
    constraints : {"equalized_odds", "true_positive_rate_parity", "demographic_parity"}, default="equalized_odds"
        What is equalised over the groups: the true and false positive rates, the former alone, or the selection rate.
    columns : column name or list of column names, optional
        The columns whose combinations are the groups; by default all of the encoder.
    difference_bound : float, default=0.01
        Largest difference between the rate of a group and that of all rows, at least 0.

    Returns
    -------
    fairlearn.reductions.ClassificationMoment
        For `ExponentiatedGradient` and `GridSearch`, whose `fit` takes the reports as ``sensitive_features``: a table,
        or a series of one column; labels must be 0 and 1.
        It raises a ValueError there if the reports are of another encoder or a group is too small for the noise.

    Raises
    ------
    ImportError
        If fairlearn is not installed.
    NotFittedError, TypeError, ValueError
        If the encoder is not fitted or not a local transformer of categories, a parameter is out of range, or reports
        of the encoder do not determine the group of a row.

    Notes
    -----
    **Privacy.** For the groups, learning is post-processing of reports, without privacy cost. Features and labels are
    unprotected, and the model may reveal them.

    Where fairlearn's constraints count the rows of a group, this one sums the unbiased indicators of the reports. A
    classifier that does not use the report may also be trained with the reports as sensitive features of fairlearn's
    `EqualizedOdds`: equal odds among reported groups are equal odds among true ones ([1]_, lemma 1); other differences
    are smaller by the factor in the notes of `debiased_fairness`.

    References
    ----------
    .. [1] H. Mozannar, M. Ohannessian, N. Srebro (2020). Fair learning with private demographic data. ICML.
       arXiv:2002.11651
    .. [2] A. Agarwal et al. (2018). A reductions approach to fair classification. ICML.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> import pandas as pd
    >>> from fairlearn.reductions import ExponentiatedGradient
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skdp import RandomizedResponseEncoder
    >>> rng = np.random.default_rng(0)
    >>> people = pd.DataFrame({"sex": rng.choice(["Female", "Male"], 4_000)})
    >>> X = pd.DataFrame({"score": rng.normal(size=4_000) + (people["sex"] == "Male")})
    >>> y = (X["score"] + rng.normal(size=4_000) > 0.5).astype(int)
    >>> encoder = RandomizedResponseEncoder(2.0, categories={"sex": ["Female", "Male"]}, random_state=0)
    >>> reports = encoder.fit_transform(people)
    >>> parity = private_parity(encoder, constraints="demographic_parity")
    >>> model = ExponentiatedGradient(LogisticRegression(), parity)
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")  # fairlearn's own, about pandas
    ...     model.fit(X, y, sensitive_features=reports)
    ExponentiatedGradient(...)
    >>> pd.Series(model.predict(X, random_state=0)).groupby(people["sex"]).mean().round(2).to_dict()
    {'Female': 0.49, 'Male': 0.53}
    """
    check_choice("constraints", constraints, get_args(Constraints))
    check_encoder(encoder, columns)
    is_number = isinstance(difference_bound, Real)
    if not is_number or isinstance(difference_bound, bool) or not difference_bound >= 0:
        raise ValueError(
            f"difference_bound must be a number of at least 0, got {difference_bound!r}"
        )
    import_optional("fairlearn.reductions")
    # The class inherits from fairlearn's, so its module requires fairlearn.
    from skdp.metrics._parity_moment import PrivateParity

    return PrivateParity(encoder, constraints, columns, float(difference_bound))


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

    ============  ==========  =====  =====  =====  =====
    epsilon       no weights  0.25   0.5    1      2
    ============  ==========  =====  =====  =====  =====
    Adult         -0.20       -0.14  -0.09  -0.01  0.00
    5 and 40 %    -0.35       -0.29  -0.23  -0.17  -0.01
    ============  ==========  =====  =====  =====  =====

    by randomised response, and the same up to 0.01 by unary encoding. So small an epsilon may also hide that a group
    has rows with a label, which is an error: in one of the 10 draws of 5 and 40 % by unary encoding at epsilon 0.25,
    which is not in the average. To replace negative weights by 0 only, and scale the others, would leave -0.06 of
    Adult by unary encoding at epsilon 1.5, instead of -0.01.

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
    check_choice("method", method, ("nonnegative", "unbiased"))
    groups = read_groups(reports, encoder, columns)
    is_privileged = find_privileged(privileged, groups.domain)
    (labels,) = read_labels(groups, reports, y_true=y_true)
    positive = indicate_positive(labels, positive_label)
    if positive.all() or not positive.any():
        raise ValueError(
            "y_true must hold labels that equal positive_label, and others"
        )
    codes = positive.astype(np.intp)
    table = _count_labels_and_groups(groups, codes, is_privileged)
    factors = _reweigh(table)
    indicator = indicate_privileged_rows(groups, is_privileged)
    weights: Numbers = (
        factors[codes, 0] * (1 - indicator) + factors[codes, 1] * indicator
    )
    if method == "unbiased" or (weights >= 0).all():
        return weights
    # What the weights leave of the difference is judged by the probability of the group
    # of each row, as the truth is not known.
    posteriors = group_posteriors(y_true, reports, encoder, columns)
    privileged_share = posteriors[:, is_privileged].sum(axis=1)
    balanced = np.empty_like(weights)
    for code in (0, 1):
        rows = codes == code
        # The group whose rows of this label get more weight. Under independence, its
        # share of the weight of the label is its share of all rows.
        group = int(factors[code, 1] > factors[code, 0])
        goal = table[:, group].sum() / table.sum()
        indicators, probabilities = indicator[rows], privileged_share[rows]
        if group == 0:
            indicators, probabilities = 1 - indicators, 1 - probabilities
        of_label = _raise_share(indicators, probabilities, goal)
        balanced[rows] = of_label * (rows.sum() / of_label.sum())
    before = _difference(np.ones(len(codes)), privileged_share, codes)
    after = _difference(balanced, privileged_share, codes)
    warn(
        f"{np.mean(weights < 0):.0%} of the unbiased weights are negative, so weights "
        "of at least 0 are returned, which cannot always balance the groups. The "
        "difference between the groups in the share of the positive label is estimated "
        f"to be {before:+.3f} before weighting and {after:+.3f} with the returned "
        "weights. method='unbiased' returns the unbiased weights, negative ones "
        "included",
        UserWarning,
        about="answers/fairness_of_reports",
        stacklevel=2,
    )
    return balanced


def _count_labels_and_groups(
    groups: GroupReports, codes: NDArray[np.intp], is_privileged: NDArray[np.bool_]
) -> Numbers:
    """Estimate the rows of each label that are privileged, or not: (label, group)."""
    counts = project_rows(invert_counts(groups, codes, 2)[0])
    of_others = counts[:, ~is_privileged].sum(axis=1)
    of_privileged = counts[:, is_privileged].sum(axis=1)
    table = np.stack([of_others, of_privileged], axis=1)
    if not (table > 0).all():
        raise ValueError(
            "no row of a group is estimated to have one of the labels: too few rows "
            "for this much noise"
        )
    return table


def _raise_share(indicators: Numbers, probabilities: Numbers, goal: float) -> Numbers:
    """Return weights of at least 0 that give a group the share `goal`, or nearly so."""
    # For each row: the unbiased indicator of the group, which follows from its report
    # alone and may be any number, and the probability of the group given report and
    # label, between 0 and 1. The weight of a row is ``max(0, indicator - threshold)``:
    # like the unbiased weight it rises linearly with the indicator, but it is never
    # negative.
    #
    # A higher threshold moves weight to the rows of higher indicators: of two rows, the
    # one with the higher indicator gets a larger multiple of the other's weight. Of two
    # groups, a higher indicator goes with a higher probability, so the share of the
    # group rises with the threshold, and only one threshold gives the goal. Of more than
    # two, the probability need not rise everywhere: the lowest threshold that gives the
    # goal is taken.
    width = np.ptp(indicators)
    if width == 0:
        return np.ones_like(indicators)
    # The weights are scaled by the caller. Nine decimals: indicators that differ by the
    # rounding of floats are equal.
    scaled = np.round(indicators / width, 9)
    levels, level_of_row = np.unique(scaled, return_inverse=True)
    # The share is the goal if the sum of ``weight * (probability - goal)`` is 0, and
    # larger if the sum is positive.
    excess = np.bincount(level_of_row, probabilities - goal)
    if excess.sum() >= 0:
        # Equal weights, as of a threshold far below all indicators, are enough.
        return np.ones_like(indicators)
    # For a threshold between two levels, or at one of them, the sum is ``moment -
    # threshold * excess``, both over the levels from the upper one on. At the last
    # level, all weights would be 0.
    excess_from = np.cumsum(excess[::-1])[::-1]
    moment_from = np.cumsum((levels * excess)[::-1])[::-1]
    # Where the sum rises from below 0 with the threshold, this excess is negative.
    is_enough = (moment_from >= levels * excess_from) & (excess_from < 0)
    places = np.flatnonzero(is_enough[:-1])
    if places.size == 0:
        # All the weight is on the rows with the highest indicator; more is impossible.
        return (level_of_row == len(levels) - 1).astype(float)
    # The threshold is at the lowest level that is enough, or between it and the next
    # lower one.
    threshold = moment_from[places[0]] / excess_from[places[0]]
    return np.maximum(scaled - threshold, 0)


def _difference(
    weights: Numbers, privileged_share: Numbers, codes: NDArray[np.intp]
) -> float:
    """Return the weighted share of positive labels of others less the privileged's."""
    of_others = np.average(codes, weights=weights * (1 - privileged_share))
    of_privileged = np.average(codes, weights=weights * privileged_share)
    return float(of_others - of_privileged)


def _reweigh(table: Numbers) -> Numbers:
    """Return the weight of each label and group from their counts: (label, group)."""
    # The count that is expected if the two are independent, by the one that is
    # estimated (Kamiran and Calders 2012).
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
    weights: Numbers = expected / table
    return weights
