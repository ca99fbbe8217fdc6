"""MST and AIM on mbi, for benchmarks/synthesis_adult.py and synthesis_tables.py.

mbi's wheel has the inference only; the mechanisms are scripts in its repository. These are drivers of our own with the
published splits of the budget: MST by R. McKenna, G. Miklau, D. Sheldon (2021), Winning the NIST contest,
arXiv:2108.04978; AIM by R. McKenna, B. Mullins, D. Sheldon, G. Miklau (2022), arXiv:2201.12677. Floats make the noise:
they are for measuring, not for releases.
"""

from __future__ import annotations

import math
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from mbi import Dataset, Domain, LinearMeasurement
from mbi.estimation import MirrorDescent, minimum_variance_unbiased_total
from mbi.junction_tree import hypothetical_model_size
from scipy.cluster.hierarchy import DisjointSet
from scipy.special import softmax

PACKAGE = "mbi"
Clique = tuple[str, ...]

MST_ITERATIONS = 2_500
RARE = (
    3  # values with fewer rows than so many standard deviations of the noise are merged
)
AIM_ITERATIONS = 500  # each time it fits
ROUNDS = 16  # planned for each column
MEASURING = 0.9  # the part of a round's budget; selecting has the rest
MOST_CELLS = 10_000
MEGABYTES = 80


def zcdp_rho(epsilon: float, delta: float) -> float:
    """Return the largest rho (nearly) whose zero-concentrated privacy implies (epsilon, delta).

    By C. Canonne, G. Kamath, T. Steinke (2020), The discrete Gaussian for differential privacy, corollary 13.
    """
    alpha = 1 + np.geomspace(1e-3, 1e4, 20_000)
    constant = alpha * np.log1p(-1 / alpha) - np.log(alpha - 1)
    low, high = 0.0, epsilon + 1
    for _ in range(60):
        rho = (low + high) / 2
        fits = ((alpha - 1) * (alpha * rho - epsilon) + constant).min() <= math.log(
            delta
        )
        low, high = (rho, high) if fits else (low, rho)
    return low


class Mechanism:
    """What both mechanisms do: count with noise, select, fit."""

    def __init__(self, folder: Path, job: dict[str, Any]) -> None:
        np.random.seed(job["seed"])  # noqa: NPY002 (mbi draws its rows with it)
        self.rng = np.random.default_rng(job["seed"])
        codes = np.load(folder / "real.npy")
        self.names = [f"x{number}" for number in range(len(codes))]
        self.data = Dataset(
            dict(zip(self.names, codes, strict=True)), Domain(self.names, job["sizes"])
        )
        self.rho = zcdp_rho(job["epsilon"], job["delta"])
        self.n = codes.shape[1]

    def measure(
        self, data: Dataset, clique: Clique, deviation: float
    ) -> LinearMeasurement:
        """Count the cells of a marginal, with noise."""
        exact = counts(data, clique)
        return LinearMeasurement(
            exact + self.rng.normal(0, deviation, exact.size), clique, deviation
        )

    def select(self, scores: np.ndarray, epsilon: float) -> int:
        """Draw a candidate by the exponential mechanism; the scores have sensitivity 1."""
        return self.rng.choice(scores.size, p=softmax(epsilon / 2 * scores))

    def encode(self, rows: Dataset) -> np.ndarray:
        """Return the codes."""
        return np.array([rows.data[name] for name in self.names])


class MST(Mechanism):
    """A third of the budget each for the columns, for choosing a spanning tree of pairs, and for the pairs."""

    def fit(self) -> None:
        """Fit to the real rows."""
        deviation = math.sqrt(3 / (2 * self.rho)) * math.sqrt(len(self.names))
        columns = [self.measure(self.data, (name,), deviation) for name in self.names]
        # Before merging, after which mbi would take it to be 1.
        total = minimum_variance_unbiased_total(columns)
        self.merged = {column.clique[0]: merge_rare(column) for column in columns}
        data = self.data.compress(self.merged)
        columns = [column.compress(self.merged, self.data.domain) for column in columns]

        options = {"known_total": total, "iters": MST_ITERATIONS}
        edges = self.spanning_tree(
            data, MirrorDescent().estimate(data.domain, columns, **options)
        )
        deviation = math.sqrt(3 / (2 * self.rho)) * math.sqrt(len(edges))
        pairs = [self.measure(data, edge, deviation) for edge in edges]
        self.model = MirrorDescent().estimate(data.domain, columns + pairs, **options)

    def spanning_tree(self, data: Dataset, model: Any) -> list[Clique]:
        """Choose pairs that are far from independent, one after the other, until all columns hang together."""
        alone = {
            name: np.asarray(model.project((name,)).datavector()) for name in self.names
        }
        total = float(model.total)
        scores = {
            (a, b): np.abs(
                counts(data, (a, b)) - np.outer(alone[a], alone[b]).ravel() / total
            ).sum()
            for a, b in combinations(self.names, 2)
        }
        edges: list[Clique] = []
        joined, steps = DisjointSet(self.names), len(self.names) - 1
        for _ in range(steps):
            candidates = [pair for pair in scores if not joined.connected(*pair)]
            values = np.array([scores[pair] for pair in candidates])
            edges.append(
                candidates[self.select(values, math.sqrt(8 * self.rho / 3 / steps))]
            )
            joined.merge(*edges[-1])
        return edges

    def sample(self) -> Dataset:
        """Draw as many rows as there are real ones."""
        return self.model.synthetic_data(rows=self.n).decompress(self.merged)


class AIM(Mechanism):
    """Round by round, measure the marginal of at most two columns that the model has worst."""

    def fit(self) -> None:
        """Fit to the real rows."""
        domain = self.data.domain
        pairs = [
            pair
            for pair in combinations(self.names, 2)
            if domain.size(pair) <= MOST_CELLS
        ]
        alone = [(name,) for name in self.names]
        weights = {
            clique: sum(len({*clique} & {*pair}) for pair in pairs)
            for clique in [*alone, *pairs]
        }
        exact = {clique: counts(self.data, clique) for clique in weights}

        rounds = ROUNDS * len(self.names)
        deviation, epsilon = _split(self.rho / rounds)
        spent = len(alone) / (2 * deviation**2)
        measured = [self.measure(self.data, clique, deviation) for clique in alone]
        model = MirrorDescent().estimate(domain, measured, iters=AIM_ITERATIONS)
        last = False
        while not last:
            if self.rho - spent < 2 * _cost(deviation, epsilon):
                (deviation, epsilon), last = _split(self.rho - spent), True
            spent += _cost(deviation, epsilon)
            candidates = _small_enough(
                list(weights), model, MEGABYTES * spent / self.rho
            )
            # Counting sampled rows: mbi would compile a program for every candidate in every round.
            rows = model.synthetic_data(rows=2 * self.n)
            scale = float(model.total) / rows.records
            clique = self.worst(
                candidates, exact, rows, scale, weights, (deviation, epsilon)
            )
            measured.append(self.measure(self.data, clique, deviation))
            model = MirrorDescent().estimate(
                domain, measured, iters=AIM_ITERATIONS, warm_start=model
            )
            moved = np.abs(
                np.asarray(model.project(clique).datavector())
                - scale * counts(rows, clique)
            ).sum()
            if moved <= math.sqrt(2 / math.pi) * deviation * exact[clique].size:
                deviation, epsilon = deviation / 2, epsilon * 2
        self.model = model

    def worst(
        self,
        candidates: list[Clique],
        exact: dict[Clique, np.ndarray],
        rows: Dataset,
        scale: float,
        weights: dict[Clique, float],
        noise: tuple[float, float],
    ) -> Clique:
        """Draw the candidate whose error exceeds that of its noise most, weighed by the pairs that have its columns."""
        deviation, epsilon = noise
        scores = [
            weights[clique]
            * (
                np.abs(exact[clique] - scale * counts(rows, clique)).sum()
                - math.sqrt(2 / math.pi) * deviation * exact[clique].size
            )
            for clique in candidates
        ]
        return candidates[
            self.select(
                np.array(scores) / max(weights[clique] for clique in candidates),
                epsilon,
            )
        ]

    def sample(self) -> Dataset:
        """Draw as many rows as there are real ones."""
        return self.model.synthetic_data(rows=self.n)


def counts(data: Dataset, clique: Clique) -> np.ndarray:
    """Count the cells of a marginal, the last column fastest."""
    sizes = tuple(data.domain[name] for name in clique)
    joint = np.ravel_multi_index(tuple(data.data[name] for name in clique), sizes)
    return np.bincount(joint, minlength=math.prod(sizes))


def merge_rare(column: LinearMeasurement) -> np.ndarray:
    """Map the values of a column to fewer: those with little beyond noise become one."""
    frequent = np.asarray(column.noisy_measurement) >= RARE * column.stddev
    return np.where(frequent, frequent.cumsum() - 1, frequent.sum())


def _split(rho: float) -> tuple[float, float]:
    """Split a round's budget: the noise of the counts, and the epsilon of the exponential mechanism."""
    return math.sqrt(1 / (2 * MEASURING * rho)), math.sqrt(8 * (1 - MEASURING) * rho)


def _cost(deviation: float, epsilon: float) -> float:
    return 1 / (2 * deviation**2) + epsilon**2 / 8


def _small_enough(
    candidates: list[Clique], model: Any, megabytes: float
) -> list[Clique]:
    """Return the candidates that the model has, and those with which it does not grow too large."""
    cliques = [tuple(clique) for clique in model.cliques]
    return [
        candidate
        for candidate in candidates
        if any({*candidate} <= {*clique} for clique in cliques)
        or hypothetical_model_size(model.domain, [*cliques, candidate]) <= megabytes
    ]


ALGORITHMS = {"mst": MST, "aim": AIM}
