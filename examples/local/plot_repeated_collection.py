"""
Asking the same people again
============================

Fresh noise on each day averages out: who collects often enough learns every answer. With ``memoize=True`` an encoder
derives a permanent report from a secret key, the person and the value, so that asking again reveals nothing more.
"""

# %%
# `repeated_releases` plays the collector, who takes the most frequent report of each person.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skdp import RandomizedResponseEncoder, SecretKey
from skdp.evaluation import repeated_releases

rng = np.random.default_rng(0)
answers = ["never", "sometimes", "often"]
people = pd.DataFrame({"smokes": rng.choice(answers, 2_000, p=[0.6, 0.3, 0.1])})
releases = (1, 2, 4, 8, 16, 32)

fresh = RandomizedResponseEncoder(1.0, categories={"smokes": answers}, random_state=0)
permanent = RandomizedResponseEncoder(
    1.0, categories={"smokes": answers}, memoize=True, secret_key=SecretKey(b"an example: keep yours secret....")
)
by_fresh = repeated_releases(fresh.fit(people), people, n_releases=releases)
by_permanent = repeated_releases(permanent.fit(people), people, n_releases=releases, record_id=np.arange(len(people)))
by_fresh.round(3)

# %%
figure, axes = plt.subplots(layout="constrained")
for table, label in ((by_fresh, "fresh reports"), (by_permanent, "permanent reports")):
    axes.plot(table["n_releases"], table["accuracy"], "o-", label=label)
axes.axhline(0.6, color="grey", linewidth=0.8, linestyle="--", label="guessing the most frequent answer")
axes.set(xlabel="releases", ylabel="share of answers recovered", xscale="log", xticks=releases, xticklabels=releases)
axes.set_ylim(0.5, 1.02)
axes.legend()
plt.show()
