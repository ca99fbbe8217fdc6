from datetime import date

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from skdp import DPLinkedSynthesizer, DPMarginalSynthesizer, Interval, PrivacyLedger
from tests.conftest import counted_draws, diagonal, quick_first

DATES = [date(2020, 1, 1), date(2021, 6, 1)]
DATA = {
    "age": [20, 30, 40, 50, 60, 61] * 10,
    "wage": [1.5, 2.5, 0.25] * 20,
    "sex": ["f", "m", None] * 20,
    "paid": [True, False] * 30,
    "n": [1, 2, 3] * 20,
    "since": DATES * 30,
}
CATEGORIES = {
    "age": sorted(set(DATA["age"])), "wage": [0.25, 1.5, 2.5], "sex": ["f", "m"], "paid": [False, True],
    "n": [1, 2, 3], "since": DATES,
}  # fmt: skip
DECLARED = {
    "age": Interval(0, 100, bins=5), "wage": [0.25, 1.5, 2.5, 9.75], "sex": ["f", "m", None], "paid": [False, True],
    "n": [1, 2, 3], "since": DATES,
}  # fmt: skip
SMALL = pd.DataFrame({"a": [0, 1, 2, 1] * 25, "b": ["x", "y"] * 50})
SMALL_DOMAIN = {"a": [0, 1, 2], "b": ["x", "y"]}


def fit_model(X=SMALL, y=None, domain=SMALL_DOMAIN, **parameters):
    parameters = {"marginals": "independent", "random_state": 0, "domain": domain} | parameters
    return DPMarginalSynthesizer(**parameters).fit(X, y)


def dtypes(frame):
    if isinstance(frame, pa.Table):
        return dict(zip(frame.column_names, frame.schema.types, strict=True))
    return dict(zip(frame.columns, frame.dtypes, strict=True))


def test_output_has_the_library_and_declared_values(make_frame, values_of):
    frame = make_frame(DATA, CATEGORIES)
    synthesizer = fit_model(frame, domain=DECLARED)
    for made in (synthesizer.sample(40), synthesizer.sample(0), synthesizer.transform(frame)):
        assert type(made) is type(frame)
        assert list(dtypes(made)) == list(DATA)
        assert all(0 <= value <= 100 for value in values_of(made, "age"))
        assert set(values_of(made, "wage")) <= {0.25, 1.5, 2.5, 9.75}
        assert set(values_of(made, "sex")) <= {"f", "m", None}
        assert set(values_of(made, "n")) <= {1, 2, 3}
        assert {str(value)[:4] for value in values_of(made, "since")} <= {"2020", "2021"}


def test_missing_numbers_are_null_in_arrow():
    model = fit_model(pa.table({"x": [1.5, None] * 50}), domain={"x": Interval(0, 3, missing=True, real=True)})
    assert model.sample(40)["x"].null_count == pytest.approx(20, abs=5)


LABELS = [0, 1] * 50
TARGETS = [LABELS, np.array(LABELS), pd.Series(LABELS), pl.Series(LABELS), np.array(LABELS)[:, None]]
TARGETS.append(pa.chunked_array([LABELS]))


class TestTarget:
    @pytest.mark.parametrize(("y", "library"), diagonal(TARGETS, ["pandas", "polars", "pyarrow"]))
    def test_y_is_the_last_column(self, y, library):
        make = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}[library]
        X = make(SMALL.to_dict("list"))
        synthesizer = fit_model(X, y, {**SMALL_DOMAIN, "target": [0, 1]})
        made = synthesizer.sample(10)
        assert type(made) is type(X)
        assert list(dtypes(made)) == ["a", "b", "target"]
        assert synthesizer.domain_.columns == ("a", "b", "target")
        assert synthesizer.n_features_in_ == 2
        assert synthesizer.guarantee_.scope == ("a", "b", "target")
        assert list(dtypes(synthesizer.transform(X))) == ["a", "b"]

    @pytest.mark.parametrize(("y", "message"), [(pd.Series([0] * 100, name="a"), r"\['target'\]"),
         ([0] * 99, "same number of rows"), (np.zeros((100, 2)), "one column"),
         ([0, 1] * 50, r"\['target'\]")])  # fmt: skip
    def test_invalid_targets_raise_an_error(self, y, message):
        with pytest.raises(ValueError, match=message):
            fit_model(SMALL, y)


class TestUnknown:
    def test_ignored_row_is_ignored_completely(self):
        frame = pd.DataFrame({"a": [0, 1, 9] * 50, "b": ["x", "y", "x"] * 50})
        synthesizer = fit_model(frame, handle_unknown="ignore", epsilon=100)
        assert synthesizer.count({"b": "x"}) == pytest.approx(50, abs=1)

    def test_mapping_replaces_texts_and_clips_numbers(self):
        domain = {"t": ["a", "b"], "x": Interval(0, 10, bins=2)}
        frame = pd.DataFrame({"t": ["a", "b", "z"] * 50, "x": [1.0, 2.0, 99.0] * 50})
        synthesizer = fit_model(frame, domain=domain, handle_unknown={"t": "b", "x": "clip"}, epsilon=100)
        assert synthesizer.count({"t": "b"}) == pytest.approx(100, abs=1)
        assert synthesizer.count({"x": (5, 10)}) == pytest.approx(50, abs=1)
        ledger = PrivacyLedger(epsilon=200)
        for unknown in ({"t": "clip", "x": "clip"}, {"t": "a", "x": "b"}):
            with pytest.raises(ValueError, match=r"`handle_unknown` of column '.' must be one of its declared values"):
                fit_model(frame, domain=domain, handle_unknown=unknown, epsilon=100, ledger=ledger)
        assert ledger.spent == (0, 0)

    def test_clipped_numbers_are_the_bounds(self):
        frame = pd.DataFrame({"x": [-5.0, 99.0] * 50})
        synthesizer = fit_model(frame, domain={"x": Interval(0, 10, bins=2)}, handle_unknown="clip", epsilon=1000)
        assert set(synthesizer.sample(40)["x"]) == {0, 10}


class TestSize:
    @pytest.mark.parametrize("library", quick_first(1, ["array", "pandas", "polars"]))
    def test_ten_thousand_columns_raise_an_error_with_the_reason(self, library):
        X = np.zeros((2, 10_000))
        make = {"array": lambda: X, "pandas": lambda: pd.DataFrame(X, columns=[f"c{index}" for index in range(10_000)]),
                "polars": lambda: pl.DataFrame(X)}[library]  # fmt: skip
        with (
            counted_draws() as drawn,
            pytest.raises(ValueError, match=r"at most 500 columns, got 10000. The budget is split"),
        ):
            fit_model(make(), domain=Interval(0, 1, bins=2))
        assert drawn[0] == 0

    def test_error_of_a_trillion_cells_states_the_bytes(self):
        ledger = PrivacyLedger(epsilon=10)
        with pytest.raises(ValueError, match="got 1,000,000,000,000"):
            fit_model(np.zeros((2, 6)), domain=Interval(0.0, 1.0, bins=100), marginals="full", ledger=ledger)
        cycle = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (0, 5), (0, 3), (1, 4)]
        named = [tuple(f"x{index}" for index in pair) for pair in cycle]
        with pytest.raises(ValueError, match="got 1,000,000,000,000 and 1,002,000,000,000 in total"):
            fit_model(np.zeros((2, 6)), domain=Interval(0.0, 1.0, bins=1000), marginals=named, ledger=ledger)
        assert ledger.spent == (0, 0)


WRONG = [
    ({"handle_unknown": "drop"}, "handle_unknown"), ({"handle_unknown": {"a": 7}}, "handle_unknown"),
    ({"marginals": "tree"}, "`marginals` must be one of"),
    ({"delta": 1}, "delta"), ({"delta": -0.1}, "delta"), ({"max_cells": -1}, "max_cells"),
    ({"max_cells": 2.5}, "max_cells"),
    ({"target": "e"}, r"`target` must name columns of the model, .*'b'.*, got 'e'"),
    ({"target": ["a"]}, "`target` must be the name of a column, got list"),
    ({"target": "a", "marginals": "full"}, "`target` requires `marginals='auto'`, got 'full'"),
    ({"domain": "auto"}, "domain"), ({"domain": {**SMALL_DOMAIN, "c": [1]}}, "domain"),
    ({"domain": [[0, 1, 2]]}, "domain"), ({"domain": 3}, "domain"),
    ({"marginals": 3}, "marginals"), ({"marginals": []}, "marginals"),
    ({"marginals": [("a", "a")]}, "marginals"), ({"marginals": None}, "marginals"),
    ({"marginals": [("q",)]}, "got 'q'"), ({"marginals": [()]}, "marginals"), ({"workload": []}, "workload"),
    ({"workload": ["a"]}, "workload"), ({"workload": [("q",)]}, "got 'q'"),
]  # fmt: skip


@pytest.mark.parametrize(("parameters", "message"), WRONG)
def test_error_of_a_parameter_names_it_before_charge(parameters, message):
    ledger = PrivacyLedger(epsilon=10)
    with counted_draws() as drawn, pytest.raises((TypeError, ValueError), match=message):
        fit_model(**{"ledger": ledger, "marginals": "auto"} | parameters)
    assert drawn[0] == 0
    assert ledger.spent == (0, 0)


@pytest.mark.parametrize("name", ["target", "person", "order_by"])
def test_column_in_place_of_its_name_raises_an_error(name):
    tables = SMALL.assign(id=range(100))[["id", "a"]], SMALL.assign(id=range(100))[["id", "b"]]
    if name == "target":
        synthesizer, tables = DPMarginalSynthesizer(1.0, domain=SMALL_DOMAIN, target=SMALL["a"]), [SMALL]
    else:
        options = {"person": "id", "max_rows_per_person": 1, name: SMALL["a"]}
        synthesizer = DPLinkedSynthesizer(1.0, domain=SMALL_DOMAIN, **options)
    with pytest.raises(TypeError, match=f"`{name}` must be the name of a column, got Series"):
        synthesizer.fit(*tables)
