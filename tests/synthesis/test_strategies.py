"""All methods to select marginals: valid models, zeros, limits, guarantees, and statements."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skdp import DPMarginalSynthesizer
from skdp.synthesis.measure import NoiseSource
from tests.errors import refusal
from tests.synthesis.budgets import assert_sound

METHODS = ["auto", "independent", "full"]
N = 2000
rng = np.random.default_rng(0)
A = rng.integers(0, 4, N)
TABLE = pd.DataFrame(
    {"a": A, "b": (A + rng.integers(0, 2, N)) % 5, "c": A % 2, "d": rng.integers(0, 3, N), "e": A // 2}
)
DOMAIN = {"a": range(4), "b": range(5), "c": range(2), "d": range(3), "e": range(2)}


def fit_model(X=TABLE, domain=DOMAIN, **parameters):
    domain = {name: list(values) if isinstance(values, range) else values for name, values in domain.items()}
    return DPMarginalSynthesizer(**{"random_state": 0, "domain": domain} | parameters).fit(X)


@pytest.mark.filterwarnings("ignore::UserWarning")  # for workloads that are too large
@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=4),
    st.sampled_from([*METHODS, "list"]),
    st.sampled_from([1e-6, 0.01, 0.3, 3, 1000, 1e4]),
    st.sampled_from([0, 1e-9, 0.1]),
    st.sampled_from([0, 1, 2, 40]),
    st.sampled_from([2, 4, 30, 1000]),
    st.integers(0, 2**20),
    st.data(),
)
def test_tiny_tables_give_distributions(sizes, method, epsilon, delta, n, max_cells, seed, data):
    values = np.random.default_rng(seed)
    X = np.array([values.integers(0, size, n) for size in sizes]).T.reshape(n, len(sizes))
    domain = [list(range(size)) for size in sizes]
    names = [f"x{index}" for index in range(len(sizes))]
    parameters = {"marginals": [tuple(names[-2:])] if method == "list" else method}
    if method == "auto":
        columns = st.sets(st.sampled_from(names), min_size=1, max_size=3).map(lambda one: tuple(sorted(one)))
        workload = data.draw(st.none() | st.lists(columns, min_size=1, max_size=3, unique=True))
        target = data.draw(st.none() | st.sampled_from(names))
        parameters |= {"max_cells": max_cells, "workload": workload, "target": target}
    synthesizer = DPMarginalSynthesizer(epsilon, delta=delta, domain=domain, random_state=seed, **parameters).fit(X)
    assert_sound(synthesizer.model_)
    assert synthesizer.n_rows_ >= 1
    assert math.isfinite(synthesizer.n_rows_std_error_)
    rows = synthesizer.sample(30)
    assert ((rows >= 0) & (rows < sizes)).all()
    table = synthesizer.marginal(names)
    assert (table["count"] >= 0).all()
    assert table["count"].sum() == pytest.approx(synthesizer.n_rows_)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("delta", [0, 1e-9])
def test_negative_noisy_counts_give_a_distribution(method, delta, monkeypatch):
    counts = NoiseSource.add_to_counts
    monkeypatch.setattr(NoiseSource, "add_to_counts", lambda *given: counts(*given) - 10**7)
    synthesizer = fit_model(marginals=method, delta=delta)
    assert all((marginal.counts < 0).all() for marginal in synthesizer.marginals_)
    assert synthesizer.n_rows_ == 1
    assert_sound(synthesizer.model_)
    assert len(synthesizer.sample(20)) == 20
    assert len(synthesizer.sample()) == 1


@pytest.mark.parametrize("marginals", ["auto", "full"])
@pytest.mark.parametrize(("epsilon", "delta"), [(1e-300, 0), (1e-300, 1e-300), (1e-31, 1e-31)])
def test_unbounded_noise_raises_an_error(marginals, epsilon, delta):
    """The variance overflowed after the charge."""
    with refusal(ValueError, "too small") as ledger:
        fit_model(marginals=marginals, epsilon=epsilon, delta=delta, ledger=ledger)


@pytest.mark.parametrize("marginals", ["auto", "full"])
@pytest.mark.parametrize(("epsilon", "delta"), [(1e-29, 0), (1e-29, 1e-29), (1e300, 0), (1e300, 0.999)])
def test_extreme_guarantees_are_kept(marginals, epsilon, delta):
    synthesizer = fit_model(epsilon=epsilon, delta=delta, marginals=marginals)
    assert len(synthesizer.sample(3)) == 3
