"""How close tables are of which named columns alone are private, beside those of whole records.

Run ``python benchmarks/protected_columns.py FOLDER --memory CACHE``, with a folder of the published files of ACS Public
Coverage, LSAC and COMPAS; the cache keeps finished releases, so that a second run goes on.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import math
import time
import warnings
from collections.abc import Sequence
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
from _synthesis_generated import TABLES
from _timing import write_results
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from skdp import Domain, DPMarginalSynthesizer, Interval
from skdp.datasets import load_acs_public_coverage, load_adult, load_compas, load_lsac
from skdp.privacy import Mu

DELTA = 1e-6
EPSILONS = (0.1, 0.5, 1.0, 4.0)
SMALL = 2_000

# A release for whole records, read for the columns, is made again until its mu for these
# is that of epsilon to this share, at most so often. The first one has a little more
# than epsilon for records, as most of what is measured has other columns.
_TRIALS = 3
_NEAR = 0.1
_FIRST = 1.1

# Of each table, the columns that are protected. Numbers of the model were chosen on
# Adult and on ACS Public Coverage.
PROTECTED = {
    "Adult": [["income"], ["age", "sex"]],
    "ACS Public Coverage": [["PUBCOV"], ["AGEP", "SEX"]],
    "LSAC": [["pass_bar"], ["race1", "gender"]],
    "COMPAS": [["two_year_recid"], ["age", "sex"]],
    "ACS, 2,000 rows": [["AGEP", "SEX"], ["AGEP", "SCHL"]],
    "payments, 2,000 rows": [["merchant"]],
    "COMPAS, single years": [["race", "sex"], ["age", "sex"]],
    "Adult, single years": [["race", "sex"]],
    "ACS, single years": [["RAC1P", "SEX"]],
}
# Columns of many values, in place of the bins that are declared for them.
SINGLE_VALUES = {
    "COMPAS, single years": {
        "age": Interval(17, 100, bins=83),
        "priors_count": Interval(0, 100, bins=50),
    },
    "Adult, single years": {
        "age": Interval(17, 91, bins=74),
        "hours-per-week": Interval(1, 100, bins=99),
    },
    "ACS, single years": {"AGEP": Interval(0, 100, bins=100)},
}
TARGETS = {
    "Adult": "income",
    "ACS Public Coverage": "PUBCOV",
    "LSAC": "pass_bar",
    "COMPAS": "two_year_recid",
}
METHODS = {
    "protect": "values of these columns",
    "read": "values of these columns, by a release for whole records",
}
# Of a single column: `target=` is of help on some tables, and not on others.
WITHOUT_TARGET = "values of these columns, by such a release without target="


class Table:
    """A table, as codes of its declared values."""

    def __init__(self, name: str, folder: Path) -> None:
        kind = name.partition(",")[0]
        if kind in TABLES:
            bunch = TABLES[kind]()
        elif kind == "Adult":
            bunch = load_adult()
        elif kind == "LSAC":
            bunch = load_lsac(folder / "lsac.csv.gz")
        elif kind == "COMPAS":
            bunch = load_compas(folder / "compas_two_years.csv.gz")
        else:
            bunch = load_acs_public_coverage(folder / "acs_public_coverage.csv.gz")
        frame = bunch.frame
        if name.endswith("2,000 rows"):
            frame = frame.sample(SMALL, random_state=0)
        self.name = name
        self.frame = frame.reset_index(drop=True)
        single_values = SINGLE_VALUES.get(name, {})
        values = {}
        for column in bunch.domain.columns:
            values[column] = single_values.get(column, bunch.domain[column])
        self.domain = Domain(values)
        self.target = TARGETS.get(name)
        self.codes = self.encode(self.frame)

    def encode(self, frame: pd.DataFrame) -> dict[str, np.ndarray]:
        codes = {}
        for name in self.domain.columns:
            codes[name] = self.domain[name].encode(frame[name]).astype(int)
        return codes

    def distance(self, frame: pd.DataFrame, protected: list[str]) -> float:
        """Return the mean total variation of pairs with a protected column."""
        made = self.encode(frame)
        distances = []
        for first, second in itertools.combinations(self.domain.columns, 2):
            if first not in protected and second not in protected:
                continue
            counts = []
            for codes in (self.codes, made):
                cells = codes[first] * len(self.domain[second].labels) + codes[second]
                size = len(self.domain[first].labels) * len(self.domain[second].labels)
                counts.append(np.bincount(cells, minlength=size))
            difference = np.abs(counts[0] - counts[1]).sum()
            distances.append(difference / 2 / len(frame))
        return float(np.mean(distances))

    def indicators(self, frame: pd.DataFrame, names: list[str]) -> csr_array:
        codes = self.encode(frame)
        sizes = [len(self.domain[name].labels) for name in names]
        starts = np.cumsum([0, *sizes])
        places = np.stack([codes[name] for name in names], axis=1) + starts[:-1]
        rows = np.repeat(np.arange(len(frame)), len(names))
        ones = np.ones(rows.size)
        return csr_array((ones, (rows, places.ravel())), (len(frame), starts[-1]))

    def area(self, trained_on: pd.DataFrame) -> float:
        """Train a logistic regression on three quarters of some rows, and test it on others, as they are."""
        names = [name for name in self.domain.columns if name != self.target]
        train, test = train_test_split(
            np.arange(len(self.frame)), test_size=0.25, random_state=0
        )
        labels = self.encode(trained_on)[self.target][train]
        model = LogisticRegression(max_iter=200).fit(
            self.indicators(trained_on.iloc[train], names), labels
        )
        scores = model.decision_function(self.indicators(self.frame.iloc[test], names))
        return float(roc_auc_score(self.codes[self.target][test], scores))


@functools.cache
def load(name: str, folder: Path) -> Table:
    return Table(name, folder)


def shuffled(table: Table, protected: list[str], seed: int) -> pd.DataFrame:
    """Return the release at epsilon 0: protected columns in another order."""
    order = np.random.default_rng(seed).permutation(len(table.frame))
    made = table.frame.copy()
    for name in protected:
        made[name] = table.frame[name].to_numpy()[order]
    return made


def whole(
    table: Table, protected: list[str], epsilon: Mu, seed: int, has_target: bool
) -> tuple[pd.DataFrame, float]:
    """Return rows of a release for whole records, and its mu for the protected columns."""
    target = protected[0] if has_target else None
    synthesizer = DPMarginalSynthesizer(
        epsilon,
        domain=table.domain,
        target=target,
        redraw=protected,
        random_state=seed,
    )
    made = synthesizer.fit_transform(table.frame)
    # Another value changes two cells of each marginal of it, and each score by 2.
    columns = {table.domain.columns.index(name) for name in protected}
    square = 0.0
    for marginal in synthesizer.marginals_:
        if columns & set(marginal.clique):
            square += 2 / marginal.std_error**2
    for pair, scored in synthesizer.pair_scores_.iterrows():
        if set(protected) & set(pair):
            square += 4 / scored["std_error"] ** 2
    return made, math.sqrt(square)


def whole_read_exactly(
    table: Table,
    protected: list[str],
    epsilon: Mu,
    seed: int,
    has_target: bool | None = None,
) -> tuple[pd.DataFrame, float]:
    """Return rows of a release for whole records of which the promise for the columns is epsilon."""
    # What is measured is chosen by noisy scores, so the promise is known afterwards: no
    # one may publish this release. It is the most that a filter could reach.
    if has_target is None:
        has_target = len(protected) == 1
    trials = []
    mu = _FIRST * epsilon.mu
    for _ in range(_TRIALS):
        made, spent = whole(table, protected, Mu(mu, DELTA), seed, has_target)
        trials.append((abs(math.log(spent / epsilon.mu)), made, spent))
        if abs(spent / epsilon.mu - 1) <= _NEAR:
            break
        mu *= epsilon.mu / spent
    _, made, spent = min(trials, key=lambda trial: trial[0])
    return made, spent


def measure(
    name: str,
    folder: Path,
    protected: list[str],
    epsilon: float,
    seed: int,
    method: str,
) -> dict[str, float]:
    """Make a release, and judge it."""
    table = load(name, folder)
    spent = 0.0
    start = time.process_time()
    if method == "protect":
        made = DPMarginalSynthesizer(
            epsilon,
            delta=DELTA,
            domain=table.domain,
            protect=protected,
            random_state=seed,
        ).fit_transform(table.frame)
    elif method == "read":
        made, spent = whole_read_exactly(table, protected, Mu.of(epsilon, DELTA), seed)
    elif method == "shuffled":
        made = shuffled(table, protected, seed)
    else:
        made = table.frame
    seconds = time.process_time() - start
    result = {
        "distance": table.distance(made, protected),
        "spent": spent,
        "seconds": seconds,
    }
    if table.target is not None:
        result["area"] = table.area(made)
    return result


def measure_without_target(
    name: str, folder: Path, protected: list[str], epsilon: float, seed: int
) -> dict[str, float]:
    """Make a release for whole records without a target, and judge it."""
    table = load(name, folder)
    start = time.process_time()
    made, spent = whole_read_exactly(
        table, protected, Mu.of(epsilon, DELTA), seed, has_target=False
    )
    seconds = time.process_time() - start
    return {
        "distance": table.distance(made, protected),
        "spent": spent,
        "seconds": seconds,
        "area": math.nan if table.target is None else table.area(made),
    }


def guess(table: Table, protected: list[str], column: str) -> list[str]:
    """Return how often a logistic regression of public columns, and the most common value, are right of a column."""
    public = [name for name in table.domain.columns if name not in protected]
    X = table.indicators(table.frame, public)
    y = table.codes[column]
    train, test = train_test_split(np.arange(len(y)), test_size=0.25, random_state=0)
    model = LogisticRegression(max_iter=200).fit(X[train], y[train])
    usual = max(np.bincount(y[test])) / len(test)
    return [f"{model.score(X[test], y[test]):.1%}", f"{usual:.1%}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--memory", default=None, help="a folder for releases made")
    parser.add_argument(
        "--tables", nargs="*", help="only measure these, and write no page"
    )
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    memory = joblib.Memory(options.memory, verbose=0)
    measure_once = memory.cache(measure)
    measure_without_target_once = memory.cache(measure_without_target)
    rows = []
    tables = options.tables or PROTECTED
    settings = [(name, one) for name in tables for one in PROTECTED[name]]
    for seed in range(options.seeds):
        for name, protected in settings:
            cells = [(epsilon, key) for epsilon in EPSILONS for key in METHODS]
            cells += [(0.0, "shuffled"), (math.inf, "real")]
            for epsilon, method in cells:
                arguments = (name, options.folder, protected, epsilon, seed, method)
                row = {"table": name, "protected": ", ".join(protected), "seed": seed}
                row |= {"epsilon": epsilon, "method": method}
                rows.append(row | measure_once(*arguments))
            if len(protected) > 1:
                continue
            for epsilon in EPSILONS:
                arguments = (name, options.folder, protected, epsilon, seed)
                row = {"table": name, "protected": ", ".join(protected), "seed": seed}
                row |= {"epsilon": epsilon, "method": "without target"}
                rows.append(row | measure_without_target_once(*arguments))
            print(seed, name, protected, flush=True)
    if options.tables:
        return
    guesses = []
    for name, protected in settings:
        table = load(name, options.folder)
        for column in protected:
            right = guess(table, protected, column)
            guesses.append([name, ", ".join(protected), column, *right])
    write(pd.DataFrame(rows), guesses)


def write(
    results: pd.DataFrame, guesses: list[list[str]], commits: Sequence[str] = ()
) -> None:
    distances: list[list[str]] = []
    ratios: list[list[str]] = []
    areas: list[list[str]] = []
    by_setting = results.groupby(["table", "protected"], sort=False)
    for (table, protected), scores in by_setting:
        by_method = scores.pivot(
            index=["epsilon", "seed"], columns="method", values="distance"
        )
        zero = by_method.loc[0.0, "shuffled"].mean()
        seconds = scores.groupby("method")["seconds"].mean()
        for method, label in _methods_of(by_method).items():
            cells = []
            for epsilon in EPSILONS:
                values = _of(by_method, epsilon)[method]
                cells.append(f"{values.mean():.4f} ± {values.std():.4f}")
            line = [table, protected, label, *cells, f"{seconds[method]:.1f}"]
            distances.append(line)
        distances.append(
            [table, protected, "ε = 0: shuffled", *[f"{zero:.4f}"] * 4, ""]
        )
        cells = []
        for epsilon in EPSILONS:
            cells.append(_ratio(_of(by_method, epsilon)))
        ratios.append([table, protected, *cells])
        if scores["area"].notna().all():
            areas += _areas(table, protected, scores)
    _write(distances, ratios, areas, guesses, commits)


def _methods_of(by_method: pd.DataFrame) -> dict[str, str]:
    """Return the releases at each epsilon."""
    if "without target" in by_method:
        return METHODS | {"without target": WITHOUT_TARGET}
    return METHODS


def _of(by_method: pd.DataFrame, epsilon: float) -> pd.DataFrame:
    """Return the distances of seeds with which all releases of an epsilon were made."""
    return by_method.loc[epsilon, list(_methods_of(by_method))].dropna()


def _ratio(pairs: pd.DataFrame) -> str:
    """Compare the mean distance with that of the best release for whole records; with the number of seeds."""
    n_seeds = len(pairs)
    if n_seeds < 2:
        return ""
    means = pairs.mean()
    best = str(means.drop("protect").idxmin())
    ratio = means["protect"] / means[best]
    # Of the differences of the same seeds, as a share of what they are of.
    differences = pairs["protect"] - ratio * pairs[best]
    error = differences.std() / math.sqrt(n_seeds) / means[best]
    return f"{ratio:.2f} ± {error:.2f} ({n_seeds})"


def _areas(table: str, protected: str, scores: pd.DataFrame) -> list[list[str]]:
    """Return the shares of the area that are recovered."""
    lines = []
    by_seed = scores.pivot(index=["epsilon", "seed"], columns="method", values="area")
    real = by_seed.loc[math.inf, "real"].mean()
    zero = by_seed.loc[0.0, "shuffled"].mean()
    if zero >= real:
        return []  # nothing is lost
    for method, label in _methods_of(by_seed).items():
        cells = []
        for epsilon in EPSILONS:
            area = _of(by_seed, epsilon)[method].mean()
            cells.append(f"{(area - zero) / (real - zero):.1%}")
        lines.append([table, protected, label, *cells])
    lines.append(
        [table, protected, f"area {zero:.4f} at 0, {real:.4f} real", *[""] * 4]
    )
    return lines


def _write(
    distances: list[list[str]],
    ratios: list[list[str]],
    areas: list[list[str]],
    guesses: list[list[str]],
    commits: Sequence[str],
) -> None:
    header = ["table", "protected", "promise for"]
    of_epsilons = [f"ε = {epsilon:g}" for epsilon in EPSILONS]
    write_results(
        "protected_columns",
        "Tables of which named columns are private",
        ["skdp", "numpy", "scikit-learn"],
        f"Means and standard deviations over seeds, δ = {DELTA:g}. Rows keep all other "
        "columns. The release for whole records is read for these values: its noise is "
        "such that what its own measurements lose for them is within 10 % of ε. What it "
        "measures follows from noisy scores, so that this is known afterwards, and no such "
        "release may be published; a filter (`epsilon_for`) reaches less. Of a single "
        "column there are two such releases, with and without `target=`, and ratios are "
        "to the better one. Ratios have standard errors over paired seeds, and their number. Areas are those of a "
        "logistic regression of all columns that is trained on the rows and tested on "
        "others as they are, as the share of what is lost at ε = 0. Constants of the model "
        "were chosen on Adult and ACS Public Coverage; how columns are counted, and how "
        "much of noise is believed, with a look at the other tables, too.",
        {
            "Mean total variation of pairs with a protected column": (
                [*header, *of_epsilons, "CPU s"],
                distances,
            ),
            "Total variation, as a share of that of a release for whole records that is "
            "read for the columns": (["table", "protected", *of_epsilons], ratios),
            "Share of the area that is recovered": ([*header, *of_epsilons], areas),
            "What public columns tell": (
                ["table", "protected", "column", "predicted", "most common value"],
                guesses,
            ),
        },
        commits=commits,
    )


if __name__ == "__main__":
    main()
