"""Columns that are public beside protected ones need no declared values: these are read, without a warning."""

from __future__ import annotations

import warnings
from datetime import date

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

import skdp
from skdp import DPMarginalSynthesizer, Interval, PrivacyLedger, SyntheticResampler
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


def sexes_by_level(n_rows=2_000):
    """Rows of ten levels, of which the lower ones are rarer and more often those of "f"."""
    level = np.arange(n_rows) % 55
    level = np.searchsorted(np.cumsum(np.arange(1, 11)), level, side="right")
    sex = np.where(np.random.default_rng(1).random(n_rows) < level / 10, "m", "f")
    return pd.DataFrame({"sex": sex, "level": level})


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

    def test_numbers_are_listed_if_they_are_at_most_twice_as_many_as_bins(self):
        table = people(500)[["sex"]]
        number = np.arange(500)
        table = table.assign(few=number % 64, many=number % 65, halves=number % 37 / 2)
        domain = synthesizer(random_state=0).fit(table).domain_
        assert domain["few"].labels == tuple(range(64))
        assert domain["halves"].labels == tuple(np.arange(37) / 2)
        assert isinstance(domain["many"], Interval)
        assert len(domain["many"]) <= 32

    @each("kind", ["number", "date", "text"])
    def test_rare_numbers_and_dates_are_counted_with_their_neighbours(self, kind):
        table = people(3_000)[["sex"]]
        # Of nine values, some are rare: in between, and at the end.
        level = np.repeat(np.arange(9), [600, 3, 800, 700, 2, 1, 500, 390, 4])
        table["sex"] = np.where(np.random.default_rng(0).random(3_000) < level / 9, "f", "m")
        made = {"number": lambda x: 10 * x, "date": lambda x: date(2020 + x, 1, 1), "text": "level {}".format}
        table["level"] = list(map(made[kind], level.tolist()))
        release = synthesizer(random_state=0).fit(table)
        (groups,) = [marginal.groups for marginal in release.marginals_ if marginal.clique == (0, 1)]
        is_sorted = (np.diff(groups[1]) >= 0).all()
        assert is_sorted == (kind != "text")

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

    def test_of_later_rows_need_not_have_occurred(self):
        """Nothing private depends on them: numbers take the nearest value, and others the rarest."""
        table = people()
        release = synthesizer(random_state=0).fit(table)
        unseen = {
            "job": "c",
            "wage": 1e9,
            "children": 2.6,
            "since": date(2050, 1, 1),
            "is_new": None,
            "region": "z",
        }
        for name, value in unseen.items():
            later = people(50)
            later[name] = [value] * 50
            made = release.transform(later)
            pd.testing.assert_frame_equal(made.drop(columns="sex"), later.drop(columns="sex"))
            assert set(made["sex"]) <= {"f", "m"}
        renamed = release.set_params(handle_unknown={"job": "a"}).transform(people(5).assign(job="c"))
        assert list(renamed["job"]) == ["c"] * 5

    def test_declared_ones_must_be_declared(self):
        table = people()
        domain = SEX | {"job": ["a", "b", None], "wage": Interval(0, 1e6, bins=9, real=True)}
        release = synthesizer(random_state=0, domain=domain).fit(table)
        for name, value in (("job", "c"), ("wage", 1e9)):
            with pytest.raises(ValueError, match=f"{name}.*declared domain") as error:
                release.transform(people(5).assign(**{name: value}))
            assert "'c'" not in str(error.value)
            assert "handle_unknown" in str(error.value)
            assert "ignore" not in str(error.value)
        clipped = synthesizer(random_state=0, domain=domain, handle_unknown="clip").fit(table)
        assert len(clipped.transform(people(5).assign(wage=1e9))) == 5

    def test_folds_of_cross_validation(self):
        table = sexes_by_level(200).sample(frac=1, random_state=0)
        y = table["level"] > 4
        table["number"] = np.random.default_rng(0).normal(size=200)
        table["name"] = [f"name {row // 2}" for row in range(200)]
        numbers = make_column_transformer(("passthrough", ["level", "number"]))
        pipeline = make_pipeline(synthesizer(random_state=0), numbers, LogisticRegression())
        assert (cross_val_score(pipeline, table, y, error_score="raise") > 0.8).all()

    def test_of_a_release_in_a_file(self, tmp_path):
        release = synthesizer(random_state=0).fit(people())
        release.save(tmp_path / "release.json")
        loaded = skdp.load(tmp_path / "release.json")
        assert loaded.domain_ == release.domain_
        assert loaded.undiscovered_ == release.undiscovered_ == {}
        later = people(5).assign(job="c", wage=1e9, children=2.6, since=date(2050, 1, 1))
        assert len(loaded.transform(later)) == 5

    def test_of_features_and_of_a_public_target(self):
        table = people(2_000)
        X, y = table[["sex", "job", "children"]], table["is_new"]
        _, target = SyntheticResampler(synthesizer(random_state=0)).fit_resample(X, y)
        assert target is y


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


class TestWhatIsLeftOut:
    @each(
        "column reason",
        [
            ([f"person {number}" for number in range(1_200)], "more than 1000 distinct values"),
            ([np.inf, 1.0] * 600, "infinite"),
            ([(1,), (2,)] * 600, "type tuple"),
            (["a", 1] * 600, "several kinds"),
            (pd.to_timedelta(np.arange(1_200), unit="s"), "type timedelta"),
        ],
    )
    def test_columns_without_a_list_of_values_are_passed_through(self, column, reason, tmp_path):
        table = people(1_200)[["sex", "job"]]
        named = table.assign(name=pd.Series(column))
        release = synthesizer(random_state=0)
        with pytest.warns(UserWarning, match=f"'name' .*{reason}") as record:
            made = release.fit_transform(named)
        assert len(record) == 1
        assert "person" not in str(record[0].message)
        pd.testing.assert_series_equal(made["name"], named["name"])
        expected = synthesizer(random_state=0).fit_transform(table)
        assert (made["sex"] != table["sex"]).any()
        assert abs((made["sex"] == "f").mean() - (expected["sex"] == "f").mean()) < 0.05
        release.save(tmp_path / "release.json")
        assert skdp.load(tmp_path / "release.json").transform(named)["name"].equals(named["name"])

    def test_a_name_is_given_before_the_charge(self):
        ledger = PrivacyLedger(epsilon=9, delta=0.1, relation="replace_values", columns=["sex"])
        table = people(1_200)[["sex"]].assign(name=[f"person {number}" for number in range(1_200)])
        with pytest.raises(UserWarning, match="name"):
            synthesizer(ledger=ledger).fit(table)
        assert ledger.spent == (0, 0)

    def test_infinite_numbers_among_many(self):
        table = people(100)
        table.loc[3, "wage"] = np.inf
        release = synthesizer(random_state=0).fit(table)
        assert release.transform(table)["wage"].equals(table["wage"])

    def test_pairs_of_public_columns_need_no_room(self):
        table = people(100)[["sex", "job", "children"]]
        synthesizer(random_state=0, max_cells=11).fit(table)
        with pytest.warns(UserWarning, match="max_cells") as record:
            synthesizer(random_state=0, max_cells=7).fit(table)
        assert "('sex', 'children')." in str(record[0].message)


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
