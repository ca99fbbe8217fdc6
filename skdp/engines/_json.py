"""JSON lines, read and written in batches: a row a line, an object with a value for each column."""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections.abc import Iterable, Iterator
from typing import Any

from skdp.base import encoding_error
from skdp.domain import Domain
from skdp.engines._csv import iso_texts, readers
from skdp.engines._errors import UnreadableError
from skdp.engines._extras import Extra
from skdp.engines._source_file import SourceFile

pyarrow, pyarrow_json, compute, types = map(Extra, ("pyarrow", "pyarrow.json", "pyarrow.compute", "pyarrow.types"))

_BLOCK_BYTES = 1 << 21
_LONGEST_LINE = _BLOCK_BYTES


def first_line(source: SourceFile) -> dict[str, Any]:
    """Read the first line: the names of the columns, and values of their kinds."""
    with source.open() as file:
        block = file.read(_LONGEST_LINE)
    line, found = block.partition(b"\n")[0].removeprefix(b"\xef\xbb\xbf"), None
    if not line.strip():
        raise ValueError(f"{source.name} has no first line, which names the columns")
    with contextlib.suppress(ValueError, RecursionError):  # whose text has the line
        found = json.loads(line)
    if not isinstance(found, dict) or not found:
        raise unreadable_json(source)
    return found


def types_of_columns(source: SourceFile, domain: Domain | None, columns: list[str]) -> dict[str, Any]:
    """Return the Arrow types of some columns: as declared, or as in the first line."""
    declared = {} if domain is None else {name: unit for name, (unit, _) in readers(domain).items()}
    line = first_line(source)
    return {name: declared.get(name) or _type_of(line.get(name)) for name in columns}


def _type_of(value: Any) -> Any:
    # bool is a kind of int in Python.
    for kind, unit in ((bool, pyarrow.bool_()), (int, pyarrow.int64()), (float, pyarrow.float64())):
        if isinstance(value, kind):
            return unit
    return pyarrow.string()


def json_batches(source: SourceFile, domain: Domain | None, units: dict[str, Any]) -> Iterator[Any]:
    """Read some columns, of the types that `types_of_columns` returns."""
    known, columns = {} if domain is None else readers(domain), list(units)
    # Dates, times and decimals are read as in CSV files, by a rule that no other row changes.
    as_text = {name: unit for name in known if name in units and (unit := _type_of_text(units[name])) is not None}
    schema = pyarrow.schema([(name, as_text.get(name, units[name])) for name in columns])
    parse = pyarrow_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    failed = None
    try:
        read = pyarrow_json.ReadOptions(block_size=_BLOCK_BYTES)
        for batch in pyarrow_json.open_json(source.arrow_source(), read_options=read, parse_options=parse):
            batch.validate(full=True)  # its text is not known to be UTF-8
            table = pyarrow.Table.from_batches([batch]).select(columns)
            for name in as_text:
                texts = table[name].cast(pyarrow.string())
                table = table.set_column(columns.index(name), name, known[name][1](texts))
            yield table
    except pyarrow.ArrowInvalid as error:  # its text may have a value
        failed = unreadable_json(source, _column_in(str(error), columns))
    if failed is not None:
        raise failed


def _type_of_text(unit: Any) -> Any:
    """Return the type by which JSON has what it has no values for; a decimal may be a number, too."""
    return (
        pyarrow.string() if types.is_temporal(unit) else pyarrow.decimal256(76, 38) if types.is_decimal(unit) else None
    )


def _column_in(text: str, columns: list[str]) -> str | None:
    """Return the column that an error of pyarrow names, if it is one of ours."""
    found = re.search(r"Column\(/(.*?)\) (?:changed|was)", text)
    return found[1] if found is not None and found[1] in columns else None


def unreadable_json(source: SourceFile, column: str | None = None) -> UnreadableError:
    """Make the error of a file that holds something else; it shows no row."""
    encoding = encoding_error(source)
    if encoding is not None:
        return UnreadableError(str(encoding))
    if column is not None:
        return UnreadableError(f"column {column!r} of {source.name} holds values of another kind than is declared")
    return UnreadableError(
        f"{source.name} does not hold a JSON object a line, of at most {_LONGEST_LINE:,} bytes, with values of "
        "the declared kinds"
    )


def write_json_lines(tables: Iterable[Any], schema: Any, file: Any) -> None:
    """Write a stream of tables."""
    heads = [("{" if place == 0 else ", ") + json.dumps(name) + ": " for place, name in enumerate(schema.names)]
    for table in tables:
        if table.num_columns and len(table):
            pieces = [
                piece for head, column in zip(heads, table.columns, strict=True) for piece in (head, _texts(column))
            ]
            lines = compute.binary_join_element_wise(*pieces, "}\n", "")
            file.write("".join(lines.to_pylist()).encode())


def _texts(column: Any) -> Any:
    """Write each value as JSON: of equal ones, one."""
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if types.is_timestamp(column.type):
        column = iso_texts(column)
    coded = (column if isinstance(column, pyarrow.Array) else column.combine_chunks()).dictionary_encode("encode")
    values = coded.dictionary.to_pylist()
    known = (None if isinstance(value, float) and not math.isfinite(value) else value for value in values)
    texts = [json.dumps(value, default=str) for value in known]
    return pyarrow.array(texts, pyarrow.string()).take(coded.indices)
