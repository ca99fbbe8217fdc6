"""
A synthetic table from reports, without a curator
=================================================

`ReportSynthesizer` fits a graphical model to randomised reports. Nobody holds the table: the rows that it draws have
the guarantee of the reports.
"""

# %%
# Two moons, in public bins of 14 steps each. Each record is randomised by itself, with one epsilon for all of its
# columns.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import make_moons
from sklearn.neighbors import KNeighborsClassifier

from skdp import Interval, LocalTableEncoder, ReportSynthesizer
from skdp.datasets import load_adult

X, y = make_moons(40_000, noise=0.2, random_state=0)
moons = pd.DataFrame(X, columns=["a", "b"]).clip([-2, -1.5], [3, 2], axis=1).assign(moon=y)
domain = {"a": Interval(-2, 3, bins=14, real=True), "b": Interval(-1.5, 2, bins=14, real=True), "moon": [0, 1]}

synthetic = {"the table": moons}
for epsilon in (4.0, 2.0, 1.0):
    encoder = LocalTableEncoder(epsilon, categories=domain, purpose="pairs", random_state=0)
    reports = encoder.fit_transform(moons)
    synthesizer = ReportSynthesizer(encoder, random_state=0).fit(reports)
    synthetic[f"from reports, ε = {epsilon:g}"] = synthesizer.sample()
print(encoder.plan_)
print(synthesizer.guarantee_)

# %%
# A classifier that is trained on the rows, and tested on true ones.

X_test, y_test = make_moons(2_000, noise=0.2, random_state=1)
X_test = pd.DataFrame(X_test, columns=["a", "b"])
figure, panels = plt.subplots(1, 4, figsize=(12, 3.4), sharex=True, sharey=True, layout="constrained")
for axes, (name, rows) in zip(panels, synthetic.items(), strict=True):
    model = KNeighborsClassifier(40).fit(rows[["a", "b"]], rows["moon"])
    for moon, color in enumerate(["tab:blue", "tab:orange"]):
        drawn = rows[rows["moon"] == moon].head(2_000)
        axes.scatter(drawn["a"], drawn["b"], s=1, color=color)
    axes.set_xlabel("a")
    axes.set_title(f"{name}\naccuracy {model.score(X_test, y_test):.3f}")
panels[0].set_ylabel("b")
plt.show()

# %%
# Four columns of Adult at epsilon 4. The reports show which pairs depend on each other, beyond their noise.

adult = load_adult(dropna=True)
people = adult.frame[["marital-status", "education", "sex", "income"]]
encoder = LocalTableEncoder(
    4.0, categories=adult.domain.select(people.columns), purpose="pairs", strategy="groups", random_state=0
)
reports = encoder.fit_transform(people)
synthesizer = ReportSynthesizer(encoder, random_state=0).fit(reports)
print(encoder.plan_)
synthesizer.pair_scores_.round(3)

# %%
# Counts of any columns, by the model; where reports tell of the columns together, with the standard error of what they
# say by themselves.

table = synthesizer.marginal(["sex", "income"])
true = people.value_counts(["sex", "income"]).rename("true").reset_index()
table.merge(true).round()

# %%
# Rows like those of the table. Their guarantee is that of the reports, and nothing more is charged.

print(synthesizer.guarantee_)
synthesizer.sample(5)

# %%
# The same columns at other epsilons: the distance of all pairs from the true table, of the model and of independent
# columns of the same reports.

pairs = [(one, two) for place, two in enumerate(people.columns) for one in people.columns[:place]]
epsilons, errors = [1.0, 2.0, 4.0, 8.0], {"auto": [], "independent": []}
for epsilon in epsilons:
    encoder.set_params(epsilon=epsilon)
    reports = encoder.fit_transform(people)
    for marginals, found in errors.items():
        model = ReportSynthesizer(encoder, marginals=marginals).fit(reports)
        distances = []
        for pair in pairs:
            counts = model.marginal(pair).set_index(list(pair))["count"]
            true = people.value_counts(list(pair)).reindex(counts.index, fill_value=0)
            distances.append(np.abs(counts - true).sum() / 2 / len(people))
        found.append(np.mean(distances))

figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
axes.plot(epsilons, errors["auto"], "o-", label="pairs that the reports show")
axes.plot(epsilons, errors["independent"], "s--", label="independent columns")
axes.set(xscale="log", xlabel="ε of a record", ylabel="total variation of pairs", xticks=epsilons, xticklabels=epsilons)
axes.minorticks_off()
axes.set_ylim(bottom=0)
axes.legend()
plt.show()
