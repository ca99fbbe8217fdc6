"""What a server keeps of many reports: how many support each value."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.domain import Domain, Interval

_FORMAT = "skdp tally, version 1"


@dataclass(frozen=True, eq=False)
class ReportTally:  # numpydoc ignore=PR02
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
            "format": _FORMAT,
            "protocol": self.protocol,
            "domain": _domain_to_plain(self.domain),
            "n_reports": self.n_reports,
            "sizes": self.sizes,
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
            If the domain holds values other than text, numbers, booleans and missing.
        """
        return json.dumps(self._header() | {"support": [sums.tolist() for sums in self.support]}, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> ReportTally:
        """Read a tally.

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
            If the text is no tally of this version, or does not fit its own domain.
        """
        content = json.loads(text)
        if not isinstance(content, dict) or "support" not in content:
            raise ValueError("the text is no tally")
        return cls._read(content, content["support"])

    def to_parquet(self, path: str | Path) -> None:
        """Write the tally as a Parquet file: a row a value, what is needed to read it in the metadata.

        Parameters
        ----------
        path : str or Path
            The file. Needs pyarrow.

        Raises
        ------
        TypeError
            If the domain holds values other than text, numbers, booleans and missing.
        """
        import pyarrow
        from pyarrow import parquet

        attribute = np.repeat(np.arange(len(self.support)), [len(sums) for sums in self.support])
        table = pyarrow.table({"attribute": attribute, "support": np.concatenate(self.support)})
        header = json.dumps(self._header(), allow_nan=False)
        parquet.write_table(table.replace_schema_metadata({"skdp": header}), path)

    @classmethod
    def from_parquet(cls, path: str | Path) -> ReportTally:
        """Read a tally.

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
        ValueError
            If the file is no tally of this version, or does not fit its own domain.
        """
        from pyarrow import parquet

        table = parquet.read_table(path)
        header = (table.schema.metadata or {}).get(b"skdp")
        if header is None:
            raise ValueError("the file is no tally")
        attribute, support = table["attribute"].to_numpy(), table["support"].to_numpy()
        content = json.loads(header)
        return cls._read(content, [support[attribute == index] for index in range(len(content["sizes"]))])

    @classmethod
    def _read(cls, content: dict[str, Any], support: Any) -> ReportTally:
        if content.get("format") != _FORMAT:
            raise ValueError(f"expected the format {_FORMAT!r}, got {content.get('format')!r}")
        try:
            domain, protocol = _domain_from_plain(content["domain"]), content["protocol"]
            n_reports, sizes = content["n_reports"], tuple(content["sizes"])
            expected = [oracle["k"] for oracle in protocol["oracles"]]
            joint, sampled = protocol["strategy"] == "joint", protocol["strategy"] == "sample"
        except (KeyError, TypeError):
            raise ValueError("the tally is incomplete") from None
        sums = tuple(map(np.asarray, support))
        if [len(part) for part in sums] != expected:
            raise ValueError(f"expected {expected} sums, got {[len(part) for part in sums]}")
        if expected != ([domain.size] if joint else list(domain.sizes)) or len(sizes) != len(expected):
            raise ValueError("the sums of the tally do not fit its domain")
        whole = [part.dtype.kind in "iu" for part in sums] + [type(size) is int for size in (n_reports, *sizes)]
        if not all(whole) or not (sum(sizes) == n_reports if sampled else set(sizes) == {n_reports}):
            raise ValueError("the numbers of the tally do not fit each other")
        # Signed sums too are at most as large as the number of reports.
        if any(size < 0 or np.abs(part).max(initial=0) > size for part, size in zip(sums, sizes, strict=True)):
            raise ValueError("the numbers of the tally do not fit each other")
        return cls(tuple(part.astype(np.int64) for part in sums), sizes, n_reports, domain, protocol)


def _domain_to_plain(domain: Domain) -> list[dict[str, Any]]:
    columns: list[dict[str, Any]] = []
    for name in domain.columns:
        attribute = domain[name]
        if not isinstance(name, str | int):
            raise TypeError(f"a tally is written for columns named by text or numbers, got {type(name).__name__}")
        values = {"edges": attribute.edges} if isinstance(attribute, Interval) else {"values": attribute.values}
        columns.append({"column": name} | values)
    return columns


def _domain_from_plain(columns: list[dict[str, Any]]) -> Domain:
    return Domain(
        {
            column["column"]: Interval(edges=column["edges"]) if "edges" in column else column["values"]
            for column in columns
        }
    )
