"""Unbiased counts of some columns together from their reports, and the covariances of these."""

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
    """The reports of a table, as sums."""

    sizes: tuple[int, ...]
    n_rows: int
    groups: tuple[ReportedGroup, ...]
    products: Matrix | None = None
    """The sums over the records of the products of all unbiased one-hot entries; 0 where one is not reported."""
    both: NDArray[np.int64] | None = None
    """How many records report each two groups."""

    def _holders(self, clique: Clique) -> list[tuple[float, ReportedGroup]]:
        """Return the groups that report some columns together, and how much each counts in their estimate."""
        found = [group for group in self.groups if group.is_known and {*clique} <= {*group.columns}]
        if len(found) < 2:
            return [(1.0, group) for group in found]
        # The weights follow from the mechanisms and from who reports what, not from values: so the sum has no bias.
        shares = np.full(math.prod(self.sizes[column] for column in clique), 1.0)
        shares /= shares.size
        errors = [group.variances(shares, group.cells_of(clique)) + shares * (1 - shares) for group in found]
        weights = np.array([group.n_reports / own.mean() for group, own in zip(found, errors, strict=True)])
        return list(zip((weights / weights.sum()).tolist(), found, strict=True))

    def _apart(self, clique: Clique) -> list[int]:
        """Return the places of the two groups that report two columns apart; none if no record reports both."""
        places = [
            [place for place, group in enumerate(self.groups) if group.is_known and column in group.columns]
            for column in clique
        ]
        if self.both is None or len(clique) != 2 or any(len(own) != 1 for own in places):
            return []
        found = [own[0] for own in places]
        return found if self.both[found[0], found[1]] > 0 else []

    def size_of(self, clique: Clique) -> int:
        """Return the number of records that tell of some columns together; 0 if nothing is known."""
        if holders := self._holders(clique):
            return sum(group.n_reports for _, group in holders)
        if apart := self._apart(clique):
            assert self.both is not None
            return int(self.both[apart[0], apart[1]])
        return 0

    def counts(self, clique: Clique) -> Matrix:
        """Estimate the counts of some columns in all records, without bias."""
        n = self.n_rows
        if holders := self._holders(clique):
            parts = [
                weight / group.n_reports * project(group.counts, group.columns, clique) for weight, group in holders
            ]
            return n * reduce(np.add, parts)
        assert self.products is not None  # else nothing is known of them
        rows, columns = (self._entries(column) for column in clique)
        return n / self.size_of(clique) * self.products[rows, columns]

    def _entries(self, column: int) -> slice:
        start = sum(self.sizes[:column])
        return slice(start, start + self.sizes[column])

    def covariance(self, clique: Clique, shares: Matrix) -> Matrix:
        """Return the covariances of `counts`, flat, if the cells of the records are drawn with given shares."""
        # Of records that are reported by two groups, the products of independent unbiased vectors add up: the second
        # moments multiply. For pairs, `shares` are those of independent columns, so that the moments are a product.
        flat = shares.ravel()
        spread = np.diag(flat) - np.outer(flat, flat)
        if holders := self._holders(clique):
            noises = [group.noise(flat, group.cells_of(clique)) for _, group in holders]
            return self._scaled(holders, noises, spread)
        one, two = (
            self.groups[place].noise(own, self.groups[place].cells_of([column])) + np.diag(own)
            for place, column, own in zip(
                self._apart(clique), clique, (shares.sum(axis=1), shares.sum(axis=0)), strict=True
            )
        )
        noise = np.kron(one, two).astype(float)
        noise[np.diag_indices(flat.size)] -= flat
        return self._of_sample(noise, spread, self.size_of(clique))

    def variances(self, clique: Clique, shares: Matrix) -> Matrix:
        """Return the variances of `counts` for any shares: exact, also for columns that go together."""
        spread = shares * (1 - shares)
        if holders := self._holders(clique):
            noises = [group.variances(shares, group.cells_of(clique)) for _, group in holders]
            return np.clip(self._scaled(holders, noises, spread), 0, None)
        one, two = (
            self.groups[place].squares(self.groups[place].cells_of([column]), self.sizes[column])
            for place, column in zip(self._apart(clique), clique, strict=True)
        )
        return np.clip(self._of_sample(one @ shares @ two.T - shares, spread, self.size_of(clique)), 0, None)

    def _of_sample(self, noise: Matrix, spread: Matrix, size: int) -> Matrix:
        """Scale the covariances of one record's part to the counts of all, of which a sample of a size is known."""
        n = self.n_rows
        return n**2 / size * (noise + spread * ((n - size) / max(n - 1, 1)))

    def _scaled(
        self, holders: Sequence[tuple[float, ReportedGroup]], noises: Sequence[Matrix], spread: Matrix
    ) -> Matrix:
        """Scale the covariances of each group's part of a record to the counts of all, from samples without overlap."""
        n = self.n_rows
        weights = [weight**2 / group.n_reports for weight, group in holders]
        noise = reduce(np.add, [weight * own for weight, own in zip(weights, noises, strict=True)])
        return n**2 * (noise + spread * ((sum(weights) - 1 / n) * n / max(n - 1, 1)))


def independent(shares: Sequence[Matrix]) -> Matrix:
    """Multiply the shares of columns to a table of independent ones."""
    columns = tuple(range(len(shares)))
    return reduce(np.multiply, (expand(share, (column,), columns) for column, share in enumerate(shares)))
