"""Differential privacy for scikit-learn, in the local and the central model."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

# Static imports for type checkers and editors, which cannot follow `__getattr__`. The
# names are the names of `_MODULES`.
if TYPE_CHECKING:
    from skdp import central as central
    from skdp import datasets as datasets
    from skdp import domain as domain
    from skdp import engines as engines
    from skdp import evaluation as evaluation
    from skdp import local as local
    from skdp import metrics as metrics
    from skdp import oracles as oracles
    from skdp import persistence as persistence
    from skdp import privacy as privacy
    from skdp import randomness as randomness
    from skdp import survey as survey
    from skdp import synthesis as synthesis
    from skdp import testing as testing
    from skdp.central import DPPCA as DPPCA
    from skdp.central import DPAdditiveClassifier as DPAdditiveClassifier
    from skdp.central import DPAdditiveRegressor as DPAdditiveRegressor
    from skdp.central import DPCategoricalNB as DPCategoricalNB
    from skdp.central import DPGaussianNB as DPGaussianNB
    from skdp.central import DPGroupBy as DPGroupBy
    from skdp.central import DPHistogram as DPHistogram
    from skdp.central import DPKBinsDiscretizer as DPKBinsDiscretizer
    from skdp.central import DPLinearRegression as DPLinearRegression
    from skdp.central import DPLogisticRegression as DPLogisticRegression
    from skdp.central import DPMean as DPMean
    from skdp.central import DPMinMaxScaler as DPMinMaxScaler
    from skdp.central import DPOneHotEncoder as DPOneHotEncoder
    from skdp.central import DPQuantileTransformer as DPQuantileTransformer
    from skdp.central import DPRidge as DPRidge
    from skdp.central import DPRobustScaler as DPRobustScaler
    from skdp.central import DPSimpleImputer as DPSimpleImputer
    from skdp.central import DPStandardScaler as DPStandardScaler
    from skdp.central import DPTargetEncoder as DPTargetEncoder
    from skdp.central import discover_domain as discover_domain
    from skdp.domain import Domain as Domain
    from skdp.domain import Interval as Interval
    from skdp.engines import read_protocol as read_protocol
    from skdp.evaluation import plan_epsilon as plan_epsilon
    from skdp.evaluation import plan_rows as plan_rows
    from skdp.local import FrequencyOracleEncoder as FrequencyOracleEncoder
    from skdp.local import HeavyHitters as HeavyHitters
    from skdp.local import LocalHashingEncoder as LocalHashingEncoder
    from skdp.local import LocalTableEncoder as LocalTableEncoder
    from skdp.local import NumericPerturber as NumericPerturber
    from skdp.local import OnFitOnly as OnFitOnly
    from skdp.local import PosteriorFeatures as PosteriorFeatures
    from skdp.local import RandomizedResponseEncoder as RandomizedResponseEncoder
    from skdp.local import RapporEncoder as RapporEncoder
    from skdp.local import ReportTally as ReportTally
    from skdp.local import SecretKey as SecretKey
    from skdp.local import SetValuedEncoder as SetValuedEncoder
    from skdp.local import SubsetSelectionEncoder as SubsetSelectionEncoder
    from skdp.local import UnaryEncodingTransformer as UnaryEncodingTransformer
    from skdp.local import shuffle_reports as shuffle_reports
    from skdp.persistence import load as load
    from skdp.persistence import save as save
    from skdp.privacy import BudgetExceeded as BudgetExceeded
    from skdp.privacy import PrivacyGuarantee as PrivacyGuarantee
    from skdp.privacy import PrivacyLeakWarning as PrivacyLeakWarning
    from skdp.privacy import PrivacyLedger as PrivacyLedger
    from skdp.privacy import WeakGuaranteeWarning as WeakGuaranteeWarning
    from skdp.privacy import privacy_statement as privacy_statement
    from skdp.survey import PerHalf as PerHalf
    from skdp.survey import ReportDesign as ReportDesign
    from skdp.survey import ReportLinearRegression as ReportLinearRegression
    from skdp.survey import ReportLogisticRegression as ReportLogisticRegression
    from skdp.synthesis import DPColumnSynthesizer as DPColumnSynthesizer
    from skdp.synthesis import DPLinkedSynthesizer as DPLinkedSynthesizer
    from skdp.synthesis import DPMarginalSynthesizer as DPMarginalSynthesizer
    from skdp.synthesis import SyntheticResampler as SyntheticResampler
    from skdp.synthesis import synthetic_inference as synthetic_inference

__version__ = "0.5.0"

# Each public name and the package that is imported when the name is first used.
_MODULES = {
    "DPPCA": "skdp.central",
    "BudgetExceeded": "skdp.privacy",
    "DPAdditiveClassifier": "skdp.central",
    "DPAdditiveRegressor": "skdp.central",
    "DPCategoricalNB": "skdp.central",
    "DPColumnSynthesizer": "skdp.synthesis",
    "DPGaussianNB": "skdp.central",
    "DPGroupBy": "skdp.central",
    "DPHistogram": "skdp.central",
    "DPKBinsDiscretizer": "skdp.central",
    "DPLinearRegression": "skdp.central",
    "DPLinkedSynthesizer": "skdp.synthesis",
    "DPLogisticRegression": "skdp.central",
    "DPMarginalSynthesizer": "skdp.synthesis",
    "DPMean": "skdp.central",
    "DPMinMaxScaler": "skdp.central",
    "DPOneHotEncoder": "skdp.central",
    "DPQuantileTransformer": "skdp.central",
    "DPRidge": "skdp.central",
    "DPRobustScaler": "skdp.central",
    "DPSimpleImputer": "skdp.central",
    "DPStandardScaler": "skdp.central",
    "DPTargetEncoder": "skdp.central",
    "Domain": "skdp.domain",
    "FrequencyOracleEncoder": "skdp.local",
    "HeavyHitters": "skdp.local",
    "Interval": "skdp.domain",
    "LocalHashingEncoder": "skdp.local",
    "LocalTableEncoder": "skdp.local",
    "NumericPerturber": "skdp.local",
    "OnFitOnly": "skdp.local",
    "PerHalf": "skdp.survey",
    "PosteriorFeatures": "skdp.local",
    "PrivacyGuarantee": "skdp.privacy",
    "PrivacyLeakWarning": "skdp.privacy",
    "PrivacyLedger": "skdp.privacy",
    "RandomizedResponseEncoder": "skdp.local",
    "RapporEncoder": "skdp.local",
    "ReportDesign": "skdp.survey",
    "ReportLinearRegression": "skdp.survey",
    "ReportLogisticRegression": "skdp.survey",
    "ReportTally": "skdp.local",
    "SecretKey": "skdp.local",
    "SetValuedEncoder": "skdp.local",
    "SubsetSelectionEncoder": "skdp.local",
    "SyntheticResampler": "skdp.synthesis",
    "UnaryEncodingTransformer": "skdp.local",
    "WeakGuaranteeWarning": "skdp.privacy",
    "discover_domain": "skdp.central",
    "load": "skdp.persistence",
    "plan_epsilon": "skdp.evaluation",
    "plan_rows": "skdp.evaluation",
    "privacy_statement": "skdp.privacy",
    "read_protocol": "skdp.engines",
    "save": "skdp.persistence",
    "shuffle_reports": "skdp.local",
    "synthetic_inference": "skdp.synthesis",
}

# Removed names, and the remedies in their errors.
_REMOVED = {
    "DPSelectKBest": "Use a model without a selection, such as DPAdditiveClassifier.",
}

# The public packages, so that ``import skdp`` is enough for ``skdp.local``.
_PACKAGES = (
    "central",
    "datasets",
    "domain",
    "engines",
    "evaluation",
    "local",
    "metrics",
    "oracles",
    "persistence",
    "privacy",
    "randomness",
    "survey",
    "synthesis",
    "testing",
)

__all__ = [*_MODULES]


def __getattr__(name: str) -> Any:
    """Import a public name, or a public package, when it is first used."""
    if name in _PACKAGES:
        return import_module(f"skdp.{name}")
    if name not in _MODULES:
        remedy = f". {_REMOVED[name]}" if name in _REMOVED else ""
        raise AttributeError(
            f"module 'skdp' has no attribute {name!r}{remedy}", name=name
        )
    value = getattr(import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names, imported or not."""
    return sorted({*globals(), *_MODULES, *_PACKAGES})
