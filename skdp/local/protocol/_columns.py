"""How reports are laid out in columns: attributes, names, whole numbers, and the column of what was sampled."""

from __future__ import annotations

import re
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.domain import Domain, Interval

SAMPLED = "sampled"
"""The column that says, under ``strategy="sample"``, which attribute a row reports."""

_DIGITS = re.compile(r"[0-9]{1,19}")


def attributes_of(domain: Domain, strategy: str) -> list[tuple[Any, ...]]:
    """Return the columns of each attribute."""
    return [domain.columns] if strategy == "joint" else [(name,) for name in domain.columns]


def value_labels(domain: Domain) -> list[str]:
    """Label each combination of values of the columns."""
    cells = product(*(domain[column].labels for column in domain.columns))
    return ["_".join("missing" if value is None else str(value) for value in cell) for cell in cells]


def named_characters(domain: Domain) -> int:
    """Count the characters of the names of a column for each cell: those of the columns, and its label."""
    pairs = [(name, domain[name].labels) for name in domain.columns]
    each = sum(len(str(name)) + sum(len(str(label)) for label in own) / len(own) + 2 for name, own in pairs)
    return int(domain.size * each)


def read_sampled(column: Any, n_attributes: int) -> NDArray[np.integer]:
    """Read which attribute each row reports."""
    numbers = read_floats(np.asarray(column))
    if not np.isin(numbers, np.arange(n_attributes)).all():
        raise ValueError(f"column {SAMPLED!r} must hold numbers from 0 to {n_attributes - 1}")
    return numbers.astype(np.intp)


def spread(part: NDArray[Any], rows: NDArray[np.bool_]) -> NDArray[Any]:
    """Put the reports of some rows in their places, and 0 elsewhere."""
    whole = np.zeros((len(rows), *part.shape[1:]), part.dtype)
    whole[rows] = part
    return whole


def plain_values(values: Any) -> Any:
    return (values.edges, values.missing) if isinstance(values, Interval) else values.values


def read_whole_numbers(block: NDArray[Any]) -> NDArray[np.uint64]:
    """Read whole numbers that came as floats, or as text, as JSON has those of more than 53 bits."""
    if block.dtype.kind in "OUT" and all(_is_whole(value) for value in block.flat):
        return np.array([[int(value) for value in row] for row in block], np.uint64)
    whole = read_floats(block)
    if not (np.isfinite(whole).all() and (whole == np.floor(whole)).all() and (whole >= 0).all()):
        raise ValueError("the reports hold something else than whole numbers")
    return whole.astype(np.uint64)


def _is_whole(value: Any) -> bool:
    if isinstance(value, str):
        return _DIGITS.fullmatch(value) is not None
    return isinstance(value, int) and 0 <= value < 1 << 64


def read_floats(block: NDArray[Any]) -> NDArray[np.float64]:
    try:
        return block.astype(float)
    except Exception:
        pass  # it may hold a value, and would be the context of an error that is raised here
    raise ValueError("the reports hold something else than numbers")
