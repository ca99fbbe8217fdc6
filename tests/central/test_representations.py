"""What is released follows from what is declared and from noisy numbers, not from how a library holds the values."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from skdp import (
    DPHistogram,
    DPKBinsDiscretizer,
    DPMean,
    DPMinMaxScaler,
    DPQuantileBinarizer,
    DPSimpleImputer,
    DPStandardScaler,
    Interval,
)

pytestmark = pytest.mark.filterwarnings("ignore:the columns .* are of dtype object:UserWarning")

N = 40
AGES = np.random.default_rng(0).integers(17, 90, N).tolist()
AGES_BUT_ONE = [None, *AGES[1:]]
JOBS = np.random.default_rng(0).choice(["clerk", "nurse"], N).tolist()
JOBS_BUT_ONE = [None, *JOBS[1:]]
TRUTHS = [job == "nurse" for job in JOBS]
TRUTHS_BUT_ONE = [None, *TRUTHS[1:]]
NOTHING = [None] * N


def frames(values):
    """Make frames of values in all dtypes that hold them, and engines' tables."""
    floats = [None if value is None or isinstance(value, str | bool) else float(value) for value in values]
    objects = pd.DataFrame({"x": pd.Series(values, dtype=object)})
    yield "object", objects
    yield "default", pd.DataFrame({"x": values})
    yield "nullable", objects.convert_dtypes()
    yield "pandas arrow", objects.convert_dtypes(dtype_backend="pyarrow")
    yield "labels", objects.set_axis([f"person {place % 3}" for place in range(N)])
    yield "attributes", pd.DataFrame(objects).pipe(_with_attributes)
    yield "polars", pl.DataFrame({"x": values})
    yield "pyarrow", pa.table({"x": values})
    yield "lazy", pl.LazyFrame({"x": values})
    if floats.count(None) == values.count(None):
        yield "floats", pd.DataFrame({"x": np.array(floats, float)})
        yield "polars floats", pl.DataFrame({"x": floats}, schema={"x": pl.Float64})
        yield "lazy floats", pl.LazyFrame({"x": floats}, schema={"x": pl.Float64})
        yield "arrow floats", pa.table({"x": pa.array(floats, pa.float64())})
        yield "arrow small", pa.table({"x": pa.array(values, pa.int16())})
        yield "polars small", pl.DataFrame({"x": values}, schema={"x": pl.UInt8})


def _with_attributes(frame):
    frame.attrs["rows"] = len(frame)
    return frame


def released(estimator, frame):
    fitted = estimator.fit(frame)
    found = {name: value for name, value in vars(fitted).items() if name.endswith("_") and name[0] != "_"}
    return repr(found | {"feature_names_in_": None})


BOUNDS = {"bounds": (0, 100), "random_state": 5}
NUMERIC = [
    DPQuantileBinarizer(0.01, **BOUNDS),
    DPKBinsDiscretizer(0.01, **BOUNDS),
    DPMinMaxScaler(0.01, quantile_range=(0.1, 0.9), **BOUNDS),
    DPSimpleImputer(0.01, strategy="median", **BOUNDS),
    DPSimpleImputer(1.0, **BOUNDS),
    DPMean(1.0, **BOUNDS),
    DPStandardScaler(100.0, missing="ignore", **BOUNDS),
    DPHistogram(domain=Interval(0, 100, bins=16, missing=True), random_state=5),
    DPHistogram(domain={"x": [*range(100), None]}, random_state=5),
    DPSimpleImputer(strategy="most_frequent", categories={"x": list(range(100))}, random_state=5),
]
VALUED = [
    lambda values: DPHistogram(domain={"x": [*values, None]}, random_state=5),
    lambda values: DPSimpleImputer(strategy="most_frequent", categories={"x": values}, random_state=5),
]


@pytest.mark.filterwarnings("ignore:the noise drowns:UserWarning")
@pytest.mark.parametrize("values", [AGES, AGES_BUT_ONE, NOTHING], ids=["all", "all but one", "none"])
@pytest.mark.parametrize("estimator", NUMERIC, ids=lambda estimator: type(estimator).__name__)
def test_numbers(estimator, values):
    found = {kind: released(estimator, frame) for kind, frame in frames(values)}
    assert len(set(found.values())) == 1, {kind: text[:200] for kind, text in found.items()}


@pytest.mark.parametrize("make", VALUED)
@pytest.mark.parametrize(
    ("values", "declared"),
    [
        (JOBS, ["clerk", "nurse"]),
        (JOBS_BUT_ONE, ["clerk", "nurse"]),
        (TRUTHS, [False, True]),
        (TRUTHS_BUT_ONE, [False, True]),
    ],
)
def test_text_and_truth_values(make, values, declared):
    found = {kind: released(make(declared), frame) for kind, frame in frames(values)}
    assert len(set(found.values())) == 1, {kind: text[:200] for kind, text in found.items()}


@pytest.mark.parametrize("estimator", NUMERIC[:4], ids=lambda estimator: type(estimator).__name__)
def test_a_missing_value_does_not_decide_what_may_be_released(estimator):
    """Of neighbours at epsilon .01: whole numbers only, without a missing value, and otherwise almost none."""
    attribute = ["thresholds_", "bin_edges_", "data_min_", "statistics_"][NUMERIC.index(estimator)]
    for values in (AGES, AGES_BUT_ONE):
        runs = [estimator.set_params(random_state=seed).fit(pd.DataFrame({"x": values})) for seed in range(30)]
        numbers = np.array([np.ravel(getattr(run, attribute))[1 if attribute == "bin_edges_" else 0] for run in runs])
        assert np.mean(numbers % 1 == 0) < 0.3
