"""Local transformer for numbers between public bounds, with estimates of means and distributions."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from skdp._arrays import ColumnName, Floats, Indices, Integers, Mask, TableLike
from skdp.base import (
    NORMAL,
    Bounds,
    apply_set_output,
    check_choice,
    check_confidence_level,
    limit_blas_threads,
    parse_bounds,
    to_float_columns,
)
from skdp.domain import Domain, Interval
from skdp.local._memo import Memo, PermanentDraws, check_memo
from skdp.local._protocol_file import make_intervals
from skdp.local._tally import ReportTally
from skdp.local._transformer import ReportTransformer
from skdp.local.protocol._fields import (
    Channel,
    ColumnCodes,
    Field,
    Randomness,
    RowSelection,
)
from skdp.local.protocol._protocol import ReportProtocol, make_guarantee
from skdp.local.protocol._report_columns import concat_columns
from skdp.oracles import NumericMechanism, Optimal, SquareWave
from skdp.privacy import PrivacyLedger, ReportPair, check_epsilon
from skdp.randomness import check_size
from skdp.tables import Table

# Columns of the table of estimated means.
MEAN_COLUMNS = ["mean", "std_error", "lower", "upper"]

MECHANISMS: dict[str, Any] = {
    "optimal": Optimal,
    "square_wave": SquareWave,
}


def make_mechanism(
    mechanism: str | Iterable[Sequence[int]], epsilon: Fraction, grid_size: int = 1024
) -> NumericMechanism:
    """Make a numeric mechanism from its name, or from the outcomes of an optimal mechanism."""
    if not isinstance(mechanism, str):
        return Optimal(grid_size, epsilon, outcomes=mechanism)
    return MECHANISMS[mechanism](grid_size, epsilon)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class NumberField(Field):
    """Column of numbers, which a mechanism reports on a grid between public bounds."""

    name: ColumnName
    bounds: tuple[float, float]
    mechanism: NumericMechanism
    # The epsilon of the column, which `epsilon` does not exceed.
    requested_epsilon: Fraction

    # The numbers that may be reported, ascending. A report of the field is an index of
    # this array.
    numbers: Floats = dataclasses.field(init=False)
    # The index in `numbers` of each report of the mechanism; shape (n_reports,).
    _number_index: Indices = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        # Compute the numbers that may be reported, and the index of each report of the
        # mechanism in them.
        # Several reports of the mechanism may be rounded to one float.
        reported = _compute_numbers(self.mechanism, *self.bounds)
        numbers, number_index = np.unique(reported, return_inverse=True)
        object.__setattr__(self, "numbers", numbers)
        object.__setattr__(self, "_number_index", number_index)

    @property
    def columns(self) -> tuple[Any, ...]:  # type: ignore[override]
        return (self.name,)

    @property
    def epsilon(self) -> float:  # type: ignore[override]
        return self.mechanism.epsilon

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.numbers),)

    def _read(self, columns: Sequence[Any], *, missing: bool = False) -> Any:
        """Convert the column to floats; with `missing`, missing values are allowed."""
        table = Table(self.columns, tuple(columns), None)
        (numbers,) = to_float_columns(table, allow_missing=missing, allow_bool=False)
        return numbers

    def prepare(self, columns: Sequence[Any]) -> ColumnCodes:
        # Clip the true numbers to the bounds, and encode them as positions on the grid.
        # Numbers become integers in units of 2**-16 steps of the grid, so that rounding and
        # noise are exact.
        low, high = self.bounds
        fractions = (np.clip(self._read(columns), low, high) - low) / (high - low)
        scaled = np.rint(fractions * (self.mechanism.steps << 16))
        return [scaled.astype(np.int64)]

    def report(self, codes: ColumnCodes, randomness: Randomness) -> NDArray[Any]:
        # Round each encoded number to a position of the grid at random, and randomize
        # it. The result has the indices of the reported numbers in `numbers`.
        source = randomness("report", self.name)
        positions = self.mechanism.round_at_random(codes[0], source)
        return self._number_index[self.mechanism.report(positions, source)]

    def report_permanent(
        self, codes: ColumnCodes, draws: PermanentDraws
    ) -> NDArray[Any]:
        # Return the index in `numbers` of the permanent report of each record.
        return self._number_index[self.mechanism.report_keyed(codes[0], draws.digests)]

    def write(
        self,
        reports: NDArray[Any],
        like: Sequence[Any],
        drawn: Mask | None,
    ) -> list[Any]:
        # Convert indices in `numbers` to one column of numbers, NaN in records that do
        # not report the field: `drawn` is a mask of the others, None if all report it.
        numbers = self.numbers[reports]
        return [numbers if drawn is None else np.where(drawn, numbers, np.nan)]

    def read(self, columns: Sequence[Any], rows: RowSelection) -> NDArray[Any]:
        # Return the index in `numbers` of the reported number of each of the given
        # rows. `rows` is a mask if records report a sample of the fields, and otherwise
        # a slice of all rows.
        is_sampled = not isinstance(rows, slice)
        numbers = self._read(columns, missing=is_sampled)[rows]
        if is_sampled and np.isnan(numbers).any():
            raise ValueError(
                f"Column {self.name!r} must have no missing values in rows that report "
                "it."
            )
        # Find the nearest number that may be reported, by interpolation of its index.
        indices = np.interp(numbers, self.numbers, np.arange(len(self.numbers)))
        nearest = np.rint(indices).astype(np.intp)
        # Stored reports may have fewer digits.
        tolerance = 1e-6 * (self.numbers[-1] - self.numbers[0])
        if (np.abs(self.numbers[nearest] - numbers) > tolerance).any():
            raise ValueError(
                f"Column {self.name!r} must contain reports of this transformer, got "
                "other numbers."
            )
        return nearest

    def sums(self, reports: NDArray[Any]) -> Integers:
        # Count the reports, which are indices in `numbers`, of each number.
        return np.bincount(reports, minlength=len(self.numbers))

    def debias(
        self,
        reports: NDArray[Any],
        columns: Sequence[Any],
        cells: Indices | None,
    ) -> Floats:
        # Return the reported number of each record, which is unbiased; shape (n_reports, 1).
        return self.numbers[reports].reshape(-1, 1)

    def estimate(  # type: ignore[override]
        self,
        sums: Integers,
        size: int,
        n_reports: int,
        *,
        confidence_level: float = 0.95,
    ) -> pd.DataFrame:
        """Estimate the mean of the column, with a confidence interval, as a table with one row.

        `sums` are the counts of each of the `numbers` that may be reported. The number
        of reports is their sum, so `size` and `n_reports` are not used.
        """
        index = pd.Index(self.columns, name="column", tupleize_cols=False)
        n = int(sums.sum())
        if n == 0:
            row = [math.nan, math.inf, -math.inf, math.inf]
            return pd.DataFrame([row], index=index, columns=MEAN_COLUMNS)
        mean = float(sums @ self.numbers) / n
        squares = float(sums @ (self.numbers - mean) ** 2)
        # The variance of the reports includes the noise. A few equal reports have a sample
        # variance of 0, so the smallest variance of the noise is a lower bound.
        noise = self._compute_noise_variances()
        variance = max(noise.min(), squares / (n - 1)) if n > 1 else noise.max()
        std_error = math.sqrt(variance / n)
        level = check_confidence_level(confidence_level)
        row = [mean, std_error, *NORMAL.confidence_interval(mean, std_error, level)]
        return pd.DataFrame([row], index=index, columns=MEAN_COLUMNS)

    def _compute_noise_variances(self) -> Floats:
        """Compute the variance of the reported number for each position of the grid."""
        low, high = self.bounds
        steps = self.mechanism.steps
        variances: Floats = self.mechanism.variances(np.arange(steps + 1))
        return variances * ((high - low) / steps) ** 2

    def distribution(self, sums: Integers, n_bins: int) -> pd.DataFrame:
        """Estimate the proportion of the true numbers in each of `n_bins` equal bins between the bounds.

        `sums` are the counts of each of the `numbers` that may be reported. Proportions
        are NaN without reports.
        """
        steps = self.mechanism.steps
        if not isinstance(self.mechanism, SquareWave):
            raise ValueError(
                "`estimate_distribution` requires mechanism='square_wave'. For "
                "unbiased proportions of bins, use FrequencyOracleEncoder with an "
                "Interval."
            )
        bins = Interval(*self.bounds, bins=n_bins, real=True)
        frequencies = np.full(n_bins, np.nan)
        if sums.any():
            # Smoothing averages neighboring cells, so about 512 small cells are estimated,
            # and then joined to bins.
            n_cells = n_bins * max(1, min(512, steps) // n_bins)
            # The probability of each number, given a uniform value in each cell.
            channel = np.zeros((n_cells, len(self.numbers)))
            by_report = self.mechanism.report_distribution(
                distribute_bins(steps, n_cells)
            )
            np.add.at(channel.T, self._number_index, by_report.T)
            with limit_blas_threads():
                cells = estimate_frequencies(channel, sums)
            frequencies = cells.reshape(n_bins, -1).sum(axis=1)
        edges = {"left": bins.edges[:-1], "right": bins.edges[1:]}
        index = pd.Index(bins.labels)
        # `rename_axis` would treat a tuple as several names.
        index.name = self.name
        return pd.DataFrame(edges | {"frequency": frequencies}, index=index)

    def parameters(self) -> dict[str, Any]:
        low, high = self.bounds
        return {
            **self.mechanism.parameters(),
            "epsilon": str(self.requested_epsilon),
            "bounds": [low, high],
        }

    def declared(self) -> Mapping[str, Mapping[Any, Any]]:
        return {"bounds": {self.name: self.bounds}}

    def shuffle_pair(self) -> ReportPair:
        return self.mechanism.shuffle_pair()

    def channels(self, max_entries: int) -> list[Iterator[Channel]] | None:
        is_small = (self.mechanism.steps + 1) ** 2 <= max_entries
        return [iter([self.channel()])] if is_small else None

    def channel(self) -> list[list[Fraction]]:
        """Compute the exact probability of each number given each position of the grid."""
        # Add the probabilities of the reports that are rounded to one number.
        by_report = np.array(self.mechanism.channel(), dtype=object)
        by_number = np.full((len(self.numbers), len(by_report)), Fraction(0))
        np.add.at(by_number, self._number_index, by_report.T)
        return by_number.T.tolist()

    def encode(self, columns: Sequence[Any], randomness: Randomness) -> list[Any]:
        return [np.clip(self._read(columns), *self.bounds)]

    def check_encodable(self) -> None:
        pass


def estimate_means(
    protocol: ReportProtocol, tally: ReportTally, confidence_level: float
) -> pd.DataFrame:
    """Estimate the mean of each numeric column from the sums of its reports, as a table with one row per column."""
    means = {}
    for field, sums, size in zip(
        protocol.fields, tally.counts, tally.sizes, strict=True
    ):
        if isinstance(field, NumberField):
            means[field.name] = field.estimate(
                sums, size, tally.n_reports, confidence_level=confidence_level
            )
    if not means:
        index = pd.Index([], name="column")
        return pd.DataFrame(columns=MEAN_COLUMNS, index=index, dtype=float)
    return pd.concat([means[name] for name in protocol.columns if name in means])


def distribute_bins(steps: int, n_bins: int) -> Floats:
    """Compute the distribution of the position of a number that is uniform over a bin.

    The number is rounded by `round_at_random`. The result has the shape (n_bins, steps +
    1).
    """
    edges = np.arange(n_bins + 1)[:, np.newaxis] * (steps / n_bins)
    # A number at distance d from a position is rounded to it with probability 1 - |d|, if
    # |d| < 1. `integral` is the integral of this probability from -1 to the edge of a bin,
    # 1/2 + d - sign(d) d^2 / 2, and a bin has the difference of its two edges.
    distance = np.clip(edges - np.arange(steps + 1), -1, 1)
    integral = 0.5 + distance - np.sign(distance) * distance**2 / 2
    return np.diff(integral, axis=0) * (n_bins / steps)


def estimate_frequencies(channel: Floats, counts: NDArray[np.integer]) -> Floats:
    """Estimate the frequencies of cells by expectation maximization with smoothing (EMS).

    `channel` has the probability of each report given each cell, of shape (n_cells,
    n_reports), and `counts` the number of times that each report occurs, (n_reports,).
    The method is from Z. Li et al. (2020), Estimating numerical distributions under
    local differential privacy, SIGMOD.
    """
    is_reported = counts > 0
    likelihoods = np.ascontiguousarray(channel[:, is_reported].T)
    positive_counts = counts[is_reported]
    frequencies = np.full(len(channel), 1 / len(channel))
    for _ in range(10_000):
        # Expectation: the number of reports from each cell, by Bayes' rule.
        weights = positive_counts / (likelihoods @ frequencies)
        expected = frequencies * (weights @ likelihoods)
        # Smoothing with the weights 1, 2, 1, and maximization: divide by the sum.
        padded = np.pad(expected, 1, mode="edge")
        updated = padded[:-2] + 2 * padded[1:-1] + padded[2:]
        updated /= updated.sum()
        change = np.abs(updated - frequencies).sum()
        frequencies = updated
        if change < 1e-6:  # far below the noise of any number of reports
            break
    return frequencies


def _compute_numbers(mechanism: NumericMechanism, low: float, high: float) -> Floats:
    """Convert the estimate of each report, a position in steps from `low`, to a number, which may exceed the bounds."""
    # Ratios of integers are exact, so each number is rounded once. Fractions would also be
    # reduced, which takes four times as long.
    width, start = (Fraction(high) - Fraction(low)) / mechanism.steps, Fraction(low)
    unit = start.denominator * width.denominator
    start_units, step_units = int(start * unit), int(width * unit)
    numbers = []
    for estimate in mechanism.estimates:
        steps, denominator = estimate.as_integer_ratio()
        units = start_units * denominator + step_units * steps
        numbers.append(units / (unit * denominator))
    return np.array(numbers)


class NumericPerturber(ReportTransformer):
    """Privatize numbers between public bounds, and estimate means or distributions.

    A number is clipped to its bounds and rounded at random to a grid. The report is an
    unbiased estimate of this number, and can be outside the bounds. The output has the
    columns of the input. :doc:`/guide/numbers` compares the mechanisms.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy loss of one record over all columns together, > 0. It is divided equally
        among the columns.

    bounds : (low, high), mapping, Domain, or array-like of shape (n_features, 2)
        Public bounds of all columns, or of each column by name. Required. A `Domain`
        declares them as the endpoints of each `Interval`.

    mechanism : {'optimal', 'square_wave'} or list, default='optimal'
        Mechanism of each column.

        - 'optimal' has the smallest error of the mean [1]_. Epsilons above 8 per column
          do not improve it.
        - 'square_wave' is required by `estimate_distribution` [2]_.

        Pass a list, the `outcomes` of an optimal mechanism, to use the same mechanism
        again.

    grid_size : int, default=1024
        Number of steps between the bounds, from 1 to 65,536.

    memoize : bool, default=False
        If True, a record repeats its report while its number stays at the same position
        of the grid (permanent reports). `transform` then requires ``person``, and
        ``mechanism="optimal"`` must be replaced by its outcomes.

    secret_key : bytes, default=None
        At least 16 bytes, such as ``SecretKey.generate()``. Required with `memoize`.

    ledger : PrivacyLedger, default=None
        Ledger that is charged with `guarantee_` at each call of `transform`.

    random_state : int, default=None
        None uses secure randomness. Pass an int for reproducible experiments only: the
        reports are then not private.

    Attributes
    ----------
    guarantee_ : PrivacyGuarantee
        Privacy guarantee of one call of `transform` for one record.

    bounds_ : ndarray of shape (n_features, 2)
        Bounds of each column.

    report_values_ : list of ndarray
        Numbers that may be reported in each column, ascending.

    mechanism_ : NumericMechanism
        Mechanism on the positions of the grid, for all columns.

    See Also
    --------
    LocalTableEncoder : Privatizes numbers and categories. Errors are smaller for many
        columns.
    RandomizedResponseEncoder : Privatizes categories, or the bins of an `Interval`.

    Notes
    -----
    **Privacy.** Local model: for each record, under replacement of its values in the
    fitted columns. `fit` checks that numbers are finite; an error reveals that a number
    is not finite. Each call of `transform` is a new release unless `memoize=True`.
    :doc:`/guide/encoders` states the limits.

    References
    ----------
    .. [1] P. Kairouz, S. Oh, P. Viswanath (2016). Extremal mechanisms for local
       differential privacy. JMLR 17.
    .. [2] Z. Li et al. (2020). Estimating numerical distributions under local
       differential privacy. SIGMOD.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp import NumericPerturber
    >>> people = pd.DataFrame({"age": [20, 30, 40, 70] * 250})
    >>> perturber = NumericPerturber(1.0, bounds={"age": (0, 100)}, random_state=0)
    >>> reports = perturber.fit_transform(people)
    >>> print(perturber.estimate_mean(reports).round(1))
            mean  std_error  lower  upper
    column
    age     40.7        3.2   34.5   46.9
    """

    bounds_: Floats
    mechanism_: NumericMechanism
    report_values_: list[Floats]

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        bounds: Bounds | None = None,
        mechanism: str | Sequence[Sequence[int]] = "optimal",
        grid_size: int = 1024,
        memoize: bool = False,
        secret_key: bytes | None = None,
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.bounds = bounds
        self.mechanism = mechanism
        self.grid_size = grid_size
        self.memoize = memoize
        self.secret_key = secret_key
        self.ledger = ledger
        self.random_state = random_state

    def _make_protocol(self, table: Table) -> ReportProtocol:
        """Build the protocol: a mechanism with an equal fraction of epsilon randomizes each column in its bounds.

        With `memoize`, the random bits of a report follow from the secret key instead
        of `random_state`, so reports are permanent and secure. `chosen` has the
        solution of the linear program of the optimal mechanism, with which a client
        recreates it.
        """
        epsilon = check_epsilon(self.epsilon)
        self._check_parameters()
        bounds = parse_bounds(self.bounds, table.names)
        column_epsilon = epsilon / len(bounds)
        mechanism = make_mechanism(self.mechanism, column_epsilon, self.grid_size)
        fields = []
        for column, (low, high) in zip(table.names, bounds, strict=True):
            # The sum with 0.0 replaces -0.0, because the context of permanent reports
            # contains the text of the bounds.
            column_bounds = float(low) + 0.0, float(high) + 0.0
            fields.append(NumberField(column, column_bounds, mechanism, column_epsilon))
        # Raises an error for text, booleans and missing values.
        to_float_columns(table, allow_bool=False)

        name = self.mechanism if isinstance(self.mechanism, str) else "optimal"
        description = f"{name.replace('_', ' ')} mechanism"
        memo = None
        if self.memoize:
            assert self.secret_key is not None
            memo = Memo(self.secret_key, type(self).__name__, fields)
            description += (
                ", memoised: epsilon per distinct position of a column on the grid"
            )
        guarantee = make_guarantee(
            [mechanism] * len(fields),
            scope=table.names,
            mechanism=description,
            secure=self.random_state is None or memo is not None,
        )
        # The parameters that recreate the mechanism without the solver.
        chosen: dict[str, Any] = {}
        if isinstance(mechanism, Optimal):
            chosen["mechanism"] = mechanism.parameters()["outcomes"]
        return ReportProtocol(
            type(self).__name__,
            tuple(fields),
            guarantee,
            memo=memo,
            chosen=chosen,
        )

    def _check_parameters(self) -> None:
        """Check the mechanism, and that permanent reports do not depend on the solver of the linear program."""
        if isinstance(self.mechanism, str) or not np.iterable(self.mechanism):
            check_choice("mechanism", self.mechanism, tuple(MECHANISMS))
        if self.memoize and self.mechanism == "optimal":
            raise ValueError(
                "memoize=True requires a mechanism that does not depend on the solver, "
                "got mechanism='optimal'. Fit once with memoize=False, and set "
                "mechanism=list(perturber.mechanism_.outcomes), or use 'square_wave'."
            )
        check_memo(self.memoize, self.secret_key)

    def _set_fitted(self, protocol: ReportProtocol) -> None:
        """Set the fitted attributes: bounds, mechanism, and the numbers that each column may report."""
        fields = cast(tuple[NumberField, ...], protocol.fields)
        self.bounds_ = np.array([field.bounds for field in fields])
        self.mechanism_ = fields[0].mechanism
        self.report_values_ = [field.numbers for field in fields]

    def _encode(self, X: TableLike) -> Any:
        """Clip the numbers of a table to their bounds, without noise. Not private."""
        table = self._read(X)
        return apply_set_output(self, self.protocol_.encode(table, self._randomness(0)))

    def _declared_domain(self) -> Domain:
        """Return the declared bounds of the columns as a domain, also before `fit`."""
        bounds: Any = self.bounds
        if hasattr(self, "protocol_"):
            bounds = self.protocol_.declared["bounds"]
        if isinstance(bounds, Domain):
            return bounds
        if not isinstance(bounds, Mapping):
            raise ValueError(
                "`bounds` must be a dict or a Domain, which name the columns, if the "
                f"table is not in memory; got {type(bounds).__name__}."
            )
        return Domain(make_intervals(bounds))

    def _declared_row(self, names: Sequence[Any]) -> pd.DataFrame:
        """Make a dataframe with one row for `fit`, if no table is in memory; the values are not used."""
        if isinstance(self.bounds, Mapping):
            names = self._declared_domain().columns
        return pd.DataFrame({name: [0.0] for name in names})

    def estimate_mean(
        self, reports: TableLike | ReportTally, *, confidence_level: float = 0.95
    ) -> pd.DataFrame:
        """Estimate the mean of each column in the population, clipped to the bounds.

        Parameters
        ----------
        reports : output of `transform`, or ReportTally
            Privatized rows, or their sums.

        confidence_level : float, default=0.95
            Coverage probability of each interval, between 0 and 1.

        Returns
        -------
        pandas.DataFrame
            Columns 'mean', 'std_error', 'lower' and 'upper', indexed by column. The mean
            of the reports is unbiased. The standard error is for the population from
            which the records are a random sample; for the records themselves, it is
            slightly too large. The interval is a normal approximation, and can exceed the
            bounds.

        Raises
        ------
        NotFittedError, TypeError, ValueError
            Before `fit`, or if the reports come from another transformer, or the
            parameter is out of range.

        See Also
        --------
        debias : Values of each record, for means with strata, clusters or weights.

        Notes
        -----
        **Privacy.** Post-processing of reports uses no budget.
        """
        _, tally = self._read_reports(reports)
        return estimate_means(self.protocol_, tally, confidence_level)

    def estimate_distribution(
        self, reports: TableLike | ReportTally, *, n_bins: int | None = None
    ) -> pd.DataFrame:
        """Estimate the proportion of each of several bins, for each column.

        The estimate uses expectation maximization with smoothing (EMS). It is biased where
        many records have one value, and has no intervals. Values exactly on an edge
        between two bins, such as whole numbers, are divided between both. Use
        `FrequencyOracleEncoder` with an `Interval` for unbiased proportions.

        Parameters
        ----------
        reports : output of `transform`, or ReportTally
            Privatized rows, or their sums, with `mechanism='square_wave'`.

        n_bins : int, default=None
            Number of bins of equal width between the bounds, at most `grid_size`. None is
            32, or `grid_size` if it is smaller.

        Returns
        -------
        pandas.DataFrame
            Columns 'left', 'right' and 'frequency', indexed by bin for one column and by
            (column, bin) for several. A bin contains its left edge, and the last bin
            both. The frequencies of a column that no record reports are nan.

        Raises
        ------
        NotFittedError, TypeError, ValueError
            Before `fit`, or if the mechanism is not the square wave, the reports come
            from another transformer, or a parameter is out of range.

        Notes
        -----
        Each record counts once. For the distribution in a population with survey weights,
        report bins with an `Interval`, see `RandomizedResponseEncoder`.

        **Privacy.** Post-processing of reports uses no budget.
        """
        _, tally = self._read_reports(reports)
        tables = {}
        for field, sums in zip(self._fields, tally.counts, strict=True):
            steps = field.mechanism.steps
            bins = min(32, steps) if n_bins is None else n_bins
            bins = check_size(bins, min_val=1, max_val=steps, name="n_bins")
            tables[field.name] = field.distribution(sums, bins)
        if len(tables) == 1:
            return next(iter(tables.values()))
        return concat_columns(tables, level="bin")

    def channel(self) -> list[list[list[Fraction]]]:
        """Return the exact probabilities of the reports, given the position on the grid.

        Returns
        -------
        list
            Table of Fractions for each column, with a row for each position from the
            lower to the upper bound, and a column for each of the `report_values_`. Use
            small grids only, because it has more than ``grid_size**2`` entries.
        """
        check_is_fitted(self)
        return [field.channel() for field in self._fields]

    @property
    def _fields(self) -> tuple[NumberField, ...]:
        return cast(tuple[NumberField, ...], self.protocol_.fields)
