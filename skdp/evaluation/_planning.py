"""The smallest epsilon, or number of rows, at which an estimate is precise enough or an effect is found."""

from __future__ import annotations

import math
import warnings
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import is_dataclass, replace
from numbers import Integral, Real
from statistics import NormalDist
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from sklearn.base import clone

from skdp.central import DPHistogram, planned_half_width
from skdp.domain import Domain
from skdp.evaluation._common import check_count
from skdp.local import OracleEncoder
from skdp.privacy import WeakGuaranteeWarning
from skdp.survey import ReportDesign

# Coverage of the intervals, and its quantile of the normal distribution.
LEVEL = 0.95
Z = NormalDist().inv_cdf((1 + LEVEL) / 2)

# All numbers of three significant digits from 0.001 to 64 are tried.
EPSILONS = [
    epsilon
    for epsilon in (np.arange(100, 1000) * 10.0 ** np.arange(-5, 0)[:, None]).ravel()
    if epsilon <= 64
]


def plan_epsilon(
    source: Any,
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
        The estimator, fitted or not, with the values of its columns declared by name.
        Its epsilon is ignored, but `Rho` and `Mu` are kept.
    n_rows : int, optional
        The number of rows. Counts of a `DPHistogram` do not depend on it.
    within : float or int, optional
        The largest margin of error, which is half the width of the 95 % interval. A
        float between 0 and 1 is for a proportion in the population, or a difference of
        proportions; an int is for the count of a value in the table.
    power : float, optional
        In place of `within`: the probability with which a two-sided test at the level
        0.05 detects the difference of `rates`, such as 0.8.
    rates : float or tuple of two floats, optional
        The assumed proportion, from public knowledge, between 0 and 1; by default the worst case.
        With two proportions, their difference is estimated, in two groups of equal size that are
        known.

    Returns
    -------
    float
        The smallest epsilon with three significant digits; for `Rho` or `Mu`, the
        number in it.

    Raises
    ------
    TypeError
        If the source is not an encoder of categories or a histogram, or its values are not
        declared by name.
    ValueError
        If a parameter is out of range or missing, or no epsilon up to 64 is sufficient.

    See Also
    --------
    plan_rows : The number of rows for a given epsilon.
    skdp.evaluation.privacy_curve : The score of a model at each epsilon.

    Notes
    -----
    **Privacy.** Computed from declared values and public guesses. No data is read and
    nothing is charged. Guesses from private data are not protected.

    An unbiased value of one record has the variance ``v(f) + f (1 - f)``, where v is
    the variance of the mechanism (``count_variances``) and f the proportion. The margin
    of error of a proportion is ``z sqrt((v(f) + f (1 - f)) / n)``, of a count
    ``z sqrt(n v(f))``, and the variance of a difference is the sum over the two groups.
    A test has the power p if the difference is ``z + z_p`` standard errors. With
    several columns, the one with the largest error is planned.

    Examples
    --------
    Which epsilon estimates the proportion of smokers among 20,000 people within two
    percentage points?

    >>> from skdp import RandomizedResponseEncoder, plan_epsilon
    >>> encoder = RandomizedResponseEncoder(categories={"smokes": ["yes", "no"]})
    >>> plan_epsilon(encoder, within=0.02, n_rows=20_000)
    0.723
    """
    if isinstance(source, ReportDesign):
        raise TypeError(
            "source must be an encoder or a DPHistogram, got a ReportDesign, whose "
            "epsilon is fixed. Use plan_rows."
        )
    quantity, margin = _read_precision(within, power, rates)
    _check_source(source, quantity)
    if n_rows is not None:
        check_count(n_rows, "n_rows", least=1)
    elif not isinstance(source, DPHistogram) or quantity != "count":
        raise ValueError(f"n_rows is required for a {quantity}, got None.")
    n = n_rows or 1

    def is_enough(epsilon: float) -> bool:
        release = _set_epsilon(source, epsilon)
        error = _margin_of_error(release, quantity, n, rates)
        return error <= margin * (1 + 1e-9)

    # The margin of error falls with epsilon.
    position = bisect_left(EPSILONS, True, key=is_enough)
    if position == len(EPSILONS):
        raise ValueError(
            f"No epsilon up to {EPSILONS[-1]:g} achieves this precision with "
            f"{n:,} rows. Use plan_rows to find the number of rows."
        )
    return float(EPSILONS[position])


def plan_rows(
    source: Any,
    *,
    within: float | None = None,
    power: float | None = None,
    rates: float | tuple[float, float] | None = None,
) -> int:
    """Find the smallest number of rows that achieves a given precision or power.

    Parameters
    ----------
    source : encoder of categories, DPHistogram or ReportDesign
        The estimator or questionnaire, with its epsilon. A `ReportDesign` has two
        values, no group and no unknown number; its proportion is of the second value,
        such as "yes".
    within : float, optional
        As for `plan_epsilon`, between 0 and 1. The error of a count does not fall with
        the number of rows.
    power : float, optional
        As for `plan_epsilon`.
    rates : float or tuple of two floats, optional
        As for `plan_epsilon`.

    Returns
    -------
    int
        The number of rows; for a difference, of both groups together.

    Raises
    ------
    TypeError, ValueError
        As for `plan_epsilon`.

    See Also
    --------
    plan_epsilon : The epsilon for a given number of rows.

    Notes
    -----
    **Privacy.** Computed from declared values and public guesses, as `plan_epsilon`.

    Examples
    --------
    How many people are needed to estimate the proportion of smokers within two
    percentage points at epsilon 1?

    >>> from skdp import RandomizedResponseEncoder, plan_rows
    >>> encoder = RandomizedResponseEncoder(1.0, categories={"smokes": ["yes", "no"]})
    >>> plan_rows(encoder, within=0.02)
    11243

    And to detect in four of five surveys that 35 % of the young smoke and 25 % of the
    old?

    >>> plan_rows(encoder, rates=(0.25, 0.35), power=0.8)
    3542
    """
    quantity, margin = _read_precision(within, power, rates)
    _check_source(source, quantity)
    if quantity == "count":
        raise ValueError(f"within must be a float between 0 and 1, got {within!r}.")
    # The margin of error is Z sqrt(variance / n), but width / n for a histogram.
    ratio = _margin_of_error(source, quantity, 1, rates) / margin
    return math.ceil((ratio if isinstance(source, DPHistogram) else ratio**2) - 1e-9)


def _read_precision(within: Any, power: Any, rates: Any) -> tuple[str, float]:
    """Check the required precision; return the estimated quantity and the margin of error."""
    is_pair = isinstance(rates, tuple | list)
    guesses = list(rates) if is_pair else [0 if rates is None else rates]
    if not all(_is_number(rate) and 0 <= rate <= 1 for rate in guesses) or (
        is_pair and len(guesses) != 2
    ):
        raise ValueError(
            "rates must be a proportion between 0 and 1, or two for a difference, got "
            f"{rates!r}."
        )
    if (within is None) == (power is None) or (power is not None and not is_pair):
        raise ValueError(
            "Exactly one of `within` and, with two `rates`, `power` is required."
        )
    if power is None:
        is_count = isinstance(within, Integral) and not is_pair
        is_in_range = _is_number(within) and (
            1 <= within < math.inf if is_count else 0 < within < 1
        )
        if not is_in_range:
            raise ValueError(
                "within must be a float between 0 and 1, or for a count an int of at "
                f"least 1, got {within!r}."
            )
        quantity = "difference" if is_pair else "count" if is_count else "proportion"
        return quantity, float(within)
    if not _is_number(power) or not 1 - LEVEL < power < 1:
        raise ValueError(
            f"power must be between {1 - LEVEL:.3g}, the level of the test, and 1, got "
            f"{power!r}."
        )
    first, second = rates
    if first == second:
        raise ValueError(f"rates must differ for a test, got {rates!r}.")
    return "difference", abs(second - first) * Z / _effect_ratio(power)


def _effect_ratio(power: float) -> float:
    """Return the ratio of an effect to its standard error at which a test has this power."""
    normal = NormalDist()

    def excess(ratio: float) -> float:
        return normal.cdf(ratio - Z) + normal.cdf(-ratio - Z) - power

    # In double precision, a test finds every effect of 40 standard errors.
    return float(brentq(excess, 0, 40))


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _check_source(source: Any, quantity: str) -> None:
    """Check that the variance of the source is known."""
    kinds = OracleEncoder, DPHistogram, ReportDesign
    if isinstance(source, type) or not isinstance(source, kinds):
        raise TypeError(
            "source must be an encoder of categories, a DPHistogram or a ReportDesign, "
            f"got {getattr(source, '__name__', type(source).__name__)}."
        )
    if isinstance(source, DPHistogram) and quantity == "difference":
        raise ValueError(
            "rates must be one proportion for a DPHistogram, which has no groups."
        )
    if isinstance(source, ReportDesign):
        if source.group is not None:
            raise ValueError(
                "source must be a ReportDesign without groups. Simulate the error of "
                "other designs."
            )
        if len(source.values) != 2:
            raise ValueError(
                "source must be a ReportDesign with two values, got "
                f"{len(source.values)}. Simulate the error of other designs."
            )


def _set_epsilon(source: Any, epsilon: float) -> Any:
    """Return a copy of an estimator with another epsilon, rho or mu."""
    amount: Any = float(epsilon)
    if is_dataclass(source.epsilon):
        name = "rho" if hasattr(source.epsilon, "rho") else "mu"
        amount = replace(source.epsilon, **{name: amount})  # type: ignore[type-var]
    declared = {_domain_parameter(source): _declared_domain(source)}
    return clone(source).set_params(epsilon=amount, **declared)


def _margin_of_error(source: Any, quantity: str, n_rows: int, rates: Any) -> float:
    """Return half the width of the interval of an estimate, the largest over its cells."""
    if isinstance(source, DPHistogram):
        width = planned_half_width(source, _declared_domain(source), LEVEL)
        return width if quantity == "count" else width / n_rows
    noise: Any = _design_variance
    if not isinstance(source, ReportDesign):
        source, noise = _fit_to_declared(source), _report_variance
    if quantity == "difference":
        # Each of two groups has half of the rows.
        variances = [noise(source, rate) + rate * (1 - rate) for rate in rates]
        return Z * math.sqrt(2 * sum(variances) / n_rows)
    # Without a rate, the worst one counts. The variance is a quadratic function of it.
    proportions = np.linspace(0, 1, 101) if rates is None else [float(rates)]
    if quantity == "count":
        return Z * math.sqrt(n_rows * max(noise(source, f) for f in proportions))
    variance = max(noise(source, f) + f * (1 - f) for f in proportions)
    return Z * math.sqrt(variance / n_rows)


def _design_variance(design: ReportDesign, rate: float) -> float:
    """Return the variance that a questionnaire adds to one answer: inverse information less ``f (1 - f)``."""
    of_first, of_second = design.channels[None]
    expected = (1 - rate) * of_first + rate * of_second
    slope = of_second - of_first
    is_given = expected > 0
    # At 0 or 1, a report that only the other value gives estimates the rate exactly.
    if slope[~is_given].any():
        return 0.0
    information = float((slope[is_given] ** 2 / expected[is_given]).sum())
    return 1 / information - rate * (1 - rate)


def _report_variance(encoder: Any, rate: float) -> float:
    """Return the largest variance that the mechanism adds to a value with this proportion."""
    domain = encoder.protocol_.domain
    sizes = list(domain.sizes)
    if encoder.protocol_.strategy == "joint":
        sizes = [domain.size]
    # The first value has the proportion, and the other values are equally frequent.
    first: list[int] = []
    counts: list[float] = []
    for size in sizes:
        first.append(len(counts))
        counts += [rate] + [(1 - rate) / max(size - 1, 1)] * (size - 1)
    # The finite sample of strategy="sample" is negligible with so many rows.
    n_rows = 1e9
    variances = encoder.count_variances(n_rows * np.array(counts))
    return float(variances[first].max()) / n_rows


def _fit_to_declared(source: Any) -> Any:
    """Fit a copy of an encoder to a row of declared values. Fitting charges nothing."""
    domain = _declared_domain(source)
    row = {name: [domain[name].values[0]] for name in domain.columns}
    encoder = clone(source).set_params(categories=domain, ledger=None)
    with warnings.catch_warnings(action="ignore", category=WeakGuaranteeWarning):
        return encoder.fit(pd.DataFrame(row, dtype=object))


def _domain_parameter(source: Any) -> str:
    """Return the name of the parameter that declares the values."""
    return "domain" if isinstance(source, DPHistogram) else "categories"


def _declared_domain(source: Any) -> Domain:
    """Return the declared values of an estimator, by the names of its columns."""
    name = _domain_parameter(source)
    declared = getattr(source, "domain_", getattr(source, name))
    if isinstance(declared, Domain):
        return declared
    if isinstance(declared, Mapping):
        return Domain(declared)
    raise TypeError(
        f"{name} of {type(source).__name__} must be a mapping or a Domain, got "
        f"{type(declared).__name__}."
    )
