"""Private evolution for benchmarks/synthesis_tables.py: our own rerun of the loop of Tab-PE, in NumPy.

T. Tran et al. (2026), Differentially private synthetic data via APIs 4: tabular data, arXiv:2606.08259. The loop and
its numbers are those of the example of Artificial Characters in the repository microsoft/DPSDA; with the delta of it,
1.6e-5, a classifier has an accuracy of .41 at epsilon 1 (three seeds). What would read private data differs: values and
ends of columns are declared, not taken from the rows, and how many records a label has follows from noisy counts, not
from exact ones. Numbers are codes of bins. Floats make the noise: it is for measuring, not for releases.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.privacy import gaussian_epsilon

PACKAGE = None
Records = NDArray[np.int64]  # (n_records, n_columns), codes
Points = NDArray[np.float32]  # (n_records, n_coordinates)

N_RECORDS = 1_000
GENERATIONS = 14
# In the first generations records are drawn by their votes, and replaced by a variation; later those of most votes
# stay, and have several variations.
DRAWN_GENERATIONS = 4
VARIATIONS = 3
FIRST_RATE, LAST_RATE, RATE_POWER = 0.5, 0.01, 0.2
CATEGORY_WEIGHT = 1 / 3
BLOCK = 4_096  # real rows that are compared at once


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return the largest mu of Gaussian differential privacy that implies (epsilon, delta), by bisection."""
    low = 0.0
    high = 10.0 + epsilon
    for _ in range(60):
        mu = (low + high) / 2
        if gaussian_epsilon(mu, delta) <= epsilon:
            low = mu
        else:
            high = mu
    return low


class Evolution:
    """Records of each label evolve by the noisy votes of real rows of the label, each for the nearest candidate."""

    def __init__(self, folder: Path, job: dict[str, Any]) -> None:
        self.rng = np.random.default_rng(job["seed"])
        codes = np.load(folder / "real.npy").astype(np.int64)
        sizes = list(job["sizes"])
        unordered = list(job["unordered"])
        self.target = job["target"]
        self.labels = np.zeros(codes.shape[1], np.int64)
        self.n_labels = 1
        if self.target is not None:
            self.labels = codes[self.target]
            self.n_labels = sizes.pop(self.target)
            del unordered[self.target]
            codes = np.delete(codes, self.target, axis=0)
        self.real = codes.T
        self.sizes = np.array(sizes)
        # Two values have no order that a step could follow.
        self.is_number = ~np.array(unordered) & (self.sizes > 2)
        # A row changes one vote in each generation, and one count of labels: all are Gaussian, of sensitivity 1.
        n_releases = GENERATIONS + 1
        mu = gaussian_mu(job["epsilon"], job["delta"])
        self.deviation = math.sqrt(n_releases) / mu

    def fit(self) -> None:
        """Let the records of each label evolve."""
        counts = self.noisy(np.bincount(self.labels, minlength=self.n_labels))
        ends = np.cumsum(np.maximum(counts, 1e-9))
        ends = np.round(N_RECORDS * ends / ends[-1]).astype(int)
        self.records = []
        for label, n_records in enumerate(np.diff(ends, prepend=0)):
            if n_records > 0:
                real = self.points(self.real[self.labels == label])
                self.records.append((label, self.evolve(real, n_records)))

    def evolve(self, real: Points, n_records: int) -> Records:
        """Return the records that win after all generations."""
        candidates = self.rng.integers(0, self.sizes, (n_records, self.sizes.size))
        for generation in range(GENERATIONS):
            votes = self.noisy(nearest_votes(real, self.points(candidates)))
            progress = (generation / (GENERATIONS + 1)) ** RATE_POWER
            rate = FIRST_RATE - (FIRST_RATE - LAST_RATE) * progress
            if generation < DRAWN_GENERATIONS:
                weights = np.maximum(votes, 1e-9)
                weights /= weights.sum()
                winners = candidates[self.rng.choice(votes.size, n_records, p=weights)]
                candidates = self.variation(winners, rate)
            else:
                winners = candidates[np.argsort(-votes)[:n_records]]
                variations = [self.variation(winners, rate) for _ in range(VARIATIONS)]
                candidates = np.concatenate([winners, *variations])
        return winners

    def noisy(self, counts: NDArray[np.int64]) -> NDArray[np.float64]:
        """Add the noise of one release."""
        return counts + self.rng.normal(0, self.deviation, counts.size)

    def variation(self, records: Records, rate: float) -> Records:
        """Move numbers by up to a part of their range, and draw some other values again."""
        steps = self.rng.uniform(-rate, rate, records.shape) * (self.sizes - 1)
        moved = np.clip(np.rint(records + steps), 0, self.sizes - 1).astype(np.int64)
        drawn = self.rng.integers(0, self.sizes, records.shape)
        is_drawn = self.rng.random(records.shape) < rate
        return np.where(self.is_number, moved, np.where(is_drawn, drawn, records))

    def points(self, records: Records) -> Points:
        """Place records where distances are measured: numbers from 0 to 1, and a coordinate for each other value."""
        numbers = records[:, self.is_number] / (self.sizes[self.is_number] - 1)
        parts = [numbers.astype(np.float32)]
        for column in np.flatnonzero(~self.is_number):
            values = np.arange(self.sizes[column])
            is_value = records[:, [column]] == values
            parts.append(is_value.astype(np.float32) * np.float32(CATEGORY_WEIGHT))
        return np.concatenate(parts, axis=1)

    def sample(self) -> Records:
        """Return the records, whose number does not follow that of the rows."""
        tables = []
        for label, records in self.records:
            if self.target is not None:
                records = np.insert(records, self.target, label, axis=1)
            tables.append(records)
        return np.concatenate(tables)

    def encode(self, rows: Records) -> Records:
        """Return the codes, an array of shape (n_columns, n_records)."""
        return rows.T


def nearest_votes(real: Points, candidates: Points) -> NDArray[np.int64]:
    """Count the real rows whose nearest candidate each is."""
    votes = np.zeros(len(candidates), np.int64)
    squares = (candidates**2).sum(axis=1)
    for start in range(0, len(real), BLOCK):
        rows = real[start : start + BLOCK]
        nearest = np.argmin(squares - 2 * rows @ candidates.T, axis=1)
        votes += np.bincount(nearest, minlength=len(candidates))
    return votes


ALGORITHMS = {"evolution": Evolution}
