"""The law of some columns given all others: noisy counts of the former, rows of the latter."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.sparse import csr_array, hstack
from scipy.special import logsumexp

from skdp.synthesis.model._estimation import Fit, forbid
from skdp.synthesis.model._graphical_model import GraphicalModel, JunctionTree
from skdp.synthesis.model._propagation import calibrate, no_potentials
from skdp.synthesis.model._tables import (
    Clique,
    Groups,
    Marginal,
    Table,
    Tables,
    arrange,
    merge,
    shape_of,
    spread,
)

# With half and with twice _SPREAD, the distances of pairs of Adult and ACS Public
# Coverage rise by up to 40 % and 20 % at an epsilon of .1, and by less at 4.
_SPREAD = 0.5
"""The standard deviation of logits that is expected before counts are seen."""

_LEAST_CURVATURE = 0.05
"""In records: of a cell where hardly any are expected."""

_LEAST_ROWS = 0.05
"""Of a public cell that has none, so that its logit is finite."""

_PRECISION = 0.2
"""Of the gradient, in standard deviations of counts by chance."""

_LEAST_FALL = 1e-6
"""Of the loss, what a step saves: a record in a million, of thousands of counts."""

_IMPOSSIBLE = -50.0
"""The logit of what cannot occur."""

_BLOCK = 1 << 17
"""Probabilities that are computed at a time: a megabyte.

A fit with 100 combinations and 18,614 different rows takes .75 of the time of 16 megabytes."""


class _Statistic:
    """How the cells of a marginal lie: a row for each public cell, a column for each value of its protected ones."""

    def __init__(
        self,
        clique: Clique,
        protected: Sequence[int],
        sizes: Sequence[int],
        rows: Mapping[int, NDArray[np.integer]],
        groups: Groups | None = None,
    ) -> None:
        protected_shape = shape_of(protected, sizes)
        # Values that are counted together have one number.
        self.groups = groups
        numbers = {}
        for column, members in zip(clique, groups or [None] * len(clique), strict=True):
            numbers[column] = np.arange(sizes[column]) if members is None else members
        sizes = [
            int(numbers[column].max()) + 1 if column in numbers else size
            for column, size in enumerate(sizes)
        ]
        public = [column for column in clique if column not in protected]
        own = [column for column in clique if column in protected]
        self.clique = clique
        self.columns = (*public, *own)
        self.own = own
        self.shape = shape_of(self.columns, sizes)
        n_rows = len(next(iter(rows.values())))
        cells = np.zeros(n_rows, np.intp)
        for column in public:
            cells = cells * sizes[column] + numbers[column][rows[column]]
        n_cells = math.prod(shape_of(public, sizes))
        # The public cell of each row: (n_rows, n_cells).
        ones = np.ones(n_rows), (np.arange(n_rows), cells)
        self.cells = csr_array(ones, shape=(n_rows, n_cells))
        # Which of its values each combination of all protected columns has.
        combinations = np.indices(protected_shape).reshape(len(protected), -1)
        value_of_combination = np.zeros(combinations.shape[1], np.intp)
        for column in own:
            values = numbers[column][combinations[protected.index(column)]]
            value_of_combination = value_of_combination * sizes[column] + values
        self.value_of_combination = value_of_combination
        self.n_values = math.prod(shape_of(own, sizes))

    def arranged(self, table: NDArray) -> NDArray:
        """Give a table a row for each public cell, and a column for each value."""
        axes = list(map(self.clique.index, self.columns))
        return np.transpose(table, axes).reshape(-1, self.n_values)

    def spread(self, table: Table) -> Table:
        """Give each cell of the marginal what its group has: the way back."""
        axes = list(map(self.columns.index, self.clique))
        return spread(np.transpose(table.reshape(self.shape), axes), self.groups)


def fit_conditional(
    sizes: Sequence[int],
    protected: Sequence[int],
    rows: Mapping[int, NDArray[np.integer]],
    marginals: Iterable[Marginal],
    shares: Mapping[int, Table],
    *,
    zeros: Iterable[tuple[Clique, NDArray[np.bool_]]] = (),
    max_iter: int = 300,
) -> Fit:
    """Fit the law of protected columns given the others, which all rows have; nothing else of it means anything.

    The counts of a protected column by itself are replaced by its positive `shares`, estimated from the same counts.
    """
    # The law is log-linear in tables theta[m] of the cells of each marginal. What is
    # minimised is
    #     sum over rows of log Z(theta, row) - <theta, noisy counts> + penalty:
    # a logistic regression of the protected columns on all others. Its first term is public
    # and exact, and its gradient is what the law expects to be counted, less the counts.
    # What is expected of logits is 0, or the logarithm of its share for a value of a single
    # column. Where one column of a pair follows from the other, it is the logarithm of the
    # likelihood ratio: how much likelier each cell is than if both were independent.
    # There, counts that are noise are not fitted.
    zeros = tuple(zeros)
    measured = merge(marginals)
    law = _Law(sizes, protected, rows, measured, shares, zeros)
    evidence = []
    for statistic, marginal in zip(law.statistics, measured, strict=True):
        evidence.append(_evidence_of(law, statistic, marginal))
    layout = Tables([known.counts.shape for known in evidence])
    counts = layout.join([known.counts for known in evidence])
    prior_mean = layout.join([known.prior_mean for known in evidence])
    penalty = layout.join([known.penalty for known in evidence])
    curvature = layout.join([known.curvature for known in evidence])
    # In these units, the curvature is about 1 in all directions.
    units = 1 / np.sqrt(curvature + penalty)
    losses = []

    def loss(position: Table) -> tuple[float, Table]:
        logits = position * units
        normaliser, expected = law.evaluate(layout.split(logits))
        distance = logits - prior_mean
        pull = penalty * distance
        losses.append(normaliser - logits @ counts + pull @ distance / 2)
        gradient = layout.join(expected) - counts + pull
        return losses[-1], gradient * units

    options = {"maxiter": max_iter, "gtol": _PRECISION, "ftol": _LEAST_FALL}
    start = prior_mean / units
    result = minimize(loss, start, jac=True, method="L-BFGS-B", options=options)
    model = law.model(layout.split(result.x * units))
    return Fit(model, losses)


class _Evidence(NamedTuple):
    """What is known of the logits of a marginal: tables (n_public_cells, n_values)."""

    counts: Table
    prior_mean: Table
    penalty: Table
    """What half of the square of ``logit - prior_mean`` weighs."""
    curvature: Table
    """Of the loss in each logit."""


def _evidence_of(law: _Law, statistic: _Statistic, marginal: Marginal) -> _Evidence:
    """Return what is known of the logits of a marginal."""
    independent = law.shares_of(statistic)
    n_records = np.asarray(statistic.cells.T @ law.weights)[:, np.newaxis]
    if len(marginal.clique) == 1:
        counts = n_records * independent
    else:
        counts = statistic.arranged(marginal.counts)
    prior_mean = law.independent_logits(statistic)
    expected_shares = np.broadcast_to(independent, prior_mean.shape)
    curvature = n_records * expected_shares * (1 - expected_shares)
    curvature = np.maximum(curvature, _LEAST_CURVATURE)
    # Logits have the variance s**2 before. What a count with the curvature h = n p (1 - p)
    # and noise of variance v says of its logit has the error variance 1 / h + v / h**2. So
    # the best linear estimate gives the count the weight h / (h + (1 + v / h) / s**2), and
    # that is the weight with the penalty (1 + v / h) / s**2.
    penalty = (1 + marginal.std_error**2 / curvature) / _SPREAD**2
    return _Evidence(counts, prior_mean, penalty, curvature)


class _Law:
    """A log-linear law of protected columns given the rows of the others."""

    def __init__(
        self,
        sizes: Sequence[int],
        protected: Sequence[int],
        rows: Mapping[int, NDArray[np.integer]],
        marginals: Sequence[Marginal],
        shares: Mapping[int, Table],
        zeros: Sequence[tuple[Clique, NDArray[np.bool_]]],
    ) -> None:
        self._sizes = sizes
        self._shares = shares
        self.protected = protected
        self._zeros = zeros
        relevant = [zero for zero in zeros if not set(zero[0]).isdisjoint(protected)]
        cliques = [marginal.clique for marginal in marginals]
        needed = set[int]().union(*cliques, *(clique for clique, _ in relevant))
        distinct, self.weights = _distinct_rows(rows, needed - set(protected))
        self._rows = distinct
        self.statistics = []
        for marginal in marginals:
            groups = marginal.groups
            statistic = _Statistic(marginal.clique, protected, sizes, distinct, groups)
            self.statistics.append(statistic)
        self._terms = _terms_of(self.statistics)
        self._excluded = []
        for clique, is_impossible in relevant:
            statistic = _Statistic(clique, protected, sizes, distinct)
            logits = np.where(statistic.arranged(is_impossible), _IMPOSSIBLE, 0.0)
            self._excluded.append((statistic, logits))

    def independent_logits(self, statistic: _Statistic) -> Table:
        """Return the logits if columns were independent: those of the shares of a column, and none of other tables."""
        logits = np.zeros((statistic.cells.shape[1], statistic.n_values))
        if len(statistic.clique) == 1:
            logits += np.log(self._shares[statistic.clique[0]])
        return logits

    def shares_of(self, statistic: _Statistic) -> Table:
        """Return the share of each value of a statistic, if columns were independent."""
        shares = [self._shares[column] for column in self.protected]
        of_combinations = reduce(np.multiply.outer, shares).ravel()
        n_values = statistic.n_values
        return np.asarray(
            np.bincount(statistic.value_of_combination, of_combinations, n_values),
            float,
        )

    def evaluate(self, logits: Sequence[Table]) -> tuple[float, list[Table]]:
        """Return the sum of log normalisers of all rows, and the expected counts."""
        n_distinct = self.weights.size
        n_combinations = self.statistics[0].value_of_combination.size
        tables: list[tuple[_Term | _Statistic, Table]] = [*self._excluded]
        for term in self._terms:
            tables.append((term, np.concatenate([logits[i] for i in term.places])))
        normaliser = 0.0
        totals = []
        for term in self._terms:
            totals.append(np.zeros((term.cells.shape[1], term.onto.shape[1])))
        block_size = max(1, _BLOCK // n_combinations)
        for start in range(0, n_distinct, block_size):
            block = slice(start, start + block_size)
            weights = self.weights[block, np.newaxis]
            scores = np.zeros((len(weights), n_combinations))
            for statistic, table in tables:
                scores += (statistic.cells[block] @ table)[
                    :, statistic.value_of_combination
                ]
            highest = scores.max(axis=1, keepdims=True)
            expected = np.exp(scores - highest, out=scores)
            sums = expected.sum(axis=1, keepdims=True)
            normaliser += float((weights * (np.log(sums) + highest)).sum())
            expected *= weights / sums
            for term, total in zip(self._terms, totals, strict=True):
                total += term.cells[block].T @ (expected @ term.onto)
        counts = [np.zeros(0)] * len(logits)
        for term, total in zip(self._terms, totals, strict=True):
            start = 0
            for place in term.places:
                end = start + len(logits[place])
                counts[place] = total[start:end]
                start = end
        return normaliser, counts

    def _rows_of_cells(self, clique: Clique) -> Table:
        """Return for each cell of a marginal how many rows have its public values."""
        # By all values, also where they are counted together.
        cells = _Statistic(clique, self.protected, self._sizes, self._rows)
        n_rows = np.maximum(cells.cells.T @ self.weights, _LEAST_ROWS)
        return cells.spread(np.repeat(n_rows, cells.n_values))

    def model(self, logits: Sequence[Table]) -> GraphicalModel:
        """Return a graphical model with this law of the protected columns."""
        cliques = [statistic.clique for statistic in self.statistics]
        cliques += [clique for clique, _ in self._zeros]
        tree = JunctionTree(self._sizes, cliques)
        potentials = no_potentials(tree)
        for statistic, table in zip(self.statistics, logits, strict=True):
            index = tree.holder_of(statistic.clique)
            # A term of the public cell alone changes nothing, unless its columns are not
            # known of a row, as a target: then it has about the share that it has here.
            expected = logsumexp(table, axis=1, b=self.shares_of(statistic))
            cells = statistic.spread(table - expected[:, np.newaxis])
            cells = cells + np.log(self._rows_of_cells(statistic.clique))
            added = arrange(cells, statistic.clique, tree.cliques[index])
            potentials[index] = potentials[index] + added
        potentials = forbid(tree, potentials, self._zeros)
        return GraphicalModel(tree, calibrate(tree, potentials))


@dataclass(frozen=True, eq=False)
class _Term:
    """Statistics of the same values of the protected columns, which are added up together."""

    places: list[int]
    cells: csr_array
    value_of_combination: NDArray[np.intp]
    onto: NDArray[np.float64]
    """Adds up the combinations with each value: (n_combinations, n_values)."""


def _terms_of(statistics: Sequence[_Statistic]) -> list[_Term]:
    """Put statistics together whose tables have the same columns."""
    # Most have one protected column, and there are far fewer of its values than of
    # combinations: the logits of a row are added up before they are spread over these.
    by_value: dict[bytes, list[int]] = {}
    for place, statistic in enumerate(statistics):
        by_value.setdefault(statistic.value_of_combination.tobytes(), []).append(place)
    terms = []
    for places in by_value.values():
        cells = hstack([statistics[place].cells for place in places], format="csr")
        first = statistics[places[0]]
        onto = np.eye(first.n_values)[first.value_of_combination]
        terms.append(_Term(places, csr_array(cells), first.value_of_combination, onto))
    return terms


def _distinct_rows(
    rows: Mapping[int, NDArray[np.integer]], columns: Iterable[int]
) -> tuple[dict[int, NDArray[np.intp]], NDArray[np.float64]]:
    """Return the different rows of some columns, and how many there are of each."""
    names = sorted(columns)
    n_rows = len(next(iter(rows.values())))
    # A column that is the same in all rows stands for none.
    codes = np.zeros((len(names) + 1, n_rows), np.intp)
    for place, column in enumerate(names):
        codes[place] = rows[column]
    distinct, counts = np.unique(codes, axis=1, return_counts=True)
    return dict(zip([*names, -1], distinct, strict=True)), counts.astype(float)
