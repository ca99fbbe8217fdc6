"""Tables of reports that say by which protocol they were made."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd

from skdp.local._protocol_file import parse_protocol, refuse_other
from skdp.local.protocol import OracleProtocol

PROTOCOL_KEY = "skdp.protocol"
"""The key in the metadata of Arrow and Parquet schemas, and in the ``attrs`` of pandas."""

_PANDAS_KEY = b"PANDAS_ATTRS"
_MOST_VALUES = 1 << 11
"""Declared values of reports in memory that say them: a copy goes into each pickle and file."""


def protocol_text(transformer: Any) -> str | None:
    """Return the JSON that reports carry, None if they carry none."""
    written = transformer._written
    try:
        text: str | None = written.text if written.is_carried else None
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
        return table.replace_schema_metadata({**(table.schema.metadata or {}), PROTOCOL_KEY: text})
    return table


def carried_text(table: Any) -> str | None:
    """Return the protocol that a table carries."""
    if isinstance(table, pd.DataFrame):
        found = table.attrs.get(PROTOCOL_KEY)
        return found if isinstance(found, str) else None
    if not type(table).__module__.startswith("pyarrow"):
        return None
    metadata = getattr(getattr(table, "schema", None), "metadata", None)
    return text_of(metadata or {})


def text_of(metadata: dict[bytes, bytes]) -> str | None:
    """Find a protocol in the metadata of an Arrow schema, which may come from pandas."""
    if (found := metadata.get(PROTOCOL_KEY.encode())) is not None:
        return found.decode(errors="replace")
    if (attrs := metadata.get(_PANDAS_KEY)) is None:
        return None
    try:
        found = json.loads(attrs).get(PROTOCOL_KEY)
    except (ValueError, AttributeError, RecursionError):
        return None
    return found if isinstance(found, str) else None


def text_in_memory(transformer: Any) -> str | None:
    """Return the JSON that reports in memory carry: none if it is large."""
    protocol = transformer.protocol_
    large = isinstance(protocol, OracleProtocol) and sum(protocol.domain.sizes) > _MOST_VALUES
    return None if large else protocol_text(transformer)


def check_carried(text: str | None, transformer: Any) -> None:
    """Refuse reports of another protocol than a transformer's; what carries none, or cannot be compared, passes."""
    if text is None:
        return
    own = protocol_text(transformer)
    if own is None:
        parse_protocol(text)
    else:
        refuse_other(text, own)
