"""Pictures of the start page."""

from skdp import RandomizedResponseEncoder
from skdp.datasets import load_adult
from skdp.evaluation import CountEstimateDisplay


def counts() -> None:
    """Draw the counts of the study in ten lines."""
    adult = load_adult()
    people = adult.data[["sex", "race"]]
    domain = adult.domain.select(people.columns)
    encoder = RandomizedResponseEncoder(
        1.0, strategy="joint", categories=domain, random_state=0
    )
    reports = encoder.fit_transform(people)
    estimates = encoder.estimate_counts(reports)
    CountEstimateDisplay(estimates, true_counts=people.value_counts()).plot()
