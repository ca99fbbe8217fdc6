"""
Heavy hitters in an open vocabulary
===================================

`HeavyHitters` finds the most frequent words of an open vocabulary. Each person reports a hashed prefix of one
word, and the server extends the frequent prefixes.
"""

# %%
# Simulate 200,000 people who type one word each. A few words are frequent, and thousands of words are rare.

import matplotlib.pyplot as plt
import numpy as np

from skdp import HeavyHitters

rng = np.random.default_rng(0)
alphabet = list("abcdefghijklmnopqrstuvwxyz")
vocabulary = np.array(
    [
        "".join(rng.choice(alphabet, rng.integers(3, 7)))
        for _ in range(4_000)
    ]
)
shares = 1 / np.arange(1, len(vocabulary) + 1) ** 1.2
words = rng.choice(vocabulary, 200_000, p=shares / shares.sum())

finder = HeavyHitters(
    4.0, n_top=10, max_length=6, alphabet="".join(alphabet), random_state=0
)
finder.fit(finder.report(words))
found = finder.top_
found.round(0)

# %%
# Plot the estimated counts with their intervals, and the true counts.

true = [int((words == word).sum()) for word in found["value"]]
figure, axes = plt.subplots(layout="constrained")
rows = np.arange(len(found))
errors = [found["count"] - found["lower"], found["upper"] - found["count"]]
axes.barh(
    rows,
    found["count"],
    xerr=errors,
    color="C0",
    alpha=0.6,
    label="estimated, with interval",
)
axes.plot(true, rows, "k|", markersize=16, markeredgewidth=2, label="true")
axes.set(yticks=rows, yticklabels=found["value"], xlabel="people")
axes.invert_yaxis()
axes.legend()
plt.show()
