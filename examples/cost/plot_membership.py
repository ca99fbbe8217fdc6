"""
Membership inference from synthetic rows
========================================

A membership attack predicts whether a given row was in the source table of synthetic rows. A privacy guarantee
bounds the success of any such attack. Copies of the rows without a guarantee reveal every row.
"""

# %%
# Compare two releases of the same 500 rows: a private synthetic table, and copies of the rows with small changes.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skdp import DPMarginalSynthesizer, Interval
from skdp.evaluation import membership_inference

rng = np.random.default_rng(0)
everyone = pd.DataFrame(
    rng.normal(0, 1, (1_000, 4)).clip(-4, 4), columns=list("abcd")
)
members, others = everyone.iloc[:500], everyone.iloc[500:]
domain = {name: Interval(-4, 4, bins=16, real=True) for name in everyone}
synthesizer = DPMarginalSynthesizer(
    1.0, domain=domain, random_state=0
).fit(members)
releases = {
    "private, ε = 1": synthesizer.sample(500),
    "copies with small noise": members
    + rng.normal(0, 0.05, members.shape),
}
results = {
    name: membership_inference(table, members, others, random_state=0)
    for name, table in releases.items()
}

# %%
figure, axes = plt.subplots(figsize=(5, 2.8), layout="constrained")
for row, result in enumerate(results.values()):
    axes.errorbar(
        result.advantage,
        row,
        xerr=[
            [result.advantage - result.advantage_lower],
            [result.advantage_upper - result.advantage],
        ],
        fmt="o",
        capsize=4,
    )
axes.axvline(0, color="grey", linestyle="--")
axes.set(
    yticks=range(len(results)),
    yticklabels=list(results),
    xlabel="advantage of the attack, with its 95 % interval",
    xlim=(-0.2, 1.02),
)
axes.set_ylim(-0.5, len(results) - 0.5)
plt.show()
