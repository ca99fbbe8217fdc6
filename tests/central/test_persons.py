"""Persons with several rows: of each at most a few are used, and the guarantee is for all of them."""

from __future__ import annotations

import itertools

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
    DPQuantileTransformer,
    DPRobustScaler,
    DPSimpleImputer,
    DPStandardScaler,
    Interval,
)

BOUNDS = (0, 100)
EVERY = [
    DPMean(bounds=BOUNDS),
    DPStandardScaler(bounds=BOUNDS),
    DPMinMaxScaler(bounds=BOUNDS, quantile_range=(0.1, 0.9)),
    DPMinMaxScaler(bounds="private"),
    DPSimpleImputer(bounds=BOUNDS),
    DPSimpleImputer(strategy="most_frequent", categories={"a": [1.0, 2.0], "b": [1.0, 2.0]}),
    DPQuantileBinarizer(bounds=BOUNDS),
    DPKBinsDiscretizer(bounds=BOUNDS),
    DPQuantileTransformer(bounds=BOUNDS, candidates=50),
    DPRobustScaler(bounds=BOUNDS),
    DPHistogram(domain=Interval(0, 100, bins=4)),
]
ROWS = pd.DataFrame({"a": [1.0, 2.0] * 40, "b": [2.0, 1.0, 1.0, 2.0] * 20})
WHO = np.repeat(np.arange(20), 4)


class TestRows:
    def test_at_most_a_few_rows_of_each_person_are_used(self):
        people = np.repeat(np.arange(6), [1, 2, 3, 4, 5, 6])
        X = pd.DataFrame({"x": people.astype(float)})
        for rows, seed in itertools.product((1, 2, 4), range(3)):
            histogram = DPHistogram(
                1e6, domain={"x": [*map(float, range(6))]}, max_rows_per_person=rows, random_state=seed
            )
            assert histogram.fit(X, groups=people).counts_.tolist() == [min(rows, n) for n in range(1, 7)]
            assert histogram.fit(X).counts_.tolist() == [1, 2, 3, 4, 5, 6]

    @pytest.mark.parametrize("rows", [1, 3])
    def test_of_large_tables_too(self, rows):
        pytest.importorskip("skdp.engines")
        people = np.repeat(np.arange(6), [1, 2, 3, 4, 5, 6])
        frame = pl.DataFrame({"x": people.astype(float), "who": people})
        histogram = DPHistogram(
            1e6, domain={"x": [*map(float, range(6))]}, max_rows_per_person=rows, random_state=0
        ).fit(frame.lazy(), groups="who")
        assert histogram.counts_.tolist() == [min(rows, n) for n in range(1, 7)]

    def test_which_rows_is_random(self):
        X = pd.DataFrame({"x": np.arange(50.0)})
        histogram = DPHistogram(1e6, domain={"x": [*map(float, range(50))]})
        kept = {tuple(histogram.fit(X, groups=["ann"] * 50).counts_) for _ in range(8)}
        assert len(kept) > 1
        assert all(sum(counts) == 1 for counts in kept)

    def test_large_numbers_of_a_list_are_different_persons(self):
        X, people = np.ones((4, 1)), [1 << 53, (1 << 53) + 1, 0.5, 0.5]
        assert DPHistogram(1e6, domain=[[1.0]], random_state=0).fit(X, groups=people).counts_.tolist() == [3]

    @pytest.mark.parametrize("estimator", EVERY[:2], ids=lambda one: type(one).__name__)
    def test_transformers_of_frames_of_all_kinds(self, estimator):
        persons = {"groups": WHO.tolist()}
        estimator = estimator.set_params(epsilon=50.0, max_rows_per_person=4, random_state=0)
        wanted = estimator.fit(ROWS, **persons).mean_
        for table in (pl.from_pandas(ROWS), pl.from_pandas(ROWS).to_arrow(), ROWS.to_numpy()):
            assert estimator.fit(table, **persons).mean_.tolist() == wanted.tolist()
        for groups in (pd.DataFrame({"who": WHO}), pa.array(WHO), pa.chunked_array([pa.array(WHO)]), pl.Series(WHO)):
            assert estimator.fit(ROWS, groups=groups).mean_.tolist() == wanted.tolist()
        if hasattr(estimator, "transform"):
            assert len(estimator.fit_transform(ROWS, **persons)) == len(ROWS)

    def test_the_persons_of_a_large_table_are_a_column(self):
        pytest.importorskip("skdp.engines")
        frame = pl.from_pandas(ROWS).with_columns(who=pl.Series(WHO))
        for model in (
            DPMean(1.0, bounds=BOUNDS, max_rows_per_person=4, random_state=0),
            DPMean(400.0, bounds="private", max_rows_per_person=4, random_state=0),
        ):
            wanted = model.fit(ROWS, groups=WHO).mean_.tolist()
            lazy = model.fit(frame.lazy(), groups="who")
            assert lazy.mean_.tolist() == wanted
            assert lazy.guarantee_.scope == ("a", "b")
