"""Bounds of sums of noise, sums of noisy counts, and expectations of counts given noisy counts."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import erfcx

from skdp._arrays import Floats

# Probability that noise alone moves a limit to the end of several cells that together seem to
# have records, over all such ranges of both sides.
GATHER_RISK = 0.05


def bound_noise(width: int, evidence: float) -> float:
    """Bound the sum of `width` Laplace variables of scale 1, except with a probability of e**-evidence."""
    if width == 1:
        return evidence
    # The form of Bernstein's inequality, with constants for the sums of 2 to 16 variables.
    evidence = evidence - 2
    return 2 * math.sqrt(width * evidence) + 0.4 * evidence


def expect_count(counted: float, prior_mean: float, error: float) -> float:
    """Return the posterior mean of a count with an exponential prior, given its noisy count with a normal error."""
    # The posterior is a normal distribution of this mean, truncated to positive numbers.
    mean = counted - error**2 / prior_mean
    z = mean / error
    # The density divided by the probability, without underflow of both.
    hazard = math.sqrt(2 / math.pi) / float(erfcx(-z / math.sqrt(2)))
    return max(mean + error * hazard, 0.0)


def gather_cells(counts: Floats, last: int, stop: int, scale: float) -> int:
    """Move a limit from the cell `last` to the end of cells up to `stop` that together clearly have records."""
    while (size := stop - last) > 0:
        sums = np.cumsum(counts[last + 1 : stop + 1])
        widths = [1 << power for power in range(size.bit_length())]
        evidence = math.log(2 * len(widths) / GATHER_RISK)
        clear = [w for w in widths if sums[w - 1] > bound_noise(w, evidence) * scale]
        if not clear:
            break
        # The limit includes all but about as many records as the noise.
        rest = sums[clear[-1] - 1] - np.append(0.0, sums[: clear[-1] - 1])
        error = scale * np.sqrt(2 * np.arange(clear[-1], 0, -1))
        last += 1 + int(np.flatnonzero(rest > error)[-1])
    return last
