"""Guarantees, ledgers and statements as JSON records."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import Any, ClassVar

import pandas as pd

from skdp._json import parse_json, write_value
from skdp.markup import written_text

VERSION = 1


class JsonRecord(ABC):
    """Mixin for objects that are written as a versioned JSON record."""

    _format: ClassVar[str]

    @abstractmethod
    def _content(self) -> dict[str, Any]:
        """Return the fields of the record."""

    def to_dict(self) -> dict[str, Any]:
        """Return the record as a dict of lists, dicts, strings and numbers.

        Returns
        -------
        dict
            Fields in the order of the JSON schema ``record.schema.json`` of `skdp.privacy`, beginning with ``format``
            and ``version``.

        Notes
        -----
        **Privacy.** A record contains names (of columns, steps, mechanisms and releases) and the numbers of guarantees.
        It contains no value of the data, no declared value, no seed, no key and no path.

        Examples
        --------
        >>> from skdp import PrivacyGuarantee
        >>> list(PrivacyGuarantee(1.0).to_dict())[:4]
        ['format', 'version', 'epsilon', 'delta']
        """
        return {"format": self._format, "version": VERSION, **self._content()}

    def to_json(self) -> str:
        """Return the record as JSON text.

        Returns
        -------
        str
            ASCII text. Floats are written so that they are read back exactly.

        Notes
        -----
        **Privacy.** See `to_dict`.

        Examples
        --------
        >>> from skdp import PrivacyGuarantee
        >>> PrivacyGuarantee(0.1).to_json()
        '{"format": "skdp-guarantee", "version": 1, "epsilon": 0.1, "delta": 0.0, "relation": "replace", ...}'
        """
        return json.dumps(self.to_dict(), allow_nan=False)


def parse_record(text: Any, format_name: str, names: Collection[str]) -> dict[str, Any]:
    """Return the fields of a record with this format and these names of fields."""
    if not isinstance(text, str):
        raise TypeError(f"text must be a str, got {type(text).__name__}")
    content = parse_json(text, "text")
    if not isinstance(content, dict):
        raise ValueError("text must be a JSON object")
    for name, expected in (("format", format_name), ("version", VERSION)):
        if name in content and content[name] != expected:
            raise ValueError(f"{name} must be {expected!r}, got {content[name]!r:.40}")
    check_fields(content, ["format", "version", *names], "the record")
    del content["format"], content["version"]
    return content


def check_fields(content: Any, names: Collection[str], where: str) -> None:
    """Check that a JSON object has exactly these fields."""
    if not isinstance(content, dict):
        raise ValueError(f"{where} must be an object, got {type(content).__name__}")
    missing = [name for name in names if name not in content]
    if missing:
        raise ValueError(f"{where} must have the field {missing[0]!r}")
    unknown = sorted(content.keys() - set(names))
    if unknown:
        raise ValueError(f"{where} has an unknown field: {unknown[0]!r:.40}")


def write_name(name: Any) -> Any:
    """Return a column name as it is written in a record, with its type if JSON has it."""
    try:
        return write_value(name)
    except TypeError:
        return format_name(name)


def format_name(name: Any) -> str:
    """Return a column name as text; all missing names have one text."""
    is_missing = pd.api.types.is_scalar(name) and pd.isna(name)
    return "missing" if is_missing else written_text(name)
