"""
Count shuffled reports
======================

If only the sums of the reports are published, each report is hidden among all others. The same promise needs much less
noise than in the local model, where the reports themselves are seen.
"""

# %%
# What the sums shall guarantee, and how many honest reports there are at least:
from skdp import RandomizedResponseEncoder
from skdp.datasets import load_adult
from skdp.privacy import Shuffled, shuffled_guarantee

adult = load_adult()
people, domain = (
    adult.data[["education"]],
    adult.domain.select(["education"]),
)
wanted = Shuffled(epsilon=1.0, delta=1e-6, n=32_000)
summed = RandomizedResponseEncoder(wanted, categories=domain).fit(people)
summed.guarantee_

# %%
# That was the guarantee of one report: those who sum the reports are trusted not to look. Everybody else sees the sums:
shuffled_guarantee(summed, wanted.n, wanted.delta, released="tally")

# %%
# The estimated counts, beside those of the local model with the same epsilon:
import matplotlib.pyplot as plt
import numpy as np

local = RandomizedResponseEncoder(1.0, categories=domain).fit(people)
true = people["education"].value_counts().sort_index()
figure, axes = plt.subplots(layout="constrained", figsize=(8, 4))
places = np.arange(len(true))
axes.bar(places, true, 0.8, color="lightgrey", label="true")
for shift, marker, label, encoder in (
    (-0.2, "o", "local", local),
    (0.2, "s", "shuffled", summed),
):
    counts = encoder.estimate_counts(encoder.transform(people)).loc[
        true.index
    ]
    errors = [
        counts["count"] - counts["lower"],
        counts["upper"] - counts["count"],
    ]
    axes.errorbar(
        places + shift,
        counts["count"],
        yerr=errors,
        fmt=marker,
        label=f"{label}, epsilon 1",
    )
axes.set_xticks(places, true.index, rotation=60, ha="right")
axes.set_ylabel("people")
axes.legend()
plt.show()

# %%
# Where the reports themselves are published, they are shuffled first, without their row index:
from skdp.local import shuffle_reports

shuffle_reports(summed.transform(people)).head()
