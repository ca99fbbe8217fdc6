"""The generated tables of benchmarks/synthesis_tables.py: rows of known laws, each hard in a way of its own."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp import Domain
from skdp.domain import Categories

Codes = NDArray[np.int64]
Rng = np.random.Generator


@dataclass(frozen=True)
class Generated:
    """Codes of rows, and of as many rows that are kept for testing; columns without an order, and what is predicted."""

    train: dict[str, Codes]
    test: dict[str, Codes]
    sizes: dict[str, int]
    unordered: frozenset[str] = frozenset()
    target: str | None = None
    workload: tuple[tuple[str, ...], ...] | None = None
    bins: str = "declared"

    @property
    def domain(self) -> Domain:
        """The declared values: numbers in columns with an order, texts in others."""
        columns = {}
        for name in self.sizes:
            is_ordered = name not in self.unordered
            columns[name] = Categories(self._values(name), ordered=is_ordered)
        return Domain(columns)

    @property
    def frame(self) -> pd.DataFrame:
        """The rows."""
        return self.rows(self.train)

    @property
    def test_rows(self) -> pd.DataFrame:
        """The rows that are kept for testing."""
        return self.rows(self.test)

    def rows(self, codes: dict[str, Codes]) -> pd.DataFrame:
        """Decode rows."""
        columns = {}
        for name in codes:
            columns[name] = self._values(name)[codes[name]]
        return pd.DataFrame(columns)

    def _values(self, name: str) -> NDArray:
        values = np.arange(self.sizes[name])
        if name in self.unordered:
            return np.array([f"v{value}" for value in values], object)
        return values

    def encode(self, rows: pd.DataFrame) -> dict[str, Codes]:
        """Code rows."""
        domain = self.domain
        codes = domain.encode([rows[name] for name in domain.columns])
        return {
            name: np.asarray(code, np.int64)
            for name, code in zip(domain.columns, codes, strict=True)
        }

    def features(self, rows: pd.DataFrame) -> Codes:
        """Return what a classifier is given: codes."""
        codes = self.encode(rows)
        return np.array([codes[name] for name in codes if name != self.target]).T


def _follow(rng: Rng, size: int, *parents: Codes, spread: float = 0.3) -> Codes:
    """Draw a column whose law is another one, drawn from a Dirichlet law, for each combination of its parents."""
    groups = np.unique(np.stack(parents), axis=1, return_inverse=True)[1].ravel()
    base = rng.dirichlet(np.full(size, 1.0))
    laws = rng.dirichlet(np.maximum(size * spread * base, 1e-3), groups.max() + 1)
    return _draw(rng, laws, groups)


def _draw(rng: Rng, laws: NDArray, groups: Codes) -> Codes:
    """Draw a value for each row by the law of its group."""
    steps = np.cumsum(laws, axis=1) / laws.sum(axis=1, keepdims=True)
    found = np.empty(groups.size, np.int64)
    uniforms = rng.random(groups.size)
    for group in range(len(laws)):
        inside = groups == group
        found[inside] = np.searchsorted(steps[group], uniforms[inside], side="right")
    return found.clip(0, laws.shape[1] - 1)


def _zipf(rng: Rng, n: int, size: int, power: float = 1.0) -> Codes:
    """Draw values whose shares fall as a power of their rank."""
    shares = np.arange(1, size + 1) ** -power
    return rng.permutation(size)[rng.choice(size, n, p=shares / shares.sum())]


def _bins(numbers: NDArray, size: int) -> Codes:
    """Cut numbers into bins of about the same width between their outer hundredths."""
    low, high = np.quantile(numbers, [0.01, 0.99])
    return ((numbers - low) / (high - low) * size).astype(np.int64).clip(0, size - 1)


def _label(rng: Rng, logits: NDArray) -> Codes:
    return (rng.random(logits.size) < 1 / (1 + np.exp(-logits))).astype(np.int64)


def _standard(numbers: NDArray) -> NDArray:
    return (numbers - numbers.mean()) / max(1e-9, float(numbers.std()))


def _cut(
    columns: dict[str, Codes],
    sizes: dict[str, int],
    n: int,
    unordered: Collection[str] = (),
    target: str | None = None,
    workload: tuple[tuple[str, ...], ...] | None = None,
) -> Generated:
    """Keep the first n rows for the fit, and the rest for testing."""
    train = {name: codes[:n] for name, codes in columns.items()}
    test = {name: codes[n:] for name, codes in columns.items()}
    return Generated(train, test, sizes, frozenset(unordered), target, workload)


def flights(n: int = 16_000) -> Generated:
    """Draw flights: each airport has its carriers, destinations their distances, and delays come with the hour."""
    rng = np.random.default_rng(1)
    m = 2 * n
    airport = _zipf(rng, m, 60, 0.8)
    hubs = rng.dirichlet(np.full(15, 0.12), 60)
    carrier = _draw(rng, hubs, airport)
    far = rng.integers(0, 60, (60, 15, 6))
    there = _draw(
        rng, np.array([[0.35, 0.25, 0.15, 0.1, 0.1, 0.05]]), np.zeros(m, np.int64)
    )
    destination = far[airport, carrier, there]
    places = rng.normal(size=(60, 2))
    distance = _bins(
        np.linalg.norm(places[airport] - places[destination], axis=1)
        + 0.05 * rng.normal(size=m),
        20,
    )
    month, weekday = rng.integers(0, 12, m), rng.integers(0, 7, m)
    holiday = _label(rng, -3 + 2.5 * np.isin(month, [6, 11]) + 1.0 * (weekday > 4))
    hour = _follow(rng, 24, carrier, spread=1.0)
    plane = _follow(rng, 10, carrier, distance // 5, spread=0.2)
    late = (
        0.12 * (hour - 12)
        + rng.normal(size=15)[carrier] * 0.8
        + 0.8 * np.cos(month / 2)
        + 0.9 * holiday
    )
    late = (
        late + 0.5 * rng.normal(size=60)[airport] + 0.4 * (distance < 5) * (hour > 15)
    )
    delay = _bins(late + rng.gumbel(size=m), 15)
    cancelled = _label(rng, -3.5 + 0.15 * delay + 0.8 * (month < 2))
    delayed = _label(rng, 1.6 * late - 1)
    columns = {
        "airport": airport,
        "carrier": carrier,
        "destination": destination,
        "distance": distance,
    }
    columns |= {
        "month": month,
        "weekday": weekday,
        "holiday": holiday,
        "hour": hour,
        "plane": plane,
    }
    columns |= {"delay": delay, "cancelled": cancelled, "delayed": delayed}
    sizes = dict(
        zip(columns, (60, 15, 60, 20, 12, 7, 2, 24, 10, 15, 2, 2), strict=True)
    )
    return _cut(
        columns, sizes, n, ("airport", "carrier", "destination", "plane"), "delayed"
    )


def places(n: int = 30_000) -> Generated:
    """Draw places to stay: a neighbourhood follows from the coordinates, and prices have a heavy tail."""
    rng = np.random.default_rng(2)
    m = 2 * n
    centres, shares = rng.random((48, 2)), rng.dirichlet(np.full(48, 0.7))
    near = rng.choice(48, m, p=shares)
    point = (centres[near] + 0.04 * rng.normal(size=(m, 2))).clip(0, 0.999)
    latitude, longitude = (point * 40).astype(np.int64).T
    neighbourhood = ((point[:, np.newaxis] - centres) ** 2).sum(axis=2).argmin(axis=1)
    district = np.random.default_rng(3).integers(0, 5, 48)[neighbourhood]
    room = _follow(rng, 4, neighbourhood, spread=1.5)
    wealth = rng.normal(size=48)[neighbourhood]
    price = np.exp(4 + 0.5 * wealth - 0.4 * room + 0.5 * rng.standard_t(3, m))
    bins = np.searchsorted(np.geomspace(10, 3_000, 39), price)
    nights = np.minimum(rng.geometric(0.25 + 0.1 * room), 20) - 1
    reviews = _bins(np.log1p(rng.gamma(0.6, 30, m) * np.exp(-0.05 * nights)), 25)
    open_days = _bins(rng.beta(0.5, 0.5, m) + 0.02 * reviews, 20)
    host = _label(
        rng,
        -1.5 + 0.14 * reviews + 0.5 * wealth - 0.15 * nights + 0.04 * (open_days - 10),
    )
    columns = {
        "latitude": latitude,
        "longitude": longitude,
        "neighbourhood": neighbourhood,
        "district": district,
    }
    columns |= {
        "room": room,
        "price": bins,
        "nights": nights,
        "reviews": reviews,
        "open": open_days,
        "host": host,
    }
    sizes = dict(zip(columns, (40, 40, 48, 5, 4, 40, 20, 25, 20, 2), strict=True))
    return _cut(columns, sizes, n, ("neighbourhood", "district", "room"), "host")


def postcodes(n: int = 40_000, size: int = 1_000) -> Generated:
    """Draw people: their postcode gives the city, and the city the state."""
    rng = np.random.default_rng(4)
    m = 2 * n
    city_of, state_of = (
        np.sort(rng.integers(0, 90, size)),
        np.sort(rng.integers(0, 20, 90)),
    )
    postcode = _zipf(rng, m, size, 0.6)
    city = city_of[postcode]
    state = state_of[city]
    tier = rng.normal(size=90)[city]
    age = _bins(rng.gamma(6, 7, m), 16)
    education = _bins(0.7 * tier + rng.normal(size=m), 8)
    income = _bins(
        0.8 * tier
        + 0.5 * _standard(education)
        + 0.2 * _standard(age)
        + rng.normal(size=m),
        20,
    )
    household = _follow(rng, 6, age // 4, spread=1.0)
    sex = rng.integers(0, 2, m)
    logits = 0.25 * (income - 10) + 0.2 * (age - 7) - tier + 0.5 * (household > 2)
    columns = {
        "postcode": postcode,
        "city": city,
        "state": state,
        "age": age,
        "education": education,
    }
    columns |= {
        "income": income,
        "household": household,
        "sex": sex,
        "owner": _label(rng, logits),
    }
    sizes = dict(zip(columns, (size, 90, 20, 16, 8, 20, 6, 2, 2), strict=True))
    return _cut(columns, sizes, n, ("postcode", "city", "state", "household"), "owner")


def parity(n: int = 30_000, *, given: bool = False) -> Generated:
    """Draw a label that is the parity of three bits, among six other columns."""
    rng = np.random.default_rng(5)
    m = 2 * n
    bits = rng.integers(0, 2, (3, m))
    first = rng.integers(0, 6, m)
    others = [first]
    for number in (4, 8, 3, 10, 5):
        others.append(_follow(rng, number, others[-1], spread=0.8))
    columns = {"a": bits[0], "b": bits[1], "c": bits[2]} | {
        f"x{place}": one for place, one in enumerate(others)
    }
    columns["label"] = np.bitwise_xor.reduce(bits) ^ (rng.random(m) < 0.02)
    sizes = dict(zip(columns, (2, 2, 2, 6, 4, 8, 3, 10, 5, 2), strict=True))
    workload = (("a", "b", "c", "label"),) if given else None
    return _cut(columns, sizes, n, (), "label", workload)


def wide(width: int, n: int = 20_000) -> Generated:
    """Draw many columns of 2 to 6 values, each of which follows one or two others, and a label of four of them."""
    rng = np.random.default_rng(6)
    m = 2 * n
    columns: list[Codes] = []
    sizes = [*rng.integers(2, 7, width - 1).tolist(), 2]
    for place, size in enumerate(sizes[:-1]):
        parents = rng.permutation(place)[: rng.integers(0, 3)]
        columns.append(
            _follow(
                rng,
                size,
                *(columns[parent] for parent in parents[:2]),
                np.zeros(m, np.int64),
            )
        )
    logits = sum(
        1.2 * _standard(columns[place]) for place in rng.permutation(width - 1)[:4]
    )
    columns.append(_label(rng, np.asarray(logits)))
    names = [f"x{place}" for place in range(width - 1)] + ["label"]
    return _cut(
        dict(zip(names, columns, strict=True)),
        dict(zip(names, sizes, strict=True)),
        n,
        (),
        "label",
    )


def rare_label(seed: int, n: int = 12_000, width: int = 20) -> Generated:
    """Draw columns of 2 to 6 values, and a label of 3 % that follows four of them."""
    rng = np.random.default_rng(seed)
    m = 2 * n
    columns: list[Codes] = []
    sizes = [*rng.integers(2, 7, width - 1).tolist(), 2]
    for place, size in enumerate(sizes[:-1]):
        parents = rng.permutation(place)[: rng.integers(0, 3)]
        groups = [columns[parent] for parent in parents]
        columns.append(_follow(rng, size, *groups, np.zeros(m, np.int64)))
    logits = np.zeros(m)
    for place in rng.permutation(width - 1)[:4]:
        logits += 0.8 * _standard(columns[place])
    # With the noise of the label, 3 % are above this.
    limit = np.quantile(logits + rng.logistic(size=m), 0.97)
    columns.append(_label(rng, logits - limit))
    names = [f"x{place}" for place in range(width - 1)] + ["label"]
    coded = dict(zip(names, columns, strict=True))
    return _cut(coded, dict(zip(names, sizes, strict=True)), n, target="label")


def survey(seed: int, n: int = 8_000) -> Generated:
    """Draw a survey of 30 columns, of which nine have two values: a label of 5 % follows two of four hidden traits."""
    rng = np.random.default_rng(seed)
    m = 2 * n
    traits = rng.normal(size=(4, m))
    columns: dict[str, Codes] = {}
    sizes: dict[str, int] = {}
    scale = np.array([-1.5, -0.5, 0.5, 1.5])
    for place in range(22):
        loads = rng.normal(size=4) * [1, 0.6, 0.4, 0.2]
        answers = loads @ traits + rng.normal(size=m)
        edges = scale if place < 14 else rng.normal(size=1)
        columns[f"question{place}"] = np.digitize(answers, edges)
        sizes[f"question{place}"] = edges.size + 1
    earned = traits[1] + 0.6 * rng.normal(size=m)
    numbers = {
        "age": (traits[0] + 0.5 * rng.normal(size=m), 20),
        "income": (np.exp(0.5 * earned), 40),
        "rent": (np.exp(0.5 * earned) * rng.beta(4, 9, m), 40),
        "education": (earned, 4),
    }
    for name, (values, size) in numbers.items():
        columns[name] = _bins(values, size)
        sizes[name] = size
    for name, size in (("region", 12), ("job", 5), ("children", 10)):
        columns[name] = rng.integers(0, size, m)
        sizes[name] = size
    logits = traits[0] + 0.8 * traits[1]
    # With the noise of the label, 5 % are above this.
    limit = np.quantile(logits + rng.logistic(size=m), 0.95)
    columns["label"] = _label(rng, logits - limit)
    sizes["label"] = 2
    return _cut(columns, sizes, n, target="label")


def crowded(seed: int, n: int = 20_000) -> Generated:
    """Draw 60 columns that all follow six hidden traits, 15 of them of two values: a label of 5 % is one of these."""
    rng = np.random.default_rng(seed)
    m = 2 * n
    traits = rng.normal(size=(6, m))
    columns: dict[str, Codes] = {}
    sizes: dict[str, int] = {}
    for place in range(59):
        loads = rng.normal(size=6) / np.arange(1, 7)
        answers = loads @ traits + rng.normal(size=m)
        n_values = 2 if place < 14 else int(rng.integers(3, 15))
        shares = np.linspace(0, 1, n_values + 1)[1:-1] ** rng.uniform(0.5, 2)
        columns[f"answer{place}"] = np.digitize(answers, np.quantile(answers, shares))
        sizes[f"answer{place}"] = n_values
    logits = 1.2 * traits[0] - 0.8 * traits[1]
    # With the noise of the label, 5 % are above this.
    limit = np.quantile(logits + rng.logistic(size=m), 0.95)
    columns["label"] = _label(rng, logits - limit)
    sizes["label"] = 2
    return _cut(columns, sizes, n, target="label")


def fine(size: int, n: int = 30_000) -> Generated:
    """Draw eight numbers in many bins, all tied to two hidden ones."""
    rng = np.random.default_rng(7)
    m = 2 * n
    hidden = rng.normal(size=(2, m))
    weights = rng.normal(size=(8, 2))
    numbers = weights @ hidden + 0.6 * rng.normal(size=(8, m))
    columns = {
        f"x{place}": _bins(row**3 if place % 3 == 2 else row, size)
        for place, row in enumerate(numbers)
    }
    return _cut(columns, dict.fromkeys(columns, size), n)


def classes(n: int = 25_000) -> Generated:
    """Draw answers of 14 questions within eight hidden kinds of people."""
    rng = np.random.default_rng(8)
    m = 2 * n
    kind = rng.choice(8, m, p=rng.dirichlet(np.full(8, 2.0)))
    sizes = [*rng.integers(2, 15, 13).tolist(), 2]
    columns = [_follow(rng, size, kind, spread=0.6) for size in sizes[:-1]]
    columns[5] = _follow(rng, sizes[5], columns[4], kind % 3, spread=0.3)
    columns.append(
        _label(
            rng,
            1.3 * rng.normal(size=8)[kind]
            + _standard(columns[0]) * _standard(columns[1]),
        )
    )
    names = [f"q{place}" for place in range(13)] + ["label"]
    unordered = names[1:13:2]
    return _cut(
        dict(zip(names, columns, strict=True)),
        dict(zip(names, sizes, strict=True)),
        n,
        unordered,
        "label",
    )


def payments(n: int = 50_000) -> Generated:
    """Draw card payments: a merchant has one kind of goods, amounts are skewed, and fraud is rare."""
    rng = np.random.default_rng(9)
    m = 2 * n
    merchant = _zipf(rng, m, 300, 0.9)
    goods = rng.integers(0, 20, 300)[merchant]
    country = _follow(rng, 25, goods, spread=0.4)
    amount = np.searchsorted(
        np.geomspace(1, 5_000, 31),
        np.exp(rng.normal(2, 1, 20)[goods] + rng.normal(size=m)),
    )
    hour = _follow(rng, 24, goods, spread=0.8)
    device = _follow(rng, 6, country, hour // 8, spread=0.7)
    age = _bins(rng.gamma(5, 8, m), 12)
    card = _follow(rng, 5, age // 3, spread=0.8)
    logits = (
        -2.5
        + 0.12 * (amount - 15)
        + 1.2 * rng.normal(size=25)[country]
        + 0.8 * (hour < 5) * (device == 0)
    )
    columns = {
        "merchant": merchant,
        "goods": goods,
        "country": country,
        "amount": amount,
        "hour": hour,
    }
    columns |= {
        "device": device,
        "age": age,
        "card": card,
        "fraud": _label(rng, logits),
    }
    sizes = dict(zip(columns, (300, 20, 25, 32, 24, 6, 12, 5, 2), strict=True))
    return _cut(
        columns, sizes, n, ("merchant", "goods", "country", "device", "card"), "fraud"
    )


TABLES: dict[str, Callable[[], Generated]] = {
    "flights": flights,
    "places": places,
    "postcodes": postcodes,
    "parity": parity,
    "parity, workload": lambda: parity(given=True),
    "160 columns": lambda: wide(160),
    "320 columns": lambda: wide(320),
    "8 x 200": lambda: fine(200),
    "8 x 1,000": lambda: fine(1_000),
    "classes": classes,
    "payments": payments,
}
CHECKED_ONLY = ("classes", "payments")
"""No number of the method was chosen on these."""
