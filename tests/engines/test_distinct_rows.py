"""Rows that DuckDB counts itself, where few differ: the same integers as of all rows, whatever the dtype."""

import math
from datetime import date
from decimal import Decimal
from functools import partial

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from skdp import Domain, Interval
from skdp.central.statistics import CellTally
from skdp.engines import _local
from skdp.engines._engine import StreamTable
from skdp.synthesis.tables._records import encode_records
from skdp.tables import open_large

BIG = 1 << 53
EDGES = np.array([-1.0, 0.0, 0.1, 10.0, BIG])
NUMBERS = {
    "int8": (pa.int8(), [-128, -1, 0, 1, 10, 127, None]),
    "int64": (pa.int64(), [-(1 << 63), -BIG - 1, -1, 0, 10, 11, BIG - 1, BIG, BIG + 1, BIG + 3, (1 << 63) - 1, None]),
    "uint64": (pa.uint64(), [0, 1, BIG - 1, BIG, BIG + 1, BIG + 3, (1 << 64) - 1, None]),
    "float32": (pa.float32(), [-math.inf, -0.0, 0.0, 0.1, math.nextafter(0.1, 0), 10.0, math.inf, math.nan, None]),
    "float64": (pa.float64(), [-math.inf, -0.0, 0.0, 0.1, math.nextafter(0.1, 0), 10.0, BIG, math.inf, math.nan, None]),
    "decimal": (pa.decimal128(20, 2), [Decimal("-1.01"), Decimal("-1.00"), Decimal("0.10"), Decimal(BIG + 1), None]),
}
DAYS = [date(1999, 12, 31), date(2000, 1, 1), date(2000, 6, 30), date(2001, 1, 1), date(2001, 1, 2), None]


def drawn(values, kind, seed=0):
    return pa.array([values[place] for place in np.random.default_rng(seed).integers(len(values), size=997)], kind)


def both_ways(table, names, summary, monkeypatch):
    """Sum over all rows, and over the distinct ones with their counts; the other way must not be taken."""
    with duckdb.connect() as connection:
        connection.register("given", table)
        large = open_large(connection.sql("SELECT * FROM given"))
        found = []
        for limit, other in ((-1, (_local.DuckDBTable, "count_rows")), (math.inf, (StreamTable, "add_up"))):
            with monkeypatch.context() as patched:
                patched.setattr(_local, "MAX_DISTINCT", limit)
                patched.setattr(_local, "ROWS", 100)
                patched.setattr(*other, None)
                found.append(large.add_up(names, summary))
        return found


def in_bin(value, edges):
    """Return the bin of a value in plain Python, as float64 has it."""
    if value is None or value != value or not edges[0] <= float(value) <= edges[-1]:
        return None
    return min(sum(float(value) >= edge for edge in edges) - 1, len(edges) - 2)


@pytest.mark.parametrize("kind", [kind for kind in NUMBERS if kind != "float32"])
def test_bins_are_those_of_a_loop(kind, monkeypatch):
    dtype, values = NUMBERS[kind]
    domain = Domain({"x": Interval(edges=EDGES.tolist()), "text": ["a", "b", None]})
    table = pa.table({"text": drawn(["a", "b", None], pa.string(), 1), "x": drawn(values, dtype)})
    tally = CellTally(domain, partial(encode_records, handle_unknown="ignore"), [(0,), (0, 1)])
    rows, distinct = both_ways(table, ["x", "text"], tally, monkeypatch)
    known = [in_bin(value, EDGES) for value in table["x"].to_pylist()]
    assert distinct[1].tolist() == rows[1].tolist() == [known.count(place) for place in range(4)]
    pairs = list(zip(known, table["text"].to_pylist(), strict=True))
    expected = [pairs.count((place, text)) for place in range(4) for text in ("a", "b", None)]
    assert distinct[2].tolist() == rows[2].tolist() == expected
