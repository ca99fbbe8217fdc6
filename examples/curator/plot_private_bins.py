"""
Bins at private quantiles
=========================

`DPKBinsDiscretizer` cuts a column at noisy quantiles, so that the edges reveal little of any row. It finds them among
public candidates, by noisy counts of the values at and between these.
"""

# %%
# The alcohol of 178 wines: edges at three values of ε beside the true quintiles.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine

from skdp import DPKBinsDiscretizer

X = load_wine(as_frame=True).data[["alcohol"]]
true = np.quantile(X, [0.2, 0.4, 0.6, 0.8])

figure, panels = plt.subplots(
    3, 1, figsize=(7, 5.5), sharex=True, layout="constrained"
)
for axes, epsilon in zip(panels, (0.3, 1.0, 5.0), strict=True):
    discretizer = DPKBinsDiscretizer(
        epsilon, n_bins=5, bounds=(10, 16), random_state=0
    ).fit(X)
    axes.hist(X["alcohol"], bins=40, range=(10, 16), color="lightgrey")
    for edge in true:
        axes.axvline(edge, color="black", linewidth=1)
    for edge in discretizer.bin_edges_[0][1:-1]:
        axes.axvline(edge, color="C3", linewidth=2, alpha=0.7)
    axes.set(title=f"ε = {epsilon:g}", ylabel="wines")
panels[-1].set(xlabel="alcohol; true quintiles black, private ones red")
plt.show()
