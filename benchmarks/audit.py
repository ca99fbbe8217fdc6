"""How fast a promise that is a little false is refuted, and what an audit finds of our transformers and of old faults.

Run ``make bench``, or ``python benchmarks/audit.py`` wherever skdp is installed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from _timing import verdict, write_results

from skdp import RandomizedResponseEncoder
from skdp.evaluation import AuditResult, audit_epsilon
from skdp.evaluation.audits import audited_transformers

sys.path.insert(0, str(Path(__file__).parents[1]))

import _broken_transformers as others

from tests.evaluation import broken_transformers as broken

DRAWS = 1_000_000
FEWER = 200_000
MOST_SECONDS = 5
TURNS = 3  # the best counts: the machine may be busy
COLUMNS = ("what", "claim", "exact", "lower bound", "event", "s", "verdict")


def main() -> None:
    encoder = RandomizedResponseEncoder(1.03, categories={"value": [0, 1]})
    turns = [
        timed(encoder, epsilon=1.0, exact=False, n_draws=DRAWS) for _ in range(TURNS)
    ]
    seconds = min(spent for _, spent in turns)
    bound = min(result.epsilon_lower for result, _ in turns)
    met = verdict(bound > 1 and seconds < MOST_SECONDS)
    small = [
        f"{DRAWS:,}",
        f"{bound:.4f}",
        f"{seconds:.2f}",
        f"bound > 1, < {MOST_SECONDS} s",
        met,
    ]
    ours = [
        row(name, *timed(transformer)) for name, transformer in audited_transformers()
    ]
    theirs = [
        row(type(fault).__name__, *timed(fault, tables, **more))
        for fault, tables, more in faults()
    ]
    write_results(
        "audit",
        "Audits",
        ("skdp", "numpy", "scipy", "pandas"),
        f"Lower bounds of epsilon, each wrong once in a million times at most; {FEWER:,} draws where nothing else is "
        "said. A promise that is not refuted is not thereby proven.",
        {
            "Binary randomised response with epsilon 1.03 against a claim of 1": (
                ("draws", f"least bound of {TURNS}", "s, best", "target", "met?"),
                [small],
            ),
            "Our transformers": (COLUMNS, ours),
            "Faults of other libraries, re-created": (COLUMNS, theirs),
        },
    )


def timed(
    *arguments: Any, n_draws: int = FEWER, **options: Any
) -> tuple[AuditResult, float]:
    start = time.perf_counter()
    result = audit_epsilon(*arguments, n_draws=n_draws, **options)
    return result, time.perf_counter() - start


def row(name: str, result: AuditResult, seconds: float) -> list[str]:
    exact = "–" if result.epsilon_exact is None else f"{result.epsilon_exact:.3f}"
    said = "refuted" if result.rejected else "not refuted"
    numbers = [f"{result.epsilon_claimed:.3f}", exact, f"{result.epsilon_lower:.3f}"]
    return [name, *numbers, result.event, f"{seconds:.1f}", said]


def faults() -> Iterator[tuple[Any, tuple[Any, Any], dict[str, Any]]]:
    two = broken.one(0), broken.one(1)
    for kind in (
        broken.TrueValueFirst,
        others.TrueValueLast,
        others.DrawnAgain,
        others.OwnBitTwice,
        others.OffByOne,
        others.IgnoredHashes,
        broken.RoundedToIdentity,
        broken.KnownSeed,
        broken.FloatLaplace,
        broken.DtypeShows,
        others.NameShows,
        broken.IndexShows,
        broken.AttributesShow,
    ):
        yield kind(), two, {}
    yield (
        others.AmplifiedTuples(),
        (pd.DataFrame([[0] * 5]), pd.DataFrame([[1] * 5])),
        {},
    )
    yield broken.RedrawnReports(), two, {"n_reports": 10, "epsilon": 1.0}
    yield broken.InvertedBranch(), two, {"statistic": broken.InvertedBranch().supports}
    yield broken.MissingPassesThrough(), (broken.one(1.0), broken.one(float("nan"))), {}
    yield others.OffByOne(), (broken.one(9), broken.one(2)), {}
    yield broken.NeverFlips(epsilon=4.0), two, {}
    yield broken.RaisesOnUnknown(), (broken.one(1), broken.one(4)), {}
    yield others.WarnsOnUnknown(), (broken.one(1), broken.one(4)), {}


if __name__ == "__main__":
    main()
