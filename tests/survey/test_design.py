"""Proportions of external designs: independent programs, enumeration of all reports, warnings, and invalid input."""

import json
import math
import warnings
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import stats

from skdp import PrivacyLedger, ReportDesign, privacy_statement
from skdp.exact import exp_bounds
from skdp.survey import survey_mean
from tests.conftest import diagonal
from tests.errors import refusal

# Counts of the reports of 18 generated tables, and independent fits, which agree with RRreg 0.7.6 where it is correct;
# also beyond the boundary, where RRreg has no correct error.
CASES = json.loads((Path(__file__).parent / "cases" / "shares.json").read_text())

# Rows of the channels of designs with an unknown number, at the levels of a group. All are linear in the proportions.
ROWS = {
    # Honest yes, honest no, and cheaters, who always report no.
    "CDM": lambda p: [[0, 1], [1 - p, p], [1, 0]],
    "CDMsym": lambda p: [[p[1], 1 - p[1]], [1 - p[0], p[0]], [1, 0]],
    # Non-carriers; truthful carriers, and carriers who deny.
    "SLD": lambda p: [[p, 1 - p], [0, 1], [1, 0]],
    # P(yes) = p * sensitive + (1 - p) * unrelated; the third proportion is the remainder.
    "UQTunknown": lambda p: [[1 - p, p], [p, 1 - p], [1, 0]],
}


def estimate_case(case):
    """Return estimates and errors of the parameters of the independent fit; nan if an error is not reported."""
    table = rows_of(case["counts"], ["report", "group"][: len(case["counts"][0]) - 1])
    if "channel" in case:
        channel = case["channel"]
        design = ReportDesign("report", channel, values=list(range(len(channel))))
        shares = design.estimate_frequencies(table)
        return table, shares, shares["frequency"].to_numpy(), shares["std_error"].to_numpy()
    p = case["p"]
    levels = [p[:2], p[2:]] if case["model"] == "CDMsym" else p
    channels = {group: ROWS[case["model"]](level) for group, level in enumerate(levels, 1)}
    design = ReportDesign("report", channels, values=["first", "second", "third"], reports=[0, 1], group="group")
    shares = design.estimate_frequencies(table)
    first, second, third = shares["frequency"]
    errors = shares["std_error"].to_numpy()
    if case["model"] == "SLD":
        return table, shares, np.array([1 - first, second / (second + third)]), np.array([errors[0], np.nan])
    indices = [0, 1] if case["model"] == "UQTunknown" else [0, 2]
    return table, shares, shares["frequency"].to_numpy()[indices], errors[indices]


def rows_of(counts, columns):
    table = pd.DataFrame(counts, columns=[*columns, "n"])
    return table.loc[table.index.repeat(table["n"]), list(columns)].reset_index(drop=True)


@pytest.mark.parametrize("name", CASES)
def test_proportions_equal_independent_programs(name):
    case = CASES[name]
    table, shares, estimates, errors = estimate_case(case)
    assert np.abs((estimates - case["estimate"]) / case["se"]).max() < 1e-4
    # The divisor is n there, and n - 1 here. Beyond the boundary, errors are larger.
    expected = np.array(case["se"]) * np.sqrt(len(table) / (len(table) - 1))
    excess = errors[~np.isnan(errors)] / expected[~np.isnan(errors)] - 1
    assert (excess >= -1e-5).all()
    assert (excess <= (0.12 if name.endswith("_boundary") else 1e-5)).all()
    assert (shares["lower"] < shares["frequency"]).all()
    assert (shares["frequency"] < shares["upper"]).all()


def test_epsilon_of_a_design_is_at_least_the_exact_log_ratio():
    """The float logarithm is below the exact one in 185 of these 400 random designs."""
    rng = np.random.default_rng(0)
    for _ in range(400):
        p, q = rng.uniform(0.01, 0.99, 2)
        channel = np.array([[p, 1 - p], [q, 1 - q]])
        ratio = max(Fraction(max(column)) / Fraction(min(column)) for column in channel.T.tolist())
        epsilon = ReportDesign("a", channel, values=[0, 1]).epsilon
        assert exp_bounds(epsilon)[0] >= ratio > exp_bounds(math.nextafter(epsilon, 0))[0]


# Intervals and errors.


def answers(yes, n, **columns):
    return pd.DataFrame({"q": ["yes"] * yes + ["no"] * (n - yes)}).assign(**columns)


@pytest.mark.parametrize(
    ("design", "share", "n"),
    diagonal([ReportDesign.warner("q", 0.75), ReportDesign.direct("q")], [0, 0.02, 0.3], [20, 100]),
)
def test_intervals_cover_the_proportion(design, share, n):
    """Exact, over all counts of reports: at least 0.93, instead of 0.83 without the error of the noise."""
    chance = (1 - share) * design.channels[None][0, 1] + share * design.channels[None][1, 1]
    no_share, yes_share = design.channels[None][:, 1]
    spread = np.sqrt(min(no_share * (1 - no_share), yes_share * (1 - yes_share)) / n)
    noise = spread / abs(yes_share - no_share)  # also the error of equal answers
    coverage = 0.0
    for yes in range(n + 1):
        weight = stats.binom.pmf(yes, n, chance)
        if weight < 1e-9:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            row = design.estimate_frequencies(answers(yes, n)).loc["yes"]
        assert row["std_error"] >= noise * (1 - 1e-9)
        coverage += weight * (row["lower"] - 1e-12 <= share <= row["upper"] + 1e-12)
    assert coverage > 0.93


WARNER = ReportDesign.warner("smokes", 0.75)
ROW_NUMBERS = np.arange(90)
ANSWERS = pd.DataFrame({"smokes": np.where(ROW_NUMBERS % 3 == 0, "yes", "no")})
WEIGHTS = 1.0 + ROW_NUMBERS % 4


def test_weighted_proportions_are_means_of_unbiased_values():
    values = WARNER.debias(ANSWERS)["smokes_yes"].to_numpy()
    share = WEIGHTS @ values / WEIGHTS.sum()
    scores = WEIGHTS * (values - share) / WEIGHTS.sum()
    row = WARNER.estimate_frequencies(ANSWERS, sample_weight=WEIGHTS).loc["yes"]
    assert row["frequency"] == pytest.approx(share, rel=1e-9)
    assert row["std_error"] == pytest.approx(np.sqrt(90 / 89 * scores @ scores), rel=1e-9)
    polars = WARNER.estimate_frequencies(pl.from_pandas(ANSWERS), sample_weight=WEIGHTS)
    assert polars.loc["yes", "frequency"] == pytest.approx(share, rel=1e-9)


def test_groups_are_combined_with_the_smallest_error():
    """The variance of two levels is the inverse information of both."""
    design = ReportDesign.by_group({1: ReportDesign.direct("smokes"), 2: WARNER}, "coin")
    # Both groups have a proportion of exactly 0.25.
    counts = [("no", 1, 300), ("yes", 1, 100), ("no", 2, 1250), ("yes", 2, 750)]
    row = design.estimate_frequencies(rows_of(counts, ["smokes", "coin"])).loc["yes"]
    assert row["frequency"] == pytest.approx(0.25, rel=1e-9)
    information = 400 / (0.25 * 0.75) + 2000 * 0.5**2 / (0.375 * 0.625)
    assert row["std_error"] == pytest.approx(information**-0.5, rel=1e-3)


# Reports that contradict the design.

BY_GROUP = ReportDesign.by_group({"direct": ReportDesign.direct("a"), "card": ReportDesign.warner("a", 0.75)}, "g")
MISFIT = "column 'a' do not have the same proportions .chi-squared [0-9]+, 1 degrees of freedom"


def two_groups(direct, card):
    """Return answers of two groups, given as numbers of no and yes."""
    groups = {"direct": direct, "card": card}
    counts = [(answer, name, groups[name][index]) for name in groups for index, answer in enumerate(("no", "yes"))]
    return rows_of(counts, ["a", "g"])


def test_unbiased_values_follow_the_design_of_each_group():
    table = two_groups((3, 2), (2, 3)).sample(frac=1, random_state=0)
    values = BY_GROUP.debias(table)["a_yes"]
    assert values.index.equals(table.index)
    reported = table["a"] == "yes"
    wanted = np.where(table["g"] == "direct", 1.0 * reported, (reported - 0.25) / 0.5)
    assert values.to_numpy() == pytest.approx(wanted)


def test_missing_label_stands_for_all_missing_reports():
    design = ReportDesign("a", [[0.75, 0.25], [0.25, 0.75]], values=["no", "yes"], reports=[None, 1])
    values = [design.debias(pd.DataFrame({"a": column}))["a_yes"].tolist() for column in ([np.nan, 1], [pd.NA, 1])]
    assert values[0] == values[1] == pytest.approx([-0.5, 1.5])


def test_groups_with_unequal_proportions_warn():
    """The proportions 0.1 and 0.3 of 30 and 70 % gave 0.15 instead of 0.24."""
    table = two_groups((270, 30), (420, 280))
    for weights in (None, np.where(np.arange(1000) % 2, 1.0, 2.0)):
        with pytest.warns(UserWarning, match=MISFIT):
            BY_GROUP.estimate_frequencies(table, sample_weight=weights)
    # A single group has nothing to compare, and both proportions are 0.1 in the second table.
    BY_GROUP.estimate_frequencies(table[table["g"] == "card"])
    BY_GROUP.estimate_frequencies(two_groups((270, 30), (490, 210)))


IMPOSSIBLE = [
    (ReportDesign.warner("a", 0.75), (900, 100)),
    (ReportDesign.warner("a", 0.75), (1000, 0)),
    (ReportDesign.forced("a", yes=2 / 12, no=1 / 12), (20, 980)),
    (ReportDesign.unrelated("a", 0.7, prevalence=0.5), (950, 50)),
]


@pytest.mark.parametrize(("design", "counts"), IMPOSSIBLE)
@pytest.mark.parametrize("kind", ["rows", "weights"])
def test_proportions_outside_0_and_1_warn(design, counts, kind):
    """100 yes in 1,000 with a card of 0.75: the interval of -0.3 was from -0.297 to -0.297."""
    weights = np.arange(1000) % 3 + 1.0 if kind == "weights" else None
    table = pd.DataFrame({"a": np.repeat(["no", "yes"], counts)})
    with pytest.warns(UserWarning, match=r"'a' has an estimated proportion of .* errors outside \[0, 1\]") as caught:
        shares = design.estimate_frequencies(table, sample_weight=weights)
    assert len(caught) == 1
    assert (shares["frequency"] < 0).any()
    assert (shares["lower"] <= shares["frequency"]).all()
    assert (shares["frequency"] <= shares["upper"]).all()
    assert (shares["upper"] - shares["lower"] > 1e-3).all()


def test_impossible_proportions_of_cheaters_warn():
    """The names of the halves are exchanged: 77 % cheaters and -70 % no."""
    cards = {"a": ReportDesign.forced("q", yes=0.2, no=0), "b": ReportDesign.forced("q", yes=0.7, no=0)}
    design = ReportDesign.by_group(cards, "half").with_cheaters("no")
    table = pd.concat([answers(790, 1000, half="a"), answers(440, 1000, half="b")])
    with pytest.warns(UserWarning, match=r"proportion of -0.7 for 'no', .* outside \[0, 1\]"):
        assert design.estimate_frequencies(table)["frequency"].sum() == pytest.approx(1)


# Designs with names.


def draw_reports(name, truth, rng):
    """Carry out a design by its instruction, with coins and cards instead of a matrix."""
    first, second = rng.random(len(truth)), rng.random(len(truth))
    if name == "warner":
        return np.where(truth ^ (first >= 0.7), "yes", "no")
    if name == "forced":
        return np.where((first < 2 / 12) | (truth & (first < 11 / 12)), "yes", "no")
    if name == "unrelated":
        return np.where(np.where(first < 0.7, truth, second < 0.25), "yes", "no")
    if name == "crosswise":
        return np.where(truth == (second < 0.3), "same", "different")
    return np.where(truth, "yes", "no")


NAMED = {
    "warner": ReportDesign.warner("a", 0.7),
    "forced": ReportDesign.forced("a", yes=2 / 12, no=1 / 12),
    "unrelated": ReportDesign.unrelated("a", 0.7, prevalence=0.25),
    "crosswise": ReportDesign.crosswise("a", 0.3),
    "direct": ReportDesign.direct("a"),
}


@pytest.mark.parametrize("name", NAMED)
def test_named_designs_follow_their_instruction(name):
    """For 200,000 people of each true value, each report's proportion is within five errors (1e-6)."""
    design, rng, n = NAMED[name], np.random.default_rng(0), 200_000
    for truth, row in enumerate(design.channels[None]):
        reports = draw_reports(name, np.full(n, bool(truth)), rng)
        shares = np.array([np.mean(reports == each) for each in design.reports])
        assert (np.abs(shares - row) <= 5.2 * np.sqrt(row * (1 - row) / n)).all()


PROBABILITIES = {
    "warner": {"p": 0.8},
    "forced": {"yes": 0.2, "no": 0.1},
    "unrelated": {"p": 0.7, "prevalence": 0.25},
    "crosswise": {"q": 0.25},
}


@pytest.mark.parametrize("name", PROBABILITIES)
def test_order_of_labels_does_not_change_the_estimates(name):
    """With values=[1, 2] and 1 for yes, the estimate was 0.285 instead of 0.174; other orders were refused."""
    make = partial(getattr(ReportDesign, name), "smokes", **PROBABILITIES[name])
    # Labels of known meaning in each order, and other labels by their meaning.
    for no, yes in (("no", "yes"), ("No", "Yes"), (0, 1), (0.0, 1.0), (False, True), (np.False_, np.True_)):
        for values in ([no, yes], (yes, no), np.array([yes, no]), {"yes": yes, "no": no}):
            design = make(values=values)
            assert design.values == [no, yes]
            np.testing.assert_array_equal(design.channels[None], make().channels[None])
    assert make(values={"yes": 1, "no": 2}).values == [2, 1]
    for values in ([1, 2], [2, 1], ["Y", "N"], ["ja", "nein"], ["agree", "disagree"], [0, 1, 2], [0, "no"], ["no"]):
        with pytest.raises(ValueError, match=r"`values` must be a mapping .* such as {'no': 2, 'yes': 1}; got "):
            make(values=values)
    with pytest.raises(ValueError, match=r"got {1: 'yes', 2: 'no'}"):
        make(values={1: "yes", 2: "no"})


def test_order_of_crosswise_reports_does_not_change_the_estimates():
    make = partial(ReportDesign.crosswise, "smokes", 0.25)
    assert make(reports=["different", "same"]).reports == ["same", "different"]
    assert make(reports={"different": 2, "same": 1}).reports == [1, 2]
    for reports in ([1, 2], [0, 1], ["no", "yes"]):
        with pytest.raises(ValueError, match=r"`reports` must be a mapping .* such as {'same': 2, 'different': 1}"):
            make(reports=reports)


# Invalid input.


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: ReportDesign.warner("a", "high"), ValueError, r"`p` must be a float in \[0, 1\], got 'high'"),
        (lambda: ReportDesign.warner("a", 0.2, values=[0, 1, 2]), ValueError, r"got \[0, 1, 2\]"),
        (lambda: ReportDesign.forced("a", yes=0.5, no=0.5), ValueError, r"must be less than 1, got 1"),
        # Without the probability of no, epsilon was infinite, and the estimate biased for the usual dice.
        (lambda: ReportDesign.forced("drug", yes=1 / 6), TypeError, "'no'"),
        (lambda: ReportDesign.direct("a", values=["no"]), ValueError, "`values` must have at least two different"),
        (lambda: ReportDesign.warner("a", 0.5), ValueError, "'a' must have linearly independent rows .* its 2 values"),
        (lambda: ReportDesign.crosswise("a", 0.5), ValueError, "independent rows .* a probability other than 0.5"),
        (lambda: ReportDesign("a", [[0.3, 0.7]] * 2, values=[0, 1]), ValueError, "must have linearly independent rows"),
        (lambda: ReportDesign("a", [[0.5, 0.5]], values=[0, 1]), ValueError, r"shape \(2, 2\): a row for each true"),
        (lambda: ReportDesign("a", [[1.5, -0.5], [0.5, 0.5]], values=[0, 1]), ValueError, "nonnegative numbers"),
        (lambda: ReportDesign("a", [[0.5, 0.5], [0.08, 0.91]], values=[0, 1]), ValueError, r"\[1.0, 0.99\]. Use fra"),
        (lambda: ReportDesign("a", np.eye(2), values=[0, 1], group="g"), TypeError, "if `channel` is a mapping"),
        (lambda: ReportDesign.by_group({}, "g"), TypeError, "at least one group to a ReportDesign, got dict"),
        (lambda: ReportDesign.by_group([WARNER], "g"), TypeError, "at least one group to a ReportDesign, got list"),
        (lambda: ReportDesign.by_group({1: WARNER, 2: NAMED["warner"]}, "g"), ValueError, "the same column, values"),
        (lambda: WARNER.with_cheaters("no"), ValueError, "requires a design with at least two groups, got 1"),
        (lambda: BY_GROUP.with_cheaters("never"), ValueError, "must be one of .'no', 'yes'., got 'never'"),
    ],
)
def test_invalid_designs_raise_an_error(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_error_for_a_column_in_place_of_its_labels_has_no_value():
    answers = pd.Series(["anna", "ben", "carl"] * 5)
    with pytest.raises(ValueError, match=r"^`reports` must .*, got 15 labels, 3 of them"):
        ReportDesign("name", np.eye(3), values=["a", "b", "c"], reports=answers)


def test_unidentified_proportions_raise_an_error():
    cards = {1: ReportDesign.warner("smokes", 0.6), 2: ReportDesign.warner("smokes", 0.9)}
    cheaters = ReportDesign.by_group(cards, "coin").with_cheaters("no")
    one_group = ANSWERS.assign(coin=1)
    with pytest.raises(ValueError, match=r"'smokes' must have linearly independent rows .* its 3 values"):
        cheaters.estimate_frequencies(one_group)
    with pytest.raises(ValueError, match="`debias` requires a channel with linearly independent rows"):
        cheaters.debias(one_group)


@pytest.mark.parametrize(
    ("table", "options", "error", "message"),
    [
        (ANSWERS.iloc[:0], {}, ValueError, "X must have at least two rows with a positive weight, got 0"),
        (ANSWERS["smokes"], {}, TypeError, r"must be a dataframe, got Series. Pass .* pd.DataFrame\({'smokes': ...}\)"),
        (ANSWERS["smokes"].to_numpy(), {}, TypeError, r"got ndarray. Pass .* pd.DataFrame\({'smokes': ...}\)"),
        (ANSWERS.rename(columns={"smokes": "b"}), {}, ValueError, r"X must contain the columns \['smokes'\]"),
        (ANSWERS.replace("yes", "maybe"), {}, ValueError, r"\['no', 'yes'\], got other entries \(rows: 30, missing: 0"),
        (ANSWERS.replace("yes", None), {}, ValueError, r"rows: 30, missing: 30.* such as values={'no': 2, 'yes': 1}"),
        (ANSWERS, {"confidence_level": 2}, ValueError, "`confidence_level` must be"),
        (ANSWERS, {"sample_weight": "w"}, ValueError, "got a str"),
        (ANSWERS, {"sample_weight": -WEIGHTS}, ValueError, "at least 0"),
    ],
)
def test_invalid_tables_raise_an_error(table, options, error, message):
    with refusal(error, message, "maybe"):
        WARNER.estimate_frequencies(table, **options)


def test_repr_of_a_design_has_labels_and_epsilon():
    assert repr(WARNER) == "ReportDesign('smokes', values=['no', 'yes'], n_channels=1, epsilon=1.099)"
    design = ReportDesign.by_group({g: ReportDesign.warner("a", g, values=[0, 1]) for g in (0.8, 0.9)}, "g")
    expected = "ReportDesign('a', values={'no': 0, 'yes': 1}, n_channels=2, epsilon=2.197)"
    assert repr(design) == repr(ReportDesign(**design.arguments())) == expected
    assert "values={'cheaters': 'cheaters', 'no': 0, 'yes': 1}, " in repr(design.with_cheaters(0))


def test_reports_of_probability_0_raise_an_error():
    design = ReportDesign("smokes", [[1, 0, 0], [0, 1, 0]], values=[0, 1], reports=["no", "yes", "maybe"])
    with pytest.raises(ValueError, match=r"reports with probability 0 .*\(rows: 30\)"):
        design.estimate_frequencies(ANSWERS.replace("yes", "maybe"))


def test_report_that_excludes_a_value_has_an_infinite_epsilon():
    for design in (ReportDesign.direct("smokes"), ReportDesign.forced("smokes", yes=0.3, no=0), BY_GROUP):
        assert design.epsilon == np.inf
    assert ReportDesign.warner("smokes", 0.75).epsilon == pytest.approx(np.log(3))


# Samples with missing answers, strata and clusters.

HALVES = ReportDesign.by_group(
    {"a": ReportDesign.forced("q", yes=0.2, no=0.1), "b": ReportDesign.forced("q", yes=0.6, no=0.1)}, "half"
)
# 40 % have the attribute: 48 % of half a and 72 % of half b report "yes".
IS_YES = np.random.default_rng(4).random(600) < np.tile([0.48, 0.72], 300)
SAMPLE = pd.DataFrame({"q": np.where(IS_YES, "yes", "no"), "half": ["a", "b"] * 300})
SAMPLE_STRATA, SAMPLE_CLUSTERS = np.arange(600) // 300, np.arange(600) // 5


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA])
def test_people_without_an_answer_have_weight_0(missing):
    answered = SAMPLE_CLUSTERS % 4 > 0
    weights = answered * (1.0 + np.arange(600) % 3)
    table = SAMPLE.astype(object).assign(q=SAMPLE["q"].where(answered, missing))
    with pytest.raises(ValueError, match=r"missing: 150.*set their `sample_weight` to 0"):
        HALVES.estimate_frequencies(table, strata=SAMPLE_STRATA)
    found = HALVES.estimate_frequencies(table, sample_weight=weights)
    expected = HALVES.estimate_frequencies(SAMPLE[answered], sample_weight=weights[answered])
    pd.testing.assert_frame_equal(found, expected)
    values = HALVES.debias(table)
    assert values.isna().all(axis=1).tolist() == (~answered).tolist()
    pd.testing.assert_frame_equal(values[answered], HALVES.debias(SAMPLE)[answered])
    assert survey_mean(values, weights).notna().all(axis=None)


@pytest.mark.parametrize("weights", [None, 1.0 + np.arange(600) % 3])
def test_errors_of_strata_and_clusters_are_linearized(weights):
    design = ReportDesign.forced("q", yes=0.2, no=0.1)
    sample = SAMPLE_STRATA, SAMPLE_CLUSTERS
    table = SAMPLE[["q"]]
    found = design.estimate_frequencies(table, sample_weight=weights, strata=sample[0], clusters=sample[1])
    expected = survey_mean(design.debias(table), weights, *sample)
    np.testing.assert_allclose(found["frequency"], expected["mean"])
    np.testing.assert_allclose(found["std_error"], expected["std_error"], rtol=1e-9)


def test_rows_in_their_own_cluster_are_independent():
    design = HALVES.with_cheaters("no")
    columns = ["frequency", "std_error"]
    found = design.estimate_frequencies(SAMPLE, clusters=np.arange(600))[columns]
    pd.testing.assert_frame_equal(found, design.estimate_frequencies(SAMPLE)[columns])


def test_clusters_do_not_make_the_test_of_groups_too_strict():
    """All rows of a cluster have one answer, so the groups differ by chance more than independent rows."""
    design = ReportDesign.by_group({"direct": ReportDesign.direct("a"), "card": ReportDesign.direct("a")}, "g")
    table = two_groups((700, 300), (600, 400))
    with pytest.warns(UserWarning, match="same proportions"):
        design.estimate_frequencies(table)
    # 20 clusters, each with one answer and one group: 14 to 6 is no evidence against 12 to 8.
    design.estimate_frequencies(table, clusters=np.arange(2000) // 100)


# Guarantees of answers.


def test_guarantee_of_an_answer_is_charged_and_stated():
    ledger = PrivacyLedger(epsilon=5.0)
    for wave in ("2025", "2026"):
        ledger.charge(WARNER.guarantee_, f"smokes, {wave}")
    assert ledger.spent.epsilon == pytest.approx(2 * WARNER.epsilon)
    statement = privacy_statement([WARNER, ReportDesign.forced("drug", yes=0.2, no=0.1)])
    assert statement.total.scope == ("smokes", "drug")
    assert statement.total.epsilon == pytest.approx(np.log(3) + np.log(8))
    assert "skdp cannot verify" in " ".join(statement.notes)
    listed = privacy_statement(WARNER, pd.DataFrame({"smokes": ["no"], "age": [3]})).rows
    assert listed["protection"].tolist() == ["privatized rows", "no guarantee: not seen by fit"]


def test_design_that_reveals_a_value_has_no_guarantee():
    for call in (lambda: ReportDesign.direct("a").guarantee_, lambda: privacy_statement(ReportDesign.direct("a"))):
        with pytest.raises(ValueError, match="column 'a' has a report that is impossible under a value"):
            call()


def test_epsilon_of_a_design_is_for_compliant_respondents():
    """The report of a person who does not comply does not depend on the value."""
    assert HALVES.with_cheaters("no").epsilon == HALVES.epsilon < np.inf
    named = ReportDesign.warner("a", 0.75, values={"no": "no", "yes": "cheaters"})
    assert named.epsilon == WARNER.epsilon
