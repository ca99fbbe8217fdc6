"""Many files in, a folder of shards and a manifest out."""

import gzip
import hashlib
import json

import fsspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

import skdp
from skdp import Domain, PrivacyGuarantee, PrivacyLedger, RandomizedResponseEncoder
from skdp.engines import privatize_files
from skdp.engines.files.shards import Manifest, _privatize
from skdp.engines.files.shards._work import ShardFolder
from skdp.local import NumericPerturber, RapporEncoder, SecretKey
from tests.conftest import often

pytestmark = pytest.mark.long  # a release of many files is to be retired

DOMAIN = Domain({"color": ["red", "green", "blue", "unused", None], "size": [0, 1, 2, 3]})
FORMATS = ["csv", "csv.gz", "jsonl", "jsonl.gz", "parquet", "arrow"]
PART = 4096


def encoder(**params):
    return RandomizedResponseEncoder(**{"epsilon": 1.0, "categories": DOMAIN} | params)


def write(table, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    ending = path.name.partition(".")[2]
    if ending == "parquet":
        pq.write_table(table, path)
    elif ending == "arrow":
        feather.write_feather(table, path)
    else:
        if ending.startswith("csv"):
            text = table.to_pandas().to_csv(index=False)
        else:
            text = "".join(json.dumps(row) + "\n" for row in table.to_pylist())
        path.write_bytes(gzip.compress(text.encode()) if ending.endswith(".gz") else text.encode())
    return path


def read(path):
    ending = path.name.partition(".")[2]
    if ending == "parquet":
        return pq.read_table(path)
    if ending == "arrow":
        return feather.read_table(path)
    content = path.read_bytes()
    text = (gzip.decompress(content) if ending.endswith(".gz") else content).decode()
    if ending.startswith("csv"):
        rows = pd.read_csv(path, dtype={"size": "Int64"})
        return pa.Table.from_pandas(rows, preserve_index=False)
    return pa.Table.from_pylist([json.loads(line) for line in text.splitlines()])


def shards(folder):
    """Read all shards, in the order of the manifest, which must be right."""
    manifest = json.loads((folder / "manifest.json").read_text())
    for shard in manifest["shards"]:
        content = (folder / shard["name"]).read_bytes()
        assert (len(content), hashlib.sha256(content).hexdigest()) == (shard["bytes"], shard["sha256"])
        assert len(read(folder / shard["name"])) == shard["rows"]
    names = [shard["name"] for shard in manifest["shards"]]
    assert sorted(path.name for path in folder.iterdir()) == sorted([*names, "manifest.json"])
    return manifest, [read(folder / name) for name in names]


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch):
    monkeypatch.setattr(_privatize, "batch_rows", lambda width: PART)


@pytest.fixture
def cuts(people):
    """Four tables, one of several batches."""
    return [people.slice(0, 5_000), people.slice(5_000, 300), people.slice(5_300, 1), people.slice(5_301)]


@pytest.fixture
def sources(cuts, tmp_path):
    return [write(cut, tmp_path / "in" / f"{name}.parquet") for cut, name in zip(cuts, "badc", strict=True)]


@pytest.mark.parametrize("before", FORMATS)
@pytest.mark.parametrize("after", often(FORMATS, ["jsonl.gz", "parquet"]))
def test_each_row_has_one_report_in_the_shard_of_its_file(cuts, people, tmp_path, before, after):
    given = [write(cut, tmp_path / f"{number}.{before}") for number, cut in enumerate(cuts)]
    made = encoder()
    out = privatize_files(given, tmp_path / "out", made, keep=["number"], file_format=after, n_jobs=2)
    assert out == str(tmp_path / "out")
    manifest, tables = shards(tmp_path / "out")
    assert [len(table) for table in tables] == [len(cut) for cut in cuts]
    numbers = [int(number) for table in tables for number in table["number"].to_pylist()]
    assert numbers == people["number"].to_pylist()
    reports = pd.concat([table.select(["color", "size"]).to_pandas() for table in tables])
    counts = made.estimate_counts(reports.replace({np.nan: None}).astype({"size": int}))
    true = sum(people["color"].to_pandas() == "red")
    assert abs(counts.loc[("color", "red"), "count"] - true) < 6 * counts.loc[("color", "red"), "std_error"]
    assert manifest["guarantee"]["epsilon"] == made.guarantee_.epsilon
    assert manifest["protocol"] == json.loads(made.to_json())
    assert manifest["kept"] == ["number"]
    assert manifest["skdp"] == skdp.__version__
    assert manifest["rows"] == len(people)
    assert not list(tmp_path.glob("*.unfinished"))


def test_a_list_a_folder_and_a_pattern_have_their_orders(cuts, sources, tmp_path):
    def order(source):
        out = tmp_path / f"out{len(list(tmp_path.iterdir()))}"
        privatize_files(source, out, encoder(), keep=["number"], allow_copies=True)
        return [table["number"][0].as_py() for table in shards(out)[1]]

    first = [cut["number"][0].as_py() for cut in cuts]
    assert order(sources) == first
    by_name = [first[1], first[0], first[3], first[2]]
    assert order(tmp_path / "in") == by_name
    assert order(f"{tmp_path}/in/*.parquet") == by_name
    assert order(f"file://{tmp_path}/in/*.parquet") == by_name
    assert order([tmp_path / "in" / "c.parquet", f"{tmp_path}/in/[ab].parquet"]) == [first[3], *by_name[:2]]
    write(cuts[0], tmp_path / "in" / "deeper" / "e.parquet")
    write(cuts[0], tmp_path / "in" / "_hidden" / "e.parquet")
    write(cuts[0], tmp_path / "in" / ".e.parquet")
    assert order(tmp_path / "in") == [*by_name, first[0]]
    assert order(f"{tmp_path}/in/*.parquet") == by_name
    assert order(f"{tmp_path}/**/*.parquet".replace(str(tmp_path), str(tmp_path / "in"))) == [*by_name, first[0]]


def test_folders_may_be_columns_that_are_kept(cuts, tmp_path):
    home = tmp_path / "in"
    write(cuts[0], home / "year=2025" / "city=S%C3%A8te%2FM" / "x.parquet")
    write(cuts[1], home / "year=2026" / "city=__HIVE_DEFAULT_PARTITION__" / "x.parquet")
    privatize_files(home, tmp_path / "out", encoder(), keep=["year", "city"])
    tables = shards(tmp_path / "out")[1]
    assert tables[0].column_names == ["color", "size", "year", "city"]
    assert set(zip(tables[0]["year"].to_pylist(), tables[0]["city"].to_pylist(), strict=True)) == {("2025", "Sète/M")}
    assert set(zip(tables[1]["year"].to_pylist(), tables[1]["city"].to_pylist(), strict=True)) == {("2026", None)}
    for number, given in enumerate([[home / "year=2025", home / "year=2026"], sorted(home.glob("*/*/*.parquet"))]):
        privatize_files(given, tmp_path / f"alike{number}", encoder(), keep=["year", "city"])
        assert [table["year"][0].as_py() for table in shards(tmp_path / f"alike{number}")[1]] == ["2025", "2026"]
    privatize_files(home / "year=2025" / "city=S%C3%A8te%2FM" / "x.parquet", tmp_path / "single", encoder())
    by_year = RandomizedResponseEncoder(categories={"size": [0, 1, 2, 3], "year": ["2025", "2026"]})
    ledger = PrivacyLedger(epsilon=9)
    for made, keep, text in [
        (by_year, ["city"], "'year' is in the names of the folders.*no report can hide"),
        (encoder(), ["year"], "'city' is in the names of the folders.*name it in keep"),
        (encoder(), [], "'year' is in the names of the folders.*name it in keep"),
    ]:
        with pytest.raises(ValueError, match=text):
            privatize_files(home, tmp_path / "other", made.set_params(ledger=ledger), keep=keep)
    write(cuts[0], home / "year=2027" / "x.parquet")
    with pytest.raises(ValueError, match="part 2 is in folders of other columns"):
        privatize_files(home, tmp_path / "other", encoder(), keep=["year", "city"])
    write(cuts[0].append_column("year", pa.array([1] * len(cuts[0]))), home / "twice" / "year=2027" / "x.parquet")
    with pytest.raises(ValueError, match=r"\['year'\] are in the file, and in the names"):
        privatize_files(home / "twice", tmp_path / "other", encoder(), keep=["year"])
    assert ledger.spent.epsilon == 0
    assert not list(tmp_path.glob("other*"))


def test_nothing_secret_or_of_the_input_is_in_the_release(sources, tmp_path):
    key = SecretKey.generate()
    made = RandomizedResponseEncoder(
        1.0, categories=DOMAIN, memoize=True, secret_key=key, ledger=PrivacyLedger(tmp_path / "ledger", epsilon=9)
    )
    privatize_files(sources, tmp_path / "out", made, record_id="number")
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest.keys() == {
        "format", "version", "skdp", "protocol", "guarantee", "charged", "kept", "rows", "shards"
    }  # fmt: skip
    assert manifest["guarantee"] == manifest["charged"] == made.guarantee_.to_dict()
    for path in (tmp_path / "out").iterdir():
        content = path.read_bytes()
        for secret in (bytes(key), key.hex().encode(), str(tmp_path).encode(), b"a.parquet", b"ledger"):
            assert secret not in content


# Refusals


def refuse(text, source, target, transformer, **options):
    ledger = PrivacyLedger(epsilon=9)
    with pytest.raises((ValueError, TypeError, OSError), match=text) as caught:
        privatize_files(source, target, transformer.set_params(ledger=ledger), **options)
    assert "SECRET" not in str(caught.value)
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None
    assert not list(target.parent.glob(f"{target.name}*"))
    return ledger.spent.epsilon


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("jobs", [1, 3])
def test_a_row_that_is_refused_names_its_column_and_part_and_costs_nothing(cuts, tmp_path, form, jobs):
    bad = cuts[3].to_pandas().astype({"size": int})
    bad.loc[4_500, "color"] = "SECRET"
    given = [write(cut, tmp_path / f"{number}.{form}") for number, cut in enumerate(cuts[:3])]
    given.append(write(pa.Table.from_pandas(bad, preserve_index=False), tmp_path / f"3.{form}"))
    target = tmp_path / "out"
    assert refuse("part 3: column 'color' holds", given, target, encoder(), n_jobs=jobs) == 0
    assert refuse("part 3: column 'color' holds", given, target, encoder(), n_jobs=jobs, check=False) > 0


def test_parts_that_do_not_go_together_are_refused(people, cuts, sources, tmp_path):
    target = tmp_path / "out"
    narrow = write(cuts[1].drop(["size"]), tmp_path / "narrow.parquet")
    assert refuse(r"part 1 lacks the columns \['size'\]", [sources[0], narrow], target, encoder(), keep=["number"]) == 0
    typed = cuts[1].set_column(cuts[1].column_names.index("size"), "size", cuts[1]["size"].cast(pa.int32()))
    typed = write(typed, tmp_path / "typed.parquet")
    assert (
        refuse("part 1: column 'size' is of type int32, and in part 0 of int64", [sources[0], typed], target, encoder())
        == 0
    )
    other = write(cuts[1], tmp_path / "other.csv")
    assert refuse("part 1 is a csv file and part 0 a parquet file", [sources[0], other], target, encoder()) == 0
    assert refuse("names a file twice", [sources[0], tmp_path / "in"], target, encoder()) == 0
    refuse("no file", [sources[0], tmp_path / "none.parquet"], target, encoder())
    refuse("no files", f"{tmp_path}/none/*.parquet", target, encoder())
    refuse("no files", [], target, encoder())
    (tmp_path / "in" / "notes.txt").touch()
    refuse("must end in one of", tmp_path / "in", target, encoder())
    (tmp_path / "in" / "notes.txt").unlink()
    refuse("inside the folder that is read", tmp_path / "in", tmp_path / "in" / "out", encoder())
    refuse("n_jobs must be", sources, target, encoder(), n_jobs=0)
    refuse("file_format must be one of", sources, target, encoder(), file_format="xlsx")
    refuse("staging goes with a URL", sources, target, encoder(), staging=tmp_path)
    refuse("directory that does not exist", sources, tmp_path / "none" / "out", encoder())
    refuse("source must be", [1], target, encoder())
    target.mkdir()
    with pytest.raises(FileExistsError, match="never overwritten"):
        privatize_files(sources, target, encoder())


@pytest.mark.parametrize("check", [True, False])
def test_a_record_reports_once_in_all_files(cuts, tmp_path, check):
    key = SecretKey.generate()
    made = encoder(memoize=True, secret_key=key)
    given = [write(cut, tmp_path / f"{number}.parquet") for number, cut in enumerate(cuts)]
    privatize_files(given, tmp_path / "fine", made, record_id="number", n_jobs=2, check=check)
    twice = write(pa.concat_tables([cuts[1], cuts[0].slice(3, 1)]), tmp_path / "twice.parquet")
    given[1] = twice
    found = refuse("record_id has repeated", given, tmp_path / "out", made, record_id="number", n_jobs=2, check=check)
    assert found == 0


def test_numbers_and_filters_are_released(cuts, tmp_path):
    given = [write(cut, tmp_path / f"{number}.csv") for number, cut in enumerate(cuts)]
    perturber = NumericPerturber(4.0, bounds={"number": (0, 10_000)})
    privatize_files(given, tmp_path / "numbers", perturber, file_format="jsonl")
    manifest, tables = shards(tmp_path / "numbers")
    assert manifest["protocol"]["transformer"] == "NumericPerturber"
    assert sum(map(len, tables)) == sum(map(len, cuts))
    filters = RapporEncoder(1.0, n_bits=8).fit(pd.DataFrame({"color": [""]}))
    with pytest.raises(ValueError, match=r"part [013]: column 'color' holds missing values"):
        privatize_files(given, tmp_path / "filters", filters)
    filters.set_params(handle_missing="value").fit(pd.DataFrame({"color": [""]}))
    privatize_files(given, tmp_path / "filters", filters)
    assert shards(tmp_path / "filters")[0]["protocol"]["transformer"] == "RapporEncoder"


def test_a_seed_is_for_the_same_reports_in_the_same_parts(sources, tmp_path):
    for name, jobs in [("one", 1), ("two", 3)]:
        privatize_files(sources, tmp_path / name, encoder(random_state=0), n_jobs=jobs)
    one, two = (shards(tmp_path / name)[0] for name in ("one", "two"))
    assert one == two
    assert one["guarantee"]["secure"] is False


# Other file systems


def test_from_and_to_a_url(cuts, tmp_path):
    memory = fsspec.filesystem("memory")
    (tmp_path / "staging").mkdir()
    for number, cut in enumerate(cuts):
        with memory.open(f"/people/{number}.parquet", "wb") as file:
            pq.write_table(cut, file)
    options = {"keep": ["number"], "staging": tmp_path / "staging"}
    out = privatize_files("memory://people/*.parquet", "memory://reports/today", encoder(), **options)
    assert out == "memory://reports/today"
    assert not list((tmp_path / "staging").iterdir())
    memory.get("/reports/today/", str(tmp_path / "got/"), recursive=True)
    tables = shards(tmp_path / "got")[1]
    assert [number for table in tables for number in table["number"].to_pylist()] == [
        number for cut in cuts for number in cut["number"].to_pylist()
    ]
    with pytest.raises(FileExistsError, match="not empty"):
        privatize_files("memory://people", "memory://reports/today", encoder(), **options)
    with pytest.raises(ValueError, match="needs staging"):
        privatize_files("memory://people", "memory://reports/tomorrow", encoder())
    with pytest.raises(FileNotFoundError, match="for staging"):
        privatize_files("memory://people", "memory://reports/tomorrow", encoder(), staging=tmp_path / "none")


def test_a_copy_that_is_stopped_is_made_again(sources, tmp_path, monkeypatch):
    (tmp_path / "staging").mkdir()
    ledger = PrivacyLedger(tmp_path / "ledger", epsilon=9)
    options = {"staging": tmp_path / "staging", "n_jobs": 2}
    real, copied = pa.fs.copy_files, []

    def copy(source, *args, **others):
        copied.append(source)
        if len(copied) == 3:
            raise OSError("the network is gone")
        return real(source, *args, **others)

    monkeypatch.setattr(pa.fs, "copy_files", copy)
    url = f"memory://stopped/{tmp_path.name}"
    with pytest.raises(OSError, match="network"):
        privatize_files(sources, url, encoder(ledger=ledger), **options)
    names = [path.rpartition("/")[2] for path in fsspec.filesystem("memory").ls(f"/stopped/{tmp_path.name}", False)]
    assert "manifest.json" not in names
    (unfinished,) = (tmp_path / "staging").glob("*.unfinished")
    assert not (unfinished / "key").exists()
    others = {"list of input files": (sources[:2], 1.0), "transformer": (sources, 0.5)}
    for text, (given, epsilon) in others.items():
        with pytest.raises(ValueError, match=f"another {text}"):
            privatize_files(given, url, encoder(epsilon=epsilon, ledger=ledger), resume=True, **options)
    with pytest.raises(FileNotFoundError, match="nothing to resume"):
        privatize_files(sources, f"{url}/other", encoder(ledger=ledger), resume=True, **options)
    privatize_files(sources, url, encoder(ledger=ledger), resume=True, **options)
    fsspec.filesystem("memory").get(f"/stopped/{tmp_path.name}/", str(tmp_path / "got/"), recursive=True)
    assert len(shards(tmp_path / "got")[1]) == 4
    assert len(ledger.report()) == 1
    assert not list((tmp_path / "staging").iterdir())


# Runs that are stopped


class StoppedBar:
    def __init__(self, batches):
        self.batches = batches

    def __call__(self, total):
        self.total = total
        return self

    def update(self, rows):
        self.batches -= 1
        if self.batches == 0:
            raise KeyboardInterrupt

    def close(self):
        pass


@pytest.mark.parametrize("form", often(["parquet", "csv.gz", "jsonl", "arrow", "csv"], ["parquet", "csv.gz"]))
def test_a_resumed_run_draws_only_what_is_missing_and_the_same(sources, tmp_path, form, monkeypatch):
    ledger = PrivacyLedger(tmp_path / "ledger", epsilon=9)
    out, made = tmp_path / "out", encoder(ledger=ledger)
    options = {"file_format": form, "keep": ["number"]}
    with pytest.raises(KeyboardInterrupt) as caught:
        privatize_files(sources, out, made, progress=StoppedBar(5), **options)
    assert "resume=True goes on" in caught.value.__notes__[0]
    folder = tmp_path / "out.unfinished"
    early = {path.name: path.read_bytes() for path in (folder / "shards").iterdir()}
    done = sorted(path.name.removesuffix(".done") for path in folder.glob("*.done"))
    assert done == [f"part-0000{number}.{form}" for number in range(3)]
    # A part whose end is missing is drawn again, with the same bytes; so is one that is not recorded.
    damaged = folder / "shards" / done[1]
    damaged.write_bytes(early[done[1]][:-20])
    (folder / f"{done[2]}.done").unlink()
    with pytest.raises(ValueError, match="another list of input files"):
        privatize_files(sources[::-1], out, made, resume=True, **options)
    with pytest.raises(ValueError, match="another format of shards"):
        privatize_files(
            sources, out, made, resume=True, **options | {"file_format": "arrow" if form != "arrow" else "csv"}
        )
    written, real = [], ShardFolder.write
    monkeypatch.setattr(
        ShardFolder, "write", lambda self, name, *args: (written.append(name), real(self, name, *args))[1]
    )
    privatize_files(sources, out, made, resume=True, n_jobs=2, **options)
    assert sorted(written) == [f"part-0000{number}.{form}" for number in (1, 2, 3)]
    assert len(shards(out)[1]) == 4
    for name in done:
        assert (out / name).read_bytes() == early[name]
    assert len(ledger.report()) == 1
    assert not folder.exists()


def test_permanent_reports_are_resumed_too(sources, tmp_path):
    key = SecretKey.generate()
    made = encoder(memoize=True, secret_key=key)
    with pytest.raises(KeyboardInterrupt):
        privatize_files(sources, tmp_path / "out", made, progress=StoppedBar(4), record_id="number")
    privatize_files(sources, tmp_path / "out", made, record_id="number", resume=True)
    privatize_files(sources, tmp_path / "other", made, record_id="number")
    assert shards(tmp_path / "out")[1] == shards(tmp_path / "other")[1]


def test_the_bar_sees_all_rows(sources, tmp_path):
    bar = StoppedBar(-1)
    privatize_files(sources, tmp_path / "out", encoder(), progress=bar)
    assert bar.total == sum(pq.read_metadata(path).num_rows for path in sources)
    assert bar.batches == -1 - 6  # one a batch of each part


# The manifest


def test_a_manifest_that_is_none_is_refused():
    guarantee = PrivacyGuarantee(1.0, trust="local").to_dict()
    fine = {
        "format": "skdp-manifest", "version": 1, "skdp": "0", "protocol": None, "guarantee": guarantee, "charged": None,
        "kept": [], "rows": 3,
        "shards": [{"name": "part-00000.csv", "rows": 3, "bytes": 5, "sha256": "0" * 64}],
    }  # fmt: skip
    assert Manifest.from_json(json.dumps(fine)).shards[0].rows == 3
    shard = fine["shards"][0]
    wrong = [
        {"format": "x"}, {"version": 2}, {"shards": []}, {"shards": [shard, shard], "rows": 6}, {"rows": 4},
        {"kept": [1]}, {"protocol": []}, {"guarantee": None}, {"guarantee": {}},
        {"charged": {"epsilon": 1}}, {"shards": "part"}, {"shards": [{}]}, {"shards": None},
        *({"shards": [shard | {"name": name}]} for name in ("../x.csv", "/etc/part-00000.csv", "part-00000.csv/..", 1)),
        *({"shards": [shard | {"rows": rows}], "rows": rows} for rows in (-3, True, 3.0, "3", None)),
        *({"shards": [shard | {"sha256": digest}]} for digest in ("0" * 63, "g" * 64, 0)),
    ]  # fmt: skip
    texts = [json.dumps(fine | change) for change in wrong]
    for text in [*texts, "", "SECRET", "[]", "1", "{}", "[" * 100_000, json.dumps(fine)[:-1]]:
        with pytest.raises(ValueError, match="no manifest of a release") as caught:
            Manifest.from_json(text)
        assert caught.value.__context__ is None
    with pytest.raises(ValueError, match="at most"):
        Manifest.from_json(" " * ((1 << 26) + 1))


def test_polars_and_pyarrow_read_the_shards(sources, tmp_path):
    privatize_files(sources, tmp_path / "out", encoder())
    files = ds.dataset(sorted(map(str, (tmp_path / "out").glob("*.parquet"))))
    assert files.count_rows() == sum(pq.read_metadata(path).num_rows for path in sources)


@pytest.mark.parametrize("link", ["symlink_to", "hardlink_to"])
def test_a_file_that_has_two_names_is_reported_once(sources, tmp_path, link):
    getattr(tmp_path / "in" / "latest.parquet", link)(sources[0])
    assert refuse("names a file twice.* part 4", tmp_path / "in", tmp_path / "out", encoder()) == 0


def test_a_file_that_is_reached_in_two_ways_is_reported_once(sources, tmp_path):
    (tmp_path / "linked").symlink_to(tmp_path / "in")
    for other in ("in/../in/b.parquet", "linked/b.parquet", "linked"):
        assert refuse("names a file twice", [sources[0], tmp_path / other], tmp_path / "out", encoder()) == 0
    memory = fsspec.filesystem("memory")
    memory.put(str(sources[0]), str(sources[0]))
    urls = [f"memory:/{sources[0]}"] * 2
    assert refuse("names a file twice", urls, tmp_path / "out", encoder()) == 0
    memory.put(str(sources[1]), str(sources[0]))  # another file, of the same path
    privatize_files([sources[0], urls[0]], tmp_path / "out", encoder())


def test_a_copy_is_refused_and_so_are_equal_rows_unless_that_is_allowed(sources, tmp_path):
    given = [*sources, write(read(sources[2]), tmp_path / "in" / "copy.parquet")]
    assert refuse("part 4 has the same content as part 2", given, tmp_path / "out", encoder()) == 0
    privatize_files(given, tmp_path / "out", encoder(), allow_copies=True)
    manifest, _ = shards(tmp_path / "out")
    assert [shard["rows"] for shard in manifest["shards"]][2::2] == [1, 1]


def test_files_without_rows_and_folders_of_other_values_are_no_copies(cuts, tmp_path):
    empty = [write(cuts[0].slice(0, 0), tmp_path / f"{name}.csv") for name in "ab"]
    privatize_files(empty, tmp_path / "empty", encoder())
    for year in (2025, 2026):
        write(cuts[2], tmp_path / "in" / f"year={year}" / "a.parquet")
    privatize_files(tmp_path / "in", tmp_path / "out", encoder(), keep=["year"])
