"""How accurate lists, keys with numbers and several rows a person are in the local model, beside published protocols.

Run ``make bench``, or ``python benchmarks/sets_and_pairs.py`` wherever skdp is installed. No library of the package
index has protocols for lists or for keys with values: the published ones are those of skdp itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from _timing import verdict, write_results
from numpy.typing import NDArray

from skdp import KeyValueEncoder, PerPerson, RandomizedResponseEncoder, SetValuedEncoder
from skdp.datasets import load_adult
from skdp.frames import read_table
from skdp.oracles import SampledSet, SetSelection, SetUnaryEncoding

SIZE, TURNS, EPSILONS = 5_000, 500, (0.5, 1.0, 2.0, 4.0)
GRID = [(20, 2), (100, 2), (100, 5), (100, 10), (1_000, 5), (1_000, 20), (10, 10)]
PAIRS = ("auto", "pckv_grr", "pckv_ue")
FACTS = ("degree", "married", "long hours", "capital gain", "capital loss", "own business", "born elsewhere")


def lists() -> dict[str, tuple[list[list[Any]], list[Any], int]]:
    """Return the lists of Adult and of a generated table, the declared values, and the most values of a list."""
    rng, adult = np.random.default_rng(0), load_adult().data.sample(SIZE, random_state=0)
    facts = np.column_stack(
        [
            adult["education-num"] >= 13,
            adult["marital-status"].astype(str).str.startswith("Married"),
            adult["hours-per-week"] > 40,
            adult["capital-gain"] > 0,
            adult["capital-loss"] > 0,
            adult["workclass"].astype(str).str.startswith("Self"),
            adult["native-country"].astype(str) != "United-States",
        ]
    )
    shares = 1 / np.arange(1, 101)
    drawn = [rng.choice(100, rng.integers(0, 6), replace=False, p=shares / shares.sum()).tolist() for _ in range(SIZE)]
    return {
        "Adult, 7 facts": ([[FACTS[place] for place in np.flatnonzero(row)][:4] for row in facts], [*FACTS], 4),
        "generated, 100 values": (drawn, [*range(100)], 5),
    }


def pairs() -> dict[str, tuple[list[dict[Any, float]], list[Any], int]]:
    """Return the pairs of Adult (numbers that are not 0, in parts of their bounds) and of a generated table."""
    rng, adult = np.random.default_rng(1), load_adult().data.sample(SIZE, random_state=1)
    bounds = {"age": 100, "capital-gain": 100_000, "capital-loss": 5_000, "education-num": 16, "hours-per-week": 100}
    numbers = adult[[*bounds]].to_numpy(float) / np.array([*bounds.values()])
    own = [{name: value for name, value in zip(bounds, row, strict=True) if value > 0} for row in numbers.tolist()]
    shares, means = 1 / np.arange(1, 21), rng.uniform(0.1, 0.9, 20)
    drawn = [rng.choice(20, rng.integers(0, 4), replace=False, p=shares / shares.sum()).tolist() for _ in range(SIZE)]
    cells = [{key: float(rng.beta(4 * means[key], 4 - 4 * means[key])) for key in keys} for keys in drawn]
    return {"Adult, 5 numbers": (own, [*bounds], 5), "generated, 20 keys": (cells, [*range(20)], 3)}


def collections(encoder: Any, table: pd.DataFrame, times: int) -> Iterator[Any]:
    """Yield the tallies of many collections of the same records."""
    protocol = encoder.protocol_
    codes = protocol.prepare(read_table(table))
    for _ in range(times):
        yield protocol.tally(protocol.randomise(codes, [], encoder.randomness()))


def exact_errors() -> list[list[str]]:
    """Compare the protocols for lists in closed form."""
    found = []
    for k, m in GRID:
        for epsilon in EPSILONS:
            makes = (SetSelection, SetUnaryEncoding, SampledSet)
            errors = [make(k, m, epsilon).mean_squared_error for make in makes]
            errors.append(SampledSet(k, m, epsilon, oracle="subset_selection").mean_squared_error)
            row = SetValuedEncoder(epsilon, categories={"list": range(k)}, max_size=m).fit(pd.DataFrame({"list": [[]]}))
            least = row.oracles_[0].mean_squared_error
            cells = [f"{k:,}", str(m), f"{epsilon:g}", *(f"{error:.3g}" for error in errors)]
            found.append([*cells, f"{min(errors[1:]) / least:.2f}", verdict(bool(least <= min(errors)))])
    return found


def measured_lists() -> list[list[str]]:
    """Measure errors and the coverage of intervals of lists."""
    found = []
    for title, (cells, values, most) in lists().items():
        table = pd.DataFrame({"list": pd.Series(cells, dtype=object)})
        truth = pd.Series([value for cell in cells for value in cell]).value_counts().reindex(values, fill_value=0)
        for epsilon in EPSILONS:
            row = [title, f"{epsilon:g}"]
            for oracle in ("auto", "set_unary_encoding", "local_hashing"):
                encoder: Any = SetValuedEncoder(epsilon, categories={"list": values}, max_size=most, oracle=oracle)
                encoder.fit(table)
                errors, inside = [], []
                for tally in collections(encoder, table, TURNS if oracle == "auto" else 20):
                    counts = encoder.estimate_counts(tally)
                    errors.append(((counts["count"] - truth) ** 2).mean() / SIZE)
                    inside.append(((counts["lower"] <= truth) & (truth <= counts["upper"])).mean())
                row.append(f"{np.mean(errors):.3g}")
                if oracle == "auto":
                    kept = truth.sum() / SIZE
                    row += [f"{encoder.oracles_[0].error(kept):.3g}", f"{100 * np.mean(inside):.1f} %"]
            found.append(row)
    return found


def measured_pairs() -> list[list[str]]:
    """Measure errors and the coverage of intervals of counts of keys and of means of their values."""
    found = []
    for title, (cells, keys, most) in pairs().items():
        table = pd.DataFrame({"pairs": pd.Series(cells, dtype=object)})
        flat = pd.DataFrame([pair for cell in cells for pair in cell.items()], columns=["key", "value"])
        truth = flat.groupby("key")["value"].agg(["count", "mean"]).reindex(keys)
        for epsilon in EPSILONS:
            row, coverage = [title, f"{epsilon:g}"], []
            for oracle in PAIRS:
                encoder: Any = KeyValueEncoder(
                    epsilon, categories={"pairs": keys}, bounds=(0, 1), max_size=most, oracle=oracle
                ).fit(table)
                errors = []
                for tally in collections(encoder, table, TURNS if oracle == "auto" else 50):
                    counts, means = encoder.estimate_counts(tally), encoder.estimate_mean(tally)
                    shares = (counts["count"] - truth["count"]) / SIZE
                    errors.append([(shares**2).mean() ** 0.5, _typical(means["mean"].fillna(0.5) - truth["mean"])])
                    if oracle == "auto":
                        coverage.append([_inside(counts, truth["count"]), _inside(means, truth["mean"])])
                row += [f"{error:.3g}" for error in np.mean(errors, axis=0)]
            found.append([*row, *(f"{100 * share:.1f} %" for share in np.mean(coverage, axis=0))])
    return found


def _typical(errors: pd.Series) -> float:
    return float((errors**2).mean() ** 0.5)


def _inside(table: pd.DataFrame, truth: pd.Series) -> float:
    return float(((table["lower"] <= truth) & (truth <= table["upper"])).mean())


def persons() -> list[list[str]]:
    """Measure errors and coverage for persons with several rows, drawn from a population again each time."""
    rng, found = np.random.default_rng(2), []
    tastes = np.array([[0.7, 0.2, 0.1, 0.0], [0.1, 0.2, 0.3, 0.4]])
    for epsilon in (1.0, 2.0, 4.0):
        row = [f"{epsilon:g}"]
        for most in (1, 2, 4):
            encoder = RandomizedResponseEncoder(epsilon / most, categories={"page": range(4)})
            private = PerPerson(encoder, max_rows_per_person=most).fit(pd.DataFrame({"page": [0]}))
            errors, inside = [], []
            for _ in range(TURNS // 5):
                sizes = rng.integers(1, 8, 2_000)
                owners = np.repeat(np.arange(2_000), sizes)
                pages = _pages(rng, tastes[(sizes[owners] > 3).astype(int)])
                estimate = private.estimate_frequencies(private.transform(pages, groups=owners))
                truth = pd.crosstab(owners, pages["page"], normalize="index").mean().reindex(range(4), fill_value=0)
                errors.append(_typical(estimate["frequency"] - truth.to_numpy()))
                inside.append(_inside(estimate, pd.Series(truth.to_numpy(), estimate.index)))
            row += [f"{np.mean(errors):.4f}", f"{100 * np.mean(inside):.1f} %"]
        found.append(row)
    return found


def _pages(rng: np.random.Generator, shares: NDArray[np.float64]) -> pd.DataFrame:
    return pd.DataFrame(
        {"page": (rng.random(len(shares))[:, np.newaxis] > shares.cumsum(axis=1)).sum(axis=1).clip(0, 3)}
    )


def main() -> None:
    of_pairs = [f"{name}, {what}" for name in ("best", "PCKV-GRR", "PCKV-UE") for what in ("share", "mean")]
    sizes = ("values", "max_size", "epsilon")
    protocols = ("set selection", "bit vector", "sampled, hashing", "sampled, subset")
    write_results(
        "sets_and_pairs",
        "Lists, keys with numbers, and several rows a person",
        ("skdp", "numpy"),
        "Exact errors are n times the mean squared error of a share, for the worst sizes of lists. Measured: "
        f"{SIZE:,} records, {TURNS} collections of the same ones (20 or 50 of the rivals), secure randomness. "
        "Padding and sampling reports a sampled value by local hashing or subset selection. Keys and values: root"
        " mean square errors; the mean of a key that no one seems to hold counts as the middle of the bounds. "
        "Intervals of means are those of Fieller, whose variance is that of equal values, and which are as wide "
        "as the bounds where a key is rare: they cover more there. Persons: of 100 collections, the root mean "
        "square error of a share, 2,000 persons of one to seven rows, epsilon of a person; intervals are about "
        "these persons, and wider than needed where the rows of a person are alike.",
        {
            "Lists, exact": (
                (*sizes, *protocols, "rival / best", "never worse?"),
                exact_errors(),
            ),
            "Lists, measured": (
                ("table", "epsilon", "best", "best, exact", "coverage of 95 %", "bit vector", "sampled, hashing"),
                measured_lists(),
            ),
            "Keys and values, measured": (
                ("table", "epsilon", *of_pairs, "coverage, counts", "coverage, means"),
                measured_pairs(),
            ),
            "Several rows a person": (
                ("epsilon", "1 row", "coverage", "2 rows", "coverage of 2", "4 rows", "coverage of 4"),
                persons(),
            ),
        },
    )


if __name__ == "__main__":
    main()
