"""Tables in files of each format, what stops a run on its way, and all that an error says."""

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq

from skdp import Domain

DOMAIN = Domain({"color": ["red", "green", "blue", "unused", None], "size": [0, 1, 2, 3]})
FORMATS = ["csv", "parquet", "arrow"]


def write(table, path, rows=1_700):
    """Write an Arrow or pandas table, with so many rows in each part of Parquet and Arrow files."""
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


class StoppedBar:
    """Stops the run after so many parts."""

    def __init__(self, parts=1):
        self.parts = parts

    def __call__(self, total):
        return self

    def update(self, rows):
        self.parts -= 1
        if self.parts == 0:
            raise KeyboardInterrupt

    def close(self):
        pass


def everything_said(error):
    """Give the text of an error, and of all that led to it, whether it is shown or not."""
    waiting, seen = [error], []
    while waiting:
        error = waiting.pop()
        if error is not None and not any(error is other for other in seen):
            seen.append(error)
            waiting += [error.__cause__, error.__context__]
    return " ".join(f"{error} {error!r} {error.args} {vars(error)}" for error in seen)
