"""Scores of finished cells in a file, to resume an interrupted study."""

from __future__ import annotations

import json
import os
from importlib.metadata import version
from pathlib import Path
from typing import Any

import joblib
from sklearn.base import clone

from skdp.evaluation.curves._cells import Cell, Study
from skdp.evaluation.curves._scoring import Row

_KIND = "skdp.privacy_curve"


class ResultsFile:
    """A file with a line for the study, and a line for each finished cell."""

    def __init__(self, path: Any, study: str) -> None:
        if not isinstance(path, str | os.PathLike):
            raise TypeError(f"path must be a path, got {type(path).__name__}")
        self.path = Path(path)
        if self.path.is_dir():
            raise ValueError("path must be a file, got a folder")
        self._scores: dict[tuple[float, int, int], list[Row]] = {}
        text = self.path.read_bytes() if self.path.exists() else b""
        whole = text[: text.rfind(b"\n") + 1]
        if text and not whole and not _first_line(study).startswith(text):
            raise ValueError(
                "path is a file of something else than privacy_curve; name another one"
            )
        if whole:
            self._read(whole, study)
        with self.path.open("ab") as file:
            # An interruption may have left a part of the last line.
            file.truncate(len(whole))
            if not whole:
                file.write(_first_line(study))

    def _read(self, text: bytes, study: str) -> None:
        try:
            first, *cells = [json.loads(line) for line in text.splitlines()]
            found = first[_KIND]
            for cell in cells:
                rows = [
                    (metric, _group(group), float(value))
                    for metric, group, value in cell["scores"]
                ]
                self._scores[float(cell["epsilon"]), cell["repeat"], cell["fold"]] = (
                    rows
                )
        except (ValueError, TypeError, KeyError):
            raise ValueError(
                "path is a file of something else than privacy_curve; name another one"
            ) from None
        if found != study:
            raise ValueError(
                "path has the scores of another study: of another estimator, baseline, scoring, seed or version, or "
                "of other rows or splits; name another file"
            )

    def read(self, cell: Cell) -> list[Row] | None:
        return self._scores.get((cell.epsilon, cell.repeat, cell.fold))

    def add(self, cell: Cell, scores: list[Row]) -> None:
        line = {
            "epsilon": cell.epsilon,
            "repeat": cell.repeat,
            "fold": cell.fold,
            "scores": scores,
        }
        with self.path.open("ab") as file:
            file.write(json.dumps(line).encode() + b"\n")


def hash_of_study(study: Study, folds: Any, random_state: int | None) -> str:
    """Hash all that scores depend on, but for what distinguishes the cells, and for the code of functions."""
    versions = [version(package) for package in ("skdp", "scikit-learn", "numpy")]
    models = _without_ledgers(study.estimator), _without_ledgers(study.baseline)
    settings = versions, models, study.step, study.fit_only, study.scoring, random_state
    try:
        return str(
            joblib.hash(
                (
                    settings,
                    study.X,
                    study.y,
                    study.groups,
                    study.weights,
                    study.params,
                    folds,
                )
            )
        )
    except Exception as error:
        # joblib's message shows all that was to be hashed, the data included, so it is not repeated.
        raise TypeError(
            f"path needs picklable objects ({type(error).__name__}): functions and classes with a name in a module, "
            "no lambda, in the estimator, the baseline, the scoring and the data"
        ) from None


def _without_ledgers(model: Any) -> Any:
    """Return a copy whose charges do not count; "auto" and None as they are."""
    if not hasattr(model, "get_params"):
        return model
    ledgers = [
        name for name in model.get_params(deep=True) if name.split("__")[-1] == "ledger"
    ]
    return clone(model).set_params(**dict.fromkeys(ledgers))


def _first_line(study: str) -> bytes:
    return json.dumps({_KIND: study}).encode() + b"\n"


def _group(label: Any) -> Any:
    """Convert lists of JSON to tuples."""
    return tuple(label) if isinstance(label, list) else label
