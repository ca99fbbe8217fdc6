"""
Range queries: flat or hierarchical histogram
=============================================

With a flat histogram, the count of a range is a sum of noisy cells, and their errors add up. A hierarchical histogram
also measures larger intervals, so the count of a long range is a sum of fewer noisy numbers.
"""

# %%
# Compare the standard errors of ranges for 128 ages of simulated people at ε = 1.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skdp import DPHistogram, Interval

rng = np.random.default_rng(0)
ages = pd.DataFrame(
    {
        "age": np.concatenate(
            [rng.normal(30, 12, 6_000), rng.normal(70, 9, 4_000)]
        )
        .clip(0, 127)
        .round()
    }
)
domain = {"age": Interval(0, 127, bins=128)}
flat = DPHistogram(1.0, domain=domain, method="flat", random_state=0).fit(
    ages
)
tree = DPHistogram(
    1.0, domain=domain, method="hierarchical", random_state=0
).fit(ages)

lengths = [1, 2, 4, 8, 16, 32, 64, 128]
stated = {
    name: [
        histogram.range_estimate(0, length).std_error for length in lengths
    ]
    for name, histogram in (("flat", flat), ("hierarchical", tree))
}

figure, axes = plt.subplots(layout="constrained")
for name, errors in stated.items():
    axes.loglog(lengths, errors, "o-", label=name)
axes.set(xlabel="years in the range", ylabel="standard error of its count")
axes.legend()
plt.show()

# %%
# The noisy counts of the flat histogram:

figure, axes = plt.subplots(layout="constrained")
axes.stairs(
    np.histogram(ages["age"], bins=np.arange(129))[0],
    np.arange(129),
    fill=True,
    color="lightgrey",
    label="true",
)
axes.stairs(
    flat.to_frame()["count"].to_numpy(),
    np.arange(129),
    color="C0",
    label="flat",
)
axes.set(xlabel="age", ylabel="people")
axes.legend()
plt.show()
