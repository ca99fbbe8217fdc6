"""The protocol of reports in the metadata of their table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pandas as pd

# Key of the protocol in the metadata of Arrow and Parquet, and in the ``attrs`` of
# pandas.
PROTOCOL_KEY = "skdp.protocol"

# Key of the ``attrs`` of a frame as JSON, in Parquet files of pandas.
ATTRS_KEY = "PANDAS_ATTRS"


def has_metadata(table: Any) -> bool:
    """Return True for a table with metadata."""
    is_arrow = type(table).__module__.startswith("pyarrow") and hasattr(table, "schema")
    return isinstance(table, pd.DataFrame) or is_arrow


def attach_protocol(table: Any, text: str | None) -> Any:
    """Attach a protocol to reports in pandas or pyarrow; other tables pass through."""
    if text is None or not has_metadata(table):
        return table
    if isinstance(table, pd.DataFrame):
        table.attrs[PROTOCOL_KEY] = text
        return table
    schema = attach_schema_protocol(table.schema, text)
    return table.replace_schema_metadata(schema.metadata)


def attach_schema_protocol(schema: Any, text: str | None) -> Any:
    """Attach a protocol to the schema of Arrow tables of reports, also where pandas finds the ``attrs`` of a frame."""
    if text is None:
        return schema
    metadata = dict(schema.metadata or {})
    # Metadata that pandas wrote about columns is kept.
    note: dict[str, Any] = {"index_columns": [], "columns": [], "column_indexes": []}
    note |= parse_pandas_metadata(metadata)
    note["attributes"] = {PROTOCOL_KEY: text}
    metadata[b"pandas"] = json.dumps(note).encode()
    metadata[PROTOCOL_KEY.encode()] = text.encode()
    return schema.with_metadata(metadata)


def get_protocol_text(table: Any) -> str | None:
    """Return the protocol in the metadata of a table."""
    if isinstance(table, pd.DataFrame):
        text = table.attrs.get(PROTOCOL_KEY)
        return text if isinstance(text, str) else None
    return (
        get_arrow_protocol(table.schema.metadata or {}) if has_metadata(table) else None
    )


def get_arrow_protocol(metadata: Mapping[bytes, bytes]) -> str | None:
    """Return the protocol in the metadata of an Arrow schema written by skdp, pandas or pyarrow."""
    notes = [_parse(metadata.get(ATTRS_KEY.encode()))]
    notes.append(parse_pandas_metadata(metadata).get("attributes"))
    texts = {note.get(PROTOCOL_KEY) for note in notes if isinstance(note, dict)}
    own_text = metadata.get(PROTOCOL_KEY.encode())
    if own_text is not None:
        texts.add(own_text.decode(errors="replace"))
    texts = {text for text in texts if isinstance(text, str)}
    if len(texts) > 1:
        raise ValueError(
            "reports must have one protocol, got two in the metadata of the table"
        )
    return texts.pop() if texts else None


def parse_pandas_metadata(metadata: Mapping[bytes, bytes]) -> dict[str, Any]:
    """Return the metadata that pandas wrote into an Arrow schema."""
    note = _parse(metadata.get(b"pandas"))
    return note if isinstance(note, dict) else {}


def _parse(text: bytes | None) -> Any:
    try:
        return None if text is None else json.loads(text)
    except (ValueError, RecursionError):
        return None
