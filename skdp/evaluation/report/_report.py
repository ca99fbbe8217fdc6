"""Report of a table: run the experiments, write the page and the tables."""

from __future__ import annotations

import base64
import io
import os
import warnings
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import pandas as pd

from skdp.base import ColumnName, Privileged, on_one_thread, track
from skdp.domain import Domain
from skdp.evaluation._style import import_pyplot
from skdp.evaluation.report._sections import (
    Section,
    choose_attacked_column,
    format_cell,
    make_study,
    study_counts,
    study_fairness,
    study_leakage,
    study_models,
    study_synthesis,
)


@on_one_thread
def study_report(
    frame: pd.DataFrame,
    domain: Domain,
    out: str | os.PathLike[str],
    *,
    epsilons: Sequence[float] = (0.1, 0.3, 0.5, 1.0, 2.0, 5.0),
    columns: Sequence[Any] | None = None,
    target: ColumnName | None = None,
    sensitive_features: ColumnName | None = None,
    privileged: Privileged | None = None,
    n_jobs: int | None = None,
    random_state: int | None = None,
) -> Path:
    """Study the cost of privacy on a table and write a page with tables and figures.

    Parameters
    ----------
    frame : pandas.DataFrame
        True rows.
    domain : Domain
        Declared values of the columns to protect and of other columns to synthesize.
    out : str or path-like
        Folder to write to. It is created if it does not exist.
    epsilons : sequence of float, default=(0.1, 0.3, 0.5, 1.0, 2.0, 5.0)
        Distinct values of epsilon, > 0.
    columns : list of column names, default=None
        Protected columns, which are reported together. If None, all columns of the
        domain.
    target : column name, default=None
        Column that classifiers predict from all other columns, which must be numbers or
        declared: 0 or 1, where 1 is favorable. If None, no classifier is trained.
    sensitive_features : column name, default=None
        Protected column of categories whose groups are compared; required with `target`.
    privileged : value or list of values, default=None
        Privileged values of `sensitive_features`.
    n_jobs : int, default=None
        Number of jobs to run in parallel, with one thread each.
    random_state : int, default=None
        None uses secure randomness. Pass an int for reproducible output.

    Returns
    -------
    Path
        Path of the page, ``index.html``. Its tables are CSV files in the same folder.

    Raises
    ------
    ImportError
        If matplotlib or jinja2 is not installed.
    TypeError, ValueError
        If a column is missing, a value is not declared, the folder is not writable, or
        parameters are inconsistent. The error is raised before the experiments.

    Notes
    -----
    **Privacy.** The report contains statistics of the true rows and is not private.

    Rows have no weights: the errors are about the rows of this table.

    Expected errors of counts are computed from the true counts, scores of classifiers are
    from 5 splits of `fairness_study`, and synthetic rows have a delta of 1e-9.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> import pandas as pd
    >>> from skdp import Domain
    >>> from skdp.evaluation import study_report
    >>> people = pd.DataFrame({"sex": ["f", "m", "m"] * 100, "shoes": [38, 42, 43] * 100})
    >>> domain = Domain({"sex": ["f", "m"]})
    >>> with TemporaryDirectory() as folder:
    ...     page = study_report(people, domain, folder, epsilons=[1.0])
    ...     sorted(path.name for path in page.parent.iterdir())[:2]
    ['count_errors.csv', 'index.html']
    """
    if not isinstance(out, str | os.PathLike):
        raise TypeError(f"`out` must be a path, got {type(out).__name__}.")
    out = Path(out)
    study = make_study(
        frame,
        domain,
        columns=columns,
        target=target,
        sensitive_features=sensitive_features,
        privileged=privileged,
        epsilons=epsilons,
        random_state=random_state,
        n_jobs=n_jobs,
    )
    _check_output(out)
    parts = [study_counts]
    if study.people is not None:
        parts += [study_models, study_fairness]
    if choose_attacked_column(study) is not None:
        parts.append(study_leakage)
    parts.append(study_synthesis)
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        # Undefined metrics are visible as nan on the page, and noise as intervals.
        sections = [part(study) for part in track(parts, "Running the study", "parts")]
    tables: dict[str, pd.DataFrame] = {}
    for section in sections:
        tables |= section.files
    others = [name for name in frame if name not in (*study.columns, target)]
    page = _render_page(
        title=f"The cost of privacy: {study.names}",
        n_rows=f"{len(study.frame):,}",
        names=study.names,
        n_cells=study.protected.size,
        others=", ".join(map(str, others)) or "none",
        sections=sections,
        figures=[
            (section.caption, _draw_figure(section))
            for section in sections
            if section.draw is not None
        ],
        n_findings=3,  # at the top of the page
        format_cell=format_cell,
        files=[f"{name}.csv" for name in tables],
    )
    # Files are written after all computations, so that an error leaves no files.
    out.mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        # Python quotes the characters of the line ends, and a label may contain them.
        table.to_csv(out / f"{name}.csv", index=False, lineterminator="\r\n")
    path = out / "index.html"
    path.write_text(page, encoding="utf-8")
    return path


def _check_output(out: Path) -> None:
    """Raise an error unless the folder is writable and the optional packages are installed."""
    # If a folder does not exist, the nearest existing parent must be writable.
    folder = next(filter(Path.exists, (out, *out.absolute().parents)))
    if not folder.is_dir():
        raise ValueError(f"`out` must be a folder, got the file {folder.name!r}.")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ValueError(
            f"`out` must be a writable folder, and {folder.name!r} is not writable."
        )
    import_pyplot()
    try:
        import jinja2  # noqa: F401
    except ImportError:
        raise ImportError(
            "The report requires jinja2, which is not installed. Use `pip install "
            "jinja2` (extra 'plot')."
        ) from None


def _draw_figure(section: Section) -> str:
    """Draw the Display of a section; return the figure as SVG in base64."""
    # Text is rendered by a font of the browser, which may have more characters. Without
    # a date and random identifiers, equal reports have equal files. Negative numbers have
    # the sign of the tables.
    settings: dict[str, Any] = {
        "svg.fonttype": "none",
        "svg.hashsalt": "skdp",
        "axes.unicode_minus": False,
    }
    pyplot, buffer, draw = import_pyplot(), io.BytesIO(), section.draw
    with pyplot.rc_context(settings), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        figure = draw().figure_
        # All figures have one size, because they stand side by side.
        figure.set_size_inches(4.6, 4.2)
        options = {"metadata": {"Date": None}, "transparent": True}
        figure.savefig(buffer, format="svg", **options)
    pyplot.close(figure)
    return base64.b64encode(buffer.getvalue()).decode()


def _render_page(**content: Any) -> str:
    """Render the template of the page; jinja2 escapes all text."""
    import jinja2

    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True
    )
    template = files("skdp.evaluation.report").joinpath("page.html.j2")
    text = template.read_text(encoding="utf-8")
    return str(environment.from_string(text).render(content))
