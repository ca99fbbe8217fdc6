"""What all tallies are: sums of reports that add, are compared, and are written as JSON and Parquet."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from skdp.domain import parse_json
from skdp.markup import html_facts

_MOST_NUMBERS, _MOST_ROWS = 1 << 21, 1 << 24
"""Of a tally that is read: in its text, and in a Parquet file."""


class ReportTally(ABC):
    """Sums over privatised reports, which add over batches, days and machines.

    The `tally` of a fitted transformer makes one; what it holds depends on the reports. It says what they are sums of,
    so that tallies of two protocols do not add.

    Attributes
    ----------
    n_reports : int
        The number of records.
    protocol : mapping
        The parameters that decide what a report means: plain text and numbers.

    Notes
    -----
    **Privacy.** A tally is computed from privatised reports only: post-processing, at no further cost.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp import RandomizedResponseEncoder, ReportTally
    >>> answers = pd.DataFrame({"smokes": ["yes", "no", "no"]})
    >>> encoder = RandomizedResponseEncoder(categories={"smokes": ["yes", "no"]}).fit(answers)
    >>> monday, tuesday = encoder.transform(answers), encoder.transform(answers)
    >>> week = encoder.tally(monday) + encoder.tally(tuesday)
    >>> week.n_reports
    6
    >>> ReportTally.from_json(week.to_json()) == week
    True
    """

    _format: ClassVar[str]
    _sums: ClassVar[str]
    """The field with the sums of each attribute."""
    _makers: ClassVar[str]
    """What two tallies come from that cannot be added."""

    protocol: Mapping[str, Any]

    @abstractmethod
    def _numbers(self) -> list[NDArray[np.int64]]:
        """Return the arrays that add up when tallies do."""

    @abstractmethod
    def _of_numbers(self, numbers: Sequence[NDArray[np.int64]]) -> Self:
        """Return a tally of the same protocol with other numbers."""

    @classmethod
    @abstractmethod
    def _read(cls, header: dict[str, Any], parts: list[NDArray[Any]]) -> Self:
        """Make a tally of a header and sums; everything is checked, with KeyError or TypeError for what is missing."""

    def __add__(self, other: Self) -> Self:
        if not isinstance(other, type(self)):
            return NotImplemented
        if self._meaning() != other._meaning():
            raise ValueError(
                f"the tallies come from {self._makers} and cannot be added"
            )
        # Each has at most `MOST_REPORTS` of them, so that nothing overflows here.
        total: Any = self._of_numbers(
            [
                left + right
                for left, right in zip(self._numbers(), other._numbers(), strict=True)
            ]
        )
        if total.n_reports > MOST_REPORTS:
            raise ValueError(
                f"a tally has at most 2**56 reports, got {total.n_reports:,}"
            )
        return total

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, type(self))
            and self._meaning() == other._meaning()
            and all(map(np.array_equal, self._numbers(), other._numbers()))
        )

    def _meaning(self) -> tuple[Any, ...]:
        """Return what must be equal in tallies that add."""
        return (self.protocol,)

    def _header(self) -> dict[str, Any]:
        """Return all but the sums, as plain text, numbers, lists and mappings."""
        return {
            "protocol": {
                **self.protocol,
                "columns": [plain_name(name) for name in self.protocol["columns"]],
            }
        }

    def _parts(self) -> list[NDArray[np.int64]]:
        """Return the sums of each attribute, 1-D."""
        return [part.ravel() for part in getattr(self, self._sums)]

    def sums(self) -> list[NDArray[np.int64]]:
        """Return the arrays that add up when tallies do.

        Returns
        -------
        list of ndarray of int64
            Arrays that can be added up elsewhere.
        """
        return self._numbers()

    def with_sums(self, sums: Sequence[NDArray[np.int64]]) -> Self:
        """Return a tally like this one, of other sums.

        Parameters
        ----------
        sums : sequence of ndarray of int64
            Arrays of the shapes that `sums` returns.

        Returns
        -------
        tally
            The tally.
        """
        return self._of_numbers(sums)

    def _repr_html_(self) -> str:
        tally: Any = self  # its number of reports is a field of some tallies, and a property of others
        protocol = self._header()["protocol"]
        facts = [
            ("reports", f"{tally.n_reports:,}"),
            ("sums", ", ".join(f"{part.size:,}" for part in self._parts())),
            *(
                (name, protocol.get(name))
                for name in ("strategy", "mechanism", "epsilon")
            ),
        ]
        note = "Sums over reports, not counts of people: the encoder's estimates remove the bias."
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
            If columns are named, or values declared, by other things than text, numbers, booleans and missing.
        """
        return json.dumps(
            self._content() | {self._sums: [part.tolist() for part in self._parts()]},
            allow_nan=False,
        )

    @classmethod
    def _kind_of(cls, content: Any) -> type[Self]:
        """Return which kind of tally was written: this class, or one that is derived from it."""
        written = content.get("format") if isinstance(content, dict) else None
        kinds = [cls, *cls.__subclasses__()]
        for kind in kinds:
            if getattr(kind, "_format", None) == written and written is not None:
                return kind
        raise ValueError("this is no tally of this kind and version")

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read a tally of any local transformer.

        Parameters
        ----------
        text : str
            What `to_json` gave.

        Returns
        -------
        tally
            The tally.

        Raises
        ------
        ValueError
            If the text is no tally of this kind and version, does not fit itself, or has more than 2**24 characters or
            2**21 numbers.
        """
        content: Any = parse_json(text, "a tally", _MOST_NUMBERS)
        kind = cls._kind_of(content)
        if not isinstance(content.get(kind._sums), list):
            raise ValueError("the tally is incomplete")
        return kind._checked(content, content[kind._sums])

    def to_parquet(self, path: str | Path) -> None:
        """Write the tally as a Parquet file: a row a sum, what is needed to read them in the metadata.

        Parameters
        ----------
        path : str or Path
            The file. Needs pyarrow.

        Raises
        ------
        ImportError
            If pyarrow is not installed.
        TypeError
            If columns are named, or values declared, by other things than text, numbers, booleans and missing.
        """
        pyarrow, parquet = _import_pyarrow()
        parts = self._parts()
        attribute = np.repeat(np.arange(len(parts)), list(map(len, parts)))
        table = pyarrow.table(
            {"attribute": attribute, self._sums: np.concatenate(parts)}
        )
        header = json.dumps(self._content(), allow_nan=False)
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
        tally
            The tally.

        Raises
        ------
        ImportError
            If pyarrow is not installed.
        ValueError
            If the file is no tally of this kind and version, does not fit itself, or has more than 2**24 sums.
        """
        _, parquet = _import_pyarrow()
        with parquet.ParquetFile(path) as file:
            header = (file.schema_arrow.metadata or {}).get(b"skdp", b"{}")
            content = parse_json(
                header.decode(errors="replace"), "a tally", _MOST_NUMBERS
            )
            kind = cls._kind_of(content)
            if file.schema_arrow.names != ["attribute", kind._sums]:
                raise ValueError("the tally is incomplete")
            if file.metadata.num_rows > _MOST_ROWS:
                raise ValueError(
                    f"a tally has at most {_MOST_ROWS:,} sums, got {file.metadata.num_rows:,}"
                )
            table = file.read()
        attribute, sums = table["attribute"].to_numpy(), table[kind._sums].to_numpy()
        return kind._checked(
            content, np.split(sums, np.flatnonzero(np.diff(attribute)) + 1)
        )

    def _content(self) -> dict[str, Any]:
        return {"format": self._format} | self._header()

    @classmethod
    def _checked(cls, content: dict[str, Any], parts: list[Any]) -> Self:
        try:
            return cls._read(content, [np.asarray(part) for part in parts])
        except (LookupError, TypeError, AttributeError):
            raise ValueError("the tally is incomplete") from None
        except ValueError as error:
            if type(error) is not ValueError or "inhomogeneous" in str(error):
                raise ValueError(
                    "the numbers of the tally do not fit each other"
                ) from None
            raise


MOST_REPORTS = 1 << 56
"""Of a tally, so that the sums of two still fit into 64 bits."""


def are_counts(numbers: Sequence[Any]) -> bool:
    """Check whether numbers that were read are whole and not negative."""
    return all(
        type(number) is int and 0 <= number <= MOST_REPORTS for number in numbers
    )


def plain_name(name: Any) -> str | int:
    """Check that the name of a column can be written."""
    if not isinstance(name, str | int):
        raise TypeError(
            f"a tally is written for columns named by text or numbers, got {type(name).__name__}"
        )
    return name


def are_whole(parts: Sequence[NDArray[Any]]) -> bool:
    """Check whether all sums are integers."""
    return all(part.dtype.kind in "iu" for part in parts)


def whole_sums(
    parts: Sequence[NDArray[Any]], fit: bool
) -> tuple[NDArray[np.int64], ...]:
    """Return the sums as 64-bit integers, if the numbers of the tally fit each other."""
    if not fit:
        raise ValueError("the numbers of the tally do not fit each other")
    return tuple(part.astype(np.int64) for part in parts)


def _import_pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise ImportError(
            'pyarrow is needed here: pip install "skdp[duckdb]"'
        ) from error
    return pyarrow, parquet
