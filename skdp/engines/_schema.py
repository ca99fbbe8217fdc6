"""Fit a transformer on what is declared: no row of the table is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import singledispatch
from typing import Any

import pandas as pd

from skdp.base import domains_of_dtypes, warn_of_observed
from skdp.domain import Domain, Interval
from skdp.frames import Table, read_table
from skdp.local import LocalTransformer, NumericPerturber, RapporEncoder, RowReports


def fit_on_schema(transformer: RowReports, sample: Any, keep: Sequence[str]) -> None:
    """Fit a transformer on what it declares, and on the domains that dtypes carry."""
    table = read_table(sample)
    transformer.fit(_declared_row(transformer, table, [name for name in table.names if name not in keep]))


@singledispatch
def _declared_row(transformer: Any, table: Table, others: list[str]) -> pd.DataFrame:
    """Make one row that is declared: `fit` takes the names from it, and domains from its dtypes."""
    raise NotImplementedError


@_declared_row.register
def _row_of_categories(transformer: LocalTransformer, table: Table, others: list[str]) -> pd.DataFrame:
    declared: Any = transformer.categories
    if isinstance(declared, Domain):
        declared = {name: declared[name] for name in declared.columns}
    if not isinstance(declared, Mapping | str):
        raise ValueError(
            "which columns a list of categories is for is not known from a large table: declare them by name, as a "
            "mapping or Domain, or fit the transformer before"
        )
    by_dtype = isinstance(declared, str)
    names = others if by_dtype else list(declared)
    if by_dtype:
        declared, observed = domains_of_dtypes(table)
        if not transformer.memoize:  # whose reports are at their full cost again when the data change the categories
            declared |= observed
        declared = {name: values for name, values in declared.items() if values}
    undeclared = [name for name in names if name not in declared]
    if undeclared:
        raise ValueError(
            f"the values of the columns {undeclared} are not declared, and are not read from a large table, as which "
            "of them occur is private; declare them with categories=, or by an Enum"
        )
    if by_dtype:
        if read := [name for name in names if name in observed]:
            warn_of_observed(read, "categories")
        return pd.DataFrame({name: pd.Categorical([declared[name][0]], declared[name], ordered=True) for name in names})
    domain = Domain({name: declared[name] for name in names})
    return pd.DataFrame({name: pd.Series([domain[name].values[0]], dtype=object) for name in names})


@_declared_row.register
def _row_of_numbers(transformer: NumericPerturber, table: Table, others: list[str]) -> pd.DataFrame:
    bounds = transformer.bounds
    return pd.DataFrame({name: [0.0] for name in (bounds if isinstance(bounds, Mapping) else others)})


@_declared_row.register
def _row_of_words(transformer: RapporEncoder, table: Table, others: list[str]) -> pd.DataFrame:
    return pd.DataFrame({name: [""] for name in others})


def declared_by_name(declared: Any) -> Domain | None:
    """Return what is declared of columns by their names."""
    if isinstance(declared, Mapping):
        return Domain(declared)
    return declared if isinstance(declared, Domain) else None


@singledispatch
def text_domain(transformer: Any) -> Domain | None:
    """Say how the text of a CSV file is read, of the columns that are not text."""
    raise NotImplementedError


@text_domain.register
def _text_of_categories(transformer: LocalTransformer) -> Domain | None:
    if hasattr(transformer, "domain_"):
        return transformer.domain_
    domain = declared_by_name(transformer.categories)
    if domain is None:
        raise ValueError("the columns of a CSV file are declared by name: categories must be a mapping or a Domain")
    return domain


@text_domain.register
def _text_of_numbers(transformer: NumericPerturber) -> Domain | None:
    if hasattr(transformer, "bounds_"):
        pairs = dict(zip(transformer.guarantee_.scope, transformer.bounds_.tolist(), strict=True))
    elif isinstance(transformer.bounds, Mapping):
        pairs = dict(transformer.bounds)
    else:
        raise ValueError("the columns of a CSV file are declared by name: bounds must be a mapping")
    return Domain({name: Interval(*pair, bins=1) for name, pair in pairs.items()})


@text_domain.register
def _text_of_words(transformer: RapporEncoder) -> Domain | None:
    return None
