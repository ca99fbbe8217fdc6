"""Columns that alone are protected: what another value changes, what is released, and what is refused."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import skdp
from skdp import (
    BudgetExceeded,
    DPMarginalSynthesizer,
    Interval,
    PrivacyLedger,
    SyntheticResampler,
    privacy_statement,
    synthetic_inference,
)
from skdp.privacy import Mu, Rho
from skdp.testing import check_curator, replay_release
from tests.conftest import each

DOMAIN = {
    "age": Interval(edges=[0, 20, 40, 60, 80.5]),
    "sex": ["f", "m"],
    "job": ["a", "b", "c"],
    "income": ["high", "low"],
}


def people(n_rows, seed=0):
    rng = np.random.default_rng(seed)
    sex = rng.integers(0, 2, n_rows)
    job = np.minimum(2, rng.integers(0, 3, n_rows) + sex * rng.integers(0, 2, n_rows))
    age = np.round(np.minimum(80, rng.gamma(4, 8, n_rows) + 5 * job), 1)
    is_high = rng.random(n_rows) < 0.1 + 0.2 * job + 0.1 * sex
    return pd.DataFrame(
        {
            "age": age,
            "sex": np.array(["f", "m"])[sex],
            "job": np.array(["a", "b", "c"])[job],
            "income": np.where(is_high, "high", "low"),
        },
        index=[f"row {place}" for place in range(n_rows)],
    )


def synthesizer(epsilon=1.0, protect=("age", "sex"), **parameters):
    protected = list(protect) if isinstance(protect, tuple) else protect
    given = {"domain": DOMAIN, "protect": protected, "max_iter": 20}
    return DPMarginalSynthesizer(epsilon, **given | parameters)


class TestPrivacy:
    @pytest.mark.parametrize("n_neighbours", [5, pytest.param(170, marks=pytest.mark.long)])
    @each("protect", [["age", "sex"], ["income"], ["sex", "job"]])
    def test_neighbours_that_differ_in_protected_columns(self, protect, n_neighbours):
        """Up to 510 neighbours, of which an attacker has all public columns."""
        rng = np.random.default_rng(1)
        shares = [
            {"epsilon": 1.0, "delta": 1e-6},
            {"epsilon": 0.5},
            {"epsilon": Rho(0.1, 1e-6)},
            {"epsilon": Mu(2.0, 1e-6)},
        ]
        largest = 0.0
        for number in range(n_neighbours):
            n_rows = int(rng.integers(1, 60))
            table = people(n_rows, number)
            neighbour = table.copy()
            row = table.index[int(rng.integers(n_rows))]
            other = people(1, number + 1_000)
            for name in protect:
                neighbour.loc[row, name] = other[name].iloc[0]
            marginals = ["auto", "independent", [("age", "sex"), ("sex", "job", "income")], "auto"]
            parameters = shares[number % 4] | {"marginals": marginals[number // 4 % 4]}
            replay = replay_release(synthesizer(protect=protect, **parameters), table, neighbour)
            assert replay.passed, (parameters, replay.findings)
            assert replay.guarantee.relation == "replace_values"
            largest = max(largest, replay.epsilon / replay.guarantee.epsilon)
        assert largest > 0.3

    def test_too_little_noise_is_found(self, monkeypatch):
        from skdp.synthesis.selection import NoiseBudget

        monkeypatch.setattr(NoiseBudget, "_noise", lambda self, share, change=None: _noise(self, share))
        findings = []
        for seed in range(12):
            table = people(20, seed)
            neighbour = table.assign(age=[79.0, *table["age"][1:]], sex=["m", *table["sex"][1:]])
            release = synthesizer(marginals=[("age", "job"), ("age", "sex")], delta=1e-6)
            findings += replay_release(release, table, neighbour).findings
        assert findings

    def test_contract_of_curators(self):
        check_curator(synthesizer(delta=1e-6, max_iter=5), people(60).reset_index(drop=True))

    def test_statement(self):
        table = people(200)
        pipeline = make_pipeline(
            synthesizer(delta=1e-6, random_state=0).set_output(transform="pandas"),
            OneHotEncoder(handle_unknown="ignore"),
        )
        pipeline.fit(table)
        statement = privacy_statement(pipeline)
        assert (statement.total.relation, statement.total.scope) == ("replace_values", ("age", "sex"))
        assert statement.total.epsilon == 1.0
        protection = statement.rows.set_index("column")["protection"]
        assert protection["job"] == "released as is"
        assert protection["sex"].startswith("rows")
        planned = privacy_statement(synthesizer(delta=1e-6))
        assert planned.steps[0].guarantee.relation == "replace_values"

    def test_ledgers(self):
        table = people(100)
        for relation in ("add_remove", "replace"):
            ledger = PrivacyLedger(epsilon=9, delta=1e-3, relation=relation)
            with pytest.raises(ValueError, match="would not hold"):
                synthesizer(ledger=ledger).fit(table)
            assert ledger.spent == (0, 0)
        ledger = PrivacyLedger(epsilon=1.5, relation="replace_values", columns=["sex"])
        synthesizer(ledger=ledger).fit(table)
        assert ledger.spent.epsilon == 1
        with pytest.raises(BudgetExceeded):
            synthesizer(ledger=ledger).fit(table)

    def test_rows_of_a_person_count_together(self):
        table = people(40)
        groups = np.repeat(np.arange(10), 4)
        neighbour = table.assign(sex=np.where(groups == 3, np.where(table["sex"] == "f", "m", "f"), table["sex"]))
        release = synthesizer(max_rows_per_person=4, delta=1e-6)
        replay = replay_release(lambda rows: clone(release).fit(rows, groups=groups), table, neighbour)
        assert replay.passed, replay.findings
        assert replay.guarantee.max_rows_per_person == 4

    @each(
        "parameters message",
        [
            ({"protect": "sex"}, "protect must be a list"),
            ({"protect": []}, "at least one column"),
            ({"protect": ["sex", "sex"]}, "each once"),
            ({"protect": ["sex", "wage"]}, r"must name columns of the table, got \['wage'\]; it has"),
            ({"protect": list(DOMAIN)}, "names all columns"),
            ({"protect": np.array([["sex", "age"]])}, "protect must be a list"),
            ({"redraw": ["sex"]}, "redraw"),
            ({"discover": 0.1}, "discover"),
            ({"relations": []}, "protect does not go with relations: .*; redraw goes with relations"),
            ({"bins": "private"}, "bins"),
            ({"handle_unknown": "ignore"}, "needs all records"),
            ({"workload": [("job", "income")]}, "workload must name a column of protect"),
            (
                {"structural_zeros": [{"sex": "f", "job": ["a", "b"]}, {"sex": "m", "job": "c"}]},
                "'sex' cannot be protected while 'job' is public",
            ),
        ],
    )
    def test_mistakes_cost_nothing(self, parameters, message):
        ledger = PrivacyLedger(epsilon=9, delta=0.1, relation="replace_values", columns=["sex"])
        with pytest.raises((TypeError, ValueError), match=message):
            synthesizer(**{"protect": ["sex"], "ledger": ledger} | parameters).fit(people(50))
        assert ledger.spent == (0, 0)

    @each("kind", [np.array, pd.Index, tuple])
    def test_names_in_arrays(self, kind, tmp_path):
        table = people(60)
        release = synthesizer(protect=kind(["sex", "income"]), random_state=0)
        assert release._planned_guarantee().scope == ("sex", "income")
        assert release.protects_rows == ["sex", "income"]
        made = release.fit_transform(table)
        expected = synthesizer(protect=["sex", "income"], random_state=0).fit_transform(table)
        pd.testing.assert_frame_equal(made, expected)
        release.save(tmp_path / "release.json")
        assert skdp.load(tmp_path / "release.json").guarantee_ == release.guarantee_

    def test_a_table_without_rows_is_refused(self):
        ledger = PrivacyLedger(epsilon=9, relation="replace_values", columns=["sex"])
        with pytest.raises(ValueError, match="X has no rows"):
            synthesizer(ledger=ledger, protect=["sex"]).fit(people(0))
        assert ledger.spent == (0, 0)

    def test_a_statement_says_to_begin_with_it(self):
        columns = make_column_transformer((StandardScaler(), ["age"]), remainder="passthrough")
        columns.set_output(transform="pandas").set_params(verbose_feature_names_out=False)
        domain = {"sex": ["f", "m"]}
        pipeline = make_pipeline(columns, synthesizer(protect=["sex"], domain=domain, random_state=0))
        statement = privacy_statement(pipeline.fit(people(60)))
        assert statement.total is None
        assert "first step" in str(statement)

    def test_large_tables_are_refused(self):
        pl = pytest.importorskip("polars")
        with pytest.raises(TypeError, match=r"skdp\.engines"):
            synthesizer().fit(pl.DataFrame(people(20)).lazy())


def _noise(budget, share):
    from skdp.central.statistics import Noise

    return Noise.of(budget.share * share * 4)


class TestRows:
    def test_other_columns_order_labels_and_dtypes_stay(self):
        table = people(500)
        made = synthesizer(random_state=0).fit_transform(table)
        pd.testing.assert_frame_equal(made[["job", "income"]], table[["job", "income"]])
        pd.testing.assert_index_equal(made.index, table.index)
        assert list(made) == list(table)
        assert made.dtypes.equals(table.dtypes)
        assert (made["sex"] != table["sex"]).any()
        assert (made["age"] != table["age"]).any()

    @each("library", ["polars", "pyarrow"])
    def test_other_libraries(self, library):
        module = pytest.importorskip(library)
        table = people(100).reset_index(drop=True)
        frame = module.DataFrame(table) if library == "polars" else module.Table.from_pandas(table)
        made = synthesizer(random_state=0).fit(frame).transform(frame)
        assert type(made) is type(frame)
        assert made.to_pandas()["job"].tolist() == table["job"].tolist()
        assert (made.schema == frame.schema) or library == "pyarrow"
        as_pandas = synthesizer(random_state=0).fit_transform(table)
        assert made.to_pandas()["sex"].tolist() == as_pandas["sex"].tolist()

    @each("library", ["pandas", "polars", "pyarrow"])
    @each("how", ["protect", "redraw"])
    def test_new_rows_without_the_columns_that_are_drawn(self, library, how):
        """These are never read, so that they may be left out, with the same result."""
        module = pytest.importorskip(library)
        table = people(60).reset_index(drop=True)

        def convert(frame):
            return {"pandas": lambda: frame, "polars": lambda: module.DataFrame(frame)}.get(
                library, lambda: module.Table.from_pandas(frame)
            )()

        parameters = {"protect": None, "redraw": ["age", "sex"]} if how == "redraw" else {}
        fitted = synthesizer(random_state=0, **parameters).fit(convert(table))
        new = people(20, seed=1)
        if library != "pandas":
            new = new.reset_index(drop=True)
        of_all = pickle.loads(pickle.dumps(fitted)).transform(convert(new))
        for left_out in (["age"], ["sex"], ["age", "sex"]):
            made = pickle.loads(pickle.dumps(fitted)).transform(convert(new.drop(columns=left_out)))
            assert type(made) is type(of_all)
            assert made.equals(of_all)

    def test_other_columns_are_not_left_out(self):
        fitted = synthesizer(random_state=0).fit(people(60))
        with pytest.raises(ValueError, match=r"missing:\n- job"):
            fitted.transform(people(20).drop(columns=["sex", "job"]))
        with pytest.raises(ValueError, match="feature names"):
            fitted.transform(people(20)[["income", "job"]])
        with pytest.raises(ValueError, match="0 feature"):
            fitted.transform(people(20)[[]])

    def test_counts_of_public_cells_are_nearly_right(self):
        table = people(20_000)
        made = synthesizer(4.0, delta=1e-6, max_iter=300, random_state=0).fit_transform(table)
        for name in ("job", "income"):
            exact = pd.crosstab(table[name], table["sex"])
            assert (pd.crosstab(made[name], made["sex"]) - exact).abs().to_numpy().max() < 60
        bins = [0, 20, 40, 60, 81]
        exact = pd.crosstab(pd.cut(table["age"], bins, right=False), table["sex"])
        distance = (pd.crosstab(pd.cut(made["age"], bins, right=False), made["sex"]) - exact).abs()
        assert distance.to_numpy().max() < 80

    def test_what_cannot_be_is_not_drawn(self):
        table = people(2_000)
        table = table[(table["sex"] == "m") | (table["job"] != "c")]
        zeros = [{"sex": "f", "job": "c"}]
        made = synthesizer(random_state=0, structural_zeros=zeros).fit_transform(table)
        assert not ((made["sex"] == "f") & (made["job"] == "c")).any()

    @each("n_rows", [1, 2])
    def test_few_rows(self, n_rows):
        table = people(3).iloc[:n_rows]
        made = synthesizer(0.5, random_state=0).fit_transform(table)
        assert len(made) == n_rows

    def test_clones_pickles_and_files(self, tmp_path):
        table = people(300)
        release = clone(synthesizer(random_state=0)).fit(table)
        assert clone(release).protect == ["age", "sex"]
        again = pickle.loads(pickle.dumps(release)).transform(table)
        pd.testing.assert_frame_equal(again, release.transform(table))
        release.save(tmp_path / "release.json")
        read = skdp.load(tmp_path / "release.json")
        assert read.guarantee_ == release.guarantee_
        made = read.transform(table)
        pd.testing.assert_frame_equal(made[["job", "income"]], table[["job", "income"]])
        assert (made["sex"] != table["sex"]).any()
        assert read.protects_rows == ["age", "sex"]

    def test_what_needs_whole_rows_is_refused(self):
        release = synthesizer(random_state=0).fit(people(200))
        calls = [
            release.sample,
            lambda: next(release.sample_batches()),
            lambda: release.marginal(["sex"]),
            lambda: release.count({"sex": "f"}),
            lambda: release.count_estimate({"sex": "f"}),
            lambda: release.range_count("age", 0, 20),
            lambda: release.range_estimate("age", 0, 20),
            lambda: release.score_samples(people(3)),
            lambda: synthetic_inference(release, lambda rows: rows["age"].mean(), columns=["age"]),
        ]
        for call in calls:
            with pytest.raises(ValueError, match="protect="):
                call()
        assert release.n_rows_ == 200
        assert release.n_rows_std_error_ == 0
        assert all("age" in clique or "sex" in clique for clique in release.selected_cliques_)


class TestTarget:
    def test_resampler_draws_the_target_again(self):
        table = people(4_000)
        X, y = table[["age", "sex", "job"]], table["income"]
        resampler = SyntheticResampler(synthesizer(4.0, ["income"], delta=1e-6, max_iter=300, random_state=0))
        rows, target = resampler.fit_resample(X, y)
        pd.testing.assert_frame_equal(rows, X)
        pd.testing.assert_index_equal(target.index, y.index)
        assert target.name == "income"
        assert target.dtype == y.dtype
        assert (target != y).any()
        assert (pd.crosstab(X["job"], target) - pd.crosstab(X["job"], y)).abs().to_numpy().max() < 40
        assert resampler.guarantee_.scope == ("income",)
        with pytest.raises(ValueError, match="n_samples must be None"):
            clone(resampler).set_params(n_samples=5).fit_resample(X, y)
        with pytest.raises(ValueError, match="names the target alone"):
            resampler.synthesizer_.transform(X)

    def test_rows_are_drawn_given_a_public_target(self):
        rng = np.random.default_rng(0)
        frame = pd.DataFrame({"sex": np.resize(["f", "m"], 4_000), "job": np.resize(["a", "b", "c"], 4_000)})
        target = pd.Series(np.where((rng.random(4_000) < 0.1) ^ (frame["sex"] == "m"), "high", "low"), name="income")
        domain = {name: DOMAIN[name] for name in ("sex", "job", "income")}
        release = synthesizer(2.0, ["sex"], delta=1e-6, domain=domain, random_state=0)
        made = release.fit_transform(frame, target)
        assert ((made["sex"] == "m") == (target == "high")).mean() == pytest.approx(0.9, abs=0.02)
        # It is not known of further rows.
        assert ((release.transform(frame)["sex"] == "m") == (target == "high")).mean() < 0.6

    def test_public_target_stays(self):
        table = people(300)
        X, y = table[["age", "sex", "job"]], table["income"]
        rows, target = SyntheticResampler(synthesizer(random_state=0)).fit_resample(X, y)
        assert target is y
        assert (rows["sex"] != X["sex"]).any()

    def test_pipeline_learns_from_redrawn_targets(self):
        pipelines = pytest.importorskip("imblearn.pipeline")
        table = people(4_000)
        X, y = table[["sex", "job"]], table["income"]
        domain = {name: DOMAIN[name] for name in ("sex", "job", "income")}
        model = pipelines.make_pipeline(
            SyntheticResampler(synthesizer(1.0, ["income"], delta=1e-6, domain=domain, random_state=0)),
            OneHotEncoder(),
            LogisticRegression(),
        ).fit(X, y)
        exact = make_pipeline(OneHotEncoder(), LogisticRegression()).fit(X, y)
        assert abs(model.predict_proba(X) - exact.predict_proba(X)).max() < 0.1
        total = privacy_statement(model).total
        assert (total.relation, total.scope) == ("replace_values", ("income",))


def test_public_columns_of_many_values_are_counted_by_groups():
    """Neighbouring ages are counted together, so that what a sex has to do with them is worth its noise."""
    rng = np.random.default_rng(0)
    age = rng.integers(0, 80, 4_000)
    sex = np.where(rng.random(4_000) < 0.1 + 0.8 * (age > 40), "f", "m")
    table = pd.DataFrame({"age": age, "sex": sex})
    domain = {"age": Interval(0, 80, bins=80), "sex": ["f", "m"]}
    redrawn = synthesizer(0.2, ("sex",), delta=1e-6, domain=domain, random_state=0)
    rows = redrawn.fit_transform(table)
    (pair,) = [marginal for marginal in redrawn.marginals_ if len(marginal.clique) == 2]
    assert 2 <= len(pair.counts) < 40
    is_old = age > 40
    assert (rows["sex"] == "f")[is_old].mean() > (rows["sex"] == "f")[~is_old].mean() + 0.5


def misplaced(table, rows, target="target"):
    """Return the mean total variation of pairs with the target."""
    distances = []
    for name in table.columns.drop(target):
        exact, made = (frame.groupby([name, target]).size() for frame in (table, rows))
        distances.append(exact.sub(made, fill_value=0).abs().sum() / 2 / len(table))
    return np.mean(distances)


def test_pairs_of_few_rows_are_measured_where_scores_would_be_noise():
    """Then what pairs gain is not known: none was measured, and the target was as good as shuffled."""
    frame = load_breast_cancer(as_frame=True).frame
    table = pd.DataFrame({name: pd.qcut(frame[name], 5, labels=list("abcde")) for name in frame.columns[:8]})
    table = table.astype(str).assign(target=frame["target"])
    release = synthesizer(1.0, ("target",), delta=1e-6, domain={"target": [0, 1]}, random_state=0)
    rows = release.fit_transform(table)
    assert len(release.pair_scores_) == 0
    assert misplaced(table, rows) < 0.15
    assert misplaced(table, table.assign(target=np.sort(frame["target"]))) > 0.2


def test_values_of_many_rows_are_not_rare_whatever_the_noise():
    """Without an order, all rare values are one: four of these five were."""
    rng = np.random.default_rng(2)
    target = rng.integers(0, 2, 2_000)
    table = pd.DataFrame({"target": target})
    for index in range(20):
        code = (rng.normal(2.5 + 0.8 * (2 * target - 1))).astype(int).clip(0, 4)
        table[f"x{index}"] = np.array([*"abcde"])[code]
    release = synthesizer(1.0, ("target",), domain={"target": [0, 1]}, random_state=0)
    assert misplaced(table, release.fit_transform(table)) < 0.1


@each("parameters", [{"protect": ["sex"]}])
@each("as_frame", [True, False])
def test_a_target_of_the_name_of_a_protected_column_is_refused(parameters, as_frame):
    """It was public, as "target", and showed the protected column."""
    X = people(50)
    y = X[["sex"]] if as_frame else X["sex"]
    ledger = PrivacyLedger(epsilon=5, delta=1e-3, relation="replace")
    if parameters["protect"]:
        ledger = PrivacyLedger(epsilon=5, relation="replace_values", columns=["sex"])
    estimator = synthesizer(delta=1e-6, ledger=ledger, random_state=0).set_params(**parameters)
    with pytest.raises(ValueError, match="X has a column of the name of y, 'sex', and only one"):
        estimator.fit(X, y)
    assert ledger.spent == (0, 0)


@each("name", ["job", None])
@each("as_frame", [True, False])
def test_a_resampled_target_of_another_name_is_drawn_again(name, as_frame):
    """Where the model knew the target by another name than y had, y was returned as it was."""
    X = people(400)[["sex", "job"]].rename(columns={"sex": "target"} if name is None else {})
    y = pd.Series(np.random.default_rng(0).integers(0, 2, 400), X.index, name=name)
    called = "target_2" if name is None else "other"
    domain = {"target": ["f", "m"], "sex": ["f", "m"], "job": ["a", "b", "c"], called: [0, 1]}
    domain = {column: domain[column] for column in (*X.columns, called)}
    private = DPMarginalSynthesizer(0.01, domain=domain, protect=[called], random_state=0, max_iter=20)
    if name is not None:
        y = y.rename(called)
    _, drawn = SyntheticResampler(private).fit_resample(X, y.to_frame(called) if as_frame and name else y)
    assert 0.3 < (np.asarray(drawn).ravel() == y.to_numpy()).mean() < 0.7


@each("protected", [{"protect": ["target"]}])
def test_a_target_that_was_renamed_cannot_be_protected(protected):
    """Its column in X is public."""
    X = people(50)[["sex", "job"]]
    domain = {"sex": ["f", "m"], "job": ["a", "b", "c"], "target": ["f", "m"]}
    with pytest.raises(ValueError, match="X has a column of the name of y, 'sex', and only one"):
        synthesizer(delta=1e-6, domain=domain).set_params(**protected).fit(X, X["sex"])


@each("protect", [["only"], ["only", "sex"]])
def test_a_protected_column_of_one_declared_value(protect):
    """It was an error, after the charge."""
    X = people(200).assign(only="x")
    fitted = synthesizer(protect=protect, domain=DOMAIN | {"only": ["x"]}, random_state=0).fit(X)
    rows = fitted.transform(X)
    assert (rows["only"] == "x").all()
    pd.testing.assert_frame_equal(rows.drop(columns=protect), X.drop(columns=protect))
