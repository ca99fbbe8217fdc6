"""Files of reports: what they say of their protocol, their tally, and the counts that it estimates."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from skdp._json import detect_format
from skdp.engines._atomic import check_path, write_atomically
from skdp.engines._engine import ReportSums, add_up_batches
from skdp.engines._libraries import Extra, engine_of
from skdp.engines._release import check_transformer, fit_on_schema
from skdp.engines.files._source_file import SourceFile, check_delimiter
from skdp.engines.files._table_file import (
    TableFile,
    check_said,
    only_one,
    read_json,
)
from skdp.local import (
    RapporEncoder,
    ReportProtocol,
    ReportTransformer,
    describe_guarantee,
)
from skdp.tables import PROTOCOL_KEY

pyarrow = Extra("pyarrow")

TALLY = ".json"


def source_at(place: Any, delimiter: str | None = None) -> SourceFile:
    """Find a file of reports, or a tally; the delimiter is for CSV files, and others have none."""
    if isinstance(place, SourceFile):
        return place
    name = os.fspath(place).removesuffix(".gz")
    return SourceFile.at(place, delimiter if name.endswith((".csv", ".tsv")) else None)


def checked_sources(sources: Any, delimiter: str | None = None) -> list[SourceFile]:
    """Take one path or URL, or several, none of them twice."""
    check_delimiter(delimiter)
    places = (
        [sources]
        if isinstance(sources, str | os.PathLike | SourceFile)
        else list(sources)
    )
    files = [source_at(place, delimiter) for place in places]
    # By where they are, and not by how they are written.
    seen = set()
    for source in files:
        place = os.path.realpath(source.path) if source.is_local else source.path
        if place in seen:
            raise ValueError(
                f"{source.name} is given twice: its reports would be counted twice"
            )
        seen.add(place)
    return files


def is_tally(source: SourceFile) -> bool:
    """Return whether a file is a tally by its name."""
    return source.name.endswith(TALLY)


def said_by(place: Any) -> str | None:
    """Return the protocol that a file of reports, or a tally, says; None if it says none."""
    source = source_at(place)
    if is_tally(source):
        return json.dumps(_read_tally(source)[PROTOCOL_KEY])
    return TableFile(source).protocol()


def unsaid(source: SourceFile) -> str:
    """Say that a file does not say its protocol."""
    return f"{source.name} does not say how its reports were made"


def transformer_of(
    sources: Iterable[SourceFile], transformer: Any = None
) -> ReportTransformer:
    """Return the transformer whose reports files hold: the given one, which they must not contradict, or their own."""
    if transformer is not None:
        check_transformer(transformer)
        if not hasattr(transformer, "protocol_"):
            # On what it declares: no row is read.
            fit_on_schema(transformer, pd.DataFrame(), ())
    fitted: ReportTransformer | None = transformer
    for source in sources:
        text = said_by(source)
        if fitted is None and text is None:
            raise ValueError(f"{unsaid(source)}: give the transformer (--protocol)")
        if fitted is None:
            assert text is not None
            fitted = ReportTransformer.from_json(text)
        check_said(text, fitted, source.name)
    if fitted is None:
        raise ValueError("expected at least one file of reports")
    return fitted


def sum_file(source: SourceFile, transformer: ReportTransformer) -> Any:
    """Return the tally of the reports in a file, which must not contradict the transformer."""
    protocol = transformer.protocol_
    if is_tally(source):
        return _tally_of(source, protocol)
    reports = ReportSums(protocol)
    table = TableFile(source)
    table.check_columns(reports.names)
    tables = _report_tables(table, protocol, reports.names)
    return reports.total(add_up_batches(tables, reports))


def tally_text(
    tally: Any, transformer: ReportTransformer, sources: Iterable[SourceFile]
) -> str:
    """Write a tally as JSON with the protocol of its files that guarantees least."""
    protocols = [json.loads(transformer.to_json())]
    for source in sources:
        text = said_by(source)
        if text is not None:
            # The guarantee must follow from the parameters; of seeded reports, it is not
            # secure.
            protocol = json.loads(text)
            guarantee = ReportTransformer.from_json(text).guarantee_
            secure = protocol["guarantee"]["secure"]
            protocol["guarantee"] = describe_guarantee(
                replace(guarantee, secure=secure)
            )
            protocols.append(protocol)
    weakest = max(protocols, key=_weakness)
    return json.dumps(
        json.loads(tally.to_json()) | {PROTOCOL_KEY: weakest}, allow_nan=False
    )


def _weakness(protocol: dict[str, Any]) -> tuple[bool, float]:
    guarantee = protocol["guarantee"]
    # Seeded randomness protects nobody, so it comes before any epsilon.
    return guarantee.get("secure") is not True, guarantee["epsilon"]


def _read_tally(source: SourceFile) -> dict[str, Any]:
    if not source.exists():
        raise FileNotFoundError(f"there is no file {source.path}")
    content = read_json(Path(source.path), "a tally")
    if not isinstance(content, dict) or not isinstance(content.get(PROTOCOL_KEY), dict):
        raise ValueError(
            f"{source.name} is no tally that says its protocol, as skdp tally writes it"
        )
    return content


def _tally_of(source: SourceFile, protocol: ReportProtocol) -> Any:
    empty = protocol.empty_tally()
    text = json.dumps(_read_tally(source))
    try:
        return empty + type(empty).from_json(text)
    except Exception:
        # Of any kind: a file of others decides what is tried.
        pass
    raise ValueError(f"{source.name} holds no tally of the protocol that it says")


def _report_tables(
    table: TableFile, protocol: ReportProtocol, names: list[str]
) -> Iterator[Any]:
    """Read reports; in a CSV file, those that are no values of the domain are numbers."""
    domain = protocol.values
    values: Iterable[str] = names
    if table.is_csv:
        values = () if domain is None else domain.columns
    for batch in table.tables(domain, names):
        columns = {}
        for name in names:
            column = batch[name]
            columns[name] = column if name in values else _numbers(column, name)
        yield pyarrow.table(columns)


def _numbers(column: Any, name: str) -> Any:
    """Read numbers, whole ones exactly."""
    for kind in (pyarrow.uint64(), pyarrow.float64()):
        try:
            return column.cast(kind)
        except pyarrow.ArrowInvalid:
            continue
    raise ValueError(f"column {name!r} holds something else than numbers")


_PROTOCOL = "skdp-protocol"


def read_protocol(source: Any) -> ReportTransformer | None:
    """Return the fitted transformer whose reports a table or a file holds.

    Parameters
    ----------
    source : dataframe, ndarray, str or path-like
        Reports: a table of any library that `skdp.engines` reads, or the path or URL of a file as `privatize_file` or
        ``skdp privatize`` wrote it (Parquet, Arrow), of a tally, or of the
        protocol itself, as `save` of the transformer wrote it.

    Returns
    -------
    transformer or None
        Fitted, of the class that made the reports, such as `RandomizedResponseEncoder`, for estimates and models. It
        has no ledger and no secret key. None where the reports do not say their protocol: polars and Spark keep no
        metadata, and neither does an array, nor a CSV file.

    Raises
    ------
    TypeError
        If `source` is neither a table nor a path.
    ValueError
        If it is a file of another kind, damaged, says several protocols, or one that `from_json` of the transformers
        refuses.
    OSError
        If the file cannot be read.

    See Also
    --------
    skdp.load : Reads what `save` wrote.
    estimate_file : Estimates counts from a file.

    Notes
    -----
    **Privacy.** Free: no row is read. What reports say of their protocol may be wrong, or about other reports: nothing
    in it is run, but who made the reports has to be trusted for it.

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
        text = _text_of_file(source_at(source))
    elif hasattr(source, "n_reports"):
        raise TypeError(
            "source is a tally in memory, which does not hold its protocol: estimates"
            " take it as it is; `skdp tally` writes one that says its protocol"
        )
    else:
        text = only_one(engine_of(source).said(), "the table")
    return None if text is None else ReportTransformer.from_json(text)


def _text_of_file(file: SourceFile) -> str | None:
    path = Path(file.path)
    if file.is_local and path.is_file():
        if path.suffix == TALLY:
            content = read_json(path, "a protocol")
            if isinstance(content, dict) and content.get("format") == _PROTOCOL:
                return json.dumps(content)
        with path.open("rb") as opened:
            beginning = opened.read(200)
        # Files of Arrow may hold the text of a protocol there.
        kind = detect_format(beginning) if beginning.startswith((b"{", b"PK")) else ""
        if kind:
            raise ValueError(f"{path.name} holds no reports{kind}")
    return said_by(file)


def columns_beside_reports(source: Any, transformer: ReportTransformer) -> list[Any]:
    """Name the columns of a table or file that are not reports of a transformer; a tally or a protocol has none."""
    reports = set(transformer.protocol_.report_columns)
    return [
        name for name in dict.fromkeys(_column_names(source)) if name not in reports
    ]


def _column_names(source: Any) -> list[Any]:
    if not isinstance(source, str | os.PathLike):
        return engine_of(source).column_names()
    file = source_at(source)
    return [] if is_tally(file) else TableFile(file).names


def tally_files(
    sources: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    transformer: ReportTransformer | None = None,
    *,
    target: str | os.PathLike[str] | None = None,
    delimiter: str | None = None,
) -> Any:
    """Sum up the reports, or the tallies, of many files, and write the sum as a tally with its protocol."""
    # A tally states the weakest guarantee of its files: one of seeded randomness, or
    # else the one with the largest epsilon.
    files, place = checked_sources(sources, delimiter), check_path(target)
    if place is not None and place.suffix != ".json":
        raise ValueError(f"{place.name} must end in .json")
    fitted = transformer_of(files, transformer)
    tally = _sum_files(files, fitted)
    if place is not None:
        with write_atomically(place) as beside:
            beside.write_text(tally_text(tally, fitted, files) + "\n", encoding="utf-8")
    return tally


def _sum_files(files: Sequence[SourceFile], transformer: ReportTransformer) -> Any:
    # Tallies of one protocol are sums of whole numbers, which are added in any order.
    first, *others = [sum_file(file, transformer) for file in files]
    return sum(others, start=first)


def estimate_file(
    source: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    transformer: ReportTransformer | None = None,
    *,
    rows: Literal["table", "population"] = "table",
    postprocess: str = "none",
    confidence_level: float = 0.95,
    delimiter: str | None = None,
) -> pd.DataFrame:
    """Estimate counts, or means, from the reports in a file or in several, in memory of a few batches.

    For reports of declared values and of `NumericPerturber`. For reports of `RapporEncoder`, use `tally` and its own
    estimates.

    Parameters
    ----------
    source : str or path-like, or iterable of them
        A file as `privatize_file` wrote it, or the URL of one; or a tally that ``skdp tally`` wrote. The reports of
        several files are added. Further columns are ignored.
    transformer : local transformer, optional
        As the one that privatised. If it is not fitted, it is fitted to the columns that it declares
        by name. By default, the transformer of the protocol in the file; a given one must have the same protocol.
    rows : {"table", "population"}, default="table"
        Target of inference, as in `estimate_counts`: the counts of the rows, or of the population from which they
        were drawn, with the sampling error. A tally with weights is of the population. Means always are.
    postprocess : str, default="none"
        As for the transformer's `estimate_counts`.
    confidence_level : float, default=0.95
        Coverage of each interval, between 0 and 1.
    delimiter : str, optional
        What separates the values of a row in a CSV file that is read: one character. By default a comma, and a tab
        where the name ends in ``.tsv``.

    Returns
    -------
    pandas.DataFrame
        What `estimate_counts` returns for all rows: ``count, std_error, lower, upper``; of numbers, `estimate_mean`.

    Raises
    ------
    TypeError, ValueError
        If a file is none of these formats, says another protocol than the transformer, or none if none is given,
        has no rows or other columns or values than reports of this protocol, or a parameter is out of range. No
        error shows a value.
    FileNotFoundError
        If there is no source.
    ImportError
        If pyarrow is missing; the error names the extra.

    See Also
    --------
    privatize_file : Makes the reports; there is an example.
    tally : Sums up the reports of a table of an engine.

    Notes
    -----
    **Privacy.** Post-processing of reports: free.

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
    ...     again = estimate_file(f"{folder}/reports.parquet")  # which says its protocol
    >>> list(counts.columns)
    ['count', 'std_error', 'lower', 'upper']
    """
    files = checked_sources(source, delimiter)
    fitted: Any = transformer_of(files, transformer)
    tally = _sum_files(files, fitted)
    estimates: pd.DataFrame
    if hasattr(fitted, "estimate_mean"):
        if postprocess != "none":
            raise ValueError(
                f"postprocess is for counts, not for means, got {postprocess!r}"
            )
        estimates = fitted.estimate_mean(tally, confidence_level=confidence_level)
    elif hasattr(fitted, "estimate_counts") and not isinstance(fitted, RapporEncoder):
        estimates = fitted.estimate_counts(
            tally, rows=rows, postprocess=postprocess, confidence_level=confidence_level
        )
    else:
        raise TypeError(
            f"estimate_file counts declared values, got {type(fitted).__name__};"
            " give its own estimates what `tally` makes of the reports"
        )
    return estimates
