"""The functions that open tables which do not fit into memory.

Rooms above `skdp.tables` register them. This file imports nothing, so that registering one costs no time.
"""

from collections.abc import Callable
from typing import Any

# Each returns a `skdp.tables.LargeTable`, or None for other tables.
openers: list[Callable[[Any], Any]] = []


def register_large_tables(opener: Callable[[Any], Any]) -> None:
    """Register a function that opens large tables."""
    openers.append(opener)
