"""``skdp study``."""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skdp.base import read_frame
from skdp.cli._arguments import add_command, add_quiet, read_domain_file, read_positive
from skdp.cli._statement import import_object
from skdp.cli._transformers import ENCODERS
from skdp.datasets import load_acs_public_coverage, load_adult, load_compas, load_lsac
from skdp.evaluation import StudyTable, fairness_study

_LOADERS = {
    "acs_public_coverage": load_acs_public_coverage,
    "compas": load_compas,
    "lsac": load_lsac,
}
_ESTIMATORS = {
    "logistic_regression": make_pipeline(
        StandardScaler(), LogisticRegression(max_iter=1000)
    ),
    "gradient_boosting": HistGradientBoostingClassifier(random_state=0),
}

# What a study file may say, beside its tables, and what it must say.
_OPTIONS = ("shares", "n_splits", "test_size", "test_rows", "baselines")
_KEYS = ("title", "encoders", "epsilons", "estimator", "seed", *_OPTIONS, "tables")
_REQUIRED = ("encoders", "epsilons", "tables")

_OF_LOADER = ("loader", "path", "sensitive")
_OF_FILE = ("path", "domain", "target", "positive_label", "sensitive", "privileged")
_OPTIONAL = ("protect", "columns")


def add_study(commands: Any) -> None:
    """Add ``skdp study``."""
    study = add_command(
        commands,
        "study",
        _run_study,
        description=(
            "Fit models to tables whose protected columns are reported, left out, as "
            "they are, and made fair, on the same splits; write all scores, and a page"
            " that compares them. The page compares with true values: it is not "
            "private."
        ),
    )
    study.add_argument(
        "--config",
        type=Path,
        required=True,
        metavar="STUDY.toml",
        help="the study file: encoders, epsilons, and a table [tables.NAME] for each",
    )
    study.add_argument(
        "--out",
        type=Path,
        default=Path("study"),
        help="folder to write (default: study)",
    )
    study.add_argument(
        "--memory",
        type=Path,
        help=(
            "folder for the scores of finished fits, from which a run goes on (default:"
            " memory in the folder to write)"
        ),
    )
    study.add_argument(
        "--jobs",
        type=read_positive,
        default=1,
        help="number of processes (default: 1)",
    )
    add_quiet(study)


def _run_study(options: argparse.Namespace) -> Path:
    config = _read_config(options.config)
    folder = options.config.parent
    tables = []
    for name, settings in config["tables"].items():
        tables.append(_read_table(str(name), settings, folder))
    memory = options.out / "memory" if options.memory is None else options.memory
    given = {name: config[name] for name in _OPTIONS if name in config}
    study = fairness_study(
        tables,
        _encoders(config["encoders"]),
        epsilons=config["epsilons"],
        estimator=_estimator(config.get("estimator", "gradient_boosting"), folder),
        random_state=config.get("seed"),
        n_jobs=options.jobs,
        memory=str(memory),
        progress=not options.quiet and sys.stderr.isatty(),
        **given,
    )
    page: Path = study.save(
        options.out, title=str(config.get("title", "A study of fairness"))
    )
    return page


def _read_config(path: Path) -> dict[str, Any]:
    """Read a study file, and check that its keys are known."""
    try:
        config = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no study file {path}") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ValueError(f"study file {path} is no TOML: {error}") from None
    _check_keys(config, _KEYS, _REQUIRED, f"study file {path}")
    if not isinstance(config["tables"], Mapping) or not config["tables"]:
        raise ValueError(f"study file {path} must have a table [tables.NAME] for each")
    return config


def _check_keys(
    settings: Any, known: tuple[str, ...], required: tuple[str, ...], what: str
) -> None:
    if not isinstance(settings, Mapping):
        raise ValueError(f"{what} must be a table of settings")
    unknown = [name for name in settings if name not in known]
    if unknown:
        raise ValueError(f"{what} has unknown keys {unknown}; known are {list(known)}")
    absent = [name for name in required if name not in settings]
    if absent:
        raise ValueError(f"{what} lacks {absent}")


def _encoders(names: Any) -> dict[str, Any]:
    if not isinstance(names, list) or not all(name in ENCODERS for name in names):
        raise ValueError(
            f"encoders must be a list of some of {list(ENCODERS)}, got {names!r}"
        )
    return {name: ENCODERS[name]() for name in names}


def _estimator(name: Any, folder: Path) -> Any:
    """Return a named classifier, or the object that ``model.py:name`` names."""
    if name in _ESTIMATORS:
        return _ESTIMATORS[name]
    if not isinstance(name, str) or ":" not in name:
        raise ValueError(
            f"estimator must be one of {list(_ESTIMATORS)}, or an object such as "
            f"model.py:classifier; got {name!r}"
        )
    place, _, attribute = name.rpartition(":")
    if place.endswith(".py"):
        return import_object(f"{folder / place}:{attribute}")
    return import_object(name)


def _read_table(name: str, settings: Any, folder: Path) -> StudyTable:
    """Read a table by its loader, or from a file."""
    what = f"[tables.{name}]"
    if isinstance(settings, Mapping) and "loader" in settings:
        _check_keys(settings, _OF_LOADER, ("loader",), what)
        return _load_table(name, settings, folder)
    _check_keys(settings, (*_OF_FILE, *_OPTIONAL), _OF_FILE, what)
    domain = read_domain_file(folder / settings["domain"])
    frame = read_frame(folder / settings["path"], domain)
    target = settings["target"]
    columns = settings.get("columns", [each for each in frame if each != target])
    absent = [each for each in [target, *columns] if each not in frame]
    if absent:
        raise ValueError(f"{what}: the file has no columns {absent}")
    return StudyTable(
        frame[columns],
        frame[target],
        sensitive=settings["sensitive"],
        privileged=settings["privileged"],
        positive_label=settings["positive_label"],
        protect=settings.get("protect"),
        domain=domain,
        name=name,
    )


def _load_table(name: str, settings: Mapping[str, Any], folder: Path) -> StudyTable:
    loader = settings["loader"]
    if loader == "adult":
        bunch = load_adult(dropna=True)
    elif loader in _LOADERS:
        path = settings.get("path")
        bunch = _LOADERS[loader](None if path is None else folder / path)
    else:
        raise ValueError(
            f"[tables.{name}]: loader must be one of {['adult', *_LOADERS]}, got "
            f"{loader!r}"
        )
    sensitive = settings.get("sensitive")
    return StudyTable.from_bunch(bunch, sensitive=sensitive, name=name)
