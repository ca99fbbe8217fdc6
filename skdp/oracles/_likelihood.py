"""Maximum likelihood estimates of frequencies, with a bound of their distance from the maximum."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr
from scipy.optimize import nnls

TOLERANCE = 1e-3
"""The tolerated distance from the largest log-likelihood of all reports."""

_FEW_UPDATES = 50
_MANY_UPDATES = 1_000
_NEWTON_STEPS = 100
"""The most steps: of updates, few where Newton steps are cheap."""

_LITTLE_WORK = 2e9
_MOST_WORK = 1e11
"""Multiplications of a Newton step: cheap up to the first, too expensive beyond the second."""

_LEAST_REACH = 1e-6
"""The part of a Newton step below which an update is taken instead."""

Floats = NDArray[np.float64]


def likeliest_frequencies(likelihoods: Floats, repeats: NDArray[Any]) -> Floats:
    """Return the frequencies of maximum likelihood, up to `TOLERANCE`."""
    # The log-likelihood is concave, so its slopes bound the distance from its maximum:
    # with the mixture m of each report, no frequencies have one larger by more than ``n
    # (max_x mean(likelihood_x / m) - 1)``. Iterative Bayesian updates (EM, [1]_),
    # extrapolated ([2]_), take few steps where the reports are informative. Elsewhere
    # Newton steps follow, each the solution of a quadratic problem with the constraints
    # of frequencies ([3]_).
    # .. [1] R. Agrawal, C. Aggarwal (2001). On the design and quantification of privacy
    #    preserving data mining algorithms. PODS.
    # .. [2] R. Varadhan, C. Roland (2008). Simple and globally convergent methods for
    #    accelerating the convergence of any EM algorithm. Scandinavian Journal of
    #    Statistics 35(2).
    # .. [3] Y. Wang (2007). On fast computation of the non-parametric maximum
    #    likelihood estimate of a mixing distribution. Journal of the Royal Statistical
    #    Society B 69(2).
    n_distinct, k = likelihoods.shape
    work = n_distinct * k**2
    n_updates = _FEW_UPDATES if work <= _LITTLE_WORK else _MANY_UPDATES
    frequencies = np.full(k, 1 / k)
    frequencies, missing = _update(likelihoods, repeats, frequencies, n_updates)
    if missing > TOLERANCE and work <= _MOST_WORK:
        frequencies, missing = _climb(likelihoods, repeats, frequencies)
    if missing > TOLERANCE:
        warnings.warn(
            "the maximum likelihood was not reached: "
            f"the log-likelihood may be up to {missing:.2g} too small",
            RuntimeWarning,
            stacklevel=2,
        )
    return frequencies


def extrapolate(start: Floats, first: Floats, second: Floats) -> Floats:
    """Return frequencies extrapolated from two updates."""
    step, bend = first - start, second - 2 * first + start
    stretch = float(np.sqrt((step @ step) / max(float(bend @ bend), 1e-300)))
    further = start + 2 * stretch * step + stretch**2 * bend
    further = np.where(further > 0, further, second / 1000)
    return further / further.sum()


def _slopes(
    likelihoods: Floats, repeats: NDArray[Any], mixture: Floats
) -> tuple[Floats, float]:
    """Return the slopes, whose mean under the frequencies is 1, and the bound of the distance."""
    n = float(repeats.sum())
    slopes = (repeats / mixture) @ likelihoods / n
    return slopes, n * (float(slopes.max()) - 1)


def _score(repeats: NDArray[Any], mixture: Floats) -> float:
    return float(repeats @ np.log(mixture)) if mixture.min() > 0 else -math.inf


def _update(
    likelihoods: Floats, repeats: NDArray[Any], frequencies: Floats, rounds: int
) -> tuple[Floats, float]:
    """Repeat extrapolated updates up to the tolerance; also return the bound of the distance."""
    for _ in range(rounds):
        mixture = likelihoods @ frequencies
        slopes, missing = _slopes(likelihoods, repeats, mixture)
        if missing <= TOLERANCE:
            break
        first = frequencies * slopes
        second = first * _slopes(likelihoods, repeats, likelihoods @ first)[0]
        further = extrapolate(frequencies, first, second / second.sum())
        further_mixture = likelihoods @ further
        if _score(repeats, further_mixture) >= _score(repeats, mixture):
            second = further * _slopes(likelihoods, repeats, further_mixture)[0]
        frequencies = second / second.sum()
    return frequencies, _slopes(likelihoods, repeats, likelihoods @ frequencies)[1]


def _climb(
    likelihoods: Floats, repeats: NDArray[Any], frequencies: Floats
) -> tuple[Floats, float]:
    """Take Newton steps within the simplex up to the tolerance; also return the bound of the distance."""
    roots = np.sqrt(repeats)[:, np.newaxis]
    n = float(repeats.sum())
    for _ in range(_NEWTON_STEPS):
        mixture = likelihoods @ frequencies
        slopes, missing = _slopes(likelihoods, repeats, mixture)
        if missing <= TOLERANCE:
            break
        # -log(x / m) is (x / m - 2)**2 / 2 to second order; on the simplex, 2 is 2
        # times the sum of the frequencies.
        design = roots * (likelihoods / mixture[:, np.newaxis] - 2)
        step = _smallest(design) - frequencies
        gain = n * float(slopes @ step)
        reach = _step_length(repeats, mixture, likelihoods @ step, gain)
        moved = frequencies + reach * step
        if gain <= 0 or reach <= _LEAST_REACH:
            moved = frequencies * slopes
        moved = np.maximum(moved, 0)
        frequencies = moved / moved.sum()
    return frequencies, _slopes(likelihoods, repeats, likelihoods @ frequencies)[1]


def _step_length(
    repeats: NDArray[Any], mixture: Floats, change: Floats, gain: float
) -> float:
    """Halve a step until the score rises by a part of what its slope promises."""
    score = _score(repeats, mixture)
    reach = 1.0
    while reach > _LEAST_REACH:
        if _score(repeats, mixture + reach * change) >= score + reach * gain / 1000:
            break
        reach /= 2
    return reach


def _smallest(design: Floats) -> Floats:
    """Return the frequencies f with the least ``|design f|``, from non-negative least squares."""
    if design.shape[0] > design.shape[1]:
        design = qr(design, mode="r", check_finite=False)[0][: design.shape[1]]
    # One more row for the constraint that frequencies add up, of the size of the
    # others.
    size = float(np.linalg.norm(design, axis=0).min())
    rows = np.vstack([design, np.full(design.shape[1], size)])
    frequencies = nnls(rows, np.append(np.zeros(len(design)), size))[0]
    return frequencies / frequencies.sum()
