"""Noise for the numeric columns of a table."""

from __future__ import annotations

from fractions import Fraction
from statistics import NormalDist
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from skdp.base import (
    CallCounter,
    as_asked,
    check_ledger,
    check_names,
    check_random_state,
    coins,
    read_bounds,
    read_input,
    read_numbers,
)
from skdp.domain import Interval
from skdp.exact import round_up
from skdp.local._estimation import check_confidence_level
from skdp.oracles._numeric import (
    SUBSTEPS,
    NumericMechanism,
    bin_positions,
    check_steps,
    expectation_maximisation,
    round_at_random,
)
from skdp.oracles._numeric_hybrid import Duchi, Hybrid
from skdp.oracles._numeric_laplace import ClampedLaplace
from skdp.oracles._numeric_window import Piecewise, SquareWave
from skdp.oracles._parameters import check_size
from skdp.privacy import PrivacyGuarantee, PrivacyLedger, check_epsilon

_MECHANISMS: dict[str, tuple[type[Any], str]] = {
    "hybrid": (Hybrid, "hybrid mechanism"),
    "duchi": (Duchi, "Duchi's mechanism"),
    "piecewise": (Piecewise, "piecewise mechanism"),
    "square_wave": (SquareWave, "square wave mechanism"),
    "laplace": (ClampedLaplace, "clamped discrete Laplace noise"),
}
_BINS = 32
_CELLS = 512
"""The smoothing of neighbours must not reach far: about so many bins are estimated, and merged in the end."""


class NumericPerturber(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Add noise to each number so that one record reveals little and the means can still be estimated.

    A number is clipped to its public bounds, rounded at random to one of `grid_size` + 1 positions, and reported by one
    of five mechanisms for the local model. The report is a number too, an unbiased estimate of the true one, and may
    well lie outside the bounds. The output has the columns and names of the input.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy loss of one record over all columns together; finite and > 0. Each column gets an equal share. Smaller
        is more private.
    mechanism : {"hybrid", "duchi", "piecewise", "square_wave", "laplace"}, default="hybrid"
        ``"hybrid"``: the piecewise mechanism or Duchi's, by a coin ([1]_); the most accurate mean. ``"duchi"``: one of
        two numbers is reported ([2]_). ``"piecewise"``: a number near the true one, or any other ([1]_).
        ``"square_wave"``: the same, made for `estimate_distribution` ([3]_). ``"laplace"``: discrete Laplace noise,
        clamped to the bounds ([4]_).
    bounds : (low, high), mapping of column name to (low, high), or array-like of shape (n_features, 2)
        Public bounds of all columns or of each, which must be given; the data are never asked. A number outside of them
        is moved to the nearer one.
    grid_size : int, default=1024
        The number of steps between the bounds, from 1 to 65,536. Finite, so that the probability of each report is
        known exactly; the rounding keeps the mean.
    ledger : PrivacyLedger, optional
        Charged with `guarantee_` at each call of `transform`, before any coin is drawn.
    random_state : int, optional
        None draws secure coins. An int gives a reproducible stream, for tests and experiments only: whoever knows it
        can undo the noise. It differs between column names and calls, and starts anew with `fit`.

    Attributes
    ----------
    guarantee_ : PrivacyGuarantee
        What a call of `transform` promises for one record, computed from the exact probabilities and rounded up.
    bounds_ : ndarray of shape (n_features, 2)
        The bounds of each column.
    report_values_ : list of ndarray
        The numbers that may be reported in each column, ascending.
    mechanism_ : NumericMechanism
        The mechanism on the positions of the grid; all columns share it.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of str
        Their names, if X had string names.

    Raises
    ------
    TypeError, ValueError
        By `fit`, for a parameter out of range or bounds that do not fit.

    See Also
    --------
    RandomizedResponseEncoder : For columns of categories; with an `Interval`, for numbers cut into bins.

    Notes
    -----
    **Privacy.** Local model: holds against whoever receives the output, for each record, under replacement of the
    record's values in the fitted columns; epsilon as stated by `guarantee_`, at most the parameter, ``delta = 0``. The
    epsilons of the columns add up. `fit` reads column names, and checks that the values are finite numbers; an error
    shows that some value is not, and nothing else of the data is kept or shown. Every call of `transform` is a new
    release, at fit and at predict time alike: m releases of a record cost m times epsilon. Other columns of the same
    person are not in the output, are not protected, and may reveal these ones. The row index passes through: reset it
    before publishing if it identifies anybody.

    For bounds -1 and 1, the variance of a report is at most

    ============  =======  =======  =======  =======
    epsilon       0.5      1        2        4
    ============  =======  =======  =======  =======
    hybrid        16.7     4.29     1.04     0.219
    duchi         16.7     4.68     1.72     1.08
    piecewise     21.2     5.22     1.23     0.241
    square_wave   21.5     5.52     1.51     0.491
    laplace       19.5     5.57     1.63     0.466
    ============  =======  =======  =======  =======

    at the default grid. Laplace noise that is not clamped would have 8 / epsilon^2; clamping, with the ends decoded to
    what lies beyond them on average, keeps the mean without bias and makes it more accurate.

    References
    ----------
    .. [1] N. Wang et al. (2019). Collecting and analyzing multidimensional data with local differential privacy. ICDE.
    .. [2] J. Duchi, M. Jordan, M. Wainwright (2018). Minimax optimal procedures for locally private estimation. JASA
       113(521).
    .. [3] Z. Li et al. (2020). Estimating numerical distributions under local differential privacy. SIGMOD.
    .. [4] A. Ghosh, T. Roughgarden, M. Sundararajan (2012). Universally utility-maximizing privacy mechanisms. SIAM J.
       Comput. 41(6).

    Examples
    --------
    With age, it is a simpler addition of noise:

    >>> from skdp import NumericPerturber
    >>> from skdp.datasets import load_adult
    >>> people = load_adult().frame[["age"]]
    >>> perturber = NumericPerturber(epsilon=1.0, mechanism="laplace", bounds={"age": (0, 100)}, random_state=0)
    >>> reports = perturber.fit_transform(people)
    >>> reports["age"].head(4).round(1).tolist()
    [-100.0, 27.5, 85.1, 200.0]
    >>> perturber.estimate_mean(reports).round(1)
            mean  std_error  lower  upper
    column
    age     37.9        0.7   36.6   39.2
    >>> round(float(people["age"].mean()), 1)
    38.6

    Who is how old is best learnt by the square wave:

    >>> perturber = NumericPerturber(2.0, mechanism="square_wave", bounds=(0, 100), random_state=0)
    >>> perturber.estimate_distribution(perturber.fit_transform(people), n_bins=5).round(3)
               left  right  frequency
    age
    [0, 20)     0.0   20.0      0.067
    [20, 40)   20.0   40.0      0.513
    [40, 60)   40.0   60.0      0.348
    [60, 80)   60.0   80.0      0.066
    [80, 100]  80.0  100.0      0.006

    A missing value is refused, and where it is not shown:

    >>> perturber.transform(people.where(people["age"] != 17))
    Traceback (most recent call last):
        ...
    ValueError: column 'age' holds a missing value, a NaN or an inf. Fill it in, or drop the record, by a public rule.
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        mechanism: str = "hybrid",
        bounds: Any = None,
        grid_size: int = 1024,
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.mechanism = mechanism
        self.bounds = bounds
        self.grid_size = grid_size
        self.ledger = ledger
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the column names and take the declared bounds.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            Only the column names are kept; the values are checked to be finite numbers.
        y : None
            Ignored.

        Returns
        -------
        self
            The fitted transformer.

        Raises
        ------
        TypeError, ValueError
            If a parameter is out of range, the bounds do not fit the columns, or X is empty, 1-D, sparse, lazy, or
            holds anything but finite numbers.
        """
        epsilon = self._check_parameters()
        table = read_input(self, X, reset=True)
        bounds = read_bounds(self.bounds, table.names)
        make, description = _MECHANISMS[self.mechanism]
        mechanism: NumericMechanism = make(self.grid_size, epsilon / len(table.names))
        values = [_values(mechanism, low, high) for low, high in bounds]
        read_numbers(table)
        # Everything is checked before the first attribute is set.
        self.bounds_ = bounds
        self.mechanism_ = mechanism
        self.report_values_ = [np.unique(column) for column in values]
        # The shares of the columns add up to epsilon, and no share is exceeded.
        achieved = round_up(len(table.names) * Fraction(mechanism.epsilon))
        self.guarantee_ = PrivacyGuarantee(
            min(achieved, round_up(epsilon)),
            scope=table.names,
            mechanism=description,
            secure=self.random_state is None,
        )
        self._values = values
        # As they were at `fit`: parameters that are set later must not change what `guarantee_` says.
        self._seed = self.random_state
        self._ledger = self.ledger
        self._calls = CallCounter()
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_calls")  # a `fit` that failed has set n_features_in_

    def _check_parameters(self) -> Fraction:
        epsilon = check_epsilon(self.epsilon)
        if not isinstance(self.mechanism, str) or self.mechanism not in _MECHANISMS:
            raise ValueError(f"mechanism must be one of {tuple(_MECHANISMS)}, got {self.mechanism!r}")
        check_steps(self.grid_size)
        check_ledger(self.ledger)
        check_random_state(self.random_state)
        return epsilon

    def transform(self, X: Any) -> Any:
        """Privatise a table: a new release with fresh coins at every call.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            True values, in the columns of `fit`.

        Returns
        -------
        same kind as X
            The privatised columns as floats, with the row index of X.

        Raises
        ------
        NotFittedError
            Before `fit`.
        TypeError, ValueError
            If X has other columns, or holds anything but finite numbers.
        BudgetExceeded
            If the ledger does not cover the release.
        """
        check_is_fitted(self)
        table = read_input(self, X, reset=False)
        check_names(self, table, self.guarantee_.scope)
        scaled = [self._scale(numbers, *ends) for numbers, ends in zip(read_numbers(table), self.bounds_, strict=True)]
        if self._ledger is not None:
            self._ledger.charge(self.guarantee_, type(self).__name__)
        call = self._calls.advance()
        names = self.guarantee_.scope
        columns = []
        for name, places, values in zip(names, scaled, self._values, strict=True):
            source = coins(self._seed, type(self).__name__, call, "report", name)
            columns.append(values[self.mechanism_.report(round_at_random(places, source), source)])
        return as_asked(self, table.rebuild(columns, names))

    def encode(self, X: Any) -> Any:
        """Clip the numbers of a table to their bounds, without noise. Not private.

        For rows that need no protection, such as those of a model's own users: `OnFitOnly` uses it.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            True values, in the columns of `fit`.

        Returns
        -------
        same kind as X
            What the reports of `transform` are on average.

        Raises
        ------
        NotFittedError
            Before `fit`.
        TypeError, ValueError
            If X has other columns, or holds anything but finite numbers.

        Notes
        -----
        **Privacy.** None: the output is the truth. Nothing is charged.
        """
        check_is_fitted(self)
        table = read_input(self, X, reset=False)
        check_names(self, table, self.guarantee_.scope)
        columns = [np.clip(numbers, *ends) for numbers, ends in zip(read_numbers(table), self.bounds_, strict=True)]
        return as_asked(self, table.rebuild(columns, self.guarantee_.scope))

    def _scale(self, numbers: NDArray[np.float64], low: float, high: float) -> NDArray[np.int64]:
        """Place numbers on the grid, in parts of a step: the last use of floats before the noise."""
        place = (np.clip(numbers, low, high) - low) / (high - low)
        return np.rint(place * (self.mechanism_.steps * SUBSTEPS)).astype(np.int64)

    def estimate_mean(self, reports: Any, *, confidence_level: float = 0.95) -> pd.DataFrame:
        """Estimate the mean of each column, of the values clipped to their bounds.

        Parameters
        ----------
        reports : same kind as what `transform` returns
            Privatised rows.
        confidence_level : float, default=0.95
            Coverage of each interval, between 0 and 1.

        Returns
        -------
        pandas.DataFrame
            ``mean, std_error, lower, upper`` for each column. The mean is that of the reports, without bias. The
            standard error is their standard deviation (at least the smallest that the mechanism has) over the root of
            their number: right for the mean of the population that the records are drawn from, and for the mean of
            these very records too large rather than too small. The interval is a normal approximation, and not cut to
            the bounds.

        Raises
        ------
        NotFittedError
            Before `fit`.
        TypeError, ValueError
            If the reports come from another transformer, or the parameter is out of range.

        Notes
        -----
        **Privacy.** Post-processing of reports: free, and repeatable.
        """
        check_is_fitted(self)
        reach = -NormalDist().inv_cdf((1 - check_confidence_level(confidence_level)) / 2)
        steps = self.mechanism_.steps
        extremes = self.mechanism_.variances([0, steps // 2])
        rows = []
        for counts, values, (low, high) in zip(
            self._count_reports(reports), self.report_values_, self.bounds_, strict=True
        ):
            n = int(counts.sum())
            mean = counts @ values / n
            least, most = np.sort(extremes) * ((high - low) / steps) ** 2
            # Reports that happen to agree, or a single one, do not say how much they vary: the mechanism does.
            variance = max(least, counts @ (values - mean) ** 2 / (n - 1)) if n > 1 else most
            std_error = np.sqrt(variance / n)
            rows.append((mean, std_error, mean - reach * std_error, mean + reach * std_error))
        index = pd.Index(self.guarantee_.scope, name="column", tupleize_cols=False)
        return pd.DataFrame(rows, columns=["mean", "std_error", "lower", "upper"], index=index)

    def estimate_distribution(self, reports: Any, *, n_bins: int | None = None, smooth: bool = True) -> pd.DataFrame:
        """Estimate how the values of each column are distributed over bins of equal width.

        The likeliest distribution on the exact channel, by expectation maximisation; with smoothing between updates as
        the square wave mechanism has it ("EMS"). That is biased where the distribution has spikes, and has no standard
        errors; to learn how sure it is, repeat it on resampled reports, which is free.

        Parameters
        ----------
        reports : same kind as what `transform` returns
            Privatised rows.
        n_bins : int, optional
            The number of bins between the bounds, at most `grid_size`; by default 32, or fewer on a smaller grid.
        smooth : bool, default=True
            Whether to smooth. Without it, the estimate follows the noise the more the more bins there are.

        Returns
        -------
        pandas.DataFrame
            ``left, right, frequency``: the edges of each bin, and the share of the values in it, indexed by bin for one
            column and by (column, bin) for several.

        Raises
        ------
        NotFittedError
            Before `fit`.
        TypeError, ValueError
            If the reports come from another transformer, a parameter is out of range, or the mechanism reports nothing
            but two numbers (Duchi's, and the hybrid one up to epsilon = 0.61), which tell the mean only.

        Notes
        -----
        **Privacy.** Post-processing of reports: free, and repeatable.
        """
        check_is_fitted(self)
        steps = self.mechanism_.steps
        bins = check_size(min(_BINS, steps) if n_bins is None else n_bins, least=1, most=steps, name="n_bins")
        if self.mechanism_.n_reports == 2 < bins + 1:
            raise ValueError(
                "two numbers are all that is reported, and they tell the mean but not the distribution; use "
                "mechanism='square_wave'"
            )
        cells = bins * max(1, min(_CELLS, steps) // bins) if smooth else bins
        channel = self.mechanism_.spread(bin_positions(steps, cells))
        parts = []
        for name, counts, values, distinct, (low, high) in zip(
            self.guarantee_.scope,
            self._count_reports(reports),
            self._values,
            self.report_values_,
            self.bounds_,
            strict=True,
        ):
            merged = _merge(channel.T, values, distinct).T
            frequencies = expectation_maximisation(merged, counts, smooth=smooth)
            interval = Interval(low, high, bins=bins)
            table = {
                "left": interval.edges[:-1],
                "right": interval.edges[1:],
                "frequency": frequencies.reshape(bins, -1).sum(axis=1),
            }
            parts.append(pd.DataFrame(table, index=pd.Index(interval.labels, name=name)))
        return parts[0] if len(parts) == 1 else pd.concat(parts, keys=self.guarantee_.scope, names=["column", "bin"])

    def _count_reports(self, reports: Any) -> list[NDArray[np.int64]]:
        """Count how often each possible number was reported, and refuse any other."""
        table = read_input(self, reports, reset=False)
        check_names(self, table, self.guarantee_.scope)
        counts = []
        for name, numbers, values in zip(table.names, read_numbers(table), self.report_values_, strict=True):
            above = np.clip(np.searchsorted(values, numbers), 1, len(values) - 1)
            nearest = above - (numbers - values[above - 1] < values[above] - numbers)
            # Reports may have been written with fewer digits.
            if (np.abs(values[nearest] - numbers) > 1e-6 * (values[-1] - values[0])).any():
                raise ValueError(f"column {name!r} holds numbers that are not reports of this transformer")
            counts.append(np.bincount(nearest, minlength=len(values)))
        return counts

    def channel(self) -> list[list[list[Fraction]]]:
        """Return the exact probabilities of the reports, given the position on the grid.

        Returns
        -------
        list
            A table for each column: a row a position, from the lower to the upper bound; a column a report, in the
            order of `report_values_`; each entry a Fraction. There are more than ``grid_size**2`` of them, so this is
            for small grids.

        Raises
        ------
        NotFittedError
            Before `fit`.
        """
        check_is_fitted(self)
        table = self.mechanism_.channel()
        merged = []
        for values, distinct in zip(self._values, self.report_values_, strict=True):
            places = np.searchsorted(distinct, values).tolist()
            rows = []
            for row in table:
                entries = [Fraction(0)] * len(distinct)
                for place, share in zip(places, row, strict=True):
                    entries[place] += share
                rows.append(entries)
            merged.append(rows)
        return merged


def _values(mechanism: NumericMechanism, low: float, high: float) -> NDArray[np.float64]:
    """Return the number that each report stands for, rounded once."""
    step = (Fraction(high) - Fraction(low)) / mechanism.steps
    try:
        return np.array([float(Fraction(low) + step * place) for place in mechanism.estimates])
    except OverflowError:
        raise ValueError("epsilon is too small, or the bounds are too far apart: the reports would overflow") from None


def _merge(
    table: NDArray[np.float64], values: NDArray[np.float64], distinct: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Add up the rows of reports that are the same number, as some are where floats have no room for more."""
    merged = np.zeros((len(distinct), table.shape[1]))
    np.add.at(merged, np.searchsorted(distinct, values), table)
    return merged
