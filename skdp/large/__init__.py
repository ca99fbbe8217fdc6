"""Large tables of any library: opened by their engine, read in batches, summed and written.

Internal: import nothing from here outside of skdp.
"""

from skdp.large._engine import ROWS as ROWS
from skdp.large._engine import LargeTable as LargeTable
from skdp.large._engine import StreamTable as StreamTable
from skdp.large._engine import ValueCounts as ValueCounts
from skdp.large._engine import load_large as load_large
from skdp.large._engine import open_engine as open_engine
from skdp.large._engine import open_large as open_large
from skdp.large._engine import write_keys as write_keys
from skdp.large._engine import write_parquet as write_parquet
from skdp.large._io import PROTOCOL_SUFFIX as PROTOCOL_SUFFIX
from skdp.large._io import Extra as Extra
from skdp.large._io import RefusedBatch as RefusedBatch
from skdp.large._io import check_path as check_path
from skdp.large._io import open_output as open_output
from skdp.large._io import run_check as run_check
from skdp.large._io import run_safely as run_safely
from skdp.large._io import show_errors as show_errors
from skdp.large._local import ArrowTable as ArrowTable
