"""What skdp's synthesizer keeps of tables that are hard in different ways: Adult, and generated ones of known laws.

Run ``make bench``, or ``python benchmarks/synthesis_tables.py`` wherever skdp is installed. Every measurement is kept
as a line of ``results/synthesis_tables.jsonl``, and the tables are made of all that is kept; with ``--keep`` a run
only measures what is not there. With ``--tables`` and nothing behind it, only the tables are written again.

Errors are total variation distances of counts of synthetic rows, as many as there are real ones, from those of the real
rows: the mean over all columns, and over at most 1,000 pairs and 300 triples, the same for all methods; and the largest
of those pairs. ``AUC`` is that of gradient boosting that was trained on synthetic rows and predicts real rows that were
kept back. "4 n" draws four times as many rows as there are real ones. "worst pair alone" spends the whole budget on the
pair that "auto" gets most wrong. Where that is worse, other counts tell more of the pair than its own.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import sys
import time
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from _synthesis_generated import CHECKED_ONLY, TABLES, Codes, Generated
from _synthesis_tables import adult as adult_table
from _synthesis_tables import encode
from _timing import RESULTS, write_results
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score
from threadpoolctl import threadpool_limits

from skdp import DPMarginalSynthesizer

DELTA, EPSILONS, SEEDS = 1e-9, (0.1, 0.3, 1.0, 3.0, 10.0, 30.0), 10
ALONE = "worst pair alone"
MORE = "auto, target, 4 n"
METHODS = "auto", "auto, target", MORE, ALONE, "independent"
KEPT = RESULTS / "synthesis_tables.jsonl"
MOST_CELLS, MOST_ALONE = 1_000_000, 100_000
MOST = {1: None, 2: 1_000, 3: 300}
MOST_CATEGORIES = 255  # of gradient boosting; a column of more is taken as a number
KEY = "table", "method", "epsilon", "seed"


def adult() -> Generated:
    """Adult, as in synthesis_adult.py."""
    table = adult_table()
    names, sizes = table.domain.columns, table.domain.sizes
    train, test = table.codes, encode(table.test, table.domain)
    ordered = dict(zip(names, table.categorical, strict=True))
    made = [
        {name: codes.astype(np.int64) for name, codes in zip(names, rows, strict=True)}
        for rows in (train, test)
    ]
    unordered = frozenset(name for name, categorical in ordered.items() if categorical)
    return Generated(
        made[0], made[1], dict(zip(names, sizes, strict=True)), unordered, names[-1]
    )


ALL = {"Adult": adult, **TABLES}


def some(names: Iterable[str], order: int) -> list[tuple[str, ...]]:
    """List the marginals of an order, or as many as are scored."""
    listed, most = list(itertools.combinations(names, order)), MOST[order]
    if most is None or len(listed) <= most:
        return listed
    chosen = np.random.default_rng(order).choice(len(listed), most, replace=False)
    return [listed[place] for place in sorted(chosen)]


def distance(
    table: Generated, rows: dict[str, Codes], clique: tuple[str, ...]
) -> float:
    """Return the total variation distance of a marginal."""
    sizes = [table.sizes[name] for name in clique]
    joint = [
        np.ravel_multi_index([of[name] for name in clique], sizes)
        for of in (table.train, rows)
    ]
    if (cells := math.prod(sizes)) > MOST_CELLS:
        values, places = np.unique(np.concatenate(joint), return_inverse=True)
        joint, cells = np.split(places, [joint[0].size]), values.size
    shares = [np.bincount(part, minlength=cells) / part.size for part in joint]
    return float(np.abs(shares[0] - shares[1]).sum() / 2)


def scores(table: Generated, rows: dict[str, Codes]) -> dict[str, Any]:
    """Return the errors of the marginals, and the area under the curve of a classifier."""
    found: dict[str, Any] = {}
    for order in MOST:
        errors = {
            clique: distance(table, rows, clique) for clique in some(table.sizes, order)
        }
        found[f"{order}-way"] = float(np.mean(list(errors.values())))
        if order == 2:
            worst = max(errors, key=lambda clique: errors[clique])
            found |= {"worst pair": errors[worst], "which pair": list(worst)}
    if table.target is not None:
        found["AUC"] = auc(table, rows)
    return found


def auc(table: Generated, rows: dict[str, Codes]) -> float:
    """Train on synthetic rows, and test on real ones."""
    features = [name for name in table.sizes if name != table.target]
    assert table.target is not None
    label = rows[table.target]
    if (label == label[0]).all():
        return 0.5
    categorical = [
        name in table.unordered and table.sizes[name] <= MOST_CATEGORIES
        for name in features
    ]
    model = HistGradientBoostingClassifier(
        random_state=0, categorical_features=categorical
    )
    # Several threads wait for each other busily when the cores are shared.
    with threadpool_limits(1):
        model.fit(np.array([rows[name] for name in features]).T, label)
        chance = model.predict_proba(
            np.array([table.test[name] for name in features]).T
        )[:, 1]
    return float(roc_auc_score(table.test[table.target], chance))


def measure(
    name: str,
    table: Generated,
    frame: pd.DataFrame,
    method: str,
    epsilon: float,
    seed: int,
    pair: Any = None,
) -> dict[str, Any]:
    """Fit, sample and score once."""
    auto = {"workload": table.workload}
    target = auto | {"target": table.target}
    alone = {"marginals": [tuple(pair or ())]}
    independent = {"marginals": "independent"}
    chosen: Any = dict(
        zip(METHODS, (auto, target, target, alone, independent), strict=True)
    )
    synthesizer = DPMarginalSynthesizer(
        epsilon, delta=DELTA, domain=table.domain, random_state=seed, **chosen[method]
    )
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        synthesizer.fit(frame)
    rows = synthesizer.sample((4 if method == MORE else 1) * len(frame))
    seconds = time.process_time() - start
    pairs = sum(len(clique) > 1 for clique in set(synthesizer.selected_cliques_))
    record = dict(zip(KEY, (name, method, epsilon, seed), strict=True)) | {
        "CPU s": seconds,
        "measured": pairs,
    }
    if pair is not None:
        return record | {
            "worst pair": distance(table, table.encode(rows), tuple(pair)),
            "which pair": pair,
        }
    return record | scores(table, table.encode(rows))


def read(path: Path) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Return what was measured before."""
    lines = path.read_text().splitlines() if path.exists() else []
    return {
        tuple(record[field] for field in KEY): record
        for record in map(json.loads, lines)
    }


def report(records: list[dict[str, Any]]) -> None:
    """Write the mean over the seeds, and whether errors fall."""
    found = pd.DataFrame(records)
    columns = ["1-way", "2-way", "3-way", "worst pair", "AUC", "measured", "CPU s"]
    means = found.groupby(["table", "method", "epsilon"])[columns].mean()
    order = [name for name in ALL if name in set(found["table"])]
    rows = [
        [
            name,
            method,
            f"{epsilon:g}",
            *(_written(column, own[column]) for column in columns),
        ]
        for name in order
        for method in METHODS
        if (name, method) in means.index and method not in (MORE, ALONE)
        for epsilon, own in means.loc[(name, method)].iterrows()
    ]
    kinds = [("worst pair", method) for method in ("auto", ALONE)] + [
        ("AUC", method) for method in METHODS[:3]
    ]
    wide = (
        means[["worst pair", "AUC"]].unstack("method").reindex(columns=kinds).dropna()
    )
    limits = [
        [
            name,
            f"{epsilon:g}",
            *(
                _written(column, value)
                for (column, _), value in wide.loc[(name, epsilon)].items()
            ),
        ]
        for name in order
        if name in wide.index
        for epsilon in wide.loc[name].index
    ]
    seeds = found.groupby(["table", "method", "epsilon"]).size()
    write_results(
        "synthesis_tables",
        "Synthetic rows of tables that are hard",
        ("skdp", "numpy", "scikit-learn"),
        f"Means over {seeds.min()} to {seeds.max()} seeds, delta = {DELTA:g}. Errors are total variation distances "
        "from the real rows, of as many synthetic ones: the mean over columns, at most 1,000 pairs and 300 triples, "
        "and the largest of these pairs. AUC: gradient boosting trained on synthetic rows, tested on real ones that "
        "were kept back; `4 n`: on four times as many synthetic rows. `that pair alone`: the whole budget on the pair "
        "that `auto` gets most wrong. `measured`: marginals of more than one column that are measured. The numbers of "
        f"the method were chosen on Adult and the generated tables, none of them on {' and '.join(CHECKED_ONLY)}; "
        "payments decided between two variants of the method twice.",
        {
            "Errors": (("table", "marginals", "epsilon", *columns), rows),
            "The whole budget on the worst pair, and more rows": (
                (
                    "table",
                    "epsilon",
                    "worst pair",
                    "that pair alone",
                    "AUC",
                    "AUC, target",
                    "AUC, target, 4 n",
                ),
                limits,
            ),
        },
    )


def _written(column: str, value: float) -> str:
    if np.isnan(value):
        return "—"
    return (
        f"{value:.1f}"
        if column in ("measured", "CPU s")
        else f"{value:.3f}"
        if column == "AUC"
        else f"{value:.4f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", nargs="*", choices=ALL, default=list(ALL))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--epsilons", nargs="+", type=float, default=EPSILONS)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument(
        "--keep", action="store_true", help="measure only what is not kept yet"
    )
    parser.add_argument(
        "--kept", type=Path, default=KEPT, help="where measurements are kept"
    )
    options = parser.parse_args()
    kept = read(options.kept)
    for name in options.tables:
        table = ALL[name]()
        frame = table.frame
        for method, epsilon, seed in itertools.product(
            options.methods, options.epsilons, range(options.seeds)
        ):
            pair = (
                kept.get((name, "auto", epsilon, seed), {}).get("which pair")
                if method == ALONE
                else None
            )
            alone = (
                pair is None
                or math.prod(table.sizes[column] for column in pair) > MOST_ALONE
            )
            without = ("target" in method and table.target is None) or (
                method == ALONE and alone
            )
            if without or (options.keep and (name, method, epsilon, seed) in kept):
                continue
            record = measure(name, table, frame, method, epsilon, seed, pair)
            print(json.dumps(record), file=sys.stderr, flush=True)
            kept[name, method, epsilon, seed] = record
            options.kept.parent.mkdir(exist_ok=True)
            options.kept.write_text(
                "".join(json.dumps(record) + "\n" for record in kept.values())
            )
    if options.kept == KEPT and kept:
        report(list(kept.values()))


if __name__ == "__main__":
    main()
