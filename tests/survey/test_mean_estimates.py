"""Means with weights, strata and clusters: another library, coverage, and errors."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import stats

from skdp.survey import ReportDesign, survey_mean

RNG = np.random.default_rng(0)
N = 600
STRATUM = np.repeat(["town", "country", "island"], [300, 240, 60])
HOUSEHOLD = np.arange(N) // 3
WEIGHT = np.where(STRATUM == "town", 40, 10) + RNG.integers(0, 5, N)
VALUES = pd.DataFrame({"a": RNG.normal(size=N) + HOUSEHOLD % 5, "b": RNG.random(N)})


def test_variance_is_the_sum_over_strata_of_the_variance_of_cluster_totals():
    """The formula of the page on surveys, by loops. samplics 0.6.1 has the same errors and intervals up to 1e-12."""
    table = survey_mean(VALUES, WEIGHT, STRATUM, HOUSEHOLD)
    for name in VALUES:
        mean = WEIGHT @ VALUES[name] / WEIGHT.sum()
        variance = 0
        for stratum in np.unique(STRATUM):
            totals = []
            for house in np.unique(HOUSEHOLD[stratum == STRATUM]):
                rows = (stratum == STRATUM) & (house == HOUSEHOLD)
                totals.append(WEIGHT[rows] @ (VALUES[name][rows] - mean) / WEIGHT.sum())
            variance += len(totals) * np.var(totals, ddof=1)
        assert table.loc[name, "mean"] == pytest.approx(mean, rel=1e-12)
        assert table.loc[name, "std_error"] == pytest.approx(np.sqrt(variance), rel=1e-12)
        margin = table.loc[name, "upper"] - mean
        assert margin == pytest.approx(stats.t.ppf(0.975, 200 - 3) * np.sqrt(variance))


def test_mean_of_independent_rows_has_students_interval():
    interval = stats.ttest_1samp(VALUES["b"], 0).confidence_interval(0.9)
    table = survey_mean(VALUES, confidence_level=0.9)
    assert table.loc["b", "mean"] == pytest.approx(VALUES["b"].mean())
    assert tuple(table.loc["b", ["lower", "upper"]]) == pytest.approx(tuple(interval))


def test_clusters_of_equal_names_in_two_strata_are_distinct():
    names = HOUSEHOLD % 20
    labels = [f"{stratum}{name}" for stratum, name in zip(STRATUM, names, strict=True)]
    pd.testing.assert_frame_equal(
        survey_mean(VALUES, WEIGHT, STRATUM, names), survey_mean(VALUES, WEIGHT, STRATUM, labels)
    )


def test_polars_values_and_labels_give_the_same_table():
    inputs = [pl.Series(values) for values in (WEIGHT, STRATUM, HOUSEHOLD)]
    expected = survey_mean(VALUES, WEIGHT, STRATUM, HOUSEHOLD)
    pd.testing.assert_frame_equal(survey_mean(pl.from_pandas(VALUES), *inputs), expected)


def test_values_of_a_questionnaire_give_its_proportion():
    design = ReportDesign.forced("drug", yes=0.2, no=0.1)
    answers = pd.DataFrame({"drug": RNG.choice(["no", "yes"], N)})
    table = survey_mean(design.debias(answers), WEIGHT)
    expected = design.estimate_frequencies(answers, sample_weight=WEIGHT)
    np.testing.assert_allclose(table["mean"], expected["frequency"])
    np.testing.assert_allclose(table["std_error"], expected["std_error"], rtol=1e-3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sample_weight": -WEIGHT}, "`sample_weight` must be finite, at least 0"),
        ({"strata": STRATUM[1:]}, "`strata` must have 600 entries that are not missing, got 599"),
        ({"clusters": [np.nan, *HOUSEHOLD[1:]]}, "`clusters` must have 600 entries that are not missing, got 599"),
        ({"clusters": [np.nan, *map(str, HOUSEHOLD[1:])]}, "`clusters` must have 600 entries that are not missing,"),
        ({"clusters": [None, *STRATUM[1:]]}, "`clusters` must have 600 entries that are not missing, got 599"),
        ({"clusters": VALUES}, r"`clusters` must be one column, got shape \(600, 2\)"),
        ({"values": VALUES[:0]}, r"values must have at least one row and one column, got shape \(0, 2\)"),
        ({"values": VALUES[[]]}, r"values must have at least one row and one column, got shape \(600, 0\)"),
        ({"strata": HOUSEHOLD, "clusters": HOUSEHOLD}, "at least two clusters, got a stratum with one"),
        ({"values": VALUES.assign(a=np.nan)}, "Column 'a' must be finite, got missing"),
        ({"strata": pd.Series(STRATUM).sample(frac=1, random_state=0)}, "must have its row labels in the order"),
    ],
)
def test_inputs_that_are_no_sample_raise(changes, message):
    with pytest.raises(ValueError, match=message):
        survey_mean(**{"values": VALUES} | changes)


@pytest.mark.parametrize("values", [VALUES["a"], pl.Series("a", [1.0, 2.0]), VALUES.to_numpy(), [1.0, 2.0], None])
def test_values_that_are_no_dataframe_raise_with_a_remedy(values):
    with pytest.raises(
        TypeError, match=r"^values must be a dataframe, got \w+\. Pass an array or series as pd.DataFrame"
    ):
        survey_mean(values)


def test_column_of_text_raises_without_its_values():
    with pytest.raises(TypeError, match=r"^(?!.*secret).*Column 'a' must be numeric.*`debias`"):
        survey_mean(VALUES.assign(a="secret"))


def test_degrees_of_freedom_count_clusters_with_weight():
    values = pd.DataFrame({"x": [5.0, 9.0, 6.0, 1.0]})
    alone = survey_mean(values[:2])
    subgroup = survey_mean(values, [1, 1, 0, 0])
    quantiles = ((one["upper"] - one["mean"]) / one["std_error"] for one in (alone, subgroup))
    first, second = (quantile.item() for quantile in quantiles)
    assert first == pytest.approx(second)


def test_subgroup_of_one_cluster_raises_an_error():
    with pytest.raises(ValueError, match="at least two clusters with a positive weight, got at most one"):
        survey_mean(pd.DataFrame({"x": [5.0, 9.0, 9.0]}), [1, 0, 0])


def test_row_labels_have_no_effect():
    values, weights = pd.DataFrame({"a": [0.0, 1.0, 1.0, 4.0]}), np.array([1.0, 2.0, 3.0, 4.0])
    expected = survey_mean(values, weights)
    for labels in ([3, 2, 1, 0], [0, 0, 1, 1]):
        pd.testing.assert_frame_equal(survey_mean(values.set_axis(labels), weights), expected)


# Rows that are not used, and waves.


@pytest.mark.parametrize("convert", [lambda x: x, pl.from_pandas])
def test_values_of_rows_of_weight_0_are_not_read(convert):
    is_asked = HOUSEHOLD % 3 > 0
    expected = survey_mean(VALUES, WEIGHT * is_asked, STRATUM, HOUSEHOLD)
    missing = VALUES.where(pd.Series(is_asked), np.nan)
    found = survey_mean(convert(missing), WEIGHT * is_asked, STRATUM, HOUSEHOLD)
    pd.testing.assert_frame_equal(found, expected)
    with pytest.raises(ValueError, match=r"\(rows: 201\)\. Set their weights to 0, which keeps their clusters"):
        survey_mean(missing, WEIGHT, STRATUM, HOUSEHOLD)


WAVE = np.where(np.arange(N) % 2, "b", "a")


def test_change_of_waves_with_equal_people_is_the_mean_of_their_differences():
    people = np.arange(N) // 2
    table = survey_mean(VALUES, strata=STRATUM, clusters=people, waves=WAVE)
    differences = VALUES[1::2].reset_index(drop=True) - VALUES[::2].reset_index(drop=True)
    expected = survey_mean(differences, strata=STRATUM[::2])
    pd.testing.assert_frame_equal(table.loc["change"], expected)


@pytest.mark.parametrize("clusters", [None, HOUSEHOLD + N * (WAVE == "b")])
def test_change_of_waves_without_common_people_adds_the_variances(clusters):
    table = survey_mean(VALUES, WEIGHT, STRATUM, clusters, waves=pl.Series(WAVE))
    errors = []
    for wave in "ab":
        rows = wave == WAVE
        inputs = [None if x is None else x[rows] for x in (WEIGHT, STRATUM, clusters)]
        pd.testing.assert_frame_equal(table.loc[wave], survey_mean(VALUES[rows].reset_index(drop=True), *inputs))
        errors.append(table.loc[wave, "std_error"])
    np.testing.assert_allclose(table.loc["change", "std_error"] ** 2, errors[0] ** 2 + errors[1] ** 2)
    np.testing.assert_allclose(table.loc["change", "mean"], table.loc["b", "mean"] - table.loc["a", "mean"])


ORDERED = pd.Categorical(np.where(WAVE == "a", "pre", "post"), ["unused", "pre", "post"], ordered=True)


@pytest.mark.parametrize(
    "waves",
    [
        pd.Series(ORDERED),
        ORDERED,
        pl.Series(ORDERED.tolist(), dtype=pl.Enum(["unused", "pre", "post"])),
        pa.chunked_array([pa.DictionaryArray.from_arrays(ORDERED.codes, list(ORDERED.categories), ordered=True)]),
    ],
    ids=["Series", "Categorical", "Enum", "dictionary"],
)
def test_change_follows_the_order_of_categories(waves):
    """The change from "pre" to "post" had the wrong sign, because the words were sorted."""
    expected, table = survey_mean(VALUES, waves=WAVE), survey_mean(VALUES, waves=waves)
    assert table.index.get_level_values("wave").unique().tolist() == ["pre", "post", "change"]
    np.testing.assert_array_equal(table, expected)
    by_text = survey_mean(VALUES, waves=ORDERED.tolist())
    np.testing.assert_array_equal(by_text.loc["change", "mean"], -expected.loc["change", "mean"])


@pytest.mark.parametrize(
    "waves",
    [
        pd.Categorical(WAVE, ["b", "a"]),
        pl.Series(WAVE[::-1].tolist(), dtype=pl.Categorical),
        pa.array(WAVE[::-1].tolist()).dictionary_encode(),
    ],
    ids=["pandas", "polars", "pyarrow"],
)
def test_waves_without_an_order_are_sorted(waves):
    values = VALUES[::-1] if not isinstance(waves, pd.Categorical) else VALUES
    table = survey_mean(values.reset_index(drop=True), waves=waves)
    np.testing.assert_allclose(table, survey_mean(VALUES, waves=WAVE))


def test_change_of_waves_with_some_common_people_contains_their_covariance():
    """Of 40 people with equal answers in both waves, and 10 in one wave each."""
    people = np.array([*range(50), *range(40), *range(50, 60)])
    answers = np.random.default_rng(0).normal(size=60)
    values, wave = pd.DataFrame({"a": answers[people]}), np.repeat([1, 2], 50)
    table = survey_mean(values, clusters=people, waves=wave)["std_error"]
    apart = survey_mean(values, clusters=np.arange(100), waves=wave)["std_error"]
    scores = np.zeros(60)
    for each, sign in ((1, -1), (2, 1)):
        part = values["a"][wave == each]
        scores[people[wave == each]] += sign * (part - part.mean()).to_numpy() / 50
    assert table[("change", "a")] == pytest.approx(np.sqrt(60 * np.var(scores, ddof=1)))
    assert table[("change", "a")] < 0.6 * apart[("change", "a")]


@pytest.mark.parametrize("waves", [[1] * N, list(range(N)), STRATUM])
def test_other_numbers_of_waves_raise_an_error(waves):
    with pytest.raises(ValueError, match="`waves` must have two different values, got"):
        survey_mean(VALUES, waves=waves)
