"""CPU time of work that people wait for, compared with other libraries and with the release before.

`seconds` is the shortest CPU time of a call in three turns with a reference without privacy, or the time of one call
that takes more than a second; `relative_time` is its ratio to the time of the reference: sums of the bits, an
OrdinalEncoder for one record, `value_counts` and `groupby` of pandas, a GROUP BY of DuckDB, estimators of
scikit-learn (histogram gradient boosting for additive models), and counts of all pairs of columns for synthesizers.
Commands on a CSV file run in processes of their own, imports included. pandas reads the file and computes the same
table, copies three columns, or counts all pairs and copies the file. `peak_megabytes` and `peak_megabytes_of_pandas`
are the largest memory on Linux.

Rows with "before" are the same calls at the release before, 0.4.0, in turns with the others; they require the path of
a checkout of its commit d0655010 in `SKDP_BEFORE`. `benchmarks/_headlines.py` fails if a call takes more than 1.2
times the seconds before, and the newest section of the changelog does not name it.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Callable
from functools import cache, lru_cache, partial
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from _tasks import Task, keep_scores, measure_process, measure_seconds, time_in_turns
from run import Cell, Worker
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.preprocessing import QuantileTransformer, RobustScaler, StandardScaler

COMMIT_BEFORE = "d0655010"
Calls = tuple[Callable[[], object], Callable[[], object]]


class Size(NamedTuple):
    """Name of a table, its size, and whether it is a small one for a test."""

    name: str
    n_rows: int
    n_columns: int
    quick: bool


def list_sizes(names: tuple[str, ...], quick: bool) -> dict[str, Callable[[], Size]]:
    """Read the sizes in the names of tables; with `quick`, keep the first one with a thousand rows."""
    sizes = {}
    for name in names[: 1 if quick else None]:
        n_rows, _, n_columns = (
            name.replace(",", "").removesuffix(" rows").partition(" x ")
        )
        rows = 1_000 if quick else int(n_rows)
        sizes[name] = partial(Size, name, rows, int(n_columns or 0), quick)
    return sizes


# Reports, groups and quantiles


def count_bits(name: str, size: Size, seed: int) -> Calls:
    """Estimate counts from reports with a bit for each value, or tally reports of lists."""
    import skdp

    values = list(range(size.n_columns))
    codes = np.random.default_rng(0).integers(size.n_columns, size=size.n_rows)
    rows = pd.DataFrame({"x": pd.Categorical.from_codes(codes, values)})
    if name == "SetValuedEncoder":
        rows = pd.DataFrame({"x": [[code] for code in codes.tolist()]})
    encoder = getattr(skdp, name)(1.0, categories={"x": values}, random_state=seed)
    reports = encoder.fit(rows).transform(rows)
    count = encoder.tally if name == "SetValuedEncoder" else encoder.estimate_counts
    return partial(count, reports), reports.to_numpy().sum


def report_record(size: Size, seed: int) -> Calls:
    """Privatize one record."""
    from sklearn.preprocessing import OrdinalEncoder

    from skdp import RandomizedResponseEncoder

    rows = pd.DataFrame({f"x{place}": ["f", "m"] for place in range(size.n_columns)})
    encoder = RandomizedResponseEncoder(
        1.0, categories={key: ["f", "m"] for key in rows}
    )
    rival = OrdinalEncoder().fit(rows)
    return partial(encoder.fit(rows).transform, rows[:1]), partial(
        rival.transform, rows[:1]
    )


@lru_cache(1)
def draw_groups(n_rows: int) -> pd.DataFrame:
    """Draw texts of skewed and of 20 values, numbers of groups, and amounts."""
    rng = np.random.default_rng(0)
    shops = np.array([f"shop {number:05d}" for number in range(20_000)])
    return pd.DataFrame(
        {
            "shop": shops[np.minimum(rng.zipf(1.3, n_rows), len(shops)) - 1],
            "region": shops[rng.integers(0, 20, n_rows)],
            "group": rng.integers(0, 10_000, n_rows),
            "amount": rng.lognormal(3, 1, n_rows),
        }
    )


def find_keys(dtype: str, size: Size, seed: int) -> Calls:
    """Count the keys that are found in a column of text of a dtype."""
    import pyarrow

    from skdp import DPGroupBy

    column = draw_groups(size.n_rows)["shop"]
    column = column.astype("str" if dtype == "dictionary" else dtype)
    rows: Any = column.to_frame()
    if dtype == "dictionary":
        encoded = pyarrow.array(column.tolist()).dictionary_encode()
        rows = pyarrow.table({"shop": encoded})
    options = {"by": "shop", "keys": "auto", "statistics": "count"}
    groups = DPGroupBy(1.0, delta=1e-6, random_state=seed, **options)
    return partial(groups.fit, rows), column.value_counts


def make_groups(by: str, keys: Any, statistics: list[str], seed: int) -> Any:
    """Return an estimator of statistics of amounts by group."""
    from skdp import DPGroupBy

    bounds = {"amount": (0.0, 10_000.0)}
    options = {"statistics": statistics, "bounds": bounds, "random_state": seed}
    return DPGroupBy(1.0, by=by, keys={by: keys}, **options)


def release_regions(size: Size, seed: int) -> Calls:
    """Release counts and means of 20 groups."""
    frame = draw_groups(size.n_rows)[["region", "amount"]]
    statistics = ["count", "mean"]
    groups = make_groups("region", sorted(frame["region"].unique()), statistics, seed)
    rival = frame.groupby("region")["amount"]
    return partial(groups.fit, frame), partial(rival.agg, statistics)


def release_relation(size: Size, seed: int) -> Calls:
    """Release counts and means of 20 groups of a relation of DuckDB."""
    import duckdb

    frame = draw_groups(size.n_rows)[["region", "amount"]]
    connection = duckdb.connect()
    connection.execute("CREATE TABLE people AS SELECT * FROM frame")
    relation = connection.table("people")
    keys = sorted(frame["region"].unique())
    groups = make_groups("region", keys, ["count", "mean"], seed)
    query = partial(relation.aggregate, "region, count(*), avg(amount)", "region")
    return partial(groups.fit, relation), lambda: query().fetchall()


def release_medians(n_groups: int, size: Size, seed: int) -> Calls:
    """Release medians of declared groups of 100 rows on average."""
    frame = draw_groups(size.n_rows)[["group", "amount"]]
    frame = frame[frame["group"] < n_groups]
    groups = make_groups("group", range(n_groups), ["median"], seed)
    return partial(groups.fit, frame), frame.groupby("group")["amount"].median


@lru_cache(1)
def draw_numbers(n_rows: int, n_columns: int) -> tuple[pd.DataFrame, Any, Any]:
    """Draw normal columns, a linear target, and its sign."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, n_columns))
    y = X @ np.linspace(-1, 1, n_columns) / n_columns**0.5 + rng.normal(size=n_rows)
    return pd.DataFrame(X).add_prefix("x"), y, (y > 0).astype(int)


def scale_numbers(name: str, rival: Any, size: Size, seed: int) -> Calls:
    """Fit a preprocessing step of five columns."""
    import skdp

    X, _, _ = draw_numbers(size.n_rows, 5)
    own = getattr(skdp, name)(1.0, bounds=(-5.0, 5.0), random_state=seed)
    return partial(own.fit, X), partial(rival.fit, X)


# Models and synthetic tables


def fit_model(
    name: str, options: dict[str, Any], rival: Any, size: Size, seed: int
) -> Calls:
    """Fit a model of normal columns."""
    import skdp

    X, y, label = draw_numbers(size.n_rows, size.n_columns)
    if "classes" in options:
        y = label
    elif name != "DPPCA":
        options = options | {"target_bounds": (-8.0, 8.0)}
    options = options | {"bounds": (-5.0, 5.0), "random_state": seed}
    own = getattr(skdp, name)(1.0, **options)
    return partial(own.fit, X, y), partial(rival.fit, X, y)


@lru_cache(1)
def draw_mixed(n_rows: int, n_columns: int) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Draw columns of numbers and of texts in turns, which depend on each other, and their domain."""
    from skdp import Interval

    rng = np.random.default_rng(1)
    common, columns, domain = rng.normal(size=n_rows), {}, dict[str, Any]()
    for place in range(n_columns):
        numbers = 0.6 * common + 0.8 * rng.normal(size=n_rows)
        if place % 2 == 0:
            columns[f"x{place}"] = (10 * numbers).round(1).clip(-60, 60)
            domain[f"x{place}"] = Interval(-60.0, 60.0)
        else:
            labels = np.array(list("abcdef"))[: 3 + place % 4]
            cells = np.digitize(numbers, np.linspace(-1.5, 1.5, len(labels) - 1))
            columns[f"x{place}"] = labels[cells]
            domain[f"x{place}"] = labels.tolist()
    return pd.DataFrame(columns), domain


def count_pairs(rows: pd.DataFrame) -> None:
    """Count the values of each pair of columns, and bins of numbers."""
    for first, second in combinations(rows, 2):
        rows.groupby([first, second]).size()


def fit_synthesizer(private: list[str], size: Size, seed: int) -> Calls:
    """Fit a synthesizer of all columns, or of private columns of otherwise public rows."""
    from skdp import DPColumnSynthesizer, DPMarginalSynthesizer

    rows, domain = draw_mixed(size.n_rows, size.n_columns)
    options = {"delta": 1e-6, "domain": domain, "random_state": seed}
    if private:
        columns = DPColumnSynthesizer(private, 1.0, **options)
        return partial(columns.fit, rows), partial(count_pairs, rows)
    table = DPMarginalSynthesizer(1.0, **options)
    return partial(table.fit, rows), partial(count_pairs, rows)


# Commands


READ = "import sys, pandas as pd; source, target = sys.argv[1:]; rows = pd.read_csv(source); "
COMMANDS = {
    "table": (
        ["--by", "region", "--columns", "amount", "--statistics", "count", "mean"],
        "rows.groupby('region')['amount'].agg(['count', 'mean']).to_csv(target)",
    ),
    "privatize": (
        ["--columns", "region", "smokes", "drinks"],
        "rows[['region', 'smokes', 'drinks']].to_csv(target, index=False)",
    ),
    "synthesize": (
        ["--delta", "1e-6"],
        "from itertools import combinations; rows['amount'] //= 500; "
        "[rows.groupby([*pair]).size() for pair in combinations(rows, 2)]; rows.to_csv(target, index=False)",
    ),
}
COMMAND = "import sys; from skdp.cli import main; sys.exit(main(sys.argv[1:]))"


@lru_cache(1)
def write_file(n_rows: int) -> Path:
    """Write a CSV file and its domain in a temporary folder, which is deleted at the end."""
    from skdp import Domain, Interval

    folder = Path(tempfile.mkdtemp())
    weakref.finalize(write_file, shutil.rmtree, folder)
    rows = draw_groups(n_rows)[["region", "amount"]].round(2)
    rng, labels = np.random.default_rng(1), np.array(["never", "often", "always"])
    for name in ("smokes", "drinks"):
        rows[name] = labels[rng.integers(3, size=n_rows)]
    domain: dict[str, Any] = {name: sorted(rows[name].unique()) for name in rows}
    domain["amount"] = Interval(0.0, 10_000.0)
    rows["amount"] = rows["amount"].clip(0, 10_000)
    rows.to_csv(folder / "rows.csv", index=False)
    (folder / "domain.toml").write_text(Domain(domain).to_toml())
    return folder


def run_command(name: str, table: Size, epsilon: float, seed: int) -> dict[str, float]:
    """Run a command and its counterpart in pandas, each in a new process."""
    folder = write_file(table.n_rows)
    options, rival = COMMANDS[name]
    options = ["--domain", str(folder / "domain.toml"), "--epsilon", "1", *options]
    source, results = str(folder / "rows.csv"), []
    for code, first, more in (COMMAND, [name], options), (READ + rival, [], []):
        with tempfile.TemporaryDirectory() as place:
            files = source, str(Path(place, "out.csv"))
            results.append(measure_process(code, *first, *files, *more))
    (seconds, memory), (reference, memory_of_pandas) = results
    return {
        "seconds": seconds,
        "relative_time": seconds / reference,
        "peak_megabytes": memory,
        "peak_megabytes_of_pandas": memory_of_pandas,
    }


# Turns


def run_in_turns(
    make: Callable[[Size, int], Calls], table: Size, epsilon: float, seed: int
) -> dict[str, float]:
    """Measure a call and its reference."""
    own, rival = make(table, seed)
    seconds, reference = measure_seconds(own), measure_seconds(rival)
    ratio = seconds / reference
    if seconds < 1:
        seconds, ratio = time_in_turns(own, rival, turns=3)
    return {"seconds": seconds, "relative_time": ratio}


@cache
def start_before(quick: bool) -> Worker:
    """Start a process with the code of the release before."""
    tree = os.environ.get("SKDP_BEFORE")
    worker = Worker("waits", quick=quick, tree=Path(tree)) if tree else None
    if worker is None or worker.commit != COMMIT_BEFORE:
        raise ImportError(
            f"SKDP_BEFORE must be the path of a checkout of {COMMIT_BEFORE}"
        )
    return worker


def run_before(
    task: str, method: str, table: Size, epsilon: float, seed: int
) -> dict[str, float]:
    """Measure a call at the release before."""
    cell = Cell(task, table.name, method, epsilon, seed)
    answer = start_before(table.quick).run(cell)
    if "failed" in answer:
        raise ImportError(answer["failed"])
    return answer["metrics"]


def make_task(
    name: str, tables: tuple[str, ...], methods: dict[str, Callable[..., Any]]
) -> Task:
    """Return the task of calls, each at the code of today and at the release before."""
    both = {}
    for method, call in methods.items():
        both[method] = call
        both[f"{method}, before"] = partial(run_before, name, method)
    return Task(partial(list_sizes, tables), both, keep_scores, (1.0,), 4)


MODELS: dict[str, Any] = {
    "DPAdditiveRegressor": ("DPAdditiveRegressor", {}, HistGradientBoostingRegressor()),
    "DPLinearRegression": ("DPLinearRegression", {"delta": 1e-6}, LinearRegression()),
    "DPLinearRegression, pure": ("DPLinearRegression", {}, LinearRegression()),
    "DPRidge": ("DPRidge", {"delta": 1e-6}, Ridge()),
    "DPLogisticRegression": (
        "DPLogisticRegression",
        {"classes": [0, 1]},
        LogisticRegression(),
    ),
    "DPPCA": ("DPPCA", {"n_components": 3, "delta": 1e-6}, PCA(3)),
}
BITS = ("UnaryEncodingTransformer", "SubsetSelectionEncoder", "SetValuedEncoder")
SCALERS = {
    "DPStandardScaler": StandardScaler(),
    "DPRobustScaler": RobustScaler(),
    "DPQuantileTransformer": QuantileTransformer(subsample=None),
    "DPSimpleImputer": SimpleImputer(),
}
MAKERS: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "bits": (
        ("200,000 x 100",),
        {name: partial(count_bits, name) for name in BITS},
    ),
    "record": (("1 x 1", "1 x 200"), {"RandomizedResponseEncoder": report_record}),
    "groups": (
        ("1,000,000 rows",),
        {
            f"found keys, {dtype}": partial(find_keys, dtype)
            for dtype in ("str", "object", "dictionary")
        }
        | {"count and mean of 20 groups": release_regions},
    ),
    "DuckDB": (("2,000,000 rows",), {"count and mean of 20 groups": release_relation}),
    "quantiles": (
        ("1,000,000 rows",),
        {name: partial(scale_numbers, name, rival) for name, rival in SCALERS.items()}
        | {
            f"median of {n:,} groups": partial(release_medians, n)
            for n in (1_000, 10_000)
        },
    ),
    "models": (
        ("2,000 x 5", "100,000 x 5", "100,000 x 20"),
        {name: partial(fit_model, *options) for name, options in MODELS.items()},
    ),
    "synthesis": (
        ("100,000 x 5", "100,000 x 10", "100,000 x 20"),
        {"DPMarginalSynthesizer": partial(fit_synthesizer, [])},
    ),
    "private columns": (
        ("100,000 x 10",),
        {"DPColumnSynthesizer": partial(fit_synthesizer, ["x0", "x1"])},
    ),
}
TASKS = {
    name: make_task(
        name, tables, {key: partial(run_in_turns, make) for key, make in makers.items()}
    )
    for name, (tables, makers) in MAKERS.items()
}
TASKS["commands"] = make_task(
    "commands",
    ("1,000,000 rows",),
    {f"skdp {name}": partial(run_command, name) for name in COMMANDS},
)
