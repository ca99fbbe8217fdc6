"""
Secret samples
==============

A release from a secret random sample has a smaller epsilon than its noise. At equal epsilon it may have less noise, but
it also has the error of the sample.
"""

# %%
# Epsilon of a record of the table by the rate, for noise of epsilon 1 given the sample.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skdp import DPHistogram, PrivacyGuarantee
from skdp.datasets import load_adult
from skdp.privacy import Sampled, compose, subsampled_guarantee

rates = [0.01, 0.03, 0.1, 0.3, 1.0]
one = PrivacyGuarantee(1.0, relation="add_remove", trust="central")
pd.Series({rate: subsampled_guarantee(one, rate).epsilon for rate in rates}, name="epsilon").rename_axis("rate").round(
    3
)

# %%
# The error of counts at equal epsilon: most of it is that of the sample.
adult = load_adult()
education, domain = adult.data[["education"]], adult.domain.select(["education"])
truth = education["education"].value_counts()


def error(epsilon, rate):
    squares = []
    for seed in range(20):
        counts = (
            DPHistogram(Sampled(epsilon, rate), domain=domain, random_state=seed).fit(education).to_frame()["count"]
        )
        squares.append(np.mean((counts - truth.reindex(counts.index, fill_value=0)) ** 2))
    return np.sqrt(np.mean(squares))


figure, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
for epsilon in (0.01, 0.1, 1.0):
    axes.loglog(rates, [error(epsilon, rate) for rate in rates], marker="o", label=f"epsilon {epsilon:g}")
axes.set(xlabel="rate of the sample", ylabel="root mean square error of a count")
axes.legend(frameon=False)

# %%
# Many releases, each from a sample of its own, compose far better than without samples.
steps = subsampled_guarantee(one, 0.01)
pd.Series({n: compose([steps] * n, delta=1e-6).epsilon for n in (1, 10, 100, 1000)}, name="epsilon").round(2)
