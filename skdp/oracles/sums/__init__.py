"""Sums of reports: how they are counted, and how likely they are."""

from skdp.oracles.sums._counting import check_bits as check_bits
from skdp.oracles.sums._counting import column_sums as column_sums
from skdp.oracles.sums._counting import count_bytes as count_bytes
from skdp.oracles.sums._tails import group_tails as group_tails
from skdp.oracles.sums._tails import lower_tail as lower_tail
from skdp.oracles.sums._tails import mixed_tail as mixed_tail
from skdp.oracles.sums._tails import signed_tail as signed_tail
from skdp.oracles.sums._tails import upper_tail as upper_tail
