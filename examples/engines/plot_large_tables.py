"""
Large tables: privatize a lazy frame
====================================

Encoders accept lazy tables, too. `skdp.engines.privatize` charges the ledger once and randomizes the rows in batches.
`tally` counts the reports without loading all of them.
"""

# %%
# The table has one million simulated answers in a lazy Polars frame.

import matplotlib.pyplot as plt
import numpy as np
import polars as pl

from skdp import RandomizedResponseEncoder
from skdp.engines import privatize, tally

rng = np.random.default_rng(0)
colours = ["red", "green", "blue", "none"]
answers = pl.DataFrame(
    {"colour": rng.choice(colours, 1_000_000, p=[0.4, 0.3, 0.2, 0.1])}
)
encoder = RandomizedResponseEncoder(
    1.0, categories={"colour": colours}, random_state=0
)
encoder.fit(answers.head(1))
reports = privatize(answers.lazy(), encoder)
print(type(reports).__name__, encoder.guarantee_)

# %%
# The size of the tally does not depend on the number of rows.

estimates = encoder.estimate_counts(tally(reports, encoder))
true = (
    answers["colour"]
    .value_counts()
    .to_pandas()
    .set_index("colour")["count"]
    .reindex(colours)
)
figure, axes = plt.subplots(layout="constrained")
axes.bar(colours, true, color="lightgrey", label="true")
errors = [
    estimates["count"] - estimates["lower"],
    estimates["upper"] - estimates["count"],
]
axes.errorbar(
    range(4),
    estimates["count"].reindex(colours),
    np.array(errors),
    fmt="o",
    capsize=6,
    label="estimated",
)
axes.set(ylabel="people")
axes.legend()
plt.show()
