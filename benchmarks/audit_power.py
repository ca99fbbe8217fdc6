"""Which leaks of local transformers audits and checks see, and how often they alarm falsely.

Run ``make bench``, or ``python benchmarks/audit_power.py`` wherever skdp is installed.
"""

from __future__ import annotations

import contextlib
import io
import logging
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from unittest import SkipTest

import pandas as pd
import polars as pl
import pyarrow as pa
from _timing import write_results
from sklearn.base import clone

from skdp.evaluation import audit_epsilon
from skdp.evaluation.audits import audited_transformers
from skdp.testing import privatizer_checks

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.evaluation.leaky_transformers import LEAKS
from tests.testing.test_check_privatizer import KEEPING

DRAWS, MANY = 100_000, 1_000_000
FEWER = 2_000
UNSEEN = "not seen"
CHECKED = [f"contract: {name}" for name in ("split", "joint", "missing", "sets", "numbers", "buckets")]
NEW = ("check_calls_are_alike", "check_rows_draw_their_own_coins", "check_warnings_hide_values")


def main() -> None:
    warnings.simplefilter("ignore")
    logging.lastResort = None
    right = [false_alarms(*one) for one in correct()]
    leaks = [leak(kind) for kind in LEAKS]
    audited = sum(audit != UNSEEN for _, audit, _ in leaks)
    seen = sum(audit != UNSEEN or check != UNSEEN for _, audit, check in leaks)
    counts = [
        ["leaks", f"{len(leaks)}", f"{seen}"],
        ["leaks, by audit_epsilon alone", f"{len(leaks)}", f"{audited}"],
        ["correct, alarms", f"{len(right)}", f"{sum(alarm != 'none' for _, alarm in right)}"],
    ]
    write_results(
        "audit_power",
        "What audits see",
        ("skdp", "numpy", "scipy", "pandas"),
        f"Audits have {DRAWS:,} draws ({MANY:,} for RarelyFails, which takes minutes), of correct transformers "
        f"{FEWER:,}. The checks are those of `check_privatizer`, on leaks that the audit does not see; one counts as "
        "failed for its reason only, not for an error of the class. Of the correct transformers, some of the contract "
        "are given the new checks; `make test-long` runs all checks on them.",
        {
            "Together": (("what", "number", "seen"), counts),
            "Leaks (tests/evaluation/leaky_transformers.py)": (
                ("leak", "audit_epsilon: lower bound, event", "check_privatizer"),
                [list(one) for one in leaks],
            ),
            "Correct transformers": (("what", "alarms"), [list(one) for one in right]),
        },
    )


def quietly(function: Callable[[], Any]) -> Any:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        return function()


def leak(kind: Any) -> tuple[str, str, str]:
    draws = MANY if kind.__name__ == "RarelyFails" else DRAWS
    result = quietly(lambda: audit_epsilon(kind.made(), n_draws=draws))
    if result.rejected:
        return kind.__name__, f"{result.epsilon_lower:.2f}, {result.event}", ""
    checks = privatizer_checks(kind.made())
    found = next((name for name, check in checks if quietly(partial(fails, check))), UNSEEN)
    return kind.__name__, UNSEEN, found.removeprefix("check_").replace("_", " ")


def fails(check: Callable[[], None]) -> bool:
    try:
        check()
    except SkipTest:
        return False
    except AssertionError as failed:
        return failed.__cause__ is None
    return False


def correct() -> Iterator[tuple[str, Any, Any]]:
    for epsilon, k in ((1.0, 4), (2.0, 3)):
        for name, transformer in audited_transformers(epsilon, k):
            yield f"{name}, epsilon {epsilon}, k = {k}", transformer, None
    for name, transformer in KEEPING.items():
        given = transformer.get_params(deep=False)
        declared: dict[str, Any] = {}
        if isinstance(given.get("categories"), str) or ("categories" in given and given["categories"] is None):
            declared = {"categories": {"a": ["x", "y", None], "b": [1, 2]}}
        elif "bounds" in given and given["bounds"] is None:
            declared = {"bounds": {"a": (0.0, 1.0), "b": (-5.0, 5.0)}}
        yield f"contract: {name}", clone(transformer).set_params(**declared), None
    two = pd.DataFrame({"column": [0]}), pd.DataFrame({"column": [1]})
    for name in ("randomised response", "subset selection", "unary encoding, optimized"):
        transformer = dict(audited_transformers())[name]
        yield f"{name}, polars", transformer, [pl.from_pandas(table) for table in two]
        yield f"{name}, pyarrow", transformer, [pa.Table.from_pandas(table) for table in two]
        yield (
            f"{name}, array",
            clone(transformer).set_params(categories=[range(4)]),
            [table.to_numpy() for table in two],
        )


def false_alarms(name: str, transformer: Any, neighbours: Any) -> tuple[str, str]:
    found = []
    result = quietly(lambda: audit_epsilon(transformer, neighbours, n_draws=FEWER))
    if result.rejected:
        found.append(f"audit: {result.event}")
    checks = dict(privatizer_checks(transformer)) if name in CHECKED else {}
    found += [check for check in NEW if check in checks and quietly(partial(fails, checks[check]))]
    return name, "; ".join(found) or "none"


if __name__ == "__main__":
    main()
