"""`fit` on lazy tables: equal to a fit in memory, and only counts leave the engine."""

import itertools
import pickle
import tracemalloc
from collections import Counter
from datetime import datetime
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from pyarrow.compute import field
from sklearn.base import clone

from skdp import DPGroupBy, DPHistogram, DPLinearRegression, DPLogisticRegression, DPMarginalSynthesizer
from skdp.engines import synthesize_file
from skdp.readers import ValueCounts, open_large
from tests.conftest import diagonal, quick_first
from tests.engines.tables import SURVEY, make_synthesizer, survey, write
from tests.errors import refusal

N = 3_000


@pytest.fixture(scope="module")
def rows():
    return survey(N)


def same_fit(one, other):
    assert one.selected_cliques_ == other.selected_cliques_
    for mine, theirs in zip(one.marginals_, other.marginals_, strict=True):
        np.testing.assert_array_equal(mine.counts, theirs.counts)
    codes = [model.model_.sample(500, np.random.default_rng(0)) for model in (one, other)]
    for mine, theirs in zip(*codes, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def fit_all(frame, domain):
    """Return a table of results, synthetic rows, and counts of groups for a frame of ``color`` and ``age``."""
    histogram = DPHistogram(1.0, domain=domain, random_state=0).fit(frame)
    groups = DPGroupBy(1.0, by="color", keys={"color": domain["color"]}, bounds=(0, 100), random_state=0).fit(frame)
    synthesizer = make_synthesizer(domain=domain).fit(frame)
    return histogram.to_frame(), groups.to_frame(), synthesizer.sample(9)


@pytest.mark.filterwarnings("ignore:The noise is about")
def test_results_are_pandas_except_for_polars(every_engine, rows):
    frame = every_engine.frame(rows.select(["color", "age"]))
    wanted = {"polars_lazy": pl.DataFrame, "arrow": pa.Table}.get(every_engine.name, pd.DataFrame)
    for result in fit_all(frame, {name: SURVEY[name] for name in ("color", "age")}):
        assert type(result) is wanted


def test_enum_of_a_lazy_frame_declares_its_values():
    colors = pl.Enum(["red", "green"])
    lazy = pl.LazyFrame({"color": ["red"] * 50}, schema={"color": colors})
    result = DPHistogram(1.0, random_state=0).fit(lazy).to_frame()
    assert result["color"].to_list() == ["red", "green"]
    sample = DPMarginalSynthesizer(1.0, domain={"color": ["green", "red"]}, random_state=0).fit(lazy).sample(5)
    assert sample.schema["color"] == pl.Enum(["green", "red"])


def test_logistic_regression_holds_few_bytes_per_value(tmp_path):
    """The rows and their integers, floats, classes and weights took up to 37 bytes a value; 13 of five million rows."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.uniform(size=(100_000, 4)), columns=list("abcd")).assign(y=rng.integers(0, 2, 100_000))
    table.to_parquet(tmp_path / "rows.parquet")
    rows = ds.dataset(tmp_path / "rows.parquet")
    model = DPLogisticRegression(1.0, bounds=(0, 1), classes=[0, 1], random_state=0)
    # The first fit imports modules, whose memory is not of the rows.
    in_memory = clone(model).fit(table[list("abcd")], table["y"])
    tracemalloc.start()
    model.fit(rows, "y")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak / table.size < 22
    assert (model.coef_ == in_memory.coef_).all()


def test_missing_weights_of_a_later_file_are_read_as_in_memory(tmp_path):
    """Numbers of the first files are converted at once, and a later file has a missing weight, or only integers."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.uniform(size=600), "b": rng.integers(0, 9, 600), "w": rng.integers(1, 4, 600)})
    table["y"] = table["a"] + rng.normal(size=600)
    table["w"] = table["w"].astype("Int64").mask(table.index.isin([350, 599]))
    for start in (0, 300, 500):
        table[start : start + 300].to_parquet(tmp_path / f"{start}.parquet")
    table = pd.concat([table[:300], table[300:], table[500:]], ignore_index=True)
    model = DPLinearRegression(
        9.0, delta=1e-6, bounds={"a": (0, 1), "b": (0, 9)}, target_bounds=(-4, 5), max_weight=3, random_state=0
    )
    found = model.fit(ds.dataset(tmp_path), "y", sample_weight="w").coef_
    wanted = clone(model).fit(table[["a", "b"]], table["y"], sample_weight=table["w"]).coef_
    np.testing.assert_array_equal(found, wanted)


def dirty(rows):
    """Add rows with values outside the domain: beyond the bounds, without a bin, and an unknown word."""
    more = pa.table(
        {
            "color": ["red", "violet", "green", "red"],
            "age": [-5, 50, 1_000, 30],
            "weight": [0.5, 0.1, 7.0, 0.2],
            "born": pa.array([datetime(1990, 1, 1), datetime(2001, 1, 1)] * 2, pa.timestamp("us")),
            "member": [True, False, False, True],
            "number": pa.array([0, 1, 2, 7], pa.uint8()),
        }
    )
    return pa.concat_tables([rows, more])


MAPPED = {"color": None, "weight": None, "number": 1}
MAPPED |= {"age": SURVEY["age"].values[2], "born": SURVEY["born"].values[0]}
NUMBERS = dirty(survey(N)).filter(field("number") < 3).filter(field("color") != "violet")


@pytest.mark.parametrize(
    ("policy", "table"),
    [
        ("ignore", dirty(survey(N))),
        ("clip", NUMBERS),
        (MAPPED, dirty(survey(N))),
        pytest.param("error", survey(N), marks=pytest.mark.long),
    ],
    ids=["ignore", "clip", "mapping", "error"],
)
def test_counts_equal_the_counts_in_memory(lazy_engine, table, policy):
    """Equal seeds add equal noise to all counts."""
    cliques = [*itertools.pairwise([*SURVEY.columns, SURVEY.columns[0]]), SURVEY.columns[:3]]
    # Cells of numbers are counted in a pass of their own, and without pairs, other columns are not counted in it.
    for marginals in (cliques, "independent"):
        model = make_synthesizer(marginals=marginals, handle_unknown=policy)
        same_fit(clone(model).fit(lazy_engine.frame(table)), clone(model).fit(table))


@pytest.mark.parametrize(
    ("policy", "in_memory"),
    diagonal(
        ["error", "clip", {"color": "red"}, {"color": "red", "age": "clip"}, {"age": 50, "weight": None}], [False, True]
    ),
)
def test_undeclared_value_of_a_column_without_a_policy_raises_an_error(lazy_engine, rows, policy, in_memory, tmp_path):
    """It is neither counted nor dropped, although other columns replace undeclared values."""
    table = rows.set_column(4, "member", pa.array(["no"] + [None] * (N - 1), pa.string()))
    declared = SURVEY | {"member": ["yes", None]}
    synthesizer = make_synthesizer(domain=declared, handle_unknown=policy)
    match = r"^Column 'member' contains a value outside the declared"
    with refusal(ValueError, match) as ledger:
        synthesizer.set_params(ledger=ledger).fit(table if in_memory else lazy_engine.frame(table))
    for form in [] if in_memory else ["csv", "parquet"]:
        source = write(table, tmp_path / f"in.{form}")
        with refusal(ValueError, match, folder=tmp_path) as ledger:
            synthesize_file(source, tmp_path / "out.csv", synthesizer.set_params(ledger=ledger))


def test_estimator_stores_nothing_of_the_table(lazy_engine, rows):
    word = "a-private-word"
    table = rows.set_column(0, "color", pa.array(["red"] * (N - 1) + [word]))
    model = make_synthesizer(handle_unknown={"color": None}, marginals=[("color", "age")])
    fitted, reference = clone(model).fit(lazy_engine.frame(table)), clone(model).fit(table)
    assert word.encode() not in pickle.dumps(fitted)
    assert set(vars(fitted)) == set(vars(reference))


def test_tables_without_rows_and_empty_partitions_are_fitted(dask_frame, rows):
    none, model = rows.slice(0, 0), make_synthesizer(marginals=[("color", "age"), ("weight", "born")])
    expected = clone(model).fit(none)
    for frame in (pl.from_arrow(none).lazy(), ds.dataset(none), duckdb.from_arrow(none), dask_frame(none, 1)):
        same_fit(clone(model).fit(frame), expected)
    cut = dask_frame(rows, 4)
    empty = cut.map_partitions(
        lambda part, partition_info=None: part if partition_info["number"] == 2 else part[:0], meta=cut._meta
    )
    kept = pa.Table.from_pandas(empty.compute(), preserve_index=False)
    assert 0 < kept.num_rows < N
    same_fit(clone(model).fit(empty), clone(model).fit(kept))


PERSONS = 400


@pytest.fixture(scope="module")
def visits(rows):
    """Rows of people with 1 to 16 rows each."""
    draw = np.random.default_rng(1)
    person = np.concatenate([np.arange(PERSONS), draw.integers(0, PERSONS, N - PERSONS)])
    return rows.append_column("person", pa.array([f"p{number}" for number in person])).append_column("row", [range(N)])


def kept_counts(engine, table, max_rows, name, values, seed=3):
    """Count the values of a column in the rows of the limited table; the noise rounds to 0."""
    rows = table.select(["person", name] if name != "person" else ["person"])
    if name == "person":
        rows, name = rows.append_column("who", rows["person"]), "who"
    domain, more = {name: values}, {"max_rows_per_person": max_rows, "method": "flat", "random_state": seed}
    return DPHistogram(1e6, domain=domain, **more).fit(engine.frame(rows), person="person").counts_


@pytest.mark.parametrize("lazy_engine", quick_first(2, ["polars_lazy", "duckdb", "dataset"]), indirect=True)
class TestPersons:
    @pytest.mark.parametrize("max_rows", [1, 3])
    def test_rows_of_a_person_are_limited(self, lazy_engine, visits, max_rows):
        n_rows = pd.Series(visits["person"].to_pylist()).value_counts()
        kept = kept_counts(lazy_engine, visits, max_rows, "person", n_rows.index.tolist())
        assert kept.tolist() == n_rows.clip(upper=max_rows).tolist()
        kept = kept_counts(lazy_engine, visits, max_rows, "row", range(N))
        assert set(kept) == {0, 1}  # each row occurs at most once

    def test_table_without_rows_stays_empty(self, lazy_engine, visits):
        kept = kept_counts(lazy_engine, visits.slice(0, 0), 1, "row", range(N))
        assert not kept.any()

    def test_rows_beyond_the_memory_are_written_to_a_private_folder(self, lazy_engine, visits, monkeypatch):
        limited = open_large(lazy_engine.frame(visits)).limit_persons("person", 2, 0)
        folders, connect = [], duckdb.connect

        def inspect(*args, **kwargs):
            connection = connect(*args, **kwargs)
            [(folder,)] = connection.sql("SELECT current_setting('temp_directory')").fetchall()
            folders.append(Path(folder))
            assert Path(folder).is_absolute()
            assert Path(folder).stat().st_mode & 0o077 == 0
            return connection

        monkeypatch.setattr(duckdb, "connect", inspect)
        assert sum(map(len, limited.read(["row"]))) < N
        assert [folder.exists() for folder in folders] == [False]

    def test_selection_depends_on_the_rows_of_the_person_only(self, lazy_engine, visits):
        persons = np.array(visits["person"].to_pylist())
        kept = kept_counts(lazy_engine, visits, 2, "row", range(N))
        assert (kept_counts(lazy_engine, visits, 2, "row", range(N), seed=4) != kept).any()
        changed = visits.filter(field("person") != "p7").slice(1)
        kept_of_changed = kept_counts(lazy_engine, changed, 2, "row", range(N))
        is_unchanged = (persons != "p7") & (persons != persons[0])
        assert kept[persons == "p7"].sum() in (1, 2)
        np.testing.assert_array_equal(kept[is_unchanged], kept_of_changed[is_unchanged])

    @pytest.mark.parametrize("answers", [["no", "yes"], [0, 1]], ids=["text", "numbers"])
    def test_all_values_are_selected_equally_often(self, lazy_engine, answers):
        """Each of 1,000 people gives both answers, and one is selected independently (false alarm: 1e-9 for a seed)."""
        n = 1_000
        table = pa.table({"answer": answers * n, "person": [f"p{i // 2}" for i in range(2 * n)]})
        for seed in (1, 2):
            kept = kept_counts(lazy_engine, table, 1, "answer", answers, seed)
            assert kept.sum() == n
            assert abs(kept[0] - n / 2) < 100


@pytest.mark.parametrize(
    ("params", "given", "error", "match"),
    [
        ({}, {"y": [0] * N}, TypeError, "`y` must be None"),
        ({}, {"person": "nobody"}, ValueError, "`person` must be the name of a column"),
        ({"domain": None}, {}, ValueError, r"`domain` must declare the values of the columns .* got none"),
    ],
)
def test_unsupported_options_of_lazy_tables_raise_an_error(rows, params, given, error, match):
    with refusal(error, match) as ledger:
        make_synthesizer(ledger=ledger, **params).fit(pl.from_arrow(rows).lazy(), **given)


@pytest.mark.parametrize("spread", [3, 10**6, 2**62])
@pytest.mark.parametrize("largest_count", [1, 5])
def test_counts_of_pairs_equal_counts_one_by_one(spread, largest_count):
    """With a spread of 2**62, a group and a value do not fit into one integer of 64 bits."""
    rng = np.random.default_rng(0)
    counts, expected = ValueCounts(), Counter()
    assert [column.size for column in counts.merge()] == [0, 0, 0]
    for size in (0, 300, 1, 50, 200, 40):
        values = rng.choice(rng.integers(-spread, spread, 40), size)
        part = rng.integers(-2, 3, size), values, rng.integers(1, largest_count + 1, size)
        counts += ValueCounts((part,))
        for group, value, count in zip(*map(np.ndarray.tolist, part), strict=True):
            expected[group, value] += count
    groups, values, n_rows = (column.tolist() for column in counts.merge())
    assert list(zip(groups, values, n_rows, strict=True)) == [(*pair, n) for pair, n in sorted(expected.items())]


# What authors of an engine use: its loaded rows equal the table, and its errors contain no value.


def test_loaded_numbers_equal_the_table(every_engine):
    rows = pd.DataFrame({"weight": np.random.default_rng(0).random(3_000), "size": range(3_000)})
    loaded = open_large(every_engine.frame(pa.Table.from_pandas(rows, preserve_index=False)))
    if loaded is not None:  # a table in memory is used as it is
        table = pl.DataFrame(loaded.load()).sort("size")
        np.testing.assert_array_equal(table["weight"].to_numpy(), rows["weight"])
