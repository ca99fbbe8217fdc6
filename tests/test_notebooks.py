"""What the notebooks claim: each script is run, and its results are checked against its text.

The notebooks themselves hold no assertions. Warnings are errors here, as in all tests.
"""

from __future__ import annotations

import math
import runpy
from pathlib import Path

import jupytext
import numpy as np
import pytest

FOLDER = Path(__file__).parent.parent / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
SCRIPTS = sorted(FOLDER.glob("*.py"))
PARITY, OPPORTUNITY = "statistical_parity_difference", "equal_opportunity_difference"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_notebook_is_its_script_with_output(path):
    script = path.with_suffix(".py")
    cells, sources = ([(cell.cell_type, cell.source) for cell in jupytext.read(file).cells] for file in (path, script))
    assert cells == sources
    code = [cell for cell in jupytext.read(path).cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in code)
    assert not any(output.output_type == "error" for cell in code for output in cell.outputs)
    assert any("image/png" in output.get("data", ()) for cell in code for output in cell.outputs)  # a picture


def test_there_is_a_notebook_of_each_script():
    assert NOTEBOOKS
    assert [path.stem for path in NOTEBOOKS] == [path.stem for path in SCRIPTS]


def run(name):
    """Run a script as far as it goes, and return what it defined."""
    pyplot = pytest.importorskip("matplotlib.pyplot")
    try:
        return runpy.run_path(str(FOLDER / f"{name}.py"))
    finally:
        pyplot.close("all")


def test_local_model():
    found = run("01_local_model")
    assert found["table"]["chapter within 99 %"].all()
    people = found["true_count"], len(found["sales"]) - found["true_count"]
    assert (
        abs(3721.5 - people[0]) <= 2.576 * found["coins"].count_variances(people)[0] ** 0.5
    )  # the chapter's own count
    ranking = found["ranking"]["root mean square error of a count"]
    assert ranking.min() / ranking["unary_encoding with p = 3/4, q = 1/4"] == pytest.approx(0.75, abs=0.03)


@pytest.mark.long
def test_local_sensitivity():
    found = run("02_local_sensitivity")
    assert max(found["share_of_corrected"].values()) <= 1 + 1e-9
    assert max(found["share_of_smooth"].values()) <= 1 + 1e-9
    assert found["of_ratio"][0.5] <= 1
    assert found["of_ratio"][1.0] > 1.9
    assert found["moved"] <= found["width"]
    assert set(found["table"][["ε = 0.1", "ε = 1"]].idxmin()) == {"two sums (DPMean)"}


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:by their noisy scores, some pairs of columns depend strongly")  # as the text says
def test_synthetic_data():
    found = run("03_synthetic_data")
    assert found["distance"] < 0.001
    errors, cells = found["errors"], "age × occupation"
    assert errors.loc[("1-way", "ε = 0.1"), "age"] < errors.loc[("2-way", "ε = 0.1"), "age"]
    assert errors.loc[("2-way", "ε = 0.02"), cells] > errors.loc[("1-way", "ε = 0.02"), cells]
    assert errors.loc[("2-way", "ε = 1"), cells] < errors.loc[("1-way", "ε = 1"), cells]
    assert len(found["without_him"]) == found["n"] - 1
    assert found["chapter"][0] > 0.97 * found["runs"]
    assert found["chapter"][1] == 0
    assert abs(found["off"]) < 4 * found["error"]
    assert np.allclose(*found["answers"])
    assert all(zero == 1 and one < 0.5 for zero, one in found["possible"].values())
    model, alone, second = found["model"], found["alone"], found["quality"].loc["real rows, resampled"]
    assert model.loc[10, "2-way"] < 1.5 * second["2-way"]
    assert (model[["2-way", "3-way"]] < alone[["2-way", "3-way"]]).all(axis=None)


@pytest.mark.long
def test_age_sex_study():
    found = run("04_age_sex_study")
    assert found["true_counts"].tolist() == [8196, 14831, 6499, 15696]
    assert (found["recovered"] == found["truth"]).all()
    summary, repairs = found["summary"], found["repairs"]
    exact = found["encoder"].count_variances(found["true_counts"]).sum() ** 0.5
    assert math.isclose(exact, summary.loc[1.0, "l2_rms_expected"])
    assert summary["coverage"].between(0.93, 0.97).all()
    assert math.isclose(repairs.loc["simplex", "mean total"], found["n"])
    assert repairs["rms L2 error"].idxmin() == "simplex"
    assert found["shares"][1] < 0.5
    assert found["shares"][10] > 0.75
    leak, honest = found["leak"], found["honest"]
    assert leak.accuracy == 1
    assert honest.accuracy_without_report - 2 * honest.std_error > honest.bayes_bound
    means = found["means"]
    assert means["roc_auc"].is_monotonic_increasing
    assert means["statistical_parity_difference"].max() < -0.15
    compared = found["compared"]
    assert compared.loc[("AUC", "privatized − full"), "upper"] < 0
    includes_zero = (compared["lower"] < 0) & (compared["upper"] > 0)
    assert includes_zero.xs("privatized − without both columns", level=1).all()
    values = found["values"]
    assert values["true sex"].between(values["lower"], values["upper"]).all()
    rows = found["statement"].rows
    assert set(rows.loc[~rows["protection"].str.startswith("unprotected"), "column"]) == set(found["domain"].columns)


@pytest.mark.long
def test_fairness_under_ldp():
    found = run("05_fairness_under_ldp")
    peers = found["peers"]
    np.testing.assert_allclose(peers["aif360"], peers["skdp"], rtol=1e-9)
    np.testing.assert_allclose(peers["fairlearn"].dropna(), peers["skdp"].abs()[[PARITY, OPPORTUNITY]], rtol=1e-9)
    shrunk = found["shrunk"].loc[PARITY]
    assert np.allclose(shrunk["their ratio"], shrunk["theory"], atol=0.02)
    for row in found["repeated"].values():
        assert abs(row["mean"] - row["true"]) < 4 * row["± its error"]
    assert (found["change"].groupby("epsilon")["accuracy"].mean() < 0).all()
