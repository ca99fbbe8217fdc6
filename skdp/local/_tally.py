"""What a server keeps of many reports: sums that add, are compared, and are stored."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from skdp.domain import Domain, Interval, pack, parse_json, unpack
from skdp.markup import html_facts
from skdp.tables import MOST_REPORTS

_FORMAT = "skdp tally, version 2"


# Of a tally of others, so that reading it takes a second at most.
_MOST_NUMBERS = 1 << 21


# Of the weights in a tally, about a millionth: their sums are exact, in any order.
WEIGHT_UNIT = 2.0**-20

# So that rounding changes a weight by a part in 2,048 at most.
SMALLEST_WEIGHT = 2.0**-10

# Less than that, so that a weight is two numbers of 22 bits.
LARGEST_WEIGHT = 2.0**24


@dataclass(frozen=True, eq=False)
class WeightedSums:
    """Sums over weighted reports, as whole numbers of any size.

    They are enough for weighted estimates and their variances. Weights are in units of
    ``2**-20``, and their squares in units of ``2**-40``.
    """

    # For each field the weighted sums of what is counted.
    sums: tuple[NDArray[np.object_], ...]
    # The sums weighted by the squares of the weights.
    squares: tuple[NDArray[np.object_], ...]
    # For each field the sum of the weights, and of their squares: (n_fields, 2).
    weights: NDArray[np.object_]
    # The same of all records: (2,).
    total: NDArray[np.object_]

    def arrays(self) -> list[NDArray[np.object_]]:
        """Return what adds up."""
        return [*self.sums, *self.squares, self.weights, self.total]

    def __add__(self, other: Self) -> Self:
        *fields, weights, total = map(np.add, self.arrays(), other.arrays())
        n_fields = len(self.sums)
        return type(self)(
            tuple(fields[:n_fields]), tuple(fields[n_fields:]), weights, total
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WeightedSums) and all(
            map(np.array_equal, self.arrays(), other.arrays())
        )

    def content(self) -> dict[str, Any]:
        """Return plain lists, as `from_content` reads them."""
        return {
            "sums": [sums.ravel().tolist() for sums in self.sums],
            "squares": [sums.ravel().tolist() for sums in self.squares],
            "weights": self.weights.tolist(),
            "total": self.total.tolist(),
        }

    @classmethod
    def from_content(
        cls,
        content: Mapping[str, Any],
        fields: Sequence[Mapping[str, Any]],
        sizes: Sequence[int],
        n_reports: int,
    ) -> Self:
        """Make sums of parsed JSON; everything is checked."""
        total = _whole_numbers(content["total"], (2,))
        weights = _whole_numbers(content["weights"], (len(fields), 2))
        if (weights > total).any() or (n_reports and not total[0]):
            raise _MisfitError
        for size, row in zip([n_reports, *sizes], [total, *weights], strict=True):
            weight, square = row
            _check_squares(weight, square, size)
        both = []
        for place, name in enumerate(("sums", "squares")):
            if len(content[name]) != len(fields):
                raise _MisfitError
            arrays = []
            for field, row, numbers in zip(fields, weights, content[name], strict=True):
                flat = _whole_numbers(numbers, (math.prod(field["shape"]),))
                # What is counted is 0 or 1 in each report, or 1 in one place.
                is_one = field["possible"] == "one"
                if (flat > row[place]).any() or (is_one and flat.sum() != row[place]):
                    raise _MisfitError
                arrays.append(flat.reshape(field["shape"]))
            both.append(tuple(arrays))
        sums, squares = both
        for size, field_sums, field_squares in zip(sizes, sums, squares, strict=True):
            pairs = zip(field_sums.ravel(), field_squares.ravel(), strict=True)
            for weight, square in pairs:
                _check_squares(weight, square, size)
        return cls(sums, squares, weights, total)


def _check_squares(weight: int, square: int, size: int) -> None:
    """Check that `size` weights, or some of them, have a sum and a sum of squares."""
    # Each weight is below 2**44 units. By Cauchy and Schwarz, the square of the sum is
    # at most n times the sum of squares. A weight that is not 0 is 1 unit at least, so
    # that it is at most its square.
    is_possible = (
        weight <= square <= weight * _MOST_UNITS
        and weight <= size * _MOST_UNITS
        and weight**2 <= size * square
    )
    if not is_possible:
        raise _MisfitError


def _whole_numbers(numbers: Any, shape: tuple[int, ...]) -> NDArray[np.object_]:
    """Read whole numbers that are not negative."""
    array = np.array(numbers, dtype=object)
    flat = array.ravel().tolist()
    if array.shape != shape or not all(
        type(number) is int and 0 <= number < _LARGEST_SUM for number in flat
    ):
        raise _MisfitError
    return array


# Of a weight: 2**44.
_MOST_UNITS = int(LARGEST_WEIGHT / WEIGHT_UNIT)

# Of the squares of as many weights as a tally may have.
_LARGEST_SUM = 1 << (56 + 88)


@dataclass(frozen=True, eq=False)
class ReportTally:
    """Sums over privatised reports, which add over batches, days and machines.

    The `tally` of a fitted transformer makes one. It says what the sums are of, so that
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
    weighted : WeightedSums, optional
        Of weighted reports, the sums of their weights: by `tally` with `sample_weight`.

    Notes
    -----
    **Privacy.** A tally is computed from privatised reports only: post-processing, at
    no further cost. Weights are not privatised: their sums are exact.

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
    weighted: WeightedSums | None = None

    def __add__(self, other: Self) -> Self:
        if not isinstance(other, ReportTally):
            return NotImplemented
        # Sums of other probabilities, or of other columns, have no common estimate.
        if self.protocol != other.protocol:
            raise ValueError(
                "the tallies come from encoders with different parameters or columns "
                "and cannot be added"
            )
        # A tally of no reports has no weights, and adds to any.
        without_weights = [tally for tally in (self, other) if tally.weighted is None]
        if len(without_weights) == 1 and without_weights[0].n_reports:
            raise ValueError(
                "a tally of weighted reports cannot be added to one without weights: "
                "give those the weight 1"
            )
        # Each has at most `MOST_REPORTS` of them, so that nothing overflows here.
        total_sums = list(map(np.add, self.sums(), other.sums()))
        total = self.with_sums(total_sums)
        if total.n_reports > MOST_REPORTS:
            raise ValueError(
                f"a tally has at most 2**56 reports, got {total.n_reports:,}"
            )
        if self.weighted is None or other.weighted is None:
            return replace(total, weighted=self.weighted or other.weighted)
        return replace(total, weighted=self.weighted + other.weighted)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, ReportTally)
            and self.protocol == other.protocol
            and all(map(np.array_equal, self.sums(), other.sums()))
            and self.weighted == other.weighted
        )

    def sums(self) -> list[NDArray[np.int64]]:
        """Return the arrays that add up when tallies do, without those of weights.

        Returns
        -------
        list of ndarray of int64
            The `counts` of each field, then `sizes`, then an array of `n_reports`.
        """
        sizes = np.array(self.sizes, np.int64)
        return [*self.counts, sizes, np.array([self.n_reports], np.int64)]

    def with_sums(self, sums: Sequence[NDArray[np.int64]]) -> Self:
        """Return a tally like this one, of other sums and without weights.

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
            ("sum of weights", self._sum_of_weights()),
            ("encoder", self.protocol.get("encoder")),
            ("n_sampled", self.protocol.get("n_sampled")),
        ]
        note = (
            "Sums over reports, not counts of people: the encoder's estimates remove "
            "the bias."
        )
        return html_facts(type(self).__name__, facts, note)

    def _sum_of_weights(self) -> str | None:
        if self.weighted is None:
            return None
        return f"{self.weighted.total[0] * WEIGHT_UNIT:,.6g}"

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
        if self.weighted is not None:
            content["weighted"] = self.weighted.content()
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
            than 2**24 characters or 2**21 numbers.
        """
        content: Any = parse_json(text, "a tally", _MOST_NUMBERS)
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
        weighted = None
        if "weighted" in content:
            weighted = WeightedSums.from_content(
                content["weighted"], fields, sizes, n_reports
            )
        return cls(meaning, tuple(counts), tuple(sizes), n_reports, weighted)


class _MisfitError(Exception):
    """Numbers that no reports have."""


def check_tally(
    tally: Any, protocol: Mapping[str, Any], *, takes_weights: bool = False
) -> None:
    """Refuse a tally of another protocol, or of weights where these are not used."""
    if not isinstance(tally, ReportTally) or tally.protocol != protocol:
        raise ValueError(
            "the tally comes from an encoder with different parameters or columns"
        )
    if tally.weighted is not None and not takes_weights:
        raise ValueError(
            "the tally is of weighted reports, and this estimate takes no weights"
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
    # Names and values may be of any type, such as dates, which `pack` writes as text.
    for name in ("columns", "domain"):
        if name in packed:
            packed[name] = pack(packed[name])
    return packed


def _unpacked_field(packed: Mapping[str, Any]) -> dict[str, Any]:
    """Read what `_packed_field` wrote."""
    field = {**packed, "columns": unpack(packed["columns"])}
    if not isinstance(field["columns"], list):
        raise TypeError
    if "domain" in packed:
        values = map(unpack, packed["domain"])
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
    return all(
        type(number) is int and 0 <= number <= MOST_REPORTS for number in numbers
    )


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
