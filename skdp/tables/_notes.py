"""What tables of reports say of their origin: their protocol, and counts of the releases that they are of."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Iterable, Mapping
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

_MOST_REPORTS = 1 << 56
"""Limit on a count, so that sums of several fit into 64 bits."""


class Releases(dict[str, str]):
    """Releases by their numbers, and the counts of each as JSON: of its reports, and of the parts of these."""

    # pandas keeps the attrs of tables that it joins only if all are equal, and then
    # those of the first one. So the releases of reports compare as equal: their
    # protocol, in the same attrs, is kept. The note of a joined table then lists too
    # few reports, which `check_releases` says. An operand is never changed: it is the
    # note of another table.
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
        number = secrets.token_hex(8)
        if call is not None:
            number = hashlib.sha256(f"{call} {text}".encode()).hexdigest()[:16]
        return cls({number: text})

    def total(self, size: int) -> NDArray[np.int64] | None:
        """Add up the counts of all releases; None if they are not so many whole numbers each."""
        total = np.zeros(size, np.int64)
        for text in self.values():
            counts = _parsed(text) if isinstance(text, str) else None
            if not isinstance(counts, list) or len(counts) != size:
                return None
            if not all(type(n) is int and 0 <= n < _MOST_REPORTS for n in counts):
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
    notes = {**metadata, PROTOCOL_KEY: text}
    if releases is not None:
        notes[RELEASES_KEY] = json.dumps(releases)
    return schema.with_metadata(notes)


def carried_text(table: Any) -> str | None:
    """Return the protocol that a table carries."""
    return _text_in(_attrs_of(table))


def text_of(metadata: Mapping[bytes, bytes]) -> str | None:
    """Find the protocol in the metadata of an Arrow schema."""
    return _text_in(_attrs_in(metadata))


def _text_in(listed: Iterable[dict[Any, Any]]) -> str | None:
    notes = [attrs.get(PROTOCOL_KEY) for attrs in listed]
    texts = {note for note in notes if isinstance(note, str)}
    if len(texts) > 1:
        raise ValueError(
            "reports of two protocols are never added: the metadata of these says "
            "different ones"
        )
    return texts.pop() if texts else None


def carried_releases(table: Any) -> Releases | None:
    """Return the releases that a table says it is of; None if it says none."""
    return _releases_in(_attrs_of(table))


def releases_of(metadata: Mapping[bytes, bytes]) -> Releases | None:
    """Find the releases in the metadata of an Arrow schema."""
    return _releases_in(_attrs_in(metadata))


def _releases_in(listed: Iterable[dict[Any, Any]]) -> Releases | None:
    """Return the first releases; none are listed if they are no such note."""
    for attrs in listed:
        if RELEASES_KEY in attrs:
            note = attrs[RELEASES_KEY]
            is_note = isinstance(note, dict) and len(note) <= _MOST_RELEASES
            return Releases(note if is_note else {})
    return None


def _attrs_of(table: Any) -> list[dict[Any, Any]]:
    if isinstance(table, pd.DataFrame):
        return [table.attrs]
    return _attrs_in(_metadata_of(table))


def _attrs_in(metadata: Mapping[bytes, bytes]) -> list[dict[Any, Any]]:
    """Return the notes in the metadata of an Arrow schema: our own, and where pandas and pyarrow may have put them."""
    attrs: dict[str, Any] = {}
    text = metadata.get(PROTOCOL_KEY.encode())
    if text is not None:
        attrs[PROTOCOL_KEY] = text.decode(errors="replace")
    releases = metadata.get(RELEASES_KEY.encode())
    if releases is not None:
        attrs[RELEASES_KEY] = _parsed(releases)
    pandas_attrs = _parsed(metadata.get(ATTRS_KEY.encode()))
    listed = (attrs, pandas_attrs, pandas_note(metadata).get("attributes"))
    return [each for each in listed if isinstance(each, dict)]


def _metadata_of(table: Any) -> Mapping[bytes, bytes]:
    """Return the metadata of an Arrow table."""
    if not type(table).__module__.startswith("pyarrow"):
        return {}
    return getattr(getattr(table, "schema", None), "metadata", None) or {}


def pandas_note(metadata: Mapping[bytes, bytes]) -> dict[str, Any]:
    """Return what pandas wrote into the metadata of an Arrow schema."""
    note = _parsed(metadata.get(b"pandas"))
    return note if isinstance(note, dict) else {}


def _parsed(text: bytes | str | None) -> Any:
    try:
        return None if text is None else json.loads(text)
    except (ValueError, RecursionError):
        return None


def joined_releases(parts: Iterable[Releases | None]) -> Releases | None:
    """Return the releases of the parts of a table; None if a part says none, or there is none."""
    joined = None
    for part in parts:
        if part is None:
            return None
        joined = Releases({**(joined or {}), **part})
    return joined


def without_releases(table: Any) -> Any:
    """Return a table that does not say its releases, which follow from its reports and a random number."""
    if carried_releases(table) is None:
        return table
    if isinstance(table, pd.DataFrame):
        bare = table.copy(deep=False)
        bare.attrs = dict(table.attrs)
        del bare.attrs[RELEASES_KEY]
        return bare
    metadata = dict(table.schema.metadata)
    metadata.pop(RELEASES_KEY.encode(), None)
    for key in (ATTRS_KEY.encode(), b"pandas"):
        note = _parsed(metadata.get(key))
        attrs = note.get("attributes") if key == b"pandas" and note else note
        if isinstance(attrs, dict) and attrs.pop(RELEASES_KEY, None) is not None:
            metadata[key] = json.dumps(note).encode()
    return table.replace_schema_metadata(metadata)
