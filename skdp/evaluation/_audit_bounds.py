"""How large epsilon must be, judged from how often an event came under each of two neighbours."""

from __future__ import annotations

import math

from scipy.stats import beta


def clopper_pearson(successes: int, trials: int, level: float) -> tuple[float, float]:
    """Bound a probability from both sides, each bound wrong with probability at most `level`.

    Parameters
    ----------
    successes : int
        How often the event came, from 0 to `trials`.
    trials : int
        Independent trials.
    level : float
        The probability, for each side, that the bound is wrong; between 0 and 1.

    Returns
    -------
    tuple of float
        The lower and the upper bound ([1]_).

    References
    ----------
    .. [1] C. Clopper, E. Pearson (1934). The use of confidence or fiducial limits illustrated in the case of the
       binomial. Biometrika 26(4).

    Examples
    --------
    >>> low, high = clopper_pearson(5, 10, 0.025)
    >>> round(low, 3), round(high, 3)
    (0.187, 0.813)
    """
    low = 0.0 if successes == 0 else float(beta.ppf(level, successes, trials - successes + 1))
    high = 1.0 if successes == trials else float(beta.isf(level, successes + 1, trials - successes))
    return low, high


def epsilon_lower_bound(hits: tuple[int, int], trials: tuple[int, int], *, delta: float, level: float) -> float:
    """Bound epsilon from below: ``ln((P - delta) / P')``, at the bounds of the two probabilities of an event.

    Parameters
    ----------
    hits : tuple of int
        How often the event came under the one table, and under its neighbour.
    trials : tuple of int
        Independent releases of either.
    delta : float
        The failure probability that the claim allows.
    level : float
        The probability that the bound is wrong, shared evenly by the two probabilities.

    Returns
    -------
    float
        At least 0. If the release is (epsilon, delta)-private and the event was chosen without looking at these
        releases, it is above epsilon with probability at most `level`.

    Examples
    --------
    >>> round(epsilon_lower_bound((7500, 2500), (10_000, 10_000), delta=0.0, level=1e-6), 3)
    0.986
    """
    low, _ = clopper_pearson(hits[0], trials[0], level / 2)
    _, high = clopper_pearson(hits[1], trials[1], level / 2)
    return math.log((low - delta) / high) if low - delta > high else 0.0
