"""Shares of external randomized-response designs: figures of independent programs, enumeration, and wrong input."""

import itertools
import json
import math
import warnings
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import stats
from sklearn.exceptions import ConvergenceWarning

from skdp.exact import exp_bounds
from skdp.survey import ReportDesign, ReportLinearRegression

# Counts of the reports of 18 generated tables, and independent fits of them, which agree with RRreg 0.7.6 where that
# is right; also beyond the boundary, where it has no error or none that is right.
CASES = json.loads((Path(__file__).parent / "cases" / "shares.json").read_text())


def design_of(case):
    p = case["p"]
    if "channel" in case:
        return ReportDesign("report", case["channel"], values=list(range(len(case["channel"]))))
    by_group = {"values": [0, 1], "group": "group"}
    if case["model"] == "CDM":
        honest = {place: [[1 - level, level], [0, 1]] for place, level in enumerate(p, 1)}
        return ReportDesign("report", honest, **by_group).with_cheaters(0)
    if case["model"] == "CDMsym":  # yes and no are forced
        honest = {place: [[1 - yes, yes], [no, 1 - no]] for place, (yes, no) in enumerate([p[:2], p[2:]], 1)}
        return ReportDesign("report", honest, **by_group).with_cheaters(0)
    if case["model"] == "SLD":  # carriers say the truth with an unknown probability
        honest = {place: [[level, 1 - level], [1, 0]] for place, level in enumerate(p, 1)}
        slope = {place: [[0, 0], [-1, 1]] for place in honest}
        return ReportDesign("report", honest, **by_group, unknown=("t", slope), start=0.8)
    # Others answer a question whose share is not known.
    honest = {place: [[1, 0], [1 - level, level]] for place, level in enumerate(p, 1)}
    slope = {place: [[level - 1, 1 - level]] * 2 for place, level in enumerate(p, 1)}
    return ReportDesign("report", honest, **by_group, unknown=("pi", slope))


def rows_of(counts, columns):
    table = pd.DataFrame(counts, columns=[*columns, "n"])
    return table.loc[table.index.repeat(table["n"]), list(columns)].reset_index(drop=True)


@pytest.mark.parametrize("name", CASES)
def test_shares_are_those_of_independent_programs(name):
    case = CASES[name]
    columns = ["report", "group"][: len(case["counts"][0]) - 1]
    table = rows_of(case["counts"], columns)
    shares = design_of(case).estimate_frequencies(table)
    estimates, errors = shares["frequency"].to_numpy(), shares["std_error"].to_numpy()
    if "group" in columns:
        # That of 1, and the unknown number.
        estimates, errors = estimates[1:], errors[1:]
    expected_errors = np.array(case["se"])
    assert np.abs((estimates - case["estimate"]) / expected_errors).max() < 1e-4
    # The divisor is n there, and n - 1 here.
    n = len(table)
    expected_errors = expected_errors * np.sqrt(n / (n - 1))
    # Beyond the boundary, at least the error that the randomization alone gives.
    rounding = 1e-5
    excess = 0.08 if name.endswith("_boundary") else rounding
    assert (errors >= expected_errors * (1 - rounding)).all()
    assert (errors <= expected_errors * (1 + excess)).all()
    assert (shares["lower"] < shares["frequency"]).all()
    assert (shares["frequency"] < shares["upper"]).all()


def test_epsilon_of_a_design_is_never_below_the_exact_log_ratio():
    """In 400 random designs; floats of the logarithm were below it in 185."""
    rng = np.random.default_rng(0)
    for _ in range(400):
        p, q = rng.uniform(0.01, 0.99, 2)
        channel = np.array([[p, 1 - p], [q, 1 - q]])
        ratio = max(Fraction(max(column)) / Fraction(min(column)) for column in channel.T.tolist())
        epsilon = ReportDesign("a", channel, values=[0, 1]).epsilon
        assert exp_bounds(epsilon)[0] >= ratio > exp_bounds(math.nextafter(epsilon, 0))[0]


def answers(yes, n, **columns):
    return pd.DataFrame({"q": ["yes"] * yes + ["no"] * (n - yes)}).assign(**columns)


@pytest.mark.parametrize(
    "design",
    [
        ReportDesign.warner("q", 0.75),
        ReportDesign.forced("q", yes=1 / 6, no=1 / 6),
        ReportDesign.unrelated("q", 0.7, prevalence=0.25),
    ],
)
def test_errors_of_equal_answers_are_at_least_those_of_the_noise(design):
    row = design.estimate_frequencies(answers(0, 5)).loc["yes"]
    (a, _), (b, _) = design.channels[None]
    noise = min(a * (1 - a), b * (1 - b)) ** 0.5 / abs(a - b) / 5**0.5
    assert row["std_error"] >= noise * (1 - 1e-9)
    assert row["lower"] <= row["frequency"] <= row["upper"]


UNRELATED = ReportDesign.unrelated("q", {"a": 0.7, "b": 0.3}, group="half")
CHEATERS = ReportDesign.forced("q", yes={"a": 0.2, "b": 0.7}, group="half").with_cheaters("no")
LIARS = ReportDesign(
    "q",
    {"a": [[1 / 6, 5 / 6], [1, 0]], "b": [[5 / 6, 1 / 6], [1, 0]]},
    values=["no", "yes"],
    group="half",
    unknown=("t", {"a": [[0, 0], [-1, 1]], "b": [[0, 0], [-1, 1]]}),
    start=0.7,
)


def halves(a, b, n):
    return pd.concat([answers(a, n, half="a"), answers(b, n, half="b")], ignore_index=True)


@pytest.mark.parametrize(("design", "a", "b"), [(UNRELATED, 50, 950), (CHEATERS, 790, 440), (LIARS, 300, 900)])
def test_impossible_shares_of_designs_with_an_unknown_number_warn(design, a, b):
    with pytest.warns(UserWarning, match="impossible share"):
        design.estimate_frequencies(halves(a, b, 1000))
    # The same shares of few reports are chance.
    design.estimate_frequencies(halves(round(a / 100), round(b / 100), 10))


def test_possible_shares_warn_once_in_a_million_at_most():
    """Enumerated: all reports of halves of 25, where nobody has the property and all have the unrelated one."""
    n, alarm = 25, 0.0
    of_a, of_b = stats.binom.pmf(np.arange(n + 1), n, 0.3), stats.binom.pmf(np.arange(n + 1), n, 0.7)
    for a, b in itertools.product(range(n + 1), repeat=2):
        # Only where the share of yes is far below 0, or that of the other property above 1.
        if b - a > n / 2:
            with warnings.catch_warnings(record=True) as heard:
                warnings.simplefilter("always")
                UNRELATED.estimate_frequencies(halves(a, b, n))
            alarm += bool(heard) * of_a[a] * of_b[b]
    assert alarm < 1e-6


def test_no_rows_are_called_no_rows():
    with pytest.raises(ValueError, match="X must have two rows or more, got 0 rows"):
        ReportDesign.warner("q", 0.75).estimate_frequencies(answers(1, 2).iloc[:0])


WARNER = ReportDesign("smokes", [[0.75, 0.25], [0.25, 0.75]], values=["no", "yes"])
PLACES = np.arange(90)
ANSWERS = pd.DataFrame({"smokes": np.where(PLACES % 3 == 0, "yes", "no")})
WEIGHTS = 1.0 + PLACES % 4


def test_a_design_has_the_weighted_shares_of_its_vectors():
    """Of two values and one group, the fit is the mean of the unbiased vectors."""
    vectors = WARNER.debias(ANSWERS)["smokes_yes"].to_numpy()
    share = WEIGHTS @ vectors / WEIGHTS.sum()
    scores = WEIGHTS * (vectors - share) / WEIGHTS.sum()
    row = WARNER.estimate_frequencies(ANSWERS, sample_weight=WEIGHTS).loc["yes"]
    assert row["frequency"] == pytest.approx(share, rel=1e-9)
    assert row["std_error"] == pytest.approx(np.sqrt(90 / 89 * scores @ scores), rel=1e-9)
    polars = WARNER.estimate_frequencies(pl.from_pandas(ANSWERS), sample_weight=WEIGHTS)
    assert polars.loc["yes", "frequency"] == pytest.approx(share, rel=1e-9)


def test_groups_are_combined_with_the_least_error():
    """Of two levels without an unknown number, the variance is that of the inverse information."""
    channels = {1: [[1, 0], [0, 1]], 2: [[0.75, 0.25], [0.25, 0.75]]}
    design = ReportDesign("smokes", channels, values=["no", "yes"], group="coin")
    counts = [("no", 1, 300), ("yes", 1, 100), ("no", 2, 1250), ("yes", 2, 750)]
    # Both groups have a share of .25 exactly.
    table = rows_of(counts, ["smokes", "coin"])
    row = design.estimate_frequencies(table).loc["yes"]
    assert row["frequency"] == pytest.approx(0.25, rel=1e-9)
    information = 400 / (0.25 * 0.75) + 2000 * 0.5**2 / (0.375 * 0.625)
    assert row["std_error"] == pytest.approx(information**-0.5, rel=1e-3)


def test_a_search_that_does_not_end_is_told():
    """Reports that no shares explain, between two of which the steps go to and fro."""
    channels = {
        1: [[0.5, 0.4, 0.1], [0.3, 0.4, 0.3], [0.5, 0.1, 0.4]],
        2: [[0.2, 0.5, 0.3], [0.2, 0.3, 0.5], [0.3, 0.1, 0.6]],
    }
    design = ReportDesign("report", channels, values=[0, 1, 2], group="group")
    counts = [(0, 1, 25), (2, 1, 75), (0, 2, 25), (1, 2, 25), (2, 2, 50)]
    table = rows_of(counts, ["report", "group"])
    with (
        pytest.warns(UserWarning, match="no shares explain"),
        pytest.warns(ConvergenceWarning, match="column 'report' does not end"),
    ):
        design.estimate_frequencies(table)


def test_designs_that_do_not_identify_the_shares_are_refused():
    blind = ReportDesign("smokes", [[0.5, 0.5], [0.5, 0.5]], values=["no", "yes"])
    for method in (blind.estimate_frequencies, blind.debias):
        with pytest.raises(ValueError, match=r"do not identify|does not tell"):
            method(ANSWERS)
    slopes = {1: [[0, 0], [-1, 1]], 2: [[0, 0], [-1, 1]]}
    carriers = {1: [[0.2, 0.8], [1, 0]], 2: [[0.8, 0.2], [1, 0]]}
    liars = ReportDesign("smokes", carriers, values=["no", "yes"], group="coin", unknown=("t", slopes), start=0.8)
    one_group = ANSWERS.assign(coin=1)
    with pytest.raises(ValueError, match="do not identify the shares"):
        liars.estimate_frequencies(one_group)
    with pytest.raises(ValueError, match="unknown number 't'"):
        liars.debias(one_group)
    with pytest.raises(ValueError, match="the design does not declare"):
        WARNER.estimate_frequencies(pd.DataFrame({"smokes": ["maybe"] * 5}))
    with pytest.raises(ValueError, match="between 0 and 1"):
        WARNER.estimate_frequencies(ANSWERS, confidence_level=2)


@pytest.mark.parametrize(
    "values", [["yes", "no"], ("Yes", "No"), [True, False], [1, 0], np.array([1, 0]), [np.True_, np.False_]]
)
def test_values_with_yes_first_are_refused(values):
    """They gave the share of the other answer; Warner's channel is the same both ways."""
    designs = {
        "forced": {"yes": 0.2, "no": 0.1},
        "unrelated": {"p": 0.7, "prevalence": 0.25},
        "crosswise": {"q": 0.25},
    }
    for name, options in designs.items():
        make = getattr(ReportDesign, name)
        with pytest.raises(ValueError, match=r"put .* first"):
            make("smokes", values=values, **options)
        make("smokes", values=values[::-1], **options)
        make("smokes", values=["carrier", "other"], **options)
    ReportDesign.warner("smokes", 0.75, values=values)


@pytest.mark.parametrize("parameter", ["sample_weight", "clusters"])
def test_a_name_in_place_of_a_column_is_refused(parameter):
    table = ANSWERS.assign(w=WEIGHTS)
    message = rf"{parameter} must hold an entry for each row, got a name: pass X\['w'\]"
    if parameter == "sample_weight":
        with pytest.raises(ValueError, match=message):
            WARNER.estimate_frequencies(table, sample_weight="w")
    with pytest.raises(ValueError, match=message):
        ReportLinearRegression(WARNER).fit(ANSWERS, PLACES, **{parameter: "w"})
