from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import skdp

# One process, for each takes seconds to import pandas and scikit-learn.
SCRIPT = """
import sys
import skdp, skdp.metrics, skdp.evaluation.displays
print(sorted({name.split(".")[0] for name in sys.modules} & {"aif360", "fairlearn", "matplotlib"}))
sys.modules["aif360"] = sys.modules["fairlearn"] = None
from skdp.metrics import fairness_report
metrics = fairness_report([0, 1, 0, 1], [0, 1, 1, 1], list("aabb"), privileged="a", positive_label=1)
print(metrics["value"].tolist()[6:10])
"""

HEAVY = {"narwhals", "numpy", "pandas", "scipy", "sklearn", "joblib"}
LIGHT = """
import sys
{statement}
print(sorted({{name.split(".")[0] for name in sys.modules}} & {heavy}))
print(sorted(name for name in sys.modules if name.startswith("skdp")))
"""


def run(script):
    return subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=False)


def test_the_import_warns_of_nothing_and_imports_nothing_optional():
    done = run(SCRIPT)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[]\n[0.5, 2.0, 0.0, 0.5]\n"
    assert not done.stderr


def test_the_import_is_quick():
    # Modules are counted, as a clock would fail on a machine that is busy.
    done = run(LIGHT.format(statement="import skdp; skdp.__version__; dir(skdp)", heavy=HEAVY))
    assert done.stdout.splitlines() == ["[]", "['skdp']"], done.stderr


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["privatize", "--help"]])
def test_what_the_command_says_of_itself_is_quick(words):
    statement = f"""
from skdp.cli import main
try:
    main({words})
except SystemExit as end:
    assert end.code == 0
"""
    done = run(LIGHT.format(statement=statement, heavy=HEAVY))
    assert done.stdout.splitlines()[-2:] == ["[]", "['skdp', 'skdp.cli', 'skdp.cli._options']"], done.stderr


def test_a_name_imports_no_other_room():
    done = run(LIGHT.format(statement="from skdp import PrivacyLedger", heavy={"narwhals", "sklearn"}))
    rooms = {name.split(".")[1] for name in ast.literal_eval(done.stdout.splitlines()[1]) if "." in name}
    assert done.stdout.startswith("[]\n"), done.stderr
    assert rooms == {"_json", "exact", "privacy"}


def test_type_checkers_read_the_same_names():
    tree = ast.parse(Path(skdp.__file__).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    names = {name.name: (node.module, name.asname) for node in block.body for name in node.names}
    assert all(alias == name for name, (_, alias) in names.items())  # otherwise type checkers take it for private
    packages = {name for name, (module, _) in names.items() if module == "skdp"}
    assert packages == set(skdp._PACKAGES)
    assert {name: module for name, (module, _) in names.items() if name not in packages} == skdp._MODULES
    for name in packages:
        assert getattr(skdp, name) is import_module(f"skdp.{name}")
        assert getattr(skdp, name).__all__  # a room without public names is internal


def test_each_name_is_that_of_its_room():
    for name, module in skdp._MODULES.items():
        assert getattr(skdp, name) is getattr(import_module(module), name)
        assert name in import_module(module).__all__, name
    assert set(skdp.__all__) <= set(dir(skdp))
