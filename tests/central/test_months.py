"""Counts and means of the last month that use earlier months: errors, coverage, breaks and mistakes."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

from skdp import DPGroupBy
from skdp.central import filter_months
from skdp.privacy import Rho
from tests.conftest import often


def release_months(n_cells, n_months, epsilon, change, seed=0, *, jump=None, weights=None):
    """Release counts and means of cells that change each month; return the releases and the last true numbers."""
    rng = np.random.default_rng(seed)
    rates, centers = rng.lognormal(4.5, 1.0, n_cells), rng.uniform(20, 80, n_cells)
    months = []
    for month in range(n_months):
        rates = rates * np.exp(rng.normal(0, change, n_cells))
        centers = centers + rng.normal(0, 20 * change, n_cells)
        if jump and month == jump[0]:
            rates = rates * np.where(np.arange(n_cells) < jump[1] * n_cells, jump[2], 1)
        key = np.repeat(np.arange(n_cells), rng.poisson(rates))
        rows = pd.DataFrame({"k": key, "x": rng.normal(centers[key], 10).clip(0, 100)})
        weight = None if weights is None else rng.choice(weights, len(rows))
        model = DPGroupBy(epsilon, by="k", keys={"k": range(n_cells)}, bounds=(0.0, 100.0), totals=True)
        model.set_params(max_weight=None if weights is None else max(weights), random_state=1000 * seed + month)
        months.append(model.fit(rows, sample_weight=weight))
    weight = np.ones(len(rows)) if weights is None else weight
    count = np.bincount(key, weight, n_cells)
    with np.errstate(invalid="ignore"):
        mean = np.bincount(key, weight * rows["x"], n_cells) / count
    return months, {"count": count, "x_mean": mean}


def compare_errors(setting, seeds, **parameters):
    """Return the ratio of the errors with and without earlier months, and the coverage, of counts and of means."""
    squares, covered = {}, {}
    for seed in seeds:
        months, truth = release_months(*setting, seed, **parameters)
        found, alone = filter_months(months)[:-1], months[-1].to_frame()[:-1]
        for name, true in truth.items():
            is_known = alone[name].notna().to_numpy() & np.isfinite(true)
            errors = [((table[name] - true) ** 2)[is_known].sum() for table in (found, alone)]
            squares[name] = squares.get(name, 0) + np.array(errors)
            inside = found[f"{name}_lower"].le(true) & found[f"{name}_upper"].ge(true)
            covered.setdefault(name, []).extend(inside[is_known])
    ratios = {name: np.sqrt(new / old) for name, (new, old) in squares.items()}
    return ratios, {name: (np.mean(part), len(part)) for name, part in covered.items()}


SETTINGS = [
    ((100, 12, 0.05, 0.02), {}, 0.7, 0.93),
    ((100, 12, 0.05, 0.1), {}, 0.8, 0.93),
    ((100, 12, 0.5, 0.05), {}, 1.0, 0.93),
    ((100, 3, 0.1, 0.05), {}, 0.95, 0.93),
    ((6, 12, 0.1, 0.05), {}, 0.95, 0.93),
    ((100, 12, 0.05, 0.05), {"weights": (1.0, 5.0)}, 0.8, 0.93),
    ((100, 12, 0.05, 0.05), {"jump": (8, 0.1, 3.0)}, 0.85, 0.93),
    ((100, 12, 0.05, 0.05), {"jump": (11, 0.1, 3.0)}, 1.0, 0.92),
]


@pytest.mark.parametrize("case", often(SETTINGS, SETTINGS[-1:]), ids=str)
def test_earlier_months_decrease_errors_and_intervals_cover(case):
    setting, parameters, largest, coverage = case
    ratios, covered = compare_errors(setting, range(3 if setting[0] == 100 else 30), **parameters)
    assert ratios["count"] <= largest
    assert ratios["x_mean"] <= 1.02
    for fraction, n in covered.values():
        assert fraction >= coverage - 4.9 * np.sqrt(0.95 * 0.05 / n)


def test_jump_of_all_cells_does_not_remain_in_the_estimates():
    months, truth = release_months(50, 12, 1.0, 0.02, jump=(11, 1.0, 5.0))
    error = filter_months(months)["count"][:-1] - truth["count"]
    assert np.abs(error.mean()) < 1


def test_equal_months_gain_precision_and_totals_are_those_of_the_last_release():
    """Totals were sums of filtered cells: if all cells changed together, 0.44 of their intervals covered."""
    months, _ = release_months(40, 12, 0.1, 0.0)
    found, last = filter_months(months), months[-1].estimates_["count"]
    assert found.iloc[-1, :2].tolist() == pytest.approx(last[-1, :2].tolist())
    assert (found["count_std_error"].iloc[:-1] < last[:-1, 1]).all()
    wide = filter_months(months, confidence_level=0.99)
    assert (wide["count_upper"] > found["count_upper"]).all()
    assert list(found) == list(months[-1].to_frame())


@pytest.mark.parametrize(("epsilon", "variation", "smallest", "largest"), [(0.1, 200, 0.9, 1), (0.02, 100, 0.65, 0.77)])
def test_counts_that_vary_around_a_level_use_earlier_months_if_the_noise_is_larger(
    epsilon, variation, smallest, largest
):
    """Earlier months do not determine a count whose level is constant, but which varies by more than the noise."""
    rng, months = np.random.default_rng(0), []
    for month in range(12):
        rows = pd.DataFrame({"k": np.repeat(np.arange(20), rng.integers(500 - variation, 500 + variation, 20))})
        model = DPGroupBy(epsilon, by="k", keys={"k": range(20)}, statistics="count", random_state=month)
        months.append(model.fit(rows))
    last = months[-1].estimates_["count"]
    assert (filter_months(months)["count_std_error"] / last[:, 1]).between(smallest, largest).all()


def test_changes_of_few_cells_are_not_taken_for_0():
    """The changes of two cells are uncertain, so an equal weight for all months would state too small an error."""
    rows, months = pd.DataFrame({"k": np.repeat([0, 1], 500)}), []
    for month in range(12):
        model = DPGroupBy(0.1, by="k", keys={"k": range(2)}, statistics="count", random_state=month)
        months.append(model.fit(rows))
    ratios = filter_months(months)["count_std_error"] / months[-1].estimates_["count"][:, 1]
    assert ratios.between(0.5, 0.9).all(), ratios


def test_means_that_noise_takes_to_a_bound_are_those_of_the_last_release():
    """The mean of twelve means that were cut at 0 was 139 in place of 54, and 0.5 to 0.8 of the intervals covered."""
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"k": np.repeat(np.arange(40), 20), "x": rng.lognormal(3.8, 0.6, 800).clip(0, 1000)})
    given = {"by": "k", "keys": {"k": range(40)}, "bounds": (0.0, 1000.0), "statistics": ["count", "mean"]}
    months = [DPGroupBy(1.0, random_state=month, **given).fit(rows) for month in range(12)]
    found, last = filter_months(months), months[-1].estimates_["x_mean"]
    truth = rows.groupby("k")["x"].mean()
    covered = (found["x_mean_lower"] <= truth) & (truth <= found["x_mean_upper"])
    assert covered.sum() >= binom.isf(1 - 1e-6, 40, 0.95)
    is_cut = np.any([month.estimates_["x_mean"][:, 0] == 0 for month in months], axis=0)
    assert is_cut.mean() > 0.9
    np.testing.assert_allclose(found["x_mean"][is_cut], last[is_cut, 0], atol=1e-9)


def test_intervals_of_means_of_few_rows_are_not_symmetric():
    """Symmetric intervals covered 0.88 of the means of 10 rows, and those of the last release 0.95."""
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"k": np.repeat(np.arange(1000), 10), "x": 1 - rng.exponential(0.2, 10_000).clip(0, 1)})
    given = {"by": "k", "keys": {"k": range(1000)}, "bounds": (0.0, 1.0), "statistics": ["count", "mean"]}
    months = [DPGroupBy(0.5, random_state=month, **given).fit(rows) for month in range(3)]
    found, truth = filter_months(months), rows.groupby("k")["x"].mean()
    covered = (found["x_mean_lower"] <= truth) & (truth <= found["x_mean_upper"])
    is_known = ~np.isnan(months[-1].estimates_["x_mean"][:, 0])
    assert covered[is_known].sum() >= binom.isf(1 - 1e-6, is_known.sum(), 0.95)


def test_means_of_a_small_last_month_are_covered():
    """The error of the last month was divided by the mean number of rows, and 0.41 of the intervals covered."""
    rng = np.random.default_rng(0)
    true, months = rng.uniform(-1, 1, 40), []
    for month, size in enumerate([500] * 7 + [100]):
        keys = np.repeat(np.arange(40), size)
        rows = pd.DataFrame({"k": keys, "x": true[keys] + rng.uniform(-1, 1, len(keys))})
        model = DPGroupBy(0.5, by="k", keys={"k": range(40)}, bounds=(-10.0, 10.0), random_state=month)
        months.append(model.set_params(statistics=["count", "mean"]).fit(rows))
    means = rows.groupby("k")["x"].mean()
    found = filter_months(months)
    covered = (found["x_mean_lower"] <= means) & (means <= found["x_mean_upper"])
    assert covered.sum() >= binom.isf(1 - 1e-6, 40, 0.95)


def test_constant_counts_gain_precision_from_months_of_more_noise():
    """With the noise of the next month in the covariances of changes, errors were 0.83 of the last release's."""
    rows, months = pd.DataFrame({"k": np.repeat(range(300), 50)}), []
    for month in range(12):
        epsilon = 0.5 * 1.25 ** (month - 11)
        model = DPGroupBy(epsilon, by="k", keys={"k": range(300)}, statistics="count", random_state=month)
        months.append(model.fit(rows))
    found, last = filter_months(months), months[-1].estimates_["count"]
    assert (found["count_std_error"] < 0.75 * last[:, 1]).mean() > 0.7
    assert (found["count"] - 50).std() < 0.7 * (last[:, 0] - 50).std()


def test_margins_of_means_of_few_rows_are_proportional_to_the_quantile_of_the_level():
    """A margin is longer than a normal one by as much as in the last release, whatever the level of the result."""
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"k": np.repeat(range(20), 12), "x": rng.uniform(0, 1, 240)})
    given = {"by": "k", "keys": {"k": range(20)}, "bounds": (0.0, 1.0), "statistics": ["count", "mean"]}
    months = [DPGroupBy(1.0, random_state=month, **given).fit(rows) for month in range(2)]
    margins = {}
    # The largest quantile of a uniform and of a Laplace distribution with variance 1.
    for level, quantile in {0.5: 0.5 * math.sqrt(3), 0.95: -math.log(0.05) / math.sqrt(2)}.items():
        found = filter_months(months, confidence_level=level)
        margins[level] = (found["x_mean_upper"] - found["x_mean"]) / quantile
    assert (margins[0.95] / found["x_mean_std_error"] > 1.05).any()
    pd.testing.assert_series_equal(margins[0.5], margins[0.95])


@pytest.mark.parametrize("level", [0.95, 0.99, 0.999])
def test_intervals_after_a_break_cover_far_in_the_tail_of_laplace_noise(level):
    """Normal quantiles covered 0.97 of such counts at the level 0.99. A false alarm has a probability of 1e-6."""
    n_cells = 1000
    rng = np.random.default_rng(0)
    months = []
    for month, counts in enumerate([rng.integers(0, 2000, n_cells), np.full(n_cells, 300)]):
        table = pd.DataFrame({"k": np.repeat(range(n_cells), counts)})
        groups = DPGroupBy(0.1, by="k", keys={"k": range(n_cells)}, statistics="count", random_state=month)
        months.append(groups.fit(table))
    found = filter_months(months, confidence_level=level)
    n_covered = found["count_lower"].le(300) & found["count_upper"].ge(300)
    assert n_covered.sum() >= binom.ppf(1e-6, n_cells, level)


@pytest.mark.parametrize("budget", [0.5, Rho(0.02, 1e-6)], ids=str)
@pytest.mark.parametrize("n_months", [3, 12])
def test_counts_with_equal_changes_in_cells_of_unequal_sizes(budget, n_months):
    """Changes were proportional to counts: squared errors were 1.5 to 2.9 times those of the last release."""
    errors, n_covered, n = np.zeros(2), 0, 0
    for seed in range(4):
        rng = np.random.default_rng(seed)
        counts, months = np.where(np.arange(40) < 6, 3_000, 120), []
        for month in range(n_months):
            counts = np.maximum(counts + np.rint(rng.normal(0, 15, 40)).astype(int), 1)
            rows = pd.DataFrame({"k": np.repeat(np.arange(40), counts)})
            model = DPGroupBy(
                budget, by="k", keys={"k": range(40)}, statistics="count", random_state=100 * seed + month
            )
            months.append(model.fit(rows))
        found, last = filter_months(months), months[-1].estimates_["count"][:, 0]
        n_covered += (found["count_lower"].le(counts) & found["count_upper"].ge(counts)).sum()
        errors += [((found["count"] - counts) ** 2).sum(), ((last - counts) ** 2).sum()]
        n += 40
    assert n_covered >= binom.ppf(1e-6, n, 0.94)
    assert errors[0] < 1.02 * errors[1]


def release_means(changes, n_rows=300, epsilon=1.0, seed=0):
    """Release twelve means of cells whose true means change by these standard deviations."""
    rng, months = np.random.default_rng(seed), []
    means, key = rng.uniform(40, 60, len(changes)), np.repeat(range(len(changes)), n_rows)
    for month in range(12):
        means = means + rng.normal(0, changes)
        rows = pd.DataFrame({"k": key, "x": rng.normal(means[key], 5).clip(0, 100)})
        given = {"by": "k", "keys": {"k": range(len(changes))}, "bounds": (0.0, 100.0), "statistics": ["count", "mean"]}
        months.append(DPGroupBy(epsilon, random_state=100 * seed + month, **given).fit(rows))
    return months, rows.groupby("k")["x"].mean()


def test_column_without_evidence_that_the_filter_helps_has_the_numbers_of_the_last_release():
    months, _ = release_means(np.full(3, 15.0), seed=1)
    found, last = filter_months(months[-2:]), months[-1].estimates_["x_mean"]
    np.testing.assert_allclose(found[["x_mean", "x_mean_std_error"]], last[:, :2])
    months, _ = release_means(np.zeros(3), seed=1)
    found, last = filter_months(months), months[-1].estimates_["x_mean"]
    assert (found["x_mean_std_error"] < last[:, 1]).all()


def test_cells_that_change_more_than_others_are_covered():
    """With one variance for all cells, squared errors of these cells exceeded those of the last release."""
    changes = np.where(np.arange(40) < 6, 2.0, 0.0)
    n_covered, n = 0, 0
    errors = np.zeros(2)
    for seed in range(3):
        months, truth = release_means(changes, n_rows=100, epsilon=1.0, seed=seed)
        found, last = filter_months(months)[:6], months[-1].estimates_["x_mean"][:6, 0]
        n_covered += (found["x_mean_lower"].le(truth[:6]) & found["x_mean_upper"].ge(truth[:6])).sum()
        errors += [((found["x_mean"] - truth[:6]) ** 2).sum(), ((last - truth[:6]) ** 2).sum()]
        n += 6
    assert n_covered >= binom.ppf(1e-6, n, 0.95)
    assert errors[0] < 1.1 * errors[1]


def test_means_of_few_rows_are_those_of_the_last_release():
    months, _ = release_means(np.zeros(20), n_rows=5)
    found, last = filter_months(months), months[-1].estimates_["x_mean"]
    np.testing.assert_allclose(found["x_mean"], last[:, 0])


def fit(**parameters):
    given = {"by": "k", "keys": {"k": ["a", "b"]}, "bounds": (0.0, 9.0), "random_state": 0} | parameters
    return DPGroupBy(1.0, **given).fit(pd.DataFrame({"k": ["a", "b"], "x": [1.0, 2.0]}))


def test_missing_means_are_filtered_where_they_were_released():
    # The means of 1 row are missing in all months.
    found = filter_months([fit(), fit()])
    assert found[["x_mean", "x_mean_std_error", "x_mean_upper"]].isna().all(axis=None)
    assert found["count"].notna().all()


@pytest.mark.parametrize(
    ("months", "error", "match"),
    [
        ([], ValueError, "`months` must have two or more releases, none of them twice, got 0"),
        ([1, 2], TypeError, "`months` must be fitted DPGroupBy, got int"),
        ([{}, {"totals": True}], ValueError, "must have the same `totals`"),
        ([{"statistics": "count"}, {}], ValueError, "must have the same `statistics`"),
        ([{}, {"bounds": (0.0, 90.0)}], ValueError, "`months` must have the same `bounds`"),
        ([{}, {"keys": {"k": ["b", "a"]}}], ValueError, "the same `keys`, in the same order"),
        ([fit()] * 2, ValueError, "none of them twice"),
        (fit(), ValueError, "`months` must have two or more releases"),
    ],
)
def test_mistakes_raise_errors(months, error, match):
    given = months
    if isinstance(months, list):
        given = [fit(**month) if isinstance(month, dict) else month for month in months]
    with pytest.raises(error, match=match):
        filter_months(given)
