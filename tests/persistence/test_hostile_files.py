"""Damaged or edited files: the same estimator or a ValueError, and no code of the file is executed."""

import io
import json
import pickle
import random
import re
import zipfile

import numpy as np
import pandas as pd
import pytest
import skops.io
from sklearn import compose, linear_model, pipeline, preprocessing

import skdp
from tests.estimators import BOUNDS, DECLARED, FINDER, NUMBERS, WORDS
from tests.persistence.forgery import content_of, forge_file, save_bytes, write_record

FITTED = [
    skdp.DPStandardScaler(100.0, bounds=BOUNDS, random_state=0).fit(NUMBERS),
    skdp.DPMarginalSynthesizer(domain=DECLARED, random_state=0).fit(WORDS),
    skdp.RandomizedResponseEncoder(categories=DECLARED).fit(WORDS),
    skdp.NumericPerturber(bounds=BOUNDS).fit(NUMBERS),
    skdp.PosteriorFeatures(skdp.UnaryEncodingTransformer(categories=DECLARED, random_state=0)).fit(WORDS),
    FINDER.fit(FINDER.report(["ab", "a"] * 30)),
    pipeline.make_pipeline(
        compose.make_column_transformer((skdp.RandomizedResponseEncoder(categories=DECLARED), ["job", "sex"])),
        preprocessing.OneHotEncoder(handle_unknown="ignore"),
        linear_model.LogisticRegression(),
    ).fit(WORDS, np.arange(len(WORDS)) % 2),
]
FILES = [save_bytes(estimator) for estimator in FITTED]
SCALER, SYNTHESIZER, ENCODER = FILES[:3]


def refuse(data, match):
    with pytest.raises(ValueError, match=match):
        skdp.load(io.BytesIO(data))


def edit(data, part, **values):
    return forge_file(data, lambda state: state[part].update(values))


def damage_bytes(data, rng):
    """Damage a file at random bytes."""
    changed = bytearray(data)
    index = rng.randrange(len(data))
    way = rng.choice(["bits", "cut", "insert"])
    if way == "bits":
        for _ in range(rng.choice([1, 2, 8])):
            changed[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    elif way == "cut":
        del changed[index : index + rng.choice([1, 16, len(data)])]
    else:
        changed[index:index] = rng.randbytes(rng.choice([1, 16, 1000]))
    return bytes(changed)


def without_seeds(estimator):
    """Return the text of an estimator, whose seeds a file does not have."""
    return re.sub(r",\s*random_state=0", "", str(estimator))


def test_damaged_files_raise_an_error_or_are_unchanged():
    rng, n_refused = random.Random(0), 0
    for _ in range(150):
        index = rng.randrange(len(FILES))
        try:
            found = skdp.load(io.BytesIO(damage_bytes(FILES[index], rng)))
        except ValueError:
            n_refused += 1
        else:
            assert str(found) == without_seeds(FITTED[index])
    assert n_refused > 75


@pytest.mark.parametrize("data", [b"", b"PK", b"x" * 1000, pickle.dumps(1), b"{}", b'{"format": "skdp-protocol"}'])
def test_files_that_save_did_not_write_raise_an_error(data):
    refuse(data, "must be a file of skdp.save")


@pytest.mark.parametrize(
    "name", ["os.system", "load", "Domain", "PrivacyLedger", "privacy_statement", "__builtins__", "", "Popen"]
)
def test_record_may_name_estimators_of_skdp_only(name):
    record = skops.io.loads(SCALER, trusted=["skdp.persistence.Record"])
    record.type_name = name
    refuse(write_record(record), "unknown type|cannot be read|epsilon")


def test_removed_estimator_in_a_file_states_a_remedy():
    record = skops.io.loads(SCALER, trusted=["skdp.persistence.Record"])
    record.type_name = "DPSelectKBest"
    refuse(write_record(record), "unknown type 'DPSelectKBest'. It was removed: .* skdp 0.5.0. Use a model without")


@pytest.mark.parametrize(
    "name",
    [
        "sklearn.preprocessing._data.check_array",  # not public
        "sklearn.datasets._base.load_files",  # reads files
        "sklearn.externals.array_api_extra._at.at",
        "numpy.load",
        "scipy.stats._distn_infrastructure.rv_continuous",  # calls exec
        "sklearn.neighbors._kd_tree.KDTree",
    ],
)
def test_names_that_are_not_public_or_not_checked_are_untrusted(name):
    steps = pipeline.make_pipeline(preprocessing.FunctionTransformer(json.dumps))
    module, _, attribute = name.rpartition(".")
    schema = json.dumps({"__module__": module, "__class__": attribute})[1:-1].encode()
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(save_bytes(steps))) as old, zipfile.ZipFile(file, "w") as new:
        for member in old.namelist():
            content = old.read(member)
            found = re.compile(rb'"__class__": "dumps",\s*"__module__": "json"')
            if member == "schema.json":
                assert found.search(content)
                content = found.sub(schema, content)
                content = content.replace(b'"function": "dumps"', b'"function": "%s"' % attribute.encode())
            new.writestr(member, content)
    refuse(file.getvalue(), rf"`trusted` must contain the types \['{name}'\]")


def test_untrusted_types_are_loaded_on_request():
    steps = pipeline.make_pipeline(preprocessing.FunctionTransformer(json.dumps))
    data = save_bytes(steps)
    refuse(data, r"`trusted` must contain the types \['json.dumps'\]")
    assert skdp.load(io.BytesIO(data), trusted=["json.dumps"])[0].func is json.dumps


@pytest.mark.parametrize("attribute", ["fit", "__class__", "_validate_params", "transform", "set_output"])
def test_methods_are_not_replaced(attribute):
    refuse(edit(SCALER, "fitted", **{attribute: 1}), "must not replace methods of the class, got DPStandardScaler")


def test_edited_guarantee_raises_an_error():
    refuse(edit(SCALER, "fitted", guarantee_="epsilon = 0"), "`guarantee_` does not follow from the parameters")
    refuse(edit(SCALER, "parameters", epsilon=0.01), "`guarantee_` does not follow from the parameters")
    other = content_of(SYNTHESIZER)["estimator"]["fitted"]["guarantee"].state[0]
    assert '"epsilon": 1.0' in other

    def change(state):
        text = state["fitted"]["guarantee"].state[0].replace('"epsilon": 1.0', '"epsilon": 0.01')
        state["fitted"]["guarantee"].state[0] = text

    refuse(forge_file(SYNTHESIZER, change), "losses|`guarantee_` does not follow")


def test_guarantee_of_a_local_transformer_follows_from_its_protocol():
    refuse(edit(ENCODER, "parameters", epsilon=0.01), "`epsilon` was changed after fit")

    def change(state):
        text = state["fitted"]["protocol"]
        state["fitted"]["protocol"] = text.replace('"epsilon": 1.0', '"epsilon": 0.01', 1)

    refuse(forge_file(ENCODER, change), "does not follow|cannot be read")
    # An attribute beside the protocol is not set.
    data = edit(ENCODER, "fitted", guarantee_=skdp.persistence.pack(skdp.PrivacyGuarantee(0.001)))
    assert skdp.load(io.BytesIO(data)).guarantee_ == FITTED[2].guarantee_


@pytest.mark.filterwarnings("ignore:X and y are treated as true values")
def test_estimator_without_a_guarantee_gets_none():
    X, y = pd.DataFrame({"age": [1.0, 2.0, 3.0, 4.0]}), [0, 1, 0, 1]
    data = save_bytes(skdp.ReportLogisticRegression().fit(X, y))
    packed = skdp.persistence.pack(skdp.PrivacyGuarantee(0.001))
    refuse(edit(data, "fitted", guarantee_=packed), "`guarantee_` does not follow from the parameters")
