"""What a server keeps of many reports: how many support each value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.domain import Domain


@dataclass(frozen=True, eq=False)
class ReportTally:  # numpydoc ignore=PR02
    """Sums over privatised reports, which add over batches, days and machines.

    Parameters
    ----------
    support : tuple of ndarray of shape (k,), dtype int64
        For each attribute (a column, or all columns jointly) the number of reports that support each value.
    n_reports : int
        The number of reports.
    domain : Domain
        The domain of the columns.
    protocol : tuple
        The parameters of the encoder that decide what a report means.

    Notes
    -----
    **Privacy.** A tally is computed from privatised reports only: post-processing, at no further cost.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp import RandomizedResponseEncoder
    >>> answers = pd.DataFrame({"smokes": ["yes", "no", "no"]})
    >>> encoder = RandomizedResponseEncoder(categories={"smokes": ["yes", "no"]}).fit(answers)
    >>> monday, tuesday = encoder.transform(answers), encoder.transform(answers)
    >>> (encoder.tally(monday) + encoder.tally(tuesday)).n_reports
    6
    """

    support: tuple[NDArray[np.int64], ...]
    n_reports: int
    domain: Domain
    protocol: tuple[Any, ...]

    def __add__(self, other: ReportTally) -> ReportTally:
        if not isinstance(other, ReportTally):
            return NotImplemented
        if self.domain != other.domain or self.protocol != other.protocol:
            raise ValueError("the tallies come from encoders with different parameters or domains and cannot be added")
        support = tuple(left + right for left, right in zip(self.support, other.support, strict=True))
        return ReportTally(support, self.n_reports + other.n_reports, self.domain, self.protocol)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, ReportTally)
            and self.n_reports == other.n_reports
            and self.domain == other.domain
            and self.protocol == other.protocol
            and all(map(np.array_equal, self.support, other.support))
        )

    __hash__ = None  # type: ignore[assignment]
