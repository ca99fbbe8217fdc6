"""Stating and accounting for privacy guarantees."""

from skdp.privacy._guarantee import PrivacyGuarantee
from skdp.privacy._ledger import BudgetExceeded, PrivacyLedger
from skdp.privacy._parameters import PrivacyLeakWarning, check_delta, check_epsilon

__all__ = [
    "BudgetExceeded",
    "PrivacyGuarantee",
    "PrivacyLeakWarning",
    "PrivacyLedger",
    "check_delta",
    "check_epsilon",
]
