"""From a file with reports to estimated counts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pandas as pd

from skdp.engines._atomic import NoBar, Progress, check_path, written_beside
from skdp.engines._batch_release import check_transformer, fit_on_schema
from skdp.engines._engine import ReportSums
from skdp.engines._extras import Extra
from skdp.engines.files._formats import TableFile, format_of, write_file
from skdp.local import ReportProtocol

pyarrow = Extra("pyarrow")


def estimate_file(
    source: str | os.PathLike[str],
    transformer: Any,
    *,
    target: str | os.PathLike[str] | None = None,
    postprocess: str = "none",
    confidence_level: float = 0.95,
    progress: Progress = NoBar,
) -> pd.DataFrame:
    """Estimate counts from the reports in a file, in memory of a few batches.

    For reports of declared values. Those of `NumericPerturber` and `RapporEncoder` are summed up by `tally`, for their
    own estimates: give it a pyarrow Dataset of the file.

    Parameters
    ----------
    source : str or path-like
        A file as `privatize_file` wrote it, or the URL of one; further columns are ignored.
    transformer : local transformer
        As the one that privatised. If it is not fitted, it is, on what it declares by name.
    target : str or path-like, optional
        A new CSV, Parquet or Arrow file for the estimates, too.
    postprocess : str, default="none"
        As for the transformer's `estimate_counts`.
    confidence_level : float, default=0.95
        Coverage of each interval, between 0 and 1.
    progress : callable, optional
        As for `privatize_file`.

    Returns
    -------
    pandas.DataFrame
        What `estimate_counts` returns for all rows: ``count, std_error, lower, upper``.

    Raises
    ------
    TypeError, ValueError
        If a file is none of these formats, has no rows or other columns or values than reports of this transformer, or
        a parameter is out of range. No error shows a value.
    FileExistsError, FileNotFoundError
        If the target exists, or there is no source or no directory for the target.
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
    >>> list(counts.columns)
    ['count', 'std_error', 'lower', 'upper']
    """
    check_transformer(transformer)
    if not hasattr(transformer, "estimate_counts"):
        raise TypeError(
            f"estimate_file counts declared values, got {type(transformer).__name__}; give its own estimates what "
            "`tally` makes of the reports, such as of a pyarrow Dataset of the file"
        )
    if not hasattr(transformer, "protocol_"):
        fit_on_schema(transformer, pd.DataFrame(), ())
    protocol = transformer.protocol_
    table, place = TableFile(source), check_path(target)
    form = None if place is None else format_of(place)
    reports = ReportSums(protocol)
    table.check_columns(reports.names)
    sums = reports.zeros()
    with closing(progress(table.count_rows())) as bar:
        for batch in _report_tables(table, protocol, reports.names):
            reports.add(sums, batch)
            bar.update(len(batch))
    estimates = transformer.estimate_counts(
        reports.total(sums), postprocess=postprocess, confidence_level=confidence_level
    )
    if place is not None and form is not None:
        _write(estimates, place, form)
    return estimates


def _report_tables(table: TableFile, protocol: ReportProtocol, names: list[str]) -> Iterator[Any]:
    """Read reports; in a CSV file, those that are no values of the domain are numbers."""
    domain = protocol.values
    values = names if table.format != "csv" else () if domain is None else domain.columns
    for batch in table.tables(domain, names, in_order=False):
        yield pyarrow.table({name: batch[name] if name in values else _numbers(batch[name], name) for name in names})


def _numbers(column: Any, name: str) -> Any:
    """Read numbers, whole ones exactly."""
    for kind in (pyarrow.uint64(), pyarrow.float64()):
        try:
            return column.cast(kind)
        except pyarrow.ArrowInvalid:
            continue
    raise ValueError(f"column {name!r} holds something else than numbers") from None


def _write(estimates: pd.DataFrame, place: Path, form: str) -> None:
    flat = estimates.reset_index()
    for name in flat:
        if flat[name].dtype == object:  # values of several columns, so perhaps of several kinds
            flat[name] = flat[name].map(str, na_action="ignore")
    table = pyarrow.Table.from_pandas(flat, preserve_index=False).replace_schema_metadata(None)
    with written_beside(place) as beside:
        write_file([table], table.schema, beside, form)
