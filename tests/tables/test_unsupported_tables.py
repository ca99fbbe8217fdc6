"""Tables that can be read as an array without column names, such as Arrow batches, raise an error everywhere."""

import narwhals
import narwhals.stable.v1 as narwhals_v1
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from skdp import (
    Domain,
    DPColumnSynthesizer,
    DPGroupBy,
    DPHistogram,
    DPLogisticRegression,
    DPMarginalSynthesizer,
    DPMean,
    DPMinMaxScaler,
    FrequencyOracleEncoder,
    HeavyHitters,
    LocalTableEncoder,
    NumericPerturber,
    PerHalf,
    RandomizedResponseEncoder,
    ReportDesign,
    ReportLinearRegression,
    ReportLogisticRegression,
    discover_domain,
    metrics,
    shuffle_reports,
)
from skdp.central import sample_and_aggregate
from skdp.evaluation import membership_inference
from skdp.survey import survey_mean

ROWS = pd.DataFrame({"a": ["u", "v"] * 500, "b": ["v", "v"] * 500})
NUMBERS = pd.DataFrame({"x": np.linspace(0, 1, 1000), "z": np.linspace(1, 0, 1000)})
VALUES = {"a": ["u", "v"], "b": ["u", "v"]}
LABELS = [0, 1] * 500
# scikit-learn raises the second error for a reader as y.
MESSAGE = "DataFrame of pandas or polars or a Table of pyarrow|Expected sequence or array-like"


class Stream:
    """A table of another library, which also converts itself to an array."""

    def __init__(self, table):
        self.table = pa.Table.from_pandas(table)

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)

    def __array__(self, dtype=None, copy=None):
        return self.table.to_pandas().to_numpy(dtype)


TABLES = {
    "batch": lambda table: pa.RecordBatch.from_pandas(table),
    "reader": lambda table: pa.Table.from_pandas(table).to_reader(),
    "stream": Stream,
    "narwhals": lambda table: narwhals.from_native(table),
    "narwhals-v1": lambda table: narwhals_v1.from_native(table),
}

encoder = RandomizedResponseEncoder(9.0, categories=VALUES, random_state=0).fit(ROWS)
scaler = DPMinMaxScaler(5.0, bounds=(0, 1)).fit(NUMBERS)
model = DPLogisticRegression(9.0, delta=1e-6, bounds=(0, 1), classes=[0, 1], random_state=0)
model.fit(NUMBERS, LABELS)
design = ReportDesign.warner("a", 0.8, values={"no": "u", "yes": "v"})


def aggregate(X):
    options = {"bounds": (0, 1), "n_chunks": 4, "epsilon": 1.0}
    return sample_and_aggregate(np.mean, X, **options)


# Functions of a table of categories.
OF_CATEGORIES = {
    "local-fit": RandomizedResponseEncoder(categories=VALUES).fit,
    "table-encoder-fit": LocalTableEncoder(categories=VALUES).fit,
    "oracle-fit": FrequencyOracleEncoder(categories=VALUES).fit,
    "hitters-fit": HeavyHitters(1.0).fit,
    "halves-fit": PerHalf(RandomizedResponseEncoder(categories=VALUES)).fit,
    "transform": encoder.transform,
    "tally": encoder.tally,
    "estimate-counts": encoder.estimate_counts,
    "estimate-joint-counts": lambda X: encoder.estimate_joint_counts(X, columns=["a", "b"]),
    "debias": encoder.debias,
    "shuffle": shuffle_reports,
    "histogram-fit": DPHistogram(domain=VALUES).fit,
    "groups-fit": DPGroupBy(by="a", keys={"a": ["u", "v"]}).fit,
    "model-target": lambda X: model.fit(NUMBERS, X),
    "synthesizer-fit": DPMarginalSynthesizer(1.0, domain=VALUES).fit,
    "columns-fit": DPColumnSynthesizer(["b"], 1.0, domain=VALUES).fit,
    "domain-draft": Domain.from_frame,
    "domain-counts": Domain(VALUES).value_counts,
    "design-estimate": design.estimate_frequencies,
    "design-debias": design.debias,
    "design-by-group": ReportDesign.by_group({"u": design}, "b").debias,
    "report-model": lambda X: ReportLogisticRegression(encoder).fit(X, LABELS),
    "report-target": lambda X: ReportLogisticRegression(target_design=design).fit(NUMBERS, X),
    "marginal-errors": lambda X: metrics.marginal_errors(ROWS, X),
    "joint": lambda X: metrics.joint_distribution(LABELS, LABELS, X, encoder),
    "links": lambda X: metrics.link_errors(ROWS[["a"]], X, X, X, person="a"),
    "fairness": lambda X: metrics.fairness_report(LABELS, LABELS, X),
    "fairness-debiased": lambda X: metrics.debiased_fairness(LABELS, LABELS, X, encoder),
    "reweighing": lambda X: metrics.private_reweighing(LABELS, X, encoder, privileged="u"),
    "attack": lambda X: membership_inference(X, ROWS, ROWS),
}

# Functions of a table of numbers.
OF_NUMBERS = {
    "numbers-fit": NumericPerturber(bounds=(0, 1)).fit,
    "mean-fit": DPMean(bounds=(0, 1)).fit,
    "scaler": scaler.transform,
    "model-fit": lambda X: model.fit(X, LABELS),
    "predict": model.predict,
    "predict-proba": model.predict_proba,
    "score": lambda X: model.score(X, LABELS),
    "aggregate": aggregate,
    "discover": lambda X: discover_domain(X, 1.0, 1e-6),
    "survey-mean": survey_mean,
    "regression": lambda X: ReportLinearRegression().fit(X, NUMBERS["x"]),
}


@pytest.mark.parametrize("use", OF_CATEGORIES | OF_NUMBERS)
def test_a_table_that_would_lose_its_names_raises_an_error(use):
    table, function = (ROWS, OF_CATEGORIES[use]) if use in OF_CATEGORIES else (NUMBERS, OF_NUMBERS[use])
    for convert in TABLES.values():
        with pytest.raises(TypeError, match=MESSAGE):
            function(convert(table))


def test_columns_of_arrow_are_accepted():
    for y in (pa.array(LABELS), pa.chunked_array([LABELS])):
        assert model.fit(NUMBERS, y).classes_.tolist() == [0, 1]
