from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest

from skdp import Domain, DPGroupBy, DPMean, Interval, PrivacyLedger, load, privacy_statement, save
from skdp.central.statistics import GRID, GaussianNoise, GroupSums, join_codes
from skdp.central.statistics._noise import CubeNoise, LaplaceNoise
from skdp.privacy import Mu, Rho
from tests.conftest import each

KEYS = {"job": ["clerk", "nurse", "smith"], "sex": ["f", "m"]}
rng = np.random.default_rng(0)
PEOPLE = pd.DataFrame(
    {
        "job": rng.choice(["clerk", "nurse"], 600, p=[0.8, 0.2]),
        "sex": rng.choice(KEYS["sex"], 600),
        "age": rng.integers(18, 80, 600).astype(float),
        "pay": np.where(rng.random(600) < 0.2, np.nan, rng.integers(0, 900, 600)),
    }
)
BOUNDS = {"age": (0, 100), "pay": (0, 1000)}


def grouped(by=("job", "sex"), epsilon=1.0, **parameters):
    by = list(by) if isinstance(by, tuple) else by
    given = {"keys": {name: KEYS[name] for name in (by if isinstance(by, list) else [by]) if name in KEYS}}
    return DPGroupBy(by, epsilon, **given | {"bounds": BOUNDS, "random_state": 0} | parameters)


def exact(by, statistic, column):
    table = PEOPLE.groupby(list(by))[column].agg(statistic)
    return table.reindex(Domain({name: KEYS[name] for name in by}).cells())


class TestSensitivity:
    @pytest.mark.parametrize("shared", [False, pytest.param(True, marks=pytest.mark.long)])
    def test_a_record_or_a_person_moves_one_number_of_each_group_by_a_unit(self, shared):
        """All tables of one other row, and persons of up to two rows; 2 is no declared key, nan is missing."""
        records = list(
            itertools.product((0, 2), range(2), (0.0, 7.0, 10.0, math.inf) + (() if shared else (math.nan,)))
        )
        domain = Domain({"a": [0, 1], "b": [0, 1]})

        def numbers(rows):
            codes = np.array([row[:2] for row in rows], np.uint8).reshape(-1, 2)
            column = np.array([row[2] for row in rows], float)
            sums = GroupSums.zeros(domain.size, 2)
            sums.add(join_codes(domain, list(codes.T)), [column, 10 - column], [(0.0, 10.0)] * 2)
            return sums.numbers(rows=True, shared=shared)

        worst = {1: 0, 2: 0}
        for other in records[::9]:
            before = numbers([other])
            for k in worst:
                for person in itertools.combinations_with_replacement(records, k):
                    moved = np.abs(numbers([other, *person]) - before)
                    assert moved.max(axis=1).sum() <= k * GRID  # what the cubes are for
                    assert (moved**2).sum() <= k**2 * moved.shape[1] * GRID**2  # and Gaussian noise
                    worst[k] = max(worst[k], moved.max(axis=1).sum())
        assert worst == {1: GRID, 2: 2 * GRID}

    @pytest.mark.parametrize(
        ("parameters", "kind", "size"),
        [
            ({"statistics": "count"}, LaplaceNoise, 1),
            ({}, CubeNoise, 5),
            ({"statistics": ["mean", "sum"]}, CubeNoise, 4),
            ({"epsilon": Rho(0.1, delta=1e-6)}, GaussianNoise, 5),
            ({"epsilon": Mu(0.4, delta=1e-6), "max_rows_per_person": 3}, GaussianNoise, 5),
            ({"max_rows_per_person": 3}, CubeNoise, 5),
        ],
    )
    def test_the_noise_is_that_of_the_sensitivity(self, parameters, kind, size, monkeypatch):
        drawn, draw = [], kind.draw_each
        monkeypatch.setattr(
            kind, "draw_each", lambda self, source, *shape: drawn.append((self, shape)) or draw(self, source, *shape)
        )
        grouped(**parameters).fit(PEOPLE)
        ((noise, shape),) = drawn
        rows, unit = parameters.get("max_rows_per_person", 1), GRID if size > 1 else 1
        assert shape == (6, size)
        if kind is GaussianNoise:
            assert noise.square == rows**2 * size * GRID**2
        else:
            assert (noise.epsilon, noise.sensitivity) == (1, rows * unit)
            assert kind is LaplaceNoise or noise.dimension == size

    def test_without_missing_values_one_count_is_enough(self):
        full = PEOPLE.fillna({"pay": 0.0})
        shapes = []
        for missing in ("ignore", "error"):
            estimates = grouped(missing=missing).fit(full).estimates_
            shapes.append(estimates["count"][0, 1])
        assert shapes[0] / shapes[1] == pytest.approx(math.sqrt(6 * 7 / (4 * 5)))

    def test_at_most_a_few_rows_of_each_person_are_used(self):
        counts = grouped("job", 1e5, statistics="count").fit(PEOPLE, groups=np.zeros(600, int)).estimates_["count"]
        assert counts[:, 0].sum() == 1


class TestAnswers:
    def test_a_large_epsilon_gives_the_statistics(self):
        fitted = grouped(epsilon=1e6, statistics=["count", "mean", "sum"]).fit(PEOPLE)
        found = fitted.to_frame()
        assert found.index.names == ["job", "sex"]
        assert found["count"].tolist() == exact(KEYS, "size", "age").fillna(0).astype(int).tolist()
        for column, statistic in itertools.product(("age", "pay"), ("mean", "sum")):
            wanted = exact(KEYS, statistic, column)
            np.testing.assert_allclose(found[f"{column}_{statistic}"][:4], wanted[:4], rtol=1e-4)
        assert (found["pay_mean_std_error"][4:] > 50).all()  # nobody is there

    def test_all_groups_are_answered_also_of_an_empty_table(self):
        for table in (PEOPLE[:0], PEOPLE[:1]):
            for seed in range(2):
                fitted = grouped(epsilon=0.3, random_state=seed, statistics=["mean", "sum", "count"]).fit(table)
                found = fitted.to_frame()
                assert len(found) == 6
                assert np.isfinite(found.to_numpy()).all()
                assert found["age_mean"].between(0, 100).all()
                assert (found["age_mean_lower"] >= 0).all()

    @pytest.mark.parametrize(
        ("epsilon", "missing"), [(1.0, "ignore"), (Rho(0.05, delta=1e-6), "error"), (0.1, "error")]
    )
    def test_intervals_cover_what_they_say(self, epsilon, missing):
        """Of 2,000 groups of 40 rows; with a small epsilon the noise hides many means, whose intervals are too wide."""
        rng, keys = np.random.default_rng(1), np.repeat(np.arange(2000), 40)
        x, y = rng.gamma(2, 10, keys.size).clip(0, 100), rng.normal(-50, 9, keys.size).clip(-100, 0)
        table = pd.DataFrame({"k": keys, "x": x, "y": np.where((np.arange(keys.size) % 3 == 0), np.nan, y)})
        table = table if missing == "ignore" else table.assign(y=y)
        groups = table.groupby("k")
        truth = {f"{name}_{how}": groups[name].agg(how) for name in "xy" for how in ("mean", "sum")}
        fitted = DPGroupBy(
            "k",
            epsilon,
            keys={"k": range(2000)},
            bounds={"x": (0, 100), "y": (-100, 0)},
            missing=missing,
            statistics=["count", "mean", "sum"],
            random_state=0,
        ).fit(table)
        for name, wanted in (truth | {"count": np.full(2000, 40)}).items():
            value, error, lower, upper = fitted.estimates_[name].T
            assert 0.935 <= np.mean((lower <= wanted) & (wanted <= upper)) <= (0.965 if name != "count" else 0.995) or (
                epsilon == 0.1 and name.endswith("mean")
            )
            assert np.sqrt(np.mean((value - wanted) ** 2) / np.mean(error**2)) <= 1.05

    @pytest.mark.long
    def test_it_is_more_accurate_than_parts_that_share_epsilon(self):
        """Splitting the table by hand: a count and a mean of each part, which must share epsilon by two at least."""
        small = PEOPLE[["job", "age"]]
        truth = exact(["job"], "mean", "age")[:2].to_numpy()
        ours, theirs = [], []
        for seed in range(60):
            found = grouped("job", 1.0, bounds=(0, 100), random_state=seed).fit(small).estimates_["age_mean"][:2, 0]
            parts = [small[small["job"] == job][["age"]] for job in ("clerk", "nurse")]
            by_hand = [DPMean(0.5, bounds=(0, 100), random_state=seed).fit(part).mean_[0] for part in parts]
            ours.append(found - truth)
            theirs.append(by_hand - truth)
        rmse = [np.sqrt(np.mean(np.square(errors), axis=0)) for errors in (ours, theirs)]
        assert (rmse[0] <= 0.9 * rmse[1]).all()

    def test_private_bounds(self):
        fitted = grouped("job", 20.0, bounds="private").fit(PEOPLE.drop(columns="sex"))
        assert fitted.bounds_.shape == (2, 2)
        assert fitted.bounds_[0][0] < 40 < fitted.bounds_[0][1] <= 160
        assert "on counts for bounds" in fitted.guarantee_.mechanism
        assert not hasattr(grouped("job", statistics="count").fit(PEOPLE), "bounds_")

    def test_tiny_and_huge_epsilons(self):
        for epsilon in (5e-324, 1e300):
            found = grouped(epsilon=epsilon, statistics=["count", "mean", "sum"]).fit(PEOPLE).to_frame()
            assert np.isfinite(found.to_numpy()).all()


class TestKeys:
    def test_private_keys_are_those_of_many(self):
        rare = pd.concat([PEOPLE, PEOPLE[:3].assign(job="pilot"), PEOPLE[:90].assign(sex=None)])
        fitted = grouped(keys="private", delta=1e-6, epsilon=5.0).fit(rare)
        found = fitted.to_frame()
        assert len(found) >= 5
        assert "pilot" not in str(found.index.tolist())
        assert fitted.guarantee_.delta == 1e-6
        assert "thresholds on keys" in fitted.guarantee_.mechanism
        wanted = exact(KEYS, "size", "age")
        assert found.loc[("clerk", "f"), "count"] == pytest.approx(wanted["clerk", "f"], abs=8)

    def test_a_table_in_which_no_key_is_found(self):
        for table in (PEOPLE[:3], pl.from_pandas(PEOPLE[:0])):
            fitted = grouped(keys="private", delta=1e-6).fit(table)
            assert len(fitted.to_frame()) == 0
            assert [one.size for one in fitted.keys_] == [0, 0]

    def test_keys_are_those_of_many_persons_not_of_many_rows(self):
        persons = [*range(400), *np.repeat(range(400, 405), 80)]
        table = pd.DataFrame({"job": ["many"] * 400 + ["few"] * 400})
        fitted = DPGroupBy("job", 10.0, delta=1e-6, keys="private", max_rows_per_person=80, random_state=0)
        found = fitted.fit(table, groups=persons)
        assert "rounded Gaussian noise and thresholds" in found.guarantee_.mechanism
        assert found.keys_[0].tolist() == ["many"]

    def test_the_rest_of_epsilon_is_for_the_statistics(self):
        every = grouped("job", 1.0, statistics="count").fit(PEOPLE)
        found = grouped("job", 1.25, statistics="count", keys="private", delta=1e-6).fit(PEOPLE)
        assert found.estimates_["count"][0, 1] == pytest.approx(every.estimates_["count"][0, 1])
        half = grouped("job", 2.0, statistics="count", keys="private", keys_share=0.5, delta=1e-6).fit(PEOPLE)
        assert half.estimates_["count"][0, 1] == pytest.approx(every.estimates_["count"][0, 1])

    def test_bins_missing_and_undeclared_keys(self):
        odd = PEOPLE.assign(job=["pilot", None] + ["clerk"] * 598)
        with pytest.raises(ValueError, match="column 'job' holds a value, or a NaN or inf, outside the declared keys"):
            grouped("job", statistics="count").fit(odd)
        ignored = grouped("job", 1e5, statistics="count", handle_unknown="ignore").fit(odd).estimates_["count"]
        assert ignored[:, 0].tolist() == [598, 0, 0]
        declared = grouped("job", 1e5, statistics="count", keys={"job": ["pilot", "clerk", None]}).fit(odd)
        assert declared.to_frame()["count"].tolist() == [1, 598, 1]
        known, missing = ({"job": "clerk", "n": 1.0}, 598), ({"job": None, "n": None}, 2)
        keys = {"job": ["clerk", None], "n": [1, None]}
        frame = pl.DataFrame([known[0]] * known[1] + [missing[0]] * missing[1])
        found = grouped(["job", "n"], 1e5, statistics="count", keys=keys).fit(frame)
        assert [one.tolist() for one in found.keys_] == [["clerk", "clerk", None, None], [1, None, 1, None]]
        assert found.to_frame()["count"].to_list() == [598, 0, 0, 2]
        assert found.to_frame()["n"].to_list() == [1, None, 1, None]
        bins = grouped("age", 1e5, statistics="count", keys=Interval(0, 100, bins=2)).fit(PEOPLE)
        assert bins.to_frame().index.tolist() == ["[0, 50)", "[50, 100]"]
        assert bins.to_frame()["count"].tolist() == [(PEOPLE["age"] < 50).sum(), (PEOPLE["age"] >= 50).sum()]

    def test_a_list_of_keys_is_one_list_for_each_key_column(self):
        with pytest.raises(ValueError, match=r"keys has 3 lists of values; it needs one .* columns \['job'\]"):
            grouped("job", statistics="count", keys=["clerk", "nurse", "smith"]).fit(PEOPLE)

    def test_persons_with_keys_of_their_own(self):
        visits = pd.DataFrame({"shop": [f"shop {row}" if row % 4 else "market" for row in range(280)]})
        who, found = np.repeat(np.arange(70), 4), []
        for seed in range(5):
            fitted = DPGroupBy("shop", 5.0, delta=1e-6, keys="private", max_rows_per_person=4, random_state=seed).fit(
                visits, groups=who
            )
            found.append(fitted.keys_[0].tolist())
            assert "Gaussian" in fitted.guarantee_.mechanism
        assert found.count(["market"]) >= 4


class TestFrames:
    def test_frames_of_all_kinds(self):
        wanted = grouped().fit(PEOPLE).to_frame()
        for table in (pl.from_pandas(PEOPLE), pl.from_pandas(PEOPLE).to_arrow(), pl.from_pandas(PEOPLE).lazy()):
            found = grouped().fit(table).to_frame()
            rows = found.to_pandas() if not isinstance(found, pl.DataFrame) else found
            assert list(rows.columns) == ["job", "sex", *wanted.columns]
            assert np.asarray(rows)[:, 2:].astype(float).tolist() == wanted.to_numpy().tolist()
        array = PEOPLE.to_numpy(object)
        ends = {"x2": BOUNDS["age"], "x3": BOUNDS["pay"]}
        by_place = DPGroupBy(
            ["x0", "x1"], keys={"x0": KEYS["job"], "x1": KEYS["sex"]}, bounds=ends, random_state=0
        ).fit(array)
        assert by_place.to_frame().to_numpy().tolist() == wanted.to_numpy().tolist()

    @pytest.mark.long
    @pytest.mark.parametrize("missing", ["ignore", "error"])
    def test_large_tables(self, missing):
        """Few different rows are counted by the database."""
        duckdb = pytest.importorskip("duckdb")
        whole = PEOPLE.assign(age=PEOPLE["age"].astype(int), pay=PEOPLE["pay"].fillna(3).astype(int))
        large = duckdb.from_df(whole)
        parameters = {"missing": missing, "statistics": ["count", "mean", "sum"]}
        for table, names in ((large, list(whole)), (large.project("job, age"), ["job", "age"])):
            by, bounds = (
                ("job", "sex") if len(names) > 2 else "job",
                {name: BOUNDS[name] for name in names if name in BOUNDS},
            )
            wanted = grouped(by, bounds=bounds, **parameters).fit(whole[names]).estimates_
            found = grouped(by, bounds=bounds, **parameters).fit(table).estimates_
            assert all(found[name].tolist() == wanted[name].tolist() for name in wanted)

    def test_mistakes_in_large_tables(self):
        lazy = pl.from_pandas(PEOPLE).lazy()
        with pytest.raises(ValueError, match="column 'pay' holds a missing value"):
            grouped(missing="error").fit(lazy)
        with pytest.raises(ValueError, match="column 'job' holds a value"):
            grouped("job", keys={"job": ["clerk"]}, statistics="count").fit(lazy)
        with pytest.raises(TypeError, match="keys='private' needs the values"):
            grouped(keys="private", delta=1e-6).fit(lazy)

    def test_files(self, tmp_path):
        for fitted in (grouped().fit(PEOPLE), grouped(keys="private", delta=1e-6).fit(pl.from_pandas(PEOPLE))):
            save(fitted, tmp_path / "groups.skdp")
            again = load(tmp_path / "groups.skdp").to_frame()
            assert again.equals(fitted.to_frame())
            public = {"keys_", "estimates_", "_library", "bounds_", "guarantee_", "n_features_in_", "feature_names_in_"}
            assert set(vars(fitted)) - set(fitted.get_params()) == public


class TestPromise:
    @pytest.mark.parametrize("epsilon", [0.7, Rho(0.1, delta=1e-6), Mu(0.4, delta=1e-6)])
    def test_the_guarantee(self, epsilon):
        guarantee = grouped(epsilon=epsilon).fit(PEOPLE).guarantee_
        assert guarantee.scope == tuple(PEOPLE.columns)
        assert guarantee.relation == "add_remove"
        if epsilon == 0.7:
            assert (guarantee.epsilon, guarantee.delta) == (0.7, 0)
        else:
            assert guarantee.rho <= 0.1 * (1 + 1e-9)

    def test_the_statement_and_the_cost(self):
        ledger = PrivacyLedger(epsilon=1.0, delta=1e-6)
        groups = grouped(keys="private", delta=1e-6, ledger=ledger)
        assert privacy_statement(groups).total.epsilon == 1.0
        statement = privacy_statement(groups.fit(PEOPLE))
        assert statement.total.epsilon == 1.0
        assert ledger.spent == (1.0, 1e-6)


@each(
    "parameters error message",
    [
        ({"by": "town"}, ValueError, r"by must name columns of X, got \['town'\]"),
        ({"by": []}, ValueError, "by must name one or several different columns"),
        ({"by": ["job", "job"]}, ValueError, "by must name one or several different columns"),
        ({"statistics": "median"}, ValueError, "statistics must be one of"),
        ({"statistics": []}, ValueError, "X has no columns for statistics="),
        ({"by": list(PEOPLE.columns), "statistics": "mean"}, ValueError, "X has no columns for statistics='mean'"),
        ({"keys": None}, ValueError, "keys"),
        ({"keys": "auto"}, ValueError, "keys must be declared"),
        ({"keys": {"job": range(2000), "sex": range(2000)}}, ValueError, "keys has 4,000,000 combinations"),
        ({"keys": "private"}, ValueError, "keys='private' needs delta > 0"),
        ({"keys": "private", "delta": 0.1, "keys_share": 1.0}, ValueError, "keys_share must be between 0 and 1"),
        ({"bounds": None}, ValueError, "bounds must be declared"),
        ({"missing": "error"}, ValueError, "column 'pay' holds a missing value"),
        ({"by": "job"}, TypeError, "sex"),
        ({"confidence_level": 1}, ValueError, "confidence_level must be"),
    ],
)
def test_mistakes_cost_nothing(parameters, error, message):
    ledger = PrivacyLedger(epsilon=1.0, delta=0.5)
    bounds = {"sex": (0, 1)} if parameters == {"by": "job"} else {}
    with pytest.raises(error, match=message):
        grouped(ledger=ledger, bounds=BOUNDS | bounds).set_params(**parameters).fit(PEOPLE)
    assert ledger.spent == (0, 0)


def test_results_of_one_name_are_refused():
    table = PEOPLE.rename(columns={"job": "count"})
    with pytest.raises(ValueError, match="two columns of the result would be called 'count'"):
        DPGroupBy("count", keys={"count": KEYS["job"]}, statistics="count").fit(table)


def test_the_share_of_keys_is_exact(monkeypatch):
    seen = []
    monkeypatch.setattr(
        "skdp.central.statistics._partitions.plan_discovery",
        lambda share, delta, n, persons: seen.append((share, delta, n)),
    )
    with pytest.raises(AttributeError):
        grouped(keys="private", delta=0.25, keys_share=0.5).fit(PEOPLE)
    assert [(share.amount, delta, n) for share, delta, n in seen] == [(Fraction(1, 2), Fraction(1, 4), 1)]
