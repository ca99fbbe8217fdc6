"""Files that are damaged or edited: the same estimator or a ValueError, and nothing is executed."""

from __future__ import annotations

import io
import json
import pickle
import random

import numpy as np
import pandas as pd
import pytest
from sklearn import compose, linear_model, pipeline, preprocessing
from sklearn.exceptions import InconsistentVersionWarning

import skdp
from skdp import (
    DPHistogram,
    DPKBinsDiscretizer,
    DPMarginalSynthesizer,
    DPStandardScaler,
    HeavyHitters,
    NumericPerturber,
    PosteriorFeatures,
    PrivacyLedger,
    RandomizedResponseEncoder,
    RapporEncoder,
    SecretKey,
    UnaryEncodingTransformer,
)
from tests.conftest import each
from tests.persistence.forgery import content_of, forged, saved, signed
from tests.persistence.same import assert_same

WORDS = pd.DataFrame({"job": ["clerk", "nurse"] * 20, "sex": ["f", "m", "m", "f"] * 10})
DECLARED = {"job": ["clerk", "nurse", "smith"], "sex": ["f", "m"]}
NUMBERS = np.linspace(1, 99, 80).reshape(-1, 2)
BOUNDS = (0, 100)
FINDER = HeavyHitters(4.0, alphabet="ab", max_length=2, random_state=0)
FITTED = [
    DPStandardScaler(100.0, bounds=BOUNDS, random_state=0).fit(NUMBERS),
    DPKBinsDiscretizer(bounds=BOUNDS, random_state=0).fit(NUMBERS),
    DPHistogram(domain=DECLARED, random_state=0).fit(WORDS),
    DPMarginalSynthesizer(domain=DECLARED, random_state=0).fit(WORDS),
    RandomizedResponseEncoder(memoize=True, secret_key=SecretKey(b"k" * 32), categories=DECLARED).fit(WORDS),
    NumericPerturber(bounds=BOUNDS).fit(NUMBERS),
    RapporEncoder(n_bits=8).fit(WORDS),
    PosteriorFeatures(UnaryEncodingTransformer(categories=DECLARED, random_state=0)).fit(WORDS),
    FINDER.fit(FINDER.report(["ab", "a"] * 30)),
    pipeline.make_pipeline(
        compose.make_column_transformer((RandomizedResponseEncoder(categories=DECLARED), ["job", "sex"])),
        preprocessing.OneHotEncoder(handle_unknown="ignore"),
        linear_model.LogisticRegression(),
    ).fit(WORDS, np.arange(len(WORDS)) % 2),
]


FILES = [saved(estimator, secrets=True) for estimator in FITTED]


def loaded(data):
    """Load a file; return None if it is refused."""
    try:
        return skdp.load(io.BytesIO(data))
    except ValueError:
        return None


def refused(data, match):
    with pytest.raises(ValueError, match=match):
        skdp.load(io.BytesIO(data))


def damaged(data, rng):
    """Damage a file as accidents do."""
    way = rng.choice(["bits", "cut", "insert", "append", "edit"])
    changed = bytearray(data)
    place = rng.randrange(len(data))
    if way == "bits":
        for _ in range(rng.choice([1, 1, 2, 8])):
            changed[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    elif way == "cut":
        del changed[place : place + rng.choice([1, 16, len(data)])]
    elif way == "insert":
        changed[place:place] = rng.randbytes(rng.choice([1, 16, 1000]))
    elif way == "append":
        changed += rng.choice([b" ", b"\n", b"}", rng.randbytes(30)])
    else:
        changed[place : place + rng.choice([0, 1, 3])] = rng.choice(
            [b"", b"0", b"9", b'"', b"[", b"}", b"null", b"1e5"]
        )
    return bytes(changed)


def check_damaged(number, seed):
    rng, refusals = random.Random(seed), 0
    for _ in range(number):
        place = rng.randrange(len(FILES))
        found = loaded(damaged(FILES[place], rng))
        refusals += found is None
        if found is not None:
            assert_same(found, FITTED[place])
    assert refusals > number / 2


@pytest.mark.parametrize(("number", "seed"), [(150, 0), pytest.param(10_000, 1, marks=pytest.mark.long)])
def test_damaged_files(number, seed):
    check_damaged(number, seed)


def an_array(dtype, shape, values):
    return {"$array": {"dtype": dtype, "shape": shape, "values": values}}


SCALER, SYNTHESIZER, ENCODER = FILES[0], FILES[3], FILES[4]


def with_json(change, data=SCALER):
    return forged(data, change)


class TestText:
    def test_a_file_that_was_edited(self):
        assert b'"epsilon": 100.0' in SCALER
        refused(SCALER.replace(b'"epsilon": 100.0', b'"epsilon": 100.1'), "changed since skdp.save wrote it")
        refused(SCALER.rstrip(), "changed since skdp.save wrote it")
        refused(json.dumps(content_of(SCALER)).encode(), "changed since skdp.save wrote it")

    @each("edit", [{"epsilon": 0.01, "losses": []}, {"relation": "replace"}, {"secure": True}, {"delta": 0.5}])
    def test_a_synthesizer_with_an_edited_guarantee(self, edit):
        def change(content):
            content["fitted"]["guarantee"]["$guarantee"].update(edit)

        refused(with_json(change, SYNTHESIZER), "does not follow from its parameters")

    def test_another_version(self):
        refused(signed(json.dumps(content_of(SCALER) | {"version": 2})), "version 2; this skdp reads version 1")

    def test_very_many_bytes(self, monkeypatch):
        monkeypatch.setattr("skdp.persistence._file._MAX_BYTES", len(SCALER))
        skdp.load(io.BytesIO(SCALER))
        refused(SCALER + b" ", f"a file has at most {len(SCALER):,} bytes")

    def test_very_many_values(self):
        refused(b"[" + b"[]," * (1 << 24) + b"[]]", "at most 33,554,432 values")

    @each("data", [b"", b"PK", b"x" * 1000, pickle.dumps(1), b"{}", b"[]", b"null", b'{"format": {}}', b"\xff\xfe{"])
    def test_no_such_file(self, data):
        refused(data, "no file that skdp.save wrote")


class TestArrays:
    @each(
        "content, message",
        [
            (("float64", [10**12], [0.0]), "another shape"),
            (("float64", [0, 10**17, 10**17], []), "cannot be read"),
            (("float64", [1] * 70, [0.0]), "cannot be read"),
            (("float64", [1], "x"), "a list of values"),
            (("float64", [1], ["1.0"]), "values of another type"),
            (("int8", [1], [300]), "cannot be read"),
            (("f8", [1], [0.5]), "unknown dtype"),
            (("i4,O", [1], [0.5]), "cannot be read|cannot be saved|unknown dtype"),
            (("__import__('os').getpid()", [1], [0.5]), "cannot be read"),
            ((None, [1], [0.5]), "a dtype must be a text"),
        ],
    )
    def test_contents(self, content, message):
        def change(estimator):
            estimator["fitted"]["mean_"] = an_array(*content)

        refused(with_json(change), message)


class TestJson:
    def test_depth(self):
        text = json.dumps(content_of(SCALER)).replace('"epsilon": 100.0', '"epsilon": ' + "[" * 10**5 + "]" * 10**5)
        refused(signed(text), "no file that skdp.save wrote")

    @each(
        "name", ["os.system", "builtins.eval", "skdp.load", "sklearn.ensemble.RandomForestClassifier", "", None, [], 1]
    )
    def test_classes(self, name):
        refused(with_json(lambda content: content.update({"class": name})), "no class that skdp.load knows")

    @each("name", ["fit", "__class__", "_validate_params", "transform", "", "_", "a-b_", "set_"])
    def test_attributes(self, name):
        def change(content):
            content["fitted"][name] = 1

        if name == "set_":  # a fitted attribute that nothing reads
            assert loaded(with_json(change)) is not None
        else:
            refused(with_json(change), "has no attribute")

    def test_another_version_of_scikit_learn_is_said(self):
        """Where estimators of it are in the file."""
        assert "scikit-learn" not in content_of(SCALER)
        with pytest.warns(InconsistentVersionWarning, match=r"0\.1"):
            loaded(signed(json.dumps(content_of(FILES[-1]) | {"scikit-learn": "0.1"})))

    def test_attributes_of_all(self):
        for change in ({"n_features_in_": -1}, {"guarantee_": "epsilon = 0"}, {"feature_names_in_": ["a"]}):
            refused(with_json(lambda content, change=change: content["fitted"].update(change)), "feature|guarantee")

    def test_a_cache(self):
        def change(content):
            content["parameters"]["memory"] = "/a/folder/of/pickles"

        refused(with_json(change, FILES[-1]), "memory")

    def test_a_ledger_names_no_file(self, tmp_path):
        def change(content):
            content["parameters"]["ledger"] = {"$ledger": {"path": str(tmp_path / "l"), "epsilon": 1.0, "delta": 0.0}}

        assert loaded(with_json(change)).ledger.path is None
        assert not list(tmp_path.iterdir())

    def test_a_guarantee_that_is_too_good_is_computed_again(self):
        """The guarantee of a local transformer is not in the file."""
        for epsilon in (1e-9, 50.0):

            def change(content, epsilon=epsilon):
                content["parameters"]["epsilon"] = epsilon

            refused(with_json(change, ENCODER), "another protocol")

    def test_a_guarantee_beside_a_protocol(self):
        """Attributes of a local transformer or a synthesizer would replace what is computed or checked."""
        guarantee = {"$guarantee": skdp.PrivacyGuarantee(0.001).to_dict()}
        for data in (SYNTHESIZER, ENCODER, *FILES[5:7]):
            for fitted in (content_of(data)["estimator"]["fitted"], {}):
                attributes = fitted | {"guarantee_": guarantee}
                refused(with_json(lambda content, a=attributes: content.update(fitted=a), data), "parts|another")

    @pytest.mark.parametrize("data", [ENCODER, SYNTHESIZER])
    def test_a_fit_of_another_class(self, data):
        """To fit a curator's estimator again would charge the ledger."""
        fitted = content_of(data)["estimator"]["fitted"]

        def change(content):
            content["parameters"]["ledger"] = {"$ledger": {"epsilon": 9.0, "delta": 0.0}}
            content["fitted"] = fitted

        ledger = PrivacyLedger(epsilon=9.0)
        with pytest.raises(ValueError, match="has no attribute"):
            skdp.load(io.BytesIO(with_json(change)), ledger=ledger)
        assert ledger.spent.epsilon == 0

    @each(
        "library, dtype",
        [
            ("pandas", "datetime64[ns, dateutil/{}]"),
            ("pandas", {"category": "datetime64[ns, dateutil/{}]", "ordered": False}),
            ("pandas", "datetime64[ns, {}]"),
            ("pandas", {"arrow": "timestamp[ns, tz=dateutil/{}]"}),
            ("pyarrow", "timestamp[ns, tz=dateutil/{}]"),
            ("polars", {"name": "Datetime", "time_unit": "ns", "time_zone": "dateutil/{}"}),
        ],
    )
    def test_a_time_zone_opens_no_file(self, library, dtype, tmp_path, monkeypatch):
        """Neither when it is read, nor later."""
        path = tmp_path / "zone"
        path.write_bytes(b"no zone")
        names, open_file = [], open
        monkeypatch.setattr("builtins.open", lambda name, *args: names.append(name) or open_file(name, *args))

        def change(content):
            column = content["fitted"]["template"]["$template"]["columns"][0]
            column.update(library=library, dtype=json.loads(json.dumps(dtype).replace("{}", str(path))))

        refused(with_json(change, SYNTHESIZER), "cannot be read")
        assert names == []


class TestSynthesizer:
    @each(
        "part, value, message",
        [
            ("n_rows", 1e300, "n_rows is larger than any table"),
        ],
    )
    def test_parts(self, part, value, message):
        refused(with_json(lambda content: content["fitted"].update({part: value}), SYNTHESIZER), message)

    @each("scope", [["job", "age"], [["job"]]])
    def test_a_guarantee_of_other_columns(self, scope):
        def change(content):
            content["fitted"]["guarantee"]["$guarantee"].update(scope=scope)

        refused(with_json(change, SYNTHESIZER), "the guarantee is of other columns than the domain")

    def test_a_dtype_in_which_nothing_can_be_drawn(self):
        def change(content):
            column = content["fitted"]["template"]["$template"]["columns"][0]
            column.update(library="polars", dtype={"name": "Binary"})

        refused(with_json(change, SYNTHESIZER), "the template has a dtype that holds no drawn row")
