"""
Categories that nobody has declared
===================================

Which categories occur in a table is private: a rare one may belong to a single person. `DPOneHotEncoder` publishes
those that enough persons have, and puts all others into one column.
"""

# %%
# A generated table: what people have bought, among many things of which most are rare. A person has up to five rows.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skdp import DPOneHotEncoder

rng = np.random.default_rng(0)
things = rng.zipf(1.5, 20_000)
bought = pd.DataFrame({"thing": [f"thing {number}" for number in things]})
who = np.repeat(np.arange(4_000), 5)
holders = (
    bought["thing"]
    .groupby(bought["thing"])
    .size()
    .sort_values(ascending=False)
)
print(
    f"{len(holders)} different things, {(holders == 1).sum()} of which occur once"
)

# %%
# The guarantee is for all rows of a person.

encoder = DPOneHotEncoder(
    1.0,
    delta=1e-6,
    categories="private",
    max_rows_per_person=5,
    random_state=0,
).fit(bought, groups=who)
encoder.guarantee_

# %%
# What is found, by how many rows have it. The different values of a person get weights: each person counts as much.

found = holders.index.isin(encoder.categories_[0])
figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
places = np.arange(1, len(holders) + 1)
axes.loglog(places[found], holders[found], "o", label="published")
axes.loglog(
    places[~found],
    holders[~found],
    "x",
    alpha=0.4,
    label="in the column of all others",
)
axes.set(xlabel="rank of the thing", ylabel="rows that have it")
axes.legend()
plt.show()

# %%
# The encoded rows are as private as the table: only the names of the columns are published.

encoded = encoder.transform(bought)
print(
    encoded.shape,
    encoded.iloc[:, -1].name,
    f"{encoded.iloc[:, -1].mean():.0%} of the rows",
)

# %%
# The number of categories that are found, for some ε; without ``groups`` each row counts, with five times the noise.

for epsilon in (0.1, 1.0, 10.0):
    encoder.set_params(epsilon=epsilon)
    numbers = [
        len(encoder.fit(bought, groups=groups).categories_[0])
        for groups in (who, None)
    ]
    print(
        f"epsilon {epsilon:>4}: {numbers[0]:>3} by weights of persons, {numbers[1]:>3} by counts of rows"
    )
