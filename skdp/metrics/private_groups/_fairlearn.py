"""Fairlearn's optimisers for groups that are known from privatised reports only."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

from skdp.base import ColumnLike, ColumnName, Label, TableLike, check_choice
from skdp.local import ReportTransformer
from skdp.metrics.fairness import import_optional
from skdp.metrics.private_groups._joint import (
    indicate_positive,
    joint_distribution,
    read_labels,
)
from skdp.metrics.private_groups._reports import check_encoder, read_groups

Constraints = Literal[
    "equalized_odds", "true_positive_rate_parity", "demographic_parity"
]


class _GivenScores(ClassifierMixin, BaseEstimator):
    """Return the single column of X, which are predictions made elsewhere."""

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def fit(self, X: Any, y: Any = None) -> _GivenScores:
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
    labels, scores = read_labels(groups, y_true=y_true, y_pred=y_pred)
    if scores.categories.dtype.kind not in "biuf":
        raise ValueError("y_pred must hold numbers: predictions of 0 and 1, or scores")
    if (
        not isinstance(n_rows, Integral)
        or isinstance(n_rows, bool)
        or int(n_rows) < 1000
    ):
        raise ValueError(f"n_rows must be an integer of at least 1000, got {n_rows!r}")
    positive = indicate_positive(labels, positive_label).astype(np.int8)
    joint = joint_distribution(
        positive, scores, reports, encoder, columns=columns, postprocess="simplex"
    )
    repeats = np.rint(joint["share"].to_numpy() * n_rows).astype(np.intp)
    if abs(int(repeats.sum()) - n_rows) > 0.1 * n_rows:
        raise ValueError(
            f"y_pred has {len(scores.categories)} levels, too many for n_rows={n_rows}: rounded to rows, their shares "
            "add up to another number; round the scores to fewer levels, or raise n_rows"
        )
    rows = (
        joint.index.to_frame(index=False)
        .loc[np.repeat(np.arange(len(joint)), repeats)]
        .reset_index(drop=True)
    )
    names = list(groups.domain.columns)
    if rows.groupby(names, observed=True)["y_true"].nunique().min() < 2:
        raise ValueError(
            "a group is estimated to have rows of one label only: too few rows for this much noise"
        )
    sensitive = rows[names[0]] if len(names) == 1 else rows[names]
    optimizer = postprocessing.ThresholdOptimizer(
        estimator=_GivenScores(),
        prefit=True,
        predict_method="predict",
        constraints=constraints,
        **options,
    )
    return optimizer.fit(
        rows[["y_pred"]].astype(float), rows["y_true"], sensitive_features=sensitive
    )


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
        For `ExponentiatedGradient`, whose `fit` takes the reports as ``sensitive_features``, a table or a series of one
        column; labels must be 0 and 1.
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
    if (
        not isinstance(difference_bound, Real)
        or isinstance(difference_bound, bool)
        or not difference_bound >= 0
    ):
        raise ValueError(
            f"difference_bound must be a number of at least 0, got {difference_bound!r}"
        )
    import_optional("fairlearn.reductions")
    # The class inherits from fairlearn's, so its module requires fairlearn.
    from skdp.metrics.private_groups._parity_moment import PrivateParity

    return PrivateParity(encoder, constraints, columns, float(difference_bound))
