from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skdp import DPMarginalSynthesizer, Interval, PrivacyLedger
from skdp.randomness import discrete_laplace, rounded_gaussian
from skdp.synthesis.selection import _private_table
from tests.conftest import counted_draws, each, often

METHODS = ["auto", "independent", "tree", "adaptive", "full"]
N = 2000
rng = np.random.default_rng(0)
A = rng.integers(0, 4, N)
TABLE = pd.DataFrame(
    {"a": A, "b": (A + rng.integers(0, 2, N)) % 5, "c": A % 2, "d": rng.integers(0, 3, N), "e": A // 2}
)
DOMAIN = {"a": range(4), "b": range(5), "c": range(2), "d": range(3), "e": range(2)}


def fitted(X=TABLE, domain=DOMAIN, **parameters):
    domain = {name: list(values) if isinstance(values, range) else values for name, values in domain.items()}
    return DPMarginalSynthesizer(**{"random_state": 0, "domain": domain, "max_iter": 50} | parameters).fit(X)


def check_model(model):
    for belief in (*model.beliefs, *model.separators):
        assert np.isfinite(belief).all()
        assert (belief >= 0).all()
        assert belief.sum() == pytest.approx(1, abs=1e-9)


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=4),
    st.sampled_from([*METHODS, "list"]),
    st.sampled_from([1e-6, 0.01, 0.3, 3, 1000, 1e4]),
    st.sampled_from([0, 1e-9, 0.1]),
    st.sampled_from([0, 1, 2, 40]),
    st.integers(0, 2**20),
)
def test_tiny_tables_never_hang_and_give_distributions(sizes, method, epsilon, delta, n, seed):
    values = np.random.default_rng(seed)
    X = np.array([values.integers(0, size, n) for size in sizes]).T.reshape(n, len(sizes))
    domain = [list(range(size)) for size in sizes]
    marginals = [tuple(f"x{place}" for place in range(len(sizes)))[-2:]] if method == "list" else method
    synthesizer = DPMarginalSynthesizer(
        epsilon, delta=delta, domain=domain, marginals=marginals, random_state=seed, max_iter=20
    ).fit(X)
    check_model(synthesizer.model_)
    assert synthesizer.n_rows_ >= 1
    assert math.isfinite(synthesizer.n_rows_std_error_)
    rows = synthesizer.sample(30)
    assert ((rows >= 0) & (rows < sizes)).all()
    assert np.isfinite(synthesizer.score_samples(rows)).all()  # what is drawn can occur
    table = synthesizer.marginal([f"x{place}" for place in range(len(sizes))])
    assert (table["count"] >= 0).all()
    assert table["count"].sum() == pytest.approx(synthesizer.n_rows_)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("delta", [0, 1e-9])
def test_where_all_noisy_counts_are_negative(method, delta, monkeypatch):
    def sunk(draw):
        return lambda source, scale, size: draw(source, scale, size) - 10**7

    monkeypatch.setattr(_private_table, "discrete_laplace", sunk(discrete_laplace))
    monkeypatch.setattr(_private_table, "rounded_gaussian", sunk(rounded_gaussian))
    synthesizer = fitted(marginals=method, delta=delta)
    assert all((marginal.counts < 0).all() for marginal in synthesizer.marginals_)
    assert synthesizer.n_rows_ == 1
    check_model(synthesizer.model_)
    assert len(synthesizer.sample(20)) == 20
    assert len(synthesizer.sample()) == 1


class TestWhatIsMeasured:
    def test_independent(self):
        synthesizer = fitted(marginals="independent")
        assert synthesizer.selected_cliques_ == [(name,) for name in TABLE]
        assert len(synthesizer.model_.tree.cliques) == 5

    def test_full(self):
        synthesizer = fitted(marginals="full", epsilon=100)
        assert synthesizer.selected_cliques_ == [tuple(TABLE)]
        counts = pd.crosstab([TABLE["a"], TABLE["b"]], [TABLE["c"], TABLE["d"], TABLE["e"]], dropna=False).to_numpy()
        assert np.abs(synthesizer.marginals_[0].counts.reshape(20, 12).sum() - counts.sum()) <= 10

    def test_a_tree_links_all_columns_once(self):
        for delta in (0, 1e-9):
            synthesizer = fitted(marginals="tree", epsilon=10, delta=delta)
            pairs = [clique for clique in synthesizer.selected_cliques_ if len(clique) == 2]
            assert len(pairs) == 4
            assert len(set(itertools.chain(*pairs))) == 5
            assert {frozenset(pair) for pair in pairs} & {frozenset("ac"), frozenset("ae"), frozenset("ab")}

    def test_a_list_in_any_order_and_all_with_the_same_noise(self):
        synthesizer = fitted(marginals=[("b", "a"), ["c"], ("a", "b"), ("e", "d", "c")])
        assert synthesizer.selected_cliques_ == [("a", "b"), ("c",), ("c", "d", "e")]
        assert len(set(synthesizer.noise_scale_.values())) == 1

    def test_a_column_that_no_marginal_has_is_even(self):
        synthesizer = fitted(marginals=[("a",)])
        np.testing.assert_allclose(synthesizer.model_.marginal((1,)), np.full(5, 0.2))

    @pytest.mark.parametrize("method", ["auto", "adaptive", "tree"])
    def test_only_what_the_workload_holds(self, method):
        workload = [("a", "b"), ("d",)]
        synthesizer = fitted(marginals=method, workload=workload, epsilon=100)
        pairs = [clique for clique in synthesizer.selected_cliques_ if len(clique) > 1]
        assert pairs == [("a", "b")]

    @pytest.mark.filterwarnings("ignore:pairs of columns with more than max_cells")
    @pytest.mark.filterwarnings("ignore:by their noisy scores, some pairs of columns depend strongly")
    @pytest.mark.parametrize("method", ["auto", "adaptive"])
    @pytest.mark.parametrize("max_cells", often([4, 12], [4]))
    def test_no_clique_is_larger_than_allowed(self, method, max_cells):
        for delta in (0, 1e-6):
            synthesizer = fitted(marginals=method, epsilon=1000, delta=delta, max_cells=max_cells)
            tree = synthesizer.model_.tree
            assert max(map(tree.n_cells, tree.cliques)) <= max(max_cells, 5)
            largest = max(math.prod(len(DOMAIN[name]) for name in clique) for clique in synthesizer.selected_cliques_)
            assert largest <= max(max_cells, 5)

    @pytest.mark.parametrize("method", [*METHODS, [("a", "c")]])
    def test_measurements_are_what_they_say(self, method):
        # With hardly any noise, every measured count is the true one, by groups where values are grouped.
        synthesizer = fitted(marginals=method, epsilon=1e5)
        for marginal in synthesizer.marginals_:
            if marginal.groups is not None:
                continue
            names = [TABLE.columns[column] for column in marginal.clique]
            true = np.zeros(marginal.counts.shape)
            np.add.at(true, tuple(TABLE[name].to_numpy() for name in names), 1)
            np.testing.assert_array_equal(marginal.counts, true)

    @pytest.mark.parametrize("method", often(["tree", "full", "auto", "adaptive"], ["full", "adaptive"]))
    def test_with_little_noise_the_model_is_the_table(self, method):
        synthesizer = fitted(marginals=method, epsilon=1e4, max_iter=1000)
        found = synthesizer.marginal(["a", "c"]).set_index(["a", "c"])["count"]
        true = TABLE.groupby(["a", "c"]).size()
        assert (found - true.reindex(found.index, fill_value=0)).abs().max() < 10


class TestStructuralZeros:
    ZEROS = ({"a": 0, "c": 1}, {"a": [1, 3], "c": 0}, {"b": (3, None), "d": 2})

    @pytest.mark.parametrize("method", [*METHODS, [("a",), ("c",)]])
    @pytest.mark.parametrize("delta", [0, 1e-9])
    def test_what_cannot_occur_is_never_drawn(self, method, delta):
        synthesizer = fitted(marginals=method, structural_zeros=list(self.ZEROS), delta=delta, epsilon=0.3)
        check_model(synthesizer.model_)
        made = synthesizer.sample(20_000)
        assert not ((made["a"] == 0) & (made["c"] == 1)).any()
        assert not (made["a"].isin([1, 3]) & (made["c"] == 0)).any()
        assert not ((made["b"] >= 3) & (made["d"] == 2)).any()
        assert synthesizer.count({"a": 0, "c": 1}) == 0
        assert np.isneginf(synthesizer.score_samples(pd.DataFrame({"a": [0], "b": 0, "c": 1, "d": 0, "e": 0}))).all()

    def test_noise_that_says_otherwise_does_not_matter(self):
        for seed in range(8):
            synthesizer = fitted(TABLE.iloc[:5], structural_zeros=[{"a": [0, 1, 2]}], epsilon=0.01, random_state=seed)
            assert (synthesizer.sample(50)["a"] == 3).all()

    @each(
        "zeros",
        [
            [{"a": [0, 1, 2, 3]}],
            [{"a": [0, 1]}, {"a": [2, 3]}],
            [{"a": [1, 2, 3]}, {"a": 0, "b": [0, 1, 2, 3, 4]}],
            [{"a": [0, 1], "b": [0, 1, 2, 3, 4]}, {"a": [2, 3], "c": 0}, {"c": 1, "d": [0, 1, 2]}],
        ],
    )
    def test_if_nothing_could_occur_it_costs_nothing(self, zeros):
        ledger = PrivacyLedger(epsilon=10)
        with counted_draws() as drawn, pytest.raises(ValueError, match="leave nothing that could occur"):
            fitted(structural_zeros=zeros, ledger=ledger)
        assert (drawn[0], ledger.spent) == (0, (0, 0))

    def test_half_a_bin_is_no_zero(self):
        domain = DOMAIN | {"a": Interval(0, 4, bins=2)}
        with pytest.raises(ValueError, match="whole bins"):
            fitted(domain=domain, structural_zeros=[{"a": (0, 1)}])
        made = fitted(domain=domain, structural_zeros=[{"a": (0, 2)}]).sample(100)
        assert (made["a"] >= 2).all()


def test_the_largest_number_of_steps_is_honoured():
    few = fitted(marginals="tree", max_iter=1, epsilon=1).model_.marginal((0, 1))
    many = fitted(marginals="tree", max_iter=200, epsilon=1).model_.marginal((0, 1))
    assert np.abs(few - many).max() > 1e-4
