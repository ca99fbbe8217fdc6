"""A synthesizer of reports in a file: what was fitted, and nothing that does not fit."""

import io
import json
from hashlib import sha256
from zipfile import ZipFile

import numpy as np
import pandas as pd
import pytest

import skdp
from skdp import RandomizedResponseEncoder, ReportSynthesizer

DOMAIN = {"a": ["x", "y"], "b": [0, 1, 2]}


@pytest.fixture
def fitted():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.choice(["x", "y"], 600), "b": rng.integers(0, 3, 600)})
    X.loc[X["a"] == "x", "b"] = 0
    encoder = RandomizedResponseEncoder(5.0, categories=DOMAIN, random_state=0).fit(X)
    return ReportSynthesizer(encoder, random_state=0).fit(encoder.transform(X))


def files(fitted):
    file = io.BytesIO()
    skdp.save(fitted, file)
    with ZipFile(file) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def loaded(parts):
    file = io.BytesIO()
    with ZipFile(file, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    file.seek(0)
    return skdp.load(file)


def test_answers_are_the_same(fitted):
    again = loaded(files(fitted))
    pd.testing.assert_frame_equal(again.marginal(["a", "b"]), fitted.marginal(["a", "b"]))
    pd.testing.assert_frame_equal(again.pair_scores_, fitted.pair_scores_)
    assert again.guarantee_ == fitted.guarantee_
    assert again.selected_cliques_ == [("a",), ("b",), ("a", "b")]


def test_an_encoder_that_was_fitted_again_is_refused(fitted):
    fitted.encoder.set_params(epsilon=1.0).fit(pd.DataFrame({"a": ["x"], "b": [0]}))
    with pytest.raises(ValueError, match="encoder was changed after fit"):
        skdp.save(fitted, io.BytesIO())


def spoilt(parts, change):
    """Change the part of the reports in the JSON of a file, and list the digests of the forgery."""
    content = json.loads(parts["estimator.json"])

    def find(value):
        if isinstance(value, dict):
            if "support_0" in value.get("arrays", {}):
                return value
            value = list(value.values())
        found = map(find, value) if isinstance(value, list) else []
        return next((one for one in found if one is not None), None)

    change(find(content))
    parts = parts | {"estimator.json": json.dumps(content).encode()}
    del parts["SHA256SUMS"]
    sums = "".join(f"{sha256(part).hexdigest()}  {name}\n" for name, part in parts.items())
    return parts | {"SHA256SUMS": sums.encode()}


@pytest.mark.chosen("<lambda>0", "<lambda>3", "<lambda>5", "<lambda>9")
@pytest.mark.parametrize(
    "change",
    [
        lambda reports: reports.update(n_rows=0),
        lambda reports: reports.update(n_rows=2**60),
        lambda reports: reports.update(sizes=[600]),
        lambda reports: reports.update(sizes=[600, -1]),
        lambda reports: reports.update(sizes=[600, 601]),
        lambda reports: reports.update(cliques=[[0, 1], [1]]),
        lambda reports: reports.update(pairs=[[1, 0]]),
        lambda reports: reports.update(pairs=[]),
        lambda reports: reports["marginals"][0].update(clique=[7]),
        lambda reports: reports["arrays"].update(both=reports["arrays"]["products"]),
        lambda reports: reports.pop("template"),
    ],
)
def test_what_does_not_fit_is_refused(fitted, change):
    with pytest.raises(ValueError, match="of the file cannot be read") as caught:
        loaded(spoilt(files(fitted), change))
    assert "was changed" not in str(caught.value)  # it is not the digests that refuse it
