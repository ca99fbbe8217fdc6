"""Arrow files with wrong offsets and codes are refused; Python does not crash."""

import random
import time

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from skdp import Domain, DPMarginalSynthesizer, RandomizedResponseEncoder
from skdp.base import read_frame
from skdp.engines import estimate_file, privatize, privatize_file, synthesize_file
from skdp.engines.backends.arrow import read_tables
from skdp.local import SecretKey
from tests.conftest import often

DOMAIN = Domain({"a": ["x", "y", "zed", None], "b": ["p", "q"]})


def damaged(content, seed):
    rng, data = random.Random(seed), bytearray(content)
    for _ in range(rng.choice([1, 2, 8])):
        place = rng.randrange(len(data) - 8)
        data[place : place + 8] = rng.choice([b"\xff" * 8, bytes(8), (1 << 62).to_bytes(8, "little"), rng.randbytes(8)])
    return bytes(data)


def encoder(**params):
    return RandomizedResponseEncoder(1.0, categories=DOMAIN, **params)


def synthesizer():
    return DPMarginalSynthesizer(5.0, domain=DOMAIN, marginals=[("a",)])


def read_batches(path, out):
    try:
        file = pa.ipc.open_file(path)
    except OSError:
        return  # there is nothing to hand over
    batches = (file.get_batch(place) for place in range(file.num_record_batches))
    privatize(pa.RecordBatchReader.from_batches(file.schema, batches), encoder())


TASKS = {
    "privatize": lambda path, out: privatize_file(path, out, encoder()),
    "ids": lambda path, out: privatize_file(
        path, out, encoder(memoize=True, secret_key=SecretKey(bytes(32))), record_id="id"
    ),
    "reader": read_batches,
    "estimate": lambda path, out: estimate_file(path, encoder()),
    "synthesize": lambda path, out: synthesize_file(path, out, synthesizer()),
    "persons": lambda path, out: synthesize_file(path, out, synthesizer(), person_column="id"),
    "draft": lambda path, out: read_frame(path),
}


@pytest.mark.parametrize("seed", often(list(range(50)), [4, 5]))
def test_a_damaged_arrow_file_is_refused_or_read(tmp_path, seed):
    """Unless batches are validated, readers crash at the fifth one and at the sixth, and this process with them."""
    columns = {"a": ["x", "y", "zed", None] * 250, "b": pa.array(["p", "q"] * 500).dictionary_encode()}
    columns["id"] = [f"person {row}" for row in range(1000)]
    feather.write_feather(pa.table(columns), tmp_path / "whole.arrow", compression="uncompressed", chunksize=300)
    for name, task in TASKS.items():
        path = tmp_path / f"{name}.arrow"
        path.write_bytes(damaged((tmp_path / "whole.arrow").read_bytes(), seed))
        said = ""
        try:
            task(path, path.with_suffix(".parquet"))
        except ValueError as error:
            said = str(error)
        assert "person " not in said


def test_reports_are_read_no_further_ahead_than_a_row_group(tmp_path):
    """Whoever estimates from 28 million rows had most of the file in memory: 2.3 GB."""
    names, rows = [f"c{place}" for place in range(8)], 100_000
    table = pa.table({name: np.random.default_rng(0).integers(0, 2, rows) for name in names})
    with pq.ParquetWriter(tmp_path / "reports.parquet", table.schema) as writer:
        for _ in range(8):
            writer.write_table(table)
    before, most = pa.total_allocated_bytes(), 0
    for _ in read_tables(ds.dataset(tmp_path / "reports.parquet"), names, coded=True):
        time.sleep(0.02)
        most = max(most, pa.total_allocated_bytes() - before)
    assert most < 3 * table.nbytes
