import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import skdp

# One process for all tests, because starting one takes seconds: it prints the modules after each import.
SCRIPT = """
import sys
heavy, optional = {"narwhals", "numpy", "pandas", "scipy", "sklearn", "joblib"}, {"aif360", "fairlearn", "matplotlib"}
packages = lambda: {name.split(".")[0] for name in sys.modules}
ours = lambda: sorted({".".join(name.split(".")[:3]) for name in sys.modules if name.startswith("skdp")})
import skdp; skdp.__version__; dir(skdp)
print(sorted(packages() & heavy), ours())
from skdp.cli import main
for words in (["--help"], ["--version"], ["privatize", "--help"]):
    try:
        main(words)
    except SystemExit as end:
        assert end.code == 0
print(sorted(packages() & heavy), ours())
from skdp import PrivacyLedger
print(sorted(packages() & {"narwhals", "sklearn"}), sorted({name.split(".")[1] for name in ours() if "." in name}))
from skdp import RandomizedResponseEncoder
print(sorted(set(sys.modules) & {"scipy.signal", "sklearn.linear_model"}))
import skdp.metrics, skdp.evaluation.displays
print(sorted(packages() & optional))
sys.modules["aif360"] = sys.modules["fairlearn"] = None
from skdp.metrics import fairness_report
# Each group has all four cells, so that no rate is undefined.
true, predicted = [0, 0, 1, 1] + [0] * 4 + [1] * 4, [0, 1, 0, 1] + [0, 1, 1, 1] * 2
metrics = fairness_report(true, predicted, ["a"] * 4 + ["b"] * 8, privileged="a", positive_label=1)
print(metrics.set_index("metric")["value"][["statistical_parity_difference", "average_odds_difference"]].tolist())
"""


def test_imports_are_few_silent_and_without_optional_packages():
    # Modules are counted, because a time limit would fail on a busy machine.
    command = [sys.executable, "-W", "error", "-c", SCRIPT]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    first, *_, command, ledger, encoder, optional, report = done.stdout.splitlines()
    assert first == "[] ['skdp']"
    assert command == "[] ['skdp', 'skdp.cli', 'skdp.cli._options']"
    assert ledger == "[] ['_arrays', '_json', 'cli', 'exact', 'privacy', 'randomness']"
    assert (encoder, optional, report) == ("[]", "[]", "[0.25, 0.25]")


def test_names_for_type_checkers_equal_the_names_at_run_time():
    tree = ast.parse(Path(skdp.__file__).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    names = {name.name: (node.module, name.asname) for node in block.body for name in node.names}
    assert all(alias == name for name, (_, alias) in names.items())  # otherwise type checkers treat it as private
    packages = {name for name, (module, _) in names.items() if module == "skdp"}
    assert packages == set(skdp._PACKAGES)
    assert {name: module for name, (module, _) in names.items() if name not in packages} == skdp._MODULES
    for name in packages:
        assert getattr(skdp, name) is import_module(f"skdp.{name}")
        assert getattr(skdp, name).__all__  # a package without public names is internal


def test_error_of_a_removed_name_states_a_remedy():
    assert not {*skdp._REMOVED} & {*dir(skdp)}
    with pytest.raises(AttributeError, match=r"no attribute 'DPSelectKBest'\. Use a model without a selection"):
        _ = skdp.DPSelectKBest


def test_each_name_is_public_in_its_package():
    for name, module in skdp._MODULES.items():
        assert getattr(skdp, name) is getattr(import_module(module), name)
        assert name in import_module(module).__all__, name
    assert set(skdp.__all__) <= set(dir(skdp))
