"""
Any statistic: sample and aggregate
===================================

If no private mechanism exists for a statistic, compute it on disjoint parts of the table, and release the noisy mean
of the results. One record changes the result of one part only.
"""

# %%
# There is no simple bound of the sensitivity of the rank correlation of two columns.

import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from skdp.central import sample_and_aggregate

rng = np.random.default_rng(0)
age = rng.uniform(20, 80, 20_000)
X = np.column_stack([age, 100 + 0.5 * age + rng.normal(0, 12, len(age))])


def correlation(rows: NDArray[np.float64]) -> float:
    return float(spearmanr(rows[:, 0], rows[:, 1])[0])


release = sample_and_aggregate(
    correlation,
    X,
    bounds=(-1, 1),
    n_chunks=200,
    epsilon=1.0,
    random_state=0,
)
print(
    f"released {release.value:.3f} ± {release.std_error:.3f}; the truth is {correlation(X):.3f}"
)
print(release.guarantee)

# %%
# Plot the results of the parts, and the releases at several ε.

chunks = [correlation(part) for part in np.array_split(X, 200)]
figure, axes = plt.subplots(layout="constrained")
axes.hist(chunks, bins=30, color="lightgrey", label="answers of 200 parts")
axes.axvline(correlation(X), color="black", label="whole table")
for number, epsilon in enumerate((0.5, 1.0, 4.0)):
    part = sample_and_aggregate(
        correlation,
        X,
        bounds=(-1, 1),
        n_chunks=200,
        epsilon=epsilon,
        random_state=1,
    )
    axes.axvline(
        part.value,
        color=f"C{number}",
        linestyle="--",
        label=f"released, ε = {epsilon:g}",
    )
axes.set(xlabel="rank correlation", ylabel="parts")
axes.legend()
plt.show()
