"""A release of many files: a folder of shards, and the manifest that describes them."""

from skdp.engines.files.shards._manifest import Manifest, Shard
from skdp.engines.files.shards._privatize import privatize_files
from skdp.engines.files.shards._released import ReleasedFolder

__all__ = ["Manifest", "ReleasedFolder", "Shard", "privatize_files"]
