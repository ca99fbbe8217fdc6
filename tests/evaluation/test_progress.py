"""Work of minutes says how far it is, and how long it will take, if asked for: one bar for all."""

import re
import sys

import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from skdp import Domain, RandomizedResponseEncoder
from skdp.evaluation import StudyTable, audit_epsilon, count_study, fairness_study
from tests.conftest import often

PEOPLE = pd.DataFrame({"sex": ["f", "m"] * 50, "hours": range(100)})
DOMAIN = Domain({"sex": ["f", "m"]})
ENCODER = RandomizedResponseEncoder(1.0, categories=DOMAIN, random_state=0)


def study(**options):
    table = StudyTable(
        PEOPLE, PEOPLE["hours"] % 3 == 0, sensitive="sex", privileged="m", positive_label=True, domain=DOMAIN
    )
    model = LogisticRegression()
    return fairness_study(table, ENCODER, epsilons=[1.0], estimator=model, n_splits=2, random_state=0, **options)


WORK = {
    "audit of rows": (lambda **options: audit_epsilon(ENCODER, n_draws=2000, random_state=0, **options), 2000, "draw"),
    "counts": (
        lambda **options: count_study(
            PEOPLE[["sex"]], DOMAIN, epsilons=[0.5, 1.0], n_repeats=10, random_state=0, **options
        ),
        20,
        "release",
    ),
    "study": (study, 10, "fit"),
}


@pytest.mark.parametrize("name", often(WORK, ["counts", "study"]))
def test_a_bar_counts_what_is_done_and_says_what_is_left(name, capsys):
    pytest.importorskip("tqdm")
    work, total, unit = WORK[name]
    silent = work()
    assert capsys.readouterr().err == ""
    loud = work(progress=True)
    shown = capsys.readouterr().err
    done, of = re.findall(r"(\d+)/(\d+)", shown)[-1]
    assert int(of) == total
    assert 0.9 * total <= int(done) <= total
    assert f"{unit}/s" in shown or f"s/{unit}" in shown
    # It changes nothing.
    assert repr(silent) == repr(loud)


def test_without_tqdm_the_bar_is_refused_before_the_work(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    for work, _, _ in WORK.values():
        with pytest.raises(ImportError, match=r"progress=True needs tqdm: pip install tqdm \(extra 'plot'\)"):
            work(progress=True)
