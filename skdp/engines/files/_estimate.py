"""From files with reports to their tally, and to estimated counts."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from skdp.engines._atomic import NoBar, Progress, check_path, written_beside
from skdp.engines._libraries import Extra
from skdp.engines.files._reports import (
    checked_sources,
    sum_file,
    tally_text,
    transformer_of,
)
from skdp.engines.files._table_file import format_of, write_file
from skdp.local import RapporEncoder, ReportTransformer, check_together
from skdp.tables import flatten_index


def tally_files(
    sources: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    transformer: ReportTransformer | None = None,
    *,
    target: str | os.PathLike[str] | None = None,
    progress: Progress = NoBar,
    delimiter: str | None = None,
) -> Any:
    """Sum up the reports, or the tallies, of many files, in memory of a few batches.

    Parameters
    ----------
    sources : path, or iterable of paths
        CSV, Parquet or Arrow files, as `privatize_file` writes them, or tallies (``.json``) that this function wrote.
        Further columns are ignored.
    transformer : local transformer, optional
        As the one that privatised. If it is not fitted, it is, on what it declares by name. By default, that of the
        files, if they say their protocol.
    target : str or path-like, optional
        A new file for the tally (``.json``): its sums, and its protocol under ``skdp.protocol``, which `estimate_file`
        and `tally_files` read. If the files state several guarantees, it is the weakest of them: one of seeded
        randomness, or else the one with the largest epsilon.
    progress : callable, optional
        As for `privatize_file`.
    delimiter : str, optional
        What separates the values of a row in a CSV file that is read: one character. By default a comma, and a tab
        where the name ends in ``.tsv``.

    Returns
    -------
    ReportTally
        The sum of all files.

    Raises
    ------
    TypeError, ValueError
        If a file is given twice, says another protocol than the transformer or another file, or none where none is
        given; if it has no rows, or other columns or values than reports of this protocol. No error shows a value. A
        tally has at most 2**24 bytes and 2**21 numbers.
    FileExistsError, FileNotFoundError
        If the target exists, or there is no source or no directory for the target.
    ImportError
        If pyarrow is missing; the error names the extra.

    Warns
    -----
    UnverifiedReportsWarning
        If a file does not hold the reports of the releases whose counts it carries, or all files together hold more
        reports than these releases: reports that several files have in common are counted several times.

    See Also
    --------
    estimate_file : Estimates counts from such files.
    tally : Sums up the reports of a table of an engine.

    Notes
    -----
    **Privacy.** Post-processing of reports: free.

    A file that is named twice is refused. Reports in several files, such as in a copy, are counted several times, with
    a warning where both files carry the counts of their release. A CSV file has a random number beside it, by which a
    copy of it is noticed, with the file beside it, and a part is not. Tallies carry nothing: a tally beside a file that
    it sums, or the tallies of two such files, are added without a word.

    JSON lines of clients are tables to `tally`: ``polars.scan_ndjson``, DuckDB's ``read_json``, or
    ``pandas.read_json(lines=True)``.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import pandas as pd
    >>> from skdp import RandomizedResponseEncoder
    >>> from skdp.engines import estimate_file, tally_files
    >>> people = pd.DataFrame({"sex": ["f", "m"] * 500})
    >>> encoder = RandomizedResponseEncoder(2.0, categories={"sex": ["f", "m"]}).fit(people)
    >>> with TemporaryDirectory() as folder:
    ...     days, total = [Path(folder, "monday.parquet"), Path(folder, "tuesday.parquet")], Path(folder, "tally.json")
    ...     for day in days:
    ...         encoder.transform(people).to_parquet(day)
    ...     tally = tally_files(days, target=total)
    ...     counts = estimate_file(total)  # a tally says its protocol
    >>> tally.n_reports, list(counts.index)
    (2000, ['f', 'm'])
    """
    files, place = checked_sources(sources, delimiter), check_path(target)
    if place is not None and place.suffix != ".json":
        raise ValueError(f"{place.name} must end in .json")
    fitted = transformer_of(files, transformer)
    summed = [sum_file(file, fitted, progress) for file in files]
    check_together(
        [
            (file.counts, file.releases)
            for file in summed
            if file.counts is not None and file.releases is not None
        ]
    )
    # Tallies of one protocol are sums of whole numbers, which are added in any order.
    first, *others = [file.tally for file in summed]
    tally = sum(others, start=first)
    if place is not None:
        with written_beside(place) as beside:
            beside.write_text(tally_text(tally, fitted, files) + "\n", encoding="utf-8")
    return tally


pyarrow = Extra("pyarrow")


def estimate_file(
    source: str | os.PathLike[str],
    transformer: ReportTransformer | None = None,
    *,
    target: str | os.PathLike[str] | None = None,
    rows: Literal["table", "population"] = "table",
    population_size: float | None = None,
    postprocess: str = "none",
    confidence_level: float = 0.95,
    progress: Progress = NoBar,
    delimiter: str | None = None,
) -> pd.DataFrame:
    """Estimate counts, or means, from the reports in a file, in memory of a few batches.

    For reports of declared values and of `NumericPerturber`. Those of `RapporEncoder` are summed up by `tally_files`,
    for its own estimates.

    Parameters
    ----------
    source : str or path-like
        A file as `privatize_file` wrote it, or the URL of one; or a tally that `tally_files` wrote. Further columns are
        ignored.
    transformer : local transformer, optional
        As the one that privatised. If it is not fitted, it is, on what it declares by name. By default, that of the
        protocol that the file says, which a given one must not contradict.
    target : str or path-like, optional
        A new CSV, Parquet or Arrow file for the estimates, too. A column of values that is named as one of the
        estimates, such as ``count``, becomes ``count_value``.
    rows : {"table", "population"}, default="table"
        Whose counts are estimated, as in `estimate_counts`: those of the rows, or of the population from which they
        were drawn, with the error of the sample. A tally with weights is of the population. Means always are.
    population_size : float, optional
        With ``rows="population"``: how many people there are, as in `estimate_counts`.
    postprocess : str, default="none"
        As for the transformer's `estimate_counts`.
    confidence_level : float, default=0.95
        Coverage of each interval, between 0 and 1.
    progress : callable, optional
        As for `privatize_file`.
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
    FileExistsError, FileNotFoundError
        If the target exists, or there is no source or no directory for the target.
    ImportError
        If pyarrow is missing; the error names the extra.

    See Also
    --------
    privatize_file : Makes the reports; there is an example.
    tally_files : Sums up the reports of many files.

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
    place = check_path(target)
    form = None if place is None else format_of(place)
    (file,) = checked_sources(source, delimiter)
    fitted: Any = transformer_of([file], transformer)
    tally = sum_file(file, fitted, progress).tally
    options: dict[str, Any] = {
        "rows": rows,
        "population_size": population_size,
        "postprocess": postprocess,
        "confidence_level": confidence_level,
    }
    estimates = _estimate(fitted, tally, options)
    if place is not None and form is not None:
        _write(estimates, place, form)
    return estimates


def _estimate(transformer: Any, tally: Any, options: dict[str, Any]) -> pd.DataFrame:
    if hasattr(transformer, "estimate_counts") and not isinstance(
        transformer, RapporEncoder
    ):
        if tally.weighted is not None:
            # Weights are those of a sample, and say nothing of the table itself.
            options["rows"] = "population"
        counts: pd.DataFrame = transformer.estimate_counts(tally, **options)
        return counts
    if not hasattr(transformer, "estimate_mean"):
        raise TypeError(
            f"estimate_file counts declared values, got {type(transformer).__name__};"
            " give its own estimates what `tally_files` makes of the reports"
        )
    if options["postprocess"] != "none":
        raise ValueError(
            f"postprocess is for counts, not for means, got {options['postprocess']!r}"
        )
    if options["population_size"] is not None:
        raise ValueError("population_size is for counts, not for means")
    means: pd.DataFrame = transformer.estimate_mean(
        tally, confidence_level=options["confidence_level"]
    )
    return means


def _write(estimates: pd.DataFrame, place: Path, form: str) -> None:
    # The values are the index of the estimates; a file has columns only.
    flat = flatten_index(estimates)
    for name in flat:
        # Values of several columns, so perhaps of several kinds.
        if flat[name].dtype == object:
            flat[name] = flat[name].map(str, na_action="ignore")
    table = pyarrow.Table.from_pandas(
        flat, preserve_index=False
    ).replace_schema_metadata(None)
    with written_beside(place) as beside:
        write_file([table], table.schema, beside, form)
