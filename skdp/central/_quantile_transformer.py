"""Columns scaled by their quantiles: robustly, or to a uniform or normal distribution."""

from __future__ import annotations

from fractions import Fraction
from numbers import Real
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from skdp.base import Bounds, check_choice, check_flag, read_bounds
from skdp.central._base import Columns, InvertibleTransformer, Plan
from skdp.central.statistics import (
    Candidates,
    plan_quantiles,
    read_candidates,
    read_probability,
)
from skdp.oracles import check_size
from skdp.privacy import Mu, PrivacyLedger, Rho, Share
from skdp.randomness import ByteSource
from skdp.tables import LargeTable, Table

Distribution = Literal["uniform", "normal"]
_MOST_QUANTILES = 10_000

_EDGE = 1e-7
"""As in scikit-learn: where a normal distribution is cut off, for it has no quantile of 0 or 1."""


class DPRobustScaler(InvertibleTransformer):
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
    bounds : pair of float, mapping of column name to pair, array-like of shape (n_features, 2), or "private"
        The lowest and the highest value of all columns, or of each, from what is publicly known. `fit` clips values
        outside; `transform` does not.
        ``"private"``, for all columns or in place of a pair, finds bounds that hold nearly all values, as in `DPMean`.
    bounds_share : float, default=0.2
        The share of epsilon that finds bounds, if some are private.
    candidates : "integers", int, array-like of float, or mapping of column name to one of these, optional
        The possible quantiles, as in `DPQuantileBinarizer`.
    max_rows_per_person : int, default=1
        The most rows of one person, all of which the guarantee is for: noise is in proportion to it. Further rows are
        left out if `fit` is given ``groups``; without, the number is taken on trust.
    ledger : PrivacyLedger, optional
        What each `fit` is charged to, before anything is drawn.
    random_state : None or int, default=None
        None for secure random bits; an int for experiments, without a guarantee against those who know it.

    Attributes
    ----------
    center_ : ndarray of shape (n_features,) or None
        The private medians, None without `with_centering`.
    scale_ : ndarray of shape (n_features,) or None
        The private ranges, None without `with_scaling`. Quantiles that coincide are scaled as if they differed by 1.
    bounds_ : ndarray of shape (n_features, 2)
        The bounds: those declared, or found.
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

    The median of d columns is chosen by the exponential mechanism, and the other two quantiles in the same way on
    either side of it: with epsilon / (2 d) each time, as in `DPKBinsDiscretizer`. One or two quantiles, and those among
    fewer than 2,000 candidates, are chosen by permute-and-flip, each with an equal share.

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
        bounds_share: float = 0.2,
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
        self.bounds_share = bounds_share
        self.candidates = candidates
        self.max_rows_per_person = max_rows_per_person
        self.ledger = ledger
        self.random_state = random_state

    def _plan(
        self, table: Table, large: LargeTable | None, share: Share, bounds: Any
    ) -> Plan:
        for name in ("with_centering", "with_scaling", "unit_variance"):
            check_flag(name, getattr(self, name))
        low, high = self._read_range()
        wanted = {Fraction(1, 2)} if self.with_centering else set()
        wanted |= {low, high} if self.with_scaling else set()
        if not wanted:
            raise ValueError(
                "with_centering and with_scaling are both False: there is nothing to scale by"
            )
        probabilities = sorted(wanted)
        candidates = read_candidates(self.candidates, table.names, bounds)
        plan = plan_quantiles(table, large, candidates, probabilities, share)

        def release(source: ByteSource) -> None:
            found = dict(zip(probabilities, plan.draw(source).T, strict=True))
            self.center_ = found[Fraction(1, 2)].copy() if self.with_centering else None
            self.scale_ = None
            if self.with_scaling:
                width = found[high] - found[low]
                of_normal = (
                    norm.ppf(float(high)) - norm.ppf(float(low))
                    if self.unit_variance
                    else 1.0
                )
                self.scale_ = np.where(width == 0, 1.0, width) / of_normal

        return Plan(plan.mechanism, release, losses=plan.losses)

    def _read_range(self) -> tuple[Fraction, Fraction]:
        given = self.quantile_range
        if not isinstance(given, tuple | list) or len(given) != 2:
            raise TypeError(
                f"quantile_range must be a pair (low, high), got {type(given).__name__}"
            )
        for end in given:
            if isinstance(end, bool | np.bool_) or not isinstance(end, Real):
                raise TypeError(
                    f"quantile_range must be two numbers, got {type(end).__name__}"
                )
        if not 0 < given[0] < given[1] < 100:
            raise ValueError(
                f"quantile_range must be ascending, above 0 and below 100 (per cent), got {given}"
            )
        low, high = (
            read_probability(float(end) / 100, "quantile_range / 100") for end in given
        )
        return low, high

    def _transform_columns(self, columns: Columns) -> Columns:
        return [
            (column - center) / scale
            for column, center, scale in zip(columns, *self._numbers(), strict=True)
        ]

    def _invert_columns(self, columns: Columns) -> Columns:
        return [
            column * scale + center
            for column, center, scale in zip(columns, *self._numbers(), strict=True)
        ]

    def _numbers(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return what `transform` subtracts and what it divides by."""
        nothing = np.zeros(self.n_features_in_)
        return (
            nothing if self.center_ is None else self.center_,
            nothing + 1 if self.scale_ is None else self.scale_,
        )


class DPQuantileTransformer(InvertibleTransformer):
    """Give columns a uniform or normal distribution, by quantiles that are released with differential privacy.

    A value becomes the share of the values that are below it, by linear interpolation between the quantiles, as by
    scikit-learn's `QuantileTransformer`; or the quantile of a normal distribution for this share.

    Parameters
    ----------
    epsilon : float, Rho or Mu, default=1.0
        Privacy loss of all columns together, finite and > 0. A share of a budget in rho or mu (`skdp.privacy.Rho`,
        `skdp.privacy.Mu`) gets Gaussian noise.
    n_quantiles : int, default=1000
        The number of quantiles of each column, the bounds among them, from 3 to 10,000. More of them are not less
        accurate.
    output_distribution : {"uniform", "normal"}, default="uniform"
        The distribution of the output.
    bounds : pair of float, mapping of column name to pair, array-like of shape (n_features, 2), or "private"
        The lowest and the highest value of all columns, or of each, from what is publicly known: the first and the last
        quantile. Values outside are clipped.
        ``"private"``, for all columns or in place of a pair, finds bounds that hold nearly all values, as in `DPMean`.
    bounds_share : float, default=0.2
        The share of epsilon that finds bounds, if some are private.
    candidates : "integers", int, array-like of float, or mapping of column name to one of these, optional
        The possible quantiles, as in `DPQuantileBinarizer`.
    max_rows_per_person : int, default=1
        The most rows of one person, all of which the guarantee is for: noise is in proportion to it. Further rows are
        left out if `fit` is given ``groups``; without, the number is taken on trust.
    ledger : PrivacyLedger, optional
        What each `fit` is charged to, before anything is drawn.
    random_state : None or int, default=None
        None for secure random bits; an int for experiments, without a guarantee against those who know it.

    Attributes
    ----------
    quantiles_ : ndarray of shape (n_quantiles, n_features)
        The private quantiles, ascending, between the bounds.
    references_ : ndarray of shape (n_quantiles,)
        Their probabilities, from 0 to 1.
    bounds_ : ndarray of shape (n_features, 2)
        The bounds: those declared, or found.
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

    The quantiles of d columns come from noisy counts of the values at and between candidates, on h nested levels, as in
    `DPKBinsDiscretizer`: of noise of scale d h / epsilon, whatever their number is. Up to seven between the bounds
    (`n_quantiles` up to 9) are chosen instead, also as there.

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
        n_quantiles: int = 1000,
        output_distribution: Distribution = "uniform",
        bounds: Bounds | None = None,
        bounds_share: float = 0.2,
        candidates: Candidates | None = None,
        max_rows_per_person: int = 1,
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.n_quantiles = n_quantiles
        self.output_distribution = output_distribution
        self.bounds = bounds
        self.bounds_share = bounds_share
        self.candidates = candidates
        self.max_rows_per_person = max_rows_per_person
        self.ledger = ledger
        self.random_state = random_state

    def _plan(
        self, table: Table, large: LargeTable | None, share: Share, bounds: Any
    ) -> Plan:
        n = check_size(
            self.n_quantiles, least=3, most=_MOST_QUANTILES, name="n_quantiles"
        )
        check_choice(
            "output_distribution", self.output_distribution, get_args(Distribution)
        )
        bounds = read_bounds(bounds, table.names)
        candidates = read_candidates(self.candidates, table.names, bounds)
        probabilities = [Fraction(index, n - 1) for index in range(1, n - 1)]
        plan = plan_quantiles(table, large, candidates, probabilities, share)

        def release(source: ByteSource) -> None:
            self.quantiles_ = np.vstack(
                [bounds[:, 0], plan.draw(source).T, bounds[:, 1]]
            )
            self.references_ = np.linspace(0, 1, n)

        return Plan(plan.mechanism, release, losses=plan.losses)

    def _transform_columns(self, columns: Columns) -> Columns:
        shares = [
            self._share(column, known)
            for column, known in zip(columns, self.quantiles_.T, strict=True)
        ]
        if self.output_distribution == "uniform":
            return shares
        least = norm.ppf(_EDGE - np.spacing(1))
        return [np.clip(norm.ppf(one), least, -least) for one in shares]

    def _share(
        self, column: NDArray[np.float64], known: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        # Of quantiles that coincide, the middle one.
        up = np.interp(column, known, self.references_)
        down = np.interp(-column, -known[::-1], -self.references_[::-1])
        found = 0.5 * (up - down)
        edge = _EDGE if self.output_distribution == "normal" else 0.0
        found[column <= known[0] + edge], found[column >= known[-1] - edge] = 0.0, 1.0
        return found

    def _invert_columns(self, columns: Columns) -> Columns:
        normal = self.output_distribution == "normal"
        edge = _EDGE if normal else 0.0
        inverted = []
        for column, known in zip(columns, self.quantiles_.T, strict=True):
            shares = norm.cdf(column) if normal else column
            values = np.interp(shares, self.references_, known)
            values[shares <= edge], values[shares >= 1 - edge] = known[0], known[-1]
            inverted.append(values)
        return inverted
