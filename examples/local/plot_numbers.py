"""
Numbers: mean and distribution
==============================

`NumericPerturber` randomizes numbers within public bounds. The mean of the reports is an unbiased
estimate of the true mean. The distribution can be estimated from the reports, too.
"""

# %%
# Estimate the mean age of Adult from reports:

import matplotlib.pyplot as plt
import numpy as np

from skdp import NumericPerturber
from skdp.datasets import load_adult

people = load_adult().data[["age"]]
perturber = NumericPerturber(epsilon=2.0, bounds=(0, 100), random_state=0)
reports = perturber.fit_transform(people)
print(perturber.estimate_mean(reports).round(2))
print("true mean:", people["age"].mean().round(2))

# %%
# The square-wave mechanism has reports for an estimate of the distribution:

wave = NumericPerturber(
    epsilon=2.0,
    bounds=(0, 100),
    mechanism="square_wave",
    random_state=0,
)
reports = wave.fit_transform(people)
estimated = wave.estimate_distribution(reports, n_bins=10)
print(estimated.round(3).head(4))

# %%
# Single reports are far from the true numbers. The estimated distribution is close to the true one.

edges = np.linspace(0, 100, 11)
figure, axes = plt.subplots(layout="constrained")
axes.hist(
    people["age"],
    bins=edges.tolist(),
    weights=np.full(len(people), 1 / len(people)),
    color="lightgrey",
    label="true",
)
axes.stairs(
    estimated["frequency"],
    edges,
    color="C0",
    linewidth=2,
    label="estimated from the reports",
)
axes.set(xlabel="age", ylabel="proportion", ylim=(0, 0.4))
axes.legend()
plt.show()

# %%
figure, axes = plt.subplots(layout="constrained")
axes.hist(reports["age"], bins=40, color="C1")
axes.set(title="reports", xlabel="age", ylabel="people")
plt.show()
