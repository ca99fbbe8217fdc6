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

    def groups_of(self, clique: Clique) -> list[ReportedGroup]:
        """Return the groups that tell of some columns together, of which each record reports one at most."""
        return [group for group in self.groups if group.is_known and {*clique} <= {*group.columns}]

    def _pair(self, clique: Clique) -> list[int]:
        """Return the two groups, other ones, that some records report both, and that have a column each; or none."""
        owners = [[place for place, group in enumerate(self.groups) if column in group.columns] for column in clique]
        if len(clique) != 2 or self.both is None or any(len(own) != 1 for own in owners):
            return []
        places = [place for own in owners for place in own]
        return places if all(self.groups[place].is_known for place in places) else []

    def size_of(self, clique: Clique) -> int:
        """Return the number of records that tell of some columns together; 0 if nothing is known."""
        if groups := self.groups_of(clique):
            return sum(group.n_reports for group in groups)
        places = self._pair(clique)
        return int(self.both[*places]) if places and self.both is not None else 0

    def _weights(self, groups: Sequence[ReportedGroup], clique: Clique) -> Matrix:
        """Weigh what several groups say by their errors for uniform data, which follow from no value."""
        cells = math.prod(self.sizes[column] for column in clique)
        uniform = np.full(cells, 1 / cells)
        errors = [np.trace(group.noise(uniform, group.cells_of(clique))) + 1 - 1 / cells for group in groups]
        weights = np.array([group.n_reports for group in groups]) / np.array(errors)
        return weights / weights.sum()

    def counts(self, clique: Clique) -> Matrix:
        """Estimate the counts of some columns in all records, without bias."""
        if groups := self.groups_of(clique):
            scaled = [
                weight * self.n_rows / group.n_reports * project(group.counts, group.columns, clique)
                for weight, group in zip(self._weights(groups, clique), groups, strict=True)
            ]
            return reduce(np.add, scaled)
        assert self.products is not None  # else nothing is known of them
        rows, columns = (self._entries(column) for column in clique)
        return self.n_rows / self.size_of(clique) * self.products[rows, columns]

    def _entries(self, column: int) -> slice:
        start = sum(self.sizes[:column])
        return slice(start, start + self.sizes[column])

    def covariance(self, clique: Clique, shares: Matrix) -> Matrix:
        """Return the covariances of `counts`, flat, if the cells of the records are drawn with given shares."""
        # Of records that are reported by two groups, the products of independent unbiased vectors add up: the second
        # moments multiply. For pairs, `shares` are those of independent columns, so that the moments are a product.
        flat = shares.ravel()
        spread = np.diag(flat) - np.outer(flat, flat)
        if groups := self.groups_of(clique):
            return self._combined(
                groups, clique, [group.noise(flat, group.cells_of(clique)) for group in groups], spread
            )
        one, two = (self._moments(column, shares.sum(axis=1 - axis)) for axis, column in enumerate(clique))
        noise = np.kron(one, two).astype(float)
        noise[np.diag_indices(flat.size)] -= flat
        return self._scaled(noise, spread, self.size_of(clique))

    def _moments(self, column: int, shares: Matrix) -> Matrix:
        """Return the mean products of the unbiased one-hot entries of a column, which one group has."""
        (group,) = self.groups_of((column,))
        return group.noise(shares, group.cells_of([column])) + np.diag(shares)

    def variances(self, clique: Clique, shares: Matrix) -> Matrix:
        """Return the variances of `counts` for any shares: exact, also for columns that go together."""
        spread = shares * (1 - shares)
        if groups := self.groups_of(clique):
            noises = [group.variances(shares, group.cells_of(clique)) for group in groups]
            return np.clip(self._combined(groups, clique, noises, spread), 0, None)
        one, two = (
            group.squares(group.cells_of([column]), self.sizes[column])
            for column in clique
            for group in self.groups_of((column,))
        )
        return np.clip(self._scaled(one @ shares @ two.T - shares, spread, self.size_of(clique)), 0, None)

    def _combined(
        self, groups: Sequence[ReportedGroup], clique: Clique, noises: Sequence[Matrix], spread: Matrix
    ) -> Matrix:
        """Return the covariances of the weighted counts of several groups."""
        weights = self._weights(groups, clique)
        parts = [
            weight**2 * self._scaled(noise, spread, group.n_reports)
            for weight, noise, group in zip(weights, noises, groups, strict=True)
        ]
        # No record is in two of these samples, so what two of them say is correlated: by as much for any two.
        shared = (1 - weights @ weights) * self.n_rows**2 / max(self.n_rows - 1, 1)
        return reduce(np.add, parts) - shared * spread

    def _scaled(self, noise: Matrix, spread: Matrix, size: int) -> Matrix:
        """Scale the covariances of one record's part to the counts of all, of which a sample of a size is known."""
        n = self.n_rows
        return n**2 / size * (noise + spread * ((n - size) / max(n - 1, 1)))


def independent(shares: Sequence[Matrix]) -> Matrix:
    """Multiply the shares of columns to a table of independent ones."""
    columns = tuple(range(len(shares)))
    return reduce(np.multiply, (expand(share, (column,), columns) for column, share in enumerate(shares)))
