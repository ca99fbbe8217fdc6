"""Fair models with privatized groups: thresholds, reductions and weights of rows."""

from __future__ import annotations

from collections.abc import Sized
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin

from skdp._arrays import ColumnLike, ColumnName, Floats, Label, Privileged, TableLike
from skdp.base import check_choice, check_row_order, warn_at_caller
from skdp.local import ReportTransformer
from skdp.metrics._labels import find_positive_label, parse_classes, parse_weights
from skdp.metrics._reported_groups import (
    check_encoder,
    debias_groups,
    encode_labels,
    find_declared_groups,
    joint_distribution,
    project_rows,
    sum_indicators,
)
from skdp.readers import import_extra

Constraints = Literal[
    "equalized_odds", "true_positive_rate_parity", "demographic_parity"
]


class _Scores(ClassifierMixin, BaseEstimator):
    """Estimator that predicts the scores in the only column of X.

    ThresholdOptimizer requires an estimator, but the scores are already computed.
    """

    def __sklearn_is_fitted__(self) -> bool:
        """Return True, because there is nothing to fit."""
        return True

    def fit(self, X: object, y: object = None) -> _Scores:
        """Do nothing."""
        return self

    def predict(self, X: Sized) -> Floats:
        """Return the only column of X."""
        scores = np.asarray(X, float).reshape(len(X), -1)
        if scores.shape[1] != 1:
            raise ValueError(
                "X must be the scores, of shape (n_samples, 1), got "
                f"{scores.shape[1]} columns."
            )
        return scores[:, 0]


def private_threshold_optimizer(
    y_true: ColumnLike,
    y_pred: ColumnLike,
    reports: TableLike,
    encoder: ReportTransformer,
    *,
    positive_label: Label | None = None,
    columns: ColumnName | list[ColumnName] | None = None,
    sample_weight: ColumnLike | None = None,
    **options: object,
) -> Any:
    """Fit fairlearn's `ThresholdOptimizer` on the estimated distribution of labels, scores and groups.

    Parameters
    ----------
    y_true : array-like or series of shape (n_samples,), or dataframe of one column
        True labels. All labels except the positive label are negative.
    y_pred : array-like or series of shape (n_samples,), or dataframe of one column
        Predictions of 0 and 1, or scores. Round scores to a few levels, because the
        estimate is less precise for many levels.
    reports, encoder : dataframe or array-like, and fitted local transformer
        As for `joint_distribution`.
    positive_label : label, default=None
        Favorable label. If None, it is 1, and all labels must be 0 and 1, or False and
        True.
    columns : column name or list of column names, default=None
        Columns whose combinations are the groups. If None, all columns of the encoder.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each row, such as survey weights. If None, all weights are 1.
    **options : object
        Parameters of `ThresholdOptimizer`. `constraints` is "equalized_odds" by default.

    Returns
    -------
    fairlearn.postprocessing.ThresholdOptimizer
        Fitted optimizer. Its `predict` takes scores as X, of shape (n_samples, 1), and
        the *true* groups as ``sensitive_features`` (a dataframe if there are several
        columns). Decisions with reported groups are not fair, because they depend on
        the noise.

    Raises
    ------
    ImportError
        If fairlearn is not installed.
    NotFittedError, TypeError, ValueError
        As for `joint_distribution`, if y_pred is not numeric or has too many levels, or
        if a group is estimated to have rows of one label only.

    Notes
    -----
    **Privacy.** For the groups, this is post-processing of reports, without privacy
    cost. Labels and scores are not protected.

    The optimizer is fitted on 100,000 rows with the distribution that
    `joint_distribution` estimates, with the nearest nonnegative counts that have the same
    sum for each combination of labels.

    References
    ----------
    .. [1] M. Hardt, E. Price, N. Srebro (2016). Equality of opportunity in supervised
       learning. NeurIPS.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp import RandomizedResponseEncoder
    >>> from skdp.metrics import private_threshold_optimizer
    >>> people = pd.DataFrame({"sex": ["Female"] * 4_000 + ["Male"] * 6_000})
    >>> qualified = ([1] * 2_000 + [0] * 2_000) + ([1] * 3_000 + [0] * 3_000)
    >>> hired = ([1] * 1_200 + [0] * 2_600 + [1] * 200) + ([1] * 2_400 + [0] * 600 + [1] * 900 + [0] * 2_100)
    >>> encoder = RandomizedResponseEncoder(1.0, categories={"sex": ["Female", "Male"]}, random_state=0)
    >>> reports = encoder.fit_transform(people)
    >>> optimizer = private_threshold_optimizer(qualified, hired, reports, encoder)
    >>> scores = pd.DataFrame({"score": hired})
    >>> fair = optimizer.predict(scores, sensitive_features=people["sex"], random_state=0)
    >>> pd.Series(fair).groupby([people["sex"], qualified]).mean().round(2).to_dict()
    {('Female', 0): 0.23, ('Female', 1): 0.66, ('Male', 0): 0.25, ('Male', 1): 0.67}
    """
    postprocessing = import_extra("fairlearn.postprocessing", "fairness")
    check_row_order(y_true=y_true, reports=reports)
    labels = parse_classes(y_true, "y_true")
    label = find_positive_label(positive_label, y_true=labels)
    positive = labels.isin([label]).to_numpy(np.int8)
    joint = joint_distribution(
        positive, y_pred, reports, encoder, columns=columns, sample_weight=sample_weight
    )
    scores = joint.index.unique("y_pred")
    if scores.dtype.kind not in "biuf":
        raise ValueError(
            "`y_pred` must be numeric, predictions of 0 and 1 or scores, got dtype "
            f"{scores.dtype}."
        )
    n_groups = len(joint) // (joint.index.unique("y_true").size * len(scores))
    rows = _expand_rows(joint, n_groups)
    _, _, *names = joint.index.names
    if rows.groupby(names)["y_true"].nunique().min() < 2:
        raise ValueError(
            "Each group must have an estimated number of rows of both labels, got a "
            "group with one label. Merge groups, or use more reports."
        )
    optimizer = postprocessing.ThresholdOptimizer(
        estimator=_Scores(),
        prefit=True,
        predict_method="predict",
        **{"constraints": "equalized_odds"} | options,
    )
    groups = rows[names[0]] if len(names) == 1 else rows[names]
    X = rows[["y_pred"]].astype(float)
    return optimizer.fit(X, rows["y_true"], sensitive_features=groups)


def _expand_rows(joint: pd.DataFrame, n_groups: int) -> pd.DataFrame:
    """Repeat each combination of labels and groups in proportion to its estimated count, in about 100,000 rows."""
    # Numbers of rows cannot be negative.
    counts = project_rows(joint["count"].to_numpy().reshape(-1, n_groups)).ravel()
    # fairlearn accepts no weights.
    n_rows = 100_000
    repeats = np.rint(counts / counts.sum() * n_rows).astype(np.intp)
    # With many distinct predictions, most proportions are rounded to 0 rows.
    if abs(int(repeats.sum()) - n_rows) > 0.1 * n_rows:
        n_values = joint.index.get_level_values("y_pred").nunique()
        raise ValueError(
            f"`y_pred` must have few distinct values, got {n_values}, whose "
            "distribution cannot be estimated. Round the scores."
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
    """Build a constraint for fairlearn's `ExponentiatedGradient` with privatized groups.

    Parameters
    ----------
    encoder : fitted local transformer
        As for `joint_distribution`.
    constraints : {"equalized_odds", "true_positive_rate_parity", "demographic_parity"}, default="equalized_odds"
        Rates that are equal in all groups: true and false positive rates, true positive
        rates, or selection rates.
    columns : column name or list of column names, default=None
        Columns whose combinations are the groups. If None, all columns of the encoder.
    difference_bound : float, default=0.01
        Largest allowed difference between the rate of a group and the rate of all rows.

    Returns
    -------
    fairlearn.reductions.ClassificationMoment
        Constraint for `ExponentiatedGradient`, whose `fit` takes the reports as
        ``sensitive_features``: a table, or a series for one column, and optionally
        weights of the rows as ``sample_weight``. Labels must be 0 and 1. `fit` raises
        ValueError if the estimated number of rows of a group with one of the labels is
        not positive. It warns if the rate of a group has a standard error above
        `difference_bound` because of the noise, or if the reports do not fit the
        encoder.

    Raises
    ------
    ImportError
        If fairlearn is not installed.
    NotFittedError, TypeError, ValueError
        If the encoder is not fitted or not a local transformer of categories, a
        parameter is out of range, or the encoder reports one random column per row.

    Notes
    -----
    **Privacy.** For the groups, learning is post-processing of reports, without privacy
    cost. Features and labels are not protected, and the model may reveal them.

    This constraint sums unbiased indicators of the groups where fairlearn's constraints
    [2]_ count the rows of a group. If a classifier does not use the report, equalized
    odds of reported groups are equalized odds of true groups ([1]_, lemma 1). Other
    differences are smaller for reported groups by the factor in the notes of
    `debiased_fairness`.

    References
    ----------
    .. [1] H. Mozannar, M. Ohannessian, N. Srebro (2020). Fair learning with private
       demographic data. ICML. arXiv:2002.11651
    .. [2] A. Agarwal et al. (2018). A reductions approach to fair classification. ICML.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> import pandas as pd
    >>> from fairlearn.reductions import ExponentiatedGradient
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skdp import RandomizedResponseEncoder
    >>> from skdp.metrics import private_parity
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
    import_extra("fairlearn.reductions", "fairness")
    # The class inherits from a class of fairlearn, which is an optional dependency.
    from skdp.metrics._parity import PrivateParity

    return PrivateParity(encoder, constraints, columns, float(difference_bound))


def private_reweighing(
    y_true: ColumnLike,
    reports: TableLike,
    encoder: ReportTransformer,
    *,
    privileged: Privileged,
    positive_label: Label | None = None,
    columns: ColumnName | list[ColumnName] | None = None,
    sample_weight: ColumnLike | None = None,
) -> Floats:
    """Compute the weights of aif360's `Reweighing` with privatized groups.

    Parameters
    ----------
    y_true : array-like or series of shape (n_samples,), or dataframe of one column
        True labels. All labels except the positive label are negative.
    reports, encoder : dataframe or array-like, and fitted local transformer
        As for `joint_distribution`.
    privileged : value, list of values or mapping of column name to such
        As for `debiased_fairness`.
    positive_label : label, default=None
        Favorable label. If None, it is 1, and all labels must be 0 and 1, or False and
        True.
    columns : column name or list of column names, default=None
        Columns whose combinations are the groups. If None, all columns of the encoder.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each row, such as survey weights. If None, all weights are 1.

    Returns
    -------
    ndarray of shape (n_samples,)
        Weights for ``sample_weight`` of a model, which include the given weights. The
        mean weight of a row over the noise is the weight of its true group.

    Raises
    ------
    NotFittedError, TypeError, ValueError
        As for `joint_distribution`, or if no row of a group is estimated to have one of
        the labels.

    Warns
    -----
    UserWarning
        If unbiased weights are negative. They are replaced by 0, and the other weights
        of the label are scaled to the same sum.

    Notes
    -----
    **Privacy.** For the groups, this is post-processing of reports, without privacy
    cost. The labels are not protected.

    The weight of a label and a group is their expected count if label and group are
    independent, divided by their estimated count [1]_. With `sample_weight`, the counts
    are of weights, and the result is the product of both weights, as in aif360. The
    weights of a label add up to its number of rows, or to their weight.

    At small epsilon, some dependence of label and group remains, because weights cannot
    be negative. With randomized response, an unbiased weight is negative if the weights
    of the two groups for a label differ by more than a factor of e^epsilon. The table
    shows the weighted difference in the proportion of positive labels, on average over
    10 draws, for men and women in Adult (32,561 rows), and for two groups of 10,000
    rows with 5 and 40 % positive labels:

    ============  ==========  =====  =====  =====  =====
    epsilon       no weights  0.25   0.5    1      2
    ============  ==========  =====  =====  =====  =====
    Adult         -0.20       -0.14  -0.09  -0.01  0.00
    5 and 40 %    -0.35       -0.29  -0.23  -0.17  -0.01
    ============  ==========  =====  =====  =====  =====

    References
    ----------
    .. [1] F. Kamiran, T. Calders (2012). Data preprocessing techniques for classification
       without discrimination. Knowledge and Information Systems 33.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp import RandomizedResponseEncoder
    >>> from skdp.metrics import private_reweighing
    >>> people = pd.DataFrame({"sex": ["Female"] * 4_000 + ["Male"] * 6_000})
    >>> hired = pd.Series([1] * 1_000 + [0] * 3_000 + [1] * 3_000 + [0] * 3_000)
    >>> encoder = RandomizedResponseEncoder(2.0, categories={"sex": ["Female", "Male"]}, random_state=0)
    >>> reports = encoder.fit_transform(people)
    >>> weights = private_reweighing(hired, reports, encoder, privileged="Male")
    >>> rows = pd.DataFrame({"all": weights, "hired": weights * hired}).groupby(people["sex"]).sum()
    >>> (rows["hired"] / rows["all"]).round(2).to_dict()
    {'Female': 0.39, 'Male': 0.41}
    """
    domain, indicators = debias_groups(reports, encoder, columns)
    is_privileged = find_declared_groups(privileged, domain)
    (labels,) = encode_labels(reports, len(indicators), y_true=y_true)
    values = pd.Series(labels)
    label = find_positive_label(positive_label, y_true=values)
    positive = values.isin([label]).to_numpy(dtype=bool)
    if positive.all() or not positive.any():
        raise ValueError(
            "`y_true` must have rows with and without positive_label, got one of them "
            "only."
        )
    codes = positive.astype(np.intp)
    given = parse_weights(sample_weight, reports, len(indicators))
    counts = project_rows(sum_indicators(indicators, codes, 2, given)[0])
    by_group = np.stack([~is_privileged, is_privileged], axis=1).astype(float)
    table = counts @ by_group  # rows are labels, columns are groups
    if not (table > 0).all():
        raise ValueError(
            "The estimated number of rows of each group and label must be positive, "
            "got 0 or less. Use more rows or a larger epsilon."
        )
    # Kamiran and Calders (2012): the expected count under independence over the count.
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
    factors = (expected / table)[codes]
    # Indicators of a row are unbiased and add up to 1, so the mean weight over the noise
    # is the weight of its true group.
    weights: Floats = given * (factors * (indicators @ by_group)).sum(axis=1)
    is_negative = weights < 0
    if not is_negative.any():
        return weights
    weights[is_negative] = 0
    # Scale the weights of each label, so that they add up to the weight of its rows.
    for label in (False, True):
        rows = positive == label
        weights[rows] *= given[rows].sum() / weights[rows].sum()
    warn_at_caller(
        f"{np.mean(is_negative):.0%} of the unbiased weights are negative and were "
        "replaced by 0, so the weighted groups are not fully balanced. Use a larger "
        "epsilon",
        UserWarning,
        about="guide/fairness",
    )
    return weights
