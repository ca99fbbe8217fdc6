"""Permanent reports: keyed functions of record, column and value."""

from skdp.local.memo._memo import Memo as Memo
from skdp.local.memo._memo import MemoisedReports as MemoisedReports
from skdp.local.memo._memo import PermanentDraws as PermanentDraws
from skdp.local.memo._memo import SecretKey as SecretKey
from skdp.local.memo._memo import are_distinct as are_distinct
from skdp.local.memo._memo import canonical as canonical
from skdp.local.memo._memo import check_key as check_key
from skdp.local.memo._memo import digest_blocks as digest_blocks
from skdp.local.memo._memo import framed as framed
from skdp.local.memo._memo import keyed_coins as keyed_coins
from skdp.local.memo._memo import keyed_digests as keyed_digests
from skdp.local.memo._memo import keyed_integers as keyed_integers
from skdp.local.memo._memo import name_bytes as name_bytes
from skdp.local.memo._memo import read_record_ids as read_record_ids
from skdp.local.memo._memo import to_bytes as to_bytes
