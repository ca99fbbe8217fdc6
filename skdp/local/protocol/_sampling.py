"""Which attributes a record reports: a random sample of them, drawn without looking at a value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.privacy import check_epsilon
from skdp.randomness import ByteSource, uniform_integers

_UNITS = 1 << 24
"""The sum of the weights that are given, as whole numbers."""


@dataclass(frozen=True)
class Sampling:
    """A sample of `size` attributes for each record, each included with a probability proportional to its weight."""

    weights: tuple[int, ...]
    size: int

    @property
    def inclusions(self) -> list[Fraction]:
        """The probability that a record reports each attribute."""
        total = sum(self.weights)
        return [Fraction(self.size * weight, total) for weight in self.weights]

    def draw(self, source: ByteSource, n_rows: int) -> NDArray[np.bool_]:
        """Draw the attributes of each row: as many bytes, whatever is drawn."""
        # Systematic sampling: the weights, times `size`, are laid end to end in a random order, and those are taken
        # that hold one of `size` points, a whole sum of weights apart, whose start is uniform. No weight holds two.
        total, n = sum(self.weights), len(self.weights)
        start = uniform_integers(source, total, n_rows).astype(np.int64)[:, np.newaxis]
        order = np.broadcast_to(np.arange(n), (n_rows, n))
        if self.size > 1:
            words = np.column_stack([source.bytes(8 * n_rows).view("<u8") for _ in range(n)])
            order = np.argsort(words, axis=1, kind="stable")
        ends = np.cumsum(np.array(self.weights)[order] * self.size, axis=1)
        passed = np.pad((ends - start - 1) // total + 1, ((0, 0), (1, 0)))
        drawn = np.empty((n_rows, n), bool)
        np.put_along_axis(drawn, order, np.diff(passed, axis=1) > 0, axis=1)
        return drawn


def whole_weights(weights: Any, names: Sequence[Any]) -> tuple[int, ...]:
    """Read the weights of columns as whole numbers, none of them 0."""
    if isinstance(weights, str) and weights == "uniform":
        return (1,) * len(names)
    if not isinstance(weights, dict):
        raise ValueError(f"weights must be 'uniform' or a mapping of column to number, got {weights!r}")
    if set(weights) != set(names):
        raise ValueError(f"weights must name the columns {list(names)}, got {list(weights)}")
    given = [check_epsilon(weights[name], name=f"the weight of column {name!r}") for name in names]
    total = sum(given)
    return tuple(max(1, round(_UNITS * weight / total)) for weight in given)
