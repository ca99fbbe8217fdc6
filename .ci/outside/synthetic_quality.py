"""Score synthetic rows with the quality and diagnostic reports of sdmetrics, beside real rows and other libraries.

Tables: Adult, and the published tables in the folder that `SKDP_BENCH_DATA` names. Other libraries are AIM and MST of
dpmm in the environment that `benchmarks/_peers.py` describes; without it, their lines are left out. All methods get
the same declared values and bins. AIM and MST draw bins; numbers are drawn uniformly within them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sdmetrics.reports.single_table import DiagnosticReport, QualityReport

from skdp import Interval

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
from _tables import Table, load_published, synthesize
from synthesis import resample, synthesize_peer

EPSILONS = 1.0, 10.0
METHODS: dict[str, Callable[..., pd.DataFrame]] = {
    "skdp": synthesize,
    "MST of dpmm": partial(synthesize_peer, name="MST", library="dpmm"),
    "AIM of dpmm": partial(synthesize_peer, name="AIM", library="dpmm"),
}
# AIM takes minutes to hours on the other tables.
PEER_TABLES = "COMPAS", "LSAC"


def describe_columns(table: Table) -> dict[str, Any]:
    """Return the metadata that sdmetrics reads."""
    return {
        "columns": {
            name: {
                "sdtype": "numerical"
                if isinstance(table.domain[name], Interval)
                else "categorical"
            }
            for name in table.columns
        }
    }


def draw_within_bins(table: Table, rows: pd.DataFrame) -> pd.DataFrame:
    """Replace the middle of each bin by a whole number from the bin."""
    rng = np.random.default_rng(2026)
    rows = rows.copy()
    for name in table.columns:
        if isinstance(table.domain[name], Interval):
            edges = np.asarray(table.domain[name].edges, float)
            bins = np.searchsorted(edges, rows[name], side="right") - 1
            low, high = np.ceil(edges[bins]), np.ceil(edges[bins + 1])
            rows[name] = rng.integers(low, np.maximum(high, low + 1)).astype(float)
    return rows


def score(table: Table, rows: pd.DataFrame) -> list[float]:
    """Compute the scores of both reports; 1 is best."""
    metadata = describe_columns(table)
    dtypes = {
        name: float if column["sdtype"] == "numerical" else str
        for name, column in metadata["columns"].items()
    }
    real, rows = (frame[table.columns].astype(dtypes) for frame in (table.train, rows))
    quality, diagnostic = QualityReport(), DiagnosticReport()
    # By default, pairs with a weak association are excluded: on COMPAS, all pairs.
    quality.real_correlation_threshold = quality.real_association_threshold = 0
    scores = []
    for report in (quality, diagnostic):
        report.generate(real, rows, metadata, verbose=False)
        scores += report.get_properties()["Score"].tolist()
    return scores


def main() -> None:
    print(
        "table | epsilon | method | column shapes | pair trends | validity | structure"
    )
    for title, load in load_published().items():
        table = load()
        print_scores(
            title, "none", "real rows, resampled", table, resample(table, 0, 0)
        )
        for epsilon in EPSILONS:
            for name, method in METHODS.items():
                is_peer = name.endswith("dpmm")
                if is_peer and title not in PEER_TABLES:
                    continue
                try:
                    rows = method(table, epsilon, 0)
                except ImportError:
                    continue
                if is_peer:
                    rows = draw_within_bins(table, rows)
                print_scores(title, f"{epsilon:g}", name, table, rows)


def print_scores(
    title: str, epsilon: str, name: str, table: Table, rows: pd.DataFrame
) -> None:
    values = " | ".join(f"{value:.4f}" for value in score(table, rows))
    print(f"{title} | {epsilon} | {name} | {values}", flush=True)


if __name__ == "__main__":
    main()
