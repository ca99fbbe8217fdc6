"""Use of skdp with a type checker: checked by `make types`, not run.

A variable has the type dict[str, ...], which is no mapping of hashables: the key type is invariant.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from skdp import (
    Domain,
    DPAdditiveRegressor,
    DPHistogram,
    DPMarginalSynthesizer,
    DPMean,
    Interval,
    LocalTableEncoder,
    RandomizedResponseEncoder,
    privacy_statement,
    read_protocol,
)
from skdp.central import sample_and_aggregate
from skdp.evaluation import FairnessDisplay, privacy_curve
from skdp.metrics import fairness_report

people = pd.DataFrame({"sex": ["f", "m"], "age": [30, 40]})
labels = np.array([0, 1])
values = {"sex": ["f", "m"]}
declared = {"sex": ["f", "m"], "age": Interval(0, 100, bins=4)}
bounds = {"age": (17.0, 90.0)}
privileged = {"sex": "m"}
directions = {"age": 1}

encoder = RandomizedResponseEncoder(1.0, categories=values).fit(people)
LocalTableEncoder(1.0, categories=values).plan()
DPMean(1.0, bounds=bounds).fit(people)
DPMean(1.0, bounds=(0, 100)).fit(people[["age"]].to_numpy())
DPAdditiveRegressor(1.0, monotonic_cst=directions).fit(people[["age"]], labels)
DPHistogram(1.0, domain=values).fit(people[["sex"]]).range_estimate("f", "m")
DPHistogram(1.0, domain=declared).fit(people)
DPMarginalSynthesizer(1.0, domain=declared).fit(people)

fairness_report(labels, labels, people["sex"], privileged="m", positive_label=1)
fairness_report(labels, labels, people[["sex"]], privileged=privileged, positive_label=1)
_, axes = plt.subplots()
report = fairness_report(labels, [0, 1], people["sex"], positive_label=1)
FairnessDisplay.from_reports({"model": report}, ax=axes)
privacy_curve(
    make_pipeline(encoder, LogisticRegression()),
    people,
    labels,
    param_name="randomizedresponseencoder__epsilon",
    epsilons=[1, 2],
)

columns = {"sex": ["f"], "age": Interval(18, 95)}
domain = Domain(columns)
print(domain["age"].edges[0] + 1)

reader = read_protocol("reports.parquet")
print(reader.estimate_counts("reports.parquet").round(), reader.guarantee_.epsilon)
print(privacy_statement(encoder).total.epsilon + 1)
released = sample_and_aggregate(np.mean, people, bounds=(0, 1), n_chunks=10, epsilon=1.0)
print(released.value + 1, released.std_error < 1)
