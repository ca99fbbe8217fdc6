"""
Repeated collection: fresh and permanent reports
================================================

If people report every day with new noise, the collector can recover their answers. With ``memoize=True``, an encoder
repeats the report of a person while the value stays the same.
"""

# %%
# The collector uses the most frequent report of each person as the answer.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skdp import RandomizedResponseEncoder, SecretKey

rng = np.random.default_rng(0)
answers = ["never", "sometimes", "often"]
people = pd.DataFrame(
    {"smokes": rng.choice(answers, 2_000, p=[0.6, 0.3, 0.1])}
)
releases = [1, 2, 4, 8, 16, 32]


def recovered(
    encoder: RandomizedResponseEncoder, person: list[int] | None = None
) -> dict[int, float]:
    """Return the proportion of recovered answers by the number of releases."""
    encoder.fit(people)
    votes = np.zeros((len(people), len(answers)))
    shares: dict[int, float] = {}
    for n_releases in range(1, max(releases) + 1):
        reports = encoder.transform(people, person=person)["smokes"]
        for place, answer in enumerate(answers):
            votes[:, place] += reports == answer
        guesses = np.array(answers)[votes.argmax(axis=1)]
        shares[n_releases] = float((guesses == people["smokes"]).mean())
    return {n_releases: shares[n_releases] for n_releases in releases}


fresh = RandomizedResponseEncoder(
    1.0, categories={"smokes": answers}, random_state=0
)
permanent = RandomizedResponseEncoder(
    1.0,
    categories={"smokes": answers},
    memoize=True,
    secret_key=SecretKey(b"an example: keep yours secret...."),
)
table = pd.DataFrame(
    {
        "fresh reports": recovered(fresh),
        "permanent reports": recovered(
            permanent, person=list(range(len(people)))
        ),
    }
)
table.round(3)

# %%
figure, axes = plt.subplots(layout="constrained")
for label, shares in table.items():
    axes.plot(shares, "o-", label=label)
axes.axhline(
    0.6,
    color="grey",
    linewidth=0.8,
    linestyle="--",
    label="guessing the most frequent answer",
)
axes.set(
    xlabel="releases",
    ylabel="proportion of recovered answers",
    xscale="log",
    xticks=releases,
    xticklabels=releases,
)
axes.set_ylim(0.5, 1.02)
figure.legend(loc="outside lower center", ncols=2)
plt.show()
