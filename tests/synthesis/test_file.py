from __future__ import annotations

import datetime as dt
import io
import json
import math
import random
import zipfile
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError

from skdp import DPMarginalSynthesizer, Interval, PrivacyLeakWarning, PrivacyLedger, privacy_statement
from skdp.domain import pack, unpack
from skdp.privacy import Rho
from tests.conftest import each

SEED = 987_654_321
DATA = {
    "sex": ["F", "M", "M", "F"] * 50,
    "age": [20, 40, 60, 80] * 50,
    "job": ["clerk", None, "cook", "clerk"] * 50,
}
DOMAIN = {"sex": ["F", "M"], "age": Interval(0, 100, bins=10), "job": ["clerk", "cook", None]}
CONDITIONS = {"sex": "M", "age": (30, 75)}


def fitted(table=None, y=None, **options):
    options = {"epsilon": 5.0, "domain": DOMAIN, "delta": 1e-6, "random_state": SEED} | options
    return DPMarginalSynthesizer(**options).fit(pd.DataFrame(DATA) if table is None else table, y)


def saved(synthesizer):
    file = io.BytesIO()
    synthesizer.save(file)
    file.seek(0)
    return file


def loaded(synthesizer):
    return DPMarginalSynthesizer.load(saved(synthesizer))


def parts_of(file):
    with zipfile.ZipFile(file) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def archive_of(parts):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    file.seek(0)
    return file


def same(one, other):
    """Compare tables of any library, with their dtypes."""
    if isinstance(one, pd.DataFrame):
        pd.testing.assert_frame_equal(one, other)
    elif isinstance(one, pl.DataFrame):
        assert one.schema == other.schema
        assert one.equals(other, null_equal=True)
    elif isinstance(one, pa.Table):
        assert one.equals(other)
    else:
        assert one.dtype == other.dtype
        assert pd.DataFrame(one).equals(pd.DataFrame(other))


def test_a_file_gives_all_answers(tmp_path):
    before = fitted(marginals=[("sex", "age"), ("age", "job")], workload=[("sex", "age")])
    before.save(tmp_path / "people.zip")
    after = DPMarginalSynthesizer.load(tmp_path / "people.zip")
    assert after.domain_ == before.domain_ == after.domain
    assert after.guarantee_ == before.guarantee_
    assert after.noise_scale_ == before.noise_scale_
    assert after.selected_cliques_ == before.selected_cliques_
    for name in ("n_rows_", "n_rows_std_error_", "n_iter_", "n_features_in_"):
        assert getattr(after, name) == getattr(before, name)
    pd.testing.assert_frame_equal(after.marginal(["sex", "job"]), before.marginal(["sex", "job"]))
    assert after.count(CONDITIONS) == before.count(CONDITIONS)
    assert after.range_count("age", 15, 55) == before.range_count("age", 15, 55)
    table = pd.DataFrame(DATA)
    assert after.score(table) == before.score(table)
    assert after.transform(table).shape == table.shape
    assert after.feature_names_in_.tolist() == before.feature_names_in_.tolist()
    assert after.get_feature_names_out().tolist() == list(DATA)


def test_what_is_loaded_has_coins_of_its_own_and_no_ledger():
    ledger = PrivacyLedger(epsilon=10, delta=1e-3)
    after = loaded(fitted(ledger=ledger))
    assert after.random_state is None
    assert after.ledger is None
    assert not after.sample(200).equals(after.sample(200))
    assert not loaded(fitted()).sample(200).equals(loaded(fitted()).sample(200))
    assert not after.guarantee_.secure  # the noise came from a seed, wherever that is
    assert ledger.spent.epsilon == 5


def test_the_seed_and_the_ledger_are_not_in_the_file(tmp_path):
    ledger = PrivacyLedger(tmp_path / "secret_ledger.sqlite", epsilon=10, delta=1e-3)
    for content in parts_of(saved(fitted(ledger=ledger))).values():
        assert str(SEED).encode() not in content
        assert SEED.to_bytes(4, "little") not in content
        assert b"secret_ledger" not in content


DTYPES = {
    "pandas boolean": (pd.Series([True, None] * 20, dtype="boolean"), [True, None]),
    "pandas Int64": (pd.Series([1, None] * 20, dtype="Int64"), [1, None]),
    "pandas str": (pd.Series(["a", None] * 20, dtype="str"), ["a", None]),
    "pandas arrow": (pd.Series(["a", "b"] * 20, dtype=pd.ArrowDtype(pa.large_string())), ["a", "b"]),
    "pandas ordered": (pd.Series(pd.Categorical(["a", "b"] * 20, ["a", "b"], ordered=True)), ["a", "b"]),
    "pandas dates": (pd.Series(pd.to_datetime(["2020-01-01", "2021-06-01"] * 20)), [dt.datetime(2020, 1, 1), None]),
    "pandas zones": (
        pd.Series(pd.to_datetime(["2020-01-01", "2021-06-01"] * 20, utc=True).tz_convert("Europe/Paris")),
        [pd.Timestamp("2020-01-01", tz="UTC"), pd.Timestamp("2021-06-01", tz="UTC")],
    ),
    "polars datetime": (pl.Series([dt.datetime(2020, 1, 1)] * 40, dtype=pl.Datetime("ms")), [dt.datetime(2020, 1, 1)]),
    "polars enum": (pl.Series(["a", "b"] * 20, dtype=pl.Enum(["a", "b"])), ["a", "b"]),
    "polars decimal": (pl.Series(["1.5", "2.5"] * 20).cast(pl.Decimal(10, 2)), [Decimal("1.50"), Decimal("2.50")]),
    "polars duration": (pl.Series([dt.timedelta(1)] * 40), [dt.timedelta(1), dt.timedelta(2)]),
    "pyarrow dictionary": (pa.chunked_array([pa.array(["a", "b"] * 20).dictionary_encode()]), ["a", "b"]),
    "pyarrow timestamp": (
        pa.chunked_array([pa.array([dt.datetime(2020, 1, 1)] * 40, pa.timestamp("ms"))]),
        [dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 2)],
    ),
}


@pytest.mark.parametrize(("column", "values"), DTYPES.values(), ids=DTYPES)
def test_dtypes_come_back(column, values):
    make = {pd.Series: pd.DataFrame, pl.Series: pl.DataFrame, pa.ChunkedArray: pa.table}[type(column)]
    before = fitted(make({"x": column}), domain={"x": values}, handle_unknown="ignore")
    same(loaded(before).set_params(random_state=SEED).sample(20), before.sample(20))


@each(
    "table domain options",
    [
        (np.array([[0, 1], [1, 0]] * 20), [[0, 1], [0, 1]], {}),
        (pd.DataFrame({("a", "x"): [0, 1] * 20}), {("a", "x"): [0, 1]}, {}),
        (pd.DataFrame({"a": [0, 1] * 20}), {"a": [0, 1]}, {"epsilon": Rho(0.5, delta=1e-6), "delta": 0}),
    ],
)
def test_arrays_names_of_several_levels_and_rho_come_back(table, domain, options):
    before = fitted(table, domain=domain, **options)
    after = loaded(before).set_params(random_state=SEED)
    same(after.sample(20), before.sample(20))
    assert after.epsilon == before.epsilon


def test_a_dtype_that_no_file_holds_is_named():
    table = pl.DataFrame({"x": pl.Series([1] * 40, dtype=pl.Object)})
    with pytest.raises(TypeError, match="column 'x': the dtype Object cannot be saved"):
        fitted(table, domain={"x": [1, 2]}).save(io.BytesIO())


def test_rare_values_that_were_counted_together():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.geometric(0.4, (300, 4)).clip(1, 12), columns=list("abcd"))
    table["b"] = table["a"].where(rng.random(300) < 0.5, table["b"])
    before = fitted(table, domain=dict.fromkeys("abcd", range(1, 13)), marginals="auto")
    assert any(marginal.groups for marginal in before.marginals_)
    after = loaded(before)
    for one, other in zip(before.marginals_, after.marginals_, strict=True):
        assert np.array_equal(one.counts, other.counts)
        assert repr(one.groups) == repr(other.groups)
        assert one.std_error == other.std_error
    assert after.marginal(["a", "b"]).equals(before.marginal(["a", "b"]))


def test_what_was_read_from_the_data_is_still_not_believed(recwarn):
    """A loaded model made `privacy_statement` promise something about a column whose values were read."""
    table = pd.DataFrame({"a": pd.Categorical(["x", "y"] * 50), "b": [0, 1] * 50})
    synthesizer = fitted(table, domain={"b": [0, 1]})
    assert any(issubclass(warning.category, PrivacyLeakWarning) for warning in recwarn)
    for one in (synthesizer, loaded(synthesizer), loaded(loaded(synthesizer))):
        assert privacy_statement(one).total.scope == ("b",)


SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary() | st.dates()
) | (
    st.times().map(lambda time: time.replace(fold=0)) | st.timedeltas() | st.fractions() | st.decimals(allow_nan=False)
)
VALUES = st.recursive(SCALARS, lambda one: st.lists(one) | st.tuples(one, one) | st.dictionaries(SCALARS, one))


@given(VALUES)
def test_values_keep_their_types(value):
    assert repr(unpack(json.loads(json.dumps(pack(value), allow_nan=False)))) == repr(value)


def test_a_file_that_could_not_be_written_is_not_begun(tmp_path):
    path = tmp_path / "people.zip"
    synthesizer = fitted().set_params(workload=[object()])
    with pytest.raises(TypeError, match="a object cannot be saved"):
        synthesizer.save(path)
    assert not path.exists()
    with pytest.raises(NotFittedError):
        DPMarginalSynthesizer().save(path)


class TestDamage:
    @pytest.fixture
    def parts(self):
        return parts_of(io.BytesIO(FILE))

    @staticmethod
    def load(parts, **changes):
        header = json.loads(parts["header.json"]) | changes
        return DPMarginalSynthesizer.load(archive_of(parts | {"header.json": json.dumps(header)}))

    @each(
        "changes, message",
        [
            ({"format": "other"}, "no file that DPMarginalSynthesizer.save wrote"),
            ({"version": 2}, "version 2; this skdp reads version 1"),
            ({"cliques": [[0, 1], [2]]}, "the model of the file cannot be read"),
            ({"cliques": [[1, 0], [1, 2]]}, "increasing numbers of columns"),
            ({"cliques": [[0, 1], [1, 9]]}, "whole numbers from 0 to 2"),
            ({"cliques": [[0, 1]], "parents": []}, "no junction tree"),
            ({"cliques": [[0, 1], [1, 2], [0, 2]], "parents": [0, 0]}, "no junction tree"),
            ({"parents": []}, "must have a parent"),
            ({"parents": [1]}, "whole numbers from 0 to 0"),
            ({"parents": [True]}, "whole numbers from 0 to 0"),
            ({"observed": [3]}, "the domain of the file cannot be read: expected whole numbers from 0 to 2"),
            ({"n_rows": -1}, "expected a positive number"),
            ({"n_rows_std_error": None}, "expected a positive number"),
            ({"n_features": 0}, "the template of the file cannot be read"),
            ({"marginals": [{"clique": [0]}]}, "the marginals of the file cannot be read"),
            ({"marginals": [{"clique": [0], "std_error": 1.0, "groups": None}]}, "another shape"),
            ({"marginals": [{"clique": [0, 1], "std_error": 1.0, "groups": [[0, 2], None]}]}, "from 0 to 1"),
            ({"marginals": [{"clique": [0, 1], "std_error": 1.0, "groups": [[1, 1], None]}]}, "do not fit its values"),
            ({"marginals": [{"clique": [0, 1], "std_error": 1.0, "groups": [[0], None]}]}, "do not fit its values"),
            ({"marginals": [{"clique": [0, 1], "std_error": 0, "groups": None}]}, "positive number"),
            ({"parameters": {"random_state": 1}}, "never saved"),
            ({"parameters": {"epsilon": {"code": "x"}}}, "unknown type 'code'"),
            ({"others": {"mapping": [["sex", "X"]]}}, "what stands for the unforeseen is not declared"),
            ({"guarantee": {"epsilon": -1}}, "the guarantee of the file cannot be read"),
            ({"template": {"library": "os", "columns": [{"array": "<i8"}] * 3}}, "unknown library 'os'"),
            ({"template": {"library": "numpy", "columns": [{"array": "<i8"}]}}, "expected 3 columns, got 1"),
            ({"template": {"library": "numpy", "columns": [{"array": "i4,O"}] * 3}}, "unknown dtype"),
            ({"template": {"library": "polars", "columns": [{"polars": "Object"}] * 3}}, "unknown dtype"),
            ({"scores": [[1, 0, 0.1, 0.1]]}, "a pair must be two increasing numbers of columns"),
            ({"scores": [[0, 1, None, 0.1]]}, "a score must be a finite number"),
        ],
    )
    def test_a_header_that_does_not_fit_is_refused(self, parts, changes, message):
        with pytest.raises(ValueError, match=message):
            self.load(parts, **changes)

    def test_every_missing_part_is_named(self, parts):
        for name in parts:
            rest = {other: content for other, content in parts.items() if other != name}
            with pytest.raises(ValueError, match="of the file cannot be read"):
                DPMarginalSynthesizer.load(archive_of(rest))
        header = json.loads(parts["header.json"])
        for name in header.keys() - {"named", "observed", "scores", "grids"}:
            rest = {key: value for key, value in header.items() if key != name}
            with pytest.raises(ValueError, match="file"):
                DPMarginalSynthesizer.load(archive_of(parts | {"header.json": json.dumps(rest)}))

    @each(
        "change, message",
        [
            (lambda array: array * 1.1, "a clique has no probabilities"),
            (lambda array: -array, "a clique has no probabilities"),
            (lambda array: array * math.nan, "not finite"),
            (lambda array: array[::-1, ::-1], "disagree"),
            (lambda array: array.T, "another shape"),
            (lambda array: array.astype("float32"), "another shape"),
            (lambda array: np.vstack([array, array]), "another shape"),
        ],
    )
    def test_a_model_that_is_none_is_refused(self, parts, change, message):
        name = "belief_0.npy"
        array = np.load(io.BytesIO(parts[name]))
        out = io.BytesIO()
        np.save(out, np.ascontiguousarray(change(array)))
        with pytest.raises(ValueError, match=message):
            DPMarginalSynthesizer.load(archive_of(parts | {name: out.getvalue()}))

    @settings(max_examples=max(100, settings().max_examples))
    @given(st.integers(0, 2**32))
    def test_random_headers_are_a_value_error_or_harmless(self, seed):
        rng = random.Random(seed)
        parts = parts_of(io.BytesIO(FILE))
        header = json.loads(parts["header.json"])
        mutate(header, rng)
        try:
            made = DPMarginalSynthesizer.load(archive_of(parts | {"header.json": json.dumps(header)}))
        except ValueError:
            return
        assert made.model_.marginal([0]).sum() == pytest.approx(1)


def mutate(value, rng):
    """Change something inside of JSON."""
    while True:
        keys = list(value) if isinstance(value, dict) else range(len(value))
        if not keys:
            return
        key = rng.choice(list(keys))
        if isinstance(value[key], dict | list) and rng.random() < 0.8:
            value = value[key]
            continue
        value[key] = rng.choice(
            [None, True, -1, 0, 1, 7, 1e300, "x", "1", [], {}, [[]], {"tuple": [1]}, {"mapping": 3}]
        )
        return


FILE = saved(fitted(marginals=[("sex", "age"), ("age", "job"), ("sex",)])).getvalue()
