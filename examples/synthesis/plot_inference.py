"""
Intervals from a synthetic table
================================

How much do hours of exercise rise with age? Twelve tables of 2,000 people are drawn from a population in which they do
not, and each is released once. Synthetic rows that are analysed as if they were people find a slope that is not there;
`synthetic_inference` knows the noise of the counts that the rows come from. The regression is declared before the
fit, by `analyses=`, so that what it needs is measured.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.linear_model import LinearRegression

from skdp import DPMarginalSynthesizer
from skdp.synthesis import synthetic_inference

domain = {"decade": range(2, 9), "hours": range(6)}
analyses = ["hours ~ decade"]


def naive(rows):
    """Return the slope of rows, and the error that a textbook gives it."""
    x, y = (
        rows["decade"] - rows["decade"].mean(),
        rows["hours"] - rows["hours"].mean(),
    )
    slope = (x * y).sum() / (x * x).sum()
    return slope, np.sqrt(
        ((y - slope * x) ** 2).sum() / (len(rows) - 2) / (x * x).sum()
    )


found = []
for seed in range(12):
    rng = np.random.default_rng(seed)
    people = pd.DataFrame(
        {
            "decade": rng.integers(2, 9, 2_000),
            "hours": rng.binomial(5, 0.4, 2_000),
        }
    )
    synthesizer = DPMarginalSynthesizer(
        0.3, domain=domain, analyses=analyses, random_state=seed
    ).fit(people)
    slope, error = naive(synthesizer.sample())
    known = synthetic_inference(
        synthesizer, LinearRegression(), columns=["decade"], target="hours"
    ).iloc[1]
    found.append(
        (slope, 1.96 * error, known["estimate"], 1.96 * known["std_error"])
    )
slopes, short, estimates, reach = np.transpose(found)

# %%
# Intervals of 95 %, in a stronger colour where they leave out the true slope of 0. Both are noisy: epsilon is 0.3. Only
# one kind says so.

figure, panels = plt.subplots(
    1, 2, figsize=(8, 3.6), sharex=True, sharey=True, layout="constrained"
)
for axes, title, centres, ends, colour in [
    (panels[0], "synthetic rows, as if true", slopes, short, "C1"),
    (panels[1], "synthetic_inference", estimates, reach, "C0"),
]:
    for place, (centre, end) in enumerate(zip(centres, ends, strict=True)):
        wrong = abs(centre) > end
        axes.errorbar(
            centre,
            place,
            xerr=end,
            fmt="o",
            markersize=4,
            color=colour,
            alpha=1.0 if wrong else 0.4,
        )
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set(
        title=f"{title}: {np.mean(np.abs(centres) <= ends):.0%} hold 0",
        xlabel="slope of hours by decade",
    )
panels[0].set(ylabel="release", yticks=[])
plt.show()

# %%
# A question whose columns were not measured together gets no interval at all.

apart = DPMarginalSynthesizer(
    0.3, domain=domain, marginals="independent", random_state=0
).fit(people)
synthetic_inference(
    apart, LinearRegression(), columns=["decade"], target="hours"
)
