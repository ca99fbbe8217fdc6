"""What every transformer of the curator's side that releases quantiles does alike."""

from __future__ import annotations

import math
import pickle
import struct

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

from skdp import (
    BudgetExceeded,
    DPHistogram,
    DPKBinsDiscretizer,
    DPMean,
    DPMinMaxScaler,
    DPQuantileBinarizer,
    DPQuantileTransformer,
    DPSimpleImputer,
    Interval,
    PrivacyGuarantee,
    PrivacyLedger,
)
from skdp.testing._tools import released_text
from tests.conftest import each

SPENDING = {
    "binarizer": lambda **parameters: DPQuantileBinarizer(**{"bounds": (0, 100)} | parameters),
    "bins": lambda **parameters: DPKBinsDiscretizer(**{"bounds": (0, 100)} | parameters),
    "one-hot": lambda **parameters: DPKBinsDiscretizer(**{"bounds": (0, 100), "encode": "onehot-dense"} | parameters),
    "quantiles": lambda **parameters: DPQuantileTransformer(
        **{"bounds": (0, 100), "n_quantiles": 9, "candidates": 100} | parameters
    ),
    "scaler": lambda **parameters: DPMinMaxScaler(**{"bounds": (0, 100), "quantile_range": (0.05, 0.95)} | parameters),
}
FREE = {
    "uniform": lambda **parameters: DPKBinsDiscretizer(**{"bounds": (0, 100), "strategy": "uniform"} | parameters),
    "bounds": lambda **parameters: DPMinMaxScaler(**{"bounds": (0, 100)} | parameters),
}
every = pytest.mark.parametrize("make", (SPENDING | FREE).values(), ids=SPENDING | FREE)
spending = pytest.mark.parametrize("make", SPENDING.values(), ids=SPENDING)
free = pytest.mark.parametrize("make", FREE.values(), ids=FREE)

DATA = {"age": [17, 38, None, 61], "share": [0.5, 99.75, 12.25, -300.0]}
SECRETS = ("73519", "hush")


@pytest.fixture
def people(make_frame):
    return make_frame(DATA)


@every
class TestInput:
    def test_a_frame_stays_what_it_is(self, make, people, values_of):
        fitted = make(random_state=0).fit(people)
        out = fitted.transform(people)
        assert type(out) is type(people)
        names = list(out.column_names if isinstance(out, pa.Table) else out.columns)
        assert names == fitted.get_feature_names_out().tolist()
        if "age" in names:
            assert names == ["age", "share"]
            assert [value is None for value in values_of(out, "age")] == [False, False, True, False]
            assert None not in values_of(out, "share")
        else:
            assert [values_of(out, name)[2] for name in names if name.startswith("age")] == [0] * fitted.n_bins_[0]

    def test_a_frame_and_an_array_give_the_same_numbers(self, make):
        frame = pd.DataFrame(DATA, index=[5, 3, 3, 9])
        array = frame.to_numpy()
        out = make(random_state=0).fit_transform(frame)
        assert out.index.equals(frame.index)
        np.testing.assert_array_equal(out, make(random_state=0).fit_transform(array))
        np.testing.assert_array_equal(out, make(random_state=0).fit_transform(array.tolist()))

    @pytest.mark.parametrize("container", ["pandas", "polars"])
    def test_set_output(self, make, people, container):
        out = make().set_output(transform=container).fit_transform(people)
        assert type(out) is {"pandas": pd.DataFrame, "polars": pl.DataFrame}[container]

    def test_columns_may_be_named_by_numbers(self, make):
        frame = pd.DataFrame({7: [1, 2], 3: [50, 60]})
        fitted = make(bounds={3: (0, 100), 7: (0, 10)}, random_state=0).fit(frame)
        assert fitted.guarantee_.scope == (7, 3)
        assert fitted.transform(frame).columns.tolist()[0] in (7, "7_0")
        with pytest.raises(ValueError, match="X has the columns"):
            fitted.transform(frame[[3, 7]])

    def test_the_input_is_not_written_to(self, make):
        array = np.array([[1.0, math.nan], [math.inf, -5.0]])
        before = array.copy()
        make().fit_transform(array)
        np.testing.assert_array_equal(array, before)

    @each("n_rows", [0, 1])
    def test_few_rows_are_answered(self, make, n_rows):
        frame = pd.DataFrame({"age": [30] * n_rows}, dtype=int)
        out = make().fit_transform(frame)
        assert len(out) == n_rows

    def test_transform_needs_a_fit_that_succeeded(self, make):
        with pytest.raises(NotFittedError):
            make().transform([[1]])
        failed = make(ledger=PrivacyLedger(epsilon=0.5), bounds=None)
        with pytest.raises(ValueError, match="bounds must be declared"):
            failed.fit([[1]])
        with pytest.raises(NotFittedError):
            failed.transform([[1]])

    def test_transform_asks_for_the_columns_of_fit(self, make, people):
        fitted = make().fit(people)
        with pytest.raises(ValueError, match="feature names should match"):
            fitted.transform(pd.DataFrame({"share": [1], "age": [1]}))


@every
class TestRefusals:
    """Nothing is charged and no value is shown."""

    @each(
        "parameters, match",
        [
            *(({"epsilon": value}, "epsilon must be") for value in (0, -1, math.nan, math.inf, True, "1", None)),
            ({"bounds": None}, "bounds must be declared"),
            ({"bounds": (1, 1)}, "bounds of column 'x0' must be finite with low < high"),
            ({"bounds": (0, math.inf)}, "bounds of column 'x0' must be finite with low < high"),
            ({"bounds": (False, True)}, "bounds of column 'x0' must be two numbers"),
            ({"bounds": [(0, 1)] * 3}, "bounds has 3 rows; X has 2 columns"),
            ({"bounds": {"x0": (0, 1)}}, "bounds declares nothing for the columns"),
            ({"candidates": 0}, "candidates must be between"),
            ({"candidates": [101]}, "candidates of column 'x0' must be between its bounds"),
            ({"random_state": -1}, "random_state must be None or an int >= 0, got -1"),
            ({"random_state": np.random.default_rng()}, "random_state must be"),
        ],
    )
    def test_odd_parameters(self, make, parameters, match):
        ledger = PrivacyLedger(epsilon=5)
        with pytest.raises((TypeError, ValueError), match=match) as caught:
            make(**{"ledger": ledger} | parameters).fit([[73519, 2], [3, 4]])
        assert not any(secret in str(caught.value) for secret in SECRETS)
        assert ledger.report().empty

    def test_odd_ledgers(self, make):
        with pytest.raises(TypeError, match="ledger must be None or a PrivacyLedger"):
            make(ledger=5.0).fit([[1]])

    @each(
        "X",
        [
            [73519, 2, 3],
            [["hush"], ["73519"]],
            [["hush"], [73519]],
            np.array([[73519 + 1j]]),
            np.array([["2026-01-01"]], "M8[D]"),
            np.ma.masked_array([[73519.0]], [[True]]),
            sparse.csr_array([[73519.0]]),
            pd.DataFrame({"x0": ["hush", "73519"]}),
            pd.DataFrame({"x0": pd.Categorical(["hush"])}),
            pl.DataFrame({"x0": ["hush"]}),
            pl.DataFrame({"x0": [[73519]]}),
            pl.LazyFrame({"x0": ["hush"]}),
            pa.table({"x0": ["hush"]}),
            pd.DataFrame(),
        ],
    )
    # `transform` gets a frame after an array: scikit-learn warns before we refuse.
    @pytest.mark.filterwarnings("ignore:X has feature names:UserWarning")
    def test_odd_tables(self, make, X):
        ledger = PrivacyLedger(epsilon=5)
        with pytest.raises((TypeError, ValueError)) as caught:
            make(ledger=ledger).fit(X)
        assert not any(secret in str(caught.value) for secret in SECRETS)
        assert ledger.report().empty
        fitted = make().fit([[1.0]])
        with pytest.raises((TypeError, ValueError)) as caught:
            fitted.transform(X)
        assert not any(secret in str(caught.value) for secret in SECRETS)


class TestPromise:
    @spending
    def test_each_fit_is_charged_once(self, make):
        ledger = PrivacyLedger(epsilon=1.2)
        estimator = make(epsilon=0.5, ledger=ledger)
        out = estimator.fit(pd.DataFrame(DATA)).transform(pd.DataFrame(DATA))
        assert len(out) == 4
        assert ledger.spent == (0.5, 0)
        clone(estimator).fit([[1.0]])
        assert ledger.spent == (1.0, 0)
        with pytest.raises(BudgetExceeded):
            estimator.fit([[2.0]])
        assert ledger.spent == (1.0, 0)
        assert ledger.report()["scope"].tolist() == ["age, share", "x0"]

    @spending
    def test_guarantee(self, make):
        fitted = make(epsilon=0.3).fit(pd.DataFrame(DATA))
        mechanisms = {
            DPKBinsDiscretizer: "exponential mechanism",  # of four quantiles, the others have one or two, or nine
            DPQuantileTransformer: "discrete Laplace on nested counts",
        }
        mechanism = mechanisms.get(type(fitted), "permute-and-flip")
        losses = fitted.guarantee_.losses
        assert losses
        assert fitted.guarantee_ == PrivacyGuarantee(
            0.3, relation="add_remove", trust="central", scope=("age", "share"), mechanism=mechanism, losses=losses
        )
        assert not make(random_state=3).fit([[1.0]]).guarantee_.secure
        assert not fitted.protects_rows

    @free
    def test_what_reads_no_value_costs_nothing(self, make):
        ledger = PrivacyLedger(epsilon=1e-9)
        one, other = make(ledger=ledger).fit([[1.0, 2.0]]), make(random_state=0).fit([[90.0, 77.0], [5.0, 5.0]])
        assert ledger.report().empty
        assert one.guarantee_ == other.guarantee_
        assert (one.guarantee_.epsilon, one.guarantee_.scope) == (0, ("x0", "x1"))
        for name, value in vars(one).items():
            if name.endswith("_"):
                np.testing.assert_equal(vars(other)[name], value)

    @every
    def test_only_what_is_released_stays(self, make):
        frame = pd.DataFrame({"age": np.array([73.519, 12.3456, 98.7654] * 7)})
        fitted = make(random_state=0).fit(frame)
        fitted.transform(frame)
        released = {
            DPQuantileBinarizer: {"thresholds_"},
            DPKBinsDiscretizer: {"bin_edges_", "n_bins_"},
            DPQuantileTransformer: {"quantiles_", "references_"},
            DPMinMaxScaler: {"data_min_", "data_max_", "data_range_", "scale_", "min_"},
        }
        common = {"bounds_", "guarantee_", "n_features_in_", "feature_names_in_"}
        assert set(vars(fitted)) - set(fitted.get_params()) == released[type(fitted)] | common
        stored = pickle.dumps(fitted)
        assert not any(struct.pack(order + "d", value) in stored for value in frame["age"] for order in "<>")
        assert "73519" not in repr(fitted)

    @every
    def test_a_seed_replays_and_secure_coins_do_not(self, make):
        rows = np.random.default_rng(0).uniform(0, 100, (50, 3))

        def statistics(random_state):
            fitted = make(random_state=random_state, epsilon=0.01).fit(rows)
            return pickle.dumps([value for name, value in vars(fitted).items() if name.endswith("_")])

        assert statistics(1) == statistics(1)
        if make in SPENDING.values():
            assert statistics(1) != statistics(2)
            assert statistics(None) != statistics(None)

    @every
    def test_pickles_and_clones(self, make):
        rows = np.random.default_rng(0).uniform(0, 100, (50, 3))
        fitted = make(ledger=PrivacyLedger(epsilon=1.0)).fit(rows)
        again = pickle.loads(pickle.dumps(fitted))
        assert repr(again.ledger).endswith("spent=unknown)")  # a copy, which cannot be charged
        np.testing.assert_array_equal(again.transform(rows), fitted.transform(rows))
        assert again.guarantee_ == fitted.guarantee_
        assert not hasattr(clone(fitted), "guarantee_")

    @every
    def test_in_a_pipeline(self, make):
        rows = np.random.default_rng(0).uniform(0, 100, (300, 2))
        model = make_pipeline(make(epsilon=50.0), LogisticRegression())
        assert cross_val_score(model, rows, rows[:, 0] > 50, cv=3).min() > 0.8


@each(
    "estimator",
    [
        DPMean(bounds={"age": (0, 5)}, random_state=0),
        DPHistogram(domain={"age": Interval(0, 5, bins=5, missing=True)}, random_state=0),
        DPSimpleImputer(bounds={"age": (0, 5)}, random_state=0),
        DPMinMaxScaler(bounds={"age": (0, 5)}, random_state=0),
        DPQuantileBinarizer(bounds={"age": (0, 5)}, random_state=0),
    ],
)
def test_a_categorical_without_any_value_is_fitted_as_missing_numbers_are(estimator):
    """Or the dtype that `astype("category")` finds would decide whether there is a release."""
    missing = pd.Series([None] * 6)
    found = [
        released_text(clone(estimator).fit(pd.DataFrame({"age": column})))
        for column in (missing.astype("category"), missing.astype(float))
    ]
    assert found[0] == found[1]
