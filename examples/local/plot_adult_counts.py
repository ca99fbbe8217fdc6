"""
Count reports of the Adult data
===============================

Everybody reports one value for education, randomized before it leaves them. The true counts are estimated from the
reports, with error bars.
"""

# %%
# The possible values are declared: they are public knowledge, and nothing about a person.
from skdp import RandomizedResponseEncoder
from skdp.datasets import load_adult

adult = load_adult()
people = adult.data[["education"]]
encoder = RandomizedResponseEncoder(
    epsilon=2.0, categories=adult.domain.select(["education"])
)
reports = encoder.fit_transform(people)
reports.head()

# %%
# The guarantee of this release, for each person:
encoder.guarantee_

# %%
# Estimates, intervals, and the true counts, which the collector never sees:
from skdp.evaluation import CountEstimateDisplay

estimates = encoder.estimate_counts(reports)
CountEstimateDisplay.from_estimates(
    estimates, true_counts=people["education"].value_counts()
)
