"""
The cost before the data
========================

`privacy_statement` says what a pipeline is set to spend before anybody opens the table: it needs the parameters only.
"""

# %%
# The wine data have thirteen numbers a bottle. Here is what is known without reading one: the names, and bounds.

import matplotlib.pyplot as plt
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from skdp import DPKBinsDiscretizer, DPStandardScaler, privacy_statement

bounds = {
    "alcohol": (10, 16),
    "malic_acid": (0, 6),
    "ash": (1, 4),
    "magnesium": (70, 165),
    "hue": (0.4, 1.8),
}

# %%
# A model behind a private scaler; with private bins; and with the regularisation chosen in a search behind the scaler.
# With the scaler inside of the search, each fit of each fold would be a release, and only a ledger counts these.

scaler, model = DPStandardScaler(0.2, bounds=bounds), LogisticRegression()
grid = {"logisticregression__C": [0.1, 1.0]}
plans = {
    "scaler and model": make_pipeline(scaler, model),
    "scaler, bins and model": make_pipeline(
        scaler, DPKBinsDiscretizer(0.3, bounds=(-3, 3)), model
    ),
    "scaler before a search": make_pipeline(
        scaler, GridSearchCV(make_pipeline(PCA(2), model), grid, cv=5)
    ),
}
statements = {
    name: privacy_statement(plan) for name, plan in plans.items()
}
statements["scaler, bins and model"]

# %%
figure, axes = plt.subplots(figsize=(7, 2.6), layout="constrained")
spent = [
    sum(step.guarantee.epsilon for step in statement.steps)
    for statement in statements.values()
]
bars = axes.barh(list(statements), spent)
axes.bar_label(bars, fmt="%.1f", padding=3)
axes.invert_yaxis()
axes.set(xlabel="ε of one fit", xlim=(0, 0.6))
plt.show()
