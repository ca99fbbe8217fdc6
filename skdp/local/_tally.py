"""Tables of reports: their sums, and a random order of their rows."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self, cast

import narwhals.stable.v2 as nw
import numpy as np

from skdp._arrays import Indices, Integers, TableLike
from skdp._json import check_version, parse_json, value_from_json, value_to_json
from skdp.base import check_random_state, make_source, to_array
from skdp.domain import Domain, FoundCategories, Interval
from skdp.randomness import ByteSource
from skdp.tables import (
    attach_protocol,
    get_protocol_text,
    is_frame,
    parse_pandas_metadata,
)

# Largest count of reports: 64-bit integers represent the sums of 2**7 such counts.
MAX_REPORTS = 1 << 56

_TALLY_FORMAT = "skdp tally, version 2"


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
            "format": _TALLY_FORMAT,
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
        content = parse_json(text, "A tally")
        found = content.get("format") if isinstance(content, dict) else None
        if later := re.fullmatch(r"skdp tally, version (\d{1,9})", str(found)):
            check_version(int(later[1]), 2, "The tally")
        if found != _TALLY_FORMAT:
            raise ValueError(
                f"The text must be a tally of the format {_TALLY_FORMAT!r}."
            )
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


def check_tally(tally: object, protocol: Mapping[str, Any]) -> None:
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
            # Values do not determine the edges of bins, and other values of found ones.
            is_kept = isinstance(values, Interval | FoundCategories)
            converted["domain"].append(values if is_kept else list(values.values))
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


def shuffle_reports(reports: TableLike, *, random_state: int | None = None) -> Any:
    """Shuffle the rows of a table of reports, and drop the row index.

    Parameters
    ----------
    reports : dataframe or array-like of shape (n_samples, n_columns)
        Output of `transform`, without further columns. The entries of a row remain
        together, so no column may identify the person or the time.
    random_state : int, default=None
        None uses secure randomness. Pass an int for reproducible experiments only: the
        order is then not private.

    Returns
    -------
    same type as reports
        Rows in a uniformly random order. In pandas, the row index is new.

    Raises
    ------
    TypeError, ValueError
        If the reports are not a table, or random_state is not an int.

    See Also
    --------
    skdp.privacy.shuffled_guarantee : Guarantee of shuffled reports.

    Notes
    -----
    **Privacy.** The output with the reports of n honest people has the guarantee of
    `shuffled_guarantee`, against everybody who does not see the reports before they are
    shuffled, such as in a copy or a log. Against everybody else, the local
    guarantee holds.

    The categories of a dtype, and the dictionary of a column of pyarrow, keep their order.
    Convert them to text if they were collected from the reports.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp import RandomizedResponseEncoder
    >>> from skdp.local import shuffle_reports
    >>> people = pd.DataFrame({"sex": ["f", "m", "m"]}, index=["Ann", "Bob", "Carl"])
    >>> encoder = RandomizedResponseEncoder(1.0, categories={"sex": ["f", "m"]})
    >>> encoder = encoder.fit(people)
    >>> shuffle_reports(encoder.transform(people)).index.tolist()
    [0, 1, 2]
    """
    check_random_state(random_state)
    source = make_source(random_state, "shuffle_reports")
    if not is_frame(reports):
        rows = to_array(reports, "reports")
        if rows.ndim != 2:
            raise ValueError(
                f"`reports` must be a DataFrame or a 2D array, got {rows.ndim}D. Use "
                "reports[[column]] or reports.to_frame()."
            )
        return rows[_draw_permutation(len(rows), source)]
    frame: nw.DataFrame[Any] = nw.from_native(cast(Any, reports), eager_only=True)
    native = frame.to_native()
    order = _draw_permutation(len(frame), source)
    if frame.implementation.is_pandas():
        shuffled = native.take(order).reset_index(drop=True)
        shuffled.attrs = {}
    elif frame.implementation.is_pyarrow():
        shuffled = _take_arrow(native, order)
    else:  # polars, which has no metadata
        return _take_polars(frame, order)
    return attach_protocol(shuffled, lambda: get_protocol_text(native))


def _draw_permutation(n: int, source: ByteSource) -> Indices:
    """Draw a uniformly random permutation of n rows."""
    # The order of random words is uniform if no two of them are equal. Otherwise, all
    # words are drawn again: once in 300,000 calls for 10 million rows.
    while True:
        words = source.bytes(8 * n).view("<u8")
        order = np.argsort(words, kind="stable")
        has_equal_words = (np.diff(words[order]) == 0).any()
        if not has_equal_words:
            return order


def _take_arrow(table: Any, order: Indices) -> Any:
    """Take rows of a pyarrow table, without its metadata and its columns with a row index."""
    index = parse_pandas_metadata(table.schema.metadata or {}).get("index_columns")
    if not isinstance(index, list):
        index = []
    names = [name for name in table.column_names if name not in index]
    return type(table).from_arrays(table.select(names).take(order).columns, names)


def _take_polars(frame: nw.DataFrame[Any], order: Indices) -> Any:
    """Take rows of a polars dataframe, with new buffers of text."""
    # The rows that polars selects refer to the old buffers, which reveal the old order.
    rows = frame[order]
    columns = []
    for column in rows.iter_columns():
        if column.dtype == nw.String:
            column = nw.new_series(
                column.name, column.to_list(), nw.String, backend=column.implementation
            )
        columns.append(column)
    return rows.with_columns(columns).to_native()
