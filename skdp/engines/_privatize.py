"""`privatize` and `privatize_file`: the release of a table in batches, prepared, checked, charged and drawn."""

from __future__ import annotations

import copy
import hashlib
import hmac
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp._arrays import Bytes
from skdp.domain import Domain
from skdp.engines._files import (
    FileTable,
    TableFile,
    check_destination,
    check_readable_reports,
    check_writable,
    find_format,
    is_csv,
    write_file,
)
from skdp.local import (
    OnFitOnly,
    ReportProtocol,
    ReportTransformer,
    SecretKey,
    encode_person_ids,
    join_parts,
    warn_of_reports,
)
from skdp.randomness import ByteSource, check_type
from skdp.readers import Extra, open_engine, open_output, run_check, run_safely
from skdp.tables import Table, attach_schema_protocol, to_python, wrap_table

pyarrow, types = Extra("pyarrow"), Extra("pyarrow.types")

logger = logging.getLogger(__name__)

# The number of the partition of a batch (None if there is one), and the number of the
# first row of the batch in the partition.
Position = tuple[int | None, int]
WHOLE_TABLE: Position = (None, 0)


def count_batch_rows(n_columns: int) -> int:
    """Return the number of rows of a batch of reports with `n_columns` columns.

    It depends on nothing else, because random bits depend on the first row of each batch.
    """
    # A batch has at most 2**18 rows and about 2**20 values, which are some megabytes for
    # all protocols, rounded down to a multiple of 4096 rows. With more than 256 columns, it
    # has 4096 rows, and more values.
    block_rows = 1 << 12
    return max(1, (1 << 20) // max(n_columns, 4) // block_rows) * block_rows


class KeyedSource:
    """Source of pseudorandom bytes: SHAKE-128 of a key and of the number of the request."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._n_requests = 0

    def bytes(self, size: int) -> Bytes:
        """Return the next `size` pseudorandom bytes."""
        stream = hashlib.shake_128(self._key + self._n_requests.to_bytes(8, "big"))
        self._n_requests += 1
        return np.frombuffer(stream.digest(size), np.uint8)


def derive_key(key: bytes, *parts: bytes) -> bytes:
    """Derive a key of 32 bytes from a key and parts that name a purpose, by HMAC-SHA256."""
    return hmac.digest(key, join_parts(*parts), "sha256")


def _digest(values: NDArray[Any]) -> bytes:
    """Return the SHA-256 digest of a column of codes, or of ids of persons (bytes objects)."""
    if values.dtype == object:
        return hashlib.sha256(join_parts(*values.tolist())).digest()
    return hashlib.sha256(np.ascontiguousarray(values).data).digest()


class BatchRelease:
    """Checks and privatizes the batches of one table. Secrets that draws require are added by `charge`."""

    # If a batch is computed again, because a worker died or a task was repeated, the same
    # reports are drawn, so that this is not a second release. If its rows have changed,
    # all its random bits are new and independent. The two versions together would reveal
    # that rows have changed, so the guarantee requires that the table does not change.

    def __init__(
        self,
        protocol: ReportProtocol,
        *,
        keep: Sequence[str] = (),
        person: str | None = None,
        key: SecretKey | None = None,
    ) -> None:
        """Prepare reports of a protocol; without a `key`, tables are only checked.

        `keep` are columns that are released unchanged, and `person` is the column of the ids of persons of permanent
        reports.
        """
        self._protocol = protocol if key is not None else protocol.without_secrets()
        self._key = key
        self.keep = tuple(keep)
        self.person = person
        self._digest_key = SecretKey.generate().hex()
        # A table of reports without rows, and the protocol as JSON, which is written to
        # the metadata of files.
        self.empty_reports: Any = None
        self.protocol_text: str | None = None

    @property
    def domain(self) -> Domain | None:
        """Declared values of the reports."""
        return self._protocol.values

    @property
    def columns(self) -> list[str]:
        """Names of the columns that are read: privatized, kept, and the ids of persons."""
        ids = [] if self.person is None else [self.person]
        return list(dict.fromkeys([*self._protocol.columns, *self.keep, *ids]))

    @property
    def batch_rows(self) -> int:
        """Number of rows of a batch, for engines that read a table as a stream."""
        return count_batch_rows(self.empty_reports.shape[1])

    def charge(
        self,
        transformer: ReportTransformer,
    ) -> BatchRelease:
        """Charge the ledger, and return a copy with the secrets that are required to draw."""
        transformer._charge()
        charged = copy.copy(self)
        charged._protocol = transformer.protocol_
        source = transformer._randomness()("key of a release")
        charged._key = SecretKey(source.bytes(32).tobytes())
        charged.protocol_text = transformer._json.carried_text
        return charged

    def check(self, batch: Any) -> NDArray[np.uint64]:
        """Check the values of a batch; return 64-bit digests of its ids of persons, if any."""
        _, _, ids = self._encode(batch)
        records: list[bytes] = []
        if self.person is not None:
            records = run_check(lambda: encode_person_ids(ids, len(batch)))
        # SipHash with a secret key, so that nobody can choose two ids with the same
        # digest. Two of 100 million distinct ids have the same digest with probability
        # 1/3,700, which raises an error.
        values = np.array(records, object)
        return pd.util.hash_array(
            values, hash_key=self._digest_key[:16], categorize=False
        )

    def draw(self, batch: Any, position: Position = WHOLE_TABLE) -> Any:
        """Privatize a batch with random bits derived from the key, its position and its content.

        `position` identifies the batch in its table, so that no two batches have the same random bits.
        """
        protocol = self._protocol
        codes, rows, ids = self._encode(batch)
        records = run_check(lambda: protocol.read_records(ids, len(batch)))
        # The digests are computed before `randomize`, which overwrites the codes.
        content = [*map(_digest, codes), _digest(np.array(records, object))]
        assert self._key is not None
        key = derive_key(self._key, b"batch", repr(position).encode(), *content)

        def source(purpose: str, *columns: object) -> ByteSource:
            """Return the source of random bits of a purpose and columns."""
            # Each purpose and column has its own random bits.
            names = [repr(to_python(part)).encode() for part in (purpose, *columns)]
            return KeyedSource(derive_key(key, b"coins", *names))

        reports = protocol.write(protocol.randomize(codes, records, source), rows)
        if not self.keep:
            return reports
        parts = [reports, _copy_columns(batch, self.keep)]
        frames = [nw.from_native(part, eager_only=True) for part in parts]
        return nw.concat(frames, how="horizontal").to_native()

    def _encode(self, batch: object) -> tuple[list[Any], Table, Any]:
        """Return the codes of the privatized columns of a batch, these columns, and the ids of persons or None."""
        table = wrap_table(batch)
        columns = dict(zip(table.names, table.columns, strict=True))
        names = self._protocol.columns
        rows = Table(names, tuple(columns[name] for name in names), batch)
        codes = run_check(lambda: self._protocol.prepare(rows))
        return codes, rows, columns.get(self.person)


# Preparation


def prepare_release(
    sample: object,
    transformer: ReportTransformer,
    *,
    keep: Sequence[str] = (),
    person: str | None = None,
) -> BatchRelease:
    """Check a transformer and columns with an empty table, and prepare a release without a charge.

    `sample` is a table in memory with the columns and without rows.
    """
    check_transformer(transformer)
    check_keep(keep)
    names = list(wrap_table(sample).names)
    used = [*keep] if person is None else [*keep, person]
    if not set(used) <= set(names) or len(set(keep)) < len(keep):
        raise ValueError(
            f"`keep` and `person` must be distinct columns of {names}, got {used}."
        )
    if not hasattr(transformer, "protocol_"):
        fit_on_schema(transformer, sample, used)
    protocol = transformer.protocol_
    absent = [name for name in protocol.columns if name not in names]
    if absent:
        raise ValueError(
            f"The table must have the columns {absent}, which the transformer was "
            f"fitted on, got {names}."
        )
    reported = {*protocol.columns, *protocol.report_columns}
    conflicting = [name for name in used if name in reported]
    if conflicting:
        raise ValueError(
            "`keep` and `person` must be columns that are neither privatized nor "
            f"named as a report, got {conflicting}."
        )
    if (person is not None) != (protocol.permanent_key is not None):
        raise ValueError(
            "`person` must be the column of the ids of persons if reports are permanent "
            "(memoize=True, or a RapporEncoder with a key), and None otherwise, got "
            f"{person!r}."
        )
    options: dict[str, Any] = {"keep": keep, "person": person}
    release = BatchRelease(protocol, **options)
    # An empty table is privatized with another key, so that unsupported transformers
    # raise before the charge.
    trial = BatchRelease(protocol, key=SecretKey.generate(), **options)
    release.empty_reports = trial.draw(sample)
    return release


def check_transformer(transformer: ReportTransformer) -> None:
    """Raise an error unless a transformer privatizes rows in `transform`, independently of each other."""
    if isinstance(transformer, OnFitOnly):
        raise TypeError(
            "`transformer` must randomize in `transform`, got OnFitOnly. Pass the "
            "transformer that it wraps."
        )
    if not isinstance(transformer, ReportTransformer):
        is_class = isinstance(transformer, type)
        name = (transformer if is_class else type(transformer)).__name__
        raise TypeError(
            "`transformer` must be a ReportTransformer, which reports row by row, such"
            " as RandomizedResponseEncoder, NumericPerturber or RapporEncoder, got"
            f" {name}."
        )


def fit_on_schema(
    transformer: ReportTransformer, sample: object, keep: Sequence[str | None]
) -> None:
    """Fit a transformer to its declared values and the columns of an empty table, except `keep`."""
    if isinstance(getattr(transformer, "categories", None), str):
        raise ValueError(
            "`categories` must be a dict or a Domain for a table that is not in "
            "memory, got 'auto'. Alternatively, fit the transformer on a small table."
        )
    table, kept = wrap_table(sample), set(keep)
    names = [name for name in table.names if name not in kept]
    row = transformer._declared_row(names)
    # As in memory, columns of a Domain that the table lacks are ignored. If it lacks all
    # of them, as for files of reports, the caller checks the columns.
    known = [name for name in row.columns if name in table.names]
    transformer.fit(row[known] if known else row)


def check_keep(keep: object) -> None:
    """Raise an error unless the columns to keep are a list of names."""
    check_type("keep", keep, Sequence, "a list of column names", excluded=str)


# Columns that are released unprotected


def _copy_columns(batch: object, names: Sequence[str]) -> Any:
    """Copy columns of a batch that are released unprotected, without values of other rows."""
    # A dictionary column of Arrow may contain values that occur in no row of the batch.
    # The categories of a pandas dtype are declared facts.
    native = nw.from_native(batch, eager_only=True).select(*names).to_native()
    if isinstance(native, pd.DataFrame):
        return native.copy()
    columns = [
        column.cast(_choose_plain_type(column.type)) for column in native.columns
    ]
    return pyarrow.Table.from_arrays(columns, names=list(names))


def _choose_plain_type(arrow_type: Any) -> Any:
    """Return the value type of a dictionary type, and copyable types for views of text or bytes."""
    if types.is_dictionary(arrow_type):
        arrow_type = arrow_type.value_type
    # A view may refer to a buffer with values of other rows.
    if types.is_string_view(arrow_type):
        return pyarrow.large_string()
    return pyarrow.large_binary() if types.is_binary_view(arrow_type) else arrow_type


# The releases of tables and files.


def privatize(
    frame: object,
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
    check_readable_reports(release.domain, path.name)
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
    rows = FileTable(file, file.names, domain, lenient=lenient, person=person)
    release = prepare_release(rows.sample, transformer, keep=keep, person=person)
    return rows, release
