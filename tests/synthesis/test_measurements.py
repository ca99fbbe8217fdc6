"""Means of synthetic measurements under declarations as users write them: unbiased, or an error."""

import math
from datetime import date
from functools import cache

import numpy as np
import pandas as pd
import pytest

from skdp import (
    Domain,
    DPColumnSynthesizer,
    DPHistogram,
    DPMarginalSynthesizer,
    Interval,
    PrivacyLedger,
    RandomizedResponseEncoder,
    SyntheticResampler,
)
from skdp.engines import synthesize_file
from tests.conftest import often, quick_first

N = 20_000

# Name: generator of numbers, number of decimals, fraction of missing values.
COLUMNS = {
    "conversion rate": (lambda rng: rng.beta(2, 5, N), 4, 0),
    "share of rent": (lambda rng: rng.beta(8, 2, N), 2, 0.1),
    "probability": (lambda rng: rng.uniform(0, 1, N), None, 0),
    "hourly wage": (lambda rng: rng.lognormal(2.8, 0.5, N), 2, 0),
    "balance": (lambda rng: rng.normal(150, 900, N), 2, 0),
    "frost": (lambda rng: -rng.gamma(2, 4, N), 2, 0),
    "dose": (lambda rng: rng.lognormal(-9, 0.6, N), None, 0),
    "half hours": (lambda rng: rng.integers(0, 90, N) / 2, 1, 0),
}


def four_parts(low, high):
    return [low + (high - low) * k // 4 for k in range(5)] if high - low >= 4 else [low, high]


# Declarations of a column from a low to a high integer, as a user writes them by hand.
DECLARATIONS = {
    "integer edges": lambda low, high, options: Interval(four_parts(low, high), **options),
    "integer bounds": lambda low, high, options: Interval(low, high, **options),
    "float edges": lambda low, high, options: Interval([float(edge) for edge in four_parts(low, high)], **options),
    "real": lambda low, high, options: Interval(low, high, bins=4, real=True, **options),
    "two decimals": lambda low, high, options: Interval(low, high, bins=8, decimals=2, **options),
}


@cache
def measure(name):
    make, decimals, missing = COLUMNS[name]
    rng = np.random.default_rng(sum(map(ord, name)))
    values = make(rng)
    values = values if decimals is None else values.round(decimals)
    return np.where(rng.random(N) < missing, np.nan, values)


def find_bias(name, declaration):
    """Return the bias of the synthetic mean in standard deviations, None for an error."""
    values = measure(name)
    low, high = math.floor(np.nanmin(values)), math.floor(np.nanmax(values)) + 1
    declared = DECLARATIONS[declaration](low, high, {"missing": bool(np.isnan(values).any())})
    synthesizer = DPMarginalSynthesizer(10.0, domain={name: declared}, random_state=0)
    try:
        synthesizer.fit(pd.DataFrame({name: values}))
    except ValueError as error:
        if "decimals" not in str(error) and "declares whole numbers" not in str(error):
            raise
        return None
    drawn = synthesizer.sample(60_000)[name]
    return (drawn.mean() - np.nanmean(values)) / np.nanstd(values)


@pytest.mark.parametrize("name", often(COLUMNS, ["share of rent"]))
def test_synthetic_mean_is_unbiased_or_the_declaration_is_an_error(name):
    biases = {declaration: find_bias(name, declaration) for declaration in DECLARATIONS}
    assert max(abs(bias) for bias in biases.values() if bias is not None) <= 0.01, biases
    assert biases["float edges"] is not None
    assert biases["real"] is not None


WAGES = pd.DataFrame({"wage": [18.25, 7.75, 30.5] * 40, "town": ["a", "b", "c"] * 40})
WHOLE = {"wage": Interval(0, 40, bins=8), "town": ["a", "b", "c"]}


def fit_marginals(domain, ledger, tmp_path):
    return DPMarginalSynthesizer(1.0, domain=domain, ledger=ledger).fit(WAGES)


def fit_columns(domain, ledger, tmp_path):
    return DPColumnSynthesizer(columns=["wage"], epsilon=1.0, domain=domain, ledger=ledger).fit_transform(WAGES)


def fit_resample(domain, ledger, tmp_path):
    synthesizer = DPMarginalSynthesizer(1.0, domain=domain, ledger=ledger)
    return SyntheticResampler(synthesizer).fit_resample(WAGES[["wage"]], WAGES["town"])


def fit_lazy(domain, ledger, tmp_path):
    polars = pytest.importorskip("polars")
    return DPMarginalSynthesizer(1.0, domain=domain, ledger=ledger).fit(polars.from_pandas(WAGES).lazy())


def fit_csv(domain, ledger, tmp_path):
    WAGES.to_csv(tmp_path / "wages.csv", index=False)
    synthesizer = DPMarginalSynthesizer(1.0, domain=domain, ledger=ledger)
    return synthesize_file(tmp_path / "wages.csv", tmp_path / "rows.csv", synthesizer)


@pytest.mark.parametrize("fit", [fit_marginals, fit_columns, fit_resample, fit_lazy, fit_csv])
def test_fractions_of_whole_column_are_an_error_before_the_charge(fit, tmp_path):
    of_values = {"relation": "replace_values", "columns": ["wage"]} if fit is fit_columns else {}
    ledger = PrivacyLedger(5.0, delta=1e-3, **of_values)
    for edges in (WHOLE["wage"], Interval([0, 40])):
        with pytest.raises(ValueError, match=r"'wage' contains a number with more decimals .* set `real=True`"):
            fit(WHOLE | {"wage": edges}, ledger, tmp_path)
    assert ledger.spent[0] == 0
    fit(WHOLE | {"wage": Interval(0, 40, bins=8, decimals=2)}, ledger, tmp_path)
    assert ledger.spent[0] > 0


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("clip", {8.0: 40, 18.0: 40, 30.0: 40}),
        ({"wage": "clip"}, {8.0: 40, 18.0: 40, 30.0: 40}),
        ({"wage": 3}, {3.0: 120}),
    ],
)
def test_handled_fractions_become_nearest_whole_number_or_replacement(policy, expected):
    synthesizer = DPMarginalSynthesizer(10.0, domain=WHOLE, handle_unknown=policy, random_state=0).fit(WAGES)
    drawn = synthesizer.sample(1_200)["wage"].value_counts() / 10
    for number, count in expected.items():
        assert abs(drawn[number] - count) < 4


def test_replacement_with_more_decimals_is_an_error():
    for declared in (WHOLE["wage"], Interval(0, 40, decimals=1)):
        synthesizer = DPMarginalSynthesizer(1.0, domain=WHOLE | {"wage": declared}, handle_unknown={"wage": 3.25})
        with pytest.raises(ValueError, match="`handle_unknown` of column 'wage' must be one of its declared values"):
            synthesizer.fit(WAGES)
    two_decimals = WHOLE | {"wage": Interval(0, 20, decimals=2)}
    DPMarginalSynthesizer(1.0, domain=two_decimals, handle_unknown={"wage": 3.25}).fit(WAGES)


def test_ignored_fractions_exclude_rows():
    table = WAGES.assign(wage=[18.0, 7.75, 30.5] * 40)
    synthesizer = DPMarginalSynthesizer(10.0, domain=WHOLE, handle_unknown="ignore", random_state=0).fit(table)
    assert abs(synthesizer.n_rows_ - 40) < 10


@pytest.mark.parametrize(
    ("values", "decimals"),
    [
        ([0.1 + 0.2, 1.1 * 3, sum([0.1] * 25)], 1),
        (np.array([0.1, 0.7, 2.9], "float32"), 1),
        (np.array([0.3, 2.55, 3.9], "float16"), 2),
        ([1.9999999999999998, np.nan, 2.0], 0),
        (pd.array([1, None, 2], "Int64"), 0),
    ],
)
def test_rounding_errors_of_floats_are_not_counted_as_decimals(values, decimals):
    table = pd.DataFrame({"x": values})
    declared = Interval(0, 4, bins=4, decimals=decimals, missing=True)
    rows = DPMarginalSynthesizer(1e3, domain={"x": declared}, random_state=0)
    with pytest.warns(UserWarning, match="epsilon=1000"):
        drawn = rows.fit(pd.concat([table] * 30)).sample(900)["x"].astype(float)
    expected = {round(float(value), decimals) for value in table["x"].dropna()}
    assert {*drawn.dropna()} == expected


def test_decimals_of_half_precision_do_not_overflow():
    """2,000 in hundredths exceeds the largest number of float16."""
    table = pd.DataFrame({"x": np.array([2_000.0, 700.5] * 50, "float16")})
    synthesizer = DPMarginalSynthesizer(1.0, domain={"x": Interval(0, 4_000, decimals=2)}, random_state=0).fit(table)
    assert synthesizer.sample(5)["x"].between(0, 4_000).all()


def test_nearest_whole_number_outside_of_bounds_keeps_its_bin():
    """0 is the nearest whole number of 0.5, the lower bound, but is outside."""
    declared = Interval([0.5, 4.5, 8.5], decimals=0)
    table = pd.DataFrame({"x": [0.5, 0.6, 8.4] * 100})
    synthesizer = DPMarginalSynthesizer(10.0, domain={"x": declared}, handle_unknown="clip", random_state=0).fit(table)
    assert abs(synthesizer.sample(3_000)["x"].lt(4.5).mean() - 2 / 3) < 0.05


def test_fractions_are_counted_between_edges_without_an_error():
    declared = {"wage": Interval(list(range(0, 41, 5)))}
    encoder = RandomizedResponseEncoder(1.0, categories=WHOLE | declared).fit(WAGES)
    assert len(encoder.transform(WAGES)) == len(WAGES)
    histogram = DPHistogram(10.0, domain=declared, random_state=0).fit(WAGES[["wage"]])
    assert abs(histogram.counts_ - [0, 40, 0, 40, 0, 0, 40, 0]).max() < 5


def test_derived_date_keeps_the_fraction_of_a_day():
    domain = Domain(
        {"start": Interval(date(2024, 1, 1), date(2025, 1, 1)), "days": Interval(0, 30)},
        derived={"end": "start + days"},
    )
    table = pd.DataFrame({"start": pd.to_datetime(["2024-01-01", "2024-01-05"]), "days": [1.75, 2.0]})
    ends = domain.add_derived(table)["end"]
    assert ends.tolist() == [pd.Timestamp("2024-01-02 18:00"), pd.Timestamp("2024-01-07")]
    assert domain.add_derived(table[1:])["end"].tolist() == [pd.Timestamp("2024-01-07")]


@pytest.mark.parametrize(
    ("declared", "is_real"),
    [
        (Interval([0, 1]), False),
        (Interval([0.0, 1.0]), True),
        (Interval([0, 1.0]), True),
        (Interval(np.arange(3)), False),
        (Interval(np.linspace(0, 10, 3)), True),
        (Interval(0, 100), False),
        (Interval(0, 100.0), True),
        (Interval(0, 1), False),
        (Interval(0.0, 100.0, decimals=0), False),
        (Interval(iter([0, 5, 9])), False),
    ],
)
def test_types_of_edges_declare_whole_numbers_or_fractions(declared, is_real):
    assert declared.real is is_real
    assert declared.decimals == (None if is_real else 0)
    domain = Domain({"x": declared})
    assert Domain.from_toml(domain.to_toml()) == domain


@pytest.mark.parametrize("declared", quick_first(2, [[1, 7], [0, 20], [0, 1], [1988, 1990], [1, 400]]), ids=str)
def test_whole_numbers_between_bounds_have_their_proportions(declared):
    """The largest number of `Interval(1, 7)` never occurred, and fractions did."""
    low, high = declared
    rng = np.random.default_rng(low)
    numbers = np.where(rng.random(N) < 0.15, high, rng.integers(low, high + 1, N))
    table = pd.DataFrame({"x": numbers, "even": np.where(numbers % 2, "no", "yes")})
    domain = {"x": Interval(low, high), "even": ["no", "yes"]}
    drawn = DPMarginalSynthesizer(20.0, domain=domain, random_state=0).fit(table).sample(N)
    columns = DPColumnSynthesizer(columns=["x"], epsilon=20.0, domain=domain, random_state=0).fit_transform(table)
    for rows in (drawn, columns):
        assert rows["x"].dtype.kind == "i"
        assert rows["x"].between(low, high).all()
        for number in (low, high - 1, high):
            # Six standard errors of two samples: a failure has a probability below 1e-8.
            assert (rows["x"] == number).mean() == pytest.approx((numbers == number).mean(), abs=0.02)
    if high - low < 10:
        assert ((drawn["x"] % 2 == 0) == (drawn["even"] == "yes")).mean() > 0.99


def test_rare_first_and_last_numbers_are_estimated_without_bias():
    """Below four standard errors, the count of the last number was 0: a mean of 24 in place of 80."""
    years = np.repeat(np.arange(2015, 2024), np.arange(1, 10) * 80)
    for numbers, bounds, rare in ((years, (2015, 2023), 0), (-years, (-2023, -2015), -1)):
        counts = []
        for seed in range(10):
            model = DPMarginalSynthesizer(0.05, domain={"year": Interval(*bounds)}, random_state=seed)
            counts.append(model.fit(pd.DataFrame({"year": numbers})).marginal("year")["count"].iloc[rare])
        # The standard error of a count is 30: this is four standard errors of the mean.
        assert np.mean(counts) == pytest.approx(80, abs=4 * 30 / 10**0.5)


def test_error_of_missing_numbers_does_not_advise_to_clip_them():
    model = DPMarginalSynthesizer(1.0, domain={"x": Interval(0, 9)})
    with pytest.raises(ValueError, match="`handle_unknown='clip'`, which moves numbers, but not missing values"):
        model.fit(pd.DataFrame({"x": [1.0, np.nan]}))


@pytest.mark.parametrize("n_days", often([3, 12, 400, 900], [3, 400]))
def test_days_between_bounds_have_their_proportions(n_days):
    """The last declared day shared a bin and a cell with the day before: 300, 336, 364 for 300, 690, 10 rows."""
    days = np.datetime64("2020-01-01") + np.array([0, n_days - 2, n_days - 1])
    table = pd.DataFrame({"day": np.repeat(days, [300, 690, 10]).astype("datetime64[s]"), "x": ["a", "b"] * 500})
    low, *_, high = days.tolist()
    for bins in (None, 1):
        domain = {"day": Interval(low, high, bins=bins), "x": ["a", "b"]}
        drawn = DPMarginalSynthesizer(500.0, domain=domain, random_state=0).fit(table).sample(1000)
        columns = DPColumnSynthesizer(columns=["day"], epsilon=500.0, domain=domain, random_state=0)
        for rows in (drawn, columns.fit_transform(table)):
            counts = rows["day"].value_counts().reindex(days.astype("datetime64[s]"), fill_value=0)
            # Six standard errors of two samples, by which a drawn row may have another day.
            assert np.abs(counts - [300, 690, 10]).max() < 130, counts
            assert counts.iloc[-1] < 40


def test_last_day_of_ten_years_has_a_cell_of_its_own():
    """Dates after the bounds may have been clipped to the last day, whose records were drawn from eight days."""
    n_rows, rng = 3_000, np.random.default_rng(0)
    days = np.datetime64("2010-01-01") + np.where(rng.random(n_rows) < 0.3, 3651, rng.integers(0, 3650, n_rows))
    low, high = np.array(["2010-01-01", "2019-12-31"], "datetime64[D]").tolist()
    domain = {"day": Interval(low, high), "x": ["a", "b"]}
    table = pd.DataFrame({"day": days, "x": rng.choice(["a", "b"], n_rows)})
    rows = DPMarginalSynthesizer(0.5, delta=1e-6, domain=domain, random_state=0).fit(table).sample(n_rows)
    assert (rows["day"] == "2019-12-31").mean() == pytest.approx(0.3, abs=0.04)


def test_toml_numbers_with_point_declare_fractions():
    domain = Domain.from_toml("[columns.a]\nlow = 0.0\nhigh = 9.0\n[columns.b]\nlow = 0\nhigh = 90\n")
    assert (domain["a"].real, domain["b"].real) == (True, False)


def test_large_table_is_counted_by_marginal():
    polars = pytest.importorskip("polars")
    rng = np.random.default_rng(0)
    # Rare values of a marginal of three columns are counted together, and all columns have 10**13 combinations.
    rows = pd.DataFrame({f"c{i}": np.floor(60 * rng.random(4000) ** 6).astype(int) for i in range(7)})
    rows["sign"] = rng.integers(0, 2, 4000)
    rows["parity"] = (rows["c0"] + rows["c1"] + rows["sign"]) % 2
    domain = {name: list(range(2 if name in ("sign", "parity") else 60)) for name in rows}
    synthesizer = DPMarginalSynthesizer(5.0, domain=domain, random_state=0)
    fitted = synthesizer.fit(polars.from_pandas(rows).lazy())
    assert max(len(names) for names in fitted.selected_cliques_) == 3


def test_found_bins_keep_listed_marginals_within_the_limit_of_cells(monkeypatch):
    """Marginals are checked with ten bins for each column without declared ones, and more bins are found."""
    monkeypatch.setattr("skdp.synthesis.measure._plan.MAX_TABLE_CELLS", 10**5)
    rows = pd.DataFrame(np.random.default_rng(0).random((20_000, 5)), columns=list("abcde"))
    domain = {name: Interval(0.0, 1.0) for name in rows}
    fitted = DPMarginalSynthesizer(100.0, domain=domain, marginals=[tuple("abcde")], random_state=0).fit(rows)
    assert fitted.marginals_[0].counts.size == 8**5
