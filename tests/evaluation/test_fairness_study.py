"""`fairness_study`: each method equals its definition, on the same splits."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import accuracy_score, roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import skdp
from skdp.evaluation import compare_to_baseline, fairness_study
from tests.conftest import quick_first

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
HIRED = PEOPLE["hours"] + 12 * (PEOPLE["sex"] == "m") + RNG.normal(0, 5, N) > 46
RESPONSE = skdp.RandomizedResponseEncoder()
MODEL = LogisticRegression(solver="newton-cholesky")  # of some columns, faster than the default
PARITY = "statistical_parity_difference"


def study(encoder=RESPONSE, X=PEOPLE, y=HIRED, **options):
    settings = {"epsilons": [1.0], "domain": DOMAIN, "n_splits": 2, "random_state": 0}
    settings |= {"sensitive_features": "sex", "privileged": "m", "encoder": encoder}
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
    result = study(methods=["without privacy", "columns excluded"])
    for number in range(2):
        labels, train, test = split(number)
        men = (PEOPLE["sex"] == "m").to_numpy()[test]
        for method, protected in (("without privacy", True), ("columns excluded", False)):
            matrix = features(protected=protected)
            predicted = MODEL.fit(matrix[train], labels[train]).predict(matrix[test])
            assert rows_of(result, method, "accuracy")[number] == accuracy_score(labels[test], predicted)
            parity = predicted[~men].mean() - predicted[men].mean()
            assert rows_of(result, method, PARITY)[number] == pytest.approx(parity)
    # Without the columns, most of the difference is removed.
    bias = abs(rows_of(result, "without privacy", PARITY).mean())
    assert bias > 0.3
    assert abs(rows_of(result, "columns excluded", PARITY).mean()) < 0.7 * bias


ENCODERS = {
    "response": skdp.RandomizedResponseEncoder(),
    "joint": skdp.RandomizedResponseEncoder(strategy="joint"),
    "sample": skdp.RandomizedResponseEncoder(strategy="sample"),
    "unary": skdp.UnaryEncodingTransformer(),
    "subset": skdp.SubsetSelectionEncoder(),
    "hashing": skdp.LocalHashingEncoder(),
}


@pytest.mark.parametrize("name", quick_first(1, list(ENCODERS)))
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


def test_rows_that_report_another_column_support_no_value():
    _Watched.matrices.clear()
    categories = {name: DOMAIN[name] for name in ("sex", "job")}
    encoder = skdp.RandomizedResponseEncoder(strategy="sample", categories=categories)
    study(encoder=encoder, estimator=_Watched(), methods=["reported"], epsilons=[0.1])
    train, _ = _Watched.matrices[0]
    assert (train.filter(like="protected").sum(axis=1) == 1).all()


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


TWO = {"sensitive_features": ["sex", "job"], "privileged": {"sex": "m", "job": ["clerk", "shop"]}}


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:The noise of the reports gives the rate", "ignore:Setting a value on a Series")
def test_several_columns_and_their_intersection_are_compared():
    result = study(methods=["without privacy", "reported", "private parity"], epsilons=[8.0], **TWO)
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
    assert {f"{PARITY} [sex=f, job=farm]", f"{PARITY} [sex=m, job=farm]"} < {*result["metric"]}
    assert f"{PARITY} [sex=m, job=shop]" not in set(result["metric"])
    # A group of few rows may have no rate.
    assert result.loc[~result["metric"].str.contains("="), "value"].notna().all()


def test_each_group_is_compared_with_the_privileged_one():
    """A difference of -0.06 of all other groups hid -0.09 of one of them."""
    named = HIRED.map({True: "hired", False: "rejected"})
    options = {"sensitive_features": "job", "privileged": "clerk", "methods": ["without privacy"]}
    own = {"accuracy_difference": lambda tp, fp, fn, tn: tp + tn}
    result = study(y=named, positive_label="hired", metrics=own, **options)
    matrix = pd.get_dummies(PEOPLE[["age", "hours", "sex", "job"]]).to_numpy(float)
    for number in range(2):
        labels, train, test = split(number)
        model = MODEL.fit(matrix[train], labels[train])
        predicted, scores = model.predict(matrix[test]), model.predict_proba(matrix[test])[:, 1]
        frame = pd.DataFrame({"job": PEOPLE["job"].to_numpy()[test], "predicted": predicted})
        frame["right"] = predicted == labels[test]
        means = frame.groupby("job").mean()
        for job, rows in frame.groupby("job").indices.items():
            expected = {f"roc_auc [job={job}]": roc_auc_score(labels[test][rows], scores[rows])}
            if job != "clerk":
                gaps = means.loc[job] - means.loc["clerk"]
                expected |= {f"{PARITY} [job={job}]": gaps["predicted"]}
                expected |= {f"accuracy_difference [job={job}]": gaps["right"]}
            found = {metric: rows_of(result, "without privacy", metric)[number] for metric in expected}
            assert found == pytest.approx(expected)
    assert f"{PARITY} [job=clerk]" not in set(result["metric"])


OF_SEX = skdp.RandomizedResponseEncoder(categories={name: DOMAIN[name] for name in ("sex", "job")})
OF_JOBS = skdp.RandomizedResponseEncoder(categories={"job": DOMAIN["job"]})


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"X": PEOPLE.to_numpy()}, TypeError, r"got numpy.ndarray. Use pd.DataFrame\(X, columns=...\)"),
        ({"X": pl.from_pandas(PEOPLE)}, TypeError, r"got polars.DataFrame. Use X.to_pandas\(\)"),
        ({"methods": ["best"]}, ValueError, "`methods.i.` must be one of"),
        ({"methods": "reported"}, TypeError, "`methods` must be a list of names"),
        ({"estimator": LinearRegression()}, TypeError, "`estimator` must be a classifier, .* got LinearRegression"),
        ({"encoder": skdp.RandomizedResponseEncoder}, TypeError, r"such as RandomizedResponseEncoder\(\), or a"),
        ({"domain": None}, TypeError, "`domain` must be a Domain or a mapping of column name"),
        ({"sensitive_features": "wage"}, ValueError, "Column 'wage' must be in X and declared"),
        ({"encoder": OF_JOBS}, ValueError, r"`sensitive_features` must be a column of encoder, \['job'\], got 'sex'"),
        ({"privileged": "x"}, ValueError, "Column 'sex' of X must have both privileged and unprivileged"),
        ({"privileged": {"sex": "Male"}}, ValueError, r"`privileged`=.*'Male'.* with the declared values .*'f', 'm'"),
        ({"domain": {"sex": ["f", "m"]}}, ValueError, "Column 'job' must be declared in domain"),
        ({"domain": DOMAIN | {"sex": ["f", "secret"]}}, ValueError, "Column 'sex' must have only values in the domain"),
        ({"y": HIRED.map({True: "yes", False: "no"})}, ValueError, "`positive_label` must be the favorable label"),
        ({"positive_label": "yes"}, ValueError, r"got `positive_label`='yes', and y with only other labels"),
        ({"sensitive_features": ["sex", "sex"]}, ValueError, "`sensitive_features` must be one or more distinct"),
        ({"sensitive_features": ["sex", "job"]}, ValueError, r"`privileged` must be a mapping with the keys"),
        ({"y": HIRED.sample(frac=1, random_state=0)}, ValueError, "row labels in the order of"),
        ({"n_splits": 1}, ValueError, "`n_splits` must be at least 2"),
        ({"encoder": {}}, ValueError, "`encoder` must have at least one encoder, got none"),
        ({"encoder": [RESPONSE]}, TypeError, "or a mapping of names to encoders, got list"),
        ({"encoder": {"both": OF_SEX, "one": RESPONSE}}, ValueError, r"same columns in all encoders, got"),
    ],
)
def test_invalid_arguments_raise_an_error(options, error, message):
    with pytest.raises(error, match=message):
        study(**options)


def test_method_whose_groups_are_estimated_as_empty_has_nan_scores():
    """Nearly all are men, so that the number of women with a label is estimated as negative in one of the splits."""
    people = PEOPLE.assign(sex=np.where(np.arange(N) < 20, "f", "m"))
    methods = ["columns excluded", "private parity"]
    with pytest.warns(UserWarning, match=r"In \d+ fits") as caught:
        result = study(X=people, methods=methods, epsilons=[0.05])
    assert {warning.filename for warning in caught} == {__file__}
    (text,) = [str(warning.message) for warning in caught if "scores are nan" in str(warning.message)]
    assert "positive, got 0 or less for group 'f' and label all" in text
    assert "; the first is 'private parity' of RandomizedResponseEncoder at epsilon 0.05 in split 0." in text
    assert np.isnan(rows_of(result, "private parity", "accuracy")).all()
    assert np.isnan(rows_of(result, "private parity", PARITY)).all()
    assert np.isfinite(rows_of(result, "columns excluded", "accuracy")).all()


@pytest.mark.parametrize("n_jobs", [None, pytest.param(2, marks=pytest.mark.long)])
def test_group_without_both_labels_in_a_split_keeps_the_rest_of_the_study(n_jobs):
    """One farmer is hired and three are not, so that test rows lack a label in some splits."""
    positions = np.r_[np.flatnonzero(HIRED)[:1], np.flatnonzero(~HIRED)[:3]]
    people = PEOPLE.assign(job=np.where(np.isin(np.arange(N), positions), "farm", "shop"))
    options = {"sensitive_features": "job", "privileged": "shop", "methods": ["columns excluded"], "n_splits": 8}
    with pytest.warns(UserWarning, match=r"In \d+ fits") as caught:
        result = study(X=people, n_jobs=n_jobs, **options)
    is_farm, missing = (people["job"] == "farm").to_numpy(), []
    for number in range(8):
        labels, _, test = split(number)
        if np.unique(labels[test][is_farm[test]]).size < 2:
            missing.append(number)
    (text,) = [str(warning.message) for warning in caught]
    assert "The unprivileged test rows of job do not have both labels" in text
    assert f"In {len(missing)} fits; the first is 'columns excluded' in split {missing[0]}." in text
    assert np.isfinite(rows_of(result, "columns excluded", "accuracy")).all()


@pytest.mark.filterwarnings("ignore:Setting a value on a Series")
def test_equal_warnings_of_all_fits_are_one_warning():
    options = {"methods": ["private parity"], "epsilons": [0.5]}
    with pytest.warns(UserWarning, match=r"In \d+ fits") as caught:
        study(**options)
    noise = [str(warning.message) for warning in caught if "noise of the reports" in str(warning.message)]
    assert len(noise) == 1
    assert "In 2 fits; the first is 'private parity' of RandomizedResponseEncoder at epsilon 0.5 in split 0" in noise[0]


# --- several encoders -------------------------------------------------------------------------------------------------

TWO_ENCODERS = {"GRR": skdp.RandomizedResponseEncoder(), "OUE": skdp.UnaryEncodingTransformer()}


def test_encoders_are_compared_with_baselines_that_are_fitted_once():
    result = study(TWO_ENCODERS)
    sizes = result[result["metric"] == "accuracy"].groupby(["method", "encoder"]).size()
    assert sizes.to_dict() == {
        ("columns excluded", ""): 2,
        ("reported", "GRR"): 2,
        ("reported", "OUE"): 2,
        ("without privacy", ""): 2,
    }
    alone = study()
    first = result[result["encoder"] != "OUE"].replace({"encoder": {"GRR": "RandomizedResponseEncoder"}})
    pd.testing.assert_frame_equal(first.reset_index(drop=True), alone)
    differences = compare_to_baseline(result, baseline="columns excluded")
    assert len(differences[differences["metric"] == "accuracy"]) == 3
    # The baselines of joined studies are equal.
    joined = pd.concat([alone, result[result["encoder"] != "GRR"]])
    found = compare_to_baseline(joined, baseline="columns excluded")
    assert len(found[found["metric"] == "accuracy"]) == 3
    part = differences["encoder"] == "GRR"
    np.testing.assert_array_equal(
        differences[part]["difference"], found[found["encoder"].str.startswith("Rand")]["difference"]
    )


# --- weights ----------------------------------------------------------------------------------------------------------


def test_weights_are_used_for_training_and_all_scores():
    weights = np.random.default_rng(1).random(N) + 0.2
    methods = ["without privacy", "columns excluded", "reported"]
    result = study(methods=methods, sample_weight=pd.Series(weights, PEOPLE.index), epsilons=[60.0])
    for number in range(2):
        labels, train, test = split(number)
        men = (PEOPLE["sex"] == "m").to_numpy()[test]
        for method, protected in (("without privacy", True), ("columns excluded", False), ("reported", True)):
            matrix = features(protected=protected)
            model = MODEL.fit(matrix[train], labels[train], sample_weight=weights[train])
            predicted, weight = model.predict(matrix[test]), weights[test]
            accuracy = accuracy_score(labels[test], predicted, sample_weight=weight)
            assert rows_of(result, method, "accuracy")[number] == pytest.approx(accuracy, abs=1e-12)
            rates = [np.average(predicted[side], weights=weight[side]) for side in (~men, men)]
            assert rows_of(result, method, PARITY)[number] == pytest.approx(rates[0] - rates[1], abs=1e-12)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:The noise of the reports gives the rate", "ignore:Setting a value on a Series")
def test_weights_of_rows_change_the_groups_of_parity():
    """Each hired woman counts as three, and each other woman as a third, so that parity of rows is no parity."""
    women = (PEOPLE["sex"] == "f").to_numpy()
    weights = np.where(women, np.where(HIRED, 3.0, 1 / 3), 1.0)
    options = {"methods": ["private parity"], "epsilons": [60.0], "sample_weight": weights}
    assert abs(rows_of(study(**options), "private parity", PARITY).mean()) < 0.12


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:The noise of the reports gives the rate", "ignore:Setting a value on a Series")
def test_pipeline_with_parity_equals_its_model_on_the_prepared_features():
    options = {"methods": ["private parity"], "epsilons": [8.0], "sample_weight": np.linspace(0.5, 1.5, N)}
    expected = study(**options)
    pipeline = make_pipeline(FunctionTransformer(), FunctionTransformer(), MODEL)
    pd.testing.assert_frame_equal(study(estimator=pipeline, **options), expected)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sample_weight": np.ones(3)}, "`sample_weight` must be numbers of shape"),
        ({"sample_weight": pd.Series(np.ones(N))}, "row labels"),
    ],
)
def test_weights_that_cannot_be_used_raise_an_error(options, message):
    with pytest.raises(ValueError, match=message):
        study(**{"sample_weight": np.ones(N)} | options)
