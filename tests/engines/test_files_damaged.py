"""Arrow files with wrong offsets and codes are refused; Python does not crash."""

import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from skdp.engines.backends.arrow import report_batches

SCRIPT = r"""
import os, random, resource, signal, sys, warnings
from pathlib import Path
import duckdb, pyarrow.csv, pyarrow.dataset, pyarrow.parquet  # once, not in each child
import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
from skdp import DPMarginalSynthesizer, Domain, RandomizedResponseEncoder
from skdp.base import read_frame
from skdp.engines import estimate_file, privatize, privatize_file, synthesize_file
from skdp.local import SecretKey

warnings.simplefilter("ignore")
home, domain = Path(sys.argv[1]), Domain({"a": ["x", "y", "zed", None], "b": ["p", "q"]})
columns = {"a": ["x", "y", "zed", None] * 250, "b": pa.array(["p", "q"] * 500).dictionary_encode()}
columns["id"] = [f"zed {row}" for row in range(1000)]
feather.write_feather(pa.table(columns), home / "whole.arrow", compression="uncompressed", chunksize=300)
content = (home / "whole.arrow").read_bytes()


def damaged(seed):
    rng, data = random.Random(seed), bytearray(content)
    for _ in range(rng.choice([1, 2, 8])):
        place = rng.randrange(len(data) - 8)
        data[place : place + 8] = rng.choice([b"\xff" * 8, bytes(8), (1 << 62).to_bytes(8, "little"), rng.randbytes(8)])
    return bytes(data)


def read(path, task):
    encoder, out = RandomizedResponseEncoder(1.0, categories=domain), path.with_suffix(".parquet")
    if task == "privatize":
        privatize_file(path, out, encoder)
    elif task == "ids":
        encoder.set_params(memoize=True, secret_key=SecretKey(bytes(32)))
        privatize_file(path, out, encoder, record_id="id")
    elif task == "reader":
        try:
            file = pa.ipc.open_file(path)
        except OSError:
            return  # there is nothing to hand over
        batches = (file.get_batch(place) for place in range(file.num_record_batches))
        privatize(pa.RecordBatchReader.from_batches(file.schema, batches), encoder)
    elif task == "persons":
        synthesizer = DPMarginalSynthesizer(5.0, domain=domain, marginals=[("a",)])
        synthesize_file(path, out, synthesizer, person_column="id")
    elif task == "estimate":
        estimate_file(path, encoder)
    elif task == "synthesize":
        synthesize_file(path, out, DPMarginalSynthesizer(5.0, domain=domain, marginals=[("a",)]))
    else:
        read_frame(path)


def try_all(seed):
    "Let every reader meet one damaged file; return the status of the process."
    for task in ("privatize", "ids", "reader", "estimate", "synthesize", "persons", "draft"):
        path = home / f"{seed}{task}.arrow"
        path.write_bytes(damaged(seed))
        try:
            read(path, task)
        except ValueError as error:
            if "zed" in str(error):
                return 2
        except BaseException as error:
            print(task, type(error), error, flush=True)
            return 1
    return 0


for seed in map(int, sys.argv[2:]):
    process = os.fork()
    if process == 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os._exit(try_all(seed))
    status = os.waitpid(process, 0)[1]
    assert status == 0, (seed, sorted(home.glob(f"{seed}*")), status)
print("none crashed")
"""


def test_a_damaged_arrow_file_is_refused(tmp_path, monkeypatch):
    """Unless batches are validated, readers crash at the fifth one and at the sixth, and this process with them."""
    monkeypatch.setattr(sys, "argv", ["", tmp_path])
    exec(SCRIPT.partition("\nfor seed in map(")[0], namespace := {})
    assert [namespace["try_all"](seed) for seed in (4, 5)] == [0, 0]


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="processes are forked")
def test_no_damaged_arrow_file_crashes_python(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, tmp_path, *map(str, range(50))], capture_output=True, text=True, check=False
    )
    assert done.stdout == "none crashed\n", done.stdout + done.stderr


def test_reports_are_read_no_further_ahead_than_a_row_group(tmp_path):
    """Whoever estimates from 28 million rows had most of the file in memory: 2.3 GB."""
    names, rows = [f"c{place}" for place in range(8)], 100_000
    table = pa.table({name: np.random.default_rng(0).integers(0, 2, rows) for name in names})
    with pq.ParquetWriter(tmp_path / "reports.parquet", table.schema) as writer:
        for _ in range(8):
            writer.write_table(table)
    before, most = pa.total_allocated_bytes(), 0
    for _ in report_batches(ds.dataset(tmp_path / "reports.parquet"), names):
        time.sleep(0.02)
        most = max(most, pa.total_allocated_bytes() - before)
    assert most < 3 * table.nbytes
