"""Reports of clients as JSON lines: an object for each record, with the columns of the reports."""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.engines._atomic import Bar
from skdp.engines._csv import is_text_in_json, readers
from skdp.engines._engine import ReportSums
from skdp.engines._extras import Extra

pyarrow = Extra("pyarrow")

MOST_LINE_BYTES = 1 << 20
_BATCH_ROWS, _BATCH_BYTES = 1 << 13, 1 << 22
_EXACT = float(1 << 53)

Line = tuple[int, list[Any]]
"""The number of a line, and the parts of its report."""
Reader = tuple[Any, Callable[[Any], Any]]
"""The Arrow type of a column, and what makes it of a column of text."""


def sum_lines(path: Path, reports: ReportSums, bar: Bar) -> list[NDArray[np.int64]]:
    """Sum up the reports of a file; a line that is none is refused by its number."""
    sums, written = reports.zeros(), _readers_of_text(reports)
    for lines in _batches(path, reports.names):
        if _is_refused(lines, written, reports, sums):
            number = _first_refused(lines, written, reports)
            raise ValueError(f"{path.name}, line {number}: not a report of this protocol")
        bar.update(len(lines))
    return sums


def _readers_of_text(reports: ReportSums) -> dict[str, Reader]:
    """Return what reads the declared values that JSON has only as text, by the names of their columns."""
    domain = reports.values
    names = [] if domain is None else [name for name in domain.columns if is_text_in_json(domain[name])]
    return readers(domain.select(names)) if domain is not None and names else {}


def _is_refused(
    lines: Sequence[Line], written: dict[str, Reader], reports: ReportSums, sums: list[NDArray[np.int64]]
) -> bool:
    """Add up reports, or return True if one of them is refused: its error may hold a value, and ends here."""
    columns = zip(reports.names, zip(*(row for _, row in lines), strict=True), strict=True)
    try:
        reports.add(sums, pd.DataFrame({name: _typed(column, written.get(name)) for name, column in columns}))
    except (ValueError, TypeError):
        return True
    return False


def _first_refused(lines: Sequence[Line], written: dict[str, Reader], reports: ReportSums) -> int:
    """Find the number of the first line that is refused, by halves."""
    while len(lines) > 1:
        half = len(lines) // 2
        lines = lines[:half] if _is_refused(lines[:half], written, reports, reports.zeros()) else lines[half:]
    return lines[0][0]


def _batches(path: Path, names: Sequence[str]) -> Iterator[list[Line]]:
    """Read lines, a few at a time."""
    waiting: list[Line] = []
    with path.open("rb") as file:
        number = size = 0
        while line := file.readline(MOST_LINE_BYTES + 1):
            number += 1
            if number == 1:
                line = line.removeprefix(codecs.BOM_UTF8)
            if len(line) > MOST_LINE_BYTES:
                raise ValueError(f"{path.name}, line {number}: a report has at most {MOST_LINE_BYTES:,} bytes")
            if not line.strip():
                continue
            if (row := _parse(line, names)) is None:
                if waiting:
                    yield waiting  # the first line that is refused is named
                raise ValueError(f"{path.name}, line {number}: not a JSON object with the columns of the reports")
            waiting.append((number, row))
            size += len(line)
            if len(waiting) == _BATCH_ROWS or size > _BATCH_BYTES:
                yield waiting
                waiting, size = [], 0
    if waiting:
        yield waiting


def _parse(line: bytes, names: Sequence[str]) -> list[Any] | None:
    """Parse a line; None if it is no object with these columns."""
    try:
        row = json.loads(line.decode("utf-8"), parse_constant=_refuse, object_pairs_hook=_distinct)
        parts = [_whole(row[name]) for name in names]
    except (ValueError, TypeError, LookupError, RecursionError):
        return None
    return None if any(isinstance(part, list | dict) for part in parts) else parts


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError
    return found


def _refuse(_: str) -> NoReturn:
    raise ValueError


def _whole(value: Any) -> Any:
    """Write 5.0 as 5: one number with a point must not change how the whole numbers of other lines are read."""
    return int(value) if type(value) is float and value.is_integer() and abs(value) < _EXACT else value


def _typed(column: Sequence[Any], written: Reader | None) -> pd.Series:
    """Make a column whose type does not change what its values mean."""
    if written is not None:
        unit, parse = written
        # A decimal may be a number of JSON, too; of another kind than text, the rest is refused.
        is_decimal = pyarrow.types.is_decimal(unit)
        texts = [str(value) if is_decimal and type(value) in (int, float) else value for value in column]
        return parse(pyarrow.chunked_array([pyarrow.array(texts, pyarrow.string())])).to_pandas()
    if set(map(type, column)) == {int} and all(abs(value) < 1 << 63 for value in column):
        return pd.Series(column, dtype=np.int64)
    return pd.Series(list(column), dtype=object)
