"""Tallies of batches, and of reports that an engine has counted by value."""

from __future__ import annotations

from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from skdp.base import read_numbers
from skdp.frames import read_table
from skdp.local import NumericPerturber, RandomizedResponseEncoder
from skdp.local._row_reports import RowReports
from skdp.local._stored_tally import StoredTally
from skdp.oracles import RandomizedResponse

_GROUPS = 1 << 16


def group_columns(transformer: RowReports) -> list[list[str]]:
    """Say by which columns an engine may count reports: those that are values, as many counts as there are values."""
    values = isinstance(transformer, RandomizedResponseEncoder) and transformer._strategy != "sample"
    if not values or not all(type(oracle) is RandomizedResponse for oracle in transformer.oracles_):
        return []
    domain = transformer.domain_
    if transformer._strategy == "joint" or domain.size <= _GROUPS:
        return [list(domain.columns)]
    return [[name] for name in domain.columns]


def number_columns(transformer: RowReports) -> list[list[str]]:
    """Return the columns of numeric reports, each to be counted by itself, where few numbers are possible."""
    if not isinstance(transformer, NumericPerturber) or max(map(len, transformer.report_values_)) > _GROUPS:
        return []
    return [[name] for name in transformer._own_names()]


class Counter:
    """The tally of a stream of reports."""

    def __init__(self, transformer: RowReports) -> None:
        self._transformer = transformer
        self.names = transformer._own_names()
        self._sums = transformer._empty_tally()._numbers()

    def add(self, reports: Any) -> None:
        """Add the reports of a batch."""
        if len(reports):
            frame = nw.from_native(reports, eager_only=True).select(*self.names)
            self.add_tally(self._transformer.tally(frame.to_native()))

    def add_tally(self, tally: StoredTally) -> None:
        """Add a tally of the same transformer."""
        for total, part in zip(self._sums, tally._numbers(), strict=True):
            total += part

    def add_groups(self, values: Any, counts: NDArray[np.int64], *, n_rows: int | None = None) -> None:
        """Add reports of randomised response, or numeric ones, that were counted by value."""
        table, transformer = read_table(values), self._transformer
        if isinstance(transformer, NumericPerturber):
            for name, numbers in zip(table.names, read_numbers(table), strict=True):
                place = self.names.index(name)
                self._sums[place] += transformer._count_numbers(place, numbers, counts)
            return
        assert isinstance(transformer, RandomizedResponseEncoder)
        domain = transformer.domain_.select(table.names)
        codes = domain.encode(table.columns)
        total = int(counts.sum())
        for name, column in zip(domain.columns, codes, strict=True):
            if column.max(initial=0) == len(domain[name]) or total != (total if n_rows is None else n_rows):
                raise ValueError(
                    f"column {name!r} holds a value, or a NaN or inf, outside the declared categories. These are not "
                    "reports of this encoder."
                )
        *support, sizes, n_reports = self._sums
        for index, columns in enumerate(transformer._attributes):
            if set(columns) <= set(table.names):
                cells = domain.join(codes) if len(columns) > 1 else codes[table.names.index(columns[0])]
                np.add.at(support[index], cells.astype(np.intp), counts)
                sizes[index] += total
        n_reports[:] = sizes[0]

    def __add__(self, other: Counter) -> Counter:
        both = Counter(self._transformer)
        for counter in (self, other):
            both.add_sums(*counter.sums())
        return both

    def sums(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the sums as one column of numbers, which add up over partitions."""
        flat = self._flat()
        places = np.flatnonzero(flat)
        return places, flat[places]

    def add_sums(self, places: NDArray[np.int64], sums: NDArray[np.int64]) -> None:
        """Add what `sums` gave, added up over partitions."""
        flat = self._flat()
        flat[places] += sums
        parts = np.split(flat, np.cumsum([part.size for part in self._sums])[:-1])
        self._sums = [part.reshape(old.shape) for part, old in zip(parts, self._sums, strict=True)]

    def _flat(self) -> NDArray[np.int64]:
        return np.concatenate([part.ravel() for part in self._sums])

    def total(self) -> Any:
        """Return the tally of all that was added."""
        if not any(part.any() for part in self._sums):
            raise ValueError("Found a table with 0 sample(s) (rows); at least 1 is required")
        return self._transformer._empty_tally()._of_numbers(self._sums)
