"""Finding the graphical model that fits noisy marginals best: mirror descent."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skdp.synthesis._graphical_model import GraphicalModel, Table, calibrate
from skdp.synthesis._junction_tree import JunctionTree
from skdp.synthesis._marginal import Marginal, merge

_LEAST_STEP = 1e-30
_GROWTH = 1.25
_BLOCK = 20
"""Progress is judged over so many steps."""


@dataclass(frozen=True)
class Fit:  # numpydoc ignore=PR02
    """What mirror descent ended with.

    Parameters
    ----------
    model : GraphicalModel
        The fitted distribution.
    potentials : list of ndarray
        The logarithm of each clique's factor: where a next fit may start from.
    losses : list of float
        Half the sum of squared standardised residuals after each step; it never rises.
    """

    model: GraphicalModel
    potentials: list[Table]
    losses: list[float]


@dataclass(frozen=True, eq=False)
class _Target:
    """A measured marginal: where it is in the tree, its shares, and the weight of their squared errors."""

    place: int
    dropped: tuple[int, ...]
    shape: tuple[int, ...]
    shares: Table
    weight: float


def fit_model(
    tree: JunctionTree,
    marginals: Sequence[Marginal],
    total: float,
    *,
    max_iter: int = 1000,
    tol: float = 1e-4,
    start: Sequence[Table] | None = None,
) -> Fit:
    """Fit a model to noisy marginals.

    The loss is half the sum of the squares of (model - measurement) / standard error over all cells. Mirror descent
    takes a step against its gradient in the logarithms of the potentials ([1]_ algorithm 1), which keeps all
    probabilities positive; the step is halved until the loss falls enough, and grows again.

    Parameters
    ----------
    tree : JunctionTree
        Cliques, some of which holds each marginal.
    marginals : sequence of Marginal
        The measurements.
    total : float
        The number of records, at least 1.
    max_iter : int, default=1000
        The largest number of steps.
    tol : float, default=1e-4
        The descent ends when 20 steps lower the loss by less than this share of it.
    start : sequence of ndarray, optional
        The potentials to start from; by default the uniform distribution. Minus infinity marks what cannot occur.

    Returns
    -------
    Fit
        The model and its potentials. The same input gives the same output.

    References
    ----------
    .. [1] R. McKenna, D. Sheldon, G. Miklau (2019). Graphical-model based estimation and inference for differential
       privacy. ICML.
    """
    targets = [_place(tree, marginal, total) for marginal in merge(list(marginals))]
    potentials = _zeros(tree) if start is None else [np.array(table, float) for table in start]
    beliefs = calibrate(tree, potentials)
    projected, loss = _evaluate(targets, beliefs)
    losses = [loss]
    step = 2 / max(sum(target.weight for target in targets), 1e-300)
    for _ in range(max_iter):
        gradients = [target.weight * (have - target.shares) for target, have in zip(targets, projected, strict=True)]
        while True:
            trial = [table.copy() for table in potentials]
            for target, gradient in zip(targets, gradients, strict=True):
                trial[target.place] -= (step * gradient).reshape(target.shape)
            beliefs = calibrate(tree, trial)
            moved, lower = _evaluate(targets, beliefs)
            gain = sum(
                float((gradient * (before - after)).sum())
                for gradient, before, after in zip(gradients, projected, moved, strict=True)
            )
            if loss - lower >= gain / 2 or step < _LEAST_STEP:
                break
            step /= 2
        if lower > loss:  # no step is small enough: this is the minimum as far as floats can tell
            beliefs = calibrate(tree, potentials)
            break
        potentials, projected, loss = [table - table.max() for table in trial], moved, lower
        losses.append(loss)
        step *= _GROWTH
        if len(losses) > _BLOCK and losses[-1 - _BLOCK] - loss <= tol * loss:
            break
    return Fit(GraphicalModel(tree, beliefs), potentials, losses)


def _zeros(tree: JunctionTree) -> list[Table]:
    return [np.zeros([tree.sizes[column] for column in clique]) for clique in tree.cliques]


def _place(tree: JunctionTree, marginal: Marginal, total: float) -> _Target:
    place = tree.holder(marginal.clique)
    if place is None:
        raise ValueError(f"no clique of the tree holds the columns {marginal.clique}")
    clique = tree.cliques[place]
    return _Target(
        place,
        tuple(axis for axis, column in enumerate(clique) if column not in marginal.clique),
        tuple(tree.sizes[column] if column in marginal.clique else 1 for column in clique),
        np.asarray(marginal.counts, float).reshape([tree.sizes[column] for column in marginal.clique]) / total,
        (total / marginal.std_error) ** 2,
    )


def _evaluate(targets: Sequence[_Target], beliefs: Sequence[Table]) -> tuple[list[NDArray[np.float64]], float]:
    """Return what the model says of each measured marginal, and the loss."""
    projected = [
        beliefs[target.place].sum(axis=target.dropped) if target.dropped else beliefs[target.place]
        for target in targets
    ]
    squares = (
        target.weight * float(((have - target.shares) ** 2).sum())
        for target, have in zip(targets, projected, strict=True)
    )
    return projected, math.fsum(squares) / 2
