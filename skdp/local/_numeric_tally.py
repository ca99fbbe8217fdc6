"""What a server keeps of many reports of numbers: how often each number was reported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from skdp.local._stored_tally import StoredTally, are_counts, plain_name


@dataclass(frozen=True, eq=False)
class NumericTally(StoredTally):  # numpydoc ignore=PR02
    """Sums over privatised numbers, which add over batches, days and machines.

    Parameters
    ----------
    counts : tuple of ndarray of shape (n_values,), dtype int64
        For each column how often each of the numbers that may be reported was, in ascending order of these.
    protocol : mapping
        The parameters of the perturber that decide what a report means: plain text and numbers.

    Notes
    -----
    **Privacy.** A tally is computed from privatised reports only: post-processing, at no further cost.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp import NumericPerturber
    >>> people = pd.DataFrame({"age": [23, 41, 67]})
    >>> perturber = NumericPerturber(bounds=(0, 100), grid_size=10).fit(people)
    >>> week = perturber.tally(perturber.transform(people)) + perturber.tally(perturber.transform(people))
    >>> week.n_reports
    6
    >>> NumericTally.from_json(week.to_json()) == week
    True
    """

    _format = "skdp numeric tally, version 1"
    _sums = "counts"

    counts: tuple[NDArray[np.int64], ...]
    protocol: Mapping[str, Any]

    @property
    def n_reports(self) -> int:  # numpydoc ignore=RT01
        """The number of records."""
        return int(self.counts[0].sum())

    def __add__(self, other: NumericTally) -> NumericTally:
        if not isinstance(other, NumericTally):
            return NotImplemented
        if self.protocol != other.protocol:
            raise ValueError(
                "the tallies come from perturbers with different parameters or columns and cannot be added"
            )
        return self._of_numbers([left + right for left, right in zip(self.counts, other.counts, strict=True)])

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, NumericTally)
            and self.protocol == other.protocol
            and all(map(np.array_equal, self.counts, other.counts))
        )

    __hash__ = None  # type: ignore[assignment]

    def _header(self) -> dict[str, Any]:
        columns = [plain_name(name) for name in self.protocol["columns"]]
        return {"protocol": {**self.protocol, "columns": columns}}

    def _parts(self) -> tuple[NDArray[np.int64], ...]:
        return self.counts

    def _numbers(self) -> list[NDArray[np.int64]]:
        return list(self.counts)

    def _of_numbers(self, numbers: Sequence[NDArray[np.int64]]) -> NumericTally:
        return NumericTally(tuple(numbers), self.protocol)

    @classmethod
    def _read(cls, header: dict[str, Any], parts: list[NDArray[Any]]) -> Self:
        protocol = header["protocol"]
        if not isinstance(protocol["columns"], list) or len(parts) != len(protocol["columns"]) or not parts:
            raise ValueError("the sums of the tally do not fit its columns")
        if [part.shape for part in parts] != [(size,) for size in protocol["n_values"]]:
            raise ValueError("the sums of the tally do not fit its parameters")
        if not all(part.dtype.kind in "iu" and (part >= 0).all() for part in parts):
            raise ValueError("the numbers of the tally do not fit each other")
        totals = [sum(part.tolist()) for part in parts]
        if len({*totals}) > 1 or not are_counts(totals):
            raise ValueError("the numbers of the tally do not fit each other")
        return cls(tuple(part.astype(np.int64) for part in parts), protocol)
