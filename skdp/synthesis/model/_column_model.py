"""Model of private columns given public columns, and draws from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.sparse import block_diag, csr_array, hstack

from skdp._arrays import Codes, Floats, Indices
from skdp.synthesis.model._estimation import MIN_TAIL_COUNT, list_levels
from skdp.synthesis.model._tables import sum_value_groups

# The constants were chosen with benchmarks/synthesis_columns.py.
LOGIT_STD, ORDERED_LOGIT_STD = 0.5, 1.0
"""Prior standard deviation of the logits of unordered private values, and of ordered ones such as bins of numbers."""

SAMPLING_WEIGHT = 0.02
"""Weight of sampling errors in the penalty: without noise, the model should have the counts of the table."""

MAX_GRADIENT = 0.2
"""Largest gradient of a fit in standard deviations of a count: smaller ones are noise."""

MAX_THINNED_ROWS, MIN_THINNING, MAX_CORRECTIONS = 1 << 12, 3, 8
"""Number of rows with which a fit is corrected, at most so many times, if there are `MIN_THINNING` times more."""


@dataclass(frozen=True, eq=False)
class Cross:
    """The columns of a table of counts: one or two private columns, and at most one public column."""

    private: tuple[int, ...]
    """Indices of the private columns."""
    value_of: Indices
    """The value, or group of rare values, of each combination of all private columns; shape (n_combinations,)."""
    public: int | None = None
    """Index of the public column."""
    cell_of: Indices | None = None
    """The cell, or group of rare values, of each code of the public column."""
    axes: tuple[tuple[int, int], ...] = ()
    """For both columns, the number of values and of ordered values, which are first; empty without ordered values."""

    @property
    def is_single(self) -> bool:
        """True for a single private column without a public column."""
        return self.public is None and len(self.private) == 1

    @property
    def n_values(self) -> int:
        """The number of private values, or of their combinations."""
        return int(self.value_of.max()) + 1

    @property
    def n_cells(self) -> int:
        """The number of public cells; 1 without a public column."""
        return 1 if self.cell_of is None else int(self.cell_of.max()) + 1

    def cells_of(self, public: Sequence[Codes], n_rows: int) -> Indices:
        """Return the public cell of each row, given the codes of all public columns."""
        if self.public is None or self.cell_of is None:
            return np.zeros(n_rows, np.intp)
        return self.cell_of[public[self.public]]


@dataclass(frozen=True, eq=False)
class NoisyCounts:
    """Noisy counts of a table; shape (n_cells, n_values)."""

    cross: Cross
    counts: Floats
    std_error: float
    tail: Floats | None = None
    """Estimated counts of the bins of numbers in a tail, and NaN for all other bins; shape (n_values,)."""

    def average(self, second: NoisyCounts) -> NoisyCounts:
        """Return the average with a second measurement of the same table, weighted by precision."""
        weight = self.std_error**-2
        other_weight = second.std_error**-2
        total = weight + other_weight
        counts = (weight * self.counts + other_weight * second.counts) / total
        return NoisyCounts(self.cross, counts, total**-0.5)

    def group(self, cross: Cross) -> Floats:
        """Sum the counts of a single column by the groups of values of another table; (n_groups,)."""
        group_of = np.zeros(self.cross.n_values, np.intp)
        group_of[self.cross.value_of] = cross.value_of
        return np.bincount(group_of, self.counts[0], cross.n_values).astype(float)


def estimate_proportions(noisy: NoisyCounts) -> Floats:
    """Estimate the proportions of the values of a single column, all positive."""
    # A value with a negative noisy count may occur.
    counts = np.maximum(noisy.counts[0], noisy.std_error / 4)
    if noisy.tail is not None:
        tail = noisy.tail + MIN_TAIL_COUNT * noisy.std_error
        counts = np.where(np.isnan(tail), counts, tail)
    return counts / counts.sum()


@dataclass(frozen=True, eq=False)
class ColumnModel:
    """A log-linear distribution of the private values of a row given its public values."""

    # The probability of a combination of private values is proportional to the
    # exponential of the sum of one logit per table: the logit of the public cell of the
    # row and of the private value.

    crosses: Sequence[Cross]
    """The columns of each table."""
    logits: Sequence[Floats]
    """The logits of each table; shape (n_cells, n_values)."""
    expected: Sequence[Floats] = ()
    """The expected counts of each table in the rows of the fit; empty after `read`."""

    def predict(self, public: Sequence[Codes], n_rows: int) -> Floats:
        """Return the probability of each combination of private values in each row; shape (n_rows, n_combinations).

        `public` has the codes of each public column.
        """
        scores = np.zeros((n_rows, self.crosses[0].value_of.size))
        for cross, logits in zip(self.crosses, self.logits, strict=True):
            cells = cross.cells_of(public, n_rows)
            scores += logits[cells][:, cross.value_of]
        highest = scores.max(axis=1, keepdims=True)
        probabilities = np.exp(scores - highest, out=scores)
        probabilities /= probabilities.sum(axis=1, keepdims=True)
        return probabilities

    def describe(self) -> list[dict[str, Any]]:
        """Return the fields of the `Cross` of each table, and its logits (n_cells, n_values), for `read`."""
        tables = []
        for cross, logits in zip(self.crosses, self.logits, strict=True):
            fields = vars(cross) | {"logits": np.array(logits)}
            del fields["axes"]  # of the fit
            tables.append(fields)
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


def fit_columns(
    noisy: Sequence[NoisyCounts],
    public: Sequence[Codes],
    n_rows: int,
    is_ordered: Sequence[bool],
) -> ColumnModel:
    """Fit the distribution of private values given the public values of all rows, by L-BFGS.

    `noisy` are the measured tables, `public` the codes of each public column, of shape (n_rows,), and `is_ordered` is
    True for each private column whose values are ordered.
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
    evidence, designs = [], []
    for table, cell_counts in zip(noisy, rows.cell_counts, strict=True):
        has_order = any(is_ordered[column] for column in table.cross.private)
        std = ORDERED_LOGIT_STD if has_order else LOGIT_STD
        levels = [*_list_evidence(table, cell_counts, joint, std)]
        designs.append(hstack([_mark_sums(sums) for sums, _ in levels]))
        evidence += [found for _, found in levels]
    # The logit of a cell is the sum of the parameters of all levels.
    design = block_diag(designs, format="csr")
    transposed = design.T.tocsr()
    # One vector for all parameters.
    counts, prior, penalty, curvature = np.hstack(evidence)
    # In these units, the second derivative of the loss is about 1 in all directions.
    units = 1 / np.sqrt(curvature + penalty)

    def loss(
        scaled: Floats, of: _DistinctRows, shift: Floats | float
    ) -> tuple[float, Floats]:
        """Return the penalized loss of parameters divided by `units`, and its gradient; (n_parameters,).

        `of` has the rows, or a part of them, whose expected counts differ by `shift`.
        """
        parameters = scaled * units
        log_normalizer, expected = of.evaluate(design @ parameters)
        distance = parameters - prior
        penalty_gradient = penalty * distance
        noisy_counts = counts - shift
        value = log_normalizer - parameters @ noisy_counts
        value += penalty_gradient @ distance / 2
        gradient = transposed @ expected - noisy_counts + penalty_gradient
        return value, gradient * units

    fitted = design @ (_minimize(loss, prior / units, rows, units) * units)
    stops = np.cumsum([table.counts.size for table in noisy])[:-1]
    logits, expected = (
        [
            cells.reshape(table.counts.shape)
            for cells, table in zip(np.split(numbers, stops), noisy, strict=True)
        ]
        for numbers in (fitted, rows.evaluate(fitted)[1])
    )
    return ColumnModel(crosses, logits, expected)


def _minimize(
    loss: Callable[..., tuple[float, Floats]],
    start: Floats,
    rows: _DistinctRows,
    units: Floats,
) -> Floats:
    """Minimize the loss of some rows; return the logits divided by `units`."""
    # With few rows, the expected counts are corrected by their difference from those of all rows at the
    # last point, as in a distributed Newton method ([1]_), until the gradient of all rows is small.
    # .. [1] O. Shamir, N. Srebro, T. Zhang (2014). Communication-efficient distributed optimization using an
    #    approximate Newton-type method. ICML.
    point, best = start, np.inf
    few = rows.thin(MAX_THINNED_ROWS)
    options = {"maxiter": 300, "gtol": MAX_GRADIENT / 4}
    for _ in range(MAX_CORRECTIONS if few is not None else 0):
        value, gradient = loss(point, rows, 0.0)
        if value >= best:
            break  # a part of the rows is not enough
        start, best = point, value
        if np.abs(gradient).max() <= MAX_GRADIENT:
            return point
        shift = (gradient - loss(point, few, 0.0)[1]) / units
        arguments = few, shift
        result = minimize(
            loss, point, arguments, jac=True, method="L-BFGS-B", options=options
        )
        point = result.x
    options["gtol"] = MAX_GRADIENT
    return minimize(
        loss, start, (rows, 0.0), jac=True, method="L-BFGS-B", options=options
    ).x


def _list_evidence(
    noisy: NoisyCounts, n_rows: Floats, joint: Floats, std: float
) -> Iterator[tuple[Indices, Floats]]:
    """List the cells of a table, and the same table by groups of neighboring values of ordered columns.

    Each element has the sum of each cell, of shape (n_cells * n_values,), and the counts, prior means of parameters,
    penalties and curvatures of all sums, (4, n_sums).

    Parameters
    ----------
    noisy : NoisyCounts
        The table.
    n_rows : ndarray of shape (n_cells,)
        The number of rows in each public cell.
    joint : ndarray of shape (n_combinations,)
        Proportions of the combinations of private values if private columns are independent.
    std : float
        Prior standard deviation of a parameter.
    """
    # Noise cancels out in sums of neighboring cells, but the dependence of ordered columns
    # does not, so a logit is a sum of independent effects of all levels.
    cross = noisy.cross
    independent = np.bincount(cross.value_of, joint, cross.n_values)
    expected = n_rows[:, np.newaxis] * independent
    sizes, n_ordered = zip(*cross.axes or [(n, 0) for n in expected.shape], strict=True)
    expected = expected.reshape(sizes)
    for groups in list_levels([expected.sum(axis=1), expected.sum(axis=0)], n_ordered):
        summed = sum_value_groups(expected, tuple(groups))
        counts = sum_value_groups(noisy.counts.reshape(sizes), tuple(groups))
        prior = np.zeros(counts.shape)
        if cross.is_single:
            counts = summed
            prior += np.log(independent)
        n_records = n_rows.sum()
        if cross.public is not None:
            n_records = np.bincount(groups[0], n_rows)[:, np.newaxis]
        curvature = summed * (1 - summed / np.maximum(n_records, 1))
        # Positive for cells without records.
        curvature = np.maximum(curvature, 0.05)
        variance = noisy.std_error**2 * reduce(
            np.multiply.outer, map(np.bincount, groups)
        )
        # A logit has the prior variance s**2. A count with the curvature
        # h = n p (1 - p) and noise of variance v estimates it with the error variance
        # 1 / h + v / h**2. The best linear estimate has the penalty (1 + v / h) / s**2, but
        # the sampling error 1 / h is in the table that the rows should resemble.
        penalty = (SAMPLING_WEIGHT + variance / curvature) / std**2
        found = np.reshape([counts, prior, penalty, curvature], (4, -1))
        yield np.ravel_multi_index(np.ix_(*groups), counts.shape).ravel(), found


def _mark_sums(sums: Indices) -> csr_array:
    """Return the matrix (n_cells, n_sums) with ones in the cells of each sum."""
    ones = np.ones(sums.size), (np.arange(sums.size), sums)
    return csr_array(ones, shape=(sums.size, int(sums.max()) + 1))


class _DistinctRows:
    """The distinct combinations of public cells of all rows, which have equal distributions."""

    # A table with a public column has one private column. So the score of a combination
    # of private values in a row is a sum of three: an offset for all rows, a score of the
    # values of all private columns but the last, and a score of the last one. Sums of the
    # exponentials are products of matrices.

    def __init__(
        self, crosses: Sequence[Cross], public: Sequence[Codes], n_rows: int
    ) -> None:
        """Find the distinct combinations of public cells of the rows.

        The attribute `cell_counts` has the number of rows in each public cell, by table.
        """
        # The first tables are the tables of the single private columns, in order.
        last = max(max(cross.private) for cross in crosses)
        n_combinations, n_last = crosses[last].value_of.size, crosses[last].n_values
        combinations = np.arange(n_combinations).reshape(-1, n_last)
        self._shape = combinations.shape
        self.cell_counts = []
        parts = [combinations.ravel(), combinations[:, 0], combinations[0]]
        # For the offset, left and right part of a score, and each of its tables: the index
        # of the logit of each cell and combination, and the cell of each row.
        indices: list[list[NDArray]] = [
            [np.zeros((0, part.size), int)] for part in parts
        ]
        cells: list[list[NDArray]] = [[np.zeros((0, n_rows), int)] for _ in parts]
        distinct = np.zeros(n_rows, np.intp)
        start = 0
        for cross in crosses:
            cell_of_row = cross.cells_of(public, n_rows)
            counts = np.bincount(cell_of_row, minlength=cross.n_cells)
            self.cell_counts.append(counts.astype(float))
            part = 0 if cross.public is None else 1 + (last in cross.private)
            first_logits = start + cross.n_values * np.arange(cross.n_cells)
            start += cross.n_values * cross.n_cells
            n_cells = sum(map(len, indices[part]))
            cells[part].append(cell_of_row[np.newaxis] + n_cells)
            indices[part].append(
                np.add.outer(first_logits, cross.value_of[parts[part]])
            )
            distinct = distinct * cross.n_cells + cell_of_row
            distinct = np.unique(distinct, return_inverse=True)[1]
        self._indices = list(map(np.concatenate, indices))
        _, first, counts = np.unique(distinct, return_index=True, return_counts=True)
        left, right = [
            _make_design(np.concatenate(part_cells)[:, first], len(index))
            for part_cells, index in zip(cells[1:], self._indices[1:], strict=True)
        ]
        self._set_rows(counts.astype(float), left, right)

    def _set_rows(self, weights: Floats, left: csr_array, right: csr_array) -> None:
        """Set the numbers of rows with each combination, and the designs of both parts of a score."""
        self._rows = self._weights, *_ = weights, left, right
        # A block has at most 2**17 scores: one megabyte.
        step = max(1, (1 << 17) // sum(self._shape))
        self._blocks = []
        for first_row in range(0, weights.size, step):
            block = slice(first_row, first_row + step)
            designs = left[block], right[block]
            transposed = [design.T.tocsr() for design in designs]
            self._blocks.append((weights[block], *designs, *transposed))
        self._cell_weights = left.T @ weights, right.T @ weights

    def thin(self, n: int) -> _DistinctRows | None:
        """Return about n of the combinations, with weights for all rows; None if there are few more."""
        weights, left, right = self._rows
        step = weights.size // n
        if step < MIN_THINNING:
            return None
        # Combinations are sorted, so these are as different as all.
        thinned = copy(self)
        part = slice(step // 2, None, step)
        scale = weights.sum() / weights[part].sum()
        thinned._set_rows(weights[part] * scale, left[part], right[part])
        return thinned

    def evaluate(self, logits: Floats) -> tuple[float, Floats]:
        """Return the sum of log Z over all rows, and the expected counts, both for the logits of all tables in a row.

        The score of a combination of private values in a row is the sum of its logits over all tables, and Z is the
        sum of the exponentials of the scores of all combinations.
        """
        offsets, left_logits, right_logits = (logits[index] for index in self._indices)
        offset = offsets.sum(axis=0).reshape(self._shape)
        factors = np.exp(offset - offset.max())
        log_normalizer = self._weights.sum() * float(offset.max())
        # Exponentials are relative to the highest logit of each cell.
        for table, weights in zip(
            (left_logits, right_logits), self._cell_weights, strict=True
        ):
            highest = table.max(axis=1, initial=-np.inf, keepdims=True)
            log_normalizer += float(weights @ highest[:, 0])
            table -= highest
        joint = np.zeros(self._shape)
        left_expected = np.zeros(left_logits.shape)
        right_expected = np.zeros(right_logits.shape)
        for weights, left_design, right_design, *transposed in self._blocks:
            left = np.exp(left_design @ left_logits)
            right = np.exp(right_design @ right_logits)
            products = left * (right @ factors.T)
            sums = products @ np.ones(self._shape[0])
            log_normalizer += float(weights @ np.log(sums))
            relative = (weights / sums)[:, np.newaxis]
            left_expected += transposed[0] @ (products * relative)
            left *= relative
            right_expected += transposed[1] @ (right * (left @ factors))
            joint += left.T @ right
        offset_expected = np.tile((joint * factors).ravel(), len(offsets))
        expected = [offset_expected, left_expected.ravel(), right_expected.ravel()]
        index = np.concatenate(list(map(np.ravel, self._indices)))
        counts = np.bincount(index, np.concatenate(expected), logits.size)
        return float(log_normalizer), np.asarray(counts, float)


def _make_design(cells: Indices, n_cells: int) -> csr_array:
    """Return the matrix (n_rows, n_cells) with ones in the cells of each row; `cells` is (n_tables, n_rows)."""
    n_tables, n_rows = cells.shape
    row_starts = n_tables * np.arange(n_rows + 1)
    entries = np.ones(cells.size), cells.T.ravel(), row_starts
    return csr_array(entries, shape=(n_rows, n_cells))


def draw_balanced(
    model: ColumnModel,
    public: Sequence[Codes],
    n_rows: int,
    rng: np.random.Generator,
) -> Indices:
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
    # The values of each combination, as zeros and ones; shape (n_combinations, n_values).
    indicators = np.hstack(
        [np.eye(cross.n_values)[cross.value_of] for cross in singles]
    )
    n_combinations = len(indicators)
    sizes = [int(codes.max(initial=0)) + 1 for codes in public]
    starts = np.cumsum([0, *sizes])
    cells = np.zeros((n_rows, len(public)), np.intp)
    for column, codes in enumerate(public):
        cells[:, column] = codes + starts[column]
    # Draws minus expected draws so far: of private values by public value, and of
    # combinations.
    excess = np.zeros((starts[-1], indicators.shape[1]))
    total_excess = np.zeros(n_combinations)
    # Half or twice the number of blocks, or the change of a logit per excess draw, change
    # distances of pairs by less than a tenth (benchmarks/synthesis_columns.py).
    block_rows = max(16, n_rows // 1024)
    gain = 8 / (block_rows * max(1, len(public)))
    drawn = np.empty(n_rows, np.intp)
    order = rng.permutation(n_rows)
    # Probabilities are predicted for several blocks together: at most about two megabytes.
    n_predicted = block_rows * max(1, (1 << 18) // (block_rows * n_combinations))
    for start in range(0, n_rows, block_rows):
        block = order[start : start + block_rows]
        offset = start % n_predicted
        if offset == 0:
            rows = order[start : start + n_predicted]
            predicted = model.predict([codes[rows] for codes in public], rows.size)
        probabilities = predicted[offset : offset + block.size]
        row_excess = excess[cells[block]].sum(axis=1) @ indicators.T + total_excess
        tilted = probabilities * np.exp(-gain * row_excess)
        cumulative = np.cumsum(tilted, axis=1)
        uniforms = 1 - rng.random((block.size, 1))
        draws = (cumulative < uniforms * cumulative[:, -1:]).sum(axis=1)
        drawn[block] = draws
        change = -probabilities
        change[np.arange(block.size), draws] += 1
        total_excess += change.sum(axis=0)
        np.add.at(excess, cells[block], (change @ indicators)[:, np.newaxis])
    return drawn
