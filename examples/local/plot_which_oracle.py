"""
Compare frequency oracles
=========================

The error of a frequency oracle has a closed form, so you can compute it before the collection. It depends on ε, on
the number of people and on the number of values.
"""

# %%
# Compute standard errors for 10,000 people and ε = 1 if all values are equally frequent. The error of randomized
# response grows with the number of values. The errors of the other oracles are nearly constant for many values.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skdp.oracles import ORACLES

n_people, epsilon = 10_000, 1.0
names = [
    "randomized_response",
    "subset_selection",
    "optimized_unary_encoding",
    "local_hashing",
]
sizes = np.unique(np.geomspace(2, 500, 20).astype(int))


def standard_error(name: str, k: int) -> float:
    counts = np.full(k, n_people / k)
    variances = ORACLES[name](int(k), epsilon).variance(counts, n_people)
    return float(variances[0] ** 0.5 / n_people)


# Two curves coincide, so that each has its own dashes and markers.
dashes = dict(zip(names, ("-", "-", "--", ":"), strict=True))
figure, axes = plt.subplots(layout="constrained")
for number, name in enumerate(names):
    axes.loglog(
        sizes,
        [standard_error(name, k) for k in sizes],
        linestyle=dashes[name],
        marker="os^D"[number],
        markevery=(number, 4),
        label=name.replace("_", " "),
    )
axes.set(
    xlabel="number of values", ylabel="standard error of a proportion"
)
axes.legend()
plt.show()

# %%
# The reports have different sizes: one number for randomized response, one bit per value for unary encoding and subset
# selection, and a few bytes for local hashing. ``FrequencyOracleEncoder(oracle="auto")`` selects the oracle with the
# smallest error among reports of at most 1,024 bytes.

from skdp import FrequencyOracleEncoder

for k in (3, 50, 50_000):
    encoder = FrequencyOracleEncoder(
        epsilon, categories={"value": list(range(k))}
    )
    print(
        k, "values:", encoder.fit(pd.DataFrame({"value": [0]})).oracles_[0]
    )
