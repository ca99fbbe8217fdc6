"""Finding the graphical model that fits noisy marginals best: proportional fitting, accelerated mirror descent."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skdp.oracles import project_to_simplex
from skdp.synthesis.model._graphical_model import GraphicalModel, JunctionTree, Link
from skdp.synthesis.model._propagation import Propagation
from skdp.synthesis.model._tables import (
    Clique,
    Groups,
    Marginal,
    Table,
    Tables,
    divide,
    expand,
    group,
    merge,
    project,
    spread,
)

_GROWTH = 1.01
_FIRST = 0.05  # of the first step that is too long: the momentum multiplies what a step moves
_LEAP = 16
_MOMENTUM = 0.95
_LEAST_STEP = 1e-30
_PATIENCE = 8  # halvings until steps divided by shares are given up
TOLERANCE = 0.5
"""The least share of the loss that a block of steps saves: so much that noise is not fitted to the end."""

_BLOCK = 20
"""The number of steps over which progress is judged."""

_INSIST = 100
"""Where more than the noise is unexplained, a descent from far goes on for a gain smaller by this factor."""

_POLISH = 10
"""The same for a descent that starts where scaling ended: near, but noise explains half as much."""

_SETTLED, _FEW = 3.0, 10
"""Of the noise's variance: a column from which the model is further away is not explained, if it has many values."""

_EXACT = 2000.0
"""Of the noise's variance: a marginal from which the start is so far away is fitted by scaling first."""

_SWEEPS = 30
_LEAST_FALL = 0.05

_LEAST_LOG = -500.0
_FLATNESS = 8.0
_FINEST = 0.5
"""Less noise than half a record is no reason to trust one marginal far more than another; that would cost steps."""


@dataclass(frozen=True)
class Fit:
    """What mirror descent ended with."""

    model: GraphicalModel
    potentials: list[Table]
    losses: list[float]
    factors: dict[Clique, Table]
    """What the model has beside the start, in logarithms, for each measured set of columns; empty after scaling."""


@dataclass(frozen=True, eq=False)
class _Target:
    """A measured marginal: where it is in the tree, its shares, and the weight of their squared errors."""

    place: int
    groups: Groups | None
    shares: Table
    weight: float
    counted: NDArray[np.bool_] | None = None

    @property
    def n_counts(self) -> int:
        """The number of counts that matter."""
        return self.shares.size if self.counted is None else int(self.counted.sum())

    @property
    def weights(self) -> Table:
        """The weight of each count."""
        return np.full(self.shares.shape, self.weight) * (
            1.0 if self.counted is None else self.counted
        )


@dataclass(frozen=True, eq=False)
class _State:
    """A point of the descent: the factors, the marginals that they give, and the loss."""

    logs: NDArray[np.float64]
    """Of the factors, one for each measured marginal, one after the other."""
    beliefs: list[Table]
    projected: Table
    """The shares of all counts, one after the other."""
    loss: float
    worst: float
    """The largest mean of the squares of a column's standardised residuals."""


class _Descent:
    """The loss of factors, and the step against its gradient."""

    # Wide models have many small marginals: what is done to each count by itself is done to all of them at once.

    def __init__(
        self,
        tree: JunctionTree,
        marginals: Sequence[Marginal],
        total: float,
        start: Sequence[Table],
    ) -> None:
        self.tree, self.marginals, self.total = tree, marginals, total
        self.targets = [_place(tree, marginal, total) for marginal in marginals]
        self.begin(start)
        self.counts = Tables([target.shares.shape for target in self.targets])
        self.cells = Tables(
            [
                [tree.sizes[column] for column in marginal.clique]
                for marginal in marginals
            ]
        )
        numbers = zip(
            self.counts.split(np.arange(self.counts.size)), self.targets, strict=True
        )
        self.counted_in = self.cells.join(
            [spread(number, target.groups) for number, target in numbers]
        )
        self.shares = self.counts.join([target.shares for target in self.targets])
        self.weights = self.counts.join([target.weights for target in self.targets])
        self.n_counts = np.array([target.n_counts for target in self.targets])
        typical = float(np.median([target.weight for target in self.targets]))
        flatness = (_FLATNESS * total / typical) ** 2
        self.rates = (np.maximum(self.shares, 0) + flatness) ** -0.5
        self.least = self._least()

    def _least(self) -> float:
        """Return a length that is too short."""
        rates = (float(rate.max()) for rate in self.counts.split(self.rates))
        return 2 / sum(
            target.weight * rate
            for target, rate in zip(self.targets, rates, strict=True)
        )

    def flatten(self) -> None:
        """Use plain gradient steps, which always decrease the loss: divided by uneven shares they may not."""
        self.rates = np.ones_like(self.rates)
        self.least = self._least()

    def carry(self, factors: Mapping[Clique, Table]) -> NDArray[np.float64]:
        """Return the factors of another model for what was measured for it; of a column that follows, none."""
        left = dict(factors)
        found = np.zeros(self.cells.size)
        for part, marginal in zip(self.cells.parts, self.marginals, strict=True):
            if marginal.counted is None and marginal.clique in left:
                found[part] = left.pop(marginal.clique).ravel()
        return found

    def factors(self, logs: NDArray[np.float64]) -> dict[Clique, Table]:
        """Return the factor of each set of columns."""
        found: dict[Clique, Table] = {}
        for marginal, table in zip(self.marginals, self.cells.split(logs), strict=True):
            found[marginal.clique] = found.get(marginal.clique, 0.0) + table
        return found

    def begin(self, potentials: Sequence[Table]) -> None:
        """Let factors multiply what some potentials stand for."""
        self.model = Propagation(
            self.tree, potentials, [marginal.clique for marginal in self.marginals]
        )

    def at(self, logs: NDArray[np.float64]) -> _State:
        """Evaluate the marginals that factors give."""
        return self.given(logs, *self.model.run(logs))

    def given(
        self, logs: NDArray[np.float64], beliefs: list[Table], sums: NDArray[np.float64]
    ) -> _State:
        projected = np.asarray(
            np.bincount(self.counted_in, sums, self.counts.size), float
        )
        squares = self.squares(projected)
        means = (squares / (self.n_counts + _FEW))[
            [target.shares.ndim == 1 for target in self.targets]
        ]
        return _State(
            logs,
            beliefs,
            projected,
            float(squares.sum()) / 2,
            float(means.max(initial=0.0)),
        )

    def pull(self, projected: Table) -> Table:
        """Return the gradient of the loss: the weighted errors."""
        return self.weights * (projected - self.shares)

    def squares(self, projected: Table) -> NDArray[np.float64]:
        """Sum the squares of each marginal's standardised residuals."""
        return self.counts.sums((projected - self.shares) * self.pull(projected))

    def scale(self, state: _State, most: int) -> list[_State]:
        """Fit what has little noise by scaling, as long as that helps; the last state is the best."""
        squares = self.squares(state.projected)
        far = squares > _EXACT * self.n_counts
        scaling = Scaling(
            self.tree, list(itertools.compress(self.marginals, far)), self.total
        )
        states = [state]
        while far.any() and len(states) <= most:
            beliefs = scaling.sweep(states[-1].beliefs)
            if beliefs is None:
                break
            found = self.given(state.logs, beliefs, self.model.sums(beliefs))
            if not found.loss < (1 - _LEAST_FALL) * states[-1].loss:
                break
            states.append(found)
        if len(states) > 1:
            logs = _potentials_of(GraphicalModel(self.tree, states[-1].beliefs))
            pairs = zip(logs, self.model.joined(state.logs), strict=True)
            self.begin(
                [np.where(before > -np.inf, log, -np.inf) for log, before in pairs]
            )
            states[-1] = self.at(np.zeros_like(state.logs))
        return states

    def step(self, state: _State, length: float) -> NDArray[np.float64]:
        return (
            state.logs
            - (length * self.rates * self.pull(state.projected))[self.counted_in]
        )

    def first_length(self, state: _State) -> float:
        """Double the step until it is too long."""
        # Of many doublings most are leapt over: the longest good step lies behind the last leap but one.
        before = length, best = self.least / 2, state.loss
        while (loss := self.at(self.step(state, _LEAP * length)).loss) < best:
            before, length, best = (length, best), _LEAP * length, loss
        length, best = before
        while (loss := self.at(self.step(state, 2 * length)).loss) < best:
            length, best = 2 * length, loss
        return 2 * length * _FIRST


def fit_model(
    tree: JunctionTree,
    marginals: Sequence[Marginal],
    total: float,
    *,
    max_iter: int = 300,
    tol: float = TOLERANCE,
    start: Sequence[Table] | None = None,
    factors: Mapping[Clique, Table] | None = None,
) -> Fit:
    """Fit a model to noisy marginals."""
    # The loss is half the sum of the squares of (model - measurement) / standard error over all cells. Mirror descent
    # steps against its gradient in the logarithms of the potentials ([1]_ algorithm 1), which keeps all probabilities
    # positive; momentum, dropped whenever the loss would rise ([2]_, [3]_), saves four fifths of the steps.
    # A cell's gradient is divided by the square root of its measured share plus a constant. With much noise the
    # constant is large and the descent plain: small cells, of which mostly noise is known, stay near the start, and
    # stopping early regularises. With little noise small cells are fitted as fast as large ones.
    # Nearly exact marginals would take a thousand steps: those further than 45 standard errors from the start are first
    # fitted by some ten sweeps of `Scaling`.
    # .. [1] R. McKenna, D. Sheldon, G. Miklau (2019). Graphical-model based estimation and inference for differential
    #    privacy. ICML.
    # .. [2] Y. Nesterov (1983). A method for solving the convex programming problem with convergence rate O(1/k^2).
    # .. [3] B. O'Donoghue, E. Candès (2015). Adaptive restart for accelerated gradient schemes. Foundations of
    #    Computational Mathematics 15.
    descent = _Descent(
        tree, merge(marginals), total, _zeros(tree) if start is None else start
    )
    scaled = descent.scale(
        descent.at(descent.carry(factors or {})), min(max_iter, _SWEEPS)
    )
    state, losses = scaled[-1], [state.loss for state in scaled]
    last, speed, failures = state.logs, 0, 0
    length = descent.first_length(state)
    noise = descent.n_counts.sum() / (1 if len(scaled) == 1 else 2)
    for _ in range(max_iter - len(scaled) + 1):
        landed = descent.step(state, length)
        momentum = min(_MOMENTUM, speed / (speed + 3))
        trial = descent.at(landed + momentum * (landed - last) if speed else landed)
        if trial.loss < state.loss:
            state, last, speed, length, failures = (
                trial,
                landed,
                speed + 1,
                length * _GROWTH,
                0,
            )
            losses.append(state.loss)
        elif speed:
            last, speed = state.logs, 0
        else:
            length, failures = length / 2, failures + 1
            if failures == _PATIENCE:
                descent.flatten()
                length = descent.first_length(state)
        settled = state.loss <= noise and state.worst <= _SETTLED
        least_gain = (
            tol if settled else tol / (_INSIST if len(scaled) == 1 else _POLISH)
        )
        stalled = (
            len(losses) >= len(scaled) + _BLOCK
            and losses[-1 - _BLOCK] - state.loss <= least_gain * state.loss
        )
        if stalled or length < _LEAST_STEP * descent.least:
            break
    potentials = [table - table.max() for table in descent.model.joined(state.logs)]
    known = descent.factors(state.logs) if len(scaled) == 1 else {}
    return Fit(GraphicalModel(tree, state.beliefs), potentials, losses, known)


def independent_start(
    tree: JunctionTree, shares: Sequence[NDArray[np.float64]]
) -> list[Table]:
    """Return the potentials of independent columns."""
    potentials = _zeros(tree)
    for column, share in enumerate(shares):
        place = tree.holder((column,))
        assert place is not None  # every column is in a clique
        with np.errstate(divide="ignore"):
            potentials[place] += expand(np.log(share), (column,), tree.cliques[place])
    return potentials


def _potentials_of(model: GraphicalModel) -> list[Table]:
    """Return potentials of a model, to fit it further: what was rounded to 0 may become likely again."""
    return [
        np.maximum(model.log_conditional(place), _LEAST_LOG)
        for place in range(len(model.beliefs))
    ]


def _zeros(tree: JunctionTree) -> list[Table]:
    return [
        np.zeros([tree.sizes[column] for column in clique]) for clique in tree.cliques
    ]


def _place(tree: JunctionTree, marginal: Marginal, total: float) -> _Target:
    place = tree.holder(marginal.clique)
    assert place is not None  # the tree was made for it
    return _Target(
        place,
        marginal.groups,
        np.asarray(marginal.counts, float) / total,
        (total / max(_FINEST, marginal.std_error)) ** 2,
        marginal.counted,
    )


_FLOOR = 0.01
"""Of the standard error: what a cell has at least, so that a count that noise made 0 does not forbid a combination."""


class Scaling:
    """Scale the cliques of a tree so that they have given marginals."""

    # A sweep walks once around the tree, scales each clique to one marginal after the other, and each neighbour to what
    # both share ([1]_, [2]_): coordinate ascent on the likelihood. For marginals that agree, a few sweeps come close to
    # the distribution of maximum entropy; noise is fitted as well, so this is for marginals with little of it.
    # .. [1] W. E. Deming, F. F. Stephan (1940). On a least squares adjustment of a sampled frequency table when the
    #    expected marginal totals are known. Annals of Mathematical Statistics 11(4).
    # .. [2] R. Jiroušek, S. Přeučil (1995). On the effective implementation of the iterative proportional fitting
    #    procedure. Computational Statistics & Data Analysis 19(2).

    def __init__(
        self, tree: JunctionTree, marginals: Sequence[Marginal], total: float
    ) -> None:
        self._tree = tree
        self._targets: list[list[tuple[Marginal, Table]]] = [[] for _ in tree.cliques]
        for marginal in sorted(marginals, key=lambda marginal: -marginal.total[1]):
            place = tree.holder(marginal.clique)
            assert place is not None  # the tree was made for it
            self._targets[place].append((marginal, _shares(marginal, total)))
        self._links: list[list[Link]] = [[] for _ in tree.cliques]
        for link in tree.links:
            self._links[link.parent].append(link)

    def sweep(self, beliefs: Sequence[Table]) -> list[Table] | None:
        """Go once around the tree; None if what the marginals and the beliefs allow has nothing in common."""
        scaled = list(beliefs)
        self._visit(scaled, 0)
        for link in self._tree.links:  # what later branches changed
            self._pass(scaled, link.parent, link.child, link.separator)
        totals = [belief.sum() for belief in scaled]
        return (
            [belief / total for belief, total in zip(scaled, totals, strict=True)]
            if all(totals)
            else None
        )

    def _visit(self, beliefs: list[Table], place: int) -> None:
        """Fit a clique, then the branches below it, each with what is known by then."""
        for marginal, shares in self._targets[place]:
            have = group(
                project(beliefs[place], self._tree.cliques[place], marginal.clique),
                marginal.groups,
            )
            ratio = spread(divide(shares, have), marginal.groups)
            beliefs[place] = beliefs[place] * expand(
                ratio, marginal.clique, self._tree.cliques[place]
            )
        for link in self._links[place]:
            self._pass(beliefs, place, link.child, link.separator)
            self._visit(beliefs, link.child)
            self._pass(beliefs, link.child, place, link.separator)

    def _pass(
        self, beliefs: list[Table], known: int, changed: int, shared: Clique
    ) -> None:
        """Scale a clique to what its neighbour says of the columns that they share."""
        cliques = self._tree.cliques
        said, has = (
            project(beliefs[known], cliques[known], shared),
            project(beliefs[changed], cliques[changed], shared),
        )
        beliefs[changed] = beliefs[changed] * expand(
            divide(said, has), shared, cliques[changed]
        )


def _shares(marginal: Marginal, total: float) -> Table:
    """Turn noisy counts into shares: positive, and adding up to 1."""
    counts = (
        project_to_simplex(marginal.counts.ravel(), total) + _FLOOR * marginal.std_error
    )
    if marginal.counted is not None:
        counts = counts * marginal.counted.ravel()
    return (counts / counts.sum()).reshape(marginal.shape)
