"""The same fitted transformers on tables that do not fit into memory: Dask, Spark, Polars, DuckDB and Arrow.

A table is privatised batch by batch, wherever its batches are, and what is released is what `transform` would release.
"""

from skdp.engines._privatize import privatize
from skdp.engines._tally import tally, tally_batches

__all__ = ["privatize", "tally", "tally_batches"]
