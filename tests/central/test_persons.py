"""Persons with several rows: of each at most a few are used, and the guarantee is for all of them."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.pipeline import make_pipeline

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
    PrivacyLedger,
    privacy_statement,
)
from skdp.central.statistics import (
    GRID,
    ColumnSums,
    _cuts,
    _noise,
    choose,
    count_values,
    integer_noise,
    joint_noise,
    query,
)
from skdp.central.statistics._private_bounds import Cells
from skdp.central.statistics._quantiles import count_below, scores
from skdp.frames import read_table
from skdp.privacy import Mu, Rho, Share, read_share
from skdp.randomness import SeededSource
from tests.conftest import each

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


class TestSensitivity:
    def test_a_person_changes_each_number_by_at_most_the_number_of_rows(self):
        """All tables of up to two other rows, and all persons of up to three."""
        values = (0.0, 40.0, 100.0, math.nan)
        candidates = np.array([0.0, 50.0, 100.0])

        def numbers(rows):
            column = np.array(rows, float)
            sums = query([ColumnSums.of(column, 0.0, 100.0)], squares=True, shared_count=False)
            (cells,) = count_values(read_table(column.reshape(-1, 1)), None, [0], [Cells(8, 50.0)])
            return np.array(sums, object), cells, scores(*count_below(column, candidates), Fraction(1, 3))

        worst = np.zeros(3)
        for n in range(3):
            for others in itertools.combinations_with_replacement(values, n):
                before = numbers(others)
                for person in itertools.combinations_with_replacement(values, 3):
                    sums, cells, ranks = (
                        after - one for after, one in zip(numbers((*others, *person)), before, strict=True)
                    )
                    found = max(map(abs, sums)) / GRID, np.abs(cells).sum(), np.ptp(ranks) / 2
                    worst = np.maximum(worst, np.array(found, float))
        assert worst[:2].tolist() == [3, 3]
        assert worst[2] <= 3 * 2  # of thirds of a record; a row changes a score by at most two of them

    @pytest.mark.parametrize("given", [0.5, Rho(0.2, delta=1e-6), Mu(0.4, delta=1e-6)])
    def test_noise_is_in_proportion_to_the_rows_and_costs_as_much(self, given):
        one = read_share(given)
        three = Share(one.kind, one.amount, one.given, rows=3)
        for make in (lambda share: integer_noise(share, 7), lambda share: joint_noise(share, GRID, 5)):
            assert float(make(three).error) == pytest.approx(3 * float(make(one).error), rel=0.02)
            # More links of a chain, which are together no more.
            losses = [make(share).loss for share in (one, three)]
            assert all(one == other or one.epsilon == other.epsilon for one, other in [losses])
        assert (three / 4 * Fraction(1, 2)).rows == 3

    def test_choices_are_as_of_scores_a_third_as_large(self):
        share = Share("epsilon", Fraction(2), rows=3)
        drawn = [choose(SeededSource(seed), np.array([0, -3]), share, 1) for seed in range(500)]
        assert np.mean(drawn) == pytest.approx(math.exp(-2) / 2, abs=0.05)

    @pytest.mark.filterwarnings("ignore:the noise:UserWarning")
    @pytest.mark.parametrize("estimator", EVERY, ids=lambda one: type(one).__name__)
    def test_every_estimator_draws_for_persons(self, estimator, monkeypatch):
        scales = []

        def recorded(module, name, place):
            draw = getattr(module, name)

            def record(source, *arguments):
                scales.append(float(arguments[place]) if place == 0 else 1 / float(arguments[place]))
                return draw(source, *arguments)

            monkeypatch.setattr(module, name, record)

        for name, place in (("discrete_laplace", 0), ("cube_noise", 0), ("permute_and_flip", 1)):
            recorded(_noise, name, place)
        recorded(_cuts, "unimodal_choice", 3)
        found = []
        for rows in (1, 4):
            scales.clear()
            fitted = estimator.set_params(max_rows_per_person=rows, random_state=0, epsilon=1.0).fit(ROWS)
            found.append(list(scales))
        assert len(found[0]) == len(found[1]) > 0
        assert np.array(found[1]) == pytest.approx(4 * np.array(found[0]))
        assert fitted.guarantee_.epsilon == 1.0
        assert "up to 4 rows a person" in fitted.guarantee_.mechanism
        assert "adding or removing one person's values, in up to 4 records, of: " in str(fitted.guarantee_)
        if not hasattr(fitted, "transform"):  # nothing is promised about rows
            meaning = privacy_statement(fitted).to_dict()["meaning"]
            assert meaning["unit"].startswith("one person with up to 4 records")
            assert meaning["neighbours"] == "one person with up to 4 records added or removed"

    def test_a_step_that_costs_nothing_changes_no_guarantee(self):
        steps = make_pipeline(DPMinMaxScaler(bounds=BOUNDS), DPStandardScaler(bounds=(0, 1), max_rows_per_person=4))
        steps.fit(ROWS)
        whole = steps[0].guarantee_ + steps[1].guarantee_
        assert (whole.epsilon, whole.relation, whole.max_rows_per_person) == (1, "add_remove", 4)


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


@each(
    "parameters groups error message",
    [
        ({"max_rows_per_person": 0}, None, ValueError, "max_rows_per_person must be"),
        ({"max_rows_per_person": 1.5}, None, TypeError, "max_rows_per_person must be"),
        ({}, [1, 2], ValueError, "groups has 2 entries; X has 80 rows"),
        ({}, [None] * 80, ValueError, "groups holds a missing value"),
        ({}, np.zeros((80, 2)), ValueError, "groups must be 1-dimensional"),
        ({}, "who", TypeError, "groups must hold the person of each row; .* got str"),
    ],
)
def test_mistakes_cost_nothing(parameters, groups, error, message):
    ledger = PrivacyLedger(epsilon=1.0)
    with pytest.raises(error, match=message):
        DPMean(bounds=BOUNDS, ledger=ledger).set_params(**parameters).fit(ROWS, groups=groups)
    assert ledger.spent == (0, 0)
