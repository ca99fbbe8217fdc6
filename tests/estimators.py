"""Estimators of all packages with their tables, and public checks of scikit-learn that `check_estimator` excludes."""

import numpy as np
import pandas as pd
from sklearn.base import is_classifier, is_regressor

import skdp
from tests.central.estimators import EVERY, make_estimator

NUMBERS = np.linspace(1, 99, 80).reshape(-1, 2)
WORDS = pd.DataFrame({"job": ["clerk", "nurse"] * 20, "sex": ["f", "m", "m", "f"] * 10})
DECLARED = {"job": ["clerk", "nurse", "smith"], "sex": ["f", "m"]}
BOUNDS = (0, 100)
KEY = bytes(range(32))
EVENTS = WORDS.sort_values("sex", ignore_index=True).assign(id=np.arange(len(WORDS)) // 2)
FINDER = skdp.HeavyHitters(4.0, alphabet="ab", max_length=2, random_state=0)

# Parameters that differ from `EVERY`.
SUBJECTS = [
    (skdp.DPMinMaxScaler(bounds=BOUNDS), NUMBERS),
    (skdp.DPMinMaxScaler(bounds=BOUNDS, quantile_range=(10, 90)), NUMBERS),
    (skdp.DPSimpleImputer(bounds=(0.0, 100.0), strategy="median"), NUMBERS),
    (skdp.DPSimpleImputer(strategy="most_frequent", categories=DECLARED), WORDS),
    (skdp.DPGroupBy(5.0, by="sex", keys={"sex": ["f", "m"]}, bounds=BOUNDS), WORDS[["sex"]].assign(age=50.0)),
    (skdp.DPRidge(delta=1e-6, bounds=BOUNDS, target_bounds=(0, 1)), NUMBERS),
    (skdp.DPMarginalSynthesizer(domain=DECLARED), WORDS),
    (skdp.DPLinkedSynthesizer(domain=DECLARED, person="id", max_rows_per_person=2, person_columns=["sex"]), EVENTS),
    (skdp.SyntheticResampler(skdp.DPMarginalSynthesizer(domain=DECLARED)), WORDS),
    (skdp.RandomizedResponseEncoder(categories=DECLARED), WORDS),
    (
        skdp.UnaryEncodingTransformer(categories=DECLARED, memoize=True, secret_key=KEY, instantaneous_epsilon=0.5),
        WORDS,
    ),
    (skdp.UnaryEncodingTransformer(categories=DECLARED), WORDS),
    (skdp.SubsetSelectionEncoder(categories=DECLARED), WORDS),
    (skdp.LocalHashingEncoder(categories=DECLARED), WORDS),
    (skdp.FrequencyOracleEncoder(categories=DECLARED), WORDS),
    (skdp.NumericPerturber(bounds=BOUNDS), NUMBERS),
    (skdp.LocalTableEncoder(categories=DECLARED), WORDS),
    (skdp.SetValuedEncoder(categories={"job": ["a", "b"]}), pd.DataFrame({"job": [["a"], ["a", "b"], []] * 20})),
    (skdp.RapporEncoder(n_bits=8), WORDS),
    (skdp.OnFitOnly(skdp.RandomizedResponseEncoder(categories=DECLARED)), WORDS),
    (skdp.PerHalf(skdp.RandomizedResponseEncoder(categories=DECLARED)), WORDS),
    (skdp.PosteriorFeatures(skdp.RandomizedResponseEncoder(categories=DECLARED)), WORDS),
    (FINDER, FINDER.report(["ab", "a"] * 30)),
]
SUBJECTS += [(make_estimator(name), X) for name, (_, X) in EVERY.items()]

# Public functions of `sklearn.utils.estimator_checks`.
OUTPUT_CHECKS = [
    "check_transformer_get_feature_names_out",
    "check_transformer_get_feature_names_out_pandas",
    "check_set_output_transform_pandas",
    "check_dataframe_column_names_consistency",
    "check_set_output_transform",
    "check_set_output_transform_polars",
    "check_global_output_transform_pandas",
    "check_global_set_output_transform_polars",
]


def fit(estimator, X):
    if is_classifier(estimator) or is_regressor(estimator) or isinstance(estimator, skdp.DPTargetEncoder):
        return estimator.fit(X, np.arange(len(X)) % 2)
    return estimator.fit_resample(X) if hasattr(estimator, "fit_resample") else estimator.fit(X)
