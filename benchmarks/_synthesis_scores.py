"""How far synthetic rows are from real ones, for benchmarks/synthesis_adult.py."""

from __future__ import annotations

import numpy as np
import pandas as pd
from _synthesis_tables import Table, encode
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score
from threadpoolctl import threadpool_limits

from skdp.metrics import marginal_error

Scores = dict[str, float]
SOME = 30  # of the 3-way marginals


def adult_scores(table: Table, synthetic: np.ndarray) -> Scores:
    """Return the mean errors of the marginals, and the area under the curve of a classifier."""
    some = _error(table, synthetic, 3, n_marginals=SOME, random_state=0)
    errors = {f"{order}-way": _error(table, synthetic, order) for order in (1, 2)}
    return errors | {
        "3-way": some,
        "all 3-way": _error(table, synthetic, 3),
        "AUC": _auc(table, synthetic),
    }


def aim_scores(table: Table, synthetic: np.ndarray) -> Scores:
    """Return AIM's measure: the mean L1 distance of all 3-way marginals."""
    return {"L1": 2 * _error(table, synthetic, 3)}


def growth_scores(table: Table, synthetic: np.ndarray) -> Scores:
    """Return the mean errors of the marginals of one and two columns."""
    return {f"{order}-way": _error(table, synthetic, order) for order in (1, 2)}


def _error(table: Table, synthetic: np.ndarray, order: int, **options: int) -> float:
    columns, sizes = table.domain.columns, table.domain.sizes
    real, other = (
        pd.DataFrame(dict(zip(columns, codes, strict=True)))
        for codes in (table.codes, synthetic)
    )
    domain = {column: range(size) for column, size in zip(columns, sizes, strict=True)}
    return marginal_error(real, other, order=order, domain=domain, **options)


def _auc(table: Table, synthetic: np.ndarray) -> float:
    """Train on synthetic rows and test on real ones; the last column is predicted."""
    test = encode(table.test, table.domain)
    *features, target = synthetic
    if (target == target[0]).all():
        return 0.5
    model = HistGradientBoostingClassifier(
        random_state=0, categorical_features=table.categorical[:-1]
    )
    # Several threads wait for each other busily when the cores are shared.
    with threadpool_limits(1):
        model.fit(np.array(features).T, target)
        return float(roc_auc_score(test[-1], model.predict_proba(test[:-1].T)[:, 1]))
