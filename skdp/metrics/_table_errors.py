"""Errors of counts and of synthetic tables: marginals, range queries, and models trained on the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.dummy import DummyClassifier
from sklearn.metrics import check_scoring

from skdp._arrays import Codes, ColumnLike, ColumnName, Floats, Indices, Mask, TableLike
from skdp.base import check_choice, check_column_name, to_array, warn_at_caller
from skdp.central.statistics import is_ordered
from skdp.domain import Categories, Domain, Interval
from skdp.metrics._labels import parse_classes, parse_column
from skdp.randomness import check_size
from skdp.tables import (
    ColumnError,
    Table,
    distinct_values,
    is_frame,
    to_dates,
    to_numbers,
    to_python,
    type_of_value,
    wrap_table,
)

# Types of bounds, as named by `type_of_value`, that a range of dates may have.
TIME_KINDS = ("date", "datetime")
TIME = "datetime64[us]"

MIN_CORRELATION = 0.1
"""Smallest correlation with a ratio: ratios to smaller correlations are mostly sampling error."""


def count_error(
    *,
    true: ColumnLike | TableLike,
    estimate: ColumnLike | TableLike,
    metric: str = "l1",
) -> float:
    """Compute the distance between true and estimated counts.

    Parameters
    ----------
    true, estimate : array-like of shape (n_cells,), or DataFrame with a column "count"
        True and estimated counts, or the DataFrame of `estimate_counts`, whose column
        "count" is used. Two pandas Series are matched by label, and other counts by
        position.
    metric : {"l1", "l2", "total_variation"}, default="l1"
        Distance to compute.

        - "l1" is the sum of the absolute errors.
        - "l2" is the Euclidean distance, which weights large errors more.
        - "total_variation" is half the sum of the absolute differences of the
          proportions, which is the largest error of the proportion of any set of cells.
          It is between 0 and 1, or larger if unbiased estimates are negative.

    Returns
    -------
    float
        The distance, at least 0.

    Raises
    ------
    ValueError
        If the counts are not 1-D, not numeric, missing or infinite, if they differ in
        length or labels, or if either sum is not positive for "total_variation".

    See Also
    --------
    skdp.Domain : Its `value_counts` are true counts with the labels of estimates.

    Notes
    -----
    **Privacy.** The result depends on the true counts and is not protected.

    The root mean square of the "l2" error of unbiased estimates of a local transformer
    is ``np.sqrt(encoder.count_variances(counts).sum())``.

    Examples
    --------
    >>> from skdp.metrics import count_error
    >>> count_error(true=[50, 30, 20], estimate=[45, 36, 19])
    12.0
    >>> count_error(true=[50, 30, 20], estimate=[47, 34, 20], metric="l2")
    5.0
    >>> count_error(true=[50, 30, 20], estimate=[4, 4, 2], metric="total_variation")
    0.1

    Two Series may have their rows in different orders:

    >>> import pandas as pd
    >>> true = pd.Series({"no": 7, "yes": 3})
    >>> count_error(true=true, estimate=pd.Series({"yes": 3.5, "no": 6.5}))
    1.0

    The table of `estimate_counts` is read by its column "count":

    >>> from skdp import RandomizedResponseEncoder
    >>> encoder = RandomizedResponseEncoder(1.0, categories=[["no", "yes"]], random_state=0)
    >>> reports = encoder.fit_transform(pd.DataFrame({"smokes": ["no"] * 7 + ["yes"] * 3}))
    >>> round(count_error(true=true, estimate=encoder.estimate_counts(reports)), 1)
    4.0
    """
    check_choice("metric", metric, ("l1", "l2", "total_variation"))
    true_counts, estimates = _match_counts(true, estimate)
    if metric == "total_variation":
        true_counts = _normalize(true_counts, "true")
        estimates = _normalize(estimates, "estimate")
    difference = estimates - true_counts
    if metric == "l2":
        return float(np.linalg.norm(difference))
    distance = float(np.abs(difference).sum())
    return distance / 2 if metric == "total_variation" else distance


def _match_counts(
    true: ColumnLike | TableLike, estimate: ColumnLike | TableLike
) -> tuple[Floats, Floats]:
    """Return true and estimated counts in the order of `true`."""
    true, estimate = _select_counts(true), _select_counts(estimate)
    true_counts = _convert_counts(true, "true")
    estimates = _convert_counts(estimate, "estimate")
    if true_counts.ndim != 1 or true_counts.shape != estimates.shape:
        raise ValueError(
            "`true` and `estimate` must be 1-D and have the same shape, got "
            f"{true_counts.shape} and {estimates.shape}. Count the true values by "
            "Domain.value_counts, and compare separate columns one at a time."
        )
    # Arrays and lists have no labels and are matched by position.
    if isinstance(true, pd.Series) and isinstance(estimate, pd.Series):
        estimates = estimates[_match_labels(true.index, estimate.index)]
    return true_counts, estimates


def _select_counts(counts: ColumnLike | TableLike) -> Any:
    """Return the column "count" of a DataFrame; return other counts unchanged."""
    # `estimate_counts` returns a table with standard errors and intervals beside it.
    if isinstance(counts, pd.DataFrame) and "count" in counts.columns:
        return counts["count"]
    return counts


def _convert_counts(values: ColumnLike, name: str) -> Floats:
    """Convert counts to an array of floats; raise an error unless all are finite numbers."""
    array = values if isinstance(values, pd.Series) else to_array(values, name)
    cells = np.asarray(array, object)
    is_absent = pd.isna(cells)
    for cell in cells[~is_absent]:
        # NumPy would convert "3" and True to numbers.
        if isinstance(cell, bool) or not isinstance(cell, Real):
            raise ValueError(
                f"`{name}` must contain only numbers, got a value of type "
                f"{type(cell).__name__}."
            )
    numbers = np.where(is_absent, np.nan, cells).astype(np.float64)
    if not np.isfinite(numbers).all():
        raise ValueError(f"`{name}` must be finite, got a missing or infinite number.")
    return numbers


def _match_labels(true: pd.Index, estimate: pd.Index) -> Indices:
    """Return the index of each true label among the labels of the estimate."""
    labels, estimate_labels = (
        pd.Index(convert_labels(index), dtype=object, tupleize_cols=False)
        for index in (true, estimate)
    )
    if not (labels.is_unique and estimate_labels.is_unique):
        raise ValueError("`true` and `estimate` must have distinct labels.")
    indices = estimate_labels.get_indexer(labels)
    if (indices < 0).any():
        raise ValueError(
            "`true` and `estimate` must have the same labels. Use "
            "`domain.value_counts(X)` for `true`."
        )
    return indices


def convert_labels(index: pd.Index) -> list[Any]:
    """Convert the labels of an index to Python objects, which can be compared by ``==``."""
    # pandas does not match None with nan, or a categorical index with text.
    if index.nlevels > 1:
        return [tuple(map(_convert_level_value, label)) for label in index]
    return list(map(to_python, index.get_level_values(0)))


def _convert_level_value(level_value: object) -> Any:
    """Convert a value of one level of a MultiIndex to a Python object."""
    # `estimate_counts` writes booleans as text if the level also has the number 0 or 1.
    value = to_python(level_value)
    return str(value) if isinstance(value, bool) else value


def _normalize(counts: Floats, name: str) -> Floats:
    """Divide counts by their sum; raise an error if the sum is not positive."""
    # Unbiased estimates may be negative, and so may their sum.
    total = counts.sum()
    if total <= 0:
        raise ValueError(
            f"`{name}` must have counts with a positive sum, got 0 or less."
        )
    return counts / total


def marginal_errors(
    real: TableLike,
    synthetic: TableLike,
    *,
    order: int = 2,
    domain: Mapping[Any, Any] | Domain | None = None,
) -> pd.DataFrame:
    """Compute the total variation distance of each marginal of `order` columns.

    Parameters
    ----------
    real, synthetic : dataframe or 2-D array-like of shape (n_rows, n_columns)
        Real and synthetic rows: pandas, polars or pyarrow tables, or arrays, with the
        same columns, in any order if they have names.
    order : int, default=2
        Number of columns of a marginal, at least 1.
    domain : Domain or mapping of column name to values or Interval, default=None
        Values of columns. Use an `Interval` to compare the bins of a numeric column. All
        undeclared and missing values together count as one further value. A column that
        is not declared has the values that occur in either table.

    Returns
    -------
    pandas.DataFrame
        One row per marginal: ``columns`` (a tuple of names) and ``error``: 0 if all
        proportions are equal, 1 if no cell contains rows of both tables. The mean of
        ``error`` summarizes all marginals. With ``order=2``, ``kept`` is the rank
        correlation of the synthetic rows divided by that of the real rows, which may be
        lost in spite of small errors of cells: nan if a column has no order, such as
        text, or if the real correlation is below 0.1 in absolute value.

    Raises
    ------
    TypeError, ValueError
        If the tables have no rows or different columns, a column has values of
        different types in the two tables, or a parameter does not match the columns.

    See Also
    --------
    range_query_error : Error of the answers to queries.
    skdp.Domain : Its `value_counts` are the counts of a marginal, to plot them.

    Notes
    -----
    **Privacy.** The result depends on the real rows and is not protected.

    The total variation distance is half the sum of the absolute differences of the
    proportions. Some papers report the L1 distance, which is twice as large.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp import Interval
    >>> from skdp.metrics import marginal_errors
    >>> real = pd.DataFrame({"sex": ["F", "F", "M", "M"], "smokes": ["no", "no", "no", "yes"], "age": [20, 30, 40, 50]})
    >>> synthetic = pd.DataFrame({"sex": ["F", "M"], "smokes": ["no", "yes"], "age": [31, 49]})
    >>> marginal_errors(real, synthetic, domain={"age": Interval(edges=[0, 35, 120])})
               columns  error  kept
    0    (sex, smokes)   0.25   NaN
    1       (sex, age)   0.00   NaN
    2    (smokes, age)   0.25   NaN
    """
    tables = _read_table("real", real), _read_table("synthetic", synthetic)
    names, other_names = (list(table.names) for table in tables)
    _check_equal_names("real", other_names, names)
    check_size(order, min_val=1, max_val=len(names), name="order")
    codes, ranked = _code_columns(tables, names, domain)
    n_real = len(tables[0].columns[0])
    marginals = list(combinations(names, order))
    errors = [_total_variation(codes[list(m)], n_real) for m in marginals]
    result = pd.DataFrame({"columns": marginals, "error": errors})
    if order == 2:
        parts = ranked[:n_real], ranked[n_real:]
        kept = divide_correlations(*parts).to_dict()
        result["kept"] = [kept.get(a, {}).get(b, np.nan) for a, b in marginals]
    return result


def divide_correlations(real: pd.DataFrame, synthetic: pd.DataFrame) -> pd.DataFrame:
    """Divide the rank correlations of synthetic columns by the real ones; nan where these are near 0."""
    correlations, others = (table.corr("spearman") for table in (real, synthetic))
    return others / correlations.where(correlations.abs() >= MIN_CORRELATION)


def _total_variation(codes: pd.DataFrame, n_real: int) -> float:
    """Return the total variation distance of the first `n_real` rows of codes from the synthetic rows after them."""
    # The number of possible cells may exceed 2**64, so only occurring cells are counted.
    cells = codes.groupby(list(codes), sort=False).ngroup().to_numpy()
    real = np.bincount(cells[:n_real], minlength=cells.max() + 1)
    synthetic = np.bincount(cells[n_real:], minlength=len(real))
    # The difference of integers is exact.
    n_synthetic = len(cells) - n_real
    difference = np.abs(real * n_synthetic - synthetic * n_real)
    return int(difference.sum()) / (2 * n_real * n_synthetic)


def _code_columns(
    tables: tuple[Table, Table],
    names: list[Any],
    domain: Mapping[Any, Any] | Domain | None,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the codes of all columns, and of the ordered columns; real rows precede synthetic rows.

    In ordered columns, missing and undeclared values are nan.
    """
    # Both tables have the same codes, because a value may occur in one of them only.
    declared = {} if domain is None else Domain(domain)
    codes, ranked = {}, {}
    for name in names:
        columns = [_select_column(table, name) for table in tables]
        values: Any = declared.get(name)
        if values is None:
            values = _observed_values(name, columns)
        parts = [_encode(name, values, column) for column in columns]
        codes[name] = np.concatenate(parts)
        if is_ordered(values):
            is_interval = isinstance(values, Interval)
            listed = values.edges[1:] if is_interval else values.values
            n_ordered = len(listed) - (listed[-1] is None)
            ranked[name] = np.where(codes[name] < n_ordered, codes[name], np.nan)
    return pd.DataFrame(codes), pd.DataFrame(ranked)


def _encode(
    name: ColumnName, values: Categories | Interval, column: ColumnLike
) -> Codes:
    """Return the index of each cell in `values`, or ``len(values)`` if it is outside."""
    (codes,) = Domain({name: values}).encode([column])
    return codes


def _observed_values(name: ColumnName, columns: list[Any]) -> Categories:
    """Return the sorted values that occur in the real or the synthetic column."""
    try:
        (real, has_missing), (synthetic, also_missing) = map(distinct_values, columns)
        # Columns with the values 1 and "1" would have no value in common.
        types = {type_of_value(values[0]) for values in (real, synthetic) if values}
        if len(types) > 1:
            raise ColumnError(f"must have values of one type, got {sorted(types)}")
    except ColumnError as error:
        raise ValueError(f"Column {name!r} {error}.") from None
    values = sorted({*real, *synthetic})
    if has_missing or also_missing:
        values.append(None)
    try:
        return Categories(values)
    except (TypeError, ValueError) as error:
        raise ValueError(f"Column {name!r}: {error}") from None


def _read_table(label: str, data: TableLike) -> Table:
    """Read a dataframe or 2-D array; raise an error if it has no rows or no columns."""
    if not is_frame(data):
        data = to_array(data, label)
        if data.ndim != 2:
            raise ValueError(
                f"`{label}` must be a dataframe or a 2-D array, got {data.ndim} "
                "dimensions."
            )
    table = wrap_table(data)
    if not table.names:
        raise ValueError(f"`{label}` must have at least one column, got none.")
    if len(table.columns[0]) == 0:
        raise ValueError(f"`{label}` must have at least one row, got none.")
    return table


def _select_column(table: Table, name: ColumnName) -> Any:
    """Return a column of a table by name."""
    if name not in table.names:
        raise ValueError(
            f"The table must have the column {name!r}, got {list(table.names)}."
        )
    return table.columns[table.names.index(name)]


def range_query_error(
    real: TableLike, synthetic: TableLike, queries: Iterable[Mapping[Any, Any]]
) -> float:
    """Compute the mean absolute error of range queries, as a proportion of the rows.

    A query counts the rows that satisfy a condition on each of its columns: a range of
    numbers or dates, or a set of values.

    Parameters
    ----------
    real, synthetic : dataframe or 2-D array-like of shape (n_rows, n_columns)
        Real and synthetic rows: pandas, polars or pyarrow tables, or arrays, with the
        columns of the queries.
    queries : iterable of mappings
        Each query is a mapping of column name to condition. A condition is a tuple
        ``(low, high)`` for ``low <= value < high``, one of which may be None, or a list
        of values, where None is a missing value.

    Returns
    -------
    float
        The mean, over the queries, of the absolute difference between the proportions
        of real and of synthetic rows that satisfy the query, from 0 to 1.

    Raises
    ------
    TypeError, ValueError
        If the tables have no rows, or the queries do not match the columns.

    See Also
    --------
    marginal_errors : Error of all cells of marginals.

    Notes
    -----
    **Privacy.** The result depends on the real rows and is not protected.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp.metrics import range_query_error
    >>> real = pd.DataFrame({"age": [20, 30, 40, 50], "sex": ["F", "F", "M", "M"]})
    >>> synthetic = pd.DataFrame({"age": [25, 45], "sex": ["F", "F"]})
    >>> range_query_error(real, synthetic, [{"age": (18, 38)}, {"age": (38, None), "sex": ["M"]}])
    0.25
    """
    tables = _read_table("real", real), _read_table("synthetic", synthetic)
    errors = []
    for query in queries:
        if not isinstance(query, Mapping) or not query:
            raise TypeError(
                "Each query must be a non-empty mapping of column name to condition, "
                f"got {type(query).__name__}."
            )
        real_proportion, synthetic_proportion = (
            _answer_query(table, query) for table in tables
        )
        errors.append(abs(real_proportion - synthetic_proportion))
    if not errors:
        raise ValueError("`queries` must have at least one query, got none.")
    return float(np.mean(errors))


def _answer_query(table: Table, query: Mapping[Any, Any]) -> float:
    """Return the proportion of the rows that satisfy all conditions of a range query."""
    is_selected: Any = True
    for name, condition in query.items():
        column = _select_column(table, name)
        if isinstance(condition, tuple):
            is_selected &= _is_in_range(name, column, condition)
        elif isinstance(condition, list):
            is_selected &= _is_among(name, column, condition)
        else:
            raise TypeError(
                f"The condition on column {name!r} must be a tuple (low, high) or a "
                f"list of values, got {type(condition).__name__}."
            )
    return float(np.mean(is_selected))


def _is_in_range(name: ColumnName, column: ColumnLike, bounds: tuple[Any, ...]) -> Mask:
    """Return a mask of the rows with ``low <= value < high``, False for missing values."""
    types = {type_of_value(bound) for bound in bounds if bound is not None}
    is_time = types <= {*TIME_KINDS}
    if len(bounds) != 2 or not types or not (is_time or types == {"number"}):
        raise ValueError(
            f"The range of column {name!r} must be (low, high) of numbers or dates, one "
            "of them may be None. Use a list for a set of values."
        )
    try:
        values: Any = (
            to_dates(column, TIME) if is_time else to_numbers(column).astype(float)
        )
    except ColumnError as error:
        raise ValueError(f"Column {name!r}: {error}.") from None
    low, high = (np.datetime64(end, "us") if end and is_time else end for end in bounds)
    if low is not None and high is not None and not low < high:
        raise ValueError(f"The range of column {name!r} must have low < high.")
    # Comparisons with missing values are False.
    is_inside = np.ones(len(values), bool)
    if low is not None:
        is_inside &= values >= low
    if high is not None:
        is_inside &= values < high
    return is_inside


def _is_among(name: ColumnName, column: ColumnLike, values: list[Any]) -> Mask:
    """Return a mask of the rows with one of the values of a condition."""
    try:
        codes = _encode(name, Categories(values), column)
    except (TypeError, ValueError) as error:
        raise ValueError(f"The condition on column {name!r}: {error}") from None
    # Values that are not listed have the code ``len(values)``.
    return codes < len(values)


def train_on_synthetic(
    estimator: BaseEstimator,
    synthetic: TableLike,
    real_test: TableLike,
    *,
    target: ColumnName,
    scoring: str | Sequence[str] | Callable[..., float | dict[str, float]] = "roc_auc",
    real_train: TableLike | None = None,
) -> pd.DataFrame:
    """Train a model on synthetic rows and score it on real rows.

    This is also called TSTR, "train on synthetic, test on real" [1]_. If the score is
    close to the score of a model that is trained on real rows, the synthetic rows can
    replace the real rows for training.

    Parameters
    ----------
    estimator : estimator
        Classifier or regressor of scikit-learn, or a Pipeline that ends in one. It is
        cloned, and must accept the features unprocessed.
    synthetic : dataframe
        Synthetic rows to train on.
    real_test : dataframe
        Real rows to score on. They must not be used by the synthesizer or in
        `real_train`. The columns may be in any order.
    target : column name
        Column to predict.
    scoring : str, callable, or list of str, default="roc_auc"
        Names of scikit-learn's scores, or a scorer ``f(estimator, X, y)``.
    real_train : dataframe, default=None
        Real rows to train on for comparison.

    Returns
    -------
    pandas.DataFrame
        Scores, one column per score. The row "synthetic" is the model trained on
        synthetic rows; the row "real", if `real_train` is given, the model trained on
        real rows.

    Raises
    ------
    TypeError, ValueError
        If a table has no rows, lacks the target or has missing values in it, or the
        columns differ.

    Warns
    -----
    UserWarning
        If all rows to train a classifier on have the same class. The score is then
        computed for a constant prediction, whose AUC is 0.5.

    See Also
    --------
    marginal_errors : Error of marginals, without a model.

    Notes
    -----
    **Privacy.** The scores depend on the real rows and are not protected. A model that
    is trained on private synthetic rows is private.

    References
    ----------
    .. [1] C. Esteban, S. L. Hyland, G. Rätsch (2017). Real-valued (medical) time series
       generation with recurrent conditional GANs. arXiv:1706.02633.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skdp.metrics import train_on_synthetic
    >>> train = pd.DataFrame({"age": [25, 35, 45, 55], "buys": ["no", "no", "yes", "yes"]})
    >>> test = pd.DataFrame({"age": [20, 30, 42, 50], "buys": ["no", "no", "yes", "yes"]})
    >>> synthetic = pd.DataFrame({"age": [25, 55, 55, 65], "buys": ["no", "no", "yes", "yes"]})
    >>> train_on_synthetic(LogisticRegression(), synthetic, test, target="buys", scoring=["roc_auc", "accuracy"],
    ...                    real_train=train)
                roc_auc  accuracy
    trained_on
    synthetic       1.0       0.5
    real            1.0       1.0
    """
    check_column_name("target", target)
    read_target = parse_classes if is_classifier(estimator) else parse_column
    tables = {"synthetic": synthetic, "real_train": real_train, "real_test": real_test}
    features, targets = {}, {}
    names: list[Any] = []
    for label, table in tables.items():
        if table is not None:
            # The features of all tables have the order of the synthetic table.
            features[label], y, names = _split_target(label, table, target, names)
            targets[label] = read_target(y, f"{label}[{target!r}]")
    scorer = check_scoring(estimator, scoring)
    X_test, y_test = features.pop("real_test"), targets["real_test"]
    rows = {}
    for label, X in features.items():
        model = _fit_model(estimator, X, targets[label], y_test, label)
        score = scorer(model, X_test, y_test)
        # A scorer with several metrics returns a dict.
        if not isinstance(score, dict):
            score_name = getattr(scoring, "__name__", "score")
            score = {scoring if isinstance(scoring, str) else score_name: score}
        rows[label.removesuffix("_train")] = score
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("trained_on")


def _split_target(
    label: str, data: TableLike, target: ColumnName, names: list[Any]
) -> tuple[Any, Any, list[Any]]:
    """Return the features of a table, its target, and the names of the features.

    Features have the order of `names`, or their order in the table if `names` is empty.
    """
    table = _read_table(label, data)
    y = _select_column(table, target)
    features = [name for name in table.names if name != target]
    if not features:
        raise ValueError(f"`{label}` must have a column besides the target, got none.")
    names = names or features
    _check_equal_names(label, names, features)
    return (
        table.rebuild([_select_column(table, name) for name in names], names),
        y,
        names,
    )


def _check_equal_names(label: str, names: list[Any], columns: list[Any]) -> None:
    """Raise an error if a table does not have the column names of the synthetic table."""
    if different := set(names) ^ set(columns):
        raise ValueError(
            f"`{label}` and `synthetic` must have the same columns, got columns in one of "
            f"them only: {sorted(different, key=str)}."
        )


def _fit_model(
    estimator: BaseEstimator, X: TableLike, y: pd.Series, y_test: pd.Series, label: str
) -> Any:
    """Fit a clone of the estimator, or a constant prediction if y has one class.

    `y_test` is the target of the real test rows, and `label` the name of the training table in messages.
    """
    if not is_classifier(estimator):
        return clone(estimator).fit(X, y)
    # 1 and "1" are two classes, so every prediction would be wrong.
    kinds = set(map(type_of_value, y.unique()))
    if kinds.isdisjoint(map(type_of_value, y_test.unique())):
        raise ValueError(
            f"The targets of `{label}` and `real_test` must have values of the same "
            "type. Convert one of them."
        )
    if y.nunique() > 1:
        return clone(estimator).fit(X, y)
    warn_at_caller(
        f"All rows of `{label}` have the same class, so the score is computed for a "
        "constant prediction",
        UserWarning,
        about="guide/synthetic_tables#train-a-model",
    )
    # A scorer requires a probability for each class of the test rows, so the constant
    # model is fitted on one row of each class.
    constant = y.iloc[0]
    classes = [constant, *y_test.unique()]
    model = DummyClassifier(strategy="constant", constant=[constant])
    return model.fit(np.zeros((len(classes), 1)), classes)
