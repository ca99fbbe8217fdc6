"""Groups that no shares explain are told, and groups that agree are not."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from skdp import PerHalf, RandomizedResponseEncoder
from skdp.survey import (
    ReportDesign,
    ReportLinearRegression,
    ReportLogisticRegression,
)

BY_GROUP = ReportDesign.warner("a", {"direct": 1.0, "card": 0.75}, group="g")
MESSAGE = "no shares explain the reports in column 'a' of all groups .chi-squared [0-9]+, 1 degrees of freedom"


def reports(direct, card):
    """Return answers of two groups, as numbers of no and yes."""
    answers = np.repeat(["no", "yes"] * 2, [*direct, *card])
    return pd.DataFrame({"a": answers, "g": np.repeat(["direct", "card"], [sum(direct), sum(card)])})


def test_groups_of_other_shares_are_told():
    """Of .1 and .3, 30 and 70 %, .15 came out in place of .24."""
    table = reports((270, 30), (420, 280))
    with pytest.warns(UserWarning, match=MESSAGE):
        BY_GROUP.estimate_frequencies(table)
    weights = np.where(np.arange(1000) % 2, 1.0, 2.0)
    with pytest.warns(UserWarning, match=MESSAGE):
        BY_GROUP.estimate_frequencies(table, sample_weight=weights)
    # In one group alone, or with dependent rows, there is nothing to compare.
    BY_GROUP.estimate_frequencies(table[table["g"] == "card"])
    BY_GROUP.estimate_frequencies(table, clusters=np.arange(1000) // 10)
    # The shares of both are .1.
    BY_GROUP.estimate_frequencies(reports((270, 30), (490, 210)))


def test_cheaters_that_no_one_asked_for_are_told():
    people = pd.DataFrame({"a": ["no", "yes"] * 2000})
    encoder = RandomizedResponseEncoder(categories={"a": ["no", "yes"]}, random_state=0)
    halves = PerHalf(encoder, epsilons=(0.5, 2.0))
    table = halves.fit_transform(people)
    honest = halves.estimate_frequencies(table)
    assert honest["frequency"]["yes"] == pytest.approx(0.5, abs=0.1)
    table.loc[::5, "a"] = "no"
    with pytest.warns(UserWarning, match=MESSAGE):
        halves.estimate_frequencies(table)
    halves.estimate_frequencies(table, cheaters="no")


@pytest.mark.parametrize("kind", ["equal", "weights", "rare"])
@pytest.mark.long
def test_groups_that_agree_are_not_told(kind):
    """Also with weights that tell who says yes, and where few do: of 400 surveys, none."""
    rng = np.random.default_rng(0)
    share = {"equal": 0.3, "weights": 0.3, "rare": 0.01}[kind]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(400):
            truth = rng.random(300) < share
            group = rng.choice(["direct", "card"], 300)
            says_truth = (group == "direct") | (rng.random(300) < 0.75)
            answers = np.where(truth == says_truth, "yes", "no")
            weights = None
            table = pd.DataFrame({"a": answers, "g": group})
            if kind == "weights":
                # Of ten people, one is asked of those who are likely to say no.
                is_asked = truth | (rng.random(300) < 0.1)
                table, weights = table[is_asked], np.where(truth, 1.0, 10.0)[is_asked]
            BY_GROUP.estimate_frequencies(table, sample_weight=weights)


GROUP_MESSAGE = "groups that report 'a' by different channels differ beyond the predictors, by [0-9]+ standard errors"


def survey(seed, effect, n=1500):
    """Return age, reports, and a number, where groups have shares and means of age of their own."""
    rng = np.random.default_rng(seed)
    is_direct = rng.random(n) < 0.4
    age = rng.normal(size=n) + effect * is_direct
    truth = rng.logistic(size=n) < age / 2 - 1 + 1.5 * effect * ~is_direct
    says_truth = is_direct | (rng.random(n) < 0.75)
    group = np.where(is_direct, "direct", "card")
    reported = pd.DataFrame({"a": np.where(truth == says_truth, "yes", "no"), "g": group})
    return pd.DataFrame({"age": age, "is direct": is_direct * 1.0}), reported, truth + rng.normal(size=n)


def test_groups_with_effects_are_told_by_regressions():
    """A slope of .5 came out as .22, and 2 % of intervals held it."""
    X, reported, y = survey(0, 1)
    model = ReportLogisticRegression(target_encoder=BY_GROUP)
    for options in ({}, {"clusters": np.arange(1500) // 2}, {"sample_weight": np.arange(1500) % 3 + 1}):
        with pytest.warns(UserWarning, match=GROUP_MESSAGE):
            model.fit(X[["age"]], reported, **options)
    of_predictor = ReportLinearRegression(BY_GROUP)
    with pytest.warns(UserWarning, match=GROUP_MESSAGE):
        of_predictor.fit(reported.assign(age=X["age"]), y)
    # With the group as a predictor, nothing is left of it.
    model.fit(X, reported)
    of_predictor.fit(reported.join(X), y)
    assert abs(model.coef_[0, 0] - 0.5) < 5 * model.coef_std_error_[0, 0]


@pytest.mark.long
def test_groups_without_effects_are_not_told_by_regressions():
    """Of 25 surveys of each kind, none."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for seed in range(25):
            X, reported, y = survey(seed, 0, n=400)
            ReportLogisticRegression(target_encoder=BY_GROUP).fit(X[["age"]], reported)
            ReportLinearRegression(BY_GROUP).fit(reported.assign(age=X["age"]), y)


IMPOSSIBLE = [
    (ReportDesign.warner("a", 0.75), (900, 100)),
    (ReportDesign.warner("a", 0.75), (1000, 0)),
    (ReportDesign.forced("a", yes=2 / 12, no=1 / 12), (20, 980)),
    (ReportDesign.unrelated("a", 0.7, prevalence=0.5), (950, 50)),
]
SHARE_MESSAGE = "column 'a' holds fewer '(yes|no)' than any truth gives"


@pytest.mark.parametrize(("design", "counts"), IMPOSSIBLE)
@pytest.mark.parametrize("kind", ["rows", "weights", "clusters"])
def test_reports_that_no_truth_explains_are_told(design, counts, kind):
    """Of 100 yes in 1,000 and a card of .75, the interval of -.3 was that from -.297 to -.297."""
    table = pd.DataFrame({"a": np.repeat(["no", "yes"], counts)})
    options = {}
    if kind == "weights":
        options = {"sample_weight": np.arange(1000) % 3 + 1.0}
    if kind == "clusters":
        options = {"clusters": np.arange(1000) // 4}
    with pytest.warns(UserWarning, match=SHARE_MESSAGE) as caught:
        shares = design.estimate_frequencies(table, **options)
    assert len(caught) == 1
    assert (shares["frequency"] < 0).any()
    assert (shares["lower"] <= shares["frequency"]).all()
    assert (shares["frequency"] <= shares["upper"]).all()
    assert (shares["upper"] - shares["lower"] > 1e-3).all()


def test_the_group_that_no_truth_explains_is_told():
    levels = ReportDesign.warner("a", {"direct": 0.9, "card": 0.75}, group="g")
    with pytest.warns(UserWarning, match=SHARE_MESSAGE + ".* of group 'card'"):
        levels.estimate_frequencies(reports((450, 50), (450, 50)))


def test_only_shares_beyond_chance_are_told_by_estimates():
    """At the end of the range, exactly the counts whose probability is at least 1e-6; rows of weight 0 do not count."""
    design = ReportDesign.warner("a", 0.75)
    least = int(stats.binom.ppf(1e-6, 1000, 0.25))
    table = pd.DataFrame({"a": np.repeat(["no", "yes"], (1000 - least, least))})
    shares = design.estimate_frequencies(table)
    assert shares.loc["yes", "frequency"] < -0.1
    assert (shares["lower"] < shares["frequency"]).all()
    assert (shares["frequency"] < shares["upper"]).all()
    more = pd.concat([table[:100], table])
    # Of the first rows, all say no.
    design.estimate_frequencies(more, sample_weight=np.arange(1100) >= 100)
    fewer = pd.DataFrame({"a": np.repeat(["no", "yes"], (1001 - least, least - 1))})
    for impossible in (more, fewer):
        with pytest.warns(UserWarning, match=SHARE_MESSAGE):
            design.estimate_frequencies(impossible)
