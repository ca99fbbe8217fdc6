"""Columns that are public beside protected ones need no declared values: these are read, without a warning."""

from __future__ import annotations

import warnings
from datetime import date

import numpy as np
import pandas as pd
import pytest

import skdp
from skdp import DPMarginalSynthesizer, Interval, MarginalClassifier, PrivacyLedger, SyntheticResampler
from skdp.testing import replay_release
from tests.conftest import each

SEX = {"sex": ["f", "m"]}


def people(n_rows=400):
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "sex": rng.choice(["f", "m"], n_rows),
            "job": rng.choice(["a", "b", None], n_rows),
            "wage": np.round(rng.lognormal(7, 1, n_rows), 2),
            "children": rng.integers(0, 4, n_rows),
            "is_new": rng.random(n_rows) < 0.3,
            "since": [date(2000 + int(year), 1, 1) for year in rng.integers(0, 20, n_rows)],
            "region": pd.Categorical(rng.choice(["x", "y"], n_rows)),
        }
    )


def synthesizer(epsilon=2.0, **parameters):
    given = {"domain": SEX, "protect": ["sex"], "delta": 1e-6, "max_iter": 20}
    return DPMarginalSynthesizer(epsilon, **given | parameters)


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


class TestValues:
    def test_are_those_that_occur(self):
        table = people()
        release = synthesizer(random_state=0).fit(table)
        domain = release.domain_
        assert domain["job"].labels == ("a", "b", None)
        assert domain["children"].labels == (0, 1, 2, 3)
        assert domain["is_new"].labels == (False, True)
        assert domain["region"].labels == ("x", "y")
        assert len(domain["since"].labels) == table["since"].nunique()
        wage = domain["wage"]
        assert isinstance(wage, Interval)
        assert wage.real
        assert wage.edges[0] <= table["wage"].min() <= table["wage"].max() <= wage.edges[-1]
        made = release.transform(table)
        public = [name for name in table if name != "sex"]
        pd.testing.assert_frame_equal(made[public], table[public])
        assert (made["sex"] != table["sex"]).any()

    def test_declared_ones_stay(self):
        domain = SEX | {"children": list(range(10))}
        release = synthesizer(domain=domain).fit(people())
        assert release.domain_["children"].labels == tuple(range(10))

    def test_of_polars(self):
        pl = pytest.importorskip("polars")
        table = people().drop(columns="region")
        release = synthesizer(random_state=0).fit(pl.from_pandas(table))
        assert release.domain_["job"].labels == ("a", "b", None)
        assert release.transform(pl.from_pandas(table))["job"].equals(pl.from_pandas(table)["job"])

    def test_of_later_rows_must_have_occurred(self):
        release = synthesizer(random_state=0).fit(people())
        later = people(5).assign(job="c")
        with pytest.raises(ValueError, match="job") as error:
            release.transform(later)
        assert "'c'" not in str(error.value)
        assert "handle_unknown" in str(error.value)
        assert "ignore" not in str(error.value)
        renamed = release.set_params(handle_unknown={"job": "a"}).transform(later)
        assert list(renamed["job"]) == ["c"] * 5
        clipped = synthesizer(random_state=0, handle_unknown="clip").fit(people())
        assert len(clipped.transform(people(5).assign(wage=1e9))) == 5

    def test_of_a_release_in_a_file(self, tmp_path):
        release = synthesizer(random_state=0).fit(people())
        release.save(tmp_path / "release.json")
        assert skdp.load(tmp_path / "release.json").domain_ == release.domain_

    def test_of_features_and_of_a_public_target(self):
        table = people(2_000)
        X, y = table[["sex", "job", "children"]], table["is_new"]
        _, target = SyntheticResampler(synthesizer(random_state=0)).fit_resample(X, y)
        assert target is y
        release = synthesizer(domain={"is_new": [False, True]}, protect=["is_new"], random_state=0)
        assert MarginalClassifier(release).fit(X, y).predict(X).shape == (2_000,)


class TestWhatMustBeDeclared:
    @each("protect", [["sex", "children"], ["children"]])
    def test_protected_columns(self, protect):
        ledger = PrivacyLedger(epsilon=9, delta=0.1, relation="replace_values", columns=protect)
        with pytest.raises(ValueError, match="children"):
            synthesizer(protect=protect, ledger=ledger).fit(people())
        assert ledger.spent == (0, 0)

    def test_all_columns_of_releases_of_whole_records(self):
        with pytest.raises(ValueError, match="job"):
            DPMarginalSynthesizer(domain=SEX).fit(people())

    @each(
        "column reason",
        [
            ([f"person {number}" for number in range(1_200)], "more than 1000 distinct values"),
            ([np.inf, 1.0] * 600, "infinite"),
            ([(1,), (2,)] * 600, "must be declared"),
        ],
    )
    def test_columns_without_a_list_of_values(self, column, reason):
        ledger = PrivacyLedger(epsilon=9, delta=0.1, relation="replace_values", columns=["sex"])
        table = people(1_200).assign(name=pd.Series(column, dtype=object))
        with pytest.raises((TypeError, ValueError), match=reason) as error:
            synthesizer(ledger=ledger).fit(table)
        assert "person" not in str(error.value)
        assert ledger.spent == (0, 0)


class TestPrivacy:
    def test_what_is_read_is_the_same_for_neighbours(self):
        table = people(60)
        neighbour = table.assign(sex=["m" if table["sex"][0] == "f" else "f", *table["sex"][1:]])
        assert synthesizer().fit(table).domain_ == synthesizer().fit(neighbour).domain_
        replay = replay_release(synthesizer(), table, neighbour)
        assert replay.passed, replay.findings


def test_columns_of_an_array_are_declared():
    """A missing protected value makes all of it floats, in which large whole numbers are others."""
    large = 2**60 + np.arange(60) % 7
    codes = (np.arange(60) % 2).astype(float)
    codes[5] = np.nan
    for column in (np.arange(60) % 2, codes):
        model = synthesizer(domain={"x1": [0, 1, None]}, protect=["x1"])
        with pytest.raises(ValueError, match=r"declares nothing for the columns \['x0'\]"):
            model.fit(np.c_[large, column])
