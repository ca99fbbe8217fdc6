"""Files of a pyarrow Dataset are read whole and once, however they are cut."""

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from skdp.engines.backends import arrow as _large_arrow
from skdp.tables import open_large


class Kept:
    """Keeps the rows that it shall add up."""

    def __init__(self):
        self.batches = []

    def zeros(self):
        return [np.zeros(1, np.int64)]

    def add(self, sums, batch):
        self.batches.append(batch)
        sums[0] += len(batch)


def read(table, names, most=300):
    kept = Kept()
    (total,) = table.add_up(names, kept)
    assert int(total[0]) == sum(map(len, kept.batches))
    assert all(batch.column_names == names for batch in kept.batches)
    assert max(map(len, kept.batches), default=0) <= most
    return {name: [value for batch in kept.batches for value in batch[name].to_pylist()] for name in names}


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch):
    monkeypatch.setattr(_large_arrow, "ROWS", 300)


@pytest.fixture
def rows():
    return pa.table(
        {
            "a": range(1_000),
            "a.b": [f"t{row % 7}" if row % 5 else None for row in range(1_000)],
            "coded": pa.array([f"c{row % 3}" for row in range(1_000)]).dictionary_encode(),
            "large": pa.array([f"l{row % 3}" for row in range(1_000)], pa.large_string()),
        }
    )


@pytest.mark.parametrize("names", [["a"], ["a.b", "a"], ["large", "coded", "a.b"]], ids="-".join)
@pytest.mark.parametrize("group", [1, 170, 1_000])
def test_parquet_files(rows, tmp_path, names, group):
    pq.write_table(rows.slice(0, 400), tmp_path / "1.parquet", row_group_size=group)
    pq.write_table(rows.slice(0, 0), tmp_path / "2.parquet")
    pq.write_table(rows.slice(400), tmp_path / "3.parquet", row_group_size=group)
    assert read(open_large(ds.dataset(tmp_path)), names) == rows.select(names).to_pydict()


def test_what_is_no_plain_file(rows, tmp_path):
    """A filter, columns in the names of folders, and tables in memory."""
    pq.write_table(rows, tmp_path / "1.parquet")
    filtered = ds.dataset(tmp_path).filter(ds.field("a") >= 990)
    assert read(open_large(filtered), ["a"])["a"] == list(range(990, 1_000))
    ds.write_dataset(rows, tmp_path / "parts", format="parquet", partitioning=["coded"], partitioning_flavor="hive")
    parts = ds.dataset(tmp_path / "parts", partitioning="hive")
    assert sorted(read(open_large(parts), ["coded"], 1_000)["coded"]) == sorted(rows["coded"].to_pylist())
    memory = ds.dataset(pa.Table.from_batches(rows.to_batches(max_chunksize=300)))
    assert read(open_large(memory), ["a.b"]) == rows.select(["a.b"]).to_pydict()


@pytest.mark.parametrize("compression", ["lz4", "uncompressed"])
@pytest.mark.parametrize("chunk", [250, 1_000])
@pytest.mark.parametrize("names", [["a"], ["large", "a.b", "coded"]], ids="-".join)
def test_an_arrow_file(rows, tmp_path, names, compression, chunk):
    path = tmp_path / "in.arrow"
    feather.write_feather(rows, path, chunksize=chunk, compression=compression)
    table = open_large(ds.dataset(path, format="ipc"))
    assert read(table, names) == read(table, names) == rows.select(names).to_pydict()
