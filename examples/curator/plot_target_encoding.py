"""
Many categories as numbers
==========================

A target encoder replaces a category by the mean of the target among its rows. Exact means of rare categories show the
target of single persons. `DPTargetEncoder` releases noisy sums, and draws means towards that of all rows, by as much as
their noise and their few rows deserve.
"""

# %%
# A generated table: 300 shops of very different sizes, with rates of their own.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skdp import DPTargetEncoder

rng = np.random.default_rng(0)
shops = [f"shop {number:03}" for number in range(300)]
rates = rng.beta(4, 16, len(shops))
visits = rng.choice(
    len(shops), 20_000, p=rng.dirichlet(np.full(len(shops), 0.7))
)
X = pd.DataFrame({"shop": np.array(shops)[visits]})
returned = pd.Series(rng.random(len(X)) < rates[visits], name="returned")

# %%
# The names of the shops are public; which occur, and how often, is not.

encoder = DPTargetEncoder(
    1.0, categories={"shop": shops}, bounds=(0, 1), random_state=0
).fit(X, returned)
encoder.guarantee_

# %%
# Beside the exact means. Encodings of small shops lie near the mean of all rows; those of large ones near their own.

exact = returned.groupby(X["shop"]).mean().reindex(shops)
sizes = X["shop"].value_counts().reindex(shops).fillna(0)
figure, axes = plt.subplots(
    1, 2, sharey=True, figsize=(9, 4), layout="constrained"
)
drawn = [
    ("exact means", exact),
    ("DPTargetEncoder", encoder.encodings_[0]),
]
for panel, (title, values) in zip(axes, drawn, strict=True):
    panel.scatter(rates, values, s=4 + sizes / 8, alpha=0.5)
    panel.axline(
        (0.2, 0.2), slope=1, color="black", linestyle="--", linewidth=1
    )
    panel.set(xlabel="rate of the shop", title=title)
axes[0].set_ylabel("encoding (size: number of visits)")
plt.show()

# %%
# The root mean square error of the rates, for some ε.

for epsilon in (0.1, 1.0, 10.0):
    found = (
        encoder.set_params(epsilon=epsilon).fit(X, returned).encodings_[0]
    )
    print(
        f"epsilon {epsilon:>4}: {np.sqrt(np.mean((found - rates) ** 2)):.3f}"
    )
print(f"exact means:  {np.sqrt(np.nanmean((exact - rates) ** 2)):.3f}")
