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
# # Synthetic data on Adult
#
# A synthetic table has the columns of a real table, and its rows are not the rows of real people. This notebook follows
# a textbook chapter: it answers questions with a private histogram, draws rows from it, and uses a histogram of two
# columns to keep their dependence. Then it shows where the chapter's code violates its guarantee. The last part
# synthesizes all 14 columns with a graphical model.
#
# Two tables are neighbors if one of them has one additional person. All noise in this notebook is drawn from seeds, so
# that the text agrees with the output. **With a seed, there is no guarantee**, and the printed guarantees state this.
# For a release, omit `random_state`.

# %%
import math

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skdp import (
    BudgetExceeded,
    Domain,
    DPColumnSynthesizer,
    DPHistogram,
    DPMarginalSynthesizer,
    DPMean,
    Interval,
    PrivacyGuarantee,
    PrivacyLedger,
)
from skdp.datasets import load_adult
from skdp.metrics import (
    marginal_errors,
    range_query_error,
    train_on_synthetic,
)
from skdp.oracles import project_to_simplex

# %%
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#999999"


def mean_error(real, drawn, order, domain):
    """Return the mean total variation distance of all marginals of `order` columns."""
    return marginal_errors(real, drawn, order=order, domain=domain)["error"].mean()


census = load_adult()
adult = census.frame.drop(columns="fnlwgt")
ages = adult[["age"]]
n = len(adult)
print(f"{n:,} people, {adult.shape[1]} columns")

# %% [markdown]
# ## A histogram of a column
#
# Count the people of each age from 0 to 99, and add discrete Laplace noise to every count, including the counts of 0.
# One person is in one count, so the whole histogram costs ε once. The ages from 0 to 99 are declared, and do not depend
# on the data.

# %%
years = {"age": range(100)}
histogram = DPHistogram(1.0, domain=years, method="flat", random_state=0).fit(ages)
print(histogram.guarantee_)
histogram.to_frame().iloc[30:34].round(2)

# %%
true_counts = np.bincount(ages["age"], minlength=100)
coarse = DPHistogram(0.02, domain=years, method="flat", random_state=0).fit(ages)
fig, ax = plt.subplots(figsize=(7, 3.5))
ax.bar(range(100), true_counts, width=1, color=GREY, label="true")
ax.stairs(histogram.counts_, np.arange(101) - 0.5, color=BLUE, label="ε = 1")
ax.stairs(coarse.counts_, np.arange(101) - 0.5, color=ORANGE, label="ε = 0.02")
ax.set(xlabel="age", ylabel="people")
ax.legend(frameon=False)
plt.show()

# %% [markdown]
# A synthesizer that measures one column has the same guarantee, and the same noise in the same cells:

# %%
one_column = DPMarginalSynthesizer(
    1.0, domain=years, marginals="full", random_state=0
).fit(ages)
print(one_column.guarantee_)
print(
    f"standard deviation of the noise: {histogram.std_error_[0]:.6f}, {one_column.noise_scale_['age',]:.6f}"
)

# %%
noise = {"DPHistogram": [], "DPMarginalSynthesizer": []}
for seed in range(200):
    a = DPHistogram(1.0, domain=years, method="flat", random_state=seed).fit(ages)
    b = DPMarginalSynthesizer(
        1.0, domain=years, marginals="full", random_state=seed
    ).fit(ages)
    noise["DPHistogram"].append(a.counts_ - true_counts)
    noise["DPMarginalSynthesizer"].append(b.marginals_[0].counts - true_counts)

# %%
shares = {
    name: [np.mean(np.abs(values) == k) for k in range(6)]
    for name, values in noise.items()
}
law = [math.tanh(0.5) * math.exp(-k) * (2 if k else 1) for k in range(6)]
pd.DataFrame(
    {"discrete Laplace law": law, **shares}, index=pd.Index(range(6), name="|noise|")
).round(4)

# %% [markdown]
# The synthesizer converts the noisy counts to a distribution: the closest distribution without negative proportions. In
# `DPHistogram`, this is the attribute `frequencies_`.

# %%
noisy_shares = one_column.marginals_[0].counts / one_column.n_rows_
nearest = project_to_simplex(noisy_shares, 1)
model_shares = one_column.marginal("age")["count"] / one_column.n_rows_
print(f"negative noisy counts: {(noisy_shares < 0).sum()} of {noisy_shares.size}")
distance = np.abs(model_shares - nearest).sum() / 2
print(
    f"total-variation distance from the model to the nearest distribution: {distance:.6f}"
)

# %% [markdown]
# ### Range queries
#
# To estimate the number of people from 21 to 32, add the noisy counts. Any number of such queries uses no further
# budget. The sum over a range has the noise of each of its ages, while a single query with all of ε would have noise on
# one number only.

# %%
asked_alone = histogram.std_error_[0]
rows = {}
for low, high in [(30, 31), (21, 33), (30, 71)]:
    true = int(true_counts[low:high].sum())
    answer = histogram.range_estimate(low, high)
    rows[f"{low} to {high - 1}"] = {
        "true": true,
        "answer": answer.value,
        "standard error": answer.std_error,
        "in %": 100 * answer.std_error / true,
        "asked alone": asked_alone,
        "alone, in %": 100 * asked_alone / true,
    }
pd.DataFrame.from_dict(rows, orient="index").round(3)

# %% [markdown]
# The chapter states that the relative error does not depend on the length of the range. In fact, it decreases: for w
# ages, the noise grows with √w, and the count grows with w. It decreases more slowly than the error of a separate
# query. `DPHistogram` can use a hierarchy of intervals, if its expected error is smaller. The hierarchy is less
# accurate for one age, and more accurate for long ranges:

# %%
hierarchy = DPHistogram(1.0, domain=years, random_state=0).fit(ages)

# %%
widths = [1, 2, 3, 5, 8, 13, 21, 34, 55, 89]


def error_by_width(fitted):
    """Return the root mean square standard error of all ranges of each width."""
    return [
        math.sqrt(
            np.mean(
                [
                    fitted.range_estimate(low, low + w).std_error ** 2
                    for low in range(101 - w)
                ]
            )
        )
        for w in widths
    ]


# %%
fig, ax = plt.subplots(figsize=(7, 3.5))
ax.loglog(widths, error_by_width(histogram), "o-", color=BLUE, label="one count an age")
ax.loglog(widths, error_by_width(hierarchy), "s-", color=GREEN, label="hierarchy")
ax.axhline(asked_alone, color=GREY, linestyle=":", label="one range alone")
ax.set(
    xlabel="ages in the range",
    ylabel="standard error, people",
    title="range queries at ε = 1",
)
ax.legend(frameon=False)
plt.show()

# %% [markdown]
# ## Rows drawn from it
#
# Rows can be drawn from the distribution. 10,000 rows are sufficient for a mean, but their counts must be scaled. The
# default number of rows is the sum of the noisy counts, which is already released.

# %%
some, all_rows = one_column.sample(10_000), one_column.sample()
print(
    f"rows by default: {len(all_rows):,}, standard error {one_column.n_rows_std_error_:.1f}"
)


def describe(table):
    return {
        "mean age": table["age"].mean(),
        "people from 20 to 64": table["age"].between(20, 64).sum(),
    }


pd.DataFrame(
    {
        "true": describe(adult),
        "10,000 rows": describe(some),
        "by default": describe(all_rows),
    }
).round(3)

# %% [markdown]
# The chapter draws each row independently, which adds a sampling error. For this number of rows and ε = 1, it is larger
# than the noise. `sample` draws the rows such that the number of rows of each age is close to its expectation:

# %%
rng = np.random.default_rng(0)
ages_model = model_shares.to_numpy()
one_by_one = [
    pd.DataFrame({"age": rng.choice(100, n, p=ages_model)}) for _ in range(50)
]
evenly = [one_column.sample(n) for _ in range(50)]

# %%
drawing = {
    name: {
        "distance to the real ages": np.mean(
            [mean_error(ages, rows, order=1, domain=years) for rows in drawn]
        ),
        "mean age, standard deviation": np.std([rows["age"].mean() for rows in drawn]),
    }
    for name, drawn in [("each row by itself", one_by_one), ("sample", evenly)]
}
pd.DataFrame(drawing).T.round(4)

# %%
model_distance = np.abs(ages_model - true_counts / n).sum() / 2
direct = DPMean(1.0, bounds=(0, 100), random_state=0).fit(ages)
print(f"the distribution itself: distance {model_distance:.4f}")
print(f"DPMean: standard error of the mean age {direct.std_error_[0]:.4f}")
print(
    f"people from 20 to 64, by the model, without drawing: {one_column.count({'age': (20, 65)}):.0f}"
)

# %% [markdown]
# ## Several columns, each by itself
#
# `marginals="independent"` measures every column separately, with half of ε for each of two columns. The distributions
# of ages and of occupations are accurate, but the two columns are independent:

# %%
pair = adult[["age", "occupation"]]
pair_domain = years | {"occupation": census.domain["occupation"]}
one_way = DPMarginalSynthesizer(
    1.0, domain=pair_domain, marginals="independent", random_state=0
).fit(pair)
print(one_way.guarantee_)
print(
    "noise:", {name: round(scale, 2) for (name,), scale in one_way.noise_scale_.items()}
)


# %%
young_managers = {"age": (17, 25), "occupation": "Exec-managerial"}
is_young, is_manager = (
    pair["age"].between(17, 24),
    pair["occupation"] == "Exec-managerial",
)
pd.DataFrame(
    {
        "true": [is_young.sum(), is_manager.sum(), (is_young & is_manager).sum()],
        "1-way": [
            one_way.count({"age": (17, 25)}),
            one_way.count({"occupation": "Exec-managerial"}),
            one_way.count(young_managers),
        ],
    },
    index=["17 to 24", "managers", "managers from 17 to 24"],
).round(1)

# %% [markdown]
# A histogram costs ε once because a person is in one of its cells. A second histogram counts the same people, so it
# costs ε again. A separate histogram with ε = 1 for each of 14 columns costs ε = 14, as the ledger states. The
# synthesizer divides its ε among the columns. The next cell declares the domain of all columns from the documentation
# of the census data: texts by the listed values, `None` if an answer may be missing, and numbers by bins, which must be
# chosen without the data.

# %%
gains = [
    0, 1, 1000, 2000, 2500, 3000, 3500, 4000, 4500, 5000, 5500, 6000, 7000, 7500, 8000, 9000, 10_000, 12_000, 14_000,
    15_000, 16_000, 20_000, 25_000, 30_000, 50_000, 100_000,
]  # fmt: skip
losses = [
    0, 1, 500, 1000, 1250, 1500, 1550, 1600, 1650, 1700, 1750, 1800, 1850, 1900, 1950, 2000, 2100, 2200, 2300, 2400,
    2600, 3000, 4500,
]  # fmt: skip

# %%
categories = {name: census.domain[name] for name in adult.select_dtypes("category")}
domain = {
    "age": Interval(16, 96, bins=32),
    "education-num": range(1, 17),
    "capital-gain": Interval(edges=gains),
    "capital-loss": Interval(edges=losses),
    "hours-per-week": Interval(0, 100, bins=32),
    **categories,
}

# %%
ledger = PrivacyLedger(epsilon=20)
for name in adult:
    DPHistogram(1.0, domain={name: domain[name]}, ledger=ledger, random_state=0).fit(
        adult[[name]]
    )
print("14 histograms at epsilon = 1:", ledger.spent)

# %% [markdown]
# ## Age and occupation together
#
# The two-way marginal counts every combination: 100 ages × 15 occupations, one of which is "missing". Each person is in
# one cell, so it costs ε once.

# %%
two_way = DPMarginalSynthesizer(
    1.0, domain=pair_domain, marginals=[("age", "occupation")], random_state=0
).fit(pair)
print(two_way.guarantee_)
print(
    f"managers from 17 to 24: {two_way.count(young_managers):.1f}, true {(is_young & is_manager).sum()}"
)
two_way.sample(4)

# %% [markdown]
# The marginal keeps the dependence and is less accurate in each column: the number of people of an age is a sum of 15
# noisy counts, and the number of managers is a sum of 100 noisy counts. At ε = 1, the result is better than independent
# columns; at ε = 0.02, the noise exceeds the dependence. The errors below are total variation distances of drawn rows,
# from 0 to 1, as means of 5 fits. For comparison, they include real rows that are resampled with replacement, which
# differ from the data as much as another survey of the same size.

# %%
print(
    f"cells of age × occupation: {100 * 15:,}; with sex and education: {100 * 15 * 2 * 16:,}"
)
age_noise = {
    name: fitted.marginal("age")["std_error"][0]
    for name, fitted in [("1-way", one_way), ("2-way", two_way)]
}
print(
    "standard error of the number of people of an age:",
    {k: round(float(v), 2) for k, v in age_noise.items()},
)


# %%


def pair_errors(rows):
    return {
        " × ".join(names): mean_error(
            pair[names], rows[names], order=len(names), domain=pair_domain
        )
        for names in (["age"], ["occupation"], ["age", "occupation"])
    }


def five_tables(epsilon, marginals):
    synthesizers = [
        DPMarginalSynthesizer(
            epsilon, domain=pair_domain, marginals=marginals, random_state=seed
        )
        for seed in range(5)
    ]
    return [one.fit(pair).sample() for one in synthesizers]


# %%
drawn = {("real rows, resampled", ""): [pair.sample(n, replace=True, random_state=0)]}
for epsilon in (0.02, 0.1, 1):
    for name, marginals in [
        ("1-way", "independent"),
        ("2-way", [("age", "occupation")]),
    ]:
        drawn[name, f"ε = {epsilon}"] = five_tables(epsilon, marginals)
errors = pd.DataFrame(
    {
        key: pd.DataFrame(map(pair_errors, tables)).mean()
        for key, tables in drawn.items()
    }
).T
errors.round(3)

# %%
fig, axes = plt.subplots(1, 2, figsize=(10, 3.2), layout="constrained", sharey=True)
for axis, epsilon in zip(axes, (1, 0.1), strict=True):
    axis.bar(range(100), true_counts / n, width=1, color=GREY, label="real")
    for name, color in [("1-way", BLUE), ("2-way", ORANGE)]:
        shares = (
            drawn[name, f"ε = {epsilon}"][0]["age"]
            .value_counts(normalize=True)
            .reindex(range(100))
            .fillna(0)
        )
        axis.stairs(shares, np.arange(101) - 0.5, color=color, label=name)
    axis.set(xlabel="age", title=f"ages of the drawn rows, ε = {epsilon}")
axes[0].set_ylabel("proportion")
axes[0].legend(frameon=False)
plt.show()

# %% [markdown]
# Marginals of more columns are less accurate: with sex and education, there are 48,000 cells, which is more than the
# number of people. Also, this marginal contains no information about a third column. The graphical model below uses
# many small marginals instead, and makes them consistent.
#
# ## Where the chapter's code violates its guarantee
#
# ### Only observed cells are counted
#
# `pd.crosstab` counts the values that occur. One person in Adult is 86 years old. With this person, the table has a row
# for 86, and its 14 noisy counts almost certainly have a positive sum. Without this person, the table has no such row,
# and no drawn row has this age. One row with age 86 therefore reveals that the person is in the data, at any ε.

# %%
without_him = pair[pair["age"] != 86]
print(f"people of 86: {n - len(without_him)}")


# %%
def chapter_draws_86(people, runs, epsilon=1):
    """Return the number of runs that draw age 86 if only observed cells get noise."""
    table = pd.crosstab(people["age"], people["occupation"])
    found = 0
    for _ in range(runs):
        noisy = np.clip(
            table.to_numpy() + rng.laplace(0, 1 / epsilon, table.shape), 0, None
        )
        drawn = rng.multinomial(len(people), (noisy / noisy.sum()).ravel()).reshape(
            table.shape
        )
        found += drawn[table.index == 86].sum() > 0
    return found


# %%
def declared_draws_86(people, seeds, epsilon=1):
    """Return the number of runs that draw age 86 if all declared cells get noise."""
    found, totals = 0, []
    for seed in seeds:
        synthesizer = DPMarginalSynthesizer(
            epsilon, domain=pair_domain, marginals="full", random_state=seed
        )
        fitted = synthesizer.fit(people)
        found += (fitted.sample()["age"] == 86).any()
        totals.append(fitted.n_rows_)
    return found, totals


# %%
runs = 300
chapter = [chapter_draws_86(people, runs) for people in (pair, without_him)]
with_him, totals = declared_draws_86(pair, range(runs))
without, _ = declared_draws_86(without_him, range(runs, 2 * runs))
pd.DataFrame(
    {"he is in the data": [chapter[0], with_him], "he is not": [chapter[1], without]},
    index=["cells that occur", "declared cells"],
).rename_axis(f"somebody of 86 in the output, of {runs} runs")

# %% [markdown]
# ### Clipping at zero adds people
#
# If negative counts are set to 0, an empty cell gets 1/(2ε) people on average, and a cell with c people gets
# e^(−εc)/(2ε) additional people. The additional people of many small cells add up, so the proportions of all real cells
# are too small. The synthesizer fits a distribution to all counts together, and its total is their sum, including the
# negative counts.

# %%
declared = Domain(pair_domain)
cell_of_person = declared.join(declared.encode([pair["age"], pair["occupation"]]))
tables = {
    "age × occupation, cells that occur": pd.crosstab(
        pair["age"], pair["occupation"]
    ).to_numpy(),
    "age × occupation, declared cells": np.bincount(
        cell_of_person, minlength=declared.size
    ),
    "32 × 32 × 32 cells without anybody": np.zeros(32**3),
}


def phantoms(counts, epsilon):
    """Return the mean number of people that clipping adds."""
    return float((np.exp(-epsilon * counts) / (2 * epsilon)).sum())


clipped = pd.DataFrame(
    {f"ε = {e}": {k: phantoms(v, e) for k, v in tables.items()} for e in (0.1, 1)}
)
clipped.round().astype(int)

# %%
off, error = np.mean(totals) - n, np.std(totals) / math.sqrt(runs)
print(
    f"the synthesizer's total at ε = 1: off by {off:+.1f} ± {error:.1f}, the mean of {runs} fits"
)

# %% [markdown]
# ### The number of rows
#
# The chapter releases the number of people with another ε and calls the following steps post-processing, although the
# release costs 2ε. Other code uses `len(data)`, which is exact: with one additional person, the output always has one
# additional row. The sum of the noisy counts is already private.

# %%
ledger = PrivacyLedger(epsilon=1.0)
DPMarginalSynthesizer(
    1.0, domain=pair_domain, marginals="full", ledger=ledger, random_state=0
).fit(pair)
try:
    ledger.charge(PrivacyGuarantee(1.0, relation="add_remove"), "a count of all people")
except BudgetExceeded as refusal:
    print(refusal)
for name, fitted in [("1-way", one_way), ("2-way", two_way)]:
    print(
        f"free of charge, {name}: {fitted.n_rows_:.0f} ± {fitted.n_rows_std_error_:.0f}; true {n}"
    )

# %% [markdown]
# The noise of a sum is the noise of all its cells, so the measured column with the fewest values has the most precise
# total.
#
# ### Several marginals, each at ε
#
# Age × occupation at ε and age × sex at ε cost 2ε together, and their counts of ages are different. The synthesizer
# divides one ε among them, and fits one distribution to both.

# %%
triple = adult[["age", "occupation", "sex"]]
triple_domain = pair_domain | {"sex": categories["sex"]}
ledger = PrivacyLedger(epsilon=2)
by_itself = [
    DPHistogram(
        1.0,
        domain={name: triple_domain[name] for name in names},
        ledger=ledger,
        random_state=0,
    )
    .fit(triple[names])
    .counts_.reshape(100, -1)
    .sum(axis=1)
    for names in (["age", "occupation"], ["age", "sex"])
]
print(
    f"two histograms, epsilon {ledger.spent.epsilon:g}: people of 40: {by_itself[0][40]} or {by_itself[1][40]}"
)
print(f"all ages: they differ by {np.abs(by_itself[0] - by_itself[1]).sum()} people")

# %%
both = DPMarginalSynthesizer(
    1.0,
    domain=triple_domain,
    marginals=[("age", "occupation"), ("age", "sex")],
    random_state=0,
).fit(triple)
answers = [
    both.marginal(["age", other]).groupby("age", sort=False)["count"].sum()
    for other in ("occupation", "sex")
]
print(
    f"one model, epsilon {both.guarantee_.epsilon:g}: people of 40:",
    [round(float(counts.iloc[40]), 1) for counts in answers],
)
print(f"all ages: they differ by {np.abs(answers[0] - answers[1]).sum():.6f} people")

# %% [markdown]
# ### Noise in floating point
#
# `np.random.laplace` cannot return every double. If its noise is added to a count of 1, the sums are other doubles than
# for a count of 0, so many noisy counts reveal the true count, at any ε. The code below checks for each release of a
# count of 0 whether any of the generator's 2⁵³ values could have resulted from a count of 1.


# %%
def laplace(u, scale):
    """Convert a uniform number to Laplace noise, as NumPy does."""
    return scale * math.log(u + u) if u < 0.5 else -scale * math.log(2 - u - u)


def could_come_from(release, count, scale, reach=12):
    """Return whether a uniform double exists that results in this release of this count."""
    noise = release - count
    tail = math.exp(-abs(noise) / scale) / 2
    place = round((tail if noise < 0 else 1 - tail) * 2**53)
    near = range(max(1, place - reach), min(2**53, place + reach + 1))
    return any(count + laplace(k / 2**53, scale) == release for k in near)


# %%
possible = {}
for epsilon in (1, 0.1):
    releases = rng.laplace(0, 1 / epsilon, 2000).tolist()  # releases of a count of 0
    possible[f"ε = {epsilon}"] = [
        np.mean([could_come_from(release, count, 1 / epsilon) for release in releases])
        for count in (0, 1)
    ]
pd.DataFrame(possible, index=["of 0", "of 1"]).rename_axis(
    "releases that could be of a count …"
).map("{:.0%}".format)

# %% [markdown]
# In skdp, all counts and all noise are integers that are drawn exactly, so this attack is impossible.
#
# ### Bins from the data
#
# If the bins are computed from the data, their bounds are the smallest and the largest value, which belong to single
# people. For example, only one person has the largest census weight in Adult:

# %%
weights = load_adult().frame["fnlwgt"]
print("last edge with that person:", np.histogram_bin_edges(weights, bins=10)[-1])
print(
    "last edge without:         ",
    np.histogram_bin_edges(weights[weights < weights.max()], bins=10)[-1],
)
try:
    DPMarginalSynthesizer(1.0).fit(weights.to_frame())
except ValueError as refusal:
    print(refusal)

# %% [markdown]
# ## All columns: a graphical model
#
# The 14 columns have nearly 10¹⁵ combinations, but two columns have few. `marginals="auto"` uses a small part of ε to
# select the pairs with the strongest association, and interactions of three to five columns if it finds any. It measures
# them, and fits a graphical model to all noisy counts.
#
# With a small δ, the noise is Gaussian, which is more accurate for many marginals. δ must be far smaller than one
# divided by the number of people. The ledger has the budget for one fit.

# %%
ledger = PrivacyLedger(epsilon=1, delta=1e-9)
synthesizer = DPMarginalSynthesizer(
    epsilon=1, delta=1e-9, domain=domain, ledger=ledger, random_state=0
).fit(adult)
print(synthesizer.guarantee_)
print(f"combinations: {math.prod(synthesizer.domain_.sizes):.1e}")
ledger.charges()[["title", "epsilon", "delta", "mechanism", "secure"]]

# %%
try:
    DPMarginalSynthesizer(epsilon=0.1, domain=domain, ledger=ledger).fit(adult)
except BudgetExceeded as refusal:
    print(refusal)

# %%
measured = pd.DataFrame(
    {
        "columns": map(" × ".join, synthesizer.selected_cliques_),
        "noise": synthesizer.noise_scale_.values(),
    }
)
n_pairs = sum(len(clique) == 2 for clique in synthesizer.selected_cliques_)
print(
    f"{len(measured)} marginals: {adult.shape[1]} columns and {n_pairs} of {math.comb(14, 2)} pairs"
)
measured.iloc[[0, 9, 14, 15, 20, 30, 45]].round(1)

# %%
synthetic = synthesizer.sample()
print(f"{len(synthetic):,} rows")
synthetic.head()

# %% [markdown]
# ### Accuracy
#
# The table lists the mean total variation distance to the real rows over all single columns, all pairs, and the triples
# of seven columns. It also lists the AUC of a classifier of income that is trained on the synthetic rows and tested on
# other real rows. For comparison, it includes independent columns (private, and without privacy), and real rows that
# are resampled with replacement.

# %%
test = load_adult(subset="test").frame.drop(columns="fnlwgt")


def as_categories(rows):
    texts = rows.select_dtypes(exclude="number").columns
    return rows.astype(dict.fromkeys(texts, "category"))


boosting = make_pipeline(
    FunctionTransformer(as_categories),
    HistGradientBoostingClassifier(categorical_features="from_dtype", random_state=0),
)
of_triples = list(adult)[:7]


def distances(rows):
    errors = {
        f"{order}-way": mean_error(adult, rows, order=order, domain=domain)
        for order in (1, 2)
    }
    seven = adult[of_triples], rows[of_triples]
    return errors | {"3-way": mean_error(*seven, order=3, domain=domain)}


def auc(rows):
    return train_on_synthetic(boosting, rows, test, target="income").loc[
        "synthetic", "roc_auc"
    ]


def model_rows(epsilon, marginals="auto"):
    model = DPMarginalSynthesizer(
        epsilon, delta=1e-9, domain=domain, marginals=marginals, random_state=0
    )
    return model.fit(adult).sample()


# %%
shuffled = pd.DataFrame(
    {
        name: adult[name].sample(frac=1, random_state=i).array
        for i, name in enumerate(adult)
    }
)
bootstrap = adult.sample(n, replace=True, random_state=0)
tables = {
    "graphical model, ε = 1": synthetic,
    "independent columns, ε = 1": model_rows(1, "independent"),
    "independent columns, not private": shuffled,
    "real rows, resampled": bootstrap,
}
quality = pd.DataFrame(
    {name: distances(rows) | {"AUC": auc(rows)} for name, rows in tables.items()}
).T
quality.round(4)

# %%
shown = ["age", "occupation", "hours-per-week", "education-num"]
bins = Domain(domain | {"age": Interval(16, 96, bins=16)})
figure, panels = plt.subplots(2, 2, figsize=(7, 13), layout="constrained")
for axes, name in zip(panels.flat, shown, strict=True):
    column = bins.select([name])
    proportions = pd.DataFrame(
        {
            "real": column.value_counts(adult[[name]]) / len(adult),
            "synthetic": column.value_counts(synthetic[[name]]) / len(synthetic),
        }
    )
    proportions.plot.barh(ax=axes, color=[BLUE, ORANGE], title=name, ylabel="")
plt.show()

# %% [markdown]
# `fit` also counts finer cells within the bins, with a part of ε, so a frequent single value remains frequent.
# Nearly half of the people work 40 hours a week, in a bin from 38 to 40 hours, and so do the synthetic people:

# %%
pd.DataFrame(
    {
        name: [(rows["hours-per-week"] == k).mean() for k in range(37, 43)]
        for name, rows in [("real", adult), ("synthetic", synthetic)]
    },
    index=pd.Index(range(37, 43), name="hours per week"),
).T.round(3)

# %% [markdown]
# ### Queries
#
# `count` answers from the model, without drawing rows. A range is half-open, as a bin is. If a range contains a part of
# a bin, a proportional part of its count is used.

# %%
is_woman, over_50k = adult["sex"] == "Female", adult["income"] == ">50K"
in_office = adult["occupation"].isin(["Exec-managerial", "Sales"])
questions = {
    "women from 31 to 40": (
        {"age": (31, 41), "sex": "Female"},
        adult["age"].between(31, 40) & is_woman,
    ),
    "50 hours or more, over 50K": (
        {"hours-per-week": (50, None), "income": ">50K"},
        (adult["hours-per-week"] >= 50) & over_50k,
    ),
    "managers or in sales, with a degree": (
        {"occupation": ["Exec-managerial", "Sales"], "education-num": (13, None)},
        in_office & (adult["education-num"] >= 13),
    ),
    "never married, 26 to 65, over 50K": (
        {"marital-status": "Never-married", "age": (26, 66), "income": ">50K"},
        (adult["marital-status"] == "Never-married")
        & adult["age"].between(26, 65)
        & over_50k,
    ),
    "women of 86 or more": (
        {"age": (86, None), "sex": "Female"},
        (adult["age"] >= 86) & is_woman,
    ),
}

# %%
pd.DataFrame.from_dict(
    {
        name: [int(true.sum()), synthesizer.count(conditions)]
        for name, (conditions, true) in questions.items()
    },
    orient="index",
    columns=["true", "by the model"],
).round(1)

# %% [markdown]
# The estimates of large groups are correct within a few percent; the last two estimates are not. Three columns were not
# measured together, so the model infers their counts from pairs, and the noise exceeds the count of a small group. For
# columns that were measured together, `marginal` returns standard errors. Tests and intervals that are computed from
# synthetic rows are too narrow; use `skdp.synthesis.synthetic_inference` instead. The next cell computes the error of
# drawn rows for 100 random queries, each about an occupation and a range of ages:

# %%
draws = np.random.default_rng(0)
ages = np.sort([draws.choice(np.arange(17, 92), 2, replace=False) for _ in range(100)])
jobs = draws.choice(np.array(domain["occupation"].values, object), 100)
queries = [
    {"age": (low, high), "occupation": [job]}
    for (low, high), job in zip(ages.tolist(), jobs, strict=True)
]
range_errors = {
    name: 100 * range_query_error(adult, rows, queries) for name, rows in tables.items()
}
pd.Series(range_errors, name="mean error of a range query, % of all people").round(2)

# %%
synthesizer.marginal(["sex", "income"]).round(1)

# %% [markdown]
# ### The effect of ε
#
# The next cells repeat the comparison at three values of ε. At a small ε, the noise of many pairs exceeds their
# association, so fewer pairs are measured.

# %%
sweep = []
for epsilon in (0.1, 1, 10):
    fitted = synthetic if epsilon == 1 else model_rows(epsilon)
    sweep.append(
        {"ε": epsilon, "method": "graphical model"}
        | distances(fitted)
        | {"AUC": auc(fitted)}
    )
    sweep.append(
        {"ε": epsilon, "method": "independent"}
        | distances(model_rows(epsilon, "independent"))
    )
sweep = pd.DataFrame(sweep).set_index(["method", "ε"])
real_auc = train_on_synthetic(
    boosting, bootstrap, test, target="income", real_train=adult
).loc["real", "roc_auc"]
sweep.round(4)

# %%
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
model, alone = sweep.loc["graphical model"], sweep.loc["independent"]
for order, color in [("1-way", BLUE), ("2-way", ORANGE), ("3-way", GREEN)]:
    left.loglog(model.index, model[order], "o-", color=color, label=order)
    left.loglog(alone.index, alone[order], "--", color=color)
    left.axhline(quality.loc["real rows, resampled", order], color=color, linestyle=":")
left.plot([], [], "--", color=GREY, label="independent columns")
left.plot([], [], ":", color=GREY, label="real rows, resampled")
left.set(
    xlabel="ε",
    ylabel="mean total-variation distance",
    title="marginals",
    ylim=(4e-4, 1.5),
)
left.legend(frameon=False, ncols=2, loc="lower left", fontsize="small")
right.semilogx(
    model.index, model["AUC"], "o-", color=BLUE, label="trained on synthetic rows"
)
right.axhline(real_auc, color=GREY, linestyle=":", label="trained on the real ones")
right.set(
    xlabel="ε",
    ylabel="AUC on real test rows",
    title="predicting income",
    ylim=(0.75, 0.95),
)
right.legend(frameon=False, loc="lower right")
plt.show()

# %% [markdown]
# From ε = 1 on, single columns are most accurate if all of ε is used for them. The pairs of the graphical model are
# more accurate than the pairs of independent columns at every ε. At ε = 10, they are nearly as accurate as the pairs of
# another survey of the same size.
#
# ## Private columns of public rows
#
# If only some columns are private, `DPColumnSynthesizer` keeps each row and resamples these columns, given all other
# columns. The classifier below is trained on resampled relationships and sexes.

# %%
columns = ["sex", "relationship"]
resampler = DPColumnSynthesizer(columns, 1, delta=1e-9, domain=domain, random_state=0)
pipeline = make_pipeline(resampler, boosting).fit(
    adult.drop(columns="income"), adult["income"]
)

X, X_test = (rows.drop(columns="income") for rows in (adult, test))
scores = {"resampled": pipeline.score(X_test, test["income"])}
scores["as they were"] = boosting.fit(X, adult["income"]).score(X_test, test["income"])
print(
    "accuracy on real test rows:",
    {name: round(score, 3) for name, score in scores.items()},
)

# %% [markdown]
# ## Guarantees and limits
#
# - A fit is (ε, δ)-differentially private for adding or removing one person who has one row, with the ε and δ of its
#   `guarantee_`. `guarantee_.to("replace")` converts it to replacing a person. If a person can have several rows, set
#   `max_rows_per_person`.
# - The domain is public. An undeclared value raises an error, which reveals that it exists.
# - `DPColumnSynthesizer` protects the named columns only.
# - Associations that the model did not measure are not in the rows. Use the rows to explore, to teach and to develop
#   models. Confirm an important result on the real data, with a separate ε.
# - The comparisons with the real rows are not private. Choosing ε or the bins by them reveals information about the
#   people.
# - This notebook made hundreds of fits about the same people, with seeds. Use a `PrivacyLedger` for your own releases.
