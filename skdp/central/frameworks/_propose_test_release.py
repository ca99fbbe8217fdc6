"""A released statistic and the grid of its noise; and propose, test, release."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.central._base import charge
from skdp.exact import exp_bounds, round_up
from skdp.oracles import check_size
from skdp.privacy import PrivacyGuarantee, PrivacyLedger, Share, check_delta, check_epsilon
from skdp.randomness import discrete_laplace, rounded_laplace

STEPS = 1 << 40
"""Steps of the grid between the public bounds of a statistic."""


@dataclass(frozen=True)
class Release:
    """A statistic released under a stated guarantee."""

    value: float | NDArray[np.float64]
    """The statistic with noise, clipped to its bounds; nan if it was refused."""
    std_error: float | NDArray[np.float64]
    """The standard deviation of the noise, before clipping; nan where it would reveal something private."""
    guarantee: PrivacyGuarantee
    """What was spent, also by a refusal."""
    released: bool = True
    """False if the mechanism refused."""
    n_failed: int | None = None
    """For `sample_and_aggregate`: a noisy number of chunks without a value, perhaps negative."""


@dataclass(frozen=True)
class OutputGrid:
    """The public grid that a statistic is rounded to after the noise."""

    low: Fraction
    high: Fraction

    @property
    def step(self) -> Fraction:
        """The width of a step."""
        return (self.high - self.low) / STEPS

    def place(self, value: Fraction) -> Fraction:
        """Place a value, clipped to the bounds; half a step is added, so that `floor` rounds to the nearest."""
        return (min(max(value, self.low), self.high) - self.low) / self.step + Fraction(1, 2)

    def value(self, place: int) -> float:
        """Convert a released place to a value between the bounds."""
        return float(self.low + self.step * min(max(place, 0), STEPS))


def read_output_bounds(bounds: Any) -> OutputGrid:
    """Check the public bounds of one statistic."""
    try:
        low, high = bounds
    except (TypeError, ValueError):
        raise ValueError("bounds must be a pair (low, high) of what the statistic can publicly be") from None
    exact = [read_number(end, "bounds") for end in (low, high)]
    if exact[0] >= exact[1]:
        raise ValueError(f"bounds must have low < high, got ({float(exact[0]):g}, {float(exact[1]):g})")
    return OutputGrid(*exact)


def read_number(value: Any, name: str) -> Fraction:
    """Check a finite real number and return it exactly."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a finite number, got {type(value).__name__}")
    if isinstance(value, int | Fraction):
        return Fraction(value)
    if not np.isfinite(float(value)):
        raise ValueError(f"{name} must be a finite number")
    return Fraction(float(value))


def propose_test_release(
    value: float | Fraction,
    distance: int,
    *,
    sensitivity: float | Fraction,
    bounds: tuple[float, float],
    epsilon: float,
    delta: float,
    test_share: float = 0.1,
    ledger: PrivacyLedger | None = None,
    random_state: int | None = None,
) -> Release:
    """Release a statistic with noise for a proposed sensitivity, if the data pass a private test.

    The proposal is a bound b on how far one record can move the statistic. The test is whether the data are far from
    any table where it is wrong: `distance` plus discrete Laplace noise of scale 1 / epsilon_1 must reach a threshold.
    If so, the statistic is released with Laplace noise of scale b / epsilon_2; otherwise nothing is ([1]_).

    Parameters
    ----------
    value : float, int or Fraction
        The statistic of the private table.
    distance : int
        The least number of records to add or remove to reach a table at which adding or removing one more can move the
        statistic by more than `sensitivity`; or a lower bound of it that changes by at most 1 between neighbours.
    sensitivity : float
        The proposed bound b, positive, chosen without looking at the data.
    bounds : pair of float
        The lowest and the highest value of the statistic, from what is publicly known.
    epsilon : float
        Privacy loss, finite and > 0.
    delta : float
        Failure probability, between 0 and 1, both excluded.
    test_share : float, default=0.1
        The share of epsilon that goes to the test, between 0 and 1: it needs little where there are many records.
    ledger : PrivacyLedger, optional
        What is charged, before anything is drawn.
    random_state : None or int, default=None
        None for secure random bits; an int for experiments, which draws the same noise in every call.

    Returns
    -------
    Release
        The statistic as ``value``, with the ``std_error`` of its noise and its ``guarantee``; or a refusal, which costs
        as much: nan, with ``released=False``.

    Raises
    ------
    TypeError, ValueError
        If a parameter is out of range. No error shows the statistic or the distance.
    BudgetExceeded
        If the ledger does not cover it.

    Notes
    -----
    **Privacy.** Central model, adding or removing a record, ``(epsilon, delta)``: at a distance of 0 the test passes
    with probability at most delta, and anything may be revealed; otherwise neighbours' statistics differ by at most b,
    and test and release compose to epsilon_1 + epsilon_2. The threshold is the smallest T with
    ``e**(-epsilon_1 T) / (1 + e**-epsilon_1) <= delta``. The guarantee requires that `distance` is correct: the
    function cannot check it.

    References
    ----------
    .. [1] C. Dwork, J. Lei (2009). Differential privacy and robust statistics. STOC.

    Examples
    --------
    The mean of 10,000 ages in [0, 100] moves by at most 0.02 while there are 5,000 records or more:

    >>> release = propose_test_release(
    ...     38.5, 10_000 - 5_000 + 1, sensitivity=0.02, bounds=(0, 100), epsilon=1.0, delta=1e-6, random_state=0
    ... )
    >>> release.released, round(release.value, 2)
    (True, 38.56)
    >>> print(release.guarantee)
    epsilon = 1, delta = 0.000001, central model, adding or removing one record,
    NOT SECURE: the randomness comes from a seed
    """
    grid = read_output_bounds(bounds)
    center = grid.place(read_number(value, "value"))
    bound = read_number(sensitivity, "sensitivity")
    if bound <= 0:
        raise ValueError("sensitivity must be a finite number > 0")
    try:
        far = check_size(distance, least=0, most=1 << 62, name="distance")
    except ValueError:
        raise ValueError("distance must be an integer of at least 0") from None
    exact, exact_delta = check_epsilon(epsilon), check_delta(delta)
    if exact_delta == 0:
        raise ValueError("delta must be above 0: propose-test-release fails with a small probability, delta")
    of_test = read_number(test_share, "test_share")
    if not 0 < of_test < 1:
        raise ValueError(f"test_share must be between 0 and 1, got {test_share}")
    test, release = exact * of_test, exact * (1 - of_test)
    threshold = pass_threshold(test, exact_delta)
    what, mechanism = "propose_test_release", "propose-test-release"
    share = Share("epsilon", exact)
    guarantee, source = charge(what, share, ledger, random_state, mechanism=mechanism, n_rows=None, delta=exact_delta)
    if far + discrete_laplace(source, 1 / test, 1).item() < threshold:
        return Release(math.nan, math.nan, guarantee, released=False)
    scale = bound / release
    place = rounded_laplace(source, center, scale / grid.step)
    return Release(grid.value(place), math.sqrt(2) * round_up(scale), guarantee)


def pass_threshold(epsilon: Fraction, delta: Fraction) -> int:
    """Return the smallest number that discrete Laplace noise of scale 1 / epsilon reaches with probability <= delta."""
    most = Fraction(800)  # beyond e^800 is every 1 / delta of a float

    def rare(threshold: int) -> bool:
        tail = exp_bounds(min(epsilon * threshold, most))[0]
        return tail * (1 + 1 / exp_bounds(min(epsilon, most))[1]) * delta >= 1

    decay = math.log1p(math.exp(-float(min(epsilon, most))))
    guess = Fraction(math.log(delta.denominator) - math.log(delta.numerator) - decay) / epsilon
    if guess > 1 << 40:
        return math.ceil(guess * (1 + Fraction(1, 10**9)))
    threshold = max(1, math.floor(guess * (1 - Fraction(1, 10**12))) - 1)
    while not rare(threshold):
        threshold += 1
    return threshold
