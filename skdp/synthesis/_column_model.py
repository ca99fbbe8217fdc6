"""Model of private columns given public columns, and draws from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.sparse import csr_array

from skdp.synthesis._column_counts import (
    Codes,
    Cross,
    NoisyCounts,
    estimate_proportions,
)
from skdp.synthesis.model import Layout

# The constants were chosen with benchmarks/synthesis_columns.py.
LOGIT_STD = 0.5
"""Prior standard deviation of the logits."""


@dataclass(frozen=True, eq=False)
class ColumnModel:
    """A log-linear distribution of the private values of a row given its public values."""

    # The probability of a combination of private values is proportional to the
    # exponential of the sum of one logit per table: the logit of the public cell of the
    # row and of the private value.

    crosses: Sequence[Cross]
    """The columns of each table."""
    logits: Sequence[NDArray[np.float64]]
    """The logits of each table; shape (n_cells, n_values)."""

    def predict(self, public: Sequence[Codes], n_rows: int) -> NDArray[np.float64]:
        """Return the probability of each combination of private values in each row; shape (n_rows, n_combinations)."""
        scores = np.zeros((n_rows, self.crosses[0].value_of.size))
        for cross, logits in zip(self.crosses, self.logits, strict=True):
            cells = cross.cells_of(public, n_rows)
            scores += logits[cells][:, cross.value_of]
        return _normalize(scores)[0]

    def describe(self) -> list[dict[str, Any]]:
        """Return the tables as plain mappings, for a file."""
        tables = []
        for cross, logits in zip(self.crosses, self.logits, strict=True):
            tables.append({**vars(cross), "logits": np.array(logits)})
        return tables

    @classmethod
    def read(cls, tables: Sequence[Mapping[str, Any]]) -> ColumnModel:
        """Restore a model from the tables of a file, each a `Cross` and its logits (n_cells, n_values)."""
        crosses, all_logits = [], []
        for table in tables:
            fields = dict(table)
            logits = fields.pop("logits")
            cross = Cross(**fields)
            has_shape = logits.shape == (cross.n_cells, cross.n_values)
            if not has_shape or not np.isfinite(logits).all():
                raise ValueError(
                    "The logits of a table must be finite and have the shape of its "
                    "columns."
                )
            crosses.append(cross)
            all_logits.append(logits)
        return cls(crosses, all_logits)


def fit_model(
    noisy: Sequence[NoisyCounts], public: Sequence[Codes], n_rows: int
) -> ColumnModel:
    """Fit the distribution of private values given the public values of all rows, by L-BFGS.

    `noisy` are the measured tables, and `public` the codes of each public column; shape (n_rows,).
    """
    # There is a table of logits for each measured table. The loss is
    #     sum over rows of log Z(logits, row) - <logits, noisy counts> + penalty,
    # where Z is the sum of the exponentials of a row: a logistic regression of the
    # private columns on the public columns. The first term is public and exact. The
    # gradient is the expected counts minus the noisy counts, plus the gradient of the penalty.
    # The proportions of the combinations if private columns are independent.
    joint = np.ones(1)
    for single in noisy:
        if single.cross.is_single:
            joint = np.multiply.outer(joint, estimate_proportions(single)).ravel()
    crosses = [counts.cross for counts in noisy]
    rows = _DistinctRows(crosses, public, n_rows)
    layout = Layout([counts.counts.shape for counts in noisy])
    evidence = list(map(_weigh, noisy, rows.count_cells(), repeat(joint)))
    counts, prior, penalty, curvature = map(layout.join, zip(*evidence, strict=True))
    # In these units, the second derivative of the loss is about 1 in all directions.
    units = 1 / np.sqrt(curvature + penalty)

    def loss(position: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        logits = position * units
        log_normalizer, expected = rows.evaluate(layout.split(logits))
        distance = logits - prior
        penalty_gradient = penalty * distance
        value = log_normalizer - logits @ counts + penalty_gradient @ distance / 2
        gradient = layout.join(expected) - counts + penalty_gradient
        return value, gradient * units

    # The gradient is in standard deviations of a count, so smaller gradients are noise.
    options = {"maxiter": 300, "gtol": 0.2}
    result = minimize(loss, prior / units, jac=True, method="L-BFGS-B", options=options)
    return ColumnModel(crosses, layout.split(result.x * units))


def _weigh(
    noisy: NoisyCounts, n_rows: NDArray[np.float64], joint: NDArray[np.float64]
) -> tuple[NDArray[np.float64], ...]:
    """Return the counts, prior means of the logits, penalties and curvatures of the cells of a table.

    Parameters
    ----------
    noisy : NoisyCounts
        The table.
    n_rows : ndarray of shape (n_cells,)
        The number of rows in each public cell.
    joint : ndarray of shape (n_combinations,)
        Proportions of the combinations of private values if private columns are independent.
    """
    cross = noisy.cross
    independent = np.bincount(cross.value_of, joint, cross.n_values)
    n_records = n_rows[:, np.newaxis]
    prior = np.zeros(noisy.counts.shape)
    counts = noisy.counts
    if cross.is_single:
        counts = n_records * independent
        prior += np.log(independent)
    curvature = n_records * independent * (1 - independent)
    # Positive for cells without records.
    curvature = np.maximum(curvature, 0.05)
    # A logit has the prior variance s**2. A count with the curvature
    # h = n p (1 - p) and noise of variance v estimates it with the error variance
    # 1 / h + v / h**2. The best linear estimate has the penalty (1 + v / h) / s**2.
    penalty = (1 + noisy.std_error**2 / curvature) / LOGIT_STD**2
    return counts, prior, penalty, curvature


class _DistinctRows:
    """The distinct combinations of public cells of all rows, which have equal distributions."""

    def __init__(
        self, crosses: Sequence[Cross], public: Sequence[Codes], n_rows: int
    ) -> None:
        """Find the distinct combinations of public cells of the rows, and count the rows of each."""
        cells = [cross.cells_of(public, n_rows) for cross in crosses]
        distinct, counts = np.unique(cells, axis=1, return_counts=True)
        self.weights = counts.astype(float)
        self._crosses = crosses
        # A matrix (n_distinct, n_cells of all tables) of zeros and ones: a row has a one
        # for its cell of each table.
        n_cells = [cross.n_cells for cross in crosses]
        starts = np.cumsum([0, *n_cells])
        columns = (distinct + starts[:-1, np.newaxis]).T.ravel()
        row_starts = np.arange(0, columns.size + 1, len(crosses))
        self._design = csr_array((np.ones(columns.size), columns, row_starts))
        self._design.resize(counts.size, starts[-1])
        self._stops = starts[1:-1]

    def count_cells(self) -> list[NDArray[np.float64]]:
        """Count the rows in each public cell of each table."""
        return np.split(self._design.T @ self.weights, self._stops)

    def evaluate(
        self, logits: Sequence[NDArray[np.float64]]
    ) -> tuple[float, list[NDArray[np.float64]]]:
        """Return the sum of log Z over all rows, and the expected counts of each table (n_cells, n_values).

        `logits` has a table (n_cells, n_values) for each measured table. The score of a combination of private values
        in a row is the sum of its logits over all tables, and Z is the sum of the exponentials of the scores of all
        combinations.
        """
        # From the values of each table to combinations of all private values. Equal rows
        # are one row of `_design`, with a one for its cell of each table, and `weights` are
        # their numbers.
        tables = []
        for cross, table in zip(self._crosses, logits, strict=True):
            tables.append(table[:, cross.value_of])
        scores_of_cells = np.concatenate(tables)  # (n_cells, n_combinations)
        expected = np.zeros(scores_of_cells.shape)
        log_normalizer = 0.0
        # A block has 2**17 probabilities: one megabyte.
        step = max(1, (1 << 17) // scores_of_cells.shape[1])
        for start in range(0, self.weights.size, step):
            block = slice(start, start + step)
            weights = self.weights[block, np.newaxis]
            rows = self._design[block]
            probabilities, logs = _normalize(rows @ scores_of_cells)
            log_normalizer += float((weights * logs).sum())
            expected += rows.T @ (weights * probabilities)
        # From combinations of private values to the values of each table.
        counts = []
        tables = np.split(expected, self._stops)
        for cross, table in zip(self._crosses, tables, strict=True):
            counts.append(table @ np.eye(cross.n_values)[cross.value_of])
        return log_normalizer, counts


def _normalize(
    scores: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the softmax and the logarithm of the normalizer of each row of scores, which are overwritten.

    The shapes are (n_rows, n_combinations) and (n_rows, 1).
    """
    highest = scores.max(axis=1, keepdims=True)
    probabilities = np.exp(scores - highest, out=scores)
    sums = probabilities.sum(axis=1, keepdims=True)
    probabilities /= sums
    return probabilities, np.log(sums) + highest


def draw_balanced(
    model: ColumnModel,
    public: Sequence[Codes],
    n_rows: int,
    rng: np.random.Generator,
) -> NDArray[np.intp]:
    """Draw a combination of private values for each row, such that counts are close to the expected counts.

    The result has the index of the combination of each row, as in `Cross.value_of`. `public` are the codes of each
    public column; shape (n_rows,).
    """
    # Counts of n independent draws have standard deviations of up to sqrt(n / 4). Here,
    # rows are drawn in blocks, in random order. The probability of a value is decreased
    # a little if, among the rows drawn so far with the public values of the row, the
    # value was drawn more often than expected: a self-balancing walk ([1]_).
    # .. [1] R. Alweiss, Y. P. Liu, M. Sawhney (2021). Discrepancy minimization via a
    #    self-balancing walk. STOC.
    singles = [cross for cross in model.crosses if cross.is_single]
    # For each private column, the value of each combination; shape (n_combinations, n_values).
    indicators = [np.eye(cross.n_values)[cross.value_of] for cross in singles]
    n_combinations = singles[0].value_of.size
    sizes = [int(codes.max(initial=0)) + 1 for codes in public]
    starts = np.cumsum([0, *sizes])
    cells = np.zeros((n_rows, len(public)), np.intp)
    for column, codes in enumerate(public):
        cells[:, column] = codes + starts[column]
    # Draws minus expected draws so far: for each private column by public value, and
    # for each combination.
    excess = []
    for indicator in indicators:
        excess.append(np.zeros((starts[-1], indicator.shape[1])))
    total_excess = np.zeros(n_combinations)
    # Half or twice the number of blocks, or the change of a logit per excess draw, change
    # distances of pairs by less than a tenth (benchmarks/synthesis_columns.py).
    block_rows = max(16, n_rows // 1024)
    gain = 8 / (block_rows * max(1, len(public)))
    drawn = np.empty(n_rows, np.intp)
    order = rng.permutation(n_rows)
    for start in range(0, n_rows, block_rows):
        block = order[start : start + block_rows]
        probabilities = model.predict([codes[block] for codes in public], block.size)
        row_excess = np.tile(total_excess, (block.size, 1))
        for table, indicator in zip(excess, indicators, strict=True):
            row_excess += table[cells[block]].sum(axis=1) @ indicator.T
        tilted = probabilities * np.exp(-gain * row_excess)
        cumulative = np.cumsum(tilted, axis=1)
        uniforms = 1 - rng.random((block.size, 1))
        draws = (cumulative < uniforms * cumulative[:, -1:]).sum(axis=1)
        drawn[block] = draws
        change = -probabilities
        change[np.arange(block.size), draws] += 1
        total_excess += change.sum(axis=0)
        for table, indicator in zip(excess, indicators, strict=True):
            np.add.at(table, cells[block], (change @ indicator)[:, np.newaxis])
    return drawn
