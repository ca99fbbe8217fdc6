"""What a server keeps of many reports, of each kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from skdp.domain import Domain, Interval
from skdp.local._stored_tally import (
    ReportTally,
    are_counts,
    are_whole,
    plain_name,
    whole_sums,
)

_UNSIGNED = (
    *(
        "UnaryEncoding",
        "TwoRoundUnaryEncoding",
        "SubsetSelection",
        "LocalHashing",
        "TwoRoundHashing",
    ),
    *("SetSelection", "SetUnaryEncoding", "SampledSet"),
)
"""Oracles whose sums count the reports that support a value."""


@dataclass(frozen=True, eq=False)
class CountTally(ReportTally):
    """How many reports support each value."""

    _format = "skdp tally, version 1"
    _sums = "support"
    _makers = "encoders with different parameters or domains"

    support: tuple[NDArray[np.int64], ...]
    """For each attribute (a column, or all columns jointly) the number of reports of each value, of shape (k,)."""
    sizes: tuple[int, ...]
    """For each attribute, the number of reports of it."""
    n_reports: int
    domain: Domain
    protocol: Mapping[str, Any]

    def _meaning(self) -> tuple[Any, ...]:
        return self.domain, self.protocol

    def _header(self) -> dict[str, Any]:
        return {
            "protocol": self.protocol,
            "domain": _domain_to_plain(self.domain),
            "n_reports": self.n_reports,
            "sizes": self.sizes,
        }

    def _numbers(self) -> list[NDArray[np.int64]]:
        return [
            *self.support,
            np.array(self.sizes, np.int64),
            np.array([self.n_reports], np.int64),
        ]

    def _of_numbers(self, numbers: Sequence[NDArray[np.int64]]) -> Self:
        *support, sizes, n_reports = numbers
        return replace(
            self,
            support=tuple(support),
            sizes=tuple(sizes.tolist()),
            n_reports=int(n_reports[0]),
        )

    @classmethod
    def _read(cls, header: dict[str, Any], parts: list[NDArray[Any]]) -> Self:
        domain, protocol = _domain_from_plain(header["domain"]), header["protocol"]
        n_reports, sizes = header["n_reports"], tuple(header["sizes"])
        expected = [oracle["k"] for oracle in protocol["oracles"]]
        joint, sampled = (
            protocol["strategy"] == "joint",
            protocol["strategy"] == "sample",
        )
        if [len(part) for part in parts] != expected:
            raise ValueError(
                f"expected {expected} sums, got {[len(part) for part in parts]}"
            )
        if expected != ([domain.size] if joint else list(domain.sizes)) or len(
            sizes
        ) != len(expected):
            raise ValueError("the sums of the tally do not fit its domain")
        fit = are_counts([n_reports, *sizes]) and are_whole(parts)
        fit = fit and (
            sum(sizes) == n_reports if sampled else set(sizes) == {n_reports}
        )
        fit = fit and all(
            _are_of_reports(part, size, oracle["oracle"])
            for part, size, oracle in zip(
                parts, sizes, protocol["oracles"], strict=True
            )
        )
        return cls(whole_sums(parts, fit), sizes, n_reports, domain, protocol)


def _are_of_reports(support: NDArray[Any], size: int, name: Any) -> bool:
    """Check whether a number of reports of an oracle can have these sums."""
    if support.max(initial=0) > size:
        return False
    if name in (
        "RandomizedResponse",
        "TwoRoundResponse",
    ):  # a report supports one value
        return support.min(initial=0) >= 0 and sum(support.tolist()) == size
    # Signed sums too are at most as large as the number of reports; those of an oracle of others may be signed.
    return support.min(initial=0) >= (0 if name in _UNSIGNED else -size)


def _domain_to_plain(domain: Domain) -> list[dict[str, Any]]:
    columns: list[dict[str, Any]] = []
    for name in domain.columns:
        attribute = domain[name]
        values: dict[str, Any] = {"values": list(map(_to_plain, attribute.values))}
        if isinstance(attribute, Interval):
            edges = list(map(_to_plain, attribute.edges))
            values = {
                "edges": edges,
                "missing": attribute.missing,
                "real": attribute.says_real,
            }
        columns.append({"column": plain_name(name)} | values)
    return columns


def _domain_from_plain(columns: list[dict[str, Any]]) -> Domain:
    return Domain(
        {
            column["column"]: Interval(
                edges=_from_plain(column["edges"]),
                missing=column["missing"],
                real=column["real"],
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
    return [
        types[value[0]].fromisoformat(value[1]) if isinstance(value, list) else value
        for value in values
    ]


@dataclass(frozen=True, eq=False)
class RapporTally(ReportTally):
    """How many RAPPOR reports have a 1 in each bit."""

    _format = "skdp RAPPOR tally, version 1"
    _sums = "ones"
    _makers = "encoders with different parameters or columns"

    ones: NDArray[np.int64]
    """The reports of each cohort with a 1 in each bit, of shape (n_columns, n_cohorts, n_bits)."""
    cohort_sizes: NDArray[np.int64]
    """The number of reports of each cohort."""
    protocol: Mapping[str, Any]

    @property
    def n_reports(self) -> int:  # numpydoc ignore=RT01
        """The number of reports."""
        return int(self.cohort_sizes.sum())

    def _header(self) -> dict[str, Any]:
        return super()._header() | {"cohort_sizes": self.cohort_sizes.tolist()}

    def _numbers(self) -> list[NDArray[np.int64]]:
        return [self.ones, self.cohort_sizes]

    def _of_numbers(self, numbers: Sequence[NDArray[np.int64]]) -> Self:
        ones, cohort_sizes = numbers
        return replace(self, ones=ones, cohort_sizes=cohort_sizes)

    @classmethod
    def _read(cls, header: dict[str, Any], parts: list[NDArray[Any]]) -> Self:
        protocol, sizes = header["protocol"], header["cohort_sizes"]
        if not isinstance(protocol["columns"], list):
            raise ValueError("the columns of the tally must be a list")
        shape = len(protocol["columns"]), protocol["n_cohorts"], protocol["n_bits"]
        if (
            not are_counts(shape[1:])
            or [part.shape for part in parts] != [(shape[1] * shape[2],)] * shape[0]
        ):
            raise ValueError("the sums of the tally do not fit its parameters")
        ones = np.reshape(parts, shape)
        fit = (
            are_counts(sizes)
            and are_counts([sum(sizes)])
            and len(sizes) == shape[1]
            and are_whole([ones])
        )
        fit = fit and not (
            (ones < 0).any() or (ones > np.array(sizes)[:, np.newaxis]).any()
        )
        (sums,) = whole_sums([ones], fit)
        return cls(sums, np.array(sizes, np.int64), protocol)


@dataclass(frozen=True, eq=False)
class NumericTally(ReportTally):
    """How often each number was reported."""

    _format = "skdp numeric tally, version 1"
    _sums = "counts"
    _makers = "perturbers with different parameters or columns"

    counts: tuple[NDArray[np.int64], ...]
    """For each column how often each of its numbers was reported, in ascending order of these."""
    protocol: Mapping[str, Any]

    @property
    def n_reports(self) -> int:  # numpydoc ignore=RT01
        """The number of records."""
        if (n_sampled := self.protocol.get("n_sampled")) is None:
            return int(self.counts[0].sum())
        return sum(int(column.sum()) for column in self.counts) // int(n_sampled)

    def _numbers(self) -> list[NDArray[np.int64]]:
        return list(self.counts)

    def _of_numbers(self, numbers: Sequence[NDArray[np.int64]]) -> Self:
        return replace(self, counts=tuple(numbers))

    @classmethod
    def _read(cls, header: dict[str, Any], parts: list[NDArray[Any]]) -> Self:
        protocol = header["protocol"]
        if (
            not isinstance(protocol["columns"], list)
            or len(parts) != len(protocol["columns"])
            or not parts
        ):
            raise ValueError("the sums of the tally do not fit its columns")
        if [part.shape for part in parts] != [(size,) for size in protocol["n_values"]]:
            raise ValueError("the sums of the tally do not fit its parameters")
        fit = are_whole(parts) and all((part >= 0).all() for part in parts)
        totals = [sum(part.tolist()) for part in parts] if fit else []
        if fit and (size := protocol.get("n_sampled")) is not None:
            # Each record reports `n_sampled` columns, and none twice.
            fit = (
                are_counts([size])
                and 0 < size <= len(parts)
                and sum(totals) % size == 0
            )
            totals = (
                [sum(totals) // size]
                if fit and max(totals) * size <= sum(totals)
                else [-1]
            )
        return cls(
            whole_sums(parts, fit and len({*totals}) <= 1 and are_counts(totals)),
            protocol,
        )
