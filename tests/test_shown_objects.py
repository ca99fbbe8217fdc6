"""Fitted objects and results can be shown, and an attribute that does not apply is absent."""

import numpy as np
import pandas as pd
import pytest
from numpydoc.docscrape import ClassDoc
from sklearn.base import clone

import skdp
from skdp.evaluation import CountEstimateDisplay
from tests.estimators import BOUNDS, DECLARED, EVENTS, NUMBERS, SUBJECTS, WORDS, fit

pytestmark = pytest.mark.filterwarnings("ignore:(The noise (exceeds|is about)|.* fewer bins than):UserWarning")

# Documented attributes that exist only with some options or inputs.
OPTIONAL = {"feature_names_in_", "bounds_", "excluded_fraction_", "instantaneous_guarantee_"}
LINKED = {"domain": DECLARED, "person": "id", "max_rows_per_person": 2, "person_columns": ["sex"], "random_state": 0}
RULE = skdp.Domain(DECLARED, constraints=["not (sex == 'm' and job == 'smith')"], derived={"is_m": "sex == 'm'"})

# Options that add or remove a part of a fitted estimator.
OPTIONS = {
    "delta": (skdp.DPMarginalSynthesizer(domain=DECLARED, delta=1e-6), WORDS),
    "constraints": (skdp.DPMarginalSynthesizer(domain=RULE), WORDS),
    "linked constraints": (skdp.DPLinkedSynthesizer(**LINKED | {"domain": RULE}), EVENTS),
    "linked order": (skdp.DPLinkedSynthesizer(**LINKED, order_by="job"), EVENTS),
    "linked delta": (skdp.DPLinkedSynthesizer(**LINKED, delta=1e-6), EVENTS),
    "found limits": (skdp.DPMean(30.0, bounds=(None, None)), np.tile(NUMBERS, (20, 1))),
    "two columns": (skdp.DPHistogram(domain=DECLARED), WORDS),
    "levels": (skdp.DPHistogram(domain={"sex": ["f", "m"]}, levels={"all": {"f": 1, "m": 1}}), WORDS[["sex"]]),
}
CASES = {f"{place} {type(case[0]).__name__}": case for place, case in enumerate(SUBJECTS)} | OPTIONS


def show(thing):
    """Show an object as a notebook and an editor do, and read all its public attributes; return the readable names."""
    for method in ("__repr__", "_repr_html_", "_repr_mimebundle_"):
        if hasattr(thing, method):
            getattr(thing, method)()
    return {name for name in dir(thing) if not name.startswith("_") and hasattr(thing, name)}


@pytest.mark.parametrize("name", CASES)
def test_fitted_estimator_is_shown_with_its_documented_attributes(name):
    estimator, X = CASES[name]
    fitted = clone(estimator)
    fit(fitted, X)
    fields = ", ".join(field.name for field in ClassDoc(type(fitted))["Attributes"])
    assert set(fields.split(", ")) - {"", *show(fitted)} <= OPTIONAL


def make_results():
    """Yield one object of each class of results, by name."""
    encoder = skdp.RandomizedResponseEncoder(2.0, categories=DECLARED, random_state=0).fit(WORDS)
    reports = encoder.transform(WORDS)
    tally = encoder.tally(reports)
    model = skdp.DPMarginalSynthesizer(domain=DECLARED, random_state=0).fit(WORDS)
    ledger = skdp.PrivacyLedger(2.0)
    table = pd.DataFrame(np.tile(NUMBERS, (20, 1)), columns=["a", "b"])
    mean = skdp.DPMean(bounds=BOUNDS, ledger=ledger, random_state=0).fit(NUMBERS)
    histogram = skdp.DPHistogram(domain={"sex": ["f", "m"]}, random_state=0).fit(WORDS[["sex"]])
    yield from {
        "guarantee": mean.guarantee_,
        "ledger": ledger,
        "empty ledger": skdp.PrivacyLedger(1.0, delta=1e-6),
        "tally": tally,
        "protocol": encoder.protocol_,
        "estimates": encoder.estimate_counts(reports),
        "marginal": model.marginal(["sex", "job"]),
        "count": model.count_estimate({"sex": "f"}),
        "range": histogram.range_estimate(high="m"),
        "statement": skdp.privacy_statement(mean),
        "display": CountEstimateDisplay.from_estimates(encoder.estimate_counts(reports)),
        "design": skdp.ReportDesign.warner("drug", 0.7),
        "domain": skdp.Domain(DECLARED),
        "domain with rules": RULE,
        "found domain": skdp.discover_domain(table, 30.0, delta=1e-6, random_state=0),
        "interval": skdp.Interval(0, 8, bins=2, missing=True),
    }.items()


def test_results_are_shown():
    for name, result in make_results():
        assert show(result), name
