"""
Estimate counts from reports
============================

Each person reports a randomized marital status. The encoder estimates the counts from the reports, with
confidence intervals.
"""

# %%
# Declare the possible values from public knowledge.
from skdp import RandomizedResponseEncoder
from skdp.datasets import load_adult

adult = load_adult()
people = adult.data[["marital-status"]]
encoder = RandomizedResponseEncoder(
    epsilon=2.0, categories=adult.domain.select(["marital-status"])
)
reports = encoder.fit_transform(people)
reports.head()

# %%
# The guarantee of this release, for each person:
encoder.guarantee_

# %%
# Plot the estimates with their intervals, and the true counts:
from skdp.evaluation import CountEstimateDisplay

estimates = encoder.estimate_counts(reports)
CountEstimateDisplay.from_estimates(
    estimates, true_counts=people["marital-status"].value_counts()
)
