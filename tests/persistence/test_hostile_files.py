"""Files that are damaged or made by an attacker: the same estimator or a ValueError, in bounded time and memory."""

from __future__ import annotations

import io
import json
import pickle
import random
import stat
import struct
import time
import tracemalloc
from collections import defaultdict
from hashlib import sha256
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

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
    DPMarginalSynthesizer(domain=DECLARED, max_iter=3, random_state=0).fit(WORDS),
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


def saved(estimator):
    file = io.BytesIO()
    skdp.save(estimator, file, secrets=True)
    return file.getvalue()


def parts_of(data):
    with ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


FILES = [saved(estimator) for estimator in FITTED]
PARTS = [parts_of(data) for data in FILES]


def listed(parts):
    sums = "".join(f"{sha256(part).hexdigest()}  {name}\n" for name, part in parts.items() if name != "SHA256SUMS")
    return parts | {"SHA256SUMS": sums.encode()}


def written(parts, compression=ZIP_STORED):
    """Write parts; a list of pairs may have two of one name."""
    made = io.BytesIO()
    with ZipFile(made, "w", compression) as archive:
        for name, part in parts.items() if isinstance(parts, dict) else parts:
            archive.writestr(name, part)
    return made.getvalue()


def loaded(data, seconds=20):
    """Load a file; return None if it is refused."""
    begin, found, refusal = time.perf_counter(), None, None
    try:
        found = skdp.load(io.BytesIO(data))
    except ValueError as error:
        refusal = error
    assert time.perf_counter() - begin < seconds
    assert refusal is None or (str(refusal) and refusal.__cause__ is None)
    return found


def refused(data, match, most_bytes=32 << 20):
    begin = time.perf_counter()
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=match):
            skdp.load(io.BytesIO(data))
        assert tracemalloc.get_traced_memory()[1] < most_bytes
    finally:
        tracemalloc.stop()
    assert time.perf_counter() - begin < 20


def damaged(data, parts, rng):
    """Damage a file as accidents do."""
    way = rng.choice(["bits", "cut", "insert", "swap", "drop", "edit", "append"])
    changed = bytearray(data)
    if way == "bits":
        for _ in range(rng.choice([1, 1, 2, 8])):
            changed[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    elif way == "cut":
        start = rng.randrange(len(data))
        del changed[start : start + rng.choice([1, 16, len(data)])]
    elif way == "insert":
        place = rng.randrange(len(data))
        changed[place:place] = rng.randbytes(rng.choice([1, 16, 1000]))
    elif way == "append":
        changed += rng.randbytes(rng.choice([1, 30]))
    else:
        parts, names = dict(parts), rng.sample(sorted(parts), 2)
        if way == "swap":
            parts[names[0]], parts[names[1]] = parts[names[1]], parts[names[0]]
        elif way == "drop":
            del parts[names[0]]
        else:
            text = bytearray(parts["estimator.json"])
            place = rng.randrange(len(text))
            text[place : place + rng.choice([0, 1, 3])] = rng.choice(
                [b"", b"0", b"9", b'"', b"[", b"}", b"null", b"1e5"]
            )
            parts["estimator.json"] = bytes(text)
        return written(parts)
    return bytes(changed)


def check_damaged(number, seed):
    rng, refusals = random.Random(seed), 0
    for _ in range(number):
        place = rng.randrange(len(FILES))
        found = loaded(damaged(FILES[place], PARTS[place], rng))
        refusals += found is None
        if found is not None:
            assert_same(found, FITTED[place])
    assert refusals > number / 2


def test_damaged_files():
    tracemalloc.start()
    try:
        check_damaged(40, 0)
        assert tracemalloc.get_traced_memory()[1] < 32 << 20
    finally:
        tracemalloc.stop()
    check_damaged(110, 1)


VALUES = [
    *(None, 0, -1, 1, 16, 10**7, 10**12, 2**63, 10**400, 1e308, -1e-9, float("nan"), float("inf"), True),
    *("", "x", "auto", "\ud800", [], {}, [[]]),
    *({"tuple": []}, {"mapping": []}, {"float": "nan"}, {"decimal": "1e999999999"}, {"fraction": "1/0"}),
    *({"array": "array_0.npy"}, {"numpy": ["<U900000000", "x"]}, {"objects": [[0, 10**18], []]}),
    *({"range": [0, 10**15, 1]}, {"range": [0, 60000, 1]}, {"slice": [0, 10**18, 1]}, {"timestamp": "x" * 1000}),
    *({"ledger": {"epsilon": 1.0, "delta": 0}}, {"secret": "00"}, {"type": "<f8"}, {"dtype": "|O"}, {"bytes": "00"}),
    *({"interval": [[0, 1], False]}, {"domain": {"columns": [["a", [1, 2]]], "observed": [7]}}),
    {"estimator": {"class": "skdp.DPMean", "parameters": {}}},
]


def places(node, here=()):
    if here:
        yield here
    for key, child in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        yield from places(child, (*here, key))


def forged(parts, rng):
    """Change the JSON of a file, and list the digests of the forgery: as an attacker would."""
    header = json.loads(parts["estimator.json"])
    groups = defaultdict(list)
    for place in places(header["estimator"]):
        groups[place[:2]].append(place)
    for _ in range(rng.choice([1, 1, 2])):
        *way, last = rng.choice(rng.choice(list(groups.values())))
        node = header["estimator"]
        try:
            for key in way:
                node = node[key]
            if rng.random() < 0.2:
                del node[last]
            else:
                node[last] = json.loads(json.dumps(rng.choice(VALUES)))
        except (LookupError, TypeError):
            pass  # the place has gone with the change before
    return written(listed(parts | {"estimator.json": json.dumps(header).encode()}))


def check_forged(number, seed):
    rng, refusals = random.Random(seed), 0
    for _ in range(number):
        place = rng.randrange(len(FILES))
        refusals += loaded(forged(PARTS[place], rng)) is None
    assert refusals > number / 4


def test_forged_files():
    tracemalloc.start()
    try:
        check_forged(20, 0)
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()
    check_forged(80, 1)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 12))
def test_many_damaged_and_forged_files(seed):
    check_damaged(1000, seed)
    check_forged(1000, seed)


SCALER, HISTOGRAM = PARTS[0], PARTS[2]


def with_json(change, parts=SCALER):
    header = json.loads(parts["estimator.json"])
    change(header["estimator"])
    return written(listed(parts | {"estimator.json": json.dumps(header).encode()}))


def test_metadata_that_no_method_asks_for():
    for method, message in (("_type", "by an unknown method"), ("transform_all", "AttributeError")):
        refused(with_json(lambda content, method=method: content.update(routing={method: {"ids": True}})), message)


class TestArchives:
    def test_bombs(self):
        for size, message in ((1 << 26, "too large"), (1 << 24, "too long")):
            text = b" " * size + SCALER["estimator.json"]
            refused(written(SCALER | {"estimator.json": text}, ZIP_DEFLATED), message, 1 << 20)

    def test_a_size_that_is_a_lie(self):
        """What the list of parts calls small is read no further than that."""
        bomb = written(SCALER | {"estimator.json": b" " * (1 << 25)}, ZIP_DEFLATED)
        refused(bomb.replace(struct.pack("<I", 1 << 25), struct.pack("<I", 100)), "cannot be read", 1 << 20)

    def test_parts_of_one_name(self):
        with pytest.warns(UserWarning, match="Duplicate"):
            data = written([*SCALER.items(), ("estimator.json", b"{}")])
        refused(data, "two parts of one name")

    def test_parts_that_nobody_wants(self):
        for name in ("../../outside", "/etc/outside", "array_9.npy", "estimator.pkl"):
            refused(written(SCALER | {name: b"x"}), "other parts than it lists")
            refused(written(listed(SCALER | {name: b"x"})), "a part that nothing refers to")

    def test_a_symbolic_link(self):
        link = ZipInfo("array_0.npy")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        made = io.BytesIO()
        with ZipFile(made, "w") as archive:
            for name, part in listed(SCALER | {"array_0.npy": b"/etc/hostname"}).items():
                archive.writestr(link if name == "array_0.npy" else name, part)
        refused(made.getvalue(), "an array is of another kind")

    @each("data", [b"", b"PK", b"x" * 1000, pickle.dumps(1), written({})])
    def test_no_such_file(self, data):
        refused(data, "no file that skdp.save wrote|header of the file cannot be read")


def npy(header, data=b"\0" * 16):
    header = header.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + data


class TestArrays:
    @each(
        "array",
        [
            npy(f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({10**12},), }}"),
            npy(f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({10**9}, {10**9}), }}"),
            npy("{'descr': '<f8', 'fortran_order': False, 'shape': (3,), }"),
            npy(f"{{'descr': '<f8', 'fortran_order': False, 'shape': (0, {10**17}, {10**17}), }}", b""),
            npy("{'descr': '<f8', 'fortran_order': False, 'shape': " + "(" * 40 + "2" + ")" * 40 + ", }"),
            npy("{'descr': '<f8', 'fortran_order': False, 'shape': (__import__('os').getpid(),), }"),
            npy("{'descr': '|O', 'fortran_order': False, 'shape': (2,), }"),
            npy("{'descr': '|V8', 'fortran_order': False, 'shape': (2,), }"),
            npy("{'descr': '<U0', 'fortran_order': False, 'shape': (99999999999,), }", b""),
            npy("{'descr': '|b1', 'fortran_order': False, 'shape': (2,), }", b"\1\7"),
            npy("{'descr': '<U1', 'fortran_order': False, 'shape': (1,), }", b"\xff" * 4),
            npy("{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (2,), }"),
            b"\x93NUMPY\x03\x00" + b"\xff" * 8,
            b"",
        ],
    )
    def test_headers(self, array):
        refused(written(listed(SCALER | {"array_0.npy": array})), "an array|reshape|cannot reshape|too big")

    def test_pickled_objects(self):
        """`numpy.save` writes a pickle for them."""
        fired = []
        file = io.BytesIO()
        np.save(file, np.array([_Fires()], object), allow_pickle=True)
        for content in (file.getvalue(), pickle.dumps(_Fires())):
            refused(written(listed(SCALER | {"array_0.npy": content})), "an array is of another kind")
        assert fired == _Fires.fired == []

    def test_an_array_that_is_named_many_times(self):
        def change(content):
            content["attributes"]["extra_"] = [{"array": "array_0.npy"}] * 1000

        refused(with_json(change), "read once")


class _Fires:
    fired = []  # noqa: RUF012

    def __reduce__(self):
        return _Fires.fired.append, ("fired",)


class TestJson:
    @pytest.mark.parametrize("depth", [500, 10**5, 10**6])
    def test_depth(self, depth):
        for opening, closing in (("[", "]"), ('{"tuple":[', "]}")):
            text = SCALER["estimator.json"].replace(b'"epsilon": 100.0', b'"epsilon": DEEP')
            assert b"DEEP" in text
            text = text.replace(b"DEEP", (opening * depth + closing * depth).encode())
            data = written(listed(SCALER | {"estimator.json": text}))
            if depth > 1000:
                refused(data, "header of the file cannot be read", 128 << 20)
            else:
                loaded(data)

    @each(
        "name", ["os.system", "builtins.eval", "skdp.load", "sklearn.ensemble.RandomForestClassifier", "", None, [], 1]
    )
    def test_classes(self, name):
        refused(with_json(lambda content: content.update({"class": name})), "no class that skdp.load knows")

    @each("name", ["fit", "__class__", "_validate_params", "transform", "", "_", "a-b_", "set_"])
    def test_attributes(self, name):
        def change(content):
            content["attributes"][name] = 1

        if name == "set_":  # a fitted attribute that nothing reads
            assert loaded(with_json(change)) is not None
        else:
            refused(with_json(change), "has no attribute")

    def test_another_version_of_scikit_learn_is_said(self):
        header = json.loads(SCALER["estimator.json"]) | {"scikit-learn": "0.1"}
        with pytest.warns(InconsistentVersionWarning, match=r"0\.1"):
            loaded(written(listed(SCALER | {"estimator.json": json.dumps(header).encode()})))

    def test_attributes_of_all(self):
        for change in ({"n_features_in_": -1}, {"guarantee_": "epsilon = 0"}, {"feature_names_in_": ["a"]}):
            refused(with_json(lambda content, change=change: content["attributes"].update(change)), "feature|guarantee")

    def test_a_cache(self):
        def change(content):
            content["parameters"]["memory"] = "/a/folder/of/pickles"

        refused(with_json(change, PARTS[-1]), "memory")

    def test_a_ledger_names_no_file(self, tmp_path):
        def change(content):
            content["parameters"]["ledger"] = {"ledger": {"path": str(tmp_path / "l"), "epsilon": 1.0, "delta": 0.0}}

        assert loaded(with_json(change)).ledger.path is None
        assert not list(tmp_path.iterdir())

    def test_a_guarantee_that_is_too_good_is_computed_again(self):
        """The guarantee of a local transformer is not in the file."""
        for epsilon in (1e-9, 50.0):

            def change(content, epsilon=epsilon):
                content["parameters"]["epsilon"] = epsilon

            refused(with_json(change, PARTS[4]), "another protocol")

    @each("kind", ["timestamp", "date", "time", "timedelta"])
    def test_long_times(self, kind):
        refused(
            with_json(lambda content: content["parameters"].update(bounds={kind: "1 " * 500_000})), "time is too long"
        )

    def test_a_guarantee_beside_a_protocol(self):
        """Attributes of a local transformer or a synthesizer would replace what is computed or checked."""
        attributes = {"guarantee_": {"guarantee": {"epsilon": 0.001}}}
        for place in (3, 4, 5, 6):
            refused(with_json(lambda content: content.update(attributes=attributes), PARTS[place]), "has no part")

            def change(content):
                content.pop("protocol", content.pop("model", None))
                content["attributes"] = attributes

            refused(with_json(change, PARTS[place]), "has no part")

    @pytest.mark.parametrize("key", ["protocol", "model"])
    def test_a_part_of_another_class(self, key):
        """To fit a curator's estimator again would charge the ledger."""
        part = json.loads(PARTS[4 if key == "protocol" else 3]["estimator.json"])["estimator"][key]

        def change(content):
            content["parameters"]["ledger"] = {"ledger": {"epsilon": 9.0, "delta": 0.0}}
            content[key] = part

        ledger = PrivacyLedger(epsilon=9.0)
        with pytest.raises(ValueError, match="has no part"):
            skdp.load(io.BytesIO(with_json(change)), ledger=ledger)
        assert ledger.spent.epsilon == 0

    def test_ranges(self):
        def change(content):
            content["parameters"]["bounds"] = [{"range": [0, 60_000, 1]}] * 10

        refused(with_json(change), "ranges have at most")
