"""Differential privacy as an ordinary part of scikit-learn work."""

from skdp.domain import Domain, Interval
from skdp.local import (
    FrequencyOracleEncoder,
    HadamardResponseEncoder,
    HeavyHitters,
    LocalHashingEncoder,
    NumericPerturber,
    OnFitOnly,
    RandomizedResponseEncoder,
    RapporEncoder,
    ReportTally,
    SecretKey,
    SubsetSelectionEncoder,
    UnaryEncodingTransformer,
    recommend_strategy,
)
from skdp.privacy import BudgetExceeded, PrivacyGuarantee, PrivacyLeakWarning, PrivacyLedger

__version__ = "0.1.0"

__all__ = [
    "BudgetExceeded",
    "Domain",
    "FrequencyOracleEncoder",
    "HadamardResponseEncoder",
    "HeavyHitters",
    "Interval",
    "LocalHashingEncoder",
    "NumericPerturber",
    "OnFitOnly",
    "PrivacyGuarantee",
    "PrivacyLeakWarning",
    "PrivacyLedger",
    "RandomizedResponseEncoder",
    "RapporEncoder",
    "ReportTally",
    "SecretKey",
    "SubsetSelectionEncoder",
    "UnaryEncodingTransformer",
    "recommend_strategy",
]
