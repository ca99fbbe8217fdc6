"""Cells that are cut where noisy counts are large: models within bounds far wider than the values."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import r2_score, roc_auc_score

from skdp import DPAdditiveClassifier, DPAdditiveRegressor
from skdp.privacy import Mu
from skdp.testing import replay_release
from tests.conftest import each

rng = np.random.default_rng(0)
N = 3_000
WIDE = [(1_000, 2_000_000), (-1_000_000, 1_000_000), (0, 10_000_000)]
# Close to each other, where the bounds do not say.
VALUES = pd.DataFrame({"a": 50_000 + rng.uniform(0, 40, N), "b": rng.uniform(0, 1, N)})
EFFECT = (VALUES["a"] - 50_020) / 5 + 2 * VALUES["b"]
CLASS = (rng.random(N) < 1 / (1 + np.exp(-EFFECT))).astype(int).to_numpy()
NUMBER = (EFFECT + rng.normal(0, 0.5, N)).to_numpy()


def model_of(make, epsilon, ends, **more):
    declared = {"bounds": {"a": ends, "b": (0, 1)}, "random_state": 0} | more
    if make is DPAdditiveClassifier:
        return make(epsilon, classes=[0, 1], **declared)
    return make(epsilon, target_bounds=(-10, 10), **declared)


@each("ends", WIDE)
@each("make", [DPAdditiveClassifier, DPAdditiveRegressor])
def test_values_in_one_cell_of_wide_bounds_are_told_apart(make, ends):
    epsilon = Mu(2.0, delta=1e-6)
    is_number = make is DPAdditiveRegressor
    target = NUMBER if is_number else CLASS
    model = model_of(make, epsilon, ends).fit(VALUES, target)
    if is_number:
        assert r2_score(target, model.predict(VALUES)) > 0.8
    else:
        assert roc_auc_score(target, model.decision_function(VALUES)) > 0.85


@pytest.mark.filterwarnings("ignore::UserWarning")
@each("where", ["other cells", "outside", "missing"])
@each("make", [DPAdditiveClassifier, DPAdditiveRegressor])
def test_a_record_changes_no_more_than_its_share(make, where):
    # So little noise that cells are cut on every level, also by few rows.
    n = 30
    table = VALUES.iloc[:n].reset_index(drop=True)
    is_number = make is DPAdditiveRegressor
    target = pd.Series((NUMBER if is_number else CLASS)[:n], name="y")
    added = {"other cells": (1_900_000.0, 0.5), "outside": (-5.0, 2.0), "missing": (np.nan, np.nan)}[where]
    longer = pd.concat([table, pd.DataFrame([added], columns=table.columns)], ignore_index=True)
    longer_target = pd.Series([*target, target[0]], name="y")
    model = model_of(make, Mu(20.0, delta=1e-6), (1_000, 2_000_000))
    fitted = replay_release(model, table.assign(y=target), longer.assign(y=longer_target))
    assert fitted.passed, fitted.findings
    # The counts of the levels, of which the first is of all cells.
    sizes = fitted.draws["size"].to_numpy()
    first = int(np.flatnonzero(sizes > 1_000)[0])
    level_losses = fitted.draws["rho"].to_numpy()[first : first + 3]
    share = 20.0**2 / 2 / 200
    assert level_losses.max() <= share * (1 + 1e-9)
    if where == "other cells":
        assert level_losses[0] == pytest.approx(share)
