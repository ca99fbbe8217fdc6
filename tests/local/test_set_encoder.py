"""Columns of sets: one epsilon per list, unbiased estimates, all dataframes, files and engines."""

import math
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from skdp import SetValuedEncoder
from skdp.exact import exp_bounds
from tests.errors import refusal

VALUES = {"tags": ["a", "b", "c", "d", "e"]}
RNG = np.random.default_rng(2)
LISTS = [list(RNG.choice(VALUES["tags"], RNG.integers(0, 4), replace=False)) for _ in range(600)]
PEOPLE = pd.DataFrame({"tags": LISTS})
TRUTH = pd.Series([value for cell in LISTS for value in cell]).value_counts().reindex(VALUES["tags"])


def encoder(epsilon=2.0, **parameters):
    return SetValuedEncoder(epsilon, **{"categories": VALUES, "max_size": 3, "random_state": 0} | parameters)


def test_record_of_two_lists_is_within_epsilon():
    """Every pair of lists of each column, all reports; the ratios of the columns multiply."""
    fitted = SetValuedEncoder(1.0, categories={"a": [0, 1, 2], "b": [0, 1]}, max_size={"a": 2, "b": 1})
    fitted.fit(pd.DataFrame({"a": [[]], "b": [[]]}))
    worst = Fraction(1)
    for attribute in fitted.protocol_.channels(1 << 16):
        table = next(attribute)
        worst *= max(max(column) / min(column) for column in zip(*table, strict=True) if any(column))
    assert worst <= exp_bounds(1.0)[0]
    assert float(math.log(worst)) <= fitted.guarantee_.epsilon * (1 + 1e-12)
    assert fitted.guarantee_.epsilon <= 1
    assert sum(loss.count for loss in fitted.guarantee_.losses) == 2


def test_intervals_cover_the_true_counts():
    """60 collections of reports of the same records, so that only the noise varies."""
    fitted, frame = encoder().fit(PEOPLE), pd.concat([PEOPLE] * 60, ignore_index=True)
    reports = fitted.transform(frame)
    parts = [fitted.estimate_counts(reports[start : start + 600]) for start in range(0, len(frame), 600)]
    inside = np.array([(part["lower"] <= TRUTH) & (part["upper"] >= TRUTH) for part in parts])
    errors = np.array([(part["count"] - TRUTH) / part["std_error"] for part in parts])
    assert inside.mean() == pytest.approx(0.95, abs=0.04)
    assert np.abs(errors.mean(axis=0)).max() < 4 / math.sqrt(60)
    assert (errors**2).mean() == pytest.approx(1, abs=0.25)


def test_members_of_long_lists_are_sampled():
    """The bias is the stated bias, and the estimates of the sampled members are unbiased."""
    lists = [["a", "b", "c", "d", "e"], ["a", "b", "c", "d"], ["a", "b"], []] * 4_000
    fitted = encoder(4.0, max_size=2).fit(pd.DataFrame({"tags": lists}))
    found = fitted.estimate_counts(fitted.transform(pd.DataFrame({"tags": lists})))
    shares = [2 / 5 + 2 / 4 + 1, 2 / 5 + 2 / 4 + 1, 2 / 5 + 2 / 4, 2 / 5 + 2 / 4, 2 / 5]
    sampling = math.sqrt(8_000) / 2
    assert (np.abs(found["count"] - 4_000 * np.array(shares)) < 4 * np.hypot(found["std_error"], sampling)).all()


def test_reports_are_equal_in_all_dataframes():
    expected = encoder().fit_transform(PEOPLE).to_numpy()
    frames = {
        "tuples": pd.DataFrame({"tags": list(map(tuple, LISTS))}),
        "sets": pd.DataFrame({"tags": list(map(set, LISTS))}),
        "reversed": pd.DataFrame({"tags": [cell[::-1] for cell in LISTS]}),
        "pandas, Arrow": PEOPLE.astype(pd.ArrowDtype(pa.list_(pa.string()))),
        "polars": pl.DataFrame({"tags": LISTS}),
        "pyarrow": pa.table({"tags": LISTS}),
        "pyarrow, dictionary": pa.table({"tags": pa.array(LISTS, pa.list_(pa.dictionary(pa.int8(), pa.string())))}),
        "pyarrow, slice": pa.table({"tags": [["a"], *LISTS, ["b"]]}).slice(1, 600),
    }
    for kind, frame in frames.items():
        reports = encoder().fit_transform(frame)
        reports = reports.to_pandas() if isinstance(reports, pa.Table) else reports
        assert np.array_equal(np.asarray(reports), expected), kind


@pytest.mark.parametrize(
    "cells", [["a", "b"], [["a"], None], [["a"], "b"], [["a"], np.zeros((1, 1))], [{"a": 1}, ["b"]], [["a"], [["b"]]]]
)
def test_cells_other_than_lists_raise_an_error(cells):
    column = np.empty(2, object)
    column[:] = cells
    for table, match in (
        (pd.DataFrame({"tags": column}), "'tags'"),
        (pa.table({"tags": [["a"], None]}), "missing list"),
    ):
        with refusal(ValueError, match) as ledger:
            encoder(ledger=ledger).fit(PEOPLE).transform(table)


def test_repeated_value_in_a_list_counts_once():
    lists = pd.DataFrame({"x": [["a"] + ["b"] * 30] * 20})
    encoder = SetValuedEncoder(400.0, categories={"x": list("abcd")}, max_size=2, random_state=0)
    counts = encoder.estimate_counts(encoder.fit_transform(lists))["count"]
    assert counts.to_numpy() == pytest.approx([20, 20, 0, 0], abs=1e-6)


def test_ignored_values_are_not_in_the_set():
    lists = pd.DataFrame({"tags": [["a", "other"], ["other"], []] * 100})
    fitted = encoder(400.0, max_size=1, handle_unknown="ignore").fit(lists)
    counts = fitted.estimate_counts(fitted.transform(lists))["count"]
    assert counts.to_numpy() == pytest.approx([100, 0, 0, 0, 0], abs=1e-6)
    with pytest.raises(ValueError, match="contains a value outside"):
        encoder(400.0).fit(lists).transform(lists)
