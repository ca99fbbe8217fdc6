"""Differential privacy as an ordinary part of scikit-learn work."""

from skdp.central import (
    DPHistogram,
    DPKBinsDiscretizer,
    DPLogisticRegression,
    DPMean,
    DPMinMaxScaler,
    DPQuantileBinarizer,
    DPSimpleImputer,
    DPStandardScaler,
    DPTargetEncoder,
)
from skdp.domain import Domain, Interval
from skdp.engines import _registry as _registry  # so that `fit` takes tables that do not fit into memory
from skdp.evaluation import plan_epsilon, privacy_cost
from skdp.local import (
    FrequencyOracleEncoder,
    HadamardResponseEncoder,
    HeavyHitters,
    KeyValueEncoder,
    LocalHashingEncoder,
    LocalTableEncoder,
    NumericPerturber,
    OnFitOnly,
    PerPerson,
    PosteriorFeatures,
    RandomizedResponseEncoder,
    RapporEncoder,
    RapporTally,
    ReportTally,
    SecretKey,
    SetValuedEncoder,
    SubsetSelectionEncoder,
    UnaryEncodingTransformer,
    recommend_plan,
    recommend_strategy,
)
from skdp.persistence import load, save
from skdp.privacy import BudgetExceeded, PrivacyGuarantee, PrivacyLeakWarning, PrivacyLedger, privacy_statement
from skdp.synthesis import DPMarginalSynthesizer, ReportSynthesizer, SyntheticResampler

__version__ = "0.1.0"

__all__ = [
    "BudgetExceeded",
    "DPHistogram",
    "DPKBinsDiscretizer",
    "DPLogisticRegression",
    "DPMarginalSynthesizer",
    "DPMean",
    "DPMinMaxScaler",
    "DPQuantileBinarizer",
    "DPSimpleImputer",
    "DPStandardScaler",
    "DPTargetEncoder",
    "Domain",
    "FrequencyOracleEncoder",
    "HadamardResponseEncoder",
    "HeavyHitters",
    "Interval",
    "KeyValueEncoder",
    "LocalHashingEncoder",
    "LocalTableEncoder",
    "NumericPerturber",
    "OnFitOnly",
    "PerPerson",
    "PosteriorFeatures",
    "PrivacyGuarantee",
    "PrivacyLeakWarning",
    "PrivacyLedger",
    "RandomizedResponseEncoder",
    "RapporEncoder",
    "RapporTally",
    "ReportSynthesizer",
    "ReportTally",
    "SecretKey",
    "SetValuedEncoder",
    "SubsetSelectionEncoder",
    "SyntheticResampler",
    "UnaryEncodingTransformer",
    "load",
    "plan_epsilon",
    "privacy_cost",
    "privacy_statement",
    "recommend_plan",
    "recommend_strategy",
    "save",
]
