"""A protected column of many values, from which a public one follows: who is of which kind is found, and kept."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from skdp import DPMarginalSynthesizer
from skdp.testing import replay_release

N_SHOPS, N_KINDS = 150, 8
DOMAIN = {
    "shop": [f"shop {number}" for number in range(N_SHOPS)],
    "kind": [f"kind {number}" for number in range(N_KINDS)],
    "hour": list(range(6)),
}


def payments(n_rows=1_500, share_of_exceptions=0.0):
    """Draw payments: a few shops have most of them, and a shop sells one kind of goods, but for exceptions."""
    rng = np.random.default_rng(0)
    weights = 1 / np.arange(1, N_SHOPS + 1)
    shop = rng.choice(N_SHOPS, n_rows, p=weights / weights.sum())
    kind = rng.integers(0, N_KINDS, N_SHOPS)[shop]
    is_exception = rng.random(n_rows) < share_of_exceptions
    kind = np.where(is_exception, rng.integers(0, N_KINDS, n_rows), kind)
    hour = np.where(rng.random(n_rows) < 0.5, kind % 6, rng.integers(0, 6, n_rows))
    codes = {"shop": shop, "kind": kind, "hour": hour}
    return pd.DataFrame({name: np.array(DOMAIN[name])[column] for name, column in codes.items()})


def synthesizer(protect, epsilon=4.0, **parameters):
    return DPMarginalSynthesizer(epsilon, delta=1e-6, domain=DOMAIN, protect=protect, random_state=0, **parameters)


def distance(table, made, first="shop", second="kind"):
    counts = pd.crosstab(table[first], table[second])
    differences = counts.sub(pd.crosstab(made[first], made[second]), fill_value=0)
    return differences.abs().to_numpy().sum() / 2 / len(table)


def test_what_follows_is_kept():
    table = payments()
    made = synthesizer(["shop"]).fit_transform(table)
    assert distance(table, made) < 0.3
    # Of another order, and of the shops of each kind by their shares alone.
    shuffled = table.assign(shop=table["shop"].sample(frac=1, random_state=0).to_numpy())
    assert distance(table, shuffled) > 0.6


def test_a_protected_column_that_follows_from_a_public_one():
    table = payments()
    made = synthesizer(["kind"]).fit_transform(table)
    assert distance(table, made) < 0.25


def test_exceptions_stay_possible():
    table = payments(6_000, share_of_exceptions=0.03)
    made = synthesizer(["shop"]).fit_transform(table)
    largest = table["shop"].mode()[0]
    is_usual = made["kind"] == table.loc[table["shop"] == largest, "kind"].mode()[0]
    n_exceptions = ((made["shop"] == largest) & ~is_usual).sum()
    assert n_exceptions == pytest.approx(((table["shop"] == largest) & ~is_usual).sum(), abs=30)


def test_noise_is_not_taken_for_it():
    """Columns that do not depend on each other, at an epsilon with much noise in scores."""
    table = payments()
    table["kind"] = table["kind"].sample(frac=1, random_state=1).to_numpy()
    made = synthesizer(["shop"], 0.5).fit_transform(table)
    largest_shop = made["shop"].value_counts().index[0]
    kinds = made.loc[made["shop"] == largest_shop, "kind"]
    assert kinds.value_counts(normalize=True).iloc[0] < 0.5


def test_neighbours():
    """Another shop of one payment, of its kind and of another: the same noise, and a loss within the guarantee."""
    table = payments(400)
    rng = np.random.default_rng(0)
    for _ in range(2):
        neighbour = table.copy()
        neighbour.loc[int(rng.integers(len(table))), "shop"] = DOMAIN["shop"][int(rng.integers(N_SHOPS))]
        release = DPMarginalSynthesizer(6.0, delta=1e-6, domain=DOMAIN, protect=["shop"], max_iter=20)
        replay = replay_release(release, table, neighbour)
        assert replay.passed, replay.findings
