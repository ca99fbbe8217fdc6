"""Privatise a table wherever it is."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import Any

from skdp.engines._engine import engine_of
from skdp.engines._record_ids import check_distinct
from skdp.engines._release import Release


def privatize(
    frame: Any,
    transformer: Any,
    *,
    persist: bool = True,
    keep: Sequence[str] = (),
    record_id: str | None = None,
    path: str | os.PathLike[str] | None = None,
) -> Any:
    """Privatise a table of any engine with a fitted transformer, batch by batch.

    Parameters
    ----------
    frame : table
        A Dask or Spark DataFrame, a Polars LazyFrame, a DuckDB relation, a pyarrow Dataset or RecordBatchReader, or a
        table in memory (pandas, polars, pyarrow). True rows; it may have further columns.
    transformer : local transformer
        One that reports row by row: an encoder that reports by frequency oracles, `NumericPerturber`, or
        `RapporEncoder`. If it is not fitted, it is, on what it declares by name (a mapping, a Domain, or categorical
        dtypes), or, if it declares no names, on all columns that are not kept; rows are not read for that.
    persist : bool, default=True
        Whether the reports are computed and stored before they are handed out: in memory, or in `path`. With False, a
        frame that is evaluated at each use is returned (Polars, Dask): of the same rows in the same order it always
        gives the same reports. The guarantee does not cover a source that changes between evaluations: reports that
        are not the same again show that it did. A `PrivacyLeakWarning` says so.
    keep : sequence of str, optional
        Columns that are released **as they are**, after the reports, with the categories of their dtypes (but a
        Categorical of Polars becomes text). By default, nothing but reports is released.
    record_id : str, optional
        The column that says whose each row is, in place of the ``record_id`` of `transform`: needed where reports are
        permanent (``memoize=True``, or a `RapporEncoder` with a key), and only then. It is not released unless it is
        kept.
    path : str or path-like, optional
        A new Parquet file (Dask and Spark: a directory) for the reports, which is there when it is whole, or not at
        all. Then the table is as large as a disk holds, and the result reads the file.

    Returns
    -------
    same kind as the frame
        The reports. A RecordBatchReader for a pyarrow Dataset that is not persisted. For a pandas-like frame the row
        index passes through.

    Raises
    ------
    TypeError
        If the frame or the transformer is of another kind.
    ValueError
        If a column is missing or its values are not declared, if a row holds an undeclared value, if a record id is
        missing or repeated, or if a parameter does not fit the engine. Nothing is returned or left in `path` then; but
        a charge that was made stands, as undeclared values are found while reports are drawn.
    BudgetExceeded
        If the ledger does not cover the release; no row was privatised.
    FileExistsError, FileNotFoundError
        If `path` exists, or its directory does not.
    ImportError
        If a library is missing; the error names the extra to install.

    See Also
    --------
    tally : Sums up the reports, without bringing them to Python.

    Notes
    -----
    **Privacy.** As for the transformer's `transform`, for each record (row) of the whole table: `guarantee_`, charged
    once, before a row is privatised (with ``constant_values``, at the first call only). Rows are privatised
    independently of each other, so that it makes no difference in how many batches. The kept columns, their order and
    that of the rows are not protected.

    *Secure coins* (``random_state=None``): a fresh secret key of 32 bytes is drawn for each call, and each batch draws
    its reports from SHAKE-128 under a key that HMAC-SHA256 derives from this one, the place of the batch and the values
    that it holds. So no two batches share coins, in whatever process they are drawn; and a batch that is computed
    again has the same reports, unless it holds other rows: then all its coins are independent, and that it changed
    shows. So the table must stay as it is as long as it is evaluated; what is persisted is evaluated once.
    The guarantee holds against whoever does not know the key and cannot break the hash functions. The key is never in
    the reports, nor in a log. On Dask and Spark it is part of the tasks, on the scheduler and the workers, which can
    read the true rows as well; and a lazy frame that is not persisted holds it, together with the way to the true rows:
    publish what the frame evaluates to, not the frame.

    *Permanent reports* are a function of `secret_key`, record id, column and value, and so those of `transform`, on
    every engine and in however many batches; nothing is shared between workers but the key. Rows of one record with
    different values would cost more than the one charge, and show whether their values are equal. So before anything is
    charged, the engine counts the distinct ids of the whole table, in memory as large as these (what does not fit is
    written by DuckDB to a folder for its owner only, or where the engine keeps such), and a missing or repeated one is
    refused; a RecordBatchReader, which is read once, is refused too. Ids of another type are other ids, here and in the
    next release: 7 and "7" are two records, each with permanent reports of its own; 7 and 7.0, or a day and its
    midnight, are one. A second round of noise, and the instantaneous round of RAPPOR, have the coins of other reports:
    those of a batch, under a fresh key, and of its ids too, so that a batch that is computed again sends the same
    single report of each record.

    How each engine is held to one release:

    =========  =========================================================================================================
    Dask       Persisted partitions, or files. A partition that is lost with its worker is computed again, from the same
               rows, so with the same reports. Partitions must hold the same rows when they are read again.
    Spark      Always files: a block of Spark's cache is computed again when it is lost, and rows that were shuffled
               may then come in another order. Files are committed once for each task, whichever attempt wins.
    Polars     A frame in memory, or a file. Unless it is persisted, each evaluation computes the reports anew from the
               same key, and they are the same as long as the rows are.
    DuckDB     Always a file; without `path`, a temporary one that lives as long as Python does.
    pyarrow    A table in memory, or a file; or a reader that can be read once.
    =========  =========================================================================================================

    *Seeded coins* (for experiments): the same for a row of the same number, however the table is cut. Spark does not
    number rows; there, the partitions count. Dask counts the rows of its partitions first.

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
    yes     2558.0       43.0  2474.0  2641.0
    no      7442.0       43.0  7359.0  7526.0

    The same persons, month by month: their permanent reports stay the same.

    >>> from skdp.local import NumericPerturber, SecretKey
    >>> perturber = NumericPerturber(2.0, bounds={"age": (0, 100)}, memoize=True, secret_key=SecretKey.generate())
    >>> members = pa.table({"member": [f"M{number}" for number in range(1_000)], "age": [20, 50] * 500})
    >>> may, june = (privatize(part, perturber, record_id="member") for part in (members, members.slice(200)))
    >>> may.slice(200).equals(june)
    True
    """
    engine = engine_of(frame)
    if not isinstance(persist, bool):
        raise TypeError(f"persist must be True or False, got {type(persist).__name__}")
    if path is not None and not persist:
        raise ValueError("a path is where reports are stored: leave it out with persist=False")
    check_ids = partial(check_distinct, frame)
    plan = partial(Release.plan, transformer=transformer, keep=keep, record_id=record_id, check_ids=check_ids)
    return engine.privatize(frame, plan, persist=persist, path=path)
