"""Fit a transformer on what is declared: no row of the table is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from skdp.domain import Domain
from skdp.frames import read_table
from skdp.local import ReportTransformer


def fit_on_schema(transformer: ReportTransformer, sample: Any, keep: Sequence[str]) -> None:
    """Fit a transformer on what it declares, and on the domains that dtypes carry."""
    table = read_table(sample)
    transformer.fit(transformer.declared_row(table, [name for name in table.names if name not in keep]))


def declared_by_name(declared: Any) -> Domain | None:
    """Return what is declared of columns by their names."""
    if isinstance(declared, Mapping):
        return Domain(declared)
    return declared if isinstance(declared, Domain) else None
