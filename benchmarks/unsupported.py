"""What `synthetic_inference` and the quality picture mark as not supported, and whether the rest holds the truth.

Run ``make bench``, or ``python benchmarks/unsupported.py`` wherever skdp is installed: it takes four minutes.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
from _timing import write_results
from sklearn.linear_model import LinearRegression

from skdp import DPMarginalSynthesizer, Interval
from skdp.evaluation import TableQualityDisplay
from skdp.synthesis import synthetic_inference

DELTA = 1e-6
N_POPULATION = 1_000_000
SEEDS = 40

N_BILLS = 30_000
EFFECTS = (0.01, 0.1)
"""The years by which a unit of the copay rises with age."""

N_GROUPS = 3_000
GROUP_SHARES = (0.002, 0.01, 0.05)

N_AMOUNTS = 20_000
FEW_AMOUNTS = 3_000
N_ZEROS_AND_MORE = {"a": 0.8, "b": 0.2}
"""The share of zeros in each group."""

FEW_ROWS = (20, 40, 60, 100, 150)
OFF = 0.5
"""The distance from the real shares beyond which a figure is off."""


def fitted(epsilon: float, table: pd.DataFrame, **options: Any) -> Any:
    synthesizer = DPMarginalSynthesizer(epsilon, **options)
    with warnings.catch_warnings():
        # Of a seed, and of pairs without room.
        warnings.simplefilter("ignore", UserWarning)
        return synthesizer.fit(table)


def bills(n: int, effect: float, rng: np.random.Generator) -> pd.DataFrame:
    """Draw bills with a long tail, of which some persons pay a tenth themselves."""
    cost = rng.lognormal(6, 1, n).round(2).clip(0, 90_000)
    is_free = rng.random(n) < 0.6
    copay = np.where(is_free, 0, (cost / 10).round(2)).clip(0, 4_999)
    age = (45 + effect * copay + rng.normal(0, 10, n)).round().clip(0, 104)
    sex = rng.choice(["f", "m"], n)
    return pd.DataFrame({"copay": copay, "cost": cost, "sex": sex, "age": age})


BILLS = {
    "copay": Interval(0, 5_000, bins=20, decimals=2),
    "cost": Interval(0, 100_000, bins=40, decimals=2),
    "sex": ["f", "m"],
    "age": Interval(0, 105, bins=21),
}


def true_coefficients(effect: float) -> dict[str, float]:
    """Return those of a large population."""
    population = bills(N_POPULATION, effect, np.random.default_rng(999))
    features = population[["copay", "cost"]].copy()
    features["sex=m"] = (population["sex"] == "m").astype(float)
    model = LinearRegression().fit(features, population["age"])
    coefficients = dict(zip(features, model.coef_.tolist(), strict=True))
    return {"intercept": float(model.intercept_), **coefficients}


def correlated_columns() -> Iterator[dict[str, Any]]:
    for effect in EFFECTS:
        true = true_coefficients(effect)
        for epsilon in (1.0, 10.0):
            for seed in range(SEEDS):
                table = bills(N_BILLS, effect, np.random.default_rng(seed))
                synthesizer = fitted(
                    epsilon,
                    table,
                    delta=DELTA,
                    domain=BILLS,
                    bins="private",
                    analyses=["age ~ copay + cost + sex"],
                    random_state=seed,
                )
                terms = synthetic_inference(
                    synthesizer,
                    LinearRegression(),
                    columns=["copay", "cost", "sex"],
                    target="age",
                )
                for term in terms.itertuples():
                    case = (f"{effect:g}", f"{epsilon:g}", term.term)
                    yield judged(case, term, true[term.term])


def judged(case: tuple[str, ...], term: Any, true: float) -> dict[str, Any]:
    is_held = term.lower <= true <= term.upper
    return {"case": case, "supported": term.supported, "held": is_held}


def share_of_group(rows: pd.DataFrame) -> float:
    """Return the share of those who answer yes, of a rare group."""
    is_rare = rows["group"] == "rare"
    n_yes = (is_rare & (rows["answer"] == "yes")).sum()
    return float(n_yes / max(1, is_rare.sum()))


def share_of_all(rows: pd.DataFrame) -> float:
    """Return how many are of the rare group and answer yes."""
    return float(((rows["group"] == "rare") & (rows["answer"] == "yes")).mean())


def noisy_groups() -> Iterator[dict[str, Any]]:
    domain = {"group": ["most", "rare"], "answer": ["no", "yes"]}
    statistics: dict[str, Callable[[pd.DataFrame], float]] = {
        "share of yes in the group": share_of_group,
        "share of the group and yes": share_of_all,
    }
    for place, share in enumerate(GROUP_SHARES):
        for seed in range(SEEDS):
            # Of each share, other tables and other noise.
            number = place * SEEDS + seed
            rng = np.random.default_rng(number)
            is_rare = rng.random(N_GROUPS) < share
            is_yes = rng.random(N_GROUPS) < np.where(is_rare, 0.7, 0.4)
            table = pd.DataFrame(
                {
                    "group": np.where(is_rare, "rare", "most"),
                    "answer": np.where(is_yes, "yes", "no"),
                }
            )
            synthesizer = fitted(
                0.5,
                table,
                domain=domain,
                marginals=[("group", "answer")],
                random_state=number,
            )
            true = {
                "share of yes in the group": 0.7,
                "share of the group and yes": 0.7 * share,
            }
            for name, statistic in statistics.items():
                terms = synthetic_inference(
                    synthesizer, statistic, columns=["group", "answer"]
                )
                yield judged((f"{share:g}", name), terms.iloc[0], true[name])


def zeros(n: int, rng: np.random.Generator) -> pd.DataFrame:
    """Draw amounts of which one group has more that are 0."""
    group = rng.choice(list(N_ZEROS_AND_MORE), n)
    share = np.where(group == "a", N_ZEROS_AND_MORE["a"], N_ZEROS_AND_MORE["b"])
    amount = np.where(rng.random(n) < share, 0, rng.exponential(15, n)).clip(0, 199)
    return pd.DataFrame({"group": group, "amount": amount})


def shifted(n: int, rng: np.random.Generator) -> pd.DataFrame:
    """Draw amounts that differ between groups only below 10."""
    group = rng.choice(["a", "b"], n)
    low = rng.uniform(0, 5, n) + 5 * (group == "b")
    is_high = rng.random(n) < 0.05
    amount = np.where(is_high, rng.uniform(10, 100, n), low)
    return pd.DataFrame({"group": group, "amount": amount})


def difference(rows: pd.DataFrame) -> float:
    means = rows.groupby("group")["amount"].mean()
    return float(means["b"] - means["a"])


AMOUNTS: dict[str, tuple[Callable[..., pd.DataFrame], Interval, str, int, float]] = {
    "zeros, two declared bins": (
        zeros,
        Interval(edges=[0, 40, 200], real=True),
        "declared",
        N_AMOUNTS,
        3.0,
    ),
    "shifted, two declared bins": (
        shifted,
        Interval(edges=[0, 10, 100], real=True),
        "declared",
        N_AMOUNTS,
        3.0,
    ),
    "zeros, 20 declared bins": (
        zeros,
        Interval(0, 200, bins=20, real=True),
        "declared",
        N_AMOUNTS,
        3.0,
    ),
    "zeros, few private bins": (
        zeros,
        Interval(0, 200, bins=20, real=True),
        "private",
        FEW_AMOUNTS,
        0.2,
    ),
    "shifted, few private bins": (
        shifted,
        Interval(0, 100, bins=20, real=True),
        "private",
        FEW_AMOUNTS,
        0.2,
    ),
}
"""The table, its bins, the number of rows and epsilon."""


def crowded_bins() -> Iterator[dict[str, Any]]:
    for name, (draw, interval, bins, n_rows, epsilon) in AMOUNTS.items():
        true = difference(draw(N_POPULATION, np.random.default_rng(999)))
        for seed in range(SEEDS):
            synthesizer = fitted(
                epsilon,
                draw(n_rows, np.random.default_rng(seed)),
                delta=DELTA,
                domain={"group": ["a", "b"], "amount": interval},
                bins=bins,
                analyses=[["group", "amount"]],
                random_state=seed,
            )
            terms = synthetic_inference(
                synthesizer, difference, columns=["group", "amount"]
            )
            n_bins = len(synthesizer.domain_["amount"].edges) - 1
            row = judged((name, f"{epsilon:g}"), terms.iloc[0], true)
            yield row | {"bins": n_bins}


def small_tables(n: int, rng: np.random.Generator) -> dict[str, pd.DataFrame]:
    """Draw tables of one to five columns."""
    letters = np.array(list("abcdefghij"))
    trait = rng.normal(size=n)
    town = rng.choice(
        letters, n, p=(1 / np.arange(1, 11)) / (1 / np.arange(1, 11)).sum()
    )
    answers = pd.DataFrame(
        {
            "sex": rng.choice(["f", "m"], n),
            "rare": rng.choice(["no", "yes"], n, p=[0.95, 0.05]),
            "job": rng.choice(letters[:5], n, p=[0.5, 0.2, 0.15, 0.1, 0.05]),
            "grade": letters[np.clip(1.2 * trait + 2.5, 0, 4).astype(int)],
            "hired": np.where(trait + 0.5 * rng.normal(size=n) > 0, "yes", "no"),
        }
    )
    towns = pd.DataFrame({"town": town, "sex": answers["sex"]})
    return {
        "one of 2": answers[["sex"]],
        "one of 5": answers[["job"]],
        "one of 10": towns[["town"]],
        "two": towns,
        "five": answers,
    }


SMALL_DOMAIN = {
    "sex": ["f", "m"],
    "rare": ["no", "yes"],
    "job": list("abcde"),
    "grade": list("abcde"),
    "hired": ["no", "yes"],
    "town": list("abcdefghij"),
}


def few_rows() -> Iterator[dict[str, Any]]:
    for n in FEW_ROWS:
        for epsilon in (0.1, 0.5):
            for seed in range(SEEDS):
                tables = small_tables(n, np.random.default_rng(1_000 * n + seed))
                for table in tables.values():
                    domain = {name: SMALL_DOMAIN[name] for name in table}
                    synthesizer = fitted(
                        epsilon, table, domain=domain, random_state=seed
                    )
                    case = (str(n), f"{epsilon:g}")
                    for row in figures_of(synthesizer, table):
                        yield {"case": case} | row


def figures_of(synthesizer: Any, table: pd.DataFrame) -> Iterator[dict[str, bool]]:
    """Compare columns and pairs of a model, which were measured, with the real ones."""
    domain = synthesizer.domain_
    codes = domain.encode([table[name] for name in domain.columns])
    for figure in TableQualityDisplay.from_estimator(
        synthesizer
    ).marginals.itertuples():
        if not figure.measured:
            continue
        names = [figure.column]
        if isinstance(figure.second_column, str):
            names.append(figure.second_column)
        places = [domain.columns.index(name) for name in names]
        shares = synthesizer.model_.marginal(tuple(places))
        real = np.zeros(shares.shape)
        np.add.at(real, tuple(codes[place] for place in places), 1 / len(table))
        is_off = np.abs(shares - real).sum() / 2 > OFF
        yield {"supported": bool(figure.supported), "off": bool(is_off)}


def inference_rows(runs: list[dict[str, Any]]) -> list[list[str]]:
    """Count, for each case, what is supported, and of that what holds the truth."""
    rows = []
    for case, terms in pd.DataFrame(runs).groupby("case", sort=False):
        supported = terms[terms["supported"]]
        held = "—"
        if len(supported) > 0:
            held = f"{supported['held'].sum()} of {len(supported)}"
        row = [*case, f"{len(supported)} of {len(terms)}", held]
        if "bins" in terms:
            row.append(f"{terms['bins'].min()} to {terms['bins'].max()}")
        rows.append(row)
    return rows


def quality_rows(runs: list[dict[str, Any]]) -> list[list[str]]:
    """Count what is off, what is supported, and both."""
    figures = pd.DataFrame(runs)
    rows = []
    for case, own in [*figures.groupby("case", sort=False), (("all", ""), figures)]:
        both = int((own["supported"] & own["off"]).sum())
        row = [*case, str(len(own)), str(own["off"].sum()), str(own["supported"].sum())]
        rows.append([*row, str(both)])
    return rows


def main() -> None:
    write_results(
        "unsupported",
        "What is not supported",
        ("skdp", "numpy", "scikit-learn"),
        f"Terms of `synthetic_inference` that are supported, and of those the 95 % intervals that hold the truth, over "
        f"{SEEDS} tables each.\n\n"
        f"Bills: {N_BILLS:,} rows, private bins, the regression of age on the bill (`cost`), the tenth of it that 40 % "
        "of persons pay themselves (`copay`), and sex: long tails, of which noise does not tell the two columns apart. "
        f"Groups: {N_GROUPS:,} rows at an epsilon of 0.5; a share within a group that may be noise, and of all rows, "
        "which has no such divisor. Bins: the difference of the means of two groups, where amounts differ within a bin "
        "that has most of them.\n\n"
        f"The last table is of the quality picture of a model. Of the columns and pairs that were measured, it counts "
        f"those that are further than {OFF:g} from the real rows, those that are said to be supported, and those that "
        "are both.",
        {
            "Correlated columns of bills": (
                ("effect of a unit", "epsilon", "term", "supported", "held"),
                inference_rows(list(correlated_columns())),
            ),
            "Groups that may be noise": (
                ("share of the group", "statistic", "supported", "held"),
                inference_rows(list(noisy_groups())),
            ),
            "Bins that have most numbers": (
                ("amounts", "epsilon", "supported", "held", "bins"),
                inference_rows(list(crowded_bins())),
            ),
            "Figures of few rows": (
                ("rows", "epsilon", "figures", "off", "supported", "both"),
                quality_rows(list(few_rows())),
            ),
        },
    )


if __name__ == "__main__":
    main()
