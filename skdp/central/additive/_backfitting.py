"""Private backfitting: functions of one column after another, from noisy sums by bin that are averaged over epochs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from typing import NamedTuple

import numpy as np

from skdp.central.additive._crossings import Integers
from skdp.central.additive._overlap import (
    ColumnFit,
    Overlap,
    all_pairs,
    basis_of,
    can_count_pairs,
    largest_useful_error,
)
from skdp.central.additive._pairs import (
    SCORE_FACTOR,
    Pair,
    candidates,
    declared_pairs,
    most_candidates,
    scores,
    split_cells,
)
from skdp.central.additive._smoothing import Floats, Posterior, priors, smooth
from skdp.central.additive._sums import (
    STEPS,
    LargeRows,
    NumberResiduals,
    Residuals,
    Rows,
    bin_sums,
    crossed_counts,
    crossed_sums,
    size_counts,
)
from skdp.central.statistics import Bins, Noise, as_float
from skdp.randomness import ByteSource

# The number of epochs: as many as leave a sum the noise of so few records, between
# these limits. Half or twice as many change R2 by less than .006 (two generated tables
# of 4,000 rows at an epsilon of 1, 6 fits, with standard errors of .001 to .005).
_RECORDS_PER_SUM = 20
_FEWEST_EPOCHS, _MOST_EPOCHS = 2, 12

# The least count of a bin, in standard deviations of its noise.
_CAUTION = 1.5

# The number of bounds of residuals to choose from, in half octaves, and the share of the
# rows that may be beyond the bound.
_N_BOUNDS = 32
_BEYOND = 0.02

# The largest response of a function: beyond all that noise does not make.
_MOST_RESPONSE = 64.0

# Of the budget, for the scores of pairs of columns, and for the counts of the cells of
# those that are chosen. Twice as much for scores changes R2 and the area by less than
# .001 (prices of diamonds and a table with products, epsilon .5 to 4, 3 fits).
_SCORES_PART, _CELLS_PART = Fraction(3, 100), Fraction(3, 100)

# Of the budget, for the counts of the cells of all pairs of columns: other noise is 1 %
# larger for it. With half or twice, bands of columns with a correlation of .8 hold .93 of
# the supported bins, in place of .97, as measured at the constants of `_overlap`.
_OVERLAP_PART = Fraction(1, 50)

# A pair is chosen with a score that is larger than noise by so many deviations, and than
# this times what is expected of a pair of which residuals do not depend. With 3
# deviations, a product in 22,500 rows was missed in one of 3 fits at an epsilon of 1.
_SURE_SCORE, _EXPECTED_FACTOR = 2.0, 1.5

# None is chosen if noise hides a score for which the mean size of what residuals of a
# cell have in common is this share of their bound. With .2, pairs in 9,000 rows were
# missed at an epsilon of .5, which were found with .3 and with .5.
_LARGE_SCORE = 0.3

# Epochs that begin with a new bound.
LOOKS = (0, 1, 2, 4)


def find_residuals(
    rows: Rows | LargeRows,
    functions: Sequence[Integers],
    start: Integers,
    n_rows: float,
    noise: Noise,
    source: ByteSource,
) -> NumberResiduals:
    """Find a bound that few residuals of numbers exceed, and what is within, from noisy counts by size."""
    steps = np.arange(_N_BOUNDS)[::-1]
    bounds = (2 * STEPS * 2.0 ** (-steps / 2)).astype(np.int64)  # ascending
    what = partial(size_counts, functions=functions, start=start, limits=bounds)
    drawn = noise.add(source, rows.sum(what).tolist())
    counts = np.array([*map(as_float, drawn)])
    error = as_float(noise.error)
    # Added up from the largest on, so that few counts add their noise.
    n_beyond = np.cumsum(counts[::-1])[::-1]
    n_added = np.arange(_N_BOUNDS, 0, -1)
    is_many = n_beyond > _BEYOND * n_rows + error * np.sqrt(n_added)
    # The bound is the last size from which on there are many. A True before all sizes
    # stands for none, so that places are one less.
    last_place = int(np.flatnonzero(np.append(True, is_many))[-1])
    place = max(last_place - 1, 0)
    inside = np.maximum(counts[: place + 1], 0.0)
    n_inside = inside.sum()
    # The mean square of a half octave is .72 times that of its end, for sizes that are
    # even in their logarithm. The first class, from 0 on, is taken for such a one.
    squares = 0.72 * (bounds[: place + 1] / STEPS) ** 2
    variance = squares[-1]
    if n_inside > 0:
        variance = max(float(inside @ squares) / n_inside, variance / 16)
    return NumberResiduals(
        int(bounds[place]),
        share_inside=float(np.clip(n_inside / n_rows, 0.5, 1.0)),
        variance=variance,
    )


def count_epochs(mu_squared: Fraction, n_rows: float, n_columns: int) -> int:
    """Return the number of epochs, by the noise."""
    wanted = math.sqrt(mu_squared) * n_rows / (_RECORDS_PER_SUM * n_columns)
    return int(np.clip(round(wanted), _FEWEST_EPOCHS, _MOST_EPOCHS))


class Start(NamedTuple):
    """What is measured of the target first, and how the rest is."""

    n_rows: float
    # The constant: (n_outputs,)
    response: Floats
    # Of the rows, those that are not of the largest class; of numbers, all.
    informative_share: float
    # Those of classes; of numbers, they are found by counts with a noise of their own.
    residuals: Residuals
    noise_of_bounds: Noise | None
    # What is left for sums.
    mu_squared: Fraction


class Cells(NamedTuple):
    """The cells of a pair of columns, as `Bins`."""

    pair: Pair
    # Noisy ones: (n_cells,), with the variances of their noise.
    counts: Floats
    variances: Floats

    @property
    def sizes(self) -> Floats:
        """The counts, of which none is below half the deviation of its noise."""
        return np.maximum(self.counts, np.sqrt(self.variances) / 2)


class Shapes(NamedTuple):
    """Functions of bins whose mean over records is 0, and the constant, in units of the response."""

    # (n_outputs,)
    intercept: Floats
    # Of each column: (n_bins, n_outputs)
    values: list[Floats]
    std_errors: list[Floats]
    n_epochs: int
    # Whether errors are those of correlated columns, too, if there are several.
    is_joint: bool
    # Whether each column nearly follows from others, as far as that is known.
    is_alike: Sequence[bool]
    # Of each pair.
    cells: list[Cells]
    # Of each pair: (n_cells, n_outputs), whose means in the groups of a column are 0.
    cell_values: list[Floats]
    cell_std_errors: list[Floats]


class _AdditiveTerm:
    """The function of a column or a pair of columns, and the average of its noisy sums."""

    def __init__(
        self, bins: Bins | Cells, covariances: list[Floats], n_outputs: int
    ) -> None:
        self.bins = bins
        self.sizes = bins.sizes
        self.covariances = covariances
        shape = len(bins.counts), n_outputs
        self.values = np.zeros(shape)
        self.std_errors = np.zeros(shape)
        # What the squares of errors are larger by if columns are correlated.
        self.added_variances = np.zeros(shape)
        # Over rows: (n_outputs,)
        self.mean = np.zeros(n_outputs)
        self.variance = np.zeros(n_outputs)
        # The values in whole steps of the response unit, with a 0 for what is in no bin.
        self.integer_values = np.zeros((shape[0] + 1, n_outputs), np.int64)
        # If correlations are known, the mean of the functions of other columns in each bin,
        # less that of all rows.
        self.mean_of_others = np.zeros(shape)
        # The coefficients of the functions of all columns, on average over the epochs, each
        # as they were when the sums of this function were released: (n_all, n_outputs).
        self.past_coefficients = np.zeros((1, n_outputs))
        # Of each output, what its sums say.
        self.posteriors: list[Posterior] = []
        self.row_variances = np.zeros(shape)
        # Averages over epochs: of the sums that are expected of this function and, in its
        # bins, of others, where they fit best; and of the slope of a sum, by which it
        # rises with the function of its bin.
        self._mean_sums = np.zeros(shape)
        self._mean_slopes = np.zeros(shape)
        # Of the averaged sums, and the weight of all epochs in them.
        self._noise_variances = np.zeros(shape)
        self._epoch_weights = np.zeros(shape)
        # Counts are at least these, by all sums: (n_bins, 1).
        self._least_counts = np.zeros((shape[0], 1))
        # Whether the sums of the epoch before were above 0 (1) or below (-1).
        self._last_signs = np.zeros(shape)

    def std_errors_with_mean(self) -> Floats:
        """Return the standard errors of the values, less their mean by the noisy sizes: (n_bins, n_outputs)."""
        # A size that is wrong by e moves the mean by e * (value - mean) / n_rows.
        sizes = self.sizes
        variances = self.std_errors**2 + self.added_variances
        squares = (self.values - self.mean) ** 2 + variances
        of_mean = self.bins.variances @ squares / sizes.sum() ** 2
        return np.sqrt(variances + of_mean)

    def update(
        self,
        noisy: Floats,
        curvatures: Floats,
        variances: Floats,
        coefficients: Floats,
        epoch: Epoch,
    ) -> None:
        """Take in the noisy sums of an epoch, where residuals have these curvatures and variances."""
        self._average(noisy, curvatures, coefficients, epoch)
        values = self._smooth(variances, epoch.row_variance)
        self.set_values(values, epoch.response_unit)

    def set_values(self, values: Floats, response_unit: int) -> None:
        """Set the values, and what follows from them."""
        self.values = _centred(np.clip(values, -_MOST_RESPONSE, _MOST_RESPONSE))
        n_rows = self.sizes.sum()
        self.mean = self.sizes @ self.values / n_rows
        self.variance = self.sizes @ (self.values - self.mean) ** 2 / n_rows
        self.integer_values = self.integer_values.copy()
        self.integer_values[:-1] = np.rint(self.values * response_unit)

    def fit_of(self, output: int) -> ColumnFit:
        """Return what is known of the function, for one output."""
        return ColumnFit(
            slopes=self._mean_slopes[:, output],
            sums=self._mean_sums[:, output],
            noise_variances=self._noise_variances[:, output],
            row_variances=self.row_variances[:, output],
            smoother=self.posteriors[output].smoother(),
            prior=self.posteriors[output].prior,
            past_coefficients=self.past_coefficients[:, output],
        )

    def _average(
        self, noisy: Floats, curvatures: Floats, coefficients: Floats, epoch: Epoch
    ) -> None:
        """Add the sums of an epoch to the averages."""
        # A row adds at most the bound to a sum, so that the excess over the noise says how
        # many rows there are at least.
        excess = np.maximum(np.abs(noisy) - epoch.error, 0.0)
        n_needed = excess.max(axis=1, keepdims=True) / epoch.bound
        self._least_counts = np.maximum(self._least_counts, n_needed)
        # A step by a count that is too small would be too long.
        deviations = np.sqrt(self.bins.variances)[:, np.newaxis]
        counts = np.maximum(self.sizes[:, np.newaxis], _CAUTION * deviations)
        counts = np.maximum(counts, self._least_counts)
        slopes = counts * curvatures
        # Where the mean residual of a bin is surely beyond half the bound, the function is
        # far from its place, and what was averaged is of no use. But if the sum has another
        # sign than before, the last step went too far, and the average is nearer.
        signs = np.sign(noisy)
        is_far = (excess > epoch.bound * counts / 2) & (signs == self._last_signs)
        self._last_signs = signs
        self._epoch_weights = np.where(
            is_far, epoch.weight, self._epoch_weights + epoch.weight
        )
        share = epoch.weight / self._epoch_weights
        responses = self.values + self.mean_of_others
        self._mean_sums += share * (slopes * responses + noisy - self._mean_sums)
        self._mean_slopes += share * (slopes - self._mean_slopes)
        # Bins have different shares after one of them was far from its place.
        mean_share = float(share.mean())
        change = coefficients - self.past_coefficients
        self.past_coefficients = self.past_coefficients + mean_share * change
        self._noise_variances *= (1 - share) ** 2
        self._noise_variances += share**2 * epoch.error**2

    def _smooth(self, variances: Floats, unit: float) -> Floats:
        """Return the values that the averages and the priors say, and set their errors."""
        sizes = self.sizes
        centre = np.eye(sizes.size) - sizes / sizes.sum()
        self.row_variances = variances
        self.posteriors = []
        own_sums = self._mean_sums - self._mean_slopes * self.mean_of_others
        values = np.zeros(self.values.shape)
        for output in range(self.values.shape[1]):
            row_variances = variances[:, output]
            posterior = smooth(
                own_sums[:, output],
                self._mean_slopes[:, output],
                self._noise_variances[:, output] + sizes * row_variances,
                self.covariances,
                unit,
            )
            self.posteriors.append(posterior)
            values[:, output] = posterior.mean
            errors = np.diag(centre @ posterior.covariance @ centre.T)
            self.std_errors[:, output] = np.sqrt(np.maximum(errors, 0.0))
        return values


class Epoch(NamedTuple):
    """How the sums of an epoch are measured."""

    # Of the noise of a sum: its standard deviation.
    error: float
    # The largest norm of the residuals of a row.
    bound: float
    weight: float
    response_unit: int
    # As of `Residuals`.
    row_variance: float


def backfit(
    rows: Rows | LargeRows,
    bins: Sequence[Bins],
    start: Start,
    interactions: int | Sequence[tuple[int, int]],
    source: ByteSource,
) -> Shapes:
    """Fit a function of each column in turn, by noisy sums of residuals that are released once each.

    And of pairs of columns: of declared ones by their numbers, or of as many as this at most, which are chosen.
    """
    descent = _Descent(rows, bins, start, source)
    descent.count_pairs(start.mu_squared * _OVERLAP_PART)
    n_epochs = count_epochs(start.mu_squared, start.n_rows, len(bins))
    if not interactions:
        descent.run(range(n_epochs), n_epochs * len(bins))
        descent.settle()
        return descent.shapes()
    # Pairs come when the functions of columns are about right.
    n_first = n_epochs // 2
    n_later = n_epochs - n_first
    if isinstance(interactions, int):
        n_most = min(interactions, most_candidates(len(bins)))
    else:
        n_most = len(interactions)
    scores_amount = start.mu_squared * _SCORES_PART
    cells_amount = start.mu_squared * _CELLS_PART
    # Set aside while the first epochs share what is left.
    descent.mu_squared -= scores_amount + cells_amount
    descent.run(range(n_first), n_epochs * len(bins) + n_later * n_most)
    descent.mu_squared += scores_amount + cells_amount
    if isinstance(interactions, int):
        pairs = descent.choose(n_most, scores_amount)
    else:
        pairs = declared_pairs(bins, interactions)
    if pairs:
        descent.add(pairs, cells_amount)
    # What pairs did not need is shared by the later epochs, too.
    descent.run(range(n_first, n_epochs), n_later * len(descent.functions))
    descent.settle()
    return descent.shapes()


class _Descent:
    """Functions of columns and pairs, and what is left to improve them."""

    # Sums are ``slopes * (f - function)`` of the function f that fits best, nearly. So
    # ``slopes * function + sums`` is about f, whatever the function was: its average
    # over epochs has the noise of all of the budget, and is shrunk as a whole. Steps
    # that are shrunk each, as of boosting, add up without a limit where noise is larger
    # than what bins say.

    def __init__(
        self,
        rows: Rows | LargeRows,
        bins: Sequence[Bins],
        start: Start,
        source: ByteSource,
    ) -> None:
        self.rows = rows
        self.bins = bins
        self.start = start
        self.source = source
        self.residuals = start.residuals
        n_outputs = len(start.response)
        self.functions = [
            _AdditiveTerm(column, priors(column), n_outputs) for column in bins
        ]
        unit = self.residuals.response_unit
        self.constant = np.rint(start.response * unit).astype(np.int64)
        # Of each pair that has a function, in the order of these, which come after those
        # of columns.
        self.cells: list[Cells] = []
        # How columns are correlated, if counts of pairs are of use.
        self.overlap: Overlap | None = None
        # Of the functions of columns, as `Overlap` has them: (n_all, n_outputs).
        self.coefficients = np.zeros((1, n_outputs))
        # What is left of the budget.
        self.mu_squared = start.mu_squared
        self.n_epochs = 0

    @property
    def integer_values(self) -> list[Integers]:
        """The values of each function in whole steps of the response unit."""
        return [function.integer_values for function in self.functions]

    @property
    def columns(self) -> list[_AdditiveTerm]:
        """The functions of columns."""
        return self.functions[: len(self.bins)]

    def count_pairs(self, amount: Fraction) -> None:
        """Count the rows of groups of all pairs of columns, if noise does not hide how columns are correlated."""
        if not can_count_pairs(len(self.bins)):
            return
        bases = [basis_of(column) for column in self.bins]
        # A column of a single bin has no function.
        n_with_functions = sum(basis.functions.shape[1] > 0 for basis in bases)
        if n_with_functions < 2:
            return
        # A row is in one cell of each pair.
        n_pairs = math.comb(len(self.bins), 2)
        noise = Noise("mu", amount, n_pairs)
        error = as_float(noise.error)
        n_rows = self.start.n_rows
        if error > largest_useful_error(n_rows):
            return
        crossings = [pair.crossing() for pair in all_pairs(bases)]
        exact = self.rows.sum(partial(crossed_counts, crossings=crossings))
        self.mu_squared -= noise.amount
        counts = self._noisy(exact, noise)
        self.overlap = Overlap.from_counts(bases, counts, error, n_rows)
        n_outputs = self.residuals.n_outputs
        self.coefficients = np.zeros((len(self.overlap.errors), n_outputs))

    def _update_mean_of_others(self, column: int, overlap: Overlap) -> None:
        """Tell the function of a column what those of other columns are in its bins."""
        mean_of_others = overlap.mean_of_others(column, self.coefficients)
        self.functions[column].mean_of_others = mean_of_others

    def _store_coefficients(self, column: int, overlap: Overlap) -> None:
        """Set the coefficients of the function of a column."""
        projection = overlap.bases[column].projection
        values = self.functions[column].values
        self.coefficients[overlap.blocks[column]] = projection @ values

    def settle(self) -> None:
        """Set the functions of columns to what all sums say together, with their errors, if correlations are known."""
        overlap = self.overlap
        if overlap is None:
            return
        n_outputs = self.residuals.n_outputs
        fits_of_outputs = []
        values_of_outputs = []
        for output in range(n_outputs):
            fits = [function.fit_of(output) for function in self.columns]
            fits_of_outputs.append(fits)
            values_of_outputs.append(overlap.settle(fits))
        for column, function in enumerate(self.columns):
            values = [of_output[column] for of_output in values_of_outputs]
            function.set_values(np.stack(values, axis=1), self.residuals.response_unit)
            self._store_coefficients(column, overlap)
        for output, fits in enumerate(fits_of_outputs):
            variances = overlap.added_variances(fits, self.coefficients[:, output])
            for function, added in zip(self.columns, variances, strict=True):
                function.added_variances[:, output] = added
        for column in range(len(self.bins)):
            self._update_mean_of_others(column, overlap)

    def run(self, epochs: range, n_releases: int) -> None:
        """Release the sums of all functions once an epoch, each for its part of the budget of so many."""
        amount = self.mu_squared / n_releases
        noise_of_bounds = self.start.noise_of_bounds
        for number in epochs:
            if noise_of_bounds is not None and number in LOOKS:
                self.residuals = find_residuals(
                    self.rows,
                    self.integer_values,
                    self.constant,
                    self.start.n_rows,
                    noise_of_bounds,
                    self.source,
                )
            noise = Noise("mu", amount, self.residuals.square)
            error = as_float(noise.error) / self.residuals.unit
            error *= _share_of_noise(self.residuals.n_outputs)
            # Later epochs are nearer to the end, and those of little noise say more.
            epoch = Epoch(
                error=error,
                bound=math.sqrt(self.residuals.square) / self.residuals.unit,
                weight=(number + 1) / error**2,
                response_unit=self.residuals.response_unit,
                row_variance=self.residuals.row_variance,
            )
            for column, function in enumerate(self.functions):
                if self.overlap is not None and column < len(self.bins):
                    self._update_mean_of_others(column, self.overlap)
                what = partial(
                    bin_sums,
                    column=column,
                    functions=self.integer_values,
                    start=self.constant,
                    residuals=self.residuals,
                )
                noisy = self._noisy(self.rows.sum(what), noise) / self.residuals.unit
                means, variances = self._response_moments(column)
                curvatures, residual_variances = self.residuals.scales(means, variances)
                function.update(
                    _centred(noisy),
                    curvatures,
                    residual_variances,
                    self.coefficients,
                    epoch,
                )
                if self.overlap is not None and column < len(self.bins):
                    self._store_coefficients(column, self.overlap)
                self.mu_squared -= noise.amount
            self.n_epochs += 1

    def _noisy(self, exact: Integers, noise: Noise) -> Floats:
        """Add noise to integers."""
        drawn = noise.add(self.source, exact.ravel().tolist())
        return np.array([*map(as_float, drawn)]).reshape(exact.shape)

    def choose(self, n_most: int, amount: Fraction) -> list[Pair]:
        """Choose pairs of columns whose cells have noisy sums of residuals that are surely not those of nothing."""
        # What functions of correlated columns have not settled looks like pairs.
        self.settle()
        function_variances = [function.variance.sum() for function in self.functions]
        pairs = candidates(self.bins, np.array(function_variances))
        if not pairs:
            return []
        residuals = self.residuals
        # The sum of the sizes of the residuals of a row is at most their norm times the
        # root of their number.
        largest = math.isqrt(residuals.n_outputs * residuals.square - 1) + 1
        reach = SCORE_FACTOR * largest
        noise = Noise("mu", amount, len(pairs) * reach**2)
        error = as_float(noise.error)
        if _SURE_SCORE * error > _LARGE_SCORE * self.start.n_rows * largest:
            return []
        what = partial(
            crossed_sums,
            crossings=[pair.crossing() for pair in pairs],
            functions=self.integer_values,
            start=self.constant,
            residuals=residuals,
        )
        exact = np.array(scores(self.rows.sum(what), pairs), np.int64)
        self.mu_squared -= noise.amount
        noisy_scores = self._noisy(exact, noise) / residuals.unit
        sizes = self.bins[0].sizes
        means, variances_of_response = self._response_moments(0)
        _, variances = residuals.scales(means, variances_of_response)
        deviation = float(np.sqrt(sizes @ variances / sizes.sum()).sum())
        excesses = []
        for pair, score in zip(pairs, noisy_scores, strict=True):
            expected = pair.expected_score(self.start.n_rows, deviation)
            excesses.append(score - _EXPECTED_FACTOR * expected)
        is_sure = np.array(excesses) > _SURE_SCORE * error / residuals.unit
        order = np.argsort(-np.array(excesses), kind="stable")
        return [pairs[index] for index in order[:n_most] if is_sure[index]]

    def add(self, pairs: Sequence[Pair], amount: Fraction) -> None:
        """Count the rows of the cells of pairs, which get functions."""
        # A row is in one cell of each pair.
        noise = Noise("mu", amount, len(pairs))
        crossings = [pair.crossing() for pair in pairs]
        exact = self.rows.sum(partial(crossed_counts, crossings=crossings))
        self.mu_squared -= noise.amount
        counts = self._noisy(exact, noise)
        variance = as_float(noise.error) ** 2
        for pair, pair_counts in zip(pairs, split_cells(counts, pairs), strict=True):
            cells = Cells(pair, pair_counts, np.full(pair.n_cells, variance))
            self.cells.append(cells)
            function = _AdditiveTerm(cells, pair.priors(), self.residuals.n_outputs)
            self.functions.append(function)
        self.rows = self.rows.crossed(crossings)

    def _response_moments(self, index: int) -> tuple[Floats, Floats]:
        """Return the mean response in each bin of a function, and the variance within, by the correlations if known."""
        function = self.functions[index]
        means = function.values + function.mean_of_others + self.start.response
        variance = np.zeros(means.shape[1])
        if self.overlap is not None and index < len(self.bins):
            variance += self.overlap.variance_beside(index, self.coefficients)
        column_means: dict[int, Floats] = {}
        if isinstance(function.bins, Cells):
            pair = function.bins.pair
            for side, column in enumerate(pair.columns):
                values = self.functions[column].values
                column_means[column] = pair.cell_means(
                    side, values, self.bins[column].sizes
                )
        for other_index, other in enumerate(self.functions):
            if other_index in column_means:
                means = means + column_means[other_index]
            elif other_index != index:
                means = means + other.mean
                variance += other.variance
        return means, np.maximum(variance, 0.0)

    def shapes(self) -> Shapes:
        """Return the functions of columns, less their means, and those of pairs."""
        columns = self.columns
        means = [function.mean for function in columns]
        values = [function.values - function.mean for function in columns]
        is_alike: Sequence[bool] = [False] * len(columns)
        if self.overlap is not None:
            is_alike = self.overlap.is_alike
        # The mean of a pair's function is 0 by its prior: there is no error of a mean.
        pairs = self.functions[len(self.bins) :]
        return Shapes(
            intercept=self.start.response + np.sum(means, axis=0),
            values=values,
            std_errors=[function.std_errors_with_mean() for function in columns],
            n_epochs=self.n_epochs,
            is_joint=self.overlap is not None or len(self.bins) == 1,
            is_alike=is_alike,
            cells=self.cells,
            cell_values=[function.values for function in pairs],
            cell_std_errors=[function.std_errors for function in pairs],
        )


def _centred(values: Floats) -> Floats:
    """Return what several classes differ in: their mean changes no probability, and is noise."""
    if values.shape[1] == 1:
        return values
    return values - values.mean(axis=1, keepdims=True)


def _share_of_noise(n_outputs: int) -> float:
    """Return the deviation of centred noise of several classes, over that of the noise."""
    if n_outputs == 1:
        return 1.0
    return math.sqrt(1 - 1 / n_outputs)
