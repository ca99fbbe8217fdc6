"""
What many releases cost together
================================

The epsilons of releases add up, always. For a δ there are smaller totals: filters, which hold if each release is chosen
after seeing those before, and `compose`, for a list that is fixed in advance.
"""

# %%
# Six lists at δ = 10⁻⁶: means with Laplace and with Gaussian noise, reports of randomised response, and mixes of them.
# Each estimator states in `guarantee_.losses` what its mechanism loses, beyond epsilon and delta.

import matplotlib.pyplot as plt
import numpy as np

from skdp import DPMean, PrivacyLedger, RandomizedResponseEncoder
from skdp.datasets import load_adult
from skdp.privacy import Mu, compose, zcdp_epsilon

DELTA = 1e-6
people = load_adult().frame


def mean(epsilon):
    return DPMean(epsilon, bounds=(0, 100)).fit(people[["age"]]).guarantee_


def response(epsilon):
    encoder = RandomizedResponseEncoder(
        epsilon, categories={"sex": ["Female", "Male"]}
    )
    return encoder.fit(people[["sex"]]).guarantee_


lists = {
    "100 Laplace 0.1": [mean(0.1)] * 100,
    "30 Laplace 0.1,\n20 Gaussian 0.1": [mean(0.1)] * 30
    + [mean(Mu(0.1, DELTA / 20))] * 20,
    "30 Laplace 0.3,\n20 Gaussian 0.1": [mean(0.3)] * 30
    + [mean(Mu(0.1, DELTA / 20))] * 20,
    "20 Gaussian 0.2": [mean(Mu(0.2, DELTA / 20))] * 20,
    "100 reports 0.1,\none mean 0.5": [response(0.1)] * 100 + [mean(0.5)],
    "1,000 Laplace 0.02": [mean(0.02)] * 1000,
}

# %%
# A ledger in ρ shows what all of them spend; its conversion to ε is what a filter needs.


def totals(releases):
    ledger = PrivacyLedger(rho=100)
    for release in releases:
        ledger.charge(release, "release")
    spent = ledger.balance().loc["spent"]
    return (
        spent["epsilon"],
        zcdp_epsilon(spent["rho"], DELTA),
        compose(releases, delta=DELTA).epsilon,
    )


table = np.array([totals(releases) for releases in lists.values()])
print(table.round(2))

# %%
figure, axes = plt.subplots(figsize=(8, 4), layout="constrained")
places = np.arange(len(lists))
names = (
    "added",
    "a filter of ρ: chosen one by one",
    "composed: declared together",
)
for number, (name, hatch) in enumerate(
    zip(names, ("", "//", ".."), strict=True)
):
    axes.bar(
        places + 0.27 * (number - 1),
        table[:, number],
        0.25,
        label=name,
        hatch=hatch,
    )
axes.set_xticks(places, lists, fontsize=8)
axes.set(ylabel="ε of all together, δ = 10⁻⁶")
figure.legend(loc="outside upper center", ncols=3)
plt.show()
