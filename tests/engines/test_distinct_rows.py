"""Rows that DuckDB counts itself, where few differ: the same integers as of all rows, whatever the dtype."""

import math
from contextlib import suppress
from datetime import date
from decimal import Decimal
from functools import partial

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from skdp import Domain, DPHistogram, Interval, NumericPerturber, UnaryEncodingTransformer
from skdp.central.statistics import CellTally, SumTally
from skdp.central.statistics._quantiles import RankTally
from skdp.domain import Grid
from skdp.domain._bins import find_bins
from skdp.engines import _engine, tally
from skdp.engines.backends import duckdb as _large_duckdb
from skdp.frames import open_large
from skdp.synthesis.tables import find_codes

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
        for most, other in ((-1, "count_rows"), (math.inf, "add_up_batches")):
            with monkeypatch.context() as patched:
                patched.setattr(_large_duckdb, "_MOST_DISTINCT", most)
                patched.setattr(_large_duckdb, "ROWS", 5)
                patched.setattr(_large_duckdb, other, None)
                found.append(large.add_up(names, summary))
        return found


@pytest.mark.parametrize("kind", NUMBERS)
@pytest.mark.parametrize("summary", [SumTally([(-1.0, 10.0)]), RankTally([EDGES])], ids=["sums", "ranks"])
def test_sums_and_ranks_are_those_of_all_rows(kind, summary, monkeypatch):
    dtype, values = NUMBERS[kind]
    rows, distinct = both_ways(pa.table({"x": drawn(values, dtype)}), ["x"], summary, monkeypatch)
    if isinstance(summary, SumTally):  # which keeps a sum in two parts
        assert [sums[0][0] for sums in (rows, distinct)] == [rows[0][0]] * 2
        rows, distinct = ([list(column.sums) for column in summary.read(sums)] for sums in (rows, distinct))
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
    tally = CellTally(domain, partial(find_codes, handle_unknown="ignore"), [(0,), (0, 1)])
    rows, distinct = both_ways(table, ["x", "text"], tally, monkeypatch)
    known = [in_bin(value, EDGES) for value in table["x"].to_pylist()]
    assert distinct[1].tolist() == rows[1].tolist() == [known.count(place) for place in range(4)]
    pairs = list(zip(known, table["text"].to_pylist(), strict=True))
    expected = [pairs.count((place, text)) for place in range(4) for text in ("a", "b", None)]
    assert distinct[2].tolist() == rows[2].tolist() == expected


def test_days_are_counted_where_they_are(monkeypatch):
    bins = Interval(edges=[date(2000, 1, 1), date(2000, 6, 30), date(2001, 1, 1)], missing=True)
    tally = CellTally(Domain({"day": bins}), partial(find_codes, handle_unknown="clip"), [(0,)])
    table = pa.table({"day": drawn(DAYS, pa.date32())})
    rows, distinct = both_ways(table, ["day"], tally, monkeypatch)
    listed = table["day"].to_pylist()
    expected = [sum(map(listed.count, days)) for days in (DAYS[:2], DAYS[2:5], [None])]
    assert distinct[1].tolist() == rows[1].tolist() == expected


def test_sums_of_many_equal_rows_do_not_overflow():
    tally, counts = SumTally([(0.0, 1.0)]), np.array([1 << 55, 3])
    sums = tally.zeros()
    tally.add(sums, pa.table({"x": [1.0, None]}), counts)
    assert tally.read(sums)[0].sums == (1 << 55, 1 << 84, 1 << 84)
    assert sums[0][0] == 3


GRIDS = [(0.0, 100.0, 20), (0.0, 1.0, 10), (-50.0, 50.0, 20), (-1.0, 1.0, 7), (17.0, 90.0, 10), (1.5, 4.5, 30)]


@pytest.mark.parametrize("missing", [True, False])
@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("grid", GRIDS, ids=str)
def test_bins_of_reals_are_those_of_comparing_with_the_edges(grid, inside, missing):
    """The database finds them by arithmetic: also of the floats next to an edge, and of what is in no bin."""
    bins = Interval(*grid[:2], bins=grid[2], missing=missing)
    assert Grid.of(np.array(bins.edges)) is not None
    near = np.array([0.0, -0.0, 5e-324, -5e-324, 2.3e-308, *bins.edges])
    steps = np.concatenate([near, np.nextafter(near, -np.inf), np.nextafter(near, np.inf)])
    steps = steps[(steps >= grid[0]) & (steps <= grid[1])]
    values = [*steps, *np.random.default_rng(0).uniform(*grid[:2], 500), *([None, math.nan] if missing else [])]
    refused = [None, math.nan, math.inf, -math.inf, 1.7e308, -1.7e308, *np.nextafter(grid[:2], [-np.inf, np.inf])]
    tally = CellTally(Domain({"x": bins}), partial(find_codes, handle_unknown="error"), [(0,)], refused=True)
    for wrong in [[]] if inside else [[value] for value in refused[2 * missing :]]:
        table = pa.table({"x": pa.array([*values, *wrong], pa.float64())})
        with duckdb.connect() as connection, pytest.MonkeyPatch.context() as patched:
            patched.setattr(_large_duckdb, "add_up_batches", None)
            connection.register("given", table)
            outside, counts = open_large(connection.sql("SELECT * FROM given")).add_up(["x"], tally)
        assert bool(outside[0]) is bool(wrong)
        if not wrong:
            known = [in_bin(value, bins.edges) for value in values]
            expected = [known.count(place) for place in range(grid[2])]
            assert counts.tolist() == [*expected, *([known.count(None)] if missing else [])]


def test_only_what_the_formula_finds_exactly_is_a_grid():
    """Of many edges, at each edge and the floats beside it; of uneven ones none."""
    draw = np.random.default_rng(0)
    grids = 0
    for _ in range(300):
        low, width, bins = draw.normal(0, 10), 10 ** draw.uniform(-3, 3), int(draw.integers(1, 60))
        edges = np.linspace(low, low + width, bins + 1)
        if (grid := Grid.of(edges)) is not None:
            values = np.concatenate([edges, np.nextafter(edges, -np.inf), np.nextafter(edges, np.inf)])
            places = np.floor((values - grid.low) * grid.scale)
            places -= values < places * grid.width + grid.low
            codes = find_bins(values, edges, -1 % 256, 254)
            inside = codes < bins
            assert (np.minimum(places, bins - 1) == codes)[inside].all()
            assert (places[values < low] < 0).all()
            assert (places[values > edges[-1]] >= bins - 1).all()
            grids += 1
        for place in range(1, bins):
            moved = edges.copy()
            moved[place] = np.nextafter(moved[place], np.inf)
            assert Grid.of(moved) is None or Grid.of(edges) is None
    assert grids > 100


def path_of(frame, domain, monkeypatch, handle_unknown="error"):
    """Return whether the database counted, be what it counted refused or not."""
    called = []
    count_rows = _large_duckdb.count_rows
    monkeypatch.setattr(_large_duckdb, "count_rows", lambda *some: called.append(1) or count_rows(*some))
    with suppress(ValueError):
        DPHistogram(1.0, domain=domain, handle_unknown=handle_unknown, random_state=0).fit(frame)
    return bool(called)


@pytest.mark.parametrize(
    ("kind", "declared", "counted"),
    [
        ("INTEGER", Interval(0, 100, bins=5), True),
        ("INTEGER", Interval(0, 1e6, bins=5), False),
        ("DOUBLE", Interval(0, 100, bins=5), True),
        ("DOUBLE", Interval(0, 1e6, bins=1 << 17), False),
        ("DOUBLE", Interval(edges=[0, 1, 10]), False),
        ("FLOAT", Interval(0, 100, bins=5), False),
        ("DOUBLE", [0.0, 1.0], True),
        ("DATE", Interval(date(2000, 1, 1), date(2010, 1, 1), bins=10), True),
        ("TIMESTAMP", Interval(date(2000, 1, 1), date(2010, 1, 1), bins=10), False),
        ("VARCHAR", ["1", "2"], True),
    ],
)
@pytest.mark.parametrize("value", [None, "1", "2"])
def test_who_counts_follows_from_dtype_and_declaration(kind, declared, counted, value, monkeypatch):
    literal = "NULL" if value is None or kind in ("DATE", "TIMESTAMP") else value
    with duckdb.connect() as connection:
        frame = connection.sql(f"SELECT {literal}::{kind} AS x FROM range(3)")
        assert path_of(frame, {"x": declared}, monkeypatch) is counted


@pytest.mark.parametrize("policy", ["ignore", {"x": "1"}])
def test_what_may_have_any_number_of_other_values_is_streamed(policy, monkeypatch):
    """Of these the database would keep each in memory."""
    with duckdb.connect() as connection:
        assert not path_of(connection.sql("SELECT '1' AS x"), {"x": ["1", "2"]}, monkeypatch, policy)


@pytest.mark.parametrize("collation", ["NOCASE", "NOACCENT.NOCASE"])
@pytest.mark.parametrize("of_column", [True, False])
def test_text_is_counted_by_its_bytes(collation, of_column):
    words = ["Yes", "yes", "YES", "yés", "no"]
    with duckdb.connect() as connection:
        if not of_column:
            connection.execute(f"SET default_collation = '{collation}'")
        kind = f"VARCHAR COLLATE {collation}" if of_column else "VARCHAR"
        connection.execute(f"CREATE TABLE answers (answer {kind})")
        connection.executemany("INSERT INTO answers VALUES (?)", [[word] for word in words * 3])
        domain = Domain({"answer": words})
        tally = CellTally(domain, partial(find_codes, handle_unknown="error"), [(0,)], refused=True)
        outside, counts = open_large(connection.table("answers")).add_up(["answer"], tally)
        assert not outside.any()
        assert counts.tolist() == [3] * 5


def numeric_reports():
    perturber = NumericPerturber(3.0, bounds={"age": (0, 100), "hours": (-5, 5)}, random_state=0)
    people = np.random.default_rng(0).uniform(0, 5, (2_000, 2))
    return perturber, perturber.fit_transform(pd.DataFrame(people, columns=["age", "hours"]))


@pytest.mark.parametrize("digits", [None, 8])
def test_numeric_reports_are_counted_as_in_memory(digits, monkeypatch):
    """By the database, the columns in any order, and with fewer digits."""
    perturber, reports = numeric_reports()
    expected = perturber.tally(reports)
    for name, values, counts in zip(reports, perturber.report_values_, expected.counts, strict=True):
        listed = reports[name].tolist()
        assert counts.tolist() == [listed.count(value) for value in values.tolist()]
    monkeypatch.setattr(_engine.Engine, "tally", None)
    with duckdb.connect() as connection:
        connection.register("given", reports if digits is None else reports.round(digits))
        assert tally(connection.sql("SELECT hours, 'other' AS other, age FROM given"), perturber) == expected


@pytest.mark.parametrize("wrong", ["NULL", "'nan'::DOUBLE", "'inf'::DOUBLE", "1234.5", "'1'"])
def test_what_is_no_numeric_report_is_refused_without_a_value(wrong):
    perturber, _ = numeric_reports()
    with duckdb.connect() as connection:
        frame = connection.sql(f"SELECT {float(perturber.report_values_[0][0])}::DOUBLE AS age, {wrong} AS hours")
        with pytest.raises((TypeError, ValueError), match="column 'hours'") as caught:
            tally(frame, perturber)
    assert "1234" not in str(caught.value)


def bit_reports(**parameters):
    categories = {"smokes": ["yes", "no"], "answer": ["a", "b", None]}
    encoder = UnaryEncodingTransformer(3.0, categories=categories, random_state=0, **parameters)
    people = pd.DataFrame({"smokes": ["yes", "no"] * 600, "answer": ["a", "b", None] * 400})
    return encoder, encoder.fit_transform(people)


@pytest.mark.parametrize("strategy", ["split", "joint"])
def test_reports_of_few_bits_are_counted_as_in_memory(strategy, monkeypatch):
    encoder, reports = bit_reports(strategy=strategy)
    expected = encoder.tally(reports)
    assert np.concatenate(expected.support).tolist() == reports.sum().tolist()
    monkeypatch.setattr(_engine.Engine, "tally", None)
    with duckdb.connect() as connection:
        connection.register("given", reports[reports.columns[::-1]])
        assert tally(connection.sql("SELECT 'other' AS other, * FROM given"), encoder) == expected


@pytest.mark.parametrize("parameters", [{"output": "unbiased"}, {"strategy": "sample"}])
def test_other_reports_of_bits_come_in_batches(parameters):
    encoder, reports = bit_reports(**parameters)
    with duckdb.connect() as connection:
        connection.register("given", reports)
        assert tally(connection.sql("SELECT * FROM given"), encoder) == encoder.tally(reports)


@pytest.mark.parametrize("wrong", ["NULL", "2", "-1", "0.5", "'1234'", "'nan'::DOUBLE"])
def test_what_is_no_bit_is_refused_without_a_value(wrong):
    encoder, reports = bit_reports()
    with duckdb.connect() as connection:
        connection.register("given", reports)
        frame = connection.sql(f"SELECT * REPLACE ({wrong} AS smokes_yes) FROM given")
        with pytest.raises(ValueError, match="reports") as caught:
            tally(frame, encoder)
    assert "1234" not in str(caught.value)
