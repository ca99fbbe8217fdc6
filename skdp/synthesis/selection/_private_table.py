"""A table whose counts come out with noise only, and the budget that pays for it."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from skdp.domain import Domain
from skdp.privacy import Loss, Share, gaussian_loss, largest_mu
from skdp.randomness import ByteSource, cube_noise, discrete_laplace, rounded_gaussian
from skdp.synthesis.model import Clique, Groups, Marginal, group
from skdp.synthesis.tables import Records

_BLOCK = 200
_LARGEST = 1 << 52  # such counts are still exact as floats


class NoiseBudget(ABC):
    """A whole budget, spent in shares."""

    # A share buys noisy counts or noisy scores. Its size and use may depend on earlier releases, as long as all add up
    # to 1.

    power: ClassVar[Fraction]
    """The standard deviation of the noise that a share buys is in proportion to ``share ** -power``."""

    name: ClassVar[str]

    losses: tuple[Loss, ...] = ()
    """What it loses, if more is known than epsilon, delta and rho."""

    def __init__(self, max_rows_per_person: int) -> None:
        self.reach = max_rows_per_person
        self.left = Fraction(1)

    @abstractmethod
    def part(self, share: Fraction) -> NoiseBudget:
        """Spend a share on a budget of its own."""

    @abstractmethod
    def std_error(self, share: Fraction) -> float:
        """Return the standard deviation of each count that a share buys."""

    @abstractmethod
    def score_error(self, share: Fraction, n_scores: int) -> float:
        """Return the standard deviation of each score that a share buys."""

    @abstractmethod
    def _counts_noise(
        self, source: ByteSource, share: Fraction, size: int
    ) -> NDArray: ...

    @abstractmethod
    def _scores_noise(
        self, source: ByteSource, share: Fraction, size: int
    ) -> NDArray: ...

    def counts(
        self, source: ByteSource, share: Fraction, counts: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Release counts, all of which together change by at most `max_rows_per_person` with a person."""
        self._spend(share)
        return _add(counts, self._counts_noise(source, share, counts.size))

    def scores(
        self, source: ByteSource, share: Fraction, scores: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Release scores, each of which changes by at most `max_rows_per_person` with a person."""
        self._spend(share)
        return _add(scores, self._scores_noise(source, share, scores.size))

    def _spend(self, share: Fraction) -> None:
        if not 0 < share <= self.left:
            raise RuntimeError(
                "more than the whole budget was asked for; nothing was drawn"
            )
        self.left -= share

    def best_shares(self, weights: Sequence[float], total: Fraction) -> list[Fraction]:
        """Split a share such that the weighted sum of the standard deviations is least."""
        # With a the exponent ``1 / (1 + power)``, the shares are in proportion to the weights to the power a.
        exponent = 1 / (1 + float(self.power))
        largest = max(weights)
        parts = [
            max(1, round((weight / largest) ** exponent * 2**30)) for weight in weights
        ]
        return [total * Fraction(part, sum(parts)) for part in parts]


class GaussianBudget(NoiseBudget):
    """Gaussian noise, rounded."""

    # A person changes the counts of a table by at most k in L2 norm, so real Gaussian noise of variance
    # ``k**2 / (mu**2 * share)`` makes them ``mu * sqrt(share)``-Gaussian differentially private; rounding is
    # post-processing. For adaptive releases mu**2 adds ([1]_), also with adaptive shares ([2]_). The same holds with
    # ``mu**2 = 2 * rho`` for zero-concentrated privacy.
    # .. [1] J. Dong, A. Roth, W. Su (2022). Gaussian differential privacy. JRSS B 84(1). arXiv:1905.02383
    # .. [2] A. Smith, A. Thakurta (2022). Fully adaptive composition for Gaussian differential privacy.
    #    arXiv:2210.17520

    power = Fraction(1, 2)
    name = "rounded Gaussian"

    def __init__(self, mu_squared: Fraction, max_rows_per_person: int = 1) -> None:
        super().__init__(max_rows_per_person)
        self.mu_squared = mu_squared
        # A loss is stated up to mu = 1e100; beyond, epsilon says as much.
        self.losses = () if mu_squared > 10**199 else (gaussian_loss(mu_squared),)

    def part(self, share: Fraction) -> GaussianBudget:
        self._spend(share)
        return GaussianBudget(self.mu_squared * share, self.reach)

    def _variance(self, share: Fraction, n_scores: int = 1) -> Fraction:
        return n_scores * self.reach**2 / (self.mu_squared * share)

    def std_error(self, share: Fraction) -> float:
        return math.sqrt(
            self._variance(share) + Fraction(1, 12)
        )  # rounding adds a twelfth

    def score_error(self, share: Fraction, n_scores: int) -> float:
        return math.sqrt(self._variance(share, n_scores) + Fraction(1, 12))

    def _counts_noise(self, source: ByteSource, share: Fraction, size: int) -> NDArray:
        return rounded_gaussian(source, self._variance(share), size)

    def _scores_noise(self, source: ByteSource, share: Fraction, size: int) -> NDArray:
        return rounded_gaussian(source, self._variance(share, size), size)


class LaplaceBudget(NoiseBudget):
    """Discrete Laplace noise: epsilons add."""

    # A person changes the counts of a table by at most k in L1 norm, so noise of scale ``k / (epsilon * share)`` costs
    # epsilon * share. Scores, each changed by at most k, get the smaller noise of the K-norm mechanism of the maximum
    # norm (`skdp.randomness.cube_noise`). Its time grows with the third power of their number, so many are drawn in
    # blocks that split epsilon, with nearly the same noise.

    power = Fraction(1)
    name = "discrete Laplace"

    def __init__(self, epsilon: Fraction, max_rows_per_person: int = 1) -> None:
        super().__init__(max_rows_per_person)
        self.epsilon = epsilon

    def part(self, share: Fraction) -> LaplaceBudget:
        self._spend(share)
        return LaplaceBudget(self.epsilon * share, self.reach)

    def _scale(self, share: Fraction) -> Fraction:
        return self.reach / (self.epsilon * share)

    def std_error(self, share: Fraction) -> float:
        rate = float(1 / self._scale(share))
        # Noise that is nearly always 0 still gets a finite weight.
        return max(1e-3, math.sqrt(2 * math.exp(-rate)) / -math.expm1(-rate))

    def score_error(self, share: Fraction, n_scores: int) -> float:
        # Each part is uniform up to a radius of mean square (D + 1) (D + 2) times the scale's.
        blocks = _blocks(n_scores)
        return (
            len(blocks)
            * float(self._scale(share))
            * math.sqrt((blocks[0] + 1) * (blocks[0] + 2) / 3)
        )

    def _counts_noise(self, source: ByteSource, share: Fraction, size: int) -> NDArray:
        return discrete_laplace(source, self._scale(share), size)

    def _scores_noise(self, source: ByteSource, share: Fraction, size: int) -> NDArray:
        blocks = _blocks(size)
        scale = len(blocks) * self._scale(share)
        return np.concatenate([cube_noise(source, scale, block)[0] for block in blocks])


def _blocks(size: int) -> list[int]:
    """Split scores into blocks of nearly the same size, the larger ones first."""
    n_blocks = -(-size // _BLOCK)
    return [size // n_blocks + (block < size % n_blocks) for block in range(n_blocks)]


def _add(numbers: NDArray[np.int64], noise: NDArray) -> NDArray[np.float64]:
    """Add noise to integers; beyond what floats hold exactly, the sum is cut, which is post-processing."""
    noisy = numbers + noise.reshape(numbers.shape)
    return np.clip(noisy, -_LARGEST, _LARGEST).astype(float)


_LARGEST_NOISE = 10**30
"""The standard deviation of counts from which nothing can be learnt, and powers of which overflow soon."""


def open_budget(
    share: Share, delta: Fraction, max_rows_per_person: int
) -> tuple[NoiseBudget, Fraction | None]:
    """Turn a promise into a budget of noise; return its rho too, None for discrete Laplace noise."""
    least = Fraction(max_rows_per_person, _LARGEST_NOISE)
    mu_squared = share.mu_squared
    if share.kind == "epsilon":
        if max(share.amount, delta) < least:
            raise _too_small(least)
        if delta == 0:
            return LaplaceBudget(share.amount, max_rows_per_person), None
        mu_squared = Fraction(largest_mu(share.amount, delta)) ** 2
    if mu_squared < least**2:
        raise _too_small(least)
    return GaussianBudget(mu_squared, max_rows_per_person), mu_squared / 2


def _too_small(least: Fraction) -> ValueError:
    return ValueError(
        f"epsilon (or delta) is too small: with less than {float(least):g} there is nothing but noise"
    )


_LARGEST_GUESS = (
    1 << 36
)  # more records than any table has; the sum of 2**26 such cells is below 2**63


class PrivateTable:
    """The records of a table, a budget, and what was measured so far."""

    # Nothing but noisy counts and noisy scores leave it; each list takes its share of the budget first.

    def __init__(
        self,
        records: Records,
        sizes: Sequence[int],
        budget: NoiseBudget,
        source: ByteSource,
        say: Callable[[str], Any] | None = None,
    ) -> None:
        self._records, self._source = records, source
        self.sizes, self.budget = tuple(sizes), budget
        self.say = say or (lambda message: None)
        self.progress = Progress(self.say)
        self.marginals: list[Marginal] = []
        self.scores: dict[Clique, tuple[float, float]] = {}
        """How far independent columns are off, in records that count twice, by the first noisy scores; their errors."""

    def part(self, share: Fraction) -> PrivateTable:
        """Spend a share on measurements of their own."""
        found = PrivateTable(
            self._records, self.sizes, self.budget.part(share), self._source, self.say
        )
        found.progress = self.progress.of(share)
        return found

    def coarser(
        self,
        domain: Domain,
        bins: Mapping[int, NDArray[np.intp]],
        known: Iterable[Marginal],
    ) -> PrivateTable:
        """Spend the rest on the same records by larger bins, of which something is known."""
        found = self.part(self.budget.left)
        found._records, found.sizes = self._records.coarser(domain, bins), domain.sizes
        found.marginals += known
        return found

    def prepare(self, cliques: Sequence[Clique]) -> None:
        """Announce what will be measured, so that large tables are read once for all of it."""
        self._records.prepare(cliques)

    def measure(
        self, clique: Clique, share: Fraction, groups: Groups | None = None
    ) -> Marginal:
        (counts,) = self._records.count([clique])
        true = group(counts, groups)
        noisy = self.budget.counts(self._source, share, true)
        self.marginals.append(
            Marginal(clique, noisy, self.budget.std_error(share), groups)
        )
        self.progress.measured(clique, share)
        return self.marginals[-1]

    def score(
        self,
        cliques: Sequence[Clique],
        guesses: Iterable[NDArray[np.float64]],
        share: Fraction,
        groups: Groups,
    ) -> NDArray[np.float64]:
        """Measure how far guesses of some marginals are off, in records."""
        # A guess is rounded to integers, so a record changes its distance to the counts by exactly 1.
        distances = []
        for clique, counts, guess in zip(
            cliques, self._records.count(cliques), guesses, strict=True
        ):
            true = group(counts, tuple(groups[column] for column in clique))
            distances.append(np.abs(true - _rounded(guess)).sum())
        scores = self.budget.scores(self._source, share, np.array(distances, np.int64))
        self.progress.scored(len(cliques), share)
        return scores


def _rounded(guess: NDArray[np.float64]) -> NDArray[np.int64]:
    return np.rint(np.clip(guess, 0, _LARGEST_GUESS)).astype(np.int64)


_KINDS = {1: "column", 2: "pair", 3: "triple"}


class Progress:
    """Reports each step in a line, measurements of a kind together, with the seconds since the start."""

    # **Privacy.** Shares, numbers of candidates and cells, and chosen marginals are public or released anyway. The
    # seconds depend on the table: they are for the curator.

    def __init__(self, say: Callable[[str], Any] | None = None) -> None:
        self._say = say
        self._whole = Fraction(1)
        self._start = self._last = time.perf_counter()
        self._kinds: Counter[str] = Counter()
        self._share = Fraction(0)

    def of(self, share: Fraction) -> Progress:
        """Report what a share of the budget is spent on."""
        found = Progress(self._say)
        found._start, found._whole = self._start, self._whole * share
        return found

    def measured(self, clique: tuple[int, ...], share: Fraction) -> None:
        """Note a measurement, reported with those that follow."""
        self._kinds[_KINDS.get(len(clique), f"table of {len(clique)} columns")] += 1
        self._share += share
        self._last = time.perf_counter()

    def scored(self, n_candidates: int, share: Fraction) -> None:
        self.flush()
        self._line(
            f"scored {_counted(n_candidates, 'candidate')} ({_percent(share * self._whole)} of the budget)"
        )

    def fitted(self, n_steps: int, n_cells: int) -> None:
        self.flush()
        self._line(
            f"fitted a model: {_counted(n_steps, 'step')}, {_counted(n_cells, 'cell')}"
        )

    def flush(self) -> None:
        """Report what was measured since the last line."""
        if self._kinds:
            listed = ", ".join(
                _counted(number, kind) for kind, number in self._kinds.items()
            )
            self._line(
                f"measured {listed} ({_percent(self._share * self._whole)} of the budget)",
                self._last,
            )
        self._kinds.clear()
        self._share = Fraction(0)

    def _line(self, text: str, when: float | None = None) -> None:
        if self._say is not None:
            self._say(f"{(when or time.perf_counter()) - self._start:6.1f} s  {text}")


def _counted(number: int, thing: str) -> str:
    """Write a number and what is counted, in the plural if need be."""
    head, *rest = thing.split(" ", 1)
    return " ".join([f"{number:,}", head if number == 1 else f"{head}s", *rest])


def _percent(share: Fraction) -> str:
    return f"{float(100 * share):.3g} %"
