"""Tests of released groups, by methods and by a recipe of the guide: sizes over null tables, power, and mistakes."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom, chi2_contingency, random_table, ttest_ind

from skdp import DPGroupBy, Interval
from skdp.central import compare_groups
from skdp.privacy import Mu, Rho
from tests.conftest import diagonal, often

KEYS = {"region": ["n", "s", "w"], "sex": ["f", "m"]}
SHAPES = {
    "binary": lambda rng, n: (rng.random(n) < 0.3).astype(float),
    "gamma": lambda rng, n: rng.gamma(2, 0.1, n).clip(0, 1),
    "uniform": lambda rng, n: rng.random(n),
}


def count_limit(n_tables):
    """Return the largest number of rejections at the level 0.05 with a false-alarm rate of 1e-6."""
    return int(binom.isf(1e-6, n_tables, 0.05))


def compare_means(groups, first, second):
    """Return the difference of two means, its standard error and the p-value."""
    row = compare_groups(groups, pair=(first, second)).loc["x_mean"]
    return row[["change", "std_error", "p_value"]].tolist()


def compare_null_groups(n_rows, epsilon, shape, *, n_tables=400, fraction=0.5, shift=0.0):
    """Return the p-values of comparisons of equal means, from two releases of many groups, and without privacy."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"k": np.repeat(np.arange(n_tables), n_rows), "x": SHAPES[shape](rng, n_tables * n_rows)})
    sex = np.where(rng.random(len(table)) < fraction, "f", "m")
    table["x"] = (table["x"] + shift * (sex == "m")).clip(0, 1)
    options = {"keys": {"k": range(n_tables)}, "bounds": (0, 1), "statistics": ["count", "mean", "std"]}
    releases = [
        DPGroupBy(epsilon, by="k", random_state=seed, **options).fit(table[sex == name])
        for seed, name in enumerate("fm")
    ]
    found = compare_groups(*releases).loc["x_mean", "p_value"].fillna(1.0)
    classical = [
        ttest_ind(*(rows.loc[sex[rows.index] == name, "x"] for name in "fm")).pvalue for _, rows in table.groupby("k")
    ]
    return found.to_numpy(), np.array(classical)


@pytest.mark.parametrize(
    ("size", "shape"), diagonal(often([(n, e) for n in (50, 500) for e in (0.1, 1.0, 4.0)], [(50, 1.0)]), list(SHAPES))
)
def test_p_values_of_equal_means_are_at_most_uniform(size, shape):
    n_rows, epsilon = size
    p_values, _ = compare_null_groups(n_rows, epsilon, shape, n_tables=200, fraction=0.4)
    assert (p_values <= 0.05).sum() <= count_limit(200)
    if n_rows * epsilon >= 500:
        assert (p_values <= 0.05).sum() >= 5 or shape != "binary"


@pytest.mark.long
def test_differences_are_found_with_about_as_many_rows_as_without_privacy():
    p_values, classical = compare_null_groups(800, 1.0, "binary", n_tables=200, shift=0.1)
    p_values, classical = (np.mean(one <= 0.05) for one in (p_values, classical))
    assert 0.5 < classical < 0.999
    assert p_values > 0.8 * classical


def make_counts(rng, n_rows, dependence=0.0):
    region = rng.choice(3, n_rows, p=[0.6, 0.3, 0.1])
    is_female = rng.random(n_rows) < 0.5 + dependence * (region - 1)
    return pd.DataFrame({"region": np.array(KEYS["region"])[region], "sex": np.where(is_female, "f", "m")})


def release_p_value(epsilon, rows, seed=0, statistics="count", **parameters):
    """Return the p-value of one release."""
    groups = DPGroupBy(epsilon, by=["region", "sex"], keys=KEYS, statistics=statistics, random_state=seed, **parameters)
    return groups.fit(rows).test_independence()


@pytest.mark.long
@pytest.mark.parametrize("size", often([(n, e) for n in (50, 500, 50_000) for e in (0.1, 1.0, 4.0)], [(500, 1.0)]))
def test_p_values_of_independent_keys_are_at_most_uniform(size):
    n_rows, epsilon = size
    rng = np.random.default_rng(0)
    p_values = [release_p_value(epsilon, make_counts(rng, n_rows), seed) for seed in range(120)]
    assert sum(p <= 0.05 for p in p_values) <= count_limit(120)
    assert np.mean(p_values) > 0.4


@pytest.mark.long
def test_dependence_is_found_with_about_as_many_rows_as_without_privacy():
    rng, found, classical = np.random.default_rng(0), [], []
    for seed in range(100):
        rows = make_counts(rng, 900, 0.06)
        classical.append(chi2_contingency(pd.crosstab(rows["region"], rows["sex"])).pvalue)
        found.append(release_p_value(1.0, rows, seed))
    found, classical = (np.mean(np.array(one) <= 0.05) for one in (found, classical))
    assert 0.5 < classical < 0.999
    assert found > 0.8 * classical


@pytest.mark.parametrize("epsilon", [2.0, Rho(0.2, delta=1e-6)])
@pytest.mark.parametrize("totals", [False, True])
def test_tests_are_functions_of_the_release(epsilon, totals):
    """Tests draw nothing and charge nothing: equal calls have equal results."""
    rng = np.random.default_rng(0)
    rows = make_counts(rng, 5000, 0.2).assign(x=rng.integers(0, 101, 5000))
    rows["x"] += np.where(rows["sex"] == "f", 10, 0)
    options = {"bounds": {"x": (0, 120)}, "statistics": ["count", "mean", "std"], "random_state": 0}
    groups = DPGroupBy(epsilon, by=["region", "sex"], keys=KEYS, totals=totals, **options).fit(rows)
    assert groups.test_independence() == groups.test_independence() == 1 / 2000
    difference, error, p_value = compare_means(groups, ("n", "m"), ("n", "f"))
    assert abs(difference - 10) < 3 * error
    assert error == pytest.approx(29 * np.sqrt(2 / 1500), rel=0.5)
    assert p_value < 1e-4
    if totals:
        assert compare_means(groups, ("total", "f"), ("total", "m"))[1] < error


def test_medians_are_compared_by_a_cut_at_the_median():
    """The remedy of the guide: the test of independence of the group and of values above the median of all rows."""
    rng, keys = np.random.default_rng(0), {"sex": ["f", "m"], "x": Interval(edges=[0, 30, 100])}
    for shift, is_found in ((0, False), (5, True)):
        x = rng.gamma(4, 8, 4000).clip(0, 90)
        rows = pd.DataFrame({"sex": rng.choice(["f", "m"], 4000), "x": x})
        rows["x"] += np.where(rows["sex"] == "f", shift, 0)
        groups = DPGroupBy(1.0, by=["sex", "x"], keys=keys, statistics="count", random_state=0).fit(rows)
        assert (groups.test_independence() < 0.01) == is_found


@pytest.mark.parametrize("epsilon", [1e6, 20.0, Mu(20, delta=1e-6)])
@pytest.mark.parametrize("table", [[[20, 2], [0, 1], [1, 0]], [[8, 2], [0, 2], [0, 0]], [[6, 0], [0, 1], [1, 1]]])
def test_p_value_without_noise_is_exact(epsilon, table):
    """The p-value is the probability of an equal or larger statistic among all tables with these margins."""
    rows = [(KEYS["region"][i], "fm"[j]) for i, j in np.ndindex(3, 2) for _ in range(table[i][j])]
    groups = DPGroupBy(epsilon, by=["region", "sex"], keys=KEYS, statistics="count", random_state=0)
    groups.fit(pd.DataFrame(rows, columns=["region", "sex"]))
    assert groups.estimates_["count"][:, 0].tolist() == np.ravel(table).tolist()
    sizes, columns = np.sum(table, 1), np.sum(table, 0)
    expected = np.outer(sizes, columns) / np.sum(table)

    def compute_statistic(counts):
        return (np.square(counts - expected) / np.where(expected > 0, expected, 1)).sum()

    exact = 0.0
    for women in product(*(range(size + 1) for size in sizes)):
        other = np.column_stack([women, sizes - women])
        if sum(women) == columns[0] and compute_statistic(other) >= compute_statistic(table) - 1e-9:
            exact += random_table(sizes, columns).pmf(other)
    assert groups.test_independence() == pytest.approx(exact, abs=0.02)


def test_totals_are_no_cells_of_a_test_of_independence():
    """Nearly without noise, the p-value is equal to the p-value without totals."""
    rows = make_counts(np.random.default_rng(3), 500, 0.02)
    p_value = release_p_value(1e6, rows)
    assert 0.01 < p_value < 0.99
    assert release_p_value(1e6, rows, totals=True) == pytest.approx(p_value, abs=0.01)


def test_noise_of_one_row_in_empty_cells_is_no_dependence():
    """With a large epsilon, the noise is 0 or at least 1, unlike continuous noise with the same variance."""
    rows = pd.DataFrame({"region": KEYS["region"][:1] * 200, "sex": ["f", "m"] * 100})
    for seed in range(100):
        groups = DPGroupBy(4.5, by=["region", "sex"], keys=KEYS, statistics="count", random_state=seed).fit(rows)
        noise = groups.estimates_["count"][:, 0] - [100, 100, 0, 0, 0, 0]
        if sorted(noise) == [-1, 0, 0, 0, 0, 0] and not noise[:2].any():
            break
    assert noise.sum() == -1
    # In 4 % of all releases, one of these four cells has a noise of -1.
    assert groups.test_independence() > 0.01


def test_mistakes_raise_errors():
    rows = make_counts(np.random.default_rng(0), 200).assign(x=1.0)
    options = {"by": ["region", "sex"], "keys": KEYS, "bounds": {"x": (0, 2)}}
    weighted = DPGroupBy(9.0, max_weight=2, **options).fit(rows, sample_weight=np.ones(200))
    with pytest.raises(ValueError, match="`test_independence` requires rows without weights"):
        weighted.test_independence()
    single = DPGroupBy(9.0, by="x", keys=Interval(0, 2, bins=2), statistics="count").fit(rows[["x"]])
    with pytest.raises(ValueError, match=r"requires two declared keys in `by` and .* got 'x' and"):
        single.test_independence()
    with pytest.raises(ValueError, match=r"the statistic 'count', got .* and 'mean'"):
        DPGroupBy(9.0, statistics="mean", **options).fit(rows).test_independence()
