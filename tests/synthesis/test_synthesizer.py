import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2

from skdp import DPMarginalSynthesizer, Interval
from tests.conftest import counted_draws

FALSE_ALARM = 1e-6
N = 1500
rng = np.random.default_rng(0)
A = rng.integers(0, 4, N)
TABLE = pd.DataFrame(
    {
        "a": A,
        "b": (A + rng.integers(0, 2, N)) % 5,
        "job": rng.choice(["clerk", "smith", None], N, p=[0.6, 0.3, 0.1]),
        "wage": np.round(rng.uniform(0, 40, N) + 10 * A, 2),
    }
)
DOMAIN = {
    "a": [0, 1, 2, 3],
    "b": [0, 1, 2, 3, 4],
    "job": ["clerk", "smith", None],
    "wage": Interval(0, 80, bins=8, real=True),
}
CLIQUES = [("a", "b"), ("a", "wage"), ("b", "job"), ("wage",)]


def fit_model(X=TABLE, y=None, **parameters):
    domain = DOMAIN if y is None else DOMAIN | {"label": ["low", "high"]}
    return DPMarginalSynthesizer(**{"random_state": 0, "domain": domain, "marginals": CLIQUES} | parameters).fit(X, y)


@pytest.fixture(scope="module")
def synthesizer():
    return fit_model()


@pytest.fixture(scope="module")
def whole(synthesizer):
    """Return the probability of every cell, multiplied out from the cliques."""
    tree, total = synthesizer.model_.tree, np.ones((4, 5, 3, 8))

    def spread(table, columns):
        return table.reshape([tree.sizes[c] if c in columns else 1 for c in range(4)])

    for clique, belief in zip(tree.cliques, synthesizer.model_.beliefs, strict=True):
        total = total * spread(belief, clique)
    for separator in tree.separators:
        total = total / spread(synthesizer.model_.marginal(separator), separator)
    return total


class TestSample:
    def test_number_of_rows_equals_its_estimate(self, synthesizer):
        assert len(synthesizer.sample()) == round(synthesizer.n_rows_)
        assert abs(synthesizer.n_rows_ - N) < 6 * synthesizer.n_rows_std_error_

    def test_numbers_within_a_bin_follow_the_counts_of_cells(self, synthesizer):
        made = synthesizer.sample(100_000)["wage"]
        assert made.between(0, 80).all()
        expected = 1e5 * np.diff([synthesizer.count({"wage": (None, end)}) for end in range(81)])
        expected /= synthesizer.n_rows_
        seen = np.histogram(made, bins=range(81))[0]
        assert ((seen - expected) ** 2 / np.maximum(expected, 1e-9)).sum() < chi2.isf(FALSE_ALARM, 79)

    def test_sampling_and_noise_use_distinct_random_bits(self):
        for seed in (None, 0):
            fit = fit_model(random_state=seed)
            with counted_draws() as drawn:
                fit.sample(100), fit.transform(TABLE)
            assert drawn[0] == 0


class TestEstimates:
    @pytest.mark.parametrize("names", [["a"], ["job", "a"], ["wage", "b"], ["b", "a", "job", "wage"], "job"])
    def test_marginals_equal_the_model(self, synthesizer, whole, names):
        table = synthesizer.marginal(names)
        names = [names] if isinstance(names, str) else names
        assert list(table) == [*names, "count", "std_error", "lower", "upper", "supported"]
        indices = [list(DOMAIN).index(name) for name in names]
        kept = sorted(indices)
        summed = whole.sum(axis=tuple(index for index in range(4) if index not in indices))
        wanted = np.transpose(summed, [kept.index(index) for index in indices])
        np.testing.assert_allclose(table["count"], synthesizer.n_rows_ * wanted.ravel(), rtol=1e-9, atol=1e-9)
        assert table["count"].sum() == pytest.approx(synthesizer.n_rows_)

    @pytest.mark.parametrize("names", [[], ["a", "a"], ["q"], "q"])
    def test_unknown_marginals_raise_an_error(self, synthesizer, names):
        with pytest.raises(ValueError, match="column"):
            synthesizer.marginal(names)


class TestQueries:
    @pytest.mark.parametrize(
        ("low", "high"), [(None, None), (10, 30), (15, 15), (12.5, 71), (None, 5), (79, None), (-9, 99)]
    )
    def test_ranges_of_numbers_are_sums_of_bins(self, synthesizer, whole, low, high):
        ends = 0 if low is None else max(low, 0), 80 if high is None else min(high, 80)
        first, last = (np.clip(np.arange(start, start + 80, 10), *ends) for start in (0, 10))
        rank = synthesizer._fitted.counts.shapes[3].rank
        inside = rank(last.astype(float)) - rank(first.astype(float))
        wanted = synthesizer.n_rows_ * (whole.sum(axis=(0, 1, 2)) @ inside)
        assert synthesizer.count({"wage": (low, high)}) == pytest.approx(wanted, abs=1e-9)

    @pytest.mark.parametrize(
        ("conditions", "cells"),
        [
            ({}, np.s_[:, :, :, :]),
            ({"a": 2}, np.s_[2:3, :, :, :]),
            ({"a": [1, 2], "job": None}, np.s_[1:3, :, 2:3, :]),
            ({"b": (2, None), "wage": (20, 40)}, np.s_[:, 2:, :, 2:4]),
            ({"job": ["clerk", "smith"], "a": (0, 2), "b": 4, "wage": (None, 10)}, np.s_[:2, 4:, :2, :1]),
            ({"a": []}, np.s_[:0, :, :, :]),
            ({"b": (1, 3), "job": (None, None)}, np.s_[:, 1:3, :2, :]),  # half-open; missing is in no range
            ({"b": [1, 1], "job": math.nan}, np.s_[:, 1:2, 2:3, :]),
        ],
    )
    def test_conditions_are_sums_of_cells(self, synthesizer, whole, conditions, cells):
        wanted = synthesizer.n_rows_ * whole[cells].sum()
        assert synthesizer.count(conditions) == pytest.approx(wanted, rel=1e-9, abs=1e-9)
