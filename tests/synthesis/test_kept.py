"""The part of a correlation that a model keeps: in the quality, in the statement, in a notebook and in warnings."""

import io

import numpy as np
import pandas as pd
import pytest

import skdp
from skdp import DPColumnSynthesizer, DPLinkedSynthesizer, DPMarginalSynthesizer, Interval, privacy_statement

DOMAIN = {"x": Interval(-5.0, 5.0, bins=20), "y": Interval(-8.0, 8.0, bins=20), "z": ["u", "v"]}


def draw_rows(n=8_000):
    rng = np.random.default_rng(0)
    x = rng.normal(size=n)
    return pd.DataFrame({"x": x, "y": x + rng.normal(size=n), "z": rng.choice(["u", "v"], n)})


def fit_rows(marginals=(("x", "y"), ("y", "z"))):
    model = DPMarginalSynthesizer(3.0, delta=1e-6, domain=DOMAIN, marginals=marginals, random_state=0)
    return model.fit(draw_rows())


def fit_columns(method="fit"):
    model = DPColumnSynthesizer(["x"], 3.0, delta=1e-6, domain=DOMAIN, random_state=0)
    rows = draw_rows()
    if method == "fit":
        return model.fit(rows)
    model.fit_transform(rows.drop(columns="y"), rows["y"].round())
    return model


def fit_linked():
    rows = draw_rows()
    people = pd.DataFrame({"id": range(4_000), "z": rows["z"][:4_000]})
    model = DPLinkedSynthesizer(
        9.0, delta=1e-6, domain=DOMAIN, person="id", max_rows_per_person=2, max_cells=20_000, random_state=0
    )
    return model.fit(people, rows[["x", "y"]].assign(id=np.arange(8_000) // 2))


MODELS = {"rows": fit_rows, "columns": fit_columns, "linked": fit_linked}
FLAT = {  # models of independent columns
    "rows": ("_estimation.MAX_SWEEPS", 0),
    "columns": ("_column_model.ORDERED_LOGIT_STD", 1e-9),
    "linked": ("_estimation.MAX_SWEEPS", 0),
}


@pytest.mark.parametrize("name", MODELS)
def test_smallest_kept_part_is_stated(name):
    model = MODELS[name]()
    text = dict(model.guarantee_.method)["kept"]
    assert text.startswith("Measured pairs keep at least ")
    assert 0.9 <= float(text.split()[5]) <= 1.05
    (note,) = privacy_statement(model).to_dict()["method"]
    assert text in note
    assert text in model._repr_mimebundle_()["text/html"]
    file = io.BytesIO()
    skdp.save(model, file)
    file.seek(0)
    assert dict(skdp.load(file).guarantee_.method)["kept"] == text


@pytest.mark.parametrize("name", MODELS)
def test_fit_warns_of_a_flattened_pair(name, monkeypatch):
    path, value = FLAT[name]
    monkeypatch.setattr(f"skdp.synthesis.model.{path}", value)
    with pytest.warns(UserWarning, match=r"less than 0.9 of the rank correlation of 1 measured pairs: \('x', 'y'\)"):
        model = MODELS[name]()
    assert float(dict(model.guarantee_.method)["kept"].split()[5]) < 0.3


def test_dependence_on_the_target_is_kept(monkeypatch):
    fit_columns("fit_transform")
    monkeypatch.setattr("skdp.synthesis.model._column_model.ORDERED_LOGIT_STD", 1e-9)
    with pytest.warns(UserWarning, match=r"\('x', 'y'\)"):
        fit_columns("fit_transform")


def test_quality_has_the_kept_part_of_ordered_pairs():
    kept = fit_rows().marginal_quality_["kept"]
    assert kept["x, y"] == pytest.approx(1, abs=0.05)
    assert np.isnan(kept["y, z"])  # z has no order
    assert "kept" not in dict(fit_rows([("y", "z")]).guarantee_.method)
