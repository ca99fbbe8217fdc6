"""Totals, standard deviations and weighted quantiles of groups: exactness, sums, coverage and replays of neighbors."""

import math

import numpy as np
import pandas as pd
import polars as pl
import pytest

import skdp.engines  # noqa: F401, so that `fit` reads a LazyFrame
from skdp import DPGroupBy
from skdp.privacy import Mu, Rho
from skdp.testing import replay_release
from tests.conftest import diagonal, often
from tests.errors import refusal

KEYS = {"region": ["n", "s", "w"], "sex": ["f", "m"]}
ALL = ["count", "sum", "mean", "std", "var", "median"]


def make_people(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    people = pd.DataFrame({name: rng.choice(values, n) for name, values in KEYS.items()})
    return people.assign(income=rng.integers(0, 500, n), w=rng.choice([0.5, 1.0, 2.0], n))


def make_groups(epsilon=1.0, by=("region", "sex"), **parameters):
    given = {"keys": {name: KEYS[name] for name in by}, "bounds": (0, 1000), "statistics": ALL, "random_state": 0}
    return DPGroupBy(epsilon, by=list(by), **given | parameters)


def weighted_quantile(values, weights, probability):
    order = np.argsort(values)
    ranks = np.cumsum(weights[order])
    return values[order][np.searchsorted(ranks, probability * ranks[-1])]


def describe(rows, weights):
    """Return the statistics of a group, with weights."""
    values = rows["income"].to_numpy(float)
    mean = np.average(values, weights=weights)
    variance = np.average((values - mean) ** 2, weights=weights)
    median = weighted_quantile(values, weights, 0.5)
    return [weights.sum(), (weights * values).sum(), mean, math.sqrt(variance), variance, median]


@pytest.mark.parametrize("by", [("region", "sex"), ("sex",)], ids=len)
@pytest.mark.parametrize("weighted", [False, True])
def test_cells_and_totals_at_large_epsilon_are_exact_in_all_libraries(by, weighted):
    people = make_people()
    model = make_groups(1e7, by, totals="quantiles", max_weight=2 if weighted else None)
    columns = [*by, "income", *(["w"] if weighted else [])]
    options = {"sample_weight": "w"} if weighted else {}
    found = model.fit(people[columns], **options).to_frame()
    assert len(found) == math.prod(len(KEYS[name]) + 1 for name in by)
    for index, row in found.iterrows():
        values = index if len(by) > 1 else (index,)
        rows = people
        for name, value in zip(by, values, strict=True):
            rows = rows if value == "total" else rows[rows[name] == value]
        expected = describe(rows, rows["w"].to_numpy() if weighted else np.ones(len(rows)))
        released = row[["count", *(f"income_{name}" for name in ALL[1:])]].tolist()
        np.testing.assert_allclose(released[:-1], expected[:-1], rtol=1e-3)
        assert released[-1] == pytest.approx(expected[-1], abs=3)  # any number between two values is a median
    for table in (pl.from_pandas(people[columns]), pl.from_pandas(people[columns]).lazy()):
        again = model.fit(table, **options).to_frame()
        again = again.to_pandas() if hasattr(again, "to_pandas") else again
        again = again.set_index(list(by)) if by[0] in again else again
        pd.testing.assert_frame_equal(again, found, check_index_type=False, check_column_type=False)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, Rho(0.1, delta=1e-6)])
def test_cells_add_up_to_whole_totals(weighted, epsilon):
    people = make_people()
    options = {"sample_weight": "w"} if weighted else {}
    model = make_groups(epsilon, statistics=["count", "sum"], totals=True, max_weight=2 if weighted else None)
    found = model.fit(people if weighted else people.drop(columns="w"), **options).to_frame()
    for name in ("count", "income_sum"):
        table = found[name].unstack(sort=False)
        np.testing.assert_allclose(table.iloc[:-1].sum(), table.loc["total"], rtol=1e-12)
        np.testing.assert_allclose(table.iloc[:, :-1].sum(axis=1), table["total"], rtol=1e-12)
        assert weighted or (table % 1 == 0).all(axis=None)
        error = model.estimates_[name][:, 1].reshape(4, 3)
        assert error[3, 2] == pytest.approx(math.sqrt(6) * error[0, 0], rel=1e-6)
        assert error[3, 0] == pytest.approx(math.sqrt(3) * error[0, 0], rel=1e-6)


@pytest.mark.parametrize(("epsilon", "n_rows"), diagonal([1.0, Rho(0.5, delta=1e-6), 0.2], [30, 300]))
def test_intervals_cover_deviations_and_totals(n_rows, epsilon):
    """400 keys with two groups each: the intervals of 800 groups and of their 400 totals."""
    rng, n_keys = np.random.default_rng(1), 400
    table = pd.DataFrame({"k": np.repeat(np.arange(n_keys), n_rows), "sex": rng.choice(["f", "m"], n_keys * n_rows)})
    table["x"] = rng.gamma(2, 10, len(table)).clip(0, 100)
    keys = {"k": range(n_keys), "sex": ["f", "m"]}
    statistics = ["count", "mean", "sum", "std", "var"]
    model = DPGroupBy(epsilon, by=["k", "sex"], keys=keys, bounds=(0, 100), statistics=statistics, totals=True)
    found = model.set_params(random_state=0).fit(table).to_frame()
    exact = {"mean": "mean", "sum": "sum", "std": lambda x: x.std(ddof=0), "var": lambda x: x.var(ddof=0)}
    cells, totals = table.groupby(["k", "sex"])["x"], table.groupby("k")["x"]
    for rows, groups in ((found[~_is_total(found)], cells), (found.xs("total", level="sex").iloc[:-1], totals)):
        for name in ("count", *(f"x_{statistic}" for statistic in exact)):
            truth = (groups.size() if name == "count" else groups.agg(exact[name[2:]])).to_numpy()
            lower, upper = rows[f"{name}_lower"].to_numpy(), rows[f"{name}_upper"].to_numpy()
            share = np.mean((lower <= truth) & (truth <= upper))
            assert share >= 0.95 - 4 * math.sqrt(0.95 * 0.05 / len(truth)), (name, share)
            value, error = rows[name].to_numpy(), rows[f"{name}_std_error"].to_numpy()
            if n_rows == 300 and epsilon == 1.0:
                assert 0.75 < np.sqrt(np.mean((value - truth) ** 2) / np.mean(error**2)) < 1.15, (
                    name,
                    np.sqrt(np.mean((value - truth) ** 2) / np.mean(error**2)),
                )


def _is_total(found):
    return np.logical_or.reduce([found.index.get_level_values(name) == "total" for name in found.index.names])


@pytest.mark.parametrize(
    ("seeds", "n_rows", "epsilon", "weighted"),
    diagonal(
        often([[7, 11], range(12)], [[7, 11]]),
        [1, 2],
        [1.0, Rho(0.1, delta=1e-6), Mu(0.5, delta=1e-6)],
        [False, True],
    ),
)
def test_neighbors_by_record_or_person_cost_at_most_epsilon(seeds, epsilon, n_rows, weighted):
    model = make_groups(
        epsilon,
        totals="quantiles",
        statistics=["count", "std", "median", 0.9],
        max_rows_per_person=n_rows,
        handle_unknown="ignore",
        max_weight=2 if weighted else None,
    )
    used = []
    for seed in seeds:
        rng = np.random.default_rng([1, seed])  # of each seed, so that fewer seeds are some of the same neighbors
        people = make_people(3 + n_rows, seed).assign(income=rng.choice([0.0, 500, 1000, math.nan], 3 + n_rows))
        people["w"] = rng.choice([0.0, 0.5, 2.0, 9.0, math.nan], len(people))
        people["region"] = rng.choice(["n", "s", "?"], len(people))

        def release(rows, seed=seed):
            options = {"sample_weight": "w"} if weighted else {}
            return model.set_params(random_state=seed).fit(rows if weighted else rows.drop(columns="w"), **options)

        replay = replay_release(release, people, people[:-n_rows])
        assert replay.passed, replay.findings
        used.append(replay.epsilon / replay.guarantee.epsilon)
    assert 0.15 < max(used) <= 1 + 1e-9  # a weight of 0.5 changes sums by a quarter of the largest weight


@pytest.mark.parametrize(
    ("epsilon", "weighted"), diagonal([1.0, Rho(0.1, delta=1e-6), Mu(0.5, delta=1e-6)], [False, True])
)
def test_record_with_the_largest_sums_costs_epsilon(epsilon, weighted):
    """A value at a bound changes the count, the number of values, their sum and their squares by the sensitivity."""
    model = make_groups(epsilon, statistics=["count", "std"], max_weight=2 if weighted else None)
    options = {"sample_weight": "w"} if weighted else {}
    used = []
    for income, weight in [(0.0, 2.0), (300.0, 2.0), (1000.0, 0.5), (1000.0, 2.0), (math.nan, 2.0)]:
        people = make_people(3).assign(income=[500.0, 20.0, income], w=[1.0, 2.0, weight])
        people = people if weighted else people.drop(columns="w")
        replay = replay_release(lambda rows: model.fit(rows, **options), people, people[:-1])
        assert replay.passed, replay.findings
        used.append(replay.epsilon / replay.guarantee.epsilon)
    assert max(used) == pytest.approx(1, rel=1e-6)


@pytest.mark.parametrize("probability", often([0.5, 0.9], [0.9]))
def test_intervals_cover_weighted_quantiles(probability):
    rng, n_groups, n_rows = np.random.default_rng(2), 400, 100
    table = pd.DataFrame({"k": np.repeat(np.arange(n_groups), n_rows), "x": rng.gamma(2, 10, n_groups * n_rows)})
    weights = rng.choice([0.5, 2.0, 4.0], len(table))
    model = DPGroupBy(
        4.0, by="k", keys={"k": range(n_groups)}, bounds=(0.0, 200.0), statistics=probability, max_weight=4
    )
    fitted = model.set_params(random_state=0).fit(table, sample_weight=weights)
    (estimate,) = fitted.estimates_.values()
    truth = [
        weighted_quantile(rows["x"].to_numpy(), weights[rows.index], probability) for _, rows in table.groupby("k")
    ]
    value, _, lower, upper = estimate.T
    assert np.mean((lower <= truth) & (truth <= upper)) >= 0.95 - 4 * math.sqrt(0.95 * 0.05 / n_groups)
    assert np.median(np.abs(value - truth)) < 15


def test_group_without_values_is_empty_and_has_counts():
    people = make_people().assign(income=lambda rows: rows["income"].where(rows["region"] != "w"))
    for table in (people.drop(columns="w"), pl.from_pandas(people.drop(columns="w"))):
        found = make_groups(totals="quantiles").fit(table).to_frame()
        if isinstance(found, pl.DataFrame):
            empty = found.filter(pl.col("region") == "w")
            assert empty["income_mean"].null_count() == empty["income_median"].null_count() == 3
            assert found["income_mean"].null_count() == 3
            continue
        names = [f"income_{name}" for name in ("mean", "std", "var", "median")]
        assert found.loc["w", names].isna().all(axis=None)
        assert found[found.index.get_level_values("region") != "w"][names].notna().all(axis=None)
        assert (found.loc["w", "count"] > 400).all()


def test_columns_of_a_table_do_not_depend_on_empty_groups():
    people = make_people().drop(columns="w")
    full, empty = (
        make_groups(random_state=1).fit(rows).to_frame() for rows in (people, people.assign(income=math.nan))
    )
    assert list(full) == list(empty)
    assert empty["income_mean"].isna().all()


@pytest.mark.parametrize(
    ("given", "losses"),
    [
        ({"statistics": ["count", "median"], "intervals": False}, [(1.0, 1), (1.0, 1)]),
        ({"statistics": ["count", "mean", "median"], "intervals": False}, [(1.26, 1), (0.74, 1)]),
        ({"statistics": ["count", "mean", "median"]}, [(0.8, 1), (0.4, 3)]),
        ({"statistics": ["count", "mean", "median"], "totals": True}, [(0.8, 1), (0.4, 3)]),
        ({"statistics": ["count", "median"], "totals": "quantiles", "intervals": False}, [(0.66, 1), (0.335, 4)]),
    ],
)
def test_budget_is_divided_by_the_numbers_of_sums_and_choices(given, losses):
    fitted = make_groups(2.0, **given).fit(make_people().drop(columns="w"))
    found = [(loss.epsilon, loss.count) for loss in fitted.guarantee_.losses]
    assert np.array(found) == pytest.approx(np.array(losses))
    part = round(50 * losses[0][0])
    assert (
        f"({part}% of the budget); exponential mechanism ({100 - part}% of the budget)" in fitted.guarantee_.mechanism
    )


def test_totals_of_quantiles_are_asked_for_and_do_not_change_the_cells():
    people = make_people().drop(columns="w")
    options = {"statistics": ["count", "mean", "median"]}
    cells, totals = (make_groups(totals=totals, **options).fit(people).to_frame() for totals in (False, True))
    is_total = _is_total(totals)
    assert totals.loc[is_total, "income_median"].isna().all()
    assert totals.loc[is_total, "income_mean"].notna().all()
    np.testing.assert_array_equal(totals.loc[~is_total, "income_median"], cells["income_median"])


def test_medians_of_the_first_job_page_are_precise():
    """1,500 rows with half of the largest weight; with medians of totals, the error was 160 and the width 1,230."""
    rng = np.random.default_rng(0)
    income = rng.lognormal(7.6, 0.5, 1500).round()
    keys = {"region": ["west", "east", "south"], "sex": ["f", "m"]}
    sample = pd.DataFrame({"region": "west", "sex": "f", "income": income})
    options = {"statistics": ["count", "mean", "median"], "totals": True, "max_weight": 40.0, "bounds": (0, 10_000)}
    found = []
    for seed in range(15):
        model = DPGroupBy(1.0, by=["region", "sex"], keys=keys, random_state=seed, **options)
        found.append(model.fit(sample, sample_weight=np.full(1500, 20.0)).estimates_["income_median"][0])
    value, _, lower, upper = np.array(found).T
    assert np.sqrt(np.mean((value - np.median(income)) ** 2)) < 30
    assert np.mean(upper - lower) < 330


@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        ({"by": (), "totals": True}, "`by` must name at least one column"),
        ({"totals": 1}, "`totals` must be True, False or 'quantiles', got 1"),
        ({"totals": "quantile"}, "`totals` must be True, False or 'quantiles', got 'quantile'"),
        ({"totals": "quantiles", "statistics": ["mean"]}, "`totals` must be True for counts and sums"),
        ({"totals": True, "statistics": ["median"]}, "or 'quantiles' for quantiles, too, got True"),
        ({"totals": True, "keys": {"region": ["n", "total"], "sex": ["f"]}}, "must not contain 'total'"),
        ({"statistics": ["stdev"]}, "`statistics` must be"),
    ],
)
def test_mistakes_raise_errors_before_the_charge(parameters, match):
    with refusal((TypeError, ValueError), match) as ledger:
        make_groups(ledger=ledger, **parameters).fit(make_people().drop(columns="w"))


def test_totals_require_keys():
    with pytest.raises(ValueError, match="`totals` requires keys in `by`, got by=None"):
        DPGroupBy(by=None, bounds=(0, 1000), totals=True).fit(make_people()[["income"]])


SPARSE = often([(30, 20, 3000, 0.05), (6, 4, 20000, 1.0), (30, 20, 300, 0.05)], [(30, 20, 3000, 0.05)])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("epsilon", [0.1, 1.0])
@pytest.mark.parametrize("shape", SPARSE, ids=str)
def test_postprocessed_tables_are_not_negative_add_up_and_are_covered(shape, epsilon, weighted):
    n_rows, n_columns, n, alpha = shape
    rng = np.random.default_rng(0)
    keys = {"a": range(n_rows), "b": range(n_columns)}
    model = DPGroupBy(epsilon, by=["a", "b"], keys=keys, bounds=(0.0, 1000.0), statistics=["count", "sum"], totals=True)
    model.set_params(max_weight=2 if weighted else None)
    covered, errors = [], []
    for seed in range(4):
        cells = rng.choice(n_rows * n_columns, n, p=rng.dirichlet(np.full(n_rows * n_columns, alpha)))
        rows = pd.DataFrame({"a": cells // n_columns, "b": cells % n_columns, "x": rng.gamma(2, 100, n).clip(0, 1000)})
        weight = rng.choice([0.5, 1, 2.0], n) if weighted else np.ones(n)
        fitted = model.set_params(random_state=seed).fit(rows, sample_weight=weight if weighted else None)
        raw, table = fitted.to_frame(), fitted.to_frame(postprocess="simplex")
        for name, values in (("count", weight), ("x_sum", weight * rows["x"])):
            true = np.zeros((n_rows, n_columns))
            np.add.at(true, (rows["a"], rows["b"]), values)
            true = np.block([[true, true.sum(1, keepdims=True)], [true.sum(0), true.sum()]]).ravel()
            value, lower, upper = (table[name + suffix].to_numpy(float) for suffix in ("", "_lower", "_upper"))
            assert ((value >= 0) & (lower >= 0) & (lower <= value) & (value <= upper)).all()
            square = value.reshape(n_rows + 1, n_columns + 1)
            np.testing.assert_allclose(square[:-1].sum(0), square[-1], atol=1e-6)
            np.testing.assert_allclose(square[:, :-1].sum(1), square[:, -1], atol=1e-6)
            # Rounding of cells in one direction changed the total by up to a hundred steps.
            assert value[-1] == pytest.approx(max(raw[name].iloc[-1], 0), abs=0.6, rel=0)
            covered.append((lower <= true + 1e-6) & (true <= upper + 1e-6))
            errors.append([np.sum((numbers - true) ** 2) for numbers in (value, raw[name])])
    n_covered = 8 * len(true)
    # Cells of a total are dependent, so a tenth of the intervals counts.
    assert np.mean(covered) >= 0.95 - 4.9 * math.sqrt(0.95 * 0.05 / (n_covered / 10))
    processed, unbiased = np.sum(errors, axis=0)
    # The mean of 60 fits is 0.94 to 0.98 of the errors, and that of four is up to 1.02.
    assert processed <= 1.05 * unbiased


def test_counts_without_columns_are_postprocessed():
    fitted = make_groups(0.1, statistics="count", totals=True, bounds=None).fit(make_people(20).drop(columns="w"))
    assert fitted.to_frame()["count"].min() < 0 <= fitted.to_frame(postprocess="simplex")["count"].min()


def test_sums_that_may_be_negative_are_not_postprocessed():
    rows = make_people(20).drop(columns="w").assign(income=lambda table: table["income"] - 250)
    fitted = make_groups(0.1, statistics=["count", "sum"], totals=True, bounds=(-250.0, 250.0)).fit(rows)
    raw, table = fitted.to_frame(), fitted.to_frame(postprocess="simplex")
    pd.testing.assert_series_equal(raw["income_sum"], table["income_sum"])
    assert raw["count"].min() < 0 <= table["count"].min()
    with pytest.raises(ValueError, match="`postprocess` must be one of 'none', 'simplex', got 'clip'"):
        fitted.to_frame(postprocess="clip")
