"""Correlations and odds ratios of columns of which some are reports, by moments without bias."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from sklearn.utils.validation import assert_all_finite

from skdp.base import ColumnLike, check_choice, check_confidence_level
from skdp.local.protocol import SampleDesign, quantile
from skdp.survey._design import HiddenColumn, as_pandas, read_hidden
from skdp.survey._likelihood import Numbers
from skdp.survey._rows import warn_of_unexplained
from skdp.survey._shares import influence_blocks, read_sample

Measure = Literal["correlation", "odds_ratio"]


def estimate_associations(
    encoders: Any,
    X: Any,
    *,
    measure: Measure = "correlation",
    confidence_level: float = 0.95,
    sample_weight: ColumnLike | None = None,
    strata: ColumnLike | None = None,
    clusters: ColumnLike | None = None,
) -> pd.DataFrame:
    """Estimate correlations, or odds ratios, of true values from reports, for all pairs of columns.

    Parameters
    ----------
    encoders : fitted local transformer, ReportDesign, or list of them
        How the reported columns came about; each record reports all of them, by itself.
    X : dataframe
        The columns of the reports, and for correlations true numbers beside them.
    measure : {"correlation", "odds_ratio"}, default="correlation"
        Pearson's correlation of values that are numbers (two values that are no numbers count as 0 and 1); or the
        ratio of the odds of each value but the first, between each value but the first of the other column and that
        first one.
    confidence_level : float, default=0.95
        Coverage of each interval, between 0 and 1.
    sample_weight, strata, clusters : array-like of shape (n_samples,), optional
        How the rows were drawn from the population, as for the `estimate_counts` of `RandomizedResponseEncoder`.

    Returns
    -------
    pandas.DataFrame
        ``correlation, std_error, lower, upper``, or ``odds_ratio`` with the standard error of its logarithm, indexed by
        the two columns, or by column and value of both. Intervals are those of Fisher's z, or of the logarithm. Where
        the noise leaves a variance or a share at 0 or below, or a correlation at 1 or beyond, there is no finite error:
        what is not known is nan, and the interval all that is possible.

    Raises
    ------
    TypeError, ValueError
        If a column is missing, is no number where it must be, or holds what an encoder does not report; if there are
        fewer than two columns, a design has an unknown number, or records report a sample of the columns.

    See Also
    --------
    ReportLogisticRegression : Effects that hold for given other columns.

    Notes
    -----
    **Privacy.** Post-processing of reports: free, and repeatable. Weights, strata and clusters are not privatised.

    The vectors of two reports, one-hot on average, are independent given the record, so their products are unbiased
    for its combination of values: covariances need no correction, and variances are those of the estimated shares
    ([1]_, whose point estimates these are). Errors are linearised, by rows or clusters. A ``ModelWarning`` tells of a
    `ReportDesign` with reports whose share no truth explains.

    References
    ----------
    .. [1] D. W. Heck, M. Moshagen (2018). RRreg: an R package for correlation and regression analyses of randomized
       response data. Journal of Statistical Software 85(2).

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from skdp import RandomizedResponseEncoder
    >>> from skdp.survey import estimate_associations
    >>> rng = np.random.default_rng(0)
    >>> smokes = rng.choice([0, 1], 20_000)
    >>> drinks = np.where(rng.random(20_000) < 0.6, smokes, rng.choice([0, 1], 20_000))
    >>> truth = pd.DataFrame({"smokes": smokes, "drinks": drinks})
    >>> values = {"smokes": [0, 1], "drinks": [0, 1]}
    >>> encoder = RandomizedResponseEncoder(4.0, categories=values, random_state=0)
    >>> estimate_associations(encoder, encoder.fit_transform(truth)).round(2)
                   correlation  std_error  lower  upper
    first  second
    smokes drinks         0.61       0.01   0.58   0.63
    """
    check_choice("measure", measure, get_args(Measure))
    check_confidence_level(confidence_level)
    table = as_pandas(X)
    hidden = read_hidden(encoders, table, X)
    drawn = {"sample_weight": sample_weight, "strata": strata, "clusters": clusters}
    sample = read_sample(X, len(table), drawn)
    warn_of_unexplained(encoders, table[sample.weights > 0])
    reach = -quantile((1 - confidence_level) / 2, sample.degrees)
    if measure == "odds_ratio":
        return _odds_ratios(hidden, sample, reach)
    return _correlations(hidden, table, sample, reach)


@dataclass(frozen=True, eq=False)
class _Number:
    """A column of numbers: what each row adds to its mean, and to that of its square."""

    name: Any
    values: Numbers
    squares: Numbers


def _correlations(
    hidden: Sequence[HiddenColumn],
    table: pd.DataFrame,
    sample: SampleDesign,
    reach: float,
) -> pd.DataFrame:
    """Estimate the correlations of all pairs of columns."""
    numbers = [_number_of(column) for column in hidden]
    reported = {name for column in hidden for name in column.columns}
    for name in table.columns:
        if name not in reported:
            values = _true_numbers(table[name], name)
            numbers.append(_Number(name, values, values**2))
    _check_several(len(numbers))
    rows = {}
    for first, second in combinations(numbers, 2):
        rows[first.name, second.name] = _correlation(first, second, sample, reach)
    return _table(rows, "correlation", ["first", "second"])


def _number_of(column: HiddenColumn) -> _Number:
    """Return the values of a reported column as numbers."""
    try:
        values = np.array(column.values, float)
    except (TypeError, ValueError):
        if len(column.values) > 2:
            raise ValueError(
                f"the values of column {column.name!r} must be numbers for a "
                "correlation; measure='odds_ratio' takes any"
            ) from None
        values = np.array([0.0, 1.0])
    return _Number(column.name, column.vectors @ values, column.vectors @ values**2)


def _true_numbers(column: pd.Series, name: Any) -> Numbers:
    try:
        values = column.to_numpy(float)
    except (TypeError, ValueError):
        raise ValueError(
            f"column {name!r} must hold numbers, as no encoder reports it"
        ) from None
    assert_all_finite(values, input_name=f"column {name!r}")
    return values


def _check_several(n_columns: int) -> None:
    if n_columns < 2:
        raise ValueError("an association needs two columns or more")


def _correlation(
    first: _Number, second: _Number, sample: SampleDesign, reach: float
) -> tuple[float, float, float, float]:
    """Return a correlation, its error, and the ends of its interval."""
    unknown = (np.nan, np.inf, -1.0, 1.0)
    share = sample.weights / sample.weights.sum()
    x = first.values - share @ first.values
    y = second.values - share @ second.values
    x_squares = first.squares - 2 * (share @ first.values) * first.values
    y_squares = second.squares - 2 * (share @ second.values) * second.values
    # The variance of the truth is the mean square less the squared mean.
    x_squares = x_squares + (share @ first.values) ** 2
    y_squares = y_squares + (share @ second.values) ** 2
    x_variance, y_variance = share @ x_squares, share @ y_squares
    if x_variance <= 0 or y_variance <= 0:
        return unknown
    scale = np.sqrt(x_variance * y_variance)
    correlation = float(share @ (x * y)) / scale
    # To first order, by the slopes of the correlation in the three moments; those in
    # the means are 0, as all is centred.
    scores = x * y / scale
    scores = scores - correlation / 2 * (
        x_squares / x_variance + y_squares / y_variance
    )
    std_error = _std_error(scores * share, sample)
    if abs(correlation) >= 1:
        return correlation, std_error, -1.0, 1.0
    middle = np.arctanh(correlation)
    width = reach * std_error / (1 - correlation**2)
    return correlation, std_error, np.tanh(middle - width), np.tanh(middle + width)


def _std_error(influences: Numbers, sample: SampleDesign) -> float:
    blocks = influence_blocks(influences[:, np.newaxis])
    return float(np.sqrt(sample.variances(blocks)[0]))


def _odds_ratios(
    hidden: Sequence[HiddenColumn], sample: SampleDesign, reach: float
) -> pd.DataFrame:
    """Estimate the odds ratios of all pairs of reported columns."""
    _check_several(len(hidden))
    share = sample.weights / sample.weights.sum()
    rows = {}
    for first, second in combinations(hidden, 2):
        for place in range(1, len(first.values)):
            for other_place in range(1, len(second.values)):
                x = first.vectors[:, [0, place]]
                y = second.vectors[:, [0, other_place]]
                value, other_value = first.values[place], second.values[other_place]
                key = first.name, value, second.name, other_value
                rows[key] = _odds_ratio(x, y, share, sample, reach)
    names = ["first", "value of first", "second", "value of second"]
    return _table(rows, "odds_ratio", names)


def _odds_ratio(
    x: Numbers, y: Numbers, share: Numbers, sample: SampleDesign, reach: float
) -> tuple[float, float, float, float]:
    """Return the odds ratio of a pair of values, the error of its logarithm, and its interval."""
    products = x[:, :, np.newaxis] * y[:, np.newaxis, :]  # (n_rows, 2, 2)
    cells = np.einsum("i,iab->ab", share, products)
    if (cells <= 0).any():
        return np.nan, np.inf, 0.0, np.inf
    signs = np.array([[1, -1], [-1, 1]])
    logarithm = float((signs * np.log(cells)).sum())
    scores = ((products - cells) * (signs / cells)).sum(axis=(1, 2))
    std_error = _std_error(scores * share, sample)
    width = reach * std_error
    ends = np.array([logarithm, logarithm - width, logarithm + width])
    # Of a share next to 0, the upper end is beyond all floats.
    with np.errstate(over="ignore"):
        ratio, lower, upper = np.exp(ends).tolist()
    return ratio, std_error, lower, upper


def _table(
    rows: Mapping[tuple[Any, ...], Any], what: str, names: list[str]
) -> pd.DataFrame:
    index = pd.MultiIndex.from_tuples(list(rows), names=names)
    columns = [what, "std_error", "lower", "upper"]
    return pd.DataFrame(list(rows.values()), index=index, columns=columns)
