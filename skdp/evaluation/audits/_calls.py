"""The calls of an audited release: its tables, and what is looked at."""

from __future__ import annotations

import itertools
import pickle
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from skdp.evaluation.audits._neighbours import count_rows, in_library, repeat, stack
from skdp.evaluation.audits._outputs import Outputs, read_call, read_rows, stack_calls

_MOST_SUPPORTED = 64
_CELLS = 1 << 22
"""Cells of a batch of rows."""


_MIXED_ROWS, _MANY_ROWS = 7, 24


@dataclass(frozen=True)
class Situation:
    """A table for single calls."""

    name: str
    table: Any
    place: int
    fit: bool = False
    kept: bool = False
    """Whether the output is what a clone keeps and shows after its release."""


@dataclass
class Audited:
    """A release that is audited, and its neighbouring tables."""

    release: Callable[..., Any]
    tables: list[Any]
    each_row: bool
    fitted: Any = None
    keyed: bool = False
    n_reports: int = 1
    statistic: Callable[[Any], Any] | None = None
    fit_release: Callable[..., Any] | None = None
    paired: bool = False
    fresh: Callable[[], Any] | None = None
    """Makes unfitted clones."""
    central: bool = False
    _ids: Iterator[int] = field(default_factory=itertools.count)

    def groups(self) -> list[list[Situation]]:
        """List the groups of tables for single calls."""
        tables = self.tables
        groups = [[Situation("", table, place) for place, table in enumerate(tables)]]
        pairs = self._pairs() if self.paired else []
        if self.fit_release is not None and not pairs:
            groups.append(
                [
                    Situation("fit_transform: ", table, place, True)
                    for place, table in enumerate(tables)
                ]
            )
        groups += [self._group("two rows: ", both) for both in pairs]
        if pairs and self.fit_release is not None:
            groups.append(
                self._group("fit_transform of two rows: ", pairs[1], fit=True)
            )
        if pairs:
            groups += self._mixed_groups()
        if self.fresh is not None:
            groups.append(
                self._group("what is kept: ", (tables[0], tables[-1]), kept=True)
            )
        return groups

    def _group(self, name: str, tables: Sequence[Any], **how: bool) -> list[Situation]:
        """Make a group of the first record and the last one, or of tables that differ in these."""
        places = 0, len(self.tables) - 1
        return [
            Situation(name, table, place, **how)
            for place, table in zip(places, tables, strict=True)
        ]

    def _mixed_groups(self) -> list[list[Situation]]:
        """List groups of tables of some different rows, also in frames of other libraries."""
        first, last = (
            self._mixed(_MIXED_ROWS, 0),
            self._mixed(_MIXED_ROWS, _MIXED_ROWS - 1),
        )
        groups = [self._group(f"{_MIXED_ROWS} rows: ", both) for both in (first, last)]
        for library in ("polars", "pyarrow"):
            try:
                groups.append(
                    self._group(
                        f"{library}: ", [in_library(table, library) for table in first]
                    )
                )
            except Exception:
                continue  # it is not installed, or does not take such values
        return groups

    def many_rows(self) -> list[Situation]:
        """List tables of more rows, for what happens rarely."""
        return (
            self._group(f"{_MANY_ROWS} rows: ", self._mixed(_MANY_ROWS, 0))
            if self._pairs()
            else []
        )

    def _mixed(self, rows: int, changed: int) -> list[Any]:
        """Stack all records in turn, twice: with the first record, and with the last one, at one place."""
        records = [self.tables[place % len(self.tables)] for place in range(rows)]
        return [
            stack([*records[:changed], record, *records[changed + 1 :]])
            for record in (self.tables[0], self.tables[-1])
        ]

    def _pairs(self) -> list[tuple[Any, Any]]:
        """Pair tables of two rows that differ in one: the first record in one table, the last in the other."""
        first, middle, last = (
            self.tables[0],
            self.tables[len(self.tables) // 2],
            self.tables[-1],
        )
        try:
            return [
                (stack([middle, first]), stack([middle, last])),
                (stack([first, first]), stack([first, last])),
                (stack([first, middle]), stack([last, middle])),
            ]
        except Exception:
            return []  # tables of unlike dtypes

    def _reports(self, table: Any, fit: bool = False) -> list[Any]:
        """Release a table once for each report of a record, under new record ids."""
        release = (
            self.fit_release if fit and self.fit_release is not None else self.release
        )
        if not self.keyed:
            return [release(table) for _ in range(self.n_reports)]
        ids = [f"record {next(self._ids)}" for _ in range(count_rows(table))]
        return [release(table, record_id=ids) for _ in range(self.n_reports)]

    def _release_by(self, fresh: Any, table: Any) -> None:
        if not hasattr(fresh, "transform"):
            fresh.report(table)
            return
        ids = (
            {"record_id": [f"record {row}" for row in range(count_rows(table))]}
            if self.keyed
            else {}
        )
        fresh.fit(table).transform(table, **ids)

    def rows(self, which: int, n: int) -> Outputs:
        """Draw outputs by releasing one table of equal rows."""
        outputs: Outputs = {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # single calls look at them
            for turn, report in enumerate(self._reports(repeat(self.tables[which], n))):
                columns = read_rows(report, n)
                columns |= _supports(self.fitted, columns)
                if self.statistic is not None:
                    columns |= {
                        f"statistic, {name}": c
                        for name, c in read_rows(self.statistic(report), n).items()
                    }
                outputs |= (
                    columns
                    if self.n_reports == 1
                    else {f"report {turn}, {k}": c for k, c in columns.items()}
                )
        return outputs

    def calls(self, situation: Situation, n: int) -> list[dict[str, Any]]:
        """Draw outputs by releasing a table again and again, with everything that is visible."""
        return [read_call(lambda: self._seen(situation)) for _ in range(n)]

    def _seen(self, situation: Situation) -> Any:
        if situation.kept and self.fresh is not None:
            fresh = self.fresh()
            self._release_by(fresh, situation.table)
            return kept_by(fresh)
        reports = self._reports(situation.table, situation.fit)
        if self.statistic is not None:
            reports += [self.statistic(report) for report in reports]
        return reports[0] if len(reports) == 1 else reports

    def batches(
        self, which: int, n: int, *, width: int
    ) -> Iterator[tuple[int, Outputs | None]]:
        """Draw many outputs by rows, in batches."""
        most = max(1000, _CELLS // width)
        while n > 0:
            size = min(n, most)
            try:
                outputs = self.rows(which, size)
            except Exception:
                yield size, None
            else:
                yield size, outputs
            n -= size

    def call_batch(self, situation: Situation, n: int) -> Outputs:
        return stack_calls(self.calls(situation, n))


def _supports(fitted: Any, columns: Outputs) -> Outputs:
    """Return which values each hashed report supports: the seed is public, and new in each report."""
    added: Outputs = {}
    oracles = getattr(fitted, "oracles_", ())
    if not any(oracle.shows_hash for oracle in oracles):
        return added
    arrays, place = list(columns.values()), 0
    for number, oracle in enumerate(oracles):
        width = oracle.width
        if oracle.shows_hash:
            reports = np.column_stack(
                [array.astype(np.uint64) for array in arrays[place : place + width]]
            )
            for value, supported in enumerate(
                oracle.supports(reports)[:, :_MOST_SUPPORTED].T
            ):
                added[f"support of value {value} by attribute {number}"] = supported
        place += width
    return added


def kept_by(fitted: Any) -> dict[str, str]:
    """Return what an estimator keeps and shows: its attributes, its pickle and its text."""
    held = {
        name: value
        for name, value in vars(fitted).items()
        if name not in fitted.get_params(deep=False)
    }
    try:
        pickled = pickle.dumps(fitted).hex()
    except Exception as error:
        pickled = type(error).__name__
    texts = {name: repr(value) for name, value in held.items()} | {
        "the text": repr(fitted)
    }
    # An address in memory is that of a call, and may well be the same for all calls with a table.
    return {
        name: re.sub(" at 0x[0-9a-f]+", "", text) for name, text in texts.items()
    } | {"the pickle": pickled}
