"""Errors of the marginals of a synthetic table."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.utils.random import sample_without_replacement

from skdp.base import ColumnName, TableLike
from skdp.domain import DomainLike, Interval
from skdp.metrics.tables._pairs import (
    Counts,
    PairedTables,
    check_columns,
    check_order,
    pair_tables,
    read_declared,
    read_pair,
)
from skdp.metrics.tables._values import distance_of_values, values_of_columns
from skdp.oracles import check_size
from skdp.tables import Table


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
    value_errors : The errors of numbers and dates within bins, which this one does not see.
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
    options: dict[str, Any] = {
        "columns": columns,
        "n_marginals": n_marginals,
        "random_state": random_state,
    }
    return float(
        marginal_errors(real, synthetic, order=order, domain=domain, **options)[
            "error"
        ].mean()
    )


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
        bins, the largest difference of the shares of rows up to any value, from 0 to 1, which the error of bins does
        not see; nan if no column of the marginal has bins.

    Raises
    ------
    TypeError, ValueError
        As for `marginal_error`.

    See Also
    --------
    marginal_error : The mean.
    marginal_table : The shares of one marginal.
    value_errors : Means and distances of numbers and dates.

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
    marginals = _choose(names, order, n_marginals, random_state)
    used = {name for marginal in marginals for name in marginal}
    pair = pair_tables(tables, [name for name in names if name in used], domain)
    within = {
        name: distance_within(tables, name, values)
        for name, values in read_declared(domain, tables[0]).items()
    }
    values = [
        max((within.get(name, math.nan) for name in marginal), key=_known)
        for marginal in marginals
    ]
    return pd.DataFrame(
        {"columns": marginals, "error": _errors(pair, marginals), "values": values}
    )


def distance_within(tables: tuple[Table, Table], name: Any, declared: Any) -> float:
    """Return how far the values of a column with bins are apart, nan for others."""
    if not isinstance(declared, Interval) or any(
        name not in table.names for table in tables
    ):
        return math.nan
    real, synthetic = values_of_columns(tables, name, declared)
    return (
        distance_of_values(real, synthetic)
        if real.size and synthetic.size
        else math.nan
    )


def _known(distance: float) -> float:
    return -1.0 if math.isnan(distance) else distance


def _workload_error(
    real: Any, synthetic: Any, workload: Iterable[Any], domain: Any, weights: Any
) -> float:
    marginals = [_check_marginal(marginal) for marginal in workload]
    if not marginals:
        raise ValueError("workload must have at least one marginal")
    shares = _check_weights(weights, len(marginals))
    used = dict.fromkeys(name for marginal in marginals for name in marginal)
    return float(
        np.dot(
            shares,
            _errors(pair_tables(read_pair(real, synthetic), used, domain), marginals),
        )
    )


def _choose(
    names: list[Any], order: Any, n_marginals: Any, random_state: Any
) -> list[tuple[Any, ...]]:
    every, number = (
        combinations(names, check_order(order, names)),
        math.comb(len(names), order),
    )
    if (
        n_marginals is None
        or check_size(n_marginals, least=1, name="n_marginals") >= number
    ):
        return list(every)
    chosen = set(
        sample_without_replacement(
            number, n_marginals, random_state=random_state
        ).tolist()
    )
    return [marginal for position, marginal in enumerate(every) if position in chosen]


def _check_weights(weights: Any, number: int) -> np.ndarray:
    """Scale the weights to a sum of 1."""
    if weights is None:
        return np.full(number, 1 / number)
    weights = np.asarray(weights, dtype=float)
    if weights.shape != (number,):
        raise ValueError(
            f"weights must have one entry per marginal, {number}; got shape {weights.shape}"
        )
    if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.any()):
        raise ValueError("weights must be finite, at least 0, and not all 0")
    return weights / weights.sum()


def _errors(pair: PairedTables, marginals: list[tuple[Any, ...]]) -> list[float]:
    return [_distance(*pair.counts(marginal)) for marginal in marginals]


def _distance(real: Counts, synthetic: Counts) -> float:
    # In integers, dividing last.
    n_real, n_synthetic = int(real.sum()), int(synthetic.sum())
    return int(np.abs(real * n_synthetic - synthetic * n_real).sum()) / (
        2 * n_real * n_synthetic
    )


_MOST_CELLS = 1 << 22


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
            f"the marginal of {list(marginal)} has more than 2**22 cells; declare fewer values in domain"
        )
    counts = pair.counts(marginal)
    index = (
        pd.Index(labels[0]) if len(labels) == 1 else pd.MultiIndex.from_product(labels)
    )
    shares = {
        side: count / count.sum()
        for side, count in zip(("real", "synthetic"), counts, strict=True)
    }
    return pd.DataFrame(shares, index=index.set_names(list(marginal)))


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
