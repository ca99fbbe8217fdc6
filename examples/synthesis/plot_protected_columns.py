"""
Age and sex redrawn in a pipeline
=================================

All columns are public but age and sex, which are drawn again by a private model of them given the others.
"""

# %%
# Adult, with a model that is trained on redrawn rows. The promise is for the age and sex of one record.

import matplotlib.pyplot as plt
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from skdp import DPMarginalSynthesizer, privacy_statement
from skdp.datasets import load_adult

adult = load_adult()
columns = ["age", "sex", "education", "occupation", "hours-per-week"]
domain = adult.domain.select([*columns, "income"])
train, test, target, truth = train_test_split(
    adult.data[columns], adult.target, random_state=0
)
redrawn = DPMarginalSynthesizer(
    1.0,
    delta=1e-6,
    domain=domain,
    protect=["age", "sex"],
    random_state=0,
).set_output(transform="pandas")
model = make_pipeline(
    redrawn,
    OneHotEncoder(handle_unknown="ignore"),
    LogisticRegression(max_iter=500),
).fit(train, target)

# %%
# What a statement says of it:

privacy_statement(model)

# %%
# Counts of age and sex, as they are and redrawn.

decades = range(10, 100, 10)


def counts(rows):
    ages = pd.cut(rows["age"], decades, right=False)
    return pd.crosstab(ages, rows["sex"])


made = redrawn.fit_transform(train, target)
pd.concat({"real": counts(train), "redrawn": counts(made)}, axis=1)

# %%
# Accuracy, and how many of each sex the model accepts, by epsilon. At epsilon 0, both columns are in another order:
# what the other columns say of the income is still there.

encode = OneHotEncoder(handle_unknown="ignore")


def scores(rows):
    learner = make_pipeline(encode, LogisticRegression(max_iter=500))
    predicted = learner.fit(rows, target).predict(test)
    accepted = pd.Series(predicted == ">50K").groupby(
        test["sex"].to_numpy()
    )
    share = accepted.mean()
    return {
        "accuracy": (predicted == truth).mean(),
        "difference of acceptance": share["Male"] - share["Female"],
    }


shuffled = train.copy()
order = train.sample(frac=1, random_state=0)
for name in ["age", "sex"]:
    shuffled[name] = order[name].to_numpy()
table = {"0": scores(shuffled)}
for epsilon in [0.1, 0.3, 1.0, 3.0]:
    redrawn.set_params(epsilon=epsilon)
    table[str(epsilon)] = scores(redrawn.fit_transform(train, target))
table = pd.DataFrame(table).T
exact = scores(train)

# %%
# What public columns alone tell of the sex: an attacker has this guess before any release, and at any epsilon. It is
# right for so many of the test rows, and the most common sex for so many:

public = ["education", "occupation", "hours-per-week"]
guess = make_pipeline(encode, LogisticRegression(max_iter=500))
guess.fit(train[public].assign(income=target), train["sex"])
guessed = guess.predict(test[public].assign(income=truth))
shares = [(test["sex"] == sex).mean() for sex in ("Male", "Female")]
print(round((guessed == test["sex"]).mean(), 3), round(max(shares), 3))

# %%
# A model of real rows is dashed. Redrawn rows are good where they are near to it, also in the difference of acceptance:
# then they show what a model of real rows does with each sex.

figure, panels = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
for axes, (name, values) in zip(panels, table.items(), strict=True):
    axes.plot(table.index, values, "o-", label="redrawn rows")
    axes.axhline(
        exact[name], color="black", linestyle="--", label="real rows"
    )
    axes.set(xlabel="epsilon, for age and sex of one record", ylabel=name)
panels[0].legend(frameon=False)
plt.show()
