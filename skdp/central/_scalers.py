"""Columns standardised by private means and variances, or scaled to a given range."""

from __future__ import annotations

import math
import warnings
from fractions import Fraction
from numbers import Real
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from skdp.base import Bounds, check_choice, check_flag, level_of_the_caller, read_bounds
from skdp.central._base import Columns, InvertibleTransformer, Plan, Unknown
from skdp.central.statistics import (
    GRID,
    NOWHERE,
    UNIFORM_VARIANCE,
    Candidates,
    Noise,
    losses_of,
    n_numbers,
    noisy_moments,
    plan_quantiles,
    read_candidates,
    read_probability,
    read_values,
    sum_columns,
    warn_of_objects,
)
from skdp.privacy import Mu, PrivacyLedger, Rho, Share
from skdp.randomness import ByteSource
from skdp.tables import LargeTable, Table


class DPStandardScaler(InvertibleTransformer):
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
    bounds : pair of float, mapping of column name to pair, array-like of shape (n_features, 2), or "private"
        The lowest and the highest value of all columns, or of each, from what is publicly known. `fit` clips values
        outside; `transform` does not.
        ``"private"``, for all columns or in place of a pair, finds bounds that hold nearly all values, as in `DPMean`.
    bounds_share : float, default=0.2
        The share of epsilon that finds bounds, if some are private.
    missing : {"ignore", "error"}, default="ignore"
        ``"ignore"``, as in scikit-learn: in `fit`, a missing value adds nothing to the statistics of its column, and an
        infinite one is clipped; `transform` keeps both. ``"error"``: one of them is an error, in `fit` and in
        `transform`, which reveals that there is one. All columns then have one count, and the noise of two or more is
        less: by a quarter for five columns.
    max_rows_per_person : int, default=1
        The most rows of one person, all of which the guarantee is for: noise is in proportion to it. Further rows are
        left out if `fit` is given ``groups``; without, the number is taken on trust.
    ledger : PrivacyLedger, optional
        What each `fit` is charged to, before anything is drawn.
    random_state : None or int, default=None
        None for secure random bits; an int for experiments, without a guarantee against those who know it.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,)
        The noisy means, between the bounds; their middle where the noise hides whether there is any value.
    mean_std_error_ : ndarray of shape (n_features,)
        The standard deviation of their noise; infinite where private bounds are not found.
    var_ : ndarray of shape (n_features,)
        The noisy variances: at least the standard deviation of their noise, and at most a quarter of the squared width
        of the bounds, the largest possible. None without `with_std`.
    scale_ : ndarray of shape (n_features,)
        The noisy standard deviations: the roots of `var_`; never 0. None without `with_std`.
    scale_std_error_ : ndarray of shape (n_features,)
        About the standard deviation of their noise; infinite where private bounds are not found. None without
        `with_std`.
    drowned_ : ndarray of bool, shape (n_features,)
        Where the noise hides the variance, or private bounds: `var_` is then that of a uniform distribution between
        the bounds, which is public, and `fit` warns. None without `with_std`.
    bounds_ : ndarray of shape (n_features, 2)
        The bounds: those declared, or found.
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
    column the sum of the places and that of their squares, shifted and scaled to ``[-1, 1]``, by at most 1 each. So
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
    (array([38.55, 40.42]), array([38.58, 40.44]))
    >>> scaler.scale_.round(2), people.to_numpy().std(axis=0).round(2)
    (array([13.64, 12.31]), array([13.64, 12.35]))
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
        bounds_share: float = 0.2,
        missing: Unknown = "ignore",
        max_rows_per_person: int = 1,
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.with_mean = with_mean
        self.with_std = with_std
        self.bounds = bounds
        self.bounds_share = bounds_share
        self.missing = missing
        self.max_rows_per_person = max_rows_per_person
        self.ledger = ledger
        self.random_state = random_state

    def _plan(
        self, table: Table, large: LargeTable | None, share: Share, bounds: Any
    ) -> Plan:
        check_choice("missing", self.missing, get_args(Unknown))
        check_flag("with_mean", self.with_mean)
        check_flag("with_std", self.with_std)
        if not (self.with_mean or self.with_std):
            raise ValueError(
                "with_mean and with_std are both False: there is nothing to scale by"
            )
        shared = self.missing == "error"
        columns = sum_columns(table, large, bounds, missing=not shared)
        squares = bool(self.with_std)
        noise = Noise.joint(
            share, GRID, n_numbers(len(columns), squares=squares, shared_count=shared)
        )
        half_widths = np.array([(column.high - column.low) / 2 for column in columns])

        def release(source: ByteSource) -> None:
            moments = noisy_moments(
                columns, noise, source, squares=squares, shared_count=shared
            )
            self.mean_ = np.array(
                [
                    column.value(GRID * one.mean)
                    for column, one in zip(columns, moments, strict=True)
                ]
            )
            self.mean_std_error_ = half_widths * [one.mean_error for one in moments]
            self.var_ = self.scale_ = self.scale_std_error_ = self.drowned_ = None
            if not self.with_std:
                return
            roots = np.sqrt([one.variance for one in moments])
            self.scale_ = half_widths * roots
            with np.errstate(
                over="ignore"
            ):  # the squared width of the widest bounds is infinite
                self.var_ = self.scale_**2
            self.scale_std_error_ = (
                half_widths * [one.variance_error for one in moments] / (2 * roots)
            )
            self.drowned_ = np.array([one.drowned for one in moments])
            drowned = [
                name
                for name, one in zip(table.names, moments, strict=True)
                if one.drowned
            ]
            if drowned:
                warnings.warn(
                    f"the noise drowns the variance of {drowned}: scale_ is that of a uniform distribution between "
                    "the bounds. There are too few rows for this epsilon",
                    UserWarning,
                    stacklevel=level_of_the_caller(),
                )

        return Plan(noise.name, release, losses=losses_of([noise]))

    def _leave_open(self, hidden: NDArray[np.bool_]) -> None:
        self.mean_std_error_[hidden] = np.inf
        if (
            self.drowned_ is None
            or self.var_ is None
            or self.scale_ is None
            or self.scale_std_error_ is None
        ):
            return
        low, high = NOWHERE
        self.drowned_[hidden] = True
        self.var_[hidden] = UNIFORM_VARIANCE * ((high - low) / 2) ** 2
        self.scale_[hidden] = np.sqrt(self.var_[hidden])
        self.scale_std_error_[hidden] = np.inf

    def _transform_columns(self, columns: Columns) -> Columns:
        if self.missing == "error":
            for name, column in zip(self.guarantee_.scope, columns, strict=True):
                if not np.isfinite(column).all():
                    raise ValueError(
                        f"column {name!r} holds a missing value, a NaN or an inf; see missing="
                    )
        return [
            (column - mean) / scale
            for column, mean, scale in zip(
                columns, *self._shift_and_scale(), strict=True
            )
        ]

    def _invert_columns(self, columns: Columns) -> Columns:
        return [
            column * scale + mean
            for column, mean, scale in zip(
                columns, *self._shift_and_scale(), strict=True
            )
        ]

    def _shift_and_scale(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return what `transform` subtracts and what it divides by."""
        nothing = np.zeros(self.n_features_in_)
        return (
            self.mean_ if self.with_mean else nothing,
            nothing + 1 if self.scale_ is None else self.scale_,
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
        What the least and the greatest value become.
    bounds : pair of float, mapping of column name to pair, array-like of shape (n_features, 2), or "private"
        The lowest and the highest value of all columns, or of each, from what is publicly known.
        ``"private"``, for all columns or in place of a pair, finds bounds that hold nearly all values, as in `DPMean`.
    bounds_share : float, default=0.2
        The share of epsilon that finds bounds, if some are private.
    quantile_range : tuple of two float, optional
        The quantiles that replace the bounds, ascending, between 0 and 1 (not in percent), for bounds far wider than
        nearly all values. Values beyond them are scaled beyond `feature_range`, unless `clip` is set.
    candidates : "integers", int, array-like of float, or mapping of column name to one of these, optional
        The possible quantiles, as in `DPQuantileBinarizer`.
    clip : bool, default=False
        Whether to move what `transform` would put outside of `feature_range` to its nearer end.
    max_rows_per_person : int, default=1
        The most rows of one person, all of which the guarantee is for: noise is in proportion to it. Further rows are
        left out if `fit` is given ``groups``; without, the number is taken on trust.
    ledger : PrivacyLedger, optional
        What each `fit` is charged to, before anything is drawn.
    random_state : None or int, default=None
        None for secure random bits; an int for experiments, without a guarantee against those who know it.

    Attributes
    ----------
    data_min_, data_max_ : ndarray of shape (n_features,)
        The bounds or the private quantiles.
    data_range_ : ndarray of shape (n_features,)
        Their difference.
    scale_, min_ : ndarray of shape (n_features,)
        `transform` returns ``X * scale_ + min_``. Quantiles that coincide are scaled as if they differed by 1.
    bounds_ : ndarray of shape (n_features, 2)
        The bounds: those declared, or found.
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

    Each of the two quantiles of d columns is chosen by permute-and-flip [1]_ with epsilon / (2 d).

    References
    ----------
    .. [1] R. McKenna, D. Sheldon (2020). Permute-and-flip: a new mechanism for differentially private selection.
       NeurIPS.

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
        bounds_share: float = 0.2,
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
        self.bounds_share = bounds_share
        self.quantile_range = quantile_range
        self.candidates = candidates
        self.clip = clip
        self.max_rows_per_person = max_rows_per_person
        self.ledger = ledger
        self.random_state = random_state

    def _plan(
        self, table: Table, large: LargeTable | None, share: Share, bounds: Any
    ) -> Plan:
        low, high = self._read_feature_range()
        probabilities = self._read_quantile_range()
        check_flag("clip", self.clip)
        bounds = read_bounds(bounds, table.names)
        candidates = read_candidates(self.candidates, table.names, bounds)

        def scale(ends: NDArray[np.float64]) -> None:
            self.data_min_, self.data_max_ = ends.T.copy()
            self.data_range_ = self.data_max_ - self.data_min_
            self.scale_ = (high - low) / np.where(
                self.data_range_ == 0, 1.0, self.data_range_
            )
            self.min_ = low - self.data_min_ * self.scale_

        if probabilities is None:
            warn_of_objects(table)
            read_values(table)
            return Plan("public bounds", lambda source: scale(bounds), free=True)
        plan = plan_quantiles(table, large, candidates, probabilities, share)
        return Plan(
            plan.mechanism, lambda source: scale(plan.draw(source)), losses=plan.losses
        )

    def _transform_columns(self, columns: Columns) -> Columns:
        scaled = [
            column * scale + shift
            for column, scale, shift in zip(
                columns, self.scale_, self.min_, strict=True
            )
        ]
        return (
            [np.clip(column, *self._read_feature_range()) for column in scaled]
            if self.clip
            else scaled
        )

    def _invert_columns(self, columns: Columns) -> Columns:
        return [
            (column - shift) / scale
            for column, scale, shift in zip(
                columns, self.scale_, self.min_, strict=True
            )
        ]

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
