"""Labels and privileged values, as all functions of fairness read them: scores, functions and mappings."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression

from skdp import Domain, RandomizedResponseEncoder
from skdp.evaluation import fairness_study, study_report
from skdp.metrics import (
    debiased_fairness,
    fairness_report,
    joint_distribution,
    private_parity,
    private_reweighing,
    private_threshold_optimizer,
    to_aif360,
    train_on_synthetic,
)
from tests.conftest import each

pytest.importorskip("aif360")
pytest.importorskip("fairlearn")


SEX = pd.Series(["m", "f"] * 200, name="sex")
LABELS = pd.Series([1, 0, 0, 1] * 100)
SCORES = pd.Series(np.tile([0.0, 0.4, 0.8, 1.0], 100))
PEOPLE = SEX.to_frame()
ENCODER = RandomizedResponseEncoder(3.0, categories={"sex": ["f", "m"]}, random_state=0)
REPORTS = ENCODER.fit_transform(PEOPLE)
FEATURES = PEOPLE.assign(x=np.arange(400) % 7)
X = FEATURES[["x"]]
USERS = {  # of labels y and the parameter `privileged`
    "fairness_report": lambda y, m: fairness_report(y, LABELS, SEX, privileged=m, positive_label=1),
    "fairness_report of predictions": lambda y, m: fairness_report(LABELS, y, SEX, privileged=m, positive_label=1),
    "debiased_fairness": lambda y, m: debiased_fairness(y, LABELS, REPORTS, ENCODER, privileged=m, positive_label=1),
    "debiased_fairness of predictions": lambda y, m: debiased_fairness(
        LABELS, y, REPORTS, ENCODER, privileged=m, positive_label=1
    ),
    "to_aif360": lambda y, m: to_aif360(PEOPLE, y, "sex", privileged=m, positive_label=1),
    "private_reweighing": lambda y, m: private_reweighing(y, REPORTS, ENCODER, privileged=m, positive_label=1),
    "fairness_study": lambda y, m: fairness_study(
        LogisticRegression(),
        FEATURES,
        y,
        encoder=ENCODER,
        epsilons=[1.0],
        domain={"sex": ["f", "m"]},
        sensitive="sex",
        privileged=m,
        methods=["columns excluded"],
        n_splits=2,
    ),
    "study_report": lambda y, m: study_report(
        PEOPLE.assign(y=pd.Series(y)),
        Domain({"sex": ["f", "m"]}),
        "unused",
        target="y",
        sensitive="sex",
        privileged=m,
        epsilons=[1.0],
    ),
}
USERS_OF_LABELS = USERS | {
    "joint_distribution": lambda y, m: joint_distribution(y, LABELS, REPORTS, ENCODER),
    "private_threshold_optimizer": lambda y, m: private_threshold_optimizer(
        y, LABELS, REPORTS, ENCODER, positive_label=1
    ),
    "private_parity": lambda y, m: private_parity(ENCODER).load_data(PEOPLE, y, sensitive_features=REPORTS),
    "train_on_synthetic": lambda y, m: train_on_synthetic(
        LogisticRegression(), X.assign(y=pd.Series(y)), X.assign(y=LABELS), target="y", scoring="accuracy"
    ),
}


@each("scores", [SCORES, SCORES.tolist(), pl.Series(SCORES), SCORES.astype("Float64"), SCORES.astype("category")])
@each("user", USERS_OF_LABELS)
def test_scores_are_refused_where_classes_are_expected(user, scores):
    with pytest.raises((TypeError, ValueError), match=r"threshold|two kinds of labels"):
        USERS_OF_LABELS[user](scores, "m")


def test_scores_of_any_level_are_joined_with_labels():
    assert len(joint_distribution(LABELS, SCORES, REPORTS, ENCODER)) == 16


@each("user", USERS)
def test_a_function_is_no_privileged_value(user):
    with pytest.raises(TypeError, match="`privileged` must be values of the sensitive feature, got a function"):
        USERS[user](LABELS, lambda sex: sex == "m")


@each("user", USERS.keys() - {"study_report"})
def test_a_mapping_of_privileged_values_fits_a_named_column(user):
    mapped, listed = USERS[user](LABELS, {"sex": "m"}), USERS[user](LABELS, "m")
    if isinstance(listed, pd.DataFrame):
        pd.testing.assert_frame_equal(mapped, listed)
    else:
        np.testing.assert_array_equal(getattr(mapped, "features", mapped), getattr(listed, "features", listed))


@each("make", [lambda s: s.to_numpy(), lambda s: s.rename(None), lambda s: pl.Series(s).rename("")])
def test_a_mapping_of_privileged_values_needs_a_named_column(make):
    with pytest.raises(ValueError, match="without a name"):
        fairness_report(LABELS, LABELS, make(SEX), privileged={"sex": "m"})
