"""Cox regression from noisy counts: equal to statsmodels without noise, coverage, and estimates that are refused."""

import numpy as np
import pytest
from pandas.testing import assert_frame_equal
from scipy.stats import binom

from skdp import DPHistogram, Interval
from skdp.metrics import hazards_from_counts
from tests.errors import refusal
from tests.metrics.counted import add_noise, count_covered, make_counts

# Deaths are at odd and censored times at even months, so that the risk sets are known.
MONTHS = np.array([1, 1, 2, 3, 3, 3, 4, 4, 5, 5, 6, 7, 7, 7, 8, 8, 9, 9, 9, 9, 10, 11, 11, 11, 11] * 4)
DIED = (MONTHS % 2 == 1) & (MONTHS < 11)
# `PHReg(MONTHS, [group == 1, group == 2], status=DIED)` of statsmodels 0.15.0.
BRESLOW = [0.02940968, -0.04256922], [0.32445419, 0.32892465]
EFRON = [0.04486939, -0.04393041], [0.32446196, 0.32892431]


def count(times, events, groups, edges, std_error=0.0):
    """Count times in bins that begin at `edges`."""
    shape = len(edges), 2, max(groups) + 1
    counts = np.zeros(shape)
    np.add.at(counts, (np.digitize(times, edges) - 1, np.asarray(events, int), groups), 1)
    return make_counts(counts, std_error, t=edges, e=[0, 1], g=list(range(shape[2])))


def draw_patients(rng, n=600, effects=(0, 0.7), edges=(0, 6, 12, 24, 36, 60)):
    """Count times of groups with proportional hazards."""
    groups = rng.integers(0, len(effects), n)
    deaths, seen = rng.exponential(40 * np.exp(-np.take(effects, groups))), rng.uniform(0, 80, n)
    return count(np.minimum(deaths, seen), deaths <= seen, groups, edges)


COUNTS = count(MONTHS, DIED, np.arange(100) % 3, np.arange(1, 12))
SMALL = draw_patients(np.random.default_rng(0))


def estimate(counts=COUNTS, **options):
    return hazards_from_counts(counts, **{"time": "t", "event": "e", "terms": "g"} | options)


@pytest.mark.parametrize(("ties", "expected", "tolerance"), [("breslow", BRESLOW, 1e-6), ("efron", EFRON, 1e-3)])
def test_estimates_without_noise_equal_statsmodels(ties, expected, tolerance):
    table = estimate(ties=ties)
    assert table["term"].tolist() == ["g=1 v 0", "g=2 v 0"]
    np.testing.assert_allclose(table["estimate"], expected[0], atol=tolerance)
    np.testing.assert_allclose(table["std_error"], expected[1], rtol=1e-4)


def test_linear_trend_has_the_number_of_the_group_as_unit():
    trend = estimate(terms=["g"], numeric="g")
    moved = COUNTS.rename(index={0: 2_000, 1: 2_001, 2: 2_002}, level="g")
    assert trend["term"].tolist() == ["g"]
    np.testing.assert_allclose(estimate(moved, numeric="g")["estimate"], trend["estimate"])


@pytest.mark.parametrize("ties", ["efron", "breslow"])
def test_error_of_noise_adds_squared_derivatives(ties):
    def fit(counts):
        return estimate(counts, ties=ties, design_effect=None)

    base = fit(SMALL)["estimate"].to_numpy()
    slopes = [
        (fit(SMALL.assign(count=SMALL["count"] + step))["estimate"].to_numpy() - base) / 1e-3
        for step in np.eye(len(SMALL)) * 1e-3
    ]
    errors = fit(SMALL.assign(std_error=0.5))["std_error"]
    np.testing.assert_allclose(errors, 0.5 * np.sqrt((np.array(slopes) ** 2).sum(axis=0)), rtol=2e-3)


def test_interval_covers_all_places_of_censored_times():
    # All times are in one bin: the coefficient depends on the number of censored rows at risk.
    counts = make_counts([[[40, 10], [60, 30]], [[200, 160]] * 2], t=[0, 12], e=[0, 1], g=[0, 1])
    (row,) = estimate(counts, design_effect=None).itertuples()
    risks = [np.array([500, 360]) - 0.5 * np.array([60, 30]) - part * np.array([40, 10]) for part in (0, 0.5, 1)]
    ratios = [np.log(30 / size[1] / (60 / size[0])) for size in risks]
    assert row.estimate == pytest.approx(ratios[1])
    assert [row.lower, row.upper] == pytest.approx([min(ratios), max(ratios)], rel=1e-3)


@pytest.mark.parametrize("level", [0.95, 0.99])
def test_intervals_cover_the_table_and_the_population(level):
    rng = np.random.default_rng(0)
    effects = np.linspace(0, 0.8, 6)
    found = np.zeros((2, 2))
    for _ in range(6):
        counts = draw_patients(rng, 2_400, effects)
        noisy, options = add_noise(counts, 1.0, rng), {"confidence_level": level}
        own = estimate(counts, design_effect=None)["estimate"]
        found[0] += count_covered(estimate(noisy, **options), effects[1:])
        found[1] += count_covered(estimate(noisy, design_effect=None, **options), own)
    for covered, given in found:
        assert given == 30
        # The coefficients of a table have one reference: half of the intervals, at 1e-4.
        assert covered / given >= binom.ppf(1e-4, given // 2, level) / (given // 2)


def test_value_without_rows_has_no_interval():
    rng = np.random.default_rng(0)
    wide = np.concatenate([SMALL["count"].to_numpy().reshape(6, 2, 2), np.zeros((6, 2, 1))], axis=2)
    counts = add_noise(make_counts(wide, t=range(6), e=[0, 1], g=["p", "q", "r"]), 1.0, rng)
    table = estimate(counts).set_index("term")
    assert table.loc["g=q v p", "supported"]
    assert not table.iloc[1]["supported"]
    assert table.iloc[1]["reason"]


def test_few_rows_at_risk_have_no_interval():
    few = make_counts([[[2, 2], [3, 3]], [[1, 1]] * 2], 1.0, t=[0, 1], e=[0, 1], g=[0, 1])
    table = estimate(few)
    assert table["term"].tolist() == ["g=1 v 0"]
    assert not table["supported"].any()


def test_order_of_bins_and_events_is_not_the_order_of_the_table():
    edges = [0, 6, 12, 24, 36, 60]
    bins = [f"[{low}, {high})" for low, high in zip(edges, [*edges[1:], 90], strict=True)]
    named = SMALL.rename(index=dict(zip(edges, bins, strict=True)), level="t").rename(
        index={0: False, 1: True}, level="e"
    )

    assert_frame_equal(estimate(named.iloc[::-1], reference={"g": 0}), estimate(SMALL))


def test_release_is_read():
    rng = np.random.default_rng(0)
    counts = SMALL.loc[SMALL.index.repeat(SMALL["count"].astype(int))].index.to_frame(index=False)
    domain = {"t": Interval([0, 6, 12, 24, 36, 60, 90]), "e": [0, 1], "g": [0, 1]}
    release = DPHistogram(3.0, domain=domain, random_state=int(rng.integers(9))).fit(counts)
    np.testing.assert_allclose(estimate(release.to_frame())["estimate"], estimate(SMALL)["estimate"], atol=0.1)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"counts": COUNTS.iloc[1:]}, r"^`counts` must have a row for each combination.*missing cells"),
        ({"time": "e"}, r"^`event` must be a column of its own"),
        ({"terms": "t"}, r"^`time` must be a column of its own"),
        ({"time": "when"}, r"^`counts` must have the columns"),
        ({"counts": COUNTS.rename(index={1: "early"}, level="t")}, r"^`time` must be the name of a column of numbers"),
        ({"counts": COUNTS.rename(index={1: -1}, level="t")}, r"^`time` must have at least two bins .*at least 0"),
        ({"counts": COUNTS.rename(index={1: 2}, level="e")}, r"^`event` must be the name of a column of 0 and 1"),
        ({"counts": COUNTS.loc[:, [1], :]}, r"^`event` must be the name of a column of 0 and 1"),
        ({"ties": "exact"}, r"^`ties` must be"),
        ({"reference": {"g": 5}}, r"^`reference\['g'\]` must be a value of column 'g'.*got 5"),
    ],
)
def test_bad_input_names_the_parameter(options, match):
    with refusal(ValueError, match):
        estimate(**options)
