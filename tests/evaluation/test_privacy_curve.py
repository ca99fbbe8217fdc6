"""Privacy curves: every score is that of a loop written by hand, on one release that all scorers see."""

import json
import math
import os
import subprocess
import sys
import warnings
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from fairlearn.metrics import MetricFrame, demographic_parity_difference, selection_rate
from imblearn.pipeline import make_pipeline as make_imblearn_pipeline
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import VotingClassifier
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, make_scorer, recall_score, roc_auc_score
from sklearn.model_selection import GroupKFold, StratifiedKFold
from sklearn.naive_bayes import BernoulliNB
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skdp import (
    BudgetExceeded,
    DPMarginalSynthesizer,
    LocalHashingEncoder,
    OnFitOnly,
    PosteriorFeatures,
    PrivacyLedger,
    RandomizedResponseEncoder,
    RapporEncoder,
    SyntheticResampler,
    UnaryEncodingTransformer,
    WeakGuaranteeWarning,
)
from skdp.central import DPStandardScaler
from skdp.evaluation import privacy_curve
from skdp.metrics import fairness_report
from tests.conftest import each, without_weak

EPSILON = "columns__private__encoder__epsilon"
ENCODER = "columns__private__encoder"
DOMAIN = {"group": ["a", "b"], "kind": ["u", "v", "w"]}
fits = []  # the rows of each fit of a CountingClassifier, in this process
releases = []  # the rows of each call of CountingEncoder.transform


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
    """Raises in a fit, as if the process were killed."""

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
    encoder = encoder or RandomizedResponseEncoder(categories=DOMAIN)
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
    return CountingEncoder(categories=DOMAIN)


def posterior():
    bits = UnaryEncodingTransformer(categories=DOMAIN)
    return make_pipeline(PosteriorFeatures(bits), LogisticRegression()), "posteriorfeatures__encoder__epsilon"


def seeds_of(**parameters):
    """Read the seed of each cell: the random bits of a cell are those of its encoder."""
    found = []

    class Spy(RandomizedResponseEncoder):
        def fit(self, X, y=None):
            found.append(self.random_state)
            return super().fit(X, y)

    quick = pipeline(Spy(categories=DOMAIN), DummyClassifier())
    quick.set_params(columns__numbers="drop", columns__private__one_hot="passthrough")
    curve(quick, baseline=None, **parameters)
    return found


def halves(X, y):
    return StratifiedKFold(2, shuffle=True, random_state=0).split(X, y)


class TestScores:
    def test_they_are_those_of_a_loop_by_hand(self):
        X, y = table()
        result = curve(n_repeats=2, scoring=["accuracy", "roc_auc"], epsilons=[0.5])
        seeds = iter(seeds_of(n_repeats=2, epsilons=[0.5]))
        expected = []
        for epsilon, repeat in product((math.inf, 0.5), range(2)):
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

    def test_test_rows_are_true_under_privatize_fit(self):
        X, y = table()
        result = curve(privatize="fit", baseline=None, epsilons=[0.5])
        seeds = seeds_of(epsilons=[0.5])
        for (train, test), seed, value in zip(halves(X, y), seeds, result["value"], strict=True):
            model = pipeline().set_params(**{EPSILON: 0.5, f"{ENCODER}__random_state": seed})
            model.set_params(columns__private__encoder=OnFitOnly(model.get_params()[ENCODER]))
            assert value == model.fit(X.iloc[train], y[train]).score(X.iloc[test], y[test])
            noisy = pipeline().set_params(**{f"{ENCODER}__random_state": 0}).fit(X.iloc[train], y[train])
            assert value != noisy.score(X.iloc[test], y[test])

    def test_metrics_of_any_kind(self):
        def several(estimator, X, y):
            return {"one": 1, "two": estimator.score(X, y)}

        pos = make_scorer(recall_score, pos_label="yes")
        result = curve(scoring=("accuracy", pos, several, partial(accuracy_score_of, share=2)), epsilons=[1.0])
        names = ["accuracy", "recall_score", "one", "two", "accuracy_score_of"]
        assert result["metric"].unique().tolist() == names
        assert values(result, "two", 1.0) == values(result, "accuracy", 1.0)
        zero_one = (*table()[:1], (table()[1] == "yes").astype(int))
        by_group = [
            demographic_parity_difference,
            partial(MetricFrame, metrics=accuracy_score),
            partial(MetricFrame, metrics={"right": accuracy_score, "rate": selection_rate}),
            make_scorer(roc_auc_score, greater_is_better=False),
        ]
        result = curve(data=zero_one, scoring=by_group, sensitive_features="group", epsilons=[1.0], baseline=None)
        several = ["MetricFrame__right", "MetricFrame__rate"]
        names = ["demographic_parity_difference", "accuracy_score", *several, "neg_roc_auc_score"]
        assert result["metric"].unique().tolist() == names
        for group in ("all", "a", "b"):
            assert values(result, "accuracy_score", 1.0, group) == values(result, several[0], 1.0, group)

    def test_an_undefined_score_is_said_once(self):
        with pytest.warns(UndefinedMetricWarning, match=r"in 6 of 6 fits\)") as caught:
            curve(scoring={"precision": _with_never, "again": _with_never}, data=table())
        (warning,) = without_weak(caught)
        assert warning.filename == __file__

    @pytest.mark.parametrize("encoder", [RandomizedResponseEncoder, UnaryEncodingTransformer])
    def test_an_epsilon_that_nobody_chose_is_no_weak_guarantee(self, encoder):
        estimator = make_pipeline(
            encoder(categories=DOMAIN), OneHotEncoder(handle_unknown="ignore"), LogisticRegression()
        )
        X, y = table()
        name = f"{encoder.__name__.lower()}__epsilon"
        X = X[["group", "kind"]]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            privacy_curve(estimator, X, y, param_name=name, epsilons=[1.0], cv=2)
        with pytest.warns(WeakGuaranteeWarning, match="epsilon = 30 is above 10"):
            privacy_curve(estimator, X, y, param_name=name, epsilons=[30.0], cv=2)
        weak = clone(estimator).set_params(**{name: 30.0})
        with pytest.warns(WeakGuaranteeWarning, match="epsilon = 30 is above 10"):
            privacy_curve(estimator, X, y, param_name=name, epsilons=[1.0], cv=2, baseline=weak)

    def test_a_frame_of_any_kind(self):
        X, y = table()
        rate = {"rate": partial(MetricFrame, metrics=accuracy_score)}
        options = {"sensitive_features": "group", "scoring": rate, "epsilons": [0.5], "baseline": None}
        expected = curve(**options)
        for make, target in ((pl.DataFrame, pl.Series(y)), (pd.DataFrame, pd.Series(y, index=np.arange(480, 240, -1)))):
            pd.testing.assert_frame_equal(curve(data=(make(X.to_dict("list")), target), **options), expected)

    @pytest.mark.long
    def test_two_processes_give_what_one_gives(self, tmp_path):
        expected = curve(epsilons=[0.5])
        for _ in range(2):
            found = curve(n_jobs=2, epsilons=[0.5], path=tmp_path / "scores")
            pd.testing.assert_frame_equal(found, expected)
        encoder = RandomizedResponseEncoder(categories=DOMAIN, ledger=PrivacyLedger(epsilon=100))
        with pytest.raises(RuntimeError, match="a PrivacyLedger in memory belongs to one process"):
            curve(pipeline(encoder), n_jobs=2)

    def test_a_progress_bar(self, capsys):
        pytest.importorskip("tqdm")
        curve(progress=True)
        assert "6/6" in capsys.readouterr().err


def accuracy_score_of(estimator, X, y, share):
    return estimator.score(X, y) / share


def _with_never(estimator, X, y):
    warnings.warn("Precision is ill-defined", UndefinedMetricWarning, stacklevel=2)
    return 0.0


@pytest.mark.parametrize("wrap", ["vote", "posterior"])
def test_all_scorers_see_one_release_of_the_test_rows(wrap):
    """Labels and probabilities of one release agree; of two releases at a small epsilon they do not."""
    agreements = []

    def agreement(estimator, X, y):
        labels = np.asarray(estimator.classes_)[estimator.predict_proba(X).argmax(axis=1)]
        agreements.append(np.mean(labels == estimator.predict(X)))
        return agreements[-1]

    X, y = table()
    model, name = pipeline(counting()), EPSILON
    if wrap == "posterior":
        X = X[["group", "kind"]]
        model, name = posterior()
    model, name = VotingClassifier([("only", model)], voting="soft"), f"only__{name}"
    scoring = {"agreement": agreement, "right": "accuracy", "area": "roc_auc"}
    result = curve(model, (X, y), param_name=name, scoring=scoring, epsilons=[0.1], baseline=None)
    assert agreements == values(result, "agreement", 0.1) == [1.0] * 2
    if wrap == "posterior":
        with pytest.raises(ValueError, match="without noise, which PosteriorFeatures does not have"):
            curve(model, (X, y), param_name=name, privatize="fit")
    if wrap == "vote":
        assert releases == [120, 120] * 2
        # Without our care, each question draws again.
        fitted = clone(model).set_params(**{name: 0.1}).fit(X, y)
        assert not np.array_equal(fitted.predict_proba(X), fitted.predict_proba(X))


def test_a_given_baseline_releases_its_test_rows_once_too():
    curve(scoring=["accuracy", "f1_macro", "roc_auc"], epsilons=[1.0], baseline=pipeline(counting()))
    assert releases == [120, 120] * 2


def test_a_scorer_that_asks_for_other_rows_is_refused():
    def half(estimator, X, y):
        return np.mean(estimator.predict(X[::2]) == y[::2])

    with pytest.raises(ValueError, match="other rows would be another release"):
        curve(scoring=half)


class TestSeeds:
    def test_no_two_cells_share_one_and_added_cells_change_none(self):
        some = seeds_of(epsilons=[0.5, 4.0])
        assert len(set(some)) == len(some) == 4
        more = seeds_of(epsilons=[0.1, 0.5, 4.0], n_repeats=2)
        assert len(set(more)) == 12
        assert some == more[4:6] + more[8:10]
        assert not set(some) & set(seeds_of(epsilons=[0.5, 4.0], random_state=1))
        assert set(seeds_of(random_state=None)) == {None}

    def test_each_private_step_has_its_own_and_others_keep_theirs(self):
        seeds = []

        class SpyClassifier(DummyClassifier):
            def fit(self, X, y):
                assert self.random_state == 5
                return super().fit(X, y)

        class Spy(RandomizedResponseEncoder):
            def fit(self, X, y=None):
                seeds.append(self.random_state)
                return super().fit(X, y)

        one, two = (Spy(1.0, categories=[declared], random_state=7) for declared in DOMAIN.values())
        columns = make_column_transformer((one, ["group"]), (two, ["kind"]))
        model = make_pipeline(columns, SpyClassifier(random_state=5))
        curve(model, param_name="columntransformer__spy-1__epsilon", baseline=None)
        assert len(set(seeds)) == len(seeds) == 8
        seeds.clear()
        curve(model, param_name="columntransformer__spy-1__epsilon", baseline=None, random_state=None)
        assert set(seeds) == {None}


class TestSplits:
    def test_they_do_not_depend_on_the_randomness_and_given_ones_are_repeated(self):
        baselines = [curve(random_state=seed, epsilons=[0.5]).query("epsilon == inf") for seed in (None, 1)]
        pd.testing.assert_frame_equal(*baselines)
        X, y = table()
        result = curve(cv=iter(list(StratifiedKFold(2).split(X, y))), n_repeats=2, epsilons=[0.5])
        baseline = result.query("epsilon == inf")["value"].tolist()
        assert baseline[:2] == baseline[2:]
        private = result.query("epsilon == 0.5")["value"].tolist()
        assert private[:2] != private[2:]

    def test_groups_go_to_the_splitter(self):
        people = np.repeat(np.arange(60), 4)
        result = curve(cv=GroupKFold(3), groups=people, epsilons=[0.5], baseline=None)
        splits = list(GroupKFold(3).split(*table(), people))
        pd.testing.assert_frame_equal(result, curve(cv=splits, epsilons=[0.5], baseline=None))

    def test_groups_that_they_would_ignore_are_refused(self):
        with pytest.raises(ValueError, match=r"such as GroupKFold\(5\).*got cv=(np.int64\()?3"):
            curve(pipeline(counting()), cv=np.int64(3), groups=np.arange(240) // 4)
        assert not releases


class TestGroups:
    def test_several_columns_make_groups_of_combinations(self):
        X, y = table()
        X.index = np.arange(1000, 1240)
        named = ["group", "kind"]
        scoring = {"right": partial(MetricFrame, metrics=accuracy_score), "parity": "statistical_parity_difference"}
        options = {"scoring": scoring, "epsilons": [1.0], "privileged": [("a", "u")], "positive_label": "yes"}
        result = curve(data=(X, y), sensitive_features=named, **options)
        groups = list(product("ab", "uvw"))
        assert result["group"].unique().tolist() == ["all", *groups]
        train, test = next(halves(X, y))
        predicted = pipeline().set_params(columns__private__encoder="passthrough").fit(X.iloc[train], y[train])
        labels, of_test = predicted.predict(X.iloc[test]), X[named].iloc[test]
        baseline = result[(result["epsilon"] == math.inf) & (result["fold"] == 0)].set_index("group")["value"]
        for group in groups:
            rows = (of_test == list(group)).all(axis=1).to_numpy()
            assert baseline[[group]].tolist() == [accuracy_score(y[test][rows], labels[rows])]
        report = fairness_report(y[test], labels, of_test, privileged=[("a", "u")], positive_label="yes")
        expected = report.set_index("metric")["value"]["statistical_parity_difference"]
        assert values(result, "parity", math.inf)[0] == expected

    def test_missing_values_are_a_group_that_fairlearn_does_not_leave_out(self):
        X, _ = table()
        people = np.where(np.arange(240) % 5 == 0, None, X["group"])
        rate = {"rate": partial(MetricFrame, metrics=accuracy_score)}
        found = curve(sensitive_features=people, scoring=rate, epsilons=[1.0])
        assert set(found["group"]) == {"all", "a", "b", "missing"}


class TestBaselines:
    def test_a_private_scaler(self):
        X, y = table()
        model = make_pipeline(DPStandardScaler(bounds=[(-4, 4)]), LogisticRegression())
        plain = make_pipeline(StandardScaler(), LogisticRegression())
        parameters = {"param_name": "dpstandardscaler__epsilon", "data": (X[["number"]], y)}
        given = curve(model, baseline=plain, **parameters)
        assert values(curve(model, **parameters), "accuracy", math.inf) == values(given, "accuracy", math.inf)
        assert len(curve(model, baseline=None, **parameters)) == 4
        # It privatises no row to predict.
        pd.testing.assert_frame_equal(given, curve(model, baseline=plain, privatize="fit", **parameters))

    @each("encoder", [LocalHashingEncoder])
    def test_a_random_encoding_has_one_that_charges_nothing(self, encoder):
        ledger = PrivacyLedger(epsilon=1.0)
        found = curve(pipeline(encoder(0.25, categories=DOMAIN, ledger=ledger)), epsilons=[0.25])
        assert np.isinf(found["epsilon"]).sum() == 2
        assert ledger.spent.epsilon == 4 * 0.25  # two fits and two sets of test rows

    def test_rappor_without_its_second_round_and_posterior_features(self):
        X, y = table()
        rappor = make_pipeline(RapporEncoder(n_bits=16, n_hashes=1, n_cohorts=1), BernoulliNB())
        features = PosteriorFeatures(RandomizedResponseEncoder(categories={"group": ["a", "b"]}))
        for model, name, plain in (
            (rappor, "rapporencoder__epsilon", make_pipeline(OneHotEncoder(sparse_output=False), BernoulliNB())),
            (
                make_pipeline(features, LogisticRegression(C=1e6)),
                "posteriorfeatures__encoder__epsilon",
                make_pipeline(OneHotEncoder(), LogisticRegression(C=1e6)),
            ),
        ):
            parameters = {"param_name": name, "data": (X[["group"]], y), "epsilons": [0.5]}
            expected = values(curve(model, baseline=plain, **parameters), "accuracy", math.inf)
            assert values(curve(model, **parameters), "accuracy", math.inf) == expected

    def test_synthetic_training_rows(self):
        X, y = table()
        domain = DOMAIN | {"target": ["no", "yes"]}
        synthesizer = DPMarginalSynthesizer(domain=domain, marginals="full")
        model = make_imblearn_pipeline(SyntheticResampler(synthesizer), OneHotEncoder(), LogisticRegression())
        name = "syntheticresampler__synthesizer__epsilon"
        parameters = {"param_name": name, "epsilons": [5.0], "data": (X[["group", "kind"]], y)}
        always, fit = (curve(model, privatize=mode, **parameters) for mode in ("always", "fit"))
        pd.testing.assert_frame_equal(always, fit)
        assert min(values(always, "accuracy", math.inf)) > 0.7

    def test_an_onfitonly_of_the_users_is_left_alone(self):
        inner = OnFitOnly(RandomizedResponseEncoder(categories=DOMAIN))
        name = f"{ENCODER}__transformer__epsilon"
        result = curve(pipeline(inner), param_name=name, privatize="fit", epsilons=[50.0])
        assert values(result, "accuracy", 50.0) == values(result, "accuracy", math.inf)
        assert result["epsilon"].tolist() == [math.inf] * 2 + [50.0] * 2


def test_each_release_is_charged_and_a_refusal_passes():
    for privatize, cost in (("always", 4), ("fit", 2)):
        ledger = PrivacyLedger(epsilon=100)
        curve(pipeline(RandomizedResponseEncoder(categories=DOMAIN, ledger=ledger)), privatize=privatize)
        assert ledger.spent.epsilon == pytest.approx(cost * 4.5)
    ledger = PrivacyLedger(epsilon=1)
    with pytest.raises(BudgetExceeded):
        curve(pipeline(RandomizedResponseEncoder(categories=DOMAIN, ledger=ledger)))
    assert ledger.spent.epsilon <= 1


def shuffled(y):
    return np.roll(y, 1)


CHANGED = {
    "rows": {"data": (table()[0].assign(number=shuffled(table()[0]["number"])), table()[1])},
    "groups": {"sensitive_features": shuffled(table()[0]["group"].to_numpy())},
    "weights": {"params": {"classifier__sample_weight": np.ones(240)}},
    "seed": {"random_state": 1},
    "secure randomness": {"random_state": None},
    "scoring": {"scoring": {"right": make_scorer(accuracy_score, normalize=False)}},
    "folds": {"cv": 3},
    "step": {"estimator": pipeline(classifier=CountingClassifier()).set_params(columns__numbers="drop")},
    "rows to predict": {"privatize": "fit"},
}

DAMAGED = b"a file of scores of which a line is no more what it was"
PROGRAM = """
import sys
from sklearn.metrics import accuracy_score
from functools import partial
from fairlearn.metrics import MetricFrame
from tests.evaluation.test_privacy_curve import curve, pipeline
scoring = {"right": "accuracy", "groups": partial(MetricFrame, metrics=accuracy_score)}
curve(random_state=None, scoring=scoring, sensitive_features=["group", "kind"], path=sys.argv[1]).to_pickle(sys.argv[2])
"""


class TestPath:
    """Of an interrupted study, what is finished is read from a file and not released again."""

    @pytest.mark.long
    def test_a_killed_run_goes_on_and_repeats_no_finished_fit(self, tmp_path, monkeypatch):
        path = tmp_path / "scores"
        model = pipeline(classifier=CountingClassifier())
        expected = curve(model)
        fits.clear()
        monkeypatch.setattr(CountingClassifier, "kill_at", 4)
        with pytest.raises(KeyboardInterrupt):
            curve(model, path=path)
        monkeypatch.undo()
        with path.open("ab") as file:
            file.write(path.read_bytes().splitlines()[-1][:-9])  # the process was killed while it wrote
        fits.clear()
        pd.testing.assert_frame_equal(curve(model, path=path), expected)
        assert len(fits) == 3
        pd.testing.assert_frame_equal(curve(model, path=path), expected)
        assert len(fits) == 3

    @pytest.mark.parametrize("seed", [0, None])
    def test_what_is_read_is_neither_drawn_nor_charged_again(self, tmp_path, seed):
        """Also without a seed: the file repeats the noise of the first run, and another file has its own."""
        spent, curves = [], []
        for name, budget in (("one", 100), ("one", 50), ("two", 100)):
            ledger = PrivacyLedger(epsilon=budget)  # another one, as in the process that goes on
            model = pipeline(RandomizedResponseEncoder(categories=DOMAIN, ledger=ledger))
            curves.append(curve(model, path=tmp_path / name, random_state=seed, scoring="roc_auc"))
            spent.append(ledger.spent.epsilon)
        scores, same, others = curves
        assert spent == pytest.approx([18, 0, 18])
        pd.testing.assert_frame_equal(scores, same)
        assert scores.equals(others) == (seed is not None)

    def test_epsilons_and_repeats_may_be_added(self, tmp_path):
        model, path = pipeline(classifier=CountingClassifier()), tmp_path / "scores"
        first = curve(model, path=path, epsilons=[0.5])
        fits.clear()
        more = curve(model, path=path, epsilons=[0.1, 0.5], n_repeats=2)
        assert len(fits) == 12 - 4
        pd.testing.assert_frame_equal(more.query("epsilon != 0.1 and repeat == 0").reset_index(drop=True), first)

    def test_the_file_has_scores_and_groups_and_no_rows(self, tmp_path):
        X, y = table()
        X["number"] = np.arange(240) + 0.73125
        rates = {"rate": partial(MetricFrame, metrics=accuracy_score)}
        found = curve(data=(X, y), path=tmp_path / "scores", sensitive_features="group", scoring=rates)
        study, *cells = map(json.loads, (tmp_path / "scores").read_text().splitlines())
        assert study.keys() == {"skdp.privacy_curve"}
        assert len(study["skdp.privacy_curve"]) == 32
        assert all(cell.keys() == {"epsilon", "repeat", "fold", "scores"} for cell in cells)
        assert [row for cell in cells for row in cell["scores"]] == found[
            ["metric", "group", "value"]
        ].to_numpy().tolist()
        assert [file.name for file in tmp_path.iterdir()] == ["scores"]

    def test_scores_and_groups_are_read_as_they_were_written(self, tmp_path):
        people = pd.DataFrame({"a": [1, 2, 3, 4] * 60, "b": ["x", None] * 120})
        options = {
            "sensitive_features": people,
            "scoring": {"n": never},
            "epsilons": [1.0],
            "path": tmp_path / "scores",
        }
        first, again = curve(**options), curve(**options)
        pd.testing.assert_frame_equal(first, again)
        assert repr(first["group"].tolist()) == repr(again["group"].tolist())
        assert first["value"].isna().any()

    @each("name", CHANGED)
    @pytest.mark.long
    def test_another_study_is_refused_before_anything_is_fitted(self, name, tmp_path_factory):
        path = tmp_path_factory.mktemp("study") / "scores"
        same = {
            "estimator": pipeline(classifier=CountingClassifier()),
            "path": path,
            "sensitive_features": "group",
            "scoring": {"right": "accuracy"},
            "baseline": None,
            "epsilons": [1.0],
        }
        curve(**same)
        before = path.read_bytes()
        fits.clear()
        with pytest.raises(ValueError, match="path has the scores of another study"):
            curve(**same | CHANGED[name])
        assert fits == []
        assert path.read_bytes() == before

    @each("content", [b"a,b\n1,2\n", b"no line", b"\xff\xfe\n", b"[]\n", b"null\n", b'{"a": 1}\n', DAMAGED])
    def test_another_file_is_refused_and_left_alone(self, content, tmp_path_factory):
        path = tmp_path_factory.mktemp("file") / "scores"
        if content == DAMAGED:
            curve(path=path)
            content = path.read_bytes().replace(b"0.", b'"x",0.', 1)
        path.write_bytes(content)
        with pytest.raises(ValueError, match="path is a file of something else"):
            curve(path=path)
        assert path.read_bytes() == content

    def test_a_lambda_is_refused_without_showing_the_data(self, tmp_path):
        """A lambda has no name to tell it from others, and joblib's own message shows all arguments."""
        secret = table()[0].assign(kind="hunter2")
        with pytest.raises(TypeError, match="path needs picklable objects") as caught:
            curve(data=(secret, table()[1]), scoring=lambda estimator, X, y: 1.0, path=tmp_path / "scores")
        assert "hunter2" not in str(caught.value)
        assert not list(tmp_path.iterdir())

    @pytest.mark.long
    def test_another_process_goes_on(self, tmp_path):
        """Python hashes text by another seed in each process, and so orders sets."""
        found = []
        for seed in ("1", "2"):
            words = [sys.executable, "-c", PROGRAM, str(tmp_path / "scores"), str(tmp_path / seed)]
            root = Path(__file__).parents[2]
            subprocess.run(words, check=True, cwd=root, env=os.environ | {"PYTHONHASHSEED": seed})
            found.append(pd.read_pickle(tmp_path / seed))
        pd.testing.assert_frame_equal(*found)


def _nothing(y_true, y_pred):
    return math.nan if len(y_true) % 2 else 0.1 + 0.2


never = partial(MetricFrame, metrics=_nothing)


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
        ({"estimator": LogisticRegression}, TypeError, "estimator must be .*, got the class LogisticRegression, not"),
        ({"param_name": 1}, TypeError, "param_name must be a str, got int"),
        ({"estimator": "pipeline"}, TypeError, "estimator must be"),
        ({"baseline": "none"}, ValueError, "baseline must be 'auto', an estimator or None, got 'none'"),
        ({"epsilons": [1, 1.0]}, ValueError, "epsilons must all be different"),
        ({"epsilons": 1.0}, TypeError, "epsilons must be a list of numbers, got float"),
        ({"epsilons": []}, ValueError, "epsilons must hold at least one number"),
        ({"params": [1]}, TypeError, "params must map names of parameters of fit to their values, got list"),
        ({"scoring": [3]}, TypeError, "scoring must hold names and callables, got int"),
        ({"scoring": {1: "accuracy"}}, TypeError, "scoring must name each metric by a str"),
        ({"scoring": 3}, TypeError, "scoring must be a name, a callable, a list or tuple of these, or a dict, got int"),
        ({"scoring": []}, ValueError, "scoring must hold at least one metric"),
        ({"scoring": "disparate_impact"}, ValueError, "scoring 'disparate_impact' needs privileged="),
        ({"scoring": never}, ValueError, "scoring by group needs sensitive_features="),
        ({"estimator": Pipeline(pipeline(counting()).steps[:1])}, ValueError, "scoring=None is for classifiers and re"),
        ({"sensitive_features": "absent"}, ValueError, "sensitive_features 'absent' is not a column of X"),
        ({"sensitive_features": "group", "data": (np.zeros((9, 3)), [0] * 9)}, ValueError, "X is an array: give the v"),
        ({"sample_weight": np.ones(3)}, ValueError, r"sample_weight must have 240 entries, one a row"),
        ({"privatize": "never"}, ValueError, "privatize must be 'always' or 'fit', got 'never'"),
        ({"scoring": ["accuracy", "accuracy"]}, ValueError, "scoring has two metrics of one name"),
        ({"scoring": lambda estimator, X, y: "high"}, TypeError, "scoring '<lambda>' must return a number, got str"),
        ({"sensitive_features": table(239)[0]}, ValueError, r"must name columns of X, or have 240 rows, got 239"),
        ({"sensitive_features": ["all"] * 240}, ValueError, "which stands for all rows in the result; rename it"),
        ({"sample_weight": np.full(240, np.nan)}, ValueError, "sample_weight must hold finite numbers of at least 0"),
        (
            {"scoring": lambda estimator, X, y: 1.0, "sample_weight": np.ones(240)},
            ValueError,
            "scoring '<lambda>' takes no weights",
        ),
        ({"path": 3}, TypeError, "path must be a path, got int"),
        ({"path": Path(__file__).parent}, ValueError, "path must be a file, got a folder"),
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
def test_wrong_inputs_are_named_before_anything_is_released(parameters, error, message):
    with pytest.raises(error, match=message):
        curve(**{"estimator": pipeline(counting())} | parameters)
    assert releases == []


class TestWeights:
    def test_scores_are_weighted(self):
        weights = np.where(table()[0]["group"] == "a", 1.0, 0.0)
        by_group = {"right": partial(MetricFrame, metrics=accuracy_score)}
        options = {"baseline": None, "epsilons": [4.0]}
        weighted = values(curve(scoring="accuracy", sample_weight=weights, **options), "accuracy", 4.0)
        grouped = curve(scoring=by_group, sensitive_features="group", **options)
        assert weighted == pytest.approx(values(grouped, "right", 4.0, "a"))
        both = curve(scoring=by_group, sample_weight=weights, sensitive_features="kind", **options)
        assert values(both, "right", 4.0) == pytest.approx(weighted)
        options |= {"scoring": "disparate_impact", "sensitive_features": "group", "privileged": "a"}
        of_yes = [curve(sample_weight=given, positive_label="yes", **options) for given in (None, np.arange(240.0))]
        assert not np.allclose(*(result["value"] for result in of_yes))

    def test_params_reach_fit_row_by_row(self):
        weights = np.where(table()[1] == "yes", 1.0, 1e-9)
        result = curve(params={"classifier__sample_weight": weights}, scoring="recall_macro")
        assert set(result["value"]) == {0.5}  # all rows are predicted "yes"
