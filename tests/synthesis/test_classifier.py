"""Predictions of a column by a model: the exact conditional law, at no further cost."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone, is_classifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from skdp import (
    DPMarginalSynthesizer,
    Interval,
    MarginalClassifier,
    PrivacyLedger,
    privacy_statement,
)
from skdp.synthesis.model import GraphicalModel, JunctionTree, calibrate
from tests.conftest import each

DOMAIN = {"sex": ["F", "M"], "age": Interval(0, 100, bins=10, real=True), "ill": ["no", "some", "yes"]}
rng = np.random.default_rng(0)
N = 600
X = pd.DataFrame({"sex": rng.choice(["F", "M"], N), "age": rng.uniform(0, 100, N)})
ILL = np.where(X["age"] < 30, "no", np.where((X["sex"] == "F") | (X["age"] < 60), "some", "yes"))
Y = pd.Series(ILL, name="ill")


def synthesizer(epsilon=50.0, **options):
    return DPMarginalSynthesizer(epsilon, **{"domain": DOMAIN, "marginals": "full", "random_state": 0} | options)


def joint(model):
    return model.marginal(range(len(model.tree.sizes)))


@each("seed", range(4))
def test_the_law_is_that_of_the_whole_table(seed):
    """On random trees, for each column and all rows of the domain."""
    draw = np.random.default_rng(seed)
    sizes = tuple(draw.integers(2, 4, 5).tolist())
    cliques = [draw.choice(5, draw.integers(1, 4), replace=False).tolist() for _ in range(4)]
    tree = JunctionTree(sizes, [*cliques, *([column] for column in range(5))])
    potentials = [draw.normal(size=[sizes[column] for column in clique]) for clique in tree.cliques]
    model = GraphicalModel(tree, calibrate(tree, potentials))
    whole = joint(model)
    for column in range(5):
        others = [size for place, size in enumerate(sizes) if place != column]
        rows = np.array(list(itertools.product(*map(range, others)))).T
        law = np.moveaxis(whole, column, -1)[tuple(rows)]
        expected = law / law.sum(axis=1, keepdims=True)
        assert np.exp(model.log_law(column, rows)) == pytest.approx(expected)


def test_what_cannot_occur_is_not_predicted_and_impossible_rows_get_the_shares():
    zeros = [{"sex": "M", "ill": ["yes", "some"]}]
    fitted = synthesizer(structural_zeros=zeros).fit(X.assign(sex="F"), Y)
    model = fitted.classifier("ill")
    assert model.predict_proba(X[X["sex"] == "M"]) == pytest.approx(np.eye(3)[[0] * (X["sex"] == "M").sum()])
    whole = fitted.model_
    whole.beliefs[0][:] = 0
    whole.beliefs[0].flat[:3] = [0.5, 0.25, 0.25]  # only women of the first bin
    shares = whole.marginal([2])
    assert model.predict_proba(X[X["sex"] == "M"]) == pytest.approx(np.tile(shares, ((X["sex"] == "M").sum(), 1)))


@pytest.fixture(scope="module")
def model():
    return MarginalClassifier(synthesizer()).fit(X, Y)


class TestClassifier:
    def test_it_predicts(self, model):
        assert is_classifier(model)
        assert model.score(X, Y) > 0.95
        assert model.classes_.tolist() == ["no", "some", "yes"]
        assert model.predict_proba(X).sum(axis=1) == pytest.approx(1)
        assert roc_auc_score(Y, model.predict_proba(X), multi_class="ovr") > 0.95

    def test_the_target_is_kept_better_unless_another_is_named(self, model):
        assert model.synthesizer_.target is None  # as it measures the whole table
        auto = synthesizer(marginals="auto")
        assert MarginalClassifier(auto).fit(X, Y).synthesizer_.target == "ill"
        assert MarginalClassifier(clone(auto).set_params(target="sex")).fit(X, Y).synthesizer_.target == "sex"
        assert model.synthesizer.target is None

    def test_policies(self, model):
        with pytest.raises(ValueError, match="'age'"):
            model.predict(X.assign(age=-1.0))
        clipping = MarginalClassifier(synthesizer(handle_unknown="clip")).fit(X, Y)
        assert set(clipping.predict(X.assign(age=-1.0))) == {"no"}

    def test_classes_are_sorted_whatever_is_declared_first(self):
        domain = DOMAIN | {"ill": ["yes", "no", "some"]}
        model = MarginalClassifier(synthesizer(domain=domain)).fit(X, Y)
        assert model.classes_.tolist() == ["no", "some", "yes"]
        assert model.score(X, Y) > 0.95


class TestPromises:
    def test_the_statement_and_the_cost(self):
        model = MarginalClassifier(synthesizer(2.0)).fit(X, Y)
        assert model.guarantee_ == model.synthesizer_.guarantee_
        said = privacy_statement(model)
        assert said.total.epsilon == 2
        assert said.total.scope == ("sex", "age", "ill")
        assert set(said.rows["protection"].str.partition(" (")[0]) == {"statistics only"}
        assert privacy_statement(MarginalClassifier(synthesizer(2.0))).total.epsilon == 2

    def test_the_guarantee_is_that_of_what_predicts(self):
        model = MarginalClassifier(synthesizer(2.0)).fit(X, Y)
        model.synthesizer = synthesizer(0.01).fit(X.assign(ill=Y)[list(DOMAIN)])
        assert (model.guarantee_.epsilon, privacy_statement(model).total.epsilon) == (2, 2)


class TestErrors:
    @each(
        "target, why",
        [
            ("age", "'age' is an Interval"),
            ("size", "no column 'size'"),
            ("one", "at least 2 classes"),
            ("gap", "must not declare a missing value"),
        ],
    )
    def test_columns_that_cannot_be_predicted(self, target, why):
        domain = DOMAIN | {"one": ["a"], "gap": ["a", None]}
        fitted = synthesizer(domain=domain).fit(X.assign(ill=Y, one="a", gap="a")[list(domain)])
        with pytest.raises(ValueError, match=why):
            fitted.classifier(target)

    @each("given", [LogisticRegression(), LogisticRegression, 3])
    def test_what_is_no_synthesizer(self, given):
        with pytest.raises(TypeError, match=r"synthesizer must be a DPMarginalSynthesizer, got (the class )?(Log|int)"):
            MarginalClassifier(given).fit(X, Y)
        with pytest.raises(ValueError, match="requires y to be passed"):
            MarginalClassifier(synthesizer()).fit(X, None)

    def test_a_target_of_bins_is_refused_before_it_costs(self):
        domain = {name: DOMAIN[name] for name in ("sex", "age")} | {"target": Interval(0, 100, bins=2, real=True)}
        ledger = PrivacyLedger(epsilon=100)
        with pytest.raises(ValueError, match="'target' is an Interval"):
            MarginalClassifier(synthesizer(domain=domain, ledger=ledger)).fit(X, X["age"].to_numpy())
        assert ledger.spent[0] == 0

    @pytest.mark.parametrize(
        ("domain", "why"),
        [
            ({}, "nothing for the columns"),
            ({"ill": Interval(0, 9, bins=3)}, "Interval"),
            ({"ill": ["no"]}, "2 c"),
        ],
    )
    def test_classes_are_declared_where_other_values_are_discovered(self, domain, why):
        ledger = PrivacyLedger(epsilon=100, delta=0.1)
        options = {"discover": 0.2, "delta": 1e-6, "ledger": ledger, "marginals": "auto"}
        with pytest.raises(ValueError, match=why):
            MarginalClassifier(synthesizer(**options, domain=domain)).fit(X, Y)
        assert ledger.spent == (0, 0)
        declared = {name: DOMAIN[name] for name in ("age", "ill")}
        model = MarginalClassifier(synthesizer(**options, domain=declared)).fit(X, Y)
        assert model.classes_.tolist() == ["no", "some", "yes"]
