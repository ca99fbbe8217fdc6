"""
Means of a small table
======================

A curator releases the means of four measurements of scikit-learn's wine data, 178 bottles. The bounds are declared, and
wide: they follow from what wine can be, not from the table.
"""

# %%
from sklearn.datasets import load_wine

from skdp import DPMean

bounds = {
    "alcohol": (8, 16),
    "malic_acid": (0, 8),
    "ash": (1, 4),
    "hue": (0, 2),
}
wine = load_wine(as_frame=True).data[list(bounds)]
mean = DPMean(epsilon=1.0, bounds=bounds).fit(wine)
mean.guarantee_

# %%
# The interval of each mean, as a share of its bounds; the diamond is the true mean.
import numpy as np
from matplotlib import pyplot as plt

low, width = np.array(
    [(lower, upper - lower) for lower, upper in bounds.values()]
).T
places = np.arange(len(bounds))
lower, upper = (
    np.asarray(mean.interval_).reshape(len(bounds), 2).T - low
) / width
fig, ax = plt.subplots(figsize=(6.4, 3), layout="constrained")
ax.hlines(places, lower, upper, lw=4, label="95 % interval")
ax.plot((mean.mean_ - low) / width, places, "o", label="released")
ax.plot(
    (wine.mean() - low) / width, places, "kD", mfc="none", label="true"
)
ax.set(
    yticks=places,
    yticklabels=list(bounds),
    xlim=(0, 1),
    xlabel="share of the declared bounds",
)
_ = ax.legend()
