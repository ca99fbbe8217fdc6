"""
A linear regression with standard errors of sample and noise
============================================================

`DPLinearRegression` releases sums of products of columns once, with noise. Its standard errors are those of the sample
and of the noise, and grow as epsilon falls.
"""

# %%
# A generated table of flats. The bounds of the columns and of the rent are public, and declared.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skdp import DPLinearRegression, privacy_statement

rng = np.random.default_rng(0)
n = 20_000
flats = pd.DataFrame(
    {
        "rooms": rng.integers(1, 7, n),
        "year": rng.integers(1900, 2026, n),
        "floor": rng.poisson(2, n).clip(0, 10),
    }
)
per_year, per_floor = 2.0, 10.0
rent = (
    250 * flats["rooms"]
    + per_year * (flats["year"] - 1900)
    + per_floor * flats["floor"]
    + rng.normal(0, 150, n)
)
rent = pd.Series(rent, name="rent")
declared = {
    "bounds": {"rooms": (1, 10), "year": (1850, 2030), "floor": (0, 20)},
    "target_bounds": (0, 4_000),
}

model = DPLinearRegression(
    1.0, delta=1e-6, **declared, random_state=0
).fit(flats, rent)
privacy_statement(model)

# %%
# The coefficient of the floor by epsilon: 95 % intervals, with a delta of 1e-6 and without one. The dashed line is the
# coefficient that the table was made with. Where little can be learnt, a ridge draws coefficients towards 0, which
# intervals do not cover.

epsilons = np.array([0.1, 0.2, 0.5, 1.0, 2.0, 5.0])
figure, axes = plt.subplots(layout="constrained")
for delta, label, shift in (
    (1e-6, "delta = 1e-6", 0.97),
    (None, "pure", 1.03),
):
    fits = [
        DPLinearRegression(
            epsilon, delta=delta, **declared, random_state=1
        ).fit(flats, rent)
        for epsilon in epsilons
    ]
    slopes, errors = (
        [getattr(fit, name)[2] for fit in fits]
        for name in ("coef_", "coef_std_error_")
    )
    axes.errorbar(
        epsilons * shift,
        slopes,
        1.96 * np.array(errors),
        fmt="o",
        capsize=3,
        label=label,
    )
axes.axhline(per_floor, color="black", linestyle="--")
axes.set(xscale="log", xlabel="ε", ylabel="rent per floor")
axes.legend()
plt.show()
