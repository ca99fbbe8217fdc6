"""Permanent reports in batches equal the reports of `transform`; batches have only the key in common."""

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from skdp import NumericPerturber, RandomizedResponseEncoder, UnaryEncodingTransformer
from skdp.engines import privatize, privatize_file, tally
from skdp.local import RapporEncoder, SecretKey
from tests.engines.tables import DOMAIN, write
from tests.errors import refusal

KEY = SecretKey(b"a key of 32 bytes for the tests.")


def encoder(make=RandomizedResponseEncoder, **params):
    return make(**{"epsilon": 1.0, "categories": DOMAIN, "memoize": True, "secret_key": KEY} | params)


def perturber(**params):
    return NumericPerturber(
        **{"mechanism": "square_wave", "bounds": {"size": (0, 3)}, "grid_size": 16, "memoize": True, "secret_key": KEY}
        | params
    )


def rappor(**params):
    return RapporEncoder(**{"n_bits": 8, "secret_key": KEY} | params).fit(pd.DataFrame({"size": [0]}))


ROWS, BATCH = 600, 350


@pytest.fixture(autouse=True)
def _small_batches(batch_rows):
    batch_rows(BATCH)


@pytest.fixture(scope="module")
def people(people):
    return people.slice(0, ROWS).append_column("person", pa.array([f"person {n % 7} {n}" for n in range(ROWS)]))


@pytest.mark.parametrize("make", [encoder, perturber, rappor])  # without instantaneous reports
def test_reports_equal_transform_on_every_engine(every_engine, people, make):
    engine, fitted = every_engine, make()
    found = engine.table(privatize(engine.frame(people), fitted, person="person", keep=["number"]))
    names = [name for name in ("color", "size") if name in fitted.guarantee_.scope]
    reports = fitted.transform(people.select(names), person=people["person"])
    expected = reports
    if engine.name == "spark":  # Spark has no unsigned integers; signed integers of 64 bits have the same bits
        kinds = pa.schema([found.schema.field(name) for name in reports.column_names])
        expected = reports.cast(kinds, safe=False)
    assert found.drop_columns("number").to_pydict() == expected.to_pydict()
    assert tally(engine.frame(found), fitted) == fitted.tally(reports)


def second(**params):
    """Make an encoder with instantaneous reports."""
    return encoder(UnaryEncodingTransformer, instantaneous_epsilon=0.5, **params)


def refuse(frame, make, message, **options):
    with refusal(ValueError, message) as ledger:
        privatize(frame, make(ledger=ledger), **options)


@pytest.mark.parametrize(
    ("ids", "memoize", "message"),
    [
        (None, True, "`person` must be the column of the ids of persons if"),
        ("nobody", True, "must be distinct columns"),
        ("size", True, "must be columns that are neither privatized"),
        ("person", False, "and None otherwise"),
    ],
)
def test_invalid_id_columns_raise_an_error(engine, people, ids, memoize, message):
    def make(ledger):
        return encoder(ledger=ledger, memoize=memoize, secret_key=KEY if memoize else None)

    refuse(engine.frame(people), make, message, person=ids)


@pytest.mark.parametrize(
    ("ids", "match"),
    [
        (pa.array([*range(ROWS - 1), None]), "`person` (contains missing|must be integers or text, got float)"),
        (pa.array(range(ROWS), pa.float64()), "`person` must be integers or text, got float"),
        (pa.array(range(ROWS), pa.float32()), "`person` must be integers or text, got float"),
        (pa.array(range(ROWS), pa.timestamp("us")), "`person` must be integers or text, got "),
        (pa.array([f"{number}.0" for number in range(ROWS)]), "`person` must be integers without a decimal point"),
    ],
)
def test_missing_ids_and_ids_of_other_types_raise_an_error(engine, people, ids, match):
    refuse(engine.frame(people.set_column(3, "person", ids)), encoder, match, person="person")


@pytest.mark.parametrize("make", [encoder, perturber])
def test_member_has_one_report_in_every_format(people, tmp_path, make):
    """CSV files have ids as text: the member had two reports, at twice the loss."""
    ids, reports = [*range(0, 5 * ROWS, 5)], []
    for form, column in [("csv", pa.array(ids)), ("parquet", pa.array(ids)), ("arrow", pa.array(map(str, ids)))]:
        table = people.set_column(3, "person", column)
        source, target = write(table, tmp_path / f"in.{form}"), tmp_path / f"{form}.parquet"
        privatize_file(source, target, make(), person="person")
        reports.append(pq.read_table(target).to_pydict())
    assert reports[0] == reports[1] == reports[2]


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_invalid_ids_of_files_raise_before_charge(people, tmp_path, form):
    ids = people["person"].to_pylist()
    for last, message in [(ids[0], "repeated entries"), (None, "missing values")]:
        table = people.set_column(3, "person", pa.array([*ids[:-1], last]))
        source = write(table, tmp_path / f"in.{form}")
        with refusal(ValueError, message, folder=tmp_path) as ledger:
            privatize_file(source, tmp_path / "out.csv", encoder(ledger=ledger), person="person")


@pytest.mark.parametrize("place", [1, BATCH, ROWS - 1])
def test_repeated_id_raises_before_charge(lazy_engine, people, tmp_path, place):
    ids = people["person"].to_pylist()
    ids[place] = ids[0]
    table = people.set_column(3, "person", pa.array(ids))
    chunks = pa.concat_tables([table.slice(0, place), table.slice(place)])
    refuse(chunks, encoder, "`person` has repeated entries", person="person")
    frame = lazy_engine.frame(table)
    for path in (None, tmp_path / "out"):
        options = {"person": "person", "path": path}
        refuse(frame, encoder, "`person` has repeated entries", **options)
    assert list(tmp_path.iterdir()) == []
