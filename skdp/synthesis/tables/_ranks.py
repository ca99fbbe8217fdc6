"""Dependent ranks within the bins of several columns: a Gaussian copula."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from skdp.synthesis.model import GraphicalModel
from skdp.synthesis.tables._cells import Shape

N_LEARNING_ROWS, N_LEARNING_STEPS, N_SWEEPS = 10_000, 15, 4
MIN_DISTANCE = 1e-9
"""Smallest distance of ranks from 0, from 1 and from each other."""


@dataclass(frozen=True, eq=False)
class Ranks:
    """The correlations of the normal scores of some columns, given their bins."""

    columns: tuple[int, ...]
    edges: Sequence[NDArray[np.float64]]
    """The distribution function of each column at the edges of its bins."""
    correlations: NDArray[np.float64]

    def draw(
        self, rows: NDArray[np.integer], rng: np.random.Generator
    ) -> dict[int, NDArray[np.float64]]:
        """Draw the position of each row within its bins, from 0 to 1."""
        low, high = self._limits(rows)
        scores = ndtri(low + (high - low) * rng.random(low.shape))
        for _ in range(N_SWEEPS):
            self._sweep(scores, ndtri(low), ndtri(high), rng)
        positions = np.clip((ndtr(scores) - low) / (high - low), 0, np.nextafter(1, 0))
        return dict(zip(self.columns, positions, strict=True))

    def _limits(
        self, rows: NDArray[np.integer]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the ranks at the edges of each row's bins; 0 and 1 if missing."""
        lows = []
        highs = []
        for column, edges in zip(self.columns, self.edges, strict=True):
            lows.append(np.append(edges[:-1], 0.0)[rows[column]])
            highs.append(np.append(edges[1:], 1.0)[rows[column]])
        low = np.clip(lows, MIN_DISTANCE, 1 - 2 * MIN_DISTANCE)
        return low, np.clip(highs, low + MIN_DISTANCE, 1 - MIN_DISTANCE)

    def _sweep(
        self,
        scores: NDArray[np.float64],
        low: NDArray[np.float64],
        high: NDArray[np.float64],
        rng: np.random.Generator,
    ) -> None:
        """Draw each score given all other scores and its limits (Gibbs sampling)."""
        for index, row in enumerate(np.linalg.inv(self.correlations)):
            std = row[index] ** -0.5
            mean = scores[index] - row @ scores / row[index]
            first = ndtr((low[index] - mean) / std)
            last = ndtr((high[index] - mean) / std)
            drawn = first + (last - first) * rng.random(mean.size)
            drawn = ndtri(np.clip(drawn, 1e-15, 1 - 1e-15)) * std + mean
            scores[index] = np.clip(drawn, low[index], high[index])


def learn_ranks(model: GraphicalModel, shapes: Mapping[int, Shape]) -> Ranks | None:
    """Learn correlations from rows of a model, by stochastic EM; None for a single column."""
    if len(shapes) < 2:
        return None
    edges = []
    for column, shape in shapes.items():
        shares = model.marginal((column,))[: shape.starts.size - 1]
        edges.append(np.append(0.0, np.cumsum(shares / max(shares.sum(), 1e-300))))
    ranks = Ranks(tuple(shapes), edges, np.eye(len(shapes)))
    # The seed is fixed so that a file gives the same ranks.
    rng = np.random.default_rng(0)
    rows = model.sample(N_LEARNING_ROWS, rng)
    low, high = ranks._limits(rows)
    scores = ndtri(low + (high - low) * rng.random(low.shape))
    for _ in range(N_LEARNING_STEPS):
        # The ridge keeps the matrix invertible.
        moments = scores @ scores.T / N_LEARNING_ROWS + 1e-6 * np.eye(len(shapes))
        scale = np.sqrt(np.diag(moments))
        ranks = replace(ranks, correlations=moments / np.outer(scale, scale))
        ranks._sweep(scores, ndtri(low), ndtri(high), rng)
    return ranks
