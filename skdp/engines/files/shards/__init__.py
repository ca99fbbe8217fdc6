"""A release of many files: a folder of shards, and the manifest that describes them."""

from skdp.engines.files.shards._manifest import Manifest
from skdp.engines.files.shards._parts import names_of_files
from skdp.engines.files.shards._privatize import FILE_FORMATS, privatize_files
from skdp.engines.files.shards._released import ReleasedFolder

__all__ = ["FILE_FORMATS", "Manifest", "ReleasedFolder", "names_of_files", "privatize_files"]
