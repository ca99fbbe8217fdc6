# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Shapes by sex, before and after privacy
#
# An additive model says what it does with each column: a function of age, one of hours of work, one number for each
# sex. What is left of these functions, and of what a researcher of fairness reads from them, when they are released
# with differential privacy? Adult, income above 50,000 dollars, δ = 10⁻⁶.
#
# The noise comes from seeds, so that the text and the output agree: **a seed voids the guarantee**. Leave
# `random_state` out of a release.

# %%
import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from skdp import DPAdditiveClassifier
from skdp.datasets import load_adult
from skdp.evaluation import ShapeDisplay
from skdp.privacy import WeakGuaranteeWarning

# The model before privacy is meant to have no guarantee to speak of.
warnings.filterwarnings("ignore", category=WeakGuaranteeWarning)

adult = load_adult()
bounds = {"age": (0, 120), "hours-per-week": (0, 168), "education-num": (1, 16)}
words = ["occupation", "relationship", "race", "sex"]
people = adult.data[[*bounds, *words]]
is_woman = (people["sex"] == "Female").to_numpy()
train, test = train_test_split(np.arange(len(people)), random_state=0)


def fit(epsilon, rows, words=words, seed=0):
    """Fit the model to some rows and columns of Adult."""
    model = DPAdditiveClassifier(
        epsilon,
        delta=1e-6,
        bounds=bounds,
        categories=adult.domain.select(words),
        classes=["<=50K", ">50K"],
        interactions=0,  # functions of single columns say all
        random_state=seed,
    )
    return model.fit(people.iloc[rows][[*bounds, *words]], adult.target.iloc[rows])


# %% [markdown]
# ## The same model at three epsilons
#
# At an epsilon of 1,000 the noise is too small to be seen, and the promise is void: this is the model *before
# privacy*, by the same algorithm. The bands then are of the sample alone.

# %%
levels = {"before privacy": 1000.0, "ε = 1": 1.0, "ε = 0.1": 0.1}
models = {name: fit(epsilon, train) for name, epsilon in levels.items()}
areas = {}
for name, model in models.items():
    logits = model.decision_function(people.iloc[test])
    areas[name] = roc_auc_score(adult.target.iloc[test] == ">50K", logits)
pd.Series(areas, name="area under the curve").to_frame().style.format("{:.3f}")

# %%
columns = ["age", "hours-per-week", "education-num", "sex"]
figure, axes = plt.subplots(3, 4, figsize=(15, 9.5), layout="constrained", sharex="col")
for row, (name, model) in zip(axes, models.items(), strict=True):
    ShapeDisplay.from_estimator(model, columns, ax=row)
    row[0].set_ylabel(f"{name}\nadded to the logit")
    for panel in row[:3]:
        panel.set_ylim(-2.5, 2.5)
    row[3].set_xlim(-1.2, 1.2)
plt.show()

# %% [markdown]
# At an epsilon of 1 one would say the same of the model: income rises up to an age of about 50, with hours up to
# about 50 a week, and with education, most where a degree is reached. At 0.1 there are fewer bins and wider bands;
# that income is lower after 60 than at 50 is no longer to be told. The signs of both sexes are there
# at all three.
#
# ## A model for women, and a model for men
#
# One function of hours is for both sexes. To see whether it differs, fit one model to the women, and one to the men.
# A person is in one of the two tables, so that one who is added or removed changes one model only: both together have
# the epsilon of one (parallel composition, which needs that neighbours differ by a person who is there or not. If a
# person's sex could be another one in the neighbouring table, both models would change).

# %%
numbers = ["age", "hours-per-week", "education-num"]
groups = {"women": train[is_woman[train]], "men": train[~is_woman[train]]}
without_sex = ["occupation", "relationship", "race"]
by_sex = {
    level: {
        group: fit(epsilon, rows, without_sex, seed=1 + place)
        for place, (group, rows) in enumerate(groups.items())
    }
    for level, epsilon in levels.items()
}


def draw_band(axes, shape, label, colour):
    """Draw the function of a number, without the bin of missing ones."""
    edges = np.array(shape.bins.edges)
    n_bins = len(edges) - 1
    values, reach = shape.values[:n_bins], 1.96 * shape.std_error[:n_bins]
    axes.stairs(values, edges, baseline=None, color=colour, lw=1.6, label=label)
    low, high = values - reach, values + reach
    axes.stairs(high, edges, baseline=low, fill=True, color=colour, alpha=0.2)


figure, axes = plt.subplots(
    3, 3, figsize=(12, 9.5), layout="constrained", sharex="col", sharey=True
)
for row, (level, pair) in zip(axes, by_sex.items(), strict=True):
    row[0].set_ylabel(f"{level}\nadded to the logit")
    for panel, name in zip(row, numbers, strict=True):
        for (group, model), colour in zip(pair.items(), ("C3", "C0"), strict=True):
            draw_band(panel, model.shape_(name), group, colour)
        panel.axhline(0, color="k", lw=0.8)
        panel.set_title(name)
axes[0, 0].legend(loc="lower right")
axes[0, 0].set_xlim(15, 90)
axes[0, 1].set_xlim(0, 100)
plt.show()

# %% [markdown]
# Each function has a mean of 0 over its own group, so that forms are compared, not levels. Before privacy, short weeks
# cost men more than women, and the rise with age comes earlier for women. At an epsilon of 1 the functions look much the
# same, but these bands overlap. There are half as many women, and few of them left school early *and* earn more than
# 50,000 dollars: there the function is smoothed towards 0, and its band is wide. At 0.1, the function of the age of women
# is smoothed to 0, and the bands of both overlap nearly everywhere.
#
# **A difference between groups needs more people, or a larger epsilon, than the functions that all share**: the smaller
# group decides.
#
# ## What sex adds, and where it goes when it is left out


# %%
def effects_of(model, column):
    """Return the values of a column that is no number, with 95 % intervals."""
    shape = model.shape_(column)
    texts = []
    for value, error in zip(shape.values, shape.std_error, strict=True):
        texts.append(f"{value:+.2f} ± {1.96 * error:.2f}")
    return pd.Series(texts, index=shape.bins.labels)


pd.DataFrame({name: effects_of(model, "sex") for name, model in models.items()})

# %% [markdown]
# That is what the model adds for a sex *beside the other columns*: among people of the same age, hours, education,
# race, occupation and place in a household, a man has about three quarters of a logit more. At 0.1, how columns are
# correlated is hidden by noise: it is off by more than its interval allows. It is no cause, and it is not the whole
# gap: most of that goes through the other columns. Leave sex out, and relationship takes its part:

# %%
subsets = {
    "all columns": words,
    "without sex": without_sex,
    "without sex and relationship": ["occupation", "race"],
}
fitted = {"all columns": models}
for place, (subset, subset_words) in enumerate(list(subsets.items())[1:]):
    fitted[subset] = {}
    for level, epsilon in levels.items():
        fitted[subset][level] = fit(epsilon, train, subset_words, seed=5 + place)
columns = {}
for level in ("before privacy", "ε = 1"):
    for subset in ("all columns", "without sex"):
        columns[level, subset] = effects_of(fitted[subset][level], "relationship")
effects = pd.DataFrame(columns)
effects

# %% [markdown]
# Husbands are men and wives are women: without sex, the value of husbands rises, and that of wives falls. So does
# that of the unmarried, of whom most are women. How much of the difference between the predictions for women and for
# men is left?

# %%
rows = []
earns_more = (adult.target.iloc[test] == ">50K").to_numpy()
for subset, of_levels in fitted.items():
    for level, model in of_levels.items():
        chances = model.predict_proba(people.iloc[test][model.feature_names_in_])[:, 1]
        gap = chances[is_woman[test]].mean() - chances[~is_woman[test]].mean()
        area = roc_auc_score(earns_more, chances)
        rows.append((subset, level, gap, area))
table = pd.DataFrame(rows, columns=["columns", "level", "gap", "area"])
table = table.pivot(index="columns", columns="level", values=["gap", "area"])
table = table.reindex(list(subsets)).reindex(columns=list(levels), level=1)
table.style.format("{:.3f}")

# %% [markdown]
# The gap is the mean predicted chance of women less that of men (demographic parity is a gap of 0). In the data it is
# -0.20.
#
# - **Leaving sex out hardly changes the gap, with privacy or without**: about a tenth of it goes. Privacy does not
#   make the model fairer, and it does not hide what the model does with sex.
# - Without relationship, too, nearly half of the gap is left, and the area falls by 0.05.
# - The bands say what may be read: at an epsilon of 1, the number of each sex and the functions that all share; at
#   0.1, which sex gets more, and that income rises with education and up to middle age.
# - Which of two columns that say nearly the same gets an effect is up to noise as well. Sex and relationship are such
#   columns: the guide to additive models says when bands are too short.
