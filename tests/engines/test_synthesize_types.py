"""What kind of numbers and times a CSV file has follows from the domain; a saved model outlives a full disk."""

from __future__ import annotations

import errno

import numpy as np
import pandas as pd
import pytest

from skdp import DPMarginalSynthesizer, Interval, PrivacyLedger
from skdp.engines import synthesize_file

ZONED = ["2020-01-01T00:00:00+01:00", "2020-06-01T12:30:00+02:00", "2020-06-01T12:30:00.25+00:00"]


@pytest.fixture
def people(tmp_path):
    path = tmp_path / "people.csv"
    rows = np.arange(600)
    pd.DataFrame({"wage": rows % 50 + 0.5, "age": rows % 70, "seen": np.array(ZONED)[rows % 3]}).to_csv(
        path, index=False
    )
    return path


@pytest.mark.parametrize(("real", "whole"), [(True, False), (False, True)])
def test_an_interval_says_whether_its_numbers_are_real(tmp_path, real, whole):
    """Whatever the dtype or the text of the data is: ends and edges of both are whole."""
    domain = {"wage": Interval(0, 10, bins=10, real=real)}
    fractions, integers = np.arange(400) % 40 / 4, np.arange(400) % 10
    tables = (integers, integers.astype(float)) if whole else (fractions, integers, fractions.astype(object))
    for values in tables:
        pd.DataFrame({"wage": values}).to_csv(tmp_path / "wages.csv", index=False)
        synthesizer = DPMarginalSynthesizer(9.0, domain=domain, random_state=0)
        out = tmp_path / f"{len(list(tmp_path.iterdir()))}.csv"
        synthesize_file(tmp_path / "wages.csv", out, synthesizer)
        made = pd.read_csv(out)["wage"]
        # Of whole numbers that might be real, noisy counts show the points of mass.
        if whole or values is not integers:
            assert made.dtype == (np.int64 if whole else np.float64)
            assert (made % 1 == 0).all() == whole
        assert made.between(0, 10).all()


def test_a_full_disk_does_not_lose_a_model_that_is_saved(people, tmp_path, monkeypatch):
    def fill_the_disk(self, n_samples):
        raise OSError(errno.ENOSPC, "No space left on device")

    domain = {"age": Interval(0, 70, bins=7)}
    monkeypatch.setattr(DPMarginalSynthesizer, "sample_batches", fill_the_disk)
    with pytest.raises(OSError, match="No space left on device"):
        synthesize_file(people, tmp_path / "out.csv", DPMarginalSynthesizer(domain=domain), save=tmp_path / "model")
    assert not (tmp_path / "out.csv").exists()
    assert len(DPMarginalSynthesizer.load(tmp_path / "model").sample(10)) == 10


def test_the_model_is_saved_where_nothing_is(people, tmp_path):
    ledger = PrivacyLedger(epsilon=10)
    synthesizer = DPMarginalSynthesizer(domain={"age": Interval(0, 70, bins=7)}, ledger=ledger, random_state=0)
    model, out = tmp_path / "model", tmp_path / "out.csv"
    model.write_text("mine")
    with pytest.raises(FileExistsError):
        synthesize_file(people, out, synthesizer, save=model)
    with pytest.raises(FileNotFoundError):
        synthesize_file(people, out, synthesizer, save=tmp_path / "nowhere" / "model")
    with pytest.raises(ValueError, match=r"save.*target"):
        synthesize_file(people, out, synthesizer, save=out)
    assert ledger.spent.epsilon == 0
    assert model.read_text() == "mine"
    synthesize_file(people, out, synthesizer, save=tmp_path / "new")
    assert DPMarginalSynthesizer.load(tmp_path / "new").n_rows_ == synthesizer.n_rows_
