"""A release of many files: a folder of shards, and the manifest that describes them."""

from skdp.engines.files.shards._manifest import Manifest, Shard
from skdp.engines.files.shards._privatize import privatize_files

__all__ = ["Manifest", "Shard", "privatize_files"]
