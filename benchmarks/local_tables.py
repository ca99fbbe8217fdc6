"""How accurate a whole table is in the local model: the plan, its rivals, measured errors, and other libraries.

Run ``make bench``, or ``python benchmarks/local_tables.py`` wherever skdp is installed; without multi-freq-ldpy and
pure-ldp their columns are empty. Errors are n times the mean squared error of a cell.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from _timing import verdict, write_results
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer

from skdp import LocalTableEncoder, NumericPerturber
from skdp.datasets import load_adult

SIZE, TURNS, EPSILONS = 10_000, 10, (0.5, 1.0, 2.0, 4.0, 8.0)
STRATEGIES = ("split", "joint", "sample", "weighted", "groups")
OF_PAIRS = (*STRATEGIES, "overlapping")
PEERS = ("SPL", "SMP", "RSpFD")


def tables() -> dict[str, pd.DataFrame]:
    """Return Adult and two generated tables, as codes."""
    rng = np.random.default_rng(0)
    names = ["sex", "race", "education", "marital-status", "relationship"]
    adult = load_adult().data[names].sample(SIZE, random_state=0)
    coded = pd.DataFrame(
        {
            name: np.unique(adult[name].astype(str), return_inverse=True)[1]
            for name in names
        }
    )
    alike = rng.integers(0, 9, (SIZE, 4))
    alike[:, 1] = np.where(rng.random(SIZE) < 0.7, alike[:, 0], alike[:, 1])
    skewed = np.column_stack(
        [np.minimum(rng.zipf(1.5, SIZE), k) - 1 for k in (2, 5, 16, 60)]
    )
    return {
        "Adult": coded,
        "four columns of 9 values": pd.DataFrame(alike, columns=[*"abcd"]),
        "2, 5, 16 and 60 values": pd.DataFrame(skewed, columns=[*"abcd"]),
    }


def measured(
    rows: pd.DataFrame, estimate: Callable[[], NDArray[np.float64]], turns: int = TURNS
) -> str:
    """Return n times the mean squared error of the shares of all values."""
    truth = np.concatenate(
        [np.bincount(rows[name], minlength=rows[name].max() + 1) for name in rows]
    ) / len(rows)
    return (
        f"{len(rows) * np.mean([(estimate() - truth) ** 2 for _ in range(turns)]):.3g}"
    )


def of_peer(name: str, rows: pd.DataFrame, epsilon: float) -> str:
    """Return the measured error of a solution of multi-freq-ldpy, as it returns the shares: cut and scaled."""
    try:
        from multi_freq_ldpy.mdim_freq_est import (
            RSpFD_solution,
            SMP_solution,
            SPL_solution,
        )
    except ImportError:
        return "—"
    module = {"SPL": SPL_solution, "SMP": SMP_solution, "RSpFD": RSpFD_solution}[name]
    client, server = (
        getattr(module, f"{name}_ADP_{side}") for side in ("Client", "Aggregator_MI")
    )
    sizes, records = (
        [int(rows[column].max()) + 1 for column in rows],
        rows.to_numpy().tolist(),
    )
    settings = sizes, len(sizes), epsilon

    def estimate() -> NDArray[np.float64]:
        return np.concatenate(
            server([client(record, *settings) for record in records], *settings)
        )

    return measured(rows, estimate, 3)


def of_pure_ldp(rows: pd.DataFrame, epsilon: float) -> str:
    """Return the measured error of pure-ldp, which has columns only: each with the better oracle and its share."""
    try:
        from pure_ldp.frequency_oracles import direct_encoding, unary_encoding
    except ImportError:
        return "—"
    share = epsilon / rows.shape[1]

    def estimate() -> NDArray[np.float64]:
        found = []
        for name in rows:
            k = int(rows[name].max()) + 1
            if k < 3 * np.exp(share) + 2:
                sides = direct_encoding.DEClient, direct_encoding.DEServer
                client, server = (side(share, k, index_mapper=int) for side in sides)
            else:
                makers = unary_encoding.UEClient, unary_encoding.UEServer
                client, server = (
                    side(share, k, use_oue=True, index_mapper=int) for side in makers
                )
            server.aggregate_all(
                [client.privatise(value) for value in rows[name].tolist()]
            )
            found.append(
                np.asarray(server.estimate_all(range(k), suppress_warnings=True))
                / len(rows)
            )
        return np.concatenate(found)

    return measured(rows, estimate, 3)


def margins() -> list[list[str]]:
    """Compare the errors of margins."""
    found = []
    for title, rows in tables().items():
        values = {name: range(int(rows[name].max()) + 1) for name in rows}
        for epsilon in EPSILONS:
            encoder = LocalTableEncoder(epsilon, categories=values).fit(rows)
            errors = encoder.plan_.strategies["error"]

            def estimate(
                postprocess: Any, encoder: Any = encoder, rows: Any = rows
            ) -> NDArray[np.float64]:
                shares = encoder.estimate_frequencies(
                    encoder.transform(rows), postprocess=postprocess
                )
                return np.asarray(shares["frequency"])

            least = errors[encoder.plan_.strategy]
            cells = [title, f"{epsilon:g}", encoder.plan_.strategy, f"{least:.3g}"]
            cells += [measured(rows, lambda own=estimate: own("none"))]
            cells += [f"{errors[name] / least:.2f}" for name in STRATEGIES]
            cells += [
                verdict(bool(least <= errors.min())),
                measured(rows, lambda own=estimate: own("simplex")),
            ]
            found.append(
                cells
                + [of_peer(name, rows, epsilon) for name in PEERS]
                + [of_pure_ldp(rows, epsilon)]
            )
    return found


def measured_pairs(
    rows: pd.DataFrame, encoder: LocalTableEncoder, turns: int = 3
) -> str:
    """Return n times the mean squared error of the shares of all combinations of values of two columns."""
    squares: list[float] = []
    for _ in range(turns):
        reports = encoder.transform(rows)
        for pair in combinations(rows, 2):
            counts = encoder.estimate_joint_counts(reports, pair)["count"]
            truth = rows.value_counts([*pair]).reindex(counts.index, fill_value=0)
            squares += [*((counts - truth) / len(rows)) ** 2]
    return f"{len(rows) * np.mean(squares):.3g}"


def pairs() -> list[list[str]]:
    """Compare the errors of pairs of columns."""
    found = []
    for title, rows in tables().items():
        values = {name: range(int(rows[name].max()) + 1) for name in rows}
        for epsilon in EPSILONS:
            encoder = LocalTableEncoder(
                epsilon, categories=values, purpose="pairs"
            ).fit(rows)
            plan = encoder.plan_
            errors = plan.strategies["error"]
            times = [
                f"{errors[name] / errors.min():.4g}" if name in errors else "—"
                for name in OF_PAIRS
            ]
            found.append([title, f"{epsilon:g}", plan.strategy, f"{errors.min():.3g}"])
            found[-1] += [measured_pairs(rows, encoder), *times]
    return found


def means() -> list[list[str]]:
    """Compare split and sampled numbers: exact errors for the values, in half ranges, and measured ones."""
    adult = load_adult().data
    names = ["age", "capital-gain", "capital-loss", "education-num", "hours-per-week"]
    cells = load_breast_cancer(as_frame=True).data.iloc[:, :5]
    bounds = dict(
        zip(names, [(0, 100), (0, 100_000), (0, 5_000), (1, 16), (0, 100)], strict=True)
    )
    wide = {name: (0, 2 * float(cells[name].median())) for name in cells}
    found = []
    for title, rows, given in (
        ("Adult", adult[names], bounds),
        ("breast cancer", cells, wide),
    ):
        for epsilon in EPSILONS:
            row = [title, f"{epsilon:g}"]
            for strategy, mechanism in (
                ("split", "laplace"),
                ("split", "optimal"),
                ("sample", "optimal"),
            ):
                fitted = NumericPerturber(
                    epsilon, mechanism=mechanism, bounds=given, strategy=strategy
                ).fit(rows)
                row.append(f"{_exact(fitted, rows):.3g}")
            found.append([*row, verdict(float(row[4]) <= float(row[3]))])
    return found


def _exact(fitted: NumericPerturber, rows: pd.DataFrame) -> float:
    low, high = fitted.bounds_.T
    positions = (
        (np.clip(rows.to_numpy(float), low, high) - low)
        / (high - low)
        * fitted.mechanism_.steps
    )
    noise = np.mean(
        [fitted.mechanism_.variances(column).mean() for column in positions.T]
    )
    share = fitted.n_sampled_ / len(low)
    return float(
        (noise / share + (1 / share - 1) * positions.var(axis=0).mean())
        / (fitted.mechanism_.steps / 2) ** 2
    )


def main() -> None:
    plan = ("table", "epsilon", "strategy", "n · MSE")
    times = tuple(f"{name} / best" for name in STRATEGIES)
    peers = (*(f"multi-freq-ldpy {name}" for name in PEERS), "pure-ldp, split")
    write_results(
        "local_tables",
        "Tables in the local model",
        ("skdp", "numpy", "multi-freq-ldpy", "pure-ldp"),
        f"n times the mean squared error of a cell, for {SIZE:,} records; n · MSE and the ratios are in closed form, "
        f"what is measured is the mean of {TURNS} collections, of 3 for the other libraries. The estimates of "
        "multi-freq-ldpy are cut and scaled: compare them with simplex; those of pure-ldp are not. The RS+FD of "
        "multi-freq-ldpy is not of this epsilon: the whole report of a record has the amplified one, such as 2.26 for "
        "1 and 5 columns. It has no RS+RFD in this version.",
        {
            "Margins": (
                (
                    *plan,
                    "measured",
                    *times,
                    "never worse?",
                    "measured, simplex",
                    *peers,
                ),
                margins(),
            ),
            "Pairs of columns": (
                (*plan, "measured", *times, "overlapping / best"),
                pairs(),
            ),
            "Means of five numbers": (
                (
                    "table",
                    "epsilon",
                    "split, laplace",
                    "split, optimal",
                    "sampled, optimal",
                    "as low as split?",
                ),
                means(),
            ),
        },
    )


if __name__ == "__main__":
    main()
