"""The tables of benchmarks/synthesis_adult.py, made of all measurements that are kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from statistics import mean, variance
from typing import Any

from _timing import verdict, write_results

Record = dict[str, Any]
Group = list[Record]  # of one method: its seeds
Tables = dict[str, tuple[tuple[str, ...], list[list[str]]]]

ADULT_ROWS, ADULT_COLUMNS = 32_561, 14
NAMES = {
    "mst": "MST",
    "aim": "AIM",
    "shuffled": "every column shuffled",
    "bootstrap": "bootstrap of the real rows",
}
CAVEATS = {
    "dpmm-aim": ", 200 iterations",
    "mbi-mst": ", our driver",
    "mbi-aim": ", our driver, 500 iterations",
}
SCORES = "1-way", "2-way", "3-way", "all 3-way", "AUC"
COSTS = "CPU s", "of which fit", "peak MB"
QUOTED = [
    "Google dpsynth, SWIFT: **not run**, quoted",
    "1",
    ".0074",
    ".0323",
    ".0720",
    "–",
    ".900",
    "88",
    "–",
    "1,308",
]

# What skdp should reach on all of Adult's training rows: at most, and the AUC at least.
LIMITS: dict[tuple[str, float], dict[str, float]] = {
    ("skdp-auto", 1): {
        "2-way": 0.0310,
        "3-way": 0.0700,
        "all 3-way": 0.0700,
        "AUC": 0.903,
        "CPU s": 5,
        "peak MB": 300,
    },
    ("skdp-auto", 0.1): {"2-way": 0.092},
    ("skdp-auto", 0.3): {"2-way": 0.056},
    ("skdp-auto", 3): {"2-way": 0.0205},
    ("skdp-auto", 10): {"2-way": 0.018},
}
AIM_LIMITS = {0.1: 0.28, 0.31: 0.18, 1: 0.125, 3.16: 0.105, 10: 0.10}
GROWTH_LIMITS = {
    (14, ADULT_ROWS): 5,
    (28, ADULT_ROWS): 10,
    (56, ADULT_ROWS): 25,
    (112, ADULT_ROWS): 60,
}
GROWTH_LIMITS[14, 1_000_000] = 8
MOST_SAMPLING = 2  # CPU seconds for a million rows
SMALL = 0.3  # up to this epsilon, "auto" should be no worse than "independent"
DEVIATIONS = 2  # standard errors of the difference that the seeds may make

NOTES = (
    "Adult's training rows without fnlwgt, numeric columns in at most 32 public bins, δ = 1e-09. The errors are mean "
    "total-variation distances to the real rows over all 1-way, all 2-way, 30 random 3-way and all 364 3-way "
    "marginals. Which 30 are drawn changes their mean by a fifth, so compare methods only, or look at all. AUC: "
    "HistGradientBoostingClassifier trained on the synthetic rows (their codes), tested on Adult's test rows. CPU "
    "seconds are of fit and sample, of all threads; peak memory is that of the process, libraries included. All are "
    "means over the seeds. skdp draws secure coins and takes the dataframe itself, so that coding the values and "
    "drawing them within the bins is in its time; peers take and give codes.\n\n"
    "mbi's wheel has inference only: MST and AIM are drivers of ours with the published splits of the budget. dpmm's "
    "AIM has 200 iterations a round (default 1,000), for time. Google's dpsynth is on GitHub only and cannot be "
    "installed here: its row is quoted from an earlier measurement on Python 3.12, one seed, other 30 marginals. "
    "smartnoise-synth and opendp[mbi] are left out: they pin mbi below 2, whose sampler of rows is broken. A failed "
    "method says in place of its CPU time which limit it exceeded."
)


def report(records: list[Record]) -> None:
    """Write and print the tables."""
    settings = {"adult": _adult, "aim": _aim, "growth": _growth}
    tables: Tables = {}
    for setting, make in settings.items():
        tables |= make([record for record in records if record["setting"] == setting])
    packages = "skdp", "numpy", "pandas", "scikit-learn"
    write_results("synthesis_adult", "Synthetic Adult", packages, NOTES, tables)


def _adult(records: list[Record]) -> Tables:
    tables: Tables = {}
    columns = "method", "seeds", *SCORES, *COSTS
    for (rows, epsilon), groups in _grouped(records, "rows", "epsilon"):
        title = "Without privacy" if epsilon is None else f"ε = {epsilon:g}"
        lines = [
            [_label(group), *_seeds(group), *_costly(group, SCORES)] for group in groups
        ]
        if (rows, epsilon) == (ADULT_ROWS, 1):
            lines.append(QUOTED)
        tables[f"{title}, {rows:,} rows"] = columns, lines
    tables["Targets"] = (
        ("method", "ε", "what", "measured", "limit", "met?"),
        list(_targets(records)),
    )
    small = (
        "rows",
        "ε",
        "what",
        "auto",
        "independent",
        "standard error of the difference",
        "auto at least as good?",
    )
    tables["Small budgets: skdp's auto beside independent"] = (
        small,
        list(_small(records)),
    )
    return {title: table for title, table in tables.items() if table[1]}


def _targets(records: list[Record]) -> Iterator[list[str]]:
    for (rows, epsilon), groups in _grouped(records, "rows", "epsilon"):
        for group in groups:
            limits = (
                LIMITS.get((group[0]["method"], epsilon), {})
                if rows == ADULT_ROWS
                else {}
            )
            for what, limit in limits.items():
                value = _mean(group, what)
                met = value is not None and (
                    value >= limit if what == "AUC" else value <= limit
                )
                sign = "≥" if what == "AUC" else "≤"
                line = [
                    _label(group),
                    f"{epsilon:g}",
                    what,
                    _number(what, value),
                    f"{sign} {limit:g}",
                ]
                yield [*line, verdict(met)]


def _small(records: list[Record]) -> Iterator[list[str]]:
    for (rows, epsilon), groups in _grouped(records, "rows", "epsilon"):
        named = {group[0]["method"]: group for group in groups}
        if (
            epsilon is None
            or epsilon > SMALL
            or not {"skdp-auto", "skdp-independent"} <= {*named}
        ):
            continue
        for what in ("1-way", "2-way", "AUC"):
            pair = [
                [record["scores"][what] for record in named[f"skdp-{name}"]]
                for name in ("auto", "independent")
            ]
            if min(map(len, pair)) < 2:
                continue
            error = sum(variance(values) / len(values) for values in pair) ** 0.5
            excess = (mean(pair[0]) - mean(pair[1])) * (-1 if what == "AUC" else 1)
            values = [_number(what, mean(values)) for values in pair]
            met = verdict(excess <= DEVIATIONS * error)
            yield [
                f"{rows:,}",
                f"{epsilon:g}",
                what,
                *values,
                _number(what, error),
                met,
            ]


def _aim(records: list[Record]) -> Tables:
    lines = []
    for (epsilon,), groups in _grouped(records, "epsilon"):
        for group in groups:
            limit = (
                AIM_LIMITS.get(epsilon) if group[0]["method"] == "skdp-auto" else None
            )
            value = _mean(group, "L1")
            met = (
                "–" if limit is None else verdict(value is not None and value <= limit)
            )
            budget = "–" if epsilon is None else f"{epsilon:g}"
            aimed = "–" if limit is None else f"≤ {limit:g}"
            lines.append(
                [
                    _label(group),
                    budget,
                    *_seeds(group),
                    *_costly(group, ("L1",)),
                    aimed,
                    met,
                ]
            )
    columns = "method", "ε", "seeds", "mean L1", *COSTS, "limit", "met?"
    title = "AIM's setting: 48,842 rows, 15 columns, mean L1 distance of all 455 3-way marginals"
    return {title: (columns, lines)} if lines else {}


def _growth(records: list[Record]) -> Tables:
    lines = []
    for (rows, columns, epsilon), groups in _grouped(
        records, "rows", "columns", "epsilon"
    ):
        for group in groups:
            limit = (
                GROWTH_LIMITS.get((columns, rows))
                if group[0]["method"] == "skdp-auto" and epsilon == 1
                else None
            )
            value, sampling = _mean(group, "CPU s"), _mean(group, "sample")
            met = (
                value is not None
                and sampling is not None
                and (limit is None or value <= limit)
            )
            met = met and (rows < 1_000_000 or sampling <= MOST_SAMPLING)
            ends = ["–", "–"] if limit is None else [f"≤ {limit}", verdict(met)]
            size = [f"{columns}", f"{rows:,}", f"{epsilon:g}"]
            lines.append(
                [
                    _label(group),
                    *size,
                    *_seeds(group),
                    *_costly(group, ("1-way", "2-way")),
                    *ends,
                ]
            )
    header = (
        "method",
        "columns",
        "rows",
        "ε",
        "seeds",
        "1-way",
        "2-way",
        *COSTS,
        "limit, CPU s",
        "met?",
    )
    title = "Growth: Adult's columns repeated (by turns a noisy copy and other rows), and rows resampled to a million"
    return (
        {f"{title} (of {MOST_SAMPLING} CPU s at most to sample them)": (header, lines)}
        if lines
        else {}
    )


def _grouped(
    records: Iterable[Record], *fields: str
) -> Iterator[tuple[tuple[Any, ...], list[Group]]]:
    """Group by some fields, in order, and within by the method."""

    def place(record: Record) -> tuple[Any, ...]:
        return tuple(
            record[field] if record[field] is not None else 0 for field in fields
        )

    ordered = sorted(records, key=lambda record: (place(record), _rank(record)))
    for _, found in groupby(ordered, key=place):
        group = list(found)
        methods = [
            list(same)
            for _, same in groupby(group, key=lambda record: record["method"])
        ]
        yield tuple(group[0][field] for field in fields), methods


def _rank(record: Record) -> tuple[int, str]:
    """Order the methods: references, skdp, peers."""
    library = record["method"].split("-")[0]
    return {"reference": 0, "skdp": 1}.get(library, 2), record["method"]


def _label(group: Group) -> str:
    method = group[0]["method"]
    library, algorithm = method.split("-")
    name = NAMES.get(algorithm, algorithm)
    if library == "reference":
        return name
    if library == "skdp":
        return f"**skdp** {name}"
    version = next(
        (f" {record['version']}" for record in group if "version" in record), ""
    )
    return f"{library}{version}: {name}{CAVEATS.get(method, '')}"


def _seeds(group: Group) -> list[str]:
    return [str(len(group))]


def _costly(group: Group, scores: tuple[str, ...]) -> list[str]:
    """Return the means of the scores and of the costs."""
    failed = next((record["failed"] for record in group if "failed" in record), None)
    if failed:
        return [*["–"] * len(scores), failed, "–", "–"]
    return [
        _number(what, _mean(group, what))
        for what in (*scores, "CPU s", "fit", "peak MB")
    ]


COSTLY: dict[str, Callable[[Record], float]] = {
    "CPU s": lambda record: record["fit"] + record["sample"],
    "fit": lambda record: record["fit"],
    "sample": lambda record: record["sample"],
    "peak MB": lambda record: record["peak"] / 1e6,
}


def _mean(group: Group, what: str) -> float | None:
    if any("failed" in record for record in group):
        return None
    return mean(
        COSTLY[what](record) if what in COSTLY else record["scores"][what]
        for record in group
    )


def _number(what: str, value: float | None) -> str:
    """Write an error as .0310, an AUC as .903, a cost with two or three digits."""
    if value is None:
        return "–"
    if what not in COSTLY:
        return f"{value:.{3 if what == 'AUC' else 4}f}".replace("0.", ".", 1)
    return f"{value:,.0f}" if value >= 20 else f"{value:.1f}"
