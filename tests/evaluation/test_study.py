from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from skdp import Domain, Interval
from skdp.evaluation import guessing_bound
from skdp.evaluation.report import _experiments
from skdp.evaluation.report._experiments import (
    DEBIASED,
    NAIVE,
    TRUE_GROUPS,
    attack_releases,
    fairness_audits,
    model_scores,
    synthesize,
)
from skdp.evaluation.report._study import Study

CLASSIFIERS = {"line": LogisticRegression(), "tree": DecisionTreeClassifier(max_depth=3, random_state=0)}
METRICS = [
    "accuracy",
    "AUC",
    "statistical parity difference",
    "disparate impact",
    "equal opportunity difference",
    "average odds difference",
    "Theil index",
]


@pytest.fixture(scope="module")
def people():
    """The label follows the protected group; the public columns say nothing of it, or a little."""
    rng = np.random.default_rng(0)
    group = rng.choice(["a", "b"], 1200)
    return pd.DataFrame(
        {
            "group": group,
            "number": rng.normal(size=1200) + 0.7 * (group == "a"),
            "kind": rng.choice(["u", "v"], 1200),
            "label": np.where(rng.random(1200) < np.where(group == "a", 0.85, 0.2), "yes", "no"),
        }
    )


def read(people, domain=None, **options):
    given = {"columns": ["group"], "target": "label", "positive_label": "yes", "sensitive": "group"}
    given |= {"privileged": "a", "epsilons": [0.001, 20.0], "random_state": 0, "n_jobs": None}
    return Study.read(people, domain or Domain({"group": ["a", "b"]}), **given | options)


def scores_of(study, advance=lambda: None):
    return model_scores(study, CLASSIFIERS, 2, advance)


@pytest.fixture(scope="module")
def scores(people):
    calls = []
    found = scores_of(read(people), lambda: calls.append(1))
    assert len(calls) == 2 * 3
    return found


class TestModelScores:
    def test_a_row_for_everything(self, scores):
        assert scores.columns.tolist() == ["classifier", "setting", "metric", "repeat", "value"]
        assert len(scores) == 2 * 2 * 4 * len(METRICS)
        assert set(scores["setting"]) == {"not private", "left out", 0.001, 20.0}
        assert scores["metric"].unique().tolist() == METRICS

    def test_epsilon_leads_from_leaving_the_column_out_to_using_it(self, scores):
        accuracy = scores.query("metric == 'accuracy'").groupby("setting")["value"].mean()
        assert accuracy[20.0] == pytest.approx(accuracy["not private"])
        assert accuracy["not private"] > 0.75
        assert accuracy[0.001] < 0.7
        assert accuracy["left out"] < 0.7

    def test_the_true_group_is_used_for_scoring(self, scores):
        """At a tiny epsilon predictions do not depend on the group, but for the number; with the truth they do."""
        parity = scores.query("metric == 'statistical parity difference'")
        means = parity.groupby("setting")["value"].mean()
        assert means["not private"] < -0.8
        assert means[0.001] > -0.5

    @pytest.mark.long  # a report with a seed is in `make test`
    def test_seeds(self, people):
        studies = [read(people[:200], epsilons=[1.0], random_state=seed) for seed in (0, 0, 1)]
        one, same, other = (model_scores(study, {"tree": CLASSIFIERS["tree"]}, 1, lambda: None) for study in studies)
        pd.testing.assert_frame_equal(one, same)
        assert not one["value"].equals(other["value"])

    @pytest.mark.long
    def test_processes(self, people, scores):
        pd.testing.assert_frame_equal(scores, scores_of(read(people, n_jobs=2)))


def test_audits_of_one_classifier(people):
    """Reports that are noise hide the difference; reports that are nearly true do not; the debiased ones hold it."""
    audits = fairness_audits(read(people, epsilons=[0.001, 3.0, 20.0]))

    def parity(epsilon, name, column="value"):
        return audits[epsilon][name].set_index("metric").loc["statistical parity difference", column]

    true = parity(20.0, TRUE_GROUPS)
    assert true == parity(0.001, TRUE_GROUPS)
    assert -0.6 < true < -0.2  # by the number; with the group itself it is nearly -1
    assert abs(parity(0.001, NAIVE)) < 0.12
    assert parity(20.0, NAIVE) == pytest.approx(true)
    assert parity(20.0, DEBIASED) == pytest.approx(true, abs=1e-6)
    width = parity(3.0, DEBIASED, "upper") - parity(3.0, DEBIASED, "lower")
    assert abs(parity(3.0, DEBIASED) - true) < width  # 3.9 standard errors
    assert parity(0.001, DEBIASED, "upper") - parity(0.001, DEBIASED, "lower") > 1  # of at most 2
    again = fairness_audits(read(people, epsilons=[20.0], random_state=1))
    assert again[20.0][TRUE_GROUPS].equals(audits[20.0][TRUE_GROUPS])  # no coin of a report is in what is predicted


@pytest.mark.usefixtures("few_trees")
def test_attacks_see_reports_and_no_truth(people):
    results = attack_releases(read(people), lambda: None)
    assert results[0.001].accuracy < 0.85
    assert results[20.0].accuracy > 0.99
    assert results[0.001].carriers.loc["group", "is_report"]
    assert results[0.001].bayes_bound == pytest.approx(results[0.001].baseline, abs=1e-3)


@pytest.mark.usefixtures("few_trees")
def test_the_bound_of_an_attack_is_what_the_best_guess_gets_right(people):
    """Of one column of several that are reported together: less than any protocol of this epsilon might give away."""
    frame = people.assign(other=np.arange(len(people)) % 3)
    study = Study.read(
        frame,
        Domain({"group": ["a", "b"], "other": [0, 1, 2]}),
        columns=["group", "other"],
        target=None,
        positive_label=None,
        sensitive=None,
        privileged=None,
        epsilons=[1.0],
        random_state=0,
        n_jobs=1,
    )
    (result,) = attack_releases(study, lambda: None).values()
    prior = (frame.groupby(["group", "other"]).size() / len(frame)).unstack().to_numpy()
    p = math.e / (math.e + 5)
    channel = np.where(np.eye(6, dtype=bool), p, (1 - p) / 5)
    exact = (prior.ravel()[:, np.newaxis] * channel).reshape(2, 3, 6).sum(axis=1).max(axis=0).sum()
    assert result.bayes_bound == pytest.approx(exact, rel=1e-6)
    assert result.bound == "the exact value of the protocol"
    assert exact < guessing_bound(prior.sum(axis=1), 1.0) - 0.01


def test_synthetic_rows_are_scored_on_rows_that_were_not_synthesised(people):
    synthesis = synthesize(read(people, epsilons=[1.0, 20.0]), 1e-9, lambda: None)
    assert len(synthesis.real) == 900
    table = synthesis.curve.pivot(index="epsilon", columns="metric", values="value")
    assert table.loc[20.0, "mean error of 2-way marginals"] < 0.02
    assert table.loc[20.0, "accuracy, trained on synthetic rows"] == pytest.approx(
        table.loc[np.inf, "accuracy, trained on synthetic rows"], abs=0.1
    )


def test_bins_are_called_by_their_labels(people):
    people["age"] = [10, 50, None] * 400
    domain = Domain({"group": ["a", "b"], "age": Interval(edges=[0, 20, 60], missing=True)})
    study = read(people, domain, columns=["group", "age"])
    assert study.frame["age"].iloc[:2].tolist() == ["[0, 20)", "[20, 60]"]
    assert study.frame["age"].isna().tolist() == people["age"].isna().tolist()
    assert list(study.protected["age"].labels) == ["[0, 20)", "[20, 60]", None]
    assert study.encoder(20.0).transform(study.frame[study.columns]).shape == (1200, 2)
    assert people["age"].iloc[0] == 10


def test_text_is_coded_for_models_and_the_protected_columns_are_not(people):
    kind = people["kind"].where(np.arange(len(people)) % 5 > 0, None)
    people = people[["group", "number", "label"]].assign(kind=kind)
    study = read(people)
    assert study.features["group"].equals(people["group"])
    assert study.others == ["number", "kind"]
    assert study.features["kind"].unique().tolist() == [-1, 0, 1]
    assert study.coded(people.assign(kind="new"))["kind"].eq(-1).all()
    assert set(study.coded(people)["group"]) == {0, 1}


@pytest.mark.usefixtures("few_trees")
def test_what_is_guessed_without_reports_is_measured_once(people, monkeypatch):
    """And copied: its rows and folds are the same at each epsilon."""
    calls, attack = [], _experiments.attribute_inference

    def counted(*args, **options):
        calls.append(options.get("report"))
        return attack(*args, **options)

    monkeypatch.setattr(_experiments, "attribute_inference", counted)
    monkeypatch.setattr(_experiments, "_ATTACKED_ROWS", 300)
    results = attack_releases(read(people, epsilons=[0.5, 5.0]), lambda: None)
    assert calls == [None, []]
    one, other = results.values()
    assert one.accuracy_without_report == other.accuracy_without_report
    assert one.values["auc_without_report"].equals(other.values["auc_without_report"].reindex(one.values.index))
    assert one.carriers["is_report"].sum() == other.carriers["is_report"].sum() == 1
    assert other.bayes_bound > one.bayes_bound


def test_the_example_is_the_epsilon_nearest_to_one(people):
    assert read(people, epsilons=[0.1, 0.7, 2.0]).example == 0.7


def test_no_two_parts_share_their_randomness(people):
    study = read(people)
    assert len({study.seed(*key) for key in [(0,), (1,), (1, 0), (1, 1), (2, 0), (3, 0)]}) == 6
    assert read(people, random_state=None).seed(1) is None


def test_names_of_columns_must_be_text(people):
    with pytest.raises(TypeError, match=r"the names of the columns must be text, got \[5, \('a', 1\)\]"):
        read(people.rename(columns={"number": 5, "kind": ("a", 1)}))
