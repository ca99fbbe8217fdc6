"""
The privacy statement of a pipeline
===================================

`privacy_statement` lists the protection of each column, as a table, as JSON, and as an HTML page.
"""

# %%
# Two columns of Adult are randomized, and a third column is unprotected. Both releases are charged to the ledger.

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
# The same statement as JSON, which contains no values, seeds, keys or paths:

record = statement.to_dict()
for text in record["not_covered"]:
    print("-", text)

# %%
# ``statement.to_html()`` returns the statement as an HTML page, and
# ``skdp statement model.skops --out statement.html`` writes the page of a saved model.

# %%
# The plot shows the largest probability of a correct guess, for each column and for both together.

steps = {
    one.step.partition(":")[0]: one.guarantee for one in statement.steps
} | {"both": statement.total}
guesses = [100 * one.guess_probability for one in steps.values()]
figure, axes = plt.subplots(figsize=(5, 2.6), layout="constrained")
bars = axes.barh(list(steps), guesses, color=["C0", "C0", "C1"])
axes.bar_label(bars, fmt="%.1f", padding=3)
axes.axvline(50, color="black", linestyle=":")
axes.set(
    xlim=(0, 108),
    xlabel="right guesses in 100, at most (dotted: no release)",
)
axes.invert_yaxis()
plt.show()
