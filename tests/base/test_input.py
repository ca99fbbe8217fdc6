"""A masked array is an error wherever an array is read, because NumPy reads its masked values."""

import numpy as np
import pandas as pd
import pytest

import skdp
from skdp.central import propose_test_release
from skdp.metrics import fairness_report
from skdp.survey import ReportLinearRegression, ReportLogisticRegression, survey_mean

X = pd.DataFrame({"x": ["u", "v", "u"] * 20})
ENCODER = skdp.RandomizedResponseEncoder(4.0, categories={"x": ["u", "v"]}, random_state=0).fit(X)
REPORTS = ENCODER.transform(X)
VALUES = pd.DataFrame({"a": np.arange(60.0)})
ONES = np.ma.array(np.ones(60), mask=np.arange(60) == 5)
LABELS = np.arange(60) % 2
READERS = {
    "weights of a mean": lambda: survey_mean(VALUES, ONES),
    "strata": lambda: survey_mean(VALUES, strata=ONES),
    "clusters": lambda: survey_mean(VALUES, clusters=ONES),
    "reports": lambda: ENCODER.estimate_counts(np.ma.array(REPORTS.to_numpy(), mask=False)),
    "weights of a report": lambda: fairness_report(LABELS, LABELS, X["x"], positive_label=1, sample_weight=ONES),
    "outcomes": lambda: ReportLinearRegression(ENCODER).fit(REPORTS, ONES),
}


@pytest.mark.parametrize("name", READERS)
def test_masked_array_raises(name):
    with pytest.raises(TypeError, match="Masked arrays are not supported"):
        READERS[name]()


def test_missing_class_in_a_list_is_no_class():
    model = ReportLogisticRegression(ENCODER)
    classes = np.random.default_rng(0).choice(["yes", "no"], 60).tolist()
    with pytest.raises(ValueError, match="y must have no missing values"):
        model.fit(REPORTS, [np.nan, *classes[1:]])
    assert model.fit(REPORTS, classes).classes_.tolist() == ["no", "yes"]


def test_text_among_objects_is_no_missing_number():
    table, options = pd.DataFrame({"x": [1, "a"]}, dtype=object), {"bounds": (0, 9), "epsilon": 1.0, "delta": 1e-6}
    with pytest.raises(TypeError, match="Column 'x' contains text or other objects"):
        propose_test_release("mean", table, sensitivity=1.0, **options)
