"""Estimates of a population from weighted samples, with strata and clusters, and their tallies."""

import itertools
import json
from importlib.resources import files

import numpy as np
import pandas as pd
import pytest
from jsonschema import Draft202012Validator

from skdp import (
    LocalHashingEncoder,
    LocalTableEncoder,
    NumericPerturber,
    RandomizedResponseEncoder,
    ReportTally,
    SetValuedEncoder,
    UnaryEncodingTransformer,
)
from skdp.engines import estimate_file, tally_files

VALUES = {"report": ["no", "other", "yes"]}
PLACES = np.arange(60)
# Any reports will do: the variance is that of what they say, whoever was asked.
REPORTS = pd.DataFrame(
    {"report": np.where((PLACES * 7 + PLACES // 5) % 3 == 0, "yes", np.where(PLACES % 11 == 4, "other", "no"))}
)
WEIGHTS = 1.0 + (PLACES * 13 % 17) / 4
STRATA = np.array(["north", "south", "west"])[PLACES // 20]
CLUSTERS = PLACES % 20 // 4
ENCODER = RandomizedResponseEncoder(4.0, categories=VALUES).fit(REPORTS)
DESIGNS = {
    "weights": {"sample_weight": WEIGHTS},
    "strata": {"sample_weight": WEIGHTS, "strata": STRATA},
    "strata and clusters": {"sample_weight": WEIGHTS, "strata": STRATA, "clusters": CLUSTERS},
    "clusters": {"sample_weight": WEIGHTS, "clusters": CLUSTERS},
}

# TaylorEstimator of samplics 0.6.1, of the unbiased vectors of these reports: the standard
# errors of the shares of "no", "other" and "yes", and of their totals.
SHARES = [0.5510902879086624, 0.039510593255663196, 0.4093991188356744]
TOTALS = [97.54298095983326, 6.993375006252386, 72.46364403391438]
STD_ERRORS = {
    "weights": (
        [0.07423900916362285, 0.03286091624031758, 0.07324813281572295],
        [14.144875167345988, 5.81185240479499, 13.637911905658722],
    ),
    "strata": (
        [0.07542706950103524, 0.032834845316383636, 0.07447977663643873],
        [14.374229014845286, 5.80712926721228, 13.86713594774009],
    ),
    "strata and clusters": (
        [0.039716825156820734, 0.030329785799346014, 0.05500168028114073],
        [7.5012920419700295, 5.384181424223366, 9.902439232385433],
    ),
    "clusters": (
        [0.03936578379024527, 0.03675858898173046, 0.07424646485848828],
        [7.138308018612294, 6.554916117276264, 12.994133758717412],
    ),
}


@pytest.mark.parametrize("design", DESIGNS)
def test_shares_and_totals_are_those_of_samplics(design):
    shares = ENCODER.estimate_frequencies(REPORTS, **DESIGNS[design])
    totals = ENCODER.estimate_counts(REPORTS, rows="population", **DESIGNS[design])
    np.testing.assert_allclose(shares["frequency"], SHARES, rtol=1e-12)
    np.testing.assert_allclose(totals["count"], TOTALS, rtol=1e-12)
    share_errors, total_errors = STD_ERRORS[design]
    np.testing.assert_allclose(shares["std_error"], share_errors, rtol=1e-12)
    np.testing.assert_allclose(totals["std_error"], total_errors, rtol=1e-12)
    assert (shares["lower"] < shares["frequency"]).all()
    assert (shares["frequency"] < shares["upper"]).all()
    assert shares.attrs["rows"] == "population"


ENCODERS = {
    "response": (RandomizedResponseEncoder(2.0, categories=VALUES, random_state=0), REPORTS),
    "unary": (UnaryEncodingTransformer(2.0, categories=VALUES, random_state=0), REPORTS),
    "hashing": (LocalHashingEncoder(2.0, categories=VALUES, random_state=0), REPORTS),
    "sets": (
        SetValuedEncoder(2.0, categories=VALUES, max_size=2, random_state=0),
        pd.DataFrame({"report": [[value] for value in REPORTS["report"]]}),
    ),
    "sampled": (
        RandomizedResponseEncoder(2.0, categories=VALUES | {"sex": ["f", "m"]}, strategy="sample", random_state=0),
        REPORTS.assign(sex=np.where(PLACES % 2, "f", "m")),
    ),
    "table": (
        LocalTableEncoder(2.0, categories=VALUES | {"sex": ["f", "m"]}, bounds={"age": (0, 90)}, random_state=0),
        REPORTS.assign(sex=np.where(PLACES % 2, "f", "m"), age=PLACES),
    ),
}


@pytest.mark.parametrize("name", ENCODERS)
def test_a_tally_estimates_as_its_reports(name):
    encoder, table = ENCODERS[name]
    reports = encoder.fit_transform(table)
    tally = encoder.tally(reports, sample_weight=WEIGHTS)
    options = {"sample_weight": WEIGHTS}
    pd.testing.assert_frame_equal(
        encoder.estimate_frequencies(tally),
        encoder.estimate_frequencies(reports, **options),
        rtol=1e-9,
    )
    pd.testing.assert_frame_equal(
        encoder.estimate_counts(tally, rows="population", postprocess="clip"),
        encoder.estimate_counts(reports, rows="population", postprocess="clip", **options),
        rtol=1e-9,
    )
    again = ReportTally.from_json(tally.to_json())
    assert again == tally
    assert again != encoder.tally(reports)


@pytest.mark.parametrize("name", ENCODERS)
def test_equal_weights_are_none(name):
    encoder, table = ENCODERS[name]
    reports = encoder.fit_transform(table)
    weighted = encoder.estimate_frequencies(reports, sample_weight=np.full(60, 2.0))
    shares = encoder.estimate_frequencies(reports)
    np.testing.assert_allclose(weighted["frequency"], shares["frequency"], rtol=1e-12)
    # The one by n - 1, from the reports, the other by the channel.
    is_within = shares["frequency"].between(0.2, 0.8)
    ratio = (weighted["std_error"] / shares["std_error"])[is_within]
    np.testing.assert_allclose(ratio, 1, atol=0.03)


def test_a_sampled_column_is_weighted_among_those_who_report_it():
    encoder, table = ENCODERS["sampled"]
    reports = encoder.fit_transform(table)
    *codes, drawn = encoder.protocol_.read(reports)
    shares = encoder.estimate_frequencies(reports, sample_weight=WEIGHTS)["frequency"]
    for place, name in enumerate(encoder.protocol_.columns):
        weights = WEIGHTS[drawn[:, place]]
        vectors = encoder.oracles_[place].unbiased(codes[place][drawn[:, place]])
        np.testing.assert_allclose(shares[name], weights @ vectors / weights.sum(), rtol=1e-12)


def test_tallies_add_exactly_in_any_order():
    weights = WEIGHTS * np.pi + 1e-3 + 1e6 * (PLACES % 7 == 0)
    parts = []
    for rows in np.array_split(PLACES, 7):
        parts.append(ENCODER.tally(REPORTS.iloc[rows], sample_weight=weights[rows]))
    forwards = parts[0]
    for part in parts[1:]:
        forwards = forwards + part
    backwards = parts[-1]
    for part in parts[-2::-1]:
        backwards = backwards + part
    whole = ENCODER.tally(REPORTS, sample_weight=weights)
    assert forwards == backwards == whole
    units = [round(weight * 2**20) for weight in weights]
    assert whole.weighted.total.tolist() == [sum(units), sum(unit**2 for unit in units)]


def test_files_of_weighted_tallies_are_estimated(tmp_path):
    for place, rows in enumerate(np.array_split(PLACES, 2)):
        tally = ENCODER.tally(REPORTS.iloc[rows], sample_weight=WEIGHTS[rows])
        # As `skdp tally` writes it: with the protocol beside the sums.
        content = json.loads(tally.to_json()) | {"skdp.protocol": json.loads(ENCODER.to_json())}
        (tmp_path / f"{place}.json").write_text(json.dumps(content))
    files = sorted(tmp_path.glob("*.json"))
    tally_files(files, ENCODER, target=tmp_path / "week.json")
    counts = estimate_file(tmp_path / "week.json", ENCODER)
    np.testing.assert_allclose(counts["count"], TOTALS, rtol=1e-6)


def test_weighted_and_other_tallies_do_not_add():
    plain, weighted = ENCODER.tally(REPORTS), ENCODER.tally(REPORTS, sample_weight=WEIGHTS)
    for pair in ((plain, weighted), (weighted, plain)):
        with pytest.raises(ValueError, match="cannot be added to one without weights"):
            pair[0] + pair[1]
    # A tally of no reports adds to any.
    empty = ENCODER.protocol_.empty_tally()
    assert empty + weighted == weighted + empty == weighted


SCHEMA = Draft202012Validator(
    json.loads(files("skdp.local").joinpath("report.schema.json").read_text(encoding="utf-8"))
)


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("total", [1, 1]),
        ("total", [10**9]),
        ("total", [10**9, 0.5]),
        ("sums", [[1, 2, 3]]),
        ("sums", [[-1, 2, 3]]),
        ("squares", [[1, 2]]),
        ("squares", []),
        ("weights", [[10**60, 1]]),
    ],
)
def test_weights_that_no_reports_have_are_refused(part, value):
    content = json.loads(ENCODER.tally(REPORTS, sample_weight=WEIGHTS).to_json())
    SCHEMA.validate(content)
    content["weighted"][part] = value
    with pytest.raises(ValueError, match="do not fit each other"):
        ReportTally.from_json(json.dumps(content))


def _with_every_zero(weighted):
    for name in ("sums", "squares", "weights"):
        weighted[name] = [[0] * len(numbers) for numbers in weighted[name]]
    weighted["total"] = [0, 0]


def _with_too_heavy_a_total(weighted):
    weighted["total"] = [2**50 + 1, 2**94 + 2**44]


def _with_squares_above_the_heaviest(weighted):
    weighted["total"][1] = weighted["total"][0] * 2**44 + 1


def _with_a_total_square_below_cauchy_schwarz(weighted):
    sum_of_weights = weighted["weights"][0][0]
    weighted["total"] = [2 * sum_of_weights, weighted["weights"][0][1]]


def _with_squares_below_cauchy_schwarz(weighted):
    first, second, third = weighted["squares"][0]
    weighted["squares"] = [[weighted["sums"][0][0], second, third + first - weighted["sums"][0][0]]]


FORGERIES = [
    _with_every_zero,
    _with_too_heavy_a_total,
    _with_squares_above_the_heaviest,
    _with_a_total_square_below_cauchy_schwarz,
    _with_squares_below_cauchy_schwarz,
]


@pytest.mark.parametrize("forge", FORGERIES, ids=lambda forge: forge.__name__)
def test_forged_weights_are_refused(forge):
    content = json.loads(ENCODER.tally(REPORTS, sample_weight=WEIGHTS).to_json())
    forge(content["weighted"])
    with pytest.raises(ValueError, match="do not fit each other"):
        ReportTally.from_json(json.dumps(content))


@pytest.mark.parametrize("weight", [2.0**-10, 1.0, np.nextafter(2.0**24, 0)])
def test_equal_and_extreme_weights_are_read(weight):
    weights = np.where(PLACES % 4, weight, 0.0)
    tally = ENCODER.tally(REPORTS, sample_weight=weights)
    assert ReportTally.from_json(tally.to_json()) == tally


def two_draws(names, chances):
    """Yield all pairs of draws from a population, with their weights and probability."""
    for first, second in itertools.product(range(len(names)), repeat=2):
        weights = np.array([1 / (2 * chances[first]), 1 / (2 * chances[second])])
        yield [names[first], names[second]], weights, chances[first] * chances[second]


def test_the_total_and_its_variance_are_unbiased():
    """Exact: over all samples of two from four people, with unequal chances, and all reports."""
    names = ["yes", "no", "yes", "no"]
    chances = [0.4, 0.3, 0.2, 0.1]
    values = ["no", "yes"]
    encoder = RandomizedResponseEncoder(6.0, categories={"report": values})
    encoder.fit(pd.DataFrame({"report": values}))
    channel = np.array(encoder.channel()[0], float)
    mean = square = stated = 0.0
    for drawn, weights, chance in two_draws(names, chances):
        for reports in itertools.product(range(2), repeat=2):
            probability = chance
            for true, report in zip(drawn, reports, strict=True):
                probability *= channel[values.index(true), report]
            frame = pd.DataFrame({"report": [values[report] for report in reports]})
            row = encoder.estimate_counts(frame, rows="population", sample_weight=weights)
            count, std_error = row.loc["yes", ["count", "std_error"]]
            mean += probability * count
            square += probability * count**2
            stated += probability * std_error**2
    assert mean == pytest.approx(2, rel=1e-9)
    # Where all reports agree, the variance is not below that of the mechanism, .0025.
    assert stated == pytest.approx(square - mean**2, rel=2e-2)


def test_joint_counts_are_weighted():
    values = {"a": ["x", "y"], "b": ["u", "v", "w"]}
    table = pd.DataFrame({"a": np.array(["x", "y"])[PLACES % 2], "b": np.array(["u", "v", "w"])[PLACES % 3]})
    encoder = RandomizedResponseEncoder(4.0, categories=values, random_state=3)
    reports = encoder.fit_transform(table)
    first, second = (
        oracle.unbiased(codes) for oracle, codes in zip(encoder.oracles_, encoder.protocol_.read(reports), strict=True)
    )
    vectors = (first[:, :, np.newaxis] * second[:, np.newaxis]).reshape(60, 6)
    totals = WEIGHTS[:, np.newaxis] * vectors
    variances = 60 / 59 * ((totals - totals.mean(axis=0)) ** 2).sum(axis=0)
    joint = encoder.estimate_joint_counts(reports, rows="population", sample_weight=WEIGHTS)
    np.testing.assert_allclose(joint["count"], totals.sum(axis=0), rtol=1e-12)
    np.testing.assert_allclose(joint["std_error"], np.sqrt(variances), rtol=1e-9)
    clustered = encoder.estimate_joint_counts(reports, rows="population", sample_weight=WEIGHTS, clusters=PLACES // 4)
    sums = totals.reshape(15, 4, 6).sum(axis=1)
    variances = 15 / 14 * ((sums - sums.mean(axis=0)) ** 2).sum(axis=0)
    is_above = clustered["std_error"] > np.sqrt(variances) * (1 + 1e-9)
    np.testing.assert_allclose(clustered["std_error"][~is_above], np.sqrt(variances)[~is_above], rtol=1e-9)
    assert is_above.sum() < 3  # below that of the mechanism


def test_groups_of_a_joint_column_are_weighted():
    values = {"a": ["x", "y"], "b": ["u", "v", "w"]}
    table = pd.DataFrame({"a": np.array(["x", "y"])[PLACES % 2], "b": np.array(["u", "v", "w"])[PLACES % 3]})
    encoder = RandomizedResponseEncoder(3.0, categories=values, strategy="joint", random_state=3)
    reports = encoder.fit_transform(table)
    shares = encoder.estimate_frequencies(reports, columns=["a"], sample_weight=WEIGHTS)
    cells = encoder.estimate_frequencies(reports, sample_weight=WEIGHTS)
    by_a = cells["frequency"].groupby("a").sum()
    np.testing.assert_allclose(shares["frequency"], by_a, rtol=1e-12)
    tallied = encoder.estimate_frequencies(encoder.tally(reports, sample_weight=WEIGHTS), columns=["a"])
    pd.testing.assert_frame_equal(tallied, shares, rtol=1e-9)


@pytest.mark.parametrize("kind", ["perturber", "table"])
def test_means_are_weighted(kind):
    ages = pd.DataFrame({"age": PLACES.astype(float)})
    encoder = NumericPerturber(2.0, bounds={"age": (0, 60)}, random_state=0)
    if kind == "table":
        encoder = LocalTableEncoder(2.0, categories={}, bounds={"age": (0, 60)}, random_state=0)
    reports = encoder.fit_transform(ages)
    numbers = reports["age"].to_numpy()
    mean = WEIGHTS @ numbers / WEIGHTS.sum()
    scores = WEIGHTS * (numbers - mean) / WEIGHTS.sum()
    row = encoder.estimate_mean(reports, sample_weight=WEIGHTS).loc["age"]
    assert row["mean"] == pytest.approx(mean, rel=1e-12)
    assert row["std_error"] == pytest.approx(np.sqrt(60 / 59 * (scores @ scores)), rel=1e-9)
    tally = encoder.tally(reports, sample_weight=WEIGHTS)
    np.testing.assert_allclose(encoder.estimate_mean(tally).loc["age"], row, rtol=1e-9)
    strata = PLACES // 30
    by_stratum = encoder.estimate_mean(reports, sample_weight=WEIGHTS, strata=strata)
    variance = 0.0
    for part in np.split(scores, 2):
        variance += 30 / 29 * ((part - part.mean()) ** 2).sum()
    assert by_stratum.loc["age", "std_error"] == pytest.approx(np.sqrt(variance), rel=1e-9)


def test_what_a_group_adds_is_that_of_weights_of_zero():
    is_north = STRATA == "north"
    weights = WEIGHTS * is_north
    shares = ENCODER.estimate_frequencies(REPORTS, sample_weight=weights)
    alone = ENCODER.estimate_frequencies(REPORTS[is_north], sample_weight=WEIGHTS[is_north])
    np.testing.assert_allclose(shares["frequency"], alone["frequency"], rtol=1e-12)
    # As of svyby in R: by 60 / 59 in place of 20 / 19.
    ratio = np.sqrt(60 / 59 / (20 / 19))
    for value in ("no", "yes"):
        expected = alone.loc[value, "std_error"] * ratio
        assert shares.loc[value, "std_error"] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sample_weight": WEIGHTS[:-1]}, r"shape \(60,\)"),
        ({"sample_weight": -WEIGHTS}, "at least 0"),
        ({"sample_weight": np.zeros(60)}, "not all weights zero"),
        ({"sample_weight": np.full(60, np.nan)}, "finite"),
        ({"sample_weight": ["a"] * 60}, "numbers"),
        ({"sample_weight": WEIGHTS, "rows": "table"}, "rows='population'"),
        ({"strata": PLACES}, "each stratum must have two rows or more"),
        ({"strata": STRATA, "clusters": STRATA}, "each stratum must have two clusters"),
        ({"clusters": np.zeros(60)}, "there must be two clusters or more"),
        ({"strata": STRATA[:-1]}, r"strata must have the shape"),
        ({"strata": [None] * 60}, "strata must not be missing"),
        ({"sample_weight": pd.Series(WEIGHTS, index=PLACES[::-1])}, "labels of X in another order"),
    ],
)
def test_what_is_no_design_is_refused(options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        ENCODER.estimate_frequencies(REPORTS, **options)


def test_a_tally_takes_no_design_and_no_table():
    tally = ENCODER.tally(REPORTS, sample_weight=WEIGHTS)
    with pytest.raises(ValueError, match="weights are given to tally"):
        ENCODER.estimate_frequencies(tally, sample_weight=WEIGHTS)
    with pytest.raises(ValueError, match="rows='population'"):
        ENCODER.estimate_counts(tally)
    perturber = NumericPerturber(2.0, bounds={"age": (0, 60)}, random_state=0)
    ages = perturber.fit_transform(pd.DataFrame({"age": PLACES.astype(float)}))
    with pytest.raises(ValueError, match="takes no weights"):
        perturber.estimate_distribution(perturber.tally(ages, sample_weight=WEIGHTS))


@pytest.mark.parametrize("weight", [2.0**-11, 2.0**24])
def test_weights_beyond_the_unit_of_a_tally_are_refused(weight):
    with pytest.raises(ValueError, match=r"from 2\*\*-10 to 2\*\*24"):
        ENCODER.tally(REPORTS, sample_weight=np.full(60, weight))
    ENCODER.estimate_frequencies(REPORTS, sample_weight=np.full(60, weight))


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_margins_of_hashed_cells_have_the_errors_of_their_reports(epsilon):
    """Of records of a single cell: the hash functions are not independent for three cells."""
    values = {"sex": ["f", "m"], "place": list("pqrstuvw")}
    encoder = LocalHashingEncoder(epsilon, categories=values, strategy="joint", random_state=3)
    n = 40_000
    table = pd.DataFrame({"sex": ["f"] * n, "place": ["s"] * n})
    reports = encoder.fit_transform(table)
    (oracle,) = encoder.protocol_.oracles
    (part,) = encoder.protocol_.parts(encoder.protocol_.read(reports))
    vectors = oracle.unbiased(part).reshape(n, 2, 8).sum(axis=2)
    measured = vectors.std(axis=0) * np.sqrt(n)
    of_counts = encoder.estimate_counts(encoder.tally(reports), columns=["sex"])["std_error"]
    ones = np.ones(n)
    options = {"columns": ["sex"], "rows": "population"}
    of_tally = encoder.estimate_counts(encoder.tally(reports, sample_weight=ones), **options)["std_error"]
    of_reports = encoder.estimate_counts(reports, sample_weight=ones, **options)["std_error"]
    # The standard error of a measured one is 0.4 % to 0.7 %, and estimated shares of cells add
    # as much; three independent cells would have 0.84 of the error of "m" at epsilon 4.
    np.testing.assert_allclose(of_counts, measured, rtol=0.04)
    np.testing.assert_allclose(of_tally, of_reports, rtol=0.04)
