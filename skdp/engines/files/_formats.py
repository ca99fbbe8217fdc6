"""Tables in CSV, Parquet and Arrow files, by the ending of their names, in batches of rows."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from skdp.base import MISSING_TEXTS
from skdp.domain import Domain
from skdp.engines._csv import column_names as csv_names
from skdp.engines._csv import readers, text_batches, write_csv
from skdp.engines._errors import UnreadableError, UnreadableTable
from skdp.engines._extras import Extra
from skdp.engines._registry import is_damage
from skdp.engines._source_file import SourceFile, check_delimiter, delimiter_of
from skdp.engines._streams import write_tables
from skdp.engines.files._said import only_one, said_by_sidecar
from skdp.tables import Releases, joined_releases, read_table

pyarrow, ipc, dataset = map(Extra, ("pyarrow", "pyarrow.ipc", "pyarrow.dataset"))
compute = Extra("pyarrow.compute")

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
        if self.is_csv:
            self.names = csv_names(path)
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
        self.names = list(self.dataset.schema.names)

    @property
    def is_csv(self) -> bool:
        """Whether the file is text, of which the declared values decide what types the columns are."""
        return self.format == "csv"

    def check_columns(self, columns: Iterable[str]) -> None:
        """Check that there are some columns. The others are not shown: they are a row, if a CSV file has no header."""
        absent = [name for name in columns if name not in self.names]
        if absent:
            raise ValueError(
                f"{self.path.name} lacks the columns {absent}{self.advice()}"
            )

    def advice(self) -> str:
        """Say what other delimiters in a header are a sign of; it may be a row, and is not shown."""
        header = "".join(self.names)
        if self.is_csv and any(sign in header for sign in ";,\t|"):
            return ": if another character than its delimiter separates the values, give `delimiter`"
        return ""

    def protocol(self) -> str | None:
        """Return the protocol that the file says its reports are of."""
        if self.is_csv:
            return said_by_sidecar(Path(self.path.path)) if self.path.is_local else None
        from skdp.engines.backends.arrow import said_by_file

        with self._damage_named():
            return only_one(
                map(said_by_file, self.dataset.get_fragments()), self.path.name
            )

    def releases(self) -> Releases | None:
        """Return the releases that the file says its reports are of; of text, its sidecar says all that it is."""
        if self.is_csv:
            return None
        from skdp.engines.backends.arrow import releases_of_file

        with self._damage_named():
            return joined_releases(map(releases_of_file, self.dataset.get_fragments()))

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
            found = {
                "format": self.format,
                "content": hashlib.file_digest(file, "sha256").hexdigest(),
            }
        if self.is_csv and self.path.delimiter != ",":
            found["delimiter"] = self.path.delimiter
        return found

    def sample(self, domain: Domain | None, columns: list[str]) -> Any:
        """Make a table without rows."""
        if not self.is_csv:
            schema = self.dataset.schema
            return pyarrow.schema(
                [schema.field(name) for name in columns]
            ).empty_table()
        types = (
            {}
            if domain is None
            else {name: unit for name, (unit, _) in readers(domain).items()}
        )
        return pyarrow.schema(
            [(name, types.get(name, pyarrow.string())) for name in columns]
        ).empty_table()

    def tables(
        self,
        domain: Domain | None,
        columns: list[str],
        *,
        strict: bool = False,
        coded: bool = False,
    ) -> Generator[Any, None, None]:
        """Read the rows, in order: those of a CSV file with the types of a domain."""
        # `strict` and `coded` are as for `readers` and `read_tables`.
        try:
            if self.is_csv:
                yield from self._typed_texts(domain, columns, strict)
            else:
                from skdp.engines.backends.arrow import read_tables

                yield from read_tables(self.dataset, columns, coded=coded)
            return
        except Exception as error:
            if not isinstance(error, UnreadableTable) and not is_damage(error):
                raise
            kind = getattr(error, "kind", type(error).__name__)
        # Outside of the handler: what was raised may hold a row.
        raise UnreadableError(f"{self.path.name} cannot be read ({kind})")

    def _typed_texts(
        self, domain: Domain | None, columns: list[str], strict: bool
    ) -> Iterator[Any]:
        read = {} if domain is None else readers(domain, strict=strict)
        missing_texts = pyarrow.array(MISSING_TEXTS)
        for texts in text_batches(self.path, columns):
            made = {}
            for name in columns:
                column = texts[name]
                if name in read:
                    _, parse = read[name]
                    column = parse(column)
                elif strict:
                    is_missing = compute.is_in(column, missing_texts)
                    column = compute.if_else(is_missing, None, column)
                made[name] = column
            yield pyarrow.table(made)


def check_writable(schema: Any, form: str) -> None:
    """Check that a file can hold columns of these types."""
    with TemporaryDirectory() as folder:
        for field in schema:
            try:
                write_file([], pyarrow.schema([field]), Path(folder, "empty"), form)
            except pyarrow.ArrowException:
                raise ValueError(
                    f"column {field.name!r} is of type {field.type}, which the file cannot hold"
                ) from None


def check_readable(domain: Domain | None, reports: Any, schema: Any, form: str) -> None:
    """Check that a file of text is read as the declared values that it is to hold; `reports` has no rows."""
    if domain is None or not is_csv(form):
        return
    table, rows = read_table(reports), max(len(domain[name]) for name in domain.columns)
    codes = {name: np.arange(rows) % len(domain[name]) for name in domain.columns}
    decoders = domain.decoders(table.columns[table.names.index(name)] for name in codes)
    made = {
        name: decode(codes[name]) for name, decode in zip(codes, decoders, strict=True)
    }
    arrays = [
        made[own.name].cast(own.type)
        if own.name in made
        else pyarrow.nulls(rows, own.type)
        for own in schema
    ]
    with TemporaryDirectory() as folder:
        path = Path(folder, f"values.{form}")
        write_file([pyarrow.table(arrays, schema=schema)], schema, path, form)
        for name in codes:
            found, alone = [], domain.select([name])
            with suppress(ValueError):
                read = pyarrow.concat_tables(TableFile(path).tables(alone, [name]))
                found = alone.encode(read_table(read).columns)
            if not np.array_equal(found, [codes[name]]):
                raise ValueError(
                    f"column {name!r}: its declared values cannot be read from a CSV file as what they are: write the "
                    "reports to a Parquet or Arrow file"
                )


def write_file(
    tables: Iterable[Any],
    schema: Any,
    path: Path,
    form: str,
    finish: Callable[[Any], Any] | None = None,
) -> None:
    """Write a stream of tables; `finish` makes the final schema of a Parquet file when all of them are written."""
    if form == "parquet":
        write_tables(tables, schema, path, finish)
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
