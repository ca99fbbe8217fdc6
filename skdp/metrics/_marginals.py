"""Errors of a synthetic table: of its marginals, and of its numbers and dates."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, combinations, compress
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.stats import ks_2samp, wasserstein_distance
from sklearn.utils.random import sample_without_replacement

from skdp.base import (
    ColumnName,
    TableLike,
)
from skdp.domain import DomainLike, Interval
from skdp.metrics._table_pairs import (
    Counts,
    PairedTables,
    check_columns,
    check_order,
    column_domains,
    pair_tables,
    read_pair,
)
from skdp.oracles import check_size
from skdp.tables import ColumnError, Table, to_dates, to_numbers

Numbers = NDArray[np.float64]

# The cells of a marginal that is returned as a table: 100 MB.
_MOST_CELLS = 1 << 22


def marginal_error(
    real: TableLike,
    synthetic: TableLike,
    *,
    order: int = 2,
    columns: Iterable[ColumnName] | None = None,
    domain: DomainLike | None = None,
    n_marginals: int | None = None,
    random_state: int | np.random.RandomState | None = None,
    workload: Iterable[Sequence[ColumnName]] | None = None,
    weights: ArrayLike | None = None,
) -> float:
    """Compute the mean total-variation distance of all marginals of some columns.

    Parameters
    ----------
    real, synthetic : dataframe or 2-D array-like of shape (n_rows, n_columns)
        The real and the synthetic rows: pandas, polars or pyarrow tables, or arrays, with the same columns, in any
        order if they have names.
    order : int, default=2
        Number of columns in a marginal, at least 1.
    columns : list of column names, optional
        The columns to compare; by default all. The columns of an array are named ``x0, x1, …``.
    domain : Domain or mapping of column name to values or Interval, optional
        The values of columns. A numeric column of many values needs an `Interval`, or few values of one table occur in
        the other. Undeclared values count as one more value, and so do missing ones. For a column that `domain` leaves
        out, the values are those that occur in either table.
    n_marginals : int, optional
        Number of distinct random marginals to compare instead of all (at most all).
    random_state : int, RandomState instance or None, default=None
        Seed of their choice; pass an int to compare several synthetic tables by the same marginals.
    workload : iterable of tuples of column names, optional
        The marginals, of any number of columns each, instead of those that `order`, `columns` and `n_marginals` choose.
    weights : array-like of shape (n_marginals,), optional
        Weight of each marginal of the workload, at least 0; by default all equal.

    Returns
    -------
    float
        The mean of ``marginal_errors(...)["error"]``: 0 if all shares are equal, 1 if no cell of a marginal has rows of
        both tables. With weights, ``sum(weight * error) / sum(weight)``.

    Raises
    ------
    TypeError, ValueError
        If the tables have no rows or different columns, a column holds values of different kinds in the two tables, or
        a parameter does not fit the columns.

    See Also
    --------
    marginal_errors : The error of each marginal.
    range_query_error : The error of the answers to queries.

    Notes
    -----
    **Privacy.** The result depends on the real rows and is not protected: for data that is not sensitive. The choice of
    marginals does not affect privacy.

    The total-variation distance of two marginals is half the sum of the absolute differences of their shares. Some
    papers report the L1 distance, which is twice as large. The workload error of AIM [1]_ is the L1 distance, divided
    by the number of marginals instead of the sum of the weights: with weights of mean 1, twice this one.

    References
    ----------
    .. [1] R. McKenna, B. Mullins, D. Sheldon, G. Miklau (2022). AIM: an adaptive and iterative mechanism for
       differentially private synthetic data. Proceedings of the VLDB Endowment 15(11).

    Examples
    --------
    >>> import pandas as pd
    >>> real = pd.DataFrame({"sex": ["F", "F", "M", "M"], "smokes": ["no", "no", "yes", "yes"]})
    >>> synthetic = pd.DataFrame({"sex": ["F", "F", "M", "M"], "smokes": ["no", "yes", "no", "yes"]})
    >>> marginal_error(real, synthetic, order=1), marginal_error(real, synthetic, order=2)
    (0.0, 0.5)
    >>> marginal_error(real, synthetic, workload=[("sex",), ("sex", "smokes")], weights=[1, 3])
    0.375
    """
    if workload is not None:
        return _workload_error(real, synthetic, workload, domain, weights)
    if weights is not None:
        raise ValueError("weights are of the marginals of a workload: give both")
    errors = marginal_errors(
        real,
        synthetic,
        order=order,
        columns=columns,
        domain=domain,
        n_marginals=n_marginals,
        random_state=random_state,
    )
    return float(errors["error"].mean())


def _workload_error(
    real: Any, synthetic: Any, workload: Iterable[Any], domain: Any, weights: Any
) -> float:
    marginals = list(map(_check_marginal, workload))
    if not marginals:
        raise ValueError("workload must have at least one marginal")
    weights = _check_weights(weights, len(marginals))
    columns = dict.fromkeys(chain.from_iterable(marginals))
    pair = pair_tables(read_pair(real, synthetic), columns, domain)
    return float(np.dot(weights, _distances(pair, marginals)))


def _check_weights(weights: Any, n_marginals: int) -> Numbers:
    """Scale the weights to a sum of 1."""
    if weights is None:
        return np.full(n_marginals, 1 / n_marginals)
    weights = np.asarray(weights, dtype=float)
    if weights.shape != (n_marginals,):
        raise ValueError(
            f"weights must have one entry per marginal, {n_marginals}; got shape "
            f"{weights.shape}"
        )
    if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.any()):
        raise ValueError("weights must be finite, at least 0, and not all 0")
    return weights / weights.sum()


def marginal_errors(
    real: TableLike,
    synthetic: TableLike,
    *,
    order: int = 2,
    columns: Iterable[ColumnName] | None = None,
    domain: DomainLike | None = None,
    n_marginals: int | None = None,
    random_state: int | np.random.RandomState | None = None,
) -> pd.DataFrame:
    """Compute the total-variation distance of each marginal of some columns.

    Parameters
    ----------
    real, synthetic, order, columns, domain, n_marginals, random_state : see there
        As for `marginal_error`.

    Returns
    -------
    pandas.DataFrame
        One row per marginal: ``columns`` (a tuple of names), ``error``, from 0 to 1, and ``values``: of columns with
        bins, the largest difference of the shares of rows up to any value, from 0 to 1, which sees what differs within
        bins, too; nan if no column of the marginal has bins.

    Raises
    ------
    TypeError, ValueError
        As for `marginal_error`.

    See Also
    --------
    marginal_error : The mean.
    marginal_table : The shares of one marginal.

    Notes
    -----
    **Privacy.** The result depends on the real rows and is not protected: for data that is not sensitive.

    Examples
    --------
    >>> import pandas as pd
    >>> real = pd.DataFrame({"sex": ["F", "F", "M", "M"], "smokes": ["no", "no", "no", "yes"], "age": [20, 30, 40, 50]})
    >>> synthetic = pd.DataFrame({"sex": ["F", "M"], "smokes": ["no", "yes"], "age": [31, 49]})
    >>> from skdp import Interval
    >>> marginal_errors(real, synthetic, domain={"age": Interval(edges=[0, 35, 120])})
               columns  error  values
    0    (sex, smokes)   0.25     NaN
    1       (sex, age)   0.00     0.5
    2    (smokes, age)   0.25     0.5
    """
    tables = read_pair(real, synthetic)
    names = check_columns(tables, columns)
    marginals = _choose_marginals(names, order, n_marginals, random_state)
    # Columns that are in no marginal are not read: they may hold values of any kind.
    names = list(dict.fromkeys(chain.from_iterable(marginals)))
    pair = pair_tables(tables, names, domain)
    declared = column_domains(domain, tables[0])
    distances = {}
    for name in names:
        if isinstance(declared.get(name), Interval):
            distance = _distance_of_values(tables, name, declared[name])
            if not math.isnan(distance):
                distances[name] = distance
    largest = []
    # A marginal is as far off as the worst of its columns with bins.
    for marginal in marginals:
        of_columns = [distances[name] for name in marginal if name in distances]
        largest.append(max(of_columns, default=math.nan))
    errors = _distances(pair, marginals)
    return pd.DataFrame({"columns": marginals, "error": errors, "values": largest})


def _choose_marginals(
    names: list[Any], order: Any, n_marginals: Any, random_state: Any
) -> list[tuple[Any, ...]]:
    marginals = combinations(names, check_order(order, names))
    n_all = math.comb(len(names), order)
    if n_marginals is None:
        return list(marginals)
    if check_size(n_marginals, least=1, name="n_marginals") >= n_all:
        return list(marginals)
    sample = sample_without_replacement(n_all, n_marginals, random_state=random_state)
    places = set(sample.tolist())
    is_chosen = map(places.__contains__, range(n_all))
    return list(compress(marginals, is_chosen))


def _distance_of_values(tables: tuple[Table, Table], name: Any, declared: Any) -> float:
    """Return the Kolmogorov-Smirnov distance of a whole column, nan if it has no values."""
    real = read_values(tables[0], name, declared)
    synthetic = read_values(tables[1], name, declared)
    if real.size == 0 or synthetic.size == 0:
        return math.nan
    return _kolmogorov_smirnov(real, synthetic)


def _distances(pair: PairedTables, marginals: list[tuple[Any, ...]]) -> list[float]:
    return [total_variation(*pair.counts(marginal)) for marginal in marginals]


def total_variation(real: Counts, synthetic: Counts) -> float:
    # In integers, dividing last.
    n_real, n_synthetic = int(real.sum()), int(synthetic.sum())
    difference = np.abs(real * n_synthetic - synthetic * n_real)
    return int(difference.sum()) / (2 * n_real * n_synthetic)


def marginal_table(
    real: TableLike,
    synthetic: TableLike,
    columns: Sequence[ColumnName],
    *,
    domain: DomainLike | None = None,
) -> pd.DataFrame:
    """Return the real and the synthetic shares of all cells of a marginal, one row each."""
    marginal = _check_marginal(columns)
    pair = pair_tables(read_pair(real, synthetic), marginal, domain)
    labels = [pair.labels[name] for name in marginal]
    if math.prod(map(len, labels)) > _MOST_CELLS:
        raise ValueError(
            f"the marginal of {list(marginal)} has more than 2**22 cells; declare fewer"
            " values in domain"
        )
    index = (
        pd.Index(labels[0]) if len(labels) == 1 else pd.MultiIndex.from_product(labels)
    )
    index = index.set_names(list(marginal))
    counts = pair.counts(marginal)
    shares = {
        "real": counts[0] / counts[0].sum(),
        "synthetic": counts[1] / counts[1].sum(),
    }
    return pd.DataFrame(shares, index=index)


def _check_marginal(columns: Any) -> tuple[Any, ...]:
    if isinstance(columns, str) or not isinstance(columns, Iterable):
        raise TypeError(
            f"a marginal must be a tuple of column names, got {type(columns).__name__}"
        )
    marginal = tuple(columns)
    if not marginal:
        raise ValueError("a marginal must have at least one column")
    if len(set(marginal)) < len(marginal):
        raise ValueError(f"the marginal {marginal} names a column twice")
    return marginal


def value_errors(
    real: TableLike,
    synthetic: TableLike,
    *,
    columns: Iterable[ColumnName] | None = None,
    domain: DomainLike | None = None,
) -> pd.DataFrame:
    """Compare the numbers and dates of two tables value by value, not bin by bin."""
    tables = read_pair(real, synthetic)
    declared = column_domains(domain, tables[0])
    rows = []
    for name in compared_columns(tables, columns, declared):
        real_values = read_values(tables[0], name, declared.get(name))
        synthetic_values = read_values(tables[1], name, declared.get(name))
        rows.append((name, *_compare_values(real_values, synthetic_values)))
    header = ["column", "real", "synthetic", "shift", "distance", "earth_mover"]
    return pd.DataFrame(rows, columns=header)


def compared_columns(
    tables: tuple[Table, Table], columns: Any, declared: Mapping[Any, Any]
) -> list[Any]:
    """Return the columns to compare value by value: given ones, or those that can be."""
    names = check_columns(tables, columns)
    if columns is not None:
        return names
    if declared:
        return [name for name in names if isinstance(declared.get(name), Interval)]
    return [name for name in names if _holds_values(tables, name)]


def _holds_values(tables: tuple[Table, Table], name: Any) -> bool:
    """Whether a column holds numbers or dates in both tables."""
    try:
        for table in tables:
            read_values(table, name, None)
    except ValueError:
        return False
    return True


def read_values(table: Table, name: Any, declared: Any) -> Numbers:
    """Read a column as numbers, dates as days, without those that are missing."""
    values = _read_values(table, name, declared)
    microseconds_of_day = 24 * 60 * 60 * 1_000_000
    if values.dtype.kind == "M":
        values = values[~np.isnat(values)].astype("datetime64[us]")
        return np.asarray(values.astype(np.int64) / microseconds_of_day)
    values = values.astype(float)
    return np.asarray(values[np.isfinite(values)])


def _read_values(table: Table, name: Any, declared: Any) -> NDArray[Any]:
    """Read a column as numbers or dates."""
    column = table.columns[table.names.index(name)]
    try:
        if isinstance(declared, Interval):
            return np.asarray(declared.read(column))
        return np.asarray(to_numbers(column))
    except ColumnError:
        try:
            return np.asarray(to_dates(column, "datetime64[us]"))
        except ColumnError:
            raise ValueError(
                f"column {name!r} must hold numbers or dates to be compared value by "
                "value"
            ) from None


def _compare_values(real: Numbers, synthetic: Numbers) -> tuple[float, ...]:
    """Return means, shift, Kolmogorov-Smirnov distance and earth mover's distance."""
    if real.size == 0 or synthetic.size == 0:
        return (np.nan,) * 5
    real_mean, synthetic_mean = float(real.mean()), float(synthetic.mean())
    distance = _kolmogorov_smirnov(real, synthetic)
    std = float(real.std())
    if std == 0:
        return real_mean, synthetic_mean, np.nan, distance, np.nan
    earth_mover = float(wasserstein_distance(real, synthetic)) / std
    # In standard deviations of the real values: columns of any unit can be compared.
    shift = (synthetic_mean - real_mean) / std
    return real_mean, synthetic_mean, shift, distance, earth_mover


def _kolmogorov_smirnov(real: Numbers, synthetic: Numbers) -> float:
    """Return the largest difference of two distribution functions."""
    # The p-value, which is not used, takes long unless it is asymptotic, and is that of
    # a division by 0 if there is one number of each.
    with np.errstate(divide="ignore"):
        return float(ks_2samp(real, synthetic, method="asymp").statistic)
