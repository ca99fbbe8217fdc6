"""Studies use one thread for each fit, because threads wait for each other on a busy machine."""

from pkgutil import resolve_name
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from threadpoolctl import threadpool_info, threadpool_limits

import skdp
from skdp import evaluation

N = 80
PEOPLE = pd.DataFrame({"sex": ["f", "m"] * (N // 2), "age": np.arange(N) % 50})
LABEL = np.arange(N) % 3 == 0
SEX = skdp.RandomizedResponseEncoder(1.0, categories={"sex": ["f", "m"]}, random_state=0)
DOMAIN = {"sex": ["f", "m"], "age": skdp.Interval(0, 50, bins=5)}


def list_thread_counts():
    return [library["num_threads"] for library in threadpool_info()]


def attack():
    evaluation.attribute_inference(PEOPLE, PEOPLE["sex"], estimator=HistGradientBoostingClassifier(max_iter=2))


def curve():
    model = make_pipeline(SEX, OneHotEncoder(), LogisticRegression())
    name = "randomizedresponseencoder__epsilon"
    evaluation.privacy_curve(model, PEOPLE[["sex"]], LABEL, param_name=name, epsilons=[1.0], cv=2, baseline=None)


def fairness():
    encoder = skdp.RandomizedResponseEncoder(1.0, categories={"sex": ["f", "m"]})
    evaluation.fairness_study(
        LogisticRegression(),
        PEOPLE,
        LABEL,
        encoder=encoder,
        domain=skdp.Domain(DOMAIN),
        sensitive_features="sex",
        privileged="m",
        epsilons=[1.0],
        methods=["without privacy"],
        n_splits=2,
    )


def members():
    evaluation.membership_inference(PEOPLE, PEOPLE[:40], PEOPLE[40:])


def report():
    frame, domain = PEOPLE.assign(ill=LABEL.astype(int)), skdp.Domain(DOMAIN | {"ill": [0, 1]})
    with TemporaryDirectory() as folder:
        options = {"columns": ["sex"], "target": "ill", "sensitive_features": "sex", "privileged": "m"}
        evaluation.study_report(frame, domain, f"{folder}/page", epsilons=[1.0], **options)


@pytest.mark.usefixtures("few_trees", "no_figures")
@pytest.mark.parametrize(
    ("study", "fitted"),
    [
        (attack, "sklearn.ensemble.HistGradientBoostingClassifier.fit"),
        (curve, "sklearn.linear_model.LogisticRegression.fit"),
        (fairness, "sklearn.linear_model.LogisticRegression.fit"),
        pytest.param(report, "sklearn.linear_model.LogisticRegression.fit", marks=pytest.mark.long),
        (members, "skdp.evaluation._attacks.pairwise_distances_argmin_min"),
    ],
)
def test_study_limits_each_fit_to_one_thread(study, fitted):
    counts, call = [], resolve_name(fitted)

    def record(*arguments, **options):
        counts.extend(list_thread_counts())
        return call(*arguments, **options)

    with threadpool_limits(4), pytest.MonkeyPatch.context() as patch:
        patch.setattr(fitted, record)
        study()
        assert set(list_thread_counts()) == {4}
    assert set(counts) == {1}
