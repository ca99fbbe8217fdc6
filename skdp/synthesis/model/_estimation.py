"""Fit a graphical model to noisy marginals by accelerated mirror descent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from skdp._arrays import Floats, Mask
from skdp.oracles import project_to_simplex
from skdp.synthesis.model._graphical_model import GraphicalModel, Propagation
from skdp.synthesis.model._junction_tree import JunctionTree
from skdp.synthesis.model._tables import (
    Clique,
    Layout,
    Marginal,
    estimate_counts,
    estimate_total,
    expand,
    merge_marginals,
    repeat_groups,
    shape_of,
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

N_FITS = 5
"""Rounds of proportional fitting; tails of columns change each other little."""

MIN_PROPORTION = 1e-12
"""Smallest proportion of a cell in a tail."""

MIN_TAIL_COUNT = 1e-6
"""Smallest count of a tail at which the descent starts, in standard errors."""

Masks = Sequence[tuple[Clique, Mask]]
"""Columns with a constraint, and an array that is True for each of their impossible cells."""


@dataclass(frozen=True)
class Structure:
    """The public facts of a model: sizes and orders of columns, and impossible cells."""

    sizes: tuple[int, ...]
    masks: Masks = ()
    given: frozenset[int] = frozenset()
    """Columns of which all others are drawn given; empty if all columns are drawn."""


def fit_model(
    structure: Structure,
    marginals: Iterable[Marginal],
    tails: Mapping[int, Floats] | None = None,
) -> tuple[GraphicalModel, int]:
    """Fit a graphical model to noisy marginals; also return the number of steps.

    `tails` has, by column, the estimated counts of values in tails, which replace their noisy counts, and NaN
    elsewhere.
    """
    # The model minimizes the weighted squared error of all measured counts. The descent
    # starts from independent columns: mirror descent ([1]_ algorithm 1) with Nesterov momentum that restarts whenever
    # the loss would increase ([2]_).
    # .. [1] R. McKenna, D. Sheldon, G. Miklau (2019). Graphical-model based estimation
    #    and inference for differential privacy. ICML.
    # .. [2] B. O'Donoghue, E. Candès (2015). Adaptive restart for accelerated gradient
    #    schemes. Foundations of Computational Mathematics 15.
    merged = merge_marginals(marginals)
    total, _ = estimate_total(merged)
    tails = tails or {}
    merged, is_tail = _replace_tails(merged, tails, total)
    cliques = [marginal.clique for marginal in merged]
    masked = [clique for clique, _ in structure.masks]
    tree = JunctionTree(structure.sizes, [*cliques, *masked], structure.given)
    potentials = _make_potentials(tree, structure, merged, tails, total)
    loss = _Loss(tree, merged, total, potentials)
    state, n_steps = _descend(loss, structure)
    # Iterative proportional fitting: the noise of pairs is not in the tails.
    for _ in range(N_FITS if is_tail.any() else 0):
        state = loss.fit_targets(state, is_tail)
    return GraphicalModel(tree, state.beliefs), n_steps


def _replace_tails(
    marginals: Sequence[Marginal], tails: Mapping[int, Floats], total: float
) -> tuple[list[Marginal], Mask]:
    """Replace the noisy counts of columns in tails; also mark these counts; shape (n_counts of all marginals,).

    `tails` has estimated counts by column, NaN for values that keep their noisy counts. `total` is the estimated number
    of records.
    """
    replaced = []
    marks = []
    for marginal in marginals:
        is_tail = np.zeros(marginal.counts.shape, bool)
        (column, *others) = marginal.clique
        if column in tails and not others:
            is_tail = ~np.isnan(tails[column])
            counts = np.where(is_tail, tails[column], marginal.counts)
            # All other counts add up to the rest.
            rest = total - counts.sum()
            counts[~is_tail] += rest / max(1, is_tail.size - is_tail.sum())
            marginal = replace(marginal, counts=counts)
        replaced.append(marginal)
        marks.append(is_tail.ravel())
    return replaced, np.concatenate(marks)


def _make_potentials(
    tree: JunctionTree,
    structure: Structure,
    marginals: Sequence[Marginal],
    tails: Mapping[int, Floats],
    total: float,
) -> list[Floats]:
    """Return the log-potential of each clique: independent columns, and -inf in impossible cells.

    `tails` has estimated counts of columns, NaN for values that are estimated from `marginals`. `total` is the
    estimated number of records.
    """
    potentials = [np.zeros(shape_of(clique, tree.sizes)) for clique in tree.cliques]
    for column, size in enumerate(tree.sizes):
        tail = tails.get(column, np.full(size, np.nan))
        proportions = _estimate_column(column, tail, marginals, total)
        index = tree.find_measured((column,))
        potentials[index] += expand(np.log(proportions), (column,), tree.cliques[index])
    for clique, is_impossible in structure.masks:
        index = tree.find_measured(clique)
        mask = expand(is_impossible, clique, tree.cliques[index])
        potentials[index] = np.where(mask, -np.inf, potentials[index])
    return potentials


def _estimate_column(
    column: int, tail: Floats, marginals: Sequence[Marginal], total: float
) -> Floats:
    """Estimate the proportions of the values of a column, all positive, at which the descent starts; shape (n_values,).

    `tail` has counts that replace noisy counts, and is NaN elsewhere. `total` is the estimated number of records.
    """
    noisy, std_error = estimate_counts(marginals, (column,))
    if not np.isfinite(std_error):
        return np.full(tail.size, 1 / tail.size)
    # A count of 0 may be noise.
    counts = project_to_simplex(noisy, total) + std_error
    counts = np.where(np.isnan(tail), counts, tail + MIN_TAIL_COUNT * std_error)
    return counts / counts.sum()


@dataclass(frozen=True, eq=False)
class _State:
    """The model at a point of the descent."""

    factors: Floats
    """The logarithms of the factors, one per measured count; shape (n_counts,)."""
    beliefs: list[Floats]
    """The distribution of each clique."""
    proportions: Floats
    """The proportions of the measured counts by the model; shape (n_counts,)."""
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
        potentials: list[Floats],
    ) -> None:
        """Write the measured counts as one vector of proportions, weighted by precision.

        `total` is the estimated number of records, and `potentials` are the log-potentials of the cliques before
        factors.
        """
        cliques = [marginal.clique for marginal in marginals]
        self._propagation = Propagation(tree, potentials, cliques)
        self._counts = Layout(marginal.counts.shape for marginal in marginals)
        numbers = self._counts.split(np.arange(self._counts.size))
        count_of_cell = []
        for marginal, number in zip(marginals, numbers, strict=True):
            count_of_cell.append(repeat_groups(number, marginal.groups).ravel())
        # The index of the measured count to which each cell belongs; shape (n_cells,).
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

    def evaluate(self, factors: Floats) -> _State:
        """Evaluate the model with factors, given their logarithms, one per measured count; shape (n_counts,)."""
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

    def fit_targets(self, state: _State, is_fitted: Mask) -> _State:
        """Scale cells of the model so that some measured counts equal their targets.

        `is_fitted` marks these counts; shape (n_counts,).
        """
        targets = np.maximum(self._targets[is_fitted], MIN_PROPORTION)
        proportions = np.maximum(state.proportions[is_fitted], MIN_PROPORTION)
        factors = state.factors.copy()
        factors[is_fitted] += np.log(targets / proportions)
        return self.evaluate(factors)

    def step(self, state: _State, length: float) -> Floats:
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


def _descend(loss: _Loss, structure: Structure) -> tuple[_State, int]:
    """Take gradient steps with momentum until the loss decreases too slowly; also return the number of steps."""
    state = loss.start()
    losses: list[float] = []
    n_switches = n_steps = 0
    while n_steps < MAX_STEPS:
        n_steps += 1
        if not losses:  # at the start, and after a switch of the rates
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
        min_decrease = MIN_DECREASE if state.is_explained else MIN_DECREASE_UNEXPLAINED
        is_slow = n_halvings == MAX_HALVINGS
        if len(losses) > STOPPING_WINDOW:
            decrease = losses[-1 - STOPPING_WINDOW] - state.loss
            is_slow |= decrease <= min_decrease * state.loss
        if is_slow and (state.is_explained or n_switches == MAX_SWITCHES):
            break
        if is_slow:
            # The residuals exceed the noise, but the steps have stalled. Steps with the
            # other rates (see `switch_rates`) may still decrease the loss.
            loss.switch_rates()
            n_switches += 1
            losses = []
    return state, n_steps


def _find_step_length(loss: _Loss, state: _State) -> float:
    """Double the step length while the loss decreases, then shorten it for momentum."""
    # Shortened, the first length is below the safe one.
    length = 8 * loss.safe_step
    smallest = state.loss
    trial = loss.evaluate(loss.step(state, length))
    while trial.loss < smallest:
        smallest = trial.loss
        length *= 2
        trial = loss.evaluate(loss.step(state, length))
    # With momentum m, steps add up to 1 / (1 - m) times the length.
    return length * (1 - MAX_MOMENTUM)
