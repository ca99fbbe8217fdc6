"""
Shares of a budget: epsilon, rho or mu
======================================

Releases that are (1, 1e-6)-private together may share this budget in three ways. Epsilons add up, and so do rhos and
the squares of mu: the noise of the latter grows with the root of the number of releases only, but pays for delta first.
"""

# %%
# The error of a count, by the number of releases: Gaussian noise is less from ten releases on.
import matplotlib.pyplot as plt
import pandas as pd

from skdp import DPHistogram, DPMean, PrivacyLedger
from skdp.datasets import load_adult
from skdp.privacy import Mu, Rho

adult = load_adult()
sexes = adult.data[["sex"]]
numbers = [1, 2, 5, 10, 20, 50, 100]


def shares(n):
    return {
        "epsilon": 1 / n,
        "rho": Rho.of(1, 1e-6).split(n),
        "mu": Mu.of(1, 1e-6).split(n),
    }


def count_error(share):
    return (
        DPHistogram(share, domain=adult.domain.select(["sex"]))
        .fit(sexes)
        .std_error_[0]
    )


counts = pd.DataFrame(
    [
        {name: count_error(share) for name, share in shares(n).items()}
        for n in numbers
    ],
    index=numbers,
)
counts.round(1)

# %%
# The means of five columns are one release of ten numbers, all of which one record changes. The noise for a share of
# epsilon grows with their number, Gaussian noise with its root.
columns = [
    "age",
    "education-num",
    "hours-per-week",
    "capital-gain",
    "capital-loss",
]
bounds = dict(
    zip(
        columns,
        [(0, 100), (1, 16), (1, 100), (0, 100_000), (0, 5_000)],
        strict=True,
    )
)
people = adult.frame[columns]


def mean_error(share):
    return DPMean(share, bounds=bounds).fit(people).std_error_[0]


means = pd.DataFrame(
    [
        {name: mean_error(share) for name, share in shares(n).items()}
        for n in numbers
    ],
    index=numbers,
)

figure, axes = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
titles = (
    "Standard error of a count",
    "Standard error of the mean age, one of five",
)
for axis, errors, title in zip(axes, (counts, means), titles, strict=True):
    for name in errors:
        axis.plot(
            errors.index,
            errors[name],
            marker="o",
            markersize=3,
            label=f"shares of {name}",
        )
    axis.set(xscale="log", yscale="log", xlabel="releases", title=title)
axes[0].legend(frameon=False)

# %%
# A ledger in mu admits as many shares as were planned, with queries that depend on earlier results.
total = Mu.of(epsilon=1, delta=1e-6)
ledger = PrivacyLedger(mu=total.mu)
for _ in range(10):
    DPMean(total.split(10), bounds=bounds, ledger=ledger).fit(people)
ledger.balance()
