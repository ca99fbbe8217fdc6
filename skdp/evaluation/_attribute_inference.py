"""Inference of a protected column from a release."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, is_classifier
from sklearn.utils.validation import check_is_fitted

from skdp.base import (
    ColumnLike,
    ColumnName,
    TableLike,
    check_confidence_level,
    check_row_order,
    draw_seed,
)
from skdp.evaluation._attacker import (
    Attacker,
    Protected,
    factorize,
    guessing_bound,
    name_of_kind,
    read_columns,
    value_table,
)
from skdp.evaluation._common import result_facts
from skdp.evaluation.audits import clopper_pearson
from skdp.local import ReportTransformer
from skdp.markup import html_facts, html_table


@dataclass(frozen=True, eq=False)
class AttackResult:
    """The accuracy of an attack on a protected column, and values to compare it with."""

    accuracy: float
    baseline: float
    bayes_bound: float
    std_error: float
    n_rows: int
    bound: str = ""
    accuracy_without_report: float | None = None
    std_error_without_report: float | None = None
    carriers: pd.DataFrame = field(default_factory=pd.DataFrame, repr=False)
    report_accuracy: float | None = None
    values: pd.DataFrame = field(default_factory=pd.DataFrame, repr=False)

    @property
    def exceeds_bound(self) -> bool:
        """Whether the lower end of `interval` is above the bound."""
        return self.interval()[0] > self.bayes_bound

    def interval(
        self, confidence_level: float = 0.95, *, without_report: bool = False
    ) -> tuple[float, float]:
        """Return an interval for an accuracy, over the draw of the rows, the models given."""
        level = check_confidence_level(confidence_level)
        share = self.accuracy_without_report if without_report else self.accuracy
        if share is None:
            return math.nan, math.nan
        return clopper_pearson(round(share * self.n_rows), self.n_rows, (1 - level) / 2)

    def _repr_html_(self) -> str:
        facts = result_facts(self)
        facts.append(("exceeds bound", "yes" if self.exceeds_bound else "no"))
        text = html_facts("Attack", facts, "Computed from true values: not private.")
        if len(self.values):
            text += html_table(self.values.reset_index())
        return text


def attribute_inference(
    X_released: TableLike,
    y: ColumnLike | None,
    sensitive: ColumnLike | TableLike,
    known: Sequence[ColumnName] | None = None,
    *,
    report: Sequence[ColumnName] | None = None,
    encoder: ReportTransformer | None = None,
    epsilon: float | None = None,
    estimator: BaseEstimator | None = None,
    cv: int = 5,
    random_state: int | None = None,
    progress: bool = False,
) -> AttackResult:
    """Attack a release: learn to guess the true values of a protected column from all released columns.

    The attacker learns from the true values of some rows and guesses those of others (cross-validation). The accuracy
    is compared with the best constant guess, the same attack without the report, and the bound for guesses from the
    visible reports alone.

    Parameters
    ----------
    X_released : dataframe or array-like of shape (n_samples, n_features)
        The released rows, reports included; numbers, text, categories, missing values. A pandas, polars or pyarrow
        table, or an array.
    y : 1-D array-like of shape (n_samples,) or None
        The label, if it is released too.
    sensitive : 1-D array-like of shape (n_samples,), or dataframe
        The true values of the protected column. Of several columns, the combinations are guessed.
    known : sequence of column names, optional
        The columns of `X_released`, besides the report, that the attacker knows; by default all.
    report : sequence of column names, optional
        All columns of `X_released` that are reports, of the protected column or another. By default those of the
        encoder.
    encoder : fitted local transformer, optional
        The encoder that made the report. It gives the names of the report and the Bayes bound.
    epsilon : float, optional
        The privacy loss of all reports of a record together, if there is no encoder; for the Bayes bound.
    estimator : classifier, optional
        The attacker's model, which is cloned. It must accept the columns unchanged: for text, put an encoder before it
        that accepts unknown values. By default `HistGradientBoostingClassifier`, with text as categories.
    cv : int, default=5
        The number of folds, at least 2.
    random_state : int, optional
        For the folds, the shuffles and the default estimator.
    progress : bool, default=False
        Whether to show a progress bar on standard error.

    Returns
    -------
    AttackResult
        The outcome, with the attributes

        - ``accuracy``, ``std_error``, ``n_rows``: the share of rows whose value is guessed from all that is released,
          each by a model that has not seen the row; ``interval(confidence_level)`` returns its interval over the draw
          of the rows, by Clopper and Pearson;
        - ``baseline``: the share of the most frequent value;
        - ``bayes_bound``, ``bound``: the largest expected accuracy of a guess from the visible reports alone, nan if no
          epsilon was given, and its kind; ``exceeds_bound``: whether the interval is above it;
        - ``accuracy_without_report``, ``std_error_without_report``: of the same attack on the other columns alone; None
          if the reports are not known;
        - ``report_accuracy``: the expected accuracy of the best guess from the report of the protected column alone;
        - ``carriers``: a row for each column, the most informative first: ``is_report``, ``alone``, ``drop``;
        - ``values``: a row for each value of the protected column, the rarest first, by its declared label, or a number
          if there is no encoder: ``share``; ``precision`` of its guesses; by the attacker's probability of the value,
          ``auc``, and ``lift`` among the first 1 % of the rows; ``auc_without_report``, and ``auc_of_report`` of the
          best guess from the report alone. The ends of 95 % intervals have ``_lower`` and ``_upper`` after the name.

    Raises
    ------
    ImportError
        If tqdm is not installed that the progress bar needs.
    TypeError, ValueError
        If the rows or the order of their labels do not match, a column is missing, the protected column has one value
        only, or a parameter is out of range.
    NotFittedError
        If the encoder is not fitted.

    See Also
    --------
    audit_epsilon : A lower bound on the epsilon of a transformer.

    Notes
    -----
    **Privacy.** The result depends on true values and is not protected: it is for experiments on data that is not
    sensitive. It holds numbers, column names and values that the encoder declares, no others.

    **The bound.** ``bayes_bound`` is the largest expected accuracy of a guess *from the visible reports alone*, with
    the shares of the values in `sensitive` as the prior P(v). If the report of the protected column is the only one
    that is visible, it is exact: ``sum_r max_v P(v) P(r | v)``, with the channel P(r | v) of the encoder; or, if the
    channel has no table (hashing), the largest value among all protocols of its epsilon. Otherwise, also for
    combinations of columns with separate reports and for parts of a joint report, other reports may be correlated with
    the protected column: it is the largest value among all protocols of the *total* epsilon (`guessing_bound` of
    ``encoder.guarantee_.epsilon``). Renamed reports count as those of other columns.

    **Above the bound.** The bound holds for any correlation of the columns. An accuracy clearly above it
    (``exceeds_bound``) is due to columns that are not reports, if the attacker sees any; with reports alone, the
    release violates the guarantee. By chance, ``exceeds_bound`` is true of up to one in 40 attacks that reach it.

    **Carriers.** ``alone``: the accuracy of guesses from this column by a decision tree of at most 64 leaves.
    ``drop``: the loss of accuracy when the column is shuffled in the test rows, of which up to 2,000 are taken in each
    fold; it may be small for each of several redundant columns.

    **Rare values.** Where one value prevails, accuracy hides what is learned of the others: the best guess is the
    frequent value for nearly all rows, and an attacker who is sure of a few rows hardly improves on it. ``values``
    shows each value by itself: an ``auc`` of 0.5 and a ``lift`` of 1 mean that nothing is learned of it. With few rows
    of a value they are noisy, as their intervals show: over the draw of the rows, the models given; Wilson's for
    shares, and for the area Wilson's of as many rows as DeLong's standard error implies ([1]_). Each is of one value by
    itself. The best guess from the report is exact if its channel has at most 2**16 entries; of other protocols, it is
    the mean over 10,000 drawn reports of the exact probabilities given each.

    The standard errors are over the rows, with the models fixed: folds share training rows.

    References
    ----------
    .. [1] E. DeLong, D. DeLong, D. Clarke-Pearson (1988). Comparing the areas under two or more correlated receiver
       operating characteristic curves: a nonparametric approach. Biometrics 44(3).

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp import RandomizedResponseEncoder
    >>> rng = np.random.default_rng(0)
    >>> people = pd.DataFrame({"sex": rng.choice(["F", "M"], 1000)})
    >>> encoder = RandomizedResponseEncoder(1.0, categories={"sex": ["F", "M"]}, random_state=0)
    >>> released = encoder.fit_transform(people)
    >>> result = attribute_inference(released, None, people["sex"], encoder=encoder, random_state=0)
    >>> round(result.accuracy, 2), round(result.bayes_bound, 2), round(result.accuracy_without_report, 2)
    (0.7, 0.73, 0.54)
    >>> result.values[["share", "precision", "auc", "auc_of_report"]].round(2)
           share  precision   auc  auc_of_report
    value
    F       0.46       0.66  0.69           0.73
    M       0.54       0.74  0.69           0.73

    Beside a column that is correlated with the protected one, the report hides nothing:

    >>> released = released.assign(title=people["sex"].map({"F": "Ms", "M": "Mr"}), shoe=rng.normal(40, 2, 1000))
    >>> result = attribute_inference(released, None, people["sex"], encoder=encoder, random_state=0)
    >>> result.accuracy, result.accuracy_without_report, result.exceeds_bound
    (1.0, 1.0, True)
    >>> result.carriers.round(2)
            is_report  alone  drop
    column
    title       False   1.00  0.51
    sex          True   0.70  0.00
    shoe        False   0.52  0.00
    """
    _check_options(cv, estimator)
    random_state = draw_seed(random_state)
    if isinstance(sensitive, str):
        raise TypeError(
            "sensitive must hold the true values of the protected column, got a str: "
            "give the column itself, of the table before it was privatised or encoded"
        )
    check_row_order(X_released=X_released, y=y, sensitive=sensitive)
    released = read_columns(X_released, "X_released")
    protected = read_columns(sensitive, "sensitive")
    visible, reported = _choose_columns(list(released.columns), known, report, encoder)
    frame = _add_label(released[visible], y)
    if len(protected) != len(frame):
        raise ValueError(
            f"X_released has {len(frame)} rows, sensitive has {len(protected)}"
        )
    truth = _combine(protected)
    shares = np.bincount(truth) / len(truth)
    if shares.size < 2:
        raise ValueError("sensitive has one value only: there is nothing to guess")

    # What the reports alone can tell.
    bound, kind = math.nan, ""
    report_accuracy, areas = None, np.nan
    labels = list(range(shares.size))  # without a declaration, nothing else is public
    if encoder is not None:
        declared = Protected(protected, truth, encoder)
        # A report that is visible counts, also if it is not named.
        outputs = {*reported, *encoder.get_feature_names_out()}
        bound, kind = declared.bound(shares, [n for n in visible if n in outputs])
        report_accuracy, areas = declared.best_guess(random_state)
        labels = declared.labels()
    elif epsilon is not None:
        bound = guessing_bound(shares, epsilon)
        kind = f"the best protocol of epsilon = {epsilon:g}"

    # What is guessed from all columns, and from those that are no reports.
    is_report = np.array([name in reported for name in frame.columns], bool)
    attacker = Attacker(estimator, cv, random_state, progress=progress)
    outcome = attacker.run(frame, truth)
    is_right = outcome.guesses == truth
    values = value_table(truth, outcome)
    values["auc_without_report"] = np.nan
    blind_accuracy, blind_error = None, None
    if reported:
        blind = attacker.run(frame.loc[:, ~is_report], truth)
        is_right_blind = blind.guesses == truth
        blind_accuracy = float(is_right_blind.mean())
        blind_error = _std_error(is_right_blind)
        values["auc_without_report"] = value_table(truth, blind)["auc"]
    values["auc_of_report"] = areas
    values.index = pd.Index(labels, name="value", tupleize_cols=False)
    carriers = pd.DataFrame(
        {
            "is_report": is_report,
            "alone": attacker.accuracies_of_columns(frame, truth),
            "drop": attacker.losses_of_columns(frame, truth, outcome),
        },
        index=pd.Index(list(frame.columns), name="column", tupleize_cols=False),
    )
    carriers = carriers.sort_values(["alone", "drop"], ascending=False, kind="stable")
    return AttackResult(
        accuracy=float(is_right.mean()),
        baseline=float(shares.max()),
        bayes_bound=bound,
        std_error=_std_error(is_right),
        n_rows=len(truth),
        bound=kind,
        accuracy_without_report=blind_accuracy,
        std_error_without_report=blind_error,
        carriers=carriers,
        report_accuracy=report_accuracy,
        values=values.sort_values("share", kind="stable"),
    )


def _check_options(cv: Any, estimator: Any) -> None:
    """Check the folds, the seed and the classifier."""
    if not isinstance(cv, Integral) or isinstance(cv, bool):
        raise TypeError(f"cv must be a number of folds, got {type(cv).__name__}")
    if cv < 2:
        raise ValueError(f"cv must be at least 2, got {cv}")
    if estimator is None:
        return
    is_instance = hasattr(estimator, "fit") and not isinstance(estimator, type)
    if not is_instance or not is_classifier(estimator):
        raise TypeError(
            f"estimator must be a classifier, got {name_of_kind(estimator)}"
        )


def _choose_columns(
    names: list[Any], known: Any, report: Any, encoder: Any
) -> tuple[list[Any], list[Any]]:
    """Return the visible columns, and the reports among them."""
    if encoder is not None:
        if isinstance(encoder, ReportTransformer):
            check_is_fitted(encoder)
        if getattr(getattr(encoder, "protocol_", None), "strategy", None) is None:
            raise TypeError(
                "encoder must be a fitted local transformer, got "
                f"{name_of_kind(encoder)}"
            )
    if known is None:
        known = names
    if report is None:
        report = [] if encoder is None else list(encoder.get_feature_names_out())
    for label, columns in (("report", report), ("known", known)):
        if isinstance(columns, str) or not isinstance(columns, Sequence):
            raise TypeError(
                f"{label} must be a list of column names, got {type(columns).__name__}"
            )
        absent = [name for name in columns if name not in names]
        if absent:
            raise ValueError(
                f"{label} names columns that X_released does not have: {absent}; it "
                f"has {names}"
            )
    visible = [name for name in names if name in report or name in known]
    return visible, list(report)


def _add_label(frame: pd.DataFrame, y: Any) -> pd.DataFrame:
    """Add the label to the visible columns."""
    if y is None:
        return frame
    label = read_columns(y, "y")
    if label.shape[1] != 1:
        raise ValueError(f"y must be one column, got {label.shape[1]}")
    if len(label) != len(frame):
        raise ValueError(f"X_released has {len(frame)} rows, y has {len(label)}")
    if label.columns[0] in frame.columns:
        raise ValueError(
            f"X_released has the column {label.columns[0]!r} of y already: give y=None"
        )
    return pd.concat([frame, label], axis=1)


def _combine(protected: pd.DataFrame) -> NDArray[np.intp]:
    """Assign a number to each combination of values."""
    columns = [column for _, column in protected.items()]
    codes = [factorize(column, missing=True)[0] for column in columns]
    combinations = np.column_stack(codes)
    return np.unique(combinations, axis=0, return_inverse=True)[1].reshape(-1)


def _std_error(is_right: NDArray[np.bool_]) -> float:
    """Return the standard error of a share of rows."""
    share = is_right.mean()
    return float(np.sqrt(share * (1 - share) / is_right.size))
