"""
Lists of values
===============

`SetValuedEncoder` reports a list of values with one epsilon. The error grows with the largest number of values in a
list. It has a closed form, so you can compute it before the collection.
"""

# %%
# Plot n times the variance of a proportion by the largest number of values in a list, for 100 declared values at
# epsilon 1, and for 16 declared values at epsilon 8.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skdp import SetValuedEncoder
from skdp.oracles import SetSelection

figure, axes = plt.subplots(layout="constrained")
sizes = [1, 2, 4, 8, 16]
for k, epsilon in [(100, 1.0), (16, 8.0)]:
    errors = [
        SetSelection(k, size, epsilon).mean_squared_error for size in sizes
    ]
    axes.loglog(
        sizes, errors, "o-", label=f"{k} values, epsilon {epsilon:g}"
    )
axes.set(
    xlabel="largest number of values in a list",
    ylabel="n times the variance",
    xticks=sizes,
    xticklabels=sizes,
)
axes.minorticks_off()
axes.legend()
plt.show()

# %%
# Estimate the counts from the reports of 20,000 records with at most three of eight values each.

rng = np.random.default_rng(0)
values = ["bread", "milk", "tea", "rice", "beans", "oil", "salt", "figs"]
shares = np.array([8, 7, 5, 4, 3, 2, 2, 1]) / 32
baskets = [
    rng.choice(
        values, rng.integers(0, 4), replace=False, p=shares
    ).tolist()
    for _ in range(20_000)
]
frame = pd.DataFrame({"basket": baskets})
encoder = SetValuedEncoder(
    1.0, categories={"basket": values}, max_size=3, random_state=0
)
reports = encoder.fit_transform(frame)
print(encoder.guarantee_)
table = encoder.estimate_counts(reports)
truth = pd.Series(
    [value for basket in baskets for value in basket]
).value_counts()
table.assign(truth=truth.reindex(values)).round()

# %%
# Plot the estimates with 95 % intervals, and the true counts.

places = np.arange(len(values))
figure, axes = plt.subplots(layout="constrained")
axes.errorbar(
    places,
    table["count"],
    (table["upper"] - table["lower"]) / 2,
    fmt="o",
    capsize=4,
    label="estimated",
)
axes.plot(
    places,
    truth.reindex(values),
    "_",
    markersize=22,
    color="C1",
    label="true",
)
axes.set(
    xticks=places, xticklabels=values, ylabel="records with the value"
)
axes.legend()
plt.show()
