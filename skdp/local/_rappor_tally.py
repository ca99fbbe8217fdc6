"""What a server keeps of many RAPPOR reports: how many have a 1 in each bit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from skdp.local._stored_tally import StoredTally, are_counts, plain_name


@dataclass(frozen=True, eq=False)
class RapporTally(StoredTally):  # numpydoc ignore=PR02
    """Sums over RAPPOR reports, which add over batches, days and machines.

    Parameters
    ----------
    ones : ndarray of shape (n_columns, n_cohorts, n_bits), dtype int64
        For each column how many reports of each cohort have a 1 in each bit.
    cohort_sizes : ndarray of shape (n_cohorts,), dtype int64
        The number of reports of each cohort.
    protocol : mapping
        The parameters of the encoder that decide what a report means: plain text and numbers.

    Notes
    -----
    **Privacy.** A tally is computed from privatised reports only: post-processing, at no further cost.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp.local import RapporEncoder
    >>> pages = pd.DataFrame({"home": ["a.example", "b.example", "a.example"]})
    >>> encoder = RapporEncoder(n_bits=16).fit(pages)
    >>> week = encoder.tally(encoder.transform(pages)) + encoder.tally(encoder.transform(pages))
    >>> week.n_reports
    6
    >>> RapporTally.from_json(week.to_json()) == week
    True
    """

    _format = "skdp RAPPOR tally, version 1"
    _sums = "ones"

    ones: NDArray[np.int64]
    cohort_sizes: NDArray[np.int64]
    protocol: Mapping[str, Any]

    @property
    def n_reports(self) -> int:  # numpydoc ignore=RT01
        """The number of reports."""
        return int(self.cohort_sizes.sum())

    def __add__(self, other: RapporTally) -> RapporTally:
        if not isinstance(other, RapporTally):
            return NotImplemented
        if self.protocol != other.protocol:
            raise ValueError("the tallies come from encoders with different parameters or columns and cannot be added")
        return RapporTally(self.ones + other.ones, self.cohort_sizes + other.cohort_sizes, self.protocol)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, RapporTally)
            and self.protocol == other.protocol
            and np.array_equal(self.ones, other.ones)
            and np.array_equal(self.cohort_sizes, other.cohort_sizes)
        )

    __hash__ = None  # type: ignore[assignment]

    def _header(self) -> dict[str, Any]:
        columns = [plain_name(name) for name in self.protocol["columns"]]
        return {"protocol": {**self.protocol, "columns": columns}, "cohort_sizes": self.cohort_sizes.tolist()}

    def _parts(self) -> list[NDArray[np.int64]]:
        return [column.ravel() for column in self.ones]

    def _numbers(self) -> list[NDArray[np.int64]]:
        return [self.ones, self.cohort_sizes]

    def _of_numbers(self, numbers: Sequence[NDArray[np.int64]]) -> RapporTally:
        ones, cohort_sizes = numbers
        return RapporTally(ones, cohort_sizes, self.protocol)

    @classmethod
    def _read(cls, header: dict[str, Any], parts: list[NDArray[Any]]) -> Self:
        protocol, sizes = header["protocol"], header["cohort_sizes"]
        if not isinstance(protocol["columns"], list):
            raise ValueError("the columns of the tally must be a list")
        shape = len(protocol["columns"]), protocol["n_cohorts"], protocol["n_bits"]
        if not are_counts(shape[1:]) or [part.shape for part in parts] != [(shape[1] * shape[2],)] * shape[0]:
            raise ValueError("the sums of the tally do not fit its parameters")
        ones = np.reshape(parts, shape)
        if not are_counts(sizes) or len(sizes) != shape[1] or ones.dtype.kind not in "iu":
            raise ValueError("the numbers of the tally do not fit each other")
        if (ones < 0).any() or (ones > np.array(sizes)[:, np.newaxis]).any():
            raise ValueError("the numbers of the tally do not fit each other")
        return cls(ones.astype(np.int64), np.array(sizes, np.int64), protocol)
