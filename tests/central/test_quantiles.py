"""Quantiles by bisection: the change by a record or a person is replayed on all small tables, with few candidates."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from skdp import DPKBinsDiscretizer, DPMinMaxScaler
from skdp.privacy import Mu, Rho
from skdp.testing import replay_release

MODULE = "skdp.central._quantiles"
VALUES = (0.0, 0.5, 2.0, 7.0, math.nan)
QUARTILES = DPKBinsDiscretizer(n_bins=4, bounds=(0, 2))
UNEVEN = DPMinMaxScaler(bounds=(0, 2), quantile_range=(10, 70))

pytestmark = pytest.mark.filterwarnings("ignore:.* fewer bins than:UserWarning")


@pytest.fixture
def few_candidates(monkeypatch):
    """Choose among three candidates and the cuts between them, and check that scores, gaps and ranges agree."""
    monkeypatch.setattr(f"{MODULE}.PARTS", 2)
    monkeypatch.setattr(f"{MODULE}.make_candidates", lambda low, high: np.arange(3.0))
    module = __import__(MODULE, fromlist=["unimodal_choice"])
    choose = module.unimodal_choice

    def checked(source, size, within, gap, rate, scores):
        gaps = np.array([gap(index) for index in range(size)])
        # An audit gets the scores of some cuts, and last the scores of both bounds.
        shown = scores()
        assert set(shown) <= set((shown[-2] + gaps[0] - gaps).tolist())
        for far in (0, 7):
            assert np.flatnonzero(gaps <= far).tolist() == list(range(*within(far)))
        return choose(source, size, within, gap, rate, scores)

    monkeypatch.setattr(module, "unimodal_choice", checked)


@pytest.mark.usefixtures("few_candidates")
@pytest.mark.parametrize("epsilon", [1.0, Rho(0.1, 1e-6), Mu(0.5, 1e-6)], ids=str)
@pytest.mark.parametrize("model", [QUARTILES, UNEVEN], ids=["quartiles", "uneven"])
def test_added_record_costs_at_most_epsilon(model, epsilon):
    """Tables of up to 2 other rows, on candidates, between and beyond them, of two columns; nan is missing."""
    used = []
    for n_others in range(3 if epsilon == 1.0 else 2):
        others = itertools.combinations_with_replacement(VALUES, n_others)
        for seed, (rows, record) in enumerate(itertools.product(others, VALUES)):
            table = np.column_stack([[*rows, record]] * 2)
            replay = replay_release(model.set_params(epsilon=epsilon), table, table[:-1], random_state=seed)
            assert replay.passed, replay.findings
            used.append(replay.epsilon / replay.guarantee.epsilon)
            assert not math.isnan(record) or replay.epsilon == 0
    assert 0.25 < max(used) <= 1 + 1e-9


@pytest.mark.usefixtures("few_candidates")
@pytest.mark.parametrize("n", [1, 3])
def test_rows_of_a_person_cost_as_much_as_a_single_row(n):
    rows = np.array([2.0] * 6 + [0.0] * n)[:, np.newaxis]
    model = DPKBinsDiscretizer(0.5, n_bins=2, bounds=(0, 2), max_rows_per_person=n)
    assert replay_release(model, rows, rows[:-n]).epsilon == pytest.approx(0.5)
