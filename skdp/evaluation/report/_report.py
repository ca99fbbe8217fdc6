"""The report of any table, and of Adult: run the studies, write the page and the tables."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.ensemble import HistGradientBoostingClassifier

from skdp.base import ColumnName, Label, Privileged
from skdp.domain import Domain, Interval
from skdp.evaluation.displays import import_pyplot
from skdp.evaluation.report._counts import CountStudy, count_study, errors_by_trust
from skdp.evaluation.report._experiments import (
    QUALITY,
    attack_releases,
    attacked_column,
    fairness_audits,
    model_costs,
    model_scores,
    synthesize,
)
from skdp.evaluation.report._study import LOGISTIC, Study
from skdp.evaluation.report._tables import (
    SHOWN,
    audit_table,
    counts_figure,
    counts_table,
    curve_figure,
    error_figure,
    errors_table,
    fairness_figure,
    leakage_table,
    left_out_table,
    marginal_figure,
    scores_figure,
    scores_table,
    short,
    summarise,
    synthesis_table,
    written,
)
from skdp.metrics import LABELS, fairness_report
from skdp.oracles import check_size
from skdp.privacy import check_delta
from skdp.tables import flatten_index

_CLASSIFIERS = {
    "logistic regression": LOGISTIC,
    # As accurate as 100 trees of half the learning rate. Early stopping fails where a
    # class has few rows.
    "gradient boosting": HistGradientBoostingClassifier(
        learning_rate=0.2, max_iter=40, early_stopping=False, random_state=0
    ),
}
# What fits into a figure or a table that is read, and not searched.
_MOST_MARGINALS = 4
Tables = dict[str, pd.DataFrame]


def study_report(
    frame: pd.DataFrame,
    domain: Domain,
    out: str | os.PathLike[str],
    *,
    source: str,
    columns: Sequence[Any] | None = None,
    target: ColumnName | None = None,
    positive_label: Label | None = None,
    sensitive: ColumnName | None = None,
    privileged: Privileged | None = None,
    epsilons: Sequence[float],
    n_repeats: int = 500,
    n_model_repeats: int = 5,
    delta: float = 1e-9,
    classifiers: Mapping[str, BaseEstimator] | None = None,
    random_state: int | None = None,
    n_jobs: int | None = None,
    notes: Sequence[str] = (),
    remarks: Sequence[str] = (),
    progress: Callable[[int], Any] | None = None,
) -> Path:
    """Study the cost of privacy on a table and write the report: counts, accuracy, fairness, leakage, synthesis.

    Parameters
    ----------
    frame : pandas.DataFrame
        The true rows.
    domain : Domain
        The declared columns: those to protect, and others to synthesise.
    out : str or path
        The folder to write to, created if missing.
    source : str
        The name of the data.
    columns : list of column names, optional
        The columns whose values are randomised together. By default all of the domain.
    target : column name, optional
        The column that classifiers predict from all others. Without it, accuracy and fairness are left out.
    positive_label : label, optional
        The favourable label of the target. By default 1, if all labels are 0 and 1, or False and True.
    sensitive : column name, optional
        The protected column whose groups are compared. Without it, fairness is left out.
    privileged : value or list of values, optional
        Its privileged values; of bins, their labels.
    epsilons : sequence of float
        The privacy losses to try.
    n_repeats : int, default=500
        Releases of the counts for each epsilon.
    n_model_repeats : int, default=5
        Splits into training and test rows for the classifiers.
    delta : float, default=1e-9
        The failure probability of the synthetic rows.
    classifiers : mapping of name to classifier, optional
        The classifiers. By default logistic regression and gradient boosting.
    random_state : int, optional
        None for secure randomness; an int makes the report reproducible.
    n_jobs : int, optional
        Number of processes.
    notes : sequence of str, default=()
        Further notes at the top of the page.
    remarks : sequence of str, default=()
        Further remarks on what is protected.
    progress : callable, optional
        Called with the number of steps, returns a function to call after each step.

    Returns
    -------
    Path
        The page.

    Raises
    ------
    ImportError
        If matplotlib is missing, or aif360 for fairness.
    TypeError
        If the name of a column is no text, or the folder no path.
    ValueError
        If a column is missing, a value is not declared, the folder cannot be written to, or options contradict each
        other. Then nothing is computed or written.

    Notes
    -----
    **Privacy.** The report compares with the truth: it is not protected.

    Besides the page, ``index.html``, the folder has its numbers as CSV files. Figures of a single release show the
    epsilon that is nearest to 1.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> people = pd.DataFrame({"sex": ["Female", "Male", "Male"] * 100, "shoes": [38, 42, 43, 39, 41, 42] * 50})
    >>> with TemporaryDirectory() as folder:
    ...     page = study_report(people, Domain({"sex": ["Female", "Male"]}), Path(folder), source="a small table",
    ...                         epsilons=[1.0], n_repeats=3, random_state=0)
    ...     sorted(path.name for path in page.parent.iterdir())[:4]
    ['count_errors.csv', 'index.html', 'leakage.csv']
    """
    if not isinstance(out, str | os.PathLike):
        raise TypeError(f"`out` must be a path, got {type(out).__name__}")
    out = Path(out)
    study = Study.read(
        frame,
        domain,
        columns=columns,
        target=target,
        positive_label=positive_label,
        sensitive=sensitive,
        privileged=privileged,
        epsilons=epsilons,
        random_state=random_state,
        n_jobs=n_jobs,
    )
    _check_before(out, n_repeats, n_model_repeats, delta)
    models = _CLASSIFIERS if classifiers is None else classifiers
    # A step for each part: counts, models, audits, attacks and synthetic rows.
    roles = study.target, study.sensitive, attacked_column(study)
    n_parts = 5 - roles.count(None)
    advance = progress(n_parts) if progress else lambda: None
    counts = count_study(
        study.frame[study.columns],
        study.protected,
        epsilons=epsilons,
        n_repeats=n_repeats,
        random_state=study.seed(0),
    )
    advance()
    tables: Tables = {
        "release_counts": flatten_index(counts.releases),
        "count_errors": counts.summary(),
    }
    # What the template shows, part by part. Numbers are written here, as the template
    # has words only.
    content: dict[str, Any] = {
        "counts": {
            "repeats": f"{n_repeats:,}",
            "figure": counts_figure(pd.DataFrame(counts.releases.loc[study.example])),
            "table": counts_table(counts),
            "l1": error_figure(counts, "l1"),
            "l2": error_figure(counts, "l2", _by_trust(counts, delta)),
            "errors": errors_table(counts),
            "repaired": _repaired(counts),
            "by_trust": bool(delta),
        },
        **_model_content(study, models, n_model_repeats, tables, advance),
        "leakage": _leakage_content(study, tables, advance),
        "synthesis": _synthesis_content(study, delta, tables, advance),
    }
    # Nothing is written before all is computed.
    out.mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        table.to_csv(out / f"{name}.csv", index=False)
    page = _render(
        title=f"What privacy costs: {study.names}",
        source=source,
        notes=notes,
        remarks=remarks,
        study=study,
        example=short(study.example),
        positive_label=positive_label,
        summary=summarise(study, counts, tables),
        guarantee=study.encoder(max(study.epsilons)).guarantee_,
        delta=short(delta),
        files=", ".join(f"{name}.csv" for name in tables),
        **content,
    )
    path = out / "index.html"
    path.write_text(page, encoding="utf-8")
    return path


def _by_trust(counts: CountStudy, delta: float) -> pd.DataFrame | None:
    """Return the errors of the same counts if reports are shuffled, or a curator is trusted."""
    true = counts.releases["true"].xs(counts.expected.index[0]).to_numpy()
    if not delta:
        return None
    return errors_by_trust(true, epsilons=list(counts.expected.index), delta=delta)


def _repaired(counts: CountStudy) -> bool:
    """Return whether some count fell below zero, so that repairs changed it."""
    # Repairs leave counts as they are where none is below zero.
    means = counts.errors.groupby("postprocess")["l1"].mean()
    return not np.allclose(means, means.iloc[0])


def _check_before(out: Path, n_repeats: Any, n_model_repeats: Any, delta: Any) -> None:
    """Check in advance what would fail after minutes of work."""
    for name, number in (
        ("n_repeats", n_repeats),
        ("n_model_repeats", n_model_repeats),
    ):
        check_size(number, least=1, name=name)
    check_delta(delta)
    # Of a folder that does not exist, the nearest one above must be writable.
    folder = next(filter(Path.exists, (out, *out.absolute().parents)))
    if not folder.is_dir():
        raise ValueError(f"`out` must be a folder, but {folder.name!r} is a file")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ValueError(
            f"`out` must be a folder that can be written to; {folder.name!r} cannot"
        )
    import_pyplot()  # last, as it takes a second
    _import_jinja2()


def _model_content(
    study: Study,
    models: Mapping[str, BaseEstimator],
    n_repeats: int,
    tables: Tables,
    advance: Callable[[], Any],
) -> dict[str, Any]:
    if study.target is None:
        return {"models": None, "fairness": None}
    # One table of scores, of which means, costs, tables and figures are made.
    scores = model_scores(study, models, n_repeats)
    advance()
    grouped = scores.groupby(["classifier", "epsilon", "metric"], sort=False)["value"]
    means = grouped.agg(["mean", "std", "count"]).reset_index()
    tables["model_scores"] = means.merge(model_costs(scores), how="left")
    content = {"models": _quality_content(study, scores), "fairness": None}
    if study.sensitive is not None:
        audits = fairness_audits(study)
        advance()
        tables["fairness_audits"] = audit_table(audits)
        content["fairness"] = _fairness_content(study, scores, audits, tables)
    return content


def _quality_content(study: Study, scores: pd.DataFrame) -> dict[str, Any]:
    """Return what the page says of the quality of the models."""
    n_rows = len(study.y)
    n_positives = int(study.y.sum())
    n_negatives = n_rows - n_positives
    n_rare = min(n_positives, n_negatives)
    figures = {name: scores_figure(scores, name) for name in QUALITY}
    columns = ["classifier", "columns are", *QUALITY]
    return {
        "positives": f"{n_positives:,}",
        "share": f"{n_positives / n_rows:.1%}",
        "rare": "" if study.scores_hold else f"{n_rare:,}",
        "majority": f"{max(n_positives, n_negatives) / n_rows:.1%}",
        "repeats": scores["repeat"].nunique(),
        "quality": figures,
        "scores": written(scores_table(scores)[columns]),
    }


def _fairness_content(
    study: Study,
    scores: pd.DataFrame,
    audits: Mapping[float, Mapping[str, pd.DataFrame]],
    tables: Tables,
) -> dict[str, Any]:
    """Return what the page says of the fairness of the models."""
    # Definitions are those of a report of any table.
    example = fairness_report(
        [0, 1, 0, 1], [0, 1, 1, 1], [0, 0, 1, 1], privileged=1, positive_label=1
    )
    groups = study.frame[study.sensitive]
    # A missing group is unprivileged.
    is_privileged = groups.isin(study.privileged)
    n_rows = is_privileged.sum(), (~is_privileged).sum(), groups.isna().sum()
    definitions = zip(example["metric"].map(LABELS), example["definition"], strict=True)
    figures = {name: scores_figure(scores, name) for name in SHOWN}
    table = scores_table(scores).drop(columns=list(QUALITY))
    return {
        "rows": list(map("{:,}".format, n_rows)),
        "undefined": bool(scores["value"].isna().any()),
        # The first six are of the groups themselves.
        "definitions": list(definitions)[6:],
        "figures": figures,
        "scores": written(table),
        "from_left_out": written(left_out_table(tables["model_scores"])),
        "audit": fairness_figure(audits[study.example]),
        "audits": written(tables["fairness_audits"]),
    }


def _leakage_content(
    study: Study, tables: Tables, advance: Callable[[], Any]
) -> dict[str, Any] | None:
    column = attacked_column(study)
    if column is None:
        return None
    results = attack_releases(study)
    advance()
    tables["leakage"] = leakage_table(results)
    example = results[study.example]
    return {
        "others": bool(study.others),
        "column": column,
        "n_rows": f"{example.n_rows:,}",
        "table": written(tables["leakage"]),
    }


def _synthesis_content(
    study: Study, delta: float, tables: Tables, advance: Callable[[], Any]
) -> dict[str, Any]:
    synthesis = synthesize(study, delta)
    advance()
    curve = synthesis.curve
    tables["synthesis"] = curve[["epsilon", "metric", "value"]]
    # Each metric has a scale of its own, and so a figure.
    figures = {}
    for metric in curve["metric"].unique():
        figures[metric] = curve_figure(curve, metric, "real rows")
    marginals = {}
    for name in study.columns[:_MOST_MARGINALS]:
        marginals[str(name)] = marginal_figure(
            synthesis.real, synthesis.synthetic, name, study.domain
        )
    return {
        "names": ", ".join(map(str, study.domain.columns)),
        "partly": len(study.domain.columns) < study.frame.shape[1],
        "figures": figures,
        "marginals": marginals,
        "table": synthesis_table(curve),
        "remarks": synthesis.remarks,
    }


def _import_jinja2() -> Any:
    """Import jinja2, a dependency of the extra "plot"."""
    try:
        import jinja2
    except ImportError as error:
        raise ImportError(
            "jinja2 is needed for the report: pip install jinja2 (extra 'plot')"
        ) from error
    return jinja2


def _render(**content: Any) -> str:
    jinja2 = _import_jinja2()
    from markupsafe import Markup, escape

    def powers(text: str) -> Any:
        """Escape a text, and set e^ε as a power."""
        return Markup(escape(text).replace("e^ε", Markup("e<sup>ε</sup>")))

    # Names of columns and values are texts of anybody, so all of them are escaped, and a
    # name that the template misspells is an error.
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True
    )
    environment.filters |= {
        "anchor": lambda text: re.sub(r"\W+", "-", text.lower()).strip("-"),
        "base64": lambda text: base64.b64encode(text.encode()).decode(),
        "powers": powers,
        "title_case": lambda text: text[0].upper() + text[1:],
    }
    # The template is a file of the package, which may be in an archive.
    template = (
        files("skdp.evaluation.report")
        .joinpath("page.html.j2")
        .read_text(encoding="utf-8")
    )
    return str(environment.from_string(template).render(content))


# Declared, not the median of the data, which depends on the age of each person and
# would relabel others.
AGE_THRESHOLD = 37

_NUMBERS_OF_ADULT: dict[str, Any] = {
    "education-num": list(range(1, 17)),
    "capital-gain": Interval(edges=[0, 1, 5000, 10_000, 100_000]),
    "capital-loss": Interval(edges=[0, 1, 1500, 2000, 5000]),
    "hours-per-week": Interval(edges=[0, 20, 35, 40, 41, 50, 60, 100]),
}
_THRESHOLD_REMARK = (
    f"The threshold of {AGE_THRESHOLD} years is declared, not read from the data. The "
    f"median happens to be {AGE_THRESHOLD} too, but a median depends on every record: "
    "one changed record can move it, relabel many other people, and so reveal its "
    "presence."
)


def age_sex_report(
    X: pd.DataFrame, y: pd.Series, out: str | os.PathLike[str], **options: Any
) -> Path:
    """Run the age × sex study on Adult and write its report, with options of `study_report`."""
    # A weight of the survey, and education-num as text.
    frame = X.drop(columns=["fnlwgt", "education"])
    groups = pd.Index([f"{AGE_THRESHOLD} or younger", f"over {AGE_THRESHOLD}"])
    frame["age"] = pd.Categorical.from_codes(
        (frame["age"] > AGE_THRESHOLD).to_numpy().astype(int), groups
    )
    declared = dict(_NUMBERS_OF_ADULT)
    for name in frame.columns.difference(list(declared), sort=False):
        declared[name] = list(frame[name].cat.categories)
    domain = Domain(declared).select(frame.columns)
    return study_report(
        frame.assign(income=y.to_numpy()),
        domain,
        out,
        source="Adult",
        columns=["age", "sex"],
        target="income",
        positive_label=">50K",
        sensitive="sex",
        privileged="Male",
        remarks=[_told_by_relationship(frame), _THRESHOLD_REMARK],
        **options,
    )


def _told_by_relationship(frame: pd.DataFrame) -> str:
    """Write how much a column that nobody protects says of a protected one."""
    # Reports of the sex protect little where this column is published beside them.
    relationship = frame["relationship"]
    tells = relationship.isin(["Husband", "Wife"])
    is_right = relationship.eq("Husband") == frame["sex"].eq("Male")
    return (
        "A column that tells: relationship (Husband or Wife) tells the sex of "
        f"{tells.mean():.1%} of the people, and is right for "
        f"{is_right[tells].mean():.2%} of them."
    )
