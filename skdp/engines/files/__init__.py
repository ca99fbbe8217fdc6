"""From file to file: privatise, estimate and synthesise."""

from skdp.engines.files._draft import draft_file
from skdp.engines.files._estimate import estimate_file
from skdp.engines.files._formats import TableFile
from skdp.engines.files._privatize import privatize_file
from skdp.engines.files._synthesize import synthesize_file

__all__ = ["TableFile", "draft_file", "estimate_file", "privatize_file", "synthesize_file"]
