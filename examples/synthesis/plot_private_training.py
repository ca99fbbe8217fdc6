"""
Replace the training rows by private ones
=========================================

`SyntheticResampler` is a step of an imbalanced-learn pipeline: the model behind it learns from synthetic rows, with a
guarantee, and predicts for real ones.
"""

# %%
# Two moons, in public bins of 24 steps each.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from imblearn.pipeline import make_pipeline
from sklearn.datasets import make_moons
from sklearn.inspection import DecisionBoundaryDisplay
from sklearn.neighbors import KNeighborsClassifier

from skdp import DPMarginalSynthesizer, Interval, SyntheticResampler

X, y = make_moons(6_000, noise=0.2, random_state=0)
X = pd.DataFrame(X, columns=["a", "b"]).clip(
    [-2.5, -2], [3.5, 2.5], axis=1
)
domain = {
    "a": Interval(-2.5, 3.5, bins=24, real=True),
    "b": Interval(-2, 2.5, bins=24, real=True),
    "moon": [0, 1],
}
moon = pd.Series(y, name="moon")

models = {"true rows": KNeighborsClassifier(25).fit(X, moon)}
for epsilon in (2.0, 0.2):
    synthesizer = DPMarginalSynthesizer(
        epsilon, domain=domain, marginals="full", random_state=0
    )
    models[f"synthetic, ε = {epsilon:g}"] = make_pipeline(
        SyntheticResampler(synthesizer), KNeighborsClassifier(25)
    ).fit(X, moon)

# %%
X_test, y_test = make_moons(2_000, noise=0.2, random_state=1)
X_test = pd.DataFrame(X_test, columns=["a", "b"])
figure, panels = plt.subplots(
    1, 3, figsize=(10, 3.4), sharex=True, sharey=True, layout="constrained"
)
for axes, (name, model) in zip(panels, models.items(), strict=True):
    DecisionBoundaryDisplay.from_estimator(
        model,
        X,
        response_method="predict",
        alpha=0.4,
        ax=axes,
        grid_resolution=60,
    )
    axes.scatter(X_test["a"], X_test["b"], c=np.asarray(y_test), s=2)
    axes.set_title(f"{name}: accuracy {model.score(X_test, y_test):.3f}")
plt.show()
