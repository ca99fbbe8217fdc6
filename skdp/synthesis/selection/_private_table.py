"""A table whose counts come out with noise only, and the budget that pays for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.central.statistics import Noise
from skdp.domain import Domain
from skdp.privacy import Loss, Share, gaussian_loss, largest_mu
from skdp.randomness import ByteSource
from skdp.synthesis.model import Clique, Groups, Marginal, group
from skdp.synthesis.tables import Records

_BLOCK = 200
"""Scores with joint pure noise, whose time grows with the third power of their number.

Larger lists are drawn in blocks that split epsilon, with nearly the same noise."""

_LARGEST = 1 << 52
"""Such counts are still exact as floats."""

_LARGEST_NOISE = 10**30
"""From this standard deviation on nothing is learnt, and its powers overflow soon."""

MIN_ERROR = 1e-3
"""Noise that is nearly always 0 still gets a finite weight."""


@dataclass(frozen=True)
class Change:
    """By how much a record changes integers at most: in L1 norm, and in squared L2 norm."""

    l1: int
    l2_squared: int


ONE_COUNT = Change(1, 1)
"""A record is in a cell or not."""


class NoiseBudget:
    """A whole budget, spent in shares on noisy counts and noisy scores."""

    # Shares may depend on earlier releases, as long as all add up to 1: epsilons add,
    # and so do squares of mu ([1]_), also for adaptive shares ([2]_).
    # A person changes the counts of a marginal by at most k together, for k rows: in L1
    # and in L2 norm. Each of n scores changes by at most k, all together by
    # ``sqrt(n) k`` in L2 norm; pure noise for them is that of the K-norm mechanism of
    # the maximum norm.
    # .. [1] J. Dong, A. Roth, W. Su (2022). Gaussian differential privacy. JRSS B 84(1).
    # .. [2] A. Smith, A. Thakurta (2022). Fully adaptive composition for Gaussian
    #    differential privacy. arXiv:2210.17520

    def __init__(self, share: Share) -> None:
        self.share = share
        self.left = Fraction(1)
        # Of it, what may be spent on scores.
        self.left_for_scores = Fraction(1)

    @property
    def power(self) -> Fraction:
        """The standard deviation of a share is in proportion to ``share ** -power``."""
        return Fraction(1) if self.share.kind == "epsilon" else Fraction(1, 2)

    @property
    def name(self) -> str:
        """The name of the mechanism."""
        return Noise.of(self.share).name

    @property
    def losses(self) -> tuple[Loss, ...]:
        """What it loses, if more is known than epsilon, delta and rho."""
        # A loss is stated up to mu = 1e100; beyond, epsilon says as much.
        if self.share.kind == "epsilon" or self.share.amount > 10**199:
            return ()
        return (gaussian_loss(self.share.amount),)

    def part(self, share: Fraction) -> NoiseBudget:
        """Spend a share on a budget of its own."""
        self._spend(share)
        return NoiseBudget(self.share * share)

    def _noise(self, share: Fraction, change: Change | None = None) -> Noise:
        """Return the noise of integers that a record changes so; of counts by default."""
        change = change or ONE_COUNT
        return Noise.of(self.share * share, change.l1, change.l2_squared)

    def _blocks(
        self, n_scores: int, share: Fraction, change: int = 1
    ) -> list[tuple[int, Noise]]:
        """Return the sizes of blocks of scores, and the noise of each."""
        n_blocks = -(-n_scores // _BLOCK) if self.share.kind == "epsilon" else 1
        blocks = []
        for block in range(n_blocks):
            size = n_scores // n_blocks + (block < n_scores % n_blocks)
            noise = Noise.joint(self.share * (share / n_blocks), change, size)
            blocks.append((size, noise))
        return blocks

    def std_error(self, share: Fraction, change: Change | None = None) -> float:
        """Return the standard deviation of each count that a share buys."""
        return max(MIN_ERROR, float(self._noise(share, change).error))

    def score_error(self, share: Fraction, n_scores: int, change: int = 1) -> float:
        """Return the largest standard deviation of scores that a share buys."""
        _, noise = self._blocks(n_scores, share, change)[0]
        return float(noise.error)

    def counts(
        self,
        source: ByteSource,
        share: Fraction,
        counts: NDArray[np.int64],
        change: Change | None = None,
    ) -> NDArray[np.float64]:
        """Release integers that each row of a person changes so; counts by default."""
        self._spend(share)
        noise = self._noise(share, change).draw(source, counts.size)
        return _add(counts, noise)

    def scores(
        self,
        source: ByteSource,
        share: Fraction,
        scores: NDArray[np.int64],
        change: int = 1,
    ) -> NDArray[np.float64]:
        """Release scores, each of which a record changes by at most `change`."""
        self._spend(share)
        self.left_for_scores -= share
        blocks = self._blocks(scores.size, share, change)
        noise = []
        for size, block_noise in blocks:
            noise.append(block_noise.draw(source, size))
        return _add(scores, np.concatenate(noise))

    def _spend(self, share: Fraction) -> None:
        if not 0 < share <= self.left:
            raise RuntimeError(
                "more than the whole budget was asked for; nothing was drawn"
            )
        self.left -= share

    def best_shares(self, weights: Sequence[float], total: Fraction) -> list[Fraction]:
        """Split a share such that the weighted sum of standard deviations is least."""
        # With a = 1 / (1 + power), shares are in proportion to the weights to the
        # power a. They are rounded to fractions that add up exactly.
        exponent = 1 / (1 + float(self.power))
        relative = (np.array(weights, float) / max(weights)) ** exponent
        parts = np.maximum(1, np.rint(relative * 2**30)).astype(np.int64).tolist()
        n_parts = sum(parts)
        return [total * Fraction(part, n_parts) for part in parts]


def _add(numbers: NDArray[np.int64], noise: NDArray[Any]) -> NDArray[np.float64]:
    """Add noise to integers, and cut what floats do not hold exactly."""
    noisy = numbers + noise.reshape(numbers.shape)
    return np.clip(noisy, -_LARGEST, _LARGEST).astype(float)


def open_budget(
    share: Share, delta: Fraction, max_rows_per_person: int
) -> tuple[NoiseBudget, Fraction | None]:
    """Turn a promise into a budget of noise; return its rho too, None if it is pure."""
    least = Fraction(max_rows_per_person, _LARGEST_NOISE)
    rows = max_rows_per_person
    # With a delta the noise is Gaussian, and costs less for many releases: the budget is
    # the largest mu whose mu-GDP implies (epsilon, delta). Without one it is pure.
    amount = max(share.amount, delta)
    if share.kind == "epsilon" and (delta == 0 or amount < least):
        _check_amount(amount, least)
        pure = Share("epsilon", share.amount, rows=rows)
        return NoiseBudget(pure), None
    mu_squared = share.mu_squared
    if share.kind == "epsilon":
        mu_squared = Fraction(largest_mu(share.amount, delta)) ** 2
    _check_amount(mu_squared, least**2)
    gaussian = Share("mu", mu_squared, rows=rows)
    return NoiseBudget(gaussian), mu_squared / 2


def _check_amount(amount: Fraction, least: Fraction) -> None:
    if amount < least:
        raise ValueError(
            f"epsilon (or delta) is too small: with less than {1 / _LARGEST_NOISE:g} a "
            "row there is nothing but noise"
        )


_LARGEST_GUESS = 1 << 36
"""More records than any table has; a sum of 2**26 such cells is below 2**63."""


class PrivateTable:
    """The records of a table, a budget, and what was measured so far."""

    # Nothing but noisy counts and noisy scores leave it; each list takes its share of
    # the budget first.

    def __init__(
        self,
        records: Records,
        sizes: Sequence[int],
        budget: NoiseBudget,
        source: ByteSource,
    ) -> None:
        self._records = records
        self._source = source
        self.sizes = tuple(sizes)
        self.budget = budget
        self.marginals: list[Marginal] = []

    def part(self, share: Fraction) -> PrivateTable:
        """Spend a share on measurements of their own."""
        budget = self.budget.part(share)
        return PrivateTable(self._records, self.sizes, budget, self._source)

    def coarser(
        self,
        domain: Domain,
        bins: Mapping[int, NDArray[np.intp]],
        marginals: Iterable[Marginal],
    ) -> PrivateTable:
        """Spend the rest on the same records by larger bins, with their counts."""
        table = self.part(self.budget.left)
        table._records = self._records.coarser(domain, bins)
        table.sizes = domain.sizes
        table.marginals += marginals
        return table

    def column_errors(self, n_columns: int) -> list[float]:
        """Return the standard errors of the counts of columns, which were just measured."""
        return [self.marginals[0].std_error] * n_columns  # all are the same

    def prepare(self, cliques: Sequence[Clique]) -> None:
        """Announce what will be measured: a large table is read once for all of it."""
        self._records.prepare(cliques)

    def measure(
        self, clique: Clique, share: Fraction, groups: Groups | None = None
    ) -> Marginal:
        """Count a marginal, by groups of values, with noise."""
        (exact,) = self._records.count([clique])
        counts = self.budget.counts(self._source, share, group(exact, groups))
        marginal = Marginal(clique, counts, self.budget.std_error(share), groups)
        self.marginals.append(marginal)
        return marginal

    def compare(
        self,
        cliques: Sequence[Clique],
        guesses: Iterable[NDArray[np.float64]],
        groups: Groups,
    ) -> PrivateScores:
        """Compare guesses of some marginals with their counts."""
        # A guess is rounded to integers, so a record that is added or removed changes its
        # distance to the counts by 1.
        distances = {}
        exact_counts = self._records.count(cliques)
        for clique, counts, guess in zip(cliques, exact_counts, guesses, strict=True):
            exact = group(counts, tuple(map(groups.__getitem__, clique)))
            rounded = np.rint(np.clip(guess, 0, _LARGEST_GUESS)).astype(np.int64)
            distances[clique] = int(np.abs(exact - rounded).sum())
        return PrivateScores(distances, self.budget, self._source)


class PrivateScores:
    """How far guesses of some marginals are off, in records."""

    # These distances are private: nothing but noisy ones leaves this object.

    def __init__(
        self,
        distances: Mapping[Clique, int],
        budget: NoiseBudget,
        source: ByteSource,
    ) -> None:
        self._distances = distances
        self._budget = budget
        self._source = source

    def release(
        self, cliques: Sequence[Clique], share: Fraction
    ) -> NDArray[np.float64]:
        """Spend a share of the budget on the scores of some of the marginals."""
        distances = np.array([self._distances[clique] for clique in cliques], np.int64)
        return self._budget.scores(self._source, share, distances)
