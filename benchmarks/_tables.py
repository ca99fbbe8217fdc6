"""Tables of the central, synthesis and fairness benchmarks, published and generated.

Adult is part of skdp. ACS Public Coverage, COMPAS and LSAC are read from the folder that
the environment variable ``SKDP_BENCH_DATA`` names, or fetched (`_published`); a table that
cannot be read is left out. The generated tables have known distributions, each with
a difficulty of its own.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from _published import TABLES
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

from skdp import Domain, Interval
from skdp.datasets import load_adult
from skdp.domain import Categories

Codes = NDArray[np.int64]
Rng = np.random.Generator

MAX_ROWS = 33_000  # Larger published tables are subsampled.
MAX_TREE_CATEGORIES = 255
MAX_TREE_ROWS = 12_000
ADULT_BINS: dict[str, Any] = {
    "age": Interval(16, 96, bins=32),
    "capital-gain": Interval(
        edges=[
            *(0, 1, *range(1_000, 8_001, 1_000), *range(10_000, 16_001, 1_000)),
            *(20_000, 25_000, 30_000, 50_000, 100_000),
        ]
    ),
    "capital-loss": Interval(
        edges=[0, 1, 500, 1_000, *range(1_500, 2_401, 100), 2_600, 3_000, 4_500]
    ),
    "hours-per-week": Interval(0, 100, bins=32),
}


@dataclass(frozen=True, eq=False)
class Table:
    """Training rows, test rows, their declared values, and the column to predict."""

    train: pd.DataFrame
    test: pd.DataFrame
    domain: Domain
    target: str | None = None

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return list(self.domain.columns)

    @functools.cached_property
    def sizes(self) -> dict[str, int]:
        """Number of declared values or bins of each column."""
        return {name: count_values(self.domain[name]) for name in self.columns}

    @functools.cached_property
    def codes(self) -> dict[str, Codes]:
        """Codes of the training rows."""
        return self.encode(self.train)

    def encode(self, frame: pd.DataFrame) -> dict[str, Codes]:
        """Replace each value by its index among the declared values or bins."""
        return {
            name: encode_column(frame[name], self.domain[name]) for name in self.columns
        }

    def decode(self, codes: Codes) -> pd.DataFrame:
        """Replace indices by declared values, or by the middle of bins."""
        return pd.DataFrame(
            {
                name: decode_column(column, self.domain[name])
                for name, column in zip(self.columns, codes.T, strict=True)
            }
        )

    def features(self, frame: pd.DataFrame) -> NDArray[np.int64]:
        """Codes of all columns except the target."""
        codes = self.encode(frame)
        return np.column_stack([codes[n] for n in self.columns if n != self.target])

    def is_positive(self, frame: pd.DataFrame) -> NDArray[np.bool_]:
        """Return True for rows with the second declared value of the target."""
        return encode_column(frame[self.target], self.domain[self.target]) == 1


def count_values(declared: Any) -> int:
    """Count the declared values or bins of a column."""
    if isinstance(declared, Interval):
        return len(declared.edges) - 1
    return len(declared.values)


def encode_column(column: pd.Series, declared: Any) -> Codes:
    """Replace values by the index of their declared value or bin; missing values have the index of None."""
    if isinstance(declared, Interval):
        edges = np.asarray(declared.edges, dtype=float)
        numbers = column.to_numpy(float)
        bins = np.searchsorted(edges, numbers, side="right") - 1
        return bins.clip(0, edges.size - 2).astype(np.int64)
    index = {value: code for code, value in enumerate(declared.values)}
    values = column.astype(object)
    codes = values.map(index)
    if None in index:
        codes = codes.where(values.notna(), index[None])
    return codes.to_numpy(np.int64)


def decode_column(codes: Codes, declared: Any) -> NDArray[Any]:
    """Replace indices by declared values, or by the middle of bins."""
    if isinstance(declared, Interval):
        edges = np.asarray(declared.edges, dtype=float)
        return ((edges[1:] + edges[:-1]) / 2)[codes]
    return np.array(declared.values, dtype=object)[codes]


def score_trees(table: Table, rows: pd.DataFrame) -> float:
    """Compute the area under the ROC curve of boosted trees that are trained on `rows`, on test rows."""
    if len(rows) > MAX_TREE_ROWS:
        rows = rows.sample(MAX_TREE_ROWS, random_state=0)
    test = table.test[:MAX_TREE_ROWS]
    label = table.is_positive(rows)
    if label.all() or not label.any():
        return 0.5
    is_categorical = [
        not is_ordered(table.domain[name])
        and 2 < table.sizes[name] <= MAX_TREE_CATEGORIES
        for name in table.columns
        if name != table.target
    ]
    model = HistGradientBoostingClassifier(
        max_iter=50, categorical_features=is_categorical, random_state=0
    )
    # Threads wait busily for each other when other processes use the cores.
    with threadpool_limits(1):
        model.fit(table.features(rows), label)
        chance = model.predict_proba(table.features(test))[:, 1]
    return float(roc_auc_score(table.is_positive(test), chance))


def bound_by_powers(columns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Declare bounds from 0 to the largest value of each column, rounded up to a power of 10."""
    high = 10 ** np.ceil(np.log10(columns.max(axis=0)))
    return np.column_stack([np.zeros(high.size), high])


def synthesize(
    table: Any, epsilon: float, seed: int, *, delta: float = 1e-9, **options: Any
) -> pd.DataFrame:
    """Draw as many synthetic rows as there are training rows."""
    from skdp import DPMarginalSynthesizer

    synthesizer = DPMarginalSynthesizer(
        epsilon, delta=delta, domain=table.domain, random_state=seed, **options
    )
    return synthesizer.fit(table.train).sample(len(table.train))


def is_ordered(declared: Any) -> bool:
    """Return True if neighboring values of a column are similar, as for numbers."""
    return isinstance(declared, Interval) or declared.ordered


# Published tables


def load_published() -> dict[str, Callable[[], Table]]:
    """Return loaders of the published tables that can be read here."""
    loaders = {"Adult": adult}
    loaders |= {name: functools.partial(load_file, name) for name in TABLES}
    return {name: load for name, load in loaders.items() if is_available(load)}


def is_available(load: Callable[[], Table]) -> bool:
    """Return True if a table can be loaded."""
    try:
        load()
    except OSError:
        return False
    return True


@functools.cache
def adult() -> Table:
    """Adult without fnlwgt: its training and test rows."""
    loaded = load_adult(dropna=True)
    test = load_adult(subset="test", dropna=True).frame
    names = [name for name in loaded.frame if name != "fnlwgt"]
    domain = {name: ADULT_BINS.get(name, loaded.domain[name]) for name in names}
    return Table(loaded.frame[names], test[names], Domain(domain), "income")


@functools.cache
def load_file(name: str) -> Table:
    """Read or fetch a published table, and keep 30 % of the rows for testing."""
    published = TABLES[name]
    frame = published.read(os.environ.get("SKDP_BENCH_DATA"))
    if len(frame) > MAX_ROWS:
        frame = frame.sample(MAX_ROWS, random_state=0)
    target = published.target
    train, test = train_test_split(
        frame, test_size=0.3, stratify=frame[target], random_state=0
    )
    parts = [part.reset_index(drop=True) for part in (train, test)]
    return Table(*parts, published.domain, target)


# Generated tables. Each has as many test rows as training rows.


def build_table(
    codes: Mapping[str, Codes],
    sizes: Mapping[str, int],
    unordered: tuple[str, ...] = (),
    target: str | None = None,
) -> Table:
    """Declare integers for ordered columns and texts for unordered ones."""
    domain: dict[str, Categories] = {}
    frame = {}
    for name, size in sizes.items():
        values = np.arange(size)
        if name in unordered:
            values = np.array([f"v{value}" for value in values], object)
        domain[name] = Categories(values, ordered=name not in unordered)
        frame[name] = values[codes[name]]
    rows = pd.DataFrame(frame)
    n_train = len(rows) // 2
    test = rows[n_train:].reset_index(drop=True)
    return Table(rows[:n_train], test, Domain(domain), target)


def draw_given(rng: Rng, size: int, *parents: Codes, spread: float = 0.3) -> Codes:
    """Draw a column with a Dirichlet distribution for each combination of its parents."""
    groups = np.zeros_like(parents[0])
    for parent in parents:
        groups = np.unique(groups * (parent.max() + 1) + parent, return_inverse=True)[1]
    concentration = np.maximum(size * spread * rng.dirichlet(np.ones(size)), 1e-3)
    return draw_rows(rng, rng.dirichlet(concentration, groups.max() + 1)[groups])


def draw_rows(rng: Rng, probabilities: NDArray[np.float64]) -> Codes:
    """Draw one value for each row of probabilities."""
    steps = probabilities.cumsum(axis=1)
    uniforms = rng.random((len(steps), 1)) * steps[:, -1:]
    return (uniforms > steps).sum(axis=1).clip(0, steps.shape[1] - 1)


def draw_zipf(rng: Rng, n: int, size: int, power: float) -> Codes:
    """Draw values of a Zipf distribution: probabilities are a power of the rank."""
    weights = np.arange(1, size + 1) ** -power
    return rng.permutation(size)[rng.choice(size, n, p=weights / weights.sum())]


def cut(numbers: NDArray[np.float64], size: int) -> Codes:
    """Cut numbers into bins of equal width between their outer percentiles."""
    low, high = np.quantile(numbers, [0.01, 0.99])
    return ((numbers - low) / (high - low) * size).astype(np.int64).clip(0, size - 1)


def draw_label(rng: Rng, logits: NDArray[np.float64]) -> Codes:
    """Draw a label of 0 or 1 with the given log-odds."""
    return (rng.random(logits.size) < 1 / (1 + np.exp(-logits))).astype(np.int64)


def standardize(numbers: NDArray[Any]) -> NDArray[np.float64]:
    """Scale numbers to mean 0 and standard deviation 1."""
    return (numbers - numbers.mean()) / max(1e-9, float(numbers.std()))


@functools.cache
def flights(n: int = 16_000) -> Table:
    """Flights: each airport has its carriers, destinations have distances, delays depend on the hour."""
    rng = np.random.default_rng(1)
    m = 2 * n
    airport = draw_zipf(rng, m, 60, 0.8)
    carrier = draw_rows(rng, rng.dirichlet(np.full(15, 0.12), 60)[airport])
    route = draw_rows(rng, np.tile([0.35, 0.25, 0.15, 0.1, 0.1, 0.05], (m, 1)))
    destination = rng.integers(0, 60, (60, 15, 6))[airport, carrier, route]
    places = rng.normal(size=(60, 2))
    length = np.linalg.norm(places[airport] - places[destination], axis=1)
    month, weekday = rng.integers(0, 12, m), rng.integers(0, 7, m)
    hour = draw_given(rng, 24, carrier, spread=1.0)
    distance = cut(length + 0.05 * rng.normal(size=m), 20)
    late = 0.12 * (hour - 12) + 0.8 * rng.normal(size=15)[carrier]
    late += 0.8 * np.cos(month / 2) + 0.5 * rng.normal(size=60)[airport]
    delay = cut(late + rng.gumbel(size=m), 15)
    codes = {
        "airport": airport,
        "carrier": carrier,
        "destination": destination,
        "distance": distance,
        "month": month,
        "weekday": weekday,
        "hour": hour,
        "plane": draw_given(rng, 10, carrier, distance // 5, spread=0.2),
        "delay": delay,
        "cancelled": draw_label(rng, -3.5 + 0.15 * delay + 0.8 * (month < 2)),
        "delayed": draw_label(rng, 1.6 * late - 1),
    }
    sizes = dict(zip(codes, (60, 15, 60, 20, 12, 7, 24, 10, 15, 2, 2), strict=True))
    unordered = ("airport", "carrier", "destination", "plane")
    return build_table(codes, sizes, unordered, "delayed")


@functools.cache
def postcodes(n: int = 40_000) -> Table:
    """People: the postcode determines the city, and the city determines the state (an undeclared hierarchy)."""
    rng = np.random.default_rng(4)
    m = 2 * n
    city_of = np.sort(rng.integers(0, 90, 1_000))
    state_of = np.sort(rng.integers(0, 20, 90))
    postcode = draw_zipf(rng, m, 1_000, 0.6)
    city = city_of[postcode]
    tier = rng.normal(size=90)[city]
    age = cut(rng.gamma(6, 7, m), 16)
    education = cut(0.7 * tier + rng.normal(size=m), 8)
    wealth = 0.8 * tier + 0.5 * standardize(education) + 0.2 * standardize(age)
    income = cut(wealth + rng.normal(size=m), 20)
    household = draw_given(rng, 6, age // 4, spread=1.0)
    logits = 0.25 * (income - 10) + 0.2 * (age - 7) - tier + 0.5 * (household > 2)
    codes = {
        "postcode": postcode,
        "city": city,
        "state": state_of[city],
        "age": age,
        "education": education,
        "income": income,
        "household": household,
        "owner": draw_label(rng, logits),
    }
    sizes = dict(zip(codes, (1_000, 90, 20, 16, 8, 20, 6, 2), strict=True))
    unordered = ("postcode", "city", "state", "household")
    return build_table(codes, sizes, unordered, "owner")


@functools.cache
def payments(n: int = 50_000) -> Table:
    """Card payments: each merchant has one type of goods, amounts are skewed, and fraud is rare."""
    rng = np.random.default_rng(9)
    m = 2 * n
    merchant = draw_zipf(rng, m, 300, 0.9)
    goods = rng.integers(0, 20, 300)[merchant]
    country = draw_given(rng, 25, goods, spread=0.4)
    spent = np.exp(rng.normal(2, 1, 20)[goods] + rng.normal(size=m))
    amount = np.searchsorted(np.geomspace(1, 5_000, 31), spent)
    hour = draw_given(rng, 24, goods, spread=0.8)
    device = draw_given(rng, 6, country, hour // 8, spread=0.7)
    age = cut(rng.gamma(5, 8, m), 12)
    logits = -2.5 + 0.12 * (amount - 15) + 1.2 * rng.normal(size=25)[country]
    codes = {
        "merchant": merchant,
        "goods": goods,
        "country": country,
        "amount": amount,
        "hour": hour,
        "device": device,
        "age": age,
        "card": draw_given(rng, 5, age // 3, spread=0.8),
        "fraud": draw_label(rng, logits + 0.8 * (hour < 5) * (device == 0)),
    }
    sizes = dict(zip(codes, (300, 20, 25, 32, 24, 6, 12, 5, 2), strict=True))
    unordered = ("merchant", "goods", "country", "device", "card")
    return build_table(codes, sizes, unordered, "fraud")


@functools.cache
def parity(n: int = 30_000) -> Table:
    """Return five columns and a label that is the parity of three of their bits."""
    rng = np.random.default_rng(5)
    m = 2 * n
    bits = rng.integers(0, 2, (3, m))
    others = [rng.integers(0, 6, m)]
    for size in (4, 8, 3, 10):
        others.append(draw_given(rng, size, others[-1], spread=0.8))
    codes = dict(zip("abcvwxyz", [*bits, *others], strict=True))
    codes["label"] = np.bitwise_xor.reduce(bits) ^ (rng.random(m) < 0.02)
    sizes = dict(zip(codes, (2, 2, 2, 6, 4, 8, 3, 10, 2), strict=True))
    return build_table(codes, sizes, (), "label")


@functools.cache
def many_columns(width: int, n: int = 20_000) -> Table:
    """Columns of 2 to 6 values that depend on at most two earlier ones, and a label of four of them."""
    rng = np.random.default_rng(6)
    m = 2 * n
    columns: list[Codes] = []
    sizes = [*rng.integers(2, 7, width - 1).tolist(), 2]
    for i, size in enumerate(sizes[:-1]):
        chosen = rng.permutation(i)[: rng.integers(0, 3)]
        parents = [columns[j] for j in chosen]
        columns.append(draw_given(rng, size, *parents, np.zeros(m, np.int64)))
    logits = np.zeros(m)
    for i in rng.permutation(width - 1)[:4]:
        logits += 1.2 * standardize(columns[i])
    columns.append(draw_label(rng, logits))
    names = [*(f"x{i}" for i in range(width - 1)), "label"]
    codes = dict(zip(names, columns, strict=True))
    return build_table(codes, dict(zip(names, sizes, strict=True)), (), "label")


GENERATED: dict[str, Callable[[], Table]] = {
    "flights": flights,
    "postcodes": postcodes,
    "payments": payments,
    "parity": parity,
    "100 columns": functools.partial(many_columns, 100),
    "160 columns": functools.partial(many_columns, 160),
}
