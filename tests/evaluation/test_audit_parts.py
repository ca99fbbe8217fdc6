"""The parts of an audit: its bound, its exact value and the parts of an output."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import beta, binom

from skdp.evaluation.audits._events import epsilon_lower_bound, find_bound, row_draws
from skdp.evaluation.audits._outputs import hash_column, read_rows
from tests.conftest import each
from tests.evaluation.broken_transformers import one

TWO = (one(0), one(1))


class TestBound:
    @pytest.mark.long
    @each("delta", [0.0, 0.05])
    @each("one_share", [0.3, 0.9])
    @each("other_share", [0.02, 0.25])
    def test_it_exceeds_epsilon_as_rarely_as_stated(self, one_share, other_share, delta):
        """Enumerated: all pairs of counts of 12 and 18 draws."""
        level, trials = 0.1, (12, 18)
        epsilon = math.log((one_share - delta) / other_share)
        wrong = 0.0
        for a in range(trials[0] + 1):
            for b in range(trials[1] + 1):
                if epsilon_lower_bound((a, b), trials, delta=delta, level=level) > max(epsilon, 0.0):
                    wrong += binom.pmf(a, trials[0], one_share) * binom.pmf(b, trials[1], other_share)
        assert wrong <= level

    def test_both_probabilities_have_half_of_the_level(self):
        low, high = beta.ppf(0.05, 9, 2), beta.isf(0.05, 2, 9)
        bound = epsilon_lower_bound((9, 1), (10, 10), delta=0.1, level=0.1)
        assert bound == pytest.approx(math.log((low - 0.1) / high))

    def test_no_event_that_luck_has_chosen_raises_the_level(self):
        """Of 80 audits of 64 x 4 outcomes without any signal, no more may reject than level .2 explains (1e-6).

        A true level of .6 is noticed with a probability of .999."""
        runs, level, rng = 80, 0.2, np.random.default_rng(5)

        def release(table):
            return pd.DataFrame({"value": rng.integers(0, 64, len(table)), "other": rng.integers(0, 4, len(table))})

        draw = row_draws(release, TWO)
        rejected = sum(find_bound(draw, 2, 2_000, delta=0.0, level=level).lower > 0 for _ in range(runs))
        assert rejected <= binom.isf(1e-6, runs, level)


class TestOutputs:
    def test_equal_values_have_equal_hashes(self):
        assert hash_column(np.array([math.nan, 0.5])).tolist() == hash_column(np.array([-math.nan, 0.5])).tolist()
        words = hash_column(np.array(["a", "b"], object))
        assert (words == hash_column(np.array(["a", "b", None], object))[:2]).all()
        assert len(np.unique(hash_column(np.array(["1", 1, -0.0, 0, 0.5, None, (1,)], object)))) == 7

    def test_lists_in_cells_keep_their_order(self):
        columns = read_rows(lambda: pd.DataFrame({"a": [[1, 2], [2, 1, 3]]}), 2)
        assert columns["column 'a', item 0"].tolist() == [1, 2]
        assert columns["column 'a', item 2"].tolist() == [None, 3]
