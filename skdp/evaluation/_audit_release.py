"""What is audited, as a function from a table to its release, and the situations in which it is called."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from skdp.evaluation._audit_outputs import Outputs, read_call, read_rows, stack_calls
from skdp.evaluation._audit_records import count_rows, repeat, stack
from skdp.oracles import CountMeanSketch, LocalHashing

_MOST_SUPPORTED = 64
_CELLS = 1 << 22
"""Cells of a batch of rows."""


@dataclass(frozen=True)
class Situation:
    """A table of which single calls are made."""

    name: str
    table: Any
    place: int
    fit: bool = False


@dataclass
class Audited:
    """Something that is audited."""

    release: Callable[..., Any]
    tables: list[Any]
    each_row: bool
    fitted: Any = None
    keyed: bool = False
    n_reports: int = 1
    statistic: Callable[[Any], Any] | None = None
    fit_release: Callable[..., Any] | None = None
    paired: bool = False
    central: bool = False
    _ids: Iterator[int] = field(default_factory=itertools.count)

    def groups(self) -> list[list[Situation]]:
        """List what single calls are made of."""
        tables = self.tables
        groups = [[Situation("", table, place) for place, table in enumerate(tables)]]
        pairs = self._pairs() if self.paired else []
        if self.fit_release is not None and not pairs:
            groups.append([Situation("fit_transform: ", table, place, True) for place, table in enumerate(tables)])
        last = len(tables) - 1
        for both, fit in itertools.product(pairs, (False, True)):
            if not fit or self.fit_release is not None:
                name = "fit_transform of two rows: " if fit else "two rows: "
                groups.append(
                    [Situation(name, table, place, fit) for place, table in zip((0, last), both, strict=True)]
                )
        return groups

    def _pairs(self) -> list[tuple[Any, Any]]:
        """Pair tables of two rows that differ in one: the first record in one, the last in the other."""
        first, middle, last = self.tables[0], self.tables[len(self.tables) // 2], self.tables[-1]
        try:
            return [
                (stack([middle, first]), stack([middle, last])),
                (stack([first, first]), stack([first, last])),
                (stack([first, middle]), stack([last, middle])),
            ]
        except Exception:
            return []  # tables of unlike dtypes

    def _reports(self, table: Any, fit: bool = False) -> list[Any]:
        """Release a table as often as each record reports, under record ids that are new."""
        release = self.fit_release if fit and self.fit_release is not None else self.release
        if not self.keyed:
            return [release(table) for _ in range(self.n_reports)]
        ids = [f"record {next(self._ids)}" for _ in range(count_rows(table))]
        return [release(table, record_id=ids) for _ in range(self.n_reports)]

    def rows(self, which: int, n: int) -> Outputs:
        """Draw outputs by releasing one table of equal rows."""
        outputs: Outputs = {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # single calls look at them
            for turn, report in enumerate(self._reports(repeat(self.tables[which], n))):
                columns = read_rows(report, n)
                columns |= _supports(self.fitted, columns)
                if self.statistic is not None:
                    columns |= {f"statistic, {name}": c for name, c in read_rows(self.statistic(report), n).items()}
                outputs |= columns if self.n_reports == 1 else {f"report {turn}, {k}": c for k, c in columns.items()}
        return outputs

    def calls(self, situation: Situation, n: int) -> list[dict[str, Any]]:
        """Draw outputs by releasing a table again and again, and look at all that can be seen."""
        return [read_call(lambda: self._seen(situation)) for _ in range(n)]

    def _seen(self, situation: Situation) -> Any:
        reports = self._reports(situation.table, situation.fit)
        if self.statistic is not None:
            reports += [self.statistic(report) for report in reports]
        return reports[0] if len(reports) == 1 else reports

    def batches(self, which: int, n: int, *, width: int) -> Iterator[tuple[int, Outputs | None]]:
        """Draw many outputs by rows, some at a time."""
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
        """Draw outputs by single calls, as columns."""
        return stack_calls(self.calls(situation, n))


def _supports(fitted: Any, columns: Outputs) -> Outputs:
    """Add which values each hashed report supports: the seed is public, and new in each report."""
    added: Outputs = {}
    oracles = getattr(fitted, "oracles_", ())
    if not any(isinstance(oracle, LocalHashing | CountMeanSketch) for oracle in oracles):
        return added
    arrays, place = list(columns.values()), 0
    for number, oracle in enumerate(oracles):
        width = oracle.width
        if isinstance(oracle, LocalHashing | CountMeanSketch):
            reports = np.column_stack([array.astype(np.uint64) for array in arrays[place : place + width]])
            for value, supported in enumerate(oracle.supports(reports)[:, :_MOST_SUPPORTED].T):
                added[f"support of value {value} by attribute {number}"] = supported
        place += width
    return added
