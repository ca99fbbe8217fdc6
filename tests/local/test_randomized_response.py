"""Randomized response from frame to frame: declared values, the whole channel of a record, estimates."""

from __future__ import annotations

import math
from collections import Counter
from itertools import product
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.stats import chisquare

from skdp import (
    Domain,
    FrequencyOracleEncoder,
    Interval,
    LocalHashingEncoder,
    LocalTableEncoder,
    PrivacyLeakWarning,
    RandomizedResponseEncoder,
    SubsetSelectionEncoder,
    UnaryEncodingTransformer,
)
from skdp.exact import exp_bounds
from skdp.oracles import LocalHashing
from tests.conftest import each

FALSE_ALARM = 1e-6
CATEGORIES = {"sex": ["Female", "Male"], "job": ["clerk", None, "sales"], "rank": [3, 1, 2]}


@pytest.fixture
def data():
    return {"sex": ["Female", "Male", "Male", "Female"], "job": ["sales", None, "clerk", "sales"], "rank": [1, 2, 3, 1]}


@pytest.fixture
def people(make_frame, data):
    return make_frame(data, CATEGORIES)


def encoder(**parameters):
    return RandomizedResponseEncoder(**{"categories": CATEGORIES, "random_state": 0} | parameters)


@pytest.mark.parametrize("strategy", ["split", "joint"])
def test_a_privatized_table_has_the_library_of_the_original(people, data, values_of, strategy):
    reports = encoder(strategy=strategy).fit_transform(people)
    assert type(reports) is type(people)
    for name, values in CATEGORIES.items():
        assert set(values_of(reports, name)) <= set(values)
    # The dtypes are what the library makes of the declared values, whatever those of the table are.
    if isinstance(people, pd.DataFrame):
        assert reports.index.equals(people.index)
        assert reports.dtypes.equals(pd.DataFrame(data).dtypes)
    elif isinstance(people, pa.Table):
        assert reports.schema == pa.table(data).schema
    else:
        assert reports.schema == pl.DataFrame(data).schema


def test_intervals_are_reported_as_the_middle_of_their_bin(make_frame, values_of):
    frame = make_frame({"age": [17, 37, 38, 90]}, {"age": [17, 37, 38, 90]})
    fitted = RandomizedResponseEncoder(40, categories={"age": Interval(edges=[0, 38, 120])}, random_state=0)
    reports = fitted.fit_transform(frame)
    assert values_of(reports, "age") == [19, 19, 79, 79]
    counts = fitted.estimate_counts(reports)
    assert counts.index.tolist() == ["[0, 38)", "[38, 120]"]
    assert counts["count"].round().tolist() == [2, 2]


class TestDomain:
    @each(
        "column",
        [
            pd.Categorical(["a", "b"], ordered=True),
            pd.Categorical(["a", "c", "b"], ["c", "b", "a"], ordered=True),
            pd.Categorical([2, 1, 3], [3, 1, 2], ordered=True),
            pl.Series(["a"], dtype=pl.Enum(["a", "b"])),
        ],
    )
    def test_a_dtype_declares_what_it_could_not_have_from_the_data(self, column):
        frame = pl.DataFrame({"x": column}) if isinstance(column, pl.Series) else pd.DataFrame({"x": column})
        fitted = RandomizedResponseEncoder().fit(frame)
        values = column.dtype.categories
        assert fitted.domain_ == Domain({"x": list(values)})

    @each(
        "frame",
        [
            pd.DataFrame({"x": ["b", "a", "b"]}, dtype="category"),
            pd.DataFrame({"x": pd.Categorical(["b", "a"], ["b", "a", "unused"])}),
            pl.DataFrame({"x": ["b", "a"]}, schema={"x": pl.Categorical}),
            pa.table({"x": pa.array(["b", "a", "b"]).dictionary_encode()}),
        ],
    )
    def test_categories_that_are_just_those_that_occur_warn(self, frame):
        with pytest.warns(
            PrivacyLeakWarning, match="'x' are read from the data.*declare them with categories="
        ) as found:
            fitted = RandomizedResponseEncoder().fit(frame)
        assert len(found) == 1
        assert found[0].filename == __file__
        assert fitted.domain_ == Domain({"x": ["a", "b"]})

    def test_bins_of_pandas_are_no_declared_values(self):
        with (
            pytest.warns(PrivacyLeakWarning),
            pytest.raises(ValueError, match=r"column 'x': .* got Interval\. Convert the column"),
        ):
            RandomizedResponseEncoder().fit(pd.DataFrame({"x": pd.cut([1, 5, 9], 3)}))

    @each("categories", [["a", "b"], ["b", "a"], ["b", "a", "c"]])
    def test_no_record_decides_whether_unordered_categories_warn(self, categories):
        """They warned only if all of them occurred: a rare record switched the warning."""
        dtype, messages = pd.CategoricalDtype(categories), set()
        for values in (["b", "a"], ["a", "b"], [categories[-1], "a", "b"]):
            with pytest.warns(PrivacyLeakWarning, match="'x' are read from the data") as caught:
                RandomizedResponseEncoder().fit(pd.DataFrame({"x": pd.Categorical(values, dtype=dtype)}))
            messages.add((str(caught[0].message), len(caught)))
        assert len(messages) == 1

    def test_declared_values_win_over_a_dtype_and_nothing_of_the_dtype_is_left(self):
        frame = pd.DataFrame({"sex": pd.Categorical(["Male", "Female", "Male"])})  # levels of the data
        declared = ["Male", "Female", "Other"]
        reports = RandomizedResponseEncoder(categories={"sex": declared}).fit_transform(frame)
        assert reports["sex"].dtype == pd.Series(declared).dtype
        # Of a slice, the dictionary still holds the values of the rows that were cut off.
        table = pa.table({"sex": pa.array(["Male", "secret"]).dictionary_encode()}).slice(0, 1)
        reports = RandomizedResponseEncoder(categories={"sex": declared}).fit_transform(table)
        assert reports["sex"].type == pa.string()

    @each(
        "categories error match",
        [
            ("public", ValueError, "categories must be 'auto'"),
            ([["Female", "Male"], ["a", "b"]], ValueError, "2 lists of values; it needs one for each of the columns"),
            ({"sex": ["Female", "Male"], "age": [1, 2]}, ValueError, r"columns that X does not have: \['age'\]"),
            ({}, ValueError, r"declares nothing for the columns \['sex'\]"),
            ({"sex": ["Male", "Male"]}, ValueError, "column 'sex': expected distinct values"),
            ({"sex": [1, True]}, TypeError, "column 'sex': expected values of one type"),
            ({"sex": Interval(edges=[0, 1])}, ValueError, "Column 'sex' must have at least 2 categories"),
        ],
    )
    def test_declarations_that_do_not_fit(self, categories, error, match):
        with pytest.raises(error, match=match):
            RandomizedResponseEncoder(categories=categories).fit(pd.DataFrame({"sex": ["Male"]}))


class TestUnknownValues:
    def test_a_uniform_draw_shows_nothing_of_an_unknown_value(self, make_frame):
        n = 40_000
        values = ["secret"] * (n // 2) + [None] * (n // 2)
        frame = make_frame({"sex": values}, {"sex": ["F", "M", "X", "secret"]})
        fitted = RandomizedResponseEncoder(
            8.0, categories={"sex": ["F", "M", "X"]}, handle_unknown="uniform", random_state=1
        )
        reports = fitted.fit(frame).transform(frame)
        assert chisquare(fitted.tally(reports).counts[0]).pvalue > FALSE_ALARM

    @pytest.mark.parametrize("stand_in", ["X", None])
    def test_a_declared_value_stands_in(self, stand_in, values_of):
        frame = pd.DataFrame({"sex": ["F", "secret", None if stand_in else "other"]})
        fitted = RandomizedResponseEncoder(
            60, categories={"sex": ["F", "M", stand_in]}, handle_unknown=stand_in, random_state=0
        )
        assert values_of(fitted.fit_transform(frame), "sex") == ["F", stand_in, stand_in]

    @each(
        "stand_in, got",
        [
            ("Z", "'Z'"),
            (1, "a value of type int"),
            (pd.Series(["F"]), "a value of type Series"),
        ],
    )
    def test_a_stand_in_must_be_declared(self, stand_in, got):
        expected = (
            f"`handle_unknown` must be 'error', 'uniform' or a value .*, got {got}, which column 'sex' does not declare"
        )
        table = pd.DataFrame({"sex": ["F"]})
        for maker in (RandomizedResponseEncoder, LocalTableEncoder):
            with pytest.raises(ValueError, match=expected):
                maker(categories={"sex": ["F", "M"]}, handle_unknown=stand_in).fit(table)


ROWS = 8_000


@pytest.mark.parametrize("strategy", ["split", "joint"])
@pytest.mark.parametrize("true", ["a", "b", None])
def test_every_value_is_randomized_missing_too(make_frame, values_of, strategy, true):
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
            (
                SimpleNamespace(oracles_=[oracle.permanent for oracle in both.oracles_], guarantee_=both.guarantee_),
                "oracles_",
                "guarantee_",
                epsilon,
            ),
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


"""What the dtypes hold that are for one kind of values."""


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
        for postprocess in ("clip", "simplex"):
            other = fitted.estimate_counts(reports, postprocess=postprocess)
            assert other["std_error"].equals(plain["std_error"])
            assert other["lower"].equals(plain["lower"].clip(0, 1000))
            assert other["upper"].equals(plain["upper"].clip(0, 1000))
        # The variance at a negative count is that at 0, not a smaller one.
        oracle = fitted.oracles_[0]
        assert plain["std_error"]["c"] == pytest.approx(np.sqrt(oracle.variance([1000, 0, 0], 1000)[2]))
        assert plain["std_error"].to_numpy() == pytest.approx(expected, rel=0.2)


def test_too_many_joint_cells_are_refused_with_the_way_out():
    frame = pd.DataFrame({name: [1] for name in "abcd"})
    categories = {name: range(1000) for name in "abcd"}
    with pytest.raises(ValueError, match="1,000,000,000,000 joint cells, which is too many"):
        RandomizedResponseEncoder(strategy="joint", categories=categories).fit(frame)


def test_bounds_that_are_declared_as_two_values_are_told_to_be_an_interval():
    ages = pd.DataFrame({"age": [20, 45]})
    with pytest.raises(ValueError, match=r"\[18, 68\].* or a range of numbers as an Interval"):
        RandomizedResponseEncoder(1.0, categories={"age": (18, 68)}).fit_transform(ages)
    assert len(RandomizedResponseEncoder(1.0, categories={"age": Interval(18, 68)}).fit_transform(ages)) == 2
