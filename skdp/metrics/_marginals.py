"""Errors of a synthetic table: of its marginals, and of its numbers and dates."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.base import (
    ColumnName,
    TableLike,
)
from skdp.domain import DomainLike
from skdp.metrics._table_pairs import (
    Counts,
    PairedTables,
    check_columns,
    check_order,
    pair_tables,
    read_pair,
)

Numbers = NDArray[np.float64]

# The cells of a marginal that is returned as a table: 100 MB.
_MAX_CELLS = 1 << 22


def marginal_error(
    real: TableLike,
    synthetic: TableLike,
    *,
    order: int = 2,
    columns: Iterable[ColumnName] | None = None,
    domain: DomainLike | None = None,
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

    Returns
    -------
    float
        The mean of ``marginal_errors(...)["error"]``: 0 if all proportions are equal, 1 if no cell of a marginal has
        rows of both tables.

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
    **Privacy.** The result depends on the real rows and is not protected: for data that is not sensitive.

    The total-variation distance of two marginals is half the sum of the absolute differences of their shares. Some
    papers report the L1 distance, which is twice as large.

    Examples
    --------
    >>> import pandas as pd
    >>> real = pd.DataFrame({"sex": ["F", "F", "M", "M"], "smokes": ["no", "no", "yes", "yes"]})
    >>> synthetic = pd.DataFrame({"sex": ["F", "F", "M", "M"], "smokes": ["no", "yes", "no", "yes"]})
    >>> marginal_error(real, synthetic, order=1), marginal_error(real, synthetic, order=2)
    (0.0, 0.5)
    """
    errors = marginal_errors(
        real,
        synthetic,
        order=order,
        columns=columns,
        domain=domain,
    )
    return float(errors["error"].mean())


def marginal_errors(
    real: TableLike,
    synthetic: TableLike,
    *,
    order: int = 2,
    columns: Iterable[ColumnName] | None = None,
    domain: DomainLike | None = None,
) -> pd.DataFrame:
    """Compute the total-variation distance of each marginal of some columns.

    Parameters
    ----------
    real, synthetic, order, columns, domain : see there
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
               columns  error
    0    (sex, smokes)   0.25
    1       (sex, age)   0.00
    2    (smokes, age)   0.25
    """
    tables = read_pair(real, synthetic)
    names = check_columns(tables, columns)
    marginals = list(combinations(names, check_order(order, names)))
    pair = pair_tables(tables, names, domain)
    errors = _distances(pair, marginals)
    return pd.DataFrame({"columns": marginals, "error": errors})


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
    if math.prod(map(len, labels)) > _MAX_CELLS:
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
