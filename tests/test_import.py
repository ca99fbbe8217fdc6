from __future__ import annotations

import subprocess
import sys

import pytest

# One process, for each takes seconds to import pandas and scikit-learn.
SCRIPT = """
import sys
import skdp, skdp.metrics, skdp.evaluation.attacks._display, skdp.evaluation.curves._display
print(sorted({name.split(".")[0] for name in sys.modules} & {"aif360", "fairlearn", "matplotlib"}))
sys.modules["aif360"] = sys.modules["fairlearn"] = None
from skdp.metrics import fairness_report
metrics = fairness_report([0, 1, 0, 1], [0, 1, 1, 1], list("aabb"), privileged="a", positive_label=1)
print(metrics["value"].tolist()[6:10])
"""


@pytest.mark.slow
def test_the_import_warns_of_nothing_and_imports_nothing_optional():
    done = subprocess.run([sys.executable, "-W", "error", "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[]\n[0.5, 2.0, 0.0, 0.5]\n"
    assert not done.stderr
