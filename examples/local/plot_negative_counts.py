"""
What to do about negative counts
================================

Unbiased estimates of rare values are often negative. That is no fault: they are right on average, and so are their
sums. Where a table of counts must be possible, ``postprocess=`` changes them, at no privacy cost, and makes them
biased.
"""

# %%
# Words of a skewed distribution: 10,000 people, 64 words, ε = 1.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skdp import FrequencyOracleEncoder

rng = np.random.default_rng(0)
k = 64
shares = 1 / np.arange(1, k + 1) ** 1.3
words = [f"word {number:02}" for number in range(k)]
people = pd.DataFrame(
    {"word": rng.choice(words, 10_000, p=shares / shares.sum())}
)
true = people["word"].value_counts().reindex(words, fill_value=0)

encoder = FrequencyOracleEncoder(
    1.0, categories={"word": words}, random_state=0
)
reports = encoder.fit_transform(people)
estimates = {
    name: encoder.estimate_counts(reports, postprocess=name)["count"]
    for name in ("none", "clip", "simplex")
}
pd.DataFrame({"true": true} | estimates).head(8).round(0)

# %%
# Clipping alone adds people who do not exist. The nearest table with the right total ("simplex") cuts most rare
# words to zero, and has the smaller error over all words.

figure, axes = plt.subplots(layout="constrained")
axes.plot(range(k), true, color="black", label="true")
for (name, counts), marker in zip(estimates.items(), "ox^", strict=True):
    error = np.sqrt(((counts.to_numpy() - true.to_numpy()) ** 2).sum())
    axes.plot(
        range(k),
        counts,
        marker,
        markersize=4,
        label=f"{name}: total {counts.sum():,.0f}, L2 error {error:,.0f}",
    )
axes.axhline(0, color="grey", linewidth=0.8)
axes.set(xlabel="word, by rank", ylabel="count")
axes.legend()
plt.show()
