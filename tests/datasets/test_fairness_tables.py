"""Tables that are read from a file of the user, or downloaded: the published tables only."""

import gzip
import hashlib
from pathlib import Path

import pandas as pd
import pytest
from sklearn.utils import Bunch

from skdp.datasets import _fairness, load_acs_public_coverage, load_compas, load_lsac

LOADERS = {
    "_ACS": (load_acs_public_coverage, "db_ACSCoverage.csv"),
    "_LSAC": (load_lsac, "db_LSAC.csv"),
    "_COMPAS": (load_compas, "compas-scores-two-years.csv"),
}
all_tables = pytest.mark.parametrize("name", LOADERS)


def small_table(name):
    """Return four rows of declared values, with further columns."""
    table = getattr(_fairness, name)
    rows = {column: list(table.domain[column].values[:1]) * 4 for column in table.domain.columns}
    rows[table.target] = [0, 1, 1, 0]
    rows |= {"decile_score": [1, 10, 2, 9], "score_text": ["Low", "High"] * 2, "is_recid": [0, 1, 1, 0]}
    rows |= {"days_b_screening_arrest": [-30.0, 31.0, None, 30.0], "name": ["a person"] * 4}
    return pd.DataFrame(rows)


@pytest.fixture
def published(monkeypatch, tmp_path):
    """Write a small table, and replace the checksum of the published one."""

    def publish(name):
        frame = small_table(name)
        table = getattr(_fairness, name)
        used = frame[[*table.domain.columns, *table.further]]
        text = used.to_csv(index=False, lineterminator="\n").encode()
        known = _fairness._PublishedTable(**{**vars(table), "digest": hashlib.sha256(text).hexdigest()})
        monkeypatch.setattr(_fairness, name, known)
        path = tmp_path / LOADERS[name][1]
        frame.to_csv(path, index=False, lineterminator="\r\n")
        return path

    return publish


@all_tables
def test_file_of_the_user_is_read(name, published, tmp_path):
    load = LOADERS[name][0]
    path = published(name)
    packed = tmp_path / "packed.csv.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    table = load(path)
    assert isinstance(table, Bunch)
    assert load(str(packed)).frame.equals(table.frame)
    assert list(table.frame) == list(table.domain.columns)
    assert table.data.equals(table.frame[table.feature_names])
    assert table.target.equals(table.frame.drop(columns=table.feature_names).iloc[:, 0])
    assert set(table.privileged) <= set(table.protected) <= set(table.feature_names)
    assert all(value in table.domain[column].values for column, value in table.privileged.items())
    assert table.positive_label in table.target_names
    assert Path(table.url).name == LOADERS[name][1]
    for word in ("Source:", "License:", "Rows:", Path(table.url).name):
        assert word in table.DESCR


def test_rows_far_from_the_screening_are_excluded(published):
    path = published("_COMPAS")
    assert load_compas(path).decile_score.to_list() == [1, 9]
    assert load_compas(path).frame.index.to_list() == [0, 1]


@all_tables
@pytest.mark.parametrize("damage", ["value", "column", "row", "other"])
def test_another_table_raises_an_error(name, damage, published):
    load = LOADERS[name][0]
    path = published(name)
    frame = pd.read_csv(path)
    target = getattr(_fairness, name).target
    if damage == "value":
        frame.loc[0, target] = 1
    elif damage == "column":
        frame = frame.drop(columns=target)
    elif damage == "row":
        frame = frame.iloc[:3]
    frame.to_csv(path, index=False)
    if damage == "other":
        path.write_text('"secret\n')
    with pytest.raises(ValueError, match="`path` must be the table that is published at") as error:
        load(path)
    assert "secret" not in str(error.value)
    assert error.value.__cause__ is None


@all_tables
def test_error_without_a_network_names_the_address(name, monkeypatch):
    def fail(url, **options):
        assert options["sha256"] == getattr(_fairness, name).file_digest
        raise OSError("no network")

    monkeypatch.setattr(_fairness, "fetch_file", fail)
    with pytest.raises(OSError, match=f"{LOADERS[name][1]} cannot be downloaded. .* pass its path"):
        LOADERS[name][0]()


def test_downloaded_table_is_read(monkeypatch, published):
    path = published("_LSAC")
    monkeypatch.setattr(_fairness, "fetch_file", lambda url, **options: path)
    assert load_lsac().frame.equals(load_lsac(path).frame)
