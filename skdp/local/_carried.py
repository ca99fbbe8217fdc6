"""Tables of reports that say by which protocol they were made."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pandas as pd

from skdp.domain import pack
from skdp.local._protocol_file import parse_protocol, refuse_other
from skdp.local.protocol import OracleProtocol

PROTOCOL_KEY = "skdp.protocol"
"""The key in the metadata of Arrow and Parquet schemas, and in the ``attrs`` of pandas."""

ATTRS_KEY = "PANDAS_ATTRS"
"""The key of pandas' own JSON with the ``attrs`` of a frame, in Parquet files."""

_MOST_VALUES = 1 << 11
"""Declared values of reports in memory that say them: a copy goes into each pickle and file."""
_MOST_CHARACTERS = 1 << 18
"""Of a protocol that files say a second time, for pandas."""


def protocol_text(transformer: Any) -> str | None:
    """Return the JSON that reports carry, None if they carry none."""
    written = getattr(transformer, "_written", None)
    try:
        text: str | None = written.text if written is not None and written.is_carried else None
    except (TypeError, ValueError):  # such as declared values that JSON cannot hold
        return None
    return text


def with_protocol(table: Any, text: str | None) -> Any:
    """Attach a protocol to reports in pandas or pyarrow; other tables pass through."""
    if text is None:
        return table
    if isinstance(table, pd.DataFrame):
        table.attrs[PROTOCOL_KEY] = text
    elif type(table).__module__.startswith("pyarrow") and hasattr(table, "schema"):
        return table.replace_schema_metadata(schema_with_protocol(table.schema, text).metadata)
    return table


def schema_with_protocol(schema: Any, text: str | None) -> Any:
    """Attach a protocol to the schema of Arrow tables of reports, also where pandas finds the ``attrs`` of a frame."""
    if text is None:
        return schema
    import pyarrow

    metadata = schema.metadata or {}
    if len(text) <= _MOST_CHARACTERS:
        with suppress(NotImplementedError):  # of columns that pandas does not have, such as unions
            frame = with_protocol(schema.empty_table().to_pandas(), text)
            metadata = pyarrow.Table.from_pandas(frame, schema, preserve_index=False).schema.metadata
    return schema.with_metadata({**metadata, PROTOCOL_KEY: text})


def carried_text(table: Any) -> str | None:
    """Return the protocol that a table carries."""
    if isinstance(table, pd.DataFrame):
        return _text_in(table.attrs)
    if not type(table).__module__.startswith("pyarrow"):
        return None
    metadata = getattr(getattr(table, "schema", None), "metadata", None)
    return text_of(metadata or {})


def text_of(metadata: dict[bytes, bytes]) -> str | None:
    """Find the protocol in the metadata of an Arrow schema, where pandas and pyarrow may have put it too."""
    own = metadata.get(PROTOCOL_KEY.encode())
    places = _parsed(metadata.get(ATTRS_KEY.encode())), pandas_note(metadata).get("attributes")
    found = {None if own is None else own.decode(errors="replace"), *map(_text_in, places)} - {None}
    if len(found) > 1:
        raise ValueError("reports of two protocols are never added: the metadata of these says different ones")
    return found.pop() if found else None


def pandas_note(metadata: dict[bytes, bytes]) -> dict[str, Any]:
    """Return what pandas wrote into the metadata of an Arrow schema."""
    found = _parsed(metadata.get(b"pandas"))
    return found if isinstance(found, dict) else {}


def _parsed(text: bytes | None) -> Any:
    try:
        return None if text is None else json.loads(text)
    except (ValueError, RecursionError):
        return None


def _text_in(attrs: Any) -> str | None:
    found = attrs.get(PROTOCOL_KEY) if isinstance(attrs, dict) else None
    return found if isinstance(found, str) else None


def text_in_memory(transformer: Any) -> str | None:
    """Return the JSON that reports in memory carry: none if it is large."""
    protocol = transformer.protocol_
    large = isinstance(protocol, OracleProtocol) and sum(protocol.domain.sizes) > _MOST_VALUES
    return None if large else protocol_text(transformer)


def check_carried(text: str | None, transformer: Any) -> None:
    """Refuse reports of another protocol than a transformer's; what carries none passes."""
    if text is not None:
        refuse_other(text, protocol_text(transformer) or _compared_text(text, transformer))


def _compared_text(text: str, transformer: Any) -> str:
    """Return a text of a protocol that is not carried, which differs from a given one in what decides reports only."""
    content, protocol = parse_protocol(text), transformer.protocol_
    parameters = protocol.parameters()
    if "encoder" in parameters:  # a class of others reports as the one of ours that it is derived from
        ours = (kind.__name__ for kind in type(transformer).__mro__ if kind.__module__.startswith("skdp."))
        parameters["encoder"] = next(ours, None)
    try:
        own = {"columns": list(map(pack, protocol.columns)), "protocol": pack(parameters)}
    except (TypeError, ValueError):  # no text can be of it
        own = {"protocol": None}
    return json.dumps(content | own)
