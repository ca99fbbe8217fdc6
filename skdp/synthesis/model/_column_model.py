"""Regressions of private columns on public columns, and draws of private values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.sparse import csr_array
from scipy.special import softmax

from skdp._arrays import Codes, Floats, Indices
from skdp.synthesis.model._estimation import estimate_column, make_consistent
from skdp.synthesis.model._tables import (
    Clique,
    Marginal,
    merge_marginals,
    sum_value_groups,
)

# Chosen with benchmarks/synthesis_columns.py: the prior standard deviation of a logit is 1.
MIN_PENALTY = 0.02
"""Penalty of logits without noise: they are finite for values that never occur together."""

MIN_CURVATURE = 0.05
"""Smallest second derivative of the loss by a logit, in records: positive for values without records."""

MAX_BLOCK_LOGITS = 1 << 17
"""Logits of rows that are evaluated together: one megabyte."""


@dataclass(frozen=True, eq=False)
class ColumnModel:
    """A regression of each private column on public columns and on the private columns before it."""

    # The probability of a value is proportional to the exponential of the sum of its logits,
    # given the values of all other columns.

    sizes: tuple[int, ...]
    """The numbers of values of all columns, the private ones first."""
    logits: Sequence[Mapping[int, Floats]]
    """For each private column, its logits given another column, of shape (n_given_values, n_values).

    Its logits without another column have its own index, and the shape (1, n_values)."""

    def predict(self, column: int, codes: Sequence[Codes]) -> Floats:
        """Return the probability of each value of a private column in each row, given the codes of all columns.

        The codes of the column itself are 0.
        """
        scores = np.zeros((codes[column].size, self.sizes[column]))
        for given, logits in self.logits[column].items():
            scores += logits[codes[given]]
        return np.asarray(softmax(scores, axis=1))

    def draw(
        self, public: Sequence[Codes], n_rows: int, rng: np.random.Generator
    ) -> list[Codes]:
        """Draw the codes of the private columns of rows, given the codes of each public column."""
        private: list[Codes] = [np.zeros(n_rows, np.intp) for _ in self.logits]
        for column in range(len(private)):
            self.draw_column(column, [*private, *public], rng)
        return private

    def draw_column(
        self, column: int, codes: Sequence[Codes], rng: np.random.Generator
    ) -> None:
        """Draw the codes of a private column, which are 0, such that counts are close to the expected counts."""
        # Counts of n independent draws have standard deviations of up to sqrt(n / 4). Here,
        # rows are drawn in blocks, in random order. The probability of a value is decreased
        # a little if, among the rows drawn so far with the same value of another column,
        # the value was drawn more often than expected: a self-balancing walk ([1]_).
        # .. [1] R. Alweiss, Y. P. Liu, M. Sawhney (2021). Discrepancy minimization via a
        #    self-balancing walk. STOC.
        n_rows = codes[column].size
        # The column itself is 0 before the draw, which balances the counts of all rows.
        cells = np.column_stack(codes) + np.cumsum([0, *self.sizes[:-1]])
        excess = np.zeros((sum(self.sizes), self.sizes[column]))
        # Half or twice the number of blocks, or the change of a logit per excess draw, change
        # distances of pairs by less than a tenth (benchmarks/synthesis_columns.py).
        block_rows = max(16, n_rows // 1024)
        gain = 8 / (block_rows * len(codes))
        order = rng.permutation(n_rows)
        for start in range(0, n_rows, block_rows):
            rows = order[start : start + block_rows]
            probabilities = self.predict(column, [values[rows] for values in codes])
            row_excess = excess[cells[rows]].sum(axis=1)
            cumulative = np.cumsum(probabilities * np.exp(-gain * row_excess), axis=1)
            uniforms = 1 - rng.random((rows.size, 1))
            drawn = (cumulative < uniforms * cumulative[:, -1:]).sum(axis=1)
            codes[column][rows] = drawn
            change = -probabilities
            change[np.arange(rows.size), drawn] += 1
            np.add.at(excess, cells[rows], change[:, np.newaxis])

    def describe(self) -> list[dict[str, Any]]:
        """Return the columns of each table of logits and its numbers, for `read`."""
        tables = []
        for column, by_given in enumerate(self.logits):
            for given, logits in by_given.items():
                tables.append({"column": column, "given": given, "logits": logits})
        return tables

    @classmethod
    def read(
        cls, tables: Iterable[Mapping[str, Any]], sizes: Sequence[int], n_private: int
    ) -> ColumnModel:
        """Check and restore a model of columns of these sizes from the tables of a file."""
        by_column: list[dict[int, Floats]] = [{} for _ in range(n_private)]
        for table in tables:
            column, given, logits = table["column"], table["given"], table["logits"]
            n_given = 1 if given == column else sizes[given]
            has_shape = logits.shape == (n_given, sizes[column])
            if not has_shape or not np.isfinite(logits).all():
                raise ValueError(
                    "The logits of a table must be finite and have the shape of its "
                    "columns."
                )
            by_column[column][given] = logits
        return cls(tuple(sizes), by_column)


def fit_columns(
    marginals: Iterable[Marginal],
    tails: Mapping[int, Floats],
    sizes: Sequence[int],
    public: Sequence[Codes],
    n_rows: int,
) -> ColumnModel:
    """Fit regressions of private columns to their noisy counts, given the public columns of all rows.

    `marginals` count all single columns, those of `public` without noise, and pairs with a private column. `tails` is
    as for `fit_model`, and `sizes` are the numbers of values of all columns, the private ones first.
    """
    merged = merge_marginals(marginals)
    singles = [marginal for marginal in merged if len(marginal.clique) == 1]
    proportions: dict[Clique, Floats] = {}
    for column, size in enumerate(sizes):
        tail = tails.get(column, np.full(size, np.nan))
        proportions[(column,)] = estimate_column(column, tail, singles)
    n_private = len(sizes) - len(public)
    codes = [*(np.zeros(n_rows, np.intp) for _ in range(n_private)), *public]
    # The seed is fixed, so that equal counts have equal models.
    rng = np.random.default_rng(0)
    logits: list[Mapping[int, Floats]] = []
    for column in range(n_private):
        terms = [_Term.of_column(column, n_rows * proportions[(column,)])]
        for marginal in merged:
            # A private column is drawn given the private columns before it.
            drawn = [c for c in marginal.clique if c < n_private][-1:]
            if len(marginal.clique) == 2 and drawn == [column]:
                terms.append(_Term.of_pair(marginal, column, proportions, codes))
        logits.append(_fit_terms(terms, codes))
        ColumnModel(tuple(sizes), logits).draw_column(column, codes, rng)
    return ColumnModel(tuple(sizes), logits)


@dataclass(frozen=True, eq=False)
class _Term:
    """The counts to which the logits of a private column given another column are fitted."""

    given: int
    cell_of: Indices
    """The cell, or group of rare values, of each value of the given column."""
    group_of: Indices
    """The group of each value of the private column."""
    counts: Floats
    """The estimated counts; shape (n_cells, n_groups)."""
    curvature: Floats
    """About the second derivative of the loss by each logit."""
    penalty: Floats
    """The penalty of the square of each logit."""

    @classmethod
    def of_column(cls, column: int, counts: Floats) -> _Term:
        """Return the term of a column alone, whose logits have no penalty."""
        one_cell, values = np.zeros(1, np.intp), np.arange(counts.size)
        curvature = np.maximum(counts * (1 - counts / counts.sum()), MIN_CURVATURE)
        table = counts[np.newaxis], curvature[np.newaxis], np.zeros((1, counts.size))
        return cls(column, one_cell, values, *table)

    @classmethod
    def of_pair(
        cls,
        marginal: Marginal,
        column: int,
        proportions: Mapping[Clique, Floats],
        codes: Sequence[Codes],
    ) -> _Term:
        """Return the term of a column given the other column of a marginal, whose `codes` are known in all rows."""
        (given,) = set(marginal.clique) - {column}
        groups = []
        for name in (given, column):
            members = marginal.groups_of(name)
            size = proportions[(name,)].size
            groups.append(np.arange(size) if members is None else members)
        cell_of, group_of = groups
        n_rows = codes[given].size
        table = make_consistent(marginal.counts / n_rows, marginal, proportions)
        if marginal.clique[0] == column:
            table = table.T
        n_cells, n_groups = table.shape
        cells = np.bincount(cell_of[codes[given]], minlength=n_cells)
        # Values without rows have no counts, which are public.
        counts = n_rows * np.where(cells[:, np.newaxis] > 0, table, 0.0)
        within = np.bincount(group_of, proportions[(column,)], n_groups)
        curvature = np.outer(cells, within * (1 - within))
        curvature = np.maximum(curvature, MIN_CURVATURE)
        # A logit has the prior variance 1. A count with the curvature h = n p (1 - p) and
        # noise of variance v estimates it with the error variance 1 / h + v / h**2. The
        # best linear estimate has the penalty 1 + v / h, but the sampling error 1 / h is
        # in the table that the rows should resemble.
        penalty = MIN_PENALTY + marginal.std_error**2 / curvature
        return cls(given, cell_of, group_of, counts, curvature, penalty)


def _fit_terms(terms: Sequence[_Term], codes: Sequence[Codes]) -> dict[int, Floats]:
    """Fit the logits of a private column given each value of other columns, by L-BFGS."""
    # The loss is
    #     sum over rows of log Z(logits, row) - <logits, counts> + penalty,
    # where Z is the sum of the exponentials of a row: a logistic regression. The first
    # term is exact. The gradient is the expected counts minus the noisy counts, plus the
    # gradient of the penalty.
    rows = _DistinctRows(terms, codes)
    counts, curvature, penalty = [
        np.concatenate([np.ravel(part) for part in parts])
        for parts in zip(
            *((t.counts, t.curvature, t.penalty) for t in terms), strict=True
        )
    ]
    # In these units, the second derivative of the loss is about 1 in all directions.
    units = 1 / np.sqrt(curvature + penalty)
    start = np.zeros(counts.size)
    start[: terms[0].counts.size] = np.log(terms[0].counts / terms[0].counts.sum())

    def loss(scaled: Floats) -> tuple[float, Floats]:
        """Return the penalized loss of logits divided by `units`, and its gradient; (n_logits,)."""
        logits = scaled * units
        log_normalizer, expected = rows.evaluate(logits)
        penalty_gradient = penalty * logits
        value = log_normalizer - logits @ counts + penalty_gradient @ logits / 2
        return value, (expected - counts + penalty_gradient) * units

    # The gradient is in standard deviations of a count, so smaller gradients are noise.
    # With ten corrections, as by default, 300 steps do not suffice where public values
    # nearly determine a private value (benchmarks/synthesis_columns.py).
    options = {"maxcor": 30, "maxiter": 1000, "gtol": 0.2}
    result = minimize(loss, start / units, jac=True, method="L-BFGS-B", options=options)
    tables = rows.split(result.x * units)
    return {t.given: table[t.cell_of] for t, table in zip(terms, tables, strict=True)}


class _DistinctRows:
    """The distinct combinations of cells of all rows, which have equal distributions."""

    def __init__(self, terms: Sequence[_Term], codes: Sequence[Codes]) -> None:
        """Find the distinct combinations of the cells of the rows, one cell for each term."""
        self._terms = terms
        cells = np.column_stack([term.cell_of[codes[term.given]] for term in terms])
        distinct, weights = np.unique(cells, axis=0, return_counts=True)
        self._stops = np.cumsum([len(term.counts) for term in terms])
        first_cells = self._stops - [len(term.counts) for term in terms]
        indices = distinct + first_cells
        starts = len(terms) * np.arange(len(indices) + 1)
        # A matrix with ones in the cells of each row.
        shape = len(indices), self._stops[-1]
        design = csr_array((np.ones(indices.size), indices.ravel(), starts), shape)
        step = max(1, MAX_BLOCK_LOGITS // terms[0].counts.size)
        self._blocks = []
        for first in range(0, len(indices), step):
            block = slice(first, first + step)
            self._blocks.append((design[block], weights[block, np.newaxis]))

    def split(self, logits: Floats) -> list[Floats]:
        """Return the logits of each term, with one for each value; (n_cells, n_values)."""
        stops = np.cumsum([term.counts.size for term in self._terms])
        tables = []
        for term, part in zip(self._terms, np.split(logits, stops[:-1]), strict=True):
            tables.append(part.reshape(term.counts.shape)[:, term.group_of])
        return tables

    def evaluate(self, logits: Floats) -> tuple[float, Floats]:
        """Return the sum of log Z over all rows, and the expected count of each logit; (n_logits,)."""
        table = np.vstack(self.split(logits))
        log_normalizer = 0.0
        expected = np.zeros(table.shape)
        for design, weights in self._blocks:
            scores = design @ table
            highest = scores.max(axis=1, keepdims=True)
            exponentials = np.exp(scores - highest)
            sums = exponentials.sum(axis=1, keepdims=True)
            log_normalizer += float((weights * (np.log(sums) + highest)).sum())
            expected += design.T @ (exponentials * (weights / sums))
        parts = np.split(expected, self._stops[:-1])
        by_group = []
        for term, part in zip(self._terms, parts, strict=True):
            by_group.append(sum_value_groups(part, (None, term.group_of)).ravel())
        return log_normalizer, np.concatenate(by_group)
