"""From files with reports to a file with their tally."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from skdp.engines._atomic import NoBar, Progress, check_path, sync, written_beside
from skdp.engines._batch_release import check_flags
from skdp.engines.files._sums import check_counted_once, checked_paths, sum_file, tally_text, transformer_of
from skdp.local import ReportTransformer


def tally_files(
    sources: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    transformer: ReportTransformer | None = None,
    *,
    target: str | os.PathLike[str] | None = None,
    progress: Progress = NoBar,
    allow_copies: bool = False,
    delimiter: str | None = None,
) -> Any:
    """Sum up the reports, or the tallies, of many files, in memory of a few batches.

    Parameters
    ----------
    sources : path, or iterable of paths
        CSV, Parquet or Arrow files, as `privatize_file` writes them; JSON lines (``.jsonl``, ``.ndjson``) of clients,
        an object for each record; folders that `privatize_files` wrote, or their ``manifest.json``, whose shards must
        all be there, unchanged; or tallies (``.json``) that this function wrote. Further columns are ignored.
    transformer : local transformer, optional
        As the one that privatised. If it is not fitted, it is, on what it declares by name. By default, that of the
        files, if they say their protocol.
    target : str or path-like, optional
        A new file for the tally (``.json``): its sums, its own header, its protocol under ``skdp.protocol``, which
        `estimate_file` and `tally_files` read, and under ``skdp.tallies`` a random number, followed by those of the
        tallies that it sums. If the files state several guarantees, it is the weakest of them: one of seeded
        randomness, or else the one with the largest epsilon.
    progress : callable, optional
        As for `privatize_file`.
    allow_copies : bool, default=False
        Whether files may have the same content, or tallies sum up the same one, as small files of different reports
        may. By default that is an error, as reports would be counted twice.
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
        If a file is given twice, or as a copy, or a tally is given beside a sum of it; if it says another protocol than
        the transformer or another file, or none where none is given; if it has no rows, or other columns or values than
        reports of this protocol. Of JSON lines, the error names the line; no error shows a value. A line has at most
        2**20 bytes, a tally at most 2**24 bytes and 2**21 numbers.
    FileExistsError, FileNotFoundError
        If the target exists, or there is no source or no directory for the target.
    ImportError
        If pyarrow is missing; the error names the extra.

    Warns
    -----
    UnverifiedReportsWarning
        If a file does not hold the reports of the releases whose counts it carries.

    See Also
    --------
    estimate_file : Estimates counts from such files.
    tally : Sums up the reports of a table of an engine.

    Notes
    -----
    **Privacy.** Post-processing of reports: free. A tally shows nothing of the files that it sums but their sum, and so
    it is not noticed if it is added to one of these files.

    Examples
    --------
    >>> import json
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import pandas as pd
    >>> from skdp import RandomizedResponseEncoder
    >>> from skdp.engines import estimate_file, tally_files
    >>> people = pd.DataFrame({"sex": ["f", "m"] * 500})
    >>> encoder = RandomizedResponseEncoder(2.0, categories={"sex": ["f", "m"]}).fit(people)
    >>> with TemporaryDirectory() as folder:
    ...     lines, total = Path(folder, "reports.jsonl"), Path(folder, "tally.json")
    ...     encoder.transform(people).to_json(lines, orient="records", lines=True)
    ...     tally = tally_files(lines, encoder, target=total)
    ...     counts = estimate_file(total)  # a tally says its protocol
    >>> tally.n_reports, list(counts.index)
    (1000, ['f', 'm'])
    """
    paths, place = checked_paths(sources, delimiter), check_path(target)
    if place is not None and place.suffix != ".json":
        raise ValueError(f"{place.name} must end in .json")
    check_flags(allow_copies=allow_copies)
    found = transformer_of(paths, transformer)
    if not allow_copies:
        check_counted_once(paths)
    first, *others = (sum_file(path, found, progress) for path in paths)
    tally = sum(others, start=first)
    if place is not None:
        text = tally_text(tally, found, paths)
        with written_beside(place) as beside:
            beside.write_text(text + "\n", encoding="utf-8")
            sync(beside)
        sync(place.parent)
    return tally
