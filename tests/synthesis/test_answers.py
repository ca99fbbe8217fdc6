"""Counts of conditions with intervals: measured together, in groups, in part, or not at all."""

import math
from datetime import UTC, date, datetime

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skdp import DPMarginalSynthesizer, Interval
from skdp.domain import Categories
from tests.conftest import often, quick_first
from tests.synthesis.bounds import bounds_only

N = 600
PEOPLE = pd.DataFrame(
    {
        "age": np.arange(N) % 60,
        "smokes": ["yes", "no", "no"] * 200,
        "wet": [False, False, True, True, True, True] * 100,
        "n": [1, 2, 5] * 200,
        "day": [*(date(2020, 1, 1 + index % 31) for index in range(400)), *[None] * 200],
    }
)
DOMAIN = {
    "age": Interval(edges=[0, 20, 40, 60]),
    "smokes": ["yes", "no"],
    "wet": [False, True],
    "n": [1, 2, 5],
    "day": Interval(edges=[date(2020, 1, 1), date(2020, 1, 11), date(2020, 1, 31), date(2020, 2, 1)], missing=True),
}
KEPT = [("age", "smokes"), ("age",), ("wet",), ("n",), ("day",)]


def fit_model(epsilon=2.0, **parameters):
    parameters = {"domain": DOMAIN, "marginals": KEPT, "random_state": 0} | parameters
    return DPMarginalSynthesizer(epsilon, **parameters).fit(PEOPLE)


SYNTHESIZER = fit_model()


@pytest.mark.parametrize(
    ("condition", "error", "message"),
    [
        ("smokes", TypeError, "must be a mapping"),
        ({"colour": "red"}, ValueError, "must name columns of the model"),
        ({"smokes": "huge"}, ValueError, "column 'smokes' must list declared values"),
        ({"n": True}, ValueError, "column 'n' must list declared"),
        ({"wet": 1}, ValueError, "column 'wet' must list declared"),
        ({"age": 30}, ValueError, "must be a range"),
        ({"age": (1, 2, 3)}, ValueError, "a pair"),
        ({"age": ("1", None)}, TypeError, "must be numbers or None"),
        ({"age": (3, 1)}, ValueError, "low <= high"),
        ({"day": (datetime(2020, 1, 2), date(2020, 1, 1))}, ValueError, "low <= high"),
        ({"day": (datetime(2020, 1, 2, tzinfo=UTC), None)}, TypeError, "without a time zone or None, got datetime"),
        ({"smokes": ("yes", "no")}, ValueError, "Use a list for several values, or declare Categories"),
        ({"wet": (False, None)}, ValueError, "column 'wet', whose values have no order, must be a value or a list"),
    ],
)
def test_invalid_conditions_raise_an_error(condition, error, message):
    with pytest.raises(error, match=message):
        SYNTHESIZER.count_estimate(condition)


def test_text_has_ranges_in_a_declared_order_only():
    grades = ["low", "middle", "high"]
    table = pd.DataFrame({"grade": grades * 200})
    ordered = DPMarginalSynthesizer(9.0, domain={"grade": Categories(grades, ordered=True)}, random_state=0).fit(table)
    assert set(ordered.sample(90, conditions={"grade": ("low", "high")})["grade"]) == {"low", "middle"}
    with pytest.raises(ValueError, match="declared values of column 'grade'"):
        ordered.count({"grade": ("huge", None)})
    with pytest.raises(ValueError, match="column 'smokes', whose values have no order"):
        SYNTHESIZER.sample(9, conditions={"smokes": ("yes", "no")})


moments = st.one_of(
    st.dates(date(2019, 12, 1), date(2020, 3, 1)), st.datetimes(datetime(2020, 1, 1), datetime(2020, 2, 5))
)


@pytest.mark.parametrize(("name", "ends"), [("age", st.integers(-30, 90) | st.floats(-30, 90)), ("day", moments)])
@given(st.data())
def test_counts_of_ranges_add_up(name, ends, data):
    """Ranges are half-open except at the upper bound; missing values are in no range."""

    def to_time(end):
        return datetime(end.year, end.month, end.day) if type(end) is date else end

    is_inside = {"age": lambda end: end != 60, "day": lambda end: to_time(end) != datetime(2020, 2, 1)}[name]
    low, middle, high = sorted((data.draw(ends.filter(is_inside)) for _ in range(3)), key=to_time)
    parts = [SYNTHESIZER.count({name: ends}) for ends in ((None, low), (low, middle), (middle, high), (high, None))]
    assert min(parts) >= -1e-9
    assert sum(parts) == pytest.approx(SYNTHESIZER.count({name: (None, None)}))
    total = SYNTHESIZER.count({name: (to_time(low), to_time(high))})
    # A part of a bin has at least 1e-12 of its records.
    assert total == pytest.approx(parts[1] + parts[2], abs=1e-8)


@pytest.mark.parametrize(
    ("name", "limit", "last"), [("age", 59.5, 60), ("day", datetime(2020, 1, 31, 12), date(2020, 2, 1))]
)
def test_range_that_ends_before_the_upper_bound_does_not_contain_it(name, limit, last):
    """A limit between the last two numbers or days was rounded up to the upper bound, which is in the last bin."""
    parts = [SYNTHESIZER.count({name: ends}) for ends in ((None, limit), (limit, None))]
    assert sum(parts) == pytest.approx(SYNTHESIZER.count({name: (None, None)}))
    assert parts[1] == SYNTHESIZER.count({name: (last, None)}) > 0


@pytest.mark.parametrize(("name", "outside"), [("age", 60.1), ("age", 70), ("day", date(2020, 2, 2))])
def test_range_outside_the_bins_has_no_records(name, outside):
    assert SYNTHESIZER.count({name: (outside, None)}) == 0
    assert SYNTHESIZER.count({name: (None, outside)}) == SYNTHESIZER.count({name: (None, None)})


@pytest.mark.long
@pytest.mark.parametrize("delta", often([0.0, 1e-6], [1e-6]))
def test_counts_of_found_bins_have_the_stated_coverage(delta):
    """Bins are found from noise that is independent of the noise of their counts."""
    age = np.minimum(60.0, np.random.default_rng(1).gamma(2, 9, 2_000).round())
    table = pd.DataFrame({"age": age, "smokes": np.where(np.arange(2_000) % 3, "no", "yes")})
    domain = {"age": Interval(0, 60), "smokes": ["yes", "no"]}
    edges, covered = set(), []
    for seed in range(40):
        synthesizer = DPMarginalSynthesizer(
            1.0, delta=delta, domain=domain, marginals=[("age", "smokes")], random_state=seed
        ).fit(table)
        found = synthesizer.marginal(["age", "smokes"])
        bins = synthesizer.domain_["age"]
        true = pd.crosstab(bins.encode(age), table["smokes"])[["yes", "no"]].reindex(range(len(bins)), fill_value=0)
        edges.add(tuple(bins.edges))
        assert found["supported"].all()
        covered += ((found["lower"] <= true.to_numpy().ravel()) & (true.to_numpy().ravel() <= found["upper"])).tolist()
    assert len(edges) > 20
    assert 0.93 <= np.mean(covered) <= 0.99


# A binomial number of intervals with coverage 95 % is below `min_covered` with probability 1e-6.
@pytest.mark.parametrize(
    ("names", "epsilon", "n_fits", "min_covered"),
    quick_first(1, [(["age", "job", "answer"], 0.3, 20, 12), (["age", "sex"], 0.5, 150, 127)]),
)
def test_intervals_of_sums_of_many_nearly_empty_cells_cover(names, epsilon, n_fits, min_covered):
    rng = np.random.default_rng(5)
    values = {"age": range(100), "job": range(5), "answer": range(3), "sex": range(2)}
    age = rng.normal(40, 12, 5_000).astype(int).clip(0, 99)
    columns = {"age": age, "job": rng.choice(5, 5_000, p=[0.5, 0.3, 0.1, 0.07, 0.03])}
    columns |= {"answer": rng.integers(3, size=5_000), "sex": rng.integers(2, size=5_000)}
    table = pd.DataFrame(columns)[names]
    domain = {name: list(values[name]) for name in names}
    first, second = names[:2]
    conditions = [{first: (None, 50)}, {second: 0}, {first: (25, 50), second: 0}, {first: 40, second: 0}]
    is_met = [age < 50, table[second] == 0, (age >= 25) & (age < 50) & (table[second] == 0)]
    is_met.append((age == 40) & (table[second] == 0))
    covered = np.zeros(len(conditions), int)
    for seed in range(n_fits):
        marginals = [[first, name] for name in names[1:]]
        synthesizer = DPMarginalSynthesizer(epsilon, domain=domain, marginals=marginals, random_state=seed).fit(table)
        for index, condition in enumerate(conditions):
            found = synthesizer.count_estimate(condition)
            assert found.lower <= found.count <= found.upper
            covered[index] += found.lower <= is_met[index].sum() <= found.upper
    assert (covered >= min_covered).all()


@pytest.mark.parametrize(
    ("delta", "level", "margin"), [(1e-6, 0.95, 1.96), (0, 0.95, 2.118), (0, 0.5, 0.674), (0, 0.99, 3.256)]
)
def test_laplace_noise_has_the_wider_tail(delta, level, margin):
    synthesizer = fit_model(0.001, delta=delta, marginals=[("wet",)])
    marginal = synthesizer.marginals_[0]
    found = synthesizer.marginal("wet", confidence_level=level)
    margins = (found["upper"] - marginal.counts.clip(0)) / marginal.std_error
    assert margins.to_numpy() == pytest.approx(margin, rel=0.01)


def test_columns_not_measured_together_have_no_error():
    found = SYNTHESIZER.marginal(["wet", "n"])
    assert not found["supported"].any()
    assert found["lower"].isna().all()


def test_several_marginals_are_combined_by_inverse_variance():
    """The larger one of this error and the distance to the measured counts."""
    pair, single = (SYNTHESIZER.marginals_[index].std_error for index in (0, 1))
    stated = SYNTHESIZER.marginal("age")["std_error"].to_numpy()
    smallest = (1 / single**2 + 1 / (2 * pair**2)) ** -0.5
    assert (stated >= smallest * (1 - 1e-9)).all()
    assert stated.min() == pytest.approx(smallest)


def test_unfitted_model_has_the_larger_error():
    synthesizer = fit_model(marginals=[("wet",)])
    marginal = synthesizer.marginals_[-1]
    marginal.counts[:] += [500.0, -500.0]
    misfit = synthesizer.marginal("wet")["count"] - marginal.counts
    expected = np.sqrt(misfit**2 - marginal.std_error**2)
    np.testing.assert_allclose(synthesizer.marginal("wet")["std_error"], expected, rtol=1e-6)


def test_rare_values_counted_together_have_no_error():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.geometric(0.4, (300, 4)).clip(1, 12), columns=list("abcd"))
    table["b"] = table["a"].where(rng.random(300) < 0.5, table["b"])
    synthesizer = DPMarginalSynthesizer(5.0, domain=dict.fromkeys("abcd", range(1, 13)), random_state=0).fit(table)
    grouped = next(marginal for marginal in synthesizer.marginals_ if marginal.groups)
    first, second = (synthesizer.domain_.columns[column] for column in grouped.clique)
    supported = synthesizer.marginal([first, second])["supported"].to_numpy().reshape(12, 12)
    members = [np.arange(12) if found is None else found for found in grouped.groups]
    alone = [np.bincount(found)[found] == 1 for found in members]
    np.testing.assert_array_equal(supported, np.outer(*alone))
    together = 1 + np.flatnonzero(members[0] == np.bincount(members[0]).argmax())
    assert synthesizer.count_estimate({first: together.tolist(), second: (None, None)}).supported
    assert not synthesizer.count_estimate({first: together[:1].tolist(), second: (None, 2)}).supported


def test_ranges_are_counts_of_one_column():
    whole = SYNTHESIZER.count_estimate({"age": (20, 60)})
    assert whole.supported
    assert whole.lower <= 400 <= whole.upper
    part = SYNTHESIZER.count_estimate({"age": (20, 50)})
    assert not part.supported  # the count below 50 in the bin from 40 to 60 is unknown
    assert part.count == pytest.approx(300, abs=80)  # cells within the bin have few records


@pytest.mark.parametrize("high", [25, 51])
def test_part_of_a_bin_differs_from_the_bin(high):
    """If the model has all or no records of a bin in the part, its noisy count does not apply to the part."""
    table = pd.DataFrame({"x": [50.0] * 300})
    domain = {"x": Interval(0, 100, bins=1, decimals=0)}
    for seed in range(5):
        synthesizer = DPMarginalSynthesizer(5.0, domain=domain, random_state=seed).fit(table)
        assert not synthesizer.count_estimate({"x": (0, high)}).supported
        assert synthesizer.count_estimate({"x": (0, 100)}).supported


@pytest.mark.parametrize("high", [100, 100_000])
@pytest.mark.parametrize("decimals", [0, 1])
def test_numbers_clipped_to_the_upper_bound_are_counted_there(high, decimals):
    table = pd.DataFrame({"x": [high / 4, float(high)] * 1000})
    domain = {"x": Interval(0, high, bins=5, decimals=decimals)}
    drawn = DPMarginalSynthesizer(10.0, domain=domain, random_state=0).fit(table).sample(1000)["x"]
    assert (drawn == high).mean() == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize("bins", ["declared", "found"])
@pytest.mark.parametrize(
    ("interval", "bound", "expected"),
    [
        (Interval([20, 40, 60, 90]), 90, 500),
        (Interval(20, 90, bins=3, decimals=2), 90.0, 500),
        (Interval(date(2020, 1, 1), date(2020, 12, 31), bins=3), date(2020, 12, 31), 500),
        (Interval([20.0, 60, 90], real=True), 90.0, 500),
        (Interval([0, 8, 16]), 16, 500),
    ],
)
def test_range_from_the_upper_bound_is_a_part_of_the_last_bin(interval, bound, expected, bins):
    table = pd.DataFrame({"x": [interval.edges[0]] * 1500 + [bound] * 500})
    domain = {"x": interval}
    model = DPMarginalSynthesizer(10.0, domain=bounds_only(domain, bins), random_state=0).fit(table)
    for limits in [(bound, None), (bound, bound)]:
        estimate = model.count_estimate({"x": limits})
        # A frequent day has a bin of its own.
        assert estimate.supported == (isinstance(bound, date) and bins == "found")
        assert estimate.count == pytest.approx(expected, abs=30)


def test_count_of_no_records_is_0_and_of_all_records_covers():
    everyone = SYNTHESIZER.count_estimate({})
    assert everyone.lower <= N <= everyone.upper
    assert everyone.std_error == pytest.approx(SYNTHESIZER.n_rows_std_error_)
    nobody = SYNTHESIZER.count_estimate({"smokes": []})
    assert (nobody.count, nobody.lower, nobody.upper) == (0, 0, 0)


@pytest.mark.parametrize("level", [0, 1, "high", True, math.nan])
def test_invalid_levels_raise_an_error(level):
    with pytest.raises(ValueError, match="`confidence_level` must be"):
        SYNTHESIZER.marginal("wet", confidence_level=level)
    with pytest.raises(ValueError, match="`confidence_level` must be"):
        SYNTHESIZER.count_estimate({}, confidence_level=level)


def test_quality_of_marginals_names_noisy_marginals():
    quality = fit_model(0.02).marginal_quality_
    assert quality.index.to_list() == ["age, smokes", "age", "wet", "n", "day"]
    assert (quality["noise"] > 0.1).any()
    assert (quality["usable"] == (quality["noise"] <= 0.1)).all()
    assert fit_model(50.0).marginal_quality_["usable"].all()
    assert (fit_model(50.0).marginal_quality_["misfit"] < 0.01).all()


def test_correlation_of_numbers_in_one_bin_is_not_usable():
    """With bounds a hundred times too wide, one bin may have all rows: a correlation of 1 became 0 silently."""
    shared = np.random.default_rng(0).normal(size=500)
    table = pd.DataFrame({"weight": 75 + 12 * shared, "pressure": 130 + 18 * shared})
    domain = dict.fromkeys(table, Interval(0, 10_000, real=True))
    kept = DPMarginalSynthesizer(1.0, domain=domain, random_state=0).fit(table)
    assert kept.marginal_quality_["usable"]["weight, pressure"]
    assert kept.sample(1_000).corr().iloc[0, 1] > 0.8
    with pytest.warns(UserWarning, match=r"hides the rank correlation of 1 measured pairs.*\('weight', 'pressure'\)"):
        lost = DPMarginalSynthesizer(1.0, domain=domain, random_state=1).fit(table)
    quality = lost.marginal_quality_.loc["weight, pressure"]
    assert quality["noise"] <= 0.1
    assert not quality["usable"]
