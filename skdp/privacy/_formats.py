"""Checks of epsilon and delta, formats of guarantees as text, and JSON records."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from html import escape
from numbers import Real
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from skdp._json import check_version, parse_json, value_to_json
from skdp.exact import round_up
from skdp.randomness import check_type


def check_epsilon(
    value: object, *, name: str = "epsilon", zero: bool = False
) -> Fraction:
    """Check a privacy loss, > 0 or with `zero` >= 0, and return it as an exact fraction."""
    sign = ">= 0" if zero else "> 0"
    exact = _to_fraction(value, name, f"a finite number {sign}")
    if exact is None or exact < 0 or (exact == 0 and not zero):
        raise ValueError(f"`{name}` must be a finite number {sign}, got {value}.")
    return exact


def check_delta(value: object) -> Fraction:
    """Check the parameter `delta`, a failure probability, and return it as an exact fraction."""
    exact = _to_fraction(value, "delta", "a number in [0, 1)")
    if exact is None or not 0 <= exact < 1:
        raise ValueError(f"`delta` must be a number in [0, 1), got {value}.")
    return exact


def check_choice(name: str, value: object, choices: Collection[str]) -> None:
    """Check that a value is one of some strings."""
    if not isinstance(value, str) or value not in choices:
        expected = ", ".join(map(repr, choices))
        raise ValueError(f"`{name}` must be one of {expected}, got {value!r:.40}.")


# A fraction may be in the range although the next larger float is not. So the next two
# functions check the rounded number too.
def check_loss(value: object, name: str) -> float:
    """Check a privacy loss, which may be 0, and round it up to a float."""
    rounded = round_up(check_epsilon(value, name=name, zero=True))
    return float(check_epsilon(rounded, name=name, zero=True))


def check_failure(value: object) -> float:
    """Check a failure probability and round it up to a float."""
    return float(check_delta(round_up(check_delta(value))))


def _to_fraction(value: Any, name: str, expected: str) -> Fraction | None:
    """Return a real number as a fraction; None if it is not finite as a float."""
    numbers = float | Fraction | Real
    check_type(name, value, numbers, expected, excluded=bool | np.bool_)
    try:
        nearest = float(value)
        return Fraction(value if isinstance(value, int | Fraction) else nearest)
    except (OverflowError, ValueError):
        return None


# Decimals that exceed a shorter decimal by less than this fraction are not rounded up, so
# that 0.1 + 0.2 is formatted as 0.3.
_TOLERANCE = Decimal("1e-12")


def format_number(number: float) -> str:
    """Format a number with at most six significant digits, rounded up."""
    tolerant = Decimal(float(number)) * (1 - _TOLERANCE)
    digits = Context(prec=6, rounding=ROUND_CEILING).create_decimal(tolerant)
    return f"{digits.normalize():f}"


def format_amounts(epsilon: float, delta: float) -> str:
    """Format epsilon, and delta unless it is 0."""
    text = f"epsilon = {format_number(epsilon)}"
    return f"{text}, delta = {format_number(delta)}" if delta else text


def format_percent(probability: float) -> str:
    """Format a bound of a probability as a number of 100, rounded up to one decimal.

    Decimals are added if the number would be rounded up to 100.
    """
    for n_decimals in (1, 2):
        percent = _ceil(100 * probability, n_decimals)
        if percent < 100:
            return f"at most {percent.normalize():f}"
    return "nearly 100" if probability < 1 else "possibly 100"


def _ceil(number: float, n_decimals: int) -> Decimal:
    """Round a number up to some decimals, except for `_TOLERANCE`."""
    tolerant = Decimal(number) * (1 - _TOLERANCE)
    return tolerant.quantize(Decimal(1).scaleb(-n_decimals), rounding=ROUND_CEILING)


# Version of the formats of guarantees and ledgers.
VERSION = 1


class JsonRecord(ABC):
    """Base class of objects with a JSON representation, which has a format name and a version."""

    _format: ClassVar[str]
    _version: ClassVar[int] = VERSION

    @abstractmethod
    def _to_fields(self) -> dict[str, Any]:
        """Return the fields of the record."""

    def to_dict(self) -> dict[str, Any]:
        """Return the record as a dict that can be written as JSON.

        Returns
        -------
        dict
            Fields in the order of the JSON schema ``record.schema.json`` of `skdp.privacy`, beginning with ``format``
            and ``version``.

        Notes
        -----
        **Privacy.** A record contains names (of columns, steps, mechanisms and releases), the numbers of guarantees,
        and for the note of method declared bounds and largest weights. It contains no value of the data, no other
        declared value, no seed, no key and no path.

        Examples
        --------
        >>> from skdp import PrivacyGuarantee
        >>> list(PrivacyGuarantee(1.0).to_dict())[:4]
        ['format', 'version', 'epsilon', 'delta']
        """
        content = {"format": self._format, "version": self._version}
        # Lone surrogates in names are replaced, because they cannot be encoded.
        text = json.dumps(content | self._to_fields(), ensure_ascii=False)
        return json.loads(format_text(text))

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


def parse_record(
    text: str, record_format: str, names: Collection[str], missing: Mapping[str, Any]
) -> dict[str, Any]:
    """Parse the JSON of a record, check its format and that it has exactly the fields `names`, and return them.

    `missing` has the values of fields that earlier versions did not write.
    """
    check_type("text", text, str, "a str")
    content = parse_json(text, "`text`")
    found = content.get("format") if isinstance(content, dict) else None
    if found != record_format:
        raise ValueError(
            f"`text` must be a JSON object with the format {record_format!r}, got "
            f"{found!r:.40}."
        )
    check_version(content.get("version"), VERSION, "The record")
    content = {**missing, **content}
    check_fields(content, ["format", "version", *names], "The record")
    return {name: content[name] for name in names}


def check_fields(content: object, names: Collection[str], where: str) -> None:
    """Check that a JSON object has exactly the given fields; `where` is the subject of errors."""
    if not isinstance(content, dict) or content.keys() != set(names):
        # The names of other fields may be data of the user.
        found = type(content).__name__
        if isinstance(content, dict):
            found = "other fields"
        raise ValueError(
            f"{where} must have the fields {', '.join(names)}, got {found}."
        )


def write_name(name: object) -> Any:
    """Convert a column name to types of JSON; names of other types become text."""
    try:
        return value_to_json(name)
    except TypeError:
        return format_name(name)


def format_name(name: Any) -> str:
    """Return a column name as text; "missing" for None and NaN."""
    is_missing = pd.api.types.is_scalar(name) and pd.isna(name)
    return "missing" if is_missing else format_text(name)


def format_text(text: object) -> str:
    """Return a string with lone surrogates replaced, because they cannot be encoded."""
    return str(text).encode(errors="replace").decode()


def format_html(title: str, tables: Iterable[pd.DataFrame] = (), *texts: str) -> str:
    """Return an object as HTML for notebooks: a sentence, tables, and further sentences."""
    with pd.option_context("display.max_colwidth", None):
        parts = [table.to_html(na_rep="", max_rows=100) for table in tables]
    first, *rest = (f"<p>{escape(format_text(text))}</p>" for text in (title, *texts))
    return f"<div>{''.join([first, *parts, *rest])}</div>"


def format_row(row: Iterable[Any]) -> tuple[Any, ...]:
    """Return a row with its texts as `format_text` writes them."""
    return tuple(format_text(cell) if isinstance(cell, str) else cell for cell in row)
