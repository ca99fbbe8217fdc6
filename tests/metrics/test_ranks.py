"""Ranks and quantiles of groups from noisy counts: estimates, simultaneous coverage, and errors."""

import numpy as np
import pytest
from scipy.stats import binom

from skdp.metrics import quantiles_from_counts, rank_from_counts
from tests.errors import refusal
from tests.metrics.counted import add_noise, make_counts

COUNTS = make_counts([[300, 100], [250, 150], [20, 380], [2, 1]], g=[*"abcd"], y=[0, 1])
EDGES = np.arange(0, 100, 5)
BINS = [f"[{low}, {low + 5})" for low in EDGES]


# --- ranks ------------------------------------------------------------------------------------------------------------


def test_rates_are_ranked_from_the_largest_one():
    table = rank_from_counts(COUNTS, "g", "y")
    assert table["term"].tolist() == [*"abcd"]
    np.testing.assert_allclose(table["estimate"], [0.25, 0.375, 0.95, 1 / 3])
    assert table["rank"].tolist() == [4, 2, 1, 3]
    # Three rows bound no rank beside similar rates.
    assert table[["rank_lower", "rank_upper"]].to_numpy().tolist() == [[3, 4], [2, 3], [1, 2], [1, 4]]
    assert table.loc[3, "lower"] < 0.1 < 0.7 < table.loc[3, "upper"] < 1
    table = rank_from_counts(COUNTS, "g", "y", reference=1)
    assert table["rank"].tolist() == [1, 3, 4, 2]


def test_counts_are_ranked():
    table = rank_from_counts(COUNTS, "g", design_effect=None)
    assert table["estimate"].tolist() == [400, 400, 400, 3]
    assert table[["lower", "upper", "rank_lower", "rank_upper"]].to_numpy()[3].tolist() == [3, 3, 4, 4]
    population = rank_from_counts(COUNTS, "g").iloc[0]
    assert population["std_error"] == pytest.approx(np.sqrt(400 * 803 / 1203), rel=1e-3)


def test_group_without_enough_rows_has_all_ranks():
    table = rank_from_counts(COUNTS.assign(std_error=2.0), "g", "y")
    assert table["supported"].tolist() == [True, True, True, False]
    last = table.iloc[3]
    assert last[["estimate", "lower", "upper", "rank"]].isna().all()
    assert last[["rank_lower", "rank_upper"]].tolist() == [1, 4]
    assert table.loc[2, ["rank_lower", "rank_upper"]].tolist() == [1, 2]


@pytest.mark.parametrize("target", [None, "y"])
@pytest.mark.parametrize("design_effect", [None, 1.0])
def test_intervals_and_ranks_cover_together(target, design_effect):
    rng = np.random.default_rng(0)
    sizes, chances = np.array([900, 300, 150, 150, 100]), np.array([0.1, 0.3, 0.32, 0.5, 0.9])
    true = np.stack([sizes * (1 - chances), sizes * chances], -1)
    covered = np.zeros(2)
    for _ in range(25):
        rows = true if design_effect is None else rng.multinomial(sizes.sum(), true.ravel() / sizes.sum())
        counts = make_counts(np.rint(rows), g=range(5), y=[0, 1])
        table = rank_from_counts(add_noise(counts, 1.0, rng), "g", target, design_effect=design_effect)
        truth = sizes if target is None else true[:, 1] / sizes
        covered[0] += ((table["lower"] <= truth) & (truth <= table["upper"])).all()
        # Groups of equal size have both ranks.
        ranks = np.stack([[1, 2, 4, 3, 5], [1, 2, 3, 4, 5]]) if target is None else np.array([[5, 4, 3, 2, 1]])
        low, high = table[["rank_lower", "rank_upper"]].to_numpy().T
        covered[1] += ((low <= ranks.min(axis=0)) & (high >= ranks.max(axis=0))).all()
    assert (covered >= binom.ppf(1e-4, 25, 0.95)).all()


# --- quantiles --------------------------------------------------------------------------------------------------------


def test_quantiles_without_noise_are_interpolated():
    counts = make_counts(np.full((2, 20), 10), g=[*"ab"], x=BINS)
    table = quantiles_from_counts(counts, "x", "g", probabilities=[0.25, 0.5], design_effect=None)
    assert table["group"].tolist() == [*"aabb"]
    np.testing.assert_allclose(table["estimate"], [25, 50] * 2)
    assert (table["lower"] <= table["estimate"]).all()
    assert (table["upper"] - table["lower"] <= 10).all()
    shifted = quantiles_from_counts(counts, "x", probabilities=0.33, design_effect=None).iloc[0]
    assert shifted[["group", "lower", "upper"]].tolist() == ["all", 30, 35]
    np.testing.assert_allclose(shifted["estimate"], 33)
    wider = quantiles_from_counts(counts, "x", probabilities=0.33).iloc[0]
    # 33 % of 400 rows are between 28.4 % and 37.6 %, which are in the bins from 25 to 40.
    assert wider[["lower", "upper"]].tolist() == [25, 40]


def test_bins_in_another_order_have_the_same_quantiles():
    counts = make_counts(np.arange(20), x=BINS)
    table = quantiles_from_counts(counts.iloc[::-1], "x")
    assert table.equals(quantiles_from_counts(counts, "x"))


def test_few_rows_have_the_whole_domain_as_interval():
    counts = add_noise(make_counts(np.zeros(20), x=BINS), 1.0, np.random.default_rng(0))
    assert quantiles_from_counts(counts, "x")[["lower", "upper"]].to_numpy().tolist() == [[0, 100]]


@pytest.mark.parametrize("design_effect", [None, 1.0])
def test_quantiles_cover_together(design_effect):
    rng = np.random.default_rng(0)
    values = rng.gamma(2, 10, (40, 2, 150)).clip(0, 99)
    n_covered = 0
    for draw in values:
        counts = make_counts([np.histogram(row, [*EDGES, 100])[0] for row in draw], g=[0, 1], x=BINS)
        options = {"probabilities": [0.2, 0.5, 0.8], "design_effect": design_effect}
        table = quantiles_from_counts(add_noise(counts, 1.0, rng), "x", "g", **options)
        own = np.quantile(draw, options["probabilities"], axis=1, method="inverted_cdf").T.ravel()
        truth = own if design_effect is None else np.tile([8.2439, 16.7835, 29.9431], 2)
        n_covered += ((table["lower"] <= truth) & (truth <= table["upper"])).all()
    assert n_covered >= binom.ppf(1e-4, 40, 0.95)


# --- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"counts": COUNTS.iloc[1:]}, r"^`counts` must have a row for each combination"),
        ({"target": "g"}, r"^`target` must be a column of its own"),
        ({"group": "y", "target": "g"}, r"^`target` must be a column with two values, got 'g' with 4"),
        ({"reference": 5}, r"^`reference\['y'\]` must be a value of column 'y'"),
        ({"counts": COUNTS.loc[["a"]]}, r"^`group` must be a column with 2 to 200 values"),
    ],
)
def test_bad_input_of_ranks_names_the_parameter(options, match):
    with refusal(ValueError, match):
        rank_from_counts(**{"counts": COUNTS, "group": "g", "target": "y"} | options)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"value": "y"}, r"^`counts` must have the columns"),
        ({"value": "g"}, r"^`value` must be the name of a column of numbers"),
        ({"probabilities": [0.5, 1.0]}, r"^`probabilities` must be numbers between 0 and 1"),
        ({"probabilities": []}, r"^`probabilities` must be numbers between 0 and 1"),
    ],
)
def test_bad_input_of_quantiles_names_the_parameter(options, match):
    counts = make_counts(np.ones((2, 20)), g=[*"ab"], x=BINS)
    with refusal(ValueError, match):
        quantiles_from_counts(**{"counts": counts, "value": "x"} | options)
