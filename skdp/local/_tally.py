"""Tally: the sums of reports with their protocol, which can be added and saved."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from skdp._arrays import Integers
from skdp._json import check_version, parse_json, value_from_json, value_to_json
from skdp.domain import Domain, Interval
from skdp.tables import MAX_REPORTS

_FORMAT = "skdp tally, version 2"


@dataclass(frozen=True, eq=False)
class ReportTally:
    """Sums of reports, which can be added over batches of reports.

    The method `tally` of fitted transformers returns a tally. It contains the protocol,
    and only tallies of one protocol can be added.

    Parameters
    ----------
    protocol : mapping
        Parameters that determine the meaning of the sums, as text, numbers and lists. The
        entry ``"fields"`` has a mapping for each column, or group of columns, that is
        reported separately.
    counts : tuple of ndarray of int64
        Sums of each field: the number of reports that support each declared value, or
        have each number or bit.
    sizes : tuple of int
        Number of records that report each field.
    n_reports : int
        Number of all records.

    Notes
    -----
    **Privacy.** Post-processing of the reports, without privacy loss.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp import RandomizedResponseEncoder, ReportTally
    >>> answers = pd.DataFrame({"smokes": ["yes", "no", "no"]})
    >>> declared = {"smokes": ["yes", "no"]}
    >>> encoder = RandomizedResponseEncoder(categories=declared).fit(answers)
    >>> monday = encoder.transform(answers)
    >>> tuesday = encoder.transform(answers)
    >>> week = encoder.tally(monday) + encoder.tally(tuesday)
    >>> week.n_reports
    6
    >>> ReportTally.from_json(week.to_json()) == week
    True
    """

    protocol: Mapping[str, Any]
    counts: tuple[Integers, ...]
    sizes: tuple[int, ...]
    n_reports: int

    def __add__(self, other: Self) -> Self:
        # Tallies of two batches of reports with one protocol add up to the tally of all
        # reports.
        if not isinstance(other, ReportTally):
            return NotImplemented
        check_tally(other, self.protocol)
        # Each sum is at most MAX_REPORTS, so the total does not overflow.
        total = self.with_sums(list(map(np.add, self.sums(), other.sums())))
        if total.n_reports > MAX_REPORTS:
            raise ValueError(
                f"A tally must have at most 2**56 reports, got {total.n_reports:,}."
            )
        return total

    def __eq__(self, other: object) -> bool:
        # Two tallies are equal if they have the same protocol and the same sums.
        return (
            isinstance(other, ReportTally)
            and self.protocol == other.protocol
            and all(map(np.array_equal, self.sums(), other.sums()))
        )

    def sums(self) -> list[Integers]:
        """Return all arrays that are summed in the sum of two tallies.

        Returns
        -------
        list of ndarray of int64
            `counts` of each field, then `sizes`, then an array of `n_reports`.
        """
        sizes = np.array(self.sizes, np.int64)
        return [*self.counts, sizes, np.array([self.n_reports], np.int64)]

    def with_sums(self, sums: Sequence[Integers]) -> Self:
        """Make a tally of the same protocol with other sums.

        Parameters
        ----------
        sums : sequence of ndarray of int64
            Arrays of the shapes that `sums` returns.

        Returns
        -------
        ReportTally
            New tally.
        """
        *counts, sizes, n_reports = sums
        return type(self)(
            self.protocol, tuple(counts), tuple(sizes.tolist()), int(n_reports[0])
        )

    def __repr__(self) -> str:
        encoder = self.protocol.get("encoder")
        return f"ReportTally(encoder={encoder!r}, n_reports={self.n_reports:,})"

    def to_json(self) -> str:
        """Write the tally and its protocol as JSON.

        Returns
        -------
        str
            JSON text.

        Raises
        ------
        TypeError
            If a column name or a declared value cannot be written as JSON.
        """
        fields = list(map(_pack_field, self.protocol["fields"]))
        content = {
            "format": _FORMAT,
            "protocol": {**self.protocol, "fields": fields},
            "sizes": list(self.sizes),
            "n_reports": self.n_reports,
            "counts": [sums.ravel().tolist() for sums in self.counts],
        }
        return json.dumps(content, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Load a tally from the JSON of `to_json`.

        Parameters
        ----------
        text : str
            Output of `to_json`.

        Returns
        -------
        ReportTally
            Tally.

        Raises
        ------
        ValueError
            If the text is not a tally of this version, has counts that are impossible in
            its protocol, or has more than 2**24 characters.
        """
        content: Any = parse_json(text, "A tally")
        found = content.get("format") if isinstance(content, dict) else None
        if later := re.fullmatch(r"skdp tally, version (\d{1,9})", str(found)):
            check_version(int(later[1]), 2, "The tally")
        if found != _FORMAT:
            raise ValueError(f"The text must be a tally of the format {_FORMAT!r}.")
        # An untrusted text can raise any exception, whose message may contain the text.
        with suppress(Exception):
            return cls._from_content(content)
        raise ValueError(
            "The tally must be complete, with counts between 0 and the number of "
            "reports of each field."
        )

    @classmethod
    def _from_content(cls, content: dict[str, Any]) -> Self:
        """Make a tally from the content of its JSON, and check that the counts are consistent.

        A field is a column, or a combination of columns, that is reported separately;
        `sizes` are the numbers of records that report each field.
        """
        fields = list(map(_unpack_field, content["protocol"]["fields"]))
        sizes, n_reports = content["sizes"], content["n_reports"]
        _check_counts([n_reports], MAX_REPORTS)
        _check_counts(sizes, n_reports)
        # If fields are sampled, the protocol has their weights, and a record reports one
        # field. Otherwise, it reports all fields.
        n_reported = len(fields) if content["protocol"]["weights"] is None else 1
        if sum(sizes) != n_reports * n_reported:
            raise ValueError
        counts = []
        for field, flat, size in zip(fields, content["counts"], sizes, strict=True):
            _check_counts(flat, size)
            _check_counts(field["shape"], MAX_REPORTS)
            counts.append(np.array(flat, np.int64).reshape(field["shape"]))
        protocol = {**content["protocol"], "fields": fields}
        return cls(protocol, tuple(counts), tuple(sizes), n_reports)


def _check_counts(counts: Sequence[Any], largest: int) -> None:
    """Raise ValueError if a count is not an int from 0 to `largest`."""
    for count in counts:
        # In Python, True is an instance of int.
        if type(count) is not int or not 0 <= count <= largest:
            raise ValueError


def check_tally(tally: Any, protocol: Mapping[str, Any]) -> None:
    """Raise an error if a tally does not have the given protocol."""
    if not isinstance(tally, ReportTally) or tally.protocol != protocol:
        raise ValueError(
            "The tally must have the protocol of this encoder or tally, got other "
            "parameters or columns. Use one encoder for all reports."
        )


def domain_to_lists(field: Mapping[str, Any]) -> dict[str, Any]:
    """Replace the domain of a field by a list with the values of each column."""
    converted = dict(field)
    if "domain" in field:
        converted["domain"] = []
        for name in field["domain"].columns:
            values = field["domain"][name]
            # An Interval is kept, because the values of its bins do not determine the edges.
            is_binned = isinstance(values, Interval)
            converted["domain"].append(values if is_binned else list(values.values))
    return converted


def _pack_field(field: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the columns and declared values of a field to JSON values."""
    packed = domain_to_lists(field)
    for name in packed.keys() & {"columns", "domain"}:
        packed[name] = value_to_json(packed[name])
    return packed


def _unpack_field(packed: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the output of `_pack_field` back, and check that the sums have a count for each declared value."""
    field = {**packed, "columns": value_from_json(packed["columns"])}
    if not isinstance(field["columns"], list):
        raise TypeError
    if "domain" in packed:
        values = map(value_from_json, packed["domain"])
        field["domain"] = Domain(dict(zip(field["columns"], values, strict=True)))
        if field["domain"].size != math.prod(field["shape"]):
            raise ValueError
    return field
