"""The folder of a release says how it was made; shards that are missing, changed or of another release are refused."""

import json
import shutil

import fsspec
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from skdp import RandomizedResponseEncoder
from skdp.engines import estimate_file, privatize_files, tally_files
from skdp.engines.files import shards
from skdp.local import LocalHashingEncoder, NumericPerturber

pytestmark = pytest.mark.long  # a release of many files is to be retired

DOMAIN = {"color": ["red", "green", "blue"], "size": [0, 1, 2]}


@pytest.fixture
def sources(tmp_path):
    for number, rows in enumerate((900, 1, 300)):
        table = pa.table(
            {"color": ["red", "red", "blue"] * rows, "size": [0, 1, 1] * rows, "age": [20.5, 30, 40] * rows}
        )
        pq.write_table(table, tmp_path / f"{number}.parquet")
    return sorted(tmp_path.glob("*.parquet"))


@pytest.fixture
def release(sources, tmp_path):
    privatize_files(sources, tmp_path / "out", RandomizedResponseEncoder(3.0, categories=DOMAIN))
    return tmp_path / "out"


@pytest.mark.parametrize("form", ["parquet", "csv", "csv.gz", "arrow", "jsonl", "jsonl.gz"])
@pytest.mark.parametrize("kind", [RandomizedResponseEncoder, LocalHashingEncoder])
def test_a_release_is_estimated_without_options(sources, tmp_path, form, kind):
    made = kind(3.0, categories=DOMAIN)
    privatize_files(sources, tmp_path / "out", made, file_format=form)
    found = estimate_file(tmp_path / "out")
    assert abs(found.loc[("color", "red"), "count"] - 2402) < 6 * found.loc[("color", "red"), "std_error"]
    assert found.equals(estimate_file(tmp_path / "out" / "manifest.json", made))
    manifest = shards.Manifest.from_json((tmp_path / "out" / "manifest.json").read_text())
    assert tally_files(tmp_path / "out").n_reports == sum(shard.rows for shard in manifest.shards) == 3603
    with pytest.raises(ValueError, match="out is given twice"):
        tally_files([tmp_path / "out", f"file://{tmp_path}/out/manifest.json"])
    memory = fsspec.filesystem("memory")
    memory.put(f"{tmp_path}/out/", f"/estimated/{form}/{kind.__name__}/", recursive=True)
    for url in (
        f"memory://estimated/{form}/{kind.__name__}",
        f"memory://estimated/{form}/{kind.__name__}/manifest.json",
    ):
        assert found.equals(estimate_file(url))


def test_means_are_estimated(sources, tmp_path):
    privatize_files(sources, tmp_path / "out", NumericPerturber(8.0, bounds={"age": (0, 60)}), file_format="csv")
    found = estimate_file(tmp_path / "out").loc["age"]
    assert abs(found["mean"] - 30.166) < 6 * found["std_error"]


def test_parts_without_rows_count_nothing(sources, tmp_path):
    pq.write_table(pq.read_table(sources[0]).slice(0, 0), sources[0])
    for form in ("jsonl", "csv", "parquet"):
        privatize_files(sources, tmp_path / form, RandomizedResponseEncoder(3.0, categories=DOMAIN), file_format=form)
        assert tally_files(tmp_path / form).n_reports == 903


def refuse(text, source, *args, kind=ValueError):
    with pytest.raises(kind, match=text):
        estimate_file(source, *args)


def test_another_transformer_is_refused(release):
    for other in (
        RandomizedResponseEncoder(1.0, categories=DOMAIN),
        RandomizedResponseEncoder(3.0, categories=DOMAIN | {"size": [2, 1, 0]}),
        LocalHashingEncoder(3.0, categories=DOMAIN),
    ):
        with pytest.raises(ValueError, match="two protocols are never added"):
            estimate_file(release, other)


def test_a_shard_that_is_missing_changed_or_foreign_is_refused(release, sources, tmp_path):
    other = tmp_path / "other"
    privatize_files(sources[:2], other, RandomizedResponseEncoder(3.0, categories=DOMAIN))
    first, second = release / "part-00000.parquet", release / "part-00001.parquet"
    whole = first.read_bytes()
    second.rename(tmp_path / "kept")
    refuse("1 of its shards are missing, such as part-00001.parquet", release)
    (tmp_path / "kept").rename(second)
    first.write_bytes(whole[:-1])
    refuse("part-00000.parquet is not as in the manifest", release)
    first.write_bytes(whole[:100] + bytes([whole[100] ^ 1]) + whole[101:])
    refuse("part-00000.parquet is not as in the manifest", release)
    shutil.copy(other / "part-00000.parquet", first)
    refuse("part-00000.parquet is not as in the manifest", release)
    first.write_bytes(whole)
    (release / "part-00009.parquet").write_bytes(whole)
    refuse("part-00009.parquet is not in the manifest", release)
    (release / "part-00009.parquet").unlink()
    (release / ".DS_Store").touch()
    assert len(estimate_file(release)) == 6
    manifest = release / "manifest.json"
    content = json.loads(manifest.read_text())
    manifest.write_text(json.dumps(content | {"protocol": None}))
    refuse("does not say the protocol", release)
    text = json.dumps(content)
    manifest.write_text(text.replace('"epsilon": 3.0', '"epsilon": 1.0'))
    refuse("another protocol of the parameters|two protocols|out of range", release)
    weaker = RandomizedResponseEncoder(1.0, categories=DOMAIN).fit(pd.DataFrame({"color": ["red"], "size": [0]}))
    manifest.write_text(json.dumps(content | {"protocol": json.loads(weaker.to_json())}))
    refuse("part-00000.parquet: reports of two protocols", release)
    manifest.write_text("SECRET")
    refuse("no manifest of a release", release)
    manifest.unlink()
    refuse("out has no manifest.json", release, kind=FileNotFoundError)
    refuse("has no manifest.json", tmp_path, kind=FileNotFoundError)
