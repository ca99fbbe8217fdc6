"""Sums over privatised numbers: they add, are stored, and give the estimates of the rows."""

import json

import numpy as np
import pandas as pd
import pytest

from skdp import NumericPerturber
from skdp.local import NumericTally
from tests.conftest import each

PEOPLE = pd.DataFrame({"age": np.arange(600) % 90, "height": 1 + np.arange(600) % 100 / 100})
BOUNDS = {"age": (0, 100), "height": (1, 2)}


def perturber(**params):
    return NumericPerturber(**{"epsilon": 4.0, "bounds": BOUNDS, "grid_size": 20, "random_state": 0} | params).fit(
        PEOPLE
    )


@pytest.fixture
def fitted():
    return perturber()


@pytest.fixture
def tally(fitted):
    return fitted.tally(fitted.transform(PEOPLE))


def test_it_counts_each_report():
    fitted = perturber(mechanism="laplace")
    reports = fitted.transform(PEOPLE)
    found = fitted.tally(reports)
    for name, counts, values in zip(reports, found.counts, fitted.report_values_, strict=True):
        assert counts.tolist() == [int((reports[name] == value).sum()) for value in values]
    assert found.n_reports == 600


def test_batches_add_up(fitted):
    reports = fitted.transform(PEOPLE)
    parts = [fitted.tally(part) for part in (reports[:1], reports[1:250], reports[250:])]
    assert parts[0] + parts[1] + parts[2] == fitted.tally(reports)
    assert parts[0] != parts[1]


@pytest.mark.parametrize("mechanism", ["optimal", "square_wave", "laplace"])
def test_the_estimates_are_those_of_the_rows(mechanism):
    fitted = perturber(mechanism=mechanism)
    reports = fitted.transform(PEOPLE)
    found = fitted.tally(reports)
    pd.testing.assert_frame_equal(fitted.estimate_mean(found), fitted.estimate_mean(reports))
    by_rows, by_tally = (fitted.estimate_distribution(given, n_bins=5) for given in (reports, found))
    pd.testing.assert_frame_equal(by_tally, by_rows)


@each(
    "params",
    [
        {"epsilon": 2.0},
        {"mechanism": "laplace"},
        {"grid_size": 21},
        {"bounds": {"age": (0, 101), "height": (1, 2)}},
        {"bounds": {"age": (0, 100), "height": (1, 2.5)}},
    ],
)
def test_tallies_of_other_perturbers_are_refused(fitted, tally, params):
    other = perturber(**params)
    with pytest.raises(ValueError, match="different parameters"):
        tally + other.tally(other.transform(PEOPLE))
    for estimate in (other.estimate_mean, other.estimate_distribution):
        with pytest.raises(ValueError, match="different parameters"):
            estimate(tally)
    with pytest.raises(TypeError):
        tally + 1


def test_other_columns_are_other_tallies(tally):
    other = NumericPerturber(bounds=(0, 100), grid_size=20).fit(PEOPLE[["age"]])
    with pytest.raises(ValueError, match="different parameters"):
        other.estimate_mean(tally)


def test_a_memoised_perturber_reads_it_too():
    fresh = perturber(mechanism="laplace")
    tally = fresh.tally(fresh.transform(PEOPLE))
    other = perturber(mechanism="laplace", memoize=True, secret_key=b"a key of 16 bytes", random_state=None)
    assert other.estimate_mean(tally).shape == (2, 4)


def test_no_reports_have_no_estimate(fitted):
    with pytest.raises(ValueError, match="0 sample"):
        fitted.estimate_mean(fitted.protocol_.empty_tally())


def test_it_is_stored_and_read(fitted, tally, tmp_path):
    tally.to_parquet(tmp_path / "tally.parquet")
    for again in (NumericTally.from_json(tally.to_json()), NumericTally.from_parquet(tmp_path / "tally.parquet")):
        assert again == tally
        assert again + tally == tally + tally
        pd.testing.assert_frame_equal(fitted.estimate_mean(again), fitted.estimate_mean(tally))


def change(path, value):
    def edit(content):
        *parents, last = path
        for key in parents:
            content = content[key]
        content[last] = value

    return edit


@each(
    "edit",
    [
        change(["counts", 0, 0], -1),
        change(["counts", 0, 0], 1.5),
        change(["counts", 0, 0], 10**9),
        change(["counts", 0], [600]),
        change(["counts"], []),
        change(["protocol", "columns"], "age"),
        change(["protocol", "columns"], ["age"]),
        change(["protocol", "n_values"], [3, 3]),
        change(["format"], "skdp tally, version 1"),
        lambda content: content.pop("protocol"),
    ],
)
def test_what_does_not_fit_itself_is_no_tally(tally, edit):
    content = json.loads(tally.to_json())
    edit(content)
    with pytest.raises(ValueError, match=r"tally|format"):
        NumericTally.from_json(json.dumps(content))


def test_names_that_json_does_not_have_are_refused(tmp_path):
    people = pd.DataFrame({("a", 1): [0.0, 1.0]})
    fitted = NumericPerturber(bounds=(0, 1)).fit(people)
    with pytest.raises(TypeError, match="text or numbers"):
        fitted.tally(fitted.transform(people)).to_json()
