"""How fast a synthesizer counts, where the table is: all pairs of 14 columns, and what a fit costs beside them.

Run ``python benchmarks/engines_counts.py --rows 10000000`` wherever skdp is installed with the extras dask, duckdb and
polars. The table is Adult's 14 columns, its rows drawn from a model of it, so that nearly all of them differ. Every
measurement runs in a process of its own, all take turns, and the shortest time counts; the peak is that of the whole
process, its imports (some 250 MB) included.

- *all pairs*: the 91 tables of two columns over the declared domain (bins of numbers, unused categories, nulls), and
  the 14 of one, against the best of the engine's own queries for all pairs of values. Those leave out the bins, the
  empty cells and the check that all values are declared.
- *one query*: a histogram, a mean or a tally on DuckDB, against DuckDB's own ``GROUP BY`` of the same columns (of whole
  numbers and reals, by bins of 5; for the mean of reals ``avg``) on the same file in the same run. Here the times are
  also those of the processor, as the two take turns in one process.
- *a fit*: with the marginals that were chosen for 32,561 rows; with noise that is the same share of the table (an
  epsilon in proportion); and with the same epsilon, which buys a larger model of the larger table. The ratio is that of
  fitting and sampling 32,561 rows, counting aside, to the same for 32,561 rows.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from _synthesis_tables import BINS
from _timing import _resident, verdict, write_results

from skdp import (
    Domain,
    DPHistogram,
    DPMarginalSynthesizer,
    DPMean,
    Interval,
    NumericPerturber,
    RandomizedResponseEncoder,
    UnaryEncodingTransformer,
)
from skdp.datasets import load_adult
from skdp.engines import tally
from skdp.synthesis.tables._records import LargeRecords
from skdp.tables import open_large

CENSUS = load_adult()
ADULT = CENSUS.frame.drop(columns="fnlwgt")
FEW = len(ADULT)
GROUP = 1 << 20
TEXT = [name for name in ADULT if ADULT[name].dtype == "category"]
DOMAIN = Domain(
    {name: CENSUS.domain[name] if name in TEXT else BINS[name] for name in ADULT}
)
PAIRS = list(itertools.combinations(DOMAIN.columns, 2))
OURS = ["pyarrow", "duckdb", "polars", "dask"]
OWN = [
    "duckdb: GROUPING SETS",
    "duckdb: GROUP BY, pair by pair",
    "polars: group_by",
    "polars: group_by of categories",
    "dask: groupby",
]
QUERIES = {"duckdb": OWN[:2], "polars": OWN[2:4], "pyarrow": OWN, "dask": OWN[4:]}


def synthesizer(**params: Any) -> DPMarginalSynthesizer:
    return DPMarginalSynthesizer(
        **{"delta": 1e-9, "domain": DOMAIN, "random_state": 0} | params
    )


def write_rows(path: Path, rows: int) -> None:
    table = pa.Table.from_pandas(ADULT, preserve_index=False).replace_schema_metadata(
        None
    )
    schema = pa.schema(
        [
            (name, pa.string() if name in TEXT else table.schema.field(name).type)
            for name in ADULT
        ]
    )
    model = synthesizer(epsilon=10.0).fit(table.cast(schema))
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, rows, GROUP):
            writer.write_table(model.sample(min(GROUP, rows - start)).cast(schema))


def open_frame(engine: str, path: Path) -> Any:
    if engine == "pyarrow":
        return ds.dataset(path)
    if engine == "polars":
        import polars

        return polars.scan_parquet(path)
    if engine == "dask":
        import dask.dataframe

        return dask.dataframe.read_parquet(path)
    import duckdb

    return duckdb.read_parquet(str(path))


def count_pairs(engine: str, path: Path) -> int:
    table = open_large(open_frame(engine, path))
    assert table is not None
    records = LargeRecords(table, DOMAIN, "error")
    places = range(len(DOMAIN.columns))
    cliques = [*((place,) for place in places), *itertools.combinations(places, 2)]
    return sum(int(counts.sum()) for counts in records.count(cliques)) // len(cliques)


def query_pairs(query: str, path: Path) -> int:
    if query.startswith("polars"):
        import polars

        rows = polars.scan_parquet(path)
        if query.endswith("categories"):
            rows = (
                rows.with_columns(polars.col(polars.String).cast(polars.Categorical))
                .collect()
                .lazy()
            )
        counted = polars.collect_all([rows.group_by(pair).len() for pair in PAIRS])
        return sum(int(table["len"].sum()) for table in counted) // len(PAIRS)
    if query.startswith("dask"):
        import dask

        frame = open_frame("dask", path)
        sizes = dask.compute(
            *(frame.groupby(list(pair), dropna=False).size() for pair in PAIRS)
        )
        return sum(int(size.sum()) for size in sizes) // len(PAIRS)
    import duckdb

    rows = duckdb.read_parquet(str(path))
    if query.endswith("SETS"):
        names = ", ".join(f'"{name}"' for name in DOMAIN.columns)
        sets = ", ".join(f'("{first}", "{second}")' for first, second in PAIRS)
        table = rows.query(
            "r", f"SELECT {names}, count(*) AS n FROM r GROUP BY GROUPING SETS ({sets})"
        ).to_arrow_table()
        return sum(table["n"].to_pylist()) // len(PAIRS)
    stored = duckdb.connect()
    stored.execute("CREATE TABLE r AS SELECT * FROM read_parquet(?)", [str(path)])
    queries = [
        f'SELECT "{first}", "{second}", count(*) AS n FROM r GROUP BY ALL'
        for first, second in PAIRS
    ]
    return sum(
        sum(stored.sql(query).to_arrow_table()["n"].to_pylist()) for query in queries
    ) // len(PAIRS)


LABELS = ["never", "sometimes", "often", "always"]


def write_answers(path: Path, rows: int) -> None:
    draw = np.random.default_rng(0)
    perturber, bits = numeric_perturber(), unary_encoder().get_feature_names_out()
    schema = pa.schema(
        {
            "text": pa.string(),
            "word": pa.string(),
            "age": pa.int32(),
            "hours": pa.float64(),
            "report": pa.float64(),
        }
        | dict.fromkeys(bits, pa.int8())
    )
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, rows, GROUP):
            size = min(GROUP, rows - start)
            columns = [
                pa.array(LABELS).take(pa.array(draw.integers(4, size=size))),
                pa.array(LABELS).take(pa.array(draw.integers(4, size=size))),
                pa.array(draw.integers(17, 91, size=size), pa.int32()),
                pa.array(draw.uniform(0, 99, size)),
                pa.array(draw.choice(perturber.report_values_[0], size)),
                *(pa.array(draw.integers(2, size=size, dtype=np.int8)) for _ in bits),
            ]
            writer.write_table(pa.table(columns, schema=schema))


def numeric_perturber() -> NumericPerturber:
    return NumericPerturber(2.0, bounds={"report": (0, 100)}).fit(
        pa.table({"report": [0.0, 1.0]})
    )


def unary_encoder() -> UnaryEncodingTransformer:
    values = pa.table({"bits": LABELS})
    return UnaryEncodingTransformer(2.0, categories={"bits": LABELS}).fit(values)


def query_cases() -> dict[str, tuple[list[str], Callable[[Any], object], str]]:
    """Return of each case its columns, our call, and the keys of DuckDB's own query."""
    domain = Domain(
        {
            "text": LABELS,
            "word": LABELS,
            "age": Interval(0, 100, bins=20),
            "hours": Interval(0, 100, bins=20),
        }
    )

    def histogram(*names: str) -> Callable[[Any], object]:
        return lambda frame: DPHistogram(domain=domain.select(names)).fit(frame)

    def tallied(*names: str, strategy: str = "split") -> Callable[[Any], object]:
        encoder = RandomizedResponseEncoder(
            2.0, categories=domain.select(names), strategy=strategy
        )
        encoder.fit(pa.table(dict.fromkeys(names, LABELS)))
        return lambda frame: tally(frame, encoder)

    perturber, unary = numeric_perturber(), unary_encoder()
    bits = list(unary.get_feature_names_out())
    return {
        "tally of a column of text": (["text"], tallied("text"), "text"),
        "tally of two": (["text", "word"], tallied("text", "word"), "text, word"),
        "tally of two jointly": (
            ["text", "word"],
            tallied("text", "word", strategy="joint"),
            "text, word",
        ),
        "tally of numeric reports": (
            ["report"],
            lambda frame: tally(frame, perturber),
            "report",
        ),
        "tally of bits": (
            bits,
            lambda frame: tally(frame, unary),
            ", ".join(f'"{name}"' for name in bits),
        ),
        "histogram of text": (["text"], histogram("text"), "text"),
        "histogram of whole numbers": (["age"], histogram("age"), "age // 5"),
        "histogram of text by whole numbers": (
            ["text", "age"],
            histogram("text", "age"),
            "text, age // 5",
        ),
        "histogram of reals": (["hours"], histogram("hours"), "floor(hours / 5)::INT"),
        "mean of whole numbers": (
            ["age"],
            lambda frame: DPMean(bounds=(0, 100)).fit(frame),
            "age",
        ),
        "mean of reals": (
            ["hours"],
            lambda frame: DPMean(bounds=(0, 100)).fit(frame),
            "",
        ),
    }


def compare_queries(path: Path, repeats: int) -> list[list[str]]:
    import duckdb

    lines = []
    for name, (columns, ours, keys) in query_cases().items():
        frame = duckdb.read_parquet(str(path)).select(*columns)
        own = f"{keys}, count(*)" if keys else f"avg({columns[0]})"
        calls = {
            "ours": lambda frame=frame, ours=ours: ours(frame),
            "own": lambda frame=frame, own=own, keys=keys: frame.aggregate(
                own, keys
            ).fetchall(),
        }
        best = dict.fromkeys(calls, (math.inf, math.inf))
        for _ in range(repeats + 1):  # the first one warms up
            for who, call in calls.items():
                start, used = time.perf_counter(), time.process_time()
                call()
                now = time.perf_counter() - start, time.process_time() - used
                best[who] = tuple(map(min, best[who], now))
        (wall, used), (own_wall, own_used) = best["ours"], best["own"]
        ratios = wall / own_wall, used / own_used
        line = [
            name,
            f"{wall:.3f} s",
            f"{used:.3f} s",
            f"{own_wall:.3f} s",
            f"{own_used:.3f} s",
        ]
        lines.append(
            [*line, *(f"{ratio:.2f}" for ratio in ratios), verdict(max(ratios) <= 1.5)]
        )
    return lines


def fit(marginals: Any, epsilon: float, path: Path) -> dict[str, Any]:
    """Fit and sample; the time of each, and what part of it was counting."""
    frame = ds.dataset(path)
    kind = type(open_large(frame))
    counting, add_up = [], kind.add_up

    def timed(*arguments: Any) -> Any:
        start = time.perf_counter()
        found = add_up(*arguments)
        counting.append(time.perf_counter() - start)
        return found

    kind.add_up = timed
    start = time.perf_counter()
    fitted = synthesizer(marginals=marginals, epsilon=epsilon).fit(frame)
    middle = time.perf_counter()
    fitted.sample(FEW)
    end = time.perf_counter()
    return {
        "passes": len(counting),
        "counting": sum(counting),
        "rest": middle - start - sum(counting),
        "sample": end - middle,
        "steps": fitted.n_iter_,
        "chosen": [list(clique) for clique in fitted.selected_cliques_],
    }


def work(task: str, what: str, path: Path) -> dict[str, Any]:
    start = time.perf_counter()
    result: dict[str, Any] = {}
    if task == "fit":
        result = fit(*json.loads(what), path)
    else:
        result["rows"] = (count_pairs if task == "count" else query_pairs)(what, path)
    return result | {
        "seconds": time.perf_counter() - start,
        "peak": _resident("VmHWM") / 1e6,
    }


def measure(task: str, what: str, path: Path) -> dict[str, Any]:
    command = [sys.executable, __file__, "--work", task, what, str(path)]
    return json.loads(
        subprocess.run(
            command, check=True, capture_output=True, text=True
        ).stdout.splitlines()[-1]
    )


def best(results: list[dict[str, Any]]) -> dict[str, Any]:
    return min(results, key=lambda result: result["seconds"])


def compare_pairs(path: Path, rows: int, repeats: int) -> list[list[str]]:
    tasks = [
        *(("count", engine) for engine in OURS),
        *(("query", query) for query in OWN),
    ]
    found: dict[tuple[str, str], list[dict[str, Any]]] = {task: [] for task in tasks}
    for _ in range(repeats):
        for task in tasks:
            found[task].append(measure(*task, path))
            assert found[task][-1]["rows"] == rows
    lines = []
    for task, engine in tasks:
        result = best(found[task, engine])
        line = [engine, f"{result['seconds']:.1f} s", f"{result['peak']:,.0f} MB"]
        if task == "count":
            own = min(
                best(found["query", query])["seconds"] for query in QUERIES[engine]
            )
            ratio = result["seconds"] / own
            line = [f"skdp: {engine}", *line[1:], f"{ratio:.2f}", verdict(ratio <= 1.5)]
        lines.append(line + [""] * (5 - len(line)))
    return lines


def compare_fits(small: Path, large: Path, repeats: int) -> list[list[str]]:
    rows = {path: pq.read_metadata(path).num_rows for path in (small, large)}
    chosen = measure("fit", json.dumps(["auto", 1.0]), small)["chosen"]
    fixed = [clique for clique in chosen if len(clique) > 1]
    settings = [
        ("those of the first", fixed, dict.fromkeys(rows, 1.0)),
        ("auto", "auto", {path: FEW / number for path, number in rows.items()}),
        ("auto", "auto", dict.fromkeys(rows, 1.0)),
    ]
    lines = []
    for name, marginals, epsilons in settings:
        runs: dict[Path, list[dict[str, Any]]] = {small: [], large: []}
        for _ in range(repeats):
            for path, results in runs.items():
                results.append(
                    measure("fit", json.dumps([marginals, epsilons[path]]), path)
                )
        few = {
            part: min(run[part] for run in runs[small]) for part in ("rest", "sample")
        }
        for path, results in runs.items():
            parts = {
                part: min(run[part] for run in results)
                for part in ("passes", "counting", "rest", "sample")
            }
            ratio = (parts["rest"] + parts["sample"]) / (few["rest"] + few["sample"])
            line = [
                name,
                f"{epsilons[path]:.2g}",
                f"{rows[path]:,}",
                str(len(results[0]["chosen"])),
            ]
            line += [str(results[0]["steps"]), str(parts["passes"])]
            line += [f"{parts[part]:.2f} s" for part in ("counting", "rest", "sample")]
            lines.append([*line, f"{ratio:.2f}"])
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--only-queries",
        action="store_true",
        help="print the table of single queries, and stop",
    )
    parser.add_argument("--work", nargs=3)
    options = parser.parse_args()
    if options.work:
        task, what, path = options.work
        print(json.dumps(work(task, what, Path(path))))
        return
    with tempfile.TemporaryDirectory() as folder:
        small, large = Path(folder) / "small.parquet", Path(folder) / "large.parquet"
        answers = Path(folder) / "answers.parquet"
        write_answers(answers, options.rows)
        queries = compare_queries(answers, options.repeats)
        columns = [
            "what",
            "time",
            "processor",
            "GROUP BY",
            "processor",
            "ratio",
            "ratio",
            "at most 1.5",
        ]
        if options.only_queries:
            print("\n".join(" | ".join(line) for line in [columns, *queries]))
            return
        write_rows(small, FEW)
        write_rows(large, options.rows)
        tables = {
            f"One query on DuckDB, {options.rows:,} rows": (columns, queries),
            f"All pairs of 14 columns, {options.rows:,} rows": (
                [
                    "what counts",
                    "time",
                    "peak",
                    "against the best of its engine's queries",
                    "at most 1.5",
                ],
                compare_pairs(large, options.rows, options.repeats),
            ),
            "A fit from a pyarrow dataset": (
                [
                    "marginals",
                    "epsilon",
                    "rows",
                    "measured",
                    "steps",
                    "passes",
                    "counting",
                    "rest",
                    "sample",
                    "ratio",
                ],
                compare_fits(small, large, options.repeats),
            ),
        }
    notes = " ".join(
        line.strip() for line in (__doc__ or "").splitlines()[2:] if line
    ).replace(" - ", "\n- ")
    notes += "\n\npyarrow has no query for many groupings at once: it is compared with the best of all."
    packages = ["skdp", "duckdb", "polars", "pyarrow", "dask", "numpy"]
    write_results(
        "engines_counts", "Counts where the table is", packages, notes, tables
    )


if __name__ == "__main__":
    main()
