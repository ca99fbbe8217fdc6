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
# # Fairness with reported groups
#
# This notebook measures whether a classifier of income treats women and men, and people of different races, equally.
# This requires the group of each person, which many people do not want to disclose. With local privacy, each person
# reports a randomized group. The notebook compares fairness metrics of the true groups, of the reports used as groups,
# and of debiased reports. It then trains on privatized columns, and under a fairness constraint without true groups.
#
# The notebook runs in a minute or two. `benchmarks/fairness.py` measures the same functions with more repeats. All
# randomness is drawn from seeds, so that the text agrees with the output. **With a seed, there is no guarantee.** For a
# release, omit `random_state`.

# %%
import logging
import math
import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from fairlearn.metrics import (
    MetricFrame,
    demographic_parity_difference,
    equal_opportunity_difference,
    selection_rate,
)
from fairlearn.reductions import EqualizedOdds, ExponentiatedGradient
from sklearn.compose import make_column_transformer
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from threadpoolctl import threadpool_limits

# %%
from skdp import (
    OnFitOnly,
    RandomizedResponseEncoder,
    SubsetSelectionEncoder,
    UnaryEncodingTransformer,
)
from skdp.datasets import load_adult
from skdp.evaluation import FairnessDisplay, PrivacyCurveDisplay, privacy_curve
from skdp.metrics import (
    debiased_fairness,
    fairness_report,
    private_parity,
    private_reweighing,
    private_threshold_optimizer,
    to_aif360,
)

# %%
threadpool_limits(1)  # threads do not speed up such small problems

BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#999999"
PARITY, OPPORTUNITY = "statistical_parity_difference", "equal_opportunity_difference"
PRIVATE = ["sex", "race", "native-country", "age"]
PUBLIC = [
    "workclass",
    "education",
    "marital-status",
    "occupation",
    "relationship",
    "hours-per-week",
]


# %%
train, test = (
    load_adult(subset="train", dropna=True),
    load_adult(subset="test", dropna=True),
)
X, X_test = train.data[PRIVATE + PUBLIC], test.data[PRIVATE + PUBLIC]
y, y_test = train.target, test.target
print(
    f"{len(X):,} rows to train on, {len(X_test):,} to test, {len(PRIVATE + PUBLIC)} columns"
)

# %% [markdown]
# ## With true groups
#
# The model is a logistic regression on ten one-hot encoded columns, without privacy. `fairness_report` computes the
# usual metrics of its predictions. All differences are *unprivileged − privileged*, so a negative value means that
# women have the smaller rate.

# %%
classifier = make_pipeline(
    OneHotEncoder(handle_unknown="ignore"), LogisticRegression(max_iter=1000)
).fit(X, y)
predicted = classifier.predict(X_test)
print(
    f"accuracy {np.mean(predicted == y_test):.4f}, predicted >50K: {np.mean(predicted == '>50K'):.1%}"
)
report = fairness_report(
    y_test,
    predicted,
    X_test["sex"],
    privileged="Male",
    positive_label=">50K",
)
true_values = report[report["group"].isna()].set_index("metric")["value"]
report.round(4)

# %% [markdown]
# Without `privileged`, each value is a separate group. If you pass several columns, each combination is a group. The
# smallest groups have few rows and wide intervals.

# %%
by_group = fairness_report(
    y_test, predicted, X_test[["race", "sex"]], positive_label=">50K"
)
sizes = X_test.groupby(["race", "sex"], observed=True).size()
rates = by_group[by_group["metric"] == "true_positive_rate"]
rates = rates.set_index(
    pd.MultiIndex.from_tuples(rates["group"], names=sizes.index.names)
)
rates[["value", "lower", "upper"]].assign(rows=sizes).round(3)

# %%
report = fairness_report(
    y_test,
    classifier.predict(X_test),
    X_test["sex"],
    privileged="Male",
    positive_label=">50K",
)
FairnessDisplay.from_reports({"true groups": report})
plt.show()

# %% [markdown]
# aif360 and fairlearn compute the same numbers. They use different signs for the equal opportunity difference: it is
# signed in aif360, and the largest rate minus the smallest rate in fairlearn.

# %%
logging.getLogger().addFilter(
    lambda record: "unavailable" not in record.getMessage()
)  # of learners that nobody needs
from aif360.metrics import ClassificationMetric

# %%
dataset, dataset_predicted = (
    to_aif360(X_test, labels, "sex", privileged="Male", positive_label=">50K")
    for labels in (y_test, predicted)
)
aif360 = ClassificationMetric(
    dataset,
    dataset_predicted,
    unprivileged_groups=[{"sex": 0.0}],
    privileged_groups=[{"sex": 1.0}],
)

# %%
rich, predicted_rich = y_test == ">50K", predicted == ">50K"
groups = {"sensitive_features": X_test["sex"]}
peers = pd.DataFrame(
    {
        "skdp": true_values,
        "aif360": {
            PARITY: aif360.statistical_parity_difference(),
            "disparate_impact": aif360.disparate_impact(),
            OPPORTUNITY: aif360.equal_opportunity_difference(),
            "average_odds_difference": aif360.average_odds_difference(),
            "equalized_odds_difference": aif360.equalized_odds_difference(),
            "predictive_parity_difference": -aif360.false_discovery_rate_difference(),
        },
        "fairlearn": {
            PARITY: demographic_parity_difference(rich, predicted_rich, **groups),
            OPPORTUNITY: equal_opportunity_difference(rich, predicted_rich, **groups),
        },
    }
).loc[true_values.index]
peers.round(4)

# %%
frame = MetricFrame(
    metrics=selection_rate, y_true=rich, y_pred=predicted_rich, **groups
)
frame.by_group.rename("selection rate, by fairlearn").round(4).to_frame()

# %% [markdown]
# ## With reports
#
# Now the auditor has the predictions, the true labels, and a report of each person's sex by randomized response. The
# report is true with probability a = e^ε / (1 + e^ε), and otherwise the other sex. At ε = 1, a is 0.731, and a woman is
# reported as a man with probability b = 1 − a = 0.269.
#
# If the reports are used as groups, each reported group is a mixture of women and men, so the differences are too
# small. Let π be the true proportion of men, and ρ = a π + b (1 − π) the proportion of reported men. Every difference
# of two rates is multiplied by the factor
#
# > (a − b) π (1 − π) / (ρ (1 − ρ)), where a − b = tanh(ε / 2).
#
# π and ρ are the proportions among the rows of the rate: all rows for the selection rate, and the rows with more than
# 50K for the true positive rate. The next cells confirm the factor with 200 repeated draws; the full study has 5,000.

# %%
SEXES = {"sex": ["Female", "Male"]}
PEOPLE = {PARITY: np.ones(len(y_test), bool), OPPORTUNITY: rich.to_numpy()}
male = (X_test["sex"] == "Male").to_numpy()


def shrinkage(epsilon, rows):
    """Return the factor by which reports reduce a difference of two rates."""
    a, share = math.exp(epsilon) / (1 + math.exp(epsilon)), male[rows].mean()
    seen = a * share + (1 - a) * (1 - share)
    return math.tanh(epsilon / 2) * share * (1 - share) / (seen * (1 - seen))


def naive_difference(reported_male, rows):
    """Return the difference of the rates if reports are used as groups."""
    return (
        predicted_rich[rows & ~reported_male].mean()
        - predicted_rich[rows & reported_male].mean()
    )


# %%
lines = []
for epsilon in (0.5, 1, 2, 4):
    encoder = RandomizedResponseEncoder(epsilon, categories=SEXES, random_state=0).fit(
        X_test[["sex"]]
    )
    repeats = [
        (encoder.transform(X_test[["sex"]])["sex"] == "Male").to_numpy()
        for _ in range(200)
    ]
    for metric, rows in PEOPLE.items():
        naive = np.mean([naive_difference(reported, rows) for reported in repeats])
        factor = shrinkage(epsilon, rows)
        lines.append(
            (
                metric,
                epsilon,
                true_values[metric],
                naive,
                naive / true_values[metric],
                factor,
            )
        )

# %%
shrunk = pd.DataFrame(
    lines,
    columns=["metric", "ε", "true", "mean of the naive ones", "their ratio", "theory"],
)
shrunk = shrunk.sort_values(["metric", "ε"], ascending=[False, True]).set_index(
    ["metric", "ε"]
)
shrunk.round(4)

# %% [markdown]
# At ε = 1, reports that are used as groups have two fifths of the true difference in selection rates, and a quarter of
# the difference in true positive rates. The factor depends only on ρ and the channel, so it can be corrected.
# `debiased_fairness` converts each report to an unbiased indicator of the group of its row, and estimates rates,
# differences and intervals.

# %%
one = RandomizedResponseEncoder(1.0, categories=SEXES, random_state=0)
reports = one.fit_transform(X_test[["sex"]])
print(one.guarantee_)
given = {"privileged": "Male", "positive_label": ">50K", "rows": "table"}
debiased = debiased_fairness(y_test, predicted, reports, one, **given)
debiased.drop(columns="definition").round(4)

# %% [markdown]
# With `rows="table"`, the intervals are for the randomness of the reports only. They should cover the metrics of these
# rows with their true groups. The next cells make 100 repeated draws, and list the results of the full study for
# comparison:

# %%
found = [
    debiased_fairness(
        y_test, predicted, one.transform(X_test[["sex"]]), one, **given
    ).set_index("metric")
    for _ in range(100)
]

# %%
repeated = {}
for metric in PEOPLE:
    values, true = (
        np.array([table.loc[metric, "value"] for table in found]),
        true_values[metric],
    )
    covered = [
        table.loc[metric, "lower"] <= true <= table.loc[metric, "upper"]
        for table in found
    ]
    repeated[metric] = {
        "true": true,
        "mean": values.mean(),
        "± its error": values.std(ddof=1) / 10,
        "standard deviation": values.std(ddof=1),
        "stated standard error": np.mean(
            [table.loc[metric, "std_error"] for table in found]
        ),
        "intervals that cover": np.mean(covered),
    }
pd.DataFrame(repeated).T.round(4)

# %% [markdown]
# The next figure compares the three methods by ε. All intervals are for the population from which these people are a
# sample (`rows="population"`, the default), so the metrics of known groups have intervals, too.

# %%
compared = {}
for epsilon in (0.5, 1, 2, 4):
    encoder = RandomizedResponseEncoder(epsilon, categories=SEXES, random_state=1)
    seen = encoder.fit_transform(X_test[["sex"]])
    options = {"privileged": "Male", "positive_label": ">50K"}
    tables = {
        "true groups": report,
        "reports taken for the truth": fairness_report(
            y_test, predicted, seen["sex"], **options
        ),
        "debiased": debiased_fairness(y_test, predicted, seen, encoder, **options),
    }
    for name, table in tables.items():
        compared[name, epsilon] = table.set_index("metric").loc[list(PEOPLE)]
compared = pd.concat(compared, names=["method", "epsilon"])

# %%
figure, panels = plt.subplots(2, figsize=(5, 7), sharex=True, layout="constrained")
for axis, metric in zip(panels, PEOPLE, strict=True):
    for name, color, shift in zip(
        tables, (BLUE, ORANGE, GREEN), (0.93, 1, 1.07), strict=True
    ):
        rows = compared.loc[name].xs(metric, level="metric")
        value = rows["value"]
        axis.errorbar(
            rows.index * shift,
            value,
            [value - rows["lower"], rows["upper"] - value],
            fmt="o",
            color=color,
            capsize=2,
            label=name,
        )
    axis.axhline(0, color=GREY, linestyle=":")
    axis.set(xscale="log", title=metric.replace("_", " "))
    axis.set_xticks([0.5, 1, 2, 4], ["0.5", "1", "2", "4"])
    axis.minorticks_off()
panels[1].set_xlabel("ε of sex")
figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center")
plt.show()

# %% [markdown]
# If reports are used as groups, the intervals are narrow but wrong, and more people do not correct this. The debiased
# intervals are wider, because they include the noise. At ε = 4, the three methods nearly agree.
#
# ### Race and sex together
#
# The next cells compare white men with each other group, and with all other people. The combination of race and sex is reported as one of ten
# values, by randomized response, by unary encoding or by subset selection. The reports of the last two are bits, so
# they cannot be used as groups, but they can be debiased.

# %%
both = X_test[["race", "sex"]]
white_men = {"race": "White", "sex": "Male"}
race_and_sex = test.domain.select(both.columns)
against_white_men = {"privileged": white_men, "positive_label": ">50K"}
exact = fairness_report(y_test, predicted, both, **against_white_men)
exact.set_index("metric").loc[[PARITY, OPPORTUNITY], ["group", "value"]].round(3)

# %%
# A small group may have no rows according to the reports. Its rates are then NaN.
warnings.filterwarnings("ignore", category=UndefinedMetricWarning)
lines = {}
for kind in (
    RandomizedResponseEncoder,
    UnaryEncodingTransformer,
    SubsetSelectionEncoder,
):
    for epsilon in (1.0, 2.0):
        encoder = kind(
            epsilon, strategy="joint", categories=race_and_sex, random_state=0
        )
        seen = encoder.fit_transform(both)
        table = debiased_fairness(y_test, predicted, seen, encoder, **against_white_men)
        together = table[table["group"].isna()].set_index("metric")
        values = together.loc[[PARITY, OPPORTUNITY], ["value", "std_error"]]
        lines[kind.__name__, f"ε = {epsilon:g}"] = values.stack()
pd.DataFrame(lines).T.astype(float).round(3)

# %% [markdown]
# With ten values and ε = 1, the reports of bits have less noise than randomized response. The difference in true
# positive rates is computed from few rows: at ε = 1, its standard error is 0.08 to 0.16, and the difference is 0.14.
# The same reports can be used to estimate the metrics for sex alone, without further privacy loss (`columns="sex"`):

# %%
by_sex = debiased_fairness(
    y_test,
    predicted,
    seen,
    encoder,
    privileged="Male",
    positive_label=">50K",
    columns="sex",
)
by_sex[by_sex["group"].isna()].drop(columns="definition").round(3)

# %% [markdown]
# ## Training on privatized columns
#
# In this section, the training data are private. Sex, race, native country and age are reported by randomized response,
# with a quarter of ε each, and the classifier is trained on the reports and the public columns. It is tested on true
# rows, because applicants know their own values, so `OnFitOnly` wraps the encoder. `privacy_curve` fits the classifier
# at each ε on the same splits.

# %%
census = load_adult(subset="all", dropna=True)
adult, income = census.data[PRIVATE + PUBLIC], census.target
# The survey includes people above 16, and codes ages above 90 as 90. Both are public.
domain = {
    name: range(17, 91) if name == "age" else census.domain[name] for name in PRIVATE
}
reported = make_pipeline(
    OnFitOnly(RandomizedResponseEncoder(strategy="split", categories=domain)),
    OneHotEncoder(handle_unknown="ignore"),
)
model = make_pipeline(
    make_column_transformer(
        (reported, PRIVATE), (OneHotEncoder(handle_unknown="ignore"), PUBLIC)
    ),
    LogisticRegression(max_iter=1000),
)


# %%
def score(model, X, y):
    """Return the accuracy and the differences between women and men."""
    predicted = model.predict(X)
    report = fairness_report(
        y, predicted, X["sex"], privileged="Male", positive_label=">50K"
    ).set_index("metric")["value"]
    return {
        "accuracy": (predicted == y).mean(),
        "statistical_parity_difference": report["statistical_parity_difference"],
        "equal_opportunity_difference": report["equal_opportunity_difference"],
    }


curve = privacy_curve(
    model,
    adult,
    income,
    param_name="columntransformer__pipeline__onfitonly__transformer__epsilon",
    epsilons=[0.5, 1, 4, 8],
    scoring=score,
    cv=[
        train_test_split(np.arange(len(income)), test_size=0.2, random_state=seed)
        for seed in range(3)
    ],
    random_state=0,
)

# %%
PrivacyCurveDisplay.from_curve(curve)
plt.show()

# %%
scores = curve.pivot(index=["epsilon", "split"], columns="metric", values="value")
change = scores.drop(index=math.inf) - scores.loc[math.inf]
change.groupby("epsilon").agg(["mean", "sem"]).round(4)

# %% [markdown]
# The intervals are over three splits only.
#
# ## Fair models from reports
#
# `private_reweighing` computes the weights of aif360's `Reweighing` from reports. With these weights, the label is
# independent of the group. The classifier is the classifier of the first section, and it is tested with true groups:

# %%
weighted = {"no weights": None}
for epsilon in (1.0, 4.0):
    encoder = RandomizedResponseEncoder(epsilon, categories=SEXES, random_state=0)
    seen = encoder.fit_transform(X[["sex"]])
    weighted[f"ε = {epsilon:g}"] = private_reweighing(
        y, seen, encoder, privileged="Male", positive_label=">50K"
    )

# %%
lines = {}
for name, weights in weighted.items():
    fitted = make_pipeline(
        OneHotEncoder(handle_unknown="ignore"), LogisticRegression(max_iter=1000)
    )
    labels = fitted.fit(X, y, logisticregression__sample_weight=weights).predict(X_test)
    own = fairness_report(
        y_test, labels, X_test["sex"], privileged="Male", positive_label=">50K"
    )
    own = own[own["group"].isna()].set_index("metric")["value"]
    lines[name] = {"accuracy": np.mean(labels == y_test)} | own.to_dict()
pd.DataFrame(lines).T.iloc[:, :5].round(4)

# %% [markdown]
# At ε = 1, the difference in selection rates is reduced by more than half, and the accuracy decreases by 0.7 percentage
# points. The difference in true positive rates changes its sign, because these weights are designed for parity and not
# for equal opportunity.
#
# Equalized odds requires equal true and false positive rates. Mozannar, Ohannessian and Srebro (2020) train models
# under this constraint with reports of sex, in two steps. The first step is fairlearn's `ExponentiatedGradient` with
# reports as groups. The second step is a decision rule, which is computed from the distribution of label, prediction
# and group that is estimated from the reports (`joint_distribution`). In skdp, the second step is
# `private_threshold_optimizer`. `private_parity` corrects for the randomization in the first step, so no second step is
# required. The next cells are a small version of their experiment: 10,000 training rows, three draws of rows and
# reports, and 15,060 test rows with true groups.


# %%
def numbers(data):
    """Return codes and numbers without sex, as in their experiment."""
    table = data.drop(columns=["fnlwgt", "education", "sex"])
    texts = table.select_dtypes("category").columns
    return table.assign(**{name: table[name].cat.codes for name in texts}).astype(float)


scaler = StandardScaler().fit(numbers(train.data))
Z, Z_test = scaler.transform(numbers(train.data)), scaler.transform(numbers(test.data))
label, label_test = (y == ">50K").to_numpy().astype(int), rich.to_numpy().astype(int)

# %% [markdown]
# The score of a randomized classifier is computed from the probability that each row is predicted as 1, so no random
# draw is needed. For `ExponentiatedGradient`, the probability is computed from its `predictors_` and `weights_`.


# %%
def reduce(constraint, rows, groups):
    """Fit a randomized classifier under a constraint."""
    gradient = ExponentiatedGradient(
        LogisticRegression(), constraint, eps=0.01, max_iter=10
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of fairlearn, about pandas
        return gradient.fit(Z[rows], label[rows], sensitive_features=groups)


def chances(model, rows):
    weights = model.weights_[model.weights_ > 0]
    return sum(
        weight * model.predictors_[k].predict(rows) for k, weight in weights.items()
    )


def score(chance):
    """Return the error and the violation of equalized odds for predicted probabilities."""
    gaps = [
        abs(
            chance[(label_test == k) & male].mean()
            - chance[(label_test == k) & ~male].mean()
        )
        for k in (0, 1)
    ]
    return np.mean(np.where(label_test == 1, 1 - chance, chance)), max(gaps)


# %% [markdown]
# The next cells compare the three methods. The input of the second step is the first decision, 0 or 1, and the sex of a
# test row. The probability for each of these four cases is estimated from 50,000 predictions.


# %%
def constraint_on_reports(rows, seen, encoder, rng):
    return chances(reduce(EqualizedOdds(), rows, seen["sex"]), Z_test)


def parity_by_inversion(rows, seen, encoder, rng):
    return chances(reduce(private_parity(encoder), rows, seen), Z_test)


def two_steps(rows, seen, encoder, rng):
    half = len(rows) // 2
    first = reduce(EqualizedOdds(), rows[:half], seen["sex"].iloc[:half])
    decided = (rng.random(half) < chances(first, Z[rows[half:]])).astype(int)
    reports = seen.iloc[half:].reset_index(drop=True)
    second = private_threshold_optimizer(
        label[rows[half:]], decided, reports, encoder, positive_label=1
    )
    low, high = (final_chance(second, decision) for decision in (0.0, 1.0))
    chance = chances(first, Z_test)
    return (1 - chance) * low + chance * high


def final_chance(second, decision):
    sexes = np.repeat(["Female", "Male"], 50_000)
    final = second.predict(
        np.full((100_000, 1), decision), sensitive_features=sexes, random_state=0
    )
    return np.where(male, final[50_000:].mean(), final[:50_000].mean())


# %%
METHODS = {
    "constraint on the reports": constraint_on_reports,
    "two steps": two_steps,
    "private_parity": parity_by_inversion,
}


def trial(epsilon, seed):
    rng = np.random.default_rng(seed)
    rows = rng.permutation(len(Z))[:10_000]
    encoder = RandomizedResponseEncoder(epsilon, categories=SEXES, random_state=seed)
    seen = encoder.fit_transform(train.data.loc[rows, ["sex"]].reset_index(drop=True))
    return {
        name: score(method(rows, seen, encoder, rng))
        for name, method in METHODS.items()
    }


# %%
found = [
    (epsilon, seed, method, *scored)
    for epsilon in (0.5, 2, 8)
    for seed in range(3)
    for method, scored in trial(epsilon, seed).items()
]
fair = pd.DataFrame(found, columns=["ε", "seed", "method", "error", "violation"])
fair = fair.groupby(["method", "ε"], sort=False)[["error", "violation"]].agg(
    ["mean", "sem"]
)
fair.round(3)

# %%
free = score(LogisticRegression().fit(Z, label).predict(Z_test).astype(float))
print(f"no constraint: error {free[0]:.3f}, violation {free[1]:.3f}")

# %%
fig, panels = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
for axis, what, limit in zip(panels, ("violation", "error"), free[::-1], strict=True):
    for method, color, marker in zip(
        METHODS, (BLUE, ORANGE, GREEN), "os^", strict=True
    ):
        line = fair.loc[method, what]
        axis.errorbar(
            line.index,
            line["mean"],
            line["sem"],
            color=color,
            marker=marker,
            capsize=2,
            label=method,
        )
    axis.axhline(limit, color=GREY, linestyle=":", label="no constraint")
    axis.set(
        xscale="log",
        xlabel="ε of sex",
        title=what if what == "error" else "violation of equalized odds",
    )
    axis.set_xticks([0.5, 2, 8], ["0.5", "2", "8"])
    axis.minorticks_off()
panels[0].legend(frameon=False)
plt.show()

# %% [markdown]
# At ε = 0.5, a constraint on the reports has little effect, because the reported groups hardly differ before training.
# `private_parity` has a larger effect and a larger variation. At ε = 8, the violation of all three methods is about
# 0.03. The two-step method has the larger error, because each step has half of the rows.
#
# ## Remaining risks
#
# ### Other columns
#
# Only the named columns are randomized. The column relationship contains husband and wife, and other columns reveal
# more.

# %%
pd.crosstab(X["relationship"], X["sex"]).loc[["Husband", "Wife"]]

# %%
guesser = make_pipeline(
    OneHotEncoder(handle_unknown="ignore"), LogisticRegression(max_iter=1000)
)
without = [name for name in PUBLIC if name not in ("relationship", "marital-status")]
for name, columns in [
    ("public columns", PUBLIC),
    ("without relationship and marital status", without),
]:
    auc = cross_val_score(guesser, X[columns], X["sex"], cv=3, scoring="roc_auc").mean()
    print(f"sex guessed from {name}: AUC {auc:.3f}")

# %%
lines = {}
for name, columns in {
    "all ten columns": PRIVATE + PUBLIC,
    "no sex": [column for column in PRIVATE + PUBLIC if column != "sex"],
    "none of the four private columns": PUBLIC,
    "nor relationship and marital status": without,
}.items():
    labels = guesser.fit(X[columns], y).predict(X_test[columns])
    own = fairness_report(
        y_test, labels, X_test["sex"], privileged="Male", positive_label=">50K"
    )
    lines[name] = {"accuracy": np.mean(labels == y_test)} | own.set_index("metric")[
        "value"
    ][list(PEOPLE)].to_dict()
pd.DataFrame(lines).T.round(4)

# %% [markdown]
# A classifier without the four private columns still selects women less often: the difference is 0.17 instead of 0.19.
# This is the limit for small ε. Without relationship and marital status, the difference is less than half, and the
# accuracy decreases by more than four percentage points.
#
# ### Small groups
#
# The noise of the reports is the same for all groups, so the relative error is larger for smaller groups. The next
# cells compare each group with all other groups, by subset selection on race and sex together. If the number of rows of
# a group cannot be distinguished from 0, its interval is [0, 1], and the estimate is not meaningful.

# %%
encoders = {
    epsilon: SubsetSelectionEncoder(
        epsilon, strategy="joint", categories=race_and_sex, random_state=0
    )
    for epsilon in (1.0, 4.0)
}
seen = {epsilon: encoder.fit_transform(both) for epsilon, encoder in encoders.items()}

# %%
selected = (
    pd.Series(predicted_rich)
    .groupby([both["race"], both["sex"]], observed=True)
    .agg(["size", "mean"])
)
lines = {}
for group, (size, mean) in selected.iterrows():
    lines[group] = {"rows": size, "selection rate": mean}
    for epsilon, encoder in encoders.items():
        table = debiased_fairness(
            y_test,
            predicted,
            seen[epsilon],
            encoder,
            privileged=dict(zip(both, group, strict=True)),
            positive_label=">50K",
        )
        own = table.set_index(["metric", "group"]).loc[("selection_rate", "privileged")]
        lines[group] |= {
            f"{name} (ε = {epsilon:g})": own[name]
            for name in ("value", "lower", "upper")
        }
small = pd.DataFrame(lines).T
small.astype({"rows": int}).round(3)

# %% [markdown]
# Every group has an interval. At ε = 1, the intervals of the small groups contain most possible values, so groups of
# this size cannot be distinguished from the noise. Do not omit these groups from a report: the noise would then
# determine which groups are reported.
#
# ### Guarantees and limits
#
# - The guarantee covers the named columns of one person only:

# %%
print(
    RandomizedResponseEncoder(1.0, strategy="split", categories=domain)
    .fit(adult[PRIVATE])
    .guarantee_
)

# %% [markdown]
# - Labels, predictions and public columns are unprotected in every section, and may reveal the sex of a person.
# - Debiasing uses no further privacy budget. It reduces the accuracy of the metrics, which their standard errors
#   include.
# - In this table, privatized training columns made the classifier slightly less accurate, and the differences between
#   groups slightly smaller. This may not hold for other tables.
# - The comparisons with true groups are possible only in a study. An auditor who has only the reports can compute the
#   debiased columns of these tables.
# - This notebook made many releases about the same people, with seeds. Use a `PrivacyLedger` for your own releases.
