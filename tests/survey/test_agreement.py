"""Groups that no shares explain are told, and groups that agree are not."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from skdp import PerHalf, RandomizedResponseEncoder
from skdp.survey import (
    ReportDesign,
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
    # In one group alone, there is nothing to compare.
    BY_GROUP.estimate_frequencies(table[table["g"] == "card"])
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


IMPOSSIBLE = [
    (ReportDesign.warner("a", 0.75), (900, 100)),
    (ReportDesign.warner("a", 0.75), (1000, 0)),
    (ReportDesign.forced("a", yes=2 / 12, no=1 / 12), (20, 980)),
    (ReportDesign.unrelated("a", 0.7, prevalence=0.5), (950, 50)),
]
SHARE_MESSAGE = "column 'a' give the impossible share"


@pytest.mark.parametrize(("design", "counts"), IMPOSSIBLE)
@pytest.mark.parametrize("kind", ["rows", "weights"])
def test_reports_that_no_truth_explains_are_told(design, counts, kind):
    """Of 100 yes in 1,000 and a card of .75, the interval of -.3 was that from -.297 to -.297."""
    table = pd.DataFrame({"a": np.repeat(["no", "yes"], counts)})
    options = {}
    if kind == "weights":
        options = {"sample_weight": np.arange(1000) % 3 + 1.0}
    with pytest.warns(UserWarning, match=SHARE_MESSAGE) as caught:
        shares = design.estimate_frequencies(table, **options)
    assert len(caught) == 1
    assert (shares["frequency"] < 0).any()
    assert (shares["lower"] <= shares["frequency"]).all()
    assert (shares["frequency"] <= shares["upper"]).all()
    assert (shares["upper"] - shares["lower"] > 1e-3).all()


@pytest.mark.parametrize("n", [10, 40, 1000])
@pytest.mark.parametrize("p", [0.6, 0.75, 0.99])
def test_possible_shares_warn_once_in_a_million_at_most(n, p):
    """Enumerated: nobody has the property."""
    design = ReportDesign.warner("a", p)
    alarm = 0.0
    for n_yes in range(int(n * (1 - p)) + 1):
        table = pd.DataFrame({"a": np.repeat(["no", "yes"], (n - n_yes, n_yes))})
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            design.estimate_frequencies(table)
        if not caught:
            break
        alarm += stats.binom.pmf(n_yes, n, 1 - p)
    assert alarm < 1e-6
