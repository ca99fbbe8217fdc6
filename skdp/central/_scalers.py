"""Columns standardised by private means and variances, or scaled to a given range."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from numbers import Real
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from skdp.base import Bounds, check_choice, check_flag, level_of_the_caller, read_bounds
from skdp.central._base import (
    Columns,
    InvertibleTransformer,
    Plan,
    Unknown,
    quantile_plan,
)
from skdp.central.statistics import (
    GRID,
    Batches,
    Candidates,
    Noise,
    NoisySums,
    moments_of,
    n_numbers,
    plan_quantiles,
    read_candidates,
    read_probability,
    read_values,
    sum_columns,
    to_values,
    warn_of_objects,
)
from skdp.oracles import check_size
from skdp.pages import warn
from skdp.privacy import Mu, PrivacyLedger, Rho, Share
from skdp.randomness import ByteSource

Floats = NDArray[np.float64]

_Z_95 = float(norm.ppf(0.975))


class AffineScaler(InvertibleTransformer):
    """A transformer that subtracts a number from each column and divides by another."""

    def _shift_and_scale(self) -> tuple[Floats | None, Floats | None]:
        """Return what `transform` subtracts and what it divides by; None for 0 and 1."""
        raise NotImplementedError

    def _numbers(self) -> tuple[Floats, Floats]:
        shift, scale = self._shift_and_scale()
        if shift is None:
            shift = np.zeros(self.n_features_in_)
        if scale is None:
            scale = np.ones(self.n_features_in_)
        return shift, scale

    def _transform_columns(self, columns: Columns) -> Columns:
        scaled = []
        for column, shift, scale in zip(columns, *self._numbers(), strict=True):
            scaled.append((column - shift) / scale)
        return scaled

    def _invert_columns(self, columns: Columns) -> Columns:
        values = []
        for column, shift, scale in zip(columns, *self._numbers(), strict=True):
            values.append(column * scale + shift)
        return values


class DPStandardScaler(AffineScaler):
    """Standardise columns by means and variances that are private for the whole record.

    A value x becomes ``(x - mean) / scale``, as by scikit-learn's `StandardScaler`. The means and the variances of all
    columns come from one draw of noise of a single epsilon.

    Parameters
    ----------
    epsilon : float, Rho or Mu, default=1.0
        Privacy loss of all columns together, finite and > 0. A share of a budget in rho or mu (`skdp.privacy.Rho`,
        `skdp.privacy.Mu`) gets Gaussian noise where that is less.
    with_mean : bool, default=True
        Whether the means are subtracted.
    with_std : bool, default=True
        Whether the values are divided by the standard deviations. If not, the noise of the means is about half as
        large.
    bounds : pair of float, mapping of column name to pair, array-like of shape (n_features, 2), or Domain
        The smallest and largest value of all columns, or of each, from public knowledge. `fit` clips values
        outside; `transform` does not.
    missing : {"ignore", "error"}, default="ignore"
        ``"ignore"``, as in scikit-learn: in `fit`, a missing value adds nothing to the statistics of its column, and an
        infinite one is clipped; `transform` keeps both. ``"error"``: one of them is an error, in `fit` and in
        `transform`, which reveals that there is one. All columns then have one count, and the noise of two or more is
        less: by a quarter for five columns.
    max_rows_per_person : int, default=1
        Maximum number of rows of one person, all of which are protected: noise is proportional to it. Further rows are
        left out if `fit` is given ``groups``; without, the number is not checked.
    ledger : PrivacyLedger, optional
        Ledger that each `fit` charges, before anything is drawn.
    random_state : None or int, default=None
        None for secure random bits; an int for experiments, without a guarantee if it is known.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,)
        The noisy means, between the bounds; the middle of the bounds where the noisy number of values is not positive.
    mean_std_error_ : ndarray of shape (n_features,)
        The standard deviation of their noise.
    var_ : ndarray of shape (n_features,)
        The noisy variances: at least the standard deviation of their noise, and at most a quarter of the squared width
        of the bounds, the largest possible. None without `with_std`.
    scale_ : ndarray of shape (n_features,)
        The noisy standard deviations: the roots of `var_`; never 0. None without `with_std`.
    scale_std_error_ : ndarray of shape (n_features,)
        Their standard errors: ``scale_`` plus or minus 1.96 of them covers the standard deviation in about 95 % of
        fits, and reaches 0 for a column with one value. None without `with_std`.
    drowned_ : ndarray of bool, shape (n_features,)
        True where the standard error of the variance is at least the variance of a uniform distribution between the
        bounds: `var_` is then this variance, which is public, and `fit` warns. None without `with_std`.
    bounds_ : ndarray of shape (n_features, 2)
        The declared bounds.
    guarantee_ : PrivacyGuarantee
        The guarantee of this `fit`.
    n_features_in_, feature_names_in_ : int, ndarray of str
        The number of columns; their names, if all of them are strings.

    See Also
    --------
    DPMean : Means with intervals.
    DPSimpleImputer : Fills in missing values first.

    Notes
    -----
    **Privacy.** Central model: a curator who holds the table is trusted. Adding or removing a record changes the
    distribution of all fitted attributes by at most ``(epsilon, 0)``; replacing one by ``(2 epsilon, 0)``. **The output
    of** `transform` **is the rows themselves**, shifted and scaled: no noise is added to it, and it is as private as X.
    `fit` reads the values of all columns, and the number of rows is protected too: there is no ``n_samples_seen_``, and
    a table without rows is answered. Not covered: an error under ``missing="error"`` reveals that some value is
    missing.

    Values are placed on a grid of 2**30 steps between the bounds. One record changes the number of rows, and for each
    column the sums of the grid positions and of their squares, shifted and scaled to ``[-1, 1]``, by at most 1 each. So
    noise of density ``e**(-epsilon max|z|)`` in D = 3 d dimensions protects all of them ([1]_, [2]_); it is drawn
    exactly, and gives each the variance ``(D + 1) (D + 2) / (3 epsilon**2)``. D is 2 d without `with_std`, and 2 d + 1
    and d + 1 with ``missing="error"``.

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
    (array([38.55, 40.46]), array([38.58, 40.44]))
    >>> scaler.scale_.round(2), people.to_numpy().std(axis=0).round(2)
    (array([13.61, 12.34]), array([13.64, 12.35]))
    >>> print(scaler.guarantee_.to("replace"))
    epsilon = 1, central model, replacing one record's values of: age, hours-per-week, NOT SECURE: ...
    """

    var_: NDArray[np.float64] | None
    scale_: NDArray[np.float64] | None
    scale_std_error_: NDArray[np.float64] | None
    drowned_: NDArray[np.bool_] | None

    def __init__(
        self,
        epsilon: float | Rho | Mu = 1.0,
        *,
        with_mean: bool = True,
        with_std: bool = True,
        bounds: Bounds | None = None,
        missing: Unknown = "ignore",
        max_rows_per_person: int = 1,
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.with_mean = with_mean
        self.with_std = with_std
        self.bounds = bounds
        self.missing = missing
        self.max_rows_per_person = max_rows_per_person
        self.ledger = ledger
        self.random_state = random_state

    def _plan(self, rows: Batches, share: Share, bounds: Any) -> Plan:
        check_choice("missing", self.missing, get_args(Unknown))
        check_flag("with_mean", self.with_mean)
        check_flag("with_std", self.with_std)
        if not (self.with_mean or self.with_std):
            raise ValueError(
                "with_mean and with_std are both False: there is nothing to scale by"
            )
        shared = self.missing == "error"
        sums = sum_columns(rows, bounds, missing=not shared)
        has_squares = bool(self.with_std)
        size = n_numbers(len(rows.names), squares=has_squares, shared_count=shared)
        noise = Noise.joint(share, GRID, size)
        return Plan(sums, (noise,))

    def _release(self, plan: Plan, source: ByteSource) -> None:
        (noise,), sums = plan.noises, plan.exact
        noisy = NoisySums.draw(
            sums,
            noise,
            source,
            squares=bool(self.with_std),
            shared_count=self.missing == "error",
        )
        moments = moments_of(noisy, noise.error)
        half_widths = (sums.bounds[:, 1] - sums.bounds[:, 0]) / 2
        self.mean_ = to_values(moments.mean[0], sums.bounds)
        self.mean_std_error_ = half_widths * moments.mean_error[0]
        self.var_ = self.scale_ = self.scale_std_error_ = self.drowned_ = None
        if not self.with_std:
            return
        roots = np.sqrt(moments.variance[0])
        self.scale_ = half_widths * roots
        with np.errstate(over="ignore"):  # the square of the widest bounds is infinite
            self.var_ = self.scale_**2
        self.scale_std_error_ = half_widths * _errors_of_roots(
            roots, moments.variance_error[0]
        )
        self.drowned_ = moments.drowned[0]
        _warn_of_drowned(self.guarantee_.scope, self.drowned_)

    def _transform_columns(self, columns: Columns) -> Columns:
        if self.missing == "error":
            for name, column in zip(self.guarantee_.scope, columns, strict=True):
                if not np.isfinite(column).all():
                    raise ValueError(
                        f"column {name!r} holds a missing value, a NaN or an inf; see "
                        "missing="
                    )
        return super()._transform_columns(columns)

    def _shift_and_scale(self) -> tuple[Floats | None, Floats | None]:
        return self.mean_ if self.with_mean else None, self.scale_


def _errors_of_roots(roots: Floats, variance_errors: Floats) -> Floats:
    """Return standard errors of standard deviations, which hold near 0, too."""
    # The slope of the root, 1 / (2 root), understates the error where the variance is
    # near 0. The lower end of a 95 % interval is the root of the variance's lower end;
    # the root is concave, so the upper end is covered as well. For small errors, this
    # is the error by the slope.
    lower_ends = np.sqrt(np.maximum(roots**2 - _Z_95 * variance_errors, 0))
    errors: Floats = (roots - lower_ends) / _Z_95
    return errors


def _warn_of_drowned(names: Sequence[Any], drowned: NDArray[np.bool_]) -> None:
    """Warn of the columns with a variance below the error by noise."""
    if not drowned.any():
        return
    noisy = [name for name, is_noisy in zip(names, drowned, strict=True) if is_noisy]
    warn(
        f"the noise exceeds the variance of {noisy}: scale_ is the standard deviation "
        "of a uniform distribution between the bounds. Use more rows or a larger epsilon",
        UserWarning,
        about="guide/preprocessing#what-it-costs",
        stacklevel=level_of_the_caller(),
    )


class DPMinMaxScaler(InvertibleTransformer):
    """Scale each column to a given range, from public bounds or quantiles that are released with differential privacy.

    With bounds alone, nothing is read from the data and nothing is spent. The least and the greatest value of a column
    each belong to one person; quantiles near the ends, such as 0.001 and 0.999, stand for them.

    Parameters
    ----------
    epsilon : float, Rho or Mu, default=1.0
        Privacy loss of all columns together, finite and > 0; spent with `quantile_range` only. A share of a budget in
        rho or mu (`skdp.privacy.Rho`, `skdp.privacy.Mu`) gets the exponential mechanism.
    feature_range : tuple of two float, default=(0, 1)
        Range of the transformed values.
    bounds : pair of float, mapping of column name to pair, array-like of shape (n_features, 2), or Domain
        The smallest and largest value of all columns, or of each, from public knowledge.
    quantile_range : tuple of two float, optional
        The quantiles that replace the bounds, ascending, between 0 and 1 (not in percent), for bounds far wider than
        nearly all values. Values beyond them are scaled beyond `feature_range`, unless `clip` is set.
    candidates : "integers", int, array-like of float, or mapping of column name to one of these, optional
        The possible quantiles, as in `DPKBinsDiscretizer`.
    clip : bool, default=False
        Whether to move what `transform` would put outside of `feature_range` to its nearer end.
    max_rows_per_person : int, default=1
        Maximum number of rows of one person, all of which are protected: noise is proportional to it. Further rows are
        left out if `fit` is given ``groups``; without, the number is not checked.
    ledger : PrivacyLedger, optional
        Ledger that each `fit` charges, before anything is drawn.
    random_state : None or int, default=None
        None for secure random bits; an int for experiments, without a guarantee if it is known.

    Attributes
    ----------
    data_min_, data_max_ : ndarray of shape (n_features,)
        The bounds or the private quantiles.
    data_range_ : ndarray of shape (n_features,)
        Their difference.
    scale_, min_ : ndarray of shape (n_features,)
        `transform` returns ``X * scale_ + min_``. Quantiles that coincide are scaled as if they differed by 1.
    bounds_ : ndarray of shape (n_features, 2)
        The declared bounds.
    guarantee_ : PrivacyGuarantee
        The guarantee of this `fit`, about these numbers; epsilon is 0 for bounds alone, which use no value.
    n_features_in_, feature_names_in_ : int, ndarray of str
        The number of columns; their names, if all of them are strings.

    See Also
    --------
    sklearn.preprocessing.MinMaxScaler : It shows the least and the greatest value of the data.

    Notes
    -----
    **Privacy.** Central model: a curator who holds the table is trusted. Adding or removing a record changes the
    distribution of the quantiles by at most epsilon, ``delta = 0``; replacing one by 2 epsilon. `fit` reads the values
    of all columns, and their number is protected too: a missing value adds nothing, and a table without rows is
    answered. **The quantiles are private, the output of** `transform` **is not**: each of its rows is a function of the
    input row, without noise.

    The quantiles are released as those of `DPKBinsDiscretizer`, by two halvings.

    Examples
    --------
    >>> from skdp import DPMinMaxScaler
    >>> from skdp.datasets import load_adult
    >>> ages = load_adult().frame[["age"]]
    >>> scaler = DPMinMaxScaler(bounds=(0, 100)).fit(ages)
    >>> scaler.transform(ages.head(2))["age"].tolist(), scaler.guarantee_.epsilon
    ([0.39, 0.5], 0.0)
    >>> scaler = DPMinMaxScaler(
    ...     epsilon=1.0, bounds=(0, 100), quantile_range=(0.01, 0.99), candidates="integers", random_state=0
    ... ).fit(ages)
    >>> scaler.data_min_, scaler.data_max_
    (array([17.]), array([74.]))
    """

    def __init__(
        self,
        epsilon: float | Rho | Mu = 1.0,
        *,
        feature_range: tuple[float, float] = (0, 1),
        bounds: Bounds | None = None,
        quantile_range: tuple[float, float] | None = None,
        candidates: Candidates | None = None,
        clip: bool = False,
        max_rows_per_person: int = 1,
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.feature_range = feature_range
        self.bounds = bounds
        self.quantile_range = quantile_range
        self.candidates = candidates
        self.clip = clip
        self.max_rows_per_person = max_rows_per_person
        self.ledger = ledger
        self.random_state = random_state

    def _is_free(self, names: Sequence[Any]) -> bool:
        return self._read_quantile_range() is None

    def _plan(self, rows: Batches, share: Share, bounds: Any) -> Plan:
        self._read_feature_range()
        probabilities = self._read_quantile_range()
        check_flag("clip", self.clip)
        ends = read_bounds(bounds, rows.names)
        candidates = read_candidates(self.candidates, rows.names, ends)
        if probabilities is None:
            warn_of_objects(rows.table)
            read_values(rows.table)
            return Plan(ends, mechanism="public bounds", free=True)
        quantiles = plan_quantiles(rows, candidates, probabilities, share)
        return quantile_plan(quantiles)

    def _release(self, plan: Plan, source: ByteSource) -> None:
        low, high = self._read_feature_range()
        ends = plan.exact if plan.free else plan.exact.draw(source)
        self.data_min_, self.data_max_ = ends.T.copy()
        self.data_range_ = self.data_max_ - self.data_min_
        is_constant = self.data_range_ == 0
        self.scale_ = (high - low) / np.where(is_constant, 1.0, self.data_range_)
        self.min_ = low - self.data_min_ * self.scale_

    def _transform_columns(self, columns: Columns) -> Columns:
        scaled = []
        for column, scale, shift in zip(columns, self.scale_, self.min_, strict=True):
            scaled.append(column * scale + shift)
        if not self.clip:
            return scaled
        low, high = self._read_feature_range()
        return [np.clip(column, low, high) for column in scaled]

    def _invert_columns(self, columns: Columns) -> Columns:
        values = []
        for column, scale, shift in zip(columns, self.scale_, self.min_, strict=True):
            values.append((column - shift) / scale)
        return values

    def _read_feature_range(self) -> tuple[float, float]:
        low, high = _pair("feature_range", self.feature_range)
        for end in (low, high):
            if isinstance(end, bool | np.bool_) or not isinstance(end, Real):
                raise TypeError(
                    f"feature_range must be two numbers, got {type(end).__name__}"
                )
        low, high = float(low), float(high)
        if not (math.isfinite(high - low) and low < high):
            raise ValueError(
                f"feature_range must be finite and ascending, got {self.feature_range}"
            )
        return low, high

    def _read_quantile_range(self) -> list[Fraction] | None:
        if self.quantile_range is None:
            return None
        low, high = (
            read_probability(end, "quantile_range")
            for end in _pair("quantile_range", self.quantile_range)
        )
        if low >= high:
            raise ValueError(
                f"quantile_range must be ascending, got {self.quantile_range}"
            )
        return [low, high]


def _pair(name: str, value: Any) -> tuple[Any, Any]:
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise TypeError(
            f"{name} must be a pair (low, high), got {type(value).__name__}"
        )
    return value[0], value[1]


Distribution = Literal["uniform", "normal"]
_MAX_QUANTILES = 10_000

# As in scikit-learn: where a normal distribution is cut off, for it has no quantile of
# 0 or 1.
_EDGE = 1e-7


class DPRobustScaler(AffineScaler):
    """Scale columns by a median and a range of quantiles that are released with differential privacy.

    A value x becomes ``(x - center) / scale``, as by scikit-learn's `RobustScaler`. Few extreme values, and bounds far
    wider than nearly all values, hardly matter, unlike those of `DPStandardScaler`.

    Parameters
    ----------
    epsilon : float, Rho or Mu, default=1.0
        Privacy loss of all columns together, finite and > 0. A share of a budget in rho or mu (`skdp.privacy.Rho`,
        `skdp.privacy.Mu`) gets the exponential mechanism.
    with_centering : bool, default=True
        Whether the medians are subtracted.
    with_scaling : bool, default=True
        Whether the values are divided by the ranges of quantiles.
    quantile_range : tuple of two float, default=(25.0, 75.0)
        The quantiles between which the range is, ascending, in per cent, as in scikit-learn.
    unit_variance : bool, default=False
        Whether normally distributed values get a variance of 1.
    bounds : pair of float, mapping of column name to pair, array-like of shape (n_features, 2), or Domain
        The smallest and largest value of all columns, or of each, from public knowledge. `fit` clips values
        outside; `transform` does not.
    candidates : "integers", int, array-like of float, or mapping of column name to one of these, optional
        The possible quantiles, as in `DPKBinsDiscretizer`.
    max_rows_per_person : int, default=1
        Maximum number of rows of one person, all of which are protected: noise is proportional to it. Further rows are
        left out if `fit` is given ``groups``; without, the number is not checked.
    ledger : PrivacyLedger, optional
        Ledger that each `fit` charges, before anything is drawn.
    random_state : None or int, default=None
        None for secure random bits; an int for experiments, without a guarantee if it is known.

    Attributes
    ----------
    center_ : ndarray of shape (n_features,) or None
        The private medians, None without `with_centering`.
    scale_ : ndarray of shape (n_features,) or None
        The private ranges, None without `with_scaling`. Quantiles that coincide are scaled as if they differed by 1.
    bounds_ : ndarray of shape (n_features, 2)
        The declared bounds.
    guarantee_ : PrivacyGuarantee
        The guarantee of this `fit`, about these numbers.
    n_features_in_, feature_names_in_ : int, ndarray of str
        The number of columns; their names, if all of them are strings.

    See Also
    --------
    DPStandardScaler : Means and standard deviations, with less noise where bounds are narrow.
    sklearn.preprocessing.RobustScaler : It shows values of single records.

    Notes
    -----
    **Privacy.** Central model: a curator who holds the table is trusted. Adding or removing a record changes the
    distribution of `center_` and `scale_` by at most epsilon, ``delta = 0``; replacing one by 2 epsilon. `fit` reads
    the values of all columns, and their number is protected too: a missing value adds nothing, and a table without rows
    is answered. **The quantiles are private, the output of** `transform` **is not**: each of its rows is a function of
    the input row, without noise.

    The quantiles are released as those of `DPKBinsDiscretizer`: two or three quantiles by two halvings.

    Examples
    --------
    >>> from skdp import DPRobustScaler
    >>> from skdp.datasets import load_adult
    >>> people = load_adult().frame[["age", "hours-per-week"]]
    >>> scaler = DPRobustScaler(epsilon=1.0, bounds=(0, 100), random_state=0).fit(people)
    >>> scaler.center_, scaler.scale_.round(1)
    (array([37., 40.]), array([20.,  5.]))
    >>> scaler.transform(people.head(2))["age"].round(2).tolist()
    [0.1, 0.65]
    """

    def __init__(
        self,
        epsilon: float | Rho | Mu = 1.0,
        *,
        with_centering: bool = True,
        with_scaling: bool = True,
        quantile_range: tuple[float, float] = (25.0, 75.0),
        unit_variance: bool = False,
        bounds: Bounds | None = None,
        candidates: Candidates | None = None,
        max_rows_per_person: int = 1,
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.with_centering = with_centering
        self.with_scaling = with_scaling
        self.quantile_range = quantile_range
        self.unit_variance = unit_variance
        self.bounds = bounds
        self.candidates = candidates
        self.max_rows_per_person = max_rows_per_person
        self.ledger = ledger
        self.random_state = random_state

    def _plan(self, rows: Batches, share: Share, bounds: Any) -> Plan:
        for name in ("with_centering", "with_scaling", "unit_variance"):
            check_flag(name, getattr(self, name))
        if not (self.with_centering or self.with_scaling):
            raise ValueError(
                "with_centering and with_scaling are both False: there is nothing to "
                "scale by"
            )
        candidates = read_candidates(self.candidates, rows.names, bounds)
        quantiles = plan_quantiles(rows, candidates, self._probabilities(), share)
        return quantile_plan(quantiles)

    def _probabilities(self) -> list[Fraction]:
        """Return the probabilities of the quantiles that are needed, ascending."""
        ends = self._read_range()
        probabilities: set[Fraction] = set()
        if self.with_scaling:
            probabilities.update(ends)
        if self.with_centering:
            probabilities.add(Fraction(1, 2))
        return sorted(probabilities)

    def _release(self, plan: Plan, source: ByteSource) -> None:
        low, high = self._read_range()
        quantiles = plan.exact.draw(source).T
        of_probability = dict(zip(self._probabilities(), quantiles, strict=True))
        self.center_ = self.scale_ = None
        if self.with_centering:
            self.center_ = of_probability[Fraction(1, 2)].copy()
        if self.with_scaling:
            width = of_probability[high] - of_probability[low]
            self.scale_ = np.where(width == 0, 1.0, width)
            if self.unit_variance:
                self.scale_ /= norm.ppf(float(high)) - norm.ppf(float(low))

    def _read_range(self) -> tuple[Fraction, Fraction]:
        percentages = self.quantile_range
        if not isinstance(percentages, tuple | list) or len(percentages) != 2:
            raise TypeError(
                "quantile_range must be a pair (low, high), got"
                f" {type(percentages).__name__}"
            )
        for end in percentages:
            if isinstance(end, bool | np.bool_) or not isinstance(end, Real):
                raise TypeError(
                    f"quantile_range must be two numbers, got {type(end).__name__}"
                )
        if not 0 < percentages[0] < percentages[1] < 100:
            raise ValueError(
                "quantile_range must be ascending, above 0 and below 100 (per cent), "
                f"got {percentages}"
            )
        low, high = (
            read_probability(float(end) / 100, "quantile_range / 100")
            for end in percentages
        )
        return low, high

    def _shift_and_scale(self) -> tuple[Floats | None, Floats | None]:
        return self.center_, self.scale_


class DPQuantileTransformer(InvertibleTransformer):
    """Give columns a uniform or normal distribution, by quantiles that are released with differential privacy.

    A value becomes the share of the values that are below it, by linear interpolation between the quantiles, as by
    scikit-learn's `QuantileTransformer`; or the quantile of a normal distribution for this share.

    Parameters
    ----------
    epsilon : float, Rho or Mu, default=1.0
        Privacy loss of all columns together, finite and > 0. A share of a budget in rho or mu (`skdp.privacy.Rho`,
        `skdp.privacy.Mu`) gets the exponential mechanism.
    n_quantiles : int, default=33
        The number of quantiles of each column, the bounds among them, from 3 to 10,000. More of them are not less
        accurate.
    output_distribution : {"uniform", "normal"}, default="uniform"
        The distribution of the output.
    bounds : pair of float, mapping of column name to pair, array-like of shape (n_features, 2), or Domain
        The smallest and largest value of all columns, or of each, from public knowledge: the first and the last
        quantile. Values outside are clipped.
    candidates : "integers", int, array-like of float, or mapping of column name to one of these, optional
        The possible quantiles, as in `DPKBinsDiscretizer`.
    max_rows_per_person : int, default=1
        Maximum number of rows of one person, all of which are protected: noise is proportional to it. Further rows are
        left out if `fit` is given ``groups``; without, the number is not checked.
    ledger : PrivacyLedger, optional
        Ledger that each `fit` charges, before anything is drawn.
    random_state : None or int, default=None
        None for secure random bits; an int for experiments, without a guarantee if it is known.

    Attributes
    ----------
    quantiles_ : ndarray of shape (n_quantiles, n_features)
        The private quantiles, ascending, between the bounds.
    references_ : ndarray of shape (n_quantiles,)
        Their probabilities, from 0 to 1.
    bounds_ : ndarray of shape (n_features, 2)
        The declared bounds.
    guarantee_ : PrivacyGuarantee
        The guarantee of this `fit`, about the quantiles.
    n_features_in_, feature_names_in_ : int, ndarray of str
        The number of columns; their names, if all of them are strings.

    See Also
    --------
    DPKBinsDiscretizer : Bins between quantiles.
    sklearn.preprocessing.QuantileTransformer : Its quantiles are values of single records.

    Notes
    -----
    **Privacy.** Central model: a curator who holds the table is trusted. Adding or removing a record changes the
    distribution of `quantiles_` by at most epsilon, ``delta = 0``; replacing one by 2 epsilon. `fit` reads the values
    of all columns, and their number is protected too: a missing value adds nothing, and a table without rows is
    answered. **The quantiles are private, the output of** `transform` **is not**: each of its rows is a function of the
    input row, without noise.

    The quantiles are released as those of `DPKBinsDiscretizer`, by halving: n quantiles share the budget on about
    log2(n) levels. Fewer quantiles have less noise, and values between two quantiles are interpolated.

    A missing value stays missing.

    Examples
    --------
    >>> from skdp import DPQuantileTransformer
    >>> from skdp.datasets import load_adult
    >>> ages = load_adult().frame[["age"]]
    >>> transformer = DPQuantileTransformer(epsilon=1.0, n_quantiles=5, bounds=(0, 100), random_state=0).fit(ages)
    >>> transformer.quantiles_.ravel(), transformer.references_
    (array([  0.,  28.,  37.,  48., 100.]), array([0.  , 0.25, 0.5 , 0.75, 1.  ]))
    >>> transformer.transform(ages.head(3))["age"].round(2).tolist(), ages["age"].head(3).tolist()
    ([0.55, 0.76, 0.52], [39, 50, 38])
    """

    def __init__(
        self,
        epsilon: float | Rho | Mu = 1.0,
        *,
        n_quantiles: int = 33,
        output_distribution: Distribution = "uniform",
        bounds: Bounds | None = None,
        candidates: Candidates | None = None,
        max_rows_per_person: int = 1,
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.n_quantiles = n_quantiles
        self.output_distribution = output_distribution
        self.bounds = bounds
        self.candidates = candidates
        self.max_rows_per_person = max_rows_per_person
        self.ledger = ledger
        self.random_state = random_state

    def _plan(self, rows: Batches, share: Share, bounds: Any) -> Plan:
        n = check_size(
            self.n_quantiles, least=3, most=_MAX_QUANTILES, name="n_quantiles"
        )
        check_choice(
            "output_distribution", self.output_distribution, get_args(Distribution)
        )
        ends = read_bounds(bounds, rows.names)
        candidates = read_candidates(self.candidates, rows.names, ends)
        probabilities = [Fraction(index, n - 1) for index in range(1, n - 1)]
        quantiles = plan_quantiles(rows, candidates, probabilities, share)
        return quantile_plan(quantiles, ends)

    def _release(self, plan: Plan, source: ByteSource) -> None:
        quantiles, ends = plan.exact
        released = quantiles.draw(source).T
        self.quantiles_ = np.vstack([ends[:, 0], released, ends[:, 1]])
        self.references_ = np.linspace(0, 1, self.n_quantiles)

    def _transform_columns(self, columns: Columns) -> Columns:
        shares = list(map(self._share, columns, self.quantiles_.T))
        if self.output_distribution == "uniform":
            return shares
        least = norm.ppf(_EDGE - np.spacing(1))
        return [np.clip(norm.ppf(share), least, -least) for share in shares]

    def _share(
        self, column: NDArray[np.float64], quantiles: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        # Of quantiles that coincide, the middle one.
        up = np.interp(column, quantiles, self.references_)
        down = np.interp(-column, -quantiles[::-1], -self.references_[::-1])
        shares = 0.5 * (up - down)
        edge = _EDGE if self.output_distribution == "normal" else 0.0
        (
            shares[column <= quantiles[0] + edge],
            shares[column >= quantiles[-1] - edge],
        ) = (
            0.0,
            1.0,
        )
        return shares

    def _invert_columns(self, columns: Columns) -> Columns:
        normal = self.output_distribution == "normal"
        edge = _EDGE if normal else 0.0
        inverted = []
        for column, quantiles in zip(columns, self.quantiles_.T, strict=True):
            shares = norm.cdf(column) if normal else column
            values = np.interp(shares, self.references_, quantiles)
            values[shares <= edge], values[shares >= 1 - edge] = (
                quantiles[0],
                quantiles[-1],
            )
            inverted.append(values)
        return inverted
