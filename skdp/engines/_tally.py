"""Sum up reports wherever they are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sklearn.utils.validation import check_is_fitted

from skdp.engines._engine import ReportSums
from skdp.engines._libraries import engine_of, has_engine
from skdp.engines._release import check_transformer
from skdp.local import ReportTransformer, check_carried, check_releases
from skdp.tables import joined_releases


def tally(frame: Any, transformer: ReportTransformer) -> Any:
    """Sum up the reports of a table of any engine: only sums come to Python.

    DuckDB and Spark count equal reports of randomised response themselves, and DuckDB those of at most 6 bits and
    numeric ones, unless more than 65,536 numbers are possible; all others are tallied batch by batch, and the tallies
    of partitions are added up as a tree.

    Parameters
    ----------
    frame : table, or list, tuple or iterator of tables
        Reports, in any of the kinds that `privatize` takes; further columns are ignored. Several tables are in memory
        (pandas, polars or pyarrow), such as the days of a collection; empty ones are ignored.
    transformer : local transformer
        Fitted, as the one that privatised.

    Returns
    -------
    ReportTally
        What the transformer's `tally` returns for the whole table; its estimates take it.

    Raises
    ------
    TypeError
        If the frame or the transformer is of another kind.
    NotFittedError
        If the transformer is not fitted.
    ValueError
        If the table has no rows, or other columns or values than reports of this transformer, or carries another
        protocol (in the metadata of Arrow and Parquet, or the ``attrs`` of pandas).
    ImportError
        If a library is missing; the error names the extra to install.

    Warns
    -----
    UnverifiedReportsWarning
        As by the `tally` of the transformer: Arrow tables, Parquet and Arrow files and pandas frames carry counts of
        their releases; other tables are compared with what the transformer has made in this process.

    See Also
    --------
    privatize : Makes the reports.
    tally_files : Sums up files.

    Notes
    -----
    **Privacy.** Post-processing of reports: free.

    Examples
    --------
    >>> import polars as pl
    >>> from skdp import RandomizedResponseEncoder
    >>> from skdp.engines import privatize, tally
    >>> encoder = RandomizedResponseEncoder(3.0, categories={"smokes": ["yes", "no"]}, random_state=0)
    >>> people = pl.LazyFrame({"smokes": ["yes", "no", "no", "no"]})
    >>> tally(privatize(people, encoder), encoder).n_reports
    4
    >>> tally((encoder.transform(people.collect()) for day in range(7)), encoder).n_reports
    28
    """
    # A reader of Arrow is an iterator, too, but of one table.
    is_one_table = has_engine(frame) or not isinstance(frame, list | tuple | Iterator)
    check_transformer(transformer)
    message = (
        "This %(name)s is not fitted. Read the one that made the reports from their "
        "file, by skdp.read_protocol, or call 'fit' on what it declares."
    )
    check_is_fitted(transformer, msg=message)
    # Neither keys nor a ledger go to workers.
    protocol = transformer.protocol_.without_secrets()
    reports = ReportSums(protocol)
    sums = reports.zeros()
    releases = []
    # Those of an iterator are read one after the other, and not kept.
    for table in [frame] if is_one_table else frame:
        engine = engine_of(table)
        _check_columns(engine, reports.names)
        for text in engine.said():
            check_carried(text, transformer)
        table_sums = engine.tally(reports, protocol)
        sums = [total + part for total, part in zip(sums, table_sums, strict=True)]
        releases.append(engine.releases())
    total = reports.total(sums)
    check_releases(
        reports.counts(sums), joined_releases(releases), transformer.released
    )
    return total


def _check_columns(engine: Any, report_columns: list[str]) -> None:
    names = engine.column_names()
    if not set(report_columns) <= set(names):
        raise ValueError(
            f"the reports of this encoder have the columns {report_columns}, got "
            f"{names}"
        )
