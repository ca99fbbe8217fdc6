"""What tables of reports say of their origin: their protocol, and counts of the releases that they are of.

Internal: import nothing from here outside of skdp.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

PROTOCOL_KEY = "skdp.protocol"
"""The key of the protocol that reports carry: in the metadata of Arrow and Parquet, and in the ``attrs`` of pandas."""

RELEASES_KEY = "skdp.releases"
"""The key of the counts of the releases that reports are of, in the same places."""

ATTRS_KEY = "PANDAS_ATTRS"
"""The key of pandas' own JSON with the ``attrs`` of a frame, in Parquet files."""

_MOST_CHARACTERS = 1 << 18
"""Of a protocol that files say a second time, for pandas."""

_MOST_RELEASES = 1 << 16


class Releases(dict[str, str]):
    """Releases by their numbers, and the counts of each as JSON: of its reports, and of the parts of these."""

    # pandas keeps the attrs of tables that it joins only if all are equal, and then those of the first one. So the
    # releases of reports compare as equal: their protocol, in the same attrs, is kept. The note of a joined table then
    # lists too few reports, which `check_releases` says. An operand is never changed: it is the note of another table.
    def __eq__(self, other: object) -> bool:
        return isinstance(other, dict)

    __hash__ = None

    @classmethod
    def of(
        cls, counts: NDArray[np.int64] | None, call: str | None = None
    ) -> Self | None:
        """Note a release; its number is random, or that of a call that is drawn again from a seed."""
        if counts is None:
            return None
        text = json.dumps(counts.tolist(), separators=(",", ":"))
        number = (
            secrets.token_hex(8)
            if call is None
            else hashlib.sha256(f"{call} {text}".encode()).hexdigest()[:16]
        )
        return cls({number: text})

    def total(self, size: int) -> NDArray[np.int64] | None:
        """Add up the counts of all releases; None if they are not so many whole numbers each."""
        total = np.zeros(size, np.int64)
        for text in self.values():
            counts = _parsed(text.encode()) if isinstance(text, str) else None
            fitting = isinstance(counts, list) and len(counts) == size
            if not fitting or not all(
                type(count) is int and 0 <= count < 1 << 56 for count in counts
            ):
                return None
            total += np.array(counts, np.int64)
        return total


def carries_notes(table: Any) -> bool:
    """Return whether a table can say what it is."""
    is_arrow = type(table).__module__.startswith("pyarrow") and hasattr(table, "schema")
    return isinstance(table, pd.DataFrame) or is_arrow


def with_protocol(
    table: Any, text: str | None, releases: Releases | None = None
) -> Any:
    """Attach a protocol, and counts of releases, to reports in pandas or pyarrow; other tables pass through."""
    if text is None or not carries_notes(table):
        return table
    if not isinstance(table, pd.DataFrame):
        return table.replace_schema_metadata(
            schema_with_protocol(table.schema, text, releases).metadata
        )
    table.attrs[PROTOCOL_KEY] = text
    if releases is not None:
        table.attrs[RELEASES_KEY] = releases
    return table


def schema_with_protocol(
    schema: Any, text: str | None, releases: Releases | None = None
) -> Any:
    """Attach a protocol to the schema of Arrow tables of reports, also where pandas finds the ``attrs`` of a frame."""
    if text is None:
        return schema
    import pyarrow

    metadata = schema.metadata or {}
    if len(text) <= _MOST_CHARACTERS:
        with suppress(
            NotImplementedError
        ):  # of columns that pandas does not have, such as unions
            frame = with_protocol(schema.empty_table().to_pandas(), text, releases)
            metadata = pyarrow.Table.from_pandas(
                frame, schema, preserve_index=False
            ).schema.metadata
    noted = {} if releases is None else {RELEASES_KEY: json.dumps(releases)}
    return schema.with_metadata({**metadata, PROTOCOL_KEY: text, **noted})


def carried_text(table: Any) -> str | None:
    """Return the protocol that a table carries."""
    if isinstance(table, pd.DataFrame):
        return _text_in(table.attrs)
    return text_of(_metadata_of(table))


def carried_releases(table: Any) -> Releases | None:
    """Return the releases that a table says it is of; None if it says none."""
    if isinstance(table, pd.DataFrame):
        return _releases_in(table.attrs)
    return releases_of(_metadata_of(table))


def joined_releases(parts: Iterable[Releases | None]) -> Releases | None:
    """Return the releases of the parts of a table; None if a part says none."""
    listed = list(parts)
    if not listed or any(part is None for part in listed):
        return None
    joined = Releases()
    for part in listed:
        joined.update(part or {})
    return joined


def _metadata_of(table: Any) -> dict[bytes, bytes]:
    """Return the metadata of an Arrow table."""
    if not type(table).__module__.startswith("pyarrow"):
        return {}
    return getattr(getattr(table, "schema", None), "metadata", None) or {}


def text_of(metadata: dict[bytes, bytes]) -> str | None:
    """Find the protocol in the metadata of an Arrow schema, where pandas and pyarrow may have put it too."""
    own = metadata.get(PROTOCOL_KEY.encode())
    places = (
        _parsed(metadata.get(ATTRS_KEY.encode())),
        pandas_note(metadata).get("attributes"),
    )
    found = {
        None if own is None else own.decode(errors="replace"),
        *map(_text_in, places),
    } - {None}
    if len(found) > 1:
        raise ValueError(
            "reports of two protocols are never added: the metadata of these says different ones"
        )
    return found.pop() if found else None


def releases_of(metadata: dict[bytes, bytes]) -> Releases | None:
    """Find the releases in the metadata of an Arrow schema, or where pandas and pyarrow may have put them."""
    own = metadata.get(RELEASES_KEY.encode())
    if own is not None:
        return _releases_in({RELEASES_KEY: _parsed(own)})
    places = (
        _parsed(metadata.get(ATTRS_KEY.encode())),
        pandas_note(metadata).get("attributes"),
    )
    return next(
        (found for place in places if (found := _releases_in(place)) is not None), None
    )


def _releases_in(attrs: Any) -> Releases | None:
    """Return the releases in the attributes of a frame; none are listed if these are no such note."""
    if not isinstance(attrs, dict) or RELEASES_KEY not in attrs:
        return None
    found = attrs[RELEASES_KEY]
    return (
        Releases(found)
        if isinstance(found, dict) and len(found) <= _MOST_RELEASES
        else Releases()
    )


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


def without_releases(table: Any) -> Any:
    """Return a table that does not say its releases, which follow from its reports and a random number."""
    if carried_releases(table) is None:
        return table
    if isinstance(table, pd.DataFrame):
        bare = table.copy(deep=False)
        bare.attrs = {
            key: value for key, value in table.attrs.items() if key != RELEASES_KEY
        }
        return bare
    metadata = {
        key: value
        for key, value in table.schema.metadata.items()
        if key != RELEASES_KEY.encode()
    }
    for key, place in ((ATTRS_KEY, ()), ("pandas", ("attributes",))):
        content = _parsed(metadata.get(key.encode()))
        attrs = content
        for name in place:
            attrs = attrs.get(name) if isinstance(attrs, dict) else None
        if isinstance(attrs, dict) and attrs.pop(RELEASES_KEY, None) is not None:
            metadata[key.encode()] = json.dumps(content).encode()
    return table.replace_schema_metadata(metadata)
