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
# # Tutorial: release two columns with local privacy
#
# In this tutorial, you share a table of people without revealing the age and the sex of each person. You declare the
# domain, choose ε, randomize the two columns, estimate their counts, train and evaluate a classifier, and state the
# protection. Several sections also show frequent mistakes, which reveal more than ε allows or result in wrong
# conclusions.
#
# The randomness is drawn from seeds, so that the text agrees with the output. **With a seed, there is no guarantee**,
# and every printed guarantee states this. For a release, omit `random_state`.

# %%
import itertools
import math
from functools import partial

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import RepeatedStratifiedKFold, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

# %%
from skdp import (
    BudgetExceeded,
    Domain,
    PrivacyLedger,
    RandomizedResponseEncoder,
    privacy_statement,
)
from skdp.datasets import load_adult
from skdp.evaluation import (
    CountEstimateDisplay,
    FairnessDisplay,
    PrivacyCurveDisplay,
    attribute_inference,
    privacy_curve,
)
from skdp.metrics import debiased_fairness, fairness_report
from skdp.oracles import RandomizedResponse
from skdp.privacy import local_epsilon

# %% [markdown]
# The table is the census data Adult. The years of education replace the name of the degree, and the census weight is
# omitted.

# %%
census = load_adult(subset="all", dropna=True)
adult = census.frame.drop(columns=["fnlwgt", "education"])
n = len(adult)
f"{n:,} people, {adult.shape[1]} columns"

# %% [markdown]
# ## 1. Declare the groups
#
# The groups are people up to 37 or older, and women or men. Declare the threshold and the values in a `Domain`. Neither
# is computed from the table, so each person can find their own group without other data.

# %%
YOUNGER, OLDER = "37 or younger", "over 37"
domain = Domain({"age_group": [YOUNGER, OLDER], "sex": ["Female", "Male"]})
domain

# %%
age_group = pd.Categorical(
    np.where(adult["age"] > 37, OLDER, YOUNGER), categories=[YOUNGER, OLDER]
)
people = adult.drop(columns="age").assign(age_group=age_group)
cells = people[["age_group", "sex"]]
pd.crosstab(cells["age_group"], cells["sex"])

# %% [markdown]
# ### What can go wrong: a threshold from the data
#
# The median of these ages is 37, too. But a median is computed from all ages, so the group of each person would depend
# on all other people, and no noise would be added for this. In the local model, nobody can compute the median, because
# nobody has all ages. The next cells show how much the median changes if one person in the armed forces is removed:

# %%
soldiers = adult.loc[adult["occupation"] == "Armed-Forces", "age"]
medians = pd.Series({one: soldiers.drop(one).median() for one in soldiers.index})
print(
    f"median of the {len(soldiers)}: {soldiers.median():g}; without one of them: {sorted(medians.unique().tolist())}"
)

# %%
others = [soldiers.drop(one) for one in soldiers.index]
moved = [
    ((ages > ages.median()) != (ages > soldiers.median())).sum() for ages in others
]
print(f"others whose group changes when one person is left out: up to {max(moved)}")

# %% [markdown]
# Use a threshold that is public, as here, or a threshold with noise. The second option requires a trusted curator and
# costs a separate ε: `DPKBinsDiscretizer`.
#
# ## 2. Randomize
#
# `strategy="joint"` reports the combination of both columns. The report is the true group with probability p, and each
# of the three other groups with probability q, where p/q = e^ε. ε is for both columns together.


# %%
def randomizer(epsilon, **options):
    return RandomizedResponseEncoder(
        epsilon, strategy="joint", categories=domain, **options
    )


encoder = randomizer(1.0, random_state=0).fit(cells)
encoder.guarantee_

# %%
names = [", ".join(cell) for cell in domain.cells()]
pd.DataFrame(encoder.channel()[0], index=names, columns=names).map(float).round(4)

# %% [markdown]
# These probabilities are exact: `channel()` returns fractions, and their largest ratio is at most e^ε. `transform`
# draws a report for each person:

# %%
reports = encoder.transform(cells)
print(
    f"people whose report is their true group: {(reports == cells).all(axis=1).mean():.1%}"
)
reports.head(3)

# %% [markdown]
# ### What can go wrong: randomness that can be repeated
#
# NumPy's generators are designed for simulations. Suppose that the reports were drawn with such a generator from a
# small seed. An attacker who knows the groups of 20 people can try all seeds below 100:

# %%
truth = domain.join(domain.encode([cells[name] for name in domain.columns]))
p = math.exp(1) / (math.exp(1) + 3)


def seeded_shifts(seed):
    """Return the distance of each report from the true code."""
    generator = np.random.default_rng(seed)
    lies = generator.integers(1, 4, n)
    return np.where(generator.random(n) < p, 0, lies)


# %%
published = (truth + seeded_shifts(42)) % 4
known = slice(0, 20)
fits = [
    seed
    for seed in range(100)
    if ((truth + seeded_shifts(seed)) % 4 == published)[known].all()
]
recovered = (published - seeded_shifts(fits[0])) % 4
print(
    f"seeds that fit: {fits}; groups that are then known: {(recovered == truth).mean():.0%} of {n:,}"
)

# %% [markdown]
# Without `random_state`, skdp uses the secure random bits of the operating system. This tutorial sets `random_state`,
# so its reports are not private.
#
# ## 3. Estimate the counts
#
# The counts of the reports are biased toward equal counts. `estimate_counts` corrects for the randomization, and
# returns standard errors.

# %%
true_counts = cells.value_counts().reindex(domain.cells()).rename("true")
estimates = encoder.estimate_counts(reports)
shown = estimates[["count", "std_error", "lower", "upper"]].round().astype(int)
pd.concat(
    [
        true_counts,
        reports.value_counts().reindex(domain.cells()).rename("reports"),
        shown,
    ],
    axis=1,
)

# %%
CountEstimateDisplay.from_estimates(estimates, true_counts=true_counts)
plt.show()

# %% [markdown]
# ### What can go wrong: the error of a single release
#
# The error of a single release is a poor estimate of the expected error. The next cell makes 100 releases at each of six
# values of ε:

# %%
EPSILONS = (0.1, 0.3, 0.5, 1.0, 2.0, 5.0)
rows, expected = [], {}
for seed, epsilon in enumerate(EPSILONS):
    repeated = RandomizedResponseEncoder(
        epsilon, strategy="joint", categories=domain, random_state=seed
    ).fit(cells)
    variances = repeated.count_variances(true_counts)
    expected[epsilon] = {
        "L1 expected": np.sqrt(variances * 2 / np.pi).sum(),
        "L2 expected": np.sqrt(variances.sum()),
    }
    for repeat in range(100):
        counts = repeated.estimate_counts(repeated.transform(cells))
        error = counts["count"] - true_counts
        covers = true_counts.between(counts["lower"], counts["upper"]).mean()
        rows.append((epsilon, repeat, error.abs().sum(), (error**2).sum(), covers))
names = ["epsilon", "repeat", "L1", "L2", "coverage"]
errors = pd.DataFrame(rows, columns=names)
summary = errors.groupby("epsilon")[["L1", "L2", "coverage"]].mean()
summary["L2"] = np.sqrt(summary["L2"])
summary = summary.join(pd.DataFrame(expected).T)
summary[["L1", "L1 expected", "L2", "L2 expected", "coverage"]].round(2)

# %% [markdown]
# L1 is the sum of the errors of the four counts, and L2 is the square root of the sum of their squares. The expected
# errors are computed from the channel and the counts (the expected L1 assumes normal errors; the expected L2 is exact). The next cells compute how often a single release at a smaller ε has a smaller error than a single release at
# a larger ε:

# %%
l1 = errors.pivot(index="repeat", columns="epsilon", values="L1")
swapped = {
    f"ε = {low:g} and {high:g}": (l1[low] < l1[high]).mean()
    for low, high in itertools.pairwise(EPSILONS)
}
pd.Series(
    swapped,
    name="share of pairs of single runs in which the smaller ε has the smaller error",
)

# %%
fig, ax = plt.subplots(figsize=(7, 3.5))
ax.loglog(summary.index, summary["L1 expected"], label="expected, in closed form")
quantiles = errors.groupby("epsilon")["L1"].quantile([0.05, 0.95])
ax.vlines(
    summary.index,
    *quantiles.unstack().to_numpy().T,
    lw=6,
    alpha=0.3,
    label="90 of 100 releases",
)
ax.set(xlabel="ε", ylabel="L1 error, people")
ax.legend(frameon=False)
plt.show()

# %% [markdown]
# ### Noise by the trusted party
#
# In the local model, no collector is trusted. If a party is trusted to add up the reports and to publish only the four
# sums, each report requires far less noise. A curator who has the table requires the least noise. The next cells
# compare the errors of the three models at the same ε for everyone who receives the result.


# %%
def reports_error(epsilon):
    return np.sqrt(randomizer(epsilon).fit(cells).count_variances(true_counts).sum())


def curator_error(epsilon):
    ratio = math.exp(
        -epsilon
    )  # of the probabilities of discrete Laplace noise, whose variance is 2 r / (1 - r)²
    return math.sqrt(len(true_counts) * 2 * ratio) / (1 - ratio)


by_trust = pd.DataFrame(
    {
        "local": [reports_error(epsilon) for epsilon in EPSILONS],
        "shuffled": [
            reports_error(
                local_epsilon(
                    epsilon, delta=1e-6, n=n, reporter=partial(RandomizedResponse, 4)
                )
            )
            for epsilon in EPSILONS
        ],
        "central": [curator_error(epsilon) for epsilon in EPSILONS],
    },
    index=pd.Index(EPSILONS, name="epsilon"),
)
by_trust.round(1)

# %%
fig, ax = plt.subplots(figsize=(7, 3.5))
for (name, errors), marker in zip(by_trust.items(), "os^", strict=True):
    ax.loglog(by_trust.index, errors, f"{marker}-", label=name)
ax.set(xlabel="ε", ylabel="L2 error, people")
ax.legend(frameon=False)
plt.show()

# %% [markdown]
# ### Negative counts
#
# Unbiased counts may be negative. If negative counts are set to 0, the total is too large, and the counts of small
# groups are too large on average. The next cells add race as a third column, which results in 20 groups, most of them
# small:

# %%
wide = Domain(
    {**{name: domain[name] for name in domain.columns}, "race": census.domain["race"]}
)
three_columns = people[list(wide.columns)]
twenty = RandomizedResponseEncoder(
    0.5, strategy="joint", categories=wide, random_state=0
).fit(three_columns)
tallies = [twenty.tally(twenty.transform(three_columns)) for _ in range(200)]

# %%
repaired = {
    repair: np.array(
        [
            twenty.estimate_counts(tally, postprocess=repair)["count"]
            for tally in tallies
        ]
    )
    for repair in ("none", "clip", "simplex")
}
twenty_counts = three_columns.value_counts().reindex(wide.cells()).fillna(0).to_numpy()
small = twenty_counts < 1000
print(
    f"{small.sum()} of {wide.size} groups are small: {twenty_counts[small].mean():.0f} people on average"
)

# %%
repairs = pd.DataFrame(
    {
        "mean total": {
            name: counts.sum(axis=1).mean() for name, counts in repaired.items()
        },
        "mean small group": {
            name: counts[:, small].mean() for name, counts in repaired.items()
        },
        "rms L2 error": {
            name: np.sqrt(((counts - twenty_counts) ** 2).sum(axis=1).mean())
            for name, counts in repaired.items()
        },
    }
)
repairs.round(0).astype(int)

# %% [markdown]
# `"simplex"` returns the nearest counts that are nonnegative and have the correct total. It has the smallest error of
# the three, but it is biased, too. Use `"none"` for intervals and tests.
#
# ## 4. Choose ε
#
# The errors above are computed from true counts, so a choice that is based on them reveals information about the
# people. The true counts are not required, because the error hardly depends on them. Suppose that all four groups are
# equally large, and that the standard error of a count may be at most 1 % of the number of people, which is public:

# %%
standard_error = pd.Series(
    {
        epsilon: np.sqrt(
            randomizer(epsilon).fit(cells).count_variances([n / 4] * 4).mean()
        )
        for epsilon in EPSILONS
    }
)
EPSILON = min(epsilon for epsilon, error in standard_error.items() if error <= 0.01 * n)
print(f"smallest ε that satisfies this: {EPSILON:g}")
(100 * standard_error / n).round(2).rename(
    "standard error of a count, in % of all people"
).rename_axis("ε").to_frame()

# %% [markdown]
# ## 5. Release the table, once
#
# The reports replace the two columns, and the other columns are unchanged. Pass a ledger with the budget of one
# release, so that a second release raises an error.

# %%
ledger = PrivacyLedger(epsilon=EPSILON)
release = randomizer(EPSILON, random_state=1, ledger=ledger).fit(cells)
reports = release.transform(cells)
released = people.assign(**{name: reports[name] for name in domain.columns})
released.head()

# %%
try:
    release.transform(cells)
except BudgetExceeded as refusal:
    print(refusal)

# %% [markdown]
# ### What can go wrong: several reports of the same people
#
# If the same people report at all six values of ε, and once more for the table, the privacy loss is the sum of all ε.
# If a collector receives the reports, it can use the most frequent report of each person:

# %%
asked = cells.iloc[::5]
again = randomizer(1.0, random_state=0).fit(asked)
true_groups = asked.astype(str).agg(" ".join, axis=1)
votes, shares = 0, {}
for number in range(1, 11):
    votes = votes + pd.get_dummies(
        again.transform(asked).astype(str).agg(" ".join, axis=1), dtype=int
    )
    shares[number] = (votes.idxmax(axis=1) == true_groups).mean()
pd.Series(shares, name="share recovered")[[1, 2, 5, 10]].rename_axis("releases").round(
    3
)

# %% [markdown]
# One report at ε = 1 reveals the group of fewer than half of the people. Ten reports reveal the group of more than
# three quarters. If you must ask the same people again, set `memoize=True`.
#
# ## 6. Attack your own release
#
# `attribute_inference` simulates an attacker who knows the group of some people, trains a model on all released
# columns, and predicts the group of the remaining people. To save time, the next cell uses every eighth row. The rows
# are divided into three parts, and each part is predicted by a model of the other two.

# %%
income = people["income"]
ours = released.drop(columns="income")
some = slice(None, None, 8)


def attack(table, columns=("age_group", "sex")):
    return attribute_inference(
        table.assign(income=income).iloc[some],
        cells.iloc[some][list(columns)],
        encoder=release,
        random_state=0,
    )


# %% [markdown]
# The first table contains a frequent mistake: it still has a column with the number of the true group.

# %%
leak = attack(ours.assign(age_sex_cat=truth))
print(f"guessed right: {leak.accuracy:.1%}")

# %% [markdown]
# The attack finds every group, at any ε. Without this column:

# %%
honest = attack(ours)
print(
    f"guessed right: {honest.accuracy:.1%}; without the reports: {honest.accuracy_without_report:.1%}"
)
print(
    f"by the most frequent group: {honest.baseline:.1%}; from the report alone at best: {honest.bayes_bound:.1%}"
)
honest.recall.head(8).round(3)

# %% [markdown]
# With the reports alone, no attack is more accurate than the best guess. This attack is more accurate even without
# them, because other columns reveal age and sex: `relationship`, in which husbands are men, and `marital-status`.
# `recall` is the proportion of each group that is found. A smaller ε of the reports does not change this. The next cell
# predicts only the sex, with these two columns and without them:

# %%
by_sex = {
    "all columns": attack(ours, ["sex"]),
    "without relationship and marital-status": attack(
        ours.drop(columns=["relationship", "marital-status"]), ["sex"]
    ),
}
measures = ["accuracy", "accuracy_without_report", "baseline", "bayes_bound"]
pd.DataFrame(
    {
        name: {one: getattr(result, one) for one in measures}
        for name, result in by_sex.items()
    }
).T.round(3)

# %% [markdown]
# ## 7. Train a classifier
#
# The classifier predicts whether a person earns more than 50,000 dollars. `privacy_curve` trains it with the true
# columns and with reports, at several values of ε, on the same splits. The reports are used for training and for
# prediction, and the true sex only for scoring. A difference is the rate of women minus the rate of men.

# %%
X, y = people.drop(columns="income"), people["income"]
NUMBERS = ["education-num", "capital-gain", "capital-loss", "hours-per-week"]


def classifier():
    columns = make_column_transformer(
        (StandardScaler(), NUMBERS),
        remainder=OneHotEncoder(handle_unknown="ignore", sparse_output=False),
    )
    return make_pipeline(columns, LogisticRegression(solver="newton-cholesky"))


# %%
private_columns = ColumnTransformer(
    [("reports", randomizer(EPSILON), list(domain.columns))],
    remainder="passthrough",
    verbose_feature_names_out=False,
).set_output(transform="pandas")


def score(model, X, y):
    """Return accuracy, AUC, and the differences between women and men, by the true sex."""
    predicted = model.predict(X)
    report = fairness_report(
        y, predicted, X["sex"], privileged="Male", positive_label=">50K"
    ).set_index("metric")["value"]
    return {
        "accuracy": (predicted == y).mean(),
        "roc_auc": roc_auc_score(y == ">50K", model.predict_proba(X)[:, 1]),
        "statistical_parity_difference": report["statistical_parity_difference"],
        "equal_opportunity_difference": report["equal_opportunity_difference"],
    }


curve = privacy_curve(
    make_pipeline(private_columns, classifier()),
    X,
    y,
    param_name="columntransformer__reports__epsilon",
    epsilons=[0.1, 1.0, 5.0],
    scoring=score,
    cv=RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0),
    random_state=0,
)

# %%
PrivacyCurveDisplay.from_curve(curve)
plt.show()

# %%
means = curve.pivot_table("value", "epsilon", "metric")
means.round(4)

# %% [markdown]
# Note the narrow range of the axes: from ε = 0.1 to no noise, the accuracy changes by less than half a percentage
# point. The difference in selection rates hardly changes, either, because other columns reveal the sex. The difference
# in true positive rates decreases by a third. The intervals are over draws and splits.
#
# ### One release, one split, and intervals
#
# An analyst has only the released table. The next cells train on two thirds of its rows and test on one third, and do
# the same with the full table and with the table without the two columns.

# %%
tables = {
    "full": X,
    "privatized": ours,
    "without both columns": X.drop(columns=list(domain.columns)),
}
train, test = train_test_split(
    np.arange(n), test_size=1 / 3, stratify=y, random_state=0
)
y_test = y.iloc[test].to_numpy()
models = {
    name: classifier().fit(table.iloc[train], y.iloc[train])
    for name, table in tables.items()
}
chances = {
    name: model.predict_proba(tables[name].iloc[test])[:, 1]
    for name, model in models.items()
}
predicted = {
    name: np.where(chance > 0.5, ">50K", "<=50K") for name, chance in chances.items()
}

# %% [markdown]
# The models are tested on the same people, so the next cell computes intervals of their *differences* from resampled
# test rows:


# %%
def scores(rows):
    return pd.DataFrame(
        {
            "accuracy": {
                name: (labels == y_test)[rows].mean()
                for name, labels in predicted.items()
            },
            "AUC": {
                name: roc_auc_score(y_test[rows] == ">50K", chance[rows])
                for name, chance in chances.items()
            },
        }
    )


point = scores(np.arange(len(test)))
point.round(4)

# %%
rng = np.random.default_rng(0)
resamples = [scores(rng.integers(0, len(test), len(test))) for _ in range(50)]
pairs = [
    ("privatized", "full"),
    ("without both columns", "full"),
    ("privatized", "without both columns"),
]
compared = {}
for first, second in pairs:
    margins = (
        1.96
        * pd.DataFrame(
            [resample.loc[first] - resample.loc[second] for resample in resamples]
        ).std()
    )
    for score, difference in (point.loc[first] - point.loc[second]).items():
        ends = {
            "lower": difference - margins[score],
            "upper": difference + margins[score],
        }
        compared[score, f"{first} − {second}"] = {"difference": difference} | ends
compared = pd.DataFrame(compared).T
compared.loc[["accuracy", "AUC"]].round(4)

# %% [markdown]
# The model on the full table has a larger AUC, by half a percentage point. The interval of the difference in accuracy
# contains 0. The last line of each score compares the reports with the model without both columns: at ε = 1, this run
# does not show that the reports improve the model. The counts estimated from reports at the same ε have errors of about
# five percent.
#
# ## 8. Measure fairness
#
# The next cell scores the same three models with the true sex of the test rows. Each interval is for one model. The
# models share the test rows, so do not compare models by their overlapping intervals.

# %%
sex = cells["sex"].iloc[test]
options = {"privileged": "Male", "positive_label": ">50K"}
fairness = {
    name: fairness_report(y_test, labels, sex, **options)
    for name, labels in predicted.items()
}
FairnessDisplay.from_reports(
    {name: report[report["group"].notna()] for name, report in fairness.items()}
)
plt.show()

# %%
impact = {
    name: report.set_index("metric").loc["disparate_impact", "value"]
    for name, report in fairness.items()
}
pd.Series(impact, name="disparate impact").round(3)

# %% [markdown]
# All three models select women less than half as often as men.
#
# An analyst who has only the reports cannot compute this table. If the reported sex is used as the true sex, the
# difference of selection rates is too small, by a factor that depends on the channel and on the proportion of men.
# `debiased_fairness` corrects for the channel. With `rows="table"`, its intervals are for the randomness of the
# reports, so they should cover the values of these rows.

# %%
labels, seen = predicted["privatized"], reports.iloc[test]
by_truth = fairness_report(y_test, labels, sex, **options)
naive = fairness_report(y_test, labels, seen["sex"], **options)
debiased = debiased_fairness(
    y_test, labels, seen, release, columns="sex", rows="table", **options
)

# %%
METRICS = [
    "statistical_parity_difference",
    "equal_opportunity_difference",
    "average_odds_difference",
]
named = {"true sex": by_truth, "reported sex": naive, "debiased": debiased}
differences = {
    name: report[report["metric"].isin(METRICS)] for name, report in named.items()
}
FairnessDisplay.from_reports(differences)
plt.show()

# %%
values = pd.DataFrame(
    {name: report.set_index("metric")["value"] for name, report in differences.items()}
)
values = values.join(differences["debiased"].set_index("metric")[["lower", "upper"]])
values.round(3)

# %% [markdown]
# The three intervals cover the true values. They are wide if few rows are used: at this ε, the true positive rates of
# women and men cannot be distinguished with reports. The notebook on fairness under local privacy describes this in
# more detail.
#
# ## 9. State the protection
#
# The statement of the pipeline lists the protection of each column:

# %%
pipeline = make_pipeline(private_columns, classifier()).fit(X, y)
statement = privacy_statement(pipeline, X)
statement

# %% [markdown]
# - With secure randomness, the age group and the sex of each person are protected together, with ε = 1: each report is
#   at most e times as likely for the person's own group as for any other group. This holds against everyone who
#   receives the table, including the server that collects it.
# - All other columns, including income, are unprotected, and may reveal the protected columns. To avoid this, drop
#   `relationship` and `marital-status`, or protect them as well, with a fraction of ε for each further column.
# - The threshold and the categories are declared. No column contains the true group, and each person reports once.
# - ε was chosen from the channel and the number of people, without true counts or reports.
# - All comparisons with true values are not private: errors, attacks, accuracies, and fairness by the true sex. An
#   analyst who has only the reports can compute the estimates with their intervals, and the debiased fairness.
# - This tutorial made hundreds of releases about the same people, with seeds. Use a `PrivacyLedger` for your own
#   releases.
