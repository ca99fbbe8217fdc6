"""``skdp statement``."""

import sys

import pytest

from skdp.cli import main
from skdp.privacy import PrivacyStatement

CODE = """
import pandas as pd
from helper_of_model import SEXES
from skdp import RandomizedResponseEncoder, privacy_statement

people = pd.DataFrame({"sex": SEXES})
encoder = RandomizedResponseEncoder(1.0, categories={"sex": SEXES}).fit(people)


class models:
    both = [encoder, encoder]


statement = privacy_statement(encoder, people.assign(secret="a value"))
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    for name in ("helper_of_model", "model_of_test"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "helper_of_model.py").write_text('SEXES = ["f", "m"]')
    (tmp_path / "code" / "model.py").write_text(CODE)
    return tmp_path


def refuse(capsys, *words):
    with pytest.raises(SystemExit) as caught:
        main(["statement", *map(str, words)])
    assert caught.value.code == 2
    return capsys.readouterr().err


def test_a_pipeline_becomes_a_text_a_record_and_a_page(folder, capsys):
    before = list(sys.path)
    assert main(["statement", "code/model.py:encoder"]) == 0
    assert "Guarantee: epsilon = 1, local model" in capsys.readouterr().out
    assert main(["statement", "code/model.py:models.both", "--out", "both.json"]) == 0
    assert capsys.readouterr().out == "Wrote both.json\n"
    record = PrivacyStatement.from_json((folder / "both.json").read_text())
    assert record.total.epsilon == 2
    assert main(["statement", "both.json", "--out", "both.html"]) == 0
    assert (folder / "both.html").read_text(encoding="utf-8") == record.to_html()
    assert main(["statement", "code/model.py:statement", "--out", "one.HTML"]) == 0
    page = (folder / "one.HTML").read_text(encoding="utf-8")
    assert "not seen by fit" in page
    assert "a value" not in page
    assert str(folder) not in page
    assert sys.path == before


def test_a_module_is_found_in_this_folder(folder, capsys, monkeypatch):
    monkeypatch.syspath_prepend(folder / "code")
    (folder / "model_of_test.py").write_text(CODE)
    assert main(["statement", "model_of_test:encoder"]) == 0
    assert "Guarantee: epsilon = 1" in capsys.readouterr().out


def test_what_is_refused(folder, capsys):
    (folder / "old.html").write_text("mine")
    (folder / "bad.json").write_text('{"format": "skdp-statement", "version": 7}')
    (folder / "latin.json").write_bytes(b"\xff\xfe\xff")
    assert "--out must end with .html or .json, got 'a.txt'" in refuse(
        capsys, "code/model.py:encoder", "--out", "a.txt"
    )
    assert "old.html exists already" in refuse(capsys, "no.py:x", "--out", "old.html")
    assert (folder / "old.html").read_text() == "mine"
    assert "expected MODULE_OR_FILE:OBJECT, such as model.py:pipeline, got 'model'" in refuse(capsys, "model")
    assert "there is no file no.py" in refuse(capsys, "no.py:encoder")
    assert "No module named 'no_such_module'" in refuse(capsys, "no_such_module:encoder")
    assert "has no 'decoder'" in refuse(capsys, "code/model.py:decoder")
    assert "needs fitted estimators, got DataFrame" in refuse(capsys, "code/model.py:people")
    assert "version must be 1" in refuse(capsys, "bad.json")
    assert "latin.json is no UTF-8 text" in refuse(capsys, "latin.json")
    assert "there is no file no.json" in refuse(capsys, "no.json")
    assert not (folder / "a.txt").exists()
