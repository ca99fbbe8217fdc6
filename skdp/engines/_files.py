"""Tables in CSV, Parquet and Arrow files, at a path or a URL, read and written in batches."""

from __future__ import annotations

import glob
import io
import os
import re
from collections import Counter
from collections.abc import Collection, Generator, Iterable, Sequence
from contextlib import closing
from functools import cached_property
from pathlib import Path, PurePath
from typing import Any

from skdp._arrays import PathType
from skdp._json import MAX_FILE_BYTES
from skdp.base import track
from skdp.domain import Domain
from skdp.engines._csv import (
    MISSING_TEXTS,
    CsvFile,
    TextColumn,
    damage_error,
    drop_texts,
    find_text_type,
    format_csv,
    format_rows,
    header_error,
    is_name,
)
from skdp.readers import (
    PROTOCOL_SUFFIX,
    ArrowTable,
    Extra,
    RefusedBatch,
    StreamTable,
    check_path,
    write_keys,
    write_parquet,
)

pyarrow, fs, ipc = map(Extra, ("pyarrow", "pyarrow.fs", "pyarrow.ipc"))
dataset, compute = Extra("pyarrow.dataset"), Extra("pyarrow.compute")


# Formats by the suffix of a name. A CSV file may be gzipped.
FORMATS = {
    ".csv": "csv", ".csv.gz": "csv.gz", ".tsv": "tsv", ".tsv.gz": "tsv.gz", ".parquet": "parquet", ".arrow": "ipc",
    ".feather": "ipc", ".ipc": "ipc",
}  # fmt: skip


def find_format(name: str) -> str:
    """Return the format of a file by the suffix of its name; raise an error for other suffixes."""
    for suffix, file_format in reversed(FORMATS.items()):
        if name.endswith(suffix):
            return file_format
    raise ValueError(
        f"The name of a file must end in one of {', '.join(FORMATS)}, got {name!r}."
    )


def is_csv(name: str) -> bool:
    """Return True for the name of a CSV or TSV file; raise an error for other suffixes than of `FORMATS`."""
    return _default_delimiter(find_format(name)) is not None


def _default_delimiter(file_format: str) -> str | None:
    """Return the default separator of values: a tab for TSV, a comma for CSV, and None for other formats."""
    return {"tsv": "\t", "csv": ","}.get(file_format[:3])


def open_filesystem(url: str) -> tuple[Any, str]:
    """Return the pyarrow file system of a path or a URL, and the path in this file system."""
    if "://" not in url:
        # Arrow takes a relative path with a colon for a URL.
        return fs.LocalFileSystem(), os.path.join(".", url) if ":" in url else url
    filesystem, path = Extra("fsspec.core", "remote").url_to_fs(url)
    return fs.PyFileSystem(fs.FSSpecHandler(filesystem)), path


def _search_files(pattern: str) -> list[str]:
    """List the local files of a pattern; the name of an existing folder, such as "[2020]", is no pattern."""
    folder, name = os.path.split(pattern)
    if os.path.isdir(folder):
        pattern = os.path.join(glob.escape(folder), name)
    return glob.glob(pattern)


def find_files(path: str | os.PathLike[str]) -> tuple[Any, list[str]]:
    """Return the file system and the sorted paths of a file, a folder, or a pattern such as ``part-*.csv``.

    Hidden files, names that begin with an underscore as in folders of Spark, and protocol files are excluded.
    """
    # An address may have a password, as in user:password@host.
    name = re.sub(".*:.*@", "", PurePath(os.fspath(path)).name)
    filesystem, location = open_filesystem(os.fspath(path))
    info = filesystem.get_file_info(location)
    if info.type == fs.FileType.File:
        return filesystem, [location]
    if info.type == fs.FileType.Directory:
        found = filesystem.get_file_info(fs.FileSelector(location))
    else:
        is_local = isinstance(filesystem, fs.LocalFileSystem)
        search = _search_files if is_local else filesystem.handler.fs.glob
        found = filesystem.get_file_info(search(location))
    files = [
        file
        for file in found
        if file.base_name[0] not in "._" and not file.path.endswith(PROTOCOL_SUFFIX)
    ]
    if not files:
        raise FileNotFoundError(f"There is no file {name}.")
    # Rows in files of further folders would be lost.
    if any(file.type != fs.FileType.File for file in files):
        raise ValueError(f"{name} must contain files only, got a folder in it.")
    return filesystem, sorted(file.path for file in files)


def check_delimiter(delimiter: str | None) -> None:
    """Raise an error unless a delimiter of CSV files is None or one suitable character."""
    is_character = isinstance(delimiter, str) and len(delimiter) == 1
    if delimiter is not None and (not is_character or delimiter in '"\r\n\0'):
        raise ValueError(
            "`delimiter` must be one character other than a quote or a line break, got "
            f"{delimiter!r}."
        )


class TableFile:
    """Table in a file, or in the files of a folder or of a pattern, which can be read several times.

    The columns of a CSV file are text; a `FileTable` converts them to declared types.
    """

    def __init__(
        self, path: str | os.PathLike[str], delimiter: str | None = None
    ) -> None:
        """Open files and read their column names; CSV files are read by `read_csv_rows`, others as a dataset."""
        check_delimiter(delimiter)
        self.filesystem, self.paths = find_files(path)
        names = [PurePath(path_of_file).name for path_of_file in self.paths]
        self.name = names[0] if len(names) == 1 else PurePath(path).name or "The folder"
        formats = {find_format(name) for name in names}
        if len(formats) > 1:
            raise ValueError(
                f"{self.name} must contain files of one format, got {sorted(formats)}."
            )
        (self.format,) = formats
        self.is_csv = is_csv(names[0])
        if delimiter is not None and not self.is_csv:
            raise ValueError(f"`delimiter` requires a CSV file, got {self.name}.")
        self.delimiter = delimiter or _default_delimiter(self.format) or ""
        if self.is_csv:
            self.parts = [
                CsvFile(self.filesystem, path, self.delimiter) for path in self.paths
            ]
            self.header: list[str] = self.parts[0].header
            for part in self.parts:
                if sorted(part.header) != sorted(self.header):
                    raise ValueError(
                        f"{part.name} must have the same columns as {names[0]}."
                    )
        else:
            self.dataset = open_dataset(self)
            self.header = list(self.dataset.schema.names)

    @cached_property
    def _n_columns(self) -> Counter[str]:
        """Number of the columns with each name."""
        return Counter(self.header)

    @property
    def names(self) -> list[str]:
        """Names of the columns, without repeated names."""
        return [name for name, n_columns in self._n_columns.items() if n_columns == 1]

    def check_columns(self, columns: Iterable[str]) -> None:
        """Raise an error unless the file has each of some columns exactly once."""
        # Errors do not contain other names of the header, because it may be a row of the
        # data.
        absent = []
        for name in columns:
            if self._n_columns[name] > 1:
                raise ValueError(
                    f"{self.name} must have distinct column names, got several columns "
                    f"named {name!r}. Rename them in its header."
                )
            if name not in self._n_columns:
                absent.append(name)
        if absent:
            remedy = ". Use `delimiter` if another character separates the values"
            raise ValueError(
                f"{self.name} must have the columns {absent}, which its header lacks"
                f"{remedy if self.has_other_delimiter else ''}."
            )

    def check_header(self, delimiter: str | None) -> None:
        """Raise an error for a CSV file with another delimiter than `delimiter`, or whose header seems to be a row."""
        if delimiter is None and len(self.header) == 1 and self.has_other_delimiter:
            raise ValueError(
                f"{self.name} must have column names without delimiters, got one column "
                "whose name contains a delimiter. Use `delimiter` to set the character that "
                "separates the values."
            )
        if not self.is_csv:
            return
        if not any(map(is_name, self.header)):
            raise header_error(self.name, "numbers or dates only")
        repeated = [i for i, x in enumerate(self.header) if self._n_columns[x] > 1]
        if repeated:
            raise header_error(self.name, "repeated names", repeated)

    @property
    def has_other_delimiter(self) -> bool:
        """True if a column name contains a character that separates the values in other CSV files."""
        others = set(",;\t|") - {self.delimiter}
        return self.is_csv and any(others & set(name) for name in self.header)

    def protocols(self) -> set[str | None]:
        """Return the protocols (JSON) in the files, or for CSV beside them; None for a file without one."""
        if not self.is_csv:
            return ArrowTable(self.dataset).protocols()
        texts: set[str | None] = set()
        for path in self.paths:
            try:
                with self.filesystem.open_input_stream(
                    f"{path}{PROTOCOL_SUFFIX}", compression=None
                ) as file:
                    texts.add(file.read(MAX_FILE_BYTES).decode(errors="replace"))
            except FileNotFoundError:
                texts.add(None)
        return texts

    def read(self, columns: Sequence[str]) -> Generator[Any, None, None]:
        """Read columns of the rows, in order, as a stream of Arrow tables."""
        return track(self._read(columns), f"Reading {self.name}", "blocks")

    def _read(self, columns: Sequence[str]) -> Generator[Any, None, None]:
        """Read columns without a progress bar."""
        if not self.is_csv:
            try:
                yield from ArrowTable(self.dataset).read(columns)
            except RefusedBatch:
                raise damage_error(self.name) from None
            return
        schema = pyarrow.schema([(name, pyarrow.string()) for name in columns])
        yield schema.empty_table()
        for part in self.parts:
            yield from part.read(columns)


def open_dataset(file: TableFile) -> Any:
    """Open Parquet or Arrow files as a dataset; error messages contain no values of the files."""
    try:
        opened = dataset.dataset(
            file.paths, format=file.format, filesystem=file.filesystem
        )
        schemas = [part.physical_schema for part in opened.get_fragments()]
    except (OSError, pyarrow.ArrowException) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise OSError(error.errno, os.strerror(error.errno)) from None
        raise ValueError(
            f"{file.name} is damaged, or its format does not match its extension. "
            "Write it again, or rename it."
        ) from None
    # pyarrow would read a column that a file lacks as missing values.
    if any(set(schema.names) != set(opened.schema.names) for schema in schemas):
        raise ValueError(f"{file.name} must have the same columns in all files.")
    try:
        plain = [schema.remove_metadata() for schema in schemas]
        return opened.replace_schema(pyarrow.unify_schemas([opened.schema, *plain]))
    except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError):
        raise ValueError(
            f"{file.name} must have one type of each column in all files, got several. "
            "Write the files again with one type."
        ) from None


class FileTable(StreamTable):
    """Engine of a file, which converts the strings of a CSV file to the types of a domain."""

    def __init__(
        self,
        file: TableFile,
        columns: Sequence[str],
        domain: Domain | None = None,
        *,
        lenient: Collection[str] = (),
        has_integers: bool = False,
        person: str | None = None,
    ) -> None:
        """Choose the types of the columns of a file.

        The options are for CSV files: in `lenient` columns, text among numbers becomes inf; `has_integers` gives
        columns an integer type if all declared numbers are integers; `person` is a column of keys.
        """
        self.file = file
        self._person = person
        self._parsers: dict[Any, TextColumn] = {}
        if domain is not None and file.is_csv:
            for name in columns:
                if name in domain.columns:
                    self._parsers[name] = TextColumn(
                        name, domain[name], name not in lenient
                    )
        super().__init__(self._make_schema(columns, has_integers))

    def _make_schema(self, columns: Sequence[str], has_integers: bool) -> Any:
        """Return the Arrow schema of the columns after conversion; with `has_integers`, whole numbers are no floats."""
        if not self.file.is_csv:
            schema = self.file.dataset.schema
            return pyarrow.schema([schema.field(name) for name in columns])
        types = dict.fromkeys(columns, pyarrow.string())
        for name, parser in self._parsers.items():
            types[name] = parser.arrow_type
            if has_integers and parser.text_type == "number" and parser.is_whole:
                types[name] = pyarrow.int64()
        return pyarrow.schema(types)

    def _make_empty_table(self) -> Any:
        """Return an Arrow table without rows."""
        return self._frame.empty_table()

    @property
    def template(self) -> Any:
        """Arrow table without rows, because results are written to files."""
        return self.sample

    def column_names(self) -> list[Any]:
        """Return the names of the columns."""
        return list(self._frame.names)

    def _read(self, columns: Sequence[Any]) -> Generator[Any, None, None]:
        """Read columns as a stream of Arrow tables with converted strings."""
        with closing(self.file.read(columns)) as tables:
            for table in tables:
                yield self._convert(table) if self.file.is_csv else table

    def _convert(self, table: Any) -> Any:
        """Convert the columns of a table of strings."""
        columns = {}
        for name in table.column_names:
            if name in self._parsers:
                columns[name] = self._parsers[name].convert(table[name])
            else:
                columns[name] = self._convert_undeclared(name, table[name])
        return pyarrow.table(columns)

    def _convert_undeclared(self, name: str, column: object) -> Any:
        """Rewrite persons as keys, and replace empty text of other columns by null."""
        if name == self._person:
            return write_keys(name, drop_texts(column, MISSING_TEXTS))
        return drop_texts(column, [""])


# Files to write


def check_destination(path: PathType) -> Path:
    """Return the absolute path of a new file as `check_path`; raise an error for None."""
    destination = check_path(path, "destination")
    if destination is None:
        raise TypeError("`destination` must be a str or a path, got NoneType.")
    return destination


def check_writable(schema: Any, file_format: str) -> None:
    """Raise an error if a file of this format cannot store a column of the schema."""
    # Fields are tried one by one, so that the error names the column.
    for field in schema:
        try:
            schema_of_field = pyarrow.schema([field])
            rows = [schema_of_field.empty_table()]
            write_file(rows, schema_of_field, io.BytesIO(), file_format)
        except pyarrow.ArrowException:
            raise ValueError(
                f"Column {field.name!r} has type {field.type}, which the file cannot "
                "store. Use another format."
            ) from None


def check_readable_reports(domain: Domain | None, name: str) -> None:
    """Raise an error if reports with declared values cannot be read from a CSV file without changes."""
    if domain is not None and is_csv(name):
        for name in domain.columns:
            find_text_type(name, domain[name])


def write_file(
    tables: Iterable[Any], schema: Any, target: Any, file_format: str
) -> None:
    """Write a stream of Arrow tables with a schema to a path or an open file, in a format of `find_format`."""
    if file_format == "parquet":
        write_parquet(tables, schema, target)
        return
    compression = "gzip" if file_format.endswith(".gz") else None
    target = str(target) if isinstance(target, Path) else target
    with pyarrow.output_stream(target, compression=compression) as file:
        delimiter = _default_delimiter(file_format)
        if delimiter is not None:
            file.write(format_csv([schema.names], delimiter).encode())
            for table in tables:
                # Texts take more memory than numbers, so few rows are texts at a time.
                for batch in table.to_batches(max_chunksize=1 << 16):
                    file.write(format_rows(batch, delimiter))
            return
        with ipc.new_file(file, schema) as writer:
            for table in tables:
                writer.write_table(table)
