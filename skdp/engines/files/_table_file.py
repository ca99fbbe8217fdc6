"""Tables in CSV, Parquet and Arrow files, by the ending of their names, in batches of rows."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.base import (
    check_quotes,
    delimiter_of,
    find_repeated,
    repeated_names_message,
)
from skdp.domain import Domain, parse_json
from skdp.engines._errors import UnreadableError, UnreadableTable
from skdp.engines._libraries import Extra, is_damage
from skdp.engines._streams import write_tables
from skdp.engines.files._csv import (
    TextReader,
    column_type,
    sample_type,
    text_batches,
    write_csv,
)
from skdp.engines.files._csv import column_names as csv_names
from skdp.engines.files._source_file import SourceFile, check_delimiter
from skdp.local import check_carried
from skdp.tables import read_table

pyarrow, ipc, dataset = map(Extra, ("pyarrow", "pyarrow.ipc", "pyarrow.dataset"))

FORMATS = {
    ".csv": "csv", ".csv.gz": "csv.gz", ".tsv": "tsv", ".tsv.gz": "tsv.gz", ".parquet": "parquet", ".arrow": "ipc",
    ".feather": "ipc", ".ipc": "ipc",
}  # fmt: skip


def format_of(path: Path | SourceFile) -> str:
    """Return the format of a file by its name."""
    ending = next(
        (ending for ending in reversed(FORMATS) if path.name.endswith(ending)), None
    )
    if ending is None:
        raise ValueError(f"{path.name} must end in one of {', '.join(FORMATS)}")
    return FORMATS[ending]


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
        self.format = "csv" if is_csv(form) else form
        if path.given_delimiter is not None and not self.is_csv:
            raise ValueError(
                f"delimiter is for CSV files, and {path.name} is another one"
            )
        if not path.exists():
            raise FileNotFoundError(
                f"there is no file {path.path if path.is_local else path.name}"
            )
        self._has_checked_quotes = False
        if self.is_csv:
            self._set_names(csv_names(path))
            return
        try:
            self.dataset = dataset.dataset(
                path.path, format=self.format, filesystem=path.filesystem
            )
        except (pyarrow.ArrowException, OSError) as error:
            if not is_damage(error):
                raise
            kind = "Parquet" if self.format == "parquet" else "Arrow"
            raise ValueError(f"{path.name} is no {kind} file") from None
        self._set_names(self.dataset.schema.names)

    def _set_names(self, names: list[str]) -> None:
        self.repeated = find_repeated(names)
        self.names = [name for name in names if name not in self.repeated]

    @property
    def is_csv(self) -> bool:
        """Whether the file is text, of which the declared values decide what types the columns are."""
        return self.format == "csv"

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
        from skdp.engines.backends.arrow import said_by_file

        with self._damage_named():
            return only_one(
                map(said_by_file, self.dataset.get_fragments()), self.path.name
            )

    def count_rows(self) -> int | None:
        """Count the rows, where that needs no reading of them."""
        if self.is_csv:
            return None
        with self._damage_named():
            return self.dataset.count_rows()

    @contextmanager
    def _damage_named(self) -> Iterator[None]:
        """Say of a damaged file that it is damaged, and no more."""
        try:
            yield
        except (pyarrow.ArrowException, OSError) as error:
            if not is_damage(error):
                raise
            raise UnreadableError(f"{self.path.name} is damaged") from None

    def fingerprint(self) -> dict[str, Any]:
        """Describe the file so that a change of it shows; the file is read."""
        with self.path.open_raw() as file:
            content = {
                "format": self.format,
                "content": hashlib.file_digest(file, "sha256").hexdigest(),
            }
        if self.is_csv and self.path.delimiter != ",":
            content["delimiter"] = self.path.delimiter
        return content

    def sample(
        self, domain: Domain | None, columns: list[str], *, whole: bool = False
    ) -> Any:
        """Make a table without rows; `whole` as for what is made like the rows."""
        if not self.is_csv:
            schema = self.dataset.schema
            fields = [schema.field(name) for name in columns]
            return pyarrow.schema(fields).empty_table()
        fields = []
        type_of = sample_type if whole else column_type
        for name in columns:
            kind = pyarrow.string()
            if domain is not None and name in domain.columns:
                kind = type_of(name, domain[name])
            fields.append((name, kind))
        return pyarrow.schema(fields).empty_table()

    def tables(
        self,
        domain: Domain | None,
        columns: list[str],
        *,
        strict: bool = False,
        coded: bool = False,
        marks: NDArray[np.bool_] | None = None,
    ) -> Generator[Any, None, None]:
        """Read the rows, or those that are marked, in order: of a CSV file with the types of a domain."""
        # `strict` and `coded` are as for `TextReader` and `read_tables`.
        self.check_quotes()
        try:
            rows: Iterator[Any]
            if self.is_csv:
                rows = text_batches(self.path, columns)
            else:
                from skdp.engines.backends.arrow import read_tables

                rows = read_tables(self.dataset, columns, coded=coded)
            if marks is not None:
                from skdp.engines.backends.arrow import keep_marked

                rows = keep_marked(rows, marks)
            yield from self._typed(rows, domain, strict) if self.is_csv else rows
            return
        except Exception as error:
            if not isinstance(error, UnreadableTable) and not is_damage(error):
                raise
            kind = getattr(error, "kind", type(error).__name__)
        # Outside of the handler: what was raised may hold a row.
        raise UnreadableError(f"{self.path.name} cannot be read ({kind})")

    def _typed(
        self, text_tables: Iterable[Any], domain: Domain | None, strict: bool
    ) -> Iterator[Any]:
        readers = {}
        if domain is not None:
            for name in domain.columns:
                readers[name] = TextReader(name, domain[name], strict=strict)
        for texts in text_tables:
            columns = {}
            for name in texts.column_names:
                column = texts[name]
                if name in readers:
                    column = readers[name].read(column)
                columns[name] = column
            yield pyarrow.table(columns)


def check_writable(schema: Any, form: str) -> None:
    """Check that a file can hold columns of these types."""
    with TemporaryDirectory() as folder:
        # Field by field, so that the error names the column.
        for field in schema:
            try:
                write_file([], pyarrow.schema([field]), Path(folder, "empty"), form)
            except pyarrow.ArrowException:
                raise ValueError(
                    f"column {field.name!r} is of type {field.type}, which the file "
                    "cannot hold"
                ) from None


def check_readable(domain: Domain | None, reports: Any, schema: Any, form: str) -> None:
    """Check that a file of text is read as the declared values that it is to hold; `reports` has no rows."""
    if domain is None or not is_csv(form):
        return
    table, rows = read_table(reports), max(len(domain[name]) for name in domain.columns)
    codes = {name: np.arange(rows) % len(domain[name]) for name in domain.columns}
    decoders = domain.decoders(table.columns[table.names.index(name)] for name in codes)
    columns = {
        name: decode(codes[name]) for name, decode in zip(codes, decoders, strict=True)
    }
    arrays = [
        (
            columns[field.name].cast(field.type)
            if field.name in columns
            else pyarrow.nulls(rows, field.type)
        )
        for field in schema
    ]
    with TemporaryDirectory() as folder:
        path = Path(folder, f"values.{form}")
        write_file([pyarrow.table(arrays, schema=schema)], schema, path, form)
        for name in codes:
            read_codes, alone = [], domain.select([name])
            with suppress(ValueError):
                rows_read = pyarrow.concat_tables(TableFile(path).tables(alone, [name]))
                read_codes = alone.encode(read_table(rows_read).columns)
            if not np.array_equal(read_codes, [codes[name]]):
                raise ValueError(
                    f"column {name!r}: its declared values cannot be read from a CSV"
                    " file as what they are: write the reports to a Parquet or Arrow"
                    " file"
                )


def write_file(
    tables: Iterable[Any],
    schema: Any,
    path: Path,
    form: str,
) -> None:
    """Write a stream of tables."""
    if form == "parquet":
        write_tables(tables, schema, path)
        return
    with pyarrow.output_stream(
        str(path), compression="gzip" if form.endswith(".gz") else None
    ) as file:
        if form == "ipc":
            with ipc.new_file(file, schema) as writer:
                for table in tables:
                    writer.write_table(table)
        else:
            write_csv(tables, schema, file, delimiter_of(f".{form}"))


_MOST_BYTES = 1 << 24
# Of a tally that is read from a file of others.
MOST_SUMS = 1 << 21


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
        check_carried(text, transformer)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def read_json(path: Path, what: str) -> Any:
    """Read JSON of others, within limits; None if it is none."""
    if (size := path.stat().st_size) > _MOST_BYTES:
        raise ValueError(
            f"{path.name}: {what} has at most {_MOST_BYTES:,} bytes, got {size:,}"
        )
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        return None
    return parse_json(text, f"{path.name}: {what}", MOST_SUMS)
