"""Fit a graphical model to noisy marginals by accelerated mirror descent."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skdp.oracles import project_to_simplex
from skdp.synthesis.model._graphical_model import GraphicalModel
from skdp.synthesis.model._junction_tree import JunctionTree
from skdp.synthesis.model._propagation import Propagation
from skdp.synthesis.model._tables import (
    Clique,
    Layout,
    Marginal,
    Table,
    estimate_counts,
    estimate_total,
    expand,
    merge,
    spread,
)

# Tuned by benchmarks/synthesis.py.
MAX_STEPS = 150
MIN_GAIN = 0.5
"""Smallest relative decrease of the loss in `BLOCK` steps; early stopping regularizes."""

MIN_GAIN_UNEXPLAINED = 0.05
"""The same while the residuals exceed the noise."""

BLOCK = 20
MAX_MOMENTUM = 0.9
STEP_GROWTH = 1.01

# Without switches, growth and the mean square, errors of pairs with 100 columns are 1.1 and
# of the worst pair 1.5 times as large (benchmarks/synthesis.py).
MAX_HALVINGS, MAX_SWITCHES = 8, 3
MAX_MEAN_SQUARE = 3.0
"""Largest mean squared standardized residual that noise explains."""

# Chosen by benchmarks/synthesis_numbers.py: at 2, errors of standard deviations of the
# smooth columns are 30 times as large at epsilon 1; at 8 they are equal.
CLEAR_STD_ERRORS = 4.0
"""Noise exceeds it in one of 30,000 cells, so a cell with a larger count has records."""

MIN_START = 1e-6
"""Smallest count in a tail, in standard errors."""

Masks = Sequence[tuple[Clique, NDArray[np.bool_]]]
"""Columns, and their impossible cells."""


@dataclass(frozen=True)
class Structure:
    """The public facts of a model: sizes and orders of columns, and impossible cells."""

    sizes: tuple[int, ...]
    has_tails: tuple[bool, ...]
    """Whether a column has numbers or dates, whose rare values lie at its ends."""
    masks: Masks = ()


def fit_model(
    structure: Structure, marginals: Iterable[Marginal]
) -> tuple[GraphicalModel, int]:
    """Fit a model to noisy marginals, starting from independent columns; count the steps."""
    # Mirror descent ([1]_ algorithm 1) with Nesterov momentum that restarts whenever
    # the loss would rise ([2]_).
    # .. [1] R. McKenna, D. Sheldon, G. Miklau (2019). Graphical-model based estimation
    #    and inference for differential privacy. ICML.
    # .. [2] B. O'Donoghue, E. Candès (2015). Adaptive restart for accelerated gradient
    #    schemes. Foundations of Computational Mathematics 15.
    merged = merge(marginals)
    total, _ = estimate_total(merged)
    cliques = [marginal.clique for marginal in merged]
    masked = [clique for clique, _ in structure.masks]
    tree = JunctionTree(structure.sizes, [*cliques, *masked])
    loss = _Loss(tree, merged, total, _start(tree, structure, merged, total))
    state, n_steps = _descend(loss)
    return GraphicalModel(tree, state.beliefs), n_steps


def _start(
    tree: JunctionTree,
    structure: Structure,
    marginals: Sequence[Marginal],
    total: float,
) -> list[Table]:
    """Return the potentials of independent columns without impossible cells."""
    potentials = [np.zeros(tree.shape(index)) for index in range(len(tree.cliques))]
    for column, has_tails in enumerate(structure.has_tails):
        proportions = _start_column(
            column, tree.sizes[column], has_tails, marginals, total
        )
        index = tree.find_measured((column,))
        potentials[index] += expand(np.log(proportions), (column,), tree.cliques[index])
    for clique, is_impossible in structure.masks:
        index = tree.find_measured(clique)
        mask = expand(is_impossible, clique, tree.cliques[index])
        potentials[index] = np.where(mask, -np.inf, potentials[index])
    return potentials


def _start_column(
    column: int,
    size: int,
    has_tails: bool,
    marginals: Sequence[Marginal],
    total: float,
) -> Table:
    """Return the proportions of a column at which the descent starts, all positive."""
    noisy, std_error = estimate_counts(marginals, (column,))
    if not np.isfinite(std_error):
        return np.full(size, 1 / size)
    # A count of 0 may be noise.
    counts = project_to_simplex(noisy, total) + std_error
    clear = np.flatnonzero(noisy >= CLEAR_STD_ERRORS * std_error)
    if has_tails and clear.size:
        first, last = clear[0], clear[-1]
        counts[last:] = _decrease(noisy[last:]) + MIN_START * std_error
        counts[first::-1] = _decrease(noisy[first::-1]) + MIN_START * std_error
    return np.asarray(counts / counts.sum())


def _decrease(noisy: Table) -> Table:
    """Continue a clear count by a geometric tail, because noise could dominate its mean."""
    # The sum of the tail of ratio r after a count c is c r / (1 - r).
    # One or four cells in place of two give errors within the noise.
    near = max(0.0, float(noisy[1:3].sum()))
    ratio = near / (near + noisy[0])
    return np.asarray(noisy[0] * ratio ** np.arange(noisy.size))


@dataclass(frozen=True, eq=False)
class _State:
    """A point of the descent."""

    factors: Table
    """One logarithm per measured count."""
    beliefs: list[Table]
    proportions: Table
    """Modeled proportions of the measured counts."""
    loss: float
    is_explained: bool


class _Loss:
    """Half the sum of squared standardized residuals of all measured counts."""

    def __init__(
        self,
        tree: JunctionTree,
        marginals: Sequence[Marginal],
        total: float,
        potentials: list[Table],
    ) -> None:
        cliques = [marginal.clique for marginal in marginals]
        self._propagation = Propagation(tree, potentials, cliques)
        self._counts = Layout(marginal.counts.shape for marginal in marginals)
        numbers = self._counts.split(np.arange(self._counts.size))
        count_of_cell = []
        for marginal, number in zip(marginals, numbers, strict=True):
            count_of_cell.append(spread(number, marginal.groups).ravel())
        self._count_of_cell = np.concatenate(count_of_cell)
        self._targets = self._counts.join(m.counts for m in marginals) / total
        errors = np.array([marginal.std_error for marginal in marginals])
        # Marginals with less noise than half a record do not get more weight.
        weights = (total / np.maximum(0.5, errors)) ** 2
        self._weights = np.repeat(weights, self._counts.lengths)
        # Steps are divided by the square root of the proportion, flattened below 8
        # standard errors.
        flatness = (8 * total / float(np.median(weights))) ** 2
        self._rates = (np.maximum(self._targets, 0) + flatness) ** -0.5
        self._other_rates = self._weights.max() / self._weights

    def start(self) -> _State:
        """Evaluate the initial model."""
        return self.evaluate(np.zeros(self._counts.size))

    def evaluate(self, factors: Table) -> _State:
        """Evaluate the model with some factors."""
        beliefs, cells = self._propagation.run(factors[self._count_of_cell])
        sums = np.bincount(self._count_of_cell, cells, self._counts.size)
        proportions = np.asarray(sums, float)
        squares = self._counts.sums(self._weights * (proportions - self._targets) ** 2)
        loss = float(squares.sum()) / 2 if beliefs[0].any() else np.inf
        means = squares / self._counts.lengths
        is_explained = loss <= self._counts.size and means.max() <= MAX_MEAN_SQUARE
        return _State(factors, beliefs, proportions, loss, bool(is_explained))

    def step(self, state: _State, length: float) -> Table:
        """Return the factors after a gradient step."""
        gradient = self._weights * (state.proportions - self._targets)
        return state.factors - length * self._rates * gradient

    def switch_rates(self) -> None:
        """Switch between longer steps in small cells and equally long steps for all marginals."""
        self._rates, self._other_rates = self._other_rates, self._rates

    @property
    def safe_step(self) -> float:
        """A lower bound of a good step length: the inverse of the total curvature."""
        # One maximum per marginal.
        weights = self._counts.split(self._weights * self._rates)
        return 1 / sum(float(table.max()) for table in weights)


def _descend(loss: _Loss) -> tuple[_State, int]:
    """Step against the gradient until the loss falls too slowly; count the steps."""
    state = loss.start()
    losses: list[float] = []
    n_switches = n_steps = 0
    while n_steps < MAX_STEPS:
        n_steps += 1
        if not losses:  # at the start, and after a change of rates
            length = _first_length(loss, state)
            previous = state.factors
            losses.append(state.loss)
            n_moves = n_halvings = 0
        factors = loss.step(state, length)
        momentum = min(MAX_MOMENTUM, n_moves / (n_moves + 3))
        trial = loss.evaluate(factors + momentum * (factors - previous))
        if trial.loss < state.loss:
            state = trial
            previous = factors
            losses.append(state.loss)
            length *= STEP_GROWTH
            n_moves += 1
            n_halvings = 0
        elif n_moves > 0:
            previous = state.factors
            n_moves = 0
        else:
            length /= 2
            n_halvings += 1
        min_gain = MIN_GAIN if state.is_explained else MIN_GAIN_UNEXPLAINED
        is_slow = n_halvings == MAX_HALVINGS
        if len(losses) > BLOCK:
            is_slow |= losses[-1 - BLOCK] - state.loss <= min_gain * state.loss
        if is_slow and (state.is_explained or n_switches == MAX_SWITCHES):
            break
        if is_slow:  # large steps in small cells may stall, and so may even steps
            loss.switch_rates()
            n_switches += 1
            losses = []
    return state, n_steps


def _first_length(loss: _Loss, state: _State) -> float:
    """Double the step length while the loss falls, then shorten it for momentum."""
    length = loss.safe_step
    best = state.loss
    while True:
        trial = loss.evaluate(loss.step(state, length))
        if not trial.loss < best:
            return length * (1 - MAX_MOMENTUM)
        best = trial.loss
        length *= 2
