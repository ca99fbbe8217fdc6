"""Epsilon of shuffled reports: the guarantee, a lower bound from an attack, and the published closed form.

The column "epsilon" is the epsilon of a report, except in the task "local", where it is the epsilon after shuffling.
Delta is 1e-6. The values do not depend on a seed. "attack" is a lower bound: the epsilon that is attained by an
attacker who knows that all other records are equal, for randomized response of three values or more. "closed form" is
the bound of Feldman, McMillan and Talwar (2021), theorem 3.1, if its conditions hold.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
from _tasks import Task
from scipy.optimize import brentq
from scipy.stats import binom

DELTA = 1e-6
SETTINGS = [(n, k) for n in (1_000, 45_222, 10**7) for k in (3, 30)]


def load_settings(quick: bool) -> dict[str, Any]:
    """Return numbers of records and of values."""
    settings = SETTINGS[:1] if quick else SETTINGS
    return {f"{n} records, {k} values": partial(tuple, (n, k)) for n, k in settings}


def amplify(name: str, table: Any, epsilon: float, seed: int) -> float:
    """Return the epsilon of shuffled reports of an oracle."""
    from skdp import oracles
    from skdp.privacy import shuffled_guarantee

    n, k = table
    oracle = getattr(oracles, name)(k, epsilon)
    return shuffled_guarantee(oracle, n=n, delta=DELTA, released="reports").epsilon


def amplify_columns(table: Any, epsilon: float, seed: int) -> float:
    """Return the epsilon of tallies of four columns of an encoder."""
    from skdp import RandomizedResponseEncoder
    from skdp.privacy import shuffled_guarantee

    n, k = table
    encoder = RandomizedResponseEncoder(epsilon, categories=[list(range(k))] * 4)
    encoder.fit(np.zeros((1, 4), dtype=np.uint8))
    return shuffled_guarantee(encoder, n=n, delta=DELTA, released="tally").epsilon


def apply_closed_form(table: Any, epsilon: float, seed: int) -> float:
    """Return the published bound, or the local epsilon if its conditions do not hold."""
    n, _ = table
    if epsilon > math.log(n / (16 * math.log(2 / DELTA))):
        return epsilon
    spread = (
        4 * math.sqrt(2 * math.log(4 / DELTA) / ((math.exp(epsilon) + 1) * n)) + 4 / n
    )
    return min(epsilon, math.log(1 + math.expm1(epsilon) * spread))


def attack(table: Any, epsilon: float, seed: int) -> float:
    """Return a lower bound of the epsilon of shuffled randomized response."""
    n, k = table
    odds = math.exp(epsilon)
    p, q = odds / (odds + k - 1), 1 / (odds + k - 1)

    def measure_excess(central: float) -> float:
        return math.log(max(attain_delta(p, q, k, n, central), 1e-300) / DELTA)

    largest = epsilon * (1 - 1e-9)
    if measure_excess(largest) > 0:
        return largest
    return float(brentq(measure_excess, 1e-9, largest, rtol=1e-6))


def attain_delta(p: float, q: float, k: int, n: int, epsilon: float) -> float:
    """Return the delta of the attack if all other records have one of the two values of the record."""
    ratio = math.exp(epsilon)
    spread = 9 * math.sqrt(n * (k - 1) * q * (1 - (k - 1) * q)) + 30
    middle = n * (k - 1) * q
    c = np.arange(max(0, int(middle - spread)), min(n, int(middle + spread)) + 1)
    mass = binom.pmf(c, n, (k - 1) * q)
    same = (n - c) * (1 - ratio * q / p) + c * (1 - ratio)
    other = (n - c) * (q / p - ratio) + c * (1 - ratio)
    first = mass @ average_excess(same, ratio * (1 - p / q), c, 1 / (k - 1))
    second = mass @ average_excess(other, p / q - 1, c, 1 / (k - 1))
    return float(max(first, second)) / n


def average_excess(start: Any, slope: float, count: Any, share: float) -> Any:
    """Return ``E[(start + slope h)+]`` for binomial h."""
    if slope < 0:
        start, slope, share = start + slope * count, -slope, 1 - share
    smallest = np.floor(-start / slope) + 1
    mean = count * share * binom.sf(smallest - 2, np.maximum(count - 1, 0), share)
    return slope * mean + start * binom.sf(smallest - 1, count, share)


ORACLES = ("RandomizedResponse", "UnaryEncoding", "SubsetSelection", "LocalHashing")
SHUFFLED_METHODS: dict[str, Any] = {
    f"{name}, reports": partial(amplify, name) for name in ORACLES
} | {
    "RandomizedResponseEncoder, four columns, tally": amplify_columns,
    "closed form": apply_closed_form,
    "attack": attack,
}


def find_local(table: Any, epsilon: float, seed: int) -> float:
    """Return the largest local epsilon of randomized response with a given epsilon after shuffling."""
    from skdp.oracles import RandomizedResponse
    from skdp.privacy import local_epsilon

    n, k = table
    return local_epsilon(
        epsilon, delta=DELTA, n=n, reporter=partial(RandomizedResponse, k)
    )


TASKS = {
    "shuffled": Task(
        load_settings,
        SHUFFLED_METHODS,
        lambda table, epsilon: {"shuffled_epsilon": epsilon},
        epsilons=(1.0, 0.5, 2.0, 4.0, 6.0),
        n_seeds=1,
    ),
    "local": Task(
        load_settings,
        {"RandomizedResponse": find_local},
        lambda table, epsilon: {"local_epsilon": epsilon},
        epsilons=(0.3, 0.1, 1.0),
        n_seeds=1,
    ),
}
