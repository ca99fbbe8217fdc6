"""`fairness_study`: each method as its definition says, compared in pairs of the same splits."""

import math
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from aif360.algorithms.preprocessing import Reweighing
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skdp import (
    DPMean,
    Interval,
    LocalHashingEncoder,
    RandomizedResponseEncoder,
    SubsetSelectionEncoder,
    UnaryEncodingTransformer,
)
from skdp.datasets import load_adult
from skdp.evaluation import FairnessStudy, StudyTable, compare_to_baseline, fairness_study
from skdp.metrics import to_aif360

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
DOMAIN = {"sex": ["f", "m"], "age": Interval(18, 70, bins=3), "job": ["clerk", "farm", "shop"]}
HIRED = (PEOPLE["hours"] + 12 * (PEOPLE["sex"] == "m") + RNG.normal(0, 5, N) > 46).map({True: "yes", False: "no"})
MODEL = LogisticRegression(max_iter=500)


def table(**options):
    settings = {"sensitive": "sex", "privileged": "m", "positive_label": "yes", "domain": DOMAIN, "name": "jobs"}
    return StudyTable(**{"X": PEOPLE, "y": HIRED, **settings, **options})


def study(tables=None, encoders=None, **options):
    settings = {"epsilons": [1.0], "estimator": MODEL, "n_splits": 2, "random_state": 0}
    encoders = RandomizedResponseEncoder() if encoders is None else encoders
    return fairness_study(table() if tables is None else tables, encoders, **{**settings, **options})


def rows_of(result, method, metric):
    part = result.table[(result.table["method"] == method) & (result.table["metric"] == metric)]
    return part.sort_values(["epsilon", "split"])["value"].to_numpy()


def split(number):
    labels = (HIRED.to_numpy() == "yes").astype(int)
    train, test = train_test_split(np.arange(N), test_size=0.2, stratify=labels, random_state=number)
    return labels, train, test


def features(*, protected):
    """The features as the documentation says, made in another way."""
    other = pd.get_dummies(PEOPLE[["age", "hours", "job"]], columns=["job"]).to_numpy(float)
    if not protected:
        return other
    return np.column_stack([other, PEOPLE["sex"] == "f", PEOPLE["sex"] == "m"])


def test_baselines_are_what_they_are_called():
    result = study()
    for number in range(2):
        labels, train, test = split(number)
        men = (PEOPLE["sex"] == "m").to_numpy()[test]
        for method, protected in (("without privacy", True), ("left out", False)):
            matrix = features(protected=protected)
            predicted = MODEL.fit(matrix[train], labels[train]).predict(matrix[test])
            assert rows_of(result, method, "accuracy")[number] == accuracy_score(labels[test], predicted)
            parity = predicted[~men].mean() - predicted[men].mean()
            assert rows_of(result, method, "statistical_parity_difference")[number] == pytest.approx(parity)
        # aif360's own weights of the training rows.
        dataset = to_aif360(
            PEOPLE.iloc[train][["sex"]], labels[train], "sex", privileged="m", positive_label=1, label_name="y"
        )
        weighed = Reweighing([{"sex": 0}], [{"sex": 1}]).fit_transform(dataset).instance_weights
        matrix = features(protected=True)
        model = LogisticRegression(max_iter=500).fit(matrix[train], labels[train], sample_weight=weighed)
        expected = accuracy_score(labels[test], model.predict(matrix[test]))
        assert rows_of(result, "reweighed", "accuracy")[number] == expected
    # What removes the difference removes most of it.
    bias = abs(rows_of(result, "without privacy", "statistical_parity_difference").mean())
    assert bias > 0.3
    for method in ("left out", "post-processed", "reweighed"):
        assert abs(rows_of(result, method, "statistical_parity_difference").mean()) < 0.7 * bias


ENCODERS = {
    "response": RandomizedResponseEncoder(),
    "joint": RandomizedResponseEncoder(strategy="joint"),
    "sample": RandomizedResponseEncoder(strategy="sample"),
    "proportional": RandomizedResponseEncoder(shares="proportional"),
    "unary": UnaryEncodingTransformer(),
    "subset": SubsetSelectionEncoder(),
    "hashing": LocalHashingEncoder(),
}


@pytest.mark.parametrize(
    ("name", "test_rows"),
    [
        ("response", "true"),
        ("hashing", "reported"),
        *[pytest.param(name, rows, marks=pytest.mark.long) for name in ENCODERS for rows in ("true", "reported")],
    ],
)
def test_all_encoders_and_both_kinds_of_rows(name, test_rows):
    """At a large epsilon, reports are the truth, and the model is the one without privacy."""
    wide = table(protect=["sex", "job"])
    result = study(
        wide, {name: ENCODERS[name]}, epsilons=[0.5, 60.0], test_rows=test_rows, baselines=["without privacy"]
    )
    accuracies = rows_of(result, name, "accuracy")
    assert len(accuracies) == 4
    # The true bit of unary encoding is told in half of the reports only.
    if name in ("response", "subset", "proportional"):
        expected = rows_of(result, "without privacy", "accuracy")
        np.testing.assert_allclose(accuracies[2:], expected, atol=0.02)
    assert np.isfinite(rows_of(result, name, "statistical_parity_difference")).all()


class _Watched(ClassifierMixin, BaseEstimator):
    """A classifier that keeps what it was given."""

    matrices: ClassVar = []

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        _Watched.matrices.append((X, y))
        return self

    def predict(self, X):
        _Watched.matrices.append((X, None))
        return (X.iloc[:, -1] > 0.5).astype(int).to_numpy()


@pytest.mark.parametrize("test_rows", ["true", "reported"])
def test_the_model_learns_from_reports_and_is_told_what_it_should(test_rows):
    _Watched.matrices.clear()
    result = study(estimator=_Watched(), n_splits=2, baselines=[], epsilons=[0.1], test_rows=test_rows)
    (train, labels), (test, _), *_ = _Watched.matrices
    true_labels, train_rows, test_rows_of_split = split(0)
    assert labels.tolist() == true_labels[train_rows].tolist()
    jobs = ["job_clerk", "job_farm", "job_shop"]
    assert list(train.columns) == ["age", "hours", *jobs, "protected_0", "protected_1"]
    assert (train[["protected_0", "protected_1"]].sum(axis=1) == 1).all()
    men = (PEOPLE["sex"] == "m").to_numpy()
    share = (train["protected_1"] == men[train_rows]).mean()
    assert 0.42 < share < 0.63  # .525 at epsilon .1
    told = (test["protected_1"] == men[test_rows_of_split]).mean()
    assert (told == 1) == (test_rows == "true")
    # No scores, so no area under the curve.
    assert np.isnan(rows_of(result, "RandomizedResponseEncoder", "roc_auc")).all()


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:Setting a value")  # fairlearn's own
def test_baselines_that_read_reports():
    result = study(baselines=["posterior features", "private parity"], epsilons=[3.0], n_splits=2)
    methods = set(result.table["method"])
    assert methods == {
        "RandomizedResponseEncoder",
        "posterior features, RandomizedResponseEncoder",
        "private parity, RandomizedResponseEncoder",
    }
    parity = rows_of(result, "private parity, RandomizedResponseEncoder", "statistical_parity_difference")
    assert abs(parity.mean()) < 0.2


@pytest.mark.filterwarnings("ignore:the noise hides")
@pytest.mark.parametrize(
    ("name", "promise"),
    [
        ("curator's model", "whole records"),
        pytest.param("synthetic rows", "whole records", marks=pytest.mark.long),
        ("private target", "the label"),
        ("resampled columns", "values of the protected columns"),
    ],
)
def test_baselines_of_a_curator(name, promise):
    """At a large epsilon, about the model without privacy."""
    declared = table(domain={**DOMAIN, "hours": Interval(0, 80, bins=16, real=True)}, name="declared")
    result = study(declared, baselines=["without privacy", name], epsilons=[0.01, 50.0], n_splits=2)
    rows = result.table[result.table["method"] == name]
    assert sorted(rows["epsilon"].unique()) == [0.01, 50.0]
    accuracies = rows_of(result, name, "accuracy").reshape(2, 2).mean(axis=1)
    expected = rows_of(result, "without privacy", "accuracy").mean()
    assert accuracies[1] > expected - 0.05
    assert accuracies[0] < accuracies[1]
    intervals = result.intervals("accuracy").set_index("method")["promise"]
    assert set(intervals[name]) == {promise}
    assert intervals["without privacy"] == ""
    # Numbers without declared ends have private bounds.
    if name == "curator's model":
        assert len(study(baselines=[name], epsilons=[50.0], n_splits=2).table)


def test_a_table_of_protected_columns_alone():
    """Without them, the more frequent label is predicted for all."""
    alone = StudyTable(PEOPLE[["sex"]], HIRED, sensitive="sex", privileged="m", positive_label="yes", domain=DOMAIN)
    result = study(alone, baselines=["without privacy", "left out"], epsilons=[9.0])
    assert rows_of(result, "left out", "statistical_parity_difference").tolist() == [0, 0]
    assert (rows_of(result, "left out", "roc_auc") == 0.5).all()
    assert (rows_of(result, "RandomizedResponseEncoder", "accuracy") > 0.6).all()


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:the noise hides")
def test_rows_of_a_single_label_predict_nothing():
    """Areas of splits whose rows had both labels were the only ones that counted."""
    declared = table(domain={**DOMAIN, "hours": Interval(0, 80, bins=16, real=True)}, name="declared")
    result = study(declared, baselines=["synthetic rows"], epsilons=[1e-6], n_splits=4)
    areas = rows_of(result, "synthetic rows", "roc_auc")
    assert (areas == 0.5).any()
    assert np.isfinite(areas).all()


def test_a_curator_reads_small_integers_as_numbers():
    """Columns of one byte are no indicators of 0 and 1: their declared ends are those of the domain."""
    rng = np.random.default_rng(0)
    people = pd.DataFrame({"sex": rng.choice(["f", "m"], 2000), "hours": rng.integers(0, 80, 2000).astype(np.uint8)})
    domain = {"sex": ["f", "m"], "hours": Interval(0, 80, bins=4)}
    made = StudyTable(people, people["hours"] > 40, sensitive="sex", privileged="m", positive_label=True, domain=domain)
    result = study(made, baselines=["curator's model"], epsilons=[20.0])
    assert rows_of(result, "curator's model", "accuracy").mean() > 0.9


def test_synthetic_rows_need_a_domain_of_all_columns():
    for name in ("synthetic rows", "resampled columns"):
        with pytest.raises(
            ValueError, match=rf"{name}' needs a domain of all columns; that of table 'jobs' lacks \['h"
        ):
            study(baselines=[name])
    # 2 * 3 * 1,000 combinations
    domain = {**DOMAIN, "hours": Interval(0, 80, bins=1_000)}
    with pytest.raises(ValueError, match=r"at most 4,096 combinations of protected values; table 'jobs' has 6,000"):
        study(table(domain=domain, protect=["sex", "job", "hours"]), baselines=["resampled columns"])


@pytest.mark.long
def test_epsilon_is_divided_in_each_of_several_ways():
    """Named after the share, and the same fits as of an encoder with these settings."""
    wide = table(protect=["sex", "job"])
    options = {"n_splits": 2, "baselines": [], "epsilons": [2.0]}
    result = study(wide, {"RR": RandomizedResponseEncoder()}, shares=["uniform", "proportional", "joint"], **options)
    by_hand = {
        "RR, uniform": RandomizedResponseEncoder(),
        "RR, proportional": RandomizedResponseEncoder(shares="proportional"),
        "RR, joint": RandomizedResponseEncoder(strategy="joint"),
    }
    expected = study(wide, by_hand, **options)
    pd.testing.assert_frame_equal(result.table.drop(columns="seconds"), expected.table.drop(columns="seconds"))
    with pytest.raises(ValueError, match="each of shares"):
        study(wide, shares=["equal"])
    with pytest.raises(TypeError, match="shares must be a list of names"):
        study(wide, shares="joint")


@pytest.mark.long
def test_fits_can_be_added_and_are_not_repeated(tmp_path):
    one_baseline = {"baselines": ["left out"]}
    short = study(memory=str(tmp_path), **one_baseline)
    _Watched.matrices.clear()
    again = study(memory=str(tmp_path), **one_baseline)
    # Also the seconds: nothing was fitted again.
    pd.testing.assert_frame_equal(again.table, short.table)
    longer = study(memory=str(tmp_path), n_splits=3, epsilons=[4.0, 1.0], **one_baseline)
    keys = ["table", "method", "epsilon", "split", "metric"]
    both = longer.table.merge(short.table, on=keys, suffixes=("", "_short"))
    assert len(both) == len(short.table)
    assert (both["seconds"] == both["seconds_short"]).all()
    # The same without a folder: seeds depend on the fit alone.
    without = study(**one_baseline).table.drop(columns="seconds")
    pd.testing.assert_frame_equal(without, short.table.drop(columns="seconds"))


@pytest.mark.long
def test_several_processes_give_the_same_numbers():
    one = study(n_splits=2).table.drop(columns="seconds")
    two = study(n_splits=2, n_jobs=2).table.drop(columns="seconds")
    pd.testing.assert_frame_equal(one, two)


def test_secure_randomness_is_new_in_each_study():
    first, second = (study(random_state=None, epsilons=[0.1], n_splits=2, baselines=[]) for _ in range(2))
    assert not first.table["value"].equals(second.table["value"])


def made_up(values):
    """Scores of two methods, one of them without an epsilon."""
    rows = []
    for method, epsilon, scores in values:
        for number, score in enumerate(scores):
            rows.append(("people", method, epsilon, number, "accuracy", score, 400, 100, 0.1))
    columns = ["table", "method", "epsilon", "split", "metric", "value", "n_train", "n_test", "seconds"]
    return FairnessStudy(pd.DataFrame(rows, columns=columns))


def test_intervals_and_differences_are_those_of_compare_to_baseline():
    base, private = RNG.normal(0.8, 0.02, 5), RNG.normal(0.75, 0.02, 5)
    result = made_up([("left out", math.inf, base), ("reports", 1.0, private)])
    curve = result.table.assign(repeat=0, fold=result.table["split"], group="all")
    expected = compare_to_baseline(curve).iloc[0]
    (row,) = result.compare("reports").to_dict("records")
    for name in ("difference", "std_error", "lower", "upper"):
        assert row[name] == pytest.approx(expected[name])
    reverse = result.compare("left out", "reports").iloc[0]
    assert reverse["difference"] == pytest.approx(-row["difference"])
    assert reverse["epsilon"] == 1.0
    # The interval and the p-value agree on what is significant.
    assert (row["p_value"] < 0.05) == (row["lower"] > 0 or row["upper"] < 0)
    mean = result.intervals("accuracy").set_index("method")["mean"]
    assert mean["left out"] == pytest.approx(base.mean())


def test_p_values_are_adjusted_by_holm():
    """The k-th smallest of n is multiplied by n - k + 1, and none is below one before it."""
    base = RNG.normal(0.8, 0.01, 6)
    methods = [("left out", math.inf, base)]
    for epsilon in (0.5, 1.0, 2.0, 4.0):
        methods.append(("reports", epsilon, base - 0.02 / epsilon + RNG.normal(0, 0.02, 6)))
    # Equal scores have no variance, and no p-value.
    methods.append(("reports", 8.0, base))
    table = made_up(methods).compare("reports").sort_values("p_value")
    p_values = table["p_value"].to_numpy()
    assert np.isnan(p_values[4])
    expected = []
    for rank, p_value in enumerate(p_values[:4]):
        expected.append(max([*expected, min(1, (4 - rank) * p_value)]))
    np.testing.assert_allclose(table["adjusted_p_value"], [*expected, math.nan])
    assert (table["adjusted_p_value"][:4] >= p_values[:4]).all()


def test_groups_without_a_name_are_refused():
    people = PEOPLE.assign(sex=PEOPLE["sex"].where(PEOPLE["age"] > 20))
    with pytest.raises(ValueError, match="column 'sex' has missing values: give them a name"):
        StudyTable(
            people,
            HIRED,
            sensitive="sex",
            privileged="m",
            positive_label="yes",
            domain={**DOMAIN, "sex": ["f", "m", None]},
        )


def test_rare_groups_and_odd_columns():
    """Decimals, integer codes, missing numbers, and a group that some splits do not have."""
    n = 80
    rng = np.random.default_rng(0)
    people = pd.DataFrame(
        {
            "group": np.array([7] * 78 + [9] * 2),
            "level": pd.array(rng.integers(0, 3, n), dtype="Int8"),
            "amount": np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n)),
            "flag": rng.random(n) < 0.5,
        }
    )
    made = StudyTable(
        people,
        rng.random(n) < 0.4,
        sensitive="group",
        privileged=7,
        positive_label=True,
        protect=["group", "level"],
        domain={"group": [7, 8, 9], "level": [0, 1, 2]},
    )
    result = study(made, estimator=HistGradientBoostingClassifier(max_iter=3), n_splits=4, baselines=["left out"])
    parity = result.intervals("accuracy_difference")
    assert (parity["n_splits"] < 4).all()
    assert (result.intervals("accuracy")["n_splits"] == 4).all()


def test_methods_with_epsilons_are_compared_at_the_same_one():
    result = made_up(
        [
            ("one", 1.0, [0.7, 0.71]),
            ("one", 2.0, [0.8, 0.82]),
            ("other", 1.0, [0.6, 0.61]),
            ("other", 2.0, [0.6, 0.61]),
        ]
    )
    table = result.compare("one", "other")
    assert table["epsilon"].to_list() == [1.0, 2.0]
    np.testing.assert_allclose(table["difference"], [0.1, 0.205])
    with pytest.raises(ValueError, match="no scores of method 'third'; there are"):
        result.compare("third")


def test_epsilons_of_two_promises_are_not_compared():
    result = made_up(
        [
            ("left out", math.inf, [0.7, 0.71]),
            ("reports", 1.0, [0.7, 0.71]),
            ("resampled columns", 1.0, [0.7, 0.72]),
            ("curator's model", 1.0, [0.8, 0.82]),
        ]
    )
    with pytest.raises(
        ValueError, match=r"'reports' is for values of .* \"curator's model\" for whole records: compare"
    ):
        result.compare("reports", "curator's model")
    assert len(result.compare("reports", "resampled columns")) == 1
    assert result.compare()["method"].to_list() == ["reports", "resampled columns", "curator's model"]


def test_tables_for_papers():
    pytest.importorskip("jinja2")
    result = made_up(
        [("left out", math.inf, [0.7, 0.71]), ("reports", 0.5, [0.7, 0.71]), ("reports", 4.0, [0.7, 0.72])]
    )
    text = result.to_latex(["accuracy"])
    assert text.startswith("\\begin{tabular}")
    assert text.count("left out & -- &") == 1
    assert "FairnessStudy(1 tables, 2 methods, 6 fits)" in repr(result)


def test_all_methods_are_compared_at_once():
    base = np.array([0.80, 0.81, 0.79])
    result = made_up(
        [
            ("left out", math.inf, base),
            ("one", 1.0, base + np.array([0.01, 0.02, 0.03])),
            ("two", 1.0, base - np.array([0.01, 0.03, 0.02])),
        ]
    )
    every = result.compare()
    assert every["method"].to_list() == ["one", "two"]
    np.testing.assert_allclose(every["difference"], [0.02, -0.02])
    alone = result.compare("one")
    # Of two rows, p-values are adjusted for two.
    assert every["adjusted_p_value"][0] == pytest.approx(2 * alone["p_value"][0])
    assert result.compare(["two", "one"], metric=["accuracy"])["difference"].sum() == pytest.approx(0)


@pytest.mark.long
def test_the_page_of_a_study(tmp_path):
    pytest.importorskip("matplotlib")
    result = study(table(name="<jobs>"), epsilons=[0.5, 4.0], baselines=["without privacy", "left out"])
    page = result.save(tmp_path / "out", title="Jobs & fairness")
    assert sorted(path.name for path in page.parent.iterdir()) == [
        "index.html",
        "less_left_out.csv",
        "means.csv",
        "scores.csv",
    ]
    text = page.read_text(encoding="utf-8")
    assert "<h1>Jobs &amp; fairness</h1>" in text
    assert "&lt;jobs&gt;" in text
    assert "<jobs>" not in text.replace("&lt;jobs&gt;", "")
    assert "8 fits on 2 random splits" in text
    assert text.count("<img") == 4
    compared = pd.read_csv(tmp_path / "out/less_left_out.csv")
    assert set(compared["method"]) == {"without privacy", "RandomizedResponseEncoder"}
    for _, row in compared[compared["metric"] == "accuracy"].iterrows():
        assert f"<td>{row['lower']:.3f}</td>" in text
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "out/scores.csv"), result.table, check_dtype=False)
    # Without that baseline the page says what is missing.
    alone = FairnessStudy(result.table[result.table["method"] != "left out"]).save(tmp_path / "alone")
    assert "add the baseline “left out”" in alone.read_text(encoding="utf-8")
    with pytest.raises(TypeError, match="folder must be a path"):
        result.save(3)


def test_tables_of_the_loaders():
    adult = load_adult(dropna=True)
    made = StudyTable.from_bunch(adult, name="Adult")
    assert repr(made) == "StudyTable('Adult', 30,162 rows, protected: age, race, sex, native-country, groups: race)"
    assert made.labels.mean() == pytest.approx(0.249, abs=1e-3)
    by_sex = StudyTable.from_bunch(adult, sensitive="sex")
    assert by_sex.privileged == "Male"


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"sensitive": "race"}, ValueError, "'race' is not a column of X"),
        ({"protect": ["sex", "race"]}, ValueError, "'race' is not a column of X"),
        ({"protect": ["hours"]}, ValueError, r"domain must declare the protected columns \['hours'\]"),
        ({"domain": {"sex": ["f", "m"]}}, TypeError, "column 'job' holds no numbers"),
        ({"domain": {**DOMAIN, "sex": ["f"]}}, ValueError, "column 'sex' holds values that domain does not declare"),
        ({"domain": None}, TypeError, "domain must be a Domain or a mapping"),
        ({"positive_label": "perhaps"}, ValueError, "positive_label be one of them"),
        ({"sensitive": ["sex"]}, TypeError, "sensitive must be the name of one column, got list"),
        ({"privileged": "male"}, ValueError, r"privileged \['male'\] is not declared for column 'sex', which has"),
        ({"y": HIRED.sample(frac=1, random_state=0)}, ValueError, "y has the labels of X in another order"),
        ({"y": HIRED.where(HIRED.index > 3)}, ValueError, "y has missing labels"),
    ],
)
def test_tables_that_do_not_fit_are_refused(options, error, message):
    with pytest.raises(error, match=message):
        table(**options)


def test_a_bunch_without_a_privileged_value_of_the_column_is_refused():
    with pytest.raises(ValueError, match=r"sensitive must be a column with a privileged value.*got 'age'"):
        StudyTable.from_bunch(load_adult(dropna=True), sensitive="age")


def test_columns_whose_names_look_like_indicators_are_kept():
    people = PEOPLE.assign(job_farm=2.0)
    _Watched.matrices.clear()
    study(table(X=people), estimator=_Watched(), baselines=["left out"])
    left_out, _ = _Watched.matrices[0]
    # Three jobs, age, hours, and the new column.
    assert left_out.shape[1] == 6
    assert (left_out["job_farm"] == 2).all()
    assert left_out["job_farm_"].isin([0, 1]).all()


class _Voter(ClassifierMixin, BaseEstimator):
    """Takes no weights."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return np.full(len(X), self.classes_[0])


@pytest.mark.filterwarnings("ignore:Setting a value")  # fairlearn's own
@pytest.mark.long
def test_pipelines_are_weighted_by_their_last_step():
    scaled = make_pipeline(StandardScaler(), LogisticRegression())
    result = study(estimator=scaled, baselines=["reweighed", "private parity"])
    assert set(result.table["method"]) > {"reweighed", "private parity, RandomizedResponseEncoder"}


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"tables": []}, TypeError, "tables must be a StudyTable"),
        ({"tables": [PEOPLE]}, TypeError, "tables must be a StudyTable"),
        ({"tables": [table(), table()]}, ValueError, "names of their own, got"),
        ({"encoders": {}}, ValueError, "at least one encoder"),
        ({"encoders": DPMean(bounds=(0, 1))}, TypeError, "must be an encoder of categories"),
        ({"epsilons": []}, ValueError, "epsilons"),
        ({"n_splits": 1}, ValueError, "n_splits must be at least 2, got 1"),
        ({"test_size": 0.0}, ValueError, "test_size must be between 0 and 1"),
        ({"test_rows": "all"}, ValueError, "test_rows"),
        ({"baselines": "left out"}, TypeError, "list of names, got a str"),
        ({"baselines": ["nothing"]}, ValueError, "each of baselines"),
        ({"estimator": LogisticRegression}, TypeError, "estimator must be a classifier"),
        ({"estimator": _Voter()}, ValueError, "the fit of _Voter takes no sample_weight"),
        (
            {"encoders": {"left out": RandomizedResponseEncoder()}},
            ValueError,
            r"names of baselines, got \['left out'\]",
        ),
        ({"tables": table(privileged=["f", "m"])}, ValueError, "'sex' needs rows of privileged values and of others"),
        (
            {"tables": table(X=PEOPLE.assign(copy=HIRED == "yes"), y=HIRED == "yes", positive_label=True)},
            ValueError,
            "column 'copy' of X is the target",
        ),
    ],
)
def test_wrong_settings_are_refused_before_any_fit(options, error, message):
    _Watched.matrices.clear()
    with pytest.raises(error, match=message):
        study(**{"estimator": _Watched(), **options})
    assert not _Watched.matrices
