"""Each public interval and standard error is measured by `benchmarks/every_interval.py`, or equals a measured one."""

import importlib
import inspect
import re

from tests.test_benchmarks import FOLDER, load_script

PACKAGES = ["skdp", *(f"skdp.{name}" for name in ("central", "engines", "evaluation", "local", "metrics", "survey"))]

# Functions that return measured intervals, and functions without intervals of their own.
EQUAL = {
    "DPCategoricalNB.class_count_std_error_": "DPGaussianNB.class_count_std_error_",
    "LocalTableEncoder.estimate_joint_counts": "RandomizedResponseEncoder.estimate_joint_counts",
    "LocalTableEncoder.estimate_mean": "NumericPerturber.estimate_mean",
    "ReportLinearRegression.summary": "ReportLogisticRegression.summary",
    "estimate_file": "RandomizedResponseEncoder.estimate_counts",
}
EXCLUDED = {
    "grade_estimates": "letters of intervals that are passed",
}
# Errors in the tables of `summary`, `shape_` and `to_frame`, which are measured.
IN_TABLES = {"coef_std_error_", "intercept_std_error_", "shapes_std_error_", "std_error_"}


def find_measure(name):
    """Return the function that makes the intervals, which classes may inherit."""
    owner, _, member = name.partition(".")
    for package in PACKAGES:
        found = getattr(importlib.import_module(package), owner, None)
        if found is not None:
            return getattr(found, member).__qualname__ if hasattr(found, member) else name
    raise AssertionError(name)


def list_intervals():
    """List public callables with `confidence_level`, and fitted attributes that are standard errors."""
    for package in map(importlib.import_module, PACKAGES):
        for name in package.__all__:
            found = getattr(package, name)
            if not inspect.isclass(found):
                if inspect.isfunction(found) and has_level(found):
                    yield name
                continue
            if has_level(found):
                yield name
            members = inspect.getmembers(found, inspect.isfunction)
            yield from (f"{name}.{key}" for key, member in members if key[0] != "_" and has_level(member))
            attributes = re.findall(r"^(\w*std_error_) : ", inspect.getdoc(found) or "", re.MULTILINE)
            yield from (f"{name}.{attribute}" for attribute in attributes if attribute not in IN_TABLES)


def has_level(found):
    function = found.__init__ if inspect.isclass(found) else found
    return "confidence_level" in inspect.signature(function).parameters


def test_each_public_interval_is_measured(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    releases = load_script("every_interval").RELEASES
    measured = {name for release in releases.values() for name in release.names}
    known = {find_measure(name) for name in [*measured, *EQUAL, *EXCLUDED]}
    assert not {name for name in list_intervals() if find_measure(name) not in known}
    assert {*EQUAL.values()} <= measured


def test_equal_and_excluded_intervals_exist():
    assert {*EQUAL, *EXCLUDED} <= {*list_intervals()}
