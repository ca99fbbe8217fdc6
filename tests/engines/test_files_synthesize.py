"""Synthetic files of private files: fits equal to fits in memory, in batches, and complete files only."""

import errno
from datetime import date

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from skdp import Domain, DPMarginalSynthesizer, Interval
from skdp.engines import privatize_file, sample_file, synthesize_file
from tests.conftest import diagonal, often
from tests.engines.tables import FORMATS, SURVEY, encoder, make_synthesizer, read, survey, write
from tests.errors import refusal

N = 3_000


@pytest.fixture(scope="module")
def rows():
    """Rows of 400 people, with a column outside the domain, in another order than the domain."""
    person = np.concatenate([np.arange(400), np.random.default_rng(0).integers(0, 400, N - 400)])
    table = survey(N).append_column("person", pa.array([f"p{number}" for number in person]))
    table = table.append_column("more", pa.array([f"secret {row}" for row in range(N)]))
    table = table.set_column(3, "born", table["born"].cast(pa.date32()))
    return table.select(["member", "more", "age", "color", "weight", "person", "born", "number"])


@pytest.fixture(params=often(FORMATS, ["csv"]))
def source(request, rows, tmp_path):
    return write(rows, tmp_path / f"in.{request.param}")


def test_seeded_fit_equals_the_fit_in_memory(source, rows, tmp_path):
    """Equal counts with equal noise, for columns in the order of the file."""
    found, target = make_synthesizer(), tmp_path / "out.parquet"
    assert synthesize_file(source, target, found, n_samples=1_000) == target
    expected = make_synthesizer().fit(rows.select([name for name in rows.column_names if name in SURVEY.columns]))
    assert found.selected_cliques_ == expected.selected_cliques_
    for mine, theirs in zip(found.marginals_, expected.marginals_, strict=True):
        np.testing.assert_array_equal(mine.counts, theirs.counts)
    assert found.domain_.columns == ("member", "age", "color", "weight", "born", "number")
    synthetic = read(target).to_pandas()
    assert tuple(synthetic) == found.domain_.columns
    again = expected.sample(1_000).to_pandas()
    for name in synthetic:
        assert synthetic[name].astype(str).tolist() == again[name].astype(str).tolist()


DOMAIN = Domain(
    {
        "age": Interval(0, 100, bins=10),
        "height": Interval(edges=[0, 1.5, 2.5]),
        "grade": [1, 2, None],
        "left": [True, False, None],
        "word": ["None", "007", "x"],
    }
)
ROW = {"age": "40", "height": "1", "grade": "1", "left": "True", "word": "007"}
ODD = {"age": "40.5", "height": "1.75", "grade": "", "left": "", "word": "None"}


# The domain determines how each value of a CSV file is read.


def write_text(path, rows):
    lines = [",".join(ROW), *(",".join(row.values()) for row in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def run_text(source, target, handle_unknown="ignore", **options):
    found = make_synthesizer(delta=0.0, domain=DOMAIN, handle_unknown=handle_unknown, marginals="independent")
    synthesize_file(source, target, found, **options)
    return found


def test_types_do_not_depend_on_the_data(tmp_path):
    """One odd row changes the dtypes that pandas infers."""
    schemas = []
    kinds = {"plain": [ROW] * 40, "odd": [*[ROW] * 39, ODD], "all odd": [ODD] * 40, "none": []}
    for (name, rows), n_samples in zip(kinds.items(), (5, 0, 5, 5), strict=True):
        target = tmp_path / f"{name}.parquet"
        run_text(write_text(tmp_path / f"{name}.csv", rows), target, n_samples=n_samples)
        schemas.append(pq.read_schema(target))
    assert all(schema.equals(schemas[0]) for schema in schemas)
    types = {"age": pa.int64(), "height": pa.float64(), "grade": pa.int64(), "left": pa.bool_()}
    assert {name: schemas[0].field(name).type for name in types} == types


@pytest.mark.parametrize("form", FORMATS)
def test_rows_of_a_saved_model_have_the_same_types(form, tmp_path):
    days = [date(2026, 1, 1), date(2026, 1, 2)]
    domain = {"age": Interval(0, 100, bins=4, missing=True), "left": [True, None], "day": [*days, None], "word": ["x"]}
    table = pa.table({"age": [30] * 40, "left": [True] * 40, "day": days * 20, "word": ["x"] * 40})
    first, model, again = tmp_path / "first.parquet", tmp_path / "model.skops", tmp_path / "again.parquet"
    found = make_synthesizer(domain=domain, marginals="independent")
    synthesize_file(write(table, tmp_path / f"in.{form}"), first, found, save=model, n_samples=4)
    sample_file(DPMarginalSynthesizer.load(model), again, n_samples=8)
    assert pq.read_schema(first).equals(pq.read_schema(again))


def test_numbers_are_clipped_and_text_is_not(tmp_path):
    source = write_text(tmp_path / "in.csv", [ROW | {"age": "1e300"}] * 100)
    assert run_text(source, tmp_path / "out.csv", handle_unknown="clip").count({"age": (90, None)}) > 50
    for text, policy in [("secret", "clip"), ("1_000", "ignore"), ("nAn", "error")]:
        source = write_text(tmp_path / "in.csv", [ROW] * 50 + [ROW | {"age": text}])
        with refusal(ValueError, "Column 'age' must contain numbers", text):
            run_text(source, tmp_path / "two.csv", handle_unknown=policy)


def refuse(source, match, error=ValueError, person=None, target="out.csv", domain=SURVEY, **options):
    """Check for a clear error without a file, a charge, or a value."""
    with refusal(error, match, "violet", "secret", folder=source.parent) as ledger:
        model = make_synthesizer(ledger=ledger, domain=domain)
        synthesize_file(source, source.parent / target, model, person=person, **options)


@pytest.mark.parametrize(("person", "form"), diagonal([None, "person"], FORMATS))
def test_value_outside_the_domain_raises_an_error(rows, tmp_path, form, person):
    # In a row of the last batch that is not excluded.
    table = pa.concat_tables([rows, rows.slice(0, 1).set_column(3, "color", pa.array(["violet"]))])
    table = table.set_column(5, "person", pa.array([*rows["person"].to_pylist(), "somebody"]))
    source = write(table, tmp_path / f"in.{form}")
    refuse(source, r"Column 'color' contains a value.*outside the declared domain", person=person)


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"n_samples": -1}, ValueError, "`n_samples` must be between 0"),
        ({"target": "out.txt"}, ValueError, "must end in one of"),
        ({"target": "in.parquet"}, FileExistsError, "which exists"),
        ({"person": "nobody"}, ValueError, r"in.parquet must have the columns \['nobody'\]"),
        ({"person": "age"}, ValueError, "`person` must not be in the domain, got 'age'"),
        ({"save": "mine"}, FileExistsError, "exists"),
        ({"save": "nowhere/model"}, FileNotFoundError, "nowhere"),
        ({"save": "out.csv"}, ValueError, r"save.*destination"),
    ],
)
def test_invalid_parameters_raise_an_error(rows, tmp_path, monkeypatch, options, error, match):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").write_text("mine")
    refuse(write(rows, tmp_path / "in.parquet"), match, error, **options)
    assert (tmp_path / "mine").read_text() == "mine"


@pytest.mark.parametrize("max_rows", [3, pytest.param(1, marks=pytest.mark.long)])
def test_rows_of_a_person_are_limited(source, rows, tmp_path, max_rows):
    found = make_synthesizer(max_rows_per_person=max_rows, marginals="independent")
    synthesize_file(source, tmp_path / "out.parquet", found, person="person", n_samples=9)
    kept = int(pd.Series(rows["person"].to_pylist()).value_counts().clip(upper=max_rows).sum())
    assert abs(found.n_rows_ - kept) < 20  # the noise has a standard deviation below 1
    assert pq.read_schema(tmp_path / "out.parquet").names == list(found.domain_.columns)
    assert "person" not in found.domain_.columns


@pytest.mark.parametrize("person", ["", "NA", '""'])
def test_rows_without_a_person_raise_an_error(tmp_path, person):
    (tmp_path / "in.csv").write_text("color,person\n" + "red,7\n" * 3_000 + f"red,{person}\n")
    message = "`person` must not contain missing"
    refuse(tmp_path / "in.csv", message, person="person", domain={"color": ["red"]})
    made = encoder(categories={"color": ["red", "blue"]}, memoize=True, secret_key=b"k" * 32, random_state=None)
    with pytest.raises(ValueError, match="contains missing values"):
        privatize_file(tmp_path / "in.csv", tmp_path / "out.csv", made, person="person")


@pytest.mark.parametrize("form", FORMATS)
def test_names_that_differ_in_case_are_distinct(tmp_path, form):
    table = pa.table({"a": ["x", "y"] * 50, "A": ["x"] * 100, "person": range(100)})
    found = make_synthesizer(domain={"a": ["x", "y"], "A": ["x", "y"]})
    synthesize_file(write(table, tmp_path / f"in.{form}"), tmp_path / "out.csv", found, person="person")
    assert found.marginal(["a"])["count"].round(-1).tolist() == [50, 50]
    assert found.marginal(["A"])["count"].round(-1).tolist() == [100, 0]


@pytest.mark.long
def test_full_disk_does_not_lose_a_saved_model(rows, tmp_path, monkeypatch):
    def fill_the_disk(self, n_samples):
        raise OSError(errno.ENOSPC, "No space left on device")

    source = write(rows, tmp_path / "in.parquet")
    monkeypatch.setattr(DPMarginalSynthesizer, "sample_batches", fill_the_disk)
    with pytest.raises(OSError, match="No space left on device"):
        synthesize_file(source, tmp_path / "out.csv", make_synthesizer(), save=tmp_path / "model")
    assert not (tmp_path / "out.csv").exists()
    assert len(DPMarginalSynthesizer.load(tmp_path / "model").sample(10)) == 10
