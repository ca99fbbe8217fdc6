"""Large tables of any library: opened by their engine, read in batches, summed and written.

Internal: import nothing from here outside of skdp.
"""

from skdp.readers._io import PROTOCOL_SUFFIX as PROTOCOL_SUFFIX
from skdp.readers._io import Extra as Extra
from skdp.readers._io import RefusedBatch as RefusedBatch
from skdp.readers._io import check_path as check_path
from skdp.readers._io import import_extra as import_extra
from skdp.readers._io import open_output as open_output
from skdp.readers._io import run_check as run_check
from skdp.readers._io import run_safely as run_safely
from skdp.readers._large_table import BATCH_ROWS as BATCH_ROWS
from skdp.readers._large_table import LargeTable as LargeTable
from skdp.readers._large_table import StreamTable as StreamTable
from skdp.readers._large_table import ValueCounts as ValueCounts
from skdp.readers._large_table import load_large as load_large
from skdp.readers._large_table import open_engine as open_engine
from skdp.readers._large_table import open_large as open_large
from skdp.readers._large_table import write_keys as write_keys
from skdp.readers._large_table import write_parquet as write_parquet
from skdp.readers._local import ArrowTable as ArrowTable
