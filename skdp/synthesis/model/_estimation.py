"""Fit a graphical model to noisy marginals by accelerated mirror descent."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skdp.oracles import project_to_simplex
from skdp.synthesis.model._graphical_model import GraphicalModel, Propagation
from skdp.synthesis.model._junction_tree import JunctionTree
from skdp.synthesis.model._tables import (
    Clique,
    Layout,
    Marginal,
    Table,
    estimate_counts,
    estimate_total,
    expand,
    merge_marginals,
    repeat_groups,
)

# Tuned by benchmarks/synthesis.py.
MAX_STEPS = 150
STOPPING_WINDOW = 20
"""Number of steps over which the decrease of the loss is measured."""

MIN_DECREASE = 0.5
"""Smallest relative decrease of the loss in a window; early stopping regularizes."""

MIN_DECREASE_UNEXPLAINED = 0.05
"""The same while the residuals exceed the noise."""

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
"""Standard errors above which a count has records: noise exceeds them in one of 30,000 cells."""

MIN_TAIL_COUNT = 1e-6
"""Smallest count of a tail at which the descent starts, in standard errors."""

Masks = Sequence[tuple[Clique, NDArray[np.bool_]]]
"""Columns with a constraint, and an array that is True for each of their impossible cells."""


@dataclass(frozen=True)
class Structure:
    """The public facts of a model: sizes and orders of columns, and impossible cells."""

    sizes: tuple[int, ...]
    has_tails: tuple[bool, ...]
    """True for each column of numbers or dates, whose first and last bins are often rare."""
    masks: Masks = ()


def fit_model(
    structure: Structure, marginals: Iterable[Marginal]
) -> tuple[GraphicalModel, int]:
    """Fit a graphical model to noisy marginals; also return the number of steps."""
    # The model minimizes the weighted squared error of all measured counts. The descent
    # starts from independent columns: mirror descent ([1]_ algorithm 1) with Nesterov momentum that restarts whenever
    # the loss would increase ([2]_).
    # .. [1] R. McKenna, D. Sheldon, G. Miklau (2019). Graphical-model based estimation
    #    and inference for differential privacy. ICML.
    # .. [2] B. O'Donoghue, E. Candès (2015). Adaptive restart for accelerated gradient
    #    schemes. Foundations of Computational Mathematics 15.
    merged = merge_marginals(marginals)
    total, _ = estimate_total(merged)
    cliques = [marginal.clique for marginal in merged]
    masked = [clique for clique, _ in structure.masks]
    tree = JunctionTree(structure.sizes, [*cliques, *masked])
    potentials = _make_potentials(tree, structure, merged, total)
    loss = _Loss(tree, merged, total, potentials)
    state, n_steps = _descend(loss)
    return GraphicalModel(tree, state.beliefs), n_steps


def _make_potentials(
    tree: JunctionTree,
    structure: Structure,
    marginals: Sequence[Marginal],
    total: float,
) -> list[Table]:
    """Return the log-potential of each clique: independent columns, and -inf in impossible cells."""
    potentials = list(map(np.zeros, map(tree.shape, range(len(tree.cliques)))))
    for column, has_tails in enumerate(structure.has_tails):
        size = tree.sizes[column]
        proportions = _estimate_column(column, size, has_tails, marginals, total)
        index = tree.find_measured((column,))
        potentials[index] += expand(np.log(proportions), (column,), tree.cliques[index])
    for clique, is_impossible in structure.masks:
        index = tree.find_measured(clique)
        mask = expand(is_impossible, clique, tree.cliques[index])
        potentials[index] = np.where(mask, -np.inf, potentials[index])
    return potentials


def _estimate_column(
    column: int,
    size: int,
    has_tails: bool,
    marginals: Sequence[Marginal],
    total: float,
) -> Table:
    """Estimate the proportions of the values of a column, all positive, at which the descent starts."""
    noisy, std_error = estimate_counts(marginals, (column,))
    if not np.isfinite(std_error):
        return np.full(size, 1 / size)
    # A count of 0 may be noise.
    counts = project_to_simplex(noisy, total) + std_error
    clear = np.flatnonzero(noisy >= CLEAR_STD_ERRORS * std_error)
    if has_tails and clear.size:
        # Outside the clear counts, noise may exceed the counts and would dominate the
        # mean of the column, so the counts are replaced by geometric tails.
        low, high = clear[0], clear[-1]
        smallest = MIN_TAIL_COUNT * std_error
        counts[high:] = _fit_tail(noisy[high:]) + smallest
        counts[low::-1] = _fit_tail(noisy[low::-1]) + smallest
    return np.asarray(counts / counts.sum())


def _fit_tail(noisy: Table) -> Table:
    """Return a geometric tail c r**k, in which c is the first count and r is estimated from the next two."""
    # The sum of the tail after a count c is c r / (1 - r) = s, so r = s / (s + c). The
    # next two counts estimate s; one or four of them give equal errors.
    tail_sum = max(0.0, float(noisy[1:3].sum()))
    ratio = tail_sum / (tail_sum + noisy[0])
    return np.asarray(noisy[0] * ratio ** np.arange(noisy.size))


@dataclass(frozen=True, eq=False)
class _State:
    """The model at a point of the descent."""

    factors: Table
    """The logarithms of the factors, one per measured count: (n_counts,)."""
    beliefs: list[Table]
    """The distribution of each clique."""
    proportions: Table
    """The proportions of the measured counts by the model: (n_counts,)."""
    loss: float
    is_explained: bool
    """True if the residuals are not larger than the noise."""


class _Loss:
    """Half the sum of squared standardized residuals of all measured counts, and its gradient steps."""

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
            count_of_cell.append(repeat_groups(number, marginal.groups).ravel())
        # The index of the measured count to which each cell belongs: (n_cells,).
        self._count_of_cell = np.concatenate(count_of_cell)
        self._targets = self._counts.join(m.counts for m in marginals) / total
        errors = np.array([marginal.std_error for marginal in marginals])
        # Marginals with less noise than half a record do not get more weight.
        weights = (total / np.maximum(0.5, errors)) ** 2
        self._weights = np.repeat(weights, self._counts.lengths)
        # Steps are divided by the square root of the proportion, because the curvature
        # is proportional to the proportion. An offset of 8 standard errors limits them.
        offset = (8 * total / float(np.median(weights))) ** 2
        self._rates = (np.maximum(self._targets, 0) + offset) ** -0.5
        self._alternative_rates = self._weights.max() / self._weights

    def start(self) -> _State:
        """Evaluate the model with factors of 1."""
        return self.evaluate(np.zeros(self._counts.size))

    def evaluate(self, factors: Table) -> _State:
        """Evaluate the model with factors, given their logarithms."""
        beliefs, cells = self._propagation.run(factors[self._count_of_cell])
        sums = np.bincount(self._count_of_cell, cells, self._counts.size)
        proportions = np.asarray(sums, float)
        squared = self._weights * (proportions - self._targets) ** 2
        squares = self._counts.sum_tables(squared)
        # All beliefs are 0 if messages contradict each other.
        loss = float(squares.sum()) / 2 if beliefs[0].any() else np.inf
        means = squares / self._counts.lengths
        is_explained = loss <= self._counts.size and means.max() <= MAX_MEAN_SQUARE
        return _State(factors, beliefs, proportions, loss, bool(is_explained))

    def step(self, state: _State, length: float) -> Table:
        """Return the logarithms of the factors after a gradient step."""
        # The factors are the natural parameters of the model, and mirror descent
        # subtracts the gradient with respect to the proportions from them.
        gradient = self._weights * (state.proportions - self._targets)
        return state.factors - length * self._rates * gradient

    def switch_rates(self) -> None:
        """Switch between longer steps in small cells, and steps that are equally long for all marginals."""
        self._rates, self._alternative_rates = self._alternative_rates, self._rates

    @property
    def safe_step(self) -> float:
        """A step length at which the loss decreases: the inverse of a bound of the curvature."""
        # The curvature of the error of a marginal is at most its largest weight, and
        # the curvatures of all marginals add up.
        curvature = 0.0
        for weights in self._counts.split(self._weights * self._rates):
            curvature += float(weights.max())
        return 1 / curvature


def _descend(loss: _Loss) -> tuple[_State, int]:
    """Take gradient steps with momentum until the loss decreases too slowly; also return the number of steps."""
    state = loss.start()
    losses: list[float] = []
    n_switches = n_steps = 0
    while n_steps < MAX_STEPS:
        n_steps += 1
        if not losses:  # at the start, and after a change of rates
            length = _find_step_length(loss, state)
            previous = state.factors
            losses.append(state.loss)
            n_moves = n_halvings = 0
        factors = loss.step(state, length)
        # Nesterov's weight, which increases with the number of steps since a restart.
        momentum = min(MAX_MOMENTUM, n_moves / (n_moves + 3))
        trial = loss.evaluate(factors + momentum * (factors - previous))
        if trial.loss < state.loss:
            state = trial
            previous = factors
            losses.append(state.loss)
            length *= STEP_GROWTH
            n_moves += 1
            n_halvings = 0
        elif n_moves > 0:  # restart without momentum
            previous = state.factors
            n_moves = 0
        else:
            length /= 2
            n_halvings += 1
        min_decrease = MIN_DECREASE
        if not state.is_explained:
            min_decrease = MIN_DECREASE_UNEXPLAINED
        is_slow = n_halvings == MAX_HALVINGS
        if len(losses) > STOPPING_WINDOW:
            decrease = losses[-1 - STOPPING_WINDOW] - state.loss
            is_slow |= decrease <= min_decrease * state.loss
        if is_slow and (state.is_explained or n_switches == MAX_SWITCHES):
            break
        if is_slow:  # large steps in small cells may stall, and so may even steps
            loss.switch_rates()
            n_switches += 1
            losses = []
    return state, n_steps


def _find_step_length(loss: _Loss, state: _State) -> float:
    """Double the step length while the loss decreases, then shorten it for momentum."""
    length = loss.safe_step
    smallest = state.loss
    trial = loss.evaluate(loss.step(state, length))
    while trial.loss < smallest:
        smallest = trial.loss
        length *= 2
        trial = loss.evaluate(loss.step(state, length))
    # With momentum m, steps add up to 1 / (1 - m) times the length.
    return length * (1 - MAX_MOMENTUM)
