"""How near synthetic rows are to Adult's, and what they cost: skdp, the peers that PyPI has, and what no privacy costs.

Run ``make bench``, or ``python benchmarks/synthesis_adult.py`` wherever skdp is installed: it needs no peer itself.
Every synthesizer works in a process of its own, the peers in environments of their own (``make
.venv-bench-mbi/installed .venv-bench-dpmm/installed``); those that are missing are left out. All get the same codes of
the same public domain and are judged by the same judge.

Peers take minutes. So every measurement is kept as a line of ``results/synthesis_adult.jsonl``, and the tables are made
of all that is kept. A run replaces what was kept of the methods and budgets that it measures; with ``--keep`` it only
measures what is not there. With ``--methods`` and nothing behind it, only the tables are written again.

Small budgets on small tables, which ``make bench`` leaves out for time (and the same with 5,000 and with all rows):
``--methods skdp-auto skdp-independent --epsilons 0.01 0.03 0.1 0.3 --seeds 10 --rows 1000``.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from _synthesis_process import python, work
from _synthesis_report import report
from _synthesis_scores import Scores, adult_scores, aim_scores, growth_scores
from _synthesis_tables import Table, adult, aim, growth
from _timing import RESULTS

DELTA = 1e-9
KEPT = RESULTS / "synthesis_adult.jsonl"

Key = tuple[Any, ...]


@dataclass(frozen=True)
class Setting:
    """Tables, how their synthetic rows are judged, the budgets of skdp, and how often at most unless asked for."""

    tables: Callable[[int | None], Iterable[Table]]
    scores: Callable[[Table, np.ndarray], Scores]
    epsilons: tuple[float, ...]
    most_seeds: int = 5


@dataclass(frozen=True)
class Method:
    """How often a method is measured unless the arguments say so, and where."""

    seeds: int
    epsilons: tuple[float | None, ...] | None = None  # None: those of the setting
    settings: tuple[str, ...] = ("adult",)


SETTINGS = {
    "adult": Setting(lambda rows: [adult(rows)], adult_scores, (0.1, 0.3, 1, 3, 10)),
    "aim": Setting(lambda rows: [aim(rows)], aim_scores, (0.1, 0.31, 1, 3.16, 10)),
    "growth": Setting(growth, growth_scores, (1,), most_seeds=1),
}
METHODS = {
    "reference-bootstrap": Method(5, (None,), ("adult", "aim")),
    "reference-shuffled": Method(5, (None,), ("adult", "aim")),
    "skdp-auto": Method(5, settings=("adult", "aim", "growth")),
    "skdp-independent": Method(5),
    "mbi-mst": Method(5, (1,)),
    "mbi-aim": Method(1, (1,)),
    "dpmm-mst": Method(1, (1,)),
    "dpmm-aim": Method(1, (1,)),
}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--setting", choices=SETTINGS, default="adult")
    parser.add_argument(
        "--methods",
        nargs="*",
        choices=METHODS,
        help="by default all that belong to the setting",
    )
    parser.add_argument(
        "--epsilons",
        nargs="+",
        type=float,
        help="by default five of skdp, 1 of the peers",
    )
    parser.add_argument(
        "--seeds", type=int, help="how many; by default 5, of slow ones 1"
    )
    parser.add_argument("--rows", type=int, help="of the real table; by default all")
    parser.add_argument(
        "--limit",
        type=int,
        default=600,
        help="CPU seconds that fit and sample may take (600)",
    )
    parser.add_argument(
        "--keep", action="store_true", help="measure only what is not kept yet"
    )
    return parser.parse_args()


def read() -> dict[Key, dict[str, Any]]:
    """Return what was measured before."""
    lines = KEPT.read_text().splitlines() if KEPT.exists() else []
    return {key(record): record for record in map(json.loads, lines)}


def keep(task: dict[str, Any], records: list[dict[str, Any]], *, others: bool) -> None:
    """Keep new measurements, and the other seeds of the same task or not."""
    kept = {
        at: record
        for at, record in read().items()
        if others or at[:-1] != key(task)[:-1]
    }
    kept |= {key(record): record for record in records}
    RESULTS.mkdir(exist_ok=True)
    KEPT.write_text("".join(json.dumps(record) + "\n" for record in kept.values()))


def key(record: dict[str, Any]) -> Key:
    return tuple(
        record.get(field)
        for field in ("setting", "method", "columns", "rows", "epsilon", "seed")
    )


def measure(
    setting: str, method: str, table: Table, options: argparse.Namespace
) -> None:
    """Measure a method on a table at all budgets, and keep the results."""
    default, place = METHODS[method], SETTINGS[setting]
    epsilons = default.epsilons or place.epsilons
    if options.epsilons and epsilons != (None,):
        epsilons = options.epsilons
    for epsilon in epsilons:
        task = {
            "setting": setting,
            "method": method,
            "columns": len(table.domain.columns),
        }
        task |= {"rows": len(table.frame), "epsilon": epsilon}
        kept, records = read() if options.keep else {}, []
        for seed in range(options.seeds or min(default.seeds, place.most_seeds)):
            record = task | {"seed": seed}
            if key(record) in kept:
                continue
            job = {"method": method, "epsilon": epsilon, "delta": DELTA}
            job |= {"seed": seed, "limit": options.limit}
            costs, rows = work(job, table.frame, table.domain, table.codes)
            records.append(record | costs | {"python": platform.python_version()})
            if rows is None:
                break
            records[-1]["scores"] = place.scores(table, rows)
            print(json.dumps(records[-1]), file=sys.stderr)
        keep(task, records, others=options.keep)


def main() -> None:
    options = arguments()
    belong = [
        method for method in METHODS if options.setting in METHODS[method].settings
    ]
    methods = belong if options.methods is None else options.methods
    present = [method for method in methods if python(method).exists()]
    for method in sorted({*methods} - {*present}):
        print(
            f"{method} is left out: there is no {python(method).parent.parent.name}",
            file=sys.stderr,
        )
    if present:
        for table in SETTINGS[options.setting].tables(options.rows):
            for method in present:
                measure(options.setting, method, table, options)
    report(list(read().values()))


if __name__ == "__main__":
    main()
