"""Group fairness when the group of a row is only known from a privatised report."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from statistics import NormalDist
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.exceptions import UndefinedMetricWarning

from skdp.base import check_confidence_level
from skdp.coding import is_missing, kind_of
from skdp.domain import Domain
from skdp.metrics._debiased_rates import IndicatorSums, find_defined, gradients, measures
from skdp.metrics._fairness import CONVENTION
from skdp.metrics._group_joint import read_labels
from skdp.metrics._group_reports import GroupReports, read_groups

_RATES = (
    ("selection rate", "P(ŷ=+)"),
    ("true positive rate", "TPR = P(ŷ=+ | y=+)"),
    ("false positive rate", "FPR = P(ŷ=+ | y=−)"),
)
_GROUPS = ("unprivileged", "privileged")
_COMPARISONS = (
    ("statistical parity difference", "P(ŷ=+): unprivileged − privileged"),
    ("disparate impact", "P(ŷ=+): unprivileged / privileged"),
    ("equal opportunity difference", "TPR: unprivileged − privileged"),
    ("average odds difference", "FPR&TPR: unprivileged − privileged"),
)


def debiased_fairness(
    y_true: Any,
    y_pred: Any,
    reports: Any,
    encoder: Any,
    *,
    privileged: Any,
    positive_label: Any,
    columns: Any = None,
    rows: str = "fixed",
    interval: str = "delta",
    confidence_level: float = 0.95,
    n_resamples: int = 2000,
    random_state: int | None = None,
) -> pd.DataFrame:
    """Measure how differently predictions treat two groups that were only ever reported with noise.

    A report taken for the truth makes groups look more alike than they are. Here the noise is inverted: each report
    becomes an unbiased indicator of its row's group, and rates are ratios of sums of these.

    Parameters
    ----------
    y_true : array-like or series of shape (n_samples,), or dataframe of one column
        True labels. Of several classes, all but the positive one count as negative.
    y_pred : array-like or series of shape (n_samples,), or dataframe of one column
        Predicted labels.
    reports : what the encoder's `transform` returns
        The privatised groups, a row for each label, matched by position.
    encoder : local transformer
        The fitted encoder that the reports come from, with ``strategy="split"`` or ``"joint"``, or of one column.
    privileged : value or list of values, or tuple or list of tuples
        The declared values (of an `Interval`, the labels of the bins) that make a row privileged; any other makes it
        unprivileged. For several columns a tuple has a value for each.
    positive_label : label
        The favourable label.
    columns : column name or list of column names, optional
        The columns that make up the group; by default all of the encoder. Columns that were reported apart are combined
        by the product of their inverses; jointly reported ones are summed over the columns left out.
    rows : {"fixed", "sampled"}, default="fixed"
        What the standard errors and intervals are about. ``"fixed"``: only the coins of the encoder are random, and the
        intervals cover what the metric would be on these very rows with their true groups. ``"sampled"``: the rows
        are independent draws too, and the intervals cover the metric of the population they come from.
    interval : {"delta", "bootstrap"}, default="delta"
        ``"delta"``: normal, by linearisation. ``"bootstrap"``: percentiles over resampled reports, within each
        combination of labels for fixed rows, with the deviations shrunk to the variance of the coins.
    confidence_level : float, default=0.95
        Coverage of each interval, between 0 and 1.
    n_resamples : int, default=2000
        How often reports are resampled, at least 100; for the bootstrap only.
    random_state : int, optional
        Seed of the resampling.

    Returns
    -------
    pandas.DataFrame
        A row a metric, with the columns ``metric, definition, value, std_error, lower, upper``: the selection, true
        positive and false positive rates of both groups, and the differences and the ratio of `fairness_report`, of
        the same definitions. As differences are *unprivileged − privileged*, below 0 the unprivileged group gets less.
        Nothing is cut to the possible range, as that would add a bias.

    Raises
    ------
    NotFittedError
        If the encoder is not fitted.
    TypeError
        If it is no local transformer of categories.
    ValueError
        If lengths differ, a label is missing, labels are of several kinds or none is positive, a privileged value is
        not declared, all or none are privileged, the reports are of another encoder, or a parameter is out of range.

    Warns
    -----
    UndefinedMetricWarning
        If what a metric divides by cannot be told from 0 at the confidence level: its value and interval are nan.

    See Also
    --------
    fairness_report : The same metrics for known groups.
    joint_distribution : The inverted distribution of labels, predictions and groups.

    Notes
    -----
    **Privacy.** As far as groups are concerned, post-processing of reports: free, and repeatable. y_true and y_pred are
    used as they are, and nothing here protects them.

    With ψ the unbiased indicator of a row (its mean over the coins is 1 if the row is privileged, else 0), ψ estimates
    a privileged row and 1 − ψ an unprivileged one. As an indicator is its own square, ψ² − ψ is an unbiased estimate
    of the variance of ψ over the coins, for any oracle: that is the variance behind ``rows="fixed"``. A ratio of
    unbiased sums has a bias of the order of its variance, far below its standard error wherever it is defined.

    How wrong the reports themselves would be: let a privileged value be reported as a privileged one with probability
    a, and an unprivileged one with probability b, the same for all values of a group (as for randomised response), and
    let π be the true share of the privileged among the rows of the rate (all, y = + or y = −). Then the difference of
    the rates of reported groups is the true one times ``(a − b) π (1 − π) / (ρ (1 − ρ))``, where
    ``ρ = a π + b (1 − π)``, up to sampling ([1]_, lemma 1, says when it is 0).

    References
    ----------
    .. [1] H. Mozannar, M. Ohannessian, N. Srebro (2020). Fair learning with private demographic data. ICML.
       arXiv:2002.11651

    Examples
    --------
    4,000 women, half of whom are qualified, and 6,000 men, likewise; of the qualified, 60 % and 80 % are hired.

    >>> import pandas as pd
    >>> from skdp import RandomizedResponseEncoder
    >>> people = pd.DataFrame({"sex": ["Female"] * 4_000 + ["Male"] * 6_000})
    >>> qualified = ([1] * 2_000 + [0] * 2_000) + ([1] * 3_000 + [0] * 3_000)
    >>> hired = ([1] * 1_200 + [0] * 2_800) + ([1] * 2_400 + [0] * 600 + [1] * 300 + [0] * 2_700)
    >>> encoder = RandomizedResponseEncoder(1.0, categories={"sex": ["Female", "Male"]}, random_state=0)
    >>> reports = encoder.fit_transform(people)
    >>> table = debiased_fairness(qualified, hired, reports, encoder, privileged="Male", positive_label=1)
    >>> table.drop(columns="definition").round(3)
                                  metric  value  std_error  lower  upper
    0       selection rate, unprivileged  0.315      0.012  0.292  0.337
    1         selection rate, privileged  0.442      0.008  0.427  0.458
    2   true positive rate, unprivileged  0.605      0.015  0.576  0.635
    3     true positive rate, privileged  0.801      0.011  0.781  0.822
    4  false positive rate, unprivileged  0.017      0.008  0.002  0.033
    5    false positive rate, privileged  0.089      0.005  0.078  0.100
    6      statistical parity difference -0.127      0.019 -0.165 -0.090
    7                   disparate impact  0.712      0.039  0.636  0.788
    8       equal opportunity difference -0.196      0.025 -0.245 -0.147
    9            average odds difference -0.134      0.014 -0.162 -0.106
    """
    check_choice("rows", rows, ("fixed", "sampled"))
    check_choice("interval", interval, ("delta", "bootstrap"))
    level = check_confidence_level(confidence_level)
    if not isinstance(n_resamples, int) or n_resamples < 100:
        raise ValueError(f"n_resamples must be an integer of at least 100, got {n_resamples!r}")
    groups = read_groups(reports, encoder, columns)
    cells = find_privileged(privileged, groups.domain)
    true, predicted = read_positive(groups, y_true, y_pred, positive_label)
    sums = IndicatorSums.of(indicate_privileged_rows(groups, cells), 2 * true + predicted)
    reach = -NormalDist().inv_cdf((1 - level) / 2)
    values = measures(sums.counts)
    values[~find_defined(sums, reach)] = np.nan
    if interval == "delta":
        std_error = np.sqrt(sums.variances(gradients(sums.counts), rows))
        lower, upper = values - reach * std_error, values + reach * std_error
    else:
        resampled = measures(sums.resample(rows, n_resamples, np.random.default_rng(random_state)))
        std_error = np.nanstd(resampled, axis=0, ddof=1)
        lower, upper = np.nanquantile(resampled, [(1 - level) / 2, (1 + level) / 2], axis=0)
    report = _label(np.stack([values, std_error, lower, upper]))
    report.attrs["confidence_level"] = confidence_level
    return report


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    """Refuse a parameter that is none of the given words.

    Parameters
    ----------
    name : str
        The parameter.
    value : object
        What came.
    choices : tuple of str
        What is expected.

    Raises
    ------
    ValueError
        If it is none of them.
    """
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be one of {choices}, got {value!r}")


def find_privileged(privileged: Any, domain: Domain) -> NDArray[np.bool_]:
    """Mark the privileged cells of a domain.

    Parameters
    ----------
    privileged : value or collection of values, or tuple or collection of tuples
        Declared values; a tuple has one for each of several columns.
    domain : Domain
        The columns of the group.

    Returns
    -------
    ndarray of shape (n_groups,), dtype bool
        True for the privileged cells.

    Raises
    ------
    ValueError
        If a value is not declared, or all or none are privileged.
    """
    several = len(domain.columns) > 1
    collection = isinstance(privileged, list | set | frozenset | np.ndarray | pd.Index | pd.Series)
    if not collection and not (isinstance(privileged, tuple) and (not several or _holds_tuples(privileged))):
        privileged = [privileged]
    marked = np.zeros(domain.sizes, bool)
    for cell in privileged:
        values = cell if several else (cell,)
        if not isinstance(values, tuple) or len(values) != len(domain.columns):
            raise ValueError(f"privileged must hold tuples with a value for each of {list(domain.columns)}")
        marked[tuple(_place(domain, name, value) for name, value in zip(domain.columns, values, strict=True))] = True
    if marked.all() or not marked.any():
        raise ValueError("privileged must name some of the declared groups, and not all of them")
    return marked.ravel()


def _holds_tuples(values: Iterable[Any]) -> bool:
    return all(isinstance(value, tuple) for value in values)


def _place(domain: Domain, name: Any, value: Any) -> int:
    value = None if is_missing(value) else value
    labels = domain[name].labels
    if value not in labels:
        raise ValueError(f"privileged holds a value that column {name!r} does not declare; it declares {list(labels)}")
    return labels.index(value)


def read_positive(groups: GroupReports, y_true: Any, y_pred: Any, positive_label: Any) -> list[NDArray[np.bool_]]:
    """Read which rows are positive, truly and as predicted.

    Parameters
    ----------
    groups : GroupReports
        The reports that belong to the labels.
    y_true, y_pred : array-like or series of shape (n_samples,), or dataframe of one column
        The labels.
    positive_label : label
        The favourable label.

    Returns
    -------
    list of two ndarrays of shape (n_samples,), dtype bool
        True and predicted ones.

    Raises
    ------
    ValueError
        If lengths differ, a label is missing, labels are of several kinds, or none is positive.
    """
    labels = read_labels(groups, y_true=y_true, y_pred=y_pred)
    kinds = {kind_of(value) for label in labels for value in label.categories}
    if len(kinds) > 1:
        raise ValueError(f"y_true and y_pred must hold labels of one kind, got {' and '.join(sorted(kinds))}")
    positive = [label.isin([positive_label]) for label in labels]
    if not any(mask.any() for mask in positive):
        raise ValueError("neither y_true nor y_pred holds a label that equals positive_label")
    return positive


def indicate_privileged_rows(groups: GroupReports, cells: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Turn reports into unbiased indicators of the privileged rows.

    Parameters
    ----------
    groups : GroupReports
        The reports.
    cells : ndarray of shape (n_groups,), dtype bool
        The privileged cells.

    Returns
    -------
    ndarray of shape (n_samples,)
        Numbers whose mean over the coins is 1 for a privileged row, and 0 for another.
    """
    return np.concatenate([part[:, cells].sum(axis=1) for _, part in groups.indicators()])


def _label(numbers: NDArray[np.float64]) -> pd.DataFrame:
    """Make the table of values, errors and limits, and warn of what is undefined."""
    undefined = np.isnan(numbers[0])
    numbers[:, undefined] = np.nan
    rates = [(f"{name}, {group}", definition) for name, definition in _RATES for group in _GROUPS]
    metrics, definitions = zip(*rates, *_COMPARISONS, strict=True)
    columns = dict(zip(("value", "std_error", "lower", "upper"), numbers, strict=True))
    table = pd.DataFrame({"metric": metrics, "definition": definitions} | columns)
    table.attrs["convention"] = CONVENTION
    if undefined.any():
        names = "; ".join(table.loc[undefined, "metric"])
        warnings.warn(
            f"undefined: {names}. What the definition divides by cannot be told from 0: there are too few such rows "
            "for this much noise",
            UndefinedMetricWarning,
            stacklevel=3,
        )
    return table
