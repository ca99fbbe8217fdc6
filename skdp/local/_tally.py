"""What a server keeps of many reports: sums that add, are compared, and are stored."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from skdp.domain import Domain, Interval, pack, parse_json, unpack
from skdp.markup import html_facts

_FORMAT = "skdp tally, version 2"

_MOST_REPORTS = 1 << 56
"""Of a tally, so that the sums of two still fit into 64 bits."""

# What a tally of others may hold, so that reading it takes seconds at most: the numbers
# in a text, and the rows of a Parquet file.
_MOST_NUMBERS = 1 << 21
_MOST_ROWS = 1 << 24

_MISFIT = "the numbers of the tally do not fit each other"

_FACTS = ("encoder", "n_sampled")
"""Of a protocol, what a notebook shows."""


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
        if self.protocol != other.protocol:
            raise ValueError(
                "the tallies come from encoders with different parameters or columns "
                "and cannot be added"
            )
        # Each has at most `_MOST_REPORTS` of them, so that nothing overflows here.
        pairs = zip(self.sums(), other.sums(), strict=True)
        total = self.with_sums([sums + other_sums for sums, other_sums in pairs])
        if total.n_reports > _MOST_REPORTS:
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
            ("sums", ", ".join(f"{part.size:,}" for part in self.counts)),
            *((name, self.protocol.get(name)) for name in _FACTS),
        ]
        note = (
            "Sums over reports, not counts of people: the encoder's estimates remove "
            "the bias."
        )
        return html_facts(type(self).__name__, facts, note)

    def _header(self) -> dict[str, Any]:
        """Return all but the sums as JSON has it."""
        fields = list(map(_packed_field, self.protocol["fields"]))
        return {
            "format": _FORMAT,
            "protocol": {**self.protocol, "fields": fields},
            "sizes": list(self.sizes),
            "n_reports": self.n_reports,
        }

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
        counts = [part.ravel().tolist() for part in self.counts]
        return json.dumps(self._header() | {"counts": counts}, allow_nan=False)

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
        _check_format(content)
        return cls._read(content, content.get("counts"))

    def to_parquet(self, path: str | Path) -> None:
        """Write the tally as a Parquet file: a row a sum, all else in the metadata.

        Parameters
        ----------
        path : str or Path
            The file. Needs pyarrow.

        Raises
        ------
        ImportError
            If pyarrow is not installed.
        TypeError
            As `to_json`.
        """
        pyarrow, parquet = _import_pyarrow()
        parts = [part.ravel() for part in self.counts]
        field = np.repeat(np.arange(len(parts)), list(map(len, parts)))
        table = pyarrow.table({"field": field, "count": np.concatenate(parts)})
        header = json.dumps(self._header(), allow_nan=False)
        parquet.write_table(table.replace_schema_metadata({"skdp": header}), path)

    @classmethod
    def from_parquet(cls, path: str | Path) -> Self:
        """Read a tally of any local transformer.

        Parameters
        ----------
        path : str or Path
            What `to_parquet` wrote.

        Returns
        -------
        ReportTally
            The tally.

        Raises
        ------
        ImportError
            If pyarrow is not installed.
        ValueError
            If the file is no tally of this version, does not fit itself, or has more
            than 2**24 sums.
        """
        _, parquet = _import_pyarrow()
        with parquet.ParquetFile(path) as file:
            header = (file.schema_arrow.metadata or {}).get(b"skdp", b"{}")
            text = header.decode(errors="replace")
            content = parse_json(text, "a tally", _MOST_NUMBERS)
            _check_format(content)
            if file.schema_arrow.names != ["field", "count"]:
                raise ValueError("the tally is incomplete")
            if file.metadata.num_rows > _MOST_ROWS:
                raise ValueError(
                    f"a tally has at most {_MOST_ROWS:,} sums, "
                    f"got {file.metadata.num_rows:,}"
                )
            table = file.read()
        field, counts = table["field"].to_numpy(), table["count"].to_numpy()
        ends = np.flatnonzero(np.diff(field)) + 1
        return cls._read(content, np.split(counts, ends))

    @classmethod
    def _read(cls, header: dict[str, Any], counts: Any) -> Self:
        """Make a tally of what was written; everything is checked."""
        try:
            protocol = header["protocol"]
            fields = list(map(_unpacked_field, protocol["fields"]))
            arrays = [np.asarray(part) for part in counts]
            n_reports, sizes = header["n_reports"], header["sizes"]
            n_sampled = protocol["n_sampled"]
            fit = _are_sizes(sizes, n_reports, n_sampled, len(fields))
            if not fit or len(arrays) != len(fields):
                raise ValueError(_MISFIT)
            triples = zip(fields, arrays, sizes, strict=True)
            counts_of_fields = tuple(_read_counts(*triple) for triple in triples)
        except (LookupError, TypeError, AttributeError):
            raise ValueError("the tally is incomplete") from None
        except ValueError as error:
            # Other errors of this kind say what numpy or a parser made of the numbers.
            if str(error) == _MISFIT or type(error) is not ValueError:
                raise ValueError(_MISFIT) from None
            raise ValueError("the sums of the tally do not fit its protocol") from None
        return cls(
            {**protocol, "fields": fields}, counts_of_fields, tuple(sizes), n_reports
        )


def check_tally(tally: Any, protocol: Mapping[str, Any]) -> None:
    """Refuse a tally of another protocol."""
    if not isinstance(tally, ReportTally) or tally.protocol != protocol:
        raise ValueError(
            "the tally comes from an encoder with different parameters or columns"
        )


def _check_format(content: Any) -> None:
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        raise ValueError("this is no tally of this kind and version")


def plain_field(field: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a tally says of a field, with its declared values in place of a domain."""
    plain = dict(field)
    if "domain" in field:
        domain = field["domain"]
        declared = [domain[name] for name in domain.columns]
        plain["domain"] = [
            values if isinstance(values, Interval) else list(values.values)
            for values in declared
        ]
    return plain


def _packed_field(field: Mapping[str, Any]) -> dict[str, Any]:
    """Write what a tally says of a field as JSON: names and values may be of any type."""
    plain = plain_field(field)
    packed = {
        name: pack(plain[name]) for name in ("columns", "domain") if name in plain
    }
    return plain | packed


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


def _are_sizes(sizes: Any, n_reports: Any, n_sampled: Any, n_fields: int) -> bool:
    """Return whether as many records may report each field."""
    if not _are_counts([n_reports, *sizes]) or len(sizes) != n_fields:
        return False
    if n_sampled is None:
        return set(sizes) == {n_reports}
    # Each record reports `n_sampled` fields, and none twice.
    return (
        _are_counts([n_sampled])
        and 0 < n_sampled <= n_fields
        and max(sizes) <= n_reports
        and sum(sizes) == n_sampled * n_reports
    )


def _are_counts(numbers: Sequence[Any]) -> bool:
    """Return whether numbers that were read are whole and not negative."""
    return all(
        type(number) is int and 0 <= number <= _MOST_REPORTS for number in numbers
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
    if counts.dtype.kind not in "iu" or not is_possible(counts, size):
        raise ValueError(_MISFIT)
    return counts.astype(np.int64)


def _may_be_of_any(counts: NDArray[Any], size: int) -> bool:
    return bool(counts.min(initial=0) >= 0 and counts.max(initial=0) <= size)


def _may_be_of_one(counts: NDArray[Any], size: int) -> bool:
    return bool(counts.min(initial=0) >= 0) and sum(counts.ravel().tolist()) == size


def _may_be_signed(counts: NDArray[Any], size: int) -> bool:
    return bool(counts.min(initial=0) >= -size and counts.max(initial=0) <= size)


def _may_be_of_cohorts(counts: NDArray[Any], size: int) -> bool:
    n_records = counts[:, :1]
    return (
        bool(counts.min(initial=0) >= 0)
        and bool((counts <= n_records).all())
        and sum(n_records.ravel().tolist()) == size
    )


POSSIBLE = {
    "any": _may_be_of_any,
    "one": _may_be_of_one,
    "signed": _may_be_signed,
    "cohorts": _may_be_of_cohorts,
}
"""Which sums a number of reports can have. A report adds 0 or 1 to each sum ("any"), 1 to
one of them ("one"), or -1 to 1 to each ("signed"); or it adds to a row of the cohort of
its record, whose first sum counts the records ("cohorts")."""


def _import_pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise ImportError(
            'pyarrow is needed here: pip install "skdp[duckdb]"'
        ) from error
    return pyarrow, parquet
