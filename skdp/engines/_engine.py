"""What an engine is: a frame of one library whose rows are privatised, tallied and summed up where they are."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator, Iterable, Sequence
from contextlib import closing
from functools import cached_property
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from skdp.engines._atomic import check_parquet_name, check_path
from skdp.engines._errors import quietly
from skdp.engines._release import Preparation
from skdp.local import ReportProtocol
from skdp.tables import LargeTable, Summary, carried_text

# Rows that are in memory at a time, where nothing depends on their number.
ROWS = 1 << 17

# Largest number of combinations that are counted together.
_MAX_GROUPS = 1 << 16


class ReportSums:
    """The sums of reports: a `skdp.tables.Summary` of the columns `names`."""

    def __init__(self, protocol: ReportProtocol) -> None:
        self._protocol, self.names, self.values = (
            protocol,
            protocol.report_columns,
            protocol.values,
        )

    def zeros(self) -> list[NDArray[np.int64]]:
        """Return the sums of no reports."""
        return self._protocol.empty_tally().sums()

    def add(
        self,
        sums: list[NDArray[np.int64]],
        batch: Any,
        counts: NDArray[np.int64] | None = None,
    ) -> None:
        """Add a batch of reports, or the distinct ones and how often each occurs."""
        if counts is not None:
            tally = self._protocol.tally_counts(batch, counts)
        elif len(batch):
            reports = self._protocol.read(
                nw.from_native(batch, eager_only=True).select(*self.names).to_native()
            )
            tally = self._protocol.tally(reports)
        else:
            return
        # In place: one array for each part, whatever the number of batches.
        for total, part in zip(sums, tally.sums(), strict=True):
            total += part

    def n_distinct(self, sample: Any) -> float:
        """Return infinity: engines count equal reports by `counted_groups`."""
        return np.inf

    def total(self, sums: Sequence[NDArray[np.int64]]) -> Any:
        """Return the tally with these sums."""
        # Each report adds to its tally: without any, all sums are 0.
        if not any(part.any() for part in sums):
            raise ValueError(
                "Found a table with 0 sample(s) (rows); at least 1 is required"
            )
        return self._protocol.empty_tally().with_sums(sums)


def add_up_batches(batches: Iterable[Any], summary: Summary) -> list[NDArray[np.int64]]:
    """Sum over a stream of batches."""
    sums = summary.zeros()
    for batch in batches:
        summary.add(sums, batch)
    return sums


def counted_groups(
    protocol: ReportProtocol, *, numbers: bool = False
) -> list[list[Any]]:
    """Return by which columns an engine may count equal reports: values of a domain, or numbers too."""
    groups = protocol.counted_columns
    if protocol.values is None:
        return groups if numbers else []
    # One pass over the columns together, if they have few combinations.
    together = bool(groups) and protocol.values.size <= _MAX_GROUPS
    return [[name for columns in groups for name in columns]] if together else groups


class Engine(LargeTable):
    """A frame of one library; `skdp.engines._libraries` finds the class of a frame."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame

    @cached_property
    def sample(self) -> Any:
        """A table in memory with the columns of the frame, and no rows."""
        return quietly(self._make_empty_table)

    @abstractmethod
    def _make_empty_table(self) -> Any: ...

    def column_names(self) -> list[Any]:
        """Name the columns, without reading a row."""
        return list(self._frame.columns)

    def opened(self) -> LargeTable:
        """Return what `fit` reads, perhaps several times."""
        return self

    def check_place(self, path: Any) -> Any:
        """Check where the reports are to be written, before the table is; None for memory."""
        check_parquet_name(path)
        return check_path(path)

    @abstractmethod
    def privatize(self, preparation: Preparation, *, place: Any, check: bool) -> Any:
        """Check the rows, charge, and draw and store the reports."""

    def said(self) -> Iterable[str | None]:
        """Return the protocols that reports say they are of, in their metadata."""
        return [carried_text(self._frame)]

    # Whether the engine counts equal reports itself: values of a domain, and numbers.
    counts_values = False
    counts_numbers = False

    def count_rows(
        self, columns: Sequence[Any]
    ) -> Generator[tuple[Any, NDArray[np.int64]], None, None]:
        """Count the distinct rows of some columns, in the engine."""
        raise NotImplementedError

    def tally(
        self, reports: ReportSums, protocol: ReportProtocol
    ) -> list[NDArray[np.int64]]:
        """Sum up reports."""
        groups = []
        if self.counts_values:
            groups = counted_groups(protocol, numbers=self.counts_numbers)
        if not groups:
            return self.add_up(reports.names, reports)
        sums = reports.zeros()
        for columns in groups:
            self._add_counts(sums, columns, reports)
        return sums

    def _add_counts(
        self, sums: list[NDArray[np.int64]], columns: Sequence[Any], summary: Summary
    ) -> None:
        """Add distinct rows, with the number of times that each occurs."""
        with closing(self.count_rows(columns)) as counted:
            for rows, counts in counted:
                summary.add(sums, rows, counts)
