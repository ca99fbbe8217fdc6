"""From file to file: privatise, estimate and synthesise."""

from skdp.engines._source_file import check_delimiter as check_delimiter
from skdp.engines.files._draft import draft_file as draft_file
from skdp.engines.files._estimate import estimate_file as estimate_file
from skdp.engines.files._formats import FORMATS as FORMATS
from skdp.engines.files._formats import TableFile as TableFile
from skdp.engines.files._privatize import privatize_file as privatize_file
from skdp.engines.files._read_protocol import (
    columns_beside_reports as columns_beside_reports,
)
from skdp.engines.files._read_protocol import read_protocol as read_protocol
from skdp.engines.files._sums import said_by as said_by
from skdp.engines.files._sums import source_at as source_at
from skdp.engines.files._sums import tally_text as tally_text
from skdp.engines.files._sums import transformer_of as transformer_of
from skdp.engines.files._sums import unsaid as unsaid
from skdp.engines.files._synthesize import sample_file as sample_file
from skdp.engines.files._synthesize import synthesize_file as synthesize_file
from skdp.engines.files._tally import tally_files as tally_files
