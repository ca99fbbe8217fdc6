"""Tables in CSV, Parquet and Arrow files, by the ending of their names, in batches of rows."""

from __future__ import annotations

import hashlib
import io
import os
from collections import deque
from collections.abc import Generator, Iterable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from skdp._json import parse_json
from skdp.base import (
    check_quotes,
    delimiter_of,
    find_repeated,
    read_csv_rows,
    repeated_names_message,
)
from skdp.domain import Domain
from skdp.engines._errors import UnreadableTable, call_check, read_quietly
from skdp.engines._libraries import Extra
from skdp.engines._streams import write_tables
from skdp.engines.files._csv import (
    TextReader,
    column_names,
    column_type,
    sample_type,
    text_batches,
    write_csv,
)
from skdp.engines.files._source_file import SourceFile, check_delimiter
from skdp.local import check_attached_protocol
from skdp.tables import present

pyarrow, ipc, dataset = map(Extra, ("pyarrow", "pyarrow.ipc", "pyarrow.dataset"))

FORMATS = {
    ".csv": "csv", ".csv.gz": "csv.gz", ".tsv": "tsv", ".tsv.gz": "tsv.gz", ".parquet": "parquet", ".arrow": "ipc",
    ".feather": "ipc", ".ipc": "ipc",
}  # fmt: skip


def format_of(path: Path | SourceFile) -> str:
    """Return the format of a file by its name."""
    for ending, file_format in reversed(FORMATS.items()):
        if path.name.endswith(ending):
            return file_format
    raise ValueError(f"{path.name} must end in one of {', '.join(FORMATS)}")


def is_csv(form: str) -> bool:
    """Return whether a format is CSV, with whatever delimiter."""
    return form.startswith(("csv", "tsv"))


class TableFile:
    """A table in a file."""

    def __init__(
        self, place: str | os.PathLike[str] | SourceFile, delimiter: str | None = None
    ) -> None:
        check_delimiter(delimiter)
        self.path = path = (
            place if isinstance(place, SourceFile) else SourceFile.at(place, delimiter)
        )
        form = format_of(path)
        self.is_csv = is_csv(form)
        if path.given_delimiter is not None and not self.is_csv:
            raise ValueError(
                f"delimiter is for CSV files, and {path.name} is another one"
            )
        if not path.exists():
            raise FileNotFoundError(
                f"there is no file {path.path if path.is_local else path.name}"
            )
        if self.is_csv:
            self.format = "csv"
            names = column_names(path)
        else:
            self.format = form
            self.dataset = self._open()
            names = self.dataset.schema.names
        self._has_checked_quotes = False
        self.repeated = find_repeated(names)
        self.names = [name for name in names if name not in self.repeated]

    def _open(self) -> Any:
        path = self.path
        try:
            return dataset.dataset(
                path.path, format=self.format, filesystem=path.filesystem
            )
        except (pyarrow.ArrowException, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            kind = "Parquet" if self.format == "parquet" else "Arrow"
            raise ValueError(f"{path.name} is no {kind} file") from None

    def check_columns(self, columns: Iterable[str]) -> None:
        """Check that there are some columns. The others are not shown: they are a row, if a CSV file has no header."""
        asked = list(columns)
        repeated = [name for name in asked if name in self.repeated]
        if repeated:
            raise ValueError(repeated_names_message(self.path.name, repeated))
        absent = [name for name in asked if name not in self.names]
        if absent:
            raise ValueError(
                f"{self.path.name} lacks the columns {absent}{self.advice()}"
            )

    def check_quotes(self) -> None:
        """Check that each quoted value of a CSV file is closed."""
        if self.is_csv and not self._has_checked_quotes:
            check_quotes(self.path, self.path.delimiter)
            self._has_checked_quotes = True

    def advice(self) -> str:
        """Say what other delimiters in a header are a sign of; it may be a row, and is not shown."""
        header = "".join(self.names)
        if self.is_csv and any(sign in header for sign in ";,\t|"):
            return (
                ": if another character than its delimiter separates the values, give"
                " `delimiter`"
            )
        return ""

    def protocol(self) -> str | None:
        """Return the protocol that the file says its reports are of; CSV has no place for it."""
        if self.is_csv:
            return None
        from skdp.engines.backends.arrow import protocols_of

        return only_one(protocols_of(self.dataset), self.path.name)

    def fingerprint(self) -> dict[str, Any]:
        """Describe the file so that a change of it shows; the file is read."""
        # Also of a gzipped file, the bytes as they are stored.
        with self.path.filesystem.open_input_file(self.path.path) as file:
            digest = hashlib.file_digest(file, "sha256")
        return {
            "format": self.format,
            "content": digest.hexdigest(),
            "delimiter": self.path.delimiter if self.is_csv else None,
        }

    def sample(
        self, domain: Domain | None, columns: list[str], *, whole: bool = False
    ) -> Any:
        """Make a table without rows; `whole` as for synthetic rows."""
        if not self.is_csv:
            fields = [self.dataset.schema.field(name) for name in columns]
            return pyarrow.schema(fields).empty_table()
        type_of = sample_type if whole else column_type
        types = {name: pyarrow.string() for name in columns}
        for name in columns:
            if domain is not None and name in domain.columns:
                types[name] = type_of(name, domain[name])
        return pyarrow.schema(types).empty_table()

    def tables(
        self, domain: Domain | None, columns: list[str], *, strict: bool = False
    ) -> Generator[Any, None, None]:
        """Read the rows in order: of a CSV file with the types of a domain."""
        if not self.is_csv:
            from skdp.engines.backends.arrow import read_dataset

            yield from read_dataset(self.dataset, columns)
            return
        with closing(self._text_tables(columns)) as tables:
            yield from self.typed_tables(tables, domain, strict=strict)

    def typed_tables(
        self, tables: Iterable[Any], domain: Domain | None, *, strict: bool
    ) -> Generator[Any, None, None]:
        """Give the columns of a CSV file the types of a domain."""
        readers = {}
        if domain is not None and self.is_csv:
            for name in domain.columns:
                readers[name] = TextReader(name, domain[name], strict=strict)
        for table in tables:
            values = {name: table[name] for name in table.column_names}
            for name in readers.keys() & values.keys():
                values[name] = call_check(partial(readers[name].read, table[name]))
            yield pyarrow.table(values)

    def _text_tables(self, columns: list[str]) -> Generator[Any, None, None]:
        call_check(self.check_quotes)
        try:
            yield from read_quietly(text_batches(self.path, columns))
        except UnreadableTable:
            # Reading strictly names the line, and shows no row.
            rows = read_csv_rows(self.path, self.path.delimiter)
            call_check(lambda: deque(rows, maxlen=0))
            raise


def check_writable(schema: Any, form: str) -> None:
    """Check that a file can hold columns of these types."""
    # Field by field, so that the error names the column.
    for field in schema:
        try:
            write_file([], pyarrow.schema([field]), io.BytesIO(), form)
        except pyarrow.ArrowException:
            raise ValueError(
                f"column {field.name!r} is of type {field.type}, which the file "
                "cannot hold"
            ) from None


def check_readable(domain: Domain | None, form: str) -> None:
    """Check that a file of text is read as the declared values that it is to hold."""
    if domain is None or not is_csv(form):
        return
    for name in domain.columns:
        column_type(name, domain[name])
        labels = domain[name].labels
        if "" in present(labels) and None in labels:
            raise ValueError(
                f"column {name!r}: a missing value and an empty text are the same in a "
                "CSV file: write the reports to a Parquet or Arrow file"
            )


def write_file(tables: Iterable[Any], schema: Any, place: Any, form: str) -> None:
    """Write a stream of tables to a path or an open file."""
    if form == "parquet":
        write_tables(tables, schema, place)
        return
    compression = "gzip" if form.endswith(".gz") else None
    place = str(place) if isinstance(place, Path) else place
    with pyarrow.output_stream(place, compression=compression) as file:
        if is_csv(form):
            write_csv(tables, schema, file, delimiter_of(f".{form}"))
            return
        with ipc.new_file(file, schema) as writer:
            for table in tables:
                writer.write_table(table)


MAX_BYTES = 1 << 24


def only_one(texts: Iterable[str | None], name: str) -> str | None:
    """Return the protocol that the files of a table say: all of them the same, or none."""
    texts = {*texts}
    if len(texts) > 1:
        raise ValueError(
            f"{name}: reports of two protocols are never added, and its files say "
            "different ones, or none"
        )
    return texts.pop() if texts else None


def check_said(text: str | None, transformer: Any, name: str) -> None:
    """Refuse a transformer whose reports the file does not hold."""
    try:
        check_attached_protocol(text, transformer)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def read_json(path: Path, what: str) -> Any:
    """Read JSON, within limits; None if it is none."""
    if (size := path.stat().st_size) > MAX_BYTES:
        raise ValueError(
            f"{path.name}: {what} has at most {MAX_BYTES:,} bytes, got {size:,}"
        )
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        return None
    return parse_json(text, f"{path.name}: {what}")
