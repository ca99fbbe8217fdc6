"""How fast, and in how much memory, tables of each kind are privatised, beside scikit-learn's OrdinalEncoder.

Run ``make bench``, or ``python benchmarks/transform.py`` wherever skdp is installed; polars and pyarrow are left out
where they are missing. Each table has 1,000,000 rows and 4 columns of 14 declared values.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from multiprocessing import get_context
from typing import Any

import numpy as np
import pandas as pd
from _timing import (
    best_of,
    installed,
    peak_memory,
    peak_resident,
    verdict,
    write_results,
)
from sklearn.preprocessing import OrdinalEncoder

from skdp import RandomizedResponseEncoder

ROWS, COLUMNS, VALUES = 1_000_000, 4, 14
CELLS = ROWS * COLUMNS
REPEATS = 5
NAMES = [f"c{index}" for index in range(COLUMNS)]
LABELS = [f"occupation {index:02d}" for index in range(VALUES)]
# scikit-learn turns the others into Python objects first.
RIVALLED = ("pandas str", "pandas object", "NumPy object")


def tables() -> dict[str, Any]:
    """Return the same table in every kind that is installed."""
    codes = np.random.default_rng(0).integers(
        VALUES, size=(ROWS, COLUMNS), dtype=np.uint8
    )
    objects = pd.DataFrame(
        np.array(LABELS, dtype=object)[codes], columns=NAMES, dtype=object
    )
    declared = pd.CategoricalDtype(LABELS, ordered=True)
    found: dict[str, Any] = {
        "pandas str": objects.astype("str"),
        "pandas object": objects,
        "pandas category": objects.astype(declared),
        "NumPy object": objects.to_numpy(),
        "NumPy uint8": codes,
        "NumPy int64": codes.astype(np.int64),
    }
    if installed("pyarrow") != "not installed":
        import pyarrow

        found["pyarrow string"] = pyarrow.table(
            {name: pyarrow.array(objects[name].to_numpy()) for name in NAMES}
        )
        found["pyarrow dictionary"] = pyarrow.table(
            {name: found["pyarrow string"][name].dictionary_encode() for name in NAMES}
        )
    if installed("polars") != "not installed":
        import polars

        found["polars String"] = polars.DataFrame(
            {name: objects[name].to_list() for name in NAMES}
        )
        found["polars Enum"] = found["polars String"].cast(polars.Enum(LABELS))
    return found


def encoder_for(table: Any, strategy: str) -> RandomizedResponseEncoder:
    numeric = isinstance(table, np.ndarray) and table.dtype != object
    values = list(range(VALUES)) if numeric else LABELS
    return RandomizedResponseEncoder(
        1.0, strategy=strategy, categories=[values] * COLUMNS
    ).fit(table)


def size_of(table: Any) -> int:
    """Return the bytes of a table; shared Python strings count as the pointers to them."""
    if isinstance(table, pd.DataFrame):
        return int(table.memory_usage(index=False).sum())
    return table.estimated_size() if hasattr(table, "estimated_size") else table.nbytes


def memory(kind: str, strategy: str, table: Any) -> float | None:
    """Return the peak memory of a call as a multiple of the output's."""
    if not kind.startswith("polars"):
        transform = encoder_for(table, strategy).transform
        return peak_memory(lambda: transform(table)) / size_of(transform(table))
    # polars allocates by itself: a process of its own, whose allocator gives everything back at once.
    os.environ["_RJEM_MALLOC_CONF"] = "dirty_decay_ms:0,muzzy_decay_ms:0"
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(resident_memory, (kind, strategy))


def resident_memory(kind: str, strategy: str) -> float | None:
    table = tables()[kind]
    transform = encoder_for(table, strategy).transform
    transform(table.head(VALUES))  # imports
    peak = peak_resident(lambda: transform(table))
    return None if peak is None else peak / size_of(transform(table))


def compare(kind: str, table: Any) -> list[list[str]]:
    calls: dict[str, Callable[[], Any]] = {
        strategy: partial(encoder_for(table, strategy).transform, table)
        for strategy in ("split", "joint")
    }
    memories = {strategy: memory(kind, strategy, table) for strategy in calls}
    rivals = (
        {"OrdinalEncoder": lambda: OrdinalEncoder().fit_transform(table)}
        if kind in RIVALLED
        else {}
    )
    seconds = best_of({**calls, **rivals}, REPEATS)
    rows = []
    for strategy in calls:
        nanoseconds, share = seconds[strategy] * 1e9 / CELLS, memories[strategy]
        target, met = "–", "–"
        if kind == "pandas category":
            target, met = "≤ 20 ns", verdict(nanoseconds <= 20)
        kept = "–" if share is None else f"{share:.1f}"
        fits = "–" if share is None else verdict(share <= 3)
        rows.append(
            [kind, strategy, f"{nanoseconds:.1f}", "1.0", target, met, kept, fits]
        )
    for rival in rivals:
        ratio = min(seconds[rival] / seconds[strategy] for strategy in calls)
        nanoseconds = seconds[rival] * 1e9 / CELLS
        rows.append(
            [
                kind,
                rival,
                f"{nanoseconds:.1f}",
                f"{ratio:.1f}",
                "≥ 1",
                verdict(ratio >= 1),
                "–",
                "–",
            ]
        )
    return rows


def main() -> None:
    for strategy in ("split", "joint"):
        small = pd.DataFrame(dict.fromkeys(NAMES, LABELS))
        # What is imported on first use is not what is measured.
        encoder_for(small, strategy).transform(small)
    rows = [row for kind, table in tables().items() for row in compare(kind, table)]
    columns = (
        "table",
        "what",
        "ns per cell",
        "ratio to skdp",
        "target",
        "met?",
        "peak memory / output",
        "≤ 3?",
    )
    write_results(
        "transform",
        "Privatising tables",
        ("skdp", "numpy", "scikit-learn", "pandas", "polars", "pyarrow"),
        f"{ROWS:,} × {COLUMNS} cells, {VALUES} declared values a column; the best of {REPEATS} turns, all in one "
        "process. The ratio of OrdinalEncoder().fit_transform is to the slower strategy. Memory is the peak of the "
        "call; for polars, the growth of a process of its own.",
        {"RandomizedResponseEncoder.transform": (columns, rows)},
    )


if __name__ == "__main__":
    main()
