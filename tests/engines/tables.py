"""Tables in files of each format, interruptions of a run, and the complete text of an error."""

from datetime import date

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq

from skdp import Domain, DPMarginalSynthesizer, Interval, RandomizedResponseEncoder
from skdp.engines import FileTable, TableFile

DOMAIN = Domain({"color": ["red", "green", "blue", "unused", None], "size": [0, 1, 2, 3]})
FORMATS = ["csv", "parquet", "arrow"]


def encoder(**params):
    """Make an encoder of colors and sizes."""
    return RandomizedResponseEncoder(**{"epsilon": 1.0, "categories": DOMAIN, "random_state": 0} | params)


SURVEY = Domain(
    {
        "color": ["red", "green", "unused", None],
        "age": Interval(0, 100, bins=5),
        "weight": Interval(edges=[0.0, 0.3, 0.7, 1.0], missing=True),
        "born": Interval(date(2000, 1, 1), date(2004, 1, 1), bins=4),
        "member": [True, False],
        "number": [0, 1, 2],
    }
)


def make_synthesizer(**params):
    """Make a synthesizer of the survey."""
    options = {"epsilon": 50.0, "delta": 1e-9, "domain": SURVEY, "random_state": 0}
    return DPMarginalSynthesizer(**options | params)


def survey(n_rows=3_000):
    """Make rows of the survey."""
    rng = np.random.default_rng(0)
    age = rng.integers(0, 101, n_rows)
    weight = rng.integers(0, 11, n_rows) / 10
    return pa.table(
        {
            "color": pa.array(np.where(age > 50, "red", "green"), mask=rng.random(n_rows) < 0.1),
            "age": pa.array(age),
            "weight": pa.array(weight, mask=rng.random(n_rows) < 0.1),
            "born": pa.array((np.datetime64("2000-01-01") + age * 14).astype("datetime64[us]")),
            "member": pa.array(weight > 0.5),
            "number": pa.array(age % 3, pa.uint8()),
        }
    )


def read_declared(path, domain):
    """Read a file as commands of the curator do, with the types of a domain."""
    file = TableFile(path)
    return pa.concat_tables(FileTable(file, file.names, domain).read(file.names)).to_pandas()


def write(table, path, rows=170):
    """Write an Arrow or pandas table, with `rows` rows in each part of Parquet and Arrow files."""
    table = pa.Table.from_pandas(table, preserve_index=False) if isinstance(table, pd.DataFrame) else table
    if path.suffix == ".csv":
        table.to_pandas(date_as_object=True).to_csv(path, index=False)
    elif path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=rows)
    else:
        feather.write_feather(table, path, chunksize=rows, compression="lz4")
    return path


def read(path):
    """Read an Arrow table."""
    if path.suffix == ".csv":
        return pl.read_csv(path).to_arrow()
    return pq.read_table(path) if path.suffix == ".parquet" else feather.read_table(path)
