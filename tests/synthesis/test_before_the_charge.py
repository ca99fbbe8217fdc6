"""What `fit` cannot do it refuses before the charge, for all ways of choosing marginals."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from skdp import DPMarginalSynthesizer, PrivacyLedger
from skdp.synthesis.model import _graphical_model
from skdp.synthesis.selection import _registry

N = 300
TABLE = pd.DataFrame(np.random.default_rng(0).integers(0, 3, (N, 4)), columns=list("abcd"))
DOMAIN = {name: [0, 1, 2] for name in TABLE}
METHODS = ["auto", "independent", "tree", "adaptive", "full", [("a", "b"), ("c",)]]
ZEROS = [{"a": 0, "b": 1, "c": 2}]
TINY = pytest.mark.filterwarnings("ignore:pairs of columns with more than max_cells")


def fit(**parameters):
    """Fit, and return whether it was refused, which must have been free."""
    ledger = PrivacyLedger(epsilon=100)
    given = {"domain": DOMAIN, "ledger": ledger, "random_state": 0, "max_iter": 5}
    synthesizer = DPMarginalSynthesizer(**given | parameters)
    try:
        synthesizer.fit(TABLE)
    except ValueError as error:
        assert ledger.spent.epsilon == 0
        return str(error)
    assert ledger.spent.epsilon == 1
    assert len(synthesizer.sample(3)) == 3
    return None


@pytest.mark.parametrize("marginals", METHODS, ids=str)
@pytest.mark.parametrize("max_cells", [2, 9, 26, 27])
def test_zeros_above_the_largest_size(marginals, max_cells):
    """A tree of pairs drew its scores, and then had no pair that fitted."""
    refused = fit(marginals=marginals, max_cells=max_cells, structural_zeros=ZEROS)
    assert (refused is not None) == (marginals in ("auto", "tree", "adaptive") and max_cells < 27)
    if refused:
        assert "structural_zeros" in refused
        assert "max_cells" in refused
        assert "27 cells" in refused


@pytest.mark.parametrize("marginals", METHODS, ids=str)
@pytest.mark.parametrize("zeros", [None, [{"a": 0, "b": 1}]])
@pytest.mark.parametrize("max_cells", [2, 10**9])
@pytest.mark.parametrize("most", [3, 9, 81])
@TINY
def test_more_cells_than_are_computed(marginals, zeros, max_cells, most, monkeypatch):
    """With `max_cells` above what is computed, the model of chosen marginals was too large when it was paid for."""
    for module in (_graphical_model, _registry):
        monkeypatch.setattr(module, "MOST_CELLS", most)
    if (zeros and max_cells < 9 and marginals in ("auto", "tree", "adaptive")) or (zeros and most < 9):
        assert fit(marginals=marginals, max_cells=max_cells, structural_zeros=zeros)
    else:
        refused = fit(marginals=marginals, max_cells=max_cells, structural_zeros=zeros)
        largest = 81 if marginals == "full" else 9 if isinstance(marginals, list) else 3
        assert (refused is None) == (largest <= most)


@TINY
def test_a_tree_where_nothing_fits_measures_the_columns(monkeypatch):
    """All together the columns have more than four times `max_cells` cells."""
    domain = {name: list(range(40)) for name in TABLE}
    assert fit(marginals="tree", max_cells=30, domain=domain, structural_zeros=[{"a": 0}]) is None


@pytest.mark.parametrize("marginals", ["auto", "full"])
@pytest.mark.parametrize(("epsilon", "delta"), [(1e-300, 0), (1e-300, 1e-300), (1e-31, 1e-31)])
def test_noise_without_end_is_refused(marginals, epsilon, delta):
    """Its variance overflowed, when it was charged."""
    assert "too small" in fit(marginals=marginals, epsilon=epsilon, delta=delta)


@pytest.mark.parametrize("marginals", ["auto", "tree", "full"])
@pytest.mark.parametrize(("epsilon", "delta"), [(1e-29, 0), (1e-29, 1e-29), (1e300, 0), (1e300, 0.999)])
def test_extreme_promises_are_kept(marginals, epsilon, delta):
    synthesizer = DPMarginalSynthesizer(
        epsilon, delta=delta, domain=DOMAIN, marginals=marginals, random_state=0, max_iter=2
    ).fit(TABLE)
    assert len(synthesizer.sample(3)) == 3
