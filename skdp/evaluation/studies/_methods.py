"""The methods of a study: how a model learns, and what it is told of a row to predict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone

from skdp.evaluation.studies._tables import StudyTable
from skdp.local import PosteriorFeatures
from skdp.metrics import private_parity
from skdp.metrics.fairness import import_optional

Indicators = NDArray[Any]
"""Features of the protected columns: (n_rows, n_values of all fields)."""


@dataclass(frozen=True, eq=False)
class Split:
    """A table, cut into rows to learn from and rows to predict."""

    table: StudyTable
    features: pd.DataFrame
    train: NDArray[np.intp]
    test: NDArray[np.intp]
    reported_test: bool
    """Whether persons report for the prediction, too."""

    @property
    def labels(self) -> NDArray[np.int64]:
        return self.table.labels[self.train]

    def people(self, places: NDArray[np.intp]) -> pd.DataFrame:
        """Return the true protected columns of some rows."""
        return self.table.people.iloc[places].reset_index(drop=True)

    def groups(self, places: NDArray[np.intp]) -> pd.Series:
        """Return the true groups of some rows."""
        return self.table.groups.iloc[places].reset_index(drop=True)

    def matrix(
        self, places: NDArray[np.intp], indicators: Indicators | None = None
    ) -> pd.DataFrame:
        """Put the features of some rows beside those of their protected columns."""
        features = self.features.iloc[places].reset_index(drop=True)
        if indicators is None:
            return features
        names = [f"protected_{column}" for column in range(indicators.shape[1])]
        protected = pd.DataFrame(indicators, columns=names)
        return pd.concat([features, protected], axis=1)


@dataclass(frozen=True, eq=False)
class Predictions:
    """Predicted labels, and scores where the model has any."""

    labels: NDArray[np.int64]
    scores: NDArray[np.float64] | None


def _predict(model: Any, matrix: pd.DataFrame) -> Predictions:
    scores = None
    if hasattr(model, "predict_proba"):
        scores = np.asarray(model.predict_proba(matrix))[:, 1]
    return Predictions(np.asarray(model.predict(matrix)), scores)


# What is known of a protected column: the truth, reports, or probabilities.


def true_indicators(split: Split, places: NDArray[np.intp]) -> Indicators:
    """Return 0 and 1 for each declared value of each protected column."""
    people = split.people(places)
    domain = split.table.protected_domain
    blocks = []
    for name in domain.columns:
        codes = domain[name].encode(people[name].to_numpy())
        blocks.append(np.equal.outer(codes, np.arange(len(domain[name]))))
    return np.concatenate(blocks, axis=1).astype(np.uint8)


def _fitted(encoder: Any, split: Split, epsilon: float, seed: int | None) -> Any:
    """Fit a clone of an encoder to the declared values of the protected columns."""
    own = clone(encoder).set_params(epsilon=epsilon, random_state=seed)
    own.set_params(categories=split.table.protected_domain)
    return own.fit(split.people(split.train))


def _report_indicators(encoder: Any, reports: Any) -> Indicators:
    """Return 0 and 1 for each value that a report supports, for each field."""
    protocol = encoder.protocol_
    arrays = protocol.read(reports)
    drawn = protocol.rows(arrays)  # (n_rows, n_fields)
    blocks = []
    for place, field in enumerate(protocol.fields):
        supports = field.oracle.supports(arrays[place])
        # A record that does not report the field supports none of its values.
        blocks.append(supports & drawn[:, place, np.newaxis])
    return np.concatenate(blocks, axis=1).astype(np.uint8)


def _truth_as_reports(encoder: Any, people: pd.DataFrame) -> Indicators:
    """Return the true values in the form of `_report_indicators`."""
    blocks = []
    for field in encoder.protocol_.fields:
        codes = []
        for name in field.columns:
            codes.append(field.domain[name].encode(people[name].to_numpy()))
        cells = np.ravel_multi_index(tuple(codes), field.domain.sizes)
        blocks.append(np.equal.outer(cells, np.arange(field.oracle.k)))
    return np.concatenate(blocks, axis=1).astype(np.uint8)


# The methods. Each takes a model that is not fitted, a split, an epsilon (infinite
# where nothing is private) and a seed, and returns the predictions for the test rows.


def without_privacy(
    model: Any, split: Split, epsilon: float, seed: int | None, encoder: Any
) -> Predictions:
    """Learn from the true protected columns."""
    train = split.matrix(split.train, true_indicators(split, split.train))
    test = split.matrix(split.test, true_indicators(split, split.test))
    return _predict(model.fit(train, split.labels), test)


def left_out(
    model: Any, split: Split, epsilon: float, seed: int | None, encoder: Any
) -> Predictions:
    """Learn without the protected columns."""
    fitted = model.fit(split.matrix(split.train), split.labels)
    return _predict(fitted, split.matrix(split.test))


def post_processed(
    model: Any, split: Split, epsilon: float, seed: int | None, encoder: Any
) -> Predictions:
    """Learn from the true columns, then choose thresholds for each true group (Hardt et al. 2016)."""
    postprocessing = import_optional("fairlearn.postprocessing")
    optimizer = postprocessing.ThresholdOptimizer(
        estimator=model, constraints="demographic_parity", predict_method="auto"
    )
    optimizer.fit(
        split.matrix(split.train, true_indicators(split, split.train)),
        split.labels,
        sensitive_features=split.groups(split.train),
    )
    labels = optimizer.predict(
        split.matrix(split.test, true_indicators(split, split.test)),
        sensitive_features=split.groups(split.test),
        random_state=seed,
    )
    return Predictions(np.asarray(labels), None)


def reweighed(
    model: Any, split: Split, epsilon: float, seed: int | None, encoder: Any
) -> Predictions:
    """Learn from the true columns, with the weights of Kamiran and Calders (2012)."""
    rows = pd.DataFrame({"group": split.groups(split.train), "label": split.labels})
    n_rows = len(rows)
    group_size = rows.groupby("group", observed=True)["label"].transform("size")
    label_size = rows.groupby("label")["group"].transform("size")
    cell_size = rows.groupby(["group", "label"], observed=True)["label"].transform(
        "size"
    )
    # P(group) P(label) / P(group, label): as if the two were independent.
    weights = group_size * label_size / (n_rows * cell_size)
    train = split.matrix(split.train, true_indicators(split, split.train))
    test = split.matrix(split.test, true_indicators(split, split.test))
    fitted = model.fit(train, split.labels, sample_weight=weights.to_numpy())
    return _predict(fitted, test)


def reported(
    model: Any, split: Split, epsilon: float, seed: int | None, encoder: Any
) -> Predictions:
    """Learn from reports."""
    fitted_encoder = _fitted(encoder, split, epsilon, seed)
    reports = fitted_encoder.transform(split.people(split.train))
    train = split.matrix(split.train, _report_indicators(fitted_encoder, reports))
    people = split.people(split.test)
    if split.reported_test:
        told = fitted_encoder.transform(people)
        indicators = _report_indicators(fitted_encoder, told)
    else:
        indicators = _truth_as_reports(fitted_encoder, people)
    fitted = model.fit(train, split.labels)
    return _predict(fitted, split.matrix(split.test, indicators))


def posterior_features(
    model: Any, split: Split, epsilon: float, seed: int | None, encoder: Any
) -> Predictions:
    """Learn from the probabilities of the true values, given the reports."""
    fitted_encoder = _fitted(encoder, split, epsilon, seed)
    posterior = PosteriorFeatures(clone(fitted_encoder))
    indicators = np.asarray(posterior.fit_transform(split.people(split.train)))
    train = split.matrix(split.train, indicators)
    people = split.people(split.test)
    if split.reported_test:
        told = np.asarray(posterior.transform(people))
    else:
        # Who tells the truth has a probability of 1.
        told = _truth_as_reports(fitted_encoder, people)
    fitted = model.fit(train, split.labels)
    return _predict(fitted, split.matrix(split.test, told))


def parity_from_reports(
    model: Any, split: Split, epsilon: float, seed: int | None, encoder: Any
) -> Predictions:
    """Learn without the protected columns, under parity that is estimated from reports of the groups."""
    reductions = import_optional("fairlearn.reductions")
    name = split.table.sensitive
    own = clone(encoder).set_params(epsilon=epsilon, random_state=seed)
    own.set_params(categories=split.table.domain.select([name]))
    reports = own.fit_transform(split.people(split.train)[[name]])
    learner = reductions.ExponentiatedGradient(
        model, private_parity(own, constraints="demographic_parity")
    )
    learner.fit(split.matrix(split.train), split.labels, sensitive_features=reports)
    labels = learner.predict(split.matrix(split.test), random_state=seed)
    return Predictions(np.asarray(labels).astype(np.int64), None)


Method = Callable[[Any, Split, float, Any, Any], Predictions]

# Baselines that use no reports, and those that take an epsilon and an encoder.
WITHOUT_REPORTS: dict[str, Method] = {
    "without privacy": without_privacy,
    "left out": left_out,
    "post-processed": post_processed,
    "reweighed": reweighed,
}
FROM_REPORTS: dict[str, Method] = {
    "posterior features": posterior_features,
    "private parity": parity_from_reports,
}
