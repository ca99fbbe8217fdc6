"""
Five ways to release a mean
===========================

`DPMean` has five mechanisms. The default, two noisy sums, needs nothing but bounds; the others adapt to the data or
split the budget, and are here for comparison.
"""

# %%
# Blood pressures of 2,000 generated people, between public bounds, at ε = 1. Each mechanism releases 60 means.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skdp import DPMean

rng = np.random.default_rng(0)
X = pd.DataFrame({"pressure": rng.normal(95, 14, 2_000).clip(50, 150)})
settings = {
    "two_sums": {},
    "noisy_sum_count": {},
    "propose_test_release": {"delta": 1e-6, "min_n": 1_000},
    "smooth_sensitivity": {"delta": 1e-6, "min_n": 1_000},
    "sample_and_aggregate": {"n_chunks": 100},
}
errors = {}
for name, options in settings.items():
    means = [
        DPMean(1.0, mechanism=name, bounds=(50, 150), random_state=seed, **options).fit(X).mean_[0]
        for seed in range(60)
    ]
    errors[name] = np.array(means) - X["pressure"].mean()

# %%
figure, axes = plt.subplots(figsize=(8, 3.6), layout="constrained")
axes.boxplot(list(errors.values()), orientation="horizontal", tick_labels=list(errors))
axes.axvline(0, color="grey", linewidth=0.8)
axes.set(xlabel="error of the released mean, in mmHg", xscale="symlog")
plt.show()
