"""What a server keeps of many reports: sums that add, are compared, and are stored."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from skdp._json import parse_json, read_value, write_value
from skdp.domain import Domain, Interval
from skdp.markup import html_facts
from skdp.tables import MAX_REPORTS

_FORMAT = "skdp tally, version 2"


@dataclass(frozen=True, eq=False)
class ReportTally:
    """Sums over privatised reports, which add over batches, days and machines.

    The `tally` of a fitted transformer makes one. It contains the protocol, so
    tallies of two protocols do not add.

    Parameters
    ----------
    protocol : mapping
        What a server must know to read the reports: plain text, numbers and lists, and
        in ``"fields"`` a mapping for each field, that is for each column, or group of
        columns, that is reported by itself.
    counts : tuple of ndarray of int64
        For each field its sums: how many reports support each declared value or hold
        each number or bit.
    sizes : tuple of int
        For each field the number of records that report it.
    n_reports : int
        The number of records.

    Notes
    -----
    **Privacy.** A tally is computed from privatised reports only: post-processing, at
    no further cost.

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
    counts: tuple[NDArray[np.int64], ...]
    sizes: tuple[int, ...]
    n_reports: int

    def __add__(self, other: Self) -> Self:
        if not isinstance(other, ReportTally):
            return NotImplemented
        # Sums of other probabilities, or of other columns, have no common estimate.
        if self.protocol != other.protocol:
            raise ValueError(
                "the tallies come from encoders with different parameters or columns "
                "and cannot be added"
            )
        # Each has at most `MAX_REPORTS` of them, so that nothing overflows here.
        total_sums = list(map(np.add, self.sums(), other.sums()))
        total = self.with_sums(total_sums)
        if total.n_reports > MAX_REPORTS:
            raise ValueError(
                f"a tally has at most 2**56 reports, got {total.n_reports:,}"
            )
        return total

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, ReportTally)
            and self.protocol == other.protocol
            and all(map(np.array_equal, self.sums(), other.sums()))
        )

    def sums(self) -> list[NDArray[np.int64]]:
        """Return the arrays that add up when tallies do.

        Returns
        -------
        list of ndarray of int64
            The `counts` of each field, then `sizes`, then an array of `n_reports`.
        """
        sizes = np.array(self.sizes, np.int64)
        return [*self.counts, sizes, np.array([self.n_reports], np.int64)]

    def with_sums(self, sums: Sequence[NDArray[np.int64]]) -> Self:
        """Return a tally like this one, of other sums.

        Parameters
        ----------
        sums : sequence of ndarray of int64
            Arrays of the shapes that `sums` returns.

        Returns
        -------
        ReportTally
            The tally.
        """
        *counts, sizes, n_reports = sums
        return type(self)(
            self.protocol, tuple(counts), tuple(sizes.tolist()), int(n_reports[0])
        )

    def _repr_html_(self) -> str:
        facts = [
            ("reports", f"{self.n_reports:,}"),
            ("sums", ", ".join(f"{sums.size:,}" for sums in self.counts)),
            ("encoder", self.protocol.get("encoder")),
            ("n_sampled", self.protocol.get("n_sampled")),
        ]
        note = (
            "Sums over reports, not counts of people: the encoder's estimates remove "
            "the bias."
        )
        return html_facts(type(self).__name__, facts, note)

    def to_json(self) -> str:
        """Write the tally, and what is needed to read it, as JSON.

        Returns
        -------
        str
            The text.

        Raises
        ------
        TypeError
            If columns are named, or values declared, by what JSON cannot hold.
        """
        content = {
            "format": _FORMAT,
            "protocol": {
                **self.protocol,
                "fields": list(map(_packed_field, self.protocol["fields"])),
            },
            "sizes": list(self.sizes),
            "n_reports": self.n_reports,
            "counts": [sums.ravel().tolist() for sums in self.counts],
        }
        return json.dumps(content, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read a tally of any local transformer.

        Parameters
        ----------
        text : str
            What `to_json` gave.

        Returns
        -------
        ReportTally
            The tally.

        Raises
        ------
        ValueError
            If the text is no tally of this version, does not fit itself, or has more
            than 2**24 characters.
        """
        content: Any = parse_json(text, "a tally")
        if not isinstance(content, dict) or content.get("format") != _FORMAT:
            raise ValueError("this is no tally of this kind and version")
        try:
            return cls._from_content(content)
        except (LookupError, TypeError, AttributeError):
            raise ValueError("the tally is incomplete") from None
        except _MisfitError:
            raise ValueError("the numbers of the tally do not fit each other") from None
        except ValueError:
            # It may quote what was in the text.
            raise ValueError("the sums of the tally do not fit its protocol") from None

    @classmethod
    def _from_content(cls, content: dict[str, Any]) -> Self:
        """Make a tally of parsed JSON; everything is checked."""
        protocol = content["protocol"]
        fields = list(map(_unpacked_field, protocol["fields"]))
        sizes = content["sizes"]
        n_reports = content["n_reports"]
        _check_sizes(sizes, n_reports, protocol["n_sampled"], len(fields))
        if len(content["counts"]) != len(fields):
            raise _MisfitError
        counts = []
        for field, numbers, size in zip(fields, content["counts"], sizes, strict=True):
            counts.append(_read_counts(field, np.asarray(numbers), size))
        meaning = {**protocol, "fields": fields}
        return cls(meaning, tuple(counts), tuple(sizes), n_reports)


class _MisfitError(Exception):
    """Numbers that no reports have."""


def check_tally(tally: Any, protocol: Mapping[str, Any]) -> None:
    """Refuse a tally of another protocol."""
    if not isinstance(tally, ReportTally) or tally.protocol != protocol:
        raise ValueError(
            "the tally comes from an encoder with different parameters or columns"
        )


def plain_field(field: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a tally says of a field, with values in place of a domain."""
    plain = dict(field)
    if "domain" in field:
        domain = field["domain"]
        plain["domain"] = []
        for name in domain.columns:
            values = domain[name]
            # The edges of bins say more than their middles, which are its values.
            is_binned = isinstance(values, Interval)
            plain["domain"].append(values if is_binned else list(values.values))
    return plain


def _packed_field(field: Mapping[str, Any]) -> dict[str, Any]:
    """Write what a tally says of a field as JSON."""
    packed = plain_field(field)
    # Names and values may be of any type, such as dates, which `write_value` writes as text.
    for name in ("columns", "domain"):
        if name in packed:
            packed[name] = write_value(packed[name])
    return packed


def _unpacked_field(packed: Mapping[str, Any]) -> dict[str, Any]:
    """Read what `_packed_field` wrote."""
    field = {**packed, "columns": read_value(packed["columns"])}
    if not isinstance(field["columns"], list):
        raise TypeError
    if "domain" in packed:
        values = map(read_value, packed["domain"])
        field["domain"] = Domain(dict(zip(field["columns"], values, strict=True)))
        if field["domain"].size != math.prod(field["shape"]):
            raise ValueError("the sums do not fit the domain")
    return field


def _check_sizes(sizes: Any, n_reports: Any, n_sampled: Any, n_fields: int) -> None:
    """Check that as many records may report each field."""
    if not _are_counts([n_reports, *sizes]) or len(sizes) != n_fields:
        raise _MisfitError
    if n_sampled is None:
        fits = set(sizes) == {n_reports}
    else:
        # Each record reports `n_sampled` fields, and none twice.
        fits = (
            _are_counts([n_sampled])
            and 0 < n_sampled <= n_fields
            and max(sizes) <= n_reports
            and sum(sizes) == n_sampled * n_reports
        )
    if not fits:
        raise _MisfitError


def _are_counts(numbers: Sequence[Any]) -> bool:
    """Return whether numbers that were read are whole and not negative."""
    # Of this very type: in Python, True is an int.
    return all(type(number) is int and 0 <= number <= MAX_REPORTS for number in numbers)


def _read_counts(
    field: Mapping[str, Any], flat: NDArray[Any], size: int
) -> NDArray[np.int64]:
    """Return the sums of a field, if that number of records can have them."""
    shape = field["shape"]
    if not _are_counts(shape) or flat.shape != (math.prod(shape),):
        raise ValueError("the sums do not fit the field")
    counts = flat.reshape(shape)
    is_possible = POSSIBLE[field["possible"]]
    # Numbers of more than 64 bits are objects to numpy.
    if counts.dtype.kind not in "iu" or not is_possible(counts, size):
        raise _MisfitError
    return counts.astype(np.int64)


# What n reports can add up to: functions of sums, of the shape of the field, and n.


def _may_be_of_any(counts: NDArray[Any], size: int) -> bool:
    return bool(counts.min(initial=0) >= 0 and counts.max(initial=0) <= size)


def _may_be_of_one(counts: NDArray[Any], size: int) -> bool:
    # As Python's integers: a sum of those of numpy may overflow to `size`.
    return bool(counts.min(initial=0) >= 0) and sum(counts.ravel().tolist()) == size


def _may_be_of_cohorts(counts: NDArray[Any], size: int) -> bool:
    n_records = counts[:, :1]  # (n_cohorts, 1)
    is_in_range = counts.min(initial=0) >= 0 and (counts <= n_records).all()
    return bool(is_in_range) and sum(n_records.ravel().tolist()) == size


# By what a report adds: 0 or 1 to each sum ("any"), 1 to one of them ("one"); or 0 or 1
# to each sum of the row of its record's cohort, whose first one counts the records
# ("cohorts").
POSSIBLE = {
    "any": _may_be_of_any,
    "one": _may_be_of_one,
    "cohorts": _may_be_of_cohorts,
}
