import sys
from contextlib import nullcontext

import pytest
from sklearn.ensemble import HistGradientBoostingClassifier


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.fixture(autouse=True, scope="module")
def unlimited_threads(request):
    """Search for loaded libraries, which takes 4 ms of each fit, only where limits of threads are tested."""
    with pytest.MonkeyPatch.context() as patched:
        if request.path.name != "test_threads.py":
            patched.setattr("skdp.base._threads.threadpool_limits", lambda limits: nullcontext())
        yield


@pytest.fixture(scope="module")
def few_trees():
    """Use few trees and splits, which take most of the time of a study."""

    def few(**parameters):
        return HistGradientBoostingClassifier(**{**parameters, "max_iter": 10})

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("skdp.evaluation._attacks.HistGradientBoostingClassifier", few)
        patched.setattr("skdp.evaluation._study_report.N_SPLITS", 2)
        yield


@pytest.fixture(scope="class")
def no_figures():
    """Exclude figures if only the text of a page is tested: they take half of the time."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("skdp.evaluation._study_report._draw_figure", lambda section: "")
        yield
