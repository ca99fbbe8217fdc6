"""How tight and how fast the accountant is, beside dp-accounting, and what the filters of a ledger admit.

Run ``make bench``: dp-accounting is in an environment of its own, as it is nothing that skdp needs.
"""

from __future__ import annotations

import math
import time

from _timing import write_results
from dp_accounting.pld import privacy_loss_distribution as pld

from skdp import BudgetExceeded
from skdp.privacy import (
    GaussianLoss,
    LaplaceLoss,
    Loss,
    PrivacyGuarantee,
    PrivacyLedger,
    PureLoss,
    Rho,
    compose,
    gaussian_epsilon,
    largest_mu,
    zcdp_epsilon,
)

DELTA, GRID, FINE = 1e-6, 1e-4, 1 << 20

ROWS: dict[str, list[Loss]] = {
    "100 Laplace 0.1": [LaplaceLoss(0.1, FINE, count=100)],
    "30 Laplace 0.1, 20 Gaussian 0.1": [
        LaplaceLoss(0.1, FINE, count=30),
        GaussianLoss(0.1, count=20),
    ],
    "30 Laplace 0.3, 20 Gaussian 0.1": [
        LaplaceLoss(0.3, FINE, count=30),
        GaussianLoss(0.1, count=20),
    ],
    "20 Gaussian 0.2": [GaussianLoss(0.2, count=20)],
    "100 randomised response 0.1, a mean of two sums 0.5": [
        PureLoss(0.1, count=100),
        LaplaceLoss(0.5, FINE, count=2),
    ],
    "1,000 Laplace 0.02": [LaplaceLoss(0.02, FINE, count=1000)],
}


def releases(losses: list[Loss]) -> list[PrivacyGuarantee]:
    """Return the guarantees of all releases, those of Gaussian noise with a twentieth of delta each."""
    made = []
    for loss in losses:
        number = loss.mu if isinstance(loss, GaussianLoss) else loss.epsilon
        one = type(loss)(number, *([FINE] if isinstance(loss, LaplaceLoss) else []))
        if isinstance(loss, GaussianLoss):
            stated = PrivacyGuarantee(
                gaussian_epsilon(number, DELTA / 20), DELTA / 20, losses=(one,)
            )
        else:
            stated = PrivacyGuarantee(number, losses=(one,))
        made += [stated] * loss.count
    return made


def peer(losses: list[Loss], *, pessimistic: bool) -> float:
    """Return the epsilon of dp-accounting, for Laplace noise on real numbers."""
    total, options = (
        None,
        {"value_discretization_interval": GRID, "pessimistic_estimate": pessimistic},
    )
    for loss in losses:
        if isinstance(loss, GaussianLoss):
            one = pld.from_gaussian_mechanism(1 / loss.mu, **options)
        elif isinstance(loss, LaplaceLoss):
            one = pld.from_laplace_mechanism(1 / loss.epsilon, **options)
        else:
            one = pld.from_randomized_response(
                2 / (1 + math.exp(loss.epsilon)), 2, **options
            )
        together = one.self_compose(loss.count)
        total = together if total is None else total.compose(together)
    return float(total.get_epsilon_for_delta(DELTA))


def tightness() -> list[list[str]]:
    rows = []
    for name, losses in ROWS.items():
        made = releases(losses)
        by_rho, by_mu = PrivacyLedger(rho=1e6), PrivacyLedger(mu=1e6)
        for one in made:
            by_rho.charge(one, "release")
            by_mu.charge(one, "release")
        spent = by_rho.balance().loc["spent"]
        start = time.process_time()
        found = compose(made, delta=DELTA).epsilon
        seconds = time.process_time() - start
        lower = peer(losses, pessimistic=False)
        filters = (
            zcdp_epsilon(spent["rho"], DELTA),
            gaussian_epsilon(by_mu.balance().loc["spent", "mu"], DELTA),
        )
        numbers = [
            spent["epsilon"],
            *filters,
            found,
            peer(losses, pessimistic=True),
            lower,
        ]
        above = 100 * (found / lower - 1)
        rows.append(
            [
                name,
                *(f"{number:.4g}" for number in numbers),
                f"{above:.2f}",
                f"{seconds:.2f}",
            ]
        )
    return rows


def admissions() -> list[list[str]]:
    """Count releases that a ledger of epsilon 5 admits."""
    rows = []
    kinds = {
        "epsilon 0.1": PrivacyGuarantee(0.1),
        "epsilon 1": PrivacyGuarantee(1.0),
        "Gaussian, mu 0.1, (0.327, 1e-7)": PrivacyGuarantee(
            gaussian_epsilon(0.1, 1e-7), 1e-7, rho=0.005, losses=(GaussianLoss(0.1),)
        ),
    }
    budgets = {
        "sums": {"epsilon": 5.0, "delta": DELTA},
        "rho": {"rho": Rho.of(5.0, DELTA).rho},
        "mu": {"mu": largest_mu(5, DELTA)},
    }
    for kind, guarantee in kinds.items():
        rows.append(
            [
                kind,
                *(str(admitted(budget, guarantee)) for budget in budgets.values()),
                str(planned(guarantee)),
            ]
        )
    return rows


def admitted(budget: dict[str, float], guarantee: PrivacyGuarantee) -> int:
    ledger, number = PrivacyLedger(**budget), 0
    while True:
        try:
            ledger.charge(guarantee, "release")
        except BudgetExceeded:
            return number
        number += 1


def planned(guarantee: PrivacyGuarantee) -> int:
    low, high = 1, 4096
    while high - low > 1:
        middle = (low + high) // 2
        try:
            fits = compose([guarantee] * middle, delta=DELTA).epsilon <= 5
        except ValueError:
            fits = False
        low, high = (middle, high) if fits else (low, middle)
    return low


def main() -> None:
    first = (
        "releases",
        "sum of epsilons",
        "filter, rho",
        "filter, mu",
        "compose",
        "dp-accounting",
        "its lower bound",
    )
    write_results(
        "accounting",
        "Accounting of many releases",
        ("skdp", "numpy", "scipy", "dp-accounting"),
        f"Epsilon at δ = {DELTA:g}. Laplace noise of skdp is discrete, with a sensitivity of {FINE:,} steps; that of "
        f"dp-accounting is real, on a grid of {GRID:g}. `compose` is proven above the truth; dp-accounting's lower "
        "bound is below it but for rounding. The filters hold if each release is chosen after seeing those before; the "
        "sum of epsilons has a twentieth of δ for each Gaussian release.",
        {
            "Six lists": ((*first, "compose above it, %", "compose, s"), tightness()),
            f"Releases that a ledger of ε = 5 and δ = {DELTA:g} admits": (
                (
                    "release",
                    "sums",
                    "largest rho",
                    "largest mu",
                    "plan",
                ),
                admissions(),
            ),
        },
    )


if __name__ == "__main__":
    main()
