"""What reports say of some columns together: unbiased counts, and their covariances."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np
from numpy.typing import NDArray

from skdp.oracles import FrequencyOracle
from skdp.synthesis.model import Clique, expand, project

Matrix = NDArray[np.float64]

_MOST_OUTCOMES = 1 << 16
"""Entries of a channel that is enumerated."""


@dataclass(frozen=True, eq=False)
class ReportedGroup:
    """The reports of columns that are one attribute, or of a single column."""

    columns: Clique
    sizes: tuple[int, ...]
    oracle: FrequencyOracle
    support: NDArray[np.int64]
    n_reports: int

    @property
    def is_known(self) -> bool:
        """Whether anything can be learnt from them."""
        return self.n_reports > 0 and self.oracle.p != self.oracle.q

    @cached_property
    def counts(self) -> Matrix:
        """The unbiased counts of the records that report it, an axis a column."""
        return self.oracle.estimate(self.support, self.n_reports).reshape(self.sizes)

    @cached_property
    def _outcomes(self) -> tuple[Matrix, Matrix] | None:
        """All reports as unbiased vectors, and their probabilities given each value, if there is no closed form."""
        oracle = self.oracle
        known = not math.isnan(oracle.pair_supports[0]) or oracle.has_bits or oracle.shows_hash
        if known or oracle.k * oracle.n_reports > _MOST_OUTCOMES:
            return None
        return oracle.unbiased(np.arange(oracle.n_reports)), np.array(oracle.channel(), float)

    def cells_of(self, clique: Sequence[int]) -> int:
        """Count the cells of the group that make a cell of some of its columns."""
        return self.oracle.k // math.prod(self.sizes[self.columns.index(column)] for column in clique)

    def _spreads(self, together: int) -> tuple[float, float, float, float]:
        """Return the variances of how many of `together` cells a report supports, and two covariances."""
        # Of the cells of the true value and of others; of those of the true value with others, and of two others. They
        # follow from the probabilities that two cells are supported at once.
        oracle, g = self.oracle, together
        p, q, (with_true, without) = float(oracle.p), float(oracle.q), oracle.pair_supports
        if math.isnan(with_true + without):  # taken as uncorrelated, as nearly all of Hadamard response are
            with_true, without = p * q, q * q
        own, other = with_true - p * q, without - q * q
        inside = p * (1 - p) + (g - 1) * q * (1 - q) + 2 * (g - 1) * own + (g - 1) * (g - 2) * other
        outside = g * q * (1 - q) + g * (g - 1) * other
        gain = (p - q) ** 2
        return inside / gain, outside / gain, (g * own + g * (g - 1) * other) / gain, g * g * other / gain

    def noise(self, shares: Matrix, together: int) -> Matrix:
        """Return the covariances of what a random record adds to unbiased counts of `together` cells, given its own."""
        if together == 1 and self._outcomes is not None:
            vectors, channel = self._outcomes
            return (vectors.T * (shares @ channel)) @ vectors - np.diag(shares)
        inside, outside, with_own, apart = self._spreads(together)
        steps = (with_own - apart) * shares
        found = apart + steps[:, np.newaxis] + steps
        found[np.diag_indices(len(shares))] = outside + shares * (inside - outside)
        return found

    def variances(self, shares: Matrix, together: int) -> Matrix:
        """Return the diagonal of `noise`; nan where no closed form is known."""
        if together > 1 and math.isnan(self.oracle.pair_supports[0]):
            return np.full(shares.shape, np.nan)
        inside, outside, _, _ = self._spreads(together)
        return outside + shares * (inside - outside)

    def squares(self, together: int, size: int) -> Matrix:
        """Return the mean square of what a record adds to the unbiased count of each cell (row), given its cell."""
        return self.variances(np.eye(size), together) + np.eye(size)


@dataclass(frozen=True, eq=False)
class Reported:
    """What the reports of a table say of it."""

    sizes: tuple[int, ...]
    n_rows: int
    groups: tuple[ReportedGroup, ...]
    products: Matrix | None = None
    """The sums over the records of the products of all unbiased one-hot entries; 0 where one is not reported."""
    both: NDArray[np.int64] | None = None
    """How many records report each two groups."""

    def group_of(self, column: int) -> int:
        return next(place for place, group in enumerate(self.groups) if column in group.columns)

    def _parts(self, clique: Clique) -> list[int]:
        return sorted({self.group_of(column) for column in clique})

    def size_of(self, clique: Clique) -> int:
        """Return the number of records that tell of some columns together; 0 if nothing is known."""
        parts = self._parts(clique)
        if not all(self.groups[part].is_known for part in parts):
            return 0
        if len(parts) == 1:
            return self.groups[parts[0]].n_reports
        if len(clique) > 2 or self.both is None:
            return 0
        return int(self.both[parts[0], parts[1]])

    def counts(self, clique: Clique) -> Matrix:
        """Estimate the counts of some columns in all records, without bias."""
        parts, scale = self._parts(clique), self.n_rows / self.size_of(clique)
        if len(parts) == 1:
            group = self.groups[parts[0]]
            return scale * project(group.counts, group.columns, clique)
        assert self.products is not None  # else nothing is known of them
        rows, columns = (self._entries(column) for column in clique)
        return scale * self.products[rows, columns]

    def _entries(self, column: int) -> slice:
        start = sum(self.sizes[:column])
        return slice(start, start + self.sizes[column])

    def covariance(self, clique: Clique, shares: Matrix) -> Matrix:
        """Return the covariances of `counts`, flat, if the cells of the records are drawn with given shares."""
        # Of records that are reported by two groups, the products of independent unbiased vectors add up: the second
        # moments multiply. For pairs, `shares` are those of independent columns, so that the moments are a product.
        flat, size, parts = shares.ravel(), self.size_of(clique), self._parts(clique)
        if len(parts) == 1:
            group = self.groups[parts[0]]
            noise = group.noise(flat, group.cells_of(clique))
        else:
            one, two = (self._moments(column, shares.sum(axis=1 - axis)) for axis, column in enumerate(clique))
            noise = np.kron(one, two).astype(float)
            noise[np.diag_indices(flat.size)] -= flat
        return self._scaled(noise, np.diag(flat) - np.outer(flat, flat), size)

    def _moments(self, column: int, shares: Matrix) -> Matrix:
        """Return the mean products of the unbiased one-hot entries of a column."""
        group = self.groups[self.group_of(column)]
        return group.noise(shares, group.cells_of([column])) + np.diag(shares)

    def variances(self, clique: Clique, shares: Matrix) -> Matrix:
        """Return the variances of `counts` for any shares: exact, also for columns that go together."""
        size, parts = self.size_of(clique), self._parts(clique)
        if len(parts) == 1:
            group = self.groups[parts[0]]
            noise = group.variances(shares, group.cells_of(clique))
        else:
            groups = [self.groups[self.group_of(column)] for column in clique]
            one, two = (
                group.squares(group.cells_of([column]), self.sizes[column])
                for group, column in zip(groups, clique, strict=True)
            )
            noise = one @ shares @ two.T - shares
        return np.clip(self._scaled(noise, shares * (1 - shares), size), 0, None)

    def _scaled(self, noise: Matrix, spread: Matrix, size: int) -> Matrix:
        """Scale the covariances of one record's part to the counts of all, of which a sample of a size is known."""
        n = self.n_rows
        return n**2 / size * (noise + spread * ((n - size) / max(n - 1, 1)))


def independent(shares: Sequence[Matrix]) -> Matrix:
    """Multiply the shares of columns to a table of independent ones."""
    columns = tuple(range(len(shares)))
    return reduce(np.multiply, (expand(share, (column,), columns) for column, share in enumerate(shares)))
