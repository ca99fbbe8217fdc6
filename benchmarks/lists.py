"""How accurate lists of values are in the local model, beside published protocols.

Run ``make bench``, or ``python benchmarks/lists.py`` wherever skdp is installed. No library of the package
index has protocols for lists: the published ones are those of skdp itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from _timing import verdict, write_results

from skdp import SetValuedEncoder
from skdp.datasets import load_adult
from skdp.oracles import SampledSet, SetSelection, SetUnaryEncoding
from skdp.tables import read_table

SIZE, TURNS, EPSILONS = 5_000, 500, (0.5, 1.0, 2.0, 4.0)
GRID = [(20, 2), (100, 2), (100, 5), (100, 10), (1_000, 5), (1_000, 20), (10, 10)]
FACTS = (
    "degree",
    "married",
    "long hours",
    "capital gain",
    "capital loss",
    "own business",
    "born elsewhere",
)


def lists() -> dict[str, tuple[list[list[Any]], list[Any], int]]:
    """Return the lists of Adult and of a generated table, the declared values, and the most values of a list."""
    rng, adult = (
        np.random.default_rng(0),
        load_adult().data.sample(SIZE, random_state=0),
    )
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
    drawn = [
        rng.choice(
            100, rng.integers(0, 6), replace=False, p=shares / shares.sum()
        ).tolist()
        for _ in range(SIZE)
    ]
    return {
        "Adult, 7 facts": (
            [[FACTS[place] for place in np.flatnonzero(row)][:4] for row in facts],
            [*FACTS],
            4,
        ),
        "generated, 100 values": (drawn, [*range(100)], 5),
    }


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
            errors.append(
                SampledSet(k, m, epsilon, oracle="subset_selection").mean_squared_error
            )
            row = SetValuedEncoder(
                epsilon, categories={"list": range(k)}, max_size=m
            ).fit(pd.DataFrame({"list": [[]]}))
            least = row.oracles_[0].mean_squared_error
            cells = [
                f"{k:,}",
                str(m),
                f"{epsilon:g}",
                *(f"{error:.3g}" for error in errors),
            ]
            found.append(
                [
                    *cells,
                    f"{min(errors[1:]) / least:.2f}",
                    verdict(bool(least <= min(errors))),
                ]
            )
    return found


def measured_lists() -> list[list[str]]:
    """Measure errors and the coverage of intervals of lists."""
    found = []
    for title, (cells, values, most) in lists().items():
        table = pd.DataFrame({"list": pd.Series(cells, dtype=object)})
        truth = (
            pd.Series([value for cell in cells for value in cell])
            .value_counts()
            .reindex(values, fill_value=0)
        )
        for epsilon in EPSILONS:
            row = [title, f"{epsilon:g}"]
            for oracle in ("auto", "set_unary_encoding", "local_hashing"):
                encoder: Any = SetValuedEncoder(
                    epsilon, categories={"list": values}, max_size=most, oracle=oracle
                )
                encoder.fit(table)
                errors, inside = [], []
                for tally in collections(
                    encoder, table, TURNS if oracle == "auto" else 20
                ):
                    counts = encoder.estimate_counts(tally)
                    errors.append(((counts["count"] - truth) ** 2).mean() / SIZE)
                    inside.append(
                        ((counts["lower"] <= truth) & (truth <= counts["upper"])).mean()
                    )
                row.append(f"{np.mean(errors):.3g}")
                if oracle == "auto":
                    kept = truth.sum() / SIZE
                    row += [
                        f"{encoder.oracles_[0].error(kept):.3g}",
                        f"{100 * np.mean(inside):.1f} %",
                    ]
            found.append(row)
    return found


def main() -> None:
    sizes = ("values", "max_size", "epsilon")
    protocols = ("set selection", "bit vector", "sampled, hashing", "sampled, subset")
    write_results(
        "lists",
        "Lists of values",
        ("skdp", "numpy"),
        "Exact errors are n times the mean squared error of a share, for the worst sizes of lists. Measured: "
        f"{SIZE:,} records, {TURNS} collections of the same ones (20 or 50 of the rivals), secure randomness. "
        "Padding and sampling reports a sampled value by local hashing or subset selection.",
        {
            "Lists, exact": (
                (*sizes, *protocols, "rival / best", "never worse?"),
                exact_errors(),
            ),
            "Lists, measured": (
                (
                    "table",
                    "epsilon",
                    "best",
                    "best, exact",
                    "coverage of 95 %",
                    "bit vector",
                    "sampled, hashing",
                ),
                measured_lists(),
            ),
        },
    )


if __name__ == "__main__":
    main()
