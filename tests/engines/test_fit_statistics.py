"""Statistics of tables that stay where they are: the same as in memory."""

from decimal import Decimal

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from skdp import (
    DPGroupBy,
    DPKBinsDiscretizer,
    DPMean,
    DPMinMaxScaler,
    DPQuantileBinarizer,
    DPQuantileTransformer,
    DPSimpleImputer,
    DPStandardScaler,
    PrivacyLedger,
)
from skdp.central.statistics import SumTally, sum_columns
from skdp.central.statistics._quantiles import rank_columns
from skdp.frames import open_large, read_table

N = 3_000
BOUNDS = {"age": (0, 100), "income": (-1.5, 8.25)}


def make_rows(missing):
    rng = np.random.default_rng(0)
    age, income = rng.integers(0, 120, N), rng.normal(2, 3, N)
    mask = rng.random(N) < 0.1 if missing else None
    return pa.table({"age": pa.array(age), "income": pa.array(income, mask=mask)})


PUBLIC = ("mean_", "std_error_", "interval_", "var_", "scale_", "data_min_", "data_max_", "thresholds_", "statistics_")
PUBLIC += ("bin_edges_", "bounds_", "quantiles_")


@pytest.mark.parametrize(
    ("kind", "params", "missing"),
    [
        (DPMean, {}, True),
        (DPStandardScaler, {}, False),
        (DPStandardScaler, {"missing": "ignore"}, True),
        (DPMinMaxScaler, {}, True),
        (DPMean, {"bounds": "private", "epsilon": 50.0}, True),
        (DPMinMaxScaler, {"quantile_range": (0.05, 0.95)}, True),
        (DPKBinsDiscretizer, {"n_bins": 4}, True),
        (DPKBinsDiscretizer, {"n_bins": 4, "strategy": "uniform"}, True),
        (DPQuantileBinarizer, {"candidates": 50}, True),
        (DPQuantileTransformer, {"candidates": 50, "n_quantiles": 9}, True),
        (DPSimpleImputer, {}, True),
        (DPSimpleImputer, {"strategy": "median"}, True),
    ],
    ids=str,
)
def test_a_seeded_statistic_is_the_one_in_memory(lazy_engine, kind, params, missing):
    rows = make_rows(missing)
    params = {"bounds": BOUNDS, "random_state": 0} | params
    found, expected = kind(**params).fit(lazy_engine.frame(rows)), kind(**params).fit(rows)
    assert set(vars(found)) == set(vars(expected))
    for name in (name for name in PUBLIC if hasattr(expected, name)):
        np.testing.assert_equal(getattr(found, name), getattr(expected, name), err_msg=name)
    if hasattr(found, "transform"):
        assert found.transform(rows).equals(expected.transform(rows))


@pytest.mark.filterwarnings("ignore:the noise drowns:UserWarning")
@pytest.mark.parametrize("kind", [DPMean, DPStandardScaler, DPMinMaxScaler, DPKBinsDiscretizer, DPQuantileBinarizer])
def test_numbers_of_every_dtype(lazy_engine, kind):
    """Without a sign, decimal, narrow floats, and a row or none of them."""
    numbers = np.random.default_rng(0).integers(0, 200, N)
    rows = pa.table(
        {
            "tiny": pa.array(numbers, pa.uint8()),
            "long": pa.array(numbers, pa.uint64()),
            "narrow": pa.array(numbers / 8, pa.float32()),
            "price": pa.array([Decimal(int(number)) / 4 for number in numbers], pa.decimal128(8, 2)),
        }
    )
    params = {"bounds": (0, 100), "random_state": 0}
    for table in (rows, rows[:1], rows[:0]):
        found, expected = kind(**params).fit(lazy_engine.frame(table)), kind(**params).fit(table)
        assert found.guarantee_ == expected.guarantee_
        for name in (name for name in PUBLIC if hasattr(expected, name)):
            np.testing.assert_equal(getattr(found, name), getattr(expected, name), err_msg=name)


@pytest.mark.parametrize("missing", ["ignore", pytest.param("error", marks=pytest.mark.long)])
def test_groups(lazy_engine, missing):
    rows = make_rows(missing == "ignore")
    names = rows.column_names
    keys = {"side": ["left", "right"], "color": ["red", None, "blue"]}
    rows = rows.append_column("side", pa.array(["left", "right", "left"] * N)[:N])
    rows = rows.append_column("color", pa.array(["red", None] * N)[:N])
    params = {"keys": keys, "bounds": BOUNDS, "missing": missing, "statistics": ["count", "mean", "sum"]}
    found, expected = (
        DPGroupBy(["side", "color"], 1.0, random_state=0, **params).fit(table)
        for table in (lazy_engine.frame(rows), rows)
    )
    assert found.estimates_.keys() == expected.estimates_.keys()
    assert len(found.estimates_) == 1 + 2 * len(names)
    for name, estimate in expected.estimates_.items():
        np.testing.assert_array_equal(found.estimates_[name], estimate)


def test_the_most_frequent_value(lazy_engine):
    rows = pa.table({"color": ["red", None, "green", "red"] * 50, "size": ["s", "s", "m", None] * 50})
    params = {"categories": {"color": ["red", "green", "blue"], "size": ["s", "m"]}, "random_state": 0}
    imputer = DPSimpleImputer(5.0, strategy="most_frequent", **params).fit(lazy_engine.frame(rows))
    assert imputer.statistics_.tolist() == ["red", "s"]
    ledger = PrivacyLedger(epsilon=10)
    with pytest.raises(ValueError, match=r"column 'color' holds a value outside the declared categories"):
        DPSimpleImputer(strategy="most_frequent", categories={"color": ["red"], "size": ["s", "m"]}, ledger=ledger).fit(
            lazy_engine.frame(rows)
        )
    assert ledger.spent.epsilon == 0


def test_sums_and_ranks_are_those_of_the_rows(lazy_engine):
    rows = make_rows(True)
    table, large = read_table(rows), open_large(lazy_engine.frame(rows))
    sample = read_table(large.sample)
    for one, other in zip(sum_columns(sample, large, BOUNDS), sum_columns(table, None, BOUNDS), strict=True):
        assert one.sums == other.sums
        assert (one.low, one.high, one.value(3.0)) == (other.low, other.high, other.value(3.0))
    grids = [np.arange(101.0), np.linspace(-1, 8, 7)]
    for one, other in zip(rank_columns(sample, large, grids), rank_columns(table, None, grids), strict=True):
        for mine, theirs in zip(one, other, strict=True):
            np.testing.assert_array_equal(mine, theirs)


def test_sums_beyond_64_bits_are_exact():
    tally, rows = SumTally([(0.0, 1.0)]), pa.table({"x": [0.0, 1.0, 1.0]})
    sums = tally.zeros()
    tally.add(sums, rows)
    # As if there were 2**35 times as many rows.
    (column,) = tally.read([total * 2**30 for total in sums])
    (one,) = tally.read(sums)
    assert column.sums == tuple(part * 2**30 for part in one.sums)
    assert (one.sums.n, one.sums.places) == (3, 2**29)
    tally.add(sums, pa.table({"x": [0.0, 0.0]}))  # a negative sum
    assert tally.read(sums)[0].sums.places == -(2**29)


def test_missing_values_are_refused_and_cost_nothing(lazy_engine):
    ledger = PrivacyLedger(epsilon=10)
    with pytest.raises(ValueError, match="column 'income' holds a missing value"):
        DPStandardScaler(bounds=BOUNDS, missing="error", ledger=ledger).fit(lazy_engine.frame(make_rows(True)))
    with pytest.raises(TypeError, match="column 'age'"):
        DPMean(bounds=(0, 1), ledger=ledger).fit(lazy_engine.frame(pa.table({"age": ["old", "young"]})))
    assert ledger.spent.epsilon == 0


def test_rows_are_transformed_in_memory():
    rows = make_rows(False)
    scaler = DPStandardScaler(bounds=BOUNDS, random_state=0).fit(ds.dataset(rows))
    with pytest.raises(TypeError, match=r"skdp\.engines"):
        scaler.transform(pl.from_arrow(rows).lazy())
