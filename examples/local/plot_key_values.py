"""
Keys with numbers
=================

A record may rate some films. `KeyValueEncoder` reports the whole set of pairs under one epsilon; how many records rate
each film, and the mean of its ratings, are estimated from the same reports.
"""

# %%
# 20,000 records rate up to three of twelve films; the popular ones are not the good ones.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skdp import KeyValueEncoder

rng = np.random.default_rng(0)
films = [f"film {place}" for place in range(1, 13)]
popular = 1 / np.arange(1, 13)
good = rng.permutation(np.linspace(1.5, 4.8, 12))
chosen = [rng.choice(12, rng.integers(0, 4), replace=False, p=popular / popular.sum()) for _ in range(20_000)]
ratings = pd.DataFrame(
    {"films": [{films[place]: float(np.clip(rng.normal(good[place], 0.7), 1, 5)) for place in own} for own in chosen]}
)
encoder = KeyValueEncoder(2.0, categories={"films": films}, bounds=(1, 5), max_size=3, random_state=0)
reports = encoder.fit_transform(ratings)
print(encoder.guarantee_)

# %%
# Counts and means with their intervals of 95 %, and the true ones. The fewer records rate a film, the wider is the
# interval of the mean; it is never wider than the bounds.

pairs = [pair for cell in ratings["films"] for pair in cell.items()]
truth = pd.DataFrame(pairs, columns=["film", "rating"]).groupby("film")["rating"].agg(["count", "mean"]).reindex(films)
figure, panels = plt.subplots(1, 2, figsize=(10, 4), sharey=True, layout="constrained")
places = np.arange(12)
for axes, what, table in zip(
    panels, ("count", "mean"), (encoder.estimate_counts(reports), encoder.estimate_mean(reports)), strict=True
):
    axes.hlines(places, table["lower"], table["upper"], linewidth=2, label="interval")
    axes.plot(table[what], places, "o", label="estimated")
    axes.plot(truth[what], places, "|", markersize=14, color="C1", label="true")
panels[0].set(yticks=places, yticklabels=films, xlabel="records that rate the film")
panels[1].set(xlabel="mean rating", xlim=(1, 5))
panels[0].invert_yaxis()
panels[0].legend()
plt.show()

# %%
# The error of the published protocols on the same records: the root mean square over the films, of four collections.

rows = {}
for oracle in ("set_selection", "pckv_ue", "pckv_grr"):
    other = KeyValueEncoder(2.0, categories={"films": films}, bounds=(1, 5), max_size=3, oracle=oracle, random_state=1)
    other.fit(ratings)
    tallies = [other.tally(other.transform(ratings)) for _ in range(4)]
    counts = [other.estimate_counts(one)["count"] - truth["count"] for one in tallies]
    means = [other.estimate_mean(one)["mean"] - truth["mean"] for one in tallies]
    rows[oracle] = {"count": np.sqrt(np.mean(np.square(counts))), "mean": np.sqrt(np.nanmean(np.square(means)))}
pd.DataFrame(rows).T.round(2)
