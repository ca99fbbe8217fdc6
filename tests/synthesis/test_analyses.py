"""Planned analyses: their marginals are measured in any case, and a model without room for them loses nothing."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression

import skdp
from skdp import DPMarginalSynthesizer, Interval, PrivacyLedger
from skdp.synthesis import synthetic_inference
from tests.conftest import each

FEATURES = list("abcdef")
DOMAIN = dict.fromkeys(FEATURES, range(3)) | {"group": ["x", "y", "z"], "y": range(6), "yes": ["no", "yes"]}
COLUMNS = list(DOMAIN)


def people(n=4000, seed=0):
    """Every column depends on a common one, so that all pairs matter."""
    rng = np.random.default_rng(seed)
    common = rng.random(n)
    table = {}
    for name in FEATURES:
        table[name] = rng.binomial(2, 0.2 + 0.6 * common)
    table["group"] = np.array(["x", "y", "z"])[rng.binomial(2, 0.7 - 0.5 * common)]
    table["y"] = np.clip(table["a"] + (table["group"] == "y") + rng.integers(-1, 3, n), 0, 5)
    table["yes"] = np.where(rng.random(n) < common, "yes", "no")
    return pd.DataFrame(table)


TABLE = people()


def fitted(epsilon=1e6, table=TABLE, names=None, **parameters):
    names = COLUMNS if names is None else names
    domain = {name: DOMAIN[name] for name in names}
    parameters = {"random_state": 0} | parameters
    return DPMarginalSynthesizer(epsilon, domain=domain, **parameters).fit(table[names])


def measured(synthesizer):
    return {frozenset(clique) for clique in synthesizer.selected_cliques_}


@pytest.mark.parametrize("marginals", ["auto", "independent", [("c", "yes")]])
@pytest.mark.parametrize("epsilon", [0.001, 1.0])
def test_pairs_of_a_linear_regression_are_measured_in_any_case(marginals, epsilon):
    synthesizer = fitted(epsilon, names=["a", "b", "c", "y", "yes"], marginals=marginals, analyses=["y ~ a + b"])
    assert {frozenset(pair) for pair in itertools.combinations("aby", 2)} <= measured(synthesizer)


def test_a_regression_of_two_values_needs_its_features_together():
    synthesizer = fitted(0.01, names=["a", "b", "c", "yes"], marginals="independent", analyses=["yes ~ a + b + c"])
    together = {frozenset(clique) for clique in measured(synthesizer) if len(clique) > 1}
    assert together == {frozenset("abc"), frozenset({"a", "yes"}), frozenset({"b", "yes"}), frozenset({"c", "yes"})}


def test_names_with_spaces_stand_between_backticks_or_without():
    table = TABLE[["a", "yes"]].assign(**{"y + more": TABLE["y"], "of group": TABLE["b"]})
    domain = {"a": range(3), "yes": ["no", "yes"], "y + more": range(6), "of group": range(3)}
    parameters = {"domain": domain, "marginals": "independent", "max_iter": 5, "random_state": 0}
    expected = {frozenset(pair) for pair in itertools.combinations(["a", "y + more", "of group"], 2)}
    for formula in ("`y + more` ~ a + `of group`", "`y + more` ~ `a` + of group"):
        synthesizer = DPMarginalSynthesizer(1.0, analyses=[formula], **parameters).fit(table)
        assert {clique for clique in measured(synthesizer) if len(clique) > 1} == expected


def test_a_function_regresses_rows_whose_numbers_are_there():
    wage = (TABLE["y"] + 1.0).where(TABLE.index % 3 > 0)
    table = TABLE[["a"]].assign(wage=wage)
    domain = {"a": range(3), "wage": [*range(1, 7), None]}
    synthesizer = DPMarginalSynthesizer(1e6, domain=domain, analyses=[["a", "wage"]], random_state=0).fit(table)

    def slope(rows):
        rows = rows.dropna()
        return LinearRegression().fit(rows[["a"]], rows["wage"]).coef_[0]

    terms = synthetic_inference(synthesizer, slope, columns=["a", "wage"]).iloc[0]
    assert terms["supported"]
    assert terms["estimate"] == pytest.approx(slope(table), abs=1e-3)


def test_a_list_of_columns_is_measured_together_and_holds_what_is_within():
    synthesizer = fitted(0.01, names=["a", "b", "y"], marginals="independent", analyses=[["y", "a", "b"], "y ~ a"])
    assert [clique for clique in synthesizer.selected_cliques_ if len(clique) > 1] == [("a", "b", "y")]
    full = fitted(0.01, names=["a", "b", "y"], marginals="full", analyses=["y ~ a"])
    assert full.selected_cliques_ == [("a", "b", "y")]


def test_rare_values_of_an_analysis_are_counted_alone():
    table = TABLE.assign(a=np.where(np.arange(len(TABLE)) < 5, 2, np.minimum(TABLE["a"], 1)))
    names = ["a", "b", "y"]
    synthesizer = fitted(1.0, table, names, delta=1e-6, analyses=["y ~ a + b"])
    for marginal in synthesizer.marginals_:
        assert marginal.groups is None


class TestWithoutRoom:
    """All pairs of eight columns are measured, of which a model of small cliques holds some."""

    analysis = f"y ~ {' + '.join([*FEATURES, 'group'])}"

    def synthesizer(self, epsilon=1e6, table=TABLE, **parameters):
        return fitted(epsilon, table, COLUMNS[:-1], analyses=[self.analysis], max_cells=20, **parameters)

    def without_room(self, synthesizer):
        tree = synthesizer.model_.tree
        return [marginal for marginal in synthesizer.marginals_ if tree.holder(marginal.clique) is None]

    def test_a_linear_regression_is_that_of_the_table(self):
        synthesizer = self.synthesizer()
        assert self.without_room(synthesizer)
        terms = synthetic_inference(synthesizer, LinearRegression(), columns=[*FEATURES, "group"], target="y")
        design = pd.get_dummies(TABLE[[*FEATURES, "group"]], prefix_sep="=", dtype=float)[list(terms["term"][1:])]
        true = LinearRegression().fit(design, TABLE["y"])
        assert terms["supported"].all()
        np.testing.assert_allclose(terms["estimate"], [true.intercept_, *true.coef_], atol=2e-3)
        X = np.column_stack([np.ones(len(TABLE)), design])
        residuals = (TABLE["y"] - true.predict(design)).to_numpy()
        inverse = np.linalg.inv(X.T @ X)
        robust = np.sqrt(np.diag(inverse @ (X.T * residuals**2) @ X @ inverse))
        np.testing.assert_allclose(terms["std_error"], robust, rtol=0.05)

    @pytest.mark.long
    def test_tables_are_drawn_and_files_are_read(self, tmp_path):
        synthesizer = self.synthesizer(3.0)
        assert len(synthesizer.sample(10, n_tables=2)) == 2
        skdp.save(synthesizer, tmp_path / "fitted.json")
        again = skdp.load(tmp_path / "fitted.json")
        assert again.analyses == [self.analysis]
        options = {"columns": [*FEATURES, "group"], "target": "y"}
        expected = synthetic_inference(synthesizer, LinearRegression(), **options)
        pd.testing.assert_frame_equal(synthetic_inference(again, LinearRegression(), **options), expected)

    @each("epsilon_for", [None, {"a": 0.02}])
    def test_pairs_without_a_score_are_no_error(self, epsilon_for):
        """Where scores of these pairs are too noisy, only those with a column of two values are asked for."""
        pairs = list(itertools.combinations(COLUMNS[:-1], 2))
        synthesizer = fitted(0.03, analyses=pairs, max_cells=20, delta=1e-6, max_iter=5, epsilon_for=epsilon_for)
        assert {frozenset(pair) for pair in pairs} <= measured(synthesizer)
        assert len(synthesizer.pair_scores_) < len(pairs)

    def test_models_with_noise_again_have_no_more_room(self):
        """All pairs of 14 columns of 8 values in one model would have 8**14 cells."""
        names = list("abcdefghijklmn")
        table = pd.DataFrame(np.random.default_rng(0).integers(0, 8, (500, 14)), columns=names)
        synthesizer = DPMarginalSynthesizer(
            1.0,
            domain=dict.fromkeys(names, range(8)),
            analyses=[f"a ~ {' + '.join(names[1:])}"],
            max_cells=100,
            max_iter=5,
            random_state=0,
        )
        (rows,) = synthesizer.fit(table).sample(10, n_tables=1)
        assert rows.shape == (10, 14)

    @pytest.mark.long
    def test_intervals_hold_the_coefficients(self):
        """Of 20 tables with 8 coefficients each, at a rate of .95: 130 of 160 is below by chance in one of 10^6."""
        population = people(400_000, seed=9)
        names = [*FEATURES, "group"]
        covered = []
        for seed in range(20):
            table = population.sample(20_000, random_state=seed, ignore_index=True)
            synthesizer = self.synthesizer(1.0, table, delta=1e-6, random_state=seed)
            terms = synthetic_inference(synthesizer, LinearRegression(), columns=names, target="y").set_index("term")
            design = pd.DataFrame({term: population[term] for term in FEATURES})
            for term in terms.index[len(FEATURES) + 1 :]:
                design[term] = population["group"] == term.partition("=")[2]
            true = LinearRegression().fit(design.astype(float), population["y"]).coef_
            terms = terms.drop(index="intercept")
            assert terms["supported"].mean() >= 0.95
            covered += list((terms["lower"] <= true) & (true <= terms["upper"]))
        assert np.mean(covered) > 130 / 160


class TestRefused:
    @each(
        "analyses error message",
        [
            ("y ~ a", TypeError, "must be a list of formulas"),
            ([3], TypeError, "3 is neither"),
            ([], ValueError, "at least one formula"),
            (["y"], ValueError, "no formula like"),
            (["y ~ a +"], ValueError, "no formula like"),
            (["y ~ nobody"], ValueError, "there is no column 'nobody'"),
            (["y ~ a + y"], ValueError, "names a column twice"),
            (["y ~ a:b"], ValueError, "no column 'a:b' in 'y ~ a:b'. A formula has plain sums of columns"),
            (["y ~ a - 1"], ValueError, "plain sums of columns"),
            (["y ~ `a + b`"], ValueError, "no column 'a [+] b'"),
            ([["a", "bee"]], ValueError, "analyses: there is no column 'bee'"),
            ([["a", "a"]], ValueError, "analyses: columns must name at least one column, each once"),
            (["group ~ a"], ValueError, "must be a column of numbers, or of two values"),
            ([["a", "b", "c", "d", "e", "f", "group", "y"]], ValueError, "13,122 cells"),
        ],
    )
    def test_before_any_charge(self, analyses, error, message):
        ledger = PrivacyLedger(epsilon=9.0)
        with pytest.raises(error, match=message):
            fitted(1.0, names=COLUMNS[:-1], analyses=analyses, max_cells=10_000, ledger=ledger)
        assert ledger.spent.epsilon == 0

    @each("formula", ["wage ~ a", "yes ~ a + wage", "yes ~ code", "maybe ~ a"])
    def test_regressions_on_what_may_be_missing(self, formula):
        table = TABLE.head(9).assign(wage=5.0, code=1, maybe="x")
        domain = {
            "a": range(3),
            "yes": ["no", "yes"],
            "wage": Interval(0, 9, bins=3, missing=True),
            "code": [1, 2, None],
            "maybe": ["x", "y", None],
        }
        ledger = PrivacyLedger(epsilon=9.0)
        synthesizer = DPMarginalSynthesizer(1.0, domain=domain, analyses=[formula], ledger=ledger)
        with pytest.raises(ValueError, match=r"analyses: .* may be missing. Name .* as a list"):
            synthesizer.fit(table[list(domain)])
        assert ledger.spent.epsilon == 0

    def test_dates_are_no_numbers(self):
        table = pd.DataFrame({"day": pd.to_datetime(["2020-01-01"] * 9), "a": [0, 1, 2] * 3})
        domain = {
            "day": Interval(edges=pd.to_datetime(["2020-01-01", "2020-02-01", "2020-03-01", "2021-01-01"])),
            "a": range(3),
        }
        with pytest.raises(ValueError, match="must be a column of numbers"):
            DPMarginalSynthesizer(1.0, domain=domain, analyses=["day ~ a"]).fit(table)
