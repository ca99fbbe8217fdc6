"""Files of reports: reading of protocols, tallies, and estimates of counts."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from skdp._arrays import Integers, PathType
from skdp._json import parse_json
from skdp.engines._files import (
    FileTable,
    TableFile,
    check_delimiter,
    find_files,
    is_csv,
)
from skdp.engines._privatize import check_transformer, fit_on_schema
from skdp.local import (
    RapporEncoder,
    ReportProtocol,
    ReportTransformer,
    check_attached_protocol,
)
from skdp.readers import PROTOCOL_SUFFIX, Extra, check_path, open_engine, open_output
from skdp.tables import PROTOCOL_KEY

pyarrow = Extra("pyarrow")

_PROTOCOL_FORMAT = "skdp-protocol"


class ReportSums:
    """Sums of reports over batches of rows, as a `Summary` of `skdp.readers`."""

    def __init__(self, protocol: ReportProtocol) -> None:
        # The summary is sent to workers, which must not receive keys or a ledger.
        self._protocol = protocol.without_secrets()
        self.names, self.values = protocol.report_columns, protocol.values

    def zeros(self) -> list[Integers]:
        """Return the sums of an empty table."""
        return self._protocol.empty_tally().sums()

    def add(self, sums: list[Integers], batch: Any) -> None:
        """Add the sums of a batch of reports to `sums`, the arrays of a tally, in place."""
        if not len(batch):
            return
        frame = nw.from_native(batch, eager_only=True).select(*self.names)
        tally = self._protocol.tally(self._protocol.read(frame.to_native()))
        for total, part in zip(sums, tally.sums(), strict=True):
            total += part

    def total(self, sums: list[Integers]) -> Any:
        """Return the tally with these sums."""
        # Each report increases a sum, so all sums are 0 only if there are no reports.
        if not any(part.any() for part in sums):
            raise ValueError(
                "Found a table with 0 sample(s) (rows); at least 1 is required."
            )
        return self._protocol.empty_tally().with_sums(sums)


class ReportFile:
    """File of reports in CSV, Parquet or Arrow."""

    def __init__(self, table: TableFile) -> None:
        self._table = table
        self.name, self.paths = table.name, table.paths
        self.protocol_text = _get_single_protocol(table.protocols(), table.name)

    def tally(self, transformer: ReportTransformer) -> Any:
        """Sum the reports of the file in batches."""
        reports = ReportSums(transformer.protocol_)
        names = reports.names
        self._table.check_columns(names)
        rows = ReportRows(self._table, names, reports.values, lenient=names)
        return reports.total(rows.add_up(names, reports))


class ReportRows(FileTable):
    """Rows of a file of reports; undeclared columns of a CSV file are parsed as numbers."""

    def _convert_undeclared(self, name: str, column: object) -> Any:
        """Parse the strings of a column as integers if possible, otherwise as floats."""
        texts = super()._convert_undeclared(name, column)
        for number_type in (pyarrow.uint64(), pyarrow.float64()):
            with suppress(pyarrow.ArrowInvalid):
                return texts.cast(number_type)
        raise ValueError(f"Column {name!r} must contain numbers, got other text.")


class TallyFile:
    """JSON file with a tally and its protocol, as ``skdp tally`` writes it."""

    def __init__(self, path: Path) -> None:
        """Read a tally and its protocol from a JSON file."""
        content = _read_json(path, "a tally")
        protocol = content.get(PROTOCOL_KEY) if isinstance(content, dict) else None
        if not isinstance(protocol, dict):
            raise ValueError(
                f"{path.name} must be a tally with its protocol, as skdp tally writes "
                "it, got other content."
            )
        self.name, self.paths = path.name, [str(path)]
        self.protocol_text = json.dumps(protocol)
        self._text = json.dumps(content)

    def tally(self, transformer: ReportTransformer) -> Any:
        """Return the tally; raise an error if it is not a tally of the protocol of a transformer."""
        empty = transformer.protocol_.empty_tally()
        try:
            return empty + type(empty).from_json(self._text)
        except Exception:
            # A file of an untrusted author may cause any error, which another error
            # replaces.
            pass
        raise ValueError(
            f"{self.name} must contain a tally of its own protocol, got another tally."
        )


Source = ReportFile | TallyFile


def open_source(path: str | os.PathLike[str], delimiter: str | None = None) -> Source:
    """Open a file of reports, or a tally (.json); `delimiter` is used for CSV files."""
    name = os.fspath(path)
    if name.endswith(".json"):
        return TallyFile(Path(name))
    _, paths = find_files(path)
    has_delimiter = is_csv(paths[0])
    return ReportFile(TableFile(path, delimiter if has_delimiter else None))


def _open_sources(
    sources: PathType | Iterable[PathType], delimiter: str | None = None
) -> list[Source]:
    """Open one or several distinct files of reports or tallies."""
    check_delimiter(delimiter)
    paths = [sources] if isinstance(sources, str | os.PathLike) else list(sources)
    files = [open_source(path, delimiter) for path in paths]
    if not files:
        raise ValueError(
            "`source` must contain at least one file of reports, got none."
        )
    used = [os.path.realpath(path) for file in files for path in file.paths]
    if len(set(used)) < len(used):
        raise ValueError(
            "`source` must be distinct files, because their reports are added, got a "
            "repeated file."
        )
    return files


def _find_transformer(
    files: Sequence[Source], transformer: ReportTransformer | None
) -> ReportTransformer:
    """Return a fitted transformer of the reports: the argument, or the protocol of the files.

    Raise an error if a file has another protocol.
    """
    if transformer is not None:
        check_transformer(transformer)
        if not hasattr(transformer, "protocol_"):
            fit_on_schema(transformer, pd.DataFrame(), ())
    fitted: ReportTransformer | None = transformer
    for file in files:
        text = file.protocol_text
        if fitted is None:
            if text is None:
                raise ValueError(
                    f"{_describe_file(file.name, file.paths[0])} Pass the encoder: "
                    "`estimate_file(path, encoder)`."
                )
            fitted = ReportTransformer.from_json(text)
        try:
            check_attached_protocol(text, fitted)
        except ValueError as error:
            raise ValueError(f"{file.name}: {error}") from None
    assert fitted is not None
    return fitted


def _get_single_protocol(texts: set[str | None], name: str) -> str | None:
    """Return the protocol (JSON) of a table; raise an error if its files have several protocols."""
    if len(texts) > 1:
        raise ValueError(
            f"{name} must have the same protocol in all files, got several. Estimate "
            "the files of each protocol separately."
        )
    return texts.pop() if texts else None


def _read_json(path: Path, content: str) -> Any:
    """Parse a JSON file of limited size; None if it is not text. Errors name its `content`."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        return None
    return parse_json(text, f"{path.name}: {content}")


# Protocols


def read_protocol(source: object) -> ReportTransformer:
    """Return the fitted transformer that made the reports in a table or a file.

    Parameters
    ----------
    source : dataframe, ndarray, str or path-like
        Table of reports of any library that `skdp.engines` supports, or the path or
        URL of a file: reports of `privatize_file` or ``skdp privatize`` (Parquet,
        Arrow, or CSV with ``reports.csv.protocol.json`` beside ``reports.csv``), a
        tally, or a protocol that `save` wrote.

    Returns
    -------
    transformer
        Fitted transformer of the class that made the reports, such as `RandomizedResponseEncoder`, for estimates and
        models. It has no ledger and no secret key.

    Raises
    ------
    TypeError
        If `source` is neither a table nor a path.
    ValueError
        If the file has an unsupported format or is damaged, or if it has no protocol (polars and Spark tables and
        arrays have no metadata, and a CSV file requires a protocol file beside it), several protocols or an invalid
        protocol.
    OSError
        If the file cannot be read.

    See Also
    --------
    skdp.load : Load an estimator saved with `save`.
    skdp.engines.estimate_file : Estimate counts from a file.

    Notes
    -----
    **Privacy.** No row is read, so there is no privacy loss. The protocol is not verified: it may describe other
    reports if the author of the file is not trusted. It contains no code.

    Examples
    --------
    >>> import pandas as pd
    >>> import skdp
    >>> people = pd.DataFrame({"smokes": ["yes", "no", "no", "no"] * 100})
    >>> encoder = skdp.RandomizedResponseEncoder(2.0, categories={"smokes": ["no", "yes"]})
    >>> reports = encoder.fit_transform(people)
    >>> transformer = skdp.read_protocol(reports)
    >>> print(transformer.guarantee_)
    epsilon = 2, local model, replacing one record's values of: smokes
    >>> transformer.estimate_counts(reports).columns.to_list()
    ['count', 'std_error', 'lower', 'upper']
    """
    remedy = "Read the protocol file that `save` or skdp privatize --save wrote."
    return find_protocol(source, remedy)


def _describe_file(name: str, path: str) -> str:
    """Return the sentence for a table `name` whose first file is `path`."""
    if not is_csv(path):
        return f"{name} does not contain the protocol of its reports."
    first = Path(path).name
    return (
        f"There is no protocol file {first}{PROTOCOL_SUFFIX} beside {first}, and a CSV "
        "file does not contain the protocol of its reports."
    )


def find_protocol(source: object, remedy: str) -> ReportTransformer:
    """Return the fitted transformer that made the reports in a table or a file; without a protocol, state a remedy."""
    text = None
    if isinstance(source, str | os.PathLike):
        text = _read_protocol_text(source)
    elif not isinstance(source, np.ndarray):
        text = _get_single_protocol(open_engine(source).protocols(), "the table")
    if text is not None:
        return ReportTransformer.from_json(text)
    problem = (
        "`source` does not contain the protocol of its reports: arrays, polars and "
        "Spark tables have no metadata."
    )
    if isinstance(source, str | os.PathLike):
        _, paths = find_files(source)
        problem = _describe_file(Path(source).name, paths[0])
    raise ValueError(f"{problem} {remedy}")


def _read_protocol_text(source: str | os.PathLike[str]) -> str | None:
    """Return the protocol (JSON) in a protocol file, a tally or a file of reports; None if it has none."""
    path = Path(source)
    if path.suffix == ".json" and path.is_file():
        content = _read_json(path, "a protocol")
        if isinstance(content, dict) and content.get("format") == _PROTOCOL_FORMAT:
            return json.dumps(content)
    return open_source(source).protocol_text


def list_unprotected_columns(
    source: str | os.PathLike[str], transformer: ReportTransformer
) -> list[Any]:
    """List the columns of a file of reports that are not reports of the transformer."""
    # A tally or a protocol has no rows.
    if os.fspath(source).endswith(".json"):
        return []
    reports = set(transformer.protocol_.report_columns)
    return [name for name in TableFile(source).names if name not in reports]


# Tallies and estimates


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


def tally_files(
    sources: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    transformer: ReportTransformer | None = None,
    *,
    destination: str | os.PathLike[str] | None = None,
    delimiter: str | None = None,
) -> Any:
    """Sum the reports and tallies of several files, and write the sum to a new tally file `destination`."""
    files, path = _open_sources(sources, delimiter), check_path(destination)
    if path is not None and path.suffix != ".json":
        raise ValueError(
            f"The name of a tally file must end in .json, got {path.name}."
        )
    fitted = _find_transformer(files, transformer)
    tally = _sum_files(files, fitted)
    if path is not None:
        with open_output(path) as partial:
            text = _format_tally(tally, fitted, files)
            partial.write_text(f"{text}\n", encoding="utf-8")
    return tally


def _sum_files(files: Sequence[Source], transformer: ReportTransformer) -> Any:
    """Return the sum of the tallies of all files."""
    tally = files[0].tally(transformer)
    for file in files[1:]:
        tally += file.tally(transformer)
    return tally


def _format_tally(
    tally: Any, transformer: ReportTransformer, files: Iterable[Source]
) -> str:
    """Format a tally as JSON with the protocol of its files that has the weakest guarantee.

    The protocols differ only in their guarantees, and all reports have at least the weakest one.
    """
    protocols = [json.loads(transformer.to_json())]
    for file in files:
        if file.protocol_text is not None:
            # from_json raises if the guarantee does not follow from the parameters.
            ReportTransformer.from_json(file.protocol_text)
            protocols.append(json.loads(file.protocol_text))
    weakest = max(protocols, key=_rank_weakness)
    # A column is unprotected if the categories of one protocol were read from the data.
    lists = [one["guarantee"].get("observed", []) for one in protocols]
    observed = [name for x in lists for name in x]
    guarantee = weakest["guarantee"]
    guarantee["observed"] = [x for x in weakest["columns"] if x in observed]
    guarantee["scope"] = [x for x in guarantee["scope"] if x not in observed]
    return json.dumps(
        json.loads(tally.to_json()) | {PROTOCOL_KEY: weakest}, allow_nan=False
    )


def _rank_weakness(protocol: dict[str, Any]) -> tuple[bool, float]:
    """Return a sort key of protocols, which is larger for a weaker guarantee."""
    # Reports with a seed are not protected, so they rank after reports with any epsilon.
    guarantee = protocol["guarantee"]
    return guarantee.get("secure") is not True, guarantee["epsilon"]


def estimate_file(
    source: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    transformer: ReportTransformer | None = None,
    *,
    rows: Literal["table", "population"] = "table",
    postprocess: str = "none",
    confidence_level: float = 0.95,
    delimiter: str | None = None,
) -> pd.DataFrame:
    """Estimate counts or means from the reports in one or several files, in batches.

    Reports of declared values and of `NumericPerturber` are supported. For reports of a `RapporEncoder`, use `tally`
    and the estimates of the encoder.

    Parameters
    ----------
    source : str or path-like, or iterable of them
        File of `privatize_file`, a path or a URL, or tally of ``skdp tally``. The reports of several files, of a folder
        or of a pattern such as ``"part-*.csv"`` are added.
        Further columns are ignored.
    transformer : local transformer, default=None
        Transformer that made the reports. If it is not fitted, it is fitted to the columns that it declares by name.
        If None, the protocol in or beside the file is used. A transformer must have the protocol of the file, if any.
    rows : {"table", "population"}, default="table"
        Target of inference, as in `estimate_counts`: "table" for counts of the rows, "population" for counts of the
        population from which the rows are sampled. Means, and tallies with weights, are always of the population.
    postprocess : str, default="none"
        As for the transformer's `estimate_counts`.
    confidence_level : float, default=0.95
        Coverage of each interval, between 0 and 1.
    delimiter : str, default=None
        Character that separates the values in a CSV source. If None, a tab for ``.tsv`` and a comma otherwise.

    Returns
    -------
    pandas.DataFrame
        Result of `estimate_counts` for all rows, ``count, std_error, lower, upper``, or of `estimate_mean` for
        numbers.

    Raises
    ------
    TypeError, ValueError
        If a file has an unsupported format, no protocol, or not the protocol of the transformer, if it has no rows, if
        its columns or values are not reports of this protocol, or if a parameter is out of range. Error messages
        contain no values of the file.
    FileNotFoundError
        If the source does not exist.
    ImportError
        If pyarrow is not installed.

    See Also
    --------
    privatize_file : Privatize a file.
    tally : Sum the reports of a table of an engine.

    Notes
    -----
    **Privacy.** Post-processing of reports, without privacy loss.

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
    ...     again = estimate_file(f"{folder}/reports.parquet")  # contains its protocol
    >>> list(counts.columns)
    ['count', 'std_error', 'lower', 'upper']
    """
    files = _open_sources(source, delimiter)
    fitted: Any = _find_transformer(files, transformer)
    tally = _sum_files(files, fitted)
    estimates: pd.DataFrame
    if hasattr(fitted, "estimate_mean"):
        if postprocess != "none":
            raise ValueError(
                f"`postprocess` must be 'none' for means, got {postprocess!r}."
            )
        estimates = fitted.estimate_mean(tally, confidence_level=confidence_level)
    elif hasattr(fitted, "estimate_counts") and not isinstance(fitted, RapporEncoder):
        estimates = fitted.estimate_counts(
            tally, rows=rows, postprocess=postprocess, confidence_level=confidence_level
        )
    else:
        raise TypeError(
            "`transformer` must have estimate_counts or estimate_mean for declared "
            f"values, got {type(fitted).__name__}. Use `tally` and its estimates."
        )
    return estimates
