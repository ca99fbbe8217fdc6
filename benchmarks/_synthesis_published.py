"""The published tables of benchmarks/synthesis_tables.py, where who runs it has them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import pandas as pd
from _synthesis_generated import Codes
from _synthesis_tables import encode
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split
from sklearn.utils import Bunch

from skdp import Domain, Interval
from skdp.datasets import load_acs_public_coverage, load_compas, load_lsac

TEST_SHARE = 0.3

# What a drawing of 64 by 64 points can hold, with wide ends: the number of the line,
# the two ends of it, its length, and the diagonal of the whole character.
CHARACTER_DOMAIN = Domain(
    {
        "V1": list(range(8)),
        "V2": Interval(-8, 72, bins=40),
        "V3": Interval(-8, 72, bins=40),
        "V4": Interval(-8, 72, bins=40),
        "V5": Interval(-8, 72, bins=40),
        "V6": Interval(0, 100, bins=50, decimals=2),
        "V7": Interval(0, 100, bins=50, decimals=2),
        "Class": list(range(1, 11)),
    }
)


@dataclass
class Published:
    """Rows, rows that are kept for testing, the declared values, and what is predicted.

    It is used as `_synthesis_generated.Generated` is.
    """

    frame: pd.DataFrame
    test_frame: pd.DataFrame
    domain: Domain
    target: str
    bins: str = "declared"
    workload: None = None

    @cached_property
    def train(self) -> dict[str, Codes]:
        """The codes of the rows."""
        return self.encode(self.frame)

    @property
    def sizes(self) -> dict[str, int]:
        """The number of values of each column."""
        return dict(zip(self.domain.columns, self.domain.sizes, strict=True))

    @property
    def unordered(self) -> frozenset[str]:
        """The columns that are lists of values."""
        names = self.domain.columns
        return frozenset(
            name for name in names if not isinstance(self.domain[name], Interval)
        )

    @property
    def test_rows(self) -> pd.DataFrame:
        """The rows that are kept for testing."""
        return self.test_frame

    def encode(self, rows: pd.DataFrame) -> dict[str, Codes]:
        """Code rows."""
        codes = encode(rows, self.domain).astype(np.int64)
        return dict(zip(self.domain.columns, codes, strict=True))

    def rows(self, codes: dict[str, Codes]) -> pd.DataFrame:
        """Decode rows: numbers lie evenly within their bins, with the declared decimals."""
        rng = np.random.default_rng(0)
        columns = {}
        for name in self.domain.columns:
            values = self.domain[name]
            column = codes[name]
            if not isinstance(values, Interval):
                columns[name] = np.array(values.labels)[column]
                continue
            edges = np.array(values.edges, float)
            numbers = edges[column] + np.diff(edges)[column] * rng.random(column.size)
            step = 10.0 ** -(values.decimals or 0)
            columns[name] = np.floor(numbers / step) * step
        return pd.DataFrame(columns)

    def features(self, rows: pd.DataFrame) -> NDArray[np.float64]:
        """Return what a classifier is given: numbers as they are, and codes of values."""
        codes = self.encode(rows)
        columns = []
        for name in self.domain.columns:
            if name == self.target:
                continue
            if name in self.unordered:
                columns.append(codes[name].astype(float))
            else:
                columns.append(rows[name].to_numpy(float))
        return np.array(columns).T


def _split(bunch: Bunch) -> Published:
    train, test = train_test_split(
        bunch.frame,
        test_size=TEST_SHARE,
        stratify=bunch.target,
        random_state=0,
    )
    return Published(
        train.reset_index(drop=True),
        test.reset_index(drop=True),
        bunch.domain,
        bunch.target.name,
    )


def acs_public_coverage(folder: Path) -> Published:
    """Read ACS Public Coverage, by codes."""
    return _split(load_acs_public_coverage(folder / "acs_public_coverage.csv.gz"))


def compas(folder: Path) -> Published:
    """Read the rows of COMPAS that ProPublica's analysis keeps."""
    return _split(load_compas(folder / "compas_two_years.csv.gz"))


def lsac(folder: Path) -> Published:
    """Read the law school data, by codes."""
    return _split(load_lsac(folder / "lsac.csv.gz"))


def characters(folder: Path, *, bins: str = "declared") -> Published:
    """Read Artificial Characters, whose classes show in high orders only."""
    train = pd.read_csv(folder / "artificial_characters_train.csv.gz")
    test = pd.read_csv(folder / "artificial_characters_test.csv.gz")
    return Published(train, test, CHARACTER_DOMAIN, "Class", bins)


def published_tables(
    fairness: Path | None, high_order: Path | None
) -> dict[str, Callable[[], Published]]:
    """Return the tables whose folders are given."""
    tables: dict[str, Callable[[], Published]] = {}
    if fairness is not None:
        tables["ACS Public Coverage"] = partial(acs_public_coverage, fairness)
        tables["COMPAS"] = partial(compas, fairness)
        tables["LSAC"] = partial(lsac, fairness)
    if high_order is not None:
        tables["characters"] = partial(characters, high_order)
        tables["characters, private bins"] = partial(
            characters, high_order, bins="private"
        )
    return tables
