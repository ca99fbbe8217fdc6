"""
Which report has the least error?
=================================

Every frequency oracle states its error in closed form, before a single answer is collected. The error of the estimated
share of a rare value depends on ε, on the number of people and on the number of values, and so does the best oracle.
"""

# %%
# Standard errors for 10,000 people and ε = 1. Randomised response reports one of all values, so its error grows with
# their number. The other oracles keep theirs.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skdp.oracles import ORACLES

n_people, epsilon = 10_000, 1.0
names = ["randomized_response", "subset_selection", "optimized_unary_encoding", "local_hashing", "hadamard_response"]
sizes = np.unique(np.geomspace(2, 500, 20).astype(int))
errors = {
    name: [ORACLES[name](int(k), epsilon).variance(np.zeros(k), n_people)[0] ** 0.5 / n_people for k in sizes]
    for name in names
}

figure, axes = plt.subplots(layout="constrained")
for name in names:
    axes.loglog(sizes, errors[name], label=name.replace("_", " "))
axes.set(xlabel="number of values", ylabel="standard error of a rare value's share")
axes.legend()
plt.show()

# %%
# The reports differ in size: one number for randomised response, a bit a value for unary encoding and subset selection,
# a few bytes for the hashed ones. ``FrequencyOracleEncoder(oracle="auto")`` takes the least error that fits
# ``max_report_bytes``.

from skdp import FrequencyOracleEncoder

for k in (3, 50, 5000):
    encoder = FrequencyOracleEncoder(epsilon, max_report_bytes=64, categories={"value": list(range(k))})
    print(k, "values:", encoder.fit(pd.DataFrame({"value": [0]})).oracles_[0])
