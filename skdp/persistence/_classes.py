"""Which classes may be in a file, by name: nothing is imported by a name that a file gives."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from importlib import import_module
from typing import Any


@dataclass(frozen=True)
class SavedClass:
    """A class whose instances may be saved."""

    # How files name it.
    name: str
    # Where it is imported from.
    module: str
    # What `fit` sets besides names that end in an underscore.
    attributes: frozenset[str] = frozenset()
    # Parameters that must be None.
    fixed: tuple[str, ...] = ()

    def find(self) -> type[Any]:
        """Return the class, which is imported if need be."""
        imported: type[Any] = getattr(import_module(self.module), self._own_name)
        return imported

    def is_that_of(self, kind: type[Any]) -> bool:
        """Whether it is this class, without importing it: an instance of it has done so."""
        module = sys.modules.get(self.module)
        return getattr(module, self._own_name, None) is kind

    @property
    def _own_name(self) -> str:
        return self.name.rpartition(".")[2]

    def holds(self, kind: type[Any], attribute: str) -> bool:
        """Whether files may hold an attribute."""
        if attribute in self.attributes:
            return True
        has_underscore = attribute.endswith("_") and not attribute.endswith("__")
        is_public = attribute.isidentifier() and not attribute.startswith("_")
        return has_underscore and is_public and not hasattr(kind, attribute)


# The estimators of skdp, with the private attributes of each.
_OURS = {
    "DPAdditiveClassifier": "",
    "DPAdditiveRegressor": "",
    "DPColumnSynthesizer": "",
    "DPCategoricalNB": "",
    "DPGaussianNB": "",
    "DPGroupBy": "_library",
    "DPHistogram": "_library",
    "DPKBinsDiscretizer": "",
    "DPLinearRegression": "",
    "DPLogisticRegression": "",
    "DPMarginalSynthesizer": "",
    "DPMean": "",
    "DPMinMaxScaler": "",
    "DPOneHotEncoder": "",
    "DPPCA": "",
    "DPQuantileTransformer": "",
    "DPRidge": "",
    "DPRobustScaler": "",
    "DPSelectKBest": "_names",
    "DPSimpleImputer": "",
    "DPStandardScaler": "",
    "DPTargetEncoder": "",
    "FrequencyOracleEncoder": "",
    "HeavyHitters": "",
    "LocalHashingEncoder": "",
    "LocalTableEncoder": "",
    "NumericPerturber": "",
    "OnFitOnly": "",
    "PerHalf": "",
    "PosteriorFeatures": "_privatize",
    "RandomizedResponseEncoder": "",
    "RapporEncoder": "",
    "ReportLinearRegression": "",
    "ReportLogisticRegression": "",
    "SetValuedEncoder": "",
    "SubsetSelectionEncoder": "",
    "SyntheticResampler": "",
    "UnaryEncodingTransformer": "",
}
# What is no estimator, with the module that it is imported from.
_BY_ARGUMENTS = {"ReportDesign": "skdp.survey"}

_INFREQUENT = "_infrequent_enabled _infrequent_indices _default_to_infrequent_mappings"

# Of scikit-learn, what has a fitted state of plain arrays. Left out: trees, forests and
# boosting, whose compiled code uses numbers of the file as addresses; neighbours and
# kernel machines, which keep rows of the training data; and all that holds functions.
_OF_OTHERS = {
    "sklearn.compose": {
        "ColumnTransformer": "_columns _transformer_to_input_indices _remainder "
        "_name_to_fitted_passthrough _n_features"
    },
    "sklearn.decomposition": {"PCA": "_fit_svd_solver", "TruncatedSVD": ""},
    "sklearn.dummy": {"DummyClassifier": "_strategy", "DummyRegressor": ""},
    "sklearn.feature_selection": {"VarianceThreshold": ""},
    "sklearn.frozen": {"FrozenEstimator": ""},
    "sklearn.impute": {
        "MissingIndicator": "_precomputed _n_features",
        "SimpleImputer": "_fit_dtype _fill_dtype",
    },
    "sklearn.linear_model": {
        "ElasticNet": "",
        "Lasso": "l1_ratio",
        "LinearRegression": "",
        "LogisticRegression": "",
        "LogisticRegressionCV": "",
        "Ridge": "",
        "RidgeClassifier": "_label_binarizer",
    },
    "sklearn.naive_bayes": {
        "BernoulliNB": "",
        "CategoricalNB": "",
        "ComplementNB": "",
        "GaussianNB": "",
        "MultinomialNB": "",
    },
    "sklearn.pipeline": {"FeatureUnion": "", "Pipeline": ""},
    "sklearn.preprocessing": {
        "Binarizer": "",
        "FunctionTransformer": "",
        "KBinsDiscretizer": "_encoder",
        "LabelBinarizer": "",
        "LabelEncoder": "",
        "MaxAbsScaler": "",
        "MinMaxScaler": "",
        "Normalizer": "",
        "OneHotEncoder": f"{_INFREQUENT} _drop_idx_after_grouping _n_features_outs",
        "OrdinalEncoder": f"{_INFREQUENT} _missing_indices",
        "PolynomialFeatures": "_min_degree _max_degree _n_out_full",
        "PowerTransformer": "_scaler",
        "QuantileTransformer": "",
        "RobustScaler": "",
        "StandardScaler": "",
    },
    "sklearn.svm": {"LinearSVC": "", "LinearSVR": ""},
    "imblearn.pipeline": {"Pipeline": ""},
}


def _known_classes() -> dict[str, SavedClass]:
    classes = {}
    for module, attributes_of in {"skdp": _OURS, **_OF_OTHERS}.items():
        for own_name, attributes in attributes_of.items():
            name = f"{module}.{own_name}"
            # joblib would read pickles from the folder that `memory` names.
            fixed = ("memory",) if own_name == "Pipeline" else ()
            private = frozenset(attributes.split())
            classes[name] = SavedClass(name, module, private, fixed)
    return classes


_CLASSES = _known_classes()


def by_name(name: Any) -> SavedClass:
    """Find the class that a file names."""
    if not isinstance(name, str) or name not in _CLASSES:
        raise ValueError(
            f"the file holds {str(name)[:100]!r}, which is no class that skdp.load knows"
        )
    return _CLASSES[name]


def by_class(kind: type[Any]) -> SavedClass | None:
    """Find an exact class, None if it cannot be saved."""
    for saved in _CLASSES.values():
        if saved.is_that_of(kind):
            return saved
    return None


def class_of_arguments(value: Any) -> str:
    """Return the name of the class of what is saved by its arguments."""
    kind = type(value)
    module = sys.modules.get(_BY_ARGUMENTS.get(kind.__name__, ""))
    if getattr(module, kind.__name__, None) is not kind:
        raise TypeError(f"a {kind.__name__} cannot be saved")
    return kind.__name__


def made_of_arguments(name: Any, arguments: Any) -> Any:
    """Make an object of a known class."""
    if not isinstance(name, str) or name not in _BY_ARGUMENTS:
        raise ValueError(f"no class {str(name)[:50]!r} is made of arguments")
    return getattr(import_module(_BY_ARGUMENTS[name]), name)(**arguments)
