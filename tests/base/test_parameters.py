"""Arguments of `fit` that an estimator lacks, which other packages pass on."""

import numpy as np
import pandas as pd
import pytest
from fairlearn.postprocessing import ThresholdOptimizer
from fairlearn.reductions import DemographicParity, ExponentiatedGradient
from sklearn.base import clone
from sklearn.ensemble import AdaBoostClassifier

import skdp

X = pd.DataFrame({"a": np.arange(40) / 40, "b": np.arange(40)[::-1] / 40})
Y = (X["a"] > 0.5).astype(int)
GROUP = np.arange(40) % 2
WEIGHTS = np.ones(40)
MODEL = skdp.DPGaussianNB(1.0, bounds=(0, 1), classes=[0, 1])
ENCODER = skdp.RandomizedResponseEncoder(1.0, categories={"a": [0, 1], "b": [0, 1]})

CALLS = {
    "model": lambda: MODEL.fit(X, Y, sample_weight=WEIGHTS),
    "reduction": lambda: ExponentiatedGradient(MODEL, DemographicParity()).fit(X, Y, sensitive_features=GROUP),
    "thresholds": lambda: ThresholdOptimizer(estimator=MODEL).fit(
        X, Y, sensitive_features=GROUP, sample_weight=WEIGHTS
    ),
    "boosting": lambda: AdaBoostClassifier(MODEL).fit(X, Y),
    "scaler": lambda: skdp.DPStandardScaler(1.0, bounds=(0, 1)).fit(X, sample_weight=WEIGHTS),
    "encoder": lambda: ENCODER.fit(X, sample_weight=WEIGHTS),
    "positional": lambda: MODEL.fit(X, Y, WEIGHTS),
    "nothing": lambda: MODEL.fit(),
}


@pytest.mark.filterwarnings("ignore:Setting an? .*:Warning")  # by fairlearn
@pytest.mark.parametrize("name", CALLS)
def test_error_about_an_argument_names_the_class_of_the_estimator(name):
    with pytest.raises(
        (TypeError, ValueError), match=r"DPGaussianNB|DPStandardScaler|RandomizedResponseEncoder"
    ) as raised:
        CALLS[name]()
    shown = str(raised.value)
    assert not any(
        word in shown for word in ("SupervisedStatistic", "CentralStatistic", "ReportTransformer", "<lambda>")
    )
    assert name in ("positional", "nothing") or "sample_weight" in shown


def test_display_begins_with_the_plan_or_the_guarantee():
    mean = skdp.DPMean(1.0, bounds=(0, 1))
    for estimator, kind in ((mean, "Plan: "), (clone(mean).fit(X), "Guarantee: ")):
        for text in estimator._repr_mimebundle_().values():
            first, _, rest = text.partition("\n")
            assert " of 100 guesses about one record can be right, 50 without the release. " in first
            assert kind in first
            assert "DPMean" in rest
    # scikit-learn cannot show text in place of a number with NumPy 2.0.0.
    assert skdp.DPMean(None)._repr_mimebundle_()["text/plain"] == "DPMean(epsilon=None)"
