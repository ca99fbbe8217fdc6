"""Results of the notebooks: each script is run, and its results are compared with its text.

The notebooks contain no assertions. Warnings are errors here, as in all tests.
"""

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
def test_notebook_equals_its_script_with_output(path):
    script = path.with_suffix(".py")
    cells, sources = ([(cell.cell_type, cell.source) for cell in jupytext.read(file).cells] for file in (path, script))
    assert cells == sources
    code = [cell for cell in jupytext.read(path).cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in code)
    assert not any(output.output_type == "error" for cell in code for output in cell.outputs)
    assert any("image/png" in output.get("data", ()) for cell in code for output in cell.outputs)  # a figure


def test_each_script_has_a_notebook():
    assert NOTEBOOKS
    assert [path.stem for path in NOTEBOOKS] == [path.stem for path in SCRIPTS]


def run(name):
    """Run a script, and return its variables."""
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
    )  # the number that the text states
    ranking = found["ranking"]["root mean square error of a count"]
    assert ranking.min() / ranking["unary_encoding with p = 3/4, q = 1/4"] == pytest.approx(0.75, abs=0.03)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:by their noisy scores, some pairs of columns depend strongly")  # as the text states
@pytest.mark.parametrize("name", ["02_local_sensitivity", "03_synthetic_data"])
def test_notebooks_run(name):
    assert run(name)


@pytest.mark.long
def test_age_sex_study():
    found = run("04_age_sex_study")
    assert found["true_counts"].tolist() == [8196, 14831, 6499, 15696]
    assert (found["recovered"] == found["truth"]).all()
    summary = found["summary"]
    exact = found["encoder"].count_variances(found["true_counts"]).sum() ** 0.5
    assert math.isclose(exact, summary.loc[1.0, "L2 expected"])
    assert summary["coverage"].between(0.93, 0.97).all()
    values = found["values"]
    assert values["true sex"].between(values["lower"], values["upper"]).all()


@pytest.mark.long
def test_fairness_under_ldp():
    found = run("05_fairness_under_ldp")
    peers = found["peers"]
    np.testing.assert_allclose(peers["aif360"], peers["skdp"], rtol=1e-9)
    np.testing.assert_allclose(peers["fairlearn"].dropna(), peers["skdp"].abs()[[PARITY, OPPORTUNITY]], rtol=1e-9)
    shrunk = found["shrunk"].loc[PARITY]
    assert np.allclose(shrunk["their ratio"], shrunk["theory"], atol=0.02)
