"""Log-rank test and differences of restricted means from noisy counts: equal to lifelines, size, refusals."""

import numpy as np
import pytest
from scipy.stats import binom

from skdp.metrics import compare_survival_from_counts, survival_from_counts
from tests.errors import refusal
from tests.metrics.counted import add_noise, make_counts

EDGES = [0, 6, 12, 24, 36, 60]


def count(deaths, seen, groups, edges=EDGES, names=(0, 1)):
    """Count the times of groups in bins that begin at `edges`."""
    times, events = np.minimum(deaths, seen), deaths <= seen
    counts = np.zeros((len(edges), 2, len(names)))
    np.add.at(counts, (np.digitize(times, edges) - 1, events.astype(int), groups), 1)
    return make_counts(counts, t=edges, e=[0, 1], g=names)


def draw(rng, n=600, effect=0.0, **options):
    groups = rng.integers(0, 2, n)
    return count(rng.exponential(40 * np.exp(-effect * groups)), rng.uniform(0, 80, n), groups, **options)


def compare(counts, **options):
    return compare_survival_from_counts(counts, **{"time": "t", "event": "e", "group": "g"} | options)


def test_statistic_of_narrow_bins_is_close_to_lifelines():
    rng = np.random.default_rng(0)
    counts = draw(rng, 3_000, 0.2, edges=np.arange(0, 80, 2.0))
    row = compare(counts).iloc[0]
    # `logrank_test` of lifelines 0.30.3 for the same times, without bins.
    assert row["term"] == "log-rank test"
    assert row["estimate"] == pytest.approx(9.78651, rel=0.02)
    assert row[["std_error", "lower", "upper"]].isna().all()


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_size_of_the_test_is_at_most_the_level(epsilon):
    rng = np.random.default_rng(0)
    p_values = [compare(add_noise(draw(rng, 400), epsilon, rng))["p_value"].iloc[0] for _ in range(15)]
    assert (np.array(p_values) < 0.05).sum() <= binom.ppf(1 - 1e-4, 15, 0.05)
    strong = compare(add_noise(draw(rng, 400, 1.0), epsilon, rng))
    assert strong["p_value"].iloc[0] < 0.01


def test_variance_of_the_statistic_contains_the_noise():
    counts = draw(np.random.default_rng(0), effect=0.5)
    first, *noisy = (1 / compare(counts.assign(std_error=error))["estimate"].iloc[0] for error in (0, 1, 2))
    assert noisy[0] > 1.02 * first
    assert noisy[1] - first == pytest.approx(4 * (noisy[0] - first))


def test_difference_of_restricted_means_subtracts_the_means():
    counts = add_noise(draw(np.random.default_rng(0), effect=0.7), 2.0, np.random.default_rng(1))
    means = survival_from_counts(counts, "t", "e", group="g").query("metric == 'restricted_mean' and time == 24")
    low, high = means.set_index("group")[["value", "std_error"]].to_numpy()
    row = compare(counts, until=24).iloc[1]
    assert row["term"] == "restricted mean to 24: 1 v 0"
    assert row["estimate"] == pytest.approx(high[0] - low[0])
    assert row["std_error"] == pytest.approx(np.hypot(high[1], low[1]))
    assert row["lower"] < row["estimate"] < row["upper"] < 0
    assert row["p_value"] < 0.05
    other = compare(counts, until=24, reference=1).iloc[1]
    assert other["term"] == "restricted mean to 24: 0 v 1"
    assert [other["lower"], other["upper"]] == pytest.approx([-row["upper"], -row["lower"]])


def test_interval_that_ends_at_0_has_the_p_value_of_its_level():
    counts = draw(np.random.default_rng(0), effect=0.3)
    p_value = compare(counts).loc[1, "p_value"]
    row = compare(counts, confidence_level=1 - p_value).loc[1]
    assert abs(row["upper"]) < 0.05 * (row["upper"] - row["lower"])


def test_default_time_is_the_last_one_with_all_estimates():
    counts = draw(np.random.default_rng(0))
    assert compare(counts)["term"].iloc[1] == "restricted mean to 60: 1 v 0"
    few = counts.copy()
    few.loc[(slice(36, None), slice(None), 1), "count"] = 0
    assert compare(few)["term"].iloc[1] == "restricted mean to 24: 1 v 0"


def test_group_without_rows_has_no_comparison():
    counts = add_noise(
        make_counts(draw(np.random.default_rng(0))["count"] * np.tile([1, 0], 12), t=EDGES, e=[0, 1], g=[0, 1]),
        1.0,
        np.random.default_rng(3),
    )
    table = compare(counts)
    assert not table["supported"].any()
    assert table["reason"].str.startswith("the noise is too large").all()


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"until": 25}, r"^`until` must be an edge of a bin of `time`, one of \[6.0, 12.0.*got 25"),
        ({"reference": 7}, r"^`reference\['g'\]` must be a value of column 'g'"),
        ({"group": "e"}, r"^`event` must be a column of its own"),
        (
            {"counts": make_counts(np.ones(12), t=EDGES, e=[0, 1], g=[0])},
            r"^`group` must be a column with at least two",
        ),
        ({"counts": draw(np.random.default_rng(0)).iloc[1:]}, r"^`counts` must have a row for each combination"),
    ],
)
def test_bad_input_names_the_parameter(options, match):
    with refusal(ValueError, match):
        compare(**{"counts": draw(np.random.default_rng(0))} | options)
