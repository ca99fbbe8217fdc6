"""A privacy budget for noisy counts and noisy scores, and the records, which only these statistics access."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.central.statistics import Noise
from skdp.domain import Domain
from skdp.privacy import Loss, PrivacyBudget, gaussian_loss, largest_mu
from skdp.randomness import ByteSource
from skdp.synthesis._records import Records
from skdp.synthesis.model import Clique, Groups, Marginal, group

MIN_STD_ERROR = 1e-3
"""Noise that is nearly always 0 still gets a finite weight."""

MAX_STD_ERROR = 10**30
"""Standard error per row of a person above which nothing is learned."""

MAX_NOISY_COUNT = 1 << 52
"""Largest noisy count; floats represent it exactly."""


@dataclass(frozen=True)
class Sensitivity:
    """The largest change of integers by one record: in L1 norm, and in squared L2 norm."""

    l1: int = 1
    l2_squared: int = 1


ONE_COUNT = Sensitivity()
"""A record is in one cell of a table or in none."""


class NoiseBudget:
    """The budget of one release."""

    # Fractions may depend on earlier releases as long as they add up to 1: epsilons
    # add, and so do squares of mu ([1]_, [2]_). A record changes one count of a
    # marginal by 1, and each score by at most 1; a person with k rows, k times as much.
    # .. [1] J. Dong, A. Roth, W. Su (2022). Gaussian differential privacy. JRSS B 84(1).
    # .. [2] A. Smith, A. Thakurta (2022). Fully adaptive composition for Gaussian
    #    differential privacy. arXiv:2210.17520

    def __init__(
        self, share: PrivacyBudget, delta: Fraction, max_rows_per_person: int = 1
    ) -> None:
        # With a delta, the budget is the largest mu that implies (epsilon, delta).
        kind, amount = share.kind, share.amount
        min_amount = Fraction(max_rows_per_person, MAX_STD_ERROR)
        if kind != "epsilon":
            kind, amount = "mu", share.mu_squared
        elif delta > 0 and max(amount, delta) >= min_amount:
            kind, amount = "mu", Fraction(largest_mu(amount, delta)) ** 2
        if amount < (min_amount if kind == "epsilon" else min_amount**2):
            raise ValueError(
                "`epsilon` or `delta` is too small: the noise would exceed "
                f"{MAX_STD_ERROR:g} records per row of a person."
            )
        self._share = PrivacyBudget(kind, amount, rows=max_rows_per_person)
        self.left = Fraction(1)

    @property
    def is_gaussian(self) -> bool:
        """True if the noise is Gaussian; otherwise it is discrete Laplace."""
        return self._share.kind == "mu"

    @property
    def noise_name(self) -> str:
        """The name of the noise."""
        return Noise.of(self._share).name

    @property
    def rho(self) -> Fraction | None:
        """The loss in zero-concentrated differential privacy, if Gaussian."""
        return self._share.amount / 2 if self.is_gaussian else None

    @property
    def losses(self) -> tuple[Loss, ...]:
        """The losses of the release; empty if only epsilon and delta are known."""
        # With a larger mu, epsilon states as much.
        if not self.is_gaussian or self._share.amount > 10**199:
            return ()
        return (gaussian_loss(self._share.amount),)

    def _noise(self, fraction: Fraction, sensitivity: Sensitivity) -> Noise:
        share = self._share * fraction
        return Noise.of(share, sensitivity.l1, sensitivity.l2_squared)

    def _blocks(
        self, fraction: Fraction, n_scores: int, change: int
    ) -> list[tuple[int, Noise]]:
        """Split scores into blocks with joint noise."""
        # The cost of pure noise grows with the third power of the size of a block.
        n_blocks = 1 if self.is_gaussian else -(-n_scores // 200)
        share = self._share * (fraction / n_blocks)
        blocks = []
        for block in range(n_blocks):
            size = n_scores // n_blocks + (block < n_scores % n_blocks)
            blocks.append((size, Noise.joint(share, change, size)))
        return blocks

    def std_error(
        self, fraction: Fraction, sensitivity: Sensitivity = ONE_COUNT
    ) -> float:
        """Return the standard deviation of counts that are measured with a fraction."""
        return max(MIN_STD_ERROR, float(self._noise(fraction, sensitivity).error))

    def score_error(self, fraction: Fraction, n_scores: int, change: int = 1) -> float:
        """Return the standard deviation of scores that are measured with a fraction."""
        _, noise = self._blocks(fraction, n_scores, change)[0]
        return max(MIN_STD_ERROR, float(noise.error))

    def add_to_counts(
        self,
        source: ByteSource,
        counts: NDArray[np.int64],
        fraction: Fraction,
        sensitivity: Sensitivity = ONE_COUNT,
    ) -> NDArray[np.float64]:
        """Spend a fraction on integers; by default the counts of disjoint cells."""
        self._spend(fraction)
        noise = self._noise(fraction, sensitivity).draw(source, counts.size)
        return _add(counts, noise.reshape(counts.shape))

    def add_to_scores(
        self,
        source: ByteSource,
        scores: NDArray[np.int64],
        fraction: Fraction,
        change: int = 1,
    ) -> NDArray[np.float64]:
        """Spend a fraction on scores, each of which a record changes by at most `change`."""
        self._spend(fraction)
        noise = []
        for size, block_noise in self._blocks(fraction, scores.size, change):
            noise.append(block_noise.draw(source, size))
        return _add(scores, np.concatenate(noise))

    def _spend(self, fraction: Fraction) -> None:
        if not 0 < fraction <= self.left:
            raise RuntimeError("The budget is spent; no noise was drawn.")
        self.left -= fraction

    @property
    def error_power(self) -> float:
        """The power of a fraction that divides the standard deviation."""
        return 1 / 2 if self.is_gaussian else 1.0

    @property
    def cost_power(self) -> float:
        """Costs of joint measurements add up to this power of their noise."""
        return 1 / (1 + self.error_power)

    def allocate(self, costs: Sequence[float], total: Fraction) -> list[Fraction]:
        """Split a fraction so that the sum of costs times standard deviations is smallest."""
        relative = (np.array(costs, float) / max(costs)) ** self.cost_power
        parts = np.maximum(1, np.rint(relative * 2**30)).astype(np.int64).tolist()
        n_parts = sum(parts)
        return [total * Fraction(part, n_parts) for part in parts]


def _add(numbers: NDArray[np.int64], noise: NDArray[Any]) -> NDArray[np.float64]:
    """Add noise, within the integers that floats represent."""
    return np.clip(numbers + noise, -MAX_NOISY_COUNT, MAX_NOISY_COUNT).astype(float)


def groups_of(clique: Clique, groups: Groups) -> Groups | None:
    """Return the groups of the columns of a marginal; None if no value is grouped."""
    members = tuple(groups[column] for column in clique)
    return None if all(part is None for part in members) else members


class PrivateCounts:
    """Private records, a budget, and the marginals measured so far."""

    def __init__(
        self, records: Records, budget: NoiseBudget, source: ByteSource
    ) -> None:
        self._records = records
        self._source = source
        self.budget = budget
        self.marginals: list[Marginal] = []

    def measure(
        self,
        cliques: Sequence[Clique],
        fractions: Iterable[Fraction],
        groups: Groups | None = None,
    ) -> list[Marginal]:
        """Release the counts of marginals; pairs and larger ones by groups of values."""
        measured = []
        for clique, fraction, exact in zip(
            cliques, fractions, self._records.count(cliques), strict=True
        ):
            used = groups_of(clique, groups) if groups and len(clique) > 1 else None
            counts = group(exact, used)
            noisy = self.budget.add_to_counts(self._source, counts, fraction)
            std_error = self.budget.std_error(fraction)
            measured.append(Marginal(clique, noisy, std_error, used))
        self.marginals += measured
        return measured

    def score(
        self,
        cliques: Sequence[Clique],
        guesses: Mapping[Clique, NDArray[np.float64]],
        groups: Groups,
        fraction: Fraction,
    ) -> NDArray[np.float64]:
        """Release the L1 distances of guessed counts from the true ones."""
        # Guesses are rounded to integers, so a record changes each distance by 1.
        distances = []
        for clique, counts in zip(cliques, self._records.count(cliques), strict=True):
            exact = group(counts, groups_of(clique, groups))
            # No table has 2**36 records, and a sum of 2**26 such cells is below 2**63.
            guess = np.rint(np.clip(guesses[clique], 0, 1 << 36)).astype(np.int64)
            distances.append(int(np.abs(exact - guess).sum()))
        exact_scores = np.array(distances, np.int64)
        return self.budget.add_to_scores(self._source, exact_scores, fraction)

    def coarsen(self, domain: Domain, bins: Mapping[int, NDArray[np.intp]]) -> None:
        """Replace the codes of some columns by the bins of these codes."""
        self._records = self._records.coarsen(domain, bins)
        self.marginals.clear()
