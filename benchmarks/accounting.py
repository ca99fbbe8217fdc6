"""Epsilon of many releases together, for `compose`, ledgers, and dp-accounting.

Each release has the epsilon in the column "epsilon", and the total is computed for delta 1e-6. The values do not
depend on a seed. `compose` returns a proven upper bound. The optimistic estimate of dp-accounting ("peer:
dp-accounting, lower") is a lower bound up to rounding, so `compose` must not be below it. `releases` is the number of
releases of the first type of a table that a ledger with epsilon 5 accepts.

dp-accounting requires attrs before version 24, so it has a separate environment: `benchmarks/requirements.txt`.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial
from itertools import count
from typing import Any

from _tasks import Task

DELTA, SENSITIVITY = 1e-6, 1 << 20

# Types and numbers of releases; Gaussian noise has mu equal to epsilon.
LISTS: dict[str, list[tuple[str, int]]] = {
    "100 Laplace": [("laplace", 100)],
    "100 randomized response, 2 values": [("response 2", 100)],
    "100 randomized response, 8 values": [("response 8", 100)],
    "100 randomized response, 16 values": [("response 16", 100)],
    "100 randomized response, 148 values": [("response 148", 100)],
    "20 Gaussian": [("gaussian", 20)],
    "30 Laplace, 20 Gaussian": [("laplace", 30), ("gaussian", 20)],
    "60 randomized response, 5 Laplace, 5 Gaussian": [
        ("response 4", 60),
        ("laplace", 5),
        ("gaussian", 5),
    ],
}


def load_lists(quick: bool) -> dict[str, Any]:
    """Return lists of releases."""
    names = ["20 Gaussian"] if quick else LISTS
    return {name: partial(list, LISTS[name]) for name in names}


def make_release(kind: str, epsilon: float) -> Any:
    """Return the guarantee of a release."""
    from skdp.privacy import (
        GaussianLoss,
        PrivacyGuarantee,
        PureLoss,
        gaussian_epsilon,
        laplace_loss,
    )

    if kind == "laplace":
        loss = laplace_loss(Fraction(epsilon), SENSITIVITY)
        return PrivacyGuarantee(epsilon, losses=(loss,))
    if kind == "gaussian":
        stated = gaussian_epsilon(epsilon, DELTA / 20)
        return PrivacyGuarantee(
            stated, delta=DELTA / 20, losses=(GaussianLoss(epsilon),)
        )
    k = int(kind.split()[1])
    share = min(1.0, (math.exp(epsilon) + 1) / (math.exp(epsilon) + k - 1))
    return PrivacyGuarantee(epsilon, losses=(PureLoss(epsilon, share=share),))


def make_releases(table: list[tuple[str, int]], epsilon: float) -> list[Any]:
    """Return the guarantees of all releases."""
    releases = []
    for kind, number in table:
        releases += [make_release(kind, epsilon)] * number
    return releases


def compose_releases(table: Any, epsilon: float, seed: int) -> float:
    """Return the epsilon of the composition of all releases."""
    from skdp.privacy import compose

    return compose(make_releases(table, epsilon), delta=DELTA).epsilon


def filter_releases(kind: str, table: Any, epsilon: float, seed: int) -> float:
    """Return the epsilon that a ledger in rho or mu has spent, which holds for adaptive releases."""
    from skdp.privacy import PrivacyLedger, gaussian_epsilon, zcdp_epsilon

    ledger = PrivacyLedger(**{kind: 1e6})
    for release in make_releases(table, epsilon):
        ledger.charge(release, "release")
    spent = ledger.balance().loc["spent", kind]
    return (
        zcdp_epsilon(spent, DELTA) if kind == "rho" else gaussian_epsilon(spent, DELTA)
    )


def compose_by_dp_accounting(
    pessimistic: bool, table: Any, epsilon: float, seed: int
) -> float:
    """Return the epsilon of dp-accounting; its Laplace noise is on real numbers."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    options = {
        "value_discretization_interval": 1e-3,
        "pessimistic_estimate": pessimistic,
    }
    total: Any = None
    for kind, number in table:
        if kind == "gaussian":
            one = pld.from_gaussian_mechanism(1 / epsilon, **options)
        elif kind == "laplace":
            one = pld.from_laplace_mechanism(1 / epsilon, **options)
        else:
            k = int(kind.split()[1])
            one = pld.from_randomized_response(
                k / (math.exp(epsilon) + k - 1), k, **options
            )
        part = one.self_compose(number)
        total = part if total is None else total.compose(part)
    return float(total.get_epsilon_for_delta(DELTA))


TOTAL_METHODS = {
    "compose": compose_releases,
    "ledger, rho": partial(filter_releases, "rho"),
    "ledger, mu": partial(filter_releases, "mu"),
    "peer: dp-accounting": partial(compose_by_dp_accounting, True),
    "peer: dp-accounting, lower": partial(compose_by_dp_accounting, False),
}


def count_admitted(kind: str, table: Any, epsilon: float, seed: int) -> int:
    """Count the releases that fit into a ledger of epsilon 5."""
    from skdp import BudgetExceeded, PrivacyLedger
    from skdp.privacy import Rho, largest_mu

    budgets: dict[str, dict[str, float]] = {
        "sums": {"epsilon": 5.0, "delta": DELTA},
        "rho": {"rho": Rho.of(5.0, DELTA).rho},
        "mu": {"mu": largest_mu(5, DELTA)},
    }
    ledger = PrivacyLedger(**budgets[kind])
    release = make_release(table[0][0], epsilon)
    for number in count():
        try:
            ledger.charge(release, "release")
        except BudgetExceeded:
            return number


ADMITTED_METHODS = {
    f"ledger, {kind}": partial(count_admitted, kind) for kind in ("sums", "rho", "mu")
}


def load_kinds(quick: bool) -> dict[str, Any]:
    """Return lists of releases of one type."""
    return {
        kind: partial(list, [(kind, 1)])
        for kind in ("response 2", "response 8", "laplace", "gaussian")
    }


TASKS = {
    "total": Task(
        load_lists,
        TOTAL_METHODS,
        lambda table, epsilon: {"total_epsilon": epsilon},
        epsilons=(0.1, 0.02, 0.3),
        n_seeds=1,
    ),
    "admitted": Task(
        load_kinds,
        ADMITTED_METHODS,
        lambda table, number: {"releases": number},
        epsilons=(0.1, 1.0),
        n_seeds=1,
    ),
}
