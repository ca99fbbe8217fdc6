"""Names and defaults of public parameters: one word for each concept (docs/project/decisions.md)."""

import inspect

import pytest

import skdp
from skdp.privacy import Mu
from tests.central.estimators import EVERY, fit_estimator, make_estimator, whole
from tests.packages import ROOMS

# Former names of the person of a row.
FORMER = {"record_id", "person_column", "person_id"}
GAUSSIAN = {"DPLogisticRegression", "DPAdditiveClassifier", "DPAdditiveRegressor"}


def list_callables():
    """List the public callables and their public methods, by qualified name."""
    found = {}
    for room in ROOMS:
        for name in getattr(room, "__all__", ()):
            public = getattr(room, name)
            if not callable(public):
                continue
            found[name] = public
            if inspect.isclass(public):
                methods = inspect.getmembers(public, inspect.isfunction)
                found |= {f"{name}.{method}": value for method, value in methods if not method.startswith("_")}
    return found


def list_parameters():
    """List (qualified name, parameter) of all public signatures."""
    for name, public in list_callables().items():
        try:
            signature = inspect.signature(public)
        except ValueError:  # a type of annotations
            continue
        for parameter in signature.parameters.values():
            yield name, parameter


def test_delta_is_a_number_in_all_signatures():
    defaults = {name: p.default for name, p in list_parameters() if p.name == "delta"}
    assert len(defaults) > 20
    for name, default in defaults.items():
        is_dataclass = name in {"PrivacyGuarantee", "PrivacyLedger", "Rho", "Mu"}
        allowed = {1e-6} if name in GAUSSIAN else {0.0, inspect.Parameter.empty}
        assert is_dataclass or default in allowed, name


def test_owner_of_several_rows_is_called_person():
    names = {p.name for _, p in list_parameters()}
    assert not names & FORMER
    assert not [name for name, p in list_parameters() if p.name in {"groups", "key"} and name.endswith(".fit")]
    for name, p in list_parameters():
        if p.name == "person" and name.endswith((".fit", ".fit_resample", ".transform")):
            assert p.kind is p.KEYWORD_ONLY, name
            assert p.default is None, name


@pytest.mark.parametrize("name", [name for name in EVERY if "delta" in make_estimator(name).get_params()])
def test_delta_none_is_refused(name):
    model = make_estimator(name, delta=None)
    with pytest.raises((TypeError, ValueError), match=r"^`delta` must be a number"):
        fit_estimator(model, whole(name))


@pytest.mark.filterwarnings("ignore:The noise:UserWarning")
@pytest.mark.parametrize("name", sorted(GAUSSIAN))
def test_delta_of_gaussian_noise_is_positive(name):
    with pytest.raises(ValueError, match=rf"^`delta` must be in \(0, 1\), got 0\. {name} adds Gaussian"):
        fit_estimator(make_estimator(name, delta=0.0), whole(name))
    with pytest.raises(
        ValueError, match=r"^`delta` must be 1e-06 with `epsilon=Mu.*, which includes a delta, got 0.1. Omit it"
    ):
        fit_estimator(make_estimator(name, epsilon=Mu(1.0, delta=1e-5), delta=0.1), whole(name))
    fitted = fit_estimator(make_estimator(name, epsilon=Mu(1.0, delta=1e-5), delta=1e-6), whole(name))
    assert fitted.guarantee_.delta == 1e-5


# The order of shared parameters: the budget, the declared values, the parameters of the method, and the release.
DECLARED = ["epsilon", "delta", "by", "categories", "keys", "domain", "bounds", "classes", "target_bounds"]
RELEASE = ["handle_unknown", "max_weight", "confidence_level", "max_rows_per_person", "memoize", "secret_key"]
RELEASE += ["ledger", "random_state"]


def rank(name):
    """Return the position of a parameter among those of its siblings; parameters of the method keep their order."""
    if name in DECLARED:
        return (0, DECLARED.index(name))
    return (2, RELEASE.index(name)) if name in RELEASE else (1, 0)


@pytest.mark.parametrize("name", [name for name in skdp.__all__ if hasattr(getattr(skdp, name), "fit")])
def test_parameters_of_siblings_have_one_order(name):
    names = list(inspect.signature(getattr(skdp, name)).parameters)
    if name == "DPColumnSynthesizer":  # selects columns first, like ColumnTransformer
        assert names.pop(0) == "columns"
    assert names == sorted(names, key=rank)


def test_former_second_names_are_gone():
    former = {"sensitive", "shares"}
    assert not [name for name, p in list_parameters() if p.name in former]
    # The purpose of a statement, and the target of a model.
    assert {name for name, p in list_parameters() if p.name == "purpose"} <= {"privacy_statement", "PrivacyStatement"}
    assert not [name for name, p in list_parameters() if p.name == "target" and name.endswith(("_file", "_files"))]
