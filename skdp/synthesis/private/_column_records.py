"""The records of a table with private and public columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from skdp._arrays import Codes, Indices
from skdp.central.statistics import Batches, encode_columns, select_columns
from skdp.domain import Domain, FoundCategories, Interval
from skdp.synthesis.private._number_cells import find_intervals
from skdp.synthesis.private._records import encode_records, explain_undeclared
from skdp.synthesis.private._table import PrivateTable, derived_from, replace_columns
from skdp.tables import Table

MAX_COMBINATIONS = 1 << 12
"""Largest number of combinations of private values."""


class ColumnRecords:
    """The encoded rows of a table, with private and public columns."""

    def __init__(
        self,
        table: Table,
        modeled: Table,
        domain: Domain,
        private_names: list[Any],
        ordered: Mapping[Any, bool],
        found: Mapping[Any, Interval | FoundCategories],
    ) -> None:
        """Encode a table.

        Parameters
        ----------
        table : Table
            The columns of X.
        modeled : Table
            The columns of the model, with a target.
        domain : Domain
            The values of the modeled columns.
        private_names : list
            The private columns.
        ordered : mapping of column name to bool
            True for modeled columns whose values are ordered.
        found : mapping of column name to Interval or FoundCategories
            The private columns whose values are found, for which `domain` has other ones.
        """
        self.table = table
        self.found = found
        self._modeled, self._ordered = modeled, ordered
        self.domain = domain
        self.private_names = private_names
        self.public_names = [
            name for name in domain.columns if name not in private_names
        ]
        private_domain = domain.select(private_names)
        intervals = find_intervals(private_domain)
        n_found, n_combinations = 0, 1
        for column, size in enumerate(private_domain.sizes):
            if column in intervals and not intervals[column].has_bins:
                n_found += 1
            else:
                n_combinations *= size
        # Found bins have the rest of the combinations.
        self.max_bins = int(
            (MAX_COMBINATIONS / n_combinations) ** (1 / max(1, n_found))
        )
        n_texts = sum(isinstance(v, FoundCategories) for v in found.values())
        # The largest number of values of a column of text, without the last one.
        largest = MAX_COMBINATIONS / (n_combinations * 4**n_found)
        self.max_values = max(1, int(largest ** (1 / max(1, n_texts))) - 1)
        if n_combinations * 2**n_found > MAX_COMBINATIONS:
            raise ValueError(
                f"`columns` must have at most {MAX_COMBINATIONS:,} combinations of "
                f"values, got {n_combinations:,}. Name fewer columns, or declare "
                "coarser bins."
            )
        private_table = select_columns(modeled, private_names)
        form = PrivateTable.of(private_names, private_table, private_domain)
        self.cells = form.cells
        _, unlisted = encode_records(private_table, form.fine, "error")
        if unlisted:
            raise explain_undeclared(
                unlisted[0],
                Batches(private_table),
                private_domain,
                "Alternatively, replace such values before `fit`",
            )
        self._private_table = private_table
        self.private = form.read("error", uses_pairs=False)
        self.public_table = select_columns(modeled, self.public_names)
        self.public = encode_public(modeled, domain, self.public_names)
        self.private_ordered = [ordered[name] for name in private_names]
        # One more code of a public column stands for all other values.
        self.public_sizes = [len(domain[name]) for name in self.public_names]
        self.public_ordered = [ordered[name] for name in self.public_names]

    @property
    def rows(self) -> Batches:
        """The private columns, to search their values."""
        return Batches(self._private_table)

    def with_values(
        self, values: Mapping[Any, Interval | FoundCategories]
    ) -> ColumnRecords:
        """Encode the table with the values that were found, by name of the column."""
        columns: dict[Any, Any] = dict(self.domain)
        for name, found in self.found.items():
            columns[name] = values[name]
            if isinstance(found, Interval):
                # The number of combinations has been checked for bins that are found.
                columns[name].has_bins = found.has_bins
        domain = replace_columns(self.domain, columns)
        names = self.private_names
        return ColumnRecords(
            self.table, self._modeled, domain, names, self._ordered, self.found
        )

    @property
    def joint_domain(self) -> Domain:
        """The domain of all columns, with the private columns first."""
        names = [*self.private_names, *self.public_names]
        return replace_columns(self.domain, {name: self.domain[name] for name in names})

    def set_bins(self, domain: Domain) -> None:
        """Encode the private columns by their final bins in a domain."""
        columns = {name: domain[name] for name in self.domain.columns}
        self.domain = replace_columns(self.domain, columns)
        private_domain = self.domain.select(self.private_names)
        self.private_sizes = private_domain.sizes
        codes, _ = encode_records(self._private_table, private_domain, "error")
        self.combinations = np.ravel_multi_index(tuple(codes), self.private_sizes)

    @property
    def n_rows(self) -> int:
        """The number of rows, which is public."""
        return len(self._private_table.columns[0])

    @property
    def n_columns(self) -> int:
        """The number of private and public columns."""
        return len(self.private_names) + len(self.public_names)

    def values_of(self, *private: int) -> Indices:
        """Return the value of one or two private columns in each combination of all of them; (n_combinations,)."""
        values = np.indices(self.private_sizes).reshape(len(self.private_sizes), -1)
        sizes = [self.private_sizes[column] for column in private]
        chosen = tuple(values[column] for column in private)
        return np.asarray(np.ravel_multi_index(chosen, sizes), np.intp)


def encode_public(
    table: Table, domain: Domain, names: Sequence[Any]
) -> Sequence[Codes]:
    """Encode public columns; values outside their domain get the code after the last."""
    if not names:
        return []
    selected = select_columns(table, names)
    codes, _ = encode_columns(selected, domain.select(names), "ignore")
    return codes


def drop_derived(table: Table, domain: Domain, private: Sequence[Any]) -> Table:
    """Drop columns derived from public columns; raise an error for columns derived from private columns."""
    revealing = [*derived_from(domain, private), *private]
    refused = []
    for name in domain.derived:
        if name in table.names and name in revealing:
            refused.append(name)
    if refused:
        raise ValueError(
            f"X must not have columns {refused}, which `domain` derives from private "
            "columns. Drop them, and compute them from the result with "
            "`Domain.add_derived`."
        )
    # Derived columns add no information to the model, and the domain does not list
    # their values.
    declared = [name for name in domain.columns if name in table.names]
    computed = domain.select(declared).derived
    names = [name for name in table.names if name not in computed]
    return select_columns(table, names)
