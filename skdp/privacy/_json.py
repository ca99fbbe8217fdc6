"""Records as JSON."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from itertools import starmap
from numbers import Integral
from typing import Any, ClassVar, Self

from skdp.markup import written_text

VERSION = 1

_MAX_CHARACTERS = 1 << 26

# Larger whole numbers are not exact in JavaScript and others; names of columns beyond
# are written as text.
_LARGEST_NAME = 1 << 53

_KINDS: dict[type, str] = {
    dict: "an object",
    list: "an array",
    str: "a string",
    bool: "true or false",
    type(None): "null",
}


class JsonRecord(ABC):
    """Mixin of what is written as a versioned JSON record."""

    _format: ClassVar[str]

    @abstractmethod
    def _content(self) -> dict[str, Any]:
        """Return the fields of the record."""

    def to_dict(self) -> dict[str, Any]:
        """Return the record, of lists, mappings, texts and numbers.

        Returns
        -------
        dict
            The fields in the order of the JSON schema ``record.schema.json`` of `skdp.privacy`, beginning with
            ``format`` and ``version``.

        Notes
        -----
        **Privacy.** A record has names (of columns, steps, mechanisms and releases) and the numbers of guarantees: no
        value of the data, no declared value, no seed, no key and no path.

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
            ASCII; floats are written so that they are read back exactly.

        Notes
        -----
        **Privacy.** As of `to_dict`.

        Examples
        --------
        >>> from skdp import PrivacyGuarantee
        >>> PrivacyGuarantee(0.1).to_json()
        '{"format": "skdp-guarantee", "version": 1, "epsilon": 0.1, "delta": 0.0, "relation": "replace", ...}'
        """
        return json.dumps(self.to_dict(), allow_nan=False)


class ReadableRecord(JsonRecord):
    """Mixin of records that can be read back."""

    @classmethod
    @abstractmethod
    def _of(cls, fields: Fields) -> Self:
        """Make the object of its fields."""

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read a record that `to_json` wrote.

        Parameters
        ----------
        text : str
            The JSON text, of at most 67,108,864 characters.

        Returns
        -------
        object
            An equal object; names of columns that are neither text nor whole numbers are text. A ledger is read-only.

        Raises
        ------
        TypeError
            If it is not a str.
        ValueError
            If it is too long, not such a record, or of another version, or if a field is missing, unknown or out of
            range; the field is named.

        Notes
        -----
        **Privacy.** A record is not signed: it says what its author says. Nothing is executed.

        Examples
        --------
        >>> from skdp import PrivacyGuarantee
        >>> PrivacyGuarantee.from_json(PrivacyGuarantee(0.1).to_json()) == PrivacyGuarantee(0.1)
        True
        """
        fields = Fields(_parsed(text))
        fields.one_of("format", [cls._format])
        version = fields.take("version")
        if isinstance(version, bool) or version != VERSION:
            raise ValueError(
                f"version must be {VERSION}: this version of skdp reads no other, got "
                f"{_short(version)}"
            )
        record = cls._of(fields)
        fields.close()
        return record


def _parsed(text: Any) -> Any:
    if not isinstance(text, str):
        raise TypeError(f"text must be a str, got {type(text).__name__}")
    if len(text) > _MAX_CHARACTERS:
        raise ValueError(
            f"text must have at most {_MAX_CHARACTERS:,} characters, got {len(text):,}"
        )
    try:
        return json.loads(text, parse_float=_read_float)
    except (json.JSONDecodeError, RecursionError):
        raise ValueError("text is no JSON") from None


def _read_float(digits: str) -> float:
    """Read a float, but refuse one that would be rounded down to 0: a loss would be stated as none."""
    number = float(digits)
    if number == 0 and digits.lower().partition("e")[0].strip("-0."):
        raise ValueError("text holds a number that is smaller than any float but 0")
    return number


def _short(value: Any) -> str:
    """Show a value of a file, unless it is large."""
    if isinstance(value, str):
        return repr(value[:40])
    return repr(value) if isinstance(value, int | float) else kind(value)


def kind(value: Any) -> str:
    """Return what a value is called in JSON."""
    return _KINDS.get(type(value), "a number")


class Fields:
    """The fields of a JSON object, each taken once; an error names the field."""

    def __init__(self, content: Any, place: str = "") -> None:
        self._left = dict(_typed(content, dict, place or "the record"))
        self._place = place

    def at(self, name: str) -> str:
        """Return the full name of a field."""
        return f"{self._place}.{name}" if self._place else name

    def take(self, name: str) -> Any:
        """Return the value of a field, whatever it is."""
        if name not in self._left:
            raise ValueError(f"{self.at(name)} is missing")
        return self._left.pop(name)

    def has(self, name: str) -> bool:
        """Whether a field is there and was not taken yet."""
        return name in self._left

    def close(self) -> None:
        """Refuse fields that were not taken."""
        if self._left:
            unknown = ", ".join(map(_short, list(self._left)[:5]))
            owner = f" of {self._place}" if self._place else ""
            raise ValueError(f"unknown fields{owner}: {unknown}")

    def checked(self, name: str, check: Callable[..., Any]) -> Any:
        """Return what a check returns of a value; it gets the full name too."""
        try:
            return check(self.take(name), name=self.at(name))
        except TypeError as error:
            raise ValueError(str(error)) from None

    def number(self, name: str, check: Callable[..., Any]) -> float:
        """Return a float that passes a check, which gets the full name too."""
        value = self.take(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"{self.at(name)} must be a number, got {kind(value)}")
        check(value, name=self.at(name))
        return float(value)

    def optional(self, name: str, read: Callable[[str], Any]) -> Any:
        """Return None for null, and otherwise what a method reads."""
        if self.has(name) and self._left[name] is None:
            return self._left.pop(name)
        return read(name)

    def one_of(self, name: str, options: Sequence[str]) -> Any:
        value = self.take(name)
        if not isinstance(value, str) or value not in options:
            choices = " or ".join(map(repr, options))
            raise ValueError(f"{self.at(name)} must be {choices}, got {_short(value)}")
        return value

    def flag(self, name: str) -> bool:
        return bool(_typed(self.take(name), bool, self.at(name)))

    def text(self, name: str) -> str:
        return _text(self.take(name), self.at(name))

    def column(self, name: str) -> str | int:
        return _column(self.take(name), self.at(name))

    def columns(self, name: str) -> tuple[str | int, ...]:
        return tuple(starmap(_column, self._items(name)))

    def part(self, name: str, read: Callable[[Fields], Any]) -> Any:
        """Read an object within this one."""
        return _read(self.take(name), self.at(name), read)

    def parts(
        self, name: str, read: Callable[[Fields], Any], *, most: int | None = None
    ) -> list[Any]:
        """Read an array of objects, of at most a number."""
        items = list(self._items(name))
        if most is not None and len(items) > most:
            raise ValueError(f"{self.at(name)} must have at most {most:,} items")
        return [_read(*item, read) for item in items]

    def _items(self, name: str) -> Iterator[tuple[Any, str]]:
        """Yield the items of an array, each with its place."""
        items = _typed(self.take(name), list, self.at(name))
        for index, item in enumerate(items):
            yield item, f"{self.at(name)}[{index}]"


def _typed(value: Any, form: type, place: str) -> Any:
    if not isinstance(value, form):
        raise ValueError(f"{place} must be {_KINDS[form]}, got {kind(value)}")
    return value


def _read(value: Any, place: str, read: Callable[[Fields], Any]) -> Any:
    fields = Fields(value, place)
    content = read(fields)
    fields.close()
    return content


def _text(value: Any, place: str) -> str:
    # JSON may escape half of a character, which no encoding can write again.
    text = str(_typed(value, str, place))
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(
            f"{place} must be a string of Unicode characters, got half of one"
        ) from None
    return text


def _column(value: Any, place: str) -> str | int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if not isinstance(value, str):
        raise ValueError(
            f"{place} must be a string or a whole number, got {kind(value)}"
        )
    return _text(value, place)


def written_name(name: Any) -> str | int:
    """Return the name of a column as it is written: text, unless a whole number."""
    is_whole = isinstance(name, Integral) and not isinstance(name, bool)
    if is_whole and abs(int(name)) < _LARGEST_NAME:
        return int(name)
    return written_text(name)
