"""Titles of charges in lists, statements, logs and errors."""

import copy
import json
import logging
import pickle
from pathlib import Path

import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_union

from skdp import (
    BudgetExceeded,
    Domain,
    DPMean,
    DPStandardScaler,
    PrivacyGuarantee,
    PrivacyLedger,
    privacy_statement,
    save,
)
from skdp.cli import main

X = pd.DataFrame({"a": [1.0, 2.0, 3.0]})


def fit_months(ledger):
    for month in ("January", "February"):
        DPMean(0.5, bounds=(0, 5), ledger=ledger.with_title(month)).fit(X)
    DPMean(0.5, bounds=(0, 5), ledger=ledger).fit(X)


@pytest.mark.parametrize("file", [None, "ledger.sqlite"])
def test_titles_tell_two_months_apart(file, tmp_path, caplog):
    caplog.set_level(logging.INFO, "skdp")
    ledger = PrivacyLedger(2.0, path=file and tmp_path / file)
    fit_months(ledger)
    titles = ["January: DPMean", "February: DPMean", "DPMean"]
    assert ledger.charges()["title"].tolist() == titles
    assert [step.step for step in privacy_statement(ledger).steps] == titles
    assert [json.loads(record.args[0])["release"] for record in caplog.records] == titles
    with pytest.raises(BudgetExceeded, match=r"^March: survey requires epsilon=1.0"):
        ledger.with_title("March").charge(PrivacyGuarantee(1.0, relation="add_remove", trust="central"), "survey")
    assert ledger.spent.epsilon == 1.5


def test_ledger_with_a_title_is_the_same_ledger(tmp_path):
    ledger = PrivacyLedger(2.0, path=tmp_path / "ledger.sqlite")
    titled = ledger.with_title("January")
    estimator = DPMean(0.5, bounds=(0, 5), ledger=titled)
    for other in (estimator, clone(estimator), copy.deepcopy(estimator), pickle.loads(pickle.dumps(estimator))):
        other.fit(X)
    assert ledger.charges()["title"].tolist() == ["January: DPMean"] * 4
    assert titled.spent == ledger.spent == (2.0, 0.0)
    assert (titled.path, titled.epsilon, repr(titled)) == (ledger.path, 2.0, repr(ledger))
    assert titled.with_title("February").with_title("March")._add_title("x") == "March: x"
    # Two titles of one ledger are one ledger.
    both = [DPStandardScaler(bounds=(0, 5), ledger=ledger.with_title(x)) for x in ("January", "February")]
    assert len(privacy_statement(both, X).ledgers) == 1

    save(make_union(*both), tmp_path / "both.skops")


@pytest.mark.parametrize(("title", "error"), [(3, TypeError), ("", ValueError), (" ", ValueError)])
def test_invalid_titles_raise_an_error(title, error):
    with pytest.raises(error, match="`title` must be a"):
        PrivacyLedger(1.0).with_title(title)


def test_commands_give_titles(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    pd.DataFrame({"a": ["x", "y"] * 20}).to_csv("rows.csv", index=False)
    Path("d.toml").write_text(Domain({"a": ["x", "y"]}).to_toml(), encoding="utf-8")
    options = ["--domain", "d.toml", "--epsilon", "1", "--ledger", "l.sqlite"]
    privatize = ["privatize", "rows.csv", "one.csv", *options, "--title", "May"]
    table = ["table", "rows.csv", "two.csv", "--by", "a", "--statistics", "count", *options, "--title", "June"]
    synthesize = ["synthesize", "rows.csv", "three.csv", "--delta", "1e-6", *options, "--title", "July"]
    budget = ["--budget", "9", "--budget-delta", "1e-5"]
    assert main([*privatize, *budget]) == main([*table, "--statement", "june.json"]) == main(synthesize) == 0
    titles = PrivacyLedger(path="l.sqlite").charges()["title"].tolist()
    assert titles == ["May: RandomizedResponseEncoder", "June: DPGroupBy", "July: DPMarginalSynthesizer"]
    assert json.loads(Path("june.json").read_text())["title"] == "June"
    with pytest.raises(SystemExit):
        main([*privatize[:2], "four.csv", *options[:4], "--title", "May"])
    assert "--title requires --ledger" in capsys.readouterr().err
