"""
Estimate counts from reports
============================

Each person reports one randomized value of education. The counts are estimated from the reports, with confidence
intervals.
"""

# %%
# The possible values are declared from public knowledge.
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
# Estimates, intervals, and the true counts:
from skdp.evaluation import CountEstimateDisplay

estimates = encoder.estimate_counts(reports)
CountEstimateDisplay.from_estimates(
    estimates, true_counts=people["education"].value_counts()
)
