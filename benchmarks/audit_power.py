"""Which faults audits, checks and replays see, of local transformers and of curators, and how often they alarm falsely.

Run ``make bench``, or ``python benchmarks/audit_power.py`` wherever skdp is installed.
"""

from __future__ import annotations

import contextlib
import io
import logging
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from unittest import SkipTest

import pandas as pd
import polars as pl
import pyarrow as pa
from _timing import write_results
from sklearn.base import clone

from skdp import (
    FrequencyOracleEncoder,
    HadamardResponseEncoder,
    Interval,
    LocalHashingEncoder,
    LocalTableEncoder,
    NumericPerturber,
    RandomizedResponseEncoder,
    SubsetSelectionEncoder,
    UnaryEncodingTransformer,
)
from skdp.evaluation import audit_epsilon
from skdp.evaluation.audits import audited_transformers
from skdp.testing import privatizer_checks

sys.path.insert(0, str(Path(__file__).parents[1]))

from _leaky_transformers import LEAKS
from audit import FEWER as MORE
from audit import faults
from sensitivity import UNSEEN, fault

from tests.testing.broken_curators import FAULTS, TABLE
from tests.testing.test_check_privatizer import MUTANTS

TRIES, MANY = (20_000, 100_000), 1_000_000
FEWER = 10_000  # of correct transformers, and calls of a curator
RARE = "RarelyFails"
CHECKED = [
    f"contract: {name}"
    for name in ("split", "joint", "missing", "sets", "numbers", "buckets")
]
NEW = (
    "check_calls_are_alike",
    "check_rows_draw_their_own_coins",
    "check_warnings_hide_values",
)

VALUES = {"a": ["x", "y", None], "b": [1, 2]}
BOUNDS = {"a": (0.0, 1.0), "b": (-5.0, 5.0)}
CORRECT = {
    "split": RandomizedResponseEncoder(categories=VALUES),
    "joint": RandomizedResponseEncoder(
        0.5, strategy="joint", categories=VALUES, handle_unknown="uniform"
    ),
    "interval": RandomizedResponseEncoder(
        3.0,
        strategy="joint",
        categories={"age": Interval(0, 100, bins=4), "sex": ["f", "m"]},
        handle_unknown="uniform",
    ),
    "missing": RandomizedResponseEncoder(
        1.5, categories={"job": ["clerk", None]}, handle_unknown=None
    ),
    "seeded": RandomizedResponseEncoder(
        categories={"a": ["a", "b"], "b": [True, False]}, random_state=3
    ),
    "large epsilon": RandomizedResponseEncoder(
        150.0, categories={"a": [0.5, 1.5, None]}
    ),
    "sampled": RandomizedResponseEncoder(2.0, strategy="sample", categories=VALUES),
    "bits": UnaryEncodingTransformer(epsilon=None, p=0.75, q=0.25, categories=VALUES),
    "unbiased bits": UnaryEncodingTransformer(
        2.0, variant="symmetric", output="unbiased", categories=VALUES
    ),
    "sets": SubsetSelectionEncoder(2.0, categories=VALUES),
    "sampled sets": SubsetSelectionEncoder(2.0, strategy="sample", categories=VALUES),
    "buckets": LocalHashingEncoder(2.0, strategy="joint", categories=VALUES),
    "indices": HadamardResponseEncoder(2.0, categories=VALUES),
    "best oracle": FrequencyOracleEncoder(2.0, categories=VALUES),
    "numbers": NumericPerturber(grid_size=16, bounds=BOUNDS),
    "ends": NumericPerturber(mechanism="laplace", grid_size=1, bounds=BOUNDS),
    "windows": NumericPerturber(mechanism="distribution", grid_size=16, bounds=BOUNDS),
    "square waves": NumericPerturber(
        mechanism="square_wave", grid_size=16, bounds=BOUNDS
    ),
    "table": LocalTableEncoder(
        2.0, categories={"a": ["x", "y", None]}, bounds={"b": (-5.0, 5.0)}
    ),
    "table of values": LocalTableEncoder(
        2.0,
        purpose="model",
        categories={"a": ["x", "y", None]},
        bounds={"b": (-5.0, 5.0)},
    ),
    "sampled numbers": NumericPerturber(
        6.0, strategy="sample", n_sampled=2, grid_size=16, bounds=BOUNDS
    ),
    "Laplace noise": NumericPerturber(mechanism="laplace", grid_size=16, bounds=BOUNDS),
}


def main() -> None:
    warnings.simplefilter("ignore")
    logging.lastResort = None
    leaks = [leak(kind) for kind in LEAKS]
    others = [
        [type(one).__name__, seen_by_audit(one, tables, (MORE,), **more)]
        for one, tables, more in faults()
    ]
    breaks = [
        [kind.__name__, broken(name, kind(**given))] for kind, given, name in MUTANTS
    ]
    curators = [curator(kind) for kind in FAULTS]
    right = [false_alarms(*one) for one in correct()]
    together = [
        count("leaks beside the reports", leaks, ("audit", "checks")),
        count("faults of other libraries", others, ("audit",)),
        count("breaks of a transformer's contract", breaks, ("checks",)),
        count("faults of curators", curators, ("audit", "replay")),
    ]
    alarms = sum(alarm != "none" for _, alarm in right)
    write_results(
        "audit_power",
        "What audits see",
        ("skdp", "numpy", "scipy", "pandas", "polars", "pyarrow"),
        "A black box is released and looked at: by `audit_epsilon`, whose lower bound of epsilon must be above the "
        f"claim, with {TRIES[0]:,} draws, or, where these refute nothing, {TRIES[1]:,} ({MANY:,} for {RARE}), "
        f"{MORE:,} for the faults of other libraries, and {FEWER:,} fits of a curator; or by the checks of "
        "`check_privatizer`, where one counts as failed for its reason only, not for an error of the class. In a grey "
        "box the noise is recorded and replayed on a neighbour: `check_sensitivity`. Of leaks, the checks run on those "
        "that the audit does not see; of breaks of the contract, the check that is made for it. Correct transformers "
        f"are audited, each with at most {FEWER:,} draws, and some are given the checks of many calls too; `make "
        "test-long` runs all checks on them. Correct releases of curators are on the page on sensitivity. No audit and "
        "no check proves that a guarantee holds.",
        {
            "Together": (
                (
                    "what",
                    "number",
                    "audit_epsilon",
                    "check_privatizer",
                    "check_sensitivity",
                    "missed",
                ),
                together,
            ),
            "False alarms": (
                ("what", "number", "alarms"),
                [["correct local transformers", f"{len(right)}", f"{alarms}"]],
            ),
            "Leaks": (
                ("leak", "audit_epsilon: lower bound, event", "check_privatizer"),
                leaks,
            ),
            "Faults of other libraries, re-created": (
                ("fault", "audit_epsilon: lower bound, event"),
                others,
            ),
            "Breaks of the contract (tests/testing/test_check_privatizer.py)": (
                ("break", "check_privatizer"),
                breaks,
            ),
            "Faults of curators (tests/testing/broken_curators.py)": (
                ("fault", "audit_epsilon: lower bound, event", "check_sensitivity"),
                curators,
            ),
            "Correct transformers": (("what", "alarms"), right),
        },
    )


def count(
    what: str, rows: Sequence[Sequence[str]], asked: tuple[str, ...]
) -> list[str]:
    """Count what each way sees; a way that is not asked, as the fault was seen already, leaves an empty cell."""
    seen = {
        way: sum(row[place] not in (UNSEEN, "") for row in rows)
        for place, way in enumerate(asked, 1)
    }
    missed = sum(all(cell in (UNSEEN, "") for cell in row[1:]) for row in rows)
    tried = {
        way: sum(row[place] != "" for row in rows) for place, way in enumerate(asked, 1)
    }
    cells = [
        f"{seen[way]} of {tried[way]}" if way in asked else "–"
        for way in ("audit", "checks", "replay")
    ]
    return [what, f"{len(rows)}", *cells, f"{missed}"]


def quietly(function: Callable[[], Any]) -> Any:
    with (
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        return function()


def seen_by_audit(
    release: Any, neighbours: Any, tries: Sequence[int], **more: Any
) -> str:
    """Audit with more and more draws until the claim is refuted."""
    for draws in tries:
        result = quietly(
            lambda n=draws: audit_epsilon(release, neighbours, n_draws=n, **more)
        )
        if result.rejected:
            return f"{result.epsilon_lower:.2f}, {result.event}"
    return UNSEEN


def leak(kind: Any) -> list[str]:
    found = seen_by_audit(
        kind.made(), None, (MANY,) if kind.__name__ == RARE else TRIES
    )
    if found != UNSEEN:
        return [kind.__name__, found, ""]
    checks = sorted(privatizer_checks(kind.made()), key=lambda one: one[0] not in NEW)
    return [
        kind.__name__,
        found,
        next((said(name) for name, check in checks if fails(check)), UNSEEN),
    ]


def broken(name: str, mutant: Any) -> str:
    return said(name) if fails(dict(privatizer_checks(mutant))[name]) else UNSEEN


def curator(kind: Any) -> list[str]:
    last = TABLE["value"].to_numpy().copy()
    last[-1] = 0
    other = pd.DataFrame({"value": last}) if kind.relation == "replace" else TABLE[:-1]
    return [
        kind.__name__,
        seen_by_audit(kind(), [TABLE, other], (FEWER,)),
        quietly(partial(fault, kind)),
    ]


def said(name: str) -> str:
    return name.removeprefix("check_").replace("_", " ")


def fails(check: Callable[[], None]) -> bool:
    try:
        quietly(check)
    except SkipTest:
        return False
    except AssertionError as failed:
        return failed.__cause__ is None
    return False


def correct() -> Iterator[tuple[str, Any, Any]]:
    for epsilon, k in ((1.0, 4), (2.0, 3)):
        for name, transformer in audited_transformers(epsilon, k):
            yield f"{name}, epsilon {epsilon}, k = {k}", transformer, None
    for name, transformer in CORRECT.items():
        yield f"contract: {name}", transformer, None
    two = pd.DataFrame({"column": [0]}), pd.DataFrame({"column": [1]})
    for name in (
        "randomised response",
        "subset selection",
        "unary encoding, optimized",
    ):
        transformer = dict(audited_transformers())[name]
        yield f"{name}, polars", transformer, [pl.from_pandas(table) for table in two]
        yield (
            f"{name}, pyarrow",
            transformer,
            [pa.Table.from_pandas(table) for table in two],
        )
        yield (
            f"{name}, array",
            clone(transformer).set_params(categories=[range(4)]),
            [table.to_numpy() for table in two],
        )


def false_alarms(name: str, transformer: Any, neighbours: Any) -> list[str]:
    found = seen_by_audit(transformer, neighbours, (FEWER,))
    alarms = [] if found == UNSEEN else [f"audit: {found}"]
    checks = dict(privatizer_checks(transformer)) if name in CHECKED else {}
    alarms += [said(check) for check in NEW if check in checks and fails(checks[check])]
    return [name, "; ".join(alarms) or "none"]


if __name__ == "__main__":
    main()
