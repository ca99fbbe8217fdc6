"""Columns that look like identifiers: by their names, and as no value occurs twice."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.coding import ColumnError, kind_of, plain, shielded
from skdp.frames import read_table

MOST_ROWS = 1 << 12
"""The rows that are looked at."""

_FEWEST_TEXTS, _FEWEST_NUMBERS = 50, 200
"""Rows from which on values that do not repeat are a sign: a series has a number for each year, a page few names."""

_LEAST_REPEATS = 5
"""Repeats to expect of values that are drawn at random: none occurs with probability exp(-5), below 1 in 100."""

_FEWEST_DIGITS = 6

_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_NAMES = frozenset(
    {"id", "uuid", "guid", "ssn", "email", "phone", "telephone", "iban", "passport"}
)


def is_named_as_identifier(name: Any) -> bool:
    """Return whether a word of a name is one of those of identifiers, such as in ``customerId``."""
    return not _NAMES.isdisjoint(word.lower() for word in _WORDS.findall(str(name)))


def unrepeated_columns(frame: Any) -> set[Any]:
    """Name the columns of some rows in which no value occurs twice, as in identifiers and hardly in anything else."""
    table = read_table(frame)
    found = set()
    for name, column in zip(table.names, table.columns, strict=True):
        with suppress(ColumnError):  # no such column is drafted
            if shielded(_looks_unrepeated, name, column):
                found.add(name)
    return found


def _looks_unrepeated(name: Any, column: Any) -> bool:
    values = [plain(value) for value in _to_list(column)]
    known = [value for value in values if value is not None]
    kinds = {kind_of(value) for value in known}
    if (
        kinds not in ({"string"}, {"number"})
        or len(known) < 2
        or len(set(known)) < len(known)
    ):
        return False
    if kinds == {"string"}:
        return is_named_as_identifier(name) or len(known) >= _FEWEST_TEXTS
    numbers = np.array(known, float)
    if not (np.isfinite(numbers) & (numbers == np.floor(numbers))).all():
        return False
    return is_named_as_identifier(name) or _are_numbered(numbers)


def _to_list(column: Any) -> list[Any]:
    first = column[:MOST_ROWS]
    method = next(
        name for name in ("to_pylist", "to_list", "tolist") if hasattr(first, name)
    )
    found: list[Any] = getattr(first, method)()
    return found


def _are_numbered(numbers: NDArray[np.float64]) -> bool:
    """Return whether distinct whole numbers count rows or are codes of one length: measured ones repeat, or vary."""
    if numbers.size < _FEWEST_NUMBERS:
        return False
    # n values that are drawn from R ones at random have about n (n - 1) / 2 R pairs that are equal.
    n_pairs = numbers.size * (numbers.size - 1) / 2
    if n_pairs / (np.ptp(numbers) + 1) >= _LEAST_REPEATS:
        return True
    lengths: Sequence[int] = [len(str(int(number))) for number in numbers]
    return min(numbers) > 0 and len(set(lengths)) == 1 and lengths[0] >= _FEWEST_DIGITS
