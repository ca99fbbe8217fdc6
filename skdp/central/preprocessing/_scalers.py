"""Scalers and discretizers of columns by private means, variances and quantiles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import compress
from numbers import Real
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import QuantileTransformer

from skdp._arrays import Floats, Mask
from skdp.base import (
    NORMAL,
    Bounds,
    check_choice,
    check_flag,
    check_probability,
    parse_ends,
)
from skdp.central._base import CentralTransformer, Columns, InvertibleTransformer, Plan
from skdp.central._quantiles import QuantilePlan, plan_quantiles
from skdp.central._sums import (
    GRID,
    UNIFORM_VARIANCE,
    GroupSums,
    NoisySums,
    from_grid,
    read_values,
    sum_columns,
    warn_of_objects,
)
from skdp.central.statistics import (
    Batches,
    Noise,
    warn_user,
)
from skdp.privacy import Mu, PrivacyBudget, PrivacyLedger, Rho
from skdp.randomness import ByteSource, check_size, check_type


class AffineScaler(InvertibleTransformer):
    """Base class of transformers that subtract a number from each column and divide by another number."""

    def _shift_and_scale(self) -> tuple[Floats, Floats]:
        """Return the subtracted numbers and the divisors of all columns; both (n_columns,)."""
        raise NotImplementedError

    def _transform_columns(self, columns: Columns) -> Columns:
        """Subtract the shift of each column, and divide by its scale."""
        scaled = []
        for column, shift, scale in zip(columns, *self._shift_and_scale(), strict=True):
            scaled.append((column - shift) / scale)
        return scaled

    def _invert_columns(self, columns: Columns) -> Columns:
        """Multiply each column by its scale, and add its shift."""
        values = []
        for column, shift, scale in zip(columns, *self._shift_and_scale(), strict=True):
            values.append(column * scale + shift)
        return values

    def _find_widths(self, ranges: Floats, quantiles: QuantilePlan) -> Floats:
        """Return the widths of ranges of quantiles, (n_columns, 2); 1 in place of widths that are 0 or noise."""
        widths: Floats = np.diff(ranges, axis=1)[:, 0]
        low, high = quantiles.bounds
        # Between 0 and the other numbers of a column there may be many candidates and no
        # numbers, so narrow ranges that begin or end at 0 are probably noise.
        is_noise = (widths > 0) & (ranges == 0).any(axis=1)
        is_noise &= widths < 2.0**-16 * (high - low)
        if is_noise.any():
            warn_user(
                "The noise exceeds the range of quantiles of columns "
                f"{list(compress(self.guarantee_.scope, is_noise))}, of which most numbers may "
                "be 0; the scale is 1. Use a larger epsilon, more rows, or narrower bounds",
                "guide/preprocessing",
            )
        return np.where((widths == 0) | is_noise, 1.0, widths)


class DPStandardScaler(AffineScaler):
    """Standardize columns by means and variances that are released with differential privacy.

    A value x becomes ``(x - mean) / scale``, like scikit-learn's `StandardScaler`. The means and the variances of all
    columns come from one draw of noise of a single epsilon.

    Parameters
    ----------
    epsilon : float, Rho or Mu, default=1.0
        Privacy loss of all columns together, finite and > 0. With `skdp.privacy.Rho` or
        `skdp.privacy.Mu`, the noise is Gaussian.
    bounds : pair of float, mapping of column name to pair, array-like of shape (n_features, 2), or Domain, optional
        Bounds (low, high) of all columns or of each column, from public knowledge; None, or an end that is None, if
        there is none. Narrower limits are found with a fifth of the budget, or a third for a column with an open end,
        so wide bounds cost little. Values outside the limits are clipped.
    max_rows_per_person : int, default=1
        Maximum number of rows of one person. The guarantee covers all of them, and noise is proportional to this
        number. With ``person``, `fit` excludes further rows at random; otherwise the number is not checked.
    ledger : PrivacyLedger, optional
        Ledger that `fit` charges before it draws noise.
    random_state : None or int, default=None
        None uses secure randomness. Pass an int for reproducible experiments only: the release is then not private.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,)
        The noisy means, between the bounds; the middle of the bounds where the noisy number of values is not positive.
    mean_std_error_ : ndarray of shape (n_features,)
        The standard deviation of their noise.
    var_ : ndarray of shape (n_features,)
        The noisy variances: at least the standard deviation of their noise, and at most a quarter of the squared width
        of the bounds, the largest possible.
    scale_ : ndarray of shape (n_features,)
        The noisy standard deviations: the roots of `var_`; never 0.
    scale_std_error_ : ndarray of shape (n_features,)
        The standard errors of `scale_`. The interval of 1.96 standard errors around `scale_` covers the standard
        deviation in about 95 % of fits, even if a column has only one value.
    noise_exceeds_variance_ : ndarray of bool, shape (n_features,)
        True where the standard error of the variance is at least the variance of a uniform distribution between the
        bounds: `var_` is then this variance, which is public, and `fit` warns.
    bounds_ : ndarray of shape (n_features, 2)
        The limits that are found within the declared bounds, between which mean and deviation are measured.
    guarantee_ : PrivacyGuarantee
        Guarantee of `fit`.
    n_features_in_, feature_names_in_ : int, ndarray of str
        Number of columns, and their names if all of them are strings.

    See Also
    --------
    DPMean : Means with intervals.
    DPSimpleImputer : Fills in missing values first.

    Notes
    -----
    **Privacy.** Central model: the curator of the table is trusted. For a float epsilon, adding or removing a record
    changes the distribution of all fitted attributes by at most ``(epsilon, 0)``; replacing one by ``(2 epsilon, 0)``.
    **The output of** `transform` **is the rows themselves**, shifted and scaled: no noise is added to it, and it is as
    private as X. `fit` reads the values of all columns, and the number of rows is protected too: there is no
    ``n_samples_seen_``, and an empty table is allowed.

    Values are placed on a grid of 2**30 steps between the bounds. One record changes the number of rows, and for each
    column the sums of the grid positions and of their squares, shifted and scaled to ``[-1, 1]``, by at most 1 each.
    For a float epsilon, the noise of all D = 3 d numbers has the density ``e**(-epsilon max|z|)`` ([1]_, [2]_). It is
    drawn exactly, and its variance is ``(D + 1) (D + 2) / (3 epsilon**2)`` for each number.

    References
    ----------
    .. [1] M. Hardt, K. Talwar (2010). On the geometry of differential privacy. STOC.
    .. [2] T. Steinke, J. Ullman (2016). Between pure and approximate differential privacy. Journal of Privacy and
       Confidentiality 7(2).

    Examples
    --------
    >>> from skdp import DPStandardScaler
    >>> from skdp.datasets import load_adult
    >>> people = load_adult().frame[["age", "hours-per-week"]]
    >>> bounds = {"age": (0, 100), "hours-per-week": (0, 100)}
    >>> scaler = DPStandardScaler(epsilon=0.5, bounds=bounds, random_state=0).fit(people)
    >>> scaler.mean_.round(2), people.to_numpy().mean(axis=0).round(2)
    (array([38.59, 40.47]), array([38.58, 40.44]))
    >>> scaler.scale_.round(2), people.to_numpy().std(axis=0).round(2)
    (array([13.69, 12.37]), array([13.64, 12.35]))
    >>> print(scaler.guarantee_.to("replace"))
    epsilon = 1, central model, replacing one record's values of: age, hours-per-week, NOT SECURE: ...
    """

    _finds_limits = True
    _finds_limits_within = True

    def __init__(
        self,
        epsilon: float | Rho | Mu = 1.0,
        *,
        bounds: Bounds | None = None,
        max_rows_per_person: int = 1,
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.bounds = bounds
        self.max_rows_per_person = max_rows_per_person
        self.ledger = ledger
        self.random_state = random_state

    def _plan(
        self, rows: Batches, budget: PrivacyBudget, bounds: Floats
    ) -> Plan[GroupSums]:
        sums = sum_columns(rows, bounds)
        noise = Noise.joint(budget, GRID, 3 * len(rows.names))
        return Plan(sums, budget, (noise,))

    def _release(self, plan: Plan[GroupSums], source: ByteSource) -> None:
        """Add noise to the sums of all columns, and set their means, standard deviations and standard errors."""
        (noise,), sums, bounds = plan.noises, plan.exact, plan.exact.bounds
        noisy = NoisySums.draw(sums.numbers(squares=True), bounds, noise, source)
        mean, mean_error, variance, variance_error = noisy.estimate_moments()
        half_widths = (bounds[:, 1] - bounds[:, 0]) / 2
        self.mean_ = from_grid(mean[0], bounds)
        self.mean_std_error_ = half_widths * mean_error[0]
        roots = np.sqrt(variance[0])
        self.scale_ = half_widths * roots
        with np.errstate(over="ignore"):  # the square of the widest bounds is infinite
            self.var_ = self.scale_**2
        self.scale_std_error_ = half_widths * _errors_of_roots(roots, variance_error[0])
        self.noise_exceeds_variance_ = variance_error[0] >= UNIFORM_VARIANCE
        _warn_of_noisy_variances(self.guarantee_.scope, self.noise_exceeds_variance_)

    def _shift_and_scale(self) -> tuple[Floats, Floats]:
        return self.mean_, self.scale_


def _errors_of_roots(roots: Floats, variance_errors: Floats) -> Floats:
    """Return the standard errors of standard deviations, given the standard errors of variances."""
    # The delta method, error / (2 root), is too small for variances near 0. Here, the lower
    # bound of a 95 % interval is the root of the lower bound of the variance. The root is
    # concave, so the upper bound of the symmetric interval covers, too. For small errors,
    # both are equal.
    z = NORMAL.quantile(0.95)
    lower_ends = np.sqrt(np.maximum(roots**2 - z * variance_errors, 0))
    return (roots - lower_ends) / z


def _warn_of_noisy_variances(names: Sequence[Any], is_noise: Mask) -> None:
    """Warn of columns whose noisy variance does not exceed its noise."""
    if not is_noise.any():
        return
    warn_user(
        f"The noise exceeds the variance of {list(compress(names, is_noise))}, so `scale_` is the standard "
        "deviation of a uniform distribution between the bounds. Use more rows or a larger epsilon",
        "guide/preprocessing#accuracy",
    )


class DPMinMaxScaler(AffineScaler):
    """Scale each column to a given range, from public bounds or quantiles that are released with differential privacy.

    If `quantile_range` is None, the range is the public bounds, and no budget is used. The smallest and the largest
    value of a column are values of individual people, so quantiles such as 0.1 % and 99.9 % replace them.

    Parameters
    ----------
    epsilon : float, Rho or Mu, default=1.0
        Privacy loss of all columns together, finite and > 0; spent with
        `quantile_range` only. With `skdp.privacy.Rho` or `skdp.privacy.Mu`, quantiles
        are selected by the exponential mechanism.
    bounds : pair of float, mapping of column name to pair, array-like of shape (n_features, 2), or Domain, optional
        Bounds (low, high) of all columns or of each column, from public knowledge. With `quantile_range`, None, or an
        end that is None, if there is none: narrower limits are found with a fifth of the budget, or a third for a
        column with an open end, and the quantiles are chosen between them, so wide bounds cost little.
    feature_range : tuple of two float, default=(0, 1)
        Range of the transformed values.
    quantile_range : tuple of two float, optional
        The quantiles that replace the bounds, ascending, in percent, such as (1.0, 99.0), for open ends, and for bounds
        far wider than nearly all values. Values beyond them are scaled beyond `feature_range`, unless `clip` is set.
    clip : bool, default=False
        If True, `transform` clips values to `feature_range`.
    max_rows_per_person : int, default=1
        Maximum number of rows of one person. The guarantee covers all of them, and noise is proportional to this
        number. With ``person``, `fit` excludes further rows at random; otherwise the number is not checked.
    ledger : PrivacyLedger, optional
        Ledger that `fit` charges before it draws noise.
    random_state : None or int, default=None
        None uses secure randomness. Pass an int for reproducible experiments only: the release is then not private.

    Attributes
    ----------
    data_min_, data_max_ : ndarray of shape (n_features,)
        The bounds or the private quantiles.
    data_range_ : ndarray of shape (n_features,)
        Their difference.
    scale_, min_ : ndarray of shape (n_features,)
        `transform` returns ``X * scale_ + min_``. Quantiles that coincide are scaled as if they differed by 1.
    bounds_ : ndarray of shape (n_features, 2)
        The declared bounds; with `quantile_range`, the limits that are found within them.
    guarantee_ : PrivacyGuarantee
        Guarantee of `fit`, for these numbers; epsilon is 0 for bounds alone, which use no value.
    n_features_in_, feature_names_in_ : int, ndarray of str
        Number of columns, and their names if all of them are strings.

    See Also
    --------
    sklearn.preprocessing.MinMaxScaler : Reveals the minimum and the maximum of the data.

    Notes
    -----
    **Privacy.** Central model: the curator of the table is trusted. Adding or removing a record changes the
    distribution of the quantiles by at most epsilon, ``delta = 0``; replacing one by 2 epsilon. The number of
    values in each column is protected, too: missing values are excluded, and an empty table is allowed.
    **The quantiles are private, the output of** `transform` **is not**: each of its rows is a function of the input
    row, without noise.

    The quantiles are released as in `DPKBinsDiscretizer`, on two levels, between limits that are found with a part of
    the budget.

    Examples
    --------
    >>> from skdp import DPMinMaxScaler
    >>> from skdp.datasets import load_adult
    >>> ages = load_adult().frame[["age"]]
    >>> scaler = DPMinMaxScaler(bounds=(0, 100)).fit(ages)
    >>> scaler.transform(ages.head(2))["age"].tolist(), scaler.guarantee_.epsilon
    ([0.39, 0.5], 0.0)
    >>> scaler = DPMinMaxScaler(epsilon=1.0, quantile_range=(1.0, 99.0), random_state=0).fit(ages)
    >>> scaler.data_min_.round(1), scaler.data_max_.round(1)
    (array([17.8]), array([73.5]))
    """

    _finds_limits = True
    _finds_limits_within = True

    def __init__(
        self,
        epsilon: float | Rho | Mu = 1.0,
        *,
        bounds: Bounds | None = None,
        feature_range: tuple[float, float] = (0, 1),
        quantile_range: tuple[float, float] | None = None,
        clip: bool = False,
        max_rows_per_person: int = 1,
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.bounds = bounds
        self.feature_range = feature_range
        self.quantile_range = quantile_range
        self.clip = clip
        self.max_rows_per_person = max_rows_per_person
        self.ledger = ledger
        self.random_state = random_state

    def _is_free(self, names: Sequence[Any]) -> bool:
        return self.quantile_range is None

    def _declared_bounds(self, names: Sequence[Any]) -> Any:
        """Return the declared bounds, whose ends may be open if quantiles replace them."""
        bounds = super()._declared_bounds(names)
        if self.quantile_range is None:
            is_open = np.array(np.isinf(parse_ends(bounds, names)).any(axis=1))
            if is_open.any():
                raise ValueError(
                    "`bounds` must have both ends of each column without `quantile_range`, "
                    f"got an open end of {list(compress(names, is_open))}. Set "
                    "quantile_range=(1.0, 99.0), or declare the ends."
                )
        return bounds

    def _plan(
        self, rows: Batches, budget: PrivacyBudget, bounds: Floats
    ) -> Plan[QuantilePlan | None]:
        """Plan noisy quantiles as the range of each column; without `quantile_range`, public bounds."""
        self._read_feature_range()
        check_flag("clip", self.clip)
        if self.quantile_range is None:
            warn_of_objects(rows.table)
            read_values(rows.table)
            return Plan(None, budget, mechanism="public bounds", free=True)
        probabilities = _read_quantile_range(self.quantile_range)
        return Plan.from_quantiles(plan_quantiles(rows, bounds, probabilities, budget))

    def _release(self, plan: Plan[QuantilePlan | None], source: ByteSource) -> None:
        """Draw noisy quantiles of columns, or take the bounds, and set the scale that maps them to `feature_range`."""
        low, high = self._read_feature_range()
        quantiles = plan.exact
        ranges = quantiles.draw_columns(source) if quantiles else self.bounds_
        self.data_min_, self.data_max_ = ranges.T.copy()
        self.data_range_ = self.data_max_ - self.data_min_
        widths = self._find_widths(ranges, quantiles) if quantiles else self.data_range_
        self.scale_ = (high - low) / widths
        self.min_ = low - self.data_min_ * self.scale_

    def _shift_and_scale(self) -> tuple[Floats, Floats]:
        return -self.min_ / self.scale_, 1 / self.scale_

    def _transform_columns(self, columns: Columns) -> Columns:
        """Scale each column to `feature_range`, and clip it to this range if `clip` is True."""
        scaled = super()._transform_columns(columns)
        if not self.clip:
            return scaled
        low, high = self._read_feature_range()
        return [np.clip(column, low, high) for column in scaled]

    def _read_feature_range(self) -> tuple[float, float]:
        """Check the parameter `feature_range`, and return it as floats."""
        low, high = _read_pair("feature_range", self.feature_range)
        if not (math.isfinite(high - low) and low < high):
            raise ValueError(
                "`feature_range` must be finite and ascending, got "
                f"{self.feature_range}."
            )
        return low, high


def _read_pair(name: str, value: object) -> tuple[float, float]:
    """Check that a parameter is a pair of numbers, and return them as floats."""
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise TypeError(
            f"`{name}` must be a pair (low, high), got {type(value).__name__}."
        )
    for number in value:
        check_type(name, number, Real, "two numbers", excluded=bool)
    return float(value[0]), float(value[1])


def _read_quantile_range(value: object) -> list[Fraction]:
    """Check two quantiles in percent, and convert them to probabilities."""
    low, high = _read_pair("quantile_range", value)
    # Two numbers of at most 1 are probably fractions instead of percentages.
    if not 0 < low < high < 100 or high <= 1:
        raise ValueError(
            "`quantile_range` must be ascending percentages in (0, 100), got "
            f"{value}. Use (25.0, 75.0) for the quartiles."
        )
    return [
        check_probability(number / 100, "quantile_range / 100")
        for number in (low, high)
    ]


class DPRobustScaler(AffineScaler):
    """Scale columns by a median and a range of quantiles that are released with differential privacy.

    A value x becomes ``(x - center) / scale``, like scikit-learn's `RobustScaler`.
    Unlike `DPStandardScaler`, it is robust to a few extreme values and to bounds far
    wider than nearly all values.

    Parameters
    ----------
    epsilon : float, Rho or Mu, default=1.0
        Privacy loss of all columns together, finite and > 0. With `skdp.privacy.Rho` or
        `skdp.privacy.Mu`, quantiles are selected by the exponential mechanism.
    bounds : pair of float, mapping of column name to pair, array-like of shape (n_features, 2), or Domain, optional
        Bounds (low, high) of all columns or of each column, from public knowledge; None, or an end that is None, if
        there is none: limits are then found with a third of the budget. `fit` clips values outside; `transform` does
        not.
    quantile_range : tuple of two float, default=(25.0, 75.0)
        The quantiles that bound the range, ascending, in percent, as in scikit-learn.
    max_rows_per_person : int, default=1
        Maximum number of rows of one person. The guarantee covers all of them, and noise is proportional to this
        number. With ``person``, `fit` excludes further rows at random; otherwise the number is not checked.
    ledger : PrivacyLedger, optional
        Ledger that `fit` charges before it draws noise.
    random_state : None or int, default=None
        None uses secure randomness. Pass an int for reproducible experiments only: the release is then not private.

    Attributes
    ----------
    center_ : ndarray of shape (n_features,)
        The private medians.
    scale_ : ndarray of shape (n_features,)
        The private ranges. Quantiles that coincide are scaled as if they differed by 1, and so is a range from 0 that
        is less than 1 / 65,536 of the bounds, with a warning, because most numbers may be 0.
    bounds_ : ndarray of shape (n_features, 2)
        The declared bounds, with limits that are found for open ends.
    guarantee_ : PrivacyGuarantee
        Guarantee of `fit`, for these numbers.
    n_features_in_, feature_names_in_ : int, ndarray of str
        Number of columns, and their names if all of them are strings.

    See Also
    --------
    DPStandardScaler : Means and standard deviations, with less noise where bounds are narrow.
    sklearn.preprocessing.RobustScaler : Reveals values of single records.

    Notes
    -----
    **Privacy.** Central model: the curator of the table is trusted. Adding or removing a record changes the
    distribution of `center_` and `scale_` by at most epsilon, ``delta = 0``; replacing one by 2 epsilon. The number
    of values in each column is protected, too: missing values are excluded, and an empty table is allowed. **The
    quantiles are private, the output of** `transform` **is not**: each of its rows is a function of the input row,
    without noise.

    The quantiles are released as in `DPKBinsDiscretizer`, on two levels, and limits for open ends with a part of the
    budget.

    Examples
    --------
    >>> from skdp import DPRobustScaler
    >>> from skdp.datasets import load_adult
    >>> people = load_adult().frame[["age", "hours-per-week"]]
    >>> scaler = DPRobustScaler(epsilon=1.0, bounds=(0, 100), random_state=0).fit(people)
    >>> scaler.center_, scaler.scale_.round(1)
    (array([37., 40.]), array([19.2,  5. ]))
    >>> scaler.transform(people.head(2))["age"].round(2).tolist()
    [0.1, 0.68]
    """

    _finds_limits = True

    def __init__(
        self,
        epsilon: float | Rho | Mu = 1.0,
        *,
        bounds: Bounds | None = None,
        quantile_range: tuple[float, float] = (25.0, 75.0),
        max_rows_per_person: int = 1,
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.bounds = bounds
        self.quantile_range = quantile_range
        self.max_rows_per_person = max_rows_per_person
        self.ledger = ledger
        self.random_state = random_state

    def _plan(
        self, rows: Batches, budget: PrivacyBudget, bounds: Floats
    ) -> Plan[QuantilePlan]:
        """Count the values between the bounds, and plan noisy choices of the median and both ends of the range."""
        low, high = _read_quantile_range(self.quantile_range)
        # The median may be one of the bounds of the range.
        probabilities = sorted({low, Fraction(1, 2), high})
        quantiles = plan_quantiles(rows, bounds, probabilities, budget)
        return Plan.from_quantiles(quantiles)

    def _release(self, plan: Plan[QuantilePlan], source: ByteSource) -> None:
        """Draw noisy quantiles of each column, and set its center (the median) and its scale (the width of the range).

        `plan.exact` draws an array of shape (n_columns, n_quantiles) by the exponential mechanism with the whole
        budget. A width of 0 would be an impossible divisor, so the scale is then 1.
        """
        low, high = _read_quantile_range(self.quantile_range)
        drawn = plan.exact.draw_columns(source).T
        quantiles = dict(zip(plan.exact.probabilities, drawn, strict=True))
        self.center_ = quantiles[Fraction(1, 2)].copy()
        ranges = np.column_stack([quantiles[low], quantiles[high]])
        self.scale_ = self._find_widths(ranges, plan.exact)

    def _shift_and_scale(self) -> tuple[Floats, Floats]:
        return self.center_, self.scale_


Distribution = Literal["uniform", "normal"]

MAX_QUANTILES = 10_000


class DPQuantileTransformer(InvertibleTransformer):
    """Map columns to a uniform or normal distribution, using quantiles released with differential privacy.

    A value becomes the proportion of the values below it, by linear interpolation
    between the quantiles, as in scikit-learn's `QuantileTransformer`; or the quantile
    of a normal distribution for this proportion.

    Parameters
    ----------
    epsilon : float, Rho or Mu, default=1.0
        Privacy loss of all columns together, finite and > 0. With `skdp.privacy.Rho` or
        `skdp.privacy.Mu`, quantiles are selected by the exponential mechanism.
    bounds : pair of float, mapping of column name to pair, array-like of shape (n_features, 2), or Domain, optional
        Bounds (low, high) of all columns or of each column, from public knowledge: the first and the last quantile.
        None, or an end that is None, if there is none: limits are then found with a third of the budget. Values
        outside are clipped.
    n_quantiles : int, default=33
        The number of quantiles of each column, including the bounds, from 3 to 10,000.
        A larger number is not less accurate.
    output_distribution : {"uniform", "normal"}, default="uniform"
        The distribution of the output.
    max_rows_per_person : int, default=1
        Maximum number of rows of one person. The guarantee covers all of them, and noise is proportional to this
        number. With ``person``, `fit` excludes further rows at random; otherwise the number is not checked.
    ledger : PrivacyLedger, optional
        Ledger that `fit` charges before it draws noise.
    random_state : None or int, default=None
        None uses secure randomness. Pass an int for reproducible experiments only: the release is then not private.

    Attributes
    ----------
    quantiles_ : ndarray of shape (n_quantiles, n_features)
        The private quantiles, ascending, between the bounds.
    references_ : ndarray of shape (n_quantiles,)
        Their probabilities, from 0 to 1.
    bounds_ : ndarray of shape (n_features, 2)
        The declared bounds, with limits that are found for open ends.
    guarantee_ : PrivacyGuarantee
        Guarantee of `fit`, for the quantiles.
    n_features_in_, feature_names_in_ : int, ndarray of str
        Number of columns, and their names if all of them are strings.

    See Also
    --------
    DPKBinsDiscretizer : Bins between quantiles.
    sklearn.preprocessing.QuantileTransformer : Its quantiles are values of single records.

    Notes
    -----
    **Privacy.** Central model: the curator of the table is trusted. Adding or removing a record changes the
    distribution of `quantiles_` by at most epsilon, ``delta = 0``; replacing one by 2 epsilon. The number of
    values in each column is protected, too: missing values are excluded, and an empty table is allowed.
    **The quantiles are private, the output of** `transform` **is not**: each of its rows is a function of the input
    row, without noise.

    The quantiles are released as in `DPKBinsDiscretizer`: n quantiles share the budget on about log2(n)
    levels. Fewer quantiles have less noise, and values between two quantiles are interpolated. Limits for open ends
    are found with a part of the budget.

    A missing value stays missing.

    Examples
    --------
    >>> from skdp import DPQuantileTransformer
    >>> from skdp.datasets import load_adult
    >>> ages = load_adult().frame[["age"]]
    >>> transformer = DPQuantileTransformer(epsilon=1.0, n_quantiles=5, bounds=(0, 100), random_state=0).fit(ages)
    >>> transformer.quantiles_.ravel().round(1), transformer.references_
    (array([  0. ,  28. ,  37. ,  47.2, 100. ]), array([0.  , 0.25, 0.5 , 0.75, 1.  ]))
    >>> transformer.transform(ages.head(3))["age"].round(2).tolist(), ages["age"].head(3).tolist()
    ([0.55, 0.76, 0.52], [39, 50, 38])
    """

    _finds_limits = True

    def __init__(
        self,
        epsilon: float | Rho | Mu = 1.0,
        *,
        bounds: Bounds | None = None,
        n_quantiles: int = 33,
        output_distribution: Distribution = "uniform",
        max_rows_per_person: int = 1,
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.bounds = bounds
        self.n_quantiles = n_quantiles
        self.output_distribution = output_distribution
        self.max_rows_per_person = max_rows_per_person
        self.ledger = ledger
        self.random_state = random_state

    def _plan(
        self, rows: Batches, budget: PrivacyBudget, bounds: Floats
    ) -> Plan[QuantilePlan]:
        """Plan the quantiles between the bounds, with equal steps of probability; the bounds are the other two."""
        n = check_size(
            self.n_quantiles, min_val=3, max_val=MAX_QUANTILES, name="n_quantiles"
        )
        check_choice(
            "output_distribution", self.output_distribution, get_args(Distribution)
        )
        probabilities = [Fraction(index, n - 1) for index in range(1, n - 1)]
        quantiles = plan_quantiles(rows, bounds, probabilities, budget)
        return Plan.from_quantiles(quantiles)

    def _release(self, plan: Plan[QuantilePlan], source: ByteSource) -> None:
        self.quantiles_ = plan.exact.draw_with_bounds(source).T
        self.references_ = np.linspace(0, 1, self.n_quantiles)

    def _transform_columns(self, columns: Columns) -> Columns:
        values = np.clip(np.stack(columns, axis=1), *self.bounds_.T)
        return list(self._transformer.transform(values).T) if values.size else columns

    def _invert_columns(self, columns: Columns) -> Columns:
        """Return the values whose ranks, or normal scores of ranks, are the given columns."""
        ranks = np.stack(columns, axis=1)
        if not ranks.size:
            return columns
        return list(self._transformer.inverse_transform(ranks).T)

    @property
    def _transformer(self) -> QuantileTransformer:
        """A transformer of scikit-learn with the private quantiles."""
        transformer = QuantileTransformer(output_distribution=self.output_distribution)
        # Arrays, whatever the global output configuration of scikit-learn is.
        transformer.set_output(transform="default")
        transformer.quantiles_ = self.quantiles_
        transformer.references_ = self.references_
        transformer.n_features_in_ = self.quantiles_.shape[1]
        return transformer


class DPKBinsDiscretizer(CentralTransformer):
    """Replace each number by its bin between quantiles that are released with differential privacy.

    The output is the number of the bin, from 0. Bins of equal width use no budget: declare an `Interval`.

    Parameters
    ----------
    epsilon : float, Rho or Mu, default=1.0
        Privacy loss of all columns together, finite and > 0. With `skdp.privacy.Rho` or
        `skdp.privacy.Mu`, quantiles are selected by the exponential mechanism.
    bounds : pair of float, mapping of column name to pair, array-like of shape (n_features, 2), or Domain, optional
        Bounds (low, high) of all columns or of each column, from public knowledge: the outer edges. None, or an end
        that is None, if there is none: limits are then found with a third of the budget. Values outside belong to the
        outer bins.
    n_bins : int, default=5
        The number of bins of each column, from 2 to 10,000.
    max_rows_per_person : int, default=1
        Maximum number of rows of one person. The guarantee covers all of them, and noise is proportional to this
        number. With ``person``, `fit` excludes further rows at random; otherwise the number is not checked.
    ledger : PrivacyLedger, optional
        Ledger that `fit` charges before it draws noise.
    random_state : None or int, default=None
        None uses secure randomness. Pass an int for reproducible experiments only: the release is then not private.

    Attributes
    ----------
    bin_edges_ : list of ndarray of float
        The edges of each column, ascending, including the bounds. A bin includes its left edge, and the last bin also
        its right edge. Quantiles that coincide are one edge, and `fit` warns.
    n_bins_ : ndarray of int, shape (n_features,)
        The resulting number of bins.
    bounds_ : ndarray of shape (n_features, 2)
        The declared bounds, with limits that are found for open ends.
    guarantee_ : PrivacyGuarantee
        Guarantee of `fit`, for the edges.
    n_features_in_, feature_names_in_ : int, ndarray of str
        Number of columns, and their names if all of them are strings.

    See Also
    --------
    sklearn.preprocessing.KBinsDiscretizer : Reveals values of single records.

    Notes
    -----
    **Privacy.** Central model: the curator of the table is trusted. Adding or removing a record changes the
    distribution of `bin_edges_` by at most epsilon, ``delta = 0``; replacing one by 2 epsilon. The number of
    values in each column is protected, too: missing values are excluded, and an empty table is allowed.
    **The edges are private, the output of** `transform` **is not**: each of its rows is a function of the input row,
    without noise. Its dtype is not private, either: bins are integers, or floats if a value is missing. If values may
    be missing, declare None in a local transformer that follows, so that the dtype of its reports does not depend on
    them.

    The middle edge is chosen by the exponential mechanism, and the other edges in the same way on both sides of it
    ([1]_), with epsilon / (d l) on each of l levels for d columns. Two bins have one level, and four, eight and sixteen
    bins have two, three and four. The candidates are all numbers between the bounds in steps of a power of ten, about
    as many as floats represent, so that the error does not depend on the width of the bounds. Limits for open ends are
    found first, with a part of the budget.

    A missing value stays missing (nan).

    References
    ----------
    .. [1] H. Kaplan, S. Schnapp, U. Stemmer (2022). Differentially private approximate quantiles. ICML.

    Examples
    --------
    >>> from skdp import DPKBinsDiscretizer
    >>> from skdp.datasets import load_adult
    >>> ages = load_adult().frame[["age"]]
    >>> bins = DPKBinsDiscretizer(epsilon=1.0, n_bins=4, bounds=(0, 100), random_state=0).fit(ages)
    >>> bins.bin_edges_[0].round(1)
    array([  0.,  28.,  37.,  48., 100.])
    >>> bins.transform(ages.head(4))["age"].tolist(), ages["age"].head(4).tolist()
    ([2, 3, 2, 3], [39, 50, 38, 53])
    """

    _preserves_dtype = False
    _finds_limits = True

    def __init__(
        self,
        epsilon: float | Rho | Mu = 1.0,
        *,
        bounds: Bounds | None = None,
        n_bins: int = 5,
        max_rows_per_person: int = 1,
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.bounds = bounds
        self.n_bins = n_bins
        self.max_rows_per_person = max_rows_per_person
        self.ledger = ledger
        self.random_state = random_state

    def _plan(
        self, rows: Batches, budget: PrivacyBudget, bounds: Floats
    ) -> Plan[QuantilePlan]:
        """Count the values between the bounds, and plan noisy choices of quantiles that separate bins of equal size."""
        n_bins = check_size(self.n_bins, max_val=MAX_QUANTILES, name="n_bins")
        probabilities = [Fraction(index, n_bins) for index in range(1, n_bins)]
        quantiles = plan_quantiles(rows, bounds, probabilities, budget)
        return Plan.from_quantiles(quantiles)

    def _release(self, plan: Plan[QuantilePlan], source: ByteSource) -> None:
        """Draw the edges of the bins of each column as noisy quantiles between its bounds, and merge equal edges."""
        edges = plan.exact.draw_with_bounds(source)
        self.bin_edges_ = list(map(np.unique, edges))
        self.n_bins_ = np.array([column.size - 1 for column in self.bin_edges_])
        has_merged = self.n_bins_ < self.n_bins
        if has_merged.any():
            names = list(compress(self.guarantee_.scope, has_merged))
            warn_user(
                f"Columns {names} have fewer bins than n_bins={self.n_bins}, because "
                "edges coincide. Decrease `n_bins`",
                "guide/preprocessing",
            )

    def _transform_columns(self, columns: Columns) -> Columns:
        """Replace each value by the index of its bin; missing values stay NaN."""
        binned: Columns = []
        for column, edges in zip(columns, self.bin_edges_, strict=True):
            bins: NDArray[Any] = np.searchsorted(edges[1:-1], column, side="right")
            is_missing = np.isnan(column)
            # Without missing values, bins keep their integer dtype.
            if is_missing.any():
                bins = np.where(is_missing, np.nan, bins)
            binned.append(bins)
        return binned
