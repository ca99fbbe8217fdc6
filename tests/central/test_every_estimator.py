"""Guarantees and interfaces of every estimator of the central model."""

import io
import itertools
import json
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest

import skdp.engines  # registers the engines for `fit`
from skdp import PrivacyLedger, central
from skdp.base import split_if_supervised
from skdp.privacy import Mu, Rho
from tests.central.estimators import (
    EVERY,
    NUMERIC,
    OTHERS,
    WITH_GAPS,
    N,
    fit_estimator,
    make_estimator,
    read_attributes,
    whole,
)
from tests.conftest import often
from tests.errors import refusal
from tests.persistence.forgery import forge_file, save_bytes

pytestmark = [
    pytest.mark.filterwarnings("ignore:The noise:UserWarning"),  # there are few rows
    pytest.mark.filterwarnings("ignore:Without a delta:UserWarning"),
    pytest.mark.filterwarnings("ignore:.* fewer bins than:UserWarning"),
    pytest.mark.filterwarnings("ignore:Columns .* have dtype object:UserWarning"),
]


LARGE = [name for name in EVERY if not EVERY[name][0]._requires_rows]
QUICK_LARGE = "DPMean", "DPHistogram", "DPGroupBy", "DPKBinsDiscretizer", "DPTargetEncoder"


@pytest.mark.parametrize("name", list(EVERY))
def test_person_may_have_several_rows(name):
    check_person(name, whole(name), np.arange(N) // 3)


@pytest.mark.parametrize("name", often(LARGE, QUICK_LARGE))
def test_person_of_an_engine_may_have_several_rows(name):
    table = pl.from_pandas(whole(name).assign(who=np.arange(N) // 3))
    check_person(name, table.select("who", pl.exclude("who")).lazy(), "who")


def check_person(name, table, person):
    guarantee = fit_estimator(make_estimator(name, max_rows_per_person=2), table, person=person).guarantee_
    assert (guarantee.unit, guarantee.max_rows_per_person) == ("person", 2)


@pytest.mark.parametrize("name", list(EVERY))
def test_part_of_a_budget_is_charged_unchanged_and_its_guarantee_is_loaded(name):
    for share in (Rho(0.2, delta=1e-6), Mu(0.2, delta=1e-6)):
        ledger = PrivacyLedger(**{share.name: 1.0})
        estimator = fit_estimator(make_estimator(name, epsilon=share, ledger=ledger), whole(name))
        assert ledger.balance().loc["spent", share.name] == pytest.approx(0.2, rel=1e-6)
        assert skdp.load(io.BytesIO(save_bytes(estimator))).guarantee_ == estimator.guarantee_


TINY_AND_HUGE = [5e-324, 1e300, Rho(1e-50, delta=1e-6), Mu(1e-30, delta=1e-6)]
EXTREMES = list(itertools.product(TINY_AND_HUGE, [1e-290, 8e307], [0, N]))


# Quick tests use each value in one or two of four cases.
@pytest.mark.parametrize(
    "extremes", [EXTREMES[3:15:3], pytest.param(EXTREMES, marks=pytest.mark.long)], ids=["some", "all"]
)
@pytest.mark.parametrize("name", list(EVERY))
def test_tiny_and_huge_epsilons_and_bounds_are_supported(name, extremes):
    for epsilon, high, rows in extremes:
        table, bounds = whole(name)[:rows], {}
        if name in NUMERIC:
            table = table.assign(b=table["b"] * high)
            bounds = {"bounds": {"b": (-high, high)} if name == "DPGroupBy" else {"a": (0, 1), "b": (-high, high)}}
        found = fit_estimator(make_estimator(name, epsilon=epsilon, **bounds), table)
        X, _ = split_if_supervised(found, whole(name))
        for method in {"transform", "predict", "predict_proba"} & set(dir(found)):
            answer = np.asarray(getattr(found, method)(X))
            assert answer.dtype.kind not in "fc" or np.isfinite(answer).all(), (name, high, rows)
        for key, value in vars(found).items():
            # Columns that are not selected have no score, and noisy coefficients may have no standard error.
            may_be_missing = key in ("scores_", "_estimates")
            if isinstance(value, np.ndarray) and value.dtype.kind == "f" and not may_be_missing:
                assert not np.isnan(value).any(), (name, high, rows, key)


@pytest.mark.parametrize(
    ("name", "stated", "n_draws"),
    [
        ("DPTargetEncoder", {"target_mean_": "target_mean_std_error_"}, 60),
        ("DPSimpleImputer", {"statistics_": "statistics_std_error_"}, 60),
        ("DPGaussianNB", {"class_count_": "class_count_std_error_"}, 60),
        ("DPCategoricalNB", {"class_count_": "class_count_std_error_"}, 60),
        pytest.param("DPHistogram", {"counts_": "std_error_"}, 300, marks=pytest.mark.long),
        ("DPMean", {"mean_": "std_error_"}, 60),
        ("DPStandardScaler", {"mean_": "mean_std_error_", "scale_": "scale_std_error_"}, 100),
    ],
)
def test_stated_error_equals_the_error_of_the_noise(name, stated, n_draws):
    rows = whole(name)
    if name not in OTHERS:
        rows = rows / 2 + 0.25  # with a variance below the maximum
    table = pd.concat([rows] * 10, ignore_index=True)
    found = [fit_estimator(make_estimator(name, epsilon=1.0, random_state=seed), table) for seed in range(n_draws)]
    for number, error in stated.items():
        deviation = np.std([getattr(one, number) for one in found], axis=0)
        ratios = deviation / np.mean([getattr(one, error) for one in found], axis=0)
        assert ((ratios > 0.75) & (ratios < 1.25)).all(), ratios


NO_NUMBERS = ["secret", b"secret", [1.0], 1j, Decimal("sNaN"), np.datetime64(0, "s")]
"""Objects in a column of numbers that are no numbers; a number beyond all floats is infinite."""


def with_object(name, value):
    """Put an object into the first row of a column of numbers."""
    table = whole(name)
    column = "b" if name == "DPGroupBy" else "a"
    table[column] = pd.Series([value, *table[column].tolist()[1:]], dtype=object)
    return table


@pytest.mark.parametrize("name", WITH_GAPS)
def test_object_in_a_column_of_numbers_is_missing(name):
    """It was an error, which reveals such a record, and allows a person to stop a release."""
    expected = fit_estimator(make_estimator(name), with_object(name, None))
    for value in NO_NUMBERS:
        ledger = PrivacyLedger(epsilon=5, delta=1e-6)
        found = fit_estimator(make_estimator(name, ledger=ledger), with_object(name, value))
        assert read_attributes(found) == read_attributes(expected)
        assert ledger.spent.epsilon == found.guarantee_.epsilon
        if hasattr(found, "transform"):
            rows = [found.transform(with_object(name, one)).to_numpy(float) for one in (value, None)]
            np.testing.assert_array_equal(*rows)


@pytest.mark.parametrize("name", [name for name in NUMERIC if name not in WITH_GAPS])
def test_object_is_an_error_if_missing_values_are(name):
    for value in (None, *NO_NUMBERS):
        with refusal((TypeError, ValueError), "olumn 'a'", "secret") as ledger:
            fit_estimator(make_estimator(name, ledger=ledger), with_object(name, value))


def test_column_of_objects_is_determined_by_its_dtype():
    for values in ([1.0, 2.0], [1.0, "secret"], [None, None], ["a", "b"], []):
        column = pd.Series(values, dtype=object)
        categories = pd.Categorical(column, pd.Index(column.unique(), dtype=object).dropna())
        for a in (column, categories):
            table = pd.DataFrame({"a": a, "b": np.ones(len(values))})
            with pytest.warns(UserWarning, match=r"^Columns \['a'\] have dtype object") as caught:
                central.DPMean(bounds=(0, 5)).fit(table)
            assert len(caught) == 1


@pytest.mark.parametrize("name", list(EVERY))
def test_edited_guarantee_is_not_loaded(name):
    data = save_bytes(fit_estimator(make_estimator(name), whole(name)))
    guarantee = skdp.load(io.BytesIO(data)).guarantee_
    # A file has no seed, so `secure` cannot be compared with it.
    edits = [{"epsilon": 0.01, "losses": []}, {"relation": "replace"}, {"delta": 0.5}, {"max_rows_per_person": 7}]
    edits.append({"epsilon": 0.0, "delta": 0.0, "losses": [], "rho": None})
    if not guarantee.epsilon or name not in ("DPMean", "DPHistogram", "DPKBinsDiscretizer"):
        edits = edits[:1]  # A loss of 0 holds for every relation; all files are checked by the same function.
    for edit in edits:
        if edit.items() <= guarantee.to_dict().items():
            continue

        def change(content, edit=edit):
            state = content["fitted"]["guarantee_"].state
            state[0] = json.dumps(json.loads(state[0]) | edit)

        with pytest.raises(ValueError, match="does not follow from"):
            skdp.load(io.BytesIO(forge_file(data, change)))


@pytest.mark.parametrize("given", [Rho(0.2, delta=1e-6), Mu(0.4, delta=1e-6)], ids=["rho", "mu"])
def test_smaller_loss_of_an_edited_guarantee_is_not_loaded(given):
    """The guess of an attacker follows from the losses, which were not compared with epsilon."""
    estimator = fit_estimator(make_estimator("DPMean", epsilon=given), whole("DPMean"))

    def change(content):
        state = content["fitted"]["guarantee_"].state
        fields = json.loads(state[0])
        assert [loss["mu"] for loss in fields["losses"]] == [estimator.guarantee_.losses[0].mu]
        fields["losses"][0]["mu"] /= 10
        state[0] = json.dumps(fields)

    with pytest.raises(ValueError, match="does not follow from"):
        skdp.load(io.BytesIO(forge_file(save_bytes(estimator), change)))
