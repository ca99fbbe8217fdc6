"""Sum up reports wherever they are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from skdp.engines._batch_release import check_tally
from skdp.engines._registry import engine_of
from skdp.local import ReportProtocol, Tally


def tally(frame: Any, transformer: Any) -> Any:
    """Sum up the reports of a table of any engine: only sums come to Python.

    Reports of randomised response are counted by the engine itself where it can count by value (DuckDB, Polars,
    Spark), and so are numeric reports by DuckDB, unless more than 65,536 numbers are possible; all others are tallied
    batch by batch, and the tallies of partitions are added up as a tree.

    Parameters
    ----------
    frame : table
        Reports, in any of the kinds that `privatize` takes; further columns are ignored.
    transformer : local transformer
        Fitted, as the one that privatised.

    Returns
    -------
    ReportTally, NumericTally or RapporTally
        What the transformer's `tally` returns for the whole table; its estimates take it.

    Raises
    ------
    TypeError
        If the frame or the transformer is of another kind.
    NotFittedError
        If the transformer is not fitted.
    ValueError
        If the table has no rows, or other columns or values than reports of this transformer.
    ImportError
        If a library is missing; the error names the extra to install.

    See Also
    --------
    privatize : Makes the reports.
    tally_batches : Sums up a stream.

    Notes
    -----
    **Privacy.** Post-processing of reports: free.

    Examples
    --------
    >>> import polars as pl
    >>> from skdp import RandomizedResponseEncoder
    >>> from skdp.engines import privatize, tally
    >>> encoder = RandomizedResponseEncoder(3.0, categories={"smokes": ["yes", "no"]}, random_state=0)
    >>> people = pl.LazyFrame({"smokes": ["yes", "no", "no", "no"]})
    >>> tally(privatize(people, encoder), encoder).n_reports
    4
    """
    engine = engine_of(frame)
    check_tally(transformer)
    protocol = transformer.protocol_
    names, wanted = engine.column_names(frame), protocol.report_columns
    if not set(wanted) <= set(names):
        raise ValueError(f"the reports of this encoder have the columns {wanted}, got {names}")
    return engine.tally(frame, protocol.without_secrets())


def tally_batches(batches: Iterable[Any], transformer: Any) -> Any:
    """Sum up a stream of reports, batch by batch.

    Parameters
    ----------
    batches : iterable of table
        Reports, each a pandas, polars or pyarrow table, such as the days or the files of a collection; further columns
        are ignored, and so are empty batches.
    transformer : local transformer
        Fitted, as the one that privatised.

    Returns
    -------
    ReportTally, NumericTally or RapporTally
        What the transformer's `tally` returns for all rows.

    Raises
    ------
    TypeError
        If the transformer is of another kind.
    NotFittedError
        If the transformer is not fitted.
    ValueError
        If there is no row, or other columns or values than reports of this transformer.

    See Also
    --------
    tally : Sums up the reports of a table of any engine.

    Notes
    -----
    **Privacy.** Post-processing of reports: free.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp import RandomizedResponseEncoder
    >>> from skdp.engines import tally_batches
    >>> answers = pd.DataFrame({"smokes": ["yes", "no", "no"]})
    >>> encoder = RandomizedResponseEncoder(categories={"smokes": ["yes", "no"]}).fit(answers)
    >>> tally_batches((encoder.transform(answers) for day in range(7)), encoder).n_reports
    21
    """
    check_tally(transformer)
    counter = Counter(transformer.protocol_)
    for batch in batches:
        counter.add(batch)
    return counter.total()


_GROUPS = 1 << 16


def group_columns(protocol: ReportProtocol) -> list[list[Any]]:
    """Return by which columns an engine may count reports that are values of a domain."""
    if protocol.values is None:
        return []
    # One pass over the columns together, if they have few combinations.
    groups, together = protocol.counted_columns, protocol.values.size <= _GROUPS
    return [[name for columns in groups for name in columns]] if groups and together else groups


def number_columns(protocol: ReportProtocol) -> list[list[Any]]:
    """Return by which columns an engine may count reports that are numbers."""
    return protocol.counted_columns if protocol.values is None else []


class Counter:
    """The tally of a stream of reports."""

    def __init__(self, protocol: ReportProtocol) -> None:
        self._protocol = protocol
        self.names = protocol.report_columns
        self._sums = protocol.empty_tally().sums()

    def add(self, reports: Any) -> None:
        """Add the reports of a batch."""
        if len(reports):
            frame = nw.from_native(reports, eager_only=True).select(*self.names)
            self.add_tally(self._protocol.tally(self._protocol.read(frame.to_native())))

    def add_tally(self, tally: Tally) -> None:
        """Add a tally of the same protocol."""
        for total, part in zip(self._sums, tally.sums(), strict=True):
            total += part

    def add_groups(self, values: Any, counts: NDArray[np.int64]) -> None:
        """Add reports that were counted by value."""
        self.add_tally(self._protocol.tally_counts(values, counts))

    def __add__(self, other: Counter) -> Counter:
        both = Counter(self._protocol)
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
        return self._protocol.empty_tally().with_sums(self._sums)
