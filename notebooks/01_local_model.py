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
# # The local model on Adult
#
# In the local model, each person randomizes the answer before anyone else receives it. This protects the answer against
# every recipient, but reduces the accuracy. This notebook measures the accuracy for the questions of a well-known
# textbook chapter: the number of people who work in sales, and the number of people in each occupation.
#
# All reports below are drawn with secure randomness. If you run the notebook again, the estimates change, and the
# stated errors do not.

# %%
import math

import matplotlib.pyplot as plt
import pandas as pd

from skdp import (
    DPHistogram,
    FrequencyOracleEncoder,
    RandomizedResponseEncoder,
    SubsetSelectionEncoder,
    UnaryEncodingTransformer,
)
from skdp.datasets import load_adult
from skdp.evaluation import CountEstimateDisplay
from skdp.oracles import ORACLES

adult = load_adult().frame
f"{len(adult):,} people"

# %% [markdown]
# ## "Do you work in sales?" with two coins
#
# Each person tosses a coin. On heads, the person answers truthfully. On tails, the person tosses again, and answers
# "yes" on heads and "no" on tails. A true "yes" is reported with probability 3/4, and a true "no" is reported as "yes"
# with probability 1/4. An answer is at most three times as likely for one true value as for the other, so ε = ln 3.

# %%
sales = pd.DataFrame(
    {"sales": (adult["occupation"] == "Sales").map({True: "yes", False: "no"})}
)
coins = RandomizedResponseEncoder(math.log(3), categories={"sales": ["yes", "no"]})
answers = coins.fit_transform(sales)

channel = pd.DataFrame(
    coins.channel()[0],
    index=["true yes", "true no"],
    columns=["reported yes", "reported no"],
)
channel.map(float).round(6)

# %%
print(coins.guarantee_)
answers["sales"].value_counts()

# %% [markdown]
# The number of "yes" answers is much larger than the number of people who work in sales. The estimate corrects for the
# randomization, and has a standard error.

# %%
two_coins = coins.estimate_counts(answers)
two_coins.round(1)

# %% [markdown]
# ## The same count by a trusted curator
#
# In the central model, a curator holds the true answers and adds noise to the count. One person changes the count by
# one, so discrete Laplace noise of scale 1/ε is sufficient.

# %%
curator = DPHistogram(math.log(3), domain={"sales": ["yes", "no"]}).fit(sales)
print(curator.guarantee_)

# %%
true_count = int((sales["sales"] == "yes").sum())
answers_of = {
    "local: two coins": two_coins,
    "central: Laplace noise": curator.to_frame(),
}
comparison = pd.DataFrame(
    {
        name: table.loc["yes", ["count", "std_error"]]
        for name, table in answers_of.items()
    }
).T
comparison["error in percent"] = 100 * (comparison["count"] / true_count - 1).abs()
comparison.astype(float).round(3)

# %% [markdown]
# At the same ε, the error in the local model is about a hundred times as large. It grows with the square root of the
# number of people, while the error in the central model does not depend on it.

# %% [markdown]
# ## All occupations at once: one bit each
#
# Unary encoding converts the occupation to 14 bits and randomizes each bit. The bit of the true occupation is 1 with
# probability p = 3/4, and each other bit is 1 with probability q = 1 − p = 1/4. The bits of two people differ in two
# positions, so ε = ln(p (1 − q) / ((1 − p) q)) = ln 9.

# %%
occupation = adult[["occupation"]].dropna()
occupations = load_adult(dropna=True).domain.select(
    ["occupation"]
)  # values listed in the documentation of the data
bits = UnaryEncodingTransformer(
    math.log(9), variant="symmetric", categories=occupations
)
reports = bits.fit_transform(occupation)
print(bits.guarantee_)
reports.iloc[:3, :6]

# %% [markdown]
# The estimates have 95 % intervals for the randomness of the reports:

# %%
occupation_counts = occupation["occupation"].value_counts().reindex(bits.categories_[0])
estimates = bits.estimate_counts(reports)
CountEstimateDisplay.from_estimates(estimates, true_counts=occupation_counts)
plt.show()

# %% [markdown]
# The next table contains the results of the chapter for the same protocol. Its last column states whether a result is
# in the 99 % interval around the true count:

# %%
chapter = pd.Series(
    {
        "Adm-clerical": 3865.5, "Exec-managerial": 4047.5, "Handlers-cleaners": 989.5, "Prof-specialty": 4001.5,
        "Other-service": 2993.5, "Sales": 3699.5, "Craft-repair": 4093.5, "Transport-moving": 1613.5,
        "Farming-fishing": 715.5, "Machine-op-inspct": 2119.5, "Tech-support": 947.5, "Protective-serv": 821.5,
        "Armed-Forces": -92.5, "Priv-house-serv": 387.5,
    },
    name="chapter",
)  # fmt: skip

# %%
truth = occupation["occupation"].value_counts().rename("true").sort_index()
ours = bits.estimate_counts(reports, confidence_level=0.99)
std_error = pd.Series(bits.count_variances(truth) ** 0.5, index=truth.index)
table = pd.concat([truth, ours[["count", "lower", "upper"]].round(1), chapter], axis=1)
table["chapter within 99 %"] = (
    table["chapter"] - table["true"]
).abs() <= 2.576 * std_error
table

# %% [markdown]
# A trusted curator can release the same table. The guarantee of the bits is for replacing a person's occupation, which
# is removing one person and adding another. A curator with half of ε = ln 9 for adding or removing a person has ln 9
# for replacing one.

# %%
histogram = DPHistogram(math.log(9) / 2, domain=occupations).fit(occupation)
print(histogram.guarantee_.to("replace"))

# %%
curator = pd.DataFrame(
    {
        "true": truth,
        "local": ours["count"].round(1),
        "central": histogram.to_frame()["count"],
    }
)
curator["local error"] = (curator["local"] - curator["true"]).abs()
curator["central error"] = (curator["central"] - curator["true"]).abs()
print(
    f"standard errors: local {std_error.mean():.1f}, central {histogram.std_error_.mean():.2f}"
)
curator

# %% [markdown]
# ## Better protocols
#
# Other protocols have a smaller error at ε = ln 9. The mean squared error of every protocol has a closed form, and
# depends only on ε and on the number of values.

# %%
oracles = {name: make(14, math.log(9)) for name, make in ORACLES.items()}
oracles["unary_encoding with p = 3/4, q = 1/4"] = bits.oracles_[0]
n = len(occupation)
ranking = pd.DataFrame(
    {
        "root mean square error of a count": {
            k: math.sqrt(n * o.mean_squared_error) for k, o in oracles.items()
        },
        "bytes of a report": {k: o.report_bytes for k, o in oracles.items()},
    }
)
ranking.sort_values("root mean square error of a count").round(1)

# %%
best = FrequencyOracleEncoder(math.log(9), categories=occupations).fit(occupation)
print(best.oracle_, [round(error, 3) for error in best.expected_error_])

# %%
sets = SubsetSelectionEncoder(math.log(9), categories=occupations).fit(occupation)
better = sets.estimate_counts(sets.transform(occupation), postprocess="simplex")
pd.concat([truth, better.round(1)], axis=1)

# %% [markdown]
# At the same ε, the best protocol has a mean error that is a quarter smaller than the error of the textbook's bits.
# With the textbook's bits, 1.7 times as many people would be required for this. A small group, such as the nine people
# in the armed forces, cannot be estimated in the local model: the standard error is several times its size.
#
# ## Guarantees and limits
#
# - Each release is ε-differentially private for one person's occupation, against everyone who receives the reports.
# - The ε of several releases about the same people add up, and this notebook made several. Use a `PrivacyLedger` for
#   your own releases.
# - Other columns of the same person are not protected, and may reveal the occupation.
