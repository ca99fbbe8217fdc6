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
from skdp.central.statistics import CellTally, GroupSums
from skdp.central.statistics._batches import RowSums
from skdp.central.statistics._quantiles import count_columns
from skdp.central.statistics._sums import _sums_of_table
from skdp.engines._streams import StreamTable
from skdp.engines.backends import duckdb as _duckdb
from skdp.synthesis.tables import encode_records
from skdp.tables import open_large, read_table

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


def summary_of(sums_of, bounds):
    nothing = sums_of(read_table(pa.table({"x": pa.array([], pa.float64())})), None)
    return RowSums(sums_of, nothing, bounds)


SUMS = summary_of(partial(_sums_of_table, ends=np.array([[-1.0, 10.0]]), missing=True), [(-1.0, 10.0)])
RANKS = summary_of(partial(count_columns, candidates=[EDGES]), [(-1.0, float(BIG))])


def drawn(values, kind, seed=0):
    return pa.array([values[place] for place in np.random.default_rng(seed).integers(len(values), size=997)], kind)


def both_ways(table, names, summary, monkeypatch):
    """Sum over all rows, and over the distinct ones with their counts; the other way must not be taken."""
    with duckdb.connect() as connection:
        connection.register("given", table)
        large = open_large(connection.sql("SELECT * FROM given"))
        found = []
        for limit, other in ((-1, (_duckdb.DuckDBTable, "count_rows")), (math.inf, (StreamTable, "add_up"))):
            with monkeypatch.context() as patched:
                patched.setattr(_duckdb, "_MAX_DISTINCT", limit)
                patched.setattr(_duckdb, "ROWS", 100)
                patched.setattr(*other, None)
                found.append(large.add_up(names, summary))
        return found


@pytest.mark.parametrize("kind", NUMBERS)
@pytest.mark.parametrize("summary", [SUMS, RANKS], ids=["sums", "ranks"])
def test_sums_and_ranks_are_those_of_all_rows(kind, summary, monkeypatch):
    dtype, values = NUMBERS[kind]
    rows, distinct = both_ways(pa.table({"x": drawn(values, dtype)}), ["x"], summary, monkeypatch)
    if summary is SUMS:  # which keeps a sum in two parts
        columns = [GroupSums.read(sums, np.array([[-1.0, 10.0]])) for sums in (rows, distinct)]
        rows, distinct = ([one.n_odd, one.rows, one.counts[0], one.places[0], one.squares[0]] for one in columns)
    assert list(map(list, distinct)) == list(map(list, rows))
    assert sum(map(sum, rows))


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


def test_sums_of_many_equal_rows_do_not_overflow():
    ends, counts = np.array([[0.0, 1.0]]), np.array([1 << 55, 3])
    table = read_table(pa.table({"x": [1.0, None]}))
    sums = GroupSums.read(_sums_of_table(table, counts, ends=ends, missing=True), ends)
    assert [sums.counts[0, 0], sums.places[0, 0], sums.squares[0, 0]] == [1 << 55, 1 << 84, 1 << 84]
    assert sums.n_odd == 3
