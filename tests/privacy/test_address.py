"""Paths of ledgers: an address of PostgreSQL, a file, or an error that does not show a password."""

import itertools
import os
from pathlib import Path

import pytest

from skdp import PrivacyLedger
from skdp.cli import main

WORD = "nobody-may-see-it"

ADDRESSES = [
    f"postgresql+psycopg2://u:{WORD}@h/d",
    f"postgresql+asyncpg://u:{WORD}@h/d",
    f"Postgresql://u:{WORD}@h/d",
    f"POSTGRES://u:{WORD}@h/d",
    f" postgresql://u:{WORD}@h/d",
    f"\tpostgresql://u:{WORD}@h/d",
    f"\ufeffpostgresql://u:{WORD}@h/d",
    f"'postgresql://u:{WORD}@h/d'",
    f'"postgresql://u:{WORD}@h/d"',
    f"<postgresql://u:{WORD}@h/d>",
    f"postgresql:u:{WORD}@h",
    f"postgresql:/u:{WORD}@h/d",
    f"postgresql:\\\\u:{WORD}@h\\d",
    f"postgres:{WORD}@h",
    f"jdbc:postgresql://h/d?user=u&password={WORD}",
    f"mysql://u:{WORD}@h/d",
    f"mariadb+pymysql://u:{WORD}@h/d",
    f"sqlite:///{WORD}.sqlite",
    "file:///tmp/ledger.sqlite",
    f"http://u:{WORD}@h/d",
    "s3://bucket/ledger.sqlite",
    f"u:{WORD}@h/d",
    f"user:{WORD}@h",
    f"host=db user=u password={WORD}",
    f"dbname=d password = '{WORD}'",
    f"user=u PASSWORD={WORD}",
    f"service=office passwd={WORD}",
    f"Server=db;Database=d;Uid=u;Pwd={WORD};",
    f"h/d?oauth_client_secret={WORD}",
    f"PGPASSWORD={WORD}",
]


@pytest.fixture(autouse=True)
def in_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    yield
    assert os.listdir(tmp_path) == [] or WORD not in str(list(tmp_path.rglob("*")))


@pytest.mark.parametrize("address", ADDRESSES)
def test_other_addresses_are_no_files(address, tmp_path):
    for make, budget in itertools.product((str, Path), ({}, {"epsilon": 1.0})):
        with pytest.raises(ValueError, match="`path` must be a file, or an address as 'postgresql://user@") as raised:
            PrivacyLedger(path=make(address), **budget)
        assert list(tmp_path.iterdir()) == []
    assert WORD not in str(raised.getrepr(style="long"))


@pytest.mark.parametrize("address", ADDRESSES)
def test_commands_show_no_address(address, tmp_path, capsys):
    Path("people.csv").write_text("a\nx\n", encoding="utf-8")
    Path("domain.toml").write_text('[columns.a]\nvalues = ["x", "y"]\n', encoding="utf-8")
    privatize = ["privatize", "people.csv", "out.csv", "--domain", "domain.toml", "--epsilon", "1"]
    commands = [[*privatize, "--ledger", address], [*privatize, "--ledger", address, "--budget", "1"]]
    for command in [*commands, ["statement", address]]:
        with pytest.raises(SystemExit) as raised:
            main(command)
        assert raised.value.code == 2
        shown = capsys.readouterr()
        assert WORD not in shown.out + shown.err
    assert sorted(os.listdir()) == ["domain.toml", "people.csv"]


@pytest.mark.parametrize(
    "name",
    ["ledger.sqlite", "2026-11-28T10:00.sqlite", "./a:b.sqlite", "hosts", "user.sqlite", "my password.sqlite", "a=b"],
)
def test_names_of_files_are_files(name, tmp_path):
    for path in (name, Path(name).absolute()):
        assert PrivacyLedger(1.0, path=path).path == (tmp_path / name).resolve()
    assert (tmp_path / name).is_file()
    (tmp_path / name).unlink()
