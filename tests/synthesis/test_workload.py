"""A workload is measured, or a warning names the excluded marginals and the reason; paid scores are available."""

import itertools
import warnings

import numpy as np
import pandas as pd
import pytest

from skdp import DPMarginalSynthesizer, PrivacyLedger

N = 4000
BITS = np.random.default_rng(0).integers(0, 2, (3, N))
PARITY = pd.DataFrame({"a": BITS[0], "b": BITS[1], "c": BITS[2], "label": np.bitwise_xor.reduce(BITS)})
DOMAIN = {name: [0, 1] for name in PARITY}
ALL = ("a", "b", "c", "label")


def fit_model(**parameters):
    given = {"epsilon": 1.0, "domain": DOMAIN, "workload": [ALL], "random_state": 0}
    return DPMarginalSynthesizer(**given | parameters).fit(PARITY)


def odd_share(synthesizer):
    """Return the model's probability of a label equal to the parity of the other columns: 1 in the data."""
    cells = synthesizer.model_.marginal((0, 1, 2, 3))
    return sum(cells[bits] for bits in itertools.product((0, 1), repeat=4) if not sum(bits) % 2)


@pytest.mark.parametrize("name", ["marginals", "workload"])
@pytest.mark.parametrize("listed", [iter([ALL]), (pair for pair in [ALL]), [iter(ALL)]])
def test_marginals_of_an_iterator_are_an_error(name, listed):
    """A second fit would read no column from an iterator."""
    with pytest.raises(TypeError, match=f"`{name}` must be a list of tuples"):
        fit_model(**{name: listed})


@pytest.mark.parametrize("delta", [0, 1e-9])
@pytest.mark.parametrize(
    "parameters", [*({"marginals": method} for method in ("auto", "full", [ALL])), {"workload": None, "epsilon": 8.0}]
)
def test_parity_of_three_bits_is_learned(parameters, delta):
    """Also without a workload: the second round scores four columns of few values together."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        synthesizer = fit_model(delta=delta, **parameters)
    assert ALL in synthesizer.selected_cliques_
    assert odd_share(synthesizer) > 0.95


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"marginals": "independent"}, r"\('a', 'b', 'c', 'label'\) \(not in `marginals`"),
        ({"marginals": [("a", "b"), ("c", "label")]}, r"\('a', 'b', 'c', 'label'\) \(not in `marginals`"),
        ({"marginals": "auto", "max_cells": 8}, r"\('a', 'b', 'c', 'label'\) \(more than max_cells=8"),
    ],
)
def test_unsupported_workload_raises_before_charge(parameters, message):
    ledger = PrivacyLedger(epsilon=10)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match=f"(?si)workload.*{message}"):
            fit_model(ledger=ledger, **parameters)
    assert ledger.spent.epsilon == 0


def test_marginals_below_their_noise_are_named_at_the_end():
    workload = [("a",), *itertools.combinations(ALL, 2)]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        synthesizer = fit_model(workload=workload, epsilon=0.01)
    lacking = [pair for pair in workload if pair not in synthesizer.selected_cliques_ and len(pair) > 1]
    assert lacking
    (warning,) = caught
    assert warning.filename == __file__
    assert f"{len(lacking)} marginals of the workload" in str(warning.message)
    assert "more noise than gain" in str(warning.message)
    assert all(repr(pair) in str(warning.message) for pair in lacking[:3])


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


def fitted_places(epsilon=20.0, **parameters):
    domain = {name: list(range(size)) for name, size in SIZES.items()}
    return DPMarginalSynthesizer(epsilon, delta=1e-9, domain=domain, random_state=0, **parameters).fit(TABLE)


def distance_from_independence(first, second):
    counts = pd.crosstab(TABLE[first], TABLE[second]).to_numpy()
    return np.abs(counts - np.outer(counts.sum(axis=1), counts.sum(axis=0)) / N).sum()


def test_scores_are_close_to_the_distances_from_independence():
    scores = fitted_places().pair_scores_
    assert list(scores.index.names) == ["first", "second"]
    assert len(scores) == 6
    assert scores["score"].is_monotonic_decreasing
    assert scores.index[0] == ("place", "region")
    assert scores.loc[("place", "region"), "measured"]
    for pair, row in scores.iterrows():
        assert abs(row["score"] - distance_from_independence(*pair)) < 5 * row["std_error"] + 0.05 * N


@pytest.mark.parametrize(
    ("parameters", "warned"),
    [({}, True), ({"max_cells": 160_000}, False), ({"marginals": "independent"}, False)],
    ids=str,
)
def test_pairs_too_large_for_a_score_are_named(parameters, warned):
    codes = np.random.default_rng(0).integers(0, 400, 50)
    table = pd.DataFrame({"a": codes, "b": codes, "c": codes % 2})
    domain = {"a": range(400), "b": range(400), "c": [0, 1]}
    synthesizer = DPMarginalSynthesizer(1.0, domain=domain, random_state=0, **parameters)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        synthesizer.fit(table)
    assert ["('a', 'b') (more than max_cells" in str(one.message) for one in found] == [True] * warned
