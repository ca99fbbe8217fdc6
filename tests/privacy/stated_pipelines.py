"""Pipelines of scikit-learn and skdp, and the largest loss of all their outputs, replayed on neighbors."""

import math
import unittest.mock
import warnings
from fractions import Fraction
from functools import cache

import numpy as np
import pandas as pd
from imblearn.pipeline import make_pipeline as make_resampling_pipeline
from sklearn.base import BaseEstimator, clone, is_classifier, is_regressor
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.ensemble import BaggingRegressor, VotingClassifier
from sklearn.experimental import enable_halving_search_cv, enable_iterative_imputer  # noqa: F401
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, StandardScaler, TargetEncoder
from sklearn.utils import Bunch

import skdp
from skdp.local import ReportProtocol
from skdp.testing import replay_release

NUMBERS = ["age", "hours"]
TABLE = pd.DataFrame(
    {
        "age": [0.0, 100, 100, 37, 50, 0, 100, 80, 20, 60, 10, 100],
        "hours": [100.0, 0, 100, 70, 50, 0, 73, 10, 90, 40, 30, 100],
        "sex": ["f", "m"] * 6,
        "job": ["clerk", "nurse", "nurse"] * 4,
        "sick": [0, 1, 1, 0] * 3,
    }
)
# Another last row: other corners of the domain.
ROWS = [(0.0, 0.0, "f", "clerk", 1), (0.0, 100.0, "f", "clerk", 1), (100.0, 0.0, "f", "clerk", 0)]
SEXES, JOBS = ["f", "m"], ["clerk", "nurse"]
BOUNDS = (0, 100)


def classifier(**options):
    return skdp.DPLogisticRegression(3.0, **{"classes": [0, 1], "bounds": BOUNDS} | options)


def regressor(**options):
    return skdp.DPLinearRegression(3.0, **{"bounds": BOUNDS, "target_bounds": (0, 1)} | options)


def sex(**options):
    return skdp.RandomizedResponseEncoder(1.0, **{"categories": {"sex": SEXES}} | options)


def scaler(**options):
    return skdp.DPStandardScaler(1.0, **{"bounds": BOUNDS} | options)


def words():
    return OneHotEncoder(categories=[SEXES, JOBS], sparse_output=False)


def reports(*steps):
    """Return a pipeline that reports sex before other steps."""
    return make_pipeline(sex(), OneHotEncoder(sparse_output=False), *steps)


def synthesizer(**options):
    domain = {"sex": SEXES, "job": JOBS, "sick": [0, 1]}
    return skdp.DPMarginalSynthesizer(3.0, **{"domain": domain, "marginals": "independent"} | options)


def of_columns(*parts, **options):
    return make_column_transformer(*parts, **options)


LOGIT = LogisticRegression()
GRID = {"logisticregression__C": [1.0, 2.0]}
# The fitted estimators of these columns of X; with a target.
OF_NUMBERS = {
    "scaler, model": lambda: make_pipeline(StandardScaler(), classifier(bounds=(-3, 3))),
    "minmax, regression": lambda: make_pipeline(MinMaxScaler(), regressor(bounds=(0, 1))),
    "model": classifier,
    "mean": lambda: skdp.DPMean(1.0, bounds=BOUNDS),
    "private scaler, private model": lambda: make_pipeline(scaler(), classifier(bounds=(-9, 9))),
    "private scaler, plain model": lambda: make_pipeline(scaler(), LOGIT),
    "votes": lambda: VotingClassifier([("one", classifier()), ("two", classifier())]),
    "bag of parts": lambda: BaggingRegressor(
        regressor(max_weight=1), 2, bootstrap=False, max_samples=0.7, random_state=0
    ),
    "search of a model": lambda: GridSearchCV(classifier(), {"epsilon": [1.0, 0.5]}, cv=2),
    "target scaled": lambda: TransformedTargetRegressor(regressor(target_bounds=(-3, 3)), transformer=StandardScaler()),
    "reports of numbers, scaler, model": lambda: make_pipeline(
        skdp.NumericPerturber(1.0, bounds=BOUNDS), StandardScaler(), LOGIT
    ),
}
OF_SEX = {
    "target encoder, model": lambda: make_pipeline(TargetEncoder(cv=2), classifier(bounds=(0, 1))),
    "private codes, model": lambda: make_pipeline(
        skdp.DPTargetEncoder(1.0, categories={"sex": SEXES}, bounds=(0, 1)), classifier(bounds=(0, 1))
    ),
    "reports": sex,
    "reports, plain model": lambda: reports(LOGIT),
    "reports, private model": lambda: reports(classifier(bounds=(0, 1))),
    "two reports": lambda: FeatureUnion([("one", reports()), ("two", reports())]),
    "reports at fit": lambda: make_pipeline(skdp.OnFitOnly(sex()), OneHotEncoder(sparse_output=False), LOGIT),
    "search of reports": lambda: GridSearchCV(reports(LOGIT), GRID, cv=2),
    "posteriors": lambda: make_pipeline(skdp.PosteriorFeatures(sex()), LOGIT),
}
OF_WORDS = {
    "declared words, model": lambda: make_pipeline(words(), classifier(bounds=(0, 1))),
    "histogram": lambda: skdp.DPHistogram(1.0, domain={"sex": SEXES, "job": JOBS}),
    "reports and a column": lambda: of_columns((sex(), ["sex"]), remainder="passthrough"),
    "synthetic rows": lambda: make_pipeline(synthesizer(), words(), LOGIT),
    "resampler": lambda: make_resampling_pipeline(skdp.SyntheticResampler(synthesizer()), words(), LOGIT),
}
PIPELINES = {
    **{name: (NUMBERS, make) for name, make in OF_NUMBERS.items()},
    **{name: (["sex"], make) for name, make in OF_SEX.items()},
    **{name: (["sex", "job"], make) for name, make in OF_WORDS.items()},
    "reports beside private statistics": (
        [*NUMBERS, "sex"],
        lambda: make_pipeline(
            of_columns((reports(), ["sex"]), (scaler(), ["age"]), (StandardScaler(), ["hours"])),
            classifier(bounds=(-9, 9)),
        ),
    ),
}


NO_GUARANTEE = [
    *("target encoder, model", "private scaler, plain model", "search of a model", "search of reports", "votes"),
    *("bag of parts", "target scaled"),
]
"""Pipelines without a total, because a step releases every column unprotected, or more often than is counted."""


def fit_pipeline(pipeline, columns, table):
    """Fit to the columns of a table and its target; return the fitted pipeline and its output rows."""
    X, y = table[columns], table["sick"]
    pipeline = clone(pipeline)
    seeds = [name for name in pipeline.get_params() if name.endswith("random_state")]
    pipeline.set_params(**dict.fromkeys(seeds, 0))
    if hasattr(pipeline, "transform") and not (is_classifier(pipeline) or is_regressor(pipeline)):
        return pipeline, pipeline.fit_transform(X, y)
    return pipeline.fit(X, y), None


def statement_of(name):
    """Return the statement of a pipeline."""
    columns, make = PIPELINES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few rows, and domains that are read from them
        return skdp.privacy_statement(fit_pipeline(make(), columns, TABLE)[0])


UNSTATED = ("refit_time_", "random_state_")
"""The time that a search took, and the state of a generator, which depend on no row."""


class Shown:
    """All attributes of a fitted pipeline, step by step, and its output rows."""

    def __init__(self, pipeline, rows):
        self.pipeline = contents(pipeline)
        self.rows = np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows)


def contents(value):
    """Return the attributes of estimators in any container."""
    if isinstance(value, BaseEstimator) or type(value).__name__ == "_CalibratedClassifier":
        return {name: contents(part) for name, part in vars(value).items() if name not in UNSTATED}
    if isinstance(value, dict | Bunch):
        return {name: contents(part) for name, part in value.items() if not str(name).endswith("_time")}
    if isinstance(value, list | tuple):
        return [contents(part) for part in value]
    if type(value).__name__ == "Tree":
        return contents(value.__getstate__())
    return value


@cache
def worst_loss(*channels):
    """Return the largest log ratio of the probabilities of a report, for any two values."""
    worst = Fraction(1)
    for channel in channels:
        for report in zip(*channel, strict=True):
            worst = max(worst, max(report) / min(report))
    return math.log(worst)


class Reports:
    """The reports of a run, which a second run repeats, and their loss for the rows that differ."""

    def __init__(self):
        self.calls, self.epsilon, self.place = [], 0.0, None

    def replayed(self, protocol, randomize):
        def run(self_, codes, records, randomness):
            drawn = randomize(self_, codes, records, randomness)
            if self.place is None:
                self.calls.append((codes, drawn))
                return drawn
            before, drawn = self.calls[self.place]
            self.place += 1
            for column, other, channels in zip(before, codes, self_.channels(10**7), strict=True):
                differing = sum(
                    repr(a) != repr(b) for a, b in zip(np.asarray(column).T, np.asarray(other).T, strict=True)
                )
                if differing:
                    ratio = worst_loss(*[tuple(map(tuple, channel)) for channel in channels])
                    self.epsilon += differing * ratio
            return drawn

        return unittest.mock.patch.object(protocol, "randomize", run)


def replayed_loss(name, total):
    """Return the largest loss of a pipeline over neighbors, and the unprotected columns."""
    columns, make = PIPELINES[name]
    worst, findings = 0.0, []
    for table, neighbor in neighbors(total):
        reports = Reports()
        runs = iter((None, 0))

        def release(table, reports=reports, runs=runs):
            reports.place = next(runs)
            return Shown(*fit_pipeline(make(), columns, table))

        with reports.replayed(ReportProtocol, ReportProtocol.randomize):
            found = replay_release(release, table, neighbor, guarantee=total)
        findings += found.findings
        worst = max(worst, found.epsilon + reports.epsilon)
        if findings:
            break
    return worst, findings


def neighbors(total):
    """Return pairs of tables: one without the last row, or with other values in the protected columns of it."""
    if total.relation == "add_remove":
        rare = pd.concat([TABLE[TABLE["sick"] == 0], TABLE[1:2]], ignore_index=True)  # the only sick person
        return [(TABLE, TABLE[:-1]), (rare, rare[:-1])]
    pairs = []
    for row in ROWS:
        table = TABLE.copy()
        for name, value in zip(TABLE, row, strict=True):
            if name in total.scope or (name == "sick" and "target" in total.scope):
                table.loc[len(table) - 1, name] = value
        pairs.append((TABLE, table))
    return pairs
