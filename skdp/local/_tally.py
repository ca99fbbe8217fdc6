"""What a server keeps of many reports: how many support each value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from skdp.domain import Domain, Interval
from skdp.local._stored_tally import StoredTally, are_counts, plain_name


@dataclass(frozen=True, eq=False)
class ReportTally(StoredTally):  # numpydoc ignore=PR02
    """Sums over privatised reports, which add over batches, days and machines.

    Parameters
    ----------
    support : tuple of ndarray of shape (k,), dtype int64
        For each attribute (a column, or all columns jointly) the number of reports that support each value.
    sizes : tuple of int
        For each attribute, the number of reports of it.
    n_reports : int
        The number of records.
    domain : Domain
        The domain of the columns.
    protocol : mapping
        The parameters of the encoder that decide what a report means: plain text and numbers.

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
    >>> week = encoder.tally(monday) + encoder.tally(tuesday)
    >>> week.n_reports
    6
    >>> ReportTally.from_json(week.to_json()) == week
    True
    """

    _format = "skdp tally, version 1"
    _sums = "support"

    support: tuple[NDArray[np.int64], ...]
    sizes: tuple[int, ...]
    n_reports: int
    domain: Domain
    protocol: Mapping[str, Any]

    def __add__(self, other: ReportTally) -> ReportTally:
        if not isinstance(other, ReportTally):
            return NotImplemented
        if self.domain != other.domain or self.protocol != other.protocol:
            raise ValueError("the tallies come from encoders with different parameters or domains and cannot be added")
        support = tuple(left + right for left, right in zip(self.support, other.support, strict=True))
        sizes = tuple(left + right for left, right in zip(self.sizes, other.sizes, strict=True))
        return ReportTally(support, sizes, self.n_reports + other.n_reports, self.domain, self.protocol)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, ReportTally)
            and (self.n_reports, self.sizes) == (other.n_reports, other.sizes)
            and self.domain == other.domain
            and self.protocol == other.protocol
            and all(map(np.array_equal, self.support, other.support))
        )

    __hash__ = None  # type: ignore[assignment]

    def _header(self) -> dict[str, Any]:
        return {
            "protocol": self.protocol,
            "domain": _domain_to_plain(self.domain),
            "n_reports": self.n_reports,
            "sizes": self.sizes,
        }

    def _parts(self) -> tuple[NDArray[np.int64], ...]:
        return self.support

    def _numbers(self) -> list[NDArray[np.int64]]:
        return [*self.support, np.array(self.sizes, np.int64), np.array([self.n_reports], np.int64)]

    def _of_numbers(self, numbers: Sequence[NDArray[np.int64]]) -> ReportTally:
        *support, sizes, n_reports = numbers
        return ReportTally(tuple(support), tuple(sizes.tolist()), int(n_reports[0]), self.domain, self.protocol)

    @classmethod
    def _read(cls, header: dict[str, Any], parts: list[NDArray[Any]]) -> Self:
        domain, protocol = _domain_from_plain(header["domain"]), header["protocol"]
        n_reports, sizes = header["n_reports"], tuple(header["sizes"])
        expected = [oracle["k"] for oracle in protocol["oracles"]]
        joint, sampled = protocol["strategy"] == "joint", protocol["strategy"] == "sample"
        if [len(part) for part in parts] != expected:
            raise ValueError(f"expected {expected} sums, got {[len(part) for part in parts]}")
        if expected != ([domain.size] if joint else list(domain.sizes)) or len(sizes) != len(expected):
            raise ValueError("the sums of the tally do not fit its domain")
        whole = are_counts([n_reports, *sizes]) and all(part.dtype.kind in "iu" for part in parts)
        if not whole or not (sum(sizes) == n_reports if sampled else set(sizes) == {n_reports}):
            raise ValueError("the numbers of the tally do not fit each other")
        # Signed sums too are at most as large as the number of reports.
        if any(np.abs(part).max(initial=0) > size for part, size in zip(parts, sizes, strict=True)):
            raise ValueError("the numbers of the tally do not fit each other")
        return cls(tuple(part.astype(np.int64) for part in parts), sizes, n_reports, domain, protocol)


def _domain_to_plain(domain: Domain) -> list[dict[str, Any]]:
    columns: list[dict[str, Any]] = []
    for name in domain.columns:
        attribute = domain[name]
        values: dict[str, Any] = {"values": list(map(_to_plain, attribute.values))}
        if isinstance(attribute, Interval):
            values = {"edges": list(map(_to_plain, attribute.edges))} | ({"missing": True} if attribute.missing else {})
            values |= {"real": True} if attribute.says_real else {}
        columns.append({"column": plain_name(name)} | values)
    return columns


def _domain_from_plain(columns: list[dict[str, Any]]) -> Domain:
    return Domain(
        {
            column["column"]: Interval(
                edges=_from_plain(column["edges"]),
                missing=column.get("missing", False),
                real=column.get("real", False),
            )
            if "edges" in column
            else _from_plain(column["values"])
            for column in columns
        }
    )


def _to_plain(value: Any) -> Any:
    """Write a date as a pair of its type and its text: no other value is a list."""
    if isinstance(value, datetime):
        return ["datetime", value.isoformat()]
    return ["date", value.isoformat()] if isinstance(value, date) else value


def _from_plain(values: list[Any]) -> list[Any]:
    types = {"date": date, "datetime": datetime}
    return [types[value[0]].fromisoformat(value[1]) if isinstance(value, list) else value for value in values]
