"""How close tables are of which named columns alone are private, beside those of whole records.

Run ``python benchmarks/protected_columns.py PATH``, with the published file of ACS Public Coverage. Further argument:
the number of seeds.
"""

from __future__ import annotations

import itertools
import math
import sys
import time
import warnings

import numpy as np
import pandas as pd
from _timing import write_results
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from skdp import DPMarginalSynthesizer
from skdp.datasets import load_acs_public_coverage, load_adult
from skdp.privacy import Mu

ACS = sys.argv[1]
SEEDS = int((*sys.argv[2:3], "2")[0])
DELTA = 1e-6
EPSILONS = (0.1, 0.5, 1.0, 4.0)

# Of each table, the columns that are protected, and a target that is predicted.
PROTECTED = {
    "Adult": (["income"], ["age", "sex"]),
    "ACS Public Coverage": (["PUBCOV"], ["AGEP", "SEX"]),
}
TARGETS = {"Adult": "income", "ACS Public Coverage": "PUBCOV"}


class Table:
    """A table, as codes of its declared values."""

    def __init__(self, name: str) -> None:
        bunch = load_adult() if name == "Adult" else load_acs_public_coverage(ACS)
        self.name = name
        self.frame = bunch.frame
        self.domain = bunch.domain
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
        target = TARGETS[self.name]
        names = [name for name in self.domain.columns if name != target]
        train, test = train_test_split(
            np.arange(len(self.frame)), test_size=0.25, random_state=0
        )
        labels = self.encode(trained_on)[target][train]
        model = LogisticRegression(max_iter=200).fit(
            self.indicators(trained_on.iloc[train], names), labels
        )
        scores = model.decision_function(self.indicators(self.frame.iloc[test], names))
        return float(roc_auc_score(self.codes[target][test], scores))


def shuffled(table: Table, protected: list[str], seed: int) -> pd.DataFrame:
    """Return the release at epsilon 0: protected columns in another order."""
    order = np.random.default_rng(seed).permutation(len(table.frame))
    made = table.frame.copy()
    for name in protected:
        made[name] = table.frame[name].to_numpy()[order]
    return made


def whole(
    table: Table, protected: list[str], epsilon: Mu, seed: int
) -> tuple[pd.DataFrame, float]:
    """Return rows of a release for whole records, and its mu for the protected columns."""
    target = protected[0] if len(protected) == 1 else None
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


def guess(table: Table, protected: list[str]) -> str:
    """Return how well public columns predict the first protected column of two values."""
    name = next(n for n in protected if len(table.domain[n].labels) == 2)
    public = [n for n in table.domain.columns if n not in protected]
    X = table.indicators(table.frame, public)
    y = table.codes[name]
    train, test = train_test_split(np.arange(len(y)), test_size=0.25, random_state=0)
    model = LogisticRegression(max_iter=200).fit(X[train], y[train])
    usual = max(np.bincount(y[test])) / len(test)
    return f"{name}: {model.score(X[test], y[test]):.1%} (most common {usual:.1%})"


def rows_of(
    table: Table, protected: list[str]
) -> tuple[list[list[str]], list[list[str]]]:
    """Return rows of distances and of areas."""
    names = ", ".join(protected)
    made: dict[str, list[list[pd.DataFrame]]] = {}
    seconds: dict[str, float] = {}
    for seed in range(SEEDS):
        for epsilon in EPSILONS:
            mu = Mu.of(epsilon, DELTA)
            start = time.process_time()
            rows = DPMarginalSynthesizer(
                epsilon,
                delta=DELTA,
                domain=table.domain,
                protect=protected,
                random_state=seed,
            ).fit_transform(table.frame)
            seconds["protect"] = time.process_time() - start
            start = time.process_time()
            records, of_values = whole(table, protected, mu, seed)
            seconds["records"] = time.process_time() - start
            # As much noise less as its own promise for these columns allows.
            read, _ = whole(table, protected, Mu(mu.mu**2 / of_values, DELTA), seed)
            for key, frame in (("protect", rows), ("records", records), ("read", read)):
                made.setdefault(key, []).append([frame])
            print(table.name, protected, epsilon, seed, seconds, flush=True)
    labels = {
        "protect": f"values of {names}",
        "read": f"values of {names}, by a release for whole records",
        "records": "whole records, add/remove",
    }
    real = table.area(table.frame)
    without = table.area(shuffled(table, protected, 0)) if len(protected) > 1 else 0.5
    distances = []
    areas = []
    for key, label in labels.items():
        cells = []
        shares = []
        for place in range(len(EPSILONS)):
            frames = made[key][place :: len(EPSILONS)]
            numbers = [table.distance(frame, protected) for (frame,) in frames]
            cells.append(f"{np.mean(numbers):.4f} ± {np.std(numbers):.4f}")
            scores = [
                (table.area(frame) - without) / (real - without)
                for (frame,) in frames[:1]
            ]
            shares.append(f"{np.mean(scores):.1%}")
        distances.append(
            [
                table.name,
                names,
                label,
                *cells,
                f"{seconds.get(key, seconds['records']):.1f}",
            ]
        )
        areas.append([table.name, names, label, *shares])
    zero = table.distance(shuffled(table, protected, 0), protected)
    distances.append([table.name, names, "ε = 0: shuffled", *[f"{zero:.4f}"] * 4, ""])
    areas.append(
        [table.name, names, f"area {without:.4f} at 0, {real:.4f} real", "", "", "", ""]
    )
    return distances, areas


def main() -> None:
    warnings.simplefilter("ignore")
    distances: list[list[str]] = []
    areas: list[list[str]] = []
    guesses: list[list[str]] = []
    for name, choices in PROTECTED.items():
        table = Table(name)
        for protected in choices:
            more, shares = rows_of(table, protected)
            distances += more
            areas += shares
            guesses.append([name, ", ".join(protected), guess(table, protected)])
            write(distances, areas, guesses)


def write(
    distances: list[list[str]], areas: list[list[str]], guesses: list[list[str]]
) -> None:
    header = ["table", "protected", "promise for"]
    header += [f"ε = {epsilon:g}" for epsilon in EPSILONS]
    write_results(
        "protected_columns",
        "Tables of which named columns are private",
        ["skdp", "numpy", "scikit-learn"],
        f"Means and standard deviations over {SEEDS} seeds, δ = {DELTA:g}. Rows keep all "
        "other columns. **The promises are different ones**: of the same ε, that for the "
        "values of columns leaves all others and the number of rows public. The release "
        "for whole records that is read for these values has as much noise less as its "
        "promise for them, from the noise of its own parts, allows. Areas are those of a "
        "logistic regression of all columns that is trained on the rows and tested on "
        "others as they are, of the first seed, as the share of what is lost at ε = 0.",
        {
            "Mean total variation of pairs with a protected column": (
                [*header, "CPU s"],
                distances,
            ),
            "Share of the area that is recovered": (header, areas),
            "What public columns tell": (["table", "protected", "predicted"], guesses),
        },
    )


if __name__ == "__main__":
    main()
