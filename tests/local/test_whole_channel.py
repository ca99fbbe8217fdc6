"""From frame to frame: what comes out follows the channel, for every declared value, in every kind of frame."""

from __future__ import annotations

import math
from collections import Counter
from itertools import product

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.stats import chisquare

from skdp import (
    FrequencyOracleEncoder,
    HadamardResponseEncoder,
    Interval,
    LocalHashingEncoder,
    RandomizedResponseEncoder,
    SubsetSelectionEncoder,
    UnaryEncodingTransformer,
)
from skdp.base import coins
from skdp.exact import exp_bounds
from skdp.oracles import LocalHashing
from tests.conftest import each

FALSE_ALARM = 1e-6
ROWS = 8_000


@pytest.mark.parametrize("strategy", ["split", "joint"])
@pytest.mark.parametrize("true", ["a", "b", None])
def test_every_value_is_randomised_missing_too(make_frame, values_of, strategy, true):
    declared = {"x": ["b", "a", None], "y": ["u", "v"]}
    frame = make_frame({"x": [true] * ROWS, "y": ["v"] * ROWS}, declared)
    encoder = RandomizedResponseEncoder(1.2, strategy=strategy, categories=declared, random_state=5).fit(frame)
    reports = encoder.transform(frame)
    x, y = Counter(values_of(reports, "x")), Counter(values_of(reports, "y"))
    place = declared["x"].index(true)
    if strategy == "split":
        shares = [channel[row] for channel, row in zip(encoder.channel(), (place, 1), strict=True)]
    else:
        joint = np.array(encoder.channel()[0][2 * place + 1]).reshape(3, 2)
        shares = [joint.sum(axis=1), joint.sum(axis=0)]
    for seen, values, share in zip((x, y), declared.values(), shares, strict=True):
        observed = [seen[value] for value in values]
        assert sum(observed) == ROWS
        assert chisquare(observed, np.array(share, float) * ROWS).pvalue > FALSE_ALARM
    assert encoder.tally(reports).n_reports == ROWS


def table_of(oracle):
    """The channel, given the public seed that tells all values apart as well as any."""
    return oracle._inner.channel() if isinstance(oracle, LocalHashing) else oracle.channel()


def worst_ratio(oracles, strategy):
    """Enumerate the whole record: every pair of records, every report of all columns."""
    tables = [table_of(oracle) for oracle in oracles]
    if strategy == "sample":  # which column is reported does not depend on the record
        rows = [[share / len(tables) for row in rows for share in row] for rows in product(*tables)]
    else:
        rows = [[math.prod(shares) for shares in product(*rows)] for rows in product(*tables)]
    assert all(sum(row) == 1 for row in rows)
    return max(max(column) / min(column) for column in zip(*rows, strict=True))


@pytest.mark.parametrize("strategy", ["split", "joint", "sample"])
@pytest.mark.parametrize("epsilon", [1e-9, 0.1, 1, 40, 700])
@pytest.mark.parametrize(
    "kind",
    [
        RandomizedResponseEncoder,
        UnaryEncodingTransformer,
        SubsetSelectionEncoder,
        LocalHashingEncoder,
        HadamardResponseEncoder,
        FrequencyOracleEncoder,
    ],
)
def test_the_tuple_of_all_columns_keeps_every_promise(kind, epsilon, strategy):
    """Both rounds too: what all reports of unchanged values say, and what a single one says."""
    parameters = {"memoize": True, "secret_key": bytes(32), "strategy": strategy, "categories": [[1, 2], [1, 2, 3]]}
    two = "instantaneous_epsilon" in kind().get_params()
    promises = [(kind(epsilon, **parameters).fit([[1, 1]]), "oracles_", "guarantee_", epsilon)]
    if two:
        both = kind(epsilon, instantaneous_epsilon=epsilon / 2, **parameters).fit([[1, 1]])
        promises += [
            (both, "permanent_oracles_", "guarantee_", epsilon),
            (both, "oracles_", "instantaneous_guarantee_", epsilon / 2),
        ]
    for fitted, oracles, guarantee, wanted in promises:
        ratio = worst_ratio(getattr(fitted, oracles), strategy)
        stated = getattr(fitted, guarantee).epsilon
        assert ratio <= exp_bounds(wanted)[0]
        assert ratio <= exp_bounds(stated)[0]
        assert stated <= wanted
        if 0.1 <= epsilon <= 1:
            assert stated == pytest.approx(wanted, rel=1e-6)


COLUMNS = {
    "uint8": np.array([0, 1, 2, 1], np.uint8),
    "float16": np.array([0, 1, 2, 1], np.float16),
    "bool": np.array([True, False, True, True]),
    "object": np.array([1, "x", None, True], object),
    "text": np.array(["x", "y", "longer", "1"]),
    "bytes": np.array([b"x", b"y", b"z", b"1"]),
    "datetime": np.array(["2020-01-01", "2021-01-01", "NaT", "2020-01-01"], "M8[ns]"),
    "timedelta": np.array([1, 2, 3, 4], "m8[s]"),
    "pandas Int8": pd.Series([1, 0, None, 1], dtype="Int8"),
    "pandas boolean": pd.Series([True, None, False, True], dtype="boolean"),
    "pandas python string": pd.Series(["x", None, "y", "1"], dtype="string[python]"),
    "pandas category": pd.Series(pd.Categorical(["x", None, "secret", "1"])),
    "pandas aware": pd.Series(pd.to_datetime(["2020-01-01", None, "2021-01-01", "2020-01-01"], utc=True)),
    "pandas period": pd.Series(pd.period_range("2020", periods=4, freq="M")),
    "pandas arrow": pd.Series([1, 0, None, 1], dtype="int8[pyarrow]"),
    "polars null": pl.Series([None, None, None, None]),
    "polars Int8": pl.Series([1, 0, None, 1], dtype=pl.Int8),
    "polars Boolean": pl.Series([True, None, False, True]),
    "polars Enum": pl.Series(["x", None, "secret", "1"], dtype=pl.Enum(["x", "1", "secret"])),
    "polars Date": pl.Series(["2020-01-01"] * 4).str.to_date(),
    "arrow int8": pa.array([1, 0, None, 1], pa.int8()),
    "arrow dictionary": pa.array([1, 0, None, 1]).dictionary_encode(),
    "arrow view": pa.array(["x", None, "y", "1"], pa.string_view()),
    "arrow timestamp": pa.array(pd.to_datetime(["2020-01-01"] * 4)),
}
KINDS = {
    **dict.fromkeys(("uint8", "float16", "pandas Int8", "pandas arrow", "polars Int8"), "numbers"),
    **dict.fromkeys(("arrow int8", "arrow dictionary"), "numbers"),
    **dict.fromkeys(("bool", "pandas boolean", "polars Boolean"), "booleans"),
    **dict.fromkeys(("text", "pandas python string", "pandas category", "polars Enum", "arrow view"), "strings"),
    **dict.fromkeys(("datetime", "pandas aware", "arrow timestamp"), "times"),
    "polars Date": "dates",
}
"""What the dtypes hold that are for one kind of values."""
DECLARED = {
    "strings": ["x", "y", "secret"],
    "strings and missing": ["x", None],
    "integers": [1, 0, 300],
    "fractions": [0.5, 1.0],
    "booleans": [True, False],
    "booleans and missing": [None, True, False],
    "times": [pd.Timestamp("2020-01-01"), pd.Timestamp("2021-01-01")],
}


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("declared", DECLARED)
def test_whatever_goes_in_declared_values_come_out(column, declared):
    """Any dtype against any kind of declared values: the reports are readable, whatever the rows held."""
    # Or it is refused, as it can hold none of them: all reports would be uniform random values.
    data, values = COLUMNS[column], DECLARED[declared]
    kinds = declared.split(" ")[0], KINDS.get(column)
    refused = kinds[1] is not None and kinds[1] != ("numbers" if kinds[0] in ("integers", "fractions") else kinds[0])
    if isinstance(data, np.ndarray):
        table = data.reshape(-1, 1)
    elif isinstance(data, pd.Series):
        table = data.to_frame("x")
    else:
        table = pl.DataFrame({"x": data}) if isinstance(data, pl.Series) else pa.table({"x": data})
    encoder = RandomizedResponseEncoder(0.5, categories=[values], handle_unknown="uniform").fit(table)
    if refused and not (column == "float16" and None in values):
        with pytest.raises(ValueError, match=r"'x0?': its dtype .* holds .*, which the declared values .* are not"):
            encoder.transform(table)
        return
    for _ in range(3):
        reports = encoder.transform(table)
        assert encoder.tally(reports).n_reports == 4
    kind = type(table[:1])
    assert type(reports) is kind


def test_no_undeclared_level_of_a_dtype_is_left():
    frame = pl.DataFrame({"x": ["a", "b"]}, schema={"x": pl.Enum(["a", "b", "secret"])})
    reports = RandomizedResponseEncoder(categories={"x": ["a", "b"]}).fit_transform(frame)
    assert reports.schema["x"].categories.to_list() == ["a", "b"]
    table = pa.table({"x": pa.array(["a", "secret"]).dictionary_encode()}).slice(0, 1)
    reports = RandomizedResponseEncoder(categories={"x": ["a", "b"]}).fit_transform(table)
    assert reports["x"].chunk(0).dictionary.to_pylist() == ["a", "b"]


def test_odd_objects_among_numbers_are_undeclared():
    ages = np.array([[5], ["secret"], [True], [10**400], [None]], dtype=object)
    categories = [Interval(edges=[0, 38, 120])]
    uniform = RandomizedResponseEncoder(categories=categories, handle_unknown="uniform").fit(ages)
    assert set(uniform.transform(ages).ravel()) <= {19, 79}
    with pytest.raises(ValueError, match="column 'x0' holds a value, or a NaN or inf, outside"):
        RandomizedResponseEncoder(categories=categories).fit_transform(ages)


@pytest.mark.parametrize("container", ["pandas", "polars"])
def test_arrays_with_missing_values_become_frames(container):
    data = np.array([["x"], [None], ["x"], [None]] * 10, object)
    encoder = RandomizedResponseEncoder(categories=[["x", None]]).set_output(transform=container)
    out = encoder.fit_transform(data)
    assert list(out.columns) == ["x0"]
    assert encoder.tally(out.to_numpy()).n_reports == 40


class TestParametersOfFit:
    """Parameters that are set after `fit` wait for the next `fit`: the guarantee stays true."""

    def test_a_later_seed_is_not_used(self):
        rows = pd.DataFrame({"x": ["a"] * 300})
        encoder = RandomizedResponseEncoder(0.01, categories={"x": ["a", "b", "c"]}).fit(rows)
        encoder.set_params(random_state=0)
        assert encoder.guarantee_.secure
        first, second = (encoder.fit(rows) and encoder.transform(rows) for _ in range(2))
        assert first.equals(second)  # now it is
        assert not encoder.guarantee_.secure
        encoder.set_params(random_state=None)
        assert not encoder.guarantee_.secure

    @each("later", [{"strategy": "joint"}, {"handle_unknown": "ignore"}, {"ledger": 5}, {"epsilon": -1}])
    def test_other_later_parameters_change_nothing(self, later):
        rows = pd.DataFrame({"x": ["a", "b"], "y": ["u", "v"]})
        encoder = RandomizedResponseEncoder(categories={"x": ["a", "b"], "y": ["u", "v"]}).fit(rows)
        expected = encoder.guarantee_
        reports = encoder.set_params(**later).transform(rows)
        assert encoder.estimate_counts(reports).index.names == ["column", "category"]
        assert encoder.guarantee_ == expected


class TestEstimates:
    @pytest.fixture
    def fitted(self):
        rows = pd.DataFrame({"x": ["a", "b", "c"]})
        return RandomizedResponseEncoder(0.2, categories={"x": ["a", "b", "c"]}).fit(rows)

    def test_error_and_interval_are_those_of_the_unbiased_estimate(self, fitted):
        reports = pd.DataFrame({"x": ["a"] * 400 + ["b"] * 330 + ["c"] * 270})
        plain = fitted.estimate_counts(reports)
        assert plain["count"].min() < 0
        inside = plain["count"].clip(0, 1000)
        expected = np.sqrt(fitted.count_variances(inside / inside.sum() * 1000))
        for postprocess in ("clip", "simplex", "mle"):
            other = fitted.estimate_counts(reports, postprocess=postprocess)
            assert other["std_error"].equals(plain["std_error"])
            assert other["lower"].equals(plain["lower"].clip(0, 1000))
            assert other["upper"].equals(plain["upper"].clip(0, 1000))
        # The variance at a negative count is that at 0, not a smaller one.
        oracle = fitted.oracles_[0]
        assert plain["std_error"]["c"] == pytest.approx(np.sqrt(oracle.variance([1000, 0, 0], 1000)[2]))
        assert plain["std_error"].to_numpy() == pytest.approx(expected, rel=0.2)

    @each("level", ["x", None, [0.9], True])
    def test_odd_confidence_levels(self, fitted, level):
        with pytest.raises(ValueError, match="confidence_level must be a number between 0 and 1"):
            fitted.estimate_counts(pd.DataFrame({"x": ["a"]}), confidence_level=level)

    @pytest.mark.parametrize("postprocess", [["clip"], None, 3])
    def test_odd_postprocesses(self, fitted, postprocess):
        with pytest.raises(ValueError, match="postprocess must be one of"):
            fitted.estimate_counts(pd.DataFrame({"x": ["a"]}), postprocess=postprocess)


def test_streams_differ_by_purpose_and_by_the_type_of_a_name():

    keys = [
        ("C", 0, "report", "a", "unknown"),
        ("C", 0, "unknown", "a"),
        ("C", 0, "report", 1),
        ("C", 0, "report", "1"),
    ]
    keys += [
        ("C", 0, "report", 1.0),
        ("C", 0, "report", "1.0"),
        ("C", 0, "report", ("a", "b")),
        ("C", 0, "report", "a", "b"),
    ]
    assert len({coins(0, *key).bytes(16).tobytes() for key in keys}) == len(keys)
    assert coins(0, "C", np.int64(1)).bytes(8).tolist() == coins(0, "C", 1).bytes(8).tolist()


def test_too_many_joint_cells_are_refused_with_the_way_out():
    frame = pd.DataFrame({name: [1] for name in "abcd"})
    categories = {name: range(1000) for name in "abcd"}
    with pytest.raises(ValueError, match="1,000,000,000,000 joint cells are too many; use strategy='split'"):
        RandomizedResponseEncoder(strategy="joint", categories=categories).fit(frame)


@pytest.mark.parametrize("value", [np.array(["error"]), ["a"], {"a"}])
def test_an_unknown_handler_that_is_no_single_value(value):
    with pytest.raises(TypeError, match="handle_unknown must be a single value"):
        RandomizedResponseEncoder(categories=[["a", "b"]], handle_unknown=value).fit([["a"]])


def test_other_containers_are_refused():
    encoder = RandomizedResponseEncoder(categories=[[1, 2]]).fit([[1]])
    with pytest.raises(TypeError, match="RecordBatch is not supported"):
        encoder.transform(pa.record_batch({"a": [1]}))
    with pytest.raises(TypeError, match="masked arrays are not supported"):
        encoder.transform(np.ma.masked_array([[1], [2]], [[False], [True]]))


def test_the_leak_warning_points_at_the_caller():
    from skdp import PrivacyLeakWarning

    for call in ("fit", "fit_transform"):
        with pytest.warns(PrivacyLeakWarning) as caught:
            getattr(RandomizedResponseEncoder(), call)(pd.DataFrame({"x": ["a", "b"]}))
        assert caught[0].filename == __file__
