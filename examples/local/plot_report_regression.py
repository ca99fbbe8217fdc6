"""
A survey with non-compliance
============================

Three thousand simulated students are asked whether they copied. Each draws a card with the instruction "say yes"
or "tell the truth". In one half of the sample, one in five cards is "say yes"; in the other half, four in five.
Some students always say "no".
"""

# %%
# The probability of copying depends on age. 15 % of the students who did not copy always say "no", which is a tenth of
# all students.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skdp.survey import ReportDesign, ReportLogisticRegression

rng = np.random.default_rng(5)
n = 3000
age = rng.normal(size=n)
copied = rng.random(n) < 1 / (1 + np.exp(1 - 0.8 * age))
half = rng.integers(2, size=n)
told_to_say_yes = rng.random(n) < np.where(half == 0, 0.2, 0.8)
cheats = (rng.random(n) < 0.15) & ~copied
answer = np.where((copied | told_to_say_yes) & ~cheats, "yes", "no")
reports = pd.DataFrame({"answer": answer, "half": half})
print(f"cheaters among all: {cheats.mean():.1%}")

# %%
# Declare the designs of the two halves. A warning states that the estimated
# proportions of the halves differ.

cards = {
    half: ReportDesign.forced("answer", yes=p, no=0)
    for half, p in [(0, 0.2), (1, 0.8)]
}
design = ReportDesign.by_group(cards, "half")
design.estimate_frequencies(reports).round(2)

# %%
# Fit a regression with non-compliant students as a separate class, and a regression without this class.

people = pd.DataFrame({"age": age})
honest = ReportLogisticRegression(target_design=design)
honest.fit(people, reports)
with_cheaters = ReportLogisticRegression(
    target_design=design.with_cheaters("no")
)
with_cheaters.fit(people, reports)
design.with_cheaters("no").estimate_frequencies(reports).round(3)

# %%
# The coefficients are log odds relative to compliant students who did not copy.

with_cheaters.summary().round(2)

# %%
# Plot the coefficients of "yes" of both models. The dashed lines are the true coefficients.

axes = plt.subplots(layout="constrained")[1]
fits = {
    "with cheaters": with_cheaters.summary().xs("yes"),
    "all honest": honest.summary(),
}
for shift, (name, table) in enumerate(fits.items()):
    places = np.arange(2) + 0.2 * shift
    axes.errorbar(
        places,
        table["estimate"],
        yerr=table["estimate"] - table["lower"],
        fmt="os"[shift],
        capsize=3,
        label=name,
    )
for place, truth in enumerate([-1 - np.log(0.85), 0.8]):
    axes.hlines(truth, place - 0.2, place + 0.4, "k", "dashed")
axes.set_xticks([0.1, 1.1], ["intercept", "age"])
axes.set_ylabel("coefficient, with 95 % interval")
axes.legend(frameon=False)
plt.show()
