"""Counts and means that protect named columns: what other values change, what is exact, and what is stated."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import skdp
from skdp import DPGroupBy, DPHistogram, DPMean, PrivacyLedger, privacy_statement
from skdp.central import planned_half_width
from skdp.privacy import Mu, Rho
from skdp.testing import check_curator, replay_release
from tests.conftest import each, often

VALUES = {"a": ["x", "y"], "b": ["u", "v", "w"], "c": [0, 1]}
BOUNDS = {"p": (0, 10), "q": (-3, 5)}


def words(rng, n_rows):
    return pd.DataFrame({name: rng.choice(values, n_rows) for name, values in VALUES.items()})


def numbers(rng, n_rows):
    return pd.DataFrame({name: rng.uniform(low - 1, high + 1, n_rows) for name, (low, high) in BOUNDS.items()})


def both(rng, n_rows):
    return words(rng, n_rows)[["a"]].join(numbers(rng, n_rows))


# An estimator and its table: the columns that it protects are in its parameters.
EVERY = {
    "histogram, two cells": (DPHistogram(domain=VALUES, protect=["a"]), words),
    "histogram, three cells": (DPHistogram(domain=VALUES, protect=["b"]), words),
    "histogram, six cells": (DPHistogram(domain=VALUES, protect=["c", "b"]), words),
    "histogram, all": (DPHistogram(domain=VALUES, protect=["a", "b", "c"]), words),
    "mean": (DPMean(bounds=BOUNDS, missing="error", protect=["q"]), numbers),
    "means": (DPMean(bounds=BOUNDS, missing="error", protect=["q", "p"]), numbers),
    "groups": (
        DPGroupBy("a", keys={"a": VALUES["a"]}, bounds=BOUNDS, missing="error", protect=["p"]),
        both,
    ),
    "groups, sums": (
        DPGroupBy(
            "a",
            keys={"a": VALUES["a"]},
            bounds=BOUNDS,
            missing="error",
            statistics=["count", "mean", "sum"],
            protect=["p", "q"],
        ),
        both,
    ),
}


def made(name, **parameters):
    return clone(EVERY[name][0]).set_params(**parameters)


def other_values(rng, X, row, columns):
    """Return a table with other values of these columns in one row."""
    neighbour = X.copy()
    for column in columns:
        values = VALUES.get(column, [*BOUNDS.get(column, ()), 1e9])
        neighbour[column] = neighbour[column].astype(object)
        neighbour.loc[row, column] = rng.choice(values)
        neighbour[column] = neighbour[column].tolist()
    return neighbour


QUICK = ["histogram, six cells", "means", "groups, sums"]


class TestPrivacy:
    @pytest.mark.parametrize("n_neighbours", [5, pytest.param(504, marks=pytest.mark.long)])
    @pytest.mark.parametrize("name", often(EVERY, QUICK))
    def test_neighbours_that_differ_in_the_protected_columns(self, name, n_neighbours):
        estimator, columns = EVERY[name]
        rng = np.random.default_rng(1)
        shares = [{"epsilon": 1.0}, {"epsilon": Rho(0.1, 1e-6)}, {"epsilon": Mu(2.0, 1e-6)}]
        largest = 0.0
        for number in range(n_neighbours):
            n_rows = int(rng.integers(1, 9))
            X = columns(rng, n_rows)
            neighbour = other_values(rng, X, int(rng.integers(n_rows)), estimator.protect)
            replay = replay_release(made(name, **shares[number % len(shares)]), X, neighbour)
            assert replay.passed, replay.findings
            assert replay.guarantee.relation == "replace_values"
            largest = max(largest, replay.epsilon / replay.guarantee.epsilon)
        assert largest > 0.5

    @pytest.mark.parametrize("protect", often([["c"], ["b"], ["b", "c"]], [["c"]]))
    @pytest.mark.long
    def test_all_tables_of_two_rows(self, protect):
        """The second row is of one cell, as the order of the rows changes nothing."""
        domain = {name: VALUES[name] for name in ("b", "c")}
        cells = list(itertools.product(*domain.values()))
        largest = 0.0
        for first, other in itertools.product(cells, cells):
            X = pd.DataFrame([first, ("u", 1)], columns=list(domain))
            neighbour = X.copy()
            for column in protect:
                neighbour.loc[0, column] = dict(zip(domain, other, strict=True))[column]
            if neighbour.equals(X):
                continue
            replay = replay_release(DPHistogram(1.0, domain=domain, protect=protect), X, neighbour)
            assert replay.passed, replay.findings
            largest = max(largest, replay.epsilon)
        assert largest == pytest.approx(1)

    @each("name", list(EVERY))
    @pytest.mark.long
    def test_too_little_noise_is_found(self, name, monkeypatch):
        from skdp.central.statistics import Noise

        monkeypatch.setattr(Noise, "scale", property(lambda noise: noise.sensitivity / noise.amount / 2))
        estimator, columns = EVERY[name]
        rng = np.random.default_rng(0)
        findings = []
        for _ in range(6):
            X = columns(rng, 3)
            neighbour = other_values(rng, X, 0, estimator.protect)
            findings += replay_release(made(name, epsilon=1.0), X, neighbour).findings
        assert findings

    @each("name", list(EVERY))
    def test_what_is_stated(self, name):
        estimator, columns = EVERY[name]
        X = columns(np.random.default_rng(0), 40)
        protected = tuple(column for column in X if column in estimator.protect)
        fitted = made(name, random_state=0).fit(X)
        stated = fitted.guarantee_
        assert (stated.relation, stated.scope, stated.epsilon) == ("replace_values", protected, 1)
        assert privacy_statement(fitted).total == stated
        planned = privacy_statement(made(name)).steps[0].guarantee
        assert (planned.relation, set(planned.scope)) == ("replace_values", set(protected))

    @pytest.mark.parametrize("name", often(["histogram, three cells", "means", "groups"], ["groups"]))
    def test_contract_of_curators(self, name):
        check_curator(made(name), EVERY[name][1](np.random.default_rng(0), 60))

    def test_rows_of_a_person_count_together(self):
        X = words(np.random.default_rng(0), 12)
        persons = np.repeat(np.arange(3), 4)
        neighbour = X.assign(b=np.where(persons == 1, "w", X["b"]))
        model = DPHistogram(1.0, domain=VALUES, protect=["a", "b"], max_rows_per_person=4, random_state=0)
        replay = replay_release(lambda table: clone(model).fit(table, groups=persons), X, neighbour)
        assert replay.passed

    def test_mistakes_cost_nothing(self):
        rng = np.random.default_rng(0)
        ledger = PrivacyLedger(epsilon=5, relation="replace_values", columns=["a", "b", "c", "p", "q"])
        mistakes = [
            ("mean", {"protect": ["z"]}, "protect must name columns that are released, got .'z'."),
            ("mean", {"protect": "q"}, "protect must be 'record' or a list"),
            ("mean", {"protect": []}, "protect must be 'record' or a list"),
            ("mean", {"missing": "ignore"}, "protect needs missing='error'"),
            ("mean", {"bounds": "private"}, "bounds must be declared with protect"),
            ("mean", {"protect": ["q", "q"]}, "each column once"),
            ("mean", {"protect": np.array([["q", "q"]])}, "protect must be 'record' or a list"),
            ("groups", {"protect": ["a"]}, r"protect must not name \['a'\]: how many rows have each key is public"),
            ("groups", {"protect": ["z"]}, "protect must name columns that are released"),
            ("groups", {"statistics": ["count"]}, "protect must name columns that are released"),
            ("groups", {"missing": "ignore"}, "protect needs missing='error'"),
            ("groups", {"keys": "private", "delta": 1e-6}, "keys must be declared with protect"),
            ("histogram, all", {"handle_unknown": "ignore"}, "protect needs handle_unknown='error'"),
            ("histogram, all", {"domain": {**VALUES, "a": ["x"]}}, "'a'"),
        ]
        for name, parameters, message in mistakes:
            with pytest.raises(ValueError, match=message):
                made(name, ledger=ledger, **parameters).fit(EVERY[name][1](rng, 30))
        with pytest.raises(ValueError, match="protect takes no hierarchy"):
            DPHistogram(domain={"c": [0, 1]}, method="hierarchical", protect=["c"]).fit(words(rng, 9)[["c"]])
        assert ledger.spent == (0, 0)
        for relation in ("add_remove", "replace"):
            ledger = PrivacyLedger(epsilon=5, relation=relation)
            with pytest.raises(ValueError, match="would not hold"):
                made("mean", ledger=ledger).fit(numbers(rng, 9))


class TestEstimates:
    @each("name", [name for name in EVERY if name.startswith("histogram")])
    def test_counts_of_public_columns_are_exact(self, name):
        estimator, columns = EVERY[name]
        X = columns(np.random.default_rng(0), 500)
        frame = made(name, epsilon=0.5, random_state=0).fit(X).to_frame()
        exact = X.value_counts().reindex(frame.index, fill_value=0)
        public = [column for column in X if column not in estimator.protect]
        if public:
            pd.testing.assert_series_equal(
                frame["count"].groupby(public).sum(), exact.groupby(public).sum(), check_names=False
            )
        else:
            assert frame["count"].sum() == len(X)
        assert (frame["count"] != exact).any()
        without_noise = made(name, epsilon=1_000.0, random_state=0).fit(X).to_frame()
        assert (without_noise["count"] == exact).all()

    @pytest.mark.long
    @each("name", [name for name in EVERY if name.startswith("histogram")])
    def test_errors_are_those_of_the_noise(self, name):
        X = words(np.random.default_rng(0), 500)
        counts = []
        for seed in range(400):
            fitted = made(name, epsilon=0.5, random_state=seed).fit(X)
            counts.append(fitted.counts_)
        deviations = np.std(counts, axis=0)
        # The largest relative error of 4,800 deviations of Laplace noise from 400 draws.
        np.testing.assert_allclose(deviations / fitted.std_error_, 1, atol=0.3)

    @each("name", [name for name in EVERY if name.startswith("histogram")])
    def test_plans_know_the_errors(self, name):
        histogram = made(name, epsilon=0.5, random_state=0).fit(words(np.random.default_rng(0), 500))
        frame = histogram.to_frame(confidence_level=0.9)
        width = planned_half_width(made(name, epsilon=0.5), histogram.domain_, 0.9)
        assert ((frame["upper"] - frame["lower"]) / 2).max() == pytest.approx(width)

    @pytest.mark.long
    def test_ranges_of_what_is_known_have_no_error(self):
        X = pd.DataFrame({"b": np.resize([0, 1, 2, 3], 400)})
        domain = {"b": [0, 1, 2, 3]}
        fits = [DPHistogram(0.5, domain=domain, protect=["b"], random_state=seed).fit(X) for seed in range(400)]
        assert fits[0].range_estimate() == (400, 0, 400, 400)
        estimates = [fitted.range_estimate(0, 2) for fitted in fits]
        deviation = np.std([estimate.value for estimate in estimates])
        assert deviation == pytest.approx(estimates[0].std_error, rel=0.2)
        assert np.mean([estimate.lower <= 200 <= estimate.upper for estimate in estimates]) > 0.9

    @pytest.mark.long
    def test_means_of_public_columns_are_exact_and_others_covered(self):
        X = both(np.random.default_rng(0), 300)
        clipped = X.assign(**{name: X[name].clip(*ends) for name, ends in BOUNDS.items()})
        exact = clipped.groupby("a")[["p", "q"]].mean()
        n_covered = 0
        for seed in range(200):
            frame = made("groups", epsilon=0.2, random_state=seed).fit(X).to_frame()
            assert frame["count"].tolist() == X["a"].value_counts().sort_index().tolist()
            np.testing.assert_allclose(frame["q_mean"], exact["q"], atol=1e-6)
            assert (frame["q_mean_std_error"] == 0).all()
            inside = (frame["p_mean_lower"] <= exact["p"]) & (exact["p"] <= frame["p_mean_upper"])
            n_covered += inside.sum()
        # 400 intervals of 95 %: fewer than 320 or all of them have a probability of 1e-6.
        assert 350 < n_covered < 400
        width = (frame["p_mean_upper"] - frame["p_mean_lower"]).to_numpy()
        assert (width < 10).all()
        mean = DPMean(0.5, bounds=BOUNDS, missing="error", protect=["p"], random_state=0).fit(X[["p", "q"]])
        assert mean.std_error_[1] == 0
        assert mean.mean_[1] == pytest.approx(clipped["q"].mean(), abs=1e-6)
        assert mean.interval_[0, 0] < mean.mean_[0] < mean.interval_[0, 1]
        # Of a sum that changes by 10, over 300 rows.
        assert mean.std_error_[0] == pytest.approx(np.sqrt(2) * 10 / 0.5 / 300, rel=1e-6)

    @each("name", list(EVERY))
    def test_tables_without_rows_copies_and_files(self, name, tmp_path):
        columns = EVERY[name][1]
        release = made(name, random_state=0)
        # That there are none is public.
        ledger = PrivacyLedger(epsilon=9, relation="replace_values", columns=release.protect)
        with pytest.raises(ValueError, match="X has no rows"):
            clone(release).set_params(ledger=ledger).fit(columns(np.random.default_rng(0), 0))
        assert ledger.spent == (0, 0)
        fitted = made(name, random_state=0).fit(columns(np.random.default_rng(0), 40))
        for kind in (np.array, pd.Index, tuple):
            in_array = clone(release).set_params(protect=kind(release.protect))
            assert in_array.planned_guarantee().scope == tuple(release.protect)
            in_array.fit(columns(np.random.default_rng(0), 40))
            assert in_array.guarantee_ == fitted.guarantee_
            skdp.save(in_array, tmp_path / "release.json")
            assert skdp.load(tmp_path / "release.json").guarantee_ == fitted.guarantee_
        skdp.save(fitted, tmp_path / "release.json")
        for copy in (pickle.loads(pickle.dumps(fitted)), skdp.load(tmp_path / "release.json")):
            assert copy.guarantee_ == fitted.guarantee_
            if hasattr(fitted, "to_frame"):
                pd.testing.assert_frame_equal(copy.to_frame(), fitted.to_frame())

    @each("name", ["histogram, three cells", "means", "groups"])
    def test_large_tables(self, name):
        pl = pytest.importorskip("polars")
        X = EVERY[name][1](np.random.default_rng(0), 60)
        in_memory = made(name, random_state=0).fit(X)
        lazy = made(name, random_state=0).fit(pl.from_pandas(X).lazy())
        for attribute in ("counts_", "mean_"):
            if hasattr(lazy, attribute):
                np.testing.assert_array_equal(getattr(lazy, attribute), getattr(in_memory, attribute))
        assert lazy.guarantee_.relation == "replace_values"


@pytest.mark.filterwarnings("ignore::UserWarning")  # there are few rows
@each(
    "estimator",
    [
        DPMean(bounds=(0, 1), missing="error", protect=["x"]),
        DPGroupBy("g", keys={"g": ["u", "v"]}, bounds=(0, 1), missing="error", protect=["x"]),
        DPHistogram(domain={"g": ["u", "v"], "x": [0.25, 0.75]}, protect=["x"]),
        skdp.central.DPTargetEncoder(categories={"g": ["u", "v"]}, bounds=(0, 1), protect="target"),
        skdp.central.DPCategoricalNB(categories={"g": ["u", "v"]}, classes=[0.25, 0.75], protect="target"),
    ],
)
def test_rows_of_persons_of_a_large_table_would_show_protected_values(estimator):
    """Which of them are kept follows from hashes of all columns: what is exact would change."""
    polars = pytest.importorskip("polars")
    table = pd.DataFrame({"g": ["u", "v"] * 4, "x": [0.25, 0.25, 0.75, 0.75] * 2, "p": [0, 0, 0, 0, 1, 1, 1, 1]})
    ledger = PrivacyLedger(epsilon=5, relation="replace_values", columns=["x"])
    estimator = clone(estimator).set_params(max_rows_per_person=2, random_state=0, ledger=ledger)
    target = ["x"] if "target" in str(estimator.protect) else []
    if isinstance(estimator, DPMean):
        table = table.drop(columns="g")
    with pytest.raises(ValueError, match="protect needs a table in memory with groups"):
        estimator.fit(polars.from_pandas(table).lazy(), *target, groups="p")
    assert ledger.spent is None or ledger.spent.epsilon == 0
    assert not hasattr(estimator, "guarantee_")
    X = table.drop(columns=["p", *target])
    estimator.fit(X, *[table[name] for name in target], groups=table["p"])
