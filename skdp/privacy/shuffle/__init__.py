"""The shuffled model: what reports guarantee together if nobody sees who sent which."""

from skdp.privacy.shuffle._guarantee import Released as Released
from skdp.privacy.shuffle._guarantee import Shuffled, local_epsilon, shuffled_guarantee
from skdp.privacy.shuffle._guarantee import any_pair as any_pair
from skdp.privacy.shuffle._pair import ReportPair as ReportPair

__all__ = ["Shuffled", "local_epsilon", "shuffled_guarantee"]
