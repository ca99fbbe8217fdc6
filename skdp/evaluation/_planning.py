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

from skdp.base import ColumnName, check_choice, check_confidence_level
from skdp.central import DPHistogram, planned_half_width
from skdp.domain import Domain
from skdp.local import OracleEncoder
from skdp.privacy import WeakGuaranteeWarning
from skdp.survey import ReportDesign

QUANTITIES = ("count", "frequency", "difference")

# All numbers of three significant digits from 0.001 to 64 are tried.
MAX_EPSILON = 64.0
EPSILONS = [
    epsilon
    for epsilon in (np.arange(100, 1000) * 10.0 ** np.arange(-5, 0)[:, None]).ravel()
    if epsilon <= MAX_EPSILON
]

# Proportions of which the worst is planned for, if no rate is given. The variance is a
# quadratic function of the proportion.
PROPORTIONS = np.linspace(0, 1, 101)

# The number of rows at which variances are computed and then divided by it. The finite
# sample of strategy="sample" is negligible there.
N_REFERENCE_ROWS = 1e9

# A test finds every effect of 40 standard errors, in double precision.
MAX_EFFECT_RATIO = 40.0


def plan_epsilon(
    source: Any,
    *,
    n_rows: int | None = None,
    within: float | None = None,
    power: float | None = None,
    of: str = "frequency",
    columns: ColumnName | list[ColumnName] | None = None,
    rates: float | tuple[float, float] | None = None,
    confidence_level: float = 0.95,
) -> float:
    """Find the smallest epsilon that achieves a given precision or power.

    Parameters
    ----------
    source : encoder of categories or DPHistogram
        The estimator, fitted or not, with the values of its columns declared by name.
        Its own epsilon does not matter, except that `Rho` and `Mu` are kept.
    n_rows : int, optional
        The number of rows. Counts of a `DPHistogram` do not depend on it.
    within : float, optional
        The largest margin of error (half the width of the interval), > 0. For a
        difference, either `within` or `power` is required.
    power : float, optional
        The probability with which a two-sided test at ``1 - confidence_level`` detects
        the difference of `rates`, such as 0.8.
    of : {"count", "frequency", "difference"}, default="frequency"
        The estimate: the count of a value in the table, its proportion in the
        population, or the difference of its proportions in two groups of equal size
        that are known.
    columns : column name or list of them, optional
        The columns whose values are estimated. By default all.
    rates : float or tuple of two floats, optional
        A public guess of the proportion, between 0 and 1; by default the worst case.
        For a difference, the proportions in the two groups, which are required.
    confidence_level : float, default=0.95
        Coverage of the interval, between 0 and 1.

    Returns
    -------
    float
        The smallest epsilon with three significant digits; for `Rho` or `Mu`, the
        number in it.

    Raises
    ------
    TypeError
        If the source is no encoder of categories or histogram, or its values are not
        declared by name.
    ValueError
        If a parameter is out of range or missing, or no epsilon up to 64 is enough.

    See Also
    --------
    plan_rows : The number of rows for a given epsilon.
    privacy_curve : The score of a model at each epsilon.

    Notes
    -----
    **Privacy.** Computed from declared values and public guesses. No data is read and
    nothing is charged. Guesses from private data are not protected.

    An unbiased value of one record has the variance ``v(f) + f (1 - f)``, where v is
    the variance of the mechanism (``count_variances``) and f the proportion. The margin
    of error of a frequency is ``z sqrt((v(f) + f (1 - f)) / n)``, of a count
    ``z sqrt(n v(f))``, and the variance of a difference is the sum over the two groups.
    A test has the power p if the difference is ``z + z_p`` standard errors.

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
            "epsilon is given. Use plan_rows."
        )
    z, margin = _read_precision(of, within, power, rates, confidence_level)
    _check_source(source)
    is_count_of_histogram = isinstance(source, DPHistogram) and of == "count"
    if n_rows is None and not is_count_of_histogram:
        raise ValueError(f"n_rows is required for of={of!r}, got None.")
    n_rows = 1 if n_rows is None else _check_n_rows(n_rows)

    def is_enough(epsilon: float) -> bool:
        release = _set_epsilon(source, epsilon)
        error = _margin_of_error(release, of, n_rows, columns, rates, z)
        return error <= margin * (1 + 1e-9)

    # The margin of error falls with epsilon.
    position = bisect_left(EPSILONS, True, key=is_enough)
    if position == len(EPSILONS):
        raise ValueError(
            f"No epsilon up to {MAX_EPSILON:g} achieves this precision with "
            f"{n_rows:,} rows. Use plan_rows to find the number of rows."
        )
    return float(EPSILONS[position])


def plan_rows(
    source: Any,
    *,
    within: float | None = None,
    power: float | None = None,
    of: str = "frequency",
    columns: ColumnName | list[ColumnName] | None = None,
    rates: float | tuple[float, float] | None = None,
    confidence_level: float = 0.95,
) -> int:
    """Find the smallest number of rows that achieves a given precision or power.

    Parameters
    ----------
    source : encoder of categories, DPHistogram or ReportDesign
        The estimator or questionnaire, with its epsilon. A `ReportDesign` has two
        values, no group and no unknown number; its proportion is that of the second
        value, such as "yes".
    within : float, optional
        As for `plan_epsilon`.
    power : float, optional
        As for `plan_epsilon`.
    of : {"frequency", "difference"}, default="frequency"
        As for `plan_epsilon`. The error of a count does not fall with the number of
        rows.
    columns : column name or list of them, optional
        As for `plan_epsilon`.
    rates : float or tuple of two floats, optional
        As for `plan_epsilon`.
    confidence_level : float, default=0.95
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
    others?

    >>> plan_rows(encoder, of="difference", rates=(0.25, 0.35), power=0.8)
    3542
    """
    z, margin = _read_precision(of, within, power, rates, confidence_level)
    _check_source(source)
    if of == "count":
        raise ValueError("of must be 'frequency' or 'difference', got 'count'.")
    # The margin of error is z sqrt(variance / n), but width / n for a histogram.
    error = _margin_of_error(source, of, 1, columns, rates, z)
    ratio = error / margin
    return math.ceil((ratio if isinstance(source, DPHistogram) else ratio**2) - 1e-9)


def _read_precision(
    of: Any, within: Any, power: Any, rates: Any, confidence_level: Any
) -> tuple[float, float]:
    """Check the wanted precision; return the normal quantile and the margin of error."""
    check_choice("of", of, QUANTITIES)
    level = check_confidence_level(confidence_level)
    z = NormalDist().inv_cdf((1 + level) / 2)
    _check_rates(of, rates)
    if (within is None) == (power is None) or (
        power is not None and of != QUANTITIES[2]
    ):
        raise ValueError(
            "Exactly one of `within` and, for of='difference', `power` is required."
        )
    if power is None:
        if not _is_number(within) or not 0 < within < math.inf:
            raise ValueError(f"within must be a finite number > 0, got {within!r}.")
        return z, float(within)
    if not _is_number(power) or not 1 - level < power < 1:
        raise ValueError(
            f"power must be between {1 - level:.3g}, the level of the test, and 1, got "
            f"{power!r}."
        )
    first, second = rates
    if first == second:
        raise ValueError(f"rates must differ for a test, got {rates!r}.")
    return z, abs(second - first) * z / _effect_ratio(power, z)


def _effect_ratio(power: float, z: float) -> float:
    """Return the ratio of an effect to its standard error at which a test has this power."""
    normal = NormalDist()

    def excess(ratio: float) -> float:
        return normal.cdf(ratio - z) + normal.cdf(-ratio - z) - power

    return float(brentq(excess, 0, MAX_EFFECT_RATIO))


def _check_rates(of: str, rates: Any) -> None:
    """Check the guessed proportions."""
    if of == "difference":
        is_pair = isinstance(rates, tuple | list) and len(rates) == 2
        if not is_pair or not all(
            _is_number(rate) and 0 <= rate <= 1 for rate in rates
        ):
            raise ValueError(
                "rates must be the proportions in the two groups, between 0 and 1, got "
                f"{rates!r}."
            )
    elif rates is not None and not (_is_number(rates) and 0 <= rates <= 1):
        raise ValueError(f"rates must be a number between 0 and 1, got {rates!r}.")


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _check_n_rows(n_rows: Any) -> int:
    """Check a number of rows."""
    if not isinstance(n_rows, Integral) or isinstance(n_rows, bool) or n_rows < 1:
        raise ValueError(f"n_rows must be an int of at least 1, got {n_rows!r}.")
    return int(n_rows)


def _check_source(source: Any) -> None:
    """Check that the variance of the source is known."""
    kinds = OracleEncoder, DPHistogram, ReportDesign
    if isinstance(source, type) or not isinstance(source, kinds):
        raise TypeError(
            "source must be an encoder of categories, a DPHistogram or a ReportDesign, "
            f"got {getattr(source, '__name__', type(source).__name__)}."
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
        if np.ptp(source.channels[None], axis=0).max() == 0:
            raise ValueError(
                f"The design of {source.column!r} has the same reports for both values."
            )


def _set_epsilon(source: Any, epsilon: float) -> Any:
    """Return a copy of an estimator with another epsilon, rho or mu."""
    amount: Any = float(epsilon)
    if is_dataclass(source.epsilon):
        name = "rho" if hasattr(source.epsilon, "rho") else "mu"
        amount = replace(source.epsilon, **{name: amount})  # type: ignore[type-var]
    declared = {_domain_parameter(source): _declared_domain(source)}
    return clone(source).set_params(epsilon=amount, **declared)


def _margin_of_error(
    source: Any, of: str, n_rows: int, columns: Any, rates: Any, z: float
) -> float:
    """Return half the width of the interval of an estimate, the largest over its cells."""
    if isinstance(source, DPHistogram):
        if of == "difference":
            raise ValueError("of must be 'count' or 'frequency' for a DPHistogram.")
        level = 2 * NormalDist().cdf(z) - 1
        width = planned_half_width(source, _declared_domain(source), level)
        return width / n_rows if of == "frequency" else width
    if isinstance(source, ReportDesign):
        noise: Any = _design_variance
    else:
        encoder = _fit_to_declared(source)
        names = _read_columns(encoder, columns)

        def noise_of_reports(encoder: Any, rate: float) -> float:
            return _report_variance(encoder, names, rate)

        noise, source = noise_of_reports, encoder
    if of == "difference":
        # Each of two groups has half of the rows.
        variances = [noise(source, rate) + rate * (1 - rate) for rate in rates]
        return z * math.sqrt(2 * sum(variances) / n_rows)
    proportions = PROPORTIONS if rates is None else [float(rates)]
    if of == "count":
        return z * math.sqrt(n_rows * max(noise(source, f) for f in proportions))
    variance = max(noise(source, f) + f * (1 - f) for f in proportions)
    return z * math.sqrt(variance / n_rows)


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


def _report_variance(encoder: Any, names: list[Any], rate: float) -> float:
    """Return the largest variance that the mechanism adds to a value with this proportion."""
    domain = encoder.protocol_.domain
    groups = [[name] for name in domain.columns]
    if encoder.protocol_.strategy == "joint":
        groups = [list(domain.columns)]
    counts = []
    for group in groups:
        size = domain.select(group).size
        others = (1 - rate) / max(size - 1, 1)
        counts.append(N_REFERENCE_ROWS * np.array([rate] + [others] * (size - 1)))
    variances = encoder.count_variances(np.concatenate(counts)) / N_REFERENCE_ROWS
    starts = np.cumsum([0, *map(len, counts)])[:-1]
    selected = [
        variances[start]
        for start, group in zip(starts, groups, strict=True)
        if not {*group}.isdisjoint(names)
    ]
    return float(max(selected))


def _read_columns(encoder: Any, columns: Any) -> list[Any]:
    """Return the columns whose values are estimated."""
    declared = list(encoder.protocol_.domain.columns)
    if columns is None:
        return declared
    names = columns if isinstance(columns, list) else [columns]
    if not names or not all(name in declared for name in names):
        raise ValueError(f"columns must be some of {declared}, got {names}.")
    if encoder.protocol_.strategy == "joint" and {*names} != {*declared}:
        raise ValueError(
            f"columns must be {declared}, which strategy='joint' reports together."
        )
    return names


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
