"""The sums of the reports of keys and values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from skdp.local._stored_tally import StoredTally, are_counts, are_whole, whole_sums


@dataclass(frozen=True, eq=False)
class PairTally(StoredTally):  # numpydoc ignore=PR02
    """Sums over the reports of `KeyValueEncoder`, which add over batches, days and machines.

    Parameters
    ----------
    support : tuple of ndarray of shape (2 * n_keys,), dtype int64
        For each column the number of reports that support each sign of each key: minus and plus of the first key, then
        of the second one.
    n_reports : int
        The number of records.
    protocol : mapping
        The parameters of the encoder that decide what a report means: plain text and numbers.

    Notes
    -----
    **Privacy.** A tally is computed from privatised reports only: post-processing, at no further cost.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp.local import KeyValueEncoder, PairTally
    >>> ratings = pd.DataFrame({"films": [{"Alien": 4.0}, {"Alien": 5.0, "Brazil": 3.0}, {}]})
    >>> encoder = KeyValueEncoder(categories={"films": ["Alien", "Brazil"]}, bounds={"films": (1, 5)}).fit(ratings)
    >>> week = encoder.tally(encoder.transform(ratings)) + encoder.tally(encoder.transform(ratings))
    >>> week.n_reports
    6
    >>> PairTally.from_json(week.to_json()) == week
    True
    """

    _format = "skdp pair tally, version 1"
    _sums = "support"
    _makers = "encoders with different parameters or columns"

    support: tuple[NDArray[np.int64], ...]
    n_reports: int
    protocol: Mapping[str, Any]

    def _numbers(self) -> list[NDArray[np.int64]]:
        return [*self.support, np.array([self.n_reports], np.int64)]

    def _of_numbers(self, numbers: Sequence[NDArray[np.int64]]) -> Self:
        *support, n_reports = numbers
        return replace(self, support=tuple(support), n_reports=int(n_reports[0]))

    def _header(self) -> dict[str, Any]:
        return super()._header() | {"n_reports": self.n_reports}

    @classmethod
    def _read(cls, header: dict[str, Any], parts: list[NDArray[Any]]) -> Self:
        protocol, n_reports = header["protocol"], header["n_reports"]
        if not isinstance(protocol["columns"], list) or len(parts) != len(protocol["columns"]) or not parts:
            raise ValueError("the sums of the tally do not fit its columns")
        if [part.shape for part in parts] != [(oracle["k"],) for oracle in protocol["oracles"]]:
            raise ValueError("the sums of the tally do not fit its parameters")
        fit = are_counts([n_reports]) and are_whole(parts)
        fit = fit and all(bool((part >= 0).all()) and part.max() <= n_reports for part in parts)
        return cls(whole_sums(parts, fit), n_reports, protocol)
