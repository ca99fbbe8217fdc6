"""Permanent reports: keyed functions of record, column and value."""

from skdp.local.memo._keys import (
    SecretKey,
    are_distinct,
    canonical,
    check_key,
    digest_blocks,
    framed,
    keyed_coins,
    keyed_digests,
    keyed_integers,
    read_record_ids,
    to_bytes,
    written_name,
)
from skdp.local.memo._memo import Memo, MemoisedReports, NumericMemo

__all__ = [
    "Memo",
    "MemoisedReports",
    "NumericMemo",
    "SecretKey",
    "are_distinct",
    "canonical",
    "check_key",
    "digest_blocks",
    "framed",
    "keyed_coins",
    "keyed_digests",
    "keyed_integers",
    "read_record_ids",
    "to_bytes",
    "written_name",
]
