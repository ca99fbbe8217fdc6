import itertools

import numpy as np
import pandas as pd
import polars as pl
import pytest

from skdp import Domain, DPGroupBy, Interval
from skdp.privacy import Rho

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


def make_groups(by=("job", "sex"), epsilon=1.0, **parameters):
    by = list(by) if isinstance(by, tuple) else by
    given = {"keys": {name: KEYS[name] for name in (by if isinstance(by, list) else [by]) if name in KEYS}}
    return DPGroupBy(epsilon, by=by, **given | {"bounds": BOUNDS, "random_state": 0} | parameters)


def exact(by, statistic, column):
    table = PEOPLE.groupby(list(by))[column].agg(statistic)
    return table.reindex(Domain({name: KEYS[name] for name in by}).cells())


class TestAnswers:
    def test_statistics_at_a_large_epsilon_are_exact(self):
        fitted = make_groups(epsilon=1e6, statistics=["count", "mean", "sum"]).fit(PEOPLE)
        found = fitted.to_frame()
        assert found.index.names == ["job", "sex"]
        assert found["count"].tolist() == exact(KEYS, "size", "age").fillna(0).astype(int).tolist()
        for column, statistic in itertools.product(("age", "pay"), ("mean", "sum")):
            expected = exact(KEYS, statistic, column)
            np.testing.assert_allclose(found[f"{column}_{statistic}"][:4], expected[:4], rtol=1e-4)
        assert found["pay_mean"][4:].isna().all()  # empty groups
        assert found["pay_mean_std_error"][4:].isna().all()
        assert found["pay_sum"][4:].notna().all()

    @pytest.mark.parametrize(
        ("epsilon", "level"),
        [(1.0, 0.95), (Rho(0.05, delta=1e-6), 0.95), (0.1, 0.95), (1.0, 0.5), (1.0, 0.9), (1.0, 0.99)],
    )
    def test_intervals_cover_the_statistics(self, epsilon, level):
        """2,000 groups of 40 rows; with a small epsilon the noise exceeds many means, so their intervals are wide."""
        rng, keys = np.random.default_rng(1), np.repeat(np.arange(2000), 40)
        x, y = rng.gamma(2, 10, keys.size).clip(0, 100), rng.normal(-50, 9, keys.size).clip(-100, 0)
        table = pd.DataFrame({"k": keys, "x": x, "y": np.where((np.arange(keys.size) % 3 == 0), np.nan, y)})
        groups = table.groupby("k")
        truth = {f"{name}_{how}": groups[name].agg(how) for name in "xy" for how in ("mean", "sum")}
        fitted = DPGroupBy(
            epsilon,
            by="k",
            keys={"k": range(2000)},
            bounds={"x": (0, 100), "y": (-100, 0)},
            statistics=["count", "mean", "sum"],
            confidence_level=level,
            random_state=2,
        ).fit(table)
        for name, expected in (truth | {"count": np.full(2000, 40)}).items():
            value, error, lower, upper = fitted.estimates_[name].T
            share = np.mean((lower <= expected) & (expected <= upper))
            slack = 4 * np.sqrt(level * (1 - level) / 2000)
            assert level - slack <= share <= 1 - (1 - level) / 10 or (epsilon == 0.1 and name.endswith("mean"))
            if name.endswith("sum") and isinstance(
                epsilon, float
            ):  # as wide as for the difference of two uniform numbers
                assert (upper - lower >= (2 - 1e-9) * error * np.sqrt(6) * (1 - np.sqrt(1 - level))).all()
            is_known = ~np.isnan(value)
            assert is_known.mean() > 0.9 or epsilon == 0.1
            squares = ((value - expected) ** 2)[is_known], (error**2)[is_known]
            assert np.sqrt(np.mean(squares[0]) / np.mean(squares[1])) <= 1.05 or epsilon == 0.1

    def test_lower_bound_of_a_variance_allows_for_the_error_of_its_mean(self, monkeypatch):
        """Noise moves the mean by its margin, and the squares until the interval begins at the variance around it."""
        n, grid = 20, 1 << 29
        margin = -np.log(0.05) / np.sqrt(2) * np.sqrt(20 / 3) / n  # of three numbers, divided by the number of rows
        norm = np.sqrt(0.25 + 4 * margin**2 + 0.25**2)
        noise = [0, margin, 2 * (margin * norm + 2 * margin**2)]
        drawn = np.array([[round(n * grid * number) for number in noise]], object)
        monkeypatch.setattr("skdp.central.statistics._calibrated_noise.cube_noise", lambda *_: drawn)
        fitted = DPGroupBy(1.0, by=None, bounds=(-1.0, 1.0), statistics="var").fit(
            pd.DataFrame({"x": [-0.5, 0.5] * 10})
        )
        value, _, lower, _ = fitted.estimates_["x_var"][0]
        assert value > 0.5
        assert lower <= 0.25

    def test_standard_errors_of_deviations_follow_from_the_errors_of_variances(self):
        fitted = make_groups(epsilon=50.0, statistics=["std", "var"]).fit(PEOPLE)
        deviations, variances = (fitted.estimates_[f"age_{name}"][:2] for name in ("std", "var"))
        assert deviations[:, 0] ** 2 == pytest.approx(variances[:, 0])
        assert 2 * deviations[:, 0] * deviations[:, 1] == pytest.approx(variances[:, 1])


def test_missing_keys_have_groups_and_unknown_keys_are_excluded():
    odd = PEOPLE.assign(job=["pilot", None] + ["clerk"] * 598)
    ignored = make_groups("job", 1e5, statistics="count", handle_unknown="ignore").fit(odd).estimates_["count"]
    assert ignored[:, 0].tolist() == [598, 0, 0]
    declared = make_groups("job", 1e5, statistics="count", keys={"job": ["pilot", "clerk", None]}).fit(odd)
    assert declared.to_frame()["count"].tolist() == [1, 598, 1]
    known, missing = ({"job": "clerk", "n": 1.0}, 598), ({"job": None, "n": None}, 2)
    keys = {"job": ["clerk", None], "n": [1, None]}
    frame = pl.DataFrame([known[0]] * known[1] + [missing[0]] * missing[1])
    found = make_groups(["job", "n"], 1e5, statistics="count", keys=keys).fit(frame)
    assert [one.tolist() for one in found.keys_] == [["clerk", "clerk", None, None], [1, None, 1, None]]
    assert found.to_frame()["count"].to_list() == [598, 0, 0, 2]
    assert found.to_frame()["n"].to_list() == [1, None, 1, None]
    bins = make_groups("age", 1e5, statistics="count", keys=Interval(0, 100, bins=2)).fit(PEOPLE)
    assert bins.to_frame().index.tolist() == ["[0, 50)", "[50, 100]"]
    assert bins.to_frame()["count"].tolist() == [(PEOPLE["age"] < 50).sum(), (PEOPLE["age"] >= 50).sum()]


def test_repeated_statistic_raises_an_error_that_names_the_parameter():
    with pytest.raises(ValueError, match=r"`statistics` must not name a statistic twice, got \['mean', 'mean'\]"):
        make_groups("job", 1.0, statistics=["mean", "mean"]).fit(PEOPLE)


def test_column_in_place_of_its_name_raises_an_error():
    with pytest.raises(TypeError, match="`by` must be the name of a column, got Series"):
        DPGroupBy(1.0, by=PEOPLE["job"], keys={"job": ["clerk"]}, statistics="count").fit(PEOPLE)


class TestOpenEnds:
    """`DPGroupBy` required two ends of each column, and nobody may look for the largest income of a table."""

    def test_groups_without_bounds_are_close(self):
        rng = np.random.default_rng(2)
        table = pd.DataFrame(
            {"k": ["a", "b"] * 2000, "pay": rng.lognormal(10, 0.5, 4000), "age": rng.normal(45, 9, 4000)}
        )
        statistics = ["count", "mean", "sum", "std", "median"]
        model = DPGroupBy(5.0, by="k", keys={"k": ["a", "b"]}, statistics=statistics, random_state=0)
        fitted = model.fit(table)
        found, groups = fitted.to_frame(), table.groupby("k")
        for statistic, column in itertools.product(statistics[1:], ("pay", "age")):
            true = groups[column].agg(statistic)
            assert found[f"{column}_{statistic}"].to_numpy() == pytest.approx(true.to_numpy(), rel=0.1)
            if statistic != "std":
                inside = table[column].clip(*fitted.bounds_[["pay", "age"].index(column)]).groupby(table["k"])
                assert (found[f"{column}_{statistic}_lower"] <= inside.agg(statistic)).all()
                assert (inside.agg(statistic) <= found[f"{column}_{statistic}_upper"]).all()

    def test_mapping_names_the_columns_to_measure(self):
        fitted = make_groups("sex", bounds={"age": (0, None)}).fit(PEOPLE)
        assert list(fitted.estimates_) == ["count", "age_mean"]
        assert fitted.bounds_.shape == (1, 2)
        assert fitted.bounds_[0, 0] == 0
        assert dict(fitted.guarantee_.method)["bounds"] == "age from 0 to a limit that is found"
        with pytest.raises(ValueError, match=r"keys of `bounds` must be columns of X, \['job', 'age', 'pay'\], got"):
            make_groups("sex", bounds={"agee": (0, None)}).fit(PEOPLE)

    def test_limits_of_groups_are_narrower_than_of_all_rows(self):
        """The noise of each group counts, and the records beyond a limit are divided among the groups."""
        rng = np.random.default_rng(3)
        table = pd.DataFrame({"sex": rng.choice(["f", "m"], 5000), "age": rng.lognormal(3, 1.5, 5000)})
        measured = {"age": (0, None)}
        of_groups, of_all = [
            [make_groups(by, 0.5, bounds=measured, random_state=s, **keys).fit(table).bounds_[0, 1] for s in range(8)]
            for by, keys in [("sex", {}), (None, {"keys": None})]
        ]
        assert np.mean(of_groups) < 0.9 * np.mean(of_all)

    def test_counts_need_no_limits(self):
        fitted = make_groups("sex", bounds=None, statistics="count").fit(PEOPLE)
        assert "limits" not in fitted.guarantee_.mechanism
        assert not hasattr(fitted, "bounds_")

    @pytest.mark.parametrize("bounds", [None, (0, None), {"age": None, "pay": (0, 900)}])
    def test_quantiles_have_any_decimals(self, bounds):
        table = PEOPLE.assign(age=PEOPLE["age"] + 0.5)[["sex", "age", "pay"]]
        fitted = make_groups("sex", 50.0, bounds=bounds, statistics=[0.25, "median"]).fit(table)
        assert fitted.to_frame()["age_median"].between(45, 55).all()

    def test_statistics_of_persons_and_weights(self):
        fitted = make_groups("sex", 20.0, bounds=None, max_weight=2.0, max_rows_per_person=2)
        table = PEOPLE[["sex", "age"]].assign(person=np.arange(600) // 2, weight=1.5)
        found = fitted.fit(table, sample_weight="weight", person="person").to_frame()
        assert found["age_mean"].to_numpy() == pytest.approx(table.groupby("sex")["age"].mean().to_numpy(), rel=0.1)
