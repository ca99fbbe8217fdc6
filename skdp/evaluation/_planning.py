"""Smallest epsilon or number of rows that achieves a given precision or power."""

from __future__ import annotations

import math
import warnings
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import is_dataclass, replace
from numbers import Integral, Real
from typing import Any, TypeAlias

import numpy as np
from scipy.special import ndtri
from sklearn.base import clone

from skdp.base import NORMAL
from skdp.central import DPHistogram, plan_margin_of_error
from skdp.domain import Domain
from skdp.local import OracleEncoder
from skdp.privacy import WeakGuaranteeWarning
from skdp.randomness import check_size
from skdp.survey import ReportDesign

# An estimator or a design of which the margin of error has a closed form.
Source: TypeAlias = OracleEncoder | DPHistogram | ReportDesign

# Coverage of the intervals, and half their width in standard errors.
LEVEL = 0.95
Z = NORMAL.quantile(LEVEL)


def plan_epsilon(
    source: Source,
    *,
    n_rows: int | None = None,
    within: float | None = None,
    power: float | None = None,
    rates: float | tuple[float, float] | None = None,
) -> float:
    """Find the smallest epsilon that achieves a given precision or power.

    Parameters
    ----------
    source : encoder of categories or DPHistogram
        Estimator, fitted or not, with declared values for each column name. Its epsilon
        is ignored; if it is a `Rho` or `Mu`, rho or mu is planned.
    n_rows : int, default=None
        Number of rows. Not required for counts of a `DPHistogram`.
    within : float or int, default=None
        Largest margin of error, which is half the width of the 95 % interval: a float
        between 0 and 1 for a proportion in the population or a difference of
        proportions, an int for the count of a value in the table.
    power : float, default=None
        Probability that a two-sided test at level 0.05 detects the difference of
        `rates`, such as 0.8. Either `within` or `power` is required.
    rates : float or tuple of two floats, default=None
        Assumed proportion between 0 and 1, from public knowledge. If None, the worst
        case is used. For two proportions, their difference is estimated, in two
        non-private groups of equal size.

    Returns
    -------
    float
        Smallest epsilon with three significant digits, or rho or mu. ``Mu(mu, delta).guess``
        is the probability of a correct guess.

    Raises
    ------
    TypeError
        If the source is not an encoder of categories or a histogram, or its values are not
        declared by name.
    ValueError
        If a parameter is out of range or missing, or no epsilon up to 64 is sufficient.

    See Also
    --------
    plan_rows : Number of rows for a given epsilon.
    skdp.evaluation.privacy_curve : Scores of a model at several epsilons.

    Notes
    -----
    **Privacy.** The result is computed from declared values and `rates`. No data is read
    and no ledger is charged. If `rates` come from private data, they are not protected.

    An unbiased value of one record has the variance ``v(f) + f (1 - f)``, where v is
    the variance of the mechanism (``count_variances``) and f the proportion. The margin
    of error of a proportion is ``z sqrt((v(f) + f (1 - f)) / n)``, of a count
    ``z sqrt(n v(f))``, and the variance of a difference is the sum over the two groups.
    For a `DPHistogram`, the margin w of a count does not depend on n, and the margin of a
    proportion is ``sqrt((w / n)**2 + z**2 f (1 - f) / n)``.
    A test has the power p if the difference is ``z + z_p`` standard errors. With
    several columns, the one with the largest error is planned.

    Examples
    --------
    Find the epsilon that estimates the proportion of smokers among 20,000 people within
    two percentage points:

    >>> from skdp import RandomizedResponseEncoder, plan_epsilon
    >>> encoder = RandomizedResponseEncoder(categories={"smokes": ["yes", "no"]})
    >>> plan_epsilon(encoder, within=0.02, n_rows=20_000)
    0.723
    """
    if isinstance(source, ReportDesign):
        raise TypeError(
            "`source` must be an encoder or a DPHistogram, got a ReportDesign, whose "
            "epsilon is fixed. Use plan_rows."
        )
    quantity, margin = _read_precision(within, power, rates)
    _check_source(source, quantity)
    if n_rows is not None:
        check_size(n_rows, min_val=1, max_val=None, name="n_rows")
    elif not isinstance(source, DPHistogram) or quantity != "count":
        raise ValueError(f"`n_rows` is required for a {quantity}, got None.")
    n = n_rows or 1

    def is_sufficient(epsilon: float) -> bool:
        """Return True if an epsilon achieves the margin of error."""
        release = _set_epsilon(source, epsilon)
        error = _margin_of_error(release, quantity, n, rates)
        return error <= margin * (1 + 1e-9)  # rounding errors of floats

    # All numbers with three significant digits from 0.001 to 64.
    decades = 10.0 ** np.arange(-5, 0)[:, None]
    epsilons = np.unique(np.minimum(np.arange(100, 1000) * decades, 64))
    # Bisection, because the margin of error decreases with epsilon.
    index = bisect_left(epsilons, True, key=is_sufficient)
    if index == len(epsilons):
        raise ValueError(
            f"No epsilon up to 64 achieves this precision with {n:,} rows. Use "
            "plan_rows to find the number of rows."
        )
    return float(epsilons[index])


def plan_rows(
    source: Source,
    *,
    within: float | None = None,
    power: float | None = None,
    rates: float | tuple[float, float] | None = None,
    design_effect: float = 1.0,
) -> int:
    """Find the smallest number of rows that achieves a given precision or power.

    Parameters
    ----------
    source : encoder of categories, DPHistogram or ReportDesign
        Estimator or questionnaire, with its epsilon. A `ReportDesign` must have two
        values, no group and no unknown parameter. The proportion is for its second
        value, such as "yes".
    within : float, default=None
        As for `plan_epsilon`, between 0 and 1. Counts are not supported, because their
        error does not decrease with the number of rows.
    power : float, default=None
        As for `plan_epsilon`.
    rates : float or tuple of two floats, default=None
        As for `plan_epsilon`.
    design_effect : float, default=1.0
        Variance of an estimate divided by its variance in a simple random sample of the same size, from public
        knowledge such as an earlier survey: about ``1 + (m - 1) r`` for clusters of m rows with the correlation r,
        times ``1 + c**2`` for weights with the coefficient of variation c.

    Returns
    -------
    int
        Number of rows; for a difference, of both groups together.

    Raises
    ------
    TypeError, ValueError
        As for `plan_epsilon`.

    See Also
    --------
    plan_epsilon : Epsilon for a given number of rows.

    Notes
    -----
    **Privacy.** As for `plan_epsilon`.

    The design effect multiplies the number of rows. For a `DPHistogram`, it multiplies the sampling variance only,
    because the noise of a count does not depend on the sample.

    Examples
    --------
    Find the number of people that estimates the proportion of smokers within two
    percentage points at epsilon 1:

    >>> from skdp import RandomizedResponseEncoder, plan_rows
    >>> encoder = RandomizedResponseEncoder(1.0, categories={"smokes": ["yes", "no"]})
    >>> plan_rows(encoder, within=0.02)
    11243

    Find the number of people that detects, in 80 % of surveys, that 35 % of younger and
    25 % of older people smoke:

    >>> plan_rows(encoder, rates=(0.25, 0.35), power=0.8)
    3542
    """
    quantity, margin = _read_precision(within, power, rates)
    _check_source(source, quantity)
    if quantity == "count":
        raise ValueError(f"`within` must be a float between 0 and 1, got {within!r}.")
    if not _is_real(design_effect) or not 0 < design_effect < math.inf:
        raise ValueError(f"`design_effect` must be a float > 0, got {design_effect!r}.")
    # The margin of error of n rows is the margin of one row divided by sqrt(n).
    n_rows = (_margin_of_error(source, quantity, 1, rates) / margin) ** 2
    if isinstance(source, DPHistogram):
        # The noise of a count does not depend on n, so its part of the margin is divided
        # by n: noise**2 / n**2 + 2 * sampling / n = 1, in units of the margin.
        noise = _margin_of_error(source, "count", 1, rates) / margin
        sampling = design_effect * (n_rows - noise**2) / 2
        return math.ceil(sampling + math.hypot(sampling, noise) - 1e-9)
    return math.ceil(design_effect * n_rows - 1e-9)


def _read_precision(within: Any, power: Any, rates: Any) -> tuple[str, float]:
    """Check `within`, `power` and `rates`; return the estimated quantity and the margin of error.

    The quantity is "proportion", "difference" (of two proportions) or "count". The power
    of a test is converted to a margin of error.
    """
    is_pair = isinstance(rates, tuple | list)
    proportions = list(rates) if is_pair else [0 if rates is None else rates]
    is_valid = not is_pair or len(proportions) == 2
    for rate in proportions:
        is_valid = is_valid and _is_real(rate) and 0 <= rate <= 1
    if not is_valid:
        raise ValueError(
            "`rates` must be a proportion between 0 and 1, or two for a difference, "
            f"got {rates!r}."
        )
    if (within is None) == (power is None) or (power is not None and not is_pair):
        raise ValueError(
            "Exactly one of `within` and `power` is required, and `power` requires two "
            f"`rates`, got within={within!r}, power={power!r} and rates={rates!r}."
        )
    if power is None:
        is_count = isinstance(within, Integral) and not is_pair
        is_in_range = _is_real(within) and (
            1 <= within < math.inf if is_count else 0 < within < 1
        )
        if not is_in_range:
            raise ValueError(
                "`within` must be a float between 0 and 1, or an int >= 1 for a count, "
                f"got {within!r}."
            )
        quantity = "difference" if is_pair else "count" if is_count else "proportion"
        return quantity, float(within)
    if not _is_real(power) or not 1 - LEVEL < power < 1:
        raise ValueError(
            f"`power` must be between {1 - LEVEL:.3g}, the level of the test, and 1, "
            f"got {power!r}."
        )
    # The margin of error Z * std_error at which the difference has the required ratio to
    # its standard error.
    first, second = rates
    if first == second:
        raise ValueError(f"`rates` must be distinct for a test, got {rates!r}.")
    # A significant estimate on the wrong side is neglected.
    return "difference", abs(second - first) * Z / (Z + ndtri(power))


def _is_real(value: object) -> bool:
    """Return True for a real number that is not a boolean."""
    return isinstance(value, Real) and not isinstance(value, bool)


def _check_source(source: object, quantity: str) -> None:
    """Raise an error unless the margin of error of a quantity (see `_read_precision`) has a closed form."""
    if isinstance(source, type) or not isinstance(source, Source):
        raise TypeError(
            "`source` must be an encoder of categories, a DPHistogram or a "
            f"ReportDesign, got {getattr(source, '__name__', type(source).__name__)}."
        )
    if isinstance(source, DPHistogram) and quantity == "difference":
        raise ValueError(
            "`rates` must be one proportion for a DPHistogram, which has no groups, "
            "got two."
        )
    if isinstance(source, ReportDesign):
        if source.group is not None:
            raise ValueError(
                "`source` must be a ReportDesign without groups, got groups. For other "
                "designs, simulate reports for several numbers of rows."
            )
        if len(source.values) != 2:
            raise ValueError(
                "`source` must be a ReportDesign with two values, got "
                f"{len(source.values)}. For other designs, simulate reports for "
                "several numbers of rows."
            )


def _set_epsilon(source: OracleEncoder | DPHistogram, epsilon: float) -> Any:
    """Return a clone of an estimator with another epsilon, or with another rho or mu."""
    amount: Any = float(epsilon)
    # `Rho` and `Mu` are dataclasses; their delta is kept.
    if is_dataclass(source.epsilon):
        name = "rho" if hasattr(source.epsilon, "rho") else "mu"
        amount = replace(source.epsilon, **{name: amount})  # type: ignore[type-var]
    declared = {_domain_parameter(source): _find_domain(source)}
    return clone(source).set_params(epsilon=amount, **declared)


def _margin_of_error(
    source: Source,
    quantity: str,
    n_rows: int,
    rates: float | tuple[float, float] | None,
) -> float:
    """Return half the width of the 95 % interval of `quantity`, the largest over all values.

    `rates` is the expected proportion, a pair for a difference, or None for the worst case.
    """
    # If no proportion is given, the largest variance on a grid is used; the variance is
    # a quadratic function of the proportion.
    proportions = np.linspace(0, 1, 101) if rates is None else np.ravel(rates)
    sampling = proportions * (1 - proportions)
    if isinstance(source, DPHistogram):
        margin = plan_margin_of_error(source, _find_domain(source), LEVEL)
        if quantity == "count":
            return margin
        return math.hypot(margin / n_rows, Z * math.sqrt(sampling.max() / n_rows))
    noise_variance: Any = _design_variance
    if not isinstance(source, ReportDesign):
        source, noise_variance = _fit_to_declared(source), _report_variance
    variances = np.array([noise_variance(source, f) for f in proportions.tolist()])
    if quantity == "count":
        return Z * math.sqrt(n_rows * variances.max())
    variances += sampling
    if quantity == "difference":
        # Each of two groups has half of the rows.
        return Z * math.sqrt(2 * variances.sum() / n_rows)
    return Z * math.sqrt(variances.max() / n_rows)


def _design_variance(design: ReportDesign, rate: float) -> float:
    """Return the variance that a questionnaire adds to one answer whose second value has the proportion `rate`.

    This is the inverse Fisher information of one report, minus ``rate * (1 - rate)``.
    """
    # Probability of each report under either value, and under the mixture of values.
    p_first, p_second = design.channels[None]
    expected = (1 - rate) * p_first + rate * p_second
    slope = p_second - p_first
    is_possible = expected > 0
    # If the rate is 0 or 1 and a report is possible under the other value only, the
    # absence of this report estimates the rate exactly.
    if slope[~is_possible].any():
        return 0.0
    information = float((slope[is_possible] ** 2 / expected[is_possible]).sum())
    return 1 / information - rate * (1 - rate)


def _report_variance(encoder: OracleEncoder, rate: float) -> float:
    """Return the variance that reports add to the indicator of a value with this proportion.

    This is the largest variance over the columns.
    """
    domain = encoder.domain_
    sizes = list(domain.sizes)
    if encoder.protocol_.strategy == "joint":
        sizes = [domain.size]
    # The first value has the proportion, and the other values are equally frequent.
    first_indices: list[int] = []
    proportions: list[float] = []
    for size in sizes:
        first_indices.append(len(proportions))
        proportions += [rate] + [(1 - rate) / max(size - 1, 1)] * (size - 1)
    # The finite-sample term of strategy="sample" is negligible with this many rows.
    n_rows = 1e9
    variances = encoder.count_variances(n_rows * np.array(proportions))
    return float(variances[first_indices].max()) / n_rows


def _fit_to_declared(source: OracleEncoder) -> Any:
    """Fit a clone of an encoder to one row of declared values, without a charge."""
    domain = _find_domain(source)
    encoder = clone(source).set_params(categories=domain, ledger=None)
    with warnings.catch_warnings(action="ignore", category=WeakGuaranteeWarning):
        return encoder.fit(encoder._declared_row(domain.columns))


def _domain_parameter(source: Source) -> str:
    """Return the name of the parameter that declares the values of the columns."""
    return "domain" if isinstance(source, DPHistogram) else "categories"


def _find_domain(source: Source) -> Domain:
    """Return the domain of an estimator; raise an error unless it is declared by column name."""
    name = _domain_parameter(source)
    # A fitted estimator has `domain_`.
    declared = getattr(source, "domain_", getattr(source, name))
    if isinstance(declared, Mapping):
        return Domain(declared)
    raise TypeError(
        f"{name} of {type(source).__name__} must be a mapping or a Domain, got "
        f"{type(declared).__name__}."
    )
