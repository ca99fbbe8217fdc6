"""The noisy scores that were paid for stay on the synthesizer, and a strong pair without room is named."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

from skdp import DPMarginalSynthesizer
from skdp.privacy import WeakGuaranteeWarning

N = 3000
RNG = np.random.default_rng(0)
PLACE = RNG.integers(0, 12, N)
TABLE = pd.DataFrame(
    {
        "place": PLACE,
        "region": PLACE // 2,
        "kind": np.where(RNG.random(N) < 0.8, PLACE % 4, RNG.integers(0, 4, N)),
        "other": RNG.integers(0, 3, N),
    }
)
SIZES = {"place": 12, "region": 6, "kind": 4, "other": 3}
DOMAIN = {name: list(range(size)) for name, size in SIZES.items()}


def fitted(epsilon=20.0, **parameters):
    return DPMarginalSynthesizer(epsilon, delta=1e-9, domain=DOMAIN, random_state=0, **parameters).fit(TABLE)


def distance_from_independence(first, second):
    counts = pd.crosstab(TABLE[first], TABLE[second]).to_numpy()
    return np.abs(counts - np.outer(counts.sum(axis=1), counts.sum(axis=0)) / N).sum()


@pytest.mark.parametrize("marginals", ["auto", "tree"])
def test_scores_are_near_the_distances_from_independence(marginals):
    scores = fitted(marginals=marginals).pair_scores_
    assert list(scores.index.names) == ["first", "second"]
    assert len(scores) == 6
    assert scores["score"].is_monotonic_decreasing
    assert scores.index[0] == ("place", "region")
    assert scores.loc[("place", "region"), "measured"]
    for pair, row in scores.iterrows():
        assert abs(row["score"] - distance_from_independence(*pair)) < 5 * row["std_error"] + 0.05 * N


@pytest.mark.parametrize("marginals", ["independent", "adaptive", [("place", "kind")]])
def test_without_scores_the_table_is_empty(marginals):
    assert fitted(1.0, marginals=marginals).pair_scores_.empty


def test_a_saved_synthesizer_has_the_scores(tmp_path):
    synthesizer = fitted()
    synthesizer.save(tmp_path / "one.zip")
    loaded = DPMarginalSynthesizer.load(tmp_path / "one.zip")
    pd.testing.assert_frame_equal(loaded.pair_scores_, synthesizer.pair_scores_)


def test_the_strongest_pair_is_measured_where_cheaper_ones_would_take_its_room():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        synthesizer = fitted(max_cells=72)  # the cells of this pair
    assert synthesizer.pair_scores_.index[0] == ("place", "region")
    assert synthesizer.pair_scores_.loc[("place", "region"), "measured"]


def test_a_strong_pair_without_room_is_named():
    """Three columns follow a hidden one: any two pairs say too little of the third."""
    hidden = RNG.integers(0, 6, N)
    copies = {name: np.where(RNG.random(N) < 0.7, hidden, RNG.integers(0, 6, N)) for name in "abc"}
    domain = {name: list(range(6)) for name in copies}
    synthesizer = DPMarginalSynthesizer(20.0, delta=1e-9, domain=domain, random_state=0, max_cells=36)
    with pytest.warns(UserWarning, match=r"depend strongly.*max_cells = 36 with \('.', '.'\)"):
        synthesizer.fit(pd.DataFrame(copies))
    assert synthesizer.pair_scores_["measured"].sum() == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", WeakGuaranteeWarning)
        synthesizer.set_params(max_cells=216).fit(pd.DataFrame(copies))


def test_pairs_that_have_room_are_not_named():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", WeakGuaranteeWarning)
        fitted()


def test_a_pair_whose_score_is_chance_is_not_named():
    """Noise in the counts of columns with many rare values makes the score of any pair large."""
    rng = np.random.default_rng(1)
    shares = 1 / np.arange(1, 25) / (1 / np.arange(1, 25)).sum()
    hidden, *columns = rng.choice(24, (13, 30_000), p=shares)
    kept = {f"kept{k}": np.where(rng.random(30_000) < 0.8, hidden, column) for k, column in enumerate(columns[:5])}
    table = pd.DataFrame(kept | {f"alone{k}": column for k, column in enumerate(columns[5:])})
    table = table.astype(pd.CategoricalDtype(range(24), ordered=True))
    for seed in range(5):
        synthesizer = DPMarginalSynthesizer(0.1, delta=1e-9, max_cells=1000, random_state=seed)
        with pytest.warns(UserWarning, match=r"depend strongly.*\('kept") as found:
            synthesizer.fit(table)
        assert not any("alone" in str(one.message) for one in found)


@pytest.mark.parametrize(
    ("parameters", "warned"),
    [({}, True), ({"max_cells": 160_000}, False), ({"marginals": "independent"}, False)],
    ids=str,
)
def test_pairs_that_are_too_large_for_a_score_are_named(parameters, warned):
    codes = np.random.default_rng(0).integers(0, 400, 50)
    table = pd.DataFrame({"a": codes, "b": codes, "c": codes % 2})
    domain = {"a": range(400), "b": range(400), "c": [0, 1]}
    synthesizer = DPMarginalSynthesizer(1.0, domain=domain, max_iter=5, random_state=0, **parameters)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        synthesizer.fit(table)
    assert ["neither scored nor measured: ('a', 'b'). Set" in str(one.message) for one in found] == [True] * warned
