"""From a file with reports to estimated counts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pandas as pd

from skdp.engines._atomic import NoBar, Progress, check_path, written_beside
from skdp.engines._extras import Extra
from skdp.engines.files._formats import format_of, write_file
from skdp.engines.files._sums import checked_sources, sum_file, transformer_of
from skdp.local import RapporEncoder, ReportTransformer
from skdp.tables import flatten_index

pyarrow = Extra("pyarrow")


def estimate_file(
    source: str | os.PathLike[str],
    transformer: ReportTransformer | None = None,
    *,
    target: str | os.PathLike[str] | None = None,
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
    found: Any = transformer_of([file], transformer)
    estimates = _estimate(
        found, sum_file(file, found, progress).tally, postprocess, confidence_level
    )
    if place is not None and form is not None:
        _write(estimates, place, form)
    return estimates


def _estimate(
    transformer: Any, tally: Any, postprocess: str, confidence_level: float
) -> pd.DataFrame:
    if hasattr(transformer, "estimate_counts") and not isinstance(
        transformer, RapporEncoder
    ):
        counts: pd.DataFrame = transformer.estimate_counts(
            tally, postprocess=postprocess, confidence_level=confidence_level
        )
        return counts
    if not hasattr(transformer, "estimate_mean"):
        raise TypeError(
            f"estimate_file counts declared values, got {type(transformer).__name__}; give its own estimates what "
            "`tally_files` makes of the reports"
        )
    if postprocess != "none":
        raise ValueError(
            f"postprocess is for counts, not for means, got {postprocess!r}"
        )
    means: pd.DataFrame = transformer.estimate_mean(
        tally, confidence_level=confidence_level
    )
    return means


def _write(estimates: pd.DataFrame, place: Path, form: str) -> None:
    flat = flatten_index(estimates)
    for name in flat:
        if (
            flat[name].dtype == object
        ):  # values of several columns, so perhaps of several kinds
            flat[name] = flat[name].map(str, na_action="ignore")
    table = pyarrow.Table.from_pandas(
        flat, preserve_index=False
    ).replace_schema_metadata(None)
    with written_beside(place) as beside:
        write_file([table], table.schema, beside, form)
