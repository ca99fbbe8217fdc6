"""The graphical model that fits noisy marginals best: belief propagation, descent."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skdp.oracles import project_to_simplex
from skdp.synthesis.model._graphical_model import GraphicalModel, JunctionTree
from skdp.synthesis.model._tables import (
    Clique,
    Marginal,
    Projections,
    Table,
    Tables,
    divide,
    expand,
    group,
    log_sum,
    marginal_shapes,
    merge,
    project,
    spread,
)

_UNDERFLOW = 1e-200


class Propagation:
    """Belief propagation: the marginals of a product of potentials and factors."""

    # There is a potential for each clique, and a factor for each of some marginals,
    # which is a small table of logarithms. Messages go up to the root and down again
    # ([1]_ section 10.2). Those of a clique's children, and its factors, are a part of
    # one vector. All is scaled to a maximum of 1. If a message vanishes, which takes
    # factors hundreds apart, all is done again in logarithms, at several times the
    # cost.
    # .. [1] D. Koller, N. Friedman (2009). Probabilistic graphical models. MIT Press.

    def __init__(
        self,
        tree: JunctionTree,
        potentials: Iterable[Table],
        marginals: Sequence[Clique] = (),
    ) -> None:
        self._tree = tree
        self._potentials = list(potentials)
        self._tables = [np.exp(table - table.max()) for table in self._potentials]
        self._factors = Tables(marginal_shapes(marginals, tree.sizes))
        self._children: list[list[int]] = [[] for _ in tree.cliques]
        for link in tree.links:
            self._children[link.parent].append(link.child)
        members: list[list[int]] = [[] for _ in tree.cliques]
        for index, marginal in enumerate(marginals):
            members[tree.holder_of(marginal)].append(index)

        self._positions = np.empty(self._factors.size, np.intp)  # in the vector
        self._messages = [slice(0)] * len(tree.cliques)
        self._parts: list[slice] = []
        self._below: list[Projections] = []
        self._above: list[Projections] = []
        end = 0
        for index, clique in enumerate(tree.cliques):
            start = end
            onto = []
            for child in self._children[index]:
                separator = tree.links[child - 1].separator
                self._messages[child] = slice(end, end + tree.n_cells(separator))
                end = self._messages[child].stop
                onto.append(separator)
            for member in members[index]:
                positions = self._positions[self._factors.parts[member]]
                positions[:] = np.arange(end, end + positions.size)
                end += positions.size
                onto.append(marginals[member])
            self._parts.append(slice(start, end))
            self._below.append(Projections(clique, tree.sizes, onto))
            separators = [tree.links[index - 1].separator] if index > 0 else []
            self._above.append(Projections(clique, tree.sizes, separators))

    def product(self, factors: Table) -> list[Table]:
        """Return potentials that stand for the potentials and the factors."""
        vector = np.zeros(self._parts[-1].stop)
        vector[self._positions] = factors
        potentials = []
        for index, potential in enumerate(self._potentials):
            logs = self._below[index].lift(vector[self._parts[index]])
            potentials.append(potential + logs)
        return potentials

    def run(self, factors: Table) -> tuple[list[Table], Table]:
        """Return the marginals of all cliques, and of what has factors."""
        marginals = self._run_in_numbers(factors)
        if marginals is None:
            beliefs = _run_in_logs(self._tree, self.product(factors))
            marginals = beliefs, self.sums(beliefs)
        return marginals

    def sums(self, beliefs: Sequence[Table]) -> Table:
        """Sum marginals of all cliques to those of what has factors."""
        pairs = zip(self._below, beliefs, strict=True)
        vector = np.concatenate([below.project(belief) for below, belief in pairs])
        return vector[self._positions]

    def _run_in_numbers(self, factors: Table) -> tuple[list[Table], Table] | None:
        """Return the marginals; None if numbers are too small."""
        vector = np.empty(self._parts[-1].stop)
        if factors.size:
            vector[self._positions] = np.exp(self._factors.below_peaks(factors))
        tables = list(self._tables)
        scales = [1.0] * len(tables)
        for index in reversed(range(len(tables))):
            messages = vector[self._parts[index]]
            lifted = self._below[index].lift(messages, np.multiply)
            tables[index] = tables[index] * lifted
            if index > 0:
                message = self._above[index].project(tables[index])
                scales[index] = message.max()
                if not scales[index] > _UNDERFLOW:
                    return None
                vector[self._messages[index]] = message / scales[index]
        total = tables[0].sum()
        if not total > _UNDERFLOW:
            return None
        tables[0] /= total
        shares = np.empty_like(vector)
        for index, table in enumerate(tables):
            shares[self._parts[index]] = self._below[index].project(table)
            for child in self._children[index]:
                upward = vector[self._messages[child]]
                ratio = divide(shares[self._messages[child]], upward)
                total = ratio @ upward * scales[child]
                if not max(_UNDERFLOW, _UNDERFLOW * ratio.max()) < total < np.inf:
                    return None
                tables[child] *= self._above[child].lift(ratio / total)
        return tables, shares[self._positions]


def calibrate(tree: JunctionTree, potentials: Iterable[Table]) -> list[Table]:
    """Return the marginals of all cliques."""
    beliefs, _ = Propagation(tree, potentials).run(np.empty(0))
    return beliefs


def _run_in_logs(tree: JunctionTree, potentials: Iterable[Table]) -> list[Table]:
    """Pass the same messages as logarithms."""

    def message(index: int, separator: Clique) -> Table:
        clique = tree.cliques[index]
        axes = [axis for axis, column in enumerate(clique) if column not in separator]
        return log_sum(tables[index], tuple(axes))

    tables = list(potentials)
    upward: dict[int, Table] = {}
    for link in reversed(tree.links):
        upward[link.child] = message(link.child, link.separator)
        tables[link.parent] = tables[link.parent] + expand(
            upward[link.child], link.separator, tree.cliques[link.parent]
        )
    for link in tree.links:
        downward = message(link.parent, link.separator)
        # What has no probability stays without: minus infinity less itself.
        ratio = np.full_like(downward, -np.inf)
        is_possible = downward > -np.inf
        np.subtract(downward, upward[link.child], out=ratio, where=is_possible)
        tables[link.child] = tables[link.child] + expand(
            ratio, link.separator, tree.cliques[link.child]
        )
    beliefs = []
    for table in tables:
        belief = np.exp(table - table.max())
        beliefs.append(belief / belief.sum())
    return beliefs


TOLERANCE = 0.5
"""The least share of the loss that a block of steps saves: noise is not fitted."""

_BLOCK = 20
"""The number of steps over which progress is judged."""

_MOMENTUM, _GROWTH = 0.95, 1.01
"""The largest momentum, which multiplies a move by up to 20, and longer steps."""

_PATIENCE = 8
"""Halvings of a step until the steps are no more divided by shares."""

_PERSISTENCE = 10
"""Where more than the noise is unexplained, a descent goes on for so much less."""

_EXPLAINED, _FEW_VALUES = 3.0, 10
"""In variances of the noise, how far a fitted column of many values may be."""

_FLATNESS = 8.0
"""The share to which small shares are raised in rates, in standard errors."""

_FINEST = 0.5
"""Records: less noise is no reason to trust a marginal more; that costs steps."""

_NO_STEP = 1e-30


_FAR = 2000.0
"""In variances of the noise: a marginal that is so far away is fitted by scaling."""

_MOST_SWEEPS, _LEAST_FALL = 30, 0.05

_FLOOR = 0.01
"""In standard errors, what a cell has at least: noise does not forbid a combination."""

_LEAST_LOG = -500.0
"""What was rounded to 0 may become likely again."""


@dataclass(frozen=True)
class Fit:
    """What a descent ended with."""

    model: GraphicalModel
    losses: list[float]


@dataclass(frozen=True, eq=False)
class _State:
    """A point of the descent: the factors, the marginals that they give, the loss."""

    factors: Table
    """Logarithms, of all measured marginals one after the other."""
    beliefs: Sequence[Table]
    shares: Table
    """Of all counts, one after the other."""
    loss: float
    worst_column: float
    """The largest mean of the squares of a column's standardised residuals."""


class _Loss:
    """The loss of factors, and the step against its gradient."""

    # Wide models have many small marginals: what is done to each count by itself is
    # done to all of them at once, in one vector.

    def __init__(
        self,
        tree: JunctionTree,
        marginals: Sequence[Marginal],
        total: float,
        start: Iterable[Table],
    ) -> None:
        cliques = [marginal.clique for marginal in marginals]
        self.propagation = Propagation(tree, start, cliques)
        self._counts = Tables([marginal.shape for marginal in marginals])
        self._cells = Tables(marginal_shapes(cliques, tree.sizes))
        numbers = self._counts.split(np.arange(self._counts.size))
        count_of_cells = []
        weights = []
        is_fitted = []
        for marginal, number in zip(marginals, numbers, strict=True):
            count_of_cells.append(spread(number, marginal.groups))
            weights.append((total / max(_FINEST, marginal.std_error)) ** 2)
            fitted = marginal.is_fitted
            is_fitted.append(np.ones(marginal.shape) if fitted is None else fitted)
        self._count_of_cell = self._cells.join(count_of_cells)
        n_counts = [marginal.counts.size for marginal in marginals]
        fitted_counts = self._counts.join(is_fitted)
        self._weights = np.repeat(weights, n_counts) * fitted_counts
        self.n_fitted = self._counts.sums(fitted_counts)
        self._is_column = np.array([len(clique) == 1 for clique in cliques])
        counts = self._counts.join([marginal.counts for marginal in marginals])
        self._targets = counts / total
        flatness = (_FLATNESS * total / float(np.median(weights))) ** 2
        self._rates = (np.maximum(self._targets, 0) + flatness) ** -0.5
        self._marginal_weights = np.array(weights)

    def zero(self) -> Table:
        """Return the logarithms of factors that change nothing."""
        return np.zeros(self._cells.size)

    @property
    def short_step(self) -> float:
        """A length that is too short."""
        largest_rates = [float(part.max()) for part in self._counts.split(self._rates)]
        return 2 / float(self._marginal_weights @ largest_rates)

    def flatten(self) -> None:
        """Take plain gradient steps: divided by uneven shares they may not descend."""
        self._rates = np.ones_like(self._rates)

    def at(self, factors: Table) -> _State:
        """Evaluate the marginals that factors give."""
        beliefs, sums = self.propagation.run(factors)
        return self.of(factors, beliefs, sums)

    def of(self, factors: Table, beliefs: Sequence[Table], sums: Table) -> _State:
        """Evaluate marginals."""
        counts = np.bincount(self._count_of_cell, sums, self._counts.size)
        shares = np.asarray(counts, float)
        squares = self.squares(shares)
        means = squares / (self.n_fitted + _FEW_VALUES)
        worst = float(means[self._is_column].max(initial=0.0))
        return _State(factors, beliefs, shares, float(squares.sum()) / 2, worst)

    def squares(self, shares: Table) -> Table:
        """Sum the squares of each marginal's standardised residuals."""
        return self._counts.sums((shares - self._targets) * self._gradient(shares))

    def _gradient(self, shares: Table) -> Table:
        return self._weights * (shares - self._targets)

    def step(self, state: _State, length: float) -> Table:
        """Return the factors after a step against the gradient."""
        moves = length * self._rates * self._gradient(state.shares)
        return state.factors - moves[self._count_of_cell]

    def first_length(self, state: _State) -> float:
        """Find the best step by doubling, and shorten it by what momentum adds."""
        # Many doublings are leapt over: the best step lies behind the last leap but one.
        leap = 16
        length = self.short_step / 2
        loss = state.loss
        previous = length, loss
        while (next_loss := self.at(self.step(state, leap * length)).loss) < loss:
            previous = length, loss
            length *= leap
            loss = next_loss
        length, loss = previous
        while (next_loss := self.at(self.step(state, 2 * length)).loss) < loss:
            length *= 2
            loss = next_loss
        return 2 * length * (1 - _MOMENTUM)


class Scaling:
    """Iterative proportional fitting: scales a tree's cliques to given marginals."""

    # A sweep walks once around the tree, scales each clique to one marginal after the
    # other, and each neighbour to what both share ([1]_, [2]_). For marginals that
    # agree, a few sweeps come close to the distribution of maximum entropy; noise is
    # fitted as well, so this is for marginals with little of it.
    # .. [1] W. E. Deming, F. F. Stephan (1940). On a least squares adjustment of a
    #    sampled frequency table when the expected marginal totals are known. Annals of
    #    Mathematical Statistics 11(4).
    # .. [2] R. Jiroušek, S. Přeučil (1995). On the effective implementation of the
    #    iterative proportional fitting procedure. Computational Statistics & Data
    #    Analysis 19(2).

    def __init__(
        self, tree: JunctionTree, marginals: Iterable[Marginal], total: float
    ) -> None:
        self._tree = tree
        self._targets: list[list[tuple[Marginal, Table]]] = [[] for _ in tree.cliques]
        # The least precise first: what follows overrides it.
        for marginal in sorted(marginals, key=lambda marginal: -marginal.total[1]):
            holder = tree.holder_of(marginal.clique)
            counts = project_to_simplex(marginal.counts.ravel(), total)
            counts = (counts + _FLOOR * marginal.std_error).reshape(marginal.shape)
            if marginal.is_fitted is not None:
                counts = counts * marginal.is_fitted
            self._targets[holder].append((marginal, counts / counts.sum()))

    def sweep(self, beliefs: Iterable[Table]) -> list[Table] | None:
        """Go once around the tree; None if marginals and beliefs contradict."""
        tables = list(beliefs)
        self._visit(tables, 0)
        for link in self._tree.links:  # what later branches changed
            self._pass(tables, link.parent, link.child, link.separator)
        totals = [table.sum() for table in tables]
        if not all(totals):
            return None
        return [table / total for table, total in zip(tables, totals, strict=True)]

    def _visit(self, tables: list[Table], index: int) -> None:
        """Fit a clique, then the branches below it, each with what is known by then."""
        clique = self._tree.cliques[index]
        for marginal, shares in self._targets[index]:
            sums = project(tables[index], clique, marginal.clique)
            ratio = spread(
                divide(shares, group(sums, marginal.groups)), marginal.groups
            )
            tables[index] = tables[index] * expand(ratio, marginal.clique, clique)
        for link in self._tree.links:
            if link.parent == index:
                self._pass(tables, index, link.child, link.separator)
                self._visit(tables, link.child)
                self._pass(tables, link.child, index, link.separator)

    def _pass(
        self, tables: list[Table], source: int, index: int, separator: Clique
    ) -> None:
        """Scale a clique to what its neighbour says of the columns that they share."""
        clique = self._tree.cliques[index]
        shares = project(tables[source], self._tree.cliques[source], separator)
        ratio = divide(shares, project(tables[index], clique, separator))
        tables[index] = tables[index] * expand(ratio, separator, clique)


def _scale(
    tree: JunctionTree,
    loss: _Loss,
    state: _State,
    marginals: Sequence[Marginal],
    total: float,
    max_sweeps: int,
) -> list[_State]:
    """Fit what has little noise by scaling, as long as that helps."""
    is_far = loss.squares(state.shares) > _FAR * loss.n_fitted
    scaling = Scaling(tree, itertools.compress(marginals, is_far), total)
    states = [state]
    while is_far.any() and len(states) <= max_sweeps:
        beliefs = scaling.sweep(states[-1].beliefs)
        if beliefs is None:
            break
        scaled = loss.of(state.factors, beliefs, loss.propagation.sums(beliefs))
        if not scaled.loss < (1 - _LEAST_FALL) * states[-1].loss:
            break
        states.append(scaled)
    return states


def fit_model(
    tree: JunctionTree,
    marginals: Sequence[Marginal],
    total: float,
    *,
    max_iter: int = 300,
    tol: float = TOLERANCE,
    start: Iterable[Table] | None = None,
) -> Fit:
    """Fit a model to noisy marginals: by scaling, then by accelerated descent."""
    # The loss is half the sum of the squares of (model - measurement) / standard error
    # over all counts. Mirror descent steps against its gradient in the logarithms of
    # the potentials ([1]_ algorithm 1), which keeps all probabilities positive;
    # momentum, dropped whenever the loss would rise ([2]_, [3]_), saves four fifths of
    # the steps. The gradient of a cell is divided by the square root of its measured
    # share plus a constant. With much noise the constant is large and the descent
    # plain: small cells, of which mostly noise is known, stay near the start, and
    # stopping early regularises. With little noise small cells are fitted as fast as
    # large ones.
    # .. [1] R. McKenna, D. Sheldon, G. Miklau (2019). Graphical-model based estimation
    #    and inference for differential privacy. ICML.
    # .. [2] Y. Nesterov (1983). A method for solving the convex programming problem
    #    with convergence rate O(1/k^2).
    # .. [3] B. O'Donoghue, E. Candès (2015). Adaptive restart for accelerated gradient
    #    schemes. Foundations of Computational Mathematics 15.
    # Nearly exact marginals would take a thousand steps: they are scaled to first.
    potentials = no_potentials(tree) if start is None else list(start)
    merged = merge(marginals)
    loss = _Loss(tree, merged, total, potentials)
    state = loss.at(loss.zero())
    n_sweeps = min(max_iter, _MOST_SWEEPS)
    states = _scale(tree, loss, state, merged, total, n_sweeps)
    losses = [state.loss for state in states]
    noise = float(loss.n_fitted.sum())
    if len(states) > 1:
        noise /= 2  # as the sweeps have fitted it
        scaled = GraphicalModel(tree, states[-1].beliefs)
        for index, potential in enumerate(potentials):
            logs = np.maximum(scaled.log_conditional(index), _LEAST_LOG)
            potentials[index] = np.where(potential > -np.inf, logs, -np.inf)
        loss = _Loss(tree, merged, total, potentials)
        state = loss.at(loss.zero())
    length = loss.first_length(state)
    before = state.factors
    n_moves = n_failures = 0
    for _ in range(max_iter - len(losses) + 1):
        factors = loss.step(state, length)
        momentum = min(_MOMENTUM, n_moves / (n_moves + 3))
        trial = loss.at(factors + momentum * (factors - before))
        if trial.loss < state.loss:
            state = trial
            losses.append(state.loss)
            before = factors
            length *= _GROWTH
            n_moves += 1
            n_failures = 0
        elif n_moves > 0:
            before = state.factors
            n_moves = 0
        else:
            length /= 2
            n_failures += 1
            if n_failures == _PATIENCE:
                loss.flatten()
                length = loss.first_length(state)
        is_explained = state.loss <= noise and state.worst_column <= _EXPLAINED
        least_gain = tol if is_explained else tol / _PERSISTENCE
        has_block = len(losses) >= len(states) + _BLOCK
        gain = losses[-1 - _BLOCK] - state.loss if has_block else np.inf
        if gain <= least_gain * state.loss or length < _NO_STEP * loss.short_step:
            break
    return Fit(GraphicalModel(tree, state.beliefs), losses)


def no_potentials(tree: JunctionTree) -> list[Table]:
    """Return the potentials of the uniform distribution, all 0."""
    return [np.zeros(tree.shape(index)) for index in range(len(tree.cliques))]


def independent_start(tree: JunctionTree, shares: Iterable[Table]) -> list[Table]:
    """Return the potentials of independent columns."""
    potentials = no_potentials(tree)
    for column, column_shares in enumerate(shares):
        index = tree.holder_of((column,))
        with np.errstate(divide="ignore"):
            logs = np.log(column_shares)
        potentials[index] += expand(logs, (column,), tree.cliques[index])
    return potentials


def forbid(
    tree: JunctionTree,
    potentials: Iterable[Table],
    zeros: Iterable[tuple[Clique, NDArray[np.bool_]]],
) -> list[Table]:
    """Give combinations that cannot occur no probability."""
    tables = list(potentials)
    for clique, impossible in zeros:
        index = tree.holder_of(clique)
        is_impossible = expand(impossible, clique, tree.cliques[index])
        tables[index] = np.where(is_impossible, -np.inf, tables[index])
    return tables
