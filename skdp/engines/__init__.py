"""Fitted transformers on tables that do not fit into memory: Dask, Spark, Polars, DuckDB, Arrow and files.

A table is privatized in batches, where the batches are, with the guarantee of `transform`.

Notes
-----
**Which function to use** depends on where the table is:

====================================  ==================================================================================
The table                             Use
====================================  ==================================================================================
fits into memory (ten million rows    `fit` and `transform` of the transformer; nothing here is needed.
of a few columns do)
is a CSV, Parquet or Arrow file       `privatize_file` and `estimate_file`, or ``skdp privatize`` and ``skdp estimate``:
                                      a few batches in memory. A run with a key (``run=``) can be repeated without a
                                      second charge, and draws the same reports. For synthetic rows,
                                      `synthesize_file`, or ``skdp synthesize``.
is in many files, or is a DuckDB      `privatize` with ``path=``, and `tally` on the result: one release, one charge.
relation, a Polars LazyFrame, or a    Many files are opened as one table by ``polars.scan_parquet``, ``duckdb.read_csv``
pyarrow Dataset                       or ``pyarrow.dataset.dataset``, JSON lines too.
is on several machines                `privatize` with ``path=``, and `tally`, on a Dask or Spark DataFrame. A worker
                                      that dies, or a task that is tried again, makes no second report. On one machine
                                      they are slower than the others.
is the input of a fit (synthetic      `fit` of `DPMarginalSynthesizer`, `DPHistogram`, the scalers and so on takes the
rows, statistics)                     same tables: only sums over the declared domain leave the engine.
arrives day by day                    `transform` each day's rows; `tally` of a list of them, or the sum of tallies.
                                      If a person comes again: ``memoize=True`` of the transformer, and ``record_id=``.
====================================  ==================================================================================

**Time and memory.** More rows take more time, not more memory: a million rows of three columns take some seconds
(``benchmarks/engines.py``).
Text files take more time, and so do permanent reports of RAPPOR, which hash each record. Dask draws them on all cores.

**Rows of persons** (``groups=`` of a fit) are limited by DuckDB, and not on Dask and Spark.

**To fit some of the columns**, select them first, since `fit` needs declared values for each column: of a pyarrow
Dataset by ``dataset.replace_schema(pyarrow.schema([dataset.schema.field(name) for name in names]))``, of all other
tables by their own methods. **On Spark**, the workers need skdp and its dependencies; set ``PYSPARK_PYTHON`` if they
run another Python.
"""

from skdp.engines._engine import open_table as open_table
from skdp.engines._files import TableFile as TableFile
from skdp.engines._files import read_frame as read_frame
from skdp.engines._io import check_path as check_path
from skdp.engines._privatize import privatize, privatize_file, tally
from skdp.engines._reports import columns_beside_reports as columns_beside_reports
from skdp.engines._reports import estimate_file, read_protocol
from skdp.engines._reports import tally_files as tally_files
from skdp.engines._synthesize import sample_file as sample_file
from skdp.engines._synthesize import synthesize_file

__all__ = [
    "estimate_file",
    "privatize",
    "privatize_file",
    "read_protocol",
    "synthesize_file",
    "tally",
]
