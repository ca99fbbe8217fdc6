"""What the rows of estimates are called where several columns share a level of the index."""

from __future__ import annotations

import pandas as pd
import pytest

from skdp import LocalTableEncoder, RandomizedResponseEncoder, SetValuedEncoder, UnaryEncodingTransformer
from skdp.evaluation import CountEstimateDisplay
from skdp.metrics import percent_error
from tests.conftest import each

ENCODERS = [RandomizedResponseEncoder, UnaryEncodingTransformer, LocalTableEncoder, SetValuedEncoder]


def labels(kind, values):
    rows = pd.DataFrame({name: known * 50 for name, known in values.items()})
    rows = rows.map(lambda value: [value]) if kind is SetValuedEncoder else rows
    encoder = kind(2.0, categories=values, random_state=0)
    index = encoder.estimate_counts(encoder.fit_transform(rows)).index
    assert index.names == ["column", "category"]
    return list(map(repr, index))


@each("kind", ENCODERS)
def test_truth_values_beside_0_or_1_are_text(kind):
    """`True` read as 1: they share a level of the index, in which pandas keeps the first of what is equal."""
    for numbers in ([1, 2], [0.0, 5.0]):
        found = labels(kind, {"a": numbers, "b": [True, False]})
        assert found == [*map(repr, [("a", one) for one in numbers]), "('b', 'True')", "('b', 'False')"]


@each("kind", ENCODERS)
def test_other_truth_values_are_themselves(kind):
    for others in ([5, 6], ["1", "0"]):
        found = labels(kind, {"a": others, "b": [True, False]})
        assert found == [*map(repr, [("a", one) for one in others]), "('b', True)", "('b', False)"]


@pytest.mark.parametrize("text", [True, False])
def test_true_counts_are_matched_either_way(text):
    values = {"a": [1, 2], "b": [False, True]}
    rows = pd.DataFrame({name: known * 50 for name, known in values.items()})
    encoder = UnaryEncodingTransformer(5.0, categories=values, random_state=0)
    estimates = encoder.estimate_counts(encoder.fit_transform(rows))
    pairs = [("a", 2), ("a", 1), ("b", "True" if text else True), ("b", "False" if text else False)]
    codes = [[0, 0, 1, 1], [0, 1, 2, 3]]
    levels = [["a", "b"], pd.Index([label for _, label in pairs], dtype=object)]
    index = pd.MultiIndex(levels=levels, codes=codes, names=["column", "category"], verify_integrity=False)
    true = pd.Series(50.0, index=index)
    assert percent_error(true, estimates["count"]).shape == (4,)
    CountEstimateDisplay(estimates, true_counts=true)
