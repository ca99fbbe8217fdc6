"""Errors of synthetic tables: marginals, answers to range queries, and models trained on them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.dummy import DummyClassifier
from sklearn.metrics import check_scoring

from skdp.base import ColumnName, TableLike, to_array
from skdp.domain import Categories, Domain, DomainLike, Interval
from skdp.metrics._inputs import parse_classes, parse_column
from skdp.pages import warn
from skdp.randomness import check_size
from skdp.tables import (
    ColumnError,
    Table,
    distinct_values,
    is_frame,
    to_dates,
    to_numbers,
    type_of_value,
    wrap_table,
)

Query = Mapping[Any, Any]
Values = Categories | Interval

OUTSIDE = "outside the domain"
TIME_KINDS = ("date", "datetime")


def marginal_error(
    real: TableLike,
    synthetic: TableLike,
    *,
    order: int = 2,
    domain: DomainLike | None = None,
) -> float:
    """Compute the mean total-variation distance of all marginals of an order.

    Parameters
    ----------
    real, synthetic : dataframe or 2-D array-like of shape (n_rows, n_columns)
        Real and synthetic rows: pandas, polars or pyarrow tables, or arrays, with the
        same columns, in any order if they have names.
    order : int, default=2
        Number of columns of a marginal.
    domain : Domain or mapping of column name to values or Interval, default=None
        Values of columns. A numeric column with many values needs an `Interval`.
        Undeclared and missing values count as one more value. The values of a column
        that is not declared are the values that occur in either table.

    Returns
    -------
    float
        The mean of ``marginal_errors(...)["error"]``: 0 if all proportions are equal, 1
        if no cell of a marginal has rows of both tables.

    Raises
    ------
    TypeError, ValueError
        If the tables have no rows or different columns, a column has values of
        different types in the two tables, or a parameter does not fit the columns.

    See Also
    --------
    marginal_errors : Error of each marginal.
    range_query_error : Error of the answers to queries.

    Notes
    -----
    **Privacy.** The result depends on the real rows and is not protected.

    The total-variation distance is half the sum of the absolute differences of the
    proportions. Some papers report the L1 distance, which is twice as large.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp.metrics import marginal_error
    >>> real = pd.DataFrame({"sex": ["F", "F", "M", "M"], "smokes": ["no", "no", "yes", "yes"]})
    >>> synthetic = pd.DataFrame({"sex": ["F", "F", "M", "M"], "smokes": ["no", "yes", "no", "yes"]})
    >>> marginal_error(real, synthetic, order=1), marginal_error(real, synthetic, order=2)
    (0.0, 0.5)
    """
    errors = marginal_errors(real, synthetic, order=order, domain=domain)
    return float(errors["error"].mean())


def marginal_errors(
    real: TableLike,
    synthetic: TableLike,
    *,
    order: int = 2,
    domain: DomainLike | None = None,
) -> pd.DataFrame:
    """Compute the total-variation distance of each marginal of an order.

    Parameters
    ----------
    real, synthetic, order, domain : dataframe, dataframe, int and Domain
        As for `marginal_error`.

    Returns
    -------
    pandas.DataFrame
        One row per marginal: ``columns`` (a tuple of names) and ``error``, from 0 to 1.

    Raises
    ------
    TypeError, ValueError
        As for `marginal_error`.

    See Also
    --------
    marginal_error : Mean over all marginals.
    skdp.evaluation.MarginalDisplay : Plot of marginals.

    Notes
    -----
    **Privacy.** The result depends on the real rows and is not protected.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp import Interval
    >>> from skdp.metrics import marginal_errors
    >>> real = pd.DataFrame({"sex": ["F", "F", "M", "M"], "smokes": ["no", "no", "no", "yes"], "age": [20, 30, 40, 50]})
    >>> synthetic = pd.DataFrame({"sex": ["F", "M"], "smokes": ["no", "yes"], "age": [31, 49]})
    >>> marginal_errors(real, synthetic, domain={"age": Interval(edges=[0, 35, 120])})
               columns  error
    0    (sex, smokes)   0.25
    1       (sex, age)   0.00
    2    (smokes, age)   0.25
    """
    tables = _check_table("real", real), _check_table("synthetic", synthetic)
    names, other_names = (list(table.names) for table in tables)
    if set(names) != set(other_names):
        raise ValueError(
            "real and synthetic must have the same columns; in one of them only: "
            f"{sorted(set(names) ^ set(other_names), key=str)}"
        )
    check_size(order, min_val=1, max_val=len(names), name="order")
    _, codes = _code_columns(tables, names, domain)
    n_real = len(tables[0].columns[0])
    marginals = list(combinations(names, order))
    errors = [_total_variation(codes[list(m)], n_real) for m in marginals]
    return pd.DataFrame({"columns": marginals, "error": errors})


def _total_variation(codes: pd.DataFrame, n_real: int) -> float:
    # The number of all cells may exceed 2**64, so only occurring cells are counted.
    cells = codes.groupby(list(codes), sort=False).ngroup().to_numpy()
    real = np.bincount(cells[:n_real], minlength=cells.max() + 1)
    synthetic = np.bincount(cells[n_real:], minlength=len(real))
    # The difference of integers is exact.
    n_synthetic = len(cells) - n_real
    difference = np.abs(real * n_synthetic - synthetic * n_real)
    return int(difference.sum()) / (2 * n_real * n_synthetic)


def marginal_table(
    real: TableLike,
    synthetic: TableLike,
    columns: Sequence[ColumnName],
    *,
    domain: DomainLike | None = None,
) -> pd.DataFrame:
    """Return the real and the synthetic proportions of all cells of a marginal."""
    names = list(columns)
    tables = _check_table("real", real), _check_table("synthetic", synthetic)
    labels, codes = _code_columns(tables, names, domain)
    sizes = list(map(len, labels.values()))
    n_cells = math.prod(sizes)
    if n_cells > 1 << 22:  # a table of 100 MB
        raise ValueError(
            f"the marginal of {names} must have at most 2**22 cells, got {n_cells}. "
            "Declare fewer values in domain."
        )
    index = pd.MultiIndex.from_product(list(labels.values()), names=names)
    cells = np.ravel_multi_index(list(codes.to_numpy().T), sizes)
    n_real = len(tables[0].columns[0])
    proportions = {}
    for name, part in {"real": cells[:n_real], "synthetic": cells[n_real:]}.items():
        proportions[name] = np.bincount(part, minlength=n_cells) / len(part)
    if len(names) == 1:
        return pd.DataFrame(proportions, index=index.get_level_values(0))
    return pd.DataFrame(proportions, index=index)


def _code_columns(
    tables: tuple[Table, Table], names: list[Any], domain: Any
) -> tuple[dict[Any, list[Any]], pd.DataFrame]:
    """Return labels of columns, and their codes in both tables, the real rows first."""
    # A value that is absent from a table has the proportion 0 in it.
    declared = _list_declared(domain)
    labels, codes = {}, {}
    for name in names:
        columns = [_column(table, name) for table in tables]
        values = declared.get(name)
        if values is None:
            values = _observed_values(name, columns)
        parts = [_encode(name, values, column) for column in columns]
        codes[name] = np.concatenate(parts)
        labels[name] = list(values.labels)
        # Missing and undeclared values have the last code.
        if (codes[name] == len(values)).any():
            labels[name].append(OUTSIDE)
    return labels, pd.DataFrame(codes)


def _encode(name: Any, values: Values, column: Any) -> NDArray[np.unsignedinteger]:
    (codes,) = Domain({name: values}).encode([column])
    return codes


def _observed_values(name: Any, columns: list[Any]) -> Categories:
    """Return the values that occur in either table."""
    real, real_missing = _distinct_values(name, columns[0], "real")
    synthetic, synthetic_missing = _distinct_values(name, columns[1], "synthetic")
    # 1 and "1" would have no value in common.
    if real and synthetic and type_of_value(real[0]) != type_of_value(synthetic[0]):
        raise ValueError(
            f"column {name!r} must have values of one type, got {type_of_value(real[0])} in "
            f"real and {type_of_value(synthetic[0])} in synthetic"
        )
    values = sorted({*real, *synthetic})
    if real_missing or synthetic_missing:
        values.append(None)
    try:
        return Categories(values)
    except (TypeError, ValueError) as error:
        raise ValueError(f"column {name!r}: {error}") from None


def _distinct_values(name: Any, column: Any, label: str) -> tuple[list[Any], bool]:
    try:
        return distinct_values(column)
    except ColumnError as error:
        raise ValueError(f"column {name!r} of {label} {error}") from None


def _check_table(label: str, data: Any) -> Table:
    if not is_frame(data):
        data = to_array(data, label)
        if data.ndim != 2:
            raise ValueError(
                f"{label} must be a dataframe or a 2-D array, got {data.ndim} dimensions"
            )
    table = wrap_table(data)
    if not table.names:
        raise ValueError(f"{label} has no columns")
    if len(table.columns[0]) == 0:
        raise ValueError(f"{label} has no rows")
    return table


def _column(table: Table, name: Any) -> Any:
    if name not in table.names:
        raise ValueError(
            f"the table has no column {name!r}; it has {list(table.names)}"
        )
    return table.columns[table.names.index(name)]


def _list_declared(domain: Any) -> dict[Any, Values]:
    """Return the declared values of columns."""
    if domain is None:
        return {}
    if not isinstance(domain, Domain | Mapping):
        raise TypeError(
            "domain must be a Domain or a mapping of column name to values, got "
            f"{type(domain).__name__}"
        )
    declared = domain if isinstance(domain, Domain) else Domain(domain)
    return {name: declared[name] for name in declared.columns}


def range_query_error(
    real: TableLike, synthetic: TableLike, queries: Iterable[Query]
) -> float:
    """Compute the mean error of the answers to range queries, as a proportion of the records.

    A query counts the rows that satisfy a condition on each of its columns: a range of
    numbers or dates, or a set of values.

    Parameters
    ----------
    real, synthetic : dataframe or 2-D array-like of shape (n_rows, n_columns)
        Real and synthetic rows: pandas, polars or pyarrow tables, or arrays, with the
        columns of the queries.
    queries : iterable of mappings
        Mappings of column name to condition: a tuple ``(low, high)`` for ``low <= value
        < high`` (None for no bound), or a list of values, with None for missing.

    Returns
    -------
    float
        The mean absolute difference of the proportions of real and synthetic rows that
        satisfy a query, from 0 to 1.

    Raises
    ------
    TypeError, ValueError
        If the tables have no rows, or the queries do not fit the columns.

    See Also
    --------
    marginal_error : Error of all cells of marginals.

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
    tables = _check_table("real", real), _check_table("synthetic", synthetic)
    errors = []
    for query in queries:
        if not isinstance(query, Mapping) or not query:
            raise TypeError(
                "a query must be a mapping of column name to condition, got "
                f"{type(query).__name__}"
            )
        real_share, synthetic_share = (_answer(table, query) for table in tables)
        errors.append(abs(real_share - synthetic_share))
    if not errors:
        raise ValueError("queries must have at least one query")
    return float(np.mean(errors))


def _answer(table: Table, query: Query) -> float:
    """Return the proportion of the rows that satisfy all conditions."""
    is_selected: Any = True
    for name, condition in query.items():
        column = _column(table, name)
        if isinstance(condition, tuple):
            is_selected &= _is_in_range(name, column, condition)
        elif isinstance(condition, str | bytes | Mapping) or not isinstance(
            condition, Iterable
        ):
            raise TypeError(
                f"the condition on column {name!r} must be a tuple (low, high) or a "
                f"list of values, got {type(condition).__name__}"
            )
        else:
            is_selected &= _is_among(name, column, list(condition))
    return float(np.mean(is_selected))


def _is_in_range(name: Any, column: Any, bounds: tuple[Any, ...]) -> NDArray[np.bool_]:
    """Find the rows with ``low <= value < high``; missing values are outside."""
    kinds = {type_of_value(bound) for bound in bounds if bound is not None}
    is_time = kinds <= {*TIME_KINDS}
    if len(bounds) != 2 or not (is_time or kinds == {"number"}):
        raise ValueError(
            f"the range of column {name!r} must be (low, high), numbers, dates or None;"
            " values go in a list"
        )
    # A range without bounds contains all values of any type except missing ones.
    if not kinds:
        return _encode(name, Categories([None]), column) == 1
    low, high = bounds
    try:
        if is_time:
            values: Any = to_dates(column, "datetime64[us]")
            low, high = (b if b is None else np.datetime64(b, "us") for b in bounds)
        else:
            values = to_numbers(column)
    except ColumnError as error:
        raise ValueError(f"column {name!r}: {error}") from None
    if low is not None and high is not None and not low < high:
        raise ValueError(f"the range of column {name!r} must have low < high")
    is_inside = ~np.isnan(values) if not is_time else ~np.isnat(values)
    # A bound may exceed the range of a narrow float.
    with np.errstate(over="ignore"):
        if low is not None:
            is_inside &= values >= low
        if high is not None:
            is_inside &= values < high
    return is_inside


def _is_among(name: Any, column: Any, values: list[Any]) -> NDArray[np.bool_]:
    """Find the rows with one of some values."""
    # A listed value has a code below the number of values.
    try:
        codes = _encode(name, Categories(values), column)
    except (TypeError, ValueError) as error:
        raise ValueError(f"a condition on column {name!r}: {error}") from None
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
    """Train a model on synthetic rows and score it on real ones.

    Also called TSTR, "train on synthetic, test on real" [1]_. If the score is close to
    the score of the same model trained on real rows, the synthetic rows can replace them.

    Parameters
    ----------
    estimator : estimator
        Classifier or regressor of scikit-learn, or a Pipeline that ends in one. It is
        cloned, and must accept the features unprocessed.
    synthetic : dataframe
        Synthetic rows to train on.
    real_test : dataframe
        Real rows to score on, used neither by the synthesizer nor in `real_train`. The
        columns may be in another order.
    target : column name
        Column to predict.
    scoring : str, callable, or list of str, default="roc_auc"
        Names of scikit-learn's scores, or a scorer ``f(estimator, X, y)``.
    real_train : dataframe, default=None
        Real rows to train on for comparison.

    Returns
    -------
    pandas.DataFrame
        The row "synthetic", and "real" if `real_train` is given; one column per score.

    Raises
    ------
    TypeError, ValueError
        If a table has no rows, lacks the target or has missing values in it, or the
        columns differ.

    Warns
    -----
    UserWarning
        If all rows to train a classifier on are of one class. The score is then the
        score of a constant prediction: an AUC of 0.5.

    See Also
    --------
    marginal_error : Error of marginals, without a model.

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
    read_target = parse_classes if is_classifier(estimator) else parse_column
    tables = {"synthetic": synthetic, "real_train": real_train, "real_test": real_test}
    features, targets = {}, {}
    names: list[Any] = []
    for label, table in tables.items():
        if table is not None:
            # All tables get the columns of the synthetic table, in its order.
            features[label], y, names = _take_target(label, table, target, names)
            targets[label] = read_target(y, f"the target of {label}")
    scorer = check_scoring(estimator, scoring)
    X_test, y_test = features.pop("real_test"), targets["real_test"]
    rows = {}
    for label, X in features.items():
        model = _fit(estimator, X, targets[label], y_test, label)
        score = scorer(model, X_test, y_test)
        # A scorer with several metrics returns a dict.
        if not isinstance(score, dict):
            score_name = getattr(scoring, "__name__", "score")
            score = {scoring if isinstance(scoring, str) else score_name: score}
        rows[label.removesuffix("_train")] = score
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("trained_on")


def _take_target(
    label: str, data: Any, target: Any, names: list[Any]
) -> tuple[Any, Any, list[Any]]:
    """Return the features in the order of `names`, if there are any, the target, and the names."""
    if not is_frame(data):
        raise TypeError(f"{label} must be a dataframe, got {type(data).__name__}")
    table = wrap_table(data)
    columns = dict(zip(table.names, table.columns, strict=True))
    if target not in columns:
        raise ValueError(f"{label} has no column {target!r}; it has {list(columns)}")
    y = columns.pop(target)
    if not columns or len(y) == 0:
        raise ValueError(f"{label} must have rows, and columns besides the target")
    names = names or list(columns)
    if set(names) != set(columns):
        raise ValueError(
            f"{label} and synthetic must have the same columns; in one of them only: "
            f"{sorted(set(names) ^ set(columns), key=str)}"
        )
    return table.rebuild([columns[name] for name in names], names), y, names


def _fit(estimator: Any, X: Any, y: pd.Series, y_test: pd.Series, label: str) -> Any:
    if not is_classifier(estimator):
        return clone(estimator).fit(X, y)
    # 1 and "1" are two classes, so every prediction would be wrong.
    kinds = set(map(type_of_value, y.unique()))
    if kinds.isdisjoint(map(type_of_value, y_test.unique())):
        raise ValueError(
            f"the targets of {label} and real_test must have values of one type"
        )
    if y.nunique() > 1:
        return clone(estimator).fit(X, y)
    warn(
        f"all rows of {label} have the same class, so the score is computed for a "
        "constant prediction",
        UserWarning,
        about="guide/training_on_synthetic_rows",
        stacklevel=3,
    )
    # Scores need a probability of each class of the test rows.
    constant = y.iloc[0]
    classes = [constant, *y_test.unique()]
    model = DummyClassifier(strategy="constant", constant=[constant])
    return model.fit(np.zeros((len(classes), 1)), classes)
