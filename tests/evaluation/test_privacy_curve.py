"""Privacy curves: every score is that of a loop written by hand, on one release that all scorers see."""

import json
import math
import os
import subprocess
import sys
import warnings
from functools import partial
from itertools import product

import numpy as np
import pandas as pd
import polars as pl
import pytest
from fairlearn.metrics import MetricFrame, demographic_parity_difference, selection_rate
from imblearn.pipeline import make_pipeline as make_imblearn_pipeline
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin, clone
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import VotingClassifier
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, make_scorer, recall_score, roc_auc_score
from sklearn.model_selection import GridSearchCV, GroupKFold, PredefinedSplit, StratifiedKFold
from sklearn.naive_bayes import BernoulliNB
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skdp import (
    BudgetExceeded,
    DPMarginalSynthesizer,
    HadamardResponseEncoder,
    LocalHashingEncoder,
    OnFitOnly,
    PosteriorFeatures,
    PrivacyLedger,
    RandomizedResponseEncoder,
    RapporEncoder,
    SyntheticResampler,
    UnaryEncodingTransformer,
)
from skdp.central import DPStandardScaler
from skdp.evaluation import privacy_curve
from skdp.evaluation.curves import _cells as _curve_cells
from skdp.evaluation.curves._cache import CellStore, digest
from skdp.evaluation.curves._cells import read_groups
from skdp.evaluation.curves._scoring import _name_of
from skdp.metrics import fairness_report
from tests.conftest import each, without_weak

EPSILON = "columns__private__encoder__epsilon"
ENCODER = "columns__private__encoder"
fits = []  # one entry for each fit of a CountingClassifier, in this process
releases = []  # one for each call of CountingEncoder.transform


@pytest.fixture(autouse=True)
def _forget():
    fits.clear()
    releases.clear()


class CountingEncoder(RandomizedResponseEncoder):
    def transform(self, X, record_id=None):
        if self.epsilon < 1e9:  # the baseline's
            releases.append(len(X))
        return super().transform(X, record_id)


class CountingClassifier(LogisticRegression):
    """As if the process were killed in the middle of a fit."""

    kill_at = None

    def __init__(self, C=1.0):
        super().__init__(C=C)

    def fit(self, X, y):
        fits.append(len(y))
        if len(fits) == self.kill_at:
            raise KeyboardInterrupt
        return super().fit(X, y)


def table(n=240, seed=0):
    rng = np.random.default_rng(seed)
    group = rng.choice(["a", "b"], n)
    y = np.where(rng.random(n) < np.where(group == "a", 0.8, 0.25), "yes", "no")
    return pd.DataFrame({"group": group, "kind": rng.choice(["u", "v", "w"], n), "number": rng.normal(size=n)}), y


def pipeline(encoder=None, classifier=None):
    encoder = encoder or RandomizedResponseEncoder(categories={"group": ["a", "b"], "kind": ["u", "v", "w"]})
    private = Pipeline([("encoder", encoder), ("one_hot", OneHotEncoder(handle_unknown="ignore"))])
    columns = ColumnTransformer([("private", private, ["group", "kind"]), ("numbers", StandardScaler(), ["number"])])
    return Pipeline([("columns", columns), ("classifier", classifier or LogisticRegression())])


def curve(estimator=None, data=None, **parameters):
    X, y = data or table()
    defaults = {"param_name": EPSILON, "epsilons": [0.5, 4.0], "cv": 2, "random_state": 0}
    return privacy_curve(estimator or pipeline(), X, y, **defaults | parameters)


def values(frame, metric, epsilon, group="all"):
    chosen = (frame["metric"] == metric) & (frame["epsilon"] == epsilon) & (frame["group"] == group)
    return frame.loc[chosen, "value"].tolist()


def counting():
    return CountingEncoder(categories={"group": ["a", "b"], "kind": ["u", "v", "w"]})


def seeds_of(**parameters):
    """Read the seed of each cell from a classifier-free run: the random bits of a cell are those of its encoder."""
    found = []

    class Spy(RandomizedResponseEncoder):
        def fit(self, X, y=None):
            found.append(self.random_state)
            return super().fit(X, y)

    quick = pipeline(Spy(categories={"group": ["a", "b"], "kind": ["u", "v", "w"]}), DummyClassifier())
    curve(
        quick.set_params(columns__numbers="drop", columns__private__one_hot="passthrough"), baseline=None, **parameters
    )
    return found


def test_the_scores_are_those_of_a_loop_by_hand():
    X, y = table()
    result = curve(n_repeats=2, scoring=["accuracy", "roc_auc"], epsilons=[0.5])
    seeds = iter(seeds_of(n_repeats=2, epsilons=[0.5]))
    expected = []
    for epsilon in (math.inf, 0.5):
        for repeat in range(2):
            folds = StratifiedKFold(2, shuffle=True, random_state=repeat).split(X, y)
            for fold, (train, test) in enumerate(folds):
                model = pipeline()
                if epsilon == math.inf:
                    model.set_params(columns__private__encoder="passthrough")
                else:
                    model.set_params(**{EPSILON: epsilon, f"{ENCODER}__random_state": next(seeds)})
                model.fit(X.iloc[train], y[train])
                encoded = model[:-1].transform(X.iloc[test])
                right = accuracy_score(y[test], model[-1].predict(encoded))
                area = roc_auc_score(y[test], model[-1].decision_function(encoded))
                sizes = len(train), len(test)
                expected += [(epsilon, repeat, fold, "accuracy", "all", right, *sizes)]
                expected += [(epsilon, repeat, fold, "roc_auc", "all", area, *sizes)]
    columns = ["epsilon", "repeat", "fold", "metric", "group", "value", "n_train", "n_test"]
    pd.testing.assert_frame_equal(result, pd.DataFrame(expected, columns=columns))


def test_test_rows_are_true_under_privatize_fit():
    X, y = table()
    result = curve(privatize="fit", baseline=None, epsilons=[0.5])
    seeds = iter(seeds_of(epsilons=[0.5]))
    for (train, test), value in zip(
        StratifiedKFold(2, shuffle=True, random_state=0).split(X, y), result["value"], strict=True
    ):
        model = pipeline().set_params(**{EPSILON: 0.5, f"{ENCODER}__random_state": next(seeds)})
        model.set_params(columns__private__encoder=OnFitOnly(model.get_params()[ENCODER])).fit(X.iloc[train], y[train])
        assert value == model.score(X.iloc[test], y[test])
        noisy = pipeline().set_params(**{f"{ENCODER}__random_state": 0}).fit(X.iloc[train], y[train])
        assert value != noisy.score(X.iloc[test], y[test])


@pytest.mark.parametrize("wrap", ["pipeline", "search", "vote"])
def test_all_scorers_see_one_release_of_the_test_rows(wrap):
    """Labels and probabilities of one release agree; of two releases at a small epsilon they do not."""
    agreements = []

    def agreement(estimator, X, y):
        labels = np.asarray(estimator.classes_)[estimator.predict_proba(X).argmax(axis=1)]
        agreements.append(np.mean(labels == estimator.predict(X)))
        return agreements[-1]

    model, prefix = pipeline(counting()), ""
    if wrap == "search":
        model, prefix = GridSearchCV(model, {"classifier__C": [0.1, 1.0]}, cv=2), "estimator__"
    elif wrap == "vote":
        model, prefix = VotingClassifier([("only", model)], voting="soft"), "only__"
    scoring = {"agreement": agreement, "right": "accuracy", "area": "roc_auc"}
    result = curve(model, param_name=prefix + EPSILON, scoring=scoring, epsilons=[0.1], baseline=None)
    assert agreements == [1.0] * 2
    assert values(result, "agreement", 0.1) == [1.0] * 2
    if wrap != "search":  # which has inner folds
        assert releases == [120, 120] * 2
    if wrap == "vote":
        # Without our care, each question draws anew.
        fitted = clone(model).set_params(**{prefix + EPSILON: 0.1}).fit(*table())
        again = [fitted.predict_proba(table()[0]) for _ in range(2)]
        assert not np.array_equal(*again)


def test_a_scorer_that_asks_for_other_rows_is_refused():
    def half(estimator, X, y):
        return np.mean(estimator.predict(X[::2]) == y[::2])

    with pytest.raises(ValueError, match="other rows would be another release"):
        curve(scoring=half)


def test_no_two_cells_have_the_same_seed_and_added_cells_change_none():
    some = seeds_of(epsilons=[0.5, 4.0])
    assert len(set(some)) == len(some) == 4
    more = seeds_of(epsilons=[0.1, 0.5, 4.0], n_repeats=2)
    assert len(set(more)) == 12
    assert some == more[4:6] + more[8:10]
    assert not set(some) & set(seeds_of(epsilons=[0.5, 4.0], random_state=1))
    assert set(seeds_of(random_state=None)) == {None}


def test_seeds_that_meet_are_moved_apart(monkeypatch):
    monkeypatch.setattr(_curve_cells, "_SEEDS", 8)
    assert sorted(seeds_of(epsilons=[0.5, 4.0], n_repeats=2)) == list(range(8))


@pytest.mark.long
def test_the_seed_that_a_step_came_with_is_not_used_and_others_are_kept():
    seeded = RandomizedResponseEncoder(categories={"group": ["a", "b"], "kind": ["u", "v", "w"]}, random_state=7)
    first, second = (curve(pipeline(seeded), random_state=None, baseline=None, n_repeats=2) for _ in range(2))
    assert not first["value"].equals(second["value"])
    kept = []

    class Spy(LogisticRegression):
        def fit(self, X, y):
            kept.append(self.random_state)
            return super().fit(X, y)

    curve(pipeline(classifier=Spy(random_state=5)), epsilons=[0.5])
    assert set(kept) == {5}


@pytest.mark.long
def test_steps_beside_the_one_that_varies_get_seeds_of_their_own():
    seeds = []

    class Spy(RandomizedResponseEncoder):
        def fit(self, X, y=None):
            seeds.append(self.random_state)
            return super().fit(X, y)

    one, two = (Spy(1.0, categories=[values]) for values in (["a", "b"], ["u", "v", "w"]))
    columns = make_column_transformer(
        (make_pipeline(one, OneHotEncoder()), ["group"]), (make_pipeline(two, OneHotEncoder()), ["kind"])
    )
    model = make_pipeline(columns, LogisticRegression())
    options = {"param_name": "columntransformer__pipeline-1__spy__epsilon", "baseline": None}
    first, second = (curve(model, **options) for _ in range(2))
    pd.testing.assert_frame_equal(first, second)
    assert seeds[:8] == seeds[8:]
    assert len(set(seeds)) == 8


def test_two_processes_give_what_one_gives():
    pd.testing.assert_frame_equal(curve(n_jobs=2, epsilons=[0.5]), curve(epsilons=[0.5]))


def test_splits_do_not_depend_on_the_randomness_and_given_ones_are_repeated():
    baselines = [curve(random_state=seed, epsilons=[0.5]).query("epsilon == inf") for seed in (None, 1)]
    pd.testing.assert_frame_equal(*baselines)
    X, y = table()
    splits = list(StratifiedKFold(2).split(X, y))
    result = curve(cv=iter(splits), n_repeats=2, epsilons=[0.5])
    baseline = result.query("epsilon == inf")["value"].tolist()
    assert baseline[:2] == baseline[2:]
    private = result.query("epsilon == 0.5")["value"].tolist()
    assert private[:2] != private[2:]


@pytest.mark.long
def test_groups_go_to_the_splitter():
    X, y = table()
    people = np.repeat(np.arange(60), 4)
    result = curve(cv=GroupKFold(3), groups=people, epsilons=[0.5])
    assert len(result) == 6
    splits = list(GroupKFold(3).split(X, y, people))
    assert all(not set(people[train]) & set(people[test]) for train, test in splits)
    pd.testing.assert_frame_equal(result, curve(cv=splits, epsilons=[0.5]))


@each(
    "cv, named",
    [
        (None, "None"),
        (3, "3"),
        (np.int64(3), "3"),
        (StratifiedKFold(3), "StratifiedKFold"),
        (PredefinedSplit(np.arange(240) % 3), "PredefinedSplit"),
        ([(np.arange(120), np.arange(120, 240))], "list"),
    ],
)
def test_groups_that_the_splits_would_ignore_are_refused(cv, named):
    ledger = PrivacyLedger(epsilon=10.0)
    encoder = counting().set_params(ledger=ledger)
    with pytest.raises(ValueError, match=rf"such as GroupKFold\(5\).*got cv=(np.int64\()?{named}"):
        curve(pipeline(encoder), cv=cv, groups=np.arange(240) // 4)
    assert not fits
    assert not releases
    assert ledger.spent.epsilon == 0


def test_missing_values_are_a_group_that_fairlearn_does_not_leave_out():
    X, _ = table()
    people = np.where(np.arange(240) % 5 == 0, None, X["group"])
    rate = {"rate": partial(MetricFrame, metrics=accuracy_score)}
    found = curve(sensitive_features=people, scoring=rate, epsilons=[1.0])
    assert set(found["group"]) == {"all", "a", "b", "missing"}


@pytest.mark.parametrize("kind", [pl.DataFrame, pd.DataFrame])
def test_a_frame_of_any_kind(kind):
    X, y = table()
    rate = {"rate": partial(MetricFrame, metrics=accuracy_score)}
    options = {"sensitive_features": "group", "scoring": rate, "epsilons": [0.5], "baseline": None}
    made = kind(X.to_dict("list"))
    target = pl.Series(y) if kind is pl.DataFrame else pd.Series(y, index=np.arange(240)[::-1])
    pd.testing.assert_frame_equal(curve(data=(made, target), **options), curve(**options))


def test_arrays_and_lists():
    X, y = table()
    model = make_pipeline(RandomizedResponseEncoder(categories=[["a", "b"]]), OneHotEncoder(), LogisticRegression())
    parameters = {"param_name": "randomizedresponseencoder__epsilon", "epsilons": [0.5]}
    array = X[["group"]].to_numpy(object)
    expected = curve(model, (array, y), **parameters)
    pd.testing.assert_frame_equal(curve(model, (array.tolist(), list(y)), **parameters), expected)


def test_fairness_is_that_of_the_report_with_the_true_groups():
    X, y = table()
    names = ["statistical_parity_difference", "theil_index"]
    fair = {"privileged": "a", "positive_label": "yes", "sensitive_features": "group"}
    result = curve(scoring=[*names, "accuracy"], epsilons=[0.5], **fair)
    assert result["metric"].unique().tolist() == ["accuracy", *names]
    train, test = next(StratifiedKFold(2, shuffle=True, random_state=0).split(X, y))
    predicted = pipeline().set_params(columns__private__encoder="passthrough").fit(X.iloc[train], y[train])
    report = fairness_report(
        y[test], predicted.predict(X.iloc[test]), X["group"].iloc[test], privileged="a", positive_label="yes"
    ).set_index("metric")["value"]
    assert values(result, names[0], math.inf)[0] == report["statistical_parity_difference"]
    assert values(result, names[1], math.inf)[0] == report["theil_index"]


@pytest.mark.parametrize("privatize", ["always", "fit"])
def test_scores_use_the_sensitive_feature_that_is_given(privatize):
    X, y = table()
    other = np.random.default_rng(5).choice([0, 1], len(X))

    def same(y_true, y_pred, *, sensitive_features):
        return float(np.mean([sensitive_features.sum(), len(sensitive_features)]))

    result = curve(sensitive_features=other, scoring=same, privatize=privatize, epsilons=[1.0])
    tests = [test for _, test in StratifiedKFold(2, shuffle=True, random_state=0).split(X, y)]
    assert result["value"].tolist() == [(other[test].sum() + len(test)) / 2 for test in tests] * 2


@pytest.mark.long
def test_metric_frames_give_a_row_for_each_group():
    scoring = {
        "right": partial(MetricFrame, metrics=accuracy_score),
        "both": partial(
            MetricFrame, metrics={"accuracy": accuracy_score, "rate": partial(selection_rate, pos_label="yes")}
        ),
        "gap": partial(MetricFrame, metrics=accuracy_score),
    }
    result = curve(sensitive_features="group", scoring=scoring, cv=2, epsilons=[1.0])
    assert len(result) == 4 * 4 * 3
    assert result["metric"].unique().tolist() == ["right", "both__accuracy", "both__rate", "gap"]
    assert result["group"].unique().tolist() == ["all", "a", "b"]
    for group in ("all", "a", "b"):
        assert values(result, "right", 1.0, group) == values(result, "both__accuracy", 1.0, group)
    plain = curve(scoring="accuracy", cv=2, epsilons=[1.0])
    assert values(result, "right", 1.0) == pytest.approx(values(plain, "accuracy", 1.0))


def test_several_sensitive_features_make_groups_of_combinations():
    X, y = table()
    X.index = np.arange(1000, 1240)
    named = ["group", "kind"]
    scoring = {"right": partial(MetricFrame, metrics=accuracy_score), "parity": "statistical_parity_difference"}
    options = {"scoring": scoring, "epsilons": [1.0], "privileged": [("a", "u")], "positive_label": "yes"}
    result = curve(data=(X, y), sensitive_features=named, **options)
    groups = list(product("ab", "uvw"))
    assert result["group"].unique().tolist() == ["all", *groups]
    train, test = next(StratifiedKFold(2, shuffle=True, random_state=0).split(X, y))
    predicted = pipeline().set_params(columns__private__encoder="passthrough").fit(X.iloc[train], y[train])
    labels, of_test = predicted.predict(X.iloc[test]), X[named].iloc[test]
    baseline = result[(result["epsilon"] == math.inf) & (result["fold"] == 0)].set_index("group")["value"]
    for group in groups:
        rows = (of_test == list(group)).all(axis=1).to_numpy()
        assert baseline[[group]].tolist() == [accuracy_score(y[test][rows], labels[rows])]
    report = fairness_report(y[test], labels, of_test, privileged=[("a", "u")], positive_label="yes")
    expected = report.set_index("metric")["value"]["statistical_parity_difference"]
    assert values(result, "parity", math.inf)[0] == expected
    one = {"scoring": {"right": scoring["right"]}, "epsilons": [1.0]}
    pd.testing.assert_frame_equal(curve(sensitive_features=["group"], **one), curve(sensitive_features="group", **one))


def test_sensitive_features_of_any_kind(make_frame):
    X, _ = table()
    expected = X[["group", "kind"]]
    frame = make_frame({name: X[name].tolist() for name in X})
    for given, rows in ((["group", "kind"], frame), (("group", "kind"), frame), (frame, frame)):
        read = read_groups(given, rows, len(X))
        pd.testing.assert_frame_equal(read[["group", "kind"]].astype(object), expected.astype(object))
    assert read_groups(expected.to_numpy(object), X, len(X)).to_numpy().tolist() == expected.to_numpy().tolist()
    assert read_groups(["group"], frame, len(X)).tolist() == expected["group"].tolist()
    few = X[:2]
    assert read_groups(["group", "kind"], few, 2).tolist() == ["group", "kind"]  # values, as many as rows


@pytest.mark.long
def test_groups_of_several_features_are_kept_in_the_cache(tmp_path):
    scoring = {"right": partial(MetricFrame, metrics=accuracy_score)}
    options = {"sensitive_features": ["group", "kind"], "scoring": scoring, "epsilons": [1.0], "cache": tmp_path}
    model = pipeline(classifier=CountingClassifier())
    first = curve(model, **options)
    fits.clear()
    pd.testing.assert_frame_equal(curve(model, **options), first)
    assert fits == []


def posterior():
    bits = UnaryEncodingTransformer(categories={"group": ["a", "b"], "kind": ["u", "v", "w"]})
    return make_pipeline(PosteriorFeatures(bits), LogisticRegression()), "posteriorfeatures__encoder__epsilon"


def test_posterior_features_release_once():
    X, y = table()
    X = X[["group", "kind"]]
    model, name = posterior()
    plain = make_pipeline(OneHotEncoder(), LogisticRegression())
    parameters = {"data": (X, y), "param_name": name, "scoring": ["accuracy", "roc_auc"]}
    result = curve(model, baseline=plain, **parameters)
    assert sorted(result["epsilon"].unique()) == [0.5, 4.0, math.inf]
    pd.testing.assert_frame_equal(
        curve(model, baseline=None, **parameters), result.query("epsilon < inf").reset_index(drop=True)
    )
    again = curve(
        VotingClassifier([("only", model)], voting="soft"),
        **parameters | {"param_name": f"only__{name}"},
        baseline=None,
    )
    assert len(again) == 8
    with pytest.raises(ValueError, match="without noise, which PosteriorFeatures does not have"):
        curve(model, **parameters, baseline=None, privatize="fit")


def test_the_scores_of_posterior_features_are_those_of_a_loop_by_hand():
    X, y = table()
    X = X[["group", "kind"]]
    model, name = posterior()
    seeds = []

    class Spy(UnaryEncodingTransformer):
        def fit(self, X, y=None):
            seeds.append(self.random_state)
            return super().fit(X, y)

    parameters = {"data": (X, y), "param_name": name, "epsilons": [2.0], "baseline": None}
    spied = clone(model).set_params(posteriorfeatures__encoder=Spy(categories={"group": ["a", "b"], "kind": [*"uvw"]}))
    curve(spied, **parameters)
    found = curve(model, **parameters)["value"].tolist()
    splits = StratifiedKFold(2, shuffle=True, random_state=0).split(X, y)
    for (train, test), seed, value in zip(splits, seeds, found, strict=True):
        one = clone(model).set_params(**{name: 2.0, "posteriorfeatures__encoder__random_state": seed})
        assert one.fit(X.iloc[train], y[train]).score(X.iloc[test], y[test]) == value


def test_all_that_asks_posterior_features_sees_one_release():
    agreements = []

    def agreement(estimator, X, y):
        labels = np.asarray(estimator.classes_)[estimator.predict_proba(X).argmax(axis=1)]
        agreements.append(np.mean(labels == estimator.predict(X)))
        return agreements[-1]

    X, y = table()
    model, name = posterior()
    curve(
        VotingClassifier([("only", model)], voting="soft"),
        (X[["group", "kind"]], y),
        param_name=f"only__{name}",
        baseline=None,
        epsilons=[2.0],
        scoring=agreement,
    )
    assert agreements == [1.0] * 2


def test_other_metrics():
    pos = make_scorer(recall_score, pos_label="yes")
    result = curve(scoring=("accuracy", pos), epsilons=[1.0])
    assert result["metric"].unique().tolist() == ["accuracy", "recall_score(pos_label='yes')"]

    def several(estimator, X, y):
        return {"one": 1, "two": estimator.score(X, y)}

    result = curve(scoring=several, epsilons=[1.0])
    assert values(result, "two", 1.0) == values(curve(epsilons=[1.0]), "accuracy", 1.0)
    zero_one = (*table()[:1], (table()[1] == "yes").astype(int))
    result = curve(
        data=zero_one, scoring=demographic_parity_difference, sensitive_features="group", epsilons=[1.0], baseline=None
    )
    assert result["metric"].unique().tolist() == ["demographic_parity_difference"]


def test_private_scalers_have_baselines():
    X, y = table()
    model = make_pipeline(DPStandardScaler(bounds=[(-4, 4)]), LogisticRegression())
    plain = make_pipeline(StandardScaler(), LogisticRegression())
    parameters = {"param_name": "dpstandardscaler__epsilon", "data": (X[["number"]], y)}
    assert values(curve(model, **parameters), "accuracy", math.inf) == values(
        curve(model, baseline=plain, **parameters), "accuracy", math.inf
    )
    assert len(curve(model, baseline=None, **parameters)) == 4
    always, fit = (curve(model, baseline=plain, privatize=mode, **parameters) for mode in ("always", "fit"))
    pd.testing.assert_frame_equal(always, fit)
    train, test = next(StratifiedKFold(2, shuffle=True, random_state=0).split(X, y))
    plain.fit(X[["number"]].iloc[train], y[train])
    assert values(always, "accuracy", math.inf)[0] == plain.score(X[["number"]].iloc[test], y[test])


def test_synthetic_training_rows():
    X, y = table()
    X = X[["group", "kind"]]
    domain = {"group": ["a", "b"], "kind": ["u", "v", "w"], "target": ["no", "yes"]}
    synthesizer = DPMarginalSynthesizer(domain=domain)
    model = make_imblearn_pipeline(SyntheticResampler(synthesizer), OneHotEncoder(), LogisticRegression())
    parameters = {"param_name": "syntheticresampler__synthesizer__epsilon", "epsilons": [5.0], "data": (X, y)}
    plain = make_pipeline(OneHotEncoder(), LogisticRegression())
    result = curve(model, baseline=plain, cv=2, **parameters)
    assert len(result) == 4
    pd.testing.assert_frame_equal(result, curve(model, baseline=plain, cv=2, privatize="fit", **parameters))


@each("encoder", [LocalHashingEncoder, HadamardResponseEncoder])
def test_a_random_encoding_has_a_baseline_that_charges_nothing(encoder):
    ledger = PrivacyLedger(epsilon=1.0)
    step = encoder(categories={"group": ["a", "b"], "kind": ["u", "v", "w"]}, ledger=ledger)
    assert step.set_params(epsilon=0.25).ledger is ledger
    found = curve(pipeline(step), epsilons=[0.25])
    assert np.isinf(found["epsilon"]).sum() == 2
    assert ledger.spent.epsilon == 4 * 0.25  # two fits and two sets of test rows


def test_a_baseline_of_rappor_is_without_its_second_round():
    X, y = table()
    encoder = RapporEncoder(n_bits=16, n_hashes=1, n_cohorts=1)
    model = make_pipeline(encoder, BernoulliNB())
    result = curve(model, param_name="rapporencoder__epsilon", data=(X[["group"]], y), epsilons=[0.5])
    plain = make_pipeline(OneHotEncoder(sparse_output=False), BernoulliNB())
    expected = curve(model, param_name="rapporencoder__epsilon", data=(X[["group"]], y), epsilons=[0.5], baseline=plain)
    assert values(result, "accuracy", math.inf) == values(expected, "accuracy", math.inf)


def test_posterior_features_and_synthetic_rows_have_baselines():
    X, y = table()
    X = X[["group", "kind"]]
    domain = {"group": ["a", "b"], "kind": ["u", "v", "w"]}
    features = PosteriorFeatures(RandomizedResponseEncoder(categories=domain))
    plain = make_pipeline(OneHotEncoder(), LogisticRegression(C=1e6))
    model = make_pipeline(features, LogisticRegression(C=1e6))
    result = curve(model, param_name="posteriorfeatures__encoder__epsilon", data=(X, y), epsilons=[1.0])
    expected = curve(
        model, param_name="posteriorfeatures__encoder__epsilon", data=(X, y), epsilons=[1.0], baseline=plain
    )
    assert values(result, "accuracy", math.inf) == values(expected, "accuracy", math.inf)
    synthesizer = DPMarginalSynthesizer(domain=domain | {"target": ["no", "yes"]}, marginals="full")
    model = make_imblearn_pipeline(SyntheticResampler(synthesizer), OneHotEncoder(), LogisticRegression())
    name = "syntheticresampler__synthesizer__epsilon"
    found = curve(model, param_name=name, epsilons=[1.0], data=(X, y))
    assert min(values(found, "accuracy", math.inf)) > 0.7


def test_each_release_is_charged_and_a_refusal_passes():
    categories = {"group": ["a", "b"], "kind": ["u", "v", "w"]}
    for privatize, cost in (("always", 4), ("fit", 2)):
        ledger = PrivacyLedger(epsilon=100)
        curve(pipeline(RandomizedResponseEncoder(categories=categories, ledger=ledger)), privatize=privatize)
        assert ledger.spent.epsilon == pytest.approx(cost * 4.5)
    ledger = PrivacyLedger(epsilon=1)
    with pytest.raises(BudgetExceeded):
        curve(pipeline(RandomizedResponseEncoder(categories=categories, ledger=ledger)))
    assert ledger.spent.epsilon <= 1


def test_a_killed_run_goes_on_and_repeats_no_finished_cell(tmp_path, monkeypatch):
    model = pipeline(classifier=CountingClassifier())
    expected = curve(model)
    assert len(fits) == 6
    fits.clear()
    monkeypatch.setattr(CountingClassifier, "kill_at", 4)
    with pytest.raises(KeyboardInterrupt):
        curve(model, cache=tmp_path)
    assert len(list(tmp_path.iterdir())) == 3
    fits.clear()
    monkeypatch.undo()
    pd.testing.assert_frame_equal(curve(model, cache=tmp_path), expected)
    assert len(fits) == 6 - 3


def test_a_finished_run_fits_nothing_again_with_secure_randomness_too(tmp_path):
    for seed in (0, None):
        model = pipeline(counting(), CountingClassifier())
        fits.clear()
        options = {"random_state": seed, "cache": tmp_path, "epsilons": [0.5]}
        first = curve(model, **options)
        assert len(fits) == 4
        pd.testing.assert_frame_equal(curve(model, **options), first)
        assert len(fits) == 4
        more = curve(model, **options | {"epsilons": [0.5, 2.0]})
        assert len(fits) == 6
        pd.testing.assert_frame_equal(more.query("epsilon != 2").reset_index(drop=True), first)


def test_what_is_read_is_not_charged_again(tmp_path):
    spent = []
    for epsilon in (100, 50):
        ledger = PrivacyLedger(epsilon=epsilon)
        encoder = RandomizedResponseEncoder(categories={"group": ["a", "b"], "kind": ["u", "v", "w"]}, ledger=ledger)
        for _ in range(2):
            curve(pipeline(encoder), cache=tmp_path)
            spent.append(ledger.spent.epsilon)
    assert spent == pytest.approx([18, 18, 0, 0])


def shuffled(y):
    return np.roll(y, 1)


OTHERS = {
    "rows": {"data": (table()[0].assign(number=shuffled(table()[0]["number"])), table()[1])},
    "target": {"data": (table()[0], shuffled(table()[1]))},
    "groups": {"sensitive_features": shuffled(table()[0]["group"].to_numpy())},
    "seed": {"random_state": 1},
    "secure randomness": {"random_state": None},
    "scoring": {"scoring": {"right": make_scorer(accuracy_score, normalize=False)}},
    "folds": {"cv": 3},
    "splits": {"cv": StratifiedKFold(2)},
    "parameter": {"estimator": pipeline(classifier=CountingClassifier()).set_params(classifier__C=0.1)},
    "step": {"estimator": pipeline(classifier=CountingClassifier()).set_params(columns__numbers="drop")},
    "rows to predict": {"privatize": "fit"},
}


def test_another_configuration_reads_no_cell(tmp_path):
    same = {
        "estimator": pipeline(classifier=CountingClassifier()),
        "cache": tmp_path,
        "sensitive_features": "group",
        "scoring": {"right": "accuracy"},
        "baseline": None,
        "epsilons": [1.0],
        "cv": 2,
    }
    curve(**same)
    for other, changed in OTHERS.items():
        fits.clear()
        curve(**same | changed)
        assert len(fits) == (3 if other == "folds" else 2), other


def test_functions_are_told_apart_by_what_they_do():
    def maker(share):
        return lambda estimator, X, y: share

    assert digest(maker(1)) == digest(maker(1)) != digest(maker(2))
    assert digest(lambda x: x + 1) != digest(lambda x: x + 2)
    assert digest(partial(accuracy_score, normalize=True)) != digest(partial(accuracy_score, normalize=False))
    assert digest(lambda x: x in {"a", "b"}) == digest(lambda x: x in {"a", "b"})


LEVEL = 1
LEVELS = {"array": np.arange(3), "list": [1, 2]}


def helper():
    return float(LEVEL)


def reads_a_global(estimator, X, y):
    return float(LEVEL)


def reads_by_a_helper(estimator, X, y):
    return helper()


def reads_inside(estimator, X, y):
    return max([LEVEL * one for one in (1, 2)], key=lambda one: -LEVEL * one)


def reads_a_table(estimator, X, y):
    return float(LEVELS["array"].sum())


def calls_itself(estimator, X, y):
    return float(calls_itself is not None) * LEVEL


SCORERS = [reads_a_global, reads_by_a_helper, reads_inside, calls_itself, partial(reads_a_global)]


@pytest.mark.parametrize("scorer", SCORERS)
def test_a_scorer_that_reads_a_global_is_computed_again_when_it_changes(tmp_path, monkeypatch, scorer):
    options = {"scoring": scorer, "cache": tmp_path, "epsilons": [4.0], "baseline": None, "cv": 2}
    first = curve(**options)
    pd.testing.assert_frame_equal(curve(**options), first)
    assert set(first["value"]) == {1.0}
    monkeypatch.setitem(globals(), "LEVEL", 2)
    assert set(curve(**options)["value"]) == {2.0}


def test_globals_count_by_their_values(monkeypatch):
    before = digest(reads_a_table)
    monkeypatch.setitem(globals(), "LEVELS", {"array": np.arange(3), "list": [1, 2]})
    assert digest(reads_a_table) == before
    LEVELS["array"][0] = 5
    assert digest(reads_a_table) != before
    monkeypatch.setitem(globals(), "LEVELS", (one for one in ()))
    with pytest.raises(TypeError, match=r"cache needs picklable objects: .* a global variable that a function reads"):
        digest(reads_a_table)


PROGRAM = """
from functools import partial
import numpy as np, pandas as pd, polars as pl
from fairlearn.metrics import MetricFrame, demographic_parity_difference, selection_rate
from sklearn.metrics import accuracy_score, get_scorer, get_scorer_names, make_scorer, recall_score
from sklearn.pipeline import make_pipeline
from skdp import RandomizedResponseEncoder
from skdp.evaluation.curves import _cells as _curve_cells
from skdp.evaluation.curves._cache import digest
X = pd.DataFrame({"group": ["a", "b", "a"], "number": [1.0, 2.0, np.nan]})
frames = X, X.astype("category"), X.astype(object), pl.DataFrame({"group": ["a", "b", "a"]})
model = make_pipeline(RandomizedResponseEncoder(categories={"group": ["a", "b"]}))
scoring = ["accuracy", partial(MetricFrame, metrics={"rate": selection_rate}), make_scorer(recall_score, pos_label=1)]
LEVELS = {"a": {"x", "y"}, "b": np.arange(3), "c": max, "d": np.log, "e": RandomizedResponseEncoder(2.0)}
def helper():
    return LEVELS, accuracy_score, np, print
def score(estimator, X, y):
    return helper(), [LEVELS for _ in X]
scoring += [score, accuracy_score, demographic_parity_difference, *map(get_scorer, get_scorer_names())]
print(digest(frames, model, scoring, lambda x: x in {"a", "b", "c"}))
"""


def test_the_order_of_a_set_does_not_count():
    one, other = {0, 8}, {8, 0}
    assert list(one) != list(other)  # the first of those that meet has the place
    assert digest(one) == digest(other)
    assert digest(frozenset(one)) == digest(frozenset(other))
    assert digest({"a": one}) == digest({"a": other}) != digest({"a": {0, 16}})


@pytest.mark.long
def test_another_process_gives_the_same_names(capsys):
    """Python hashes text by another seed in each process, and so orders sets."""
    exec(PROGRAM, {"__name__": "__main__"})
    here = capsys.readouterr().out
    environment = os.environ | {"PYTHONHASHSEED": "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"}
    there = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, env=environment)
    assert len(here) == 41
    assert there.stdout == here


@pytest.mark.long
def test_a_damaged_file_counts_as_none(tmp_path):
    model = pipeline(classifier=CountingClassifier())
    first = curve(model, cache=tmp_path)
    files = sorted(tmp_path.iterdir())
    assert len(files) == 6
    whole = files[0].read_bytes()
    for place, damage in enumerate((b"", whole[:-1], b"\0" * len(whole), b"null", files[-1].read_bytes())):
        files[place].write_bytes(damage)
    fits.clear()
    pd.testing.assert_frame_equal(curve(model, cache=tmp_path), first)
    assert len(fits) == 5
    assert all(json.loads(file.read_text())["key"] == file.stem for file in tmp_path.iterdir())


def test_what_is_not_written_whole_leaves_nothing(tmp_path):
    with pytest.raises(TypeError):
        CellStore(tmp_path).write("key", [("metric", object(), 1.0)])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("rows", [[("m", "all", math.nan)], [("m", ("a", 1), math.inf), ("m", None, 0.1 + 0.2)]])
def test_the_store_keeps_values_exactly(tmp_path, rows):
    store = CellStore(tmp_path)
    store.write("key", rows)
    assert str(store.read("key")) == str(rows)


class Odd(ClassifierMixin, BaseEstimator):
    pass


class NoEncoding(TransformerMixin, BaseEstimator):
    def __init__(self, epsilon=1.0):
        self.epsilon = epsilon

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return X


@each(
    "parameters error message",
    [
        ({"param_name": "epsilon"}, ValueError, "param_name 'epsilon' is not a parameter of Pipeline"),
        (
            {"param_name": "classifier__C"},
            ValueError,
            "param_name must be the nested name of an epsilon, got 'classifier__C'",
        ),
        ({"estimator": LogisticRegression}, TypeError, "estimator must be .*, got the class LogisticRegression, not"),
        ({"estimator": 3}, TypeError, "estimator must be an estimator, got int"),
        ({"param_name": 1}, TypeError, "param_name must be a str, got int"),
        ({"epsilons": []}, ValueError, "epsilons must hold at least one"),
        ({"epsilons": [1, 1.0]}, ValueError, "epsilons must all be different"),
        ({"epsilons": [0.0]}, ValueError, "each of epsilons must be a finite number > 0, got 0.0"),
        ({"epsilons": [math.inf]}, ValueError, "each of epsilons must be a finite number"),
        ({"epsilons": 1.0}, TypeError, "epsilons must be a list of numbers, got float"),
        ({"n_repeats": 0}, ValueError, "n_repeats must be at least 1"),
        ({"n_repeats": 1.0}, TypeError, "n_repeats must be an int"),
        ({"random_state": -1}, ValueError, "random_state"),
        ({"privatize": "never"}, ValueError, "privatize must be 'always' or 'fit', got 'never'"),
        ({"baseline": "none"}, ValueError, "baseline must be 'auto', an estimator or None, got 'none'"),
        ({"baseline": 3}, TypeError, "baseline must be 'auto', an estimator or None, got int"),
        ({"baseline": LogisticRegression}, TypeError, "baseline must be 'auto', an estimator or None"),
        ({"scoring": []}, ValueError, "scoring must hold at least one metric"),
        ({"scoring": 3}, TypeError, "scoring must be a name, a callable, a list or tuple of these, or a dict, got int"),
        ({"scoring": [3]}, TypeError, "scoring must hold names and callables|scoring must name"),
        ({"scoring": {1: "accuracy"}}, TypeError, "scoring must name each metric by a str"),
        ({"scoring": ["accuracy", "accuracy"]}, ValueError, "scoring has two metrics of one name"),
        ({"scoring": "acuracy"}, ValueError, "acuracy"),
        ({"scoring": lambda estimator, X, y: "high"}, TypeError, "scoring '<lambda>' must return a number, got str"),
        ({"scoring": "theil_index"}, ValueError, "scoring 'theil_index' needs privileged="),
        (
            {"scoring": "theil_index", "privileged": "a", "positive_label": "yes"},
            ValueError,
            "scoring by group needs sensitive_features=",
        ),
        ({"sensitive_features": "sex"}, ValueError, "sensitive_features 'sex' is not a column of X"),
        ({"sensitive_features": ["a"]}, ValueError, r"must name columns of X, or have 240 rows, got \(1,\)"),
        ({"sensitive_features": ["group", "sex"]}, ValueError, r"must name columns of X, or have 240 rows, got \(2,\)"),
        ({"sensitive_features": table(239)[0]}, ValueError, r"must name columns of X, or have 240 rows, got \(239,\)"),
        ({"sensitive_features": ["all"] * 240}, ValueError, "which stands for all rows in the result; rename it"),
        ({"data": (table()[0], table(239)[1])}, ValueError, "inconsistent numbers of samples"),
        ({"cache": 3}, TypeError, "cache must be a path, got int"),
        ({"cache": __file__}, ValueError, "cache must be a folder, got a file"),
        (
            {
                "estimator": pipeline(OnFitOnly(RandomizedResponseEncoder())),
                "param_name": f"{ENCODER}__transformer__epsilon",
            },
            ValueError,
            "privatize='always' contradicts the OnFitOnly",
        ),
        ({"estimator": pipeline(NoEncoding()), "privatize": "fit"}, ValueError, "which NoEncoding does not have"),
    ],
)
def test_wrong_inputs_are_named_before_anything_is_fitted(parameters, error, message):
    with pytest.raises(error, match=message):
        curve(**{"estimator": pipeline(counting())} | parameters)
    assert releases == []


def test_an_onfitonly_of_the_users_is_left_alone():
    inner = RandomizedResponseEncoder(categories={"group": ["a", "b"], "kind": ["u", "v", "w"]})
    result = curve(
        pipeline(OnFitOnly(inner)), param_name=f"{ENCODER}__transformer__epsilon", privatize="fit", epsilons=[50.0]
    )
    assert values(result, "accuracy", 50.0) == values(result, "accuracy", math.inf)
    assert result["epsilon"].tolist() == [math.inf] * 2 + [50.0] * 2


@pytest.mark.long  # as tests/privacy/test_ledger.py shows for searches
def test_a_ledger_in_memory_refuses_several_processes():
    encoder = RandomizedResponseEncoder(
        categories={"group": ["a", "b"], "kind": ["u", "v", "w"]}, ledger=PrivacyLedger(epsilon=100)
    )
    with pytest.raises(RuntimeError, match="a PrivacyLedger in memory belongs to one process"):
        curve(pipeline(encoder), n_jobs=2)


def test_a_progress_bar(capsys):
    pytest.importorskip("tqdm")
    curve(progress=True)
    assert "6/6" in capsys.readouterr().err


def test_frames_that_were_asked_for_come_through():
    X, y = table()
    encoder = RandomizedResponseEncoder(categories={"group": ["a", "b"], "kind": ["u", "v", "w"]})
    seen = []

    class Spy(LogisticRegression):
        def fit(self, X, y):
            seen.append(type(X))
            return super().fit(X, y)

    private = make_pipeline(encoder, OneHotEncoder(sparse_output=False)).set_output(transform="pandas")
    model = make_pipeline(private, Spy()).set_output(transform="pandas")
    curve(model, (X[["group", "kind"]], y), param_name="pipeline__randomizedresponseencoder__epsilon")
    assert set(seen) == {pd.DataFrame}


class TestWeights:
    def test_scores_are_weighted(self):
        weights = np.where(table()[0]["group"] == "a", 1.0, 0.0)
        scoring = ["accuracy", partial(MetricFrame, metrics=accuracy_score)]
        weighted = curve(
            baseline=None, epsilons=[4.0], scoring=scoring[0], sample_weight=weights, sensitive_features="group"
        )
        grouped = curve(baseline=None, epsilons=[4.0], scoring={"right": scoring[1]}, sensitive_features="group")
        assert values(weighted, "accuracy", 4.0) == pytest.approx(values(grouped, "right", 4.0, "a"))
        both = curve(
            baseline=None,
            epsilons=[4.0],
            scoring={"right": scoring[1]},
            sample_weight=weights,
            sensitive_features="kind",
        )
        assert values(both, "right", 4.0) == pytest.approx(values(weighted, "accuracy", 4.0))

    def test_params_reach_fit_row_by_row(self):
        weights = np.where(table()[1] == "yes", 1.0, 1e-9)
        result = curve(params={"classifier__sample_weight": weights}, scoring="recall_macro")
        assert set(result["value"]) == {0.5}  # all rows are predicted "yes"

    def test_what_takes_no_weights_is_refused(self):
        def right(estimator, X, y):
            return 1.0

        with pytest.raises(ValueError, match="scoring 'right' takes no weights"):
            curve(scoring=[right], sample_weight=np.ones(240))

    def test_metrics_of_fairness_are_weighted(self):
        given = {"baseline": None, "epsilons": [4.0], "scoring": "disparate_impact", "sensitive_features": "group"}
        given |= {"privileged": "a", "positive_label": "yes"}
        weights = np.random.default_rng(0).integers(1, 4, 240)
        plain, weighted, double = (curve(sample_weight=one, **given)["value"] for one in (None, weights, 2 * weights))
        assert not np.allclose(plain, weighted)
        np.testing.assert_allclose(weighted, double)

    @each("weights", [np.ones(3), -np.ones(240), np.zeros(240), np.full(240, np.nan)])
    def test_other_weights_are_refused(self, weights):
        with pytest.raises(ValueError, match="sample_weight must"):
            curve(sample_weight=weights)

    def test_params_are_a_mapping(self):
        with pytest.raises(TypeError, match="params must map names"):
            curve(params=[1])


def test_an_undefined_score_is_said_once():
    with pytest.warns(UndefinedMetricWarning, match=r"in 6 of 6 fits\)") as caught:
        curve(scoring={"precision": _with_never, "again": _with_never}, data=table())
    (warning,) = without_weak(caught)
    assert warning.filename == __file__


def _with_never(estimator, X, y):
    warnings.warn("Precision is ill-defined", UndefinedMetricWarning, stacklevel=2)
    return 0.0


@each(
    "metric, name",
    [
        (partial(MetricFrame, metrics=accuracy_score), "accuracy_score"),
        (partial(MetricFrame, metrics=partial(selection_rate, pos_label="yes")), "selection_rate(pos_label='yes')"),
        (partial(MetricFrame, metrics={"a": accuracy_score}), "MetricFrame"),
        (partial(partial(accuracy_score, normalize=False), sample_weight=np.ones(1)), None),
        (partial(accuracy_score), "accuracy_score"),
        (make_scorer(recall_score, pos_label="yes"), "recall_score(pos_label='yes')"),
        (make_scorer(roc_auc_score, greater_is_better=False), "neg_roc_auc_score"),
    ],
)
def test_partial_scorers_are_named_by_what_they_were_given(metric, name):
    found = _name_of(metric)
    assert found == (name or "accuracy_score(normalize=False, sample_weight=ndarray)")
