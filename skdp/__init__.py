"""Differential privacy as an ordinary part of scikit-learn work."""

from skdp.domain import Domain, Interval
from skdp.local import RandomizedResponseEncoder, ReportTally
from skdp.privacy import BudgetExceeded, PrivacyGuarantee, PrivacyLeakWarning, PrivacyLedger

__version__ = "0.1.0"

__all__ = [
    "BudgetExceeded",
    "Domain",
    "Interval",
    "PrivacyGuarantee",
    "PrivacyLeakWarning",
    "PrivacyLedger",
    "RandomizedResponseEncoder",
    "ReportTally",
]
