"""Errors of the numbers and dates of a synthetic table, whatever bins they are in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.base import ColumnName, TableLike
from skdp.domain import DomainLike, Interval
from skdp.metrics.tables._pairs import check_columns, read_declared, read_pair
from skdp.tables import ColumnError, Table, to_dates, to_numbers


def value_errors(
    real: TableLike,
    synthetic: TableLike,
    *,
    columns: Iterable[ColumnName] | None = None,
    domain: DomainLike | None = None,
) -> pd.DataFrame:
    """Compare the numbers and dates of two tables value by value, not bin by bin.

    Parameters
    ----------
    real, synthetic : dataframe or 2-D array-like of shape (n_rows, n_columns)
        The real and the synthetic rows, as for `marginal_error`.
    columns : list of column names, optional
        The columns to compare; by default those that `domain` declares as an `Interval`, and without a domain all that
        hold numbers or dates in both tables.
    domain : Domain or mapping of column name to values or Interval, optional
        The values of columns. Bins do not matter here, only whether a column has them.

    Returns
    -------
    pandas.DataFrame
        For each column the ``column``; the means ``real`` and ``synthetic``, of dates in days from 1970; the ``shift``,
        the difference of the means in standard deviations of the real values; the ``distance``, the largest difference
        of the shares of rows up to any value, from 0 to 1 (Kolmogorov and Smirnov); and ``earth_mover``, the mean
        distance between values of the same rank, in the same standard deviations (Wasserstein). Missing values are left
        out; all is nan where nothing else is there, or the real values do not differ.

    Raises
    ------
    TypeError, ValueError
        If the tables have no rows, lack a column, or a column holds neither numbers nor dates.

    See Also
    --------
    marginal_error : The distance of counts by bins, of one or several columns.

    Notes
    -----
    **Privacy.** The result depends on the real rows and is not protected: for data that is not sensitive.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp import Interval
    >>> from skdp.metrics import marginal_error
    >>> real = pd.DataFrame({"paid": [0.5, 0.5, 1.0, 2.0]})
    >>> synthetic = pd.DataFrame({"paid": [0.5, 1.5, 2.0, 2.5]})
    >>> domain = {"paid": Interval(0, 60, bins=20)}
    >>> marginal_error(real, synthetic, order=1, domain=domain)  # all are in the first bin
    0.0
    >>> value_errors(real, synthetic, domain=domain).round(2)
      column  real  synthetic  shift  distance  earth_mover
    0   paid   1.0       1.62   1.02       0.5         1.02
    """
    tables = read_pair(real, synthetic)
    declared = read_declared(domain, tables[0])
    if columns is None and declared:
        names = [
            name
            for name in check_columns(tables, None)
            if isinstance(declared.get(name), Interval)
        ]
    elif columns is None:
        names = [
            name for name in check_columns(tables, None) if _is_comparable(tables, name)
        ]
    else:
        names = check_columns(tables, columns)
    rows = []
    for name in names:
        one, other = (_read(table, name, declared.get(name)) for table in tables)
        rows.append((name, *_compare(one, other)))
    return pd.DataFrame(
        rows,
        columns=["column", "real", "synthetic", "shift", "distance", "earth_mover"],
    )


def distance_of_values(
    real: NDArray[np.float64], synthetic: NDArray[np.float64]
) -> float:
    """Return the largest difference of two distribution functions."""
    values = np.concatenate([real, synthetic])
    shares = [
        np.searchsorted(np.sort(part), values, side="right") / part.size
        for part in (real, synthetic)
    ]
    return float(np.abs(shares[0] - shares[1]).max())


def values_of_columns(
    tables: tuple[Table, Table], name: Any, declared: Any
) -> list[NDArray[np.float64]]:
    """Read a column of both tables as numbers, without those that are missing."""
    return [_read(table, name, declared) for table in tables]


def _compare(
    real: NDArray[np.float64], synthetic: NDArray[np.float64]
) -> tuple[float, ...]:
    if not real.size or not synthetic.size:
        return (np.nan,) * 5
    means = float(real.mean()), float(synthetic.mean())
    spread = float(real.std())
    if spread == 0:
        return *means, np.nan, distance_of_values(real, synthetic), np.nan
    # The distribution functions are constant between neighbouring values: what they differ by there, times the gap.
    values = np.sort(np.concatenate([real, synthetic]))
    shares = [
        np.searchsorted(np.sort(part), values[:-1], side="right") / part.size
        for part in (real, synthetic)
    ]
    mover = float(np.abs(shares[0] - shares[1]) @ np.diff(values)) / spread
    return (
        *means,
        (means[1] - means[0]) / spread,
        distance_of_values(real, synthetic),
        mover,
    )


def _read(table: Table, name: Any, declared: Any) -> NDArray[np.float64]:
    column = table.columns[table.names.index(name)]
    try:
        values = (
            declared.read(column)
            if isinstance(declared, Interval)
            else to_numbers(column)
        )
    except ColumnError:
        try:
            values = to_dates(column, "datetime64[us]")
        except ColumnError:
            raise ValueError(
                f"column {name!r} must hold numbers or dates to be compared value by value"
            ) from None
    if values.dtype.kind == "M":
        values = values[~np.isnat(values)]
        return np.asarray(
            values.astype("datetime64[us]").astype(np.int64) / 86_400_000_000
        )
    values = values.astype(float)
    return np.asarray(values[np.isfinite(values)])


def _is_comparable(tables: tuple[Table, Table], name: Any) -> bool:
    try:
        values_of_columns(tables, name, None)
    except ValueError:
        return False
    return True
