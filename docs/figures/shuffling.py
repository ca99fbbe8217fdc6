"""Pictures of the page about shuffled reports."""

import math
from functools import partial
from types import SimpleNamespace

import numpy as np
from matplotlib import pyplot as plt
from scipy.stats import binom
from sklearn.datasets import load_digits

from skdp.datasets import load_adult
from skdp.oracles import RandomizedResponse
from skdp.privacy import ReportPair, local_epsilon, shuffled_guarantee

DELTA = 1e-6
EPSILONS = (0.1, 0.3, 0.5, 1.0, 2.0)


def _closed_form(epsilon, n):
    """Return the bound of Feldman, McMillan and Talwar (2021)."""
    spread = (
        4
        * math.sqrt(2 * math.log(4 / DELTA))
        / math.sqrt((math.exp(epsilon) + 1) * n)
        + 4 / n
    )
    return math.log(1 + math.expm1(epsilon) * spread)


def _attained(local, n):
    """Return about what an attacker attains who knows that all others hold the same one of four values."""
    oracle = RandomizedResponse(4, local)
    p, q = oracle.p, oracle.q
    first = ((p, q, p), (q, p, q), (2 * q, 2 * q, 2 * q))
    third = ((p, q, q), (q, p, q), (q, q, p), (q, q, q))
    # If all hold the same value, every report of another record is random: the bound is attained.
    known = [
        SimpleNamespace(
            epsilon=local, shuffle_pair=partial(ReportPair, classes)
        )
        for classes in (first, third)
    ]
    return max(
        shuffled_guarantee(one, n=n, delta=DELTA).epsilon for one in known
    )


def amplification():
    """Draw epsilon after shuffling by the local epsilon."""
    axes = plt.subplots(figsize=(6.4, 3.8))[1]
    local = np.linspace(0.5, 8, 9)
    for place, n in enumerate((1_000, 45_222, 1_000_000)):
        bounds = [
            shuffled_guarantee(
                RandomizedResponse(4, epsilon), n=n, delta=DELTA
            ).epsilon
            for epsilon in local
        ]
        axes.semilogy(
            local, bounds, color=f"C{place}", label=f"{n:,} reports"
        )
        shown = local[4::2]
        axes.semilogy(
            shown,
            [_attained(epsilon, n) for epsilon in shown],
            "os^"[place],
            color=f"C{place}",
        )
    holds = local[local <= math.log(45_222 / (16 * math.log(2 / DELTA)))]
    axes.semilogy(
        holds,
        [_closed_form(epsilon, 45_222) for epsilon in holds],
        "--",
        color="C1",
        label="closed form",
    )
    axes.set(
        xlabel="epsilon of a report", ylabel="epsilon of shuffled reports"
    )
    axes.legend()


def cost():
    """Draw the errors of counts in three models, by epsilon."""
    people = load_adult(subset="all", dropna=True).data
    adult = 2 * (people["age"].to_numpy() > 37) + (
        people["sex"].to_numpy() == "Male"
    )
    panels = plt.subplots(1, 2, figsize=(7.4, 3.5))[1]
    tables = {"Adult: age and sex": adult, "digits": load_digits().target}
    for axes, (name, codes) in zip(panels, tables.items(), strict=True):
        counts, n = np.bincount(codes), len(codes)
        k = counts.size

        def error(local, counts=counts, n=n, k=k):
            return math.sqrt(
                RandomizedResponse(k, local).variance(counts, n).sum()
            )

        def of_curator(epsilon, k=k):
            share = math.exp(-epsilon)
            return math.sqrt(k * 2 * share) / (1 - share)

        def shuffled(epsilon, n=n, k=k, error=error):
            return error(
                local_epsilon(
                    epsilon,
                    delta=DELTA,
                    n=n,
                    reporter=lambda local: RandomizedResponse(k, local),
                )
            )

        models = {
            "local": error,
            "shuffled": shuffled,
            "curator": of_curator,
        }
        for marker, (label, model) in zip(
            "os^", models.items(), strict=True
        ):
            axes.loglog(
                EPSILONS,
                [model(epsilon) for epsilon in EPSILONS],
                f"{marker}-",
                label=label,
            )
        axes.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
        axes.minorticks_off()
        axes.set(title=name, xlabel="epsilon (smaller is more private)")
        axes.legend()
    panels[0].set_ylabel("L2 error of the counts")


def hidden():
    """Draw the laws of the number of reports of a value, for two values of one record among 40."""
    oracle = RandomizedResponse(3, 2.0)
    p, q, n = float(oracle.p), float(oracle.q), 40
    reports = np.arange(n + 1)
    others = binom.pmf(reports, n - 1, q)
    before = np.concatenate([[0.0], others[:-1]])
    axes = plt.subplots(figsize=(6, 3.2))[1]
    shown = reports < 14
    for place, (share, label) in enumerate(
        ((p, "the record has this value"), (q, "it has another one"))
    ):
        law = share * before + (1 - share) * others
        axes.bar(
            reports[shown] + 0.4 * place - 0.2,
            law[shown],
            0.4,
            label=label,
            hatch=["", "//"][place],
        )
    axes.set(xlabel="reports of a value", ylabel="probability")
    axes.legend()
