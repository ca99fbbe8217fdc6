"""From a file with true rows to a file with reports."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from skdp.base import check_flag
from skdp.domain import Domain
from skdp.engines._atomic import check_target, write_atomically
from skdp.engines._errors import quietly
from skdp.engines._libraries import Extra
from skdp.engines._release import (
    Preparation,
    check_names,
    check_transformer,
    derive_key,
)
from skdp.engines._streams import RowStream
from skdp.engines.files._table_file import (
    TableFile,
    check_readable,
    check_writable,
    format_of,
    is_csv,
    write_file,
)
from skdp.local import ReportTransformer, SecretKey, warn_of_reports
from skdp.tables import schema_with_protocol

pyarrow = Extra("pyarrow")
logger = logging.getLogger(__name__)


def privatize_file(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    transformer: ReportTransformer,
    *,
    keep: Sequence[str] = (),
    record_id: str | None = None,
    run: SecretKey | None = None,
    check: bool = True,
    delimiter: str | None = None,
) -> Path:
    r"""Privatise the table in a file, and write the reports to another one, in memory of a few batches.

    Formats follow from the suffix: ``.csv``, ``.tsv``, ``.parquet``, or ``.arrow`` (``.feather``, ``.ipc``; files, not
    streams); ``.csv.gz`` and ``.tsv.gz`` are gzipped. Of a CSV file, the types are those of the domain, and each value
    is read by itself, so that none depends on other rows: declared numbers and bins of numbers are numbers below 2**53,
    true and false are booleans, dates and datetimes are ISO 8601, all else is text; what pandas takes for missing is
    missing, unless it is declared. The columns of a `NumericPerturber` are numbers; those of a `RapporEncoder`, and
    kept columns, are text, or missing where empty.

    Parameters
    ----------
    source : str or path-like
        The file with true rows: a path, or a URL that pyarrow or fsspec opens (``s3://…``).
    target : str or path-like
        The file for the reports. It must not exist, and appears only when complete.
    transformer : local transformer
        As for `privatize`.
    keep : sequence of str, optional
        Columns that are released **unprotected**, after the reports. By default, only reports are released.
    record_id : str, optional
        As for `privatize`. A record has the same permanent report in every format: 7 in a CSV file is the integer 7.
    run : SecretKey, optional
        The key of this release, such as ``SecretKey.generate()``, so that a run that was stopped can be repeated: with
        the same key, file, transformer and columns, the reports are the same, and a ledger with a file is charged
        once. By default a fresh one. Whoever has the key and the reports can undo them: keep it secret.
    check : bool, default=True
        If True, all rows are read once before the charge, as for `privatize`.
    delimiter : str, optional
        Separator of the values of a row in a CSV source: one character. By default a comma, and a tab
        where the name ends in ``.tsv``.

    Returns
    -------
    Path
        The target. Parquet and Arrow files contain their protocol (`ReportTransformer.to_json`), in the metadata of
        the schema under ``skdp.protocol``. CSV cannot contain it: save the transformer beside it with its `save`.

    Raises
    ------
    TypeError, ValueError, BudgetExceeded, ImportError
        As for `privatize`, or if a file is none of these formats, or cannot represent the declared values, or `run` is
        given for a seeded transformer. No error shows a value. A row that is refused costs nothing; with
        ``check=False``, the charge stands.
    OSError
        If a file cannot be read or written.
    FileExistsError
        If the target exists.
    FileNotFoundError
        If there is no source, or no directory for the target.

    Warns
    -----
    UserWarning
        If the file carries a protocol, as for `privatize`.

    See Also
    --------
    estimate_file : Estimates counts from the reports.
    privatize : The same for tables of an engine.

    Notes
    -----
    **Privacy.** As for `privatize`: for each record (row), the transformer's `guarantee_`, charged once before anything
    is drawn. The kept columns and the order of the rows are not protected.

    The target is written under another name and renamed when it is complete. If a run is stopped after the charge, the
    charge stands, and another run is another release; with the same `run`, it is the same one: all rows are drawn again
    from keys that follow from `run`, the content of the file and all parameters, so that they have the same reports.
    Should anything of these be another, the random bits are independent, and the ledger is charged again. (A ledger in
    memory does not know the runs of other processes.)

    *Many files* with rows of one table are read together by `privatize`, as a lazy frame of Polars, a relation of
    DuckDB or a pyarrow Dataset: one release, one charge, and a record id that is in two files is refused. In a loop
    over `privatize_file`, each call is a release of its own: a ledger is charged for each file, as if all of them had
    rows of the same persons, and no two files are compared.

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
    check_flag("check", check)
    check_transformer(transformer)
    if run is not None and not isinstance(run, SecretKey):
        raise TypeError(f"run must be a SecretKey or None, got {type(run).__name__}")
    # Record ids are compared before anything is charged, and so are all rows.
    check = check or record_id is not None
    table = TableFile(source, delimiter=delimiter)
    place = check_target(target)
    form = format_of(place)
    # The types of a CSV file are those of the domain.
    domain = transformer._declared_domain() if table.is_csv else None
    preparation = _prepare(table, domain, transformer, keep, record_id)
    warn_of_reports([table.protocol()])
    schema = preparation.no_reports.schema
    check_writable(schema, form)
    check_readable(transformer.protocol_.values, form)
    # Text among numbers is an error, unless values outside the domain are accepted.
    strict = getattr(transformer, "handle_unknown", "error") == "error"
    stream = RowStream(
        preparation.check,
        preparation.no_reports,
        lambda columns: table.tables(domain, columns, strict=strict),
    )
    table.check_quotes()
    key = name = None
    if run is not None:
        # Other settings get other random bits and another charge.
        settings = _settings(table, preparation, stream.batch_rows)
        key = SecretKey(derive_key(run, b"run", settings))
        name = derive_key(run, b"name", settings).hex()
    if check:
        transformer._check_budget(name)
        quietly(stream.check)
        logger.info("checked")
    release = preparation.charge(key, name)
    logger.info("charged: %s", transformer.guarantee_)
    if not is_csv(form):
        schema = schema_with_protocol(schema, release.protocol_text)
    reports = stream.release(release)
    with write_atomically(place) as beside:
        quietly(lambda: write_file(reports, schema, beside, form))
    logger.info("released")
    return place


def _prepare(
    table: TableFile,
    domain: Domain | None,
    transformer: ReportTransformer,
    keep: Sequence[str],
    record_id: str | None,
) -> Preparation:
    """Check the columns by their names, and prepare the release."""
    check_names(keep)
    table.check_columns(set(table.repeated).intersection([*keep, record_id]))
    if domain is not None:
        table.check_columns(domain.columns)
    elif hasattr(transformer, "protocol_"):
        table.check_columns(transformer.protocol_.columns)
    table.check_columns(keep)
    sample = table.sample(domain, table.names)
    return Preparation(sample, transformer, keep=keep, record_id=record_id)


def _settings(table: TableFile, preparation: Preparation, batch_rows: int) -> bytes:
    """Describe all that decides the reports: the file, the transformer, and the columns."""
    transformer, check = preparation.transformer, preparation.check
    if transformer._randomness(call=0).seed is not None:
        raise ValueError(
            "run must be None for a transformer with a random_state, which "
            "gives the same reports without a key"
        )
    protocol = transformer.protocol_
    permanent = protocol.permanent_key
    settings = {
        # Another version may draw other reports from the same key.
        "version": version("skdp"),
        "file": table.fingerprint(),
        "parameters": repr(sorted(protocol.parameters().items())),
        "permanent key": permanent and derive_key(permanent, b"name").hex(),
        "record ids": check.record_id,
        "kept columns": list(check.keep),
        "rows of a batch": batch_rows,
    }
    return json.dumps(settings).encode()
