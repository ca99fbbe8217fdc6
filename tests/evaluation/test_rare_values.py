"""What an attack learns of each value: areas, lift and true positives, of the attack and of the best guess."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression, Perceptron
from sklearn.metrics import roc_auc_score, roc_curve
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeClassifier

from skdp import LocalHashingEncoder, RandomizedResponseEncoder, SubsetSelectionEncoder
from skdp.evaluation import LeakageDisplay, attribute_inference, bayes_accuracy
from skdp.evaluation.attacks._attacker import Outcome
from skdp.evaluation.attacks._bayes_bound import best_guess
from skdp.evaluation.attacks._ranking import area_interval, best_of_report, rank_measures, value_table
from skdp.oracles import HadamardResponse, LocalHashing, RandomizedResponse, SubsetSelection, UnaryEncoding
from skdp.randomness import SeededSource

N, PRIOR = 2_000, np.array([0.9, 0.07, 0.03])
ILLNESS = {"illness": ["none", "common", "rare"]}
TREE = DecisionTreeClassifier(max_depth=4, random_state=0)


@pytest.fixture(scope="module")
def attacked():
    rng = np.random.default_rng(0)
    truth = pd.DataFrame({"illness": rng.choice(ILLNESS["illness"], N, p=PRIOR)})
    encoder = RandomizedResponseEncoder(2.0, categories=ILLNESS, random_state=0)
    released = encoder.fit_transform(truth).assign(
        clue=(truth["illness"] == "rare") + rng.normal(0, 0.4, N), code=rng.integers(0, 9, N)
    )
    released["illness"] = released["illness"].map({value: place for place, value in enumerate(ILLNESS["illness"])})
    result = attribute_inference(released, None, truth, encoder=encoder, estimator=TREE, random_state=0)
    return truth["illness"], encoder, released, result


def test_measures_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    is_value = rng.random(5_000) < 0.1
    scores = np.round(rng.normal(is_value, 1.0), 1)
    auc, lift, *rates = rank_measures(scores, is_value.astype(float), (~is_value).astype(float))
    assert auc == pytest.approx(roc_auc_score(is_value, scores))
    wrong, found, _ = roc_curve(is_value, scores)
    assert rates == pytest.approx([np.interp(rate, wrong, found) for rate in (0.01, 0.001)])
    untied = scores + rng.uniform(0, 1e-3, 5_000)
    top = np.argsort(-untied)[:50]
    found = rank_measures(untied, is_value.astype(float), (~is_value).astype(float))[1]
    assert found == pytest.approx(is_value[top].mean() / is_value.mean())
    assert lift == pytest.approx(found, rel=0.25)


def test_scores_that_say_nothing_or_all():
    half = np.ones(100)
    assert rank_measures(np.zeros(100), half, 9 * half) == pytest.approx((0.5, 1.0, 0.01, 0.001))
    sure = np.repeat([0.0, 1.0], 50)
    assert rank_measures(sure, sure, 1 - sure) == pytest.approx((1.0, 2.0, 1.0, 1.0))
    assert np.isnan(rank_measures(sure, 0 * sure, sure)).all()


def test_each_value_has_its_measures(attacked):
    truth, _, _, result = attacked
    values = result.values
    assert values.index.tolist() == ["rare", "common", "none"]
    assert values.index.name == "value"
    assert values["share"].tolist() == pytest.approx(truth.value_counts(normalize=True)[::-1].tolist())
    # Nearly all are well, so that accuracy hides that the rare illness is found.
    assert result.accuracy < result.baseline + 0.03
    assert values.loc["rare", "auc"] > 0.85
    assert values.loc["rare", "lift"] > 10
    assert values.loc["rare", "auc_without_report"] > 0.8 > 0.65 > values.loc["common", "auc_without_report"]
    assert (values["tpr_at_1pct"] >= values["tpr_at_01pct"]).all()
    assert "rare" in result._repr_html_()


def test_an_interval_of_an_area_holds_it():
    """Of few rows, too, where DeLong's standard error is 0 if all are ranked alike; 3 standard errors of the share."""
    rng, held = np.random.default_rng(0), []
    for _ in range(300):
        low, high = area_interval(rng.normal(1.19, 1, 12), rng.normal(0, 1, 300))  # an area of .8
        held.append(low <= 0.8 <= high)
    assert 0.91 < np.mean(held) <= 0.99
    low, high = area_interval([2.0, 3.0, 4.0], [0.0, 1.0])
    assert low < 0.7
    assert high == 1
    assert area_interval([1.0], [1.0, 1.0])[0] < 0.2
    many = np.arange(4000.0)
    assert np.diff(area_interval(many, many)) < 0.03


def test_shares_of_a_value_have_wilsons_interval():
    truth, guesses = np.repeat([0, 1], [30, 70]), np.repeat([0, 1, 0, 1], [20, 10, 5, 65])
    table = value_table(truth, Outcome(guesses, None, np.zeros(0)))
    assert table.loc[0, ["precision", "recall"]].tolist() == [0.8, pytest.approx(2 / 3)]
    low, high = table.loc[0, ["precision_lower", "precision_upper"]]
    for end in (low, high):  # the ends are the shares that are 1.96 of their own standard errors away
        assert abs(end - 0.8) == pytest.approx(1.959964 * np.sqrt(end * (1 - end) / 25))
    assert table["auc_lower"].isna().all()
    never = value_table(truth, Outcome(np.ones(100, int), None, np.zeros(0)))
    assert never.loc[0, ["precision", "precision_lower"]].isna().all()
    scores = np.column_stack([truth == 0, truth == 1]).astype(float)
    lift = value_table(truth, Outcome(truth, scores, np.zeros(0))).loc[0, ["lift_lower", "lift", "lift_upper"]]
    assert lift.is_monotonic_increasing
    assert lift["lift"] == pytest.approx(1 / 0.3)


def test_guesses_of_each_value_are_counted(attacked):
    truth, encoder, released, _ = attacked
    model = make_pipeline(OneHotEncoder(), LogisticRegression())
    result = attribute_inference(released[["illness"]], None, truth, encoder=encoder, estimator=model, random_state=0)
    # The model learns that the most frequent value is the best guess of every report but that of another value.
    assert result.accuracy == pytest.approx(result.report_accuracy, abs=4 * result.std_error)
    assert result.values["auc"].to_numpy() == pytest.approx(result.values["auc_of_report"].to_numpy(), abs=0.08)
    perfect = attribute_inference(truth.to_frame(), None, truth, encoder=None, estimator=model, random_state=0).values
    assert (perfect[["precision", "recall", "auc", "tpr_at_01pct"]] == 1).all(axis=None)


def test_values_without_a_declaration_have_numbers(attacked):
    truth, _, released, _ = attacked
    result = attribute_inference(released, None, truth, report=["illness"], estimator=TREE, random_state=0)
    assert sorted(result.values.index) == [0, 1, 2]
    assert result.report_accuracy is None
    assert result.values["auc_of_report"].isna().all()
    silent = attribute_inference(released, None, truth, estimator=Perceptron(random_state=0), random_state=0)
    assert silent.values[["auc", "lift"]].isna().all(axis=None)
    assert silent.values["recall"].notna().all()


def test_progress_is_shown(attacked, capsys):
    truth, encoder, released, _ = attacked
    attribute_inference(
        released[:200], None, truth[:200], encoder=encoder, estimator=TREE, cv=2, random_state=0, progress=True
    )
    assert "4/4" in capsys.readouterr().err


@pytest.mark.parametrize(
    "oracle",
    [RandomizedResponse(3, 1.0), SubsetSelection(3, 1.0), UnaryEncoding(3, 1.0), HadamardResponse(3, 1.0)],
    ids=lambda oracle: type(oracle).__name__,
)
def test_the_best_guess_is_exact(oracle):
    accuracy, areas = best_of_report(oracle, PRIOR, 1.0, 0)
    assert accuracy == pytest.approx(bayes_accuracy(oracle, PRIOR))
    codes = np.repeat([0, 1, 2], 30_000).astype(np.uint8)
    weight = PRIOR[codes]
    supports = oracle.supports(oracle.report(codes, SeededSource(0)))
    weights = np.where(supports, float(oracle.support_ratio), 1.0) * PRIOR
    posterior = np.round(weights / weights.sum(axis=1, keepdims=True), 9)
    found = [roc_auc_score(codes == value, posterior[:, value], sample_weight=weight) for value in range(3)]
    assert areas == pytest.approx(found, abs=0.01)


def test_the_best_guess_of_hashed_reports_is_drawn():
    oracle = LocalHashing(3, 4.0)
    accuracy, areas = best_of_report(oracle, PRIOR, 1.0, 0)
    assert accuracy > PRIOR.max()
    again, _ = best_of_report(oracle, PRIOR, 1.0, 1)
    assert accuracy == pytest.approx(again, abs=0.01)
    assert (areas > 0.8).all()
    nothing, half = best_of_report(LocalHashing(3, 0.001), PRIOR, 1.0, 0)
    assert nothing == pytest.approx(PRIOR.max(), abs=0.01)
    assert half == pytest.approx(0.5, abs=0.01)


def test_what_is_seldom_reported_is_seldom_known():
    always, areas = best_of_report(RandomizedResponse(3, 4.0), PRIOR, 1.0, 0)
    half, fewer = best_of_report(RandomizedResponse(3, 4.0), PRIOR, 0.5, 0)
    assert half == pytest.approx((always + PRIOR.max()) / 2)
    assert (fewer < areas).all()


@pytest.mark.parametrize("kind", [SubsetSelectionEncoder, LocalHashingEncoder])
def test_declared_values_that_do_not_occur_are_left_out(kind):
    truth = pd.DataFrame({"illness": ["none"] * 150 + ["rare"] * 50})
    encoder = kind(2.0, categories=ILLNESS, random_state=0).fit(truth)
    codes = pd.factorize(truth["illness"])[0]
    accuracy, areas = best_guess(truth, codes, encoder, 0)
    assert accuracy >= 0.75
    assert len(areas) == 2
    assert np.isfinite(areas).all()


def test_a_part_of_a_joint_report_has_no_best_guess():
    truth = pd.DataFrame({"a": [0, 1] * 50, "b": [0, 1] * 50})
    encoder = RandomizedResponseEncoder(1.0, categories={"a": [0, 1], "b": [0, 1]}, strategy="joint").fit(truth)
    accuracy, areas = best_guess(truth[["a"]], truth["a"].to_numpy(), encoder, 0)
    assert accuracy is None
    assert np.isnan(areas).all()


def test_the_display_draws_values(attacked):
    pytest.importorskip("matplotlib")
    _, _, _, result = attacked
    display = LeakageDisplay.from_results({"release": result}, measure="auc")
    lines = {line.get_label(): line.get_xdata() for line in display.ax_.lines}
    assert set(lines["nothing is learned"]) == {0.5}
    for label, column in (
        ("attack with the report", "auc"),
        ("attack without the report", "auc_without_report"),
        ("best guess from the report alone", "auc_of_report"),
    ):
        assert lines[label].tolist() == result.values[column].tolist()
    rows = [label.get_text().split("  ")[0] for label in display.ax_.get_yticklabels()]
    assert rows == result.values.index.tolist()
    both = LeakageDisplay.from_results({1.0: result, 2.0: result}, measure="lift")
    assert [line.get_label() for line in both.ax_.lines] == ["nothing is learned", "epsilon 1", "epsilon 2"]
    assert display.plot().ax_.get_ylabel() == "protected values guessed right (share)"
    with pytest.raises(ValueError, match="measure must be one of"):
        display.plot(measure="f1")
    with pytest.raises(ValueError, match=r"measure must be one of \['accuracy'\], got 'auc'"):
        LeakageDisplay(display.data).plot(measure="auc")
