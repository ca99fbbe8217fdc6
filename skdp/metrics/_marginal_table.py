"""One marginal of a real and a synthetic table, side by side."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd

from skdp.metrics._paired_tables import pair_tables

_MOST_CELLS = 1 << 22


def marginal_table(real: Any, synthetic: Any, columns: Sequence[Any], *, domain: Any = None) -> pd.DataFrame:
    """Put one marginal of two tables side by side, as shares.

    Parameters
    ----------
    real : dataframe or 2-D array-like of shape (n_real, n_columns)
        The real rows: a pandas, polars or pyarrow table, or an array.
    synthetic : dataframe or 2-D array-like of shape (n_synthetic, n_columns)
        The synthetic rows: at least these columns.
    columns : sequence of column names
        The columns of the marginal.
    domain : Domain or mapping of column name to values or Interval, optional
        The values of columns, as in `marginal_error`.

    Returns
    -------
    pandas.DataFrame
        A row a cell, those without rows included, the last column fastest; the columns ``real`` and ``synthetic`` each
        add up to 1. The index has the values (of an `Interval`, the bins as text). If there are such
        rows, missing (None) and "outside the domain" follow after the values of a column.

    Raises
    ------
    TypeError, ValueError
        If the tables have no rows or lack a column, a column holds values of different kinds in the two tables, the
        domain does not fit, or there are more than four million cells.

    See Also
    --------
    marginal_error : The distances of many such marginals.
    total_variation : The distance of one.

    Notes
    -----
    **Privacy.** The real shares are not protected: this is for experiments on data that may be looked at.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp import Interval
    >>> real, synthetic = pd.DataFrame({"age": [20, 36, 50, None]}), pd.DataFrame({"age": [30, 70]})
    >>> marginal_table(real, synthetic, ["age"], domain={"age": Interval(edges=[0, 38, 120])})
               real  synthetic
    age
    [0, 38)    0.50        0.5
    [38, 120]  0.25        0.5
    NaN        0.25        0.0
    """
    marginal = check_marginal(columns)
    pair = pair_tables(real, synthetic, marginal, domain)
    labels = [pair.labels[name] for name in marginal]
    if math.prod(map(len, labels)) > _MOST_CELLS:
        raise ValueError(f"the marginal of {list(marginal)} has more than 2**22 cells; declare fewer values in domain")
    counts = pair.counts(marginal)
    index = pd.Index(labels[0]) if len(labels) == 1 else pd.MultiIndex.from_product(labels)
    shares = {side: count / count.sum() for side, count in zip(("real", "synthetic"), counts, strict=True)}
    return pd.DataFrame(shares, index=index.set_names(list(marginal)))


def check_marginal(columns: Any) -> tuple[Any, ...]:
    """Read the columns of a marginal."""
    if isinstance(columns, str) or not isinstance(columns, Iterable):
        raise TypeError(f"a marginal must be a tuple of column names, got {type(columns).__name__}")
    marginal = tuple(columns)
    if not marginal:
        raise ValueError("a marginal must have at least one column")
    if len(set(marginal)) < len(marginal):
        raise ValueError(f"the marginal {marginal} names a column twice")
    return marginal
