"""Reports of two protocols, or overwritten ones, are noticed on every medium; honest tables pass."""

from __future__ import annotations

import contextlib
import json
import shutil
import warnings
from itertools import combinations

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from skdp import (
    LocalHashingEncoder,
    NumericPerturber,
    PrivacyLedger,
    RandomizedResponseEncoder,
    RapporEncoder,
    SubsetSelectionEncoder,
    UnaryEncodingTransformer,
    read_protocol,
)
from skdp.engines import estimate_file, privatize, privatize_file, tally, tally_files
from skdp.local import LocalTableEncoder, SetValuedEncoder, UnverifiedReportsWarning, join_reports, shuffle_reports
from tests.engines.conftest import ENGINES

# Half of the people have either value, so that every mixture of reports and of true values is a possible tally.
VALUES = {"sex": ["f", "m"]}
PEOPLE = pd.DataFrame({"sex": ["f", "m", "m", "f"] * 1_000})
# Few people have the second value: less than what any reports of epsilon 1 show.
SKEWED = pd.DataFrame({"sex": ["f"] * 3_900 + ["m"] * 100})
NOTICED = (ValueError, UnverifiedReportsWarning)


def encoder(epsilon=1.0, **parameters):
    return RandomizedResponseEncoder(epsilon, categories=VALUES, **parameters).fit(PEOPLE)


def server(made=None):
    """An encoder that has made no report."""
    made = encoder() if made is None else made
    return type(made).from_json(made.to_json())


@contextlib.contextmanager
def noticed():
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnverifiedReportsWarning)
        with pytest.raises(NOTICED):
            yield


def arrow(frame):
    return pa.Table.from_pandas(frame, preserve_index=False)


def overwritten(reports, people=PEOPLE):
    """The true values under the note of their reports."""
    if isinstance(reports, pd.DataFrame):
        return reports.assign(sex=people["sex"].to_numpy())
    return reports.set_column(0, "sex", pa.array(people["sex"])).replace_schema_metadata(reports.schema.metadata)


def mixed(reports, people=PEOPLE):
    """Reports of another protocol under the note of the first ones, as one writer of both leaves it."""
    others = encoder(4.0).transform(arrow(people))
    return pa.concat_tables([reports, others.replace_schema_metadata(reports.schema.metadata)])


def readings_with_notes(table, folder):
    """All that reads a table with the note of its release."""
    yield lambda: server().estimate_counts(table)
    yield lambda: server().estimate_counts(table.to_pandas())
    yield lambda: tally([table], server())
    for form, write, read in (
        ("parquet", pq.write_table, pd.read_parquet),
        ("feather", feather.write_feather, pd.read_feather),
    ):
        path = folder / f"reports.{form}"
        write(table, path)
        yield lambda path=path: estimate_file(path)
        yield lambda path=path: tally_files(path)
        yield lambda path=path, form=form: tally(ds.dataset(path, format=form), server())
        yield lambda path=path, read=read: server().estimate_counts(read(path))


@pytest.mark.parametrize("change", [overwritten, mixed])
def test_what_contradicts_the_note_of_its_release_is_noticed(change, tmp_path):
    reports = encoder().transform(arrow(PEOPLE))
    for number, read in enumerate(readings_with_notes(reports, tmp_path)):
        assert read() is not None, number
    for read in readings_with_notes(change(reports), tmp_path):
        with noticed():
            read()


def readings_without_notes(frame, fitted, folder):
    """All that reads a table that has no note."""
    table = arrow(frame).replace_schema_metadata(None)
    lazy = pl.from_arrow(table).lazy()
    frame.to_csv(folder / "reports.csv", index=False)
    yield lambda: fitted.estimate_counts(pd.DataFrame(frame.to_dict("list")))
    yield lambda: fitted.estimate_counts(lazy.collect())
    yield lambda: fitted.estimate_counts(tally(lazy, fitted))
    yield lambda: fitted.estimate_counts(tally(duckdb.from_arrow(table), fitted))
    yield lambda: estimate_file(folder / "reports.csv", fitted)


@pytest.mark.parametrize("people", [PEOPLE, SKEWED], ids=["made some of them", "impossible tally"])
def test_without_a_note_other_reports_and_true_values_are_noticed(people, tmp_path):
    """By the encoder that made some, or where no reports can be like that."""
    made = encoder()
    reports = made.transform(people)
    fitted = made if people is PEOPLE else server()
    for read in readings_without_notes(reports, fitted, tmp_path):
        assert read()["count"].sum() == pytest.approx(len(people))
    for other in (pd.concat([reports, encoder(4.0).transform(people)]), people):
        for read in readings_without_notes(other, fitted, tmp_path):
            with noticed():
                read()


def test_a_folder_of_two_protocols_is_noticed(tmp_path):
    for name, epsilon in (("a", 1.0), ("b", 4.0)):
        encoder(epsilon).transform(PEOPLE).to_parquet(tmp_path / f"{name}.parquet")
    paths = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    with noticed():
        server().estimate_counts(pd.read_parquet(tmp_path))
    with noticed():
        tally(pa.concat_tables([pq.read_table(path) for path in paths]), server())
    for read in (lambda: tally(ds.dataset(tmp_path), server()), lambda: tally_files(paths)):
        with pytest.raises(ValueError, match="reports of two protocols are never added"):
            read()


PERSONS = pd.DataFrame({"sex": ["f", "m", "m"] * 20, "age": [20.0, 40.0, 80.0] * 20})
BASKETS = pd.DataFrame({"fruit": [["apple"], ["apple", "fig"]] * 20})
TRANSFORMERS = [
    (RandomizedResponseEncoder(1.0, categories=VALUES), PEOPLE),
    (RandomizedResponseEncoder(1.0, categories={"sex": ["f", "m"], "n": range(300)}), PEOPLE.assign(n=7)),
    (RandomizedResponseEncoder(1.0, categories=VALUES, strategy="joint"), PEOPLE),
    (UnaryEncodingTransformer(1.0, categories=VALUES, strategy="sample"), PEOPLE),
    (UnaryEncodingTransformer(1.0, categories={"n": range(300)}), PEOPLE[:50].assign(n=7)[["n"]]),
    (UnaryEncodingTransformer(1.0, categories=VALUES, output="unbiased"), PEOPLE),
    (SubsetSelectionEncoder(1.0, categories=VALUES), PEOPLE),
    (LocalHashingEncoder(1.0, categories=VALUES), PEOPLE),
    (NumericPerturber(1.0, bounds={"age": (0, 100)}), PERSONS[["age"]]),
    (LocalTableEncoder(1.0, categories=VALUES, bounds={"age": (0, 100)}), PERSONS),
    (SetValuedEncoder(1.0, categories={"fruit": ["apple", "fig", "kiwi"]}, max_size=2), BASKETS),
    (RapporEncoder(1.0, n_bits=8), PEOPLE),
]


@pytest.mark.parametrize(("transformer", "people"), TRANSFORMERS, ids=lambda given: type(given).__name__)
def test_honest_tables_of_each_transformer_pass(transformer, people, tmp_path):
    made = transformer.fit(people)
    first, second = made.transform(people), made.transform(people)
    reader = server(made)
    joined = join_reports([first, second])
    joined.to_parquet(tmp_path / "joined.parquet")
    for table in (
        first,
        first[: len(first) // 3],
        first.sample(frac=1.0, random_state=0),
        first.sort_values(list(first)) if not isinstance(made, SetValuedEncoder) else first[::-1],
        first.sample(len(first) // 2, random_state=0),
        pd.concat([first[:20], first[20:]]),
        joined,
        pd.read_parquet(tmp_path / "joined.parquet"),
        arrow(first),
        shuffle_reports(first),
    ):
        assert reader.tally(table).n_reports == len(table)
        assert made.tally(table).n_reports == len(table)
    assert made.tally(pd.concat([first, second])).n_reports == 2 * len(first)  # it knows what it has released


@pytest.mark.parametrize(("transformer", "people"), TRANSFORMERS, ids=lambda given: type(given).__name__)
def test_the_counts_of_a_release_are_those_of_its_reports(transformer, people):
    """Whether they are counted where they are drawn, or from the reports, or from the tally, and in parts."""
    made = transformer.fit(people)
    reports, protocol = made.transform(people), made.protocol_
    ((_, text),) = reports.attrs["skdp.releases"].items()
    arrays = protocol.read(reports)
    assert json.loads(text) == protocol.report_counts(arrays).tolist()
    tallied = protocol.tallied_counts(protocol.tally(arrays))
    assert tallied is None or tallied.tolist() == json.loads(text)
    halves = [protocol.report_counts(protocol.read(part)) for part in (reports[:7], reports[7:])]
    assert sum(halves).tolist() == json.loads(text)
    assert protocol.empty_counts().tolist() == [0] * len(halves[0])
    assert made.released.explain(np.array(json.loads(text)))


# Of Dask, each partition is a file with a note of its own.
NOTED = [name for name, engine in ENGINES.items() if engine.numbers_rows]


@pytest.mark.parametrize("name", NOTED)
def test_honest_files_of_each_engine_pass_and_changed_ones_do_not(engines, name, tmp_path):
    made, path = encoder(), tmp_path / "reports.parquet"
    released = privatize(engines[name].frame(arrow(PEOPLE)), made, path=path)
    assert tally(released, made).n_reports == len(PEOPLE)
    note = json.loads(pq.ParquetFile(path).metadata.metadata[b"skdp.releases"])
    assert len(note) == 1
    assert estimate_file(path)["count"].sum() == pytest.approx(len(PEOPLE))
    table = pq.read_table(path)
    if name == "polars_lazy":  # whose files say it where no other library looks
        table = table.replace_schema_metadata(
            {key: pq.ParquetFile(path).metadata.metadata[key] for key in (b"skdp.protocol", b"skdp.releases")}
        )
    for honest in (table, table.slice(100, 1_000), table.sort_by("sex")):
        server().estimate_counts(honest)
        pq.write_table(honest, tmp_path / "again.parquet")
        estimate_file(tmp_path / "again.parquet")
    pq.write_table(overwritten(table), tmp_path / "changed.parquet")
    with noticed():
        estimate_file(tmp_path / "changed.parquet")


@pytest.mark.parametrize("name", NOTED)
def test_an_encoder_knows_what_each_engine_released_in_memory(engines, name):
    made = encoder()
    reports = engines[name].table(privatize(engines[name].frame(arrow(PEOPLE)), made))
    made.estimate_counts(reports)
    with noticed():
        made.estimate_counts(arrow(PEOPLE))


def test_files_of_dask_say_the_release_of_each_partition(tmp_path):
    dataframe = pytest.importorskip("dask.dataframe")
    made, path = encoder(), tmp_path / "reports"
    privatize(dataframe.from_pandas(PEOPLE, npartitions=3), made, path=path)
    files = sorted(path.glob("*.parquet"))
    assert len(files) == 3
    assert tally(ds.dataset(files), server()).n_reports == len(PEOPLE)
    assert tally_files(files).n_reports == len(PEOPLE)
    first = pq.ParquetFile(files[0]).read()
    changed = overwritten(first, PEOPLE[: len(first)])
    pq.write_table(changed, files[0])
    with noticed():
        tally(ds.dataset(files), server())


def test_a_note_that_nobody_can_have_written_is_not_believed():
    reports = encoder().transform(PEOPLE)
    for note in ([], {}, {"a": 3}, {"a": "[]"}, {"a": "[-1, 4000, 4000]"}, {"a": "[1e9, 1e9, 1e9]"}, {"a": "x"}):
        odd = reports.copy()
        odd.attrs["skdp.releases"] = note
        with pytest.warns(UnverifiedReportsWarning, match="the note of these .*reports is not verified"):
            server().estimate_counts(odd)


def test_shuffled_reports_keep_the_note_of_their_releases():
    reports = encoder().transform(PEOPLE)
    assert shuffle_reports(reports).attrs == reports.attrs
    table = encoder().transform(arrow(PEOPLE))
    assert shuffle_reports(table).schema.metadata[b"skdp.releases"] == table.schema.metadata[b"skdp.releases"]


def test_what_an_encoder_knows_stays_in_its_process():
    import pickle

    made = encoder()
    made.transform(PEOPLE)
    assert made.released.are_known
    assert not pickle.loads(pickle.dumps(made)).released.are_known
    assert not made.fit(PEOPLE).released.are_known


class TestPandasJoins:
    """pandas keeps notes that are equal, and compares them for that."""

    JOINS = (
        lambda one, other: pd.concat([one, other]),
        lambda one, other: pd.concat([other, one]),
        lambda one, other: one.merge(other, left_index=True, right_index=True),
        lambda one, other: one.attrs == other.attrs,
        lambda one, other: join_reports([one, other]),
    )

    @pytest.mark.parametrize("join", JOINS)
    @pytest.mark.parametrize("read_again", [False, True])
    def test_no_table_takes_in_the_note_of_another(self, join, read_again, tmp_path):
        """The counts of one row are its report: with another table's note they would go where that table goes."""
        made = encoder()
        tables = [made.transform(PEOPLE), made.transform(PEOPLE[:1])]
        if read_again:
            tables[1].to_parquet(tmp_path / "one.parquet")
            tables[1] = pd.read_parquet(tmp_path / "one.parquet")
        before = [json.dumps(table.attrs) for table in tables]
        join(*tables)
        assert [json.dumps(table.attrs) for table in tables] == before
        with noticed():
            server().estimate_counts(overwritten(tables[0]))

    def test_a_joined_table_keeps_the_protocol_and_says_that_its_note_is_of_a_part(self):
        made = encoder()
        joined = pd.concat([made.transform(PEOPLE), made.transform(PEOPLE)])
        made.estimate_counts(joined)
        with pytest.warns(UnverifiedReportsWarning, match="only `join_reports` keeps the notes of all"):
            read_protocol(joined).estimate_counts(joined)


def test_a_part_is_published_without_the_counts_of_the_rest(tmp_path):
    made = encoder()
    frame, table = made.transform(PEOPLE), made.transform(arrow(PEOPLE))
    part = frame[:10]
    part.attrs.pop("skdp.releases")
    part.to_parquet(tmp_path / "frame.parquet")
    protocol = table.schema.metadata[b"skdp.protocol"]
    pq.write_table(table[:10].replace_schema_metadata({"skdp.protocol": protocol}), tmp_path / "table.parquet")
    for name, whole in (("frame", frame), ("table", table.to_pandas())):
        path = tmp_path / f"{name}.parquet"
        ((number, counts),) = whole.attrs["skdp.releases"].items()
        assert not any(secret.encode() in path.read_bytes() for secret in (number, counts, "skdp.releases"))
        assert read_protocol(path).tally(pd.read_parquet(path)).n_reports == 10


class TestJoin:
    @pytest.mark.parametrize("kind", [pd.DataFrame, arrow, pl.from_pandas], ids=["pandas", "pyarrow", "polars"])
    def test_tables_of_each_library(self, kind):
        made = encoder()
        tables = [made.transform(kind(PEOPLE)) for _ in range(3)]
        joined = join_reports(tables)
        assert type(joined) is type(tables[0])
        assert server().estimate_counts(joined)["count"].sum() == pytest.approx(3 * len(PEOPLE))

    def test_other_protocols_are_refused_and_a_table_without_a_note_leaves_none(self):
        reports = encoder().transform(PEOPLE)
        with pytest.raises(ValueError, match="reports of two protocols are never added"):
            join_reports([reports, encoder(4.0).transform(PEOPLE)])
        assert join_reports([reports, pd.DataFrame(reports.to_dict("list"))]).attrs == {}

    @pytest.mark.parametrize("given", [[], [1], [PEOPLE, arrow(PEOPLE)], [PEOPLE, pl.from_pandas(PEOPLE)]])
    def test_other_tables_are_refused(self, given):
        with pytest.raises(TypeError, match="tables must"):
            join_reports(given)


def honest(rng):
    """A table of reports, its transformer, and what honest people may do with it."""
    k, n = int(rng.choice([2, 3, 20])), int(rng.choice([1, 5, 50, 400]))
    kinds = [RandomizedResponseEncoder, UnaryEncodingTransformer, SubsetSelectionEncoder, LocalHashingEncoder]
    values = [f"v{place}" for place in range(k)]
    people = pd.DataFrame({"x": rng.choice(values, n, p=rng.dirichlet(np.full(k, 0.3)))})
    made = kinds[rng.integers(4)](float(rng.choice([0.3, 1, 4])), categories={"x": values}).fit(people)
    return made, people


@pytest.mark.parametrize("seeds", [range(20), pytest.param(range(20, 1_020), marks=pytest.mark.long)])
def test_no_honest_file_is_called_unverified(seeds, tmp_path):
    for seed in seeds:
        rng = np.random.default_rng(seed)
        made, people = honest(rng)
        tables = [made.transform(people) for _ in range(int(rng.integers(1, 4)))]
        table = join_reports(tables)
        table = [table, table.sample(frac=1.0, random_state=seed), table[: len(table) // 2 + 1], table[::-1]][seed % 4]
        path = tmp_path / f"{seed}.{['parquet', 'feather', 'csv'][seed % 3]}"
        if path.suffix == ".csv":
            table.to_csv(path, index=False)
        elif path.suffix == ".parquet":
            table.reset_index(drop=True).to_parquet(path, row_group_size=64)
        else:
            feather.write_feather(pa.Table.from_pandas(table, preserve_index=False), path)
        estimate_file(path, server(made))
        path.unlink()


def split_file(tmp_path, reports):
    """Write all reports to one file, and two halves to two others."""
    parts = {"all": reports, "f": reports[reports.sex == "f"], "m": reports[reports.sex == "m"]}
    for name, part in parts.items():
        part.to_parquet(tmp_path / f"{name}.parquet")
    return [str(tmp_path / f"{name}.parquet") for name in parts]


def test_a_folder_of_releases_that_is_read_at_once_and_the_ways_out(tmp_path):
    made = encoder()
    files = [tmp_path / f"{name}.parquet" for name in ("a", "b")]
    for path in files:
        made.transform(PEOPLE).to_parquet(path)
    for read in (pd.read_parquet, pq.read_table):
        with pytest.warns(UnverifiedReportsWarning, match="4,000 of 8,000 reports.* only `join_reports` keeps"):
            server().estimate_counts(read(tmp_path))
        made.estimate_counts(read(tmp_path))
        server().estimate_counts(join_reports(map(read, files)))
    server().estimate_counts(tally(ds.dataset(tmp_path), server()))
    server().estimate_counts(tally_files(files))


class TestFilesWithReportsInCommon:
    def test_a_part_beside_the_whole(self, tmp_path):
        made = encoder()
        whole, f, m = split_file(tmp_path, made.transform(PEOPLE))
        for files in ([whole, f], [m, whole], [f, m, whole]):
            for reader in (server(), made, None):
                with pytest.warns(UnverifiedReportsWarning, match="reports of releases that have 4,000.*several times"):
                    tally_files(files, reader)

    def test_beside_a_part_of_another_release(self, tmp_path):
        made = encoder()
        whole, f, _ = split_file(tmp_path, made.transform(PEOPLE))
        made.transform(PEOPLE)[:10].to_parquet(tmp_path / "other.parquet")
        with pytest.warns(UnverifiedReportsWarning, match="2 files hold .* of releases that have 4,000"):
            tally_files([whole, tmp_path / "other.parquet", f])

    def test_a_small_part_twice_in_place_of_the_rest(self, tmp_path):
        """Fewer reports than the release has, and yet others."""
        f = encoder().transform(PEOPLE)
        f = f[f.sex == "f"]
        for name in ("a", "b"):
            f[:1_500].to_parquet(tmp_path / f"{name}.parquet")
        with pytest.warns(
            UnverifiedReportsWarning, match="3,000 reports of releases that have 4,000, but more of some values"
        ):
            tally_files([tmp_path / "a.parquet", tmp_path / "b.parquet"])

    @pytest.mark.parametrize("ending", ["csv", "csv.gz", "tsv", "parquet", "arrow"])
    @pytest.mark.filterwarnings("default::skdp.local.UnverifiedReportsWarning")
    def test_a_whole_copy(self, ending, tmp_path):
        source = tmp_path / "people.parquet"
        PEOPLE.to_parquet(source)
        whole = privatize_file(source, tmp_path / f"whole.{ending}", encoder())
        (tmp_path / "copies").mkdir()
        copy = tmp_path / "copies" / whole.name
        for path in tmp_path.glob("whole.*"):
            shutil.copy(path, copy.parent)
        said = "2 files hold 8,000 reports of releases that have 4,000"
        with pytest.warns(UnverifiedReportsWarning, match=said):
            tally_files([whole, copy])
        # Another release of the same rows, even one of the same few reports, is no copy.
        other = privatize_file(source, tmp_path / f"other.{ending}", encoder())
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            tally_files([whole, other])

    def test_equal_files_of_two_persons_are_no_copies(self, tmp_path):
        files = []
        for number in range(6):
            PEOPLE[:1].to_csv(tmp_path / f"{number}.csv", index=False)
            files.append(privatize_file(tmp_path / f"{number}.csv", tmp_path / f"report{number}.csv", encoder()))
        assert len({file.read_bytes() for file in files}) < len(files)  # a report has one of two values
        assert tally_files(files).n_reports == len(files)

    def test_disjoint_parts_of_several_releases_pass(self, tmp_path):
        made = encoder()
        _, f, m = split_file(tmp_path, made.transform(PEOPLE))
        made.transform(PEOPLE).to_csv(tmp_path / "second.csv", index=False)
        made.transform(PEOPLE).to_parquet(tmp_path / "third.parquet")
        files = [f, m, tmp_path / "second.csv", tmp_path / "third.parquet"]
        assert tally_files(files, made).n_reports == 3 * len(PEOPLE)
        tally_files([f, m], target=tmp_path / "tally.json")
        assert tally_files([tmp_path / "tally.json", files[-1]]).n_reports == 2 * len(PEOPLE)

    def test_one_wrong_file_is_named_once(self, tmp_path):
        made = encoder()
        overwritten(made.transform(PEOPLE)).to_parquet(tmp_path / "a.parquet")
        made.transform(PEOPLE).to_parquet(tmp_path / "b.parquet")
        with pytest.warns(UnverifiedReportsWarning) as caught:
            tally_files([tmp_path / "a.parquet", tmp_path / "b.parquet"])
        assert len(caught) == 1


class TestEncoderOfSeveralReleases:
    """What it has released is known release by release, so that another table does not hide behind their sum."""

    KINDS = (pd.DataFrame, pl.from_pandas, arrow)

    # Of two values, a sum of some of many releases has any count of either; of ten values, none by chance.
    @pytest.mark.parametrize(("n_values", "n_releases"), [(2, 2), (2, 3), (10, 3), (10, 32)])
    def test_overwritten_and_true_tables(self, n_values, n_releases):
        values = [f"v{place}" for place in range(n_values)]
        people = pd.DataFrame({"x": values * (4_000 // n_values)})
        declared = {"categories": {"x": values}}
        made = RandomizedResponseEncoder(1.0, **declared, random_state=0).fit(people)
        releases = [made.transform(people) for _ in range(n_releases)]
        others = RandomizedResponseEncoder(4.0, **declared, random_state=1).fit_transform(people)
        for table in (
            people,
            releases[0].assign(x=people.x),
            pd.concat([releases[0], releases[0].assign(x=people.x)]),
            pd.concat([releases[0], people]),
            pd.concat([releases[0], others]),
            pd.concat([releases[0], releases[0]]),
        ):
            for kind in self.KINDS:
                with noticed():
                    made.estimate_counts(kind(table))
            with noticed():
                tally(pl.from_pandas(table).lazy(), made)

    @pytest.mark.parametrize("kind", KINDS)
    def test_honest_tables_pass(self, kind):
        made = encoder()
        people = kind(PEOPLE)
        sizes = [len(PEOPLE), 100, 1, 2_000, 2_000]
        releases = [made.transform(people[:size]) for size in sizes]
        nothing_said = [pd.DataFrame(pl.DataFrame(table).to_dict(as_series=False)) for table in releases]
        for table in nothing_said:
            for part in (table, table[: len(table) // 2 + 1], table.sample(frac=1, random_state=0)):
                made.estimate_counts(pl.from_pandas(part))
        for chosen in ([0, 1], [3, 4], [4, 0, 2], range(5)):
            joined = pd.concat([nothing_said[place] for place in chosen])
            made.estimate_counts(pl.from_pandas(joined))
            tally(pl.from_pandas(joined.sample(frac=1, random_state=0)).lazy(), made)
        for table in releases:
            made.estimate_counts(table)

    @pytest.mark.parametrize("n_releases", [31, 32, 33, 80])
    def test_of_many_releases_any_choice_passes(self, n_releases):
        made = encoder()
        releases = [made.transform(PEOPLE[:50]) for _ in range(n_releases)]
        for chosen in (slice(None), slice(0, None, 2), slice(3, 7), slice(-2, None)):
            made.estimate_counts(pl.concat(map(pl.from_pandas, releases[chosen])))
        joined = pl.concat(map(pl.from_pandas, releases))
        with noticed():
            made.estimate_counts(pl.concat([joined, pl.from_pandas(PEOPLE[:1])]))

    @pytest.mark.parametrize("n_releases", range(1, 9))
    def test_only_sums_of_releases_are_explained(self, n_releases):
        """Every subset of a few releases, and beside each a table that differs in one report."""
        made = encoder()
        counts = [np.array([10 + 3**place, 5 + 3**place, 5]) for place in range(n_releases)]
        for one in counts:
            made.released.begin()
            made.released.end(one)
        for size in range(2, n_releases + 1):
            for chosen in combinations(counts, size):
                total = sum(chosen)
                assert made.released.explain(total)
                assert not made.released.explain(total + np.array([0, 1, -1]))
                assert not made.released.explain(total + np.array([1, 1, 0]))


AGAIN = "'sex': the note .* says that these are reports, and they are randomised a second time"


class TestReportsPrivatisedAgain:
    @pytest.mark.parametrize("kind", [pd.DataFrame, arrow])
    def test_by_transform(self, kind):
        made = encoder()
        reports = made.transform(kind(PEOPLE))
        for transformer in (made, encoder(2.0), UnaryEncodingTransformer(1.0, categories=VALUES).fit(PEOPLE)):
            with pytest.warns(UserWarning, match=AGAIN):
                transformer.transform(reports)

    @pytest.mark.parametrize("name", ["pandas", "pyarrow", "dataset"])
    def test_by_an_engine_before_the_charge(self, name, tmp_path):
        ledger = PrivacyLedger(epsilon=10.0)
        reports = encoder().transform(PEOPLE)
        reports.to_parquet(tmp_path / "reports.parquet")
        table = {"pandas": reports, "pyarrow": arrow(reports), "dataset": ds.dataset(tmp_path / "reports.parquet")}[
            name
        ]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(UserWarning, match=AGAIN):
                privatize(table, encoder(ledger=ledger))
        assert len(ledger.report()) == 0

    @pytest.mark.parametrize("ending", ["parquet", "arrow", "csv"])
    def test_of_a_file_before_the_charge(self, ending, tmp_path):
        ledger = PrivacyLedger(epsilon=10.0)
        PEOPLE.to_parquet(tmp_path / "people.parquet")
        reports = privatize_file(tmp_path / "people.parquet", tmp_path / f"reports.{ending}", encoder())
        with pytest.raises(UserWarning, match=AGAIN):
            privatize_file(reports, tmp_path / f"again.{ending}", encoder(ledger=ledger))
        assert len(ledger.report()) == 0
        assert not (tmp_path / f"again.{ending}").exists()
        with pytest.warns(UserWarning, match=AGAIN) as caught:
            privatize_file(reports, tmp_path / f"again.{ending}", encoder())
        (advice,) = [str(warning.message).partition("; ")[2] for warning in caught]
        expected = "remove reports.csv.skdp.json" if ending == "csv" else "`replace_schema_metadata` in pyarrow"
        assert expected in advice
        assert ("attrs" in advice) == (ending != "csv")
        if ending == "csv":  # a file that was written anew is none of reports
            PEOPLE.to_csv(reports, index=False)
            privatize_file(reports, tmp_path / "true.csv", encoder())

    def test_other_columns_of_the_table_are_no_reports(self):
        ages = NumericPerturber(1.0, bounds={"age": (0, 100)})
        both = encoder().transform(PEOPLE).assign(age=30.0)
        assert "skdp.protocol" in both.attrs
        ages.fit_transform(both[["age"]])

    def test_the_columns_of_the_reports_count(self):
        bits = UnaryEncodingTransformer(1.0, categories=VALUES).fit_transform(PEOPLE)
        again = RandomizedResponseEncoder(1.0, categories={name: [0, 1] for name in bits}).fit(bits)
        with pytest.warns(UserWarning, match="'sex_f', 'sex_m': the note"):
            again.transform(bits)

    @pytest.mark.parametrize("note", ["", "{}", "[1]", "no JSON"])
    def test_a_note_that_cannot_be_read_says_nothing(self, note):
        people = PEOPLE.copy()
        people.attrs["skdp.protocol"] = note
        encoder().transform(people)

    def test_nor_do_two_that_contradict(self):
        table = encoder().transform(arrow(PEOPLE))
        other = json.dumps({"skdp.protocol": "{}"})
        metadata = {"skdp.protocol": table.schema.metadata[b"skdp.protocol"], "PANDAS_ATTRS": other}
        table = table.replace_schema_metadata(metadata)
        encoder().transform(table)
        privatize(table, encoder())
