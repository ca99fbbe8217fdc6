"""How large epsilon must be, judged from how often an event came under each of two neighbours."""

from __future__ import annotations

import math

from scipy.stats import beta


def clopper_pearson(successes: int, trials: int, level: float) -> tuple[float, float]:
    """Bound a probability from both sides, each bound wrong with probability at most `level`."""
    # .. [1] C. Clopper, E. Pearson (1934). The use of confidence or fiducial limits illustrated in the case of the
    #    binomial. Biometrika 26(4).
    low = 0.0 if successes == 0 else float(beta.ppf(level, successes, trials - successes + 1))
    high = 1.0 if successes == trials else float(beta.isf(level, successes + 1, trials - successes))
    return low, high


def epsilon_lower_bound(hits: tuple[int, int], trials: tuple[int, int], *, delta: float, level: float) -> float:
    """Bound epsilon from below: ``ln((P - delta) / P')``, at the bounds of the two probabilities of an event."""
    low, _ = clopper_pearson(hits[0], trials[0], level / 2)
    _, high = clopper_pearson(hits[1], trials[1], level / 2)
    return math.log((low - delta) / high) if low - delta > high else 0.0
