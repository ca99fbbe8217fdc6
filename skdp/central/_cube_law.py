"""How far cube noise reaches: what standard errors and intervals of the cube mechanism are made of."""

from __future__ import annotations

import math

from scipy.optimize import brentq
from scipy.special import gammainc

# Cube noise of scale 1 in D dimensions has the density e^-max|z| up to a factor. That is a mixture of uniform laws on
# cubes: half the side is R, which has a gamma law of shape D + 1.


def cube_std(dimension: int) -> float:
    """Return the standard deviation of a coordinate of cube noise of scale 1."""
    return math.sqrt((dimension + 1) * (dimension + 2) / 3)


def cube_quantile(level: float, dimension: int, slope: float) -> float:
    """Return how far ``z_1 - slope z_2`` of cube noise of scale 1 reaches with a given probability."""
    # For two uniform numbers on [-1, 1] the combination has the law of a trapezoid. Its tail is 1 - y up to 1 - slope,
    # and then ``(1 + slope - y)**2 / (4 slope)``: polynomials in reach / R, whose means over R are known.
    shape, longest = dimension + 1, 1 + slope

    def share(power: int, low: float, high: float) -> float:
        # The integral of R**-power over the gamma law from low to high.
        factor = math.prod(range(shape - power, shape))
        return float(gammainc(shape - power, high) - gammainc(shape - power, low)) / factor

    def beyond(reach: float) -> float:
        near = reach / (1 - slope) if slope < 1 else math.inf
        tail = share(0, near, math.inf) - reach * share(1, near, math.inf) if slope < 1 else 0.0
        if slope > 0:
            ends = reach / longest, near
            square = longest**2 * share(0, *ends) - 2 * longest * reach * share(1, *ends) + reach**2 * share(2, *ends)
            tail += square / (4 * slope)
        return tail - (1 - level)

    return float(brentq(beyond, 0, 40 * dimension - 40 * math.log(1 - level)))
