"""From file to file: privatise, estimate and synthesise."""

from skdp.engines.files._privatize import privatize_file as privatize_file
from skdp.engines.files._reports import columns_beside_reports as columns_beside_reports
from skdp.engines.files._reports import estimate_file as estimate_file
from skdp.engines.files._reports import read_protocol as read_protocol
from skdp.engines.files._reports import said_by as said_by
from skdp.engines.files._reports import source_at as source_at
from skdp.engines.files._reports import tally_files as tally_files
from skdp.engines.files._reports import tally_text as tally_text
from skdp.engines.files._reports import transformer_of as transformer_of
from skdp.engines.files._reports import unsaid as unsaid
from skdp.engines.files._source_file import check_delimiter as check_delimiter
from skdp.engines.files._synthesize import sample_file as sample_file
from skdp.engines.files._synthesize import synthesize_file as synthesize_file
from skdp.engines.files._table_file import TableFile as TableFile
