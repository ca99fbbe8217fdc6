"""How much of its guarantee the noise of a curator uses, and which faults of sensitivity a replay finds.

Run ``make bench``, or ``python benchmarks/sensitivity.py`` wherever skdp is installed.
"""

from __future__ import annotations

import itertools
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from _timing import write_results

from skdp.testing import check_sensitivity, replay_release

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.testing import broken_curators
from tests.testing.central_releases import RELEASES, neighbours_of

PAIRS = 4
UNSEEN = "not seen"


def main() -> None:
    warnings.simplefilter("ignore")
    faults = [[kind.__name__, fault(kind)] for kind in broken_curators.FAULTS]
    shares = [share(name) for name in RELEASES]
    counts = [
        [
            "faults, by check_sensitivity",
            f"{len(faults)}",
            f"{sum(found != UNSEEN for _, found in faults)}",
        ],
        [
            "releases of this library, alarms",
            f"{len(shares)}",
            f"{sum(one[-1] != 'none' for one in shares)}",
        ],
    ]
    write_results(
        "sensitivity",
        "The sensitivity of curators",
        ("skdp", "numpy", "scipy", "pandas"),
        "The noise of a release is recorded for a table and replayed on its neighbour, which shows what the noise was "
        "added to. The tables of each release are chosen to reach its sensitivity; beside them, some of all tables of "
        f"one and of two of their rows, and {PAIRS} random ones of up to eight. A share of 1 says that the noise is as "
        "small as the guarantee allows for these neighbours, one above 1 that the guarantee is false.",
        {
            "Together": (("what", "number", "seen"), counts),
            "Releases of this library": (
                ("release", "pairs", "largest share of the stated epsilon", "findings"),
                shares,
            ),
            "Faults (tests/testing/broken_curators.py)": (
                ("fault", "check_sensitivity"),
                faults,
            ),
        },
    )


def fault(kind: Any) -> str:
    table = broken_curators.TABLE
    replaced = (
        [pd.concat([table[:-1], table[:1]])] if kind.relation == "replace" else None
    )
    try:
        check_sensitivity(kind(), table, replaced)
    except AssertionError as found:
        return str(found)
    return UNSEEN


def tables(
    name: str, table: pd.DataFrame
) -> Iterator[tuple[pd.DataFrame, pd.DataFrame]]:
    """Yield the chosen pairs, those of all tables of one and two of the rows, and random ones of up to eight."""
    yield from neighbours_of(name, table)
    if name == "synthesizer of persons":
        return
    rng = np.random.default_rng(len(name))
    rows = table.drop_duplicates()
    tiny = [
        list(places)
        for size in (1, 2)
        for places in itertools.product(range(len(rows)), repeat=size)
    ]
    mixed = [
        rng.integers(len(rows), size=rng.integers(3, 9)).tolist() for _ in range(PAIRS)
    ]
    chosen = [tiny[place] for place in rng.permutation(len(tiny))[:PAIRS]] + mixed
    for places in chosen:
        made = rows.iloc[places]
        yield made, made.iloc[:-1]


def share(name: str) -> list[str]:
    release, table = RELEASES[name]
    largest, findings, pairs = 0.0, set(), 0
    for turn, (one, other) in enumerate(tables(name, table)):
        found = replay_release(release, one, other, random_state=turn)
        largest = max(largest, found.epsilon / found.guarantee.epsilon)
        findings.update(found.findings)
        pairs += 1
    return [name, f"{pairs}", f"{largest:.4f}", "; ".join(sorted(findings)) or "none"]


if __name__ == "__main__":
    main()
