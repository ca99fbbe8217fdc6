"""Functions that privatize tables of engines and files, and sum reports."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from sklearn.utils.validation import check_is_fitted

from skdp.engines._files import (
    FileTable,
    TableFile,
    check_destination,
    check_readable,
    check_writable,
    find_format,
    is_csv,
    write_file,
)
from skdp.engines._release import (
    BatchRelease,
    check_keep,
    check_transformer,
    prepare_release,
)
from skdp.engines._reports import ReportSums
from skdp.local import (
    ReportTransformer,
    check_attached_protocol,
    warn_of_reports,
)
from skdp.readers import open_engine, open_output, run_safely
from skdp.tables import attach_schema_protocol

logger = logging.getLogger(__name__)


def privatize(
    frame: Any,
    transformer: ReportTransformer,
    *,
    keep: Sequence[str] = (),
    person: str | None = None,
    path: str | os.PathLike[str] | None = None,
) -> Any:
    """Privatize a table of any engine with a fitted transformer, in batches.

    Parameters
    ----------
    frame : table
        True rows: a Dask or Spark DataFrame, a Polars LazyFrame, a DuckDB relation, or a pyarrow Dataset or Table. It
        may have further columns.
    transformer : local transformer
        Transformer that reports row by row: an encoder with frequency oracles, `NumericPerturber`, or
        `RapporEncoder`. If it is not fitted, it is fitted to the columns that it declares by name (a mapping or a
        Domain), otherwise to all columns that are not kept, without reading rows.
    keep : sequence of str, default=()
        Columns that are released **unprotected**, after the reports. Categories of pandas dtypes are kept, and other
        dictionaries are converted to plain values.
    person : str, default=None
        Name of the column of the ids of persons, which replaces the ``person`` of `transform`. Required if reports are
        permanent (``memoize=True``, or a `RapporEncoder` with a key), and None otherwise. The column is not released
        unless it is in `keep`.
    path : str or path-like, default=None
        New Parquet file (a directory for Dask and Spark) for the reports. It is created when all reports are complete,
        and the result reads it. If None, a temporary file on this machine is used, which is deleted when Python exits.
        Spark accepts any path that it can write to (``s3a://…``, ``hdfs:/…``, ``dbfs:/…``).

    Returns
    -------
    same type as the frame
        Reports, which are read from the file.

    Raises
    ------
    TypeError
        If the frame or the transformer has an unsupported type.
    ValueError
        If a column is missing or its values are not declared, if a row has a value outside the domain, if an id of a
        person is missing or repeated, if a parameter is not valid for the engine, if another ledger was set after
        `fit`, or if the table cannot be read. No reports are returned or written to `path`. Error messages contain no
        values of the table: the text of an error of the engine is omitted. An error after the check, for example if the
        table has changed or a disk is full, does not revert the charge.
    BudgetExceeded
        If the ledger does not cover the release. No row is privatized.
    FileExistsError, FileNotFoundError
        If `path` exists, or its directory does not exist.
    ImportError
        If an optional dependency is not installed.

    Warns
    -----
    UserWarning
        If the table has a protocol in its metadata (Arrow, Parquet, or ``attrs`` of pandas), because its columns may
        already be reports.

    See Also
    --------
    tally : Sum the reports without loading them into Python.

    Notes
    -----
    **Privacy.** As for the transformer's `transform`, for each record (row) of the whole table: `guarantee_`, charged
    once, before a row is privatized. Rows are privatized independently of each other, in any number of batches. The
    kept columns and the order of rows and columns are not protected.

    *An error for a value outside the domain* is not private: it reveals that such a
    value occurs, and in which column. It uses no budget, as in `transform`. If an
    untrusted person chooses the declared values, use ``handle_unknown="uniform"``,
    which raises no such error. No row is read if the ledger does not cover the release.

    *Secure randomness* (``random_state=None``): each call draws a secret key of 32 bytes. Each batch draws its reports
    from SHAKE-128 under a key that HMAC-SHA256 derives from the secret key, the position of the batch and its values.
    Batches therefore have independent random bits in all processes, and a batch that is computed again has the same
    reports. If its rows have changed, its reports are independent; all reports are stored once, so that only one
    version is released. The guarantee holds against attackers without the key who cannot break the hash functions. The
    key is in no report and no log. On Dask and Spark it is part of the tasks, on the scheduler and the workers, which
    can read the true rows as well. The same holds for the `secret_key` of permanent reports. Checks and `tally` send no
    key.

    *Permanent reports* are a function of `secret_key`, id of the person, column and value. They equal the reports of
    `transform` on every engine and in any number of batches. Ids are integers or text; "7" is the id 7. Instantaneous
    randomized response uses random bits derived from a new key, the batch and its ids.

    Two rows of one record would exceed the charge. Therefore, the ids of the whole table are read before the charge,
    and a missing or repeated id is an error. The table must have the same rows when it is
    read again to draw the reports; if its query is random, store its result. Ids are compared in memory by keyed
    digests of 8 bytes.

    Reports are always written to files, so that there is a single release. In memory, a lost partition of Dask or Spark
    would be computed again, possibly with rows in another order.

    *Seeded randomness* (for experiments): the key of each call is derived from the seed. The same rows in the same
    batches have the same reports, which differ from the reports of `transform`.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import pyarrow.dataset as ds
    >>> from skdp import RandomizedResponseEncoder
    >>> from skdp.engines import privatize, tally
    >>> people = ds.dataset(pa.table({"smokes": ["yes", "no", "no", "no"] * 2_500, "year": [2026] * 10_000}))
    >>> encoder = RandomizedResponseEncoder(2.0, categories={"smokes": ["yes", "no"]}, random_state=0)
    >>> reports = privatize(people, encoder, keep=["year"])
    >>> reports.head(3).to_pydict()
    {'smokes': ['yes', 'no', 'no'], 'year': [2026, 2026, 2026]}
    >>> encoder.estimate_counts(tally(reports, encoder)).round(0)
             count  std_error   lower   upper
    smokes
    yes     2550.0       43.0  2466.0  2633.0
    no      7450.0       43.0  7367.0  7534.0

    Permanent reports of the same people are equal in all months:

    >>> from skdp.local import NumericPerturber, SecretKey
    >>> perturber = NumericPerturber(
    ...     2.0, mechanism="square_wave", bounds={"age": (0, 100)}, memoize=True, secret_key=SecretKey.generate()
    ... )
    >>> members = pa.table({"member": [f"M{number}" for number in range(1_000)], "age": [20, 50] * 500})
    >>> may, june = (privatize(part, perturber, person="member") for part in (members, members.slice(200)))
    >>> may.slice(200).equals(june)
    True
    """
    engine = open_engine(frame)
    destination = engine.check_path(path)
    # An error from here to the charge spends nothing.
    release = prepare_release(engine.sample, transformer, keep=keep, person=person)
    warn_of_reports(list(engine.protocols()))
    transformer._check_budget()
    with engine.open_output(destination) as partial:
        # Rows and ids of persons are checked before the charge.
        engine.check_rows(release)
        engine.write(release.charge(transformer), partial)
    return engine.open_reports(release, destination)


def privatize_file(
    source: str | os.PathLike[str],
    destination: str | os.PathLike[str],
    transformer: ReportTransformer,
    *,
    keep: Sequence[str] = (),
    person: str | None = None,
    delimiter: str | None = None,
) -> Path:
    r"""Privatize the table in a file in batches, and write the reports to another file.

    The suffix determines the format: ``.csv``, ``.tsv``, ``.parquet``, or ``.arrow`` (``.feather``, ``.ipc``; files,
    not streams); ``.csv.gz`` and ``.tsv.gz`` are gzipped. A CSV file is read strictly: for example, a quote that is not
    closed is an error. Each value is parsed as the domain declares it, independently of other rows: declared numbers
    and bins are numbers below 2**53, true and false are booleans, dates and datetimes are ISO 8601, and other values
    are text. The strings that pandas reads as missing are missing, unless they are declared, and so are empty lines in
    a file of one column. Columns of a `NumericPerturber` are numbers. Columns of a `RapporEncoder`, and kept columns,
    are text, or missing if empty.

    Parameters
    ----------
    source : str or path-like
        File with true rows: a path, or a URL that pyarrow or fsspec opens (``s3://…``). A folder, or a pattern such as
        ``"part-*.csv"``, is one table if its files have one format and the same columns.
    destination : str or path-like
        New file for the reports. It is created when all reports are complete.
    transformer : local transformer
        As for `privatize`.
    keep : sequence of str, default=()
        Columns that are released **unprotected**, after the reports.
    person : str, default=None
        As for `privatize`. A record has the same permanent report in every format: 7 in a CSV file is the integer 7.
    delimiter : str, default=None
        Character that separates the values in a CSV source. If None, a tab for ``.tsv`` and a comma otherwise.

    Returns
    -------
    Path
        Path of the destination. Parquet and Arrow files contain their protocol (`ReportTransformer.to_json`) in the
        metadata of the schema under ``skdp.protocol``. CSV files cannot contain it; use the `save` method of the
        transformer to store it, for example in ``reports.csv.protocol.json``, which `estimate_file` reads together with
        ``reports.csv``.

    Raises
    ------
    TypeError, ValueError, BudgetExceeded, ImportError
        As for `privatize`, or if a file has an unsupported format or cannot represent the declared values. Error
        messages contain no values of the table. An error for a row uses no budget.
    OSError
        If a file cannot be read or written.
    FileExistsError
        If the destination exists.
    FileNotFoundError
        If the source or the directory of the destination does not exist.

    Warns
    -----
    UserWarning
        If the file has a protocol, as for `privatize`.

    See Also
    --------
    estimate_file : Estimate counts from the reports.
    privatize : Privatize tables of an engine.

    Notes
    -----
    **Privacy.** As for `privatize`: for each record (row), the transformer's `guarantee_`, charged once before a
    report is drawn. The kept columns and the order of the rows are not protected.

    The destination is opened under another name before the charge, and renamed when it is complete: a folder that
    cannot be written, a full disk and another process with the same destination raise an error without a charge. If a
    run is interrupted after the charge, the charge is not reverted, and another run is another release.

    *Many files* with rows of one table are a folder or a pattern, or are read by `privatize` as a lazy frame of Polars,
    a relation of DuckDB or a pyarrow Dataset. This is one release with one charge, and a person who is in two files is
    an error. In a loop over `privatize_file`, each call is a separate release: a ledger is charged for each file, as if
    all files had rows of the same people, and ids of persons of different files are not compared.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from skdp import RandomizedResponseEncoder
    >>> from skdp.engines import estimate_file, privatize_file
    >>> with TemporaryDirectory() as folder:
    ...     people = Path(folder, "people.csv")
    ...     _ = people.write_text("smokes,year\n" + "yes,2026\n" * 2_500 + "no,2026\n" * 7_500)
    ...     encoder = RandomizedResponseEncoder(2.0, categories={"smokes": ["yes", "no"]}, random_state=0)
    ...     reports = privatize_file(people, Path(folder, "reports.parquet"), encoder)
    ...     estimate_file(reports, encoder).round(0)
             count  std_error   lower   upper
    smokes
    yes     2483.0       43.0  2400.0  2566.0
    no      7517.0       43.0  7434.0  7600.0
    """
    check_transformer(transformer)
    file = TableFile(source, delimiter=delimiter)
    path = check_destination(destination)
    file_format = find_format(path.name)
    rows, release = _prepare_file(file, transformer, keep=keep, person=person)
    warn_of_reports(list(file.protocols()))
    schema = release.empty_reports.schema
    check_writable(schema, file_format)
    check_readable(release.domain, path.name)
    with open_output(path) as partial:
        # Rows and ids of persons are checked before the charge.
        transformer._check_budget()
        rows.check_rows(release)
        logger.info("checked")
        # From here on, an error does not revert the charge.
        release = release.charge(transformer)
        logger.info("charged: %s", transformer.guarantee_)
        if not is_csv(path.name):
            schema = attach_schema_protocol(schema, release.protocol_text)
        run_safely(lambda: write_file(rows.draw(release), schema, partial, file_format))
    logger.info("released")
    return path


def _prepare_file(
    file: TableFile,
    transformer: ReportTransformer,
    *,
    keep: Sequence[str],
    person: str | None,
) -> tuple[FileTable, BatchRelease]:
    """Check the columns of a file, and prepare its rows and its release without a charge."""
    check_keep(keep)
    # The columns of a CSV file are parsed with the types of the domain.
    domain = transformer._declared_domain() if file.is_csv else None
    required = list(keep) if person is None else [*keep, person]
    if domain is not None:
        required += domain.columns
    elif hasattr(transformer, "protocol_"):
        required += transformer.protocol_.columns
    file.check_columns(required)
    # Text among numbers is an error, unless values outside the domain are accepted.
    strict = getattr(transformer, "handle_unknown", "error") == "error"
    lenient = () if strict else file.names
    rows = FileTable(
        file, file.names, domain, lenient=lenient, missing_texts=("",), person=person
    )
    release = prepare_release(rows.sample, transformer, keep=keep, person=person)
    return rows, release


def tally(frame: Any, transformer: ReportTransformer) -> Any:
    """Sum the reports of a table of any engine, in batches.

    Parameters
    ----------
    frame : table, or list, tuple or iterator of tables
        Reports, in any type that `privatize` accepts, or in memory (pandas, polars, pyarrow), such as one table for
        each day. Further columns and empty tables are ignored.
    transformer : local transformer
        Fitted transformer with the protocol of the reports.

    Returns
    -------
    ReportTally
        Tally of all reports, for the estimates of the transformer.

    Raises
    ------
    TypeError
        If the frame or the transformer has an unsupported type.
    NotFittedError
        If the transformer is not fitted.
    ValueError
        If the table has no rows, if its columns or values are not reports of this transformer, or if it has another
        protocol in its metadata (Arrow, Parquet, or ``attrs`` of pandas).
    ImportError
        If an optional dependency is not installed.

    See Also
    --------
    privatize : Privatize a table.
    estimate_file : Estimate counts from files.

    Notes
    -----
    **Privacy.** Post-processing of reports, without privacy loss.

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
    is_one_table = not isinstance(frame, list | tuple | Iterator)
    check_transformer(transformer)
    message = (
        "This %(name)s is not fitted. Read it from the file of the reports with "
        "skdp.read_protocol, or call 'fit'"
    )
    check_is_fitted(transformer, msg=message)
    reports = ReportSums(transformer.protocol_)
    sums = reports.zeros()
    # The tables of an iterator are read one at a time, so that memory is limited.
    for table in [frame] if is_one_table else frame:
        engine = open_engine(table)
        names = engine.column_names()
        if not set(reports.names) <= set(names):
            raise ValueError(
                f"`reports` must have the columns {reports.names}, got {names}."
            )
        # The reports must be from the protocol of the transformer.
        for text in engine.protocols():
            check_attached_protocol(text, transformer)
        table_sums = engine.add_up(reports.names, reports)
        sums = [total + part for total, part in zip(sums, table_sums, strict=True)]
    return reports.total(sums)
