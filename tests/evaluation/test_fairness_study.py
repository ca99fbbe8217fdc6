"""`fairness_study`: each method equals its definition, on the same splits."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score
from sklearn.model_selection import train_test_split

import skdp
from skdp.evaluation import fairness_study

RNG = np.random.default_rng(7)
N = 600
PEOPLE = pd.DataFrame(
    {
        "sex": RNG.choice(["f", "m"], N),
        "age": RNG.integers(18, 70, N),
        "hours": RNG.normal(40, 8, N),
        "job": RNG.choice(["clerk", "farm", "shop"], N),
    },
    index=RNG.permutation(N),
)
DOMAIN = {"sex": ["f", "m"], "age": skdp.Interval(18, 70, bins=3), "job": ["clerk", "farm", "shop"]}
ALL_DECLARED = {**DOMAIN, "hours": skdp.Interval(0, 80, bins=16, real=True)}
HIRED = PEOPLE["hours"] + 12 * (PEOPLE["sex"] == "m") + RNG.normal(0, 5, N) > 46
MODEL = LogisticRegression(max_iter=500)
PARITY = "statistical_parity_difference"


def study(encoder=None, X=PEOPLE, y=HIRED, **options):
    settings = {"epsilons": [1.0], "domain": DOMAIN, "n_splits": 2, "random_state": 0}
    settings |= {"sensitive": "sex", "privileged": "m", "encoder": encoder or skdp.RandomizedResponseEncoder()}
    return fairness_study(options.pop("estimator", MODEL), X, y, **{**settings, **options})


def rows_of(result, method, metric):
    part = result[(result["method"] == method) & (result["metric"] == metric)]
    return part.sort_values(["epsilon", "split"])["value"].to_numpy()


def split(number):
    labels = HIRED.to_numpy().astype(int)
    train, test = train_test_split(np.arange(N), test_size=0.2, stratify=labels, random_state=number)
    return labels, train, test


def features(*, protected):
    """Compute the features of the documentation independently."""
    other = pd.get_dummies(PEOPLE[["age", "hours", "job"]], columns=["job"]).to_numpy(float)
    if not protected:
        return other
    return np.column_stack([other, PEOPLE["sex"] == "f", PEOPLE["sex"] == "m"])


def test_baselines_equal_their_definitions():
    result = study(methods=["without privacy", "columns excluded", "post-processed"])
    for number in range(2):
        labels, train, test = split(number)
        men = (PEOPLE["sex"] == "m").to_numpy()[test]
        for method, protected in (("without privacy", True), ("columns excluded", False)):
            matrix = features(protected=protected)
            predicted = MODEL.fit(matrix[train], labels[train]).predict(matrix[test])
            assert rows_of(result, method, "accuracy")[number] == accuracy_score(labels[test], predicted)
            parity = predicted[~men].mean() - predicted[men].mean()
            assert rows_of(result, method, PARITY)[number] == pytest.approx(parity)
    # Methods that remove the difference remove most of it.
    bias = abs(rows_of(result, "without privacy", PARITY).mean())
    assert bias > 0.3
    for method in ("columns excluded", "post-processed"):
        assert abs(rows_of(result, method, PARITY).mean()) < 0.7 * bias


ENCODERS = {
    "response": skdp.RandomizedResponseEncoder(),
    "joint": skdp.RandomizedResponseEncoder(strategy="joint"),
    "sample": skdp.RandomizedResponseEncoder(strategy="sample"),
    "unary": skdp.UnaryEncodingTransformer(),
    "subset": skdp.SubsetSelectionEncoder(),
    "hashing": skdp.LocalHashingEncoder(),
}


@pytest.mark.parametrize("name", ENCODERS)
def test_all_encoders_at_large_epsilon_equal_the_model_without_privacy(name):
    """With a large epsilon, reports are true values."""
    encoder = clone(ENCODERS[name]).set_params(categories={name: DOMAIN[name] for name in ("sex", "job")})
    result = study(encoder, epsilons=[0.5, 60.0], methods=["without privacy", "reported"])
    accuracies = rows_of(result, "reported", "accuracy")
    assert len(accuracies) == 4
    if name in ("response", "subset"):
        np.testing.assert_allclose(accuracies[2:], rows_of(result, "without privacy", "accuracy"), atol=0.02)
    assert np.isfinite(rows_of(result, "reported", PARITY)).all()


class _Watched(ClassifierMixin, BaseEstimator):
    """A classifier that stores its arguments."""

    matrices: ClassVar = []

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        _Watched.matrices.append((X, y))
        return self

    def predict(self, X):
        _Watched.matrices.append((X, None))
        return (X.iloc[:, -1] > 0.5).astype(int).to_numpy()


def test_model_is_fitted_to_reports_and_predicts_true_rows():
    _Watched.matrices.clear()
    result = study(estimator=_Watched(), methods=["reported"], epsilons=[0.1])
    (train, labels), (test, _), *_ = _Watched.matrices
    true_labels, train_rows, test_rows = split(0)
    assert labels.tolist() == true_labels[train_rows].tolist()
    names = ["number age", "number hours", "job 0", "job 1", "job 2", "protected 0 0", "protected 0 1"]
    assert list(train.columns) == names
    assert (train[["protected 0 0", "protected 0 1"]].sum(axis=1) == 1).all()
    men = (PEOPLE["sex"] == "m").to_numpy()
    assert 0.42 < (train["protected 0 1"] == men[train_rows]).mean() < 0.63  # 0.525 at epsilon 0.1
    assert (test["protected 0 1"] == men[test_rows]).all()
    # Without scores, the area under the curve is undefined.
    assert "roc_auc" not in set(result["metric"])


@pytest.mark.filterwarnings("ignore:The noise (is about|exceeds)")
@pytest.mark.parametrize("name", [pytest.param("synthetic rows", marks=pytest.mark.long), "resampled columns"])
def test_central_releases_at_large_epsilon_are_close_to_the_model_without_privacy(name):
    result = study(methods=["without privacy", name], epsilons=[0.01, 50.0], domain=ALL_DECLARED)
    accuracies = rows_of(result, name, "accuracy").reshape(2, 2).mean(axis=1)
    assert accuracies[1] > rows_of(result, "without privacy", "accuracy").mean() - 0.05
    assert accuracies[0] < accuracies[1]


@pytest.mark.long
def test_seeds_repeat_a_study():
    """Several processes give equal numbers, added fits change none, and secure randomness differs."""
    one = study(methods=["reported"])
    pd.testing.assert_frame_equal(one, study(methods=["reported"], n_jobs=2))
    more = study(methods=["reported"], n_splits=3, epsilons=[4.0, 1.0])
    keys = ["method", "epsilon", "split", "metric"]
    both = one.merge(more, on=keys)
    assert both["value_x"].tolist() == both["value_y"].tolist()
    first, second = (study(random_state=None, epsilons=[0.1], methods=["reported"]) for _ in range(2))
    assert not first["value"].equals(second["value"])


TWO = {"sensitive": ["sex", "job"], "privileged": {"sex": "m", "job": ["clerk", "shop"]}}


@pytest.mark.filterwarnings("ignore:The noise of the reports gives the rate", "ignore:Setting a value on a Series")
def test_several_columns_and_their_intersection_are_compared():
    result = study(methods=["without privacy", "reported", "post-processed", "private parity"], epsilons=[8.0], **TWO)
    dummies = pd.get_dummies(PEOPLE["job"]).to_numpy(float)
    numbers = PEOPLE[["age", "hours"]].to_numpy(float)
    matrix = np.column_stack([numbers, PEOPLE["sex"] == "f", PEOPLE["sex"] == "m", dummies])
    is_man, is_clerk = (PEOPLE["sex"] == "m").to_numpy(), (PEOPLE["job"] != "farm").to_numpy()
    masks = {"sex": is_man, "job": is_clerk, "sex, job": is_man & is_clerk}
    for number in range(2):
        labels, train, test = split(number)
        predicted = MODEL.fit(matrix[train], labels[train]).predict(matrix[test])
        for name, mask in masks.items():
            parity = predicted[~mask[test]].mean() - predicted[mask[test]].mean()
            found = rows_of(result, "without privacy", f"{PARITY} [{name}]")[number]
            assert found == pytest.approx(parity)
    assert result.groupby("method")["metric"].nunique().min() >= 13
    assert result["value"].notna().all()


def test_text_labels_give_the_study_of_booleans():
    named = HIRED.map({True: "hired", False: "rejected"})
    expected = study(methods=["without privacy"])
    pd.testing.assert_frame_equal(study(y=named, positive_label="hired", methods=["without privacy"]), expected)


OF_JOBS = skdp.RandomizedResponseEncoder(categories={"job": DOMAIN["job"]})


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"X": PEOPLE.to_numpy()}, TypeError, "X must be a pandas DataFrame, got ndarray"),
        ({"methods": ["best"]}, ValueError, "`methods.i.` must be one of"),
        ({"methods": "reported"}, TypeError, "`methods` must be a list of names"),
        ({"sensitive": "wage"}, ValueError, "Column 'wage' must be in X and declared"),
        ({"encoder": OF_JOBS}, ValueError, r"`sensitive` must be a column of encoder, \['job'\], got 'sex'"),
        ({"privileged": "x"}, ValueError, "Column 'sex' of X must have both privileged and unprivileged"),
        ({"domain": {"sex": ["f", "m"]}}, ValueError, "Column 'job' must be declared in domain"),
        ({"domain": DOMAIN, "methods": ["synthetic rows"]}, ValueError, "Column 'hours' must be declared in domain"),
        ({"domain": DOMAIN | {"sex": ["f", "secret"]}}, ValueError, "Column 'sex' must have only values in the domain"),
        ({"y": HIRED.map({True: "yes", False: "no"})}, ValueError, "`positive_label` must be a label"),
        ({"positive_label": "yes"}, ValueError, "y must have both the positive label"),
        ({"sensitive": ["sex", "sex"]}, ValueError, "`sensitive` must be one or more distinct columns"),
        ({"sensitive": ["sex", "job"]}, ValueError, r"`privileged` must be a mapping with the keys"),
        ({"y": HIRED.sample(frac=1, random_state=0)}, ValueError, "row labels in the order of"),
        ({"n_splits": 1}, ValueError, "`n_splits` must be at least 2"),
    ],
)
def test_invalid_arguments_raise_an_error(options, error, message):
    with pytest.raises(error, match=message):
        study(**options)


def test_method_whose_groups_are_estimated_as_empty_has_nan_scores():
    """Nearly all are men, so that the number of women with a label is estimated as negative in one of the splits."""
    people = PEOPLE.assign(sex=np.where(np.arange(N) < 20, "f", "m"))
    methods = ["columns excluded", "private parity"]
    with pytest.warns(UserWarning, match="'private parity' at epsilon 0.05 are nan in a split") as caught:
        result = study(X=people, methods=methods, epsilons=[0.05])
    assert [warning.filename for warning in caught] == [__file__]
    assert np.isnan(rows_of(result, "private parity", "accuracy")).all()
    assert np.isnan(rows_of(result, "private parity", PARITY)).all()
    assert np.isfinite(rows_of(result, "columns excluded", "accuracy")).all()
