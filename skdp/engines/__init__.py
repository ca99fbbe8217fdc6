"""Privatization of tables that do not fit into memory: Dask, Spark, Polars, DuckDB, Arrow and files.

A table is privatized in batches, with the guarantee of `transform`.

Notes
-----
**Which function to use** depends on where the table is:

====================================  ==================================================================================
Table                                 Function
====================================  ==================================================================================
in memory (for example ten million    `fit` and `transform` of the transformer, without this module.
rows of a few columns)
CSV, Parquet or Arrow file            `privatize_file` and `estimate_file`, or ``skdp privatize`` and ``skdp estimate``,
                                      with a few batches in memory. For synthetic rows, use `synthesize_file`, or
                                      ``skdp synthesize``. A folder or a pattern of files (``"part-*.csv"``) is one
                                      table.
DuckDB relation, Polars LazyFrame or  `privatize` with ``path=``, and `tally` on the result: one release, one charge.
pyarrow Dataset
table of a database (Ibis)            `privatize` and `tally` as above.
table on several machines             `privatize` with ``path=``, and `tally`, on a Dask or Spark DataFrame. If a worker
                                      dies or a task is repeated, the same reports are drawn. On one machine, the other
                                      engines are faster.
table to fit (synthetic rows,         `fit` of `DPMarginalSynthesizer`, `DPHistogram`, the scalers and so on. Only sums
statistics)                           over the declared domain are loaded into Python.
new rows every day                    `transform` of the rows of each day, then `tally` of a list of the reports, or the
                                      sum of tallies. If people occur on several days, use ``memoize=True`` of the
                                      transformer, and ``person=``.
====================================  ==================================================================================

**Time and memory.** The memory does not depend on the number of rows. A million rows of three columns take some seconds
(``benchmarks/engines.py``). Text files take more time, and so do permanent reports of RAPPOR, which hash each record.
Dask draws them on all cores.

**Rows of people** (``person=`` of a fit) are limited by DuckDB, and not on Dask and Spark.

**Selection of columns.** `fit` requires declared values for each column, so select the columns first. For a pyarrow
Dataset, use ``dataset.replace_schema(pyarrow.schema([dataset.schema.field(name) for name in names]))``. **On Spark**,
skdp and its dependencies must be installed on the workers; set ``PYSPARK_PYTHON`` if they run another Python.
"""

from skdp.engines._csv import format_csv as format_csv
from skdp.engines._draft import draft_domain_toml as draft_domain_toml
from skdp.engines._files import FileTable as FileTable
from skdp.engines._files import TableFile as TableFile
from skdp.engines._files import is_csv as is_csv
from skdp.engines._privatize import privatize, privatize_file
from skdp.engines._reports import estimate_file, read_protocol, tally
from skdp.engines._reports import find_protocol as find_protocol
from skdp.engines._reports import list_unprotected_columns as list_unprotected_columns
from skdp.engines._reports import tally_files as tally_files
from skdp.engines._synthesize import sample_file as sample_file
from skdp.engines._synthesize import synthesize_file
from skdp.engines._synthesize import synthesize_linked_files as synthesize_linked_files

__all__ = [
    "estimate_file",
    "privatize",
    "privatize_file",
    "read_protocol",
    "synthesize_file",
    "tally",
]
