"""JSON of others, in bounded time and memory."""

from __future__ import annotations

import json
from typing import Any, NoReturn

_MOST_CHARACTERS, _MOST_ITEMS, _MOST_DIGITS = 1 << 24, 1 << 19, 1000


def parse_json(text: str, what: str, most_items: int = _MOST_ITEMS) -> Any:
    """Parse JSON of others, in bounded time and memory; None if it is none."""
    if len(text) > _MOST_CHARACTERS:
        raise ValueError(f"{what} has at most {_MOST_CHARACTERS:,} characters, got {len(text):,}")
    if (items := sum(map(text.count, "[,")) + 4 * text.count("{")) > most_items:
        raise ValueError(f"{what} has at most {most_items:,} values, got {items:,}")
    try:
        return json.loads(text, parse_int=_whole, parse_constant=_refuse)
    except (ValueError, RecursionError, MemoryError):
        return None


def _whole(text: str) -> int:
    return int(text) if len(text) <= _MOST_DIGITS else _refuse(text)


def _refuse(text: str) -> NoReturn:
    raise ValueError
