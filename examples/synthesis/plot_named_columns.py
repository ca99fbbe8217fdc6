"""
Better protection for some columns
==================================

A synthetic table protects whole records. For age and sex alone it promises more, as most of what is measured does
not read them; and with a cap, as much more as one likes.
"""

# %%
# Seven columns of the Adult data. At an epsilon of .5 for a record that is added or removed, replacing a record has
# twice as much, while for its age and sex the release promises less: the counts of other columns do not move.

import itertools

import matplotlib.pyplot as plt
import numpy as np

from skdp import DPMarginalSynthesizer
from skdp.datasets import load_adult

adult = load_adult()
names = ["age", "sex", "education", "workclass", "race", "hours-per-week"]
names += ["income"]
people = adult.frame[names]
domain = adult.domain.select(names)
protected = ("age", "sex")


def fitted(seed, **parameters):
    synthesizer = DPMarginalSynthesizer(
        0.5, delta=1e-6, domain=domain, random_state=seed, **parameters
    )
    return synthesizer.fit(people)


synthesizer = fitted(0)
print(synthesizer.guarantee_.to("replace"))
print(synthesizer.guarantee_for(protected))

# %%
# That is the most that any choice of marginals could lose. Which ones are chosen follows from noise, so that what was
# lost is no promise. A cap is: a filter refuses what would exceed it.

capped = fitted(0, epsilon_for={protected: 0.2})
print(capped.guarantee_for(protected))
print(capped.guarantee_for(["sex"]))
print(capped.guarantee_)

# %%
# Errors of pairs of columns by the cap, as total variation. Pairs of other columns lose nothing.

codes = domain.encode([people[name] for name in names])


def errors(rows):
    """Return the mean errors of pairs with a protected column, and of others."""
    drawn = domain.encode([rows[name] for name in names])
    of_pairs = {True: [], False: []}
    for first, second in itertools.combinations(range(len(names)), 2):
        shape = domain.sizes[first], domain.sizes[second]
        shares = []
        for columns in (codes, drawn):
            pair = np.ravel_multi_index(
                (columns[first], columns[second]), shape
            )
            shares.append(np.bincount(pair, minlength=np.prod(shape)))
        truth, drawn_shares = (counts / counts.sum() for counts in shares)
        is_protected = {names[first], names[second]} & set(protected)
        error = np.abs(truth - drawn_shares).sum() / 2
        of_pairs[bool(is_protected)].append(error)
    return np.mean(of_pairs[True]), np.mean(of_pairs[False])


caps = [0.05, 0.1, 0.2, 0.4]
means = []
for cap in caps:
    results = []
    for seed in range(2):
        model = fitted(seed, epsilon_for={protected: cap})
        results.append(errors(model.sample(len(people))))
    means.append(np.mean(results, axis=0))
without = errors(fitted(0).sample(len(people)))

figure, axes = plt.subplots(figsize=(7, 3.2), layout="constrained")
labels = ["pairs with age or sex", "pairs of other columns"]
for index, label in enumerate(labels):
    color = f"C{index}"
    heights = [mean[index] for mean in means]
    axes.plot(caps, heights, marker="o", color=color, label=label)
    axes.axhline(
        without[index],
        color=color,
        linewidth=0.8,
        linestyle=":",
        label="without a cap",
    )
axes.set(
    xlabel="cap for age and sex of one record replaced",
    ylabel="error (total variation)",
    xscale="log",
    ylim=(0, None),
)
axes.set_xticks(caps, caps)
axes.minorticks_off()
axes.legend(frameon=False)
plt.show()

# %%
# Dotted: without a cap. What these epsilons do not promise is on the page "Named columns" of the guarantees:
# whoever knows the other columns of a person may guess the two without any release.
