"""Changes between two releases: sizes of tests over null tables, intervals, power, and mistakes."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom, norm, t
from sklearn.base import clone

from skdp import DPGroupBy, PrivacyLedger
from skdp.central import compare_groups
from skdp.privacy import Mu
from tests.conftest import diagonal, often

pytestmark = [
    pytest.mark.filterwarnings("ignore:Standard errors of means"),  # without "std"
]

COUNTS = {"statistics": "count", "handle_unknown": "ignore"}
KEYS = {"k": ["a", "b"], "sex": ["f", "m"]}
SHAPES = {
    "normal": lambda rng, n: rng.normal(50, 10, n),
    "lognormal": lambda rng, n: rng.lognormal(3, 0.7, n),
    "binary": lambda rng, n: 100.0 * (rng.random(n) < 0.05),
}
WEIGHTS = {"none": None, "two": ([5, 20.0], [0.5, 0.5]), "uneven": ([1, 2, 20.0], [0.5, 0.4, 0.1])}


def release(
    n_groups, n_rows, epsilon, weights, shape, statistics, seed, *, rows_per_person=1, factor=1.0, confidence_level=0.95
):
    """Release groups with a Poisson number of rows each."""
    rng = np.random.default_rng(seed)
    key = np.repeat(np.arange(n_groups), rng.poisson(n_rows * factor / rows_per_person, n_groups))
    value = SHAPES[shape](rng, len(key)).clip(0, 100)
    key, value = np.repeat(key, rows_per_person), np.repeat(value, rows_per_person)
    values, p = WEIGHTS[weights] or (None, None)
    weight = (
        None if values is None else np.repeat(rng.choice(values, len(key) // rows_per_person, p=p), rows_per_person)
    )
    model = DPGroupBy(epsilon, by="k", keys={"k": range(n_groups)}, bounds=(0.0, 100.0), statistics=statistics)
    model.set_params(max_weight=20.0 if values else None, max_rows_per_person=rows_per_person, random_state=seed)
    model.set_params(confidence_level=confidence_level)
    return model.fit(pd.DataFrame({"k": key, "x": value}), sample_weight=weight)


def check_size(result, n_tests):
    """Fail if more than 5 % of the true hypotheses are rejected at the level 0.05, with a false-alarm rate of 1e-6."""
    known = result.dropna().query("std_error > 0 or change != 0")  # an exact median has no error
    z = known["change"].abs() / known["std_error"]
    assert (known["p_value"] >= 2 * norm.sf(z) - 1e-6).all()  # two-sided, with at most infinite degrees of freedom
    for name, part in result["p_value"].groupby(level=0):
        n_rejected = (part <= 0.05).sum()
        assert n_rejected <= binom.isf(1e-6, n_tests, 0.05), name


SETTINGS = [
    (n_rows, epsilon, weights, shape)
    for n_rows, epsilon in (
        (3, 50.0),
        (5, 50.0),
        (3, 0.1),
        (100, 0.1),
        (3, 1.0),
        (30, 1.0),
        (1000, 1.0),
        (10, 4.0),
        (300, 4.0),
    )
    for weights in WEIGHTS
    for shape in SHAPES
]
SMALL = [setting for setting in SETTINGS if setting[0] <= 300]
FEW = [
    (3, 1.0, "uneven", "normal"),
    (3, 50.0, "none", "normal"),
    (300, 4.0, "none", "binary"),
    (300, 4.0, "uneven", "lognormal"),
]


@pytest.mark.parametrize("setting", often(SETTINGS, FEW), ids=str)
@pytest.mark.parametrize("statistics", [["count", "mean", "sum"], ["count", "mean", "std", "sum"]], ids=len)
def test_true_hypotheses_are_rejected_at_most_as_often_as_stated(setting, statistics):
    is_long = setting not in FEW
    n_groups = 2000 if is_long else 300
    releases = [release(n_groups, *setting, statistics, seed) for seed in (1, 2)]
    check_size(compare_groups(*releases), n_groups)


@pytest.mark.long
@pytest.mark.parametrize(("setting", "probability"), diagonal(SMALL, [0.5, 0.9]), ids=str)
def test_true_hypotheses_about_quantiles_are_rejected_at_most_as_often_as_stated(setting, probability):
    releases = [release(200, *setting, ["count", probability], seed) for seed in (1, 2)]
    check_size(compare_groups(*releases), 200)


@pytest.mark.parametrize("confidence_level", often([0.5, 0.8, 0.99], [0.8]))
def test_releases_of_other_confidence_levels_do_not_reject_more_often(confidence_level):
    """With a constant for 0.95, 10 % of true hypotheses about medians of releases with 0.2 were rejected."""
    setting = (200, 300, 1.0, "none", "normal", ["count", "median"])
    releases = [release(*setting, seed, confidence_level=confidence_level) for seed in (1, 2)]
    check_size(compare_groups(*releases), 200)


def test_comparisons_of_quantiles_do_not_depend_on_the_unit_of_weights():
    """Weights in another unit are the same sample, with the same noise."""
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"x": rng.normal(50, 10, 600)})
    weights = rng.choice([1.0, 4.0], 600)
    tables = []
    for unit in (1, 8):
        model = DPGroupBy(by=None, bounds=(0.0, 100.0), statistics=["count", "median"], max_weight=4.0 * unit)
        releases = [
            clone(model).set_params(random_state=seed).fit(rows, sample_weight=unit * weights) for seed in (0, 1)
        ]
        tables.append(compare_groups(*releases).loc["x_median"])
    pd.testing.assert_frame_equal(*tables)


def test_several_rows_of_a_person_do_not_increase_the_size():
    """Three equal rows of each person, which are not independent."""
    setting = (300, 30.0, "none", "normal", ["count", "mean", "std"])
    releases = [release(300, *setting, seed, rows_per_person=3) for seed in (1, 2)]
    check_size(compare_groups(*releases), 300)
    for one in releases:
        one.max_rows_per_person = 1
    with pytest.raises(AssertionError):
        check_size(compare_groups(*releases), 300)


@pytest.mark.parametrize("ratio", [False, True])
@pytest.mark.parametrize("weights", ["none", "two"])
def test_intervals_cover_changes_and_ratios(ratio, weights):
    options = (weights, "lognormal", ["count", "mean", "std", "sum"])
    first = release(300, 200, 2.0, *options, 1)
    second = release(300, 200, 2.0, *options, 2, factor=1.5)
    found = compare_groups(first, second, ratio=ratio)
    n = 200 * (1 if weights == "none" else 12.5)
    mean = np.exp(3 + 0.49 / 2)  # a thousandth of the values is clipped to 100
    for name, before in (("count", n), ("x_sum", n * mean)):
        true = 1.5 if ratio else 0.5 * before
        rows = found.loc[name]
        assert ((rows["lower"] <= true) & (true <= rows["upper"])).mean() >= 0.95 - 4.9 * np.sqrt(0.05 * 0.95 / 300)
    true = 1.0 if ratio else 0.0
    rows = found.loc["x_mean"]
    assert ((rows["lower"] <= true) & (true <= rows["upper"])).mean() >= 0.88
    is_found = found.loc["count", "p_value"] < 0.05
    assert is_found.mean() > (0.95 if weights == "none" else 0.8)
    assert (is_found == ~found.loc["count"].eval("lower <= @true <= upper")).all()


def test_changes_of_complete_tables_have_the_error_of_the_noise():
    releases = [release(50, 100, 1.0, "none", "normal", ["count", "median"], seed) for seed in (1, 2)]
    found = compare_groups(*releases, design_effect=0).loc["count"]
    assert found["std_error"].tolist() == pytest.approx(
        [np.hypot(*(r.estimates_["count"][0, 1] for r in releases))] * 50
    )
    # The difference of two uniform numbers, as of joint noise, has a triangular distribution.
    half = compare_groups(*releases, design_effect=0, confidence_level=0.5).loc["count"]
    assert (half["upper"] - half["change"] >= 0.999 * np.sqrt(6) * (1 - np.sqrt(0.5)) * half["std_error"]).all()
    wide = compare_groups(*releases, design_effect=4).loc["x_median"]
    assert (wide["std_error"] > compare_groups(*releases).loc["x_median", "std_error"]).all()


def test_means_of_few_rows_have_the_standard_error_of_a_t_test():
    """The variance of few rows is the sum of squares divided by their number minus 1."""
    tables = [np.array([1.0, 4.0, 8.5]), np.array([0.5, 2.0, 2.5, 7.0])]
    model = DPGroupBy(1e9, by=None, bounds=(0.0, 9.0), statistics=["count", "mean", "std"], random_state=0)
    releases = [clone(model).fit(pd.DataFrame({"x": values})) for values in tables]
    found = compare_groups(*releases).loc["x_mean", "std_error"]
    expected = np.sqrt(sum(values.var(ddof=1) / len(values) for values in tables))
    assert found.tolist() == pytest.approx([expected], rel=1e-5)


def test_intervals_have_the_degrees_of_freedom_of_the_smaller_group():
    tables = [np.array([1.0, 4.0, 8.5]), np.resize([4.0, 5.0], 1_000)]
    model = DPGroupBy(1e9, by=None, bounds=(0.0, 9.0), statistics=["count", "mean", "std"], random_state=0)
    releases = [clone(model).fit(pd.DataFrame({"x": values})) for values in tables]
    for pair in (releases, releases[::-1]):
        found = compare_groups(*pair).loc["x_mean"].iloc[0]
        assert (found["upper"] - found["change"]) / found["std_error"] == pytest.approx(t.isf(0.025, 2), rel=1e-5)


def test_largest_variance_of_a_noisy_mean_at_a_bound_contains_the_error_of_the_mean():
    model = DPGroupBy(4.0, by=None, bounds=(0.0, 10.0), statistics=["count", "mean"])
    releases = [clone(model).set_params(random_state=seed).fit(pd.DataFrame({"x": [10.0] * 50})) for seed in (0, 1)]
    variance = 0.0
    for one in releases:
        (count, *_), (mean, error, *_) = one.estimates_["count"][0], one.estimates_["x_mean"][0]
        variance += error**2 + (25 - (abs(mean - 5) - error) ** 2) * (1 + 1 / (count - 1)) / count
    found = compare_groups(*releases).loc["x_mean", "std_error"]
    assert found.tolist() == pytest.approx([np.sqrt(variance)], rel=0.02)


def test_ratio_of_complete_tables_has_the_relative_errors_of_both():
    first, second = (release(9, 100, 1.0, "none", "normal", ["count"], seed, factor=seed) for seed in (1, 3))
    found = compare_groups(first, second, ratio=True, design_effect=0).loc["count"]
    (a, a_error), (b, b_error) = (one.estimates_["count"][:, :2].T for one in (first, second))
    assert found["ratio"].tolist() == pytest.approx((b / a).tolist())
    assert found["std_error"].tolist() == pytest.approx((b / a * np.hypot(a_error / a, b_error / b)).tolist())


def test_comparison_of_a_pair_equals_the_comparison_of_tables():
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(
        {"k": rng.choice(["a", "b"], 900), "sex": rng.choice(["f", "m"], 900), "x": rng.gamma(2, 9, 900)}
    )
    options = {"keys": KEYS, "bounds": (0.0, 99.0), "statistics": ["count", "mean", "median"], "totals": True}
    ledger = PrivacyLedger(9.0)
    model = DPGroupBy(Mu(3, delta=1e-6), by=["k", "sex"], random_state=0, **options).fit(rows)
    model.ledger = ledger
    found = compare_groups(model, pair=(("a", "f"), ("b", "total")))
    first, second = (model.estimates_["x_mean"][index] for index in (0, 5))
    assert found.loc["x_mean", ["first", "second", "change"]].tolist() == [first[0], second[0], second[0] - first[0]]
    assert list(found.index) == ["count", "x_mean", "x_median"]
    assert np.isnan(found.loc["x_median", "p_value"])  # not released for totals
    assert compare_groups(model, model)["p_value"].dropna().eq(1).all()
    assert ledger.spent.epsilon == 0


def fit(**parameters):
    rows = pd.DataFrame({"k": ["a", "b"], "sex": ["f", "m"], "x": [1.0, 2.0]})
    given = {"by": ["k", "sex"], "keys": KEYS, "bounds": (0.0, 9.0), "random_state": 0} | parameters
    return DPGroupBy(1.0, **given).fit(rows)


def test_key_named_statistic_has_its_own_level():
    """Two levels of the index had one name, so that reset_index failed."""
    rows = pd.DataFrame({"statistic": ["a", "b"] * 50})
    model = DPGroupBy(1.0, by="statistic", keys={"statistic": ["a", "b"]}, statistics="count", random_state=0)
    table = compare_groups(clone(model).fit(rows), model.fit(rows)).reset_index()
    assert list(table)[:2] == ["statistic_", "statistic"]
    assert table["statistic"].tolist() == ["a", "b"]


def test_releases_with_the_limits_of_the_first_are_compared():
    rows = pd.DataFrame({"x": np.random.default_rng(0).gamma(2, 10, 2000)})
    first, other = (DPGroupBy(by=None, random_state=0).fit(scale * rows) for scale in (1, 5))
    with pytest.raises(ValueError, match=r"the same `bounds`.* Limits that are found differ: declare `bounds_`"):
        compare_groups(first, other)
    second = DPGroupBy(by=None, bounds=first.bounds_, random_state=1).fit(rows)
    assert compare_groups(first, second)["p_value"].min() > 0.01


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda: compare_groups(fit()), ValueError, "Exactly one of `second` and `pair` is required"),
        (lambda: compare_groups(fit(), {}), TypeError, "`first` and `second` must be fitted DPGroupBy, got dict"),
        (
            lambda: compare_groups(fit(), fit(statistics="count")),
            ValueError,
            "`first` and `second` must have the same `statistics`, in the same order",
        ),
        (
            lambda: compare_groups(*[fit(by=key, keys={key: ["a", "b"]}, **COUNTS) for key in ("k", "sex")]),
            ValueError,
            "`first` and `second` must have the same `keys`, in the same order",
        ),
        (
            lambda: compare_groups(fit(), fit(totals=True)),
            ValueError,
            "`first` and `second` must have the same `totals`",
        ),
        (
            lambda: compare_groups(fit(), fit(bounds=(0.0, 90.0))),
            ValueError,
            "`first` and `second` must have the same `bounds`",
        ),
        (
            lambda: compare_groups(*[release(2, 9, 1.0, name, "normal", ["count"], 0) for name in ("none", "two")]),
            ValueError,
            "`first` and `second` must have the same `sample_weight`",
        ),
        (
            lambda: compare_groups(*[fit(statistics=["count", 0.1], confidence_level=0.49)] * 2),
            ValueError,
            "`confidence_level` at least 0.5",
        ),
        (lambda: compare_groups(fit(), pair=(("a", "f"), ("a", "w"))), ValueError, "`pair` must contain two groups"),
        (
            lambda: compare_groups(fit(), pair=(("a", "f"), ("a", "M"))),
            ValueError,
            r"\('a', 'M'\)\]\. Did you mean 'm'\?",
        ),
        (
            lambda: compare_groups(fit(by="k", keys={"k": ["a", "b"]}, **COUNTS), pair=pd.Series(["b", "a", "b"])),
            ValueError,
            "`pair` must contain two groups of keys_, got 3",
        ),
        (lambda: compare_groups(fit(), pair=[["a", "f"], ["b", "f"]]), TypeError, "A group of `pair` must be a value"),
        (
            lambda: compare_groups(fit(totals=True), pair=(("a", "f"), ("total", "f"))),
            ValueError,
            "two groups of keys_, without common rows",
        ),
        (lambda: compare_groups(fit(), fit(), design_effect=-1), ValueError, "`design_effect` must be a number >= 0"),
        (lambda: compare_groups(*[fit(statistics="median")] * 2), ValueError, "must contain 'count'"),
        (lambda: compare_groups(*[fit(statistics="std")] * 2), ValueError, "must contain 'count'"),
        (
            lambda: compare_groups(*[fit(statistics=["count", 0.1], intervals=False)] * 2),
            ValueError,
            "`intervals` must be True",
        ),
    ],
)
def test_mistakes_raise_errors(make, error, match):
    with pytest.raises(error, match=match):
        make()


@pytest.mark.parametrize("level", [0.95, 0.99])
def test_intervals_of_gaussian_releases_are_normal(level):
    """The margin of Laplace noise was 8 % and 26 % too wide."""
    table = pd.DataFrame({"x": [20.0] * 3000})
    model = DPGroupBy(Mu(0.1, delta=1e-6), by=None, bounds=(0.0, 100.0), statistics=["count", "mean", "std"])
    releases = [clone(model).set_params(random_state=seed).fit(table) for seed in (0, 1)]
    found = compare_groups(*releases, confidence_level=level).loc["count"].iloc[0]
    assert found["upper"] - found["change"] == pytest.approx(norm.isf((1 - level) / 2) * found["std_error"])
    assert found["p_value"] == pytest.approx(2 * norm.sf(abs(found["change"]) / found["std_error"]))


def test_ratio_is_bounded_where_its_difference_is_the_margin_of_both_errors():
    model = DPGroupBy(Mu(900, 1e-6), by="g", keys={"g": ["a", "b"]}, statistics="count", random_state=0)
    before, after = (clone(model).fit(pd.DataFrame({"g": ["a", "b"] * n})) for n in (100, 400))
    found = compare_groups(before, after, ratio=True).loc["count"]
    for bound in ("lower", "upper"):
        ratio = found[bound].to_numpy()
        np.testing.assert_allclose((400 - 100 * ratio) ** 2, 1.96**2 * (400 + 100 * ratio**2), rtol=1e-3)
