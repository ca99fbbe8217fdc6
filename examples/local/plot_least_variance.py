"""
The least noise that a number can have
======================================

The mechanisms of `NumericPerturber` differ in how much a report varies, and for which numbers. The optimal one is the
solution of a linear program, whose dual shows that no unbiased report varies less at its worst number.
"""

# %%
# The exact variance of a report, for each number between the bounds -1 and 1.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import load_diabetes

from skdp import NumericPerturber
from skdp.oracles import ClampedLaplace, Optimal, Windows

numbers = np.linspace(-1, 1, 513)
figure, panels = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
for axes, epsilon in zip(panels, (1.0, 4.0), strict=True):
    mechanisms = {
        "optimal": Optimal(512, epsilon),
        "square wave": Windows(512, epsilon, repeating=False),
        "Laplace": ClampedLaplace(512, epsilon),
    }
    for title, mechanism in mechanisms.items():
        axes.plot(
            numbers,
            mechanism.variances(np.arange(513)) / 256**2,
            label=title,
        )
    axes.set(
        title=f"epsilon = {epsilon:g}",
        xlabel="number",
        ylabel="variance of a report",
        ylim=(0, None),
    )
panels[0].legend()
plt.show()

# %%
# The mean blood pressure of scikit-learn's diabetes data, 200 times at epsilon 1: the errors are as the variances say.
# The bounds are public: the column is scaled to lie between -0.2 and 0.2. Most numbers are near the middle, where the
# square wave varies less than at the ends: which mechanism is best depends on where the numbers may be.

pressure = pd.concat(
    [load_diabetes(as_frame=True).data[["bp"]]] * 5, ignore_index=True
)
errors = {}
for mechanism in ("optimal", "square_wave", "laplace"):
    perturber = NumericPerturber(
        1.0,
        mechanism=mechanism,
        bounds={"bp": (-0.2, 0.2)},
        random_state=0,
    ).fit(pressure)
    means = [
        perturber.estimate_mean(perturber.transform(pressure))[
            "mean"
        ].iloc[0]
        for _ in range(200)
    ]
    errors[mechanism] = np.std(means)
pd.Series(errors, name="standard deviation of the mean").round(5)
