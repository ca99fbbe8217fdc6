"""The sums of the reports of a table: those of each report of a record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from skdp.local._stored_tally import ReportTally, are_counts
from skdp.local._tallies import CountTally, NumericTally

_KINDS: dict[str, type[ReportTally]] = {
    kind._format: kind for kind in (CountTally, NumericTally)
}


@dataclass(frozen=True, eq=False)
class TableTally(ReportTally):
    """The sums of each report of `LocalTableEncoder`."""

    _format = "skdp table tally, version 1"
    _sums = "sums"
    _makers = "encoders with different parameters or columns"

    parts: tuple[Any, ...]
    """The sums of each group of columns, over the records that report it."""
    n_reports: int
    protocol: Mapping[str, Any]

    def _meaning(self) -> tuple[Any, ...]:
        return (self.protocol, *(part._meaning() for part in self.parts))

    def _numbers(self) -> list[NDArray[np.int64]]:
        return [
            *(array for part in self.parts for array in part._numbers()),
            np.array([self.n_reports], np.int64),
        ]

    def _of_numbers(self, numbers: Sequence[NDArray[np.int64]]) -> Self:
        left, parts = list(numbers), []
        for part in self.parts:
            count = len(part._numbers())
            parts.append(part._of_numbers(left[:count]))
            left = left[count:]
        return type(self)(tuple(parts), int(left[0][0]), self.protocol)

    def _header(self) -> dict[str, Any]:
        headers = [part._content() for part in self.parts]
        return super()._header() | {"n_reports": self.n_reports, "parts": headers}

    def _parts(self) -> list[NDArray[np.int64]]:
        return [array for part in self.parts for array in part._parts()]

    @classmethod
    def _read(cls, header: dict[str, Any], parts: list[NDArray[Any]]) -> Self:
        headers, protocol, n_reports = (
            header["parts"],
            header["protocol"],
            header["n_reports"],
        )
        if (
            len(headers) != len(parts)
            or not all(isinstance(own, dict) for own in headers)
            or not parts
        ):
            raise ValueError("the sums of the tally do not fit its columns")
        kinds = [_KINDS.get(str(own.get("format"))) for own in headers]
        if None in kinds or not are_counts([n_reports]):
            raise ValueError("the numbers of the tally do not fit each other")
        read: tuple[Any, ...] = tuple(
            kind._checked(own, [part])
            for kind, own, part in zip(kinds, headers, parts, strict=True)
            if kind is not None
        )
        size = protocol["n_sampled"]
        sizes = [int(part.n_reports) for part in read]
        if size is None:
            fit = set(sizes) == {n_reports}
        else:
            fit = are_counts([size]) and 0 < size <= len(read)
            fit = fit and max(sizes) <= n_reports and sum(sizes) == size * n_reports
        if not fit:
            raise ValueError("the numbers of the tally do not fit each other")
        return cls(read, n_reports, protocol)
