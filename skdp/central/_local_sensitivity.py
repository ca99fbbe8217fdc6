"""Releases of a statistic by its local sensitivity: propose-test-release and smooth sensitivity."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, Self

import numpy as np

from skdp._arrays import Floats
from skdp.base import TableLike, to_float_columns
from skdp.central._base import charge
from skdp.central._sample_and_aggregate import (
    ReleasedStatistic,
    read_output_bounds,
    read_rows,
)
from skdp.central._sums import GRID, to_grid
from skdp.exact import exp_bounds, log_upper
from skdp.privacy import PrivacyBudget, PrivacyLedger, check_delta, check_epsilon
from skdp.randomness import ByteSource, discrete_laplace
from skdp.tables import wrap_table

# Number of steps between the bounds, in which Laplace noise is drawn.
N_STEPS = 1 << 60

# Smallest smooth sensitivity in steps, so that rounding to whole steps changes it by a
# factor of at most 1 + 2**-24.
MIN_SMOOTH_STEPS = 1 << 24


def propose_test_release(
    statistic: Callable[[Any], float] | Literal["mean"],
    X: TableLike,
    *,
    sensitivity: float,
    bounds: tuple[float, float],
    epsilon: float,
    delta: float,
    local_sensitivity: Callable[[Any, int], float] | None = None,
    ledger: PrivacyLedger | None = None,
    random_state: int | None = None,
) -> ReleasedStatistic:
    """Release a statistic with Laplace noise for a proposed sensitivity, if the table passes a private test.

    The test adds noise to the distance D of the table: the smallest number of records to add or remove until the local
    sensitivity exceeds `sensitivity`. If the noisy distance is at least a threshold, the statistic is released;
    otherwise it is not released ([1]_).

    Parameters
    ----------
    statistic : callable or "mean"
        Called as ``statistic(X)``; returns a number. "mean" is the mean of a single column, without missing values.
    X : dataframe or array-like of shape (n_samples, n_features)
        Private table.
    sensitivity : float
        Proposed bound b of the local sensitivity, > 0, chosen without looking at the data.
    bounds : pair of float
        Lowest and highest value of the statistic, from public knowledge. The values of a "mean" are clipped to them.
    epsilon : float
        Privacy loss, finite and > 0. A tenth of it is spent on the test.
    delta : float
        Probability that a table with a larger local sensitivity passes, in (0, 1).
    local_sensitivity : callable, optional
        Called as ``local_sensitivity(X, k)``: the largest change of the statistic by one record more or fewer, over all
        tables at a distance of at most k records from X. Required unless `statistic` is "mean".
    ledger : PrivacyLedger, optional
        Ledger that is charged before noise is drawn.
    random_state : None or int, default=None
        None uses secure randomness. Pass an int for reproducible experiments only: the release is then not private.

    Returns
    -------
    ReleasedStatistic
        The statistic as ``value`` with ``std_error`` and ``guarantee``; or nan with
        ``released=False``, at the same cost.

    Raises
    ------
    TypeError, ValueError
        If a parameter is out of range, or `statistic` or `local_sensitivity` fails. Error messages contain no
        values of X.
    BudgetExceeded
        If the ledger does not cover the release.

    See Also
    --------
    smooth_sensitivity_release : Noise in proportion to a smooth bound of the local sensitivity.
    sample_and_aggregate : Any statistic, without its sensitivity.

    Notes
    -----
    **Privacy.** Central model, adding or removing one record, (epsilon, delta). D changes by at most 1 between
    neighbors. If D is 0 for both, each passes with a probability of at most delta, because the threshold T has
    ``exp(-T * epsilon / 10) <= delta``. Otherwise their statistics differ by at most b, and test and release compose to
    epsilon. The guarantee requires a correct `local_sensitivity`, which cannot be checked here.

    References
    ----------
    .. [1] C. Dwork, J. Lei (2009). Differential privacy and robust statistics. STOC.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.central import propose_test_release
    >>> ages = np.random.default_rng(0).integers(17, 90, size=30_000)
    >>> release = propose_test_release(
    ...     "mean", ages, sensitivity=0.005, bounds=(0, 100), epsilon=1.0, delta=1e-9, random_state=0
    ... )
    >>> release.released, bool(abs(release.value - ages.mean()) < 0.1)
    (True, True)
    """
    table = _PrivateStatistic.read(statistic, X, bounds, local_sensitivity)
    exact_epsilon, exact_delta = _read_epsilon_delta(epsilon, delta)
    proposed = Fraction(check_epsilon(sensitivity, name="sensitivity"))
    # A tenth of epsilon is for the test, which passes for distances of more than about
    # ``log(1 / delta) / test_epsilon`` records.
    test_epsilon = exact_epsilon / 10
    threshold = math.ceil(Fraction(log_upper(1 / exact_delta)) / test_epsilon)
    # One more step, because the statistic is rounded to whole steps.
    scale = (proposed / table.step + 1) / (exact_epsilon - test_epsilon)
    # Noise exceeds 64 / test_epsilon with a probability below 2**-92, so larger distances
    # are not distinguished: the test passes.
    farthest = threshold + math.ceil(64 / test_epsilon)
    distance = bisect_right(range(farthest), proposed, key=table.local_sensitivity)

    guarantee, source = charge(
        "propose_test_release",
        PrivacyBudget("epsilon", exact_epsilon),
        ledger,
        random_state,
        mechanism="propose-test-release",
        delta=exact_delta,
    )
    noise = discrete_laplace(source, 1 / test_epsilon, 1).item()
    if distance + noise < threshold:
        return ReleasedStatistic(math.nan, math.nan, guarantee, released=False)
    std_error = math.sqrt(2) * float(scale * table.step)
    return ReleasedStatistic(table.add_noise(source, scale), std_error, guarantee)


def smooth_sensitivity_release(
    statistic: Callable[[Any], float] | Literal["mean"],
    X: TableLike,
    *,
    bounds: tuple[float, float],
    epsilon: float,
    delta: float,
    local_sensitivity: Callable[[Any, int], float] | None = None,
    beta: float | None = None,
    ledger: PrivacyLedger | None = None,
    random_state: int | None = None,
) -> ReleasedStatistic:
    """Release a statistic with Laplace noise in proportion to its smooth sensitivity.

    The smooth sensitivity S is the maximum over k of ``exp(-beta * k)`` times the local sensitivity at distance k. It
    changes by a factor of at most ``exp(beta)`` between neighbors ([1]_), so the scale of the noise may depend on it.

    Parameters
    ----------
    statistic : callable or "mean"
        Called as ``statistic(X)``; returns a number. "mean" is the mean of a single column, without missing values.
    X : dataframe or array-like of shape (n_samples, n_features)
        Private table.
    bounds : pair of float
        Lowest and highest value of the statistic, from public knowledge. The values of a "mean" are clipped to them.
    epsilon : float
        Privacy loss, finite and > 0.
    delta : float
        Probability of a larger loss, in (0, 1).
    local_sensitivity : callable, optional
        Called as ``local_sensitivity(X, k)``: the largest change of the statistic by one record more or fewer, over all
        tables at a distance of at most k records from X. Required unless `statistic` is "mean".
    beta : float, optional
        Smoothness, > 0. A smaller beta needs less noise for a given S, but S may be larger. By default,
        ``log(1 + epsilon / (2 * max(1, log(1 / delta))))``.
    ledger : PrivacyLedger, optional
        Ledger that is charged before noise is drawn.
    random_state : None or int, default=None
        None uses secure randomness. Pass an int for reproducible experiments only: the release is then not private.

    Returns
    -------
    ReleasedStatistic
        The statistic as ``value`` with its ``guarantee``. Its ``std_error`` is nan, because the scale of the noise is
        private.

    Raises
    ------
    TypeError, ValueError
        If a parameter is out of range, beta is too large for epsilon and delta, or `statistic` or `local_sensitivity`
        fails. Error messages contain no values of X.
    BudgetExceeded
        If the ledger does not cover the release.

    See Also
    --------
    propose_test_release : Noise for a proposed sensitivity, after a private test.
    sample_and_aggregate : Any statistic, without its sensitivity.

    Notes
    -----
    **Privacy.** Central model, adding or removing one record, (epsilon, delta). With discrete Laplace noise of scale
    S / kappa, the loss is at most ``beta + kappa`` if the neighbor has the larger scale. If it has the smaller one,
    the loss exceeds epsilon only for noise beyond ``(epsilon - kappa) / (exp(beta) - 1)`` scales, which has a
    probability of at most delta for ``kappa <= epsilon - log(1 / delta) * (exp(beta) - 1)``. kappa is the smaller
    limit, minus the error of rounding. (The scale ``2 * S / epsilon`` of textbooks does not satisfy delta for an
    epsilon of more than about 12.) The guarantee requires a correct `local_sensitivity`, which cannot be checked here.

    References
    ----------
    .. [1] K. Nissim, S. Raskhodnikova, A. Smith (2007). Smooth sensitivity and sampling in private data analysis. STOC.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.central import smooth_sensitivity_release
    >>> ages = np.random.default_rng(0).integers(17, 90, size=30_000)
    >>> release = smooth_sensitivity_release("mean", ages, bounds=(0, 100), epsilon=1.0, delta=1e-9, random_state=0)
    >>> bool(abs(release.value - ages.mean()) < 0.1)
    True
    """
    table = _PrivateStatistic.read(statistic, X, bounds, local_sensitivity)
    exact_epsilon, exact_delta = _read_epsilon_delta(epsilon, delta)
    if beta is None:
        tail = max(log_upper(1 / exact_delta), 1)
        beta = math.log1p(float(exact_epsilon) / (2 * tail))
    exact_beta = check_epsilon(beta, name="beta")
    kappa = _find_kappa(exact_epsilon, exact_delta, exact_beta)
    scale = table.find_smooth_steps(exact_beta) / kappa

    guarantee, source = charge(
        "smooth_sensitivity_release",
        PrivacyBudget("epsilon", exact_epsilon),
        ledger,
        random_state,
        mechanism="smooth sensitivity, discrete Laplace",
        delta=exact_delta,
    )
    return ReleasedStatistic(table.add_noise(source, scale), math.nan, guarantee)


def _read_epsilon_delta(epsilon: Any, delta: Any) -> tuple[Fraction, Fraction]:
    """Check epsilon and a delta > 0, and return exact numbers."""
    exact_delta = check_delta(delta)
    if exact_delta == 0:
        raise ValueError(
            "`delta` must be in (0, 1), got 0. Use sample_and_aggregate for delta = 0."
        )
    return check_epsilon(epsilon), exact_delta


def _find_kappa(epsilon: Fraction, delta: Fraction, beta: Fraction) -> Fraction:
    """Return kappa, the ratio of the smooth sensitivity and the scale of the noise (see smooth_sensitivity_release).

    `beta` is the rate at which the smooth sensitivity may change from a table to a neighbor.
    """
    # Rounding to whole steps and to floats changes the ratio of two smooth sensitivities by
    # at most 2**-23, and the difference of two statistics by one step.
    ratio = beta + Fraction(2, MIN_SMOOTH_STEPS)
    # P(|noise| > u * scale) <= exp(-u + 1 / (2 * scale)) for discrete Laplace noise.
    # At least 1, which covers the loss beta + kappa if the neighbor has the larger scale,
    # because exp(beta) - 1 is at least beta.
    tail = max(Fraction(log_upper(1 / delta)), Fraction(1))
    tail += epsilon / MIN_SMOOTH_STEPS
    kappa = epsilon - tail * (exp_bounds(ratio)[1] - 1)
    if kappa <= 0:
        raise ValueError(
            f"`beta` must be smaller for epsilon = {float(epsilon):g} and delta = "
            f"{float(delta):g}, got {float(beta):g}. Omit it to use the default."
        )
    return kappa / (1 + Fraction(1, MIN_SMOOTH_STEPS))


@dataclass(frozen=True)
class _PrivateStatistic:
    """A statistic of a private table, clipped to public bounds, and its local sensitivity at each distance."""

    low: Fraction
    width: Fraction
    statistic: Fraction
    local_sensitivity: Callable[[int], Fraction]

    @classmethod
    def read(cls, statistic: Any, X: Any, bounds: Any, local_sensitivity: Any) -> Self:
        """Check the parameters, and compute the statistic of the private table, clipped to its bounds.

        `local_sensitivity` is a function of the table and the number of changed rows. It is None for "mean", whose
        local sensitivity is known.
        """
        limits = read_output_bounds(bounds)
        if len(limits) != 1:
            raise ValueError(
                f"`bounds` must be one pair (low, high), got {len(limits)} pairs."
            )
        low, high = map(Fraction, limits[0].tolist())
        width = high - low
        if isinstance(statistic, str) and statistic == "mean":
            positions = _read_positions(X, limits)
            n_values = len(positions)
            # The mean of no values is the middle of the bounds.
            mean = Fraction(sum(positions), 2 * GRID * max(n_values, 1))
            mean += Fraction(1, 2)
            return cls(
                low, width, low + width * mean, lambda k: width / max(n_values - k, 1)
            )
        if not callable(statistic) or not callable(local_sensitivity):
            raise TypeError(
                '`statistic` must be "mean", or a callable with a callable '
                f"`local_sensitivity`, got {type(statistic).__name__} and "
                f"{type(local_sensitivity).__name__}."
            )
        value = min(max(_call_safely(statistic, X), low), high)
        return cls(
            low,
            width,
            value,
            lambda k: min(
                max(_call_safely(local_sensitivity, X, k), Fraction(0)), width
            ),
        )

    @property
    def step(self) -> Fraction:
        """The width of a step of the grid."""
        return self.width / N_STEPS

    def add_noise(self, source: ByteSource, scale: Fraction) -> float:
        """Add discrete Laplace noise of a scale in steps, and clip the result to the bounds."""
        position = round((self.statistic - self.low) / self.step)
        position += discrete_laplace(source, scale, 1).item()
        return float(self.low + self.step * min(max(position, 0), N_STEPS))

    def find_smooth_steps(self, beta: Fraction) -> int:
        """Return the smooth sensitivity in whole steps, rounded up.

        It is the maximum over distances k of exp(-beta k) times the local sensitivity of tables with k other rows.
        """
        width, smooth = float(self.width), float(self.step * MIN_SMOOTH_STEPS)
        distance = 0
        # A local sensitivity is at most the width, so larger distances cannot increase the
        # maximum.
        while (decay := math.exp(-float(beta) * distance)) * width > smooth:
            smooth = max(smooth, decay * float(self.local_sensitivity(distance)))
            distance += 1
        # The relative rounding error of two exponentials and a product is below 2**-40.
        max_error = Fraction(1, 1 << 40)
        return math.ceil(Fraction(smooth) * (1 + max_error) / self.step)


def _read_positions(X: Any, limits: Floats) -> list[int]:
    """Round the values of a single column to the grid between the bounds; missing values are excluded.

    `limits` is one pair of bounds of shape (1, 2). A position is an integer from -`GRID` to `GRID`.
    """
    rows = read_rows(X, "X")
    if isinstance(rows, np.ndarray) and rows.ndim == 1:
        rows = rows[:, np.newaxis]
    table = wrap_table(rows)
    if len(table.columns) != 1:
        raise ValueError(
            "X must have one column for statistic='mean', got "
            f"{len(table.columns)} columns."
        )
    (values,) = to_float_columns(table, allow_missing=True)
    positions = to_grid(values[~np.isnan(values)], *limits[0])
    return positions.astype(np.int64).tolist()


def _call_safely(function: Callable[..., Any], *arguments: Any) -> Fraction:
    """Call a function of the private table; replace its errors, because they may contain values."""
    try:
        return Fraction(float(function(*arguments)))
    except (Exception, SystemExit) as error:
        raise ValueError(
            "`statistic` and `local_sensitivity` must return finite numbers, got "
            f"{type(error).__name__}. Try them on public rows."
        ) from None
