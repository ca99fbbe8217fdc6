"""How fast and how accurate this commit is beside an earlier one, in turns on one machine.

Run ``python benchmarks/compare_commits.py COMMIT``; ``--only speed`` or a part of a name leaves out the other tasks.
Each turn starts a process with the code of either commit, and the processes alternate, so that a busy spell hits both.
Of a speed the least CPU time of all turns counts; of an accuracy the mean over seeds, with its standard error.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
SEEDS = range(5)
SPEED_COLUMNS = ("task", "before (ms)", "now (ms)", "now / before")
VALUE_COLUMNS = ("task", "before", "now", "difference", "standard error")


def cpu_time(call: Callable[[], object]) -> float:
    """Return the least CPU time of a call, in seconds: of five calls or more, for half a second or more."""
    call()
    times: list[float] = []
    while len(times) < 5 or sum(times) < 0.5:
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return min(times)


def estimate(oracle: Any, reports: Any) -> object:
    """Estimate counts from all reports."""
    return oracle.estimate(oracle.tally(reports), len(reports))


def oracle_tasks() -> dict[str, Callable[[], object]]:
    """Report and estimate with each oracle."""
    from skdp import oracles
    from skdp.randomness import SecureSource

    rng = np.random.default_rng(0)
    tasks: dict[str, Callable[[], object]] = {}
    for name, k, n in (
        ("RandomizedResponse", 4, 1_000_000),
        ("RandomizedResponse", 100, 1_000_000),
        ("UnaryEncoding", 64, 50_000),
        ("HadamardResponse", 64, 200_000),
        ("SubsetSelection", 64, 50_000),
        ("LocalHashing", 64, 200_000),
    ):
        oracle = getattr(oracles, name)(k, 1.0)
        codes = rng.integers(k, size=n).astype(np.uint8)
        reports = oracle.report(codes, SecureSource())

        tasks[f"oracle {name}({k}) report"] = partial(
            oracle.report, codes, SecureSource()
        )
        tasks[f"oracle {name}({k}) estimate"] = partial(estimate, oracle, reports)
    return tasks


def local_tasks() -> dict[str, Callable[[], object]]:
    """Transform, tally and estimate tables."""
    from skdp import (
        LocalHashingEncoder,
        NumericPerturber,
        RandomizedResponseEncoder,
        UnaryEncodingTransformer,
    )
    from skdp.datasets import load_adult

    adult = load_adult()
    names = ["sex", "race", "education"]
    people = adult.data[names]
    domain = adult.domain.select(names)
    ages = adult.data[["age"]].astype(float)
    tasks: dict[str, Callable[[], object]] = {}
    for kind in (
        RandomizedResponseEncoder,
        UnaryEncodingTransformer,
        LocalHashingEncoder,
    ):
        encoder = kind(1.0, categories=domain).fit(people)
        reports = encoder.transform(people)
        tasks[f"local {kind.__name__} transform"] = partial(encoder.transform, people)
        tasks[f"local {kind.__name__} tally"] = partial(encoder.tally, reports)
        tasks[f"local {kind.__name__} estimate"] = partial(
            encoder.estimate_counts, reports
        )
    perturber = NumericPerturber(1.0, bounds={"age": (0, 100)}).fit(ages)
    tasks["local NumericPerturber transform"] = lambda: perturber.transform(ages)
    return tasks


def central_tasks() -> dict[str, Callable[[], object]]:
    """Fit statistics and models of a curator."""
    from skdp import DPHistogram, DPLogisticRegression, DPMean, DPQuantileTransformer
    from skdp.datasets import load_adult

    adult = load_adult()
    numbers = adult.data[["age", "hours-per-week"]]
    target = (adult.target == adult.target.unique()[0]).astype(int)
    bounds = {"age": (0, 100), "hours-per-week": (0, 100)}
    words = adult.data[["education", "sex"]]
    domain = adult.domain.select(["education", "sex"])
    return {
        "central DPMean fit": lambda: DPMean(1.0, bounds=bounds).fit(numbers),
        "central DPHistogram fit": lambda: DPHistogram(1.0, domain=domain).fit(words),
        "central DPQuantileTransformer fit": lambda: DPQuantileTransformer(
            1.0, bounds=bounds
        ).fit(numbers),
        "central DPLogisticRegression fit": lambda: DPLogisticRegression(
            1.0, bounds=bounds, classes=[0, 1]
        ).fit(numbers, target),
    }


def privacy_tasks() -> dict[str, Callable[[], object]]:
    """Compose guarantees and charge a ledger."""
    from skdp import PrivacyGuarantee, PrivacyLedger
    from skdp.privacy import LaplaceLoss, compose

    mean = PrivacyGuarantee(
        0.3, trust="central", relation="add_remove", losses=(LaplaceLoss(0.3, 100),)
    )
    releases = [mean] * 30
    guarantee = PrivacyGuarantee(0.01, trust="central", relation="add_remove")

    def charge() -> None:
        ledger = PrivacyLedger(epsilon=10.0)
        for _ in range(300):
            ledger.charge(guarantee, "a release")

    return {
        "privacy compose": lambda: compose(releases, delta=1e-5),
        "privacy 300 charges": charge,
    }


def synthesis_tasks() -> dict[str, Callable[[], object]]:
    """Fit a synthesizer and draw rows."""
    from skdp import DPMarginalSynthesizer
    from skdp.datasets import load_adult

    adult = load_adult()
    names = ["workclass", "education", "marital-status", "occupation", "race", "sex"]
    table, domain = adult.data[names], adult.domain.select(names)
    fitted = DPMarginalSynthesizer(1.0, domain=domain, random_state=0).fit(table)
    return {
        "synthesis fit": lambda: DPMarginalSynthesizer(
            1.0, domain=domain, random_state=0
        ).fit(table),
        "synthesis sample": lambda: fitted.sample(45_222),
    }


def engine_tasks() -> dict[str, Callable[[], object]]:
    """Privatise and tally a Parquet file of a million rows."""
    import pyarrow as pa
    import pyarrow.dataset as ds
    import pyarrow.parquet as pq

    from skdp import RandomizedResponseEncoder
    from skdp.engines import privatize, tally

    folder = Path(tempfile.mkdtemp())
    values = np.array(["a", "b", "c", "d"])
    codes = np.random.default_rng(0).integers(4, size=1_000_000)
    pq.write_table(pa.table({"x": values[codes]}), folder / "people.parquet")
    encoder = RandomizedResponseEncoder(1.0, categories={"x": values.tolist()})
    encoder.fit(pq.read_table(folder / "people.parquet").slice(0, 10))
    privatize(
        ds.dataset(folder / "people.parquet"), encoder, path=folder / "reports.parquet"
    )
    target = folder / "again.parquet"

    def release() -> None:
        target.unlink(missing_ok=True)
        privatize(ds.dataset(folder / "people.parquet"), encoder, path=target)

    return {
        "engines privatize": release,
        "engines tally": lambda: tally(ds.dataset(folder / "reports.parquet"), encoder),
    }


def import_tasks() -> dict[str, Callable[[], object]]:
    """Import the library after what it stands on; in a process of its own, as an import happens once."""
    code = (
        "import time, pandas, sklearn.base; start = time.process_time(); import skdp; "
    )
    code += "print(time.process_time() - start)"

    def measure() -> float:
        return float(
            subprocess.run(
                [sys.executable, "-c", code], capture_output=True, text=True, check=True
            ).stdout
        )

    return {"import skdp": measure}


SPEED: dict[str, Callable[[], dict[str, Callable[[], object]]]] = {
    "oracle": oracle_tasks,
    "local": local_tasks,
    "central": central_tasks,
    "privacy": privacy_tasks,
    "synthesis": synthesis_tasks,
    "engines": engine_tasks,
    "import": import_tasks,
}


def pair_distance() -> list[float]:
    """Mean total variation of all pairs of columns of synthetic Adult rows, for each seed."""
    import itertools

    from skdp import DPMarginalSynthesizer
    from skdp.datasets import load_adult

    adult = load_adult()
    names = [
        "workclass",
        "education",
        "marital-status",
        "occupation",
        "relationship",
        "race",
        "sex",
    ]
    table, domain = adult.data[names], adult.domain.select(names)
    errors = []
    for seed in SEEDS:
        synthesizer = DPMarginalSynthesizer(1.0, domain=domain, random_state=seed).fit(
            table
        )
        rows = synthesizer.sample(len(table))
        distances = []
        for pair in itertools.combinations(names, 2):
            shares = [
                frame[list(pair)].value_counts(normalize=True)
                for frame in (table, rows)
            ]
            distances.append(shares[0].sub(shares[1], fill_value=0).abs().sum() / 2)
        errors.append(float(np.mean(distances)))
    return errors


def area_under_curve() -> list[float]:
    """Area under the ROC curve of private logistic regression on Adult's numbers, for each seed."""
    from sklearn.metrics import roc_auc_score

    from skdp import DPLogisticRegression
    from skdp.datasets import load_adult

    adult = load_adult()
    bounds = {"age": (0, 100), "education-num": (1, 16), "hours-per-week": (0, 100)}
    numbers = adult.data[list(bounds)]
    target = (adult.target == adult.target.unique()[0]).astype(int).to_numpy()
    areas = []
    for seed in SEEDS:
        train = np.random.default_rng(seed).random(len(target)) < 0.8
        model = DPLogisticRegression(
            0.5, bounds=bounds, classes=[0, 1], random_state=seed
        )
        model.fit(numbers[train], target[train])
        areas.append(
            float(
                roc_auc_score(
                    target[~train], model.predict_proba(numbers[~train])[:, 1]
                )
            )
        )
    return areas


def count_error() -> list[float]:
    """Root mean square error of counts from reports, as a share of the stated one, for each seed."""
    from skdp import FrequencyOracleEncoder
    from skdp.datasets import load_adult

    adult = load_adult()
    people = adult.data[["occupation"]]
    ratios = []
    for seed in SEEDS:
        encoder = FrequencyOracleEncoder(
            1.0, categories=adult.domain.select(["occupation"]), random_state=seed
        )
        table = encoder.fit(people).estimate_counts(encoder.transform(people))
        truth = (
            people["occupation"]
            .value_counts()
            .reindex(table.index.get_level_values(-1))
            .to_numpy()
        )
        ratios.append(
            float(
                np.sqrt(np.mean(((table["count"] - truth) / table["std_error"]) ** 2))
            )
        )
    return ratios


VALUES: dict[str, Callable[[], list[float]]] = {
    "distance of pairs of synthetic columns": pair_distance,
    "area under the curve of a private model": area_under_curve,
    "error of counts / stated error": count_error,
}


def work(group: str) -> None:
    """Measure one group of tasks with the code of this process, and print the figures."""
    if group in VALUES:
        print(json.dumps({group: VALUES[group]()}))
        return
    tasks = SPEED[group]()
    if group == "import":
        print(json.dumps({name: measure() for name, measure in tasks.items()}))
        return
    print(json.dumps({name: cpu_time(task) for name, task in tasks.items()}))


def measure(group: str, root: Path) -> dict[str, Any]:
    """Run one group of tasks with the code under a folder."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(root),
        "OMP_NUM_THREADS": "1",
        "PYTHONWARNINGS": "ignore",
    }
    command = [sys.executable, str(Path(__file__).resolve()), "--work", group]
    process = subprocess.run(
        command, cwd=root, env=environment, capture_output=True, text=True, check=False
    )
    if process.returncode:
        raise SystemExit(f"{group} fails at {root}:\n{process.stderr[-2000:]}")
    return json.loads(process.stdout.splitlines()[-1])


def compare_speed(group: str, roots: tuple[Path, Path], turns: int) -> list[list[str]]:
    """Return a row for each task of a group: the least times of both commits, and their ratio."""
    least: tuple[dict[str, float], dict[str, float]] = ({}, {})
    for turn in range(turns):
        order = (0, 1) if turn % 2 == 0 else (1, 0)
        for place in order:
            for name, seconds in measure(group, roots[place]).items():
                least[place][name] = min(seconds, least[place].get(name, math.inf))
    before, now = least
    return [
        [
            name,
            f"{1e3 * before[name]:.3g}",
            f"{1e3 * seconds:.3g}",
            f"{seconds / before[name]:.3f}",
        ]
        for name, seconds in now.items()
    ]


def compare_values(group: str, roots: tuple[Path, Path]) -> list[str]:
    """Return a row for one accuracy: means of both commits, their difference, and its standard error."""
    before, now = (np.array(measure(group, root)[group]) for root in roots)
    error = math.sqrt((before.var(ddof=1) + now.var(ddof=1)) / len(now))
    means = [before.mean(), now.mean(), now.mean() - before.mean(), error]
    return [group, *(f"{value:.4f}" for value in means)]


def table(columns: tuple[str, ...], rows: list[list[str]]) -> str:
    """Return a table in Markdown."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "commit", nargs="?", default="HEAD~1", help="the earlier commit"
    )
    parser.add_argument(
        "--turns",
        type=int,
        default=3,
        help="processes of each commit for each group of speeds",
    )
    parser.add_argument(
        "--only", default="", help="a part of the names of the groups to run"
    )
    parser.add_argument("--work", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work is not None:
        work(options.work)
        return
    with tempfile.TemporaryDirectory() as folder:
        earlier = Path(folder) / "earlier"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run(
            [*git, "add", "--quiet", "--detach", str(earlier), options.commit],
            check=True,
        )
        try:
            roots = (earlier, ROOT)
            speeds = []
            for group in SPEED:
                if options.only in f"speed {group}":
                    speeds += compare_speed(group, roots, options.turns)
            values = [
                compare_values(group, roots)
                for group in VALUES
                if options.only in f"values {group}"
            ]
        finally:
            subprocess.run([*git, "remove", "--force", str(earlier)], check=True)
    if speeds:
        print(table(SPEED_COLUMNS, speeds))
    if values:
        print(table(VALUE_COLUMNS, values))


if __name__ == "__main__":
    main()
