"""The transformer whose reports a table or a file holds, from what they say."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from skdp.engines._registry import engine_of
from skdp.engines._source_file import SourceFile
from skdp.engines.files._formats import TableFile
from skdp.engines.files._said import only_one, read_json
from skdp.engines.files._sums import TALLY, is_tally, said_by, source_at
from skdp.local import ReportTransformer

_PROTOCOL = "skdp-protocol"


def read_protocol(source: Any) -> ReportTransformer | None:
    """Return the fitted transformer whose reports a table or a file holds.

    Parameters
    ----------
    source : dataframe, ndarray, str or path-like
        Reports: a table of any library that `skdp.engines` reads, or the path or URL of a file as `privatize_file` or
        ``skdp privatize`` wrote it (CSV with the ``.skdp.json`` beside it, Parquet, Arrow), of a tally, or of the
        protocol itself, as `save` of the transformer wrote it.

    Returns
    -------
    transformer or None
        Fitted, of the class that made the reports, such as `RandomizedResponseEncoder`, for estimates and models. It
        has no ledger and no secret key. None where the reports do not say their protocol: polars and Spark keep no
        metadata, and neither does an array, nor a file of text that lost the file beside it.

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
            "source is a tally in memory, which does not hold its protocol: estimates take it as it "
            "is; `tally_files` with target= writes a tally that says its protocol"
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
        if zipfile.is_zipfile(path):
            raise ValueError(
                f"{path.name} holds no reports: if skdp.save wrote it, skdp.load reads it"
            )
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
