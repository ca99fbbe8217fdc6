"""`skdp study`: a study file in, scores and a page out."""

import numpy as np
import pandas as pd
import pytest

from skdp.cli import main

pytest.importorskip("matplotlib")

STUDY = """
title = "Who is hired"
encoders = ["randomized_response"]
shares = ["joint"]
epsilons = [0.5, 4]
estimator = "logistic_regression"
n_splits = 2
baselines = ["without privacy", "left out"]
seed = 0

[tables.jobs]
path = "people.csv"
domain = "people.toml"
target = "hired"
positive_label = "yes"
sensitive = "sex"
privileged = "m"
protect = ["sex", "town"]
"""
DOMAIN = """
[columns.sex]
values = ["f", "m"]

[columns.town]
values = ["a", "b"]

[columns.hired]
values = ["yes", "no"]
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    people = pd.DataFrame({"sex": rng.choice(["f", "m"], 300), "town": rng.choice(["a", "b"], 300)})
    people["hours"] = rng.integers(0, 60, 300)
    people["hired"] = np.where(people["hours"] + 20 * (people["sex"] == "m") > 35, "yes", "no")
    (tmp_path / "in").mkdir()
    people.to_csv("in/people.csv", index=False)
    (tmp_path / "in/people.toml").write_text(DOMAIN)
    (tmp_path / "in/study.toml").write_text(STUDY)
    return tmp_path


@pytest.mark.long
def test_a_study_is_written_and_goes_on(folder, capsys):
    command = ["study", "--config", "in/study.toml", "--out", "out", "--quiet"]
    assert main(command) == 0
    assert "Wrote out/index.html" in capsys.readouterr().out
    page = (folder / "out/index.html").read_text(encoding="utf-8")
    assert "<h1>Who is hired</h1>" in page
    scores = pd.read_csv(folder / "out/scores.csv")
    assert set(scores["method"]) == {"without privacy", "left out", "randomized_response, joint"}
    assert set(scores["table"]) == {"jobs"}
    # The second run reads what is there, of which it fits the new epsilon alone.
    (folder / "in/study.toml").write_text(STUDY.replace("[0.5, 4]", "[0.5, 4, 8]"))
    assert main(command) == 0
    again = pd.read_csv(folder / "out/scores.csv")
    both = again.merge(scores, on=["table", "method", "epsilon", "split", "metric"])
    assert len(both) == len(scores) < len(again)
    assert (both["seconds_x"] == both["seconds_y"]).all()


@pytest.mark.long
def test_loaders_and_models_of_ones_own(folder):
    (folder / "in/model.py").write_text(
        "from sklearn.tree import DecisionTreeClassifier\ntree = DecisionTreeClassifier(max_depth=2)\n"
    )
    (folder / "in/study.toml").write_text(
        'encoders = ["randomized_response"]\nepsilons = [1.0]\nestimator = "model.py:tree"\nn_splits = 2\n'
        'baselines = []\n[tables.Adult]\nloader = "adult"\nsensitive = "sex"\n'
    )
    assert main(["study", "--config", "in/study.toml", "--quiet", "--memory", "cache"]) == 0
    assert (folder / "cache").exists()
    assert set(pd.read_csv(folder / "study/scores.csv")["n_train"]) == {24129}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("seed = 0", "sed = 0", "unknown keys ['sed']"),
        ("epsilons = [0.5, 4]\n", "", "lacks ['epsilons']"),
        ('["randomized_response"]', '["rr"]', "encoders must be a list of some of"),
        ('"logistic_regression"', '"forest"', "estimator must be one of"),
        ("[tables.jobs]", "[tables]", "must be a table of settings"),
        ('target = "hired"\n', "", "[tables.jobs] lacks ['target']"),
        ('target = "hired"', 'target = "paid"', "the file has no columns ['paid']"),
        ('path = "people.csv"', 'loader = "people"', "unknown keys"),
        ("epsilons = [0.5, 4]", "epsilons = [0.5", "is no TOML"),
        ("n_splits = 2", "n_splits = 1", "must be at least 2, got 1"),
    ],
)
def test_mistakes_are_named(folder, capsys, old, new, message):
    (folder / "in/study.toml").write_text(STUDY.replace(old, new))
    with pytest.raises(SystemExit) as stopped:
        main(["study", "--config", "in/study.toml"])
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err
    assert not (folder / "study").exists()


def test_a_file_that_is_not_there(folder, capsys):
    with pytest.raises(SystemExit):
        main(["study", "--config", "none.toml"])
    assert "there is no study file none.toml" in capsys.readouterr().err
