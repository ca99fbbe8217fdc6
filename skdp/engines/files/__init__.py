"""From file to file: privatise, estimate and synthesise."""

from skdp.engines.files._draft import draft_file
from skdp.engines.files._estimate import estimate_file
from skdp.engines.files._formats import TableFile
from skdp.engines.files._privatize import privatize_file
from skdp.engines.files._sums import said_by, source_at, tally_text, transformer_of
from skdp.engines.files._synthesize import sample_file, synthesize_file
from skdp.engines.files._tally import tally_files
from skdp.engines.files.shards import FILE_FORMATS, names_of_files, privatize_files

__all__ = [
    "FILE_FORMATS",
    "TableFile",
    "draft_file",
    "estimate_file",
    "names_of_files",
    "privatize_file",
    "privatize_files",
    "said_by",
    "sample_file",
    "source_at",
    "synthesize_file",
    "tally_files",
    "tally_text",
    "transformer_of",
]
