"""The methods of a study: how a model learns, and what it is told of a row to predict."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from skdp.central import DPLogisticRegression, discover_domain
from skdp.domain import Domain
from skdp.evaluation._study_tables import StudyTable, categories_of, other_features
from skdp.local import PosteriorFeatures
from skdp.metrics import import_optional, private_parity
from skdp.synthesis import DPColumnSynthesizer, DPMarginalSynthesizer

# Features of the protected columns: (n_rows, n_values of all fields).
Indicators = NDArray[Any]

# Fraction of epsilon that finds bounds of features, if some are not declared.
DISCOVERY_FRACTION = 0.2


@dataclass(frozen=True, eq=False)
class Split:
    """A table, cut into rows to learn from and rows to predict."""

    table: StudyTable
    features: pd.DataFrame
    train: NDArray[np.intp]
    test: NDArray[np.intp]
    # Whether persons report for the prediction, too.
    reported_test: bool

    @property
    def labels(self) -> NDArray[np.int64]:
        """The labels to learn from."""
        return self.table.labels[self.train]

    @property
    def protect(self) -> list[Any]:
        """The names of the protected columns."""
        return list(self.table.protect or ())

    def people(self, places: NDArray[np.intp]) -> pd.DataFrame:
        """Return the true protected columns of some rows."""
        return self.table.people.iloc[places].reset_index(drop=True)

    def groups(self, places: NDArray[np.intp]) -> pd.Series:
        """Return the true groups of some rows."""
        return self.table.groups.iloc[places].reset_index(drop=True)

    def with_truth(self, places: NDArray[np.intp]) -> pd.DataFrame:
        """Return the features of some rows, the true protected columns among them."""
        return self.matrix(places, _true_indicators(self, places))

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
class Reporting:
    """By which encoder, at which epsilon, and from which seed persons report."""

    encoder: Any
    epsilon: float
    seed: int | None

    def fitted(self, table: StudyTable, names: Sequence[Any]) -> Any:
        """Fit a clone of the encoder to the declared values of some columns."""
        encoder = clone(self.encoder).set_params(
            epsilon=self.epsilon,
            random_state=self.seed,
            categories=table.domain.select(names),
        )
        return encoder.fit(table.X[names].reset_index(drop=True))


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


def _true_indicators(split: Split, places: NDArray[np.intp]) -> Indicators:
    """Return 0 and 1 for each declared value of each protected column."""
    people = split.people(places)
    domain = split.table.protected_domain
    blocks = []
    for name in domain.columns:
        codes = domain[name].encode(people[name].to_numpy())
        blocks.append(np.equal.outer(codes, np.arange(len(domain[name]))))
    return np.concatenate(blocks, axis=1).astype(np.uint8)


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


# The methods. Each takes a model that is not fitted, a split, and how persons report
# (of which those without reports take the seed alone), and returns the predictions for
# the test rows.


def without_privacy(model: Any, split: Split, reporting: Reporting) -> Predictions:
    """Learn from the true protected columns."""
    fitted = model.fit(split.with_truth(split.train), split.labels)
    return _predict(fitted, split.with_truth(split.test))


def left_out(model: Any, split: Split, reporting: Reporting) -> Predictions:
    """Learn without the protected columns."""
    if split.features.shape[1] == 0:
        # Nothing is left to predict from but the shares of the labels.
        model = DummyClassifier()
    fitted = model.fit(split.matrix(split.train), split.labels)
    return _predict(fitted, split.matrix(split.test))


def post_processed(model: Any, split: Split, reporting: Reporting) -> Predictions:
    """Learn from the true columns, then choose thresholds for each true group (Hardt et al. 2016)."""
    postprocessing = import_optional("fairlearn.postprocessing")
    optimizer = postprocessing.ThresholdOptimizer(
        estimator=model, constraints="demographic_parity", predict_method="auto"
    )
    optimizer.fit(
        split.with_truth(split.train),
        split.labels,
        sensitive_features=split.groups(split.train),
    )
    labels = optimizer.predict(
        split.with_truth(split.test),
        sensitive_features=split.groups(split.test),
        random_state=reporting.seed,
    )
    return Predictions(np.asarray(labels), None)


def reweighed(model: Any, split: Split, reporting: Reporting) -> Predictions:
    """Learn from the true columns, with the weights of Kamiran and Calders (2012)."""
    rows = pd.DataFrame({"group": split.groups(split.train), "label": split.labels})
    n_rows = len(rows)
    group_size = rows.groupby("group", observed=True)["label"].transform("size")
    label_size = rows.groupby("label")["group"].transform("size")
    cells = rows.groupby(["group", "label"], observed=True)
    cell_size = cells["label"].transform("size")
    # P(group) P(label) / P(group, label): as if the two were independent.
    weights = group_size * label_size / (n_rows * cell_size)
    train = split.with_truth(split.train)
    options = {weight_parameter(model): weights.to_numpy()}
    fitted = model.fit(train, split.labels, **options)
    return _predict(fitted, split.with_truth(split.test))


def weight_parameter(model: Any) -> str:
    """Name the parameter of `fit` that takes weights: of a pipeline, that of its last step."""
    if isinstance(model, Pipeline):
        last_name, last_step = model.steps[-1]
        return f"{last_name}__{weight_parameter(last_step)}"
    if not has_fit_parameter(model, "sample_weight"):
        raise ValueError(
            f"the fit of {type(model).__name__} takes no sample_weight, which these "
            "baselines need: reweighed, private parity"
        )
    return "sample_weight"


def reported(model: Any, split: Split, reporting: Reporting) -> Predictions:
    """Learn from reports."""
    encoder = reporting.fitted(split.table, split.protect)
    reports = encoder.transform(split.people(split.train))
    train = split.matrix(split.train, _report_indicators(encoder, reports))
    people = split.people(split.test)
    if split.reported_test:
        test_reports = encoder.transform(people)
        indicators = _report_indicators(encoder, test_reports)
    else:
        indicators = _truth_as_reports(encoder, people)
    fitted = model.fit(train, split.labels)
    return _predict(fitted, split.matrix(split.test, indicators))


def posterior_features(model: Any, split: Split, reporting: Reporting) -> Predictions:
    """Learn from the probabilities of the true values, given the reports."""
    encoder = reporting.fitted(split.table, split.protect)
    posterior = PosteriorFeatures(clone(encoder))
    probabilities = np.asarray(posterior.fit_transform(split.people(split.train)))
    train = split.matrix(split.train, probabilities)
    people = split.people(split.test)
    if split.reported_test:
        probabilities = np.asarray(posterior.transform(people))
    else:
        # Who tells the truth has a probability of 1.
        probabilities = _truth_as_reports(encoder, people)
    fitted = model.fit(train, split.labels)
    return _predict(fitted, split.matrix(split.test, probabilities))


def parity_from_reports(model: Any, split: Split, reporting: Reporting) -> Predictions:
    """Learn without the protected columns, under parity that is estimated from reports of the groups."""
    reductions = import_optional("fairlearn.reductions")
    name = split.table.sensitive
    encoder = reporting.fitted(split.table, [name])
    reports = encoder.transform(split.groups(split.train).to_frame())
    learner = reductions.ExponentiatedGradient(
        model,
        private_parity(encoder, constraints="demographic_parity"),
        sample_weight_name=weight_parameter(model),
    )
    learner.fit(split.matrix(split.train), split.labels, sensitive_features=reports)
    labels = learner.predict(split.matrix(split.test), random_state=reporting.seed)
    return Predictions(np.asarray(labels).astype(np.int64), None)


def curators_model(model: Any, split: Split, reporting: Reporting) -> Predictions:
    """Learn a logistic regression from whole true records, as a trusted curator who releases it."""
    train = split.with_truth(split.train)
    bounds = _declared_bounds(split.table, train)
    epsilon = reporting.epsilon
    open_names = [name for name in train if name not in bounds]
    if open_names:
        domain = discover_domain(
            train,
            epsilon * DISCOVERY_FRACTION,
            0.0,
            columns=open_names,
            random_state=reporting.seed,
        )
        for name in domain.columns:
            bounds[name] = domain[name].edges[0], domain[name].edges[-1]
        epsilon *= 1 - DISCOVERY_FRACTION
    # Without the columns whose bounds the noise hides.
    names = list(bounds)
    learner = DPLogisticRegression(
        epsilon,
        bounds=bounds,
        classes=[0, 1],
        random_state=reporting.seed,
    )
    fitted = learner.fit(train[names], split.labels)
    return _predict(fitted, split.with_truth(split.test)[names])


def _declared_bounds(table: StudyTable, features: pd.DataFrame) -> dict[Any, Any]:
    """Return the declared endpoints of features, where there are any."""
    indicators = {*(table.protect or ()), *categories_of(table.domain, table.X)}
    numbers = {f"{name}": name for name in table.X if name not in indicators}
    bounds: dict[Any, Any] = {}
    for feature in features:
        if feature not in numbers:
            bounds[feature] = (0, 1)
        elif numbers[feature] in table.domain.columns:
            edges = table.domain[numbers[feature]].edges
            bounds[feature] = (edges[0], edges[-1])
    return bounds


def private_target(model: Any, split: Split, reporting: Reporting) -> Predictions:
    """Learn a logistic regression of which the labels alone are private, as a curator who releases it."""
    train = split.with_truth(split.train)
    learner = DPLogisticRegression(
        reporting.epsilon,
        protect="target",
        classes=[0, 1],
        random_state=reporting.seed,
    )
    fitted = learner.fit(train, split.labels)
    return _predict(fitted, split.with_truth(split.test))


def synthetic_rows(model: Any, split: Split, reporting: Reporting) -> Predictions:
    """Learn from synthetic rows, which a trusted curator makes of whole true records."""
    rows, label, domain = _labelled_rows(split)
    synthesizer = DPMarginalSynthesizer(
        reporting.epsilon,
        domain=domain,
        target=label,
        random_state=reporting.seed,
    )
    return _learn_from(model, split, synthesizer.fit(rows).sample(len(rows)), label)


def resampled_columns(model: Any, split: Split, reporting: Reporting) -> Predictions:
    """Learn from the true rows, of which a trusted curator resamples the protected columns."""
    rows, label, domain = _labelled_rows(split)
    synthesizer = DPColumnSynthesizer(
        split.protect,
        reporting.epsilon,
        domain=domain,
        random_state=reporting.seed,
    )
    return _learn_from(model, split, synthesizer.fit_transform(rows), label)


def _labelled_rows(split: Split) -> tuple[pd.DataFrame, str, Domain]:
    """Return the training rows with their label, its name, and the domain of all columns."""
    table = split.table
    rows = table.X.iloc[split.train].reset_index(drop=True)
    label = unused_name(table)
    domain = Domain({**{name: table.domain[name] for name in rows}, label: [0, 1]})
    return rows.assign(**{label: split.labels}), label, domain


def _learn_from(
    model: Any, split: Split, rows: pd.DataFrame, label: str
) -> Predictions:
    """Learn from rows that a curator released, and predict the true ones."""
    labels = rows[label].to_numpy().astype(np.int64)
    if labels.min() == labels.max():
        # Much noise may leave a single label, from which no model learns. Equal scores
        # have an area of a half: without any, only splits that went well would count.
        predicted = np.full(len(split.test), labels[0])
        return Predictions(predicted, predicted.astype(float))
    X = rows[list(split.table.X)]
    made = replace(split.table, X=X, y=labels, positive_label=1)
    places = np.arange(len(rows))
    train = Split(made, other_features(made), places, places, split.reported_test)
    fitted = model.fit(train.with_truth(places), labels)
    return _predict(fitted, split.with_truth(split.test))


def unused_name(table: StudyTable) -> str:
    """Return a name for the label that no column has."""
    name = "label"
    while name in table.X.columns:
        name += "_"
    return name


Method = Callable[[Any, Split, Reporting], Predictions]

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
# Those of a trusted curator, which take an epsilon.
BY_CURATOR: dict[str, Method] = {
    "curator's model": curators_model,
    "synthetic rows": synthetic_rows,
    "private target": private_target,
    "resampled columns": resampled_columns,
}

# What the epsilons of some methods are for.
_PROMISES = {
    "curator's model": "whole records",
    "synthetic rows": "whole records",
    "private target": "the label",
}


def promise_of(method: str) -> str:
    """Return what the epsilon of a method is for: of a report, what a person reports."""
    return _PROMISES.get(method, "values of the protected columns")
