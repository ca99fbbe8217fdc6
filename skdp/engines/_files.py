"""Tables in CSV, Parquet and Arrow files, on this machine or at a URL, read and written in batches of rows."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from functools import partial
from operator import itemgetter
from pathlib import Path, PurePath
from typing import Any

from skdp.domain import Domain
from skdp.engines._engine import ROWS, StreamTable, Tables, write_parquet
from skdp.engines._io import Extra, import_extra, run_check, run_safely
from skdp.engines._local import find_protocols, read_dataset
from skdp.engines._table_file import (
    ColumnParser,
    delimiter_of,
    find_repeated,
    find_text_type,
    has_whole_numbers,
    read_csv_blocks,
    repeated_names_message,
)

pyarrow, fs, ipc = map(Extra, ("pyarrow", "pyarrow.fs", "pyarrow.ipc"))
dataset, compute = map(Extra, ("pyarrow.dataset", "pyarrow.compute"))
pyarrow_csv = Extra("pyarrow.csv")

# Formats by the suffix of a name. A CSV file may be gzipped.
FORMATS = {
    ".csv": "csv", ".csv.gz": "csv.gz", ".tsv": "tsv", ".tsv.gz": "tsv.gz", ".parquet": "parquet", ".arrow": "ipc",
    ".feather": "ipc", ".ipc": "ipc",
}  # fmt: skip

# The Arrow types of parsed texts.
ARROW_TYPES: dict[str, Callable[[], Any]] = {
    "text": lambda: pyarrow.string(),
    "number": lambda: pyarrow.float64(),
    "bool": lambda: pyarrow.bool_(),
    "date": lambda: pyarrow.date32(),
    "datetime": lambda: pyarrow.timestamp("us"),
    "zoned": lambda: pyarrow.timestamp("us", "UTC"),
}


def format_of(name: str) -> str:
    """Return the format of a file by its name."""
    for suffix, file_format in reversed(FORMATS.items()):
        if name.endswith(suffix):
            return file_format
    raise ValueError(f"{name} must end in one of {', '.join(FORMATS)}")


def is_csv(file_format: str) -> bool:
    """Return True for CSV with any delimiter."""
    return file_format.startswith(("csv", "tsv"))


# Files at a path or a URL


def open_filesystem(place: str) -> tuple[Any, str]:
    """Open the file system of a path or a URL; also return the path on it."""
    if "://" not in place:
        return fs.LocalFileSystem(), place
    scheme = place.partition("://")[0]
    try:
        return fs.FileSystem.from_uri(place)
    except (pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError):
        # Its text would show the URL, which may contain a password.
        pass
    fsspec_core = import_extra("fsspec.core", "remote")
    try:
        filesystem, path = fsspec_core.url_to_fs(place)
    except ImportError as error:
        raise ImportError(
            f"{scheme}:// needs a package besides fsspec: {error}"
        ) from None
    except ValueError:
        raise ValueError(
            f"neither pyarrow nor fsspec opens URLs that begin with {scheme}://"
        ) from None
    return fs.PyFileSystem(fs.FSSpecHandler(filesystem)), path


def check_delimiter(delimiter: Any) -> None:
    """Check that a delimiter of CSV files is None or one character that can be one."""
    if delimiter is None:
        return
    if not isinstance(delimiter, str):
        raise TypeError(f"delimiter must be a str, got {type(delimiter).__name__}")
    if len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n\0':
        raise ValueError(
            "delimiter must be one ASCII character, and no quote and no end of line, "
            f"got {delimiter!r}"
        )


class TableFile:
    """A table in a file, which is read as often as required."""

    def __init__(
        self, place: str | os.PathLike[str], delimiter: str | None = None
    ) -> None:
        check_delimiter(delimiter)
        self.filesystem, self.path = open_filesystem(os.fspath(place))
        self.name = PurePath(self.path).name
        self.format = format_of(self.name)
        self.is_csv = is_csv(self.format)
        if delimiter is not None and not self.is_csv:
            raise ValueError(
                f"delimiter is for CSV files, and {self.name} is another one"
            )
        self.delimiter = delimiter or delimiter_of(self.name)
        self.is_local = isinstance(self.filesystem, fs.LocalFileSystem)
        if not self._exists():
            raise FileNotFoundError(
                f"there is no file {self.path if self.is_local else self.name}"
            )
        if self.is_csv:
            with closing(read_csv_blocks(self, self.delimiter)) as blocks:
                (names,) = next(blocks)
        else:
            self._dataset = self._open_dataset()
            names = self._dataset.schema.names
        self.repeated = find_repeated(names)
        self.names = [name for name in names if name not in self.repeated]
        self._header = names

    def _exists(self) -> bool:
        # Opening a missing dataset is no error, and it may be a folder.
        info = self.filesystem.get_file_info(self.path)
        return bool(info.type == fs.FileType.File)

    def _open_dataset(self) -> Any:
        try:
            return dataset.dataset(
                self.path, format=self.format, filesystem=self.filesystem
            )
        except (pyarrow.ArrowException, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            format_name = "Parquet" if self.format == "parquet" else "Arrow"
            raise ValueError(f"{self.name} is no {format_name} file") from None

    def open(self) -> Any:
        """Open the bytes, decompressed."""
        compression = "gzip" if self.name.endswith(".gz") else None
        return self.filesystem.open_input_stream(self.path, compression=compression)

    def check_columns(self, columns: Iterable[str]) -> None:
        """Check that a file has some columns. The other names are not shown: they are a row, if there is no header."""
        required = list(columns)
        repeated = [name for name in required if name in self.repeated]
        if repeated:
            raise ValueError(repeated_names_message(self.name, repeated))
        absent = [name for name in required if name not in self.names]
        if absent:
            raise ValueError(f"{self.name} lacks the columns {absent}{self.advice()}")

    def advice(self) -> str:
        """Advise to give `delimiter` if a header contains another one; the header may be a row, and is not shown."""
        header = "".join(self.names)
        if self.is_csv and any(sign in header for sign in ";,\t|"):
            return (
                ": if another character than its delimiter separates the values, give"
                " `delimiter`"
            )
        return ""

    def protocols(self) -> set[str | None]:
        """Return the protocols in the metadata of the file; CSV has none."""
        return {None} if self.is_csv else find_protocols(self._dataset)

    def fingerprint(self) -> dict[str, Any]:
        """Describe the file so that a change of it shows; the file is read."""
        # The bytes as they are stored, also if they are gzipped.
        with self.filesystem.open_input_file(self.path) as file:
            digest = hashlib.file_digest(file, "sha256")
        return {
            "format": "csv" if self.is_csv else self.format,
            "content": digest.hexdigest(),
            "delimiter": self.delimiter if self.is_csv else None,
        }

    def make_sample(
        self, domain: Domain | None, columns: list[str], *, whole: bool = False
    ) -> Any:
        """Make a table without rows; with `whole`, with integers where all declared numbers are whole."""
        if not self.is_csv:
            fields = [self._dataset.schema.field(name) for name in columns]
            return pyarrow.schema(fields).empty_table()
        types = dict.fromkeys(columns, pyarrow.string())
        for name in set(columns).intersection(() if domain is None else domain.columns):
            types[name] = ARROW_TYPES[find_text_type(name, domain[name])]()  # type: ignore[index]
            is_number = pyarrow.types.is_floating(types[name])
            if whole and is_number and has_whole_numbers(domain[name]):  # type: ignore[index]
                types[name] = pyarrow.int64()
        return pyarrow.schema(types).empty_table()

    def read(self, columns: Sequence[str]) -> Tables:
        """Read the rows in order; the columns of a CSV file are text."""
        if not self.is_csv:
            yield from read_dataset(self._dataset, columns)
            return
        indices = [self._header.index(name) for name in columns]
        texts: list[list[str]] = [[] for _ in columns]
        for block in self._read_text():
            for index, column in zip(indices, texts, strict=True):
                column.extend(map(itemgetter(index), block))
            if len(texts[0]) >= ROWS:
                yield _make_text_table(texts, columns)
                texts = [[] for _ in columns]
        yield _make_text_table(texts, columns)

    def check_text(self) -> None:
        """Check that a CSV file is well formed."""
        if self.is_csv:
            for _ in self._read_text():
                pass

    def _read_text(self) -> Generator[list[list[str]], None, None]:
        """Read the rows of a CSV file in blocks, without the header."""
        with closing(read_csv_blocks(self, self.delimiter)) as blocks:
            next(blocks)
            read = partial(run_check, lambda: next(blocks, None))
            while block := run_safely(read):
                yield block


def _make_text_table(texts: list[list[str]], names: Sequence[str]) -> Any:
    arrays = [pyarrow.array(column, pyarrow.string()) for column in texts]
    return pyarrow.table(arrays, names=list(names))


class FileTable(StreamTable):
    """The rows of a file with the types of a domain, as a table of an engine."""

    def __init__(
        self,
        file: TableFile,
        domain: Domain | None,
        sample: Any,
        *,
        strict: bool = True,
        missing_texts: Sequence[str] = (),
    ) -> None:
        super().__init__(sample)
        self.file = file
        self._domain = domain
        self._missing_texts = missing_texts
        """Texts that are missing values in a column that the domain does not declare."""
        self._declared = () if domain is None else domain.columns
        self._parsers: dict[Any, ColumnParser] = {}
        if domain is not None and file.is_csv:
            for name in domain.columns:
                values = domain[name]
                self._parsers[name] = ColumnParser(
                    name, find_text_type(name, values), values.labels, strict=strict
                )

    def _make_empty_table(self) -> Any:
        return self._frame

    def column_names(self) -> list[Any]:
        return list(self._frame.column_names)

    def _read(self, columns: Sequence[Any]) -> Tables:
        with closing(self.file.read(columns)) as tables:
            for table in tables:
                yield self._convert(table)

    def _open_reports(self, path: Path) -> Any:
        raise NotImplementedError

    def _convert(self, table: Any) -> Any:
        columns = {}
        for name in table.column_names:
            column = table[name]
            if name in self._parsers:
                parse = partial(_parse_column, self._parsers[name], column)
                column = run_check(parse)
            elif name not in self._declared and self._missing_texts:
                column = _replace_texts(column, self._missing_texts)
            columns[name] = column
        return pyarrow.table(columns)


def _parse_column(parser: ColumnParser, texts: Any) -> Any:
    """Parse each distinct text of an Arrow column once."""
    coded = texts.combine_chunks().dictionary_encode()
    values = parser.parse(coded.dictionary.to_pylist())
    return pyarrow.array(values, ARROW_TYPES[parser.type]()).take(coded.indices)


def _replace_texts(column: Any, texts: Sequence[str]) -> Any:
    """Replace some texts of an Arrow column by missing values."""
    if pyarrow.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    is_text = pyarrow.types.is_string(column.type)
    if not (is_text or pyarrow.types.is_large_string(column.type)):
        return column
    is_missing = compute.is_in(column, pyarrow.array(texts, column.type))
    return compute.if_else(is_missing, None, column)


# Files to write


def check_writable(schema: Any, file_format: str) -> None:
    """Check that a file can contain columns of these types."""
    # Field by field, so that the error names the column.
    for field in schema:
        try:
            write_file([], pyarrow.schema([field]), io.BytesIO(), file_format)
        except pyarrow.ArrowException:
            raise ValueError(
                f"column {field.name!r} is of type {field.type}, which the file "
                "cannot hold"
            ) from None


def check_readable(domain: Domain | None, file_format: str) -> None:
    """Check that a CSV file of reports is read as the declared values."""
    if domain is not None and is_csv(file_format):
        for name in domain.columns:
            find_text_type(name, domain[name])


def write_file(
    tables: Iterable[Any], schema: Any, target: Any, file_format: str
) -> None:
    """Write a stream of tables to a path or an open file."""
    if file_format == "parquet":
        write_parquet(tables, schema, target)
        return
    compression = "gzip" if file_format.endswith(".gz") else None
    target = str(target) if isinstance(target, Path) else target
    with pyarrow.output_stream(target, compression=compression) as file:
        if is_csv(file_format):
            _write_csv(tables, schema, file, delimiter_of(f".{file_format}"))
            return
        with ipc.new_file(file, schema) as writer:
            for table in tables:
                writer.write_table(table)


def _write_csv(tables: Iterable[Any], schema: Any, file: Any, delimiter: str) -> None:
    """Write a stream of tables; dates and datetimes as ISO 8601."""
    is_special = any(sign in "".join(schema.names) for sign in f'{delimiter}"\r\n')
    options = pyarrow_csv.WriteOptions(
        delimiter=delimiter, quoting_header="needed" if is_special else "none"
    )
    plain = _make_plain(schema.empty_table())
    with pyarrow_csv.CSVWriter(file, plain.schema, write_options=options) as writer:
        for table in tables:
            writer.write_table(_make_plain(table))


def _make_plain(table: Any) -> Any:
    """Convert datetimes to text, and the nulls of a single column to quoted text: an empty line is not a row."""
    for index, field in enumerate(table.schema):
        column = table.column(index)
        if pyarrow.types.is_timestamp(field.type):
            zone = "" if field.type.tz is None else "Z"
            utc = pyarrow.timestamp(field.type.unit, "UTC" if zone else None)
            text_format = f"%Y-%m-%dT%H:%M:%S{zone}"
            column = compute.strftime(column.cast(utc), format=text_format)
        if table.num_columns == 1:
            column = column.cast(pyarrow.string()).fill_null("")
        table = table.set_column(index, field.name, column)
    return table
