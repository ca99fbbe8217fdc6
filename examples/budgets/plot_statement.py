"""
The privacy statement of a pipeline
===================================

`privacy_statement` lists the protection of each column: as a table, in odds, as a record, and as a page.
"""

# %%
# Two columns of Adult are randomized; a third passes unprotected. The ledger is charged for both.

import math

import matplotlib.pyplot as plt
from sklearn.compose import ColumnTransformer

from skdp import (
    NumericPerturber,
    PrivacyLedger,
    RandomizedResponseEncoder,
    privacy_statement,
)
from skdp.datasets import load_adult

people = load_adult().data[["sex", "age", "occupation", "race"]]
ledger = PrivacyLedger(epsilon=5.0)
columns = ColumnTransformer(
    [
        (
            "sex",
            RandomizedResponseEncoder(
                1.0, categories={"sex": ["Female", "Male"]}, ledger=ledger
            ),
            ["sex"],
        ),
        (
            "age",
            NumericPerturber(2.0, bounds=(17, 90), ledger=ledger),
            ["age"],
        ),
        ("occupation", "passthrough", ["occupation"]),
    ]
)
columns.fit(people)
statement = privacy_statement(columns)
statement

# %%
# The same as a record, which contains no value, seed, key or path.

record = statement.to_dict()
for text in record["not_covered"]:
    print("-", text)

# %%
# ``statement.to_html()`` is a page with all of it, and
# ``skdp statement model.py:columns --out statement.html`` writes it.

# %%
# In odds: the success probability of the strongest attacker, for one column and for both together.

steps = {
    one.step.partition(":")[0]: one.guarantee for one in statement.steps
} | {"both": statement.total}
guesses = [
    100 * (math.exp(one.epsilon) + one.delta) / (1 + math.exp(one.epsilon))
    for one in steps.values()
]
figure, axes = plt.subplots(figsize=(7, 2.4), layout="constrained")
bars = axes.barh(list(steps), guesses, color=["C0", "C0", "C1"])
axes.bar_label(bars, fmt="%.1f", padding=3)
axes.axvline(50, color="black", linestyle=":")
axes.set(
    xlim=(0, 108),
    xlabel="right guesses in 100, at most; dotted: before the release",
)
axes.invert_yaxis()
plt.show()
