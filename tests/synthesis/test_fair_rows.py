"""Rows with a fair label: independent of the group, nothing else changed, and nothing of the data read for it."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from skdp import DPMarginalSynthesizer, PrivacyGuarantee, PrivacyLedger, privacy_statement
from skdp.synthesis import SyntheticResampler
from tests.conftest import each

DOMAIN = {
    "sex": ["F", "M"],
    "job": ["cook", "clerk", "smith"],
    "skill": range(4),
    "income": ["low", "high"],
}
PARTS = ["sex", "job", "skill"]


def people(n=3000, seed=0):
    """The label depends on the group by itself, by a proxy, and on a column that does not depend on the group."""
    rng = np.random.default_rng(seed)
    sex = rng.random(n) < 0.4
    job = (rng.random(n) < 0.2 + 0.5 * sex).astype(int) + (rng.random(n) < 0.3)
    skill = rng.integers(0, 4, n)
    high = rng.random(n) < 1 / (1 + np.exp(3 - skill - job * 0.7 - 1.2 * sex))
    return pd.DataFrame(
        {
            "sex": np.where(sex, "M", "F"),
            "job": np.array(DOMAIN["job"])[job],
            "skill": skill,
            "income": np.where(high, "high", "low"),
        }
    )


TABLE = people()
FAIR = ("sex", "income")


def fitted(table=TABLE, y=None, **options):
    options = {"epsilon": 20.0, "domain": DOMAIN, "marginals": "full", "random_state": 0} | options
    return DPMarginalSynthesizer(**options).fit(table, y)


def rates(rows, by="sex"):
    return (rows["income"] == "high").groupby([rows[name] for name in np.atleast_1d(by)]).mean()


def gap(rows):
    return float(np.ptp(rates(rows)))


def test_the_label_is_independent_of_the_group_and_all_else_is_as_it_was():
    before = fitted().sample(20_000)
    after = fitted(fair=FAIR).sample(20_000)
    assert gap(before) > 0.2
    assert gap(after) < 0.01
    assert (after["income"] == "high").mean() == pytest.approx((before["income"] == "high").mean(), abs=0.01)
    pd.testing.assert_frame_equal(after[PARTS], before[PARTS])  # of the same seed
    # A column that says as much of the label in both groups still does.
    by_skill = rates(after, "skill")
    assert by_skill.is_monotonic_increasing
    assert np.ptp(by_skill) > 0.4


def test_scores_have_the_same_distribution_in_all_groups():
    """So that decisions by any limit accept as many of each; without ties, as by numbers of many values."""
    rng = np.random.default_rng(3)
    n = 20_000
    sex = rng.random(n) < 0.4
    score = np.clip(np.floor(rng.normal(40 + 20 * sex, 15 - 5 * sex)), 0, 99).astype(int)
    high = rng.random(n) < 0.1 + 0.8 * score / 100
    table = pd.DataFrame({"sex": np.where(sex, "M", "F"), "x": score, "income": np.where(high, "high", "low")})
    domain = {"sex": ["F", "M"], "x": range(100), "income": ["low", "high"]}
    rows = fitted(table, domain=domain, epsilon=1e3, fair=FAIR).sample(200_000)
    # The share of labels among the upper half of each group, and among its lower half.
    rank = rows.groupby("sex")["x"].rank(pct=True, method="first")
    halves = rates(rows.assign(half=rank > 0.5), ["half", "sex"]).unstack()
    np.testing.assert_allclose(halves["F"], halves["M"], atol=0.015)
    assert halves.loc[True].min() > halves.loc[False].max() + 0.1


def test_given_conditions_it_is_independent_within_each_value():
    after = fitted(fair=(*FAIR, ["job"])).sample(40_000)
    within = rates(after, ["job", "sex"]).unstack()
    np.testing.assert_allclose(within["F"], within["M"], atol=0.02)
    assert gap(after) > 0.05  # as jobs differ


def test_nothing_of_the_data_is_read_for_it():
    """Measurements, draws of noise and the loss are the same, and a file without data gives the same rows."""
    plain, fair = fitted(), fitted(fair=FAIR)
    for one, other in zip(plain.marginals_, fair.marginals_, strict=True):
        np.testing.assert_array_equal(one.counts, other.counts)
    pd.testing.assert_frame_equal(plain.marginal(["sex", "income"]), fair.marginal(["sex", "income"]))
    assert plain.guarantee_.epsilon == fair.guarantee_.epsilon
    file = io.BytesIO()
    fair.save(file)
    file.seek(0)
    again = DPMarginalSynthesizer.load(file)
    assert again.fair_ == fair.fair_ == (*FAIR, ())
    assert gap(again.sample(20_000)) < 0.01


def test_pairs_with_the_group_and_the_label_are_measured_better():
    """How far scores of groups differ is known by what the group's pairs say of all other columns."""

    def noise_of_pairs(name, **options):
        synthesizer = fitted(epsilon=3.0, marginals="auto", **options)
        columns = synthesizer.domain_.columns
        place = columns.index(name)
        return min(m.std_error for m in synthesizer.marginals_ if len(m.clique) == 2 and place in m.clique)

    for name in FAIR:
        assert noise_of_pairs(name, fair=FAIR) < 0.9 * noise_of_pairs(name)


def test_guarantee_statement_and_ledger_say_that_rows_were_changed():
    ledger = PrivacyLedger(epsilon=99.0)
    synthesizer = fitted(fair=(*FAIR, ["job"]), ledger=ledger)
    text = "label 'income' redrawn in rows, independent of 'sex' given 'job'"
    assert text in synthesizer.guarantee_.mechanism
    assert str(synthesizer.guarantee_).endswith(f"{text}, NOT SECURE: the randomness comes from a seed")
    # It is kept where guarantees are added up, and where they are written.
    together = synthesizer.guarantee_ + fitted(ledger=ledger).guarantee_
    for guarantee in (together, together.to("replace")):
        assert text in str(guarantee)
        assert PrivacyGuarantee.from_json(guarantee.to_json()) == guarantee
    assert text in str(privacy_statement(synthesizer))
    assert text in ledger.report().to_string(max_colwidth=None)
    assert "redrawn" not in str(fitted().guarantee_)
    assert "redrawn" not in fitted().guarantee_.mechanism


def test_every_way_to_rows_gives_fair_ones():
    synthesizer = fitted(fair=FAIR)
    tables = [
        *synthesizer.sample(10_000, n_tables=2),
        pd.concat(synthesizer.sample_batches(10_000, batch_size=3_000)),
        synthesizer.transform(TABLE),
    ]
    for rows in tables:
        assert gap(rows) < 0.02
    unfitted = DPMarginalSynthesizer(20.0, domain=DOMAIN, marginals="full", random_state=0, fair=FAIR)
    X, y = SyntheticResampler(unfitted).fit_resample(TABLE[PARTS], TABLE["income"])
    assert gap(X.assign(income=y)) < 0.02


def test_the_parameter_at_fit_counts():
    synthesizer = fitted(fair=FAIR)
    synthesizer.set_params(fair=None)
    assert gap(synthesizer.sample(10_000)) < 0.02
    assert clone(synthesizer).fit(TABLE).fair_ is None


def test_groups_that_no_row_has_and_rare_ones_are_no_error():
    domain = DOMAIN | {"sex": ["F", "M", "nobody", "one"]}
    table = TABLE.assign(sex=np.where(np.arange(len(TABLE)) == 0, "one", TABLE["sex"]))
    rows = fitted(table, domain=domain, epsilon=0.5, fair=FAIR).sample(5_000)
    common = rows[rows["sex"].isin(["F", "M"])]
    assert gap(common) < 0.02
    assert len(fitted(fair=FAIR).sample(0)) == 0


class TestRefused:
    @each(
        "fair error message",
        [
            ("sex", TypeError, "must be .group, label. or .group, label, conditions., got str"),
            (["sex"], ValueError, "got 1 parts"),
            (("sex", "income", "job"), TypeError, "conditions is a list of column names, got str"),
            (("age", "income"), ValueError, "fair: there is no column 'age'; the columns are"),
            (("sex", "income", ["jobb"]), ValueError, "fair: there is no column 'jobb'; the columns are"),
            (("income", "income"), ValueError, "fair must name a group, .* each once, got .'income', 'income'.$"),
            (("sex", "income", ["sex"]), ValueError, "fair must name .* conditions, each once"),
            (("sex", "income", ["income"]), ValueError, "fair must name .* got .'sex', 'income', 'income'.$"),
            (("sex", "job"), ValueError, "'job' of fair must be a list of two values, .* declare one, got"),
        ],
    )
    def test_before_any_charge(self, fair, error, message):
        ledger = PrivacyLedger(epsilon=99.0)
        with pytest.raises(error, match=message):
            fitted(fair=fair, ledger=ledger)
        assert ledger.spent.epsilon == 0

    def test_what_it_would_contradict(self):
        with pytest.raises(ValueError, match="structural_zeros name the label 'income'"):
            fitted(fair=FAIR, structural_zeros=[{"income": "high", "skill": 0}])
        with pytest.raises(ValueError, match="set one of them to None"):
            fitted(fair=FAIR, redraw=["job"])
