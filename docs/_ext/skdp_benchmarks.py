"""A page for each file in benchmarks/results: a finding, the docstring of its script, and tables of its newest rows.

Other pages mark a table with ``<!-- results: NAME: TASKS -->`` before, and ``<!-- end of results -->`` after it;
``TASKS at epsilon 1`` has the rows of one epsilon.
``python docs/_ext/skdp_benchmarks.py`` writes the newest rows there, and a test compares them.
"""

from __future__ import annotations

import math
import re
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.ticker import LogLocator, NullFormatter

DOCS = Path(__file__).parent.parent
BENCHMARKS = DOCS.parent / "benchmarks"
sys.path.append(str(BENCHMARKS))

from _headlines import (  # noqa: E402
    read_findings,
    read_results,
    write_headline,
)
from run import RESULTS, summarize  # noqa: E402


def setup(app: Any) -> dict[str, bool]:
    """Write the pages before Sphinx looks for them."""
    pages = read_findings()
    for path in RESULTS.glob("*.csv"):
        script = import_module(path.stem)
        rows = read_results(path.stem)
        text = write_page(path.stem, rows, script, pages[path.stem])
        page = DOCS / "benchmarks" / f"{path.stem}.md"
        page.write_text(text, encoding="utf-8")
    return {"parallel_read_safe": True}


MARKED = re.compile(
    r"<!-- results: (\w+): ([\w ,]+?)(?: at epsilon ([\d.]+))? -->\n"
    r"(.*?)<!-- end of results -->",
    re.DOTALL,
)


def list_marked_pages() -> list[Path]:
    """List the pages with marked tables."""
    pages = [
        path
        for folder in ("guide", "jobs")
        for path in (DOCS / folder).glob("*.md")
    ]
    return [
        page
        for page in pages
        if MARKED.search(page.read_text(encoding="utf-8"))
    ]


def insert_results(text: str) -> str:
    """Replace each marked table of a page by the table of its task, if the task has rows."""
    return MARKED.sub(write_marked, text)


def write_marked(found: re.Match[str]) -> str:
    """Return the marks with the table of one or more tasks."""
    name, tasks, epsilon, _ = found.groups()
    rows = read_results(name)
    rows = rows[
        rows["task"].isin(tasks.split(", ")) & (rows["metric"] != "failed")
    ]
    if epsilon:
        rows = rows[rows["epsilon"] == float(epsilon)]
    if rows.empty:
        return found[0]
    has_law = "kept" in set(rows["metric"])
    head, *body = count_kept(rows) if has_law else list_means(rows)
    table = [head, ["---"] * len(head), *body]
    commits = ", ".join(rows["commit"].unique())
    return "\n".join(
        [
            found[0].partition("\n")[0],
            *(f"| {' | '.join(row)} |" for row in table),
            "",
            f"Commit: {commits}. Machine: {rows['machine'].iloc[0]}.",
            "<!-- end of results -->",
        ]
    )


def list_means(rows: pd.DataFrame) -> list[list[str]]:
    """Return the means of a metric over tables and seeds, with a column for each task."""
    means = rows.pivot_table("value", "method", "task", sort=False)
    cells = means.map("{:.3f}".format, na_action="ignore").fillna("")
    n_tables = rows.groupby("task")["table"].nunique()[means.columns]
    tasks = [
        f"{task} ({n} table{'s' if n > 1 else ''})"
        for task, n in n_tables.items()
    ]
    metric = capitalize(rows["metric"].iloc[0])
    return [[metric, *tasks], *cells.reset_index().to_numpy().tolist()]


def count_kept(rows: pd.DataFrame) -> list[list[str]]:
    """Return the number of tables that keep a law, with a column for each epsilon."""
    kept = rows[rows["metric"] == "kept"].groupby(["method", "epsilon"])[
        "value"
    ]
    cells = kept.sum().map("{:.0f}".format) + kept.size().map(
        " of {}".format
    )
    wide = cells.unstack().reset_index()
    epsilons = [f"ε = {epsilon:,g}" for epsilon in wide.columns[1:]]
    return [["Method", *epsilons], *wide.to_numpy().tolist()]


def write_page(
    name: str, rows: pd.DataFrame, script: Any, page: dict[str, Any]
) -> str:
    """Return the text of a page; `page` is its section of findings.toml."""
    commits = ", ".join(
        f"`{commit}`" for commit in rows["commit"].unique()
    )
    machines = "; ".join(rows["machine"].unique())
    parts = [
        f"# {name.replace('_', ' ').capitalize()}",
        write_headline(rows, page),
        script.__doc__,
        "A table has the newest result of each method: the mean over seeds, ± its standard error if it differs "
        "between seeds; a number without ± is from one seed, or equal for all. "
        "The best method is in bold if it is better than all others by more than two standard errors. "
        f"Commits: {commits}. Machine: {machines}.",
    ]
    is_growth = rows["task"].str.startswith("growth")
    if is_growth.any():
        parts += draw_growth(rows[is_growth], DOCS / "benchmarks")
    rows = rows[~is_growth & (rows["metric"] != "failed")]
    for task, group in join_baselines(rows).groupby("task", sort=False):
        (epsilon, *more) = group["epsilon"].unique()
        is_stated = bool(more) or math.isinf(epsilon)
        note = "" if is_stated else f", ε = {epsilon:g}"
        parts.append(f"## {capitalize(task)}{note}")
        parts += write_tables(group, page)
    return "\n\n".join(parts)


def join_baselines(rows: pd.DataFrame) -> pd.DataFrame:
    """Move results without privacy to the earlier task that has the same tables and metrics."""
    owners: dict[Any, str] = {}
    names = {}
    for task, group in rows.groupby("task", sort=False):
        key = frozenset(group["table"]), frozenset(group["metric"])
        is_baseline = np.isinf(group["epsilon"]).all()
        names[task] = owners.get(key, task) if is_baseline else task
        owners.setdefault(key, task)
    return rows.assign(task=rows["task"].map(names))


def write_tables(rows: pd.DataFrame, page: dict[str, Any]) -> list[str]:
    """Write a table for each metric of a task, or one table if the task has one epsilon."""
    summary = summarize(rows)
    if summary["epsilon"].nunique() == 1:
        return [write_table(summary, "metric", page)]
    return [
        f"### {capitalize(metric)}\n\n{write_table(group, 'epsilon', page)}"
        for metric, group in summary.groupby("metric", sort=False)
    ]


def write_table(
    summary: pd.DataFrame, across: str, page: dict[str, Any]
) -> str:
    """Write means and standard errors with epsilons or metrics as columns, and the best method in bold."""
    summary = summary.assign(
        text=[
            format_value(mean, error)
            for mean, error in zip(
                summary["mean"], summary["error"], strict=True
            )
        ]
    )
    best = find_best(summary, page)
    summary.loc[best, "text"] = "**" + summary.loc[best, "text"] + "**"
    # Epsilons are in ascending order, and metrics in the order of the script.
    columns = summary[across].drop_duplicates()
    columns = columns.sort_values() if across == "epsilon" else columns
    wide = summary.pivot_table(
        "text", ["table", "method"], across, aggfunc="first", sort=False
    )
    wide = wide.reindex(columns=columns).fillna("").reset_index()
    wide["table"] = wide["table"].where(~wide["table"].duplicated(), "")
    return to_markdown(wide.rename(columns=format_heading))


def find_best(summary: pd.DataFrame, page: dict[str, Any]) -> pd.Series:
    """Mark the best method of each table and epsilon if it is better than all others by two standard errors."""
    ranked = summary[
        ~summary["metric"].isin(page.get("unranked", []))
        & ~summary["method"].isin(page.get("bounds", []))
        & np.isfinite(summary["epsilon"])
    ]
    is_larger_better = ranked["metric"].isin(page.get("larger", []))
    cost = ranked["mean"].where(~is_larger_better, -ranked["mean"])
    # The error of one seed is unknown, unless the numbers have no noise.
    unknown = 0.0 if page.get("exact", False) else math.inf
    variance = ranked["error"].fillna(unknown) ** 2
    is_best = pd.Series(False, ranked.index)
    keys = [ranked["metric"], ranked["table"], ranked["epsilon"]]
    for _, group in cost.groupby(keys):
        if len(group) > 1:
            best, second = group.nsmallest(2).index
            error = math.sqrt(variance[best] + variance[second])
            is_best[best] = cost[second] - cost[best] > 2 * error
    return is_best.reindex(summary.index, fill_value=False)


def to_markdown(table: pd.DataFrame) -> str:
    """Write a table in Markdown; the first two columns are text, and the others are numbers."""
    alignment = [":--", ":--", *["--:"] * (len(table.columns) - 2)]
    rows = [table.columns, alignment, *table.to_numpy()]
    lines = [f"| {' | '.join(row)} |" for row in rows]
    head = [":::{table}", ":class: skdp-results", ""]
    return "\n".join([*head, *lines, ":::"])


def format_heading(column: Any) -> str:
    """Format an epsilon or a metric as the heading of a column."""
    if isinstance(column, str):
        return capitalize(column)
    return "no privacy" if math.isinf(column) else f"ε = {column:g}"


def format_value(mean: float, error: float) -> str:
    """Format a mean by the first two significant digits of its standard error."""
    if not error > 0:  # one seed, or equal results
        is_whole = mean == round(mean) or abs(mean) >= 1000
        return f"{mean:,.0f}" if is_whole else f"{mean:#.3g}"
    n_decimals = 1 - math.floor(math.log10(float(f"{error:.1e}")))
    mean, error = round(mean, n_decimals), round(error, n_decimals)
    return (
        f"{mean:,.{max(n_decimals, 0)}f} ± {error:,.{max(n_decimals, 0)}f}"
    )


def format_cell(value: float) -> str:
    """Format a number with three significant digits, or "" for a missing one."""
    return "" if math.isnan(value) else f"{float(f'{value:.3g}'):,g}"


def capitalize(text: Any) -> str:
    """Return a name with spaces, with a first capital letter."""
    text = str(text).replace("_", " ")
    return text[:1].upper() + text[1:]


def draw_growth(rows: pd.DataFrame, folder: Path) -> list[str]:
    """Draw the times of the tasks "growth" by size, and return the section of the page."""
    rows = rows.assign(
        size=rows["table"].str.replace(r"\D", "", regex=True).astype(int)
    )
    medians = rows.pivot_table(
        "value",
        ["task", "method", "size"],
        "metric",
        aggfunc="median",
        sort=False,
    ).reindex(
        columns=["seconds", "random_bytes_per_record", "urandom_seconds"]
    )
    pictures, table = [], []
    for task, times in medians.groupby(level="task", sort=False):
        name = str(task).removeprefix("growth with ")
        figure, axes = plt.subplots(
            figsize=(4.4, 4.4), layout="constrained"
        )
        for method, group in times.groupby(level="method", sort=False):
            group = group.droplevel(["task", "method"]).sort_index()
            sizes = group.index.to_numpy()
            exponent = np.polyfit(
                np.log(sizes), np.log(group["seconds"]), 1
            )[0]
            axes.loglog(sizes, group["seconds"], "o-", label=method)
            largest = group.iloc[-1] * [
                1000,
                1,
                1000,
            ]  # milliseconds, bytes
            row = [name, method, f"{exponent:.2f}", f"{sizes[-1]:,}"]
            table.append([*row, *map(format_cell, largest)])
        axes.set(xlabel=name, ylabel="seconds of CPU time")
        short = [f"{size:,}".replace(",000", "k") for size in sizes]
        axes.set_xticks(sizes, [text.replace("kk", "M") for text in short])
        low, high = axes.get_ylim()
        steps = (1, 2, 5) if high < 100 * low else (1,)
        axes.yaxis.set_major_locator(LogLocator(subs=steps))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.tick_params(
            axis="x", which="minor", bottom=False, labelbottom=False
        )
        figure.legend(loc="outside lower center", frameon=False)
        path = folder / f"growth_{name.replace(' ', '_')}.svg"
        figure.savefig(path)
        plt.close(figure)
        pictures.append(
            f":::{{grid-item}}\n![CPU time by the number of {name}, on logarithmic scales]({path.name})\n:::"
        )
    columns = [
        "Number of",
        "Method",
        "Exponent",
        "Largest",
        "Milliseconds",
        "Bytes a record",
        "ms of os.urandom",
    ]
    return [
        "## Growth\n\nThe exponent is the slope of the logarithm of the time, by least squares over all sizes.",
        "\n".join(["::::{grid} 1 1 2 2", *pictures, "::::"]),
        to_markdown(pd.DataFrame(table, columns=columns)),
    ]


if __name__ == "__main__":
    for path in list_marked_pages():
        path.write_text(
            insert_results(path.read_text(encoding="utf-8")),
            encoding="utf-8",
        )
