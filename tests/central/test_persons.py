"""Persons with several rows: of each at most a few are used, and the guarantee is for all of them."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest

from skdp import DPHistogram
from skdp.central.statistics import GRID, Noise, choose
from skdp.privacy import Mu, Rho, Share, read_share
from skdp.randomness import SeededSource


class TestNoise:
    @pytest.mark.parametrize("given", [0.5, Rho(0.2, delta=1e-6), Mu(0.4, delta=1e-6)])
    def test_it_is_in_proportion_to_the_rows_and_costs_as_much(self, given):
        one = read_share(given)
        three = replace(one, rows=3)
        for make in (lambda share: Noise.of(share, 7), lambda share: Noise.joint(share, GRID, 5)):
            assert float(make(three).error) == pytest.approx(3 * float(make(one).error), rel=0.02)
            # More links of a chain, which are together no more.
            losses = [make(share).loss for share in (one, three)]
            assert losses[0] == losses[1] or losses[0].epsilon == losses[1].epsilon

    def test_choices_are_as_of_scores_a_third_as_large(self):
        share = Share("epsilon", Fraction(2), rows=3)
        drawn = [choose(SeededSource(seed), np.array([0, -3]), share, 1) for seed in range(500)]
        assert np.mean(drawn) == pytest.approx(math.exp(-2) / 2, abs=0.05)


class TestRows:
    def test_at_most_a_few_rows_of_each_person_are_used(self):
        people = np.repeat(np.arange(6), [1, 2, 3, 4, 5, 6])
        X = pd.DataFrame({"x": people.astype(float)})
        for rows, seed in itertools.product((1, 2, 4), range(3)):
            histogram = DPHistogram(
                1e6, domain={"x": [*map(float, range(6))]}, max_rows_per_person=rows, random_state=seed
            )
            for groups in (people, pl.Series(people), pd.DataFrame({"who": people})):
                assert histogram.fit(X, groups=groups).counts_.tolist() == [min(rows, n) for n in range(1, 7)]
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
