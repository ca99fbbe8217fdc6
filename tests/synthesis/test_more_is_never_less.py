"""More rows or more budget keep a correlation: noise on more cells flattened it (benchmarks/more.py)."""

import numpy as np
import pandas as pd
import pytest

from skdp import DPColumnSynthesizer, DPMarginalSynthesizer, Interval
from skdp.privacy import WeakGuaranteeWarning

KINDS = {
    "normal": lambda x: x,
    "skewed": np.exp,
    "heaped": lambda x: np.minimum(x, -0.67),  # three of four rows have the largest number
}


@pytest.mark.parametrize(
    ("kind", "n", "epsilon"),
    [
        ("normal", 2_000, 4.0),
        ("normal", 8_000, 1.0),
        ("normal", 32_000, 0.3),
        ("skewed", 8_000, 4.0),
        ("heaped", 8_000, 4.0),
    ],
)
def test_pair_keeps_its_rank_correlation(kind, n, epsilon):
    """Less was kept with more rows or more budget: 0.8 of a correlation of 0.7 with 32,000 rows."""
    kept = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=n)
        rows = pd.DataFrame({"x": KINDS[kind](x), "y": x + rng.normal(size=n), "z": rng.choice(["u", "v"], n)})
        domain = {"x": Interval(None, None), "y": Interval(None, None), "z": ["u", "v"]}
        model = DPMarginalSynthesizer(epsilon, delta=1e-6, domain=domain, random_state=seed).fit(rows)
        names = ["x", "y"]
        made, true = (table[names].corr("spearman").iloc[0, 1] for table in (model.sample(n), rows))
        kept.append(made / true)
    assert np.mean(kept) == pytest.approx(1, abs=0.05), kept


def test_pair_is_measured_if_rounded_noise_is_nearly_zero():
    rng = np.random.default_rng(900)
    z = rng.normal(size=500)
    table = pd.DataFrame({"x": np.where(z > -0.67, 100.0, 50 + 10 * z).clip(0, 100), "y": z + rng.normal(size=500)})
    model = DPColumnSynthesizer(["x"], 100.0, delta=1e-6, domain={"x": Interval(0.0, 100.0)}, random_state=0)
    with pytest.warns(WeakGuaranteeWarning):
        model.fit(table)
    assert ("x", "y") in model.measured_columns_
