"""Files of reports: their protocol, their tally, and the estimated counts."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from skdp._json import parse_json
from skdp.engines._engine import ReportSums, Tables, add_up_batches, engine_of
from skdp.engines._files import FileTable, TableFile, check_delimiter, format_of, is_csv
from skdp.engines._io import Extra, check_path, write_atomically
from skdp.engines._release import check_transformer, fit_on_schema
from skdp.local import (
    RapporEncoder,
    ReportTransformer,
    check_attached_protocol,
)
from skdp.tables import PROTOCOL_KEY

pyarrow = Extra("pyarrow")

_PROTOCOL_FORMAT = "skdp-protocol"


class ReportFile:
    """A file of reports."""

    def __init__(self, table: TableFile) -> None:
        self._table = table
        self.name = table.name
        self.protocol_text = _find_single(table.protocols(), table.name)

    def tally(self, transformer: ReportTransformer) -> Any:
        """Sum up the reports."""
        reports = ReportSums(transformer.protocol_)
        self._table.check_columns(reports.names)
        return reports.total(add_up_batches(self._read(reports), reports))

    def _read(self, reports: ReportSums) -> Tables:
        """Read reports; the columns of a CSV file that have no declared values are numbers."""
        table, domain, names = self._table, reports.values, reports.names
        rows = FileTable(table, names, domain, strict=False, missing_texts=("",))
        declared = () if domain is None else domain.columns
        for batch in rows.read(names):
            for index, name in enumerate(names):
                if table.is_csv and name not in declared:
                    numbers = _parse_numbers(batch[name], name)
                    batch = batch.set_column(index, name, numbers)
            yield batch


class TallyFile:
    """A tally that ``skdp tally`` wrote."""

    def __init__(self, path: Path) -> None:
        content = _read_json(path, "a tally")
        protocol = content.get(PROTOCOL_KEY) if isinstance(content, dict) else None
        if not isinstance(protocol, dict):
            raise ValueError(
                f"{path.name} is not a tally with its protocol, as skdp tally writes it"
            )
        self.name = path.name
        self.protocol_text = json.dumps(protocol)
        self._text = json.dumps(content)

    def tally(self, transformer: ReportTransformer) -> Any:
        """Read the tally."""
        empty = transformer.protocol_.empty_tally()
        try:
            return empty + type(empty).from_json(self._text)
        except Exception:
            # The author of a file decides which code is tried.
            pass
        raise ValueError(f"{self.name} must contain a tally of its own protocol")


Source = ReportFile | TallyFile


def open_source(path: str | os.PathLike[str], delimiter: str | None = None) -> Source:
    """Open a file of reports, or a tally; the delimiter is for CSV files."""
    name = os.fspath(path)
    if name.endswith(".json"):
        return TallyFile(Path(name))
    has_delimiter = is_csv(format_of(name))
    return ReportFile(TableFile(path, delimiter if has_delimiter else None))


def _open_sources(sources: Any, delimiter: str | None = None) -> list[Source]:
    """Open one or several different files."""
    check_delimiter(delimiter)
    is_one = isinstance(sources, str | os.PathLike)
    paths = [sources] if is_one else list(sources)
    files = [open_source(path, delimiter) for path in paths]
    if not files:
        raise ValueError("expected at least one file of reports")
    if len(set(map(os.path.realpath, paths))) < len(paths):
        raise ValueError("a file is given twice: its reports would be counted twice")
    return files


def _find_transformer(files: Sequence[Source], transformer: Any) -> ReportTransformer:
    """Return the given transformer, which the files must not contradict, or the transformer of the files."""
    if transformer is not None:
        check_transformer(transformer)
        if not hasattr(transformer, "protocol_"):
            fit_on_schema(transformer, pd.DataFrame(), ())
    fitted: ReportTransformer | None = transformer
    for file in files:
        text = file.protocol_text
        if fitted is None:
            if text is None:
                raise ValueError(
                    f"{file.name} does not contain the protocol of its reports. Pass "
                    "the encoder: `estimate_file(path, encoder)`. Is it the table before "
                    "`privatize_file`?"
                )
            fitted = ReportTransformer.from_json(text)
        try:
            check_attached_protocol(text, fitted)
        except ValueError as error:
            raise ValueError(f"{file.name}: {error}") from None
    assert fitted is not None
    return fitted


def _parse_numbers(column: Any, name: str) -> Any:
    """Parse text as numbers, whole ones exactly."""
    for number_type in (pyarrow.uint64(), pyarrow.float64()):
        try:
            return column.cast(number_type)
        except pyarrow.ArrowInvalid:
            continue
    raise ValueError(f"column {name!r} must contain numbers")


def _find_single(texts: set[str | None], name: str) -> str | None:
    """Return the protocol of a table: all of its files have the same, or none."""
    if len(texts) > 1:
        raise ValueError(
            f"{name}: all files of a table must have the same protocol. Estimate the "
            "files of each protocol separately."
        )
    return texts.pop() if texts else None


def _read_json(path: Path, what: str) -> Any:
    """Read JSON of limited size; None if the file is not text."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        return None
    return parse_json(text, f"{path.name}: {what}")


# Protocols


def read_protocol(source: Any) -> ReportTransformer | None:
    """Return the fitted transformer that made the reports in a table or a file.

    Parameters
    ----------
    source : dataframe, ndarray, str or path-like
        A table of reports of any library that `skdp.engines` supports, or the path or
        URL of a file: reports of `privatize_file` or ``skdp privatize`` (Parquet,
        Arrow), a tally, or a protocol that `save` wrote.

    Returns
    -------
    transformer or None
        Fitted, of the class that made the reports, such as `RandomizedResponseEncoder`, for estimates and models. It
        has no ledger and no secret key. None where the reports have no protocol: polars and Spark keep no
        metadata; arrays and CSV files have none.

    Raises
    ------
    TypeError
        If `source` is neither a table nor a path.
    ValueError
        If the file has another format, is damaged, or has several protocols, or a protocol that `from_json` rejects.
    OSError
        If the file cannot be read.

    See Also
    --------
    skdp.load : Loads an estimator saved with `save`.
    skdp.engines.estimate_file : Estimates counts from a file.

    Notes
    -----
    **Privacy.** No row is read, so there is no privacy loss. The protocol is as
    reliable as the author of the file: no code in it is run, but it may describe other
    reports.

    Examples
    --------
    >>> import pandas as pd
    >>> import skdp
    >>> people = pd.DataFrame({"smokes": ["yes", "no", "no", "no"] * 100})
    >>> encoder = skdp.RandomizedResponseEncoder(2.0, categories={"smokes": ["no", "yes"]})
    >>> reports = encoder.fit_transform(people)
    >>> found = skdp.read_protocol(reports)
    >>> print(found.guarantee_)
    epsilon = 2, local model, replacing one record's values of: smokes
    >>> found.estimate_counts(reports).columns.to_list()
    ['count', 'std_error', 'lower', 'upper']
    """
    if isinstance(source, np.ndarray):
        return None
    if isinstance(source, str | os.PathLike):
        text = _read_protocol_text(source)
    else:
        text = _find_single(engine_of(source).protocols(), "the table")
    return None if text is None else ReportTransformer.from_json(text)


def _read_protocol_text(source: str | os.PathLike[str]) -> str | None:
    path = Path(source)
    if path.suffix == ".json" and path.is_file():
        content = _read_json(path, "a protocol")
        if isinstance(content, dict) and content.get("format") == _PROTOCOL_FORMAT:
            return json.dumps(content)
    return open_source(source).protocol_text


def columns_beside_reports(
    source: str | os.PathLike[str], transformer: ReportTransformer
) -> list[Any]:
    """Name the columns of a file that are not reports of a transformer; a tally or a protocol has none."""
    if os.fspath(source).endswith(".json"):
        return []
    reports = set(transformer.protocol_.report_columns)
    return [name for name in TableFile(source).names if name not in reports]


# Tallies and estimates


def tally_files(
    sources: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    transformer: ReportTransformer | None = None,
    *,
    target: str | os.PathLike[str] | None = None,
    delimiter: str | None = None,
) -> Any:
    """Sum up the reports, or the tallies, of many files, and write the sum as a tally with its protocol."""
    files, path = _open_sources(sources, delimiter), check_path(target)
    if path is not None and path.suffix != ".json":
        raise ValueError(f"{path.name} must end in .json")
    fitted = _find_transformer(files, transformer)
    tally = _sum_files(files, fitted)
    if path is not None:
        with write_atomically(path) as partial:
            text = _format_tally(tally, fitted, files)
            partial.write_text(f"{text}\n", encoding="utf-8")
    return tally


def _sum_files(files: Sequence[Source], transformer: ReportTransformer) -> Any:
    # Tallies of one protocol are sums of whole numbers, which are added in any order.
    first, *others = [file.tally(transformer) for file in files]
    return sum(others, start=first)


def _format_tally(
    tally: Any, transformer: ReportTransformer, files: Iterable[Source]
) -> str:
    """Format a tally as JSON with the weakest guarantee of its files: seeded randomness, or the largest epsilon."""
    protocols = [json.loads(transformer.to_json())]
    for file in files:
        if file.protocol_text is not None:
            # Refuses a guarantee that does not follow from the parameters.
            ReportTransformer.from_json(file.protocol_text)
            protocols.append(json.loads(file.protocol_text))
    weakest = max(protocols, key=_rank_weakness)
    return json.dumps(
        json.loads(tally.to_json()) | {PROTOCOL_KEY: weakest}, allow_nan=False
    )


def _rank_weakness(protocol: dict[str, Any]) -> tuple[bool, float]:
    # Seeded randomness protects nobody, so it comes before any epsilon.
    guarantee = protocol["guarantee"]
    return guarantee.get("secure") is not True, guarantee["epsilon"]


def estimate_file(
    source: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    transformer: ReportTransformer | None = None,
    *,
    rows: Literal["table", "population"] = "table",
    postprocess: str = "none",
    confidence_level: float = 0.95,
    delimiter: str | None = None,
) -> pd.DataFrame:
    """Estimate counts, or means, from the reports in one or several files, in batches.

    For reports of declared values and of `NumericPerturber`. For reports of `RapporEncoder`, use `tally` and its own
    estimates.

    Parameters
    ----------
    source : str or path-like, or iterable of them
        A file of `privatize_file`, or its URL; or a tally of ``skdp tally``. The reports of
        several files are added. Further columns are ignored.
    transformer : local transformer, optional
        The transformer that made the reports. If it is not fitted, it is fitted to the columns that it declares
        by name. By default, the transformer of the protocol in the file; a given one must have the same protocol.
    rows : {"table", "population"}, default="table"
        Target of inference, as in `estimate_counts`: the counts of the rows, or of the population from which they
        were drawn, with the sampling error. A tally with weights is of the population. Means always are.
    postprocess : str, default="none"
        As for the transformer's `estimate_counts`.
    confidence_level : float, default=0.95
        Coverage of each interval, between 0 and 1.
    delimiter : str, optional
        Separator of the values of a row in a CSV source: one character. By default a comma, and a tab where the name
        ends in ``.tsv``.

    Returns
    -------
    pandas.DataFrame
        The result of `estimate_counts` for all rows: ``count, std_error, lower, upper``; for numbers, of
        `estimate_mean`.

    Raises
    ------
    TypeError, ValueError
        If a file has another format, another protocol than the transformer, or none if no transformer is given, has
        no rows or other columns or values than reports of this protocol, or if a parameter is out of range. No error
        shows a value.
    FileNotFoundError
        If there is no source.
    ImportError
        If pyarrow is missing; the error names the extra.

    See Also
    --------
    privatize_file : Makes the reports, with an example.
    tally : Sums up the reports of a table of an engine.

    Notes
    -----
    **Privacy.** Post-processing of reports, without privacy loss.

    Examples
    --------
    >>> import tempfile
    >>> import pandas as pd
    >>> from skdp import RandomizedResponseEncoder
    >>> from skdp.engines import estimate_file
    >>> people = pd.DataFrame({"sex": ["f", "m"] * 500})
    >>> encoder = RandomizedResponseEncoder(2.0, categories={"sex": ["f", "m"]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     encoder.fit_transform(people).to_csv(f"{folder}/reports.csv", index=False)
    ...     counts = estimate_file(f"{folder}/reports.csv", encoder)
    ...     encoder.transform(people).to_parquet(f"{folder}/reports.parquet")
    ...     again = estimate_file(f"{folder}/reports.parquet")  # which has its protocol
    >>> list(counts.columns)
    ['count', 'std_error', 'lower', 'upper']
    """
    files = _open_sources(source, delimiter)
    fitted: Any = _find_transformer(files, transformer)
    tally = _sum_files(files, fitted)
    estimates: pd.DataFrame
    if hasattr(fitted, "estimate_mean"):
        if postprocess != "none":
            raise ValueError(
                f"`postprocess` must be 'none' for means, got {postprocess!r}"
            )
        estimates = fitted.estimate_mean(tally, confidence_level=confidence_level)
    elif hasattr(fitted, "estimate_counts") and not isinstance(fitted, RapporEncoder):
        estimates = fitted.estimate_counts(
            tally, rows=rows, postprocess=postprocess, confidence_level=confidence_level
        )
    else:
        raise TypeError(
            f"estimate_file counts declared values, got {type(fitted).__name__};"
            " use `tally` and its own estimates"
        )
    return estimates
