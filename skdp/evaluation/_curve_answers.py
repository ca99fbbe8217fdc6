"""What a fitted model answers for the test rows of a cell of a privacy curve."""

from __future__ import annotations

from functools import wraps
from typing import Any

import numpy as np
import pandas as pd
from sklearn.pipeline import Pipeline

_RESPONSES = ("predict", "predict_proba", "predict_log_proba", "decision_function")


class Answers:
    """A fitted model that answers for one release of the test rows, each question once."""

    # A Pipeline (the best one, of a search) transforms the rows once, and its last step answers. Scorers take it for
    # the model, and must ask for the test rows as they were given: others would be another release.

    def __init__(self, model: Any, X: Any) -> None:
        self._given = X
        while True:
            if hasattr(model, "best_estimator_"):
                model = model.best_estimator_
            elif isinstance(model, Pipeline):
                model, X = model.steps[-1][1], _transformed(model, X)
            else:
                break
        self._model, self._rows = model, X
        self._known: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._model, name)
        if name not in _RESPONSES:
            return found

        @wraps(found)  # scikit-learn reads the name of the method
        def answer(X: Any) -> Any:
            self._check(X)
            if name not in self._known:
                self._known[name] = as_text(found(self._rows))
            return self._known[name]

        return answer

    def score(self, X: Any, y: Any) -> Any:
        """Return what the model's own `score` does."""
        self._check(X)
        return self._model.score(self._rows, y)

    def _check(self, X: Any) -> None:
        if X is not self._given:
            raise ValueError("scoring must ask for the test rows as they are; other rows would be another release")


def as_text(labels: Any) -> Any:
    """Return labels that are Python strings as NumPy's, which scikit-learn's metrics sort several times as fast."""
    strings = isinstance(labels, np.ndarray) and pd.api.types.infer_dtype(labels, skipna=False) == "string"
    return labels.astype(str) if strings else labels


def _transformed(model: Pipeline, X: Any) -> Any:
    """Transform rows as a pipeline does before its last step; steps that resample are for `fit` only."""
    for _, step in model.steps[:-1]:
        if step is not None and not isinstance(step, str) and not hasattr(step, "fit_resample"):
            X = step.transform(X)
    return X
