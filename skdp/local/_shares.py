"""How epsilon is divided among the attributes of a record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from skdp.privacy import check_epsilon


def attribute_epsilons(
    epsilon: Fraction | None, attributes: Sequence[tuple[Any, ...]], sizes: Sequence[int], strategy: str, shares: Any
) -> list[Fraction | None]:
    """Divide epsilon among the attributes of a record."""
    names = [columns[0] for columns in attributes]
    weights = _weights(names, sizes, shares if strategy == "split" else _checked_default(shares, strategy))
    if epsilon is None:
        if not isinstance(shares, str) or shares != "uniform":
            raise ValueError("p and q decide epsilon for each column: leave the shares 'uniform'")
        return [None] * len(attributes)
    if strategy != "split":
        return [epsilon] * len(attributes)
    return [epsilon * weight / sum(weights) for weight in weights]


def _checked_default(shares: Any, strategy: str) -> str:
    if not isinstance(shares, str) or shares != "uniform":
        raise ValueError(f"shares divide epsilon under strategy='split'; with {strategy!r} leave them 'uniform'")
    return "uniform"


def _weights(names: list[Any], sizes: Sequence[int], shares: Any) -> list[Fraction]:
    if isinstance(shares, str) and shares == "uniform":
        return [Fraction(1)] * len(names)
    if isinstance(shares, str) and shares == "proportional":
        return [Fraction(size) for size in sizes]
    if not isinstance(shares, Mapping):
        raise ValueError(f"shares must be 'uniform', 'proportional' or a mapping of column to number, got {shares!r}")
    if set(shares) != set(names):
        raise ValueError(f"shares must name the columns {names}, got {list(shares)}")
    return [check_epsilon(shares[name], name=f"the share of column {name!r}") for name in names]
