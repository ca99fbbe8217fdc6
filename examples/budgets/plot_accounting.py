"""
What many releases cost together
================================

The epsilons of releases add up, always. For a δ there are smaller totals: filters, which hold if each release is chosen
after seeing those before, and `compose`, for a list that is fixed in advance.
"""

# %%
# Six lists at δ = 10⁻⁶: noise of real statistics, reports of randomised response, and mixes of them.

import matplotlib.pyplot as plt
import numpy as np

from skdp import PrivacyGuarantee, PrivacyLedger
from skdp.privacy import GaussianLoss, LaplaceLoss, PureLoss, compose, gaussian_epsilon, zcdp_epsilon

DELTA, STEPS = 1e-6, 1_000_000


def laplace(epsilon):
    return PrivacyGuarantee(epsilon, losses=(LaplaceLoss(epsilon, STEPS),))


def response(epsilon):
    return PrivacyGuarantee(epsilon, losses=(PureLoss(epsilon),))


def gaussian(mu):
    return PrivacyGuarantee(gaussian_epsilon(mu, DELTA / 20), DELTA / 20, losses=(GaussianLoss(mu),))


lists = {
    "100 Laplace 0.1": [laplace(0.1)] * 100,
    "30 Laplace 0.1,\n20 Gaussian 0.1": [laplace(0.1)] * 30 + [gaussian(0.1)] * 20,
    "30 Laplace 0.3,\n20 Gaussian 0.1": [laplace(0.3)] * 30 + [gaussian(0.1)] * 20,
    "20 Gaussian 0.2": [gaussian(0.2)] * 20,
    "100 reports 0.1,\none mean 0.5": [response(0.1)] * 100 + [laplace(0.5)] * 2,
    "1,000 Laplace 0.02": [laplace(0.02)] * 1000,
}

# %%
# A ledger in ρ shows what all of them spend; its conversion to ε is what a filter needs.


def totals(releases):
    ledger = PrivacyLedger(rho=100)
    for release in releases:
        ledger.charge(release, "release")
    spent = ledger.balance().loc["spent"]
    return spent["epsilon"], zcdp_epsilon(spent["rho"], DELTA), compose(releases, delta=DELTA).epsilon


table = np.array([totals(releases) for releases in lists.values()])
print(table.round(2))

# %%
figure, axes = plt.subplots(figsize=(8, 4), layout="constrained")
places = np.arange(len(lists))
names = ("added", "a filter of ρ: chosen one by one", "composed: declared together")
for number, (name, hatch) in enumerate(zip(names, ("", "//", ".."), strict=True)):
    axes.bar(places + 0.27 * (number - 1), table[:, number], 0.25, label=name, hatch=hatch)
axes.set_xticks(places, lists, fontsize=8)
axes.set(ylabel="ε of all together, δ = 10⁻⁶")
figure.legend(loc="outside upper center", ncols=3)
plt.show()
