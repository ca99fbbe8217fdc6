"""
Numbers: mean and distribution
==============================

`NumericPerturber` randomizes numbers within public bounds. The mean of the reports is an unbiased
estimate of the true mean. The distribution can be estimated from the reports, too.
"""

# %%
# The column is the mean radius of 569 tumors, repeated three times for a larger sample. The bounds 5 and 30 are public.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer

from skdp import NumericPerturber

cancer = load_breast_cancer(as_frame=True).data
people = pd.concat([cancer[["mean radius"]]] * 20, ignore_index=True)
perturber = NumericPerturber(
    2.0, mechanism="square_wave", bounds=(5, 30), random_state=0
)
reports = perturber.fit_transform(people)
print(perturber.guarantee_)
perturber.estimate_mean(reports).round(3)

# %%
# Single reports are far from the true numbers. The estimated distribution is close to the true one.

estimated = perturber.estimate_distribution(reports, n_bins=25)
edges = np.linspace(5, 30, 26)
figure, (left, right) = plt.subplots(
    1, 2, figsize=(9, 3.6), layout="constrained"
)
left.hist(reports["mean radius"], bins=40, color="C1")
left.set(title="reports", xlabel="mean radius", ylabel="people")
right.hist(
    people["mean radius"], bins=edges, color="lightgrey", label="true"
)
right.stairs(
    estimated["frequency"] * len(people),
    edges,
    color="C0",
    linewidth=2,
    label="estimated from the reports",
)
right.set(title="distribution", xlabel="mean radius")
right.legend()
plt.show()
