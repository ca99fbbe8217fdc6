"""Fit a transformer on what is declared: no row of the table is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from skdp.base import domains_of_dtypes
from skdp.domain import Domain
from skdp.frames import read_table
from skdp.local._base import LocalTransformer


def fit_on_schema(transformer: LocalTransformer, sample: Any, keep: Sequence[str]) -> None:
    """Fit a transformer on the declared domain, and on the domains that dtypes carry.

    Parameters
    ----------
    transformer : LocalTransformer
        Not fitted. It learns the columns that it declares; under ``categories="auto"``, all that are not kept.
    sample : pandas, polars or pyarrow table
        No rows, but the columns and dtypes of the table.
    keep : sequence of str
        Columns that are not for the transformer.

    Raises
    ------
    ValueError
        If the values of a column are not declared: they are never read from the data here.
    """
    declared = transformer.categories
    if isinstance(declared, Domain):
        declared = {name: declared[name] for name in declared.columns}
    if not isinstance(declared, Mapping | str):
        raise ValueError(
            "which columns a list of categories is for is not known from a large table: declare them by name, as a "
            "mapping or Domain, or fit the transformer before"
        )
    table = read_table(sample)
    of_dtypes = {name: values for name, values in domains_of_dtypes(table).items() if values}
    if isinstance(declared, str):
        names = [name for name in table.names if name not in keep]
        declared = of_dtypes
    else:
        names = list(declared)
    undeclared = [name for name in names if name not in declared]
    if undeclared:
        raise ValueError(
            f"the values of the columns {undeclared} are not declared, and are not read from a large table, as which "
            "of them occur is private; declare them with categories=, or use a categorical dtype"
        )
    # One row of declared values: `fit` takes the names from it, and would take domains from its dtypes.
    domain = Domain({name: declared[name] for name in names})
    row = pd.DataFrame({name: pd.Series([domain[name].values[0]], dtype=object) for name in names})
    if isinstance(transformer.categories, str):
        row = pd.DataFrame({name: pd.Categorical([declared[name][0]], categories=declared[name]) for name in names})
    transformer.fit(row)
