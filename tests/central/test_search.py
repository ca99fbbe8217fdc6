"""Cross-validation and searches refit private steps, and every fit is charged."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline

from skdp import BudgetExceeded, DPStandardScaler, PrivacyLedger

X = np.random.default_rng(0).uniform(size=(300, 3))
y = X[:, 0] > 0.5


def pipeline(ledger):
    return make_pipeline(DPStandardScaler(epsilon=0.5, bounds=(0, 1), ledger=ledger), LogisticRegression())


@pytest.mark.filterwarnings("ignore:the noise drowns")
class TestCharges:
    def test_five_folds_are_five_fits(self):
        ledger = PrivacyLedger(epsilon=10)
        cross_val_score(pipeline(ledger), X, y, cv=5, error_score="raise")
        assert ledger.spent == (2.5, 0)
        assert len(ledger.report()) == 5

    @pytest.mark.long  # as tests/privacy/test_ledger.py shows for other steps
    def test_five_folds_in_two_processes(self, tmp_path):
        ledger = PrivacyLedger(tmp_path / "ledger.sqlite", epsilon=10)
        cross_val_score(pipeline(ledger), X, y, cv=5, n_jobs=2, error_score="raise")
        assert ledger.spent == (2.5, 0)

    @pytest.mark.long  # as tests/privacy/test_ledger.py shows for other steps
    def test_a_ledger_in_memory_refuses_two_processes(self):
        ledger = PrivacyLedger(epsilon=10)
        with pytest.raises(RuntimeError, match="belongs to one process"):
            cross_val_score(pipeline(ledger), X, y, cv=5, n_jobs=2, error_score="raise")
        assert ledger.spent == (0, 0)

    def test_a_search_charges_every_fit_and_stops_at_the_budget(self):
        ledger = PrivacyLedger(epsilon=10)
        grid = {"logisticregression__C": [0.1, 1.0, 10.0]}
        GridSearchCV(pipeline(ledger), grid, cv=3, error_score="raise").fit(X, y)
        assert ledger.spent == (0.5 * 10, 0)  # 3 x 3 fits, and the best one again on all rows
        short = PrivacyLedger(epsilon=1.2)
        with pytest.raises(BudgetExceeded):
            GridSearchCV(pipeline(short), grid, cv=3, error_score="raise").fit(X, y)
        assert short.spent == (1.0, 0)
