"""Randomized response on tables: declared values, the channel of a whole record, estimates."""

import math
from itertools import product

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.stats import chisquare

import skdp
from skdp.exact import exp_bounds
from skdp.oracles import LocalHashing
from tests.conftest import diagonal
from tests.local.transformers import ENCODERS

FALSE_ALARM = 1e-6


class TestDomain:
    @pytest.mark.parametrize(
        "column",
        [
            pd.Categorical(["a", "b"], ordered=True),
            pd.Categorical(["a", "c", "b"], ["c", "b", "a"], ordered=True),
            pd.Categorical([2, 1, 3], [3, 1, 2], ordered=True),
            pl.Series(["a"], dtype=pl.Enum(["a", "b"])),
        ],
    )
    def test_dtype_declares_values_that_the_data_cannot_determine(self, column):
        frame = pl.DataFrame({"x": column}) if isinstance(column, pl.Series) else pd.DataFrame({"x": column})
        fitted = skdp.RandomizedResponseEncoder().fit(frame)
        values = skdp.domain.Categories(column.dtype.categories, ordered=True)
        assert fitted.domain_ == skdp.Domain({"x": values})

    @pytest.mark.parametrize(
        "frame",
        [
            pd.DataFrame({"x": ["b", "a", "b"]}, dtype="category"),
            pd.DataFrame({"x": pd.Categorical(["b", "a"], ["b", "a", "unused"])}),
            pl.DataFrame({"x": ["b", "a"]}, schema={"x": pl.Categorical}),
            pa.table({"x": pa.array(["b", "a", "b"]).dictionary_encode()}),
        ],
    )
    def test_categories_equal_to_the_occurring_values_warn(self, frame):
        with pytest.warns(skdp.PrivacyLeakWarning, match="'x' are read .*declare them with categories=") as found:
            fitted = skdp.RandomizedResponseEncoder().fit(frame)
        assert len(found) == 1
        assert found[0].filename == __file__
        assert fitted.domain_ == skdp.Domain({"x": ["a", "b"]})

    def test_bins_of_pandas_are_not_a_declaration(self):
        with (
            pytest.warns(skdp.PrivacyLeakWarning),
            pytest.raises(ValueError, match=r"Column 'x': .* got Interval\. Convert the column"),
        ):
            skdp.RandomizedResponseEncoder().fit(pd.DataFrame({"x": pd.cut([1, 5, 9], 3)}))

    @pytest.mark.parametrize("categories", [["a", "b"], ["b", "a"], ["b", "a", "c"]])
    def test_warning_of_unordered_categories_does_not_depend_on_a_record(self, categories):
        """The warning required that all categories occur, so a rare record switched it."""
        dtype, messages = pd.CategoricalDtype(categories), set()
        for values in (["b", "a"], ["a", "b"], [categories[-1], "a", "b"]):
            with pytest.warns(skdp.PrivacyLeakWarning, match="'x' are read from the data") as caught:
                skdp.RandomizedResponseEncoder().fit(pd.DataFrame({"x": pd.Categorical(values, dtype=dtype)}))
            messages.add((str(caught[0].message), len(caught)))
        assert len(messages) == 1

    @pytest.mark.parametrize(
        ("categories", "error", "match"),
        [
            ("public", ValueError, "`categories` must be 'auto'"),
            ([["Female", "Male"], ["a", "b"]], ValueError, "a list of values for each of the columns .* got 2 lists"),
            ({"sex": ["Female", "Male"], "age": [1, 2]}, ValueError, r"must be columns of X, .*got \['age'\]"),
            ({}, ValueError, r"declares no values for the columns \['sex'\]"),
            ({"sex": ["Male", "Male"]}, ValueError, "Column 'sex': expected distinct values"),
            ({"sex": skdp.Interval(edges=[0, 1])}, ValueError, "Column 'sex' must have at least 2 categories"),
        ],
    )
    def test_invalid_declarations_raise_an_error(self, categories, error, match):
        with pytest.raises(error, match=match):
            skdp.RandomizedResponseEncoder(categories=categories).fit(pd.DataFrame({"sex": ["Male"]}))


class TestUnknownValues:
    def test_uniform_report_is_independent_of_an_unknown_value(self, make_frame):
        n = 40_000
        values = ["secret"] * (n // 2) + [None] * (n // 2)
        frame = make_frame({"sex": values}, {"sex": ["F", "M", "X", "secret"]})
        fitted = skdp.RandomizedResponseEncoder(
            8.0, categories={"sex": ["F", "M", "X"]}, handle_unknown="uniform", random_state=1
        )
        reports = fitted.fit(frame).transform(frame)
        assert chisquare(fitted.tally(reports).counts[0]).pvalue > FALSE_ALARM

    @pytest.mark.parametrize("stand_in", ["X", None])
    def test_declared_value_replaces_unknown_values(self, stand_in, values_of):
        frame = pd.DataFrame({"sex": ["F", "secret", None if stand_in else "other"]})
        fitted = skdp.RandomizedResponseEncoder(
            60, categories={"sex": ["F", "M", stand_in]}, handle_unknown=stand_in, random_state=0
        )
        assert values_of(fitted.fit_transform(frame), "sex") == ["F", stand_in, stand_in]

    @pytest.mark.parametrize(
        ("stand_in", "got"), [("Z", "'Z'"), (1, "a value of type int"), (pd.Series(["F"]), "a value of type Series")]
    )
    @pytest.mark.parametrize("maker", [skdp.RandomizedResponseEncoder, skdp.LocalTableEncoder])
    def test_replacement_of_unknown_values_must_be_declared(self, maker, stand_in, got):
        expected = f"'error', 'uniform' or a value .*, got {got}, which column 'sex' does not declare"
        with pytest.raises(ValueError, match=expected):
            maker(categories={"sex": ["F", "M"]}, handle_unknown=stand_in).fit(pd.DataFrame({"sex": ["F"]}))


def table_of(oracle):
    """Return the channel, given a public seed without collisions if possible."""
    return oracle._bucket_oracle.channel() if isinstance(oracle, LocalHashing) else oracle.channel()


def worst_ratio(oracles, strategy):
    """Enumerate whole records: every pair of records, every report of all columns."""
    tables = [table_of(oracle) for oracle in oracles]
    if strategy == "sample":  # the sampled column is independent of the record
        rows = [[share / len(tables) for row in rows for share in row] for rows in product(*tables)]
    else:
        rows = [[math.prod(shares) for shares in product(*rows)] for rows in product(*tables)]
    assert all(sum(row) == 1 for row in rows)
    return max(max(column) / min(column) for column in zip(*rows, strict=True))


@pytest.mark.parametrize(("kind", "strategy"), diagonal(ENCODERS, ["split", "joint", "sample"]))
def test_record_of_all_columns_is_within_each_epsilon(kind, strategy):
    """Two rounds have two losses: of all reports of unchanged values, and of a single report."""
    for epsilon in (1e-9, 0.1, 1, 40, 700):
        parameters = {"memoize": True, "secret_key": bytes(32), "strategy": strategy, "categories": [[1, 2], [1, 2, 3]]}
        fitted = kind(epsilon, **parameters).fit([[1, 1]])
        cases = [(fitted.oracles_, fitted.guarantee_, epsilon)]
        if "instantaneous_epsilon" in fitted.get_params():
            fitted.set_params(instantaneous_epsilon=epsilon / 2).fit([[1, 1]])
            cases += [
                ([oracle.permanent for oracle in fitted.oracles_], fitted.guarantee_, epsilon),
                (fitted.oracles_, fitted.instantaneous_guarantee_, epsilon / 2),
            ]
        for oracles, guarantee, wanted in cases:
            ratio, stated = worst_ratio(oracles, strategy), guarantee.epsilon
            assert ratio <= exp_bounds(wanted)[0]
            assert ratio <= exp_bounds(stated)[0]
            assert stated <= wanted
            if 0.1 <= epsilon <= 1:
                assert stated == pytest.approx(wanted, rel=1e-6)


def test_std_error_and_interval_belong_to_the_unbiased_estimate():
    reports = pd.DataFrame({"x": ["a"] * 400 + ["b"] * 330 + ["c"] * 270})
    fitted = skdp.RandomizedResponseEncoder(0.2, categories={"x": ["a", "b", "c"]}).fit(reports)
    plain = fitted.estimate_counts(reports)
    assert plain["count"].min() < 0
    for postprocess in ("clip", "simplex"):
        other = fitted.estimate_counts(reports, postprocess=postprocess)
        assert other["std_error"].equals(plain["std_error"])
        assert other["lower"].equals(plain["lower"].clip(0, 1000))
        assert other["upper"].equals(plain["upper"].clip(0, 1000))
    # The variance at a negative count is the variance at 0, not a smaller one.
    assert plain["std_error"]["c"] == pytest.approx(np.sqrt(fitted.oracles_[0].variance([1000, 0, 0], 1000)[2]))
    of_population = fitted.estimate_frequencies(reports)["std_error"]
    assert of_population["c"] * 1000 == pytest.approx(plain["std_error"]["c"], rel=1e-4)
    assert of_population["b"] * 1000 > plain["std_error"]["b"]


def test_too_many_joint_cells_raise_an_error_with_a_remedy():
    frame = pd.DataFrame({name: [1] for name in "abcd"})
    categories = {name: range(1000) for name in "abcd"}
    with pytest.raises(ValueError, match=r"less than 2\*\*32 joint cells, got 1,000,000,000,000"):
        skdp.RandomizedResponseEncoder(strategy="joint", categories=categories).fit(frame)
